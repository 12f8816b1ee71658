/*
 * Operands for tests of operations: random values on a device and the same in float64. Operands lie
 * in the host's memory; a device with memory of its own gets copies for the call.
 *
 * With TIDE_EMULATED the device is kernels/tensor/cuda on the emulation of tests/cuda, and a call is made
 * once for each order of threads: the results must be the same bits.
 */
#ifndef TIDE_TEST_OP_WORLD_H
#define TIDE_TEST_OP_WORLD_H

#include "base/base.h"
#include "operation.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#ifdef TIDE_EMULATED
#include "cuda/emulate.h"
#include "kernel.h"
const struct tide_backend *tide_backend_entry(void);
#endif

/* The i-th device under test; NULL past the end. */
static inline const struct tide_device *op_device(size_t i) {
#ifdef TIDE_EMULATED
    return i == 0 ? tide_backend_entry()->device : NULL;
#else
    static const char *const names[] = {"cpu-plain", "cpu-avx2", "cpu-avx512", "cuda"};
    static const struct tide_device *found[TIDE_COUNT(names) + 1];
    if (!found[0]) {
        for (size_t k = 0, count = 0; k < TIDE_COUNT(names); k++) {
            found[count] = tide_device_find(names[k]);
            count += found[count] != NULL;
        }
    }
    return found[i];
#endif
}

enum op_type { OP_FLOAT, OP_IDS, OP_CLASSES, OP_BYTES, OP_DOUBLE }; /* classes: from 1, positive */

struct op_shape {
    size_t rows, columns;
    enum op_type type;
    uint32_t below; /* ids: -1 .. below - 1, positive 0 .. below - 1 */
    bool positive;  /* floats in [0.5, 1.5), else in [-1, 1) */
};

struct op_case {
    const char *what;
    enum tide_op_code code;
    struct tide_attributes attributes;
    size_t in_count, out_count;
    struct op_shape in[TIDE_OP_INPUTS], out[TIDE_OP_OUTPUTS];
    /* Error allowed: `eps` float epsilons times the element's own size, or times the size it would
     * have if all inputs were positive (of_sum), or times the largest element (of_all). */
    double eps;
    enum { OF_ELEMENT, OF_SUM, OF_ALL } of;
    bool accumulate;
};

static inline size_t op_bytes(const struct op_shape *s, size_t element) {
    size_t one = s->type == OP_FLOAT    ? element
                 : s->type == OP_IDS || s->type == OP_CLASSES ? sizeof(int32_t)
                 : s->type == OP_DOUBLE ? sizeof(double)
                                        : 1;
    return s->rows * s->columns * one;
}

/* ---- calls ---- */

static inline size_t op_operand_bytes(enum tide_op_code code, bool out, size_t i,
                                      const struct tide_operand *operand, size_t element) {
    bool loss = out && i == 0 && tide_op_is_loss(code);
    bool places = i == 1 && (out ? code == TIDE_OP_MAXPOOL : code == TIDE_OP_MAXPOOL_DX);
    const size_t elements = operand->rows == 0 ? 0 : (operand->rows - 1) * tide_operand_stride(operand) + operand->columns;
    return elements * (loss ? sizeof(double) : places ? 1 : element);
}

static inline void *op_queue(const struct tide_memory *memory) {
    static void *queue; /* one for all calls */
    if (!queue) {
        assert_int_equal(memory->open(&queue), 0);
    }
    return queue;
}

struct op_copy {
    void *host, *device;
    size_t bytes;
};

/* The copy of an operand: the same for operands of the same place. */
static inline void op_bring(const struct tide_memory *memory, struct op_copy *copies,
                            struct tide_operand *operand, size_t bytes) {
    struct op_copy *copy = copies;
    while (copy->device && copy->host != operand->data) {
        copy++;
    }
    if (!copy->device) {
        *copy = (struct op_copy){operand->data, memory->allocate(bytes), bytes};
        assert_non_null(copy->device);
        assert_int_equal(memory->upload(op_queue(memory), copy->device, copy->host, bytes), 0);
    }
    operand->data = copy->device;
}

static inline int op_call_away(const struct tide_device *device, enum tide_op_code code,
                               const struct tide_op_call *call) {
    const struct tide_memory *memory = device->memory;
    struct op_copy copies[TIDE_OP_INPUTS + TIDE_OP_OUTPUTS + 1] = {{NULL, NULL, 0}};
    struct tide_op_call away = *call;
    char text[256] = "";
    away.queue = op_queue(memory);
    for (size_t i = 0; i < TIDE_OP_INPUTS; i++) {
        if (call->in[i].data) {
            op_bring(memory, copies, &away.in[i],
                     op_operand_bytes(code, false, i, &call->in[i], device->element));
        }
    }
    for (size_t o = 0; o < TIDE_OP_OUTPUTS; o++) {
        if (call->out[o].data) {
            op_bring(memory, copies, &away.out[o],
                     op_operand_bytes(code, true, o, &call->out[o], device->element));
        }
    }
    away.scratch = memory->allocate(device->scratch(code, call));
    int result = device->functions[code](&away);
    for (struct op_copy *copy = copies; copy->device && result == 0; copy++) {
        result = memory->download(away.queue, copy->host, copy->device, copy->bytes);
    }
    int finished = memory->finish(away.queue, text, sizeof(text));
    for (struct op_copy *copy = copies; copy->device; copy++) {
        memory->release(copy->device);
    }
    memory->release(away.scratch);
    return result != 0 ? result : finished != 0 ? tide_fail(finished, "%s", text) : 0;
}

/* The operation on operands in the host's memory. */
static inline int op_call(const struct tide_device *device, enum tide_op_code code,
                          const struct tide_op_call *call) {
    return device->memory ? op_call_away(device, code, call) : device->functions[code](call);
}

/* A copy of n floats in the device's memory; NULL of NULL. */
static inline void *op_array(const struct tide_memory *memory, const float *host, size_t n) {
    void *copy = host ? memory->allocate(n * sizeof(float)) : NULL;
    assert_true(!host || (copy && memory->upload(NULL, copy, host, n * sizeof(float)) == 0));
    return copy;
}

/* The update rule on arrays in the host's memory. */
static inline void op_update(const struct tide_device *device, const struct tide_step *u, size_t n,
                             float *w, const float *g, float *a, float *b) {
    const struct tide_memory *memory = device->memory;
    if (!memory) {
        device->update(u, n, w, g, a, b);
        return;
    }
    float *const host[] = {w, a, b};
    void *copies[] = {op_array(memory, w, n), op_array(memory, a, n), op_array(memory, b, n)};
    void *gradient = op_array(memory, g, n);
    device->update(u, n, copies[0], gradient, copies[1], copies[2]);
    for (size_t i = 0; i < TIDE_COUNT(copies); i++) {
        assert_int_equal(memory->download(NULL, host[i], copies[i], n * sizeof(float)), 0);
        memory->release(copies[i]);
    }
    memory->release(gradient);
}

static inline double op_norm2(const struct tide_device *device, size_t n, const float *x) {
    if (!device->memory) {
        return device->norm2(n, x);
    }
    void *copy = op_array(device->memory, x, n);
    double sum = device->norm2(n, copy);
    device->memory->release(copy);
    return sum;
}

#ifdef TIDE_EMULATED
/* Once more with the threads in other orders, from the operands as they were. */
static inline void op_call_orders(const struct tide_device *device, enum tide_op_code code,
                                  const struct tide_op_call *first, struct tide_op_call *fresh) {
    for (int order = EMULATED_BACKWARDS; order < EMULATED_ORDERS; order++) {
        struct tide_op_call call = *fresh;
        for (size_t o = 0; o < TIDE_OP_OUTPUTS; o++) {
            if (call.out[o].data) {
                size_t bytes = op_operand_bytes(code, true, o, &call.out[o], device->element);
                call.out[o].data = malloc(bytes + 1);
                memcpy(call.out[o].data, fresh->out[o].data, bytes);
            }
        }
        tide_emulated_order((enum emulated_order)order);
        assert_int_equal(op_call(device, code, &call), 0);
        tide_emulated_order(EMULATED_FORWARDS);
        for (size_t o = 0; o < TIDE_OP_OUTPUTS; o++) {
            if (call.out[o].data) {
                size_t bytes = op_operand_bytes(code, true, o, &call.out[o], device->element);
                if (memcmp(call.out[o].data, first->out[o].data, bytes) != 0) {
                    fail_msg("%s: output %zu depends on the order of threads (%d)",
                             tide_op_names[code], o, order);
                }
                free(call.out[o].data);
            }
        }
    }
}
#endif

/* Operands on both devices; [0] the device's, [1] the reference's, [2] the reference's of
 * magnitudes. */
struct op_run {
    struct tide_op_call call[3];
};

static inline void op_fill(struct op_run *run, const struct op_case *c, size_t i, bool planted) {
    struct tide_random random;
    tide_random_seed(&random, 77 + i);
    const struct op_shape *s = &c->in[i];
    for (size_t e = 0; e < s->rows * s->columns; e++) {
        if (s->type == OP_IDS || s->type == OP_CLASSES) {
            int32_t id = s->positive ? (int32_t)tide_random_below(&random, s->below) + (s->type == OP_CLASSES)
                                     : (int32_t)tide_random_below(&random, s->below + 1) - 1;
            for (size_t k = 0; k < 3; k++) {
                ((int32_t *)run->call[k].in[i].data)[e] = id;
            }
            continue;
        }
        if (s->type == OP_BYTES) {
            uint8_t byte = (uint8_t)tide_random_below(&random, s->below);
            for (size_t k = 0; k < 3; k++) {
                ((uint8_t *)run->call[k].in[i].data)[e] = byte;
            }
            continue;
        }
        double u = tide_random_uniform(&random);
        float x = (float)(s->positive ? 0.5 + u : 2 * u - 1);
        if (planted) {
            const float special[] = {NAN,     INFINITY, -INFINITY, 0.0f,   -0.0f,
                                     1e-40f,  -3e-42f,  88.5f,     -88.5f, 95.0f,
                                     -103.0f, 1e30f,    -1e-30f,   9.0f,   -17.5f};
            x = e % 3 == 0 ? special[e / 3 % TIDE_COUNT(special)] : 20 * x;
        }
        ((float *)run->call[0].in[i].data)[e] = x;
        ((double *)run->call[1].in[i].data)[e] = (double)x;
        ((double *)run->call[2].in[i].data)[e] = fabs((double)x);
    }
}

static inline void op_prepare(struct op_run *run, const struct op_case *c,
                              const struct tide_device *device, bool planted) {
    const struct tide_device *reference = tide_device_find("reference");
    for (size_t k = 0; k < 3; k++) {
        struct tide_op_call *call = &run->call[k];
        size_t element = k == 0 ? device->element : reference->element;
        *call = (struct tide_op_call){
            .attributes = &c->attributes, .seed = 5, .step = 3, .accumulate = c->accumulate};
        for (size_t i = 0; i < c->in_count; i++) {
            call->in[i] = (struct tide_operand){.data = malloc(op_bytes(&c->in[i], element) + 64),
                                                .rows = c->in[i].rows,
                                                .columns = c->in[i].columns};
        }
        for (size_t o = 0; o < c->out_count; o++) {
            size_t bytes = op_bytes(&c->out[o], element) + 64;
            call->out[o] = (struct tide_operand){
                .data = malloc(bytes), .rows = c->out[o].rows, .columns = c->out[o].columns};
            memset(call->out[o].data, c->accumulate ? 0 : 0xff, bytes); /* NaN: all is written */
        }
        size_t scratch = (k == 0 ? device : reference)->scratch(c->code, call);
        call->scratch = malloc(scratch + 64);
    }
    for (size_t i = 0; i < c->in_count; i++) {
        op_fill(run, c, i, planted);
    }
}

static inline void op_release(struct op_run *run, const struct op_case *c) {
    for (size_t k = 0; k < 3; k++) {
        for (size_t i = 0; i < c->in_count; i++) {
            free(run->call[k].in[i].data);
        }
        for (size_t o = 0; o < c->out_count; o++) {
            free(run->call[k].out[o].data);
        }
        free(run->call[k].scratch);
    }
}

static inline double op_largest(const struct tide_operand *operand) {
    double most = 0;
    for (size_t e = 0; e < operand->rows * operand->columns; e++) {
        double x = fabs(((const double *)operand->data)[e]);
        most = x > most ? x : most;
    }
    return most;
}

static inline void op_compare(const struct op_run *run, const struct op_case *c, size_t o,
                              const char *device) {
    size_t n = c->out[o].rows * c->out[o].columns;
    if (c->out[o].type == OP_BYTES || c->out[o].type == OP_IDS) {
        const size_t bytes = op_bytes(&c->out[o], 0);
        assert_true(n == 0 || memcmp(run->call[0].out[o].data, run->call[1].out[o].data, bytes) == 0);
        return;
    }
    double all = op_largest(&run->call[1].out[o]);
    for (size_t e = 0; e < n; e++) {
        double want = ((const double *)run->call[1].out[o].data)[e], size = fabs(want);
        double got = c->out[o].type == OP_DOUBLE
                         ? ((const double *)run->call[0].out[o].data)[e]
                         : (double)((const float *)run->call[0].out[o].data)[e];
        size = c->of == OF_SUM   ? fabs(((const double *)run->call[2].out[o].data)[e])
               : c->of == OF_ALL ? all
                                 : size;
        double bound = c->eps * 1.1920929e-7 * size + 2e-45 * (c->eps + 1);
        bool same = isnan(want) ? isnan(got) != 0
                    : isinf(want) || fabs(want) > 3.4028236e38
                        ? isinf(got) && signbit(got) == signbit(want)
                        : fabs(got - want) <= bound;
        if (!same) {
            fail_msg("%s on %s (%zu x %zu), output %zu, element %zu: %.9g, not %.9g (bound %.3g)",
                     c->what, device, c->out[0].rows, c->out[0].columns, o, e, got, want, bound);
        }
    }
}

/* Runs the case on the device and on the reference and compares all outputs. */
static inline void op_check(const struct op_case *c, const struct tide_device *device,
                            bool planted) {
    const struct tide_device *reference = tide_device_find("reference");
    struct op_run run;
    op_prepare(&run, c, device, planted);
#ifdef TIDE_EMULATED
    struct op_run fresh; /* the same operands */
    op_prepare(&fresh, c, device, planted);
#endif
    assert_int_equal(op_call(device, c->code, &run.call[0]), 0);
#ifdef TIDE_EMULATED
    op_call_orders(device, c->code, &run.call[0], &fresh.call[0]);
    op_release(&fresh, c);
#endif
    assert_int_equal(reference->functions[c->code](&run.call[1]), 0);
    if (c->of == OF_SUM) {
        assert_int_equal(reference->functions[c->code](&run.call[2]), 0);
    }
    for (size_t o = 0; o < c->out_count; o++) {
        op_compare(&run, c, o, device->name);
    }
    op_release(&run, c);
}

#endif
