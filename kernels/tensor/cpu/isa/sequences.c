/* Operations on sequences and axes beside attention. */
#include "tensor/cpu/isa/approx.h"
#include "tensor/ctc.h"
#include "tensor/in_place.h"
#include "tide.h"

/* ---- rotary embeddings ---- */

/* cos and sin of a position's angles, for the pairs of one block of d. */
static void turns(const struct tide_attributes *t, double position, float *to) {
    for (size_t j = 0; j < t->k / 2; j++) {
        const double angle = position * pow(t->rate, -2.0 * (double)j / (double)t->k);
        to[j] = (float)cos(angle);
        to[t->k / 2 + j] = (float)(t->ta ? -sin(angle) : sin(angle));
    }
}

int OP(rotary)(const struct tide_op_call *call) {
    const struct tide_attributes *t = call->attributes;
    const size_t c = call->in[0].columns, half = t->k / 2, step = t->tb ? 2 : 1, other = t->tb ? 1 : half;
    const int32_t *positions = call->in[1].data;
    float *table = call->scratch;
    for (size_t i = 0; !positions && i < t->n && call->in[0].rows > 0; i++) {
        turns(t, (double)i, table + i * t->k);
    }
    for (size_t r = 0; r < call->in[0].rows; r++) {
        const float *x = (const float *)call->in[0].data + r * c, *by = table + (positions ? 0 : r % t->n * t->k);
        float *y = (float *)call->out[0].data + r * c;
        if (positions) {
            turns(t, positions[r], table);
        }
        for (size_t block = 0; block < c; block += t->k) {
            TIDE_INDEPENDENT
            for (size_t j = 0; j < half; j++) {
                const size_t a = block + j * step, b = a + other;
                const float cosine = by[j], sine = by[half + j], u = x[a], v = x[b];
                y[a] = u * cosine - v * sine;
                y[b] = u * sine + v * cosine;
            }
        }
    }
    return 0;
}

/* ---- rows ---- */

/* Whether x at column i comes before y at column j: NaN is the largest, of equals the first. */
static bool before(float x, size_t i, float y, size_t j) {
    if (x != x || y != y) {
        return x != x && (y == y || i < j);
    }
    return x > y || (x == y && i < j);
}

int OP(topk)(const struct tide_op_call *call) {
    const size_t c = call->in[0].columns, k = call->out[0].columns;
    for (size_t r = 0; r < call->in[0].rows; r++) {
        const float *x = (const float *)call->in[0].data + r * c;
        float *y = (float *)call->out[0].data + r * k;
        int32_t *ids = (int32_t *)call->out[1].data + r * k;
        size_t held = 0;
        for (size_t j = 0; j < c; j++) { /* insertion among the k best so far */
            size_t at = held;
            while (at > 0 && before(x[j], j, y[at - 1], (size_t)ids[at - 1])) {
                at--;
            }
            if (at == k) {
                continue;
            }
            held += held < k;
            for (size_t i = held - 1; i > at; i--) {
                y[i] = y[i - 1];
                ids[i] = ids[i - 1];
            }
            y[at] = x[j];
            ids[at] = (int32_t)j;
        }
    }
    return 0;
}

int OP(one_hot)(const struct tide_op_call *call) {
    const size_t k = call->attributes->count, n = call->in[0].rows * call->in[0].columns;
    const int32_t *ids = call->in[0].data;
    float *out = call->out[0].data;
    if (n > 0) {
        memset(out, 0, n * k * sizeof(float));
    }
    for (size_t i = 0; i < n; i++) {
        if (ids[i] < -1 || ids[i] >= (int64_t)k) {
            return tide_fail(TIDE_EINVAL, "index %zu is %d, outside 0..%zu (-1: zeros)", i + 1, ids[i], k - 1);
        }
        if (ids[i] >= 0) {
            out[i * k + (size_t)ids[i]] = 1.0f;
        }
    }
    return 0;
}

/* ---- axes ---- */

int OP(cumsum)(const struct tide_op_call *call) {
    const size_t n = call->attributes->n, k = call->attributes->k, all = call->in[0].rows * call->in[0].columns;
    const bool back = call->attributes->ta;
    for (size_t at = 0; at < all; at += n * k) {
        const float *x = (const float *)call->in[0].data + at;
        float *y = (float *)call->out[0].data + at;
        for (size_t c = 0; c < k; c++) {
            double sum = 0;
            for (size_t i = 0; i < n; i++) {
                const size_t e = (back ? n - 1 - i : i) * k + c;
                sum += (double)x[e];
                y[e] = (float)sum;
            }
        }
    }
    return 0;
}

int OP(expand)(const struct tide_op_call *call) {
    const size_t n = call->attributes->n, k = call->attributes->k, all = call->in[0].rows * call->in[0].columns;
    float *out = call->out[0].data;
    for (size_t at = 0; at < all; at += k) {
        const float *x = (const float *)call->in[0].data + at;
        for (size_t i = 0; i < n; i++, out += k) {
            if (k == 1) {
                out[0] = x[0];
            } else {
                memcpy(out, x, k * sizeof(float));
            }
        }
    }
    return 0;
}

int OP(reduce)(const struct tide_op_call *call) {
    enum { WIDE = 64 };
    const size_t n = call->attributes->n, k = call->attributes->k, all = call->out[0].rows * call->out[0].columns;
    for (size_t at = 0; at < all; at += k) {
        const float *x = (const float *)call->in[0].data + at * n;
        float *out = (float *)call->out[0].data + at;
        if (k == 1) {
            out[0] = (float)tide_sum(n, x);
        }
        for (size_t c = 0; k > 1 && c < k; c += WIDE) {
            const size_t w = k - c < WIDE ? k - c : WIDE;
            double sum[WIDE] = {0};
            for (size_t i = 0; i < n; i++) {
                for (size_t j = 0; j < w; j++) {
                    sum[j] += (double)x[i * k + c + j];
                }
            }
            for (size_t j = 0; j < w; j++) {
                out[c + j] = (float)sum[j];
            }
        }
    }
    return 0;
}

int OP(permute)(const struct tide_op_call *call) {
    const struct tide_attributes *t = call->attributes;
    const size_t from[3] = {t->window.h, t->window.w, t->window.c}, step[3] = {from[1] * from[2], from[2], 1};
    const size_t axis[3] = {t->n & 3, t->n >> 2 & 3, t->n >> 4 & 3}, one = from[0] * from[1] * from[2];
    const size_t all = call->out[0].rows * call->out[0].columns;
    float *out = call->out[0].data;
    for (size_t at = 0; at < all; at += one) {
        const float *x = (const float *)call->in[0].data + at;
        for (size_t h = 0; h < from[axis[0]]; h++) {
            for (size_t w = 0; w < from[axis[1]]; w++, out += from[axis[2]]) {
                const float *row = x + h * step[axis[0]] + w * step[axis[1]];
                for (size_t c = 0; c < from[axis[2]]; c++) {
                    out[c] = row[c * step[axis[2]]];
                }
            }
        }
    }
    return 0;
}

/* ---- operations of a module ---- */

int OP(own)(const struct tide_op_call *call) {
    return tide_own_in_place(call, sizeof(float), false);
}

int OP(own_dx)(const struct tide_op_call *call) {
    return tide_own_in_place(call, sizeof(float), true);
}

/* ---- CTC ---- */

TIDE_CTC(static, ctc_example, float)

int OP(ctc)(const struct tide_op_call *call) {
    return tide_ctc_in_place(call, sizeof(float), ctc_example);
}
