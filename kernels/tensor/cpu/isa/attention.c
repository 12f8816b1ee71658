/*
 * Attention in tiles (Dao, arXiv 2307.08691): QUERIES rows by KEYS columns of scores are in the second cache while the
 * softmax is made and used; no more of it is stored. Rows keep a maximum and a sum, by which what was added before is
 * scaled when a later tile has a larger maximum. Tiles above the diagonal and behind the lengths are left out, so what
 * lies there is never read.
 */
#include "tensor/cpu/gemm.h"
#include "tensor/cpu/isa/approx.h"
#include "tensor/cpu/isa/rows.h"
#include "tide.h"

enum { QUERIES = 64, KEYS = 512 };

/* A head of an example, and some of its queries. */
struct tile {
    size_t head, key_head, d, row, kv_row; /* first query's row; first key's */
    size_t first, count, limit;            /* queries of the example; keys that any of them sees */
    int64_t ahead;                         /* causal: query i sees keys up to i + ahead; else INT64_MAX / 2 */
};

static float *at(const struct tide_operand *x, size_t row, size_t column) {
    return (float *)x->data + row * tide_operand_stride(x) + column;
}

/* Keys of first .. that query r of the tile sees: of a piece, from its first. */
static size_t visible(const struct tile *t, size_t r, size_t first, size_t count) {
    int64_t end = (int64_t)(t->first + r) + t->ahead + 1 - (int64_t)first;
    return end < 0 ? 0 : (size_t)end < count ? (size_t)end : count;
}

typedef int (*each_tile)(const struct tide_op_call *call, const struct tile *t);

static int each(const struct tide_op_call *call, const int32_t *lengths, each_tile f) {
    const struct tide_attributes *a = call->attributes;
    const size_t examples = a->n ? call->in[0].rows / a->n : 0, d = call->in[0].columns / a->heads;
    int code = 0;
    for (size_t b = 0; lengths && b < examples; b++) {
        if (lengths[b] < 0 || (uint32_t)lengths[b] > a->m) {
            return tide_fail(TIDE_EINVAL, "length %zu is %d, outside 0..%u", b + 1, lengths[b], a->m);
        }
    }
    for (size_t e = 0; code == 0 && e < examples * a->heads; e++) {
        const size_t b = e / a->heads, h = e % a->heads, length = lengths ? (size_t)lengths[b] : a->m;
        for (size_t i = 0; code == 0 && i < a->n; i += QUERIES) {
            struct tile t = {h,
                             h / (a->heads / a->kv_heads),
                             d,
                             b * a->n + i,
                             b * a->m,
                             i,
                             a->n - i,
                             length,
                             a->causal ? (int64_t)a->m - a->n : INT64_MAX / 2};
            t.count = t.count < QUERIES ? t.count : QUERIES;
            t.limit = visible(&t, t.count - 1, 0, length);
            code = f(call, &t);
        }
    }
    return code;
}

/* s = alpha q k' for keys first .. first + w - 1, densely. */
static int scores(const struct tide_op_call *call, const struct tile *t, size_t first, size_t w, float *s) {
    const struct tide_operand *q = &call->in[0], *k = &call->in[1];
    return tide_cpu_gemm(false, true, t->count, w, t->d, (float)call->attributes->alpha, at(q, t->row, t->head * t->d),
                         tide_operand_stride(q), at(k, t->kv_row + first, t->key_head * t->d), tide_operand_stride(k),
                         0, s, w);
}

/* ---- forward ---- */

static void add(size_t n, float by, float *x) {
    TIDE_INDEPENDENT
    for (size_t i = 0; i < n; i++) {
        x[i] += by;
    }
}

/* s becomes exp(s - most); what was summed before is scaled to the new maxima. */
static void soften(const struct tide_op_call *call, const struct tile *t, size_t first, size_t w, float *s, float *most,
                   double *sum) {
    for (size_t r = 0; r < t->count; r++) {
        const size_t seen = visible(t, r, first, w);
        const float own = tide_row_max(seen, s + r * w), now = own > most[r] ? own : most[r];
        if (first > 0 && now > most[r]) {
            const float fade = tide_exp(most[r] - now);
            sum[r] *= (double)fade;
            tide_row_scale(t->d, fade, at(&call->out[0], t->row + r, t->head * t->d));
        }
        most[r] = now;
        add(seen, now > -INFINITY ? -now : 0.0f, s + r * w);
        for (size_t j = seen; j < w; j++) {
            s[r * w + j] = -INFINITY;
        }
    }
    OP(exp_all)(t->count * w, s, s);
    for (size_t r = 0; r < t->count; r++) {
        const size_t seen = visible(t, r, first, w);
        sum[r] += tide_sum(seen, s + r * w);
        memset(s + r * w + seen, 0, (w - seen) * sizeof(float));
    }
}

static int forward(const struct tide_op_call *call, const struct tile *t) {
    const struct tide_operand *v = &call->in[2], *o = &call->out[0];
    float *s = call->scratch, most[QUERIES];
    double sum[QUERIES];
    int code = 0;
    for (size_t r = 0; r < t->count; r++) {
        most[r] = -INFINITY;
        sum[r] = 0;
        if (t->limit == 0) {
            memset(at(o, t->row + r, t->head * t->d), 0, t->d * sizeof(float));
        }
    }
    for (size_t j = 0; code == 0 && j < t->limit; j += KEYS) {
        const size_t w = t->limit - j < KEYS ? t->limit - j : KEYS;
        code = scores(call, t, j, w, s);
        soften(call, t, j, w, s, most, sum);
        code = code == 0 ? tide_cpu_gemm(false, false, t->count, t->d, w, 1, s, w,
                                         at(v, t->kv_row + j, t->key_head * t->d), tide_operand_stride(v),
                                         j > 0 ? 1.0f : 0.0f, at(o, t->row, t->head * t->d), tide_operand_stride(o))
                         : code;
    }
    for (size_t r = 0; r < t->count; r++) {
        const bool none = visible(t, r, 0, t->limit) == 0;
        tide_row_scale(t->d, none ? 0.0f : (float)(1 / sum[r]), at(o, t->row + r, t->head * t->d));
        *at(&call->out[1], t->row + r, t->head) = none ? -INFINITY : (float)((double)most[r] + log(sum[r]));
    }
    return code;
}

int OP(attention)(const struct tide_op_call *call) {
    return each(call, call->in[3].data, forward);
}

/* ---- backward ---- */

/* p = exp(s - denominator), 0 where the query does not see the key. */
static void shares(const struct tide_op_call *call, const struct tile *t, size_t first, size_t w, float *p) {
    for (size_t r = 0; r < t->count; r++) {
        add(visible(t, r, first, w), -*at(&call->in[5], t->row + r, t->head), p + r * w);
    }
    OP(exp_all)(t->count * w, p, p);
    for (size_t r = 0; r < t->count; r++) {
        const size_t seen = visible(t, r, first, w);
        memset(p + r * w + seen, 0, (w - seen) * sizeof(float));
    }
}

static int backward(const struct tide_op_call *call, const struct tile *t) {
    const struct tide_operand *q = &call->in[0], *k = &call->in[1], *v = &call->in[2], *g = &call->in[3];
    const struct tide_operand *dq = &call->out[0], *dk = &call->out[1], *dv = &call->out[2];
    const size_t own = t->head * t->d, key = t->key_head * t->d, d = t->d, n = t->count;
    float *p = call->scratch, *ds = p + (size_t)QUERIES * KEYS, inner[QUERIES];
    const float *g0 = at(g, t->row, own);
    int code = 0;
    for (size_t r = 0; r < n; r++) {
        const float *a = at(g, t->row + r, own), *b = at(&call->in[4], t->row + r, own);
        double sum = 0;
        for (size_t c = 0; c < d; c++) {
            sum += (double)(a[c] * b[c]);
        }
        inner[r] = (float)sum;
        if (t->limit == 0) {
            memset(at(dq, t->row + r, own), 0, d * sizeof(float));
        }
    }
    for (size_t j = 0; code == 0 && j < t->limit; j += KEYS) {
        const size_t w = t->limit - j < KEYS ? t->limit - j : KEYS, row = t->kv_row + j;
        code = scores(call, t, j, w, p);
        code = code == 0 ? tide_cpu_gemm(false, true, n, w, d, 1, g0, tide_operand_stride(g), at(v, row, key),
                                         tide_operand_stride(v), 0, ds, w)
                         : code;
        shares(call, t, j, w, p);
        for (size_t r = 0; r < n; r++) {
            const float alpha = (float)call->attributes->alpha, *share = p + r * w, less = inner[r];
            float *to = ds + r * w;
            const size_t seen = visible(t, r, j, w);
            TIDE_INDEPENDENT
            for (size_t c = 0; c < seen; c++) {
                to[c] = share[c] * (to[c] - less) * alpha;
            }
            memset(to + seen, 0, (w - seen) * sizeof(float));
        }
        code = code == 0 ? tide_cpu_gemm(true, false, w, d, n, 1, p, w, g0, tide_operand_stride(g), 1, at(dv, row, key),
                                         tide_operand_stride(dv))
                         : code;
        code = code == 0 ? tide_cpu_gemm(false, false, n, d, w, 1, ds, w, at(k, row, key), tide_operand_stride(k),
                                         j > 0 ? 1.0f : 0.0f, at(dq, t->row, own), tide_operand_stride(dq))
                         : code;
        code = code == 0 ? tide_cpu_gemm(true, false, w, d, n, 1, ds, w, at(q, t->row, own), tide_operand_stride(q), 1,
                                         at(dk, row, key), tide_operand_stride(dk))
                         : code;
    }
    return code;
}

int OP(attention_dx)(const struct tide_op_call *call) {
    for (size_t o = 1; o < 3; o++) {
        for (size_t r = 0; r < call->out[o].rows; r++) {
            memset(at(&call->out[o], r, 0), 0, call->out[o].columns * sizeof(float));
        }
    }
    return each(call, call->in[6].data, backward);
}

size_t OP(attention_scratch)(void) {
    return 2 * (size_t)QUERIES * KEYS * sizeof(float);
}
