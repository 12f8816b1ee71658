/*
 * Tables with clocks, between consistency.c (text and options), worker.c (workers: copies of rows),
 * copy_index.c (their index), flush.c (what leaves at a clock), home.c (rows at their home), tick.c
 * (clocks at the home), clock_move.c and tick_forward.c (slots that change their home), round.c (workers come
 * and go), bsp.c (bsp), vap.c and vap_home.c (vap), staleness_stats.c (what workers saw) and early_send.c (what
 * leaves before its clock).
 *
 *   worker     pushes to its node's copies; what accumulated leaves when the node's slowest worker
 *              calls clock(): DELTA to each home, then TICK to all nodes
 *   home       applies DELTA; a slot's clock is the minimum over the nodes of their ticks: the rows
 *              hold every push of a smaller stamp. When it rises: VALUE with the rows that changed
 *              to holders of copies (essp), answers to requests of newer rows, then FRESH
 *              to the users of the table here: nodes that have asked for rows or sent updates. A
 *              table without users rests: its clocks are sent when it gets one. From the first
 *              slot that changes its home on all nodes are users
 *   node       FRESH raises the floors of slots; a pull of a worker at clock c needs floor (copies
 *              that the home pushes to: essp) or copy (ssp) of clock c - s
 *
 * Order. All of these travel on the one ordered lane between two nodes and are applied, not
 * answered, in order. So a TICK comes behind the DELTAs it closes and FRESH behind its VALUEs.
 *
 * Threads. A copy is guarded by the latch of its word in the index of copies (a table of its own
 * whose rows are the copies); a row at home by its key word. What is marked "I/O" belongs to I/O
 * thread 0. No lock is held across a suspension.
 */
#ifndef TIDE_STORE_CLOCKED_H
#define TIDE_STORE_CLOCKED_H

#include "store/rows/slot_index.h"
#include "store/core/clock.h"
#include "store/core/technique.h"
#include "store/rows/copy_record.h"
#include "store/clocked/pacer.h"
#include "tide/stats.h"

enum {
    TIDE__BOUNDS = 8, /* changes of a bound that are remembered */
};

/* Flags in the `seen` bits of a key word at home, which only relocating tables use else. */
#define TIDE__WORD_CHANGED (UINT64_C(1) << 33) /* since it last went to them; it is listed */
#define TIDE__WORD_MIXED (UINT64_C(1) << 34)   /* and not only by the changer of its watch */
/* How much, where that decides what goes first: sum of the norms of its updates, as the upper 20
 * bits of a float behind the sign. */
#define TIDE__WORD_WEIGHT (UINT64_C(0xfffff) << 35)
static inline float tide__word_weight(uint64_t word) {
    const uint32_t bits = (uint32_t)(word >> 35 & 0xfffff) << 11;
    float weight;
    memcpy(&weight, &bits, sizeof weight);
    return weight;
}
static inline uint64_t tide__word_weigh(uint64_t word, float more) {
    const float weight = tide__word_weight(word) + more;
    uint32_t bits;
    memcpy(&bits, &weight, sizeof bits);
    return (word & ~TIDE__WORD_WEIGHT) | (uint64_t)(bits >> 11 & 0xfffff) << 35;
}

extern const struct tide__technique tide__clocked;
tide__handler tide__delta_message, tide__ask_message, tide__value_message, tide__fresh_message, tide__unsub_message,
    tide__tick_message, tide__tick_forwarded, tide__route_message, tide__fence_message, tide__fenced_message,
    tide__slot_clocks_message, tide__round_message, tide__round_answer, tide__part_message, tide__bound_message,
    tide__trace_message, tide__seen_message, tide__visible_message;

/* ---- the other nodes, as far as clocks are concerned ---- */
struct tide__party {
    struct tide__party *next; /* ascending by id; never freed before the store */
    uint16_t id;
    bool gone;                 /* I/O: dead or left */
    bool joins;                /* I/O: counted in, and its first tick is yet to come */
    uint32_t tick;             /* I/O: its clock; TIDE_NO_CLOCK: it has no workers */
    uint64_t applied;          /* I/O: number of its last DELTA that came here */
    atomic_bool lost;          /* any thread: as `gone` */
    atomic_uint_fast64_t sent; /* any thread: bytes, where something is sent early */
    struct tide__pacer pace;   /* I/O */
    int64_t room;              /* I/O: bytes that may be sent early in this turn */
    uint64_t round;            /* of ours, that it has not answered; 0: none */
};

struct tide__waiting { /* a fiber that waits for an event; on its stack */
    struct tide__waiting *next, **back;
    struct tide_fiber *fiber;
};

/* What a store keeps of a domain once it has a table with clocks. */
struct tide__sync {
    struct tide_store *store;
    struct tide__run *run; /* the domain */
    struct tide__clock_watch watch;
    atomic_bool flushing;        /* held from packing to sending: numbers and clocks leave in order */
    enum tide_memory_use memory; /* under `flushing`: whose it was before */
    uint64_t number;             /* of the last DELTA; under `flushing` */
    uint32_t ticked;             /* under `flushing`: what was announced */
    uint32_t highest;            /* under `flushing`: no worker of this node had a clock of this or more */
    uint32_t leaves;             /* under `flushing`: clock to announce when all `leaving` has left, if so */
    bool leaving;
    struct tide_lock lock; /* of the two below */
    struct tide__waiting *waiting;
    _Atomic(struct tide__party *) peers;           /* written on I/O only */
    atomic_uint known;                             /* minimum of all received ticks: that of the slowest worker */
    atomic_uint closed;                            /* no push has a stamp of this or more: without workers */
    atomic_uint_fast64_t serial;                   /* of changes of bounds */
    atomic_uint settled;                           /* how often this node settled */
    uint32_t announced;                            /* I/O: the highest clock this home announced */
    _Atomic(struct tide__early_send *) early_send; /* NULL: no table sends early. Never freed before */
    struct tide_lock round_lock;                   /* of the rest, and of the peers' `round` */
    uint64_t rounds, round_missing;
    uint32_t round_clock;
    bool round_runs;
};

/* ---- a table with clocks ---- */
struct tide__watcher { /* a node that holds a copy of a row */
    uint64_t version;  /* of the row when it came to know it: an older UNSUB is late */
    uint16_t node;
};
struct tide__watch { /* the copies of a row */
    uint64_t key;
    struct tide__watcher *nodes; /* NULL: empty place */
    uint16_t count, capacity;
    uint16_t changer; /* the node that changed the row since it last went out; 0: several did */
};
struct tide__watches { /* of a slot: open addressing */
    struct tide__watch *places;
    uint32_t capacity, count; /* capacity: a power of two */
};

/* A node whose updates of a slot do not come straight to this home. */
struct tide__tick_forward {
    uint16_t node;
    uint32_t tick;   /* its clock as far as it came by that way */
    uint64_t number; /* of its last DELTA that came by that way */
};
struct tide__tick_forwards {
    uint32_t count;
    struct tide__tick_forward at[];
};

struct tide__declared { /* what a node said of the way it sends to this home */
    struct tide__declared *next;
    uint16_t node;
    uint64_t slots[TIDE_SLOT_COUNT / 64]; /* straight to this node */
};

struct tide__asked { /* rows requested by a node that do not have the requested clock yet */
    struct tide__asked *next;
    uint16_t node;
    uint32_t need, count;
    uint64_t keys[];
};
struct tide__held { /* a message for slots whose rows are in flight */
    struct tide__held *next;
    uint16_t from;
    size_t size;
    uint8_t body[];
};

struct tide__bound { /* a change: bounds of serials before it are not in force any more */
    uint64_t serial;
    uint32_t staleness;
};

enum { TIDE__UNDER = TIDE_STALENESS_MAX + 2, TIDE__OVER };
struct tide__staleness_stats {                        /* see staleness_stats.c */
    _Alignas(128) struct tide__staleness_stats *next; /* of the table */
    struct tide__clocked *c;
    uint32_t worker;                         /* number */
    bool in_use;                             /* by a worker that lives; under the lock */
    struct tide__staleness_stats *of_worker; /* the worker's next one; its fiber only */
    atomic_uint_fast64_t differential[TIDE__OVER + 1];
    atomic_uint_fast64_t hits, waits, fetches, clocks, waited_ns, clock_ns, stops, stopped_ns;
};

struct tide__staged;
struct tide__vap;

struct tide__list { /* any thread, under the lock */
    struct tide_lock lock;
    uint64_t *at;
    size_t count, capacity;
};
void tide__list_add(struct tide__list *list, uint64_t item);

struct tide__batch;
struct tide__leaving { /* updates that leave in this order, part by part */
    uint64_t *records;
    size_t next, count;
    struct tide__batch *batches; /* by home: not full yet */
};

struct tide__clocked {
    struct tide_table *table;
    struct tide__sync *sync; /* of its domain */
    struct tide__copy_record_shape shape;
    atomic_uchar model; /* ssp and essp change into each other at run time */
    atomic_uint age_ms;
    atomic_uint_fast64_t change, issued; /* numbers of the newest change: in force; made here */

    /* bounds: written on I/O, read by workers under the lock when they are not of the newest */
    struct tide_lock bound_lock;
    struct tide__bound bounds[TIDE__BOUNDS]; /* oldest first; the last is in force */
    atomic_uint staleness;
    atomic_uint_fast64_t serial;

    /* copies */
    struct tide_table *index;
    atomic_uint table_floor; /* minimum over all slots */
    atomic_uint floor[TIDE_SLOT_COUNT];
    atomic_uint pushed_floor[TIDE_SLOT_COUNT];       /* what changed until then was pushed to copies */
    atomic_ushort via[TIDE_SLOT_COUNT];              /* where this node sends what concerns a slot */
    atomic_uchar shifting[TIDE_SLOT_COUNT];          /* it is about to send it elsewhere */
    atomic_uint_fast64_t confirmed[TIDE_SLOT_COUNT]; /* of our DELTAs: applied at the home */
    struct tide__list dirty;                         /* records to be sent */
    struct tide__leaving leaving;                    /* of a clock; under the flush lock */
    uint32_t hand;                                   /* of the evictor; under the lock of `dirty` */
    atomic_uint_fast64_t evicted, values_in, values_out, deltas_out, value_bytes, answer_bytes, delta_bytes;
    atomic_uint_fast64_t early_rows, early_bytes;
    atomic_uint_fast64_t flushed_ns; /* async */
    struct tide_lock staleness_lock;
    struct tide__staleness_stats *staleness_stats;
    struct tide__staleness_stats of_others; /* of workers for which there was no memory */

    /* home; I/O except where marked */
    uint64_t version;                    /* of the last VALUE */
    uint32_t announced[TIDE_SLOT_COUNT]; /* clock of a slot, as FRESH announced it, */
    uint32_t announced_most;             /* the highest of them; */
    uint32_t announced_least;            /* no slot of `here` is below, as long as that holds */
    bool pushed[TIDE_SLOT_COUNT];        /* and what changed until then went to copies before */
    uint64_t here[TIDE_SLOT_COUNT / 64]; /* slots with tide__slot_here, a bit each, */
    uint64_t here_changes;               /* when `changes` of the table was this; */
    bool here_known;                     /* false: never looked */
    uint8_t users[(UINT16_MAX + 1) / 8]; /* nodes that asked here or sent updates, a bit each */
    bool used, used_by_all;
    atomic_bool used_here; /* any thread: workers of this node have said that they use it */
    struct tide__declared *declared;
    struct tide__watches watches[TIDE_SLOT_COUNT];
    struct tide__tick_forwards *tick_forwards[TIDE_SLOT_COUNT];
    uint16_t departed[TIDE_SLOT_COUNT]; /* went to this node, and some still send here */
    uint32_t departed_count;
    bool untold[TIDE_SLOT_COUNT]; /* departed, and the others do not know */
    uint32_t untold_count;
    bool straight;      /* the departing slot: this node's workers used the rows in place */
    uint32_t forwarded; /* slots with tick_forwards */
    struct tide__asked *asked;
    struct tide__held *held, **held_end;
    struct tide__list changed;   /* keys */
    struct tide__staged *staged; /* bsp */
    size_t staged_count;
    struct tide__staged *late; /* bsp: of slots that shift; under the flush lock */
    struct tide__vap *vap;     /* vap */
};
/* NULL: a sequential table. */
static inline struct tide__clocked *tide__clocked_part(const struct tide_table *table) {
    return table->parts[TIDE__PART_CLOCKS];
}

/* Home: FRESH is for nodes that may have copies, or updates that are not confirmed. I/O. */
static inline bool tide__is_user(const struct tide__clocked *c, uint16_t node) {
    return c->used_by_all || c->vap || (c->users[node / 8] >> (node % 8) & 1);
}
void tide__user_add(struct tide__clocked *c, uint16_t node); /* 0: all nodes are */
/* Homes send rows that changed to holders of copies. */
static inline bool tide__is_eager(const struct tide__clocked *c) {
    return c->model == TIDE_ESSP || c->model == TIDE_BSP || c->model == TIDE_VAP;
}
/* Of one message. */
static inline size_t tide__chunk_rows(const struct tide__clocked *c) {
    return tide_limit(store_clock_chunk_bytes) / (c->shape.floats * sizeof(float) + sizeof(uint64_t)) + 1;
}
/* Pulls wait for clocks. */
static inline bool tide__has_clock_bound(const struct tide__clocked *c) {
    return c->model != TIDE_ASYNC && c->model != TIDE_VAP;
}

static inline struct tide__sync *tide__sync_of(struct tide__run *domain) { /* NULL: no such table yet */
    return atomic_load_explicit(&domain->sync, memory_order_acquire);      /* pairs with sync_create */
}
/* Of all domains, one after the other; NULL: the first, and behind the last. I/O. */
struct tide__sync *tide__sync_next(struct tide_store *store, const struct tide__sync *sync);
/* The table in that place, if it has the clocks of this domain. Between tide__tables_enter and _leave,
 * under the flush lock of the domain, or I/O. */
static inline struct tide__clocked *tide__clocked_at(const struct tide__sync *sync, unsigned place) {
    const struct tide_table *table = tide__table_at(sync->store, place);
    struct tide__clocked *c = table ? tide__clocked_part(table) : NULL;
    return c && c->sync == sync ? c : NULL;
}
/* The next one behind *place, which moves there; 0: the first. NULL: that was the last. When it may be called: as
 * above. */
static inline struct tide__clocked *tide__clocked_next(const struct tide__sync *sync, unsigned *place) {
    const unsigned count = atomic_load_explicit(&sync->store->table_count, memory_order_acquire);
    struct tide__clocked *c = NULL;
    while (!c && *place < count) {
        c = tide__clocked_at(sync, ++*place);
    }
    return c;
}
int tide__clocked_create(struct tide_table *table);
void tide__clocked_destroy(struct tide_table *table);
void tide__sync_destroy(struct tide__run *domain);
static inline uint16_t tide__via(const struct tide__clocked *c, uint32_t slot) {
    return atomic_load_explicit(&c->via[slot], memory_order_acquire); /* pairs with clock_move.c */
}
void tide__sync_wake(struct tide__sync *sync); /* all waiters look again. Any thread */
void tide__sync_wait_begin(struct tide__sync *sync, struct tide__waiting *waiting);
void tide__sync_wait_end(struct tide__sync *sync, struct tide__waiting *waiting);
struct tide__party *tide__party(struct tide__sync *sync, uint16_t id); /* NULL: not known */
bool tide__party_lost(struct tide__sync *sync, uint16_t id);           /* any thread */
/* To a store actor, this node's too; any thread, never waits. Releases the writer. Fails without
 * memory only for a worker's call, which returns the error. */
int tide__sync_send(struct tide__sync *sync, uint16_t node, struct tide_writer *w);
/* A whole message (TIDE__AS). */
int tide__sync_tell(struct tide__sync *sync, uint16_t node, enum tide__op op, const union tide__message *m);
/* The same for what workers of this node send, or what has to come behind it: in order whichever
 * thread sends. `rows` (shared, or NULL) follow what was written. */
int tide__sync_send_in_line(struct tide__sync *sync, uint16_t node, struct tide_writer *w, struct tide_blob *rows);
int tide__sync_tell_in_line(struct tide__sync *sync, uint16_t node, enum tide__op op, const union tide__message *m);
/* Of a message: the table's clocks, or those of a domain. NULL: damaged, or (in->useless) of a client or dropped. */
struct tide__clocked *tide__clocked_of(struct tide_store *store, struct tide__incoming *in, uint32_t table);
struct tide__sync *tide__clocks_of(struct tide_store *store, struct tide__incoming *in, uint32_t domain);
static inline void tide__floor_raise(atomic_uint *floor, uint32_t clock) {
    if (atomic_load_explicit(floor, memory_order_relaxed) < clock) {
        /* release: the rows it speaks of are in the copies; pairs with the acquire of pulls */
        atomic_store_explicit(floor, clock, memory_order_release);
    }
}
void tide__table_floor_update(struct tide__clocked *c);

/* I/O: what is in force, to a node that knows how the table was made; nothing if it is that. */
void tide__bound_tell(struct tide__clocked *c, uint16_t to);

/* ---- staleness_stats.c ---- */
struct tide__staleness_stats *tide__staleness_make(struct tide__clocked *c, struct tide__worker *worker);
/* The calling worker's, of this table, which it uses from now on. */
static inline struct tide__staleness_stats *tide__staleness_stats(struct tide__clocked *c,
                                                                  struct tide__worker *worker) {
    struct tide__staleness_stats *t = worker->staleness_stats;
    while (t && t->c != c) {
        t = t->of_worker;
    }
    return TIDE_LIKELY(t) ? t : tide__staleness_make(c, worker);
}
static inline void tide__staleness_add(atomic_uint_fast64_t *value, uint64_t amount) {
    atomic_store_explicit(value, atomic_load_explicit(value, memory_order_relaxed) + amount, memory_order_relaxed);
}
void tide__staleness_release(struct tide__worker *worker); /* it ends */
/* The worker ends an interval, for which it waited so long. */
void tide__staleness_clock(struct tide__worker *worker, uint64_t waited_ns);
void tide__staleness_sum(struct tide__clocked *c, struct tide_worker_staleness *out);
void tide__staleness_free(struct tide__clocked *c);

/* ---- worker.c ---- */
int tide__clocked_operate(struct tide_table *table, enum tide__kind kind, const uint64_t *keys, size_t count,
                          float *out, const float *in, struct tide_ticket *ticket);
int tide__clocked_wait(struct tide_ticket *ticket);
/* Adds to columns of one row in place. False: a push of the whole row is to do it, or to say what is wrong. */
bool tide__clocked_add(struct tide_table *table, uint64_t key, const uint32_t *columns, const float *values,
                       size_t count, int *code);
/* The latch of a copy: FOUND (record set), NOT_FOUND (and not `create`), or an error. */
int tide__copy_lock(struct tide__clocked *c, uint64_t key, bool create, bool patient, atomic_uint_fast64_t **word,
                    uint64_t *old, struct tide__copy_record **record);
static inline struct tide__copy_record *tide__copy_at(struct tide__clocked *c, uint32_t record) {
    return (struct tide__copy_record *)(void *)tide__slab_row(&c->index->slab, record);
}
/* Ahead of a lookup, for the caches' sake: the place of a key's word, if the slot has it. */
static inline void tide__fetch_word(const struct tide_table *table, uint32_t slot, uint64_t key) {
    const atomic_uint_fast64_t *words = table->options.keys == TIDE_KEYS_DENSE
                                            ? atomic_load_explicit(&table->slots[slot].index, memory_order_relaxed)
                                            : NULL;
    if (words) {
        __builtin_prefetch(words + tide__place_of(table, slot, key), 1);
    }
}
/* The record is clean or of no use any more: it is freed and the word unlocked. */
void tide__copy_free(struct tide__clocked *c, atomic_uint_fast64_t *word, uint64_t old);
void tide__dirty_add(struct tide__clocked *c, struct tide__copy_record *r, uint64_t old);
/* Calls each(arg, record, word, old) for the copies of a slot (TIDE_SLOT_COUNT: of all), latched;
 * `each` unlocks. */
void tide__copy_index_slot(struct tide__clocked *c, uint32_t slot,
                           void (*each)(void *arg, struct tide__copy_record *r, atomic_uint_fast64_t *word,
                                        uint64_t old),
                           void *arg);
/* Drops unread copies: those unread for long (a share of all), or, `full`, until there is
 * room. */
void tide__evict(struct tide__clocked *c, uint32_t clock, bool full);

/* ---- flush.c ---- */
void tide__flush_lock(struct tide__sync *sync); /* and what of a clock has not left leaves */
bool tide__flush_try(struct tide__sync *sync);  /* a clock may have left in part */
void tide__flush_unlock(struct tide__sync *sync);
void tide__flush_table(struct tide__clocked *c); /* lock held: what accumulated leaves */
/* Lock held: what accumulated in these records leaves, as far as it may. */
void tide__flush_records(struct tide__clocked *c, uint64_t *records, size_t count);
void tide__leaving_free(struct tide__leaving *leaving);
/*
 * A checkpoint's cut by clock (cut.h) and what accumulates in copies: while it is announced, an
 * accumulator, and so a DELTA, holds pushes of one side of it only. `stamp` is that of a push about
 * to be added to a latched record: does the record hold pushes of the other side?
 */
static inline bool tide__other_side(const struct tide__clocked *c, const struct tide__copy_record *r, uint32_t stamp) {
    /* acquire: with the announcement; the thread that made `newest` pass it had the latch */
    const uint32_t cut = atomic_load_explicit(&c->sync->run->cut_clock, memory_order_acquire);
    return cut != TIDE_NO_CLOCK && r->dirty && (r->newest >= cut) != (stamp >= cut);
}
static inline void tide__note_stamp(struct tide__copy_record *r, uint32_t stamp) {
    r->newest = r->dirty && r->newest > stamp ? r->newest : stamp;
}
/* On a fiber: what accumulated in this record leaves, unless its slot is on the way to another home:
 * look again. */
void tide__flush_apart(struct tide__clocked *c, uint64_t record);
void tide__tick_send(struct tide__sync *sync, uint32_t clock); /* lock held */
void tide__tick_tell(struct tide__sync *sync, uint16_t node);  /* a new peer: what was ticked */
void tide__clock_changed(void *sync, uint32_t clock);
/* A worker that only pushes is no further ahead of the slowest than one that reads, as the least
 * bound of the tables says that it used: others, of earlier runs perhaps, are none of its business.
 * May suspend. */
int tide__clock_may_end(struct tide__sync *sync, const struct tide__worker *worker);

/* ---- home.c ---- */
/* A row of which nodes hold copies was changed here, by `values` (floats, at any alignment). Word
 * locked; gives its new value. */
uint64_t tide__row_changed(struct tide__clocked *c, uint64_t key, uint64_t word, const void *values, size_t count);
/* Rows to a node; `answer`: it asked for them, and (eager) is notified of changes from now on. */
void tide__values_send(struct tide__clocked *c, uint16_t node, uint32_t clock, uint64_t applied, const uint64_t *keys,
                       size_t count, bool answer);
struct tide__watch_row {
    uint64_t key;
    uint16_t node;
};
/* The rows of a slot that changed go to holders of copies; TIDE_SLOT_COUNT: all without tick_forwards. */
void tide__changed_send(struct tide__clocked *c, uint32_t slot);
/* Of these, which were taken off the list of changed ones; `slot` as above. Overwrites `keys`. */
void tide__rows_send(struct tide__clocked *c, uint32_t slot, uint64_t *keys, size_t count);
/* The key's word at home, locked and made if need be; NULL: out of memory. */
atomic_uint_fast64_t *tide__home_word(struct tide__clocked *c, uint64_t key, uint64_t *old);
/* The changed keys of a slot (or as above), taken off the list; *gives*. NULL: out of memory. */
uint64_t *tide__take_changed(struct tide__clocked *c, uint32_t slot, size_t *count);
void tide__mark_changed(struct tide__clocked *c, uint64_t key);
struct tide__watch *tide__watch_find(struct tide__clocked *c, uint64_t key, bool create);
int tide__watch_add(struct tide__clocked *c, uint64_t key, uint16_t node, uint64_t version);
void tide__watches_clear(struct tide__watches *watches);
/* Applies a delta (or a raw sum) to a row that is here. `changer`: the node it came from. */
/* `stamp`: of the pushes in it, or 0: they are of before the announced cut (cut.h). */
int tide__home_apply(struct tide__clocked *c, uint64_t key, const void *delta, uint32_t stamp, uint16_t changer);
/* A message whose rows are coming is handled when they are here. */
void tide__hold(struct tide__clocked *c, uint16_t from, enum tide__op op, const union tide__message *m);

/* ---- tick.c ---- */
uint32_t tide__slot_clock(struct tide__clocked *c, uint32_t slot);
uint64_t tide__slot_applied(struct tide__clocked *c, uint32_t slot, uint16_t node);
bool tide__slot_here(const struct tide__clocked *c, uint32_t slot);
/* Where a slot's rows are, as this node knows; 0: they are in flight to here. */
uint16_t tide__home_of(const struct tide__clocked *c, uint32_t slot);
/* Slots (as they were read) that a node sends straight to this home from now on: it hears again what
 * was announced of them, for from a home that it did not send to yet it took nothing. */
void tide__fresh_tell(struct tide__clocked *c, uint16_t node, const uint8_t *slots, size_t count);
/* The same if only the way of some slots (as they were read) to here has changed. */
void tide__slots_advance(struct tide__clocked *c, const uint8_t *slots, size_t count);
void tide__slot_advance(struct tide__clocked *c, uint32_t slot); /* one that has just come */
void tide__ticks_changed(struct tide__sync *sync);
void tide__known_update(struct tide__sync *sync); /* a node is counted in */
void tide__ask_again(struct tide__clocked *c);    /* parked requests */
/* I/O: in the rows of all tables with these clocks that are here is every push of a smaller stamp. */
bool tide__clocked_settled(struct tide__run *domain, uint32_t clock);

/* ---- clock_move.c ---- */
struct tide__tick_forward *tide__tick_forward(struct tide__clocked *c, uint32_t slot, uint16_t node, bool create);
bool tide__declared(struct tide__clocked *c, uint16_t node, uint32_t slot);
bool tide__undeclared(struct tide__clocked *c); /* a node has said nothing yet */
void tide__declare_to(struct tide__clocked *c, uint16_t to, bool answer);
void tide__clocked_ready(struct tide_table *table); /* every node has the table now */
void tide__clocked_routes_changed(struct tide_table *table, uint32_t from, uint32_t end);
void tide__clocked_departs(struct tide_table *table, uint32_t slot, uint16_t to);
int tide__clocked_departed(struct tide_table *table, uint32_t slot, uint16_t to);
void tide__clocked_arrived(struct tide_table *table, uint32_t slot);
void tide__clocked_tell_moves(struct tide_store *store);
bool tide__clocked_uses_old_homes(struct tide_table *table);
void tide__clock_move_member_gone(struct tide__clocked *c, uint16_t node);
void tide__tick_pass_on(struct tide__clocked *c, uint16_t node, uint32_t clock);

/* ---- round.c ---- */
enum tide__round { TIDE__ROUND_JOIN = 1, TIDE__ROUND_SETTLE };
int tide__round(struct tide__sync *sync, enum tide__round kind, uint32_t *clock);
int tide__settle(struct tide__sync *sync);
void tide__round_member_gone(struct tide__sync *sync, uint16_t node);

/* ---- early_send.c ---- */
struct tide__early_send;
int tide__early_send_create(struct tide__sync *sync); /* for the first table that sends early */
void tide__early_send_note(struct tide__sync *sync, uint16_t node, size_t bytes); /* any thread */
/* What may leave early leaves. Nanoseconds until its next call; 0: when there is
 * news. I/O. */
uint64_t tide__early_send_rest(struct tide_store *store);

/* ---- bsp.c: bsp ---- */
struct tide__bsp_pushed;
int tide__bsp_push(struct tide__clocked *c, struct tide__worker *worker, const uint64_t *keys, size_t count,
                   const float *rows);
void tide__bsp_add(struct tide__clocked *c, struct tide__worker *worker, uint64_t key, float *row);
void tide__bsp_send(struct tide__sync *sync, struct tide__worker *worker);
void tide__bsp_free(struct tide__worker *worker);
void tide__late_send(struct tide__clocked *c); /* flush lock held */
/* A contribution that came; `worker`: 1 + its number. */
int tide__stage(struct tide__clocked *c, uint64_t key, uint32_t stamp, uint16_t node, uint32_t worker,
                const void *delta);
void tide__staged_commit(struct tide__clocked *c);
bool tide__staged_below(const struct tide__clocked *c, uint32_t clock); /* a contribution waits */
void tide__staged_drop(struct tide__clocked *c, uint16_t node);
void tide__staged_free(struct tide__clocked *c);
void tide__staged_depart(struct tide__clocked *c, uint32_t slot, uint16_t to);

void tide__clocked_member(struct tide_store *store, const struct tide_member *member);

#endif
