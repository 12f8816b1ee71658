/* The messages between store actors, by number (message.def); operations have the numbers of theirs. */
#ifndef TIDE_STORE_MESSAGE_H
#define TIDE_STORE_MESSAGE_H

#include <assert.h>

/* The last three: relocating tables. Wanted by a worker, by another node; not wanted any more. */
enum tide__kind {
    TIDE__PULL = 1,
    TIDE__PUSH = 2,
    TIDE__LOCALIZE = 3,
    TIDE__LOC = 4,
    TIDE__OFFER = 5,
    TIDE__CLOCKED = 6 /* of a ticket: a pull from a table with clocks */
};

enum tide__op { /* first element of every message; message.def */
                TIDE__OP_NONE,
#define TIDE__MESSAGE(name, cast, call, what) TIDE__OP_##name,
#include "store/core/message.def"
#undef TIDE__MESSAGE
                TIDE__OP_COUNT
};
_Static_assert((int)TIDE__OP_PULL == TIDE__PULL && (int)TIDE__OP_OFFER == TIDE__OFFER,
               "operations have the numbers of their messages");

#endif
