/*
 * What the kernels of sufficient-factor models share: examples as sparse rows, and factors. A model
 * has a matrix W, D x J; its gradient over a batch of K examples is V' U, V: K x D, U: K x J (Xie
 * et al., "Distributed Machine Learning via Sufficient Factor Broadcasting", UAI 2016, section 2).
 * Every number of an example is made in an order that depends on nothing but the example and W, so
 * the same bits come out however a batch is cut over workers.
 */
#ifndef TIDE_FACTORS_H
#define TIDE_FACTORS_H

#include "tide/kernel.h"

#define TIDE_KERNEL(name) extern const struct tide_kernel tide_kernel_##name;
#include "kernels.def"
#undef TIDE_KERNEL

/* The parameters that these kernels begin with. */
enum { F_OFFSETS, F_INDICES, F_VALUES, F_ROWS, F_W, F_U, F_V, F_COMMON };

#define TIDE_FACTOR_PARAMETERS                                                                                         \
    [F_OFFSETS] = {"offsets", TIDE_TENSOR, TIDE_U64,                                                                   \
                   true,      0,           "of examples: example i has the entries offsets[i] .. offsets[i + 1] - 1"}, \
    [F_INDICES] = {"indices", TIDE_TENSOR, TIDE_U32, true, 0, "columns of the entries, from 0"},                       \
    [F_VALUES] = {"values", TIDE_TENSOR, TIDE_F32, true, 0, "of the entries"},                                         \
    [F_ROWS] = {"rows", TIDE_TENSOR, TIDE_U32, true, 0, "the batch: numbers of examples, from 0"},                     \
    [F_W] = {"w", TIDE_TENSOR, TIDE_F32, true, 0, "the parameters, D x J"},                                            \
    [F_U] = {"u", TIDE_TENSOR, TIDE_F32, false, 0, "K x J, written; without it: sums alone"},                          \
    [F_V] = {"v", TIDE_TENSOR, TIDE_F32, false, 0, "K x D, written; with u"}

struct factor_row { /* an example's entries */
    const uint32_t *indices;
    const float *values;
    size_t count;
};

struct factor_batch {
    const uint64_t *offsets;
    const uint32_t *indices;
    const float *values;
    size_t examples, entries;
    const uint32_t *rows;
    size_t count;      /* K */
    float *w, *u, *v;  /* u and v NULL: sums alone */
    size_t d, j, wide; /* wide: columns that an example may have */
};

/* Reads the common arguments; `wide` is D, or J where W maps codes to examples. EINVAL. */
int tide_factor_batch(const struct tide_argument *arguments, size_t wide, struct factor_batch *out, char *error);
/* Entries of an example. EINVAL: there is none of that number, or a column outside. */
int tide_factor_row(const struct factor_batch *b, uint32_t example, struct factor_row *out, char *error);
/* z (J) += scale x row W. */
void tide_factor_scores(const struct factor_batch *b, const struct factor_row *row, float scale, float *z);
/* to (D) += scale x row. */
void tide_factor_spread(const struct factor_row *row, float scale, float *to);
double tide_factor_norm2(const float *x, size_t count);
/* Values that are not 0 of the first `rows` rows of u and v. 0 without them. */
double tide_factor_nonzeros(const struct factor_batch *b, size_t rows);

#endif
