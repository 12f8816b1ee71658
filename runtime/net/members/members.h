/* The member list: views, and what follows from them (members.c). */
#ifndef TIDE_NET_MEMBERS_H
#define TIDE_NET_MEMBERS_H

#include "net/link/hello.h"
#include "net/net.h"
#include "wire/wire.h"

enum {
    CLIENT_ID_MIN = 0x8000,
    DEPARTED_MAX = 512, /* dead and left members that views still carry */
    MEMBERS_MAX = 4096, /* living ones */
};

struct tide_link;
struct tide_peer;
struct tide_session;

struct known {
    struct tide_member member;
    bool unsettled; /* effects and watchers are still to come; set by tide__members_unsettle */
    bool counted;   /* in net->living */
    bool noted;     /* that it is up */
    /* controller */
    uint8_t wanted; /* the state it is to have, not decided yet; not above the one it has: none */
    char wanted_reason[120];
    uint64_t since; /* when it was admitted here, or this controller took over */
    bool ends;      /* it is about to, rows and all: then it has left */
};
void tide__members_receive(struct tide_link *link, const struct tide_frame *frame);
/* Is it the last message of its sender, as clients send it too? */
bool tide__members_is_goodbye(const struct tide_frame *frame);
void tide__members_link_up(struct tide_net *net, struct tide_peer *peer);
void tide__members_link_lost(struct tide_net *net, struct tide_peer *peer, const char *reason);
void tide__members_goodbye(struct tide_link *link);
void tide__members_leave(struct tide_link *link);
void tide__members_silent(struct tide_session *session, uint64_t now);
void tide__members_heard(struct tide_net *net, struct tide_peer *peer);
void tide__members_tick(struct tide_net *net, uint64_t now);
struct known *tide__members_find(struct tide_net *net, uint16_t id);
/* Ids rise: may a later view name this one, which no view has named yet? */
bool tide__members_may_come(struct tide_net *net, uint16_t id);
struct known *tide__members_add(struct tide_net *net, const struct tide_member *member); /* NULL: ENOMEM */
/* The member has changed: to be published, then settled. */
void tide__members_unsettle(struct tide_net *net, struct known *known);
/* Effects and watchers of all that changed; safe to call from inside a watcher. */
void tide__members_settle(struct tide_net *net);
void tide__members_publish(struct tide_net *net);
void tide__members_welcomed(struct tide_net *net, struct tide_peer *controller, const struct tide_welcome *welcome);
void tide__members_write_view(struct tide_net *net, struct tide_writer *w);
/* The view as the changes since view `base`: for nodes that have that. */
void tide__members_write_news(struct tide_net *net, struct tide_writer *w, uint64_t base,
                              const struct tide_member *members, size_t count);
void tide__member_write(struct tide_writer *w, const struct tide_member *member);
int tide__members_apply_view(struct tide_net *net, struct tide_reader *r);
void tide__members_report_ready(struct tide_net *net);
/* What the controller may have missed while there was no connection. */
void tide__members_report_again(struct tide_net *net, struct tide_link *link);
void tide__members_cast(struct tide_net *net, struct tide_link *link, const struct tide_writer *w);

#endif
