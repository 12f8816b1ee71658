/*
 * Bulk in the simulator: a direction of a connection that has 1 MiB or more in flight becomes a
 * flow (sim_fabric.h) until it has nothing left to send. It crosses the sender's card, the core
 * where it lies between, and the receiver's card, no faster than window / round trip time. The flow
 * begins when what the connection sent before is in; its segments arrive when their last byte has
 * left, a latency later.
 */
#include "port/sim_stream.h"

#include <math.h>

static const size_t bulk_bytes = 1 << 20;

static struct tide_sim *world_of(const struct tide_stream *s) {
    return s->executor->sim;
}

static uint64_t latency_of(struct tide_stream *s) {
    return tide__sim_latency(world_of(s), s->peer_node, s->executor->node, &s->random);
}

static void schedule(struct tide_stream *s, uint64_t time) {
    tide__sim_stream_push(s, time, SIM_DRAIN, ++s->bulk->generation);
}

/* When the first segment has left at this rate. */
static void schedule_drain(struct sim_bulk *bulk, double rate) {
    uint64_t now = world_of(bulk->stream)->now;
    schedule(bulk->stream, now + (uint64_t)ceil(bulk->left * 1e9 / rate));
}

void tide__sim_flow_changed(void *arg, struct fabric_flow *flow, double rate) {
    struct tide_sim *sim = arg;
    struct sim_bulk *bulk = TIDE_CONTAINER(flow, struct sim_bulk, flow);
    double left = bulk->left - flow->rate * (double)(sim->now - bulk->since) * 1e-9;
    bulk->left = left > 0 ? left : 0;
    bulk->since = sim->now;
    schedule_drain(bulk, rate);
}

static void begin_flow(struct tide_stream *s) {
    struct tide_sim *sim = world_of(s);
    uint32_t links[FABRIC_HOPS];
    unsigned count = tide__sim_links(sim, s->peer_node, s->executor->node, links);
    uint64_t round_trip = 2 * latency_of(s);
    double window = (double)sim->options.window_bytes * 1e9;
    s->bulk->flows = true;
    s->bulk->left = (double)s->bulk->head->size;
    s->bulk->since = sim->now;
    tide__fabric_start(&sim->fabric, &s->bulk->flow, links, count,
                       fmax(window / (double)(round_trip > 0 ? round_trip : 1), 1));
}

bool tide__sim_bulk_takes(struct tide_stream *s, struct sim_segment *segment) {
    struct tide_sim *sim = world_of(s);
    if (!sim->options.flows || !s->peer_node || s->peer_node == s->executor->node) {
        return false;
    }
    if (s->bulk && s->bulk->head) {
        return true; /* behind those that are there already */
    }
    s->burst = sim->now < s->departed ? s->burst + segment->size : segment->size;
    if (s->burst < bulk_bytes) {
        return false;
    }
    if (!s->bulk) {
        s->bulk = tide__sim_alloc(sizeof *s->bulk);
        *s->bulk = (struct sim_bulk){.stream = s};
    }
    s->bulk->head = segment;
    s->bulk->flows = false;
    schedule(s, s->departed > sim->now ? s->departed : sim->now);
    return true;
}

static void leave(struct tide_stream *s) {
    uint64_t arrival = world_of(s)->now + latency_of(s);
    s->last_arrival = arrival > s->last_arrival ? arrival : s->last_arrival + 1;
    tide__sim_stream_push(s, s->last_arrival, SIM_ARRIVE, 0);
    s->bulk->head = s->bulk->head->next;
}

void tide__sim_bulk_ready(struct tide_stream *s) {
    if (s->bulk && s->bulk->due) {
        s->bulk->due = false;
        schedule(s, world_of(s)->now);
    }
}

void tide__sim_bulk_event(struct tide_stream *s, const struct sim_event *event) {
    struct tide_sim *sim = world_of(s);
    struct sim_bulk *bulk = s->bulk;
    if (!bulk->head || event->generation != bulk->generation) {
        return;
    }
    tide__sim_fold(sim, event, bulk->head->size, 0);
    if (!bulk->flows) {
        bulk->due = s->at_core.first || s->at_card.first;
        if (!bulk->due) {
            begin_flow(s);
        }
        return;
    }
    leave(s);
    if (!bulk->head) {
        tide__sim_bulk_stop(s);
        return;
    }
    bulk->left = (double)bulk->head->size;
    bulk->since = sim->now;
    schedule_drain(bulk, bulk->flow.rate);
}

void tide__sim_bulk_stop(struct tide_stream *s) {
    struct sim_bulk *bulk = s->bulk;
    if (!bulk) {
        return;
    }
    if (bulk->flows) {
        bulk->flows = false;
        tide__fabric_stop(&world_of(s)->fabric, &bulk->flow);
    }
    bulk->head = NULL;
    bulk->due = false;
    s->burst = 0;
}

void tide__sim_bulk_flush(struct tide_stream *s) {
    while (s->bulk && s->bulk->head) {
        leave(s);
    }
    tide__sim_bulk_stop(s);
}
