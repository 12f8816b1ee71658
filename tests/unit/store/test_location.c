/*
 * Operations that go straight to where a key was last: they do, they come back from where it is no
 * more, a crowd of them keeps its order, and a localize does not overtake them. Two nodes that fight
 * for the same keys both get on.
 */
#include "store_world.h"

#include "store/adaptive/location_cache.h"
#include "tide/stats.h"

enum { KEYS = 300 };

static struct tide_table_stats stats_of(struct tide_table *table) {
    struct tide_table_stats stats;
    tide_table_stats(table, &stats);
    return stats;
}

struct tour {
    uint64_t keys[KEYS]; /* that are at home on node 2 */
    size_t count;
    float expected;
};

static void move_run(struct fiber *f) {
    struct tour *tour = f->arg;
    struct tide_table *table;
    CHECK(f, tide_table_find(f->node, "w", &table) == 0);
    CHECK(f, tide_table_localize(table, tour->keys, tour->count, NULL) == 0);
}

/* From node 1: every key once, from where it is. */
static void push_run(struct fiber *f) {
    struct tour *tour = f->arg;
    struct tide_table *table;
    float rows[KEYS], ones[KEYS];
    CHECK(f, tide_table_find(f->node, "w", &table) == 0);
    for (size_t i = 0; i < tour->count; i++) {
        ones[i] = 1;
    }
    CHECK(f, tide_table_push(table, tour->keys, tour->count, ones, NULL) == 0);
    tour->expected++;
    CHECK(f, tide_table_pull(table, tour->keys, tour->count, rows, NULL) == 0);
    for (size_t i = 0; i < tour->count; i++) {
        CHECK(f, rows[i] == tour->expected);
    }
}

static void operations_go_straight_and_come_back_when_the_key_has_moved(void **state) {
    (void)state;
    for (int simulated = 0; simulated < 2; simulated++) {
        struct cluster c;
        struct tour tour = {.count = 0};
        open_cluster(&c, simulated, 4, 3);
        create(&c, (struct tide_table_options){
                       .name = "w", .key_count = 4 * KEYS, .width = 1, .technique = TIDE_RELOCATE});
        struct tide_table *table = table_of(&c, 0, "w");
        for (uint64_t key = 0; key < 4 * KEYS && tour.count < KEYS; key++) {
            uint16_t home;
            assert_int_equal(tide_table_where(table, key, &home), 0);
            tour.keys[tour.count] = key;
            tour.count += home == tide_node_id(c.nodes[1]);
        }
        run_alone(&c, 0, push_run, &tour); /* at home: nothing to know */
        assert_int_equal(stats_of(table).location_used, 0);
        run_alone(&c, 2, move_run, &tour);
        run_alone(&c, 0, push_run, &tour); /* the push by the home, the pull straight */
        assert_int_equal(stats_of(table).location_used, tour.count);
        const uint64_t forwarded = stats_of(table_of(&c, 1, "w")).forwarded;
        run_alone(&c, 0, push_run, &tour);
        assert_int_equal(stats_of(table).location_used, 3 * tour.count);
        assert_int_equal(stats_of(table_of(&c, 1, "w")).forwarded, forwarded);
        assert_int_equal(stats_of(table).location_stale, 0);
        run_alone(&c, 3, move_run, &tour);
        run_alone(&c, 0, push_run, &tour); /* there and back, then by the home */
        assert_int_equal(stats_of(table).location_stale, tour.count);
        run_alone(&c, 1, move_run, &tour); /* home again: found out, then known */
        run_alone(&c, 0, push_run, &tour);
        run_alone(&c, 0, push_run, &tour);
        assert_int_equal(stats_of(table).location_stale, 2 * tour.count);
        run_alone(&c, 0, move_run, &tour);
        run_alone(&c, 2, move_run, &tour); /* who gives a row away knows to whom */
        const uint64_t used = stats_of(table).location_used;
        run_alone(&c, 0, push_run, &tour);
        assert_int_equal(stats_of(table).location_used, used + 2 * tour.count);
        for (unsigned n = 0; n < 4; n++) {
            assert_int_equal(stats_of(table_of(&c, n, "w")).surprises, 0);
        }
        close_cluster(&c);
    }
}

/* ---- order ---- */

enum { PUSHES = 400, MOVERS = 2 };

/* Numbers its pushes; asynchronous ones in crowds, with wishes for the key among them. */
static void crowd_run(struct fiber *f) {
    struct tide_table *table;
    static float values[PUSHES];
    static struct tide_ticket tickets[PUSHES], wishes[PUSHES];
    const uint64_t key = 7;
    CHECK(f, tide_table_find(f->node, "w", &table) == 0);
    for (int i = 0; i < PUSHES; i++) {
        float seen;
        values[i] = (float)(i + 1);
        CHECK(f, tide_table_push(table, &key, 1, &values[i], &tickets[i]) == 0);
        const bool wish = i % 40 == 39;
        CHECK(f, !wish || tide_table_localize(table, &key, 1, &wishes[i]) == 0);
        if (i % 20 == 19) {
            CHECK(f, tide_table_pull(table, &key, 1, &seen, NULL) == 0);
            CHECK(f, seen == values[i]); /* assign: the last of them */
            for (int j = i - 19; j <= i; j++) {
                CHECK(f, tide_ticket_wait(&tickets[j]) == 0);
            }
            CHECK(f, !wish || tide_ticket_wait(&wishes[i]) == 0);
            (void)tide_sleep(tide_random_below(&f->random, 200000));
        }
    }
}

/* Takes the key away, again and again. */
static void mover_run(struct fiber *f) {
    struct tide_table *table;
    const uint64_t key = 7;
    CHECK(f, tide_table_find(f->node, "w", &table) == 0);
    for (int i = 0; i < 100; i++) {
        CHECK(f, tide_table_localize(table, &key, 1, NULL) == 0);
        (void)tide_sleep(tide_random_below(&f->random, 300000));
    }
}

static void a_crowd_of_operations_keeps_its_order_while_the_key_moves(void **state) {
    (void)state;
    uint64_t used = 0, stale = 0;
    for (uint64_t seed = 0; seed <= 40; seed++) { /* 0: real sockets */
        struct cluster c;
        struct fiber fibers[1 + MOVERS];
        open_cluster(&c, seed > 0, 4, seed);
        create(&c, (struct tide_table_options){.name = "w",
                                               .key_count = KEYS,
                                               .width = 1,
                                               .technique = TIDE_RELOCATE,
                                               .update = TIDE_UPDATE_ASSIGN});
        start(&c, &fibers[0], seed % 2, 0, crowd_run, NULL);
        for (unsigned i = 0; i < MOVERS; i++) {
            start(&c, &fibers[1 + i], 2 + i, 1 + i, mover_run, NULL);
        }
        finish(&c, fibers, 1 + MOVERS);
        for (unsigned n = 0; n < 4; n++) {
            struct tide_table_stats s = stats_of(table_of(&c, n, "w"));
            assert_int_equal(s.surprises, 0);
            used += s.location_used;
            stale += s.location_stale;
        }
        close_cluster(&c);
    }
#ifndef __SANITIZE_THREAD__
    assert_true(stale > 0 && used > stale);
#endif
}

/* ---- fairness ---- */

struct contest {
    atomic_bool over;
    atomic_int rounds[2];
};

/* The loop of two nodes that want the same thousand rows. */
static void contestant_run(struct fiber *f) {
    enum { LIST = 1000 };
    struct contest *contest = f->arg;
    struct tide_table *table;
    static float ones[LIST];
    static uint64_t keys[LIST];
    CHECK(f, tide_table_find(f->node, "w", &table) == 0);
    for (uint64_t i = 0; i < LIST; i++) {
        keys[i] = i;
    }
    while (!atomic_load(&contest->over)) {
        CHECK(f, tide_table_localize(table, keys, LIST, NULL) == 0);
        CHECK(f, tide_table_push(table, keys, LIST, ones, NULL) == 0);
        atomic_fetch_add(&contest->rounds[f->index], 1);
        (void)tide_sleep(20000); /* it computes; or simulated time stalls */
    }
}

static void two_nodes_that_fight_for_keys_both_get_on(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        struct cluster c;
        struct fiber fibers[2];
        struct contest contest = {.over = false};
        open_cluster(&c, true, 3, seed);
        create(&c, (struct tide_table_options){
                       .name = "w", .key_count = 4096, .width = 1, .technique = TIDE_RELOCATE});
        for (unsigned i = 0; i < 2; i++) { /* node 1 is home of some, or none is of any */
            start(&c, &fibers[i], i + seed % 2, i, contestant_run, &contest);
        }
        pause_cluster(&c, 100000000);
        atomic_store(&contest.over, true);
        finish(&c, fibers, 2);
        const int a = atomic_load(&contest.rounds[0]), b = atomic_load(&contest.rounds[1]);
        if (a < 20 || b < 20 || 2 * a < b || 2 * b < a) {
            fail_msg("seed %llu: %d and %d rounds", (unsigned long long)seed, a, b);
        }
        close_cluster(&c);
    }
}

/* A key that is several times in an operation may go, and come back, in several messages. */
static void the_fence_lasts_until_the_last_part_is_back(void **state) {
    (void)state;
    struct tide__location e = {.key = 1};
    tide__location_learn(&e, 7, 3);
    assert_int_equal(tide__location_way(&e, 10, true, true), 7);
    assert_int_equal(tide__location_way(&e, 11, false, true), 7);
    assert_int_equal(tide__location_way(&e, 11, false, true), 7);
    tide__location_returned(&e);
    assert_true(tide__location_waits(&e, false, true, true)); /* a localize, and what follows it */
    assert_false(tide__location_resent(&e, 10));
    assert_false(tide__location_resent(&e, 11));
    assert_true(tide__location_waits(&e, false, true, false));
    assert_true(tide__location_resent(&e, 11));
    assert_false(tide__location_waits(&e, false, true, false));
    tide__location_learn(&e, 7, 4); /* one part ran there: the answer to all of it ends the fence */
    assert_int_equal(tide__location_way(&e, 12, true, true), 7);
    assert_int_equal(tide__location_way(&e, 12, false, true), 7);
    tide__location_returned(&e);
    assert_false(tide__location_resent(&e, 12));
    assert_true(tide__location_waits(&e, false, true, true));
    assert_false(tide__location_waits(&e, true, true, true));
}

int main(int argc, char **argv) {
    tide_log_set(TIDE_LOG_ERROR, NULL, NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operations_go_straight_and_come_back_when_the_key_has_moved),
        cmocka_unit_test(a_crowd_of_operations_keeps_its_order_while_the_key_moves),
        cmocka_unit_test(two_nodes_that_fight_for_keys_both_get_on),
        cmocka_unit_test(the_fence_lasts_until_the_last_part_is_back),
    };
    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
