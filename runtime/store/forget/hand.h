/* The technique of tables that forget (rows/forget.h): life of the table, expiry, slots that move. */
#ifndef TIDE_STORE_HAND_H
#define TIDE_STORE_HAND_H

#include "store/core/technique.h"

extern const struct tide__technique tide__forgetful;
tide__handler tide__sketch_message; /* SKETCH */

#endif
