/*
 * Kernels of tide.multitask (Liu, Pan and Ho, "Distributed Multi-Task Relationship Learning", KDD
 * 2017): exact steps of dual coordinate ascent on the samples of one task, losses and dual values,
 * products with the samples. Samples are rows, sparse or dense, f32; all else is f64.
 *
 * One task: n samples with 1/n each; dual variables a; l* is the loss's conjugate. A local step has
 * w (of the last round), r = 1/n sum of changes of a_j x_j since then, and weight = rho S_ii / lam:
 * with z = x.(w + weight r) and c = weight |x|^2 / n it maximises the local dual in a_j.
 */
#include "tide/kernel.h"

#define TIDE_KERNEL(name) extern const struct tide_kernel tide_kernel_##name;
#include "kernels.def"
#undef TIDE_KERNEL

#include <math.h>
#include <string.h>

static size_t elements(const struct tide_tensor *t) {
    return t->rows * t->columns;
}

enum loss { SQUARED, HINGE, SMOOTHED, LOGISTIC };
static const char *const losses[] = {"squared", "hinge", "smoothed", "logistic"};
enum { LOSSES = 4 };

/* ---- rows ---- */

struct rows {
    const uint64_t *offsets; /* NULL: dense, d values a row */
    const uint32_t *indices;
    const float *values;
    size_t n, d;
};

struct row {
    const uint32_t *indices; /* NULL: 0 .. count - 1 */
    const float *values;
    size_t count;
};

enum { R_OFFSETS, R_INDICES, R_VALUES, R_D, R_COMMON };

#define ROWS_PARAMETERS                                                                                                \
    [R_OFFSETS] = {"offsets", TIDE_TENSOR, TIDE_U64, false, 0, "n + 1, of sparse rows"},                               \
    [R_INDICES] = {"indices", TIDE_TENSOR, TIDE_U32, false, 0, "column of each entry, from 0"},                        \
    [R_VALUES] = {"values", TIDE_TENSOR, TIDE_F32, true, 0, "entries, or n x d of dense rows"}, [R_D] = {"d",          \
                                                                                                         TIDE_NUMBER,  \
                                                                                                         0,            \
                                                                                                         true,         \
                                                                                                         0,            \
                                                                                                         "columns"}

static int rows_of(const struct tide_argument *a, struct rows *out, char *error) {
    const struct tide_tensor *values = &a[R_VALUES].tensor;
    double d = a[R_D].number;
    if (!(d >= 0 && d < 0x1p32 && d == floor(d)) || a[R_OFFSETS].given != a[R_INDICES].given) {
        return tide_kernel_fail(error, TIDE_EINVAL, "d columns; offsets and indices come together");
    }
    *out = (struct rows){.values = values->data, .n = values->rows, .d = (size_t)d};
    if (!a[R_OFFSETS].given) {
        return values->columns == out->d ? 0
                                         : tide_kernel_fail(error, TIDE_EINVAL, "dense rows have %zu columns, not %zu",
                                                            values->columns, out->d);
    }
    size_t entries = elements(values);
    out->offsets = a[R_OFFSETS].tensor.data;
    out->indices = a[R_INDICES].tensor.data;
    out->n = elements(&a[R_OFFSETS].tensor);
    if (out->n == 0 || elements(&a[R_INDICES].tensor) != entries) {
        return tide_kernel_fail(error, TIDE_EINVAL, "rows want n + 1 offsets, an index a value");
    }
    out->n--;
    for (size_t i = 0; i < out->n; i++) {
        if (out->offsets[i] > out->offsets[i + 1] || out->offsets[i + 1] > entries) {
            return tide_kernel_fail(error, TIDE_EINVAL, "the offsets of row %zu are wrong", i);
        }
        for (uint64_t e = out->offsets[i]; e < out->offsets[i + 1]; e++) {
            if (out->indices[e] >= out->d) {
                return tide_kernel_fail(error, TIDE_EINVAL, "row %zu has column %u of %zu", i, out->indices[e], out->d);
            }
        }
    }
    return 0;
}

static struct row row_of(const struct rows *x, size_t i) {
    if (!x->offsets) {
        return (struct row){NULL, x->values + i * x->d, x->d};
    }
    uint64_t at = x->offsets[i];
    return (struct row){x->indices + at, x->values + at, (size_t)(x->offsets[i + 1] - at)};
}

static double row_dot(struct row row, const double *v) {
    double sum[4] = {0};
    size_t e = 0;
    if (row.indices) {
        for (; e < row.count; e++) {
            sum[e & 3] += (double)row.values[e] * v[row.indices[e]];
        }
    } else {
        for (; e + 4 <= row.count; e += 4) {
            for (size_t k = 0; k < 4; k++) {
                sum[k] += (double)row.values[e + k] * v[e + k];
            }
        }
        for (; e < row.count; e++) {
            sum[0] += (double)row.values[e] * v[e];
        }
    }
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

static void row_add(struct row row, double by, double *to) {
    for (size_t e = 0; e < row.count; e++) {
        to[row.indices ? row.indices[e] : e] += by * (double)row.values[e];
    }
}

static double row_square(struct row row) {
    double sum = 0;
    for (size_t e = 0; e < row.count; e++) {
        sum += (double)row.values[e] * (double)row.values[e];
    }
    return sum;
}

/* ---- one sample ---- */

static double clip(double p) {
    return p < 0 ? 0 : p > 1 ? 1 : p;
}

/* p = s(t), t the root of t + yz + c (s(t) - p_old): bracketed Newton, bisection where it leaves
 * the bracket. */
static double logistic_step(double p, double yz, double c) {
    double low = -yz - c * (1 - p), high = -yz + c * p, t = log(p / (1 - p));
    t = t > low && t < high ? t : 0.5 * (low + high);
    for (int i = 0; i < 100; i++) {
        double s = 1 / (1 + exp(-t)), f = t + yz + c * (s - p);
        if (f > 0) {
            high = t;
        } else {
            low = t;
        }
        double next = t - f / (1 + c * s * (1 - s));
        next = next > low && next < high ? next : 0.5 * (low + high);
        if (fabs(next - t) <= 1e-15 * (1 + fabs(t))) {
            t = next;
            break;
        }
        t = next;
    }
    double s = 1 / (1 + exp(-t));
    return s < 1e-15 ? 1e-15 : s > 1 - 1e-15 ? 1 - 1e-15 : s;
}

static double dual_step(enum loss loss, double a, double y, double z, double c, double smooth) {
    double p = y * a;
    switch (loss) {
    case SQUARED:
        return a + (y - z - a) / (1 + c);
    case HINGE:
        return y * (c > 0 ? clip(p + (1 - y * z) / c) : y * z < 1 ? 1 : p);
    case SMOOTHED:
        return y * clip((1 - y * z + c * p) / (c + smooth));
    default:
        return y * logistic_step(p, y * z, c);
    }
}

static double loss_of(enum loss loss, double z, double y, double smooth) {
    double m = 1 - y * z;
    switch (loss) {
    case SQUARED:
        return 0.5 * (z - y) * (z - y);
    case HINGE:
        return m > 0 ? m : 0;
    case SMOOTHED:
        return m <= 0 ? 0 : m >= smooth ? m - 0.5 * smooth : m * m / (2 * smooth);
    default:
        return y * z > 0 ? log1p(exp(-y * z)) : -y * z + log1p(exp(y * z));
    }
}

/* -l*(-a) */
static double dual_of(enum loss loss, double a, double y, double smooth) {
    double p = y * a;
    switch (loss) {
    case SQUARED:
        return y * a - 0.5 * a * a;
    case HINGE:
        return p;
    case SMOOTHED:
        return p - 0.5 * smooth * p * p;
    default:
        return (p > 0 ? -p * log(p) : 0) + (p < 1 ? -(1 - p) * log1p(-p) : 0);
    }
}

/* What mtl_sdca and mtl_score begin with. */
enum { M_Y = R_COMMON, M_A, M_W, M_LOSS, M_SMOOTH, M_FIRST, M_ROWS, M_COMMON };

#define TASK_PARAMETERS                                                                                                \
    ROWS_PARAMETERS, [M_Y] = {"y", TIDE_TENSOR, TIDE_F64, true, 0, "of the rows; -1 or 1 for classes"},                \
                     [M_A] = {"a", TIDE_TENSOR, TIDE_F64, true, 0, "dual variables of the rows"},                      \
                     [M_W] = {"w", TIDE_TENSOR, TIDE_F64, true, 0, "d parameters of the task"},                        \
                     [M_LOSS] = {"loss", TIDE_TEXT, 0, true, 0, "squared, hinge, smoothed, logistic"},                 \
                     [M_SMOOTH] = {"smooth", TIDE_NUMBER, 0, false, 1, "of the smoothed hinge, above 0"},              \
                     [M_FIRST] = {"first", TIDE_NUMBER, 0, false, 0, "the task's first row, from 0"},                  \
                     [M_ROWS] = {"rows", TIDE_NUMBER, 0, true, 0, "how many rows the task has"}

struct task {
    struct rows x;
    double *y, *a, *w, smooth;
    uint64_t first, rows;
    enum loss loss;
};

static int task_of(const struct tide_kernel *kernel, const struct tide_argument *a, struct task *out, char *error) {
    size_t loss = 0;
    int code = rows_of(a, &out->x, error);
    code = code ? code : tide_kernel_vector(kernel, a, M_Y, out->x.n, &out->y, error);
    code = code ? code : tide_kernel_vector(kernel, a, M_A, out->x.n, &out->a, error);
    code = code ? code : tide_kernel_vector(kernel, a, M_W, out->x.d, &out->w, error);
    code = code ? code : tide_kernel_choice(kernel, a, M_LOSS, losses, LOSSES, &loss, error);
    code = code ? code : tide_kernel_whole(kernel, a, M_FIRST, 0, out->x.n, &out->first, error);
    code = code ? code : tide_kernel_whole(kernel, a, M_ROWS, 0, out->x.n - out->first, &out->rows, error);
    out->loss = (enum loss)loss;
    out->smooth = a[M_SMOOTH].given ? a[M_SMOOTH].number : 1;
    if (code == 0 && !(out->smooth > 0)) {
        code = tide_kernel_fail(error, TIDE_EINVAL, "smooth must be above 0");
    }
    return code;
}

/* ---- steps ---- */

enum { SDCA_R = M_COMMON, SDCA_WEIGHT, SDCA_SAMPLES, SDCA_ORDER, SDCA_COUNT };

static const struct tide_parameter sdca_parameters[SDCA_COUNT] = {
    TASK_PARAMETERS,
    [SDCA_R] = {"r", TIDE_TENSOR, TIDE_F64, true, 0, "d, changed: 1/n sum of changes of a x"},
    [SDCA_WEIGHT] = {"weight", TIDE_NUMBER, 0, true, 0, "rho S_ii / lam"},
    [SDCA_SAMPLES] = {"samples", TIDE_NUMBER, 0, true, 0, "n: of the task, on all workers"},
    [SDCA_ORDER] = {"order", TIDE_TENSOR, TIDE_U32, true, 0, "rows of the task to step on, from 0"},
};

static int sdca_run(const struct tide_argument *arguments, struct tide_result *results, char *error) {
    const struct tide_kernel *kernel = &tide_kernel_mtl_sdca;
    struct task t;
    double *r = NULL, weight = arguments[SDCA_WEIGHT].number, n = arguments[SDCA_SAMPLES].number;
    int code = task_of(kernel, arguments, &t, error);
    code = code ? code : tide_kernel_vector(kernel, arguments, SDCA_R, t.x.d, &r, error);
    if (code == 0 && !(weight >= 0 && isfinite(weight) && n >= 1)) {
        code = tide_kernel_fail(error, TIDE_EINVAL, "weight must be 0 or more, samples 1 or more");
    }
    const uint32_t *order = arguments[SDCA_ORDER].tensor.data;
    size_t count = elements(&arguments[SDCA_ORDER].tensor);
    double *u = code ? NULL : tide_alloc((t.x.d + 1) * sizeof *u); /* w + weight r */
    if (code == 0 && !u) {
        code = tide_kernel_fail(error, TIDE_ENOMEM, "out of memory");
    }
    for (size_t k = 0; code == 0 && k < t.x.d; k++) {
        u[k] = t.w[k] + weight * r[k];
    }
    for (size_t k = 0; code == 0 && k < count; k++) {
        if (order[k] >= t.rows) {
            code = tide_kernel_fail(error, TIDE_EINVAL, "the task has no row %u", order[k]);
            break;
        }
        size_t j = (size_t)t.first + order[k];
        struct row row = row_of(&t.x, j);
        double c = weight * row_square(row) / n;
        double next = dual_step(t.loss, t.a[j], t.y[j], row_dot(row, u), c, t.smooth);
        double change = (next - t.a[j]) / n;
        if (change != 0) {
            row_add(row, change, r);
            row_add(row, weight * change, u);
        }
        t.a[j] = next;
    }
    tide_free(u);
    results[0] = (struct tide_result){"count", (double)count};
    return code < 0 ? code : 1;
}

const struct tide_kernel tide_kernel_mtl_sdca = {
    "mtl_sdca", "Exact steps of dual coordinate ascent on samples of one task.", sdca_parameters, SDCA_COUNT, sdca_run};

/* ---- loss and dual value ---- */

static const struct tide_parameter score_parameters[M_COMMON] = {TASK_PARAMETERS};

static int score_run(const struct tide_argument *arguments, struct tide_result *results, char *error) {
    struct task t;
    double loss = 0, dual = 0, squares = 0, correct = 0;
    int code = task_of(&tide_kernel_mtl_score, arguments, &t, error);
    for (size_t j = 0; code == 0 && j < t.rows; j++) {
        size_t i = (size_t)t.first + j;
        double z = row_dot(row_of(&t.x, i), t.w), y = t.y[i];
        loss += loss_of(t.loss, z, y, t.smooth);
        dual += dual_of(t.loss, t.a[i], y, t.smooth);
        squares += (z - y) * (z - y);
        correct += z * y > 0;
    }
    results[0] = (struct tide_result){"loss", loss};
    results[1] = (struct tide_result){"dual", dual};
    results[2] = (struct tide_result){"squares", squares};
    results[3] = (struct tide_result){"correct", correct};
    results[4] = (struct tide_result){"count", (double)t.rows};
    return code < 0 ? code : 5;
}

const struct tide_kernel tide_kernel_mtl_score = {"mtl_score", "Summed loss and dual value of one task's samples.",
                                                  score_parameters, M_COMMON, score_run};

/* ---- products ---- */

enum { P_FIRST = R_COMMON, P_ROWS, P_KIND, P_IN, P_OUT, P_BY, P_COUNT };

static const struct tide_parameter mtl_product_parameters[P_COUNT] = {
    ROWS_PARAMETERS,
    [P_FIRST] = {"first", TIDE_NUMBER, 0, false, 0, "the task's first row, from 0"},
    [P_ROWS] = {"rows", TIDE_NUMBER, 0, true, 0, "how many rows the task has"},
    [P_KIND] = {"kind", TIDE_TEXT, 0, true, 0, "both: X'X p; back: X'v; there: X p"},
    [P_IN] = {"from", TIDE_TENSOR, TIDE_F64, true, 0, "p of d numbers, or v of all rows"},
    [P_OUT] = {"to", TIDE_TENSOR, TIDE_F64, true, 0,
               "both, back: += by times that; there: the task's rows of all are written"},
    [P_BY] = {"by", TIDE_NUMBER, 0, false, 1, "factor"},
};

static int mtl_product_run(const struct tide_argument *a, struct tide_result *results, char *error) {
    static const char *const kinds[] = {"both", "back", "there"};
    const struct tide_kernel *kernel = &tide_kernel_mtl_product;
    struct rows x;
    size_t kind = 0;
    uint64_t first = 0, rows = 0;
    double *from = NULL, *to = NULL, by = a[P_BY].number;
    int code = rows_of(a, &x, error);
    code = code ? code : tide_kernel_choice(kernel, a, P_KIND, kinds, 3, &kind, error);
    code = code ? code : tide_kernel_vector(kernel, a, P_IN, kind == 1 ? x.n : x.d, &from, error);
    code = code ? code : tide_kernel_vector(kernel, a, P_OUT, kind == 2 ? x.n : x.d, &to, error);
    code = code ? code : tide_kernel_whole(kernel, a, P_FIRST, 0, x.n, &first, error);
    code = code ? code : tide_kernel_whole(kernel, a, P_ROWS, 0, x.n - first, &rows, error);
    for (size_t i = (size_t)first; code == 0 && i < first + rows; i++) {
        struct row row = row_of(&x, i);
        if (kind == 2) {
            to[i] = by * row_dot(row, from);
        } else {
            row_add(row, by * (kind == 0 ? row_dot(row, from) : from[i]), to);
        }
    }
    results[0] = (struct tide_result){"count", (double)rows};
    return code < 0 ? code : 1;
}

const struct tide_kernel tide_kernel_mtl_product = {"mtl_product", "Products of one task's samples with a vector.",
                                                    mtl_product_parameters, P_COUNT, mtl_product_run};
