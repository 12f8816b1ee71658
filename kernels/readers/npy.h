/* NumPy's .npy files, versions 1 to 3, and the zip archives of .npz. Input is foreign: everything is checked, errors
 * say at which byte. Buffers only; the owner of the file does the I/O. Any thread. */
#ifndef TIDE_NPY_H
#define TIDE_NPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TIDE_NPY_RANK_MAX = 8 };

enum tide_npy_type {
    TIDE_NPY_BOOL,
    TIDE_NPY_U8,
    TIDE_NPY_I8,
    TIDE_NPY_U16,
    TIDE_NPY_I16,
    TIDE_NPY_F16,
    TIDE_NPY_U32,
    TIDE_NPY_I32,
    TIDE_NPY_F32,
    TIDE_NPY_U64,
    TIDE_NPY_I64,
    TIDE_NPY_F64,
    TIDE_NPY_TYPES
};
size_t tide_npy_element(enum tide_npy_type type); /* bytes */

/* Invariant after a successful parse: `count` elements, the product of dims, begin at `bytes`, and the buffer ends with
 * them. */
struct tide_npy {
    enum tide_npy_type type;
    bool fortran; /* column after column */
    size_t rank;  /* 0: one element */
    uint64_t dims[TIDE_NPY_RANK_MAX];
    size_t count;
    const uint8_t *bytes; /* not aligned; in the buffer that was parsed */
};

bool tide_npy_is(const void *data, size_t size);
/* EINVAL: damaged. EUNSUPPORTED: objects, texts, big-endian numbers, more dims than are read. */
int tide_npy_parse(const void *data, size_t size, struct tide_npy *out);

/* ---- zip ---- */
struct tide_zip {
    const uint8_t *data;
    size_t size, at, end; /* of the directory that is still to be read */
};

struct tide_zip_member {
    const char *name; /* not ended by a zero */
    size_t name_size;
    uint16_t method; /* 0: stored, 8: deflated */
    uint32_t crc;
    size_t packed, size; /* bytes: in the archive, unpacked */
    const uint8_t *bytes;
};

uint32_t tide_zip_sum(const void *data, size_t size); /* what an archive keeps of a member: its CRC-32 */
int tide_zip_open(const void *data, size_t size, struct tide_zip *out); /* EINVAL */
/* 1 and the next member, 0 after the last. EINVAL. */
int tide_zip_next(struct tide_zip *zip, struct tide_zip_member *out);
/* The unpacked bytes of a member; `owned` (*gives*, tide_free; NULL allowed) holds them if they were packed.
 * EINVAL: damaged; EUNSUPPORTED: another method; ELIMIT: more than `limit` bytes; ENOMEM. */
int tide_zip_unpack(const struct tide_zip_member *member, size_t limit, uint8_t **owned, const uint8_t **bytes);

#endif
