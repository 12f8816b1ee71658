/*
 * The device "reference": every operation as plain loops in float64, written from the formulas and
 * sharing nothing with the fast kernels. For tests and gradient checks; slow on purpose.
 */
#include "tensor/reference/loops.h"
#include "tensor/ctc.h"

#include <string.h>

/* ---- regions ---- */

static double micro(unsigned code, double a, double b, double c) {
    switch (code) {
    case TIDE_MICRO_NEG:
        return -a;
    case TIDE_MICRO_ABS:
        return fabs(a);
    case TIDE_MICRO_SQR:
        return a * a;
    case TIDE_MICRO_SQRT:
        return sqrt(a);
    case TIDE_MICRO_RSQRT:
        return 1 / sqrt(a);
    case TIDE_MICRO_RECIP:
        return 1 / a;
    case TIDE_MICRO_EXP:
        return exp(a);
    case TIDE_MICRO_LOG:
        return log(a);
    case TIDE_MICRO_LOG1P:
        return log1p(a);
    case TIDE_MICRO_SIGMOID:
        return a < 0 ? exp(a) / (1 + exp(a)) : 1 / (1 + exp(-a));
    case TIDE_MICRO_TANH:
        return tanh(a);
    case TIDE_MICRO_RELU:
        return a < 0 ? 0 : a;
    case TIDE_MICRO_SOFTPLUS:
        return (a < 0 ? 0 : a) + log1p(exp(-fabs(a)));
    case TIDE_MICRO_SIGN:
        return a > 0 ? 1 : a < 0 ? -1 : a;
    case TIDE_MICRO_ERF:
        return erf(a);
    case TIDE_MICRO_ADD:
        return a + b;
    case TIDE_MICRO_SUB:
        return a - b;
    case TIDE_MICRO_MUL:
        return a * b;
    case TIDE_MICRO_DIV:
        return a / b;
    case TIDE_MICRO_MIN:
        return isnan(a) ? a : isnan(b) ? b : fmin(a, b);
    case TIDE_MICRO_MAX:
        return isnan(a) ? a : isnan(b) ? b : fmax(a, b);
    case TIDE_MICRO_EQ:
        return !(a < b) && !(a > b) && !isnan(a) && !isnan(b);
    case TIDE_MICRO_GT:
        return a > b;
    case TIDE_MICRO_GE:
        return a >= b;
    default:
        return isnan(a) || a > 0 || a < 0 ? b : c;
    }
}

int REF(map)(call_pointer call) {
    const struct tide_region *region = &call->attributes->region;
    size_t rows = call->out[0].rows, columns = call->out[0].columns;
    double reg[TIDE_REGION_SOURCES + TIDE_REGION_MICROS];
    for (size_t e = 0; e < rows * columns; e++) {
        size_t next = 0, r = 0;
        for (; r < region->source_count; r++) {
            if (region->kind[r] == TIDE_SOURCE_CONSTANT) {
                reg[r] = region->constant[r];
                continue;
            }
            size_t row = e / columns, column = e % columns;
            size_t at = region->kind[r] == TIDE_SOURCE_ROW ? 0 : row * tide_operand_stride(&call->in[next]);
            at += region->kind[r] == TIDE_SOURCE_COLUMN ? 0 : column;
            reg[r] = in(call, next++)[at];
        }
        for (size_t i = 0; i < region->micro_count; i++, r++) {
            const struct tide_micro *u = &region->micro[i];
            reg[r] = micro(u->code, reg[u->a], reg[u->b], reg[u->c]);
        }
        for (size_t o = 0; o < region->out_count; o++) {
            out(call, o)[e / columns * tide_operand_stride(&call->out[o]) + e % columns] = reg[region->out[o]];
        }
    }
    return 0;
}

/* ---- products ---- */

static void product(bool ta, bool tb, size_t n, size_t m, size_t k, double alpha, const double *a, size_t lda,
                    const double *b, size_t ldb, bool accumulate, double *c, size_t ldc) {
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < m; j++) {
            double sum = 0;
            for (size_t z = 0; z < k; z++) {
                sum += a[ta ? z * lda + i : i * lda + z] * b[tb ? j * ldb + z : z * ldb + j];
            }
            c[i * ldc + j] = alpha * sum + (accumulate ? c[i * ldc + j] : 0);
        }
    }
}

int REF(mm)(call_pointer call) {
    const struct tide_attributes *t = call->attributes;
    size_t k = t->ta ? call->in[0].rows : call->in[0].columns;
    product(t->ta, t->tb, call->out[0].rows, call->out[0].columns, k, fpclassify(t->alpha) == FP_ZERO ? 1 : t->alpha,
            in(call, 0), tide_operand_stride(&call->in[0]), in(call, 1), tide_operand_stride(&call->in[1]),
            call->accumulate, out(call, 0), tide_operand_stride(&call->out[0]));
    return 0;
}

int REF(bmm)(call_pointer call) {
    const struct tide_attributes *t = call->attributes;
    size_t ca = call->in[0].columns, cb = call->in[1].columns, m = call->out[0].columns;
    size_t n = t->ta ? ca : t->n, k = t->ta ? t->n : ca;
    size_t rows_a = t->n, rows_b = t->tb ? m : k;
    for (size_t g = 0; g * n < call->out[0].rows; g++) {
        product(t->ta, t->tb, n, m, k, 1, in(call, 0) + g * rows_a * ca, ca, in(call, 1) + g * rows_b * cb, cb, false,
                out(call, 0) + g * n * m, m);
    }
    return 0;
}

/* ---- windows: visits every (output pixel, tap inside the image) ---- */

typedef void (*visit)(call_pointer call, size_t pixel, size_t tap, size_t source);

static void each_tap(call_pointer call, size_t pixels, visit f) {
    const struct tide_window *w = &call->attributes->window;
    for (size_t p = 0; p < pixels; p++) {
        size_t b = p / ((size_t)w->oh * w->ow), oy = p / w->ow % w->oh, ox = p % w->ow;
        for (size_t t = 0; t < (size_t)w->kh * w->kw; t++) {
            int64_t y = (int64_t)(oy * w->stride + t / w->kw) - w->pad;
            int64_t x = (int64_t)(ox * w->stride + t % w->kw) - w->pad;
            if (y >= 0 && x >= 0 && y < w->h && x < w->w) {
                f(call, p, t, (b * w->h + (size_t)y) * w->w + (size_t)x);
            }
        }
    }
}

static void zero(call_pointer call, size_t i) {
    for (size_t e = 0; e < call->out[i].rows * call->out[i].columns; e++) {
        out(call, i)[e] = 0;
    }
}

static void conv_tap(call_pointer call, size_t p, size_t t, size_t s) {
    const struct tide_window *w = &call->attributes->window;
    for (size_t i = 0; i < w->c; i++) {
        for (size_t o = 0; o < w->o; o++) {
            out(call, 0)[p * w->o + o] += in(call, 0)[s * w->c + i] * in(call, 1)[(t * w->c + i) * w->o + o];
        }
    }
}

static void conv_dx_tap(call_pointer call, size_t p, size_t t, size_t s) {
    const struct tide_window *w = &call->attributes->window;
    for (size_t i = 0; i < w->c; i++) {
        for (size_t o = 0; o < w->o; o++) {
            out(call, 0)[s * w->c + i] += in(call, 0)[p * w->o + o] * in(call, 1)[(t * w->c + i) * w->o + o];
        }
    }
}

static void conv_dw_tap(call_pointer call, size_t p, size_t t, size_t s) {
    const struct tide_window *w = &call->attributes->window;
    for (size_t i = 0; i < w->c; i++) {
        for (size_t o = 0; o < w->o; o++) {
            out(call, 0)[(t * w->c + i) * w->o + o] += in(call, 0)[s * w->c + i] * in(call, 1)[p * w->o + o];
        }
    }
}

int REF(conv)(call_pointer call) {
    zero(call, 0);
    each_tap(call, call->out[0].rows, conv_tap);
    return 0;
}

int REF(conv_dx)(call_pointer call) {
    zero(call, 0);
    each_tap(call, call->in[0].rows, conv_dx_tap);
    return 0;
}

int REF(conv_dw)(call_pointer call) {
    if (!call->accumulate) {
        zero(call, 0);
    }
    each_tap(call, call->in[1].rows, conv_dw_tap);
    return 0;
}

static void max_tap(call_pointer call, size_t p, size_t t, size_t s) {
    size_t c = call->attributes->window.c;
    uint8_t *place = call->out[1].data;
    for (size_t j = 0; j < c; j++) {
        double x = in(call, 0)[s * c + j], *y = &out(call, 0)[p * c + j];
        if (place[p * c + j] == 255 || x > *y || (isnan(x) && !isnan(*y))) {
            *y = x;
            place[p * c + j] = (uint8_t)t;
        }
    }
}

int REF(maxpool)(call_pointer call) {
    size_t n = call->out[1].rows * call->out[1].columns;
    if (n > 0) {
        memset(call->out[1].data, 255, n);
    }
    each_tap(call, call->out[0].rows, max_tap);
    return 0;
}

static void max_dx_tap(call_pointer call, size_t p, size_t t, size_t s) {
    size_t c = call->attributes->window.c;
    const uint8_t *place = call->in[1].data;
    for (size_t j = 0; j < c; j++) {
        out(call, 0)[s * c + j] += place[p * c + j] == t ? in(call, 0)[p * c + j] : 0;
    }
}

int REF(maxpool_dx)(call_pointer call) {
    zero(call, 0);
    each_tap(call, call->in[0].rows, max_dx_tap);
    return 0;
}

/* Cells of the window of output pixel p that lie in the image. */
static double cells(const struct tide_window *w, size_t p) {
    double count = 0;
    for (size_t t = 0; t < (size_t)w->kh * w->kw; t++) {
        int64_t y = (int64_t)(p / w->ow % w->oh * w->stride + t / w->kw) - w->pad;
        int64_t x = (int64_t)(p % w->ow * w->stride + t % w->kw) - w->pad;
        count += y >= 0 && x >= 0 && y < w->h && x < w->w;
    }
    return count;
}

static void avg_tap(call_pointer call, size_t p, size_t t, size_t s) {
    size_t c = call->attributes->window.c;
    (void)t;
    for (size_t j = 0; j < c; j++) {
        out(call, 0)[p * c + j] += in(call, 0)[s * c + j] / cells(&call->attributes->window, p);
    }
}

static void avg_dx_tap(call_pointer call, size_t p, size_t t, size_t s) {
    size_t c = call->attributes->window.c;
    (void)t;
    for (size_t j = 0; j < c; j++) {
        out(call, 0)[s * c + j] += in(call, 0)[p * c + j] / cells(&call->attributes->window, p);
    }
}

int REF(avgpool)(call_pointer call) {
    zero(call, 0);
    each_tap(call, call->out[0].rows, avg_tap);
    return 0;
}

int REF(avgpool_dx)(call_pointer call) {
    zero(call, 0);
    each_tap(call, call->in[0].rows, avg_dx_tap);
    return 0;
}

int REF(mean_pixels)(call_pointer call) {
    size_t c = call->out[0].columns, group = call->attributes->group;
    zero(call, 0);
    for (size_t e = 0; e < call->out[0].rows * group * c; e++) {
        out(call, 0)[e / (group * c) * c + e % c] += in(call, 0)[e] / (double)group;
    }
    return 0;
}

int REF(mean_pixels_dx)(call_pointer call) {
    size_t c = call->out[0].columns, group = call->attributes->group;
    for (size_t e = 0; e < call->out[0].rows * c; e++) {
        out(call, 0)[e] = in(call, 0)[e / (group * c) * c + e % c] / (double)group;
    }
    return 0;
}

/* ---- normalisation ---- */

static double mean_of(const double *x, size_t count, size_t stride) {
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        sum += x[i * stride];
    }
    return count ? sum / (double)count : 0;
}

static double squares_of(const double *x, size_t count, size_t stride, double mean) {
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        sum += (x[i * stride] - mean) * (x[i * stride] - mean);
    }
    return sum;
}

int REF(batchnorm)(call_pointer call) {
    size_t n = call->in[0].rows, c = call->in[0].columns;
    double rate = call->attributes->rate, *running_mean = call->in[3].data;
    double *running_var = call->in[4].data;
    for (size_t j = 0; j < c; j++) {
        const double *x = in(call, 0) + j;
        double mean = mean_of(x, n, c), squares = squares_of(x, n, c, mean);
        double inv = n ? 1 / sqrt(squares / (double)n + call->attributes->eps) : 0;
        out(call, 1)[j] = mean;
        out(call, 2)[j] = inv;
        for (size_t i = 0; i < n; i++) {
            out(call, 0)[i * c + j] = (x[i * c] - mean) * inv * in(call, 1)[j] + in(call, 2)[j];
        }
        if (n > 0) {
            running_mean[j] += rate * (mean - running_mean[j]);
            running_var[j] += rate * (squares / (double)(n > 1 ? n - 1 : 1) - running_var[j]);
        }
    }
    return 0;
}

int REF(batchnorm_eval)(call_pointer call) {
    size_t c = call->in[0].columns;
    for (size_t e = 0; e < call->in[0].rows * c; e++) {
        size_t j = e % c;
        out(call, 0)[e] =
            (in(call, 0)[e] - in(call, 3)[j]) / sqrt(in(call, 4)[j] + call->attributes->eps) * in(call, 1)[j] +
            in(call, 2)[j];
    }
    return 0;
}

/* `count` elements `stride` apart that were normalised together; gamma of element i at gamma[i
 * step]. */
static void norm_dx(size_t count, size_t stride, const double *g, const double *x, const double *gamma, size_t step,
                    double mean, double inv, double *dx) {
    double first = 0, second = 0;
    for (size_t i = 0; i < count; i++) {
        double scaled = g[i * stride] * gamma[i * step];
        first += scaled / (double)count;
        second += scaled * (x[i * stride] - mean) * inv / (double)count;
    }
    for (size_t i = 0; i < count; i++) {
        double xhat = (x[i * stride] - mean) * inv;
        dx[i * stride] = inv * (g[i * stride] * gamma[i * step] - first - xhat * second);
    }
}

int REF(batchnorm_dx)(call_pointer call) {
    size_t n = call->in[0].rows, c = call->in[0].columns;
    zero(call, 1);
    zero(call, 2);
    for (size_t j = 0; j < c; j++) {
        double mean = in(call, 3)[j], inv = in(call, 4)[j];
        norm_dx(n, c, in(call, 0) + j, in(call, 1) + j, in(call, 2) + j, 0, mean, inv, out(call, 0) + j);
        for (size_t i = 0; i < n; i++) {
            out(call, 1)[j] += in(call, 0)[i * c + j] * (in(call, 1)[i * c + j] - mean) * inv;
            out(call, 2)[j] += in(call, 0)[i * c + j];
        }
    }
    return 0;
}

int REF(layernorm)(call_pointer call) {
    size_t n = call->in[0].rows, c = call->in[0].columns;
    for (size_t i = 0; i < n; i++) {
        const double *x = in(call, 0) + i * c;
        double mean = mean_of(x, c, 1);
        double inv = 1 / sqrt(squares_of(x, c, 1, mean) / (double)c + call->attributes->eps);
        out(call, 1)[i] = mean;
        out(call, 2)[i] = inv;
        for (size_t j = 0; j < c; j++) {
            out(call, 0)[i * c + j] = (x[j] - mean) * inv * in(call, 1)[j] + in(call, 2)[j];
        }
    }
    return 0;
}

int REF(layernorm_dx)(call_pointer call) {
    size_t n = call->in[0].rows, c = call->in[0].columns;
    zero(call, 1);
    zero(call, 2);
    for (size_t i = 0; i < n; i++) {
        double mean = in(call, 3)[i], inv = in(call, 4)[i];
        norm_dx(c, 1, in(call, 0) + i * c, in(call, 1) + i * c, in(call, 2), 1, mean, inv, out(call, 0) + i * c);
        for (size_t j = 0; j < c; j++) {
            out(call, 1)[j] += in(call, 0)[i * c + j] * (in(call, 1)[i * c + j] - mean) * inv;
            out(call, 2)[j] += in(call, 0)[i * c + j];
        }
    }
    return 0;
}

/* ---- softmax and losses ---- */

static double log_sum_exp(const double *z, size_t k) {
    double most = -INFINITY, sum = 0;
    for (size_t j = 0; j < k; j++) {
        most = z[j] > most ? z[j] : most;
    }
    for (size_t j = 0; j < k; j++) {
        sum += exp(z[j] - most);
    }
    return most + log(sum);
}

int REF(softmax)(call_pointer call) {
    size_t k = call->in[0].columns;
    for (size_t i = 0; i < call->in[0].rows; i++) {
        double all = log_sum_exp(in(call, 0) + i * k, k);
        for (size_t j = 0; j < k; j++) {
            out(call, 0)[i * k + j] = exp(in(call, 0)[i * k + j] - all);
        }
    }
    return 0;
}

int REF(softmax_dx)(call_pointer call) {
    size_t k = call->in[0].columns;
    for (size_t i = 0; i < call->in[0].rows; i++) {
        double inner = 0;
        for (size_t j = 0; j < k; j++) {
            inner += in(call, 0)[i * k + j] * in(call, 1)[i * k + j];
        }
        for (size_t j = 0; j < k; j++) {
            out(call, 0)[i * k + j] = in(call, 1)[i * k + j] * (in(call, 0)[i * k + j] - inner);
        }
    }
    return 0;
}

int REF(xent)(call_pointer call) {
    size_t k = call->in[0].columns;
    const int32_t *labels = call->in[1].data;
    const double smoothing = call->attributes->smoothing, *weights = call->in[2].data;
    double *loss = out(call, 0);
    loss[0] = loss[1] = loss[2] = 0;
    for (size_t i = 0; i < call->in[0].rows; i++) {
        const double *z = in(call, 0) + i * k;
        double *dz = out(call, 1) + i * k, weight = weights ? weights[i] : 1;
        if (labels[i] < -1 || labels[i] >= (int64_t)k) {
            return tide_fail(TIDE_EINVAL, "example %zu has label %d, outside 0..%zu (-1 leaves it out)", i + 1,
                             labels[i], k - 1);
        }
        if (labels[i] < 0 || fpclassify(weight) == FP_ZERO) {
            memset(dz, 0, k * sizeof(double));
            continue;
        }
        size_t own = (size_t)labels[i], best = 0;
        double all = log_sum_exp(z, k), mean = 0;
        for (size_t j = 0; j < k; j++) {
            best = z[j] > z[best] ? j : best;
            mean += z[j] / (double)k;
        }
        loss[0] += weight * (all - (smoothing > 0 ? (1 - smoothing) * z[own] + smoothing * mean : z[own]));
        loss[1] += weight;
        loss[2] += best == own;
        for (size_t j = 0; j < k; j++) { /* last: dz may be z */
            dz[j] = weight * (exp(z[j] - all) - (j == own ? 1 - smoothing : 0) - smoothing / (double)k);
        }
    }
    return 0;
}

/* Row by row; the logits of one in scratch. */
int REF(linear_xent)(call_pointer call) {
    const bool tb = call->attributes->tb;
    const size_t n = call->in[0].rows, m = call->in[0].columns, k = tb ? call->in[1].rows : call->in[1].columns;
    const double *x = in(call, 0), *w = in(call, 1);
    double *loss = out(call, 0), *dx = out(call, 1), *dw = out(call, 2), *z = call->scratch;
    memset(loss, 0, 3 * sizeof(double));
    if (call->attributes->count != 1) {
        memset(dw, 0, m * k * sizeof(double));
    }
    for (size_t i = 0; i < n; i++) {
        double one[3], *weights = call->in[3].data;
        struct tide_op_call row = {.attributes = call->attributes,
                                   .in = {{z, 1, k, 0}, {(int32_t *)call->in[2].data + i, 1, 1, 0}},
                                   .out = {{one, 1, 3, 0}, {z, 1, k, 0}}};
        row.in[2] = (struct tide_operand){weights ? weights + i : NULL, 1, 1, 0};
        product(false, tb, 1, k, m, 1, x + i * m, m, w, tb ? m : k, false, z, k);
        if (REF(xent)(&row) != 0) {
            return tide_fail(TIDE_EINVAL, "example %zu has label %d, outside 0..%zu (-1 leaves it out)", i + 1,
                             ((int32_t *)call->in[2].data)[i], k - 1);
        }
        for (size_t j = 0; j < 3; j++) {
            loss[j] += one[j];
        }
        if (call->attributes->count == 1) {
            continue;
        }
        product(false, !tb, 1, m, k, 1, z, k, w, tb ? m : k, false, dx + i * m, m);
        if (tb) {
            product(true, false, k, m, 1, 1, z, k, x + i * m, m, true, dw, m);
        } else {
            product(true, false, m, k, 1, 1, x + i * m, m, z, k, true, dw, k);
        }
    }
    return 0;
}

enum element_loss { SIGMOID_XENT, MSE, HINGE, SUM };

static int element_loss(call_pointer call, enum element_loss kind) {
    double *loss = out(call, 0);
    loss[0] = loss[2] = 0;
    loss[1] = (double)call->in[0].rows;
    for (size_t e = 0; e < call->in[0].rows * call->in[0].columns; e++) {
        double z = in(call, 0)[e], t = kind == SUM ? 0 : in(call, 1)[e], *dz = &out(call, 1)[e];
        switch (kind) {
        case SIGMOID_XENT:
            loss[0] += (z < 0 ? 0 : z) - z * t + log1p(exp(-fabs(z)));
            *dz = micro(TIDE_MICRO_SIGMOID, z, 0, 0) - t;
            break;
        case MSE:
            loss[0] += (z - t) * (z - t) / 2;
            *dz = z - t;
            break;
        case HINGE:
            loss[0] += z * t < 1 ? 1 - z * t : 0;
            *dz = z * t < 1 ? -t : 0;
            break;
        default:
            loss[0] += z;
            *dz = 1;
            break;
        }
    }
    return 0;
}

int REF(sigmoid_xent)(call_pointer call) {
    return element_loss(call, SIGMOID_XENT);
}

int REF(mse)(call_pointer call) {
    return element_loss(call, MSE);
}

int REF(hinge)(call_pointer call) {
    return element_loss(call, HINGE);
}

int REF(sum_loss)(call_pointer call) {
    return element_loss(call, SUM);
}

/* ---- rows and columns ---- */

/* Each id, checked, with the row that it names; NULL: none. */
typedef void (*each_row)(call_pointer call, size_t i, const size_t *row, size_t width);

static int each_id(call_pointer call, const struct tide_operand *x, each_row f) {
    const struct tide_op_groups g = tide_op_groups(call, x);
    const int32_t *ids = call->in[1].data;
    for (size_t i = 0; i < g.count * g.m; i++) {
        if (ids[i] < -1 || ids[i] >= (int64_t)g.n) {
            return tide_fail(TIDE_EINVAL, "index %zu is %d, outside 0..%zu (-1: zeros)", i + 1, ids[i], g.n - 1);
        }
        size_t row = ids[i] < 0 ? 0 : i / g.m * g.n + (size_t)ids[i];
        f(call, i, ids[i] < 0 ? NULL : &row, g.w);
    }
    return 0;
}

static void take_row(call_pointer call, size_t i, const size_t *row, size_t width) {
    for (size_t j = 0; j < width; j++) {
        out(call, 0)[i * width + j] = row ? in(call, 0)[*row * width + j] : 0;
    }
}

static void add_row(call_pointer call, size_t i, const size_t *row, size_t width) {
    for (size_t j = 0; row && j < width; j++) {
        out(call, 0)[*row * width + j] += in(call, 0)[i * width + j];
    }
}

int REF(embed)(call_pointer call) {
    return each_id(call, &call->in[0], take_row);
}

int REF(embed_dw)(call_pointer call) {
    if (!call->accumulate) {
        zero(call, 0);
    }
    return each_id(call, &call->out[0], add_row);
}

int REF(row_sums)(call_pointer call) {
    size_t c = call->in[0].columns;
    for (size_t i = 0; i < call->in[0].rows; i++) {
        out(call, 0)[i] = mean_of(in(call, 0) + i * c, c, 1) * (double)c;
    }
    return 0;
}

int REF(column_sums)(call_pointer call) {
    size_t c = call->in[0].columns, n = call->in[0].rows;
    for (size_t j = 0; j < c; j++) {
        double sum = mean_of(in(call, 0) + j, n, c) * (double)n;
        out(call, 0)[j] = sum + (call->accumulate ? out(call, 0)[j] : 0);
    }
    return 0;
}

int REF(slice)(call_pointer call) {
    size_t w = call->out[0].columns, c = call->in[0].columns;
    for (size_t e = 0; e < call->out[0].rows * w; e++) {
        out(call, 0)[e] = in(call, 0)[e / w * c + call->attributes->first + e % w];
    }
    return 0;
}

int REF(slice_dx)(call_pointer call) {
    size_t w = call->in[0].columns, c = call->out[0].columns;
    zero(call, 0);
    for (size_t e = 0; e < call->in[0].rows * w; e++) {
        out(call, 0)[e / w * c + call->attributes->first + e % w] = in(call, 0)[e];
    }
    return 0;
}

int REF(concat)(call_pointer call) {
    size_t a = call->in[0].columns, b = call->in[1].columns, c = a + b;
    for (size_t e = 0; e < call->out[0].rows * c; e++) {
        size_t i = e / c, j = e % c;
        out(call, 0)[e] = j < a ? in(call, 0)[i * a + j] : in(call, 1)[i * b + j - a];
    }
    return 0;
}

int REF(dropout)(call_pointer call) {
    double keep = call->attributes->keep;
    uint64_t key = ((uint64_t)call->attributes->id << 40) + call->step;
    for (size_t e = 0; e < call->in[0].rows * call->in[0].columns; e++) {
        uint32_t words[4]; /* element e of the run has word e % 4 of counter e / 4 */
        size_t at = call->row * call->in[0].columns + e;
        tide_philox(call->seed, key, at / 4, words);
        bool kept = (words[at % 4] >> 8) < (uint32_t)(keep * 16777216.0);
        out(call, 0)[e] = kept ? in(call, 0)[e] / keep : 0;
    }
    return 0;
}

/* ---- rows of lists ---- */

int REF(gather)(call_pointer call) {
    size_t w = call->out[0].columns, from = tide_operand_stride(&call->in[0]);
    const int32_t *rows = call->in[1].data;
    for (size_t e = 0; e < call->out[0].rows * w; e++) {
        size_t i = e / w, j = e % w;
        out(call, 0)[i * tide_operand_stride(&call->out[0]) + j] =
            rows[i] < 0 ? 0 : in(call, 0)[(size_t)rows[i] * from + j];
    }
    return 0;
}

int REF(gather_sum)(call_pointer call) {
    size_t w = call->out[0].columns, from = tide_operand_stride(&call->in[0]);
    const int32_t *starts = call->in[1].data, *rows = call->in[2].data;
    for (size_t e = 0; e < call->out[0].rows * w; e++) {
        size_t i = e / w, j = e % w;
        double sum = 0;
        for (int32_t k = starts[i]; k < starts[i + 1]; k++) {
            sum += in(call, 0)[(size_t)rows[k] * from + j];
        }
        out(call, 0)[i * tide_operand_stride(&call->out[0]) + j] = sum;
    }
    return 0;
}

int REF(gather_max)(call_pointer call) {
    size_t w = call->out[0].columns, from = tide_operand_stride(&call->in[0]);
    const int32_t *starts = call->in[1].data, *rows = call->in[2].data;
    for (size_t e = 0; e < call->out[0].rows * w; e++) {
        size_t i = e / w, j = e % w;
        double best = 0;
        int32_t winner = -1;
        for (int32_t k = starts[i]; k < starts[i + 1]; k++) {
            double x = in(call, 0)[(size_t)rows[k] * from + j];
            if (winner < 0 || x > best || (isnan(x) && !isnan(best))) {
                best = x;
                winner = rows[k];
            }
        }
        out(call, 0)[i * tide_operand_stride(&call->out[0]) + j] = best;
        ((int32_t *)call->out[1].data)[e] = winner;
    }
    return 0;
}

int REF(gather_max_dx)(call_pointer call) {
    size_t w = call->out[0].columns, from = tide_operand_stride(&call->in[0]);
    const int32_t *winners = call->in[1].data, *starts = call->in[2].data, *rows = call->in[3].data;
    for (size_t e = 0; e < call->out[0].rows * w; e++) {
        size_t i = e / w, j = e % w;
        double sum = 0;
        for (int32_t k = starts[i]; k < starts[i + 1]; k++) {
            bool again = k > starts[i] && rows[k] == rows[k - 1];
            bool won = (size_t)winners[(size_t)rows[k] * w + j] == call->row + i;
            sum += won && !again ? in(call, 0)[(size_t)rows[k] * from + j] : 0;
        }
        out(call, 0)[i * tide_operand_stride(&call->out[0]) + j] = sum;
    }
    return 0;
}

size_t tide__op_scratch_reference(enum tide_op_code code, const struct tide_op_call *call) {
    return code == TIDE_OP_CTC ? tide_ctc_scratch(call->attributes->n, call->in[1].columns) * sizeof(double)
           : code == TIDE_OP_LINEAR_XENT
               ? (call->attributes->tb ? call->in[1].rows : call->in[1].columns) * sizeof(double)
               : 0;
}

const tide_op_function tide__op_functions_reference[TIDE_OP_COUNT] = {
#define TIDE_OPERATION(code, name, ...) REF(name),
#include "operations.def"
#undef TIDE_OPERATION
};
