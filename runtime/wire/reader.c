/*
 * The msgpack cursor: zero-copy reads over bytes that stay where they are. It trusts nothing: each
 * read checks its own bounds, so it is safe on foreign bytes even without tide_scan; the scan adds
 * the limits (depth, items, duplicates). After a failure the cursor stands at the end, which makes
 * every later read fail by the ordinary bounds check.
 */
#include "wire/head.h"

static __attribute__((noinline, cold)) void reader_fail(struct tide_reader *r) {
    r->error = TIDE_EPROTO;
    r->at = r->end;
}

/* The head of the next value when it has `type`, with the cursor past the head. */
static inline bool reader_head(struct tide_reader *r, enum tide_type type, struct tide__head *h) {
    if (TIDE_UNLIKELY(tide__head_read(r->at, r->end, h) != TIDE__HEAD_OK || h->type != type)) {
        reader_fail(r);
        return false;
    }
    r->at += h->size;
    return true;
}

void tide_reader_init(struct tide_reader *r, const void *data, size_t size) {
    const uint8_t *at = data;
    *r = (struct tide_reader){.at = at, .end = size ? at + size : at};
}

enum tide_type tide_read_type(const struct tide_reader *r) {
    struct tide__head h;
    if (r->at == r->end || tide__head_read(r->at, r->end, &h) == TIDE__HEAD_TAG) {
        return TIDE_END;
    }
    return h.type; /* known from the tag even when the value is cut short: reading it then fails */
}

bool tide_read_nil(struct tide_reader *r) {
    if (r->at != r->end && *r->at == 0xc0) {
        r->at += 1;
        return true;
    }
    return false;
}

bool tide_read_bool(struct tide_reader *r) {
    if (TIDE_LIKELY(r->at != r->end && (*r->at | 1) == 0xc3)) {
        return *r->at++ & 1;
    }
    reader_fail(r);
    return false;
}

/* Any integer: its bits, and whether it is negative. false: not an integer (the caller decides). */
static inline bool reader_integer(struct tide_reader *r, uint64_t *bits, bool *negative) {
    size_t left = (size_t)(r->end - r->at);
    *negative = false;
    if (TIDE_UNLIKELY(left == 0)) {
        return false;
    }
    const uint8_t *at = r->at;
    uint8_t tag = at[0];
    if (tag < 0x80) {
        *bits = tag;
        r->at += 1;
        return true;
    }
    if (tag >= 0xe0) {
        *bits = (uint64_t)(int64_t)(int8_t)tag;
        *negative = true;
        r->at += 1;
        return true;
    }
    if (tag < 0xcc || tag > 0xd3) {
        return false;
    }
    size_t bytes = (size_t)1 << (tag & 3);
    if (left - 1 < bytes) {
        return false;
    }
    bool is_signed = tag >= 0xd0;
    switch (bytes) {
    case 1:
        *bits = is_signed ? (uint64_t)(int64_t)(int8_t)at[1] : at[1];
        break;
    case 2:
        *bits = tide__load16(at + 1);
        *bits = is_signed ? (uint64_t)(int64_t)(int16_t)*bits : *bits;
        break;
    case 4:
        *bits = tide__load32(at + 1);
        *bits = is_signed ? (uint64_t)(int64_t)(int32_t)*bits : *bits;
        break;
    default:
        *bits = tide__load64(at + 1);
        break;
    }
    *negative = is_signed && (*bits >> 63) != 0;
    r->at += 1 + bytes;
    return true;
}

int64_t tide_read_int(struct tide_reader *r) {
    uint64_t bits;
    bool negative;
    if (TIDE_UNLIKELY(!reader_integer(r, &bits, &negative) || (!negative && bits > INT64_MAX))) {
        reader_fail(r);
        return 0;
    }
    return (int64_t)bits;
}

uint64_t tide_read_uint(struct tide_reader *r) {
    uint64_t bits;
    bool negative;
    if (TIDE_UNLIKELY(!reader_integer(r, &bits, &negative) || negative)) {
        reader_fail(r);
        return 0;
    }
    return bits;
}

double tide_read_double(struct tide_reader *r) {
    size_t left = (size_t)(r->end - r->at);
    uint64_t bits;
    bool negative;
    if (left >= 9 && r->at[0] == 0xcb) {
        double value;
        bits = tide__load64(r->at + 1);
        memcpy(&value, &bits, sizeof value);
        r->at += 9;
        return value;
    }
    if (left >= 5 && r->at[0] == 0xca) {
        float value;
        uint32_t single = tide__load32(r->at + 1);
        memcpy(&value, &single, sizeof value);
        r->at += 5;
        return (double)value;
    }
    if (reader_integer(r, &bits, &negative)) {
        return negative ? (double)(int64_t)bits : (double)bits;
    }
    reader_fail(r);
    return 0;
}

const char *tide_read_string(struct tide_reader *r, size_t *size) {
    struct tide__head h;
    if (TIDE_LIKELY(r->at != r->end && (*r->at & 0xe0) == 0xa0)) { /* most keys and names */
        size_t short_size = *r->at & 31u;
        if (TIDE_LIKELY((size_t)(r->end - r->at) > short_size)) {
            const char *short_text = (const char *)r->at + 1;
            *size = short_size;
            r->at += 1 + short_size;
            return short_text;
        }
    }
    *size = 0;
    if (!reader_head(r, TIDE_STRING, &h)) {
        return NULL;
    }
    const char *text = (const char *)r->at;
    *size = h.payload;
    r->at += h.payload;
    return text;
}

void tide_read_text(struct tide_reader *r, char *out, size_t capacity) {
    size_t size;
    const char *text = tide_read_string(r, &size);
    if (capacity > 0) {
        out[0] = 0;
    }
    if (!text) {
        return;
    }
    /* A zero inside would make two different names equal for C. */
    if (size >= capacity || memchr(text, 0, size)) {
        reader_fail(r);
        return;
    }
    memcpy(out, text, size);
    out[size] = 0;
}

const void *tide_read_binary(struct tide_reader *r, size_t *size) {
    struct tide__head h;
    *size = 0;
    if (!reader_head(r, TIDE_BINARY, &h)) {
        return NULL;
    }
    const void *data = r->at;
    *size = h.payload;
    r->at += h.payload;
    return data;
}

size_t tide_read_array(struct tide_reader *r) {
    struct tide__head h;
    return reader_head(r, TIDE_ARRAY, &h) ? h.count : 0;
}

size_t tide_read_map(struct tide_reader *r) {
    struct tide__head h;
    return reader_head(r, TIDE_MAP, &h) ? h.count : 0;
}

const void *tide_read_ext(struct tide_reader *r, int *code, size_t *size) {
    struct tide__head h;
    *size = 0;
    *code = 0;
    if (!reader_head(r, TIDE_EXT, &h)) {
        return NULL;
    }
    const void *data = r->at;
    *code = h.code;
    *size = h.payload;
    r->at += h.payload;
    return data;
}

const void *tide_read_typed(struct tide_reader *r, enum tide_ext code, size_t *count) {
    size_t size, element = tide_ext_element_size((int)code);
    int found;
    *count = 0;
    TIDE_ASSERT(element != 0);
    const void *data = tide_read_ext(r, &found, &size);
    if (!data) {
        return NULL;
    }
    if (TIDE_UNLIKELY(found != (int)code || size % element != 0)) {
        reader_fail(r);
        return NULL;
    }
    *count = size / element;
    return data;
}

void tide_read_skip(struct tide_reader *r) {
    uint64_t pending = 1; /* values still to pass; each takes at least one byte, which bounds it */
    while (pending > 0) {
        struct tide__head h;
        if (TIDE_UNLIKELY(pending > (uint64_t)(r->end - r->at) ||
                          tide__head_read(r->at, r->end, &h) != TIDE__HEAD_OK)) {
            reader_fail(r);
            return;
        }
        r->at += h.size + h.payload;
        pending += (h.type == TIDE_MAP ? 2 * (uint64_t)h.count : h.count) - 1;
    }
}

bool tide_read_field(const struct tide_reader *r, const char *key, struct tide_reader *value) {
    struct tide_reader at = *r;
    size_t size = strlen(key);
    size_t pairs = tide_read_map(&at);
    for (size_t i = 0; i < pairs && at.error == 0; i++) {
        struct tide_reader name = at;
        size_t found;
        tide_read_skip(&at);
        if (at.error == 0 && tide_read_type(&name) == TIDE_STRING) {
            const char *text = tide_read_string(&name, &found);
            if (found == size && memcmp(text, key, size) == 0) {
                *value = at;
                return true;
            }
        }
        tide_read_skip(&at);
    }
    return false;
}
