/* The CPU backend: device buffers are host memory, aligned for vector loads. Always there. */
#include "base/base.h"
#include "tensor/cpu/blas.h"
#include "tensor/cpu/gemm.h"

#include <string.h>

static int probe(char *text, size_t capacity) {
    const struct tide_blas *blas = tide_blas();
    (void)snprintf(text, capacity, "%s", blas ? blas->config : tide_error_message());
    return 0;
}

static void *allocate(size_t bytes) {
    return tide_alloc_aligned(64, bytes ? bytes : 1);
}

static void release(void *buffer) {
    tide_free(buffer);
}

static int copy(void *to, const void *from, size_t bytes) {
    if (bytes) {
        memcpy(to, from, bytes);
    }
    return 0;
}

static const struct tide_backend backend = {
    .abi = TIDE_KERNEL_ABI,
    .size = sizeof(struct tide_backend),
    .build_id = TIDE_VERSION,
    .name = "cpu",
    .probe = probe,
    .allocate = allocate,
    .release = release,
    .upload = copy,
    .download = copy,
    .gemm = tide_cpu_gemm,
};

const struct tide_backend *tide_backend_cpu(void) {
    return &backend;
}
