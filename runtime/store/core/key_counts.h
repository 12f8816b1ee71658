/*
 * Which keys of a table a node's workers access most: a sample of their reads and writes in counters
 * of bounded memory (24 KB a table).
 *
 * Every node samples what its own workers pull and push, wherever the rows are: in place, from
 * copies, over the wire. So the origin of an access is the node whose heat counts it, nothing is
 * counted twice, and the whole truth is the sum of all nodes' snapshots (lua/tide/show/hot_keys.lua); who serves
 * keys to others counts nothing here.
 *
 * One key in TIDE__HEAT_ONE_IN is noted, at random distances, so that no rhythm of the access pattern
 * hides a key. Counters are space-saving (Metwally et al., ICDT 2005, section 3) in sets of eight keys,
 * which needs neither heap nor lists: an uncounted key takes the place of the least counted of
 * its set and inherits its count as doubt. Every TIDE__HEAT_HALVE samples all counters are
 * halved, so that keys that were hot once cool down.
 */
#ifndef TIDE_STORE_KEY_COUNTS_H
#define TIDE_STORE_KEY_COUNTS_H

#include "base/base.h"
#include "tide/stats.h"

struct tide_hot_key; /* tide.h */

enum {
    TIDE__HEAT_ONE_IN = 64,
    TIDE__HEAT_SETS = 128,
    TIDE__HEAT_WAYS = 8,
    TIDE__HEAT_HALVE = 1 << 15,
    TIDE__HEAT_THREADS = 16, /* as counters have stripes */
};

struct tide__heat_counter {
    uint64_t key;
    uint32_t reads, writes; /* samples since it has the counter */
    uint32_t doubt;         /* samples it may have had before, at most; all 0: a free counter */
};

struct tide__heat {
    /* any thread; one a thread as far as they go, and sharing one loses a sample at worst */
    struct tide__heat_thread {
        _Alignas(64) atomic_uint_fast64_t skip; /* keys until the next sample */
        atomic_uint_fast64_t draws;             /* state of its random distances */
    } threads[TIDE__HEAT_THREADS];

    struct tide_lock lock; /* of all below */
    uint64_t samples;      /* halved as the counters are */
    struct tide__heat_counter sets[TIDE__HEAT_SETS][TIDE__HEAT_WAYS];
};

struct tide__heat *tide__heat_create(void); /* NULL: out of memory */
void tide__heat_destroy(struct tide__heat *heat);

/* One sampled access. Any thread. */
void tide__heat_note(struct tide__heat *heat, uint64_t key, bool write);
/* The call of a worker reaches past its next sample. */
void tide__heat_sample(struct tide__heat *heat, unsigned thread, const uint64_t *keys, size_t count, bool write);

/* A worker accesses keys: the one call that its path makes. thread: tide__stripe(). Any thread. */
static inline void tide__heat_access(struct tide__heat *heat, unsigned thread, const uint64_t *keys, size_t count,
                                     bool write) {
    atomic_uint_fast64_t *skip = &heat->threads[thread].skip;
    uint64_t left = atomic_load_explicit(skip, memory_order_relaxed);
    if (TIDE_LIKELY(count <= left)) {
        atomic_store_explicit(skip, left - count, memory_order_relaxed);
    } else {
        tide__heat_sample(heat, thread, keys, count, write);
    }
}

/* The keys with most accesses, hottest first, at most `limit`: how many. *total: accesses of all keys.
 * All in accesses (samples times TIDE__HEAT_ONE_IN), the older ones halved. Any thread. */
size_t tide__heat_top(struct tide__heat *heat, struct tide_hot_key *out, size_t limit, uint64_t *total);

#endif
