/* Clocks as a technique of the store (technique.h). */
#include "store/clocked/clock_move.h"
#include "store/operation/shard.h"

static int row_event(struct tide__pass *pass, enum tide__row_event event, uint32_t slot, uint64_t key, uint64_t *word,
                     const void *delta) {
    (void)slot;
    if (event == TIDE__ROW_CHANGED) {
        *word = tide__row_changed(tide__clocked_part(pass->table), key, *word, delta, pass->table->width);
    }
    return 0;
}

static const struct tide__operations clocked = {
    .in_line = true,
    .watches = true,
    .walk = tide__walk,
    .row_event = row_event,
    .job = tide__plain_job,
};

static int create(struct tide_table *table, const uint64_t *chains) {
    (void)chains;
    int code = tide__clocked_create(table);
    table->operations = tide__clocked_part(table) ? &clocked : table->operations;
    return code;
}

/* The holder of a flush lock, of whatever domain, may be at its look through all tables. */
static void wait_for_looks(struct tide_store *store) {
    for (struct tide__sync *sync = tide__sync_next(store, NULL); sync; sync = tide__sync_next(store, sync)) {
        tide__flush_lock(sync);
        tide__flush_unlock(sync);
    }
}

static void table_event(struct tide_table *table, enum tide__table_event event) {
    switch (event) {
    case TIDE__TABLE_READY:
        tide__clocked_ready(table);
        break;
    case TIDE__TABLE_ENDS:
        if (tide__clocked_part(table)) {
            tide__sync_wake(tide__clocked_part(table)->sync); /* waiters look, and find it closing */
        }
        break;
    case TIDE__TABLE_UNLISTED:
        wait_for_looks(table->store);
        break;
    case TIDE__TABLE_FREED:
        tide__clocked_destroy(table);
        break;
    case TIDE__TABLE_ROUTES_CHANGED:
        tide__clocked_routes_changed(table, 0, TIDE_SLOT_COUNT);
        break;
    default:
        break;
    }
}

static bool table_works(struct tide_table *table, enum tide__table_work work) {
    return (work == TIDE__WORK_IN_FLIGHT && tide__clocked_part(table) && tide__clocked_part(table)->leaving.records) ||
           (work == TIDE__WORK_OLD_HOMES && tide__clocked_uses_old_homes(table));
}

static int slot_event(struct tide_table *table, enum tide__slot_event event, uint32_t slot, uint16_t to) {
    switch (event) {
    case TIDE__SLOT_LEAVES:
        tide__clocked_departs(table, slot, to);
        break;
    case TIDE__SLOT_LEFT:
        return tide__clocked_departed(table, slot, to);
    case TIDE__SLOT_ARRIVED:
        tide__clocked_arrived(table, slot);
        break;
    default:
        break;
    }
    return 0;
}

static void store_event(struct tide_store *store, enum tide__store_event event) {
    if (event == TIDE__STORE_SLOTS_LEFT) {
        tide__clocked_tell_moves(store);
    }
}

const struct tide__technique tide__clocked = {
    .name = "clocked",
    .store_event = store_event,
    .member_changed = tide__clocked_member,
    .end_of_turn = tide__early_send_rest,
    .table_create = create,
    .table_event = table_event,
    .table_works = table_works,
    .slot_event = slot_event,
};
