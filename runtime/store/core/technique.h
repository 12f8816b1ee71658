/*
 * What a technique of managing rows adds to the store: a table of functions, a hook each. Core, operations and
 * slots know techniques by these tables only; store.c lists them. What two or more of them implement is a hook, or an
 * event with a number; what one alone does is called directly by a room above it (rooms: tests/rooms.py). A hook that
 * a technique has no use for is NULL.
 *
 *   tide__technique   of the store: members, turns, tables and slots. Every technique is notified of every table,
 *                     and looks whether the table is its own
 *   tide__operations  of one table: how its rows are walked, and what happens to an operation of a message
 *
 * A table has rows that relocate, or clocks, or copies against loss, or none of these: one
 * `operations`. Keys of plain tables and of those that relocate may be hot: `hot`, besides.
 * The walk over local rows (operation/access.c) calls no hook for a row of a plain table, nor for one that a
 * relocating table has here.
 */
#ifndef TIDE_STORE_TECHNIQUE_H
#define TIDE_STORE_TECHNIQUE_H

#include "store/core/node_store.h"
#include "tide/stats.h"

struct tide__catalog_entry;

/* A message to the store actor. */
struct tide__incoming {
    const struct tide_message *message;
    union tide__message as;  /* its fields, by name; of a FREE message: none */
    struct tide_reader body; /* behind them */
    size_t fields;           /* of the message, with the op */
    uint16_t from;
    uint16_t op;
    bool useless; /* and whole: of a table that was dropped while it was in flight, or of a client */
};
/*
 * Deals with it. EPROTO: it is damaged, which is counted and logged; of a call every negative code is
 * its answer, with tide_error_message(). I/O thread 0.
 */
typedef int tide__handler(struct tide_store *store, struct tide__incoming *in);
struct tide__handlers { /* of a number of messages; message.def */
    tide__handler *cast, *call;
};

/* What techniques are notified of, all on I/O thread 0 unless marked. Of the store: */
enum tide__store_event {
    TIDE__STORE_MEMORY_FULL,
    TIDE__STORE_SLOTS_LEFT,    /* some have left this node, of whatever table */
    TIDE__STORE_SLOTS_ADVANCE, /* slots move: what waited for that continues */
};
/* of a table, */
enum tide__table_event {
    TIDE__TABLE_BEGINS,         /* it can be found by id on this node */
    TIDE__TABLE_READY,          /* all nodes have it */
    TIDE__TABLE_REANNOUNCED,    /* the same, by another controller */
    TIDE__TABLE_ENDS,           /* it is closed; may come again */
    TIDE__TABLE_UNLISTED,       /* no thread finds it any more: it is freed next */
    TIDE__TABLE_FREED,          /* what table_create made goes, also of a table that was not made; any thread */
    TIDE__TABLE_ROUTES_CHANGED, /* some slots have new homes */
    TIDE__TABLE_SLOTS_DONE,     /* the last of some events of slots: what they decided is sent */
};
/* and of one of its slots. */
enum tide__slot_event {
    TIDE__SLOT_HOME_ANNOUNCED, /* this node was notified of a new home */
    TIDE__SLOT_LEAVES,         /* to node `to`: its route is about to change */
    TIDE__SLOT_SENDS_ROWS,     /* its route has changed; 1: its rows are sent, and not the plain way */
    TIDE__SLOT_FORGOTTEN,      /* its rows are not here any more */
    TIDE__SLOT_LEFT,           /* its rows were sent */
    TIDE__SLOT_ARRIVED,        /* this node is its home, with all rows */
    TIDE__SLOT_CLEARED,        /* 1: its rows are initial ones again, and not the plain way */
    TIDE__SLOT_SETTLED,        /* it has a new home, and no operation waits for an answer from a former one */
    TIDE__SLOT_OPENED,         /* then own operations on it were run; its rows are the workers' */
};
/* What of a table may not be over yet. */
enum tide__table_work {
    TIDE__WORK_FIBERS,    /* fibers that TIDE__TABLE_ENDS asked to end */
    TIDE__WORK_IN_FLIGHT, /* rows and messages, to this node or from it */
    TIDE__WORK_OLD_HOMES, /* what goes by old homes of slots */
};

struct tide__technique {
    const char *name;
    void (*store_event)(struct tide_store *store, enum tide__store_event event);
    void (*member_changed)(struct tide_store *store, const struct tide_member *member);
    /* Called after each message and timer. Returns after how many ns it is to be called again; 0: not by itself. */
    uint64_t (*end_of_turn)(struct tide_store *store);
    /* This node leaves: true when nothing of others is here. `offer`: owners may be notified again. */
    bool (*has_left)(struct tide_store *store, bool offer);
    /* Any thread; chains: of copies, by slot, or NULL. */
    int (*table_create)(struct tide_table *table, const uint64_t *chains);
    void (*table_event)(struct tide_table *table, enum tide__table_event event);
    bool (*table_works)(struct tide_table *table, enum tide__table_work work);   /* it is not over */
    void (*table_stats)(struct tide_table *table, struct tide_table_stats *out); /* any thread */
    /* 0; 1: done, no other technique is asked; or an error, which ends the event, too. */
    int (*slot_event)(struct tide_table *table, enum tide__slot_event event, uint32_t slot, uint16_t to);
};
/* Calls a hook of all techniques that have it: first to last; or last to first, as they are notified of members. */
#define TIDE__EACH_TECHNIQUE(store, hook, ...)                                                                         \
    for (size_t each_ = 0; (store)->techniques[each_]; each_++) {                                                      \
        if ((store)->techniques[each_]->hook) {                                                                        \
            (store)->techniques[each_]->hook(__VA_ARGS__);                                                             \
        }                                                                                                              \
    }
#define TIDE__EACH_TECHNIQUE_BACK(store, hook, ...)                                                                    \
    for (size_t each_ = TIDE__PARTS; each_-- > 0;) {                                                                   \
        if ((store)->techniques[each_]->hook) {                                                                        \
            (store)->techniques[each_]->hook(__VA_ARGS__);                                                             \
        }                                                                                                              \
    }
static inline void tide__store_event(struct tide_store *store, enum tide__store_event event) {
    TIDE__EACH_TECHNIQUE(store, store_event, store, event);
}
static inline void tide__table_event(struct tide_table *table, enum tide__table_event event) {
    TIDE__EACH_TECHNIQUE(table->store, table_event, table, event);
}
static inline bool tide__table_works(struct tide_table *table, enum tide__table_work work) {
    const struct tide__technique *const *t = table->store->techniques;
    while (*t && !((*t)->table_works && (*t)->table_works(table, work))) {
        t++;
    }
    return *t;
}
static inline int tide__slot_event(struct tide_table *table, enum tide__slot_event event, uint32_t slot, uint16_t to) {
    int code = 0;
    for (const struct tide__technique *const *t = table->store->techniques; *t && code == 0; t++) {
        code = (*t)->slot_event ? (*t)->slot_event(table, event, slot, to) : 0;
    }
    return code;
}

/* What a walk tells of a row whose word is locked. */
enum tide__row_event {
    TIDE__ROW_READ,    /* of `slot`, or its initial value: until when it may be returned, pass->deadline */
    TIDE__ROW_CHANGES, /* it is about to; may change *word, or refuse */
    TIDE__ROW_CHANGED, /* by `delta`; it is watched. May change *word */
};
enum { TIDE__BUCKETS = 64 };
struct tide__operations {
    /* A key's row is at its owner, which the own store actor alone knows: it gets what a worker misses. */
    bool owners;
    /* A slot's rows are at a group of nodes: an unanswered message is kept, and sent again when that changes. */
    bool groups;
    /* An operation that waits for a locked row blocks those behind it. */
    bool in_line;
    bool watches; /* TIDE__WORD_WATCHED is of this table's words */
    /* ---- any thread ---- */
    /* Pulls or pushes what is served here; lists the rest. */
    int (*walk)(struct tide__pass *pass, enum tide__kind kind);
    int (*row_event)(struct tide__pass *pass, enum tide__row_event event, uint32_t slot, uint64_t key, uint64_t *word,
                     const void *delta);
    /* owners: a missed operation counts in the key's word (locked) until the store actor has it; false: the
     * count is full. And some that will not be sent after all. */
    bool (*hand_over)(struct tide_table *table, atomic_uint_fast64_t *word, uint64_t old);
    void (*take_back)(struct tide_table *table, const void *keys, const uint32_t *positions, size_t count);
    /* Pushes of keys in different buckets go in different messages; NULL: one for all. Under the pending lock
     * it changes with `changes` alone. */
    uint8_t (*bucket)(const struct tide_table *table, uint32_t slot);
    /* May a call with these keys begin? May wait. NULL: yes. */
    int (*enter)(struct tide_table *table, const uint64_t *keys, size_t count);
    /* ---- unanswered messages (pending.h); pending lock held, but in `begins` ---- */
    size_t part_bytes, part_key_bytes; /* of the part of each: of itself, and of each of its keys */
    /* It is made, with `count` keys (unaligned), of a call that does not wait if `async`; it ends, perhaps unsent. */
    void (*begins)(struct tide__pending *p, const void *keys, bool async);
    void (*ends)(struct tide__pending *p);
    /* May the answer for a key never come because of the death of `node`? */
    bool (*hangs_on)(const struct tide__pending *p, uint32_t i, uint16_t node);
    /* Did it leave this node up to `sequence`? NULL: in the order of their numbers. */
    bool (*left)(const struct tide__pending *p, uint64_t sequence);
    /* ---- I/O thread 0 ---- */
    /* Works on an operation of a message. False: a row is locked, and it is to be called again. */
    bool (*job)(struct tide__job *job);
    /* groups: `count` pushes of node, or by it, are answered before the copies have them. False: they have. */
    bool (*at_risk)(struct tide_table *table, uint16_t node, size_t count, bool answered_here);
};

/* Hot keys of a table (hot_keys.h) as the rooms below them see them; every table has it. */
struct tide__hot_table;
struct tide__hot_face {
    _Atomic(struct tide__hot_table *) shared; /* NULL: no key has ever had copies */
    atomic_uint made_or_subscribed;           /* orders the two by being written by both */
    /* A row of this node changes, or leaves; its word is locked. `changer`: the node whose copy has
     * the change already, 0: none. Any thread. */
    void (*changed)(struct tide__hot_table *hot, uint64_t key, uint16_t changer);
    /* The origin of the job subscribes to key `index`, TIDE__ALL_KEYS: all that are served here; I/O thread 0. 1: its
     * row goes back, for others have changed it. */
    int (*subscribe)(struct tide__job *job, uint32_t index);
};
static inline struct tide__hot_face *tide__hot_face(const struct tide_table *table) {
    return table->parts[TIDE__PART_HOT];
}
static inline struct tide__hot_table *tide__hot_of(const struct tide_table *table) {
    return atomic_load_explicit(&tide__hot_face(table)->shared, memory_order_acquire); /* with its creation */
}
static const uint32_t TIDE__ALL_KEYS = UINT32_MAX; /* too large for an enum */

/* A row of this node changes, or leaves; its word is locked. As `changed`; `made`: it had no word that its
 * readers lock. */
static inline void tide__row_changes(struct tide_table *table, uint64_t key, uint16_t changer, bool made) {
    struct tide__hot_face *face = tide__hot_face(table);
    if (TIDE_UNLIKELY(made) && table->store->net && !table->operations->owners) {
        /* Of this and that of subscribe() one is the later one, and sees what was done before the
         * other. */
        atomic_fetch_add_explicit(&face->made_or_subscribed, 1, memory_order_acq_rel);
    }
    struct tide__hot_table *hot = tide__hot_of(table);
    if (TIDE_UNLIKELY(hot)) {
        face->changed(hot, key, changer);
    }
}

#endif
