/* How long live nodes of this machine stall (local_health.c). */
#ifndef TIDE_NET_LOCAL_HEALTH_H
#define TIDE_NET_LOCAL_HEALTH_H

#include "net/net.h"

void tide__health_init(struct tide_net *net, const struct tide_net_options *options);
/* A live node, this or another one, stalled for so long. */
void tide__health_stood_still(struct tide_net *net, uint64_t now, uint64_t duration);
/* The silence that is granted now, beyond the usual time between beats. */
uint64_t tide__health_grace(const struct tide_net *net, uint64_t now);
/* The same for one member that is silent for longer than `grace`: its process may be asked. */
uint64_t tide__health_grace_of(const struct tide_net *net, const struct tide_member *silent, uint64_t grace);
/* Why a member is silent, as far as this machine can see: " (its process 7 is stopped)", or "". */
void tide__health_describe(const struct tide_net *net, const struct tide_member *silent, char out[64]);

#endif
