/*
 * Tables in plain memory behind struct tide_rows, for the tests and benchmarks of kernels: no
 * store, no fibers; every asynchronous call is done when it returns. Updates: Adagrad as at an
 * owner (sum += g^2; x -= lr g / sqrt(sum)), or none, with the pushed gradients summed up for
 * inspection.
 */
#ifndef PLAIN_ROWS_H
#define PLAIN_ROWS_H

#include "store/core/table.h"
#include "kernel.h"
#include "tide.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct plain_table {
    uint32_t width;
    uint64_t count;
    float lr;    /* 0: values stay, `sums` collects the pushed gradients */
    float *rows; /* count x width */
    float *sums; /* the same: Adagrad sums, or gradients */
    uint64_t pulls, pushes, pulled_keys, pushed_keys; /* calls and keys */
    uint64_t fail_after; /* calls until one fails with EDIED; 0: never */
    uint64_t open;       /* started, not yet waited for */
    uint64_t *log;       /* pulled keys in order, if not NULL */
    size_t log_size, log_capacity;
};

static inline int plain_count_call(struct plain_table *t, const uint64_t *keys, size_t count) {
    if (t->fail_after && --t->fail_after == 0) {
        return tide_fail(TIDE_EDIED, "the owner died");
    }
    for (size_t i = 0; i < count; i++) {
        if (keys[i] >= t->count) {
            return tide_fail(TIDE_ERANGE, "key %llu of %llu", (unsigned long long)keys[i],
                             (unsigned long long)t->count);
        }
    }
    return 0;
}

static inline int plain_pull(void *table, const uint64_t *keys, size_t count, float *rows) {
    struct plain_table *t = table;
    int error = plain_count_call(t, keys, count);
    if (error) {
        return error;
    }
    t->pulls++;
    t->pulled_keys += count;
    for (size_t i = 0; i < count; i++) {
        memcpy(rows + i * t->width, t->rows + keys[i] * t->width, t->width * sizeof(float));
        if (t->log && t->log_size < t->log_capacity) {
            t->log[t->log_size++] = keys[i];
        }
    }
    return 0;
}

typedef float plain_v8 __attribute__((vector_size(32), aligned(4), may_alias));

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) static inline size_t
plain_adagrad_wide(size_t width, float lr, const float *g, float *x, float *sum) {
    size_t i = 0;
    for (; i + 8 <= width; i += 8) {
        plain_v8 gradient = *(const plain_v8 *)(const void *)(g + i);
        plain_v8 total = *(plain_v8 *)(void *)(sum + i) + gradient * gradient;
        *(plain_v8 *)(void *)(sum + i) = total;
        plain_v8 root = __builtin_ia32_sqrtps256(total);
        *(plain_v8 *)(void *)(x + i) -= lr * gradient / root;
    }
    return i;
}
#endif

static inline void plain_adagrad(size_t width, float lr, const float *g, float *x, float *sum) {
    size_t i = 0;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        i = plain_adagrad_wide(width, lr, g, x, sum);
    }
#endif
    for (; i < width; i++) {
        sum[i] += g[i] * g[i];
        x[i] -= lr * g[i] / sqrtf(sum[i]);
    }
}

static inline int plain_push(void *table, const uint64_t *keys, size_t count, const float *rows) {
    struct plain_table *t = table;
    int error = plain_count_call(t, keys, count);
    if (error) {
        return error;
    }
    t->pushes++;
    t->pushed_keys += count;
    for (size_t i = 0; i < count; i++) {
        float *x = t->rows + keys[i] * t->width, *sum = t->sums + keys[i] * t->width;
        const float *g = rows + i * t->width;
        if (t->lr != 0) {
            plain_adagrad(t->width, t->lr, g, x, sum);
            continue;
        }
        for (size_t j = 0; j < t->width; j++) {
            sum[j] += g[j];
        }
    }
    return 0;
}

struct plain_handle {
    struct plain_table *table;
};

static inline int plain_pull_start(void *table, const uint64_t *keys, size_t count, float *rows,
                                   void *handle) {
    struct plain_table *t = table;
    ((struct plain_handle *)handle)->table = t;
    int error = plain_pull(table, keys, count, rows);
    t->open += error == 0;
    return error;
}

static inline int plain_push_start(void *table, const uint64_t *keys, size_t count,
                                   const float *rows, void *handle) {
    struct plain_table *t = table;
    ((struct plain_handle *)handle)->table = t;
    int error = plain_push(table, keys, count, rows);
    t->open += error == 0;
    return error;
}

static inline int plain_wait(void *handle) {
    ((struct plain_handle *)handle)->table->open--;
    return 0;
}

static inline bool plain_done(const void *handle) {
    (void)handle;
    return true;
}

/* Rows uniform in [-scale, scale) from `seed` (0: all zero). sum_init: start of the Adagrad sums.
 */
static inline void plain_init(struct plain_table *t, uint64_t count, uint32_t width, float lr,
                              float scale, float sum_init, uint64_t seed) {
    memset(t, 0, sizeof(*t));
    t->width = width;
    t->count = count;
    t->lr = lr;
    size_t size = (size_t)count * width;
    t->rows = calloc(size + 1, sizeof(float));
    t->sums = calloc(size + 1, sizeof(float));
    for (size_t i = 0; i < size; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        t->rows[i] = scale * (float)((double)(seed >> 11) * 0x1p-52 - 1);
        t->sums[i] = sum_init;
    }
}

static inline void plain_deinit(struct plain_table *t) {
    free(t->rows);
    free(t->sums);
    free(t->log);
}

static inline struct tide_rows plain_rows(struct plain_table *t) {
    return (struct tide_rows){.table = t,
                              .width = t->width,
                              .key_count = t->count,
                              .pull = plain_pull,
                              .push = plain_push,
                              .pull_start = plain_pull_start,
                              .push_start = plain_push_start,
                              .wait = plain_wait,
                              .done = plain_done};
}

static inline int plain_add(void *table, const uint64_t *keys, size_t count, const float *rows) {
    struct plain_table *t = table;
    int code = plain_count_call(t, keys, count);
    for (size_t i = 0; i < count && !code; i++) {
        for (size_t z = 0; z < t->width; z++) {
            t->rows[keys[i] * t->width + z] += rows[i * t->width + z];
        }
    }
    t->pushes += code == 0;
    return code;
}

static inline int plain_add_start(void *table, const uint64_t *keys, size_t count,
                                  const float *rows, void *handle) {
    struct plain_table *t = table;
    ((struct plain_handle *)handle)->table = t;
    int code = plain_add(table, keys, count, rows);
    t->open += code == 0;
    return code;
}

/* Pushes add to the rows. */
static inline struct tide_rows plain_adding(struct plain_table *t) {
    struct tide_rows rows = plain_rows(t);
    rows.push = plain_add;
    rows.push_start = plain_add_start;
    return rows;
}

/* ---- named arguments ---- */

enum { PLAIN_ARGUMENTS_MOST = 32 };

static inline struct tide_argument *plain_argument(const struct tide_kernel *kernel,
                                                   struct tide_argument *arguments,
                                                   const char *name) {
    for (size_t i = 0; i < kernel->parameter_count; i++) {
        if (strcmp(kernel->parameters[i].name, name) == 0) {
            arguments[i].given = true;
            return &arguments[i];
        }
    }
    abort(); /* a test that names a parameter the kernel has not */
}

static inline double plain_result(const struct tide_result *results, int count, const char *name) {
    for (int i = 0; i < count; i++) {
        if (strcmp(results[i].name, name) == 0) {
            return results[i].value;
        }
    }
    return (double)NAN;
}

#endif
