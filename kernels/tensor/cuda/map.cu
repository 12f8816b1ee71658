/*
 * Regions of micro-operations, interpreted: a thread runs the whole list for WIDTH elements, whose
 * registers are its column of the block's shared memory. Threads of a warp run the same
 * micro-operation, so its dispatch is paid once for 32 * WIDTH elements, and memory is touched only
 * for the region's operands. The functions are CUDA's, which err by 2 ulp at most.
 */
#include "tensor/cuda/gpu.h"

enum { SHARED_MAX = 48 << 10 };

struct map_call {
    struct tide_region region;
    const float *source[TIDE_REGION_SOURCES]; /* NULL: a constant */
    float *out[TIDE_REGION_OUTS];
    uint32_t stride[TIDE_REGION_SOURCES], out_stride[TIDE_REGION_OUTS]; /* 0: dense */
    uint32_t total;
    struct gpu_divisor columns;
};

__device__ static inline float sigmoid(float x) {
    float e = expf(-fabsf(x));
    return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}

__device__ static inline float softplus(float x) {
    return (x < 0.0f ? 0.0f : x) + log1pf(expf(-fabsf(x)));
}

/* Elements first, first + GPU_THREADS, ... of source s: all are asked for before one is kept. */
template <int WIDTH>
__device__ static inline void load(const struct map_call *m, unsigned s, uint32_t first,
                                   float *out) {
    const unsigned kind = m->region.kind[s];
    const float *from = m->source[s];
    float x[WIDTH];
    for (uint32_t k = 0; k < WIDTH; k++) {
        const uint32_t at = first + k * GPU_THREADS;
        x[k] = (float)m->region.constant[s];
        if (at < m->total && kind == TIDE_SOURCE_FULL && m->stride[s] == 0) {
            x[k] = from[at];
        } else if (at < m->total && kind == TIDE_SOURCE_FULL) {
            const uint32_t row = gpu_divide(at, m->columns);
            x[k] = from[(size_t)row * m->stride[s] + (at - row * m->columns.by)];
        } else if (at < m->total && kind != TIDE_SOURCE_CONSTANT) {
            const uint32_t row = gpu_divide(at, m->columns);
            const size_t wide = m->stride[s] ? m->stride[s] : 1;
            x[k] = from[kind == TIDE_SOURCE_COLUMN ? row * wide : at - row * m->columns.by];
        }
    }
    for (uint32_t k = 0; k < WIDTH; k++) {
        out[k * GPU_THREADS] = x[k];
    }
}

/* One micro-operation on WIDTH elements. */
#define CASE(code, expression)                                                                     \
    case code:                                                                                     \
        for (int k = 0; k < WIDTH; k++) {                                                          \
            const float a = A[k * GPU_THREADS], b = B[k * GPU_THREADS];                            \
            (void)b;                                                                               \
            out[k * GPU_THREADS] = (expression);                                                   \
        }                                                                                          \
        break
template <int WIDTH>
__device__ static inline void micro(unsigned code, const float *A, const float *B, const float *C,
                                    float *out) {
    switch (code) {
        CASE(TIDE_MICRO_NEG, -a);
        CASE(TIDE_MICRO_ABS, fabsf(a));
        CASE(TIDE_MICRO_SQR, a * a);
        CASE(TIDE_MICRO_SQRT, sqrtf(a));
        CASE(TIDE_MICRO_RSQRT, 1.0f / sqrtf(a));
        CASE(TIDE_MICRO_RECIP, 1.0f / a);
        CASE(TIDE_MICRO_EXP, expf(a));
        CASE(TIDE_MICRO_LOG, logf(a));
        CASE(TIDE_MICRO_LOG1P, log1pf(a));
        CASE(TIDE_MICRO_SIGMOID, sigmoid(a));
        CASE(TIDE_MICRO_TANH, tanhf(a));
        CASE(TIDE_MICRO_RELU, a < 0.0f ? 0.0f : a);
        CASE(TIDE_MICRO_SOFTPLUS, softplus(a));
        CASE(TIDE_MICRO_SIGN, a > 0.0f ? 1.0f : a < 0.0f ? -1.0f : a);
        CASE(TIDE_MICRO_ERF, erff(a));
        CASE(TIDE_MICRO_ADD, a + b);
        CASE(TIDE_MICRO_SUB, a - b);
        CASE(TIDE_MICRO_MUL, a * b);
        CASE(TIDE_MICRO_DIV, a / b);
        CASE(TIDE_MICRO_MIN, a < b || isnan(a) ? a : b);
        CASE(TIDE_MICRO_MAX, a > b || isnan(a) ? a : b);
        CASE(TIDE_MICRO_EQ, a <= b && a >= b ? 1.0f : 0.0f);
        CASE(TIDE_MICRO_GT, a > b ? 1.0f : 0.0f);
        CASE(TIDE_MICRO_GE, a >= b ? 1.0f : 0.0f);
    default:
        for (int k = 0; k < WIDTH; k++) {
            const float a = A[k * GPU_THREADS];
            out[k * GPU_THREADS] =
                a < 0.0f || a > 0.0f || isnan(a) ? B[k * GPU_THREADS] : C[k * GPU_THREADS];
        }
        break;
    }
}

template <int WIDTH> static __global__ void map_kernel(const struct map_call m) {
    GPU_SHARED_REST(float, shared);
    const size_t step = (size_t)WIDTH * GPU_THREADS; /* from a register to the next */
    float *reg = shared + threadIdx.x;
    const uint32_t first = (uint32_t)(blockIdx.x * step + threadIdx.x);
    for (unsigned s = 0; s < m.region.source_count; s++) {
        load<WIDTH>(&m, s, first, reg + s * step);
    }
    for (unsigned i = 0; i < m.region.micro_count; i++) {
        const auto u = m.region.micro[i];
        micro<WIDTH>(u.code, reg + u.a * step, reg + u.b * step, reg + u.c * step,
                     reg + (m.region.source_count + i) * step);
    }
    for (unsigned o = 0; o < m.region.out_count; o++) {
        for (uint32_t k = 0; k < WIDTH; k++) {
            const uint32_t at = first + k * GPU_THREADS;
            if (at < m.total && m.out_stride[o] != 0) {
                const uint32_t row = gpu_divide(at, m.columns);
                m.out[o][(size_t)row * m.out_stride[o] + (at - row * m.columns.by)] =
                    reg[m.region.out[o] * step + k * GPU_THREADS];
            } else if (at < m.total) {
                m.out[o][at] = reg[m.region.out[o] * step + k * GPU_THREADS];
            }
        }
    }
}

/* Few registers: more elements a thread, so that more loads are in flight. */
static int launch(struct tide_cuda_queue *queue, const struct map_call *m) {
    const size_t registers = m->region.source_count + m->region.micro_count;
    const size_t one = registers * GPU_THREADS * sizeof(float);
    if (4 * one <= SHARED_MAX) {
        unsigned blocks = gpu_blocks((m->total + 3) / 4);
        return GPU_EACH_SHARED(map_kernel<4>, blocks, 4 * one, queue, *m);
    }
    if (2 * one <= SHARED_MAX) {
        unsigned blocks = gpu_blocks((m->total + 1) / 2);
        return GPU_EACH_SHARED(map_kernel<2>, blocks, 2 * one, queue, *m);
    }
    return GPU_EACH_SHARED(map_kernel<1>, gpu_blocks(m->total), one, queue, *m);
}

/* Strides of what is not dense; whether all operands are dense and of one shape. */
static bool set_strides(const struct tide_op_call *call, struct map_call *m) {
    bool flat = true;
    size_t next = 0;
    for (size_t s = 0; s < m->region.source_count; s++) {
        if (m->region.kind[s] == TIDE_SOURCE_CONSTANT) {
            continue;
        }
        const struct tide_operand *in = &call->in[next++];
        const size_t stride = tide_operand_stride(in);
        if (m->region.kind[s] != TIDE_SOURCE_ROW && stride != in->columns) {
            m->stride[s] = (uint32_t)stride;
        }
        flat = flat && m->region.kind[s] == TIDE_SOURCE_FULL && m->stride[s] == 0;
    }
    for (size_t o = 0; o < m->region.out_count; o++) {
        const size_t stride = tide_operand_stride(&call->out[o]);
        m->out_stride[o] = stride != call->out[o].columns ? (uint32_t)stride : 0;
        flat = flat && m->out_stride[o] == 0;
    }
    return flat;
}

int tide_cuda_map(const struct tide_op_call *call) {
    const struct tide_region *region = &call->attributes->region;
    size_t rows = call->out[0].rows, columns = call->out[0].columns;
    struct map_call m = {};
    m.region = *region;
    const bool flat = set_strides(call, &m);
    if (flat) {
        rows *= columns;
        columns = 1;
    }
    if (rows == 0 || columns == 0) {
        return 0;
    }
    if (columns > GPU_PIECE) {
        return TIDE_EINVAL;
    }
    m.columns = gpu_divisor_of((uint32_t)columns);
    const size_t most = GPU_PIECE / columns;
    for (size_t r = 0; r < rows; r += most) {
        const size_t n = rows - r < most ? rows - r : most;
        size_t next = 0;
        for (size_t s = 0; s < region->source_count; s++) {
            if (region->kind[s] == TIDE_SOURCE_CONSTANT) {
                continue;
            }
            const float *from = (const float *)call->in[next++].data;
            const bool column = region->kind[s] == TIDE_SOURCE_COLUMN;
            const size_t wide = m.stride[s] ? m.stride[s] : column ? 1 : columns;
            m.source[s] = from + (region->kind[s] == TIDE_SOURCE_ROW ? 0 : r * wide);
        }
        for (size_t o = 0; o < region->out_count; o++) {
            const size_t wide = m.out_stride[o] ? m.out_stride[o] : columns;
            m.out[o] = (float *)call->out[o].data + r * wide;
        }
        m.total = (uint32_t)(n * columns);
        int code = launch(tide_cuda_queue_of(call), &m);
        if (code != 0) {
            return code;
        }
    }
    return 0;
}
