/* The matrix product of the CPU backend, for kernels that stay on the CPU. See struct tide_backend
 * for the meaning. */
#ifndef TIDE_CPU_GEMM_H
#define TIDE_CPU_GEMM_H

#include "kernel.h"

/* Errors: EINVAL (a leading dimension shorter than its row, or a size beyond int), EUNSUPPORTED (no
 * matrix library). Any thread. */
int tide_cpu_gemm(bool transpose_a, bool transpose_b, size_t m, size_t n, size_t k, float alpha, const float *a,
                  size_t lda, const float *b, size_t ldb, float beta, float *c, size_t ldc);

/* y = alpha op(a) x + beta y for a of rows x columns without gaps: several times as fast as a product with one column.
 * Errors as above. */
int tide_cpu_gemv(bool transpose, size_t rows, size_t columns, float alpha, const float *a, const float *x, float beta,
                  float *y);

/* c[m x n] = alpha op(a) op(b), f64, row-major. The same errors. */
int tide_cpu_product(bool transpose_a, bool transpose_b, size_t m, size_t n, size_t k, double alpha, const double *a,
                     size_t lda, const double *b, size_t ldb, double *c, size_t ldc);

#endif
