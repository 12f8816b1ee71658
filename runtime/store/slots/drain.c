/*
 * A node that leaves: rows whose home is elsewhere go home, and the controller hears when none is
 * left here, nor in flight from here. What was sent is not yet there: its receiver could hear that
 * this node is gone, and hold the row for lost, before it gets the row. So all members are asked
 * behind it, in the ordered lane; their answers say that it was dealt with.
 */
#include "store/slots/move.h"

enum { LOOKS_AN_OFFER = 40 };

struct tide__drain {
    uint64_t look_at;
    unsigned looks;
    bool asked;
    struct tide__flush_barrier barrier;
};

void tide__drain_advance(struct tide_store *store) {
    struct tide__drain *drain = store->drain;
    const uint64_t now = tide_port_now(store->port);
    if (!drain) {
        drain = store->drain = tide_alloc_zero(1, sizeof *drain);
    }
    if (!drain || now < drain->look_at) {
        return; /* looked at again in a moment */
    }
    drain->look_at = now + tide_limit(store_drain_look);
    const bool offer = drain->looks++ % LOOKS_AN_OFFER == 0;
    bool left = true;
    for (size_t i = 0; store->techniques[i]; i++) {
        const struct tide__technique *t = store->techniques[i];
        left = (!t->has_left || t->has_left(store, offer)) && left;
    }
    if (!left) {
        drain->asked = false;
        return;
    }
    if (!drain->asked) {
        tide__flush_barrier_ask(store, &drain->barrier);
        drain->asked = true;
    }
    if (tide__flush_barrier_came(store, &drain->barrier) || TIDE_MUTANT(leave_unflushed)) {
        store->drained = true;
        tide__move_send(store, tide_net_controller(store->net), TIDE__OP_DRAINED, 0, 0, 0, NULL, 0, NULL, 0);
    }
}

void tide__drain_flushed(struct tide_store *store, uint16_t from, uint64_t turn) {
    if (store->drain) {
        tide__flush_barrier_hear(&store->drain->barrier, from, turn);
    }
}

void tide__drain_again(struct tide_store *store) {
    store->drained = false;
    if (store->drain) {
        store->drain->look_at = 0;
    }
}
