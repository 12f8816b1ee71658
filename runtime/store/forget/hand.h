/* The technique of tables that forget (rows/forget.h): life of the table, expiry, slots that move. */
#ifndef TIDE_STORE_HAND_H
#define TIDE_STORE_HAND_H

#include "store/core/technique.h"

extern const struct tide__technique tide__forgetful;
/* Deletes expired rows of the slots that are due at time `now`. Returns when the next slot is due; UINT64_MAX: never.
 * I/O thread. */
uint64_t tide__hand_turn(struct tide_table *table, uint64_t now);
tide__handler tide__sketch_message; /* SKETCH */

#endif
