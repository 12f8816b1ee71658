/* What nodes count of their tables. See tide.h. */
#ifndef TIDE_PUBLIC_STATS_H
#define TIDE_PUBLIC_STATS_H

#include "tide/clock.h"
#include "tide/table.h"

#ifdef __cplusplus
extern "C" {
#endif

struct tide_share_age {
    uint64_t mean_ns, max_ns;
};
struct tide_share_stats {                       /* of this node */
    uint64_t keys, copies;                      /* keys that are managed or shared here; copies here now */
    uint64_t hits, refused;                     /* keys served by copies; keys that got none: no room */
    uint64_t updates_out, rows_in, notices_out; /* in keys */
    uint64_t updates_failed, clipped;           /* not applied, or not known to be: the owner died; cut */
    struct tide_share_age unsent;               /* how old updates are when they are at the owner */
    struct tide_share_age behind; /* how old rows get that have changed at the owner, without the way of the notice */
};
void tide_table_share_stats(struct tide_table *table, struct tide_share_stats *out); /* any thread */

enum { TIDE_RELOCATE_BUCKETS = 56 };
/* Counted in keys unless named otherwise, on this node. */
struct tide_table_stats {
    uint64_t pulls_local, pulls_remote, pushes_local, pushes_remote;
    uint64_t served_pulls, served_pushes; /* for other nodes */
    uint64_t queued, forwarded;           /* held for a slot or row on the move; passed on to another node */
    uint64_t messages_out, bytes_out, bytes_in;
    uint64_t not_finite; /* pushed rows with a NaN or infinity */
    uint64_t rows, memory_bytes;
    uint64_t localized, localize_noop;             /* keys of localize calls; those on static tables */
    uint64_t relocated_in, relocated_out;          /* rows that came and went */
    uint64_t relocate_ns_sum, relocate_ns_max;     /* from the request to the row's arrival */
    uint64_t relocate_hist[TIDE_RELOCATE_BUCKETS]; /* rows by that time: [0] below 512 ns, then two an octave */
    uint64_t location_used, location_stale; /* of this node: went straight to where they were last; were not there */
    uint64_t cold_rows, disk_bytes;         /* second tier: rows that are on the disk alone; what its files take */
    uint64_t frozen, thawed, compacted;     /* and rows written to it, read from it, moved within it */
    uint64_t surprises;                     /* relocation messages that should not exist: ignored */
    uint64_t not_admitted;                  /* pushed rows that a table that forgets dropped */
    uint64_t evicted, expired;              /* rows that made room for others; that were not used */
    /* durability window. As home: bytes of rows with answered changes that are not on all copies, most ever, the bound.
     * As origin: pushes of this node's workers that may have died with the homes that had answered them. */
    uint64_t unreplicated, unreplicated_most, unreplicated_bound, lost_updates;
};
void tide_table_stats(struct tide_table *table, struct tide_table_stats *out);

/* A key that this node's workers access much, estimated from a sample of 1 access in 64; older accesses count half,
 * and half of that, and so on. */
struct tide_hot_key {
    uint64_t key, reads, writes; /* in accesses, since it is counted */
    uint64_t doubt;              /* at most so many more before that */
};
/* The hottest keys of this node, at most `limit` of 1,024, most accesses first: how many. *total: accesses of all keys,
 * by the same sample. The sum over all nodes is the table's (each counts its own workers). Any thread. */
size_t tide_table_hottest(struct tide_table *table, struct tide_hot_key *out, size_t limit, uint64_t *total);

/* How long fibers of this node waited for pulls and pushes of a table that could not be done in place: counts of waits
 * below 1, 2, 4, ... us, in the last all longer ones (from 67 s). Any thread. */
struct tide_table_waits {
    uint64_t pull[TIDE_WAIT_BUCKETS], push[TIDE_WAIT_BUCKETS];
};
void tide_table_waits(struct tide_table *table, struct tide_table_waits *out);

/* What a node's store has done for other nodes since its start. Any thread. */
struct tide_store_load {
    uint64_t messages, keys; /* operations of others, and the keys in them */
    uint64_t busy_ns;        /* spent on them */
};
void tide_node_load(struct tide_node *node, struct tide_store_load *out);
/* How long this node has had operations in flight to the store of another one since its start, ns: what it asked that
 * one for, the network between them and all that queues there included. Rows of relocating tables, which go by this
 * node's own store, count for that. Any thread. */
uint64_t tide_node_waited(struct tide_node *node, unsigned home);
/* How safe the rows are, as far as this node knows. Any thread. */
struct tide_table_health {
    uint8_t durability;             /* enum tide_durability */
    bool leases_ok;                 /* this node may serve the rows it is home of without asking their copies */
    uint32_t under_replicated;      /* slots with fewer copies than `replicas` on nodes that live */
    uint32_t lost_count;            /* slots that died with all their copies: operations on them fail */
    uint64_t lost[TIDE_SLOTS / 64]; /* bit of each of them */
};
void tide_table_health(struct tide_table *table, struct tide_table_health *out);

/* Keys of each slot that this node has pulled and pushed on behalf of other nodes since the table was made:
 * served[TIDE_SLOTS]. What workers of this node do in place is not counted. Any thread. */
void tide_table_slot_served(struct tide_table *table, uint64_t *served);

/* A test aid, for servers that are slower than others: from now on each key that this node's store serves to another
 * node takes it `ns` more, during which it does nothing else; 0: none. Any thread. */
void tide_node_serve_cost(struct tide_node *node, uint64_t ns);

/* What workers saw and waited for. The differential of a pull call: (newest clock its oldest row holds whole) - (the
 * reader's clock). bsp: -1; ssp, essp: from -(staleness + 1), or more if rows are newer than they must be; vap: any. */
struct tide_worker_staleness {
    uint32_t worker;                        /* its number */
    uint64_t count[TIDE_STALENESS_MAX + 2]; /* [d]: differential -d */
    uint64_t under, over;                   /* differential below -(TIDE_STALENESS_MAX + 1); 0 or above */
    double mean, variance;                  /* of the differential */
    uint64_t hits, waits, fetches;          /* keys served at once; waited for a clock; asked for */
    uint64_t clocks;                        /* that it ended since it first used the table */
    uint64_t waited_ns, clock_ns;           /* in pulls; in clocks that this table's bound blocked */
    uint64_t stops, stopped_ns;             /* vap: pushes and clocks that waited until others had received enough */
};
/* Of the workers of this node, those that have ended too, by number; returns how many there are. Any thread. */
size_t tide_table_worker_staleness(struct tide_table *table, struct tide_worker_staleness *out, size_t limit);

struct tide_staleness {               /* of this node */
    struct tide_worker_staleness all; /* of its workers together */
    uint64_t copies, copy_bytes, evicted;
    uint64_t values_in, values_out, deltas_out; /* rows */
    uint64_t value_bytes, answer_bytes;         /* sent: rows for copies; those of them that were requested */
    uint64_t delta_bytes;                       /* sent: updates for homes */
    uint64_t early_rows, early_bytes;           /* of these: before their clock */
    uint64_t confirm_bytes;                     /* sent, vap: which node has seen what */
    uint64_t excess;                            /* vap: updates that alone are larger than the bound */
};
void tide_table_staleness(struct tide_table *table, struct tide_staleness *out);

#ifdef __cplusplus
}
#endif
#endif
