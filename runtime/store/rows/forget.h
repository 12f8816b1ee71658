/*
 * Hashed tables that forget: keys are admitted, expire, and make room for others.
 *
 *   admit   the `admit_after`th push of a key creates its row (sketch.h counts pushes, slot by slot). Before, pulls
 *           return the initial row, and pushes are acknowledged and dropped
 *   expire  a row without an access for `unused_ns` is deleted: the hand (forget/hand.c) visits each slot 16 times
 *           during this time
 *   evict   at the limit a new key replaces the least used of eight sampled keys, if it was pushed more often
 *
 * The last float of a row is its use record: a logarithmic count of its pushes 8 bits, and the epoch of its last access
 * 16 bits, as an integer that a float represents exactly. Moves and checkpoints therefore carry it like rule state.
 * An epoch is a 64th of `unused_ns`, by the wall clocks of the nodes.
 *
 * A deleted key leaves no trace: its next push is the push of a new key. If a running generation has not taken a row
 * that is deleted, the row is kept aside for it (cut.h). The slot's latch guards the sketch and the entries; the lock
 * of a key word guards the use record.
 */
#ifndef TIDE_STORE_FORGET_H
#define TIDE_STORE_FORGET_H

#include "store/rows/sketch.h"
#include "store/core/table.h"

enum { TIDE__USE_COUNTS = 256, TIDE__USE_EPOCHS = 64 /* unused for so many: it expires */ };

struct tide__forget {
    /* constant */
    uint64_t epoch_ns;                 /* 0: rows do not expire */
    uint64_t slot_keys;                /* of the limit */
    uint32_t chance[TIDE__USE_COUNTS]; /* probability that a push raises the count, in 2^-32 */
    /* any thread */
    atomic_uint epoch;                              /* current epoch; the I/O thread sets it */
    atomic_uint draws;                              /* count of random numbers drawn */
    struct tide__sketch *sketches[TIDE_SLOT_COUNT]; /* under the slot's latch; NULL: no push counted yet */
    /* keys deleted since the walk of the last generation, and before it; under the lock */
    struct tide_lock gone_lock;
    uint64_t *gone, *leaving;
    size_t gone_count, gone_room, leaving_count;
    bool gone_lost; /* the list overflowed: the next generation has to be full */
    /* I/O thread: the hand */
    uint32_t hand;    /* the next slot to visit */
    uint64_t hand_at; /* when it is due */
};
/* NULL: keys stay. */
static inline struct tide__forget *tide__forget_of(const struct tide_table *table) {
    return table->parts[TIDE__PART_FORGET];
}
static inline bool tide__options_forget(const struct tide_table_options *o) {
    return o->admit_after || o->unused_ns || o->evict;
}
struct tide__forget *tide__forget_create(const struct tide_table_options *options);
void tide__forget_destroy(struct tide_table *table);
uint16_t tide__forget_epoch_at(const struct tide__forget *forget, uint64_t wall_ns);

/* ---- the use record of a row whose word is locked ---- */
uint32_t tide__use_of(const struct tide_table *table, const float *row);
static inline unsigned tide__use_count(uint32_t use) {
    return use & 255u;
}
static inline uint16_t tide__use_epoch(uint32_t use) {
    return (uint16_t)(use >> 8);
}
/* Begins the record of a new row; `before`: pushes of its key by the sketch's estimate. */
void tide__use_begin(struct tide_table *table, float *row, unsigned before);
void tide__use_push(struct tide_table *table, float *row);
void tide__use_pull(struct tide_table *table, float *row);
/* Restores the age of a row that was saved in epoch `then`. */
void tide__use_shift(const struct tide_table *table, float *row, uint16_t then);

/* ---- entries ---- */
/* Decides about a push that finds no entry; the slot's latch is held. FOUND: create one; REFUSED: not admitted yet;
 * CROWDED: after tide__forget_make_room succeeds. *seen: estimated pushes of the key. `anyway`: the row comes from
 * another node or a file, and is admitted without a count. */
int tide__forget_admit(struct tide_table *table, uint32_t slot, uint64_t mixed, bool anyway, unsigned *seen);
/* Evicts a key for a new one that was pushed `seen` times; no latch is held. False: the sampled keys are used more. */
bool tide__forget_make_room(struct tide_table *table, uint32_t slot, unsigned seen, bool anyway);
/* Deletes the expired rows of the slot. */
void tide__forget_expire(struct tide_table *table, uint32_t slot);
/* Called when the walk of a generation begins: later deletions belong to the next one. False: the generation is one of
 * changes, and the list of deleted keys is incomplete. */
bool tide__forget_gone_begin(struct tide_table *table);
/* The keys deleted before that moment; *gives*. NULL: none. */
uint64_t *tide__forget_gone_take(struct tide_table *table, size_t *count);
/* Whether the next generation has to be full. */
bool tide__forget_gone_lost(struct tide_table *table);
/* Detaches the slot's sketch; *gives*, freed by tide_free. NULL: none. Takes the latch. */
struct tide__sketch *tide__forget_take_sketch(struct tide_table *table, uint32_t slot);
/* Continues with the counters of the former home of the slot: tide__sketch_words, unaligned. Takes the latch. */
void tide__forget_adopt(struct tide_table *table, uint32_t slot, const void *counters, uint32_t left);

#endif
