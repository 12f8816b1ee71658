/*
 * The home brings new copies into the chains of its slots, as the controller orders: slot by slot,
 * some at a time, so that operations are served in between. An order without a node asks whether
 * all that was pushed is with the copies. A node that joined is in the home's
 * chain at once (pushes wait for it), and takes over from a dead home only when the controller
 * has recorded it.
 */
#include "store/replica/async_replication.h"
#include "store/slots/move.h"

enum { IN_FLIGHT_MANY = 512, REPORT_EACH = 256 };
enum { WAITS, JOINS, JOINED, DROPPED };

struct tide__rebuild {
    struct tide__rebuild *next;
    uint32_t version, count, at, in_flight, joined;
    uint16_t node;
    uint8_t *states;
    uint32_t slots[];
};

static void order_free(struct tide__rebuild *order) {
    tide_free(order->states);
    tide_free(order);
}

void tide__rebuild_release(struct tide_table *table) {
    while (tide__replicas_of(table)->rebuilds) {
        struct tide__rebuild *next = tide__replicas_of(table)->rebuilds->next;
        order_free(tide__replicas_of(table)->rebuilds);
        tide__replicas_of(table)->rebuilds = next;
    }
}

static void report(struct tide_table *table, struct tide__rebuild *order) {
    uint32_t *slots = tide_alloc((order->joined + 1) * sizeof *slots), count = 0;
    for (uint32_t i = 0; slots && i < order->at; i++) {
        if (order->states[i] == JOINED) {
            slots[count++] = order->slots[i];
            order->states[i] = DROPPED;
        }
    }
    if (count) {
        tide__move_send(table->store, tide_net_controller(table->store->net), TIDE__OP_REBUILT, table->id,
                        order->version, order->node, slots, count, NULL, 0);
        order->joined = 0;
    }
    tide_free(slots);
}

static void chain_set(struct tide_table *table, uint32_t slot, uint64_t chain) {
    tide__routes_begin(table); /* messages are put together by it */
    atomic_store_explicit(&tide__replicas_of(table)->chain[slot], chain, memory_order_relaxed);
    tide__routes_end(table);
    tide__lenders_changed(table);
}

/* 1: in progress; 0: nothing is to be done; ENOMEM, EBUSY: not yet. */
static int join(struct tide_table *table, const struct tide__rebuild *order, uint32_t slot) {
    TIDE_SOMETIMES(copy_made_again);
    struct tide__replicas *replicas = tide__replicas_of(table);
    uint32_t route = atomic_load_explicit(&table->slots[slot].route, memory_order_relaxed);
    uint64_t chain = atomic_load_explicit(&replicas->chain[slot], memory_order_relaxed);
    if (!(route & TIDE__MINE) || table->slot_versions[slot] > order->version) {
        return 0;
    }
    if (order->node == 0 && replicas->async && !tide__async_tighten(table, slot)) {
        return TIDE_EBUSY;
    }
    if (order->node == 0) {
        const int code = tide__replica_join(table, slot, false);
        return code ? code : 1;
    }
    if (tide__chain_has(chain, order->node) || tide__chain_count(chain) == TIDE__CHAIN_MAX) {
        return 0;
    }
    chain_set(table, slot, tide__chain_append(chain, order->node));
    if (tide__replica_join(table, slot, true) == 0) {
        return 1;
    }
    chain_set(table, slot, chain);
    tide__replica_fail(table, slot, order->node);
    return 0;
}

/* How many slots may join at a time: so many bytes of rows, as slots have them on average. Slots of
 * few rows must not take a round trip for each few of them. */
static uint32_t in_flight_max(const struct tide_table *table) {
    const uint64_t rows = tide__slab_used(&table->slab);
    const uint64_t bytes = rows * table->row_floats * sizeof(float) / TIDE_SLOT_COUNT + 1;
    const uint64_t most = tide_limit(store_rebuild_bytes) / bytes, few = tide_limit(store_rebuild_slots_least);
    return (uint32_t)(most < few ? few : most > IN_FLIGHT_MANY ? IN_FLIGHT_MANY : most);
}

/* Without memory; it continues with a later beat. */
static bool pauses(const struct tide_table *table, const struct tide__rebuild *order) {
    return order->node != 0 && !table->store->leaving &&
           (!tide__memory_takes_rows(table->store, order->node) ||
            tide_budget_tier(&table->store->budget) >= TIDE_TIER_NARROW);
}

/* Up to `room` more of its slots; how many. */
static uint32_t begin_some(struct tide_table *table, struct tide__rebuild *order, uint32_t room) {
    uint32_t begun = 0;
    while (order->at < order->count && begun < room) {
        if (tide__replicas_of(table)->slots[order->slots[order->at]].opening != TIDE__OPEN) {
            break; /* not ours to give yet */
        }
        const uint32_t i = order->at;
        const int code = order->states[i] == WAITS ? join(table, order, order->slots[i]) : 0;
        if (code < 0) {
            break; /* tried again with the next beat */
        }
        order->at++;
        order->states[i] = code ? JOINS : DROPPED;
        begun += (uint32_t)code;
    }
    order->in_flight += begun;
    return begun;
}

/* Orders do not wait for each other: what a round of answers leads to is many that name a few slots
 * each, and a round trip for each of them would be long. */
void tide__rebuild_advance(struct tide_table *table) {
    struct tide__rebuild **at = &tide__replicas_of(table)->rebuilds, *order;
    uint32_t under_way = 0, most = in_flight_max(table);
    for (order = *at; order; order = order->next) {
        under_way += order->in_flight;
    }
    while ((order = *at)) {
        if (under_way < most && !pauses(table, order)) {
            under_way += begin_some(table, order, most - under_way);
        }
        const bool over = order->at == order->count && order->in_flight == 0;
        if (over || order->joined >= REPORT_EACH) {
            report(table, order);
        }
        if (over) {
            *at = order->next;
            order_free(order);
        } else {
            at = &order->next;
        }
        if (TIDE_MUTANT(rebuilds_wait_in_line)) {
            return;
        }
    }
}

void tide__rebuild_order(struct tide_table *table, uint32_t version, uint16_t node, const uint8_t *slots,
                         size_t count) {
    struct tide__rebuild *order = tide_alloc_zero(1, sizeof *order + count * sizeof order->slots[0]);
    uint8_t *states = tide_alloc_zero(count + 1, 1);
    if (!order || !states) {
        tide_log(TIDE_LOG_ERROR, tide_node_name(table->store->node), "no memory to rebuild copies of table '%s'",
                 table->name);
        tide_free(order);
        tide_free(states);
        return;
    }
    order->version = version;
    order->node = node;
    order->count = (uint32_t)count;
    order->states = states;
    memcpy(order->slots, slots, count * sizeof order->slots[0]);
    struct tide__rebuild **end = &tide__replicas_of(table)->rebuilds;
    while (*end) {
        end = &(*end)->next;
    }
    *end = order;
    tide__rebuild_advance(table);
}

void tide__rebuild_joined(struct tide_table *table, uint32_t slot) {
    for (struct tide__rebuild *order = tide__replicas_of(table)->rebuilds; order; order = order->next) {
        for (uint32_t i = 0; i < order->at; i++) {
            if (order->slots[i] == slot && order->states[i] == JOINS) {
                order->states[i] = JOINED;
                order->joined++;
                order->in_flight--;
                tide__rebuild_advance(table);
                return;
            }
        }
    }
}

void tide__rebuild_cancel(struct tide_table *table, const uint64_t *changed) {
    for (struct tide__rebuild *order = tide__replicas_of(table)->rebuilds; order; order = order->next) {
        for (uint32_t i = 0; i < order->count; i++) {
            const uint32_t slot = order->slots[i];
            if (!(changed[slot / 64] >> (slot % 64) & 1)) {
                continue;
            }
            order->in_flight -= order->states[i] == JOINS;
            order->joined -= order->states[i] == JOINED;
            order->states[i] = DROPPED;
        }
    }
}
