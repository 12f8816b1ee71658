/* Other members are asked before a silent peer is reported (probe.c). */
#ifndef TIDE_NET_PROBE_H
#define TIDE_NET_PROBE_H

#include "wire/wire.h"

struct tide_link;
struct tide_net;
struct tide_peer;
struct tide_session;

/* Has this node a fresh sign of life of the peer? */
bool tide__probe_hears(struct tide_net *net, const struct tide_peer *peer, uint64_t now);
/* Is the silence of a peer to be reported now? Asks others. */
bool tide__probe_confirms(struct tide_session *session, uint64_t now);
void tide__probe_receive(struct tide_link *link, unsigned verb, struct tide_reader *r);

#endif
