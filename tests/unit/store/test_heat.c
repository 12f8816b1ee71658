/*
 * Heat: the hottest keys of a skewed load are found with their shares of reads and writes, an even
 * load has none, keys that were hot are overtaken by those that are, threads count together.
 */
#include "store/core/node_store.h"
#include "store_world.h"

#include "store/core/key_counts.h"
#include "tide/stats.h"

#include <pthread.h>

enum { KEYS = 100000, HOT = 8 };

static struct tide_table *bare_table(struct tide_store **store) {
    struct tide_table *table;
    assert_int_equal(tide__store_create_bare(store), 0);
    struct tide_table_options options = {.name = "t", .key_count = KEYS, .width = 1};
    assert_int_equal(tide__table_create_in(*store, &options, &table), 0);
    return table;
}

/* Calls of 64 keys, the sampling distance: keys are drawn evenly from all, but at place 5 stands a hot
 * one. So each of these has a share of 1/512. */
static void work(struct tide__heat *heat, uint64_t first_hot, unsigned calls, uint64_t seed) {
    enum { BATCH = 64 };
    struct tide_random random;
    uint64_t keys[BATCH];
    tide_random_seed(&random, seed);
    for (unsigned i = 0; i < calls; i++) {
        for (size_t k = 0; k < BATCH; k++) {
            keys[k] = tide_random_below(&random, KEYS);
        }
        keys[5] = first_hot + tide_random_below(&random, HOT);
        tide__heat_access(heat, i % 2, keys, BATCH, i % 4 == 0);
    }
}

static void the_hot_keys_of_a_skewed_load_come_first(void **state) {
    (void)state;
    struct tide__heat *heat = tide__heat_create();
    struct tide_hot_key hot[HOT + 10];
    uint64_t total;
    assert_int_equal(tide__heat_top(heat, hot, HOT, &total), 0);
    assert_int_equal(total, 0);
    work(heat, 500, 100000, 1);
    assert_int_equal(tide__heat_top(heat, hot, HOT + 10, &total), HOT + 10);
    for (size_t i = 0; i < HOT; i++) {
        assert_in_range(hot[i].key, 500, 500 + HOT - 1);
        const double share = (double)(hot[i].reads + hot[i].writes) / (double)total;
        assert_true(share > 0.5 / 512 && share < 1.5 / 512);
        for (size_t j = 0; j < i; j++) {
            assert_true(hot[j].key != hot[i].key);
            assert_true(hot[j].reads + hot[j].writes >= hot[i].reads + hot[i].writes);
        }
    }
    tide__heat_destroy(heat);
}

static void reads_and_writes_are_told_apart(void **state) {
    (void)state;
    struct tide_store *store;
    struct tide_table *table = bare_table(&store);
    struct tide_hot_key hot[2];
    uint64_t total, key = 7;
    float row = 0;
    for (int i = 0; i < 64000; i++) {
        assert_int_equal(tide_table_pull(table, &key, 1, &row, NULL), 0);
        if (i % 4 == 0) {
            assert_int_equal(tide_table_push(table, &key, 1, &row, NULL), 0);
        }
    }
    assert_int_equal(tide_table_hottest(table, hot, 2, &total), 1);
    assert_int_equal(hot[0].key, 7);
    assert_int_equal(hot[0].reads + hot[0].writes, total);
    assert_int_equal(hot[0].doubt, 0);
    assert_in_range(total, 72000, 88000);
    assert_in_range(hot[0].reads, 3 * hot[0].writes, 5 * hot[0].writes);
    tide_store_destroy(store);
}

static void keys_that_were_hot_cool_down(void **state) {
    (void)state;
    struct tide__heat *heat = tide__heat_create();
    struct tide_hot_key hot[HOT];
    uint64_t total;
    work(heat, 0, 40000, 2);
    work(heat, 40000, 160000, 3);
    assert_int_equal(tide__heat_top(heat, hot, HOT, &total), HOT);
    for (size_t i = 0; i < HOT; i++) {
        assert_in_range(hot[i].key, 40000, 40000 + HOT - 1);
    }
    assert_true(total <= 2 * TIDE__HEAT_HALVE * TIDE__HEAT_ONE_IN);
    tide__heat_destroy(heat);
}

static void counters_never_claim_more_than_there_was(void **state) {
    (void)state;
    enum { FEW = 3000 };
    struct tide__heat *heat = tide__heat_create();
    struct tide_hot_key *hot = calloc(TIDE__HEAT_SETS * TIDE__HEAT_WAYS, sizeof *hot);
    uint32_t *truth = calloc(2 * FEW, sizeof *truth);
    struct tide_random random;
    uint64_t total;
    tide_random_seed(&random, 4);
    for (unsigned i = 0; i < TIDE__HEAT_HALVE - 1; i++) { /* before anything is halved */
        uint64_t key = tide_random_below(&random, 1 + tide_random_below(&random, FEW));
        tide__heat_note(heat, key, i % 3 == 0);
        truth[2 * key + (i % 3 == 0)] += TIDE__HEAT_ONE_IN;
    }
    size_t count = tide__heat_top(heat, hot, TIDE__HEAT_SETS * TIDE__HEAT_WAYS, &total);
    assert_in_range(count, 1, TIDE__HEAT_SETS * TIDE__HEAT_WAYS);
    assert_int_equal(total, (uint64_t)(TIDE__HEAT_HALVE - 1) * TIDE__HEAT_ONE_IN);
    for (size_t i = 0; i < count; i++) {
        const uint32_t *t = &truth[2 * hot[i].key];
        assert_true(hot[i].reads <= t[0] && hot[i].writes <= t[1]);
        assert_true(hot[i].reads + hot[i].writes + hot[i].doubt >= t[0] + t[1]);
    }
    free(truth);
    free(hot);
    tide__heat_destroy(heat);
}

struct noter {
    struct tide__heat *heat;
    unsigned thread;
};

static void *note_run(void *arg) {
    const struct noter *n = arg;
    const uint64_t keys[4] = {1, 2, 3, 3};
    for (int i = 0; i < 100000; i++) {
        tide__heat_access(n->heat, n->thread, keys, TIDE_COUNT(keys), false);
    }
    return NULL;
}

static void threads_count_together(void **state) {
    (void)state;
    enum { THREADS = 4 };
    struct noter noters[THREADS];
    pthread_t threads[THREADS];
    struct tide__heat *heat = tide__heat_create();
    struct tide_hot_key hot[3];
    uint64_t total;
    for (unsigned i = 0; i < THREADS; i++) { /* the last two share a stripe */
        noters[i] = (struct noter){heat, i < 3 ? i : 2};
        assert_int_equal(pthread_create(&threads[i], NULL, note_run, &noters[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_int_equal(tide__heat_top(heat, hot, 3, &total), 3);
    assert_int_equal(hot[0].key, 3);
    assert_true(total > 3 * 300000);
    tide__heat_destroy(heat);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_hot_keys_of_a_skewed_load_come_first),
        cmocka_unit_test(reads_and_writes_are_told_apart),
        cmocka_unit_test(keys_that_were_hot_cool_down),
        cmocka_unit_test(counters_never_claim_more_than_there_was),
        cmocka_unit_test(threads_count_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
