/* Rows of tables with copies: one is locked wherever its slot's home is; many are fetched ahead. */
#include "store/replica.h"

enum { BLOCK = 32, LINE = 64, LINES_AHEAD = 4 };

uint64_t tide__row_look(const struct tide_table *table, uint32_t slot, uint64_t key) {
    if (table->options.keys == TIDE_KEYS_HASHED) {
        return 0;
    }
    /* acquire: with tide__dense_words */
    const atomic_uint_fast64_t *words =
        atomic_load_explicit(&table->slots[slot].index, memory_order_acquire);
    /* relaxed: whoever needs the row locks it */
    return words ? atomic_load_explicit(words + tide__place_of(table, slot, key),
                                        memory_order_relaxed)
                 : 0;
}

int tide__row_lock(struct tide_table *table, uint32_t slot, uint64_t key, bool create,
                   atomic_uint_fast64_t **word, uint64_t *old) {
    int code;
    if (table->options.keys == TIDE_KEYS_HASHED) {
        while ((code = tide__hashed_lock(table, key, create, 0, false, word, old)) == TIDE_EBUSY) {
            tide_pause();
        }
        return code;
    }
    /* acquire: with tide__dense_words */
    atomic_uint_fast64_t *words =
        create ? tide__dense_words(table, slot)
               : atomic_load_explicit(&table->slots[slot].index, memory_order_acquire);
    if (!words) {
        return create ? tide_fail(TIDE_ENOMEM, "no memory for the index of table '%s'", table->name)
                      : TIDE__NOT_FOUND;
    }
    *word = words + tide__place_of(table, slot, key);
    while (tide__word_lock(*word, false, old)) {
        tide_pause();
    }
    return TIDE__FOUND;
}

static void fetch_row(const struct tide_table *table, atomic_uint_fast64_t *at) {
    /* acquire: the arena was set before the word's release */
    uint64_t word = atomic_load_explicit(at, memory_order_acquire);
    const size_t bytes = table->row_floats * sizeof(float);
    if (tide__word_state(word) == TIDE__OWNED) {
        const char *row = (const char *)tide__slab_row(&table->slab, (uint32_t)word);
        for (size_t line = 0; line < bytes && line < LINES_AHEAD * LINE; line += LINE) {
            __builtin_prefetch(row + line, 1);
        }
        __builtin_prefetch(row + bytes - 1, 1);
    }
}

void tide__rows_prefetch(struct tide_table *table, const uint8_t *keys, size_t i, size_t count,
                         bool words_only) {
    struct tide__replicas *replicas = table->replicas;
    atomic_uint_fast64_t *words[BLOCK] = {NULL};
    uint64_t key[BLOCK];
    uint32_t slots[BLOCK];
    if (i % BLOCK) {
        return;
    }
    const size_t block = count - i < BLOCK ? count - i : BLOCK;
    for (size_t j = 0; j < block; j++) {
        memcpy(&key[j], keys + (i + j) * sizeof key[j], sizeof key[j]);
        slots[j] = tide__slot_of(table, key[j]);
        __builtin_prefetch(&table->slots[slots[j]]);
        __builtin_prefetch(&replicas->mark[slots[j]], 1);
        __builtin_prefetch(&replicas->number[slots[j]], 1);
    }
    if (table->options.keys == TIDE_KEYS_HASHED) {
        return;
    }
    for (size_t j = 0; j < block; j++) {
        /* acquire: with tide__dense_words */
        words[j] = atomic_load_explicit(&table->slots[slots[j]].index, memory_order_acquire);
        if (words[j]) {
            words[j] += tide__place_of(table, slots[j], key[j]);
            __builtin_prefetch(words[j], 1);
        }
    }
    for (size_t j = 0; j < block && !words_only; j++) {
        if (words[j]) {
            fetch_row(table, words[j]);
        }
    }
}
