/*
 * The network of the simulator. Small messages go through servers that take one after the other:
 * the sender's card, the core switch where it lies between the two, the receiver's card. All are
 * cut-through: with t the moment the first bit is there, b the bytes, C the capacity and f the
 * moment the server has passed what came before, the last bit is through at
 *
 *     max(last bit in, max(t, f) + b / C)
 *
 * Each server is asked at the moment the first bit comes to it, so that the queue is in the order
 * of arrival: a segment that waits in a long queue elsewhere delays none here.
 *
 * Bulk goes as flows (sim_bulk.c), which see C (1 - u), u the share of a server that small messages
 * used in the last 10 ms; small messages see C less the flows' rates, but never less than one more
 * flow would get, C / (flows + 1), nor less than 5 %. Without the latter two a busy link would
 * starve them, and all bulk begins as small messages.
 */
#include "port/sim.h"

#include <math.h>
#include <string.h>

#define COUPLE_INTERVAL (10 * UINT64_C(1000000))
static const double share_least = 0.05, share_moved = 0.05;

/* ---- settings ---- */

static void set_latency(struct sim_node *from, const struct sim_node *to, uint64_t ns) {
    if (to->index >= from->latency_room) {
        size_t room = (size_t)to->index + 1;
        from->latency = tide_realloc(from->latency, room * sizeof *from->latency);
        TIDE_ASSERT(from->latency);
        memset(from->latency + from->latency_room, 0, (room - from->latency_room) * sizeof *from->latency);
        from->latency_room = room;
    }
    from->latency[to->index] = ns;
}

void tide_sim_set_pair_latency(struct tide_sim *sim, const char *name_a, const char *name_b, uint64_t ns) {
    struct sim_node *a = tide__sim_setting_of(sim, name_a), *b = tide__sim_setting_of(sim, name_b);
    TIDE_ASSERT(a != b);
    set_latency(a, b, ns);
    set_latency(b, a, ns);
}

void tide_sim_set_window(struct tide_sim *sim, size_t bytes) {
    TIDE_ASSERT(bytes > 0);
    sim->options.window_bytes = bytes;
}

void tide_sim_set_core(struct tide_sim *sim, uint64_t bytes_per_s) {
    sim->core.bytes_per_s = bytes_per_s;
    tide__sim_net_changed(sim);
}

void tide_sim_set_rack(struct tide_sim *sim, const char *name, unsigned rack) {
    tide__sim_setting_of(sim, name)->rack = rack;
    sim->racked = true;
}

void tide_sim_set_costs(struct tide_sim *sim, const struct tide_sim_costs *costs) {
    TIDE_ASSERT(costs->byte_ns >= 0);
    sim->costs = *costs;
}

void tide_sim_flows(const struct tide_sim *sim, struct tide_sim_flows *out) {
    const struct fabric *f = &sim->fabric;
    *out = (struct tide_sim_flows){.started = f->started, .computed = f->computed, .split = f->split};
}

/* ---- small messages ---- */

uint64_t tide__sim_latency(const struct tide_sim *sim, const struct sim_node *from, const struct sim_node *to,
                           struct tide_random *random) {
    if (from && to->index < from->latency_room && from->latency[to->index] != 0) {
        return from->latency[to->index];
    }
    uint64_t span = sim->options.latency_ns_max - sim->options.latency_ns_min;
    return sim->options.latency_ns_min + tide_random_below(random, span + 1);
}

void tide__sim_charge(struct tide_executor *e, uint64_t message_ns, size_t bytes) {
    e->charged += message_ns + (uint64_t)((double)bytes * e->sim->costs.byte_ns);
}

uint64_t tide__sim_charged(const struct tide_executor *e) {
    return (uint64_t)((double)e->charged * e->node->slowness);
}

void tide__sim_pass(struct tide_sim *sim, struct sim_server *server, uint32_t link, size_t size, uint64_t *first,
                    uint64_t *last) {
    if (server->bytes_per_s == 0) {
        return;
    }
    double capacity = (double)server->bytes_per_s;
    if (sim->fabric.flow_count > 0) {
        struct fabric_link none = {0};
        const struct fabric_link *l = link < sim->fabric.link_count ? &sim->fabric.links[link] : &none;
        capacity = fmax(capacity - l->load, capacity * fmax(1.0 / (1 + l->flow_count), share_least));
    }
    uint64_t takes = (uint64_t)((double)size * 1e9 / capacity);
    *first = server->free > *first ? server->free : *first;
    if (sim->fabric.flow_count > 0) {
        server->small_since = server->small_bytes > 0 ? server->small_since : *first;
        server->small_bytes += (double)size;
    }
    *last = *first + takes > *last ? *first + takes : *last;
    server->free = *last;
}

bool tide__sim_crosses_core(const struct tide_sim *sim, const struct sim_node *from, const struct sim_node *to) {
    return sim->core.bytes_per_s > 0 && (!sim->racked || from->rack != to->rack);
}

/* ---- what flows see ---- */

static double capacity_for_flows(const struct sim_server *server) {
    return (double)server->bytes_per_s * fmax(1 - server->small_share, share_least);
}

unsigned tide__sim_links(struct tide_sim *sim, const struct sim_node *from, const struct sim_node *to,
                         uint32_t links[FABRIC_HOPS]) {
    const struct sim_server *servers[FABRIC_HOPS];
    unsigned count = 0;
    servers[count] = &from->out;
    links[count++] = SIM_LINK_OUT + 2 * (uint32_t)from->index;
    if (tide__sim_crosses_core(sim, from, to)) {
        servers[count] = &sim->core;
        links[count++] = SIM_LINK_CORE;
    }
    servers[count] = &to->in;
    links[count++] = SIM_LINK_IN + 2 * (uint32_t)to->index;
    for (unsigned i = 0; i < count; i++) {
        tide__fabric_reserve(&sim->fabric, links[i]);
        sim->fabric.links[links[i]].capacity = capacity_for_flows(servers[i]);
    }
    if (!sim->coupling) {
        sim->coupling = true;
        tide__sim_push(sim, sim->now + COUPLE_INTERVAL, SIM_COUPLE, 0, NULL, 0);
    }
    return count;
}

static struct sim_server *server_of(struct tide_sim *sim, size_t link) {
    size_t node = (link - 1) / 2;
    return link == SIM_LINK_CORE ? &sim->core : (link - 1) % 2 == 0 ? &sim->nodes[node]->out : &sim->nodes[node]->in;
}

/* What of its small messages it has served by now, of which it is not asked again. */
static double take_served(struct sim_server *server, uint64_t now) {
    double served = server->small_bytes;
    if (server->free > now && server->free > server->small_since) {
        double begun = now > server->small_since ? (double)(now - server->small_since) : 0;
        served *= begun / (double)(server->free - server->small_since);
        server->small_since = now > server->small_since ? now : server->small_since;
    }
    server->small_bytes -= served;
    return served;
}

/* Gives the links with flows their present capacity; as small messages use them, if `measure`. */
static void refresh(struct tide_sim *sim, bool measure) {
    size_t count = 0, room = sim->fabric.link_count;
    if (room == 0) {
        return;
    }
    uint32_t *links = tide_alloc(room * sizeof *links);
    double *capacities = tide_alloc(room * sizeof *capacities);
    TIDE_ASSERT(links && capacities);
    for (size_t i = 0; i < room; i++) {
        struct sim_server *server = server_of(sim, i);
        double most = (double)server->bytes_per_s * ((double)COUPLE_INTERVAL * 1e-9);
        if (measure && most > 0) {
            double share = fmin(take_served(server, sim->now) / most, 1);
            bool moved = fabs(share - server->small_share) > share_moved;
            server->small_share = moved ? share : server->small_share;
        }
        if (sim->fabric.links[i].capacity != capacity_for_flows(server)) {
            links[count] = (uint32_t)i;
            capacities[count++] = capacity_for_flows(server);
        }
    }
    if (count > 0) {
        tide__fabric_resize(&sim->fabric, links, capacities, count);
    }
    tide_free(links);
    tide_free(capacities);
}

void tide__sim_net_changed(struct tide_sim *sim) {
    refresh(sim, false);
}

void tide__sim_couple(struct tide_sim *sim) {
    refresh(sim, true);
    sim->coupling = sim->fabric.flow_count > 0;
    if (sim->coupling) {
        tide__sim_push(sim, sim->now + COUPLE_INTERVAL, SIM_COUPLE, 0, NULL, 0);
    }
}
