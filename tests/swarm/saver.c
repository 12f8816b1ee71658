/*
 * Checkpoints while everything happens, on a disk that all nodes share and that fails now and then:
 * reading, writing, syncing, for want of room. It crashes within operations, and what was not
 * synced is found again, torn or lost; and bits change of what has long been written. A generation
 * that could not be written is an answer, one that counts is a promise (restorer.c).
 */
#include "store/checkpoint/checkpoint.h"
#include "world.h"

#include <math.h>

enum { ATTEMPTS_MAX = 512 };

const char saver_place[] = "/shared", saver_directory[] = "/shared/checkpoints";

struct saver {
    struct generation list[ATTEMPTS_MAX];
    unsigned count;
    unsigned crashes, looked; /* of the disk; and after so many it was looked at what it has */
    bool ended;
    struct tide_random random, damages;
};

bool saves(const struct world *w) {
    return option(w, SWARM_CHECKPOINT_S) > 0;
}

void saver_init(struct world *w) {
    if (saves(w)) {
        w->saver = tide_alloc_zero(1, sizeof *w->saver);
        TIDE_ASSERT(w->saver != NULL);
        tide_random_seed(&w->saver->random, tide_mix64(w->options.seed ^ 0x5a7e));
        tide_random_seed(&w->saver->damages, tide_mix64(w->options.seed ^ 0xda3a));
        tide_sim_share(w->sim, saver_place);
    }
}

void saver_release(struct world *w) {
    tide_free(w->saver);
}

static void set_disk(struct world *w, bool good, uint64_t capacity) {
    const double errors = option(w, SWARM_DISK);
    const struct tide_sim_disk bad = {.read_error = errors,
                                      .write_error = errors,
                                      .sync_error = errors,
                                      .crash = option(w, SWARM_DISK_CRASH),
                                      .capacity = capacity};
    tide_sim_set_disk(w->sim, saver_place, good ? &(struct tide_sim_disk){0} : &bad);
}

void saver_heal(struct world *w) {
    if (saves(w)) {
        set_disk(w, true, 0);
    }
}

void saver_crashed(struct world *w, const char *name) {
    if (strcmp(name, saver_place) == 0) {
        w->saver->crashes++;
        w->report->disk_crashes++;
        fault_note(w, "the disk crashes");
    }
}

/* ---- generations ---- */

struct generation *saver_generation(const struct world *w, uint64_t number) {
    struct saver *s = w->saver;
    struct generation *found = NULL;
    for (unsigned i = 0; i < s->count; i++) {
        struct generation *g = &s->list[i];
        const bool higher = g->counts && (found == NULL || g->number > found->number);
        found = (number != 0 ? g->number == number : higher) ? g : found;
    }
    return found;
}

/* One of its own files: the manifest, rows, or their sums. */
static void choose_file(struct tide_random *random, const struct tide__manifest *m,
                        char out[2 * TIDE__PATH_MAX]) {
    char path[TIDE__PATH_MAX];
    const char *name = "MANIFEST.json", *ending = "";
    uint64_t seen = 1;
    tide__generation_path(saver_directory, m->generation, path);
    for (size_t t = 0; t < m->table_count; t++) {
        for (size_t i = 0; i < 2 * m->tables[t].file_count; i++) {
            if (tide_random_below(random, ++seen) == 0) {
                name = m->tables[t].files[i / 2].name;
                ending = i % 2 ? ".crc" : "";
            }
        }
    }
    (void)snprintf(out, 2 * TIDE__PATH_MAX, "%s/%s%s", path, name, ending);
}

bool saver_damage(struct world *w, uint64_t number) {
    struct tide__manifest m;
    char path[2 * TIDE__PATH_MAX];
    struct generation *g = saver_generation(w, number);
    if (tide__generation_manifest(w->nodes[0]->port, saver_directory, number, &m) < 0) {
        return false;
    }
    choose_file(&w->saver->damages, &m, path);
    tide__manifest_release(&m);
    TIDE_ASSERT(g != NULL);
    g->flipped = tide_sim_flip(w->sim, saver_place, path);
    return g->flipped;
}

void saver_flip(struct world *w) {
    struct saver *s = w->saver;
    const struct generation *chosen = NULL;
    uint64_t seen = 0;
    for (unsigned i = 0; i < s->count; i++) {
        if (s->list[i].counts && !s->list[i].flipped &&
            tide_random_below(&s->damages, ++seen) == 0) {
            chosen = &s->list[i];
        }
    }
    if (chosen != NULL && saver_damage(w, chosen->number)) {
        fault_note(w, "a bit of generation %llu changes", (unsigned long long)chosen->number);
    }
}

/* ---- writing them ---- */

/* ENOENT: a directory that the disk forgot when it crashed. */
static bool is_answer(const struct world *w, int code) {
    return code == TIDE_EIO || code == TIDE_ENOSPC || code == TIDE_EBUSY || code == TIDE_EDIED ||
           code == TIDE_EUNREACHABLE || code == TIDE_ETIMEDOUT || code == TIDE_ECLOSED ||
           code == TIDE_ENOMEM || (code == TIDE_ELOST && option(w, SWARM_DISK_S) > 0) || (code == TIDE_ENOENT && w->saver->crashes > 0);
}

static bool is_there(const struct world *w, uint64_t number) {
    struct tide_port *port = w->nodes[0]->port;
    struct tide_file_info info;
    char name[TIDE__PATH_MAX + 16];
    tide__manifest_path(saver_directory, number, name);
    return port->ops->file_info(port, name, &info) == 0;
}

static void save(struct world *w, struct tide_node *node) {
    struct saver *s = w->saver;
    struct tide_checkpoint *checkpoint;
    const struct tide_checkpoint_options o = {
        .dir = saver_directory, .cut = TIDE_CUT_FUZZY, .keep = 3, .full_every = 4};
    struct generation *g = &s->list[s->count];
    *g = (struct generation){.began = tide_sim_now(w->sim)};
    int code = tide_checkpoint_start(node, &o, &checkpoint);
    if (code == 0) {
        s->count++;
        g->number = tide_checkpoint_get(checkpoint)->generation;
        code = tide_checkpoint_commit(checkpoint, NULL, 0);
        g->counts = code == 0;
    }
    if (code == 0 && !is_there(w, g->number)) {
        swarm_fail(w, "checkpoint", "generation %llu counted and is gone at once",
                   (unsigned long long)g->number);
    }
    if (code < 0 && !is_answer(w, code)) {
        swarm_fail(w, "checkpoint", "writing a generation: %s %s", tide_error_name(code),
                   tide_error_message());
    }
}

static void look_after_crash(struct world *w) {
    struct saver *s = w->saver;
    if (s->looked < s->crashes && !w->report->failed) {
        s->looked = s->crashes;
        set_disk(w, true, 0);
        restorer_look(w);
    }
}

static int saver_main(void *state) {
    struct world *w = state;
    struct tide_random *random = &w->saver->random;
    while (!w->healing && !w->stopping && !w->report->failed && w->saver->count < ATTEMPTS_MAX) {
        double rest = -log1p(-tide_random_uniform(random)) * option(w, SWARM_CHECKPOINT_S);
        (void)tide_sleep((uint64_t)(rest * 1e9));
        const bool good = chance(random, 0.3);
        const uint64_t room = chance(random, 0.8) ? 0 : between(random, 1 << 10, 1 << 20);
        if (!w->healing) {
            set_disk(w, good, room);
        }
        save(w, w->nodes[0]->node);
        look_after_crash(w);
    }
    w->saver->ended = true;
    return 0;
}

bool saver_ended(const struct world *w) {
    return !saves(w) || w->saver->ended;
}

void saver_spawn(struct world *w, int (*run)(void *)) {
    struct tide_actor_options o = {
        .type = "saver", .run = run, .state = w, .role = TIDE_ROLE_COMPUTE};
    if (tide_spawn(w->nodes[0]->node, &o, NULL) < 0) {
        swarm_fail(w, "world", "no fiber: %s", tide_error_message());
    }
}

void saver_start(struct world *w) {
    if (saves(w)) {
        saver_spawn(w, saver_main);
    }
}
