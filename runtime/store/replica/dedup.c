/*
 * Which pushes a table's slots have had: the ids (origin, sequence) of those that were applied and
 * may come again. An origin repeats an operation until it is answered, and says with each message
 * which is the oldest it still waits for: ids below that low-water mark are dropped, so the memory
 * is that of what is unanswered in the cluster. A push below the mark is a straggler of an answered
 * one.
 *
 * An entry is a push, with all the slots that it was applied to at one time; its keys in a slot are
 * applied together. Entries are in the order in which they came, so that all that is written for a
 * push lies together. An origin's messages mostly come in the order of their sequences: one above
 * the highest that came so far is new, and only others are looked up. Ids go where the rows go,
 * with the marks they were pruned by.
 */
#include "store/replica/replica.h"

enum { FIRST = 64 };

struct entry {
    uint64_t sequence;
    uint32_t first; /* of its slots */
    uint16_t origin, count;
};
struct tide__dedup {
    struct entry *entries;
    uint16_t *slots;
    uint64_t *highest; /* by origin */
    uint32_t count, room, slot_count, slot_room, origins;
    uint32_t untold;                  /* the first entry that was not sent to copies (async_replication.h) */
    uint32_t telling;                 /* the first that they have not all received when all have been sent */
    bool forgets;                     /* an element of `forgot` is not 0 */
    uint32_t forgot[TIDE_SLOT_COUNT]; /* entries before this one do not count for the slot */
};

int tide__dedup_create(struct tide_table *table) {
    tide__replicas_of(table)->dedup = tide_alloc_zero(1, sizeof *tide__replicas_of(table)->dedup);
    return tide__replicas_of(table)->dedup ? 0 : TIDE_ENOMEM;
}

void tide__dedup_destroy(struct tide_table *table) {
    struct tide__dedup *r = tide__replicas_of(table)->dedup;
    if (r) {
        tide_free(r->entries);
        tide_free(r->slots);
        tide_free(r->highest);
        tide_free(r);
    }
}

void tide__dedup_low(struct tide_store *store, uint16_t origin, uint64_t low) {
    struct tide__replication *r = store->replication;
    if (origin < TIDE__NODES && r->low[origin] < low) {
        r->low[origin] = low;
        r->origins = origin >= r->origins ? origin + 1u : r->origins;
    }
}

/* ---- entries ---- */

/* May it come again? */
static bool is_live(const struct tide_table *table, const struct entry *e) {
    return e->sequence >= table->store->replication->low[e->origin];
}

/* Drops what cannot come again, or was forgotten. */
static void compact(struct tide_table *table) {
    struct tide__dedup *r = tide__replicas_of(table)->dedup;
    uint32_t kept = 0, slots = 0, untold = 0, telling = 0;
    for (uint32_t i = 0; i < r->count; i++) {
        struct entry e = r->entries[i];
        const uint32_t first = slots;
        for (uint32_t j = 0; j < e.count && is_live(table, &e); j++) {
            const uint16_t slot = r->slots[e.first + j];
            r->slots[slots] = slot;
            slots += i >= r->forgot[slot];
        }
        if (slots > first) {
            e.first = first;
            e.count = (uint16_t)(slots - first);
            r->entries[kept++] = e;
            untold += i < r->untold;
            telling += i < r->telling;
        }
    }
    r->count = kept;
    r->slot_count = slots;
    r->untold = untold;
    r->telling = telling;
    TIDE_ASSERT(untold <= kept && telling <= kept && kept <= slots);
    if (r->forgets) {
        memset(r->forgot, 0, sizeof r->forgot);
        r->forgets = false;
    }
}

/* Room for `wanted` elements, and for as many more as there are. */
static int grow(void **at, uint32_t *room, uint32_t wanted, size_t size) {
    uint32_t more = *room ? *room : FIRST;
    while (more < 2 * wanted) {
        more *= 2;
    }
    void *grown = more > *room ? tide_realloc(*at, more * size) : *at;
    if (!grown) {
        return tide_fail(TIDE_ENOMEM, "no memory for operation ids");
    }
    *at = grown;
    *room = more;
    return 0;
}

static int origin_reserve(struct tide__dedup *r, uint16_t origin) {
    const uint32_t had = r->origins;
    void *highest = r->highest;
    int code = origin >= had ? grow(&highest, &r->origins, origin + 1u, sizeof *r->highest) : 0;
    r->highest = highest;
    if (r->origins > had) {
        memset(r->highest + had, 0, (r->origins - had) * sizeof *r->highest);
    }
    return code;
}

int tide__dedup_reserve(struct tide_table *table, uint16_t origin, uint32_t entries, uint32_t slots) {
    struct tide__dedup *r = tide__replicas_of(table)->dedup;
    int code = origin_reserve(r, origin);
    if (!code && (r->count + entries > r->room || r->slot_count + slots > r->slot_room)) {
        compact(table);
        void *at = r->entries;
        code = grow(&at, &r->room, r->count + entries, sizeof *r->entries);
        r->entries = at;
        at = r->slots;
        code = code ? code : grow(&at, &r->slot_room, r->slot_count + slots, sizeof *r->slots);
        r->slots = at;
    }
    return code;
}

void tide__dedup_add(struct tide_table *table, uint32_t slot, uint16_t origin, uint64_t sequence) {
    struct tide__dedup *r = tide__replicas_of(table)->dedup;
    struct entry *last = r->count ? &r->entries[r->count - 1] : NULL;
    TIDE_ASSERT(origin < r->origins && r->slot_count < r->slot_room);
    if (!last || last->origin != origin || last->sequence != sequence || last->count == TIDE_SLOT_COUNT ||
        r->count == r->untold || r->count == r->telling || r->forgot[slot] == r->count) {
        TIDE_ASSERT(r->count < r->room);
        last = &r->entries[r->count++];
        *last = (struct entry){.sequence = sequence, .first = r->slot_count, .origin = origin};
        r->highest[origin] = sequence > r->highest[origin] ? sequence : r->highest[origin];
    }
    r->slots[r->slot_count++] = (uint16_t)slot;
    last->count++;
    TIDE_ASSERT(last->first + last->count == r->slot_count && r->untold <= r->count && r->telling <= r->count);
}

enum tide__id_state tide__dedup_look(struct tide_table *table, uint16_t origin, uint64_t sequence) {
    struct tide__replicas *replicas = tide__replicas_of(table);
    const struct tide__dedup *r = replicas->dedup;
    enum tide__id_state state = TIDE__ID_FRESH;
    tide__replicas_mark(replicas);
    if (TIDE_MUTANT(no_id_check)) {
        return TIDE__ID_FRESH;
    }
    if (origin >= TIDE__NODES || sequence < table->store->replication->low[origin]) {
        return TIDE__ID_OVER;
    }
    const bool above = origin >= r->origins || sequence > r->highest[origin];
    for (uint32_t i = above ? 0 : r->count; i-- > 0;) {
        const struct entry *e = &r->entries[i];
        for (uint32_t j = 0; e->sequence == sequence && e->origin == origin && j < e->count; j++) {
            const uint16_t slot = r->slots[e->first + j];
            if (i >= r->forgot[slot]) {
                replicas->slots[slot].mark = replicas->mark_now;
                replicas->slots[slot].marked = true;
                state = TIDE__ID_KNOWN;
            }
        }
    }
    return state;
}

/* ---- with rows ---- */

uint32_t tide__dedup_untold(const struct tide_table *table) {
    const struct tide__dedup *r = tide__replicas_of(table)->dedup;
    return r->untold < r->count ? r->slot_count - r->entries[r->untold].first : 0;
}

uint32_t tide__dedup_tell(const struct tide_table *table, uint64_t *out) {
    const struct tide__replicas *replicas = tide__replicas_of(table);
    const struct tide__dedup *r = replicas->dedup;
    uint32_t count = 0;
    for (uint32_t i = r->untold; i < r->count && !TIDE_MUTANT(window_ids_stay); i++) {
        const struct entry *e = &r->entries[i];
        for (uint32_t j = 0; j < e->count && is_live(table, e); j++) {
            const uint16_t slot = r->slots[e->first + j];
            if (replicas->slots[slot].mark == replicas->mark_now && i >= r->forgot[slot]) {
                uint64_t *id = out + TIDE__ID_FIELDS * (size_t)count++;
                id[0] = slot;
                id[1] = e->origin;
                id[2] = e->sequence;
            }
        }
    }
    return count;
}

void tide__dedup_telling(struct tide_table *table) {
    tide__replicas_of(table)->dedup->telling = tide__replicas_of(table)->dedup->count;
}

void tide__dedup_told(struct tide_table *table) {
    struct tide__dedup *r = tide__replicas_of(table)->dedup;
    r->untold = TIDE_MUTANT(window_told_early) ? r->count : r->telling;
}

static bool has_slot(const struct tide__dedup *r, const struct entry *e, uint32_t slot) {
    bool has = false;
    for (uint32_t j = 0; j < e->count && !has; j++) {
        has = r->slots[e->first + j] == slot;
    }
    return has;
}

uint64_t *tide__dedup_list(const struct tide_table *table, uint32_t slot, size_t *count) {
    const struct tide__dedup *r = tide__replicas_of(table)->dedup;
    size_t found = 0;
    for (uint32_t i = r->forgot[slot]; i < r->count; i++) {
        found += is_live(table, &r->entries[i]) && has_slot(r, &r->entries[i], slot);
    }
    uint64_t *pairs = tide_alloc((4 * found + 1) * sizeof *pairs);
    size_t at = 0;
    for (uint32_t i = r->forgot[slot]; pairs && i < r->count; i++) {
        const struct entry *e = &r->entries[i];
        if (is_live(table, e) && has_slot(r, e, slot)) {
            pairs[2 * at] = pairs[2 * (found + at)] = e->origin;
            pairs[2 * at + 1] = e->sequence;
            pairs[2 * (found + at) + 1] = table->store->replication->low[e->origin];
            at++;
        }
    }
    *count = found;
    return pairs;
}

int tide__dedup_take(struct tide_table *table, uint32_t slot, const struct tide__array *ids,
                     const struct tide__array *lows) {
    if (ids->count % 2 || lows->count % 2 || ids->count > UINT32_MAX / 2) {
        return tide_fail(TIDE_EPROTO, "damaged operation ids");
    }
    tide__dedup_drop(table, slot);
    for (size_t i = 0; i < lows->count / 2; i++) {
        const uint64_t pair[2] = {tide__long_at(lows->at, 2 * i), tide__long_at(lows->at, 2 * i + 1)};
        tide__dedup_low(table->store, pair[0] < TIDE__NODES ? (uint16_t)pair[0] : UINT16_MAX, pair[1]);
    }
    int code = 0;
    for (size_t i = 0; i < ids->count / 2 && !code; i++) {
        const uint64_t pair[2] = {tide__long_at(ids->at, 2 * i), tide__long_at(ids->at, 2 * i + 1)};
        if (pair[0] < TIDE__NODES) {
            code = tide__dedup_reserve(table, (uint16_t)pair[0], 1, 1);
        }
        if (pair[0] < TIDE__NODES && !code) {
            tide__dedup_add(table, slot, (uint16_t)pair[0], pair[1]);
        }
    }
    return code;
}

uint64_t *tide__dedup_lows(const struct tide_store *store, uint32_t *count) {
    const uint64_t *low = store->replication->low;
    uint32_t found = 0;
    *count = 0;
    const uint32_t origins = store->replication->origins;
    for (uint32_t origin = 0; origin < origins; origin++) {
        found += low[origin] != 0;
    }
    uint64_t *pairs = found ? tide_alloc(2 * found * sizeof *pairs) : NULL;
    for (uint32_t origin = 0; pairs && origin < origins; origin++) {
        if (low[origin]) {
            pairs[2 * *count] = origin;
            pairs[2 * *count + 1] = low[origin];
            ++*count;
        }
    }
    return pairs;
}

void tide__dedup_drop(struct tide_table *table, uint32_t slot) {
    struct tide__dedup *r = tide__replicas_of(table)->dedup;
    r->forgot[slot] = TIDE_MUTANT(ids_not_forgotten) ? 0 : r->count;
    r->forgets |= r->count > 0;
}
