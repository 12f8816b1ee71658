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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_losses_on_the_reference),
        cmocka_unit_test(golden_losses_on_the_fast_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
