/* What this node does for others (load.c). */
#ifndef TIDE_STORE_LOAD_H
#define TIDE_STORE_LOAD_H

#include "store/core/store.h"

struct tide__job;

/* Keys of an operation of another node came; takes the time that a test sets. */
void tide__load_served(struct tide__job *job);
/* The store actor worked for others from `began` on. */
void tide__load_busy(struct tide_store *store, uint64_t began);

#endif
