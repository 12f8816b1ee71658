/* The store actor (actor.c). */
#ifndef TIDE_STORE_ACTOR_H
#define TIDE_STORE_ACTOR_H

#include "store/core/technique.h"

tide__handler tide__members_message; /* MEMBERS */
int tide__store_handle(void *state, const struct tide_message *message);

#endif
