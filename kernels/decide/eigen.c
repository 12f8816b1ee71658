/* Eigenvalues and vectors of a symmetric matrix, by LAPACK's dsyevr. */
#include "decide/numeric.h"

#include "base/base.h"
#include "tensor/cpu/blas.h"
#include "tide.h"

#include <limits.h>
#include <math.h>
#include <string.h>

int tide_eigen_symmetric(const double *a, size_t n, double *values, double *vectors) {
    const int size = (int)n, none = 0;
    const double zero = 0;
    int found = 0, info = 0, lwork = -1, liwork = -1, iwant = 0;
    double want = 0;
    if (n == 0 || n > 4096) {
        return tide_fail(TIDE_EINVAL, "a matrix of 1 to 4096 rows has eigenvalues here, not of %zu", n);
    }
    for (size_t i = 0; i < n * n; i++) {
        if (!isfinite(a[i])) {
            return tide_fail(TIDE_EINVAL, "element %zu, %zu of the matrix is not finite", i / n + 1, i % n + 1);
        }
    }
    const struct tide_blas *blas = tide_blas();
    if (!blas) {
        return TIDE_EUNSUPPORTED;
    }
    double *copy = tide_alloc(n * n * sizeof *copy), *work = NULL;
    int *support = tide_alloc(2 * n * sizeof *support), *iwork = NULL;
    int code = copy && support ? 0 : TIDE_ENOMEM;
    const char *jobz = vectors ? "V" : "N";
    if (code == 0) {
        memcpy(copy, a, n * n * sizeof *copy);
        blas->dsyevr(jobz, "A", "L", &size, copy, &size, &zero, &zero, &none, &none, &zero, &found, values,
                     vectors ? vectors : copy, &size, support, &want, &lwork, &iwant, &liwork, &info, 1, 1, 1);
        lwork = (int)want;
        liwork = iwant;
        work = tide_alloc((size_t)lwork * sizeof *work);
        iwork = tide_alloc((size_t)liwork * sizeof *iwork);
        code = work && iwork && info == 0 ? 0 : TIDE_ENOMEM;
    }
    if (code == 0) {
        blas->dsyevr(jobz, "A", "L", &size, copy, &size, &zero, &zero, &none, &none, &zero, &found, values,
                     vectors ? vectors : copy, &size, support, work, &lwork, iwork, &liwork, &info, 1, 1, 1);
        code = info == 0 && found == size ? 0
                                          : tide_fail(TIDE_EINVAL, "the eigenvalues were not found (dsyevr: %d)", info);
    }
    tide_free(copy);
    tide_free(support);
    tide_free(work);
    tide_free(iwork);
    return code == TIDE_ENOMEM ? tide_fail(code, "out of memory") : code;
}
