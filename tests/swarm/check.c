/*
 * Checks of what workers saw. One-hot rows: push j of a key adds 1 at coordinate j, so a pull shows
 * which pushes are in it. With a pull's set S and times as the workers' fibers saw them:
 *
 *   1  every push that had returned before the pull began is in S, and so is all that a pull showed
 *      which had returned before
 *   2  of two sets one contains the other
 *   3  a push that began after the pull had returned is not in S
 *   4  if push a had returned before push b began, S has a if it has b
 *   5  of its own worker's pushes S has exactly those issued before it; of another's it has no
 *      later one without the earlier
 *   6  the last pulls, of every node, show the same; each push that returned well is there
 *
 * 1 to 4 are linearizability of a row whose operations are "add this element" and "read the set".
 * What failed may have happened, at any time, or not. Of shared keys, which nodes read in copies,
 * 3, 5 and 6 hold alone, as long as no update of a copy met a node that died.
 *
 * Durability window: a push that returned well may be gone when a node died, if its origin was told
 * of as many. What is gone, and what was in flight when a node died, counts for nothing in 1 to 5:
 * pulls may have shown it before.
 */
#include "store/core/table.h"
#include "world.h"
#include "tide/stats.h"

#include <stdlib.h>

enum { COORDINATES = 64 }; /* of a one-hot row, at most */

void history_add(struct world *w, struct table *table, const struct operation *operation,
                 size_t *index) {
    struct history *h = &table->history;
    if (h->count == h->room) {
        size_t room = h->room > 0 ? 2 * h->room : 1024;
        enum tide_memory_use use = tide__memory_swap(TIDE_MEMORY_TOOL);
        void *grown = tide_realloc(h->list, room * sizeof *h->list);
        tide__memory_swap(use);
        TIDE_ASSERT(grown != NULL);
        h->list = grown;
        h->room = room;
    }
    w->report->operations++;
    *index = h->count;
    h->list[h->count++] = *operation;
}

static int by_key(const void *a, const void *b) {
    const struct operation *x = a, *y = b;
    if (x->key != y->key) {
        return x->key < y->key ? -1 : 1;
    }
    return x->invoked != y->invoked
               ? (x->invoked < y->invoked ? -1 : 1)
               : (x->worker != y->worker ? (x->worker < y->worker ? -1 : 1)
                                         : (x->step > y->step) - (x->step < y->step));
}

static void accuse(struct world *w, const struct table *table, const char *checker,
                   const char *what, const struct operation *a, const struct operation *b) {
    swarm_fail(w, checker,
               "table %s key %u: %s\n  worker %u step %u, %.6f..%.6f s, %s %d set %016llx\n"
               "  worker %u step %u, %.6f..%.6f s, %s %d set %016llx",
               table->name, a->key, what, a->worker, a->step, (double)a->invoked / 1e9,
               a->returned == TIDE_NEVER ? 1e9 : (double)a->returned / 1e9,
               a->push < 0 ? "pull" : "push", a->push, (unsigned long long)a->set, b->worker,
               b->step, (double)b->invoked / 1e9,
               b->returned == TIDE_NEVER ? 1e9 : (double)b->returned / 1e9,
               b->push < 0 ? "pull" : "push", b->push, (unsigned long long)b->set);
}

static uint64_t bit_of(const struct operation *push) {
    return UINT64_C(1) << push->push;
}

static bool is_seen(const struct operation *o) { /* a pull that shows something */
    return o->push < 0 && o->ok;
}

/* ---- a pull and a push ---- */

static void check_push(struct world *w, const struct table *table, const struct operation *pull,
                       const struct operation *push) {
    const bool has = (pull->set & bit_of(push)) != 0;
    if (!table->shared && !has && push->ok && push->returned < pull->invoked) {
        accuse(w, table, "linearizable", "a pull misses a push that had returned before", pull,
               push);
    }
    if (has && push->invoked > pull->returned) {
        accuse(w, table, "linearizable", "a pull has a push that began after it", pull, push);
    }
    if (push->worker != pull->worker) {
        return;
    }
    if (push->step < pull->step && push->ok && !has &&
        (!table->shared || is_vouched(w->workers[push->worker], table))) {
        accuse(w, table, "order", "a worker does not read its own push", pull, push);
    }
    if (push->step > pull->step && has) {
        accuse(w, table, "order", "a pull has a later push of its own worker", pull, push);
    }
}

static bool is_issued_before(const struct world *w, const struct table *table,
                             const struct operation *a, const struct operation *b) {
    return a->worker == b->worker && a->step < b->step &&
           (!table->shared || is_vouched(w->workers[a->worker], table));
}

/* Pushes a before b, in time or by their worker: no set has b without a. */
static void check_precedence(struct world *w, const struct table *table,
                             const struct operation *list, size_t count,
                             const struct operation *const pushes[COORDINATES]) {
    uint64_t needs[COORDINATES] = {0}; /* of each push: those before it */
    for (unsigned b = 0; b < COORDINATES; b++) {
        for (unsigned a = 0; a < COORDINATES && pushes[b] != NULL; a++) {
            const bool before = pushes[a] != NULL && pushes[a]->ok &&
                                ((!table->shared && pushes[a]->returned < pushes[b]->invoked) ||
                                 is_issued_before(w, table, pushes[a], pushes[b]));
            needs[b] |= before ? UINT64_C(1) << a : 0;
        }
    }
    for (size_t i = 0; i < count; i++) {
        for (uint64_t left = is_seen(&list[i]) ? list[i].set : 0; left != 0; left &= left - 1) {
            const unsigned b = (unsigned)__builtin_ctzll(left);
            const uint64_t missing = needs[b] & ~list[i].set;
            if (missing != 0) {
                const struct operation *a = pushes[__builtin_ctzll(missing)];
                accuse(w, table,
                       is_issued_before(w, table, a, pushes[b]) ? "order" : "linearizable",
                       "a pull has a push but not one before it", &list[i], a);
            }
        }
    }
}

/* ---- two pulls ---- */

static void accuse_pulls(struct world *w, const struct table *table, const struct operation *a,
                         const struct operation *b) {
    accuse(w, table, "linearizable", "two pulls saw pushes in different orders", a, b);
}

/* Of two sets one contains the other: those of one size are equal, each is in the next larger. */
static void check_chain(struct world *w, const struct table *table, const struct operation *list,
                        size_t count) {
    const struct operation *of_size[COORDINATES + 1] = {NULL}, *smaller = NULL;
    for (size_t i = 0; i < count; i++) {
        const struct operation **one = &of_size[__builtin_popcountll(list[i].set)];
        if (is_seen(&list[i]) && *one != NULL && (*one)->set != list[i].set) {
            accuse_pulls(w, table, &list[i], *one);
        }
        *one = is_seen(&list[i]) ? &list[i] : *one;
    }
    for (unsigned size = 0; size <= COORDINATES; size++) {
        if (smaller != NULL && of_size[size] != NULL && (smaller->set & ~of_size[size]->set) != 0) {
            accuse_pulls(w, table, of_size[size], smaller);
        }
        smaller = of_size[size] != NULL ? of_size[size] : smaller;
    }
}

static int by_return(const void *a, const void *b) {
    const struct operation *x = *(const struct operation *const *)a,
                           *y = *(const struct operation *const *)b;
    return (x->returned > y->returned) - (x->returned < y->returned);
}

/* A pull has what those showed that had returned before it. The list is in the order in which they
 * began. */
static void check_earlier(struct world *w, const struct table *table, const struct operation *list,
                          size_t count) {
    const struct operation **pulls = tide_alloc((count + 1) * sizeof(struct operation *));
    size_t pull_count = 0, next = 0;
    uint64_t shown = 0;
    TIDE_ASSERT(pulls != NULL);
    for (size_t i = 0; i < count; i++) {
        pulls[pull_count] = &list[i];
        pull_count += is_seen(&list[i]);
    }
    qsort(pulls, pull_count, sizeof(struct operation *), by_return);
    for (size_t i = 0; i < count && !w->report->failed; i++) {
        for (; next < pull_count && pulls[next]->returned < list[i].invoked; next++) {
            shown |= pulls[next]->set;
        }
        for (size_t k = 0; is_seen(&list[i]) && (shown & ~list[i].set) != 0 && k < next; k++) {
            if ((pulls[k]->set & ~list[i].set) != 0) {
                accuse(w, table, "linearizable", "a pull misses what an earlier one saw", &list[i],
                       pulls[k]);
            }
        }
    }
    tide_free(pulls);
}

/* ---- all of a key ---- */

static bool spans_a_death(const struct world *w, const struct operation *push) {
    bool spans = false;
    for (unsigned i = 0; i < w->node_count && !spans; i++) {
        const struct node *n = w->nodes[i];
        spans = n->lost && push->invoked <= n->lost_at && push->returned >= n->lost_at;
    }
    return spans;
}

/* Takes what counts for nothing out of the operations of a key; `gone`: pushes of each node that
 * returned well and are not there. How many are left. */
static size_t forgive(const struct world *w, const struct table *table, struct operation *list,
                      size_t count, uint32_t *gone) {
    const uint64_t set = table->rest[list[0].key];
    uint64_t nothing = 0;
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        const bool push = list[i].push >= 0;
        const bool is_gone = push && list[i].ok && !(set & bit_of(&list[i]));
        for (unsigned n = 0; is_gone && n < w->node_count; n++) {
            gone[n] += w->nodes[n] == w->workers[list[i].worker]->node;
        }
        if (is_gone || (push && spans_a_death(w, &list[i]))) {
            nothing |= bit_of(&list[i]);
        } else {
            list[kept++] = list[i];
        }
    }
    for (size_t i = 0; i < kept; i++) {
        list[i].set &= ~nothing;
    }
    return kept;
}

static void check_told(struct world *w, unsigned t, const uint32_t *gone) {
    for (unsigned n = 0; n < w->node_count; n++) {
        const struct node *node = w->nodes[n];
        struct tide_table *table;
        struct tide_table_stats stats = {0};
        if (node->state != NODE_UP || tide_table_find(node->node, w->tables[t].name, &table)) {
            continue;
        }
        tide_table_stats(table, &stats);
        if (gone[n] > stats.lost_updates) {
            swarm_fail(w, "window",
                       "%u pushes of %s to %s that had returned are gone, %llu were told", gone[n],
                       node->name, w->tables[t].name, (unsigned long long)stats.lost_updates);
        }
    }
}

static void check_key(struct world *w, struct table *table, const struct operation *list,
                      size_t count) {
    const struct operation *pushes[COORDINATES] = {NULL};
    for (size_t i = 0; i < count; i++) {
        TIDE_ASSERT(list[i].push < COORDINATES);
        if (list[i].push >= 0) {
            pushes[list[i].push] = &list[i];
        }
    }
    for (size_t i = 0; i < count && !w->report->failed; i++) {
        for (unsigned p = 0; p < COORDINATES && is_seen(&list[i]); p++) {
            if (pushes[p] != NULL) {
                check_push(w, table, &list[i], pushes[p]);
            }
        }
    }
    check_precedence(w, table, list, count, pushes);
    if (!table->shared) {
        check_chain(w, table, list, count);
        check_earlier(w, table, list, count);
    }
}

static void check_table(struct world *w, struct table *table, uint32_t *gone) {
    struct history *h = &table->history;
    if (h->count > 0) {
        qsort(h->list, h->count, sizeof *h->list, by_key);
    }
    for (size_t i = 0, n; i < h->count && !w->report->failed; i += n) {
        for (n = 1; i + n < h->count && h->list[i + n].key == h->list[i].key;) {
            n++;
        }
        check_key(w, table, h->list + i, table->rest ? forgive(w, table, h->list + i, n, gone) : n);
    }
}

static bool has_window(const struct table *table) {
    return table->options.durability == TIDE_DURABLE_WINDOW;
}

void check_histories(struct world *w) {
    for (unsigned t = 0; t < w->table_count; t++) {
        if (!has_window(&w->tables[t])) {
            check_table(w, &w->tables[t], NULL);
        }
    }
}

void check_windows(struct world *w) {
    for (unsigned t = 0; t < w->table_count; t++) {
        uint32_t gone[NODES_MAX] = {0};
        if (has_window(&w->tables[t])) {
            check_table(w, &w->tables[t], gone);
            check_told(w, t, gone);
        }
    }
}

/* Casts between nodes that lived to the end arrive, all of them. That they come in order and once
 * is checked by who hears them. */
void check_messages(struct world *w) {
    for (unsigned i = 0; i < w->worker_count; i++) {
        const struct worker *from = w->workers[i];
        for (unsigned n = 0; n < w->node_count; n++) {
            const struct node *to = w->nodes[n];
            for (unsigned lane = 0; lane < LANES; lane++) {
                if (to->state == NODE_UP && from->node->state == NODE_UP &&
                    to->echo->heard[i][lane] != from->sent[n][lane]) {
                    swarm_fail(w, "exactly_once",
                               "of %u casts of worker %u (%s) to %s %u have come",
                               from->sent[n][lane], i, from->node->name, to->name,
                               to->echo->heard[i][lane]);
                }
            }
        }
    }
}
