/*
 * Operations on keys of other nodes, at their origin: the table of unanswered messages, grouping by
 * destination, and answers scattered into the caller's rows. Who waits for them: ticket.c.
 *
 * One message a node and call (cut at 4 MiB of keys and rows in either direction). Completion is by
 * id: every message is an entry of the pending table; an answer for no entry is counted and
 * dropped. A message may be answered in parts when a slot moved away from under it.
 *
 * The pending lock covers the table of entries *and* every change of a route. A worker groups keys
 * by routes it read without the lock; registration fails if a route changed since, and the worker
 * looks again. Hence whoever changes a route knows, by the sequence number at that moment, every
 * operation that still goes the old way (move.c: fences).
 *
 * An entry is `busy` while an answer is worked in; whoever set that owns it. A caller that gives up
 * (killed, timed out) detaches its ticket from entries that are not busy and waits for those that
 * are.
 */
#include "store/clocked.h"
#include "store/location.h"
#include "store/replica.h"
#include "store/shared.h"

enum { HEAD_BYTES = 96, NODES_SMALL = 64, MESSAGES_MAX = 65000, LOCALIZE_KEYS = 512 };

/* ---- pending entries ---- */

void tide__node_text(struct tide_store *store, uint16_t node, char out[96]) {
    struct tide_member member;
    if (store->net && tide_net_member(store->net, node, &member)) {
        (void)snprintf(out, 96, "%s (%u)", member.name, (unsigned)node);
    } else {
        (void)snprintf(out, 96, "%u", (unsigned)node);
    }
}

/* Lock held. */
static int grow_slots(struct tide__pending_table *t) {
    uint32_t capacity = t->capacity ? t->capacity * 2 : 256;
    if (capacity > TIDE__PENDING_MAX) {
        return TIDE_EBUSY;
    }
    struct tide__pending **by_slot =
        tide_realloc(t->by_slot, capacity * sizeof(struct tide__pending *));
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

static int reserve(struct tide__pending_table *t, uint64_t *id) {
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
}

static void pending_free(struct tide__pending *p) {
    tide_free(p->body);
    tide_blob_unref(p->tail);
    tide_free(p);
}

static void unlink_and_free(struct tide__pending_table *t, struct tide__pending *p) {
    tide_lock(&t->lock);
    *(p->prev ? &p->prev->next : &t->first) = p->next;
    *(p->next ? &p->next->prev : &t->last) = p->prev;
    if (p->fiber) {
        tide__order_end(p);
    }
    release_id(t, p->id);
    tide_unlock(&t->lock);
    if (p->waited_for) {
        tide__locations_answered(p->table);
    }
    tide__admission_return(p->table->store, p->node, 1, p->admitted);
    pending_free(p);
}

/* The entry, now ours; NULL: unknown or in somebody's hands. */
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

/* Unaligned; NULL: all, in order. */
static inline uint32_t position_at(const void *positions, size_t i) {
    uint32_t position = (uint32_t)i;
    if (positions) {
        memcpy(&position, (const char *)positions + i * sizeof position, sizeof position);
    }
    return position;
}

/* Rows of an answer into the caller's memory. False: the answer does not fit the question. */
static bool scatter(struct tide__pending *p, const uint8_t *positions, size_t count, int rows_code,
                    const uint8_t *rows, size_t row_bytes) {
    const size_t floats = p->raw ? p->table->row_floats : p->table->width;
    const bool half = rows_code != TIDE_F32;
    if (row_bytes != floats * (half ? 2 : 4)) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        const uint32_t position = position_at(positions, i);
        if (position >= p->count) {
            return false;
        }
        if (!p->ticket || (p->at && p->at[position] == 0)) {
            continue; /* nobody waits */
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

/* Ours. Keys of a relocating table that are answered now; what was answered before does not count.
 * SIZE_MAX: not a key of the message. */
static size_t settle(struct tide_store *store, struct tide__pending *p, const uint8_t *positions,
                     size_t count) {
    const uint16_t self = tide__store_self(store);
    uint16_t *ats = p->at;
    const uint32_t known = p->count;
    size_t fresh = 0;
    uint32_t out = 0;
    tide_lock(&store->pending.lock);
    for (size_t i = 0; i < count; i++) {
        const uint32_t position = position_at(positions, i);
        if (position >= known) {
            fresh = SIZE_MAX;
            break;
        }
        const uint16_t at = ats[position];
        fresh += at != 0 || TIDE_MUTANT(reloc_counts_answers);
        out += at != 0 && at != self;
        ats[position] = 0;
    }
    p->out -= out;
    tide_unlock(&store->pending.lock);
    return fresh;
}

void tide__pending_answer(struct tide_store *store, uint64_t id, int code, const char *text,
                          const void *positions, size_t count, int rows_code, const void *rows,
                          size_t row_bytes) {
    struct tide__pending_table *t = &store->pending;
    struct tide__pending *p = tide__pending_take(t, id);
    if (!p) {
        atomic_fetch_add_explicit(&store->replies_unknown, 1, memory_order_relaxed);
        return;
    }
    bool fits = count > 0 && (count <= p->left || p->at) && (positions || count == p->count);
    if (fits && !code && p->kind == TIDE__PULL) {
        fits = rows && scatter(p, positions, count, rows_code, rows, row_bytes);
    }
    if (fits && p->at) {
        count = settle(store, p, positions, count);
        fits = count != SIZE_MAX;
    }
    if (!fits) {
        atomic_fetch_add_explicit(&store->malformed, 1, memory_order_relaxed);
        code = TIDE_EPROTO;
        text = "a node answered with the wrong number of rows";
        count = p->left;
    }
    p->left -= (uint32_t)count;
    if (p->left == 0) {
        if (p->ticket) {
            tide__ticket_finish(p->ticket, code, text);
        }
        unlink_and_free(t, p);
        return;
    }
    if (p->ticket) {
        tide__ticket_error(p->ticket, code, text);
    }
    tide_lock(&t->lock);
    p->busy = false;
    tide_unlock(&t->lock);
}

void tide__pending_refused(struct tide_store *store, uint64_t id, int code, const char *text) {
    struct tide__pending *p = tide__pending_take(&store->pending, id);
    if (!p) {
        atomic_fetch_add_explicit(&store->replies_unknown, 1, memory_order_relaxed);
        return;
    }
    if (p->ticket) {
        tide__ticket_finish(p->ticket, code, text);
    }
    unlink_and_free(&store->pending, p);
}

static bool is_gone(const struct tide__pending_table *t, uint16_t node) {
    return t->gone[node / 8] >> (node % 8) & 1;
}

static bool was_passed_to(const struct tide__pending *p, uint16_t node) {
    bool found = p->passed_count > TIDE__PASSED_MAX;
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
        if (p->passed_count < TIDE__PASSED_MAX) {
            p->passed[p->passed_count] = node;
        }
        p->passed_count++;
        gone = is_gone(t, node) && !p->busy;
    }
    tide_unlock(&t->lock);
    if (gone) {
        char name[96], text[160];
        tide__node_text(store, node, name);
        (void)snprintf(text, sizeof text, "node %s died", name);
        tide__pending_refused(store, id, TIDE_EDIED, text);
    }
}

/* May the answer for a key never come because of this death? It is at that node, or that node was
 * to pass it on and perhaps died before the message was out. */
static bool hangs_on(const struct tide__pending *p, uint32_t i, uint16_t node) {
    return p->at[i] == node ||
           (p->at[i] && p->way[i].via == node && !TIDE_MUTANT(reloc_passer_forgotten));
}

/* Relocating tables: the keys of unanswered operations that hang on `node`. */
static void keys_gone(struct tide_store *store, uint16_t node, const char *text) {
    struct tide__pending_table *t = &store->pending;
    struct tide__pending *p;
    do {
        uint32_t *positions = NULL;
        uint32_t count = 0;
        tide_lock(&t->lock);
        t->gone[node / 8] |= (uint8_t)(1u << (node % 8));
        for (p = t->first; p && count == 0; p = count ? p : p->next) {
            const bool stays = !p->at || p->table->replicas || p->busy; /* copies: it goes again */
            for (uint32_t i = 0; !stays && i < p->count; i++) {
                count += hangs_on(p, i, node);
            }
        }
        uint64_t id = p ? p->id : 0;
        positions = p ? tide_alloc(count * sizeof *positions) : NULL;
        for (uint32_t i = 0, n = 0; positions && i < p->count; i++) {
            if (hangs_on(p, i, node)) {
                positions[n++] = i;
            }
        }
        tide_unlock(&t->lock);
        if (positions) {
            tide__pending_answer(store, id, TIDE_EDIED, text, positions, count, TIDE_F32, NULL, 0);
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
            if (batch[i]->ticket) {
                tide__ticket_finish(batch[i]->ticket, TIDE_EDIED, text);
            }
            unlink_and_free(t, batch[i]);
        }
        if (count < TIDE_COUNT(batch)) {
            return;
        }
    }
}

/* Lock held. Keys of the entry are at `node` now. */
static void pass_keys(struct tide__pending *p, uint16_t self, struct tide__way way, uint16_t node,
                      const void *positions, size_t count) {
    uint16_t *at = p->at;
    struct tide__way *ways = p->way;
    const uint32_t known = p->count;
    uint32_t out = 0;
    for (size_t i = 0; i < count; i++) {
        const uint32_t position = position_at(positions, i);
        /* Each leg is told by another node, so that the word of an earlier one may come later. */
        if (position < known && at[position] != 0 && way.leg > ways[position].leg) {
            out += (uint32_t)(node != self) - (uint32_t)(at[position] != self);
            at[position] = node;
            ways[position] = way;
        }
    }
    p->out += out;
}

void tide__pending_at(struct tide_store *store, uint64_t id, struct tide__way way, uint16_t node,
                      const void *positions, size_t count) {
    struct tide__pending_table *t = &store->pending;
    const uint16_t self = tide__store_self(store);
    uint32_t slot = (uint32_t)id;
    tide_lock(&t->lock);
    struct tide__pending *p = slot < t->capacity ? t->by_slot[slot] : NULL;
    const uint16_t dead = is_gone(t, node) ? node : is_gone(t, way.via) ? way.via : 0;
    if (p && p->id == id && p->way) {
        pass_keys(p, self, way, node, positions, count);
    }
    if (p && p->id == id && p->sent == 0) {
        p->sent = ++t->sequence;
    }
    tide_unlock(&t->lock);
    if (dead) {
        char name[96], text[160];
        tide__node_text(store, dead, name);
        (void)snprintf(text, sizeof text, "node %s died", name);
        tide__pending_node_gone(store, dead, text);
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
static bool is_parked(const struct tide_table *table, const struct tide__pending *p,
                      uint16_t self) {
    uint32_t keys = 0;
    for (const struct tide__job *job =
             p->node == self && !TIDE_MUTANT(move_waits_for_itself) ? table->parked : NULL;
         job; job = job->next) {
        keys += job->id == p->id && job->origin == self ? job->count : 0;
    }
    return keys > 0 && keys == p->left;
}

bool tide__pending_before(struct tide_store *store, const struct tide_table *table,
                          uint64_t sequence) {
    const uint16_t self = tide__store_self(store);
    bool found = false;
    tide_lock(&store->pending.lock);
    for (struct tide__pending *p = store->pending.first; p && table->relocates && !found;
         p = p->next) {
        found = p->table == table && p->out && p->sent <= sequence;
    }
    if (table->relocates) { /* what has not left this node waits in the store actor itself */
        tide_unlock(&store->pending.lock);
        return found;
    }
    for (struct tide__pending *p = store->pending.first; p && p->sequence <= sequence && !found;
         p = p->next) {
        found = p->table == table && !is_parked(table, p, self);
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

bool tide__pending_older(struct tide_store *store, const struct tide_table *table,
                         uint64_t sequence) {
    bool found = false;
    tide_lock(&store->pending.lock);
    for (struct tide__pending *p = store->pending.first; p && p->sequence <= sequence && !found;
         p = p->next) {
        found = p->table == table && (p->kind == TIDE__PULL || p->kind == TIDE__PUSH);
    }
    tide_unlock(&store->pending.lock);
    return found;
}

bool tide__pending_stamped(struct tide_store *store, uint32_t clock) {
    bool found = false;
    tide_lock(&store->pending.lock);
    for (struct tide__pending *p = store->pending.first; p && !found; p = p->next) {
        found = p->kind == TIDE__PUSH && p->stamp < clock;
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

/* ---- grouping ---- */

struct request { /* a message on its way out; apart from its entry, which may end at any moment once
                    registered */
    struct request *next;
    struct tide__pending *pending; /* until registered */
    uint64_t id;
    struct tide_writer body;
    struct tide_blob *tail;
    uint16_t node;
    size_t ids_at;    /* tables with copies: where its sequence is in the body */
    uint8_t buffer[]; /* of the body */
};

static void request_free(struct tide_store *store, struct request *r) {
    if (r->pending) { /* never registered */
        if (r->pending->admitted) {
            tide__admission_return(store, r->node, 1, r->pending->admitted);
        }
        tide_lock(&store->pending.lock);
        release_id(&store->pending, r->id);
        tide_unlock(&store->pending.lock);
        pending_free(r->pending);
    }
    tide_writer_release(&r->body);
    tide_blob_unref(r->tail);
    tide_free(r);
}

static void requests_free(struct tide_store *store, struct request *r) {
    while (r) {
        struct request *next = r->next;
        request_free(store, r);
        r = next;
    }
}

static uint8_t wire_code(const struct tide_table *table, bool raw) {
    return raw || table->options.wire == TIDE_WIRE_F32 ? TIDE_F32
           : table->options.wire == TIDE_WIRE_F16      ? TIDE_F16
                                                       : TIDE_BF16;
}

static int write_rows(struct request *r, const struct tide__pass *pass, const uint32_t *positions,
                      size_t count) {
    struct tide_table *table = pass->table;
    const size_t floats = pass->raw ? table->row_floats : table->width;
    const uint8_t code = wire_code(table, pass->raw);
    const size_t bytes = floats * (code == TIDE_F32 ? 4 : 2);
    r->tail = tide_blob_create(count * bytes);
    if (!r->tail) {
        return tide_fail(TIDE_ENOMEM, "no memory for %zu rows to push", count);
    }
    for (size_t i = 0; i < count; i++) {
        const uint8_t *row = pass->in + (size_t)positions[i] * floats * 4;
        char *out = (char *)r->tail->data + i * bytes;
        if (code == TIDE_F32) {
            memcpy(out, row, bytes);
        } else {
            tide__floats_to_half(row, out, floats, table->options.wire);
        }
    }
    tide_write_typed_head(&r->body, code, count * floats);
    return 0;
}

/* One message for `count` keys at `positions` of the call. */
static int make_request(const struct tide__pass *pass, enum tide__kind kind,
                        struct tide__ticket *ticket, uint16_t node, const uint32_t *positions,
                        size_t count, struct request **out) {
    struct tide_table *table = pass->table;
    struct tide_store *store = table->store;
    const bool traced = table->relocates || table->replicas;
    const size_t at_bytes = traced ? count * sizeof(uint16_t) : 0;
    const size_t way_bytes = table->relocates ? count * sizeof(struct tide__way) : 0;
    struct tide__pending *p;
    const size_t keys_at =
        (sizeof *p + count * sizeof p->index[0] + way_bytes + at_bytes + 7) / 8 * 8;
    p = tide_alloc(keys_at + (table->relocates ? count * sizeof p->keys[0] : 0));
    const size_t body_bytes = HEAD_BYTES + count * sizeof(uint64_t);
    struct request *r = tide_alloc(sizeof *r + body_bytes);
    if (!p || !r || reserve(&store->pending, &r->id)) {
        tide_free(p);
        tide_free(r);
        return TIDE_ENOMEM;
    }
    r->next = NULL;
    r->tail = NULL;
    *p = (struct tide__pending){.id = r->id,
                                .table = table,
                                .ticket = ticket,
                                .count = (uint32_t)count,
                                .left = (uint32_t)count,
                                .node = node,
                                .kind = (uint8_t)kind,
                                .raw = pass->raw,
                                .stamp = pass->stamp};
    memcpy(p->index, positions, count * sizeof *positions);
    if (traced) {
        p->way = table->relocates ? (struct tide__way *)(void *)(p->index + count) : NULL;
        p->at = (uint16_t *)(void *)((char *)(p->index + count) + way_bytes);
        if (p->way) {
            memset(p->way, 0, way_bytes);
        }
        for (size_t i = 0; i < count; i++) {
            p->at[i] = node;
        }
        p->fiber = table->replicas && kind == TIDE__PULL && pass->async ? tide_fiber_current() : NULL;
        p->out = table->replicas && node != tide__store_self(store) ? (uint32_t)count : 0;
    }
    r->pending = p;
    r->node = node;
    *out = r;
    struct tide_writer *w = &r->body;
    tide_writer_init(w, r->buffer, body_bytes);
    tide_write_array(w, tide__job_fields(table, kind));
    tide_write_uint(w, kind);
    tide_write_uint(w, table->id);
    tide_write_uint(w, r->id);
    tide_write_uint(w, atomic_load_explicit(&table->map_version, memory_order_relaxed));
    tide_write_uint(w, tide__store_self(store));
    tide_write_uint(w, 0);
    tide_write_uint(w, pass->flags);
    if (kind == TIDE__PUSH) {
        tide_write_uint(w, pass->stamp);
    }
    if (table->replicas) {
        tide_write_typed_head(w, TIDE_U64, 2);
        r->ids_at = w->size;
        (void)tide_write_reserve(w, 2 * sizeof(uint64_t)); /* known when it is enlisted */
    } else if (tide__job_has_terms(table, kind)) {
        tide_write_nil(w);
    }
    tide_write_nil(w);
    tide_write_typed_head(w, TIDE_U64, count);
    p->keys_at = (uint32_t)w->size;
    char *keys = tide_write_reserve(w, count * sizeof(uint64_t));
    for (size_t i = 0; keys && i < count; i++) {
        memcpy(keys + i * 8, (const char *)pass->keys + (size_t)positions[i] * 8, 8);
    }
    if (keys && table->relocates) {
        p->keys = (uint64_t *)(void *)((char *)p + keys_at);
        memcpy(p->keys, keys, count * sizeof p->keys[0]);
    }
    int code = kind == TIDE__PUSH ? write_rows(r, pass, positions, count) : 0;
    if (!code && !w->error && table->replicas) {
        p->body = tide_alloc(w->size);
        p->body_bytes = (uint32_t)w->size;
        p->tail = r->tail ? tide_blob_ref(r->tail) : NULL;
        code = p->body ? 0 : tide_fail(TIDE_ENOMEM, "no memory to keep an operation");
    }
    return code       ? code
           : w->error ? tide_fail(w->error, "no memory for a message of %zu keys", count)
                      : 0;
}

static size_t keys_a_message(const struct tide__pass *pass, enum tide__kind kind) {
    const size_t floats = pass->raw ? pass->table->row_floats : pass->table->width;
    return kind == TIDE__LOCALIZE ? LOCALIZE_KEYS
                                  : TIDE__MESSAGE_BYTES / (floats * sizeof(float) + 16) + 1;
}

/* See group(), of a table that relocates: all to the own store actor, which alone knows where a key is
 * to be had. */
static int group_own(const struct tide__pass *pass, enum tide__kind kind,
                     struct tide__ticket *ticket, struct request **out) {
    const struct tide__misses *m = pass->misses;
    const uint16_t self = tide__store_self(pass->table->store);
    const size_t most = keys_a_message(pass, kind);
    int code = 0;
    for (size_t at = 0; at < m->count && !code; at += most) {
        const size_t count = m->count - at < most ? m->count - at : most;
        code = make_request(pass, kind, ticket, self, m->at + at, count, out);
        out = *out ? &(*out)->next : out;
    }
    return code;
}

/* Messages for the misses of a pass. *stale: a route changed meanwhile, or a key is served here
 * now. */
static int group(const struct tide__pass *pass, enum tide__kind kind, struct tide__ticket *ticket,
                 struct request **out, bool *stale) {
    struct tide_table *table = pass->table;
    const struct tide__misses *m = pass->misses;
    const uint16_t self = tide__store_self(table->store);
    if (table->relocates) {
        return group_own(pass, kind, ticket, out);
    }
    uint32_t small[NODES_SMALL] = {0}, *start = small;
    uint16_t *node = NULL, highest = 0;
    uint32_t *order = tide_alloc(m->count * (sizeof *order + sizeof *node));
    struct request **end = out;
    int code = 0;
    if (!order) {
        return tide_fail(TIDE_ENOMEM, "no memory to group %zu keys", m->count);
    }
    node = (uint16_t *)(void *)(order + m->count);
    for (size_t i = 0; i < m->count && !*stale; i++) {
        uint64_t key;
        memcpy(&key, (const char *)pass->keys + (size_t)m->at[i] * 8, 8);
        /* acquire: pairs with the release of a route, for `changes` */
        uint32_t route = atomic_load_explicit(&table->slots[tide__slot_of(table, key)].route,
                                              memory_order_acquire);
        if (TIDE_UNLIKELY(route & TIDE__LOST)) {
            code = tide__lost_fail(table, tide__slot_of(table, key), key);
            goto out;
        }
        *stale = (route & TIDE__FOR_WORKER) == TIDE__MINE && !table->replicas;
        bool own = route & (TIDE__WORKER_HOLD | TIDE__MINE);
        node[i] = own ? self : tide__route_home(route);
        highest = node[i] > highest ? node[i] : highest;
    }
    if (highest + 2 > NODES_SMALL) {
        start = tide_alloc_zero(highest + 2u, sizeof *start);
    }
    if (!start || *stale) {
        code = start ? 0 : TIDE_ENOMEM;
        goto out;
    }
    for (size_t i = 0; i < m->count;
         i++) { /* counting sort: stable, so duplicates keep their order */
        start[node[i] + 1]++;
    }
    for (unsigned n = 0; n <= highest; n++) {
        start[n + 1] += start[n];
    }
    for (size_t i = 0; i < m->count; i++) {
        order[start[node[i]]++] = m->at[i]; /* start[n] becomes the end of n's keys */
    }
    const size_t most = keys_a_message(pass, kind);
    for (unsigned n = 0, at = 0; n <= highest && !code; n++) {
        while (at < start[n] && !code) {
            size_t count = start[n] - at < most ? start[n] - at : most;
            code = make_request(pass, kind, ticket, (uint16_t)n, order + at, count, end);
            end = *end ? &(*end)->next : end;
            at += (unsigned)count;
        }
    }
out:
    if (start != small) {
        tide_free(start);
    }
    tide_free(order);
    return code;
}

/* Keys and rows of a message, in both directions. */
static uint32_t bytes_of(const struct request *r, const struct tide__pass *pass) {
    const struct tide_table *table = pass->table;
    size_t row = (pass->raw ? table->row_floats : table->width) * sizeof(float);
    size_t answer = r->pending->kind == TIDE__PULL ? r->pending->count * row : 0;
    return (uint32_t)(r->body.size + (r->tail ? r->tail->size : 0) + answer);
}

/* Room and credit for all messages of a call; they are in the order of their nodes. */
static int admit(const struct tide__pass *pass, struct request *requests) {
    struct tide_store *store = pass->table->store;
    uint32_t left_messages = 0;
    uint64_t left = 0;
    for (struct request *r = requests; r; r = r->next) {
        left_messages++;
        left += bytes_of(r, pass);
    }
    int code = tide__admission_enter(store, left_messages, left);
    for (struct request *r = requests, *end; r && !code; r = end) {
        uint32_t messages = 0;
        uint64_t bytes = 0;
        for (end = r; end && end->node == r->node; end = end->next) {
            messages++;
            bytes += bytes_of(end, pass);
        }
        code = tide__admission_take(store, r->node, messages, bytes);
        if (code) {
            tide__admission_leave(store, left_messages, left);
            return code;
        }
        for (struct request *m = r; m != end; m = m->next) {
            m->pending->admitted = bytes_of(m, pass);
        }
        left_messages -= messages;
        left -= bytes;
    }
    return code;
}

/* Keys of the table are shared since the pass began. Whoever shares them does it under the lock of
 * the pending table: what is registered before is answered before the first copy is made. */
static bool is_overtaken(const struct tide__pass *pass) {
    return pass->unshared && tide__shared_of(pass->table) && !TIDE_MUTANT(share_first_copies);
}

/* From here on the entries may be answered. False: routes changed, or it was overtaken; nothing was
 * registered. */
static bool enlist(const struct tide__pass *pass, struct tide__ticket *ticket,
                   struct request *requests, uint64_t changes, size_t *count) {
    struct tide_table *table = pass->table;
    struct tide__pending_table *t = &table->store->pending;
    const uint16_t self = tide__store_self(table->store);
    *count = 0;
    for (struct request *r = requests; r; r = r->next) {
        ++*count;
    }
    atomic_store_explicit(&ticket->state, *count + 1,
                          memory_order_relaxed); /* one for ourselves while we send */
    tide_lock(&t->lock);
    if (is_overtaken(pass) ||
        (!table->relocates &&
         atomic_load_explicit(&table->changes, memory_order_relaxed) != changes)) {
        tide_unlock(&t->lock);
        atomic_store_explicit(&ticket->state, 0, memory_order_relaxed);
        return false;
    }
    for (struct request *r = requests; r; r = r->next) {
        struct tide__pending *p = r->pending;
        p->sequence = ++t->sequence;
        p->prev = t->last;
        *(t->last ? &t->last->next : &t->first) = p;
        t->last = p;
        t->by_slot[(uint32_t)p->id] = p;
        if (p->fiber) {
            tide__order_begin(p);
        }
        if (r->node == self) { /* tide__pass_pull reads it without the lock */
            atomic_fetch_add_explicit(&table->self_sent, 1, memory_order_relaxed);
        }
        if (p->body) {
            const uint64_t ids[2] = {p->sequence, t->first->sequence};
            memcpy(r->body.data + r->ids_at, ids, sizeof ids);
            memcpy(p->body, r->body.data, p->body_bytes);
        }
        r->pending = NULL;
    }
    tide_unlock(&t->lock);
    return true;
}

static void fail_request(const struct tide__pass *pass, const struct request *r, int code) {
    struct tide_table *table = pass->table;
    struct tide_store *store = table->store;
    char name[96], text[700];
    tide__node_text(store, r->node, name);
    if (code == TIDE_EDIED) {
        (void)snprintf(text, sizeof text, "node %s died", name);
    } else if (code == TIDE_EUNREACHABLE) {
        (void)snprintf(text, sizeof text, "no route to node %s", name);
    } else {
        (void)snprintf(text, sizeof text, "%s", tide_error_message());
    }
    if (r->node == tide__store_self(store)) {
        tide_lock(&store->pending.lock);
        atomic_fetch_sub_explicit(&table->self_sent, 1, memory_order_relaxed);
        tide_unlock(&store->pending.lock);
    }
    if (table->replicas && (code == TIDE_EDIED || code == TIDE_EUNREACHABLE)) {
        return; /* the group will change, and it goes out again */
    }
    struct tide__pending *p = tide__pending_take(&store->pending, r->id);
    if (p) {
        if (pass->hands_over && table->relocates) {
            tide__owner_take_back(table, pass->keys, p->index, p->count);
        }
        if (p->ticket) {
            tide__ticket_finish(p->ticket, code, text);
        }
        unlink_and_free(&store->pending, p);
    }
}

static void send_requests(const struct tide__pass *pass, struct request *requests) {
    struct tide_table *table = pass->table;
    struct tide_store *store = table->store;
    uint64_t messages = 0, bytes = 0;
    for (struct request *r = requests; r; r = r->next) {
        int code = 0;
        tide_lock(&store->pending.lock);
        if (is_gone(&store->pending, r->node)) {
            code = TIDE_EDIED;
        }
        tide_unlock(&store->pending.lock);
        if (!code) {
            code = tide__store_send(store, r->node, TIDE_LANE_STORE, false, r->body.data,
                                    r->body.size, r->tail);
        }
        if (code) {
            fail_request(pass, r, code);
        }
        messages++;
        bytes += r->body.size + (r->tail ? r->tail->size : 0);
    }
    tide__table_count(table, TIDE__MESSAGES_OUT, messages);
    tide__table_count(table, TIDE__BYTES_OUT, bytes);
}

/* Routes changed between the walk and the registration: what has come here meanwhile is done here.
 */
static int walk_again(struct tide__pass *pass, enum tide__kind kind) {
    struct tide__misses left;
    tide__misses_init(&left);
    struct tide__pass again = *pass;
    again.index = pass->misses->at;
    again.count = pass->misses->count;
    again.at = 0;
    again.misses = &left;
    int code = kind == TIDE__PULL ? tide__pass_pull(&again) : tide__pass_push(&again);
    tide__table_count(pass->table, kind == TIDE__PULL ? TIDE__PULLS_LOCAL : TIDE__PUSHES_LOCAL,
                      again.at - left.count);
    memcpy(pass->misses->at, left.at, left.count * sizeof *left.at);
    pass->misses->count = left.count;
    tide__misses_release(&left);
    return code;
}

int tide__remote_start(struct tide__pass *pass, enum tide__kind kind, struct tide__ticket *ticket) {
    struct tide_table *table = pass->table;
    struct tide_store *store = table->store;
    if (!store->system) {
        return tide_fail(TIDE_EUNREACHABLE, "table '%s' is of this process only", table->name);
    }
    for (;;) {
        tide__store_yield(store); /* between the local pass and the remote one */
        if (TIDE_BUGGIFY(remote_late) && tide_fiber_current()) {
            (void)tide_sleep(TIDE_SECOND / 1000);
        }
        struct request *requests = NULL;
        bool stale = false;
        uint64_t changes = atomic_load_explicit(
            &table->changes, memory_order_acquire); /* before the routes are read */
        int code = group(pass, kind, ticket, &requests, &stale);
        size_t messages = 0;
        code = code || stale ? code : admit(pass, requests);
        if (!code && !stale && enlist(pass, ticket, requests, changes, &messages)) {
            if (kind != TIDE__LOCALIZE) {
                tide__table_count(table,
                                  kind == TIDE__PULL ? TIDE__PULLS_REMOTE : TIDE__PUSHES_REMOTE,
                                  pass->misses->count);
            }
            send_requests(pass, requests);
            requests_free(store, requests);
            tide__ticket_finish(ticket, 0, NULL);
            return 0;
        }
        requests_free(store, requests);
        code = code                 ? code
               : is_overtaken(pass) ? TIDE__OVERTAKEN
                                    : 0;
        if (code && pass->hands_over && table->relocates) {
            tide__owner_take_back(table, pass->keys, pass->misses->at, pass->misses->count);
        }
        code = code ? code : walk_again(pass, kind);
        if (code || pass->misses->count == 0) {
            return code;
        }
    }
}
