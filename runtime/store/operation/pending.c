/*
 * The table of unanswered messages, at their origin. Every message is an entry; completion is by
 * id: an answer for no entry is counted and dropped. A message may be answered in parts when a slot
 * moved away from under it; answers are scattered into the caller's rows.
 *
 * The lock covers the table *and* every change of a route. A worker groups keys by routes it read
 * without the lock; registration fails if a route changed since, and the worker looks again. Hence
 * whoever changes a route knows, by the sequence number at that moment, every operation that still
 * goes the old way (move.c: fences).
 *
 * An entry is `busy` while an answer is worked in; the setter owns it. A caller that times out
 * (killed, timed out) detaches its ticket from entries that are not busy and waits for those that
 * are.
 */
#include "store/core/send.h"
#include "store/operation/shard.h"

/* Lock held. */
static int grow_slots(struct tide__pending_table *t) {
    uint32_t capacity = t->capacity ? t->capacity * 2 : 256;
    if (capacity > TIDE__PENDING_MAX) {
        return TIDE_EBUSY;
    }
    struct tide__pending **by_slot = tide_realloc(t->by_slot, capacity * sizeof(struct tide__pending *));
    t->by_slot = by_slot ? by_slot : t->by_slot;
    uint32_t *generation = tide_realloc(t->generation, capacity * sizeof *generation);
    t->generation = generation ? generation : t->generation;
    uint32_t *free_slots = tide_realloc(t->free_slots, capacity * sizeof *free_slots);
    t->free_slots = free_slots ? free_slots : t->free_slots;
    if (!by_slot || !generation || !free_slots) {
        return TIDE_ENOMEM;
    }
    for (uint32_t i = t->capacity; i < capacity; i++) {
        by_slot[i] = NULL;
        generation[i] = 1;
        free_slots[t->free_count++] = t->capacity + capacity - 1 - i;
    }
    t->capacity = capacity;
    return 0;
}

int tide__pending_reserve(struct tide__pending_table *t, uint64_t *id) {
    int code = 0;
    tide_lock(&t->lock);
    if (t->free_count == 0) {
        code = grow_slots(t);
    }
    if (!code) {
        uint32_t slot = t->free_slots[--t->free_count];
        *id = (uint64_t)t->generation[slot] << 32 | slot;
    }
    tide_unlock(&t->lock);
    return code ? tide_fail(code, "too many unanswered operations") : 0;
}

/* Lock held. */
static void release_id(struct tide__pending_table *t, uint64_t id) {
    uint32_t slot = (uint32_t)id;
    t->by_slot[slot] = NULL;
    t->generation[slot] = t->generation[slot] == UINT32_MAX ? 1 : t->generation[slot] + 1;
    t->free_slots[t->free_count++] = slot;
    TIDE_ASSERT(t->free_count <= t->capacity);
}

static void pending_free(struct tide__pending *p) {
    tide_blob_unref(p->message);
    tide_free(p->passed);
    tide_free(p);
}

/* Lock held. */
static void close_entry(struct tide__pending_table *t, struct tide__pending *p) {
    if (p->table->operations->ends) {
        p->table->operations->ends(p);
    }
    release_id(t, p->id);
}

/* Busy, and without a waiter: it ends, with the credit that it held. */
static void end_entry(struct tide__pending_table *t, struct tide__pending *p) {
    tide_lock(&t->lock);
    *(p->prev ? &p->prev->next : &t->first) = p->next;
    *(p->next ? &p->next->prev : &t->last) = p->prev;
    close_entry(t, p);
    tide_unlock(&t->lock);
    tide__token_give(p->table->store, &p->token);
    pending_free(p);
}

void tide__pending_unused(struct tide__pending_table *t, struct tide__pending *p) {
    tide_lock(&t->lock);
    close_entry(t, p);
    tide_unlock(&t->lock);
    pending_free(p);
}

/* The entry, now ours; NULL: unknown or busy. */
struct tide__pending *tide__pending_take(struct tide__pending_table *t, uint64_t id) {
    uint32_t slot = (uint32_t)id;
    tide_lock(&t->lock);
    struct tide__pending *p = slot < t->capacity ? t->by_slot[slot] : NULL;
    if (p && (p->id != id || p->busy)) {
        p = NULL;
    }
    if (p) {
        p->busy = true;
    }
    tide_unlock(&t->lock);
    return p;
}

/* Rows of an answer into the caller's memory. False: the answer does not fit the question. */
static bool scatter(struct tide__pending *p, const uint8_t *positions, size_t count, int rows_code, const uint8_t *rows,
                    size_t row_bytes) {
    const size_t floats = p->raw ? p->table->row_floats : p->table->width;
    const bool half = rows_code != TIDE_F32;
    if (row_bytes != floats * (half ? 2 : 4)) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        const uint32_t position = tide__position_at(positions, i);
        if (position >= p->count) {
            return false;
        }
        if (!p->ticket || (p->at && p->at[position] == 0)) {
            continue; /* no waiter */
        }
        float *out = p->ticket->rows + p->index[position] * floats;
        if (half) {
            tide__half_to_floats(rows + i * row_bytes, out, floats,
                                 rows_code == TIDE_F16 ? TIDE_WIRE_F16 : TIDE_WIRE_BF16);
        } else {
            memcpy(out, rows + i * row_bytes, row_bytes);
        }
    }
    return true;
}

/* Ours. The requester of each key learns what became of these; the first result counts. */
static void tell(struct tide__pending *p, int code, const uint8_t *positions, size_t count) {
    int *fates = p->ticket ? p->ticket->fates : NULL;
    for (size_t i = 0; fates && i < count; i++) {
        const uint32_t position = tide__position_at(positions, i);
        if (position < p->count && fates[p->index[position]] == TIDE__FATE_HERE && !TIDE_MUTANT(share_fates_untold)) {
            fates[p->index[position]] = code;
        }
    }
}

void tide__pending_fail(struct tide_store *store, struct tide__pending *p, int code, const char *text) {
    tell(p, code, NULL, p->count);
    if (p->ticket) {
        tide__ticket_finish(p->ticket, code, text);
    }
    end_entry(&store->pending, p);
}

/* Ours. Keys that are answered now; what was answered before does not count, nor what a node
 * (`refused_by`; 0: none) refuses that has gone out again to another since: that one's answer
 * counts. SIZE_MAX: not a key of the message. */
static size_t settle(struct tide_store *store, struct tide__pending *p, uint16_t refused_by, const uint8_t *positions,
                     size_t count) {
    const uint16_t self = tide__store_self(store);
    uint16_t *ats = p->at;
    const uint32_t known = p->count;
    size_t fresh = 0;
    uint32_t out = 0;
    tide_lock(&store->pending.lock);
    for (size_t i = 0; i < count; i++) {
        const uint32_t position = tide__position_at(positions, i);
        if (position >= known) {
            fresh = SIZE_MAX;
            break;
        }
        const uint16_t at = ats[position];
        if (refused_by && at != refused_by) {
            continue;
        }
        fresh += at != 0 || TIDE_MUTANT(reloc_counts_answers);
        out += at != 0 && at != self;
        ats[position] = 0;
    }
    p->out -= out;
    tide_unlock(&store->pending.lock);
    return fresh;
}

int tide__pending_answer(struct tide_store *store, uint16_t from, uint64_t id, int code, const char *text,
                         const void *positions, size_t count, int rows_code, const void *rows, size_t row_bytes) {
    struct tide__pending_table *t = &store->pending;
    struct tide__pending *p = tide__pending_take(t, id);
    if (!p) {
        atomic_fetch_add_explicit(&store->replies_unknown, 1, memory_order_relaxed);
        return 0;
    }
    bool fits = count > 0 && (count <= p->left || p->at) && (positions || count == p->count);
    const bool brings = !code && (p->kind == TIDE__PULL || (rows && p->subscribes));
    if (fits && brings) {
        fits = rows && scatter(p, positions, count, rows_code, rows, row_bytes);
    }
    if (fits) {
        tell(p, brings && p->kind == TIDE__PUSH ? TIDE__FATE_ROW : code, positions, count);
    }
    if (fits && p->at) {
        const bool goes_again = p->table->operations->groups && !TIDE_MUTANT(late_refusal_taken);
        count = settle(store, p, code && goes_again ? from : 0, positions, count);
        fits = count != SIZE_MAX;
    }
    if (!fits) {
        tide__pending_fail(store, p, TIDE_EPROTO, "a node answered with the wrong number of rows");
        return TIDE_EPROTO;
    }
    p->left -= (uint32_t)count;
    if (p->left == 0) {
        if (p->ticket) {
            tide__ticket_finish(p->ticket, code, text);
        }
        end_entry(t, p);
        return 0;
    }
    if (p->ticket && count) {
        tide__ticket_error(p->ticket, code, text);
    }
    tide_lock(&t->lock);
    p->busy = false;
    tide_unlock(&t->lock);
    return 0;
}

void tide__pending_refused(struct tide_store *store, uint64_t id, int code, const char *text) {
    struct tide__pending *p = tide__pending_take(&store->pending, id);
    if (!p) {
        atomic_fetch_add_explicit(&store->replies_unknown, 1, memory_order_relaxed);
        return;
    }
    tide__pending_fail(store, p, code, text);
}

bool tide__pending_is_gone(const struct tide__pending_table *t, uint16_t node) {
    return t->gone[node / 8] >> (node % 8) & 1;
}

static bool was_passed_to(const struct tide__pending *p, uint16_t node) {
    bool found = p->passed_anywhere;
    for (unsigned i = 0; i < p->passed_count && !found; i++) {
        found = p->passed[i] == node;
    }
    return found;
}

void tide__pending_passed_on(struct tide_store *store, uint64_t id, uint16_t node) {
    struct tide__pending_table *t = &store->pending;
    bool gone = false;
    uint32_t slot = (uint32_t)id;
    tide_lock(&t->lock);
    struct tide__pending *p = slot < t->capacity ? t->by_slot[slot] : NULL;
    if (p && p->id == id && !p->at && !was_passed_to(p, node)) {
        uint16_t *passed = tide_realloc(p->passed, (p->passed_count + 1u) * sizeof *passed);
        if (passed) {
            passed[p->passed_count++] = node;
            p->passed = passed;
        }
        p->passed_anywhere |= !passed;
        gone = tide__pending_is_gone(t, node) && !p->busy;
    }
    tide_unlock(&t->lock);
    if (gone) {
        TIDE_SOMETIMES(operation_passed_to_the_dead);
        char name[96], text[160];
        tide__node_text(store, node, name);
        (void)snprintf(text, sizeof text, "node %s died", name);
        tide__pending_refused(store, id, TIDE_EDIED, text);
    }
}

/* The keys of unanswered operations that hang on `node`. Groups have none: their messages go again. */
static void keys_gone(struct tide_store *store, uint16_t node, const char *text) {
    struct tide__pending_table *t = &store->pending;
    struct tide__pending *p;
    do {
        uint32_t *positions = NULL;
        uint32_t count = 0;
        tide_lock(&t->lock);
        t->gone[node / 8] |= (uint8_t)(1u << (node % 8));
        for (p = t->first; p && count == 0; p = count ? p : p->next) {
            const bool looks = p->table->operations->hangs_on && !p->busy;
            for (uint32_t i = 0; looks && i < p->count; i++) {
                count += p->table->operations->hangs_on(p, i, node);
            }
        }
        uint64_t id = p ? p->id : 0;
        positions = p ? tide_alloc(count * sizeof *positions) : NULL;
        for (uint32_t i = 0, n = 0; positions && i < p->count; i++) {
            if (p->table->operations->hangs_on(p, i, node)) {
                positions[n++] = i;
            }
        }
        tide_unlock(&t->lock);
        if (positions) {
            tide__pending_answer(store, 0, id, TIDE_EDIED, text, positions, count, TIDE_F32, NULL, 0);
        } else if (p) {
            tide__pending_refused(store, id, TIDE_EDIED, text);
        }
        tide_free(positions);
    } while (p);
}

void tide__pending_node_gone(struct tide_store *store, uint16_t node, const char *text) {
    struct tide__pending_table *t = &store->pending;
    keys_gone(store, node, text);
    for (;;) {
        /* Up to a batch at a time: the list is walked from the start again, but what is gone is not
         * in it then. */
        struct tide__pending *batch[64];
        size_t count = 0;
        tide_lock(&t->lock);
        t->gone[node / 8] |= (uint8_t)(1u << (node % 8));
        for (struct tide__pending *p = t->first; p && count < TIDE_COUNT(batch); p = p->next) {
            if ((p->node == node || was_passed_to(p, node)) && !p->at && !p->busy) {
                p->busy = true;
                batch[count++] = p;
            }
        }
        tide_unlock(&t->lock);
        for (size_t i = 0; i < count; i++) {
            tide__pending_fail(store, batch[i], TIDE_EDIED, text);
        }
        if (count < TIDE_COUNT(batch)) {
            return;
        }
    }
}

bool tide__pending_at_leaver(struct tide_table *table) {
    struct tide_store *store = table->store;
    const uint16_t self = tide__store_self(store);
    bool found = false;
    tide_lock(&store->pending.lock);
    for (struct tide__pending *p = store->pending.first; p && !found; p = p->next) {
        for (uint32_t i = 0; p->table == table && p->at && p->out && i < p->count && !found; i++) {
            found = p->at[i] != self && store->member_state[p->at[i]] == 1 + TIDE_MEMBER_LEAVING;
        }
    }
    tide_unlock(&store->pending.lock);
    return found;
}

/* Static tables: what an own operation still waits for is all parked here, and has gone no way yet.
 * To wait for it would be to wait for oneself: it is parked until the fence is lifted. */
static bool is_parked(const struct tide_table *table, const struct tide__pending *p, uint16_t self) {
    uint32_t keys = 0;
    for (const struct tide__job *job = p->node == self && !TIDE_MUTANT(move_waits_for_itself) ? table->parked : NULL;
         job; job = job->next) {
        keys += job->id == p->id && job->origin == self ? job->count : 0;
    }
    return keys > 0 && keys == p->left;
}

bool tide__pending_before(struct tide_store *store, const struct tide_table *table, uint64_t sequence) {
    const uint16_t self = tide__store_self(store);
    bool found = false;
    tide_lock(&store->pending.lock);
    bool (*left)(const struct tide__pending *, uint64_t) = table->operations->left;
    for (struct tide__pending *p = store->pending.first; p && !found && (left || p->sequence <= sequence);
         p = p->next) {
        found = p->table == table && (left ? left(p, sequence) : !is_parked(table, p, self));
    }
    tide_unlock(&store->pending.lock);
    return found;
}

uint64_t tide__pending_newest(struct tide_store *store) {
    tide_lock(&store->pending.lock);
    uint64_t sequence = store->pending.sequence;
    tide_unlock(&store->pending.lock);
    return sequence;
}

bool tide__pending_older(struct tide_store *store, const struct tide_table *table, uint64_t sequence) {
    bool found = false;
    tide_lock(&store->pending.lock);
    for (struct tide__pending *p = store->pending.first; p && p->sequence <= sequence && !found; p = p->next) {
        found = p->table == table && (p->kind == TIDE__PULL || p->kind == TIDE__PUSH);
    }
    tide_unlock(&store->pending.lock);
    return found;
}

bool tide__pending_stamped(struct tide_store *store, uint32_t domain, uint32_t clock) {
    bool found = false;
    tide_lock(&store->pending.lock);
    for (struct tide__pending *p = store->pending.first; p && !found; p = p->next) {
        found = p->kind == TIDE__PUSH && p->stamp < clock && p->domain == domain;
    }
    tide_unlock(&store->pending.lock);
    return found;
}

void tide__pending_deinit(struct tide_store *store) {
    struct tide__pending_table *t = &store->pending;
    for (struct tide__pending *p = t->first; p;) {
        struct tide__pending *next = p->next;
        pending_free(p);
        p = next;
    }
    tide_free(t->by_slot);
    tide_free(t->generation);
    tide_free(t->free_slots);
}
