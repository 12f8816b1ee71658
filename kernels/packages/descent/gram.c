/*
 * The outer loop of Gram working sets: which variables come in, the matrix as it grows, and what
 * logistic regression is at a point.
 */
#include "descent.h"

#include <math.h>
#include <string.h>

static size_t elements(const struct tide_tensor *t) {
    return t->rows * t->columns;
}

/* ---- which variables come in ---- */

enum { CHOOSE_Z, CHOOSE_C, CHOOSE_INSIDE, CHOOSE_COUNT_, CHOOSE_POSITIVE, CHOOSE_OUT, CHOOSE_LEAST, CHOOSE_COUNT };

static const struct tide_parameter choose_parameters[CHOOSE_COUNT] = {
    [CHOOSE_Z] = {"z", TIDE_TENSOR, TIDE_F64, true, 0, "minus the gradient, J"},
    [CHOOSE_C] = {"c", TIDE_TENSOR, TIDE_F64, true, 0, "penalty weights; 0: not penalised"},
    [CHOOSE_INSIDE] = {"inside", TIDE_TENSOR, TIDE_U8, true, 0, "1: in the set; 2: left out"},
    [CHOOSE_COUNT_] = {"count", TIDE_NUMBER, 0, true, 0, "how many at most"},
    [CHOOSE_POSITIVE] = {"positive", TIDE_FLAG, 0, false, 0, "x >= 0"},
    [CHOOSE_OUT] = {"out", TIDE_TENSOR, TIDE_U32, true, 0, "those that come in; `count` at least"},
    [CHOOSE_LEAST] = {"least", TIDE_NUMBER, 0, false, 0, "|z_j| / c_j of those that come in"},
};

struct candidate {
    double score;
    uint32_t j;
};

static bool before(struct candidate a, struct candidate b) {
    return a.score > b.score || (a.score == b.score && a.j < b.j);
}

/* heap[0] is the worst of those that are kept */
static void sift(struct candidate *heap, size_t n, size_t at) {
    for (;;) {
        size_t low = at, left = 2 * at + 1;
        for (size_t child = left; child < left + 2 && child < n; child++) {
            low = before(heap[low], heap[child]) ? child : low;
        }
        if (low == at) {
            return;
        }
        struct candidate kept = heap[at];
        heap[at] = heap[low];
        heap[low] = kept;
        at = low;
    }
}

static int choose_run(const struct tide_argument *arguments, struct tide_result *results, char *error) {
    const struct tide_kernel *kernel = &tide_kernel_descent_choose;
    const double *z = arguments[CHOOSE_Z].tensor.data;
    size_t count = elements(&arguments[CHOOSE_Z].tensor), kept = 0;
    const uint8_t *inside = arguments[CHOOSE_INSIDE].tensor.data;
    bool positive = arguments[CHOOSE_POSITIVE].number != 0;
    double *c, most = 0, free_most = 0, over = 0, least = arguments[CHOOSE_LEAST].number;
    uint64_t wanted = 0;
    int code = tide_kernel_vector(kernel, arguments, CHOOSE_C, count, &c, error);
    code = code ? code
                : tide_kernel_whole(kernel, arguments, CHOOSE_COUNT_, 0, elements(&arguments[CHOOSE_OUT].tensor),
                                    &wanted, error);
    if (code == 0 && elements(&arguments[CHOOSE_INSIDE].tensor) != count) {
        code = tide_kernel_fail(error, TIDE_EINVAL, "inside has not %zu numbers", count);
    }
    struct candidate *heap = code ? NULL : tide_alloc(((size_t)wanted + 1) * sizeof *heap);
    if (code == 0 && !heap) {
        code = tide_kernel_fail(error, TIDE_ENOMEM, "out of memory");
    }
    for (size_t j = 0; j < count && code == 0; j++) {
        if (inside[j] == 2) {
            continue;
        }
        double size = positive && z[j] < 0 ? 0 : fabs(z[j]);
        if (!isfinite(z[j])) {
            code = tide_kernel_fail(error, TIDE_EINVAL, "the gradient of variable %zu is %g", j + 1, z[j]);
            break;
        }
        double score = c[j] > 0 ? size / c[j] : size > 0 ? INFINITY : 0;
        if (c[j] > 0) {
            most = score > most ? score : most;
        } else {
            free_most = fabs(z[j]) > free_most ? fabs(z[j]) : free_most;
        }
        if (inside[j] || score <= least) {
            continue;
        }
        over++;
        struct candidate own = {score, (uint32_t)j};
        if (kept < wanted) {
            heap[kept++] = own;
            for (size_t at = kept; kept == wanted && at-- > 0;) {
                sift(heap, kept, at);
            }
        } else if (wanted > 0 && before(own, heap[0])) {
            heap[0] = own;
            sift(heap, kept, 0);
        }
    }
    if (code == 0) { /* by number: what comes in is the same set in the same order everywhere */
        uint32_t *out = arguments[CHOOSE_OUT].tensor.data;
        for (size_t k = 0; k < kept; k++) {
            size_t at = k;
            for (; at > 0 && out[at - 1] > heap[k].j; at--) {
                out[at] = out[at - 1];
            }
            out[at] = heap[k].j;
        }
    }
    tide_free(heap);
    results[0] = (struct tide_result){"most", most};
    results[1] = (struct tide_result){"free", free_most};
    results[2] = (struct tide_result){"chosen", (double)kept};
    results[3] = (struct tide_result){"over", over};
    return code < 0 ? code : 4;
}

const struct tide_kernel tide_kernel_descent_choose = {
    "descent_choose", "The variables outside a working set whose gradients are largest beside their penalties.",
    choose_parameters, CHOOSE_COUNT, choose_run};

/* ---- the matrix as it grows ---- */

enum { GROW_OLD, GROW_ROWS, GROW_OUT, GROW_MEANS, GROW_WEIGHT, GROW_COUNT };

static const struct tide_parameter grow_parameters[GROW_COUNT] = {
    [GROW_OLD] = {"old", TIDE_TENSOR, TIDE_F64, false, 0, "m x m"},
    [GROW_ROWS] = {"rows", TIDE_TENSOR, TIDE_F64, true, 0, "the new ones, f x (m + f)"},
    [GROW_OUT] = {"out", TIDE_TENSOR, TIDE_F64, true, 0, "(m + f) x (m + f), written"},
    [GROW_MEANS] = {"means", TIDE_TENSOR, TIDE_F64, false, 0, "m + f means of the columns"},
    [GROW_WEIGHT] = {"weight", TIDE_NUMBER, 0, false, 0, "of all examples: new products lose weight x mean x mean"},
};

static int grow_run(const struct tide_argument *a, struct tide_result *results, char *error) {
    const struct tide_tensor *rows = &a[GROW_ROWS].tensor, *to = &a[GROW_OUT].tensor;
    size_t f = rows->rows, all = to->rows, m = all - f;
    const double *fresh = rows->data, *old = a[GROW_OLD].given ? a[GROW_OLD].tensor.data : NULL;
    double *out = to->data, *means, weight = a[GROW_WEIGHT].number;
    if (to->columns != all || f > all || rows->columns != all ||
        (old ? elements(&a[GROW_OLD].tensor) != m * m : m != 0)) {
        return tide_kernel_fail(error, TIDE_EINVAL, "old m x m, rows f x (m + f), out square");
    }
    int code = tide_kernel_vector(&tide_kernel_descent_grow, a, GROW_MEANS, all, &means, error);
    if (code < 0) {
        return code;
    }
    for (size_t i = 0; i < m; i++) {
        memcpy(out + i * all, old + i * m, m * sizeof *out);
    }
    for (size_t i = 0; i < f; i++) {
        double own = means ? weight * means[m + i] : 0;
        for (size_t k = 0; k < all; k++) {
            double value = fresh[i * all + k] - (means ? own * means[k] : 0);
            out[(m + i) * all + k] = value;
            out[k * all + m + i] = k < m ? value : out[k * all + m + i];
        }
    }
    results[0] = (struct tide_result){"count", (double)(all * all)};
    return 1;
}

const struct tide_kernel tide_kernel_descent_grow = {
    "descent_grow", "A Gram matrix with new rows and columns, centred.", grow_parameters, GROW_COUNT, grow_run};

/* ---- logistic regression ---- */

enum { LOG_V, LOG_Y, LOG_WEIGHTS, LOG_SLOPE, LOG_CURVATURE, LOG_SCALE, LOG_STEP, LOG_D, LOG_COUNT };

static const struct tide_parameter logistic_parameters[LOG_COUNT] = {
    [LOG_V] = {"v", TIDE_TENSOR, TIDE_F64, true, 0, "n scores"},
    [LOG_Y] = {"y", TIDE_TENSOR, TIDE_F64, true, 0, "n labels, -1 or 1"},
    [LOG_WEIGHTS] = {"weights", TIDE_TENSOR, TIDE_F64, false, 0, "of the examples; default 1"},
    [LOG_SLOPE] = {"slope", TIDE_TENSOR, TIDE_F64, false, 0, "written: w y s(-y v)"},
    [LOG_CURVATURE] = {"curvature", TIDE_TENSOR, TIDE_F64, false, 0, "written: w s(v) s(-v)"},
    [LOG_SCALE] = {"scale", TIDE_NUMBER, 0, false, 1, "of the dual point: p = scale s(-y v)"},
    [LOG_STEP] = {"step", TIDE_NUMBER, 0, false, 0, "scores are v + step d"},
    [LOG_D] = {"d", TIDE_TENSOR, TIDE_F64, false, 0, "n"},
};

static double softplus(double t) { /* log(1 + exp(t)) */
    return t > 0 ? t + log1p(exp(-t)) : log1p(exp(t));
}

static double entropy(double p) {
    return (p > 0 ? -p * log(p) : 0) + (p < 1 ? -(1 - p) * log1p(-p) : 0);
}

static int logistic_run(const struct tide_argument *a, struct tide_result *results, char *error) {
    const struct tide_kernel *kernel = &tide_kernel_descent_logistic;
    const double *v = a[LOG_V].tensor.data;
    size_t n = elements(&a[LOG_V].tensor);
    double *y, *weights, *slope, *curvature, *d;
    double loss = 0, dual = 0, slopes = 0, curvatures = 0;
    int code = tide_kernel_vector(kernel, a, LOG_Y, n, &y, error);
    code = code ? code : tide_kernel_vector(kernel, a, LOG_WEIGHTS, n, &weights, error);
    code = code ? code : tide_kernel_vector(kernel, a, LOG_SLOPE, n, &slope, error);
    code = code ? code : tide_kernel_vector(kernel, a, LOG_CURVATURE, n, &curvature, error);
    code = code ? code : tide_kernel_vector(kernel, a, LOG_D, n, &d, error);
    if (code < 0) {
        return code;
    }
    for (size_t i = 0; i < n; i++) {
        double t = y[i] * (v[i] + (d ? a[LOG_STEP].number * d[i] : 0));
        double w = weights ? weights[i] : 1, p = 1 / (1 + exp(t));
        loss += w * softplus(-t);
        if (slope || curvature) {
            double h = w * p * (1 - p);
            slopes += w * y[i] * p;
            curvatures += h;
            if (slope) {
                slope[i] = w * y[i] * p;
            }
            if (curvature) {
                curvature[i] = h;
            }
        } else if (!d) {
            dual += w * entropy(a[LOG_SCALE].number * p);
        }
    }
    results[0] = (struct tide_result){"loss", loss};
    results[1] = (struct tide_result){"dual", dual};
    results[2] = (struct tide_result){"slope", slopes};
    results[3] = (struct tide_result){"curvature", curvatures};
    results[4] = (struct tide_result){"count", (double)n};
    return 5;
}

const struct tide_kernel tide_kernel_descent_logistic = {
    "descent_logistic", "Logistic loss of scores, its slopes and curvatures, and the entropy of its dual point.",
    logistic_parameters, LOG_COUNT, logistic_run};
