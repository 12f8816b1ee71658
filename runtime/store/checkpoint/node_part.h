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
#ifndef TIDE_STORE_NODE_PART_H
#define TIDE_STORE_NODE_PART_H

#include "store/core/technique.h"
#include "store/rows/cut.h"

enum { TIDE__GENERATION_DIR_MAX = 3500 };

extern const struct tide__technique tide__checkpoints;
void tide__generations_destroy(struct tide_store *store);
/* An actor that this node monitors has ended: the coordinator? */
void tide__generation_exit(struct tide_store *store, uint64_t monitor);
tide__handler tide__cut_ask_call, tide__cut_tell_call, tide__cut_open_call, tide__cut_settle_call, tide__cut_walk_call,
    tide__cut_collect_call, tide__cut_abort_message, tide__cut_walking_message, tide__cut_wrote_message;

#endif
