/*
 * Leases: how long a home may serve rows in place without asking the copies. Each node that holds
 * copies of a home's slots grants it 300 ms at a time; the holder counts from when it asked, the
 * granter from when it answered, and a thousandth more for clocks that drift. A home serves a slot
 * in place while every node of its chain lets it; a successor waits until what it granted
 * to the homes before it has run out. So a home that the others declared dead, and that does not know it, serves
 * nothing stale.
 *
 * Grants go in the store lane: behind every notice to the holder that it lost a slot.
 */
#include "store/core/send.h"
#include "store/operation/resend.h"
#include "store/replica/replica.h"

#define BEAT (TIDE_SECOND / 10)

uint64_t tide__lease_deadline(const struct tide_table *table, uint32_t slot) {
    const struct tide__replication *r = table->store->replication;
    /* relaxed: an added node can take over only after rows that are read now were sent to it */
    uint64_t chain = atomic_load_explicit(&tide__replicas_of(table)->chain[slot], memory_order_relaxed);
    uint64_t deadline = TIDE_NEVER;
    if (TIDE_MUTANT(lease_ignored)) {
        return TIDE_NEVER;
    }
    for (; chain; chain >>= 16) {
        uint16_t node = (uint16_t)chain;
        uint64_t until = node < TIDE__NODES ? atomic_load_explicit(&r->lease_until[node], memory_order_relaxed) : 0;
        deadline = until < deadline ? until : deadline;
    }
    return deadline;
}

/* ---- lenders ---- */

void tide__lenders_changed(struct tide_table *table) {
    tide__replicas_of(table)->lenders.known = false;
}

/* Looking at all slots takes long, and is asked for ten times a second: only when they changed. */
const struct tide__lenders *tide__lenders(struct tide_table *table) {
    struct tide__lenders *lenders = &tide__replicas_of(table)->lenders;
    if (lenders->known) {
        return lenders;
    }
    *lenders = (struct tide__lenders){.known = true};
    for (uint32_t s = 0; s < TIDE_SLOT_COUNT; s++) {
        uint32_t route = atomic_load_explicit(&table->slots[s].route, memory_order_relaxed);
        uint64_t chain = atomic_load_explicit(&tide__replicas_of(table)->chain[s], memory_order_relaxed);
        for (; (route & TIDE__MINE) && chain; chain >>= 16) {
            const uint32_t node = (uint16_t)chain % TIDE__NODES, word = node / 64;
            lenders->nodes[word] |= UINT64_C(1) << (node % 64);
            lenders->words = word < lenders->words ? lenders->words : word + 1;
        }
    }
    return lenders;
}

uint64_t tide__lenders_deadline(struct tide_table *table) {
    const struct tide__replication *r = table->store->replication;
    const struct tide__lenders *lenders = tide__lenders(table);
    uint64_t deadline = TIDE_NEVER;
    for (uint32_t w = 0; w < lenders->words && !TIDE_MUTANT(lease_ignored); w++) {
        for (uint64_t left = lenders->nodes[w]; left; left &= left - 1) {
            const uint32_t node = 64 * w + (uint32_t)__builtin_ctzll(left);
            uint64_t until = atomic_load_explicit(&r->lease_until[node], memory_order_relaxed);
            deadline = until < deadline ? until : deadline;
        }
    }
    return deadline;
}

/* ---- asking and granting ---- */

void tide__lease_ask(struct tide_store *store) {
    uint64_t wanted[TIDE__NODES / 64] = {0};
    uint32_t words = 0;
    unsigned count = atomic_load_explicit(&store->table_count, memory_order_relaxed);
    for (unsigned id = 1; id <= count; id++) {
        struct tide_table *table = tide__table_at(store, id);
        const struct tide__lenders *lenders = table && tide__replicas_of(table) ? tide__lenders(table) : NULL;
        for (uint32_t w = 0; lenders && w < lenders->words; w++) {
            wanted[w] |= lenders->nodes[w];
        }
        words = lenders && lenders->words > words ? lenders->words : words;
    }
    const uint64_t now = tide_port_now(store->port);
    for (uint32_t w = 0; w < words; w++) {
        for (uint64_t left = wanted[w]; left; left &= left - 1) {
            const uint32_t node = 64 * w + (uint32_t)__builtin_ctzll(left);
            (void)tide__store_tell(store, (uint16_t)node, TIDE__AS(LEASE_ASK, .time = now)); /* or no lease */
        }
    }
}

int tide__lease_asked(struct tide_store *store, struct tide__incoming *in) {
    const uint16_t from = in->from;
    struct tide__replication *replication = store->replication;
    if (!replication || from >= TIDE__NODES || !tide__member_lives(store, from)) {
        return 0;
    }
    replication->granted_until[from] = tide_port_now(store->port) + TIDE__LEASE + TIDE__LEASE / 1000;
    (void)tide__store_tell(store, from, TIDE__AS(LEASE, .time = in->as.LEASE_ASK.time));
    return 0;
}

int tide__lease_granted(struct tide_store *store, struct tide__incoming *in) {
    const uint16_t from = in->from;
    const uint64_t asked = in->as.LEASE.time;
    if (!store->replication || from >= TIDE__NODES || asked > tide_port_now(store->port)) {
        return 0;
    }
    const uint64_t since = TIDE_MUTANT(lease_from_answer) ? tide_port_now(store->port) : asked;
    atomic_store_explicit(&store->replication->lease_until[from], since + TIDE__LEASE, memory_order_relaxed);
    return 0;
}

uint64_t tide__lease_over(const struct tide_store *store, uint16_t home) {
    return home < TIDE__NODES ? store->replication->granted_until[home] : 0;
}

void tide__lease_start(struct tide_store *store) {
    if (store->replication->beating) {
        tide__lease_ask(store);
    } else {
        tide__lease_beat(store);
    }
}

void tide__lease_beat(struct tide_store *store) {
    struct tide__replication *r = store->replication;
    int code;
    char reason[200];
    int state = tide_net_state(store->net, &code, reason, sizeof reason);
    if (state == TIDE_MEMBER_DEAD && !atomic_load_explicit(&store->fenced, memory_order_relaxed)) {
        atomic_store_explicit(&store->fenced, TIDE_EFENCED, memory_order_relaxed); /* cut off */
    }
    if (atomic_load_explicit(&store->fenced, memory_order_relaxed)) {
        tide__pending_fenced(store); /* also what a worker began at that very moment */
    }
    tide__lease_ask(store);
    unsigned count = atomic_load_explicit(&store->table_count, memory_order_relaxed);
    for (unsigned id = 1; id <= count; id++) {
        struct tide_table *table = tide__table_at(store, id);
        if (table && tide__replicas_of(table)) {
            tide__replicas_advance(table);
        }
    }
    r->beating = tide_timer_start(BEAT, &r->beat) == 0;
}
