/*
 * The cut of a checkpoint: which version of each row a generation is made of, while pushes continue.
 *
 * A generation has three phases on a node, and they are the node's for all its tables: IDLE (no
 * generation), TOLD (its cut is known here), WALK (rows are written). With a clock cut, pushes with
 * a stamp below `clock` are in it and others are not. No worker enters interval `clock` before all
 * nodes reached TOLD, and no node WALKs before every push with a lower stamp is answered.
 *
 * Two flags of a key word carry it. TAKEN equals the table's own bit when this generation has its
 * version of the row: written, about to be, or kept aside; the table's bit changes with every
 * generation, so at its start no row is taken. DIRTY: changed since a generation took it; an
 * incremental generation leaves clean rows out.
 *
 *   TOLD  the first push with stamp >= clock keeps the row as it is aside (taken); pushes with a
 *         lower stamp then go to both versions
 *   WALK  the walker takes rows; a change of an untaken one keeps its old version aside first;
 *         so does the sender of an untaken one; one that arrives untaken is taken then
 *
 * A row on the wire says which generation took it last, by its sequence modulo 16, and whether it
 * is dirty, and brings its second version if it is split. A row given away untaken may arrive after
 * the receiver's walker has passed: so a node continues until all others have notified it, on the lane of
 * the rows, that they walk too. Nothing here waits or fails a push: without memory the generation
 * fails.
 *
 * A fuzzy cut has no clock: nothing is kept aside, each row is as of some moment of the walk.
 */
#ifndef TIDE_STORE_CUT_H
#define TIDE_STORE_CUT_H

#include "store/rows/slot_index.h"

enum tide__cut_phase { TIDE__CUT_IDLE, TIDE__CUT_TOLD, TIDE__CUT_WALK };

/* tide_table.cut: phase 2 | fuzzy | full | discard | generation modulo 16 at 8 | clock at 16 | the
 * table's bit at TIDE__WORD_TAKEN */
#define TIDE__CUT_PHASE UINT64_C(3)
#define TIDE__CUT_FUZZY UINT64_C(4)
#define TIDE__CUT_FULL UINT64_C(8)
#define TIDE__CUT_DISCARD UINT64_C(16) /* the generation failed: rows are only marked as taken */
static inline unsigned tide__cut_phase(uint64_t cut) {
    return (unsigned)(cut & TIDE__CUT_PHASE);
}
static inline uint32_t tide__cut_sequence(uint64_t cut) {
    return (uint32_t)(cut >> 8) & 15u;
}
static inline uint32_t tide__cut_clock(uint64_t cut) {
    return (uint32_t)(cut >> 16);
}

/* With a row on the wire, in its term: generation that took it last 4 | split | dirty. Bit 31 is
 * TIDE__NO_ROW. */
#define TIDE__MARK_SEQUENCE(sequence) (((sequence)&15u) << 24)
#define TIDE__MARK_SPLIT 0x20000000u /* its second version follows */
#define TIDE__MARK_DIRTY 0x40000000u

/* A version that was kept aside. */
struct tide__kept {
    struct tide__kept *next;
    uint64_t key;
    bool wanted; /* the generation needs it: full, or the row had changed */
    float row[];
};
struct tide__taken {
    struct tide_lock lock;
    atomic_bool failed; /* out of memory, or rows are gone: the generation is not whole */
    atomic_uint count;
    struct tide__kept *slots[TIDE_SLOT_COUNT];
};

int tide__cut_init(struct tide_table *table); /* before the first generation; ENOMEM */
void tide__cut_deinit(struct tide_table *table);
/* I/O thread. From IDLE to TOLD, and from TOLD to WALK. */
void tide__cut_tell(struct tide_table *table, uint32_t sequence, uint32_t clock, bool full);
void tide__cut_walk(struct tide_table *table, bool discard);
void tide__cut_end(struct tide_table *table); /* any thread */
/* Rows went away other than to another node. */
void tide__cut_vanish(struct tide_table *table);

/* How a delta meets a row. */
typedef void (*tide__cut_rule)(const struct tide_table *table, float *row, const void *delta);
void tide__cut_by_update(const struct tide_table *table, float *row, const void *delta);
/* See tide__cut_change. */
void tide__cut_split(struct tide_table *table, uint64_t cut, uint64_t key, uint64_t *word, const float *row, bool made,
                     uint32_t stamp, tide__cut_rule rule, const void *delta);

/*
 * Before a push changes `row`, whose word is locked: *word gets the flags it shall have after.
 * `made`: the row was made for this push. `delta`: what is pushed; NULL: the row is overwritten.
 */
static inline void tide__cut_change(struct tide_table *table, uint64_t key, uint64_t *word, const float *row, bool made,
                                    uint32_t stamp, tide__cut_rule rule, const void *delta) {
    /* Under the word's lock, so it is at least as new as what the walker saw at this word. */
    uint64_t cut = atomic_load_explicit(&table->cut, memory_order_acquire);
    if (TIDE_LIKELY((cut & TIDE__CUT_PHASE) == TIDE__CUT_IDLE)) {
        *word = (*word & ~(TIDE__WORD_TAKEN | TIDE__WORD_CLEAN)) | (cut & TIDE__WORD_TAKEN) | TIDE__WORD_DIRTY;
        return;
    }
    tide__cut_split(table, cut, key, word, row, made, stamp, rule, delta);
}

/* The same, by the table's update rule. */
static inline void tide__cut_push(struct tide_table *table, uint64_t key, uint64_t *word, const float *row, bool made,
                                  uint32_t stamp, const void *delta) {
    tide__cut_change(table, key, word, row, made, stamp, tide__cut_by_update, delta);
}

/* See the two below: while a generation is being written. */
uint32_t tide__cut_give_busy(struct tide_table *table, uint64_t cut, uint64_t key, uint64_t word, const float *row,
                             struct tide__kept **second);
uint64_t tide__cut_arrive_busy(struct tide_table *table, uint64_t cut, uint64_t key, uint64_t word, uint32_t marks,
                               const float *row, const void *second);

/* A row leaves; its word is locked. The marks to send with it, and its second version, to be freed
 * (NULL: it is not split). */
static inline uint32_t tide__cut_give(struct tide_table *table, uint64_t key, uint64_t word, const float *row,
                                      struct tide__kept **second) {
    const uint64_t cut = atomic_load_explicit(&table->cut, memory_order_acquire);
    if (TIDE_LIKELY(tide__cut_phase(cut) == TIDE__CUT_IDLE)) {
        *second = NULL;
        return TIDE__MARK_SEQUENCE(tide__cut_sequence(cut)) | (word & TIDE__WORD_DIRTY ? TIDE__MARK_DIRTY : 0);
    }
    return tide__cut_give_busy(table, cut, key, word, row, second);
}

/* A row has come, with its marks and `second` (NULL: none), or, of marks TIDE__CUT_NO_ROW, was made
 * here: the word with its flags. */
#define TIDE__CUT_NO_ROW 0x80000000u
static inline uint64_t tide__cut_arrive(struct tide_table *table, uint64_t key, uint64_t word, uint32_t marks,
                                        const float *row, const void *second) {
    const uint64_t cut = atomic_load_explicit(&table->cut, memory_order_acquire);
    if (TIDE_LIKELY(tide__cut_phase(cut) == TIDE__CUT_IDLE)) {
        const bool dirty = !(marks & TIDE__CUT_NO_ROW) && (marks & TIDE__MARK_DIRTY);
        return (word & ~(TIDE__WORD_TAKEN | TIDE__WORD_DIRTY)) | (cut & TIDE__WORD_TAKEN) |
               (dirty ? TIDE__WORD_DIRTY : 0);
    }
    return tide__cut_arrive_busy(table, cut, key, word, marks, row, second);
}
/* A copy of a row whose home is another node is made or changed; its word is locked: the word with
 * its flags. Copies are marked like rows, and neither kept aside nor written: a generation in which
 * the home changes fails, and the next one is full. */
uint64_t tide__cut_copy(const struct tide_table *table, uint64_t word, bool made);
/* The walker: shall the row of a locked word be written now? Sets the flags. */
bool tide__cut_take(const struct tide_table *table, uint64_t *word);
/* The walker: any version of the slot that was kept aside and is wanted, to be freed; NULL: none
 * (left). */
struct tide__kept *tide__cut_kept(struct tide_table *table, uint32_t slot);

#endif
