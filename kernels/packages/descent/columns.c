/*
 * Columns of examples: dot products, residuals, Gram matrices. A dot product adds four partial sums
 * in f64, entry by entry, so its bits do not depend on the processor's vectors. Gram matrices of
 * dense columns are f32 products of 1,024 rows at a time that are added in f64: they steer, what is
 * certified is computed by dots. `exact` ones are f64 dot products, for columns that f32 does not
 * tell apart.
 */
#include "descent.h"

#include <math.h>
#include <string.h>

enum { BLOCK = 1024 };

static size_t elements(const struct tide_tensor *t) {
    return t->rows * t->columns;
}

static int check_entries(const struct descent_columns *x, size_t entries, char *error) {
    for (size_t j = 0; j < x->j; j++) {
        if (x->offsets[j] > x->offsets[j + 1] || x->offsets[j + 1] > entries) {
            return tide_kernel_fail(error, TIDE_EINVAL, "the offsets of column %zu are wrong", j);
        }
    }
    return 0;
}

int descent_columns_of(const struct tide_argument *arguments, struct descent_columns *x, const uint32_t **set,
                       size_t *count, char *error) {
    const struct tide_argument *a = arguments;
    const struct tide_tensor *values = &a[D_VALUES].tensor;
    double n = a[D_N].number;
    if (!(n >= 0 && n < 0x1p32 && n == floor(n))) {
        return tide_kernel_fail(error, TIDE_EINVAL, "n: %g is no number of rows", n);
    }
    if (a[D_OFFSETS].given != a[D_ROWS].given) {
        return tide_kernel_fail(error, TIDE_EINVAL, "offsets and rows come together");
    }
    *x = (struct descent_columns){.values = values->data, .n = (size_t)n};
    if (a[D_OFFSETS].given) {
        size_t entries = elements(values);
        x->offsets = a[D_OFFSETS].tensor.data;
        x->rows = a[D_ROWS].tensor.data;
        if (elements(&a[D_OFFSETS].tensor) == 0 || elements(&a[D_ROWS].tensor) != entries) {
            return tide_kernel_fail(error, TIDE_EINVAL, "columns want one offset more than they are, a row a value");
        }
        x->j = elements(&a[D_OFFSETS].tensor) - 1;
        int code = check_entries(x, entries, error);
        if (code < 0) {
            return code;
        }
    } else {
        if (values->columns != x->n) {
            return tide_kernel_fail(error, TIDE_EINVAL, "dense columns are J x n, not %zu x %zu", values->rows,
                                    values->columns);
        }
        x->j = values->rows;
    }
    if (a[D_SHIFT].given && elements(&a[D_SHIFT].tensor) != x->j) {
        return tide_kernel_fail(error, TIDE_EINVAL, "shift has %zu numbers, not %zu", elements(&a[D_SHIFT].tensor),
                                x->j);
    }
    x->shift = a[D_SHIFT].given ? a[D_SHIFT].tensor.data : NULL;
    *set = a[D_SET].given ? a[D_SET].tensor.data : NULL;
    *count = a[D_SET].given ? elements(&a[D_SET].tensor) : x->j;
    for (size_t k = 0; *set && k < *count; k++) {
        if ((*set)[k] >= x->j) {
            return tide_kernel_fail(error, TIDE_EINVAL, "set: there is no column %u, only %zu", (*set)[k], x->j);
        }
    }
    return 0;
}

/* Rows of sparse columns are checked where they are used: sums run over all entries anyway. */
static int row_outside(const struct descent_columns *x, size_t j, char *error) {
    return tide_kernel_fail(error, TIDE_EINVAL, "column %zu has a row beyond %zu", j, x->n);
}

static double shift_of(const struct descent_columns *x, size_t j) {
    return x->shift ? x->shift[j] : 0;
}

static double power_of(double value, unsigned power) {
    return power == 1 ? value : power == 2 ? value * value : 1;
}

static double dense_dot(const struct descent_columns *x, size_t j, const double *v, unsigned power) {
    const float *values = x->values + j * x->n;
    const double shift = shift_of(x, j);
    double sum[4] = {0};
    size_t i = 0, n = x->n;
    for (; i + 4 <= n; i += 4) {
        for (size_t k = 0; k < 4; k++) {
            sum[k] += power_of((double)values[i + k] - shift, power) * v[i + k];
        }
    }
    for (; i < n; i++) {
        sum[0] += power_of((double)values[i] - shift, power) * v[i];
    }
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

static bool sparse_dot(const struct descent_columns *x, size_t j, const double *v, unsigned power, double *out) {
    const double shift = shift_of(x, j);
    double sum[2] = {0};
    for (uint64_t e = x->offsets[j]; e < x->offsets[j + 1]; e++) {
        if (x->rows[e] >= x->n) {
            return false;
        }
        sum[e & 1] += power_of((double)x->values[e] - shift, power) * v[x->rows[e]];
    }
    *out = sum[0] + sum[1];
    return true;
}

/* False: a row lies outside. */
static bool column_dot(const struct descent_columns *x, size_t j, const double *v, unsigned power, double *out) {
    if (x->offsets) {
        return sparse_dot(x, j, v, power, out);
    }
    *out = dense_dot(x, j, v, power);
    return true;
}

/* ---- z_j = sum_i x_ij v_i ---- */

enum { DOTS_V = D_COMMON, DOTS_OUT, DOTS_POWER, DOTS_COUNT };

static const struct tide_parameter dots_parameters[DOTS_COUNT] = {
    DESCENT_PARAMETERS,
    [DOTS_V] = {"v", TIDE_TENSOR, TIDE_F64, true, 0, "n numbers"},
    [DOTS_OUT] = {"out", TIDE_TENSOR, TIDE_F64, true, 0, "a sum for each column of the set"},
    [DOTS_POWER] = {"power", TIDE_NUMBER, 0, false, 1, "of x: sum x^2 v with 2, sum v of the entries with 0"},
};

static int dots_run(const struct tide_argument *arguments, struct tide_result *results, char *error) {
    const struct tide_kernel *kernel = &tide_kernel_descent_dots;
    struct descent_columns x;
    const uint32_t *set;
    size_t count;
    double *v, *out;
    uint64_t power = 1;
    int code = descent_columns_of(arguments, &x, &set, &count, error);
    code = code ? code : tide_kernel_whole(kernel, arguments, DOTS_POWER, 0, 2, &power, error);
    code = code ? code : tide_kernel_vector(kernel, arguments, DOTS_V, x.n, &v, error);
    code = code ? code : tide_kernel_vector(kernel, arguments, DOTS_OUT, count, &out, error);
    size_t entries = 0;
    for (size_t k = 0; k < count && code == 0; k++) {
        size_t j = set ? set[k] : k;
        code = column_dot(&x, j, v, (unsigned)power, &out[k]) ? 0 : row_outside(&x, j, error);
        entries += x.offsets ? x.offsets[j + 1] - x.offsets[j] : x.n;
    }
    results[0] = (struct tide_result){"count", (double)entries};
    return code < 0 ? code : 1;
}

const struct tide_kernel tide_kernel_descent_dots = {
    "descent_dots", "Sums of columns of examples with a vector over the examples: X'v.", dots_parameters, DOTS_COUNT,
    dots_run};

/* ---- v += by X d ---- */

enum { APPLY_V = D_COMMON, APPLY_D, APPLY_BY, APPLY_COUNT };

static const struct tide_parameter apply_parameters[APPLY_COUNT] = {
    DESCENT_PARAMETERS,
    [APPLY_V] = {"v", TIDE_TENSOR, TIDE_F64, true, 0, "n numbers, changed"},
    [APPLY_D] = {"d", TIDE_TENSOR, TIDE_F64, true, 0, "a number for each column of the set"},
    [APPLY_BY] = {"by", TIDE_NUMBER, 0, false, -1, "factor"},
};

/* v += by x of column j. */
static int add_column(const struct descent_columns *x, size_t j, double by, double *v, char *error) {
    double shift = shift_of(x, j);
    if (!x->offsets) {
        const float *column = x->values + j * x->n;
        for (size_t i = 0; i < x->n; i++) {
            v[i] += by * ((double)column[i] - shift);
        }
        return 0;
    }
    if (x->offsets[j + 1] - x->offsets[j] < x->n && shift != 0) { /* rows without an entry are 0 - shift */
        for (size_t i = 0; i < x->n; i++) {
            v[i] -= by * shift;
        }
        shift = 0;
    }
    for (uint64_t e = x->offsets[j]; e < x->offsets[j + 1]; e++) {
        if (x->rows[e] >= x->n) {
            return row_outside(x, j, error);
        }
        v[x->rows[e]] += by * ((double)x->values[e] - shift);
    }
    return 0;
}

static int apply_run(const struct tide_argument *arguments, struct tide_result *results, char *error) {
    const struct tide_kernel *kernel = &tide_kernel_descent_apply;
    struct descent_columns x;
    const uint32_t *set;
    size_t count, entries = 0;
    double *v, *d;
    int code = descent_columns_of(arguments, &x, &set, &count, error);
    code = code ? code : tide_kernel_vector(kernel, arguments, APPLY_V, x.n, &v, error);
    code = code ? code : tide_kernel_vector(kernel, arguments, APPLY_D, count, &d, error);
    for (size_t k = 0; k < count && code == 0; k++) {
        size_t j = set ? set[k] : k;
        double by = arguments[APPLY_BY].number * d[k];
        if (by != 0) {
            code = add_column(&x, j, by, v, error);
            entries += x.offsets ? x.offsets[j + 1] - x.offsets[j] : x.n;
        }
    }
    results[0] = (struct tide_result){"count", (double)entries};
    return code < 0 ? code : 1;
}

const struct tide_kernel tide_kernel_descent_apply = {
    "descent_apply", "Adds columns of examples, each times a number, to a vector: v += by X d.", apply_parameters,
    APPLY_COUNT, apply_run};

/* ---- Gram matrices ---- */

enum { GRAM_FROM = D_COMMON, GRAM_WEIGHTS, GRAM_OUT, GRAM_EXACT, GRAM_COUNT };

static const struct tide_parameter gram_parameters[GRAM_COUNT] = {
    DESCENT_PARAMETERS,
    [GRAM_FROM] = {"from", TIDE_NUMBER, 0, false, 0, "columns of the set before it are known"},
    [GRAM_WEIGHTS] = {"weights", TIDE_TENSOR, TIDE_F64, false, 0, "of the n rows; default 1"},
    [GRAM_OUT] = {"out", TIDE_TENSOR, TIDE_F64, true, 0, "(set - from) x set: sum_i w_i x_ij x_ik, j from `from` on"},
    [GRAM_EXACT] = {"exact", TIDE_FLAG, 0, false, 0, "dense columns in f64, as sparse ones are"},
};

/* The columns of the set in rows first .. first + n - 1, one after the other, times the weights. */
static void pack(const struct descent_columns *x, const uint32_t *set, size_t from, size_t count, size_t first,
                 size_t n, const double *weights, float *to) {
    for (size_t k = from; k < count; k++, to += n) {
        size_t j = set ? set[k] : k;
        const float *column = x->values + j * x->n + first;
        const double shift = shift_of(x, j);
        for (size_t i = 0; i < n; i++) {
            to[i] = (float)(((double)column[i] - shift) * (weights ? weights[first + i] : 1));
        }
    }
}

static int dense_gram(const struct descent_columns *x, const uint32_t *set, size_t from, size_t count,
                      const double *weights, double *out, char *error) {
    size_t fresh = count - from;
    float *all = tide_alloc((count * BLOCK + 1) * sizeof *all);
    float *some = tide_alloc((fresh * BLOCK + 1) * sizeof *some);
    float *product = tide_alloc((fresh * count + 1) * sizeof *product);
    int code = all && some && product ? 0 : tide_kernel_fail(error, TIDE_ENOMEM, "out of memory");
    memset(out, 0, fresh * count * sizeof *out);
    for (size_t first = 0; first < x->n && code == 0; first += BLOCK) {
        size_t n = x->n - first < BLOCK ? x->n - first : BLOCK;
        pack(x, set, 0, count, first, n, NULL, all);
        if (weights) {
            pack(x, set, from, count, first, n, weights, some);
        }
        const float *a = weights ? some : all + from * n;
        /* the part against known columns whole, of the rest the lower half in strips */
        enum { STRIP = 128 };
        for (size_t row = 0; row < fresh && code == 0; row += STRIP) {
            size_t rows = fresh - row < STRIP ? fresh - row : STRIP, wide = from + row + rows;
            code =
                tide_cpu_gemm(false, true, rows, wide, n, 1, a + row * n, n, all, n, 0, product + row * count, count);
            for (size_t r = row; r < row + rows; r++) {
                for (size_t k = 0; k < wide; k++) {
                    out[r * count + k] += (double)product[r * count + k];
                }
            }
        }
        if (code < 0) {
            code = tide_kernel_fail(error, code, "the set is too large for one product");
        }
    }
    tide_free(all);
    tide_free(some);
    tide_free(product);
    return code;
}

/* `to`, n numbers that are 0, becomes column j times the weights; only_zeros: those of column j become 0 again. */
static int spread(const struct descent_columns *x, size_t j, const double *weights, bool only_zeros, double *to,
                  char *error) {
    const double shift = shift_of(x, j);
    size_t first = x->offsets ? x->offsets[j] : j * x->n, end = x->offsets ? x->offsets[j + 1] : first + x->n;
    for (size_t e = first; e < end; e++) {
        size_t row = x->offsets ? x->rows[e] : e - first;
        if (row >= x->n) {
            return row_outside(x, j, error);
        }
        to[row] = only_zeros ? 0 : ((double)x->values[e] - shift) * (weights ? weights[row] : 1);
    }
    return 0;
}

static int exact_gram(const struct descent_columns *x, const uint32_t *set, size_t from, size_t count,
                      const double *weights, double *out, char *error) {
    double *wide = tide_alloc((x->n + 1) * sizeof *wide);
    int code = wide ? 0 : tide_kernel_fail(error, TIDE_ENOMEM, "out of memory");
    if (code == 0) {
        memset(wide, 0, x->n * sizeof *wide);
    }
    for (size_t a = from; a < count && code == 0; a++) {
        size_t j = set ? set[a] : a;
        code = spread(x, j, weights, false, wide, error);
        for (size_t b = 0; b <= a && code == 0; b++) {
            size_t k = set ? set[b] : b;
            code = column_dot(x, k, wide, 1, &out[(a - from) * count + b]) ? 0 : row_outside(x, k, error);
        }
        code = code ? code : spread(x, j, weights, true, wide, error);
    }
    tide_free(wide);
    return code;
}

static int gram_run(const struct tide_argument *arguments, struct tide_result *results, char *error) {
    const struct tide_kernel *kernel = &tide_kernel_descent_gram;
    struct descent_columns x;
    const uint32_t *set;
    size_t count, fresh;
    uint64_t from = 0;
    double *weights = NULL, *out = NULL;
    int code = descent_columns_of(arguments, &x, &set, &count, error);
    code = code ? code : tide_kernel_whole(kernel, arguments, GRAM_FROM, 0, count, &from, error);
    fresh = code ? 0 : count - (size_t)from;
    code = code ? code : tide_kernel_vector(kernel, arguments, GRAM_WEIGHTS, x.n, &weights, error);
    code = code ? code : tide_kernel_vector(kernel, arguments, GRAM_OUT, fresh * count, &out, error);
    if (code == 0) {
        bool exact = x.offsets || arguments[GRAM_EXACT].number != 0;
        code = (exact ? exact_gram : dense_gram)(&x, set, from, count, weights, out, error);
    }
    for (size_t a = 0; a < fresh && code == 0; a++) { /* the other half of what is new */
        for (size_t b = from + a + 1; b < count; b++) {
            out[a * count + b] = out[(b - from) * count + from + a];
        }
    }
    results[0] = (struct tide_result){"count", (double)(fresh * count)};
    return code < 0 ? code : 1;
}

const struct tide_kernel tide_kernel_descent_gram = {
    "descent_gram", "Weighted products of columns of examples with one another: X'diag(w) X.", gram_parameters,
    GRAM_COUNT, gram_run};

/* ---- rows to columns ---- */

enum { TURN_OFFSETS, TURN_INDICES, TURN_VALUES, TURN_COLUMNS, TURN_TO, TURN_ROWS, TURN_OUT, TURN_COUNT };

static const struct tide_parameter turn_parameters[TURN_COUNT] = {
    [TURN_OFFSETS] = {"offsets", TIDE_TENSOR, TIDE_U64, true, 0, "n + 1, of sparse rows"},
    [TURN_INDICES] = {"indices", TIDE_TENSOR, TIDE_U32, true, 0, "column of each entry, from 0"},
    [TURN_VALUES] = {"values", TIDE_TENSOR, TIDE_F32, true, 0, "of each entry"},
    [TURN_COLUMNS] = {"columns", TIDE_NUMBER, 0, true, 0, "J"},
    [TURN_TO] = {"to_offsets", TIDE_TENSOR, TIDE_U64, true, 0, "J + 1, written"},
    [TURN_ROWS] = {"to_rows", TIDE_TENSOR, TIDE_U32, true, 0, "as many as entries, written"},
    [TURN_OUT] = {"to_values", TIDE_TENSOR, TIDE_F32, true, 0, "as many as entries, written"},
};

static int turn_run(const struct tide_argument *a, struct tide_result *results, char *error) {
    const uint64_t *offsets = a[TURN_OFFSETS].tensor.data;
    const uint32_t *indices = a[TURN_INDICES].tensor.data;
    const float *values = a[TURN_VALUES].tensor.data;
    uint64_t *to = a[TURN_TO].tensor.data;
    uint32_t *rows = a[TURN_ROWS].tensor.data;
    float *out = a[TURN_OUT].tensor.data;
    size_t n = elements(&a[TURN_OFFSETS].tensor), j = elements(&a[TURN_TO].tensor);
    size_t most = elements(&a[TURN_VALUES].tensor);
    if (n == 0 || j == 0 || (double)(j - 1) != a[TURN_COLUMNS].number || elements(&a[TURN_INDICES].tensor) != most) {
        return tide_kernel_fail(error, TIDE_EINVAL, "offsets are one more than rows and columns");
    }
    n--, j--;
    uint64_t first = offsets[0], entries = offsets[n] - first;
    if (offsets[n] > most || first > offsets[n] || elements(&a[TURN_ROWS].tensor) != entries ||
        elements(&a[TURN_OUT].tensor) != entries) {
        return tide_kernel_fail(error, TIDE_EINVAL, "there are %llu entries", (unsigned long long)entries);
    }
    memset(to, 0, (j + 1) * sizeof *to);
    for (uint64_t e = first; e < offsets[n]; e++) {
        if (indices[e] >= j) {
            return tide_kernel_fail(error, TIDE_EINVAL, "there is no column %u", indices[e]);
        }
        to[indices[e] + 1]++;
    }
    for (size_t c = 0; c < j; c++) {
        to[c + 1] += to[c];
    }
    for (size_t i = 0; i < n; i++) { /* to[c] is where the next entry of column c goes */
        for (uint64_t e = offsets[i]; e < offsets[i + 1] && e < offsets[n]; e++) {
            uint64_t at = to[indices[e]]++;
            rows[at] = (uint32_t)i;
            out[at] = values[e];
        }
    }
    memmove(to + 1, to, j * sizeof *to);
    to[0] = 0;
    results[0] = (struct tide_result){"count", (double)entries};
    return 1;
}

const struct tide_kernel tide_kernel_sparse_columns = {
    "sparse_columns", "Sparse rows by column: offsets, rows that rise, values.", turn_parameters, TURN_COUNT, turn_run};
