/* Sessions: what two incarnations have in flight between them; they outlive links (session.c). */
#ifndef TIDE_NET_SESSION_H
#define TIDE_NET_SESSION_H

#include "net/link/decoder.h"
#include "net/link/outbox.h"
#include "net/members/detector.h"
#include "net/members/ring.h"

struct tide_link;
struct tide_peer;

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
    bool confirmed;         /* a frame of the peer arrived: it has the session */
    bool parting;           /* the peer has said that it goes */
    bool over;              /* the peer's no more; freed at the turn's end */
    bool active;            /* in net->active */
    bool resting;           /* not in net->awake (ring.c) */
    bool reported;          /* its silence was reported to the controller */
    bool tell_now;          /* the last acknowledgement may be lost */
    struct tide_session *next_active;
    struct tide_session *next_awake, **awake_place;
    /* sent to the peer */
    uint64_t told, told_bytes, tell_at;                            /* tell_at: when at the latest; TIDE_NEVER */
    uint64_t suspect_since;                                        /* 0: not suspected */
    uint64_t delivered[TIDE_LANE_COUNT], granted[TIDE_LANE_COUNT]; /* received; acknowledged as consumed */
    struct tide_outbox outbox;
    struct tide_detector detector;
    struct tide_news news[RING_NEIGHBOURS]; /* in the peer's last beat */
    unsigned news_count;
    uint64_t news_at;
    struct tide_credit_account *account;
    uint64_t returned[TIDE_LANE_COUNT]; /* what the peer acknowledged as consumed */
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
/* Resumes over link from the position that the peer has. EPROTO: impossible. */
int tide__session_resume(struct tide_session *session, struct tide_link *link, uint64_t received);
/* Something of it may be due: to be sent, to be dialled, to be freed. The next turn looks. */
void tide__session_touch(struct tide_session *session);
/* Its link is gone or is to go. */
void tide__session_suspend(struct tide_session *session);
/* For good, without a message. */
void tide__session_drop(struct tide_session *session);
/* For good, which is the peer's failure to the layers above. */
void tide__session_end(struct tide_session *session, const char *reason);
int tide__session_told(struct tide_session *session, const struct tide_frame *frame);
void tide__session_tick(struct tide_session *session, uint64_t now, uint64_t excused);
/* Ticks look at it again; what it was silent in rest counts for nothing. */
void tide__session_rouse(struct tide_session *session);
void tide__session_rest(struct tide_session *session);
/* When its peer was heard last, or when its silence did not count. */
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
    MISTAKE_ANY_INCARNATION,  /* accepts any claimed identity */
    MISTAKE_FORGET_FRAGMENTS, /* drops what is half reassembled */
};
extern int tide__session_mistake;

#endif
