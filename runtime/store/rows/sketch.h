/*
 * A count-min sketch (Cormode, Muthukrishnan 2005): how often keys came that have no row, in 4 bits a counter.
 *
 * Four rows of counters; a key has one in each, and its estimate is the least of them. An addition raises only those
 * that are the least (conservative update: Estan, Varghese 2002), so estimates are never below the truth and seldom
 * above. After `window` additions all counters are halved: what came long ago counts less, without a clock. It locks
 * nothing: the caller holds the latch of the slot whose keys it counts.
 */
#ifndef TIDE_STORE_SKETCH_H
#define TIDE_STORE_SKETCH_H

#include "base/base.h"

enum { TIDE__SKETCH_ROWS = 4, TIDE__SKETCH_MOST = 15 };

struct tide__sketch {
    uint32_t width;  /* counters of a row, a power of two */
    uint32_t window; /* additions until the next halving, when it begins */
    uint32_t left;   /* of them */
    uint64_t counters[];
};
/* For `keys` keys: 16 to 32 bytes each, 8 to 16 counters a row, but 128 at least. NULL: out of memory. Freed by
 * tide_free. */
struct tide__sketch *tide__sketch_create(uint64_t keys);
size_t tide__sketch_bytes(uint64_t keys);
/* The key of this hash came: how often it did, itself included, at most TIDE__SKETCH_MOST. */
unsigned tide__sketch_add(struct tide__sketch *sketch, uint64_t hash);
unsigned tide__sketch_estimate(const struct tide__sketch *sketch, uint64_t hash);

#endif
