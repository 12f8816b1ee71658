/*
 * The port: the only way to reach clocks, threads, sockets, files, processes and entropy. Two implementations,
 * real.c on libuv and sim.c on one event heap; everything else in runtime/ is a pure function of what comes through
 * here, so that the same code runs on a cluster and, byte for byte repeatably, in the simulator.
 *
 * A node has one port. Its work happens on *executors*: real ones are a thread and its loop (or the host's loop),
 * simulated ones are entries in the event heap. An executor runs *turns*: after each it sleeps until the time the
 * turn returned, until it is woken, or until one of its streams has an event.
 */
#ifndef TIDE_PORT_H
#define TIDE_PORT_H

#include "base/base.h"

#include <sys/types.h>

struct tide_executor;
struct tide_stream;
struct tide_listener;
struct tide_file;
struct tide_process;
struct tide_port;

struct tide_iovec {
    const void *data;
    size_t size;
};

/* Work of an executor. Returns when to run again unless woken: 0 = at once (other events are polled between),
 * an absolute time of tide_port_now, or TIDE_NEVER. */
typedef uint64_t (*tide_turn)(void *arg);

struct tide_executor_options {
    const char *name; /* thread name, up to 15 characters */
    tide_turn turn;
    bool (*pending)(
        void *arg); /* is there work? asked after the executor declared itself asleep; any state it reads is atomic */
    void *arg;
    void *loop; /* real: run on this uv_loop_t of the host instead of a thread */
    int core;   /* pin to this core; -1: no */
    /* what must not wait while its work blocks (base/watch.h); NULL: it may. Static */
    const struct tide_serving *serves;
};

/* Events of a stream, called on its executor, never from inside a call into the port, never after `closed`. */
struct tide_stream_events {
    void (*connected)(void *arg, struct tide_stream *stream); /* outgoing: usable now */
    /* Where the next bytes go; size > 0. Called just before reading. size 0: stop reading until tide_stream_resume. */
    void (*buffer)(void *arg, void **data, size_t *size);
    void (*received)(void *arg, size_t size); /* so many bytes are in that buffer */
    void (*writable)(void *arg);              /* after a short write: there is room again */
    void (*closed)(void *arg, int reason);    /* once, last; 0 = closed by us, ECLOSED = end of stream, other codes; the
                                                 stream is freed after it */
};

struct tide_peer_identity {
    bool local_user; /* of this machine, and its user is known to the kernel: uid is valid */
    uint32_t uid;
    char address[64]; /* printable */
};

struct tide_file_info {
    uint64_t size;
    uint64_t modified_ns;
    uint32_t owner, mode; /* uid; permission bits */
    bool directory;
    bool link; /* the path itself is one; the rest is what it leads to */
};

enum {
    TIDE_FILE_READ = 1,
    TIDE_FILE_WRITE = 2,
    TIDE_FILE_CREATE = 4,
    TIDE_FILE_TRUNCATE = 8,
    TIDE_FILE_EXCLUSIVE = 16,
    TIDE_FILE_APPEND = 32,
    TIDE_FILE_LOCK = 64 /* until it is closed, by the end of the process too; EBUSY: another has it. Simulated nodes
                           share no files */
    ,
    TIDE_FILE_PRIVATE = 256 /* what is created is its owner's alone; else as the umask says */,
    TIDE_FILE_DIRECT = 512 /* past the kernel's memory of files, where the file system can: data, size and offset are
                              multiples of 4 KiB */
    ,
    TIDE_FILE_ONCE = 128 /* what is written is not read soon: a sync frees the memory that holds it, for the next
                            file to take */
};

struct tide_process_options {
    const char *const *argv; /* argv[0] is the program; NULL-terminated */
    const char *const *env;  /* added to ours, "NAME=value", NULL-terminated, or NULL */
    const char *output;      /* file that gets stdout and stderr, appended; NULL: ours */
    bool dies_with_parent;
    bool holds_input; /* its standard input is a pipe whose other end is ours until it has ended; else it is empty */
    /* On the executor. -1, 0: the executor stops, and when the process ends nothing will tell. */
    void (*ended)(void *arg, int exit_status, int signal);
    void *arg;
};

/* Where a process runs. */
struct tide_machine {
    char id[40];         /* the same for all its processes until it starts anew; "": each has its own */
    unsigned processors; /* that this process may run on; 0: one for each thread (simulated) */
};

struct tide_port_ops {
    uint64_t (*now)(struct tide_port *);  /* monotonic ns; any thread */
    uint64_t (*wall)(struct tide_port *); /* ns since 1970, may jump; any thread */
    uint64_t (*entropy)(struct tide_port *);
    void (*destroy)(struct tide_port *);
    /* Outside: lets time pass (a host's loop that is ours on this thread runs meanwhile; the simulator runs events). */
    void (*pause)(struct tide_port *, uint64_t ns);

    int (*executor_start)(struct tide_port *, const struct tide_executor_options *, struct tide_executor **);
    void (*executor_wake)(struct tide_executor *); /* any thread; cheap when awake or already woken */
    /* `handler` is called on the executor's thread, at once and in the middle of whatever that does: it may do what a
     * signal's handler may. One handler for all. Any thread. EUNSUPPORTED: not here (simulated, a host's loop). */
    int (*executor_interrupt)(struct tide_executor *, void (*handler)(void));
    void (*executor_stop)(struct tide_executor *); /* after its current turn no more; joins the thread; streams and
                                                      listeners must be closed before. Not from itself */

    int (*listen)(struct tide_executor *, const char *endpoint, void (*accepted)(void *arg, struct tide_stream *),
                  void *arg, struct tide_listener **);
    const char *(*listener_endpoint)(struct tide_listener *); /* with the port really bound */
    void (*listener_close)(struct tide_listener *);
    /* An endpoint of this machine, with any port, from which the other is reached. Nothing is sent. Any thread. */
    int (*address_towards)(struct tide_port *, const char *endpoint, char *out, size_t size);
    int (*connect)(struct tide_executor *, const char *endpoint, const struct tide_stream_events *, void *arg,
                   struct tide_stream **);
    void (*stream_accept)(struct tide_stream *, const struct tide_stream_events *,
                          void *arg); /* inside `accepted`; else the stream is closed */
    /* Takes as many bytes as fit now, returns how many (0..total) or a negative code; short: `writable` follows. Bytes
     * for a peer that has gone are taken and lost: `closed` follows once what it sent before has been read. */
    ssize_t (*stream_write)(struct tide_stream *, const struct tide_iovec *, size_t count);
    void (*stream_resume)(struct tide_stream *);
    void (*stream_close)(struct tide_stream *); /* `closed` follows with 0 */
    void (*stream_peer)(struct tide_stream *, struct tide_peer_identity *out);

    /* Files block: not on an I/O executor's hot path. Offsets explicit; short reads only at the end of the file. */
    int (*file_open)(struct tide_port *, const char *path, int flags, struct tide_file **);
    ssize_t (*file_read)(struct tide_file *, void *data, size_t size, uint64_t offset);
    int (*file_write)(struct tide_file *, const void *data, size_t size, uint64_t offset); /* all or an error */
    int (*file_sync)(struct tide_file *);
    void (*file_close)(struct tide_file *);
    int (*file_info)(struct tide_port *, const char *path, struct tide_file_info *);
    int (*file_rename)(struct tide_port *, const char *from, const char *to); /* and syncs the directory of `to` */
    int (*directory_sync)(struct tide_port *, const char *path); /* names in it are durable: created, removed */
    int (*file_unlink)(struct tide_port *, const char *path);    /* or an empty directory */
    int (*file_mkdir)(struct tide_port *, const char *path, unsigned mode); /* 0 if it exists as a directory */
    int (*file_list)(struct tide_port *, const char *path, void (*entry)(void *arg, const char *name), void *arg);

    int (*process_start)(struct tide_executor *, const struct tide_process_options *, struct tide_process **);
    int (*process_signal)(struct tide_process *, int signal);
    int (*process_id)(struct tide_process *);
    void (*process_release)(struct tide_process *); /* after `ended` */
    void (*machine)(struct tide_port *, struct tide_machine *out);
    uint64_t (*memory_resident)(struct tide_port *); /* bytes */
    uint64_t (*memory_total)(struct tide_port *);    /* that this process may have at most; 0: not known */
    uint32_t (*user)(struct tide_port *);            /* uid of this process */
    int (*pid)(struct tide_port *);                  /* of this process; 0 in the simulator */
    /* What the kernel says of a process of this machine: 'R' and 'S' as it runs or waits, 'T' and 't' as it is stopped;
     * 0: there is none, or it is unknown. */
    char (*process_state)(struct tide_port *, int pid);
    const char *(*environment)(struct tide_port *, const char *name); /* read at start only; NULL when unset */
    /* From inside a turn of the executor: it does nothing else for `ns` (simulated: times the node's slowness). Returns
     * what of it no clock shows before the turn's end, ns. */
    uint64_t (*executor_occupy)(struct tide_executor *, uint64_t ns);
    /* Simulator only, from inside a turn: the node's other executors run, as if at the same time. */
    void (*interleave)(struct tide_port *);
};

struct tide_port {
    const struct tide_port_ops *ops;
    uint64_t seed; /* of all streams of this node */
    bool simulated;
    bool crashed; /* simulated: its executors never run again */
    /* Simulated: called now and then, between two events, for the node to look at itself (base/watch.h). */
    void (*watch)(void *arg);
    void *watch_arg;
};

/* Endpoints: "unix:PATH" (PATH begins with '/' or "@" never: no abstract sockets), "tcp:IPV4:PORT", "tcp:[IPV6]:PORT"
 * (numeric; port 0 = any), simulated: "sim:NAME". Addresses outside loopback are the caller's to refuse. */

/* seed 0: from the operating system. */
int tide_port_real_create(uint64_t seed, struct tide_port **out);
/* Body of a helper process: holds its parent to this share (0 < share < 1) of one core, by stopping and continuing it,
 * until SIGTERM, SIGINT or SIGHUP, or the parent's end. Killed by SIGKILL it may leave the parent stopped. Its only
 * thread. */
int tide_port_hold_parent(double share);
/* This process writes `text` (borrowed, kept) to stderr and ends with `code` after `ns` of real time, whatever its
 * threads do. 0 ns: not any more. A later call takes the place of an earlier one; NULL keeps text and code. */
void tide_port_alarm(uint64_t ns, const char *text, int code);
/* From now on SIGINT, SIGTERM and, unless it is ignored, SIGHUP are counted; false: they end this process again. A
 * signal that a process sends within 200 ms of the last one counted is the same one. */
void tide_port_signals(bool on);
unsigned tide_port_signalled(int *last); /* how many have been counted, and the newest; 0: none */
struct tide_signal_limit {
    unsigned count;                /* so many signals end this process, 1.5 s later, with `killed` on stderr */
    uint64_t patience_ns;          /* a SIGTERM or SIGHUP before ends it after this, with `unheeded`; 0: it does not */
    const char *killed, *unheeded; /* borrowed, kept */
    int code;                      /* of the exit */
};
void tide_port_signal_limit(const struct tide_signal_limit *limit); /* NULL: no limit */
/* The code that ends this process in order is at work: it is left that much time from now, 0: any. */
void tide_port_signal_heed(uint64_t ns);
/* From now on a crash of this process is reported on stderr, with what `teller` writes of the thread that crashed,
 * before it takes its course; so is what the main thread does when an alarm ends the process. `teller` does what a
 * signal's handler may, in the middle of anything, and returns a length. Before there are other threads. */
typedef size_t tide_port_teller(char *out, size_t size);
void tide_port_tell_crashes(tide_port_teller *teller);
/* Whether this process's standard input has ended. What still comes there is read and dropped. */
bool tide_port_input_ended(void);
/* This process, and what it starts, gains no privileges by what it runs. secrets: it holds keys, so it leaves no core
 * dump, and no other process of the user may look into its memory. EPERM. */
int tide_port_harden(bool secrets);
bool tide_endpoint_is_local(const char *endpoint); /* a Unix socket, loopback, or simulated */

static inline uint64_t tide_port_now(struct tide_port *p) {
    return p->ops->now(p);
}
static inline void tide_executor_wake(struct tide_port *p, struct tide_executor *e) {
    p->ops->executor_wake(e);
}
/* A generator that depends only on (port seed, name): a new caller never shifts another's stream. */
void tide_port_random(struct tide_port *port, const char *name, struct tide_random *out);
/* The whole of a small file; *gives* memory, zero-terminated. ENOENT, EIO; ELIMIT over `limit`. */
int tide_port_slurp(struct tide_port *port, const char *path, size_t limit, char **out, size_t *size);

/* ---- Simulator: several ports over one virtual world ---- */
struct tide_sim;
struct tide_sim_options {
    uint64_t seed;
    uint64_t latency_ns_min, latency_ns_max; /* per connection and write; default 10 us .. 200 us */
    uint64_t turn_cost_ns;                   /* virtual time of a turn; default 1 us */
    size_t chunk_max;         /* arriving bytes are cut at seeded places of 1..chunk_max; default 65536 */
    uint64_t nic_bytes_per_s; /* of every node, each way; 0: no limit (the delay is all there is) */
    size_t window_bytes;      /* of a connection: sent and not read yet; default 4 MiB */
    bool flows;               /* bulk shares the network as flows, see sim_bulk.c */
    struct tide_port *input;  /* borrowed: files that a node has not got are read from here; NULL: no */
};
int tide_sim_create(const struct tide_sim_options *options, struct tide_sim **out);
void tide_sim_destroy(struct tide_sim *sim); /* after its ports */
int tide_sim_port(struct tide_sim *sim, const char *node, struct tide_port **out);
/* Runs events until `until` (virtual ns) or until `done` says true (asked after each event). Returns
 * whether `done` said true; without `done`, whether events are left. */
bool tide_sim_run(struct tide_sim *sim, uint64_t until, bool (*done)(void *arg), void *arg);
uint64_t tide_sim_now(const struct tide_sim *sim);
uint64_t tide_sim_hash(const struct tide_sim *sim); /* over (time, node, kind, length, bytes) of every event */
uint64_t tide_sim_events(const struct tide_sim *sim);
/* Between two events: no turn of the executor is running, none is due, and nothing keeps it from taking one. */
bool tide_sim_asleep(const struct tide_executor *executor);
/* Faults: the node's executors stop for ever, its streams end at the peers with ECLOSED. */
void tide_sim_crash(struct tide_sim *sim, const char *node);
/* Executors of `node` do not run for `duration` (SIGSTOP). */
void tide_sim_pause(struct tide_sim *sim, const char *node, uint64_t duration);
/* Nothing passes between a and b (both ways) until healed by a second call with false. */
void tide_sim_partition(struct tide_sim *sim, const char *a, const char *b, bool cut);
/* The same one way: what `from` sends does not reach `to`. */
void tide_sim_cut(struct tide_sim *sim, const char *from, const char *to, bool cut);
/* Breaks the connections between a and b: each end gets some prefix of what was in flight, then ECLOSED, and
 * learns of it at a time of its own. */
void tide_sim_reset(struct tide_sim *sim, const char *a, const char *b);
/* Calls fn(arg) at virtual time `time` (at once if that is over), between two events. */
void tide_sim_at(struct tide_sim *sim, uint64_t time, void (*fn)(void *arg), void *arg);
/* Settings of a node that is or will be: how many times slower it computes; its network card. NULL: every node. */
void tide_sim_set_slowness(struct tide_sim *sim, const char *node, double times);
void tide_sim_set_nic(struct tide_sim *sim, const char *node, uint64_t bytes_per_s);
void tide_sim_set_latency(struct tide_sim *sim, uint64_t ns_min, uint64_t ns_max);
/* A node's clock, which it goes by: jumps ahead now, and from now on gains (loses) so many nanoseconds a second. Before
 * its port exists: clocks of machines began at different times and differ a little. */
enum { TIDE_DRIFT_PPB_MAX = 10000000 }; /* 1 % */
void tide_sim_set_clock(struct tide_sim *sim, const char *node, uint64_t ahead_ns, int64_t drift_ppb);
/* A node's disk. Probabilities are of one operation; all zero: a disk that works. What is not synced when the node
 * crashes is found again, not found, or found in part, whatever these say. */
struct tide_sim_disk {
    double read_error, write_error;    /* EIO; write: nothing was done */
    double torn_write;                 /* EIO, and a part of the bytes was written */
    double sync_error;                 /* EIO, and what was not durable never will be, unless it is written again */
    double crash;                      /* the node crashes before or within an operation that changes or syncs */
    uint64_t sync_ns_min, sync_ns_max; /* what syncing a file takes */
    uint64_t read_ns_min, read_ns_max; /* what a read takes */
    uint64_t capacity;                 /* bytes of all files; a write beyond fails with ENOSPC; 0: no limit */
};
void tide_sim_set_disk(struct tide_sim *sim, const char *node, const struct tide_sim_disk *disk); /* NULL: every node */
/* Calls `each` for every file on a node's disk, sorted by path; the bytes are lent. A code other than 0 ends it. */
int tide_sim_files(struct tide_sim *sim, const char *node,
                   int (*each)(void *arg, const char *path, const void *data, size_t size), void *arg);
/* How short a node is of memory: probabilities that an allocation of its turns fails. */
struct tide_sim_memory {
    double asked; /* of what its users call: it reports ENOMEM */
    double vital; /* where the runtime cannot continue (base.h): the node crashes */
};
void tide_sim_set_memory(struct tide_sim *sim, const char *node, const struct tide_sim_memory *memory);
/* All nodes reach one disk below `path`, as on a file server: its settings and damages are those of the node `path`,
 * and it keeps what is written there when a node crashes. When `path` itself crashes it is there again at once, without
 * what was not synced, and files that were open are to be opened again. Once, before it is used. */
void tide_sim_share(struct tide_sim *sim, const char *path);
/* Damage at rest: one bit of a file changes; a file loses its end. path NULL: any file that has bytes. False: none. */
bool tide_sim_flip(struct tide_sim *sim, const char *node, const char *path);
bool tide_sim_truncate(struct tide_sim *sim, const char *node, const char *path);
/* Called for every crash, also for those the disk makes; inside a turn of the node, perhaps. */
void tide_sim_on_crash(struct tide_sim *sim, void (*crashed)(void *arg, const char *node), void *arg);
void tide_sim_set_pair_latency(struct tide_sim *sim, const char *a, const char *b,
                               uint64_t ns); /* both ways; 0: as all */
void tide_sim_set_window(struct tide_sim *sim, size_t bytes);
/* A switch that all bytes between different racks share, each way together; 0: it never is the narrowest. As long as no
 * node has a rack, it lies between any two. */
void tide_sim_set_core(struct tide_sim *sim, uint64_t bytes_per_s);
void tide_sim_set_rack(struct tide_sim *sim, const char *node, unsigned rack); /* default 0 */
/* What a write and a read cost the I/O executor, and each byte of them, on a node of speed 1. */
struct tide_sim_costs {
    uint64_t send_ns, receive_ns;
    double byte_ns;
};
void tide_sim_set_costs(struct tide_sim *sim, const struct tide_sim_costs *costs);
struct tide_sim_flows {
    uint64_t started, computed, split; /* flows; computations of rates; of them by equal split (too many flows) */
};
void tide_sim_flows(const struct tide_sim *sim, struct tide_sim_flows *out);
bool tide_sim_runs(const struct tide_sim *sim, const char *node); /* it has a port and has not crashed */
/* How long a computation that takes `ns` on a node of speed 1 takes on this one. */
uint64_t tide_sim_cost(const struct tide_port *port, uint64_t ns);
/* Called for every event that enters the hash, before it takes effect; NULL: none. */
struct tide_sim_event {
    uint64_t number, time, length, checksum, hash; /* hash: of the run, this event included */
    const char *node, *kind;
};
void tide_sim_observe(struct tide_sim *sim, void (*event)(void *arg, const struct tide_sim_event *), void *arg);

#endif
