/*
 * The wrapper of jansson. A pre-check bounds length, depth and number of values before jansson
 * sees the text, because jansson recurses by depth and allocates about a hundred bytes a value.
 * Both directions walk with an explicit stack of TIDE_DEPTH_MAX levels.
 */
#include "wire/json.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

/* ---- text to msgpack ---- */

/* Depth and number of values of well-formed text; on other text jansson fails later. */
static int json_check_bounds(const char *text, size_t size) {
    size_t depth = 0, items = 1;
    bool quoted = false;
    if (size > TIDE_JSON_MAX) {
        return tide_fail(TIDE_ELIMIT, "JSON of %zu bytes; %d are allowed", size, TIDE_JSON_MAX);
    }
    for (size_t i = 0; i < size; i++) {
        char c = text[i];
        if (quoted) {
            i += c == '\\';
            quoted = c != '"';
            continue;
        }
        quoted = c == '"';
        items += c == ',' || c == ':' || c == '[' || c == '{';
        if (c == '[' || c == '{') {
            if (++depth > TIDE_DEPTH_MAX) {
                return tide_fail(TIDE_ELIMIT, "JSON byte %zu: nested more than %d deep", i, TIDE_DEPTH_MAX);
            }
        } else if ((c == ']' || c == '}') && depth > 0) {
            depth--;
        }
    }
    if (items > TIDE_JSON_ITEMS_MAX) {
        return tide_fail(TIDE_ELIMIT, "JSON of %zu values; %d are allowed", items, TIDE_JSON_ITEMS_MAX);
    }
    return 0;
}

/* A container whose children are being written. */
struct json_level {
    json_t *container;
    void *iterator; /* of an object */
    size_t index;   /* of an array */
};

static void json_write_scalar(struct tide_writer *w, const json_t *value) {
    switch (json_typeof(value)) {
    case JSON_STRING:
        tide_write_string(w, json_string_value(value), json_string_length(value));
        break;
    case JSON_INTEGER:
        tide_write_int(w, json_integer_value(value));
        break;
    case JSON_REAL:
        tide_write_double(w, json_real_value(value));
        break;
    case JSON_TRUE:
    case JSON_FALSE:
        tide_write_bool(w, json_is_true(value));
        break;
    default:
        tide_write_nil(w);
        break;
    }
}

/* The next child of `level`, its key written; NULL when there are no more. */
static json_t *json_next(struct tide_writer *w, struct json_level *level) {
    if (json_is_array(level->container)) {
        return json_array_get(level->container, level->index++);
    }
    void *iterator = level->iterator;
    if (!iterator) {
        return NULL;
    }
    level->iterator = json_object_iter_next(level->container, iterator);
    tide_write_text(w, json_object_iter_key(iterator));
    return json_object_iter_value(iterator);
}

static void json_write_tree(struct tide_writer *w, json_t *root) {
    struct json_level levels[TIDE_DEPTH_MAX];
    size_t depth = 0;
    json_t *value = root;
    while (value) {
        if (json_is_array(value) || json_is_object(value)) {
            TIDE_ASSERT(depth < TIDE_DEPTH_MAX); /* json_check_bounds */
            levels[depth++] = (struct json_level){.container = value};
            if (json_is_array(value)) {
                tide_write_array(w, json_array_size(value));
            } else {
                tide_write_map(w, json_object_size(value));
                levels[depth - 1].iterator = json_object_iter(value);
            }
        } else {
            json_write_scalar(w, value);
        }
        value = NULL;
        while (depth > 0 && !(value = json_next(w, &levels[depth - 1]))) {
            depth--;
        }
    }
}

int tide_json_to_msgpack(const char *text, size_t size, struct tide_writer *w) {
    json_error_t error;
    int rc = json_check_bounds(text, size);
    if (rc != 0) {
        return rc;
    }
    json_t *root = json_loadb(size > 0 ? text : "", size, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
    if (!root) {
        bool memory = json_error_code(&error) == json_error_out_of_memory;
        return tide_fail(memory ? TIDE_ENOMEM : TIDE_EPROTO, "JSON line %d column %d: %s", error.line, error.column,
                         error.text);
    }
    json_write_tree(w, root);
    json_decref(root);
    return w->error;
}

/* ---- msgpack to text ---- */

static double json_half(uint16_t bits) {
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    double value = exponent == 0    ? ldexp(fraction, -24)
                   : exponent == 31 ? (fraction ? (double)NAN : (double)INFINITY)
                                    : ldexp(1024 + fraction, exponent - 25);
    return bits >> 15 ? -value : value;
}

static json_t *json_number(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *json_element(int code, const uint8_t *at) {
    union {
        float f32;
        double f64;
        uint16_t u16;
        int32_t i32;
        uint32_t u32;
        int64_t i64;
        uint64_t u64;
    } e = {.u64 = 0};
    memcpy(&e, at, tide_ext_element_size(code));
    switch (code) {
    case TIDE_F32:
        return json_number((double)e.f32);
    case TIDE_F64:
        return json_number(e.f64);
    case TIDE_F16:
        return json_number(json_half(e.u16));
    case TIDE_BF16:
        e.u32 = (uint32_t)e.u16 << 16;
        return json_number((double)e.f32);
    case TIDE_I32:
        return json_integer(e.i32);
    case TIDE_I64:
        return json_integer(e.i64);
    case TIDE_U8:
        return json_integer(at[0]);
    case TIDE_U32:
        return json_integer(e.u32);
    case TIDE_U16:
        return json_integer(e.u16);
    default:
        return e.u64 <= INT64_MAX ? json_integer((json_int_t)e.u64) : json_real((double)e.u64);
    }
}

static int json_from_typed(struct tide_reader *r, json_t **out) {
    int code;
    size_t size;
    const uint8_t *data = tide_read_ext(r, &code, &size);
    size_t element = tide_ext_element_size(code);
    if (!data || (element != 0 && size % element != 0)) {
        return tide_fail(TIDE_EPROTO, "an array on the wire is damaged");
    }
    if (element == 0) {
        return tide_fail(TIDE_EUNSUPPORTED, "ext %d has no JSON form", code);
    }
    json_t *array = json_array();
    for (size_t i = 0; array && i < size; i += element) {
        if (json_array_append_new(array, json_element(code, data + i)) != 0) {
            json_decref(array);
            array = NULL;
        }
    }
    *out = array;
    return array ? 0 : tide_fail(TIDE_ENOMEM, "out of memory for JSON");
}

static int json_from_string(struct tide_reader *r, json_t **out) {
    size_t size;
    const char *text = tide_read_string(r, &size);
    if (!text) {
        return tide_fail(TIDE_EPROTO, "a string on the wire is damaged");
    }
    *out = json_stringn(text, size); /* NULL also when it is no UTF-8 */
    return *out ? 0 : tide_fail(TIDE_EPROTO, "a string of %zu bytes is not UTF-8", size);
}

/* The value at r; of a container only its head, with the number of its children in `count`. */
static int json_from_value(struct tide_reader *r, json_t **out, size_t *count) {
    *count = 0;
    switch (tide_read_type(r)) {
    case TIDE_NIL:
        *out = tide_read_nil(r) ? json_null() : NULL;
        break;
    case TIDE_BOOL:
        *out = json_boolean(tide_read_bool(r));
        break;
    case TIDE_INT:
        *out = json_integer(tide_read_int(r));
        break;
    case TIDE_UINT:
    case TIDE_DOUBLE:
        *out = json_number(tide_read_double(r));
        break;
    case TIDE_STRING:
        return json_from_string(r, out);
    case TIDE_ARRAY:
        *count = tide_read_array(r);
        *out = json_array();
        break;
    case TIDE_MAP:
        *count = tide_read_map(r);
        *out = json_object();
        break;
    case TIDE_EXT:
        return json_from_typed(r, out);
    case TIDE_BINARY:
        return tide_fail(TIDE_EUNSUPPORTED, "binary data has no JSON form");
    default:
        return tide_fail(TIDE_EPROTO, "msgpack ends early or has an unknown tag");
    }
    if (r->error != 0) {
        json_decref(*out);
        *out = NULL;
        return tide_fail(TIDE_EPROTO, "msgpack is damaged");
    }
    return *out ? 0 : tide_fail(TIDE_ENOMEM, "out of memory for JSON");
}

/* A key as text, which stays in the bytes or in `number`. */
static int json_read_key(struct tide_reader *r, char number[32], const char **key, size_t *size) {
    int length;
    switch (tide_read_type(r)) {
    case TIDE_STRING:
        *key = tide_read_string(r, size);
        break;
    case TIDE_INT:
        length = snprintf(number, 32, "%" PRId64, tide_read_int(r));
        *key = number;
        *size = (size_t)length;
        break;
    case TIDE_UINT:
        length = snprintf(number, 32, "%" PRIu64, tide_read_uint(r));
        *key = number;
        *size = (size_t)length;
        break;
    default:
        return tide_fail(TIDE_EUNSUPPORTED, "a map key that is neither string nor integer");
    }
    return r->error == 0 ? 0 : tide_fail(TIDE_EPROTO, "a map key is damaged");
}

/* A container that is being filled. */
struct json_filling {
    json_t *container;
    size_t pending;
};

/* Puts the next value into `parent` (NULL: the top); the result is borrowed from there. */
static int json_from_child(struct tide_reader *r, json_t *parent, json_t **out, size_t *count) {
    char number[32];
    const char *key = NULL;
    size_t size = 0;
    int rc;
    *out = NULL;
    if (json_is_object(parent)) {
        rc = json_read_key(r, number, &key, &size);
        if (rc != 0) {
            return rc;
        }
        if (memchr(key, 0, size)) {
            return tide_fail(TIDE_EPROTO, "a map key has a zero inside");
        }
        if (json_object_getn(parent, key, size)) {
            return tide_fail(TIDE_EPROTO, "key '%.*s' stands twice in its map", (int)(size < 64 ? size : 64), key);
        }
    }
    rc = json_from_value(r, out, count);
    if (rc != 0 || !parent) {
        return rc;
    }
    if (key ? json_object_setn_new(parent, key, size, *out) != 0 : json_array_append_new(parent, *out) != 0) {
        *out = NULL;
        return tide_fail(TIDE_EPROTO, "a map key is not UTF-8, or memory is out");
    }
    return 0;
}

static int json_build(struct tide_reader *r, json_t **root) {
    struct json_filling levels[TIDE_DEPTH_MAX];
    size_t depth = 0, items = 0;
    *root = NULL;
    do {
        json_t *parent = depth > 0 ? levels[depth - 1].container : NULL, *value;
        size_t count = 0;
        int rc = json_from_child(r, parent, &value, &count);
        if (rc != 0) {
            return rc;
        }
        if (!parent) {
            *root = value;
        } else {
            levels[depth - 1].pending--;
        }
        if (++items > TIDE_JSON_ITEMS_MAX) {
            return tide_fail(TIDE_ELIMIT, "JSON of more than %d values", TIDE_JSON_ITEMS_MAX);
        }
        /* also empty ones and typed arrays: what is written here can be read again */
        if (depth == TIDE_DEPTH_MAX && (json_is_array(value) || json_is_object(value))) {
            return tide_fail(TIDE_ELIMIT, "msgpack nested more than %d deep", TIDE_DEPTH_MAX);
        }
        if (count > 0) {
            levels[depth++] = (struct json_filling){value, count};
        }
        while (depth > 0 && levels[depth - 1].pending == 0) {
            depth--;
        }
    } while (depth > 0);
    return r->at == r->end ? 0 : tide_fail(TIDE_EPROTO, "bytes follow the msgpack value");
}

static int json_append(const char *text, size_t size, void *arg) {
    struct tide_writer *w = arg;
    if (size > TIDE_JSON_MAX - w->size) {
        w->error = tide_fail(TIDE_ELIMIT, "JSON of more than %d bytes", TIDE_JSON_MAX);
    }
    tide_write_raw(w, text, size);
    return w->error;
}

int tide_json_from_msgpack(const void *data, size_t size, char **out, size_t *out_size) {
    struct tide_reader r;
    struct tide_writer w;
    json_t *root;
    *out = NULL;
    tide_reader_init(&r, data, size);
    tide_writer_init(&w, NULL, 0);
    int rc = json_build(&r, &root);
    if (rc != 0) {
        goto out;
    }
    rc = json_dump_callback(root, json_append, &w,
                            JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY | JSON_REAL_PRECISION(17));
    if (w.error == 0 && rc != 0) {
        rc = tide_fail(TIDE_ENOMEM, "out of memory for JSON");
    }
    tide_write_raw(&w, "", 1);
    if (rc != 0 || w.error != 0) {
        rc = w.error != 0 ? w.error : rc;
        goto out;
    }
    if (out_size) {
        *out_size = w.size - 1;
    }
    *out = (char *)w.data;
    w.owned = false;
out:
    json_decref(root);
    tide_writer_release(&w);
    return rc;
}
