/*
 * The actor system below the public API: what links, store and the Lua host need of it.
 *
 * One `tide_system` a node; one scheduler an executor. An actor belongs to one scheduler for life. All of a
 * scheduler's structures belong to its thread except the inbox (any thread pushes), the actor slots' addresses
 * (looked up by generation) and counters marked atomic.
 */
#ifndef TIDE_ACTOR_H
#define TIDE_ACTOR_H

#include "actor/node.h"
#include "port/port.h"
#include "wire/wire.h"

struct tide_system;
struct tide_fiber;

struct tide_system_options {
    struct tide_port *port;
    const char *node_name;
    unsigned io, compute, control, disk, exchange; /* how many threads of each role (from control on: 0 or 1) */
    void *loop;                                    /* host's loop for the first I/O thread */
};
int tide_system_create(const struct tide_system_options *options, struct tide_node *node, struct tide_system **out);
/* Stops all actors (TIDE_STOP to root actors in reverse order of spawning, killed after `timeout`), then the threads.
 */
bool tide_system_stop(struct tide_system *system, uint64_t timeout);
void tide_system_destroy(struct tide_system *system);
void tide_system_set_node_id(struct tide_system *system, uint16_t id); /* before addresses are sent to other nodes */
struct tide_system *tide_system_of(struct tide_node *node);
struct tide_executor *tide_system_executor(struct tide_system *system, enum tide_role role, unsigned index);
struct tide_port *tide_system_port(struct tide_system *system);
/* Messages that wait in mailboxes. Any thread. */
uint64_t tide_system_mailbox_bytes(struct tide_system *system);
struct tide_node *tide_system_node(struct tide_system *system);
/* Simulated, between two events: reports actors and threads that sleep with work to do (base/watch.h). */
void tide_system_watch(struct tide_system *system);
/* Likewise: a line for each fiber that waits and each mailbox that is not empty. Returns the length. */
size_t tide_system_waits(const struct tide_system *system, char *out, size_t size);

/*
 * From now on the calling actor runs before the other actors of its thread as long as it takes at most this percentage
 * of the thread's time; beyond, the others that wait come first. Inside.
 */
void tide_actor_share(unsigned percent);
/* The calling handler took time that the clock of this turn does not show: simulated work. Inside. */
void tide_turn_spent(uint64_t ns);

/* ---- outgoing messages: what leaves for another node, handed over on the I/O thread ---- */
/* What the data of a blob is whose bytes lie in several places, none of them empty. */
struct tide_scatter {
    const struct tide_iovec *parts;
    size_t count;
};
enum { TIDE_SCATTER_MAX = 64 };
/* Owned by its holder; body = data then tail. The body is one msgpack value; of ERROR and EXIT it is already
 * [code, text]. */
struct tide_outgoing {
    struct tide_outgoing *next;
    tide_address to, from;
    uint64_t call;
    const uint8_t *data;
    struct tide_blob *tail; /* or NULL */
    uint32_t size;          /* of data */
    int32_t code;           /* ERROR, EXIT */
    uint8_t kind;           /* enum tide_frame_kind */
    uint8_t lane;
    uint32_t window; /* admit's */
    bool prepaid;    /* no credit was reserved by admit: the link charges it when it sends */
    bool in_line;    /* from the I/O thread: behind what other threads have sent before */
    bool scattered;  /* tail->data is a struct tide_scatter; then the message fits one frame */
};
void tide_outgoing_free(struct tide_outgoing *message);   /* any thread; unrefs the tail */
void tide_outgoing_free_all(struct tide_outgoing *first); /* and those that follow it */
static inline size_t tide_outgoing_body(const struct tide_outgoing *m) {
    return m->size + (m->tail ? m->tail->size : 0);
}

/* How the system reaches other nodes; set once by net before the first remote send. */
struct tide_route {
    void *arg;
    /* Admission at the origin, any thread: reserves `bytes` of credit towards `node` in `lane`, of which no more than
     * `window` (0: what the lane has) may be reserved then. 0; EBUSY (no credit);
     * EUNREACHABLE. Replies and system frames are not asked for. With `waiter`, EBUSY means: tide_fiber_wake(waiter)
     * is called when to try again. */
    int (*admit)(void *arg, uint16_t node, enum tide_lane lane, size_t bytes, size_t window, struct tide_fiber *waiter);
    /* Any thread: what was admitted will not be sent. May be NULL where admit reserves nothing. */
    void (*refund)(void *arg, uint16_t node, enum tide_lane lane, size_t bytes);
    /* Any thread: the id of a node by its name; ENOENT. */
    int (*resolve)(void *arg, const char *name, uint16_t *id);
    /* I/O thread: *takes* the message and sends it, or fails it (calls get EUNREACHABLE by tide_system_fail_call). */
    void (*send)(void *arg, struct tide_outgoing *message);
    /* I/O thread, at the end of each turn: write what gathered. Returns when to be called again, as a turn does. */
    uint64_t (*flush)(void *arg);
    /* I/O thread, each turn once the system stops and all actors have ended: closes listener and links; true when
     * every stream has reported `closed`. May be NULL. */
    bool (*close)(void *arg);
};
void tide_system_set_route(struct tide_system *system, const struct tide_route *route);

/* ---- incoming: called by links on the I/O thread ---- */
/* Consumed bytes are reported when the receiving actor is done with the message; used for credits. */
struct tide_credit_account {
    atomic_uint refs;
    atomic_uint_fast64_t consumed[TIDE_LANE_COUNT]; /* bytes, running total; read by the link each flush */
    void (*release)(struct tide_credit_account *);
};
/* Delivers one frame to the actor (or pending call) it is for. `owner`, if not NULL, keeps frame->body alive and is
 * shared with the message (large bodies); else the body is copied. `account`: shared until consumed; may be NULL.
 * right: enum tide_right of a client, which reaches what opens to it; 0: from a node. */
void tide_system_deliver(struct tide_system *system, const struct tide_frame *frame, struct tide_blob *owner,
                         struct tide_credit_account *account, uint8_t right);
/* An EXIT frame whose call is this ends its target. */
#define TIDE_EXIT_KILLS UINT64_MAX
/* All that waits for something on `node`: calls fail with `code`, monitors and links fire. I/O thread. */
void tide_system_node_down(struct tide_system *system, uint16_t node, int code, const char *reason);
void tide_system_fail_call(struct tide_system *system, const struct tide_outgoing *message, int code,
                           const char *reason);

/* What keeps the bytes of a message; NULL: nothing that can be shared. Borrowed. */
struct tide_blob *tide_message_blob(const struct tide_message *message);
/* Bytes of a blob as one of their own (*shares* it). NULL: out of memory. */
struct tide_blob *tide_blob_slice(struct tide_blob *of, const void *data, size_t size);

/* For the last words of a process, in a signal's handler: the node whose code runs on this thread, the type of the
 * actor whose fiber does, and its description of itself, as by tide_look. NULL and 0: none. */
struct tide_thread_look {
    const char *node, *actor;
    int size;
};
struct tide_thread_look tide_look_at_thread(char *out, size_t size);

/* ---- fibers ---- */
/* The fiber that runs, NULL in handlers and outside. */
struct tide_fiber *tide_fiber_current(void);
/* Suspends the current fiber until tide_fiber_wake; a wake that came before is not lost. `why` is a static string or
 * lives until the wake. Spurious wake-ups are possible: re-check. deadline: ETIMEDOUT. ECANCELED if the actor is
 * killed. */
int tide_fiber_suspend(uint64_t deadline, const char *why);
/* The same for a caller that waits for the time alone: time that has passed as was asked is no spin. */
int tide_fiber_wait_until(uint64_t until, const char *why);
/* For people (tide_actors): the current fiber's next suspension waits for the row of this key from that node, as of a
 * clock (UINT32_MAX: of any). */
void tide_fiber_expect(uint64_t key, uint32_t clock, uint16_t node);
/* What a fiber waits for: static text; NULL: it runs, or is about to. Its thread. */
const char *tide_fiber_waits(const struct tide_fiber *fiber);
/* Any thread. Fibers are recycled, never freed while the system lives: a late wake is a spurious wake-up of another. */
void tide_fiber_wake(struct tide_fiber *fiber);
/* Makes present and later suspensions of a fiber of the calling actor answer ECANCELED. It must not have ended. */
void tide_fiber_cancel(struct tide_fiber *fiber);
/* Runs work(arg) in a short-lived fiber on the node's first thread of `role` and waits (a fiber suspends, the outside
 * pauses); `arg` is heap memory that `drop` frees when it is unused: after this returned 0 the caller owns it again,
 * else it is freed. Work for the disk's thread is done in place once the node is stopping. ENOMEM, ECLOSED; ECANCELED:
 * the caller is being ended, the work continues; or the node ended before the work began. Not in handlers. */
int tide_hop(struct tide_node *node, enum tide_role role, void (*work)(void *arg), void *arg, void (*drop)(void *arg));
/* Work that no fiber waits for, such as writing a file: `run` is called on the node's first thread of `role`, then
 * `done` on I/O thread 0. The tasks of one role run, and are done, in the order of their starts. `node` NULL: both are
 * called at once. The caller owns the task and keeps it until `done`. A task that is not done when the node's threads
 * have ended is abandoned, whether it ran or not. Any thread. */
struct tide_task {
    void (*run)(struct tide_task *task);
    void (*done)(struct tide_task *task);
};
void tide_task_start(struct tide_node *node, enum tide_role role, struct tide_task *task);
/* A further fiber of the calling actor (Lua's tide.spawn): shares its state, address and mailbox. */
int tide_fiber_start(void (*run)(void *arg), void *arg, size_t stack_bytes, struct tide_fiber **out);
/* What a room above keeps with a fiber: one record, embedded anywhere. `end` is called once, on the fiber's thread,
 * when the fiber has ended in whatever way (not on the fiber: it must not suspend), or when another record takes its
 * place. */
struct tide_fiber_local {
    void (*end)(struct tide_fiber_local *local);
};
struct tide_fiber_local *tide_fiber_local(void);           /* of the fiber that runs; NULL: it has none, or none runs */
void tide_fiber_set_local(struct tide_fiber_local *local); /* of the fiber that runs; NULL: ends the present one */

/* Whether an actor monitors the calling one or has a link with it, and will be notified of its end. If none does,
 * `label` is what people call the calling actor. Inside. */
bool tide_is_watched(char *label, size_t size);

/* ---- traces (trace.c) ---- */
/* From here on each thread keeps its newest `events` (at least 2; the first start decides) spans: of actors that ran,
 * of what fibers waited for, and what tide_trace_end says. A second start forgets what was recorded. Any thread, one
 * at a time, as stop and read. ENOMEM. */
int tide_trace_start(struct tide_system *system, size_t events);
void tide_trace_stop(struct tide_system *system);
struct tide_span {
    uint64_t begin, end; /* ns of the port's clock; end TIDE_NEVER: no span, `name` is whose the fiber is */
    uint32_t fiber;      /* number within its thread; 0: the thread's own, named by the actor that ran */
    uint32_t lane;       /* of the fiber's: 0, or what tide_trace_beside was given */
    char name[40];
};
/* Copies up to `max` events of a thread from number *from on, which moves behind them; 0: there are no more. */
size_t tide_trace_read(struct tide_system *system, unsigned thread, uint64_t *from, struct tide_span *out, size_t max);
/* Number of threads; puts the role of one. */
unsigned tide_trace_thread(const struct tide_system *system, unsigned thread, enum tide_role *role);
/* A span of the current fiber: begin answers 0 while nothing is traced, which makes end do nothing. */
uint64_t tide_trace_begin(void);
void tide_trace_end(uint64_t began, const char *name);
/* A span that may overlap others of the fiber: on a lane of its own (from 1), which has the span's name. */
void tide_trace_beside(unsigned lane, uint64_t began, const char *name);
/* What the current fiber and its actor are called in traces from here on; up to 23 bytes. */
void tide_trace_title(const char *title);

/* Sends with an explicit kind and from a service of the node (store, members) that is an actor of the I/O thread.
 * `prepaid`: no admission (answers, forwards, grants). Inside, any thread of the node. *shares* tail. */
int tide_system_send(struct tide_system *system, const struct tide_outgoing *prototype, bool prepaid);
/* As tide_send_blob, but waits while this and what the other node has not consumed of this node's are more than
 * `window` bytes: more urgent messages can overtake waiting ones, but not those in flight. */
int tide_send_blob_within(tide_address to, enum tide_lane lane, const void *data, size_t size, struct tide_blob *tail,
                          uint32_t window);

/* ---- taps: samples of the messages that come to an actor (tap.c) ---- */
enum { TIDE_TAP_BYTES = 512 };
struct tide_tap_sample {
    uint64_t when; /* of the turn in which it came */
    tide_address from;
    uint64_t call;
    uint32_t size; /* of the message */
    uint16_t captured;
    uint8_t kind, lane;
    uint8_t data[TIDE_TAP_BYTES]; /* its beginning */
};
struct tide_tap_counts {
    uint64_t seen, passed_over, dropped; /* in all; to keep the rate; because the reader was too slow */
    uint64_t queued[TIDE_WAIT_BUCKETS];  /* messages by how long they were queued before the actor took them */
    bool ended;                          /* the actor has */
};
struct tide_tap;
/* Opens one on an actor of this node, for `rate` samples a second. Any thread. ENOENT; EBUSY: it has one; ENOMEM.
 * Answers to the actor's own calls do not pass its mailbox and are not seen. */
int tide_tap_open(struct tide_system *system, tide_address who, unsigned rate, struct tide_tap **out);
void tide_tap_close(struct tide_tap *tap); /* any thread; before the system is destroyed */
size_t tide_tap_read(struct tide_tap *tap, struct tide_tap_sample *out, size_t limit, struct tide_tap_counts *counts);

/* ---- events: what happened, for people (event.c) ---- */
struct tide_event {
    uint64_t number;  /* from 1, of this node */
    uint64_t wall_ns; /* since 1970 */
    char kind[16];    /* "node", "controller", "slots", ... */
    char text[200];
};
/* Any thread. The last 512 are kept; out of memory loses one. */
void tide_event_add(struct tide_system *system, const char *kind, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Copies up to `limit` of those with a number above `after`, oldest first; returns how many. Any thread. */
size_t tide_events(struct tide_system *system, uint64_t after, struct tide_event *out, size_t limit);

/* Actors with ids every node agrees on: spawned first, in this order, on I/O thread 0. */
enum { TIDE_ID_REGISTRY = 1, TIDE_ID_MEMBERS = 2, TIDE_ID_STORE = 3 };
static inline tide_address tide_address_make(uint16_t node, uint64_t id) {
    return ((uint64_t)node << 48) | id;
}

#endif
