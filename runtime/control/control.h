/*
 * The control store: what the controller has decided, kept where its death does not take it. A map
 * from keys to values, changed by numbered entries of several keys each, all or nothing. One
 * *leader* at a time may change it; each leader has a *term*, which rises strictly over all leaders
 * there ever were. A command of a controller carries its term, and its receiver keeps the highest
 * and refuses lower: that, and no lease, is what fences an old controller.
 *
 * The back end decides where entries go and which node leads; what is in them is in memory here
 * (control_state.c) and the same for all. Back ends: a log file (journal.c), nothing but memory (a
 * cluster that lives as long as its controller), or a log that several nodes hold (raft.c, a
 * plugin), where another node may lead next. An entry takes effect when it is durable, later than the call.
 *
 * The keys: "view" [number, next id], "controller" id, "controllers" how many nodes hold a
 * replicated log, "member/<id>", "table/<id>", "batch/<table>/<version>". Everything on I/O thread
 * 0, but for opening; back ends write their files on the disk thread.
 */
#ifndef TIDE_NET_CONTROL_H
#define TIDE_NET_CONTROL_H

#include "wire/wire.h"

struct tide_port;
struct tide_node;
struct tide_control;

enum {
    TIDE_CONTROLLERS_MAX = 5,           /* holders of a replicated log */
    TIDE_CONTROL_KEY_MAX = 120,         /* bytes of a key, its end included */
    TIDE_CONTROL_VALUE_MAX = 256 << 10, /* bytes of a value */
    TIDE_CONTROL_ENTRY_MAX = 8 << 20,   /* bytes of an encoded entry */
    TIDE_CONTROL_STATE_MAX = 256 << 20, /* bytes of all keys and values */
};

struct tide_control_put {
    const char *key;
    const void *value; /* NULL: the key goes */
    size_t size;
};

/* code 0: the entry is where the back end keeps it, and in the state. Else this node controls no
 * more, and decides nothing any more. Entries are done in the order of their puts; `done` may be
 * called before put returns. */
typedef void (*tide_control_done)(void *arg, int code);

struct tide_control_ops {
    /* Becomes leader: *term is above all there were. */
    int (*campaign)(struct tide_control *control, uint64_t *term);
    void (*put)(struct tide_control *control, const struct tide_control_put *puts, size_t count, tide_control_done done,
                void *arg);
    void (*destroy)(struct tide_control *control); /* and leads no more */

    /* Of a replicated log alone, else NULL. */
    void (*receive)(struct tide_control *control, uint16_t from, struct tide_reader *r);
    /* Does what is due; returns when something is due again. */
    uint64_t (*turn)(struct tide_control *control, uint64_t now);
    /* The term in which this node leads and has all that was decided before; 0: it does not. A
     * leader whose put failed leads no more in that term, though perhaps in another one. */
    uint64_t (*leads)(const struct tide_control *control);
    /* Lets another one lead. ENOENT: there is none. */
    int (*hand_over)(struct tide_control *control);
    /* Ids of the nodes that hold the log and vote; returns how many there are. */
    size_t (*holders)(const struct tide_control *control, uint16_t *ids, size_t limit);
    /* Leader: that node is to hold the log, or not to. EBUSY: such a change is pending. */
    int (*hold)(struct tide_control *control, uint16_t id, bool holds);
};

/* What a replicated log needs of its node, I/O thread 0. */
struct tide_control_host {
    struct tide_port *port;
    struct tide_node *node; /* tide_control's */
    const char *name;       /* for the log */
    uint16_t self;
    const char *directory;        /* where it is kept on disk too; NULL: nowhere */
    uint64_t log_index, log_term; /* of the log that a new one continues from; 0: none */
    void *arg;
    /* To another holder, as far as there is a connection; may be lost. False: there is none. */
    bool (*send)(void *arg, uint16_t to, const void *message, size_t size);
};

/* ---- the state (control_state.c); pure ---- */

struct tide_control_pair {
    char *key;
    void *value;
    size_t size;
};

struct tide_control_state {
    struct tide_control_pair *pairs; /* by key */
    size_t count, capacity, bytes;
    uint64_t term, index; /* of the last entry; 0: none */
};

struct tide_control {
    const struct tide_control_ops *ops;
    struct tide_control_state state;
    uint64_t under_way;     /* puts that are not done */
    struct tide_node *node; /* whose disk thread writes; NULL, as after opening: the calling thread, which blocks */
};

/* NULL: no such key. The value is borrowed, until the next change. */
const struct tide_control_pair *tide_control_get(const struct tide_control_state *state, const char *key);
/* The first pair whose key begins with `prefix`, or the one after `last`; NULL: no more. */
const struct tide_control_pair *tide_control_list(const struct tide_control_state *state, const char *prefix,
                                                  const struct tide_control_pair *last);
/* An entry: [term, index, key, value or nil, ...]. */
void tide_control_entry_write(struct tide_writer *w, uint64_t term, uint64_t index, const struct tide_control_put *puts,
                              size_t count);
/* The whole state as one entry. */
void tide_control_snapshot_write(struct tide_writer *w, const struct tide_control_state *state);
/* Applies an entry, foreign bytes: EPROTO for anything that no writer writes (the index must
 * follow, the term may not fall), ELIMIT over a bound, ENOMEM; then the state is as it was, ENOMEM
 * excepted. */
int tide_control_apply(struct tide_control_state *state, const void *entry, size_t size);
/* Replaces the state by a snapshot; the same errors. */
int tide_control_restore(struct tide_control_state *state, const void *snapshot, size_t size);
void tide_control_state_release(struct tide_control_state *state);

/* ---- back ends (journal.c) ---- */

/* Opens or begins the journal in `directory`, which is made if missing; `directory` NULL: memory
 * alone. Any thread, blocks. EBUSY: another process has
 * it; EVERSION: another version wrote it; EPROTO: it is damaged in its middle. A torn last entry, whose decision was
 * not announced, is dropped with a line in the log under `name`. */
int tide_control_open(struct tide_port *port, const char *directory, const char *name, struct tide_control **out);

/* The replicated log, from the plugin tide_raft.so. `state`: it is new and begins with that, and this
 * node is its only holder and leads at once; NULL: it comes from those that have it. EUNSUPPORTED:
 * there is no such plugin, the text says why. */
int tide_control_replicate(const struct tide_control_host *host, const struct tide_control_state *state,
                           struct tide_control **out);

/* The one symbol of the plugin. `version` comes first and never moves. */
struct tide_control_plugin {
    const char *version; /* TIDE_VERSION of its build */
    int (*open)(const struct tide_control_host *host, const struct tide_control_state *state,
                struct tide_control **out);
};
#define TIDE_CONTROL_PLUGIN tide_control_plugin_raft

/* The bytes of a journal, for the reader of files and its fuzzer: fills `state`, says how many
 * bytes are good. Bytes after those are a torn entry. Errors as above. */
int tide_control_journal_parse(const void *data, size_t size, struct tide_control_state *state, size_t *good);

#endif
