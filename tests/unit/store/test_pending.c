/* Unanswered operations: which of them a node that is gone ends. */
#include "store/core/node_store.h"
#include "store_world.h"

enum { HOME = 2, FIRST = 20, PLACES = 300, ELSEWHERE = 19 };
#define MS UINT64_C(1000000)

struct push {
    struct cluster cluster;
    struct fiber fiber;
    struct tide_store *store;
    int code; /* 1: unanswered */
};

/* A push to a row whose home is HOME, which does not hear of it. */
static void push_run(struct fiber *f) {
    struct push *p = f->arg;
    struct tide_table *table;
    uint64_t key = 0;
    uint16_t home = 0;
    const float row[2] = {1, 2};
    CHECK(f, tide_table_find(f->node, "t", &table) == 0);
    while (tide_table_where(table, key, &home) == 0 && home != HOME) {
        key++;
    }
    CHECK(f, home == HOME);
    p->code = tide_table_push(table, &key, 1, row, NULL);
}

static void push_open(struct push *p) {
    open_cluster(&p->cluster, true, 2, 1);
    create(&p->cluster, (struct tide_table_options){.name = "t", .key_count = 16, .width = 2});
    p->store = tide_store_of(p->cluster.nodes[0]);
    tide_sim_cut(p->cluster.sim, "n1", "n2", true);
}

/* Returns its id. */
static uint64_t push_begin(struct push *p) {
    p->code = 1;
    start(&p->cluster, &p->fiber, 0, 0, push_run, p);
    for (unsigned i = 0; i < 100 && !p->store->pending.first; i++) {
        pause_cluster(&p->cluster, MS);
    }
    assert_non_null(p->store->pending.first);
    return p->store->pending.first->id;
}

static bool is_unanswered(struct push *p) {
    pause_cluster(&p->cluster, 10 * MS);
    assert_true((p->code == 1) == (p->store->pending.first != NULL));
    return p->code == 1;
}

static void push_ends(struct push *p, int code) {
    assert_false(is_unanswered(p));
    assert_string_equal(p->fiber.failure, "");
    assert_int_equal(p->code, code);
}

/* However many it was passed on to, the end of another node is none of its business. */
static void only_a_node_that_has_a_part_of_it_ends_an_operation(void **state) {
    (void)state;
    struct push p;
    push_open(&p);
    const uint16_t having[] = {HOME, FIRST, FIRST + 1, FIRST + PLACES - 1};
    for (size_t i = 0; i < TIDE_COUNT(having); i++) {
        memset(p.store->pending.gone, 0, sizeof p.store->pending.gone);
        const uint64_t id = push_begin(&p);
        for (uint16_t n = 0; n < 2 * PLACES; n++) { /* each twice */
            tide__pending_passed_on(p.store, id, (uint16_t)(FIRST + n % PLACES));
        }
        tide__pending_node_gone(p.store, ELSEWHERE, "node elsewhere left");
        assert_true(is_unanswered(&p));
        tide__pending_node_gone(p.store, having[i], "node died");
        push_ends(&p, TIDE_EDIED);
    }
    close_cluster(&p.cluster);
}

static void what_is_passed_on_to_a_node_that_is_gone_ends_at_once(void **state) {
    (void)state;
    struct push p;
    push_open(&p);
    tide__pending_node_gone(p.store, FIRST, "node died");
    const uint64_t id = push_begin(&p);
    tide__pending_passed_on(p.store, id, FIRST + 1);
    assert_true(is_unanswered(&p));
    tide__pending_passed_on(p.store, id, FIRST);
    push_ends(&p, TIDE_EDIED);
    close_cluster(&p.cluster);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_a_node_that_has_a_part_of_it_ends_an_operation),
        cmocka_unit_test(what_is_passed_on_to_a_node_that_is_gone_ends_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
