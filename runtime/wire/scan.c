/*
 * The pre-scan of foreign bytes: one pass, no allocation, no recursion, before anything is built
 * from them.
 *
 * Accepts exactly one msgpack value within the limits of wire.h: depth, number of values, string
 * lengths, known ext codes with whole elements, no string key twice in a map of up to 64 pairs
 * (larger maps are for data, whose readers look keys up anyway). A refusal names the offset.
 * Whatever it accepts, msgpack-c decodes (the fuzzer holds both to that).
 */
#include "wire/head.h"

enum { SCAN_KEYS = 64 };

/* A container that is not complete. */
struct scan_level {
    uint64_t pending; /* values left; in a map two a pair: an even number means a key is next */
    uint32_t key_count;
    bool keys_checked; /* a map whose keys are compared */
};

struct scan_key {
    const uint8_t *text;
    uint32_t size;
};

/* About 17 KiB of stack; only the touched part costs anything. */
struct scan {
    struct scan_level levels[TIDE_DEPTH_MAX];
    struct scan_key keys[TIDE_DEPTH_MAX][SCAN_KEYS];
};

static int scan_head_error(enum tide__head_error error, size_t offset) {
    switch (error) {
    case TIDE__HEAD_TAG:
        return tide_fail(TIDE_EPROTO, "byte %zu: tag 0xc1 is not msgpack", offset);
    case TIDE__HEAD_COUNT:
        return tide_fail(TIDE_EPROTO, "byte %zu: count is more than the bytes left", offset);
    default:
        return tide_fail(TIDE_EPROTO, "byte %zu: the value is cut short", offset);
    }
}

static int scan_ext(const struct tide__head *h, size_t offset) {
    size_t element = tide_ext_element_size(h->code);
    if (element == 0) {
        return tide_fail(TIDE_EPROTO, "byte %zu: unknown ext code %d", offset, h->code);
    }
    if (h->payload % element != 0) {
        return tide_fail(TIDE_EPROTO, "byte %zu: ext of %u bytes is not whole elements of %zu", offset,
                         (unsigned)h->payload, element);
    }
    return 0;
}

static bool scan_key_repeats(struct scan_level *level, struct scan_key *keys, const uint8_t *text, uint32_t size) {
    for (uint32_t i = 0; i < level->key_count; i++) {
        if (keys[i].size == size && memcmp(keys[i].text, text, size) == 0) {
            return true;
        }
    }
    keys[level->key_count++] = (struct scan_key){text, size};
    return false;
}

/* The value at `at` as a child of `level`: limits of its own. */
static int scan_value(const struct tide__head *h, const uint8_t *at, size_t offset, struct scan_level *level,
                      struct scan_key *keys) {
    if (h->type == TIDE_EXT) {
        return scan_ext(h, offset);
    }
    if (h->type != TIDE_STRING) {
        return 0;
    }
    if (h->payload > TIDE_STRING_MAX) {
        return tide_fail(TIDE_ELIMIT, "byte %zu: a string of %u bytes; %d are allowed", offset, (unsigned)h->payload,
                         TIDE_STRING_MAX);
    }
    if (level && level->keys_checked && level->pending % 2 == 0 &&
        scan_key_repeats(level, keys, at + h->size, h->payload)) {
        return tide_fail(TIDE_EPROTO, "byte %zu: a key stands twice in its map", offset);
    }
    return 0;
}

int tide_scan(const void *data, size_t size) {
    struct scan s;
    const uint8_t *start = data, *at = start, *end = size ? start + size : start;
    size_t depth = 0, items = 0;
    do {
        struct tide__head h;
        struct scan_level *level = depth > 0 ? &s.levels[depth - 1] : NULL;
        size_t offset = (size_t)(at - start);
        enum tide__head_error error = tide__head_read(at, end, &h);
        if (TIDE_UNLIKELY(error != TIDE__HEAD_OK)) {
            return scan_head_error(error, offset);
        }
        if (TIDE_UNLIKELY(++items > TIDE_ITEMS_MAX)) {
            return tide_fail(TIDE_ELIMIT, "byte %zu: more than %d values", offset, TIDE_ITEMS_MAX);
        }
        if (h.type == TIDE_STRING || h.type == TIDE_EXT) {
            int rc = scan_value(&h, at, offset, level, level ? s.keys[depth - 1] : NULL);
            if (rc != 0) {
                return rc;
            }
        }
        at += h.size + h.payload;
        if (level) {
            level->pending -= 1;
        }
        if (h.type == TIDE_ARRAY || h.type == TIDE_MAP) {
            if (depth == TIDE_DEPTH_MAX) {
                return tide_fail(TIDE_ELIMIT, "byte %zu: nested more than %d deep", offset, TIDE_DEPTH_MAX);
            }
            bool map = h.type == TIDE_MAP;
            s.levels[depth++] = (struct scan_level){.pending = map ? 2 * (uint64_t)h.count : h.count,
                                                    .keys_checked = map && h.count <= SCAN_KEYS};
        }
        while (depth > 0 && s.levels[depth - 1].pending == 0) {
            depth--;
        }
    } while (depth > 0);
    if (at != end) {
        return tide_fail(TIDE_EPROTO, "byte %zu: %zu bytes follow the value", (size_t)(at - start), (size_t)(end - at));
    }
    return 0;
}
