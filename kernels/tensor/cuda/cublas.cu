/*
 * Matrix products by cuBLAS, which is opened when first needed, so that the module itself depends
 * on no NVIDIA library (cudart is linked in). A handle belongs to a queue. Full float precision:
 * TF32 stays off.
 *
 * Row-major C = op(A) op(B) is column-major C' = op(B)' op(A)': the operands change places, nothing
 * is transposed.
 */
#include "tensor/cuda/gpu.h"

#include <cublas_v2.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

typedef cublasStatus_t (*create_function)(cublasHandle_t *);
typedef cublasStatus_t (*destroy_function)(cublasHandle_t);
typedef cublasStatus_t (*stream_function)(cublasHandle_t, cudaStream_t);
typedef cublasStatus_t (*gemm_function)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int,
                                        int, int, const float *, const float *, int, const float *,
                                        int, const float *, float *, int);
typedef cublasStatus_t (*batch_function)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int,
                                         int, int, const float *, const float *, int, long long,
                                         const float *, int, long long, const float *, float *, int,
                                         long long, int);

static struct {
    pthread_mutex_t lock;
    bool tried, ready;
    char reason[200]; /* why it is not ready */
    create_function create;
    destroy_function destroy;
    stream_function set_stream;
    gemm_function gemm;
    batch_function batch;
} library = {PTHREAD_MUTEX_INITIALIZER, false, false, "", NULL, NULL, NULL, NULL, NULL};

struct tide_cuda_blas {
    cublasHandle_t handle;
};

/* Under the lock. */
static void load(void) {
    static const char *const names[] = {"libcublas.so.13", "libcublas.so.12", "libcublas.so"};
    void *object = NULL;
    for (size_t i = 0; !object && i < sizeof(names) / sizeof(names[0]); i++) {
        object = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    }
    library.tried = true;
    if (!object) {
        const char *reason = dlerror();
        snprintf(library.reason, sizeof(library.reason), "%s", reason ? reason : "no cuBLAS");
        return;
    }
    library.create = (create_function)dlsym(object, "cublasCreate_v2");
    library.destroy = (destroy_function)dlsym(object, "cublasDestroy_v2");
    library.set_stream = (stream_function)dlsym(object, "cublasSetStream_v2");
    library.gemm = (gemm_function)dlsym(object, "cublasSgemm_v2");
    library.batch = (batch_function)dlsym(object, "cublasSgemmStridedBatched");
    library.ready =
        library.create && library.destroy && library.set_stream && library.gemm && library.batch;
    if (!library.ready) {
        snprintf(library.reason, sizeof(library.reason), "libcublas lacks a function of ours");
    }
}

int tide_cuda_blas_load(char *reason, size_t capacity) {
    pthread_mutex_lock(&library.lock);
    if (!library.tried) {
        load();
    }
    pthread_mutex_unlock(&library.lock);
    if (!library.ready) {
        snprintf(reason, capacity, "%s", library.reason);
    }
    return library.ready ? 0 : TIDE_EUNSUPPORTED;
}

int tide_cuda_blas_open(struct tide_cuda_queue *queue, struct tide_cuda_blas **out) {
    int code = tide_cuda_blas_load(queue->reason, sizeof(queue->reason));
    struct tide_cuda_blas *blas = NULL;
    if (code == 0) {
        blas = (struct tide_cuda_blas *)calloc(1, sizeof(*blas));
        code = blas ? 0 : TIDE_ENOMEM;
    }
    if (code == 0 && library.create(&blas->handle) != CUBLAS_STATUS_SUCCESS) {
        snprintf(queue->reason, sizeof(queue->reason), "cuBLAS does not start on this device");
        free(blas);
        return TIDE_EIO;
    }
    if (code == 0 && library.set_stream(blas->handle, queue->work) != CUBLAS_STATUS_SUCCESS) {
        tide_cuda_blas_close(blas);
        return TIDE_EIO;
    }
    if (code == 0) {
        *out = blas;
    }
    return code;
}

void tide_cuda_blas_close(struct tide_cuda_blas *blas) {
    if (blas) {
        library.destroy(blas->handle);
        free(blas);
    }
}

int tide_cuda_blas_multiply(struct tide_cuda_blas *blas, const struct tide_cuda_product *p) {
    const cublasOperation_t ta = p->ta ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t tb = p->tb ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasStatus_t status =
        p->count == 1
            ? library.gemm(blas->handle, tb, ta, (int)p->n, (int)p->m, (int)p->k, &p->alpha, p->b,
                           (int)p->ldb, p->a, (int)p->lda, &p->beta, p->c, (int)p->ldc)
            : library.batch(blas->handle, tb, ta, (int)p->n, (int)p->m, (int)p->k, &p->alpha, p->b,
                            (int)p->ldb, (long long)p->next_b, p->a, (int)p->lda,
                            (long long)p->next_a, &p->beta, p->c, (int)p->ldc, (long long)p->next_c,
                            (int)p->count);
    return status == CUBLAS_STATUS_SUCCESS ? 0 : TIDE_EIO;
}
