/*
 * Tables that come and go: a fiber of the first node makes one, pushes to it, and drops it, all the
 * time. What it may hear is not judged here (nodes come and go meanwhile); that each call ends is:
 * the heal phase waits for it.
 */
#include "world.h"

enum { KEYS = 16, WIDTH = 4 };

bool drops(const struct world *w) {
    return option(w, SWARM_DROP_S) > 0 && !journals(w); /* there the first node crashes */
}

static void make_and_drop(struct world *w, struct tide_random *random) {
    struct dropper *d = &w->dropper;
    struct tide_node *node = w->nodes[0]->node;
    const struct tide_table_options o = {.name = d->name,
                                         .init = TIDE_INIT_ZERO,
                                         .update = TIDE_UPDATE_ADD,
                                         .key_count = KEYS,
                                         .width = WIDTH,
                                         .seed = 1};
    struct tide_table *table;
    (void)snprintf(d->name, sizeof d->name, "d%u", d->count);
    d->doing = "creates";
    if (tide_table_create(node, &o, &table) < 0) {
        return;
    }
    d->count++;
    for (uint64_t i = tide_random_below(random, 4); i > 0; i--) {
        const uint64_t key = tide_random_below(random, KEYS);
        const float delta[WIDTH] = {1, 1, 1, 1};
        d->doing = "pushes to";
        (void)tide_table_push(table, &key, 1, delta, NULL);
    }
    d->doing = "drops";
    const bool held = chance(random, 0.2); /* it is freed when it is released */
    if (!held) {
        tide_table_release(table);
    }
    (void)tide_table_drop(node, d->name);
    if (held) {
        tide_table_release(table);
    }
}

static int dropper_main(void *state) {
    struct world *w = state;
    struct tide_random random;
    tide_random_seed(&random, tide_mix64(w->options.seed ^ 0xd209));
    while (!w->healing && !w->stopping && !w->report->failed) {
        const double rest = 2 * tide_random_uniform(&random) * option(w, SWARM_DROP_S);
        w->dropper.doing = "rests after";
        (void)tide_sleep((uint64_t)(rest * 1e9));
        make_and_drop(w, &random);
    }
    w->dropper.ended = true;
    return 0;
}

void dropper_start(struct world *w) {
    if (drops(w)) {
        saver_spawn(w, dropper_main);
    }
}

bool dropper_ended(const struct world *w) {
    return !drops(w) || w->dropper.ended;
}
