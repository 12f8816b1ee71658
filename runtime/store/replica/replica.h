/*
 * Copies of rows on other nodes, as the files about them share it: dedup.c (operation ids),
 * lease.c, replica.c and strict.c (the home's side), chain_replica.c (the copies' side), failover.c (what a change of a
 * slot's group does to a node), groups.c (the controller, which decides the groups).
 *
 * A slot's group is its home and a chain of nodes that hold copies, in the order in which the
 * home's pushes go through them; the controller numbers each change of it (the slot's version,
 * which is the term of the group). The home applies a push, numbers it within its slot, and sends
 * it down the chain with the version; each copy applies it by the same rule, so that the rows are
 * equal bit for bit, and forwards it; the last one notifies the home, and only then the push is
 * answered. So every node of a chain has at least what those after it have, and the first living
 * one can take over.
 *
 * Everything is I/O thread 0's unless marked.
 */
#ifndef TIDE_STORE_REPLICA_H
#define TIDE_STORE_REPLICA_H

#include "store/rows/slot_index.h"
#include "store/core/technique.h"
#include "store/operation/shard.h"
#include "store/slots/groups.h"

#define TIDE__LEASE (3 * TIDE_SECOND / 10)

/* ---- dedup.c: which pushes slots have had ---- */
struct tide__dedup; /* ids (origin, sequence) applied to a table's slots, perhaps not yet answered
                     */
enum tide__id_state { TIDE__ID_FRESH, TIDE__ID_KNOWN, TIDE__ID_OVER /* answered long ago */ };
int tide__dedup_create(struct tide_table *table); /* ENOMEM */
void tide__dedup_destroy(struct tide_table *table);
/* The oldest sequence that `origin` still waits for, as it says itself. */
void tide__dedup_low(struct tide_store *store, uint16_t origin, uint64_t low);
/* Have slots had the push? KNOWN: those that are marked now; `marked` is true of them. */
enum tide__id_state tide__dedup_look(struct tide_table *table, uint16_t origin, uint64_t sequence);
/* Room for pushes of the origin, and for `slots` in all, so that as many adds cannot fail. ENOMEM.
 */
int tide__dedup_reserve(struct tide_table *table, uint16_t origin, uint32_t pushes, uint32_t slots);
void tide__dedup_add(struct tide_table *table, uint32_t slot, uint16_t origin, uint64_t sequence);
/* Ids that were not sent to the copies (async_replication.h): at most how many; those of marked slots that
 * may come again, as (slot, origin, sequence), and how many. They are about to be sent all that
 * there are now, in parts; those count as sent. */
uint32_t tide__dedup_untold(const struct tide_table *table);
uint32_t tide__dedup_tell(const struct tide_table *table, uint64_t *out);
void tide__dedup_telling(struct tide_table *table);
void tide__dedup_told(struct tide_table *table);
/* `count` pairs (origin, sequence), then as many (origin, low); *gives*. NULL: out of memory. */
uint64_t *tide__dedup_list(const struct tide_table *table, uint32_t slot, size_t *count);
int tide__dedup_take(struct tide_table *table, uint32_t slot, const struct tide__array *ids,
                     const struct tide__array *lows);
void tide__dedup_drop(struct tide_table *table, uint32_t slot);
/* The marks of all origins: u64 (origin, low) pairs; *gives*. NULL: there are none, or no memory. */
uint64_t *tide__dedup_lows(const struct tide_store *store, uint32_t *count);

/* ---- replica.c, strict.c: the home ---- */
enum tide__repl_kind {
    TIDE__REPL_PUSH,
    TIDE__REPL_RAW,     /* rows with their state, as they are to be */
    TIDE__REPL_ROWS,    /* the same, with ids of what has changed them (async_replication.h) */
    TIDE__REPL_BARRIER, /* keys are slots: is everything there? */
    TIDE__REPL_JOIN,    /* keys are slots: the last of the chain gets the slot's rows first */
};
struct tide__wait {          /* an answer that waits for copies */
    struct tide__wait *next; /* of a flight (async_replication.h) */
    uint64_t losses;         /* tide__async_replication.losses when it began */
    struct tide__job job;
    struct tide_table *table;
    uint32_t left;
    bool dead;           /* dropped: without an answer */
    bool opens;          /* a new home's barrier over the slots it takes over */
    uint32_t slot_count; /* of those, or of what is pushed with durability window */
    uint32_t *slots;
    struct tide__flight *flight; /* async_replication.h: this is of a shipment, and no answer */
};

enum { TIDE__ID_FIELDS = 3 };
struct tide__repl { /* what goes down a chain */
    struct tide_table *table;
    struct tide__wait *wait; /* NULL: of an order to rebuild */
    uint64_t token, chain, sequence;
    uint16_t origin;
    uint8_t kind;
    uint32_t count, id_count;
    size_t row_bytes;
    struct tide_blob *rows; /* NULL: a barrier or join. Never changes, so messages share it */
    uint64_t *keys, *numbers;
    uint64_t *ids;      /* (slot, origin, sequence) */
    uint32_t *versions; /* of the slots, as it is sent */
};
enum tide__opening { TIDE__OPEN, TIDE__OPEN_AT, TIDE__OPEN_ASKED };

/* What each key of an operation needs of its slot: together, so that it comes with one line. */
struct tide__copied_slot {
    uint64_t number; /* pushes applied to the slot, here */
    uint32_t fence;  /* copies: the highest version that came with a push */
    uint32_t mark;   /* of the operation that is worked on, and what it found */
    uint8_t marked;
    uint8_t opening; /* enum tide__opening */
    bool held;       /* this node has the slot's rows, all of them */
    bool arriving;   /* some of them, and the others are coming */
};

struct tide__lenders {                /* the holders of copies of this home's slots: it needs their leases */
    uint64_t nodes[TIDE__NODES / 64]; /* a bit each */
    uint32_t words;                   /* behind these all are 0 */
    bool known;                       /* nothing has changed since */
};

struct tide__replicas { /* of a table */
    /* any thread; the home's: with the joiner */
    atomic_uint_fast64_t chain[TIDE_SLOT_COUNT];
    atomic_uint_fast64_t async_pulls; /* of this node's workers, unanswered */
    /* I/O thread */
    struct tide__copied_slot slots[TIDE_SLOT_COUNT];
    uint64_t open_at[TIDE_SLOT_COUNT]; /* when leases that it granted to former homes have run out */
    struct tide__lenders lenders;
    struct tide__dedup *dedup;
    struct tide__rebuild *rebuilds;        /* the home's orders to bring in new copies */
    struct tide__async_replication *async; /* async_replication.h; NULL: durability strict. Constant */
    uint32_t mark_now;
    uint32_t unopened;   /* slots that are not TIDE__OPEN */
    uint64_t opens_next; /* no slot that is TIDE__OPEN_AT may be asked for before */
};

/* NULL: rows have no copies. */
static inline struct tide__replicas *tide__replicas_of(const struct tide_table *table) {
    return table->parts[TIDE__PART_REPLICAS];
}

struct tide__replication { /* of a store */
    /* any thread: until when each node lets this one serve what it has copies of */
    atomic_uint_fast64_t lease_until[TIDE__NODES];
    uint64_t granted_until[TIDE__NODES]; /* the other way round */
    uint64_t low[TIDE__NODES];
    uint32_t origins;         /* above the highest that has a mark */
    struct tide__repl **ring; /* unanswered, by token */
    uint64_t first, next;     /* tokens */
    uint64_t capacity;        /* power of two */
    uint64_t beat;            /* id of the timer */
    bool beating;
};

extern const struct tide__technique tide__replicated;
tide__handler tide__replica_repl, tide__replica_ack, tide__replica_snapshot, tide__lease_asked, tide__lease_granted,
    tide__failover_groups, tide__rebuild_message, tide__rebuilt_message, tide__copy_failed_message;

int tide__replicas_init(struct tide_table *table, const uint64_t *chains);
void tide__replicas_deinit(struct tide_table *table);
void tide__replication_destroy(struct tide_store *store);
bool tide__replication_timer(struct tide_store *store, uint64_t id); /* false: another one */
/* Is nothing of the table in flight to copies, or waiting for them? */
bool tide__replicas_idle(const struct tide_table *table);
/* An operation on a table with copies: nothing of it is left to do when it returns. */
void tide__strict_job(struct tide__job *job);
/* The groups of slots (a bit each) have changed: what was unanswered goes down the new chains. */
void tide__replicas_retarget(struct tide_table *table, const uint64_t *changed);
/* Opens slots whose old homes' leases have run out; continues with rebuilding. */
void tide__replicas_advance(struct tide_table *table);
/* Controller -> home: `node` gets copies of slots; 0: is all that was pushed with their copies? */
void tide__rebuild_order(struct tide_table *table, uint32_t version, uint16_t node, const uint8_t *slots, size_t count);
/* The groups of slots (a bit each) have changed: no node joins them by an older order. */
void tide__rebuild_cancel(struct tide_table *table, const uint64_t *changed);
void tide__rebuild_advance(struct tide_table *table);
void tide__rebuild_joined(struct tide_table *table, uint32_t slot);
void tide__rebuild_release(struct tide_table *table);
/* JOIN goes down the slot's chain, or a barrier; tide__rebuild_joined is called when it has come to
 * the end. ENOMEM. */
int tide__replica_join(struct tide_table *table, uint32_t slot, bool joins);
/* Sends entries down the chains of their slots, one message a chain; each counts in their wait.
 * ENOMEM: those that are left are not sent, and so not answered. */
int tide__replicate(const struct tide__repl *all);
void tide__wait_done(struct tide__wait *wait); /* one message fewer to wait for */
/* Behind all that went before in these slots. ENOMEM. */
int tide__barrier(struct tide_table *table, struct tide__wait *wait, const uint32_t *slots, uint32_t count);
/* A new operation: no slot is marked. */
void tide__replicas_mark(struct tide__replicas *replicas);
/* True the first time for a slot since tide__replicas_mark. */
static inline bool tide__replicas_first(struct tide__replicas *replicas, uint32_t slot) {
    bool first = replicas->slots[slot].mark != replicas->mark_now;
    replicas->slots[slot].mark = replicas->mark_now;
    return first;
}
/* FOUND and the word locked, NOT_FOUND (only without `create`) or an error. */
int tide__row_lock(struct tide_table *table, uint32_t slot, uint64_t key, bool create, atomic_uint_fast64_t **word,
                   uint64_t *old);

/* Keys whose rows are worked on together, so that they come into the caches together. */
enum { TIDE__ROWS_AHEAD = 32 };
struct tide__rows {
    size_t count;
    uint64_t keys[TIDE__ROWS_AHEAD];
    uint32_t slots[TIDE__ROWS_AHEAD];
    atomic_uint_fast64_t *words[TIDE__ROWS_AHEAD]; /* NULL: it takes more to find it, or to make it */
};
/* The first of `count` keys (u64, unaligned; those at `indices`, NULL: one after another), and what
 * they need is fetched; or all of it but their rows. */
void tide__rows_ahead(struct tide_table *table, const uint8_t *keys, const uint32_t *indices, size_t count,
                      bool words_only, struct tide__rows *out);
/* As tide__row_lock, of the j-th. */
static inline int tide__rows_lock(struct tide_table *table, const struct tide__rows *rows, size_t j, bool create,
                                  atomic_uint_fast64_t **word, uint64_t *old) {
    *word = rows->words[j];
    if (TIDE_UNLIKELY(!*word)) {
        return tide__row_lock(table, rows->slots[j], rows->keys[j], create, word, old);
    }
    while (tide__word_lock(*word, false, old)) {
        tide_pause();
    }
    return TIDE__FOUND;
}

/* The whole slot, with numbers and ids, to a node that begins to hold a copy. */
int tide__snapshot_send(struct tide_table *table, uint32_t slot, uint16_t to);
/* This node is in the slot's group no more. */
void tide__replica_drop(struct tide_table *table, uint32_t slot);
/* The copy of `node` (this one, or one that joins) cannot continue: the controller takes it out. */
void tide__replica_fail(struct tide_table *table, uint32_t slot, uint16_t node);
/* Down the chain to its first node: the message without op and table. */
struct tide__repl_message {
    uint64_t token, chain, sequence, low;
    uint16_t home, origin;
    uint8_t kind;
    uint32_t count;
    const uint8_t *keys, *numbers, *versions; /* u64, u64, u32, unaligned */
    const uint8_t *rows;                      /* NULL: none */
    struct tide_blob *blob;                   /* the same, shared with the message; or NULL */
    const uint8_t *ids, *lows;                /* ROWS: u64 (slot, origin, sequence) and (origin, low), unaligned */
    uint32_t id_count, low_count;
    size_t row_bytes;
};
int tide__repl_send(struct tide_table *table, const struct tide__repl_message *message);

/* ---- lease.c ---- */
/* Until when this node may serve the slot without asking its copies. Any thread. */
uint64_t tide__lease_deadline(const struct tide_table *table, uint32_t slot);
/* A slot's chain has changed, or whether this node is its home. I/O thread, as the next two. */
void tide__lenders_changed(struct tide_table *table);
const struct tide__lenders *tide__lenders(struct tide_table *table);
/* Until when it may serve all its slots so. */
uint64_t tide__lenders_deadline(struct tide_table *table);
void tide__lease_start(struct tide_store *store); /* there is a table more */
void tide__lease_ask(struct tide_store *store);
/* When the lease that `home` may hold from this node has run out. */
uint64_t tide__lease_over(const struct tide_store *store, uint16_t home);
/* The timer of leases and rebuilding. */
void tide__lease_beat(struct tide_store *store);

/* ---- redundancy.c ---- */
/* A member died. I/O thread 0. */
void tide__redundancy_death(struct tide_store *store, const struct tide_member *member);

#endif
