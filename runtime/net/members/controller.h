/* The controller's part: which nodes may join, are dead, have left (controller.c). */
#ifndef TIDE_NET_CONTROLLER_H
#define TIDE_NET_CONTROLLER_H

#include "net/link/hello.h"
#include "wire/wire.h"

struct tide_link;
struct tide_net;

struct report {
    struct report *next;
    uint16_t reporter, subject;
    bool lost; /* the connection is gone, not only silent */
    uint64_t since;
    char reason[96];
};

/* Decides on a joiner or client; gives id and name. 1: not decided yet. Negative: refused, text in
 * the error slot. */
int tide__controller_admit(struct tide_net *net, const struct tide_hello *hello, uint16_t *id, char name[64]);
void tide__controller_greet(struct tide_net *net, struct tide_link *link); /* after admit, link established */
void tide__controller_receive(struct tide_net *net, uint16_t from, unsigned verb, struct tide_reader *r);
void tide__controller_report(struct tide_net *net, uint16_t reporter, uint16_t subject, bool lost, const char *reason);
void tide__controller_withdraw(struct tide_net *net, uint16_t reporter, uint16_t subject);
void tide__controller_resolve(struct tide_net *net, uint64_t now);
void tide__controller_ends(struct tide_net *net, uint16_t id);
void tide__controller_leaving(struct tide_net *net, uint16_t id);
void tide__controller_end(struct tide_net *net);
void tide__controller_release(struct tide_net *net);

#endif
