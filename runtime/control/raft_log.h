/*
 * A holder of the replicated log on disk, for the day on which all holders end at one time.
 *
 * DIRECTORY/holder-00007.log is a file of records (records.h): the snapshot that the log of node 7
 * begins with, and the entries behind it, each written and synced before the node says that it has
 * it. So what a majority has said to have is in the files of a majority. A node that is started
 * again is another node, with another id, and votes never in another's name: neither its term nor
 * its vote need be kept. A first node that is given the directory goes on from the furthest of the
 * logs that a majority of its holders has there, when their processes are gone: it locks them, so
 * nobody else can, and no two of them go on in two ways.
 */
#ifndef TIDE_NET_HOLDING_H
#define TIDE_NET_HOLDING_H

#include "control/control.h"

struct tide_holding;

enum tide_holding_kind { TIDE_HOLDING_DECISION, TIDE_HOLDING_VOTERS, TIDE_HOLDING_OTHER };
enum { TIDE_HOLDING_VOTERS_MAX = 16, TIDE_HOLDINGS_MAX = 64 };

/* Where a log begins. */
struct tide_holding_start {
    uint64_t index, term; /* of the last entry in it */
    uint16_t voters[TIDE_HOLDING_VOTERS_MAX];
    size_t voter_count;
    const void *state; /* tide_control_snapshot_write */
    size_t size;
};

/* The file of node `id`, locked as long as it is open; what was in it is gone. */
int tide_holding_open(struct tide_port *port, const char *directory, uint16_t id,
                      struct tide_holding **out);
/* All up to start->index is in the state; of what is behind it the entries stay, if `keep`. */
int tide_holding_begin(struct tide_holding *holding, const struct tide_holding_start *start, bool keep);
/* The entry behind the last one; durable after tide_holding_sync. Of VOTERS: their ids, u16 each. */
int tide_holding_append(struct tide_holding *holding, uint64_t term, enum tide_holding_kind kind,
                        const void *data, size_t size);
int tide_holding_sync(struct tide_holding *holding);
/* Entry `index` and those behind it are not in the log any more. */
void tide_holding_truncate(struct tide_holding *holding, uint64_t index);
void tide_holding_close(struct tide_holding *holding);

/* The logs of a directory, locked; what was decided by their holders. */
struct tide_holdings {
    struct tide_control_state state;
    uint64_t index, term; /* of the last entry of any of them; 0: there is none */
    uint16_t ids[TIDE_HOLDINGS_MAX]; /* whose process is gone */
    size_t count;
    struct tide_file *locks[TIDE_HOLDINGS_MAX];
};

/* EBUSY: a majority is not there, or its processes live. EPROTO: the furthest log is damaged. Without
 * a directory or logs there is nothing, and that is no error. */
int tide_holdings_open(struct tide_port *port, const char *directory, const char *name,
                       struct tide_holdings *out);
/* Another log has what they had: they go. */
void tide_holdings_remove(struct tide_port *port, const char *directory, struct tide_holdings *holdings);
void tide_holdings_release(struct tide_port *port, struct tide_holdings *holdings);

/* The bytes of a file, for the reader and its fuzzer: state, and last index and term (0: an empty
 * log), and the voters. Good bytes of a torn file end at *good. */
struct tide_holding_log {
    struct tide_control_state state;
    uint64_t index, term;
    uint16_t voters[TIDE_HOLDING_VOTERS_MAX];
    size_t voter_count;
};
int tide_holding_parse(const void *data, size_t size, struct tide_holding_log *out, size_t *good);
void tide_holding_log_release(struct tide_holding_log *log);

#endif
