/* The messages of the store actor (inbox.c). */
#ifndef TIDE_STORE_INBOX_H
#define TIDE_STORE_INBOX_H

#include "store/core/technique.h"

int tide__shard_handle(void *state, const struct tide_message *message);
/* Reads the id of a table and finds it. NULL: there is none of that id, and the message counts as late, not as damaged,
 * whatever its handler returns. */
struct tide_table *tide__incoming_table(struct tide_store *store, struct tide__incoming *in);

#endif
