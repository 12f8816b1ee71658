/* Update rules (operation.h has the formulas): one pass over the arrays. */
#include "tensor/cpu/isa/isa.h"

static void sgd(const struct tide_step *u, size_t n, float *w, const float *g) {
    const float step = (float)(u->rate * u->scale), keep = (float)(1 - u->rate * u->decay);
    TIDE_INDEPENDENT
    for (size_t i = 0; i < n; i++) {
        w[i] = keep * w[i] - step * g[i];
    }
}

static void momentum(const struct tide_step *u, size_t n, float *w, const float *g, float *a) {
    const float scale = (float)u->scale, decay = (float)u->decay, rate = (float)u->rate;
    const float mu = (float)u->mu;
    /* What is taken from w: the velocity, or with Nesterov's look ahead the gradient and mu of it.
     */
    const float own = u->rule == TIDE_RULE_NESTEROV ? 1.0f : 0.0f;
    const float ahead = u->rule == TIDE_RULE_NESTEROV ? mu : 1.0f;
    TIDE_INDEPENDENT
    for (size_t i = 0; i < n; i++) {
        float d = scale * g[i] + decay * w[i];
        float v = mu * a[i] + d;
        a[i] = v;
        w[i] -= rate * (own * d + ahead * v);
    }
}

/* adagrad and rmsprop: keep a + share d^2 */
static void squares(const struct tide_step *u, size_t n, float *w, const float *g, float *a) {
    const float scale = (float)u->scale, decay = (float)u->decay, rate = (float)u->rate;
    const bool all = u->rule == TIDE_RULE_ADAGRAD;
    const float keep = all ? 1.0f : (float)u->mu, share = all ? 1.0f : (float)(1 - u->mu);
    const float eps = (float)u->eps;
    TIDE_INDEPENDENT
    for (size_t i = 0; i < n; i++) {
        float d = scale * g[i] + decay * w[i];
        float s = keep * a[i] + share * (d * d);
        a[i] = s;
        w[i] -= rate * d / (sqrtf(s) + eps);
    }
}

static void adam(const struct tide_step *u, size_t n, float *w, const float *g, float *a, float *b) {
    const bool apart = u->rule == TIDE_RULE_ADAMW;
    const double t = (double)u->step;
    const float scale = (float)u->scale, decay = apart ? 0.0f : (float)u->decay;
    const float keep = apart ? (float)(1 - u->rate * u->decay) : 1.0f;
    const float b1 = (float)u->mu, b2 = (float)u->beta2;
    const float c1 = (float)(1 - u->mu), c2 = (float)(1 - u->beta2);
    const float rate = (float)(u->rate / (1 - pow(u->mu, t)));
    const float root = (float)(1 / sqrt(1 - pow(u->beta2, t))), eps = (float)u->eps;
    TIDE_INDEPENDENT
    for (size_t i = 0; i < n; i++) {
        float d = scale * g[i] + decay * w[i];
        float m = b1 * a[i] + c1 * d, v = b2 * b[i] + c2 * (d * d);
        a[i] = m;
        b[i] = v;
        w[i] = keep * w[i] - rate * m / (sqrtf(v) * root + eps);
    }
}

void OP(update)(const struct tide_step *u, size_t n, void *w, const void *g, void *a, void *b) {
    switch (u->rule) {
    case TIDE_RULE_SGD:
        sgd(u, n, w, g);
        break;
    case TIDE_RULE_MOMENTUM:
    case TIDE_RULE_NESTEROV:
        momentum(u, n, w, g, a);
        break;
    case TIDE_RULE_ADAGRAD:
    case TIDE_RULE_RMSPROP:
        squares(u, n, w, g, a);
        break;
    default:
        adam(u, n, w, g, a, b);
        break;
    }
}

double OP(norm2)(size_t n, const void *x) {
    const float *v = x;
    double sum = 0;
    for (size_t i = 0; i < n;) {
        size_t end = n - i < 4096 ? n : i + 4096;
        tide_sixteen lanes = {0};
        for (; i + 16 <= end; i += 16) {
            for (size_t q = 0; q < 16 / TIDE_LANES; q++) {
                const tide_vec part = VECC(v + i + q * TIDE_LANES);
                lanes.part[q] += part * part;
            }
        }
        sum += (double)tide_lanes(&lanes);
        for (; i < end; i++) {
            sum += (double)v[i] * (double)v[i];
        }
    }
    return sum;
}
