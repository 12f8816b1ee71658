/*
 * The control store: what the controller has decided, kept where its death does not take it. A map
 * from keys to values, changed by numbered entries of several keys each, all or nothing. One
 * *leader* at a time may change it; each leader has a *term*, which rises strictly over all leaders
 * there ever were. A command of a controller carries its term, and whoever obeys keeps the highest
 * and refuses lower: that, and no lease, is what fences an old controller.
 *
 * The back end decides where entries go and who leads; what is in them is in memory here
 * (control_state.c) and the same for all. Back ends: a log file (journal.c), or nothing but memory
 * (a cluster that lives as long as its controller). A replicated log has its place here too:
 * therefore an entry may take effect later than the call.
 *
 * The keys: "view" [number, next id], "controller" id, "member/<id>", "table/<id>",
 * "batch/<table>/<version>". Everything on I/O thread 0, but for opening.
 */
#ifndef TIDE_NET_CONTROL_H
#define TIDE_NET_CONTROL_H

#include "wire/wire.h"

struct tide_port;
struct tide_control;

enum {
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
    void (*put)(struct tide_control *control, const struct tide_control_put *puts, size_t count,
                tide_control_done done, void *arg);
    void (*destroy)(struct tide_control *control); /* and leads no more */
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
};

/* NULL: no such key. The value is borrowed, until the next change. */
const struct tide_control_pair *tide_control_get(const struct tide_control_state *state,
                                                 const char *key);
/* The first pair whose key begins with `prefix`, or the one after `last`; NULL: no more. */
const struct tide_control_pair *tide_control_list(const struct tide_control_state *state,
                                                  const char *prefix,
                                                  const struct tide_control_pair *last);
/* An entry: [term, index, key, value or nil, ...]. */
void tide_control_entry_write(struct tide_writer *w, uint64_t term, uint64_t index,
                              const struct tide_control_put *puts, size_t count);
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
 * alone. Any thread, blocks. EBUSY: another process has it; EVERSION: another version wrote it;
 * EPROTO: it is damaged in its middle. A torn last entry, whose decision nobody has heard of, is
 * dropped with a line in the log under `name`. */
int tide_control_open(struct tide_port *port, const char *directory, const char *name,
                      struct tide_control **out);

/* The bytes of a journal, for the reader of files and its fuzzer: fills `state`, says how many
 * bytes are good. Bytes after those are a torn entry. Errors as above. */
int tide_control_journal_parse(const void *data, size_t size, struct tide_control_state *state,
                               size_t *good);

#endif
