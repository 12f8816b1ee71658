/* One worker's operations on a row take effect in the order of its calls (program_order.c). */
#ifndef TIDE_STORE_PROGRAM_ORDER_H
#define TIDE_STORE_PROGRAM_ORDER_H

#include "store/operation/pending.h"

/* Part of an unanswered message; pending lock held. */
struct tide__program_order {
    struct tide_fiber *fiber; /* of an asynchronous pull: whose; NULL: it is none */
    bool follows;             /* and waits for the end */
};

/* Waits until asynchronous pulls of this fiber with one of the keys are answered. ETIMEDOUT,
 * ECANCELED, ENOMEM. */
int tide__program_order_wait(struct tide_table *table, const uint64_t *keys, size_t count);
/* Would it have to? */
bool tide__program_order_is_held(struct tide_table *table, const uint64_t *keys, size_t count);
/* A message is made; it ends, with the pending lock held. */
void tide__program_order_begin(struct tide__pending *p, const void *keys, bool async);
void tide__program_order_end(struct tide__pending *p);

#endif
