/*
 * The two trilinear models, their single example with its loss, and the losses of a row of scores.
 * No allocation, no state; everything here is compared with float64 loops (kernels/tensor/reference/) and
 * central differences.
 */
#include "models/kge.h"
#include "tensor/cpu/vector.h"

/* ---- ComplEx: complex products, component by component ---- */

/* out (+)= x y for turn = 1, conj(x) y for turn = -1; h components. */
TIDE_BODY void complex_product_body(size_t h, float turn, bool add, const float *x, const float *y, float *out) {
    size_t i = 0;
    for (; i + 8 <= h; i += 8) {
        tide_v8 xa = TIDE_V8C(x + i), xb = turn * TIDE_V8C(x + h + i);
        tide_v8 ya = TIDE_V8C(y + i), yb = TIDE_V8C(y + h + i);
        tide_v8 a = xa * ya - xb * yb, b = xa * yb + xb * ya;
        if (add) {
            a += TIDE_V8C(out + i);
            b += TIDE_V8C(out + h + i);
        }
        TIDE_V8(out + i) = a;
        TIDE_V8(out + h + i) = b;
    }
    for (; i < h; i++) {
        float xa = x[i], xb = turn * x[h + i], ya = y[i], yb = y[h + i];
        out[i] = (add ? out[i] : 0) + (xa * ya - xb * yb);
        out[h + i] = (add ? out[h + i] : 0) + (xa * yb + xb * ya);
    }
}

/* ---- RESCAL: matrix-vector products ---- */

TIDE_BODY void matrix_times_body(size_t d, const float *m, const float *o, float *out, bool add) {
    for (size_t i = 0; i < d; i++) {
        float sum = tide_dot_body(d, m + i * d, o);
        out[i] = add ? out[i] + sum : sum;
    }
}

TIDE_BODY void transposed_times_body(size_t d, const float *m, const float *s, float *out, bool add) {
    if (!add) {
        memset(out, 0, d * sizeof(float));
    }
    for (size_t i = 0; i < d; i++) {
        tide_axpy_body(d, s[i], m + i * d, out);
    }
}

TIDE_BODY void toward_object_body(enum kge_model model, size_t d, const float *s, const float *r, float *out,
                                  bool add) {
    if (model == KGE_COMPLEX) {
        complex_product_body(d / 2, 1, add, r, s, out);
    } else {
        transposed_times_body(d, r, s, out, add);
    }
}

TIDE_BODY void toward_subject_body(enum kge_model model, size_t d, const float *r, const float *o, float *out,
                                   bool add) {
    if (model == KGE_COMPLEX) {
        complex_product_body(d / 2, -1, add, r, o, out);
    } else {
        matrix_times_body(d, r, o, out, add);
    }
}

TIDE_BODY void add_toward_relation_body(enum kge_model model, size_t d, const float *s, const float *o, float *out) {
    if (model == KGE_COMPLEX) {
        complex_product_body(d / 2, -1, true, s, o, out);
        return;
    }
    for (size_t i = 0; i < d; i++) {
        tide_axpy_body(d, s[i], o, out + i * d);
    }
}

TIDE_VECTOR_PROCEDURE(toward_object,
                      (enum kge_model model, size_t d, const float *s, const float *r, float *out, bool add),
                      (model, d, s, r, out, add))
TIDE_VECTOR_PROCEDURE(toward_subject,
                      (enum kge_model model, size_t d, const float *r, const float *o, float *out, bool add),
                      (model, d, r, o, out, add))
TIDE_VECTOR_PROCEDURE(add_toward_relation, (enum kge_model model, size_t d, const float *s, const float *o, float *out),
                      (model, d, s, o, out))
TIDE_VECTOR_FUNCTION(float, tide_dot, (size_t d, const float *x, const float *y), (d, x, y))
TIDE_VECTOR_PROCEDURE(tide_axpy, (size_t d, float scale, const float *x, float *y), (d, scale, x, y))

void kge_toward_object(enum kge_model model, size_t d, const float *s, const float *r, float *out) {
    toward_object(model, d, s, r, out, false);
}

void kge_toward_subject(enum kge_model model, size_t d, const float *r, const float *o, float *out) {
    toward_subject(model, d, r, o, out, false);
}

void kge_add_toward_object(enum kge_model model, size_t d, const float *s, const float *r, float *out) {
    toward_object(model, d, s, r, out, true);
}

void kge_add_toward_subject(enum kge_model model, size_t d, const float *r, const float *o, float *out) {
    toward_subject(model, d, r, o, out, true);
}

void kge_add_toward_relation(enum kge_model model, size_t d, const float *s, const float *o, float *out) {
    add_toward_relation(model, d, s, o, out);
}

float kge_dot(size_t d, const float *x, const float *y) {
    return tide_dot(d, x, y);
}

void kge_axpy(size_t d, float scale, const float *x, float *y) {
    tide_axpy(d, scale, x, y);
}

/* ---- one example ---- */

/* softplus(x) = log(1 + e^x) without overflow; *slope = sigmoid(x). */
static float softplus(float x, float *slope) {
    float e = expf(-fabsf(x));
    *slope = x >= 0 ? 1 / (1 + e) : e / (1 + e);
    return (x > 0 ? x : 0) + log1pf(e);
}

TIDE_BODY float complex_step_body(size_t d, const float *s, const float *r, const float *o, bool label, float *gs,
                                  float *gr, float *go) {
    size_t h = d / 2;
    complex_product_body(h, 1, false, r, s, go);
    float score = tide_dot_body(d, go, o), slope;
    float loss = softplus(label ? -score : score, &slope);
    float g = label ? -slope : slope;
    size_t i = 0;
    for (; i + 8 <= h; i += 8) {
        tide_v8 sa = TIDE_V8C(s + i), sb = TIDE_V8C(s + h + i);
        tide_v8 ra = g * TIDE_V8C(r + i), rb = g * TIDE_V8C(r + h + i);
        tide_v8 oa = TIDE_V8C(o + i), ob = TIDE_V8C(o + h + i);
        TIDE_V8(gs + i) = ra * oa + rb * ob;
        TIDE_V8(gs + h + i) = ra * ob - rb * oa;
        TIDE_V8(gr + i) = g * (sa * oa + sb * ob);
        TIDE_V8(gr + h + i) = g * (sa * ob - sb * oa);
        TIDE_V8(go + i) = ra * sa - rb * sb;
        TIDE_V8(go + h + i) = ra * sb + rb * sa;
    }
    for (; i < h; i++) {
        float sa = s[i], sb = s[h + i], oa = o[i], ob = o[h + i];
        float ra = g * r[i], rb = g * r[h + i];
        gs[i] = ra * oa + rb * ob;
        gs[h + i] = ra * ob - rb * oa;
        gr[i] = g * (sa * oa + sb * ob);
        gr[h + i] = g * (sa * ob - sb * oa);
        go[i] = ra * sa - rb * sb;
        go[h + i] = ra * sb + rb * sa;
    }
    return loss;
}

TIDE_BODY float rescal_step_body(size_t d, const float *s, const float *m, const float *o, bool label, float *gs,
                                 float *gm, float *go) {
    memset(go, 0, d * sizeof(float));
    for (size_t i = 0; i < d; i++) { /* both products in one pass over M */
        gs[i] = tide_dot_body(d, m + i * d, o);
        tide_axpy_body(d, s[i], m + i * d, go);
    }
    float score = tide_dot_body(d, s, gs), slope;
    float loss = softplus(label ? -score : score, &slope);
    float g = label ? -slope : slope;
    tide_scale_body(d, g, gs, gs);
    tide_scale_body(d, g, go, go);
    for (size_t i = 0; i < d; i++) {
        tide_scale_body(d, g * s[i], o, gm + i * d);
    }
    return loss;
}

TIDE_BODY float step_body(enum kge_model model, size_t d, const float *s, const float *r, const float *o, bool label,
                          float *gs, float *gr, float *go) {
    return model == KGE_COMPLEX ? complex_step_body(d, s, r, o, label, gs, gr, go)
                                : rescal_step_body(d, s, r, o, label, gs, gr, go);
}

TIDE_VECTOR_FUNCTION(float, step,
                     (enum kge_model model, size_t d, const float *s, const float *r, const float *o, bool label,
                      float *gs, float *gr, float *go),
                     (model, d, s, r, o, label, gs, gr, go))

float kge_step(enum kge_model model, size_t d, const float *s, const float *r, const float *o, bool label,
               float gamma_e, float gamma_r, float *gradient_s, float *gradient_r, float *gradient_o, double *penalty) {
    float loss = step(model, d, s, r, o, label, gradient_s, gradient_r, gradient_o);
    if (gamma_e != 0) {
        *penalty += (double)gamma_e * ((double)tide_dot(d, s, s) + (double)tide_dot(d, o, o));
        tide_axpy(d, gamma_e, s, gradient_s);
        tide_axpy(d, gamma_e, o, gradient_o);
    }
    if (gamma_r != 0) {
        size_t width = kge_relation_width(model, d);
        *penalty += (double)gamma_r * (double)tide_dot(width, r, r);
        tide_axpy(width, gamma_r, r, gradient_r);
    }
    return loss;
}

/* ---- losses of a row of scores ---- */

TIDE_BODY float row_max_body(const float *x, size_t count, float start) {
    tide_v8 most = {start, start, start, start, start, start, start, start};
    size_t i = 0;
    for (; i + 8 <= count; i += 8) {
        tide_v8 v = TIDE_V8C(x + i);
        tide_v8i more = v > most;
        most = (tide_v8)(((tide_v8i)v & more) | ((tide_v8i)most & ~more));
    }
    for (int j = 0; j < 8; j++) {
        start = most[j] > start ? most[j] : start;
    }
    for (; i < count; i++) {
        start = x[i] > start ? x[i] : start;
    }
    return start;
}

TIDE_BODY struct kge_loss_row softmax_body(float own, float *scores, size_t count, float weight) {
    float most = row_max_body(scores, count, own);
    tide_v8 sums = {0};
    double sum = 0;
    size_t i = 0;
    for (; i + 8 <= count; i += 8) {
        TIDE_V8(scores + i) = TIDE_V8C(scores + i) - most;
        tide_exp8_body(scores + i, scores + i);
        sums += TIDE_V8C(scores + i);
    }
    for (int j = 0; j < 8; j++) {
        sum += (double)sums[j];
    }
    for (; i < count; i++) {
        scores[i] = expf(scores[i] - most);
        sum += (double)scores[i];
    }
    double mine = exp((double)own - (double)most), total = mine + (double)weight * sum;
    tide_scale_body(count, (float)((double)weight / total), scores, scores);
    /* The share of the others, not 1 - mine / total: a learnt triple's gradient keeps its digits.
     */
    struct kge_loss_row row = {log(total) - ((double)own - (double)most), (float)(-(double)weight * sum / total)};
    return row;
}

/* Sum of log(1 + e^-|x|) over a row: products of up to 64 factors in (1, 2] per lane, then one
 * logarithm each. */
TIDE_BODY struct kge_loss_row logistic_body(float own, float *scores, size_t count, float weight) {
    double loss = 0;
    tide_v8 product = {1, 1, 1, 1, 1, 1, 1, 1}, above = {0};
    const tide_v8 one = {1, 1, 1, 1, 1, 1, 1, 1};
    size_t i = 0;
    for (; i + 8 <= count; i += 8) {
        tide_v8 x = TIDE_V8C(scores + i);
        tide_v8i positive = x > 0.0f;
        tide_v8 least = (tide_v8)((tide_v8i)x | (tide_v8i)(-one * 0.0f)); /* -|x| */
        float e[8];
        TIDE_V8(e) = least;
        tide_exp8_body(e, e);
        tide_v8 small = TIDE_V8C(e), whole = one + small;
        above += (tide_v8)((tide_v8i)x & positive);
        product *= whole;
        tide_v8 top = (tide_v8)(((tide_v8i)one & positive) | ((tide_v8i)small & ~positive));
        TIDE_V8(scores + i) = weight * top / whole;
        if ((i & 504) == 504 || i + 16 > count) {
            for (int j = 0; j < 8; j++) {
                loss += (double)logf(product[j]);
            }
            product = one;
        }
    }
    for (int j = 0; j < 8; j++) {
        loss += (double)above[j];
    }
    float slope;
    for (; i < count; i++) {
        loss += (double)softplus(scores[i], &slope);
        scores[i] = weight * slope;
    }
    loss = (double)weight * loss + (double)softplus(-own, &slope);
    return (struct kge_loss_row){loss, -slope};
}

TIDE_VECTOR_FUNCTION(struct kge_loss_row, softmax, (float own, float *scores, size_t count, float weight),
                     (own, scores, count, weight))
TIDE_VECTOR_FUNCTION(struct kge_loss_row, logistic, (float own, float *scores, size_t count, float weight),
                     (own, scores, count, weight))

struct kge_loss_row kge_softmax(float own, float *scores, size_t count, float weight) {
    return softmax(own, scores, count, weight);
}

struct kge_loss_row kge_logistic(float own, float *scores, size_t count, float weight) {
    return logistic(own, scores, count, weight);
}
