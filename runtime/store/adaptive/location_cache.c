/* Location caches: the fence of one key, and the places of a table. See location_cache.h. */
#include "store/adaptive/location_cache.h"
#include "store/adaptive/owner.h"
#include "store/core/send.h"

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
    struct tide__owners *o = tide__owners_of(table);
    if (!o->locations) {
        uint64_t places = 64;
        while (places < PLACES_MAX && (table->options.keys == TIDE_KEYS_HASHED || places < table->options.key_count)) {
            places *= 2;
        }
        const size_t bytes = sizeof(struct tide__locations) + places * sizeof(struct tide__location);
        o->locations = tide_alloc_zero(1, bytes);
        if (o->locations) {
            o->locations->mask = places - 1;
            tide__index_counts(table, (int64_t)bytes);
        }
    }
    return o->locations;
}

/* Keys of a dense table that lie together do not take each other's places. */
static struct tide__location *place_of(struct tide_table *table, uint64_t key) {
    struct tide__locations *l = tide__owners_of(table)->locations;
    const uint64_t at = table->options.keys == TIDE_KEYS_HASHED ? tide_mix64(key) : key;
    return l ? &l->places[at & l->mask] : NULL;
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
    return p && p->id == id && p->table->operations->owners ? p : NULL;
}

static bool is_answered(struct tide_store *store, uint64_t id, bool note_if_not) {
    if (id == 0) {
        return true;
    }
    tide_lock(&store->pending.lock);
    struct tide__pending *p = pending_of(store, id);
    if (p) {
        ((struct tide__owned *)p->part)->waited_for |= note_if_not;
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
    TIDE_ASSERT(tide__owners_of(table)->locations->straight >= e->straight);
    tide__owners_of(table)->locations->straight -= e->straight;
    *e = (struct tide__location){.key = key};
    return e;
}

void tide__locations_prefetch(struct tide_table *table, uint64_t key) {
    __builtin_prefetch(place_of(table, key), 1);
}

bool tide__locations_in_use(const struct tide_table *table) {
    const struct tide__locations *l = tide__owners_of(table)->locations;
    return l && l->straight > 0;
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
    tide__owners_of(table)->locations->straight -= !e->straight;
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
    tide__owners_of(table)->locations->straight += e->straight && !was;
    return to;
}

void tide__locations_resent(struct tide_table *table, const struct tide__job *job, uint64_t key) {
    struct tide__location *e = find(table, key);
    const bool was = e && e->straight;
    if (e && tide__location_resent(e, job->id)) {
        tide__owners_of(table)->look_again = true;
        table->store->look_again = true;
    }
    if (was) {
        TIDE_ASSERT(tide__owners_of(table)->locations->straight > 0);
        tide__owners_of(table)->locations->straight -= !e->straight;
    }
}

void tide__locations_gave(struct tide_table *table, uint64_t key, uint16_t node, uint32_t term) {
    struct tide__location *e = claim(table, key);
    if (e) {
        tide__location_learn(e, node, term);
    }
}

void tide__locations_told(struct tide_store *store, uint64_t id, uint16_t node, const void *positions,
                          const void *terms, size_t count) {
    if (node == tide__store_self(store)) {
        return;
    }
    tide_lock(&store->pending.lock);
    const struct tide__pending *p = pending_of(store, id);
    for (size_t i = 0; p && i < count; i++) {
        const uint32_t position = tide__position_at(positions, i);
        const struct tide__owned *o = p->part;
        struct tide__location *e = position < p->count ? find(p->table, o->keys[position].key) : NULL;
        if (e) {
            tide__location_learn(e, node, tide__number_at(terms, i) & TIDE__TERM_MASK);
        }
    }
    tide_unlock(&store->pending.lock);
}

/* All of the message is of operation `job->id`, and was at `node`; now it is here. */
static bool came_back(struct tide_store *store, const struct tide__job *job, uint16_t node) {
    tide_lock(&store->pending.lock);
    struct tide__pending *p = pending_of(store, job->id);
    const struct tide__owned *o = p ? p->part : NULL;
    bool fits = p && p->table == job->table && p->kind == job->kind;
    for (size_t i = 0; fits && i < job->count; i++) {
        const uint32_t position = tide__job_position_at(job, i);
        fits = position < p->count && p->at[position] == node && o->keys[position].key == tide__job_key_at(job, i);
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
            struct tide__owners *o = table ? tide__owners_of(table) : NULL;
            if (o && o->look_again) {
                o->look_again = false;
                tide__parked_retry(table);
            }
        }
    }
}

/* Lock held. Keys of the entry are at `node` now. */
static void pass_keys(struct tide__pending *p, uint16_t self, struct tide__way way, uint16_t node,
                      const void *positions, size_t count) {
    struct tide__owned *o = p->part;
    uint16_t *at = p->at;
    uint32_t out = 0;
    for (size_t i = 0; i < count; i++) {
        const uint32_t position = tide__position_at(positions, i);
        /* Each leg is reported by another node, so the report of an earlier one may come later. */
        if (position < p->count && at[position] != 0 && way.leg > o->keys[position].way.leg) {
            out += (uint32_t)(node != self) - (uint32_t)(at[position] != self);
            at[position] = node;
            o->keys[position].way = way;
        }
    }
    p->out += out;
}

void tide__pending_at(struct tide_store *store, uint64_t id, struct tide__way way, uint16_t node, const void *positions,
                      size_t count) {
    struct tide__pending_table *t = &store->pending;
    tide_lock(&t->lock);
    struct tide__pending *p = pending_of(store, id);
    const uint16_t dead = tide__pending_is_gone(t, node) ? node : tide__pending_is_gone(t, way.via) ? way.via : 0;
    if (p) {
        struct tide__owned *o = p->part;
        pass_keys(p, tide__store_self(store), way, node, positions, count);
        o->sent = o->sent ? o->sent : ++t->sequence;
    }
    tide_unlock(&t->lock);
    if (dead) {
        char name[96], text[160];
        tide__node_text(store, dead, name);
        (void)snprintf(text, sizeof text, "node %s died", name);
        tide__pending_node_gone(store, dead, text);
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
