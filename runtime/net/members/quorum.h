/* Several nodes hold the decisions: which leads, which hold the log (quorum.c). */
#ifndef TIDE_NET_QUORUM_H
#define TIDE_NET_QUORUM_H

#include "net/net.h"
#include "wire/wire.h"

bool tide__quorum_is(const struct tide_net *net);
int tide__quorum_begin(struct tide_net *net); /* the first node */
void tide__quorum_receive(struct tide_net *net, uint16_t from, struct tide_reader *r);
/* What is due; takes command or steps down. Returns when it is due again. */
uint64_t tide__quorum_turn(struct tide_net *net, uint64_t now);
/* Controller: sees to it that enough members hold the log. */
void tide__quorum_tick(struct tide_net *net);
void tide__quorum_step_down(struct tide_net *net);

#endif
