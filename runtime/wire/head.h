/*
 * Private to the wire room: splits the head of one msgpack value. One function serves the cursor,
 * the skip and the pre-scan, so that they cannot disagree about where a value ends.
 */
#ifndef TIDE_WIRE_HEAD_H
#define TIDE_WIRE_HEAD_H

#include "wire/wire.h"

#include <string.h>

static inline uint16_t tide__load16(const uint8_t *at) {
    uint16_t v;
    memcpy(&v, at, sizeof v);
    return __builtin_bswap16(v);
}

static inline uint32_t tide__load32(const uint8_t *at) {
    uint32_t v;
    memcpy(&v, at, sizeof v);
    return __builtin_bswap32(v);
}

static inline uint64_t tide__load64(const uint8_t *at) {
    uint64_t v;
    memcpy(&v, at, sizeof v);
    return __builtin_bswap64(v);
}

static inline void tide__store16(uint8_t *at, uint16_t v) {
    v = __builtin_bswap16(v);
    memcpy(at, &v, sizeof v);
}

static inline void tide__store32(uint8_t *at, uint32_t v) {
    v = __builtin_bswap32(v);
    memcpy(at, &v, sizeof v);
}

static inline void tide__store64(uint8_t *at, uint64_t v) {
    v = __builtin_bswap64(v);
    memcpy(at, &v, sizeof v);
}

/*
 * What stands before a value. Invariant after success: `size` bytes of head and, for scalars,
 * strings, binaries and exts, `payload` bytes after it lie inside the bytes; for containers at
 * least one byte a child is left.
 */
struct tide__head {
    enum tide_type type;
    uint32_t size;    /* bytes of tag, length and ext code */
    uint32_t payload; /* bytes after the head that belong to this value and are no children */
    uint32_t count;   /* children: elements of an array, pairs of a map */
    int code;         /* of an ext */
};

enum tide__head_error {
    TIDE__HEAD_OK,
    TIDE__HEAD_SHORT, /* the bytes end inside the value */
    TIDE__HEAD_TAG,   /* 0xc1, which msgpack never uses */
    TIDE__HEAD_COUNT, /* more children announced than bytes are left */
};

static inline enum tide__head_error tide__head_ext(const uint8_t *at, size_t left, uint32_t length_bytes,
                                                   uint32_t payload, struct tide__head *h) {
    h->type = TIDE_EXT;
    h->size = 2 + length_bytes;
    if (left < h->size) {
        return TIDE__HEAD_SHORT;
    }
    h->payload = length_bytes == 0   ? payload
                 : length_bytes == 1 ? at[1]
                 : length_bytes == 2 ? tide__load16(at + 1)
                                     : tide__load32(at + 1);
    h->code = (int8_t)at[1 + length_bytes];
    return left - h->size < h->payload ? TIDE__HEAD_SHORT : TIDE__HEAD_OK;
}

/* Strings, binaries and containers with an explicit length of 1, 2 or 4 bytes. */
static inline enum tide__head_error tide__head_long(const uint8_t *at, size_t left, uint32_t length_bytes,
                                                    enum tide_type type, struct tide__head *h) {
    h->type = type;
    h->size = 1 + length_bytes;
    if (left < h->size) {
        return TIDE__HEAD_SHORT;
    }
    uint32_t n = length_bytes == 1 ? at[1] : length_bytes == 2 ? tide__load16(at + 1) : tide__load32(at + 1);
    left -= h->size;
    if (type == TIDE_ARRAY || type == TIDE_MAP) {
        h->count = n;
        return left < (type == TIDE_MAP ? 2 * (uint64_t)n : n) ? TIDE__HEAD_COUNT : TIDE__HEAD_OK;
    }
    h->payload = n;
    return left < n ? TIDE__HEAD_SHORT : TIDE__HEAD_OK;
}

static inline enum tide__head_error tide__head_scalar(size_t left, uint32_t payload, enum tide_type type,
                                                      struct tide__head *h) {
    h->type = type;
    h->payload = payload;
    return left - 1 < payload ? TIDE__HEAD_SHORT : TIDE__HEAD_OK;
}

/* Integers that fit int64_t are TIDE_INT whatever their tag; only 0xcf with the top bit set is
 * TIDE_UINT. */
static inline enum tide__head_error tide__head_read(const uint8_t *at, const uint8_t *end, struct tide__head *h) {
    size_t left = (size_t)(end - at);
    *h = (struct tide__head){.type = TIDE_INT, .size = 1};
    if (TIDE_UNLIKELY(left == 0)) {
        return TIDE__HEAD_SHORT;
    }
    uint8_t tag = at[0];
    if (tag < 0x80 || tag >= 0xe0) {
        return TIDE__HEAD_OK;
    }
    if (tag < 0xa0) {
        h->type = tag < 0x90 ? TIDE_MAP : TIDE_ARRAY;
        h->count = tag & 15u;
        return left - 1 < (tag < 0x90 ? 2u * h->count : h->count) ? TIDE__HEAD_COUNT : TIDE__HEAD_OK;
    }
    if (tag < 0xc0) {
        return tide__head_scalar(left, tag & 31u, TIDE_STRING, h);
    }
    if (tag >= 0xcc && tag <= 0xd3) {
        bool above = tag == 0xcf && left > 1 && at[1] >= 0x80;
        return tide__head_scalar(left, 1u << (tag & 3), above ? TIDE_UINT : TIDE_INT, h);
    }
    switch (tag) {
    case 0xc0:
        h->type = TIDE_NIL;
        return TIDE__HEAD_OK;
    case 0xc2:
    case 0xc3:
        h->type = TIDE_BOOL;
        return TIDE__HEAD_OK;
    case 0xc4:
    case 0xc5:
    case 0xc6:
        return tide__head_long(at, left, 1u << (tag - 0xc4), TIDE_BINARY, h);
    case 0xc7:
    case 0xc8:
    case 0xc9:
        return tide__head_ext(at, left, 1u << (tag - 0xc7), 0, h);
    case 0xca:
    case 0xcb:
        return tide__head_scalar(left, 4u << (tag - 0xca), TIDE_DOUBLE, h);
    case 0xd4:
    case 0xd5:
    case 0xd6:
    case 0xd7:
    case 0xd8:
        return tide__head_ext(at, left, 0, 1u << (tag - 0xd4), h);
    case 0xd9:
    case 0xda:
    case 0xdb:
        return tide__head_long(at, left, 1u << (tag - 0xd9), TIDE_STRING, h);
    case 0xdc:
    case 0xdd:
        return tide__head_long(at, left, 2u << (tag - 0xdc), TIDE_ARRAY, h);
    case 0xde:
    case 0xdf:
        return tide__head_long(at, left, 2u << (tag - 0xde), TIDE_MAP, h);
    default: /* 0xc1 */
        return TIDE__HEAD_TAG;
    }
}

#endif
