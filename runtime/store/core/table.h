/*
 * A table on this node: its options, its slots and the route of each, its counters (table.c).
 *
 * Threads. Workers (any thread of the node) read and write rows in place under the lock bit of a
 * key word. All else that changes where a slot lives happens on I/O thread 0, inside the store
 * actor. Three kinds of lock, always taken in this order and none of them across a suspension:
 *   slot latch    creation of a slot's index, growth of a hashed one, the start of a slot's departure
 *   key word bit  one row; its holder never takes a latch
 *   pending lock  the table of unanswered operations, and every change of a route (pending.c)
 */
#ifndef TIDE_STORE_TABLE_H
#define TIDE_STORE_TABLE_H

#include "base/budget.h"
#include "base/limits.h"
#include "store/core/store.h"
#include "store/rows/slab.h"
#include "tide/stats.h"

enum {
    TIDE__TABLES_MAX = 1024, /* places; an id is place | life << TIDE__PLACE_BITS */
    TIDE__PLACE_BITS = 10,
    TIDE__WIDTH_MAX = 1 << 19, /* floats; a row with adam's state stays under a frame */
    TIDE__STRIPES = 16,        /* of counters */
    TIDE__NODES = 0x8000,      /* ids of members that are no clients are below */
};

/* ---- route of a slot: home in the low 16 bits, then flags; written on the I/O thread under the
 * pending lock ---- */
#define TIDE__MINE 0x10000u        /* this node is home */
#define TIDE__AWAITED 0x20000u     /* home, but the rows are still at the old home: every operation waits */
#define TIDE__OWN_HOLD 0x40000u    /* fence: operations of this node wait in the store actor */
#define TIDE__WORKER_HOLD 0x80000u /* workers hand operations to the store actor instead of routing them */
#define TIDE__LOST 0x100000u       /* tables with copies: the home died, and no node has the rows */
#define TIDE__CLOSED 0x200000u     /* home, until what it forwarded has come to owners (slot_send.c) */
#define TIDE__FOR_WORKER (TIDE__MINE | TIDE__AWAITED | TIDE__WORKER_HOLD)
#define TIDE__FOR_OWN (TIDE__MINE | TIDE__AWAITED | TIDE__OWN_HOLD)
#define TIDE__FOR_FOREIGN (TIDE__MINE | TIDE__AWAITED)
static inline uint16_t tide__route_home(uint32_t route) {
    return (uint16_t)route;
}

struct tide__slot {
    _Atomic(void *) index; /* dense: atomic_uint_fast64_t[places], never freed; hashed: struct
                              tide__hash, under the latch */
    atomic_uint route;
    struct tide_lock latch;
};

/* ---- counters: padded stripes, one a thread as far as they go ---- */
enum tide__counter {
    TIDE__PULLS_LOCAL,
    TIDE__PULLS_REMOTE,
    TIDE__PUSHES_LOCAL,
    TIDE__PUSHES_REMOTE,
    TIDE__SERVED_PULLS,
    TIDE__SERVED_PUSHES,
    TIDE__QUEUED,
    TIDE__FORWARDED,
    TIDE__MESSAGES_OUT,
    TIDE__BYTES_OUT,
    TIDE__BYTES_IN,
    TIDE__NOT_FINITE,
    TIDE__LOCALIZED,
    TIDE__LOCALIZE_NOOP,
    TIDE__RELOCATED_IN,
    TIDE__RELOCATED_OUT,
    TIDE__RELOCATE_NS,
    TIDE__LOCATION_USED,
    TIDE__LOCATION_STALE,
    TIDE__SURPRISES,
    TIDE__NOT_ADMITTED,
    TIDE__EVICTED,
    TIDE__EXPIRED,
    TIDE__COUNTERS
};
struct tide__stripe {
    _Alignas(128) atomic_uint_fast64_t value[TIDE__COUNTERS];
};

/*
 * The techniques, in the order in which they end their turns. Members are announced in the opposite order: what lies on
 * a dead node is counted before slots move, and rows are released after.
 */
enum tide__technique_number {
    TIDE__PART_PLAIN,
    TIDE__PART_TIER,
    TIDE__PART_OWNERS,
    TIDE__PART_SLOTS,
    TIDE__PART_CHECKPOINTS,
    TIDE__PART_REPLICAS,
    TIDE__PART_HOT,
    TIDE__PART_CLOCKS,
    TIDE__PART_FORGET,
    TIDE__PARTS
};

struct tide__run;
struct tide__technique;
struct tide__operations;
struct tide__handlers;
struct tide__job;  /* shard.c: an operation of a message, while it waits */
struct tide__heat; /* key_counts.h */

struct tide_table {
    /* set before the table is published, then constant */
    struct tide_store *store;
    struct tide_table_options options; /* name points to `name`; lr is the rate in force: tide__learning_rate */
    struct tide_table_options made;    /* what it was made with */
    char name[64];
    char why[2][80]; /* "pull NAME", "push NAME": what a waiting fiber shows */
    uint32_t id;
    uint32_t width, row_floats;
    uint64_t places_max;                       /* dense: words of a slot's array */
    void *parts[TIDE__PARTS];                  /* what each technique keeps of the table; NULL: it is not in use */
    const struct tide__operations *operations; /* technique.h */

    /* any thread */
    atomic_bool ready;            /* every node has it */
    atomic_bool closing;          /* it is being dropped: nothing new begins (table_drop.c) */
    atomic_uint holders;          /* handles, samplers, workers that count with it: it is not freed */
    atomic_uint_fast64_t changes; /* of routes on this node: bumped before and after them, under the pending lock */
    atomic_uint_fast64_t map_version;
    atomic_uint_fast64_t index_bytes;
    struct tide__slab slab;
    struct tide__slot slots[TIDE_SLOT_COUNT];
    /* by slot: keys of others' operations that came here; the I/O thread's, and not among the slots,
     * which workers read all the time */
    atomic_uint_fast64_t served[TIDE_SLOT_COUNT];
    struct tide__stripe stripes[TIDE__STRIPES];
    struct tide__heat *heat; /* key_counts.h: the keys that workers of this node access most; constant */
    atomic_uint_fast64_t waits[2][TIDE_WAIT_BUCKETS]; /* of pulls, of pushes: ticket.c */
    atomic_uint_fast64_t cut;                         /* cut.h: the generation that is being written */
    struct tide__taken *taken;                        /* cut.h: rows that the generation took; has its own lock */
    atomic_bool rows_removed;                         /* since the last generation: the next one must be full */

    /* operations handed to the own store actor: raised under the pending lock; run there */
    atomic_uint_fast64_t self_sent, self_handled;

    /* I/O thread */
    struct tide__dropping *dropping; /* table_drop.c; NULL: it stays */
    uint32_t slot_versions[TIDE_SLOT_COUNT];
    struct tide__job *parked, **parked_end;

    /* clock.h; held. Constant */
    struct tide__run *domain, *owner;
    struct tide_budget *budget; /* the owner's */
};
/* I/O thread, which alone changes it. */
static inline uint32_t tide__route_of(const struct tide_table *table, uint32_t slot) {
    return atomic_load_explicit(&table->slots[slot].route, memory_order_relaxed);
}
void tide__table_count(struct tide_table *table, enum tide__counter counter, uint64_t amount);
unsigned tide__stripe(void); /* of the calling thread; the last one is shared */
/* To a counter in the calling thread's stripe. */
static inline void tide__stripe_add(unsigned stripe, atomic_uint_fast64_t *value, uint64_t amount) {
    if (TIDE_LIKELY(stripe < TIDE__STRIPES - 1)) {
        uint64_t now = atomic_load_explicit(value, memory_order_relaxed);
        atomic_store_explicit(value, now + amount, memory_order_relaxed);
    } else {
        atomic_fetch_add_explicit(value, amount, memory_order_relaxed);
    }
}

/* Makes the table object; homes NULL: all here. Not yet visible. */
int tide__table_make(struct tide_store *store, uint32_t id, const struct tide_table_options *options,
                     const uint16_t *homes, const uint64_t *chains, struct tide_table **out);
int tide__table_create_in(struct tide_store *store, const struct tide_table_options *options, struct tide_table **out);
void tide__table_destroy(struct tide_table *table);
void tide__table_publish(struct tide_store *store, struct tide_table *table);
struct tide_table *tide__table_by_id(struct tide_store *store, uint64_t id); /* of that life; or NULL */

#endif
