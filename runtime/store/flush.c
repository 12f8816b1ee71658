/*
 * What leaves a node at a clock: the worker that moves the node's clock packs, on its own thread,
 * what accumulated in the copies (one sequence of DELTAs to each home), and then says TICK to every
 * node. It waits for no answer.
 *
 * Packing and sending happen under one lock of the node, so DELTAs leave in the order of their
 * numbers and a TICK behind those it closes, whichever thread sends. The holder never suspends.
 */
#include "store/clocked.h"
#include "store/vap.h"

bool tide__flush_try(struct tide__sync *sync) {
    return !atomic_exchange_explicit(&sync->flushing, true, memory_order_acquire);
}

void tide__flush_lock(struct tide__sync *sync) {
    while (!tide__flush_try(sync)) {
        tide_pause();
    }
}

void tide__flush_unlock(struct tide__sync *sync) {
    atomic_store_explicit(&sync->flushing, false, memory_order_release); /* pairs with flush_try */
}

/* ---- deltas ---- */

struct batch { /* a DELTA on its way to being sent */
    struct batch *next;
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

static void batch_send(struct tide__clocked *c, struct batch *b) {
    if (!b->rows) {
        return;
    }
    const size_t floats = b->floats;
    struct tide_writer w;
    uint8_t head[64];
    tide_writer_init(&w, head, sizeof head);
    tide_write_array(&w, 9);
    tide_write_uint(&w, TIDE__OP_DELTA);
    tide_write_uint(&w, c->table->id);
    tide_write_uint(&w, tide__store_self(c->table->store));
    tide_write_uint(&w, b->number);
    tide_write_uint(&w, b->stamp);
    tide_write_uint(&w, 0);
    tide_write_typed(&w, TIDE_U64, b->keys, b->count);
    tide_write_typed(&w, TIDE_U32, b->blocks, b->whole ? 0 : b->count);
    tide_write_typed_head(&w, TIDE_F32, floats);
    b->rows->size = floats * sizeof(float);
    atomic_fetch_add_explicit(&c->deltas_out, b->count, memory_order_relaxed);
    atomic_fetch_add_explicit(&c->delta_bytes, w.size + b->rows->size, memory_order_relaxed);
    if (tide__sync_send_in_line(c->table->store, b->node, &w, b->rows)) {
        tide_log(TIDE_LOG_DEBUG, tide_node_name(c->table->store->node),
                 "updates of table '%s' are lost with node %u", c->table->name, (unsigned)b->node);
    }
    tide_blob_unref(b->rows);
    b->rows = NULL;
}

/* With room for one more row, of at most `left` that follow; NULL: out of memory. */
static struct batch *batch_for(struct tide__clocked *c, struct batch **batches, uint16_t node,
                               uint32_t stamp, size_t left) {
    const size_t row = c->shape.floats * sizeof(float), most = tide__chunk_rows(c);
    const size_t bytes = sizeof(struct batch) + most * (sizeof(uint64_t) + sizeof(uint32_t));
    struct batch *b = *batches;
    while (b && (b->node != node || b->stamp != stamp)) {
        b = b->next;
    }
    if (!b && (b = tide_alloc(bytes)) != NULL) {
        *b = (struct batch){.next = *batches, .node = node, .stamp = stamp, .most = (uint32_t)most};
        b->blocks = (uint32_t *)(void *)(b->keys + most);
        *batches = b;
    }
    if (b && !b->rows) {
        b->rows = tide_blob_create((left < most ? left : most) * row);
        b->number = ++tide__sync_of(c->table->store)->number;
        b->count = 0;
        b->floats = 0;
        b->whole = true;
    }
    return b && b->rows ? b : NULL;
}

/* Latched. False: it cannot be sent now and stays dirty. `left`: rows that follow, with it. */
static bool pack(struct tide__clocked *c, struct tide__cached *r, uint64_t key, size_t left,
                 struct batch **batches) {
    const uint32_t slot = tide__slot_of(c->table, key);
    if (atomic_load_explicit(&c->shifting[slot], memory_order_relaxed)) {
        return false;
    }
    const uint32_t cut = atomic_load_explicit(&c->table->store->cut_clock, memory_order_acquire),
                   stamp = cut != TIDE_NO_CLOCK && r->newest >= cut ? cut : 0;
    struct batch *b = batch_for(c, batches, tide__via(c, slot), stamp, left);
    float *row = b ? (float *)b->rows->data + b->floats : NULL;
    const uint16_t blocks = r->blocks;
    if (!b || tide__cached_send(&c->shape, r, blocks, b->number, b->rows, row)) {
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

void tide__flush_table(struct tide__clocked *c) {
    tide__late_send(c);
    tide_lock(&c->dirty.lock);
    uint64_t *dirty = c->dirty.at;
    size_t count = c->dirty.count;
    c->dirty.at = NULL;
    c->dirty.count = c->dirty.capacity = 0;
    tide_unlock(&c->dirty.lock);
    tide__flush_records(c, dirty, put_in_order(c, dirty, count));
    tide_free(dirty);
    if (c->vap) {
        tide__vap_flush(c);
    }
}

/* Records lie one behind the other, the words that lead to them anywhere. */
static void fetch_ahead(struct tide__clocked *c, const uint64_t *records, size_t count, size_t i) {
    enum { FAR = 12, MIDDLE = 8, NEAR = 4, LINE = 64, BYTES_MOST = 1024 };
    if (i + FAR < count) {
        __builtin_prefetch(tide__copy_at(c, (uint32_t)records[i + FAR]));
    }
    if (i + MIDDLE < count) {
        const struct tide__cached *r = tide__copy_at(c, (uint32_t)records[i + MIDDLE]);
        const uint64_t key = atomic_load_explicit(&r->key, memory_order_relaxed);
        __builtin_prefetch(&c->index->slots[tide__slot_of(c->index, key)]);
    }
    if (i + NEAR < count) {
        struct tide__cached *r = tide__copy_at(c, (uint32_t)records[i + NEAR]);
        const uint64_t key = atomic_load_explicit(&r->key, memory_order_relaxed);
        const char *acc = (const char *)tide__cached_acc(&c->shape, r);
        const size_t bytes = c->shape.floats * sizeof(float);
        tide__fetch_word(c->index, tide__slot_of(c->index, key), key);
        for (size_t at = 0; at < bytes && at < BYTES_MOST; at += LINE) {
            __builtin_prefetch(acc + at, 1);
        }
    }
}

void tide__flush_records(struct tide__clocked *c, const uint64_t *records, size_t count) {
    struct batch *batches = NULL;
    for (size_t i = 0; i < count; i++) {
        fetch_ahead(c, records, count, i);
        struct tide__cached *r = tide__copy_at(c, (uint32_t)records[i]), *found;
        uint64_t old;
        atomic_uint_fast64_t *word;
        const uint64_t key = atomic_load_explicit(&r->key, memory_order_relaxed);
        if (!atomic_load_explicit(&r->in_use, memory_order_acquire) ||
            tide__copy_lock(c, key, false, true, &word, &old, &found) != TIDE__FOUND) {
            continue;
        }
        if (found == r) {
            tide__cached_confirm(r,
                                 atomic_load_explicit(&c->confirmed[tide__slot_of(c->table, key)],
                                                      memory_order_relaxed));
            if (r->dirty && !pack(c, r, key, count - i, &batches)) {
                tide__dirty_add(c, r, old);
            }
        }
        tide__word_unlock(word, old);
    }
    while (batches) {
        struct batch *next = batches->next;
        batch_send(c, batches);
        tide_free(batches);
        batches = next;
    }
}

void tide__flush_apart(struct tide__clocked *c, uint64_t record) {
    struct tide__sync *sync = tide__sync_of(c->table->store);
    if (tide__flush_try(sync)) { /* its holder may be a fiber of this thread that yielded */
        tide__flush_records(c, &record, 1);
        tide__flush_unlock(sync);
    }
    (void)tide_yield();
}

/* ---- clocks ---- */

static void tick_to(struct tide__sync *sync, uint16_t node) {
    struct tide_writer w;
    uint8_t buffer[64];
    tide_writer_init(&w, buffer, sizeof buffer);
    tide_write_array(&w, 3);
    tide_write_uint(&w, TIDE__OP_TICK);
    tide_write_uint(&w, sync->ticked);
    tide_write_uint(&w, sync->highest);
    (void)tide__sync_send_in_line(sync->store, node, &w, NULL);
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

/* A watch of clock.h: on the thread of a worker that moved the node's clock. */
void tide__clock_changed(void *arg, uint32_t clock) {
    struct tide__sync *sync = arg;
    struct tide_store *store = sync->store;
    tide__flush_lock(sync);
    if (clock < sync->ticked && sync->ticked != TIDE_NO_CLOCK) {
        tide__flush_unlock(sync); /* a worker that begins: it was raised to what was ticked */
        return;
    }
    if (TIDE_MUTANT(tick_before_deltas)) {
        tide__tick_send(sync, clock);
    }
    unsigned count = atomic_load_explicit(&store->table_count, memory_order_acquire);
    for (unsigned id = 1; id <= count; id++) {
        struct tide_table *table = tide__table_by_id(store, id);
        if (table && table->clocked) {
            tide__flush_table(table->clocked);
        }
    }
    sync->highest = tide__highest_clock(store);
    tide__tick_send(sync, clock);
    tide__flush_unlock(sync);
    for (unsigned id = 1; id <= count && clock != TIDE_NO_CLOCK; id++) {
        struct tide_table *table = tide__table_by_id(store, id);
        if (table && table->clocked) {
            tide__evict(table->clocked, clock, false);
        }
    }
}

int tide__clock_may_end(struct tide__sync *sync, const struct tide__worker *worker) {
    uint32_t slack = UINT32_MAX;
    for (const struct tide__tally *t = worker->tallies; t; t = t->of_worker) {
        if (tide__has_clock_bound(t->c)) {
            uint32_t s = atomic_load_explicit(&t->c->staleness, memory_order_relaxed);
            slack = s < slack ? s : slack;
        }
    }
    if (slack == UINT32_MAX) {
        return 0;
    }
    struct tide__waiting waiting;
    int code = 0;
    tide__sync_wait_begin(sync, &waiting);
    while (!code) {
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
