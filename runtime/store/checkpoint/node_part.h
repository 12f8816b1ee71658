/*
 * One node's part of a generation: the store actor's side of the coordinator's rounds
 * (checkpoint.c), and the fiber that walks the rows and writes them.
 *
 *   ASK      -> what this node knows; its workers' gate is put two intervals ahead
 *   TELL     -> the cut is known here (cut.h); the gate is at its clock
 *   OPEN     -> the gate opens: every node knows the cut
 *   SETTLE   -> answered when every worker here has passed the cut and its pushes are answered
 *   WALK     -> answered at once; a fiber on the disk thread begins to write
 *   COLLECT  -> answered when all is written: the files
 *   ABORT, or the coordinator's end: rows are only marked as taken, and the node is idle again
 */
#ifndef TIDE_STORE_GENERATION_H
#define TIDE_STORE_GENERATION_H

#include "store/rows/cut.h"

enum { TIDE__GENERATION_DIR_MAX = 3500 };

void tide__generations_destroy(struct tide_store *store);
/* A call whose op is read. Answers it, now or later; negative: the caller is told. */
int tide__generation_call(struct tide_store *store, const struct tide_message *message, int op,
                          struct tide_reader *body);
/* WALKING, ABORT, WROTE; the op is read. */
void tide__generation_cast(struct tide_store *store, uint16_t from, int op,
                           struct tide_reader *body);
/* Whatever is being written here ends without success: there is no memory for second versions. */
void tide__generation_give_up(struct tide_store *store);
void tide__generation_exit(struct tide_store *store, uint64_t monitor);
/* A node that has gone before it said that it walks never will: the generation fails. */
void tide__generation_member(struct tide_store *store, const struct tide_member *member);
/* Answers what waits for workers. True: something waits still. */
bool tide__generation_advance(struct tide_store *store);

#endif
