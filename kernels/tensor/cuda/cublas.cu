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
#include <string.h>

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

static const char *status_text(cublasStatus_t status) {
    switch (status) {
    case CUBLAS_STATUS_NOT_INITIALIZED:
        return "not initialised";
    case CUBLAS_STATUS_ALLOC_FAILED:
        return "no memory is left";
    case CUBLAS_STATUS_INVALID_VALUE:
        return "invalid value";
    case CUBLAS_STATUS_ARCH_MISMATCH:
        return "not for this architecture";
    case CUBLAS_STATUS_EXECUTION_FAILED:
        return "execution failed";
    case CUBLAS_STATUS_INTERNAL_ERROR:
        return "internal error";
    default:
        return "not supported";
    }
}

static struct {
    pthread_mutex_t lock;
    bool tried, ready;
    char reason[600]; /* why it is not ready: of each library that was tried */
    create_function create;
    destroy_function destroy;
    stream_function set_stream;
    gemm_function gemm;
    batch_function batch;
} library = {PTHREAD_MUTEX_INITIALIZER, false, false, "", NULL, NULL, NULL, NULL, NULL};

struct tide_cuda_blas {
    cublasHandle_t handle;
};

static void add_reason(const char *name, const char *reason) {
    const size_t used = strlen(library.reason);
    snprintf(library.reason + used, sizeof(library.reason) - used, "%s%s: %s", used ? "; " : "",
             name, reason ? reason : "not found");
}

/* Our functions of a library that was opened; whether they are all there and it starts. */
static bool take(const char *name, void *object) {
    library.create = (create_function)dlsym(object, "cublasCreate_v2");
    library.destroy = (destroy_function)dlsym(object, "cublasDestroy_v2");
    library.set_stream = (stream_function)dlsym(object, "cublasSetStream_v2");
    library.gemm = (gemm_function)dlsym(object, "cublasSgemm_v2");
    library.batch = (batch_function)dlsym(object, "cublasSgemmStridedBatched");
    if (!library.create || !library.destroy || !library.set_stream || !library.gemm ||
        !library.batch) {
        add_reason(name, "lacks a function of ours");
        return false;
    }
    cublasHandle_t handle;
    const cublasStatus_t status = library.create(&handle);
    if (status != CUBLAS_STATUS_SUCCESS) {
        char text[80];
        snprintf(text, sizeof(text), "does not start on this device, %s", status_text(status));
        add_reason(name, text);
        return false;
    }
    library.destroy(handle);
    return true;
}

/* Under the lock. The toolkit's own major first: it fits the runtime that is linked in. */
static void load(void) {
    static const int majors[] = {CUBLAS_VER_MAJOR, 13, 12, 11};
    library.tried = true;
    for (size_t i = 0; !library.ready && i < sizeof(majors) / sizeof(majors[0]); i++) {
        char name[32];
        snprintf(name, sizeof(name), "libcublas.so.%d", majors[i]);
        if (i > 0 && majors[i] == CUBLAS_VER_MAJOR) {
            continue;
        }
        void *object = dlopen(name, RTLD_NOW | RTLD_LOCAL);
        if (!object) {
            add_reason(name, dlerror());
            continue;
        }
        library.ready = take(name, object);
        if (!library.ready) {
            dlclose(object);
        }
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
    const cublasStatus_t status = code == 0 ? library.create(&blas->handle) : CUBLAS_STATUS_SUCCESS;
    if (status != CUBLAS_STATUS_SUCCESS) {
        snprintf(queue->reason, sizeof(queue->reason), "cuBLAS does not start on this device: %s",
                 status_text(status));
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

int tide_cuda_blas_multiply(struct tide_cuda_queue *queue, const struct tide_cuda_product *p) {
    struct tide_cuda_blas *blas = queue->blas;
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
    if (status != CUBLAS_STATUS_SUCCESS && !queue->reason[0]) {
        snprintf(queue->reason, sizeof(queue->reason), "cuBLAS: a product of %zu x %zu x %zu: %s",
                 p->m, p->n, p->k, status_text(status));
    }
    return status == CUBLAS_STATUS_SUCCESS ? 0 : TIDE_EIO;
}
