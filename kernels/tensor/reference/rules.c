/* Update rules (operation.h has the formulas) and the norm, in float64. */
#include "operation.h"

#include <math.h>

void tide__op_update_reference(const struct tide_step *u, size_t n, void *w_, const void *g_, void *a_, void *b_) {
    double *w = w_, *a = a_, *b = b_, t = (double)u->step;
    const double *g = g_;
    for (size_t i = 0; i < n; i++) {
        double d = u->scale * g[i] + (u->rule == TIDE_RULE_ADAMW ? 0 : u->decay * w[i]);
        switch (u->rule) {
        case TIDE_RULE_SGD:
            w[i] -= u->rate * d;
            break;
        case TIDE_RULE_MOMENTUM:
        case TIDE_RULE_NESTEROV:
            a[i] = u->mu * a[i] + d;
            w[i] -= u->rate * (u->rule == TIDE_RULE_NESTEROV ? d + u->mu * a[i] : a[i]);
            break;
        case TIDE_RULE_ADAGRAD:
            a[i] += d * d;
            w[i] -= u->rate * d / (sqrt(a[i]) + u->eps);
            break;
        case TIDE_RULE_RMSPROP:
            a[i] = u->mu * a[i] + (1 - u->mu) * d * d;
            w[i] -= u->rate * d / (sqrt(a[i]) + u->eps);
            break;
        default:
            a[i] = u->mu * a[i] + (1 - u->mu) * d;
            b[i] = u->beta2 * b[i] + (1 - u->beta2) * d * d;
            w[i] -= (u->rule == TIDE_RULE_ADAMW ? u->rate * u->decay * w[i] : 0) +
                    u->rate * (a[i] / (1 - pow(u->mu, t))) / (sqrt(b[i] / (1 - pow(u->beta2, t))) + u->eps);
            break;
        }
    }
}

double tide__op_norm2_reference(size_t n, const void *x_) {
    const double *x = x_;
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        sum += x[i] * x[i];
    }
    return sum;
}
