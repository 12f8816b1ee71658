/*
 * What deaths cost in tables of durability window. A home counts the pushes that it answers to each
 * other node, and so does that node; the home reports later what of them is on the copies. Both
 * count the same answers, which come in order: so when the home dies, what was answered and not
 * reported as safe is what may be lost, of this node's pushes: that many, or fewer.
 */
#include "store/core/send.h"
#include "store/operation/inbox.h"
#include "store/replica/async_replication_internal.h"
#include "tide/stats.h"

static struct tide__risk_peer *peer_of(struct tide__async_replication *a, uint16_t node) {
    if (node >= a->peer_count) {
        struct tide__risk_peer *grown = tide_realloc(a->peers, (node + 1u) * sizeof *grown);
        if (!grown) {
            return NULL;
        }
        memset(grown + a->peer_count, 0, (node + 1u - a->peer_count) * sizeof *grown);
        a->peers = grown;
        a->peer_count = node + 1u;
    }
    return &a->peers[node];
}

bool tide__lost_updates_given(struct tide_table *table, uint16_t origin, size_t count) {
    struct tide__risk_peer *peer = peer_of(tide__replicas_of(table)->async, origin);
    if (peer) { /* else it is not counted */
        peer->given += count;
    }
    return peer;
}

void tide__lost_updates_taken(struct tide_table *table, uint16_t home, size_t count) {
    struct tide__risk_peer *peer = peer_of(tide__replicas_of(table)->async, home);
    if (peer) {
        peer->taken += count;
    }
}

void tide__lost_updates_mark_given(struct tide__async_replication *a, struct tide__flight *flight) {
    flight->count = a->peer_count;
    for (size_t i = 0; i < a->peer_count; i++) {
        flight->given[i] = a->peers[i].given;
    }
}

void tide__lost_updates_given_safe(struct tide__async_replication *a, const struct tide__flight *flight) {
    for (size_t i = 0; i < flight->count; i++) {
        a->peers[i].given_safe = TIDE_MUTANT(window_safe_early) ? a->peers[i].given : flight->given[i];
    }
}

void tide__lost_updates_all_safe(struct tide__async_replication *a) {
    for (size_t i = 0; i < a->peer_count; i++) {
        a->peers[i].given_safe = a->peers[i].given;
    }
}

void tide__lost_updates_tell(struct tide_table *table) {
    struct tide__async_replication *a = tide__replicas_of(table)->async;
    for (size_t i = 1; i < a->peer_count; i++) {
        struct tide__risk_peer *peer = &a->peers[i];
        if (peer->told != peer->given_safe) {
            struct tide_writer w;
            uint8_t buffer[32];
            tide_writer_init(&w, buffer, sizeof buffer);
            tide__message_write(&w, TIDE__AS(SAFE, .table = table->id, .pushes = peer->given_safe));
            peer->told = peer->given_safe;
            /* the lane of the answers it counts; unreachable: it is gone */
            (void)tide__store_send(table->store, (uint16_t)i, TIDE_LANE_ANSWER, true, w.data, w.size, NULL);
            tide_writer_release(&w);
        }
    }
}

/* From oneself: it is time to ship. */
int tide__lost_updates_safe(struct tide_store *store, struct tide__incoming *in) {
    const uint16_t from = in->from;
    struct tide_table *table = tide__incoming_table(store, in, in->as.SAFE.table);
    if (!table || !tide__replicas_of(table) || !tide__replicas_of(table)->async) {
        return TIDE_EPROTO;
    }
    if (from == tide__store_self(store)) {
        tide__async_ship(table);
        return 0;
    }
    struct tide__risk_peer *peer = peer_of(tide__replicas_of(table)->async, from);
    if (peer) {
        peer->taken_safe = in->as.SAFE.pushes;
    }
    return 0;
}

static void bury(struct tide_table *table, uint16_t node) {
    struct tide__async_replication *a = tide__replicas_of(table)->async;
    const struct tide__risk_peer *peer = &a->peers[node];
    const uint64_t gone = peer->taken > peer->taken_safe ? peer->taken - peer->taken_safe : 0;
    char name[96];
    if (gone && !TIDE_MUTANT(window_death_untold)) {
        atomic_fetch_add_explicit(&a->lost_updates, gone, memory_order_relaxed);
        tide__node_text(table->store, node, name);
        tide_log(TIDE_LOG_WARN, tide_node_name(table->store->node),
                 "node %s died: up to %llu pushes of this node to table '%s' that it had answered "
                 "are lost; all were answered within %llu ms (durability window)",
                 name, (unsigned long long)gone, table->name, (unsigned long long)(table->options.window_ns / 1000000));
    }
}

void tide__lost_updates_member(struct tide_store *store, const struct tide_member *member) {
    const bool dead = member->state == TIDE_MEMBER_DEAD, left = member->state == TIDE_MEMBER_LEFT;
    unsigned count = atomic_load_explicit(&store->table_count, memory_order_relaxed);
    for (unsigned id = 1; id <= count && (dead || left); id++) {
        struct tide_table *table = tide__table_at(store, id);
        struct tide__async_replication *a = table && tide__replicas_of(table) ? tide__replicas_of(table)->async : NULL;
        if (a && member->id < a->peer_count) {
            if (dead && member->id != tide__store_self(store)) {
                bury(table, member->id);
            }
            a->peers[member->id] = (struct tide__risk_peer){0};
        }
    }
}

void tide__lost_updates_stats(struct tide_table *table, struct tide_table_stats *out) {
    struct tide__async_replication *a = tide__replicas_of(table) ? tide__replicas_of(table)->async : NULL;
    if (a) {
        out->unreplicated = atomic_load_explicit(&a->bytes, memory_order_relaxed);
        out->unreplicated_most = atomic_load_explicit(&a->bytes_most, memory_order_relaxed);
        out->unreplicated_bound = table->options.window_bytes;
        out->lost_updates = atomic_load_explicit(&a->lost_updates, memory_order_relaxed);
    }
}
