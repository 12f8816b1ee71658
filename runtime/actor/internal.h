/*
 * Inside the actor room: schedulers, actors, fibers, messages.
 *
 * Ownership by thread. Everything in a scheduler, its actors and its fibers belongs to the scheduler's thread, except
 *   - `inbox`: a stack that any thread pushes and the owner takes whole (order restored by reversal),
 *   - `freed`: messages of this scheduler's pool that other threads are done with,
 *   - actor slots' `id`, mailbox counters and introspection fields: atomic, written by the owner, read by any,
 *   - the slot free list and names of actors: under `slots_lock` (spawning from another thread is allowed).
 * Actor slots and fibers are type-stable: they are recycled, never freed, so a stale pointer or address is harmless.
 */
#ifndef TIDE_ACTOR_INTERNAL_H
#define TIDE_ACTOR_INTERNAL_H

#include "actor/actor.h"
#include "actor/context.h"
#include "base/limits.h"

enum {
    SCHEDULERS_MAX = 256,
    SLOT_CHUNK = 1024,
    INDEX_BITS = 22, /* of an address: the slot */
    GENERATION_BITS = 18,
    SLOT_CHUNKS_MAX = (1 << INDEX_BITS) / SLOT_CHUNK,
    MESSAGE_CLASSES = 3,
};

/* ---- messages ---- */

enum message_op {
    OP_MESSAGE, /* deliver `in` to the mailbox of in.to */
    OP_REPLY,   /* complete the pending call in.call of in.to (in.kind: TIDE_REPLY or TIDE_ERROR) */
    OP_MONITOR, /* in.from watches in.to under id in.call */
    OP_DEMONITOR,
    OP_LINK,
    OP_UNLINK,
    OP_EXIT,      /* in.from ended: monitor in.call, or the link when 0 */
    OP_KILL,      /* end in.to with in.code */
    OP_CANCEL,    /* the caller in.from cancelled in.call */
    OP_START,     /* make a spawned fiber actor runnable */
    OP_WAKE,      /* embedded in a fiber */
    OP_ROOM,      /* `fiber` waits until the mailbox of in.to has room for a message of in.size bytes */
    OP_OUTGOING,  /* hand `out` to the route */
    OP_TASK,      /* run `task` */
    OP_TASK_DONE, /* `task` has run */
    OP_NODE_DOWN, /* node in.call ended with in.code */
    OP_STOP,      /* embedded in a scheduler. Its stop phase: in.code = enum stop_phase */
};

struct message {
    struct message *next;
    union {
        struct tide_message in;
        struct tide_outgoing out;
    } u;
    struct scheduler *pool;  /* whose slab it came from; NULL: heap */
    struct tide_blob *owner; /* keeps data alive, or NULL: data is inline */
    struct tide_credit_account *account;
    union {
        struct tide_fiber *fiber; /* OP_WAKE, OP_ROOM; else NULL */
        struct tide_task *task;   /* OP_TASK, OP_TASK_DONE */
        uint64_t queued_at;       /* OP_MESSAGE: when it was sent or arrived, while a tap is open; else 0 */
    };
    uint32_t credit_bytes;
    uint8_t size_class;
    uint8_t op;
    bool posted; /* from outside: counted in the actor's `posted` until it is in the mailbox */
};
static inline unsigned char *message_bytes(struct message *message) {
    return (unsigned char *)(message + 1);
}

struct message *message_create(struct scheduler *pool, size_t inline_bytes); /* pool NULL: any thread */
void message_destroy(struct message *message);
void message_pool_flush(struct scheduler *s); /* give other pools' messages back */
void message_pool_release(struct scheduler *s);
static inline struct message *message_of(const struct tide_message *in) {
    return TIDE_CONTAINER(in, struct message, u.in);
}

/* ---- timers ---- */

struct timer {
    uint64_t when;
    void (*fire)(struct scheduler *s, struct timer *timer);
    uint32_t position; /* in the heap, from 1; 0: not armed */
};
void timer_arm(struct scheduler *s, struct timer *timer, uint64_t when);
void timer_disarm(struct scheduler *s, struct timer *timer);
void timers_fire(struct scheduler *s, uint64_t now);

/* ---- calls in flight ---- */

struct pending_call {
    struct timer deadline;
    struct pending_call *next; /* of its hash chain */
    uint64_t id;
    tide_address caller, callee;
    struct tide_fiber *fiber; /* waits for it; NULL: the answer goes to the mailbox */
    struct message *answer;
    bool done;
};

/* A call an actor received and has not answered. */
struct open_call {
    struct open_call *next;
    tide_address from;
    uint64_t call;
};

/* ---- relations: monitors and links, one record at each side ---- */

enum relation_kind { WATCHES, WATCHED_BY, LINKED };
struct relation {
    struct relation *next;
    tide_address peer;
    uint64_t id;
    uint8_t kind;
};

struct actor_timer {
    struct timer timer;
    struct actor_timer *next;
    struct actor *actor;
    uint64_t id;
};

/* ---- fibers ---- */

enum { FIBER_RUNNING, FIBER_WOKEN, FIBER_SUSPENDED };
struct tide_fiber {
    struct context context;
    struct actor *actor;
    struct tide_fiber *next;       /* of the actor's fibers, or of the free list */
    struct tide_fiber *ready_next; /* of the actor's ready list */
    struct timer deadline;
    struct message wake; /* pushed to the inbox by another thread's wake */
    atomic_int state;
    void (*run)(void *arg);
    void *arg;
    _Atomic(const char *) waits_for;
    atomic_uint_fast64_t waits_key;      /* the row, */
    atomic_uint waits_clock, waits_node; /* its clock, and from which node; 0: unknown */
    atomic_uint_fast64_t waits_since;
    uint32_t cancelled_suspends;
    uint32_t number;   /* of the scheduler's fibers, from 1, in traces */
    uint64_t labelled; /* where the trace last had its label */
    char title[24];    /* of the fiber's work, for traces; "": the actor's */
    bool ended, receiving, main, timed_out, cancelled;
    struct tide_fiber_local *local;
    struct tide_error_slot error;
    enum tide_memory_use memory; /* while it does not run */
    /* watch.c: acts of its scheduler when it was resumed; how often since it suspended for the same without one */
    uint64_t acts, idle_since;
    const char *idle_for;
    uint32_t idle_count;
    bool idle_timed; /* a deadline was one of them */
};
void fiber_resume(struct scheduler *s, struct tide_fiber *fiber); /* until it suspends or ends */
int fiber_create(struct scheduler *s, struct actor *actor, void (*run)(void *), void *arg, size_t stack,
                 struct tide_fiber **out);
void fiber_recycle(struct scheduler *s, struct tide_fiber *fiber);
void fiber_make_ready(struct scheduler *s, struct tide_fiber *fiber);
void fibers_release(struct scheduler *s);

/* ---- actors ---- */

struct queue {
    struct message *head, *tail;
};

enum actor_state { ACTOR_FREE, ACTOR_LIVE, ACTOR_ENDING };

struct actor {
    atomic_uint_fast64_t id; /* thread, generation, index; 0 when free */
    struct scheduler *scheduler;
    struct actor *run_next;
    tide_handler handle;
    tide_fiber_main run;
    void *state;
    void (*release)(void *state);
    void (*interrupt)(void *state);
    int (*look)(void *state, enum tide_look_how how, char *out, size_t size);
    struct queue urgent, normal, bulk; /* system lane; answer, store and control; bulk */
    struct tide_fiber *fibers, *ready_head, *ready_tail;
    struct queue senders; /* OP_ROOM of this node's fibers that wait for room in the mailbox */
    struct relation *relations;
    struct open_call *open_calls;
    struct actor_timer *timers;
    const char *type;
    char *name; /* under slots_lock */
    atomic_uint_fast64_t handled, handling_ns, refused;
    _Atomic(struct tide_tap *) tap; /* set under slots_lock; beside what every message touches */
    atomic_uint mailbox_messages, mailbox_bytes;
    atomic_uint posted_messages, posted_bytes; /* from outside, in flight to the mailbox; begun under slots_lock */
    uint32_t messages_max, bytes_max;
    uint32_t index, generation, next_free, stack_bytes;
    int exit_reason;
    uint8_t lifecycle; /* enum actor_state */
    uint8_t opens;     /* enum tide_right of clients that may send here; 0: none may */
    uint8_t bulk_debt;
    uint8_t share; /* see tide_actor_share */
    bool scheduled, traps, killed, exiting, calls;
    bool preempted; /* the first ready fiber continues before the others (tide_yield_to_actors) */
};
_Static_assert(sizeof(struct actor) <= 384, "an idle actor costs at most 512 bytes with its slot's overhead");

/* ---- schedulers ---- */

enum { RUN_SHARE, RUN_IN_TURN, RUN_LISTS }; /* actors with a share of the thread's time; all others */
enum stop_phase { STOP_ASK = 1, STOP_KILL, STOP_ABANDON, STOP_CLOSE };

/* Timers that one actor has handled in a row without an act of its own (watch.c). */
struct watch_timers {
    const struct actor *actor;
    uint64_t since;
    uint32_t count;
};

/* What held an I/O or the control thread too long, by the actor's type (slow.c). */
enum { SLOW_TYPES = 8, SLOW_LAP = 16, SLOW_EXACT = 128 };
struct slow {
    uint64_t limit, lap; /* in ns, TIDE_NEVER: nothing is measured; when the clock was last read. Owner thread */
    unsigned left;       /* messages until it is read again; where nothing is measured, more than a turn has */
    unsigned exact;      /* so many more are measured one by one */
    struct tide_slow_handler entries[SLOW_TYPES]; /* under slots_lock */
    unsigned count;
};

struct trace;
struct scheduler {
    struct message stops[STOP_CLOSE + 1]; /* by phase: no lack of memory keeps a node from its end */
    /* owner thread */
    struct tide_system *system;
    struct tide_executor *executor;
    struct actor *current;
    struct tide_fiber *current_fiber;
    struct context main_context;
    struct run_list {
        struct actor *head, *tail;
    } run[RUN_LISTS];
    uint64_t owed;  /* ns that actors without a share may run before those with one run again */
    uint64_t spent; /* time of this turn that the clock does not show: of simulated work, ns */
    struct timer **heap;
    uint32_t heap_size, heap_capacity;
    struct pending_call **calls;
    uint32_t call_count, call_capacity;
    uint64_t next_id;
    struct message *free_messages[MESSAGE_CLASSES];
    struct fresh_blocks {
        char *at;
        uint32_t left;
    } fresh[MESSAGE_CLASSES]; /* the newest slab's rest, by class */
    void *message_slabs;
    struct { /* messages of one other pool, waiting to be given back together */
        struct scheduler *target;
        struct message *head, *tail;
        uint32_t count;
    } give_back;
    struct tide_fiber *free_fibers;
    struct context_stack *free_stacks;
    uint32_t free_stack_count;
    uint64_t now;  /* of the turn */
    uint64_t acts; /* messages sent and taken, fibers woken and started: what the watch counts as progress */
    struct watch_timers watch_timers;
    uint32_t idle_turns;
    uint32_t sample, fiber_count;
    uint8_t index, role, stop;
    bool in_turn, closed;
    bool yielded; /* a fiber gave the thread away, or a handler lost it: it has had it for long */

    /* under slots_lock, except that a slot's fields belong to the owner once spawned */
    struct tide_lock slots_lock;
    struct actor **chunks;
    uint32_t slot_count, free_slot;
    struct slow slow;

    /* any thread, atomic */
    _Alignas(64) _Atomic(struct message *) inbox;
    _Alignas(64) _Atomic(struct message *) freed;
    atomic_uint_fast64_t interrupted; /* id of the actor that is to be; 0: none. Read by a signal's handler */
    _Alignas(64) atomic_uint actors_live;
    atomic_bool stopped;           /* closed and empty */
    _Atomic(struct trace *) trace; /* `ring` while it is written to, else NULL */
    struct trace *ring;            /* of the reader of traces; made once */
    _Atomic(struct look *) look;   /* made once; interrupt.c */
};

/* ---- watch.c, while TIDE_WATCHED ---- */
void watch_resumed(const struct scheduler *s, struct tide_fiber *fiber);
bool watch_suspend(const struct scheduler *s, struct tide_fiber *fiber, const char *why);
void watch_timer(struct scheduler *s, struct actor *actor, uint64_t acts);
void watch_turn(struct scheduler *s, bool worked, uint64_t next);

/* ---- trace.c ---- */

/* Now, or 0 while nothing is traced. Owner thread, like what follows. */
uint64_t trace_now(struct scheduler *s);
void trace_activation(struct scheduler *s, const struct actor *actor, uint64_t began);
/* What people call an actor: the title of a fiber of it, its name, or its type and number. */
void actor_label(const struct actor *actor, char *out, size_t size);
void trace_fiber(struct tide_fiber *fiber, uint64_t began, const char *name);

struct name_entry;
struct tide_system {
    struct tide_port *port;
    struct tide_node *node;
    char node_name[64];
    atomic_uint node_id;
    unsigned io, compute, control, disk, exchange, count;
    struct scheduler *schedulers[SCHEDULERS_MAX]; /* io first, then compute, control, disk, exchange */
    struct tide_route route;
    atomic_bool routed, stopping;
    atomic_uint taps; /* open ones of all actors: while there are any, messages carry their time */
    struct tide_lock names_lock;
    struct name_entry *names;
    struct { /* event.c; under lock */
        struct tide_lock lock;
        struct entry *first, *last;
        uint64_t count; /* of all that ever were */
    } events;
};

/* ---- slow.c, owner thread ---- */
void slow_init(struct scheduler *s);
/* Measures what runs next. At the beginning of a turn, and after the thread did something else. */
static inline void slow_begin(struct scheduler *s) {
    s->slow.lap = s->slow.exact > 0 ? tide_port_now(s->system->port) : s->now;
    s->slow.left = s->slow.limit == TIDE_NEVER ? UINT32_MAX : s->slow.exact > 0 ? 1 : SLOW_LAP;
}
void slow_look(struct scheduler *s, const char *type);
/* An actor of the type has handled a message, or a fiber of it has run. */
static inline void slow_lap(struct scheduler *s, const char *type) {
    if (TIDE_UNLIKELY(--s->slow.left == 0)) {
        slow_look(s, type);
    }
}
/* A turn ends. */
static inline void slow_end(struct scheduler *s) {
    if (s->slow.left < SLOW_LAP && s->slow.exact == 0) {
        slow_look(s, NULL);
    }
}

extern _Thread_local struct scheduler *tide__scheduler; /* whose code runs on this thread; NULL outside */

/* Pushes and wakes; any thread. */
void inbox_push(struct scheduler *target, struct message *message);
struct scheduler *scheduler_of(struct tide_system *system, tide_address to); /* NULL: no such thread */
struct actor *actor_find(struct scheduler *s, tide_address who);             /* live or ending; NULL if gone */
struct actor *actor_at(const struct scheduler *s, uint32_t index);           /* likewise, by its slot; any thread */
void actor_schedule(struct scheduler *s, struct actor *actor);
bool scheduler_has_actors(const struct scheduler *s); /* some are to run */
void actor_activate(struct scheduler *s, struct actor *actor);
void actor_end(struct scheduler *s, struct actor *actor, int reason, const char *text);
void actor_kill(struct scheduler *s, struct actor *actor, int reason, const char *text);
void scheduler_start_fiber(struct scheduler *s, struct actor *actor);
/* A thread of the role; of control, then I/O, where the node has none. */
struct scheduler *scheduler_of_role(struct tide_system *system, enum tide_role role, unsigned thread);
void task_run(struct scheduler *s, struct message *message); /* OP_TASK; *takes* */
void actor_slot_return(struct scheduler *s, struct actor *actor);
/* May a client of this right reach the actor? 0: the sender is no client. */
static inline bool actor_opens_to(const struct actor *actor, uint8_t right) {
    return right == TIDE_RIGHT_NONE || (actor->opens != TIDE_RIGHT_NONE && right >= actor->opens) ||
           TIDE_MUTANT(rights_actor_open);
}
void mailbox_push(struct scheduler *s, struct actor *actor, struct message *message);
struct message *mailbox_pop(struct actor *actor);
/* A message of `bytes` has left the mailbox and is done with: counts it, and wakes senders once half is free. */
void mailbox_handled(struct actor *actor, size_t bytes);
/* May this sender that waits for room continue? */
bool mailbox_can_continue(const struct actor *actor, const struct message *sender);
void mailbox_end(struct actor *actor);   /* wakes all senders that wait for room */
void wake_receiver(struct actor *actor); /* one fiber that waits for a message and was not woken for another */
/* Owner thread. */
static inline bool mailbox_has_message(const struct actor *actor) {
    return actor->urgent.head || actor->normal.head || actor->bulk.head;
}
/* Is a message of `size` bytes accepted now? An empty mailbox takes one of any size. Any thread. */
static inline bool mailbox_has_room(const struct actor *actor, size_t size) {
    const uint32_t messages = atomic_load_explicit(&actor->mailbox_messages, memory_order_relaxed);
    const uint32_t bytes = atomic_load_explicit(&actor->mailbox_bytes, memory_order_relaxed);
    return messages == 0 || (messages < actor->messages_max && bytes + size <= actor->bytes_max);
}
bool is_local(const struct tide_system *system, tide_address who);
tide_address actor_address(const struct actor *actor);
/* EINVAL: `call` was made outside of actors; or where there is no fiber that could wait. */
int tide__outside(const char *call);
int tide__no_fiber(const char *call);
int scheduler_create(struct tide_system *system, unsigned index, enum tide_role role);
/* Where the threads of a role begin, and how many there are. */
unsigned tide__role_threads(const struct tide_system *system, enum tide_role role, unsigned *count);
void scheduler_release(struct scheduler *s);
/* Ends all actors without running them: the node crashed in the simulator. */
void scheduler_abandon(struct scheduler *s);
void scheduler_dispatch(struct scheduler *s, struct message *message); /* *takes* */
uint64_t scheduler_turn(void *arg);
bool scheduler_pending(void *arg);

/* Checks limits and room, then sends to a local mailbox or by the route. Inside. */
int actor_send(tide_address to, uint8_t kind, uint8_t lane, uint64_t call, const void *data, size_t size,
               struct tide_blob *tail);
/* Fills and posts an outgoing frame; data is copied, tail shared. ENOMEM, EUNREACHABLE (the node has no net). */
int outgoing_post(struct tide_system *system, const struct tide_outgoing *prototype);
/* Sends op with a short text to a local or remote actor; never refused. `s` NULL: from outside, then local only. */
void signal_send(struct scheduler *s, enum message_op op, tide_address to, tide_address from, uint64_t call, int code,
                 const char *text);
void relation_signal(struct scheduler *s, struct message *message); /* OP_MONITOR .. OP_EXIT */
void relations_end(struct scheduler *s, struct actor *actor, int reason, const char *text);
void relations_node_down(struct scheduler *s, struct actor *actor, uint16_t node, int code, const char *text);
void calls_complete(struct scheduler *s, struct message *message); /* OP_REPLY; *takes* */
void calls_node_down(struct scheduler *s, uint16_t node, int code, const char *text);
void calls_of_actor_end(struct scheduler *s, struct actor *actor);
void open_call_add(struct actor *actor, const struct tide_message *message);
bool open_call_take(struct actor *actor, tide_address from, uint64_t call);
void registry_remove(struct tide_system *system, tide_address who);
int registry_create(struct tide_system *system);
void registry_release(struct tide_system *system);
void events_release(struct tide_system *system);
/* The actor has a tap, or had one a moment ago: counts the message and perhaps copies it; how long it was queued. */
void tap_message(struct scheduler *s, struct actor *actor, struct message *m);
void tap_taken(struct actor *actor, const struct message *m);
void tap_actor_ended(struct actor *actor); /* under slots_lock */

#endif
