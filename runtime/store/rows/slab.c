/*
 * The slab of a table: rows of one size, named by 32-bit numbers that fit a key word.
 *
 * Arena a holds base << a rows, so 32 pointers cover every number, none ever moves, and a number
 * becomes an address by one bit scan. Arenas are address space that is committed as rows are
 * touched, so doubling wastes no memory. Rows are aligned to pages where that costs at most 4 % (a
 * cold row is then found by one walk of the page tables and fetched in one run), to cache lines where
 * it costs at most 15 %. Free rows form a list through their first word; one of it names further free rows, as
 * many as it has room for, so that taking and giving rows does not fetch each from memory.
 */
#include "store/rows/slab.h"

#include <string.h>

enum {
    ARENA_BYTES_MIN = 64 << 10,
    COUNTED_BYTES = 64 << 10, /* of which the budget hears at a time */
    HAND_BYTES = 1 << 20,     /* of rows in hand, which workers cannot have */
    HAND_MOVE = 32            /* rows between the hand and the others, in one go */
};

static uint32_t row_stride(uint32_t row_floats) {
    const uint32_t bytes = row_floats * 4;
    static const struct {
        uint32_t bytes, percent; /* may be spent on it */
    } alignments[] = {{4096, 4}, {64, 15}, {16, 15}};
    for (size_t i = 0; i < TIDE_COUNT(alignments); i++) {
        const uint32_t to = alignments[i].bytes, rounded = (bytes + to - 1) / to * to;
        if ((uint64_t)(rounded - bytes) * 100 <= (uint64_t)bytes * alignments[i].percent) {
            return rounded;
        }
    }
    return bytes;
}

void tide__slab_init(struct tide__slab *slab, uint32_t row_floats, struct tide_budget *budget) {
    memset(slab, 0, sizeof *slab);
    slab->budget = budget;
    slab->row_floats = row_floats;
    slab->stride = row_stride(row_floats);
    while (((uint64_t)slab->stride << slab->base_shift) < ARENA_BYTES_MIN) {
        slab->base_shift++;
    }
    slab->first_rows = UINT64_C(1) << slab->base_shift;
    slab->free_first = UINT32_MAX;
    slab->hand_rows = HAND_BYTES / slab->stride;
    slab->hand_rows = slab->hand_rows < 2 * HAND_MOVE     ? 2 * HAND_MOVE
                      : slab->hand_rows < TIDE__HAND_ROWS ? slab->hand_rows
                                                          : TIDE__HAND_ROWS;
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
    if (slab->budget) {
        tide_budget_drop(slab->budget, slab->counted);
    }
}

/* The lock is held. */
static void count_rows(struct tide__slab *slab) {
    const uint64_t bytes = (uint64_t)slab->next * slab->stride;
    if (slab->budget && tide_budget_counts(slab->budget) && bytes > slab->counted) {
        const uint64_t more = (bytes - slab->counted + COUNTED_BYTES - 1) / COUNTED_BYTES * COUNTED_BYTES;
        tide_budget_keep(slab->budget, more);
        slab->counted += more;
    }
}

/* The lock is held. *rows ever unused rows, or fewer, from number *first on; at least one. */
static int take_new(struct tide__slab *slab, uint32_t *first, uint32_t *rows) {
    if (slab->next == UINT32_MAX - 1) {
        return TIDE_EFULL;
    }
    const uint64_t biased = slab->next + slab->first_rows;
    const unsigned arena = 63u - (unsigned)__builtin_clzll(biased) - slab->base_shift;
    if (!slab->arena[arena]) {
        const uint64_t before = (slab->first_rows << arena) - slab->first_rows; /* rows */
        slab->arena[arena] = tide_map(arena_bytes(slab, arena), false);
        slab->row_0[arena + slab->base_shift] = (uintptr_t)slab->arena[arena] - before * slab->stride;
    }
    if (!slab->arena[arena]) {
        return TIDE_ENOMEM;
    }
    const uint64_t left = (UINT64_C(2) << (arena + slab->base_shift)) - biased;
    *rows = *rows < left ? *rows : (uint32_t)left;
    *rows = *rows < UINT32_MAX - 1 - slab->next ? *rows : UINT32_MAX - 1 - slab->next;
    *first = slab->next;
    slab->next += *rows;
    count_rows(slab);
    return 0;
}

/* A free row of the list holds numbers: the next one of the list, how many others are named, those. Small ones have
 * room for the first alone. */
enum { NEXT, NAMED_COUNT, NAMED };

static uint32_t number_at(const struct tide__slab *slab, uint32_t row, uint32_t place) {
    uint32_t number;
    memcpy(&number, tide__slab_row(slab, row) + place, sizeof number);
    return number;
}

static void set_number(const struct tide__slab *slab, uint32_t row, uint32_t place, uint32_t number) {
    memcpy(tide__slab_row(slab, row) + place, &number, sizeof number);
}

static bool take_free(struct tide__slab *slab, uint32_t *row) {
    const uint32_t first = slab->free_first;
    if (first == UINT32_MAX) {
        return false;
    }
    const uint32_t named = slab->row_floats > NAMED ? number_at(slab, first, NAMED_COUNT) : 0;
    if (named > 0) {
        *row = number_at(slab, first, NAMED + named - 1);
        set_number(slab, first, NAMED_COUNT, named - 1);
    } else {
        *row = first;
        slab->free_first = number_at(slab, first, NEXT);
    }
    return true;
}

static void give(struct tide__slab *slab, uint32_t row) {
    const uint32_t first = slab->free_first;
    const uint32_t room = slab->row_floats > NAMED ? slab->row_floats - NAMED : 0;
    const uint32_t named = first != UINT32_MAX && room ? number_at(slab, first, NAMED_COUNT) : room;
    if (named < room) {
        set_number(slab, first, NAMED + named, row);
        set_number(slab, first, NAMED_COUNT, named + 1);
        return;
    }
    set_number(slab, row, NEXT, first);
    if (room) {
        set_number(slab, row, NAMED_COUNT, 0);
    }
    slab->free_first = row;
}

static int no_row(const struct tide__slab *slab, int code) {
    return tide_fail(code, "no memory for another row of %u floats", slab->row_floats);
}

int tide__slab_take(struct tide__slab *slab, uint32_t *row) {
    uint32_t one = 1;
    tide_lock(&slab->lock);
    const int code = take_free(slab, row) ? 0 : take_new(slab, row, &one);
    tide_unlock(&slab->lock);
    if (code) {
        return no_row(slab, code);
    }
    atomic_fetch_add_explicit(&slab->used, 1, memory_order_relaxed);
    return 0;
}

void tide__slab_give(struct tide__slab *slab, uint32_t row) {
    tide_lock(&slab->lock);
    give(slab, row);
    tide_unlock(&slab->lock);
    atomic_fetch_sub_explicit(&slab->used, 1, memory_order_relaxed);
}

static void set_in_hand(struct tide__slab *slab, uint32_t count) {
    atomic_store_explicit(&slab->in_hand, count, memory_order_relaxed); /* one thread writes */
}

/* New ones so that the first comes last and is used first. */
int tide__hand_fill(struct tide__slab *slab) {
    uint32_t first = 0, count = 0, fresh = HAND_MOVE;
    int code = 0;
    tide_lock(&slab->lock);
    while (count < HAND_MOVE && take_free(slab, &slab->hand[count])) {
        count++;
    }
    if (count == 0) {
        code = take_new(slab, &first, &fresh);
        count = code ? 0 : fresh;
        for (uint32_t i = 0; i < count; i++) {
            slab->hand[i] = first + count - 1 - i;
        }
    }
    tide_unlock(&slab->lock);
    set_in_hand(slab, count);
    atomic_fetch_add_explicit(&slab->used, count, memory_order_relaxed);
    return count ? 0 : no_row(slab, code);
}

void tide__hand_spill(struct tide__slab *slab) {
    const uint32_t left = slab->hand_rows - HAND_MOVE;
    tide_lock(&slab->lock);
    for (uint32_t i = left; i < slab->hand_rows; i++) {
        give(slab, slab->hand[i]);
    }
    tide_unlock(&slab->lock);
    atomic_fetch_sub_explicit(&slab->used, HAND_MOVE, memory_order_relaxed);
    set_in_hand(slab, left);
}

uint32_t tide__slab_spare(struct tide__slab *slab) {
    tide_lock(&slab->lock);
    const uint32_t next = slab->next,
                   used = tide__slab_used(slab) + atomic_load_explicit(&slab->lent, memory_order_relaxed);
    tide_unlock(&slab->lock);
    return next > used ? next - used : 0;
}

uint64_t tide__slab_bytes(struct tide__slab *slab) {
    tide_lock(&slab->lock);
    uint64_t bytes = (uint64_t)slab->next * slab->stride;
    tide_unlock(&slab->lock);
    return bytes;
}
