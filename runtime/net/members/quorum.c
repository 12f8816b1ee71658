/*
 * Several nodes hold what the controller has decided (raft.c), so that another one can continue when
 * it ends. This file is the node's side: it takes command when the log says that it leads, steps
 * down when it does not, and as controller sees to it that enough members hold the log.
 *
 * The first node of the cluster begins alone. When as many members as were asked for are up, they
 * become holders one by one, those without rows first, since a controller's end then costs none,
 * and then the oldest. A holder that is gone is replaced when there is another member. With three
 * holders the cluster outlives its controller, and views say so (`durable`). A controller that kept
 * its decisions alone can begin such a log later; it hands over once the others hold it.
 *
 * While no majority of the holders hear each other nothing is decided; everything else continues.
 */
#include "net/net_state.h"
#include "net/link/handshake.h"
#include "net/link/link.h"
#include "net/link/peer.h"
#include "net/members/controller.h"
#include "net/members/decision.h"
#include "net/members/members.h"
#include "net/members/quorum.h"

#include <string.h>

enum { HOLDERS_MIN = 3 /* the fewest of which one may be lost */ };

static bool replicated(const struct tide_net *net) {
    return net->control && net->control->ops->leads;
}

bool tide__quorum_is(const struct tide_net *net) {
    return replicated(net);
}

/* ---- messages of the log ---- */

static bool send(void *arg, uint16_t to, const void *message, size_t size) {
    struct tide_net *net = arg;
    struct tide_peer *peer = tide__peer(net, to);
    if (net->finished || !peer || !peer->link || peer->link->state != LINK_UP) {
        return false;
    }
    struct tide_writer w;
    tide_writer_init(&w, NULL, 0);
    tide_write_array(&w, 2);
    tide_write_uint(&w, VERB_LOG);
    tide_write_raw(&w, message, size);
    bool sent = w.error == 0;
    if (sent) {
        tide__members_cast(net, peer->link, &w);
    }
    tide_writer_release(&w);
    return sent;
}

/* `node`: that of tide_control. */
static int open_log(struct tide_net *net, struct tide_node *node, uint16_t self, const struct tide_control_state *state,
                    struct tide_control **out) {
    struct tide_control_host host = {
        .port = net->port, .node = node, .name = net->name, .self = self, .arg = net, .send = send};
    host.directory = net->state_directory[0] != 0 ? net->state_directory : NULL;
    host.log_index = net->former.index;
    host.log_term = net->former.term;
    return tide_control_replicate(&host, state, out);
}

/* A new log, or one that continues where those in the state directory ended. */
int tide__quorum_begin(struct tide_net *net) {
    uint64_t view, next = 1;
    int error = net->state_directory[0] == 0
                    ? 0
                    : tide_raft_logs_open(net->port, net->state_directory, net->wanted_name, &net->former);
    if (error == 0 && net->former.state.count > 0) {
        error = tide__decision_numbers(&net->former.state, &view, &next);
    }
    error = error != 0 ? error : open_log(net, NULL, (uint16_t)next, &net->former.state, &net->control);
    if (error == 0 && net->former.count > 0) {
        tide_log(TIDE_LOG_INFO, net->wanted_name, "%s: the decisions of %zu controllers that ended go on here",
                 net->state_directory, net->former.count);
        tide_raft_logs_remove(net->port, net->state_directory, &net->former);
    }
    return error;
}

void tide__quorum_receive(struct tide_net *net, uint16_t from, struct tide_reader *r) {
    const struct known *sender = tide__members_find(net, from);
    if (net->finished || net->client || !sender || sender->member.state > TIDE_MEMBER_LEAVING) {
        return;
    }
    if (!net->control && !net->control_refused &&
        open_log(net, tide_system_node(net->system), tide__net_id(net), NULL, &net->control) != 0) {
        net->control_refused = true;
        tide_log(TIDE_LOG_ERROR, net->name, "this node cannot hold the controller's log: %s", tide_error_message());
    }
    if (replicated(net)) {
        net->control->ops->receive(net->control, from, r);
    }
}

/* ---- command ---- */

/* What this node has seen of others as a member is now its own business. */
static void take_stock(struct tide_net *net) {
    for (size_t i = 0; i < net->member_count; i++) {
        const struct tide_member *m = &net->members[i].member;
        struct tide_peer *peer = tide__peer(net, m->id);
        if (m->state <= TIDE_MEMBER_LEAVING && peer && peer->lost) {
            tide__controller_report(net, tide__net_id(net), m->id, true, "connection lost");
        }
    }
}

static void take_command(struct tide_net *net) {
    net->controls = true;
    if (net->control->ops->campaign(net->control, &net->term) != 0 || tide__decision_begin(net) != 0) {
        tide_log(TIDE_LOG_ERROR, net->name, "this node cannot take command: %s", tide_error_message());
        net->controls = false;
        (void)net->control->ops->hand_over(net->control);
        return;
    }
    struct known *self = tide__members_find(net, tide__net_id(net));
    TIDE_ASSERT(self);
    if (self->member.state > TIDE_MEMBER_LEAVING) { /* decided by the former, and not heard */
        net->controls = false;
        tide__members_unsettle(net, self);
        tide__members_settle(net);
        return;
    }
    tide_log(TIDE_LOG_INFO, net->name, "this node is the controller now, in term %llu", (unsigned long long)net->term);
    tide_event_add(net->system, "controller", "node %s is the controller, in term %llu", net->name,
                   (unsigned long long)net->term);
    net->away = false;
    net->announce = true;
    memcpy(net->controller_endpoint, net->endpoint, sizeof net->controller_endpoint);
    atomic_store_explicit(&net->controller, self->member.id, memory_order_relaxed);
    /* What this node had not heard takes effect with the first view, which sends it to those that
     * it is about. */
    take_stock(net);
    tide__decide(net);
    tide__handshake_unpark(net);
}

static void lay_down(struct tide_net *net) {
    net->controls = false;
    net->away = true;
    net->deciding = false;
    net->joiner.id = 0;
    for (size_t i = 0; i < net->member_count; i++) {
        net->members[i].wanted = 0;
    }
    tide__controller_release(net);
    atomic_store_explicit(&net->controller, 0, memory_order_relaxed);
    struct known *self = tide__members_find(net, tide__net_id(net));
    if (self) {
        tide__members_unsettle(net, self); /* the store steps down too */
        tide__members_settle(net);
    }
    tide__handshake_unpark(net);
}

void tide__quorum_step_down(struct tide_net *net) {
    tide_log(TIDE_LOG_WARN, net->name,
             "this node is the controller no more; views, slot moves and new tables wait for the "
             "next one");
    lay_down(net);
}

/* What was recorded for this node alone becomes the beginning of the log, and this node leads
 * again, in a term of that. A decision that is being recorded is of the former term, and fails. */
int tide_net_replicate(struct tide_net *net, unsigned controllers) {
    if (controllers != 3 && controllers != 5) {
        return tide_fail(TIDE_EINVAL, "%u controllers: there are 3 or 5", controllers);
    }
    if (!net->controls || replicated(net) || net->finished) {
        return tide_fail(TIDE_EBUSY, "only a controller that is alone can share its log");
    }
    struct tide_control *shared;
    int error = open_log(net, tide_system_node(net->system), tide__net_id(net), &net->control->state, &shared);
    if (error != 0) {
        return error;
    }
    net->alone = net->control; /* the disk thread may be at work for it */
    net->control = shared;
    net->controllers = (uint8_t)controllers;
    net->hands_over = true;
    lay_down(net);
    tide__net_wake(net);
    (void)tide__quorum_turn(net, tide__net_now(net));
    return 0;
}

uint64_t tide__quorum_turn(struct tide_net *net, uint64_t now) {
    if (!replicated(net) || net->finished) {
        return TIDE_NEVER;
    }
    uint64_t due = net->control->ops->turn(net->control, now);
    uint64_t term = net->control->ops->leads(net->control);
    if (net->controls && term != net->term) {
        tide__quorum_step_down(net);
    }
    if (!net->controls && term > net->term && tide__net_id(net) != 0 && !net->finished) {
        take_command(net);
        due = net->control->ops->turn(net->control, now);
    }
    return due;
}

/* ---- the holders of the log ---- */

static bool holds(const uint16_t *ids, size_t count, uint16_t id) {
    for (size_t i = 0; i < count; i++) {
        if (ids[i] == id) {
            return true;
        }
    }
    return false;
}

/* The best of the members that do not hold it, and how many those are. Where it is kept on disk those
 * with rows do not: they were given no directory. */
static const struct tide_member *candidate(struct tide_net *net, const uint16_t *ids, size_t count,
                                           size_t *candidates) {
    const struct tide_member *best = NULL;
    *candidates = 0;
    for (size_t i = 0; i < net->member_count; i++) {
        const struct tide_member *m = &net->members[i].member;
        const bool keeps = net->state_directory[0] == 0 || !m->store;
        if (m->state != TIDE_MEMBER_UP || !keeps || holds(ids, count, m->id)) {
            continue;
        }
        ++*candidates;
        if (!best || (best->store && !m->store)) { /* the list is by id */
            best = m;
        }
    }
    return best;
}

/* A holder that is gone, or goes; 0: none. */
static uint16_t departing(struct tide_net *net, const uint16_t *ids, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const struct known *known = tide__members_find(net, ids[i]);
        if (ids[i] != tide__net_id(net) && (!known || known->member.state != TIDE_MEMBER_UP)) {
            return ids[i];
        }
    }
    return 0;
}

void tide__quorum_tick(struct tide_net *net) {
    uint16_t ids[TIDE_CONTROLLERS_MAX + 2];
    if (!replicated(net) || !net->controls || net->finished) {
        return;
    }
    size_t count = net->control->ops->holders(net->control, ids, TIDE_COUNT(ids)), candidates;
    if (count > TIDE_COUNT(ids)) {
        return;
    }
    const struct tide_member *next = candidate(net, ids, count, &candidates);
    uint16_t gone = departing(net, ids, count);
    if (gone != 0 && next) {
        (void)net->control->ops->hold(net->control, gone, false); /* later, if one is pending */
    } else if (count < net->controllers && count + candidates >= net->controllers) {
        (void)net->control->ops->hold(net->control, next->id, true);
    }
    if (count >= HOLDERS_MIN && !tide_net_durable(net)) {
        tide_log(TIDE_LOG_INFO, net->name, "%zu nodes hold what the controller decides; the cluster outlives it",
                 count);
        atomic_store_explicit(&net->durable, true, memory_order_relaxed);
        net->announce = true;
        tide__decide(net);
    }
    if (net->hands_over && count >= net->controllers && !net->deciding) {
        net->hands_over = net->control->ops->hand_over(net->control) != 0;
    }
}
