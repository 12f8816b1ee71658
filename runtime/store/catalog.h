/* The controller's list of tables: catalog.c keeps it, move.c plans over it. I/O thread 0. */
#ifndef TIDE_STORE_CATALOG_H
#define TIDE_STORE_CATALOG_H

#include "store/store_internal.h"

enum tide__catalog_phase {
    TIDE__CATALOG_RECORD,  /* the controller's decision is being recorded */
    TIDE__CATALOG_PREPARE, /* nodes make the table */
    TIDE__CATALOG_COMMIT,  /* nodes let it be found */
    TIDE__CATALOG_READY,
    TIDE__CATALOG_FAILED,
};

struct tide__caller;
struct tide__catalog_entry {
    struct tide__catalog_entry *next;
    struct tide_table_options options;
    char name[64];
    uint32_t id;
    enum tide__catalog_phase phase;
    uint32_t version; /* of the slot map */
    bool tell;        /* all nodes are to hear the map, once it is recorded */
    uint16_t homes[TIDE_SLOT_COUNT];
    uint32_t versions[TIDE_SLOT_COUNT];
    uint64_t chains[TIDE_SLOT_COUNT];  /* tables with copies: who has them, in order (replica.h) */
    uint16_t joining[TIDE_SLOT_COUNT]; /* and who is to; 0: nobody */
    struct tide__caller *callers; /* of CREATE, until their node has the table */
    uint32_t waiting_count;
    uint8_t waiting[65536 / 8]; /* nodes that have not finished this round */
    uint8_t has[65536 / 8];     /* nodes where the table can be found */
};

struct tide__catalog {
    struct tide__catalog_entry *entries;
    uint32_t last_id;
    uint64_t term; /* in which this node took command; 0: it does not command */
};

/* Ids of nodes that may be home of slots, ascending; *gives* the array. */
int tide__catalog_homes(struct tide_store *store, uint16_t **out, size_t *count);

enum { TIDE__CATALOG_KEY_BYTES = 40 };
/* A table as it is recorded, under its key: options, slot map. *gives* the bytes in w. */
void tide__catalog_write(const struct tide__catalog_entry *entry, struct tide_writer *w,
                         char key[TIDE__CATALOG_KEY_BYTES]);
/* This node commands, perhaps since now: what was recorded of tables and moves is here. False: not,
 * or not yet. */
bool tide__catalog_commands(struct tide_store *store);

#endif
