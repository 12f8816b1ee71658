/* The controller goes away, and another one announces itself (leader_change.c). */
#ifndef TIDE_NET_LEADER_CHANGE_H
#define TIDE_NET_LEADER_CHANGE_H

#include "net/link/hello.h"
#include "wire/wire.h"

struct known;
struct tide_link;
struct tide_net;
struct tide_peer;
struct tide_session;

/* [term, number, durable, members]: from the controller, or a node that believes to be it. */
void tide__succession_view(struct tide_link *link, struct tide_reader *r);
/* Returns whether the hello is that of a controller without a record at this node. */
bool tide__succession_announced(const struct tide_net *net, const struct tide_hello *hello);
/* The session with the controller has ended, before it sent this node a view. */
void tide__succession_unseen(struct tide_net *net);
/* The same, later. */
void tide__succession_lost(struct tide_net *net, struct known *controller, const char *reason);
/* Does a client look for the controller? */
bool tide__succession_seeks(const struct tide_net *net);
/* A client's dial of the controller that it looks for has failed: it is gone for that reason, or, NULL, silent. */
void tide__succession_vain(struct tide_net *net, const struct tide_peer *peer, const char *reason);
void tide__succession_tick(struct tide_net *net, uint64_t now);
/* The controller has been silent for long. */
void tide__succession_silent(struct tide_session *session, const char *reason);
/* It was decided that this node is dead, or has left, and it could not be notified. */
void tide__succession_refused(struct tide_net *net, bool dead, const char *reason);

#endif
