/*
 * Connectionist temporal classification of one example, in double on every device: Graves et al. 2006, equations 6 to
 * 16, with logarithms. State s of 2 count + 1 is a blank if s is even, else label s / 2. beta leaves out its own
 * emission.
 */
#ifndef TIDE_TENSOR_CTC_H
#define TIDE_TENSOR_CTC_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

/* Numbers of scratch for an example. */
static inline size_t tide_ctc_scratch(size_t frames, size_t labels) {
    return frames + (frames + 2) * (2 * labels + 1);
}

/* Defines NAME(frames, k, labels, count, logits, slopes, scratch): minus log p, or -1 if the labels do not fit; slopes
 * of all frames. */
#define TIDE_CTC(QUALIFIERS, NAME, REAL)                                                                               \
    QUALIFIERS double NAME##_add(double a, double b) {                                                                 \
        const double most = a > b ? a : b, least = a > b ? b : a;                                                      \
        return most > -INFINITY ? most + log1p(exp(least - most)) : most;                                              \
    }                                                                                                                  \
    QUALIFIERS size_t NAME##_class(const int32_t *labels, size_t s) {                                                  \
        return s % 2 ? (size_t)labels[s / 2] : 0;                                                                      \
    }                                                                                                                  \
    QUALIFIERS bool NAME##_skips(const int32_t *labels, size_t s) { /* from s - 2 */                                   \
        return s % 2 && s > 1 && labels[s / 2] != labels[s / 2 - 1];                                                   \
    }                                                                                                                  \
    QUALIFIERS double NAME(size_t frames, size_t k, const int32_t *labels, size_t count, const void *logits,           \
                           void *slopes, double *scratch) {                                                            \
        const REAL *z = (const REAL *)logits;                                                                          \
        REAL *dz = (REAL *)slopes;                                                                                     \
        const size_t n = 2 * count + 1;                                                                                \
        double *sums = scratch, *alpha = sums + frames, *beta = alpha + frames * n, *next = beta + n;                  \
        for (size_t t = 0; t < frames; t++) {                                                                          \
            const REAL *row = z + t * k;                                                                               \
            double most = -INFINITY, sum = 0;                                                                          \
            for (size_t j = 0; j < k; j++) {                                                                           \
                most = (double)row[j] > most ? (double)row[j] : most;                                                  \
            }                                                                                                          \
            for (size_t j = 0; j < k; j++) {                                                                           \
                sum += exp((double)row[j] - most);                                                                     \
            }                                                                                                          \
            sums[t] = most + log(sum);                                                                                 \
            const double *before = alpha + (t > 0 ? t - 1 : 0) * n;                                                    \
            for (size_t s = 0; s < n; s++) {                                                                           \
                double own = t > 0 ? before[s] : s < 2 ? 0 : -INFINITY;                                                \
                own = t > 0 && s > 0 ? NAME##_add(own, before[s - 1]) : own;                                           \
                own = t > 0 && NAME##_skips(labels, s) ? NAME##_add(own, before[s - 2]) : own;                         \
                alpha[t * n + s] = own + (double)row[NAME##_class(labels, s)] - sums[t];                               \
            }                                                                                                          \
        }                                                                                                              \
        const double *last = alpha + (frames > 0 ? frames - 1 : 0) * n;                                                \
        const double log_p = frames == 0 ? -INFINITY : n > 1 ? NAME##_add(last[n - 1], last[n - 2]) : last[n - 1];     \
        if (!(log_p > -INFINITY)) {                                                                                    \
            for (size_t e = 0; e < frames * k; e++) {                                                                  \
                dz[e] = 0;                                                                                             \
            }                                                                                                          \
            return -1;                                                                                                 \
        }                                                                                                              \
        for (size_t t = frames; t-- > 0;) {                                                                            \
            for (size_t s = 0; s < n; s++) {                                                                           \
                if (t + 1 == frames) {                                                                                 \
                    beta[s] = s + 2 >= n ? 0 : -INFINITY;                                                              \
                    continue;                                                                                          \
                }                                                                                                      \
                const REAL *row = z + (t + 1) * k;                                                                     \
                double own = next[s] + (double)row[NAME##_class(labels, s)];                                           \
                own = s + 1 < n ? NAME##_add(own, next[s + 1] + (double)row[NAME##_class(labels, s + 1)]) : own;       \
                own = s + 2 < n && NAME##_skips(labels, s + 2)                                                         \
                          ? NAME##_add(own, next[s + 2] + (double)row[NAME##_class(labels, s + 2)])                    \
                          : own;                                                                                       \
                beta[s] = own - sums[t + 1];                                                                           \
            }                                                                                                          \
            for (size_t j = 0; j < k; j++) {                                                                           \
                double share = exp((double)z[t * k + j] - sums[t]);                                                    \
                for (size_t s = j == 0 ? 0 : 1; s < n; s += 2) {                                                       \
                    share -= NAME##_class(labels, s) == j ? exp(alpha[t * n + s] + beta[s] - log_p) : 0;               \
                }                                                                                                      \
                dz[t * k + j] = (REAL)share;                                                                           \
            }                                                                                                          \
            for (size_t s = 0; s < n; s++) {                                                                           \
                next[s] = beta[s];                                                                                     \
            }                                                                                                          \
        }                                                                                                              \
        return -log_p > 0 ? -log_p : 0;                                                                                \
    }

#endif
