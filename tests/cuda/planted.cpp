/* Mistakes that the emulation must show: see planted.h. */
#include "cuda/planted.h"
#include "tensor/cuda/gpu.h"

template <bool BARRIER> static __global__ void neighbours(float *out) {
    GPU_SHARED(float, shared, GPU_THREADS);
    shared[threadIdx.x] = (float)(threadIdx.x % 7);
    if (BARRIER) {
        __syncthreads();
    }
    const float other = shared[(threadIdx.x + 1) % GPU_THREADS];
    __syncthreads();
    out[threadIdx.x] = isnan(other) ? 100.0f + (float)threadIdx.x : other;
}

float planted_neighbours(bool barrier) {
    float *out = (float *)tide_cuda_memory.allocate(GPU_THREADS * sizeof(float)), sum = 0;
    struct tide_cuda_queue *queue = tide_cuda_default_queue();
    barrier ? GPU_BLOCKS(neighbours<true>, 1, queue, out)
            : GPU_BLOCKS(neighbours<false>, 1, queue, out);
    for (int i = 0; i < GPU_THREADS; i++) {
        sum += out[i] * (float)(i + 1);
    }
    tide_cuda_memory.release(out);
    return sum;
}

float planted_copy(bool wait) {
    cudaStream_t one, two;
    cudaEvent_t event;
    const float three = 3;
    float got = 0, *there = (float *)tide_cuda_memory.allocate(sizeof(float));
    cudaStreamCreate(&one);
    cudaStreamCreate(&two);
    cudaEventCreateWithFlags(&event, 0);
    cudaMemcpyAsync(there, &three, sizeof(three), cudaMemcpyHostToDevice, one);
    cudaEventRecord(event, one);
    if (wait) {
        cudaStreamWaitEvent(two, event, 0);
    }
    cudaMemcpyAsync(&got, there, sizeof(got), cudaMemcpyDeviceToHost, two);
    cudaStreamSynchronize(two);
    cudaEventDestroy(event);
    cudaStreamDestroy(one);
    cudaStreamDestroy(two);
    tide_cuda_memory.release(there);
    return got;
}
