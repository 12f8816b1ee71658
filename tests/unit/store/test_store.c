/* Tables of one process: rules, initial values, order, errors, limits, growth, and threads on the
 * same rows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "store/adaptive/zero_copy.h"
#include "store/core/node_store.h"
#include "store/core/options.h"
#include "store/rows/rules.h"
#include "store/rows/slot_index.h"
#include "tide/stats.h"

#include <math.h>
#include <pthread.h>

static struct tide_store *open_store(void) {
    struct tide_store *store;
    assert_int_equal(tide__store_create_bare(&store), 0);
    return store;
}

static struct tide_table *make(struct tide_store *store, struct tide_table_options options) {
    struct tide_table *table;
    options.name = options.name ? options.name : "w";
    int code = tide__table_create_in(store, &options, &table);
    if (code) {
        fail_msg("%s", tide_error_message());
    }
    return table;
}

static void pull(struct tide_table *table, const uint64_t *keys, size_t count, float *rows) {
    assert_int_equal(tide_table_pull(table, keys, count, rows, NULL), 0);
}

static void push(struct tide_table *table, const uint64_t *keys, size_t count, const float *rows) {
    assert_int_equal(tide_table_push(table, keys, count, rows, NULL), 0);
}

/* ---- rules against references in double precision ---- */

enum { STEPS = 20, WIDTH_MAX = 41 };

static void reference(const struct tide_table_options *o, double *w, double *s, double *m,
                      const float *d, int step) {
    for (uint32_t i = 0; i < o->width; i++) {
        double x = (double)d[i];
        switch (o->update) {
        case TIDE_UPDATE_ADD:
            w[i] += x;
            break;
        case TIDE_UPDATE_ASSIGN:
            w[i] = x;
            break;
        case TIDE_UPDATE_SGD:
            w[i] -= (double)o->lr * x;
            break;
        case TIDE_UPDATE_ADAGRAD:
            s[i] += x * x;
            w[i] -= (double)o->lr * x / (sqrt(s[i]) + (double)o->epsilon);
            break;
        case TIDE_UPDATE_MOMENTUM:
            m[i] = (double)o->beta1 * m[i] + x;
            w[i] -= (double)o->lr * m[i];
            break;
        case TIDE_UPDATE_NESTEROV:
            m[i] = (double)o->beta1 * m[i] + x;
            w[i] -= (double)o->lr * (x + (double)o->beta1 * m[i]);
            break;
        default:
            m[i] = (double)o->beta1 * m[i] + (1 - (double)o->beta1) * x;
            s[i] = (double)o->beta2 * s[i] + (1 - (double)o->beta2) * x * x;
            w[i] -= (double)o->lr * (m[i] / (1 - pow((double)o->beta1, step))) /
                    (sqrt(s[i] / (1 - pow((double)o->beta2, step))) + (double)o->epsilon);
        }
    }
}

static void rules_agree_with_their_formulas_at_every_width(void **state) {
    (void)state;
    static const uint32_t widths[] = {1, 2, 3, 4, 5, 7, 8, 10, 15, 16, 17, 33, 41};
    struct tide_random random;
    tide_random_seed(&random, 3);
    for (uint8_t update = 0; update <= TIDE_UPDATE_NESTEROV; update++) {
        for (size_t k = 0; k < TIDE_COUNT(widths); k++) {
            struct tide_store *store = open_store();
            struct tide_table *table = make(store, (struct tide_table_options){.key_count = 3,
                                                                               .width = widths[k],
                                                                               .update = update,
                                                                               .lr = 0.1f,
                                                                               .sum_init = 0.01f});
            double w[WIDTH_MAX] = {0}, s[WIDTH_MAX], m[WIDTH_MAX] = {0};
            for (int i = 0; i < WIDTH_MAX; i++) {
                s[i] = update == TIDE_UPDATE_ADAGRAD ? (double)0.01f : 0;
            }
            for (int step = 1; step <= STEPS; step++) {
                float d[WIDTH_MAX];
                for (uint32_t i = 0; i < widths[k]; i++) {
                    d[i] = (float)(tide_random_uniform(&random) - 0.5);
                }
                push(table, (uint64_t[]){1}, 1, d);
                reference(tide_table_options(table), w, s, m, d, step);
            }
            float row[WIDTH_MAX];
            pull(table, (uint64_t[]){1}, 1, row);
            for (uint32_t i = 0; i < widths[k]; i++) {
                assert_true(fabs((double)row[i] - w[i]) < 2e-5 * (1 + fabs(w[i])));
            }
            tide_store_destroy(store);
        }
    }
}

/* ---- rules of modules ---- */

enum { TWIN_STATES = 3 };

/* Adam again, from outside: the numbers of the contract, states by name, the rate in force. */
static void twin_apply(const struct tide_rule_call *call) {
    float *m = call->state, *v = m + call->width, *steps = v + call->width;
    *steps += 1;
    for (size_t i = 0; i < call->width; i++) {
        const float d = tide_rule_delta(call, i);
        m[i] = call->numbers[0] * m[i] + (1 - call->numbers[0]) * d;
        v[i] = call->numbers[1] * v[i] + (1 - call->numbers[1]) * d * d;
        const double first = 1 - pow((double)call->numbers[0], (double)*steps);
        const double second = 1 - pow((double)call->numbers[1], (double)*steps);
        call->row[i] -= call->rate * (m[i] / (float)first) / (sqrtf(v[i] / (float)second) + call->numbers[2]);
    }
}

static int twin_check(const float *numbers, char *error) {
    strcpy(error, "beta1 is below 1");
    return numbers[0] < 1 ? 0 : TIDE_EINVAL;
}

static const struct tide_parameter twin_numbers[] = {{"beta1", TIDE_NUMBER, 0, true, 0, "first"},
                                                     {"beta2", TIDE_NUMBER, 0, false, 0.999, "second"},
                                                     {"floor", TIDE_NUMBER, 0, false, 1e-8, "third"}};
static const struct tide_rule_state twin_states[] = {{"m", false}, {"v", false}, {"steps", true}};
static const struct tide_update_rule twin = {.name = "twin",
                                             .doc = "Adam again.",
                                             .numbers = twin_numbers,
                                             .number_count = TIDE_COUNT(twin_numbers),
                                             .states = twin_states,
                                             .state_count = TWIN_STATES,
                                             .check = twin_check,
                                             .apply = twin_apply};

static struct tide_table_options with_twin(const char *name) {
    return (struct tide_table_options){.name = name,
                                       .key_count = 3,
                                       .width = 5,
                                       .update = TIDE_UPDATE_OWN,
                                       .rule = "twin",
                                       .numbers = {0.1f, 0.9f, 0.999f, 1e-8f}};
}

static void a_rule_of_a_module_steps_as_the_same_one_of_tides_own(void **state) {
    (void)state;
    assert_int_equal(tide_rule_register(&twin, "1", NULL), 0);
    struct tide_store *store = open_store();
    struct tide_table *own = make(store, (struct tide_table_options){
                                             .name = "own", .key_count = 3, .width = 5, .update = TIDE_UPDATE_ADAM, .lr = 0.1f});
    struct tide_table *module = make(store, with_twin("module"));
    assert_int_equal(module->row_floats, own->row_floats);
    for (int step = 0; step < STEPS; step++) {
        float rows[2][5], d[6];
        for (int i = 0; i < 6; i++) {
            d[i] = (float)((step * 7 + i * 3) % 11) - 4.7f;
        }
        if (step == STEPS / 2) {
            module->options.lr = own->options.lr = 0.01f; /* as tide_table_set_rate does */
        }
        push(own, (uint64_t[]){1}, 1, d);
        push(module, (uint64_t[]){1}, 1, d);
        pull(own, (uint64_t[]){1}, 1, rows[0]);
        pull(module, (uint64_t[]){1}, 1, rows[1]);
        for (int i = 0; i < 5; i++) {
            assert_true(fabsf(rows[0][i] - rows[1][i]) < 1e-5f);
        }
    }
    tide_store_destroy(store);
}

static void refuse_rule(struct tide_update_rule rule, const char *why) {
    assert_int_equal(tide_rule_register(&rule, "1", NULL), TIDE_EINVAL);
    assert_non_null(strstr(tide_error_message(), why));
}

static void refuse_table(struct tide_store *store, struct tide_table_options options, int code, const char *why) {
    struct tide_table *table;
    assert_int_equal(tide__table_create_in(store, &options, &table), code);
    assert_non_null(strstr(tide_error_message(), why));
}

static void rules_that_break_the_contract_and_tables_without_their_rule_are_refused(void **state) {
    (void)state;
    struct tide_update_rule bad = twin;
    bad.name = "adam";
    refuse_rule(bad, "has the name of one of Tide's own");
    bad.name = "No name";
    refuse_rule(bad, "has a name of at most 47");
    bad = twin;
    bad.flags = TIDE_RULE_ADDS;
    refuse_rule(bad, "has a state");
    bad.flags = 1 << 9;
    refuse_rule(bad, "has flags that this version does not know");
    bad = twin;
    bad.apply = NULL;
    refuse_rule(bad, "needs `apply`");
    const struct tide_parameter rate = {"lr", TIDE_NUMBER, 0, false, 0, "the rate"};
    bad = twin;
    bad.numbers = &rate;
    bad.number_count = 1;
    refuse_rule(bad, "a name other than lr");
    const struct tide_rule_state use = {"use", true};
    bad = twin;
    bad.states = &use;
    bad.state_count = 1;
    refuse_rule(bad, "other than use");

    assert_int_equal(tide_rule_register(&twin, "1", NULL), 0);
    struct tide_store *store = open_store();
    struct tide_table_options options = with_twin("w");
    options.numbers[1] = 1;
    refuse_table(store, options, TIDE_EINVAL, "update rule twin: beta1 is below 1");
    options = with_twin("w");
    options.numbers[3] = INFINITY;
    refuse_table(store, options, TIDE_EINVAL, "is not finite");
    options = with_twin("w");
    strcpy(options.rule, "none");
    refuse_table(store, options, TIDE_EUNSUPPORTED, "has no update rule 'none'");
    options = with_twin("w");
    strcpy(options.rule_version, "2");
    refuse_table(store, options, TIDE_EVERSION, "has version 2 of update rule 'twin', this process has 1");
    options = with_twin("w");
    options.technique = TIDE_REPLICATE;
    refuse_table(store, options, TIDE_EUNSUPPORTED, "updates by twin do not add up");
    options = with_twin("w");
    options.update = TIDE_UPDATE_ADD;
    refuse_table(store, options, TIDE_EINVAL, "goes with update TIDE_UPDATE_OWN");
    (void)make(store, with_twin("w"));
    options = with_twin("w");
    options.numbers[3] = 0.5f;
    refuse_table(store, options, TIDE_EMISMATCH, "floor is 9.99999994e-09, not 0.5");
    tide_store_destroy(store);
}

static void plus_apply(const struct tide_rule_call *call) {
    for (size_t i = 0; i < call->width; i++) {
        call->row[i] += call->rate * tide_rule_delta(call, i);
    }
}

static void a_rule_whose_pushes_add_up_may_have_copies(void **state) {
    (void)state;
    static const struct tide_update_rule plus = {
        .name = "plus", .doc = "w += lr d.", .flags = TIDE_RULE_ADDS, .apply = plus_apply};
    assert_int_equal(tide_rule_register(&plus, "1", NULL), 0);
    struct tide_store *store = open_store();
    struct tide_table *table = make(store, (struct tide_table_options){.key_count = 3,
                                                                       .width = 1,
                                                                       .update = TIDE_UPDATE_OWN,
                                                                       .rule = "plus",
                                                                       .lr = 2,
                                                                       .technique = TIDE_REPLICATE});
    float row = 3;
    push(table, (uint64_t[]){1}, 1, &row);
    pull(table, (uint64_t[]){1}, 1, &row);
    assert_true(row == 6.0f);
    refuse_table(store,
                 (struct tide_table_options){.name = "v",
                                             .key_count = 3,
                                             .width = 1,
                                             .update = TIDE_UPDATE_OWN,
                                             .rule = "plus",
                                             .consistency = {.model = TIDE_VAP, .bound = 1}},
                 TIDE_EINVAL, "vap bounds sums of updates");
    tide_store_destroy(store);
}

/* One value, with the operations that a processor without vectors has; this file is compiled for one. */
static void step_alone(const struct tide_table_options *o, float *w, float *m, float *s, float d,
                       int step) {
    if (o->update == TIDE_UPDATE_ADAGRAD) {
        *s += d * d;
        *w -= o->lr * d / (sqrtf(*s) + o->epsilon);
        return;
    }
    if (o->update >= TIDE_UPDATE_MOMENTUM) {
        *m = o->beta1 * *m + d;
        *w -= o->lr * (o->update == TIDE_UPDATE_NESTEROV ? d + o->beta1 * *m : *m);
        return;
    }
    const float first = (float)(1.0 / (1.0 - pow((double)o->beta1, step)));
    const float second = (float)(1.0 / (1.0 - pow((double)o->beta2, step)));
    *m = o->beta1 * *m + (1.0f - o->beta1) * d;
    *s = o->beta2 * *s + (1.0f - o->beta2) * d * d;
    *w -= o->lr * (*m * first) / (sqrtf(*s * second) + o->epsilon);
}

/* So it makes no difference on which processor a row is. */
static void rules_come_to_the_same_bits_on_all_processors(void **state) {
    (void)state;
    struct tide_random random;
    tide_random_seed(&random, 4);
    for (uint8_t update = TIDE_UPDATE_ADAGRAD; update <= TIDE_UPDATE_NESTEROV; update++) {
        const struct tide_table_options o = {.update = update,
                                             .width = WIDTH_MAX,
                                             .lr = 0.1f,
                                             .beta1 = 0.9f,
                                             .beta2 = 0.999f,
                                             .epsilon = 1e-8f};
        float row[3 * WIDTH_MAX + 1] = {0};
        float w[WIDTH_MAX] = {0}, m[WIDTH_MAX] = {0}, s[WIDTH_MAX] = {0};
        for (int step = 1; step <= STEPS; step++) {
            float d[WIDTH_MAX];
            for (int i = 0; i < WIDTH_MAX; i++) {
                d[i] = (float)(tide_random_uniform(&random) - 0.5);
                step_alone(&o, w + i, m + i, s + i, d[i], step);
            }
            tide__rule_apply(&o, row, d);
            assert_memory_equal(row, w, sizeof w);
        }
    }
}

/* ---- initial values ---- */

static void initial_values_are_a_function_of_seed_and_key_alone(void **state) {
    (void)state;
    struct tide_store *store = open_store();
    struct tide_table_options o = {.name = "a",
                                   .key_count = 100000,
                                   .width = 10,
                                   .init = TIDE_INIT_NORMAL,
                                   .init_a = 0.3f,
                                   .seed = 5};
    struct tide_table *a = make(store, o);
    o.name = "b";
    o.slots = TIDE_SLOTS_RANGE;
    struct tide_table *b = make(store, o);
    o.name = "c";
    o.keys = TIDE_KEYS_HASHED;
    struct tide_table *c = make(store, o);
    o.name = "d";
    o.seed = 6;
    struct tide_table *d = make(store, o);
    float zero[10] = {0}, x[10], y[10], z[10], other[10];
    for (uint64_t key = 0; key < 100000; key += 997) {
        push(b, &key, 1, zero); /* stored now: must not change it */
        pull(a, &key, 1, x);
        pull(b, &key, 1, y);
        pull(c, &key, 1, z);
        pull(d, &key, 1, other);
        assert_memory_equal(x, y, sizeof x);
        assert_memory_equal(x, z, sizeof x);
        assert_memory_not_equal(x, other, sizeof x);
    }
    struct tide_table_stats stats;
    tide_table_stats(a, &stats);
    assert_int_equal(stats.rows, 0); /* a pull stores nothing */
    tide_store_destroy(store);
}

static void moments(struct tide_table *table, size_t keys, double *mean, double *deviation,
                    double *low, double *high) {
    double sum = 0, squares = 0;
    size_t count = 0;
    *low = 1e9;
    *high = -1e9;
    for (uint64_t key = 0; key < keys; key++) {
        float row[10];
        pull(table, &key, 1, row);
        for (int i = 0; i < 10; i++) {
            double x = (double)row[i];
            sum += x;
            squares += x * x;
            count++;
            *low = x < *low ? x : *low;
            *high = x > *high ? x : *high;
        }
    }
    *mean = sum / (double)count;
    *deviation = sqrt(squares / (double)count - *mean * *mean);
}

static void initial_values_follow_their_distribution(void **state) {
    (void)state;
    struct tide_store *store = open_store();
    double mean, deviation, low, high;
    struct tide_table_options o = {
        .name = "n", .key_count = 20000, .width = 10, .init = TIDE_INIT_NORMAL, .init_a = 0.3f};
    moments(make(store, o), 20000, &mean, &deviation, &low, &high);
    assert_true(fabs(mean) < 0.003 && fabs(deviation - 0.3) < 0.003);
    assert_true(low > -2.5 && high < 2.5 && high > 0.9);
    o = (struct tide_table_options){.name = "u",
                                    .key_count = 20000,
                                    .width = 10,
                                    .init = TIDE_INIT_UNIFORM,
                                    .init_a = -1.0f,
                                    .init_b = 3.0f};
    moments(make(store, o), 20000, &mean, &deviation, &low, &high);
    assert_true(fabs(mean - 1) < 0.02 && fabs(deviation - 4 / sqrt(12)) < 0.02);
    assert_true(low >= -1 && high < 3);
    o = (struct tide_table_options){.name = "x",
                                    .key_count = 20000,
                                    .width = 10,
                                    .init = TIDE_INIT_XAVIER,
                                    .init_a = 100.0f,
                                    .init_b = 50.0f};
    moments(make(store, o), 20000, &mean, &deviation, &low, &high);
    assert_true(fabs(mean) < 0.003 && high <= 0.2 + 1e-6 && low >= -0.2 - 1e-6 && high > 0.19);
    tide_store_destroy(store);
}

/* ---- calls ---- */

static void duplicates_in_one_call_take_effect_in_order(void **state) {
    (void)state;
    struct tide_store *store = open_store();
    struct tide_table *table = make(
        store,
        (struct tide_table_options){.key_count = 10, .width = 1, .update = TIDE_UPDATE_ASSIGN});
    uint64_t keys[100];
    float rows[100];
    for (int i = 0; i < 100; i++) {
        keys[i] = (uint64_t)(i % 3);
        rows[i] = (float)i;
    }
    push(table, keys, 100, rows);
    pull(table, (uint64_t[]){0, 1, 2, 0}, 4, rows);
    assert_true(rows[0] == 99 && rows[1] == 97 && rows[2] == 98 && rows[3] == 99);
    tide_store_destroy(store);
}

static void a_key_out_of_range_is_named_and_nothing_is_done(void **state) {
    (void)state;
    struct tide_store *store = open_store();
    for (int slots = 0; slots < 2; slots++) {
        struct tide_table *table =
            make(store, (struct tide_table_options){.name = slots ? "r" : "w",
                                                    .key_count = 20000,
                                                    .width = 2,
                                                    .slots = (uint8_t)slots});
        float rows[4] = {1, 1, 1, 1};
        assert_int_equal(tide_table_push(table, (uint64_t[]){3, 20000}, 2, rows, NULL),
                         TIDE_ERANGE);
        char expected[100];
        snprintf(expected, sizeof expected, "key 20000 is outside table '%s' (0..19999)",
                 slots ? "r" : "w");
        assert_string_equal(tide_error_message(), expected);
        assert_int_equal(tide_table_pull(table, (uint64_t[]){UINT64_MAX, 3}, 2, rows, NULL),
                         TIDE_ERANGE);
        pull(table, (uint64_t[]){3, 19999}, 2, rows);
        assert_true(rows[0] == 0 && rows[1] == 0 && rows[2] == 0);
        uint16_t node;
        assert_int_equal(tide_table_where(table, 20000, &node), TIDE_ERANGE);
        assert_int_equal(tide_table_where(table, 19999, &node), 0);
        assert_int_equal(node, 1);
    }
    tide_store_destroy(store);
}

static void rows_with_nan_or_infinity_are_counted_or_refused(void **state) {
    (void)state;
    struct tide_store *store = open_store();
    struct tide_table *counts =
        make(store, (struct tide_table_options){.name = "c", .key_count = 9, .width = 11});
    struct tide_table *refuses = make(
        store,
        (struct tide_table_options){.name = "r", .key_count = 9, .width = 11, .refuse_nan = true});
    uint64_t keys[3] = {1, 2, 3};
    for (int at = 0; at < 33; at++) {
        float rows[33] = {0};
        rows[at] = at % 2 ? NAN : -INFINITY;
        push(counts, keys, 3, rows);
        assert_int_equal(tide_table_push(refuses, keys, 3, rows, NULL), TIDE_ENAN);
    }
    struct tide_table_stats stats;
    tide_table_stats(counts, &stats);
    assert_int_equal(stats.not_finite, 33);
    tide_table_stats(refuses, &stats);
    assert_int_equal(stats.not_finite, 33);
    assert_int_equal(stats.rows, 0);
    float fine[33];
    for (int i = 0; i < 33; i++) {
        fine[i] = i % 2 ? 3.4e38f : -1e-40f;
    }
    push(refuses, keys, 3, fine);
    tide_store_destroy(store);
}

/* Half precision has no number above 65504: the row would arrive as infinity. */
static void numbers_beyond_the_wire_are_counted_or_refused(void **state) {
    (void)state;
    struct tide_store *store = open_store();
    struct tide_table_options options = {.name = "h", .key_count = 9, .width = 2, .wire = TIDE_WIRE_F16};
    struct tide_table *counts = make(store, options);
    options.name = "r";
    options.refuse_nan = true;
    struct tide_table *refuses = make(store, options);
    options.name = "b";
    options.wire = TIDE_WIRE_BF16;
    struct tide_table *wide = make(store, options);
    const uint64_t keys[2] = {1, 2};
    const float most[4] = {65504, -65519, 0, 1}, beyond[4] = {1, 1, -65520, 0}, edge[4] = {3.39e38f, 0, 3.4e38f, 0};
    push(refuses, keys, 2, most);
    push(counts, keys, 2, beyond);
    assert_int_equal(tide_table_push(refuses, keys, 2, beyond, NULL), TIDE_ENAN);
    assert_non_null(strstr(tide_error_message(), "key 2"));
    push(wide, keys, 2, beyond);
    assert_int_equal(tide_table_push(wide, keys, 2, edge, NULL), TIDE_ENAN);
    struct tide_table_stats stats;
    tide_table_stats(counts, &stats);
    assert_int_equal(stats.not_finite, 1);
    tide_store_destroy(store);
}

static void pull_local_says_what_was_filled(void **state) {
    (void)state;
    struct tide_store *store = open_store();
    struct tide_table *table =
        make(store, (struct tide_table_options){.key_count = 10, .width = 1});
    push(table, (uint64_t[]){4}, 1, (float[]){7});
    float rows[3] = {-1, -1, -1};
    uint64_t hit[1];
    assert_int_equal(tide_table_pull_local(table, (uint64_t[]){4, 99, 5}, 3, rows, hit), 2);
    assert_true(hit[0] == 5 && rows[0] == 7 && rows[1] == -1 && rows[2] == 0);
    tide_store_destroy(store);
}

static void every_key_has_a_place_of_its_own(void **state) {
    (void)state;
    struct tide_store *store = open_store();
    static const uint64_t counts[] = {1, 5, 4095, 4096, 4097, 20000, 100003};
    for (size_t c = 0; c < TIDE_COUNT(counts); c++) {
        for (int slots = 0; slots < 2; slots++) {
            char name[32];
            snprintf(name, sizeof name, "t%zu-%d", c, slots);
            struct tide_table *table = make(
                store,
                (struct tide_table_options){
                    .name = name, .key_count = counts[c], .width = 1, .slots = (uint8_t)slots});
            float one = 1;
            for (uint64_t key = 0; key < counts[c]; key++) {
                uint32_t slot = tide__slot_of(table, key);
                uint64_t place = tide__place_of(table, slot, key);
                assert_true(slot < TIDE_SLOT_COUNT && place < table->places_max);
                assert_int_equal(tide__key_of(table, slot, place), key);
                push(table, &key, 1, &one);
            }
            for (uint64_t key = 0; key < counts[c]; key++) {
                float row;
                pull(table, &key, 1, &row);
                assert_true(row == 1);
            }
        }
    }
    tide_store_destroy(store);
}

/* ---- hashed ---- */

static uint64_t scattered(uint64_t i) {
    return tide_mix64(i * 77 + 1);
}

static void a_hashed_table_grows_and_keeps_every_row(void **state) {
    (void)state;
    enum { KEYS = 300000 };
    struct tide_store *store = open_store();
    struct tide_table *table =
        make(store, (struct tide_table_options){.keys = TIDE_KEYS_HASHED, .width = 10});
    for (uint64_t i = 0; i < KEYS; i++) {
        float row[10] = {(float)i, 1};
        push(table, (uint64_t[]){scattered(i)}, 1, row);
    }
    for (uint64_t i = 0; i < KEYS; i++) {
        float row[10];
        pull(table, (uint64_t[]){scattered(i)}, 1, row);
        assert_true(row[0] == (float)i && row[1] == 1);
    }
    float row[10] = {5};
    pull(table, (uint64_t[]){scattered(KEYS)}, 1, row);
    assert_true(row[0] == 0);
    struct tide_table_stats stats;
    tide_table_stats(table, &stats);
    assert_int_equal(stats.rows, KEYS);
    double limit = 1.15 * KEYS * 40 + 16.0 * KEYS + (1 << 20);
    assert_true((double)stats.memory_bytes < limit);
    tide_store_destroy(store);
}

static void a_hashed_table_stops_at_its_limit(void **state) {
    (void)state;
    struct tide_store *store = open_store();
    struct tide_table *table = make(
        store, (struct tide_table_options){.keys = TIDE_KEYS_HASHED, .width = 1, .key_limit = 100});
    float one = 1;
    for (uint64_t i = 0; i < 100; i++) {
        push(table, (uint64_t[]){scattered(i)}, 1, &one);
    }
    assert_int_equal(tide_table_push(table, (uint64_t[]){scattered(100)}, 1, &one, NULL),
                     TIDE_EFULL);
    push(table, (uint64_t[]){scattered(7)}, 1, &one);
    float row;
    pull(table, (uint64_t[]){scattered(100)}, 1, &row);
    assert_true(row == 0);
    assert_int_equal(tide_table_push(table, (uint64_t[]){scattered(100)}, 1, &one, NULL),
                     TIDE_EFULL);
    tide_store_destroy(store);
}

static void keys_of_a_slot_come_in_order_and_leave_with_their_rows(void **state) {
    (void)state;
    struct tide_store *store = open_store();
    for (int hashed = 0; hashed < 2; hashed++) {
        struct tide_table *table =
            make(store, (struct tide_table_options){.name = hashed ? "h" : "d",
                                                    .keys = (uint8_t)hashed,
                                                    .key_count = 40960,
                                                    .width = 3});
        float one[3] = {1, 1, 1};
        for (uint64_t key = 0; key < 40960; key++) {
            push(table, &key, 1, one);
        }
        size_t total = 0;
        for (uint32_t slot = 0; slot < TIDE_SLOT_COUNT; slot++) {
            uint64_t keys[4], from = 0;
            bool more = true;
            while (more) {
                size_t count;
                assert_int_equal(tide__slot_keys(table, slot, from, keys, 4, &count, &more), 0);
                for (size_t i = 0; i < count; i++) {
                    assert_true(keys[i] >= from);
                    assert_int_equal(tide__slot_of(table, keys[i]), slot);
                    from = keys[i] + 1;
                }
                total += count;
            }
            assert_int_equal(tide__slot_drain(table, slot, NULL, NULL), 0);
        }
        assert_int_equal(total, 40960);
        struct tide_table_stats stats;
        tide_table_stats(table, &stats);
        assert_int_equal(stats.rows, 0);
        float row[3];
        pull(table, (uint64_t[]){17}, 1, row);
        assert_true(row[0] == 0);
        push(table, (uint64_t[]){17}, 1, one);
        pull(table, (uint64_t[]){17}, 1, row);
        assert_true(row[0] == 1);
    }
    tide_store_destroy(store);
}

/* ---- options ---- */

static void bad_options_are_refused_and_equal_ones_find_the_table(void **state) {
    (void)state;
    struct tide_store *store = open_store();
    struct tide_table *a, *b;
    const struct tide_table_options good = {
        .name = "w", .key_count = 5, .width = 2, .update = TIDE_UPDATE_ADAM};
    const struct tide_table_options bad[] = {
        {.name = "W!", .key_count = 5, .width = 2},
        {.key_count = 5, .width = 2},
        {.name = "w", .key_count = 5, .width = 0},
        {.name = "w", .key_count = 5, .width = 1 << 20},
        {.name = "w", .width = 2},
        {.name = "w", .key_count = UINT64_MAX, .width = 2},
        {.name = "w", .key_count = 5, .width = 2, .update = 9},
        {.name = "w", .key_count = 5, .width = 2, .lr = NAN},
        {.name = "w", .key_count = 5, .width = 2, .init = TIDE_INIT_XAVIER},
        {.name = "w", .key_count = 5, .width = 2, .update = TIDE_UPDATE_ADAM, .beta1 = 1.5f},
    };
    for (size_t i = 0; i < TIDE_COUNT(bad); i++) {
        assert_int_equal(tide__table_create_in(store, &bad[i], &a), TIDE_EINVAL);
    }
    assert_int_equal(tide__table_create_in(store, &good, &a), 0);
    assert_int_equal(tide__table_create_in(store, &good, &b), 0);
    assert_ptr_equal(a, b);
    const char *const told[] = {"table 'w' exists with other options: update is adam, not add; width is 2, not 3",
                                "seed is 0, not 18446744073709551615", "consistency is sequential, not ssp:3"};
    struct tide_table_options other = good;
    other.width = 3;
    other.update = TIDE_UPDATE_ADD;
    other.seed = UINT64_MAX;
    other.consistency = (struct tide_consistency){.model = TIDE_SSP, .staleness = 3};
    assert_int_equal(tide__table_create_in(store, &other, &b), TIDE_EMISMATCH);
    for (size_t i = 0; i < TIDE_COUNT(told); i++) {
        assert_non_null(strstr(tide_error_message(), told[i]));
    }
    assert_true(tide_table_options(a)->beta1 == 0.9f && tide_table_options(a)->epsilon == 1e-8f);
    struct tide_writer w;
    tide_writer_init(&w, NULL, 0);
    tide__options_write(&w, tide_table_options(a));
    struct tide_reader r;
    tide_reader_init(&r, w.data, w.size);
    char name[64];
    assert_int_equal(tide__options_read(&r, &other, name), 0);
    assert_int_equal(tide__options_agree(&other, tide_table_options(a)), 0);
    for (size_t cut = 0; cut < w.size; cut++) {
        tide_reader_init(&r, w.data, cut);
        assert_true(tide__options_read(&r, &other, name) < 0);
    }
    tide_writer_release(&w);
    tide_store_destroy(store);
}

/* As a journal of before has it: a list in one order, without names, and without `clients`. */
static void a_list_of_options_of_before_is_read(void **state) {
    (void)state;
    static const uint8_t list[] = {
        0xdc, 0x00, 0x10, 0xa4, 0x72, 0x6f, 0x77, 0x73, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00, 0x00, 0x01, 0xc2, 0xcd, 0x01, 0x2c,
        0x00, 0x20, 0x00, 0xc7, 0x1c, 0x01, 0x00, 0x00, 0x80, 0x3f, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
        0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x9a, 0x03, 0xc2, 0x01, 0x00, 0xcb,
        0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xc2, 0xce, 0x40, 0x00, 0x00, 0x00, 0x10, 0x03, 0xce, 0x00, 0x02, 0x49,
        0xf0,
    };
    struct tide_table_options o;
    struct tide_reader r;
    char name[64];
    tide_reader_init(&r, list, sizeof list);
    assert_int_equal(tide__options_read(&r, &o, name), 0);
    assert_ptr_equal(r.at, r.end);
    assert_string_equal(name, "rows");
    assert_int_equal(o.init, TIDE_INIT_NORMAL);
    assert_int_equal(o.key_count, 300);
    assert_int_equal(o.width, 32);
    assert_true(o.init_a == 1.0f);
    assert_int_equal(o.consistency.model, TIDE_ESSP);
    assert_int_equal(o.send_order, TIDE_SEND_RANDOM);
    assert_int_equal(o.bandwidth, 150000);
}

static void every_option_is_written_and_read_by_its_name(void **state) {
    (void)state;
    size_t tried = 0;
    for (const struct tide__option *option = tide__options; option->name; option++, tried++) {
        struct tide_table_options o = {.name = "w", .key_count = 9}, back;
        struct tide_writer w;
        struct tide_reader r;
        char name[64];
        if (option->real) {
            tide__option_set_real(option, &o, 0.25f);
        } else if (option->text) {
            strcpy(tide__option_room(option, &o), "x");
        } else {
            tide__option_set(option, &o, 1);
        }
        tide_writer_init(&w, NULL, 0);
        tide__options_write(&w, &o);
        tide_reader_init(&r, w.data, w.size);
        struct tide_reader value;
        assert_true(tide_read_field(&r, option->name, &value));
        const int code = tide__options_read(&r, &back, name); /* without a width: EINVAL, and nothing is mended */
        assert_int_not_equal(code, TIDE_EPROTO);
        if (option->real   ? tide__option_real(option, &back) != 0.25f
            : option->text ? strcmp(tide__option_text(option, &back), "x") != 0
                           : tide__option_get(option, &back) != 1) {
            fail_msg("%s is lost", option->name);
        }
        tide_writer_release(&w);
    }
    assert_true(tried > 25);
}

static void an_option_that_is_not_known_is_refused_by_name(void **state) {
    (void)state;
    struct tide_table_options o;
    struct tide_writer w;
    struct tide_reader r;
    char name[64];
    tide_writer_init(&w, NULL, 0);
    tide_write_map(&w, 2);
    tide_write_text(&w, "name");
    tide_write_text(&w, "w");
    tide_write_text(&w, "colour");
    tide_write_uint(&w, 3);
    tide_reader_init(&r, w.data, w.size);
    assert_int_equal(tide__options_read(&r, &o, name), TIDE_EPROTO);
    assert_non_null(strstr(tide_error_message(), "'colour'"));
    tide_writer_release(&w);
}

static void values_of_two_bytes_round_to_nearest(void **state) {
    (void)state;
    const float exact[] = {
        0.0f, -0.0f, 1.0f, -2.5f, 65504.0f, 6.103515625e-05f, 5.9604644775390625e-08f, INFINITY};
    float back[TIDE_COUNT(exact)];
    uint16_t half[TIDE_COUNT(exact)];
    tide__floats_to_half(exact, half, TIDE_COUNT(exact), TIDE_WIRE_F16);
    tide__half_to_floats(half, back, TIDE_COUNT(exact), TIDE_WIRE_F16);
    assert_memory_equal(exact, back, sizeof exact);
    const struct {
        float value;
        uint16_t half, bfloat;
    } cases[] = {
        {1.0f + 0x1p-11f, 0x3c00, 0x3f80}, /* a tie goes to even */
        {1.0f + 3 * 0x1p-11f, 0x3c02, 0x3f80},
        {65519.0f, 0x7bff, 0x4780},
        {65520.0f, 0x7c00, 0x4780},
        {1.0f + 0x1p-8f, 0x3c04, 0x3f80},
        {1.0f + 3 * 0x1p-8f, 0x3c0c, 0x3f82},
        {3.4e38f, 0x7c00, 0x7f80},
    };
    for (size_t i = 0; i < TIDE_COUNT(cases); i++) {
        uint16_t out;
        tide__floats_to_half(&cases[i].value, &out, 1, TIDE_WIRE_F16);
        assert_int_equal(out, cases[i].half);
        tide__floats_to_half(&cases[i].value, &out, 1, TIDE_WIRE_BF16);
        assert_int_equal(out, cases[i].bfloat);
    }
    float nan = NAN;
    tide__floats_to_half(&nan, half, 1, TIDE_WIRE_BF16);
    tide__half_to_floats(half, back, 1, TIDE_WIRE_BF16);
    assert_true(isnan(back[0]));
}

/* ---- threads ---- */

enum { THREADS = 4, ROUNDS = 200, SHARED_KEYS = 1000, SHARED_WIDTH = 9 };

struct pusher {
    struct tide_table *table;
    uint64_t seed;
};

static void *push_ones(void *arg) {
    struct pusher *p = arg;
    struct tide_random random;
    tide_random_seed(&random, p->seed);
    uint64_t keys[SHARED_KEYS];
    float ones[SHARED_KEYS * SHARED_WIDTH], rows[SHARED_KEYS * SHARED_WIDTH];
    for (int i = 0; i < SHARED_KEYS; i++) {
        keys[i] = p->table->options.keys == TIDE_KEYS_HASHED ? scattered((uint64_t)i) : (uint64_t)i;
    }
    for (int i = 0; i < SHARED_KEYS * SHARED_WIDTH; i++) {
        ones[i] = 1;
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (size_t i = SHARED_KEYS; i-- > 1;) {
            size_t j = (size_t)tide_random_below(&random, i + 1);
            uint64_t key = keys[i];
            keys[i] = keys[j];
            keys[j] = key;
        }
        if (tide_table_push(p->table, keys, SHARED_KEYS, ones, NULL) != 0 ||
            tide_table_pull(p->table, keys, SHARED_KEYS, rows, NULL) != 0) {
            return p;
        }
        for (size_t i = 0; i < SHARED_KEYS; i++) { /* a row is seen whole, and with what we did */
            float first = rows[i * SHARED_WIDTH];
            for (size_t j = 1; j < SHARED_WIDTH; j++) {
                if (rows[i * SHARED_WIDTH + j] != first) {
                    return p;
                }
            }
            if (first < (float)(round + 1)) {
                return p;
            }
        }
    }
    return NULL;
}

static void threads_push_the_same_keys_and_no_update_is_lost(void **state) {
    (void)state;
    for (int hashed = 0; hashed < 2; hashed++) {
        struct tide_store *store = open_store();
        struct tide_table *table = make(store, (struct tide_table_options){.keys = (uint8_t)hashed,
                                                                           .key_count = SHARED_KEYS,
                                                                           .width = SHARED_WIDTH});
        pthread_t threads[THREADS];
        struct pusher pushers[THREADS];
        for (int i = 0; i < THREADS; i++) {
            pushers[i] = (struct pusher){.table = table, .seed = (uint64_t)i};
            assert_int_equal(pthread_create(&threads[i], NULL, push_ones, &pushers[i]), 0);
        }
        for (int i = 0; i < THREADS; i++) {
            void *failed;
            assert_int_equal(pthread_join(threads[i], &failed), 0);
            assert_null(failed);
        }
        for (uint64_t i = 0; i < SHARED_KEYS; i++) {
            float row[SHARED_WIDTH];
            pull(table, (uint64_t[]){hashed ? scattered(i) : i}, 1, row);
            for (int j = 0; j < SHARED_WIDTH; j++) {
                assert_true(row[j] == THREADS * ROUNDS);
            }
        }
        struct tide_table_stats stats;
        tide_table_stats(table, &stats);
        assert_int_equal(stats.rows, SHARED_KEYS);
        assert_int_equal(stats.pushes_local, THREADS * ROUNDS * SHARED_KEYS);
        tide_store_destroy(store);
    }
}

static void a_row_of_about_a_page_lies_in_one(void **state) {
    (void)state;
    static const uint32_t floats[] = {1000, 1024, 980}, strides[] = {4096, 4096, 3968};
    struct tide__slab *slab = calloc(1, sizeof *slab);
    for (size_t i = 0; i < TIDE_COUNT(floats); i++) {
        uint32_t row = 0;
        tide__slab_init(slab, floats[i], NULL);
        for (int taken = 0; taken < 1000; taken++) {
            assert_int_equal(tide__slab_take(slab, &row), 0);
            assert_true(strides[i] < 4096 || (uintptr_t)tide__slab_row(slab, row) % 4096 == 0);
        }
        assert_int_equal(slab->stride, strides[i]);
        tide__slab_deinit(slab);
    }
    free(slab);
}

static void lent_rows_are_nobodys_until_the_loan_ends(void **state) {
    (void)state;
    enum { WIDE = 1000, LENT = 3, OTHERS = 100 };
    struct tide__slab *slab = calloc(1, sizeof *slab);
    uint32_t rows[LENT], others[OTHERS], row = 0;
    tide__slab_init(slab, WIDE, NULL);
    struct tide__zero_copy_source *zero_copy_source = tide__zero_copy_source_create(slab);
    struct tide_blob *loan = tide__zero_copy_create(zero_copy_source), *late = tide__zero_copy_create(zero_copy_source);
    for (int i = 0; i < LENT; i++) {
        assert_int_equal(tide__hand_take(slab, &rows[i]), 0);
        tide__slab_row(slab, rows[i])[WIDE - 1] = (float)i;
        tide__zero_copy_add(loan, rows[i]);
    }
    assert_int_equal(loan->size, LENT * WIDE * sizeof(float));
    assert_int_equal(tide__slab_used(slab), 0);
    for (int i = 0; i < OTHERS; i++) {
        assert_int_equal(tide__hand_take(slab, &others[i]), 0);
        memset(tide__slab_row(slab, others[i]), 1, WIDE * sizeof(float));
    }
    const struct tide_scatter *scatter = loan->data;
    assert_int_equal(scatter->count, LENT);
    for (int i = 0; i < LENT; i++) {
        assert_int_equal(scatter->parts[i].size, WIDE * sizeof(float));
        assert_true(((const float *)scatter->parts[i].data)[WIDE - 1] == (float)i);
    }
    tide_blob_unref(loan);
    assert_int_equal(tide__slab_used(slab), OTHERS);
    assert_int_equal(tide__hand_take(slab, &row), 0);
    assert_int_equal(row, rows[LENT - 1]);
    tide__zero_copy_add(late, row); /* the table goes before it */
    tide__zero_copy_source_close(zero_copy_source);
    tide__slab_deinit(slab);
    free(slab);
    tide_blob_unref(late);
}

static void a_dense_table_costs_little_beside_its_rows(void **state) {
    (void)state;
    struct tide_store *store = open_store();
    struct tide_table *table =
        make(store, (struct tide_table_options){.key_count = 1000000, .width = 10});
    float row[10] = {0};
    for (uint64_t key = 0; key < 1000000; key++) {
        push(table, &key, 1, row);
    }
    struct tide_table_stats stats;
    tide_table_stats(table, &stats);
    assert_true((double)stats.memory_bytes < 1.15 * 40e6 + 16e6);
    struct tide__slab slab;
    tide__slab_init(&slab, 100, NULL);
    assert_int_equal(slab.stride, 448); /* 12 % for whole cache lines */
    tide__slab_init(&slab, 10, NULL);
    assert_int_equal(slab.stride, 40);
    tide__slab_init(&slab, 13, NULL);
    assert_int_equal(slab.stride, 52);
    tide__slab_init(&slab, 15, NULL);
    assert_int_equal(slab.stride, 64);
    tide_store_destroy(store);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_of_about_a_page_lies_in_one),
        cmocka_unit_test(lent_rows_are_nobodys_until_the_loan_ends),
        cmocka_unit_test(rules_agree_with_their_formulas_at_every_width),
        cmocka_unit_test(a_rule_of_a_module_steps_as_the_same_one_of_tides_own),
        cmocka_unit_test(rules_that_break_the_contract_and_tables_without_their_rule_are_refused),
        cmocka_unit_test(a_rule_whose_pushes_add_up_may_have_copies),
        cmocka_unit_test(rules_come_to_the_same_bits_on_all_processors),
        cmocka_unit_test(initial_values_are_a_function_of_seed_and_key_alone),
        cmocka_unit_test(initial_values_follow_their_distribution),
        cmocka_unit_test(duplicates_in_one_call_take_effect_in_order),
        cmocka_unit_test(a_key_out_of_range_is_named_and_nothing_is_done),
        cmocka_unit_test(rows_with_nan_or_infinity_are_counted_or_refused),
        cmocka_unit_test(numbers_beyond_the_wire_are_counted_or_refused),
        cmocka_unit_test(pull_local_says_what_was_filled),
        cmocka_unit_test(every_key_has_a_place_of_its_own),
        cmocka_unit_test(a_hashed_table_grows_and_keeps_every_row),
        cmocka_unit_test(a_hashed_table_stops_at_its_limit),
        cmocka_unit_test(keys_of_a_slot_come_in_order_and_leave_with_their_rows),
        cmocka_unit_test(bad_options_are_refused_and_equal_ones_find_the_table),
        cmocka_unit_test(a_list_of_options_of_before_is_read),
        cmocka_unit_test(every_option_is_written_and_read_by_its_name),
        cmocka_unit_test(an_option_that_is_not_known_is_refused_by_name),
        cmocka_unit_test(values_of_two_bytes_round_to_nearest),
        cmocka_unit_test(threads_push_the_same_keys_and_no_update_is_lost),
        cmocka_unit_test(a_dense_table_costs_little_beside_its_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
