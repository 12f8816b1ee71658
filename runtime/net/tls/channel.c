/*
 * Channels: see channel.h. Under TLS plain bytes count as written when their ciphertext is with the socket: what is
 * sealed and does not fit is owed, and the next write, which begins with the same bytes, starts behind them. So whoever
 * has written all may close.
 */
#include "net/tls/channel.h"

#include <string.h>

enum { RECORD_BYTES = 16 << 10 };

static void give_up(struct tide_channel *c, int code) {
    if (!c->closed) {
        c->closed = true;
        c->code = code;
        c->port->ops->stream_close(c->stream);
    }
}

/* Ciphertext to the socket. 1: all of it, 0: `writable` follows, negative: closed. */
static int flush(struct tide_channel *c) {
    size_t size;
    const uint8_t *data;
    while ((data = tide__tls_output(c->session, &size)) && size > 0) {
        const struct tide_iovec vector = {.data = data, .size = size};
        ssize_t n = c->port->ops->stream_write(c->stream, &vector, 1);
        if (n < 0) {
            return (int)n; /* `closed` follows */
        }
        tide__tls_written(c->session, (size_t)n);
        if ((size_t)n < size) {
            return 0;
        }
    }
    return 1;
}

static void fail(struct tide_channel *c, int code) {
    (void)flush(c); /* the alert, as far as it goes */
    give_up(c, code);
}

/* ---- events of the stream under TLS ---- */

static void shake_hands(struct tide_channel *c) {
    int rc = tide__tls_handshake(c->session);
    if (rc < 0) {
        fail(c, rc);
        return;
    }
    if (flush(c) < 0) {
        return;
    }
    if (rc == 1) {
        c->established = true;
        if (!c->accepts) {
            c->events->connected(c->arg, c->stream);
        }
    }
}

static void connected(void *arg, struct tide_stream *stream) {
    struct tide_channel *c = arg;
    (void)stream;
    if (!c->closed) {
        shake_hands(c);
    }
}

static void buffer(void *arg, void **data, size_t *size) {
    struct tide_channel *c = arg;
    *data = c->closed ? NULL : tide__tls_input(c->tls);
    *size = *data ? TIDE_TLS_INPUT : 0;
    if (!*data) {
        give_up(c, TIDE_ENOMEM);
    }
}

/* All that is there, because the buffer is shared. */
static void read_all(struct tide_channel *c) {
    while (!c->closed) {
        void *data;
        size_t size;
        c->events->buffer(c->arg, &data, &size);
        if (size == 0 || c->closed) {
            return; /* which closed it */
        }
        ssize_t n = tide__tls_read(c->session, data, size);
        if (n < 0) {
            fail(c, (int)n);
        }
        if (n <= 0) {
            break;
        }
        c->events->received(c->arg, (size_t)n);
    }
    if (!c->closed) {
        (void)flush(c); /* reading may have answered a key update */
    }
}

static void received(void *arg, size_t size) {
    struct tide_channel *c = arg;
    if (c->closed) {
        return;
    }
    tide__tls_feed(c->session, tide__tls_input(c->tls), size);
    if (!c->established) {
        shake_hands(c);
    }
    if (c->established) {
        read_all(c);
    }
    tide__tls_feed(c->session, NULL, 0);
}

static void writable(void *arg) {
    struct tide_channel *c = arg;
    if (!c->closed && flush(c) == 1 && c->established) {
        c->events->writable(c->arg);
    }
}

static void closed(void *arg, int reason) {
    struct tide_channel *c = arg;
    c->closed = true;
    c->events->closed(c->arg, c->code != 0 ? c->code : reason);
}

static const struct tide_stream_events events_of_tls = {
    .connected = connected, .buffer = buffer, .received = received, .writable = writable, .closed = closed};

/* ---- what a channel's user calls ---- */

static int begin(struct tide_channel *c, struct tide_port *port, struct tide_tls *tls, bool accepts,
                 const struct tide_stream_events *events, void *arg) {
    *c = (struct tide_channel){.port = port, .tls = tls, .events = events, .arg = arg, .accepts = accepts};
    if (tls) {
        c->session = tide__tls_begin(tls, accepts);
        if (!c->session) {
            return tide_fail(TIDE_ENOMEM, "out of memory for a TLS connection");
        }
    }
    return 0;
}

int tide__channel_connect(struct tide_channel *c, struct tide_port *port, struct tide_executor *executor,
                          const char *endpoint, struct tide_tls *tls, const struct tide_stream_events *events,
                          void *arg) {
    int rc = begin(c, port, tls, false, events, arg);
    if (rc == 0) {
        rc = port->ops->connect(executor, endpoint, tls ? &events_of_tls : events, tls ? c : arg, &c->stream);
    }
    if (rc != 0) {
        tide__channel_release(c);
    }
    return rc;
}

int tide__channel_accept(struct tide_channel *c, struct tide_port *port, struct tide_stream *stream,
                         struct tide_tls *tls, const struct tide_stream_events *events, void *arg) {
    int rc = begin(c, port, tls, true, events, arg);
    if (rc == 0) {
        c->stream = stream;
        port->ops->stream_accept(stream, tls ? &events_of_tls : events, tls ? c : arg);
    }
    return rc;
}

/* Seals some of what is at *vector, `skip` bytes into it: small pieces gathered into a record. Returns how much. */
static ssize_t seal(struct tide_channel *c, const struct tide_iovec **vector, const struct tide_iovec *end,
                    size_t *skip) {
    uint8_t record[RECORD_BYTES];
    size_t gathered = 0;
    while (*vector < end) {
        const uint8_t *data = (const uint8_t *)(*vector)->data + *skip;
        size_t size = (*vector)->size - *skip;
        if (gathered == 0 && size >= RECORD_BYTES) {
            size = size < TIDE_TLS_BATCH ? size : TIDE_TLS_BATCH;
            int rc = tide__tls_write(c->session, data, size);
            *skip += size;
            if (*skip == (*vector)->size) {
                ++*vector;
                *skip = 0;
            }
            return rc < 0 ? rc : (ssize_t)size;
        }
        size_t room = RECORD_BYTES - gathered, part = size < room ? size : room;
        memcpy(record + gathered, data, part);
        gathered += part;
        *skip += part;
        if (part == size) {
            ++*vector;
            *skip = 0;
        }
        if (gathered == RECORD_BYTES) {
            break;
        }
    }
    int rc = gathered > 0 ? tide__tls_write(c->session, record, gathered) : 0;
    return rc < 0 ? rc : (ssize_t)gathered;
}

static ssize_t write_sealed(struct tide_channel *c, const struct tide_iovec *vectors, size_t count) {
    const struct tide_iovec *at = vectors, *end = vectors + count;
    int flushed = c->established ? flush(c) : 0;
    if (flushed <= 0) {
        return flushed;
    }
    size_t done = TIDE_MUTANT(tls_owed_again) ? 0 : c->owed, skip = c->owed, waiting = 0;
    c->owed = 0;
    while (at < end && skip >= at->size) {
        skip -= at++->size;
    }
    while (at < end && flushed == 1) {
        ssize_t n = seal(c, &at, end, &skip);
        if (n < 0) {
            fail(c, (int)n);
            return n;
        }
        waiting += (size_t)n;
        size_t output;
        (void)tide__tls_output(c->session, &output);
        if (output >= TIDE_TLS_BATCH || at >= end) {
            flushed = flush(c);
            done += flushed == 1 ? waiting : 0;
            waiting = flushed == 1 ? 0 : waiting;
        }
    }
    c->owed = waiting;
    return flushed < 0 ? flushed : (ssize_t)done;
}

ssize_t tide__channel_write(struct tide_channel *c, const struct tide_iovec *vectors, size_t count) {
    return !c->session ? c->port->ops->stream_write(c->stream, vectors, count) : write_sealed(c, vectors, count);
}

void tide__channel_close(struct tide_channel *c) {
    if (c->session && !c->closed && c->established && c->owed == 0) {
        tide__tls_goodbye(c->session);
        (void)flush(c);
    }
    give_up(c, 0);
}

void tide__channel_peer(const struct tide_channel *c, struct tide_channel_peer *out) {
    c->port->ops->stream_peer(c->stream, &out->stream);
    out->who = c->session && c->established ? tide__tls_peer(c->session) : NULL;
}

const char *tide__channel_reason(const struct tide_channel *c) {
    const char *reason = c->session ? tide__tls_reason(c->session) : "";
    return reason[0] != 0 ? reason : NULL;
}

void tide__channel_release(struct tide_channel *c) {
    tide__tls_end(c->session);
    c->session = NULL;
}
