/*
 * How safe the rows of a table are, from what this node knows of the slot map and of who died.
 *
 * A slot of a table without copies is lost when its home died. Rows that relocate may have been at
 * any node: there a death that this node saw puts every slot in doubt.
 */
#include "store/replica.h"

static bool is_dead(struct tide_store *store, uint16_t node) {
    struct tide_member member;
    return store->net && tide_net_member(store->net, node, &member) &&
           member.state == TIDE_MEMBER_DEAD;
}

/* Counts what the slot lacks; true: it is lost. */
static bool copies_of(struct tide_table *table, uint32_t slot, struct tide_table_health *out) {
    uint32_t route = atomic_load_explicit(&table->slots[slot].route, memory_order_relaxed);
    uint64_t chain = atomic_load_explicit(&table->replicas->chain[slot], memory_order_relaxed);
    if (route & TIDE__LOST) {
        return true;
    }
    out->under_replicated += tide__chain_count(chain) < table->options.replicas;
    if (table->replicas && (route & TIDE__MINE) &&
        tide__lease_deadline(table, slot) <= tide_port_now(table->store->port)) {
        out->leases_ok = false;
    }
    return false;
}

void tide__health_death(struct tide_store *store, const struct tide_member *member) {
    unsigned count = atomic_load_explicit(&store->table_count, memory_order_relaxed);
    for (unsigned id = 1; id <= count && member->store; id++) {
        struct tide_table *table = tide__table_by_id(store, id);
        if (table && table->relocates) {
            atomic_store_explicit(&table->in_doubt, true, memory_order_relaxed);
        }
    }
}

void tide_table_health(struct tide_table *table, struct tide_table_health *out) {
    struct tide_store *store = table->store;
    const bool doubt = atomic_load_explicit(&table->in_doubt, memory_order_relaxed);
    uint16_t home_before = 0;
    bool lost = false;
    *out = (struct tide_table_health){.durability = table->options.durability, .leases_ok = true};
    for (uint32_t s = 0; s < TIDE_SLOT_COUNT; s++) {
        uint16_t home =
            tide__route_home(atomic_load_explicit(&table->slots[s].route, memory_order_relaxed));
        if (home != home_before) {
            lost = is_dead(store, home);
            home_before = home;
        }
        if (table->replicas) {
            lost = copies_of(table, s, out);
        }
        if (lost || doubt) {
            out->lost[s / 64] |= UINT64_C(1) << (s % 64);
            out->lost_count++;
        }
    }
}
