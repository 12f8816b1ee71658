/*
 * What a technique of managing rows adds to the store: a table of functions. Core and operations know
 * techniques by these tables only; store.c lists them. A hook that a technique has no use for is NULL.
 *
 *   tide__technique   of the store: its life, its members, its tables, slots that move, and what the
 *                     controller plans. Every technique is asked about every table, and looks whether
 *                     the table is its own
 *   tide__operations  of one table: what happens to pulls, pushes and localizes in place of the plain
 *                     way, or besides it. A plain table has none
 *
 * A table has rows that relocate, or clocks, or copies against loss, or none of these: one
 * `operations`. Keys of plain tables and of those that relocate may be hot: `hot`, besides.
 * The walk over local rows (access.c) calls no hook for a row of a plain table, nor for one that a
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

/* All on I/O thread 0 unless marked. */
struct tide__technique {
    const char *name;

    /* ---- the store ---- */
    int (*create)(struct tide_store *store);
    void (*destroy)(struct tide_store *store); /* after all tables */
    void (*run_ends)(struct tide__run *run);   /* it is unheld and not found any more: it is freed */
    /* The state of a member is new; then, when all techniques know: what follows for slots. */
    void (*member)(struct tide_store *store, const struct tide_member *member);
    void (*settle)(struct tide_store *store, const struct tide_member *member);
    /* The membership view changed, or a new controller took over and has none of the earlier notifications. */
    void (*news)(struct tide_store *store);
    void (*commander)(struct tide_store *store);
    bool (*timer)(struct tide_store *store, uint64_t id); /* false: another's */
    void (*exit)(struct tide_store *store, uint64_t monitor);
    /* Called after each message and timer. Returns after how many ns it is to be called again; 0: not by itself. */
    uint64_t (*rest)(struct tide_store *store);
    void (*relieve)(struct tide_store *store); /* memory is full */
    /* This node leaves: true when nothing of others is here. `offer`: owners may be notified again. */
    bool (*leave)(struct tide_store *store, bool offer);
    /* Controller: a node has joined, and has been sent all tables. */
    void (*welcome)(struct tide_store *store, uint16_t node);

    /* ---- a table ---- */
    /* Any thread; chains: of copies, by slot, or NULL. */
    int (*table_create)(struct tide_table *table, const uint64_t *chains);
    void (*table_destroy)(struct tide_table *table);    /* any thread */
    void (*table_begins)(struct tide_table *table);     /* it can be found by id on this node */
    void (*table_ready)(struct tide_table *table);      /* all nodes have it */
    void (*table_again)(struct tide_table *table);      /* and another controller says so */
    void (*table_ends)(struct tide_table *table);       /* it is closed; maybe called again */
    bool (*table_ended)(struct tide_table *table);      /* what table_ends asked for is done */
    bool (*table_idle)(const struct tide_table *table); /* and nothing of it is in flight here */
    void (*table_give_up)(struct tide_table *table);    /* what nothing ends fails */
    void (*table_leave)(struct tide_store *store);      /* before one is freed: it is unused */
    void (*table_stats)(struct tide_table *table, struct tide_table_stats *out); /* any thread */

    /* ---- slots ---- */
    void (*routes_changed)(struct tide_table *table); /* some have new homes */
    /* This node was notified of new homes; `count` slots, unaligned u32. */
    void (*homes_told)(struct tide_table *table, const uint8_t *slots, size_t count);
    bool (*slots_settle)(struct tide_table *table); /* true: something still goes by old homes */
    void (*advance)(struct tide_store *store);      /* slots move: what waited for that continues */
    /* To another home: before its route changes; its rows in place of the plain way; they have gone. */
    void (*slot_leaves)(struct tide_table *table, uint32_t slot, uint16_t to);
    int (*slot_left)(struct tide_table *table, uint32_t slot, uint16_t to);
    void (*slots_left)(struct tide_store *store);                    /* some, of whatever table */
    void (*slot_forgotten)(struct tide_table *table, uint32_t slot); /* its rows are not here any more */
    void (*slot_came)(struct tide_table *table, uint32_t slot);      /* this node is home, with all rows */

    /* ---- the controller ---- */
    void (*choose_copies)(struct tide__catalog_entry *entry, const uint16_t *nodes, size_t count);
    int (*plan_load)(struct tide_store *store);    /* what was pending, from the record */
    void (*plan_begin)(struct tide_store *store);  /* this node leads from now on */
    void (*plan_resume)(struct tide_store *store); /* something was recorded */
    void (*plan_copies)(struct tide_store *store); /* before slots are planned */
    void (*plan_advance)(struct tide_store *store);
    void (*plan_release)(struct tide_store *store);                   /* another one leads */
    bool (*plan_has)(const struct tide_store *store, uint32_t table); /* slots are on the move */
    /* A member that leaves still has copies, or copies to make. */
    bool (*plan_busy)(struct tide_store *store, const struct tide__catalog_entry *entry, uint16_t node);
};
/* Calls a hook of all techniques that have it: first to last; or last to first, as they are destroyed and as
 * they are notified of members. */
#define TIDE__EACH_TECHNIQUE(store, hook, ...)                                                                         \
    for (size_t each_ = 0; (store)->techniques[each_]; each_++) {                                                      \
        if ((store)->techniques[each_]->hook) {                                                                        \
            (store)->techniques[each_]->hook(__VA_ARGS__);                                                             \
        }                                                                                                              \
    }
#define TIDE__EACH_TECHNIQUE_BACK(store, hook, ...)                                                                    \
    for (size_t each_ = (store)->technique_count; each_-- > 0;) {                                                      \
        if ((store)->techniques[each_]->hook) {                                                                        \
            (store)->techniques[each_]->hook(__VA_ARGS__);                                                             \
        }                                                                                                              \
    }

struct tide__operations {
    /* ---- any thread ---- */
    /* A worker's pull or push, whole, and the wait for it: tables with clocks. */
    int (*operate)(struct tide_table *table, enum tide__kind kind, const uint64_t *keys, size_t key_count, float *out,
                   const float *in, struct tide_ticket *ticket);
    int (*wait)(struct tide_ticket *ticket);
    /* A pass in place of the plain one. */
    int (*pull)(struct tide__pass *pass);
    int (*push)(struct tide__pass *pass);
    uint64_t (*may_show)(const struct tide_table *table, uint32_t slot); /* until when, of rows here */
    /* Of a locked row: it is about to change (*word: afterwards; or an error); it has changed, and is
     * watched. */
    int (*push_row)(struct tide_table *table, uint64_t key, uint64_t *word);
    uint64_t (*row_changed)(struct tide_table *table, uint64_t key, uint64_t word, const void *delta);
    /* A missed operation counts in the key's word (locked) until the store actor has it; false: the
     * count is full. And some that will not be sent after all. */
    bool (*hand_over)(struct tide_table *table, atomic_uint_fast64_t *word, uint64_t old);
    void (*take_back)(struct tide_table *table, const void *keys, const uint32_t *positions, size_t count);
    uint16_t (*where)(struct tide_table *table, uint64_t key);
    uint16_t (*first_copy)(const struct tide_table *table, uint32_t slot);
    /* ---- I/O thread 0 ---- */
    void (*job)(struct tide__job *job); /* nothing of it is left to do when it returns */
    /* An own operation comes back from `from`. False: it was answered meanwhile. */
    bool (*returned)(struct tide_store *store, struct tide__job *job, uint16_t from);
    void (*answered)(struct tide_table *table); /* an operation that others wait for */
    /* Pushes are answered before copies have them: to a node (true: the answer says so), by a home. */
    bool (*given)(struct tide_table *table, uint16_t origin, size_t count);
    void (*taken)(struct tide_table *table, uint16_t home, size_t count);
    /* All rows of a slot go to another home, or become initial ones. NULL: as in a plain table. */
    int (*slot_send)(struct tide_table *table, uint32_t slot, uint16_t to);
    void (*slot_clear)(struct tide_table *table, uint32_t slot);
    /* A slot has a new home: no operation waits any more for an answer from a former one; own operations may
     * run again; and what the calls before decided goes out. */
    void (*slot_settled)(struct tide_table *table, uint32_t slot);
    void (*slot_opens)(struct tide_table *table, uint32_t slot);
    void (*finish)(struct tide_table *table);
};

struct tide__hot_table; /* hot_keys.h */
static inline struct tide__hot_table *tide__hot_of(struct tide_table *table) {
    return atomic_load_explicit(&table->shared, memory_order_acquire); /* with its creation */
}

/* Hot keys: copies on the nodes that use them (hot_keys.h). */
struct tide__hot_operations {
    /* ---- any thread ---- */
    /* A worker's pull or push: what copies have is done, the rest as without copies. */
    int (*operate)(struct tide_table *table, struct tide__pass *pass, enum tide__kind kind, struct tide__ticket *ticket,
                   bool wait);
    bool (*read)(struct tide_table *table, uint64_t key, float *out); /* false: no copy to read */
    bool (*stays)(struct tide_table *table, uint64_t key);            /* not to be localized */
    /* A row of this node changes, or leaves; its word is locked. `changer`: the node whose copy has
     * the change already, 0: none. */
    void (*changed)(struct tide_table *table, uint64_t key, uint16_t changer);
    /* ---- I/O thread 0 ---- */
    int (*subscribe)(const struct tide__job *job);              /* all keys that are served here */
    bool (*resubscribe)(struct tide__job *job, uint32_t index); /* true: its row goes back */
};

/* A row of this node changes, or leaves; its word is locked. As `changed`; `made`: it had no word that its
 * readers lock. */
static inline void tide__row_changes(struct tide_table *table, uint64_t key, uint16_t changer, bool made) {
    if (TIDE_UNLIKELY(made) && table->store->net && !table->relocates) {
        /* Of this and that of subscribe() one is the later one, and sees what was done before the
         * other. */
        atomic_fetch_add_explicit(&table->made_or_subscribed, 1, memory_order_acq_rel);
    }
    if (TIDE_UNLIKELY(tide__hot_of(table))) {
        table->hot->changed(table, key, changer);
    }
}

#endif
