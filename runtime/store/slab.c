/*
 * The slab of a table: rows of one size, named by 32-bit numbers that fit a key word.
 *
 * Arena a holds base << a rows, so 32 pointers cover every number, none ever moves, and a number
 * becomes an address by one bit scan. Arenas are address space that is committed as rows are
 * touched, so doubling wastes no memory. Rows are aligned to cache lines only where that costs at
 * most 15 %. Free rows form a list through their first word.
 */
#include "store/store_internal.h"

enum {
    ARENA_BYTES_MIN = 64 << 10,
    ARENA_BYTES_LARGE = 8 << 20 /* from here on a half used large page is little beside the rest */
};

static uint32_t row_stride(uint32_t row_floats) {
    const uint32_t bytes = row_floats * 4;
    static const uint32_t alignments[] = {64, 16};
    for (size_t i = 0; i < TIDE_COUNT(alignments); i++) {
        uint32_t rounded = (bytes + alignments[i] - 1) / alignments[i] * alignments[i];
        if ((uint64_t)(rounded - bytes) * 100 <= (uint64_t)bytes * 15) {
            return rounded;
        }
    }
    return bytes;
}

void tide__slab_init(struct tide__slab *slab, uint32_t row_floats) {
    memset(slab, 0, sizeof *slab);
    slab->row_floats = row_floats;
    slab->stride = row_stride(row_floats);
    while (((uint64_t)slab->stride << slab->base_shift) < ARENA_BYTES_MIN) {
        slab->base_shift++;
    }
    slab->free_first = UINT32_MAX;
}

static size_t arena_bytes(const struct tide__slab *slab, unsigned arena) {
    return (size_t)slab->stride << (slab->base_shift + arena);
}

void tide__slab_deinit(struct tide__slab *slab) {
    for (unsigned a = 0; a < TIDE__ARENAS; a++) {
        if (slab->arena[a]) {
            tide_unmap(slab->arena[a], arena_bytes(slab, a));
            slab->arena[a] = NULL;
        }
    }
}

int tide__slab_take(struct tide__slab *slab, uint32_t *row) {
    int code = 0;
    tide_lock(&slab->lock);
    if (slab->free_first != UINT32_MAX) {
        *row = slab->free_first;
        memcpy(&slab->free_first, tide__slab_row(slab, *row), sizeof slab->free_first);
    } else if (slab->next == UINT32_MAX - 1) {
        code = TIDE_EFULL;
    } else {
        uint64_t biased = (uint64_t)slab->next + (UINT64_C(1) << slab->base_shift);
        unsigned arena = 63u - (unsigned)__builtin_clzll(biased) - slab->base_shift;
        if (!slab->arena[arena]) {
            slab->arena[arena] = tide_map(arena_bytes(slab, arena), false);
            if (slab->arena[arena] && arena_bytes(slab, arena) >= ARENA_BYTES_LARGE) {
                tide_map_large(slab->arena[arena], arena_bytes(slab, arena));
            }
        }
        if (slab->arena[arena]) {
            *row = slab->next++;
        } else {
            code = TIDE_ENOMEM;
        }
    }
    tide_unlock(&slab->lock);
    if (code) {
        return tide_fail(code, "no memory for another row of %u floats", slab->row_floats);
    }
    atomic_fetch_add_explicit(&slab->used, 1, memory_order_relaxed);
    return 0;
}

void tide__slab_give(struct tide__slab *slab, uint32_t row) {
    tide_lock(&slab->lock);
    memcpy(tide__slab_row(slab, row), &slab->free_first, sizeof slab->free_first);
    slab->free_first = row;
    tide_unlock(&slab->lock);
    atomic_fetch_sub_explicit(&slab->used, 1, memory_order_relaxed);
}

uint64_t tide__slab_bytes(struct tide__slab *slab) {
    tide_lock(&slab->lock);
    uint64_t bytes = (uint64_t)slab->next * slab->stride;
    tide_unlock(&slab->lock);
    return bytes;
}
