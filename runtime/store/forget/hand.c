/*
 * The hand of tables that forget sweeps their slots 16 times in the time after which an unused row expires, a few slots
 * a turn. So a row expires after that time, plus at most a sixteenth of it (the sweep) and a 64th (the epoch). Each
 * turn sets the epoch from the wall clock; accesses note the epoch of the last turn.
 */
#include "store/forget/hand.h"

#include "store/rows/forget.h"

enum { ROUNDS = 16 };

static uint64_t slot_ns(const struct tide__forget *forget) {
    const uint64_t ns = forget->epoch_ns * TIDE__USE_EPOCHS / ROUNDS / TIDE_SLOT_COUNT;
    return ns ? ns : 1;
}

static void set_epoch(struct tide_table *table) {
    struct tide_port *port = table->store->port;
    if (port) { /* without a port a test sets it */
        atomic_store_explicit(&table->forget->epoch, tide__forget_epoch_at(table->forget, port->ops->wall(port)),
                              memory_order_relaxed);
    }
}

uint64_t tide__hand_turn(struct tide_table *table, uint64_t now) {
    struct tide__forget *forget = table->forget;
    if (!forget || !forget->epoch_ns) {
        return UINT64_MAX;
    }
    const uint64_t step = slot_ns(forget), most = tide_limit(store_forget_hand_slots);
    if (now < forget->hand_at) {
        return forget->hand_at;
    }
    set_epoch(table);
    for (uint64_t i = 0; i < most; i++) {
        tide__forget_expire(table, forget->hand);
        forget->hand = (forget->hand + 1) & (TIDE_SLOT_COUNT - 1);
    }
    forget->hand_at = now + step * most; /* no catching up after a pause */
    return forget->hand_at;
}

static uint64_t rest(struct tide_store *store) {
    if (TIDE_LIKELY(atomic_load_explicit(&store->forgetting, memory_order_relaxed) == 0)) {
        return 0;
    }
    const uint64_t now = tide_port_now(store->port);
    if (now >= store->hand_at) {
        const unsigned count = atomic_load_explicit(&store->table_count, memory_order_acquire);
        store->hand_at = UINT64_MAX;
        for (unsigned place = 1; place <= count; place++) {
            struct tide_table *table = tide__table_at(store, place);
            const uint64_t at = table ? tide__hand_turn(table, now) : UINT64_MAX;
            store->hand_at = at < store->hand_at ? at : store->hand_at;
        }
    }
    return store->hand_at == UINT64_MAX ? 0 : store->hand_at - now;
}

static int create(struct tide_table *table, const uint64_t *chains) {
    (void)chains;
    if (!tide__options_forget(&table->options)) {
        return 0;
    }
    table->forget = tide__forget_create(&table->options);
    if (!table->forget) {
        return TIDE_ENOMEM;
    }
    tide_budget_keep(table->budget, sizeof *table->forget);
    set_epoch(table);
    atomic_fetch_add_explicit(&table->store->forgetting, 1, memory_order_relaxed);
    return 0;
}

static void destroy(struct tide_table *table) {
    if (table->forget) {
        tide_budget_drop(table->budget, sizeof *table->forget);
        tide__forget_destroy(table);
        atomic_fetch_sub_explicit(&table->store->forgetting, 1, memory_order_relaxed);
    }
}

static void begins(struct tide_table *table) {
    table->store->hand_at = 0;
}

static void slot_forgotten(struct tide_table *table, uint32_t slot) {
    if (table->forget) {
        tide_lock(&table->slots[slot].latch);
        tide__forget_slot(table, slot);
        tide_unlock(&table->slots[slot].latch);
    }
}

const struct tide__technique tide__forgetful = {
    .name = "forgetful",
    .rest = rest,
    .table_create = create,
    .table_destroy = destroy,
    .table_begins = begins,
    .slot_forgotten = slot_forgotten,
};
