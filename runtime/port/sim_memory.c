/*
 * Nodes that are short of memory: while one runs, allocations fail with the probabilities that its
 * setting names, drawn from a generator of the node. Where the runtime could not continue the node
 * crashes at that very place; the rest of its turn is then of no consequence, and gets
 * memory.
 */
#include "port/sim.h"

#include <string.h>

static struct sim_node *running; /* one that is short of memory and whose turn it is */

static bool refuses(enum tide_memory_use use) {
    struct sim_node *node = running;
    if (!node || node->crashed || use == TIDE_MEMORY_TOOL) {
        return false;
    }
    const bool vital = use == TIDE_MEMORY_VITAL;
    const double p = vital ? node->memory.vital : node->memory.asked;
    if (p == 0 || tide_random_uniform(&node->memory_random) >= p) {
        return false;
    }
    if (vital) {
        enum tide_memory_use before = tide__memory_swap(TIDE_MEMORY_TOOL);
        tide_sim_crash(node->sim, node->name);
        tide__memory_swap(before);
    }
    return !vital;
}

void tide_sim_set_memory(struct tide_sim *sim, const char *name, const struct tide_sim_memory *memory) {
    TIDE_ASSERT(memory->asked >= 0 && memory->asked <= 1);
    TIDE_ASSERT(memory->vital >= 0 && memory->vital <= 1);
    struct sim_node *node = tide__sim_setting_of(sim, name);
    if (node->memory.asked == 0 && node->memory.vital == 0) {
        tide_random_seed(&node->memory_random, tide_hash(name, strlen(name), tide_mix64(sim->options.seed ^ sim->now)));
    }
    node->memory = *memory;
    tide__memory_refuses = refuses;
}

void *tide__sim_alloc(size_t size) {
    enum tide_memory_use use = tide__memory_swap(TIDE_MEMORY_TOOL);
    void *memory = tide_alloc(size);
    tide__memory_swap(use);
    TIDE_ASSERT(memory);
    return memory;
}

struct sim_node *tide__sim_memory_enter(struct sim_node *node) {
    struct sim_node *before = running;
    running = node && (node->memory.asked > 0 || node->memory.vital > 0) ? node : NULL;
    return before;
}

void tide__sim_memory_leave(struct sim_node *before) {
    running = before;
}
