/* The controller's list of tables: catalog.c keeps it, move.c plans over it. I/O thread 0. */
#ifndef TIDE_STORE_CATALOG_H
#define TIDE_STORE_CATALOG_H

#include "store/core/technique.h"

enum tide__catalog_phase {
    TIDE__CATALOG_RECORD,  /* the controller's decision is being recorded */
    TIDE__CATALOG_PREPARE, /* nodes make the table */
    TIDE__CATALOG_COMMIT,  /* nodes let it be found */
    TIDE__CATALOG_READY,
    TIDE__CATALOG_CHANGE, /* of a table that all nodes have, something else is recorded, then announced */
    TIDE__CATALOG_CLOSE,  /* it is being dropped: nodes let nothing new begin (operation/drop.c) */
    TIDE__CATALOG_DROP,   /* nothing of it is in flight: nodes free it */
    TIDE__CATALOG_GONE,   /* its place is free for another life */
};

/* Of a slot with copies: does every push that its home made before its group last changed lie with
 * all of the group by now? */
enum tide__settling { TIDE__UNSETTLED, TIDE__SETTLING /* its home was asked */, TIDE__SETTLED };

struct tide__caller;
struct tide__catalog_entry {
    struct tide__catalog_entry *next;
    struct tide_table_options options; /* with which it was made */
    float rate;                        /* in force: learning_rate.c */
    uint32_t changes;                  /* of it */
    char name[64];
    uint32_t id;
    enum tide__catalog_phase phase;
    uint32_t version; /* of the slot map */
    bool recorded;    /* in phase RECORD, CHANGE or CLOSE: the round may start */
    bool begun;       /* in phase CHANGE or CLOSE: and has */
    bool tell;        /* all nodes are to hear the map, once it is recorded */
    uint16_t homes[TIDE_SLOT_COUNT];
    uint32_t versions[TIDE_SLOT_COUNT];
    uint64_t chains[TIDE_SLOT_COUNT];  /* tables with copies: their holders, in order (replica.h) */
    uint16_t joining[TIDE_SLOT_COUNT]; /* and the joiner; 0: none */
    uint8_t settling[TIDE_SLOT_COUNT]; /* enum tide__settling */
    struct tide__caller *callers;      /* of CREATE, until their node has the table; of a change, a drop */
    uint32_t waiting_count;
    uint8_t waiting[65536 / 8]; /* nodes that have not finished this round */
    uint8_t has[65536 / 8];     /* nodes where the table can be found */
};

struct tide__catalog {
    struct tide__catalog_entry *entries;
    uint32_t last_place;
    uint64_t term; /* in which this node took command; 0: it does not command */
};

int tide__catalog_create(struct tide_store *store);
void tide__catalog_destroy(struct tide_store *store);
/* The state of a member is new: a node that has joined is sent all tables; */
void tide__catalog_member(struct tide_store *store, const struct tide_member *member);
void tide__catalog_welcomed(struct tide_store *store, uint16_t node); /* and that these were all */

/* Where nodes have the table: an id is a place and the number of its life there. */
static inline uint32_t tide__catalog_place(uint32_t id) {
    return id & (TIDE__TABLES_MAX - 1);
}

/* Do all nodes have it, and is it to stay? */
static inline bool tide__catalog_stands(const struct tide__catalog_entry *entry) {
    return entry->phase == TIDE__CATALOG_READY || entry->phase == TIDE__CATALOG_CHANGE;
}

tide__handler tide__create_call, tide__keys_call, tide__clear_call, tide__forget_call, tide__drop_call,
    tide__catalog_table, tide__catalog_done, tide__catalog_synced, tide__catalog_dropped, tide__learning_rate_call;

/* Can the table be found at the node? */
static inline bool tide__catalog_has(const struct tide__catalog_entry *entry, uint16_t node) {
    return entry->has[node / 8] >> (node % 8) & 1;
}

/* Something of a table in phase READY has changed: it is recorded, then sent to all nodes, then the caller is
 * answered. A code: nothing was done. */
int tide__catalog_change(struct tide_store *store, struct tide__catalog_entry *entry,
                         const struct tide_message *message);
/* To the controller: this node has made the table, or could not. */
void tide__catalog_made(struct tide_store *store, uint32_t id, int code, uint64_t changes, const char *why);
struct tide__catalog_entry *tide__catalog_entry_of(const struct tide_store *store, uint64_t id); /* or NULL */
/* Ids of nodes that may be home of slots, ascending; *gives* the array. */
int tide__catalog_homes(struct tide_store *store, uint16_t **out, size_t *count);

enum { TIDE__CATALOG_KEY_BYTES = 40 };
/* A table as it is recorded, under its key: options, slot map. *gives* the bytes in w. */
void tide__catalog_write(const struct tide__catalog_entry *entry, struct tide_writer *w,
                         char key[TIDE__CATALOG_KEY_BYTES]);
/* The same back, into an empty entry. EPROTO: it is damaged. */
int tide__catalog_read(struct tide__catalog_entry *entry, const struct tide_control_pair *pair);
/* Hands out what has been recorded since. */
void tide__catalog_resume(struct tide_store *store);
/* This node leads, perhaps since now: what was recorded of tables and moves is here. False: not,
 * not yet, or no more: then it is forgotten. The store actor alone. */
bool tide__catalog_commands(struct tide_store *store);

#endif
