/*
 * Intake of a link: chunks, frames, fragments. Every length is bounded before anything is allocated
 * for it: frames by 16 MiB (1 KiB before hello), fragmented ones by their lane's limit, with one
 * open at a time in each lane and 64 MiB over all lanes.
 */
#include "net/link/decoder.h"
#include "net/link/outbox.h"

#include <string.h>

enum {
    LENGTH_WORD = 4,
    GREETING_CHUNK = TIDE_FRAME_HELLO_MAX + 512,
    READ_LEAST = 1024, /* a read into less room than this is not worth its system call */
    READ_HEADS = 4096, /* between fragments: the head, so that the body comes straight to its place */
};

void tide__decoder_init(struct tide_decoder *decoder, struct tide_blob **spare) {
    *decoder = (struct tide_decoder){.spare = spare, .greeting = true, .direct_lane = -1};
}

void tide__assembly_drop(struct tide_assembly lanes[TIDE_LANE_COUNT]) {
    for (unsigned i = 0; i < TIDE_LANE_COUNT; i++) {
        tide_blob_unref(lanes[i].blob);
        lanes[i] = (struct tide_assembly){0};
    }
}

void tide__decoder_deinit(struct tide_decoder *decoder) {
    tide_blob_unref(decoder->chunk);
    tide__assembly_drop(decoder->lanes);
    tide__decoder_init(decoder, decoder->spare);
}

void tide__decoder_suspend(struct tide_decoder *decoder, struct tide_assembly lanes[TIDE_LANE_COUNT]) {
    for (unsigned i = 0; i < TIDE_LANE_COUNT; i++) {
        lanes[i] = decoder->lanes[i];
        lanes[i].filled = lanes[i].whole;
        decoder->lanes[i] = (struct tide_assembly){0};
    }
    tide__decoder_deinit(decoder);
}

void tide__decoder_resume(struct tide_decoder *decoder, struct tide_assembly lanes[TIDE_LANE_COUNT],
                          uint64_t sequenced) {
    for (unsigned i = 0; i < TIDE_LANE_COUNT; i++) {
        decoder->lanes[i] = lanes[i];
        lanes[i] = (struct tide_assembly){0};
    }
    decoder->sequenced = sequenced;
}

static bool shared(const struct tide_blob *blob) {
    /* acquire: pairs with the release in tide_blob_unref, so that other readers are done before we
     * overwrite */
    return __atomic_load_n(&blob->refs, __ATOMIC_ACQUIRE) > 1;
}

static size_t frame_max(const struct tide_decoder *decoder) {
    return decoder->greeting ? TIDE_FRAME_HELLO_MAX : TIDE_FRAME_MAX;
}

static struct tide_blob *take_spare(struct tide_decoder *in) {
    struct tide_blob *chunk = in->spare ? *in->spare : NULL;
    if (chunk) {
        *in->spare = NULL;
    }
    return chunk ? chunk : tide_blob_create(TIDE_INTAKE_CHUNK);
}

/* All of the chunk is parsed: another link may have it. */
static void rest(struct tide_decoder *in) {
    in->start = in->end = 0;
    if (in->spare && !*in->spare && in->chunk->size == TIDE_INTAKE_CHUNK) {
        *in->spare = in->chunk;
    } else {
        tide_blob_unref(in->chunk);
    }
    in->chunk = NULL;
}

/* A chunk that has room for `need` bytes from `start` on. */
static int make_room(struct tide_decoder *in, size_t need) {
    size_t have = in->end - in->start;
    if (in->chunk && !shared(in->chunk) && in->chunk->size >= need) {
        memmove(in->chunk->data, (uint8_t *)in->chunk->data + in->start, have);
        in->start = 0;
        in->end = have;
        return 0;
    }
    size_t usual = in->greeting ? GREETING_CHUNK : TIDE_INTAKE_CHUNK;
    struct tide_blob *fresh = need > usual / 2 ? tide_blob_create(need > have ? need : have + 1)
                              : in->greeting   ? tide_blob_create(usual)
                                               : take_spare(in);
    if (!fresh) {
        return TIDE_ENOMEM;
    }
    if (have > 0) {
        memcpy(fresh->data, (uint8_t *)in->chunk->data + in->start, have);
    }
    tide_blob_unref(in->chunk);
    in->chunk = fresh;
    in->start = 0;
    in->end = have;
    return 0;
}

static bool is_assembling(const struct tide_decoder *in) {
    for (unsigned i = 0; i < TIDE_LANE_COUNT; i++) {
        if (in->lanes[i].blob) {
            return true;
        }
    }
    return false;
}

int tide__decoder_buffer(struct tide_decoder *in, void **data, size_t *size) {
    if (in->direct_lane >= 0) {
        struct tide_assembly *a = &in->lanes[in->direct_lane];
        *data = (uint8_t *)a->blob->data + a->filled;
        *size = in->direct_left;
        return 0;
    }
    size_t have = in->end - in->start;
    int64_t length = !in->chunk ? 0 : tide_frame_length((uint8_t *)in->chunk->data + in->start, have, frame_max(in));
    TIDE_ASSERT(length >= 0); /* else received() had refused it */
    size_t need = length > 0 ? (size_t)length : have + (in->greeting ? LENGTH_WORD : READ_LEAST);
    if (!in->chunk || in->chunk->size - in->start < need) {
        int error = make_room(in, need);
        if (error != 0) {
            return error;
        }
    }
    *data = (uint8_t *)in->chunk->data + in->end;
    *size = in->chunk->size - in->end;
    size_t wanted = need - have > READ_HEADS ? need - have : READ_HEADS;
    if (*size > wanted && is_assembling(in)) {
        *size = wanted;
    }
    return 0;
}

/* ---- fragments ---- */

struct fragment {
    uint8_t kind, lane;
    uint64_t stream, total, offset;
    size_t head, size; /* of its body: bytes before and after the start of the payload */
};

/* Reads the head of a frame that is not complete yet; false if it is no fragment or its head is not
 * there. */
static bool peek_fragment(const uint8_t *at, size_t size, struct fragment *out) {
    struct tide_reader r;
    tide_reader_init(&r, at, size);
    if (tide_read_array(&r) != 5) {
        return false;
    }
    uint64_t tag = tide_read_uint(&r);
    *out = (struct fragment){.kind = tag & 15, .lane = (uint8_t)(tag >> 4 & 15)};
    out->stream = tide_read_uint(&r);
    out->total = tide_read_uint(&r);
    out->offset = tide_read_uint(&r);
    if (r.error != 0 || tag > 255 || out->kind != TIDE_FRAME_FRAGMENT || r.at == r.end) {
        return false;
    }
    unsigned width = *r.at == 0xc4 ? 1 : *r.at == 0xc5 ? 2 : *r.at == 0xc6 ? 4 : 0;
    if (width == 0 || (size_t)(r.end - r.at) < 1 + width) {
        return false;
    }
    for (unsigned i = 1; i <= width; i++) {
        out->size = out->size << 8 | r.at[i];
    }
    out->head = (size_t)(r.at - at) + 1 + width;
    return true;
}

/* Checks the fragment against what is pending in its lane and makes the blob of a new one. */
static int open_fragment(struct tide_decoder *in, const struct fragment *f) {
    if (f->lane == TIDE_LANE_SYSTEM || f->lane >= TIDE_LANE_COUNT || f->size == 0) {
        return tide_fail(TIDE_EPROTO, "a fragment of %zu bytes in lane %u", f->size, (unsigned)f->lane);
    }
    struct tide_assembly *a = &in->lanes[f->lane];
    if (f->total > tide__frame_limit(f->lane) + TIDE_FRAME_HEAD) {
        return tide_fail(TIDE_ELIMIT, "a fragmented frame of %llu bytes in lane %u", (unsigned long long)f->total,
                         (unsigned)f->lane);
    }
    if (f->offset == 0 && !a->blob) {
        size_t open = 0;
        for (unsigned i = 0; i < TIDE_LANE_COUNT; i++) {
            open += in->lanes[i].blob ? in->lanes[i].blob->size : 0;
        }
        if (open + (size_t)f->total > tide__open_limit()) {
            return tide_fail(TIDE_ELIMIT, "fragmented frames of %zu bytes at one time", open + (size_t)f->total);
        }
        a->blob = tide_blob_create((size_t)f->total);
        if (!a->blob) {
            return TIDE_ENOMEM;
        }
        a->stream = f->stream;
        a->filled = a->whole = 0;
    }
    if (!a->blob || a->stream != f->stream || a->blob->size != f->total || a->filled != f->offset ||
        f->size > a->blob->size - a->filled) {
        return tide_fail(TIDE_EPROTO, "a fragment out of order: stream %llu, offset %llu, %zu bytes",
                         (unsigned long long)f->stream, (unsigned long long)f->offset, f->size);
    }
    return 0;
}

/* A fragment is there to its end. Delivers the frame of the lane with its last. */
static int finish_fragment(struct tide_decoder *in, unsigned lane, tide_decoder_frame deliver, void *arg) {
    struct tide_assembly *a = &in->lanes[lane];
    in->sequenced++;
    a->whole = a->filled;
    if (a->filled < a->blob->size) {
        return 0;
    }
    struct tide_blob *blob = a->blob;
    *a = (struct tide_assembly){0};
    struct tide_frame frame;
    int error = tide_frame_parse(blob->data, blob->size, &frame);
    if (error == 0 && (frame.kind == TIDE_FRAME_FRAGMENT || frame.lane != lane)) {
        error = tide_fail(TIDE_EPROTO, "a fragmented frame of kind %u, lane %u came in lane %u", (unsigned)frame.kind,
                          (unsigned)frame.lane, lane);
    }
    if (error == 0) {
        error = deliver(arg, &frame, blob);
    }
    tide_blob_unref(blob);
    return error;
}

/* A whole or partial fragment at the start of the chunk: copies what is there, lets the rest come
 * straight. */
static int take_fragment(struct tide_decoder *in, const struct fragment *f, size_t length, tide_decoder_frame deliver,
                         void *arg) {
    if (LENGTH_WORD + f->head + f->size != length) {
        return tide_fail(TIDE_EPROTO, "a fragment's body is not one binary");
    }
    int error = open_fragment(in, f);
    if (error != 0) {
        return error;
    }
    struct tide_assembly *a = &in->lanes[f->lane];
    size_t payload = in->start + LENGTH_WORD + f->head;
    size_t have = in->end - payload < f->size ? in->end - payload : f->size;
    memcpy((uint8_t *)a->blob->data + a->filled, (uint8_t *)in->chunk->data + payload, have);
    a->filled += have;
    in->start = payload + have;
    if (have < f->size) {
        in->direct_lane = f->lane;
        in->direct_left = f->size - have;
        return 0;
    }
    return finish_fragment(in, f->lane, deliver, arg);
}

/* ---- frames ---- */

/* Parses the frame at `start`. 1: it was there; 0: more bytes are needed. */
static int parse_one(struct tide_decoder *in, tide_decoder_frame deliver, void *arg) {
    uint8_t *at = (uint8_t *)in->chunk->data + in->start;
    size_t have = in->end - in->start;
    int64_t length = tide_frame_length(at, have, frame_max(in));
    if (length <= 0) {
        return (int)length;
    }
    struct fragment fragment;
    size_t whole = (size_t)length;
    size_t frame_bytes = (have < whole ? have : whole) - LENGTH_WORD;
    if (!in->greeting && peek_fragment(at + LENGTH_WORD, frame_bytes, &fragment)) {
        int error = take_fragment(in, &fragment, whole, deliver, arg);
        return error != 0 ? error : in->direct_lane < 0;
    }
    if (have < whole) {
        return 0;
    }
    struct tide_frame frame;
    int error = tide_frame_parse(at + LENGTH_WORD, whole - LENGTH_WORD, &frame);
    if (error == 0 && frame.kind == TIDE_FRAME_FRAGMENT) {
        error = tide_fail(TIDE_EPROTO, "a damaged fragment");
    }
    in->start += whole;
    if (error == 0) {
        in->sequenced += tide__frame_sequenced(frame.kind, frame.lane, frame.to);
        error = deliver(arg, &frame, in->chunk);
    }
    return error != 0 ? error : 1;
}

int tide__decoder_received(struct tide_decoder *in, size_t size, tide_decoder_frame deliver, void *arg) {
    if (in->direct_lane >= 0) {
        unsigned lane = (unsigned)in->direct_lane;
        TIDE_ASSERT(size <= in->direct_left);
        in->lanes[lane].filled += size;
        in->direct_left -= size;
        if (in->direct_left > 0) {
            return 0;
        }
        in->direct_lane = -1;
        return finish_fragment(in, lane, deliver, arg);
    }
    in->end += size;
    TIDE_ASSERT(in->chunk && in->end <= in->chunk->size);
    int result;
    do {
        result = parse_one(in, deliver, arg);
    } while (result == 1);
    if (in->start == in->end && in->chunk && !shared(in->chunk)) {
        rest(in);
    }
    return result;
}
