/*
 * Requested moves of slots: one call to the controller, which checks all of it before it
 * plans anything. What follows is that of every slot move (move_plan.c, move.c); the answer is given when
 * the last batch of the request has ended.
 */
#include "store/core/send.h"
#include "store/slots/move.h"
#include "tide/placement.h"
#include "tide/stats.h"

struct tide__request { /* at the controller */
    tide_address caller;
    uint64_t call;
    uint32_t batches; /* that have not ended; one more while the request is planned */
    int code;         /* the first failure */
    uint16_t failed_at;
};

/* ---- the controller ---- */

static bool may_take(struct tide_store *store, uint64_t node) {
    uint16_t *homes = NULL;
    size_t count = 0;
    bool found = false;
    if (tide__catalog_homes(store, &homes, &count) == 0) {
        for (size_t i = 0; i < count; i++) {
            found |= homes[i] == node;
        }
        tide_free(homes);
    }
    return found;
}

static int check_target(struct tide_store *store, const struct tide__catalog_entry *entry, uint64_t node) {
    if (entry->options.replicas) {
        return tide_fail(TIDE_EREFUSED, "table '%s' has copies of its rows: the controller places its slots",
                         entry->name);
    }
    if (!may_take(store, node)) {
        return tide_fail(TIDE_EINVAL, "node %llu is not up, or holds no rows", (unsigned long long)node);
    }
    return tide__memory_takes_rows(store, (uint16_t)node)
               ? 0
               : tide__memory_refuse(store, (uint16_t)node, "it takes no slots");
}

/* plan[slot] = node for what has to move; the rest stays 0. */
static int check_slots(struct tide_store *store, const struct tide__catalog_entry *entry, const uint8_t *slots,
                       size_t count, uint16_t node, uint16_t *plan) {
    bool moving[TIDE_SLOT_COUNT] = {false};
    tide__plan_moving(store, entry->id, moving);
    for (size_t i = 0; i < count; i++) {
        const uint32_t slot = tide__number_at(slots, i);
        if (slot >= TIDE_SLOT_COUNT) {
            return tide_fail(TIDE_EINVAL, "slot %u is outside table '%s' (0..%d)", slot, entry->name,
                             TIDE_SLOT_COUNT - 1);
        }
        if (moving[slot]) {
            return tide_fail(TIDE_EBUSY, "slot %u of table '%s' is on the move", slot, entry->name);
        }
        if (!tide__member_lives(store, entry->homes[slot])) {
            return tide_fail(TIDE_ENOENT, "the rows of slot %u of table '%s' died with node %u", slot, entry->name,
                             (unsigned)entry->homes[slot]);
        }
        plan[slot] = entry->homes[slot] == node ? 0 : node;
    }
    return 0;
}

/* A batch for each home that gives slots away. */
static int plan(struct tide_store *store, struct tide__catalog_entry *entry, uint16_t node, const uint16_t *wanted,
                struct tide__request *request) {
    int code = 0;
    uint8_t *from = tide_alloc_zero(TIDE__NODES, 1);
    if (!from) {
        return TIDE_ENOMEM;
    }
    for (uint32_t s = 0; s < TIDE_SLOT_COUNT; s++) {
        from[entry->homes[s]] |= wanted[s] == node;
    }
    for (unsigned home = 1; home < TIDE__NODES && !code; home++) {
        if (from[home]) {
            code = tide__plan_batch(store, entry, (uint16_t)home, node, wanted, request);
        }
    }
    tide_free(from);
    return code;
}

void tide__request_begins(struct tide__request *request) {
    request->batches++;
}

void tide__request_part(struct tide_store *store, struct tide__request *request, int code, uint16_t to) {
    if (code && !request->code) {
        request->code = code;
        request->failed_at = to;
    }
    if (--request->batches > 0) {
        return;
    }
    if (request->code) {
        char name[96], text[200];
        tide__node_text(store, request->failed_at, name);
        (void)snprintf(text, sizeof text, "slots were on their way to node %s: %s", name,
                       tide_error_name(request->code));
        (void)tide_answer_error(request->caller, request->call, request->code, text);
    } else {
        static const uint8_t nil = 0xc0;
        (void)tide_answer(request->caller, request->call, &nil, sizeof nil);
    }
    tide_free(request);
}

static struct tide__catalog_entry *ready_entry(struct tide_store *store, uint64_t id) {
    struct tide__catalog_entry *e = store->catalog->entries;
    while (e && (e->id != id || !tide__catalog_stands(e))) {
        e = e->next;
    }
    return e;
}

int tide__request_call(struct tide_store *store, struct tide__incoming *in) {
    const struct tide_message *message = in->message;
    const uint64_t table = in->as.MOVE_SLOTS.table, node = in->as.MOVE_SLOTS.node;
    const struct tide__array *slots = &in->as.MOVE_SLOTS.slots;
    if (slots->count > TIDE_SLOT_COUNT) {
        return tide_fail(TIDE_EPROTO, "a damaged request to move slots");
    }
    if (!tide__catalog_commands(store)) {
        return tide_fail(TIDE_EREFUSED, "this node is not the controller");
    }
    struct tide__catalog_entry *entry = ready_entry(store, table);
    if (!entry) {
        return tide_fail(TIDE_ENOENT, "no table with id %llu is ready", (unsigned long long)table);
    }
    uint16_t wanted[TIDE_SLOT_COUNT] = {0};
    int code = check_target(store, entry, node);
    code = code ? code : check_slots(store, entry, slots->at, slots->count, (uint16_t)node, wanted);
    struct tide__request *request = code ? NULL : tide_alloc_zero(1, sizeof *request);
    if (!request) {
        return code ? code : tide_fail(TIDE_ENOMEM, "no memory for a request to move slots");
    }
    const uint16_t asker = tide_address_node(message->from);
    request->caller = asker ? message->from : tide_address_make(tide__store_self(store), message->from);
    request->call = message->call;
    request->batches = 1;
    code = plan(store, entry, (uint16_t)node, wanted, request);
    tide__request_part(store, request, code, (uint16_t)node);
    tide__plan_advance(store);
    return 0; /* answered, or will be */
}

/* ---- requesters ---- */

int tide_table_move(struct tide_table *table, const uint32_t *slots, size_t slot_count, uint16_t node) {
    const uint64_t timeout = tide_limit(store_move_timeout);
    struct tide_store *store = table->store;
    if (!store->net) {
        return tide_fail(TIDE_EUNREACHABLE, "there is no cluster to move slots in");
    }
    if (slot_count > TIDE_SLOT_COUNT) {
        return tide_fail(TIDE_EINVAL, "%zu slots: a table has %d", slot_count, TIDE_SLOT_COUNT);
    }
    struct tide_reply *reply = NULL;
    const int code =
        tide__store_call(tide_net_controller(store->net),
                         TIDE__AS(MOVE_SLOTS, .table = table->id, .node = node, .slots = TIDE__LIST(slots, slot_count)),
                         timeout, &reply);
    tide_reply_free(reply);
    return tide__memory_told(code);
}

void tide_table_slot_homes(struct tide_table *table, uint16_t *homes) {
    for (uint32_t s = 0; s < TIDE_SLOT_COUNT; s++) {
        homes[s] = tide__route_home(atomic_load_explicit(&table->slots[s].route, memory_order_relaxed));
    }
}

void tide_table_slot_served(struct tide_table *table, uint64_t *served) {
    for (uint32_t s = 0; s < TIDE_SLOT_COUNT; s++) {
        served[s] = atomic_load_explicit(&table->served[s], memory_order_relaxed);
    }
}
