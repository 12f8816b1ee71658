/*
 * CUDA for the host, as far as kernels/tensor/cuda uses it, so that tests can run the very source of the
 * kernels. It proves their logic: indices, barriers, orders. It says nothing of speed or hardware.
 *
 * A block's threads run one after the other. Where they meet (a barrier, an exchange), each is a
 * context with a stack of its own, and all must arrive; threads of a kernel that was started as
 * GPU_EACH may not meet at all. The order in which threads and blocks run is the test's to choose
 * (tide_emulated_order): results that depend on it are a race. Shared memory starts as NaN.
 *
 * Streams are as late as they may be: what is put into one runs when somebody waits for it, so a
 * missing wait shows. Device memory is host memory of exact size, for the address sanitizer.
 */
#ifndef TIDE_EMULATED_H
#define TIDE_EMULATED_H

#include <stddef.h>
#include <stdint.h>
#include <tuple>

#define __global__
#define __device__

struct emulated_index {
    unsigned x;
};

extern "C" {
/* ---- emulate.c: blocks and threads ---- */
extern struct emulated_index emulated_thread, emulated_block, emulated_grid;
/* Runs body(arg) once a thread; `shared` bytes; meet: threads may wait for each other. */
void emulated_run(unsigned blocks, unsigned threads, size_t shared, bool meet, void (*body)(void *),
                  void *arg);
void emulated_barrier(void);
/* The value that the thread whose number differs by `mask` brings to the same exchange. */
double emulated_across(double value, unsigned mask);
void *emulated_shared(void);
/* Once a block: fills it with NaN. */
void emulated_fresh(void *memory, size_t bytes, uint64_t *block);
}
#define threadIdx emulated_thread
#define blockIdx emulated_block
#define gridDim emulated_grid
#define __syncthreads emulated_barrier

static inline uint32_t __umulhi(uint32_t a, uint32_t b) {
    return (uint32_t)(((uint64_t)a * b) >> 32);
}
static inline double __dmul_rn(double a, double b) {
    return a * b;
}
static inline double __dsub_rn(double a, double b) {
    return a - b;
}
static inline void gpu_together(void) {
    (void)emulated_across(0, 1);
}
static inline float gpu_across(float value, unsigned mask) {
    return (float)emulated_across((double)value, mask);
}
static inline double gpu_across(double value, unsigned mask) {
    return emulated_across(value, mask);
}

/* ---- streams.cpp: the runtime ---- */
enum cudaError_t {
    cudaSuccess,
    cudaErrorMemoryAllocation,
    cudaErrorNotReady,
    cudaErrorInvalidValue
};
enum cudaMemcpyKind { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost };
enum { cudaEventDisableTiming = 1, cudaEventBlockingSync = 2, cudaHostRegisterDefault = 0 };
typedef struct emulated_stream *cudaStream_t;
typedef struct emulated_event *cudaEvent_t;
struct cudaDeviceProp {
    char name[32];
    int major, minor;
    size_t totalGlobalMem;
};
cudaError_t cudaMalloc(void **memory, size_t bytes);
cudaError_t cudaFree(void *memory);
cudaError_t cudaHostRegister(void *host, size_t bytes, unsigned flags);
cudaError_t cudaHostUnregister(void *host);
cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind);
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream);
cudaError_t cudaMemsetAsync(void *memory, int byte, size_t bytes, cudaStream_t stream);
cudaError_t cudaStreamCreate(cudaStream_t *stream);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaGetLastError(void);
const char *cudaGetErrorString(cudaError_t error);
cudaError_t cudaGetDeviceCount(int *count);
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *device, int index);

/* Queues work; on the default stream it is done at once, after all that the others hold. */
void emulated_queue(cudaStream_t stream, void (*run)(void *), void (*drop)(void *), void *arg);

template <typename Work> void emulated_later(cudaStream_t stream, Work work) {
    emulated_queue(
        stream, [](void *arg) { (*(Work *)arg)(); }, [](void *arg) { delete (Work *)arg; },
        new Work(work));
}

/* Arguments are taken now, as a device does. */
template <typename... Parameters, typename... Arguments>
void emulated_launch(unsigned blocks, size_t shared, bool meet, cudaStream_t stream,
                     void (*kernel)(Parameters...), Arguments... arguments) {
    auto body = [kernel, own = std::tuple<Parameters...>(arguments...)] {
        std::apply(kernel, own);
    };
    emulated_later(stream, [=]() mutable {
        emulated_run(
            blocks, 256, shared, meet, [](void *arg) { (*(decltype(body) *)arg)(); }, &body);
    });
}

#define GPU_LAUNCH(kernel, blocks, bytes, meet, queue, ...)                                        \
    (emulated_launch(blocks, bytes, meet, (queue)->work, kernel, __VA_ARGS__),                     \
     tide_cuda_launched(queue))
#define GPU_EACH_SHARED(kernel, blocks, bytes, queue, ...)                                         \
    GPU_LAUNCH((kernel), blocks, bytes, false, queue, __VA_ARGS__)
#define GPU_EACH(kernel, blocks, queue, ...) GPU_EACH_SHARED(kernel, blocks, 0, queue, __VA_ARGS__)
#define GPU_BLOCKS(kernel, blocks, queue, ...)                                                     \
    GPU_LAUNCH((kernel), blocks, 0, true, queue, __VA_ARGS__)
#define GPU_SHARED(type, name, count)                                                              \
    static type name[count];                                                                       \
    static uint64_t name##_block;                                                                  \
    emulated_fresh(name, sizeof(name), &name##_block)
#define GPU_SHARED_REST(type, name) type *name = (type *)emulated_shared()
enum { GPU_TILE_BYTES = 1 << 14, GPU_PIECE = 1 << 13 }; /* small, so that small tests see several */

#endif
