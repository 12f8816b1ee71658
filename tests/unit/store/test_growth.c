/*
 * Memory after a thousand rounds of the same work is what it was before them: what a round makes it gives back. Bytes
 * that malloc has handed out are counted, of the whole simulated cluster. The first rounds fill what is kept on purpose
 * (events, pools, dead members), and do not count.
 */
#include "store/core/message.h"
#include "store/core/node_store.h"
#include "store_world.h"

#if defined(__GLIBC__)
#include <malloc.h>
#endif

enum { WARM = 600, ROUNDS = 1000, KEYS = 16, WIDTH = 4, SLACK = 8 /* bytes a round: pools that double */ };

static size_t used(void) {
#if defined(__GLIBC__) && !defined(TIDE_ASAN) && !defined(TIDE_TSAN)
    return mallinfo2().uordblks;
#else
    return 0; /* sanitizers count on their own */
#endif
}

struct work {
    struct cluster *cluster;
    void (*round)(struct fiber *f);
    unsigned rounds;
};

static void work_run(struct fiber *f) {
    struct work *work = f->arg;
    for (unsigned i = 0; i < work->rounds; i++) {
        work->round(f);
    }
}

static void stays_the_same(unsigned nodes, void (*round)(struct fiber *f)) {
    struct cluster c;
    open_cluster(&c, true, nodes, 1);
    struct work work = {.cluster = &c, .round = round, .rounds = WARM};
    run_alone(&c, 0, work_run, &work);
    pause_cluster(&c, 2 * TIDE_SECOND);
    const size_t before = used();
    work.rounds = ROUNDS;
    run_alone(&c, 0, work_run, &work);
    pause_cluster(&c, 2 * TIDE_SECOND);
    const size_t after = used();
    if (after > before + (size_t)ROUNDS * SLACK) {
        fail_msg("%zu bytes more after %d rounds", after - before, ROUNDS);
    }
    close_cluster(&c);
}

static void table_round(struct fiber *f) {
    const struct tide_table_options o = {.name = "t", .key_count = KEYS, .width = WIDTH};
    const uint64_t keys[] = {1, 7, 12};
    const float rows[3 * WIDTH] = {1};
    float out[3 * WIDTH];
    struct tide_table *table;
    CHECK(f, tide_table_create(f->node, &o, &table) == 0);
    CHECK(f, tide_table_push(table, keys, 3, rows, NULL) == 0);
    CHECK(f, tide_table_pull(table, keys, 3, out, NULL) == 0);
    tide_table_release(table);
    CHECK(f, tide_table_drop(f->node, "t") == 0);
}

static void tables_that_come_and_go_leave_nothing(void **state) {
    (void)state;
    stays_the_same(2, table_round);
}

static void copied_table_round(struct fiber *f) {
    const struct tide_table_options o = {.name = "t", .key_count = KEYS, .width = WIDTH, .replicas = 1};
    const uint64_t key = 3;
    const float row[WIDTH] = {1};
    struct tide_table *table;
    CHECK(f, tide_table_create(f->node, &o, &table) == 0);
    CHECK(f, tide_table_push(table, &key, 1, row, NULL) == 0);
    tide_table_release(table);
    CHECK(f, tide_table_drop(f->node, "t") == 0);
}

static void tables_with_copies_leave_nothing(void **state) {
    (void)state;
    stays_the_same(2, copied_table_round);
}

static void moving_table_round(struct fiber *f) {
    const struct tide_table_options o = {
        .name = "t", .key_count = KEYS, .width = WIDTH, .technique = TIDE_RELOCATE};
    const uint64_t keys[] = {1, 7, 12};
    const float rows[3 * WIDTH] = {1};
    struct tide_table *table;
    CHECK(f, tide_table_create(f->node, &o, &table) == 0);
    CHECK(f, tide_table_localize(table, keys, 3, NULL) == 0);
    CHECK(f, tide_table_push(table, keys, 3, rows, NULL) == 0);
    tide_table_release(table);
    CHECK(f, tide_table_drop(f->node, "t") == 0);
}

static void tables_whose_rows_move_leave_nothing(void **state) {
    (void)state;
    stays_the_same(2, moving_table_round);
}

static int answer_once(void *state) {
    (void)state;
    const struct tide_message *m;
    const int code = tide_receive(TIDE_NEVER, &m);
    if (code == 0) {
        (void)tide_answer(m->from, m->call, m->data, m->size);
        tide_message_free(m);
    }
    return code;
}

static void actor_round(struct fiber *f) {
    static const uint8_t nil[] = {0xc0};
    const struct tide_actor_options o = {.type = "guest", .name = "guest", .run = answer_once};
    struct tide_reply *reply = NULL;
    const struct tide_message *m = NULL;
    tide_address who;
    uint64_t watch;
    CHECK(f, tide_spawn(f->node, &o, &who) == 0);
    CHECK(f, tide_monitor(who, &watch) == 0);
    CHECK(f, tide_call(who, nil, sizeof nil, TIDE_CALL_TIMEOUT, &reply) == 0);
    tide_reply_free(reply);
    CHECK(f, tide_receive(TIDE_NEVER, &m) == 0); /* its end */
    tide_message_free(m);
}

static void actors_that_come_and_go_leave_nothing(void **state) {
    (void)state;
    stays_the_same(1, actor_round);
}

static void send_late(struct fiber *f) {
    struct tide_writer w;
    uint8_t buffer[64];
    tide_writer_init(&w, buffer, sizeof buffer);
    tide_write_array(&w, 8);
    tide_write_uint(&w, TIDE__OP_MAP);
    tide_write_uint(&w, 77); /* a table that is not there */
    for (int i = 0; i < 3; i++) {
        tide_write_uint(&w, 0);
    }
    for (int i = 0; i < 3; i++) {
        tide_write_typed(&w, TIDE_U32, NULL, 0);
    }
    CHECK(f, tide_send(tide_address_make(1, TIDE_ID_STORE), TIDE_LANE_CONTROL, w.data, w.size) == 0);
    tide_writer_release(&w);
}

static void send_damaged(struct fiber *f) {
    static const uint8_t text[] = {0xa1, 'x'};
    CHECK(f, tide_send(tide_address_make(1, TIDE_ID_STORE), TIDE_LANE_CONTROL, text, sizeof text) == 0);
}

static void a_message_of_a_table_that_is_gone_is_late_and_not_damaged(void **state) {
    (void)state;
    struct cluster c;
    open_cluster(&c, true, 2, 1);
    run_alone(&c, 1, send_late, NULL);
    pause_cluster(&c, TIDE_SECOND);
    assert_int_equal(atomic_load(&tide_store_of(c.nodes[0])->malformed), 0);
    run_alone(&c, 1, send_damaged, NULL);
    pause_cluster(&c, TIDE_SECOND);
    assert_int_equal(atomic_load(&tide_store_of(c.nodes[0])->malformed), 1);
    close_cluster(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_that_come_and_go_leave_nothing),
        cmocka_unit_test(tables_with_copies_leave_nothing),
        cmocka_unit_test(tables_whose_rows_move_leave_nothing),
        cmocka_unit_test(actors_that_come_and_go_leave_nothing),
        cmocka_unit_test(a_message_of_a_table_that_is_gone_is_late_and_not_damaged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
