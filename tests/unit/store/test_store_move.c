/* Slots that are moved on request while everybody works on: sums, order, refusals, deaths. */
#include "store_world.h"

#include "store/rows/slot_index.h"
#include "tide/placement.h"
#include "tide/stats.h"

enum { KEYS = 500, WIDTH = 3, LIST = 60, WORKERS = 6, KEPT = 20, STEPS = 30 };

struct wander { /* what fibers share */
    atomic_bool over;
    atomic_uint moves, refused, pushed[KEYS];
    unsigned nodes; /* that slots go to: ids 1..nodes */
    bool localizes;
};

static struct tide_table *table_in(struct fiber *f) {
    struct tide_table *table = NULL;
    return tide_table_find(f->node, "wander", &table) ? NULL : table;
}

/* Gives random slots to random nodes until the others are done. */
static void mover_run(struct fiber *f) {
    struct wander *w = f->arg;
    struct tide_table *table = table_in(f);
    CHECK(f, table != NULL);
    uint32_t slots[TIDE_SLOTS];
    while (!atomic_load(&w->over)) {
        const uint32_t count = 1 + (uint32_t)tide_random_below(&f->random, 800);
        const uint32_t first = (uint32_t)tide_random_below(&f->random, TIDE_SLOTS - count);
        for (uint32_t i = 0; i < count; i++) {
            slots[i] = first + i;
        }
        const uint16_t to = (uint16_t)(1 + tide_random_below(&f->random, w->nodes));
        int code = tide_table_move(table, slots, count, to);
        CHECK(f, code == 0 || code == TIDE_EBUSY);
        if (code) {
            atomic_fetch_add(&w->refused, 1);
            (void)tide_sleep(300000);
            continue;
        }
        atomic_fetch_add(&w->moves, 1);
    }
}

/* Adds 1 to random keys, and writes its own key in order, asynchronously. */
static void worker_run(struct fiber *f) {
    struct wander *w = f->arg;
    struct tide_table *table = table_in(f), *order = NULL;
    CHECK(f, table && tide_table_find(f->node, "order", &order) == 0);
    uint64_t own[KEPT], keys[LIST];
    float rows[LIST * WIDTH], seen[STEPS * KEPT];
    struct tide_ticket tickets[2 * STEPS];
    for (uint64_t i = 0; i < KEPT; i++) {
        own[i] = f->index * KEPT + i;
    }
    for (int round = 0; round < 6; round++) {
        for (int step = 0; step < STEPS; step++) {
            float values[KEPT];
            for (int i = 0; i < KEPT; i++) {
                values[i] = (float)(round * 1000 + step + 1);
            }
            CHECK(f, tide_table_push(order, own, KEPT, values, &tickets[2 * step]) == 0);
            for (uint64_t idle = tide_random_below(&f->random, 10); idle > 0; idle--) {
                (void)tide_yield();
            }
            CHECK(f, tide_table_pull(order, own, KEPT, seen + step * KEPT,
                                     &tickets[2 * step + 1]) == 0);
            for (int i = 0; i < LIST; i++) {
                keys[i] = tide_random_below(&f->random, KEYS);
                atomic_fetch_add(&w->pushed[keys[i]], 1);
            }
            for (int i = 0; i < LIST * WIDTH; i++) {
                rows[i] = 1;
            }
            if (w->localizes && tide_random_below(&f->random, 4) == 0) {
                CHECK(f, tide_table_localize(table, keys, LIST / 4, NULL) == 0);
            }
            CHECK(f, tide_table_push(table, keys, LIST, rows, NULL) == 0);
        }
        for (int t = 0; t < 2 * STEPS; t++) {
            CHECK(f, tide_ticket_wait(&tickets[t]) == 0);
        }
        for (int i = 0; i < STEPS * KEPT; i++) {
            CHECK(f, seen[i] == (float)(round * 1000 + i / KEPT + 1));
        }
    }
}

static void sums_run(struct fiber *f) {
    struct wander *w = f->arg;
    struct tide_table *table = table_in(f);
    CHECK(f, table != NULL);
    for (uint64_t key = 0; key < KEYS; key++) {
        float row[WIDTH];
        CHECK(f, tide_table_pull(table, &key, 1, row, NULL) == 0);
        for (int i = 0; i < WIDTH; i++) {
            CHECK(f, row[i] == (float)atomic_load(&w->pushed[key]));
        }
    }
}

/* The slots of "order" go round as fast as they can, so that they come back to former homes. */
static void order_mover_run(struct fiber *f) {
    struct wander *w = f->arg;
    struct tide_table *table = NULL;
    CHECK(f, tide_table_find(f->node, "order", &table) == 0);
    uint32_t slots[WORKERS * KEPT];
    for (uint32_t i = 0; i < WORKERS * KEPT; i++) {
        slots[i] = i; /* dense by hash: key k is in slot k */
    }
    for (unsigned turn = 0; !atomic_load(&w->over); turn++) {
        CHECK(f, tide_table_move(table, slots, TIDE_COUNT(slots),
                                 (uint16_t)(1 + turn % w->nodes)) == 0);
        atomic_fetch_add(&w->moves, 1);
    }
}

static void create_both(struct cluster *c, struct tide_table_options options) {
    options.name = "wander";
    options.width = WIDTH;
    create(c, options);
    create(c, (struct tide_table_options){.name = "order",
                                          .key_count = WORKERS * KEPT,
                                          .width = 1,
                                          .technique = options.technique,
                                          .update = TIDE_UPDATE_ASSIGN});
}

static void wait_workers(struct cluster *c, int movers) {
    for (int i = 0; i < 60000 && atomic_load(&c->running) > movers; i++) {
        pause_cluster(c, 1000000);
    }
    assert_int_equal(atomic_load(&c->running), movers);
}

enum faults { CALM, RESETS, JOINS_AND_LEAVES };

static void slots_wander(bool simulated, struct tide_table_options options, uint64_t seed,
                         enum faults faults) {
    enum { MOVERS = 3 };
    struct cluster c;
    open_cluster(&c, simulated, 3, seed);
    create_both(&c, options);
    struct wander *w = calloc(1, sizeof *w);
    w->nodes = faults == JOINS_AND_LEAVES ? 2 : 3;
    w->localizes = options.technique == TIDE_RELOCATE;
    struct fiber fibers[WORKERS + MOVERS];
    for (unsigned i = 0; i < WORKERS; i++) {
        start(&c, &fibers[i], i % w->nodes, i, worker_run, w);
    }
    for (unsigned i = 0; i < MOVERS; i++) {
        start(&c, &fibers[WORKERS + i], i % 2, WORKERS + i, i ? mover_run : order_mover_run, w);
    }
    static const char *const names[] = {"n1", "n2", "n3"};
    for (unsigned i = 0; i < 6 && faults == RESETS; i++) {
        pause_cluster(&c, 700000);
        tide_sim_reset(c.sim, names[i % 3], names[(i + 1) % 3]);
    }
    if (faults == JOINS_AND_LEAVES) {
        tide_net_leave(tide_net_of(c.nodes[2]));
        add_node(&c);
    }
    wait_workers(&c, MOVERS);
    atomic_store(&w->over, true);
    finish(&c, fibers, WORKERS + MOVERS);
    assert_true(atomic_load(&w->moves) > 3);
    for (unsigned n = 0; n < 2; n++) {
        run_alone(&c, n, sums_run, w);
    }
    for (unsigned n = 0; n < c.count; n++) {
        struct tide_table_stats stats;
        tide_table_stats(table_of(&c, n, "wander"), &stats);
        assert_int_equal(stats.surprises, 0);
    }
    free(w);
    close_cluster(&c);
}

static void slots_wander_and_nothing_is_lost_or_overtaken_real(void **state) {
    (void)state;
    slots_wander(false, (struct tide_table_options){.key_count = KEYS}, 1, CALM);
    slots_wander(false, (struct tide_table_options){.key_count = KEYS, .technique = TIDE_RELOCATE}, 1,
                 CALM);
}

static void slots_wander_and_nothing_is_lost_or_overtaken_simulated(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        const enum faults faults = (enum faults)(seed % 3);
        slots_wander(true, (struct tide_table_options){.key_count = KEYS}, seed, faults);
        slots_wander(true, (struct tide_table_options){.keys = TIDE_KEYS_HASHED}, seed, faults);
    }
}

static void slots_of_rows_that_relocate_wander_too(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        slots_wander(true,
                     (struct tide_table_options){.key_count = KEYS, .technique = TIDE_RELOCATE}, seed,
                     (enum faults)(seed % 3));
    }
}

/* ---- refusals ---- */

static void refusals_run(struct fiber *f) {
    struct tide_table *table = NULL, *copied = NULL;
    CHECK(f, tide_table_find(f->node, "wander", &table) == 0);
    CHECK(f, tide_table_find(f->node, "copied", &copied) == 0);
    uint32_t slots[2] = {7, TIDE_SLOTS};
    CHECK(f, tide_table_move(table, slots, 2, 2) == TIDE_EINVAL);
    CHECK(f, strstr(tide_error_message(), "slot 4096") != NULL);
    CHECK(f, tide_table_move(table, slots, 1, 9) == TIDE_EINVAL);
    CHECK(f, tide_table_move(table, slots, 1, 3) == TIDE_EINVAL); /* it holds no rows */
    CHECK(f, tide_table_move(copied, slots, 1, 2) == TIDE_EREFUSED);
    CHECK(f, strstr(tide_error_message(), "copies") != NULL);
    CHECK(f, tide_table_move(table, slots, 0, 2) == 0);
    uint16_t homes[TIDE_SLOTS];
    tide_table_slot_homes(table, homes);
    CHECK(f, homes[7] == 2); /* nothing has moved yet, and it is there already: no batch */
    CHECK(f, tide_table_move(table, slots, 1, 2) == 0);
    CHECK(f, tide_table_move(table, slots, 1, 1) == 0);
    tide_table_slot_homes(table, homes);
    CHECK(f, homes[7] == 1);
}

static void what_cannot_be_moved_is_refused_before_anything_moves(void **state) {
    (void)state;
    struct cluster c;
    open_cluster(&c, true, 2, 3);
    add_node_with(&c, (struct tide_node_options){.no_store = true});
    wait_members(&c, 3);
    create(&c, (struct tide_table_options){.name = "wander", .key_count = KEYS, .width = 1});
    create(&c, (struct tide_table_options){
                   .name = "copied", .key_count = KEYS, .width = 1, .replicas = 1});
    run_alone(&c, 1, refusals_run, NULL);
    close_cluster(&c);
}

/* ---- deaths ---- */

static void to_the_dying_run(struct fiber *f) {
    struct tide_table *table = NULL;
    CHECK(f, tide_table_find(f->node, "wander", &table) == 0);
    uint32_t slots[TIDE_SLOTS];
    for (uint32_t s = 0; s < TIDE_SLOTS; s++) {
        slots[s] = s;
    }
    CHECK(f, tide_table_move(table, slots, TIDE_SLOTS, 3) == TIDE_ELOST);
    CHECK(f, strstr(tide_error_message(), "n3") != NULL);
}

static void a_death_of_the_new_home_ends_the_request_and_says_so(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        struct cluster c;
        open_cluster(&c, true, 3, seed);
        create(&c, (struct tide_table_options){.name = "wander", .key_count = KEYS, .width = 1});
        struct fiber fiber;
        start(&c, &fiber, 1, 0, to_the_dying_run, NULL);
        pause_cluster(&c, 100000 * seed);
        tide_sim_crash(c.sim, "n3");
        finish(&c, &fiber, 1);
        close_cluster(&c);
    }
}

/* ---- leaves ---- */

static void leave_behind_a_pause(void *arg) {
    struct cluster *c = arg;
    tide_sim_pause(c->sim, "n1", 1000000);
    tide_net_leave(tide_net_of(c->nodes[2]));
}

/* After its pause the controller hears at once that one node leaves and that another is up; its store
 * plans for the first before it has looked at the second, which knows no table yet. */
static void slots_wait_until_a_joiner_knows_their_table(void **state) {
    (void)state;
    for (uint64_t after = 0; after < 1600000; after += 20000) {
        struct cluster c;
        open_cluster(&c, true, 3, 1);
        create(&c, (struct tide_table_options){.name = "wander", .key_count = KEYS, .width = WIDTH});
        tide_sim_at(c.sim, tide_sim_now(c.sim) + after, leave_behind_a_pause, &c);
        add_node(&c); /* returns when it is up, 1.6 ms later without a pause */
        struct tide_member leaver = {.state = TIDE_MEMBER_UP};
        for (int i = 0; i < 1000 && leaver.state != TIDE_MEMBER_LEFT; i++) {
            pause_cluster(&c, 1000000);
            assert_true(tide_net_member(tide_net_of(c.nodes[0]), 3, &leaver));
        }
        assert_int_equal(leaver.state, TIDE_MEMBER_LEFT);
        close_cluster(&c);
    }
}

/* ---- counts of keys without a row ---- */

static void push_where_it_moves(struct fiber *f) {
    struct tide_table *table = NULL;
    const uint64_t key = 7;
    float row[1] = {1};
    uint16_t home;
    CHECK(f, tide_table_find(f->node, "wander", &table) == 0);
    CHECK(f, tide_table_push(table, &key, 1, row, NULL) == 0);
    CHECK(f, tide_table_push(table, &key, 1, row, NULL) == 0);
    CHECK(f, tide_table_where(table, key, &home) == 0);
    const uint32_t slot = tide__slot_of(table, key);
    CHECK(f, tide_table_move(table, &slot, 1, home == 2 ? 1 : 2) == 0);
    CHECK(f, tide_table_push(table, &key, 1, row, NULL) == 0);
    CHECK(f, tide_table_pull(table, &key, 1, row, NULL) == 0);
    CHECK(f, row[0] == 1); /* the third push admits it */
}

static void counts_of_keys_move_with_their_slot(void **state) {
    (void)state;
    struct cluster c;
    open_cluster(&c, true, 2, 1);
    create(&c, (struct tide_table_options){
                   .name = "wander", .keys = TIDE_KEYS_HASHED, .width = 1, .key_limit = 100, .admit_after = 3});
    run_alone(&c, 0, push_where_it_moves, NULL);
    close_cluster(&c);
}

/* ---- what is counted ---- */

static void count_run(struct fiber *f) {
    struct tide_table *table = NULL;
    CHECK(f, tide_table_find(f->node, "wander", &table) == 0);
    float row[1];
    for (uint64_t key = 0; key < 10; key++) {
        for (uint64_t i = 0; i <= key; i++) {
            CHECK(f, tide_table_pull(table, &key, 1, row, NULL) == 0);
        }
    }
}

static void slots_count_what_they_serve_to_others(void **state) {
    (void)state;
    struct cluster c;
    open_cluster(&c, true, 2, 1);
    create(&c, (struct tide_table_options){.name = "wander", .key_count = KEYS, .width = 1});
    tide_node_serve_cost(c.nodes[1], 1000000);
    const uint64_t began = tide_node_now(c.nodes[0]);
    run_alone(&c, 0, count_run, NULL);
    const uint64_t took = tide_node_now(c.nodes[0]) - began;
    uint64_t served[TIDE_SLOTS], at_home[TIDE_SLOTS];
    tide_table_slot_served(table_of(&c, 1, "wander"), served);
    tide_table_slot_served(table_of(&c, 0, "wander"), at_home);
    for (uint64_t key = 0; key < 10; key++) {
        uint16_t home;
        assert_int_equal(tide_table_where(table_of(&c, 0, "wander"), key, &home), 0);
        assert_int_equal(served[key], home == 2 ? key + 1 : 0);
        assert_int_equal(at_home[key], 0); /* pulled in place */
    }
    struct tide_store_load load;
    tide_node_load(c.nodes[1], &load);
    assert_true(load.keys == 30 && load.messages == 30);
    assert_true(load.busy_ns == 30 * UINT64_C(1000000));
    assert_true(took >= load.busy_ns && took < 2 * load.busy_ns);
    close_cluster(&c);
}

int main(int argc, char **argv) {
    program = argv[0];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slots_wander_and_nothing_is_lost_or_overtaken_real),
        cmocka_unit_test(slots_wander_and_nothing_is_lost_or_overtaken_simulated),
        cmocka_unit_test(slots_of_rows_that_relocate_wander_too),
        cmocka_unit_test(what_cannot_be_moved_is_refused_before_anything_moves),
        cmocka_unit_test(a_death_of_the_new_home_ends_the_request_and_says_so),
        cmocka_unit_test(slots_wait_until_a_joiner_knows_their_table),
        cmocka_unit_test(counts_of_keys_move_with_their_slot),
        cmocka_unit_test(slots_count_what_they_serve_to_others),
    };
    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
