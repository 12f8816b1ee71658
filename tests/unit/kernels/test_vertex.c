/*
 * Programs of vertices: whole training runs against figures computed elsewhere in float64,
 * derivatives by differences, batches against one vertex at a time.
 */
#include "vertex_world.h"

struct golden_part {
    const char *name; /* "E": the table */
    uint32_t number;
    double norm; /* of the gradient at step 0; 0: not checked */
};

struct golden_run {
    const char *name;
    size_t samples, batch;
    double rate, scale;
    double losses[8];
    const struct golden_part *parts;
    size_t part_count;
};

static const struct golden_part parts1[] = {
    {"E", 1, 26.5924}, {"W", 2, 30.4317}, {"U", 3, 33.0921},   {"Uf", 4, 4.2253},
    {"C", 5, 30.9133}, {"b", 0, 235.192}, {"bf", 0, 3.59763}, {"bC", 0, 100.175}};
static const struct golden_part parts2[] = {{"E", 1, 0}, {"W", 2, 0}, {"U", 3, 0},
                                            {"Uf", 4, 0}, {"C", 5, 0}};
static const struct golden_part parts3[] = {{"E", 1, 39.3106}, {"W", 2, 37.3129}, {"U", 3, 62.6987},
                                            {"S", 5, 28.5579}, {"b", 0, 54.8371},
                                            {"bS", 0, 23.1786}};
static const struct golden_part parts4[] = {{"E", 1, 0}, {"W", 2, 0}, {"U", 3, 0}, {"S", 5, 0}};
static const struct golden_part parts5[] = {{"E", 1, 1816.50}, {"W", 2, 11668.2}};
static const struct golden_part parts6[] = {
    {"E", 1, 37.4393},  {"W", 2, 39.2656}, {"U", 3, 44.7044}, {"Wf", 6, 4.63182}, {"Uf", 4, 7.08533},
    {"C", 5, 31.6220}, {"b", 0, 79.4490}, {"bf", 0, 5.04767}, {"bC", 0, 42.8089}};

#define PARTS(array) (array), sizeof(array) / sizeof((array)[0])
static const struct golden_run runs[] = {
    {"T1", 128, 16, 0.001, 4,
     {1.645920, 1.503853, 1.487685, 1.415249, 1.445700, 1.360979, 1.345291, 1.320805},
     PARTS(parts1)},
    {"T2", 32, 8, 0.001, 4,
     {1.625836, 1.484434, 1.412256, 1.384180, 1.415282, 1.415486, 1.364440, 1.356128},
     PARTS(parts2)},
    {"T3", 128, 16, 0.001, 4,
     {6.923075, 6.949544, 6.956754, 6.954419, 7.000773, 6.950482, 6.953239, 6.928606},
     PARTS(parts3)},
    {"T4", 64, 8, 0.001, 4,
     {6.983275, 7.024426, 6.965246, 7.001228, 7.017998, 6.966284, 6.995535, 6.993181},
     PARTS(parts4)},
    {"T5", 32, 8, 0.0001, 4,
     {13.735732, 8.002215, 7.255764, 6.731832, 6.227273, 5.939281, 5.798048, 5.599291},
     PARTS(parts5)},
    {"T6", 64, 8, 0.001, 4,
     {1.564087, 1.653786, 1.587769, 1.740668, 1.606451, 1.530684, 1.518596, 1.565134},
     PARTS(parts6)},
};

enum { H = 64, WORDS = 1000 };

static struct tide_forest *build(size_t which) {
    switch (which) {
    case 0:
        tree_lstm(WORDS, H, 5, false);
        return generated("random_trees", 128, WORDS, 1, 19, 0);
    case 1:
        tree_lstm(WORDS, H, 5, false);
        return generated("balanced_trees", 32, WORDS, 2, 0, 64);
    case 2:
        chain_lstm(WORDS, H);
        return generated("chains", 128, WORDS, 3, 0, 0);
    case 3:
        chain_lstm(WORDS, H);
        return generated("chains", 64, WORDS, 4, 0, 64);
    case 4:
        tree_fc(WORDS, H);
        return generated("balanced_trees", 32, WORDS, 2, 0, 64);
    default:
        tree_lstm(WORDS, H, 5, true);
        return generated("lattices", 64, WORDS, 6, 0, 0);
    }
}

static void set_golden(struct forest_work *f, const struct golden_run *g) {
    for (size_t i = 0; i < tide_program_parameter_count(p); i++) {
        struct tide_parameter_place place = tide_program_parameter_at(p, i);
        for (size_t e = 0; e < place.count; e++) { /* forget gates of chains begin open */
            bool forget = strcmp(place.name, "b") == 0 && place.count == 4 * H && e / H == 1;
            put(f, f->w.parameters, place.first + e, forget ? 1 : 0);
        }
    }
    for (size_t k = 0; k < g->part_count; k++) {
        const struct golden_part *part = &g->parts[k];
        if (strcmp(part->name, "E") == 0) {
            for (size_t e = 0; e < f->words * f->width; e++) {
                put(f, f->table, e, golden((uint32_t)e, part->number, g->scale));
            }
            continue;
        }
        struct tide_parameter_place place = find(part->name);
        for (size_t e = 0; part->number > 0 && e < place.count; e++) {
            size_t in = e / place.columns, out = e % place.columns;
            put(f, f->w.parameters, place.first + e,
                golden((uint32_t)(out * place.rows + in), part->number, g->scale));
        }
    }
    give(&f->w);
}

static double norm_of(const struct forest_work *f, const char *name) {
    double sum = 0;
    if (strcmp(name, "E") == 0) {
        size_t ids = 0;
        tide_run_table_ids(f->w.run, 0, &ids);
        for (size_t e = 0; e < ids * f->width; e++) {
            sum += pow(at(f, f->gradients, e), 2);
        }
        return sqrt(sum);
    }
    struct tide_parameter_place place = find(name);
    for (size_t e = place.first; e < place.first + place.count; e++) {
        sum += pow(at(f, f->w.gradients, e), 2);
    }
    return sqrt(sum);
}

static void train(size_t which, const char *device, struct tide_plan_options options, bool fold,
                  bool serial, size_t steps) {
    const struct golden_run *g = &runs[which];
    struct tide_forest *forest = build(which);
    struct forest_work f = start_forest(device, options, forest);
    f.serial = serial;
    set_golden(&f, g);
    if (fold) {
        tide_run_fold(f.w.run, g->rate);
        tide_run_divide(f.w.run, 1);
    }
    for (size_t t = 0; t < steps; t++) {
        struct tide_run_loss loss = step_forest(&f, NULL, t * g->batch % g->samples, g->batch);
        double mean = loss.sum / (double)tide_run_batch(f.w.run).vertices;
        if (!(fabs(mean - g->losses[t]) <= 2e-5 * g->losses[t])) {
            fail_msg("%s on %s, fold %d, serial %d, step %zu: loss %.6f, not %.6f", g->name, device, fold,
                     serial, t, mean,
                     g->losses[t]);
        }
        for (size_t k = 0; t == 0 && !fold && k < g->part_count; k++) {
            double norm = norm_of(&f, g->parts[k].name), want = g->parts[k].norm;
            if (want > 0 && !(fabs(norm - want) <= 1e-4 * want)) {
                fail_msg("%s on %s: gradient of %s has norm %.6g, not %.6g", g->name, device,
                         g->parts[k].name, norm, want);
            }
        }
        descend(&f, g->rate, fold);
    }
    stop_forest(&f);
    tide_forest_destroy(forest);
    tide_program_destroy(p);
}

static void golden_losses_on_the_fast_device(void **cmocka_state) {
    (void)cmocka_state;
#ifdef TIDE_EMULATED
    for (size_t i = 0; i < TIDE_COUNT(runs); i += 2) {
        train(i, FAST, (struct tide_plan_options){0}, false, false, 1);
    }
#else
    for (size_t i = 0; i < TIDE_COUNT(runs); i++) {
        train(i, FAST, (struct tide_plan_options){0}, false, false, 8);
        train(i, FAST, (struct tide_plan_options){0}, true, false, 8);
        train(i, FAST, (struct tide_plan_options){.no_fusion = true, .no_reuse = true}, false,
              false, 2);
        train(i, FAST, (struct tide_plan_options){0}, false, true, 1);
    }
    train(0, "cpu-plain", (struct tide_plan_options){0}, false, false, 3);
    if (tide_device_find("cpu-avx2")) {
        train(2, "cpu-avx2", (struct tide_plan_options){0}, false, false, 3);
    }
#endif
}

static void golden_losses_on_the_reference(void **cmocka_state) {
    (void)cmocka_state;
    for (size_t i = 0; i < TIDE_COUNT(runs); i++) {
        train(i, "reference", (struct tide_plan_options){0}, false, false, 1);
    }
}

/* ---- forests of all shapes, and models of all spaces ---- */

static bool of_kinds; /* the program of now has kinds a, b, c */

/* Shapes that batches must bear: single vertices, a chain, a star, a vertex with many parents, one that
 * is its parent's child twice, a diamond. */
static struct tide_forest *odd_forest(size_t chain, size_t star) {
    struct tide_forest *f = NULL;
    expect(tide_forest_create(&f));
    expect(tide_forest_input(f, "word", false, true, 1, 12));
    expect(tide_forest_input(f, "label", false, true, 1, 3));
    expect(tide_forest_input(f, "weight", true, false, 2, 0));
    if (of_kinds) {
        expect(tide_forest_kinds(f, 3, (const char *const[]){"c", "b", "a"}));
    }
    size_t most = (chain > star ? chain : star) + 2;
    uint32_t *start = calloc(most + 1, sizeof(*start));
    int32_t *child = calloc(2 * most, sizeof(*child)), *word = calloc(most, sizeof(*word)),
            *mark = calloc(most, sizeof(*mark)), *kind = calloc(most, sizeof(*kind));
    float *weight = calloc(4 * most, sizeof(*weight));
    for (size_t v = 0; v < most; v++) {
        word[v] = v % 3 == 2 ? -1 : (int32_t)(v * 7 % 12);
        mark[v] = v % 4 == 3 ? -1 : (int32_t)(v % 3);
        kind[v] = (int32_t)(v * 5 / 2 % 3);
    }
    for (size_t e = 0; e < 4 * most; e++) {
        weight[e] = 0.1f * (float)(e * 13 % 17) - 0.8f;
    }
    const int32_t *indices[4] = {word, mark, NULL, kind};
    const float *floats[4] = {NULL, NULL, weight, NULL};
    for (size_t k = 0; k < 2; k++) {
        start[1] = 0;
        expect(tide_forest_add(f, 1, start, child, indices, floats));
    }
    for (size_t v = 0; v < chain; v++) { /* written root first, so it is sorted */
        start[v + 1] = start[v] + (v + 1 < chain);
        child[v] = (int32_t)v + 1;
    }
    expect(tide_forest_add(f, chain, start, child, indices, floats));
    for (size_t v = 0; v <= star; v++) { /* the last one is the parent of all */
        start[v + 1] = v < star ? 0 : (uint32_t)star;
        child[v] = (int32_t)v;
    }
    expect(tide_forest_add(f, star + 1, start, child, indices, floats));
    for (size_t v = 0; v <= star; v++) { /* the first one is the child of all */
        start[v + 1] = (uint32_t)v;
        child[v] = 0;
    }
    expect(tide_forest_add(f, star + 1, start, child, indices, floats));
    static const uint32_t diamond[] = {0, 0, 1, 2, 5};
    static const int32_t sides[] = {0, 0, 1, 2, 2}; /* one side twice */
    expect(tide_forest_add(f, 4, diamond, sides, indices, floats));
    free(start);
    free(child);
    free(word);
    free(mark);
    free(kind);
    free(weight);
    return f;
}

enum { MODELS = 8, SMALL = 4 };

static void kind(const char *name) {
    expect(tide_program_kind(p, name));
}

static void publish_both(uint32_t h, uint32_t g) {
    expect(tide_program_publish(p, "h", h));
    expect(tide_program_publish(p, "g", g));
}

/* Leaves that have no children to ask, and losses of inner vertices alone. */
static void leaf_and_inner(void) {
    static const struct tide_initial small = {TIDE_INITIAL_UNIFORM, 0.1};
    uint32_t table = 0, word = input("word", TIDE_VALUE_INDEX, 0, 0, 0, 0);
    uint32_t h = child_state("h", SMALL), g = child_state("g", SMALL);
    expect(tide_program_table(p, "E", 12, SMALL, small, &table));
    kind("leaf");
    layer("linear", "leaf", "");
    uint32_t x = op2(TIDE_OP_EMBED, table, word);
    uint32_t own = one_of(TIDE_MICRO_TANH, dense(x, "w", "b", SMALL, SMALL));
    publish_both(own, one_of(TIDE_MICRO_SIGMOID, own));
    kind("inner");
    layer("linear", "inner", "");
    x = plus(op2(TIDE_OP_EMBED, table, word), nth_child(0, g));
    uint32_t z = plus(dense(x, "v", "c", SMALL, SMALL),
                      dense(over(TIDE_OVER_SUM, h), "u", NULL, SMALL, SMALL));
    uint32_t h1 = one_of(TIDE_MICRO_TANH, z);
    publish_both(h1, h1); /* one value as two states */
    classify(h1, SMALL, 3, "C", "bC");
    expect(tide_program_differentiate(p, false));
}

/* Kinds that meet as each other's parents and children; a layer that two share; what is computed once
 * a child, at edges, by name, of the largest; what only one of them puts out, or all. */
static void three_kinds(void) {
    static const struct tide_initial small = {TIDE_INITIAL_UNIFORM, 0.1}, some = {TIDE_INITIAL_UNIFORM, 0.5};
    uint32_t table = 0, weights = 0, columns = 2, word = input("word", TIDE_VALUE_INDEX, 0, 0, 0, 0);
    uint32_t label = input("label", TIDE_VALUE_INDEX, 0, 0, 0, 0);
    uint32_t h = child_state("h", SMALL), g = child_state("g", SMALL);
    expect(tide_program_table(p, "E", 12, SMALL, small, &table));
    expect(tide_program_edge_input(p, "weight", TIDE_VALUE_FLOAT, 1, &columns, &weights));
    layer("linear", "both", "");
    uint32_t both = parameter("both", 2, SMALL, SMALL, some);
    kind("a");
    layer("linear", "of a", "");
    uint32_t f = one_of(TIDE_MICRO_SIGMOID, dense(h, "uf", "bf", SMALL, SMALL)); /* once a child */
    uint32_t s = over(TIDE_OVER_SUM, mul(f, g)), x = op2(TIDE_OP_EMBED, table, word);
    uint32_t z = plus(op2(TIDE_OP_MM, x, both), dense(s, "u", NULL, SMALL, SMALL));
    uint32_t h1 = one_of(TIDE_MICRO_TANH, z);
    publish_both(h1, s);
    expect(tide_program_output(p, "h1", h1));
    op2(TIDE_OP_XENT, dense(h1, "C", "bC", SMALL, 3), label);
    kind("b");
    layer("linear", "of b", "");
    uint32_t top = over(TIDE_OVER_MAX, plus(h, g));
    z = op2(TIDE_OP_MM, op2(TIDE_OP_CONCAT, nth_child(0, h), nth_child(1, g)),
            parameter("ub", 2, 2 * SMALL, SMALL, some));
    h1 = one_of(TIDE_MICRO_SIGMOID, plus(z, op2(TIDE_OP_MM, top, both)));
    publish_both(columns_of(op2(TIDE_OP_CONCAT, h1, top), 2, SMALL), h1);
    expect(tide_program_output(p, "h1", h1));
    expect(tide_program_output(p, "top", top));
    op1(TIDE_OP_SUM_LOSS, one_of(TIDE_MICRO_SQR, h1));
    kind("c");
    layer("linear", "of c", "");
    uint32_t gate = one_of(TIDE_MICRO_SIGMOID, dense(weights, "we", NULL, 2, SMALL));
    x = op2(TIDE_OP_EMBED, table, word);
    z = plus(x, over(TIDE_OVER_SUM, mul(gate, mul(h, one_of(TIDE_MICRO_TANH, x)))));
    publish_both(z, one_of(TIDE_MICRO_TANH, z));
    expect(tide_program_output(p, "h1", z));
    /* After the loop: a gather whose gradient is read at rows of all kinds. */
    z = plus(z, over(TIDE_OVER_SUM, one_of(TIDE_MICRO_SQR, g)));
    op2(TIDE_OP_XENT, dense(z, "D", "bD", SMALL, 3), label);
    expect(tide_program_differentiate(p, false));
}

/* Together they use every space, list and section. */
static void small_model(size_t which) {
    of_kinds = which == 7;
    if (which > 5) {
        begin_vertices("kinds");
        if (of_kinds) {
            three_kinds();
        } else {
            leaf_and_inner();
        }
        return;
    }
    switch (which) {
    case 0:
        tree_lstm(12, SMALL, 3, false);
        return;
    case 1:
        tree_lstm(12, SMALL, 3, true); /* edges */
        return;
    case 2:
        tree_fc(12, SMALL); /* named children */
        return;
    default:
        break;
    }
    begin_vertices("small");
    uint32_t h = child_state("h", SMALL), x = looked_up(12, SMALL), g = child_state("g", SMALL);
    layer("linear", "own", "");
    uint32_t z = dense(x, "w", "b", SMALL, SMALL);
    layer("linear", "below", "");
    uint32_t below = h, weights = 0, columns = 2;
    if (which == 3) { /* maxima of children, of an edge's values, and of what is not published */
        below = plus(over(TIDE_OVER_MAX, h), over(TIDE_OVER_MAX, mul(h, z)));
    } else if (which == 4) { /* inputs of edges; a vertex's values on the way to its children */
        expect(tide_program_edge_input(p, "weight", TIDE_VALUE_FLOAT, 1, &columns, &weights));
        uint32_t gate = one_of(TIDE_MICRO_SIGMOID, dense(weights, "we", NULL, 2, SMALL));
        below = over(TIDE_OVER_SUM, mul(gate, mul(h, one_of(TIDE_MICRO_TANH, z))));
    } else { /* a state that only outputs read, and children of children */
        below = over(TIDE_OVER_SUM, mul(h, h));
    }
    z = plus(z, dense(below, "u", NULL, SMALL, SMALL));
    uint32_t h1 = one_of(TIDE_MICRO_TANH, z);
    layer("", "", "");
    expect(tide_program_publish(p, "h", h1));
    expect(tide_program_publish(p, "g", one_of(TIDE_MICRO_SIGMOID, plus(h1, x))));
    uint32_t top = plus(h1, over(TIDE_OVER_SUM, one_of(TIDE_MICRO_SQR, g))); /* after the loop */
    classify(top, SMALL, 3, "C", "bC");
    expect(tide_program_differentiate(p, false));
}

#ifndef TIDE_EMULATED
static double loss_of(struct forest_work *f) {
    return step_forest(f, NULL, 0, f->forest->samples).sum;
}

/* Central differences in float64 for every parameter and the table: the worst relative error. */
static double forest_gradient_error(struct forest_work *f) {
    const double eps = 1e-5;
    double worst = 0;
    (void)loss_of(f);
    double *saved = malloc((f->w.elements + 1) * sizeof(double)), *x = f->w.parameters;
    memcpy(saved, f->w.gradients, f->w.elements * sizeof(double));
    for (size_t i = 0; i < tide_program_parameter_count(p); i++) {
        struct tide_parameter_place place = tide_program_parameter_at(p, i);
        for (size_t e = place.first; e < place.first + place.count; e += place.count / 8 + 1) {
            double old = x[e];
            x[e] = old + eps;
            double up = loss_of(f);
            x[e] = old - eps;
            double slope = (up - loss_of(f)) / (2 * eps);
            x[e] = old;
            double error = fabs(slope - saved[e]) / (1e-3 + fabs(slope) + fabs(saved[e]));
            worst = error > worst ? error : worst;
        }
    }
    (void)loss_of(f);
    double table[8];
    for (size_t k = 0; k < 8; k++) {
        table[k] = table_gradient(f, k * 5 % (f->words * f->width));
    }
    for (size_t k = 0; k < 8; k++) {
        size_t e = k * 5 % (f->words * f->width);
        double old = at(f, f->table, e);
        put(f, f->table, e, old + eps);
        double up = loss_of(f);
        put(f, f->table, e, old - eps);
        double slope = (up - loss_of(f)) / (2 * eps);
        put(f, f->table, e, old);
        double error = fabs(slope - table[k]) / (1e-3 + fabs(slope) + fabs(table[k]));
        worst = error > worst ? error : worst;
    }
    free(saved);
    return worst;
}

static void gradients_are_those_of_differences(void **cmocka_state) {
    (void)cmocka_state;
    for (size_t which = 0; which < MODELS; which++) {
        small_model(which);
        struct tide_forest *forest = odd_forest(30, 12);
        struct forest_work f =
            start_forest("reference", (struct tide_plan_options){.no_fusion = which % 2}, forest);
        double error = forest_gradient_error(&f);
        if (!(error < 2e-6)) {
            fail_msg("model %zu: relative error %.3g", which, error);
        }
        stop_forest(&f);
        tide_forest_destroy(forest);
        tide_program_destroy(p);
    }
}

#endif

/* All that a step leaves behind, in float64. */
struct left {
    double loss, *gradients, *table;
    size_t count, table_count;
};

static struct left leave(struct forest_work *f, const uint32_t *order) {
    struct left l = {.count = f->w.elements, .table_count = f->words * f->width};
    l.loss = step_forest(f, order, 0, f->forest->samples).sum;
    l.gradients = malloc((l.count + 1) * sizeof(double));
    l.table = malloc((l.table_count + 1) * sizeof(double));
    for (size_t e = 0; e < l.count; e++) {
        l.gradients[e] = at(f, f->w.gradients, e);
    }
    for (size_t e = 0; e < l.table_count; e++) {
        l.table[e] = table_gradient(f, e);
    }
    return l;
}

static void same(const char *what, size_t which, const struct left *a, const struct left *b,
                 double bound) {
    if (!(fabs(a->loss - b->loss) <= bound * (1 + fabs(b->loss)))) {
        fail_msg("model %zu, %s: loss %.9g, not %.9g", which, what, a->loss, b->loss);
    }
    for (size_t e = 0; e < a->count; e++) {
        if (!(fabs(a->gradients[e] - b->gradients[e]) <= 10 * bound * (1 + fabs(b->gradients[e])))) {
            fail_msg("model %zu, %s: gradient %zu is %.9g, not %.9g", which, what, e,
                     a->gradients[e], b->gradients[e]);
        }
    }
    for (size_t e = 0; e < a->table_count; e++) {
        if (!(fabs(a->table[e] - b->table[e]) <= 10 * bound * (1 + fabs(b->table[e])))) {
            fail_msg("model %zu, %s: the table's gradient %zu is %.9g, not %.9g", which, what, e,
                     a->table[e], b->table[e]);
        }
    }
}

static void forget(struct left *l) {
    free(l->gradients);
    free(l->table);
}

#ifdef TIDE_EMULATED
enum { LONG = 20, WIDE = 8 };
#else
enum { LONG = 1000, WIDE = 300 };
#endif

static void batches_equal_single_vertices(void **cmocka_state) {
    (void)cmocka_state;
    for (size_t which = 0; which < MODELS; which++) {
        small_model(which);
        struct tide_forest *forest = odd_forest(LONG, WIDE);
        struct tide_plan_options plain = {.no_fusion = true, .no_reuse = true};
        struct forest_work w[4] = {
            start_forest("reference", plain, forest),
            start_forest(FAST, (struct tide_plan_options){0}, forest),
            start_forest(FAST, (struct tide_plan_options){.no_reuse = true}, forest),
            start_forest(FAST, (struct tide_plan_options){0}, forest)};
        w[3].serial = true;
        static const uint32_t backwards[] = {5, 4, 3, 2, 1, 0};
        struct left l[6] = {leave(&w[0], NULL), leave(&w[1], NULL),      leave(&w[2], NULL),
                            leave(&w[3], NULL), leave(&w[1], backwards), leave(&w[1], NULL)};
        same("fast", which, &l[1], &l[0], 2e-5);
        same("without reuse of memory", which, &l[2], &l[1], 0);
        same("one vertex at a time", which, &l[3], &l[1], 2e-5);
        same("samples backwards", which, &l[4], &l[1], 2e-5);
        same("once more", which, &l[5], &l[1], 0);
        for (size_t i = 0; i < TIDE_COUNT(l); i++) {
            forget(&l[i]);
        }
        for (size_t i = 0; i < TIDE_COUNT(w); i++) {
            stop_forest(&w[i]);
        }
        tide_forest_destroy(forest);
        tide_program_destroy(p);
    }
}

#ifndef TIDE_EMULATED
/* Sample after sample, or all by height, or what can be added next by chance: the same losses and
 * gradients as a batch. */
static void graphs_may_grow(void **cmocka_state) {
    (void)cmocka_state;
    for (size_t which = 0; which < MODELS; which++) {
        small_model(which);
        struct tide_forest *forest = odd_forest(20, 9);
        struct forest_work whole = start_forest(FAST, (struct tide_plan_options){0}, forest);
        struct forest_work f =
            start_forest(FAST, (struct tide_plan_options){.no_reuse = true}, forest);
        struct left wanted = leave(&whole, NULL);
        const bool grows = which != 4 && which < 6; /* inputs of edges, kinds */
        if (!grows) {
            assert_int_equal(tide_run_grow(f.w.run, 8), TIDE_EUNSUPPORTED);
        }
        for (uint64_t order = 0; grows && order < 12; order++) {
            struct tide_random random;
            tide_random_seed(&random, order);
            tide_run_bind_table(f.w.run, 0, f.table, f.gradients);
            expect(tide_run_grow(f.w.run, order % 2 ? 4 : 500));
            uint32_t *ids = malloc(forest->vertices * sizeof(*ids));
            bool *there = calloc(forest->vertices, 1);
            const int32_t *word = tide_forest_find(forest, "word")->data,
                          *mark = tide_forest_find(forest, "label")->data;
            for (size_t left = forest->vertices; left > 0;) {
                for (size_t s = 0; s < forest->samples; s++) {
                    for (size_t v = forest->sample_start[s]; v < forest->sample_start[s + 1]; v++) {
                        uint32_t children[300], count = 0, id;
                        bool ready = !there[v] && (order == 0 || tide_random_below(&random, 3) > 0);
                        for (uint32_t e = forest->child_start[v];
                             ready && e < forest->child_start[v + 1]; e++) {
                            size_t c = forest->sample_start[s] + (size_t)forest->child[e];
                            ready = there[c];
                            children[count++] = ids[c];
                        }
                        struct tide_grow_input in[] = {{"word", &word[v]}, {"label", &mark[v]}};
                        if (ready) {
                            expect(tide_run_grow_add(f.w.run, children, count, in,
                                                     which != 2 && order % 3 != 0 ? 2u : 1u, &id));
                            if (which != 2 && order % 3 == 0) {
                                expect(tide_run_grow_label(f.w.run, id, "label", mark[v]));
                            }
                            ids[v] = id;
                            there[v] = true;
                            left--;
                        }
                    }
                }
                const uint32_t *computed;
                size_t rows;
                if (order % 4 != 3 || left == 0) {
                    expect(tide_run_grow_step(f.w.run, 1, &computed, &rows));
                }
            }
            expect(tide_run_grow_finish(f.w.run, 1));
            struct left got = {.loss = tide_run_loss(f.w.run).sum, .count = f.w.elements,
                               .table_count = f.words * f.width};
            got.gradients = malloc((got.count + 1) * sizeof(double));
            got.table = malloc((got.table_count + 1) * sizeof(double));
            for (size_t e = 0; e < got.count; e++) {
                got.gradients[e] = at(&f, f.w.gradients, e);
            }
            for (size_t e = 0; e < got.table_count; e++) {
                got.table[e] = table_gradient(&f, e);
            }
            same("growing", which, &got, &wanted, 1e-5);
            forget(&got);
            free(ids);
            free(there);
        }
        forget(&wanted);
        stop_forest(&whole);
        stop_forest(&f);
        tide_forest_destroy(forest);
        tide_program_destroy(p);
    }
    tree_lstm(12, SMALL, 3, false);
    struct tide_forest *forest = odd_forest(3, 2);
    struct forest_work f = start_forest(FAST, (struct tide_plan_options){.no_reuse = true}, forest);
    uint32_t child = 0, id;
    tide_run_bind_table(f.w.run, 0, f.table, f.gradients);
    expect(tide_run_grow(f.w.run, 4));
    assert_int_equal(tide_run_grow_add(f.w.run, &child, 1, NULL, 0, &id), TIDE_EINVAL);
    assert_non_null(strstr(tide_error_message(), "of 0 that were added"));
    expect(tide_run_grow_add(f.w.run, NULL, 0, NULL, 0, &id));
    assert_int_equal(tide_run_grow_finish(f.w.run, 1), TIDE_EINVAL);
    assert_int_equal(tide_run_bind_forest(f.w.run, forest, NULL, 0, 1, false), TIDE_EINVAL);
    tide_run_grow_cancel(f.w.run);
    (void)step_forest(&f, NULL, 0, 2);
    stop_forest(&f);
    tide_forest_destroy(forest);
    tide_program_destroy(p);
}
#endif

static void an_empty_batch_is_one(void **cmocka_state) {
    (void)cmocka_state;
    for (size_t which = 0; which < MODELS; which++) {
        small_model(which);
        struct tide_forest *forest = odd_forest(3, 2);
        struct forest_work f = start_forest(FAST, (struct tide_plan_options){0}, forest);
        struct tide_run_loss loss = step_forest(&f, NULL, 0, 0);
        assert_true(loss.count <= 0 && fabs(loss.sum) <= 0);
        for (size_t e = 0; e < f.w.elements; e++) {
            assert_true(fabs(at(&f, f.w.gradients, e)) <= 0);
        }
        stop_forest(&f);
        tide_forest_destroy(forest);
        tide_program_destroy(p);
    }
}

/* Seeded functions of a vertex: fused and in place against one operation at a time. */
static void random_function(struct tide_random *random) {
    begin_vertices("random");
    uint32_t values[24], count = 0, children[24], child_count = 0;
    uint32_t h = child_state("h", SMALL);
    children[child_count++] = h;
    values[count++] = looked_up(12, SMALL);
    layer("linear", "m", "");
    static const struct tide_initial some = {TIDE_INITIAL_UNIFORM, 0.5};
    uint32_t matrix = parameter("m", 2, SMALL, SMALL, some), bias = parameter("bm", 1, SMALL, 0, some);
    layer("", "", "");
    while (count < 14) {
        uint32_t a = values[tide_random_below(random, count)];
        uint32_t b = values[tide_random_below(random, count)];
        uint32_t c = children[tide_random_below(random, child_count)], made = a;
        switch (tide_random_below(random, 10)) {
        case 0:
        case 1: {
            uint32_t d = children[tide_random_below(random, child_count)];
            made = tide_random_below(random, 2) ? mul(c, d) : op2(TIDE_OP_MM, c, matrix);
            children[child_count] = one_of(TIDE_MICRO_TANH, made);
            child_count = child_count + 1 < TIDE_COUNT(children) ? child_count + 1 : 1;
            continue;
        }
        case 2:
            made = over(TIDE_OVER_SUM, c);
            break;
        case 3:
            made = nth_child((uint32_t)tide_random_below(random, 2), c);
            break;
        case 4:
            made = over(TIDE_OVER_SUM, mul(one_of(TIDE_MICRO_SIGMOID, a), c));
            break;
        case 5:
            made = plus(op2(TIDE_OP_MM, a, matrix), op2(TIDE_OP_MM, b, matrix));
            break;
        case 6:
            made = op2(TIDE_OP_CONCAT, columns_of(a, 0, 1), columns_of(b, 1, SMALL - 1));
            break;
        case 7:
            made = plus(a, bias);
            break;
        default:
            made = mul(a, b);
            break;
        }
        values[count++] = one_of(TIDE_MICRO_TANH, made);
    }
    expect(tide_program_publish(p, "h", plus(values[count - 1], values[count - 2])));
    op1(TIDE_OP_SUM_LOSS, one_of(TIDE_MICRO_SQR, values[count - 3]));
    op1(TIDE_OP_SUM_LOSS, values[count - 1]);
    expect(tide_program_differentiate(p, false));
}

#ifdef TIDE_EMULATED
enum { SEEDS = 20 };
#else
enum { SEEDS = 300 };
#endif

static void random_functions_agree_fused_or_not(void **cmocka_state) {
    (void)cmocka_state;
    struct tide_forest *forest = odd_forest(6, 5);
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct tide_random random;
        tide_random_seed(&random, seed);
        random_function(&random);
        struct forest_work w[3] = {
            start_forest("reference",
                         (struct tide_plan_options){.no_fusion = true, .no_reuse = true}, forest),
            start_forest(FAST, (struct tide_plan_options){0}, forest),
            start_forest(FAST, (struct tide_plan_options){.no_reuse = true}, forest)};
        struct left l[3] = {leave(&w[0], NULL), leave(&w[1], NULL), leave(&w[2], NULL)};
        same("fused", seed, &l[1], &l[0], 2e-5);
        same("without reuse of memory", seed, &l[2], &l[1], 0);
        for (size_t i = 0; i < 3; i++) {
            forget(&l[i]);
            stop_forest(&w[i]);
        }
        tide_program_destroy(p);
    }
    tide_forest_destroy(forest);
}

/* A batch in pieces that fit, tables bound whole: gradients add up to those of all at once. */
static void pieces_add_up(void **cmocka_state) {
    (void)cmocka_state;
    for (size_t which = 0; which < MODELS; which++) {
        small_model(which);
        struct tide_forest *forest = odd_forest(30, 12);
        struct forest_work whole = start_forest(FAST, (struct tide_plan_options){0}, forest);
        struct forest_work f = start_forest(FAST, (struct tide_plan_options){0}, forest);
        struct left wanted = leave(&whole, NULL);
        struct left got = leave(&f, NULL); /* now all is bound */
        size_t pieces = 0, most = tide_run_arena_bytes(f.w.run), fit = 0;
        got.loss = 0;
        memset(got.gradients, 0, got.count * sizeof(double));
        memset(got.table, 0, got.table_count * sizeof(double));
        tide_run_limit(f.w.run, most * 5 / 8);
        assert_int_equal(tide_run_step(f.w.run, 0, 1, NULL), 0); /* there is room already */
        for (size_t first = 0; first < forest->samples; first += fit, pieces++) {
            expect(tide_run_cut(f.w.run, forest, NULL, first, forest->samples - first, false, &fit));
            assert_true(fit > 0);
            expect(tide_run_bind_piece(f.w.run, forest, NULL, first, fit, false));
            expect(tide_run_step(f.w.run, 0, 1, NULL));
            fetch(&f.w);
            if (f.w.device->memory) {
                expect(f.w.device->memory->download(NULL, f.gradients, f.on_gradients, f.room));
            }
            got.loss += tide_run_loss(f.w.run).sum;
            for (size_t e = 0; e < got.count; e++) {
                got.gradients[e] += at(&f, f.w.gradients, e);
            }
            for (size_t e = 0; e < got.table_count; e++) {
                got.table[e] += table_gradient(&f, e);
            }
        }
        assert_true(pieces > 1);
        same("in pieces", which, &got, &wanted, 2e-5);
        struct forest_work small = start_forest(FAST, (struct tide_plan_options){0}, forest);
        tide_run_limit(small.w.run, 100);
        expect(tide_run_bind_forest(small.w.run, forest, NULL, 0, 6, false));
        assert_int_equal(tide_run_cut(small.w.run, forest, NULL, 2, 4, false, &fit), TIDE_ELIMIT);
        assert_non_null(strstr(tide_error_message(), "sample 3 of the data, with 30 vertices"));
        tide_run_bind_table(small.w.run, 0, small.on_rows, small.on_gradients);
        assert_int_equal(tide_run_step(small.w.run, 0, 1, NULL), TIDE_ELIMIT);
        /* A step takes no more than it may, also where room is made in powers of two. */
        expect(tide_run_bind_forest(small.w.run, forest, NULL, 0, 6, false));
        for (size_t limit = most / 8; limit < most; limit += most / 16) {
            tide_run_limit(small.w.run, limit);
            if (tide_run_cut(small.w.run, forest, NULL, 0, 6, false, &fit) != 0) {
                continue;
            }
            (void)step_forest(&small, NULL, 0, fit);
            assert_true(tide_run_arena_bytes(small.w.run) <= limit);
        }
        forget(&got);
        forget(&wanted);
        stop_forest(&small);
        stop_forest(&f);
        stop_forest(&whole);
        tide_forest_destroy(forest);
        tide_program_destroy(p);
    }
}

/* Rows of outputs by kind, in the order of samples and their vertices. */
static void outputs_are_of_kinds(void **cmocka_state) {
    (void)cmocka_state;
    small_model(7);
    struct tide_forest *forest = odd_forest(9, 6);
    struct forest_work f = start_forest(FAST, (struct tide_plan_options){0}, forest);
    struct forest_work g = start_forest("reference", (struct tide_plan_options){.no_reuse = true}, forest);
    g.serial = true;
    struct tide_run_loss a = step_forest(&f, NULL, 0, forest->samples),
                         b = step_forest(&g, NULL, 0, forest->samples);
    const int32_t *kinds = tide_forest_find(forest, "kind")->data,
                  *labels = tide_forest_find(forest, "label")->data;
    size_t counted = 0, seen = 0;
    for (size_t v = 0; v < forest->vertices; v++) {
        counted += kinds[v] == 1 || labels[v] >= 0;
        seen += kinds[v] == 1;
    }
    assert_true(fabs(a.count - (double)counted) < 0.5 && fabs(b.count - a.count) < 0.5);
    static const char *const names[] = {"h1", "top"};
    for (size_t i = 0; i < 2; i++) {
        size_t rows = 0, columns = 0;
        const char *x = tide_run_output(f.w.run, names[i], &rows, &columns);
        assert_int_equal(rows, i == 0 ? forest->vertices : seen);
        char *kept = malloc(rows * columns * sizeof(float));
        memcpy(kept, x, rows * columns * sizeof(float));
        const char *y = tide_run_output(g.w.run, names[i], &rows, &columns);
        for (size_t e = 0; e < rows * columns; e++) {
            assert_true(fabs(at(&f, kept, e) - at(&g, y, e)) < 1e-5);
        }
        free(kept);
    }
    assert_null(tide_run_output(f.w.run, "none", &(size_t){0}, &(size_t){0}));
    stop_forest(&f);
    stop_forest(&g);
    tide_forest_destroy(forest);
    tide_program_destroy(p);
}

static void mistakes_of_kinds_are_named(void **cmocka_state) {
    (void)cmocka_state;
    begin_vertices("wrong");
    uint32_t h = child_state("h", 4), x = looked_up(10, 4), out = 0;
    assert_int_equal(tide_program_kind(p, "late"), TIDE_EINVAL); /* behind an operation */
    tide_program_destroy(p);
    begin_vertices("wrong");
    h = child_state("h", 4);
    kind("a");
    x = looked_up(10, 4);
    expect(tide_program_publish(p, "h", x));
    assert_int_equal(tide_program_publish(p, "h", x), TIDE_EINVAL);
    assert_non_null(strstr(tide_error_message(), "published twice by kind \"a\""));
    kind("b");
    const uint32_t in[3] = {x, over(TIDE_OVER_SUM, h), TIDE_NO_VALUE};
    assert_int_equal(tide_program_map(p, TIDE_MICRO_ADD, in, (double[3]){0}, &out), TIDE_EINVAL);
    assert_non_null(strstr(tide_error_message(), "of kind \"a\" meets one of kind \"b\""));
    op1(TIDE_OP_SUM_LOSS, in[1]);
    assert_int_equal(tide_program_differentiate(p, false), TIDE_EINVAL);
    assert_non_null(strstr(tide_error_message(), "kind \"b\" does not publish \"h\""));
    tide_program_destroy(p);
    small_model(6); /* leaf and inner, of data that name a, b, c */
    of_kinds = true;
    struct tide_forest *forest = odd_forest(3, 2);
    struct forest_work f = start_forest(FAST, (struct tide_plan_options){0}, forest);
    assert_int_equal(tide_run_bind_forest(f.w.run, forest, NULL, 0, 1, false), TIDE_EINVAL);
    assert_non_null(strstr(tide_error_message(), "sample 1: vertex 1 is of kind \"c\"; the program has "
                                                 "\"leaf\", \"inner\""));
    stop_forest(&f);
    tide_forest_destroy(forest);
    tide_program_destroy(p);
}

static void mistakes_are_named(void **cmocka_state) {
    (void)cmocka_state;
    uint32_t out = 0;
    begin_vertices("wrong");
    uint32_t h = child_state("h", 4), x = looked_up(10, 4);
    assert_int_equal(tide_program_publish(p, "c", x), TIDE_EINVAL);
    assert_non_null(strstr(tide_error_message(), "no such state"));
    assert_int_equal(tide_program_publish(p, "h", h), TIDE_EINVAL);
    assert_non_null(strstr(tide_error_message(), "v:sum makes one a vertex of it"));
    assert_int_equal(tide_program_publish(p, "h", columns_of(x, 0, 2)), TIDE_EINVAL);
    assert_non_null(strstr(tide_error_message(), "its state has 4 columns"));
    assert_int_equal(tide_program_over(p, TIDE_OVER_SUM, x, &out), TIDE_EINVAL);
    assert_int_equal(tide_program_output(p, "h", h), TIDE_EINVAL);
    assert_int_equal(tide_program_apply(p, TIDE_OP_SUM_LOSS, &h, 1, NULL, &out), TIDE_EINVAL);
    op1(TIDE_OP_SUM_LOSS, x);
    assert_int_equal(tide_program_differentiate(p, false), TIDE_EINVAL);
    assert_non_null(strstr(tide_error_message(), "state \"h\" is not published"));
    tide_program_destroy(p);
    tree_lstm(1000, 8, 5, false);
    struct tide_forest *forest = odd_forest(3, 2), *wide = generated("chains", 3, 2000, 1, 0, 0);
    struct forest_work f = start_forest(FAST, (struct tide_plan_options){0}, forest);
    assert_int_equal(tide_run_step(f.w.run, 0, 1, NULL), TIDE_EINVAL);
    assert_int_equal(tide_run_bind(f.w.run, "word", &out), TIDE_EINVAL);
    assert_int_equal(tide_run_bind_forest(f.w.run, wide, NULL, 0, 3, false), TIDE_EINVAL);
    assert_non_null(strstr(tide_error_message(), "its table has 1000 rows"));
    assert_int_equal(tide_run_bind_forest(f.w.run, forest, NULL, 5, 3, false), TIDE_EINVAL);
    tide_forest_destroy(wide);
    stop_forest(&f);
    tide_forest_destroy(forest);
    tide_program_destroy(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_losses_on_the_reference),
        cmocka_unit_test(golden_losses_on_the_fast_device),
#ifndef TIDE_EMULATED
        cmocka_unit_test(gradients_are_those_of_differences),
        cmocka_unit_test(graphs_may_grow),
#endif
        cmocka_unit_test(batches_equal_single_vertices),
        cmocka_unit_test(an_empty_batch_is_one),
        cmocka_unit_test(random_functions_agree_fused_or_not),
        cmocka_unit_test(pieces_add_up),
        cmocka_unit_test(outputs_are_of_kinds),
        cmocka_unit_test(mistakes_of_kinds_are_named),
        cmocka_unit_test(mistakes_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
