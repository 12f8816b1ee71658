/*
 * Private to the net room: the node's view of the cluster, its peers and its links.
 *
 * Everything belongs to I/O thread 0 except what is marked otherwise. A *peer* is another node by
 * id: its admission counters are used by every thread, so it is never freed while the node lives. A
 * *link* is one connection, from dial or accept to the stream's `closed`. A *session* is what two
 * incarnations have under way between them; it outlives its links. A *known* node is an entry of
 * the member list.
 *
 *   keys.c       certificates and what they say; tls.c, channel.c: streams under TLS
 *   link.c       channels, frames in and out, beats
 *   session.c    sessions: what survives a reconnect
 *   handshake.c  hello to hello_ok
 *   peer.c       peers, admission, credit
 *   memory_credit.c     what nodes say of their memory, and the windows that this leaves
 *   members.c    views and what follows from them
 *   ring.c       who is linked with whom, and whose beats count
 *   gossip.c     what neighbours have heard of others
 *   probe.c      others are asked before a silent peer is reported
 *   local_health.c     how long nodes that live stand still here
 *   leader_change.c the controller goes away, another one announces itself
 *   controller.c who may join, who is dead, who has left
 *   decision.c   how the controller's decisions are recorded and told
 *   quorum.c    several nodes hold them: who commands, who holds the log
 *   net.c        the contract of net.h, the turn's hook
 */
#ifndef TIDE_NET_INSIDE_H
#define TIDE_NET_INSIDE_H

#include "net/members/detector.h"
#include "net/members/view.h"
#include "base/limits.h"
#include "net/link/hello.h"
#include "control/raft_log.h"
#include "net/link/decoder.h"
#include "net/link/outbox.h"
#include "net/tls/channel.h"

#define TIDE_MILLISECOND UINT64_C(1000000)

enum {
    UNAUTHENTICATED_MAX = 64, /* connections of this node's user that have not said hello */
    STRANGERS_MAX = 48,       /* and of all others together */
    STRANGER_SHARE = 8,       /* of one of them */
    REDIRECTS_MAX = 3,
    CLIENT_ID_MIN = 0x8000,
    DEPARTED_MAX = 512, /* dead and left members that views still carry */
    MEMBERS_MAX = 4096, /* living ones */
    RING_MEMBERS = 64,  /* as many are linked all to all */
    RING_REACH = 4,     /* in a larger cluster, so many on each side */
    RING_NEIGHBOURS = 2 * RING_REACH,
};

#define BEAT_INTERVAL (100 * TIDE_MILLISECOND)
#define RING_INTERVAL (500 * TIDE_MILLISECOND) /* of beats between neighbours of a ring */
#define HUB_INTERVAL (1 * TIDE_SECOND)         /* of those with its controller */
#define ALIVE_WITHIN (1 * TIDE_SECOND)         /* who was heard so lately has not lost its session */
#define JOIN_PATIENCE                                                                                                  \
    (9 * TIDE_SECOND) /* a joiner, or a client that lost it, looks for a controller so long, and                       \
                         knows why not before whoever waits for it gives up (node.c) */

/* ---- peers (peer.c) ---- */

struct credit_waiter {
    struct credit_waiter *next;
    struct tide_fiber *fiber;
    size_t bytes, window;
    unsigned lane;
};

struct tide_link;
struct tide_session;
struct tide_peer {
    uint16_t id;
    /* any thread, atomic */
    atomic_bool reachable;                             /* admission is open */
    atomic_uint_fast64_t outstanding[TIDE_LANE_COUNT]; /* bytes admitted or sent that the peer has not consumed */
    atomic_uint_fast64_t memory_used, memory_cap, memory_grant; /* as it told: memory_credit.c */
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
    uint64_t attempt;                              /* of the last hello, ours or theirs: whoever dials counts */
    struct tide_outgoing *waiting, **waiting_tail; /* until there is a session */
    uint64_t waiting_since;
    uint64_t redial_at, redial_delay; /* TIDE_NEVER: not now */
    bool knocked;                     /* it has asked this node to dial */
    bool lost;                        /* its session ended: this incarnation gets no second one */
};

struct tide_net;
struct tide_peer *tide__peer(const struct tide_net *net, uint16_t id); /* any thread; NULL: never seen */
struct tide_peer *tide__peer_make(struct tide_net *net, uint16_t id);  /* NULL: ENOMEM */
void tide__peers_each(struct tide_net *net, void (*visit)(struct tide_peer *peer));
void tide__peers_release(struct tide_net *net);
/* window: of the lane, if the sender wants less than the lane has; 0: all of it. */
int tide__peer_admit(struct tide_peer *peer, enum tide_lane lane, size_t bytes, size_t window,
                     struct tide_fiber *waiter);
void tide__peer_charge(struct tide_peer *peer, unsigned lane, size_t bytes);   /* prepaid messages */
void tide__peer_credit(struct tide_peer *peer, unsigned lane, uint64_t bytes); /* consumed, or never sent */
void tide__peer_wake(struct tide_peer *peer);
size_t tide__credit_window(unsigned lane); /* 0: the lane needs none */
/* What of it the grants of the peer and of this node leave. */
size_t tide__credit_left(struct tide_peer *peer, unsigned lane);
/* ---- memory_credit.c: what a credit frame says of it behind the credit ---- */
enum { MEMORY_FIELDS = 4 };
void tide__memory_write(const struct tide_net *net, struct tide_writer *w);
int tide__memory_read(struct tide_peer *peer, struct tide_reader *r);      /* EPROTO */
void tide__memory_forget(struct tide_peer *peer);                          /* its end */
void tide__peer_send(struct tide_net *net, struct tide_outgoing *message); /* *takes* */
void tide__peer_fail_waiting(struct tide_net *net, struct tide_peer *peer, int code, const char *reason);
/* Its end, as everybody above is to see it: queues fail, credit is given up, calls end with code.
 */
void tide__peer_down(struct tide_net *net, struct tide_peer *peer, int code, const char *reason);
/* The net is finished: what waits for a peer ends, or of all, if nothing leads there any more. */
void tide__peer_part(struct tide_peer *peer);
void tide__peers_part(struct tide_net *net);
/* What was to go to nodes that this one did not know of: there is a new view; or nothing comes of it. */
void tide__peers_came(struct tide_net *net);
void tide__peers_fail_early(struct tide_net *net, int code, const char *reason);

/* ---- sessions (session.c) ---- */

/* What a neighbour said of a third node: when it heard it last, in this node's time. */
struct tide_news {
    uint16_t id;
    uint64_t heard;
};

/* What others say of a silent peer (probe.c). */
struct tide_probe {
    uint64_t at, heard_at; /* others were asked; one of them hears it. 0: never */
    uint8_t asked, agreed;
};

/* As of a link, what every turn touches comes first. */
struct tide_session {
    struct tide_net *net;
    struct tide_peer *peer;
    struct tide_link *link; /* NULL: suspended */
    bool dials;             /* this side makes the connections */
    bool confirmed;         /* something of the peer came: it knows of the session */
    bool parting;           /* the peer has said that it goes */
    bool over;              /* the peer's no more; freed at the turn's end */
    bool active;            /* in net->active */
    bool resting;           /* not in net->awake (ring.c) */
    bool reported;          /* the controller was told of its silence */
    bool tell_now;          /* what was told last may be lost */
    struct tide_session *next_active;
    struct tide_session *next_awake, **awake_place;
    /* told to the peer */
    uint64_t told, told_bytes, tell_at;                            /* tell_at: when at the latest; TIDE_NEVER */
    uint64_t suspect_since;                                        /* 0: not suspected */
    uint64_t delivered[TIDE_LANE_COUNT], granted[TIDE_LANE_COUNT]; /* received; told consumed */
    struct tide_outbox outbox;
    struct tide_detector detector;
    struct tide_news news[RING_NEIGHBOURS]; /* in the peer's last beat */
    unsigned news_count;
    uint64_t news_at;
    struct tide_credit_account *account;
    uint64_t returned[TIDE_LANE_COUNT]; /* what the peer told consumed */
    struct tide_probe probe;
    struct tide_session *next;
    uint64_t id;
    /* received; of a session with a link both are in its decoder */
    uint64_t received;
    struct tide_assembly lanes[TIDE_LANE_COUNT];
    uint64_t resumed, resent; /* how often; frames written again */
};

/* A new one of peer, attached to link; NULL: ENOMEM. */
struct tide_session *tide__session_begin(struct tide_link *link, struct tide_peer *peer, uint64_t id);
/* Goes on over link from what the peer says it has. EPROTO: impossible. */
int tide__session_resume(struct tide_session *session, struct tide_link *link, uint64_t received);
/* Something of it may be due: to be told, to be dialled, to be freed. The next turn looks. */
void tide__session_touch(struct tide_session *session);
/* Its link is gone or is to go. */
void tide__session_suspend(struct tide_session *session);
/* For good, without a word to anybody. */
void tide__session_drop(struct tide_session *session);
/* For good, which is the peer's failure to the layers above. */
void tide__session_end(struct tide_session *session, const char *reason);
int tide__session_told(struct tide_session *session, const struct tide_frame *frame);
void tide__session_tick(struct tide_session *session, uint64_t now, uint64_t excused);
/* Ticks look at it again; what it was silent in rest counts for nothing. */
void tide__session_rouse(struct tide_session *session);
void tide__session_rest(struct tide_session *session);
/* When its peer was heard last, or its silence was no news. */
uint64_t tide__session_heard(const struct tide_session *session, uint64_t now);
/* Acknowledges and dials what is due among the active ones; returns when something is due again. */
uint64_t tide__sessions_turn(struct tide_net *net, uint64_t now, bool all);
void tide__sessions_release(struct tide_net *net);
/* When to dial again: each time later, with some chance in it. */
void tide__peer_redial_later(struct tide_net *net, struct tide_peer *peer);

/* For tests of the tests: mistakes that checkers must find. Set before any node starts. */
enum tide_session_mistake {
    MISTAKE_NONE,
    MISTAKE_RESUME_EARLY, /* resumes one frame too early, or too late */
    MISTAKE_RESUME_LATE,
    MISTAKE_NEVER_TRIM,       /* ignores acknowledgements */
    MISTAKE_ANY_INCARNATION,  /* takes everybody for whom it says it is */
    MISTAKE_FORGET_FRAGMENTS, /* drops what is half reassembled */
};
extern int tide__session_mistake;

/* ---- links (link.c, handshake.c) ---- */

enum link_state {
    LINK_DIALLING, /* outgoing, not connected yet */
    LINK_GREETING, /* hello is on its way, in either direction */
    LINK_PARKED,   /* a hello of a node that no view has told of yet */
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

void tide__handshake_begin(struct tide_link *link); /* dialler, connected */
int tide__handshake_frame(struct tide_link *link, const struct tide_frame *frame);
void tide__handshake_unpark(struct tide_net *net); /* a new view is there, or this node is complete */

/* ---- the ring (ring.c) and its gossip (gossip.c) ---- */

/* The neighbours of a member by this node's view; returns how many. */
unsigned tide__ring_neighbours(struct tide_net *net, uint16_t id, uint16_t out[RING_NEIGHBOURS]);
/* The view has changed: other neighbours, links to dial. */
void tide__ring_refresh(struct tide_net *net);
bool tide__ring_is_neighbour(const struct tide_net *net, uint16_t id);
/* Between two looks at all links: in a ring, whose beats are seldom, less often. */
uint64_t tide__ring_tick(const struct tide_net *net);
/* Between beats with a peer; TIDE_NEVER: there are none. */
uint64_t tide__ring_interval(const struct tide_net *net, uint16_t id);
/* Is this node to hear the peer's beats? */
bool tide__ring_watches(const struct tide_net *net, uint16_t id);
bool tide__ring_beat_due(const struct tide_link *link, uint64_t now); /* of a link that is up */
/* Is the peer's silence no news at the moment? */
bool tide__ring_excuses(const struct tide_session *session);
/* Has a tick nothing to see to until somebody rouses the session? */
bool tide__ring_rests(const struct tide_session *session, uint64_t now);
/* Rouses all sessions, if this node may have come to watch others since the last tick. */
void tide__ring_turn(struct tide_net *net);
/* A message waits for a link to the peer. */
void tide__ring_wanted(struct tide_net *net, struct tide_peer *peer);
/* The peer wants this node to dial. */
void tide__ring_knocked(struct tide_net *net, struct tide_peer *peer);

/* nil: the sender does not count on the receiver's beats; else [id, ms since it was heard, ...]. */
void tide__gossip_write(const struct tide_link *link, struct tide_writer *w, uint64_t now);
int tide__gossip_read(struct tide_link *link, struct tide_reader *r, uint64_t now);
/* Is the silence of a peer to be reported now? */
bool tide__gossip_confirms(const struct tide_session *session, uint64_t now);

/* ---- local health (local_health.c) and probes (probe.c) ---- */

void tide__health_init(struct tide_net *net, const struct tide_net_options *options);
/* Somebody who lives, this node or another, did not for so long. */
void tide__health_stood_still(struct tide_net *net, uint64_t now, uint64_t duration);
/* The silence that is granted now, beyond the usual time between beats. */
uint64_t tide__health_grace(const struct tide_net *net, uint64_t now);
/* The same for one member that is silent for longer than `grace`: its process may be asked. */
uint64_t tide__health_grace_of(const struct tide_net *net, const struct tide_member *silent, uint64_t grace);
/* Why a member is silent, as far as this machine can tell: " (its process 7 is stopped)", or "". */
void tide__health_describe(const struct tide_net *net, const struct tide_member *silent, char out[64]);

/* Has this node a fresh sign of life of the peer? */
bool tide__probe_hears(struct tide_net *net, const struct tide_peer *peer, uint64_t now);
/* Is the silence of a peer to be reported now? Asks others. */
bool tide__probe_confirms(struct tide_session *session, uint64_t now);
void tide__probe_receive(struct tide_link *link, unsigned verb, struct tide_reader *r);

/* ---- members (members.c, controller.c) ---- */

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

struct report {
    struct report *next;
    uint16_t reporter, subject;
    bool lost; /* the connection is gone, not only silent */
    uint64_t since;
    char reason[96];
};

void tide__members_receive(struct tide_link *link, const struct tide_frame *frame);
/* Is it the last word of who sends it, which clients say too? */
bool tide__members_is_goodbye(const struct tide_frame *frame);
void tide__members_link_up(struct tide_net *net, struct tide_peer *peer);
void tide__members_link_lost(struct tide_net *net, struct tide_peer *peer, const char *reason);
void tide__members_goodbye(struct tide_link *link);
void tide__members_leave(struct tide_link *link);
void tide__members_silent(struct tide_session *session, uint64_t now);
void tide__members_heard(struct tide_net *net, struct tide_peer *peer);
void tide__members_tick(struct tide_net *net, uint64_t now);
struct known *tide__members_find(struct tide_net *net, uint16_t id);
/* Ids rise: may a later view name this one, of which none has told yet? */
bool tide__members_may_come(struct tide_net *net, uint16_t id);
struct known *tide__members_add(struct tide_net *net, const struct tide_member *member); /* NULL: ENOMEM */
/* The member has changed: to be published, then settled. */
void tide__members_unsettle(struct tide_net *net, struct known *known);
/* Effects and watchers of all that changed; safe to call from inside a watcher. */
void tide__members_settle(struct tide_net *net);
void tide__members_publish(struct tide_net *net);
void tide__members_welcomed(struct tide_net *net, struct tide_peer *controller, const struct tide_welcome *welcome);
void tide__members_write_view(struct tide_net *net, struct tide_writer *w);
/* The view as what is new since view `base`: for those who have that. */
void tide__members_write_news(struct tide_net *net, struct tide_writer *w, uint64_t base,
                              const struct tide_member *members, size_t count);
void tide__member_write(struct tide_writer *w, const struct tide_member *member);
int tide__members_apply_view(struct tide_net *net, struct tide_reader *r);
void tide__members_report_ready(struct tide_net *net);
/* What the controller may have missed while there was no connection. */
void tide__members_report_again(struct tide_net *net, struct tide_link *link);
void tide__members_cast(struct tide_net *net, struct tide_link *link, const struct tide_writer *w);

/* [term, number, durable, members]: from whoever commands, or thinks so. */
void tide__succession_view(struct tide_link *link, struct tide_reader *r);
/* Is this the hello of a controller that this node has not heard of? */
bool tide__succession_announced(const struct tide_net *net, const struct tide_hello *hello);
/* The session with the controller has ended, before it sent this node a view. */
void tide__succession_unseen(struct tide_net *net);
/* The same, later. */
void tide__succession_lost(struct tide_net *net, struct known *controller, const char *reason);
/* Does a client look for the controller? */
bool tide__succession_seeks(const struct tide_net *net);
/* A client's dial of the controller that it looks for has failed: it is gone for that reason, or, NULL, silent. */
void tide__succession_vain(struct tide_net *net, const struct tide_peer *peer, const char *reason);
void tide__succession_tick(struct tide_net *net, uint64_t now);
/* The controller has been silent for long. */
void tide__succession_silent(struct tide_session *session, const char *reason);
/* It was decided that this node is dead, or has left, and nobody could tell it. */
void tide__succession_refused(struct tide_net *net, bool dead, const char *reason);

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

/* Takes command of what is recorded: members, views and terms go on from there. */
int tide__decision_begin(struct tide_net *net);
/* What is recorded as "view": number of the last view, id of the next member. */
int tide__decision_numbers(const struct tide_control_state *state, uint64_t *view, uint64_t *next);
/* A member is to have a state; takes effect by tide__decide. */
void tide__decision_want(struct known *known, enum tide_member_state state, const char *reason);
/* A new member; takes effect by tide__decide. Its `id` is net->next_id. */
int tide__decision_add(struct tide_net *net, const struct tide_member *member);
/* One new view of all that is wanted: recorded, then told to all, then in effect here. Until it is
 * recorded nothing else is decided. */
void tide__decide(struct tide_net *net);

/* ---- the replicated log (quorum.c) ---- */

bool tide__quorum_is(const struct tide_net *net);
int tide__quorum_begin(struct tide_net *net); /* the first node */
void tide__quorum_receive(struct tide_net *net, uint16_t from, struct tide_reader *r);
/* What is due; takes command or steps down. Returns when it is due again. */
uint64_t tide__quorum_turn(struct tide_net *net, uint64_t now);
/* Controller: sees to it that enough members hold the log. */
void tide__quorum_tick(struct tide_net *net);
void tide__quorum_step_down(struct tide_net *net);

/* ---- the net ---- */

struct tide_net {
    /* set once */
    struct tide_system *system;
    struct tide_port *port;
    struct tide_executor *executor;
    tide_address members_actor;
    char cluster[64]; /* "" of a client that was not told, until it has joined */
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
    void (*_Atomic memory_changed)(void *arg, uint16_t id); /* NULL: nobody is told */
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
    struct tide_outgoing *early, **early_tail; /* to nodes that no view has told of yet */
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
    uint64_t view, term;                  /* of the controller: the highest that was heard of */
    bool controls;                        /* this node is the controller */
    uint64_t told;                        /* the last term in which this node as controller told a view */
    bool away;                            /* it is gone; who commands next will say so */
    struct tide_member_watch *watches;    /* those that were told of all members already */
    size_t living;                        /* members that settled as such */
    bool unpublished;                     /* members have changed since they were published */
    bool parked;                          /* hellos of nodes that no view has told of wait for the next one */
    bool asks_again;                      /* a joiner whose controller went before the first view */
    unsigned redirects;
    uint64_t away_since;
    uint64_t standstill, standstill_at; /* local_health.c: the longest, and when it ended */
    atomic_uint_fast64_t silence;       /* local_health.c: granted in any case, as was asked for; 0: the default */
    bool far;                           /* it is of other machines */
    uint64_t violations, violations_logged, violations_second;
    uint64_t keys_at; /* when the files of the keys are looked at again */
    /* controller, and who holds its log */
    struct tide_control *control; /* NULL: none */
    struct tide_control *alone;   /* what this node decided with before it shared a log; NULL: none */
    bool control_refused;         /* this node was to hold the log, and cannot */
    uint8_t controllers;          /* so many are to hold it; 0: it is not replicated */
    char state_directory[300];    /* where a holder keeps it; empty: nowhere */
    struct tide_raft_logs former; /* first node: the logs that it went on from */
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
/* Until tide_net_join the actors that others write to may not be there: nobody is dialled or answered. */
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
