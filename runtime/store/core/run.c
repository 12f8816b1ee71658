/*
 * The runs of a store (clock.h): a list under a lock that is held for a few instructions. The I/O
 * thread alone takes runs out of it, between two messages, so it follows the list without the lock.
 */
#include "store/core/clock.h"
#include "store/core/node_store.h"

static struct tide__run *first_run(struct tide_store *store) {
    return atomic_load_explicit(&store->runs, memory_order_acquire); /* pairs with run_make */
}

static struct tide__run *next_run(const struct tide__run *run) {
    return atomic_load_explicit(&run->next, memory_order_acquire);
}

static struct tide__run *find(struct tide_store *store, uint64_t number) {
    struct tide__run *run = first_run(store);
    while (run && run->number != number) {
        run = next_run(run);
    }
    return run;
}

struct tide__run *tide__run_find(struct tide_store *store, uint64_t number) {
    return find(store, number);
}

/* Lock held. */
static struct tide__run *run_make(struct tide_store *store, uint32_t number) {
    struct tide__run *run = tide_alloc_zero(1, sizeof *run);
    struct tide__clocks *clocks = run ? tide__clocks_create() : NULL;
    if (!clocks) {
        tide_free(run);
        return NULL;
    }
    run->store = store;
    run->number = number;
    run->clocks = clocks;
    run->budget.parent = &store->budget;
    atomic_init(&run->cut_clock, TIDE_NO_CLOCK);
    atomic_init(&run->next, first_run(store));
    atomic_store_explicit(&store->runs, run, memory_order_release);
    return run;
}

struct tide__run *tide__run_hold(struct tide_store *store, uint32_t number) {
    tide_lock(&store->runs_lock);
    struct tide__run *run = find(store, number);
    run = run ? run : run_make(store, number);
    if (run) {
        run->holders++;
    }
    tide_unlock(&store->runs_lock);
    if (!run) {
        (void)tide_fail(TIDE_ENOMEM, "no memory for run %u", number);
    }
    return run;
}

void tide__run_release(struct tide__run *run) {
    struct tide_store *store = run->store;
    tide_lock(&store->runs_lock);
    TIDE_ASSERT(run->holders > 0);
    if (--run->holders == 0) {
        atomic_store_explicit(&store->runs_unheld, true, memory_order_relaxed);
    }
    tide_unlock(&store->runs_lock);
}

/* ---- tables ---- */

int tide__run_take_table(struct tide_store *store, struct tide_table *table) {
    const struct tide_table_options *o = &table->options;
    struct tide__run *domain = tide__run_hold(store, TIDE_MUTANT(domain_mixed) ? 0 : o->domain),
                     *owner = domain ? tide__run_hold(store, o->run) : NULL;
    if (!owner) {
        if (domain) {
            tide__run_release(domain);
        }
        return TIDE_ENOMEM;
    }
    tide_lock(&store->runs_lock);
    if (owner->tables++ == 0 && o->run != 0 && !TIDE_MUTANT(run_memory_forgotten)) {
        /* nothing is counted yet */
        owner->budget.cap = o->run_memory;
    }
    tide_unlock(&store->runs_lock);
    table->domain = domain;
    table->owner = owner;
    table->budget = &owner->budget;
    return 0;
}

void tide__run_give_table(struct tide_table *table) {
    tide_lock(&table->store->runs_lock);
    table->owner->tables--;
    tide_unlock(&table->store->runs_lock);
    tide__run_release(table->owner);
    tide__run_release(table->domain);
}

void tide_store_run_memory(struct tide_store *store, uint32_t number, struct tide_store_memory *out) {
    *out = (struct tide_store_memory){0};
    tide_lock(&store->runs_lock);
    const struct tide__run *run = find(store, number);
    if (run) {
        const struct tide_budget *b = &run->budget;
        *out = (struct tide_store_memory){.cap = b->cap,
                                          .used = tide_budget_used(b),
                                          .most = atomic_load_explicit(&b->most, memory_order_relaxed),
                                          .refused = atomic_load_explicit(&b->refused, memory_order_relaxed)};
    }
    tide_unlock(&store->runs_lock);
}

/* ---- the store ---- */

static void run_free(struct tide__run *run, void (*ends)(struct tide__run *run)) {
    ends(run);
    tide__clocks_destroy(run->clocks);
    tide_free(run);
}

int tide__runs_create(struct tide_store *store) {
    return tide__run_hold(store, 0) ? 0 : TIDE_ENOMEM;
}

void tide__runs_destroy(struct tide_store *store, void (*ends)(struct tide__run *run)) {
    struct tide__run *run = first_run(store);
    while (run) {
        struct tide__run *next = next_run(run);
        run_free(run, ends);
        run = next;
    }
    atomic_store(&store->runs, NULL);
}

void tide__runs_sweep(struct tide_store *store, void (*ends)(struct tide__run *run)) {
    if (TIDE_LIKELY(!atomic_load_explicit(&store->runs_unheld, memory_order_relaxed))) {
        return;
    }
    struct tide__run *unheld = NULL;
    tide_lock(&store->runs_lock);
    atomic_store_explicit(&store->runs_unheld, false, memory_order_relaxed);
    for (_Atomic(struct tide__run *) *at = &store->runs; atomic_load(at);) {
        struct tide__run *run = atomic_load(at);
        if (run->holders > 0) {
            at = &run->next;
            continue;
        }
        atomic_store(at, next_run(run));
        atomic_store(&run->next, unheld);
        unheld = run;
    }
    tide_unlock(&store->runs_lock);
    while (unheld) {
        struct tide__run *next = next_run(unheld);
        run_free(unheld, ends);
        unheld = next;
    }
}

struct tide__run *tide__domain_at_work(struct tide_store *store, bool *several) {
    struct tide__run *found = NULL;
    *several = false;
    for (struct tide__run *run = first_run(store); run; run = next_run(run)) {
        if (tide__node_clock(run) != TIDE_NO_CLOCK) {
            *several = *several || found;
            found = run;
        }
    }
    return *several ? NULL : found;
}

size_t tide__worker_clocks(struct tide_store *store, struct tide__run *domain, struct tide__worker_clock *out,
                           size_t limit) {
    if (domain) {
        return tide__clocks_list(domain, out, limit);
    }
    size_t count = 0;
    tide_lock(&store->runs_lock); /* none is taken out meanwhile */
    for (struct tide__run *run = first_run(store); run; run = next_run(run)) {
        const size_t left = count < limit ? limit - count : 0;
        count += tide__clocks_list(run, left ? out + count : NULL, left);
    }
    tide_unlock(&store->runs_lock);
    return count;
}
