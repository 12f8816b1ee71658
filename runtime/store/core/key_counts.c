/* Sampled counters of the keys that a node's workers access most; see key_counts.h. */
#include "store/core/key_counts.h"
#include "store/core/table.h"
#include "tide/stats.h"

#include <stdlib.h>

_Static_assert((int)TIDE__HEAT_THREADS == (int)TIDE__STRIPES, "threads are told apart by their stripe");

enum { COUNTERS = TIDE__HEAT_SETS * TIDE__HEAT_WAYS };

/* Distance to the next sample, 1 to 2 TIDE__HEAT_ONE_IN - 1, on average TIDE__HEAT_ONE_IN. */
static uint64_t distance(struct tide__heat_thread *t) {
    uint64_t draw = atomic_load_explicit(&t->draws, memory_order_relaxed) + 1;
    atomic_store_explicit(&t->draws, draw, memory_order_relaxed);
    return 1 + ((tide_mix64(draw * UINT64_C(0x9e3779b97f4a7c15)) >> 32) * (2 * TIDE__HEAT_ONE_IN - 1) >> 32);
}

struct tide__heat *tide__heat_create(void) {
    struct tide__heat *heat = tide_alloc_aligned(_Alignof(struct tide__heat), sizeof *heat);
    if (heat) {
        memset(heat, 0, sizeof *heat);
        for (size_t i = 0; i < TIDE__HEAT_THREADS; i++) {
            atomic_init(&heat->threads[i].skip, distance(&heat->threads[i]) - 1);
        }
    }
    return heat;
}

void tide__heat_destroy(struct tide__heat *heat) {
    tide_free(heat);
}

static uint64_t weight(const struct tide__heat_counter *c) {
    return (uint64_t)c->reads + c->writes + c->doubt;
}

/* Lock held. */
static void halve(struct tide__heat *heat) {
    heat->samples /= 2;
    for (size_t s = 0; s < TIDE__HEAT_SETS; s++) {
        for (size_t w = 0; w < TIDE__HEAT_WAYS; w++) {
            struct tide__heat_counter *c = &heat->sets[s][w];
            c->reads /= 2;
            c->writes /= 2;
            c->doubt /= 2;
        }
    }
}

void tide__heat_note(struct tide__heat *heat, uint64_t key, bool write) {
    struct tide__heat_counter *set = heat->sets[tide_mix64(key) % TIDE__HEAT_SETS];
    tide_lock(&heat->lock);
    struct tide__heat_counter *c = set;
    for (size_t w = 0; w < TIDE__HEAT_WAYS; w++) {
        if (set[w].key == key && weight(&set[w]) > 0) {
            c = &set[w];
            break;
        }
        c = weight(&set[w]) < weight(c) ? &set[w] : c;
    }
    if (c->key != key || weight(c) == 0) {
        *c = (struct tide__heat_counter){.key = key, .doubt = (uint32_t)weight(c)};
    }
    *(write ? &c->writes : &c->reads) += 1;
    if (++heat->samples % TIDE__HEAT_HALVE == 0) {
        halve(heat);
    }
    tide_unlock(&heat->lock);
}

void tide__heat_sample(struct tide__heat *heat, unsigned thread, const uint64_t *keys, size_t count, bool write) {
    struct tide__heat_thread *t = &heat->threads[thread];
    uint64_t at = atomic_load_explicit(&t->skip, memory_order_relaxed);
    for (; at < count; at += distance(t)) {
        tide__heat_note(heat, keys[at], write);
    }
    atomic_store_explicit(&t->skip, at - count, memory_order_relaxed);
}

/* Most first; equal ones by key, so that every node and run lists them alike. */
static int hotter(const void *a, const void *b) {
    const struct tide_hot_key *x = a, *y = b;
    const uint64_t of_x = x->reads + x->writes, of_y = y->reads + y->writes;
    if (of_x != of_y) {
        return of_x > of_y ? -1 : 1;
    }
    return (x->key > y->key) - (x->key < y->key);
}

size_t tide__heat_top(struct tide__heat *heat, struct tide_hot_key *out, size_t limit, uint64_t *total) {
    struct tide_hot_key *all = tide_alloc(COUNTERS * sizeof *all);
    size_t count = 0;
    *total = 0;
    if (!all) {
        return 0;
    }
    tide_lock(&heat->lock);
    for (size_t i = 0; i < COUNTERS; i++) {
        const struct tide__heat_counter *c = &heat->sets[i / TIDE__HEAT_WAYS][i % TIDE__HEAT_WAYS];
        if (c->reads + c->writes > 0) {
            all[count++] = (struct tide_hot_key){.key = c->key,
                                                 .reads = (uint64_t)c->reads * TIDE__HEAT_ONE_IN,
                                                 .writes = (uint64_t)c->writes * TIDE__HEAT_ONE_IN,
                                                 .doubt = (uint64_t)c->doubt * TIDE__HEAT_ONE_IN};
        }
    }
    *total = heat->samples * TIDE__HEAT_ONE_IN;
    tide_unlock(&heat->lock);
    qsort(all, count, sizeof *all, hotter);
    count = count < limit ? count : limit;
    memcpy(out, all, count * sizeof *out);
    tide_free(all);
    return count;
}

size_t tide_table_hottest(struct tide_table *table, struct tide_hot_key *out, size_t limit, uint64_t *total) {
    return tide__heat_top(table->heat, out, limit, total);
}
