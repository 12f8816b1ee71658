/*
 * One msgpack value as a line of text for people: `{op = "status", keys = u64[48], [1, 2.5, nil]}`. Of typed arrays
 * and binaries the size, of strings the first 40 bytes. Takes values that are cut short (the beginning of a long
 * message) and bytes that are no msgpack: what can be read is printed, then "...". No allocation, no recursion.
 */
#include "wire/head.h"

#include <stdio.h>

enum { TEXT_MAX = 40, NUMBER_TEXT = 40 };

struct level {
    uint64_t left; /* values; in a map two a pair: an even number means a key is next */
    bool map;
};

struct description {
    char *out;
    size_t size, capacity;
    bool full;
};

static void put(struct description *d, const void *text, size_t size) {
    size_t room = d->capacity - 1 - d->size;
    d->full = d->full || size > room;
    size = size < room ? size : room;
    memcpy(d->out + d->size, text, size);
    d->size += size;
}

static void put_text(struct description *d, const char *text) {
    put(d, text, strlen(text));
}

static void put_number(struct description *d, const uint8_t *at, size_t size, enum tide_type type) {
    char text[NUMBER_TEXT];
    struct tide_reader r;
    tide_reader_init(&r, at, size);
    if (type == TIDE_DOUBLE) {
        snprintf(text, sizeof text, "%.6g", tide_read_double(&r));
    } else if (type == TIDE_UINT) {
        snprintf(text, sizeof text, "%llu", (unsigned long long)tide_read_uint(&r));
    } else {
        snprintf(text, sizeof text, "%lld", (long long)tide_read_int(&r));
    }
    put_text(d, text);
}

static const char *ext_name(int code) {
    static const char *const names[] = {
        [TIDE_F32] = "f32", [TIDE_F64] = "f64", [TIDE_F16] = "f16", [TIDE_BF16] = "bf16", [TIDE_I32] = "i32",
        [TIDE_I64] = "i64", [TIDE_U64] = "u64", [TIDE_U8] = "u8",   [TIDE_U32] = "u32",   [TIDE_U16] = "u16"};
    return code > 0 && (size_t)code < TIDE_COUNT(names) ? names[code] : NULL;
}

static void put_sized(struct description *d, const struct tide__head *h) {
    char text[NUMBER_TEXT];
    const char *name = h->type == TIDE_EXT ? ext_name(h->code) : NULL;
    if (name) {
        snprintf(text, sizeof text, "%s[%zu]", name, h->payload / tide_ext_element_size(h->code));
    } else {
        snprintf(text, sizeof text, "<%u bytes>", (unsigned)h->payload);
    }
    put_text(d, text);
}

/* Keys that are words stand for themselves. */
static void put_string(struct description *d, const uint8_t *text, size_t size, size_t there, bool key) {
    size_t shown = there < TEXT_MAX ? there : TEXT_MAX;
    put_text(d, key ? "" : "\"");
    put(d, text, shown);
    put_text(d, shown < size ? "..." : "");
    put_text(d, key ? "" : "\"");
}

/* What stands before a value: a comma, or the sign behind a key. */
static void put_separator(struct description *d, const struct level *level, bool first) {
    if (level->map && level->left % 2 == 1) {
        put_text(d, " = ");
    } else if (!first) {
        put_text(d, ", ");
    }
}

/* The value whose head is h, of which `there` bytes follow the head. False: it goes beyond what is there. */
static bool put_value(struct description *d, const struct tide__head *h, const uint8_t *at, size_t there, bool key) {
    switch (h->type) {
    case TIDE_NIL:
        put_text(d, "nil");
        return true;
    case TIDE_BOOL:
        put_text(d, at[0] == 0xc3 ? "true" : "false");
        return true;
    case TIDE_STRING:
        put_string(d, at + h->size, h->payload, there < h->payload ? there : h->payload, key);
        return there >= h->payload;
    case TIDE_BINARY:
    case TIDE_EXT:
        put_sized(d, h);
        return there >= h->payload;
    default:
        if (there < h->payload) {
            return false;
        }
        put_number(d, at, h->size + h->payload, h->type);
        return true;
    }
}

size_t tide_describe(const void *data, size_t size, char *out, size_t capacity) {
    const uint8_t *at = data, *end = at + size;
    struct description d = {.out = out, .capacity = capacity};
    struct level levels[TIDE_DEPTH_MAX + 1] = {{.left = 1}};
    unsigned depth = 0;
    bool first = true, whole = true;
    while (whole && !d.full) {
        struct level *level = &levels[depth];
        if (level->left == 0) {
            if (depth == 0) {
                break;
            }
            put_text(&d, level->map ? "}" : "]");
            depth--;
            first = false;
            continue;
        }
        struct tide__head h;
        enum tide__head_error error = tide__head_read(at, end, &h);
        size_t left = (size_t)(end - at);
        if (error == TIDE__HEAD_TAG || left < h.size) {
            whole = false;
            break;
        }
        put_separator(&d, level, first);
        bool key = level->map && level->left % 2 == 0;
        level->left--;
        if (h.type == TIDE_ARRAY || h.type == TIDE_MAP) {
            put_text(&d, h.type == TIDE_MAP ? "{" : "[");
            whole = depth < TIDE_DEPTH_MAX;
            if (whole) {
                bool map = h.type == TIDE_MAP;
                levels[++depth] = (struct level){.left = map ? 2 * (uint64_t)h.count : h.count, .map = map};
                first = true;
                at += h.size;
            }
        } else {
            whole = put_value(&d, &h, at, left - h.size, key);
            at += whole ? h.size + h.payload : 0;
            first = false;
        }
    }
    if (!whole && !d.full) {
        put_text(&d, "...");
    }
    if (d.full && capacity > 3) {
        memcpy(out + capacity - 4, "...", 3);
    }
    out[d.size] = 0;
    return d.size;
}
