/* Lookups of clients beside training: they wait for no more than a message of the store, whatever waits there. */
#include "store/client/rows.h"
#include "store/rows/slot_index.h"
#include "tests/unit/store_world.h"
#include "tide/message.h"
#include "tide/stats.h"
#include "wire/rows.h"

enum { KEYS = 2000, WIDTH = 4, PUSHERS = 24, SPAN = 40, LOOKUPS = 60, LOOKED_UP = 16, KEY_NS = 5000 };

struct load {
    uint64_t here[KEYS]; /* keys whose home is n1 */
    size_t count;
    uint64_t waited; /* of all lookups together, virtual ns */
    atomic_bool over;
};

static void push_run(struct fiber *f) {
    struct load *load = f->arg;
    struct tide_table *table;
    float ones[SPAN * WIDTH];
    for (size_t i = 0; i < TIDE_COUNT(ones); i++) {
        ones[i] = 1;
    }
    CHECK(f, tide_table_find(f->node, "t", &table) == 0);
    while (!atomic_load(&load->over)) {
        const uint64_t *keys = load->here + tide_random_below(&f->random, load->count - SPAN);
        CHECK(f, tide_table_push(table, keys, SPAN, ones, NULL) == 0);
    }
}

static void lookup_run(struct fiber *f) {
    struct load *load = f->arg;
    struct tide_table *table;
    tide_address lookups;
    CHECK(f, tide_whereis(f->node, "n1/lookups", &lookups) == 0);
    CHECK(f, tide_table_find(f->node, "t", &table) == 0);
    const uint64_t number = table->id | tide_hash(table->name, strlen(table->name), 0) << 32;
    for (unsigned i = 0; i < LOOKUPS; i++) {
        struct tide_reply *reply;
        struct tide_writer w;
        uint8_t body[400];
        tide_writer_init(&w, body, sizeof body);
        tide_write_array(&w, 4);
        tide_write_uint(&w, TIDE__ROWS_PULL);
        tide_write_uint(&w, number);
        tide_write_typed(&w, TIDE_U64, load->here + tide_random_below(&f->random, load->count - LOOKED_UP), LOOKED_UP);
        tide_write_bool(&w, true);
        CHECK(f, tide_sleep(tide_random_below(&f->random, 2 * TIDE_SECOND / 1000)) == 0);
        const uint64_t began = tide_port_now(f->cluster->ports[0]);
        CHECK(f, tide_call(lookups, w.data, w.size, TIDE_SECOND, &reply) == 0);
        load->waited += tide_port_now(f->cluster->ports[0]) - began;
        tide_reply_free(reply);
        tide_writer_release(&w);
    }
    atomic_store(&load->over, true);
}

static void a_lookup_waits_for_a_message_of_the_store_at_most(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        struct cluster c;
        struct fiber fibers[PUSHERS + 1];
        static struct load load;
        load = (struct load){0};
        open_cluster(&c, true, 3, seed);
        create(&c, (struct tide_table_options){.name = "t", .key_count = KEYS, .width = WIDTH});
        struct tide_table *table = table_of(&c, 0, "t");
        for (uint64_t key = 0; key < KEYS; key++) {
            if (tide__route_of(table, tide__slot_of(table, key)) & TIDE__MINE) {
                load.here[load.count++] = key;
            }
        }
        tide_node_serve_cost(c.nodes[0], KEY_NS);
        for (unsigned i = 0; i < PUSHERS; i++) {
            start(&c, &fibers[i], 1, i, push_run, &load);
        }
        start(&c, &fibers[PUSHERS], 2, PUSHERS, lookup_run, &load);
        finish(&c, fibers, PUSHERS + 1);
        /* On average: a turn of two messages until the link is read (the simulator draws which comes first), the turn
         * that answers, and the network, up to 0.2 ms each way. All that waits at the store is 24 messages. */
        assert_in_range(load.waited / LOOKUPS, 1, 8 * SPAN * KEY_NS + 400000);
        close_cluster(&c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lookup_waits_for_a_message_of_the_store_at_most),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
