/* Clocks of the workers of a domain and of the node: a registry under a lock that is held for a few
 * instructions.
 *
 * `changed` runs outside that lock but one at a time, because its callee sends messages whose
 * order must be the order of the clocks. The fiber that finds another one at it does not wait: it
 * leaves the change, and the other handles it before it stops. */
#include "store/core/clock.h"

#include "store/core/node_store.h"
#include "tide/clock.h"

enum { GATE_NS = 100000 }; /* how often a worker at a closed gate looks again */

struct tide__clocks {
    struct tide_lock lock;
    struct tide__worker *first; /* ascending by number */
    struct tide__clock_watch *watches, **watches_end;
    atomic_uint node_clock;
    atomic_uint highest; /* one more than any worker's clock so far */
    uint32_t told;       /* to the watches */
    uint32_t gate;       /* intervals from here on wait; under the lock */
    bool telling;
};

struct tide__clocks *tide__clocks_create(void) {
    struct tide__clocks *c = tide_alloc_zero(1, sizeof *c);
    if (c) {
        c->watches_end = &c->watches;
        c->told = TIDE_NO_CLOCK;
        c->gate = TIDE_NO_CLOCK;
        atomic_init(&c->node_clock, TIDE_NO_CLOCK);
    }
    return c;
}

void tide__clocks_destroy(struct tide__clocks *clocks) {
    TIDE_ASSERT(!clocks->first);
    tide_free(clocks);
}

void tide__clock_watch(struct tide__run *domain, struct tide__clock_watch *watch) {
    struct tide__clocks *c = domain->clocks;
    watch->next = NULL;
    *c->watches_end = watch;
    c->watches_end = &watch->next;
}

/* ---- the node clock ---- */

static bool numbers_ascend(const struct tide__clocks *c) {
    const struct tide__worker *w = c->first;
    while (w && w->next && w->number <= w->next->number) {
        w = w->next;
    }
    return !w || !w->next;
}

/* Lock held. */
static void update(struct tide__clocks *c) {
    uint32_t least = TIDE_NO_CLOCK, highest = atomic_load(&c->highest);
    for (const struct tide__worker *w = c->first; w; w = w->next) {
        least = w->clock < least ? w->clock : least;
        highest = w->clock >= highest ? w->clock + 1 : highest;
    }
    atomic_store_explicit(&c->highest, highest, memory_order_relaxed);
    TIDE_INVARIANT(!c->first || (least < highest && numbers_ascend(c)));
    /* release: pairs with tide__node_clock; what the workers pushed before is visible then */
    atomic_store_explicit(&c->node_clock, least, memory_order_release);
}

static void tell(struct tide__run *domain) {
    struct tide__clocks *c = domain->clocks;
    tide_lock(&c->lock);
    if (c->telling) { /* the announcer looks again */
        tide_unlock(&c->lock);
        return;
    }
    c->telling = true;
    uint32_t now;
    while ((now = atomic_load_explicit(&c->node_clock, memory_order_relaxed)) != c->told) {
        c->told = now;
        tide_unlock(&c->lock);
        for (struct tide__clock_watch *w = c->watches; w; w = w->next) {
            if (w->changed) {
                w->changed(w->arg, now);
            }
        }
        tide_lock(&c->lock);
    }
    c->telling = false;
    tide_unlock(&c->lock);
}

uint32_t tide__node_clock(struct tide__run *domain) {
    return atomic_load_explicit(&domain->clocks->node_clock, memory_order_acquire); /* update */
}

uint32_t tide__highest_clock(struct tide__run *domain) {
    return atomic_load_explicit(&domain->clocks->highest, memory_order_relaxed);
}

/* ---- workers ---- */

static void worker_end(struct tide_fiber_local *local) {
    struct tide__worker *worker = TIDE_CONTAINER(local, struct tide__worker, local);
    struct tide_store *store = worker->store;
    struct tide__run *domain = worker->domain;
    struct tide__clocks *c = domain->clocks;
    tide_lock(&c->lock);
    struct tide__worker **at = &c->first;
    while (*at != worker) {
        at = &(*at)->next;
    }
    *at = worker->next;
    update(c);
    tide_unlock(&c->lock);
    for (struct tide__clock_watch *w = c->watches; w; w = w->next) {
        if (w->ended) {
            w->ended(w->arg, worker);
        }
    }
    tide_free(worker);
    if (!store->port || !store->port->crashed) {
        tell(domain);
    }
    tide__run_release(domain);
}

struct tide__worker *tide__worker_current(void) {
    struct tide_fiber_local *local = tide_fiber_local();
    return local && local->end == worker_end ? TIDE_CONTAINER(local, struct tide__worker, local) : NULL;
}

uint32_t tide__worker_stamp(void) {
    const struct tide__worker *worker = tide__worker_current();
    return worker ? worker->clock : TIDE_NO_CLOCK;
}

struct tide__worker *tide__worker_of(const struct tide_table *table) {
    struct tide__worker *worker = tide__worker_current();
    return worker && worker->domain == table->domain ? worker : NULL;
}

uint32_t tide__worker_domain(void) {
    const struct tide__worker *worker = tide__worker_current();
    return worker ? worker->domain->number : 0;
}

uint32_t tide__push_stamp(const struct tide_table *table) {
    const struct tide__worker *worker = tide__worker_current();
    const bool counts = worker && (worker->domain == table->domain || table->options.domain == 0);
    return counts ? worker->clock : TIDE_NO_CLOCK;
}

int64_t tide_worker_clock(void) {
    const struct tide__worker *worker = tide__worker_current();
    return worker ? (int64_t)worker->clock : -1;
}

int tide_worker_begin(struct tide_node *node, uint32_t number, uint32_t clock) {
    return tide_worker_begin_in(node, 0, number, clock);
}

int tide_worker_begin_in(struct tide_node *node, uint32_t run, uint32_t number, uint32_t clock) {
    struct tide_store *store = tide_store_of(node);
    if (!store || !tide_fiber_current()) {
        return tide_fail(TIDE_EINVAL, "a worker is a fiber of a node with a store");
    }
    if (tide__worker_current()) {
        return tide_fail(TIDE_EINVAL, "this fiber is a worker already");
    }
    if (clock > INT32_MAX) {
        return tide_fail(TIDE_EINVAL, "a worker begins at clock %u, over the limit of %d", clock, INT32_MAX);
    }
    struct tide__worker *worker = tide_alloc(sizeof *worker); /* first: others wait for it then */
    struct tide__run *domain = worker ? tide__run_hold(store, TIDE_MUTANT(domain_mixed) ? 0 : run) : NULL;
    if (!domain) {
        tide_free(worker);
        return tide_fail(TIDE_ENOMEM, "no memory for a worker");
    }
    struct tide__clocks *c = domain->clocks;
    for (struct tide__clock_watch *w = c->watches; w; w = w->next) {
        int code = w->begins ? w->begins(w->arg, &clock) : 0;
        if (code) {
            tide_free(worker);
            tide__run_release(domain);
            return code;
        }
    }
    *worker = (struct tide__worker){
        .local = {.end = worker_end}, .store = store, .domain = domain, .number = number, .clock = clock};
    tide_lock(&c->lock);
    if (c->watches && c->told != TIDE_NO_CLOCK && worker->clock < c->told) {
        worker->clock = c->told; /* others, which wait for it, were notified since the watches answered */
    }
    struct tide__worker **at = &c->first;
    while (*at && (*at)->number <= number) {
        at = &(*at)->next;
    }
    worker->next = *at;
    *at = worker;
    update(c);
    tide_unlock(&c->lock);
    tide_fiber_set_local(&worker->local);
    tell(domain);
    return 0;
}

void tide_worker_end(void) {
    struct tide__worker *worker = tide__worker_current();
    if (!worker) {
        return;
    }
    struct tide__run *domain = tide__run_hold(worker->store, worker->domain->number); /* it is there */
    tide_fiber_set_local(NULL);
    for (struct tide__clock_watch *w = domain->clocks->watches; w; w = w->next) {
        if (w->left) {
            w->left(w->arg);
        }
    }
    tide__run_release(domain);
}

uint32_t tide__clocks_hold(struct tide__run *domain, uint32_t ahead) {
    struct tide__clocks *c = domain->clocks;
    uint32_t most = TIDE_NO_CLOCK;
    tide_lock(&c->lock);
    for (const struct tide__worker *w = c->first; w; w = w->next) {
        most = most == TIDE_NO_CLOCK || w->clock > most ? w->clock : most;
    }
    c->gate = most == TIDE_NO_CLOCK ? TIDE_NO_CLOCK : most + ahead;
    tide_unlock(&c->lock);
    return most;
}

void tide__clocks_gate(struct tide__run *domain, uint32_t gate) {
    tide_lock(&domain->clocks->lock);
    domain->clocks->gate = gate;
    tide_unlock(&domain->clocks->lock);
}

/* Counts the clock unless the gate is closed to the next interval. */
static bool count_clock(struct tide__clocks *c, struct tide__worker *worker) {
    tide_lock(&c->lock);
    bool open = worker->clock + 1 < c->gate;
    if (open) {
        worker->clock++;
        update(c);
    }
    tide_unlock(&c->lock);
    return open;
}

int tide_clock(void) {
    struct tide__worker *worker = tide__worker_current();
    if (!worker) {
        return tide_fail(TIDE_EINVAL, "clock: this fiber is no worker");
    }
    if (worker->clock >= INT32_MAX) {
        return tide_fail(TIDE_ERANGE, "a worker has %d clocks", INT32_MAX);
    }
    struct tide__clocks *c = worker->domain->clocks;
    for (struct tide__clock_watch *w = c->watches; w; w = w->next) {
        int code = w->may_end ? w->may_end(w->arg, worker) : 0;
        if (code) {
            return code;
        }
    }
    for (struct tide__clock_watch *w = c->watches; w; w = w->next) {
        if (w->interval_ended) {
            w->interval_ended(w->arg, worker);
        }
    }
    while (!count_clock(c, worker)) { /* a cut is about to be sent to all nodes: two round trips */
        int code = tide_sleep(GATE_NS);
        if (code) {
            return code;
        }
    }
    tell(worker->domain);
    return (int)worker->clock;
}

size_t tide__clocks_list(struct tide__run *domain, struct tide__worker_clock *out, size_t limit) {
    struct tide__clocks *c = domain->clocks;
    size_t count = 0;
    tide_lock(&c->lock);
    for (const struct tide__worker *w = c->first; w; w = w->next, count++) {
        if (count < limit) {
            out[count] = (struct tide__worker_clock){.worker = w->number, .clock = w->clock, .domain = domain->number};
        }
    }
    tide_unlock(&c->lock);
    return count;
}
