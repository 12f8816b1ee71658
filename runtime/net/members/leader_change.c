/*
 * The controller goes away, and another one announces itself.
 *
 * Every view carries the term of the controller that sends it. A member obeys the highest term it
 * has received and rejects what is lower, from any sender: an old controller that is still alive,
 * or what it had sent, changes nothing any more. A new one announces itself by its hello, which
 * carries its term, and is obeyed from its first view on.
 *
 * A controller that keeps its decisions (views say so) may be started again: until then its members
 * continue. Pulls, pushes, relocations and the workers need no controller; views, slot moves and new
 * tables wait. The death of any other controller ends the cluster's membership. A client whose
 * controller goes calls all members it knows: the one that leads next notifies it, as it notifies all
 * that are linked with it. For that a client has as long as a joiner.
 *
 * A joiner that got its id and no view yet is known to the controller's log at most. It forgets the
 * id and retries: the controller of that moment finds its incarnation there, and gives it the same id, or
 * a first one. From its first view on it waits like a member.
 */
#include "net/net_state.h"
#include "net/link/link.h"
#include "net/link/peer.h"
#include "net/link/session.h"
#include "net/members/leader_change.h"
#include "net/members/members.h"
#include "net/members/quorum.h"

#include <string.h>

bool tide__succession_announced(const struct tide_net *net, const struct tide_hello *hello) {
    return tide_net_durable(net) && !net->controls && !net->finished && hello->term > net->term;
}

/* From here on `peer` is the controller; its first view follows. */
static void adopt(struct tide_net *net, struct tide_peer *peer, uint64_t term) {
    bool first = net->term == 0;
    net->term = term;
    net->away = false;
    atomic_store_explicit(&net->controller, peer->id, memory_order_relaxed);
    struct known *known = tide__members_find(net, peer->id);
    if (known) {
        tide__members_unsettle(net, known); /* notifies those with a message for the controller */
    }
    if (!first) {
        tide_log(TIDE_LOG_INFO, net->name, "node n%u is the controller, in term %llu", (unsigned)peer->id,
                 (unsigned long long)term);
    }
}

void tide__succession_view(struct tide_link *link, struct tide_reader *r) {
    struct tide_net *net = link->net;
    struct tide_peer *peer = link->peer;
    uint64_t term = tide_read_uint(r);
    if (r->error != 0 || term == 0) {
        tide__link_violation(link, "a damaged view");
        return;
    }
    bool older = term < net->term && !TIDE_MUTANT(no_term_check);
    if (older || (net->controls && (term <= net->term || !tide__quorum_is(net)))) {
        tide_log(TIDE_LOG_WARN, net->name, "refused a view of node n%u: it is of term %llu, this node obeys term %llu",
                 (unsigned)peer->id, (unsigned long long)term, (unsigned long long)net->term);
        return;
    }
    if (net->controls) { /* the log will say so too */
        tide__quorum_step_down(net);
    }
    bool change = peer->id != tide_net_controller(net);
    if (change && term == net->term) {
        tide__link_violation(link, "a view of somebody who is not the controller");
        return;
    }
    if (change || term != net->term) {
        adopt(net, peer, term);
    }
    if (tide__members_apply_view(net, r) != 0) {
        tide__link_violation(link, tide_error_message());
        return;
    }
    net->away = false;
    if (net->client && !net->finished) {
        tide__net_become(net, TIDE_MEMBER_UP, 0, "");
    }
    const struct known *known = tide__members_find(net, peer->id);
    if (known) {
        memcpy(net->controller_endpoint, known->member.endpoint, sizeof net->controller_endpoint);
    }
    if (change && !net->client && !net->finished && link->state == LINK_UP) {
        tide__members_report_again(net, link);
        tide__members_report_ready(net);
    }
}

/* ---- it goes away ---- */

/* What has become of the controller, with its name: nodes' errors say it. */
static void tell_of(struct tide_net *net, const char *what, const char *reason, char text[220]) {
    char name[96];
    tide_net_name(net, tide_net_controller(net), name);
    snprintf(text, 220, "%s: node %s: %s", what, name, reason);
}

static void end_with(struct tide_net *net, struct known *controller, const char *reason) {
    controller->member.state = TIDE_MEMBER_DEAD;
    snprintf(controller->member.reason, sizeof controller->member.reason, "%s", reason);
    tide__members_unsettle(net, controller);
    tide__members_publish(net);
    tide__members_settle(net);
    char text[220];
    tell_of(net, "controller is gone", reason, text);
    bool leaving = atomic_load_explicit(&net->leave_wanted, memory_order_relaxed);
    tide__net_become(net, leaving ? TIDE_MEMBER_LEFT : TIDE_MEMBER_DEAD, leaving ? 0 : TIDE_EDIED, text);
}

static bool has_view(struct tide_net *net) {
    const struct known *self = tide__members_find(net, tide__net_id(net));
    return self && (self->member.state != TIDE_MEMBER_JOINING || !TIDE_MUTANT(join_forgotten));
}

/* The controller may not have sent this node its last decision, and may restart at an unknown place. Other
 * members have the decision and have dropped a node that left or was declared dead: they answer so to a
 * knocking peer. */
static void ask_others(struct tide_net *net) {
    for (size_t i = 0; i < net->member_count; i++) {
        struct tide_peer *peer = tide__peer(net, net->members[i].member.id);
        if (peer && peer->lost && !peer->session) {
            tide__peer_redial_later(net, peer);
        }
    }
}

/* Its process may stall, or its cable be cut: the session lasts, and resumes with it. */
void tide__succession_silent(struct tide_session *s, const char *reason) {
    struct tide_net *net = s->net;
    if (!tide_net_durable(net) || net->client || !has_view(net)) {
        tide__session_end(s, reason);
    } else if (!net->away) {
        net->away = true;
        char text[220];
        tell_of(net, "the controller is away", reason, text);
        tide_log(TIDE_LOG_WARN, net->name, "%s", text);
        ask_others(net);
    }
}

/* A client cannot judge: the controller may have stepped down, or have ended the session of a client that stalled or
 * was cut off. The client joins again under its own id; until a view comes it is JOINING. */
static void seek(struct tide_net *net, struct tide_peer *former, const char *reason) {
    const uint64_t now = tide__net_now(net);
    net->away = true;
    tide__net_become(net, TIDE_MEMBER_JOINING, 0, reason);
    net->away_since = now;
    net->attend = true;
    tide__peer_down(net, former, TIDE_EDIED, reason);
    atomic_store_explicit(&former->reachable, true, memory_order_relaxed);
    for (size_t i = 0; i < net->member_count; i++) {
        struct tide_peer *peer = tide__peer(net, net->members[i].member.id);
        if (peer && !peer->session) {
            peer->redial_at = now;
        }
    }
}

bool tide__succession_seeks(const struct tide_net *net) {
    return net->client && net->away;
}

static void sought_in_vain(struct tide_net *net, const char *reason) {
    end_with(net, tide__members_find(net, tide_net_controller(net)), reason);
    tide__net_finish(net, false);
}

void tide__succession_tick(struct tide_net *net, uint64_t now) {
    if (tide__succession_seeks(net) && now - net->away_since >= JOIN_PATIENCE) {
        sought_in_vain(net, "no other one was found");
    }
}

void tide__succession_vain(struct tide_net *net, const struct tide_peer *peer, const char *reason) {
    if (!tide__succession_seeks(net) || peer->id != tide_net_controller(net)) {
        return;
    }
    if (!reason) { /* a cut network: it may be there */
        net->away_since = tide__net_now(net);
    } else if (!tide_net_durable(net)) {
        sought_in_vain(net, reason);
    }
}

void tide__succession_unseen(struct tide_net *net) {
    tide_system_set_node_id(net->system, 0);
    atomic_store_explicit(&net->id, 0, memory_order_relaxed);
    atomic_store_explicit(&net->controller, 0, memory_order_relaxed);
    net->controller_endpoint[0] = 0;
    net->asks_again = true;
    tide__join_failed(net, !TIDE_MUTANT(join_forgotten), TIDE_ECLOSED, "the controller closed the connection");
}

void tide__succession_lost(struct tide_net *net, struct known *controller, const char *reason) {
    struct tide_peer *peer = tide__peer(net, controller->member.id);
    if (net->client) {
        seek(net, peer, reason);
        return;
    }
    if (!tide_net_durable(net) || !has_view(net)) {
        end_with(net, controller, reason);
        return;
    }
    char text[220];
    tell_of(net, "the controller is away", reason, text);
    tide_log(TIDE_LOG_WARN, net->name, "%s; views, slot moves and new tables wait for it", text);
    tide_event_add(net->system, "controller", "%s", text);
    net->away = true;
    peer->lost = true;
    tide__peer_down(net, peer, TIDE_EDIED, text);
    ask_others(net); /* and itself: it may still be there, and know what became of us */
}

void tide__succession_refused(struct tide_net *net, bool dead, const char *reason) {
    struct known *self = tide__members_find(net, tide__net_id(net));
    if (!self || self->member.state > TIDE_MEMBER_LEAVING) {
        return;
    }
    self->member.state = dead ? TIDE_MEMBER_DEAD : TIDE_MEMBER_LEFT;
    snprintf(self->member.reason, sizeof self->member.reason, "%.119s", reason);
    tide__members_unsettle(net, self);
    tide__members_publish(net);
    tide__members_settle(net);
}
