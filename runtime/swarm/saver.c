/*
 * Checkpoints while everything happens, on a disk that all nodes share and that fails now and then:
 * writing, syncing, for want of room. A generation that could not be written is an answer, one that
 * counts is a promise. At rest the disk loses what was never synced, as in a power failure, and
 * the newest generation is brought back: it is no older than the newest that was said to count, and
 * has every push that had returned when it was begun, and none that nobody made.
 */
#include "swarm/world.h"

#include <math.h>

static const char place[] = "/shared", directory[] = "/shared/checkpoints";

struct saver {
    uint64_t generation; /* the newest that counts; 0: none */
    uint64_t began;      /* when it was */
    unsigned counted, failed;
    bool ended, restored;
    struct tide_random random;
};

bool saves(const struct world *w) {
    return option(w, SWARM_CHECKPOINT_S) > 0;
}

void saver_init(struct world *w) {
    if (saves(w)) {
        w->saver = tide_alloc_zero(1, sizeof *w->saver);
        TIDE_ASSERT(w->saver != NULL);
        tide_random_seed(&w->saver->random, tide_mix64(w->options.seed ^ 0x5a7e));
        tide_sim_share(w->sim, place);
    }
}

void saver_release(struct world *w) {
    tide_free(w->saver);
}

static void set_disk(struct world *w, double errors, uint64_t capacity) {
    const struct tide_sim_disk disk = {
        .write_error = errors, .sync_error = errors, .capacity = capacity};
    tide_sim_set_disk(w->sim, place, &disk);
}

void saver_heal(struct world *w) {
    if (saves(w)) {
        set_disk(w, 0, 0);
    }
}

static bool is_answer(int code) {
    return code == TIDE_EIO || code == TIDE_ENOSPC || code == TIDE_EBUSY || code == TIDE_EDIED ||
           code == TIDE_EUNREACHABLE || code == TIDE_ETIMEDOUT || code == TIDE_ECLOSED ||
           code == TIDE_ENOMEM;
}

static void save(struct world *w, struct tide_node *node) {
    struct saver *s = w->saver;
    struct tide_checkpoint *checkpoint;
    const struct tide_checkpoint_options o = {
        .dir = directory, .cut = TIDE_CUT_FUZZY, .keep = 3, .full_every = 4};
    const uint64_t began = tide_sim_now(w->sim);
    uint64_t generation = 0;
    int code = tide_checkpoint_start(node, &o, &checkpoint);
    if (code == 0) {
        generation = tide_checkpoint_get(checkpoint)->generation;
        code = tide_checkpoint_commit(checkpoint, NULL, 0);
    }
    if (code == 0) {
        s->generation = generation;
        s->began = began;
        s->counted++;
    } else if (is_answer(code)) {
        s->failed++;
    } else {
        swarm_fail(w, "checkpoint", "writing a generation: %s %s", tide_error_name(code),
                   tide_error_message());
    }
}

static int saver_main(void *state) {
    struct world *w = state;
    struct tide_random *random = &w->saver->random;
    while (!w->healing && !w->stopping && !w->report->failed) {
        double rest = -log1p(-tide_random_uniform(random)) * option(w, SWARM_CHECKPOINT_S);
        (void)tide_sleep((uint64_t)(rest * 1e9));
        const bool good = chance(random, 0.3);
        const uint64_t room = chance(random, 0.8) ? 0 : between(random, 1 << 10, 1 << 20);
        if (!w->healing) {
            set_disk(w, good ? 0 : option(w, SWARM_DISK), good ? 0 : room);
        }
        save(w, w->nodes[0]->node);
    }
    w->saver->ended = true;
    return 0;
}

bool saver_ended(const struct world *w) {
    return !saves(w) || w->saver->ended;
}

static void spawn(struct world *w, int (*run)(void *)) {
    struct tide_actor_options o = {
        .type = "saver", .run = run, .state = w, .role = TIDE_ROLE_COMPUTE};
    if (tide_spawn(w->nodes[0]->node, &o, NULL) < 0) {
        swarm_fail(w, "world", "no fiber: %s", tide_error_message());
    }
}

void saver_start(struct world *w) {
    if (saves(w)) {
        spawn(w, saver_main);
    }
}

/* ---- at rest ---- */

static void compare(struct world *w, struct table *table, struct tide_table *handle) {
    float row[COUNTING_MAX];
    for (size_t i = 0; i < table->history.count; i++) {
        const struct operation *o = &table->history.list[i];
        const uint64_t key = key_of(table, o->key);
        if (o->push < 0 || w->report->failed) {
            continue;
        }
        int code = tide_table_pull(handle, &key, 1, row, NULL);
        const bool has = code == 0 && row[o->push] == 1;
        if (code < 0) {
            swarm_fail(w, "checkpoint", "restored, table %s key %u: %s %s", table->name, o->key,
                       tide_error_name(code), tide_error_message());
        } else if (!has && row[o->push] != 0) {
            swarm_fail(w, "checkpoint", "restored, table %s key %u: coordinate %d is %g",
                       table->name, o->key, o->push, (double)row[o->push]);
        } else if (!has && o->ok && o->returned < w->saver->began) {
            swarm_fail(w, "checkpoint",
                       "table %s key %u: push %d of worker %u returned at %.6f s and is not in "
                       "the generation that was begun at %.6f s",
                       table->name, o->key, o->push, o->worker, (double)o->returned / 1e9,
                       (double)w->saver->began / 1e9);
        }
    }
}

static int restore_main(void *state) {
    struct world *w = state;
    struct tide_node *node = w->nodes[0]->node;
    struct tide_restored restored;
    int code = tide_checkpoint_restore(node, directory, 0, &restored);
    if (code < 0) {
        swarm_fail(w, "checkpoint", "generation %llu counted and cannot be restored: %s %s",
                   (unsigned long long)w->saver->generation, tide_error_name(code),
                   tide_error_message());
    } else if (restored.info.generation < w->saver->generation) {
        swarm_fail(w, "checkpoint", "generation %llu counted and %llu is restored: %s",
                   (unsigned long long)w->saver->generation,
                   (unsigned long long)restored.info.generation, restored.skipped);
    }
    if (code == 0) {
        tide_restored_release(&restored);
    }
    for (unsigned t = 0; t < w->table_count && !w->report->failed; t++) {
        struct tide_table *handle;
        if (!w->tables[t].counts && tide_table_find(node, w->tables[t].name, &handle) == 0) {
            compare(w, &w->tables[t], handle);
        }
    }
    w->saver->restored = true;
    return 0;
}

bool saver_restored(struct world *w) {
    return w->saver->restored;
}

/* False: nothing was saved, and so nothing is brought back. */
bool saver_restore(struct world *w) {
    if (!saves(w) || w->saver->generation == 0) {
        return false;
    }
    tide_sim_crash(w->sim, place); /* of the disk alone: what was not synced may be gone */
    spawn(w, restore_main);
    return true;
}
