/* A node that is an actor system and nothing else, on either port, for tests of the actor room alone. */
#ifndef ACTOR_WORLD_H
#define ACTOR_WORLD_H

#include "actor/actor.h"

#include <stdlib.h>

struct tide_node {
    struct tide_port *port;
    struct tide_system *system;
    struct tide_sim *sim;
};

struct tide_system *tide_system_of(struct tide_node *node) { return node->system; }
uint64_t tide_node_now(const struct tide_node *node) { return tide_port_now(node->port); }
int tide_node_resolve(struct tide_node *node, const char *name, uint16_t *id) {
    (void)node;
    (void)id;
    return tide_fail(TIDE_ENOENT, "no node is named '%s'", name);
}

static inline struct tide_node *world_open(bool simulated, unsigned compute) {
    struct tide_node *node = calloc(1, sizeof *node);
    int rc = 0;
    if (simulated) {
        rc = tide_sim_create(&(struct tide_sim_options){.seed = 7}, &node->sim);
        rc = rc < 0 ? rc : tide_sim_port(node->sim, "n1", &node->port);
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
    tide_system_stop(node->system, TIDE_SECOND);
    tide_system_destroy(node->system);
    node->port->ops->destroy(node->port);
    if (node->sim != NULL) {
        tide_sim_destroy(node->sim);
    }
    free(node);
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
