/*
 * Tables whose keys have copies on the nodes that use them (store/adaptive/hot_keys.h): all techniques, which
 * workers change while they work, and intents.
 *
 * What holds of them is less than of other rows: a worker sees its own pushes at once, those of
 * others at some time; nobody sees what was not pushed. At rest all copies are what the owner has,
 * every push that returned is there, and nothing is sent. What a node that dies had not sent is
 * lost. If an update was in flight to a node that died, nobody knows whether it was applied: its
 * node counts it, and what its workers pushed is judged no further.
 */
#include "store/core/technique.h"
#include "world.h"
#include "tide/clock.h"
#include "tide/placement.h"
#include "tide/stats.h"

static const uint64_t stillness = 3 * TIDE_SECOND;

void shared_table(const struct world *w, struct table *table, unsigned index) {
    static const uint8_t techniques[] = {TIDE_REPLICATE, TIDE_INTENT, TIDE_INTENT, TIDE_RELOCATE,
                                         TIDE_STATIC};
    struct tide_random random;
    tide_random_seed(&random, tide_mix64(w->options.seed ^ (0x5a4ed + index)));
    if (chance(&random, option(w, SWARM_SHARED))) {
        table->shared = true;
        table->options.technique = techniques[tide_random_below(&random, TIDE_COUNT(techniques))];
        table->options.replicas = 0;
    }
}

bool any_shared(const struct world *w) {
    return option(w, SWARM_SHARED) > 0;
}

bool any_intends(const struct world *w) {
    return any_shared(w) || option(w, SWARM_TIER) > 0;
}

/* ---- what workers do ---- */

void shared_begin(struct worker *worker) {
    if (tide_worker_begin(worker->node->node, worker->index, 0) < 0) {
        swarm_fail(worker->world, "world", "worker %u has no clock: %s", worker->index,
                   tide_error_message());
    }
}

void shared_clocks(struct worker *worker, unsigned count) {
    int code = 0;
    for (unsigned i = 0; i < count && code >= 0; i++) {
        code = tide_clock();
    }
    if (code < 0 && worker->node->state == NODE_UP) {
        swarm_fail(worker->world, "answers", "worker %u (%s): its clock failed: %s", worker->index,
                   worker->node->name, tide_error_message());
    }
}

int shared_manage(struct worker *worker, struct tide_table *table, const uint64_t *keys,
                  size_t count) {
    static const uint32_t rates[] = {0, 0, 10, 2000};
    struct tide_random *random = &worker->random;
    const uint8_t usual = table->options.technique;
    const uint8_t technique = chance(random, 0.6)   ? TIDE_REPLICATE
                              : chance(random, 0.8) ? usual
                                                    : TIDE_STATIC;
    const bool here_alone = chance(random, 0.2);
    const struct tide_share_options options = {
        .nodes = &worker->node->id,
        .node_count = here_alone && worker->node->id != 0,
        .rate = rates[tide_random_below(random, TIDE_COUNT(rates))],
        .threshold = chance(random, 0.2) ? 1.5f : 0};
    return tide_table_manage(table, keys, count, technique, &options);
}

int shared_intent(struct worker *worker, struct tide_table *table, const uint64_t *keys,
                  size_t count) {
    const uint32_t now = (uint32_t)tide_worker_clock();
    const uint32_t from = now + (uint32_t)tide_random_below(&worker->random, INTENT_CLOCKS - 3);
    return tide_table_intent(table, keys, count, from,
                             from + 1 + (uint32_t)tide_random_below(&worker->random, 3));
}

/* ---- what may be missing ---- */

static bool forgot(const struct node *node, const struct table *table) {
    struct tide_table *handle;
    struct tide_share_stats stats = {0};
    if (node->node != NULL && tide_table_find(node->node, table->name, &handle) == 0) {
        tide_table_share_stats(handle, &stats);
    }
    return stats.updates_failed > 0;
}

void shared_forget(struct node *node) {
    const struct world *w = node->world;
    for (unsigned t = 0; t < w->table_count; t++) {
        node->forgot[t] = node->lost || forgot(node, &w->tables[t]);
    }
}

bool is_vouched(const struct worker *worker, const struct table *table) {
    const struct node *node = worker->node;
    const size_t t = (size_t)(table - node->world->tables);
    return !node->forgot[t] && !forgot(node, table);
}

/* ---- rest ---- */

struct seen { /* at the records of a node */
    const struct node *node;
    const struct table *table;
    unsigned copies, unsettled;
    uint64_t key; /* of one that is not settled */
};

static void see_record(struct tide__hot_table *s, struct tide__hot_key *k, uint64_t key,
                       void *arg) {
    struct seen *seen = arg;
    const struct tide__copy_record *copy = tide__hot_copy(k);
    (void)s;
    seen->copies += k->state != TIDE__COPY_NONE;
    if (k->state == TIDE__COPY_COMING || k->listed || k->queued != NULL || k->unseen_ns != 0 ||
        k->unsent_ns != 0 || copy->dirty || copy->sent_count > 0 || k->ends) {
        seen->unsettled++;
        seen->key = key;
    }
}

bool shared_quiet(const struct node *node, struct tide_table *table, char *why, size_t size) {
    struct tide__hot_table *s = tide__hot_of(table);
    struct seen seen = {.node = node};
    if (s == NULL) {
        return true;
    }
    tide__hot_each(s, see_record, &seen);
    if (seen.unsettled > 0) {
        (void)snprintf(why, size, "%s: %u copies of %s are not settled, as that of key %llu",
                       node->name, seen.unsettled, table->name, (unsigned long long)seen.key);
        return false;
    }
    if (atomic_load(&s->awake) || s->in_round || s->flush_wanted != s->flush_done) {
        (void)snprintf(why, size, "%s has a round of copies of %s to do", node->name, table->name);
        return false;
    }
    return true;
}

/* The node that has the row, and the row; NULL: nobody has one. */
static const float *row_of(const struct world *w, const struct table *table, uint64_t key,
                           const struct node **owner) {
    for (unsigned i = 0; i < w->node_count; i++) {
        const struct node *n = w->nodes[i];
        const float *row = n->state == NODE_UP ? row_at(table, n, key) : NULL;
        if (row != NULL) {
            *owner = n;
            return row;
        }
    }
    return NULL;
}

static void check_copy(const struct seen *seen, struct tide__hot_key *k, uint64_t key) {
    struct world *w = seen->node->world;
    const struct table *table = seen->table;
    const struct node *owner = NULL;
    static const float nothing[COUNTING_MAX]; /* a row that was never pushed to */
    const float *row = row_of(w, table, key, &owner),
                *copy = tide__copy_record_value(tide__hot_copy(k));
    if (owner == seen->node) {
        swarm_fail(w, "copies", "table %s key %llu: %s has a copy beside the row itself",
                   table->name, (unsigned long long)key, seen->node->name);
    }
    if (memcmp(copy, row ? row : nothing, table->options.width * sizeof *copy) != 0) {
        swarm_fail(w, "copies", "table %s key %llu: the copy at %s differs from the row at %s",
                   table->name, (unsigned long long)key, seen->node->name,
                   owner ? owner->name : "its home, which has none");
    }
}

static void check_record(struct tide__hot_table *s, struct tide__hot_key *k, uint64_t key,
                         void *arg) {
    struct seen *seen = arg;
    struct world *w = seen->node->world;
    const uint8_t technique = k->technique ? k->technique - 1 : seen->table->options.technique;
    see_record(s, k, key, arg);
    if (k->state == TIDE__COPY_HELD) {
        check_copy(seen, k, key);
    }
    /* Nobody intends anything any more. */
    if (k->state != TIDE__COPY_NONE && technique != TIDE_REPLICATE) {
        swarm_fail(w, "copies", "table %s key %llu: the copy at %s is left over", seen->table->name,
                   (unsigned long long)key, seen->node->name);
    }
    if (k->state == TIDE__COPY_NONE && !k->technique && !k->wanted) {
        swarm_fail(w, "memory", "table %s key %llu: %s remembers it for nothing", seen->table->name,
                   (unsigned long long)key, seen->node->name);
    }
}

void check_shared(struct world *w) {
    for (unsigned i = 0; i < w->node_count; i++) {
        const struct node *n = w->nodes[i];
        for (unsigned t = 0; t < w->table_count && n->state == NODE_UP; t++) {
            struct tide_table *handle;
            struct seen seen = {.node = n, .table = &w->tables[t]};
            struct tide__hot_table *s = tide_table_find(n->node, seen.table->name, &handle) == 0
                                         ? tide__hot_of(handle)
                                         : NULL;
            if (s == NULL) {
                continue;
            }
            tide__hot_each(s, check_record, &seen);
            if (seen.copies != atomic_load(&s->held)) {
                swarm_fail(w, "memory", "%s has %u copies of %s and counts %u", n->name,
                           seen.copies, seen.table->name, atomic_load(&s->held));
            }
            if (w->report->lost_nodes == 0 && forgot(n, seen.table)) {
                swarm_fail(w, "exactly_once", "%s lost updates of %s, and no node has died",
                           n->name, seen.table->name);
            }
        }
    }
}

/* Messages of tables, and what copies cost; of all nodes. */
static uint64_t traffic(const struct world *w) {
    uint64_t sum = 0;
    for (unsigned i = 0; i < w->node_count; i++) {
        for (unsigned t = 0; t < w->table_count && w->nodes[i]->state == NODE_UP; t++) {
            struct tide_table *handle;
            struct tide_table_stats all;
            struct tide_share_stats shared;
            if (w->tables[t].shared &&
                tide_table_find(w->nodes[i]->node, w->tables[t].name, &handle) == 0) {
                tide_table_stats(handle, &all);
                tide_table_share_stats(handle, &shared);
                sum += all.messages_out + shared.updates_out + shared.rows_in + shared.notices_out;
            }
        }
    }
    return sum;
}

void check_stillness(struct world *w) {
    const uint64_t before = traffic(w);
    if (world_pass(w, stillness) && traffic(w) != before) {
        swarm_fail(w, "progress", "at rest %llu messages were sent for tables",
                   (unsigned long long)(traffic(w) - before));
    }
}
