/* Operations on sequences and axes, in float64. */
#include "tensor/reference/loops.h"
#include "tensor/ctc.h"
#include "tensor/in_place.h"

/* ---- attention: query i of head h of example b ---- */

struct query {
    const double *q, *k, *v; /* of the head; the first key's */
    size_t d, visible;
    size_t row, kv_row, key_head, at; /* of the operands; of the head among the columns */
};

static size_t queries(call_pointer call) {
    return call->in[0].rows * call->attributes->heads;
}

static struct query query_of(call_pointer call, size_t e, const int32_t *lengths) {
    const struct tide_attributes *t = call->attributes;
    const size_t h = e % t->heads, row = e / t->heads, b = row / t->n, i = row % t->n;
    const size_t d = call->in[0].columns / t->heads, key_head = h / (t->heads / t->kv_heads);
    int64_t visible = t->m;
    if (lengths && lengths[b] < visible) {
        visible = lengths[b];
    }
    if (t->causal && (int64_t)i + t->m - t->n + 1 < visible) {
        visible = (int64_t)i + t->m - t->n + 1;
    }
    return (struct query){.q = in(call, 0) + row * tide_operand_stride(&call->in[0]) + h * d,
                          .k = in(call, 1) + b * t->m * tide_operand_stride(&call->in[1]) + key_head * d,
                          .v = in(call, 2) + b * t->m * tide_operand_stride(&call->in[2]) + key_head * d,
                          .d = d,
                          .visible = visible < 0 ? 0 : (size_t)visible,
                          .row = row,
                          .kv_row = b * t->m,
                          .key_head = key_head,
                          .at = h * d};
}

static double dot(size_t n, const double *a, const double *b) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        sum += a[i] * b[i];
    }
    return sum;
}

static int check_lengths(call_pointer call, size_t operand) {
    const int32_t *lengths = call->in[operand].data;
    for (size_t b = 0; lengths && b < call->in[operand].rows; b++) {
        if (lengths[b] < 0 || (uint32_t)lengths[b] > call->attributes->m) {
            return tide_fail(TIDE_EINVAL, "length %zu is %d, outside 0..%u", b + 1, lengths[b], call->attributes->m);
        }
    }
    return 0;
}

int REF(attention)(call_pointer call) {
    const double alpha = call->attributes->alpha;
    const size_t stride = tide_operand_stride(&call->out[0]);
    int code = check_lengths(call, 3);
    for (size_t e = 0; code == 0 && e < queries(call); e++) {
        const struct query q = query_of(call, e, call->in[3].data);
        double most = -INFINITY, sum = 0, *o = out(call, 0) + q.row * stride + q.at;
        const size_t ks = tide_operand_stride(&call->in[1]), vs = tide_operand_stride(&call->in[2]);
        for (size_t j = 0; j < q.visible; j++) {
            most = fmax(most, alpha * dot(q.d, q.q, q.k + j * ks));
        }
        for (size_t c = 0; c < q.d; c++) {
            o[c] = 0;
        }
        for (size_t j = 0; j < q.visible; j++) {
            const double p = exp(alpha * dot(q.d, q.q, q.k + j * ks) - most);
            sum += p;
            for (size_t c = 0; c < q.d; c++) {
                o[c] += p * q.v[j * vs + c];
            }
        }
        for (size_t c = 0; c < q.d && q.visible > 0; c++) {
            o[c] /= sum;
        }
        out(call, 1)[e] = q.visible > 0 ? most + log(sum) : -INFINITY;
    }
    return code;
}

static void clear(const struct tide_operand *x) {
    for (size_t e = 0; e < x->rows * x->columns; e++) {
        ((double *)x->data)[e / x->columns * tide_operand_stride(x) + e % x->columns] = 0;
    }
}

int REF(attention_dx)(call_pointer call) {
    const double alpha = call->attributes->alpha;
    const size_t ks = tide_operand_stride(&call->in[1]), vs = tide_operand_stride(&call->in[2]);
    for (size_t o = 0; o < 3; o++) {
        clear(&call->out[o]);
    }
    for (size_t e = 0; e < queries(call); e++) {
        const struct query q = query_of(call, e, call->in[6].data);
        const double *g = in(call, 3) + q.row * tide_operand_stride(&call->in[3]) + q.at;
        const double *o = in(call, 4) + q.row * tide_operand_stride(&call->in[4]) + q.at;
        double *dq = out(call, 0) + q.row * tide_operand_stride(&call->out[0]) + q.at;
        const double inner = dot(q.d, g, o);
        for (size_t j = 0; j < q.visible; j++) {
            const double p = exp(alpha * dot(q.d, q.q, q.k + j * ks) - in(call, 5)[e]);
            const double ds = p * (dot(q.d, g, q.v + j * vs) - inner) * alpha;
            double *dk = out(call, 1) + (q.kv_row + j) * tide_operand_stride(&call->out[1]) + q.key_head * q.d;
            double *dv = out(call, 2) + (q.kv_row + j) * tide_operand_stride(&call->out[2]) + q.key_head * q.d;
            for (size_t c = 0; c < q.d; c++) {
                dq[c] += ds * q.k[j * ks + c];
                dk[c] += ds * q.q[c];
                dv[c] += p * g[c];
            }
        }
    }
    return 0;
}

int REF(rotary)(call_pointer call) {
    const struct tide_attributes *t = call->attributes;
    const size_t c = call->in[0].columns, d = t->k;
    const int32_t *positions = call->in[1].data;
    for (size_t e = 0; e < call->in[0].rows * c / 2; e++) {
        const size_t row = e / (c / 2), block = e % (c / 2) / (d / 2), j = e % (d / 2);
        const size_t a = row * c + block * d + (t->tb ? 2 * j : j), b = a + (t->tb ? 1 : d / 2);
        const double at = positions ? positions[row] : (double)(row % t->n);
        const double angle = (t->ta ? -1 : 1) * at * pow(t->rate, -2.0 * (double)j / (double)d);
        const double x = in(call, 0)[a], y = in(call, 0)[b];
        out(call, 0)[a] = x * cos(angle) - y * sin(angle);
        out(call, 0)[b] = x * sin(angle) + y * cos(angle);
    }
    return 0;
}

/* ---- rows ---- */

int REF(log_softmax)(call_pointer call) {
    const size_t k = call->in[0].columns;
    for (size_t i = 0; i < call->in[0].rows; i++) {
        const double *z = in(call, 0) + i * k;
        double most = -INFINITY, sum = 0;
        for (size_t j = 0; j < k; j++) {
            most = z[j] > most ? z[j] : most;
        }
        for (size_t j = 0; j < k; j++) {
            sum += exp(z[j] - most);
        }
        for (size_t j = 0; j < k; j++) {
            out(call, 0)[i * k + j] = z[j] - most - log(sum);
        }
    }
    return 0;
}

/* Whether x at column i comes before y at column j. */
static bool before(double x, size_t i, double y, size_t j) {
    if (isnan(x) || isnan(y)) {
        return isnan(x) && (!isnan(y) || i < j);
    }
    return x > y || (!(x < y) && i < j);
}

int REF(topk)(call_pointer call) {
    const size_t c = call->in[0].columns, k = call->out[0].columns;
    for (size_t r = 0; r < call->in[0].rows; r++) {
        const double *x = in(call, 0) + r * c;
        for (size_t j = 0; j < c; j++) { /* its place is the number of those before it */
            size_t place = 0;
            for (size_t i = 0; i < c; i++) {
                place += before(x[i], i, x[j], j);
            }
            if (place < k) {
                out(call, 0)[r * k + place] = x[j];
                ((int32_t *)call->out[1].data)[r * k + place] = (int32_t)j;
            }
        }
    }
    return 0;
}

int REF(one_hot)(call_pointer call) {
    const size_t k = call->attributes->count;
    const int32_t *ids = call->in[0].data;
    for (size_t i = 0; i < call->in[0].rows * call->in[0].columns; i++) {
        if (ids[i] < -1 || ids[i] >= (int64_t)k) {
            return tide_fail(TIDE_EINVAL, "index %zu is %d, outside 0..%zu (-1: zeros)", i + 1, ids[i], k - 1);
        }
        for (size_t j = 0; j < k; j++) {
            out(call, 0)[i * k + j] = (int64_t)j == ids[i];
        }
    }
    return 0;
}

/* ---- axes ---- */

int REF(cumsum)(call_pointer call) {
    const size_t n = call->attributes->n, k = call->attributes->k, all = call->in[0].rows * call->in[0].columns;
    for (size_t e = 0; e < all; e++) {
        double sum = 0;
        for (size_t i = 0; i < n; i++) {
            const size_t own = e / k % n;
            sum += (call->attributes->ta ? i >= own : i <= own) ? in(call, 0)[e - own * k + i * k] : 0;
        }
        out(call, 0)[e] = sum;
    }
    return 0;
}

int REF(expand)(call_pointer call) {
    const size_t n = call->attributes->n, k = call->attributes->k;
    for (size_t e = 0; e < call->out[0].rows * call->out[0].columns; e++) {
        out(call, 0)[e] = in(call, 0)[e / (n * k) * k + e % k];
    }
    return 0;
}

int REF(reduce)(call_pointer call) {
    const size_t n = call->attributes->n, k = call->attributes->k;
    for (size_t e = 0; e < call->out[0].rows * call->out[0].columns; e++) {
        double sum = 0;
        for (size_t i = 0; i < n; i++) {
            sum += in(call, 0)[(e / k * n + i) * k + e % k];
        }
        out(call, 0)[e] = sum;
    }
    return 0;
}

int REF(permute)(call_pointer call) {
    const struct tide_attributes *t = call->attributes;
    const size_t from[3] = {t->window.h, t->window.w, t->window.c};
    const size_t step[3] = {from[1] * from[2], from[2], 1}, one = from[0] * from[1] * from[2];
    const size_t axis[3] = {t->n & 3, t->n >> 2 & 3, t->n >> 4 & 3};
    for (size_t e = 0; e < call->out[0].rows * call->out[0].columns; e++) {
        const size_t i = e % one, c = from[axis[2]], w = from[axis[1]];
        const size_t at = i / (c * w) * step[axis[0]] + i / c % w * step[axis[1]] + i % c * step[axis[2]];
        out(call, 0)[e] = in(call, 0)[e - i + at];
    }
    return 0;
}

/* ---- operations of a module ---- */

int REF(own)(call_pointer call) {
    return tide_own_in_place(call, sizeof(double), false);
}

int REF(own_dx)(call_pointer call) {
    return tide_own_in_place(call, sizeof(double), true);
}

/* ---- CTC ---- */

TIDE_CTC(static, ctc_example, double)

int REF(ctc)(call_pointer call) {
    return tide_ctc_in_place(call, sizeof(double), ctc_example);
}
