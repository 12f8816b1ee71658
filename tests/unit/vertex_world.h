/* For tests of programs of vertices: the models of docs/guides/dynamic-networks.md, forests, and a program at
 * work on them. Golden values as in test_graph.c. */
#ifndef TIDE_TEST_VERTEX_WORLD_H
#define TIDE_TEST_VERTEX_WORLD_H

#include "graph_world.h"

#include "graph/levels.h"

static inline double golden(uint32_t i, uint32_t s, double scale) {
    uint32_t x = i * 2654435761u + s * 40503u;
    x ^= x >> 15;
    x *= 2246822519u;
    x ^= x >> 13;
    return (double)(float)(scale * (((x >> 8) & 0xffff) / 65536.0 * 0.2 - 0.1));
}

/* ---- models ---- */

static inline uint32_t none(void) {
    return TIDE_NO_VALUE;
}

static inline void begin_vertices(const char *name) {
    begin(name);
    expect(tide_program_vertex(p));
}

static inline uint32_t child_state(const char *name, uint32_t columns) {
    uint32_t out = 0;
    expect(tide_program_child_state(p, name, columns, &out));
    return out;
}

static inline uint32_t over(enum tide_over what, uint32_t x) {
    uint32_t out = 0;
    expect(tide_program_over(p, what, x, &out));
    return out;
}

static inline uint32_t nth_child(uint32_t nth, uint32_t x) {
    uint32_t out = 0;
    expect(tide_program_nth(p, nth, x, &out));
    return out;
}

static inline uint32_t looked_up(uint32_t rows, uint32_t width) {
    static const struct tide_initial small = {TIDE_INITIAL_UNIFORM, 0.1};
    uint32_t table = 0;
    expect(tide_program_table(p, "E", rows, width, small, &table));
    return op2(TIDE_OP_EMBED, table, input("word", TIDE_VALUE_INDEX, 0, 0, 0, 0));
}

static inline uint32_t columns_of(uint32_t x, uint32_t first, uint32_t count) {
    return apply(TIDE_OP_SLICE, 1, &x, (struct tide_attributes){.first = first, .count = count});
}

static inline uint32_t one_of(enum tide_micro_code code, uint32_t x) {
    return map2(code, x, none());
}

static inline uint32_t mul(uint32_t a, uint32_t b) {
    return map2(TIDE_MICRO_MUL, a, b);
}

static inline uint32_t plus(uint32_t a, uint32_t b) {
    return map2(TIDE_MICRO_ADD, a, b);
}

static inline void classify(uint32_t h, uint32_t width, uint32_t classes, const char *weight,
                            const char *bias) {
    layer("linear", weight, "");
    uint32_t logits = dense(h, weight, bias, width, classes);
    layer("", "", "");
    expect(tide_program_output(p, "logits", logits));
    op2(TIDE_OP_XENT, logits, input("label", TIDE_VALUE_INDEX, 0, 0, 0, 0));
}

/* Child-sum Tree-LSTM (Tai et al. 2015, section 3.1); `lattice`: forget gates see the parent's x. */
static inline void tree_lstm(uint32_t words, uint32_t width, uint32_t classes, bool lattice) {
    begin_vertices("tree_lstm");
    uint32_t h = child_state("h", width), c = child_state("c", width);
    uint32_t x = looked_up(words, width);
    layer("linear", "w", "");
    uint32_t z = dense(x, "W", "b", width, 3 * width);
    layer("linear", "u", "");
    z = plus(z, dense(over(TIDE_OVER_SUM, h), "U", NULL, width, 3 * width));
    layer("linear", "uf", "");
    uint32_t f = dense(h, "Uf", "bf", width, width);
    if (lattice) {
        f = plus(f, dense(x, "Wf", NULL, width, width));
    }
    f = one_of(TIDE_MICRO_SIGMOID, f);
    layer("", "", "");
    uint32_t i = one_of(TIDE_MICRO_SIGMOID, columns_of(z, 0, width));
    uint32_t o = one_of(TIDE_MICRO_SIGMOID, columns_of(z, width, width));
    uint32_t u = one_of(TIDE_MICRO_TANH, columns_of(z, 2 * width, width));
    uint32_t c1 = plus(mul(i, u), over(TIDE_OVER_SUM, mul(f, c)));
    uint32_t h1 = mul(o, one_of(TIDE_MICRO_TANH, c1));
    expect(tide_program_publish(p, "h", h1));
    expect(tide_program_publish(p, "c", c1));
    classify(h1, width, classes, "C", "bC");
    expect(tide_program_differentiate(p, false));
}

static inline void chain_lstm(uint32_t words, uint32_t width) {
    begin_vertices("lm");
    uint32_t h = nth_child(0, child_state("h", width)), c = nth_child(0, child_state("c", width));
    uint32_t x = looked_up(words, width);
    layer("linear", "w", "");
    uint32_t z = dense(x, "W", "b", width, 4 * width);
    layer("linear", "u", "");
    z = plus(z, dense(h, "U", NULL, width, 4 * width));
    layer("", "", "");
    uint32_t i = one_of(TIDE_MICRO_SIGMOID, columns_of(z, 0, width));
    uint32_t f = one_of(TIDE_MICRO_SIGMOID, columns_of(z, width, width));
    uint32_t o = one_of(TIDE_MICRO_SIGMOID, columns_of(z, 2 * width, width));
    uint32_t u = one_of(TIDE_MICRO_TANH, columns_of(z, 3 * width, width));
    uint32_t c1 = plus(mul(f, c), mul(i, u));
    uint32_t h1 = mul(o, one_of(TIDE_MICRO_TANH, c1));
    expect(tide_program_publish(p, "h", h1));
    expect(tide_program_publish(p, "c", c1));
    classify(h1, width, words, "S", "bS");
    expect(tide_program_differentiate(p, false));
}

static inline void tree_fc(uint32_t words, uint32_t width) {
    begin_vertices("tree_fc");
    uint32_t h = child_state("h", width), x = looked_up(words, width);
    uint32_t both = op2(TIDE_OP_CONCAT, nth_child(0, h), nth_child(1, h));
    layer("linear", "fc", "");
    uint32_t h1 = plus(x, one_of(TIDE_MICRO_RELU, dense(both, "W", NULL, 2 * width, width)));
    layer("", "", "");
    expect(tide_program_publish(p, "h", h1));
    expect(tide_program_output(p, "h1", h1));
    op1(TIDE_OP_SUM_LOSS, h1);
    expect(tide_program_differentiate(p, false));
}

/* ---- a program of vertices at work, with one table of its own ---- */

struct forest_work {
    struct work w;
    struct tide_forest *forest;
    char *table, *rows, *gradients; /* [words x width]; of the distinct rows */
    char *on_rows, *on_gradients;   /* where the device has them */
    size_t words, width, room;
    bool serial;
};

static inline struct forest_work start_forest(const char *device, struct tide_plan_options options,
                                              struct tide_forest *forest) {
    struct forest_work f = {.w = start(device, options), .forest = forest};
    if (tide_program_table_count(p) > 0) {
        struct tide_table_place place = tide_program_table_at(p, 0);
        size_t element = f.w.device->element;
        f.words = place.rows;
        f.width = place.columns;
        f.room = place.rows * place.columns * element;
        f.table = calloc(f.room, 1);
        f.rows = calloc(f.room, 1);
        f.gradients = calloc(f.room, 1);
        f.on_rows = f.rows;
        f.on_gradients = f.gradients;
        if (f.w.device->memory) {
            f.on_rows = f.w.device->memory->allocate(f.room);
            f.on_gradients = f.w.device->memory->allocate(f.room);
        }
        tide_program_table_rows(p, 0, 7, element, 0, f.words, f.table);
    }
    return f;
}

static inline void stop_forest(struct forest_work *f) {
    if (f->table && f->w.device->memory) {
        f->w.device->memory->release(f->on_rows);
        f->w.device->memory->release(f->on_gradients);
    }
    stop(&f->w);
    free(f->table);
    free(f->rows);
    free(f->gradients);
}

static inline double at(const struct forest_work *f, const char *array, size_t e) {
    return f->w.device->element == 4 ? (double)((const float *)(const void *)array)[e]
                                     : ((const double *)(const void *)array)[e];
}

static inline void put(const struct forest_work *f, char *array, size_t e, double x) {
    if (f->w.device->element == 4) {
        ((float *)(void *)array)[e] = (float)x;
    } else {
        ((double *)(void *)array)[e] = x;
    }
}

/* One step on samples first .. first + count - 1; gradients are on the host then. */
static inline struct tide_run_loss step_forest(struct forest_work *f, const uint32_t *order,
                                               size_t first, size_t count) {
    const struct tide_memory *memory = f->w.device->memory;
    expect(tide_run_bind_forest(f->w.run, f->forest, order, first, count, f->serial));
    size_t ids = 0, row = f->width * f->w.device->element;
    if (f->table) {
        const uint64_t *id = tide_run_table_ids(f->w.run, 0, &ids);
        for (size_t i = 0; i < ids; i++) {
            memcpy(f->rows + i * row, f->table + id[i] * row, row);
        }
        memset(f->gradients, 0xff, ids * row);
        if (memory) {
            expect(memory->upload(NULL, f->on_rows, f->rows, ids * row + 1));
        }
        tide_run_bind_table(f->w.run, 0, f->on_rows, f->on_gradients);
    }
    expect(tide_run_step(f->w.run, 0, 1, NULL));
    fetch(&f->w);
    if (f->table && memory) {
        expect(memory->download(NULL, f->gradients, f->on_gradients, ids * row));
    }
    return tide_run_loss(f->w.run);
}

/* The gradient of element e of the table, after a step. */
static inline double table_gradient(const struct forest_work *f, size_t e) {
    size_t ids = 0;
    const uint64_t *id = tide_run_table_ids(f->w.run, 0, &ids);
    for (size_t i = 0; i < ids; i++) {
        if (id[i] == e / f->width) {
            return at(f, f->gradients, i * f->width + e % f->width);
        }
    }
    return 0;
}

/* Plain gradient descent on the sum, of the table and of what is not folded. */
static inline void descend(struct forest_work *f, double rate, bool folded) {
    size_t ids = 0;
    const uint64_t *id = f->table ? tide_run_table_ids(f->w.run, 0, &ids) : NULL;
    for (size_t i = 0; i < ids * f->width; i++) {
        size_t e = id[i / f->width] * f->width + i % f->width;
        put(f, f->table, e, at(f, f->table, e) - rate * at(f, f->gradients, i));
    }
    for (size_t k = 0; k < tide_program_parameter_count(p); k++) {
        struct tide_parameter_place place = tide_program_parameter_at(p, k);
        for (size_t e = place.first; e < place.first + place.count; e++) {
            if (!(folded && tide_run_folded(f->w.run, k))) {
                put(f, f->w.parameters, e, at(f, f->w.parameters, e) -
                                               rate * at(f, f->w.gradients, e));
            }
        }
    }
    give(&f->w);
}

static inline struct tide_forest *generated(const char *name, size_t samples, uint32_t words,
                                            uint64_t seed, uint32_t max, uint32_t leaves) {
    struct tide_forest *forest = NULL;
    struct tide_forest_law law = {.name = name,
                                  .samples = samples,
                                  .vocabulary = words,
                                  .seed = seed,
                                  .max = max,
                                  .leaves = leaves};
    expect(tide_forest_generate(&law, &forest));
    return forest;
}

#endif
