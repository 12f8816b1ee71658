/*
 * Every file of this directory is compiled once an instruction set (TIDE_ISA: plain, avx2, avx512);
 * device.c chooses at run time. OP(name) is a function's name in the set being compiled.
 *
 * tide_vec is one register of floats by the compilers' vector extension. Never more than one: of
 * vectors that need several gcc 12 makes scalar moves through memory, ten times as slow.
 */
#ifndef TIDE_KERNEL_ISA_H
#define TIDE_KERNEL_ISA_H

#include "operation.h"

#include <math.h>
#include <string.h>

#define TIDE_ISA_PASTE(name, isa) tide__op_##name##_##isa
#define TIDE_ISA_NAME(name, isa) TIDE_ISA_PASTE(name, isa)
#define OP(name) TIDE_ISA_NAME(name, TIDE_ISA)

/* INDEPENDENT: the iterations of the loop that follows touch no common element, except each its own. UNROLLED: the loop
 * is written out, so that an array that it indexes lies in registers. */
#if defined(__clang__)
#define TIDE_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#define TIDE_UNROLLED _Pragma("clang loop unroll(full)")
#else
#define TIDE_INDEPENDENT _Pragma("GCC ivdep")
#define TIDE_UNROLLED _Pragma("GCC unroll 16")
#endif
#define TIDE_INLINE static inline __attribute__((always_inline))

#if defined(__AVX512F__)
#define TIDE_LANES 16
#elif defined(__AVX2__)
#define TIDE_LANES 8
#else
#define TIDE_LANES 4
#endif
typedef float tide_vec __attribute__((vector_size(4 * TIDE_LANES), aligned(4), may_alias));
typedef int32_t tide_veci __attribute__((vector_size(4 * TIDE_LANES), aligned(4), may_alias));
typedef uint8_t tide_vecb __attribute__((vector_size(TIDE_LANES), aligned(1), may_alias));
#define VEC(pointer) (*(tide_vec *)(void *)(pointer))
#define VECC(pointer) (*(const tide_vec *)(const void *)(pointer))

#define TIDE_OPERATION(code, name, ...) int OP(name)(const struct tide_op_call *call);
#include "operations.def"
#undef TIDE_OPERATION
void OP(update)(const struct tide_step *u, size_t n, void *w, const void *g, void *a, void *b);
double OP(norm2)(size_t n, const void *x);
void OP(exp_all)(size_t n, float *out, const float *in); /* in place too */
size_t OP(attention_scratch)(void);
size_t OP(linear_xent_scratch)(const struct tide_op_call *call);
size_t OP(scratch)(enum tide_op_code code, const struct tide_op_call *call);

/* a where the mask is all ones, b where it is 0 */
TIDE_INLINE tide_vec tide_choose(tide_veci mask, tide_vec a, tide_vec b) {
    return (tide_vec)(((tide_veci)a & mask) | ((tide_veci)b & ~mask));
}

/* Sixteen sums side by side, whatever the registers: so their order is the same everywhere. */
typedef struct {
    tide_vec part[16 / TIDE_LANES];
} tide_sixteen;

TIDE_INLINE float tide_lanes(const tide_sixteen *v) {
    float a[16];
    memcpy(a, v, sizeof(a));
    for (size_t half = 8; half > 0; half /= 2) {
        for (size_t i = 0; i < half; i++) {
            a[i] += a[i + half];
        }
    }
    return a[0];
}

/* Of x[0..n): lanes in float over at most 4096 elements, then double. The order depends on n alone.
 */
TIDE_INLINE double tide_sum(size_t n, const float *x) {
    double sum = 0;
    size_t i = 0;
    while (i + 16 <= n) {
        tide_sixteen lanes = {0};
        size_t end = n - i < 4096 ? n : i + 4096;
        for (; i + 16 <= end; i += 16) {
            for (size_t q = 0; q < 16 / TIDE_LANES; q++) {
                lanes.part[q] += VECC(x + i + q * TIDE_LANES);
            }
        }
        sum += (double)tide_lanes(&lanes);
    }
    for (; i < n; i++) {
        sum += (double)x[i];
    }
    return sum;
}

#endif
