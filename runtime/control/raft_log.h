/*
 * A holder of the replicated log on disk, for the day on which all holders end at one time.
 *
 * DIRECTORY/holder-00007.log is a file of records (records.h): the snapshot that the log of node 7
 * begins with, and the entries behind it, each written and synced before the node says that it has
 * it. So what a majority has said to have is in the files of a majority. A node that is started
 * again is another node, with another id, and votes never in another's name: neither its term nor
 * its vote need be kept. A first node that is given the directory continues from the furthest of the
 * logs that a majority of its holders has there, when their processes are gone: it locks them, so
 * no other node can, and no two of them continue in two ways.
 */
#ifndef TIDE_CONTROL_RAFT_LOG_H
#define TIDE_CONTROL_RAFT_LOG_H

#include "control/control.h"

struct tide_raft_log;

enum tide_raft_log_kind { TIDE_RAFT_LOG_DECISION, TIDE_RAFT_LOG_VOTERS, TIDE_RAFT_LOG_OTHER };
enum { TIDE_RAFT_LOG_VOTERS_MAX = 16, TIDE_RAFT_LOGS_MAX = 64 };

/* Where a log begins. */
struct tide_raft_log_start {
    uint64_t index, term; /* of the last entry in it */
    uint16_t voters[TIDE_RAFT_LOG_VOTERS_MAX];
    size_t voter_count;
    const void *state; /* tide_control_snapshot_write */
    size_t size;
};

/* The file of node `id`, locked as long as it is open; what was in it is gone. */
int tide_raft_log_open(struct tide_port *port, const char *directory, uint16_t id, struct tide_raft_log **out);
/* All up to start->index is in the state; of what is behind it the entries stay, if `keep`. */
int tide_raft_log_begin(struct tide_raft_log *log, const struct tide_raft_log_start *start, bool keep);
/* The entry behind the last one; durable after tide_raft_log_sync. Of VOTERS: their ids, u16 each. */
int tide_raft_log_append(struct tide_raft_log *log, uint64_t term, enum tide_raft_log_kind kind, const void *data,
                         size_t size);
int tide_raft_log_sync(struct tide_raft_log *log);
/* Entry `index` and those behind it are not in the log any more. */
void tide_raft_log_truncate(struct tide_raft_log *log, uint64_t index);
void tide_raft_log_close(struct tide_raft_log *log);

/* The logs of a directory, locked; what was decided by their holders. */
struct tide_raft_logs {
    struct tide_control_state state;
    uint64_t index, term;             /* of the last entry of any of them; 0: there is none */
    uint16_t ids[TIDE_RAFT_LOGS_MAX]; /* whose process is gone */
    size_t count;
    struct tide_file *locks[TIDE_RAFT_LOGS_MAX];
};

/* EBUSY: a majority is not there, or its processes live. EPROTO: the furthest log is damaged. Without
 * a directory or logs there is nothing, and that is no error. */
int tide_raft_logs_open(struct tide_port *port, const char *directory, const char *name, struct tide_raft_logs *out);
/* Another log has what they had: they go. */
void tide_raft_logs_remove(struct tide_port *port, const char *directory, struct tide_raft_logs *logs);
void tide_raft_logs_release(struct tide_port *port, struct tide_raft_logs *logs);

/* The bytes of a file, for the reader and its fuzzer: state, and last index and term (0: an empty
 * log), and the voters. Good bytes of a torn file end at *good. */
struct tide_raft_log_content {
    struct tide_control_state state;
    uint64_t index, term;
    uint16_t voters[TIDE_RAFT_LOG_VOTERS_MAX];
    size_t voter_count;
};
int tide_raft_log_parse(const void *data, size_t size, struct tide_raft_log_content *out, size_t *good);
void tide_raft_log_content_release(struct tide_raft_log_content *log);

#endif
