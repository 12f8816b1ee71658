/*
 * Rows that die with nodes. What the dead owned is found out when it is asked for: the home says
 * EDIED (owner.c). Here is what was in flight through the dead.
 *
 * The home knows the whole way: the trail of a key, then the owner of record, each with its term.
 * When one of them dies, the home notifies the next one (LOST, with its term), which alone knows
 * whether the row had gone through before. If not, its waiters fail and it says so (FAILED, with
 * that term). Then the home notifies all behind it, forgets that part of the way, and holds the
 * dead node for the owner, for good: later localizes fail at once. What is before the dead node may
 * still be in flight to it, and is remembered.
 *
 * LOST may come twice, also to a node that has abandoned the row: it sends FAILED again. So a home
 * that gets a slot, and with it trails, sends everything again that may have got lost between the
 * old home and it. Two answers to one LOST do no harm, as terms name a place of the way.
 *
 * After LOST nothing is taken from the node that is said to be dead: what it sent may still be on
 * its way here, when the home holds it for lost.
 */
#include "store/adaptive/owner.h"
#include "store/slots/move.h"

/* Everything that waits for the row fails. */
static void fail_waiters(struct tide_table *table, struct tide__arrival *a, uint16_t dead) {
    TIDE_SOMETIMES(waiters_of_a_lost_row);
    char text[160];
    tide__died_text(table->store, dead, text);
    tide__arrival_fail(table, a, TIDE_EDIED, text);
}

/* The row of a locked word does not come. */
static uint64_t give_up(struct tide_table *table, uint64_t old, const struct tide__relocation *k, uint16_t dead) {
    TIDE_SOMETIMES(row_given_up);
    struct tide__arrival *a = tide__arrival_of(table, old);
    fail_waiters(table, a, dead);
    uint32_t handed = a->own < UINT16_MAX ? a->own : UINT16_MAX;
    tide__hand_give(&table->slab, a->row);
    tide__arrival_free(table, old);
    return tide__word_gone(old, k, handed);
}

/* As home: the row does not come to place `at` of the way, nor to those behind. */
static void lose_from(struct tide_table *table, uint64_t key, uint16_t at, uint16_t dead) {
    const uint32_t slot = tide__slot_of(table, key);
    uint64_t old;
    atomic_uint_fast64_t *word = tide__key_lock(table, slot, key, &old);
    if (!word) {
        return;
    }
    struct tide__relocation k = tide__key_view(table, slot, old);
    const struct tide__trail *trail = tide__trail_of(table, key);
    const uint16_t count = trail ? trail->count : 0;
    bool own = false;
    for (uint16_t i = at; i <= count; i++) {
        const uint16_t node = i < count ? tide__trail_nodes(trail)[i] : k.owner;
        const uint32_t term = i < count ? tide__trail_term(trail, i) : k.owner_term;
        own = own || node == k.self;
        if (node != k.self && !TIDE_MUTANT(loss_successors_not_told)) {
            tide__outbox_add(table, TIDE__OP_LOST, node, dead, key, term, NULL, NULL);
        }
    }
    tide__trail_cut(table, key, at);
    k.owner = dead;
    k.owner_term = tide__term_next(k.owner_term);
    if (k.state != TIDE__COMING) {
        old = tide__word_gone(old, &k, tide__word_handed(old));
    } else if (own && !k.cold) {
        old = give_up(table, old, &k, dead);
    } else {
        tide__arrival_of(table, old)->owner = k.owner;
        tide__arrival_of(table, old)->owner_term = k.owner_term;
    }
    tide__word_unlock(word, old);
}

static struct tide__relocation view(struct tide_table *table, uint64_t key) {
    const uint32_t slot = tide__slot_of(table, key);
    struct tide__relocation k = {.state = TIDE__HELD};
    uint64_t old;
    atomic_uint_fast64_t *word = tide__key_lock(table, slot, key, &old);
    if (word) {
        k = tide__key_view(table, slot, old);
        tide__word_unlock(word, old);
    }
    return k;
}

/* Is the way of a key that this node is home of something other than "it is here"? */
static bool on_its_way(const struct tide__relocation *k) {
    const bool stays = k->cold && !k->next; /* on this node's disk */
    return k->home && !stays && (k->state == TIDE__COMING || (k->state == TIDE__GONE && k->owner != k->self));
}

/* The node that waited for the row under `term` has abandoned it. */
void tide__loss_failed(struct tide_table *table, uint64_t key, uint16_t dead, uint32_t term) {
    const uint32_t slot = tide__slot_of(table, key), route = tide__route_of(table, slot);
    const uint16_t home = (route & TIDE__AWAITED) && !TIDE_MUTANT(loss_failed_early)
                              ? tide__slot_comes_from(table, slot)
                              : tide__route_home(route);
    if (home != tide__store_self(table->store)) {
        tide__outbox_add(table, TIDE__OP_FAILED, home, dead, key, term, NULL, NULL);
        return;
    }
    const struct tide__relocation k = view(table, key);
    const struct tide__trail *trail = tide__trail_of(table, key);
    const uint16_t count = trail ? trail->count : 0;
    if (!on_its_way(&k)) {
        return;
    }
    for (uint16_t i = 0; i < count; i++) {
        if (tide__trail_term(trail, i) == term) {
            lose_from(table, key, i, dead);
            return;
        }
    }
    if (k.owner_term == term) {
        lose_from(table, key, count, dead);
    }
}

/* The row that this node waits for, or waited for, under `term` will not come; 0: its localize was
 * refused. */
void tide__loss_lost(struct tide_table *table, uint64_t key, uint16_t dead, uint32_t term) {
    const uint32_t slot = tide__slot_of(table, key);
    uint64_t old;
    atomic_uint_fast64_t *word = tide__key_lock(table, slot, key, &old);
    if (!word) {
        return;
    }
    struct tide__relocation k = tide__key_view(table, slot, old);
    const bool received = k.state == TIDE__HELD || k.cold || (term && !tide__term_newer(term, k.term));
    if (!term && k.next && !k.cold &&
        (tide__arrival_of(table, old)->next_by != dead || TIDE_MUTANT(next_of_dead_kept))) {
        /* granted, by the home that has the slot now: others wait behind */
        fail_waiters(table, tide__arrival_of(table, old), dead);
    } else if (!received) {
        struct tide__relocate_event event = {.kind = TIDE__EVENT_LOST};
        if (tide__relocate(&k, event).act == TIDE__FAILED) {
            if (k.home && k.owner == k.self) {
                k.owner = dead;
            }
            old = give_up(table, old, &k, dead);
        }
    }
    tide__word_unlock(word, old);
    if (!received && term) {
        tide__loss_failed(table, key, dead, term);
    }
}

/* Notifies the next node behind a place of the way whose node is dead. */
static void tell_behind(struct tide_table *table, uint64_t key, uint16_t dead) {
    const struct tide__relocation k = view(table, key);
    const struct tide__trail *trail = tide__trail_of(table, key);
    if (!trail || !on_its_way(&k)) {
        return;
    }
    for (uint16_t i = 0; i < trail->count; i++) {
        const uint16_t node = tide__trail_nodes(trail)[i];
        if (dead ? node != dead : !tide__member_gone(table->store, node)) {
            continue;
        }
        const bool last = i + 1 == trail->count;
        const uint16_t next = last ? k.owner : tide__trail_nodes(trail)[i + 1];
        const uint32_t term = last ? k.owner_term : tide__trail_term(trail, i + 1u);
        if (next != k.self) {
            tide__outbox_add(table, TIDE__OP_LOST, next, node, key, term, NULL, NULL);
        } else if (k.state == TIDE__COMING && tide__term_newer(term, k.term)) {
            lose_from(table, key, (uint16_t)(i + 1), node);
            return;
        }
    }
}

void tide__loss_examine(struct tide_table *table, uint64_t key) {
    tell_behind(table, key, 0);
}

/* ---- deaths ---- */

static void trails_gone(struct tide_table *table, uint16_t dead) {
    struct tide__key_list keys = {0};
    int code = 0;
    for (size_t i = 0; i < tide__owners_of(table)->trails.capacity; i++) {
        const struct tide__trail *trail = &tide__owners_of(table)->trails.places[i];
        for (uint16_t j = 0; j < trail->count && !TIDE_MUTANT(loss_trail_ignored) && !code; j++) {
            if (tide__trail_nodes(trail)[j] == dead) {
                code = tide__key_list_add(&keys, trail->key);
                break;
            }
        }
    }
    if (code) {
        tide_log(TIDE_LOG_ERROR, tide_node_name(table->store->node),
                 "no memory to tell who waits for rows of table '%s': %s", table->name, tide_error_message());
    }
    for (size_t i = 0; i < keys.count; i++) {
        tell_behind(table, keys.at[i], dead);
    }
    tide_free(keys.at);
}

/* Whatever was asked of a home that died does not come. */
void tide__loss_home(struct tide_table *table, uint32_t slot, uint16_t dead) {
    struct tide__key_list list = {0};
    (void)tide__keys_of_slot(table, slot, &list);
    for (size_t i = 0; i < list.count; i++) {
        tide__loss_lost(table, list.at[i], dead, 0);
    }
    tide_free(list.at);
}

void tide__owner_member_gone(struct tide_store *store, uint16_t node) {
    unsigned count = atomic_load_explicit(&store->table_count, memory_order_relaxed);
    for (unsigned id = 1; id <= count; id++) {
        struct tide_table *table = tide__table_at(store, id);
        if (!table || !table->operations->owners) {
            continue;
        }
        trails_gone(table, node);
        for (uint32_t slot = 0; slot < TIDE_SLOT_COUNT; slot++) {
            uint32_t route = tide__route_of(table, slot);
            if (!(route & TIDE__MINE) && tide__route_home(route) == node) {
                tide__loss_home(table, slot, node);
            }
        }
        tide__owner_finish(table);
    }
}
