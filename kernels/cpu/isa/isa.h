/*
 * Every file of this directory is compiled once an instruction set (TIDE_ISA: plain, avx2, avx512);
 * device.c chooses at run time. OP(name) is a function's name in the set being compiled.
 *
 * tide_v16 is sixteen floats by the compilers' vector extension: one register, two or four.
 */
#ifndef TIDE_KERNEL_ISA_H
#define TIDE_KERNEL_ISA_H

#include "operation.h"

#include <math.h>
#include <string.h>

#define TIDE_ISA_PASTE(name, isa) tide__op_##name##_##isa
#define TIDE_ISA_NAME(name, isa) TIDE_ISA_PASTE(name, isa)
#define OP(name) TIDE_ISA_NAME(name, TIDE_ISA)

/* The iterations of the loop that follows touch no common element, except each its own. */
#if defined(__clang__)
#define TIDE_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define TIDE_INDEPENDENT _Pragma("GCC ivdep")
#endif
#define TIDE_INLINE static inline __attribute__((always_inline))

typedef float tide_v16 __attribute__((vector_size(64), aligned(4), may_alias));
typedef int32_t tide_v16i __attribute__((vector_size(64), aligned(4), may_alias));
typedef uint8_t tide_v16b __attribute__((vector_size(16), aligned(1), may_alias));
#define V16(pointer) (*(tide_v16 *)(void *)(pointer))
#define V16C(pointer) (*(const tide_v16 *)(const void *)(pointer))

int OP(map)(const struct tide_op_call *call);
int OP(mm)(const struct tide_op_call *call);
int OP(bmm)(const struct tide_op_call *call);
int OP(conv)(const struct tide_op_call *call);
int OP(conv_dx)(const struct tide_op_call *call);
int OP(conv_dw)(const struct tide_op_call *call);
int OP(maxpool)(const struct tide_op_call *call);
int OP(maxpool_dx)(const struct tide_op_call *call);
int OP(avgpool)(const struct tide_op_call *call);
int OP(avgpool_dx)(const struct tide_op_call *call);
int OP(mean_pixels)(const struct tide_op_call *call);
int OP(mean_pixels_dx)(const struct tide_op_call *call);
int OP(batchnorm)(const struct tide_op_call *call);
int OP(batchnorm_eval)(const struct tide_op_call *call);
int OP(batchnorm_dx)(const struct tide_op_call *call);
int OP(layernorm)(const struct tide_op_call *call);
int OP(layernorm_dx)(const struct tide_op_call *call);
int OP(softmax)(const struct tide_op_call *call);
int OP(softmax_dx)(const struct tide_op_call *call);
int OP(xent)(const struct tide_op_call *call);
int OP(sigmoid_xent)(const struct tide_op_call *call);
int OP(mse)(const struct tide_op_call *call);
int OP(hinge)(const struct tide_op_call *call);
int OP(sum_loss)(const struct tide_op_call *call);
int OP(embed)(const struct tide_op_call *call);
int OP(embed_dw)(const struct tide_op_call *call);
int OP(row_sums)(const struct tide_op_call *call);
int OP(column_sums)(const struct tide_op_call *call);
int OP(slice)(const struct tide_op_call *call);
int OP(slice_dx)(const struct tide_op_call *call);
int OP(concat)(const struct tide_op_call *call);
int OP(dropout)(const struct tide_op_call *call);
void OP(update)(const struct tide_step *u, size_t n, void *w, const void *g, void *a, void *b);
double OP(norm2)(size_t n, const void *x);
void OP(exp_all)(size_t n, float *out, const float *in); /* in place too */
size_t OP(scratch)(enum tide_op_code code, const struct tide_op_call *call);

/* a where the mask is all ones, b where it is 0 */
TIDE_INLINE tide_v16 tide_choose(tide_v16i mask, tide_v16 a, tide_v16 b) {
    return (tide_v16)(((tide_v16i)a & mask) | ((tide_v16i)b & ~mask));
}

/* Of x[0..n): lanes in float over at most 4096 elements, then double. The order depends on n alone.
 */
TIDE_INLINE float tide_lanes(const tide_v16 *v) {
    float a[16];
    memcpy(a, v, sizeof(a));
    for (size_t half = 8; half > 0; half /= 2) {
        for (size_t i = 0; i < half; i++) {
            a[i] += a[i + half];
        }
    }
    return a[0];
}

TIDE_INLINE double tide_sum(size_t n, const float *x) {
    double sum = 0;
    size_t i = 0;
    while (i + 16 <= n) {
        tide_v16 lanes = {0};
        size_t end = n - i < 4096 ? n : i + 4096;
        for (; i + 16 <= end; i += 16) {
            lanes += V16C(x + i);
        }
        sum += (double)tide_lanes(&lanes);
    }
    for (; i < n; i++) {
        sum += (double)x[i];
    }
    return sum;
}

#endif
