/* An operation of a message, as shard.c and owner.c work on it. I/O thread 0. */
#ifndef TIDE_STORE_SHARD_H
#define TIDE_STORE_SHARD_H

#include "store/core/technique.h"

enum { TIDE__HOPS_MAX = 8 };

extern const struct tide__technique tide__plain; /* what all tables are, until another one makes them its own */
/* PULL, PUSH, LOCALIZE, LOC, OFFER; REPLY. */
tide__handler tide__operation_message, tide__reply_message;

struct tide__job {
    struct tide__job *next;
    struct tide_table *table;
    struct tide_blob *blob; /* keeps keys and rows; NULL: they are the caller's */
    uint64_t id;
    const uint8_t *positions; /* u32 in the origin's message, unaligned; NULL: 0..count-1 */
    const uint8_t *keys;      /* u64, unaligned */
    const uint8_t *rows;      /* as they came, unaligned */
    const uint8_t *terms;     /* u32, unaligned: of what came straight (location_cache.h), and of LOC; else NULL */
    uint32_t count;
    uint16_t origin, from; /* the node that issued it; that sent the message */
    uint32_t stamp;        /* push: the clock of the worker that made it, or TIDE_NO_CLOCK */
    uint8_t kind, hops;
    bool raw;
    uint8_t flags; /* enum tide__operation_flags */
    bool own;      /* straight from a worker of this node: waits behind fences */
    bool returned; /* of this node, back from a node that has the rows no more (location_cache.h) */
    bool queued_once;
    /* tables with copies: of the message at its origin, and the oldest that is unanswered there */
    uint64_t sequence, low;
    uint32_t map_version;     /* what the origin knows */
    size_t at;                /* of the walk, when it stalled */
    struct tide_blob *values; /* rows read so far, row i at i; of a push those that are fresh */
    uint8_t *fresh;           /* push, of each key: its row goes back (subscribe.c); NULL: none */
    uint32_t fresh_count;
    float *deltas; /* push with short values: widened rows */
    /* relocating tables: a part that waits for rows in flight (owner.c) */
    struct tide__waiter *waiters;
    uint8_t *failed;   /* of each key; answered already */
    uint32_t left;     /* keys not yet run */
    uint32_t failures; /* keys with `failed` */
    struct tide__misses misses;
    uint8_t *copy; /* the message, once it had to wait */
    size_t copy_bytes;
};

static inline size_t tide__job_floats(const struct tide__job *job) {
    return job->raw ? job->table->row_floats : job->table->width;
}

/* The node whose copy has what this push brings; 0: none. */
static inline uint16_t tide__job_changer(const struct tide__job *job) {
    return job->flags & TIDE__OF_COPY ? job->origin : 0;
}

static inline uint8_t tide__job_code(const struct tide__job *job) {
    uint8_t wire = job->table->options.wire;
    return job->raw || wire == TIDE_WIRE_F32 ? TIDE_F32 : wire == TIDE_WIRE_F16 ? TIDE_F16 : TIDE_BF16;
}

static inline size_t tide__job_wire_row(const struct tide__job *job) {
    return tide__job_floats(job) * (tide__job_code(job) == TIDE_F32 ? 4 : 2);
}

/* Pulls and pushes that go straight name the terms under which they may run; localizes the last ones
 * under which their origin had the keys. */
static inline bool tide__job_has_terms(const struct tide_table *table, uint64_t kind) {
    return table->operations->owners && (kind == TIDE__PULL || kind == TIDE__PUSH || kind == TIDE__LOC);
}

/* Did it come to where the keys were last, and not by their home? */
static inline bool tide__job_straight(const struct tide__job *job) {
    return job->terms && job->kind != TIDE__LOC;
}

/* Elements of the message. */
static inline unsigned tide__job_fields(const struct tide_table *table, uint64_t kind) {
    const bool more = table->operations->groups || tide__job_has_terms(table, kind);
    return (kind == TIDE__PUSH ? 11u : 9u) + more;
}

static inline uint64_t tide__job_key_at(const struct tide__job *job, size_t i) {
    return tide__long_at(job->keys, i);
}

static inline uint32_t tide__job_term_at(const struct tide__job *job, size_t i) {
    return tide__number_at(job->terms, i);
}

static inline uint32_t tide__job_position_at(const struct tide__job *job, size_t i) {
    return tide__position_at(job->positions, i);
}

/* Reads rows (pull) or widens them (push) into memory of the job. */
int tide__job_prepare(struct tide__job *job);
/* Push: room for rows that go back. */
int tide__job_make_fresh(struct tide__job *job);
/* Fails the keys at `indices` (NULL: all `count` of them) of an operation; nothing for id 0. */
void tide__job_error(const struct tide__job *job, int code, const char *text, const uint32_t *indices, size_t count);
/* Answers everything but the misses. */
void tide__job_reply(struct tide__job *job);
/* A copy of a part of the job on the heap. NULL: out of memory or over the limit. */
struct tide__job *tide__job_detach(const struct tide__job *job, const uint32_t *indices, size_t count);
/* The part waits until its slots have settled. */
void tide__job_park(const struct tide__job *job, const uint32_t *indices, size_t count);
/* The part as a message of the same kind to another node; terms: of the part, NULL: none. 0, or why
 * not. */
int tide__job_pass(const struct tide__job *job, const uint32_t *indices, const uint32_t *terms, size_t count,
                   uint16_t to);
void tide__job_tell_map(const struct tide__job *job, const uint32_t *indices, size_t count, uint16_t home);
/* Points into data. EPROTO: not an operation this node can execute; ENOENT: its table was dropped. Both are answered
 * where possible. */
int tide__job_parse(const void *data, size_t size, struct tide_store *store, struct tide__job *job);
void tide__job_free(struct tide_store *store, struct tide__job *job);

/* ---- shard.c ---- */
/* Works on an operation, on a table whose operations do not wait in line. */
void tide__table_job(struct tide__job *job);
bool tide__plain_job(struct tide__job *job); /* of operations that wait in line */

void tide__shard_release(struct tide_store *store);
/* Wakes the actor after `delay` for what is stalled or moves. */
void tide__retry_later(struct tide_store *store, uint64_t delay);
void tide__stalled_retry(struct tide_store *store);
/* Forwards or parks what is not served here. */
void tide__job_pass_misses(struct tide__job *job, const uint32_t *indices, size_t count);
/* Operations that waited for a slot look again. */
void tide__parked_retry(struct tide_table *table);

#endif
