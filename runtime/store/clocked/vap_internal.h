/* Between vap.c (ledgers of workers) and vap_home.c (which node has seen what, at the homes). */
#ifndef TIDE_STORE_VAP_INTERNAL_H
#define TIDE_STORE_VAP_INTERNAL_H

#include "store/clocked/clock_move.h"
#include "store/clocked/vap.h"

struct tide__sum { /* updates of one worker to one key, one after the other */
    struct tide__sum *next;
    uint64_t number; /* of the message they left with; 0: they are open */
    bool at_home;    /* they act on the row itself */
    float sums[];    /* width each: of all; the least and the largest of the first 0.. */
};
struct tide__unseen {
    struct tide__unseen *next; /* of the bucket */
    uint64_t key;
    struct tide__sum *first; /* oldest first */
};
struct tide__ledger { /* of a worker: what some node may not see */
    struct tide__ledger *next;
    const struct tide__worker *worker;
    struct tide__unseen **buckets;
    uint32_t capacity, count;
};

struct tide__seer { /* a node that gets rows from here */
    struct tide__seer *next;
    uint16_t node;
    bool marked;
    uint64_t sent, seen; /* versions of rows */
};
struct tide__trace { /* updates that are in the rows here, but not in all copies */
    struct tide__trace *next;
    uint16_t origin;
    uint64_t number;
    size_t key_count, node_count;
    uint64_t *keys; /* behind the nodes */
    struct {        /* which node is to send SEEN of what */
        uint16_t node;
        uint64_t version;
    } nodes[];
};

struct tide__vap {
    struct tide_lock lock; /* of the next group. Taken with a row's latch held, never before it */
    double bound;
    struct tide__ledger *ledgers;
    uint64_t *local; /* keys with open updates of rows at home here */
    size_t local_count, local_capacity;
    uint64_t excess;

    /* I/O */
    struct tide__seer *seers;
    struct tide__trace *traces, **traces_end;
    atomic_uint_fast64_t confirm_bytes; /* any thread */
};

void tide__vap_trace_send(struct tide__clocked *c, uint16_t to, uint16_t origin, uint64_t number, const uint64_t *keys,
                          size_t count);
/* Every copy has those updates. */
void tide__vap_visible(struct tide__clocked *c, uint64_t number, const struct tide__array *keys);
void tide__traces_free(struct tide__vap *v);

#endif
