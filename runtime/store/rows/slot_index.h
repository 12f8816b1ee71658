/* The words of keys, and where a slot keeps them: dense or hashed (slot_index.c). */
#ifndef TIDE_STORE_SLOT_INDEX_H
#define TIDE_STORE_SLOT_INDEX_H

#include "store/core/table.h"
#include "wire/rows.h"

_Static_assert(TIDE_SLOT_COUNT == 1 << TIDE__SLOT_BITS, "clients find the slots of keys as nodes do");

/* ---- key word: lock 1 | touched 1 | state 2 | flags 4 | seen 24 | index 32. All flags are in use. ---- */
#define TIDE__WORD_LOCK (UINT64_C(1) << 63)
#define TIDE__WORD_STATE (UINT64_C(3) << 60)
/* a worker has used the row since the hand of the second tier last passed (tier/hand.c) */
#define TIDE__WORD_TOUCHED (UINT64_C(1) << 62)
#define TIDE__WORD_PRESENT (UINT64_C(1) << 56) /* flag: a hashed entry is in use even without a row */
/* flag, relocating tables: home, and the row is another node's (the owner is in the index) */
#define TIDE__WORD_AWAY (UINT64_C(1) << 57)
/* the same flag of an OWNED word, tables with a second tier: the disk has this version of the row, or is about to */
#define TIDE__WORD_CLEAN TIDE__WORD_AWAY
/* flags of a row that is here, for checkpoints (cut.h): changed since a generation took it; which
 * generation took it last, as one bit that changes with every generation */
#define TIDE__WORD_DIRTY (UINT64_C(1) << 58)
#define TIDE__WORD_TAKEN (UINT64_C(1) << 59)
#define TIDE__WORD_SEEN (UINT64_C(0xffffff) << 32)
enum tide__key_state {
    TIDE__ABSENT, /* no row here; at home of the slot: the row has its initial values */
    TIDE__OWNED,
    TIDE__ARRIVING, /* relocation: asked for, operations queue; or here, and not yet the workers' */
    TIDE__COLD,     /* the row is on this node's disk (tier/tier.h); index: its place there */
};
static inline unsigned tide__word_state(uint64_t word) {
    return (unsigned)(word >> 60) & 3u;
}
/* Relocating tables. ABSENT: owner of record (home, AWAY) 16 | operations that workers handed over
 * and the store actor has not seen yet 16. ARRIVING: number of the arrival record, which counts
 * them then. */
static inline uint16_t tide__word_owner(uint64_t word) {
    return (uint16_t)(word >> 16);
}
static inline uint16_t tide__word_handed(uint64_t word) {
    return (uint16_t)word;
}
/* Tables with copies, at home: how many pushes to the row are in flight to its copies. */
static inline uint32_t tide__word_seen(uint64_t word) {
    return (uint32_t)(word >> 32) & 0xffffffu;
}
/* Tables with clocks, at home: nodes hold copies of the row. */
#define TIDE__WORD_WATCHED (UINT64_C(1) << 32)
static inline uint64_t tide__word_owned(uint64_t old, uint32_t row) {
    return (old & (TIDE__WORD_SEEN | TIDE__WORD_PRESENT)) | ((uint64_t)TIDE__OWNED << 60) | row;
}

/* Open addressing, linear probing; entries move only while the latch is held and all their words
 * are locked. */
struct tide__entry {
    uint64_t key;
    atomic_uint_fast64_t word; /* 0: empty */
};
struct tide__hash {
    uint32_t capacity, count;
    uint32_t walked; /* a checkpoint has looked at the entries below (walk.c) */
    struct tide__entry entries[];
};

/* The table's index takes more bytes, or gives some back. */
void tide__index_counts(struct tide_table *table, int64_t bytes);

static inline uint32_t tide__slot_of(const struct tide_table *table, uint64_t key) {
    if (TIDE_UNLIKELY(table->options.keys == TIDE_KEYS_HASHED)) {
        return tide__slot_hashed(key);
    }
    if (table->options.slots == TIDE_SLOTS_RANGE) {
        return tide__slot_in_range(key, table->options.key_count);
    }
    return tide__slot_spread(key);
}
static inline uint64_t tide__range_first(const struct tide_table *table, uint32_t slot) {
    return (slot * table->options.key_count + TIDE_SLOT_COUNT - 1) >> 12;
}
static inline uint64_t tide__place_of(const struct tide_table *table, uint32_t slot, uint64_t key) {
    return table->options.slots == TIDE_SLOTS_RANGE ? key - tide__range_first(table, slot) : key >> 12;
}
/* Key of a place of a dense slot; at or over key_count: there is none. */
uint64_t tide__key_of(const struct tide_table *table, uint32_t slot, uint64_t place);
/* The slot's key words, allocated now if need be. NULL: out of memory. */
atomic_uint_fast64_t *tide__dense_words(struct tide_table *table, uint32_t slot);
/* Locks a key word: 0, or EBUSY after a short while unless `patient`. *old: the word without the
 * lock bit. */
int tide__word_lock_slow(atomic_uint_fast64_t *word, bool patient, uint64_t *old);
static inline int tide__word_lock(atomic_uint_fast64_t *word, bool patient, uint64_t *old) {
    /* acquire: pairs with the release store that unlocks */
    uint64_t seen = atomic_fetch_or_explicit(word, TIDE__WORD_LOCK, memory_order_acquire);
    if (TIDE_LIKELY(!(seen & TIDE__WORD_LOCK))) {
        *old = seen;
        return 0;
    }
    return tide__word_lock_slow(word, patient, old);
}
static inline void tide__word_unlock(atomic_uint_fast64_t *word, uint64_t value) {
    atomic_store_explicit(word, value, memory_order_release); /* pairs with the acquire of the next lock */
}
enum {
    TIDE__FOUND = 1,
    TIDE__NOT_FOUND = 2,
    TIDE__MISSED = 3,
    TIDE__OVERTAKEN = 4,
    TIDE__REFUSED = 5, /* the table forgets, and does not admit the key */
    TIDE__CROWDED = 6  /* inside forget.h */
};
/* May an entry be made? ADMIT: by a push, which a table that forgets may drop. */
enum { TIDE__ENTRY_NONE, TIDE__ENTRY_MAKE, TIDE__ENTRY_ADMIT };
/* Hashed: FOUND and the word locked, NOT_FOUND (and not `create`, or the table is at its limit), MISSED (the slot is
 * not served under `mask`), REFUSED, or a negative code. In a table that forgets the index in a new word says how often
 * its key was pushed. */
int tide__hashed_lock(struct tide_table *table, uint64_t key, unsigned create, uint32_t mask, bool patient,
                      atomic_uint_fast64_t **word, uint64_t *old);
/* Latch held: the key's entry, or NULL. And: an entry goes, whose word is locked; those behind it move up. */
struct tide__entry *tide__hashed_find(struct tide__hash *hash, uint64_t key);
void tide__hashed_remove(struct tide__hash *hash, struct tide__entry *entry);
/* The word of a key in a table of this thread alone, an index of copies: FOUND, locked;
 * NOT_FOUND (and not `create`), or a negative code. */
int tide__index_lock(struct tide_table *index, uint64_t key, bool create, bool patient, atomic_uint_fast64_t **word,
                     uint64_t *old);
int tide__key_compare(const void *a, const void *b); /* for qsort; keys need no alignment */
/* Keys with a row in `slot` that are >= from, ascending, up to `limit`; *next: where to continue,
 * *more: there are. */
int tide__slot_keys(struct tide_table *table, uint32_t slot, uint64_t from, uint64_t *keys, size_t limit, size_t *count,
                    bool *more);
/* About so many keys the slot has places for: dense ones at most, hashed ones now. */
uint64_t tide__slot_places(struct tide_table *table, uint32_t slot);
/* Takes every row out of a slot: `each` sees key, word and row before it is freed. */
int tide__slot_drain(struct tide_table *table, uint32_t slot,
                     int (*each)(void *arg, uint64_t key, uint64_t word, const float *row), void *arg);
void tide__slots_deinit(struct tide_table *table);

#endif
