/* The technique of tables that forget (rows/forget.h): table life and the hand. */
#ifndef TIDE_STORE_HAND_H
#define TIDE_STORE_HAND_H

#include "store/core/technique.h"

extern const struct tide__technique tide__forgetful;
/* Expires rows in the slots that are due at `now`. Returns when the next slot is due; UINT64_MAX: never. I/O thread. */
uint64_t tide__hand_turn(struct tide_table *table, uint64_t now);

#endif
