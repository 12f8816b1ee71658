/*
 * Frames and msgpack: no input makes the length check, the parser, the scan, the cursor or the JSON
 * conversion misbehave; and the scan agrees with msgpack-c. Where the scan refuses what msgpack-c
 * takes, one of our limits must be broken, which is judged on msgpack-c's tree, not by our code.
 */
#include "fuzz.h"
#include "wire/json.h"
#include "tide/message.h"
#include "wire/wire.h"

#include <msgpack/unpack.h>

static bool same_key(const msgpack_object *a, const msgpack_object *b) {
    return a->type == MSGPACK_OBJECT_STR && b->type == MSGPACK_OBJECT_STR &&
           a->via.str.size == b->via.str.size &&
           (a->via.str.size == 0 || /* then ptr may be NULL */
            memcmp(a->via.str.ptr, b->via.str.ptr, a->via.str.size) == 0);
}

static bool repeats_key(const msgpack_object_map *map) {
    for (uint32_t i = 0; map->size <= 64 && i < map->size; i++) {
        for (uint32_t k = 0; k < i; k++) {
            if (same_key(&map->ptr[i].key, &map->ptr[k].key)) {
                return true;
            }
        }
    }
    return false;
}

/* Recursive on purpose, unlike the scan; msgpack-c itself stops at 32 levels. */
static bool breaks_limit(const msgpack_object *o, int depth, size_t *items) {
    if (++*items > TIDE_ITEMS_MAX) {
        return true;
    }
    switch (o->type) {
    case MSGPACK_OBJECT_STR:
        return o->via.str.size > TIDE_STRING_MAX;
    case MSGPACK_OBJECT_EXT:
        return tide_ext_element_size(o->via.ext.type) == 0 ||
               o->via.ext.size % tide_ext_element_size(o->via.ext.type) != 0;
    case MSGPACK_OBJECT_ARRAY:
        for (uint32_t i = 0; i < o->via.array.size; i++) {
            if (breaks_limit(&o->via.array.ptr[i], depth + 1, items)) {
                return true;
            }
        }
        return depth >= TIDE_DEPTH_MAX;
    case MSGPACK_OBJECT_MAP:
        for (uint32_t i = 0; i < o->via.map.size; i++) {
            if (breaks_limit(&o->via.map.ptr[i].key, depth + 1, items) ||
                breaks_limit(&o->via.map.ptr[i].val, depth + 1, items)) {
                return true;
            }
        }
        return depth >= TIDE_DEPTH_MAX || repeats_key(&o->via.map);
    default:
        return false;
    }
}

/* msgpack-c allocates by announced counts; inputs where that may be gigabytes are left out. */
static bool announces_much(const uint8_t *data, size_t size) {
    for (size_t i = 0; i + 1 < size; i++) {
        if ((data[i] == 0xdd || data[i] == 0xdf) &&
            (data[i + 1] != 0 || i + 2 >= size || data[i + 2] > 1)) {
            return true;
        }
    }
    return false;
}

static void check_against_msgpack_c(const uint8_t *data, size_t size, int scanned) {
    msgpack_zone zone;
    msgpack_object object;
    size_t offset = 0, items = 0;
    if (scanned != 0 && announces_much(data, size)) {
        return;
    }
    FUZZ_CHECK(msgpack_zone_init(&zone, MSGPACK_ZONE_CHUNK_SIZE));
    bool whole = msgpack_unpack((const char *)data, size, &offset, &zone, &object) ==
                     MSGPACK_UNPACK_SUCCESS &&
                 offset == size;
    if (scanned == 0) {
        FUZZ_CHECK(whole && !breaks_limit(&object, 0, &items));
    } else if (whole) {
        FUZZ_CHECK(breaks_limit(&object, 0, &items));
    }
    msgpack_zone_destroy(&zone);
}

/* Reads every value by its type, not as a tree: containers give only their heads. */
static void walk(const uint8_t *data, size_t size, bool valid) {
    struct tide_reader r, field;
    size_t length, count;
    char text[32];
    int code;
    tide_reader_init(&r, data, size);
    (void)tide_read_field(&r, "k", &field);
    while (tide_read_type(&r) != TIDE_END) {
        const uint8_t *before = r.at;
        struct tide_reader other = r;
        tide_read_text(&other, text, sizeof text);
        other = r;
        (void)tide_read_typed(&other, TIDE_F64, &count);
        switch (tide_read_type(&r)) {
        case TIDE_NIL:
            FUZZ_CHECK(tide_read_nil(&r));
            break;
        case TIDE_BOOL:
            (void)tide_read_bool(&r);
            break;
        case TIDE_INT:
            (void)tide_read_int(&r);
            break;
        case TIDE_UINT:
            FUZZ_CHECK(tide_read_uint(&r) > INT64_MAX || r.error != 0);
            break;
        case TIDE_DOUBLE:
            (void)tide_read_double(&r);
            break;
        case TIDE_STRING:
            (void)tide_read_string(&r, &length);
            break;
        case TIDE_BINARY:
            (void)tide_read_binary(&r, &length);
            break;
        case TIDE_ARRAY:
            FUZZ_CHECK(tide_read_array(&r) <= size);
            break;
        case TIDE_MAP:
            FUZZ_CHECK(tide_read_map(&r) <= size / 2);
            break;
        default:
            (void)tide_read_ext(&r, &code, &length);
            break;
        }
        FUZZ_CHECK(r.at > before && r.at <= r.end);
    }
    FUZZ_CHECK(!valid || (r.error == 0 && r.at == r.end));
}

static void check_frame(const uint8_t *data, size_t size) {
    struct tide_frame frame;
    int64_t length = tide_frame_length(data, size, TIDE_FRAME_MAX);
    FUZZ_CHECK(length <= 4 + TIDE_FRAME_MAX && (length <= 0 || length > 4));
    if (length > 0 && (uint64_t)length <= size) {
        data += 4;
        size = (size_t)length - 4;
    }
    if (tide_frame_parse(data, size, &frame) == 0) {
        uint8_t head[TIDE_FRAME_HEAD];
        struct tide_frame again;
        FUZZ_CHECK(frame.body > data && frame.body_size > 0);
        FUZZ_CHECK(frame.body + frame.body_size == data + size);
        tide_frame_head(head, &frame, frame.body_size);
        FUZZ_CHECK(tide_frame_parse(head + 4, sizeof head - 4, &again) ==
                   TIDE_EPROTO); /* no body */
        walk(frame.body, frame.body_size, tide_scan(frame.body, frame.body_size) == 0);
    }
}

static void check_json(const uint8_t *data, size_t size) {
    char *text;
    size_t length;
    if (tide_json_from_msgpack(data, size, &text, &length) == 0) {
        struct tide_writer w;
        tide_writer_init(&w, NULL, 0);
        /* A zero character is legal JSON, which we write and, coming from outside, refuse. */
        FUZZ_CHECK(tide_json_to_msgpack(text, length, &w) == 0 || strstr(text, "\\u0000"));
        tide_writer_release(&w);
        tide_free(text);
    }
}

/* Any bytes have a description, within its room. */
static void check_description(const uint8_t *data, size_t size) {
    char text[100];
    for (size_t capacity = 1; capacity <= sizeof text; capacity += 33) {
        size_t length = tide_describe(data, size, text, capacity);
        FUZZ_CHECK(length < capacity && strlen(text) <= length);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct tide_reader r;
    int scanned = tide_scan(data, size);
    tide_reader_init(&r, data, size);
    tide_read_skip(&r);
    FUZZ_CHECK(scanned != 0 || (r.error == 0 && r.at == r.end));
    check_against_msgpack_c(data, size, scanned);
    walk(data, size, scanned == 0);
    check_description(data, size);
    check_frame(data, size);
    check_json(data, size);
    return 0;
}
