/*
 * What the files of the store room share: tables, slots, key words, slab, passes, pending
 * operations.
 *
 * Threads. Workers (any thread of the node) read and write rows in place under the lock bit of a
 * key word. All else that changes where a slot lives happens on I/O thread 0, inside the store
 * actor. Three kinds of lock, always taken in this order and none of them across a suspension: slot
 * latch    creation of a slot's index, growth of a hashed one, the start of a slot's departure key
 * word bit  one row; its holder never takes a latch pending lock  the table of unanswered
 * operations together with every change of a route (see pending.c)
 */
#ifndef TIDE_STORE_INTERNAL_H
#define TIDE_STORE_INTERNAL_H

#include "base/budget.h"
#include "base/limits.h"
#include "store/core/admission.h"
#include "store/core/clock.h"
#include "store/rows/slab.h"
#include "store/core/store.h"

#include <string.h>

enum {
    TIDE__TABLES_MAX = 1024, /* places; an id is place | life << TIDE__PLACE_BITS */
    TIDE__PLACE_BITS = 10,
    TIDE__WIDTH_MAX = 1 << 19, /* floats; a row with adam's state stays under a frame */
    TIDE__PENDING_MAX = 1 << 20,
    TIDE__STRIPES = 16,   /* of counters */
    TIDE__NODES = 0x8000, /* ids of members that are no clients are below */
};

/* ---- key word: lock 1 | state 3 | flags 4 | seen 24 | index 32. All flags are in use. ---- */
#define TIDE__WORD_LOCK (UINT64_C(1) << 63)
#define TIDE__WORD_STATE (UINT64_C(7) << 60)
#define TIDE__WORD_PRESENT (UINT64_C(1) << 56) /* flag: a hashed entry is in use even without a row */
/* flag, relocating tables: home, and the row is somebody else's (the owner is in the index) */
#define TIDE__WORD_AWAY (UINT64_C(1) << 57)
/* flags of a row that is here, for checkpoints (cut.h): changed since a generation took it; which
 * generation took it last, as one bit that changes with every generation */
#define TIDE__WORD_DIRTY (UINT64_C(1) << 58)
#define TIDE__WORD_TAKEN (UINT64_C(1) << 59)
#define TIDE__WORD_SEEN (UINT64_C(0xffffff) << 32)
enum tide__key_state {
    TIDE__ABSENT, /* no row here; at home of the slot: the row has its initial values */
    TIDE__OWNED,
    TIDE__ARRIVING, /* relocation: asked for, operations queue; or here, and not yet the workers' */
};
static inline unsigned tide__word_state(uint64_t word) {
    return (unsigned)(word >> 60) & 7u;
}
/* Relocating tables. ABSENT: owner of record (home, AWAY) 16 | operations that workers handed over
 * and the store actor has not seen yet 16. ARRIVING: number of the arrival record, which counts
 * them then. */
static inline uint16_t tide__word_owner(uint64_t word) {
    return (uint16_t)(word >> 16);
}
static inline uint16_t tide__word_handed(uint64_t word) {
    return (uint16_t)word;
}
/* Tables with copies, at home: how many pushes to the row are on their way to its copies. */
static inline uint32_t tide__word_seen(uint64_t word) {
    return (uint32_t)(word >> 32) & 0xffffffu;
}
/* Tables with clocks, at home: nodes hold copies of the row. */
#define TIDE__WORD_WATCHED (UINT64_C(1) << 32)
static inline uint64_t tide__word_owned(uint64_t old, uint32_t row) {
    return (old & (TIDE__WORD_SEEN | TIDE__WORD_PRESENT)) | ((uint64_t)TIDE__OWNED << 60) | row;
}

/* ---- route of a slot: home in the low 16 bits, then flags; written on the I/O thread under the
 * pending lock ---- */
#define TIDE__MINE 0x10000u        /* this node is home */
#define TIDE__AWAITED 0x20000u     /* home, but the rows are still at the old home: every operation waits */
#define TIDE__OWN_HOLD 0x40000u    /* fence: operations of this node wait in the store actor */
#define TIDE__WORKER_HOLD 0x80000u /* workers hand operations to the store actor instead of routing them */
#define TIDE__LOST 0x100000u       /* tables with copies: the home died, and nobody is left who has the rows */
#define TIDE__CLOSED 0x200000u     /* home, until what it forwarded has come to owners (slot_send.c) */
#define TIDE__FOR_WORKER (TIDE__MINE | TIDE__AWAITED | TIDE__WORKER_HOLD)
#define TIDE__FOR_OWN (TIDE__MINE | TIDE__AWAITED | TIDE__OWN_HOLD)
#define TIDE__FOR_FOREIGN (TIDE__MINE | TIDE__AWAITED)
static inline uint16_t tide__route_home(uint32_t route) {
    return (uint16_t)route;
}

/* Open addressing, linear probing; entries move only while the latch is held and all their words
 * are locked. */
struct tide__entry {
    uint64_t key;
    atomic_uint_fast64_t word; /* 0: empty */
};
struct tide__hash {
    uint32_t capacity, count;
    struct tide__entry entries[];
};

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
    TIDE__COUNTERS
};
struct tide__stripe {
    _Alignas(128) atomic_uint_fast64_t value[TIDE__COUNTERS];
};

struct tide__technique;
struct tide__operations;
struct tide__hot_operations;
struct tide__handlers;
struct tide__job;   /* shard.c: an operation of a message, while it waits */
struct tide__fence; /* move.c */
struct tide__heat;  /* key_counts.h */

struct tide_table {
    /* set before the table is published, then constant */
    struct tide_store *store;
    struct tide_table_options options; /* name points to `name`; lr is the rate in force: tide__learning_rate */
    struct tide_table_options made;    /* what it was made with */
    char name[64];
    char why[2][80]; /* "pull NAME", "push NAME": what a waiting fiber shows */
    uint32_t id;
    uint32_t width, row_floats;
    uint64_t places_max; /* dense: words of a slot's array */
    bool relocates;
    struct tide__replicas *replicas;           /* replica.h; NULL: rows have no copies */
    const struct tide__operations *operations; /* technique.h; NULL: a plain table */
    const struct tide__hot_operations *hot;

    /* any thread */
    atomic_bool ready;            /* every node has it */
    atomic_bool closing;          /* it is being dropped: nothing new begins (table_drop.c) */
    atomic_uint holders;          /* handles, samplers, workers that count with it: it is not freed */
    atomic_bool in_doubt;         /* rows relocate, and a node that may have had some died */
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
    struct tide__slab arrivals;                       /* relocating tables: struct tide__arrival */
    atomic_uint_fast64_t relocate_max_ns;
    atomic_uint_fast64_t relocate_hist[TIDE_RELOCATE_BUCKETS]; /* written by the I/O thread */

    /* operations handed to the own store actor: raised under the pending lock; run there */
    atomic_uint_fast64_t self_sent, self_handled;
    atomic_uint_fast64_t async_pulls; /* tables with copies: of this node's workers, unanswered */

    /* I/O thread */
    struct tide__dropping *dropping; /* table_drop.c; NULL: it stays */
    uint32_t slot_versions[TIDE_SLOT_COUNT];
    struct tide__job *parked, **parked_end;
    struct tide__fence *fences;
    uint32_t map_round, map_rounds;       /* rounds of MAP that wait for MAP_DONE: the first, how many */
    uint32_t map_term;                    /* of the controller that asks */
    struct tide__relocate_outbox *outbox; /* relocating tables: what goes out at the end of a message */
    struct tide__trails *trails;          /* relocating tables, home: through whose hands keys went */
    struct tide__locations *locations;    /* relocating tables: location_cache.h; NULL: nothing to remember */

    _Atomic(struct tide__intents *) intents;  /* intent.h; NULL: no worker has had one */
    struct tide__node_sets *interest;         /* intent.h, home; I/O; NULL: nobody has had one */
    atomic_uint made_or_subscribed;           /* hot_keys.h; orders the two by being written by both */
    _Atomic(struct tide__hot_table *) shared; /* hot_keys.h; NULL: no key has ever had copies */

    struct tide__clocked *clocked; /* clocked.h; NULL: a sequential table. Constant */

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

/* ---- table_drop.c ---- */
struct tide__dropping;
/* ECLOSED, with its name. */
int tide__table_dropped(const struct tide_table *table);
static inline void tide__table_hold(struct tide_table *table) {
    atomic_fetch_add_explicit(&table->holders, 1, memory_order_relaxed);
}
/* What a thread other than the I/O thread does with tables that it does not hold lies between the two: none
 * of them is freed meanwhile. */
unsigned tide__tables_enter(struct tide_store *store);
void tide__tables_leave(struct tide_store *store, unsigned entered);
/* What is dropped goes on. When to look again, in ns; 0: there is nothing to drop. I/O thread. */
uint64_t tide__drop_advance(struct tide_store *store);
/* A table that was dropped and is not freed yet: its name; NULL: there is none. */
const char *tide__drop_unfinished(const struct tide_store *store);
void tide__drop_release(struct tide_store *store); /* of tables that still wait to be freed */

/* The table's index takes more bytes, or gives some back. */
void tide__index_counts(struct tide_table *table, int64_t bytes);

/* ---- slot_index.c ---- */
static inline uint32_t tide__slot_spread(uint64_t key) { /* dense, TIDE_SLOTS_HASH */
    return (uint32_t)(key + (((key >> 12) * UINT64_C(0x9e3779b97f4a7c15)) >> 52)) & (TIDE_SLOT_COUNT - 1);
}
static inline uint32_t tide__slot_of(const struct tide_table *table, uint64_t key) {
    if (TIDE_UNLIKELY(table->options.keys == TIDE_KEYS_HASHED)) {
        return (uint32_t)(tide_mix64(key) >> 52);
    }
    if (table->options.slots == TIDE_SLOTS_RANGE) {
        return (uint32_t)((key << 12) / table->options.key_count);
    }
    return tide__slot_spread(key);
}
static inline uint64_t tide__range_first(const struct tide_table *table, uint32_t slot) {
    return (slot * table->options.key_count + TIDE_SLOT_COUNT - 1) >> 12;
}
static inline uint64_t tide__place_of(const struct tide_table *table, uint32_t slot, uint64_t key) {
    return table->options.slots == TIDE_SLOTS_RANGE ? key - tide__range_first(table, slot) : key >> 12;
}
/* Key of a place of a dense slot; at or over key_count: there is none. */
uint64_t tide__key_of(const struct tide_table *table, uint32_t slot, uint64_t place);
/* The slot's key words, allocated now if need be. NULL: out of memory. */
atomic_uint_fast64_t *tide__dense_words(struct tide_table *table, uint32_t slot);
/* Locks a key word: 0, or EBUSY after a short while unless `patient`. *old: the word without the
 * lock bit. */
int tide__word_lock_slow(atomic_uint_fast64_t *word, bool patient, uint64_t *old);
static inline int tide__word_lock(atomic_uint_fast64_t *word, bool patient, uint64_t *old) {
    /* acquire: pairs with the release store that unlocks */
    uint64_t seen = atomic_fetch_or_explicit(word, TIDE__WORD_LOCK, memory_order_acquire);
    if (TIDE_LIKELY(!(seen & TIDE__WORD_LOCK))) {
        *old = seen;
        return 0;
    }
    return tide__word_lock_slow(word, patient, old);
}
static inline void tide__word_unlock(atomic_uint_fast64_t *word, uint64_t value) {
    atomic_store_explicit(word, value, memory_order_release); /* pairs with the acquire of the next lock */
}
enum { TIDE__FOUND = 1, TIDE__NOT_FOUND = 2, TIDE__MISSED = 3, TIDE__OVERTAKEN = 4 };
/* Hashed: FOUND and the word locked, NOT_FOUND (and not `create`), MISSED (the slot is not served
 * under `mask`), or a negative code. */
int tide__hashed_lock(struct tide_table *table, uint64_t key, bool create, uint32_t mask, bool patient,
                      atomic_uint_fast64_t **word, uint64_t *old);
/* The word of a key in a table that nobody else has a part of, an index of copies: FOUND, locked;
 * NOT_FOUND (and not `create`), or a negative code. */
int tide__index_lock(struct tide_table *index, uint64_t key, bool create, bool patient, atomic_uint_fast64_t **word,
                     uint64_t *old);
int tide__key_compare(const void *a, const void *b); /* for qsort; keys need no alignment */
/* Keys with a row in `slot` that are >= from, ascending, up to `limit`; *next: where to go on,
 * *more: there are. */
int tide__slot_keys(struct tide_table *table, uint32_t slot, uint64_t from, uint64_t *keys, size_t limit, size_t *count,
                    bool *more);
/* About so many keys the slot has places for: dense ones at most, hashed ones now. */
uint64_t tide__slot_places(struct tide_table *table, uint32_t slot);
/* Takes every row out of a slot: `each` sees key, word and row before it is freed. */
int tide__slot_drain(struct tide_table *table, uint32_t slot,
                     int (*each)(void *arg, uint64_t key, uint64_t word, const float *row), void *arg);
void tide__slots_deinit(struct tide_table *table);

/* ---- rules.c, init.c ---- */
size_t tide__rule_state(uint8_t rule, size_t width); /* floats behind the values */
bool tide__rule_has_rate(uint8_t rule);
/* Does an update by the rule depend on all before it, so that it is made by whoever has the row alone? */
static inline bool tide__rule_is_serial(uint8_t rule) {
    return rule == TIDE_UPDATE_ADAM || rule == TIDE_UPDATE_MOMENTUM || rule == TIDE_UPDATE_NESTEROV;
}
/* The learning rate in force: it may change while workers make steps (learning_rate.c). */
static inline float tide__learning_rate(const struct tide_table_options *options) {
    float rate;
    __atomic_load(&options->lr, &rate, __ATOMIC_RELAXED);
    return rate;
}
void tide__learning_rate_take(struct tide_table *table, float rate);
bool tide__learning_rate_fits(double rate); /* finite, in single precision */
void tide__rule_apply(const struct tide_table_options *options, float *row, const void *delta);
/* The same for rule adagrad; what values and sums grow by is added to `grown`. */
void tide__adagrad_apply(const struct tide_table_options *options, float *row, const void *delta, float *grown);
void tide__row_add(float *row, const void *delta, size_t count); /* unaligned */
/* A raw row: in place of the one that is there, or (TIDE__SUMS) added to it. */
void tide__row_put(const struct tide_table *table, float *row, const void *from, uint8_t flags);
float tide__square_sum(const void *values, size_t count); /* floats, at any alignment */
bool tide__all_finite(const float *values, size_t count);
/* The initial row; `full`: with the rule's state. A pure function of the options and the key. */
void tide__row_init(const struct tide_table_options *options, uint64_t key, float *row, bool full);

/* ---- access.c ---- */
struct tide__misses {
    uint32_t *at; /* positions in the call, ascending */
    size_t count, capacity;
    uint32_t small[64];
};
void tide__misses_init(struct tide__misses *misses);
void tide__misses_release(struct tide__misses *misses);
int tide__misses_add(struct tide__misses *misses, size_t position); /* ENOMEM */

/* Of an operation, on the wire too. SUBSCRIBES, OF_COPY, INTENDED: hot_keys.h. */
enum tide__operation_flags {
    TIDE__RAW = 1,        /* rows with state, copied both ways */
    TIDE__SUMS = 2,       /* push, raw: added instead */
    TIDE__SUBSCRIBES = 4, /* pull: the origin keeps a copy, and wants to hear of the next change;
                             push: and wants the rows that others have changed since it read them */
    TIDE__OF_COPY = 8,    /* push: what the copy of the origin has in it already */
    TIDE__INTENDED = 16,  /* localize, LOC: of an intent; the home decides, and may answer STAY */
    TIDE__PASSED_ON = 32, /* pull, push: the home of relocating keys passed it on to their owner */
    TIDE__FLAGS = 63
};

struct tide__ticket;

/* One walk over the keys of a call or a message; what is not served here is listed in `misses`. */
struct tide__pass {
    struct tide_table *table;
    const void *keys;      /* u64, any alignment */
    const uint32_t *index; /* positions to visit, or NULL for 0..count-1 */
    size_t count, at;      /* at: the next to visit; kept when the pass stops early */
    float *out;            /* pull: row i at out + i * width */
    const uint8_t *in;     /* push: rows, any alignment */
    uint32_t mask;         /* TIDE__FOR_... */
    bool raw;              /* rows with state, copied both ways */
    uint8_t flags;         /* enum tide__operation_flags, TIDE__RAW as `raw` says */
    uint16_t changer;      /* push of a copy's updates: its node */
    bool hands_over;       /* relocating tables: what is missed goes to the store actor, and counts */
    bool patient;          /* may wait for a row; else EBUSY */
    bool async;            /* the call does not wait for an answer */
    bool unshared;         /* begun when the table had no shared keys: OVERTAKEN once it has */
    uint32_t stamp;        /* push: the clock of the worker that pushes, or TIDE_NO_CLOCK */
    /* Rows that come with their slot: u32 each, and second versions of the split ones, in order. */
    const uint8_t *marks, *seconds;
    uint64_t changes; /* of the table's routes when the pass began */
    struct tide__misses *misses;
    uint64_t deadline; /* tables with copies: until when what was read may be returned */
};
int tide__pass_pull(struct tide__pass *pass);
int tide__pass_push(struct tide__pass *pass);
/* For tables with copies: the plain walk; one that calls operations->push_row of each row; all is missed. */
int tide__pass_pull_plain(struct tide__pass *pass);
int tide__pass_push_copied(struct tide__pass *pass);
int tide__pass_miss_all(struct tide__pass *pass);

/* The last three: relocating tables. Wanted by a worker, by another node; not wanted any more. */
enum tide__kind {
    TIDE__PULL = 1,
    TIDE__PUSH = 2,
    TIDE__LOCALIZE = 3,
    TIDE__LOC = 4,
    TIDE__OFFER = 5,
    TIDE__CLOCKED = 6 /* of a ticket: a pull from a table with clocks */
};
/* ELIMIT, ERANGE. */
int tide__check_keys(const struct tide_table *table, const uint64_t *keys, size_t count);
/* As tide_table_localize, asynchronous, but the homes of the keys decide what is to come (intent.h). */
int tide__table_intended(struct tide_table *table, const uint64_t *keys, size_t count, struct tide_ticket *ticket);
/* Walks, and asks other nodes for what was missed; `t` is initialised, and waited for if `wait`. *sent:
 * what was missed is on its way, or was. TIDE__OVERTAKEN: what was missed was not asked for, copies
 * may have it by now (hot_keys.h). */
int tide__pass_run(struct tide__pass *pass, enum tide__kind kind, struct tide__ticket *t, bool wait, bool *sent);
/* Pull and push, rows with their state when `raw`. */
int tide__operate(struct tide_table *table, enum tide__kind kind, bool raw, const uint64_t *keys, size_t key_count,
                  float *out, const float *in, struct tide_ticket *ticket);

/* ---- pending.c, remote.c ---- */
struct tide__ticket {           /* lies in struct tide_ticket */
    atomic_uint_fast64_t state; /* waiting fiber 48 | remaining messages 16; 0: done */
    struct tide_table *table;
    float *rows;
    char *text;
    int *fates; /* of each key; see enum tide__fate. NULL: nobody asks */
    atomic_int result;
    uint8_t kind;
};
/* What became of a key: an error, or one of these. */
enum tide__fate {
    TIDE__FATE_DONE,
    TIDE__FATE_HERE, /* no other node has answered for it */
    TIDE__FATE_ROW   /* push: done, and its row came with the answer */
};
/* How a key of an operation came to where it is: who passed it on last, as which leg; 0: nobody. */
struct tide__way {
    uint16_t via, leg;
};
/* An unanswered message of operations. In the store's list, in order of `sequence`, from
 * registration to the end. */
struct tide__pending {
    struct tide__pending *next, *prev;
    uint64_t id, sequence;
    struct tide_table *table;
    struct tide__ticket *ticket; /* NULL: nobody waits any more */
    uint32_t count, left;        /* keys in it; keys not yet answered */
    uint16_t node;               /* where it was sent; this node: to the own store actor */
    /* Static tables: where the store actor or old homes passed parts of it on to. */
    uint16_t *passed, passed_count;
    bool passed_anywhere; /* there was no memory to note where */
    bool busy;            /* an answer is being worked in on the I/O thread */
    uint8_t kind;
    bool raw, subscribes;   /* as its flags say */
    uint32_t stamp, domain; /* push: of its worker */
    /* Tables that relocate or have copies: per key the node that has it now; 0: answered. NULL: all
     * at `node`. */
    uint16_t *at;
    uint64_t *keys;        /* relocating tables */
    bool waited_for;       /* operations in the store actor are (location_cache.h) */
    struct tide__way *way; /* tables that relocate: of each key */
    /* Tables with copies: the message, to be sent again, and where its keys are. */
    struct tide_blob *message;
    uint32_t keys_at;
    /* Tables with copies, an asynchronous pull: whose (program_order.c), and does it wait for the end? */
    struct tide_fiber *fiber;
    bool follows;
    uint64_t sent;     /* sequence when its first key left this node; 0: none has */
    uint32_t out;      /* keys at other nodes */
    uint32_t admitted; /* bytes of credit that its end returns to `node` */
    uint32_t index[];  /* position in the call */
};
struct tide__pending_table {
    struct tide_lock lock;
    struct tide__pending *first, *last;
    struct tide__pending **by_slot;
    uint32_t *generation;
    uint32_t *free_slots;
    uint32_t capacity, free_count;
    uint64_t sequence;
    uint8_t gone[65536 / 8]; /* bit of a node: dead or left */
};

int tide__remote_start(struct tide__pass *pass, enum tide__kind kind, struct tide__ticket *ticket);

/* ---- ticket.c ---- */
void tide__ticket_init(struct tide__ticket *ticket, struct tide_table *table, enum tide__kind kind, float *rows);
int tide__ticket_wait(struct tide__ticket *ticket);
void tide__ticket_finish(struct tide__ticket *ticket, int code, const char *text);
/* Keeps the first failure. Only whoever owns a busy entry of the ticket, or its caller. */
void tide__ticket_error(struct tide__ticket *ticket, int code, const char *text);

/* Answers of the store actor: a part of an operation is done. `from`: the node that says so, 0 this
 * one; positions NULL: all in order. */
void tide__pending_answer(struct tide_store *store, uint16_t from, uint64_t id, int code, const char *text,
                          const void *positions, size_t count, int rows_code, const void *rows, size_t row_bytes);
/* An id for a message that is being made; it becomes an entry, or is given back with what was made
 * of it. */
int tide__pending_reserve(struct tide__pending_table *table, uint64_t *id);
void tide__pending_unused(struct tide__pending_table *table, uint64_t id, struct tide__pending *p);
/* Busy, and nobody waits for it any more: it goes, with the credit that it held. */
void tide__pending_end(struct tide__pending_table *table, struct tide__pending *p);
/* Lock held. Its death was told to entries: no more may be registered. */
bool tide__pending_is_gone(const struct tide__pending_table *table, uint16_t node);
/* The entry, now in the caller's hands (busy); NULL: unknown or in somebody's. */
struct tide__pending *tide__pending_take(struct tide__pending_table *table, uint64_t id);
/* All of a taken entry that is unanswered has failed; *takes* it. */
void tide__pending_fail(struct tide_store *store, struct tide__pending *p, int code, const char *text);
/* The whole operation was refused. */
void tide__pending_refused(struct tide_store *store, uint64_t id, int code, const char *text);
void tide__pending_passed_on(struct tide_store *store, uint64_t id, uint16_t node);
/* Relocating tables: keys (by position in the message; unaligned u32) were passed on to `node`. */
void tide__pending_at(struct tide_store *store, uint64_t id, struct tide__way way, uint16_t node, const void *positions,
                      size_t count);
/* Relocating tables: is any key of an unanswered operation at a node that leaves? */
bool tide__pending_at_leaver(struct tide_table *table);
void tide__pending_node_gone(struct tide_store *store, uint16_t node, const char *text);
/* Tables with copies (failover.c). Messages with an unanswered key in a slot of `moved`, or at `node`, in
 * order; *gives* the ids, NULL: none, or out of memory. */
uint64_t *tide__pending_affected(struct tide_table *table, const uint64_t *moved, uint16_t node, size_t *count);
struct tide__job;
/* The message as a job over `data`, and the keys that are not answered; *gives* data and indices. */
bool tide__pending_again(struct tide_store *store, uint64_t id, uint8_t **data, struct tide__job *job,
                         uint32_t **indices, uint32_t *count);
void tide__pending_moved(struct tide_store *store, uint64_t id, uint32_t position, uint16_t node);
/* This node is a member no more: what waits for an answer fails. */
int tide__fenced_fail(struct tide_store *store);
/* ELOST, with the story: the slot has no home that has its rows. */
int tide__lost_fail(struct tide_table *table, uint32_t slot, uint64_t key);
void tide__pending_fenced(struct tide_store *store);
/* Is an operation of the table up to `sequence` unanswered? */
bool tide__pending_before(struct tide_store *store, const struct tide_table *table, uint64_t sequence);
/* What was registered last; is a pull or push of the table up to `sequence` unanswered? */
uint64_t tide__pending_newest(struct tide_store *store);
bool tide__pending_older(struct tide_store *store, const struct tide_table *table, uint64_t sequence);
/* Is a push of a worker of the domain unanswered that was made before clock `clock`? */
bool tide__pending_stamped(struct tide_store *store, uint32_t domain, uint32_t clock);
void tide__pending_deinit(struct tide_store *store);
void tide__node_text(struct tide_store *store, uint16_t node, char out[96]); /* "n3 (3)" */

/* ---- program_order.c: one worker's operations on a row ---- */
/* Waits until asynchronous pulls of this fiber with one of the keys are answered. ETIMEDOUT,
 * ECANCELED, ENOMEM. */
int tide__program_order_wait(struct tide_table *table, const uint64_t *keys, size_t count);
/* Would it have to? */
bool tide__program_order_is_held(struct tide_table *table, const uint64_t *keys, size_t count);
/* An asynchronous pull is enlisted, or over; pending lock held. */
void tide__program_order_begin(struct tide__pending *pull);
void tide__program_order_end(struct tide__pending *pull);

/* ---- shard.c, inbox.c: messages of the store actor ---- */
enum tide__op { /* first element of every message; message.def */
                TIDE__OP_NONE,
#define TIDE__MESSAGE(name, cast, call, what) TIDE__OP_##name,
#include "store/core/message.def"
#undef TIDE__MESSAGE
                TIDE__OP_COUNT
};
_Static_assert((int)TIDE__OP_PULL == TIDE__PULL && (int)TIDE__OP_OFFER == TIDE__OFFER,
               "operations have the numbers of their messages");
int tide__shard_handle(void *state, const struct tide_message *message);
void tide__shard_release(struct tide_store *store);
/*
 * Sends to a store actor; tail may be NULL (*shares*). When it fails:
 *   a worker's call       hears of it, and takes back what it had noted
 *   a handler, or a fiber or a lock's holder that says so (TIDE_MEMORY_VITAL)
 *                         has memory up to 1 MiB, or its process ends; clocked.c ends it above, too.
 *                         So it may ignore the code: what is left are nodes that are gone, of which
 *                         everybody hears (on_member), and answers of more than 1 MiB
 *   a worker that says that a window is half full (async_replication.c)
 *                         need not: the window's timer comes anyway
 */
int tide__store_send(struct tide_store *store, uint16_t node, enum tide_lane lane, bool prepaid, const void *data,
                     size_t size, struct tide_blob *tail);
/* Prepaid, on lane store, and in order with what other threads send so: a message of the I/O thread
 * would overtake theirs otherwise. */
int tide__store_send_in_line(struct tide_store *store, uint16_t node, const void *data, size_t size,
                             struct tide_blob *tail);
/* Prepaid, on lane store, to another node; the tail is scattered (actor.h). */
int tide__store_send_scattered(struct tide_store *store, uint16_t node, const void *data, size_t size,
                               struct tide_blob *tail);
int tide__store_send_writer(struct tide_store *store, uint16_t node, struct tide_writer *writer); /* and releases it */
int tide__store_say(struct tide_store *store, uint16_t node, int op, uint64_t number);            /* [op, number] */
/* Fails with the code that ended a wait for store_operation_timeout: "WHAT: MISSING in 30 s", or that the fiber ends.
 */
int tide__store_gave_up(int code, const char *what, const char *missing);

struct tide__job;
/* Wakes the actor after `delay` for what is stalled or moves. */
void tide__retry_later(struct tide_store *store, uint64_t delay);
void tide__stalled_retry(struct tide_store *store);
/* Forwards or parks what is not served here. */
void tide__job_pass_misses(struct tide__job *job, const uint32_t *indices, size_t count);
/* Operations that waited for a slot look again. */
void tide__parked_retry(struct tide_table *table);

/* ---- pressure.c: the node's memory budget ---- */
struct tide__pressure { /* I/O thread */
    bool runs;
    uint64_t timer;  /* of the next look */
    uint64_t others; /* members that share the grant */
    struct tide_memory_report told;
};
/* Looks from time to time from now on, if there is a cap; the store actor. */
void tide__pressure_begin(struct tide_store *store);
void tide__pressure_watch(struct tide_store *store);                 /* of other nodes; before this one joins */
void tide__pressure_member(struct tide_store *store, uint16_t node); /* its state is new */
bool tide__pressure_timer(struct tide_store *store, uint64_t id);    /* false: another's */
/* EBUSY: node, use, cap, what is refused, and after how long to try again. */
int tide__memory_refuse(struct tide_store *store, uint16_t node, const char *what);
/* The same for a budget of this node (budget.h): its own, or a run's. */
int tide__memory_refuse_of(struct tide_store *store, const struct tide_budget *budget, const char *what);
/* EBUSY: its run has no room for another table on this node. Where tables are made. */
int tide__memory_admit_table_here(struct tide_store *store, const struct tide_table_options *options);
/* A node said no for now, in an answer, which has no room for a time: the code. */
int tide__memory_told(int code);
/* May the pass make the rows that it would? EBUSY: nothing of it was done. */
int tide__memory_admit_rows(const struct tide__pass *pass);
/* The same of a push of another node. */
int tide__memory_admit_job(const struct tide__job *job);
enum tide_tier tide__memory_tier(struct tide_store *store, uint16_t node);
/* EBUSY: some member has no room for another table. The controller. */
int tide__memory_admit_table(struct tide_store *store, const char *name);
bool tide__memory_takes_rows(struct tide_store *store, uint16_t node);
/* Those of the nodes that take rows come first; how many, or all if none does: rows of a member that
 * leaves have to go somewhere. */
size_t tide__memory_prefer(struct tide_store *store, uint16_t *nodes, size_t count);

/* ---- load.c: what this node does for others ---- */
/* Keys of an operation of another node came; takes the time that a test wants them to take. */
void tide__load_served(struct tide__job *job);
/* The store actor worked for others from `began` on. */
void tide__load_busy(struct tide_store *store, uint64_t began);

/* ---- catalog.c: which tables there are ---- */
struct tide__catalog;
int tide__catalog_create(struct tide_store *store);
void tide__catalog_destroy(struct tide_store *store);
void tide__catalog_member(struct tide_store *store, const struct tide_member *member); /* a member's state is new */
void tide__options_write(struct tide_writer *w, const struct tide_table_options *options);
int tide__options_read(struct tide_reader *r, struct tide_table_options *options, char name[64]);
int tide__options_check(struct tide_table_options *options); /* and fills in defaults */
/* 0, or EMISMATCH with what differs, of both: checked options. */
int tide__options_agree(const struct tide_table_options *there, const struct tide_table_options *wanted);
int tide__hot_check(const struct tide_table_options *options); /* may keys have copies? */
enum { TIDE__AGE_MS = 50, TIDE__AGE_MS_MAX = 3600000 };
int tide__consistency_check(struct tide_table_options *options);
bool tide__consistency_equal(const struct tide_consistency *x, const struct tide_consistency *y);
void tide__consistency_write(struct tide_writer *w, const struct tide_table_options *options);
int tide__consistency_read(struct tide_reader *r, struct tide_table_options *options);

/* ---- table.c ---- */
struct tide_store {
    /* constant after creation */
    const struct tide__technique *const *techniques; /* technique.h; NULL ends the list */
    size_t technique_count;
    const struct tide__handlers *handlers; /* by number of the message */
    struct tide_system *system;            /* NULL: tables of this process only */
    struct tide_net *net;
    struct tide_port *port;
    struct tide_node *node;
    struct tide_member_watch watch;

    /* any thread */
    atomic_uint self; /* id of this node; 0 until joined */
    atomic_bool synced;
    _Atomic(struct tide_table *) tables[TIDE__TABLES_MAX]; /* by place */
    atomic_uint table_count;                               /* places up to this */
    atomic_uint table_epoch, table_readers[2];             /* table_drop.c */
    struct tide__pending_table pending;
    struct tide_lock runs_lock;       /* clock.h; of the list, and of how many hold a run */
    _Atomic(struct tide__run *) runs; /* taken out by the I/O thread */
    atomic_bool runs_unheld;          /* some */
    struct tide__admission admission;
    struct tide_budget budget;
    struct tide__rate rate;
    atomic_uint_fast64_t replies_unknown, malformed;
    struct tide_random yields;             /* simulator only: one OS thread */
    atomic_bool members_missed;            /* the word of a change did not fit the mailbox */
    atomic_int fenced;                     /* this node was declared dead: EFENCED; or left: ECLOSED */
    struct tide__replication *replication; /* replica.h; made with the first table with copies */
    atomic_uint_fast64_t serve_ns;         /* what a key of others takes besides its work: load.c */

    /* I/O thread */
    struct tide__dropping *dropping; /* table_drop.c */
    bool tables_removed;             /* since the last generation: the next one must be full */
    uint64_t drop_at;                /* when what is dropped is looked at again */
    uint64_t drop_timer;             /* id; 0: none */
    atomic_uint_fast64_t busy_ns, served_keys, served_messages; /* load.c; any thread reads */
    uint8_t member_state[65536];                                /* 1 + state, 0: never seen */
    unsigned members_end;  /* above the highest member that was ever seen; clients apart */
    bool told_dead[65536]; /* a home said so: what it still sends of rows is too late */
    struct tide__job *stalled, **stalled_end;
    bool locations_retry; /* location_cache.h: operations of some table may look again */
    bool timer_set;
    uint64_t parked_bytes;
    struct tide__pressure pressure;
    struct tide__catalog *catalog; /* controller */
    struct tide__moves *moves;
    struct tide__generation *generation; /* node_part.c: being written; NULL: none */
    uint32_t cut_sequence;               /* of the newest generation that this node was told of */
    uint64_t cut_last;                   /* id of the last one it wrote; 0: none */
    bool leaving;                        /* this node: localizes nothing any more */
    bool drained;                        /* and told the controller that it owns nothing of others */
    uint64_t commander;                  /* term of the controller that was told */
    struct tide__drain *drain;           /* drain.c; NULL: it has not begun to look */
    int64_t serve_debt;                  /* ns that are still to be taken; below 0: too many were */
};

static inline bool tide__member_lives(const struct tide_store *store, unsigned node) {
    return store->member_state[node] == 1 + TIDE_MEMBER_UP || store->member_state[node] == 1 + TIDE_MEMBER_LEAVING;
}

static inline bool tide__member_gone(const struct tide_store *store, unsigned node) {
    return store->member_state[node] == 1 + TIDE_MEMBER_DEAD || store->member_state[node] == 1 + TIDE_MEMBER_LEFT;
}
/* A store without actors: tables of this process, homes all here. For tests and benchmarks. */
int tide__store_create_bare(struct tide_store **out);
/* Makes the table object; homes NULL: all here. Not yet visible. */
int tide__table_make(struct tide_store *store, uint32_t id, const struct tide_table_options *options,
                     const uint16_t *homes, const uint64_t *chains, struct tide_table **out);
int tide__table_create_in(struct tide_store *store, const struct tide_table_options *options, struct tide_table **out);
void tide__table_destroy(struct tide_table *table);
void tide__table_publish(struct tide_store *store, struct tide_table *table);
/* A call of the controller's store by a fiber. While the controller is away, and another one or the same is to
 * come, it is waited for; `patient`: also while it says that it is busy. So it may be asked twice. */
int tide__ask_controller(struct tide_store *store, const struct tide_writer *w, bool patient);
struct tide_table *tide__table_by_id(struct tide_store *store, uint64_t id); /* of that life; or NULL */
/* Reads the id of a table and finds it. NULL: there is none of that id, and the message counts as late, not as damaged,
 * whatever its handler returns. */
struct tide__incoming;
struct tide_table *tide__incoming_table(struct tide_store *store, struct tide__incoming *in);
uint16_t tide__store_learn_self(struct tide_store *store);
static inline uint16_t tide__store_self(struct tide_store *store) {
    const unsigned self = atomic_load_explicit(&store->self, memory_order_relaxed);
    return TIDE_LIKELY(self) ? (uint16_t)self : tide__store_learn_self(store);
}
bool tide__store_is_controller(struct tide_store *store);
/* The store actor, which alone may send and set timers, is to look at the members, at who commands,
 * and at what was recorded. Any thread. */
void tide__store_look(struct tide_store *store);
void tide__store_look_at(struct tide_store *store, uint16_t member); /* 0: all */
/* A place where the simulator may let others run. No lock is held. */
static inline void tide__store_yield(struct tide_store *store) {
    if (TIDE_UNLIKELY(store->port && store->port->simulated) && tide_random_below(&store->yields, 16) == 0) {
        if (tide_fiber_current()) {
            (void)tide_yield();
        } else {
            for (uint64_t turns = 1 + tide_random_below(&store->yields, 8); turns > 0; turns--) {
                store->port->ops->interleave(store->port);
            }
        }
    }
}

/* What is in a place, 1 to table_count. */
static inline struct tide_table *tide__table_at(struct tide_store *store, unsigned place) {
    return atomic_load_explicit(&store->tables[place], memory_order_acquire); /* pairs with tide__table_publish */
}

#endif
