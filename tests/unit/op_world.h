/* Operands for tests of operations: random values on a device and the same in float64. */
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

enum op_type { OP_FLOAT, OP_IDS, OP_BYTES, OP_DOUBLE };

struct op_shape {
    size_t rows, columns;
    enum op_type type;
    uint32_t below; /* ids: -1 .. below - 1 */
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
                 : s->type == OP_IDS    ? sizeof(int32_t)
                 : s->type == OP_DOUBLE ? sizeof(double)
                                        : 1;
    return s->rows * s->columns * one;
}

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
        if (s->type == OP_IDS) {
            int32_t id = (int32_t)tide_random_below(&random, s->below + 1) - 1;
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
            call->in[i] = (struct tide_operand){malloc(op_bytes(&c->in[i], element) + 64),
                                                c->in[i].rows, c->in[i].columns};
        }
        for (size_t o = 0; o < c->out_count; o++) {
            size_t bytes = op_bytes(&c->out[o], element) + 64;
            call->out[o] = (struct tide_operand){malloc(bytes), c->out[o].rows, c->out[o].columns};
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
    if (c->out[o].type == OP_BYTES) {
        assert_true(n == 0 || memcmp(run->call[0].out[o].data, run->call[1].out[o].data, n) == 0);
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
    assert_int_equal(device->functions[c->code](&run.call[0]), 0);
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
