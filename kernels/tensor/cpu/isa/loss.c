/*
 * Softmax and losses. Rows are taken in blocks that stay in the first cache: subtract the row's
 * maximum, one vector exp over the whole block however short its rows, then sum and scale. Losses
 * add up in double.
 */
#include "tensor/cpu/isa/approx.h"
#include "tensor/cpu/isa/rows.h"
#include "tensor/linear_xent.h"
#include "tide.h"

enum { BLOCK_ROWS = 128, BLOCK_ELEMENTS = 4096, PIECE = 256 };

static size_t block_rows(size_t k) {
    size_t rows = k ? BLOCK_ELEMENTS / k : BLOCK_ROWS;
    return rows < 1 ? 1 : rows > BLOCK_ROWS ? BLOCK_ROWS : rows;
}

/* out = exp(z - max) for `rows` rows; most[r] the maxima, total[r] the sums. */
static void exponentials(size_t rows, size_t k, const float *z, float *out, float *most, double *total) {
    for (size_t r = 0; r < rows; r++) {
        const float *from = z + r * k, m = tide_row_max(k, from);
        float *to = out + r * k;
        most[r] = m;
        TIDE_INDEPENDENT
        for (size_t j = 0; j < k; j++) {
            to[j] = from[j] - m;
        }
    }
    OP(exp_all)(rows * k, out, out);
    for (size_t r = 0; r < rows; r++) {
        total[r] = tide_sum(k, out + r * k);
    }
}

static void logarithms(size_t n, const float *from, float less, float rest, float *to) {
    TIDE_INDEPENDENT
    for (size_t j = 0; j < n; j++) {
        to[j] = (from[j] - less) - rest;
    }
}

static int softmax_rows(const struct tide_op_call *call, bool logs) {
    size_t rows = call->in[0].rows, k = call->in[0].columns, step = block_rows(k);
    const float *z = call->in[0].data;
    float *y = call->out[0].data, most[BLOCK_ROWS];
    double total[BLOCK_ROWS];
    for (size_t r = 0; r < rows; r += step) {
        size_t n = rows - r < step ? rows - r : step;
        exponentials(n, k, z + r * k, y + r * k, most, total);
        for (size_t i = 0; i < n; i++) {
            if (logs) {
                logarithms(k, z + (r + i) * k, most[i], (float)log(total[i]), y + (r + i) * k);
            } else {
                tide_row_scale(k, (float)(1 / total[i]), y + (r + i) * k);
            }
        }
    }
    return 0;
}

int OP(softmax)(const struct tide_op_call *call) {
    return softmax_rows(call, false);
}

int OP(log_softmax)(const struct tide_op_call *call) {
    return softmax_rows(call, true);
}

int OP(softmax_dx)(const struct tide_op_call *call) {
    size_t rows = call->in[0].rows, k = call->in[0].columns;
    for (size_t r = 0; r < rows; r++) {
        const float *g = (const float *)call->in[0].data + r * k;
        const float *y = (const float *)call->in[1].data + r * k;
        float *dx = (float *)call->out[0].data + r * k;
        double sum = 0;
        for (size_t j = 0; j < k; j++) {
            sum += (double)(g[j] * y[j]);
        }
        const float inner = (float)sum;
        TIDE_INDEPENDENT
        for (size_t j = 0; j < k; j++) {
            dx[j] = y[j] * (g[j] - inner);
        }
    }
    return 0;
}

static int check_label(int32_t label, size_t k, size_t row) {
    if (label < -1 || label >= (int64_t)k) {
        return tide_fail(TIDE_EINVAL, "example %zu has label %d, outside 0..%zu (-1 leaves it out)", row + 1, label,
                         k - 1);
    }
    return 0;
}

/* Whether the label is the arg-maximum, the first of equals. */
static bool is_first_maximum(const float *z, int32_t label, float most) {
    if (!(z[label] >= most)) {
        return false;
    }
    for (int32_t j = 0; j < label; j++) {
        if (z[j] == most) {
            return false;
        }
    }
    return true;
}

/* z times a row's part of the loss: (1 - smoothing) z_label + smoothing mean(z). */
static double xent_own(size_t k, const float *z, int32_t label, double smoothing) {
    return smoothing > 0 ? (1 - smoothing) * (double)z[label] + smoothing * tide_sum(k, z) / (double)k
                         : (double)z[label];
}

/* dz: exponentials of sum `total`, times w / total, less what the label and the uniform part take. */
static void xent_gradient(size_t k, float *dz, int32_t label, double total, double w, double smoothing) {
    tide_row_scale(k, (float)(w / total), dz);
    if (smoothing > 0) {
        const float uniform = (float)(w * smoothing / (double)k);
        TIDE_INDEPENDENT
        for (size_t j = 0; j < k; j++) {
            dz[j] -= uniform;
        }
    }
    dz[label] -= (float)(w * (1 - smoothing));
}

int OP(xent)(const struct tide_op_call *call) {
    size_t rows = call->in[0].rows, k = call->in[0].columns, step = block_rows(k);
    const int32_t *labels = call->in[1].data;
    const float *weights = call->in[2].data;
    const double smoothing = call->attributes->smoothing;
    double *loss = call->out[0].data, total[BLOCK_ROWS], own[BLOCK_ROWS], sum = 0, counted = 0;
    float most[BLOCK_ROWS];
    size_t correct = 0;
    for (size_t r = 0; r < rows; r++) {
        int code = check_label(labels[r], k, r);
        if (code != 0) {
            return code;
        }
    }
    for (size_t r = 0; r < rows; r += step) {
        size_t n = rows - r < step ? rows - r : step;
        const float *z = (const float *)call->in[0].data + r * k;
        float *dz = (float *)call->out[1].data + r * k;
        for (size_t i = 0; i < n; i++) { /* before dz, which may be z, is written */
            const bool counts = labels[r + i] >= 0 && !(weights && weights[r + i] == 0.0f);
            own[i] = counts ? xent_own(k, z + i * k, labels[r + i], smoothing) : 0;
            correct += counts && is_first_maximum(z + i * k, labels[r + i], tide_row_max(k, z + i * k));
        }
        exponentials(n, k, z, dz, most, total);
        for (size_t i = 0; i < n; i++) {
            const double w = weights ? (double)weights[r + i] : 1;
            if (labels[r + i] < 0 || (weights && weights[r + i] == 0.0f)) {
                memset(dz + i * k, 0, k * sizeof(float));
                continue;
            }
            counted += w;
            sum += w * (log(total[i]) - (own[i] - (double)most[i]));
            xent_gradient(k, dz + i * k, labels[r + i], total[i], w, smoothing);
        }
    }
    loss[0] = sum;
    loss[1] = counted;
    loss[2] = (double)correct;
    return 0;
}

static int add_parts(const struct tide_op_call *call, size_t chunks, const double *parts) {
    double *loss = call->out[0].data;
    memset(loss, 0, 3 * sizeof *loss);
    for (size_t i = 0; i < 3 * chunks; i++) {
        loss[i % 3] += parts[i];
    }
    return 0;
}

static size_t no_scratch(enum tide_op_code code, const struct tide_op_call *call) {
    (void)code;
    (void)call;
    return 0;
}

static const struct tide_linear_xent linear_xent_kit = {
    .element = sizeof(float), .mm = OP(mm), .xent = OP(xent), .scratch = no_scratch, .total = add_parts};

size_t OP(linear_xent_scratch)(const struct tide_op_call *call) {
    return tide_linear_xent_scratch(call, &linear_xent_kit);
}

int OP(linear_xent)(const struct tide_op_call *call) {
    const int32_t *labels = call->in[2].data;
    for (size_t r = 0; r < call->in[0].rows; r++) {
        int code = check_label(labels[r], tide_linear_xent_classes(call), r);
        if (code != 0) {
            return code;
        }
    }
    return tide_linear_xent_run(call, &linear_xent_kit);
}

/* Elementwise losses: LOSS and SLOPE of a = z[i], b = t[i]. */
#define ELEMENT_LOSS(name, LOSS, SLOPE)                                                                                \
    int OP(name)(const struct tide_op_call *call) {                                                                    \
        size_t n = call->in[0].rows * call->in[0].columns;                                                             \
        const float *z = call->in[0].data, *t = call->in[1].data;                                                      \
        float *dz = call->out[1].data, losses[PIECE];                                                                  \
        double *loss = call->out[0].data, sum = 0;                                                                     \
        for (size_t at = 0; at < n; at += PIECE) {                                                                     \
            size_t piece = n - at < PIECE ? n - at : PIECE;                                                            \
            TIDE_INDEPENDENT                                                                                           \
            for (size_t i = 0; i < piece; i++) {                                                                       \
                const float a = z[at + i], b = t[at + i];                                                              \
                losses[i] = LOSS;                                                                                      \
                dz[at + i] = SLOPE;                                                                                    \
            }                                                                                                          \
            sum += tide_sum(piece, losses);                                                                            \
        }                                                                                                              \
        loss[0] = sum;                                                                                                 \
        loss[1] = (double)call->in[0].rows;                                                                            \
        loss[2] = 0;                                                                                                   \
        return 0;                                                                                                      \
    }
ELEMENT_LOSS(sigmoid_xent, (a < 0.0f ? 0.0f : a) - a * b + tide_log1p(tide_exp(-fabsf(a))), tide_sigmoid(a) - b)
ELEMENT_LOSS(mse, 0.5f * (a - b) * (a - b), a - b)
ELEMENT_LOSS(hinge, 1.0f - a * b < 0.0f ? 0.0f : 1.0f - a * b, a *b < 1.0f ? -b : 0.0f)

int OP(sum_loss)(const struct tide_op_call *call) {
    size_t n = call->in[0].rows * call->in[0].columns;
    double *loss = call->out[0].data;
    float *dz = call->out[1].data;
    loss[0] = tide_sum(n, call->in[0].data);
    loss[1] = (double)call->in[0].rows;
    loss[2] = 0;
    for (size_t i = 0; i < n; i++) {
        dz[i] = 1.0f;
    }
    return 0;
}
