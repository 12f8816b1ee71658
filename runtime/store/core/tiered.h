/*
 * What the rooms below the second tier (store/tier) ask of it, for one table. Rows in memory are named by the slab,
 * rows on the disk by places; a word COLD has the place of its row. See tier/tier.h.
 */
#ifndef TIDE_STORE_TIERED_H
#define TIDE_STORE_TIERED_H

#include "store/core/table.h"

/* A place of a row that is the initial one: nothing is read. */
#define TIDE__PLACE_INITIAL UINT32_MAX

struct tide__tiered {
    /* any thread */
    atomic_uint rows_most; /* in memory: a new row waits until there are fewer */
    atomic_uint rows_wake; /* from so many on rows are frozen */
    atomic_bool woken;     /* the store actor has been notified, and has not looked yet */
    void (*wake)(struct tide_table *table);
    /* I/O thread */
    bool opening;     /* the disk thread looks at the directory */
    bool asked;       /* the controller waits for that */
    uint64_t changes; /* as it asked (catalog.c) */
    int refused;      /* why the directory is not used; 0: it is */
    /* The row of an ARRIVING, cold word (locked) is needed: it is read, unless it is being read. */
    void (*want)(struct tide_table *table, uint32_t slot, uint64_t key, uint64_t word);
    /* A cold row is not needed at its place any more. */
    void (*forget)(struct tide_table *table, uint32_t place);
};

/* Has a new row to wait? */
static inline bool tide__tier_full(const struct tide_table *table) {
    return table->tier &&
           tide__slab_used(&table->slab) >= atomic_load_explicit(&table->tier->rows_most, memory_order_relaxed);
}

/* A row was made. Any thread. */
static inline void tide__tier_made(struct tide_table *table) {
    if (TIDE_UNLIKELY(table->tier) &&
        tide__slab_used(&table->slab) >= atomic_load_explicit(&table->tier->rows_wake, memory_order_relaxed) &&
        !atomic_load_explicit(&table->tier->woken, memory_order_relaxed)) {
        table->tier->wake(table);
    }
}

#endif
