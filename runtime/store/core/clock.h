/*
 * Clocks of workers. A worker is a fiber that said so (tide_worker_begin); it counts its intervals
 * by tide_clock, and what it pushes in interval c has stamp c. The node clock is the minimum over
 * the node's workers: no push of a smaller stamp will be made here any more.
 */
#ifndef TIDE_STORE_CLOCK_H
#define TIDE_STORE_CLOCK_H

#include "store/core/store.h"

#define TIDE_NO_CLOCK UINT32_MAX /* no worker; as the clock of a node: it holds nobody up */

/* A worker of this node. Written by its own fiber, `clock` under the registry's lock. */
struct tide__worker {
    struct tide_fiber_local local;
    struct tide__worker *next; /* of the node's */
    struct tide_store *store;
    uint32_t number; /* of the run */
    uint32_t clock;
    uint64_t bound_serial;          /* of the bounds in force when its interval began (clocked.h) */
    struct tide__overlay *overlays; /* bsp: what it pushed in this interval */
    struct tide__tally *tallies;    /* what it saw of tables with clocks */
    uint64_t waited_ns;             /* for the clock that it is about to end */
};

/* Called one after the other, in the order in which they were added; each may be NULL. */
struct tide__clock_watch {
    struct tide__clock_watch *next;
    /* On the fiber of a worker that is about to begin at *clock, and may raise it; may suspend. An
     * error: it does not begin. */
    int (*begins)(void *arg, uint32_t *clock);
    /* On the fiber of a worker that wants to end its interval; may suspend. An error: it goes
     * on. */
    int (*may_end)(void *arg, struct tide__worker *worker);
    /* On a fiber that was a worker until now and said tide_worker_end; may suspend. */
    void (*left)(void *arg);
    /* On the fiber of a worker whose interval ends, before its clock is counted. Must not
     * suspend. */
    void (*interval_ended)(void *arg, struct tide__worker *worker);
    /*
     * The node clock changed. On the thread of the worker that changed it: its fiber, or, when the
     * worker ended, the scheduler of that thread. Never two at a time on one node, and in the order
     * of the changes. TIDE_NO_CLOCK: the last worker ended. It goes down only when a worker begins.
     * Does not suspend.
     */
    void (*changed)(void *arg, uint32_t node_clock);
    /* A worker ended in whatever way; on its thread. Does not suspend. */
    void (*ended)(void *arg, struct tide__worker *worker);
    void *arg;
};

struct tide__clocks;
int tide__clocks_create(struct tide_store *store);
void tide__clocks_destroy(struct tide_store *store); /* after all fibers have ended */
/* Before the first worker begins; the watch lives as long as the store. */
void tide__clock_watch(struct tide_store *store, struct tide__clock_watch *watch);

/*
 * The gate, for cuts (cut.h): no worker begins an interval >= gate before it is moved on; it waits
 * in tide_clock. `hold` puts it `ahead` clocks behind the fastest worker and returns that one's
 * clock (TIDE_NO_CLOCK, and no gate, if there is no worker); TIDE_NO_CLOCK opens it. Any thread.
 */
uint32_t tide__clocks_hold(struct tide_store *store, uint32_t ahead);
void tide__clocks_gate(struct tide_store *store, uint32_t gate);

/* The calling fiber's clock; TIDE_NO_CLOCK if it is no worker. Any thread. */
uint32_t tide__worker_stamp(void);
/* The calling fiber's record; NULL if it is no worker. Any thread. */
struct tide__worker *tide__worker_current(void);
uint32_t tide__node_clock(struct tide_store *store); /* any thread */

/* One more than the highest clock a worker of this node had. Any thread. */
uint32_t tide__highest_clock(struct tide_store *store);

struct tide__worker_clock {
    uint32_t worker, clock;
};
/* Copies up to `limit` workers of this node, by number; returns how many there are. Any thread. */
size_t tide__worker_clocks(struct tide_store *store, struct tide__worker_clock *out, size_t limit);

#endif
