/*
 * exp, log, tanh and their kin in float, written without branches so that loops over them become
 * vector code; their time does not depend on the argument. Within 4 ulp of the true value; NaN
 * gives NaN, infinities are exact.
 */
#ifndef TIDE_KERNEL_APPROX_H
#define TIDE_KERNEL_APPROX_H

#include "tensor/cpu/isa/isa.h"

TIDE_INLINE float tide_from_bits(int32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof(x));
    return x;
}

TIDE_INLINE int32_t tide_bits(float x) {
    int32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

/* exp(x) = 2^n exp(r), n = round(x / ln 2), |r| <= ln 2 / 2; exp(r) by its Taylor polynomial of
 * degree 7 (error 6e-9). 2^n in two factors, so that it reaches denormals and overflows to
 * infinity. */
TIDE_INLINE float tide_exp(float x) {
    x = x > 89.0f ? 89.0f : x;
    x = x < -104.0f ? -104.0f : x;
    float shifted = x * 1.44269504f + 12582912.0f; /* 1.5 2^23: rounds to an integer */
    float n = shifted - 12582912.0f;
    float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    float p = r * 1.98412698e-4f + 1.38888889e-3f;
    p = p * r + 8.33333333e-3f;
    p = p * r + 4.16666667e-2f;
    p = p * r + 0.166666667f;
    p = p * r + 0.5f;
    p = p * (r * r) + r;
    int32_t whole = (int32_t)((uint32_t)tide_bits(shifted) - 0x4B400000u), half = whole >> 1;
    float low = tide_from_bits((int32_t)(((uint32_t)half + 127u) << 23));
    float high = tide_from_bits((int32_t)(((uint32_t)whole - (uint32_t)half + 127u) << 23));
    return (p * low + low) * high;
}

/* x = 2^e m, m in [sqrt(1/2), sqrt(2)); log m = 2 (s + s^3/3 + s^5/5 + ...), s = (m - 1)/(m + 1).
 */
TIDE_INLINE float tide_log(float x) {
    float scaled = x < 1.17549435e-38f ? x * 8388608.0f : x;
    float bias = x < 1.17549435e-38f ? -23.0f : 0.0f;
    uint32_t bits = (uint32_t)tide_bits(scaled); /* unsigned: of negative numbers it wraps */
    int32_t e = (int32_t)(bits - 0x3F3504F3u) >> 23;
    float m = tide_from_bits((int32_t)(bits - ((uint32_t)e << 23)));
    float n = (float)e + bias, f = m - 1.0f;
    float s = f / (2.0f + f), z = s * s;
    float p = z * 0.0909090909f + 0.111111111f;
    p = p * z + 0.142857143f;
    p = p * z + 0.2f;
    p = p * z + 0.333333333f;
    float y = 2.0f * s * (z * p) + 2.0f * s;
    y = n * -2.12194440e-4f + y;
    y = n * 0.693359375f + y;
    y = x == 0.0f ? -INFINITY : y;
    y = x < 0.0f ? NAN : y;
    y = x == INFINITY ? INFINITY : y;
    return x != x ? x : y;
}

/* log(1 + x) = log(w) + (x - (w - 1)) / w for w = 1 + x as rounded. */
TIDE_INLINE float tide_log1p(float x) {
    float w = 1.0f + x, c = (x - (w - 1.0f)) / w;
    float y = tide_log(w) + c;
    y = x == INFINITY ? INFINITY : y;
    return w == 0.0f || w == 1.0f ? (w == 0.0f ? -INFINITY : x) : y;
}

TIDE_INLINE float tide_sigmoid(float x) {
    float e = tide_exp(-fabsf(x));
    return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}

/* Below 0.625 an odd polynomial (fitted in x^2 at Chebyshev's points, error 4e-9), above by exp. */
TIDE_INLINE float tide_tanh(float x) {
    float a = fabsf(x), z = x * x;
    float p = z * -0.005664775f + 0.020595679f;
    p = p * z - 0.05372268f;
    p = p * z + 0.1333115f;
    p = p * z - 0.33333263f;
    float small = x * (z * p) + x;
    float large = 1.0f - 2.0f / (tide_exp(2.0f * a) + 1.0f);
    large = x < 0.0f ? -large : large;
    return a < 0.625f ? small : large;
}

/* Below 1 an odd polynomial, above 1 - exp(-x^2) q(1 / (1 + |x| / 2)); both fitted at Chebyshev's points. */
TIDE_INLINE float tide_erf(float x) {
    float a = fabsf(x), z = x * x, u = 1.0f / (1.0f + 0.5f * a);
    float p = z * 7.882497448e-05f - 8.018855006e-04f;
    p = p * z + 5.189312156e-03f;
    p = p * z - 2.685432881e-02f;
    p = p * z + 0.1128359735f;
    p = p * z - 0.3761262596f;
    p = p * z + 0.1283791661f;
    float q = u * 0.0797084386f - 0.1819416434f;
    q = q * u + 0.0219510751f;
    q = q * u + 0.1066973358f;
    q = q * u + 0.1579567045f;
    q = q * u + 0.2528147995f;
    q = q * u + 0.2810515463f;
    q = q * u + 0.2821899951f;
    q = q * u - 3.566235364e-06f;
    float large = 1.0f - tide_exp(-z) * q;
    large = x < 0.0f ? -large : large;
    return a < 1.0f ? x * p + x : large;
}

TIDE_INLINE float tide_softplus(float x) {
    float y = tide_log1p(tide_exp(-fabsf(x)));
    return (x < 0.0f ? 0.0f : x) + y;
}

#endif
