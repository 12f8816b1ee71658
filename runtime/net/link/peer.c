/*
 * Peers: the way from a node id to its link, and admission.
 *
 * Credit. Per peer and lane a window of bytes; `outstanding` counts what was admitted (or, prepaid,
 * sent) and not yet consumed by the actor over there. A message of any size passes when a sixteenth
 * of the window or less is outstanding: a link of long latency always carries leases and other small
 * prepaid messages, and nothing may wait for a moment without them. A caller that finds no room and
 * has a fiber leaves it in `waiters`; the check is repeated under the lock before it does, and credit
 * is added before the lock is taken to wake, so a wake-up cannot fall between the two.
 */
#include "net/net_state.h"
#include "net/link/session.h"
#include "net/link/link.h"
#include "net/link/memory_credit.h"
#include "net/link/peer.h"
#include "net/members/members.h"

#include <string.h>

size_t tide__credit_window(unsigned lane) {
    return lane == TIDE_LANE_STORE     ? tide_limit(net_window_store_bytes)
           : lane == TIDE_LANE_CONTROL ? tide_limit(net_window_control_bytes)
           : lane == TIDE_LANE_BULK    ? tide_limit(net_window_bulk_bytes)
                                       : 0;
}

/* ---- the table ---- */

struct tide_peer *tide__peer(const struct tide_net *net, uint16_t id) {
    /* acquire, both: pair with the releases in tide__peer_make */
    _Atomic(struct tide_peer *) *page = atomic_load_explicit(&net->pages[id >> 8], memory_order_acquire);
    return !page ? NULL : atomic_load_explicit(&page[id & 255], memory_order_acquire);
}

struct tide_peer *tide__peer_make(struct tide_net *net, uint16_t id) {
    struct tide_peer *peer = tide__peer(net, id);
    if (peer) {
        return peer;
    }
    _Atomic(struct tide_peer *) *page = atomic_load_explicit(&net->pages[id >> 8], memory_order_relaxed);
    if (!page) {
        page = tide_alloc_zero(256, sizeof *page);
        if (!page) {
            return NULL;
        }
        atomic_store_explicit(&net->pages[id >> 8], page, memory_order_release);
    }
    peer = tide_alloc_zero(1, sizeof *peer);
    if (!peer) {
        return NULL;
    }
    peer->id = id;
    peer->net = net;
    tide__memory_forget(peer);
    peer->waiting_tail = &peer->waiting;
    peer->redial_at = TIDE_NEVER;
    atomic_store_explicit(&page[id & 255], peer, memory_order_release);
    return peer;
}

void tide__peers_each(struct tide_net *net, void (*visit)(struct tide_peer *peer)) {
    for (unsigned i = 0; i < TIDE_COUNT(net->pages); i++) {
        _Atomic(struct tide_peer *) *page = atomic_load_explicit(&net->pages[i], memory_order_relaxed);
        for (unsigned k = 0; page && k < 256; k++) {
            struct tide_peer *peer = atomic_load_explicit(&page[k], memory_order_relaxed);
            if (peer) {
                visit(peer);
            }
        }
    }
}

static void peer_free(struct tide_peer *peer) {
    tide_outgoing_free_all(peer->waiting);
    while (peer->waiters) {
        struct credit_waiter *next = peer->waiters->next;
        tide_free(peer->waiters);
        peer->waiters = next;
    }
    tide_free(peer);
}

void tide__peers_release(struct tide_net *net) {
    tide_outgoing_free_all(net->early);
    tide__peers_each(net, peer_free);
    for (unsigned i = 0; i < TIDE_COUNT(net->pages); i++) {
        tide_free(atomic_load_explicit(&net->pages[i], memory_order_relaxed));
    }
}

/* ---- credit ---- */

static bool fits(uint64_t held, size_t bytes, size_t window) {
    return held <= window / 16 || held + bytes <= window;
}

static bool reserve(struct tide_peer *peer, unsigned lane, size_t bytes, size_t window) {
    uint_fast64_t held = atomic_load_explicit(&peer->outstanding[lane], memory_order_relaxed);
    do {
        if (!fits(held, bytes, window) || (held > window / 16 && TIDE_BUGGIFY(credit_short))) {
            return false;
        }
    } while (!atomic_compare_exchange_weak_explicit(&peer->outstanding[lane], &held, held + bytes, memory_order_relaxed,
                                                    memory_order_relaxed));
    return true;
}

/* The window that a caller asks for, 0 the lane's, within what the peer's memory leaves. */
static size_t window_of(struct tide_peer *peer, unsigned lane, size_t window) {
    const size_t most = tide__credit_left(peer, lane);
    return window == 0 || window > most ? most : window;
}

static bool is_reachable(struct tide_peer *peer) {
    return atomic_load_explicit(&peer->reachable, memory_order_relaxed);
}

static int refuse(const struct tide_peer *peer, bool narrowed) {
    TIDE_SOMETIMES(credit_refused);
    struct tide_memory_report report;
    char name[96], who[104];
    tide_net_memory(peer->net, peer->id, &report);
    tide_net_name(peer->net, peer->id, name);
    snprintf(who, sizeof who, "node %s", name);
    return narrowed && report.cap > 0 ? tide_net_memory_refuse(who, &report, "it has not consumed what it was sent")
                                      : tide_fail(TIDE_EBUSY, "%s has not consumed what it was sent", who);
}

static void not_connected_text(struct tide_net *net, uint16_t id, char text[130]) {
    char name[96];
    tide_net_name(net, id, name);
    snprintf(text, 130, "node %s is not connected", name);
}

static int not_connected(const struct tide_peer *peer) {
    char text[130];
    not_connected_text(peer->net, peer->id, text);
    return tide_fail(TIDE_EUNREACHABLE, "%s", text);
}

int tide__peer_admit(struct tide_peer *peer, enum tide_lane lane, size_t bytes, size_t window,
                     struct tide_fiber *waiter) {
    if (!is_reachable(peer)) {
        return not_connected(peer);
    }
    if (bytes > tide__frame_limit(lane) + TIDE_FRAME_HEAD) {
        return tide_fail(TIDE_ELIMIT, "a message of %zu bytes; lane %d takes up to %zu", bytes, (int)lane,
                         tide__frame_limit(lane));
    }
    const size_t room = window_of(peer, lane, window);
    if (tide__credit_window(lane) == 0 || reserve(peer, lane, bytes, room)) {
        return 0;
    }
    if (!waiter) {
        return refuse(peer, tide__credit_left(peer, lane) < tide__credit_window(lane));
    }
    struct credit_waiter *entry = tide_alloc(sizeof *entry);
    if (!entry) {
        return TIDE_ENOMEM;
    }
    *entry = (struct credit_waiter){.fiber = waiter, .bytes = bytes, .window = window, .lane = lane};
    tide_lock(&peer->lock);
    bool go = !is_reachable(peer) || reserve(peer, lane, bytes, room);
    struct credit_waiter *same = peer->waiters; /* of an earlier wait of this fiber, which was cancelled */
    while (same && same->fiber != waiter) {
        same = same->next;
    }
    if (!go && same) {
        same->bytes = bytes;
        same->window = window;
        same->lane = lane;
    } else if (!go) {
        entry->next = peer->waiters;
        peer->waiters = entry;
        entry = NULL;
    }
    tide_unlock(&peer->lock);
    tide_free(entry);
    if (!go) {
        return TIDE_EBUSY;
    }
    TIDE_SOMETIMES(credit_came_while_queueing);
    return is_reachable(peer) ? 0 : not_connected(peer);
}

void tide__peer_charge(struct tide_peer *peer, unsigned lane, size_t bytes) {
    if (tide__credit_window(lane) != 0) {
        atomic_fetch_add_explicit(&peer->outstanding[lane], bytes, memory_order_relaxed);
    }
}

/* A waiter that does not fit yet stays, while more credit is to come: else each message that is consumed would resume
 * all fibers for nothing. */
static bool may_pass(struct tide_peer *peer, const struct credit_waiter *w) {
    const uint64_t held = atomic_load_explicit(&peer->outstanding[w->lane], memory_order_relaxed);
    return !is_reachable(peer) || fits(held, w->bytes, window_of(peer, w->lane, w->window));
}

void tide__peer_wake(struct tide_peer *peer) {
    struct credit_waiter *in_order = NULL; /* the list is newest first; the longest waiting goes first */
    tide_lock(&peer->lock);
    for (struct credit_waiter **at = &peer->waiters; *at;) {
        struct credit_waiter *waiter = *at;
        if (may_pass(peer, waiter)) {
            *at = waiter->next;
            waiter->next = in_order;
            in_order = waiter;
        } else {
            at = &waiter->next;
        }
    }
    tide_unlock(&peer->lock);
    while (in_order) {
        struct credit_waiter *next = in_order->next;
        if (!TIDE_MUTANT(flow_waiters_not_woken)) {
            tide_fiber_wake(in_order->fiber);
        }
        tide_free(in_order);
        in_order = next;
    }
}

void tide__peer_credit(struct tide_peer *peer, unsigned lane, uint64_t bytes) {
    if (tide__credit_window(lane) == 0 || bytes == 0) {
        return;
    }
    uint_fast64_t held = atomic_load_explicit(&peer->outstanding[lane], memory_order_relaxed);
    uint_fast64_t left;
    do {
        left = held > bytes ? held - bytes : 0;
    } while (!atomic_compare_exchange_weak_explicit(&peer->outstanding[lane], &held, left, memory_order_relaxed,
                                                    memory_order_relaxed));
    tide__peer_wake(peer);
}

/* ---- sending ---- */

/* Not sent: the caller gets the error, and the reserved credit is released. */
static void fail_message(struct tide_net *net, struct tide_peer *peer, struct tide_outgoing *m, int code,
                         const char *reason) {
    tide_system_fail_call(net->system, m, code, reason);
    if (peer && !m->prepaid) {
        tide__peer_credit(peer, m->lane, TIDE_FRAME_HEAD + tide_outgoing_body(m));
    }
    tide_outgoing_free(m);
}

/* An answer that is too large to travel becomes an error, so that its caller does not wait for
 * ever. */
static void refuse_oversized(struct tide_net *net, struct tide_peer *peer, struct tide_outgoing *m) {
    TIDE_SOMETIMES(answer_too_large);
    char text[120];
    snprintf(text, sizeof text, "an answer of %zu bytes; %zu are allowed", tide_outgoing_body(m),
             tide__frame_limit(m->lane));
    char name[96];
    tide_net_name(net, tide_address_node(m->to), name);
    tide_log(TIDE_LOG_WARN, net->name, "to node %s: %s", name, text);
    if (m->kind == TIDE_FRAME_REPLY) {
        uint8_t body[160];
        struct tide_writer w;
        tide_writer_init(&w, body, sizeof body);
        tide__refusal_write(&w, TIDE_ELIMIT, text);
        struct tide_outgoing error = {.kind = TIDE_FRAME_ERROR,
                                      .lane = TIDE_LANE_ANSWER,
                                      .to = m->to,
                                      .from = m->from,
                                      .call = m->call,
                                      .code = TIDE_ELIMIT,
                                      .data = w.data,
                                      .size = (uint32_t)w.size};
        tide_system_send(net->system, &error, true);
        tide_writer_release(&w);
    }
    fail_message(net, peer, m, TIDE_ELIMIT, text);
}

static void fail_messages(struct tide_net *net, struct tide_peer *peer, struct tide_outgoing *m, int code,
                          const char *reason) {
    while (m) {
        struct tide_outgoing *next = m->next;
        m->prepaid = false; /* what waited for a peer was charged when it was queued */
        fail_message(net, peer, m, code, reason);
        m = next;
    }
}

/* Other nodes may have the view with a new member before this node, and request a message to it. Such
 * messages wait for that view. */
static bool keep_early(struct tide_net *net, struct tide_outgoing *m) {
    if (net->finished || !tide__members_may_come(net, tide_address_node(m->to)) || TIDE_MUTANT(early_refused)) {
        return false;
    }
    TIDE_SOMETIMES(message_before_its_view);
    if (!net->early) {
        net->early_tail = &net->early;
        net->early_since = tide__net_now(net);
    }
    m->next = NULL;
    *net->early_tail = m;
    net->early_tail = &m->next;
    return true;
}

void tide__peers_came(struct tide_net *net) {
    const uint64_t since = net->early_since;
    struct tide_outgoing *m = net->early;
    net->early = NULL;
    while (m) {
        struct tide_outgoing *next = m->next;
        tide__peer_send(net, m);
        m = next;
    }
    net->early_since = since; /* of those that still wait */
}

void tide__peers_fail_early(struct tide_net *net, int code, const char *reason) {
    struct tide_outgoing *early = net->early;
    net->early = NULL;
    fail_messages(net, NULL, early, code, reason);
}

void tide__peer_send(struct tide_net *net, struct tide_outgoing *m) {
    uint16_t id = tide_address_node(m->to);
    struct tide_peer *peer = tide__peer(net, id);
    if (!peer || !is_reachable(peer)) {
        if (keep_early(net, m)) {
            return;
        }
        char text[130];
        not_connected_text(net, id, text);
        fail_message(net, peer, m, TIDE_EUNREACHABLE, text);
        return;
    }
    if (tide_outgoing_body(m) > tide__frame_limit(m->lane)) {
        refuse_oversized(net, peer, m);
        return;
    }
    if (!tide__frame_sequenced(m->kind, m->lane, m->to)) {
        fail_message(net, peer, m, TIDE_EPERM, "this lane of the members is the net's own");
        return;
    }
    if (m->prepaid) {
        tide__peer_charge(peer, m->lane, TIDE_FRAME_HEAD + tide_outgoing_body(m));
    }
    if (peer->session) {
        tide__outbox_push(&peer->session->outbox, m);
        if (peer->session->link) {
            tide__link_queued(peer->session->link);
        }
        return;
    }
    if (!peer->waiting) {
        peer->waiting_since = tide__net_now(net);
        tide__ring_wanted(net, peer);
    }
    m->next = NULL;
    *peer->waiting_tail = m;
    peer->waiting_tail = &m->next;
}

void tide__peer_fail_waiting(struct tide_net *net, struct tide_peer *peer, int code, const char *reason) {
    struct tide_outgoing *waiting = peer->waiting;
    peer->waiting = NULL;
    peer->waiting_tail = &peer->waiting;
    fail_messages(net, peer, waiting, code, reason);
}

void tide__peer_down(struct tide_net *net, struct tide_peer *peer, int code, const char *reason) {
    atomic_store_explicit(&peer->reachable, false, memory_order_relaxed);
    atomic_store_explicit(&peer->up, false, memory_order_relaxed);
    peer->redial_at = TIDE_NEVER;
    tide__peer_fail_waiting(net, peer, code, reason);
    for (unsigned i = 0; i < TIDE_LANE_COUNT; i++) {
        atomic_store_explicit(&peer->outstanding[i], 0, memory_order_relaxed);
    }
    tide__memory_forget(peer);
    if (!TIDE_MUTANT(waiters_of_the_dead)) {
        tide__peer_wake(peer);
    }
    tide_system_node_down(net->system, peer->id, code, reason);
}

void tide__peer_part(struct tide_peer *peer) {
    if (!peer->session && is_reachable(peer) && !TIDE_MUTANT(finished_keeps_waiters)) {
        tide__peer_down(peer->net, peer, TIDE_ECLOSED, "this node is no member any more");
    }
}

void tide__peers_part(struct tide_net *net) {
    tide__peers_fail_early(net, TIDE_ECLOSED, "this node is no member any more");
    tide__peers_each(net, tide__peer_part);
}
