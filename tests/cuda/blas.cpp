/* The reference's matrix product in place of cuBLAS. */
#include "tensor/cuda/gpu.h"
#include "tensor/reference/reference.h"

struct tide_cuda_blas {
    cudaStream_t stream;
};

int tide_cuda_blas_load(char *reason, size_t capacity) {
    (void)reason, (void)capacity;
    return 0;
}

int tide_cuda_blas_open(struct tide_cuda_queue *queue, struct tide_cuda_blas **out) {
    *out = new tide_cuda_blas{queue->work};
    return 0;
}

void tide_cuda_blas_close(struct tide_cuda_blas *blas) {
    delete blas;
}

static void multiply(const struct tide_cuda_product &p) {
    for (size_t g = 0; g < p.count; g++) {
        float *c = p.c + g * p.next_c;
        for (size_t e = 0; e < p.m * p.n; e++) {
            float *at = c + e / p.n * p.ldc + e % p.n;
            *at = (float)reference_gemm_element(
                p.ta, p.tb, p.k, (double)p.alpha, p.a + g * p.next_a, p.lda, p.b + g * p.next_b,
                p.ldb, (double)p.beta, p.beta > 0 || p.beta < 0 ? (double)*at : 0, e / p.n,
                e % p.n);
        }
    }
}

int tide_cuda_blas_multiply(struct tide_cuda_queue *queue, const struct tide_cuda_product *p) {
    const struct tide_cuda_product own = *p;
    emulated_later(queue->blas->stream, [=] { multiply(own); });
    return 0;
}
