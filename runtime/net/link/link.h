/* Connections, from dial or accept to the stream's `closed` (link.c). */
#ifndef TIDE_NET_LINK_H
#define TIDE_NET_LINK_H

#include "net/link/decoder.h"
#include "net/link/hello.h"
#include "net/link/outbox.h"
#include "net/net.h"
#include "net/tls/channel.h"

enum {
    UNAUTHENTICATED_MAX = 64, /* connections of this node's user that have not said hello */
    STRANGERS_MAX = 48,       /* and of all others together */
    STRANGER_SHARE = 8,       /* of one of them */
};

#define BEAT_INTERVAL tide_limit(net_beat_interval)
#define ALIVE_WITHIN (1 * TIDE_SECOND) /* a peer heard so lately has not lost its session */

struct tide_peer;
struct tide_session;
enum link_state {
    LINK_DIALLING, /* outgoing, not connected yet */
    LINK_GREETING, /* hello is in flight, in either direction */
    LINK_PARKED,   /* a hello of a node that no view names yet */
    LINK_UP,
    LINK_DRAINING, /* closes when all is written */
    LINK_CLOSED,   /* `closed` of the stream is to come */
};
enum link_purpose {
    LINK_ACCEPTED,
    LINK_JOIN,
    LINK_MESH,
    LINK_KNOCK, /* asks the peer, whose part it is, to dial */
};

/* What every tick, write and read touches comes first: a large cluster's links do not stay in a
 * cache. */
struct tide_link {
    struct tide_net *net;
    struct tide_peer *peer;       /* mesh and knock: from the start; else once up */
    struct tide_session *session; /* once up */
    struct tide_channel channel;
    uint8_t state, purpose;
    uint8_t right;                    /* enum tide_right: of the peer here, for the link's life */
    bool blocked;                     /* the socket is full: `writable` follows */
    bool dirty;                       /* in net->dirty: it may have something to write */
    uint64_t wrote;                   /* when bytes last went out */
    uint64_t beat_at;                 /* when a beat last did */
    uint64_t counted_on;              /* when the peer last said that it waits for beats; 0: never */
    uint64_t peer_sent, peer_sent_at; /* the peer's clock in its last beat, and ours when it came */
    uint64_t bytes_in;
    struct tide_link *next_dirty;
    struct tide_decoder decoder;
    struct tide_link *next, **place;
    uint64_t deadline;                /* of the present state, or TIDE_NEVER */
    struct tide_outbox greeting;      /* before there is a session */
    struct tide_hello hello;          /* of a parked one */
    struct tide_peer_identity origin; /* of an accepted one */
    char remote[64];
};

int tide__link_dial(struct tide_net *net, const char *endpoint, enum link_purpose purpose, struct tide_peer *peer);
void tide__link_accepted(void *net, struct tide_stream *stream);
void tide__link_own(struct tide_link *link, enum tide_frame_kind kind, const void *body, size_t size);
/* It may have something to write: the turn's end sees to it. */
void tide__link_touch(struct tide_link *link);
/* A message was queued: the same, but as much as fills a batch is written at once. */
void tide__link_queued(struct tide_link *link);
void tide__links_flush(struct tide_net *net);
void tide__link_close(struct tide_link *link); /* now */
void tide__link_drain(struct tide_link *link); /* when all is written */
/* True if one more line about peers that misbehave may be logged in this second; counts them. */
bool tide__link_may_log(struct tide_net *net);
/* An accepted connection that was refused, for the audit log. */
void tide__link_audit_refusal(const struct tide_link *link, const char *why);
void tide__link_violation(struct tide_link *link, const char *reason);
/* The handshake is over; link->session is set. */
void tide__link_established(struct tide_link *link);
/* Ends those whose deadlines are over. */
void tide__links_expire(struct tide_net *net, uint64_t now);
void tide__link_beat(struct tide_link *link, uint64_t now); /* if one is due */
/* Closes those whose certificates were revoked, or have expired. */
void tide__links_judge(struct tide_net *net);
void tide__link_free(struct tide_link *link);

#endif
