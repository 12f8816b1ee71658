/*
 * A count-min sketch (Cormode, Muthukrishnan 2005) of the pushes of keys without a row, with counters of 4 bits.
 *
 * It has four rows of counters. A key has one counter in each row, and its estimate is the minimum. An addition raises
 * only the counters that equal the minimum (conservative update: Estan, Varghese 2002), so between two halvings an
 * estimate is never too low and rarely too high. After `window` additions all counters are halved: older pushes count
 * less, without a clock. The caller holds the latch of the slot.
 */
#ifndef TIDE_STORE_SKETCH_H
#define TIDE_STORE_SKETCH_H

#include "base/base.h"

enum { TIDE__SKETCH_ROWS = 4, TIDE__SKETCH_MOST = 15 };

struct tide__sketch {
    uint32_t width;  /* counters of a row, a power of two */
    uint32_t window; /* additions between two halvings */
    uint32_t left;   /* additions until the next halving */
    uint64_t counters[];
};
/* A sketch for `keys` keys: 16 to 32 bytes each, 8 to 16 counters in each row, at least 128 a row. NULL: out of memory.
 * Freed by tide_free. */
struct tide__sketch *tide__sketch_create(uint64_t keys);
size_t tide__sketch_bytes(uint64_t keys);
size_t tide__sketch_words(uint64_t keys); /* of `counters` */
/* Counts a push of the key with this hash. Returns the estimate with this push, at most TIDE__SKETCH_MOST. */
unsigned tide__sketch_add(struct tide__sketch *sketch, uint64_t hash);
unsigned tide__sketch_estimate(const struct tide__sketch *sketch, uint64_t hash);

#endif
