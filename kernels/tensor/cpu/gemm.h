/* Matrix products of the CPU backend besides tide_cpu_gemm (tide/kernel.h), for kernels that stay on the CPU. */
#ifndef TIDE_CPU_GEMM_H
#define TIDE_CPU_GEMM_H

#include "kernel.h"

/* c = alpha op(a) op(b) + beta c: the arguments of tide_cpu_gemm. */
struct tide_product {
    bool ta, tb;
    size_t m, n, k;
    float alpha;
    const float *a;
    size_t lda;
    const float *b;
    size_t ldb;
    float beta;
    float *c;
    size_t ldc;
};

/* y = alpha op(a) x + beta y for a of rows x columns without gaps: several times as fast as a product with one column.
 * Errors: those of tide_cpu_gemm (tide/kernel.h). */
int tide_cpu_gemv(bool transpose, size_t rows, size_t columns, float alpha, const float *a, const float *x, float beta,
                  float *y);

/* c[m x n] = alpha op(a) op(b), f64, row-major. The same errors. */
int tide_cpu_product(bool transpose_a, bool transpose_b, size_t m, size_t n, size_t k, double alpha, const double *a,
                     size_t lda, const double *b, size_t ldb, double *c, size_t ldc);

#endif
