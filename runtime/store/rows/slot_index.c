/*
 * Slot indexes: from a key to its key word.
 *
 * Dense: an array of words per slot, made when the slot is first touched and kept until the table
 * ends, so that a worker may use a pointer into it without a lock. Hashed: an open-addressing table
 * per slot that grows by a quarter (load 0.72 to 0.9: at most 22 bytes a key). An entry moves only
 * while the slot's latch is held and after its word was locked, so the holder of a word keeps a
 * valid pointer.
 */
#include "store/rows/cut.h"
#include "store/rows/forget.h"

#include <stdlib.h>

enum { SPINS = 100, HASH_FIRST = 4, HASH_MAX = 1 << 30 };

void tide__index_counts(struct tide_table *table, int64_t bytes) {
    struct tide_budget *budget = table->budget;
    if (bytes < 0) {
        tide_budget_drop(budget, (uint64_t)-bytes);
    } else {
        tide_budget_keep(budget, (uint64_t)bytes);
    }
    atomic_fetch_add_explicit(&table->index_bytes, (uint64_t)bytes, memory_order_relaxed);
}

uint64_t tide__key_of(const struct tide_table *table, uint32_t slot, uint64_t place) {
    if (table->options.slots == TIDE_SLOTS_RANGE) {
        uint64_t key = tide__range_first(table, slot) + place;
        return key < table->options.key_count && tide__slot_of(table, key) == slot ? key : UINT64_MAX;
    }
    uint64_t shift = (place * UINT64_C(0x9e3779b97f4a7c15)) >> 52;
    uint64_t key = (place << 12) | ((slot - shift) & (TIDE_SLOT_COUNT - 1));
    return key < table->options.key_count ? key : UINT64_MAX;
}

atomic_uint_fast64_t *tide__dense_words(struct tide_table *table, uint32_t number) {
    struct tide__slot *slot = &table->slots[number];
    atomic_uint_fast64_t *words = atomic_load_explicit(&slot->index, memory_order_acquire); /* pairs with below */
    if (TIDE_LIKELY(words)) {
        return words;
    }
    tide_lock(&slot->latch);
    words = atomic_load_explicit(&slot->index, memory_order_relaxed);
    if (!words) {
        words = tide_alloc_zero((size_t)table->places_max, sizeof *words);
        if (words) {
            tide__index_counts(table, (int64_t)(table->places_max * sizeof *words));
            atomic_store_explicit(&slot->index, words, memory_order_release); /* pairs with the loads of passes */
        }
    }
    tide_unlock(&slot->latch);
    return words;
}

int tide__word_lock_slow(atomic_uint_fast64_t *word, bool patient, uint64_t *old) {
    for (;;) {
        for (int i = 0; i < SPINS; i++) {
            tide_pause();
            if (atomic_load_explicit(word, memory_order_relaxed) & TIDE__WORD_LOCK) {
                continue;
            }
            /* acquire: pairs with the release store that unlocks */
            uint64_t seen = atomic_fetch_or_explicit(word, TIDE__WORD_LOCK, memory_order_acquire);
            if (!(seen & TIDE__WORD_LOCK)) {
                *old = seen;
                return 0;
            }
        }
        if (!patient) {
            return TIDE_EBUSY;
        }
        tide_lend_core();
        if (tide_fiber_current()) {
            (void)tide_yield(); /* a killed fiber still finishes its call: rows are never left half
                                   written */
        }
    }
}

/* ---- hashed ---- */

static uint32_t home_of(const struct tide__hash *hash, uint64_t mixed) {
    return (uint32_t)(((mixed & UINT32_MAX) * hash->capacity) >> 32);
}

static struct tide__entry *find(struct tide__hash *hash, uint64_t key, uint64_t mixed) {
    uint32_t i = home_of(hash, mixed);
    for (;;) {
        struct tide__entry *entry = &hash->entries[i];
        if (atomic_load_explicit(&entry->word, memory_order_relaxed) == 0 || entry->key == key) {
            return entry;
        }
        i = i + 1 == hash->capacity ? 0 : i + 1;
    }
}

static bool vacant(struct tide__entry *entry) {
    return atomic_load_explicit(&entry->word, memory_order_relaxed) == 0;
}

/* Latch held. Waits for the word's holder: it holds one row for a copy and never takes the latch. */
static uint64_t lock_to_move(struct tide__entry *entry) {
    uint64_t word;
    while (tide__word_lock(&entry->word, false, &word)) {
        tide_lend_core();
    }
    return word;
}

struct tide__entry *tide__hashed_find(struct tide__hash *hash, uint64_t key) {
    struct tide__entry *entry = find(hash, key, tide_mix64(key));
    return vacant(entry) ? NULL : entry;
}

/* Deletion by backward shift (Knuth 6.4, algorithm R): an entry behind the gap fills it unless its home lies between
 * the two. What moves to before the place that a checkpoint has come to is looked at once more. */
void tide__hashed_remove(struct tide__hash *hash, struct tide__entry *entry) {
    uint32_t gap = (uint32_t)(entry - hash->entries);
    for (uint32_t i = gap;;) {
        i = i + 1 == hash->capacity ? 0 : i + 1;
        if (vacant(&hash->entries[i])) {
            break;
        }
        const uint32_t home = home_of(hash, tide_mix64(hash->entries[i].key));
        const bool between = gap <= i ? gap < home && home <= i : gap < home || home <= i;
        if (between) {
            continue;
        }
        const uint64_t word = lock_to_move(&hash->entries[i]);
        hash->entries[gap].key = hash->entries[i].key;
        tide__word_unlock(&hash->entries[gap].word, word);
        if (gap < hash->walked && !TIDE_MUTANT(walk_past_moved)) {
            hash->walked = gap;
        }
        gap = i;
    }
    atomic_store_explicit(&hash->entries[gap].word, 0, memory_order_relaxed); /* the latch publishes it */
    hash->count--;
}

/* Latch held. */
static struct tide__hash *grow(struct tide_table *table, struct tide__slot *slot, struct tide__hash *old) {
    uint64_t capacity = old ? (uint64_t)old->capacity + old->capacity / 4 + HASH_FIRST : HASH_FIRST;
    if (capacity > HASH_MAX) {
        return NULL;
    }
    struct tide__hash *hash = tide_alloc_zero(1, sizeof *hash + (size_t)capacity * sizeof hash->entries[0]);
    if (!hash) {
        return NULL;
    }
    hash->capacity = (uint32_t)capacity;
    uint64_t bytes = capacity * sizeof hash->entries[0];
    for (uint32_t i = 0; old && i < old->capacity; i++) {
        if (vacant(&old->entries[i])) {
            continue;
        }
        const uint64_t word = lock_to_move(&old->entries[i]);
        struct tide__entry *entry = find(hash, old->entries[i].key, tide_mix64(old->entries[i].key));
        entry->key = old->entries[i].key;
        atomic_store_explicit(&entry->word, word, memory_order_relaxed); /* the latch publishes it */
        hash->count++;
    }
    atomic_store_explicit(&slot->index, hash, memory_order_relaxed);
    tide__index_counts(table, (int64_t)(bytes - (old ? old->capacity * sizeof old->entries[0] : 0)));
    tide_free(old);
    return hash;
}

/* Latch held: an entry for a new key; NULL: out of memory. */
static struct tide__entry *make_entry(struct tide_table *table, struct tide__slot *slot, uint64_t key, uint64_t mixed) {
    struct tide__hash *hash = atomic_load_explicit(&slot->index, memory_order_relaxed);
    if (!hash || (uint64_t)(hash->count + 1) * 10 > (uint64_t)hash->capacity * 9) {
        hash = grow(table, slot, hash);
    }
    struct tide__entry *entry = hash ? find(hash, key, mixed) : NULL;
    if (entry) {
        entry->key = key;
        hash->count++;
    }
    return entry;
}

int tide__hashed_lock(struct tide_table *table, uint64_t key, unsigned create, uint32_t mask, bool patient,
                      atomic_uint_fast64_t **word, uint64_t *old) {
    const uint64_t mixed = tide_mix64(key);
    const uint32_t number = (uint32_t)(mixed >> 52);
    struct tide__slot *slot = &table->slots[number];
    const bool anyway = create == TIDE__ENTRY_MAKE;
    unsigned seen = 0;
    for (bool has_room = false;;) {
        int code = 0;
        tide_lock(&slot->latch);
        struct tide__hash *hash = atomic_load_explicit(&slot->index, memory_order_relaxed);
        struct tide__entry *entry = hash ? find(hash, key, mixed) : NULL;
        if (mask && /* 0: whatever the route is */
            (atomic_load_explicit(&slot->route, memory_order_relaxed) & mask) != TIDE__MINE) {
            code = TIDE__MISSED;
        } else if (!entry || vacant(entry)) {
            code = !create                               ? TIDE__NOT_FOUND
                   : !tide__forget_of(table) || has_room ? TIDE__FOUND
                                                         : tide__forget_admit(table, number, mixed, anyway, &seen);
            entry = code == TIDE__FOUND ? make_entry(table, slot, key, mixed) : NULL;
            if (entry) {
                *word = &entry->word;
                *old = TIDE__WORD_PRESENT | seen;
                atomic_store_explicit(*word, TIDE__WORD_LOCK | *old, memory_order_relaxed);
            } else if (code == TIDE__FOUND) {
                code = tide_fail(TIDE_ENOMEM, "no memory for the index of table '%s'", table->name);
            }
        } else {
            *word = &entry->word;
            code = tide__word_lock(*word, false, old) ? TIDE_EBUSY : TIDE__FOUND;
        }
        tide_unlock(&slot->latch);
        if (code == TIDE__CROWDED) {
            has_room = tide__forget_make_room(table, number, seen, anyway);
            if (has_room) {
                continue;
            }
            return TIDE__REFUSED;
        }
        if (code != TIDE_EBUSY || !patient) {
            return code;
        }
        if (tide_fiber_current()) {
            (void)tide_yield();
        }
    }
}

int tide__index_lock(struct tide_table *index, uint64_t key, bool create, bool patient, atomic_uint_fast64_t **word,
                     uint64_t *old) {
    if (index->options.keys == TIDE_KEYS_HASHED) {
        return tide__hashed_lock(index, key, create, 0, patient, word, old);
    }
    const uint32_t slot = tide__slot_of(index, key);
    /* acquire: with tide__dense_words */
    atomic_uint_fast64_t *words =
        create ? tide__dense_words(index, slot) : atomic_load_explicit(&index->slots[slot].index, memory_order_acquire);
    if (!words) {
        return create ? tide_fail(TIDE_ENOMEM, "no memory for the copies of '%s'", index->name) : TIDE__NOT_FOUND;
    }
    *word = words + tide__place_of(index, slot, key);
    return tide__word_lock(*word, patient, old) ? TIDE_EBUSY : TIDE__FOUND;
}

/* ---- walks ---- */

int tide__key_compare(const void *a, const void *b) {
    uint64_t x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return x < y ? -1 : x > y;
}

/* Its row is here, or about to be: at every moment some node lists it. */
static bool listed(uint64_t word) {
    switch ((enum tide__key_state)tide__word_state(word)) {
    case TIDE__OWNED:
    case TIDE__ARRIVING:
    case TIDE__COLD:
        return true;
    case TIDE__ABSENT:
        break;
    }
    return false;
}

static int hashed_keys(struct tide__slot *slot, uint64_t from, uint64_t *keys, size_t limit, size_t *count,
                       bool *more) {
    uint64_t *all = NULL;
    size_t found = 0;
    tide_lock(&slot->latch);
    struct tide__hash *hash = atomic_load_explicit(&slot->index, memory_order_relaxed);
    if (hash && hash->count) {
        all = tide_alloc(hash->count * sizeof *all);
        for (uint32_t i = 0; all && i < hash->capacity; i++) {
            uint64_t word = atomic_load_explicit(&hash->entries[i].word, memory_order_relaxed);
            if (listed(word) && hash->entries[i].key >= from) {
                all[found++] = hash->entries[i].key;
            }
        }
        if (!all) {
            tide_unlock(&slot->latch);
            return TIDE_ENOMEM;
        }
    }
    tide_unlock(&slot->latch);
    if (found) {
        qsort(all, found, sizeof *all, tide__key_compare);
    }
    *more = found > limit;
    *count = found < limit ? found : limit;
    if (*count) {
        memcpy(keys, all, *count * sizeof *keys);
    }
    tide_free(all);
    return 0;
}

uint64_t tide__slot_places(struct tide_table *table, uint32_t number) {
    if (table->options.keys != TIDE_KEYS_HASHED) {
        return table->places_max;
    }
    struct tide__slot *slot = &table->slots[number];
    tide_lock(&slot->latch);
    const struct tide__hash *hash = atomic_load_explicit(&slot->index, memory_order_relaxed);
    const uint64_t count = hash ? hash->count : 0;
    tide_unlock(&slot->latch);
    return count;
}

int tide__slot_keys(struct tide_table *table, uint32_t number, uint64_t from, uint64_t *keys, size_t limit,
                    size_t *count, bool *more) {
    struct tide__slot *slot = &table->slots[number];
    *count = 0;
    *more = false;
    if (table->options.keys == TIDE_KEYS_HASHED) {
        return hashed_keys(slot, from, keys, limit, count, more);
    }
    atomic_uint_fast64_t *words = atomic_load_explicit(&slot->index, memory_order_acquire); /* tide__dense_words */
    if (!words || from >= table->options.key_count) {
        return 0;
    }
    /* The first place whose key can be >= from; earlier ones are skipped by the comparison below.
     */
    uint64_t place = table->options.slots == TIDE_SLOTS_HASH ? from >> 12 : 0;
    if (table->options.slots == TIDE_SLOTS_RANGE && from > tide__range_first(table, number)) {
        place = from - tide__range_first(table, number);
    }
    for (; place < table->places_max; place++) {
        uint64_t word = atomic_load_explicit(&words[place], memory_order_relaxed);
        if (!listed(word)) {
            continue;
        }
        uint64_t key = tide__key_of(table, number, place);
        if (key < from || key == UINT64_MAX) {
            continue;
        }
        if (*count == limit) {
            *more = true;
            break;
        }
        keys[(*count)++] = key;
    }
    return 0;
}

/* Takes the row of a locked word and unlocks it: the key leaves, what terms were seen stays. */
static int drain_word(struct tide_table *table, atomic_uint_fast64_t *word, uint64_t key,
                      int (*each)(void *arg, uint64_t key, uint64_t word, const float *row), void *arg) {
    uint64_t old;
    while (tide__word_lock(word, false, &old)) {
        tide_lend_core();
    }
    if (tide__word_state(old) != TIDE__OWNED) {
        tide__word_unlock(word, old);
        return 0;
    }
    uint32_t row = (uint32_t)old;
    int code = each ? each(arg, key, old, tide__slab_row(&table->slab, row)) : 0;
    if (code) {
        tide__word_unlock(word, old);
        return code;
    }
    tide__slab_give(&table->slab, row);
    tide__word_unlock(word, (old & (TIDE__WORD_SEEN | TIDE__WORD_PRESENT)) | ((uint64_t)TIDE__ABSENT << 60));
    return 0;
}

int tide__slot_drain(struct tide_table *table, uint32_t number,
                     int (*each)(void *arg, uint64_t key, uint64_t word, const float *row), void *arg) {
    struct tide__slot *slot = &table->slots[number];
    int code = 0;
    if (!each) {
        tide__cut_vanish(table);
    }
    if (table->options.keys == TIDE_KEYS_HASHED) {
        tide_lock(&slot->latch);
        struct tide__hash *hash = atomic_load_explicit(&slot->index, memory_order_relaxed);
        for (uint32_t i = 0; hash && i < hash->capacity && !code; i++) {
            if (!vacant(&hash->entries[i])) {
                code = drain_word(table, &hash->entries[i].word, hash->entries[i].key, each, arg);
            }
        }
        if (hash && !code) {
            atomic_store_explicit(&slot->index, NULL, memory_order_relaxed);
            tide__index_counts(table, -(int64_t)(hash->capacity * sizeof hash->entries[0]));
            tide_free(hash);
        }
        tide_unlock(&slot->latch);
        if (tide__forget_of(table) && !code && !each) { /* else the sketch follows the rows */
            tide_free(tide__forget_take_sketch(table, number));
        }
        return code;
    }
    /* A worker that makes the array now does so under the latch, and then sees the slot's new
     * route. */
    tide_lock(&slot->latch);
    atomic_uint_fast64_t *words = atomic_load_explicit(&slot->index, memory_order_relaxed);
    tide_unlock(&slot->latch);
    for (uint64_t place = 0; words && place < table->places_max && !code; place++) {
        if (atomic_load_explicit(&words[place], memory_order_relaxed) != 0) {
            code = drain_word(table, &words[place], tide__key_of(table, number, place), each, arg);
        }
    }
    return code;
}

void tide__slots_deinit(struct tide_table *table) {
    for (uint32_t s = 0; s < TIDE_SLOT_COUNT; s++) {
        tide_free(atomic_load_explicit(&table->slots[s].index, memory_order_relaxed));
    }
}
