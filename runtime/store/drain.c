/*
 * A node that leaves: rows whose home is elsewhere go home, and the controller hears when none is
 * left here, nor on its way from here. What was sent is not yet there: its receiver could hear that
 * this node is gone, and hold the row for lost, before it gets the row. So all members are asked
 * behind it, in the ordered lane; their answers say that it was dealt with.
 */
#include "store/move.h"
#include "store/replica.h"
#include "store/shared.h"

enum { LOOK_NS = 5000000, LOOKS_AN_OFFER = 40 };

struct tide__drain {
    uint64_t look_at;
    unsigned looks;
    bool asked;
    uint64_t turn; /* of the questions */
    uint8_t awaited[TIDE__NODES / 8]; /* a bit of each node that has not answered */
};

static void say(struct tide_store *store, uint16_t to, int op, uint64_t turn) {
    struct tide_writer w;
    uint8_t buffer[32];
    tide_writer_init(&w, buffer, sizeof buffer);
    tide_write_array(&w, 2);
    tide_write_uint(&w, (uint64_t)op);
    tide_write_uint(&w, turn);
    (void)tide__store_send_writer(store, to, &w); /* unreachable: it is gone soon */
}

static void ask_all(struct tide_store *store, struct tide__drain *drain) {
    drain->turn++;
    for (uint16_t node = 1; node < TIDE__NODES; node++) {
        if (node != tide__store_self(store) && tide__member_lives(store, node)) {
            drain->awaited[node / 8] |= (uint8_t)(1u << (node % 8));
            say(store, node, TIDE__OP_FLUSH, drain->turn);
        }
    }
}

static bool all_answered(const struct tide_store *store, const struct tide__drain *drain) {
    for (unsigned node = 1; node < TIDE__NODES; node++) {
        if ((drain->awaited[node / 8] >> (node % 8) & 1) && tide__member_lives(store, node)) {
            return false;
        }
    }
    return true;
}

void tide__drain_advance(struct tide_store *store) {
    struct tide__drain *drain = store->drain;
    const uint64_t now = tide_port_now(store->port);
    if (!drain) {
        drain = store->drain = tide_alloc_zero(1, sizeof *drain);
    }
    if (!drain || now < drain->look_at) {
        return; /* looked at again in a moment */
    }
    drain->look_at = now + LOOK_NS;
    const bool copies = !tide__shared_gone(store); /* their updates go to the owners */
    if (!tide__owner_leave(store, drain->looks++ % LOOKS_AN_OFFER == 0) || copies) {
        memset(drain->awaited, 0, sizeof drain->awaited);
        drain->asked = false;
        return;
    }
    if (!drain->asked) {
        ask_all(store, drain);
        drain->asked = true;
    }
    if (all_answered(store, drain) || TIDE_MUTANT(leave_unflushed)) {
        store->drained = true;
        tide__move_send(store, tide_net_controller(store->net), TIDE__OP_DRAINED, 0, 0, 0, NULL, 0,
                        NULL, 0);
    }
}

/* [turn]; the op is read. */
void tide__drain_message(struct tide_store *store, uint16_t from, int op, struct tide_reader *r) {
    const uint64_t turn = tide_read_uint(r);
    struct tide__drain *drain = store->drain;
    if (r->error || from >= TIDE__NODES) {
        atomic_fetch_add_explicit(&store->malformed, 1, memory_order_relaxed);
    } else if (op == TIDE__OP_FLUSH) {
        say(store, from, TIDE__OP_FLUSHED, turn);
    } else if (drain && drain->turn == turn) { /* else something came since */
        drain->awaited[from / 8] &= (uint8_t)~(1u << (from % 8));
    }
}

void tide__drain_again(struct tide_store *store) {
    store->drained = false;
    if (store->drain) {
        store->drain->look_at = 0;
    }
}
