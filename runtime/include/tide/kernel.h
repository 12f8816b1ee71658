/*
 * Kernels: native inner loops that scripts call by name, with named arguments that are checked against what the kernel
 * declares. This header is all that a kernel of your own needs; examples/saxpy.c is one.
 *
 *   cc -O3 -shared -fPIC saxpy.c $(pkg-config --cflags tide) -o saxpy.so
 *
 *   local saxpy = tide.kernel.load "saxpy.so".saxpy
 *   saxpy {a = 2, x = x, y = y}
 */
#ifndef TIDE_PUBLIC_KERNEL_H
#define TIDE_PUBLIC_KERNEL_H

#include "tide/actor.h"   /* the codes of errors */
#include "tide/package.h" /* memory, random streams, arguments */

#ifdef __cplusplus
extern "C" {
#endif

#define TIDE_KERNEL_ABI 7u

enum { TIDE_KERNEL_ERROR_BYTES = 256, TIDE_KERNEL_PARAMETERS_MAX = 48, TIDE_KERNEL_RESULTS_MAX = 16 };

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
    uint8_t type; /* enum tide_ext */
};

enum tide_parameter_type { TIDE_NUMBER, TIDE_TEXT, TIDE_TENSOR, TIDE_ROWS, TIDE_FLAG, TIDE_DRAWS };

struct tide_parameter {
    const char *name;
    enum tide_parameter_type type;
    uint8_t element; /* tensors: required element type */
    bool required;
    double number;   /* default of numbers and flags */
    const char *doc; /* what it is, with unit or shape */
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
     * the reason in `error` (256 bytes). */
    int (*run)(const struct tide_argument *arguments, struct tide_result *results, char *error);
};

/* The f64 tensor at `index` with `want` elements, NULL where it is not given. EINVAL. */
int tide_kernel_vector(const struct tide_kernel *kernel, const struct tide_argument *arguments, size_t index,
                       size_t want, double **out, char *error);

/* c[m x n] = alpha op(a) op(b) + beta c, row-major f32, leading dimensions in elements, by the matrix library of the
 * program. EINVAL: a leading dimension shorter than its row, or a size beyond int; EUNSUPPORTED: there is no library.
 */
int tide_cpu_gemm(bool transpose_a, bool transpose_b, size_t m, size_t n, size_t k, float alpha, const float *a,
                  size_t lda, const float *b, size_t ldb, float beta, float *c, size_t ldc);

/* ---- operations of programs (tide.nn): values in, values out ---- */

enum { TIDE_OWN_OPERANDS = 4, TIDE_OWN_RESULTS = 2, TIDE_OWN_NUMBERS = 8, TIDE_OWN_RANK = 3 };

/* Dims behind the batch. */
struct tide_own_shape {
    uint8_t rank;
    bool index; /* i32 in place of real numbers; never of results */
    uint32_t dims[TIDE_OWN_RANK];
};

/* Dense and row-major: rows of the batch times all dims but the last, by the last. */
struct tide_own_value {
    void *data;
    size_t rows, columns;
};

struct tide_own_call {
    size_t element; /* bytes of a real number: 4, or 8 on the reference device */
    const double *numbers;
    const struct tide_own_value *in, *out; /* operands; results, which backward reads */
    const struct tide_own_value *g, *by;   /* backward: gradients of results; of operands, data NULL for an index */
    char *error;                           /* 256 bytes */
};

/* Never allocates, waits or keeps a pointer, writes all of its results, and gives the same bits for the same call;
 * several threads may be inside. */
struct tide_own_operation {
    const char *name, *doc;
    uint8_t in_count, out_count;
    const struct tide_parameter *numbers; /* TIDE_NUMBER */
    size_t number_count;
    /* Fills in `out`, or refuses with a negative code and the reason in `error`. */
    int (*shape)(const struct tide_own_shape *in, const double *numbers, struct tide_own_shape *out, char *error);
    int (*forward)(const struct tide_own_call *call);
    int (*backward)(const struct tide_own_call *call); /* NULL: it has no derivative */
    /* On a GPU, in the order of a cudaStream_t; addresses are the device's. NULL: by way of the host. */
    int (*cuda_forward)(const struct tide_own_call *call, void *stream);
    int (*cuda_backward)(const struct tide_own_call *call, void *stream);
};

/* What the program offers to kernels of a module. It lives as long as the process. */
struct tide_kernel_host {
    uint32_t abi;
    /* A computation of milliseconds calls it now and then, between data points: others get the thread, and a worker
     * that is being ended stops. Negative: return that code at once. */
    int (*yield)(void);
};

struct tide_update_rule; /* tide/rule.h */

struct tide_kernel_module {
    uint32_t abi;        /* TIDE_KERNEL_ABI of the header it was built with */
    const char *version; /* for people */
    const struct tide_kernel *kernels;
    size_t kernel_count;
    const struct tide_own_operation *operations;
    size_t operation_count;
    const struct tide_update_rule *rules;
    size_t rule_count;
};

/* The one function that a module defines. Called once a load; NULL: it refuses. */
const struct tide_kernel_module *tide_kernel_module(const struct tide_kernel_host *host);

#ifdef __cplusplus
}
#endif
#endif
