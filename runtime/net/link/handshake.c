/*
 * The handshake: hello from the dialler, hello_ok or an error from the other side, after which the
 * connection belongs to one pair of incarnations for life, and carries their session: a new one, or
 * the one that both still know, from where the other one says it stopped. A joiner (id 0) is given
 * an id by the controller; any other member answers it with the controller's endpoint and closes.
 * Refusals are worded from the reader's side and logged on the writer's.
 */
#include "net/link/handshake.h"
#include "net/net_state.h"
#include "net/link/link.h"
#include "net/link/peer.h"
#include "net/link/session.h"
#include "net/members/controller.h"
#include "net/members/leader_change.h"
#include "net/members/members.h"

#include <string.h>

void tide__handshake_begin(struct tide_link *link) {
    struct tide_net *net = link->net;
    struct tide_hello hello = {.version = TIDE_PROTOCOL,
                               .incarnation = net->incarnation,
                               .id = tide__net_id(net),
                               .store = net->store,
                               .client = net->client,
                               .right = net->client ? net->right : TIDE_RIGHT_NODE,
                               .workers = net->workers,
                               .pid = net->pid,
                               .term = net->controls ? net->term : 0};
    snprintf(hello.cluster, sizeof hello.cluster, "%s", net->cluster);
    snprintf(hello.name, sizeof hello.name, "%s", hello.id == 0 ? net->wanted_name : net->name);
    snprintf(hello.endpoint, sizeof hello.endpoint, "%s", net->endpoint);
    if (link->peer) {
        struct known *known = tide__members_find(net, link->peer->id);
        snprintf(hello.to, sizeof hello.to, "%s", known ? known->member.name : "");
        hello.to_incarnation = link->peer->incarnation;
        hello.attempt = link->purpose == LINK_KNOCK ? 0 : ++link->peer->attempt;
        if (link->peer->session && link->purpose != LINK_KNOCK) {
            hello.session = link->peer->session->id;
            hello.received = link->peer->session->received;
        }
    }
    uint8_t body[TIDE_FRAME_HELLO_MAX];
    struct tide_writer w;
    tide_writer_init(&w, body, sizeof body);
    tide__hello_write(&w, &hello);
    tide__link_own(link, TIDE_FRAME_HELLO, w.data, w.size);
    tide_writer_release(&w);
}

/* ---- accepting ---- */

static void say_no(struct tide_link *link, int code, const char *theirs) {
    uint8_t body[400];
    struct tide_writer w;
    tide_writer_init(&w, body, sizeof body);
    tide__refusal_write(&w, code, theirs);
    tide__link_own(link, TIDE_FRAME_ERROR, w.data, w.size);
    tide_writer_release(&w);
    tide__link_drain(link);
}

/* Says no to the peer in `theirs`, logs `ours`, closes when it is written. */
static void refuse(struct tide_link *link, int code, const char *ours, const char *theirs) {
    if (tide__link_may_log(link->net)) {
        tide_log(TIDE_LOG_WARN, link->net->name, "refused %s: %s", link->remote, ours);
        tide__link_audit_refusal(link, ours);
    }
    say_no(link, code, theirs);
}

static void welcome(struct tide_link *link, const struct tide_session *session, uint16_t assigned_id,
                    const char *assigned_name) {
    struct tide_net *net = link->net;
    struct tide_welcome answer = {.version = TIDE_PROTOCOL,
                                  .incarnation = net->incarnation,
                                  .id = tide__net_id(net),
                                  .session = session ? session->id : 0,
                                  .received = session ? session->received : 0,
                                  .assigned_id = assigned_id,
                                  .right = link->right,
                                  .silence_ms = (uint32_t)(net->silence / TIDE_MILLISECOND)};
    snprintf(answer.cluster, sizeof answer.cluster, "%s", net->cluster);
    snprintf(answer.name, sizeof answer.name, "%s", net->name);
    snprintf(answer.endpoint, sizeof answer.endpoint, "%s", net->endpoint);
    snprintf(answer.controller, sizeof answer.controller, "%s", net->controller_endpoint);
    snprintf(answer.assigned_name, sizeof answer.assigned_name, "%s", assigned_name);
    uint8_t body[TIDE_FRAME_HELLO_MAX];
    struct tide_writer w;
    tide_writer_init(&w, body, sizeof body);
    tide__welcome_write(&w, &answer);
    tide__link_own(link, TIDE_FRAME_HELLO_OK, w.data, w.size);
    tide_writer_release(&w);
}

static uint64_t draw_session(struct tide_net *net) {
    uint64_t id;
    do {
        id = net->port->ops->entropy(net->port);
    } while (id == 0);
    return id;
}

static bool begin_session(struct tide_link *link, struct tide_peer *peer) {
    if (!tide__session_begin(link, peer, draw_session(link->net))) {
        refuse(link, TIDE_ENOMEM, "out of memory", "out of memory");
        return false;
    }
    return true;
}

/* Only the controller takes joiners; others say where it is. */
static void redirect_joiner(struct tide_link *link) {
    struct tide_net *net = link->net;
    if (net->controller_endpoint[0] == 0) {
        refuse(link, TIDE_EBUSY, "a joiner, before this node has joined", "the peer has not joined itself yet");
    } else if (net->away) {
        refuse(link, TIDE_EBUSY, "a joiner, while the controller is away",
               "the cluster's controller is away; try again when it is back");
    } else {
        welcome(link, NULL, 0, "");
        tide__link_drain(link);
    }
}

/* 1: not decided yet. */
static int accept_joiner(struct tide_link *link, const struct tide_hello *hello) {
    struct tide_net *net = link->net;
    if (!net->controls) {
        redirect_joiner(link);
        return 0;
    }
    uint16_t id;
    char name[64];
    int error = tide__controller_admit(net, hello, &id, name);
    if (error == 1) {
        return 1;
    }
    struct tide_peer *peer = error == 0 ? tide__peer_make(net, id) : NULL;
    if (!peer) {
        refuse(link, error == 0 ? TIDE_ENOMEM : error, tide_error_message(), tide_error_message());
        return 0;
    }
    if (!begin_session(link, peer)) {
        return 0;
    }
    peer->incarnation = hello->incarnation;
    peer->attempt = 0;
    peer->lost = false;
    welcome(link, link->session, id, name);
    tide__link_established(link);
    tide__controller_greet(net, link);
    return 0;
}

/* Is the session alive, over a link on which its peer was heard just now, or may rest? A hello
 * without a session cannot end it then: a node that has lost one has closed its link, or is silent. */
static bool is_alive(const struct tide_session *s, uint64_t now) {
    return s && s->confirmed && s->link && s->link->state == LINK_UP &&
           (s->resting || now - s->detector.last < ALIVE_WITHIN);
}

/* Ids of clients come round: nothing is owed from before. */
static void new_client(struct tide_peer *peer, uint64_t incarnation) {
    for (unsigned i = 0; i < TIDE_LANE_COUNT; i++) {
        atomic_store_explicit(&peer->outstanding[i], 0, memory_order_relaxed);
    }
    peer->incarnation = incarnation;
    peer->attempt = 0;
    peer->lost = false;
}

/* Sets link->session: the one the hello names, one that the peer has no record of, or a new one.
 * False: refused. */
static bool find_session(struct tide_link *link, struct tide_peer *peer, const struct tide_hello *hello) {
    struct tide_session *s = peer->session;
    bool mistaken = tide__session_mistake == MISTAKE_ANY_INCARNATION;
    if (hello->session == 0 && s && s->confirmed && !mistaken) {
        /* It has forgotten or ended the session. A member does so once in its life. */
        tide__session_end(s, "its session was lost");
        s = NULL;
        if (!hello->client) {
            refuse(link, TIDE_ECLOSED, "a node that lost its session", "the session was lost");
            return false;
        }
    }
    if (!s && hello->session == 0) {
        return begin_session(link, peer);
    }
    if ((!s || (hello->session != 0 && s->id != hello->session)) && !mistaken) {
        refuse(link, TIDE_ECLOSED, "a session that nobody knows", "the session was lost");
        return false;
    }
    if (s->link) {
        struct tide_link *old = s->link;
        tide__session_suspend(s);
        tide__link_close(old);
    }
    if (tide__session_resume(s, link, hello->received) != 0) {
        refuse(link, TIDE_ECLOSED, tide_error_message(), "the session was lost");
        tide__session_end(s, "its session was lost");
        return false;
    }
    return true;
}

/* The peer may not dial, so it asks this node to. */
static void call_back(struct tide_link *link, struct tide_peer *peer) {
    tide__ring_knocked(link->net, peer);
    say_no(link, TIDE_EBUSY, "this node calls back");
}

/* A node that has its id already. 1: not decidable before the next view. */
static int accept_known(struct tide_link *link, const struct tide_hello *hello) {
    struct tide_net *net = link->net;
    char text[160];
    bool mistaken = tide__session_mistake == MISTAKE_ANY_INCARNATION;
    struct known *known = tide__members_find(net, hello->id);
    if (!hello->client) {
        if (!known && !tide__succession_announced(net, hello)) {
            return 1;
        }
        if (known && known->member.incarnation != hello->incarnation && !mistaken) {
            refuse(link, TIDE_EMISMATCH, "another incarnation of a known node",
                   "this id belongs to another incarnation");
            return 0;
        }
        if (known && known->member.state >= TIDE_MEMBER_LEFT) {
            bool dead = known->member.state == TIDE_MEMBER_DEAD;
            snprintf(text, sizeof text, "node '%s' was declared %s", known->member.name, dead ? "dead" : "left");
            refuse(link, dead ? TIDE_EDIED : TIDE_ECANCELED, text, text);
            return 0;
        }
    }
    struct tide_peer *peer = tide__peer_make(net, hello->id);
    bool knocks = hello->attempt == 0 && !hello->client;
    if (peer && knocks && !peer->lost) {
        call_back(link, peer);
        return 0;
    }
    if (!peer || (peer->lost && !hello->client) || (peer->link && !peer->session)) {
        snprintf(text, sizeof text, "node n%u %s", (unsigned)hello->id,
                 !peer        ? "does not fit memory"
                 : peer->lost ? "lost its session"
                              : "is being dialled");
        refuse(link, peer && peer->lost ? TIDE_ECLOSED : TIDE_EBUSY, text, text);
        return 0;
    }
    const bool other = peer->incarnation != hello->incarnation;
    if ((hello->session == 0 || (hello->client && other)) && !mistaken && is_alive(peer->session, tide__net_now(net))) {
        refuse(link, TIDE_EBUSY, "somebody with the id of a node that is heard", "the node that has this id is alive");
        return 0;
    }
    if (hello->client && other && peer->session) {
        refuse(link, TIDE_EMISMATCH, "a client with the id of another one that is connected",
               "another client has this id");
        return 0;
    }
    if (hello->client && other) {
        new_client(peer, hello->incarnation);
    }
    if (hello->attempt <= peer->attempt && !mistaken) {
        refuse(link, TIDE_EBUSY, "a hello that a later one has overtaken", "too late");
        return 0;
    }
    peer->incarnation = hello->incarnation;
    peer->attempt = hello->attempt;
    if (find_session(link, peer, hello)) {
        welcome(link, link->session, 0, "");
        tide__link_established(link);
        tide__members_link_up(net, peer);
    }
    return 0;
}

/* May the other end be what its hello says? Its certificate knows; without one it is a process of this user, whose word
 * counts. Gives link->right; negative: refused, text in the error slot. */
static int judge(struct tide_link *link, const struct tide_hello *hello) {
    struct tide_channel_peer peer;
    tide__channel_peer(&link->channel, &peer);
    const struct tide_identity *who = peer.who;
    if (hello->client) {
        const unsigned most = who ? who->right : TIDE_RIGHT_ADMIN;
        if (most == TIDE_RIGHT_NODE) {
            return tide_fail(TIDE_EPERM, "its keys are a node's; people have keys of their own: tide keys issue");
        }
        link->right = (uint8_t)(hello->right < most || TIDE_MUTANT(right_from_hello) ? hello->right : most);
        return 0;
    }
    const bool bare = !hello->store && hello->workers == 0; /* a script's driver: its rows and workers are elsewhere */
    if (who && who->right != TIDE_RIGHT_NODE && !(who->right == TIDE_RIGHT_ADMIN && bare)) {
        return tide_fail(TIDE_EPERM, "its keys give the right %s; to be a member takes those of a node%s",
                         tide_right_name(who->right), bare ? ", or admin's" : "");
    }
    if (who && who->right == TIDE_RIGHT_NODE && strcmp(who->name, "*") != 0 && strcmp(who->name, hello->name) != 0) {
        return tide_fail(TIDE_EPERM, "its keys are of node '%s', and it says that it is '%s'", who->name, hello->name);
    }
    link->right = TIDE_RIGHT_NODE;
    return 0;
}

static void decide(struct tide_link *link, const struct tide_hello *hello) {
    struct tide_net *net = link->net;
    char ours[200], theirs[200];
    if (hello->cluster[0] != 0 && strcmp(hello->cluster, net->cluster) != 0) {
        snprintf(ours, sizeof ours, "peer belongs to cluster '%s', not '%s'", hello->cluster, net->cluster);
        snprintf(theirs, sizeof theirs, "peer belongs to cluster '%s', not '%s'", net->cluster, hello->cluster);
        refuse(link, TIDE_EMISMATCH, ours, theirs);
    } else if (judge(link, hello) != 0) {
        snprintf(ours, sizeof ours, "%.190s", tide_error_message());
        refuse(link, TIDE_EPERM, ours, ours);
    } else if (hello->to[0] != 0 && strcmp(hello->to, net->name) != 0) {
        snprintf(ours, sizeof ours, "peer looks for node '%s', this is '%s'", hello->to, net->name);
        snprintf(theirs, sizeof theirs, "peer is node '%s', not '%s'", net->name, hello->to);
        refuse(link, TIDE_EMISMATCH, ours, theirs);
    } else if (hello->to_incarnation != 0 && hello->to_incarnation != net->incarnation) {
        /* A controller that was started again listens where the former did. Nothing that is meant
         * for another life may touch the sessions of this one. */
        refuse(link, TIDE_EMISMATCH, "peer looks for a former life of this node", "another node listens in its place");
    } else if (hello->incarnation == net->incarnation) {
        refuse(link, TIDE_EINVAL, "this node called itself", "a node cannot join itself");
    } else if (!tide__net_is_complete(link->net) ||
               (hello->id == 0 ? accept_joiner(link, hello) : accept_known(link, hello)) == 1) {
        link->hello = *hello;
        link->state = LINK_PARKED;
        link->net->parked = true;
    }
}

static int hello_received(struct tide_link *link, const struct tide_frame *frame) {
    struct tide_hello hello;
    int error = tide_hello_parse(frame->body, frame->body_size, &hello);
    if (error == TIDE_EVERSION) {
        char ours[100], theirs[100];
        snprintf(ours, sizeof ours, "peer speaks protocol %u, this node speaks %u", (unsigned)hello.version,
                 TIDE_PROTOCOL);
        snprintf(theirs, sizeof theirs, "peer speaks protocol %u, this node speaks %u", TIDE_PROTOCOL,
                 (unsigned)hello.version);
        refuse(link, TIDE_EVERSION, ours, theirs);
        return 0;
    }
    if (error != 0) {
        return error;
    }
    decide(link, &hello);
    return 0;
}

void tide__handshake_unpark(struct tide_net *net) {
    if (!net->parked) {
        return;
    }
    net->parked = false;
    struct tide_link *next;
    for (struct tide_link *link = net->links; link; link = next) {
        next = link->next;
        if (link->state == LINK_PARKED) {
            link->state = LINK_GREETING;
            struct tide_hello hello = link->hello;
            decide(link, &hello);
        }
    }
}

/* ---- dialling ---- */

static void join_welcomed(struct tide_link *link, const struct tide_welcome *answer) {
    struct tide_net *net = link->net;
    if (answer->assigned_id == 0) {
        char endpoint[160];
        memcpy(endpoint, answer->controller, sizeof endpoint);
        tide__link_drain(link);
        if (endpoint[0] == 0 || ++net->redirects > REDIRECTS_MAX) {
            tide__join_failed(net, true, TIDE_EUNREACHABLE, "nobody who answers is the controller");
        } else {
            int error = tide__link_dial(net, endpoint, LINK_JOIN, NULL);
            if (error != 0) {
                tide__net_become(net, TIDE_MEMBER_DEAD, error, tide_error_message());
            }
        }
        return;
    }
    struct tide_peer *peer = tide__peer_make(net, answer->id);
    if (!peer) {
        tide__net_become(net, TIDE_MEMBER_DEAD, TIDE_ENOMEM, "out of memory");
        return;
    }
    if (!tide__session_begin(link, peer, answer->session)) {
        tide__net_become(net, TIDE_MEMBER_DEAD, TIDE_ENOMEM, "out of memory");
        tide__link_close(link);
        return;
    }
    peer->incarnation = answer->incarnation;
    tide__members_welcomed(net, peer, answer);
    tide__link_established(link);
}

static int mesh_welcomed(struct tide_link *link, const struct tide_welcome *answer) {
    struct tide_peer *peer = link->peer;
    struct tide_session *s = peer->session;
    if (answer->id != peer->id || answer->incarnation != peer->incarnation) {
        if (s) {
            tide__session_end(s, "another node listens in its place");
        }
        return tide_fail(TIDE_EMISMATCH, "reached node n%u instead of n%u, or a later incarnation",
                         (unsigned)answer->id, (unsigned)peer->id);
    }
    if (!s) {
        if (answer->session == 0 || answer->received != 0) {
            return tide_fail(TIDE_EPROTO, "a new session that has begun already");
        }
        s = tide__session_begin(link, peer, answer->session);
        if (!s) {
            return TIDE_ENOMEM;
        }
    } else {
        int error = answer->session == s->id ? tide__session_resume(s, link, answer->received)
                                             : tide_fail(TIDE_EPROTO, "another session");
        if (error != 0) {
            tide__session_end(s, "its session was lost");
            return error;
        }
    }
    tide__link_established(link);
    tide__members_link_up(link->net, peer);
    return 0;
}

/* The answering node has the name that its certificate says, unless that is any node's. */
static int check_name(struct tide_link *link, const char *name) {
    struct tide_channel_peer peer;
    tide__channel_peer(&link->channel, &peer);
    const struct tide_identity *who = peer.who;
    if (!who || who->right != TIDE_RIGHT_NODE || strcmp(who->name, "*") == 0 || strcmp(who->name, name) == 0 ||
        TIDE_MUTANT(tls_name_unchecked)) {
        return 0;
    }
    return tide_fail(TIDE_EPERM, "the keys of who answers are of node '%s', and it says that it is '%s'", who->name,
                     name);
}

static int welcome_received(struct tide_link *link, const struct tide_frame *frame) {
    struct tide_net *net = link->net;
    struct tide_welcome answer;
    int error = tide__welcome_parse(frame->body, frame->body_size, &answer);
    if (error == 0 && net->cluster[0] == 0) { /* a client that knew an address alone */
        memcpy(net->cluster, answer.cluster, sizeof net->cluster);
    }
    if (error == 0 && strcmp(answer.cluster, net->cluster) != 0) {
        error = tide_fail(TIDE_EMISMATCH, "peer belongs to cluster '%s', not '%s'", answer.cluster, net->cluster);
    }
    error = error != 0 ? error : check_name(link, answer.name);
    link->right = TIDE_RIGHT_NODE;
    if (link->purpose == LINK_JOIN) {
        if (error != 0) {
            tide__net_become(net, TIDE_MEMBER_DEAD, error, tide_error_message());
            return error;
        }
        net->right = answer.right;
        if (net->silence == 0) {
            net->silence = answer.silence_ms * TIDE_MILLISECOND;
        }
        if (answer.assigned_id != 0 && (answer.id == 0 || (answer.assigned_id >= CLIENT_ID_MIN) != net->client)) {
            error = tide_fail(TIDE_EPROTO, "an id that is not ours");
            tide__net_become(net, TIDE_MEMBER_DEAD, error, tide_error_message());
            return error;
        }
        join_welcomed(link, &answer);
        return 0;
    }
    return error != 0 ? error : mesh_welcomed(link, &answer);
}

static int refusal_received(struct tide_link *link, const struct tide_frame *frame) {
    int code;
    char text[200];
    int error = tide__refusal_parse(frame->body, frame->body_size, &code, text, sizeof text);
    if (link->purpose == LINK_JOIN) {
        tide__join_failed(link->net, error == 0 && code == TIDE_EBUSY, error != 0 ? error : code,
                          error != 0 ? tide_error_message() : text);
        tide__link_close(link);
        return TIDE_ECANCELED;
    }
    bool over = error == 0 && (code == TIDE_EDIED || code == TIDE_ECANCELED);
    if (over && !link->net->client) {
        tide__succession_refused(link->net, code == TIDE_EDIED, text);
        return tide_fail(code, "it refused: %s", text);
    }
    bool waits = link->peer && link->peer->session;
    if (link->purpose == LINK_KNOCK && error == 0 && (code == TIDE_EBUSY || !waits)) { /* as expected */
        tide__link_close(link);
        return TIDE_ECANCELED;
    }
    if (error == 0 && code != TIDE_EBUSY && waits) {
        tide__session_end(link->peer->session, text);
    } else if (error == 0 && code != TIDE_EBUSY && link->peer) {
        tide__succession_vain(link->net, link->peer, text);
    }
    return error != 0 ? error : tide_fail(code, "it refused: %s", text);
}

int tide__handshake_frame(struct tide_link *link, const struct tide_frame *frame) {
    if (link->state == LINK_GREETING && link->purpose == LINK_ACCEPTED && frame->kind == TIDE_FRAME_HELLO) {
        return hello_received(link, frame);
    }
    if (link->state == LINK_GREETING && link->purpose != LINK_ACCEPTED) {
        if (frame->kind == TIDE_FRAME_HELLO_OK) {
            return welcome_received(link, frame);
        }
        if (frame->kind == TIDE_FRAME_ERROR) {
            return refusal_received(link, frame);
        }
    }
    return tide_fail(TIDE_EPROTO, "a frame of kind %u before the handshake is over", (unsigned)frame->kind);
}
