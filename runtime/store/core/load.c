/*
 * What a node's store does for other nodes, counted where it is done, on I/O thread 0: keys by slot,
 * keys and messages and the time they took by node. Policies that place slots judge servers by it.
 *
 * For tests and examples with servers of different speed a key may be made to take longer: the
 * thread then does nothing else for that time, as if the processor were another process's. It is taken
 * in portions, because a thread cannot sleep for microseconds; what it slept too long counts too.
 */
#include "store/core/load.h"
#include "store/rows/slot_index.h"
#include "store/operation/shard.h"
#include "tide/stats.h"

enum { PORTION_NS = 500000 };

static void add(atomic_uint_fast64_t *counter, uint64_t amount) {
    uint64_t now = atomic_load_explicit(counter, memory_order_relaxed); /* one thread writes */
    atomic_store_explicit(counter, now + amount, memory_order_relaxed);
}

static void take_time(struct tide_store *store, uint64_t ns) {
    struct tide_executor *executor = tide_system_executor(store->system, TIDE_ROLE_IO, 0);
    store->serve_debt += (int64_t)ns;
    if (store->serve_debt < (store->port->simulated ? 1 : PORTION_NS)) {
        return;
    }
    const uint64_t debt = (uint64_t)store->serve_debt, began = tide_port_now(store->port);
    const uint64_t unseen = store->port->ops->executor_occupy(executor, debt);
    const uint64_t slept = tide_port_now(store->port) - began;
    tide_turn_spent(unseen); /* a turn ends after its time, in the simulator too */
    store->serve_debt -= (int64_t)(store->port->simulated ? debt : slept);
    add(&store->busy_ns, unseen);
}

void tide__load_served(struct tide__job *job) {
    struct tide_table *table = job->table;
    struct tide_store *store = table->store;
    uint64_t here = 0;
    for (size_t i = 0; i < job->count; i++) {
        const uint32_t slot = tide__slot_of(table, tide__job_key_at(job, i));
        if (atomic_load_explicit(&table->slots[slot].route, memory_order_relaxed) & TIDE__MINE) {
            add(&table->served[slot], 1);
            here++;
        }
    }
    add(&store->served_keys, here);
    add(&store->served_messages, 1);
    const uint64_t each = atomic_load_explicit(&store->serve_ns, memory_order_relaxed);
    if (TIDE_UNLIKELY(each > 0)) {
        take_time(store, each * here);
    }
}

void tide__load_busy(struct tide_store *store, uint64_t began) {
    add(&store->busy_ns, tide_port_now(store->port) - began);
}

void tide_node_load(struct tide_node *node, struct tide_store_load *out) {
    struct tide_store *store = tide_store_of(node);
    *out = (struct tide_store_load){0};
    if (store) {
        out->messages = atomic_load_explicit(&store->served_messages, memory_order_relaxed);
        out->keys = atomic_load_explicit(&store->served_keys, memory_order_relaxed);
        out->busy_ns = atomic_load_explicit(&store->busy_ns, memory_order_relaxed);
    }
}

uint64_t tide_node_waited(struct tide_node *node, unsigned home) {
    struct tide_store *store = tide_store_of(node);
    return store && home <= UINT16_MAX ? tide__admission_waited(store, (uint16_t)home) : 0;
}

void tide_node_serve_cost(struct tide_node *node, uint64_t ns) {
    struct tide_store *store = tide_store_of(node);
    if (store) {
        atomic_store_explicit(&store->serve_ns, ns, memory_order_relaxed);
    }
}
