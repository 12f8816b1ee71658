/* Which nodes are linked in a large cluster, and whose beats count (ring.c). */
#ifndef TIDE_NET_RING_H
#define TIDE_NET_RING_H

#include "net/net.h"
#include "base/base.h"

enum {
    RING_MEMBERS = 64, /* as many are linked all to all */
    RING_REACH = 4,    /* in a larger cluster, so many on each side */
    RING_NEIGHBOURS = 2 * RING_REACH,
};

#define RING_INTERVAL (500 * TIDE_MILLISECOND) /* of beats between neighbours of a ring */
#define HUB_INTERVAL (1 * TIDE_SECOND)         /* of those with its controller */

struct tide_link;
struct tide_net;
struct tide_peer;
struct tide_session;

/* The neighbours of a member by this node's view; returns how many. */
unsigned tide__ring_neighbours(struct tide_net *net, uint16_t id, uint16_t out[RING_NEIGHBOURS]);
/* The view has changed: other neighbours, links to dial. */
void tide__ring_refresh(struct tide_net *net);
bool tide__ring_is_neighbour(const struct tide_net *net, uint16_t id);
/* Between two looks at all links: in a ring, whose beats are seldom, less often. */
uint64_t tide__ring_tick(const struct tide_net *net);
/* Between beats with a peer; TIDE_NEVER: there are none. */
uint64_t tide__ring_interval(const struct tide_net *net, uint16_t id);
/* Is this node to hear the peer's beats? */
bool tide__ring_watches(const struct tide_net *net, uint16_t id);
bool tide__ring_beat_due(const struct tide_link *link, uint64_t now); /* of a link that is up */
/* Does the peer's silence not count at the moment? */
bool tide__ring_excuses(const struct tide_session *session);
/* Has a tick nothing to see to until the session is roused? */
bool tide__ring_rests(const struct tide_session *session, uint64_t now);
/* Rouses all sessions, if this node may have come to watch others since the last tick. */
void tide__ring_turn(struct tide_net *net);
/* A message waits for a link to the peer. */
void tide__ring_wanted(struct tide_net *net, struct tide_peer *peer);
/* The peer requests a dial of this node. */
void tide__ring_knocked(struct tide_net *net, struct tide_peer *peer);

#endif
