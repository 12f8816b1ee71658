/*
 * The one dense operation: CBLAS, and for narrow shapes Tide's own loops (isa/narrow.c). Arguments are checked here,
 * since a CBLAS library ends the process over a wrong leading dimension; an empty product never reaches it.
 */
#include "tensor/cpu/gemm.h"
#include "tensor/cpu/blas.h"
#include "tensor/isa.h"
#include "tide.h"

#include <limits.h>
#include <string.h>

static void scale(size_t m, size_t n, float beta, float *c, size_t ldc) {
    for (size_t i = 0; i < m; i++) {
        if (beta == 0) {
            memset(c + i * ldc, 0, n * sizeof(float));
            continue;
        }
        for (size_t j = 0; j < n; j++) {
            c[i * ldc + j] *= beta;
        }
    }
}

void tide__op_narrow_plain(const struct tide_product *p);
#if defined(__x86_64__)
void tide__op_narrow_avx2(const struct tide_product *p);
void tide__op_narrow_avx512(const struct tide_product *p);
#endif

/* Shapes for which the library's copies of the operands take longer than the product (bench_programs, "mm"): one
 * operand is large, the other has few columns or rows, and columns lie side by side. */
static bool is_narrow(const struct tide_product *p) {
    enum { LARGE = 1 << 17, LINE = 16, COLUMNS = 64, ROWS = 32 };
    const bool columns = p->n <= COLUMNS && p->n % LINE == 0 && p->m * p->k >= LARGE;
    const bool rows = p->m <= ROWS && p->n >= LINE && p->k * p->n >= LARGE;
    return !p->tb && (columns || rows);
}

static void narrow(const struct tide_product *p) {
#if defined(__x86_64__)
    if (tide_isa >= TIDE_ISA_AVX2) {
        (tide_isa >= TIDE_ISA_AVX512 ? tide__op_narrow_avx512 : tide__op_narrow_avx2)(p);
        return;
    }
#endif
    tide__op_narrow_plain(p);
}

int tide_cpu_gemm(bool transpose_a, bool transpose_b, size_t m, size_t n, size_t k, float alpha, const float *a,
                  size_t lda, const float *b, size_t ldb, float beta, float *c, size_t ldc) {
    size_t columns_a = transpose_a ? m : k, columns_b = transpose_b ? k : n;
    if (m > INT_MAX || n > INT_MAX || k > INT_MAX || lda > INT_MAX || ldb > INT_MAX || ldc > INT_MAX ||
        (k && (lda < columns_a || ldb < columns_b)) || (m && ldc < n)) {
        return TIDE_EINVAL;
    }
    if (m == 0 || n == 0) {
        return 0;
    }
    if (k == 0) {
        scale(m, n, beta, c, ldc);
        return 0;
    }
    const struct tide_product product = {transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc};
    if (is_narrow(&product)) {
        narrow(&product);
        return 0;
    }
    const struct tide_blas *blas = tide_blas();
    if (!blas) {
        return TIDE_EUNSUPPORTED;
    }
    blas->sgemm(CblasRowMajor, transpose_a ? CblasTrans : CblasNoTrans, transpose_b ? CblasTrans : CblasNoTrans, (int)m,
                (int)n, (int)k, alpha, a, (int)lda, b, (int)ldb, beta, c, (int)ldc);
    return 0;
}

int tide_cpu_gemv(bool transpose, size_t rows, size_t columns, float alpha, const float *a, const float *x, float beta,
                  float *y) {
    if (rows > INT_MAX || columns > INT_MAX) {
        return TIDE_EINVAL;
    }
    const size_t m = transpose ? columns : rows;
    if (m == 0 || rows == 0 || columns == 0) {
        scale(1, m, beta, y, m);
        return 0;
    }
    const struct tide_blas *blas = tide_blas();
    if (!blas) {
        return TIDE_EUNSUPPORTED;
    }
    if (beta == 0) {
        memset(y, 0, m * sizeof *y); /* the library may multiply what was there by 0, NaN too */
    }
    blas->sgemv(CblasRowMajor, transpose ? CblasTrans : CblasNoTrans, (int)rows, (int)columns, alpha, a, (int)columns,
                x, 1, beta, y, 1);
    return 0;
}

int tide_cpu_product(bool transpose_a, bool transpose_b, size_t m, size_t n, size_t k, double alpha, const double *a,
                     size_t lda, const double *b, size_t ldb, double *c, size_t ldc) {
    size_t columns_a = transpose_a ? m : k, columns_b = transpose_b ? k : n;
    if (m > INT_MAX || n > INT_MAX || k > INT_MAX || lda > INT_MAX || ldb > INT_MAX || ldc > INT_MAX ||
        (k && (lda < columns_a || ldb < columns_b)) || (m && ldc < n)) {
        return TIDE_EINVAL;
    }
    for (size_t i = 0; i < m && (k == 0 || n == 0); i++) {
        memset(c + i * ldc, 0, n * sizeof *c);
    }
    if (m == 0 || n == 0 || k == 0) {
        return 0;
    }
    const struct tide_blas *blas = tide_blas();
    if (!blas) {
        return TIDE_EUNSUPPORTED;
    }
    blas->dgemm(CblasRowMajor, transpose_a ? CblasTrans : CblasNoTrans, transpose_b ? CblasTrans : CblasNoTrans, (int)m,
                (int)n, (int)k, alpha, a, (int)lda, b, (int)ldb, 0, c, (int)ldc);
    return 0;
}
