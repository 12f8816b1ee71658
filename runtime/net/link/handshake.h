/* From hello to hello_ok (handshake.c). */
#ifndef TIDE_NET_HANDSHAKE_H
#define TIDE_NET_HANDSHAKE_H

#include "wire/wire.h"

enum { REDIRECTS_MAX = 3 };

struct tide_link;
struct tide_net;

void tide__handshake_begin(struct tide_link *link); /* dialler, connected */
int tide__handshake_frame(struct tide_link *link, const struct tide_frame *frame);
void tide__handshake_unpark(struct tide_net *net); /* a new view is there, or this node is complete */

#endif
