/*
 * Samples for readers. A piece is formatted once, when it is published; every stream sends the same bytes. A
 * stream that has sent all there is suspends its connection, and the next sample wakes it.
 */
#include "inside.h"
#include "tide.h"

#include "base/base.h"

#include <stdio.h>
#include <string.h>

void tide__http_drop(struct piece *piece) {
    if (piece && --piece->holders == 0) {
        tide_free(piece);
    }
}

static struct piece *make(uint64_t number, const char *event, const char *data, size_t size) {
    char head[96];
    int head_size = snprintf(head, sizeof head, "id: %llu\nevent: %s\ndata: ", (unsigned long long)number, event);
    struct piece *piece = tide_alloc(sizeof *piece + (size_t)head_size + size + 2);
    if (!piece) {
        return NULL;
    }
    piece->holders = 1;
    piece->number = number;
    piece->size = (size_t)head_size + size + 2;
    piece->data = (size_t)head_size;
    piece->data_size = size;
    memcpy(piece->text, head, (size_t)head_size);
    memcpy(piece->text + head_size, data, size);
    memcpy(piece->text + head_size + size, "\n\n", 2);
    return piece;
}

/* ---- one stream ---- */

/* What comes after what it has sent; NULL: nothing yet. Samples first, then the state, which is newer than they are. */
static struct piece *next_piece(struct stream *stream) {
    struct tide_http *http = stream->http;
    if (stream->number > http->last) { /* of a server before this one */
        stream->number = 0;
    }
    if (stream->number < http->last) {
        if (stream->number + 1 < http->first) {
            struct piece *gap = NULL;
            if (stream->number > 0) { /* else it is new here, and takes what there is */
                char text[64];
                int size = snprintf(text, sizeof text, "{\"lost\":%llu}",
                                    (unsigned long long)(http->first - 1 - stream->number));
                gap = make(http->first - 1, "gap", text, (size_t)size);
                http->stats.gaps++;
            }
            stream->number = http->first - 1;
            if (gap) {
                return gap;
            }
        }
        struct piece *piece = http->ring[++stream->number % TIDE_HTTP_SAMPLES];
        piece->holders++;
        return piece;
    }
    if (http->state && stream->state < http->state->number) {
        stream->state = http->state->number;
        http->state->holders++;
        return http->state;
    }
    return NULL;
}

/* Its token may have expired or been revoked since it began: judged again with each new sample. */
static bool still_let_in(struct stream *stream) {
    static const char target[] = "/api/stream";
    const struct tide_http_head head = {
        .method = "GET", .target = target, .target_size = sizeof target - 1, .version = "HTTP/1.1"};
    struct tide_http_person who;
    const char *why;
    if (stream->judged == stream->http->last) {
        return true;
    }
    stream->judged = stream->http->last;
    return tide__http_judge(stream->http, stream->connection, &head, &who, &why) == 0;
}

static ssize_t read_more(void *arg, uint64_t position, char *out, size_t capacity) {
    struct stream *stream = arg;
    struct tide_http *http = stream->http;
    ssize_t taken = 0;
    (void)position;
    pthread_mutex_lock(&http->lock);
    const bool over = http->closing || (!stream->piece && !still_let_in(stream));
    if (!stream->piece) {
        stream->piece = over ? NULL : next_piece(stream);
        stream->sent = 0;
    }
    if (over) {
        taken = MHD_CONTENT_READER_END_OF_STREAM;
    } else if (stream->piece) {
        size_t left = stream->piece->size - stream->sent;
        size_t n = left < capacity ? left : capacity;
        memcpy(out, stream->piece->text + stream->sent, n);
        stream->sent += n;
        if (stream->sent == stream->piece->size) {
            tide__http_drop(stream->piece);
            stream->piece = NULL;
        }
        taken = (ssize_t)n;
    } else {
        stream->asleep = true;
        MHD_suspend_connection(stream->connection);
    }
    pthread_mutex_unlock(&http->lock);
    return taken;
}

static void ended(void *arg) {
    struct stream *stream = arg;
    struct tide_http *http = stream->http;
    pthread_mutex_lock(&http->lock);
    tide__http_drop(stream->piece);
    *(stream->previous ? &stream->previous->next : &http->streams) = stream->next;
    if (stream->next) {
        stream->next->previous = stream->previous;
    }
    http->stream_count--;
    pthread_mutex_unlock(&http->lock);
    tide_free(stream);
}

struct MHD_Response *tide__http_stream(struct tide_http *http, struct MHD_Connection *connection, uint64_t after) {
    struct stream *stream = http->stream_count < TIDE_HTTP_STREAMS ? tide_alloc_zero(1, sizeof *stream) : NULL;
    if (!stream) {
        return NULL;
    }
    *stream = (struct stream){.http = http, .connection = connection, .number = after, .judged = http->last};
    struct MHD_Response *response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 16384, read_more, stream, ended);
    if (!response) {
        tide_free(stream);
        return NULL;
    }
    stream->next = http->streams;
    if (stream->next) {
        stream->next->previous = stream;
    }
    http->streams = stream;
    http->stream_count++;
    return response;
}

/* ---- all of them ---- */

void tide__http_wake(struct tide_http *http) {
    for (struct stream *stream = http->streams; stream; stream = stream->next) {
        if (stream->asleep) {
            stream->asleep = false;
            MHD_resume_connection(stream->connection);
        }
    }
}

static void forget_oldest(struct tide_http *http) {
    struct piece **slot = &http->ring[http->first++ % TIDE_HTTP_SAMPLES];
    http->ring_bytes -= (*slot)->size;
    tide__http_drop(*slot);
    *slot = NULL;
}

int tide__http_publish(struct tide_http *http, const char *sample, size_t sample_size, const char *state,
                       size_t state_size) {
    if (sample_size > TIDE_HTTP_RING_BYTES / 2 || state_size > TIDE_HTTP_STATE_BYTES) {
        return TIDE_ELIMIT;
    }
    pthread_mutex_lock(&http->lock);
    uint64_t number = http->last + 1;
    struct piece *piece = make(number, "sample", sample, sample_size);
    struct piece *newest = make(number, "state", state, state_size);
    if (!piece || !newest) {
        tide_free(piece);
        tide_free(newest);
        pthread_mutex_unlock(&http->lock);
        return TIDE_ENOMEM;
    }
    if (http->first + TIDE_HTTP_SAMPLES == number) {
        forget_oldest(http);
    }
    http->ring[number % TIDE_HTTP_SAMPLES] = piece;
    http->last = number;
    http->ring_bytes += piece->size;
    while (http->ring_bytes > TIDE_HTTP_RING_BYTES) {
        forget_oldest(http);
    }
    tide__http_drop(http->state);
    http->state = newest;
    http->stats.samples++;
    tide__http_wake(http);
    pthread_mutex_unlock(&http->lock);
    return 0;
}
