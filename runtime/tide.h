/*
 * Tide: an embeddable actor runtime for elastic parameter-server machine learning.
 *
 * This is the one public header. It is enough to run a node inside a host program, to write actors in C,
 * and to create, pull and push parameter tables. docs/embedding.md is the guide.
 *
 * Conventions
 *   Errors     fallible functions return 0 or a negative TIDE_E... code; tide_error_message() tells the story
 *              of the last failure on the calling fiber (or thread).
 *   Ownership  pointers are borrowed for the call unless the comment says *takes*, *gives* or *shares*.
 *   Threads    "inside" = called by an actor of the node (handler or fiber); "outside" = any other thread of the
 *              host; "any" = both. Times are nanoseconds of the node's monotonic clock unless the name says else.
 */
#ifndef TIDE_H
#define TIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TIDE_VERSION "0.1.0"
#define TIDE_PROTOCOL 2u /* version of the wire; nodes of different versions refuse each other */

#define TIDE_NEVER UINT64_MAX
#define TIDE_SECOND UINT64_C(1000000000)
#define TIDE_CALL_TIMEOUT (30 * TIDE_SECOND) /* default deadline of a call */

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

/* node 16 bits | thread 8 | generation 16 | index 24, from the top. Printed as "node:id" with id the lower 48. */
typedef uint64_t tide_address;
#define TIDE_NOBODY ((tide_address)0)

static inline uint16_t tide_address_node(tide_address a) { return (uint16_t)(a >> 48); }
static inline uint64_t tide_address_id(tide_address a) { return a & UINT64_C(0xffffffffffff); }

/* Lanes order and bound traffic; the store lane is one FIFO from origin to handler. */
enum tide_lane {
    TIDE_LANE_SYSTEM,  /* heartbeats, credits, membership */
    TIDE_LANE_ANSWER,  /* replies and errors; never waits for credit */
    TIDE_LANE_STORE,   /* pull, push and all that orders them */
    TIDE_LANE_CONTROL, /* jobs, policies, consoles, user messages (default) */
    TIDE_LANE_BULK,    /* snapshots, large transfers */
    TIDE_LANE_COUNT
};

enum tide_message_kind {
    TIDE_CAST,   /* one way */
    TIDE_CALL,   /* wants tide_reply */
    TIDE_REPLY,  /* answer to tide_call_start */
    TIDE_ERROR,  /* failure of a tide_call_start: code, text in data */
    TIDE_EXIT,   /* a monitored or linked actor ended: from = who, code = reason (0 normal), text in data */
    TIDE_TIMER,  /* tide_timer_start: call = its id */
    TIDE_CANCEL, /* the caller of `call` gave up; answering it is useless now */
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
    uint8_t kind; /* enum tide_message_kind */
    uint8_t lane; /* enum tide_lane */
};

/* Bytes shared by reference count; the tail of a large message is sent from it without a copy. */
struct tide_blob {
    void *data;
    size_t size;
    void (*release)(struct tide_blob *blob); /* frees data and blob, called once by whoever drops the last count */
    uint32_t refs; /* atomic; start at 1 */
};
/* A blob with `size` bytes of its own memory and one reference; NULL when out of memory. Any thread. */
struct tide_blob *tide_blob_create(size_t size);
struct tide_blob *tide_blob_ref(struct tide_blob *blob);
void tide_blob_unref(struct tide_blob *blob);

/* ---- Nodes --------------------------------------------------------------------------------------------------- */

struct tide_node;

struct tide_node_options {
    const char *cluster; /* identifier; default "local" */
    const char *name;    /* identifier, unique in the cluster; default "n<id>" given by the controller */
    const char *listen;  /* "unix:PATH" or "tcp:127.0.0.1:PORT"; NULL: a Unix socket in the user's run directory */
    const char *join;    /* endpoint of any member; NULL: this node is the controller */
    const char *state;   /* controller: directory of its decisions; started again with it, it goes on. NULL: none is kept */
    unsigned controllers; /* first node: 3 or 5 members hold the controller's decisions, and when it ends another one goes
                             on; 0: none does. EUNSUPPORTED without the plugin tide_raft.so */
    unsigned workers;    /* compute threads; default 1. 0 with `no_store` is a pure controller or console */
    bool no_store;       /* holds no parameter slots */
    bool client;         /* attaches without becoming a member (consoles, status) */
    uint64_t seed;       /* of the random streams; 0: from the operating system */
    void *loop;          /* host's uv_loop_t that runs the node's I/O; NULL: a thread of its own */
    const void *port;    /* struct tide_port; NULL: the real one. The simulator passes its own */
    uint64_t queue_limit; /* bytes of operations on rows of other nodes (keys and rows, both ways) that this node may
                             have under way at one time; beyond it fibers wait and handlers get EBUSY. An operation
                             that is larger goes alone. 0: no limit but each home's 4 MiB */
    uint64_t memory; /* cap on what the runtime holds for the cluster on this node (tables, queues), bytes: near it the
                        node grants less, then takes no rows (docs/faults.md). 0: none. EINVAL: below 32 MiB, or more
                        than the machine has */
    double rate_operations, rate_bytes; /* a second, of what this node asks of others: beyond it fibers wait and
                                           handlers get EBUSY. 0: any number. EINVAL: negative or not finite */
};

/*
 * Creates the node, its threads and its listener, and joins (returns when joined, or fails after 10 s).
 * With `loop` set, returns before joining; the caller runs the loop. Call outside, on the loop's thread.
 * Errors: EADDRINUSE, EPERM (address that needs credentials), EUNREACHABLE, EVERSION, EMISMATCH, EEXIST (name).
 */
int tide_node_create(const struct tide_node_options *options, struct tide_node **out);
/* Leaves the cluster (slots are handed on), ends all actors, joins the threads, frees everything. Outside. */
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
/* Body of a fiber actor; may block in tide_call, tide_receive, tide_sleep, table calls. Its return is the exit reason. */
typedef int (*tide_fiber_main)(void *state);

/* DISK: what waits for files. A node without such a thread (a client) runs it on the control thread. */
enum tide_role { TIDE_ROLE_IO, TIDE_ROLE_COMPUTE, TIDE_ROLE_CONTROL, TIDE_ROLE_DISK };

struct tide_actor_options {
    const char *name;       /* registered on this node, or NULL */
    const char *type;       /* shown by introspection: "shard", "worker"; static string */
    tide_handler handle;    /* either handle ... */
    tide_fiber_main run;    /* ... or run */
    void *state;            /* *takes*: released by `release` when the actor has ended */
    void (*release)(void *state);
    size_t stack_bytes;     /* fibers: default 256 KiB; 1 MiB where Lua runs */
    uint32_t messages_max;  /* mailbox bound; default 4096 */
    uint32_t bytes_max;     /* mailbox bound; default 16 MiB */
    uint8_t role;           /* enum tide_role */
    uint8_t thread;         /* which thread of that role, modulo their number */
    tide_address link;      /* linked to this actor from the start, or TIDE_NOBODY */
};

/* Starts an actor on `node`. Any thread. Errors: ENOMEM, EEXIST (name), ECLOSED (node stopping), EFULL. */
int tide_spawn(struct tide_node *node, const struct tide_actor_options *options, tide_address *out);
/* Address of the calling actor. Inside. */
tide_address tide_self(void);
/* Ends the calling handler actor after this message, or unwinds nothing: a fiber simply returns. Inside. */
void tide_exit(int reason);
/* Asks another actor to end: reason EKILLED ends it at its next message or suspension. Any actor, any node. Inside. */
int tide_kill(tide_address who, int reason);

/*
 * Send. Body: one msgpack value, copied. A fiber waits while the target's mailbox or the link's credit is full;
 * a handler gets TIDE_EBUSY and nothing is sent. Order is kept per sender, receiver and lane. Inside.
 * A message to an actor that is gone disappears (monitor it to know). Errors: EBUSY, EUNREACHABLE, ELIMIT.
 */
int tide_send(tide_address to, enum tide_lane lane, const void *data, size_t size);
/* The same; the body is `data` followed by `tail` (*shares*: one reference is kept until it is on the wire). Without
 * data nothing is copied on the way to an actor of this node either. */
int tide_send_blob(tide_address to, enum tide_lane lane, const void *data, size_t size, struct tide_blob *tail);
/* From outside the node; never waits. */
int tide_post(struct tide_node *node, tide_address to, const void *data, size_t size);

struct tide_reply; /* an answer owned by the caller */
/*
 * Call and wait (fibers only). timeout: ns from now. *gives* the answer; free with tide_reply_free.
 * Three failures told apart: EUNREACHABLE (no route), EDIED (it or its node ended), and the callee's own error: the
 * code it gave to tide_answer_error, EREFUSED if it gave none of its own, text in tide_error_message. Also ETIMEDOUT,
 * ECANCELED, EBUSY.
 */
int tide_call(tide_address to, const void *data, size_t size, uint64_t timeout, struct tide_reply **out);
const void *tide_reply_data(const struct tide_reply *reply, size_t *size);
void tide_reply_free(struct tide_reply *reply);
/* Call without waiting (handlers): TIDE_REPLY or TIDE_ERROR arrives later with this id in `call`. */
int tide_call_start(tide_address to, const void *data, size_t size, uint64_t timeout, uint64_t *id);
/* Gives up a call; the callee is told by TIDE_CANCEL. */
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

enum tide_restart { TIDE_PERMANENT, TIDE_TRANSIENT, TIDE_TEMPORARY };
enum tide_strategy { TIDE_ONE_FOR_ONE, TIDE_REST_FOR_ONE, TIDE_ALL_FOR_ONE };

struct tide_child {
    struct tide_actor_options actor; /* state and release stay the supervisor's: see start */
    /* Makes a fresh state for each (re)start; NULL: actor.state is reused and released with the supervisor. */
    int (*start)(void *argument, void **state);
    void *argument;
    enum tide_restart restart;
};

struct tide_supervisor_options {
    const char *name;
    enum tide_strategy strategy;
    uint32_t restarts_max;  /* more than this many restarts ... default 3 */
    uint64_t period;        /* ... in this time end the supervisor; default 5 s */
    uint64_t backoff;       /* delay of a second restart, doubling up to 5 s; default 100 ms */
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
    uint64_t handling_ns;
    uint32_t mailbox_messages;
    uint32_t mailbox_bytes;
    uint8_t role;
    uint8_t thread;
    bool fiber;
};
/* Fills up to `limit` entries; returns how many actors there are. Any thread. */
size_t tide_actors(struct tide_node *node, struct tide_actor_info *out, size_t limit);

/* ---- Tables -------------------------------------------------------------------------------------------------- */

struct tide_table;

enum { TIDE_SLOTS = 4096 }; /* of a table */

enum tide_keys { TIDE_KEYS_DENSE, TIDE_KEYS_HASHED };
enum tide_slots { TIDE_SLOTS_HASH, TIDE_SLOTS_RANGE };
enum tide_init { TIDE_INIT_ZERO, TIDE_INIT_UNIFORM, TIDE_INIT_NORMAL, TIDE_INIT_XAVIER };
enum tide_update { TIDE_UPDATE_ADD, TIDE_UPDATE_ASSIGN, TIDE_UPDATE_SGD, TIDE_UPDATE_ADAGRAD, TIDE_UPDATE_ADAM };
enum tide_wire_type { TIDE_WIRE_F32, TIDE_WIRE_F16, TIDE_WIRE_BF16 };
/* What is done so that an access finds its row on its own node (docs/consistency.md, docs/architecture.md). */
enum tide_technique {
    TIDE_STATIC,    /* nothing: a row stays at the home of its slot */
    TIDE_RELOCATE,  /* the row goes where it is localized */
    TIDE_REPLICATE, /* nodes that use the key have copies, brought together in rounds */
    TIDE_INTENT,    /* the row goes to the one node that intends to use it; if several do, they have copies */
};
/* Do rows leave the homes of their slots? */
static inline bool tide_technique_relocates(uint8_t technique) {
    return technique == TIDE_RELOCATE || technique == TIDE_INTENT;
}
/* What an answered push survives (docs/faults.md). DEFAULT: strict with replicas, else none. */
enum tide_durability {
    TIDE_DURABLE_DEFAULT,
    TIDE_DURABLE_NONE,
    TIDE_DURABLE_STRICT, /* it is on all copies */
    TIDE_DURABLE_WINDOW, /* it is at its home; copies follow within the window, and a death may lose what has not */
};
enum { TIDE_REPLICAS_MAX = 2 };
#define TIDE_WINDOW_NS_MIN UINT64_C(4000000)
#define TIDE_WINDOW_NS_MAX UINT64_C(10000000000)
#define TIDE_WINDOW_BYTES_MIN (UINT64_C(64) << 10)
#define TIDE_WINDOW_BYTES_MAX (UINT64_C(1) << 30)

/*
 * How stale a pulled value may be (docs/consistency.md). What follows is of workers (tide_worker_begin); a fiber that is
 * none always reads and writes the rows at their homes, as in a sequential table. A worker at clock c sees its own pushes
 * and, of all workers,
 */
enum tide_model {
    TIDE_SEQUENTIAL, /* what was pushed before: every access of another node's key is a message */
    TIDE_BSP,        /* exactly the pushes of stamps up to c - 1 */
    TIDE_SSP,        /* at least those up to c - 1 - staleness; a copy is fetched anew when it is too old */
    TIDE_ESSP,       /* the same; every clock, homes push the rows that changed to the nodes that hold copies */
    TIDE_ASYNC,      /* those a copy had that is at most `age_ms` old, or was while a new one is on its way */
    TIDE_VAP,        /* all but updates that together change no value by more than the bound: it is the pushes that wait */
};
struct tide_consistency {
    uint8_t model;       /* enum tide_model */
    bool reproducible;   /* bsp: contributions are summed in the order of workers: the same bits on any number of nodes */
    uint32_t staleness;  /* ssp, essp: at most TIDE_STALENESS_MAX */
    uint32_t age_ms;     /* async; default 50 */
    double bound;        /* vap: the most that a reader may miss of a worker's pushes, in each value of a row */
    bool flat;           /* vap: at every clock; else bound / sqrt(clock + 1) */
};
enum { TIDE_STALENESS_MAX = 60 };
/* Which updates and rows of a table with clocks leave before the clock that closes them, within the
 * bandwidth (docs/consistency.md): none; the largest relative to their row, the oldest, any first. */
enum tide_send_order { TIDE_SEND_AT_CLOCK, TIDE_SEND_MAGNITUDE, TIDE_SEND_AGE, TIDE_SEND_RANDOM };
/* "sequential", "bsp", "bsp:reproducible", "ssp:3", "essp:3", "async", "async:50ms", "vap:0.01",
 * "vap:0.01:flat". EINVAL names what is wrong. */
int tide_consistency_parse(const char *text, struct tide_consistency *out);
enum { TIDE_CONSISTENCY_TEXT = 40 };
void tide_consistency_print(const struct tide_consistency *consistency, char out[TIDE_CONSISTENCY_TEXT]);

/*
 * A table: `width` f32 values a key. Its key space is cut into 4096 slots, each at home on one node. An untouched row
 * is not stored: its initial values are a pure function of (seed, key).
 */
struct tide_table_options {
    const char *name;     /* identifier, unique in the cluster */
    uint8_t keys;         /* enum tide_keys */
    uint8_t slots;        /* enum tide_slots; hashed tables: always by hash */
    uint8_t init;         /* enum tide_init; a, b: uniform [a, b); normal standard deviation a; xavier fan-in a, fan-out b */
    uint8_t update;       /* enum tide_update */
    uint8_t wire;         /* enum tide_wire_type: values on the wire */
    uint8_t technique;    /* enum tide_technique, of keys that are not managed otherwise */
    uint8_t replicas;     /* copies of each row on other nodes, 0..2; technique static only */
    uint8_t durability;   /* enum tide_durability: what an answer to a push promises, see docs/faults.md */
    /* window: pushes are answered at once while all that was answered so long ago is on the copies, and rows with
     * less than so many bytes are not; 0: 50 ms, 64 MiB. TIDE_WINDOW_... bound them. */
    uint64_t window_ns, window_bytes;
    bool refuse_nan;      /* a push with a NaN or infinity fails with ENAN; else it is counted and applied */
    uint64_t key_count;   /* dense: keys 0..key_count-1 */
    uint64_t key_limit;   /* hashed: most keys per node, copies included; EFULL beyond; 0: no limit */
    uint32_t width;
    float init_a, init_b;
    /* sgd: lr. adagrad: lr, epsilon (default 1e-10), initial sum. adam: lr, beta1 0.9, beta2 0.999, epsilon 1e-8. */
    float lr, beta1, beta2, epsilon, sum_init;
    uint64_t seed;
    /* Models other than sequential want technique static and f32 on the wire. `add`, `sgd`, `assign` and `adagrad` act
     * on a node's copy at once; pushes to a table with `adam` show when the row comes back from its home. */
    struct tide_consistency consistency;
    uint64_t cache_bytes;       /* most memory of copies on a node; 0: 1 GiB */
    uint32_t unsubscribe_after; /* clocks a copy lives without being read; 0: 16 */
    uint8_t send_order;         /* enum tide_send_order; ssp and essp only */
    uint64_t bandwidth;         /* bytes/s to another node that early sends may fill up; 0: as measured */
};

/* Creates the table on all nodes, or finds it when one of equal options exists (EMISMATCH if they differ). Fibers. */
int tide_table_create(struct tide_node *node, const struct tide_table_options *options, struct tide_table **out);
/* The controller, when no other member is left: the names of all tables are free again. Those who still have one find
 * its rows gone. EBUSY: another member may hold rows, or this node is not the controller. Fibers. */
int tide_tables_forget(struct tide_node *node);
/* The table of that name, if it exists. Any thread. */
int tide_table_find(struct tide_node *node, const char *name, struct tide_table **out);
const struct tide_table_options *tide_table_options(const struct tide_table *table);

/* An asynchronous operation; embed it anywhere, keep it until waited for. */
struct tide_ticket {
    void *opaque[6];
};

enum { TIDE_TAKE = 1 /* push: rows stay untouched and alive until the ticket is done, no copy is made */ };

/*
 * Pull: rows[i] = values of keys[i] (row-major, width floats each). Keys in any order, duplicates allowed.
 * Push: applies rows[i] to keys[i] by the table's update rule, in order. Local keys are read and written in place.
 * ticket NULL: waits (fibers only). Else returns when it is under way: at once, unless 1,024 messages or 4 MiB to a home
 * are unanswered already, for which a fiber waits and anybody else gets EBUSY. `rows` of a pull must live until the
 * ticket is done; a push is copied unless TIDE_TAKE. Per key: synchronous operations are sequentially consistent, one
 * worker's (a fiber's) operations take effect in program order. In a table with copies an operation waits for that until
 * asynchronous pulls of its keys, of the same worker, are answered. Errors: ERANGE (names key and limit; nothing was
 * done), ENAN, EFULL, EDIED, ELOST, EFENCED, ETIMEDOUT.
 */
int tide_table_pull(struct tide_table *table, const uint64_t *keys, size_t key_count, float *rows,
                    struct tide_ticket *ticket);
int tide_table_push(struct tide_table *table, const uint64_t *keys, size_t key_count, const float *rows, unsigned flags,
                    struct tide_ticket *ticket);
/* Only what this node holds; bit i of `hit` tells whether rows[i] was filled. Never waits. Returns the number of hits. */
size_t tide_table_pull_local(struct tide_table *table, const uint64_t *keys, size_t key_count, float *rows,
                             uint64_t *hit);
bool tide_ticket_done(const struct tide_ticket *ticket);
/* Waits (fibers only) and frees the ticket; returns the operation's result. Every ticket is waited for once. */
int tide_ticket_wait(struct tide_ticket *ticket);

/*
 * Brings the rows of `keys` to this node (technique "relocate"; else a no-op, counted). Ticket NULL: waits (fibers only).
 * Done means: each row was here at that moment, and what this node asked of it before has run. It does not mean that it
 * stays: another node may take it at once; then access is remote again. Errors: ERANGE, ENOMEM and EFULL (no room: access
 * stays remote), EDIED (the row, or the node that knows where it is, is gone).
 */
int tide_table_localize(struct tide_table *table, const uint64_t *keys, size_t key_count, struct tide_ticket *ticket);

/*
 * Sampling: keys drawn from a distribution, and their rows, as negative sampling wants them (Renz-Wieland et al., NuPS,
 * SIGMOD 2022). How the draws are made decides how much of the access is local, and what the draws promise:
 *   naive     drawn when pulled, accessed wherever they are         independent draws (conform)
 *   preloc    drawn when prepared, and localized meanwhile          independent draws (conform)
 *   pool      groups of draws, localized ahead, each used `reuse` times in a shuffled order: bounded, draws depend on
 *             each other only within group x reuse draws
 *   postpone  as pool; a key that is not here yet goes once to the end of its sample: long-term, frequencies converge
 *   local     only keys that are here, in proportion; of a key that 64 draws did not find, whatever comes: not conform
 * A sampler belongs to one fiber. Two samplers of one seed draw alike.
 */
enum tide_sampling { TIDE_SAMPLE_NAIVE, TIDE_SAMPLE_PRELOC, TIDE_SAMPLE_POOL, TIDE_SAMPLE_POSTPONE, TIDE_SAMPLE_LOCAL };

struct tide_sampler_options {
    uint8_t scheme;        /* enum tide_sampling */
    uint32_t group, reuse; /* pools; default 250 and 16 */
    uint64_t first_key, key_count; /* candidates first_key .. first_key + key_count - 1; 0: all of a dense table */
    const double *weights; /* key_count weights, read during creation; NULL: uniform */
    /* Instead of weights: gives a key by itself. */
    int (*draw)(void *argument, uint64_t *key);
    void *argument;
    uint64_t seed;
};

struct tide_sampler_stats {
    uint64_t drawn, pulled, postponed; /* keys */
    uint64_t not_found;                /* local: taken though not here */
    uint64_t groups;                   /* pools: groups begun */
};

struct tide_sampler;
/* Errors: EINVAL (names what), ERANGE (candidates outside of the table), ENOMEM. */
int tide_sampler_create(struct tide_table *table, const struct tide_sampler_options *options, struct tide_sampler **out);
/* Gives up what is open. */
void tide_sampler_destroy(struct tide_sampler *sampler);
/* Announces a sample of `count` keys: the earlier, the more is local when it is pulled. *sample names it. Errors:
 * ELIMIT (2^20 keys, 4096 open samples), ENOMEM, the draw's own. Inside. */
int tide_sampler_prepare(struct tide_sampler *sampler, size_t count, uint32_t *sample);
/* The next `count` keys of a sample, and their rows unless `rows` is NULL. Errors: EINVAL (no such sample, or fewer keys
 * are left: names them), and those of tide_table_pull. Fibers. */
int tide_sampler_pull(struct tide_sampler *sampler, uint32_t sample, size_t count, uint64_t *keys, float *rows);
/* Ends a sample, used up or not. Error: EINVAL (no such sample). Fibers. */
int tide_sampler_finish(struct tide_sampler *sampler, uint32_t sample);
void tide_sampler_stats(const struct tide_sampler *sampler, struct tide_sampler_stats *out);

/*
 * Gives slots (0..TIDE_SLOTS-1) of a table to `node` while everybody works on; those that are there already stay. The
 * controller plans and records it. Returns when all are there and nothing goes by their old homes any more. Tables with
 * replicas are refused: their controller places the copies. All slots are moved, or none is: EINVAL (no such slot; no
 * node of that id that is up and holds rows), EBUSY (one of them is on the move already), ENOENT (a slot's home died),
 * EREFUSED. Or it began: ELOST (`node` died meanwhile, and with it the rows that had reached it), EDIED (the controller
 * did: one that keeps its state goes on with it), ETIMEDOUT (after 600 s; it goes on).
 * Fibers.
 */
int tide_table_move(struct tide_table *table, const uint32_t *slots, size_t slot_count, uint16_t node);
/* Home of each slot by the newest map this node knows: homes[TIDE_SLOTS]. Any thread. */
void tide_table_slot_homes(struct tide_table *table, uint16_t *homes);
/* Keys of each slot that this node has pulled and pushed on behalf of other nodes since the table was made:
 * served[TIDE_SLOTS]. What workers of this node do in place is not counted. Any thread. */
void tide_table_slot_served(struct tide_table *table, uint64_t *served);

/* Node that has the row of a key, as far as this node knows: its owner, if that is this node or the home is; else the home. */
int tide_table_where(struct tide_table *table, uint64_t key, uint16_t *node);
/* Slot of a key, by which it has its home: the same on all nodes. */
uint32_t tide_table_slot(const struct tide_table *table, uint64_t key);

/*
 * Techniques of single keys. Copies of shared keys (techniques replicate and intent) are read and written by the workers
 * of their node in place. In rounds, what accumulated there goes to the owners of the rows and rows that changed come
 * back: a worker sees its own pushes at once and those of others somewhat later, in no common order, and when nobody
 * pushes any more all copies become equal. An update that was not sent yet is lost when its node dies (not when it
 * leaves). Rules add, sgd and adagrad; tables without clocks and without replicas: else EUNSUPPORTED.
 */
struct tide_share_options {
    const uint16_t *nodes; /* replicate: who has copies; none named: all, those that join later too */
    size_t node_count;
    /* of the table's shared keys: */
    uint32_t rate;   /* rounds a second at most; 0: 100 */
    float threshold; /* an update waits until its largest entry is this, at most 1 s */
    float clip;      /* an update longer than so many times the mean one is cut to that, after 1,000 updates; 0: none is */
};
/* Tells all nodes; done means told, not carried out. options NULL: defaults. Fibers. ERANGE, EINVAL, EUNSUPPORTED. */
int tide_table_manage(struct tide_table *table, const uint64_t *keys, size_t key_count, uint8_t technique,
                      const struct tide_share_options *options);
/* The technique of a key, as this node knows; *copy: it has a copy now. Any thread. */
uint8_t tide_table_technique(struct tide_table *table, uint64_t key, bool *copy);
/* What was pushed to copies before is at the owners when this returns. Fibers. */
int tide_table_flush(struct tide_table *table);

/*
 * The calling worker will use the keys in its clocks clock_begin .. clock_end - 1 (techniques intent and relocate; else a
 * no-op, counted with those of localize). Never waits; when that is near, rows come here or copies are made. Nothing
 * depends on it but speed. EBUSY: too many are queued, the access will be remote. EINVAL: no worker. ERANGE.
 */
int tide_table_intent(struct tide_table *table, const uint64_t *keys, size_t key_count, uint32_t clock_begin,
                      uint32_t clock_end);

struct tide_share_age {
    uint64_t mean_ns, max_ns;
};
struct tide_share_stats { /* of this node */
    uint64_t keys, copies;            /* keys that are managed or shared here; copies here now */
    uint64_t hits, refused;           /* keys served by copies; keys that got none: no room */
    uint64_t updates_out, rows_in, notices_out; /* in keys */
    uint64_t updates_failed, clipped; /* not applied, or not known to be: the owner died; cut */
    struct tide_share_age unsent;     /* how old updates are when they are at the owner */
    struct tide_share_age behind;     /* how old rows get that have changed at the owner, without the way of the notice */
};
void tide_table_share_stats(struct tide_table *table, struct tide_share_stats *out); /* any thread */

enum { TIDE_RELOCATE_BUCKETS = 56 };
/* Counted in keys unless named otherwise, on this node. */
struct tide_table_stats {
    uint64_t pulls_local, pulls_remote, pushes_local, pushes_remote;
    uint64_t served_pulls, served_pushes; /* for other nodes */
    uint64_t queued, forwarded;           /* held for a slot or row on the move; passed on to another node */
    uint64_t messages_out, bytes_out, bytes_in;
    uint64_t not_finite;                  /* pushed rows with a NaN or infinity */
    uint64_t rows, memory_bytes;
    uint64_t localized, localize_noop;        /* keys of localize calls; those on static tables */
    uint64_t relocated_in, relocated_out;     /* rows that came and went */
    uint64_t relocate_ns_sum, relocate_ns_max; /* from the request to the row's arrival */
    uint64_t relocate_hist[TIDE_RELOCATE_BUCKETS]; /* rows by that time: [0] below 512 ns, then two an octave */
    uint64_t location_used, location_stale;   /* of this node: went straight to where they were last; were not there */
    uint64_t surprises;                       /* relocation messages that should not exist: ignored */
    /* durability window. As home: bytes of rows with answered changes that are not on all copies, most ever, the bound.
     * As origin: pushes of this node's workers that may have died with the homes that had answered them. */
    uint64_t at_risk, at_risk_most, at_risk_bound, vanished;
};
void tide_table_stats(struct tide_table *table, struct tide_table_stats *out);

/* A key that this node's workers access much, estimated from a sample of 1 access in 64; older accesses count half,
 * and half of that, and so on. */
struct tide_hot_key {
    uint64_t key, reads, writes; /* in accesses, since it is counted */
    uint64_t doubt;              /* at most so many more before that */
};
/* The hottest keys of this node, at most `limit` of 1,024, most accesses first: how many. *total: accesses of all keys,
 * by the same sample. The sum over all nodes is the table's (each counts its own workers). Any thread. */
size_t tide_table_hottest(struct tide_table *table, struct tide_hot_key *out, size_t limit, uint64_t *total);

/* How long fibers of this node waited for pulls and pushes of a table that could not be done in place: counts of waits
 * below 1, 2, 4, ... us, in the last all longer ones (from 67 s). Any thread. */
enum { TIDE_WAIT_BUCKETS = 28 };
struct tide_table_waits {
    uint64_t pull[TIDE_WAIT_BUCKETS], push[TIDE_WAIT_BUCKETS];
};
void tide_table_waits(struct tide_table *table, struct tide_table_waits *out);

/* What a node's store has done for other nodes since its start. Any thread. */
struct tide_store_load {
    uint64_t messages, keys; /* operations of others, and the keys in them */
    uint64_t busy_ns;        /* spent on them */
};
void tide_node_load(struct tide_node *node, struct tide_store_load *out);
/* How long this node has had operations under way to the store of another one since its start, ns: what it asked that
 * one for, the network between them and all that queues there included. Rows of relocating tables, which go by this
 * node's own store, count for that. Any thread. */
uint64_t tide_node_waited(struct tide_node *node, unsigned home);
/* A test aid, for servers that are slower than others: from now on each key that this node's store serves to another
 * node takes it `ns` more, during which it does nothing else; 0: none. Any thread. */
void tide_node_serve_cost(struct tide_node *node, uint64_t ns);

/* How safe the rows are, as far as this node knows. Any thread. */
struct tide_table_health {
    uint8_t durability;             /* enum tide_durability */
    bool leases_ok;                 /* this node may serve the rows it is home of without asking their copies */
    uint32_t under_replicated;      /* slots with fewer copies than `replicas` on nodes that live */
    uint32_t lost_count;            /* slots that died with all their copies: operations on them fail */
    uint64_t lost[TIDE_SLOTS / 64]; /* bit of each of them */
};
void tide_table_health(struct tide_table *table, struct tide_table_health *out);

/*
 * Clocks. A worker is a fiber that said so; it counts intervals of its work from `clock` on, and what it pushes in
 * interval c has stamp c. Consistency models, intents and exact checkpoints are told in these clocks.
 */
/* The calling fiber is worker `worker` of the run from now. EINVAL: it is one already, or no fiber of a node. */
int tide_worker_begin(struct tide_node *node, uint32_t worker, uint32_t clock);
/* It is none any more; nobody waits for its clock. The end of the fiber does the same. Fibers. */
void tide_worker_end(void);
/* The calling fiber's clock; -1: it is no worker. It may begin at a higher clock than it asked for: a clock that others
 * were told is over stays over. Any thread. */
int64_t tide_worker_clock(void);
/* Ends the calling worker's interval; returns its new clock. EINVAL: the calling fiber is no worker. */
int tide_clock(void);

/*
 * One value in place, under its latch: *row has `width` floats until tide_table_read_end, which must come before
 * anything else that the caller does with tables, and before it waits for anything. Waits as a pull does. Workers, on
 * tables with clocks, except bsp; else EUNSUPPORTED.
 */
struct tide_table_read {
    void *opaque[2];
};
int tide_table_read_begin(struct tide_table *table, uint64_t key, const float **row, struct tide_table_read *read);
void tide_table_read_end(struct tide_table_read *read);
/* Adds values[i] to column columns[i] of a row (update rule "add"; else EUNSUPPORTED). Waits like a push. */
int tide_table_add(struct tide_table *table, uint64_t key, const uint32_t *columns, const float *values, size_t count);

/*
 * What the calling worker's node pushed is applied at the homes, and its copies hold everything that was applied there
 * when this was called. All workers do it, meet, and do it again: then all read the same. Fibers.
 */
int tide_settle(void);

/* Changes the bound of a table with clocks, on all nodes: larger at once, smaller from each worker's next clock. ssp and
 * essp may change into each other; every other model stays. Of changes that several nodes make at once the same one is
 * in force everywhere in the end. EINVAL, EUNSUPPORTED. Fibers. */
int tide_table_set_consistency(struct tide_table *table, const struct tide_consistency *consistency);
/* The one in force here. Any thread. */
void tide_table_consistency(const struct tide_table *table, struct tide_consistency *out);

/* What workers saw and waited for. The differential of a pull call: (newest clock its oldest row holds whole) - (the
 * reader's clock). bsp: -1; ssp, essp: from -(staleness + 1), or more if rows are newer than they must be; vap: any. */
struct tide_worker_staleness {
    uint32_t worker;                        /* its number */
    uint64_t count[TIDE_STALENESS_MAX + 2]; /* [d]: differential -d */
    uint64_t under, over;                   /* differential below -(TIDE_STALENESS_MAX + 1); 0 or above */
    double mean, variance;                  /* of the differential */
    uint64_t hits, waits, fetches;          /* keys served at once; waited for a clock; asked for */
    uint64_t clocks;                        /* that it ended since it first used the table */
    uint64_t waited_ns, clock_ns;           /* in pulls; in clocks that this table's bound held up */
    uint64_t stops, stopped_ns;             /* vap: pushes and clocks that waited until others had seen enough */
};
/* Of the workers of this node, those that have ended too, by number; returns how many there are. Any thread. */
size_t tide_table_worker_staleness(struct tide_table *table, struct tide_worker_staleness *out, size_t limit);

struct tide_staleness { /* of this node */
    struct tide_worker_staleness all; /* of its workers together */
    uint64_t copies, copy_bytes, evicted;
    uint64_t values_in, values_out, deltas_out; /* rows */
    uint64_t value_bytes, answer_bytes;         /* sent: rows for copies; those of them that somebody had asked for */
    uint64_t delta_bytes;                       /* sent: updates for homes */
    uint64_t early_rows, early_bytes;           /* of these: before their clock */
    uint64_t confirm_bytes;                     /* sent, vap: who has seen what */
    uint64_t excess;                            /* vap: updates that alone are larger than the bound */
};
void tide_table_staleness(struct tide_table *table, struct tide_staleness *out);

/*
 * Save: each node writes its rows; the result is one safetensors file `path` per table (keys, values, state).
 * Load: every node reads the rows it is home of; options must agree. Fibers. Errors: EIO, ENOSPC (no file is left
 * under the final name), EMISMATCH, EPROTO (damaged file; names what).
 */
int tide_table_save(struct tide_table *table, const char *path);
int tide_table_load(struct tide_table *table, const char *path);

/* ---- Checkpoints ----------------------------------------------------------------------------------------------- */

enum tide_cut {
    TIDE_CUT_AUTO,  /* by clock if a worker counts clocks, else fuzzy */
    TIDE_CUT_CLOCK, /* what every worker pushed before one clock, and nothing after */
    TIDE_CUT_FUZZY, /* each row as of some moment while it was written */
};

struct tide_checkpoint_options {
    const char *dir;     /* of all generations; made if need be. Every node must reach it under this path */
    uint8_t cut;         /* enum tide_cut */
    uint32_t keep;       /* generations that stay; default 3, at least 2 */
    uint32_t full_every; /* of so many generations one holds all rows, the others what changed; default 8, at most 64 */
    uint64_t timeout;    /* for the workers to pass the cut; default 60 s */
};

struct tide_checkpoint_info {
    uint64_t generation;
    uint64_t bytes, rows; /* written in this generation */
    uint64_t wall_ns;     /* since 1970, when it was committed */
    uint32_t clock;       /* of the cut: pushes of intervals before it are in; UINT32_MAX: fuzzy */
    bool full;
    bool committed;       /* it has a manifest that can be read */
};

struct tide_checkpoint;
/*
 * Writes a generation of all tables while workers go on; returns when all parts are on disk but before it counts. One at
 * a time in a cluster. Fibers of a member. *gives*: end it by commit or abort. Errors: EBUSY (another one is being
 * written, or nodes came or went meanwhile: try again), ETIMEDOUT (a worker does not pass the cut), EIO, ENOSPC, EDIED.
 * After any of them the newest committed generation is what it was.
 */
int tide_checkpoint_start(struct tide_node *node, const struct tide_checkpoint_options *options,
                          struct tide_checkpoint **out);
const struct tide_checkpoint_info *tide_checkpoint_get(const struct tide_checkpoint *checkpoint);
/* Makes it the newest generation, with `job` (one msgpack value, or NULL) inside, and removes what is older than what is
 * kept. *takes* the checkpoint, also when it fails. */
int tide_checkpoint_commit(struct tide_checkpoint *checkpoint, const void *job, size_t job_size);
void tide_checkpoint_abort(struct tide_checkpoint *checkpoint); /* *takes* */

/* What restore found. Release with tide_restored_release. */
struct tide_restored {
    struct tide_checkpoint_info info;
    char *skipped;  /* newer generations that are damaged, and how: lines of text; "" if none */
    void *job;      /* one msgpack value, nil if none was saved */
    size_t job_size;
};
/*
 * Brings all tables of a checkpoint to what they were: of the newest generation whose every block verifies
 * (generation 0), or of one. Tables that do not exist are made; rows of those that do are replaced. Onto any number of
 * nodes; the caller's node reads. Workers should not run. Fibers. Errors: ENOENT (none), EPROTO (none is whole; says
 * which block), EVERSION, EMISMATCH (a table has other options).
 */
int tide_checkpoint_restore(struct tide_node *node, const char *dir, uint64_t generation, struct tide_restored *out);
void tide_restored_release(struct tide_restored *restored);

/* ---- Lua ----------------------------------------------------------------------------------------------------- */

struct tide_lua_options {
    const char *name;        /* registered name, or NULL */
    const char *source;      /* Lua text */
    const char *chunk;       /* its name in errors: "@worker.lua" */
    const void *argument;    /* one msgpack value: `...` of the chunk */
    size_t argument_size;
    uint8_t role, thread;
    tide_address link;
};
/* Starts a Lua actor: a state of its own on a fiber, running `source` as its main function. Any thread. */
int tide_spawn_lua(struct tide_node *node, const struct tide_lua_options *options, tide_address *out);

#ifdef __cplusplus
}
#endif
#endif
