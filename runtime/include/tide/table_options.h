/* What a table is made with: keys, update rule, technique, durability, consistency. See tide.h. */
#ifndef TIDE_PUBLIC_TABLE_OPTIONS_H
#define TIDE_PUBLIC_TABLE_OPTIONS_H

#include "tide/actor.h"

#ifdef __cplusplus
extern "C" {
#endif

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
#define TIDE_TABLE_OPTIONS_INIT .size = sizeof(struct tide_table_options)
struct tide_table_options {
    size_t size;      /* of this struct (tide/actor.h); 0: its first layout */
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
    /* Models other than sequential need technique static and f32 on the wire. `add`, `sgd`, `assign` and `adagrad` act
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

#ifdef __cplusplus
}
#endif
#endif
