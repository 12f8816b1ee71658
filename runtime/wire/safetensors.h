/*
 * The header of a safetensors file, read and written on buffers; the owner of the file does the I/O.
 * A file is a u64 little-endian length N, N bytes of JSON, and one buffer of tensors.
 */
#ifndef TIDE_WIRE_SAFETENSORS_H
#define TIDE_WIRE_SAFETENSORS_H

#include "wire/wire.h"

enum {
    TIDE_SAFETENSORS_PREFIX = 8,
    TIDE_SAFETENSORS_HEADER_MAX = 16 << 20,
    TIDE_SAFETENSORS_RANK_MAX = 8,
};

enum tide_dtype {
    TIDE_DTYPE_BOOL,
    TIDE_DTYPE_U8,
    TIDE_DTYPE_I8,
    TIDE_DTYPE_F8_E5M2,
    TIDE_DTYPE_F8_E4M3,
    TIDE_DTYPE_I16,
    TIDE_DTYPE_U16,
    TIDE_DTYPE_F16,
    TIDE_DTYPE_BF16,
    TIDE_DTYPE_I32,
    TIDE_DTYPE_U32,
    TIDE_DTYPE_F32,
    TIDE_DTYPE_F64,
    TIDE_DTYPE_I64,
    TIDE_DTYPE_U64,
    TIDE_DTYPE_COUNT
};
const char *tide_dtype_name(enum tide_dtype dtype); /* "F32" */
size_t tide_dtype_size(enum tide_dtype dtype);      /* bytes an element */

struct tide_safetensor {
    const char *name;
    uint64_t shape[TIDE_SAFETENSORS_RANK_MAX];
    uint64_t begin, end; /* bytes, from the start of the buffer; add `data` for the file offset */
    uint8_t dtype;       /* enum tide_dtype */
    uint8_t rank;        /* 0: one element */
};

struct tide_safetensors_pair {
    const char *key, *value;
};

/* Invariant after a successful parse: tensors[0].begin is 0, each begins where the one before ends,
 * and the last ends where the file ends. */
struct tide_safetensors {
    struct tide_safetensor *tensors;
    size_t count;
    struct tide_safetensors_pair *metadata;
    size_t metadata_count;
    uint64_t data; /* file offset of the buffer */
    char *pool;    /* all text */
};

/* N from the first 8 bytes of a file of file_size bytes. EPROTO, ELIMIT. */
int tide_safetensors_header_size(const uint8_t prefix[TIDE_SAFETENSORS_PREFIX], uint64_t file_size, size_t *size);
/* The N bytes after the prefix. Errors name the tensor and the reason: EPROTO, ELIMIT, ENOMEM. */
int tide_safetensors_parse(const void *header, size_t size, uint64_t file_size, struct tide_safetensors *out);
void tide_safetensors_release(struct tide_safetensors *s); /* also of a failed parse */
/* NULL if absent. */
const struct tide_safetensor *tide_safetensors_find(const struct tide_safetensors *s, const char *name);
const char *tide_safetensors_metadata(const struct tide_safetensors *s, const char *key);

/*
 * Appends prefix and header to `out` and fills begin and end of the tensors, which stay in the
 * caller's order. Equal input gives equal bytes: keys are sorted, and the buffer is laid out by
 * falling element size, then name, so that every tensor is aligned to its elements.
 * `data_size` (may be NULL): bytes of the buffer. Errors: EINVAL (name, shape), ELIMIT, ENOMEM.
 */
int tide_safetensors_header(struct tide_safetensor *tensors, size_t count, const struct tide_safetensors_pair *metadata,
                            size_t metadata_count, struct tide_writer *out, uint64_t *data_size);

#endif
