/* Names of the store's messages, for people who look at them. */
#include "store/core/internal.h"

const char *tide_store_message_name(uint64_t op) {
#define OP(name) [TIDE__OP_##name] = #name
    static const char *const names[TIDE__OP_COUNT] = {
        OP(PULL),        OP(PUSH),         OP(LOCALIZE),    OP(LOC),         OP(OFFER),
        OP(REPLY),       OP(MAP),          OP(MAP_DONE),    OP(TABLE),       OP(TABLE_DONE),
        OP(SYNCED),      OP(CREATE),       OP(KEYS),        OP(CLEAR),       OP(MOVE_SLOTS),
        OP(EXPECT),      OP(EXPECTED),     OP(MOVE),        OP(ROWS),        OP(SLOT_DONE),
        OP(SLOT_HERE),   OP(MOVED),        OP(DRAINED),     OP(HAND),        OP(XFER),
        OP(LOST),        OP(FAILED),       OP(PASSED),      OP(SLOT_KEYS),   OP(MEMBERS),
        OP(DELTA),       OP(ASK),          OP(VALUE),       OP(FRESH),       OP(UNSUB),
        OP(TICK),        OP(TICK_FORWARD), OP(ROUTE),       OP(FENCE),       OP(FENCED),
        OP(SLOT_CLOCKS), OP(ROUND),        OP(ROUNDED),     OP(BOUND),       OP(REPL),
        OP(ACKR),        OP(SNAP),         OP(LEASE_ASK),   OP(LEASE),       OP(GROUPS),      OP(SAFE),
        OP(REBUILD),     OP(REBUILT),      OP(COPY_FAILED), OP(CUT_ASK),     OP(CUT_TELL),
        OP(CUT_OPEN),    OP(CUT_SETTLE),   OP(CUT_WALK),    OP(CUT_COLLECT), OP(CUT_ABORT),
        OP(CUT_WALKING), OP(CUT_WROTE),    OP(TRACE),       OP(SEEN),        OP(VISIBLE),
        OP(MANAGE),      OP(TECHNIQUE),    OP(RECALL),      OP(FORGET),      OP(SHARE_FLUSH),
        OP(FLUSH),       OP(FLUSHED),      OP(PART),        OP(INTENT),      OP(DONE),         OP(ADVICE),      OP(NOTICE),       OP(STAY),
    };
#undef OP
    return op < TIDE__OP_COUNT ? names[op] : NULL;
}
