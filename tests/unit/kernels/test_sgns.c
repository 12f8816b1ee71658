/*
 * Word vectors: the step against central differences, training of a small text, bad arguments,
 * failures of the table; cosines.
 */
#include "base/base.h"
#include "models/sgns.h"
#include "plain_rows.h"
#include "plain_sampler.h"
#include "wire/wire.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { WORDS = 12, WIDTH = 10, LINES = 200, LINE = 7, TOKENS = LINES * LINE };

/* ---- the step ---- */

static double loss_of(size_t d, const double *v, const double *outputs, size_t targets) {
    double loss = 0;
    for (size_t x = 0; x < targets; x++) {
        double score = 0;
        for (size_t i = 0; i < d; i++) {
            score += v[i] * outputs[x * d + i];
        }
        loss += log1p(exp(x == 0 ? -score : score));
    }
    return loss;
}

static double slope(size_t d, double *v, double *outputs, size_t targets, double *at) {
    double kept = *at, h = 1e-6, up, down;
    *at = kept + h;
    up = loss_of(d, v, outputs, targets);
    *at = kept - h;
    down = loss_of(d, v, outputs, targets);
    *at = kept;
    return (up - down) / (2 * h);
}

static void step_against_differences(size_t d) {
    enum { TARGETS = 4 };
    struct tide_random random;
    double *v = calloc(d, sizeof *v), *outputs = calloc(TARGETS * d, sizeof *outputs);
    float *fv = calloc(d, sizeof *fv), *fo = calloc(TARGETS * d, sizeof *fo);
    float *scratch = calloc(d, sizeof *scratch), alpha = 0.5f;
    uint32_t targets[TARGETS] = {0, 1, 2, 3};
    tide_random_seed(&random, d);
    for (size_t i = 0; i < d; i++) {
        fv[i] = (float)(tide_random_uniform(&random) - 0.5);
        v[i] = (double)fv[i];
    }
    for (size_t i = 0; i < TARGETS * d; i++) {
        fo[i] = (float)(tide_random_uniform(&random) - 0.5) / (float)d;
        outputs[i] = (double)fo[i];
    }
    double loss = sgns_step(d, alpha, fv, fo, targets, TARGETS, scratch);
    assert_true(fabs(loss - loss_of(d, v, outputs, TARGETS)) < 1e-5);
    for (size_t i = 0; i < d; i++) {
        double expected = v[i] - (double)alpha * slope(d, v, outputs, TARGETS, &v[i]);
        assert_true(fabs((double)fv[i] - expected) < 1e-5);
    }
    for (size_t i = 0; i < TARGETS * d; i++) {
        double expected = outputs[i] - (double)alpha * slope(d, v, outputs, TARGETS, &outputs[i]);
        assert_true(fabs((double)fo[i] - expected) < 1e-5);
    }
    free(v);
    free(outputs);
    free(fv);
    free(fo);
    free(scratch);
}

static void step_is_the_gradient_of_the_loss(void **state) {
    (void)state;
    static const size_t widths[] = {1, 2, 7, 8, 100, 513};
    for (size_t i = 0; i < TIDE_COUNT(widths); i++) {
        step_against_differences(widths[i]);
    }
}

static void sigmoids_beyond_six_are_cut(void **state) {
    (void)state;
    float v[1] = {10}, outputs[2] = {10, -10}, scratch[1];
    uint32_t targets[2] = {0, 1};
    double loss = sgns_step(1, 0.1f, v, outputs, targets, 2, scratch);
    assert_true(loss >= 0 && loss < 1e-6);
    assert_true(v[0] == 10 && outputs[0] == 10 && outputs[1] == -10);
    outputs[0] = -100; /* as wrong as can be: the whole step, and a finite loss */
    loss = sgns_step(1, 0.1f, v, outputs, targets, 1, scratch);
    assert_true(fabs(loss - 1000) < 1);
    assert_true(fabsf(outputs[0] + 99) < 1e-4f && fabsf(v[0] - 0) < 1e-4f);
}

/* ---- training ---- */

struct world {
    struct plain_table input, output;
    uint32_t tokens[TOKENS];
    uint64_t counts[WORDS];
};

/* Lines of even words and lines of odd words: two topics that never meet. */
static void world_init(struct world *world) {
    struct tide_random random;
    memset(world, 0, sizeof *world);
    plain_init(&world->input, WORDS, WIDTH, 0, 0.05f, 0, 3);
    plain_init(&world->output, WORDS, WIDTH, 0, 0, 0, 0);
    tide_random_seed(&random, 9);
    for (size_t i = 0; i < TOKENS; i++) {
        bool end = i % LINE == LINE - 1;
        uint32_t odd = i / LINE % 2;
        uint32_t word = end ? 0 : 2 + odd + 2 * (uint32_t)tide_random_below(&random, WORDS / 2 - 1);
        world->tokens[i] = word;
        world->counts[word]++;
    }
}

static void world_deinit(struct world *world) {
    plain_deinit(&world->input);
    plain_deinit(&world->output);
}

enum { ARGUMENTS = 32 };

static void set_training(const struct tide_kernel *k, struct tide_argument *a, struct world *w) {
    memset(a, 0, ARGUMENTS * sizeof *a);
    plain_argument(k, a, "input")->rows = plain_adding(&w->input);
    plain_argument(k, a, "output")->rows = plain_adding(&w->output);
    plain_argument(k, a, "tokens")->tensor = (struct tide_tensor){w->tokens, TOKENS, 1, TIDE_U32};
    plain_argument(k, a, "counts")->tensor = (struct tide_tensor){w->counts, WORDS, 1, TIDE_U64};
    plain_argument(k, a, "subsample")->number = 0;
    plain_argument(k, a, "alpha")->number = 0.05;
    plain_argument(k, a, "batch")->number = 512; /* several in the text */
}

static int train(struct world *w, double seed, struct tide_result *results, char *error) {
    const struct tide_kernel *k = tide_kernel_find("sgns_train");
    struct tide_argument a[ARGUMENTS];
    set_training(k, a, w);
    plain_argument(k, a, "seed")->number = seed;
    return k->run(a, results, error);
}

static double cosine(const struct plain_table *t, size_t a, size_t b) {
    double ab = 0, aa = 0, bb = 0;
    for (size_t i = 0; i < WIDTH; i++) {
        double x = (double)t->rows[a * WIDTH + i], y = (double)t->rows[b * WIDTH + i];
        ab += x * y;
        aa += x * x;
        bb += y * y;
    }
    return ab / sqrt(aa * bb);
}

static void words_of_a_topic_come_together(void **state) {
    (void)state;
    struct world w;
    struct tide_result results[16];
    char error[256];
    double first = 0, last = 0, same = 0, other = 0;
    world_init(&w);
    for (int epoch = 0; epoch < 10; epoch++) {
        assert_int_equal(train(&w, epoch + 1, results, error), 4);
        assert_string_equal(results[0].name, "loss");
        assert_true(results[1].value == TOKENS);
        last = results[0].value / results[2].value;
        first = epoch == 0 ? last : first;
    }
    assert_true(last < 0.9 * first);
    for (size_t i = 2; i < WORDS; i++) {
        for (size_t j = i + 1; j < WORDS; j++) {
            *(i % 2 == j % 2 ? &same : &other) += cosine(&w.input, i, j);
        }
    }
    assert_true(same / 20 > other / 25 + 0.5); /* pairs of each kind */
    assert_int_equal(w.input.open + w.output.open, 0);
    for (size_t i = 0; i < WIDTH; i++) { /* the end of a line is no word */
        assert_true(w.output.rows[i] == 0);
    }
    world_deinit(&w);
}

static void the_same_seed_trains_the_same_vectors(void **state) {
    (void)state;
    struct world worlds[3];
    struct tide_result results[16];
    char error[256];
    for (int i = 0; i < 3; i++) {
        world_init(&worlds[i]);
        assert_int_equal(train(&worlds[i], i == 2 ? 8 : 7, results, error), 4);
    }
    size_t size = WORDS * WIDTH * sizeof(float);
    assert_memory_equal(worlds[0].input.rows, worlds[1].input.rows, size);
    assert_memory_not_equal(worlds[0].input.rows, worlds[2].input.rows, size);
    for (int i = 0; i < 3; i++) {
        world_deinit(&worlds[i]);
    }
}

static void failures_of_the_table_end_the_call_with_nothing_open(void **state) {
    (void)state;
    for (uint64_t after = 1; after < 12; after++) {
        struct world w;
        struct tide_result results[16];
        char error[256];
        world_init(&w);
        w.output.fail_after = after;
        assert_int_equal(train(&w, 1, results, error), TIDE_EDIED);
        assert_non_null(strstr(error, "the owner died"));
        assert_int_equal(w.input.open + w.output.open, 0);
        world_deinit(&w);
    }
}

static struct plain_sampler sampler;

static int train_sampled(struct world *w, uint64_t most, struct tide_result *results, char *error) {
    const struct tide_kernel *k = tide_kernel_find("sgns_train");
    struct tide_argument a[ARGUMENTS];
    sampler = (struct plain_sampler){.last = 1, .kinds = 1, .most = most}; /* not in the text */
    set_training(k, a, w);
    plain_argument(k, a, "sampler")->draws = plain_draws(&sampler);
    return k->run(a, results, error);
}

static void negatives_come_from_a_sampler_that_is_told_a_batch_ahead(void **state) {
    (void)state;
    struct world w;
    struct tide_result results[16];
    char error[256];
    world_init(&w);
    assert_int_equal(train_sampled(&w, UINT64_MAX, results, error), 4);
    const double pairs = results[2].value;
    assert_true((double)sampler.taken == 5 * pairs && results[3].value == 6 * pairs);
    assert_true(sampler.announced > sampler.taken && sampler.open == 0 && sampler.open_most == 2);
    assert_true(w.output.rows[WIDTH] != 0); /* the only word that was drawn */
    for (uint64_t most = 0; most < 10000; most += 777) {
        assert_int_equal(train_sampled(&w, most, results, error), TIDE_EDIED);
        assert_non_null(strstr(error, "the owner died"));
        assert_int_equal(sampler.open + w.input.open + w.output.open, 0);
    }
    world_deinit(&w);
}

static void bad_arguments_are_named(void **state) {
    (void)state;
    const struct tide_kernel *k = tide_kernel_find("sgns_train");
    struct tide_argument a[ARGUMENTS];
    struct tide_result results[16];
    struct world w;
    char error[256];
    world_init(&w);
    static const struct {
        const char *name;
        double value;
    } numbers[] = {{"window", 0},   {"window", 101},   {"negatives", 0}, {"first", TOKENS + 1},
                   {"count", 1e9},  {"subsample", -1}, {"alpha", -0.1},  {"alpha_last", -0.5},
                   {"power", -0.5}, {"seed", 0.5},     {"batch", 0},     {"batch", 16385}};
    for (size_t i = 0; i < TIDE_COUNT(numbers); i++) {
        set_training(k, a, &w);
        plain_argument(k, a, numbers[i].name)->number = numbers[i].value;
        assert_int_equal(k->run(a, results, error), TIDE_EINVAL);
        assert_non_null(strstr(error, numbers[i].name));
    }
    set_training(k, a, &w);
    w.tokens[5] = WORDS;
    assert_int_equal(k->run(a, results, error), TIDE_EINVAL);
    assert_string_equal(error, "token 5 is word 12, but there are 12");
    w.tokens[5] = 2;
    struct plain_table few;
    plain_init(&few, WORDS - 1, WIDTH, 0, 0, 0, 0);
    plain_argument(k, a, "output")->rows = plain_adding(&few);
    assert_int_equal(k->run(a, results, error), TIDE_EINVAL);
    assert_string_equal(error, "output has 11 rows for 12 words");
    plain_deinit(&few);
    world_deinit(&w);
}

static void a_text_without_pairs_trains_nothing(void **state) {
    (void)state;
    const struct tide_kernel *k = tide_kernel_find("sgns_train");
    struct tide_argument a[ARGUMENTS];
    struct tide_result results[16];
    struct world w;
    char error[256];
    world_init(&w);
    set_training(k, a, &w);
    for (double count = 0; count < 2; count++) { /* no token, a line of one word */
        plain_argument(k, a, "count")->number = count;
        assert_int_equal(k->run(a, results, error), 4);
        assert_true(results[2].value == 0);
    }
    world_deinit(&w);
}

/* ---- cosines ---- */

static void nearest_words_are_found_best_first(void **state) {
    (void)state;
    const struct tide_kernel *k = tide_kernel_find("cosine_nearest");
    enum { KEYS = 5, NEAREST = 2 };
    static const float rows[KEYS][2] = {{1, 0}, {2, 0.2f}, {0, 3}, {0, 0}, {1, 1}};
    struct plain_table t;
    struct tide_argument a[ARGUMENTS] = {{0}};
    struct tide_result results[16];
    uint64_t keys[KEYS] = {0, 1, 2, 3, 4};
    uint32_t out[KEYS * NEAREST];
    float scores[KEYS * NEAREST];
    char error[256];
    plain_init(&t, KEYS, 2, 0, 0, 0, 0);
    memcpy(t.rows, rows, sizeof rows);
    plain_argument(k, a, "rows")->rows = plain_rows(&t);
    plain_argument(k, a, "keys")->tensor = (struct tide_tensor){keys, KEYS, 1, TIDE_U64};
    plain_argument(k, a, "out")->tensor = (struct tide_tensor){out, KEYS, NEAREST, TIDE_U32};
    plain_argument(k, a, "scores")->tensor = (struct tide_tensor){scores, KEYS, NEAREST, TIDE_F32};
    assert_int_equal(k->run(a, results, error), 1);
    const uint32_t expected[KEYS * NEAREST] = {1, 4, 0, 4, 4, 1, 0, 1, 1, 0};
    assert_memory_equal(out, expected, sizeof out);
    assert_true(fabsf(scores[1] - sqrtf(0.5f)) < 1e-6f && scores[6] == 0);
    plain_argument(k, a, "out")->tensor.columns = KEYS;
    assert_int_equal(k->run(a, results, error), TIDE_EINVAL);
    plain_deinit(&t);
}

static void cosines_of_pairs_are_filled_in(void **state) {
    (void)state;
    const struct tide_kernel *k = tide_kernel_find("cosine_pairs");
    static const float rows[3][2] = {{1, 0}, {-2, 0}, {1, 1}};
    struct plain_table t;
    struct tide_argument a[ARGUMENTS] = {{0}};
    struct tide_result results[16];
    uint64_t keys[3] = {2, 0, 1};
    uint32_t pairs[4] = {0, 1, 1, 2};
    float out[2];
    char error[256];
    plain_init(&t, 3, 2, 0, 0, 0, 0);
    memcpy(t.rows, rows, sizeof rows);
    plain_argument(k, a, "rows")->rows = plain_rows(&t);
    plain_argument(k, a, "keys")->tensor = (struct tide_tensor){keys, 3, 1, TIDE_U64};
    plain_argument(k, a, "pairs")->tensor = (struct tide_tensor){pairs, 2, 2, TIDE_U32};
    plain_argument(k, a, "out")->tensor = (struct tide_tensor){out, 2, 1, TIDE_F32};
    assert_int_equal(k->run(a, results, error), 1);
    assert_true(fabsf(out[0] - sqrtf(0.5f)) < 1e-6f && fabsf(out[1] + 1) < 1e-6f);
    pairs[3] = 3;
    assert_int_equal(k->run(a, results, error), TIDE_EINVAL);
    assert_string_equal(error, "pair 1: position 3 of 3 keys");
    plain_deinit(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(step_is_the_gradient_of_the_loss),
        cmocka_unit_test(sigmoids_beyond_six_are_cut),
        cmocka_unit_test(words_of_a_topic_come_together),
        cmocka_unit_test(the_same_seed_trains_the_same_vectors),
        cmocka_unit_test(failures_of_the_table_end_the_call_with_nothing_open),
        cmocka_unit_test(negatives_come_from_a_sampler_that_is_told_a_batch_ahead),
        cmocka_unit_test(bad_arguments_are_named),
        cmocka_unit_test(a_text_without_pairs_trains_nothing),
        cmocka_unit_test(nearest_words_are_found_best_first),
        cmocka_unit_test(cosines_of_pairs_are_filled_in),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
