/* The IDX format of MNIST (LeCun): big-endian magic 0, 0, type, rank; the sizes; the elements. */
#ifndef TIDE_IDX_H
#define TIDE_IDX_H

#include <stddef.h>
#include <stdint.h>

enum { TIDE_IDX_RANK_MAX = 4 };

struct tide_idx {
    uint8_t rank;
    uint32_t dims[TIDE_IDX_RANK_MAX];
    size_t count;         /* elements */
    const uint8_t *bytes; /* borrowed from the input */
};

/* Only type 8 (bytes), which all of MNIST's relatives have. EINVAL with the reason in the error
 * slot. */
int tide_idx_parse(const void *data, size_t size, struct tide_idx *out);

#endif
