/* See sketch.h. The counters of a row are contiguous, 16 in a word. */
#include "store/rows/sketch.h"

enum { WIDTH_LEAST = 128, A_WORD = 16, A_KEY = 8 };

static uint32_t width_for(uint64_t keys) {
    uint32_t width = WIDTH_LEAST;
    while (width < keys * A_KEY && width < UINT32_C(1) << 30) {
        width *= 2;
    }
    return width;
}

size_t tide__sketch_words(uint64_t keys) {
    return (size_t)width_for(keys) / A_WORD * TIDE__SKETCH_ROWS;
}

size_t tide__sketch_bytes(uint64_t keys) {
    return sizeof(struct tide__sketch) + tide__sketch_words(keys) * sizeof(uint64_t);
}

struct tide__sketch *tide__sketch_create(uint64_t keys) {
    struct tide__sketch *sketch = tide_alloc_zero(1, tide__sketch_bytes(keys));
    if (sketch) {
        sketch->width = width_for(keys);
        sketch->window = (uint32_t)(keys * A_KEY < WIDTH_LEAST ? WIDTH_LEAST : keys * A_KEY);
        sketch->left = sketch->window;
    }
    return sketch;
}

/* The index of the key's counter in each row. */
static void places(const struct tide__sketch *sketch, uint64_t hash, uint32_t at[TIDE__SKETCH_ROWS]) {
    const uint64_t mixed = tide_mix64(hash);
    const uint32_t first = (uint32_t)mixed, step = (uint32_t)(mixed >> 32) | 1u;
    for (uint32_t row = 0; row < TIDE__SKETCH_ROWS; row++) {
        at[row] = row * sketch->width + ((first + row * step) & (sketch->width - 1));
    }
}

static unsigned counter(const struct tide__sketch *sketch, uint32_t at) {
    return (unsigned)(sketch->counters[at / A_WORD] >> at % A_WORD * 4) & 15u;
}

static unsigned least(const struct tide__sketch *sketch, const uint32_t at[TIDE__SKETCH_ROWS]) {
    unsigned found = TIDE__SKETCH_MOST;
    for (uint32_t row = 0; row < TIDE__SKETCH_ROWS; row++) {
        const unsigned count = counter(sketch, at[row]);
        found = count < found ? count : found;
    }
    return found;
}

static void halve(struct tide__sketch *sketch) {
    for (size_t i = 0; i < (size_t)sketch->width / A_WORD * TIDE__SKETCH_ROWS; i++) {
        sketch->counters[i] = sketch->counters[i] >> 1 & UINT64_C(0x7777777777777777);
    }
    sketch->left = sketch->window;
}

unsigned tide__sketch_estimate(const struct tide__sketch *sketch, uint64_t hash) {
    uint32_t at[TIDE__SKETCH_ROWS];
    places(sketch, hash, at);
    return least(sketch, at);
}

unsigned tide__sketch_add(struct tide__sketch *sketch, uint64_t hash) {
    uint32_t at[TIDE__SKETCH_ROWS];
    places(sketch, hash, at);
    const unsigned before = least(sketch, at);
    if (before < TIDE__SKETCH_MOST) {
        for (uint32_t row = 0; row < TIDE__SKETCH_ROWS; row++) {
            if (counter(sketch, at[row]) == before) {
                sketch->counters[at[row] / A_WORD] += UINT64_C(1) << at[row] % A_WORD * 4;
            }
        }
    }
    const unsigned now = before < TIDE__SKETCH_MOST ? before + 1 : before;
    if (--sketch->left == 0) {
        halve(sketch);
    }
    return now;
}
