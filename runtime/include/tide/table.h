/* Parameter tables: pull, push, techniques, consistency, samplers. See tide.h. */
#ifndef TIDE_PUBLIC_TABLE_H
#define TIDE_PUBLIC_TABLE_H

#include "tide/actor.h"

#ifdef __cplusplus
extern "C" {
#endif

struct tide_table;
struct tide_update_rule; /* tide/rule.h */

enum { TIDE_SLOTS = 4096 }; /* of a table */

enum tide_keys { TIDE_KEYS_DENSE, TIDE_KEYS_HASHED };
/* Which row of a hashed table makes room for a new key: none; the least frequently used. */
enum tide_evict { TIDE_EVICT_NONE, TIDE_EVICT_LFU };
enum { TIDE_ADMIT_MOST = 15 };
#define TIDE_UNUSED_NS_MIN UINT64_C(1000000000)
#define TIDE_UNUSED_NS_MAX (UINT64_C(3650) * 86400 * 1000000000)
enum tide_slots { TIDE_SLOTS_HASH, TIDE_SLOTS_RANGE };
enum tide_init { TIDE_INIT_ZERO, TIDE_INIT_UNIFORM, TIDE_INIT_NORMAL, TIDE_INIT_XAVIER };
enum tide_update {
    TIDE_UPDATE_ADD,
    TIDE_UPDATE_ASSIGN,
    TIDE_UPDATE_SGD,
    TIDE_UPDATE_ADAGRAD,
    TIDE_UPDATE_ADAM,
    TIDE_UPDATE_MOMENTUM,
    TIDE_UPDATE_NESTEROV,
    TIDE_UPDATE_TOTAL, /* assign, and in bsp tables of the sum that all pushed in a clock */
    TIDE_UPDATE_OWN,   /* by name: `rule` */
};
enum tide_wire_type { TIDE_WIRE_F32, TIDE_WIRE_F16, TIDE_WIRE_BF16 };
/* What is done so that an access finds its row on its own node (docs/guides/consistency.md,
 * docs/internals/relocation.md). */
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
/* What an answered push survives (docs/guides/faults.md). DEFAULT: strict with replicas, else none. */
enum tide_clients { TIDE_CLIENTS_WRITE, TIDE_CLIENTS_READ, TIDE_CLIENTS_NONE };
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
 * How stale a pulled value may be (docs/guides/consistency.md). What follows is of workers (tide_worker_begin); a fiber
 * that is none always reads and writes the rows at their homes, as in a sequential table. A worker at clock c sees its
 * own pushes and, of all workers,
 */
enum tide_model {
    TIDE_SEQUENTIAL, /* what was pushed before: every access of another node's key is a message */
    TIDE_BSP,        /* exactly the pushes of stamps up to c - 1 */
    TIDE_SSP,        /* at least those up to c - 1 - staleness; a copy is fetched anew when it is too old */
    TIDE_ESSP,       /* the same; every clock, homes push the rows that changed to the nodes that hold copies */
    TIDE_ASYNC,      /* those a copy had that is at most `age_ms` old, or was while a new one is in flight */
    TIDE_VAP, /* all but updates that together change no value by more than the bound: it is the pushes that wait */
};
struct tide_consistency {
    uint8_t model;     /* enum tide_model */
    bool reproducible; /* bsp: contributions are summed in the order of workers: the same bits on any number of nodes */
    uint32_t staleness; /* ssp, essp: at most TIDE_STALENESS_MAX */
    uint32_t age_ms;    /* async; default 50 */
    double bound;       /* vap: the most that a reader may miss of a worker's pushes, in each value of a row */
    bool flat;          /* vap: at every clock; else bound / sqrt(clock + 1) */
};
enum { TIDE_STALENESS_MAX = 60 };
/* Which updates and rows of a table with clocks leave before the clock that closes them, within the
 * bandwidth (docs/guides/consistency.md): none; the largest relative to their row, the oldest, any first. */
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
    const char *name; /* identifier, unique in the cluster */
    uint8_t keys;     /* enum tide_keys */
    uint8_t slots;    /* enum tide_slots; hashed tables: always by hash */
    uint8_t init;   /* enum tide_init; a, b: uniform [a, b); normal standard deviation a; xavier fan-in a, fan-out b */
    uint8_t update; /* enum tide_update */
    uint8_t wire;   /* enum tide_wire_type: values on the wire */
    uint8_t technique;  /* enum tide_technique, of keys that are not managed otherwise */
    uint8_t replicas;   /* copies of each row on other nodes, 0..2; technique static only */
    uint8_t durability; /* enum tide_durability: what an answer to a push promises, see docs/guides/faults.md */
    /* window: pushes are answered at once while all that was answered so long ago is on the copies, and rows with
     * less than so many bytes are not; 0: 50 ms, 64 MiB. TIDE_WINDOW_... bound them. */
    uint64_t window_ns, window_bytes;
    uint8_t clients;    /* enum tide_clients: what processes that are no nodes may do */
    bool refuse_nan;    /* a push with a NaN or infinity fails with ENAN; else it is counted and applied */
    uint64_t key_count; /* dense: keys 0..key_count-1 */
    uint64_t key_limit; /* hashed: most keys per node, copies included; EFULL beyond, unless `evict`; 0: no limit */
    /* Hashed, technique static, sequential and without copies: which keys have rows (docs/guides/large-tables.md). A
     * key gets one by its `admit_after`th push (0, 2 .. TIDE_ADMIT_MOST; needs key_limit); a row that was not accessed
     * for `unused_ns` goes (0: never; TIDE_UNUSED_...); at the limit a new key takes the place of another (`evict`:
     * enum tide_evict). Pushes of other keys are answered, counted and dropped. */
    uint8_t admit_after, evict;
    uint64_t unused_ns;
    uint32_t width;
    float init_a, init_b;
    /* sgd: lr. adagrad: lr, epsilon (default 1e-10), initial sum. adam: lr, beta1 0.9, beta2 0.999, epsilon 1e-8.
     * momentum, nesterov: lr, beta1 0.9: how much of the velocity stays. Where 0 stands the default is meant. A rule of
     * your own: numbers[0] is lr, numbers[1] its first number, as they are. tide_table_options returns the lr that the
     * table was made with; the one in force is tide_table_rate's. */
    __extension__ union {
        __extension__ struct { float lr, beta1, beta2, epsilon, sum_init; };
        float numbers[8];
    };
    /* TIDE_UPDATE_OWN: what tide_rule_register was given; version "": the one registered last. A node that does not
     * have the rule loads `rule_file`, and a table is refused where that does not help. Whoever creates a table sets
     * name and version, Tide the rest. */
    char rule[48], rule_version[65], rule_file[160];
    const struct tide_update_rule *own; /* on this node */
    uint64_t seed;
    /* Models other than sequential want technique static and f32 on the wire. `add`, `sgd`, `assign` and `adagrad` act
     * on a node's copy at once; pushes by the others (`adam`, `momentum`) show when the row comes back from its home.
     */
    struct tide_consistency consistency;
    uint64_t cache_bytes;       /* most memory of copies on a node; 0: 1 GiB */
    uint32_t unsubscribe_after; /* clocks a copy lives without being read; 0: 16 */
    uint8_t send_order;         /* enum tide_send_order; ssp and essp only */
    uint64_t bandwidth;         /* bytes/s to another node that early sends may fill up; 0: as measured */
    /* Of runs, numbers that are never given again; 0: none. Not compared when a table of the name exists. */
    uint32_t run;    /* whose memory the table takes */
    uint32_t domain; /* whose clocks it has: of the workers that began in it, tide_worker_begin_in. To all others it is
                      * sequential: they read and write at the homes */
    uint64_t run_memory; /* most bytes of all tables of `run` on a node, the same in each; 0: any. Tables and pushes of
                          * new rows beyond it are refused: EBUSY */
    /* Second tier: at most tier_memory bytes of rows and what belongs to them are in a node's memory, the other rows on
     * its disk, below the directory tier_disk. Sequential tables of technique static or relocate without replicas and
     * without a limit of keys; else EUNSUPPORTED. A row that cannot be read back is an error: ELOST. "": none. */
    uint64_t tier_memory;
    char tier_disk[160];
};

/* Creates the table on all nodes, or finds it when one of equal options exists (EMISMATCH if they differ). Fibers. */
int tide_table_create(struct tide_node *node, const struct tide_table_options *options, struct tide_table **out);
/* The controller, when no other member is left: the names of all tables are free again. Those who still have one find
 * its rows gone. EBUSY: another member may hold rows, or this node is not the controller. Fibers. */
int tide_tables_forget(struct tide_node *node);
/* The table of that name, if it exists. Any thread. */
int tide_table_find(struct tide_node *node, const char *name, struct tide_table **out);
/* What create and find gave is not needed any more. A table that is dropped is freed when its last holder releases it.
 */
void tide_table_release(struct tide_table *table);
/* The table goes on all nodes, its rows too; its name is free at once. Operations in flight end as always, or fail
 * after a second, and new ones are refused: ECLOSED. ENOENT: there is none of that name. Fibers. */
int tide_table_drop(struct tide_node *node, const char *name);
const struct tide_table_options *tide_table_options(const struct tide_table *table);
/* The learning rate in force on this node; NaN: the table's rule has none. Any thread. */
float tide_table_rate(const struct tide_table *table);
/* Another rate, on all nodes and on those that join, kept where the cluster keeps its tables. When this returns, all
 * nodes take their steps by it: a push is applied by the rate of the node that has the row when it comes there. EINVAL:
 * the rule has no rate, or no such rate. ETIMEDOUT, EDIED: it may have been changed all the same. Fibers. */
int tide_table_set_rate(struct tide_table *table, float rate);

/* An asynchronous operation; embed it anywhere, keep it until waited for. */
struct tide_ticket {
    void *opaque[6];
};

/*
 * Pull: rows[i] = values of keys[i] (row-major, width floats each). Keys in any order, duplicates allowed.
 * Push: applies rows[i] to keys[i] by the table's update rule, in order. Local keys are read and written in place.
 * ticket NULL: waits (fibers only). Else returns when it is in flight: at once, unless 1,024 messages or 4 MiB to a
 * home are unanswered already, for which a fiber waits and any other caller gets EBUSY. `rows` of a pull must live
 * until the ticket is done; the rows of a push are copied. Per key: synchronous operations are sequentially consistent,
 * one worker's (a fiber's) operations take effect in program order. In a table with copies an operation waits for that
 * until asynchronous pulls of its keys, of the same worker, are answered. Errors: ERANGE (names key and limit; nothing
 * was done), ENAN, EFULL, EDIED, ELOST, EFENCED, ETIMEDOUT.
 */
int tide_table_pull(struct tide_table *table, const uint64_t *keys, size_t key_count, float *rows,
                    struct tide_ticket *ticket);
int tide_table_push(struct tide_table *table, const uint64_t *keys, size_t key_count, const float *rows,
                    struct tide_ticket *ticket);
/* Only what this node holds; bit i of `hit` tells whether rows[i] was filled. Never waits. Returns the number of hits.
 */
size_t tide_table_pull_local(struct tide_table *table, const uint64_t *keys, size_t key_count, float *rows,
                             uint64_t *hit);
bool tide_ticket_done(const struct tide_ticket *ticket);
/* Waits (fibers only) and frees the ticket; returns the operation's result. Every ticket is waited for once. */
int tide_ticket_wait(struct tide_ticket *ticket);

/*
 * Brings the rows of `keys` to this node (technique "relocate"; else a no-op, counted). Ticket NULL: waits (fibers
 * only). Done means: each row was here at that moment, and what this node asked of it before has run. It does not mean
 * that it stays: another node may take it at once; then access is remote again. Errors: ERANGE, ENOMEM and EFULL (no
 * room: access stays remote), EDIED (the row, or the node that knows where it is, is gone).
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
    uint8_t scheme;                /* enum tide_sampling */
    uint32_t group, reuse;         /* pools; default 250 and 16 */
    uint64_t first_key, key_count; /* candidates first_key .. first_key + key_count - 1; 0: all of a dense table */
    const double *weights;         /* key_count weights, read during creation; NULL: uniform */
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
int tide_sampler_create(struct tide_table *table, const struct tide_sampler_options *options,
                        struct tide_sampler **out);
/* Abandons what is open. */
void tide_sampler_destroy(struct tide_sampler *sampler);
/* Announces a sample of `count` keys: the earlier, the more is local when it is pulled. *sample names it. Errors:
 * ELIMIT (2^20 keys, 4096 open samples), ENOMEM, the draw's own. Inside. */
int tide_sampler_prepare(struct tide_sampler *sampler, size_t count, uint32_t *sample);
/* The next `count` keys of a sample, and their rows unless `rows` is NULL. Errors: EINVAL (no such sample, or fewer
 * keys are left: names them), and those of tide_table_pull. Fibers. */
int tide_sampler_pull(struct tide_sampler *sampler, uint32_t sample, size_t count, uint64_t *keys, float *rows);
/* Ends a sample, used up or not. Error: EINVAL (no such sample). Fibers. */
int tide_sampler_finish(struct tide_sampler *sampler, uint32_t sample);
void tide_sampler_stats(const struct tide_sampler *sampler, struct tide_sampler_stats *out);

/*
 * Gives slots (0..TIDE_SLOTS-1) of a table to `node` while all continue to work; those that are there already stay. The
 * controller plans and records it. Returns when all are there and nothing goes by their old homes any more. Tables with
 * replicas are refused: their controller places the copies. All slots are moved, or none is: EINVAL (no such slot; no
 * node of that id that is up and holds rows), EBUSY (one of them is on the move already), ENOENT (a slot's home died),
 * EREFUSED. Or it began: ELOST (`node` died meanwhile, and with it the rows that had reached it), EDIED (the controller
 * did: one that keeps its state continues with it), ETIMEDOUT (after 600 s; the move continues).
 * Fibers.
 */
int tide_table_move(struct tide_table *table, const uint32_t *slots, size_t slot_count, uint16_t node);
/* Home of each slot by the newest map this node knows: homes[TIDE_SLOTS]. Any thread. */
void tide_table_slot_homes(struct tide_table *table, uint16_t *homes);
/* Keys of each slot that this node has pulled and pushed on behalf of other nodes since the table was made:
 * served[TIDE_SLOTS]. What workers of this node do in place is not counted. Any thread. */
void tide_table_slot_served(struct tide_table *table, uint64_t *served);

/* Node that has the row of a key, as far as this node knows: its owner, if that is this node or the home is; else the
 * home. */
int tide_table_where(struct tide_table *table, uint64_t key, uint16_t *node);
/* Slot of a key, by which it has its home: the same on all nodes. */
uint32_t tide_table_slot(const struct tide_table *table, uint64_t key);

/*
 * Techniques of single keys. Copies of shared keys (techniques replicate and intent) are read and written by the
 * workers of their node in place. In rounds, what accumulated there goes to the owners of the rows and rows that
 * changed come back: a worker sees its own pushes at once and those of others somewhat later, in no common order, and
 * when pushes end, all copies become equal. An update that was not sent yet is lost when its node dies (not
 * when it leaves). Rules add, sgd and adagrad; tables without clocks and without replicas: else EUNSUPPORTED.
 */
struct tide_share_options {
    const uint16_t *nodes; /* replicate: nodes with copies; none named: all, those that join later too */
    size_t node_count;
    /* of the table's shared keys: */
    uint32_t rate;   /* rounds a second at most; 0: 100 */
    float threshold; /* an update waits until its largest entry is this, at most 1 s */
    float clip; /* an update longer than so many times the mean one is cut to that, after 1,000 updates; 0: none is */
};
/* Notifies all nodes; done means notified, not carried out. options NULL: defaults. Fibers. ERANGE, EINVAL,
 * EUNSUPPORTED. */
int tide_table_manage(struct tide_table *table, const uint64_t *keys, size_t key_count, uint8_t technique,
                      const struct tide_share_options *options);
/* The technique of a key, as this node knows; *copy: it has a copy now. Any thread. */
uint8_t tide_table_technique(struct tide_table *table, uint64_t key, bool *copy);
/* What was pushed to copies before is at the owners when this returns. Fibers. */
int tide_table_flush(struct tide_table *table);

/*
 * The calling worker will use the keys in its clocks clock_begin .. clock_end - 1 (techniques intent and relocate; else
 * a no-op, counted with those of localize). Never waits; when that is near, rows come here or copies are made. Nothing
 * depends on it but speed. EBUSY: too many are queued, the access will be remote. EINVAL: no worker. ERANGE.
 */
int tide_table_intent(struct tide_table *table, const uint64_t *keys, size_t key_count, uint32_t clock_begin,
                      uint32_t clock_end);

struct tide_share_age {
    uint64_t mean_ns, max_ns;
};
struct tide_share_stats {                       /* of this node */
    uint64_t keys, copies;                      /* keys that are managed or shared here; copies here now */
    uint64_t hits, refused;                     /* keys served by copies; keys that got none: no room */
    uint64_t updates_out, rows_in, notices_out; /* in keys */
    uint64_t updates_failed, clipped;           /* not applied, or not known to be: the owner died; cut */
    struct tide_share_age unsent;               /* how old updates are when they are at the owner */
    struct tide_share_age behind; /* how old rows get that have changed at the owner, without the way of the notice */
};
void tide_table_share_stats(struct tide_table *table, struct tide_share_stats *out); /* any thread */

enum { TIDE_RELOCATE_BUCKETS = 56 };
/* Counted in keys unless named otherwise, on this node. */
struct tide_table_stats {
    uint64_t pulls_local, pulls_remote, pushes_local, pushes_remote;
    uint64_t served_pulls, served_pushes; /* for other nodes */
    uint64_t queued, forwarded;           /* held for a slot or row on the move; passed on to another node */
    uint64_t messages_out, bytes_out, bytes_in;
    uint64_t not_finite; /* pushed rows with a NaN or infinity */
    uint64_t rows, memory_bytes;
    uint64_t localized, localize_noop;             /* keys of localize calls; those on static tables */
    uint64_t relocated_in, relocated_out;          /* rows that came and went */
    uint64_t relocate_ns_sum, relocate_ns_max;     /* from the request to the row's arrival */
    uint64_t relocate_hist[TIDE_RELOCATE_BUCKETS]; /* rows by that time: [0] below 512 ns, then two an octave */
    uint64_t location_used, location_stale; /* of this node: went straight to where they were last; were not there */
    uint64_t cold_rows, disk_bytes;         /* second tier: rows that are on the disk alone; what its files take */
    uint64_t frozen, thawed, compacted;     /* and rows written to it, read from it, moved within it */
    uint64_t surprises;                     /* relocation messages that should not exist: ignored */
    uint64_t not_admitted;                  /* pushed rows that a table that forgets dropped */
    uint64_t evicted, expired;              /* rows that made room for others; that were not used */
    /* durability window. As home: bytes of rows with answered changes that are not on all copies, most ever, the bound.
     * As origin: pushes of this node's workers that may have died with the homes that had answered them. */
    uint64_t unreplicated, unreplicated_most, unreplicated_bound, lost_updates;
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
/* How long this node has had operations in flight to the store of another one since its start, ns: what it asked that
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
 * interval c has stamp c. Consistency models, intents and exact checkpoints are in these clocks.
 */
/* The calling fiber is worker `worker` of the run from now. EINVAL: it is one already, or no fiber of a node. */
int tide_worker_begin(struct tide_node *node, uint32_t worker, uint32_t clock);
/* The same in a domain of clocks (tide_table_options): workers wait for those of their domain alone. */
int tide_worker_begin_in(struct tide_node *node, uint32_t domain, uint32_t worker, uint32_t clock);
/* It is none any more; no worker waits for its clock. The end of the fiber does the same. Fibers. */
void tide_worker_end(void);
/* The calling fiber's clock; -1: it is no worker. It may begin at a higher clock than it asked for: a clock that others
 * was notified of as over stays over. Any thread. */
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

/* Changes the bound of a table with clocks, on all nodes: larger at once, smaller from each worker's next clock. ssp
 * and essp may change into each other; every other model stays. Of changes that several nodes make at once the same one
 * is in force everywhere in the end. EINVAL, EUNSUPPORTED. Fibers. */
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

struct tide_staleness {               /* of this node */
    struct tide_worker_staleness all; /* of its workers together */
    uint64_t copies, copy_bytes, evicted;
    uint64_t values_in, values_out, deltas_out; /* rows */
    uint64_t value_bytes, answer_bytes;         /* sent: rows for copies; those of them that were requested */
    uint64_t delta_bytes;                       /* sent: updates for homes */
    uint64_t early_rows, early_bytes;           /* of these: before their clock */
    uint64_t confirm_bytes;                     /* sent, vap: which node has seen what */
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

#ifdef __cplusplus
}
#endif
#endif
