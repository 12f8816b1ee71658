/*
 * Training steps of programs of vertices (forward, backward, plain gradient descent at rate 1e-6, rows of
 * words too) in samples a second, one thread, beside the same written by hand (vertex_loop.c):
 *   trees     child-sum Tree-LSTM, trees of the Stanford Sentiment Treebank's law, 20,000 words
 *   complete  the same on complete trees of 256 leaves
 *   lm        LSTM language model, 10,000 words, sentences of the generator's law
 *   fc        Tree-FC on complete trees of 256 leaves
 *   growing   trees whose vertices come one a sample and step, over the same trees as batches
 * Names of these choose; without any all are run. `--serial`: one vertex at a time. Rounds of both take
 * turns, and a row is the median. peers/peer_torch_trees.py prints PyTorch's rows.
 */
#include "base/base.h"
#include "bench/report.h"
#include "bench/vertex_loop.h"
#include "graph/program.h"

#include <stdlib.h>

enum { ROUNDS = 5 };

static void expect(int code) {
    if (code != 0) {
        fprintf(stderr, "bench_vertex: %s\n", tide_error_message());
        exit(1);
    }
}

/* ---- the models as programs ---- */

static struct tide_program *p;

static uint32_t two(enum tide_op_code code, uint32_t a, uint32_t b) {
    uint32_t out = 0;
    expect(tide_program_apply(p, code, (uint32_t[]){a, b}, 2, NULL, &out));
    return out;
}

static uint32_t map(enum tide_micro_code code, uint32_t a, uint32_t b) {
    uint32_t out = 0;
    expect(tide_program_map(p, code, (uint32_t[]){a, b, TIDE_NO_VALUE}, (double[]){0, 0, 0}, &out));
    return out;
}

static uint32_t one(enum tide_micro_code code, uint32_t a) {
    return map(code, a, TIDE_NO_VALUE);
}

static uint32_t dense(const char *name, bool bias, uint32_t x, size_t from, size_t to) {
    static const struct tide_initial small = {TIDE_INITIAL_UNIFORM, 0.05};
    uint32_t w = 0, b = 0, dims[2] = {(uint32_t)from, (uint32_t)to};
    char text[32];
    expect(tide_program_place(p, "linear", name, ""));
    snprintf(text, sizeof(text), "%s.w", name);
    expect(tide_program_parameter(p, text, 2, dims, small, &w));
    uint32_t z = two(TIDE_OP_MM, x, w);
    if (bias) {
        snprintf(text, sizeof(text), "%s.b", name);
        expect(tide_program_parameter(p, text, 1, dims + 1, small, &b));
        z = map(TIDE_MICRO_ADD, z, b);
    }
    expect(tide_program_place(p, "", "", ""));
    return z;
}

static uint32_t slice(uint32_t x, size_t which, size_t h) {
    uint32_t out = 0;
    struct tide_attributes t = {.first = (uint32_t)(which * h), .count = (uint32_t)h};
    expect(tide_program_apply(p, TIDE_OP_SLICE, &x, 1, &t, &out));
    return out;
}

static uint32_t over(uint32_t x) {
    uint32_t out = 0;
    expect(tide_program_over(p, TIDE_OVER_SUM, x, &out));
    return out;
}

static uint32_t nth(uint32_t n, uint32_t x) {
    uint32_t out = 0;
    expect(tide_program_nth(p, n, x, &out));
    return out;
}

static void build(enum loop_model model, uint32_t words, size_t h, size_t classes) {
    uint32_t hs = 0, cs = 0, table = 0, word = 0, label = 0;
    static const struct tide_initial small = {TIDE_INITIAL_UNIFORM, 0.05};
    expect(tide_program_create("vertex", &p));
    expect(tide_program_vertex(p));
    expect(tide_program_child_state(p, "h", (uint32_t)h, &hs));
    expect(tide_program_table(p, "E", words, (uint32_t)h, small, &table));
    expect(tide_program_input(p, "word", TIDE_VALUE_INDEX, 0, NULL, &word));
    uint32_t x = two(TIDE_OP_EMBED, table, word), h1;
    if (model == LOOP_FC) {
        uint32_t both = two(TIDE_OP_CONCAT, nth(0, hs), nth(1, hs));
        h1 = map(TIDE_MICRO_ADD, x,
                 one(TIDE_MICRO_RELU, dense("u", false, both, 2 * h, h)));
        expect(tide_program_publish(p, "h", h1));
        uint32_t out;
        expect(tide_program_apply(p, TIDE_OP_SUM_LOSS, &h1, 1, NULL, &out));
        expect(tide_program_differentiate(p, false));
        return;
    }
    expect(tide_program_child_state(p, "c", (uint32_t)h, &cs));
    bool tree = model == LOOP_TREE;
    size_t gates = tree ? 3 : 4;
    uint32_t S = tree ? over(hs) : nth(0, hs);
    uint32_t z = map(TIDE_MICRO_ADD, dense("w", true, x, h, gates * h),
                     dense("u", false, S, h, gates * h));
    uint32_t i = one(TIDE_MICRO_SIGMOID, slice(z, 0, h)), M;
    uint32_t o = one(TIDE_MICRO_SIGMOID, slice(z, tree ? 1 : 2, h));
    uint32_t u = one(TIDE_MICRO_TANH, slice(z, gates - 1, h));
    if (tree) {
        M = over(map(TIDE_MICRO_MUL, one(TIDE_MICRO_SIGMOID, dense("uf", true, hs, h, h)), cs));
    } else {
        M = map(TIDE_MICRO_MUL, one(TIDE_MICRO_SIGMOID, slice(z, 1, h)), nth(0, cs));
    }
    uint32_t c1 = map(TIDE_MICRO_ADD, map(TIDE_MICRO_MUL, i, u), M);
    h1 = map(TIDE_MICRO_MUL, o, one(TIDE_MICRO_TANH, c1));
    expect(tide_program_publish(p, "h", h1));
    expect(tide_program_publish(p, "c", c1));
    uint32_t logits = dense("c", true, h1, h, classes);
    expect(tide_program_input(p, "label", TIDE_VALUE_INDEX, 0, NULL, &label));
    two(TIDE_OP_XENT, logits, label);
    expect(tide_program_differentiate(p, false));
}

/* ---- both at work ---- */

struct tide_side {
    struct tide_plan *plan;
    struct tide_run *run;
    float *parameters, *gradients, *states, *table, *rows, *row_gradients;
    size_t width, words;
    bool serial;
};

static float *zeros(size_t n) {
    float *x = tide_alloc_aligned(64, (n * sizeof(float) + 127) & ~(size_t)63);
    memset(x, 0, n * sizeof(float));
    return x;
}

static struct tide_side begin(bool serial, bool grows) {
    struct tide_side s = {.serial = serial};
    const struct tide_device *device = tide_device_find("cpu");
    struct tide_plan_options options = {.kind = TIDE_PLAN_TRAIN, .no_reuse = grows};
    size_t n = tide_program_parameter_keys(p) * TIDE_PARAMETER_KEY;
    struct tide_table_place place = tide_program_table_at(p, 0);
    expect(tide_plan_create(p, device, &options, &s.plan));
    expect(tide_run_create(s.plan, 1, &s.run));
    s.width = place.columns;
    s.words = place.rows;
    s.parameters = zeros(n + 16);
    s.gradients = zeros(n + 16);
    s.states = zeros(16);
    s.table = zeros(s.words * s.width);
    s.rows = zeros(s.words * s.width);
    s.row_gradients = zeros(s.words * s.width);
    tide_program_initialise(p, 1, sizeof(float), s.parameters, s.states);
    tide_program_table_rows(p, 0, 1, sizeof(float), 0, s.words, s.table);
    tide_run_bind_parameters(s.run, s.parameters, s.gradients, s.states);
    if (!grows) {
        tide_run_fold(s.run, 1e-6);
        tide_run_divide(s.run, 1);
    }
    return s;
}

static void end(struct tide_side *s) {
    tide_run_destroy(s->run);
    tide_plan_destroy(s->plan);
    float *all[] = {s->parameters, s->gradients, s->states, s->table, s->rows, s->row_gradients};
    for (size_t i = 0; i < TIDE_COUNT(all); i++) {
        tide_free(all[i]);
    }
}

/* Plain gradient descent, of rows and of what no product has changed. */
static void update(struct tide_side *s) {
    const struct tide_device *device = tide_device_find("cpu");
    const struct tide_step rule = {.rule = TIDE_RULE_SGD, .rate = 1e-6, .scale = 1};
    size_t ids, w = s->width;
    const uint64_t *id = tide_run_table_ids(s->run, 0, &ids);
    for (size_t i = 0; i < ids; i++) {
        device->update(&rule, w, s->table + id[i] * w, s->row_gradients + i * w, NULL, NULL);
    }
    for (size_t i = 0; i < tide_program_parameter_count(p); i++) {
        struct tide_parameter_place place = tide_program_parameter_at(p, i);
        if (!tide_run_folded(s->run, i)) {
            device->update(&rule, place.count, s->parameters + place.first,
                           s->gradients + place.first, NULL, NULL);
        }
    }
}

static void step(struct tide_side *s, const struct tide_forest *f, size_t first, size_t count) {
    size_t ids, w = s->width;
    expect(tide_run_bind_forest(s->run, f, NULL, first, count, s->serial));
    const uint64_t *id = tide_run_table_ids(s->run, 0, &ids);
    for (size_t i = 0; i < ids; i++) {
        memcpy(s->rows + i * w, s->table + id[i] * w, w * sizeof(float));
    }
    tide_run_bind_table(s->run, 0, s->rows, s->row_gradients);
    expect(tide_run_step(s->run, 0, 1, NULL));
    update(s);
}

/* The same vertices one a sample and step; number: room for that of each vertex of the forest. */
static void grow(struct tide_side *s, const struct tide_forest *f, size_t first, size_t count,
                 uint32_t *number) {
    const int32_t *word = tide_forest_find(f, "word")->data, *label = tide_forest_find(f, "label")->data;
    tide_run_bind_table(s->run, 0, s->table, s->row_gradients);
    expect(tide_run_grow(s->run, 4096));
    bool more = true;
    for (size_t t = 0; more; t++) {
        more = false;
        for (size_t i = first; i < first + count; i++) {
            size_t v = f->sample_start[i] + t;
            if (v >= f->sample_start[i + 1]) {
                continue;
            }
            uint32_t children[8], n = 0;
            for (uint32_t e = f->child_start[v]; e < f->child_start[v + 1] && n < 8; e++) {
                children[n++] = number[f->sample_start[i] + (size_t)f->child[e]];
            }
            const struct tide_grow_input in[] = {{"word", &word[v]}, {"label", &label[v]}};
            expect(tide_run_grow_add(s->run, children, n, in, 2, &number[v]));
            more = true;
        }
        const uint32_t *ids;
        size_t rows;
        expect(tide_run_grow_step(s->run, 1, &ids, &rows));
    }
    expect(tide_run_grow_finish(s->run, 1));
    update(s);
}

struct hand_side {
    struct loop *loop;
    struct tide_levels *levels;
};

static struct tide_levels *plan_for_hand(uint32_t words) {
    struct tide_levels_want want = {.lists = 1u << TIDE_LIST_PARENT_START,
                                    .input_count = 2,
                                    .lookup_count = 1,
                                    .table_count = 1,
                                    .element = sizeof(float)};
    struct tide_levels *l = NULL;
    for (size_t i = 0; i < 2; i++) {
        snprintf(want.inputs[i].name, sizeof(want.inputs[i].name), "%s", i ? "label" : "word");
        want.inputs[i].index = true;
        want.inputs[i].columns = 1;
    }
    want.lookups[0].rows = words;
    expect(tide_levels_create(&want, &l));
    return l;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *x) {
    qsort(x, ROUNDS, sizeof(*x), by_size);
    return x[ROUNDS / 2];
}

struct setting {
    const char *name, *law;
    enum loop_model model;
    uint32_t words, leaves;
    size_t classes, samples;
};

static void run_setting(const struct setting *s, size_t h, size_t batch, bool serial) {
    struct tide_forest_law law = {.name = s->law,
                                  .samples = s->samples,
                                  .vocabulary = s->words,
                                  .seed = 1,
                                  .leaves = s->leaves,
                                  .skew = 50};
    struct tide_forest *f = NULL;
    expect(tide_forest_generate(&law, &f));
    build(s->model, s->words, h, s->classes);
    struct tide_side tide = begin(serial, false);
    struct hand_side hand = {
        loop_create(s->model, s->words, h, s->classes, f->vertices + 1), plan_for_hand(s->words)};
    double times[2][ROUNDS], plan_time = 0;
    size_t at = 0, planned = 0;
    for (size_t r = 0; r < ROUNDS + 1; r++) { /* the first round warms up */
        for (size_t side = 0; side < 2; side++) {
            size_t done = 0, from = at;
            uint64_t began = report_processor_time(), took;
            do {
                size_t first = from * batch % s->samples;
                first = first + batch > s->samples ? 0 : first;
                if (side == 0) {
                    step(&tide, f, first, batch);
                } else {
                    uint64_t before = report_processor_time();
                    expect(tide_levels_make(hand.levels, f, NULL, first, batch, false, false));
                    plan_time += (double)(report_processor_time() - before);
                    planned += hand.levels->vertices;
                    loop_step(hand.loop, hand.levels, 1e-6f);
                }
                done += batch;
                from++;
                took = report_processor_time() - began;
            } while (took < 60000000 || done < 2 * batch);
            if (r > 0) {
                times[side][r - 1] = (double)took * 1e-9 / (double)done;
            }
        }
        at++;
    }
    char what[80];
    double own = median(times[0]), other = median(times[1]);
    snprintf(what, sizeof(what), "%s H %zu B %zu%s", s->name, h, batch, serial ? " serial" : "");
    report_row(what, "samples/s", 1 / own);
    snprintf(what, sizeof(what), "%s H %zu B %zu by hand", s->name, h, batch);
    report_row(what, "samples/s", 1 / other);
    snprintf(what, sizeof(what), "%s H %zu B %zu ratio", s->name, h, batch);
    report_row(what, "x by hand", other / own);
    if (h == 64 && batch == 64) {
        snprintf(what, sizeof(what), "%s B %zu plan", s->name, batch);
        report_row(what, "ns a vertex", plan_time / (double)planned);
    }
    end(&tide);
    loop_destroy(hand.loop);
    tide_levels_destroy(hand.levels);
    tide_program_destroy(p);
    tide_forest_destroy(f);
}

static void run_growing(size_t h, size_t batch) {
    struct tide_forest_law law = {
        .name = "skewed_trees", .samples = 4 * batch, .vocabulary = 20000, .seed = 1, .skew = 50};
    struct tide_forest *f = NULL;
    expect(tide_forest_generate(&law, &f));
    build(LOOP_TREE, 20000, h, 5);
    struct tide_side whole = begin(false, false), growing = begin(false, true);
    uint32_t *number = tide_alloc(f->vertices * sizeof(*number));
    double times[2][ROUNDS];
    for (size_t r = 0; r < ROUNDS + 1; r++) {
        for (size_t side = 0; side < 2; side++) {
            uint64_t began = report_processor_time();
            for (size_t first = 0; first < 4 * batch; first += batch) {
                if (side == 0) {
                    step(&whole, f, first, batch);
                } else {
                    grow(&growing, f, first, batch, number);
                }
            }
            if (r > 0) {
                times[side][r - 1] = (double)(report_processor_time() - began);
            }
        }
    }
    char what[80];
    snprintf(what, sizeof(what), "growing H %zu B %zu", h, batch);
    report_row(what, "x of batches", median(times[0]) / median(times[1]));
    end(&whole);
    end(&growing);
    tide_free(number);
    tide_program_destroy(p);
    tide_forest_destroy(f);
}

int main(int argc, char **argv) {
    static const struct setting settings[] = {
        {"trees", "skewed_trees", LOOP_TREE, 20000, 0, 5, 512},
        {"complete", "balanced_trees", LOOP_TREE, 20000, 256, 5, 64},
        {"lm", "chains", LOOP_CHAIN, 10000, 0, 10000, 256},
        {"fc", "balanced_trees", LOOP_FC, 20000, 256, 1, 64},
    };
    static const size_t widths[] = {64, 256, 512}, batches[] = {1, 16, 64};
    bool chosen = false, serial = false;
    report_init(argc, argv, "vertex");
    for (int i = 1; i < argc; i++) {
        serial = serial || strcmp(argv[i], "--serial") == 0;
        chosen = chosen || argv[i][0] != '-';
    }
    for (size_t k = 0; k < TIDE_COUNT(settings); k++) {
        bool wanted = !chosen;
        for (int i = 1; i < argc; i++) {
            wanted = wanted || strcmp(argv[i], settings[k].name) == 0;
        }
        for (size_t w = 0; wanted && w < TIDE_COUNT(widths); w++) {
            for (size_t b = 0; b < TIDE_COUNT(batches); b++) {
                if (settings[k].model != LOOP_CHAIN || batches[b] == 64) {
                    run_setting(&settings[k], widths[w], batches[b], serial);
                }
            }
        }
    }
    bool grows = !chosen;
    for (int i = 1; i < argc; i++) {
        grows = grows || strcmp(argv[i], "growing") == 0;
    }
    if (grows) {
        run_growing(256, 64);
    }
    return 0;
}
