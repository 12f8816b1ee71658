/* Rows of tables with copies: one is locked wherever its slot's home is; many are fetched ahead. */
#include "store/replica/replica.h"

enum { LINE = 64, LINES_AHEAD = 4 };

int tide__row_lock(struct tide_table *table, uint32_t slot, uint64_t key, bool create, atomic_uint_fast64_t **word,
                   uint64_t *old) {
    int code;
    if (table->options.keys == TIDE_KEYS_HASHED) {
        while ((code = tide__hashed_lock(table, key, create, 0, false, word, old)) == TIDE_EBUSY) {
            tide_lend_core();
        }
        return code;
    }
    /* acquire: with tide__dense_words */
    atomic_uint_fast64_t *words =
        create ? tide__dense_words(table, slot) : atomic_load_explicit(&table->slots[slot].index, memory_order_acquire);
    if (!words) {
        return create ? tide_fail(TIDE_ENOMEM, "no memory for the index of table '%s'", table->name) : TIDE__NOT_FOUND;
    }
    *word = words + tide__place_of(table, slot, key);
    while (tide__word_lock(*word, false, old)) {
        tide_lend_core();
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

void tide__rows_ahead(struct tide_table *table, const uint8_t *keys, const uint32_t *indices, size_t count,
                      bool words_only, struct tide__rows *out) {
    out->count = count < TIDE__ROWS_AHEAD ? count : TIDE__ROWS_AHEAD;
    for (size_t j = 0; j < out->count; j++) {
        const size_t at = indices ? indices[j] : j;
        memcpy(&out->keys[j], keys + at * sizeof out->keys[j], sizeof out->keys[j]);
        out->slots[j] = tide__slot_of(table, out->keys[j]);
        out->words[j] = NULL;
        __builtin_prefetch(&table->slots[out->slots[j]]);
        if (!words_only) {
            __builtin_prefetch(&tide__replicas_of(table)->slots[out->slots[j]], 1);
        }
    }
    if (table->options.keys == TIDE_KEYS_HASHED) {
        return;
    }
    for (size_t j = 0; j < out->count; j++) {
        /* acquire: with tide__dense_words */
        atomic_uint_fast64_t *words = atomic_load_explicit(&table->slots[out->slots[j]].index, memory_order_acquire);
        if (words) {
            out->words[j] = words + tide__place_of(table, out->slots[j], out->keys[j]);
            __builtin_prefetch(out->words[j], 1);
        }
    }
    for (size_t j = 0; j < out->count && !words_only; j++) {
        if (out->words[j]) {
            fetch_row(table, out->words[j]);
        }
    }
}
