/*
 * Links: one connection each, from dial or accept to the stream's end.
 *
 * Writing: whatever is queued during a turn leaves at its end, or when it fills a batch, in as few
 * system calls as the socket allows; a full socket continues from `writable`. Reading: frames are parsed where they
 * landed (decoder.c). Bytes that are not ours close the link with a logged reason and cost no other link anything.
 *
 * A link is up for one pair of incarnations and carries their session. Its loss suspends the
 * session (session.c), unless one side wanted it: then the session ends too.
 */
#include "net/net_state.h"
#include "net/link/handshake.h"
#include "net/link/link.h"
#include "net/link/peer.h"
#include "net/link/session.h"
#include "net/members/gossip.h"
#include "net/members/leader_change.h"
#include "net/members/local_health.h"
#include "net/members/members.h"
#include "port/audit.h"

#include <string.h>

enum { LOGS_PER_SECOND = 8, BATCH_BYTES = TIDE_OUTBOX_UNIT / 4 * 3 };

static const struct tide_stream_events stream_events;

/* ---- making ---- */

static void set_deadline(struct tide_link *link, uint64_t deadline) {
    struct tide_net *net = link->net;
    link->deadline = deadline;
    net->deadline = deadline < net->deadline ? deadline : net->deadline;
}

static struct tide_link *link_create(struct tide_net *net, enum link_purpose purpose, enum link_state state,
                                     uint64_t timeout) {
    struct tide_link *link = tide_alloc_zero(1, sizeof *link);
    if (!link) {
        return NULL;
    }
    link->net = net;
    link->purpose = (uint8_t)purpose;
    link->state = (uint8_t)state;
    set_deadline(link, tide__net_now(net) + timeout);
    tide__decoder_init(&link->decoder, &net->spare_chunk);
    tide__outbox_init(&link->greeting, &net->spare_room);
    link->next = net->links;
    link->place = &net->links;
    if (link->next) {
        link->next->place = &link->next;
    }
    net->links = link;
    tide__net_wake(net); /* so that the tick learns of the deadline */
    return link;
}

void tide__link_touch(struct tide_link *link) {
    if (!link->dirty) {
        link->dirty = true;
        link->next_dirty = NULL;
        *link->net->dirty_tail = link;
        link->net->dirty_tail = &link->next_dirty;
    }
}

static void forget_dirty(struct tide_link *link) {
    struct tide_link **at = &link->net->dirty;
    while (*at != link) {
        at = &(*at)->next_dirty;
    }
    *at = link->next_dirty;
    if (!*at) {
        link->net->dirty_tail = at;
    }
}

static void unlink_from_net(struct tide_link *link) {
    *link->place = link->next;
    if (link->next) {
        link->next->place = link->place;
    }
}

static struct tide_outbox *outbox_of(struct tide_link *link) {
    return link->session ? &link->session->outbox : &link->greeting;
}

void tide__link_free(struct tide_link *link) {
    unlink_from_net(link);
    if (link->dirty) {
        forget_dirty(link);
    }
    tide__outbox_clear(&link->greeting, NULL, NULL);
    tide__decoder_deinit(&link->decoder);
    tide__channel_release(&link->channel);
    tide_free(link);
}

/* Returns whether the peer's process is this user's, by certificates, or by the kernel for Unix sockets and loopback.
 * An unknown peer is not. */
static bool is_ours(struct tide_net *net, struct tide_stream *stream, const struct tide_tls *tls,
                    struct tide_peer_identity *identity) {
    net->port->ops->stream_peer(stream, identity);
    return net->port->simulated || tls ||
           (identity->local_user && (identity->uid == 0 || identity->uid == net->port->ops->user(net->port)));
}

/* What a connection by this endpoint goes under: other machines' always TLS, this machine's never; simulated nodes have
 * machines of their own. */
static struct tide_tls *tls_for(const struct tide_net *net, const char *endpoint) {
    return net->port->simulated || !tide_endpoint_is_local(endpoint) ? net->tls : NULL;
}

/* Whoever may speak before its hello: this node's own user, or an unknown peer, distinguished by user or
 * address. */
static bool is_own_user(struct tide_net *net, const struct tide_peer_identity *who) {
    return net->port->simulated || (who->local_user && who->uid == net->port->ops->user(net->port));
}

static bool same_origin(const struct tide_peer_identity *a, const struct tide_peer_identity *b) {
    if (a->local_user || b->local_user) {
        return a->local_user && b->local_user && a->uid == b->uid;
    }
    const char *end = strrchr(a->address, ':'); /* the port differs from one to the next */
    const size_t host = end ? (size_t)(end - a->address) : sizeof a->address;
    return strncmp(a->address, b->address, host) == 0;
}

/* Are there too many unidentified connections? Unknown peers have a share each and one together,
 * so that they never take the places of this node's own user. All members may come at one moment:
 * when the workers of a large cluster first use a server's rows. */
static bool is_crowded(struct tide_net *net, const struct tide_peer_identity *who) {
    const size_t members = net->member_count;
    const bool own = is_own_user(net, who);
    size_t all = 0, strangers = 0, same = 0;
    for (const struct tide_link *link = net->links; link; link = link->next) {
        if (link->purpose == LINK_ACCEPTED && (link->state == LINK_GREETING || link->state == LINK_PARKED)) {
            all++;
            strangers += !is_own_user(net, &link->origin);
            same += same_origin(who, &link->origin);
        }
    }
    if (own) {
        return all - strangers >= (members > UNAUTHENTICATED_MAX ? members : UNAUTHENTICATED_MAX);
    }
    return strangers >= (members > STRANGERS_MAX ? members : STRANGERS_MAX) ||
           same >= (members > STRANGER_SHARE ? members : STRANGER_SHARE);
}

bool tide__link_may_log(struct tide_net *net) {
    net->violations++;
    uint64_t second = tide__net_now(net) / TIDE_SECOND;
    if (second != net->violations_second) {
        net->violations_second = second;
        net->violations_logged = 0;
    }
    return net->violations_logged++ < LOGS_PER_SECOND;
}

void tide__link_accepted(void *arg, struct tide_stream *stream) {
    struct tide_net *net = arg;
    struct tide_peer_identity identity;
    struct tide_tls *tls = tls_for(net, net->endpoint);
    const bool ours = !net->finished && is_ours(net, stream, tls, &identity);
    if (!ours || is_crowded(net, &identity)) {
        if (!net->finished && tide__link_may_log(net)) {
            const char *why = ours                  ? "too many that have not said hello"
                              : identity.local_user ? "of another user"
                                                    : "nobody can tell whose it is";
            char uid[24] = "";
            if (identity.local_user) {
                snprintf(uid, sizeof uid, "uid %u", (unsigned)identity.uid);
            }
            tide_log(TIDE_LOG_WARN, net->name, "refused a connection (%s): %s", identity.address, why);
            (void)tide_audit_add(&(struct tide_audit_entry){
                .verb = "connect", .result = why, .credential = uid, .address = identity.address});
        }
        return; /* what is not taken, the port closes */
    }
    struct tide_link *link = link_create(net, LINK_ACCEPTED, LINK_GREETING, tide_limit(net_handshake_timeout));
    if (!link) {
        return;
    }
    snprintf(link->remote, sizeof link->remote, "%s", identity.address);
    link->origin = identity;
    if (tide__channel_accept(&link->channel, net->port, stream, tls, &stream_events, link) != 0) {
        tide__link_free(link); /* and the port closes the stream */
    }
}

int tide__link_dial(struct tide_net *net, const char *endpoint, enum link_purpose purpose, struct tide_peer *peer) {
    struct tide_tls *tls = tls_for(net, endpoint);
    if (!tide_endpoint_is_local(endpoint) && !tls) {
        return tide_fail(TIDE_EPERM, "%s is on another machine, and this node has no keys: --keys DIR names them",
                         endpoint);
    }
    bool again = peer && peer->session;
    struct tide_link *link =
        link_create(net, purpose, LINK_DIALLING, again ? tide_limit(net_redial_timeout) : tide_limit(net_dial_timeout));
    if (!link) {
        return TIDE_ENOMEM;
    }
    snprintf(link->remote, sizeof link->remote, "%.63s", endpoint);
    link->peer = peer;
    int error = tide__channel_connect(&link->channel, net->port, net->executor, endpoint, tls, &stream_events, link);
    if (error != 0) {
        tide__link_free(link);
        return error;
    }
    if (purpose == LINK_MESH) {
        peer->link = link;
    }
    return 0;
}

/* ---- closing ---- */

void tide__link_close(struct tide_link *link) {
    if (link->state != LINK_CLOSED) {
        link->state = LINK_CLOSED;
        tide__channel_close(&link->channel);
    }
}

void tide__link_drain(struct tide_link *link) {
    if (link->state == LINK_DIALLING) {
        tide__link_close(link);
    } else if (link->state != LINK_CLOSED && link->state != LINK_DRAINING) {
        if (link->session) {
            tide__members_goodbye(link);
            link->session->outbox.parting = true;
        }
        link->state = LINK_DRAINING;
        tide__link_touch(link);
        set_deadline(link, tide__net_now(link->net) + tide_limit(net_drain_timeout));
        tide__net_wake(link->net);
    }
}

void tide__link_violation(struct tide_link *link, const char *reason) {
    if (link->state == LINK_CLOSED) {
        return;
    }
    if (tide__link_may_log(link->net)) {
        char who[24] = "a stranger";
        if (link->peer) {
            snprintf(who, sizeof who, "n%u", (unsigned)link->peer->id);
        }
        tide_log(TIDE_LOG_WARN, link->net->name, "closed the connection with %s (%s): %s", who, link->remote, reason);
        tide__link_audit_refusal(link, reason);
    }
    if (link->purpose == LINK_JOIN && !link->session) {
        tide__net_become(link->net, TIDE_MEMBER_DEAD, TIDE_EPROTO, reason);
    }
    tide__link_close(link);
}

/* `why`: NULL: what the code says. */
static void join_failed(struct tide_link *link, int code, const char *why) {
    char text[300];
    const char *distrust = tide__channel_reason(&link->channel), *reason = distrust ? distrust : why;
    snprintf(text, sizeof text, "no connection to %.63s: %s", link->remote,
             reason                      ? reason
             : code == TIDE_EUNREACHABLE ? "nobody listens there"
             : code == TIDE_ETIMEDOUT    ? "no answer"
             : code == TIDE_ECLOSED      ? "the peer closed it before it answered"
                                         : tide_error_name(code));
    /* Where a member has sent this node, or where it had its id from, there is perhaps no controller
     * any more. */
    tide__join_failed(link->net, link->net->redirects > 0 || link->net->asks_again,
                      code == 0 ? TIDE_EUNREACHABLE : code, text);
}

/* A dial or a knock ended without a connection. If the peer's endpoint refuses, its process has
 * ended, and so has the waiting session. */
static void attempt_failed(struct tide_link *link, bool refused) {
    struct tide_peer *peer = link->peer;
    struct tide_session *s = peer->session;
    if (s && !s->link && refused) {
        tide__session_end(s, "connection lost (process ended?)");
    } else if (!s || !s->link) {
        tide__peer_redial_later(link->net, peer);
        if (refused || link->bytes_in == 0) {
            tide__succession_vain(link->net, peer, refused ? "connection lost (process ended?)" : NULL);
        }
    }
}

static void closed(void *arg, int reason) {
    struct tide_link *link = arg;
    struct tide_net *net = link->net;
    struct tide_peer *peer = link->peer;
    struct tide_session *s = link->session;
    bool expected = link->state == LINK_CLOSED || link->state == LINK_DRAINING; /* our own doing */
    const char *distrust = tide__channel_reason(&link->channel);
    if (!expected && distrust && link->purpose != LINK_JOIN && tide__link_may_log(net)) {
        tide_log(TIDE_LOG_WARN, net->name, "%s %s: %s",
                 link->purpose == LINK_ACCEPTED ? "refused a connection from" : "no connection to", link->remote,
                 distrust);
        tide__link_audit_refusal(link, distrust);
    }
    bool refused = !expected && link->state == LINK_DIALLING && reason == TIDE_EUNREACHABLE;
    link->state = LINK_CLOSED;
    bool owned = peer && peer->link == link;
    if (s && (net->finished || expected || s->parting)) {
        tide__session_suspend(s);
        if (net->finished) {
            tide__session_drop(s);
            tide__peer_part(peer);
        } else {
            tide__session_end(s, expected ? "closed by this node" : "closed by the peer");
        }
    } else if (s) {
        tide__session_suspend(s);
        if (link->purpose == LINK_JOIN && net->view == 0) { /* nothing to resume */
            tide__session_end(s, "closed by the peer");
        }
    } else if (owned) {
        peer->link = NULL;
    }
    if (net->finished || s) {
        /* it is not needed any more, or all is sent */
    } else if (link->purpose == LINK_JOIN) {
        if (!expected) {
            join_failed(link, reason, NULL);
        }
    } else if (link->purpose == LINK_KNOCK || owned) {
        attempt_failed(link, refused);
    }
    tide__link_free(link);
    tide__net_wake(net);
}

/* ---- writing ---- */

void tide__link_own(struct tide_link *link, enum tide_frame_kind kind, const void *body, size_t size) {
    struct tide_frame frame = {.kind = (uint8_t)kind, .lane = TIDE_LANE_SYSTEM};
    if (kind == TIDE_FRAME_CAST && link->peer) {
        frame.to = tide_address_make(link->peer->id, TIDE_ID_MEMBERS);
        frame.from = tide_address_make(tide__net_id(link->net), TIDE_ID_MEMBERS);
    }
    if (tide__outbox_push_own(outbox_of(link), &frame, body, size) != 0) {
        tide__link_violation(link, "out of memory");
    }
    tide__link_touch(link);
    tide__net_wake(link->net);
}

static void flush(struct tide_link *link) {
    if (link->state == LINK_DIALLING || link->state == LINK_CLOSED) {
        return;
    }
    struct tide_outbox *box = outbox_of(link);
    uint64_t frames = box->frames;
    uint64_t bytes = 0, writes = 0;
    int more = 0;
    while (!link->blocked && (more = tide__outbox_gather(box)) > 0) {
        size_t count;
        const struct tide_iovec *vectors = tide__outbox_vectors(box, &count);
        ssize_t n = tide__channel_write(&link->channel, vectors, count);
        if (n < 0) {
            return; /* `closed` follows */
        }
        writes++;
        bytes += (uint64_t)n;
        tide__outbox_written(box, (size_t)n);
        tide__outbox_vectors(box, &count);
        link->blocked = count > 0;
        if (link->blocked) {
            TIDE_SOMETIMES(socket_full);
        }
    }
    if (more < 0) {
        tide__link_violation(link, "out of memory");
        return;
    }
    if (bytes > 0) {
        link->wrote = tide__net_now(link->net);
    }
    if (link->session) {
        struct tide_peer *peer = link->peer;
        if (box->ring_frames > 0) {
            tide__session_rouse(link->session); /* they wait to be acknowledged */
        }
        atomic_fetch_add_explicit(&peer->bytes_out, bytes, memory_order_relaxed);
        atomic_fetch_add_explicit(&peer->writes, writes, memory_order_relaxed);
        atomic_fetch_add_explicit(&peer->frames_out, box->frames - frames, memory_order_relaxed);
        atomic_store_explicit(&peer->queue_bytes, box->queued_bytes, memory_order_relaxed);
    }
    if (link->state == LINK_DRAINING && tide__outbox_empty(box)) {
        tide__link_close(link);
    }
}

/* The peer then works on it while this turn continues. */
void tide__link_queued(struct tide_link *link) {
    if (!link->blocked && outbox_of(link)->queued_bytes >= BATCH_BYTES) {
        flush(link);
    }
    if (!TIDE_MUTANT(link_not_touched) || outbox_of(link)->ring_frames > 0) {
        tide__link_touch(link);
    }
}

void tide__links_flush(struct tide_net *net) {
    while (net->dirty) {
        struct tide_link *link = net->dirty;
        net->dirty = link->next_dirty;
        if (!net->dirty) {
            net->dirty_tail = &net->dirty;
        }
        link->dirty = false;
        flush(link);
    }
    TIDE_ASSERT(net->dirty_tail == &net->dirty);
}

/* ---- reading ---- */

static void send_beat(struct tide_link *link, uint64_t now) {
    uint8_t body[40 + 14 * RING_NEIGHBOURS];
    struct tide_writer w;
    tide_writer_init(&w, body, sizeof body);
    tide_write_array(&w, 4);
    tide_write_uint(&w, now);
    tide_write_uint(&w, link->peer_sent);
    tide_write_uint(&w, link->peer_sent == 0 ? 0 : now - link->peer_sent_at);
    tide__gossip_write(link, &w, now);
    link->beat_at = now;
    tide__link_own(link, TIDE_FRAME_HEARTBEAT, w.data, w.size);
    tide_writer_release(&w);
}

static int beat_received(struct tide_link *link, const struct tide_frame *frame) {
    struct tide_reader r;
    tide_reader_init(&r, frame->body, frame->body_size);
    size_t count = tide_read_array(&r);
    uint64_t sent = tide_read_uint(&r), echo = tide_read_uint(&r), kept = tide_read_uint(&r);
    uint64_t now = tide__net_now(link->net);
    int error =
        r.error != 0 || count != 4 ? tide_fail(TIDE_EPROTO, "a damaged heartbeat") : tide__gossip_read(link, &r, now);
    if (error != 0) {
        return error;
    }
    link->peer_sent = sent;
    link->peer_sent_at = now;
    if (echo != 0 && echo <= now && kept <= now - echo) {
        atomic_store_explicit(&link->peer->round_trip_ns, now - echo - kept, memory_order_relaxed);
    }
    return 0;
}

/* What clients may send, whatever their right: to actors, which open to them or not (actor.h). Never what ends an
 * actor, ties lives together, or belongs to the store or to members. */
static bool is_for_clients(const struct tide_link *link, const struct tide_frame *frame) {
    const uint64_t id = tide_address_id(frame->to);
    switch (frame->kind) {
    case TIDE_FRAME_CAST: /* to the members: no more than its goodbye */
        return id != TIDE_ID_STORE && frame->lane != TIDE_LANE_STORE &&
               (id != TIDE_ID_MEMBERS || tide__members_is_goodbye(frame));
    case TIDE_FRAME_CALL:
        return id != TIDE_ID_STORE && frame->lane != TIDE_LANE_STORE;
    case TIDE_FRAME_REPLY:
    case TIDE_FRAME_ERROR:
    case TIDE_FRAME_CANCEL:
    case TIDE_FRAME_MONITOR:
    case TIDE_FRAME_DEMONITOR:
        return frame->lane != TIDE_LANE_STORE;
    case TIDE_FRAME_EXIT: /* that an actor of its own, which is watched here, has ended */
        return frame->call != 0 && (frame->call != TIDE_EXIT_KILLS || TIDE_MUTANT(client_kills)) &&
               tide_address_node(frame->from) == link->peer->id;
    default:
        return false;
    }
}

/* A message for an actor here. The store reads its lane with the bounded cursor; all other bodies
 * are scanned first. Only the store passes messages on, and they keep their sender. */
static int message_received(struct tide_link *link, const struct tide_frame *frame, struct tide_blob *owner) {
    struct tide_net *net = link->net;
    uint64_t id = tide_address_id(frame->to);
    const bool client = link->right != TIDE_RIGHT_NODE;
    if (client && !TIDE_MUTANT(rights_any_frame) && !is_for_clients(link, frame)) {
        return tide_fail(TIDE_EPERM, "a frame of kind %u in lane %u, which clients have no right to send",
                         (unsigned)frame->kind, (unsigned)frame->lane);
    }
    bool own_cursor = frame->lane == TIDE_LANE_STORE && id == TIDE_ID_STORE;
    if (!own_cursor) {
        int error = tide_scan(frame->body, frame->body_size);
        if (error != 0) {
            return error;
        }
    }
    if (tide_address_node(frame->to) != tide__net_id(net)) {
        return tide_fail(TIDE_EPROTO, "a message for node n%u", (unsigned)tide_address_node(frame->to));
    }
    if (id == TIDE_ID_MEMBERS && frame->kind == TIDE_FRAME_CAST && frame->lane == TIDE_LANE_SYSTEM) {
        tide__members_receive(link, frame);
        return 0;
    }
    uint16_t from = tide_address_node(frame->from);
    if (from != link->peer->id && frame->from != TIDE_NOBODY && frame->lane != TIDE_LANE_STORE) {
        return tide_fail(TIDE_EPROTO, "a message of node n%u", (unsigned)from);
    }
    struct tide_session *s = link->session;
    bool counted = tide__credit_window(frame->lane) != 0;
    if (counted) {
        s->delivered[frame->lane] += TIDE_FRAME_HEAD + frame->body_size;
    }
    tide_system_deliver(net->system, frame, owner, counted ? s->account : NULL, client ? link->right : TIDE_RIGHT_NONE);
    return 0;
}

static int frame_received(void *arg, const struct tide_frame *frame, struct tide_blob *owner) {
    struct tide_link *link = arg;
    if (link->state == LINK_CLOSED || link->state == LINK_DRAINING) {
        return TIDE_ECANCELED; /* too late to matter */
    }
    if (link->state != LINK_UP) {
        return tide__handshake_frame(link, frame);
    }
    atomic_fetch_add_explicit(&link->peer->frames_in, 1, memory_order_relaxed);
    link->session->confirmed = true;
    switch (frame->kind) {
    case TIDE_FRAME_CREDIT:
        return tide__session_told(link->session, frame);
    case TIDE_FRAME_HEARTBEAT:
        return beat_received(link, frame);
    case TIDE_FRAME_HELLO:
    case TIDE_FRAME_HELLO_OK:
        return tide_fail(TIDE_EPROTO, "a second handshake");
    default:
        return message_received(link, frame, owner);
    }
}

static void connected(void *arg, struct tide_stream *stream) {
    struct tide_link *link = arg;
    if (link->state != LINK_DIALLING) {
        return;
    }
    struct tide_peer_identity identity;
    if (!is_ours(link->net, stream, link->channel.tls, &identity)) {
        const char *reason =
            identity.local_user ? "the listener belongs to another user" : "nobody can tell whose the listener is";
        if (link->purpose == LINK_JOIN) {
            tide__net_become(link->net, TIDE_MEMBER_DEAD, TIDE_EPERM, reason);
        }
        tide__link_violation(link, reason);
        return;
    }
    link->state = LINK_GREETING;
    set_deadline(link, tide__net_now(link->net) + tide_limit(net_handshake_timeout));
    tide__handshake_begin(link);
    flush(link);
}

static void buffer(void *arg, void **data, size_t *size) {
    struct tide_link *link = arg;
    *data = NULL;
    *size = 0;
    if (link->state != LINK_CLOSED && tide__decoder_buffer(&link->decoder, data, size) != 0) {
        tide__link_violation(link, "out of memory");
    }
}

/* A peer that is heard after a silence had stalled or was cut off, which counts for the local health. An
 * idle session expects nothing. */
static void heard(struct tide_session *s, uint64_t now) {
    if (s->resting) {
        return;
    }
    const uint64_t silence = now - s->detector.last;
    if (s->peer->id < CLIENT_ID_MIN && silence > BEAT_INTERVAL) {
        tide__health_stood_still(s->net, now, silence - BEAT_INTERVAL);
    }
    tide__detector_beat(&s->detector, now, BEAT_INTERVAL);
}

static void received(void *arg, size_t size) {
    struct tide_link *link = arg;
    if (link->state == LINK_CLOSED) {
        return;
    }
    if (link->state == LINK_DRAINING) { /* thrown away, but read: the peer must be able to write its last words */
        tide__decoder_deinit(&link->decoder);
        return;
    }
    link->bytes_in += size;
    int error = tide__decoder_received(&link->decoder, size, frame_received, link);
    if (error != 0 && link->state != LINK_CLOSED && link->state != LINK_DRAINING) {
        tide__link_violation(link, tide_error_message());
    }
    if (link->state == LINK_UP) {
        struct tide_session *s = link->session;
        uint64_t now = tide__net_now(link->net);
        atomic_fetch_add_explicit(&link->peer->bytes_in, size, memory_order_relaxed);
        heard(s, now);
        if (link->decoder.sequenced != s->told) { /* a beat alone asks for nothing */
            s->tell_at = s->tell_at == TIDE_NEVER ? now + tide_limit(net_ack_delay) : s->tell_at;
            tide__session_touch(s);
        }
    }
}

static void writable(void *arg) {
    struct tide_link *link = arg;
    link->blocked = false;
    flush(link);
}

static const struct tide_stream_events stream_events = {
    .connected = connected, .buffer = buffer, .received = received, .writable = writable, .closed = closed};

/* ---- up, and the beat ---- */

/* tide://CLUSTER/RIGHT/NAME SERIAL of a certificate, "uid N" of a process of this machine. */
static void credential_of(const struct tide_link *link, char *out, size_t size) {
    struct tide_channel_peer peer;
    tide__channel_peer(&link->channel, &peer);
    if (peer.who) {
        snprintf(out, size, "tide://%s/%s/%s %s", peer.who->cluster, tide_right_name(peer.who->right), peer.who->name,
                 peer.who->serial);
    } else if (link->origin.local_user) {
        snprintf(out, size, "uid %u", (unsigned)link->origin.uid);
    } else {
        *out = 0;
    }
}

void tide__link_audit_refusal(const struct tide_link *link, const char *why) {
    char credential[200];
    if (link->net->port->simulated || link->purpose != LINK_ACCEPTED) {
        return;
    }
    credential_of(link, credential, sizeof credential);
    (void)tide_audit_add(&(struct tide_audit_entry){
        .verb = "connect", .result = why, .credential = credential, .address = link->remote});
}

static void audit_peer(const struct tide_link *link) {
    char credential[200];
    if (link->net->port->simulated) {
        return;
    }
    credential_of(link, credential, sizeof credential);
    tide_audit_peer(link->peer->id, credential, link->remote);
    (void)tide_audit_add(&(struct tide_audit_entry){
        .verb = "connect", .right = tide_right_name(link->right), .result = "allowed", .peer = link->peer->id});
}

void tide__link_established(struct tide_link *link) {
    struct tide_net *net = link->net;
    struct tide_peer *peer = link->peer;
    TIDE_ASSERT(link->session && peer->link == link);
    link->state = LINK_UP;
    tide__link_touch(link);
    tide__session_touch(link->session);
    link->deadline = TIDE_NEVER;
    link->wrote = tide__net_now(net);
    link->decoder.greeting = false;
    atomic_store_explicit(&peer->reachable, true, memory_order_relaxed);
    atomic_store_explicit(&peer->up, true, memory_order_relaxed);
    tide__net_wake(net);
    if (link->purpose == LINK_ACCEPTED) {
        audit_peer(link);
    }
}

static void time_is_up(struct tide_link *link) {
    if (link->state == LINK_DRAINING) {
        tide__link_close(link);
        return;
    }
    if (link->peer && link->peer->session) {
        tide__link_close(link);
        return;
    }
    if (link->purpose == LINK_JOIN) {
        const char *late = link->state == LINK_DIALLING ? NULL : "it did not finish its hello in time";
        tide__link_close(link);
        join_failed(link, TIDE_ETIMEDOUT, late);
        return;
    }
    tide__link_violation(link, link->state == LINK_DIALLING ? "no answer" : "did not finish its hello in time");
}

void tide__links_expire(struct tide_net *net, uint64_t now) {
    struct tide_link *next;
    net->deadline = TIDE_NEVER;
    for (struct tide_link *link = net->links; link; link = next) {
        next = link->next;
        if (link->state != LINK_CLOSED && now >= link->deadline) {
            time_is_up(link);
        } else if (link->state != LINK_CLOSED && link->deadline < net->deadline) {
            net->deadline = link->deadline;
        }
    }
}

void tide__links_judge(struct tide_net *net) {
    for (struct tide_link *link = net->links; link; link = link->next) {
        struct tide_channel_peer peer;
        if (!link->channel.session || link->state == LINK_CLOSED) {
            continue;
        }
        tide__channel_peer(&link->channel, &peer);
        const char *objection = peer.who ? tide__tls_objects(net->tls, peer.who) : NULL;
        if (objection) {
            tide__link_violation(link, objection);
        }
    }
}

void tide__link_beat(struct tide_link *link, uint64_t now) {
    if (link->state == LINK_UP && tide__ring_beat_due(link, now)) {
        send_beat(link, now);
    }
}
