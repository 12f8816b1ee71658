/*
 * See walk.h. The walker goes slot by slot; under a word's lock it copies one row into columns in
 * memory, and writes them as one safetensors file whenever they are full. So a worker waits for one
 * row's copy at most (in a hashed table: for store_checkpoint_batch_rows of them, when it makes or looks up a key in
 * that slot). Rows that were kept aside follow after all slots.
 *
 * The workers' processors are lent: after at most store_checkpoint_stretch_bytes that it copied or wrote, some 0.3
 * ms, the walker sleeps a millisecond. A thread that sleeps often is let on as soon as it wakes, so
 * it is hardly ever stopped while it holds a lock, and it never takes a scheduler's time slice.
 */
#include "store/checkpoint/walk.h"

#include "store/checkpoint/blocks.h"
#include "store/adaptive/owner.h"
#include "store/checkpoint/save.h"
#include "store/rows/forget.h"
#include "store/tier/tier.h"

#include <stdlib.h>

enum {
    FILE_BYTES = 32 << 20,
    ROWS_FIRST = 256,
    WAIT_NS = 1000000,
    WORD_BYTES = 64, /* to lock and look at a word takes as long as to copy so much */
    PAUSE_NS = 1000000,
    COLD_ROWS = 1024, /* that are read together, in the order of their places */
};

/* A row that was taken and lies on the disk: its record does not change, and stays until the walk has read it. */
struct cold_row {
    uint64_t key;
    uint32_t place;
};

struct tide__columns {
    struct tide_table *table;
    struct tide__part parts[TIDE__PARTS_MAX];
    size_t part_count, count, capacity, limit;
    uint64_t *keys, *gone; /* gone: in the last file */
    size_t gone_count;
    float *values[TIDE__PARTS_MAX];
    uint32_t files;        /* written of this table */
    struct cold_row *cold; /* COLD_ROWS; NULL: the table has no second tier */
    size_t cold_count;
};

static void columns_release(struct tide__columns *c) {
    tide_free(c->keys);
    tide_free(c->gone);
    tide_free(c->cold);
    for (size_t p = 0; p < c->part_count; p++) {
        tide_free(c->values[p]);
    }
}

/* Beside the keys and rows of a file: ENOMEM fails the generation, nothing is taken. */
static bool columns_init(struct tide__columns *c, struct tide_table *table) {
    *c = (struct tide__columns){.table = table};
    c->part_count = tide__parts_of(table, c->parts);
    c->limit = FILE_BYTES / (table->row_floats * sizeof(float) + sizeof(uint64_t)) + 1;
    c->cold = tide__tiered_of(table) ? tide_alloc(COLD_ROWS * sizeof *c->cold) : NULL;
    return c->cold || !tide__tiered_of(table);
}

static int columns_grow(struct tide__columns *c) {
    size_t capacity = c->capacity ? c->capacity * 2 : ROWS_FIRST;
    capacity = capacity < c->limit ? capacity : c->limit;
    uint64_t *keys = tide_realloc(c->keys, capacity * sizeof *keys);
    c->keys = keys ? keys : c->keys;
    bool grown = keys;
    for (size_t p = 0; p < c->part_count && grown; p++) {
        float *values = tide_realloc(c->values[p], capacity * c->parts[p].floats * sizeof *values);
        c->values[p] = values ? values : c->values[p];
        grown = values;
    }
    if (!grown) {
        return tide_fail(TIDE_ENOMEM, "no memory to write table '%s'", c->table->name);
    }
    c->capacity = capacity;
    return 0;
}

static void columns_add(struct tide__columns *c, uint64_t key, const float *row) {
    c->keys[c->count] = key;
    for (size_t p = 0; p < c->part_count; p++) {
        const struct tide__part *part = &c->parts[p];
        memcpy(c->values[p] + c->count * part->floats, row + part->offset, part->floats * sizeof *row);
    }
    c->count++;
}

static void pace(struct tide__walk *walk, size_t bytes) {
    walk->unpaused += bytes;
    if (walk->unpaused >= tide_limit(store_checkpoint_stretch_bytes)) {
        walk->unpaused = 0;
        (void)tide_sleep(PAUSE_NS);
    }
}

/* ---- files ---- */

static int write_head(struct tide__columns *c, struct tide__blocks *b, const void **data, uint64_t *sizes,
                      size_t *count) {
    struct tide_table *table = c->table;
    struct tide_safetensor tensors[TIDE__PARTS_MAX + 2];
    struct tide__save_about about;
    tide__save_about(table, &about);
    memset(tensors, 0, sizeof tensors);
    for (size_t p = 0; p < c->part_count; p++) {
        tensors[p] = (struct tide_safetensor){
            .name = c->parts[p].name, .shape = {c->count, c->parts[p].floats}, .dtype = TIDE_DTYPE_F32, .rank = 2};
        data[p] = c->values[p];
        sizes[p] = c->count * c->parts[p].floats * sizeof(float);
    }
    *count = c->part_count + 1;
    tensors[c->part_count] =
        (struct tide_safetensor){.name = "keys", .shape = {c->count}, .dtype = TIDE_DTYPE_U64, .rank = 1};
    data[c->part_count] = c->keys;
    sizes[c->part_count] = c->count * sizeof *c->keys;
    if (c->gone_count) {
        tensors[*count] =
            (struct tide_safetensor){.name = "gone", .shape = {c->gone_count}, .dtype = TIDE_DTYPE_U64, .rank = 1};
        data[*count] = c->gone;
        sizes[(*count)++] = c->gone_count * sizeof *c->gone;
    }
    struct tide_writer w;
    tide_writer_init(&w, NULL, 0);
    int code = tide_safetensors_header(tensors, *count, about.pairs, about.count, &w, NULL);
    if (!code) {
        tide__blocks_write(b, w.data, w.size);
    }
    tide_writer_release(&w);
    for (size_t i = 0; i < *count; i++) { /* in the order in which they lie in the file */
        for (size_t j = i + 1; j < *count; j++) {
            if (tensors[j].begin < tensors[i].begin) {
                struct tide_safetensor t = tensors[i];
                const void *d = data[i];
                uint64_t s = sizes[i];
                tensors[i] = tensors[j];
                data[i] = data[j];
                sizes[i] = sizes[j];
                tensors[j] = t;
                data[j] = d;
                sizes[j] = s;
            }
        }
    }
    return code;
}

static void write_column(struct tide__walk *walk, struct tide__blocks *b, const uint8_t *data, uint64_t size) {
    for (uint64_t at = 0; at < size && !b->error; at += tide_limit(store_checkpoint_stretch_bytes)) {
        const size_t now = size - at < tide_limit(store_checkpoint_stretch_bytes)
                               ? (size_t)(size - at)
                               : tide_limit(store_checkpoint_stretch_bytes);
        tide__blocks_write(b, data + at, now);
        if (!b->error) { /* else its text is to be reported, not that of a sleep */
            pace(walk, now);
        }
    }
}

static int write_file(struct tide__walk *walk, struct tide__columns *c) {
    char name[128], path[TIDE__PATH_MAX];
    const void *data[TIDE__PARTS_MAX + 2];
    uint64_t sizes[TIDE__PARTS_MAX + 2];
    size_t count = 0;
    struct tide__blocks *b = tide_alloc(sizeof *b);
    if (!b) {
        return tide_fail(TIDE_ENOMEM, "no memory to write table '%s'", c->table->name);
    }
    (void)snprintf(name, sizeof name, "%s-%05u-%05u.safetensors", c->table->name,
                   (unsigned)tide__store_self(walk->store), c->files++);
    (void)snprintf(path, sizeof path, "%s/%s", walk->dir, name);
    tide__blocks_open(b, walk->store->port, path);
    int code = b->error ? b->error : write_head(c, b, data, sizes, &count);
    for (size_t i = 0; i < count && !code; i++) {
        write_column(walk, b, data[i], sizes[i]);
    }
    b->error = b->error ? b->error : code;
    code = tide__blocks_finish(b);
    if (!code) {
        tide_write_array(&walk->files, 6);
        tide_write_text(&walk->files, c->table->name);
        tide_write_text(&walk->files, name);
        tide_write_uint(&walk->files, c->count);
        tide_write_uint(&walk->files, b->at);
        tide_write_uint(&walk->files, b->sums_size);
        tide_write_uint(&walk->files, b->sums_sum);
        walk->file_count++;
        walk->bytes += b->at + b->sums_size;
        walk->rows += c->count;
        c->count = 0;
    }
    tide_free(b);
    return code;
}

/* From now on rows are only marked. */
static void discard(struct tide__walk *walk) {
    for (size_t t = 0; t < walk->table_count; t++) {
        tide__cut_walk(walk->tables[t], true);
    }
}

/* Keeps the first failure. */
static void fail(struct tide__walk *walk, int code) {
    if (!walk->code) {
        walk->code = code;
        (void)snprintf(walk->text, sizeof walk->text, "%s", tide_error_message());
    }
    atomic_store_explicit(&walk->aborted, true, memory_order_relaxed);
    discard(walk);
}

static bool aborted(const struct tide__walk *walk) {
    return atomic_load_explicit(&walk->aborted, memory_order_relaxed);
}

/* Room for one more row at least. False: no row is wanted any more, tide__cut_take takes none. */
static bool make_room(struct tide__walk *walk, struct tide__columns *c) {
    if (aborted(walk)) {
        discard(walk);
        return false;
    }
    int code = c->count == c->limit ? write_file(walk, c) : 0;
    if (!code && c->count == c->capacity) {
        code = columns_grow(c);
    }
    if (code) {
        fail(walk, code);
    }
    return !code;
}

/* ---- rows ---- */

/* The row of a locked word that is in memory; NULL: there is none, but perhaps one on the disk, at *place. */
static const float *row_here(const struct tide_table *table, uint64_t word, uint32_t *place) {
    *place = TIDE__PLACE_NONE;
    switch ((enum tide__key_state)tide__word_state(word)) {
    case TIDE__OWNED:
        return tide__slab_row(&table->slab, (uint32_t)word);
    case TIDE__ARRIVING: {
        const struct tide__arrival *a = tide__arrival_of(table, word);
        *place = a->cold ? a->place : TIDE__PLACE_NONE;
        return a->here ? tide__slab_row(&table->slab, a->row) : NULL;
    }
    case TIDE__COLD:
        *place = TIDE_MUTANT(walk_skips_cold) ? TIDE__PLACE_NONE : (uint32_t)word;
        break;
    case TIDE__ABSENT:
        break;
    }
    return NULL;
}

static int by_place(const void *a, const void *b) {
    const struct cold_row *x = a, *y = b;
    return x->place < y->place ? -1 : x->place > y->place;
}

/* Reads the rows that were taken on the disk. */
static void read_cold(struct tide__walk *walk, struct tide__columns *c) {
    float *row = c->cold_count ? tide_alloc(c->table->row_floats * sizeof *row) : NULL;
    if (c->cold_count) {
        qsort(c->cold, c->cold_count, sizeof *c->cold, by_place);
    }
    int code = row || !c->cold_count ? 0 : tide_fail(TIDE_ENOMEM, "no memory to read a row");
    for (size_t i = 0; i < c->cold_count && !code && !aborted(walk); i++) {
        code = tide__tier_read(c->table, c->cold[i].place, c->cold[i].key, row);
        if (!code && (c->count < c->capacity || make_room(walk, c))) {
            columns_add(c, c->cold[i].key, row);
        }
        pace(walk, WORD_BYTES + c->table->row_floats * sizeof *row);
    }
    if (code) {
        fail(walk, code);
    }
    c->cold_count = 0;
    tide_free(row);
}

/* Takes a row; the word is unlocked after. Every word is locked once, also without a row: an operation that
 * makes one later has seen this generation. True: the row was copied. */
static bool visit(struct tide__columns *c, atomic_uint_fast64_t *word, uint64_t old, uint64_t key, bool is_home) {
    uint32_t place;
    const float *row = row_here(c->table, old, &place);
    bool wanted = (row || place != TIDE__PLACE_NONE) && tide__cut_take(c->table, &old) &&
                  (is_home || TIDE_MUTANT(copies_written_too));
    if (wanted && row) {
        columns_add(c, key, row);
    } else if (wanted) {
        c->cold[c->cold_count++] = (struct cold_row){key, place};
    }
    tide__word_unlock(word, old);
    return wanted;
}

/* Copies of rows are only marked: their homes write them. */
static bool writes(struct tide_table *table, uint32_t slot) {
    uint32_t route = atomic_load_explicit(&table->slots[slot].route, memory_order_relaxed);
    return !table->operations->groups || (route & TIDE__MINE);
}

static void walk_dense(struct tide__walk *walk, struct tide__columns *c, uint32_t number) {
    struct tide_table *table = c->table;
    struct tide__slot *slot = &table->slots[number];
    tide_lock(&slot->latch); /* an index that is made later is made after this */
    atomic_uint_fast64_t *words = atomic_load_explicit(&slot->index, memory_order_relaxed);
    tide_unlock(&slot->latch);
    for (uint64_t place = 0; words && place < table->places_max; place++) {
        uint64_t old;
        if (c->cold_count == COLD_ROWS) {
            read_cold(walk, c);
        }
        if (c->count == c->capacity) {
            (void)make_room(walk, c);
        }
        (void)tide__word_lock(&words[place], true, &old);
        bool copied = visit(c, &words[place], old, tide__key_of(table, number, place), writes(table, number));
        pace(walk, WORD_BYTES + (copied ? table->row_floats * sizeof(float) : 0));
    }
}

/* The latch is released after each batch. Entries move when the slot grows: then it is gone through
 * from the begin, and what is taken is passed over. When a key goes, entries move to before the place
 * the walk has come to: then it goes back to them (tide__hashed_remove). Entries of a slot that was
 * emptied meanwhile are made taken. */
static void walk_hashed(struct tide__walk *walk, struct tide__columns *c, uint32_t number) {
    struct tide__slot *slot = &c->table->slots[number];
    bool more = true, begun = false;
    while (more) {
        if (c->cold_count > 0) {
            read_cold(walk, c);
        }
        const bool room = make_room(walk, c);
        size_t copied = 0, words = 0;
        tide_lock(&slot->latch);
        struct tide__hash *hash = atomic_load_explicit(&slot->index, memory_order_relaxed);
        if (hash && !begun) {
            hash->walked = 0; /* of a new one, too */
            begun = true;
        }
        while (hash && hash->walked < hash->capacity && words < tide_limit(store_checkpoint_batch_words) &&
               copied < tide_limit(store_checkpoint_batch_rows) && c->cold_count < COLD_ROWS &&
               !(room && c->count == c->capacity)) {
            const uint32_t at = hash->walked++;
            atomic_uint_fast64_t *word = &hash->entries[at].word;
            uint64_t old;
            words++;
            if (atomic_load_explicit(word, memory_order_relaxed) != 0) {
                while (tide__word_lock(word, false, &old)) { /* holders never take the latch */
                    tide_lend_core();
                }
                copied += visit(c, word, old, hash->entries[at].key, writes(c->table, number));
            }
        }
        more = hash && hash->walked < hash->capacity;
        tide_unlock(&slot->latch);
        pace(walk, words * WORD_BYTES + copied * c->table->row_floats * sizeof(float));
    }
}

static void write_kept(struct tide__walk *walk, struct tide__columns *c) {
    struct tide__kept *kept;
    for (uint32_t slot = 0; slot < TIDE_SLOT_COUNT; slot++) {
        while ((kept = tide__cut_kept(c->table, slot))) {
            if (c->count < c->capacity || make_room(walk, c)) {
                columns_add(c, kept->key, kept->row);
            }
            tide_free(kept);
            pace(walk, WORD_BYTES + c->table->row_floats * sizeof(float));
        }
        if (slot % 64 == 0) {
            (void)tide_yield();
        }
    }
}

static void write_rest(struct tide__walk *walk, struct tide__columns *c) {
    const bool full = atomic_load_explicit(&c->table->cut, memory_order_relaxed) & TIDE__CUT_FULL;
    c->gone = tide__forget_of(c->table) ? tide__forget_gone_take(c->table, &c->gone_count) : NULL;
    c->gone_count = full ? 0 : c->gone_count;
    if ((c->count || c->gone_count) && !aborted(walk)) {
        int code = write_file(walk, c);
        if (code) {
            fail(walk, code);
        }
    }
    if (!aborted(walk) && atomic_load_explicit(&c->table->taken->failed, memory_order_relaxed)) {
        fail(walk, tide_fail(TIDE_EBUSY, "rows of table '%s' were cleared, or there was no memory to keep them",
                             c->table->name));
    }
}

static void walk_table(struct tide__walk *walk, struct tide__columns *c) {
    struct tide__tier *tier = tide__tier_of(c->table);
    if (tier) {
        atomic_fetch_add(&tier->pins, 1);
    }
    for (uint32_t slot = 0; slot < TIDE_SLOT_COUNT; slot++) {
        if (c->table->options.keys == TIDE_KEYS_HASHED) {
            walk_hashed(walk, c, slot);
        } else {
            walk_dense(walk, c, slot);
        }
        (void)tide_yield();
    }
    read_cold(walk, c);
    if (tier) { /* release: with the acquire before a file goes */
        atomic_fetch_sub_explicit(&tier->pins, 1, memory_order_release);
    }
    write_kept(walk, c);
}

/* Rows that left before their owner walked may still be in flight to here. */
static void wait_for_others(struct tide__walk *walk) {
    /* acquire: with the count down; what came before the last marker is in the tables */
    while (!aborted(walk) && atomic_load_explicit(&walk->others_left, memory_order_acquire) > 0) {
        if (tide_sleep(WAIT_NS) == TIDE_ECANCELED) {
            fail(walk, tide_fail(TIDE_ECANCELED, "the node is being ended"));
        }
    }
    if (atomic_load_explicit(&walk->others_gone, memory_order_relaxed)) {
        fail(walk, tide_fail(TIDE_EBUSY, "nodes went while the checkpoint was written"));
    }
}

void tide__walk_run(struct tide__walk *walk) {
    for (size_t t = 0; t < walk->table_count; t++) {
        if (!columns_init(&walk->columns[t], walk->tables[t])) {
            fail(walk, tide_fail(TIDE_ENOMEM, "no memory to write a generation"));
        }
        walk_table(walk, &walk->columns[t]);
    }
    wait_for_others(walk);
    for (size_t t = 0; t < walk->table_count; t++) {
        write_kept(walk, &walk->columns[t]);
        write_rest(walk, &walk->columns[t]);
        columns_release(&walk->columns[t]);
    }
    for (size_t t = 0; t < walk->table_count; t++) {
        tide__cut_end(walk->tables[t]);
    }
    if (aborted(walk) && !walk->code) {
        walk->code = TIDE_ECANCELED;
        (void)snprintf(walk->text, sizeof walk->text, "the checkpoint was given up");
    }
}

int tide__walk_create(struct tide_store *store, size_t table_count, struct tide__walk **out) {
    struct tide__walk *walk = tide_alloc_zero(1, sizeof *walk);
    struct tide_table **tables = tide_alloc_zero(table_count + 1, sizeof(struct tide_table *));
    struct tide__columns *columns = tide_alloc_zero(table_count + 1, sizeof *columns);
    if (!walk || !tables || !columns) {
        tide_free(walk);
        tide_free(tables);
        tide_free(columns);
        return tide_fail(TIDE_ENOMEM, "no memory to write a generation");
    }
    *walk = (struct tide__walk){.store = store, .tables = tables, .table_count = table_count, .columns = columns};
    tide_writer_init(&walk->files, NULL, 0);
    *out = walk;
    return 0;
}

void tide__walk_destroy(struct tide__walk *walk) {
    if (walk) {
        tide_writer_release(&walk->files);
        tide_free(walk->tables);
        tide_free(walk->columns);
        tide_free(walk);
    }
}
