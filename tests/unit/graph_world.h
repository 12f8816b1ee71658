/* For tests of programs: a small language that builds them, batches of random inputs, and a program
 * at work. */
#ifndef TIDE_TEST_GRAPH_WORLD_H
#define TIDE_TEST_GRAPH_WORLD_H

#include "base/base.h"
#include "graph/program.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#ifdef TIDE_EMULATED /* kernels/tensor/cuda on the emulation of tests/cuda takes the fast device's place  \
                      */
#include "kernel.h"
const struct tide_backend *tide_backend_entry(void);
#define FAST "cuda"
#elif defined(TIDE_ON_GPU)
#define FAST "cuda"
#else
#define FAST "cpu"
#endif

static inline const struct tide_device *device_named(const char *name) {
#ifdef TIDE_EMULATED
    if (strcmp(name, FAST) == 0) {
        return tide_backend_entry()->device;
    }
#endif
    return tide_device_find(name);
}

__attribute__((unused)) static const struct tide_initial uniform = {TIDE_INITIAL_UNIFORM, 0.5};
__attribute__((unused)) static const struct tide_initial zero = {TIDE_INITIAL_CONSTANT, 0};
__attribute__((unused)) static const struct tide_initial one = {TIDE_INITIAL_CONSTANT, 1};

/* ---- small language for building ---- */

static struct tide_program *p;

static inline void begin(const char *name) {
    assert_int_equal(tide_program_create(name, &p), 0);
}

static inline void expect(int code) {
    if (code != 0) {
        fail_msg("%s", tide_error_message());
    }
}

static inline uint32_t input(const char *name, enum tide_value_type type, size_t rank, uint32_t a,
                             uint32_t b, uint32_t c) {
    uint32_t out = 0;
    expect(tide_program_input(p, name, type, rank, (uint32_t[]){a, b, c}, &out));
    return out;
}

static inline uint32_t parameter(const char *name, size_t rank, uint32_t a, uint32_t b,
                                 struct tide_initial initial) {
    uint32_t out = 0;
    expect(tide_program_parameter(p, name, rank, (uint32_t[]){a, b}, initial, &out));
    return out;
}

static inline uint32_t state(const char *name, uint32_t a, struct tide_initial initial) {
    uint32_t out = 0;
    expect(tide_program_state(p, name, 1, &a, initial, &out));
    return out;
}

static inline uint32_t apply(enum tide_op_code code, size_t count, const uint32_t *in,
                             struct tide_attributes attributes) {
    uint32_t out = 0;
    expect(tide_program_apply(p, code, in, count, &attributes, &out));
    return out;
}

static inline uint32_t op1(enum tide_op_code code, uint32_t a) {
    return apply(code, 1, &a, (struct tide_attributes){0});
}

static inline uint32_t op2(enum tide_op_code code, uint32_t a, uint32_t b) {
    return apply(code, 2, (uint32_t[]){a, b}, (struct tide_attributes){0});
}

static inline uint32_t map(enum tide_micro_code code, uint32_t a, uint32_t b, uint32_t c) {
    uint32_t out = 0;
    double half[3] = {0.5, 0.5, 0.5};
    expect(tide_program_map(p, code, (uint32_t[]){a, b, c}, half, &out));
    return out;
}

static inline uint32_t map2(enum tide_micro_code code, uint32_t a, uint32_t b) {
    return map(code, a, b, TIDE_NO_VALUE);
}

static inline uint32_t flat(uint32_t x, uint32_t columns) {
    uint32_t out = 0;
    expect(tide_program_reshape(p, x, 1, &columns, &out));
    return out;
}

static inline struct tide_attributes window(uint32_t k, uint32_t stride, uint32_t pad) {
    return (struct tide_attributes){.window = {.kh = k, .kw = k, .stride = stride, .pad = pad}};
}

static inline uint32_t conv(uint32_t x, uint32_t w, uint32_t k, uint32_t stride) {
    return apply(TIDE_OP_CONV, 2, (uint32_t[]){x, w}, window(k, stride, k / 2));
}

static inline uint32_t batchnorm(uint32_t x, const char *name, uint32_t c) {
    char text[4][32];
    static const char *const parts[] = {"gamma", "beta", "mean", "var"};
    for (size_t i = 0; i < 4; i++) {
        snprintf(text[i], sizeof(text[i]), "%s.%s", name, parts[i]);
    }
    uint32_t in[5] = {x, parameter(text[0], 1, c, 0, one), parameter(text[1], 1, c, 0, zero),
                      state(text[2], c, zero), state(text[3], c, one)};
    return apply(TIDE_OP_BATCHNORM, 5, in, (struct tide_attributes){.eps = 1e-5, .rate = 0.1});
}

static inline void layer(const char *kind, const char *name, const char *at) {
    expect(tide_program_place(p, kind, name, at));
}

/* ---- a program at work ---- */

struct work {
    const struct tide_device *device;
    struct tide_plan *plan;
    struct tide_run *run;
    void *parameters, *gradients, *states; /* on the host */
    struct {
        void *parameters, *gradients, *states; /* where the device has them: perhaps the same */
    } on;
    size_t elements;
};

static inline size_t state_bytes(const struct work *w) {
    return (tide_program_state_elements(p) + 16) * w->device->element;
}

/* Parameters and states from the host to the device, if it has memory of its own. */
static inline void give(struct work *w) {
    const struct tide_memory *memory = w->device->memory;
    size_t bytes = w->elements * w->device->element;
    if (memory) {
        assert_int_equal(memory->upload(NULL, w->on.parameters, w->parameters, bytes), 0);
        assert_int_equal(memory->upload(NULL, w->on.states, w->states, state_bytes(w)), 0);
    }
}

/* All three from the device. */
static inline void fetch(struct work *w) {
    const struct tide_memory *memory = w->device->memory;
    size_t bytes = w->elements * w->device->element;
    if (memory) {
        assert_int_equal(memory->download(NULL, w->parameters, w->on.parameters, bytes), 0);
        assert_int_equal(memory->download(NULL, w->gradients, w->on.gradients, bytes), 0);
        assert_int_equal(memory->download(NULL, w->states, w->on.states, state_bytes(w)), 0);
    }
}

static inline struct work start(const char *device, struct tide_plan_options options) {
    struct work w = {.device = device_named(device)};
    assert_non_null(w.device);
    expect(tide_plan_create(p, w.device, &options, &w.plan));
    expect(tide_run_create(w.plan, 42, &w.run));
    w.elements = tide_program_parameter_keys(p) * TIDE_PARAMETER_KEY;
    w.parameters = tide_alloc_aligned(64, (w.elements + 16) * w.device->element);
    w.gradients = tide_alloc_aligned(64, (w.elements + 16) * w.device->element);
    w.states = tide_alloc_aligned(64, (tide_program_state_elements(p) + 16) * w.device->element);
    memset(w.gradients, 0, (w.elements + 16) * w.device->element);
    tide_program_initialise(p, 7, w.device->element, w.parameters, w.states);
    w.on.parameters = w.parameters;
    w.on.gradients = w.gradients;
    w.on.states = w.states;
    if (w.device->memory) {
        w.on.parameters = w.device->memory->allocate(w.elements * w.device->element);
        w.on.gradients = w.device->memory->allocate(w.elements * w.device->element);
        w.on.states = w.device->memory->allocate(state_bytes(&w));
        assert_true(w.on.parameters && w.on.gradients && w.on.states);
        assert_int_equal(w.device->memory->upload(NULL, w.on.gradients, w.gradients,
                                                  w.elements * w.device->element),
                         0);
        give(&w);
    }
    tide_run_bind_parameters(w.run, w.on.parameters, w.on.gradients, w.on.states);
    return w;
}

static inline void stop(struct work *w) {
    tide_run_destroy(w->run);
    tide_plan_destroy(w->plan);
    if (w->device->memory) {
        w->device->memory->release(w->on.parameters);
        w->device->memory->release(w->on.gradients);
        w->device->memory->release(w->on.states);
    }
    tide_free(w->parameters);
    tide_free(w->gradients);
    tide_free(w->states);
}

/* Random inputs by name: floats in (0.1, 1.1), indices below 3. */
struct batch {
    size_t rows, count;
    struct {
        char name[16];
        bool index;
        size_t columns;
        double *f64;
        float *f32;
        int32_t *i32;
    } in[4];
};

static inline void add_input(struct batch *b, const char *name, bool index, size_t columns) {
    struct tide_random random;
    tide_random_seed(&random, 11 + b->count);
    size_t i = b->count++, n = b->rows * columns;
    snprintf(b->in[i].name, sizeof(b->in[i].name), "%s", name);
    b->in[i].index = index;
    b->in[i].columns = columns;
    b->in[i].f64 = calloc(n + 1, sizeof(double));
    b->in[i].f32 = calloc(n + 1, sizeof(float));
    b->in[i].i32 = calloc(n + 1, sizeof(int32_t));
    for (size_t e = 0; e < n; e++) {
        b->in[i].f32[e] = (float)(0.1 + tide_random_uniform(&random));
        b->in[i].f64[e] = (double)b->in[i].f32[e];
        b->in[i].i32[e] = (int32_t)tide_random_below(&random, 4) - 1;
    }
}

static inline void bind(struct work *w, const struct batch *b) {
    for (size_t i = 0; i < b->count; i++) {
        const void *data = b->in[i].index            ? (const void *)b->in[i].i32
                           : w->device->element == 8 ? (const void *)b->in[i].f64
                                                     : (const void *)b->in[i].f32;
        expect(tide_run_bind(w->run, b->in[i].name, data));
    }
}

static inline void release(struct batch *b) {
    for (size_t i = 0; i < b->count; i++) {
        free(b->in[i].f64);
        free(b->in[i].f32);
        free(b->in[i].i32);
    }
}

static inline double loss_at(struct work *w, const struct batch *b) {
    expect(tide_run_step(w->run, b->rows, 1, NULL));
    fetch(w);
    return tide_run_loss(w->run).sum;
}

static inline struct tide_parameter_place find(const char *name) {
    for (size_t i = 0; i < tide_program_parameter_count(p); i++) {
        if (strcmp(tide_program_parameter_at(p, i).name, name) == 0) {
            return tide_program_parameter_at(p, i);
        }
    }
    fail_msg("no parameter %s", name);
    return (struct tide_parameter_place){0};
}

static inline uint32_t dense(uint32_t x, const char *w, const char *b, uint32_t from, uint32_t to) {
    static const struct tide_initial small = {TIDE_INITIAL_UNIFORM, 0.05};
    uint32_t z = op2(TIDE_OP_MM, x, parameter(w, 2, from, to, small));
    return b ? map2(TIDE_MICRO_ADD, z, parameter(b, 1, to, 0, zero)) : z;
}

#endif
