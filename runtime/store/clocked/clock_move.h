/* Between clock_move.c (slots change their home) and tick_forward.c (which node sends by which way). I/O thread 0. */
#ifndef TIDE_STORE_CLOCK_MOVE_H
#define TIDE_STORE_CLOCK_MOVE_H

#include "store/clocked/clocked.h"

/* A node's clock as an old home sent it. A node without workers there may have been counted in here
 * since (round.c): then it began at the slot's clock or later. */
uint32_t tide__tick_forward_clock(struct tide__clocked *c, uint16_t node, uint32_t told, uint32_t announced);
void tide__tick_forward_end(struct tide__clocked *c, uint32_t slot, uint16_t node);
/* What a node said, or is known to do: it sends the slot straight to this home. */
void tide__declare(struct tide__clocked *c, uint16_t node, uint32_t slot, bool straight);
/* Flush lock held: behind every update that was sent. `answer`: the other is to declare too. */
void tide__route_send(struct tide__clocked *c, uint16_t to, bool answer, const uint32_t *slots, size_t count);

#endif
