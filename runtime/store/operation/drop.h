/* Tables that are dropped, on a node (drop.c). I/O thread 0. */
#ifndef TIDE_STORE_DROP_H
#define TIDE_STORE_DROP_H

#include "store/core/technique.h"

tide__handler tide__drop_message; /* DROP */
/* Continues drops. When to look again, in ns; 0: there is nothing to drop. */
uint64_t tide__drop_advance(struct tide_store *store);
/* A table that was dropped and is not freed yet: its name; NULL: there is none. */
const char *tide__drop_unfinished(const struct tide_store *store);
void tide__drop_release(struct tide_store *store); /* of tables that still wait to be freed */

#endif
