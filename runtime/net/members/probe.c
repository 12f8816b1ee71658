/*
 * Probes: before a silent peer is reported, others are asked whether they hear it.
 *
 * Up to three members are drawn from those that this node hears itself. What they say is what they
 * have heard, less the time in which they stalled; one that stalls at the moment reports
 * nothing. If any of them hears the accused, only the link between the two is broken: it has
 * `net_link_patience` to heal, and the probes continue. If two do not hear it, or all that were asked, or
 * at least one and no other answers within `net_probe_window`, it is silent for all. A node that gets no
 * answer, has no member to ask, or hears fewer than half of the others, is more likely cut off or badly
 * scheduled itself: it waits `net_alone_patience`.
 *
 * In a ring neighbours say all that with their beats (gossip.c).
 */
#include "net/net_state.h"
#include "net/link/link.h"
#include "net/link/peer.h"
#include "net/link/session.h"
#include "net/members/local_health.h"
#include "net/members/members.h"
#include "net/members/probe.h"

enum { PROBES = 3 };

bool tide__probe_hears(struct tide_net *net, const struct tide_peer *peer, uint64_t now) {
    return peer && peer->session &&
           now - tide__session_heard(peer->session, now) <
               tide__health_grace(net, now) / 2 + tide__ring_interval(net, peer->id);
}

static bool is_member(const struct tide_session *s) {
    return !s->over && s->peer->id < CLIENT_ID_MIN;
}

static bool hears_few(const struct tide_net *net) {
    unsigned others = 0, heard = 0;
    for (const struct tide_session *s = net->sessions; s; s = s->next) {
        others += is_member(s);
        heard += is_member(s) && s->suspect_since == 0;
    }
    return 2 * heard < others;
}

static void cast(struct tide_link *link, enum member_verb verb, uint16_t subject, bool silent) {
    uint8_t body[16];
    struct tide_writer w;
    tide_writer_init(&w, body, sizeof body);
    tide_write_array(&w, 3);
    tide_write_uint(&w, verb);
    tide_write_uint(&w, subject);
    tide_write_bool(&w, silent);
    tide__members_cast(link->net, link, &w);
    tide_writer_release(&w);
}

static void ask(struct tide_session *accused, uint64_t now) {
    struct tide_net *net = accused->net;
    struct tide_link *drawn[PROBES];
    uint64_t fit = 0;
    for (const struct tide_session *s = net->sessions; s; s = s->next) {
        if (s == accused || !is_member(s) || s->suspect_since != 0 || !s->link || s->link->state != LINK_UP) {
            continue;
        }
        const uint64_t at = fit < PROBES ? fit : tide_random_below(&net->random, fit + 1);
        fit++;
        if (at < PROBES) {
            drawn[at] = s->link;
        }
    }
    accused->probe.at = now;
    accused->probe.asked = (uint8_t)(fit < PROBES ? fit : PROBES);
    accused->probe.agreed = 0;
    for (unsigned i = 0; i < accused->probe.asked; i++) {
        cast(drawn[i], VERB_PROBE, accused->peer->id, true);
    }
}

bool tide__probe_confirms(struct tide_session *s, uint64_t now) {
    struct tide_probe *p = &s->probe;
    if (TIDE_MUTANT(unprobed)) {
        return true;
    }
    const bool contradicted = p->heard_at != 0 && now - p->heard_at < 2 * tide_limit(net_probe_window);
    const bool late = p->at != 0 && now - p->at >= tide_limit(net_probe_window);
    const bool agreed =
        p->at != 0 && (p->agreed >= 2 || (p->agreed > 0 && p->agreed == p->asked) || (p->agreed > 0 && late));
    if (p->at == 0 || late) {
        ask(s, now);
    }
    if (contradicted) {
        return now - s->suspect_since >= tide_limit(net_link_patience);
    }
    return (agreed && !hears_few(s->net)) || now - s->detector.last >= tide_limit(net_alone_patience);
}

/* A node whose own timer is late had stalled: it may not have read what arrived meanwhile, and does not
 * answer. */
static void answer(struct tide_link *link, uint16_t subject) {
    struct tide_net *net = link->net;
    const uint64_t now = tide__net_now(net);
    struct tide_peer *peer = tide__peer(net, subject);
    const bool stood_still = now > net->tick_at + BEAT_INTERVAL / 2;
    if (!peer || stood_still || (!peer->session && !peer->lost)) {
        return;
    }
    cast(link, VERB_HEARD, subject, !tide__probe_hears(net, peer, now));
}

static void answered(struct tide_net *net, uint16_t subject, bool silent) {
    const struct tide_peer *peer = tide__peer(net, subject);
    struct tide_session *s = peer ? peer->session : NULL;
    if (!s || s->suspect_since == 0 || s->probe.at == 0) {
        return; /* it has been heard meanwhile */
    }
    if (!silent) {
        s->probe.heard_at = tide__net_now(net);
    } else if (s->probe.agreed < s->probe.asked) {
        s->probe.agreed++;
    }
    net->tick_soon = true;
}

void tide__probe_receive(struct tide_link *link, unsigned verb, struct tide_reader *r) {
    const uint64_t subject = tide_read_uint(r);
    const bool silent = tide_read_bool(r);
    if (r->error != 0 || subject == 0 || subject >= CLIENT_ID_MIN) {
        tide__link_violation(link, "a damaged probe");
    } else if (verb == VERB_PROBE) {
        answer(link, (uint16_t)subject);
    } else {
        answered(link->net, (uint16_t)subject, silent);
    }
}
