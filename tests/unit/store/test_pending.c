/* Unanswered operations: which of them a node that is gone ends. */
#include "store_world.h"

enum { HOME = 7, FIRST = 20, PLACES = 300, ELSEWHERE = 19 };

/* As remote.c does it: an operation that was sent to HOME. */
static uint64_t enlist(struct tide_table *table) {
    struct tide__pending_table *t = &table->store->pending;
    struct tide__pending *p = tide_alloc_zero(1, sizeof *p);
    uint64_t id = 0;
    assert_non_null(p);
    assert_int_equal(tide__admission_take(table->store, HOME, 1, 0), 0);
    assert_int_equal(tide__pending_reserve(t, &id), 0);
    *p = (struct tide__pending){.id = id, .table = table, .count = 1, .left = 1, .node = HOME};
    t->first = t->last = t->by_slot[(uint32_t)id] = p;
    return id;
}

static struct tide_table *open_table(struct cluster *c) {
    open_cluster(c, true, 1, 1);
    create(c, (struct tide_table_options){.name = "t", .key_count = 16, .width = 2});
    return table_of(c, 0, "t");
}

/* However many it was passed on to, the end of another node is none of its business. */
static void only_a_node_that_has_a_part_of_it_ends_an_operation(void **state) {
    (void)state;
    struct cluster c;
    struct tide_table *table = open_table(&c);
    struct tide_store *store = table->store;
    const uint16_t having[] = {HOME, FIRST, FIRST + 1, FIRST + PLACES - 1};
    for (size_t i = 0; i < TIDE_COUNT(having); i++) {
        memset(store->pending.gone, 0, sizeof store->pending.gone);
        const uint64_t id = enlist(table);
        for (uint16_t n = 0; n < 2 * PLACES; n++) { /* each twice */
            tide__pending_passed_on(store, id, (uint16_t)(FIRST + n % PLACES));
        }
        tide__pending_node_gone(store, ELSEWHERE, "node elsewhere left");
        assert_non_null(store->pending.first);
        tide__pending_node_gone(store, having[i], "node died");
        assert_null(store->pending.first);
    }
    close_cluster(&c);
}

static void what_is_passed_on_to_a_node_that_is_gone_ends_at_once(void **state) {
    (void)state;
    struct cluster c;
    struct tide_table *table = open_table(&c);
    struct tide_store *store = table->store;
    tide__pending_node_gone(store, FIRST, "node died");
    const uint64_t id = enlist(table);
    tide__pending_passed_on(store, id, FIRST + 1);
    assert_non_null(store->pending.first);
    tide__pending_passed_on(store, id, FIRST);
    assert_null(store->pending.first);
    close_cluster(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_a_node_that_has_a_part_of_it_ends_an_operation),
        cmocka_unit_test(what_is_passed_on_to_a_node_that_is_gone_ends_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
