/*
 * Keys that change their owner, between arrival.c (one key), owner.c (operations), handover.c
 * (moves) and parcel.c (what goes out, and what a home remembers of where keys went).
 */
#ifndef TIDE_STORE_OWNER_H
#define TIDE_STORE_OWNER_H

#include "store/cut.h"
#include "store/relocate.h"
#include "store/shard.h"

#define TIDE__NO_ROW 0x80000000u /* in a term on the wire: the row is the initial one, or none */

struct parcel;
struct tide__parcels {
    struct parcel *first;
    struct tide__job *done; /* waited for rows and have them; answered at the end of the message */
    size_t hint;            /* keys of the message in hand */
    uint64_t given, got, took_ns; /* rows of the message in hand, not counted yet */
};

/*
 * What is to be sent when the message in hand is dealt with: one message for each (op, node,
 * about). `about`: HAND: the new owner; LOST: the dead node. row: NULL, or row_floats floats,
 * copied; second: NULL, or its second version (cut.h), copied.
 */
void tide__parcel_add(struct tide_table *table, int op, uint16_t to, uint16_t about, uint64_t key,
                      uint32_t term, const float *row, const float *second);
void tide__parcels_send(struct tide_table *table);
void tide__parcels_free(struct tide_table *table);

/*
 * Trails. A home that sends HAND does not hear whether the row arrived. It remembers, for each key
 * on the move, through whose hands it was to go before those of the owner of record, so that a
 * death on the way can be told to the nodes that wait (loss.c). A node that asks again has had its
 * row: what was before it is forgotten. So is what was before the home when the row comes home.
 */
enum { TIDE__TRAIL_FEW = 4 };
struct tide__trail {
    uint64_t key;
    uint16_t count;     /* 0: empty place */
    uint16_t capacity;  /* of `many`; 0: few */
    uint32_t last_term; /* of the last node; terms are consecutive */
    union {             /* nodes, oldest first */
        uint16_t few[TIDE__TRAIL_FEW];
        uint16_t *many;
    } nodes;
};
static inline const uint16_t *tide__trail_nodes(const struct tide__trail *trail) {
    return trail->capacity ? trail->nodes.many : trail->nodes.few;
}
static inline uint32_t tide__trail_term(const struct tide__trail *trail, unsigned i) {
    return (trail->last_term - (trail->count - 1u - i)) & TIDE__TERM_MASK;
}
struct tide__trails {
    struct tide__trail *places;
    size_t capacity, count;
};
/* The row is to go from `from`, who has it or gets it under `term`, to `to`. */
void tide__trail_add(struct tide_table *table, uint64_t key, uint16_t from, uint32_t term,
                     uint16_t to);
/* The row has come to `node`: who had it before is forgotten, and `node` itself. */
void tide__trail_passed(struct tide_table *table, uint64_t key, uint16_t node);
void tide__trail_cut(struct tide_table *table, uint64_t key, uint16_t count); /* the oldest stay */
void tide__trail_end(struct tide_table *table, uint64_t key);
const struct tide__trail *tide__trail_of(const struct tide_table *table, uint64_t key); /* or NULL */
void tide__trails_free(struct tide_table *table);

/* ---- handover.c ---- */
struct tide__key_list {
    uint64_t *at; /* tide_free it */
    size_t count, capacity;
};
int tide__key_list_add(struct tide__key_list *list, uint64_t key);
/* The keys of a slot whose words say anything. What words say may change after. */
int tide__keys_of_slot(struct tide_table *table, uint32_t number, struct tide__key_list *list);
/* The table ends: operations that still wait for rows are freed. */
void tide__owner_forget(struct tide_table *table);

/* ---- loss.c ---- */
void tide__loss_lost(struct tide_table *table, uint64_t key, uint16_t dead, uint32_t term);
void tide__loss_failed(struct tide_table *table, uint64_t key, uint16_t dead, uint32_t term);
/* As home, which it has just become: what is known of deaths is told to who waits. */
void tide__loss_examine(struct tide_table *table, uint64_t key);

/* ---- arrival.c ---- */
struct tide__waiter {
    struct tide__waiter *next;
    struct tide__job *job;
    uint32_t index; /* of the key in the job */
};

struct tide__arrival { /* state ARRIVING */
    struct tide__waiter *first, **last;
    uint64_t asked_at;
    uint32_t own; /* operations of workers in the mailbox; under the word's lock */
    uint32_t row; /* taken before the row is asked for */
    uint32_t owner_term, next_term;
    uint16_t owner, next;
    bool here; /* the row is here, but not the workers' yet */
    bool held; /* ... before the slot's fence is lifted */
};

static inline struct tide__arrival *tide__arrival_of(const struct tide_table *table,
                                                     uint64_t word) {
    return (struct tide__arrival *)(void *)tide__slab_row(&table->arrivals, (uint32_t)word);
}
static inline uint32_t tide__route_of(const struct tide_table *table, uint32_t slot) {
    return atomic_load_explicit(&table->slots[slot].route, memory_order_relaxed);
}
/* Of a row that stays here: with its flags for checkpoints. */
static inline uint64_t tide__word_base(uint64_t old, uint32_t seen) {
    return (old & (TIDE__WORD_PRESENT | TIDE__WORD_TAKEN | TIDE__WORD_DIRTY)) |
           (uint64_t)seen << 32;
}
static inline uint64_t tide__word_bare(uint64_t old, uint32_t seen) {
    return (old & TIDE__WORD_PRESENT) | (uint64_t)seen << 32;
}

atomic_uint_fast64_t *tide__key_lock(struct tide_table *table, uint32_t slot, uint64_t key,
                                     uint64_t *old);
struct tide__relocation tide__key_view(struct tide_table *table, uint32_t slot, uint64_t word);
uint64_t tide__word_gone(uint64_t old, const struct tide__relocation *k, uint32_t handed);
int tide__arrival_make(struct tide_table *table, uint64_t *word, uint32_t row);
int tide__row_take(struct tide_table *table, uint32_t *row);
int tide__row_place(struct tide_table *table, uint32_t slot, uint64_t *word, uint32_t row);
/* One operation of a worker more, or less, on its way to the store actor; the word is locked. False:
 * there are too many. */
bool tide__handed_over(struct tide_table *table, uint64_t *word);
uint64_t tide__taken_back(struct tide_table *table, uint64_t word);
/* `word`: locked, of the row; `made`: for this operation. */
int tide__owner_run(struct tide__job *job, uint32_t index, uint64_t *word, float *row, bool made);
void tide__waiter_done(struct tide_table *table, struct tide__waiter *w, int code,
                       const char *text);
void tide__owner_finish(struct tide_table *table);
uint64_t tide__owner_give(struct tide_table *table, uint64_t old, const struct tide__relocation *k,
                          uint64_t key, uint16_t to, uint32_t term);
uint64_t tide__owner_install(struct tide_table *table, uint64_t old, uint64_t key,
                             const struct tide__relocation *k, struct tide__relocate_result r,
                             uint32_t marks, const uint8_t *bytes, uint64_t now);
bool tide__owner_dead(const struct tide_store *store, uint16_t node);
void tide__died_text(struct tide_store *store, uint16_t node, char text[160]);

/* The keys of a message one after the other: i = 0 .. count - 1, none left out. */
enum { TIDE__BLOCK_KEYS = 32 };
struct tide__key_block { /* what is on its way from memory; of dense tables */
    atomic_uint_fast64_t *words[TIDE__BLOCK_KEYS];
    uint64_t keys[TIDE__BLOCK_KEYS];
    uint32_t slots[TIDE__BLOCK_KEYS];
};
/* Key i of `keys` (u64, unaligned), and its locked word; NULL: out of memory. */
atomic_uint_fast64_t *tide__block_lock(struct tide_table *table, struct tide__key_block *block,
                                       const uint8_t *keys, size_t i, size_t count, uint64_t *key,
                                       uint32_t *slot, uint64_t *old);
void tide__arrival_free(struct tide_table *table, uint64_t word);
uint64_t tide__word_settled(struct tide_table *table, uint64_t word);

#endif
