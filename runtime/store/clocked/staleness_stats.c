/* What the workers of a node saw of a table with clocks, worker by worker. A record is written by
 * the fiber of its worker alone and read by any thread; it stays with the table when the worker ends,
 * and goes to the next worker of the same number. */
#include "store/core/table_drop.h"
#include "store/clocked/clocked.h"
#include "tide/stats.h"

#include <stdlib.h>

struct tide__staleness_stats *tide__staleness_make(struct tide__clocked *c, struct tide__worker *worker) {
    tide_lock(&c->staleness_lock);
    struct tide__staleness_stats *t = c->staleness_stats;
    while (t && (t->in_use || t->worker != worker->number)) {
        t = t->next;
    }
    /* a line is written by one worker: a neighbour would wait for it at every read */
    if (!t && (t = tide_alloc_aligned(_Alignof(struct tide__staleness_stats), sizeof *t))) {
        memset(t, 0, sizeof *t);
        t->c = c;
        t->worker = worker->number;
        t->next = c->staleness_stats;
        c->staleness_stats = t;
    }
    if (t) {
        tide__table_hold(c->table);
        t->in_use = true;
        t->of_worker = worker->staleness_stats;
        worker->staleness_stats = t;
    }
    tide_unlock(&c->staleness_lock);
    return t ? t : &c->of_others;
}

void tide__staleness_release(struct tide__worker *worker) {
    while (worker->staleness_stats) {
        struct tide__staleness_stats *t = worker->staleness_stats;
        worker->staleness_stats = t->of_worker;
        struct tide_table *table = t->c->table;
        tide_lock(&t->c->staleness_lock);
        t->in_use = false;
        tide_unlock(&t->c->staleness_lock);
        tide_table_release(table);
    }
}

void tide__staleness_free(struct tide__clocked *c) {
    while (c->staleness_stats) {
        struct tide__staleness_stats *next = c->staleness_stats->next;
        tide_free(c->staleness_stats);
        c->staleness_stats = next;
    }
}

void tide__staleness_clock(struct tide__worker *worker, uint64_t waited_ns) {
    uint32_t least = UINT32_MAX;
    for (struct tide__staleness_stats *t = worker->staleness_stats; t; t = t->of_worker) {
        const uint32_t s = atomic_load_explicit(&t->c->staleness, memory_order_relaxed);
        least = tide__has_clock_bound(t->c) && s < least ? s : least;
    }
    for (struct tide__staleness_stats *t = worker->staleness_stats; t; t = t->of_worker) {
        tide__staleness_add(&t->clocks, 1);
        if (waited_ns && tide__has_clock_bound(t->c) &&
            atomic_load_explicit(&t->c->staleness, memory_order_relaxed) == least) {
            tide__staleness_add(&t->clock_ns, waited_ns); /* that bound held it */
        }
    }
}

/* ---- reading ---- */

static uint64_t of(const atomic_uint_fast64_t *value) {
    return atomic_load_explicit(value, memory_order_relaxed);
}

static void add(struct tide_worker_staleness *to, const struct tide__staleness_stats *t) {
    for (size_t d = 0; d < TIDE_COUNT(to->count); d++) {
        to->count[d] += of(&t->differential[d]);
    }
    to->under += of(&t->differential[TIDE__UNDER]);
    to->over += of(&t->differential[TIDE__OVER]);
    to->hits += of(&t->hits);
    to->waits += of(&t->waits);
    to->fetches += of(&t->fetches);
    to->clocks += of(&t->clocks);
    to->waited_ns += of(&t->waited_ns);
    to->clock_ns += of(&t->clock_ns);
    to->stops += of(&t->stops);
    to->stopped_ns += of(&t->stopped_ns);
}

static void moments(struct tide_worker_staleness *s) {
    double pulls = 0, sum = 0, squares = 0;
    for (size_t d = 0; d < TIDE_COUNT(s->count); d++) {
        pulls += (double)s->count[d];
        sum -= (double)d * (double)s->count[d];
        squares += (double)(d * d) * (double)s->count[d];
    }
    s->mean = pulls > 0 ? sum / pulls : 0;
    s->variance = pulls > 0 ? squares / pulls - s->mean * s->mean : 0;
}

void tide__staleness_sum(struct tide__clocked *c, struct tide_worker_staleness *out) {
    *out = (struct tide_worker_staleness){.worker = TIDE_NO_CLOCK};
    tide_lock(&c->staleness_lock);
    for (const struct tide__staleness_stats *t = c->staleness_stats; t; t = t->next) {
        add(out, t);
    }
    tide_unlock(&c->staleness_lock);
    add(out, &c->of_others);
    moments(out);
}

static int by_worker(const void *a, const void *b) {
    const struct tide_worker_staleness *x = a, *y = b;
    return (x->worker > y->worker) - (x->worker < y->worker);
}

size_t tide_table_worker_staleness(struct tide_table *table, struct tide_worker_staleness *out, size_t limit) {
    struct tide__clocked *c = tide__clocked_part(table);
    size_t count = 0, listed = 0;
    if (!c) {
        return 0;
    }
    tide_lock(&c->staleness_lock);
    for (const struct tide__staleness_stats *t = c->staleness_stats; t; t = t->next) {
        bool first = true;
        for (const struct tide__staleness_stats *u = c->staleness_stats; u != t && first; u = u->next) {
            first = u->worker != t->worker;
        }
        count += first;
        if (!first || listed == limit) {
            continue;
        }
        out[listed] = (struct tide_worker_staleness){.worker = t->worker};
        for (const struct tide__staleness_stats *u = t; u; u = u->next) {
            if (u->worker == t->worker) {
                add(&out[listed], u);
            }
        }
        listed++;
    }
    tide_unlock(&c->staleness_lock);
    for (size_t i = 0; i < listed; i++) {
        moments(&out[i]);
    }
    if (listed) {
        qsort(out, listed, sizeof *out, by_worker);
    }
    return count;
}
