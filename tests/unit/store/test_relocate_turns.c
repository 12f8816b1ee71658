/* Nodes that fight over the same rows take turns: nobody starves, a turn is not much longer than
 * the way the row takes through all of them, and who gets the row uses it before it continues. In the
 * simulator, whose time is nobody else's. */
#include "store_world.h"
#include "tide/stats.h"

enum { KEYS = 8, WIDTH = 2, NODES = 3, LATENCY_US = 50 };
static const uint64_t fight_ns = 200 * 1000000;

struct turns {
    uint64_t ends;
    unsigned done[NODES];
    uint64_t longest_ns[NODES];
};

static const uint64_t keys[KEYS] = {0, 1, 2, 3, 4, 5, 6, 7};

static void fight_run(struct fiber *f) {
    struct turns *turns = f->arg;
    struct tide_table *table;
    float ones[KEYS * WIDTH], rows[KEYS * WIDTH];
    for (unsigned i = 0; i < KEYS * WIDTH; i++) {
        ones[i] = 1;
    }
    CHECK(f, tide_table_find(f->node, "w", &table) == 0);
    for (uint64_t began; (began = tide_node_now(f->node)) < turns->ends;) {
        struct tide_ticket move;
        CHECK(f, tide_table_localize(table, keys, KEYS, &move) == 0);
        CHECK(f, tide_table_push(table, keys, KEYS, ones, NULL) == 0);
        CHECK(f, tide_table_pull(table, keys, KEYS, rows, NULL) == 0);
        CHECK(f, tide_ticket_wait(&move) == 0);
        const uint64_t took = tide_node_now(f->node) - began;
        turns->longest_ns[f->index] =
            took > turns->longest_ns[f->index] ? took : turns->longest_ns[f->index];
        turns->done[f->index]++;
        CHECK(f, rows[0] >= (float)turns->done[f->index]);
    }
}

static void sums_run(struct fiber *f) {
    const struct turns *turns = f->arg;
    struct tide_table *table;
    float rows[KEYS * WIDTH];
    CHECK(f, tide_table_find(f->node, "w", &table) == 0);
    CHECK(f, tide_table_pull(table, keys, KEYS, rows, NULL) == 0);
    for (unsigned i = 0; i < KEYS * WIDTH; i++) {
        CHECK(f, rows[i] == (float)(turns->done[0] + turns->done[1] + turns->done[2]));
    }
}

/* `fighters` of the three nodes fight; keys have their homes on all three. */
static void nodes_take_turns(unsigned fighters, double slowness, uint64_t seed) {
    struct cluster c;
    struct fiber fibers[NODES];
    open_cluster(&c, true, NODES, seed);
    tide_sim_set_latency(c.sim, LATENCY_US * 1000, LATENCY_US * 1000);
    tide_sim_set_slowness(c.sim, "n2", slowness);
    create(&c, (struct tide_table_options){.name = "w",
                                           .keys = TIDE_KEYS_DENSE,
                                           .slots = TIDE_SLOTS_HASH,
                                           .technique = TIDE_RELOCATE,
                                           .key_count = KEYS,
                                           .width = WIDTH});
    struct turns turns = {.ends = tide_node_now(c.nodes[0]) + fight_ns};
    for (unsigned i = 0; i < fighters; i++) {
        start(&c, &fibers[i], i, i, fight_run, &turns);
    }
    finish(&c, fibers, fighters);
    for (unsigned i = 0; i < fighters; i++) {
        const uint64_t most_ns = 4 * fighters * LATENCY_US * 1000;
        struct tide_table_stats stats;
        tide_table_stats(table_of(&c, i, "w"), &stats);
        assert_in_range(turns.longest_ns[i], 1, most_ns);
        assert_true(turns.done[i] >= fight_ns / most_ns);
        /* Its operations wait for the row and are done when it comes, half of all at least: they do
         * not run after it. */
        assert_true(stats.pulls_local + stats.pushes_local + stats.queued >=
                    turns.done[i] * (uint64_t)KEYS);
    }
    run_alone(&c, 0, sums_run, &turns);
    close_cluster(&c);
}

static void two_nodes_that_fight_over_rows_take_turns(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        nodes_take_turns(2, 1, seed);
    }
}

static void three_nodes_take_turns_also_when_one_is_slow(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        nodes_take_turns(3, 8, seed);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_nodes_that_fight_over_rows_take_turns),
        cmocka_unit_test(three_nodes_take_turns_also_when_one_is_slow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
