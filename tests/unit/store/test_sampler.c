/*
 * Sampling: independent draws follow the distribution, pools depend only within their window,
 * postponing keeps the frequencies, local sampling stays local and ends, prepared keys come here.
 */
#include "store/core/node_store.h"
#include "store_world.h"
#include "tide/placement.h"
#include "tide/sampler.h"
#include "tide/stats.h"

enum { KEYS = 400, WIDTH = 2 };

static struct tide_table *bare_table(struct tide_store **store) {
    struct tide_table *table;
    assert_int_equal(tide__store_create_bare(store), 0);
    struct tide_table_options options = {.name = "t", .key_count = KEYS, .width = WIDTH};
    assert_int_equal(tide__table_create_in(*store, &options, &table), 0);
    return table;
}

static struct tide_sampler *sampler(struct tide_table *table, struct tide_sampler_options options) {
    struct tide_sampler *s;
    assert_int_equal(tide_sampler_create(table, &options, &s), 0);
    return s;
}

static void sample(struct tide_sampler *s, uint64_t *keys, size_t count) {
    uint32_t number;
    assert_int_equal(tide_sampler_prepare(s, count, &number), 0);
    assert_int_equal(tide_sampler_pull(s, number, count, keys, NULL), 0);
    assert_int_equal(tide_sampler_finish(s, number), 0);
}

/* ---- distributions ---- */

static double chi_square(struct tide_table *table, struct tide_sampler_options options,
                         const double *shares, size_t kinds) {
    enum { BATCH = 1000, BATCHES = 1000 };
    struct tide_sampler *s = sampler(table, options);
    uint64_t keys[BATCH], seen[KEYS] = {0};
    double chi = 0;
    for (int b = 0; b < BATCHES; b++) {
        sample(s, keys, BATCH);
        for (int i = 0; i < BATCH; i++) {
            assert_in_range(keys[i], options.first_key, options.first_key + kinds - 1);
            seen[keys[i] - options.first_key]++;
        }
    }
    for (size_t k = 0; k < kinds; k++) {
        double expected = shares[k] * BATCH * BATCHES;
        assert_true(expected > 0 || seen[k] == 0);
        chi += expected > 0 ? ((double)seen[k] - expected) * ((double)seen[k] - expected) / expected
                            : 0;
    }
    tide_sampler_destroy(s);
    return chi;
}

/* The bounds are those of p = 0.001 with 9 and 8 degrees of freedom; the draws are fixed by seed.
 */
static void independent_draws_follow_the_distribution(void **state) {
    (void)state;
    enum { KINDS = 10 };
    const double weights[KINDS] = {10, 1, 0, 5, 5, 20, 0.5, 3, 3, 2.5};
    double shares[KINDS], even[KINDS], sum = 0;
    struct tide_store *store;
    struct tide_table *table = bare_table(&store);
    for (int i = 0; i < KINDS; i++) {
        sum += weights[i];
        even[i] = 1.0 / KINDS;
    }
    for (int i = 0; i < KINDS; i++) {
        shares[i] = weights[i] / sum;
    }
    for (uint8_t scheme = TIDE_SAMPLE_NAIVE; scheme <= TIDE_SAMPLE_LOCAL; scheme++) {
        if (scheme == TIDE_SAMPLE_POOL || scheme == TIDE_SAMPLE_POSTPONE) {
            continue;
        }
        struct tide_sampler_options options = {
            .scheme = scheme, .first_key = 20, .key_count = KINDS, .seed = 11};
        assert_true(chi_square(table, options, even, KINDS) < 27.88);
        options.weights = weights;
        assert_true(chi_square(table, options, shares, KINDS) < 26.13);
    }
    tide_store_destroy(store);
}

static void pools_depend_only_within_their_window(void **state) {
    (void)state;
    enum { GROUP = 50, REUSE = 4, WINDOW = GROUP * REUSE, WINDOWS = 200 };
    struct tide_store *store;
    struct tide_table *table = bare_table(&store);
    struct tide_sampler *s =
        sampler(table, (struct tide_sampler_options){
                           .scheme = TIDE_SAMPLE_POOL, .group = GROUP, .reuse = REUSE, .seed = 3});
    unsigned total[KEYS] = {0};
    struct tide_sampler_stats stats;
    for (int w = 0; w < WINDOWS; w++) {
        uint64_t keys[WINDOW];
        unsigned seen[KEYS] = {0};
        for (size_t at = 0; at < WINDOW; at += 8) {
            sample(s, keys + at, 8);
        }
        for (int i = 0; i < WINDOW; i++) {
            seen[keys[i]]++;
        }
        for (int k = 0; k < KEYS; k++) {
            assert_int_equal(seen[k] % REUSE, 0);
            total[k] += seen[k] / REUSE;
        }
    }
    tide_sampler_stats(s, &stats);
    assert_true(stats.groups >= WINDOWS && stats.groups < WINDOWS + 4);
    double chi = 0, expected = (double)GROUP * WINDOWS / KEYS;
    for (int k = 0; k < KEYS; k++) {
        chi += ((double)total[k] - expected) * ((double)total[k] - expected) / expected;
    }
    assert_true(chi < 491); /* p = 0.001 with 399 degrees of freedom */
    tide_sampler_destroy(s);
    tide_store_destroy(store);
}

static int next_of(void *argument, uint64_t *key) {
    uint64_t *next = argument;
    *key = (*next)++;
    return *key == 7 ? tide_fail(TIDE_ECANCELED, "no more") : 0;
}

static void draws_of_the_callers_own_are_taken_and_checked(void **state) {
    (void)state;
    struct tide_store *store;
    struct tide_table *table = bare_table(&store);
    uint64_t next = 2, keys[4];
    struct tide_sampler *s =
        sampler(table, (struct tide_sampler_options){
                           .scheme = TIDE_SAMPLE_PRELOC, .draw = next_of, .argument = &next});
    uint32_t number;
    sample(s, keys, 4);
    assert_int_equal(keys[0], 2);
    assert_int_equal(keys[3], 5);
    assert_int_equal(tide_sampler_prepare(s, 4, &number), TIDE_ECANCELED);
    next = KEYS - 1;
    assert_int_equal(tide_sampler_prepare(s, 4, &number), TIDE_ERANGE);
    assert_non_null(strstr(tide_error_message(), "key 400 was drawn outside 0..399"));
    tide_sampler_destroy(s);
    tide_store_destroy(store);
}

static void bad_samplers_and_samples_are_refused(void **state) {
    (void)state;
    static const double zeros[4] = {0};
    const struct {
        struct tide_sampler_options options;
        int code;
    } bad[] = {
        {{.scheme = 5}, TIDE_EINVAL},
        {{.first_key = KEYS}, TIDE_EINVAL},
        {{.first_key = 1, .key_count = KEYS}, TIDE_ERANGE},
        {{.key_count = 4, .weights = zeros}, TIDE_EINVAL},
        {{.group = 1 << 20}, TIDE_EINVAL},
        {{.reuse = 1 << 20}, TIDE_EINVAL},
    };
    struct tide_store *store;
    struct tide_table *table = bare_table(&store);
    struct tide_sampler *s;
    uint64_t keys[8];
    uint32_t number;
    for (size_t i = 0; i < TIDE_COUNT(bad); i++) {
        assert_int_equal(tide_sampler_create(table, &bad[i].options, &s), bad[i].code);
    }
    s = sampler(table, (struct tide_sampler_options){.scheme = TIDE_SAMPLE_PRELOC});
    assert_int_equal(tide_sampler_prepare(s, (1 << 20) + 1, &number), TIDE_ELIMIT);
    assert_int_equal(tide_sampler_prepare(s, 5, &number), 0);
    assert_int_equal(tide_sampler_pull(s, number, 3, keys, NULL), 0);
    assert_int_equal(tide_sampler_pull(s, number, 3, keys, NULL), TIDE_EINVAL);
    assert_non_null(strstr(tide_error_message(), "has 2 keys left, not 3"));
    assert_int_equal(tide_sampler_pull(s, number + 1, 1, keys, NULL), TIDE_EINVAL);
    assert_int_equal(tide_sampler_finish(s, number), 0);
    assert_int_equal(tide_sampler_finish(s, number), TIDE_EINVAL);
    for (int i = 0; i < 4096; i++) {
        assert_int_equal(tide_sampler_prepare(s, 0, &number), 0);
    }
    assert_int_equal(tide_sampler_prepare(s, 0, &number), TIDE_ELIMIT);
    tide_sampler_destroy(s); /* with all of them open */
    tide_store_destroy(store);
}

/* ---- on several nodes ---- */

static bool here(struct fiber *f, struct tide_table *table, uint64_t key) {
    uint16_t node = 0;
    return tide_table_where(table, key, &node) == 0 && node == tide_node_id(f->node);
}

static void prepared_run(struct fiber *f) {
    enum { COUNT = 60 };
    struct tide_table *table;
    uint64_t keys[COUNT];
    float rows[COUNT * WIDTH];
    uint32_t number;
    CHECK(f, tide_table_find(f->node, "moves", &table) == 0);
    struct tide_sampler *s = sampler(
        table, (struct tide_sampler_options){.scheme = TIDE_SAMPLE_PRELOC, .seed = f->index});
    struct tide_table_stats before, after;
    tide_table_stats(table, &before);
    CHECK(f, tide_sampler_prepare(s, COUNT, &number) == 0);
    CHECK(f, tide_sleep(50000000) == 0);
    CHECK(f, tide_sampler_pull(s, number, COUNT, keys, rows) == 0);
    for (int i = 0; i < COUNT; i++) {
        CHECK(f, here(f, table, keys[i]));
        CHECK(f, rows[i * WIDTH] == 0);
    }
    tide_table_stats(table, &after);
    CHECK(f, after.pulls_remote == before.pulls_remote);
    CHECK(f, after.relocated_in > before.relocated_in);
    CHECK(f, tide_sampler_finish(s, number) == 0);
    tide_sampler_destroy(s);
}

static atomic_bool drawn; /* the thief may end */

/* Takes keys away from whoever has them, as long as somebody draws. */
static void thief_run(struct fiber *f) {
    struct tide_table *table;
    CHECK(f, tide_table_find(f->node, "moves", &table) == 0);
    while (!atomic_load(&drawn) && !f->failure[0]) {
        uint64_t keys[20];
        for (int j = 0; j < 20; j++) {
            keys[j] = tide_random_below(&f->random, KEYS);
        }
        CHECK(f, tide_table_localize(table, keys, 20, NULL) == 0);
        (void)tide_sleep(200000);
    }
}

static void draw(struct fiber *f) {
    enum { COUNT = 40, ROUNDS = 500, ROUNDS_MAX = 100 * ROUNDS };
    struct tide_table *table;
    uint64_t keys[COUNT];
    float rows[COUNT * WIDTH];
    unsigned seen[KEYS] = {0};
    struct tide_sampler_stats stats;
    CHECK(f, tide_table_find(f->node, "moves", &table) == 0);
    struct tide_sampler *s = sampler(
        table, (struct tide_sampler_options){
                   .scheme = TIDE_SAMPLE_POSTPONE, .group = 100, .reuse = 2, .seed = f->index});
    /* On a busy machine the thief may get no turn for long. */
    stats.postponed = 0;
    int round = 0;
    for (; round < ROUNDS || (stats.postponed == 0 && round < ROUNDS_MAX); round++) {
        uint32_t number;
        CHECK(f, tide_sampler_prepare(s, COUNT, &number) == 0);
        for (size_t at = 0; at < COUNT; at += COUNT / 4) {
            CHECK(f, tide_sampler_pull(s, number, COUNT / 4, keys + at, rows) == 0);
        }
        CHECK(f, tide_sampler_finish(s, number) == 0);
        for (int i = 0; i < COUNT; i++) {
            seen[keys[i]]++;
        }
        (void)tide_sleep(50000);
        tide_sampler_stats(s, &stats);
    }
    CHECK(f, stats.postponed > 0);
    CHECK(f, stats.pulled == (uint64_t)COUNT * (unsigned)round);
    double chi = 0, expected = (double)COUNT * round / KEYS / 2; /* draws, each used twice */
    for (int k = 0; k < KEYS; k++) {
        chi += pow((double)seen[k] / 2 - expected, 2) / expected;
    }
    CHECK(f, chi < 491);
    tide_sampler_destroy(s);
}

static void postpone_run(struct fiber *f) {
    draw(f);
    atomic_store(&drawn, true);
}

static void nodes_sample(bool simulated, uint64_t seed) {
    struct cluster c;
    atomic_store(&drawn, false);
    open_cluster(&c, simulated, 2, seed);
    create(&c, (struct tide_table_options){
                   .name = "moves", .key_count = KEYS, .width = WIDTH, .technique = TIDE_RELOCATE});
    run_alone(&c, 1, prepared_run, NULL);
    struct fiber fibers[2];
    start(&c, &fibers[0], 0, 0, thief_run, NULL);
    start(&c, &fibers[1], 1, 1, postpone_run, NULL);
    finish(&c, fibers, 2);
    close_cluster(&c);
}

static void keys_come_ahead_and_late_ones_are_put_off_real(void **state) {
    (void)state;
    nodes_sample(false, 1);
}

static void keys_come_ahead_and_late_ones_are_put_off_simulated(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        nodes_sample(true, seed);
    }
}

static void local_run(struct fiber *f) {
    enum { COUNT = 500 };
    struct tide_table *table;
    uint64_t keys[COUNT];
    unsigned mine = 0;
    struct tide_sampler_stats stats;
    CHECK(f, tide_table_find(f->node, "stays", &table) == 0);
    struct tide_sampler_options options = {.scheme = TIDE_SAMPLE_LOCAL, .seed = 5};
    struct tide_sampler *s = sampler(table, options);
    sample(s, keys, COUNT);
    for (int i = 0; i < COUNT; i++) {
        CHECK(f, here(f, table, keys[i]));
    }
    tide_sampler_stats(s, &stats);
    CHECK(f, stats.not_found == 0);
    tide_sampler_destroy(s);
    for (uint64_t k = 0; k < KEYS; k++) {
        mine += here(f, table, k);
    }
    CHECK(f, mine > 0 && mine < KEYS);
    /* Nothing of the other node's half is here: it ends all the same. */
    options.first_key = here(f, table, 0) ? KEYS - 10 : 0;
    options.key_count = 10;
    s = sampler(table, options);
    sample(s, keys, 20);
    tide_sampler_stats(s, &stats);
    CHECK(f, stats.not_found == 20);
    tide_sampler_destroy(s);
}

/* Weights of the keys that are here, whose shares are those of all draws. */
static void listed_run(struct fiber *f) {
    enum { COUNT = 100000 };
    struct tide_table *table;
    static uint64_t keys[COUNT], seen[KEYS];
    double weights[KEYS], sum = 0, chi = 0;
    unsigned mine = 0;
    CHECK(f, tide_table_find(f->node, "stays", &table) == 0);
    for (uint64_t k = 0; k < KEYS; k++) {
        weights[k] = (double)(k % 5); /* every fifth is never drawn */
        mine += here(f, table, k) && weights[k] > 0;
        sum += here(f, table, k) ? weights[k] : 0;
        seen[k] = 0;
    }
    struct tide_sampler *s = sampler(
        table, (struct tide_sampler_options){
                   .scheme = TIDE_SAMPLE_LOCAL, .seed = 5, .weights = weights, .key_count = KEYS});
    sample(s, keys, COUNT);
    for (int i = 0; i < COUNT; i++) {
        seen[keys[i]]++;
    }
    for (uint64_t k = 0; k < KEYS; k++) {
        const double expected = here(f, table, k) ? COUNT * weights[k] / sum : 0;
        CHECK(f, expected > 0 || seen[k] == 0);
        chi += expected > 0 ? ((double)seen[k] - expected) * ((double)seen[k] - expected) / expected
                            : 0;
    }
    /* Wilson and Hilferty's bound of p = 0.001 with mine - 1 degrees of freedom */
    const double freedom = mine - 1, third = 1 - 2 / (9 * freedom) + 3.09 * sqrt(2 / (9 * freedom));
    CHECK(f, chi < freedom * third * third * third);
    /* Slots come here: their keys are drawn, too. */
    const uint16_t self = tide_node_id(f->node);
    uint32_t slots[TIDE_SLOTS];
    for (uint32_t i = 0; i < TIDE_SLOTS; i++) {
        slots[i] = i;
    }
    CHECK(f, tide_table_move(table, slots, TIDE_SLOTS, self) == 0);
    for (int look = 0; look < 2000 && !here(f, table, KEYS - 1); look++) {
        (void)tide_sleep(1000000);
    }
    CHECK(f, here(f, table, 1) && here(f, table, KEYS - 1));
    sample(s, keys, COUNT);
    memset(seen, 0, sizeof seen);
    for (int i = 0; i < COUNT; i++) {
        seen[keys[i]]++;
    }
    for (uint64_t k = 0; k < KEYS; k++) {
        CHECK(f, (seen[k] > 0) == (weights[k] > 0));
    }
    tide_sampler_destroy(s);
}

/* Draws while another node takes keys: only what an access would find here. */
static void draw_local(struct fiber *f) {
    enum { COUNT = 20, ROUNDS = 400 };
    struct tide_table *table;
    uint64_t keys[COUNT], mine[KEYS];
    unsigned gone = 0;
    CHECK(f, tide_table_find(f->node, "moves", &table) == 0);
    struct tide_sampler *s =
        sampler(table, (struct tide_sampler_options){.scheme = TIDE_SAMPLE_LOCAL, .seed = 5});
    struct tide_sampler_stats stats;
    for (int round = 0; round < ROUNDS && !f->failure[0]; round++) {
        sample(s, keys, COUNT);
        for (int i = 0; i < COUNT; i++) {
            CHECK(f, here(f, table, keys[i]));
        }
        size_t count = 0;
        for (uint64_t k = 0; k < KEYS; k++) {
            if (!here(f, table, k) && count < COUNT) {
                mine[count++] = k;
            }
        }
        gone += count > 0;
        CHECK(f, tide_table_localize(table, mine, count, NULL) == 0);
        (void)tide_sleep(100000);
    }
    tide_sampler_stats(s, &stats);
    CHECK(f, gone > ROUNDS / 4);
    CHECK(f, stats.not_found == 0);
    tide_sampler_destroy(s);
}

static void taken_run(struct fiber *f) {
    draw_local(f);
    atomic_store(&drawn, true);
}

/* Keys that are in flight here are not drawn, and when they are here they are. */
static void arriving_run(struct fiber *f) {
    enum { COUNT = 40 * KEYS };
    struct tide_table *table;
    static uint64_t keys[COUNT];
    uint64_t away[KEYS];
    bool coming[KEYS] = {false}, seen[KEYS] = {false};
    size_t count = 0;
    struct tide_ticket ticket = {0};
    CHECK(f, tide_table_find(f->node, "moves", &table) == 0);
    for (uint64_t k = 0; k < KEYS; k++) {
        if (!here(f, table, k)) {
            away[count++] = k;
            coming[k] = true;
        }
    }
    CHECK(f, count > KEYS / 4 && count < KEYS);
    struct tide_sampler *s =
        sampler(table, (struct tide_sampler_options){.scheme = TIDE_SAMPLE_LOCAL, .seed = 6});
    CHECK(f, tide_table_localize(table, away, count, &ticket) == 0);
    CHECK(f, !tide_ticket_done(&ticket));
    sample(s, keys, COUNT);
    for (int i = 0; i < COUNT; i++) {
        CHECK(f, !coming[keys[i]]);
    }
    CHECK(f, tide_ticket_wait(&ticket) == 0);
    sample(s, keys, COUNT);
    for (int i = 0; i < COUNT; i++) {
        seen[keys[i]] = true;
    }
    for (uint64_t k = 0; k < KEYS; k++) {
        CHECK(f, seen[k]);
    }
    tide_sampler_destroy(s);
}

static void local_sampling_follows_rows_that_move(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        struct cluster c;
        struct fiber fibers[2];
        atomic_store(&drawn, false);
        open_cluster(&c, true, 2, seed);
        create(&c,
               (struct tide_table_options){
                   .name = "moves", .key_count = KEYS, .width = WIDTH, .technique = TIDE_RELOCATE});
        run_alone(&c, 1, arriving_run, NULL);
        start(&c, &fibers[0], 0, 0, thief_run, NULL);
        start(&c, &fibers[1], 1, 1, taken_run, NULL);
        finish(&c, fibers, 2);
        close_cluster(&c);
    }
}

static void local_sampling_lists_what_is_here_and_follows_slots(void **state) {
    (void)state;
    struct cluster c;
    open_cluster(&c, true, 2, 1);
    create(&c, (struct tide_table_options){
                   .name = "stays", .key_count = KEYS, .width = WIDTH, .slots = TIDE_SLOTS_RANGE});
    run_alone(&c, 0, listed_run, NULL);
    close_cluster(&c);
}

static void local_sampling_stays_local_and_ends(void **state) {
    (void)state;
    struct cluster c;
    open_cluster(&c, true, 2, 1);
    create(&c, (struct tide_table_options){
                   .name = "stays", .key_count = KEYS, .width = WIDTH, .slots = TIDE_SLOTS_RANGE});
    run_alone(&c, 0, local_run, NULL);
    close_cluster(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(independent_draws_follow_the_distribution),
        cmocka_unit_test(pools_depend_only_within_their_window),
        cmocka_unit_test(draws_of_the_callers_own_are_taken_and_checked),
        cmocka_unit_test(bad_samplers_and_samples_are_refused),
        cmocka_unit_test(keys_come_ahead_and_late_ones_are_put_off_real),
        cmocka_unit_test(keys_come_ahead_and_late_ones_are_put_off_simulated),
        cmocka_unit_test(local_sampling_stays_local_and_ends),
        cmocka_unit_test(local_sampling_follows_rows_that_move),
        cmocka_unit_test(local_sampling_lists_what_is_here_and_follows_slots),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
