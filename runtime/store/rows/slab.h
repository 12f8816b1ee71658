/*
 * Rows of fixed size in arenas that double, so that a row number becomes an address by one bit
 * scan. The I/O thread keeps a hand of free rows: what comes in place of what went costs it no
 * lock.
 */
#ifndef TIDE_STORE_SLAB_H
#define TIDE_STORE_SLAB_H

#include "base/budget.h"

enum { TIDE__ARENAS = 32, TIDE__HAND_ROWS = 1024 };

struct tide__slab {
    uint32_t row_floats;
    uint32_t stride; /* bytes */
    uint32_t base_shift;
    uint64_t first_rows; /* 1 << base_shift: of the first arena */
    uint32_t hand_rows;  /* there is room for so many in the hand */
    /* written under the lock, before a key word names a row of the arena */
    char *arena[TIDE__ARENAS];
    uintptr_t row_0[TIDE__ARENAS + 1]; /* of rows whose number, plus first_rows, has this highest
                                          bit: where row 0 were if it lay in their arena */
    struct tide_lock lock;
    uint32_t next;              /* rows ever taken; under the lock */
    struct tide_budget *budget; /* of the node; NULL: not counted */
    uint64_t counted;           /* bytes that the budget has counted; under the lock */
    uint32_t free_first;        /* free list through the rows' first word, UINT32_MAX ends it; under the lock */
    atomic_uint used;           /* read it by tide__slab_used */
    atomic_uint in_hand, lent;  /* of `used`; the I/O thread writes */
    uint32_t hand[TIDE__HAND_ROWS];
};
void tide__slab_init(struct tide__slab *slab, uint32_t row_floats, struct tide_budget *budget);
void tide__slab_deinit(struct tide__slab *slab);
int tide__slab_take(struct tide__slab *slab, uint32_t *row); /* contents undefined. EFULL, ENOMEM */
void tide__slab_give(struct tide__slab *slab, uint32_t row);
uint64_t tide__slab_bytes(struct tide__slab *slab);
/* How many rows can be taken for which no memory is asked. */
uint32_t tide__slab_spare(struct tide__slab *slab);

/* Rows that are taken. */
static inline uint32_t tide__slab_used(const struct tide__slab *slab) {
    /* `in_hand` grows first, so a limit that is compared with this is never reached too early */
    const uint32_t used = atomic_load_explicit(&slab->used, memory_order_relaxed),
                   aside = atomic_load_explicit(&slab->in_hand, memory_order_relaxed) +
                           atomic_load_explicit(&slab->lent, memory_order_relaxed);
    return used > aside ? used - aside : 0;
}

static inline float *tide__slab_row(const struct tide__slab *slab, uint32_t row) {
    const unsigned highest = 63u - (unsigned)__builtin_clzll(row + slab->first_rows);
    return (float *)(slab->row_0[highest] + (uint64_t)row * slab->stride);
}

int tide__hand_fill(struct tide__slab *slab);   /* an empty hand */
void tide__hand_spill(struct tide__slab *slab); /* a full one: some rows go back */

/* tide__slab_take and tide__slab_give by the I/O thread, which alone may call these. */
static inline int tide__hand_take(struct tide__slab *slab, uint32_t *row) {
    uint32_t left = atomic_load_explicit(&slab->in_hand, memory_order_relaxed);
    if (TIDE_UNLIKELY(left == 0)) {
        const int code = tide__hand_fill(slab);
        if (code) {
            return code;
        }
        left = atomic_load_explicit(&slab->in_hand, memory_order_relaxed);
    }
    *row = slab->hand[--left];
    atomic_store_explicit(&slab->in_hand, left, memory_order_relaxed);
    return 0;
}

static inline void tide__hand_give(struct tide__slab *slab, uint32_t row) {
    if (TIDE_UNLIKELY(atomic_load_explicit(&slab->in_hand, memory_order_relaxed) == slab->hand_rows)) {
        tide__hand_spill(slab);
    }
    const uint32_t count = atomic_load_explicit(&slab->in_hand, memory_order_relaxed);
    slab->hand[count] = row;
    atomic_store_explicit(&slab->in_hand, count + 1, memory_order_relaxed);
}

/* A taken row that is only read until it is given back: unowned meanwhile. */
static inline void tide__slab_lend(struct tide__slab *slab) {
    const uint32_t lent = atomic_load_explicit(&slab->lent, memory_order_relaxed);
    atomic_store_explicit(&slab->lent, lent + 1, memory_order_relaxed);
}

static inline void tide__slab_give_lent(struct tide__slab *slab, uint32_t row) {
    const uint32_t lent = atomic_load_explicit(&slab->lent, memory_order_relaxed);
    tide__hand_give(slab, row);
    atomic_store_explicit(&slab->lent, lent - 1, memory_order_relaxed);
}

#endif
