/*
 * Clocks of simulated nodes. The world has one time, which orders events; what a node reads is its
 * own clock's time, which may have begun anywhere and run a little faster or slower. Everything that
 * a node hands back (when its next turn is due) is in its own time too. Integers, so that a time
 * goes there and back unharmed.
 */
#include "port/sim.h"

/* What `span` gains. */
static int64_t gain(uint64_t span, int64_t ppb) {
    const int64_t whole = (int64_t)(span / TIDE_SECOND), rest = (int64_t)(span % TIDE_SECOND);
    return whole * ppb + rest * ppb / (int64_t)TIDE_SECOND;
}

static uint64_t shown_at(const struct sim_node *node, uint64_t time) {
    const uint64_t span = time - node->clock_at, shown = node->clock_shown + span;
    return node->drift_ppb != 0 ? shown + (uint64_t)gain(span, node->drift_ppb) : shown;
}

uint64_t tide__sim_clock(const struct sim_node *node) {
    return shown_at(node, node->sim->now);
}

uint64_t tide__sim_clock_due(const struct sim_node *node, uint64_t shown) {
    if (shown == TIDE_NEVER) {
        return TIDE_NEVER;
    }
    if (shown <= node->clock_shown) {
        return node->clock_at;
    }
    uint64_t time = node->clock_at + (shown - node->clock_shown);
    for (int i = 0; i < 8 && node->drift_ppb != 0; i++) { /* each leaves a hundredth of the error, or less */
        time += shown - shown_at(node, time);
    }
    time = time > node->clock_at ? time : node->clock_at;
    while (shown_at(node, time) < shown) {
        time++;
    }
    return time;
}

void tide_sim_set_clock(struct tide_sim *sim, const char *name, uint64_t ahead_ns, int64_t drift_ppb) {
    TIDE_ASSERT(drift_ppb > -TIDE_DRIFT_PPB_MAX && drift_ppb < TIDE_DRIFT_PPB_MAX);
    struct sim_node *node = tide__sim_setting_of(sim, name);
    node->clock_shown = tide__sim_clock(node) + ahead_ns; /* never back: it is monotonic */
    node->clock_at = sim->now;
    node->drift_ppb = drift_ppb;
}
