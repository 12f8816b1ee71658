/* Clocks as a technique of the store (technique.h). */
#include "store/clocked/clock_move.h"

static uint64_t row_changed(struct tide_table *table, uint64_t key, uint64_t word, const void *delta) {
    return tide__row_changed(table->clocked, key, word, delta, table->width);
}

static const struct tide__operations clocked = {
    .operate = tide__clocked_operate,
    .wait = tide__clocked_wait,
    .row_changed = row_changed,
};

static int create(struct tide_table *table, const uint64_t *chains) {
    (void)chains;
    int code = tide__clocked_create(table);
    table->operations = table->clocked ? &clocked : table->operations;
    return code;
}

static void ends(struct tide_table *table) {
    if (table->clocked) {
        tide__sync_wake(table->clocked->sync); /* waiters look, and find it closing */
    }
}

static bool is_idle(const struct tide_table *table) {
    return !table->clocked || !table->clocked->leaving.records;
}

/* The holder of a flush lock, of whatever domain, may be at its look through all tables. */
static void leave(struct tide_store *store) {
    for (struct tide__sync *sync = tide__sync_next(store, NULL); sync; sync = tide__sync_next(store, sync)) {
        tide__flush_lock(sync);
        tide__flush_unlock(sync);
    }
}

static void routes_changed(struct tide_table *table) {
    tide__clocked_routes_changed(table, 0, TIDE_SLOT_COUNT);
}

const struct tide__technique tide__clocked = {
    .name = "clocked",
    .run_ends = tide__sync_destroy,
    .member = tide__clocked_member,
    .rest = tide__early_send_rest,
    .table_create = create,
    .table_destroy = tide__clocked_destroy,
    .table_ready = tide__clocked_ready,
    .table_ends = ends,
    .table_idle = is_idle,
    .table_leave = leave,
    .routes_changed = routes_changed,
    .slots_settle = tide__clocked_moves_go_on,
    .slot_leaves = tide__clocked_departs,
    .slot_left = tide__clocked_departed,
    .slots_left = tide__clocked_tell_moves,
    .slot_came = tide__clocked_arrived,
};
