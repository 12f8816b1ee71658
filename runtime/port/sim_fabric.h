/*
 * Flows over links: the share of each in a network. Pure: knows neither streams nor the
 * clock.
 *
 * A flow crosses up to FABRIC_HOPS links and never goes faster than its cap (window / round trip
 * time, as TCP). Rates are max-min fair, found by progressive filling (Bertsekas and Gallager, Data
 * Networks, section 6.5.2): no flow can be given more without taking from one that has no more than
 * it. When a flow starts or ends, or a link's capacity changes, only the flows that are connected
 * with it over shared links are computed anew. Where these are more than FABRIC_FAIR_MAX, the flows
 * of the changed links get an equal split instead, min over their links of capacity / flows, and
 * this is counted.
 */
#ifndef TIDE_PORT_SIM_FABRIC_H
#define TIDE_PORT_SIM_FABRIC_H

#include "base/base.h"

enum { FABRIC_HOPS = 3, FABRIC_FAIR_MAX = 1000 };

struct fabric_flow;

/* A place in a link's list. */
struct fabric_hop {
    struct fabric_flow *flow;
    struct fabric_hop *next, **place;
    uint32_t link;
};

struct fabric_flow {
    struct fabric_hop hops[FABRIC_HOPS];
    unsigned hop_count; /* 0: not in the network */
    double cap;         /* bytes/s; above 0 */
    double rate;        /* bytes/s, 1 at least: set by the fabric */
    /* of a computation */
    double found;
    uint64_t visit;
};

struct fabric_link {
    struct fabric_hop *flows;
    uint32_t flow_count;
    double capacity; /* bytes/s for flows; 0: no limit */
    double load;     /* sum of its flows' rates */
    /* of a computation */
    uint64_t visit;
    double left;
    uint32_t open; /* flows without a rate */
};

struct fabric {
    struct fabric_link *links;
    size_t link_count, link_room;
    /* Called for each flow whose rate is to be `rate`, while flow->rate is the former one. */
    void (*changed)(void *arg, struct fabric_flow *flow, double rate);
    void *arg;
    struct fabric_flow **part; /* scratch: the connected component */
    size_t part_count, part_room;
    uint32_t *crossed; /* its links */
    size_t crossed_count, crossed_room;
    uint64_t visits;
    uint64_t flow_count, started;
    uint64_t computed, split; /* how often; of them by equal split */
};

void tide__fabric_deinit(struct fabric *fabric);
/* Makes links up to this one, without limit. */
void tide__fabric_reserve(struct fabric *fabric, uint32_t link);
/* Links in the order of the way, all different; no link at all: the flow goes at its cap. */
void tide__fabric_start(struct fabric *fabric, struct fabric_flow *flow, const uint32_t *links, unsigned count,
                        double cap);
void tide__fabric_stop(struct fabric *fabric, struct fabric_flow *flow);
/* Gives links other capacities, in bytes/s (0: no limit), and their flows other rates. */
void tide__fabric_resize(struct fabric *fabric, const uint32_t *links, const double *capacities, size_t count);

#endif
