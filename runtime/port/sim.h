/* Private to the simulator: the event heap, nodes and executors (sim.c), streams (sim_stream.c),
 * the network between them (sim_net.c, sim_bulk.c, sim_fabric.c), files (sim_file.c) and what their
 * disk keeps of them (sim_disk.c), clocks that differ (sim_clock.c), memory that is short
 * (sim_memory.c), faults and settings (sim_fault.c). */
#ifndef TIDE_PORT_SIM_H
#define TIDE_PORT_SIM_H

#include "port/port.h"
#include "port/sim_fabric.h"

enum { SIM_NODES_MAX = 65535, SIM_NAME_MAX = 64 };

enum sim_kind {
    SIM_TURN,
    SIM_CONNECT,
    SIM_CONNECTED,
    SIM_ARRIVE,
    SIM_READ,
    SIM_WRITABLE,
    SIM_CLOSED,
    SIM_CALL,  /* of tide_sim_at; object: struct sim_call */
    SIM_CORE,  /* a segment comes to the core, */
    SIM_CARD,  /* to the receiver's card */
    SIM_DRAIN, /* a flow begins, or the first of its segments has left */
    SIM_COUPLE /* flows and small messages look at each other; no object */
};

/* Ordered by (time, tie); tie = hash(seed, sequence), so the order of equal times is arbitrary
 * but repeatable. */
struct sim_event {
    uint64_t time;
    uint64_t tie;
    void *object;        /* executor of a turn, else stream; each counts its events and lives until the
                            last is gone */
    uint32_t generation; /* of drains: what was scheduled anew ignores the older one */
    uint16_t kind;
    uint16_t node;
};

/* One direction of a card, or the core switch: takes one segment after the other. */
struct sim_server {
    uint64_t bytes_per_s; /* 0: no limit */
    uint64_t free;        /* when it has passed what it was given */
    /* small messages, while there are flows */
    double small_bytes;   /* given to it and not counted yet */
    uint64_t small_since; /* it serves them from here to `free` */
    double small_share;   /* of it, as flows saw it last */
};

/* `data` is what reads show; `durable` what a crash certainly leaves. A block that is not dirty
 * and differs was lost by a sync that failed. */
struct sim_inode {
    unsigned refs; /* its names, current and durable, and its open files */
    bool directory, size_dirty;
    uint64_t modified;
    uint8_t *data, *durable;
    size_t size, room, durable_size, durable_room;
    uint8_t *dirty; /* a flag for each block */
    size_t dirty_room;
};

struct sim_name {
    char *path;
    struct sim_inode *inode;
};

struct sim_names { /* sorted by path */
    struct sim_name *list;
    size_t count, room;
};

/* Outlives its ports: a node that crashed and starts again finds its files. */
struct sim_node {
    struct tide_sim *sim;
    /* at clock_at its clock showed clock_shown; it gains drift_ppb nanoseconds a second on ours */
    uint64_t clock_at, clock_shown;
    int64_t drift_ppb;
    uint16_t index;
    bool crashed;
    struct sim_port *port; /* of its present life */
    struct tide_executor *executors;
    unsigned incarnation;
    uint64_t paused_until;
    double slowness;           /* turns cost so many times more */
    struct sim_server out, in; /* of its card */
    char name[SIM_NAME_MAX];
    unsigned rack;
    uint64_t *latency; /* ns to the nodes by index; 0, or beyond latency_room: the common one */
    size_t latency_room;
    struct sim_names names, durable; /* durable: those a crash certainly leaves */
    struct tide_sim_disk disk;
    struct tide_random disk_random;
    struct tide_sim_memory memory;
    struct tide_random memory_random;
};

struct sim_port {
    struct tide_port port;
    struct sim_node *node;
    struct tide_random entropy;
};

struct tide_executor {
    struct tide_sim *sim;
    struct sim_node *node;
    struct tide_executor_options options;
    uint64_t busy_until;
    uint64_t charged;   /* ns of sending and receiving that its next turn pays for, on a node of speed 1 */
    uint64_t scheduled; /* time of its next turn; TIDE_NEVER: none */
    /* times of the first and, as far as it is known, of the second turn's event that is there;
     * TIDE_NEVER */
    uint64_t booked, booked_next;
    unsigned references; /* turns in the heap, streams, listeners: freed after the last, when stopped */
    unsigned streams_open;
    bool in_turn, woken;
    bool dead; /* crashed or stopped: nothing of it is called any more */
    bool stopped;
    struct tide_executor *next; /* of its node, whatever life of it */
};

/* What `from` sends does not reach `to`. */
struct sim_cut {
    uint16_t from, to;
};

struct tide_sim {
    struct tide_sim_options options;
    uint64_t now;
    uint64_t sequence;
    uint64_t hash;
    uint64_t processed;
    uint64_t ties;          /* of events */
    struct sim_event front; /* if has_front: before all of the heap */
    bool has_front;
    struct sim_event *heap; /* 4-ary */
    size_t heap_count, heap_room;
    struct sim_node **nodes;
    size_t node_count, node_room;
    uint64_t *seeds; /* of all ports ever */
    size_t seed_count, seed_room;
    struct sim_cut *cuts;
    size_t cut_count, cut_room;
    struct tide_stream *streams;
    struct sim_segment *spare_segment; /* unused small ones; NULL */
    struct tide_listener *listeners;
    uint64_t connections;
    struct sim_server core;
    bool racked; /* the core lies between racks, not between any two nodes */
    struct tide_sim_costs costs;
    struct fabric fabric; /* of flows. Link 0: the core; 1 + 2 i, 2 + 2 i: out and in of node i */
    bool coupling;        /* SIM_COUPLE is in the heap */
    uint16_t free_port;
    struct tide_sim_disk disk; /* of nodes that are made from now on */
    struct sim_node *shared;   /* whose disk all reach, below the path; NULL: there is none */
    char shared_path[SIM_NAME_MAX];
    uint64_t watch_at; /* when the next node looks at itself, */
    size_t watched;    /* and which */
    uint64_t charged;  /* what the operations of this turn add to its cost */
    void (*on_crash)(void *arg, const char *node);
    void *on_crash_arg;
    void (*observe)(void *arg, const struct tide_sim_event *event);
    void *observe_arg;
};

/* Makes room for one more element; the simulator is a tool of tests and asserts that memory
 * lasts. */
void tide__sim_grow(void **array, size_t count, size_t *room, size_t element);
void tide__sim_push(struct tide_sim *sim, uint64_t time, enum sim_kind kind, uint16_t node, void *object,
                    uint32_t generation);
/* Every event that has an effect goes into the run's hash. */
void tide__sim_fold(struct tide_sim *sim, const struct sim_event *event, size_t length, uint64_t checksum);
/* 0: the executor may take the event now; else when to try again; TIDE_NEVER: it is dead. */
uint64_t tide__sim_not_before(const struct tide_executor *executor);
void tide__sim_executor_unref(struct tide_executor *executor);
void tide__sim_executor_wake(struct tide_executor *executor);
/* Directed. */
bool tide__sim_is_cut(const struct tide_sim *sim, const struct sim_node *from, const struct sim_node *to);
struct sim_node *tide__sim_find_node(const struct tide_sim *sim, const char *name);
struct sim_node *tide__sim_add_node(struct tide_sim *sim, const char *name);
struct sim_node *tide__sim_setting_of(struct tide_sim *sim, const char *name); /* finds or adds */

/* sim_clock.c: what the node's clock shows now, and when (ours) it will show `shown`. */
uint64_t tide__sim_clock(const struct sim_node *node);
uint64_t tide__sim_clock_due(const struct sim_node *node, uint64_t shown);

/* sim_net.c */
enum { SIM_LINK_CORE, SIM_LINK_OUT, SIM_LINK_IN }; /* the two of node i: + 2 i */
/* Of a packet; from may be NULL: not known yet. */
uint64_t tide__sim_latency(const struct tide_sim *sim, const struct sim_node *from, const struct sim_node *to,
                           struct tide_random *random);
bool tide__sim_crosses_core(const struct tide_sim *sim, const struct sim_node *from, const struct sim_node *to);
/* Moves the moments of a segment's first and last bit from when they come to the server to when
 * they have passed it. Segments come in the order of their first bits. */
void tide__sim_pass(struct tide_sim *sim, struct sim_server *server, uint32_t link, size_t size, uint64_t *first,
                    uint64_t *last);
/* The executor has sent or received a piece. */
void tide__sim_charge(struct tide_executor *executor, uint64_t message_ns, size_t bytes);
/* Virtual ns that it has spent so since the last turn ended. */
uint64_t tide__sim_charged(const struct tide_executor *executor);
/* Links of a flow, of their present capacity; returns how many. */
unsigned tide__sim_links(struct tide_sim *sim, const struct sim_node *from, const struct sim_node *to,
                         uint32_t links[FABRIC_HOPS]);
void tide__sim_couple(struct tide_sim *sim);
void tide__sim_net_changed(struct tide_sim *sim);                              /* cards or the core are others */
void tide__sim_flow_changed(void *arg, struct fabric_flow *flow, double rate); /* sim_bulk.c */

/* sim_memory.c */
/* Of the simulator itself, whoever's turn it is; asserts that memory lasts. */
void *tide__sim_alloc(size_t size);
/* Around what a node runs. Returns, and takes, the node that ran before. */
struct sim_node *tide__sim_memory_enter(struct sim_node *node);
void tide__sim_memory_leave(struct sim_node *before);

/* sim_fault.c */
void tide__sim_call_event(struct tide_sim *sim, const struct sim_event *event);
void tide__sim_call_drop(void *object);

/* sim_stream.c */
void tide__sim_stream_event(struct tide_sim *sim, const struct sim_event *event);
void tide__sim_streams_crash(struct tide_sim *sim, struct sim_node *node);
void tide__sim_streams_heal(struct tide_sim *sim);
void tide__sim_streams_reset(struct tide_sim *sim, const struct sim_node *a, const struct sim_node *b);
void tide__sim_streams_destroy(struct tide_sim *sim);
int tide__sim_listen(struct tide_executor *executor, const char *endpoint,
                     void (*accepted)(void *arg, struct tide_stream *stream), void *arg, struct tide_listener **out);
const char *tide__sim_listener_endpoint(struct tide_listener *listener);
void tide__sim_listener_close(struct tide_listener *listener);
int tide__sim_connect(struct tide_executor *executor, const char *endpoint, const struct tide_stream_events *events,
                      void *arg, struct tide_stream **out);
void tide__sim_stream_accept(struct tide_stream *stream, const struct tide_stream_events *events, void *arg);
ssize_t tide__sim_stream_write(struct tide_stream *stream, const struct tide_iovec *iov, size_t count);
void tide__sim_stream_resume(struct tide_stream *stream);
void tide__sim_stream_close(struct tide_stream *stream);
void tide__sim_stream_peer(struct tide_stream *stream, struct tide_peer_identity *out);

/* sim_disk.c: contents and names, and what the disk does to operations on them */
void tide__sim_inode_unref(struct sim_inode *inode);
int tide__sim_inode_touch(struct sim_inode *inode, size_t offset, size_t size); /* now dirty */
size_t tide__sim_names_find(const struct sim_names *names, const char *path, bool *found);
struct sim_inode *tide__sim_names_get(const struct sim_names *names, const char *path);
int tide__sim_names_set(struct sim_names *names, const char *path, struct sim_inode *inode);
void tide__sim_names_drop(struct sim_names *names, size_t at);
void tide__sim_names_deinit(struct sim_names *names);
void tide__sim_disk_init(struct sim_node *node);
void tide__sim_disk_crash(struct sim_node *node);
/* Before an operation that changes something. *torn: the node is to crash in it: do a part, then
 * tide__sim_disk_torn, which returns the error to give. */
int tide__sim_disk_change(struct sim_node *node, bool *torn);
int tide__sim_disk_torn(struct sim_node *node);
size_t tide__sim_disk_part(struct sim_node *node, size_t size);
int tide__sim_disk_room(struct sim_node *node, const struct sim_inode *grows, size_t size);
/* A write that fails after a part: EIO, and `size` is what to store. */
int tide__sim_disk_write(struct sim_node *node, size_t *size);
int tide__sim_disk_read(struct sim_node *node);
int tide__sim_disk_sync(struct sim_node *node, struct sim_inode *inode);
void tide__sim_disk_sync_parent(struct sim_node *node, const char *path);
int tide__sim_directory_sync(struct tide_port *port, const char *path);

/* sim_file.c */
struct sim_node *tide__sim_disk_of(struct tide_port *port, const char *path);
void tide__sim_files_init(struct sim_node *node);
void tide__sim_files_deinit(struct sim_node *node);
int tide__sim_file_open(struct tide_port *port, const char *path, int flags, struct tide_file **out);
ssize_t tide__sim_file_read(struct tide_file *file, void *data, size_t size, uint64_t offset);
int tide__sim_file_write(struct tide_file *file, const void *data, size_t size, uint64_t offset);
int tide__sim_file_sync(struct tide_file *file);
void tide__sim_file_close(struct tide_file *file);
int tide__sim_file_info(struct tide_port *port, const char *path, struct tide_file_info *out);
int tide__sim_file_rename(struct tide_port *port, const char *from, const char *to);
int tide__sim_file_unlink(struct tide_port *port, const char *path);
int tide__sim_file_mkdir(struct tide_port *port, const char *path, unsigned mode);
int tide__sim_file_list(struct tide_port *port, const char *path, void (*entry)(void *arg, const char *name),
                        void *arg);

#endif
