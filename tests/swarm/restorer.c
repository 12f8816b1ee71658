/*
 * What checkpoints bring back. At rest the disk loses what was never synced, as in a power failure,
 * and the newest whole generation is brought back, whole meaning that no bit of it, or of those it
 * is built on, has changed. It is no older than the newest that was said to count, if that is
 * whole, and has every push that had returned when it was begun, and none that nobody made. Then a
 * bit of it changes: the one before is brought back, a few times over. At last each that was
 * damaged is found damaged.
 */
#include "store/checkpoint/checkpoint.h"
#include "world.h"

enum { ROUNDS = 3 };

/* ---- which it must be ---- */

/* 0: whole. ENOENT: it was never finished. */
static int examine(const struct world *w, uint64_t number) {
    struct tide__manifest m;
    const struct generation *own = saver_generation(w, number);
    if (own != NULL && own->flipped) {
        return TIDE_EPROTO;
    }
    int code = tide__generation_manifest(w->nodes[0]->port, saver_directory, number, &m);
    for (size_t i = 0; code == 0 && i < m.chain_count; i++) {
        const struct generation *below = saver_generation(w, m.chain[i]);
        code = below != NULL && below->flipped ? TIDE_EPROTO : 0;
    }
    tide__manifest_release(&m);
    return code;
}

/* 0: none. */
static uint64_t newest_whole(struct world *w) {
    const struct generation *promised = saver_generation(w, 0);
    uint64_t *numbers, found = 0;
    size_t count;
    if (tide__generation_list(w->nodes[0]->port, saver_directory, &numbers, &count) < 0) {
        count = 0;
        numbers = NULL;
    }
    for (size_t i = 0; i < count && found == 0; i++) {
        found = examine(w, numbers[i]) == 0 ? numbers[i] : 0;
    }
    tide_free(numbers);
    if (promised != NULL && !promised->flipped && found < promised->number) {
        const int code = examine(w, promised->number);
        if (code != TIDE_EPROTO) { /* what it is built on is damaged */
            swarm_fail(w, "checkpoint", "generation %llu counted and is not there: %s",
                       (unsigned long long)promised->number, tide_error_message());
        }
    }
    return found;
}

/* While everything continues, after the disk has crashed: the newest that counted is there, and every
 * byte of it, unless a bit of it was changed. */
void restorer_look(struct world *w) {
    const struct generation *promised = saver_generation(w, 0);
    struct tide__manifest m;
    int code = promised == NULL ? TIDE_EPROTO : examine(w, promised->number);
    if (code == TIDE_EPROTO) {
        return; /* there is none, or it is damaged */
    }
    code = code == 0 ? tide__generation_manifest(w->nodes[0]->port, saver_directory,
                                                 promised->number, &m)
                     : code;
    if (code == 0) {
        code = tide__generation_verify(w->nodes[0]->port, saver_directory, &m);
        tide__manifest_release(&m);
    }
    if (code < 0) {
        swarm_fail(w, "checkpoint", "generation %llu counted, and after a crash of the disk: %s %s",
                   (unsigned long long)promised->number, tide_error_name(code),
                   tide_error_message());
    }
}

/* ---- what is in it ---- */

static void compare_push(struct world *w, const struct generation *g, const struct table *table,
                         const struct operation *o, float value) {
    if (value != 1 && value != 0) {
        swarm_fail(w, "checkpoint", "restored, table %s key %u: coordinate %d is %g", table->name,
                   o->key, o->push, (double)value);
    } else if (value == 0 && o->ok && o->returned < g->began) {
        swarm_fail(w, "checkpoint",
                   "table %s key %u: push %d of worker %u returned at %.6f s and is not in "
                   "generation %llu, which was begun at %.6f s",
                   table->name, o->key, o->push, o->worker, (double)o->returned / 1e9,
                   (unsigned long long)g->number, (double)g->began / 1e9);
    }
}

/* The pushes from `from` on, of as many keys as are pulled together. Where to continue. */
static size_t compare_some(struct world *w, const struct generation *g, const struct table *table,
                           struct tide_table *handle, size_t from) {
    const struct operation *list = table->history.list;
    const uint32_t width = table->options.width;
    float *rows = tide_alloc((size_t)BATCH_MAX * width * sizeof *rows);
    uint64_t keys[BATCH_MAX];
    uint32_t count = 0, at = 0, last = 0;
    size_t end = from;
    TIDE_ASSERT(rows != NULL);
    for (; end < table->history.count; end++) {
        const bool fresh = list[end].push >= 0 && (count == 0 || list[end].key != last);
        if (fresh && count == BATCH_MAX) {
            break;
        }
        if (fresh) {
            last = list[end].key;
            keys[count++] = key_of(table, last);
        }
    }
    const int code = count > 0 ? tide_table_pull(handle, keys, count, rows, NULL) : 0;
    if (code < 0) {
        swarm_fail(w, "checkpoint", "restored, table %s, keys up to %u: %s %s", table->name, last,
                   tide_error_name(code), tide_error_message());
    }
    for (size_t i = from; i < end && code == 0; i++) {
        at += list[i].push >= 0 && key_of(table, list[i].key) != keys[at];
        if (list[i].push >= 0) {
            compare_push(w, g, table, &list[i], rows[(size_t)at * width + (size_t)list[i].push]);
        }
    }
    tide_free(rows);
    return end;
}

/* The history has the operations of a key together: check.c has sorted it. */
static void compare(struct world *w, const struct generation *g, const struct table *table,
                    struct tide_table *handle) {
    for (size_t at = 0; at < table->history.count && !w->report->failed;) {
        at = compare_some(w, g, table, handle, at);
    }
}

static void compare_all(struct world *w, const struct generation *g) {
    for (unsigned t = 0; t < w->table_count && !w->report->failed; t++) {
        struct tide_table *handle;
        if (!w->tables[t].counts &&
            tide_table_find(w->nodes[0]->node, w->tables[t].name, &handle) == 0) {
            compare(w, g, &w->tables[t], handle);
        }
    }
}

/* ---- bringing them back ---- */

/* False: there is none to go back to. */
static bool bring_back(struct world *w) {
    const uint64_t wanted = newest_whole(w);
    struct tide_restored restored;
    const int code = w->report->failed ? 0
                                       : tide_checkpoint_restore(w->nodes[0]->node, saver_directory,
                                                                 0, &restored);
    if (w->report->failed) {
        return false;
    }
    if (code < 0 && (wanted != 0 || code != TIDE_EPROTO)) {
        swarm_fail(w, "checkpoint", "generation %llu is whole and cannot be restored: %s %s",
                   (unsigned long long)wanted, tide_error_name(code), tide_error_message());
    } else if (code == 0 && restored.info.generation != wanted) {
        swarm_fail(w, "checkpoint",
                   "generation %llu is the newest that is whole, restored is %llu: %s",
                   (unsigned long long)wanted, (unsigned long long)restored.info.generation,
                   restored.skipped);
    } else if (code == 0) {
        TIDE_ASSERT(saver_generation(w, wanted) != NULL);
        compare_all(w, saver_generation(w, wanted));
    }
    if (code == 0) {
        tide_restored_release(&restored);
    }
    return code == 0 && !w->report->failed;
}

/* One of those that the newest whole one is built on, or itself. */
static void damage_newest(struct world *w) {
    const uint64_t newest = newest_whole(w);
    struct tide__manifest m;
    TIDE_ASSERT(tide__generation_manifest(w->nodes[0]->port, saver_directory, newest, &m) == 0);
    const uint64_t chosen = m.chain[tide_random_below(&w->random, m.chain_count)];
    tide__manifest_release(&m);
    TIDE_ASSERT(saver_damage(w, chosen));
}

/* Who looks at a generation alone finds it damaged if a bit of it has changed, and only then. */
static void find_damages(struct world *w) {
    struct tide_port *port = w->nodes[0]->port;
    uint64_t *numbers;
    size_t count;
    TIDE_ASSERT(tide__generation_list(port, saver_directory, &numbers, &count) == 0);
    for (size_t i = 0; i < count; i++) {
        const int is = examine(w, numbers[i]);
        struct tide__manifest m;
        int code = tide__generation_manifest(port, saver_directory, numbers[i], &m);
        if (code == 0) {
            code = tide__generation_verify(port, saver_directory, &m);
            tide__manifest_release(&m);
        }
        if (code == 0 && is == TIDE_EPROTO) {
            swarm_fail(w, "checkpoint", "a bit of generation %llu has changed, and nobody sees it",
                       (unsigned long long)numbers[i]);
        } else if (code != 0 && is == 0) {
            swarm_fail(w, "checkpoint",
                       "no bit of generation %llu has changed, and it is damaged: %s",
                       (unsigned long long)numbers[i], tide_error_message());
        }
    }
    tide_free(numbers);
}

static int restorer_main(void *state) {
    struct world *w = state;
    for (unsigned round = 0; round < ROUNDS && bring_back(w); round++) {
        damage_newest(w);
    }
    if (!w->report->failed) {
        find_damages(w);
    }
    w->restored = true;
    return 0;
}

bool restorer_start(struct world *w) {
    if (!saves(w) || saver_generation(w, 0) == NULL) {
        return false;
    }
    tide_sim_crash(w->sim, saver_place); /* of the disk alone: what was not synced may be gone */
    saver_spawn(w, restorer_main);
    return true;
}

bool restorer_ended(struct world *w) {
    return w->restored;
}
