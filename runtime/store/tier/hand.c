/*
 * Selects rows to freeze: a hand sweeps the key words, slot by slot. A row that was used since the last visit becomes
 * warmer, an unused row colder, and the coldest rows are frozen. A new row begins at warmth 0, so a scan of keys that
 * are read once displaces no row in use.
 */
#include "store/tier/tier.h"

enum { REST_MOST_NS = 64 * TIDE__TIER_RETRY_NS };

atomic_uint_fast64_t *tide__tier_word(struct tide_table *table, uint64_t key, uint64_t *old) {
    atomic_uint_fast64_t *word;
    int code;
    do {
        code = tide__index_lock(table, key, false, false, &word, old);
        if (code == TIDE_EBUSY) {
            tide_lend_core();
        }
    } while (code == TIDE_EBUSY);
    return code == TIDE__FOUND ? word : NULL;
}

static void chill(struct tide__tier *tier, uint64_t *word, uint32_t place) {
    const uint32_t row = (uint32_t)*word;
    *word = (*word & (TIDE__WORD_SEEN | TIDE__WORD_PRESENT | TIDE__WORD_TAKEN | TIDE__WORD_DIRTY)) |
            (uint64_t)TIDE__COLD << 60 | place;
    tier->back[row] = TIDE__PLACE_NONE; /* the word holds the place now */
    tier->warmth[row] = 0;
    tide__hand_give(&tier->table->slab, row);
    tier->cold++;
    tide__tier_count(tier);
    tier->hand_rounds = 0;
    tier->rest_ns = 0;
}

static bool is_written(const struct tide__tier *tier, uint32_t place) {
    return place % tier->per_segment < tide__segment_at(tier, place)->written;
}

/* Freezes the row of a locked word. False: the hand must wait for the write of the block. */
static bool freeze_row(struct tide__tier *tier, uint64_t key, uint64_t *word) {
    const uint32_t row = (uint32_t)*word;
    if ((*word & TIDE__WORD_CLEAN) && tier->back[row] != TIDE__PLACE_NONE) {
        if (is_written(tier, tier->back[row]) || TIDE_MUTANT(freeze_before_written)) {
            chill(tier, word, tier->back[row]);
        }
        return true;
    }
    *word &= ~TIDE__WORD_CLEAN;
    tide__row_forget(tier, row);
    if (tier->error || tier->freeze.busy) {
        return tier->error;
    }
    const struct tide__put put = {.key = key, .row = row, .from = TIDE__PLACE_NONE};
    const float *at = tide__slab_row(&tier->table->slab, row);
    const uint32_t place = tide__stream_put(tier, &tier->freeze, &put, tier->version, at);
    if (place == TIDE__PLACE_NONE) {
        return false;
    }
    tier->version++;
    tier->frozen++;
    tier->back[row] = place;
    tide__place_use(tier, place);
    *word |= TIDE__WORD_CLEAN;
    return true;
}

/* False: the visit must be repeated. */
static bool visit(struct tide__tier *tier, atomic_uint_fast64_t *at, uint64_t key) {
    uint64_t old;
    bool visited = true;
    if (tide__word_state(atomic_load_explicit(at, memory_order_relaxed)) != TIDE__OWNED ||
        tide__word_lock(at, false, &old)) {
        return true;
    }
    const uint32_t row = (uint32_t)old;
    if (tide__word_state(old) != TIDE__OWNED || !tide__rows_reach(tier, row)) {
        tide__word_unlock(at, old);
        return true;
    }
    if (old & TIDE__WORD_TOUCHED) {
        old &= ~TIDE__WORD_TOUCHED;
        tier->warmth[row] = tier->warmth[row] < TIDE__WARM ? tier->warmth[row] + 1 : TIDE__WARM;
    } else if (tier->warmth[row] > 0) {
        tier->warmth[row]--;
    } else {
        visited = freeze_row(tier, key, &old);
    }
    tide__word_unlock(at, old);
    return visited;
}

/* Sweeps one slot; `left`: visits that remain in this turn. True: the slot is finished. */
static bool sweep_dense(struct tide__tier *tier, struct tide__slot *slot, uint32_t *left) {
    struct tide_table *table = tier->table;
    atomic_uint_fast64_t *words = atomic_load_explicit(&slot->index, memory_order_acquire); /* tide__dense_words */
    for (; words && tier->hand_at < table->places_max; tier->hand_at++) {
        if (*left == 0) {
            return false;
        }
        --*left;
        if (!visit(tier, &words[tier->hand_at], tide__key_of(table, tier->hand_slot, tier->hand_at))) {
            *left = 0;
            return false;
        }
    }
    return true;
}

static bool sweep_hashed(struct tide__tier *tier, struct tide__slot *slot, uint32_t *left) {
    bool over = true;
    tide_lock(&slot->latch);
    struct tide__hash *hash = atomic_load_explicit(&slot->index, memory_order_relaxed);
    for (; hash && tier->hand_at < hash->capacity; tier->hand_at++) {
        struct tide__entry *entry = &hash->entries[tier->hand_at];
        if (*left == 0 || !visit(tier, &entry->word, entry->key)) {
            *left = 0;
            over = false;
            break;
        }
        --*left;
    }
    tide_unlock(&slot->latch);
    return over;
}

/* The number of rows in memory at which the hand starts. */
static uint32_t wake_at(const struct tide__tier *tier) {
    return atomic_load_explicit(&tier->face.rows_wake, memory_order_relaxed);
}

static bool enough(const struct tide__tier *tier) {
    const uint32_t wake = wake_at(tier);
    return tide__slab_used(&tier->table->slab) + wake / 16 < wake;
}

/* Several rounds of the hand have found no row to freeze. */
static bool in_vain(const struct tide__tier *tier) {
    return tier->hand_rounds > TIDE__WARM + 2;
}

/* While the disk refuses writes, only the hand finds room for reads: rows whose copy is on the disk already. */
bool tide__hand_rests(const struct tide__tier *tier) {
    return !(tier->error && tier->wants.first) && tide_port_now(tier->port) < tier->hand_due;
}

void tide__hand_step(struct tide__tier *tier) {
    struct tide_table *table = tier->table;
    uint32_t left = (uint32_t)tide_limit(store_tier_visits);
    tier->freezing = tier->freezing || tide__slab_used(&table->slab) >= wake_at(tier);
    if (!tier->freezing || !tier->opened || tide__hand_rests(tier)) {
        return;
    }
    while (left > 0 && !enough(tier) && !in_vain(tier)) {
        struct tide__slot *slot = &table->slots[tier->hand_slot];
        left -= left > 0 && !atomic_load_explicit(&slot->index, memory_order_relaxed);
        if (left == 0 || !(table->options.keys == TIDE_KEYS_HASHED ? sweep_hashed : sweep_dense)(tier, slot, &left)) {
            break;
        }
        tier->hand_slot = (tier->hand_slot + 1) % TIDE_SLOT_COUNT;
        tier->hand_at = 0;
        if (tier->hand_slot == 0) {
            tide__stream_flush(tier, &tier->freeze); /* a copy counts when it is on the disk */
            tier->hand_rounds++;
        }
    }
    if (enough(tier)) {
        tier->freezing = false;
    } else if (in_vain(tier)) {
        tide__stream_flush(tier, &tier->freeze);
        tier->hand_rounds = 0;
        tier->rests = true;
        tier->rest_ns = tier->rest_ns == 0             ? TIDE__TIER_RETRY_NS
                        : tier->rest_ns < REST_MOST_NS ? 2 * tier->rest_ns
                                                       : REST_MOST_NS;
        tier->hand_due = tide_port_now(tier->port) + tier->rest_ns;
    } /* else the next turn continues, or the one after the write of the block */
}

static void disk_refuses(struct tide__tier *tier, const struct tide__work *work) {
    struct tide_table *table = tier->table;
    if (!tier->error) {
        tide_log(TIDE_LOG_ERROR, tide_node_name(table->store->node),
                 "table '%s' cannot freeze rows, new ones wait and are refused: %s", table->name, work->text);
    }
    tier->error = work->code;
    (void)snprintf(tier->error_text, sizeof tier->error_text, "%s", work->text);
    tier->error_until = tide_port_now(tier->port) + TIDE_SECOND;
    TIDE_SOMETIMES(tier_disk_refuses);
}

void tide__freeze_done(struct tide__tier *tier, struct tide__work *work) {
    struct tide__stream *stream = &tier->freeze;
    struct tide__segment *segment = tier->segments[stream->segment];
    stream->busy = false;
    if (work->code) {
        segment->next = stream->first;
        disk_refuses(tier, work);
    } else {
        segment->written = segment->next;
        tier->error = 0;
    }
    for (uint32_t i = 0; i < stream->count; i++) {
        const struct tide__put *put = &stream->puts[i];
        const uint32_t place = stream->segment * tier->per_segment + stream->first + i;
        uint64_t old;
        atomic_uint_fast64_t *word =
            tier->back[put->row] == place ? tide__tier_word(tier->table, put->key, &old) : NULL;
        if (!word) {
            continue;
        }
        const bool same = tide__word_state(old) == TIDE__OWNED && (uint32_t)old == put->row;
        const bool clean = same && ((old & TIDE__WORD_CLEAN) || TIDE_MUTANT(freeze_loses_push));
        if (clean && !work->code && !(old & TIDE__WORD_TOUCHED)) {
            chill(tier, &old, place);
        } else if (!clean || work->code) {
            old &= same ? ~TIDE__WORD_CLEAN : UINT64_MAX;
            tide__row_forget(tier, put->row);
        }
        tide__word_unlock(word, old);
    }
    stream->count = 0;
}
