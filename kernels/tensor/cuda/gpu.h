/*
 * The dialect that kernels are written in. nvcc compiles them for the device; without nvcc the same
 * source is C++ for the host, where tests/cuda/emulated.h runs a block's threads one after the
 * other.
 *
 * A kernel is started by GPU_EACH if its threads are independent (GPU_EACH_SHARED: with
 * shared memory all the same, each thread its own), by GPU_BLOCKS if they meet at barriers or
 * exchange values; every thread of a block then takes part in each meeting. Groups of 32
 * neighbouring threads exchange values through gpu_across.
 */
#ifndef TIDE_CUDA_GPU_H
#define TIDE_CUDA_GPU_H

#include "operation.h"
#include "tide.h"

#include <limits.h>
#include <math.h>
#include <string.h>

#if defined(__CUDACC__)
#include <cuda_runtime.h>
#define GPU_EACH_SHARED(kernel, blocks, bytes, queue, ...)                                                             \
    (kernel<<<(blocks), GPU_THREADS, (bytes), (queue)->work>>>(__VA_ARGS__), tide_cuda_launched(queue))
#define GPU_EACH(kernel, blocks, queue, ...) GPU_EACH_SHARED(kernel, blocks, 0, queue, __VA_ARGS__)
#define GPU_BLOCKS(kernel, blocks, queue, ...) GPU_EACH_SHARED(kernel, blocks, 0, queue, __VA_ARGS__)
#define GPU_SHARED(type, name, count) __shared__ type name[count]
#define GPU_SHARED_REST(type, name) extern __shared__ type name[] /* `bytes` of the launch */
#define GPU_ACROSS(type)                                                                                               \
    __device__ static inline type gpu_across(type value, unsigned mask) {                                              \
        return __shfl_xor_sync(0xffffffffu, value, (int)mask);                                                         \
    }
GPU_ACROSS(float)
GPU_ACROSS(double)
GPU_ACROSS(int)
/* What a group has read before it, none of its threads writes earlier. */
__device__ static inline void gpu_together(void) {
    __syncwarp();
}
/* Gathered taps at a time; elements of one elementwise launch, for which blocks do not run out. */
enum { GPU_TILE_BYTES = 32 << 20, GPU_PIECE = 1 << 28 };
#else
#include "cuda/emulated.h"
#endif

enum { GPU_THREADS = 256, GPU_GROUP = 32, GPU_GROUPS = GPU_THREADS / GPU_GROUP };

#include "tensor/cuda/queue.h"

__device__ static inline size_t gpu_thread(void) {
    return (size_t)blockIdx.x * GPU_THREADS + threadIdx.x;
}
__device__ static inline size_t gpu_stride(void) {
    return (size_t)gridDim.x * GPU_THREADS;
}
/* Blocks for n elements, a thread each; beyond 2^20 blocks threads take several. */
static inline unsigned gpu_blocks(size_t n) {
    size_t blocks = (n + GPU_THREADS - 1) / GPU_THREADS;
    return (unsigned)(blocks > (size_t)1 << 20 ? (size_t)1 << 20 : blocks);
}

/* Division by what is known before the launch (Granlund, Montgomery 1994), for n < 2^31. */
struct gpu_divisor {
    uint32_t by, factor, shift;
};
static inline struct gpu_divisor gpu_divisor_of(uint32_t by) {
    uint32_t log = 0;
    while (log < 32 && ((uint64_t)1 << log) < by) {
        log++;
    }
    uint64_t power = (uint64_t)1 << (31 + log);
    struct gpu_divisor d = {by, by > 1 ? (uint32_t)((power + by - 1) / by) : 0, by > 1 ? log - 1 : 0};
    return d;
}
__device__ static inline uint32_t gpu_divide(uint32_t n, struct gpu_divisor d) {
    return d.by > 1 ? __umulhi(n, d.factor) >> d.shift : n;
}

/* Sums and maxima over a group (WIDTH GPU_GROUP) or a block (WIDTH GPU_THREADS): the same for all
 * its threads, in an order that depends on nothing. `shared`: GPU_GROUPS values, of blocks. */
template <int WIDTH> __device__ static inline double gpu_sum(double value, double *shared) {
    for (unsigned mask = GPU_GROUP / 2; mask > 0; mask /= 2) {
        value += gpu_across(value, mask);
    }
    if (WIDTH == GPU_THREADS) {
        if (threadIdx.x % GPU_GROUP == 0) {
            shared[threadIdx.x / GPU_GROUP] = value;
        }
        __syncthreads();
        value = 0;
        for (int i = 0; i < GPU_GROUPS; i++) {
            value += shared[i];
        }
        __syncthreads();
    }
    return value;
}

/* Of numbers; NaN is passed over. */
template <int WIDTH> __device__ static inline float gpu_max(float value, double *shared) {
    for (unsigned mask = GPU_GROUP / 2; mask > 0; mask /= 2) {
        value = fmaxf(value, gpu_across(value, mask));
    }
    if (WIDTH == GPU_THREADS) {
        if (threadIdx.x % GPU_GROUP == 0) {
            shared[threadIdx.x / GPU_GROUP] = (double)value;
        }
        __syncthreads();
        for (int i = 0; i < GPU_GROUPS; i++) {
            value = fmaxf(value, (float)shared[i]);
        }
        __syncthreads();
    }
    return value;
}

/* Rows longer than this are a block's, shorter ones a group's. */
enum { GPU_LONG_ROW = 1024 };
template <int WIDTH> __device__ static inline size_t gpu_row(void) {
    return (size_t)blockIdx.x * (GPU_THREADS / WIDTH) + threadIdx.x / WIDTH;
}
template <int WIDTH> __device__ static inline size_t gpu_lane(void) {
    return threadIdx.x % WIDTH;
}
/* A group a row, whose threads are independent; no row: nothing. The kernel takes row
 * gpu_row<GPU_GROUP>() and columns gpu_lane<GPU_GROUP>(), that + GPU_GROUP, ..: no division. */
#define GPU_EACH_ROW(kernel, rows, queue, ...)                                                                         \
    ((rows) == 0        ? 0                                                                                            \
     : (rows) > INT_MAX ? TIDE_EINVAL                                                                                  \
                        : GPU_EACH(kernel, (unsigned)(((rows) + GPU_GROUPS - 1) / GPU_GROUPS), queue, __VA_ARGS__))
/* Starts kernel<GPU_THREADS> or kernel<GPU_GROUP> for rows of `columns`; no row: nothing. */
#define GPU_ROWS(kernel, rows, columns, queue, ...)                                                                    \
    ((rows) == 0        ? 0                                                                                            \
     : (rows) > INT_MAX ? TIDE_EINVAL                                                                                  \
     : (columns) > GPU_LONG_ROW                                                                                        \
         ? GPU_BLOCKS(kernel<GPU_THREADS>, (unsigned)(rows), queue, __VA_ARGS__)                                       \
         : GPU_BLOCKS(kernel<GPU_GROUP>, (unsigned)(((rows) + GPU_GROUPS - 1) / GPU_GROUPS), queue, __VA_ARGS__))

#endif
