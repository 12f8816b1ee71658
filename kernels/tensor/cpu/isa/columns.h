/*
 * Sums down the columns of [rows, c]: eight rows are added in a tree, 64 of them in float, then in
 * double. The order depends on the number of rows alone. Each macro makes a function
 *     name(rows, c, x, y, mean, inv, acc, sum)
 * that sets sum[j] to the sum over rows of EXPRESSION(i), where i is the index of element (row, j);
 * acc is c floats of scratch.
 */
#ifndef TIDE_KERNEL_COLUMNS_H
#define TIDE_KERNEL_COLUMNS_H

#include "tensor/cpu/isa/isa.h"

enum { COLUMN_BLOCK = 64 };

#define TIDE_COLUMN_SUMS(name, EXPRESSION)                                                                             \
    static void name(size_t rows, size_t c, const float *x, const float *y, const float *mean, const float *inv,       \
                     float *acc, double *sum) {                                                                        \
        (void)y, (void)mean, (void)inv;                                                                                \
        memset(sum, 0, c * sizeof(double));                                                                            \
        for (size_t r = 0; r < rows;) {                                                                                \
            size_t end = rows - r < COLUMN_BLOCK ? rows : r + COLUMN_BLOCK;                                            \
            memset(acc, 0, c * sizeof(float));                                                                         \
            for (; r + 8 <= end; r += 8) {                                                                             \
                const size_t at = r * c;                                                                               \
                TIDE_INDEPENDENT                                                                                       \
                for (size_t j = 0; j < c; j++) {                                                                       \
                    acc[j] += ((EXPRESSION(at + j) + EXPRESSION(at + c + j)) +                                         \
                               (EXPRESSION(at + 2 * c + j) + EXPRESSION(at + 3 * c + j))) +                            \
                              ((EXPRESSION(at + 4 * c + j) + EXPRESSION(at + 5 * c + j)) +                             \
                               (EXPRESSION(at + 6 * c + j) + EXPRESSION(at + 7 * c + j)));                             \
                }                                                                                                      \
            }                                                                                                          \
            for (; r < end; r++) {                                                                                     \
                const size_t at = r * c;                                                                               \
                TIDE_INDEPENDENT                                                                                       \
                for (size_t j = 0; j < c; j++) {                                                                       \
                    acc[j] += EXPRESSION(at + j);                                                                      \
                }                                                                                                      \
            }                                                                                                          \
            TIDE_INDEPENDENT                                                                                           \
            for (size_t j = 0; j < c; j++) {                                                                           \
                sum[j] += (double)acc[j];                                                                              \
            }                                                                                                          \
        }                                                                                                              \
    }

#endif
