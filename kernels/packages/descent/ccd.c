/*
 * Matrix factorisation by cyclic coordinate descent over ranks (Yu, Hsieh, Si and Dhillon,
 * "Scalable Coordinate Descent Approaches to Parallel Matrix Factorization", ICDM 2012: CCD++).
 * Cells are in any order; `residual` of a cell is what all ranks together leave of it.
 */
#include "descent.h"

#include <math.h>
#include <string.h>

enum { CCD_CELLS, CCD_RESIDUAL, CCD_W, CCD_H, CCD_SIDE, CCD_NUM, CCD_DEN, CCD_COUNT };

static const struct tide_parameter ccd_parameters[CCD_COUNT] = {
    [CCD_CELLS] = {"cells", TIDE_TENSOR, TIDE_U32, true, 0, "n x 2: row and column, from 0"},
    [CCD_RESIDUAL] = {"residual", TIDE_TENSOR, TIDE_F64, true, 0, "n"},
    [CCD_W] = {"w", TIDE_TENSOR, TIDE_F64, true, 0, "of one rank, a number a row"},
    [CCD_H] = {"h", TIDE_TENSOR, TIDE_F64, true, 0, "of one rank, a number a column"},
    [CCD_SIDE] = {"side", TIDE_TEXT, 0, true, 0, "rows: sums for w; columns: sums for h; add, take: residual +- w h; "},
    [CCD_NUM] = {"num", TIDE_TENSOR, TIDE_F64, false, 0, "written: sum of residual x other side"},
    [CCD_DEN] = {"den", TIDE_TENSOR, TIDE_F64, false, 0, "written: sum of (other side)^2"},
};

static int ccd_run(const struct tide_argument *a, struct tide_result *results, char *error) {
    static const char *const sides[] = {"rows", "columns", "add", "take"};
    const struct tide_kernel *kernel = &tide_kernel_ccd_sums;
    const struct tide_tensor *cells = &a[CCD_CELLS].tensor;
    const uint32_t *cell = cells->data;
    size_t n = cells->rows, side = 0, rows = a[CCD_W].tensor.rows * a[CCD_W].tensor.columns;
    size_t columns = a[CCD_H].tensor.rows * a[CCD_H].tensor.columns;
    const double *w = a[CCD_W].tensor.data, *h = a[CCD_H].tensor.data;
    double *residual, *num, *den, squares = 0;
    int code = tide_kernel_vector(kernel, a, CCD_RESIDUAL, n, &residual, error);
    code = code ? code : tide_kernel_choice(kernel, a, CCD_SIDE, sides, 4, &side, error);
    size_t want = side == 0 ? rows : columns;
    code = code ? code : tide_kernel_vector(kernel, a, CCD_NUM, want, &num, error);
    code = code ? code : tide_kernel_vector(kernel, a, CCD_DEN, want, &den, error);
    if (code == 0 && (cells->columns != 2 || (side < 2 && (!num || !den)))) {
        code = tide_kernel_fail(error, TIDE_EINVAL, "cells are n x 2; sums want num and den");
    }
    if (code == 0 && side < 2) {
        memset(num, 0, want * sizeof *num);
        memset(den, 0, want * sizeof *den);
    }
    for (size_t k = 0; k < n && code == 0; k++) {
        uint32_t i = cell[2 * k], j = cell[2 * k + 1];
        if (i >= rows || j >= columns) {
            code = tide_kernel_fail(error, TIDE_EINVAL, "cell %u, %u of %zu x %zu", i, j, rows, columns);
        } else if (side >= 2) {
            residual[k] += side == 2 ? w[i] * h[j] : -w[i] * h[j];
            squares += residual[k] * residual[k];
        } else {
            double other = side == 0 ? h[j] : w[i];
            num[side == 0 ? i : j] += residual[k] * other;
            den[side == 0 ? i : j] += other * other;
        }
    }
    results[0] = (struct tide_result){"squares", squares};
    results[1] = (struct tide_result){"count", (double)n};
    return code < 0 ? code : 2;
}

const struct tide_kernel tide_kernel_ccd_sums = {"ccd_sums",
                                                 "Sums of coordinate descent on one rank of a factorisation (CCD++).",
                                                 ccd_parameters, CCD_COUNT, ccd_run};

enum { RANK_NUM, RANK_DEN, RANK_L, RANK_COUNTS, RANK_TO, RANK_COUNT };

static const struct tide_parameter rank_parameters[RANK_COUNT] = {
    [RANK_NUM] = {"num", TIDE_TENSOR, TIDE_F64, true, 0, "as ccd_sums gives it"},
    [RANK_DEN] = {"den", TIDE_TENSOR, TIDE_F64, true, 0, "as ccd_sums gives it"},
    [RANK_L] = {"l2", TIDE_NUMBER, 0, true, 0, "weight of the squares"},
    [RANK_COUNTS] = {"counts", TIDE_TENSOR, TIDE_F64, false, 0, "times which l2 is, one each"},
    [RANK_TO] = {"to", TIDE_TENSOR, TIDE_F64, true, 0, "written: num / (l2 counts + den)"},
};

static int rank_run(const struct tide_argument *a, struct tide_result *results, char *error) {
    const struct tide_kernel *kernel = &tide_kernel_ccd_rank;
    size_t n = a[RANK_TO].tensor.rows * a[RANK_TO].tensor.columns;
    double *to = a[RANK_TO].tensor.data, *num, *den, *counts;
    int code = tide_kernel_vector(kernel, a, RANK_NUM, n, &num, error);
    code = code ? code : tide_kernel_vector(kernel, a, RANK_DEN, n, &den, error);
    code = code ? code : tide_kernel_vector(kernel, a, RANK_COUNTS, n, &counts, error);
    for (size_t i = 0; i < n && code == 0; i++) {
        double below = a[RANK_L].number * (counts ? counts[i] : 1) + den[i];
        to[i] = below > 0 ? num[i] / below : 0;
    }
    results[0] = (struct tide_result){"count", (double)n};
    return code < 0 ? code : 1;
}

const struct tide_kernel tide_kernel_ccd_rank = {"ccd_rank",
                                                 "The exact minimisers of one rank of a factorisation from their sums.",
                                                 rank_parameters, RANK_COUNT, rank_run};
