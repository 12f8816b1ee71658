/*
 * safetensors headers. The JSON goes through json.c to msgpack, which the cursor reads: bounds on
 * length, depth and duplicates are json.c's, the checks of meaning are here. A file is refused as a
 * whole: unknown dtype, shape and offsets that disagree, an overlap, a hole, bytes at the end that
 * belong to no tensor.
 */
#include "wire/safetensors.h"
#include "wire/json.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    uint8_t size;
} dtypes[TIDE_DTYPE_COUNT] = {
    [TIDE_DTYPE_BOOL] = {"BOOL", 1},       [TIDE_DTYPE_U8] = {"U8", 1},           [TIDE_DTYPE_I8] = {"I8", 1},
    [TIDE_DTYPE_F8_E5M2] = {"F8_E5M2", 1}, [TIDE_DTYPE_F8_E4M3] = {"F8_E4M3", 1}, [TIDE_DTYPE_I16] = {"I16", 2},
    [TIDE_DTYPE_U16] = {"U16", 2},         [TIDE_DTYPE_F16] = {"F16", 2},         [TIDE_DTYPE_BF16] = {"BF16", 2},
    [TIDE_DTYPE_I32] = {"I32", 4},         [TIDE_DTYPE_U32] = {"U32", 4},         [TIDE_DTYPE_F32] = {"F32", 4},
    [TIDE_DTYPE_F64] = {"F64", 8},         [TIDE_DTYPE_I64] = {"I64", 8},         [TIDE_DTYPE_U64] = {"U64", 8},
};

static const char METADATA[] = "__metadata__";

const char *tide_dtype_name(enum tide_dtype dtype) {
    return (unsigned)dtype < TIDE_DTYPE_COUNT ? dtypes[dtype].name : "?";
}

size_t tide_dtype_size(enum tide_dtype dtype) {
    return (unsigned)dtype < TIDE_DTYPE_COUNT ? dtypes[dtype].size : 0;
}

/* Bytes of a tensor; false when they are more than 64 bits can count. */
static bool tensor_bytes(const struct tide_safetensor *t, uint64_t *out) {
    uint64_t bytes = dtypes[t->dtype].size;
    for (size_t i = 0; i < t->rank; i++) {
        if (__builtin_mul_overflow(bytes, t->shape[i], &bytes)) {
            return false;
        }
    }
    *out = bytes;
    return true;
}

/* ---- reading ---- */

int tide_safetensors_header_size(const uint8_t prefix[TIDE_SAFETENSORS_PREFIX], uint64_t file_size, size_t *size) {
    uint64_t n = 0;
    *size = 0;
    if (file_size < TIDE_SAFETENSORS_PREFIX) {
        return tide_fail(TIDE_EPROTO, "safetensors: a file of %" PRIu64 " bytes has no header", file_size);
    }
    for (int i = TIDE_SAFETENSORS_PREFIX; i-- > 0;) {
        n = n << 8 | prefix[i];
    }
    if (n > TIDE_SAFETENSORS_HEADER_MAX) {
        return tide_fail(TIDE_ELIMIT, "safetensors: header of %" PRIu64 " bytes; %d are allowed", n,
                         TIDE_SAFETENSORS_HEADER_MAX);
    }
    if (n < 2 || n > file_size - TIDE_SAFETENSORS_PREFIX) {
        return tide_fail(TIDE_EPROTO, "safetensors: header of %" PRIu64 " bytes in a file of %" PRIu64, n, file_size);
    }
    *size = (size_t)n;
    return 0;
}

static int tensor_fail(const char *name, const char *reason) {
    return tide_fail(TIDE_EPROTO, "safetensors: tensor '%.200s': %s", name, reason);
}

static int parse_dtype(struct tide_reader *entry, struct tide_safetensor *t) {
    struct tide_reader r;
    size_t size = 0;
    if (!tide_read_field(entry, "dtype", &r) || tide_read_type(&r) != TIDE_STRING) {
        return tensor_fail(t->name, "no dtype");
    }
    const char *text = tide_read_string(&r, &size);
    for (uint8_t i = 0; i < TIDE_DTYPE_COUNT; i++) {
        if (strlen(dtypes[i].name) == size && memcmp(dtypes[i].name, text, size) == 0) {
            t->dtype = i;
            return 0;
        }
    }
    return tide_fail(TIDE_EPROTO, "safetensors: tensor '%.200s': unknown dtype '%.*s'", t->name,
                     (int)(size < 32 ? size : 32), text);
}

static int parse_shape(struct tide_reader *entry, struct tide_safetensor *t) {
    struct tide_reader r;
    if (!tide_read_field(entry, "shape", &r) || tide_read_type(&r) != TIDE_ARRAY) {
        return tensor_fail(t->name, "no shape");
    }
    size_t rank = tide_read_array(&r);
    if (rank > TIDE_SAFETENSORS_RANK_MAX) {
        return tide_fail(TIDE_ELIMIT, "safetensors: tensor '%.200s': %zu dimensions; %d are allowed", t->name, rank,
                         TIDE_SAFETENSORS_RANK_MAX);
    }
    t->rank = (uint8_t)rank;
    for (size_t i = 0; i < rank; i++) {
        t->shape[i] = tide_read_uint(&r);
    }
    return r.error == 0 ? 0 : tensor_fail(t->name, "a dimension is no count");
}

static int parse_offsets(struct tide_reader *entry, uint64_t data_size, struct tide_safetensor *t) {
    struct tide_reader r;
    uint64_t bytes;
    if (!tide_read_field(entry, "data_offsets", &r) || tide_read_type(&r) != TIDE_ARRAY || tide_read_array(&r) != 2) {
        return tensor_fail(t->name, "no data_offsets");
    }
    t->begin = tide_read_uint(&r);
    t->end = tide_read_uint(&r);
    if (r.error != 0) {
        return tensor_fail(t->name, "an offset is no count");
    }
    if (t->begin > t->end || t->end > data_size) {
        return tide_fail(TIDE_EPROTO,
                         "safetensors: tensor '%.200s': bytes %" PRIu64 " to %" PRIu64 " of a buffer of %" PRIu64,
                         t->name, t->begin, t->end, data_size);
    }
    if (!tensor_bytes(t, &bytes)) {
        return tensor_fail(t->name, "its shape overflows 64 bits");
    }
    if (t->end - t->begin != bytes) {
        return tide_fail(TIDE_EPROTO,
                         "safetensors: tensor '%.200s': its shape needs %" PRIu64 " bytes, its offsets span %" PRIu64,
                         t->name, bytes, t->end - t->begin);
    }
    return 0;
}

/* Copies a string to the pool, terminated. The pool has the size of the msgpack, where each string
 * has at least one byte of head, so it always fits. */
static const char *pool_take(struct tide_reader *r, char **pool) {
    size_t size;
    const char *text = tide_read_string(r, &size);
    if (!text) {
        return NULL;
    }
    char *copy = *pool;
    memcpy(copy, text, size);
    copy[size] = 0;
    *pool += size + 1;
    return copy;
}

static int parse_metadata(struct tide_reader *r, char **pool, struct tide_safetensors *out) {
    if (tide_read_type(r) != TIDE_MAP) {
        return tide_fail(TIDE_EPROTO, "safetensors: %s is not an object", METADATA);
    }
    size_t count = tide_read_map(r);
    out->metadata = tide_alloc_zero(count, sizeof *out->metadata);
    if (!out->metadata) {
        return TIDE_ENOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        struct tide_safetensors_pair *pair = &out->metadata[i];
        pair->key = pool_take(r, pool);
        if (pair->key && tide_read_type(r) != TIDE_STRING) {
            return tide_fail(TIDE_EPROTO, "safetensors: metadata '%.200s' is not a string", pair->key);
        }
        pair->value = pool_take(r, pool);
    }
    out->metadata_count = count;
    return 0;
}

static int parse_entry(struct tide_reader *r, const char *name, uint64_t data_size, struct tide_safetensor *t) {
    struct tide_reader entry = *r;
    t->name = name;
    if (tide_read_type(r) != TIDE_MAP) {
        return tensor_fail(name, "its entry is not an object");
    }
    tide_read_skip(r);
    int rc = parse_dtype(&entry, t);
    rc = rc != 0 ? rc : parse_shape(&entry, t);
    return rc != 0 ? rc : parse_offsets(&entry, data_size, t);
}

static int compare_offsets(const void *a, const void *b) {
    const struct tide_safetensor *x = a, *y = b;
    if (x->begin != y->begin) {
        return x->begin < y->begin ? -1 : 1;
    }
    if (x->end != y->end) {
        return x->end < y->end ? -1 : 1;
    }
    return strcmp(x->name, y->name);
}

static int check_layout(const struct tide_safetensors *s, uint64_t data_size) {
    uint64_t at = 0;
    for (size_t i = 0; i < s->count; i++) {
        const struct tide_safetensor *t = &s->tensors[i];
        if (t->begin != at) {
            return tide_fail(TIDE_EPROTO, "safetensors: tensor '%.200s' begins at %" PRIu64 ", which %s %" PRIu64,
                             t->name, t->begin,
                             t->begin < at ? "overlaps the tensor that ends at" : "leaves a hole from", at);
        }
        at = t->end;
    }
    if (at != data_size) {
        return tide_fail(TIDE_EPROTO, "safetensors: %" PRIu64 " bytes of tensors in a buffer of %" PRIu64, at,
                         data_size);
    }
    return 0;
}

/* The top object: msgpack in `r`, whose strings go to `pool`. */
static int parse_object(struct tide_reader *r, uint64_t data_size, char *pool, struct tide_safetensors *out) {
    size_t entries = tide_read_map(r);
    out->tensors = tide_alloc_zero(entries, sizeof *out->tensors);
    if (!out->tensors) {
        return TIDE_ENOMEM;
    }
    for (size_t i = 0; i < entries; i++) {
        const char *name = pool_take(r, &pool);
        TIDE_ASSERT(name); /* json.c wrote it */
        int rc = strcmp(name, METADATA) == 0 ? parse_metadata(r, &pool, out)
                                             : parse_entry(r, name, data_size, &out->tensors[out->count++]);
        if (rc != 0) {
            return rc;
        }
    }
    qsort(out->tensors, out->count, sizeof *out->tensors, compare_offsets);
    return check_layout(out, data_size);
}

int tide_safetensors_parse(const void *header, size_t size, uint64_t file_size, struct tide_safetensors *out) {
    struct tide_writer w;
    struct tide_reader r;
    int rc;
    *out = (struct tide_safetensors){0};
    tide_writer_init(&w, NULL, 0);
    if (size > TIDE_SAFETENSORS_HEADER_MAX) {
        return tide_fail(TIDE_ELIMIT, "safetensors: header of %zu bytes", size);
    }
    if (size < 2 || file_size < TIDE_SAFETENSORS_PREFIX + (uint64_t)size) {
        return tide_fail(TIDE_EPROTO, "safetensors: header of %zu bytes in a file of %" PRIu64, size, file_size);
    }
    if (*(const char *)header != '{') {
        return tide_fail(TIDE_EPROTO, "safetensors: the header does not begin with '{'");
    }
    rc = tide_json_to_msgpack(header, size, &w);
    if (rc != 0) {
        goto out;
    }
    out->data = TIDE_SAFETENSORS_PREFIX + (uint64_t)size;
    out->pool = tide_alloc(w.size);
    if (!out->pool) {
        rc = TIDE_ENOMEM;
        goto out;
    }
    tide_reader_init(&r, w.data, w.size);
    rc = parse_object(&r, file_size - out->data, out->pool, out);
out:
    tide_writer_release(&w);
    if (rc != 0) {
        tide_safetensors_release(out);
    }
    return rc;
}

void tide_safetensors_release(struct tide_safetensors *s) {
    tide_free(s->tensors);
    tide_free(s->metadata);
    tide_free(s->pool);
    *s = (struct tide_safetensors){0};
}

const struct tide_safetensor *tide_safetensors_find(const struct tide_safetensors *s, const char *name) {
    for (size_t i = 0; i < s->count; i++) {
        if (strcmp(s->tensors[i].name, name) == 0) {
            return &s->tensors[i];
        }
    }
    return NULL;
}

const char *tide_safetensors_metadata(const struct tide_safetensors *s, const char *key) {
    for (size_t i = 0; i < s->metadata_count; i++) {
        if (strcmp(s->metadata[i].key, key) == 0) {
            return s->metadata[i].value;
        }
    }
    return NULL;
}

/* ---- writing ---- */

static int compare_layout(const void *a, const void *b) {
    const struct tide_safetensor *x = *(struct tide_safetensor *const *)a;
    const struct tide_safetensor *y = *(struct tide_safetensor *const *)b;
    if (dtypes[x->dtype].size != dtypes[y->dtype].size) {
        return dtypes[x->dtype].size > dtypes[y->dtype].size ? -1 : 1;
    }
    return strcmp(x->name, y->name);
}

/* Gives every tensor its place in the buffer. */
static int lay_out(struct tide_safetensor *tensors, size_t count, uint64_t *data_size) {
    uint64_t at = 0;
    struct tide_safetensor **order = tide_alloc_zero(count, sizeof *order);
    if (!order) {
        return TIDE_ENOMEM;
    }
    int rc = 0;
    for (size_t i = 0; i < count && rc == 0; i++) {
        struct tide_safetensor *t = &tensors[i];
        order[i] = t;
        if (!t->name || strcmp(t->name, METADATA) == 0) {
            rc = tide_fail(TIDE_EINVAL, "safetensors: tensor %zu has no usable name", i);
        } else if (t->dtype >= TIDE_DTYPE_COUNT || t->rank > TIDE_SAFETENSORS_RANK_MAX) {
            rc = tide_fail(TIDE_EINVAL, "safetensors: tensor '%.200s': bad dtype or rank", t->name);
        }
    }
    if (rc == 0) {
        qsort(order, count, sizeof *order, compare_layout);
    }
    for (size_t i = 0; i < count && rc == 0; i++) {
        uint64_t bytes;
        order[i]->begin = at;
        if (!tensor_bytes(order[i], &bytes) || __builtin_add_overflow(at, bytes, &at) ||
            at > INT64_MAX) { /* JSON integers end there */
            rc = tide_fail(TIDE_EINVAL, "safetensors: tensor '%.200s' is too large", order[i]->name);
        }
        order[i]->end = at;
    }
    *data_size = at;
    tide_free(order);
    return rc;
}

static void write_entry(struct tide_writer *w, const struct tide_safetensor *t) {
    tide_write_text(w, t->name);
    tide_write_map(w, 3);
    tide_write_text(w, "dtype");
    tide_write_text(w, dtypes[t->dtype].name);
    tide_write_text(w, "shape");
    tide_write_array(w, t->rank);
    for (size_t i = 0; i < t->rank; i++) {
        tide_write_uint(w, t->shape[i]);
    }
    tide_write_text(w, "data_offsets");
    tide_write_array(w, 2);
    tide_write_uint(w, t->begin);
    tide_write_uint(w, t->end);
}

/* Length word, text, and blanks up to a multiple of 8. */
static int append_header(struct tide_writer *out, const char *text, size_t size) {
    size_t padded = (size + 7) / 8 * 8;
    if (padded > TIDE_SAFETENSORS_HEADER_MAX) {
        return tide_fail(TIDE_ELIMIT, "safetensors: header of %zu bytes; %d are allowed", padded,
                         TIDE_SAFETENSORS_HEADER_MAX);
    }
    uint8_t *at = tide_write_reserve(out, TIDE_SAFETENSORS_PREFIX + padded);
    if (!at) {
        return out->error;
    }
    for (int i = 0; i < TIDE_SAFETENSORS_PREFIX; i++) {
        at[i] = (uint8_t)((uint64_t)padded >> (8 * i));
    }
    memcpy(at + TIDE_SAFETENSORS_PREFIX, text, size);
    memset(at + TIDE_SAFETENSORS_PREFIX + size, ' ', padded - size);
    return 0;
}

int tide_safetensors_header(struct tide_safetensor *tensors, size_t count, const struct tide_safetensors_pair *metadata,
                            size_t metadata_count, struct tide_writer *out, uint64_t *data_size) {
    struct tide_writer w;
    uint64_t bytes = 0;
    char *text = NULL;
    size_t size = 0;
    tide_writer_init(&w, NULL, 0);
    int rc = lay_out(tensors, count, &bytes);
    if (rc != 0) {
        goto out;
    }
    tide_write_map(&w, count + (metadata_count > 0));
    for (size_t i = 0; i < count; i++) {
        write_entry(&w, &tensors[i]);
    }
    if (metadata_count > 0) {
        tide_write_text(&w, METADATA);
        tide_write_map(&w, metadata_count);
        for (size_t i = 0; i < metadata_count; i++) {
            if (!metadata[i].key || !metadata[i].value) {
                rc = tide_fail(TIDE_EINVAL, "safetensors: metadata %zu lacks key or value", i);
                goto out;
            }
            tide_write_text(&w, metadata[i].key);
            tide_write_text(&w, metadata[i].value);
        }
    }
    rc = w.error;
    rc = rc != 0 ? rc : tide_json_from_msgpack(w.data, w.size, &text, &size);
    if (rc == TIDE_EPROTO) { /* the caller's names, not foreign bytes */
        rc = tide_fail(TIDE_EINVAL, "safetensors: a name is taken twice or is not UTF-8");
    }
    rc = rc != 0 ? rc : append_header(out, text, size);
    if (rc == 0 && data_size) {
        *data_size = bytes;
    }
out:
    tide_free(text);
    tide_writer_release(&w);
    return rc;
}
