/* Signs of life that neighbours report of other members (gossip.c). */
#ifndef TIDE_NET_GOSSIP_H
#define TIDE_NET_GOSSIP_H

#include "wire/wire.h"

struct tide_link;
struct tide_session;

/* nil: the sender does not count on the receiver's beats; else [id, ms since it was heard, ...]. */
void tide__gossip_write(const struct tide_link *link, struct tide_writer *w, uint64_t now);
int tide__gossip_read(struct tide_link *link, struct tide_reader *r, uint64_t now);
/* Is the silence of a peer to be reported now? */
bool tide__gossip_confirms(const struct tide_session *session, uint64_t now);

#endif
