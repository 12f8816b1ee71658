/* Other nodes by id: admission, credit and what waits for a session (peer.c). */
#ifndef TIDE_NET_PEER_H
#define TIDE_NET_PEER_H

#include "actor/actor.h"

struct credit_waiter {
    struct credit_waiter *next;
    struct tide_fiber *fiber;
    size_t bytes, window;
    unsigned lane;
};

struct tide_link;
struct tide_net;
struct tide_session;
struct tide_peer {
    uint16_t id;
    /* any thread, atomic */
    atomic_bool reachable;                             /* admission is open */
    atomic_uint_fast64_t outstanding[TIDE_LANE_COUNT]; /* bytes admitted or sent that the peer has not consumed */
    atomic_uint_fast64_t memory_used, memory_cap, memory_grant; /* as reported: memory_credit.c */
    atomic_uint memory_tier;
    struct tide_net *net;
    struct tide_lock lock;
    struct credit_waiter *waiters; /* under lock */
    atomic_bool up;                /* counters: written by the I/O thread */
    atomic_uint_fast64_t bytes_out, bytes_in, frames_out, frames_in, writes, queue_bytes, round_trip_ns;
    atomic_uint_fast64_t consumed[TIDE_LANE_COUNT]; /* by the peer, as it acknowledged */
    /* I/O thread */
    struct tide_link *link;       /* dialling or up; NULL */
    struct tide_session *session; /* with a link or waiting for one; NULL */
    uint64_t incarnation;
    uint64_t attempt;                              /* of the last hello, ours or theirs: the dialler counts */
    struct tide_outgoing *waiting, **waiting_tail; /* until there is a session */
    uint64_t waiting_since;
    uint64_t redial_at, redial_delay; /* TIDE_NEVER: not now */
    bool knocked;                     /* it has asked this node to dial */
    bool lost;                        /* its session ended: this incarnation gets no second one */
};

struct tide_peer *tide__peer(const struct tide_net *net, uint16_t id); /* any thread; NULL: never seen */
struct tide_peer *tide__peer_make(struct tide_net *net, uint16_t id);  /* NULL: ENOMEM */
void tide__peers_each(struct tide_net *net, void (*visit)(struct tide_peer *peer));
void tide__peers_release(struct tide_net *net);
/* window: of the lane, if the sender requires less than the lane has; 0: all of it. */
int tide__peer_admit(struct tide_peer *peer, enum tide_lane lane, size_t bytes, size_t window,
                     struct tide_fiber *waiter);
void tide__peer_charge(struct tide_peer *peer, unsigned lane, size_t bytes);   /* prepaid messages */
void tide__peer_credit(struct tide_peer *peer, unsigned lane, uint64_t bytes); /* consumed, or never sent */
void tide__peer_wake(struct tide_peer *peer);
size_t tide__credit_window(unsigned lane); /* 0: the lane needs none */
/* What of it the grants of the peer and of this node leave. */
size_t tide__credit_left(struct tide_peer *peer, unsigned lane);
void tide__peer_send(struct tide_net *net, struct tide_outgoing *message); /* *takes* */
void tide__peer_fail_waiting(struct tide_net *net, struct tide_peer *peer, int code, const char *reason);
/* Its end, for every layer above: queues fail, credit is released, calls end with code.
 */
void tide__peer_down(struct tide_net *net, struct tide_peer *peer, int code, const char *reason);
/* The net is finished: what waits for a peer ends, or of all, if nothing leads there any more. */
void tide__peer_part(struct tide_peer *peer);
void tide__peers_part(struct tide_net *net);
/* Messages to nodes without a view: send them with the new view, or fail them. */
void tide__peers_came(struct tide_net *net);
void tide__peers_fail_early(struct tide_net *net, int code, const char *reason);

#endif
