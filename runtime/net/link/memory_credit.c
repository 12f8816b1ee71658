/*
 * What nodes with a memory cap say of it, and what that leaves of the windows of credit.
 *
 * It rides on credit frames, whose totals are sent again after each reconnect, and it makes one due
 * when it changes. The grant shrinks the windows of what a peer may send without being asked for:
 * control and bulk here, operations of tables in store/core/admission.c. With a grant of 0 one message a
 * lane goes at a time, so whatever the tier is, everything gets on. A node that is short of memory
 * itself holds its own bulk back in the same way.
 */
#include "net/net_state.h"
#include "net/link/link.h"
#include "net/link/memory_credit.h"
#include "net/link/peer.h"
#include "net/link/session.h"

uint64_t tide_net_scaled(uint64_t window, uint64_t grant) {
    if (grant == UINT64_MAX) {
        return window;
    }
    /* control, store and bulk together: what a grant is compared with */
    uint64_t all = 0;
    for (unsigned i = TIDE_LANE_STORE; i < TIDE_LANE_COUNT; i++) {
        all += tide__credit_window(i);
    }
    return grant >= all ? window : window * grant / all;
}

int tide_net_memory_refuse(const char *who, const struct tide_memory_report *report, const char *why) {
    char used[24], cap[24];
    const uint32_t retry = tide_tier_retry_ms(report->tier);
    return tide_fail_busy(retry, "%s uses %s of its %s of memory: %s; try again in %u ms", who,
                          tide_bytes_text(report->used, used), tide_bytes_text(report->cap, cap), why, (unsigned)retry);
}

static uint64_t load(const atomic_uint_fast64_t *value) {
    return atomic_load_explicit(value, memory_order_relaxed);
}

static void store(atomic_uint_fast64_t *to, uint64_t value) {
    atomic_store_explicit(to, value, memory_order_relaxed);
}

size_t tide__credit_left(struct tide_peer *peer, unsigned lane) {
    uint64_t grant = UINT64_MAX;
    if (lane == TIDE_LANE_CONTROL || lane == TIDE_LANE_BULK) {
        grant = load(&peer->memory_grant);
    }
    if (lane == TIDE_LANE_BULK && load(&peer->net->memory_grant) < grant) {
        grant = load(&peer->net->memory_grant);
    }
    return TIDE_MUTANT(memory_cap_ignored) ? tide__credit_window(lane)
                                           : (size_t)tide_net_scaled(tide__credit_window(lane), grant);
}

/* ---- sent and received ---- */

void tide__memory_write(const struct tide_net *net, struct tide_writer *w) {
    tide_write_uint(w, atomic_load_explicit(&net->memory_tier, memory_order_relaxed));
    tide_write_uint(w, load(&net->memory_used));
    tide_write_uint(w, load(&net->memory_cap));
    tide_write_uint(w, load(&net->memory_grant));
}

static void changed(struct tide_peer *peer, bool more) {
    struct tide_net *net = peer->net;
    if (more) {
        tide__peer_wake(peer);
    }
    /* acquire: pairs with the release in tide_net_watch_memory */
    void (*tell)(void *arg, uint16_t id) = atomic_load_explicit(&net->memory_changed, memory_order_acquire);
    if (tell) {
        tell(net->memory_arg, peer->id);
    }
}

int tide__memory_read(struct tide_peer *peer, struct tide_reader *r) {
    uint64_t tier = tide_read_uint(r), used = tide_read_uint(r), cap = tide_read_uint(r), grant = tide_read_uint(r);
    if (r->error != 0 || tier > TIDE_TIER_OVER || cap == 0) {
        return tide_fail(TIDE_EPROTO, "a damaged word on a node's memory");
    }
    uint64_t before = load(&peer->memory_grant);
    unsigned tier_before = atomic_load_explicit(&peer->memory_tier, memory_order_relaxed);
    store(&peer->memory_used, used);
    store(&peer->memory_cap, cap);
    store(&peer->memory_grant, grant);
    atomic_store_explicit(&peer->memory_tier, (unsigned)tier, memory_order_relaxed);
    if (grant != before || tier != tier_before) {
        changed(peer, grant > before);
    }
    return 0;
}

void tide__memory_forget(struct tide_peer *peer) {
    bool known = load(&peer->memory_cap) > 0;
    store(&peer->memory_used, 0);
    store(&peer->memory_cap, 0);
    store(&peer->memory_grant, UINT64_MAX);
    atomic_store_explicit(&peer->memory_tier, TIDE_TIER_CALM, memory_order_relaxed);
    if (known) {
        changed(peer, false);
    }
}

/* ---- the contract of net.h ---- */

void tide_net_report_memory(struct tide_net *net, const struct tide_memory_report *report) {
    const bool more = report->grant > load(&net->memory_grant);
    store(&net->memory_used, report->used);
    store(&net->memory_cap, report->cap);
    store(&net->memory_grant, report->grant);
    atomic_store_explicit(&net->memory_tier, report->tier, memory_order_relaxed);
    for (struct tide_session *s = net->sessions; s; s = s->next) {
        s->tell_now = true;
        tide__session_touch(s);
        if (more) {
            tide__peer_wake(s->peer);
        }
    }
    tide__net_wake(net);
}

void tide_net_memory(const struct tide_net *net, uint16_t id, struct tide_memory_report *out) {
    const struct tide_peer *peer = tide__peer(net, id);
    *out = (struct tide_memory_report){.grant = UINT64_MAX};
    if (id == tide_net_self(net)) {
        *out =
            (struct tide_memory_report){load(&net->memory_used), load(&net->memory_cap), load(&net->memory_grant),
                                        (enum tide_tier)atomic_load_explicit(&net->memory_tier, memory_order_relaxed)};
    } else if (peer) {
        *out =
            (struct tide_memory_report){load(&peer->memory_used), load(&peer->memory_cap), load(&peer->memory_grant),
                                        (enum tide_tier)atomic_load_explicit(&peer->memory_tier, memory_order_relaxed)};
    }
}

void tide_net_watch_memory(struct tide_net *net, void (*changed_to)(void *arg, uint16_t id), void *arg) {
    net->memory_arg = arg;
    atomic_store_explicit(&net->memory_changed, changed_to, memory_order_release);
}

static uint64_t message_bytes(const struct tide_outgoing *m) {
    uint64_t bytes = 0;
    for (; m; m = m->next) {
        bytes += TIDE_FRAME_HEAD + tide_outgoing_body(m);
    }
    return bytes;
}

uint64_t tide_net_queued(const struct tide_net *net) {
    uint64_t bytes = 0;
    for (const struct tide_session *s = net->sessions; s; s = s->next) {
        const struct tide_assembly *lanes = s->link ? s->link->decoder.lanes : s->lanes;
        bytes += s->outbox.queued_bytes + s->outbox.ring_bytes;
        for (unsigned i = 0; i < TIDE_LANE_COUNT; i++) {
            bytes += lanes[i].blob ? lanes[i].blob->size : 0;
        }
        bytes += message_bytes(s->peer->waiting);
    }
    return bytes;
}
