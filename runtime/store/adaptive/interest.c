/*
 * Which nodes intend to use which keys, at their home (intent.h): the rule of AdaPM, section 4.2. A node
 * begins to be interested: if no other one is, the row is to go there; else it is to have a copy,
 * which tables without copies (technique relocate) do without. A node's interest ends and one other
 * is left: the row is to go to that one.
 */
#include "store/core/send.h"
#include "store/operation/inbox.h"
#include "store/adaptive/intent.h"
#include "store/core/node_sets.h"
#include "store/adaptive/owner.h"
#include "tide/placement.h"

enum { HOPS_MAX = 4, KEYS_MAX = 1 << 22 };

struct advice { /* to one node, in the order in which it comes */
    uint16_t node;
    uint8_t what;
    size_t count;
    uint64_t keys[512];
};

/* ---- messages ---- */

static void advice_send(struct tide_table *table, struct advice *a) {
    if (a->count > 0) {
        (void)tide__store_tell(
            table->store, a->node,
            TIDE__AS(ADVICE, .table = table->id, .what = a->what, .keys = TIDE__LIST(a->keys, a->count)));
    }
    a->count = 0;
}

static void advise(struct tide_table *table, struct advice *a, uint16_t node, uint8_t what, uint64_t key) {
    if (a->count == TIDE_COUNT(a->keys) || a->node != node || a->what != what) {
        advice_send(table, a);
    }
    a->node = node;
    a->what = what;
    a->keys[a->count++] = key;
}

void tide__interest_done(struct tide_table *table, uint16_t home, const uint64_t *keys, size_t count) {
    (void)tide__store_tell(
        table->store, home,
        TIDE__AS(DONE, .table = table->id, .origin = tide__store_self(table->store), .keys = TIDE__LIST(keys, count)));
}

/* ---- the rule ---- */

static bool may_copy(struct tide_table *table, uint64_t key, bool *moves) {
    bool copy;
    const uint8_t technique = tide_table_technique(table, key, &copy);
    *moves = tide_technique_relocates(technique);
    return technique == TIDE_INTENT;
}

enum tide__rule tide__interest_begins(struct tide_table *table, uint64_t key, uint16_t node, uint16_t owner) {
    bool moves;
    const bool copies = may_copy(table, key, &moves);
    if (!moves) {
        return TIDE__RULE_NONE;
    }
    struct tide__node_sets *sets = &tide__hot_part(table)->interest;
    struct tide__node_set *set = tide__node_set_find(sets, key);
    if (!set && sets->count >= KEYS_MAX) {
        return TIDE__RULE_NONE;
    }
    if (!set || tide__node_set_at(set, node) < 0) {
        set = tide__node_set_add(sets, key, node);
    }
    if (!set || owner == node || (set->count == 1 && TIDE_MUTANT(intent_never_moves))) {
        return TIDE__RULE_NONE;
    }
    return set->count == 1 ? TIDE__RULE_OWN : copies ? TIDE__RULE_COPY : TIDE__RULE_NONE;
}

/* A node says so that has the row, or waits for it, or had it a moment ago. */
static void begins(struct tide_table *table, struct advice *a, uint64_t key, uint16_t node) {
    const enum tide__rule rule = tide__interest_begins(table, key, node, tide__owner_of(table, key));
    if (rule != TIDE__RULE_NONE) {
        advise(table, a, node, rule == TIDE__RULE_OWN ? TIDE__ADVISE_OWN : TIDE__ADVISE_COPY, key);
    }
}

static void ends(struct tide_table *table, struct advice *a, struct tide__node_set *set, uint16_t node) {
    const int at = tide__node_set_at(set, node);
    bool moves;
    if (at < 0) {
        return;
    }
    set->nodes[at] = set->nodes[--set->count];
    (void)may_copy(table, set->key, &moves);
    if (set->count == 1 && moves && tide__owner_of(table, set->key) != set->nodes[0]) {
        advise(table, a, set->nodes[0], TIDE__ADVISE_OWN, set->key);
    }
}

static void done(struct tide_table *table, struct advice *a, uint64_t key, uint16_t node) {
    struct tide__node_sets *sets = &tide__hot_part(table)->interest;
    struct tide__node_set *set = tide__node_set_find(sets, key);
    if (set) {
        ends(table, a, set, node);
    }
    if (set && set->count == 0) {
        tide__node_set_drop(sets, set);
    }
}

/* INTENT, and DONE, which has the same fields: `each` key of a slot that is here; others are forwarded to their homes.
 */
static int interests(struct tide_store *store, struct tide__incoming *in,
                     void (*each)(struct tide_table *, struct advice *, uint64_t key, uint16_t node)) {
    __typeof__(in->as.INTENT) m = in->as.INTENT;
    struct tide_table *table = tide__incoming_table(store, in, m.table);
    if (!table || !table->operations->owners || m.origin == 0 || m.hops > HOPS_MAX) {
        return TIDE_EPROTO;
    }
    struct advice *a = tide_alloc_zero(1, sizeof *a);
    const struct tide__array keys = m.keys;
    m.hops++;
    for (size_t i = 0; a && i < keys.count; i++) {
        const uint64_t key = tide__long_at(keys.at, i);
        if (table->options.keys == TIDE_KEYS_DENSE && key >= table->options.key_count) {
            continue;
        }
        const uint32_t route = tide__route_of(table, tide__slot_of(table, key));
        if (route & TIDE__MINE) {
            each(table, a, key, m.origin);
        } else if (m.hops <= HOPS_MAX) {
            m.keys = TIDE__LIST(&key, 1);
            (void)tide__store_tell(store, tide__route_home(route), (enum tide__op)in->op,
                                   &(const union tide__message){.INTENT = m});
        }
    }
    if (a) {
        advice_send(table, a);
    }
    tide_free(a);
    return 0;
}

int tide__intent_message(struct tide_store *store, struct tide__incoming *in) {
    return interests(store, in, begins);
}

int tide__intent_done_message(struct tide_store *store, struct tide__incoming *in) {
    return interests(store, in, done);
}

void tide__interest_member_gone(struct tide_table *table, uint16_t node) {
    const struct tide__node_sets *sets = &tide__hot_part(table)->interest;
    struct advice *a = sets->count ? tide_alloc_zero(1, sizeof *a) : NULL;
    for (uint32_t i = 0; a && i < sets->capacity; i++) {
        if (sets->places[i].nodes) { /* empty sets are found by the next to come */
            ends(table, a, &sets->places[i], node);
        }
    }
    if (a) {
        advice_send(table, a);
    }
    tide_free(a);
}

/* The nodes notify the new home themselves. */
void tide__interest_slot_left(struct tide_table *table, uint32_t slot) {
    struct tide__node_sets *sets = &tide__hot_part(table)->interest;
    for (uint32_t i = 0; i < sets->capacity;) {
        struct tide__node_set *set = &sets->places[i];
        if (set->nodes && tide__slot_of(table, set->key) == slot) {
            tide__node_set_drop(sets, set); /* another may have moved here */
        } else {
            i++;
        }
    }
}
