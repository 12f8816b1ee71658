/* Errors, messages, nodes and actors: the part of the runtime that needs no tables (libtide-actor). See tide.h. */
#ifndef TIDE_PUBLIC_ACTOR_H
#define TIDE_PUBLIC_ACTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TIDE_VERSION "0.1.0"
#define TIDE_PROTOCOL 7u /* version of the wire; nodes of different versions refuse each other */

#define TIDE_NEVER UINT64_MAX
#define TIDE_SECOND UINT64_C(1000000000)
#define TIDE_CALL_TIMEOUT (30 * TIDE_SECOND) /* default deadline of a call */

/* Waits are counted below 1, 2, 4, ... us; in the last bucket all longer ones (from 67 s). */
enum { TIDE_WAIT_BUCKETS = 28 };

/* ---- Errors -------------------------------------------------------------------------------------------------- */

enum {
    TIDE_EINVAL = -10001,       /* the caller's mistake: a bad argument */
    TIDE_ENOMEM = -10002,       /* out of memory, or a configured memory limit reached */
    TIDE_EBUSY = -10003,        /* mailbox, credit or queue full; try again later */
    TIDE_ETIMEDOUT = -10004,    /* the deadline passed */
    TIDE_EUNREACHABLE = -10005, /* no route: node unknown or not connected */
    TIDE_EDIED = -10006,        /* the actor or its node died before it answered */
    TIDE_EREFUSED = -10007,     /* the callee answered with an error */
    TIDE_ECANCELED = -10008,    /* cancelled by its owner */
    TIDE_ENOENT = -10009,       /* no such name, table, file, actor */
    TIDE_EEXIST = -10010,       /* the name is taken */
    TIDE_EFULL = -10011,        /* a declared limit (key_limit, slots of an index) is reached */
    TIDE_EPROTO = -10012,       /* the peer sent bytes that are not ours */
    TIDE_ELIMIT = -10013,       /* a decoder limit: frame, depth, count */
    TIDE_ERANGE = -10014,       /* key or index out of range */
    TIDE_EIO = -10015,          /* the operating system failed a read or write */
    TIDE_ENOSPC = -10016,       /* no space left on the device */
    TIDE_EPERM = -10017,        /* credentials missing or not enough */
    TIDE_EVERSION = -10018,     /* peer or file of another version */
    TIDE_EMISMATCH = -10019,    /* cluster name, script hash or shape differs */
    TIDE_ENAN = -10020,         /* a push with a NaN or infinity, and the table refuses them */
    TIDE_EADDRINUSE = -10021,   /* the listening address is taken */
    TIDE_ECLOSED = -10022,      /* connection, node or table is closing */
    TIDE_EUNSUPPORTED = -10023, /* not in this build, or not on this table */
    TIDE_EKILLED = -10024,      /* exit reason: killed from outside */
    TIDE_ECRASHED = -10025,     /* exit reason: script error or handler failure */
    TIDE_ELOST = -10026,        /* the rows, and all copies there were of them, died with their nodes */
    TIDE_EFENCED = -10027,      /* this node was declared dead: it may neither read nor write any more */
    TIDE_ENOREPLICA = -10028,   /* copies are wanted and no other node may hold them */
    TIDE_EACCES = -10029,       /* the operating system does not permit it: a file, a directory, a socket */
    TIDE_EMFILE = -10030,       /* out of file descriptors */
};

/* "EBUSY" for TIDE_EBUSY; "E?" for an unknown code. Any thread. */
const char *tide_error_name(int code);
/* The text of the last failure on this fiber (on this thread outside of fibers); never NULL. Valid until the next. */
const char *tide_error_message(void);
/* Sets code and text of the calling fiber's error slot; returns code, so that `return tide_fail(...)` reads well. */
int tide_fail(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same with EBUSY, and after how many milliseconds it is worth to try again. */
int tide_fail_busy(uint32_t retry_after_ms, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Of the last failure, if it was EBUSY and said so; else 0. */
uint32_t tide_error_retry_after_ms(void);

/* ---- Messages ------------------------------------------------------------------------------------------------ */

/* node 16 bits | id 48, printed as "node:id". A node gives each id once; what is in it (thread 8 bits | generation 18 |
 * index 22) only that node reads. */
typedef uint64_t tide_address;
#define TIDE_NOBODY ((tide_address)0)

static inline uint16_t tide_address_node(tide_address a) {
    return (uint16_t)(a >> 48);
}
static inline uint64_t tide_address_id(tide_address a) {
    return a & UINT64_C(0xffffffffffff);
}

/* What a peer may do here: of people each one more than the one before; of nodes what members need and people do not.
 * On one machine a user's own processes have what they ask for; from other machines a certificate says it. */
enum tide_right { TIDE_RIGHT_NONE, TIDE_RIGHT_READ, TIDE_RIGHT_OPERATE, TIDE_RIGHT_ADMIN, TIDE_RIGHT_NODE };

/* Lanes order and bound traffic; the store lane is one FIFO from origin to handler. */
enum tide_lane {
    TIDE_LANE_SYSTEM,  /* heartbeats, credits, membership */
    TIDE_LANE_ANSWER,  /* replies and errors; as SYSTEM, blocks neither on credit nor on a mailbox */
    TIDE_LANE_STORE,   /* pull, push and all that orders them */
    TIDE_LANE_CONTROL, /* jobs, policies, consoles, user messages (default) */
    TIDE_LANE_BULK,    /* snapshots, large transfers */
    TIDE_LANE_COUNT
};

enum tide_message_kind {
    TIDE_CAST,   /* one way */
    TIDE_CALL,   /* requires tide_reply */
    TIDE_REPLY,  /* answer to tide_call_start */
    TIDE_ERROR,  /* failure of a tide_call_start: code, text in data */
    TIDE_EXIT,   /* a monitored or linked actor ended: from = who, code = reason (0 normal), text in data */
    TIDE_TIMER,  /* tide_timer_start: call = its id */
    TIDE_CANCEL, /* the caller of `call` has cancelled it; an answer is useless now */
    TIDE_STOP,   /* the node or supervisor asks the actor to end in an orderly way */
};

/* What a handler or tide_receive sees. `data` is one msgpack value (or text, where said above). Read only. */
struct tide_message {
    tide_address from;
    tide_address to;
    uint64_t call; /* id of a call, reply, error, cancel, timer or monitor; else 0 */
    const uint8_t *data;
    uint32_t size;
    int32_t code;
    uint8_t kind;  /* enum tide_message_kind */
    uint8_t lane;  /* enum tide_lane */
    uint8_t right; /* enum tide_right of a sender that is a client; 0: an actor of the cluster's nodes */
};

/* Bytes shared by reference count; the tail of a large message is sent from it without a copy. */
struct tide_blob {
    void *data;
    size_t size;
    void (*release)(struct tide_blob *blob); /* frees data and blob, called once, when the last count is dropped */
    uint32_t refs;                           /* atomic; start at 1 */
};
/* A blob with `size` bytes of its own memory and one reference; NULL when out of memory. Any thread. */
struct tide_blob *tide_blob_create(size_t size);
struct tide_blob *tide_blob_ref(struct tide_blob *blob);
void tide_blob_unref(struct tide_blob *blob);

/* ---- Nodes --------------------------------------------------------------------------------------------------- */

/*
 * Option structs begin with their size, so a program runs on a newer library: fields that it lacks have defaults.
 * TIDE_..._OPTIONS_INIT sets it: `struct tide_node_options o = {TIDE_NODE_OPTIONS_INIT, .name = "a"};`. 0 is
 * the size of the first such layout (SOVERSION 1). EVERSION: the program sets a field that this library does not have.
 */

struct tide_node;

#define TIDE_NODE_OPTIONS_INIT .size = sizeof(struct tide_node_options)
struct tide_node_options {
    size_t size; /* of this struct; 0: its first layout */
    const char
        *cluster;     /* identifier; default "local", and of a client whatever the cluster at the endpoint is called */
    const char *name; /* identifier, unique in the cluster; default "n<id>" given by the controller */
    const char
        *listen;      /* "unix:PATH" or "tcp:ADDRESS:PORT"; addresses of other machines need keys. NULL: a Unix socket
                         in the user's run directory, or with a `join` on another machine the address that leads there */
    const char *keys; /* directory of a credential (`tide keys`): links with other machines are TLS by it; its cluster
                         is the default of `cluster`. NULL: this machine only */
    unsigned right;   /* client: enum tide_right that it asks for; 0: admin, as far as it may */
    const char *join; /* endpoint of any member; NULL: this node is the controller */
    const char
        *state; /* controller: directory of its decisions; started again with it, it continues. NULL: none is kept */
    unsigned controllers; /* first node: 3 or 5 members hold the controller's decisions, and another one takes over
                             when it ends; 0: none does. EUNSUPPORTED without the plugin tide_raft.so */
    unsigned workers;     /* compute threads; default 1. 0 with `no_store` is a pure controller or console */
    bool no_store;        /* holds no parameter slots */
    bool client;          /* attaches without becoming a member (consoles, status) */
    uint64_t seed;        /* of the random streams; 0: from the operating system */
    void *loop;           /* host's uv_loop_t that runs the node's I/O; NULL: a thread of its own */
    const void *port;     /* struct tide_port; NULL: the real one. The simulator passes its own */
    uint64_t queue_limit; /* bytes of operations on rows of other nodes (keys and rows, both ways) that this node may
                             have in flight at one time; beyond it fibers wait and handlers get EBUSY. An operation
                             that is larger goes alone. 0: no limit but each home's 4 MiB */
    uint64_t memory;  /* cap on what the runtime holds for the cluster on this node (tables, queues), bytes: near it the
                         node grants less, then takes no rows (docs/guides/faults.md). 0: none. EINVAL: below 32 MiB, or
                         more than the machine has */
    uint64_t silence; /* ns without a sign of life after which another node may be declared dead; what the cluster's
                         first node says counts for those that join it. 0: that; by default 10 s with other machines,
                         else 0.8 s and more where processes stall, and 10 s while the silent process exists */
    double rate_operations, rate_bytes; /* a second, of what this node asks of others: beyond it fibers wait and
                                           handlers get EBUSY. 0: any number. EINVAL: negative or not finite */
};

/*
 * Creates the node, its threads and its listener, and joins (returns when joined, or fails after 10 s).
 * With `loop` set, returns before joining; the caller runs the loop. Call outside, on the loop's thread.
 * Errors: EADDRINUSE, EPERM (address that needs credentials), EUNREACHABLE, EVERSION, EMISMATCH, EEXIST (name).
 */
int tide_node_create(const struct tide_node_options *options, struct tide_node **out);
/* Leaves the cluster (slots are handed on) within `timeout`, ends all actors, joins the threads, frees everything.
 * Outside. An actor that never returns keeps its thread, and the node's memory: 20 s after it was killed that is given
 * up, and logged. */
void tide_node_destroy(struct tide_node *node, uint64_t timeout);
uint16_t tide_node_id(const struct tide_node *node);
const char *tide_node_name(const struct tide_node *node);
/* Where others reach this node: the listener's endpoint with the port that was really bound. */
const char *tide_node_endpoint(const struct tide_node *node);
/* The node of the calling actor; NULL outside. */
struct tide_node *tide_node_current(void);
/* Monotonic time of the node, ns. Any thread. */
uint64_t tide_node_now(const struct tide_node *node);

/* ---- Actors -------------------------------------------------------------------------------------------------- */

/* Handles one message on the actor's thread; must not block. Negative return: the actor crashes with that reason. */
typedef int (*tide_handler)(void *state, const struct tide_message *message);
/* Body of a fiber actor; may block in tide_call, tide_receive, tide_sleep, table calls. Its return is the exit reason.
 */
typedef int (*tide_fiber_main)(void *state);

/* DISK: what waits for files. EXCHANGE: gradients of workers. A node without such a thread (a client) runs both on the
 * control thread. */
enum tide_role { TIDE_ROLE_IO, TIDE_ROLE_COMPUTE, TIDE_ROLE_CONTROL, TIDE_ROLE_DISK, TIDE_ROLE_EXCHANGE };

/* How an actor's `look` is called, on its thread: */
enum tide_look_how {
    TIDE_LOOK_RESTS, /* by a fiber of another actor, or by one of its own in tide_look_here */
    TIDE_LOOK_ASKS,  /* in a signal's handler, while one of its fibers runs: it may see to tide_look_here: EBUSY */
    TIDE_LOOK_FORCED /* the same, with what can be read in the middle of anything */
};

#define TIDE_ACTOR_OPTIONS_INIT .size = sizeof(struct tide_actor_options)
struct tide_actor_options {
    size_t size;         /* of this struct; 0: its first layout */
    const char *name;    /* registered on this node, or NULL */
    const char *type;    /* shown by introspection: "shard", "worker"; static string */
    tide_handler handle; /* either handle ... */
    tide_fiber_main run; /* ... or run */
    void *state;         /* *takes*: released by `release` when the actor has ended */
    void (*release)(void *state);
    void (*interrupt)(void *state); /* see tide_interrupt; like a signal's handler. NULL: it cannot be */
    int (*look)(void *state, enum tide_look_how how, char *out, size_t size); /* see tide_look; NULL: no description */
    size_t stack_bytes;    /* fibers: default 256 KiB; 1 MiB where Lua runs */
    uint32_t messages_max; /* mailbox bound; default 4096 */
    uint32_t bytes_max;    /* mailbox bound; default 16 MiB */
    uint8_t role;          /* enum tide_role */
    uint8_t thread;        /* which thread of that role, modulo their number */
    tide_address link;     /* linked to this actor from the start, or TIDE_NOBODY */
    uint8_t opens;         /* enum tide_right that a client has at least to send here; 0: nodes only */
};

/*
 * "Inside" below: for an actor, in its handler or on its fiber. A call made at another place returns EINVAL, and one
 * without a result does nothing; tide_error_message() says which call it was.
 */
/* Starts an actor on `node`. Any thread. Errors: ENOMEM, EEXIST (name), ECLOSED (node stopping), EFULL. */
int tide_spawn(struct tide_node *node, const struct tide_actor_options *options, tide_address *out);
/* Address of the calling actor. Inside. */
tide_address tide_self(void);
/* Ends the calling handler actor after this message, or unwinds nothing: a fiber simply returns. Inside. */
void tide_exit(int reason);
/* Counts a message that the calling actor refuses (tide_actor_info.messages_refused). Inside. */
void tide_refused(void);
/* From now on clients of this right, or a greater one, may send to the calling actor. Inside. */
void tide_open(enum tide_right right);
/* Asks another actor to end: reason EKILLED ends it at its next message or suspension. Any actor, any node. Inside. */
int tide_kill(tide_address who, int reason);
/*
 * Calls the `interrupt` of an actor of this node, on its thread, if that runs a fiber of it at this moment: a fiber
 * that computes gets nothing else. What it finds there may be in the middle of anything. Once a call at most:
 * repeat it. ENOENT: the actor has ended; EUNSUPPORTED: not in the simulator. Fibers and handlers.
 */
int tide_interrupt(tide_address who);
/*
 * What an actor of this node does at this moment, while it does it: text that its `look` writes to `out`, which it
 * returns the length of. `look` allocates nothing and waits for nothing: it may run in a signal's handler. An actor
 * whose thread does not come back to its scheduler is interrupted. ENOENT: the actor has ended; EUNSUPPORTED: it
 * reports nothing; ETIMEDOUT: its thread does not answer within half a second. Fibers.
 */
int tide_look(tide_address who, char *out, size_t size);
/* From a fiber of the actor that was asked by TIDE_LOOK_ASKS: now it can answer. */
void tide_look_here(void);

/*
 * Send. Body: one msgpack value, copied. A fiber waits while the target's mailbox or the link's credit is full;
 * a handler gets TIDE_EBUSY and nothing is sent. Order is kept per sender, receiver and lane. Inside.
 * A message to an actor that is gone disappears (monitor it to know). Errors: EBUSY, EUNREACHABLE, ELIMIT.
 */
int tide_send(tide_address to, enum tide_lane lane, const void *data, size_t size);
/* The same; the body is `data` followed by `tail` (*shares*: one reference is kept until it is on the wire). Without
 * data nothing is copied on the way to an actor of this node either. */
int tide_send_blob(tide_address to, enum tide_lane lane, const void *data, size_t size, struct tide_blob *tail);
/* From outside the node; never waits. EBUSY: the mailbox is full, counting what is in flight to it. */
int tide_post(struct tide_node *node, tide_address to, const void *data, size_t size);

struct tide_reply; /* an answer owned by the caller */
/*
 * Call and wait (fibers only). timeout: ns from now. *gives* the answer; free with tide_reply_free.
 * Three failures are distinguished: EUNREACHABLE (no route), EDIED (it or its node ended), and the callee's own error:
 * the code it gave to tide_answer_error, EREFUSED if it gave none of its own, text in tide_error_message. Also
 * ETIMEDOUT, ECANCELED, EBUSY.
 */
int tide_call(tide_address to, const void *data, size_t size, uint64_t timeout, struct tide_reply **out);
const void *tide_reply_data(const struct tide_reply *reply, size_t *size);
void tide_reply_free(struct tide_reply *reply);
/* Call without waiting (handlers): TIDE_REPLY or TIDE_ERROR arrives later with this id in `call`. */
int tide_call_start(tide_address to, const void *data, size_t size, uint64_t timeout, uint64_t *id);
/* Cancels a call; the callee gets TIDE_CANCEL. */
void tide_call_cancel(uint64_t id);
/* Answer a TIDE_CALL, now or later, from the actor that received it. ENOENT: its caller is gone or was answered. */
int tide_answer(tide_address from, uint64_t call, const void *data, size_t size);
int tide_answer_error(tide_address from, uint64_t call, int code, const char *text);

/* Next message of a fiber actor; waits until `deadline` (absolute). *gives*; free with tide_message_free. ETIMEDOUT. */
int tide_receive(uint64_t deadline, const struct tide_message **out);
void tide_message_free(const struct tide_message *message);
/* Suspends the fiber. ECANCELED when the actor is being killed. */
int tide_sleep(uint64_t duration);
/* Lets other work of this thread run; a long computation on a shared thread calls it now and then. */
int tide_yield(void);
/* The same for other actors alone: until this fiber continues, no other one of its actor runs, so that what it does
 * between two waits is one step for them. */
int tide_yield_to_actors(void);

/* Monitor: TIDE_EXIT with call = id arrives when `who` ends (at once if it is gone). Link: also kills this actor when
 * `who` ends with a reason other than 0, and the other way round. Inside. */
int tide_monitor(tide_address who, uint64_t *id);
void tide_demonitor(uint64_t id);
int tide_link(tide_address who);
void tide_unlink(tide_address who);
/* With trap on, a linked actor's end arrives as TIDE_EXIT instead of ending this one. */
void tide_trap_exits(bool on);

/* One-shot timer of the calling actor: TIDE_TIMER with call = id. */
int tide_timer_start(uint64_t delay, uint64_t *id);
void tide_timer_cancel(uint64_t id);

/* Names are identifiers of up to 63 characters, unique on a node. */
int tide_register(struct tide_node *node, const char *name, tide_address who);
/* Finds "name" here, or "node/name" there (fibers only, asks that node). ENOENT, EUNREACHABLE. */
int tide_whereis(struct tide_node *node, const char *name, tide_address *out);
/* Finds "name" on this node, else on any node of its cluster that is up (fibers only). ENOENT: on none. */
int tide_lookup(struct tide_node *node, const char *name, tide_address *out);

enum tide_restart { TIDE_PERMANENT, TIDE_TRANSIENT, TIDE_TEMPORARY };
enum tide_strategy { TIDE_ONE_FOR_ONE, TIDE_REST_FOR_ONE, TIDE_ALL_FOR_ONE };

struct tide_child {
    /* Makes a fresh state for each (re)start; NULL: actor.state is reused and released with the supervisor. */
    int (*start)(void *argument, void **state);
    void *argument;
    enum tide_restart restart;
    struct tide_actor_options actor; /* state and release stay the supervisor's: see start. Last: it may grow */
};

#define TIDE_SUPERVISOR_OPTIONS_INIT                                                                                   \
    .size = sizeof(struct tide_supervisor_options), .child_size = sizeof(struct tide_child)
struct tide_supervisor_options {
    size_t size;       /* of this struct; 0: its first layout */
    size_t child_size; /* of struct tide_child; 0: its first layout */
    const char *name;
    enum tide_strategy strategy;
    uint32_t restarts_max;             /* more than this many restarts ... default 3 */
    uint64_t period;                   /* ... in this time end the supervisor; default 5 s */
    uint64_t backoff;                  /* delay of a second restart, doubling up to 5 s; default 100 ms */
    const struct tide_child *children; /* copied */
    size_t child_count;
    uint8_t role;
    tide_address link;
};
/* An actor that starts its children in order, restarts them by strategy, and stops them in reverse. */
int tide_supervise(struct tide_node *node, const struct tide_supervisor_options *options, tide_address *out);

/* Introspection of one actor; a copy that is consistent per field only. */
struct tide_actor_info {
    tide_address address;
    char name[64];
    char type[24];
    char waits_for[112]; /* what a suspended fiber waits for: "receive", "call n2:77", "pull factors", of a table with
                            clocks "pull factors, key 37 of n2 at clock 5"; "" when not */
    uint64_t waits_since;
    uint64_t messages_handled;
    uint64_t messages_refused; /* see tide_refused */
    uint64_t handling_ns;
    uint32_t mailbox_messages;
    uint32_t mailbox_bytes;
    uint8_t role;
    uint8_t thread;
    bool fiber;
};
/* Fills up to `limit` entries; returns how many actors there are. Any thread. */
size_t tide_actors(struct tide_node *node, struct tide_actor_info *out, size_t limit);

/* How often actors of a type have held an I/O thread (of tables: the store's) longer than 50 us, or the control thread
 * longer than 100 ms, with one message or between two waits of a fiber. Time of other processes counts. */
struct tide_slow_handler {
    char type[24];
    uint8_t role;
    uint64_t count, total_ns, longest_ns;
};
/* Fills up to `limit` entries and returns how many; a thread has at most 8. Any thread. */
size_t tide_slow_handlers(struct tide_node *node, struct tide_slow_handler *out, size_t limit);

#ifdef __cplusplus
}
#endif
#endif
