/* The store of a node: all its tables, and what they share. */
#ifndef TIDE_STORE_NODE_STORE_H
#define TIDE_STORE_NODE_STORE_H

#include "store/core/admission.h"
#include "store/core/clock.h"
#include "store/core/pressure.h"
#include "store/core/table.h"
#include "store/operation/pending.h"

struct tide__catalog;

struct tide_store {
    /* constant after creation */
    const struct tide__technique *const
        *techniques;                       /* technique.h: by enum tide__technique_number; NULL ends the list */
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
    atomic_uint forgetting;                                /* tables that do (forget.h) */
    struct tide__pending_table pending;
    struct tide_lock runs_lock;       /* clock.h; of the list, and of how many hold a run */
    _Atomic(struct tide__run *) runs; /* taken out by the I/O thread */
    atomic_bool runs_unheld;          /* some */
    struct tide__admission admission;
    struct tide_budget budget;
    atomic_uint_fast64_t replies_unknown, malformed;
    struct tide_random yields;             /* simulator only: one OS thread */
    atomic_bool members_missed;            /* the word of a change did not fit the mailbox */
    atomic_int fenced;                     /* this node was declared dead: EFENCED; or left: ECLOSED */
    atomic_uint tiered;                    /* tables with a second tier */
    struct tide__replication *replication; /* replica.h; made with the first table with copies */
    atomic_uint_fast64_t serve_ns;         /* what a key of others takes besides its work: load.c */

    /* I/O thread */
    struct tide__dropping *dropping; /* table_drop.c */
    bool tables_removed;             /* since the last generation: the next one must be full */
    uint64_t drop_at;                /* when what is dropped is looked at again */
    uint64_t drop_timer;             /* id; 0: none */
    uint64_t hand_at;                /* forget/hand.c: when it looks again */
    atomic_uint_fast64_t busy_ns, served_keys, served_messages; /* load.c; any thread reads */
    uint8_t member_state[65536];                                /* 1 + state, 0: never seen */
    unsigned members_end;  /* above the highest member that was ever seen; clients apart */
    bool told_dead[65536]; /* a home said so: what it still sends of rows is too late */
    struct tide__job *stalled, **stalled_end;
    bool look_again; /* operations that wait for others, of some table */
    bool timer_set;
    uint64_t parked_bytes;
    struct tide__pressure pressure;
    struct tide__catalog *catalog; /* controller */
    struct tide__moves *moves;
    struct tide__generation *generation; /* node_part.c: being written; NULL: none */
    uint32_t cut_sequence;               /* of the newest generation that was announced to this node */
    uint64_t cut_last;                   /* id of the last one it wrote; 0: none */
    bool leaving;                        /* this node: localizes nothing any more */
    bool drained;                        /* and reported to the controller that it owns nothing of others */
    uint64_t leader_term;                /* of the controller that was notified */
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
/* A call of the controller's store by a fiber. While the controller is away, and another one or the same is to
 * come, it is waited for; `patient`: also while it says that it is busy. So it may be asked twice. */
int tide__ask_controller(struct tide_store *store, enum tide__op op, const union tide__message *m, bool patient);
uint16_t tide__store_learn_self(struct tide_store *store);
static inline uint16_t tide__store_self(struct tide_store *store) {
    const unsigned self = atomic_load_explicit(&store->self, memory_order_relaxed);
    return TIDE_LIKELY(self) ? (uint16_t)self : tide__store_learn_self(store);
}
bool tide__store_is_controller(struct tide_store *store);
/* The store actor, which alone may send and set timers, is to look at the members, at the controller,
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
