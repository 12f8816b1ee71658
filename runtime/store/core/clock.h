/*
 * Runs, as a store knows them, and clocks of workers.
 *
 * A run is a number that is never given again (0: callers that named none). Its tables count against its
 * own budget of memory. A domain of clocks is a run, too: its workers wait for each other and for
 * no others, and only tables that name it have its clocks.
 *
 * A worker is a fiber that said so (tide_worker_begin); it counts its intervals by tide_clock, and
 * what it pushes in interval c has stamp c. The node clock of a domain is the minimum over its
 * workers on the node: no push of a smaller stamp will be made by them here any more.
 */
#ifndef TIDE_STORE_CLOCK_H
#define TIDE_STORE_CLOCK_H

#include "base/budget.h"
#include "store/core/message.h"
#include "store/core/store.h"
#include "tide/clock.h"

struct tide__clocks;
struct tide__sync;
struct tide__run {
    _Atomic(struct tide__run *) next; /* of the store's */
    struct tide_store *store;
    uint32_t number;
    unsigned holders, tables;          /* under the store's lock of runs: all; those whose memory is the run's */
    struct tide_budget budget;         /* of the run on this node; its parent is the store's */
    struct tide__clocks *clocks;       /* of its workers here */
    _Atomic(struct tide__sync *) sync; /* clocked.h; NULL: no table of this domain has clocks */
    atomic_uint cut_clock;             /* of the generation that is being written of it; TIDE_NO_CLOCK: none */
};

/* Holds the run of that number, which is made if need be; NULL: no memory. Any thread. */
struct tide__run *tide__run_hold(struct tide_store *store, uint32_t number);
void tide__run_release(struct tide__run *run); /* any thread */
/* Of that number, or NULL. It stays while the I/O thread, which alone may ask, is at its message. */
struct tide__run *tide__run_find(struct tide_store *store, uint64_t number);
/* Unheld runs are freed; I/O thread. */
void tide__runs_sweep(struct tide_store *store, void (*ends)(struct tide__run *run));
/* The table is of these runs from now on, and its memory counts there; sets its `domain`, `owner` and
 * `budget`. ENOMEM. */
int tide__run_take_table(struct tide_store *store, struct tide_table *table);
void tide__run_give_table(struct tide_table *table);

/* A worker of this node. Written by its own fiber, `clock` under the registry's lock. */
struct tide__worker {
    struct tide_fiber_local local;
    struct tide__worker *next; /* of the node's in its domain */
    struct tide_store *store;
    struct tide__run *domain; /* held */
    uint32_t number;          /* of the run */
    uint32_t clock;
    uint64_t bound_serial;                         /* of the bounds in force when its interval began (clocked.h) */
    struct tide__bsp_pushed *bsp_pushed;           /* bsp: what it pushed in this interval */
    struct tide__staleness_stats *staleness_stats; /* what it saw of tables with clocks */
    uint64_t waited_ns;                            /* for the clock that it is about to end */
};

/* Called one after the other, in the order in which they were added; each may be NULL. */
struct tide__clock_watch {
    struct tide__clock_watch *next;
    /* On the fiber of a worker that is about to begin at *clock, and may raise it; may suspend. An
     * error: it does not begin. */
    int (*begins)(void *arg, uint32_t *clock);
    /* On the fiber of a worker that is to end its interval; may suspend. An error: it
     * continues. */
    int (*may_end)(void *arg, struct tide__worker *worker);
    /* On a fiber that was a worker until now and said tide_worker_end; may suspend. */
    void (*left)(void *arg);
    /* On the fiber of a worker whose interval ends, before its clock is counted. Must not
     * suspend. */
    void (*interval_ended)(void *arg, struct tide__worker *worker);
    /*
     * The node clock of the domain changed. On the thread of the worker that changed it: its fiber, or, when the
     * worker ended, the scheduler of that thread. Never two at a time, and in the order
     * of the changes. TIDE_NO_CLOCK: the last worker ended. It goes down only when a worker begins.
     * Does not suspend.
     */
    void (*changed)(void *arg, uint32_t node_clock);
    /* A worker ended in whatever way; on its thread. Does not suspend. */
    void (*ended)(void *arg, struct tide__worker *worker);
    void *arg;
};

int tide__runs_create(struct tide_store *store); /* and run 0, which stays */
/* After all fibers have ended, and all tables. */
void tide__runs_destroy(struct tide_store *store, void (*ends)(struct tide__run *run));
/* Before the domain's first worker begins; the watch lives as long as the domain. */
void tide__clock_watch(struct tide__run *domain, struct tide__clock_watch *watch);

/*
 * The gate, for cuts (cut.h): no worker of the domain begins an interval >= gate before it is moved on; it waits
 * in tide_clock. `hold` puts it `ahead` clocks behind the fastest worker and returns that one's
 * clock (TIDE_NO_CLOCK, and no gate, if there is no worker); TIDE_NO_CLOCK opens it. Any thread.
 */
uint32_t tide__clocks_hold(struct tide__run *domain, uint32_t ahead);
void tide__clocks_gate(struct tide__run *domain, uint32_t gate);

/* The calling fiber's clock; TIDE_NO_CLOCK if it is no worker. Any thread. */
uint32_t tide__worker_stamp(void);
/* The calling fiber's record; NULL if it is no worker. Any thread. */
struct tide__worker *tide__worker_current(void);
/* The calling fiber's record if it is a worker of the table's domain, and counts there. Any thread. */
struct tide__worker *tide__worker_of(const struct tide_table *table);
/*
 * The stamp of what the calling fiber pushes to the table: TIDE_NO_CLOCK for the tables of another
 * domain. Those of none are stamped by the pusher: a cut by the clocks of one domain has all that
 * its workers pushed before, and of others' pushes each or not.
 */
uint32_t tide__push_stamp(const struct tide_table *table);
uint32_t tide__worker_domain(void);                  /* the number of its domain; 0, too, if it is no worker */
uint32_t tide__node_clock(struct tide__run *domain); /* any thread */

/* One more than the highest clock a worker of the domain had here. Any thread. */
uint32_t tide__highest_clock(struct tide__run *domain);

struct tide__worker_clock {
    uint32_t worker, clock;
    uint32_t domain;
};
/* Copies up to `limit` workers of this node, a domain's (NULL: all) by number; returns how many there
 * are. Any thread. */
size_t tide__worker_clocks(struct tide_store *store, struct tide__run *domain, struct tide__worker_clock *out,
                           size_t limit);
/* Of run.c only: what a run keeps for its workers. */
struct tide__clocks *tide__clocks_create(void); /* NULL: no memory */
void tide__clocks_destroy(struct tide__clocks *clocks);
size_t tide__clocks_list(struct tide__run *domain, struct tide__worker_clock *out, size_t limit);

/* The one domain that has workers here; NULL: none has, or (*several) more than one. I/O thread. */
struct tide__run *tide__domain_at_work(struct tide_store *store, bool *several);

#endif
