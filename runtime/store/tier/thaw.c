/*
 * Reads rows that operations need. An operation lists its cold rows; then the reads of all listed rows begin together,
 * in the order of their places. Keys of one block share a read.
 */
#include "store/tier/tier.h"

#include <stdlib.h>

static void list_add(struct tide__wants *list, struct tide__want *want) {
    want->next = NULL;
    list->last = list->first ? list->last : &list->first;
    *list->last = want;
    list->last = &want->next;
    list->count++;
}

static struct tide__want *list_take(struct tide__wants *list) {
    struct tide__want *want = list->first;
    if (want) {
        list->first = want->next;
        list->count--;
    }
    return want;
}

void tide__tier_want(struct tide_table *table, uint32_t slot, uint64_t key, uint64_t word) {
    struct tide__tier *tier = tide__tier_of(table);
    struct tide__arrival *a = tide__arrival_of(table, word);
    if (!a->cold || a->wanted) {
        return;
    }
    a->wanted = true;
    struct tide__want *want = tide_alloc_vital(sizeof *want);
    *want = (struct tide__want){.key = key, .slot = slot, .place = a->place, .row = UINT32_MAX};
    list_add(a->place == TIDE__PLACE_INITIAL ? &tier->anew : &tier->wants, want);
    tide__tier_count(tier);
    tier->again = true; /* each_turn() follows the message in hand */
}

/* ---- a read has finished ---- */

/* The word without the arrival record, if no operation waits for the row any more. */
static uint64_t as_before(struct tide_table *table, uint32_t slot, uint64_t word) {
    word = tide__word_settled(table, word);
    const bool initial = tide__word_state(word) == TIDE__COLD && (uint32_t)word == TIDE__PLACE_INITIAL;
    return initial && (tide__route_of(table, slot) & TIDE__MINE) ? tide__word_bare(word, tide__word_seen(word)) : word;
}

static void fail(struct tide__tier *tier, struct tide__want *want, int code, const char *text) {
    struct tide_table *table = tier->table;
    uint64_t old;
    atomic_uint_fast64_t *word = tide__key_lock(table, want->slot, want->key, &old);
    TIDE_ASSERT(word && tide__word_state(old) == TIDE__ARRIVING); /* only this file ends a cold arrival */
    struct tide__arrival *a = tide__arrival_of(table, old);
    const bool goes_on = a->next;
    if (want->row != UINT32_MAX) {
        tide__hand_give(&table->slab, want->row);
        want->row = UINT32_MAX;
        tier->taken--;
    }
    tide__arrival_fail(table, a, code, text);
    a->wanted = goes_on;
    old = as_before(table, want->slot, old);
    tide__word_unlock(word, old);
    tide__tier_count(tier);
    if (goes_on) { /* another node waits for it */
        tier->later_at = tide_port_now(tier->port) + TIDE_SECOND;
        list_add(&tier->later, want);
    } else {
        tide_free(want);
    }
}

/* Installs a row; bytes NULL: the initial one. */
static void install(struct tide__tier *tier, struct tide__want *want, const void *bytes) {
    struct tide_table *table = tier->table;
    uint64_t old;
    atomic_uint_fast64_t *word = tide__key_lock(table, want->slot, want->key, &old);
    TIDE_ASSERT(word && tide__word_state(old) == TIDE__ARRIVING);
    struct tide__arrival *a = tide__arrival_of(table, old);
    const uint32_t place = a->place, row = want->row;
    const bool ahead = a->ahead;
    struct tide__relocation k = tide__key_view(table, want->slot, old);
    const struct tide__relocate_result r = tide__relocate(&k, (struct tide__relocate_event){.kind = TIDE__EVENT_THAW});
    a->row = row;
    tide__row_forget(tier, row);
    tier->warmth[row] = ahead;
    old = tide__owner_thaw(table, old, want->key, &k, r, place == TIDE__PLACE_INITIAL ? NULL : bytes);
    old |= ahead && tide__word_state(old) == TIDE__OWNED ? TIDE__WORD_TOUCHED : 0; /* stays until it is used */
    if (tide__word_state(old) == TIDE__OWNED && (old & TIDE__WORD_CLEAN)) {
        tier->back[row] = place; /* the record stays in use */
    } else {
        tide__place_forget(tier, place);
    }
    tide__word_unlock(word, old);
    if (place != TIDE__PLACE_INITIAL) {
        TIDE_SOMETIMES(tier_row_read);
    }
    tier->cold -= place != TIDE__PLACE_INITIAL && tier->cold > 0;
    tier->thawed += place != TIDE__PLACE_INITIAL;
    tier->taken--;
    tide__tier_count(tier);
    tide_free(want);
}

static void read_done(struct tide__tier *tier, struct tide__work *work) {
    struct tide__want *want = work->wants, *next;
    work->wants = NULL;
    tier->segments[work->segment]->reads--;
    tier->reads--;
    for (; want; want = next) {
        next = want->next;
        const struct tide__record *record =
            (const void *)((const uint8_t *)work->data +
                           (tide__record_offset(tier, want->place % tier->per_segment) - work->offset));
        if (!work->code && want->good) {
            install(tier, want, record->row);
        } else if (TIDE_MUTANT(read_error_initial)) {
            float *row = tide_alloc_vital(tier->record_bytes);
            tide__row_init(&tier->table->options, want->key, row, true);
            install(tier, want, row);
            tide_free(row);
        } else {
            TIDE_SOMETIMES(tier_row_unreadable);
            (void)tide__tier_unreadable(tier, want->place, want->key, work->code ? work->text : "its checksum differs");
            char text[sizeof work->text * 2];
            (void)snprintf(text, sizeof text, "%s", tide_error_message());
            fail(tier, want, work->code == TIDE_ENOMEM ? TIDE_EBUSY : TIDE_ELOST, text);
        }
    }
    tide__owner_finish(tier->table);
    work->next = tier->reading_free;
    tier->reading_free = work;
}

/* ---- reads ---- */

void tide__reads_init(struct tide__tier *tier) {
    for (uint32_t i = 0; i < tier->reads_most; i++) {
        struct tide__work *work = &tier->reading[i];
        *work = (struct tide__work){.kind = TIDE__WORK_READ, .done = read_done, .next = tier->reading_free};
        tier->reading_free = work;
    }
}

static int by_place(const void *a, const void *b) {
    const struct tide__want *x = *(struct tide__want *const *)a, *y = *(struct tide__want *const *)b;
    return x->place < y->place ? -1 : x->place > y->place;
}

/* First byte of the blocks of a row, and the byte after them. */
static uint64_t begins(const struct tide__tier *tier, uint32_t place) {
    return tide__record_offset(tier, place % tier->per_segment) / TIDE__TIER_BLOCK * TIDE__TIER_BLOCK;
}

static uint64_t ends(const struct tide__tier *tier, uint32_t place) {
    const uint64_t end = tide__record_offset(tier, place % tier->per_segment) + tier->record_bytes;
    return (end + TIDE__TIER_BLOCK - 1) / TIDE__TIER_BLOCK * TIDE__TIER_BLOCK;
}

static void begin_read(struct tide__tier *tier, struct tide__want **wants, size_t count) {
    const uint64_t from = begins(tier, wants[0]->place);
    const size_t size = (size_t)(ends(tier, wants[0]->place) - from);
    struct tide__work *work = tier->reading_free; /* there is one: no more than reads_most read */
    tier->reading_free = work->next;
    work->segment = wants[0]->place / tier->per_segment;
    work->data = work->data ? work->data : tide_alloc_aligned(TIDE__TIER_BLOCK, tier->read_bytes);
    work->size = size;
    work->offset = from;
    for (size_t i = count; i-- > 0;) {
        wants[i]->next = work->wants;
        work->wants = wants[i];
    }
    tier->segments[work->segment]->reads++;
    tier->reads++;
    if (work->data) {
        tide__work_begin(tier, work);
    } else {
        work->code = TIDE_ENOMEM;
        (void)snprintf(work->text, sizeof work->text, "no memory for the block");
        read_done(tier, work);
    }
}

/* Takes a row of the slab. `more`: rows beyond the bound, for rows that can freeze without a write. */
static bool take_row(struct tide__tier *tier, uint32_t more, uint32_t *row) {
    struct tide_table *table = tier->table;
    const bool beyond =
        tide__slab_used(&table->slab) >= atomic_load_explicit(&tier->face.rows_most, memory_order_relaxed) + more;
    if ((beyond && tier->beyond == 0) || tide__hand_take(&table->slab, row)) {
        return false;
    }
    tier->beyond -= beyond;
    const bool good = tide__rows_reach(tier, *row);
    if (!good) {
        tide__hand_give(&table->slab, *row);
    }
    tier->taken += good;
    tide__tier_count(tier);
    return good;
}

static void begin_reads(struct tide__tier *tier) {
    enum { TOGETHER = 256 };
    struct tide__want *batch[TOGETHER];
    size_t count = 0;
    const uint32_t room = tier->reads < tier->reads_most ? tier->reads_most - tier->reads : 0;
    while (count < TOGETHER && count < room && tier->wants.first) {
        uint32_t row;
        if (!take_row(tier, tier->rows_reserve, &row)) {
            tier->freezing = true;
            break;
        }
        batch[count] = list_take(&tier->wants);
        uint64_t old;
        atomic_uint_fast64_t *word = tide__key_lock(tier->table, batch[count]->slot, batch[count]->key, &old);
        batch[count]->place = tide__arrival_of(tier->table, old)->place; /* compacted or cleared meanwhile */
        batch[count]->row = row;
        tide__word_unlock(word, old);
        if (batch[count]->place == TIDE__PLACE_INITIAL) {
            install(tier, batch[count], NULL);
        } else {
            count++;
        }
    }
    qsort(batch, count, sizeof batch[0], by_place);
    for (size_t i = 0, end; i < count; i = end) {
        for (end = i + 1; end < count && batch[end]->place / tier->per_segment == batch[i]->place / tier->per_segment &&
                          ends(tier, batch[end]->place) <= ends(tier, batch[i]->place);) {
            end++;
        }
        begin_read(tier, batch + i, end - i);
    }
}

/* New rows need no read. */
static void make_rows(struct tide__tier *tier) {
    uint32_t row;
    while (tier->anew.first && take_row(tier, 0, &row)) {
        struct tide__want *want = list_take(&tier->anew);
        want->row = row;
        install(tier, want, NULL);
    }
    tier->freezing = tier->freezing || tier->anew.first;
}

/* Fails what waits: the disk rejects writes, and memory is full of changed rows. */
static void refuse(struct tide__tier *tier, struct tide__wants *list) {
    for (size_t count = list->count; count > 0; count--) {
        char text[sizeof tier->error_text + 200];
        (void)snprintf(text, sizeof text, "table '%s' is full in memory, and its disk takes no rows: %s",
                       tier->table->name, tier->error_text);
        fail(tier, list_take(list), tier->error, text);
    }
}

void tide__thaw_step(struct tide__tier *tier) {
    const uint64_t now = tide_port_now(tier->port);
    while (tier->later.first && now >= tier->later_at) {
        list_add(&tier->wants, list_take(&tier->later));
    }
    /* Rows that are in flight from other nodes may take all memory, and these nodes may wait for rows of this one. So
     * some rows are read beyond the bound when no row can be frozen. */
    tier->beyond = tier->rests && !tier->freeze.busy && !tier->error ? tier->reads_most : 0;
    if (tier->wants.first || tier->anew.first) {
        begin_reads(tier);
        make_rows(tier);
        if (tier->error) {
            refuse(tier, &tier->anew);
            if (tier->reads == 0) {
                refuse(tier, &tier->wants);
            }
        }
        tide__owner_finish(tier->table);
    }
}
