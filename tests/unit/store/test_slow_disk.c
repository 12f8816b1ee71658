/* A slow disk under the controller's journal: decisions wait for it, pulls do not. Simulated. */
#include "store_world.h"

enum { TABLES = 20, KEYS = 64 };
#define SYNC_NS (50 * UINT64_C(1000000))

static struct {
    struct cluster c;
    atomic_bool decided, pulled;
    uint64_t longest_pull, longest_decision, pulls;
    char failure[300];
} world;

#define TRY(e)                                                                                             \
    do {                                                                                                   \
        if ((e) < 0) {                                                                                     \
            (void)snprintf(world.failure, sizeof world.failure, "%s: %.80s", #e, tide_error_message());   \
            break;                                                                                         \
        }                                                                                                  \
    } while (0)

static int make_tables(void *state) {
    for (int i = 0; i < TABLES; i++) {
        char name[16];
        struct tide_table *table;
        (void)snprintf(name, sizeof name, "t%d", i);
        const uint64_t began = tide_port_now(world.c.ports[0]);
        TRY(tide_table_create(state, &(struct tide_table_options){.name = name, .key_count = KEYS, .width = 1}, &table));
        tide_table_release(table);
        const uint64_t took = tide_port_now(world.c.ports[0]) - began;
        world.longest_decision = took > world.longest_decision ? took : world.longest_decision;
    }
    atomic_store(&world.decided, true);
    return 0;
}

/* Of rows that lie on the controller's node. */
static int pull_rows(void *state) {
    struct tide_table *table = NULL;
    uint64_t keys[KEYS];
    float rows[KEYS];
    TRY(tide_table_create(state, &(struct tide_table_options){.name = "rows", .key_count = KEYS, .width = 1}, &table));
    for (uint64_t i = 0; i < KEYS; i++) {
        keys[i] = i;
    }
    while (table && !atomic_load(&world.decided)) {
        const uint64_t began = tide_port_now(world.c.ports[0]);
        TRY(tide_table_pull(table, keys, KEYS, rows, NULL));
        const uint64_t took = tide_port_now(world.c.ports[0]) - began;
        world.longest_pull = took > world.longest_pull ? took : world.longest_pull;
        world.pulls++;
        TRY(tide_sleep(1000000));
    }
    tide_table_release(table);
    atomic_store(&world.pulled, true);
    return 0;
}

static void a_slow_sync_does_not_delay_a_pull(void **state) {
    (void)state;
    struct cluster *c = &world.c;
    memset(&world, 0, sizeof world);
    strcpy(c->directory, "/tmp/tide-slow-XXXXXX");
    assert_non_null(mkdtemp(c->directory));
    assert_int_equal(tide_sim_create(&(struct tide_sim_options){.seed = 1}, &c->sim), 0);
    add_node_with(c, (struct tide_node_options){.state = "state"});
    add_node(c);
    wait_members(c, 2);
    tide_sim_set_disk(c->sim, "n1", &(struct tide_sim_disk){.sync_ns_min = SYNC_NS, .sync_ns_max = SYNC_NS});
    assert_int_equal(tide_spawn(c->nodes[0], &(struct tide_actor_options){.run = make_tables, .state = c->nodes[0]}, NULL), 0);
    assert_int_equal(tide_spawn(c->nodes[1], &(struct tide_actor_options){.run = pull_rows, .state = c->nodes[1]}, NULL), 0);
    for (int i = 0; i < 100000 && !atomic_load(&world.pulled); i++) {
        pause_cluster(c, 1000000);
    }
    assert_true(atomic_load(&world.pulled));
    assert_string_equal(world.failure, "");
    assert_true(world.longest_decision >= SYNC_NS); /* the disk was slow */
    assert_true(world.pulls > 100);
    if (world.longest_pull >= SYNC_NS / 10) {
        fail_msg("a pull took %.3f ms while the disk syncs in 50 ms", (double)world.longest_pull / 1e6);
    }
    close_cluster(c);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_slow_sync_does_not_delay_a_pull)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
