/*
 * bsp: exact clocks. What a worker pushes lies in an overlay of its own, which only its pulls see,
 * until it ends its interval; then it goes to the homes apart from what others pushed. A home keeps
 * it until the slot's clock has passed its stamp, sums the contributions to a row in the order of
 * the workers' numbers and applies the update rule once. So values depend on the workers' work
 * alone, to the bit, whatever the timing, the nodes and the slot map; and a worker or node that is
 * lost within an interval leaves no part of it.
 */
#include "store/rows/rules.h"
#include "store/clocked/clocked.h"

#include <stdlib.h>

struct tide__bsp_pushed { /* of one worker in one table */
    struct tide__bsp_pushed *next;
    struct tide__clocked *c;
    uint32_t *places; /* open addressing: 1 + row, 0: empty */
    uint32_t capacity, count, room;
    uint64_t *keys;
    float *rows;
};

static uint32_t *pushed_place(const struct tide__bsp_pushed *o, uint64_t key) {
    uint32_t i = (uint32_t)tide_mix64(key) & (o->capacity - 1);
    while (o->places[i] && o->keys[o->places[i] - 1] != key) {
        i = (i + 1) & (o->capacity - 1);
    }
    return &o->places[i];
}

static int pushed_grow(struct tide__bsp_pushed *o) {
    const size_t width = o->c->table->width;
    const uint32_t room = o->room ? o->room * 2 : 64;
    uint64_t *keys = tide_realloc(o->keys, room * sizeof *keys);
    o->keys = keys ? keys : o->keys;
    float *rows = keys ? tide_realloc(o->rows, room * width * sizeof *rows) : NULL;
    o->rows = rows ? rows : o->rows;
    uint32_t *places = rows ? tide_alloc_zero(room * (size_t)2, sizeof *places) : NULL;
    if (!places) {
        return TIDE_ENOMEM;
    }
    tide_free(o->places);
    o->places = places;
    o->capacity = room * 2;
    o->room = room;
    for (uint32_t i = 0; i < o->count; i++) {
        *pushed_place(o, o->keys[i]) = i + 1;
    }
    return 0;
}

static struct tide__bsp_pushed *pushed_of(struct tide__clocked *c, struct tide__worker *worker, bool create) {
    struct tide__bsp_pushed *o = worker->bsp_pushed;
    while (o && o->c != c) {
        o = o->next;
    }
    if (!o && create && (o = tide_alloc_zero(1, sizeof *o))) {
        o->c = c;
        o->next = worker->bsp_pushed;
        worker->bsp_pushed = o;
    }
    return o;
}

int tide__bsp_push(struct tide__clocked *c, struct tide__worker *worker, const uint64_t *keys, size_t count,
                   const float *rows) {
    const size_t width = c->table->width;
    const struct tide_table_options sum = {.update = c->table->options.update == TIDE_UPDATE_ASSIGN ? TIDE_UPDATE_ASSIGN
                                                                                                    : TIDE_UPDATE_ADD,
                                           .width = (uint32_t)width};
    struct tide__bsp_pushed *o = pushed_of(c, worker, true);
    for (size_t i = 0; o && i < count; i++) {
        if (o->count == o->room && pushed_grow(o)) {
            return TIDE_ENOMEM;
        }
        uint32_t *place = pushed_place(o, keys[i]);
        if (!*place) {
            o->keys[o->count] = keys[i];
            memset(o->rows + o->count * width, 0, width * sizeof *o->rows);
            *place = ++o->count;
        }
        tide__rule_apply(&sum, o->rows + (*place - 1) * width, rows + i * width);
    }
    return o ? 0 : TIDE_ENOMEM;
}

void tide__bsp_add(struct tide__clocked *c, struct tide__worker *worker, uint64_t key, float *row) {
    const struct tide__bsp_pushed *o = pushed_of(c, worker, false);
    const uint32_t at = o && o->count ? *pushed_place(o, key) : 0;
    if (at && tide__rule_is(&c->table->options, TIDE_RULE_ADDS | TIDE__RULE_ASSIGNS)) {
        tide__rule_apply(&c->table->options, row, o->rows + (at - 1) * c->table->width);
    }
}

void tide__bsp_free(struct tide__worker *worker) {
    while (worker->bsp_pushed) {
        struct tide__bsp_pushed *o = worker->bsp_pushed;
        worker->bsp_pushed = o->next;
        tide_free(o->places);
        tide_free(o->keys);
        tide_free(o->rows);
        tide_free(o);
    }
}

/* ---- out ---- */

/* One contribution, at its home or (late) on a node while its slot shifts. */
struct tide__staged {
    struct tide__staged *next;
    uint64_t key;
    uint32_t stamp, worker;
    uint16_t node;
    float row[];
};

static struct tide__staged *staged_make(const struct tide__clocked *c, uint64_t key, uint32_t stamp, uint16_t node,
                                        uint32_t worker, const void *row) {
    struct tide__staged *s = tide_alloc(sizeof *s + c->table->width * sizeof s->row[0]);
    if (s) {
        *s = (struct tide__staged){.key = key, .stamp = stamp, .worker = worker, .node = node};
        memcpy(s->row, row, c->table->width * sizeof s->row[0]);
    }
    return s;
}

/* Flush lock held, or the contribution is another node's. */
static void contribution_send(struct tide__clocked *c, uint16_t to, uint16_t origin, uint32_t stamp, uint32_t worker,
                              const uint64_t *keys, const float *rows, size_t count) {
    struct tide_writer w;
    tide_writer_init(&w, NULL, 0);
    tide__message_write(&w,
                        TIDE__AS(DELTA, .table = c->table->id, .origin = origin, .stamp = stamp, .worker = worker + 1,
                                 .keys = TIDE__LIST(keys, count), .rows = TIDE__LIST(rows, count * c->table->width)));
    atomic_fetch_add_explicit(&c->deltas_out, count, memory_order_relaxed);
    atomic_fetch_add_explicit(&c->delta_bytes, w.size, memory_order_relaxed);
    (void)tide__sync_send(c->sync, to, &w);
}

static void pushed_send(struct tide__bsp_pushed *o, struct tide__worker *worker) {
    struct tide__clocked *c = o->c;
    const uint16_t self = tide__store_self(c->table->store);
    const size_t width = c->table->width, most = tide__chunk_rows(c);
    /* A lost contribution would make every later value wrong. */
    uint64_t *keys = tide_alloc_vital(o->count * sizeof *keys + 1);
    float *rows = tide_alloc_vital(o->count * width * sizeof *rows + 1);
    bool *sent = tide_alloc_vital((o->count + 1) * sizeof *sent);
    for (uint32_t first = 0; first < o->count; first++) {
        const uint16_t via = tide__via(c, tide__slot_of(c->table, o->keys[first]));
        size_t count = 0;
        for (uint32_t i = first; !sent[first] && i < o->count && count < most; i++) {
            const uint32_t slot = tide__slot_of(c->table, o->keys[i]);
            if (sent[i] || tide__via(c, slot) != via) {
                continue;
            }
            sent[i] = i != first;
            if (atomic_load_explicit(&c->shifting[slot], memory_order_relaxed)) {
                struct tide__staged *late =
                    staged_make(c, o->keys[i], worker->clock, self, worker->number, o->rows + i * width);
                TIDE_ASSERT(late);
                late->next = c->late;
                c->late = late;
                continue;
            }
            keys[count] = o->keys[i];
            memcpy(rows + count++ * width, o->rows + i * width, width * sizeof *rows);
        }
        if (count) {
            contribution_send(c, via, self, worker->clock, worker->number, keys, rows, count);
        }
    }
    tide_free(keys);
    tide_free(rows);
    tide_free(sent);
    o->count = 0;
    if (o->places) {
        memset(o->places, 0, o->capacity * sizeof *o->places);
    }
}

void tide__bsp_send(struct tide__sync *sync, struct tide__worker *worker) {
    tide__flush_lock(sync);
    for (struct tide__bsp_pushed *o = worker->bsp_pushed; o; o = o->next) {
        pushed_send(o, worker);
    }
    tide__flush_unlock(sync);
}

void tide__late_send(struct tide__clocked *c) {
    for (struct tide__staged **at = &c->late; *at;) {
        struct tide__staged *s = *at;
        const uint32_t slot = tide__slot_of(c->table, s->key);
        if (atomic_load_explicit(&c->shifting[slot], memory_order_relaxed)) {
            at = &s->next;
            continue;
        }
        *at = s->next;
        contribution_send(c, tide__via(c, slot), s->node, s->stamp, s->worker, &s->key, s->row, 1);
        tide_free(s);
    }
}

/* ---- at home ---- */

int tide__stage(struct tide__clocked *c, uint64_t key, uint32_t stamp, uint16_t node, uint32_t worker,
                const void *row) {
    struct tide__staged *s = staged_make(c, key, stamp, node, worker - 1, row);
    if (!s) {
        return TIDE_ENOMEM;
    }
    s->next = c->staged;
    c->staged = s;
    c->staged_count++;
    return 0;
}

static int in_order(const void *a, const void *b) {
    const struct tide__staged *x = *(struct tide__staged *const *)a, *y = *(struct tide__staged *const *)b;
    if (x->key != y->key) {
        return x->key < y->key ? -1 : 1;
    }
    if (x->stamp != y->stamp) {
        return x->stamp < y->stamp ? -1 : 1;
    }
    if (x->worker != y->worker) {
        return x->worker < y->worker ? -1 : 1;
    }
    return (x->node > y->node) - (x->node < y->node);
}

/* Contributions to one row in one clock, in order: summed, then the rule once. */
static void commit_row(struct tide__clocked *c, struct tide__staged **first, size_t count) {
    const struct tide_table_options sum = {.update = c->table->options.update == TIDE_UPDATE_ASSIGN ? TIDE_UPDATE_ASSIGN
                                                                                                    : TIDE_UPDATE_ADD,
                                           .width = c->table->width};
    for (size_t i = 1; i < count; i++) {
        tide__rule_apply(&sum, first[0]->row, first[i]->row);
    }
    if (tide__home_apply(c, first[0]->key, first[0]->row, first[0]->stamp, 0)) {
        tide_log(TIDE_LOG_ERROR, tide_node_name(c->table->store->node), "a clock's update of table '%s' is lost: %s",
                 c->table->name, tide_error_message());
    }
}

void tide__staged_commit(struct tide__clocked *c) {
    /* Eight bytes beside each contribution. */
    struct tide__staged **ripe = tide_alloc_vital((c->staged_count + 1) * sizeof(struct tide__staged *));
    size_t count = 0;
    for (struct tide__staged **at = &c->staged; *at;) {
        struct tide__staged *s = *at;
        const uint32_t slot = tide__slot_of(c->table, s->key);
        if (s->stamp >= tide__slot_clock(c, slot) || !tide__slot_here(c, slot)) {
            at = &s->next;
            continue;
        }
        *at = s->next;
        ripe[count++] = s;
    }
    c->staged_count -= count;
    qsort(ripe, count, sizeof(struct tide__staged *), in_order);
    for (size_t i = 0; i < count;) {
        size_t same = 1;
        while (i + same < count && ripe[i + same]->key == ripe[i]->key && ripe[i + same]->stamp == ripe[i]->stamp) {
            same++;
        }
        commit_row(c, ripe + i, same);
        i += same;
    }
    for (size_t i = 0; i < count; i++) {
        tide_free(ripe[i]);
    }
    tide_free(ripe);
}

bool tide__staged_below(const struct tide__clocked *c, uint32_t clock) {
    const struct tide__staged *s = c->staged;
    while (s && s->stamp >= clock) {
        s = s->next;
    }
    return s;
}

/* The node is gone: what it did not close goes with it. */
void tide__staged_drop(struct tide__clocked *c, uint16_t node) {
    for (struct tide__staged **at = &c->staged; *at;) {
        struct tide__staged *s = *at;
        const struct tide__tick_forward *forward = tide__tick_forward(c, tide__slot_of(c->table, s->key), node, false);
        const struct tide__party *peer = tide__party(c->sync, node);
        uint32_t tick = forward ? forward->tick : peer ? peer->tick : 0;
        if (s->node == node && s->stamp >= tick) {
            *at = s->next;
            tide_free(s);
            c->staged_count--;
        } else {
            at = &s->next;
        }
    }
}

void tide__staged_depart(struct tide__clocked *c, uint32_t slot, uint16_t to) {
    for (struct tide__staged **at = &c->staged; *at;) {
        struct tide__staged *s = *at;
        if (tide__slot_of(c->table, s->key) != slot) {
            at = &s->next;
            continue;
        }
        *at = s->next;
        c->staged_count--;
        contribution_send(c, to, s->node, s->stamp, s->worker, &s->key, s->row, 1);
        tide_free(s);
    }
}

void tide__staged_free(struct tide__clocked *c) {
    for (struct tide__staged **list = &c->staged; list; list = list == &c->staged ? &c->late : NULL) {
        while (*list) {
            struct tide__staged *next = (*list)->next;
            tide_free(*list);
            *list = next;
        }
    }
}
