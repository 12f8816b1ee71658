/* The walk of a generation over one node's rows, into files of at most some 32 MiB a table. */
#ifndef TIDE_STORE_WALK_H
#define TIDE_STORE_WALK_H

#include "store/checkpoint/node_part.h"

struct tide__walk {
    /* set before it starts */
    struct tide_store *store;
    char dir[TIDE__GENERATION_DIR_MAX];
    struct tide_table **tables;
    size_t table_count;
    /* any thread */
    atomic_bool aborted;     /* asked to write nothing more, and only mark the rows as taken */
    atomic_uint others_left; /* nodes that have not said that they walk */
    atomic_bool others_gone; /* nor ever will: rows in flight from there are not known */
    /* the walker's, until it has said that it is done */
    size_t unpaused;          /* what it did since it last paused */
    struct tide_writer files; /* array elements [table, file, rows, size, sums size, sums sum] */
    size_t file_count;
    uint64_t bytes, rows;
    int code;
    char text[300];
    struct tide__columns *columns; /* of each table */
};
/* Room for `table_count` tables; ENOMEM. */
int tide__walk_create(struct tide_store *store, size_t table_count, struct tide__walk **out);
void tide__walk_destroy(struct tide__walk *walk);
/* Body of a fiber. Ends the generation of the tables; the result is in *walk. */
void tide__walk_run(struct tide__walk *walk);

#endif
