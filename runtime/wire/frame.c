/*
 * Frames: the length word and the five-element head around every message between nodes. Our own
 * frames have a head of fixed widths, which the parser recognises and reads without a cursor;
 * foreign ones may use any msgpack integers.
 */
#include "wire/head.h"

enum {
    FRAME_LENGTH = 4,                  /* the length word */
    FRAME_FIXED = TIDE_FRAME_HEAD - 4, /* head of our own frames without it */
    FRAME_LEAST = 6,                   /* array tag, four one-byte integers, a one-byte body */
};

void tide_frame_head(uint8_t out[TIDE_FRAME_HEAD], const struct tide_frame *frame, size_t body_size) {
    TIDE_ASSERT(frame->kind < TIDE_FRAME_KIND_COUNT && frame->lane < TIDE_LANE_COUNT);
    TIDE_ASSERT(body_size <= UINT32_MAX - FRAME_FIXED);
    uint32_t length = (uint32_t)(FRAME_FIXED + body_size);
    for (int i = 0; i < FRAME_LENGTH; i++) {
        out[i] = (uint8_t)(length >> (8 * i));
    }
    out[4] = 0x95;
    out[5] = (uint8_t)(frame->kind | frame->lane << 4);
    out[6] = 0xcf;
    tide__store64(out + 7, frame->to);
    out[15] = 0xcf;
    tide__store64(out + 16, frame->from);
    out[24] = 0xcf;
    tide__store64(out + 25, frame->call);
}

int64_t tide_frame_length(const void *data, size_t size, size_t limit) {
    const uint8_t *at = data;
    if (size < FRAME_LENGTH) {
        return 0;
    }
    uint32_t length = at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
    if (length > limit) {
        return tide_fail(TIDE_ELIMIT, "a frame of %u bytes; %zu are allowed here", (unsigned)length, limit);
    }
    if (length < FRAME_LEAST) {
        return tide_fail(TIDE_EPROTO, "a frame of %u bytes is too short to be one", (unsigned)length);
    }
    return (int64_t)FRAME_LENGTH + length;
}

int tide_frame_parse(const void *data, size_t size, struct tide_frame *out) {
    const uint8_t *at = data;
    uint64_t tag;
    *out = (struct tide_frame){0};
    if (size > UINT32_MAX) {
        return tide_fail(TIDE_ELIMIT, "a frame of %zu bytes", size);
    }
    if (TIDE_LIKELY(size > FRAME_FIXED && at[0] == 0x95 && at[1] < 0x80 && at[2] == 0xcf && at[11] == 0xcf &&
                    at[20] == 0xcf)) {
        tag = at[1];
        out->to = tide__load64(at + 3);
        out->from = tide__load64(at + 12);
        out->call = tide__load64(at + 21);
        out->body = at + FRAME_FIXED;
    } else {
        struct tide_reader r;
        tide_reader_init(&r, data, size);
        size_t count = tide_read_array(&r);
        if (r.error != 0 || count != 5) {
            return tide_fail(TIDE_EPROTO, "a frame of %zu bytes does not begin with an array of 5", size);
        }
        tag = tide_read_uint(&r);
        out->to = tide_read_uint(&r);
        out->from = tide_read_uint(&r);
        out->call = tide_read_uint(&r);
        if (r.error != 0 || r.at == r.end) {
            return tide_fail(TIDE_EPROTO, "the head of a frame of %zu bytes is damaged", size);
        }
        out->body = r.at;
    }
    if (tag >> 4 >= TIDE_LANE_COUNT || (tag & 15) >= TIDE_FRAME_KIND_COUNT) {
        return tide_fail(TIDE_EPROTO, "a frame of unknown kind or lane: %llu", (unsigned long long)tag);
    }
    out->kind = (uint8_t)(tag & 15);
    out->lane = (uint8_t)(tag >> 4);
    out->body_size = (uint32_t)(size - (size_t)(out->body - at));
    return 0;
}
