/*
 * Faults and settings of the simulated world: what a script or test may do to nodes and links, and
 * calls at a moment of virtual time. Partitions are directed cuts between pairs of nodes; what they
 * hold back travels when they heal. Everything here happens between two events.
 */
#include "port/sim.h"

#include <string.h>

struct sim_call {
    void (*fn)(void *arg);
    void *arg;
};

/* ---- calls ---- */

void tide_sim_at(struct tide_sim *sim, uint64_t time, void (*fn)(void *arg), void *arg) {
    TIDE_ASSERT(fn);
    struct sim_call *call = tide_alloc(sizeof *call);
    TIDE_ASSERT(call);
    *call = (struct sim_call){fn, arg};
    tide__sim_push(sim, time > sim->now ? time : sim->now, SIM_CALL, 0, call, 0);
}

void tide__sim_call_event(struct tide_sim *sim, const struct sim_event *event) {
    struct sim_call call = *(struct sim_call *)event->object;
    tide_free(event->object);
    tide__sim_fold(sim, event, 0, 0);
    call.fn(call.arg);
}

void tide__sim_call_drop(void *object) {
    tide_free(object);
}

void tide_sim_observe(struct tide_sim *sim, void (*event)(void *arg, const struct tide_sim_event *event), void *arg) {
    sim->observe = event;
    sim->observe_arg = arg;
}

/* ---- nodes ---- */

bool tide_sim_runs(const struct tide_sim *sim, const char *name) {
    const struct sim_node *node = tide__sim_find_node(sim, name);
    return node && node->port && !node->crashed;
}

void tide_sim_crash(struct tide_sim *sim, const char *name) {
    struct sim_node *node = tide__sim_find_node(sim, name);
    TIDE_ASSERT(node);
    if (node->crashed) {
        return;
    }
    if (node == sim->shared) {
        node->incarnation++; /* a file server is there again at once, but no file is open any more */
    } else {
        node->crashed = true;
    }
    if (node->port) {
        node->port->port.crashed = true;
    }
    for (struct tide_executor *e = node->executors; e; e = e->next) {
        e->dead = true;
    }
    tide__sim_streams_crash(sim, node);
    tide__sim_disk_crash(node);
    if (sim->on_crash) {
        sim->on_crash(sim->on_crash_arg, node->name);
    }
}

void tide_sim_on_crash(struct tide_sim *sim, void (*crashed)(void *arg, const char *node), void *arg) {
    sim->on_crash = crashed;
    sim->on_crash_arg = arg;
}

void tide_sim_pause(struct tide_sim *sim, const char *name, uint64_t duration) {
    struct sim_node *node = tide__sim_find_node(sim, name);
    TIDE_ASSERT(node);
    if (sim->now + duration > node->paused_until) {
        node->paused_until = sim->now + duration;
    }
}

struct sim_node *tide__sim_setting_of(struct tide_sim *sim, const char *name) {
    struct sim_node *node = tide__sim_find_node(sim, name);
    node = node ? node : tide__sim_add_node(sim, name);
    TIDE_ASSERT(node);
    return node;
}

void tide_sim_set_slowness(struct tide_sim *sim, const char *name, double times) {
    TIDE_ASSERT(times > 0 && times < 1e6);
    if (name) {
        tide__sim_setting_of(sim, name)->slowness = times;
    }
    for (size_t i = 0; name == NULL && i < sim->node_count; i++) {
        sim->nodes[i]->slowness = times;
    }
}

void tide_sim_set_nic(struct tide_sim *sim, const char *name, uint64_t bytes_per_s) {
    if (name) {
        struct sim_node *node = tide__sim_setting_of(sim, name);
        node->out.bytes_per_s = node->in.bytes_per_s = bytes_per_s;
    } else {
        sim->options.nic_bytes_per_s = bytes_per_s;
        for (size_t i = 0; i < sim->node_count; i++) {
            sim->nodes[i]->out.bytes_per_s = sim->nodes[i]->in.bytes_per_s = bytes_per_s;
        }
    }
    tide__sim_net_changed(sim);
}

void tide_sim_set_latency(struct tide_sim *sim, uint64_t ns_min, uint64_t ns_max) {
    TIDE_ASSERT(ns_min <= ns_max);
    sim->options.latency_ns_min = ns_min;
    sim->options.latency_ns_max = ns_max;
}

uint64_t tide_sim_cost(const struct tide_port *port, uint64_t ns) {
    TIDE_ASSERT(port->simulated);
    return (uint64_t)((double)ns * ((const struct sim_port *)port)->node->slowness);
}

/* ---- links ---- */

static size_t find_cut(const struct tide_sim *sim, const struct sim_node *from, const struct sim_node *to) {
    for (size_t i = 0; i < sim->cut_count; i++) {
        if (sim->cuts[i].from == from->index && sim->cuts[i].to == to->index) {
            return i;
        }
    }
    return SIZE_MAX;
}

bool tide__sim_is_cut(const struct tide_sim *sim, const struct sim_node *from, const struct sim_node *to) {
    return sim->cut_count > 0 && find_cut(sim, from, to) != SIZE_MAX;
}

void tide_sim_cut(struct tide_sim *sim, const char *name_from, const char *name_to, bool cut) {
    struct sim_node *from = tide__sim_find_node(sim, name_from);
    struct sim_node *to = tide__sim_find_node(sim, name_to);
    TIDE_ASSERT(from && to && from != to);
    size_t i = find_cut(sim, from, to);
    if (cut && i == SIZE_MAX) {
        void *cuts = sim->cuts;
        tide__sim_grow(&cuts, sim->cut_count, &sim->cut_room, sizeof *sim->cuts);
        sim->cuts = cuts;
        sim->cuts[sim->cut_count++] = (struct sim_cut){.from = from->index, .to = to->index};
    } else if (!cut && i != SIZE_MAX) {
        sim->cuts[i] = sim->cuts[--sim->cut_count];
        tide__sim_streams_heal(sim);
    }
}

void tide_sim_partition(struct tide_sim *sim, const char *a, const char *b, bool cut) {
    tide_sim_cut(sim, a, b, cut);
    tide_sim_cut(sim, b, a, cut);
}

void tide_sim_reset(struct tide_sim *sim, const char *name_a, const char *name_b) {
    struct sim_node *a = tide__sim_find_node(sim, name_a), *b = tide__sim_find_node(sim, name_b);
    TIDE_ASSERT(a && b && a != b);
    tide__sim_streams_reset(sim, a, b);
}
