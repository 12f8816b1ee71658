/*
 * What the fast kernels are compared with: plain loops in float64, written from the formulas and
 * sharing nothing with the kernels. For tests; slow on purpose.
 */
#ifndef TIDE_KERNEL_REFERENCE_H
#define TIDE_KERNEL_REFERENCE_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* c = alpha op(a) op(b) + beta c; shapes as in struct tide_backend. c's old values do not count
 * when beta is 0. */
static inline double reference_gemm_element(bool transpose_a, bool transpose_b, size_t k, double alpha, const float *a,
                                            size_t lda, const float *b, size_t ldb, double beta, double c, size_t i,
                                            size_t j) {
    double sum = 0;
    for (size_t z = 0; z < k; z++) {
        sum += (double)a[transpose_a ? z * lda + i : i * lda + z] * (double)b[transpose_b ? j * ldb + z : z * ldb + j];
    }
    return (k ? alpha * sum : 0) + (beta == 0 ? 0 : beta * c);
}

/* ---- knowledge graph embeddings; model: 0 ComplEx, 1 RESCAL ---- */

static inline double reference_kge_score(int model, size_t d, const double *s, const double *r, const double *o) {
    double score = 0;
    if (model == 1) {
        for (size_t i = 0; i < d; i++) {
            for (size_t j = 0; j < d; j++) {
                score += s[i] * r[i * d + j] * o[j];
            }
        }
        return score;
    }
    for (size_t a = 0, h = d / 2; a < h; a++) {
        size_t b = h + a;
        score += r[a] * s[a] * o[a] + r[a] * s[b] * o[b] + r[b] * s[a] * o[b] - r[b] * s[b] * o[a];
    }
    return score;
}

/* Adds weight times the derivatives of the score. */
static inline void reference_kge_derive(int model, size_t d, const double *s, const double *r, const double *o,
                                        double weight, double *gs, double *gr, double *go) {
    if (model == 1) {
        for (size_t i = 0; i < d; i++) {
            for (size_t j = 0; j < d; j++) {
                gs[i] += weight * r[i * d + j] * o[j];
                go[j] += weight * s[i] * r[i * d + j];
                gr[i * d + j] += weight * s[i] * o[j];
            }
        }
        return;
    }
    for (size_t a = 0, h = d / 2; a < h; a++) {
        size_t b = h + a;
        gs[a] += weight * (r[a] * o[a] + r[b] * o[b]);
        gs[b] += weight * (r[a] * o[b] - r[b] * o[a]);
        gr[a] += weight * (s[a] * o[a] + s[b] * o[b]);
        gr[b] += weight * (s[a] * o[b] - s[b] * o[a]);
        go[a] += weight * (r[a] * s[a] - r[b] * s[b]);
        go[b] += weight * (r[a] * s[b] + r[b] * s[a]);
    }
}

static inline double reference_softplus(double x) {
    return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
}

static inline double reference_sigmoid(double x) {
    return x >= 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x));
}

/* Loss of a row; out[j] = its derivative by scores[j], *own_out by own. softmax: else logistic. */
static inline double reference_kge_row(bool softmax, double own, const double *scores, size_t count, double weight,
                                       double *own_out, double *out) {
    if (!softmax) {
        double loss = reference_softplus(-own);
        *own_out = -reference_sigmoid(-own);
        for (size_t j = 0; j < count; j++) {
            loss += weight * reference_softplus(scores[j]);
            out[j] = weight * reference_sigmoid(scores[j]);
        }
        return loss;
    }
    double most = own, total, others = 0;
    for (size_t j = 0; j < count; j++) {
        most = scores[j] > most ? scores[j] : most;
    }
    for (size_t j = 0; j < count; j++) {
        others += weight * exp(scores[j] - most);
    }
    total = others + exp(own - most);
    for (size_t j = 0; j < count; j++) {
        out[j] = weight * exp(scores[j] - most) / total;
    }
    *own_out = -others / total;
    return log(total) + most - own;
}

/* Rank of candidate `truth` among those of `skip` false, itself included: NaN last, ties half. */
static inline double reference_rank(const double *scores, const bool *skip, size_t count, size_t truth) {
    double rank = 1, own = scores[truth];
    for (size_t e = 0; e < count; e++) {
        if (e == truth || skip[e]) {
            continue;
        }
        if (isnan(own)) {
            rank += isnan(scores[e]) ? 0.5 : 1;
        } else if (scores[e] > own) {
            rank += 1;
        } else if (scores[e] == own) {
            rank += 0.5;
        }
    }
    return rank;
}

#endif
