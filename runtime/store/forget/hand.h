/* The technique of tables that forget (rows/forget.h): their part of the store's life, and the hand. */
#ifndef TIDE_STORE_HAND_H
#define TIDE_STORE_HAND_H

#include "store/core/technique.h"

extern const struct tide__technique tide__forgetful;
/* Looks at the slots whose turn it is, at time `now`; when the next one has its turn, UINT64_MAX: none. I/O thread. */
uint64_t tide__hand_turn(struct tide_table *table, uint64_t now);

#endif
