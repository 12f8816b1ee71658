/*
 * The second tier of a table (store/tier) as the rooms below it see it. A row in memory is named by its number in the
 * slab, a row on the disk by its place, which a COLD word holds. See tier/tier.h.
 */
#ifndef TIDE_STORE_TIERED_H
#define TIDE_STORE_TIERED_H

#include "store/core/table.h"

/* The place of a row with initial values, which needs no read. */
#define TIDE__PLACE_INITIAL UINT32_MAX

struct tide__tiered {
    /* any thread */
    atomic_uint rows_most;      /* most rows in memory: at this number a new row waits */
    atomic_uint rows_wake;      /* number of rows in memory at which freezing begins */
    atomic_bool woken;          /* a notification of the store actor is pending */
    atomic_uint_fast64_t aside; /* rows that are on the disk, or wait for room in memory; the I/O thread writes */
    void (*wake)(struct tide_table *table);
    void (*hold_rows)(struct tide_table *table); /* no more rows in memory than there are */
    /* I/O thread */
    bool opening;     /* the disk thread opens the directory */
    bool asked;       /* the controller's request for the result is pending */
    uint64_t changes; /* of that request (catalog.c) */
    int refused;      /* error of the directory; 0: it is in use */
    /* Begins the read of the row of a locked ARRIVING, cold word, unless it is in flight. */
    void (*want)(struct tide_table *table, uint32_t slot, uint64_t key, uint64_t word);
    /* Releases the place of a cold row. */
    void (*forget)(struct tide_table *table, uint32_t place);
};

/* NULL: all rows are in memory. */
static inline struct tide__tiered *tide__tiered_of(const struct tide_table *table) {
    return table->parts[TIDE__PART_TIER];
}

/* Rows of the table on this node: those that a limit of keys counts. */
static inline uint64_t tide__rows_here(const struct tide_table *table) {
    return tide__slab_used(&table->slab) +
           (TIDE_UNLIKELY(tide__tiered_of(table))
                ? atomic_load_explicit(&tide__tiered_of(table)->aside, memory_order_relaxed)
                : 0);
}

/* Is an eighth of the cap of the node, or of the run, or less left for tables? Rows in memory are to be no more then.
 */
static inline bool tide__tier_short(const struct tide_table *table) {
    const struct tide_budget *budget = table->budget;
    const uint64_t cap = budget->cap || !budget->parent ? budget->cap : budget->parent->cap;
    return tide_budget_lacking(budget, cap / 8);
}

/* Must a new row wait? */
static inline bool tide__tier_full(const struct tide_table *table) {
    return tide__tiered_of(table) && tide__slab_used(&table->slab) >=
                                         atomic_load_explicit(&tide__tiered_of(table)->rows_most, memory_order_relaxed);
}

/* Called after a row was made. Any thread. */
static inline void tide__tier_made(struct tide_table *table) {
    if (TIDE_UNLIKELY(tide__tiered_of(table)) &&
        tide__slab_used(&table->slab) >=
            atomic_load_explicit(&tide__tiered_of(table)->rows_wake, memory_order_relaxed) &&
        !atomic_load_explicit(&tide__tiered_of(table)->woken, memory_order_relaxed)) {
        tide__tiered_of(table)->wake(table);
    }
}

#endif
