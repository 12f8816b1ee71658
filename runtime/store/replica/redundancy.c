/*
 * How safe the rows of a table are, from this node's slot map and record of deaths.
 *
 * A dead node stays in a group until the controller's next change of it has come here; one that was
 * started again makes none before all members have answered about its tables. Such a copy counts
 * for nothing.
 *
 * A slot of a table without copies is lost when its home died. Rows that relocate may have been at
 * any node: there a death that this node saw puts every slot in doubt.
 */
#include "store/adaptive/owner.h"
#include "store/replica/replica.h"
#include "tide/stats.h"

enum { KNOWN = 64 };
struct known { /* neighbouring slots have different homes, few in all: each is looked up once */
    uint16_t node;
    bool dead;
};

static bool is_dead(struct tide_store *store, uint16_t node, struct known known[KNOWN]) {
    struct known *k = &known[node % KNOWN];
    struct tide_member member;
    if (k->node != node) {
        k->node = node;
        k->dead = store->net && tide_net_member(store->net, node, &member) && member.state == TIDE_MEMBER_DEAD;
    }
    return k->dead;
}

/* How many of a group live, beside the one that is its home, or is about to be. */
static unsigned living_copies(struct tide_store *store, uint16_t home, uint64_t chain, struct known known[KNOWN]) {
    const bool all = TIDE_MUTANT(health_counts_dead);
    unsigned living = all || !is_dead(store, home, known);
    for (unsigned i = 0; tide__chain_at(chain, i); i++) {
        living += all || !is_dead(store, tide__chain_at(chain, i), known);
    }
    return living > 0 ? living - 1 : 0;
}

/* Counts what the slot lacks; true: it is lost. */
static bool copies_of(struct tide_table *table, uint32_t slot, uint64_t now, struct known known[KNOWN],
                      struct tide_table_health *out) {
    uint32_t route = atomic_load_explicit(&table->slots[slot].route, memory_order_relaxed);
    uint64_t chain = atomic_load_explicit(&tide__replicas_of(table)->chain[slot], memory_order_relaxed);
    if (route & TIDE__LOST) {
        return true;
    }
    out->under_replicated +=
        living_copies(table->store, tide__route_home(route), chain, known) < table->options.replicas;
    if ((route & TIDE__MINE) && tide__lease_deadline(table, slot) <= now) {
        out->leases_ok = false;
    }
    return false;
}

void tide__redundancy_death(struct tide_store *store, const struct tide_member *member) {
    unsigned count = atomic_load_explicit(&store->table_count, memory_order_relaxed);
    for (unsigned id = 1; id <= count && member->store; id++) {
        struct tide_table *table = tide__table_at(store, id);
        if (table && tide__owners_of(table)) {
            atomic_store_explicit(&tide__owners_of(table)->in_doubt, true, memory_order_relaxed);
        }
    }
}

void tide_table_health(struct tide_table *table, struct tide_table_health *out) {
    struct tide_store *store = table->store;
    struct tide__owners *owners = tide__owners_of(table);
    const bool doubt = owners && atomic_load_explicit(&owners->in_doubt, memory_order_relaxed);
    const uint64_t now = tide__replicas_of(table) ? tide_port_now(store->port) : 0;
    struct known known[KNOWN] = {{0}}; /* 0 is no node */
    *out = (struct tide_table_health){.durability = table->options.durability, .leases_ok = true};
    for (uint32_t s = 0; s < TIDE_SLOT_COUNT; s++) {
        uint16_t home = tide__route_home(atomic_load_explicit(&table->slots[s].route, memory_order_relaxed));
        const bool lost = tide__replicas_of(table) ? copies_of(table, s, now, known, out) : is_dead(store, home, known);
        if (lost || doubt) {
            out->lost[s / 64] |= UINT64_C(1) << (s % 64);
            out->lost_count++;
        }
    }
}
