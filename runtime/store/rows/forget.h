/*
 * Hashed tables that forget: keys are admitted, expire, and make room for others.
 *
 *   admit   a key gets a row when it is pushed for the `admit_after`th time (sketch.h counts, slot by slot); until then
 *           pulls give its initial row, and pushes are answered and dropped
 *   expire  a row that nobody accessed for `unused_ns` goes: the hand (forget/hand.c) looks at each slot 16 times
 *           in this time
 *   evict   at the limit a new key takes the place of the least used of some keys, if it was pushed more often itself
 *
 * The last float of a row is its use record: a logarithmic count of its pushes 8 bits, and the epoch of its last access
 * 16 bits, as a whole number that a float holds exactly. So moves and checkpoints carry it like the state of a rule.
 * An epoch is a 64th of `unused_ns`, by the wall clocks of the nodes.
 *
 * A key that has gone is as if it had never been: its next push is that of a new key. A row that is on its way out is
 * kept aside for a generation that has not taken it yet (cut.h). A slot's latch guards its sketch and its entries; the
 * word's lock guards the use record.
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
    uint32_t chance[TIDE__USE_COUNTS]; /* of a push to raise the count: 2^32 is certain */
    /* any thread */
    atomic_uint epoch;                              /* now; the I/O thread sets it */
    atomic_uint draws;                              /* numbers that were drawn */
    struct tide__sketch *sketches[TIDE_SLOT_COUNT]; /* under the slot's latch; NULL: not used yet */
    /* keys that went since the last generation was walked, and until it was; under the lock */
    struct tide_lock gone_lock;
    uint64_t *gone, *leaving;
    size_t gone_count, gone_room, leaving_count;
    bool gone_lost; /* there was no room: the next generation is full */
    /* I/O thread: the hand */
    uint32_t hand;    /* the next slot */
    uint64_t hand_at; /* when it is looked at */
};
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
/* The row is new; its key was pushed `before` times, as the sketch says. */
void tide__use_begin(struct tide_table *table, float *row, unsigned before);
void tide__use_push(struct tide_table *table, float *row);
void tide__use_pull(struct tide_table *table, float *row);
/* A row of a file that was written in epoch `then` is read: its age is what it was. */
void tide__use_shift(const struct tide_table *table, float *row, uint16_t then);

/* ---- entries ---- */
/* A push finds no entry; the slot's latch is held. FOUND: there may be one; REFUSED: not yet; CROWDED: if
 * tide__forget_make_room finds place. *seen: how often the key was pushed. `anyway`: the row is told, not made. */
int tide__forget_admit(struct tide_table *table, uint32_t slot, uint64_t mixed, bool anyway, unsigned *seen);
/* No latch is held. False: the keys here are used more than the new one, `seen` times. */
bool tide__forget_make_room(struct tide_table *table, uint32_t slot, unsigned seen, bool anyway);
/* The hand: what has expired in the slot goes. */
void tide__forget_expire(struct tide_table *table, uint32_t slot);
/* A generation begins to be walked: what goes from now on is for the next one. False: it is one of changes, and does
 * not know all keys that went before. */
bool tide__forget_gone_begin(struct tide_table *table);
/* The keys that went before; *gives*. NULL: none. */
uint64_t *tide__forget_gone_take(struct tide_table *table, size_t *count);
/* The next generation has to be full. */
bool tide__forget_gone_lost(struct tide_table *table);
/* All rows of the slot have gone: so has what was counted of its keys. Its latch is held. */
void tide__forget_slot(struct tide_table *table, uint32_t slot);

#endif
