/*
 * Private to the net room: what its files share of a node.
 *
 * Everything belongs to I/O thread 0 except what is marked otherwise. A *peer* is another node by
 * id: its admission counters are used by every thread, so it is never freed while the node lives. A
 * *link* is one connection, from dial or accept to the stream's `closed`. A *session* is what two
 * incarnations have in flight between them; it outlives its links. A *known* node is an entry of
 * the member list.
 *
 *   keys.c       certificates and what they say; tls.c, channel.c: streams under TLS
 *   link.c       channels, frames in and out, beats
 *   session.c    sessions: what survives a reconnect
 *   handshake.c  hello to hello_ok
 *   peer.c       peers, admission, credit
 *   memory_credit.c     what nodes say of their memory, and the windows that this leaves
 *   members.c    views and what follows from them
 *   ring.c       which nodes are linked, and whose beats count
 *   gossip.c     signs of life that neighbours report
 *   probe.c      others are asked before a silent peer is reported
 *   local_health.c     how long live nodes stall here
 *   leader_change.c the controller goes away, another one announces itself
 *   controller.c which nodes may join, are dead, have left
 *   decision.c   how the controller's decisions are recorded and announced
 *   quorum.c    several nodes hold them: which leads, which hold the log
 *   net.c        the contract of net.h, the turn's hook
 */
#ifndef TIDE_NET_STATE_H
#define TIDE_NET_STATE_H

#include "base/limits.h"
#include "control/raft_log.h"
#include "net/net.h"
#include "net/members/ring.h"
#include "net/members/view.h"

#define JOIN_PATIENCE                                                                                                  \
    (9 * TIDE_SECOND) /* a joiner, or a client that lost it, looks for a controller so long, and                       \
                         has the reason of a failure before a waiter times out (node.c) */

struct known;
struct report;
struct tide_link;
struct tide_outbox_room;
struct tide_peer;
struct tide_session;
struct tide_tls;

struct tide_net {
    /* set once */
    struct tide_system *system;
    struct tide_port *port;
    struct tide_executor *executor;
    tide_address members_actor;
    char cluster[64]; /* "" of a client without the name, until it has joined */
    char listen[160], join[160], wanted_name[64];
    uint64_t incarnation;
    uint16_t workers;
    bool store, client;
    int32_t pid;
    uint8_t right;        /* enum tide_right: a client's, that it asks for */
    struct tide_tls *tls; /* NULL: no keys; I/O thread once made */

    /* any thread, atomic */
    atomic_uint id, controller;
    atomic_bool opened, join_wanted, leave_wanted;
    atomic_uint sessions_lost;                                  /* client: with members, the controller included */
    atomic_bool durable;                                        /* the controller may go and be started again */
    atomic_uint_fast64_t memory_used, memory_cap, memory_grant; /* memory_credit.c: of this node */
    atomic_uint memory_tier;
    void (*_Atomic memory_changed)(void *arg, uint16_t id); /* NULL: none */
    void *memory_arg;                                       /* set before */

    /* any thread, under lock */
    struct tide_lock lock;
    struct tide_member_watch *new_watches;
    struct tide_member *published;
    size_t published_count, published_capacity;
    uint64_t published_view;
    bool published_late; /* I/O thread: it lacks changes other than the unsettled ones */
    int state, code;
    char reason[200];

    /* I/O thread */
    struct tide_link *links;
    struct tide_session *sessions;
    struct known *members; /* by id */
    size_t member_count, member_capacity;
    uint64_t tick_at;
    uint64_t join_until, join_again; /* TIDE_NEVER: no further attempt is due */
    /* what a turn has to look at: most links and sessions are idle in most turns */
    struct tide_link *dirty, **dirty_tail;
    struct tide_session *active;
    struct tide_session *awake; /* what a tick has to look at: all in small clusters, else see ring.c */
    uint64_t deadline;          /* no link has an earlier one */
    bool settling, joining, leave_sent, finished, tick_soon;
    struct tide_outgoing *early, **early_tail; /* to nodes that no view names yet */
    uint64_t early_since;
    bool attend;  /* peers without a session are to be dialled, or messages wait for them */
    bool ringed;  /* too many for links all to all */
    bool turned;  /* members came or went since the last tick */
    uint16_t hub; /* the controller at the last tick */
    uint16_t neighbours[RING_NEIGHBOURS];
    unsigned neighbour_count;
    struct tide_outbox_room *spare_room; /* buffers that no link needs at the moment; NULL */
    struct tide_blob *spare_chunk;
    struct tide_listener *listener;
    char name[64], endpoint[160], controller_endpoint[160];
    struct tide_random random;            /* of redials */
    size_t unsettled_low, unsettled_high; /* unsettled members are in [low, high) */
    uint64_t view, term;                  /* of the controller: the highest one received */
    bool controls;                        /* this node is the controller */
    uint64_t told;                        /* the last term in which this node as controller announced a view */
    bool away;                            /* it is gone; the next controller will announce that */
    struct tide_member_watch *watches;    /* those that were notified of all members already */
    size_t living;                        /* members that settled as such */
    bool unpublished;                     /* members have changed since they were published */
    bool parked;                          /* hellos of nodes that no view names wait for the next one */
    bool asks_again;                      /* a joiner whose controller went before the first view */
    unsigned redirects;
    uint64_t away_since;
    uint64_t standstill, standstill_at; /* local_health.c: the longest, and when it ended */
    atomic_uint_fast64_t silence;       /* local_health.c: granted in any case, as was asked for; 0: the default */
    bool far;                           /* it is of other machines */
    uint64_t violations, violations_logged, violations_second;
    uint64_t keys_at; /* when the files of the keys are looked at again */
    /* controller, and the holders of its log */
    struct tide_control *control; /* NULL: none */
    struct tide_control *alone;   /* what this node decided with before it shared a log; NULL: none */
    bool control_refused;         /* this node was to hold the log, and cannot */
    uint8_t controllers;          /* so many are to hold it; 0: it is not replicated */
    char state_directory[300];    /* where a holder keeps it; empty: nowhere */
    struct tide_raft_logs former; /* first node: the logs that it continued from */
    bool hands_over;              /* another one is to lead as soon as so many hold it */
    bool deciding;                /* a decision is being recorded */
    bool announce;                /* a view is due though no member changes */
    struct tide_member joiner;    /* wanted; id 0: none */
    uint16_t next_id, next_client;
    atomic_bool evacuations; /* any thread */
    struct report *reports;

    _Atomic(_Atomic(struct tide_peer *) *) pages[256]; /* any thread: see tide__peer */
};

/* The attempt to join has failed: another one follows while there is time, if `passing`. */
void tide__join_failed(struct tide_net *net, bool passing, int code, const char *reason);

static inline uint16_t tide__net_id(struct tide_net *net) {
    return (uint16_t)atomic_load_explicit(&net->id, memory_order_relaxed);
}
/* Until tide_net_join the actors that others write to may not be there: no peer is dialled or answered. */
static inline bool tide__net_is_complete(const struct tide_net *net) {
    return net->joining || TIDE_MUTANT(answers_half_made);
}
static inline uint64_t tide__net_now(struct tide_net *net) {
    return tide_port_now(net->port);
}
void tide__net_wake(struct tide_net *net);
/* This node's own end or progress. The first of LEFT and DEAD is final. */
void tide__net_become(struct tide_net *net, enum tide_member_state state, int code, const char *reason);
void tide__net_finish(struct tide_net *net, bool orderly); /* closes listener and links */

#endif
