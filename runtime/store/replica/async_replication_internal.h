/* What async_replication.c and lost_updates.c share. */
#ifndef TIDE_STORE_ASYNC_REPLICATION_INTERNAL_H
#define TIDE_STORE_ASYNC_REPLICATION_INTERNAL_H

#include "store/replica/async_replication.h"

/* A push between two nodes is counted at both ends. */
struct tide__risk_peer {
    /* as home: pushes of that node answered; how many of them are safe; and reported */
    uint64_t given, given_safe, told;
    /* as origin: pushes that node answered; how many of them it said are safe */
    uint64_t taken, taken_safe;
};

struct tide__flight { /* what was listed at a time, in flight */
    struct tide__flight *next;
    uint64_t at, bytes;
    bool landed, whole;       /* whole: nothing that was listed then stayed behind */
    struct tide__wait *waits; /* answers that wait for it, and for those before */
    size_t count;
    uint64_t given[]; /* by peer */
};

struct tide__risk_list {
    _Alignas(128) struct tide_lock lock;
    uint32_t count, capacity; /* under the lock */
    uint64_t *keys;
    atomic_uint passing; /* workers that push in place */
};

struct tide__async_replication {
    /* any thread */
    struct tide__risk_list lists[TIDE__STRIPES + 1]; /* by stripe; the last: the store actor's, who
                                                        needs no lock for it */
    atomic_uint_fast64_t until;                      /* pushes are answered at once */
    atomic_uint_fast64_t bytes;                      /* of rows that are listed or in flight */
    atomic_uint_fast64_t flying;                     /* those in flight; written by the I/O thread */
    atomic_uint_fast64_t bytes_most, lost_updates;
    atomic_uint_fast64_t going; /* see tide__async_going; written by the I/O thread */
    atomic_bool hurried;        /* the store actor is asked to ship */
    /* I/O thread */
    uint64_t safe;
    uint64_t leases, leases_looked;              /* until when they hold; when that was looked up */
    struct tide__flight *flights, **flights_end; /* in order */
    struct tide__wait *waits;                    /* for the next flight */
    uint64_t losses;                             /* of slots, to other homes */
    uint64_t lost_at[TIDE_SLOT_COUNT];           /* `losses` with the last one of the slot */
    uint64_t noted;                              /* bytes of rows in its list that do not count yet */
    uint64_t *gathered, *sorted;                 /* sorted: the second half */
    size_t gathered_room;
    uint16_t order[TIDE_SLOT_COUNT];  /* of slots, by chain; `ordered`: it is made */
    uint32_t places[TIDE_SLOT_COUNT]; /* by slot; 0 between two shipments */
    /* The shipment in flight, NULL: none; its slots, and where in `sorted` each one's keys
     * end; how many slots and keys of it have gone. */
    struct tide__wait *ships;
    uint32_t slots[TIDE_SLOT_COUNT], ends[TIDE_SLOT_COUNT];
    uint32_t slot_count, slot_at;
    size_t shipped;
    uint64_t ship_timer;           /* for the next part */
    struct tide__risk_peer *peers; /* by node */
    size_t peer_count;
    uint64_t timer;
    bool ticking, ordered;
    bool missed;                 /* a tick came before what was in flight had landed */
    uint64_t way;                /* how long a shipment takes until it has landed; short ones count later */
    uint64_t busy_at;            /* when there was something to do */
    bool tight[TIDE_SLOT_COUNT]; /* about to go */
};

/* ---- lost_updates.c ---- */
void tide__lost_updates_mark_given(struct tide__async_replication *a, struct tide__flight *flight);
void tide__lost_updates_given_safe(struct tide__async_replication *a, const struct tide__flight *flight);
void tide__lost_updates_all_safe(struct tide__async_replication *a);
/* Origins hear what is safe. */
void tide__lost_updates_tell(struct tide_table *table);

#endif
