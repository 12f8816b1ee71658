/*
 * The matrix library, OpenBLAS, loaded by the first thread that asks for it: processes that do not
 * compute (drivers, controllers, clients) never map its 177 MB and have none of its threads.
 *
 * It runs single-threaded: Tide's workers are the parallelism. Its core (the set of inner loops) is
 * what the processor has: releases before 0.3.25 take processors they do not know for one without
 * AVX, six times slower, and are overridden here. OPENBLAS_CORETYPE in the environment goes first.
 */
#ifndef TIDE_TENSOR_CPU_BLAS_H
#define TIDE_TENSOR_CPU_BLAS_H

#include <cblas.h>
#include <stddef.h>

struct tide_blas {
    void (*sgemm)(enum CBLAS_ORDER order, enum CBLAS_TRANSPOSE ta, enum CBLAS_TRANSPOSE tb, int m, int n, int k,
                  float alpha, const float *a, int lda, const float *b, int ldb, float beta, float *c, int ldc);
    void (*dgemm)(enum CBLAS_ORDER order, enum CBLAS_TRANSPOSE ta, enum CBLAS_TRANSPOSE tb, int m, int n, int k,
                  double alpha, const double *a, int lda, const double *b, int ldb, double beta, double *c, int ldc);
    void (*sgemv)(enum CBLAS_ORDER order, enum CBLAS_TRANSPOSE ta, int m, int n, float alpha, const float *a, int lda,
                  const float *x, int incx, float beta, float *y, int incy);
    /* LAPACK's, as Fortran has it: eigenvalues and vectors of a symmetric matrix. */
    void (*dsyevr)(const char *jobz, const char *range, const char *uplo, const int *n, double *a, const int *lda,
                   const double *vl, const double *vu, const int *il, const int *iu, const double *abstol, int *m,
                   double *w, double *z, const int *ldz, int *isuppz, double *work, const int *lwork, int *iwork,
                   const int *liwork, int *info, size_t, size_t, size_t);
    const char *config; /* version and build options, in the library's words */
    const char *core;   /* "Haswell", "SkylakeX", ...; "" if the library does not report it */
};

/* The library, the same for the life of the process; NULL with an error (TIDE_EUNSUPPORTED) where
 * it cannot be loaded. Any thread; the first call takes some milliseconds, later ones a load. */
const struct tide_blas *tide_blas(void);

#endif
