/*
 * See forget.h. The count of a use record is Morris's (1978): it rises from c to c + 1 with probability (12/13)^c, so
 * c stands for 12 ((13/12)^c - 1) pushes: exact at first, within a fifth later, and 255 is more than 2^32.
 *
 * The victim of an eviction (sampling as in Redis, admission as in TinyLFU: Einziger, Friedman, Manes 2017) is the
 * least used of SAMPLE adjacent entries at a random position: the lowest count, then the oldest access, then the
 * smallest key. Hashing makes adjacent keys independent. If a slot has too few entries, the following slots complete
 * the sample. If the new key was not pushed more often than the victim, the new key is refused, and with probability
 * 1/WORN the victim's count falls by one. So the counts of keys that were popular once decay.
 */
#include "store/rows/forget.h"

#include "store/rows/cut.h"

enum {
    SAMPLE = 8,
    WORN = 8 /* refusals per step of decay, on average */,
    LIMIT_SLACK = 2,
    GONE_FIRST = 256,
    COUNT_UP = 12,
    COUNT_OF = 13
};

struct tide__forget *tide__forget_create(const struct tide_table_options *o) {
    struct tide__forget *forget = tide_alloc_zero(1, sizeof *forget);
    if (!forget) {
        tide_fail(TIDE_ENOMEM, "no memory for the key counts of table '%s'", o->name);
        return NULL;
    }
    forget->epoch_ns = o->unused_ns / TIDE__USE_EPOCHS;
    forget->slot_keys = o->key_limit / TIDE_SLOT_COUNT + 1;
    uint64_t chance = UINT64_C(1) << 32;
    for (size_t c = 0; c < TIDE__USE_COUNTS; c++) {
        forget->chance[c] = chance > UINT32_MAX ? UINT32_MAX : (uint32_t)chance;
        chance = chance * COUNT_UP / COUNT_OF;
    }
    return forget;
}

void tide__forget_destroy(struct tide_table *table) {
    for (uint32_t slot = 0; tide__forget_of(table) && slot < TIDE_SLOT_COUNT; slot++) {
        tide_free(tide__forget_of(table)->sketches[slot]);
    }
    if (tide__forget_of(table)) {
        tide_free(tide__forget_of(table)->gone);
        tide_free(tide__forget_of(table)->leaving);
    }
    tide_free(tide__forget_of(table));
    table->parts[TIDE__PART_FORGET] = NULL;
}

uint16_t tide__forget_epoch_at(const struct tide__forget *forget, uint64_t wall_ns) {
    return (uint16_t)(forget->epoch_ns ? wall_ns / forget->epoch_ns : 0);
}

/* ---- use records ---- */

static float *record(const struct tide_table *table, float *row) {
    return row + table->row_floats - 1;
}

static uint16_t epoch_now(const struct tide_table *table) {
    return (uint16_t)atomic_load_explicit(&tide__forget_of(table)->epoch, memory_order_relaxed);
}

static void set_use(const struct tide_table *table, float *row, unsigned count, uint16_t epoch) {
    *record(table, row) = (float)((uint32_t)epoch << 8 | count);
}

uint32_t tide__use_of(const struct tide_table *table, const float *row) {
    const float use = row[table->row_floats - 1];
    return use >= 0 && use < (float)(1 << 24) ? (uint32_t)use : 0; /* files are not trusted */
}

/* The logarithmic count of this number of pushes. */
static unsigned count_for(unsigned pushes) {
    static const uint8_t counts[TIDE__SKETCH_MOST + 1] = {0, 1, 2, 3, 4, 4, 5, 6, 6, 7, 8, 8, 9, 9, 10, 10};
    return counts[pushes < TIDE__SKETCH_MOST ? pushes : TIDE__SKETCH_MOST];
}

void tide__use_begin(struct tide_table *table, float *row, unsigned before) {
    set_use(table, row, count_for(before), epoch_now(table));
}

static uint32_t draw(struct tide__forget *forget, uint64_t of) {
    const unsigned number = atomic_fetch_add_explicit(&forget->draws, 1, memory_order_relaxed);
    return (uint32_t)(tide_mix64(of ^ tide_mix64(number)) >> 32);
}

void tide__use_push(struct tide_table *table, float *row) {
    struct tide__forget *forget = tide__forget_of(table);
    unsigned count = tide__use_count(tide__use_of(table, row));
    count += count < TIDE__USE_COUNTS - 1 && (count == 0 || draw(forget, count) < forget->chance[count]);
    set_use(table, row, count, epoch_now(table));
}

void tide__use_pull(struct tide_table *table, float *row) {
    const uint32_t use = tide__use_of(table, row);
    if (tide__use_epoch(use) != epoch_now(table)) {
        set_use(table, row, tide__use_count(use), epoch_now(table));
    }
}

void tide__use_shift(const struct tide_table *table, float *row, uint16_t then) {
    const uint32_t use = tide__use_of(table, row);
    set_use(table, row, tide__use_count(use), (uint16_t)(tide__use_epoch(use) + (uint16_t)(epoch_now(table) - then)));
}

/* Epochs since the last access. The clocks of nodes differ: a record ahead of this node's epoch has age 0. */
static uint16_t age_of(const struct tide_table *table, uint32_t use) {
    const uint16_t age = (uint16_t)(epoch_now(table) - tide__use_epoch(use));
    return age < UINT16_MAX / 2 ? age : 0;
}

/* ---- admission ---- */

static bool at_limit(const struct tide_table *table) {
    return table->options.key_limit && tide__slab_used(&table->slab) >= table->options.key_limit;
}

static struct tide__sketch *sketch_of(struct tide_table *table, uint32_t slot) {
    struct tide__forget *forget = tide__forget_of(table);
    if (!forget->sketches[slot]) {
        forget->sketches[slot] = tide__sketch_create(forget->slot_keys);
        tide__index_counts(table, forget->sketches[slot] ? (int64_t)tide__sketch_bytes(forget->slot_keys) : 0);
    }
    return forget->sketches[slot];
}

int tide__forget_admit(struct tide_table *table, uint32_t slot, uint64_t mixed, bool anyway, unsigned *seen) {
    const struct tide_table_options *o = &table->options;
    *seen = 0;
    if (!anyway && (o->admit_after || o->evict)) {
        struct tide__sketch *sketch = sketch_of(table, slot);
        if (!sketch) {
            return tide_fail(TIDE_ENOMEM, "no memory to count the new keys of table '%s'", table->name);
        }
        *seen = tide__sketch_add(sketch, mixed);
        if (*seen < o->admit_after) {
            return TIDE__REFUSED;
        }
    }
    return !at_limit(table) ? TIDE__FOUND : o->evict ? TIDE__CROWDED : TIDE__NOT_FOUND;
}

struct tide__sketch *tide__forget_take_sketch(struct tide_table *table, uint32_t slot) {
    tide_lock(&table->slots[slot].latch);
    struct tide__sketch *sketch = tide__forget_of(table)->sketches[slot];
    tide__forget_of(table)->sketches[slot] = NULL;
    if (sketch) {
        tide__index_counts(table, -(int64_t)tide__sketch_bytes(tide__forget_of(table)->slot_keys));
    }
    tide_unlock(&table->slots[slot].latch);
    return sketch;
}

void tide__forget_adopt(struct tide_table *table, uint32_t slot, const void *counters, uint32_t left) {
    tide_lock(&table->slots[slot].latch);
    struct tide__sketch *sketch = sketch_of(table, slot);
    if (sketch) {
        memcpy(sketch->counters, counters,
               tide__sketch_words(tide__forget_of(table)->slot_keys) * sizeof *sketch->counters);
        sketch->left = left > 0 && left < sketch->window ? left : sketch->window;
    }
    tide_unlock(&table->slots[slot].latch);
}

/* ---- deleted keys ---- */

/* Before the first generation no file has the key. */
static void note_gone(struct tide_table *table, uint64_t key) {
    struct tide__forget *f = tide__forget_of(table);
    if (!table->taken || TIDE_MUTANT(gone_untold)) {
        return;
    }
    tide_lock(&f->gone_lock);
    if (f->gone_count == f->gone_room && !f->gone_lost) {
        const size_t room = f->gone_room ? 2 * f->gone_room : GONE_FIRST;
        uint64_t *grown =
            room <= tide_limit(store_forget_gone_keys) ? tide_realloc(f->gone, room * sizeof *grown) : NULL;
        f->gone_lost = !grown;
        f->gone = grown ? grown : f->gone;
        f->gone_room = grown ? room : f->gone_room;
    }
    if (!f->gone_lost) {
        f->gone[f->gone_count++] = key;
    }
    tide_unlock(&f->gone_lock);
}

bool tide__forget_gone_begin(struct tide_table *table) {
    struct tide__forget *f = tide__forget_of(table);
    const bool full = atomic_load_explicit(&table->cut, memory_order_relaxed) & TIDE__CUT_FULL;
    tide_lock(&f->gone_lock);
    const bool known = full || !f->gone_lost;
    tide_free(f->leaving);
    f->leaving = f->gone;
    f->leaving_count = f->gone_count;
    f->gone = NULL;
    f->gone_count = f->gone_room = 0;
    f->gone_lost = false;
    tide_unlock(&f->gone_lock);
    return known;
}

uint64_t *tide__forget_gone_take(struct tide_table *table, size_t *count) {
    struct tide__forget *f = tide__forget_of(table);
    tide_lock(&f->gone_lock);
    uint64_t *keys = f->leaving;
    *count = keys ? f->leaving_count : 0;
    f->leaving = NULL;
    tide_unlock(&f->gone_lock);
    return keys;
}

bool tide__forget_gone_lost(struct tide_table *table) {
    tide_lock(&tide__forget_of(table)->gone_lock);
    const bool lost = tide__forget_of(table)->gone_lost;
    tide_unlock(&tide__forget_of(table)->gone_lock);
    return lost;
}

/* ---- eviction ---- */

/* Deletes the row of this locked word. The caller removes the entry, which unlocks the word. */
static void drop_row(struct tide_table *table, uint64_t key, uint64_t word, enum tide__counter why) {
    struct tide__kept *second = NULL;
    const uint32_t row = (uint32_t)word;
    if (!TIDE_MUTANT(evicted_untaken_lost)) {
        (void)tide__cut_give(table, key, word, tide__slab_row(&table->slab, row), &second);
    }
    tide_free(second);
    tide__slab_give(&table->slab, row);
    note_gone(table, key);
    tide__table_count(table, why, 1);
}

struct victim {
    uint64_t key;
    uint32_t slot, use;
    unsigned seen; /* entries sampled so far */
};

static bool is_less_used(const struct tide_table *table, uint32_t use, uint64_t key, const struct victim *than) {
    const unsigned count = tide__use_count(use), other = tide__use_count(than->use);
    if (than->seen == 0 || count != other) {
        return than->seen == 0 || count < other;
    }
    const uint16_t age = age_of(table, use), other_age = age_of(table, than->use);
    return age != other_age ? age > other_age : key < than->key;
}

/* Reads the use record; the latch is held. False: the word is locked, or has no row. */
static bool peek(struct tide_table *table, struct tide__entry *entry, uint32_t *use) {
    uint64_t word = atomic_load_explicit(&entry->word, memory_order_relaxed);
    if (tide__word_state(word) != TIDE__OWNED || (word & TIDE__WORD_LOCK)) {
        return false;
    }
    if (tide__word_lock(&entry->word, false, &word)) {
        return false;
    }
    const bool has = tide__word_state(word) == TIDE__OWNED;
    if (has) {
        *use = tide__use_of(table, tide__slab_row(&table->slab, (uint32_t)word));
    }
    tide__word_unlock(&entry->word, word);
    return has;
}

static bool is_served(const struct tide__slot *slot) {
    return (atomic_load_explicit(&slot->route, memory_order_relaxed) & TIDE__FOR_FOREIGN) == TIDE__MINE;
}

static void sample(struct tide_table *table, uint32_t number, struct victim *v) {
    struct tide__slot *slot = &table->slots[number];
    if (!atomic_load_explicit(&slot->index, memory_order_relaxed)) {
        return;
    }
    tide_lock(&slot->latch);
    struct tide__hash *hash = atomic_load_explicit(&slot->index, memory_order_relaxed);
    const uint32_t capacity = hash && is_served(slot) ? hash->capacity : 0;
    uint32_t at = capacity ? (uint32_t)(((uint64_t)draw(tide__forget_of(table), number) * capacity) >> 32) : 0;
    for (uint32_t i = 0; i < capacity && v->seen < SAMPLE; i++, at = at + 1 == capacity ? 0 : at + 1) {
        uint32_t use;
        if (peek(table, &hash->entries[at], &use)) {
            if (is_less_used(table, use, hash->entries[at].key, v)) {
                v->key = hash->entries[at].key;
                v->slot = number;
                v->use = use;
            }
            v->seen++;
        }
    }
    tide_unlock(&slot->latch);
}

/* Calls `each` with the victim's entry, its word locked, if the entry is still there. */
static bool with_victim(struct tide_table *table, const struct victim *v,
                        void (*each)(struct tide_table *table, const struct victim *v, struct tide__hash *hash,
                                     struct tide__entry *entry, uint64_t word)) {
    struct tide__slot *slot = &table->slots[v->slot];
    bool done = false;
    uint64_t word;
    tide_lock(&slot->latch);
    struct tide__hash *hash = atomic_load_explicit(&slot->index, memory_order_relaxed);
    struct tide__entry *entry = hash && is_served(slot) ? tide__hashed_find(hash, v->key) : NULL;
    if (entry && !tide__word_lock(&entry->word, false, &word)) {
        done = tide__word_state(word) == TIDE__OWNED;
        if (done) {
            each(table, v, hash, entry, word);
        } else {
            tide__word_unlock(&entry->word, word);
        }
    }
    tide_unlock(&slot->latch);
    return done;
}

static void evict(struct tide_table *table, const struct victim *v, struct tide__hash *hash, struct tide__entry *entry,
                  uint64_t word) {
    drop_row(table, v->key, word, TIDE__EVICTED);
    tide__hashed_remove(hash, entry);
}

static void wear(struct tide_table *table, const struct victim *v, struct tide__hash *hash, struct tide__entry *entry,
                 uint64_t word) {
    (void)hash;
    (void)v;
    float *row = tide__slab_row(&table->slab, (uint32_t)word);
    const uint32_t use = tide__use_of(table, row);
    const unsigned count = tide__use_count(use);
    set_use(table, row, count ? count - 1 : 0, tide__use_epoch(use));
    tide__word_unlock(&entry->word, word);
}

bool tide__forget_make_room(struct tide_table *table, uint32_t slot, unsigned seen, bool anyway) {
    for (int i = 0; i < LIMIT_SLACK && at_limit(table); i++) {
        struct victim v = {.seen = 0};
        for (uint32_t s = 0; s < TIDE_SLOT_COUNT && v.seen < SAMPLE; s++) {
            sample(table, (slot + s) & (TIDE_SLOT_COUNT - 1), &v);
        }
        if (v.seen == 0) {
            return anyway;
        }
        if (!anyway && count_for(seen) <= tide__use_count(v.use)) {
            if (draw(tide__forget_of(table), v.key) % WORN == 0 && !TIDE_MUTANT(victim_never_worn)) {
                (void)with_victim(table, &v, wear);
            }
            return false;
        }
        (void)with_victim(table, &v, evict);
    }
    return true;
}

/* ---- expiry ---- */

void tide__forget_expire(struct tide_table *table, uint32_t number) {
    struct tide__slot *slot = &table->slots[number];
    tide_lock(&slot->latch);
    struct tide__hash *hash = atomic_load_explicit(&slot->index, memory_order_relaxed);
    for (uint32_t at = 0; hash && is_served(slot) && at < hash->capacity;) {
        struct tide__entry *entry = &hash->entries[at];
        uint32_t use = 0;
        uint64_t word;
        bool gone = peek(table, entry, &use) && age_of(table, use) > TIDE__USE_EPOCHS;
        if (gone && !tide__word_lock(&entry->word, false, &word)) {
            gone = tide__word_state(word) == TIDE__OWNED &&
                   age_of(table, tide__use_of(table, tide__slab_row(&table->slab, (uint32_t)word))) > TIDE__USE_EPOCHS;
            if (gone) {
                drop_row(table, entry->key, word, TIDE__EXPIRED);
                tide__hashed_remove(hash, entry); /* which may move another entry to this place */
                continue;
            }
            tide__word_unlock(&entry->word, word);
        }
        at++;
    }
    tide_unlock(&slot->latch);
}
