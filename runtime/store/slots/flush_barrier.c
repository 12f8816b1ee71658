/*
 * Has what this node sent been dealt with? All members are asked in the ordered lane, and answer at
 * once: FLUSH, FLUSHED. A node that is gone need not answer.
 */
#include "store/core/send.h"
#include "store/slots/move.h"

void tide__flush_barrier_ask(struct tide_store *store, struct tide__flush_barrier *barrier) {
    memset(barrier->awaited, 0, sizeof barrier->awaited);
    barrier->turn = ++store->moves->barriers;
    for (uint16_t node = 1; node < store->members_end; node++) {
        if (node != tide__store_self(store) && tide__member_lives(store, node)) {
            barrier->awaited[node / 8] |= (uint8_t)(1u << (node % 8));
            (void)tide__store_tell(store, node, TIDE__AS(FLUSH, .turn = barrier->turn)); /* or it is gone soon */
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

int tide__flush_message(struct tide_store *store, struct tide__incoming *in) {
    (void)tide__store_tell(store, in->from, TIDE__AS(FLUSHED, .turn = in->as.FLUSH.turn));
    return 0;
}

int tide__flushed_message(struct tide_store *store, struct tide__incoming *in) {
    if (in->from >= TIDE__NODES) {
        return TIDE_EPROTO;
    }
    tide__drain_flushed(store, in->from, in->as.FLUSHED.turn);
    tide__slot_sends_flushed(store, in->from, in->as.FLUSHED.turn);
    return 0;
}
