/*
 * The sufficient-factor models in float64 and plain loops, from their formulas: an example `a` is
 * dense, W is D x J. What the kernels factors_* and their objectives are compared with.
 */
#ifndef TIDE_KERNEL_REFERENCE_FACTORS_H
#define TIDE_KERNEL_REFERENCE_FACTORS_H

#include <math.h>
#include <stddef.h>

static inline double reference_score(size_t d, size_t j, const double *w, const double *a, size_t k) {
    double sum = 0;
    for (size_t i = 0; i < d; i++) {
        sum += a[i] * w[i * j + k];
    }
    return sum;
}

/* p = softmax(a W); gives log sum exp of the scores. */
static inline double reference_softmax(size_t d, size_t j, const double *w, const double *a, double *p) {
    double most = -INFINITY, sum = 0;
    for (size_t k = 0; k < j; k++) {
        p[k] = reference_score(d, j, w, a, k);
        most = fmax(most, p[k]);
    }
    for (size_t k = 0; k < j; k++) {
        sum += exp(p[k] - most);
    }
    for (size_t k = 0; k < j; k++) {
        p[k] = exp(p[k] - most) / sum;
    }
    return most + log(sum);
}

/* Loss of logistic regression; u (J), or NULL. */
static inline double reference_mlr(size_t d, size_t j, const double *w, const double *a, size_t label, double *p,
                                   double *u) {
    double loss = reference_softmax(d, j, w, a, p) - reference_score(d, j, w, a, label);
    for (size_t k = 0; u && k < j; k++) {
        u[k] = p[k] - (k == label ? 1 : 0);
    }
    return loss;
}

/* Loss of a pair whose difference is `x`; u (J), or NULL: all zeros if the pair has no factor. */
static inline double reference_metric(size_t d, size_t j, const double *w, const double *x, int similar, double weight,
                                      double *u) {
    double distance = 0;
    for (size_t k = 0; k < j; k++) {
        double z = reference_score(d, j, w, x, k);
        distance += z * z;
    }
    double scale = similar ? 2 : distance < 1 ? -2 * weight : 0;
    for (size_t k = 0; u && k < j; k++) {
        u[k] = scale * reference_score(d, j, w, x, k);
    }
    return similar ? distance : weight * fmax(0, 1 - distance);
}

/* Objective of a code; u (J) = code W - a, or NULL. Here J is the example's length, D the atoms. */
static inline double reference_coding(size_t d, size_t j, const double *w, const double *a, const double *code,
                                      double l1, double *u) {
    double sum = 0;
    for (size_t m = 0; m < j; m++) {
        double left = reference_score(d, j, w, code, m) - a[m];
        sum += 0.5 * left * left;
        if (u) {
            u[m] = left;
        }
    }
    for (size_t c = 0; c < d; c++) {
        sum += l1 * fabs(code[c]);
    }
    return sum;
}

#endif
