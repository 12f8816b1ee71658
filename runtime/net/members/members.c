/*
 * Members: this node's view of the others, and the effects of its changes.
 *
 * The controller numbers views. To a new connection it sends the whole list, then what is new in
 * each view; all apply the newer and ignore the older. A change has effects first (dial, close, fail what
 * waits), then the watchers are notified. A state only moves forward: JOINING, UP, LEAVING, then LEFT or DEAD for ever.
 *
 * Every member watches those whose beats it is to hear (ring.c), in small clusters all: an end of stream is followed by
 * an attempt to connect again, whose refusal says that the process is gone; silence, with or without a connection, is
 * judged by the accrual detector, and others are asked (probe.c). Membership messages are not part of a session: after
 * a reconnect both sides resend what the other one may have missed. Observations are reported to the controller,
 * which alone declares deaths (controller.c). The controller itself is judged by each member alone (leader_change.c).
 */
#include "net/net_state.h"
#include "net/link/handshake.h"
#include "net/link/link.h"
#include "net/link/peer.h"
#include "net/link/session.h"
#include "net/members/controller.h"
#include "net/members/gossip.h"
#include "net/members/leader_change.h"
#include "net/members/local_health.h"
#include "net/members/members.h"
#include "net/members/probe.h"
#include "net/members/quorum.h"

#include <string.h>

enum { MEMBER_FIELDS = 9 };

/* ---- the list ---- */

static size_t position(const struct tide_net *net, uint16_t id) {
    size_t low = 0, high = net->member_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (net->members[middle].member.id < id) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

struct known *tide__members_find(struct tide_net *net, uint16_t id) {
    size_t at = position(net, id);
    return at < net->member_count && net->members[at].member.id == id ? &net->members[at] : NULL;
}

bool tide__members_may_come(struct tide_net *net, uint16_t id) {
    const uint16_t self = tide__net_id(net);
    return self != 0 && id > self && id < CLIENT_ID_MIN && !tide__members_find(net, id);
}

void tide__members_unsettle(struct tide_net *net, struct known *known) {
    size_t at = (size_t)(known - net->members);
    known->unsettled = true;
    net->unpublished = true;
    net->unsettled_low = at < net->unsettled_low ? at : net->unsettled_low;
    net->unsettled_high = at >= net->unsettled_high ? at + 1 : net->unsettled_high;
}

struct known *tide__members_add(struct tide_net *net, const struct tide_member *member) {
    if (net->member_count == net->member_capacity) {
        size_t capacity = net->member_capacity == 0 ? 8 : 2 * net->member_capacity;
        struct known *grown = tide_realloc(net->members, capacity * sizeof *grown);
        if (!grown) {
            return NULL;
        }
        net->members = grown;
        net->member_capacity = capacity;
    }
    size_t at = position(net, member->id);
    memmove(&net->members[at + 1], &net->members[at], (net->member_count - at) * sizeof net->members[0]);
    net->member_count++;
    net->members[at] = (struct known){.member = *member};
    tide__members_unsettle(net, &net->members[at]);
    net->unsettled_high = net->member_count; /* those behind it have moved */
    TIDE_ASSERT(at == 0 || net->members[at - 1].member.id < member->id);
    TIDE_ASSERT(at + 1 == net->member_count || net->members[at + 1].member.id > member->id);
    return &net->members[at];
}

/* The copy that other threads read: what is new and what has changed goes into it. */
void tide__members_publish(struct tide_net *net) {
    tide_lock(&net->lock);
    if (net->published_capacity < net->member_count) {
        struct tide_member *grown = tide_realloc(net->published, net->member_capacity * sizeof *grown);
        if (!grown) {
            tide_unlock(&net->lock);
            return; /* readers keep the last one */
        }
        net->published = grown;
        net->published_capacity = net->member_capacity;
    }
    size_t from = net->published_late ? 0 : net->unsettled_low;
    size_t to = net->published_late ? net->member_count : net->unsettled_high;
    for (size_t i = from; i < to; i++) {
        net->published[i] = net->members[i].member;
    }
    net->published_late = false;
    net->unpublished = false;
    net->published_count = net->member_count;
    net->published_view = net->view;
    tide_unlock(&net->lock);
}

/* ---- what follows from a change ---- */

static void self_changed(struct tide_net *net, const struct tide_member *m) {
    char text[200];
    switch (m->state) {
    case TIDE_MEMBER_DEAD:
        snprintf(text, sizeof text, "this node was declared dead: %s", m->reason);
        tide__net_become(net, TIDE_MEMBER_DEAD, TIDE_EDIED, text);
        tide__net_finish(net, net->controls);
        break;
    case TIDE_MEMBER_LEFT:
        tide__net_become(net, TIDE_MEMBER_LEFT, 0, m->reason);
        tide__net_finish(net, true);
        break;
    default:
        tide__net_become(net, (enum tide_member_state)m->state, 0, m->reason);
        break;
    }
}

static void lives(struct tide_net *net, const struct tide_member *m) {
    struct tide_peer *peer = tide__peer_make(net, m->id);
    if (!peer || net->finished) {
        return;
    }
    if (peer->incarnation == 0) {
        peer->incarnation = m->incarnation;
    }
    if (peer->lost) {
        return;
    }
    atomic_store_explicit(&peer->reachable, true, memory_order_relaxed);
}

/* Members that were there before this node are not logged; in a ring each would log all. */
static void note_arrival(struct tide_net *net, struct known *known) {
    const struct known *self = tide__members_find(net, tide__net_id(net));
    bool up = known->member.state == TIDE_MEMBER_UP;
    if (up && !known->noted && !net->ringed && self && self->member.state == TIDE_MEMBER_UP) {
        tide_event_add(net->system, "node", "node %s joined", known->member.name);
    }
    known->noted = known->noted || up;
}

static void departed(struct tide_net *net, const struct tide_member *m) {
    struct tide_peer *peer = tide__peer(net, m->id);
    if (!peer) {
        return;
    }
    char text[200];
    bool dead = m->state == TIDE_MEMBER_DEAD;
    snprintf(text, sizeof text, dead ? "node %s died: %s" : "node %s left", m->name, m->reason);
    tide_log(dead ? TIDE_LOG_WARN : TIDE_LOG_INFO, net->name, "%s", text);
    tide_event_add(net->system, "node", "%s", text);
    if (peer->link) {
        /* The controller's last view must reach the one it is about. */
        if (net->controls || !dead) {
            tide__link_drain(peer->link);
        } else {
            tide__link_close(peer->link);
        }
    }
    if (peer->session && !peer->session->link) {
        tide__session_drop(peer->session);
    }
    peer->lost = true;
    tide__peer_down(net, peer, dead ? TIDE_EDIED : TIDE_ECLOSED, text);
    if (net->client && !dead && m->id == tide_net_controller(net) && !tide_net_durable(net)) {
        tide__net_become(net, TIDE_MEMBER_LEFT, 0, "the cluster ended");
        tide__net_finish(net, true);
    }
}

static void tell(struct tide_member_watch *watch, const struct tide_member *member) {
    for (; watch; watch = watch->next) {
        watch->changed(watch->arg, member);
    }
}

/* Watchers that are new since the last time are notified of every member. */
static void greet_new_watches(struct tide_net *net) {
    tide_lock(&net->lock);
    struct tide_member_watch *fresh = net->new_watches;
    net->new_watches = NULL;
    tide_unlock(&net->lock);
    if (!fresh) {
        return;
    }
    for (size_t i = 0; i < net->member_count; i++) {
        struct tide_member member = net->members[i].member; /* a watcher may change the list */
        if (!net->members[i].unsettled && member.state <= TIDE_MEMBER_LEAVING) {
            tell(fresh, &member);
        }
    }
    struct tide_member_watch **end = &net->watches;
    while (*end) {
        end = &(*end)->next;
    }
    *end = fresh;
}

static size_t living(const struct tide_net *net) {
    size_t count = 0;
    for (size_t i = 0; i < net->member_count; i++) {
        count += net->members[i].counted;
    }
    return count;
}

static void count_living(struct tide_net *net, struct known *known) {
    bool lives = known->member.state <= TIDE_MEMBER_LEAVING;
    net->living += lives && !known->counted;
    net->living -= !lives && known->counted;
    known->counted = lives;
    TIDE_INVARIANT(net->living == living(net));
}

void tide__members_settle(struct tide_net *net) {
    if (net->settling) {
        return; /* the loop below, further up the stack, sees to it */
    }
    bool any = false;
    net->settling = true;
    greet_new_watches(net);
    for (size_t i = net->unsettled_low; i < net->unsettled_high;) {
        struct known *known = &net->members[i];
        if (!known->unsettled) {
            i++;
            continue;
        }
        known->unsettled = false;
        struct tide_member member = known->member;
        count_living(net, known);
        if (member.id == tide__net_id(net)) {
            self_changed(net, &member);
        } else if (member.state <= TIDE_MEMBER_LEAVING) {
            note_arrival(net, known);
            lives(net, &member);
        } else {
            departed(net, &member);
        }
        tell(net->watches, &member);
        i = net->unsettled_low; /* effects and watchers may have changed others, earlier in the list too */
        any = true;
    }
    net->published_late = net->published_late || net->unpublished;
    net->unsettled_low = SIZE_MAX;
    net->unsettled_high = 0;
    net->settling = false;
    if (any) {
        tide__ring_refresh(net);
        tide__peers_came(net);
    }
}

/* ---- views ---- */

void tide__member_write(struct tide_writer *w, const struct tide_member *m) {
    tide_write_array(w, MEMBER_FIELDS);
    tide_write_uint(w, m->id);
    tide_write_uint(w, m->incarnation);
    tide_write_uint(w, m->state);
    tide_write_bool(w, m->store);
    tide_write_uint(w, m->workers);
    tide_write_int(w, m->pid);
    tide_write_text(w, m->name);
    tide_write_text(w, m->endpoint);
    tide_write_text(w, m->reason);
}

/* [verb, term, number, durable, base, members] */
static void write_view_head(struct tide_net *net, struct tide_writer *w, uint64_t base, size_t count) {
    tide_write_array(w, 6);
    tide_write_uint(w, VERB_VIEW);
    tide_write_uint(w, net->term);
    tide_write_uint(w, net->view);
    tide_write_bool(w, tide_net_durable(net));
    tide_write_uint(w, base);
    tide_write_array(w, count);
}

void tide__members_write_news(struct tide_net *net, struct tide_writer *w, uint64_t base,
                              const struct tide_member *members, size_t count) {
    write_view_head(net, w, base, count);
    for (size_t i = 0; i < count; i++) {
        tide__member_write(w, &members[i]);
    }
}

/* The living and the last of the departed, by id. */
void tide__members_write_view(struct tide_net *net, struct tide_writer *w) {
    size_t departures = 0;
    for (size_t i = 0; i < net->member_count; i++) {
        departures += net->members[i].member.state > TIDE_MEMBER_LEAVING;
    }
    size_t skipped = departures > DEPARTED_MAX ? departures - DEPARTED_MAX : 0;
    write_view_head(net, w, 0, net->member_count - skipped);
    for (size_t i = 0; i < net->member_count; i++) {
        const struct tide_member *m = &net->members[i].member;
        if (m->state > TIDE_MEMBER_LEAVING && skipped > 0) {
            skipped--;
            continue;
        }
        tide__member_write(w, m);
    }
}

void tide__member_read(struct tide_reader *r, struct tide_member *m) {
    *m = (struct tide_member){0};
    size_t fields = tide_read_array(r);
    uint64_t id = tide_read_uint(r);
    m->incarnation = tide_read_uint(r);
    uint64_t state = tide_read_uint(r);
    m->store = tide_read_bool(r);
    uint64_t workers = tide_read_uint(r);
    int64_t pid = tide_read_int(r);
    tide_read_text(r, m->name, sizeof m->name);
    tide_read_text(r, m->endpoint, sizeof m->endpoint);
    tide_read_text(r, m->reason, sizeof m->reason);
    if (fields != MEMBER_FIELDS || id == 0 || id >= CLIENT_ID_MIN || state > TIDE_MEMBER_DEAD || workers > UINT16_MAX ||
        pid < 0 || pid > INT32_MAX || m->incarnation == 0 || !tide_identifier_valid(m->name)) {
        r->error = TIDE_EPROTO;
        return;
    }
    m->id = (uint16_t)id;
    m->state = (uint8_t)state;
    m->workers = (uint16_t)workers;
    m->pid = (int32_t)pid;
}

static int merge(struct tide_net *net, const struct tide_member *m) {
    struct known *known = tide__members_find(net, m->id);
    if (!known) {
        known = tide__members_add(net, m);
        if (!known) {
            return TIDE_ENOMEM;
        }
        known->unsettled = m->state <= TIDE_MEMBER_LEAVING; /* unknown nodes that are gone already do not matter here */
        return 0;
    }
    if (known->member.incarnation != m->incarnation) {
        return tide_fail(TIDE_EPROTO, "a view changes the incarnation of n%u", (unsigned)m->id);
    }
    if (m->state > known->member.state && known->member.state <= TIDE_MEMBER_LEAVING) {
        known->member = *m;
        tide__members_unsettle(net, known);
    }
    return 0;
}

/* Joining: notifies the controller once every member that is up and is to be linked is so. */
void tide__members_report_ready(struct tide_net *net) {
    struct known *self = tide__members_find(net, tide__net_id(net));
    struct tide_peer *controller = tide__peer(net, tide_net_controller(net));
    if (net->controls || !self || self->member.state != TIDE_MEMBER_JOINING || !controller || !controller->link) {
        return;
    }
    size_t linked = 0;
    for (size_t i = 0; i < net->member_count; i++) {
        const struct tide_member *m = &net->members[i].member;
        struct tide_peer *peer = m->id == self->member.id ? NULL : tide__peer(net, m->id);
        bool up = peer && peer->link && peer->link->state == LINK_UP;
        if (!up && m->id != self->member.id && m->state == TIDE_MEMBER_UP && tide__ring_watches(net, m->id)) {
            return;
        }
        linked += up;
    }
    struct tide_writer w;
    tide_writer_init(&w, NULL, 0);
    tide_write_array(&w, 2);
    tide_write_uint(&w, VERB_READY);
    tide_write_array(&w, linked);
    for (size_t i = 0; i < net->member_count; i++) {
        uint16_t id = net->members[i].member.id;
        struct tide_peer *peer = id == self->member.id ? NULL : tide__peer(net, id);
        if (peer && peer->link && peer->link->state == LINK_UP) {
            tide_write_uint(&w, id);
        }
    }
    tide__members_cast(net, controller->link, &w);
    tide_writer_release(&w);
}

int tide__members_apply_view(struct tide_net *net, struct tide_reader *r) {
    uint64_t view = tide_read_uint(r);
    bool durable = tide_read_bool(r);
    uint64_t base = tide_read_uint(r);
    size_t count = tide_read_array(r);
    if (r->error != 0 || count > MEMBERS_MAX + DEPARTED_MAX) {
        return tide_fail(TIDE_EPROTO, "a damaged view");
    }
    if (view <= net->view) {
        return 0;
    }
    if (base > net->view) {
        return tide_fail(TIDE_EPROTO, "news since view %llu, of which nothing came", (unsigned long long)base);
    }
    struct tide_reader check = *r; /* all or nothing */
    struct tide_member member;
    for (size_t i = 0; i < count; i++) {
        tide__member_read(&check, &member);
    }
    if (check.error != 0) {
        return tide_fail(TIDE_EPROTO, "a damaged view");
    }
    for (size_t i = 0; i < count; i++) {
        tide__member_read(r, &member);
        int error = merge(net, &member);
        if (error != 0) {
            return error;
        }
    }
    net->view = view;
    atomic_store_explicit(&net->durable, durable, memory_order_relaxed);
    tide__members_publish(net);
    tide__members_settle(net);
    tide__handshake_unpark(net);
    tide__members_report_ready(net);
    return 0;
}

void tide__members_cast(struct tide_net *net, struct tide_link *link, const struct tide_writer *w) {
    if (w->error != 0 || w->size > TIDE_FRAME_MAX) {
        tide_log(TIDE_LOG_ERROR, net->name, "a membership message was not sent: out of memory");
        return;
    }
    tide__link_own(link, TIDE_FRAME_CAST, w->data, w->size);
}

bool tide__members_is_goodbye(const struct tide_frame *frame) {
    struct tide_reader r;
    tide_reader_init(&r, frame->body, frame->body_size);
    size_t count = tide_read_array(&r);
    uint64_t verb = tide_read_uint(&r);
    return r.error == 0 && count == 1 && verb == VERB_GOODBYE;
}

void tide__members_receive(struct tide_link *link, const struct tide_frame *frame) {
    struct tide_net *net = link->net;
    struct tide_reader r;
    tide_reader_init(&r, frame->body, frame->body_size);
    size_t count = tide_read_array(&r);
    uint64_t verb = tide_read_uint(&r);
    if (r.error != 0 || count < 1) {
        tide__link_violation(link, "a damaged membership message");
    } else if (verb == VERB_GOODBYE) {
        link->session->parting = true;
    } else if (verb == VERB_VIEW) {
        tide__succession_view(link, &r);
    } else if (verb == VERB_LOG) {
        tide__quorum_receive(net, link->peer->id, &r);
    } else if (verb == VERB_PROBE || verb == VERB_HEARD) {
        tide__probe_receive(link, (unsigned)verb, &r);
    } else if (net->controls) {
        tide__controller_receive(net, link->peer->id, (unsigned)(verb & 255), &r);
    }
}

void tide__members_welcomed(struct tide_net *net, struct tide_peer *controller, const struct tide_welcome *welcome) {
    memcpy(net->name, welcome->assigned_name, sizeof net->name);
    memcpy(net->controller_endpoint, welcome->endpoint, sizeof net->controller_endpoint);
    tide_system_set_node_id(net->system, welcome->assigned_id);
    atomic_store_explicit(&net->controller, controller->id, memory_order_relaxed);
    atomic_store_explicit(&net->id, welcome->assigned_id, memory_order_relaxed);
}

/* ---- suspicion ---- */

static void send_report(struct tide_net *net, enum member_verb verb, uint16_t subject, bool lost, const char *reason) {
    struct tide_peer *controller = tide__peer(net, tide_net_controller(net));
    if (!controller || !controller->link || controller->link->state != LINK_UP) {
        return;
    }
    uint8_t body[200];
    struct tide_writer w;
    tide_writer_init(&w, body, sizeof body);
    tide_write_array(&w, 4);
    tide_write_uint(&w, verb);
    tide_write_uint(&w, subject);
    tide_write_bool(&w, lost);
    tide_write_text(&w, reason);
    tide__members_cast(net, controller->link, &w);
    tide_writer_release(&w);
}

/* A word of one verb alone. */
static void send_verb(struct tide_net *net, struct tide_link *link, enum member_verb verb) {
    uint8_t body[8];
    struct tide_writer w;
    tide_writer_init(&w, body, sizeof body);
    tide_write_array(&w, 1);
    tide_write_uint(&w, verb);
    tide__members_cast(net, link, &w);
    tide_writer_release(&w);
}

void tide__members_goodbye(struct tide_link *link) {
    send_verb(link->net, link, VERB_GOODBYE);
}

void tide__members_leave(struct tide_link *link) {
    send_verb(link->net, link, VERB_LEAVE);
}

void tide_net_ends(struct tide_net *net, const uint16_t *ids, size_t count) {
    struct tide_peer *controller = tide__peer(net, tide_net_controller(net));
    for (size_t i = 0; i < count; i++) { /* also for the time when this node is the controller */
        tide__controller_ends(net, ids[i]);
    }
    if (net->controls || !controller || !controller->link || controller->link->state != LINK_UP) {
        return;
    }
    struct tide_writer w;
    tide_writer_init(&w, NULL, 0);
    tide_write_array(&w, 2);
    tide_write_uint(&w, VERB_ENDS);
    tide_write_array(&w, count);
    for (size_t i = 0; i < count; i++) {
        tide_write_uint(&w, ids[i]);
    }
    tide__members_cast(net, controller->link, &w);
    tide_writer_release(&w);
}

/* All of it may be said twice. */
void tide__members_report_again(struct tide_net *net, struct tide_link *link) {
    for (size_t i = 0; i < net->member_count; i++) {
        const struct tide_member *m = &net->members[i].member;
        struct tide_peer *peer = tide__peer(net, m->id);
        if (!peer || m->state > TIDE_MEMBER_LEAVING || peer == link->peer) {
            continue;
        }
        if (peer->lost) {
            send_report(net, VERB_SUSPECT, m->id, true, "connection lost");
        } else if (peer->session) {
            bool silent = peer->session->reported;
            send_report(net, silent ? VERB_SUSPECT : VERB_CLEAR, m->id, false, silent ? "no heartbeat" : "");
        }
    }
    if (net->leave_sent) {
        tide__members_leave(link);
    }
}

void tide__members_link_up(struct tide_net *net, struct tide_peer *peer) {
    if (net->controls) {
        struct tide_writer w;
        tide_writer_init(&w, NULL, 0);
        tide__members_write_view(net, &w);
        tide__members_cast(net, peer->link, &w);
        tide_writer_release(&w);
    } else if (peer->id == tide_net_controller(net) && !net->client) {
        tide__members_report_again(net, peer->link);
    }
    tide__members_report_ready(net);
}

static void report(struct tide_net *net, uint16_t subject, bool lost, const char *reason) {
    if (net->controls) {
        tide__controller_report(net, tide__net_id(net), subject, lost, reason);
    } else {
        send_report(net, VERB_SUSPECT, subject, lost, reason);
    }
}

void tide__members_link_lost(struct tide_net *net, struct tide_peer *peer, const char *reason) {
    char text[160];
    if (net->client) {
        atomic_fetch_add_explicit(&net->sessions_lost, 1, memory_order_relaxed);
    }
    if (peer->id >= CLIENT_ID_MIN) {
        snprintf(text, sizeof text, "client n%u is gone: %s", (unsigned)peer->id, reason);
        tide__peer_down(net, peer, TIDE_EDIED, text);
        return;
    }
    struct known *known = tide__members_find(net, peer->id);
    if (!known && tide__net_id(net) != 0 && net->view > 0) {
        return; /* a controller that announced itself, and no more: it will again */
    }
    if (!known) { /* the controller, before its first view */
        tide__succession_unseen(net);
        return;
    }
    if (known->member.state > TIDE_MEMBER_LEAVING) {
        return; /* its end has been dealt with */
    }
    if (peer->id == tide_net_controller(net)) {
        tide__succession_lost(net, known, reason);
        return;
    }
    if (net->client) { /* not this node's to judge: the next message dials again */
        snprintf(text, sizeof text, "the connection to node %s was lost", known->member.name);
        tide__peer_down(net, peer, TIDE_EDIED, text);
        atomic_store_explicit(&peer->reachable, true, memory_order_relaxed);
        return;
    }
    peer->lost = true;
    atomic_store_explicit(&peer->reachable, false, memory_order_relaxed);
    tide__peer_wake(peer);
    report(net, peer->id, true, reason);
    if (net->away) {
        tide__peer_redial_later(net, peer); /* it may know what became of us (leader_change.c) */
    }
}

/* A member reports once. The controller looks each time, and in a ring is no node's neighbour. */
static bool is_confirmed(struct tide_session *s, uint64_t now) {
    const struct tide_net *net = s->net;
    if (s->reported && !net->controls) {
        return false;
    }
    return net->ringed ? net->controls || tide__gossip_confirms(s, now) : tide__probe_confirms(s, now);
}

void tide__members_silent(struct tide_session *s, uint64_t now) {
    struct tide_net *net = s->net;
    struct tide_peer *peer = s->peer;
    bool controller = peer->id == tide_net_controller(net);
    if ((peer->id >= CLIENT_ID_MIN || net->client) && !controller) {
        if (now - s->suspect_since >= tide_limit(net_client_patience)) {
            tide__session_end(s, "silent");
        }
        return;
    }
    char text[96], process[64] = "";
    const struct known *known = tide__members_find(net, peer->id);
    if (known) {
        tide__health_describe(net, &known->member, process);
    }
    snprintf(text, sizeof text, "no heartbeat for %.1f s%s", (double)(now - s->detector.last) / 1e9, process);
    if (controller) {
        if (now - s->suspect_since >= tide_limit(net_controller_patience)) {
            tide__succession_silent(s, text);
        }
    } else if (is_confirmed(s, now)) {
        s->reported = true;
        report(net, peer->id, false, text);
    }
}

void tide__members_heard(struct tide_net *net, struct tide_peer *peer) {
    if (peer->id == tide_net_controller(net)) {
        net->away = false;
    }
    if (net->controls) {
        tide__controller_withdraw(net, tide__net_id(net), peer->id);
    } else if (!net->client && peer->id < CLIENT_ID_MIN) {
        send_report(net, VERB_CLEAR, peer->id, false, "");
    }
}

/* ---- the tick: dials and messages that waited too long ---- */

/* The higher id dials, the lower one knocks; a client, and a node that looks for a controller that is
 * away, dials in any case; a lost one is only probed. */
static void dial_member(struct tide_net *net, struct tide_peer *peer, const char *endpoint, bool absent, uint64_t now) {
    bool asks = peer->lost && !absent;
    bool dials = (net->client || absent || peer->id < tide__net_id(net)) && !asks;
    bool watched = !net->client && dials && tide__ring_watches(net, peer->id);
    peer->redial_at = TIDE_NEVER;
    if (!absent && !asks && !watched && !peer->knocked && !peer->waiting && !tide__succession_seeks(net)) {
        return; /* it is not needed any more */
    }
    peer->knocked = false;
    if (tide__link_dial(net, endpoint, dials ? LINK_MESH : LINK_KNOCK, peer) != 0) {
        tide_log(TIDE_LOG_WARN, net->name, "n%u: %s", (unsigned)peer->id, tide_error_message());
        peer->redial_at = now + TIDE_SECOND;
    }
}

static void attend(struct tide_net *net, uint64_t now) {
    net->attend = false;
    for (size_t i = 0; i < net->member_count && !net->finished; i++) {
        const struct tide_member *m = &net->members[i].member;
        struct tide_peer *peer = tide__peer(net, m->id);
        if (!peer || m->id == tide__net_id(net) || m->state > TIDE_MEMBER_LEAVING) {
            continue;
        }
        bool absent = net->away && m->id == tide_net_controller(net);
        bool asks = net->away && !net->client && !TIDE_MUTANT(others_unasked);
        if (!peer->link && !peer->session && (!peer->lost || absent || asks) && now >= peer->redial_at &&
            (!net->client || peer->waiting || tide__succession_seeks(net))) {
            dial_member(net, peer, m->endpoint, absent, now);
        }
        if (peer->waiting && now - peer->waiting_since >= tide_limit(net_waiting_timeout)) {
            char text[120];
            snprintf(text, sizeof text, "no connection to node %s within %.3g s", m->name,
                     (double)tide_limit(net_waiting_timeout) / 1e9);
            tide__peer_fail_waiting(net, peer, TIDE_EUNREACHABLE, text);
        }
        net->attend = net->attend || peer->waiting || (!peer->session && peer->redial_at != TIDE_NEVER);
    }
}

void tide__members_tick(struct tide_net *net, uint64_t now) {
    if (net->attend) {
        attend(net, now);
    }
    if (net->early && now - net->early_since >= tide_limit(net_waiting_timeout)) {
        char text[64];
        snprintf(text, sizeof text, "no view named the node within %.3g s",
                 (double)tide_limit(net_waiting_timeout) / 1e9);
        tide__peers_fail_early(net, TIDE_EUNREACHABLE, text);
    }
    tide__succession_tick(net, now);
    if (net->controls) {
        tide__controller_resolve(net, now);
    }
}
