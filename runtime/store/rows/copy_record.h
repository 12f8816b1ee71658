/*
 * A copy of a row on a node that is not its home (or owner), and the algebra that keeps it right.
 *
 *   value   what workers read = the row as it last came + what was sent and is not in it + acc
 *   acc     updates of this node that were not yet sent
 *   ring    updates that were sent, oldest first, each with the number of its message; those up to
 *           the number that comes with a row are in that row. They lie in the messages themselves,
 *           which are shared with their sender
 *
 * So a worker always reads its own writes, nothing is added twice or lost, and no difference of
 * large values is formed. Rules: `add`, `sgd` and `assign` act on value as they do at home, from a
 * delta of `width` floats; of `adagrad` the whole row is copied, and the result (values and sums)
 * is what accumulates and travels; `adam` and `momentum` do not act here.
 *
 * A row has up to 16 blocks of floats. Where single columns are added (rule `add`), only the blocks
 * of acc that were touched are sent.
 *
 * No locks, no messages: the user of a record holds its latch.
 */
#ifndef TIDE_STORE_COPY_RECORD_H
#define TIDE_STORE_COPY_RECORD_H

#include "store/core/table.h"

struct tide__sent {
    uint64_t number;
    const float *delta;     /* the blocks that were sent, one behind the other */
    struct tide_blob *rows; /* of the message; shared */
    uint16_t blocks;
};

struct tide__copy_record { /* all but the values in one line of the caches */
    uint32_t newest;       /* of acc: the highest stamp. The slab's, when the record is free */
    uint32_t row_clock;    /* the row as it last came held every push of a smaller stamp */
    atomic_uint_fast64_t key;
    uint64_t version;        /* of the row as it last came; grows */
    uint64_t fetched_ns;     /* async: when */
    struct tide__sent *sent; /* the ring */
    uint16_t sent_count, sent_capacity;
    uint32_t used_clock; /* of the newest read */
    uint32_t asked_need; /* of the pending request */
    uint32_t settled;    /* number of the settling it came after */
    uint16_t blocks;     /* of acc: those that were touched */
    atomic_bool in_use;
    bool valid;      /* a row has come */
    bool asked;      /* a request is pending */
    bool subscribed; /* the home has a record of it, and pushes changes while it pushes at all */
    bool dirty;      /* acc is not empty; the record is listed for sending */
    bool referenced;
    float data[]; /* value, then acc: `floats` each */
};
_Static_assert(offsetof(struct tide__copy_record, data) == 64, "the head of a copy is a line");

/* How the records of a table look. */
struct tide__copy_record_shape {
    const struct tide_table_options *options;
    uint32_t floats; /* of a row that travels */
    uint32_t shift;  /* a block has 1 << shift floats, the last one perhaps fewer */
    uint16_t all;    /* blocks of a row, a bit each */
};
struct tide__copy_record_shape tide__copy_record_shape(const struct tide_table_options *options);
size_t tide__copy_record_bytes(const struct tide__copy_record_shape *shape);
void tide__copy_record_init(const struct tide__copy_record_shape *shape, struct tide__copy_record *r, uint64_t key);
/* Frees the ring; what it and acc hold is forgotten. */
void tide__copy_record_drop(struct tide__copy_record *r);
static inline float *tide__copy_record_value(struct tide__copy_record *r) {
    return r->data;
}
static inline float *tide__copy_record_acc(const struct tide__copy_record_shape *shape, struct tide__copy_record *r) {
    return r->data + shape->floats;
}
/* A push by a worker. */
void tide__copy_record_push(const struct tide__copy_record_shape *shape, struct tide__copy_record *r,
                            const void *delta);
/* Adds to single columns of the value and of what is to be sent; rule `add`. */
void tide__copy_record_add(const struct tide__copy_record_shape *shape, struct tide__copy_record *r,
                           const uint32_t *columns, const float *values, size_t count);
/* These blocks of acc, all that were touched, go to `delta`, a place of the rows of message
 * `number` (shared), and acc is empty then. ENOMEM, ELIMIT (too many are not confirmed): nothing
 * changed. */
int tide__copy_record_send(const struct tide__copy_record_shape *shape, struct tide__copy_record *r, uint16_t blocks,
                           uint64_t number, struct tide_blob *rows, float *delta);
size_t tide__blocks_floats(const struct tide__copy_record_shape *shape, uint16_t blocks);
/* Copies blocks to their places in a row whose rest is 0. */
void tide__blocks_spread(const struct tide__copy_record_shape *shape, uint16_t blocks, const void *packed, float *row);
/* The messages up to `number` have been applied: in later rows they are contained. */
void tide__copy_record_confirm(struct tide__copy_record *r, uint64_t number);
/* What was sent in messages after `number` accumulates again. False: nothing was. */
bool tide__copy_record_unsend(const struct tide__copy_record_shape *shape, struct tide__copy_record *r,
                              uint64_t number);
/* A row came (unaligned) that contains our messages up to `number`. */
void tide__copy_record_row(const struct tide__copy_record_shape *shape, struct tide__copy_record *r, const void *row,
                           uint64_t number);
/* A delta of a replica meets the row at its home. */
void tide__copy_record_apply(const struct tide__copy_record_shape *shape, float *row, const void *delta);

#endif
