/* How the controller's decisions are recorded and announced (decision.c). */
#ifndef TIDE_NET_DECISION_H
#define TIDE_NET_DECISION_H

#include "control/control.h"
#include "net/net.h"

struct known;

/* Takes over what is recorded: members, views and terms continue from there. */
int tide__decision_begin(struct tide_net *net);
/* What is recorded as "view": number of the last view, id of the next member. */
int tide__decision_numbers(const struct tide_control_state *state, uint64_t *view, uint64_t *next);
/* A member is to have a state; takes effect by tide__decide. */
void tide__decision_want(struct known *known, enum tide_member_state state, const char *reason);
/* A new member; takes effect by tide__decide. Its `id` is net->next_id. */
int tide__decision_add(struct tide_net *net, const struct tide_member *member);
/* One new view of all pending changes: recorded, then announced to all, then in effect here. Until it is
 * recorded nothing else is decided. */
void tide__decide(struct tide_net *net);

#endif
