/*
 * The CUDA backend: device buffers, copies, and gemm by cuBLAS, which is opened when first needed
 * so that the module itself depends on no NVIDIA library (cudart is linked in). Without a driver or
 * a device `probe` says so and nothing else is called. A gemm returns when its work is queued on
 * the default stream; the copies wait for it.
 *
 * Row-major C = op(A) op(B) is column-major C' = op(B)' op(A)': the operands change places, nothing
 * is transposed.
 */
#include "kernel.h"
#include "tide.h"

#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

typedef cublasStatus_t (*create_function)(cublasHandle_t *);
typedef cublasStatus_t (*gemm_function)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int,
                                        int, int, const float *, const float *, int, const float *,
                                        int, const float *, float *, int);

static struct {
    pthread_mutex_t lock; /* one handle: cuBLAS calls of several threads go one after the other */
    bool tried;
    cublasHandle_t handle;
    gemm_function gemm;
    char reason[200]; /* why gemm is NULL */
} blas = {PTHREAD_MUTEX_INITIALIZER, false, NULL, NULL, ""};

static int code_of(cudaError_t error) {
    if (error == cudaSuccess) {
        return 0;
    }
    return error == cudaErrorMemoryAllocation ? TIDE_ENOMEM : TIDE_EIO;
}

/* Under the lock. */
static void open_blas(void) {
    static const char *const names[] = {"libcublas.so.13", "libcublas.so.12", "libcublas.so"};
    void *library = NULL;
    for (size_t i = 0; !library && i < sizeof(names) / sizeof(names[0]); i++) {
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    }
    blas.tried = true;
    if (!library) {
        const char *reason = dlerror();
        snprintf(blas.reason, sizeof(blas.reason), "%s", reason ? reason : "no cuBLAS");
        return;
    }
    create_function create = (create_function)dlsym(library, "cublasCreate_v2");
    gemm_function gemm = (gemm_function)dlsym(library, "cublasSgemm_v2");
    if (!create || !gemm || create(&blas.handle) != CUBLAS_STATUS_SUCCESS) {
        snprintf(blas.reason, sizeof(blas.reason), "cuBLAS does not start on this device");
        return;
    }
    blas.gemm = gemm;
}

static bool blas_ready(void) {
    pthread_mutex_lock(&blas.lock);
    if (!blas.tried) {
        open_blas();
    }
    bool ready = blas.gemm != NULL;
    pthread_mutex_unlock(&blas.lock);
    return ready;
}

static int probe(char *text, size_t capacity) {
    int count = 0;
    cudaError_t error = cudaGetDeviceCount(&count);
    if (error != cudaSuccess || count == 0) {
        snprintf(text, capacity, "%s",
                 error != cudaSuccess ? cudaGetErrorString(error) : "no CUDA device");
        return TIDE_EUNSUPPORTED;
    }
    struct cudaDeviceProp device;
    error = cudaGetDeviceProperties(&device, 0);
    if (error != cudaSuccess) {
        snprintf(text, capacity, "%s", cudaGetErrorString(error));
        return TIDE_EUNSUPPORTED;
    }
    if (!blas_ready()) {
        snprintf(text, capacity, "%s", blas.reason);
        return TIDE_EUNSUPPORTED;
    }
    snprintf(text, capacity, "%s, compute capability %d.%d, %zu MiB", device.name, device.major,
             device.minor, device.totalGlobalMem >> 20);
    return 0;
}

static void *allocate(size_t bytes) {
    void *buffer = NULL;
    return cudaMalloc(&buffer, bytes ? bytes : 1) == cudaSuccess ? buffer : NULL;
}

static void release(void *buffer) {
    cudaFree(buffer);
}

static int upload(void *buffer, const void *host, size_t bytes) {
    return bytes ? code_of(cudaMemcpy(buffer, host, bytes, cudaMemcpyHostToDevice)) : 0;
}

static int download(void *host, const void *buffer, size_t bytes) {
    return bytes ? code_of(cudaMemcpy(host, buffer, bytes, cudaMemcpyDeviceToHost)) : 0;
}

/* An empty product: c = beta c. */
__global__ static void scale_kernel(size_t n, float beta, float *c, size_t ldc, size_t total) {
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < total) {
        float *at = c + i / n * ldc + i % n;
        *at = beta == 0 ? 0 : beta * *at;
    }
}

static int gemm(bool transpose_a, bool transpose_b, size_t m, size_t n, size_t k, float alpha,
                const float *a, size_t lda, const float *b, size_t ldb, float beta, float *c,
                size_t ldc) {
    size_t columns_a = transpose_a ? m : k, columns_b = transpose_b ? k : n;
    if (m > INT_MAX || n > INT_MAX || k > INT_MAX || lda > INT_MAX || ldb > INT_MAX ||
        ldc > INT_MAX || (k && (lda < columns_a || ldb < columns_b)) || (m && ldc < n)) {
        return TIDE_EINVAL;
    }
    if (m == 0 || n == 0) {
        return 0;
    }
    if (k == 0) {
        size_t total = m * n, blocks = (total + 255) / 256;
        if (blocks > INT_MAX) {
            return TIDE_EINVAL;
        }
        scale_kernel<<<(unsigned)blocks, 256>>>(n, beta, c, ldc, total);
        return code_of(cudaGetLastError());
    }
    if (!blas_ready()) {
        return TIDE_EUNSUPPORTED;
    }
    pthread_mutex_lock(&blas.lock);
    cublasStatus_t status = blas.gemm(blas.handle, transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N,
                                      transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N, (int)n, (int)m,
                                      (int)k, &alpha, b, (int)ldb, a, (int)lda, &beta, c, (int)ldc);
    pthread_mutex_unlock(&blas.lock);
    return status == CUBLAS_STATUS_SUCCESS ? 0 : TIDE_EIO;
}

static const struct tide_backend backend = {TIDE_KERNEL_ABI, sizeof(struct tide_backend),
                                            TIDE_VERSION,    "cuda",
                                            probe,           allocate,
                                            release,         upload,
                                            download,        gemm};

extern "C" __attribute__((visibility("default"))) const struct tide_backend *
tide_backend_entry(void) {
    return &backend;
}
