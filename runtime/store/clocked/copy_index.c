/* The copies of a table with clocks on a node: their index, which of them are to be sent, and which
 * make room. */
#include "store/clocked/clocked.h"

enum { SWEEP_CLOCKS = 8 }; /* all copies are looked at in so many clocks */

/* ---- copies ---- */

int tide__copy_lock(struct tide__clocked *c, uint64_t key, bool create, bool patient, atomic_uint_fast64_t **word,
                    uint64_t *old, struct tide__copy_record **record) {
    struct tide_table *index = c->index;
    int code = tide__index_lock(index, key, create, patient, word, old);
    if (code != TIDE__FOUND) {
        return code;
    }
    if (TIDE_LIKELY(tide__word_state(*old) == TIDE__OWNED)) {
        *record = tide__copy_at(c, (uint32_t)*old);
        return TIDE__FOUND;
    }
    uint32_t number;
    code = create ? tide__slab_take(&index->slab, &number) : TIDE__NOT_FOUND;
    if (code) {
        tide__word_unlock(*word, *old);
        return code;
    }
    *record = tide__copy_at(c, number);
    tide__copy_record_init(&c->shape, *record, key);
    *old = tide__word_owned(*old, number);
    return TIDE__FOUND;
}

void tide__copy_free(struct tide__clocked *c, atomic_uint_fast64_t *word, uint64_t old) {
    struct tide__copy_record *r = tide__copy_at(c, (uint32_t)old);
    tide__copy_record_drop(r);
    tide__slab_give(&c->index->slab, (uint32_t)old);
    tide__word_unlock(word, old & TIDE__WORD_PRESENT);
}

void tide__list_add(struct tide__list *list, uint64_t item) {
    tide_lock(&list->lock);
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? list->capacity * 2 : 256;
        /* Eight bytes beside a record or a watch that we got. */
        list->at = tide_realloc_vital(list->at, capacity * sizeof *list->at);
        list->capacity = capacity;
    }
    list->at[list->count++] = item;
    tide_unlock(&list->lock);
}

void tide__dirty_add(struct tide__clocked *c, struct tide__copy_record *r, uint64_t old) {
    r->dirty = true;
    tide__list_add(&c->dirty, (uint32_t)old);
}

void tide__copy_index_slot(struct tide__clocked *c, uint32_t slot,
                           void (*each)(void *arg, struct tide__copy_record *r, atomic_uint_fast64_t *word,
                                        uint64_t old),
                           void *arg) {
    tide_lock(&c->index->slab.lock);
    const uint32_t end = c->index->slab.next;
    tide_unlock(&c->index->slab.lock);
    for (uint32_t i = 0; i < end; i++) {
        struct tide__copy_record *r = tide__copy_at(c, i);
        uint64_t key = atomic_load_explicit(&r->key, memory_order_relaxed), old;
        atomic_uint_fast64_t *word;
        struct tide__copy_record *found;
        if (!atomic_load_explicit(&r->in_use, memory_order_acquire) ||
            (slot < TIDE_SLOT_COUNT && tide__slot_of(c->index, key) != slot) ||
            tide__copy_lock(c, key, false, true, &word, &old, &found) != TIDE__FOUND) {
            continue;
        }
        if (found == r) {
            each(arg, r, word, old);
        } else {
            tide__word_unlock(word, old);
        }
    }
}

/* ---- eviction ---- */

struct unsub {
    uint64_t keys[256], versions[256];
    size_t count;
    uint16_t node;
};

static void unsub_send(struct tide__clocked *c, struct unsub *u) {
    if (u->count == 0) {
        return;
    }
    /* the copies are dropped: else their home would send to them for ever */
    enum tide_memory_use use = tide__memory_swap(TIDE_MEMORY_VITAL);
    (void)tide__sync_tell(c->sync, u->node,
                          TIDE__AS(UNSUB, .table = c->table->id, .keys = TIDE__LIST(u->keys, u->count),
                                   .versions = TIDE__LIST(u->versions, u->count)));
    (void)tide__memory_swap(use);
    u->count = 0;
}

/* Latched. Nothing of it is to be sent or awaited. */
static bool is_clean(const struct tide__copy_record *r) {
    return !r->dirty && !r->sent_count && !r->asked;
}

/* What the evictor looks at soon: records lie one behind the other, each in lines of its own. */
static void fetch_ahead(struct tide__clocked *c, uint32_t i, uint32_t end) {
    enum { FAR = 8, NEAR = 4 };
    if (i + FAR < end) {
        __builtin_prefetch(tide__copy_at(c, i + FAR));
        const uint64_t key = atomic_load_explicit(&tide__copy_at(c, i + NEAR)->key, memory_order_relaxed);
        tide__fetch_word(c->index, tide__slot_of(c->index, key), key);
    }
}

void tide__evict(struct tide__clocked *c, uint32_t clock, bool full) {
    struct unsub u = {.count = 0};
    tide_lock(&c->index->slab.lock);
    const uint32_t end = c->index->slab.next;
    tide_unlock(&c->index->slab.lock);
    uint32_t looks = full ? 2 * end : (end + SWEEP_CLOCKS - 1) / SWEEP_CLOCKS;
    const uint64_t target = c->table->options.cache_bytes / c->index->slab.stride;
    while (looks-- > 0 && (!full || tide__slab_used(&c->index->slab) * 16 > target * 15)) {
        tide_lock(&c->dirty.lock);
        uint32_t i = c->hand = c->hand + 1 < end ? c->hand + 1 : 0;
        tide_unlock(&c->dirty.lock);
        fetch_ahead(c, i, end);
        struct tide__copy_record *r = tide__copy_at(c, i), *found;
        uint64_t key = atomic_load_explicit(&r->key, memory_order_relaxed), old;
        atomic_uint_fast64_t *word;
        if (!atomic_load_explicit(&r->in_use, memory_order_acquire) ||
            tide__copy_lock(c, key, false, false, &word, &old, &found) != TIDE__FOUND) {
            continue;
        }
        if (found == r) { /* messages whose rows have no waiter are not kept */
            tide__copy_record_confirm(
                r, atomic_load_explicit(&c->confirmed[tide__slot_of(c->table, key)], memory_order_relaxed));
        }
        bool unread = r->used_clock + c->table->options.unsubscribe_after < clock;
        if (found != r || (r->referenced && full) || !(full || unread) || !is_clean(r)) {
            r->referenced = found == r && full ? false : r->referenced;
            tide__word_unlock(word, old);
            continue;
        }
        uint16_t home = tide__via(c, tide__slot_of(c->table, key));
        if (u.count == TIDE_COUNT(u.keys) || home != u.node) {
            unsub_send(c, &u);
            u.node = home;
        }
        if (r->valid && r->subscribed) {
            u.keys[u.count] = key;
            u.versions[u.count++] = r->version;
        }
        tide__copy_free(c, word, old);
        atomic_fetch_add_explicit(&c->evicted, 1, memory_order_relaxed);
    }
    unsub_send(c, &u);
}
