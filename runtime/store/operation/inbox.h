/* The messages of the store actor (inbox.c). */
#ifndef TIDE_STORE_INBOX_H
#define TIDE_STORE_INBOX_H

#include "store/core/technique.h"

/* A message that has no answer; of `from`, 0: this node. One that has. */
void tide__cast_handle(struct tide_store *store, const struct tide_message *message, uint16_t from);
void tide__call_handle(struct tide_store *store, const struct tide_message *message);
/* NULL: there is none of that id, and the message counts as useless (technique.h), not as damaged, whatever its handler
 * returns. */
struct tide_table *tide__incoming_table(struct tide_store *store, struct tide__incoming *in, uint64_t id);

#endif
