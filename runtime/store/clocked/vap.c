/* The value bound: ledgers of workers; see vap.h. The homes' side is vap_home.c. */
#include "store/core/table_drop.h"
#include "store/rows/rules.h"
#include "store/clocked/vap_internal.h"
#include "tide/stats.h"

#include <math.h>

/* ---- ledgers; the lock is held ---- */

static struct tide__unseen **bucket(const struct tide__ledger *l, uint64_t key) {
    struct tide__unseen **at = &l->buckets[tide_mix64(key) & (l->capacity - 1)];
    while (*at && (*at)->key != key) {
        at = &(*at)->next;
    }
    return at;
}

static struct tide__unseen *find(const struct tide__ledger *l, uint64_t key) {
    return l && l->capacity ? *bucket(l, key) : NULL;
}

static struct tide__ledger *ledger_of(const struct tide__vap *v, const struct tide__worker *worker) {
    struct tide__ledger *l = v->ledgers;
    while (l && l->worker != worker) {
        l = l->next;
    }
    return l;
}

static int grow(struct tide__ledger *l) {
    struct tide__ledger bigger = {.capacity = l->capacity ? l->capacity * 2 : 64};
    bigger.buckets = tide_alloc_zero(bigger.capacity, sizeof(struct tide__unseen *));
    if (!bigger.buckets) {
        return TIDE_ENOMEM;
    }
    for (uint32_t i = 0; i < l->capacity; i++) {
        while (l->buckets[i]) {
            struct tide__unseen *e = l->buckets[i];
            l->buckets[i] = e->next;
            e->next = NULL;
            *bucket(&bigger, e->key) = e;
        }
    }
    tide_free(l->buckets);
    l->buckets = bigger.buckets;
    l->capacity = bigger.capacity;
    return 0;
}

static struct tide__unseen *entry_make(struct tide__vap *v, const struct tide__worker *worker, uint64_t key) {
    struct tide__ledger *l = ledger_of(v, worker);
    if (!l && (l = tide_alloc_zero(1, sizeof *l))) {
        l->worker = worker;
        l->next = v->ledgers;
        v->ledgers = l;
    }
    if (!l || (l->count >= l->capacity && grow(l))) {
        return NULL;
    }
    struct tide__unseen **at = bucket(l, key);
    if (!*at && (*at = tide_alloc_zero(1, sizeof **at))) {
        (*at)->key = key;
        l->count++;
    }
    return *at;
}

/* What up to `number` was sent is seen by all. */
static void forget(struct tide__ledger *l, uint64_t key, uint64_t number) {
    struct tide__unseen **at = l->capacity ? bucket(l, key) : NULL, *e = at ? *at : NULL;
    if (!e) {
        return;
    }
    for (struct tide__sum **s = &e->first; *s;) {
        struct tide__sum *span = *s;
        if (span->number && span->number <= number) {
            *s = span->next;
            tide_free(span);
        } else {
            s = &span->next;
        }
    }
    if (!e->first) {
        *at = e->next;
        tide_free(e);
        l->count--;
    }
}

static void ledger_free(struct tide__ledger *l) {
    for (uint32_t i = 0; i < l->capacity; i++) {
        while (l->buckets[i]) {
            struct tide__unseen *e = l->buckets[i];
            l->buckets[i] = e->next;
            while (e->first) {
                struct tide__sum *next = e->first->next;
                tide_free(e->first);
                e->first = next;
            }
            tide_free(e);
        }
    }
    tide_free(l->buckets);
    tide_free(l);
}

static double bound_at(const struct tide__clocked *c, uint32_t clock) {
    const bool flat = c->table->options.consistency.flat;
    return flat ? c->vap->bound : c->vap->bound / sqrt((double)clock + 1);
}

/* How an update changes a value. */
static double scale_of(const struct tide__clocked *c) {
    const struct tide_table_options *o = &c->table->options;
    return o->update == TIDE_UPDATE_SGD ? (double)tide__learning_rate(o) : 1;
}

/* No part of the row, `delta` (or NULL) made as well, misses more than `bound` behind any cut. */
static bool within(const struct tide__clocked *c, const struct tide__unseen *e, const float *delta, double bound) {
    const size_t width = c->table->width;
    const double scale = scale_of(c);
    for (size_t i = 0; i < width; i++) {
        double sum = 0, low = 0, high = 0; /* of the sums up to the cuts */
        for (const struct tide__sum *s = e ? e->first : NULL; s; s = s->next) {
            const double to_low = sum + (double)s->sums[width + i], to_high = sum + (double)s->sums[2 * width + i];
            low = to_low < low ? to_low : low;
            high = to_high > high ? to_high : high;
            sum += (double)s->sums[i];
        }
        sum += delta ? scale * (double)delta[i] : 0;
        if (!(sum - low <= bound && high - sum <= bound)) { /* no number: not within */
            return false;
        }
    }
    return true;
}

static bool admissible(const struct tide__clocked *c, const struct tide__unseen *e, const float *delta,
                       uint32_t clock) {
    return TIDE_MUTANT(vap_unbounded) || !e || !e->first ||
           within(c, e, delta, bound_at(c, clock) * (TIDE_MUTANT(vap_bound_doubled) ? 2 : 1));
}

static int local_add(struct tide__vap *v, uint64_t key) {
    if (v->local_count == v->local_capacity) {
        const size_t capacity = v->local_capacity ? v->local_capacity * 2 : 64;
        uint64_t *grown = tide_realloc(v->local, capacity * sizeof *grown);
        if (!grown) {
            return TIDE_ENOMEM;
        }
        v->local = grown;
        v->local_capacity = capacity;
    }
    v->local[v->local_count++] = key;
    return 0;
}

static int note(struct tide__clocked *c, struct tide__unseen *e, const float *delta, bool at_home) {
    const size_t width = c->table->width;
    const float scale = (float)scale_of(c);
    struct tide__sum **last = &e->first;
    while (*last && (*last)->next) {
        last = &(*last)->next;
    }
    if (*last && ((*last)->number || (*last)->at_home != at_home)) {
        last = &(*last)->next;
    }
    struct tide__sum *s = *last;
    if (!s) {
        s = tide_alloc_zero(1, sizeof *s + 3 * width * sizeof s->sums[0]);
        if (!s || (at_home && local_add(c->vap, e->key))) {
            tide_free(s);
            return TIDE_ENOMEM;
        }
        s->at_home = at_home;
        *last = s;
    }
    for (size_t i = 0; i < width; i++) {
        float *sum = &s->sums[i], *low = &s->sums[width + i], *high = &s->sums[2 * width + i];
        *sum += scale * delta[i];
        *low = *sum < *low ? *sum : *low;
        *high = *sum > *high ? *sum : *high;
    }
    return 0;
}

/* ---- workers ---- */

int tide__vap_admit(struct tide__clocked *c, struct tide__worker *worker, uint64_t key, const float *delta,
                    bool at_home, bool watched) {
    struct tide__vap *v = c->vap;
    if (at_home && (!watched || TIDE_MUTANT(vap_home_unnoted))) {
        return 1; /* every node reads the row itself, or gets it again */
    }
    int code = 1;
    tide_lock(&v->lock);
    struct tide__unseen *e = find(ledger_of(v, worker), key);
    if (!admissible(c, e, delta, worker->clock)) {
        code = 0;
    } else {
        v->excess += !e && !within(c, NULL, delta, bound_at(c, worker->clock));
        e = e ? e : entry_make(v, worker, key);
        code = e && note(c, e, delta, at_home) == 0
                   ? 1
                   : tide_fail(TIDE_ENOMEM, "no memory for the bound of table '%s'", c->table->name);
    }
    tide_unlock(&v->lock);
    return code;
}

/* Its home died without a successor: no node will see it. */
static bool orphaned(const struct tide__clocked *c, uint64_t key) {
    const uint32_t slot = tide__slot_of(c->table, key);
    const uint16_t via = tide__via(c, slot);
    const uint32_t route = atomic_load_explicit(&c->table->slots[slot].route, memory_order_relaxed);
    return tide__route_home(route) == via && tide__party_lost(c->sync, via);
}

/* Sends what is open, then waits until `ready`, which returns 1, 0 or an error; or until the table is
 * dropped: no confirmation will come any more. */
static int wait_until(struct tide__clocked *c, struct tide__worker *worker, int (*ready)(void *arg), void *arg) {
    struct tide__sync *sync = c->sync;
    int code = ready(arg);
    if (code) {
        return code < 0 ? code : 0;
    }
    const uint64_t since = tide_port_now(c->table->store->port);
    tide__flush_lock(sync);
    tide__flush_table(c);
    tide__flush_unlock(sync);
    struct tide__waiting waiting;
    tide__sync_wait_begin(sync, &waiting);
    while ((code = ready(arg)) == 0 && !atomic_load(&c->table->closing)) {
        code = tide_fiber_suspend(TIDE_NEVER, "others to see its pushes");
        if (code) {
            break;
        }
    }
    tide__sync_wait_end(sync, &waiting);
    struct tide__staleness_stats *stats = tide__staleness_stats(c, worker);
    tide__staleness_add(&stats->stops, 1);
    tide__staleness_add(&stats->stopped_ns, tide_port_now(c->table->store->port) - since);
    return code < 0 ? code : 0;
}

struct wish {
    struct tide__clocked *c;
    const struct tide__worker *worker;
    uint64_t key;
    const float *delta;
};

static int push_ready(void *arg) {
    const struct wish *w = arg;
    struct tide__clocked *c = w->c;
    tide_lock(&c->vap->lock);
    const bool good = admissible(c, find(ledger_of(c->vap, w->worker), w->key), w->delta, w->worker->clock);
    tide_unlock(&c->vap->lock);
    if (good || !orphaned(c, w->key)) {
        return good;
    }
    return tide_fail(TIDE_EDIED, "the home of key %llu of table '%s' died", (unsigned long long)w->key, c->table->name);
}

int tide__vap_wait(struct tide__clocked *c, struct tide__worker *worker, uint64_t key, const float *delta) {
    struct wish wish = {.c = c, .worker = worker, .key = key, .delta = delta};
    const int code = wait_until(c, worker, push_ready, &wish);
    return !code && atomic_load(&c->table->closing) ? tide__table_dropped(c->table) : code;
}

/* All that is unseen is within the bound of the next clock. */
static int clock_ready(void *arg) {
    const struct wish *w = arg;
    struct tide__clocked *c = w->c;
    bool good = true;
    tide_lock(&c->vap->lock);
    struct tide__ledger *l = ledger_of(c->vap, w->worker);
    const double bound = bound_at(c, w->worker->clock + 1);
    for (uint32_t i = 0; l && i < l->capacity; i++) {
        for (struct tide__unseen *e = l->buckets[i], *next; e && good; e = next) {
            next = e->next;
            if (!within(c, e, NULL, bound)) {
                good = orphaned(c, e->key);
            }
        }
    }
    tide_unlock(&c->vap->lock);
    return good || TIDE_MUTANT(vap_clock_free);
}

int tide__vap_may_end(struct tide__sync *sync, struct tide__worker *worker) {
    unsigned count = atomic_load_explicit(&sync->store->table_count, memory_order_acquire);
    int code = 0;
    for (unsigned id = 1; id <= count && !code; id++) {
        const unsigned entered = tide__tables_enter(sync->store);
        struct tide_table *table = tide__table_at(sync->store, id);
        table = tide__clocked_at(sync, id) && tide__clocked_part(table)->vap ? table : NULL;
        if (table) {
            tide__table_hold(table);
        }
        tide__tables_leave(sync->store, entered);
        if (table && !atomic_load(&table->closing)) {
            struct wish wish = {.c = tide__clocked_part(table), .worker = worker};
            code = wait_until(tide__clocked_part(table), worker, clock_ready, &wish);
        }
        tide_table_release(table);
    }
    return code;
}

void tide__vap_worker_ended(struct tide__clocked *c, const struct tide__worker *worker) {
    if (!c->vap) {
        return;
    }
    tide_lock(&c->vap->lock);
    struct tide__ledger **at = &c->vap->ledgers;
    while (*at && (*at)->worker != worker) {
        at = &(*at)->next;
    }
    struct tide__ledger *l = *at;
    *at = l ? l->next : NULL;
    tide_unlock(&c->vap->lock);
    if (l) {
        ledger_free(l);
    }
}

/* ---- what leaves ---- */

/* Open updates of the key, of the row itself or of its copy, leave under that number. */
static bool number_open(struct tide__vap *v, uint64_t key, bool at_home, uint64_t number) {
    bool any = false;
    for (struct tide__ledger *l = v->ledgers; l; l = l->next) {
        struct tide__unseen *e = find(l, key);
        for (struct tide__sum *s = e ? e->first : NULL; s; s = s->next) {
            if (!s->number && s->at_home == at_home) {
                s->number = number;
                any = true;
            }
        }
    }
    return any;
}

void tide__vap_packed(struct tide__clocked *c, uint64_t key, uint64_t number) {
    tide_lock(&c->vap->lock);
    (void)number_open(c->vap, key, false, number);
    tide_unlock(&c->vap->lock);
}

void tide__vap_flush(struct tide__clocked *c) {
    struct tide__vap *v = c->vap;
    struct tide__sync *sync = c->sync;
    tide_lock(&v->lock);
    uint64_t *keys = v->local;
    size_t count = 0;
    const uint64_t number = v->local_count ? ++sync->number : 0;
    for (size_t i = 0; i < v->local_count; i++) {
        if (number_open(v, keys[i], true, number)) {
            keys[count++] = keys[i];
        }
    }
    v->local = NULL;
    v->local_count = v->local_capacity = 0;
    tide_unlock(&v->lock);
    const uint16_t self = tide__store_self(c->table->store);
    tide__vap_trace_send(c, self, self, number, keys, count);
    tide_free(keys);
}

void tide__vap_retrace(struct tide__clocked *c, uint16_t home, const uint32_t *slots, size_t count) {
    struct tide__vap *v = c->vap;
    struct tide__sync *sync = c->sync;
    const uint16_t self = tide__store_self(c->table->store);
    bool moved[TIDE_SLOT_COUNT] = {false};
    size_t found = 0, most = 0;
    if (!v || TIDE_MUTANT(vap_no_retrace)) {
        return;
    }
    for (size_t i = 0; i < count; i++) {
        moved[slots[i]] = true;
    }
    tide_lock(&v->lock);
    for (struct tide__ledger *l = v->ledgers; l; l = l->next) {
        most += l->count; /* those that come in the meantime leave with the next flush */
    }
    tide_unlock(&v->lock);
    /* Without it a worker would wait for ever. */
    uint64_t *keys = tide_alloc_vital((most + 1) * sizeof *keys);
    const uint64_t number = ++sync->number;
    tide_lock(&v->lock);
    for (struct tide__ledger *l = v->ledgers; l; l = l->next) {
        for (uint32_t i = 0; i < l->capacity; i++) {
            for (struct tide__unseen *e = l->buckets[i]; e && found < most; e = e->next) {
                if (!moved[tide__slot_of(c->table, e->key)]) {
                    continue;
                }
                if (home == self) { /* what the copy had is in the row */
                    (void)number_open(v, e->key, false, number);
                }
                keys[found++] = e->key;
            }
        }
    }
    tide_unlock(&v->lock);
    tide__vap_trace_send(c, home, self, number, keys, found);
    tide_free(keys);
}

void tide__vap_visible(struct tide__clocked *c, uint64_t number, const struct tide__array *keys) {
    tide_lock(&c->vap->lock);
    for (size_t i = 0; i < keys->count; i++) {
        const uint64_t key = tide__long_at(keys->at, i);
        for (struct tide__ledger *l = c->vap->ledgers; l; l = l->next) {
            forget(l, key, number);
        }
    }
    tide_unlock(&c->vap->lock);
    tide__sync_wake(c->sync);
}

/* ---- a table ---- */

int tide__vap_create(struct tide__clocked *c) {
    if (c->model != TIDE_VAP) {
        return 0;
    }
    c->vap = tide_alloc_zero(1, sizeof *c->vap);
    if (!c->vap) {
        return tide_fail(TIDE_ENOMEM, "no memory for the bound of table '%s'", c->table->name);
    }
    c->vap->bound = c->table->options.consistency.bound;
    c->vap->traces_end = &c->vap->traces;
    return 0;
}

void tide__vap_destroy(struct tide__clocked *c) {
    struct tide__vap *v = c->vap;
    if (!v) {
        return;
    }
    while (v->ledgers) {
        struct tide__ledger *next = v->ledgers->next;
        ledger_free(v->ledgers);
        v->ledgers = next;
    }
    tide__traces_free(v);
    tide_free(v->local);
    tide_free(v);
    c->vap = NULL;
}

double tide__vap_bound(const struct tide__clocked *c) {
    tide_lock(&c->vap->lock);
    const double bound = c->vap->bound;
    tide_unlock(&c->vap->lock);
    return bound;
}

void tide__vap_set_bound(struct tide__clocked *c, double bound) {
    tide_lock(&c->vap->lock);
    c->vap->bound = bound;
    tide_unlock(&c->vap->lock);
}

void tide__vap_statistics(struct tide__clocked *c, struct tide_staleness *out) {
    struct tide__vap *v = c->vap;
    tide_lock(&v->lock);
    out->excess = v->excess;
    tide_unlock(&v->lock);
    out->confirm_bytes = atomic_load_explicit(&v->confirm_bytes, memory_order_relaxed);
}
