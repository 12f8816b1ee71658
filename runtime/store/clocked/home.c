/*
 * Rows of tables with clocks at their home: updates of copies are applied, rows go out to those
 * with copies, and the other side of it, rows that come in.
 *
 * The holders of a row's copies are known to the row's home (watches). A row that changes is marked and
 * listed once; when the clock rises it goes to its watchers. The node that alone changed it need
 * not be notified: its copy shows the same value.
 */
#include "store/rows/rules.h"
#include "store/clocked/clocked.h"
#include "store/rows/cut.h"
#include "store/clocked/clock_move.h"
#include "store/clocked/vap.h"

#include <math.h>
#include <stdlib.h>

/* ---- watches ---- */

static struct tide__watch *watch_place(const struct tide__watches *w, uint64_t key) {
    uint32_t i = (uint32_t)tide_mix64(key) & (w->capacity - 1);
    while (w->places[i].nodes && w->places[i].key != key) {
        i = (i + 1) & (w->capacity - 1);
    }
    return &w->places[i];
}

static int watches_grow(struct tide__watches *w) {
    struct tide__watches bigger = {.capacity = w->capacity ? w->capacity * 2 : 8, .count = w->count};
    bigger.places = tide_alloc_zero(bigger.capacity, sizeof *bigger.places);
    if (!bigger.places) {
        return TIDE_ENOMEM;
    }
    for (uint32_t i = 0; i < w->capacity; i++) {
        if (w->places[i].nodes) {
            *watch_place(&bigger, w->places[i].key) = w->places[i];
        }
    }
    tide_free(w->places);
    *w = bigger;
    return 0;
}

struct tide__watch *tide__watch_find(struct tide__clocked *c, uint64_t key, bool create) {
    struct tide__watches *w = &c->watches[tide__slot_of(c->table, key)];
    if (create && (w->count + 1) * 4 > w->capacity * 3 && watches_grow(w)) {
        return NULL;
    }
    struct tide__watch *watch = w->capacity ? watch_place(w, key) : NULL;
    if (watch && watch->nodes) {
        return watch;
    }
    if (!create) {
        return NULL;
    }
    *watch = (struct tide__watch){.key = key, .capacity = 2};
    watch->nodes = tide_alloc(watch->capacity * sizeof *watch->nodes);
    w->count += watch->nodes != NULL;
    return watch->nodes ? watch : NULL;
}

void tide__watches_clear(struct tide__watches *w) {
    for (uint32_t i = 0; i < w->capacity; i++) {
        tide_free(w->places[i].nodes);
    }
    tide_free(w->places);
    *w = (struct tide__watches){.places = NULL};
}

atomic_uint_fast64_t *tide__home_word(struct tide__clocked *c, uint64_t key, uint64_t *old) {
    struct tide_table *table = c->table;
    atomic_uint_fast64_t *word = NULL;
    if (table->options.keys == TIDE_KEYS_HASHED) {
        int code = tide__hashed_lock(table, key, true, 0, true, &word, old);
        return code == TIDE__FOUND ? word : NULL;
    }
    const uint32_t slot = tide__slot_of(table, key);
    word = tide__dense_words(table, slot);
    if (word) {
        word += tide__place_of(table, slot, key);
        (void)tide__word_lock(word, true, old);
    }
    return word;
}

int tide__watch_add(struct tide__clocked *c, uint64_t key, uint16_t node, uint64_t version) {
    struct tide__watch *watch = tide__watch_find(c, key, true);
    if (!watch) {
        return TIDE_ENOMEM;
    }
    uint16_t i = 0;
    while (i < watch->count && watch->nodes[i].node != node) {
        i++;
    }
    if (i == watch->capacity) {
        size_t capacity = watch->capacity * (size_t)2;
        struct tide__watcher *grown = tide_realloc(watch->nodes, capacity * sizeof *grown);
        if (!grown) {
            return TIDE_ENOMEM;
        }
        watch->nodes = grown;
        watch->capacity = (uint16_t)capacity;
    }
    watch->count = (uint16_t)(watch->count + (i == watch->count));
    watch->nodes[i] = (struct tide__watcher){.version = version, .node = node};
    uint64_t old;
    atomic_uint_fast64_t *word = tide__home_word(c, key, &old);
    if (!word) {
        return TIDE_ENOMEM;
    }
    tide__word_unlock(word, old | TIDE__WORD_WATCHED);
    return 0;
}

static void watch_remove(struct tide__watch *watch, uint16_t i) {
    memmove(watch->nodes + i, watch->nodes + i + 1, (size_t)(watch->count - i - 1) * sizeof *watch->nodes);
    watch->count--;
}

int tide__unsub_message(struct tide_store *store, struct tide__incoming *in) {
    const __typeof__(in->as.UNSUB) *m = &in->as.UNSUB;
    struct tide__clocked *c = tide__clocked_of(store, in, m->table);
    if (!c || m->keys.count != m->versions.count) {
        return TIDE_EPROTO;
    }
    for (size_t k = 0; k < m->keys.count; k++) {
        const uint64_t key = tide__long_at(m->keys.at, k), version = tide__long_at(m->versions.at, k);
        struct tide__watch *watch = tide__watch_find(c, key, false);
        for (uint16_t i = 0; watch && i < watch->count; i++) {
            if (watch->nodes[i].node == in->from && watch->nodes[i].version <= version) {
                watch_remove(watch, i);
                break;
            }
        }
    }
    return 0;
}

/* ---- changes ---- */

/* Added to what is known of how much the row changed, where that decides what goes first. */
static uint64_t weigh(const struct tide__clocked *c, uint64_t word, const void *values, size_t count) {
    return c->table->options.send_order == TIDE_SEND_MAGNITUDE
               ? tide__word_weigh(word, sqrtf(tide__square_sum(values, count)))
               : word;
}

uint64_t tide__row_changed(struct tide__clocked *c, uint64_t key, uint64_t word, const void *values, size_t count) {
    if (!(word & TIDE__WORD_CHANGED)) {
        tide__list_add(&c->changed, key);
    }
    return weigh(c, word, values, count) | TIDE__WORD_CHANGED | TIDE__WORD_MIXED;
}

void tide__mark_changed(struct tide__clocked *c, uint64_t key) {
    uint64_t old;
    atomic_uint_fast64_t *word = tide__home_word(c, key, &old);
    if (word) {
        tide__word_unlock(word, tide__row_changed(c, key, old, NULL, 0));
    }
}

/* Does the copy of the node that alone changed a row show what the row is now? */
static bool shows_own(const struct tide__clocked *c) {
    return !tide__rule_is_serial(&c->table->options);
}

/* I/O thread, word locked: the row was changed by an update of `changer`. */
static uint64_t changed_by(struct tide__clocked *c, uint64_t key, uint64_t word, uint16_t changer, const void *delta) {
    if (!(word & TIDE__WORD_WATCHED)) {
        return word;
    }
    struct tide__watch *watch = tide__watch_find(c, key, false);
    if (!(word & TIDE__WORD_CHANGED) && watch && watch->count == 1 && watch->nodes[0].node == changer && shows_own(c)) {
        return word; /* no notice is due */
    }
    if (!(word & TIDE__WORD_CHANGED)) {
        tide__list_add(&c->changed, key);
        if (watch) {
            watch->changer = changer;
        }
    } else if (watch && watch->changer != changer) {
        watch->changer = 0;
    }
    return weigh(c, word, delta, c->table->width) | TIDE__WORD_CHANGED;
}

static void by_delta(const struct tide_table *table, float *row, const void *delta) {
    tide__copy_record_apply(&tide__clocked_part(table)->shape, row, delta);
}

int tide__home_apply(struct tide__clocked *c, uint64_t key, const void *delta, uint32_t stamp, uint16_t changer) {
    struct tide_table *table = c->table;
    uint64_t old;
    atomic_uint_fast64_t *word = tide__home_word(c, key, &old);
    if (!word) {
        return TIDE_ENOMEM;
    }
    if (tide__word_state(old) != TIDE__OWNED) {
        uint32_t row;
        int code = tide__slab_take(&table->slab, &row);
        if (code) {
            tide__word_unlock(word, old);
            return code;
        }
        tide__row_init(&table->options, key, tide__slab_row(&table->slab, row), true);
        old = tide__cut_arrive(table, key, tide__word_owned(old, row), TIDE__CUT_NO_ROW, NULL, NULL);
    }
    float *row = tide__slab_row(&table->slab, (uint32_t)old);
    tide__cut_change(table, key, &old, row, false, stamp, by_delta, delta);
    tide__copy_record_apply(&c->shape, row, delta);
    tide__word_unlock(word, changed_by(c, key, old, changer, delta));
    return 0;
}

/* The row as it travels; an untouched row is its initial one. */
static void home_read(struct tide__clocked *c, uint64_t key, float *row) {
    struct tide_table *table = c->table;
    const size_t floats = c->shape.floats;
    uint64_t old = 0;
    atomic_uint_fast64_t *word = NULL;
    if (table->options.keys == TIDE_KEYS_HASHED) {
        if (tide__hashed_lock(table, key, false, 0, true, &word, &old) != TIDE__FOUND) {
            word = NULL;
        }
    } else {
        const uint32_t slot = tide__slot_of(table, key);
        word = atomic_load_explicit(&table->slots[slot].index, memory_order_acquire);
        if (word) {
            word += tide__place_of(table, slot, key);
            (void)tide__word_lock(word, true, &old);
        }
    }
    bool here = word && tide__word_state(old) == TIDE__OWNED;
    if (here) {
        memcpy(row, tide__slab_row(&table->slab, (uint32_t)old), floats * sizeof *row);
    }
    if (word) {
        tide__word_unlock(word, old);
    }
    if (!here) {
        tide__row_init(&table->options, key, row, floats > table->width);
    }
}

/* ---- DELTA ---- */

void tide__hold(struct tide__clocked *c, uint16_t from, enum tide__op op, const union tide__message *m) {
    struct tide_store *store = c->table->store;
    struct tide_writer w;
    tide_writer_init(&w, NULL, 0);
    tide__message_write(&w, op, m);
    const bool room = !w.error && store->parked_bytes + w.size <= tide_limit(store_parked_bytes);
    struct tide__held *held = room ? tide_alloc(sizeof *held + w.size) : NULL;
    if (held) {
        *held = (struct tide__held){.from = from, .size = w.size};
        memcpy(held->body, w.data, w.size);
        store->parked_bytes += w.size;
        *c->held_end = held;
        c->held_end = &held->next;
    } else {
        tide_log(TIDE_LOG_ERROR, tide_node_name(store->node),
                 "updates of table '%s' are lost: too many wait for slots on the move", c->table->name);
    }
    tide_writer_release(&w);
}

struct delta {
    uint64_t number;
    uint32_t stamp, worker;
    uint16_t origin;
    const uint8_t *keys, *rows;
    size_t count;
};

/* Keys of slots that are not here: held (0) until their rows come, or on to their home. */
static void delta_elsewhere(struct tide__clocked *c, uint16_t from, const struct delta *d, uint32_t *at, size_t count) {
    const size_t row = c->shape.floats * sizeof(float);
    uint64_t *keys = tide_alloc((count + 1) * sizeof *keys);
    uint8_t *rows = tide_alloc(count * row + 1);
    while (keys && rows && count) {
        uint16_t to = tide__home_of(c, tide__slot_of(c->table, tide__long_at(d->keys, at[0])));
        size_t in_part = 0, kept = 0;
        for (size_t i = 0; i < count; i++) {
            const uint64_t key = tide__long_at(d->keys, at[i]);
            if (tide__home_of(c, tide__slot_of(c->table, key)) == to) {
                memcpy(rows + in_part * row, d->rows + at[i] * row, row);
                keys[in_part++] = key;
            } else {
                at[kept++] = at[i];
            }
        }
        count = kept;
        const union tide__message m = {.DELTA = {.table = c->table->id,
                                                 .origin = d->origin,
                                                 .number = d->number,
                                                 .stamp = d->stamp,
                                                 .worker = d->worker,
                                                 .keys = TIDE__LIST(keys, in_part),
                                                 .rows = TIDE__LIST(rows, in_part * c->shape.floats)}};
        if (to == 0) {
            tide__hold(c, from, TIDE__OP_DELTA, &m);
        } else {
            tide__table_count(c->table, TIDE__FORWARDED, in_part);
            (void)tide__sync_tell(c->sync, to, TIDE__OP_DELTA, &m);
        }
    }
    tide_free(keys);
    tide_free(rows);
}

/* vap: the keys of a DELTA that are here, all of which have been applied, but those elsewhere. */
static void delta_trace(struct tide__clocked *c, const struct delta *d, const uint32_t *elsewhere,
                        size_t elsewhere_count) {
    /* Smaller than the message; without it the origin would wait for ever. */
    uint64_t *keys = tide_alloc_vital((d->count + 1) * sizeof *keys);
    size_t count = 0, next = 0;
    for (size_t i = 0; i < d->count; i++) {
        if (next < elsewhere_count && elsewhere[next] == i) {
            next++;
        } else {
            keys[count++] = tide__long_at(d->keys, i);
        }
    }
    tide__vap_trace(c, d->origin, d->number, keys, count);
    tide_free(keys);
}

/* Keys of a message lie anywhere: what leads to their rows is fetched a few keys ahead, first what
 * the slot knows, then what that points at. */
static void fetch_ahead(struct tide__clocked *c, const struct delta *d, size_t i) {
    enum { FAR = 8, NEAR = 4 };
    const struct tide_table *table = c->table;
    if (i + FAR < d->count) {
        const uint32_t slot = tide__slot_of(table, tide__long_at(d->keys, i + FAR));
        __builtin_prefetch(&table->slots[slot]);
        __builtin_prefetch(&c->watches[slot]);
    }
    if (i + NEAR < d->count && table->options.keys == TIDE_KEYS_DENSE) {
        const uint64_t key = tide__long_at(d->keys, i + NEAR);
        const uint32_t slot = tide__slot_of(table, key);
        const struct tide__watches *w = &c->watches[slot];
        tide__fetch_word(table, slot, key);
        if (w->capacity) {
            __builtin_prefetch(&w->places[(uint32_t)tide_mix64(key) & (w->capacity - 1)]);
        }
    }
}

static void delta_apply(struct tide__clocked *c, uint16_t from, const struct delta *d) {
    const size_t row = c->shape.floats * sizeof(float);
    uint32_t *elsewhere = tide_alloc((d->count + 1) * sizeof *elsewhere);
    size_t elsewhere_count = 0, here = 0;
    for (size_t i = 0; elsewhere && i < d->count; i++) {
        const uint64_t key = tide__long_at(d->keys, i);
        const uint32_t slot = tide__slot_of(c->table, key);
        fetch_ahead(c, d, i);
        if (!tide__slot_here(c, slot)) {
            elsewhere[elsewhere_count++] = (uint32_t)i;
            continue;
        }
        int code = d->worker ? tide__stage(c, key, d->stamp, d->origin, d->worker, d->rows + i * row)
                             : tide__home_apply(c, key, d->rows + i * row, d->stamp, d->origin);
        if (code) {
            tide_log(TIDE_LOG_ERROR, tide_node_name(c->table->store->node), "an update of table '%s' is lost: %s",
                     c->table->name, tide_error_message());
        }
        here++;
        struct tide__tick_forward *forward = tide__tick_forward(c, slot, d->origin, false);
        if (forward && forward->number < d->number) {
            forward->number = d->number;
        }
    }
    struct tide__party *peer = tide__party(c->sync, d->origin);
    if (peer && from == d->origin && peer->applied < d->number) {
        peer->applied = d->number;
    }
    tide__table_count(c->table, TIDE__SERVED_PUSHES, here);
    if (c->vap) {
        delta_trace(c, d, elsewhere, elsewhere_count);
    }
    if (elsewhere_count) {
        delta_elsewhere(c, from, d, elsewhere, elsewhere_count);
    }
    tide_free(elsewhere);
}

/* Whole rows of those of which some blocks came; NULL: they do not fit together, or no memory. */
static float *rows_spread(const struct tide__clocked *c, const uint8_t *blocks, size_t count, const uint8_t *packed,
                          size_t floats) {
    const size_t width = c->shape.floats;
    float *rows = c->table->options.update == TIDE_UPDATE_ADD ? tide_alloc((count * width + 1) * sizeof *rows) : NULL;
    size_t used = 0;
    for (size_t i = 0; rows && i < count; i++) {
        const uint32_t some = tide__number_at(blocks, i);
        const size_t more = some & ~(uint32_t)c->shape.all ? SIZE_MAX : tide__blocks_floats(&c->shape, (uint16_t)some);
        if (more > floats - used) {
            used = SIZE_MAX;
            break;
        }
        tide__blocks_spread(&c->shape, (uint16_t)some, packed + used * sizeof *rows, rows + i * width);
        used += more;
    }
    if (used != floats) {
        tide_free(rows);
        rows = NULL;
    }
    return rows;
}

int tide__delta_message(struct tide_store *store, struct tide__incoming *in) {
    const __typeof__(in->as.DELTA) *m = &in->as.DELTA;
    struct tide__clocked *c = tide__clocked_of(store, in, m->table);
    if (!c) {
        return TIDE_EPROTO;
    }
    size_t floats = m->rows.count;
    float *spread = NULL;
    struct delta d = {.origin = m->origin,
                      .number = m->number,
                      .stamp = m->stamp,
                      .worker = m->worker,
                      .keys = m->keys.at,
                      .rows = m->rows.at,
                      .count = m->keys.count};
    if (m->blocks.count && m->blocks.count == d.count && d.count <= tide__chunk_rows(c)) {
        spread = rows_spread(c, m->blocks.at, d.count, d.rows, floats);
        d.rows = (const uint8_t *)spread;
        floats = spread ? d.count * c->shape.floats : 0;
    }
    bool good = d.origin && (d.rows || !d.count) && floats % c->shape.floats == 0 &&
                floats / c->shape.floats == d.count && d.stamp <= INT32_MAX &&
                (d.worker != 0) == (c->model == TIDE_BSP);
    for (size_t i = 0; good && c->table->options.keys == TIDE_KEYS_DENSE && i < d.count; i++) {
        good = tide__long_at(d.keys, i) < c->table->options.key_count;
    }
    if (good) {
        tide__table_count(c->table, TIDE__BYTES_IN, in->message->size);
        tide__user_add(c, d.origin);
        delta_apply(c, in->from, &d);
    }
    tide_free(spread);
    return good ? 0 : TIDE_EPROTO;
}

/* ---- VALUE out ---- */

/* Rows that changed; that were requested; the same, and the home notifies of changes from now on. */
enum { PUSHED, ANSWERED, SUBSCRIBED };

void tide__values_send(struct tide__clocked *c, uint16_t node, uint32_t clock, uint64_t applied, const uint64_t *keys,
                       size_t count, bool answer) {
    const bool subscribe = answer && tide__is_eager(c);
    const size_t floats = c->shape.floats, most = tide__chunk_rows(c);
    for (size_t at = 0; at < count;) {
        size_t part = count - at < most ? count - at : most;
        struct tide_writer w;
        tide_writer_init(&w, NULL, 0);
        tide__message_write(
            &w, TIDE__AS(VALUE, .table = c->table->id, .version = ++c->version, .clock = clock, .applied = applied,
                         .kind = subscribe ? SUBSCRIBED
                                 : answer  ? ANSWERED
                                           : PUSHED,
                         .keys = TIDE__LIST(keys + at, part), .rows = TIDE__LIST_HEAD_OF(part * floats)));
        char *rows = tide_write_reserve(&w, part * floats * sizeof(float));
        float *row = tide_alloc(floats * sizeof *row);
        for (size_t i = 0; rows && row && i < part; i++) {
            /* a worker that changes the row from here on lists it */
            if (subscribe && tide__watch_add(c, keys[at + i], node, c->version)) {
                w.error = TIDE_ENOMEM;
            }
            home_read(c, keys[at + i], row);
            memcpy(rows + i * floats * sizeof *row, row, floats * sizeof *row);
        }
        w.error = row ? w.error : TIDE_ENOMEM;
        tide_free(row);
        atomic_fetch_add_explicit(&c->values_out, part, memory_order_relaxed);
        atomic_fetch_add_explicit(&c->value_bytes, w.size, memory_order_relaxed);
        atomic_fetch_add_explicit(&c->answer_bytes, answer ? w.size : 0, memory_order_relaxed);
        (void)tide__sync_send(c->sync, node, &w);
        tide__vap_values_sent(c, node, c->version);
        at += part;
    }
}

uint64_t *tide__take_changed(struct tide__clocked *c, uint32_t slot, size_t *count) {
    struct tide__list *changed = &c->changed;
    tide_lock(&changed->lock);
    uint64_t *taken = tide_alloc((changed->count + 1) * sizeof *taken);
    size_t kept = 0;
    *count = 0;
    for (size_t i = 0; taken && i < changed->count; i++) {
        uint32_t of = tide__slot_of(c->table, changed->at[i]);
        bool mine = slot < TIDE_SLOT_COUNT ? of == slot : !c->tick_forwards[of];
        if (mine) {
            taken[(*count)++] = changed->at[i];
        } else {
            changed->at[kept++] = changed->at[i];
        }
    }
    changed->count = taken ? kept : changed->count;
    tide_unlock(&changed->lock);
    return taken;
}

static int by_node(const void *a, const void *b) {
    const struct tide__watch_row *x = a, *y = b;
    return x->node != y->node ? (x->node < y->node ? -1 : 1) : (x->key > y->key) - (x->key < y->key);
}

struct rows { /* (node, key) pairs that are to go out */
    struct tide__watch_row *at;
    size_t count, capacity;
};

static void rows_add(struct rows *rows, uint16_t node, uint64_t key) {
    if (rows->count == rows->capacity) {
        size_t capacity = rows->capacity ? rows->capacity * 2 : 1024;
        /* Sixteen bytes beside a watcher. */
        rows->at = tide_realloc_vital(rows->at, capacity * sizeof *rows->at);
        rows->capacity = capacity;
    }
    rows->at[rows->count++] = (struct tide__watch_row){.key = key, .node = node};
}

static void row_goes_out(struct tide__clocked *c, struct rows *rows, uint64_t key) {
    struct tide__sync *sync = c->sync;
    struct tide__watch *watch = tide__watch_find(c, key, false);
    uint64_t old;
    atomic_uint_fast64_t *word = tide__home_word(c, key, &old);
    if (!word) {
        tide__list_add(&c->changed, key); /* next time */
        return;
    }
    bool alone = !(old & TIDE__WORD_MIXED) && shows_own(c);
    old &= ~(TIDE__WORD_CHANGED | TIDE__WORD_MIXED | TIDE__WORD_WEIGHT);
    tide__word_unlock(word, watch && watch->count ? old : old & ~TIDE__WORD_WATCHED);
    for (uint16_t i = 0; watch && i < watch->count;) {
        uint16_t node = watch->nodes[i].node;
        if (tide__party_lost(sync, node)) {
            watch_remove(watch, i);
            continue;
        }
        if (!alone || watch->changer != node) {
            rows_add(rows, node, key);
        }
        i++;
    }
}

void tide__changed_send(struct tide__clocked *c, uint32_t slot) {
    size_t count;
    uint64_t *keys = tide__take_changed(c, slot, &count);
    if (keys) {
        tide__rows_send(c, slot, keys, count);
        tide_free(keys);
    }
}

void tide__rows_send(struct tide__clocked *c, uint32_t slot, uint64_t *keys, size_t count) {
    struct rows rows = {.at = NULL};
    size_t from = 0;
    for (size_t i = 0; i < count; i++) {
        row_goes_out(c, &rows, keys[i]);
    }
    if (rows.count) {
        qsort(rows.at, rows.count, sizeof *rows.at, by_node);
    }
    for (size_t i = 0; i < rows.count; i++) { /* keys of one node close up */
        if (i + 1 < rows.count && rows.at[i + 1].node == rows.at[i].node) {
            continue;
        }
        uint32_t any = slot < TIDE_SLOT_COUNT ? slot : tide__slot_of(c->table, rows.at[i].key);
        for (size_t k = from; k <= i; k++) {
            keys[k - from] = rows.at[k].key;
        }
        tide__values_send(c, rows.at[i].node, tide__slot_clock(c, any), tide__slot_applied(c, any, rows.at[i].node),
                          keys, i - from + 1, false);
        from = i + 1;
    }
    tide_free(rows.at);
}

/* ---- VALUE in ---- */

/* A copy that waits for its answer takes nothing else: a row that was in flight when an earlier copy was dropped
 * may miss what the home did not send since. */
int tide__value_message(struct tide_store *store, struct tide__incoming *in) {
    const __typeof__(in->as.VALUE) *m = &in->as.VALUE;
    struct tide__clocked *c = tide__clocked_of(store, in, m->table);
    if (!c || m->kind > SUBSCRIBED || m->rows.count != m->keys.count * c->shape.floats) {
        return TIDE_EPROTO;
    }
    struct tide__sync *sync = c->sync;
    const size_t bytes = c->shape.floats * sizeof(float), count = m->keys.count;
    const uint8_t *rows = m->rows.at;
    const bool answer = m->kind != PUSHED;
    const uint64_t now = tide_port_now(store->port);
    for (size_t i = 0; i < count; i++) {
        uint64_t key = tide__long_at(m->keys.at, i), old;
        atomic_uint_fast64_t *word;
        struct tide__copy_record *copy;
        if ((c->table->options.keys == TIDE_KEYS_DENSE && key >= c->table->options.key_count) ||
            tide__copy_lock(c, key, false, true, &word, &old, &copy) != TIDE__FOUND) {
            continue; /* evicted */
        }
        /* else: late, from an old home */
        if (m->version > copy->version && (answer || copy->valid || TIDE_MUTANT(late_value_taken))) {
            tide__copy_record_row(&c->shape, copy, rows + i * bytes, m->applied);
            copy->version = m->version;
            copy->row_clock = copy->row_clock > m->clock ? copy->row_clock : m->clock;
            copy->fetched_ns = now;
            copy->settled = atomic_load_explicit(&sync->settled, memory_order_relaxed);
            copy->asked = copy->asked && m->clock < copy->asked_need;
            copy->subscribed = copy->subscribed || m->kind == SUBSCRIBED;
        }
        tide__word_unlock(word, old);
    }
    atomic_fetch_add_explicit(&c->values_in, count, memory_order_relaxed);
    tide__vap_values_came(c, in->from, m->version);
    tide__sync_wake(sync);
    return 0;
}
