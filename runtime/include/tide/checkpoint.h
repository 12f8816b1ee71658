/* Checkpoints of all tables of a cluster. See tide.h. */
#ifndef TIDE_PUBLIC_CHECKPOINT_H
#define TIDE_PUBLIC_CHECKPOINT_H

#include "tide/table.h"

#ifdef __cplusplus
extern "C" {
#endif

enum tide_cut {
    TIDE_CUT_AUTO,  /* by clock if a worker counts clocks, else fuzzy */
    TIDE_CUT_CLOCK, /* what every worker pushed before one clock, and nothing after */
    TIDE_CUT_FUZZY, /* each row as of some moment while it was written */
};

#define TIDE_CHECKPOINT_OPTIONS_INIT .size = sizeof(struct tide_checkpoint_options)
struct tide_checkpoint_options {
    size_t size;         /* of this struct (tide/actor.h); 0: its first layout */
    const char *dir;     /* of all generations; made if need be. Every node must reach it under this path */
    uint8_t cut;         /* enum tide_cut */
    uint32_t keep;       /* generations that stay; default 3, at least 2 */
    uint32_t full_every; /* of so many generations one holds all rows, the others what changed; default 8, at most 64 */
    uint64_t timeout;    /* for the workers to pass the cut; default 60 s */
    /* Whose clocks a cut by clock is of: the domain of workers (tide_worker_begin_in); tables of others are cut as in a
     * fuzzy one. 0: the domain that has workers, if no other has. */
    uint32_t domain;
};

struct tide_checkpoint_info {
    uint64_t generation;
    uint64_t bytes, rows; /* written in this generation */
    uint64_t wall_ns;     /* since 1970, when it was committed */
    uint32_t clock;       /* of the cut: pushes of intervals before it are in; UINT32_MAX: fuzzy */
    bool full;
    bool committed; /* it has a manifest that can be read */
};

struct tide_checkpoint;
/*
 * Writes a generation of all tables while workers continue; returns when all parts are on disk but before it counts.
 * One at a time in a cluster. Fibers of a member. *gives*: end it by commit or abort. Errors: EBUSY (another one is
 * being written, or nodes came or went meanwhile: try again), ETIMEDOUT (a worker does not pass the cut), EIO, ENOSPC,
 * EDIED. After any of them the newest committed generation is what it was.
 */
int tide_checkpoint_start(struct tide_node *node, const struct tide_checkpoint_options *options,
                          struct tide_checkpoint **out);
const struct tide_checkpoint_info *tide_checkpoint_get(const struct tide_checkpoint *checkpoint);
/* Makes it the newest generation, with `job` (one msgpack value, or NULL) inside, and removes what is older than what
 * is kept. *takes* the checkpoint, also when it fails. */
int tide_checkpoint_commit(struct tide_checkpoint *checkpoint, const void *job, size_t job_size);
void tide_checkpoint_abort(struct tide_checkpoint *checkpoint); /* *takes* */

/* What restore found. Release with tide_restored_release. */
struct tide_restored {
    struct tide_checkpoint_info info;
    char *skipped; /* newer generations that are damaged, and how: lines of text; "" if none */
    void *job;     /* one msgpack value, nil if none was saved */
    size_t job_size;
};
/*
 * Brings all tables of a checkpoint to what they were: of the newest generation whose every block verifies
 * (generation 0), or of one. Tables that do not exist are made; rows of those that do are replaced. Onto any number of
 * nodes; the caller's node reads. Workers should not run. Fibers. Errors: ENOENT (none), EPROTO (none is whole; says
 * which block), EVERSION, EMISMATCH (a table has other options).
 */
int tide_checkpoint_restore(struct tide_node *node, const char *dir, uint64_t generation, struct tide_restored *out);
void tide_restored_release(struct tide_restored *restored);

#ifdef __cplusplus
}
#endif
#endif
