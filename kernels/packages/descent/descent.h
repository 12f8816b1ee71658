/*
 * Kernels of tide.descent: what a worker computes from its examples, and what all workers compute
 * alike from sums. Examples are rows, here kept by column (struct descent_columns); a vector over
 * examples or variables is f64.
 *
 * What is alike on all workers (descent_solve, descent_sample, descent_check) is plain C without
 * library products, so that processors of one family give the same bits.
 */
#ifndef TIDE_DESCENT_H
#define TIDE_DESCENT_H

#include "tide/kernel.h"

#define TIDE_KERNEL(name) extern const struct tide_kernel tide_kernel_##name;
#include "kernels.def"
#undef TIDE_KERNEL

/* X by column, n rows x J columns. Sparse: column j has the entries offsets[j] .. offsets[j + 1] -
 * 1 of rows (rising, from 0) and values. Dense: offsets NULL, column j is values[j n .. j n + n -
 * 1]. With a shift the columns are less a number each: a sum over columns whose mean is far above
 * their deviation keeps its digits. A sparse column that is shifted has an entry in every row that
 * counts (of weight above 0): sums run over entries alone. */
struct descent_columns {
    const uint64_t *offsets;
    const uint32_t *rows;
    const float *values;
    const double *shift; /* J, or NULL: none is shifted */
    size_t n, j;
};

/* The parameters that kernels on columns begin with. */
enum { D_OFFSETS, D_ROWS, D_VALUES, D_N, D_SET, D_SHIFT, D_COMMON };

#define DESCENT_PARAMETERS                                                                                             \
    [D_OFFSETS] = {"offsets", TIDE_TENSOR, TIDE_U64, false, 0, "J + 1, of sparse columns"},                            \
    [D_ROWS] = {"rows", TIDE_TENSOR, TIDE_U32, false, 0, "row of each entry, from 0"},                                 \
    [D_VALUES] = {"values", TIDE_TENSOR, TIDE_F32, true, 0, "entries of sparse columns, or J x n of dense ones"},      \
    [D_N] = {"n", TIDE_NUMBER, 0, true, 0, "rows of X"}, [D_SET] = {"set",    TIDE_TENSOR,                             \
                                                                    TIDE_U32, false,                                   \
                                                                    0,        "which columns, from 0; default all"},   \
    [D_SHIFT] = {"shift", TIDE_TENSOR, TIDE_F64, false, 0, "J numbers that columns are less; 0: as they are"}

/* Reads and checks them: every entry lies inside. *set NULL: all, *count = J. EINVAL. */
int descent_columns_of(const struct tide_argument *arguments, struct descent_columns *x, const uint32_t **set,
                       size_t *count, char *error);

/* min over x of -z'(x - x0) + 1/2 (x - x0)' G (x - x0) + sum_j penalty_j |x_j| + ridge_j x_j^2 / 2,
 * from x0, which becomes the solution: cyclic descent over the variables that move, and now and
 * then a Newton step on the support (Cholesky), taken as far as signs keep. */
struct descent_quadratic {
    const double *gram; /* m x m, symmetric */
    const double *z;    /* m: minus the gradient at x0 of the smooth part without the ridge */
    const double *penalty, *ridge;
    size_t m;
    bool positive;
    double tolerance; /* of the distance from optimality, as a share of the penalty */
    double objective; /* about; above 0 */
    size_t passes_most;
};
/* *left: that distance at the end. *passes: sweeps. ENOMEM. */
int descent_solve(const struct descent_quadratic *q, double *x, double *left, size_t *passes);

/* Sums over ranges of weights that change: a Fenwick tree (1994) of `count` numbers >= 0. */
void descent_tree_build(const double *weights, size_t count, double *tree);
void descent_tree_add(double *tree, size_t count, size_t at, double by);
/* The first place whose sum of weights up to itself exceeds `sum`. */
size_t descent_tree_find(const double *tree, size_t count, double sum, size_t *steps);

#endif
