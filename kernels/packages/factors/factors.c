/* Examples of sufficient-factor models, and the two that classify: multiclass logistic regression
 * by gradients, and its dual by coordinate ascent. */
#include "factors.h"

#include <math.h>
#include <string.h>

/* ---- examples ---- */

static size_t elements(const struct tide_tensor *t) {
    return t->rows * t->columns;
}

int tide_factor_batch(const struct tide_argument *arguments, size_t wide, struct factor_batch *out, char *error) {
    const struct tide_tensor *w = &arguments[F_W].tensor, *u = &arguments[F_U].tensor;
    const struct tide_tensor *v = &arguments[F_V].tensor;
    *out = (struct factor_batch){.offsets = arguments[F_OFFSETS].tensor.data,
                                 .indices = arguments[F_INDICES].tensor.data,
                                 .values = arguments[F_VALUES].tensor.data,
                                 .examples = elements(&arguments[F_OFFSETS].tensor),
                                 .entries = elements(&arguments[F_VALUES].tensor),
                                 .rows = arguments[F_ROWS].tensor.data,
                                 .count = elements(&arguments[F_ROWS].tensor),
                                 .w = w->data,
                                 .d = w->rows,
                                 .j = w->columns,
                                 .wide = wide};
    if (out->examples == 0 || elements(&arguments[F_INDICES].tensor) != out->entries) {
        return tide_kernel_fail(error, TIDE_EINVAL,
                                "examples want one offset more than they are, and an index a value");
    }
    out->examples--;
    if (arguments[F_U].given != arguments[F_V].given) {
        return tide_kernel_fail(error, TIDE_EINVAL, "u and v come together");
    }
    if (arguments[F_U].given) {
        if (u->columns != out->j || v->columns != out->d || u->rows < out->count || v->rows < out->count) {
            return tide_kernel_fail(error, TIDE_EINVAL, "u must be %zu x %zu and v %zu x %zu", out->count, out->j,
                                    out->count, out->d);
        }
        out->u = u->data;
        out->v = v->data;
    }
    return 0;
}

int tide_factor_row(const struct factor_batch *b, uint32_t example, struct factor_row *out, char *error) {
    if (example >= b->examples) {
        return tide_kernel_fail(error, TIDE_EINVAL, "there is no example %u, only %zu", example, b->examples);
    }
    uint64_t at = b->offsets[example], end = b->offsets[example + 1];
    if (at > end || end > b->entries) {
        return tide_kernel_fail(error, TIDE_EINVAL, "the offsets of example %u are wrong", example);
    }
    for (uint64_t e = at; e < end; e++) {
        if (b->indices[e] >= b->wide) {
            return tide_kernel_fail(error, TIDE_EINVAL, "example %u has column %u of %zu", example, b->indices[e],
                                    b->wide);
        }
    }
    *out = (struct factor_row){b->indices + at, b->values + at, (size_t)(end - at)};
    return 0;
}

void tide_factor_scores(const struct factor_batch *b, const struct factor_row *row, float scale, float *restrict z) {
    for (size_t e = 0; e < row->count; e++) {
        const float *restrict w = b->w + (size_t)row->indices[e] * b->j;
        float value = scale * row->values[e];
        for (size_t j = 0; j < b->j; j++) {
            z[j] += value * w[j];
        }
    }
}

void tide_factor_spread(const struct factor_row *row, float scale, float *to) {
    for (size_t e = 0; e < row->count; e++) {
        to[row->indices[e]] += scale * row->values[e];
    }
}

double tide_factor_norm2(const float *x, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        sum += (double)x[i] * (double)x[i];
    }
    return sum;
}

static size_t nonzeros_of(const float *x, size_t count) {
    size_t sum = 0;
    for (size_t i = 0; i < count; i++) {
        sum += x[i] != 0;
    }
    return sum;
}

double tide_factor_nonzeros(const struct factor_batch *b, size_t rows) {
    return b->u ? (double)(nonzeros_of(b->u, rows * b->j) + nonzeros_of(b->v, rows * b->d)) : 0;
}

/* ---- classes ---- */

struct classes {
    struct factor_batch b;
    const int32_t *labels;
    float *p; /* softmax of an example's scores */
    double loss, entropy;
    size_t correct;
};

static int classes_open(struct classes *c, const struct tide_argument *arguments, size_t labels, char *error) {
    *c = (struct classes){.labels = arguments[labels].tensor.data};
    int code = tide_factor_batch(arguments, arguments[F_W].tensor.rows, &c->b, error);
    if (code == 0 && elements(&arguments[labels].tensor) != c->b.examples) {
        code = tide_kernel_fail(error, TIDE_EINVAL, "%zu labels of %zu examples", elements(&arguments[labels].tensor),
                                c->b.examples);
    }
    if (code == 0) {
        c->p = tide_alloc((c->b.j + 1) * sizeof *c->p);
        code = c->p ? 0 : tide_kernel_fail(error, TIDE_ENOMEM, "out of memory");
    }
    return code;
}

/* Softmax of an example's scores; adds its loss, and whether it is classified right. */
static int classify(struct classes *c, uint32_t example, struct factor_row *row, char *error) {
    size_t j = c->b.j, best = 0;
    int code = tide_factor_row(&c->b, example, row, error);
    if (code < 0) {
        return code;
    }
    int32_t label = c->labels[example];
    if (label < 0 || (size_t)label >= j) {
        return tide_kernel_fail(error, TIDE_EINVAL, "label %d of example %u is none of 0 .. %zu", label, example,
                                j - 1);
    }
    memset(c->p, 0, j * sizeof *c->p);
    tide_factor_scores(&c->b, row, 1, c->p);
    for (size_t k = 1; k < j; k++) {
        best = c->p[k] > c->p[best] ? k : best;
    }
    float most = c->p[best], own = c->p[label];
    double sum = 0;
    for (size_t k = 0; k < j; k++) {
        c->p[k] = expf(c->p[k] - most);
        sum += (double)c->p[k];
    }
    for (size_t k = 0; k < j; k++) {
        c->p[k] = (float)((double)c->p[k] / sum);
    }
    c->loss += log(sum) - (double)(own - most);
    c->correct += best == (size_t)label;
    return 0;
}

static int results_of(const struct classes *c, struct tide_result *results) {
    results[0] = (struct tide_result){"loss", c->loss};
    results[1] = (struct tide_result){"count", (double)c->b.count};
    results[2] = (struct tide_result){"correct", (double)c->correct};
    results[3] = (struct tide_result){"factors", c->b.u ? (double)c->b.count : 0};
    results[4] = (struct tide_result){"nonzeros", tide_factor_nonzeros(&c->b, c->b.count)};
    return 5;
}

/* ---- logistic regression: u = softmax(a W) - e_y, v = a ---- */

enum { MLR_LABELS = F_COMMON, MLR_COUNT };

static const struct tide_parameter mlr_parameters[MLR_COUNT] = {
    TIDE_FACTOR_PARAMETERS,
    [MLR_LABELS] = {"labels", TIDE_TENSOR, TIDE_I32, true, 0, "of the examples, from 0"},
};

static int mlr_run(const struct tide_argument *arguments, struct tide_result *results, char *error) {
    struct classes c;
    int code = classes_open(&c, arguments, MLR_LABELS, error);
    for (size_t i = 0; i < c.b.count && code == 0; i++) {
        struct factor_row row;
        code = classify(&c, c.b.rows[i], &row, error);
        if (code == 0 && c.b.u) {
            float *u = c.b.u + i * c.b.j, *v = c.b.v + i * c.b.d;
            memcpy(u, c.p, c.b.j * sizeof *u);
            u[c.labels[c.b.rows[i]]] -= 1;
            memset(v, 0, c.b.d * sizeof *v);
            tide_factor_spread(&row, 1, v);
        }
    }
    tide_free(c.p);
    return code < 0 ? code : results_of(&c, results);
}

const struct tide_kernel tide_kernel_factors_mlr = {
    "factors_mlr",
    "Multiclass logistic regression: the summed loss -log softmax(a W)_y of a batch, and its "
    "factors "
    "u = softmax(a W) - e_y, v = a.",
    mlr_parameters, MLR_COUNT, mlr_run};

/*
 * ---- its dual ----
 * L2-regularised: P(W) = 1/n sum loss_i + l/2 |W|^2. Dual variables q_i in the simplex, here as
 * alpha_i = e_y - q_i, which begins at 0; W = 1/(l n) sum a_i alpha_i'. A step moves q_i towards
 * the softmax p by t = 2 l n / (sigma |a|^2 + 2 l n): the change of W is v u', u = -t (p - q) / (l
 * n), v = a. After Shalev-Shwartz and Zhang, "Stochastic Dual Coordinate Ascent Methods for
 * Regularized Loss Minimization", JMLR 14, 2013, where softmax's gradient is 1/2-Lipschitz; sigma:
 * how many steps are taken from the same W (Ma et al., "Adding vs. Averaging", ICML 2015).
 */
enum { SDCA_LABELS = F_COMMON, SDCA_DUAL, SDCA_L2, SDCA_SIGMA, SDCA_COUNT };

static const struct tide_parameter sdca_parameters[SDCA_COUNT] = {
    TIDE_FACTOR_PARAMETERS,
    [SDCA_LABELS] = {"labels", TIDE_TENSOR, TIDE_I32, true, 0, "of the examples, from 0"},
    [SDCA_DUAL] = {"dual", TIDE_TENSOR, TIDE_F32, true, 0,
                   "examples x J, changed: e_y - q of each example; zeros at first"},
    [SDCA_L2] = {"l2", TIDE_NUMBER, 0, true, 0, "l, the weight of |W|^2 / 2; above 0"},
    [SDCA_SIGMA] = {"sigma", TIDE_NUMBER, 0, false, 1, "steps from the same W that add up, 1 or more"},
};

static void dual_step(struct classes *c, size_t i, const struct factor_row *row, float *alpha, double ln,
                      double sigma) {
    float *u = c->b.u + i * c->b.j, *v = c->b.v + i * c->b.d;
    size_t label = (size_t)c->labels[c->b.rows[i]];
    double t = 2 * ln / (sigma * tide_factor_norm2(row->values, row->count) + 2 * ln);
    for (size_t k = 0; k < c->b.j; k++) {
        double q = (k == label ? 1 : 0) - (double)alpha[k];
        double move = t * ((double)c->p[k] - q);
        alpha[k] = (float)((double)alpha[k] - move);
        u[k] = (float)(-move / ln);
    }
    memset(v, 0, c->b.d * sizeof *v);
    tide_factor_spread(row, 1, v);
}

static double entropy_of(const float *alpha, size_t j, size_t label) {
    double sum = 0;
    for (size_t k = 0; k < j; k++) {
        double q = (k == label ? 1 : 0) - (double)alpha[k];
        sum -= q > 0 ? q * log(q) : 0;
    }
    return sum;
}

static int sdca_run(const struct tide_argument *arguments, struct tide_result *results, char *error) {
    struct classes c;
    const struct tide_tensor *dual = &arguments[SDCA_DUAL].tensor;
    double l2 = arguments[SDCA_L2].number, sigma = arguments[SDCA_SIGMA].number;
    int code = classes_open(&c, arguments, SDCA_LABELS, error);
    if (code == 0 && (dual->rows != c.b.examples || dual->columns != c.b.j)) {
        code = tide_kernel_fail(error, TIDE_EINVAL, "dual must be %zu x %zu", c.b.examples, c.b.j);
    }
    if (code == 0 && !(l2 > 0 && sigma >= 1 && isfinite(l2) && isfinite(sigma))) {
        code = tide_kernel_fail(error, TIDE_EINVAL, "l2 must be above 0, sigma 1 or more");
    }
    double ln = l2 * (double)c.b.examples;
    for (size_t i = 0; i < c.b.count && code == 0; i++) {
        struct factor_row row;
        uint32_t example = c.b.rows[i];
        code = classify(&c, example, &row, error);
        if (code < 0) {
            break;
        }
        float *alpha = (float *)dual->data + (size_t)example * c.b.j;
        if (c.b.u) {
            dual_step(&c, i, &row, alpha, ln, sigma);
        }
        c.entropy += entropy_of(alpha, c.b.j, (size_t)c.labels[example]);
    }
    tide_free(c.p);
    if (code < 0) {
        return code;
    }
    int count = results_of(&c, results);
    results[count] = (struct tide_result){"entropy", c.entropy};
    return count + 1;
}

const struct tide_kernel tide_kernel_factors_sdca = {
    "factors_sdca",
    "A step of dual coordinate ascent for each example of a batch, from the same W: factors of the "
    "change of W (which is added as it is), the summed loss, and the entropy of the dual "
    "variables.",
    sdca_parameters, SDCA_COUNT, sdca_run};

/* ---- W of dual variables ---- */

enum { PRIMAL_DUAL = F_COMMON, PRIMAL_L2, PRIMAL_COUNT };

static const struct tide_parameter primal_parameters[PRIMAL_COUNT] = {
    TIDE_FACTOR_PARAMETERS,
    [PRIMAL_DUAL] = {"dual", TIDE_TENSOR, TIDE_F32, true, 0, "examples x J: e_y - q of each"},
    [PRIMAL_L2] = {"l2", TIDE_NUMBER, 0, true, 0, "l, the weight of |W|^2 / 2; above 0"},
};

static int primal_run(const struct tide_argument *arguments, struct tide_result *results, char *error) {
    struct factor_batch b;
    const struct tide_tensor *dual = &arguments[PRIMAL_DUAL].tensor;
    const double l2 = arguments[PRIMAL_L2].number;
    int code = tide_factor_batch(arguments, arguments[F_W].tensor.rows, &b, error);
    if (code == 0 && (dual->rows != b.examples || dual->columns != b.j)) {
        code = tide_kernel_fail(error, TIDE_EINVAL, "dual must be %zu x %zu", b.examples, b.j);
    }
    if (code == 0 && !(l2 > 0 && isfinite(l2))) {
        code = tide_kernel_fail(error, TIDE_EINVAL, "l2 must be above 0");
    }
    if (code < 0) {
        return code;
    }
    const double ln = l2 * (double)b.examples;
    memset(b.w, 0, b.d * b.j * sizeof *b.w);
    for (size_t i = 0; i < b.count; i++) {
        struct factor_row row;
        code = tide_factor_row(&b, b.rows[i], &row, error);
        if (code < 0) {
            return code;
        }
        const float *restrict alpha = (const float *)dual->data + (size_t)b.rows[i] * b.j;
        for (size_t e = 0; e < row.count; e++) {
            float *restrict w = b.w + (size_t)row.indices[e] * b.j;
            const float scale = (float)((double)row.values[e] / ln);
            for (size_t k = 0; k < b.j; k++) {
                w[k] += scale * alpha[k];
            }
        }
    }
    results[0] = (struct tide_result){"count", (double)b.count};
    return 1;
}

const struct tide_kernel tide_kernel_factors_primal = {
    "factors_primal",
    "W = 1/(l n) sum a alpha' over a batch: the parameters that dual variables stand for, if the "
    "batch is all examples whose variables are not 0.",
    primal_parameters, PRIMAL_COUNT, primal_run};
