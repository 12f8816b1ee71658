/*
 * Has what this node sent been dealt with? All members are asked in the ordered lane, and answer at
 * once: FLUSH, FLUSHED. Who is gone needs not answer.
 */
#include "store/slots/move.h"

void tide__echo_ask(struct tide_store *store, struct tide__echo *echo) {
    memset(echo->awaited, 0, sizeof echo->awaited);
    echo->turn = ++store->moves->echoes;
    for (uint16_t node = 1; node < store->members_end; node++) {
        if (node != tide__store_self(store) && tide__member_lives(store, node)) {
            echo->awaited[node / 8] |= (uint8_t)(1u << (node % 8));
            (void)tide__store_say(store, node, TIDE__OP_FLUSH, echo->turn); /* or it is gone soon */
        }
    }
}

bool tide__echo_came(const struct tide_store *store, const struct tide__echo *echo) {
    for (unsigned node = 1; node < store->members_end; node++) {
        if ((echo->awaited[node / 8] >> (node % 8) & 1) && tide__member_lives(store, node)) {
            return false;
        }
    }
    return true;
}

void tide__echo_hear(struct tide__echo *echo, uint16_t from, uint64_t turn) {
    if (echo->turn == turn) { /* else it was asked again since */
        echo->awaited[from / 8] &= (uint8_t)~(1u << (from % 8));
    }
}

/* [turn]; the op is read. */
int tide__echo_message(struct tide_store *store, struct tide__incoming *in) {
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
        tide__drain_echo(store, from, turn);
        tide__departures_echo(store, from, turn);
    }
    return 0;
}
