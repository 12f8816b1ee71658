/*
 * Sums down the columns of [rows, columns] in double, two at a time. A block adds CHUNK rows of
 * GPU_GROUP neighbouring columns, a second kernel the chunks; the order depends on the number of
 * rows alone.
 */
#include "tensor/cuda/gpu.h"

enum { CHUNK = 512 };

struct columns_call {
    size_t rows, columns;
    const float *x, *y, *mean, *inv;
    double *parts; /* [chunks, 2, columns] */
};

static size_t chunks_of(size_t rows) {
    return (rows + CHUNK - 1) / CHUNK;
}

template <int KIND>
__device__ static inline void term(const struct columns_call *call, size_t row, size_t j,
                                   double *first, double *second) {
    const size_t at = row * call->columns + j;
    const float x = call->x[at];
    if (KIND == TIDE_CUDA_PLAIN) {
        *first += (double)x;
    } else if (KIND == TIDE_CUDA_SHIFTED) {
        const double d = (double)x - (double)call->x[j];
        *first += d;
        *second += d * d;
    } else {
        const size_t own = KIND == TIDE_CUDA_NORMED ? j : row;
        *first += (double)x;
        *second += (double)(x * ((call->y[at] - call->mean[own]) * call->inv[own]));
    }
}

template <int KIND> static __global__ void part_kernel(const struct columns_call call) {
    GPU_SHARED(double, shared, 2 * GPU_THREADS);
    const size_t wide = (call.columns + GPU_GROUP - 1) / GPU_GROUP; /* blocks beside each other */
    const size_t chunk = blockIdx.x / wide;
    const size_t j = blockIdx.x % wide * GPU_GROUP + threadIdx.x % GPU_GROUP;
    const size_t end = call.rows - chunk * CHUNK < CHUNK ? call.rows : (chunk + 1) * CHUNK;
    double first = 0, second = 0;
    for (size_t r = chunk * CHUNK + threadIdx.x / GPU_GROUP; j < call.columns && r < end;
         r += GPU_GROUPS) {
        term<KIND>(&call, r, j, &first, &second);
    }
    shared[threadIdx.x] = first;
    shared[GPU_THREADS + threadIdx.x] = second;
    __syncthreads();
    if (threadIdx.x < 2 * GPU_GROUP) { /* 32 threads for each of the two */
        const size_t which = threadIdx.x / GPU_GROUP, lane = threadIdx.x % GPU_GROUP;
        const size_t column = blockIdx.x % wide * GPU_GROUP + lane;
        double sum = 0;
        for (size_t i = 0; i < GPU_GROUPS; i++) {
            sum += shared[which * GPU_THREADS + i * GPU_GROUP + lane];
        }
        if (column < call.columns) {
            call.parts[(chunk * 2 + which) * call.columns + column] = sum;
        }
    }
}

/* Adds the chunks to the first; without a chunk it is 0. */
static __global__ void chunk_kernel(size_t chunks, size_t width, double *parts) {
    const size_t i = gpu_thread();
    if (i < width) {
        double sum = 0;
        for (size_t k = 0; k < chunks; k++) {
            sum += parts[k * width + i];
        }
        parts[i] = sum;
    }
}

size_t tide_cuda_columns_scratch(size_t rows, size_t columns) {
    const size_t chunks = chunks_of(rows);
    return (chunks ? chunks : 1) * 2 * columns * sizeof(double);
}

#define KIND(kind)                                                                                 \
    case kind:                                                                                     \
        code = GPU_BLOCKS(part_kernel<kind>, (unsigned)blocks, queue, call);                       \
        break
int tide_cuda_sum_columns(struct tide_cuda_queue *queue, enum tide_cuda_columns kind, size_t rows,
                          size_t columns, const float *x, const float *y, const float *mean,
                          const float *inv, void *scratch, double **sums) {
    const size_t chunks = chunks_of(rows);
    const size_t blocks = chunks * ((columns + GPU_GROUP - 1) / GPU_GROUP);
    const struct columns_call call = {rows, columns, x, y, mean, inv, (double *)scratch};
    int code = blocks > INT_MAX ? TIDE_EINVAL : 0;
    *sums = call.parts;
    if (columns == 0 || code != 0) {
        return code;
    }
    if (blocks > 0) {
        switch (kind) {
            KIND(TIDE_CUDA_PLAIN);
            KIND(TIDE_CUDA_SHIFTED);
            KIND(TIDE_CUDA_NORMED);
            KIND(TIDE_CUDA_NORMED_ROWS);
        }
    }
    return code == 0 ? GPU_EACH(chunk_kernel, gpu_blocks(2 * columns), queue, chunks, 2 * columns,
                                call.parts)
                     : code;
}
