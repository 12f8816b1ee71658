/*
 * What leaves a node at a clock: what accumulated in the copies is packed (one sequence of DELTAs
 * to each home), then TICK goes to every node. No thread waits for an answer.
 *
 * A few rows are packed by the worker that moves the node's clock, on its own thread. Of more it
 * makes the list, and the I/O thread packs them part by part, while the worker continues: with a
 * bound of a clock or more it needs none of it yet. What it pushes meanwhile may leave along with
 * them, ahead of its clock, as early sends do. With a bound of 0 it would wait for them: so it
 * packs.
 *
 * Packing and sending happen under one lock of the node and domain, so DELTAs leave in the order of their
 * numbers and a TICK behind those it closes, whichever thread sends. Between two parts the lock is
 * free; its next holder first packs the rest. The holder never suspends.
 */
#include "store/core/table_drop.h"
#include "store/clocked/clocked.h"
#include "store/clocked/vap.h"

/* What leaves was taken from its pushers, and its clock is about to be announced: also on a
 * worker's thread there is no caller for ENOMEM. */
bool tide__flush_try(struct tide__sync *sync) {
    const bool mine = !atomic_exchange_explicit(&sync->flushing, true, memory_order_acquire);
    if (mine && !TIDE_MUTANT(tick_refused)) {
        sync->memory = tide__memory_swap(TIDE_MEMORY_VITAL);
    }
    return mine;
}

void tide__flush_unlock(struct tide__sync *sync) {
    if (!TIDE_MUTANT(tick_refused)) {
        (void)tide__memory_swap(sync->memory);
    }
    atomic_store_explicit(&sync->flushing, false, memory_order_release); /* pairs with flush_try */
}

/* ---- deltas ---- */

struct tide__batch { /* a DELTA that is about to be sent */
    struct tide__batch *next;
    uint16_t node;
    uint32_t stamp; /* the clock of the cut after which its pushes are; 0: before */
    uint64_t number;
    uint32_t count, most;
    bool whole; /* all blocks of all rows */
    size_t floats;
    struct tide_blob *rows; /* NULL: it is empty */
    uint32_t *blocks;       /* of each row, behind the keys */
    uint64_t keys[];
};

static void batch_send(struct tide__clocked *c, struct tide__batch *b) {
    if (!b->rows) {
        return;
    }
    const size_t floats = b->floats;
    struct tide_writer w;
    uint8_t head[64];
    tide_writer_init(&w, head, sizeof head);
    tide__message_write(&w, TIDE__AS(DELTA, .table = c->table->id, .origin = tide__store_self(c->table->store),
                                     .number = b->number, .stamp = b->stamp, .keys = TIDE__LIST(b->keys, b->count),
                                     .blocks = TIDE__LIST(b->blocks, b->whole ? 0 : b->count),
                                     .rows = TIDE__LIST_HEAD_OF(floats)));
    b->rows->size = floats * sizeof(float);
    atomic_fetch_add_explicit(&c->deltas_out, b->count, memory_order_relaxed);
    atomic_fetch_add_explicit(&c->delta_bytes, w.size + b->rows->size, memory_order_relaxed);
    if (tide__sync_send_in_line(c->sync, b->node, &w, b->rows)) {
        tide_log(TIDE_LOG_DEBUG, tide_node_name(c->table->store->node), "updates of table '%s' are lost with node %u",
                 c->table->name, (unsigned)b->node);
    }
    tide_blob_unref(b->rows);
    b->rows = NULL;
}

/* With room for one more row, of at most `left` that follow; NULL: out of memory. */
static struct tide__batch *batch_for(struct tide__clocked *c, struct tide__batch **batches, uint16_t node,
                                     uint32_t stamp, size_t left) {
    const size_t row = c->shape.floats * sizeof(float), most = tide__chunk_rows(c);
    const size_t bytes = sizeof(struct tide__batch) + most * (sizeof(uint64_t) + sizeof(uint32_t));
    struct tide__batch *b = *batches;
    while (b && (b->node != node || b->stamp != stamp)) {
        b = b->next;
    }
    if (!b && (b = tide_alloc(bytes))) {
        *b = (struct tide__batch){.next = *batches, .node = node, .stamp = stamp, .most = (uint32_t)most};
        b->blocks = (uint32_t *)(void *)(b->keys + most);
        *batches = b;
    }
    if (b && !b->rows) {
        const size_t size = (left < most ? left : most) * row;
        b->rows = tide_blob_create(size);
        if (!b->rows) { /* a row of more than 1 MiB */
            tide__memory_needed(size);
        }
        b->number = ++c->sync->number;
        b->count = 0;
        b->floats = 0;
        b->whole = true;
    }
    return b && b->rows ? b : NULL;
}

/* Latched. False: it cannot be sent now and stays dirty. `left`: rows that follow, with it. */
static bool pack(struct tide__clocked *c, struct tide__copy_record *r, uint64_t key, size_t left,
                 struct tide__batch **batches) {
    const uint32_t slot = tide__slot_of(c->table, key);
    if (atomic_load_explicit(&c->shifting[slot], memory_order_relaxed)) {
        return false;
    }
    const uint32_t cut = atomic_load_explicit(&c->sync->run->cut_clock, memory_order_acquire),
                   stamp = cut != TIDE_NO_CLOCK && r->newest >= cut ? cut : 0;
    struct tide__batch *b = batch_for(c, batches, tide__via(c, slot), stamp, left);
    float *row = b ? (float *)b->rows->data + b->floats : NULL;
    const uint16_t blocks = r->blocks;
    if (!b || tide__copy_record_send(&c->shape, r, blocks, b->number, b->rows, row)) {
        return false;
    }
    b->blocks[b->count] = blocks;
    b->whole = b->whole && blocks == c->shape.all;
    b->floats += tide__blocks_floats(&c->shape, blocks);
    if (c->vap) {
        tide__vap_packed(c, key, b->number);
    }
    b->keys[b->count] = key;
    if (++b->count == b->most) {
        batch_send(c, b);
    }
    return true;
}

/* In the order of the records, for the sake of the caches: here, and at the homes, where rows were
 * made in that order. Drops what is listed twice (a record that was freed and taken again). */
static size_t put_in_order(struct tide__clocked *c, uint64_t *records, size_t count) {
    tide_lock(&c->index->slab.lock);
    const uint32_t end = c->index->slab.next;
    tide_unlock(&c->index->slab.lock);
    uint64_t *set = end / 64 < count ? tide_alloc_zero(end / 64 + 1, sizeof *set) : NULL;
    size_t kept = 0;
    if (!set) {
        return count; /* few of many */
    }
    for (size_t i = 0; i < count; i++) {
        set[records[i] / 64] |= UINT64_C(1) << (records[i] % 64);
    }
    for (uint64_t at = 0; at <= end / 64; at++) {
        for (uint64_t word = set[at]; word; word &= word - 1) {
            records[kept++] = at * 64 + (uint64_t)__builtin_ctzll(word);
        }
    }
    tide_free(set);
    return kept;
}

/* What accumulated until now is to leave. */
static struct tide__leaving leaving_list(struct tide__clocked *c) {
    tide__late_send(c);
    tide_lock(&c->dirty.lock);
    struct tide__leaving l = {.records = c->dirty.at, .count = c->dirty.count};
    c->dirty.at = NULL;
    c->dirty.count = c->dirty.capacity = 0;
    tide_unlock(&c->dirty.lock);
    l.count = put_in_order(c, l.records, l.count);
    return l;
}

/* Records lie one behind the other, the words that lead to them anywhere. */
static void fetch_ahead(struct tide__clocked *c, const uint64_t *records, size_t count, size_t i) {
    enum { FAR = 12, MIDDLE = 8, NEAR = 4, LINE = 64, BYTES_MOST = 1024 };
    if (i + FAR < count) {
        __builtin_prefetch(tide__copy_at(c, (uint32_t)records[i + FAR]));
    }
    if (i + MIDDLE < count) {
        const struct tide__copy_record *r = tide__copy_at(c, (uint32_t)records[i + MIDDLE]);
        const uint64_t key = atomic_load_explicit(&r->key, memory_order_relaxed);
        __builtin_prefetch(&c->index->slots[tide__slot_of(c->index, key)]);
    }
    if (i + NEAR < count) {
        struct tide__copy_record *r = tide__copy_at(c, (uint32_t)records[i + NEAR]);
        const uint64_t key = atomic_load_explicit(&r->key, memory_order_relaxed);
        const char *acc = (const char *)tide__copy_record_acc(&c->shape, r);
        const size_t bytes = c->shape.floats * sizeof(float);
        tide__fetch_word(c->index, tide__slot_of(c->index, key), key);
        for (size_t at = 0; at < bytes && at < BYTES_MOST; at += LINE) {
            __builtin_prefetch(acc + at, 1);
        }
    }
}

static void record_leaves(struct tide__clocked *c, struct tide__leaving *l, size_t i) {
    struct tide__copy_record *r = tide__copy_at(c, (uint32_t)l->records[i]), *found;
    uint64_t old;
    atomic_uint_fast64_t *word;
    const uint64_t key = atomic_load_explicit(&r->key, memory_order_relaxed);
    int code = atomic_load_explicit(&r->in_use, memory_order_acquire) ? TIDE_EBUSY : TIDE__NOT_FOUND;
    while (code == TIDE_EBUSY) { /* without yielding to a fiber that may spin for the flush lock */
        code = tide__copy_lock(c, key, false, false, &word, &old, &found);
    }
    if (code != TIDE__FOUND) {
        return;
    }
    if (found == r) {
        tide__copy_record_confirm(
            r, atomic_load_explicit(&c->confirmed[tide__slot_of(c->table, key)], memory_order_relaxed));
        if (r->dirty && !pack(c, r, key, l->count - i, &l->batches)) {
            tide__dirty_add(c, r, old);
        }
    }
    tide__word_unlock(word, old);
}

/* The next rows leave, so many at most. False: there are more. */
static bool leave(struct tide__clocked *c, struct tide__leaving *l, size_t most) {
    const size_t end = l->count - l->next > most ? l->next + most : l->count;
    for (; l->next < end; l->next++) {
        fetch_ahead(c, l->records, l->count, l->next);
        record_leaves(c, l, l->next);
    }
    while (end == l->count && l->batches) {
        struct tide__batch *b = l->batches;
        batch_send(c, b);
        l->batches = b->next;
        tide_free(b);
    }
    return end == l->count;
}

void tide__flush_records(struct tide__clocked *c, uint64_t *records, size_t count) {
    struct tide__leaving l = {.records = records, .count = count};
    (void)leave(c, &l, count);
}

void tide__flush_table(struct tide__clocked *c) {
    struct tide__leaving l = leaving_list(c);
    (void)leave(c, &l, l.count);
    tide_free(l.records);
    if (c->vap) {
        tide__vap_flush(c);
    }
}

void tide__leaving_free(struct tide__leaving *l) {
    while (l->batches) {
        struct tide__batch *next = l->batches->next;
        if (l->batches->rows) {
            tide_blob_unref(l->batches->rows);
        }
        tide_free(l->batches);
        l->batches = next;
    }
    tide_free(l->records);
    *l = (struct tide__leaving){.records = NULL};
}

/* ---- ticks ---- */

static void tick_to(struct tide__sync *sync, uint16_t node) {
    (void)tide__sync_tell_in_line(
        sync, node, TIDE__AS(TICK, .domain = sync->run->number, .clock = sync->ticked, .highest = sync->highest));
}

void tide__tick_send(struct tide__sync *sync, uint32_t clock) {
    sync->ticked = clock;
    for (struct tide__party *p = atomic_load_explicit(&sync->peers, memory_order_acquire); p;
         p = __atomic_load_n(&p->next, __ATOMIC_ACQUIRE)) {
        if (!atomic_load_explicit(&p->lost, memory_order_relaxed)) {
            tick_to(sync, p->id);
        }
    }
}

void tide__tick_tell(struct tide__sync *sync, uint16_t node) {
    tide__flush_lock(sync);
    tick_to(sync, node);
    tide__flush_unlock(sync);
}

/* ---- parts ---- */

/* What of a clock's updates has not left: the next part of a table's, and TICK behind the last.
 * False: there is more. Lock held. */
static bool part_leaves(struct tide__sync *sync) {
    unsigned place = 0;
    for (struct tide__clocked *c = tide__clocked_next(sync, &place); c; c = tide__clocked_next(sync, &place)) {
        if (!c->leaving.records) {
            continue;
        }
        const size_t rows = TIDE_BUGGIFY(clock_in_parts) ? 3 : tide__chunk_rows(c);
        if (leave(c, &c->leaving, rows)) {
            tide__leaving_free(&c->leaving);
        }
        return false;
    }
    sync->leaving = false;
    sync->highest = tide__highest_clock(sync->run);
    tide__tick_send(sync, sync->leaves);
    return true;
}

static void rest_leaves(struct tide__sync *sync) {
    while (sync->leaving && !part_leaves(sync)) {
    }
}

void tide__flush_lock(struct tide__sync *sync) {
    while (!tide__flush_try(sync)) {
        tide_pause();
    }
    rest_leaves(sync);
}

void tide__flush_apart(struct tide__clocked *c, uint64_t record) {
    struct tide__sync *sync = c->sync;
    tide__flush_lock(sync);
    tide__flush_records(c, &record, 1);
    tide__flush_unlock(sync);
    (void)tide_yield();
}

/* To the I/O thread: a part. The holder of the lock by then packs the rest. */
static void part_ask(struct tide__sync *sync) {
    if (tide__sync_tell(sync, tide__store_self(sync->store), TIDE__AS(PART, .domain = sync->run->number))) {
        tide__flush_lock(sync);
        tide__flush_unlock(sync);
    }
}

int tide__part_message(struct tide_store *store, struct tide__incoming *in) {
    struct tide__sync *sync = tide__clocks_of(store, in, in->as.PART.domain);
    if (sync && tide__flush_try(sync)) {
        const bool more = sync->leaving && !part_leaves(sync);
        tide__flush_unlock(sync);
        if (more) {
            part_ask(sync);
        }
    }
    return 0;
}

/* ---- clocks ---- */

/* How far the worker may be ahead of the slowest, as the tables say that it used; UINT32_MAX: any
 * way. */
static uint32_t slack_of(const struct tide__worker *worker) {
    uint32_t slack = UINT32_MAX;
    for (const struct tide__staleness_stats *t = worker->staleness_stats; t; t = t->of_worker) {
        if (tide__has_clock_bound(t->c) && !atomic_load(&t->c->table->closing)) {
            uint32_t s = atomic_load_explicit(&t->c->staleness, memory_order_relaxed);
            slack = s < slack ? s : slack;
        }
    }
    return slack;
}

/* Lists what leaves at a clock; how many bytes it may come to. Lock held. */
static size_t clock_leaves(struct tide__sync *sync, uint32_t clock) {
    size_t bytes = 0;
    unsigned place = 0;
    for (struct tide__clocked *c = tide__clocked_next(sync, &place); c; c = tide__clocked_next(sync, &place)) {
        if (c->vap) {
            tide__flush_table(c); /* it is waited for */
        } else {
            c->leaving = leaving_list(c);
            bytes += c->leaving.count * c->shape.floats * sizeof(float);
        }
    }
    sync->leaves = clock;
    sync->leaving = true;
    return bytes;
}

/* A watch of clock.h: on the thread of a worker that moved the node's clock. */
void tide__clock_changed(void *arg, uint32_t clock) {
    struct tide__sync *sync = arg;
    struct tide_store *store = sync->store;
    const struct tide__worker *worker = tide__worker_current();
    tide__flush_lock(sync);
    if (clock < sync->ticked && sync->ticked != TIDE_NO_CLOCK) {
        tide__flush_unlock(sync); /* a worker that begins: it was raised to what was ticked */
        return;
    }
    if (TIDE_MUTANT(tick_before_deltas)) {
        tide__tick_send(sync, clock);
    }
    const bool many = clock_leaves(sync, clock) > tide_limit(store_clock_chunk_bytes) || TIDE_BUGGIFY(clock_in_parts);
    if (!many || clock == TIDE_NO_CLOCK || !worker || slack_of(worker) == 0) {
        rest_leaves(sync);
    }
    const bool in_parts = sync->leaving;
    if (in_parts && TIDE_MUTANT(tick_before_parts)) {
        tide__tick_send(sync, clock);
    }
    tide__flush_unlock(sync);
    if (in_parts) {
        part_ask(sync);
    }
    const unsigned entered = tide__tables_enter(store);
    unsigned place = 0;
    struct tide__clocked *c = clock == TIDE_NO_CLOCK ? NULL : tide__clocked_next(sync, &place);
    for (; c; c = tide__clocked_next(sync, &place)) {
        tide__evict(c, clock, false);
    }
    tide__tables_leave(store, entered);
}

int tide__clock_may_end(struct tide__sync *sync, const struct tide__worker *worker) {
    uint32_t slack = slack_of(worker);
    if (slack == UINT32_MAX) {
        return 0;
    }
    struct tide__waiting waiting;
    int code = 0;
    tide__sync_wait_begin(sync, &waiting);
    while (!code) {
        slack = slack_of(worker); /* tables may be dropped meanwhile */
        /* acquire: pairs with tide__ticks_changed */
        uint32_t known = atomic_load_explicit(&sync->known, memory_order_acquire);
        if (worker->clock <= (uint64_t)known + slack) {
            break;
        }
        code = tide_fiber_suspend(TIDE_NEVER, "clock");
    }
    tide__sync_wait_end(sync, &waiting);
    return code;
}
