/* Location caches: the fence of one key, and the places of a table. See location_cache.h. */
#include "store/adaptive/location_cache.h"
#include "store/adaptive/owner.h"

enum { PLACES_MAX = 1 << 16 };

/* ---- one entry ---- */

/* Nothing that went straight is in flight. */
static void by_home(struct tide__location *e) {
    e->node = e->stale ? 0 : e->node;
    e->straight = e->stale = e->closing = false;
}

bool tide__location_waits(struct tide__location *e, bool answered, bool may, bool localize) {
    if (!e->straight || TIDE_MUTANT(location_fence_ignored)) {
        return false;
    }
    if (answered) {
        by_home(e);
        return false;
    }
    e->closing |= (localize && !TIDE_MUTANT(location_localize_overtakes)) || !may;
    e->waited |= e->closing;
    return e->closing;
}

uint16_t tide__location_way(struct tide__location *e, uint64_t id, bool answered, bool may) {
    e->parts = e->straight && e->last == id ? e->parts + 1 : 1;
    e->straight |= e->node != 0 && may && (answered || TIDE_MUTANT(location_fence_ignored));
    e->last = id;
    e->used |= e->straight;
    return e->straight ? e->node : 0;
}

void tide__location_returned(struct tide__location *e) {
    e->stale = e->closing = e->straight;
}

bool tide__location_resent(struct tide__location *e, uint64_t id) {
    if (!e->straight || e->last != id) {
        return false;
    }
    if (--e->parts > 0 && !TIDE_MUTANT(location_parts_uncounted)) {
        return false;
    }
    by_home(e);
    const bool waited = e->waited;
    e->waited = false;
    return waited;
}

void tide__location_learn(struct tide__location *e, uint16_t node, uint32_t term) {
    if (!e->straight) {
        e->node = node;
        e->term = term;
    }
}

/* ---- places ---- */

struct tide__locations {
    uint64_t mask;
    uint32_t straight; /* entries whose way in use that is; with none, no operation has to wait */
    struct tide__location places[];
};

static struct tide__locations *locations_of(struct tide_table *table) {
    if (!table->locations) {
        uint64_t places = 64;
        while (places < PLACES_MAX && (table->options.keys == TIDE_KEYS_HASHED || places < table->options.key_count)) {
            places *= 2;
        }
        const size_t bytes = sizeof(struct tide__locations) + places * sizeof(struct tide__location);
        table->locations = tide_alloc_zero(1, bytes);
        if (table->locations) {
            table->locations->mask = places - 1;
            tide__index_counts(table, (int64_t)bytes);
        }
    }
    return table->locations;
}

void tide__locations_free(struct tide_table *table) {
    tide_free(table->locations);
}

/* Keys of a dense table that lie together do not take each other's places. */
static struct tide__location *place_of(struct tide_table *table, uint64_t key) {
    const uint64_t at = table->options.keys == TIDE_KEYS_HASHED ? tide_mix64(key) : key;
    return table->locations ? &table->locations->places[at & table->locations->mask] : NULL;
}

static bool is_empty(const struct tide__location *e) {
    return e->last == 0 && e->node == 0;
}

static struct tide__location *find(struct tide_table *table, uint64_t key) {
    struct tide__location *e = place_of(table, key);
    return e && e->key == key && !is_empty(e) ? e : NULL;
}

/* Pending lock held. NULL: answered. */
static struct tide__pending *pending_of(struct tide_store *store, uint64_t id) {
    const struct tide__pending_table *t = &store->pending;
    struct tide__pending *p = (uint32_t)id < t->capacity ? t->by_slot[(uint32_t)id] : NULL;
    return p && p->id == id && p->keys ? p : NULL;
}

static bool is_answered(struct tide_store *store, uint64_t id, bool note_if_not) {
    if (id == 0) {
        return true;
    }
    tide_lock(&store->pending.lock);
    struct tide__pending *p = pending_of(store, id);
    if (p) {
        p->waited_for |= note_if_not;
    }
    tide_unlock(&store->pending.lock);
    return !p;
}

/* Without its home a key is lost to all but its owner: no order of operations, no LOC. */
static bool may_go(struct tide_table *table, const struct tide__location *e) {
    const uint16_t home = tide__route_home(tide__route_of(table, tide__slot_of(table, e->key)));
    return table->store->member_state[e->node] == 1 + TIDE_MEMBER_UP && !tide__member_gone(table->store, home);
}

/* The key's entry; NULL: its place belongs to a key that needs it more. */
static struct tide__location *claim(struct tide_table *table, uint64_t key) {
    struct tide__location *e = locations_of(table) ? place_of(table, key) : NULL;
    if (!e || is_empty(e) || e->key == key) {
        if (e) {
            e->key = key;
        }
        return e;
    }
    if (e->used || !is_answered(table->store, e->last, false)) {
        e->used = false;
        return NULL;
    }
    TIDE_ASSERT(table->locations->straight >= e->straight);
    table->locations->straight -= e->straight;
    *e = (struct tide__location){.key = key};
    return e;
}

void tide__locations_prefetch(struct tide_table *table, uint64_t key) {
    __builtin_prefetch(place_of(table, key), 1);
}

bool tide__locations_in_use(const struct tide_table *table) {
    return table->locations && table->locations->straight > 0;
}

bool tide__locations_wait(struct tide_table *table, const struct tide__job *job, uint64_t key, bool home, bool gone) {
    if (!tide__locations_in_use(table)) {
        return false;
    }
    struct tide__location *e = find(table, key);
    if (!e || !e->straight || (job->kind == TIDE__LOCALIZE && !gone)) {
        return false;
    }
    const bool waits = tide__location_waits(e, is_answered(table->store, e->last, false), may_go(table, e) && !home,
                                            job->kind == TIDE__LOCALIZE);
    if (waits) {
        (void)is_answered(table->store, e->last, true);
    }
    table->locations->straight -= !e->straight;
    return waits;
}

uint16_t tide__locations_way(struct tide_table *table, const struct tide__job *job, uint64_t key, uint32_t *term) {
    struct tide__location *e = job->returned ? NULL : claim(table, key);
    if (!e) {
        return 0;
    }
    const bool was = e->straight, known = e->node != 0 && !was;
    *term = e->term;
    const uint16_t to =
        tide__location_way(e, job->id, known && is_answered(table->store, e->last, false), known && may_go(table, e));
    table->locations->straight += e->straight && !was;
    return to;
}

void tide__locations_resent(struct tide_table *table, const struct tide__job *job, uint64_t key) {
    struct tide__location *e = find(table, key);
    const bool was = e && e->straight;
    if (e && tide__location_resent(e, job->id)) {
        table->look_again = true;
        table->store->look_again = true;
    }
    if (was) {
        TIDE_ASSERT(table->locations->straight > 0);
        table->locations->straight -= !e->straight;
    }
}

void tide__locations_gave(struct tide_table *table, uint64_t key, uint16_t node, uint32_t term) {
    struct tide__location *e = claim(table, key);
    if (e) {
        tide__location_learn(e, node, term);
    }
}

static uint32_t position_at(const void *positions, size_t i) {
    uint32_t position = (uint32_t)i;
    if (positions) {
        memcpy(&position, (const char *)positions + i * sizeof position, sizeof position);
    }
    return position;
}

void tide__locations_told(struct tide_store *store, uint64_t id, uint16_t node, const void *positions,
                          const void *terms, size_t count) {
    if (node == tide__store_self(store)) {
        return;
    }
    tide_lock(&store->pending.lock);
    const struct tide__pending *p = pending_of(store, id);
    for (size_t i = 0; p && i < count; i++) {
        const uint32_t position = position_at(positions, i);
        struct tide__location *e = position < p->count ? find(p->table, p->keys[position]) : NULL;
        if (e) {
            tide__location_learn(e, node, position_at(terms, i) & TIDE__TERM_MASK);
        }
    }
    tide_unlock(&store->pending.lock);
}

/* All of the message is of operation `job->id`, and was at `node`; now it is here. */
static bool came_back(struct tide_store *store, const struct tide__job *job, uint16_t node) {
    tide_lock(&store->pending.lock);
    struct tide__pending *p = pending_of(store, job->id);
    bool fits = p && p->table == job->table && p->kind == job->kind;
    for (size_t i = 0; fits && i < job->count; i++) {
        const uint32_t position = tide__job_position_at(job, i);
        fits = position < p->count && p->at[position] == node && p->keys[position] == tide__job_key_at(job, i);
    }
    for (size_t i = 0; fits && i < job->count; i++) {
        p->at[tide__job_position_at(job, i)] = tide__store_self(store);
        p->out--;
    }
    tide_unlock(&store->pending.lock);
    return fits;
}

bool tide__locations_returned(struct tide__job *job) {
    job->returned = true;
    job->queued_once = true;
    job->terms = NULL;
    if (!came_back(job->table->store, job, job->from)) {
        return false;
    }
    for (size_t i = 0; i < job->count; i++) {
        struct tide__location *e = find(job->table, tide__job_key_at(job, i));
        if (e) {
            tide__location_returned(e);
        }
    }
    tide__table_count(job->table, TIDE__LOCATION_STALE, job->count);
    return true;
}

void tide__locations_retry(struct tide_store *store) {
    const unsigned count = atomic_load_explicit(&store->table_count, memory_order_relaxed);
    while (store->look_again) {
        store->look_again = false;
        for (unsigned id = 1; id <= count; id++) {
            struct tide_table *table = tide__table_at(store, id);
            if (table && table->look_again) {
                table->look_again = false;
                tide__parked_retry(table);
            }
        }
    }
}

int tide__passed_message(struct tide_store *store, struct tide__incoming *in) {
    const __typeof__(in->as.PASSED) *m = &in->as.PASSED;
    const size_t count = m->positions.count;
    if (m->node == 0 || m->leg >= TIDE__HOPS_MAX || (m->terms.at && m->terms.count != count)) {
        return TIDE_EPROTO;
    }
    if (m->terms.at) {
        tide__locations_told(store, m->id, m->node, m->positions.at, m->terms.at, count);
    }
    const struct tide__way way = {.via = in->from, .leg = m->leg};
    tide__pending_at(store, m->id, way, m->node, m->positions.at, count);
    return 0;
}
