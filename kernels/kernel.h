/*
 * Kernels: native inner loops, reached by name. This room knows nothing of actors; a kernel that works on a table is
 * given `tide_rows`, the table's access functions.
 *
 * A kernel declares its parameters; the caller (the Lua binding, a test) passes named arguments that were checked
 * against the declaration. It returns 0 or a negative TIDE_E code and fills `results` with named numbers.
 */
#ifndef TIDE_KERNEL_H
#define TIDE_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TIDE_KERNEL_ABI 5u

/* Access to a table of f32 rows. Calls may suspend the calling fiber. */
struct tide_rows {
    void *table;
    uint32_t width;
    uint64_t key_count; /* 0: hashed */
    int (*pull)(void *table, const uint64_t *keys, size_t key_count, float *rows);
    int (*push)(void *table, const uint64_t *keys, size_t key_count, const float *rows);
    /* Asynchronous: `handle` is 64 bytes of the caller's; rows stay untouched until wait. Every start is waited for. */
    int (*pull_start)(void *table, const uint64_t *keys, size_t key_count, float *rows, void *handle);
    int (*push_start)(void *table, const uint64_t *keys, size_t key_count, const float *rows, void *handle);
    /* Asks for the rows to come to this node, asynchronously as well; NULL: rows of this table stay where they are. */
    int (*localize_start)(void *table, const uint64_t *keys, size_t key_count, void *handle);
    /* Adds values[i] to column columns[i] of a row; NULL: the table's update is another one. */
    int (*add)(void *table, uint64_t key, const uint32_t *columns, const float *values, size_t count);
    int (*wait)(void *handle);
    bool (*done)(const void *handle); /* wait would not suspend */
};

/* A sampler of keys: a sample is announced, the earlier the better, then its keys are taken, then it is ended. */
struct tide_draws {
    void *sampler; /* NULL: none was given */
    int (*prepare)(void *sampler, size_t key_count, uint32_t *sample);
    int (*take)(void *sampler, uint32_t sample, size_t key_count, uint64_t *keys); /* the next ones */
    int (*finish)(void *sampler, uint32_t sample);
};

/* A typed array that stays the caller's. Row-major rows x columns; columns 1 for a vector. */
struct tide_tensor {
    void *data;
    size_t rows, columns;
    uint8_t type; /* enum tide_ext of wire.h: f32 = 1, f64 = 2, i32 = 5, i64 = 6, u64 = 7, u8 = 8, u32 = 9, u16 = 10 */
};

enum tide_parameter_type { TIDE_NUMBER, TIDE_TEXT, TIDE_TENSOR, TIDE_ROWS, TIDE_FLAG, TIDE_DRAWS };

struct tide_parameter {
    const char *name;
    enum tide_parameter_type type;
    uint8_t element;       /* tensors: required element type */
    bool required;
    double number;         /* default of numbers and flags */
    const char *doc;       /* what it is, with unit or shape */
};

struct tide_argument {
    bool given;
    double number;
    const char *text;
    struct tide_tensor tensor;
    struct tide_rows rows;
    struct tide_draws draws;
};

struct tide_result {
    const char *name;
    double value;
};

struct tide_kernel {
    const char *name;
    const char *doc; /* one sentence, then the source of the formulas */
    const struct tide_parameter *parameters;
    size_t parameter_count;
    /* arguments[i] belongs to parameters[i]. Up to 16 results; returns their number or a negative TIDE_E code, with
     * the reason in `error` (256 bytes). `cancelled`, if not NULL, is polled between data points. */
    int (*run)(const struct tide_argument *arguments, struct tide_result *results, char *error);
};

const struct tide_kernel *tide_kernel_find(const char *name);
const struct tide_kernel *tide_kernel_at(size_t index); /* NULL past the end: for listings and help */

/* ---- backends: dense operations over device buffers; CPU always, CUDA when its module loads and finds a device ---- */
struct tide_device;
struct tide_backend {
    uint32_t abi, size;      /* TIDE_KERNEL_ABI, sizeof(struct tide_backend) */
    const char *build_id;    /* program version; a stale plugin is refused */
    const char *name;        /* "cpu", "cuda" */
    /* 0 and a description of the device, or a negative code and the reason, in `text`. */
    int (*probe)(char *text, size_t capacity);
    void *(*allocate)(size_t bytes);
    void (*release)(void *buffer);
    int (*upload)(void *buffer, const void *host, size_t bytes);
    int (*download)(void *host, const void *buffer, size_t bytes);
    /* c[m x n] = alpha * op(a) op(b) + beta * c, row-major f32, leading dimensions in elements. */
    int (*gemm)(bool transpose_a, bool transpose_b, size_t m, size_t n, size_t k, float alpha, const float *a, size_t lda,
                const float *b, size_t ldb, float beta, float *c, size_t ldc);
    const struct tide_device *device; /* tensor operations (operation.h); NULL: "cpu", which tide_device_find knows */
};
const struct tide_backend *tide_backend_cpu(void);
/* Loads tide_cuda.so from `directory`, or from where the program's run path says and else from the installed place;
 * NULL with the reason in `text`. */
const struct tide_backend *tide_backend_cuda(const char *directory, char *text, size_t capacity);

#endif
