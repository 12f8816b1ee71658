/* What cut.h promises. Kept versions hang in lists by slot under one lock of the table, taken by
 * holders of a word's lock and held for a few instructions, or the search of one slot's list. */
#include "store/core/clock.h"
#include "store/rows/cut.h"
#include "store/rows/rules.h"

int tide__cut_init(struct tide_table *table) {
    if (!table->taken) {
        table->taken = tide_alloc_zero(1, sizeof *table->taken);
    }
    return table->taken ? 0 : tide_fail(TIDE_ENOMEM, "no memory to write a generation of table '%s'", table->name);
}

static void forget(struct tide_table *table) {
    struct tide__kept *kept;
    for (uint32_t slot = 0; table->taken && slot < TIDE_SLOT_COUNT; slot++) {
        while ((kept = table->taken->slots[slot])) {
            table->taken->slots[slot] = kept->next;
            tide_free(kept);
        }
    }
}

void tide__cut_deinit(struct tide_table *table) {
    forget(table);
    tide_free(table->taken);
    table->taken = NULL;
}

/* ---- phases ---- */

static void set(struct tide_table *table, uint64_t cut) {
    /* release: `taken` before it; pairs with the loads under a word's lock */
    atomic_store_explicit(&table->cut, cut, memory_order_release);
}

void tide__cut_tell(struct tide_table *table, uint32_t sequence, uint32_t clock, bool full) {
    uint64_t bit = atomic_load_explicit(&table->cut, memory_order_relaxed) & TIDE__WORD_TAKEN;
    atomic_store_explicit(&table->taken->failed, false, memory_order_relaxed);
    set(table, (bit ^ TIDE__WORD_TAKEN) | (uint64_t)clock << 16 | (uint64_t)(sequence & 15u) << 8 |
                   (full ? TIDE__CUT_FULL : 0) | (clock == TIDE_NO_CLOCK ? TIDE__CUT_FUZZY : 0) | TIDE__CUT_TOLD);
}

void tide__cut_walk(struct tide_table *table, bool discard) {
    uint64_t cut = atomic_load_explicit(&table->cut, memory_order_relaxed);
    set(table, (cut & ~TIDE__CUT_PHASE) | TIDE__CUT_WALK | (discard ? TIDE__CUT_DISCARD : 0));
}

void tide__cut_end(struct tide_table *table) {
    uint64_t cut = atomic_load_explicit(&table->cut, memory_order_relaxed);
    tide_lock(&table->taken->lock);
    forget(table);
    tide_unlock(&table->taken->lock);
    set(table, (cut & TIDE__WORD_TAKEN) | (uint64_t)tide__cut_sequence(cut) << 8);
}

void tide__cut_vanish(struct tide_table *table) {
    atomic_store_explicit(&table->rows_removed, true, memory_order_relaxed);
    if (table->taken) {
        atomic_store_explicit(&table->taken->failed, true, memory_order_relaxed);
    }
}

/* ---- versions kept aside ---- */

static void keep(struct tide_table *table, uint64_t cut, uint64_t key, const void *row, bool wanted) {
    const size_t bytes = table->row_floats * sizeof(float);
    if (cut & TIDE__CUT_DISCARD) {
        return;
    }
    struct tide__kept *kept = tide_alloc(sizeof *kept + bytes);
    if (!kept) {
        atomic_store_explicit(&table->taken->failed, true, memory_order_relaxed);
        return;
    }
    kept->key = key;
    kept->wanted = wanted;
    memcpy(kept->row, row, bytes);
    struct tide__kept **list = &table->taken->slots[tide__slot_of(table, key)];
    tide_lock(&table->taken->lock);
    kept->next = *list;
    *list = kept;
    tide_unlock(&table->taken->lock);
    atomic_fetch_add_explicit(&table->taken->count, 1, memory_order_relaxed);
}

/* Lock held. */
static struct tide__kept **find(struct tide_table *table, uint64_t key) {
    struct tide__kept **at = &table->taken->slots[tide__slot_of(table, key)];
    while (*at && (*at)->key != key) {
        at = &(*at)->next;
    }
    return at;
}

void tide__cut_by_update(const struct tide_table *table, float *row, const void *delta) {
    tide__rule_apply(&table->options, row, delta);
}

static void apply(struct tide_table *table, uint64_t key, tide__cut_rule rule, const void *delta) {
    tide_lock(&table->taken->lock);
    struct tide__kept *kept = *find(table, key);
    if (kept) {
        kept->wanted = true;
        if (delta) {
            rule(table, kept->row, delta);
        }
    }
    tide_unlock(&table->taken->lock);
}

struct tide__kept *tide__cut_kept(struct tide_table *table, uint32_t slot) {
    struct tide__kept *kept, *idle = NULL;
    tide_lock(&table->taken->lock);
    while ((kept = table->taken->slots[slot])) {
        table->taken->slots[slot] = kept->next;
        if (kept->wanted) {
            break;
        }
        kept->next = idle;
        idle = kept;
    }
    tide_unlock(&table->taken->lock);
    while (idle) {
        struct tide__kept *next = idle->next;
        tide_free(idle);
        idle = next;
    }
    return kept;
}

/* ---- rows ---- */

static bool is_taken(uint64_t cut, uint64_t word) {
    return ((cut ^ word) & TIDE__WORD_TAKEN) == 0;
}

static uint64_t with_flags(uint64_t cut, uint64_t word, bool taken, bool dirty) {
    uint64_t bit = (taken ? cut : ~cut) & TIDE__WORD_TAKEN;
    return (word & ~(TIDE__WORD_TAKEN | TIDE__WORD_DIRTY)) | bit | (dirty ? TIDE__WORD_DIRTY : 0);
}

static bool is_wanted(uint64_t cut, uint64_t word) {
    return (cut & TIDE__CUT_FULL) || (word & TIDE__WORD_DIRTY);
}

void tide__cut_split(struct tide_table *table, uint64_t cut, uint64_t key, uint64_t *word, const float *row, bool made,
                     uint32_t stamp, tide__cut_rule rule, const void *delta) {
    bool taken = !made && is_taken(cut, *word);
    if (tide__cut_phase(cut) == TIDE__CUT_TOLD) {
        if (stamp != TIDE_NO_CLOCK && stamp >= tide__cut_clock(cut)) {
            if (!taken && !TIDE_MUTANT(update_after_the_cut_included)) {
                keep(table, cut, key, row, !made && is_wanted(cut, *word));
                taken = true;
            }
        } else if (taken && stamp != TIDE_NO_CLOCK) {
            apply(table, key, rule, delta);
        }
    } else if (!taken && (made || !(cut & TIDE__CUT_FUZZY))) {
        if (!made && is_wanted(cut, *word)) {
            keep(table, cut, key, row, true);
        }
        taken = true;
    }
    const uint64_t clean = TIDE_MUTANT(clean_survives_push) ? 0 : TIDE__WORD_CLEAN;
    *word = with_flags(cut, *word, taken, true) & ~clean;
}

uint32_t tide__cut_give_busy(struct tide_table *table, uint64_t cut, uint64_t key, uint64_t word, const float *row,
                             struct tide__kept **second) {
    const bool taken = is_taken(cut, word);
    uint32_t sequence = tide__cut_sequence(cut), marks = 0;
    *second = NULL;
    if (tide__cut_phase(cut) == TIDE__CUT_WALK && !taken) {
        if (is_wanted(cut, word) && !TIDE_MUTANT(moved_row_missed)) {
            keep(table, cut, key, row, true);
        }
        return TIDE__MARK_SEQUENCE(sequence);
    }
    if (tide__cut_phase(cut) == TIDE__CUT_TOLD && taken) {
        tide_lock(&table->taken->lock);
        struct tide__kept **at = find(table, key);
        *second = *at;
        if (*at) {
            *at = (*at)->next;
        }
        tide_unlock(&table->taken->lock);
        marks = *second ? TIDE__MARK_SPLIT : 0;
    }
    return marks | TIDE__MARK_SEQUENCE(taken ? sequence : sequence - 1) |
           (word & TIDE__WORD_DIRTY ? TIDE__MARK_DIRTY : 0);
}

uint64_t tide__cut_arrive_busy(struct tide_table *table, uint64_t cut, uint64_t key, uint64_t word, uint32_t marks,
                               const float *row, const void *second) {
    const unsigned phase = tide__cut_phase(cut);
    const bool same = (marks >> 24 & 15u) == tide__cut_sequence(cut);
    bool dirty = marks & TIDE__MARK_DIRTY;
    if (marks & TIDE__CUT_NO_ROW) { /* it has no push */
        return with_flags(cut, word, phase != TIDE__CUT_TOLD, false);
    }
    if (same) {
        if (second) {
            keep(table, cut, key, second, true);
        }
        return with_flags(cut, word, true, dirty);
    }
    if (phase == TIDE__CUT_TOLD) {
        return with_flags(cut, word, false, dirty);
    }
    if (dirty || (cut & TIDE__CUT_FULL)) {
        keep(table, cut, key, row, true);
    }
    return with_flags(cut, word, true, false);
}

uint64_t tide__cut_copy(const struct tide_table *table, uint64_t word, bool made) {
    uint64_t cut = atomic_load_explicit(&table->cut, memory_order_acquire);
    const unsigned phase = tide__cut_phase(cut);
    bool taken = made ? phase == TIDE__CUT_WALK : is_taken(cut, word);
    return with_flags(cut, word, taken || phase == TIDE__CUT_IDLE, true);
}

bool tide__cut_take(const struct tide_table *table, uint64_t *word) {
    uint64_t cut = atomic_load_explicit(&table->cut, memory_order_relaxed);
    if (is_taken(cut, *word)) {
        return false;
    }
    bool wanted = is_wanted(cut, *word) && !(cut & TIDE__CUT_DISCARD);
    *word = with_flags(cut, *word, true, false);
    return wanted;
}
