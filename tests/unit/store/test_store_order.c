/* Tables with copies: the order of one worker's operations on a row when its home dies. */
#include "store_world.h"

#include "store/replica/replica.h"

enum { KEYS = 4096 };

struct order {
    uint64_t key;
    float pulled, later, last;
};

/* The key's home is `home`, and its only copy on `copy`. */
static uint64_t key_on(struct cluster *c, uint16_t home, uint16_t copy) {
    const struct tide_table *table = table_of(c, 0, "hot");
    for (uint64_t key = 0; key < KEYS; key++) {
        const uint32_t slot = tide__slot_of(table, key);
        if (tide__route_home(atomic_load(&table->slots[slot].route)) == home &&
            atomic_load(&tide__replicas_of(table)->chain[slot]) == copy) {
            return key;
        }
    }
    fail_msg("no key of node %u has its copy on node %u", home, copy);
    return 0;
}

/* Push, pull, push, pull, without waiting for an answer in between. */
static void calls_run(struct fiber *f) {
    struct order *order = f->arg;
    struct tide_ticket tickets[4];
    struct tide_table *table;
    const float one = 1;
    CHECK(f, tide_table_find(f->node, "hot", &table) == 0);
    CHECK(f, tide_table_push(table, &order->key, 1, &one, &tickets[0]) == 0);
    CHECK(f, tide_table_pull(table, &order->key, 1, &order->pulled, &tickets[1]) == 0);
    CHECK(f, tide_table_push(table, &order->key, 1, &one, &tickets[2]) == 0);
    CHECK(f, tide_table_pull(table, &order->key, 1, &order->later, &tickets[3]) == 0);
    for (size_t i = 0; i < TIDE_COUNT(tickets); i++) {
        CHECK(f, tide_ticket_wait(&tickets[i]) == 0);
    }
    CHECK(f, tide_table_pull(table, &order->key, 1, &order->last, NULL) == 0);
}

/* The home's copy has got everything, but its word of it does not reach the home before that dies:
 * nothing is answered, and all runs again where all of it is. */
static void a_pull_that_runs_again_shows_no_later_push_of_its_worker(void **state) {
    (void)state;
    struct cluster c;
    open_cluster(&c, true, 3, 1);
    create(&c, (struct tide_table_options){
                   .name = "hot", .key_count = KEYS, .width = 1, .replicas = 1});
    struct order order = {.key = key_on(&c, 2, 3)};
    struct fiber fiber;
    pause_cluster(&c, TIDE_SECOND);
    tide_sim_cut(c.sim, "n3", "n2", true);
    start(&c, &fiber, 0, 0, calls_run, &order);
    pause_cluster(&c, 100000000);
    tide_sim_crash(c.sim, "n2");
    finish(&c, &fiber, 1);
    assert_true(order.pulled == 1);
    assert_true(order.later == 2);
    assert_true(order.last == 2);
    close_cluster(&c);
}

int main(int argc, char **argv) {
    (void)argc;
    program = argv[0];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pull_that_runs_again_shows_no_later_push_of_its_worker),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
