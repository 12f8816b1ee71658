#include "port/sim_fabric.h"

#include <math.h>

static void grow(void **array, size_t count, size_t *room, size_t element) {
    if (count == *room) {
        *room = *room != 0 ? 2 * *room : 64;
        enum tide_memory_use use = tide__memory_swap(TIDE_MEMORY_TOOL);
        *array = tide_realloc(*array, *room * element);
        tide__memory_swap(use);
        TIDE_ASSERT(*array); /* a tool of tests: memory lasts */
    }
}

void tide__fabric_deinit(struct fabric *f) {
    tide_free(f->links);
    tide_free(f->part);
    tide_free(f->crossed);
    *f = (struct fabric){0};
}

void tide__fabric_reserve(struct fabric *f, uint32_t link) {
    while (f->link_count <= link) {
        size_t room = f->link_room;
        void *links = f->links;
        grow(&links, f->link_count, &f->link_room, sizeof *f->links);
        f->links = links;
        for (size_t i = 0; room != f->link_room && i < f->link_count; i++) {
            if (f->links[i].flows) {
                f->links[i].flows->place = &f->links[i].flows;
            }
        }
        f->links[f->link_count++] = (struct fabric_link){0};
    }
}

/* ---- the connected component ---- */

static void add_link(struct fabric *f, uint32_t link) {
    if (f->links[link].visit != f->visits) {
        f->links[link].visit = f->visits;
        void *crossed = f->crossed;
        grow(&crossed, f->crossed_count, &f->crossed_room, sizeof *f->crossed);
        f->crossed = crossed;
        f->crossed[f->crossed_count++] = link;
    }
}

static void add_flow(struct fabric *f, struct fabric_flow *flow) {
    if (flow->visit != f->visits) {
        flow->visit = f->visits;
        void *part = f->part;
        grow(&part, f->part_count, &f->part_room, sizeof *f->part);
        f->part = part;
        f->part[f->part_count++] = flow;
    }
}

static void begin(struct fabric *f, const uint32_t *links, size_t count) {
    f->visits++;
    f->part_count = f->crossed_count = 0;
    for (size_t i = 0; i < count; i++) {
        add_link(f, links[i]);
    }
}

/* All flows that share links with those given, directly or over others. False: more than max. */
static bool find_part(struct fabric *f, size_t max) {
    for (size_t at = 0; at < f->crossed_count; at++) {
        for (struct fabric_hop *hop = f->links[f->crossed[at]].flows; hop; hop = hop->next) {
            add_flow(f, hop->flow);
            if (f->part_count > max) {
                return false;
            }
            for (unsigned i = 0; i < hop->flow->hop_count; i++) {
                add_link(f, hop->flow->hops[i].link);
            }
        }
    }
    return true;
}

/* ---- rates ---- */

static void fix(struct fabric *f, size_t index, double rate) {
    struct fabric_flow *flow = f->part[index];
    flow->found = rate;
    for (unsigned i = 0; i < flow->hop_count; i++) {
        struct fabric_link *link = &f->links[flow->hops[i].link];
        link->left = link->left > rate ? link->left - rate : 0;
        link->open--;
    }
    f->part[index] = f->part[--f->part_count];
    f->part[f->part_count] = flow; /* behind the open ones, for the caller to find */
}

static bool crosses(const struct fabric_flow *flow, uint32_t link) {
    for (unsigned i = 0; i < flow->hop_count; i++) {
        if (flow->hops[i].link == link) {
            return true;
        }
    }
    return false;
}

/* Fills all open flows alike until a link is full or a flow at its cap; these are done. */
static void fill(struct fabric *f) {
    for (size_t i = 0; i < f->crossed_count; i++) {
        struct fabric_link *link = &f->links[f->crossed[i]];
        link->left = link->capacity;
        link->open = link->flow_count;
    }
    while (f->part_count > 0) {
        double share = INFINITY;
        uint32_t tightest = 0;
        for (size_t i = 0; i < f->crossed_count; i++) {
            const struct fabric_link *link = &f->links[f->crossed[i]];
            if (link->open > 0 && link->capacity > 0 && link->left / link->open < share) {
                share = link->left / link->open;
                tightest = f->crossed[i];
            }
        }
        bool capped = false;
        for (size_t i = f->part_count; i-- > 0;) {
            if (f->part[i]->cap <= share) {
                fix(f, i, f->part[i]->cap);
                capped = true;
            }
        }
        if (capped) {
            continue;
        }
        for (size_t i = f->part_count; i-- > 0;) {
            if (crosses(f->part[i], tightest)) {
                fix(f, i, share);
            }
        }
    }
}

static void split(struct fabric *f) {
    for (size_t i = 0; i < f->part_count; i++) {
        struct fabric_flow *flow = f->part[i];
        flow->found = flow->cap;
        for (unsigned k = 0; k < flow->hop_count; k++) {
            const struct fabric_link *link = &f->links[flow->hops[k].link];
            double share = link->capacity / link->flow_count;
            if (link->capacity > 0 && share < flow->found) {
                flow->found = share;
            }
        }
    }
}

static void set_rate(struct fabric *f, struct fabric_flow *flow, double found) {
    double rate = found > 1 ? found : 1; /* rounding may leave a link with nothing */
    if (rate == flow->rate) {
        return;
    }
    f->changed(f->arg, flow, rate);
    for (unsigned i = 0; i < flow->hop_count; i++) {
        f->links[flow->hops[i].link].load += rate - flow->rate;
    }
    flow->rate = rate;
}

static void compute(struct fabric *f, const uint32_t *links, size_t count) {
    begin(f, links, count);
    bool fair = find_part(f, FABRIC_FAIR_MAX);
    f->computed++;
    if (!fair) {
        f->split++;
        begin(f, links, count);
        for (size_t i = 0; i < count; i++) {
            for (struct fabric_hop *hop = f->links[links[i]].flows; hop; hop = hop->next) {
                add_flow(f, hop->flow);
            }
        }
        split(f);
    }
    size_t all = f->part_count;
    if (fair) {
        fill(f);
    }
    for (size_t i = 0; i < all; i++) {
        set_rate(f, f->part[i], f->part[i]->found);
    }
}

/* ---- changes ---- */

void tide__fabric_start(struct fabric *f, struct fabric_flow *flow, const uint32_t *links, unsigned count, double cap) {
    TIDE_ASSERT(count <= FABRIC_HOPS && cap > 0);
    flow->hop_count = count;
    flow->cap = cap;
    flow->rate = 0;
    for (unsigned i = 0; i < count; i++) {
        tide__fabric_reserve(f, links[i]);
    }
    for (unsigned i = 0; i < count; i++) {
        struct fabric_link *link = &f->links[links[i]];
        struct fabric_hop *hop = &flow->hops[i];
        *hop = (struct fabric_hop){.flow = flow, .next = link->flows, .place = &link->flows, .link = links[i]};
        if (hop->next) {
            hop->next->place = &hop->next;
        }
        link->flows = hop;
        link->flow_count++;
    }
    f->flow_count++;
    f->started++;
    if (count == 0) {
        set_rate(f, flow, cap);
        return;
    }
    compute(f, links, count);
}

void tide__fabric_stop(struct fabric *f, struct fabric_flow *flow) {
    uint32_t links[FABRIC_HOPS];
    unsigned count = flow->hop_count;
    for (unsigned i = 0; i < count; i++) {
        struct fabric_hop *hop = &flow->hops[i];
        struct fabric_link *link = &f->links[hop->link];
        links[i] = hop->link;
        *hop->place = hop->next;
        if (hop->next) {
            hop->next->place = hop->place;
        }
        link->flow_count--;
        link->load = link->flow_count > 0 ? link->load - flow->rate : 0;
    }
    TIDE_ASSERT(f->flow_count > 0);
    f->flow_count--;
    flow->hop_count = 0;
    flow->rate = 0;
    if (count > 0) {
        compute(f, links, count);
    }
}

void tide__fabric_resize(struct fabric *f, const uint32_t *links, const double *capacities, size_t count) {
    for (size_t i = 0; i < count; i++) {
        tide__fabric_reserve(f, links[i]);
        f->links[links[i]].capacity = capacities[i];
    }
    compute(f, links, count);
}
