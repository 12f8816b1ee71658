/*
 * Credit of operations from their origin to their home: it bounds what is in flight, makes fibers
 * wait in line and handlers give up, returns whatever happens, and a home that is ten times too
 * slow neither loses its place in the cluster nor its speed afterwards.
 */
#include "store/core/node_store.h"
#include "tests/unit/store_world.h"
#include "tide/stats.h"

enum { KEYS = 400, WIDTH = 16, FIBERS = 12, ROUNDS = 60, SPAN = 40 };
static const uint32_t few_messages = 3;
static const uint64_t few_bytes = 16 << 10;

static void limit(struct cluster *c, unsigned node) {
    struct tide_store *store = tide_store_of(c->nodes[node]);
    tide_lock(&store->admission.lock);
    store->admission.messages_max = few_messages;
    store->admission.bytes_max = few_bytes;
    tide_unlock(&store->admission.lock);
}

static void nothing_is_held(struct cluster *c, unsigned node) {
    struct tide__admission *a = &tide_store_of(c->nodes[node])->admission;
    tide_lock(&a->lock);
    for (unsigned page = 0; page < TIDE_COUNT(a->pages); page++) {
        for (unsigned i = 0; a->pages[page] && i < 256; i++) {
            struct tide__credit *credit = &a->pages[page][i];
            assert_true(credit->messages == 0 && credit->bytes == 0 && !credit->first);
        }
    }
    tide_unlock(&a->lock);
}

/* Pushes ones to drawn keys, up to four calls at a time. */
static void push_run(struct fiber *f) {
    struct tide_table *table;
    struct tide_ticket tickets[4];
    float ones[SPAN * WIDTH];
    uint64_t keys[4][SPAN];
    for (size_t i = 0; i < TIDE_COUNT(ones); i++) {
        ones[i] = 1;
    }
    CHECK(f, tide_table_find(f->node, "t", &table) == 0);
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned k = 0; k < 4; k++) {
            uint64_t first = tide_random_below(&f->random, KEYS);
            for (unsigned i = 0; i < SPAN; i++) {
                keys[k][i] = (first + i) % KEYS;
            }
            CHECK(f, tide_table_push(table, keys[k], SPAN, ones, &tickets[k]) == 0);
        }
        for (unsigned k = 0; k < 4; k++) {
            CHECK(f, tide_ticket_wait(&tickets[k]) == 0);
        }
    }
}

static void sum_run(struct fiber *f) {
    sum_rows(f, "t", KEYS, WIDTH);
}

static void bounded(bool simulated, enum tide_technique technique, uint64_t seed) {
    struct cluster c;
    struct fiber fibers[2 * FIBERS];
    double sum = 0;
    open_cluster(&c, simulated, 3, seed);
    create(&c, (struct tide_table_options){
                   .name = "t", .key_count = KEYS, .width = WIDTH, .technique = (uint8_t)technique});
    limit(&c, 0);
    limit(&c, 1);
    for (unsigned i = 0; i < 2 * FIBERS; i++) {
        start(&c, &fibers[i], i % 2, i / 2, push_run, NULL);
    }
    finish(&c, fibers, 2 * FIBERS);
    run_alone(&c, 2, sum_run, &sum);
    assert_true(sum == 2.0 * FIBERS * ROUNDS * 4 * SPAN * WIDTH);
    for (unsigned i = 0; i < 2; i++) {
        struct tide__admission *a = &tide_store_of(c.nodes[i])->admission;
        assert_true(a->waits > 0);
        assert_true(a->bytes_most > 0 && a->bytes_most <= few_bytes); /* no call is larger */
        nothing_is_held(&c, i);
    }
    close_cluster(&c);
}

static void what_is_under_way_stays_within_the_credit_simulated(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        bounded(true, seed % 2 ? TIDE_STATIC : TIDE_RELOCATE, seed);
    }
}

static void what_is_under_way_stays_within_the_credit_real(void **state) {
    (void)state;
    bounded(false, TIDE_STATIC, 1);
    bounded(false, TIDE_RELOCATE, 1);
}

/* As a handler would: a token of `home`, EBUSY, or another error. */
static int take(struct tide_store *store, struct tide__token *token, uint16_t home, uint32_t bytes) {
    *token = (struct tide__token){.home = home, .bytes = bytes};
    return tide__token_take(store, token, 0);
}

static void a_handler_is_told_that_a_home_is_busy_and_a_large_operation_goes_alone(void **state) {
    (void)state;
    struct cluster c;
    open_cluster(&c, true, 1, 1);
    struct tide_store *store = tide_store_of(c.nodes[0]);
    limit(&c, 0);
    struct tide__token large[90] = {0}, one, other, few[8];
    for (unsigned i = 0; i < 90; i++) {
        large[i] = (struct tide__token){.home = 1, .bytes = 1 << 14, .next = i < 89 ? &large[i + 1] : NULL};
    }
    assert_int_equal(tide__token_take(store, large, 0), 0);
    assert_int_equal(take(store, &one, 1, 1), TIDE_EBUSY);
    assert_non_null(strstr(tide_error_message(), "90 messages, 1474560 bytes are under way"));
    assert_int_equal(take(store, &other, 2, (uint32_t)few_bytes), 0); /* another home */
    assert_int_equal(take(store, &one, 2, 1), TIDE_EBUSY);
    for (unsigned i = 0; i < 90; i++) {
        tide__token_give(store, &large[i]);
    }
    tide__token_give(store, &other);
    tide__token_give(store, &one); /* it holds nothing */
    for (uint32_t i = 0; i < few_messages; i++) {
        assert_int_equal(take(store, &few[i], 1, 1), 0);
    }
    assert_int_equal(take(store, &one, 1, 1), TIDE_EBUSY);
    for (uint32_t i = 0; i < few_messages; i++) {
        tide__token_give(store, &few[i]);
    }
    nothing_is_held(&c, 0);
    close_cluster(&c);
}

/* ---- all homes together ---- */

/* An operation on both other homes takes its share before any home's credit: nobody waits while he
 * holds what another needs. */
static void limited(bool simulated, enum tide_technique technique, uint64_t seed) {
    enum { LIMIT = 12 << 10 };
    struct cluster c;
    struct fiber fibers[FIBERS];
    struct tide_store_queue queue;
    double sum = 0;
    open_cluster(&c, simulated, 3, seed);
    create(&c, (struct tide_table_options){
                   .name = "t", .key_count = KEYS, .width = WIDTH, .technique = (uint8_t)technique});
    struct tide_store *store = tide_store_of(c.nodes[0]);
    limit(&c, 0);
    tide_lock(&store->admission.lock);
    tide_store_limit(store, LIMIT);
    tide_unlock(&store->admission.lock);
    for (unsigned i = 0; i < FIBERS; i++) {
        start(&c, &fibers[i], 0, i, push_run, NULL);
    }
    finish(&c, fibers, FIBERS);
    run_alone(&c, 2, sum_run, &sum);
    assert_true(sum == 1.0 * FIBERS * ROUNDS * 4 * SPAN * WIDTH);
    tide_store_queue(store, &queue);
    assert_int_equal(queue.limit, LIMIT);
    assert_int_equal(queue.bytes, 0);
    assert_true(queue.most > LIMIT / 2 && queue.most <= LIMIT); /* no call is larger */
    assert_true(queue.waits > 0);
    nothing_is_held(&c, 0);
    close_cluster(&c);
}

static void a_node_stays_within_its_queue_limit_simulated(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        limited(true, seed % 2 ? TIDE_STATIC : TIDE_RELOCATE, seed);
    }
}

static void a_node_stays_within_its_queue_limit_real(void **state) {
    (void)state;
    limited(false, TIDE_STATIC, 1);
    limited(false, TIDE_RELOCATE, 1);
}

static void a_handler_is_told_of_the_queue_limit_and_a_large_operation_goes_alone(void **state) {
    (void)state;
    struct cluster c;
    struct tide_store_queue queue;
    open_cluster(&c, true, 1, 1);
    struct tide_store *store = tide_store_of(c.nodes[0]);
    struct tide__token second = {.home = 2, .bytes = 1000}, first = {.home = 1, .bytes = 4000, .next = &second};
    struct tide__token one, many;
    assert_int_equal(take(store, &one, 1, 1 << 30), 0); /* there is no limit */
    tide_store_queue(store, &queue);
    assert_true(queue.limit == 0 && queue.bytes == 0 && queue.most == 0);
    tide__token_give(store, &one);
    tide_store_limit(store, 1000);
    assert_int_equal(tide__token_take(store, &first, 0), 0);
    assert_int_equal(take(store, &one, 1, 1), TIDE_EBUSY);
    assert_non_null(strstr(tide_error_message(), "5000 bytes of this node's operations"));
    tide__token_give(store, &first); /* its home's credit and its room */
    assert_int_equal(take(store, &one, 1, 1), TIDE_EBUSY);
    tide__token_give(store, &second);
    assert_int_equal(take(store, &one, 1, 600), 0);
    assert_int_equal(take(store, &many, 1, 401), TIDE_EBUSY);
    assert_int_equal(take(store, &many, 1, 400), 0);
    tide__token_give(store, &one);
    tide__token_give(store, &many);
    tide_store_queue(store, &queue);
    assert_true(queue.bytes == 0 && queue.most == 5000 && queue.waits == 0);
    nothing_is_held(&c, 0);
    close_cluster(&c);
}

/* Room for both homes, and credit of the first one: all of it comes back. */
static void a_refused_operation_holds_nothing_of_a_home_that_had_credit(void **state) {
    (void)state;
    struct cluster c;
    struct tide_store_queue queue;
    open_cluster(&c, true, 1, 1);
    struct tide_store *store = tide_store_of(c.nodes[0]);
    limit(&c, 0);
    tide_store_limit(store, 1 << 20);
    struct tide__token full, second = {.home = 2, .bytes = 10}, first = {.home = 1, .bytes = 10, .next = &second};
    assert_int_equal(take(store, &full, 2, (uint32_t)few_bytes), 0);
    assert_int_equal(tide__token_take(store, &first, 0), TIDE_EBUSY);
    assert_true(!first.held && !second.held);
    tide_store_queue(store, &queue);
    assert_int_equal(queue.bytes, few_bytes);
    tide__token_give(store, &full);
    tide_store_queue(store, &queue);
    assert_int_equal(queue.bytes, 0);
    nothing_is_held(&c, 0);
    close_cluster(&c);
}

/* ---- rate limits ---- */

static void ask_run(struct fiber *f) {
    struct tide_table *table;
    float ones[4 * WIDTH] = {0};
    uint64_t keys[4];
    CHECK(f, tide_table_find(f->node, "t", &table) == 0);
    for (unsigned round = 0; round < 20; round++) {
        for (unsigned i = 0; i < 4; i++) {
            keys[i] = tide_random_below(&f->random, KEYS);
        }
        CHECK(f, tide_table_push(table, keys, 4, ones, NULL) == 0);
    }
}

/* 240 operations at 100 a second, or of 288 bytes at 28,800 a second: by the clock of the nodes. */
static void a_node_asks_for_no_more_than_its_rate(void **state) {
    (void)state;
    for (unsigned bytes = 0; bytes < 2; bytes++) {
        struct cluster c;
        struct fiber fibers[FIBERS];
        open_cluster(&c, true, 1, 3 + bytes);
        add_node_with(&c, (struct tide_node_options){.no_store = true,
                                                     .rate_operations = bytes ? 0 : 100,
                                                     .rate_bytes = bytes ? 28800 : 0});
        wait_members(&c, 2);
        create(&c, (struct tide_table_options){.name = "t", .key_count = KEYS, .width = WIDTH});
        const uint64_t began = tide_port_now(c.ports[0]);
        for (unsigned i = 0; i < FIBERS; i++) {
            start(&c, &fibers[i], 1, i, ask_run, NULL);
        }
        finish(&c, fibers, FIBERS);
        const uint64_t took = tide_port_now(c.ports[0]) - began;
        /* 240 operations, of which a tenth of a second's worth goes at once */
        assert_true(took > TIDE_SECOND * 22 / 10 && took < TIDE_SECOND * 26 / 10);
        struct tide_store *store = tide_store_of(c.nodes[1]);
        int code = 0; /* as a handler would */
        for (unsigned i = 0; i < 40 && !code; i++) {
            struct tide__token token = {.home = 1, .bytes = 288};
            code = tide__token_take(store, &token, 288);
            tide__token_give(store, &token);
        }
        assert_int_equal(code, TIDE_EBUSY);
        assert_true(tide_error_retry_after_ms() > 0 && tide_error_retry_after_ms() <= 11);
        nothing_is_held(&c, 1);
        close_cluster(&c);
    }
    struct tide_node *node;
    struct tide_node_options options = {.rate_bytes = -1};
    assert_int_equal(tide_node_create(&options, &node), TIDE_EINVAL);
}

struct load {
    atomic_uint_fast64_t done;
    uint64_t until;
    int may_fail; /* a fiber ends with the first operation that fails so */
};

/* Pushes and pulls without end, as fast as they are answered. */
static void load_run(struct fiber *f) {
    struct load *load = f->arg;
    struct tide_table *table;
    struct tide_port *port = f->cluster->ports[0];
    float rows[SPAN * WIDTH] = {0};
    uint64_t keys[SPAN];
    CHECK(f, tide_table_find(f->node, "t", &table) == 0);
    while (tide_port_now(port) < load->until) {
        for (unsigned i = 0; i < SPAN; i++) {
            keys[i] = tide_random_below(&f->random, KEYS);
        }
        bool push = tide_random_below(&f->random, 2);
        int code = push ? tide_table_push(table, keys, SPAN, rows, NULL)
                        : tide_table_pull(table, keys, SPAN, rows, NULL);
        CHECK(f, code == 0 || code == load->may_fail);
        if (code != 0) {
            return;
        }
        atomic_fetch_add(&load->done, 1);
    }
}

static uint64_t done_in(struct cluster *c, struct load *load, uint64_t ns) {
    uint64_t before = atomic_load(&load->done);
    pause_cluster(c, ns);
    return atomic_load(&load->done) - before;
}

static void a_home_that_cannot_keep_up_slows_its_callers_and_nothing_else(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        struct cluster c;
        struct fiber fibers[FIBERS];
        struct load load = {0};
        uint64_t view_before, view_after;
        open_cluster(&c, true, 3, seed);
        create(&c, (struct tide_table_options){.name = "t", .key_count = KEYS, .width = WIDTH});
        limit(&c, 0);
        load.until = tide_port_now(c.ports[0]) + 12 * TIDE_SECOND;
        for (unsigned i = 0; i < FIBERS; i++) {
            start(&c, &fibers[i], 0, i, load_run, &load);
        }
        pause_cluster(&c, TIDE_SECOND / 2);
        tide_net_members(tide_net_of(c.nodes[0]), NULL, 0, &view_before);
        uint64_t normal = done_in(&c, &load, TIDE_SECOND);
        unsigned slow_id = tide_node_id(c.nodes[1]), other_id = tide_node_id(c.nodes[2]);
        uint64_t waited = tide_node_waited(c.nodes[0], slow_id);
        uint64_t other_waited = tide_node_waited(c.nodes[0], other_id);
        assert_true(waited > 0 && other_waited > 0);
        tide_sim_set_slowness(c.sim, "n2", 5000); /* a turn of it takes 5 ms */
        uint64_t slow = done_in(&c, &load, 6 * TIDE_SECOND) / 6;
        waited = tide_node_waited(c.nodes[0], slow_id) - waited;
        other_waited = tide_node_waited(c.nodes[0], other_id) - other_waited;
        assert_true(waited > 5 * TIDE_SECOND && waited <= 6 * TIDE_SECOND);
        assert_true(other_waited < waited / 4);
        assert_int_equal(tide_node_waited(c.nodes[0], 60000), 0); /* nobody's id */
        struct tide__admission *a = &tide_store_of(c.nodes[0])->admission;
        assert_true(a->bytes_most <= few_bytes && a->waits > 0);
        tide_sim_set_slowness(c.sim, "n2", 1);
        pause_cluster(&c, TIDE_SECOND / 2);
        uint64_t after = done_in(&c, &load, TIDE_SECOND);
        tide_net_members(tide_net_of(c.nodes[0]), NULL, 0, &view_after);
        assert_true(view_after == view_before); /* its beats came all the time */
        if (slow * 10 > normal || after * 10 < normal * 9) {
            fail_msg("seed %d: %d operations a second, then %d, then %d", (int)seed, (int)normal,
                     (int)slow, (int)after);
        }
        finish(&c, fibers, FIBERS);
        nothing_is_held(&c, 0);
        close_cluster(&c);
    }
}

static void who_stands_in_line_for_a_home_that_dies_is_told(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        struct cluster c;
        struct fiber fibers[FIBERS];
        struct load load = {.may_fail = TIDE_EDIED};
        open_cluster(&c, true, 3, seed);
        create(&c, (struct tide_table_options){.name = "t", .key_count = KEYS, .width = WIDTH});
        limit(&c, 0);
        load.until = tide_port_now(c.ports[0]) + 8 * TIDE_SECOND;
        for (unsigned i = 0; i < FIBERS; i++) {
            start(&c, &fibers[i], 0, i, load_run, &load);
        }
        pause_cluster(&c, TIDE_SECOND / 4 + seed * 7000);
        tide_sim_crash(c.sim, "n2");
        finish(&c, fibers, FIBERS); /* long before any time-out of 30 s */
        assert_true(tide_port_now(c.ports[0]) < load.until);
        assert_true(tide_store_of(c.nodes[0])->admission.waits > 0);
        nothing_is_held(&c, 0);
        close_cluster(&c);
    }
}

static void who_stands_in_line_when_its_own_node_has_left_is_told(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        struct cluster c;
        struct fiber fibers[FIBERS];
        struct load load = {.may_fail = TIDE_ECLOSED};
        open_cluster(&c, true, 3, seed);
        create(&c, (struct tide_table_options){.name = "t",
                                               .key_count = KEYS,
                                               .width = WIDTH,
                                               .technique = seed % 2 ? TIDE_STATIC : TIDE_RELOCATE});
        limit(&c, 2);
        load.until = tide_port_now(c.ports[0]) + 8 * TIDE_SECOND;
        for (unsigned i = 0; i < FIBERS; i++) {
            start(&c, &fibers[i], 2, i, load_run, &load);
        }
        pause_cluster(&c, TIDE_SECOND / 4 + seed * 7000);
        tide_net_leave(tide_net_of(c.nodes[2]));
        finish(&c, fibers, FIBERS); /* long before any time-out of 30 s */
        assert_true(tide_port_now(c.ports[0]) < load.until);
        assert_true(tide_store_of(c.nodes[2])->admission.waits > 0);
        nothing_is_held(&c, 2);
        close_cluster(&c);
    }
}

int main(int argc, char **argv) {
    program = argv[0];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_under_way_stays_within_the_credit_simulated),
        cmocka_unit_test(what_is_under_way_stays_within_the_credit_real),
        cmocka_unit_test(a_node_stays_within_its_queue_limit_simulated),
        cmocka_unit_test(a_node_stays_within_its_queue_limit_real),
        cmocka_unit_test(a_handler_is_told_of_the_queue_limit_and_a_large_operation_goes_alone),
        cmocka_unit_test(a_refused_operation_holds_nothing_of_a_home_that_had_credit),
        cmocka_unit_test(a_node_asks_for_no_more_than_its_rate),
        cmocka_unit_test(a_handler_is_told_that_a_home_is_busy_and_a_large_operation_goes_alone),
        cmocka_unit_test(a_home_that_cannot_keep_up_slows_its_callers_and_nothing_else),
        cmocka_unit_test(who_stands_in_line_for_a_home_that_dies_is_told),
        cmocka_unit_test(who_stands_in_line_when_its_own_node_has_left_is_told),
    };
    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
