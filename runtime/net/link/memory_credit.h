/* What nodes report of their memory, behind the credit of a credit frame (memory_credit.c). */
#ifndef TIDE_NET_MEMORY_CREDIT_H
#define TIDE_NET_MEMORY_CREDIT_H

#include "net/net.h"
#include "wire/wire.h"

struct tide_peer;

enum { MEMORY_FIELDS = 4 };
void tide__memory_write(const struct tide_net *net, struct tide_writer *w);
int tide__memory_read(struct tide_peer *peer, struct tide_reader *r); /* EPROTO */
void tide__memory_forget(struct tide_peer *peer);                     /* its end */

#endif
