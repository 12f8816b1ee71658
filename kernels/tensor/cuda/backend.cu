/*
 * The module's entry: what the device is, its operations by code, and gemm for callers without a
 * queue. `probe` returns why there is no device; then nothing else is called.
 */
#include "tensor/cuda/gpu.h"
#include "kernel.h"

#include <pthread.h>
#include <stdio.h>

static size_t scratch(enum tide_op_code code, const struct tide_op_call *call) {
    const size_t rows = call->in[0].rows, c = call->in[0].columns;
    switch (code) {
    case TIDE_OP_CONV:
    case TIDE_OP_CONV_DX:
    case TIDE_OP_CONV_DW:
        return tide_cuda_conv_scratch(code, call);
    case TIDE_OP_XENT:
    case TIDE_OP_SIGMOID_XENT:
    case TIDE_OP_MSE:
    case TIDE_OP_HINGE:
    case TIDE_OP_SUM_LOSS:
        return tide_cuda_loss_scratch(call);
    case TIDE_OP_BATCHNORM:
        return tide_cuda_columns_scratch(rows, c) + c * sizeof(float);
    case TIDE_OP_BATCHNORM_DX:
    case TIDE_OP_LAYERNORM_DX:
    case TIDE_OP_COLUMN_SUMS:
        return tide_cuda_columns_scratch(rows, c);
    case TIDE_OP_BATCHNORM_EVAL:
        return c * sizeof(float);
    case TIDE_OP_LINEAR_XENT:
        return tide_cuda_linear_xent_scratch(call);
    case TIDE_OP_CTC:
        return tide_cuda_ctc_scratch(call);
    case TIDE_OP_ATTENTION_DX:
        return tide_cuda_attention_scratch(call);
    case TIDE_OP_EMBED_DW:
        return tide_cuda_embed_scratch(call);
    default:
        return 0;
    }
}

/* In the order of enum tide_op_code. */
static const tide_op_function functions[] = {
#define TIDE_OPERATION(code, name, ...) tide_cuda_##name,
#include "operations.def"
#undef TIDE_OPERATION
    NULL /* reshape */
};
static_assert(sizeof(functions) / sizeof(functions[0]) == TIDE_OP_COUNT,
              "an operation has no function");

static const struct tide_device device = {"cuda",           sizeof(float),    functions,
                                          scratch,          tide_cuda_update, tide_cuda_norm2,
                                          &tide_cuda_memory, &tide_cuda_numeric};

static __global__ void probe_kernel(uint32_t *out) {
    if (gpu_thread() == 0) {
        *out = 1;
    }
}

/* A module that was compiled for other architectures loads all the same, and fails at its first
 * launch. */
static int try_launch(char *text, size_t capacity) {
    uint32_t *out = (uint32_t *)tide_cuda_memory.allocate(sizeof(*out)), got = 0;
    struct tide_cuda_queue *queue = tide_cuda_default_queue();
    queue->reason[0] = 0;
    int code = out ? GPU_EACH(probe_kernel, 1, queue, out) : TIDE_ENOMEM;
    code = code == 0 ? tide_cuda_memory.download(NULL, &got, out, sizeof(got)) : code;
    if (code != 0 || got != 1) {
        snprintf(text, capacity, "no kernel of this module runs on the device%s%s",
                 queue->reason[0] ? ": " : "", queue->reason);
        code = TIDE_EUNSUPPORTED;
    }
    if (out) {
        tide_cuda_memory.release(out);
    }
    return code;
}

static int probe(char *text, size_t capacity) {
    int count = 0;
    struct cudaDeviceProp found;
    cudaError_t error = cudaGetDeviceCount(&count);
    if (error == cudaSuccess && count > 0) {
        error = cudaGetDeviceProperties(&found, 0);
    }
    if (error != cudaSuccess || count == 0) {
        snprintf(text, capacity, "%s",
                 error != cudaSuccess ? cudaGetErrorString(error) : "no CUDA device");
        return TIDE_EUNSUPPORTED;
    }
    if (try_launch(text, capacity) != 0 || tide_cuda_blas_load(text, capacity) != 0) {
        return TIDE_EUNSUPPORTED;
    }
    snprintf(text, capacity, "%s, compute capability %d.%d, %zu MiB", found.name, found.major,
             found.minor, found.totalGlobalMem >> 20);
    return 0;
}

static int upload(void *buffer, const void *host, size_t bytes) {
    return tide_cuda_memory.upload(NULL, buffer, host, bytes);
}

static int download(void *host, const void *buffer, size_t bytes) {
    return tide_cuda_memory.download(NULL, host, buffer, bytes);
}

static int gemm(bool transpose_a, bool transpose_b, size_t m, size_t n, size_t k, float alpha,
                const float *a, size_t lda, const float *b, size_t ldb, float beta, float *c,
                size_t ldc) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* calls share one handle */
    const struct tide_cuda_product p = {transpose_a, transpose_b, m, n,    k, alpha, a, lda, 0,
                                        b,           ldb,         0, beta, c, ldc,   0, 1};
    pthread_mutex_lock(&lock);
    int code = tide_cuda_multiply(tide_cuda_default_queue(), &p);
    pthread_mutex_unlock(&lock);
    return code;
}

static const struct tide_backend backend = {TIDE_KERNEL_ABI,
                                            sizeof(struct tide_backend),
                                            TIDE_KERNEL_BUILD,
                                            "cuda",
                                            probe,
                                            tide_cuda_memory.allocate,
                                            tide_cuda_memory.release,
                                            upload,
                                            download,
                                            gemm,
                                            &device};

extern "C" __attribute__((visibility("default"))) const struct tide_backend *
tide_backend_entry(void) {
    return &backend;
}
