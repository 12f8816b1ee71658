/*
 * What a change of slots' groups does to a node. The controller numbers the changes of a table and
 * notifies all members in order; a slot's version only rises.
 *
 * A copy that becomes home waits until the leases that it granted to the homes before it have run
 * out; then it asks those that follow, by a barrier, whether they have all that it has; then it
 * serves. A home serves while all copies let it, so this one's leases are enough. But of all former
 * homes: the last one may have died before it notified the one before. For the same reason every copy
 * notifies a former home of its successor before it grants that anything again; not only the
 * successor.
 *
 * Origins send again, in order, what is unanswered: every message with a key in a slot whose home
 * changed, or that was at the node that is gone. Ids make that safe. Workers hand their operations
 * to the store actor until the resent ones have gone out.
 */
#include "store/core/send.h"
#include "store/operation/inbox.h"
#include "store/operation/resend.h"
#include "store/replica/async_replication.h"
#include "store/rows/cut.h"
#include "store/slots/move.h"

/* ---- operations go out again ---- */

struct again { /* a message of this node's workers */
    struct tide__job job;
    uint8_t *data;
    uint32_t *indices; /* of keys that are not answered */
    uint16_t *to;
    uint32_t count;
};

static void again_free(struct again *a) {
    tide_free(a->data);
    tide_free(a->indices);
    tide_free(a->to);
}

/* Those of one destination; 0: of slots that are lost. */
static void send_again(struct again *a, uint16_t to, uint32_t *part) {
    TIDE_SOMETIMES(operations_follow_the_home);
    struct tide_table *table = a->job.table;
    uint32_t count = 0;
    for (uint32_t i = 0; i < a->count; i++) {
        if (a->to[i] == to) {
            part[count++] = a->indices[i];
        }
    }
    if (to == 0) {
        const uint64_t key = tide__job_key_at(&a->job, part[0]);
        (void)tide__lost_fail(table, tide__slot_of(table, key), key);
        tide__job_error(&a->job, TIDE_ELOST, tide_error_message(), part, count);
    } else if (to == tide__store_self(table->store)) {
        struct tide__job *job = tide__job_detach(&a->job, part, count);
        if (job) {
            tide__table_job(job);
            tide__job_free(table->store, job);
        } else {
            tide__job_error(&a->job, TIDE_ENOMEM, "no memory for an operation", part, count);
        }
    } else {
        (void)tide__job_pass(&a->job, part, NULL, count, to); /* EDIED: its death changes the groups */
    }
}

static void resend_one(struct tide_table *table, uint64_t id) {
    struct tide_store *store = table->store;
    struct again a = {0};
    if (!tide__pending_again(store, id, &a.data, &a.job, &a.indices, &a.count)) {
        return;
    }
    a.to = tide_alloc((a.count + 1) * sizeof *a.to);
    uint32_t *part = tide_alloc((a.count + 1) * sizeof *part);
    for (uint32_t i = 0; a.to && part && i < a.count; i++) {
        const uint32_t slot = tide__slot_of(table, tide__job_key_at(&a.job, a.indices[i]));
        uint32_t route = atomic_load_explicit(&table->slots[slot].route, memory_order_relaxed);
        a.to[i] = route & TIDE__LOST ? 0 : tide__route_home(route);
        tide__pending_moved(store, id, tide__job_position_at(&a.job, a.indices[i]), a.to[i]);
    }
    for (uint32_t i = 0; a.to && part && i < a.count; i++) {
        bool first = true;
        for (uint32_t j = 0; j < i && first; j++) {
            first = a.to[j] != a.to[i];
        }
        if (first) {
            send_again(&a, a.to[i], part);
        }
    }
    tide_free(part);
    again_free(&a);
}

static void resend(struct tide_table *table, const uint64_t *moved, uint16_t cause) {
    size_t count = 0;
    uint64_t *ids = TIDE_MUTANT(no_resend) ? NULL : tide__pending_affected(table, moved, cause, &count);
    for (size_t i = 0; i < count; i++) {
        resend_one(table, ids[i]);
    }
    tide_free(ids);
}

/* ---- groups ---- */

struct change {
    struct tide_table *table;
    uint16_t cause;
    size_t count;
    const uint8_t *slots, *homes, *chains, *versions;
    uint64_t changed[TIDE_SLOT_COUNT / 64], moved[TIDE_SLOT_COUNT / 64];
    uint32_t fenced[TIDE_SLOT_COUNT]; /* slots that workers hand over for a while */
    size_t fenced_count;
    uint16_t deposed[16]; /* former homes of what is here, perhaps living */
    size_t deposed_count;
};

static bool read_change(struct tide_store *store, struct tide__incoming *in, struct change *c) {
    const __typeof__(in->as.GROUPS) *m = &in->as.GROUPS;
    c->table = tide__incoming_table(store, in, m->table);
    c->cause = m->cause;
    c->count = m->slots.count;
    c->slots = m->slots.at;
    c->homes = m->homes.at;
    c->chains = m->chains.at;
    c->versions = m->versions.at;
    if (!c->table || !tide__replicas_of(c->table) || m->cause >= TIDE__NODES || !tide__are_slots(&m->slots) ||
        m->homes.count != c->count || m->chains.count != c->count || m->versions.count != c->count) {
        return false;
    }
    for (size_t i = 0; i < c->count; i++) {
        const uint32_t home = tide__number_at(c->homes, i);
        if (home == 0 || home >= TIDE__NODES) {
            return false;
        }
    }
    return true;
}

static void note_deposed(struct change *c, uint16_t home) {
    bool known = home == 0;
    for (size_t i = 0; i < c->deposed_count; i++) {
        known |= c->deposed[i] == home;
    }
    if (!known && c->deposed_count < TIDE_COUNT(c->deposed)) {
        c->deposed[c->deposed_count++] = home;
    }
}

/* A slot that this node has a copy of gets another home. */
static void succeeds(struct change *c, uint32_t slot, uint16_t old_home, bool takes_over) {
    TIDE_SOMETIMES(slot_has_a_new_home);
    struct tide__replicas *replicas = tide__replicas_of(c->table);
    const uint64_t over = tide__lease_over(c->table->store, old_home);
    if (!takes_over && TIDE_MUTANT(last_home_alone)) {
        return;
    }
    if (replicas->open_at[slot] < over) {
        replicas->open_at[slot] = over;
    }
    note_deposed(c, old_home);
    if (takes_over) {
        replicas->slots[slot].opening = TIDE__OPEN_AT;
        replicas->unopened++;
        if (replicas->open_at[slot] < replicas->opens_next) {
            replicas->opens_next = replicas->open_at[slot];
        }
    }
}

static bool is_mine(const struct tide_table *table, uint32_t slot) {
    return atomic_load_explicit(&table->slots[slot].route, memory_order_relaxed) & TIDE__MINE;
}

/* One slot, under the pending lock. */
static void change_slot(struct change *c, uint32_t slot, uint16_t home, uint64_t chain, uint32_t version) {
    struct tide_table *table = c->table;
    struct tide__replicas *replicas = tide__replicas_of(table);
    const uint16_t self = tide__store_self(table->store);
    const uint32_t route = atomic_load_explicit(&table->slots[slot].route, memory_order_relaxed);
    const uint16_t old_home = tide__route_home(route);
    const uint64_t old_chain = atomic_load_explicit(&replicas->chain[slot], memory_order_relaxed);
    const bool lost = chain == TIDE__LOST_CHAIN;
    const uint64_t bit = UINT64_C(1) << (slot % 64);
    table->slot_versions[slot] = version;
    atomic_store_explicit(&replicas->chain[slot], chain, memory_order_relaxed);
    tide__lenders_changed(table);
    if (home == old_home && !lost) {
        c->changed[slot / 64] |= old_chain != chain ? bit : 0;
        return;
    }
    c->changed[slot / 64] |= bit;
    c->moved[slot / 64] |= bit;
    if ((route & TIDE__MINE) && replicas->slots[slot].opening != TIDE__OPEN) {
        replicas->slots[slot].opening = TIDE__OPEN;
        replicas->unopened--;
    }
    if ((route & TIDE__MINE) || home == self) {
        tide__cut_vanish(table);
    }
    const bool takes_over = home == self && !lost;
    uint32_t flags = lost ? TIDE__LOST : TIDE__WORKER_HOLD;
    if (takes_over || (replicas->slots[slot].held && !(route & TIDE__MINE))) {
        succeeds(c, slot, old_home, takes_over);
    }
    if (takes_over) {
        flags |= TIDE__MINE | TIDE__AWAITED;
    }
    tide__route_set(table, slot, home | flags);
    if (!lost) {
        c->fenced[c->fenced_count++] = slot;
    }
}

static void apply(struct change *c) {
    struct tide_table *table = c->table;
    const uint16_t self = tide__store_self(table->store);
    tide__routes_begin(table);
    for (size_t i = 0; i < c->count; i++) {
        const uint32_t slot = tide__number_at(c->slots, i), version = tide__number_at(c->versions, i);
        if (version > table->slot_versions[slot]) {
            const bool was_mine = is_mine(table, slot);
            change_slot(c, slot, (uint16_t)tide__number_at(c->homes, i), tide__long_at(c->chains, i), version);
            tide__raise_version(table, version);
            if (tide__replicas_of(table)->async) {
                tide__async_regroup(table, slot, was_mine && !is_mine(table, slot));
            }
        }
    }
    tide__routes_end(table);
    for (size_t i = 0; i < c->count; i++) {
        const uint32_t s = tide__number_at(c->slots, i);
        uint32_t route = atomic_load_explicit(&table->slots[s].route, memory_order_relaxed);
        uint64_t chain = atomic_load_explicit(&tide__replicas_of(table)->chain[s], memory_order_relaxed);
        /* A joiner may have been notified of the group by its home first. */
        bool member = (route & TIDE__MINE) || tide__chain_has(chain, self) ||
                      tide__replicas_of(table)->slots[s].fence >= table->slot_versions[s];
        if ((c->changed[s / 64] >> (s % 64) & 1) && tide__replicas_of(table)->slots[s].held && !member) {
            tide__replica_drop(table, s);
        }
    }
}

/* The controller counts on a copy that was dropped here: the report was lost with a former controller.
 */
static void report_missing(const struct change *c) {
    struct tide_table *table = c->table;
    const struct tide__replicas *replicas = tide__replicas_of(table);
    const uint16_t self = tide__store_self(table->store);
    for (size_t i = 0; i < c->count; i++) {
        const uint32_t slot = tide__number_at(c->slots, i), version = tide__number_at(c->versions, i);
        uint64_t chain = atomic_load_explicit(&replicas->chain[slot], memory_order_relaxed);
        if (table->slot_versions[slot] == version && chain != TIDE__LOST_CHAIN && tide__chain_has(chain, self) &&
            !replicas->slots[slot].held && !replicas->slots[slot].arriving) {
            (void)tide_fail(TIDE_EPROTO, "it is not here");
            tide__replica_fail(table, slot, self);
        }
    }
}

/* [table, cause, slots, homes, chains, versions]; the op is read. */
int tide__failover_groups(struct tide_store *store, struct tide__incoming *in) {
    const struct tide_message *message = in->message;
    struct change *c = tide_alloc_zero(1, sizeof *c);
    if (!c || !read_change(store, in, c)) {
        tide_free(c);
        return TIDE_EPROTO;
    }
    struct tide_table *table = c->table;
    apply(c);
    for (size_t i = 0; i < c->deposed_count; i++) { /* before they are granted anything again */
        (void)tide__store_send(store, c->deposed[i], TIDE_LANE_STORE, true, message->data, message->size, NULL);
    }
    if (c->fenced_count && tide__fence_workers(table, c->fenced, c->fenced_count)) {
        tide_log(TIDE_LOG_WARN, tide_node_name(store->node), "no memory to lift a fence");
    }
    report_missing(c);
    tide__rebuild_cancel(table, c->changed);
    tide__replicas_retarget(table, c->changed);
    resend(table, c->moved, c->cause);
    tide__parked_retry(table);
    tide__replicas_advance(table);
    tide__lease_ask(store);
    tide__moves_advance(store);
    tide_free(c);
    return 0;
}
