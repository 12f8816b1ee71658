/*
 * Expiry of tables that forget. The hand visits all slots of a table 16 times during `unused_ns`, a few slots a turn. A
 * row therefore expires at most a sixteenth and a 64th of that time late. Each turn also sets the table's epoch from
 * the wall clock, which accesses copy into use records.
 *
 * The sketch of a slot that moves follows the slot's rows to the new home (SKETCH), which adopts it: keys that wait for
 * admission keep their counts. A sketch that does not fit into memory is dropped, and those keys start again.
 */
#include "store/forget/hand.h"

#include "store/core/send.h"
#include "store/operation/inbox.h"
#include "store/rows/forget.h"

enum { ROUNDS = 16 };

static uint64_t slot_ns(const struct tide__forget *forget) {
    const uint64_t ns = forget->epoch_ns * TIDE__USE_EPOCHS / ROUNDS / TIDE_SLOT_COUNT;
    return ns ? ns : 1;
}

static void set_epoch(struct tide_table *table) {
    struct tide_port *port = table->store->port;
    if (port) { /* without a port a test sets the epoch */
        atomic_store_explicit(&tide__forget_of(table)->epoch,
                              tide__forget_epoch_at(tide__forget_of(table), port->ops->wall(port)),
                              memory_order_relaxed);
    }
}

/* Deletes expired rows of the slots that are due at time `now`. Returns when the next slot is due; UINT64_MAX: never.
 * I/O thread. */
static uint64_t hand_turn(struct tide_table *table, uint64_t now) {
    struct tide__forget *forget = tide__forget_of(table);
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
    forget->hand_at = now + step * most; /* after a pause the hand keeps its rate */
    return forget->hand_at;
}

static uint64_t end_of_turn(struct tide_store *store) {
    if (TIDE_LIKELY(atomic_load_explicit(&store->forgetting, memory_order_relaxed) == 0)) {
        return 0;
    }
    const uint64_t now = tide_port_now(store->port);
    if (now >= store->hand_at) {
        const unsigned count = atomic_load_explicit(&store->table_count, memory_order_acquire);
        store->hand_at = UINT64_MAX;
        for (unsigned place = 1; place <= count; place++) {
            struct tide_table *table = tide__table_at(store, place);
            const uint64_t at = table ? hand_turn(table, now) : UINT64_MAX;
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
    table->parts[TIDE__PART_FORGET] = tide__forget_create(&table->options);
    if (!tide__forget_of(table)) {
        return TIDE_ENOMEM;
    }
    tide_budget_keep(table->budget, sizeof *tide__forget_of(table));
    set_epoch(table);
    atomic_fetch_add_explicit(&table->store->forgetting, 1, memory_order_relaxed);
    return 0;
}

static void destroy(struct tide_table *table) {
    if (tide__forget_of(table)) {
        tide_budget_drop(table->budget, sizeof *tide__forget_of(table));
        tide__forget_destroy(table);
        atomic_fetch_sub_explicit(&table->store->forgetting, 1, memory_order_relaxed);
    }
}

static int slot_left(struct tide_table *table, uint32_t slot, uint16_t to) {
    struct tide__sketch *sketch = tide__forget_of(table) ? tide__forget_take_sketch(table, slot) : NULL;
    if (sketch && !TIDE_MUTANT(sketch_stays)) {
        const size_t words = tide__sketch_words(tide__forget_of(table)->slot_keys);
        (void)tide__store_tell(table->store, to,
                               TIDE__AS(SKETCH, .table = table->id, .slot = slot, .left = sketch->left,
                                        .counters = TIDE__LIST(sketch->counters, words)));
    }
    tide_free(sketch);
    return 0;
}

int tide__sketch_message(struct tide_store *store, struct tide__incoming *in) {
    const __typeof__(in->as.SKETCH) *m = &in->as.SKETCH;
    struct tide_table *table = tide__incoming_table(store, in, m->table);
    if (!table || !tide__forget_of(table) || m->slot >= TIDE_SLOT_COUNT ||
        !(tide__route_of(table, m->slot) & TIDE__AWAITED) ||
        m->counters.count != tide__sketch_words(tide__forget_of(table)->slot_keys)) {
        return TIDE_EPROTO;
    }
    tide__forget_adopt(table, m->slot, m->counters.at, m->left);
    return 0;
}

static void table_event(struct tide_table *table, enum tide__table_event event) {
    if (event == TIDE__TABLE_BEGINS) {
        table->store->hand_at = 0;
    } else if (event == TIDE__TABLE_FREED) {
        destroy(table);
    }
}

static int slot_event(struct tide_table *table, enum tide__slot_event event, uint32_t slot, uint16_t to) {
    if (event == TIDE__SLOT_LEFT) {
        return slot_left(table, slot, to);
    }
    if (event == TIDE__SLOT_FORGOTTEN && tide__forget_of(table)) {
        tide_free(tide__forget_take_sketch(table, slot));
    }
    return 0;
}

const struct tide__technique tide__forgetful = {
    .name = "forgetful",
    .end_of_turn = end_of_turn,
    .table_create = create,
    .table_event = table_event,
    .slot_event = slot_event,
};
