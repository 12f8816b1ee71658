/*
 * Eight floats at a time, by the compilers' vector extension: the same source gives AVX2 code where
 * the processor has it and SSE or NEON code elsewhere, at any optimisation level and under the
 * sanitizers (no ifunc, no intrinsics).
 *
 * A hot function is written once as NAME_body (always inlined, no vector in its signature);
 * TIDE_VECTOR_FUNCTION (for void: _PROCEDURE) makes the wide and the plain instance and the
 * function NAME that chooses. Results of the two differ in the last bits: the wide one fuses
 * multiply and add.
 */
#ifndef TIDE_KERNEL_VECTOR_H
#define TIDE_KERNEL_VECTOR_H

#include "tensor/isa.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef float tide_v8 __attribute__((vector_size(32), aligned(4), may_alias));
typedef int32_t tide_v8i __attribute__((vector_size(32), aligned(4), may_alias));

#define TIDE_BODY static inline __attribute__((always_inline))

#if defined(__x86_64__)
#define TIDE_WIDE __attribute__((target("avx2,fma")))
#else
#define TIDE_WIDE
#endif

#define TIDE_VECTOR_FUNCTION(type, name, parameters, arguments)                                                        \
    TIDE_WIDE static type name##_wide parameters {                                                                     \
        return name##_body arguments;                                                                                  \
    }                                                                                                                  \
    static type name##_plain parameters {                                                                              \
        return name##_body arguments;                                                                                  \
    }                                                                                                                  \
    static inline type name parameters {                                                                               \
        return tide_isa >= TIDE_ISA_AVX2 ? name##_wide arguments : name##_plain arguments;                             \
    }
#define TIDE_VECTOR_PROCEDURE(name, parameters, arguments)                                                             \
    TIDE_WIDE static void name##_wide parameters {                                                                     \
        name##_body arguments;                                                                                         \
    }                                                                                                                  \
    static void name##_plain parameters {                                                                              \
        name##_body arguments;                                                                                         \
    }                                                                                                                  \
    static inline void name parameters {                                                                               \
        if (tide_isa >= TIDE_ISA_AVX2) {                                                                               \
            name##_wide arguments;                                                                                     \
        } else {                                                                                                       \
            name##_plain arguments;                                                                                    \
        }                                                                                                              \
    }

#define TIDE_V8(pointer) (*(tide_v8 *)(void *)(pointer))
#define TIDE_V8C(pointer) (*(const tide_v8 *)(const void *)(pointer))

/* Sum of x[i] y[i]; the order of the sum depends on d alone. */
TIDE_BODY float tide_dot_body(size_t d, const float *x, const float *y) {
    tide_v8 a = {0}, b = {0};
    size_t i = 0;
    for (; i + 16 <= d; i += 16) {
        a += TIDE_V8C(x + i) * TIDE_V8C(y + i);
        b += TIDE_V8C(x + i + 8) * TIDE_V8C(y + i + 8);
    }
    for (; i + 8 <= d; i += 8) {
        a += TIDE_V8C(x + i) * TIDE_V8C(y + i);
    }
    a += b;
    float sum = ((a[0] + a[4]) + (a[1] + a[5])) + ((a[2] + a[6]) + (a[3] + a[7]));
    for (; i < d; i++) {
        sum += x[i] * y[i];
    }
    return sum;
}

/* y += scale x */
TIDE_BODY void tide_axpy_body(size_t d, float scale, const float *x, float *y) {
    size_t i = 0;
    for (; i + 8 <= d; i += 8) {
        TIDE_V8(y + i) += scale * TIDE_V8C(x + i);
    }
    for (; i < d; i++) {
        y[i] += scale * x[i];
    }
}

/* out = scale x */
TIDE_BODY void tide_scale_body(size_t d, float scale, const float *x, float *out) {
    size_t i = 0;
    for (; i + 8 <= d; i += 8) {
        TIDE_V8(out + i) = scale * TIDE_V8C(x + i);
    }
    for (; i < d; i++) {
        out[i] = scale * x[i];
    }
}

/*
 * out[0..8) = exp(x[0..8)), relative error < 3e-7; arguments are cut to [-87, 88]; NaN stays NaN.
 * exp(x) = 2^n exp(r), n = round(x / ln 2), |r| <= ln 2 / 2, exp(r) by its Taylor polynomial of
 * degree 6.
 */
TIDE_BODY void tide_exp8_body(const float *in, float *out) {
    tide_v8 x = TIDE_V8C(in);
    tide_v8i high = x > 88.0f, low = x < -87.0f;
    const tide_v8 most = {88, 88, 88, 88, 88, 88, 88, 88};
    const tide_v8 least = {-87, -87, -87, -87, -87, -87, -87, -87};
    x = (tide_v8)(((tide_v8i)x & ~(high | low)) | ((tide_v8i)most & high) | ((tide_v8i)least & low));
    /* Adding 1.5 * 2^23 rounds to an integer, which then sits in the low bits. */
    tide_v8 shifted = x * 1.44269504f + 12582912.0f;
    tide_v8 n = shifted - 12582912.0f;
    tide_v8 r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    tide_v8 p = r * 1.38888889e-3f + 8.33333333e-3f;
    p = p * r + 4.16666667e-2f;
    p = p * r + 0.166666667f;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    tide_v8i exponent = (((tide_v8i)shifted - 0x4B400000) + 127) << 23;
    TIDE_V8(out) = p * (tide_v8)exponent;
}

#endif
