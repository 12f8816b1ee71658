/* Arithmetic on f64 tensors of one size, for solvers whose state is the workers': sums in order. */
#include "arguments.h"

#include "base/base.h"
#include "tensor/cpu/gemm.h"
#include "kernels.h"
#include "decide/numeric.h"
#include "tide.h"

#include <math.h>
#include <string.h>

static size_t elements(const struct tide_tensor *t) {
    return t->rows * t->columns;
}

enum { ADD_TO, ADD_X, ADD_BY, ADD_SCALE, ADD_PLUS, ADD_COUNT };

static const struct tide_parameter add_parameters[ADD_COUNT] = {
    [ADD_TO] = {"to", TIDE_TENSOR, TIDE_F64, true, 0, "becomes scale to + by x + plus"},
    [ADD_X] = {"x", TIDE_TENSOR, TIDE_F64, false, 0, "as many numbers"},
    [ADD_BY] = {"by", TIDE_NUMBER, 0, false, 1, "factor of x"},
    [ADD_SCALE] = {"scale", TIDE_NUMBER, 0, false, 1, "factor of what is there"},
    [ADD_PLUS] = {"plus", TIDE_NUMBER, 0, false, 0, "added to each"},
};

static int add_run(const struct tide_argument *a, struct tide_result *results, char *error) {
    size_t n = elements(&a[ADD_TO].tensor);
    double *to = a[ADD_TO].tensor.data, *x;
    double by = a[ADD_BY].number, scale = a[ADD_SCALE].number, plus = a[ADD_PLUS].number;
    int code = tide_kernel_vector(&tide_kernel_vector_add, a, ADD_X, n, &x, error);
    if (code < 0) {
        return code;
    }
    for (size_t i = 0; i < n; i++) {
        to[i] = (scale == 0 ? 0 : scale * to[i]) + (x ? by * x[i] : 0) + plus;
    }
    results[0] = (struct tide_result){"count", (double)n};
    return 1;
}

const struct tide_kernel tide_kernel_vector_add = {"vector_add", "to = scale to + by x + plus, elementwise.",
                                                   add_parameters, ADD_COUNT, add_run};

enum { DOT_X, DOT_Y, DOT_W, DOT_COUNT };

static const struct tide_parameter dot_parameters[DOT_COUNT] = {
    [DOT_X] = {"x", TIDE_TENSOR, TIDE_F64, true, 0, "numbers"},
    [DOT_Y] = {"y", TIDE_TENSOR, TIDE_F64, false, 0, "as many; default 1"},
    [DOT_W] = {"weights", TIDE_TENSOR, TIDE_F64, false, 0, "as many; default 1"},
};

static int dot_run(const struct tide_argument *a, struct tide_result *results, char *error) {
    const double *x = a[DOT_X].tensor.data;
    size_t n = elements(&a[DOT_X].tensor);
    double *y, *w, sum = 0, sizes = 0, most = 0, nonzero = 0;
    int code = tide_kernel_vector(&tide_kernel_vector_dot, a, DOT_Y, n, &y, error);
    code = code ? code : tide_kernel_vector(&tide_kernel_vector_dot, a, DOT_W, n, &w, error);
    if (code < 0) {
        return code;
    }
    for (size_t i = 0; i < n; i++) {
        double value = x[i] * (w ? w[i] : 1), size = fabs(x[i]);
        sum += value * (y ? y[i] : 1);
        sizes += fabs(value);
        most = size > most || isnan(size) ? size : most;
        nonzero += x[i] != 0;
    }
    results[0] = (struct tide_result){"sum", sum};
    results[1] = (struct tide_result){"sizes", sizes};
    results[2] = (struct tide_result){"most", most};
    results[3] = (struct tide_result){"nonzero", nonzero};
    results[4] = (struct tide_result){"count", (double)n};
    return 5;
}

const struct tide_kernel tide_kernel_vector_dot = {
    "vector_dot", "sum x y w, sum |x w|, the largest |x|, how many are not 0.", dot_parameters, DOT_COUNT, dot_run};

enum { TIMES_TO, TIMES_X, TIMES_COUNT };

static const struct tide_parameter times_parameters[TIMES_COUNT] = {
    [TIMES_TO] = {"to", TIDE_TENSOR, TIDE_F64, true, 0, "becomes to x"},
    [TIMES_X] = {"x", TIDE_TENSOR, TIDE_F64, true, 0, "as many numbers"},
};

static int times_run(const struct tide_argument *a, struct tide_result *results, char *error) {
    size_t n = elements(&a[TIMES_TO].tensor);
    double *to = a[TIMES_TO].tensor.data, *x;
    int code = tide_kernel_vector(&tide_kernel_vector_times, a, TIMES_X, n, &x, error);
    for (size_t i = 0; i < n && code == 0; i++) {
        to[i] *= x[i];
    }
    results[0] = (struct tide_result){"count", (double)n};
    return code < 0 ? code : 1;
}

const struct tide_kernel tide_kernel_vector_times = {"vector_times", "to = to x, elementwise.", times_parameters,
                                                     TIMES_COUNT, times_run};

enum { PUT_TO, PUT_SET, PUT_VALUES, PUT_COUNT };

static const struct tide_parameter put_parameters[PUT_COUNT] = {
    [PUT_TO] = {"to", TIDE_TENSOR, TIDE_F64, true, 0, "numbers"},
    [PUT_SET] = {"set", TIDE_TENSOR, TIDE_U32, true, 0, "places, from 0"},
    [PUT_VALUES] = {"values", TIDE_TENSOR, TIDE_F64, true, 0, "one a place"},
};

static int put_run(const struct tide_argument *a, struct tide_result *results, char *error) {
    size_t count = elements(&a[PUT_SET].tensor), n = elements(&a[PUT_TO].tensor);
    const uint32_t *set = a[PUT_SET].tensor.data;
    double *to = a[PUT_TO].tensor.data, *values;
    int code = tide_kernel_vector(&tide_kernel_vector_put, a, PUT_VALUES, count, &values, error);
    for (size_t k = 0; k < count && code == 0; k++) {
        if (set[k] >= n) {
            code = tide_kernel_fail(error, TIDE_EINVAL, "set: there is no place %u of %zu", set[k], n);
        } else {
            to[set[k]] = values[k];
        }
    }
    results[0] = (struct tide_result){"count", (double)count};
    return code < 0 ? code : 1;
}

const struct tide_kernel tide_kernel_vector_put = {"vector_put", "Numbers to places of a vector.", put_parameters,
                                                   PUT_COUNT, put_run};

/* ---- matrices ---- */

enum { PRODUCT_A, PRODUCT_B, PRODUCT_OUT, PRODUCT_TA, PRODUCT_TB, PRODUCT_BY, PRODUCT_COUNT };

static const struct tide_parameter product_parameters[PRODUCT_COUNT] = {
    [PRODUCT_A] = {"a", TIDE_TENSOR, TIDE_F64, true, 0, "m x k"},
    [PRODUCT_B] = {"b", TIDE_TENSOR, TIDE_F64, true, 0, "k x n"},
    [PRODUCT_OUT] = {"out", TIDE_TENSOR, TIDE_F64, true, 0, "m x n, written: by a b"},
    [PRODUCT_TA] = {"transpose_a", TIDE_FLAG, 0, false, 0, "a is k x m"},
    [PRODUCT_TB] = {"transpose_b", TIDE_FLAG, 0, false, 0, "b is n x k"},
    [PRODUCT_BY] = {"by", TIDE_NUMBER, 0, false, 1, "factor"},
};

static int product_run(const struct tide_argument *arguments, struct tide_result *results, char *error) {
    const struct tide_tensor *a = &arguments[PRODUCT_A].tensor, *b = &arguments[PRODUCT_B].tensor;
    const struct tide_tensor *out = &arguments[PRODUCT_OUT].tensor;
    bool ta = arguments[PRODUCT_TA].number != 0, tb = arguments[PRODUCT_TB].number != 0;
    size_t m = ta ? a->columns : a->rows, k = ta ? a->rows : a->columns;
    size_t n = tb ? b->rows : b->columns;
    if ((tb ? b->columns : b->rows) != k || out->rows != m || out->columns != n) {
        return tide_kernel_fail(error, TIDE_EINVAL, "a of %zu x %zu and b of %zu x %zu do not make %zu x %zu", a->rows,
                                a->columns, b->rows, b->columns, out->rows, out->columns);
    }
    int code = tide_cpu_product(ta, tb, m, n, k, arguments[PRODUCT_BY].number, a->data, a->columns, b->data, b->columns,
                                out->data, out->columns);
    if (code < 0) {
        return tide_kernel_fail(error, code, "the matrices are too large");
    }
    results[0] = (struct tide_result){"count", (double)(m * n)};
    return 1;
}

const struct tide_kernel tide_kernel_product = {"product", "A product of f64 matrices.", product_parameters,
                                                PRODUCT_COUNT, product_run};

enum { EIGEN_A, EIGEN_VALUES, EIGEN_VECTORS, EIGEN_COUNT };

static const struct tide_parameter eigen_parameters[EIGEN_COUNT] = {
    [EIGEN_A] = {"a", TIDE_TENSOR, TIDE_F64, true, 0, "n x n, symmetric"},
    [EIGEN_VALUES] = {"values", TIDE_TENSOR, TIDE_F64, true, 0, "n, written, rising"},
    [EIGEN_VECTORS] = {"vectors", TIDE_TENSOR, TIDE_F64, false, 0, "n x n, written: a row each"},
};

static int eigen_run(const struct tide_argument *a, struct tide_result *results, char *error) {
    const struct tide_kernel *kernel = &tide_kernel_eigen;
    size_t n = a[EIGEN_A].tensor.rows;
    double *values, *vectors;
    int code = tide_kernel_vector(kernel, a, EIGEN_VALUES, n, &values, error);
    code = code ? code : tide_kernel_vector(kernel, a, EIGEN_VECTORS, n * n, &vectors, error);
    if (code == 0 && a[EIGEN_A].tensor.columns != n) {
        code = tide_kernel_fail(error, TIDE_EINVAL, "a is not square");
    }
    if (code < 0) {
        return code;
    }
    code = tide_eigen_symmetric(a[EIGEN_A].tensor.data, n, values, vectors);
    if (code < 0) {
        return tide_kernel_fail(error, code, "%s", tide_error_message());
    }
    results[0] = (struct tide_result){"count", (double)n};
    return 1;
}

const struct tide_kernel tide_kernel_eigen = {"eigen",
                                              "Eigenvalues of a symmetric matrix, rising, and its eigenvectors.",
                                              eigen_parameters, EIGEN_COUNT, eigen_run};

/* ---- rows to columns ---- */

enum { TURN_FROM, TURN_TO, TURN_COUNT };

static const struct tide_parameter turn_parameters[TURN_COUNT] = {
    [TURN_FROM] = {"from", TIDE_TENSOR, TIDE_F32, true, 0, "n x J"},
    [TURN_TO] = {"to", TIDE_TENSOR, TIDE_F32, true, 0, "J x n, written"},
};

static int turn_run(const struct tide_argument *a, struct tide_result *results, char *error) {
    enum { BLOCK = 32 };
    const struct tide_tensor *from = &a[TURN_FROM].tensor, *to = &a[TURN_TO].tensor;
    const float *x = from->data;
    float *out = to->data;
    size_t n = from->rows, j = from->columns;
    if (to->rows != j || to->columns != n) {
        return tide_kernel_fail(error, TIDE_EINVAL, "to must be %zu x %zu", j, n);
    }
    for (size_t r = 0; r < n; r += BLOCK) {
        for (size_t c = 0; c < j; c += BLOCK) {
            for (size_t i = r; i < n && i < r + BLOCK; i++) {
                for (size_t k = c; k < j && k < c + BLOCK; k++) {
                    out[k * n + i] = x[i * j + k];
                }
            }
        }
    }
    results[0] = (struct tide_result){"count", (double)n};
    return 1;
}

const struct tide_kernel tide_kernel_dense_columns = {"dense_columns", "Dense rows by column.", turn_parameters,
                                                      TURN_COUNT, turn_run};

/* ---- columns of a matrix ---- */

enum { CUT_WIDE, CUT_FIRST, CUT_NARROW, CUT_BACK, CUT_COUNT };

static const struct tide_parameter cut_parameters[CUT_COUNT] = {
    [CUT_WIDE] = {"wide", TIDE_TENSOR, TIDE_F64, true, 0, "r x d"},
    [CUT_FIRST] = {"first", TIDE_NUMBER, 0, true, 0, "first of the columns, from 0"},
    [CUT_NARROW] = {"narrow", TIDE_TENSOR, TIDE_F64, true, 0, "r x c"},
    [CUT_BACK] = {"back", TIDE_FLAG, 0, false, 0, "narrow is written into wide, not out of it"},
};

static int cut_run(const struct tide_argument *a, struct tide_result *results, char *error) {
    const struct tide_tensor *wide = &a[CUT_WIDE].tensor, *narrow = &a[CUT_NARROW].tensor;
    double *w = wide->data, *n = narrow->data;
    bool back = a[CUT_BACK].number != 0;
    uint64_t first;
    int code = tide_kernel_whole(&tide_kernel_matrix_columns, a, CUT_FIRST, 0, wide->columns, &first, error);
    if (code == 0 && (narrow->rows != wide->rows || narrow->columns > wide->columns - first)) {
        code = tide_kernel_fail(error, TIDE_EINVAL, "%zu x %zu has no columns %zu of %zu rows", wide->rows,
                                wide->columns, narrow->columns, narrow->rows);
    }
    for (size_t i = 0; code == 0 && i < wide->rows && narrow->columns > 0; i++) {
        double *x = w + i * wide->columns + first, *y = n + i * narrow->columns;
        memcpy(back ? x : y, back ? y : x, narrow->columns * sizeof *x);
    }
    results[0] = (struct tide_result){"count", (double)wide->rows};
    return code < 0 ? code : 1;
}

const struct tide_kernel tide_kernel_matrix_columns = {"matrix_columns", "Columns of a matrix out of it, or into it.",
                                                       cut_parameters, CUT_COUNT, cut_run};
