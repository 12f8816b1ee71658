/*
 * Kernels of this build: found by name, declared as tide/kernel.h says. This room is independent of actors; a kernel
 * that works on a table is given `tide_rows`, the table's access functions. Backends run the dense operations.
 */
#ifndef TIDE_KERNEL_H
#define TIDE_KERNEL_H

#include "tide/kernel.h"

/* The version, and a hash of the headers that program and module share: the build sets it. */
#ifndef TIDE_KERNEL_BUILD
#define TIDE_KERNEL_BUILD TIDE_VERSION
#endif

/* A kernel of this build, or of a package, whose plugin it loads; NULL with ENOENT, or why the plugin cannot be loaded.
 */
const struct tide_kernel *tide_kernel_find(const char *name);
/* NULL past the end: for listings and help. Loads all packages; leaves out those that are not installed. */
const struct tide_kernel *tide_kernel_at(size_t index);

/* ---- packages.c ---- */
const struct tide_kernel *tide_kernel_of_packages(const char *name);
const struct tide_kernel *tide_kernel_of_packages_at(size_t index);
extern const struct tide_kernel_host tide_kernel_host; /* what modules are given */

/* ---- backends: dense operations over device buffers; CPU always, CUDA when its module loads and finds a device ----
 */
struct tide_device;
struct tide_backend {
    uint32_t abi, size;   /* TIDE_KERNEL_ABI, sizeof(struct tide_backend) */
    const char *build_id; /* TIDE_KERNEL_BUILD; a stale plugin is refused */
    const char *name;     /* "cpu", "cuda" */
    /* 0 and a description of the device, or a negative code and the reason, in `text`. */
    int (*probe)(char *text, size_t capacity);
    void *(*allocate)(size_t bytes);
    void (*release)(void *buffer);
    int (*upload)(void *buffer, const void *host, size_t bytes);
    int (*download)(void *host, const void *buffer, size_t bytes);
    /* c[m x n] = alpha * op(a) op(b) + beta * c, row-major f32, leading dimensions in elements. */
    int (*gemm)(bool transpose_a, bool transpose_b, size_t m, size_t n, size_t k, float alpha, const float *a,
                size_t lda, const float *b, size_t ldb, float beta, float *c, size_t ldc);
    const struct tide_device *device; /* tensor operations (operation.h); NULL: "cpu", which tide_device_find knows */
};
const struct tide_backend *tide_backend_cpu(void);
/* Loads tide_cuda.so from `directory`, or from where the program's run path says and else from the installed place;
 * NULL with the reason in `text`. */
const struct tide_backend *tide_backend_cuda(const char *directory, char *text, size_t capacity);

#endif
