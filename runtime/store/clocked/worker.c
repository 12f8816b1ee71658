/*
 * Workers and the rows of tables with clocks: a row whose home is here is read and written in its
 * slab, any other in a copy. A pull inside the bound is a compare, a latch and a memcpy. What is
 * not here, or too old, is asked for (one request a row for all workers of the node), and the fiber
 * looks again at each event.
 *
 * Fibers that are no workers do not come here: they read and write at the homes (access.c).
 */
#include "store/core/send.h"
#include "store/core/table_drop.h"
#include "store/rows/rules.h"
#include "store/clocked/clocked.h"
#include "store/rows/cut.h"
#include "store/clocked/vap.h"
#include "tide/clock.h"

/* ---- the bound of a worker ---- */

/* Larger at once, smaller from the worker's next clock: the largest since its interval began. */
static uint32_t staleness_of(struct tide__clocked *c, const struct tide__worker *worker) {
    uint32_t s = atomic_load_explicit(&c->staleness, memory_order_relaxed);
    if (TIDE_LIKELY(atomic_load_explicit(&c->serial, memory_order_acquire) <= worker->bound_serial)) {
        return s;
    }
    tide_lock(&c->bound_lock);
    for (size_t i = TIDE__BOUNDS; i-- > 0;) { /* the one in force then is the first that is old */
        s = c->bounds[i].staleness > s ? c->bounds[i].staleness : s;
        if (c->bounds[i].serial <= worker->bound_serial) {
            break;
        }
    }
    tide_unlock(&c->bound_lock);
    return s;
}

struct access {
    struct tide__clocked *c;
    struct tide__sync *sync;
    struct tide__worker *worker;
    uint32_t need, settled;
    uint64_t oldest_ns; /* async: copies that came before are old */
    uint32_t row_clock; /* least of the rows read so far */
    uint64_t waits, fetches;
    bool ask_only_missing;
};

/* The first time: it may rest. No keys are asked for. */
static void use_here(struct tide__clocked *c) {
    const uint16_t self = tide__store_self(c->table->store);
    if (!atomic_exchange_explicit(&c->used_here, true, memory_order_relaxed)) {
        const enum tide_memory_use memory = tide__memory_swap(TIDE_MEMORY_VITAL); /* others wait for it, too */
        (void)tide__sync_tell(c->sync, self, TIDE__AS(ASK, .table = c->table->id, .origin = self));
        (void)tide__memory_swap(memory);
    }
}

static void access_begin(struct access *a, struct tide__clocked *c, struct tide__worker *worker) {
    *a = (struct access){.c = c, .sync = c->sync, .worker = worker, .row_clock = UINT32_MAX};
    if (TIDE_UNLIKELY(!atomic_load_explicit(&c->used_here, memory_order_relaxed))) {
        use_here(c);
    }
    a->settled = atomic_load_explicit(&a->sync->settled, memory_order_relaxed);
    if (c->model == TIDE_ASYNC) {
        uint64_t age = atomic_load_explicit(&c->age_ms, memory_order_relaxed) * UINT64_C(1000000);
        uint64_t now = tide_port_now(c->table->store->port);
        a->oldest_ns = now > age ? now - age : 0;
        return;
    }
    if (c->model == TIDE_VAP) { /* no clock is waited for: its pushes wait */
        return;
    }
    uint32_t s = c->model == TIDE_BSP ? 0 : staleness_of(c, worker);
    s += TIDE_MUTANT(bound_off_by_one) ? 1 : 0;
    a->need = worker->clock > s ? worker->clock - s : 0;
}

static void count_read(const struct access *a, size_t keys, uint64_t waited_ns) {
    struct tide__staleness_stats *t = tide__staleness_stats(a->c, a->worker);
    if (a->c->model != TIDE_ASYNC && a->row_clock != UINT32_MAX) {
        int64_t back = (int64_t)a->worker->clock - (int64_t)a->row_clock + 1;
        size_t d = back <= 0 ? TIDE__OVER : back < TIDE_STALENESS_MAX + 2 ? (size_t)back : (size_t)TIDE__UNDER;
        tide__staleness_add(&t->differential[d], 1);
    }
    tide__staleness_add(&t->hits, keys - (size_t)(a->waits < keys ? a->waits : keys));
    if (TIDE_UNLIKELY(a->waits)) {
        tide__staleness_add(&t->waits, a->waits);
        tide__staleness_add(&t->fetches, a->fetches);
        tide__staleness_add(&t->waited_ns, waited_ns);
    }
}

/* ---- one row ---- */

struct place {
    float *row;                       /* `width` values, latched */
    struct tide__copy_record *record; /* NULL: at home */
    atomic_uint_fast64_t *word;
    uint64_t old;
};

/* This node is home. FOUND: latched; NOT_FOUND: initial values, not latched; MISSED: it was. */
static int home_lock(struct tide__clocked *c, uint64_t key, uint32_t slot, bool create, struct place *p) {
    struct tide_table *table = c->table;
    if (atomic_load_explicit(&c->shifting[slot], memory_order_acquire)) { /* about to be, or gone */
        if (tide_fiber_current()) {
            (void)tide_yield();
        }
        return TIDE__MISSED;
    }
    int code = TIDE__FOUND;
    if (table->options.keys == TIDE_KEYS_HASHED) {
        code = tide__hashed_lock(table, key, create, 0, true, &p->word, &p->old);
    } else {
        atomic_uint_fast64_t *words = atomic_load_explicit(&table->slots[slot].index, memory_order_acquire);
        words = words || !create ? words : tide__dense_words(table, slot);
        code = words ? TIDE__FOUND : create ? TIDE_ENOMEM : TIDE__NOT_FOUND;
        if (words) {
            p->word = words + tide__place_of(table, slot, key);
            (void)tide__word_lock(p->word, true, &p->old);
        }
    }
    const uint16_t self = tide__store_self(table->store);
    if (code == TIDE__NOT_FOUND) {
        return tide__via(c, slot) == self ? TIDE__NOT_FOUND : TIDE__MISSED;
    }
    if (code != TIDE__FOUND) {
        return code;
    }
    if (tide__via(c, slot) != self) {
        tide__word_unlock(p->word, p->old);
        return TIDE__MISSED;
    }
    if (tide__word_state(p->old) != TIDE__OWNED) {
        uint32_t row;
        code = create ? tide__slab_take(&table->slab, &row) : TIDE__NOT_FOUND;
        if (code) {
            tide__word_unlock(p->word, p->old);
            return code;
        }
        tide__row_init(&table->options, key, tide__slab_row(&table->slab, row), true);
        p->old = tide__cut_arrive(table, key, tide__word_owned(p->old, row), TIDE__CUT_NO_ROW, NULL, NULL);
    }
    p->row = tide__slab_row(&table->slab, (uint32_t)p->old);
    p->record = NULL;
    return TIDE__FOUND;
}

/* Latched: the copy holds every push of a smaller stamp. */
static uint32_t clock_of(const struct tide__clocked *c, uint32_t slot, const struct tide__copy_record *r) {
    /* acquire: pairs with tide__floor_raise */
    const uint32_t floor = r->subscribed ? atomic_load_explicit(&c->pushed_floor[slot], memory_order_acquire) : 0;
    return floor > r->row_clock ? floor : r->row_clock;
}

/* Latched: the copy serves a read by this worker. What settled was pushed to those that are
 * subscribed. */
static bool fresh(const struct access *a, uint32_t slot, const struct tide__copy_record *r) {
    return r->valid && (r->subscribed || r->settled == a->settled) &&
           (a->c->model == TIDE_ASYNC || clock_of(a->c, slot, r) >= a->need);
}

/* Latched, not fresh (or async): is a request to be sent for it now? */
static bool wanted(const struct access *a, uint32_t slot, const struct tide__copy_record *r) {
    const struct tide__clocked *c = a->c;
    if (c->model == TIDE_ASYNC) {
        return !r->asked && (!r->valid || r->fetched_ns < a->oldest_ns || r->settled != a->settled);
    }
    /* A neighbour that is ahead may have asked for what comes only after this worker's clock. */
    bool unasked = !r->asked || r->asked_need > a->need;
    /* The home pushes, if it has heard that it should: its clock is there, what changed is not. */
    bool comes = r->valid && r->subscribed && tide__is_eager(c) &&
                 atomic_load_explicit(&c->floor[slot], memory_order_acquire) < a->need;
    return unasked && !comes;
}

/* The same, and then one is pending, which the caller sends: for no more than it requests; others may
 * request more. */
static bool mark_wanted(const struct access *a, uint32_t slot, struct tide__copy_record *r) {
    const bool is_wanted = wanted(a, slot, r);
    r->asked = r->asked || is_wanted;
    r->asked_need = is_wanted ? a->need : r->asked_need;
    return is_wanted;
}

/* FOUND: latched, good to read. NOT_FOUND: initial values. MISSED: not yet; *ask: it is wanted. */
static int read_lock(struct access *a, uint64_t key, struct place *p, bool *ask) {
    struct tide__clocked *c = a->c;
    const uint32_t slot = tide__slot_of(c->table, key);
    const uint16_t self = tide__store_self(c->table->store), via = tide__via(c, slot);
    int code;
    *ask = false;
    if (via == self) {
        uint32_t floor = atomic_load_explicit(&c->floor[slot], memory_order_acquire);
        if (floor < a->need && c->model != TIDE_ASYNC) {
            return TIDE__MISSED;
        }
        code = home_lock(c, key, slot, false, p);
        a->row_clock = code != TIDE__MISSED && floor < a->row_clock ? floor : a->row_clock;
        return code;
    }
    code = tide__copy_lock(c, key, true, true, &p->word, &p->old, &p->record);
    if (code != TIDE__FOUND) {
        return code;
    }
    struct tide__copy_record *r = p->record;
    if (TIDE_UNLIKELY(tide__via(c, slot) == self)) { /* it has just come home */
        tide__copy_free(c, p->word, p->old);
        return TIDE__MISSED;
    }
    bool good = fresh(a, slot, r);
    *ask = TIDE_UNLIKELY(!good || c->model == TIDE_ASYNC) && mark_wanted(a, slot, r);
    if (TIDE_UNLIKELY(!good)) {
        tide__word_unlock(p->word, p->old);
        return TIDE__MISSED;
    }
    const uint32_t clock = clock_of(c, slot, r);
    a->row_clock = clock < a->row_clock ? clock : a->row_clock;
    if (r->used_clock != a->worker->clock || !r->referenced) {
        r->used_clock = a->worker->clock;
        r->referenced = true;
    }
    p->row = tide__copy_record_value(r);
    return TIDE__FOUND;
}

/* ---- requests ---- */

/* Not requested: other waiters for these rows request them themselves. */
static void unmark(struct access *a, const uint64_t *keys, size_t count) {
    for (size_t i = 0; i < count; i++) {
        atomic_uint_fast64_t *word;
        struct tide__copy_record *r;
        uint64_t old;
        if (tide__copy_lock(a->c, keys[i], false, true, &word, &old, &r) == TIDE__FOUND) {
            r->asked = false;
            tide__word_unlock(word, old);
        }
    }
    tide__sync_wake(a->sync);
}

/* Keys at the same node go together. */
static int ask(struct access *a, uint64_t *keys, size_t count) {
    struct tide__clocked *c = a->c;
    struct tide_store *store = c->table->store;
    int code = 0;
    a->fetches += count;
    if (tide__slab_used(&c->index->slab) >= c->table->options.cache_bytes / c->index->slab.stride) {
        tide__evict(c, a->worker->clock, true);
    }
    while (count) {
        const uint16_t via = tide__via(c, tide__slot_of(c->table, keys[0]));
        uint64_t part[256];
        size_t in_part = 0, kept = 0;
        for (size_t i = 0; i < count; i++) {
            bool same = in_part < TIDE_COUNT(part) && tide__via(c, tide__slot_of(c->table, keys[i])) == via;
            if (same) {
                part[in_part++] = keys[i];
            } else {
                keys[kept++] = keys[i];
            }
        }
        count = kept;
        int sent = tide__sync_tell(c->sync, via,
                                   TIDE__AS(ASK, .table = c->table->id, .origin = tide__store_self(store),
                                            .need = a->need, .keys = TIDE__LIST(part, in_part)));
        if (sent && !TIDE_MUTANT(unsent_marked)) {
            unmark(a, part, in_part);
        }
        code = code ? code : sent;
    }
    return code;
}

static int check_home(const struct access *a, uint64_t key) {
    struct tide__clocked *c = a->c;
    uint16_t via = tide__via(c, tide__slot_of(c->table, key));
    if (!tide__party_lost(a->sync, via)) {
        return 0;
    }
    char name[96];
    tide__node_text(c->table->store, via, name);
    return tide_fail(TIDE_EDIED, "node %s died, the home of key %llu of table '%s'", name, (unsigned long long)key,
                     c->table->name);
}

/* ---- pull ---- */

/* What of keys[at[i]] can be read is copied out; the rest stays listed. */
static int pull_pass(struct access *a, const uint64_t *keys, float *out, uint32_t *at, size_t *left) {
    struct tide__clocked *c = a->c;
    const size_t width = c->table->width;
    uint64_t wanted_keys[256];
    size_t wanted_count = 0, kept = 0;
    int code = 0;
    for (size_t i = 0; i < *left; i++) {
        struct place p;
        bool is_wanted = false;
        const uint64_t key = keys[at[i]];
        float *row = out + at[i] * width;
        int found = code ? TIDE__MISSED : read_lock(a, key, &p, &is_wanted);
        if (found == TIDE__FOUND) {
            memcpy(row, p.row, width * sizeof *row);
            tide__word_unlock(p.word, p.old);
        } else if (found == TIDE__NOT_FOUND) {
            tide__row_init(&c->table->options, key, row, false);
        } else if (found == TIDE__MISSED) {
            at[kept++] = at[i];
            code = code ? code : check_home(a, key);
        } else {
            code = found;
        }
        if (found <= TIDE__NOT_FOUND && found > 0 && a->worker->bsp_pushed) {
            tide__bsp_add(c, a->worker, key, row);
        }
        if (is_wanted) {
            wanted_keys[wanted_count++] = key;
        }
        if (wanted_count == TIDE_COUNT(wanted_keys)) {
            int sent = ask(a, wanted_keys, wanted_count);
            code = code ? code : sent;
            wanted_count = 0;
        }
        tide__store_yield(c->table->store);
    }
    int sent = wanted_count ? ask(a, wanted_keys, wanted_count) : 0;
    *left = kept;
    return code ? code : sent;
}

/* Until an event, perhaps of this row. */
static int wait_for_news(const struct access *a, uint64_t key, const char *why) {
    if (atomic_load_explicit(&a->c->table->closing, memory_order_acquire)) {
        return tide__table_dropped(a->c->table);
    }
    tide_fiber_expect(key, tide__has_clock_bound(a->c) ? a->need : UINT32_MAX,
                      tide__via(a->c, tide__slot_of(a->c->table, key)));
    return tide_fiber_suspend(TIDE_NEVER, why);
}

/* The keys at at[0..left) until they are there. */
static int pull_wait(struct access *a, const uint64_t *keys, float *out, uint32_t *at, size_t left) {
    struct tide__clocked *c = a->c;
    int code = 0;
    struct tide__waiting waiting;
    a->waits += left;
    tide__sync_wait_begin(a->sync, &waiting);
    while (!code) { /* events during the pass end the suspension at once */
        a->settled = atomic_load_explicit(&a->sync->settled, memory_order_relaxed);
        code = pull_pass(a, keys, out, at, &left);
        if (code || left == 0) {
            break;
        }
        code = wait_for_news(a, keys[at[0]], c->table->why[0]);
    }
    tide__sync_wait_end(a->sync, &waiting);
    return code;
}

static int pull(struct tide__clocked *c, struct tide__worker *worker, const uint64_t *keys, size_t count, float *out) {
    struct access a;
    access_begin(&a, c, worker);
    uint32_t small[64], *at = small;
    if (count > TIDE_COUNT(small)) {
        at = tide_alloc(count * sizeof *at);
        if (!at) {
            return tide_fail(TIDE_ENOMEM, "no memory for a pull of %zu keys", count);
        }
    }
    for (size_t i = 0; i < count; i++) {
        at[i] = (uint32_t)i;
    }
    size_t left = count;
    int code = pull_pass(&a, keys, out, at, &left);
    uint64_t waited = 0;
    if (!code && left) {
        uint64_t since = tide_port_now(c->table->store->port);
        code = pull_wait(&a, keys, out, at, left);
        waited = tide_port_now(c->table->store->port) - since;
    }
    if (at != small) {
        tide_free(at);
    }
    if (!code) {
        count_read(&a, count, waited);
    }
    return code;
}

/* ---- push ---- */

/* FOUND: latched for a write. MISSED: look again (its home changes, or sums must come). */
static int write_lock(struct access *a, uint64_t key, struct place *p) {
    struct tide__clocked *c = a->c;
    const uint32_t slot = tide__slot_of(c->table, key);
    const uint16_t self = tide__store_self(c->table->store);
    for (;;) {
        if (tide__via(c, slot) == self) {
            return home_lock(c, key, slot, true, p);
        }
        int code = tide__copy_lock(c, key, true, true, &p->word, &p->old, &p->record);
        if (code != TIDE__FOUND) {
            return code;
        }
        if (TIDE_LIKELY(!tide__other_side(c, p->record, a->worker->clock)) || TIDE_MUTANT(sides_of_the_cut_mixed)) {
            break;
        }
        const uint64_t record = (uint32_t)p->old;
        tide__word_unlock(p->word, p->old);
        tide__flush_apart(c, record);
    }
    if (TIDE_UNLIKELY(tide__via(c, slot) == self)) {
        tide__copy_free(c, p->word, p->old);
        return TIDE__MISSED;
    }
    if (TIDE_UNLIKELY(c->table->options.update == TIDE_UPDATE_ADAGRAD && !p->record->valid)) {
        const bool is_wanted = mark_wanted(a, slot, p->record);
        tide__word_unlock(p->word, p->old);
        const int sent = is_wanted ? ask(a, &key, 1) : 0;
        return sent ? sent : TIDE__MISSED;
    }
    p->row = tide__copy_record_value(p->record);
    return TIDE__FOUND;
}

static int write_wait(struct access *a, uint64_t key, struct place *p) {
    int code = write_lock(a, key, p);
    if (TIDE_LIKELY(code == TIDE__FOUND)) {
        return code;
    }
    struct tide__waiting waiting;
    tide__sync_wait_begin(a->sync, &waiting);
    while ((code = write_lock(a, key, p)) == TIDE__MISSED) {
        uint16_t via = tide__via(a->c, tide__slot_of(a->c->table, key));
        code = atomic_load_explicit(&a->c->table->closing, memory_order_relaxed) ? tide__table_dropped(a->c->table)
                                                                                 : check_home(a, key);
        if (!code && via != tide__store_self(a->c->table->store)) {
            code = wait_for_news(a, key, a->c->table->why[1]);
        }
        if (code) {
            break;
        }
    }
    tide__sync_wait_end(a->sync, &waiting);
    return code;
}

/* As write_wait; vap: and the update may be made. */
static int write_admitted(struct access *a, uint64_t key, const float *delta, struct place *p) {
    struct tide__clocked *c = a->c;
    for (;;) {
        int code = write_wait(a, key, p);
        if (TIDE_LIKELY(!c->vap) || code != TIDE__FOUND) {
            return code;
        }
        int admitted = tide__vap_admit(c, a->worker, key, delta, !p->record, p->old & TIDE__WORD_WATCHED);
        if (admitted == 1) {
            return code;
        }
        tide__word_unlock(p->word, p->old);
        code = admitted ? admitted : tide__vap_wait(c, a->worker, key, delta);
        if (code) {
            return code;
        }
    }
}

/* `values`: what was added to the row, or took its place. */
static void write_unlock(struct tide__clocked *c, uint64_t key, struct place *p, const float *values, size_t count) {
    if (!p->record) {
        if (TIDE_UNLIKELY(p->old & TIDE__WORD_WATCHED)) {
            p->old = tide__row_changed(c, key, p->old, values, count);
        }
    } else if (!p->record->dirty) {
        tide__dirty_add(c, p->record, p->old);
    }
    tide__word_unlock(p->word, p->old);
}

static int push(struct tide__clocked *c, struct tide__worker *worker, const uint64_t *keys, size_t count,
                const float *rows) {
    struct access a;
    access_begin(&a, c, worker);
    const size_t width = c->table->width;
    int code = 0;
    for (size_t i = 0; i < count && !code; i++) {
        struct place p;
        int found = write_admitted(&a, keys[i], rows + i * width, &p);
        if (found != TIDE__FOUND) {
            code = found;
            break;
        }
        if (p.record) {
            tide__note_stamp(p.record, worker->clock);
            tide__copy_record_push(&c->shape, p.record, rows + i * width);
        } else {
            tide__cut_push(c->table, keys[i], &p.old, p.row, false, worker->clock, rows + i * width);
            tide__rule_apply(&c->table->options, p.row, rows + i * width);
        }
        write_unlock(c, keys[i], &p, rows + i * width, width);
        tide__store_yield(c->table->store);
    }
    return code;
}

/* async: what accumulated leaves when it is old enough. */
static void flush_by_age(struct tide__clocked *c) {
    struct tide_store *store = c->table->store;
    uint64_t now = tide_port_now(store->port),
             age = atomic_load_explicit(&c->age_ms, memory_order_relaxed) * UINT64_C(1000000);
    uint64_t last = atomic_load_explicit(&c->flushed_ns, memory_order_relaxed);
    if (now - last < age || !atomic_compare_exchange_strong_explicit(&c->flushed_ns, &last, now, memory_order_relaxed,
                                                                     memory_order_relaxed)) {
        return;
    }
    struct tide__sync *sync = c->sync;
    tide__flush_lock(sync);
    tide__flush_table(c);
    tide__flush_unlock(sync);
}

/* ---- calls ---- */

struct deferred { /* an asynchronous pull: what was not here */
    struct tide__clocked *c;
    float *out;
    uint64_t *keys;
    size_t count;
    int code;
};

static int pull_start(struct tide__clocked *c, struct tide__worker *worker, const uint64_t *keys, size_t count,
                      float *out, struct tide_ticket *ticket) {
    struct deferred *d = tide_alloc(sizeof *d + count * (sizeof *d->keys + sizeof(uint32_t)));
    if (!d) {
        return tide_fail(TIDE_ENOMEM, "no memory for a pull of %zu keys", count);
    }
    *d = (struct deferred){.c = c, .out = out, .keys = (uint64_t *)(void *)(d + 1), .count = count};
    memcpy(d->keys, keys, count * sizeof *keys);
    uint32_t *at = (uint32_t *)(void *)(d->keys + count);
    for (size_t i = 0; i < count; i++) {
        at[i] = (uint32_t)i;
    }
    struct access a;
    access_begin(&a, c, worker);
    size_t left = count;
    int code = pull_pass(&a, keys, out, at, &left); /* asks for the rest */
    if (!code && left == 0) {
        count_read(&a, count, 0);
    }
    if (code || left == 0) {
        tide_free(d);
        return code;
    }
    ((struct tide__ticket *)(void *)ticket)->text = (char *)d;
    ((struct tide__ticket *)(void *)ticket)->kind = TIDE__CLOCKED;
    return 0;
}

int tide__clocked_wait(struct tide_ticket *ticket) {
    struct tide__ticket *t = (struct tide__ticket *)(void *)ticket;
    struct deferred *d = (struct deferred *)(void *)t->text;
    t->text = NULL;
    if (!d) {
        return 0;
    }
    struct tide__worker *worker = tide__worker_of(d->c->table);
    int code = worker ? pull(d->c, worker, d->keys, d->count, d->out)
                      : tide__operate_plain(d->c->table, TIDE__PULL, false, d->keys, d->count, d->out, NULL);
    tide_free(d);
    return code;
}

int tide__clocked_operate(struct tide_table *table, enum tide__kind kind, const uint64_t *keys, size_t count,
                          float *out, const float *in, struct tide_ticket *ticket) {
    struct tide__clocked *c = tide__clocked_part(table);
    struct tide__worker *worker = tide__worker_of(table);
    if (kind == TIDE__PULL) {
        return ticket ? pull_start(c, worker, keys, count, out, ticket) : pull(c, worker, keys, count, out);
    }
    (void)tide__staleness_stats(c, worker); /* it uses the table */
    int code = c->model == TIDE_BSP ? tide__bsp_push(c, worker, keys, count, in) : push(c, worker, keys, count, in);
    if (c->model == TIDE_ASYNC) {
        flush_by_age(c);
    }
    return code;
}

/* As read_lock; what is wanted is asked for. */
static int read_lock_asking(struct access *a, uint64_t key, struct place *p) {
    for (;;) {
        uint64_t one = key;
        bool is_wanted;
        int code = read_lock(a, key, p, &is_wanted);
        if (TIDE_LIKELY(!is_wanted)) {
            return code;
        }
        if (code == TIDE__FOUND) { /* async: old, but good to read */
            tide__word_unlock(p->word, p->old);
        }
        if ((code = ask(a, &one, 1)) != 0) {
            return code;
        }
    }
}

int tide_table_read_begin(struct tide_table *table, uint64_t key, const float **row, struct tide_table_read *read) {
    struct tide__clocked *c = tide__clocked_part(table);
    struct tide__worker *worker = tide__worker_of(table);
    if (TIDE_UNLIKELY(!c || !worker || c->model == TIDE_BSP)) {
        return tide_fail(TIDE_EUNSUPPORTED,
                         "table '%s': values are read in place by workers of its run, on tables with clocks",
                         table->name);
    }
    if (TIDE_UNLIKELY(table->options.keys == TIDE_KEYS_DENSE && key >= table->options.key_count)) {
        return tide_fail(TIDE_ERANGE, "key %llu is outside table '%s'", (unsigned long long)key, table->name);
    }
    struct access a;
    access_begin(&a, c, worker);
    struct place p;
    uint64_t since = 0;
    int code = read_lock_asking(&a, key, &p);
    while (TIDE_UNLIKELY(code != TIDE__FOUND)) {
        if (code == TIDE__NOT_FOUND) { /* at home and never written: it gets its row */
            code = write_wait(&a, key, &p);
            continue;
        }
        if (code < 0) {
            return code;
        }
        since = since ? since : tide_port_now(table->store->port);
        float *scratch = tide_alloc(table->width * sizeof *scratch);
        uint32_t at = 0;
        code = scratch ? pull_wait(&a, &key, scratch, &at, 1) : TIDE_ENOMEM;
        tide_free(scratch);
        code = code ? code : read_lock_asking(&a, key, &p);
    }
    count_read(&a, 1, since ? tide_port_now(table->store->port) - since : 0);
    *row = p.row;
    read->opaque[0] = (void *)p.word;
    memcpy(&read->opaque[1], &p.old, sizeof p.old);
    return 0;
}

void tide_table_read_end(struct tide_table_read *read) {
    uint64_t old;
    memcpy(&old, &read->opaque[1], sizeof old);
    tide__word_unlock((atomic_uint_fast64_t *)read->opaque[0], old);
}

/* ---- single columns ---- */

struct sparse {
    const uint32_t *columns;
    const float *values;
    size_t count;
};

static void by_columns(const struct tide_table *table, float *row, const void *delta) {
    const struct sparse *s = delta;
    (void)table;
    for (size_t i = 0; i < s->count; i++) {
        row[s->columns[i]] += s->values[i];
    }
}

bool tide__clocked_add(struct tide_table *table, uint64_t key, const uint32_t *columns, const float *values,
                       size_t count, int *code) {
    struct tide__clocked *c = tide__clocked_part(table);
    struct tide__worker *worker = c ? tide__worker_of(table) : NULL;
    if (!worker || c->model == TIDE_BSP || c->vap || !tide__all_finite(values, count) ||
        (table->options.keys == TIDE_KEYS_DENSE && key >= table->options.key_count)) {
        return false;
    }
    (void)tide__staleness_stats(c, worker); /* it uses the table */
    struct access a;
    struct place p;
    access_begin(&a, c, worker);
    *code = write_wait(&a, key, &p);
    if (*code != TIDE__FOUND) {
        return true;
    }
    const struct sparse sparse = {columns, values, count};
    if (p.record) {
        tide__note_stamp(p.record, worker->clock);
        tide__copy_record_add(&c->shape, p.record, columns, values, count);
    } else {
        tide__cut_change(table, key, &p.old, p.row, false, worker->clock, by_columns, &sparse);
        by_columns(table, p.row, &sparse);
    }
    write_unlock(c, key, &p, values, count);
    if (c->model == TIDE_ASYNC) {
        flush_by_age(c);
    }
    *code = 0;
    return true;
}
