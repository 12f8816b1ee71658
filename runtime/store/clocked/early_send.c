/*
 * Managed communication: what would leave at a clock leaves before it, as far as the way there has
 * bytes to spare (pacer.h), what matters most first. On the workers' node these are updates that
 * accumulated in copies, at a home rows that changed and of which others hold copies.
 *
 * It only ever sends earlier what a clock would send anyway, by the same code, in the same order of
 * numbers and versions; so all that clocks promise stays. What a clock or a waiting reader needs is
 * never held back: it leaves at once and is counted, and early sends pause until that is made up.
 *
 * The order: the greatest norm of the change relative to the norm of the row, the oldest, or any.
 * By magnitude the best of a window are taken, and windows go round; where bytes are scarce a
 * window has far more rows than may leave, where they are not order matters little.
 *
 * All on I/O thread 0, a turn every few milliseconds while there are workers or changes.
 */
#include "store/rows/rules.h"
#include "store/clocked/clocked.h"

#include <math.h>
#include <stdlib.h>

enum { WINDOW_MAX = 1024, WINDOW_MIN = 64, WINDOW_BYTES = 256 << 10, OFTEN_NS = 200000 };

struct candidate {
    uint64_t id, key; /* id: as listed */
    uint64_t word;    /* homes: the key's word */
    float weight, norm;
    uint32_t at; /* in the window */
};

struct tide__early_send {
    uint64_t at; /* of the last turn */
    uint32_t turns;
    struct tide_random random;
    /* of the list that is looked at */
    uint64_t ids[WINDOW_MAX], picked[WINDOW_MAX];
    bool gone[WINDOW_MAX]; /* from the list */
    struct candidate candidates[WINDOW_MAX];
};

int tide__early_send_create(struct tide__sync *sync) {
    if (atomic_load(&sync->early_send)) {
        return 0;
    }
    struct tide__early_send *m = tide_alloc_zero(1, sizeof *m);
    if (!m) {
        return TIDE_ENOMEM;
    }
    tide_port_random(sync->store->port, "managed", &m->random);
    atomic_store_explicit(&sync->early_send, m, memory_order_release); /* pairs with early_send_of */
    return 0;
}

static struct tide__early_send *early_send_of(struct tide__sync *sync) {
    return sync ? atomic_load_explicit(&sync->early_send, memory_order_acquire) : NULL;
}

void tide__early_send_note(struct tide__sync *sync, uint16_t node, size_t bytes) {
    struct tide__party *p = early_send_of(sync) ? tide__party(sync, node) : NULL;
    if (p) {
        atomic_fetch_add_explicit(&p->sent, bytes, memory_order_relaxed);
    }
}

/* ---- windows of lists ---- */

/* The first of a list, or, in random order, any that are first from now on. */
static size_t window_look(struct tide__early_send *m, struct tide__list *list, size_t most, uint8_t order) {
    tide_lock(&list->lock);
    const size_t count = list->count < most ? list->count : most;
    for (size_t i = 0; i < count && order == TIDE_SEND_RANDOM; i++) {
        const size_t other = i + tide_random_below(&m->random, list->count - i);
        const uint64_t id = list->at[i];
        list->at[i] = list->at[other];
        list->at[other] = id;
    }
    if (count) {
        memcpy(m->ids, list->at, count * sizeof m->ids[0]);
    }
    tide_unlock(&list->lock);
    memset(m->gone, 0, sizeof m->gone);
    return count;
}

static bool list_is_filled(struct tide__list *list) {
    tide_lock(&list->lock);
    const bool filled = list->count > 0;
    tide_unlock(&list->lock);
    return filled;
}

/* The window is still first in the list: others only append. What is gone leaves it; by magnitude
 * the rest goes to its end. */
static void window_close(struct tide__early_send *m, struct tide__list *list, size_t window, uint8_t order) {
    size_t kept = 0;
    if (window == 0) {
        return;
    }
    for (size_t i = 0; i < window; i++) {
        if (!m->gone[i]) {
            m->ids[kept++] = m->ids[i];
        }
    }
    tide_lock(&list->lock);
    const size_t rest = list->count - window, first = order == TIDE_SEND_MAGNITUDE ? 0 : kept;
    memmove(list->at + first, list->at + window, rest * sizeof list->at[0]);
    memcpy(list->at + (first ? 0 : rest), m->ids, kept * sizeof list->at[0]);
    list->count = kept + rest;
    tide_unlock(&list->lock);
}

static int by_weight(const void *a, const void *b) {
    const struct candidate *x = a, *y = b;
    if (x->weight != y->weight) {
        return x->weight < y->weight ? 1 : -1;
    }
    return (x->at > y->at) - (x->at < y->at);
}

/* By the change relative to the row; a row that is nearly nothing does not count as nothing. */
static void put_in_order(struct candidate *candidates, size_t count) {
    double squares = 0;
    for (size_t i = 0; i < count; i++) {
        squares += (double)candidates[i].norm * (double)candidates[i].norm;
    }
    const float least = 1e-3f * (float)sqrt(squares / (double)(count ? count : 1)) + 1e-30f;
    for (size_t i = 0; i < count; i++) {
        const float weight = candidates[i].weight / (candidates[i].norm + least);
        candidates[i].weight = weight == weight ? weight : INFINITY; /* not a number: to be seen */
    }
    qsort(candidates, count, sizeof *candidates, by_weight);
}

/* ---- room ---- */

static size_t row_bytes(const struct tide__clocked *c) {
    return c->shape.floats * sizeof(float) + sizeof(uint64_t);
}

static int64_t room_to_all(struct tide__sync *sync) {
    int64_t room = 0;
    for (struct tide__party *p = atomic_load(&sync->peers); p; p = p->next) {
        room += p->room > 0 ? p->room : 0;
    }
    return room;
}

/* Rows worth looking at. */
static size_t window_of(const struct tide__clocked *c, int64_t room) {
    const bool weighs = c->table->options.send_order == TIDE_SEND_MAGNITUDE;
    size_t rows = (weighs ? (size_t)WINDOW_BYTES : (size_t)room) / row_bytes(c) + 1;
    rows = weighs && rows < WINDOW_MIN ? WINDOW_MIN : rows;
    return rows < WINDOW_MAX ? rows : WINDOW_MAX;
}

static void count_early(struct tide__clocked *c, uint64_t rows, uint64_t bytes) {
    atomic_fetch_add_explicit(&c->early_rows, rows, memory_order_relaxed);
    atomic_fetch_add_explicit(&c->early_bytes, bytes, memory_order_relaxed);
}

/* ---- updates ---- */

/* What a listed record has to be sent. */
static bool delta_candidate(struct tide__clocked *c, struct tide__early_send *m, uint32_t at, struct candidate *out) {
    struct tide__copy_record *r = tide__copy_at(c, (uint32_t)m->ids[at]), *found;
    atomic_uint_fast64_t *word;
    uint64_t old;
    const size_t width = c->table->width;
    *out = (struct candidate){.id = m->ids[at], .at = at};
    out->key = atomic_load_explicit(&r->key, memory_order_relaxed);
    m->gone[at] = !atomic_load_explicit(&r->in_use, memory_order_acquire);
    if (m->gone[at] || tide__copy_lock(c, out->key, false, false, &word, &old, &found) != TIDE__FOUND) {
        return false;
    }
    m->gone[at] = found != r || !r->dirty;
    const bool good = !m->gone[at];
    if (good && c->table->options.send_order == TIDE_SEND_MAGNITUDE) {
        out->weight = sqrtf(tide__square_sum(tide__copy_record_acc(&c->shape, r), width));
        out->norm = sqrtf(tide__square_sum(tide__copy_record_value(r), width));
    }
    tide__word_unlock(word, old);
    const uint32_t slot = tide__slot_of(c->table, out->key);
    return good && !atomic_load_explicit(&c->shifting[slot], memory_order_relaxed);
}

static void deltas_send(struct tide__clocked *c, struct tide__sync *sync, struct tide__early_send *m) {
    const uint8_t order = c->table->options.send_order;
    int64_t room = room_to_all(sync);
    if (room == 0 || !tide__flush_try(sync)) { /* a clock is being packed */
        return;
    }
    if (sync->leaving) {
        tide__flush_unlock(sync);
        return;
    }
    const size_t window = window_look(m, &c->dirty, window_of(c, room), order);
    size_t count = 0, picked = 0;
    for (uint32_t i = 0; i < window; i++) {
        count += delta_candidate(c, m, i, &m->candidates[count]);
    }
    if (order == TIDE_SEND_MAGNITUDE) {
        put_in_order(m->candidates, count);
    }
    for (size_t i = 0; i < count && room > 0; i++) {
        const struct candidate *one = &m->candidates[i];
        struct tide__party *home = tide__party(sync, tide__via(c, tide__slot_of(c->table, one->key)));
        if (home && home->room > 0) {
            home->room -= (int64_t)row_bytes(c);
            room -= (int64_t)row_bytes(c);
            m->gone[one->at] = true;
            m->picked[picked++] = one->id;
        }
    }
    const uint64_t before = atomic_load_explicit(&c->delta_bytes, memory_order_relaxed);
    tide__flush_records(c, m->picked, picked);
    count_early(c, picked, atomic_load_explicit(&c->delta_bytes, memory_order_relaxed) - before);
    window_close(m, &c->dirty, window, order);
    tide__flush_unlock(sync);
}

/* ---- rows ---- */

static bool value_candidate(struct tide__clocked *c, struct tide__early_send *m, uint32_t at, struct candidate *out) {
    const uint64_t key = m->ids[at];
    const uint32_t slot = tide__slot_of(c->table, key);
    if (!tide__slot_here(c, slot) || c->tick_forwards[slot]) {
        return false;
    }
    *out = (struct candidate){.id = key, .key = key, .at = at};
    atomic_uint_fast64_t *word = tide__home_word(c, key, &out->word);
    if (!word) {
        return false;
    }
    if (c->table->options.send_order == TIDE_SEND_MAGNITUDE) {
        const float *row =
            tide__word_state(out->word) == TIDE__OWNED ? tide__slab_row(&c->table->slab, (uint32_t)out->word) : NULL;
        out->weight = tide__word_weight(out->word);
        out->norm = row ? sqrtf(tide__square_sum(row, c->table->width)) : 0;
    }
    tide__word_unlock(word, out->word);
    return true;
}

/* Is there room for it to all holders of copies? Then it is taken. */
static bool room_taken(struct tide__clocked *c, struct tide__sync *sync, const struct candidate *one) {
    const struct tide__watch *watch = tide__watch_find(c, one->key, false);
    bool all = true;
    for (int pass = 0; pass < 2 && all; pass++) {
        for (uint16_t i = 0; watch && i < watch->count; i++) {
            struct tide__party *p = tide__party(sync, watch->nodes[i].node);
            if (!p || p->gone || (!(one->word & TIDE__WORD_MIXED) && watch->changer == p->id)) {
                continue;
            }
            all = all && p->room > 0;
            p->room -= pass ? (int64_t)row_bytes(c) : 0;
        }
    }
    return all;
}

static void values_send(struct tide__clocked *c, struct tide__sync *sync, struct tide__early_send *m) {
    const uint8_t order = c->table->options.send_order;
    const int64_t room = room_to_all(sync);
    if (room == 0 || tide__undeclared(c)) {
        return;
    }
    const size_t window = window_look(m, &c->changed, window_of(c, room), order);
    size_t count = 0, picked = 0;
    for (uint32_t i = 0; i < window; i++) {
        count += value_candidate(c, m, i, &m->candidates[count]);
    }
    if (order == TIDE_SEND_MAGNITUDE) {
        put_in_order(m->candidates, count);
    }
    for (size_t i = 0; i < count; i++) {
        if (room_taken(c, sync, &m->candidates[i])) {
            m->gone[m->candidates[i].at] = true;
            m->picked[picked++] = m->candidates[i].id;
        }
    }
    window_close(m, &c->changed, window, order); /* a row that cannot go is listed anew */
    const uint64_t rows = atomic_load_explicit(&c->values_out, memory_order_relaxed),
                   bytes = atomic_load_explicit(&c->value_bytes, memory_order_relaxed);
    tide__rows_send(c, TIDE_SLOT_COUNT, m->picked, picked);
    count_early(c, atomic_load_explicit(&c->values_out, memory_order_relaxed) - rows,
                atomic_load_explicit(&c->value_bytes, memory_order_relaxed) - bytes);
}

/* ---- turns ---- */

/* Room to every node; the least bandwidth that a table names counts for all. */
static void look_at_links(struct tide__sync *sync, uint64_t now, uint64_t bandwidth) {
    const uint16_t self = tide__store_self(sync->store);
    for (struct tide__party *p = atomic_load(&sync->peers); p; p = p->next) {
        uint64_t consumed, under_way;
        p->room = 0;
        if (!p->gone && p->id != self &&
            tide_net_flow(sync->store->net, p->id, TIDE_LANE_STORE, &consumed, &under_way)) {
            p->room = (int64_t)tide__pacer_allows(&p->pace, now, atomic_load_explicit(&p->sent, memory_order_relaxed),
                                                  consumed, under_way, bandwidth);
        }
    }
}

static struct tide__clocked *early_send_table(const struct tide__sync *sync, unsigned id) {
    struct tide__clocked *c = tide__clocked_at(sync, id);
    return c && c->table->options.send_order ? c : NULL;
}

/* Of one domain. */
static uint64_t early_send_rest(struct tide__sync *sync) {
    struct tide_store *store = sync->store;
    struct tide__early_send *m = early_send_of(sync);
    if (!m || !store->net) {
        return 0;
    }
    const uint64_t now = tide_port_now(store->port),
                   period = TIDE_BUGGIFY(early_often) ? OFTEN_NS : TIDE__PACER_PERIOD_NS;
    if (m->at && now - m->at < period) {
        return period - (now - m->at);
    }
    m->at = now;
    const unsigned count = atomic_load_explicit(&store->table_count, memory_order_acquire);
    uint64_t bandwidth = 0;
    for (unsigned id = 1; id <= count; id++) {
        const struct tide__clocked *c = early_send_table(sync, id);
        const uint64_t named = c ? c->table->options.bandwidth : 0;
        bandwidth = named && (!bandwidth || named < bandwidth) ? named : bandwidth;
    }
    look_at_links(sync, now, bandwidth);
    bool again = tide__node_clock(sync->run) != TIDE_NO_CLOCK;
    m->turns++;
    for (unsigned i = 0; i < count; i++) { /* each table is first in its turn */
        struct tide__clocked *c = early_send_table(sync, 1 + (i + m->turns) % count);
        if (!c) {
            continue;
        }
        deltas_send(c, sync, m);
        if (c->model == TIDE_ESSP) {
            values_send(c, sync, m);
            again = again || list_is_filled(&c->changed);
        }
    }
    return again ? period : 0;
}

uint64_t tide__early_send_rest(struct tide_store *store) {
    uint64_t least = 0;
    for (struct tide__sync *sync = tide__sync_next(store, NULL); sync; sync = tide__sync_next(store, sync)) {
        const uint64_t again = early_send_rest(sync);
        least = again && (!least || again < least) ? again : least;
    }
    return least;
}
