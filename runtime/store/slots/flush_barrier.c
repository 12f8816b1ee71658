/*
 * Has what this node sent been dealt with? All members are asked in the ordered lane, and answer at
 * once: FLUSH, FLUSHED. Who is gone needs not answer.
 */
#include "store/core/send.h"
#include "store/slots/move.h"

void tide__flush_barrier_ask(struct tide_store *store, struct tide__flush_barrier *barrier) {
    memset(barrier->awaited, 0, sizeof barrier->awaited);
    barrier->turn = ++store->moves->barriers;
    for (uint16_t node = 1; node < store->members_end; node++) {
        if (node != tide__store_self(store) && tide__member_lives(store, node)) {
            barrier->awaited[node / 8] |= (uint8_t)(1u << (node % 8));
            (void)tide__store_say(store, node, TIDE__OP_FLUSH, barrier->turn); /* or it is gone soon */
        }
    }
}

bool tide__flush_barrier_came(const struct tide_store *store, const struct tide__flush_barrier *barrier) {
    for (unsigned node = 1; node < store->members_end; node++) {
        if ((barrier->awaited[node / 8] >> (node % 8) & 1) && tide__member_lives(store, node)) {
            return false;
        }
    }
    return true;
}

void tide__flush_barrier_hear(struct tide__flush_barrier *barrier, uint16_t from, uint64_t turn) {
    if (barrier->turn == turn) { /* else it was asked again since */
        barrier->awaited[from / 8] &= (uint8_t) ~(1u << (from % 8));
    }
}

/* [turn]; the op is read. */
int tide__flush_barrier_message(struct tide_store *store, struct tide__incoming *in) {
    struct tide_reader *r = &in->body;
    const uint16_t from = in->from;
    const int op = in->op;
    const uint64_t turn = tide_read_uint(r);
    if (r->error || from >= TIDE__NODES) {
        return TIDE_EPROTO;
    }
    if (op == TIDE__OP_FLUSH) {
        (void)tide__store_say(store, from, TIDE__OP_FLUSHED, turn);
    } else {
        tide__drain_flushed(store, from, turn);
        tide__slot_sends_flushed(store, from, turn);
    }
    return 0;
}
