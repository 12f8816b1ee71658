/*
 * The memory budget of a node: a cap, how much of it is in use, and the tier that this makes.
 *
 * What is counted is what the runtime holds for the cluster, not the process: rows, indexes and
 * records (`kept`: recorded when they are taken) and what waits in queues (`queued`: looked at
 * now and then, store/core/pressure.c). So it is the same on simulated nodes, of which many are in one
 * process, and memory of scripts and libraries, which cannot be reclaimed here, moves no tier.
 *
 * A tier begins at its share of the cap and ends 5 % of the cap below it: what a node
 * frees at its beginning must not begin it again at once. Without a cap nothing is counted.
 *
 * A budget with a parent is a part of a node's, of one run (store/core/clock.h): all that it counts
 * is kept, it has no tiers, and may be used up to its cap.
 */
#ifndef TIDE_BASE_BUDGET_H
#define TIDE_BASE_BUDGET_H

#include "base/base.h"

enum tide_tier {
    TIDE_TIER_CALM,
    TIDE_TIER_TIGHT,  /* 80 %: others may have one operation at a time in flight */
    TIDE_TIER_NARROW, /* 90 %: and no rows come here that could be elsewhere */
    TIDE_TIER_FULL,   /* 95 %: and tables make no more rows, checkpoints are aborted */
    TIDE_TIER_OVER,   /* the cap: and no node may join */
};
#define TIDE_MEMORY_CAP_MIN (UINT64_C(32) << 20)
#define TIDE_RUN_MEMORY_MIN (UINT64_C(1) << 20) /* some tables with their first rows */

struct tide_budget {
    struct tide_budget *parent; /* what is counted here is counted there, too; NULL: none. Constant */
    uint64_t cap;               /* 0: none; set before anything is counted */
    /* any thread, atomic */
    atomic_uint_fast64_t kept, queued, most;
    atomic_uint tier;
    atomic_uint_fast64_t refused; /* operations and requests */
};

/* EINVAL: too small to start with, or more than the machine has (machine 0: not known). */
int tide_memory_cap_check(uint64_t cap, uint64_t machine);
void tide_budget_keep(struct tide_budget *budget, uint64_t bytes);
void tide_budget_drop(struct tide_budget *budget, uint64_t bytes);
uint64_t tide_budget_used(const struct tide_budget *budget);
/* Is counting on? */
static inline bool tide_budget_counts(const struct tide_budget *budget) {
    return budget->cap > 0 || (budget->parent && budget->parent->cap > 0);
}
/* May tables grow by so much? Of a node, what is left above is for operations in flight. The budget, or
 * the parent, that has no room; NULL: they may. */
const struct tide_budget *tide_budget_lacking(const struct tide_budget *budget, uint64_t bytes);
/* The queues hold so much now: the tier that follows. One thread. */
enum tide_tier tide_budget_look(struct tide_budget *budget, uint64_t queued);
static inline enum tide_tier tide_budget_tier(const struct tide_budget *budget) {
    return (enum tide_tier)atomic_load_explicit(&budget->tier, memory_order_relaxed);
}
/* After how long to try again what a node in this tier refused. */
uint32_t tide_tier_retry_ms(enum tide_tier tier);
/* "1.5 GiB" */
const char *tide_bytes_text(uint64_t bytes, char out[24]);

#endif
