/* What the caller of an operation waits for (ticket.c). */
#ifndef TIDE_STORE_TICKET_H
#define TIDE_STORE_TICKET_H

#include "store/core/message.h"
#include "store/core/table.h"

struct tide__ticket {           /* lies in struct tide_ticket */
    atomic_uint_fast64_t state; /* waiting fiber 48 | remaining messages 16; 0: done */
    struct tide_table *table;
    float *rows;
    char *text;
    int *fates; /* of each key; see enum tide__fate. NULL: not requested */
    atomic_int result;
    uint8_t kind;
};
/* What became of a key: an error, or one of these. */
enum tide__fate {
    TIDE__FATE_DONE,
    TIDE__FATE_HERE, /* no other node has answered for it */
    TIDE__FATE_ROW   /* push: done, and its row came with the answer */
};
void tide__ticket_init(struct tide__ticket *ticket, struct tide_table *table, enum tide__kind kind, float *rows);
int tide__ticket_wait(struct tide__ticket *ticket);
void tide__ticket_finish(struct tide__ticket *ticket, int code, const char *text);
/* Keeps the first failure. Only the owner of a busy entry of the ticket, or its caller. */
void tide__ticket_error(struct tide__ticket *ticket, int code, const char *text);

#endif
