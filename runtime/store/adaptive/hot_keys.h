/*
 * Shared keys: keys whose rows have copies on the nodes that use them, beside the one their owner
 * has (techniques "replicate" and "intent"; NuPS, SIGMOD 2022, section 3; AdaPM, 2022, section 4).
 * Not the copies for the case of a death (replica.h), and not those of tables with clocks
 * (clocked.h), whose algebra (copy_record.h) is used here.
 *
 *   worker   reads and writes the copy of its node in place, as if the row were here (hot_keys.c)
 *   node     in rounds, a fiber of each table (hot_keys_sync.c) pushes what accumulated in its copies
 *            to the owners, pulls the rows that changed there, and makes and drops copies
 *   owner    remembers which nodes pulled a row for a copy, and when another node changes it notifies them
 *            node once (subscribe.c): NOTICE. The node's next pull subscribes anew
 *
 * Both ways are ordinary operations (access.c, remote.c), with a flag each. So updates arrive once
 * and in order though rows relocate, slots move and connections break, an origin pays for them by
 * its credit, and no code here depends on the owner of a row: when it leaves, nodes with copies are notified
 * and resend. Between two equal states nothing is sent.
 *
 * What holds for a worker: it sees its own pushes at once; those of others when the rounds of their
 * node, of the owner and of its own node have come by. Two nodes may see two pushes in different
 * orders. When pushes end, all copies become what the owner has.
 *
 * Making a copy. The record is COMING first: from then on this node's pushes wait in it. The row is
 * pulled when all operations that were begun before have been sent (`epoch`) and answered: what the
 * fiber sends may overtake what a worker's thread sent before. So the row has all earlier pushes of
 * this node and none of the later ones.
 *
 * Threads: a record under the latch of its word in `index`, a hashed table of its own; what is
 * marked I/O is the store actor's and the fiber's, which share a thread.
 */
#ifndef TIDE_STORE_HOT_KEYS_H
#define TIDE_STORE_HOT_KEYS_H

#include "store/rows/copy_record.h"
#include "store/core/node_sets.h"
#include "store/core/technique.h"
#include "store/operation/shard.h"
#include "tide/stats.h"

enum {
    TIDE__FILTER_WORDS = 1024,
    TIDE__MANAGE_KEYS_MAX = 65536, /* of one call */
    TIDE__SHARE_HZ = 100,
    TIDE__SHARE_HOLD_NS = 1000000000, /* an update below the threshold waits no longer */
    TIDE__CLIP_SAMPLES = 1000,
};

enum tide__copy_state { TIDE__COPY_NONE, TIDE__COPY_COMING, TIDE__COPY_HELD };

struct tide__queued { /* a push that waits for the row */
    struct tide__queued *next;
    float delta[];
};

/* A key that has copies, or is managed; a row of the index. */
struct tide__hot_key {
    uint64_t unused;    /* the slab's, when the record is free */
    uint64_t unseen_ns; /* since when the owner's row is newer, as far as this node knows; 0: it is
                           not */
    uint64_t unsent_ns; /* since when updates wait here; 0: none do */
    struct tide__queued *queued, *queued_last;
    uint8_t state;
    uint8_t technique; /* as managed: 1 + enum tide_technique; 0: as the table's */
    bool wanted;       /* this node is to have a copy, unless it owns the row */
    bool all;          /* managed: for all nodes, not for those that were named */
    bool ends;         /* its copy goes when all of it is sent */
    bool listed;       /* the fiber is to look at it */
    bool giving_up;    /* COMING: its row does not come, and what was queued is in flight */
    uint8_t spare[17];
};
_Static_assert(sizeof(struct tide__hot_key) % 64 == 0, "a copy follows, aligned");

static inline struct tide__copy_record *tide__hot_copy(struct tide__hot_key *k) {
    return (struct tide__copy_record *)(void *)(k + 1);
}

/* What share_options say, and defaults (technique_orders.c). */
struct tide__share {
    uint32_t hz;     /* rounds a second at most */
    float threshold; /* an update waits until its largest entry is this, or TIDE__SHARE_HOLD_NS */
    float clip;      /* an update is made at most so many times as long as the mean one; 0: never */
};

struct tide__subscriptions;

static inline void tide__share_count(atomic_uint_fast64_t *value, uint64_t amount) {
    atomic_fetch_add_explicit(value, amount, memory_order_relaxed);
}

struct tide__ages { /* written on I/O */
    atomic_uint_fast64_t count, sum_ns, max_ns;
};
struct tide_share_age;
void tide__ages_read(const struct tide__ages *ages, struct tide_share_age *out);

struct tide__hot_table {
    struct tide_table *table;
    struct tide__copy_record_shape shape;
    struct tide_table *index;

    /* any thread */
    atomic_uint_fast64_t filter[TIDE__FILTER_WORDS]; /* a bit for each key that ever had a record */
    struct tide__hot_stripe {
        _Alignas(128) atomic_uint inside[2]; /* operations in flight, by the epoch they began in */
        atomic_uint_fast64_t hits;           /* keys served by copies */
    } stripes[TIDE__STRIPES];
    atomic_uint epoch;
    atomic_uint held;                  /* copies, COMING ones too */
    atomic_uint_fast64_t queued_bytes; /* of pushes that wait for rows */
    atomic_uint_fast64_t refused;      /* keys that got no copy: there was no room */
    atomic_bool awake;                 /* the fiber will look */
    atomic_bool ended;                 /* the fiber is gone */
    struct tide_lock lock;             /* of the list */
    uint64_t *work;                    /* keys that are listed */
    size_t work_count, work_capacity;

    /* I/O */
    bool in_round; /* for checks whether all is at rest */
    struct tide__subscriptions *subscriptions;
    struct tide__share share;
    bool ordered;       /* by an order; `share` is of the last one */
    tide_address fiber; /* 0: it has ended */
    uint64_t number;    /* of the last update that was sent */
    uint64_t flush_wanted, flush_done;
    struct tide__flush_caller *callers;
    struct tide__ages updates, rows; /* how long updates waited, how long copies were behind */
    atomic_uint_fast64_t updates_out, rows_in, notices_out, updates_failed, clipped; /* any reads */
    double norm_sum;                                                                 /* of updates, for the clip */
    uint64_t norm_count;
};

struct tide__hot_part {                      /* of a table */
    struct tide__hot_face face;              /* first */
    _Atomic(struct tide__intents *) intents; /* intent.h; NULL: no worker has had one */
    struct tide__node_sets interest;         /* intent.h, home; I/O */
};
static inline struct tide__hot_part *tide__hot_part(const struct tide_table *table) {
    return table->parts[TIDE__PART_HOT];
}

extern const struct tide__technique tide__hot_keys;
/* MANAGE; TECHNIQUE, RECALL; SHARE_FLUSH, the call and the fiber's word that it can be answered; NOTICE. */
tide__handler tide__technique_order_call, tide__technique_message, tide__recall_message, tide__hot_flush_call,
    tide__hot_flush_ended, tide__notice_message;

/* Makes the table's record if there is none. I/O. EUNSUPPORTED names what does not go with it. */
int tide__hot_create(struct tide_table *table, struct tide__hot_table **out);
void tide__hot_destroy(struct tide_table *table);
/* A table was made: if its technique is replicate or intent, keys will be shared. I/O. */
void tide__hot_table(struct tide_table *table);

/* ---- hot_keys.c: any thread ---- */
/* A worker's pull or push: what copies have is done, the rest as without copies. */
int tide__hot_operate(struct tide__hot_table *s, struct tide__pass *pass, enum tide__kind kind, struct tide__ticket *t,
                      bool wait);
/* The row of a copy. False: there is none that could be read now. */
bool tide__hot_read(struct tide_table *table, uint64_t key, float *out);
/* Calls `each` for every record, latched. I/O. */
void tide__hot_each(struct tide__hot_table *s,
                    void (*each)(struct tide__hot_table *s, struct tide__hot_key *k, uint64_t key, void *arg),
                    void *arg);
/* The key is not to be localized: it has copies, or is pinned. */
bool tide__hot_stays(struct tide_table *table, uint64_t key);
/* The record of a key, latched: FOUND, NOT_FOUND (and not `create`), or an error. */
int tide__hot_lock(struct tide__hot_table *s, uint64_t key, bool create, bool patient, atomic_uint_fast64_t **word,
                   uint64_t *old, struct tide__hot_key **k);
/* Latched, of a key that has no copy: the record goes, and the word is unlocked. */
void tide__hot_release(struct tide__hot_table *s, atomic_uint_fast64_t *word, uint64_t old);
/* *takes* a push that waited for its row. */
void tide__hot_queued_free(struct tide__hot_table *s, struct tide__queued *queued);
/* Latched, COMING or HELD. */
int tide__hot_push(struct tide__hot_table *s, struct tide__hot_key *k, uint64_t key, const void *delta);
/* Latched: the fiber is to look at it. */
void tide__hot_list(struct tide__hot_table *s, struct tide__hot_key *k, uint64_t key);
void tide__hot_wake(struct tide__hot_table *s);
/* All operations that did not find the records as they are now have been sent. Fiber. */
int tide__hot_synchronize(struct tide__hot_table *s);
/* A row of this node changes, or leaves; its word is locked. `changer`: the node whose copy has the
 * change already, 0: none. `made`: the row had no word that its readers lock. */
void tide__hot_changed(struct tide__hot_table *s, uint64_t key, uint16_t changer);

/* ---- hot_keys_sync.c ---- */
/* Its fiber is to end, for the table goes; has it? */
void tide__hot_end(struct tide_table *table);
bool tide__hot_ended(struct tide_table *table);
int tide__hot_start(struct tide__hot_table *s); /* the fiber */
void tide__flush_callers_free(struct tide__hot_table *s);
void tide__hot_member(struct tide_store *store, const struct tide_member *member);
/* This node has no copies any more. */
bool tide__hot_gone(struct tide_store *store);

/* ---- subscribe.c ---- */
int tide__subscriptions_create(struct tide__hot_table *s);
void tide__subscriptions_destroy(struct tide__hot_table *s);
/* I/O, before the row is read. */
int tide__subscribe_job(const struct tide__job *job);                /* all keys that are served here */
int tide__subscribe_of(const struct tide__job *job, uint32_t index); /* if it subscribes */
/* I/O, a push of a copy's updates, after it. True: others have changed the row since the copy was
 * read; the key is `fresh`, and its row is to be read now. */
bool tide__resubscribe(struct tide__job *job, uint32_t index);
void tide__hot_slot_left(struct tide_table *table, uint32_t slot); /* its rows went elsewhere */
void tide__notices_send(struct tide__hot_table *s);                /* fiber */
void tide__subscriptions_member_gone(struct tide__hot_table *s, uint16_t node);

void tide__technique_order_tell(struct tide_store *store, uint16_t node); /* controller: a new member */
/* A controller has come that has not been here as long as this node: what it is to know. */
void tide__technique_order_recall(struct tide_table *table);

#endif
