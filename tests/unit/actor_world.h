/* A node that is an actor system and nothing else, on either port, for tests of the actor room alone. */
#ifndef ACTOR_WORLD_H
#define ACTOR_WORLD_H

#include "actor/actor.h"

#include <stdlib.h>

struct actor_world {
    struct tide_node node;
    struct tide_sim *sim; /* or NULL */
};

static inline struct tide_node *world_open(bool simulated, unsigned compute) {
    struct actor_world *world = calloc(1, sizeof *world);
    struct tide_node *node = &world->node;
    int rc = 0;
    if (simulated) {
        rc = tide_sim_create(&(struct tide_sim_options){.seed = 7}, &world->sim);
        rc = rc < 0 ? rc : tide_sim_port(world->sim, "n1", &node->port);
    } else {
        rc = tide_port_real_create(7, &node->port);
    }
    struct tide_system_options options = {.port = node->port, .node_name = "n1", .io = 1, .compute = compute, .control = 1};
    rc = rc < 0 ? rc : tide_system_create(&options, node, &node->system);
    if (rc < 0) {
        fprintf(stderr, "world: %s\n", tide_error_message());
        abort();
    }
    return node;
}

static inline void world_close(struct tide_node *node) {
    if (!tide_system_stop(node->system, TIDE_SECOND)) {
        abort();
    }
    tide_system_destroy(node->system);
    node->port->ops->destroy(node->port);
    struct actor_world *world = (struct actor_world *)node; /* its first member */
    if (world->sim != NULL) {
        tide_sim_destroy(world->sim);
    }
    free(world);
}

/* Lets the node run until `flag` is set; false after 10 s. */
static inline bool world_wait(struct tide_node *node, const atomic_int *flag, int value) {
    uint64_t until = tide_port_now(node->port) + 10 * TIDE_SECOND;
    while (atomic_load(flag) != value && tide_port_now(node->port) < until) {
        node->port->ops->pause(node->port, 200000);
    }
    return atomic_load(flag) == value;
}

#endif
