/* The matrix product of the CPU backend, for kernels that stay on the CPU. See struct tide_backend
 * for the meaning. */
#ifndef TIDE_CPU_GEMM_H
#define TIDE_CPU_GEMM_H

#include "kernel.h"

/* Errors: EINVAL (a leading dimension shorter than its row, or a size beyond int), EUNSUPPORTED (no
 * matrix library). Any thread. */
int tide_cpu_gemm(bool transpose_a, bool transpose_b, size_t m, size_t n, size_t k, float alpha,
                  const float *a, size_t lda, const float *b, size_t ldb, float beta, float *c,
                  size_t ldc);

#endif
