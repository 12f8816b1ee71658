/*
 * The ring: which members are linked and which receive whose beats.
 *
 * Up to RING_MEMBERS members each is linked with and beats to all others. In larger
 * clusters that would cost the square of their number, so each member beats to its neighbours
 * alone, and five times less often, which is still four times within the silence that the detector
 * grants: the RING_REACH living members before it and as many behind it in the cyclic order of ids,
 * a relation that is symmetric as long as both have the same view. The controller is linked with
 * all, and beats with all, at a slower pace. Other links are made for the first message that requires one,
 * stay, and do not beat: silence there counts only while something of this side's waits to be
 * acknowledged, which takes a living peer 20 ms.
 *
 * Views reach two nodes at different times. A beat therefore says whether its sender counts on the
 * receiver's at that pace or a faster one; a member that hears that answers with such beats for a second,
 * whatever its own view says.
 *
 * So of most links nothing is due at most times, and a server has one with each of a thousand
 * workers. Their sessions rest: a tick passes them by. One is awake from its beginning, goes to
 * rest when a tick finds that no beat goes either way and nothing waits to be acknowledged, and is
 * roused when something does, its connection is lost, the peer counts on beats, or, all together,
 * when the members or the controller have changed, so that this node perhaps watches others now.
 * How long the peer was silent then counts from there.
 *
 * As always, of two members the one with the higher id dials. The lower one that has something to
 * send knocks: a hello with attempt 0, which is answered by a refusal and a call back. So two that
 * dial each other at the same moment cannot make two sessions.
 */
#include "net/net_state.h"
#include "net/link/link.h"
#include "net/link/peer.h"
#include "net/link/session.h"
#include "net/members/members.h"

#include <string.h>

static bool is_alive(const struct known *known) {
    return known->member.state <= TIDE_MEMBER_LEAVING;
}

unsigned tide__ring_neighbours(struct tide_net *net, uint16_t id, uint16_t out[RING_NEIGHBOURS]) {
    const struct known *self = tide__members_find(net, id);
    unsigned count = 0;
    if (!self) {
        return 0;
    }
    size_t at = (size_t)(self - net->members), n = net->member_count;
    for (unsigned direction = 0; direction < 2; direction++) {
        unsigned found = 0;
        for (size_t step = 1; step < n && found < RING_REACH; step++) {
            const struct known *known = &net->members[(at + (direction ? step : n - step)) % n];
            if (is_alive(known)) {
                out[count++] = known->member.id;
                found++;
            }
        }
    }
    return count;
}

static void want_link(struct tide_net *net, uint16_t id) {
    struct tide_peer *peer = tide__peer(net, id);
    if (!peer || id >= tide__net_id(net) || peer->lost || peer->link || peer->session ||
        peer->redial_at != TIDE_NEVER) {
        return;
    }
    peer->redial_at = tide__net_now(net);
    net->attend = true;
    net->tick_soon = true;
}

void tide__ring_refresh(struct tide_net *net) {
    if (net->client || net->finished) {
        return;
    }
    net->turned = true;
    net->ringed = net->living > RING_MEMBERS;
    net->neighbour_count = net->ringed ? tide__ring_neighbours(net, tide__net_id(net), net->neighbours) : 0;
    for (unsigned i = 0; i < net->neighbour_count; i++) {
        want_link(net, net->neighbours[i]);
    }
    want_link(net, tide_net_controller(net));
    bool all = !net->ringed || net->controls;
    for (size_t i = 0; all && i < net->member_count; i++) {
        if (is_alive(&net->members[i])) {
            want_link(net, net->members[i].member.id);
        }
    }
}

bool tide__ring_is_neighbour(const struct tide_net *net, uint16_t id) {
    for (unsigned i = 0; i < net->neighbour_count; i++) {
        if (net->neighbours[i] == id) {
            return true;
        }
    }
    return false;
}

uint64_t tide__ring_tick(const struct tide_net *net) {
    return net->ringed ? RING_INTERVAL / 2 : BEAT_INTERVAL;
}

uint64_t tide__ring_interval(const struct tide_net *net, uint16_t id) {
    if (!net->ringed || id >= CLIENT_ID_MIN) {
        return BEAT_INTERVAL;
    }
    if (tide__ring_is_neighbour(net, id)) {
        return RING_INTERVAL;
    }
    return net->controls || id == tide_net_controller(net) ? HUB_INTERVAL : TIDE_NEVER;
}

bool tide__ring_watches(const struct tide_net *net, uint16_t id) {
    return tide__ring_interval(net, id) != TIDE_NEVER;
}

static bool counts_on_us(const struct tide_link *link, uint64_t now) {
    return link->counted_on != 0 && now - link->counted_on < 2 * RING_INTERVAL;
}

bool tide__ring_beat_due(const struct tide_link *link, uint64_t now) {
    const struct tide_net *net = link->net;
    uint64_t interval = tide__ring_interval(net, link->peer->id);
    if (counts_on_us(link, now) && interval > RING_INTERVAL) {
        interval = RING_INTERVAL;
    }
    if (interval == TIDE_NEVER || link->session->outbox.own) {
        return false;
    }
    /* Between neighbours other traffic is no beat: it carries no reports on third parties. */
    uint64_t since = net->ringed && interval == RING_INTERVAL ? link->beat_at : link->wrote;
    return now - since >= interval - BEAT_INTERVAL / 8;
}

bool tide__ring_excuses(const struct tide_session *s) {
    return s->link && s->outbox.ring_frames == 0 && !tide__ring_watches(s->net, s->peer->id);
}

bool tide__ring_rests(const struct tide_session *s, uint64_t now) {
    return !s->over && tide__ring_excuses(s) && s->link->state == LINK_UP && !counts_on_us(s->link, now);
}

void tide__ring_turn(struct tide_net *net) {
    const uint16_t hub = (uint16_t)tide_net_controller(net);
    for (struct tide_session *s = net->sessions; s && (net->turned || hub != net->hub); s = s->next) {
        tide__session_rouse(s);
    }
    net->turned = false;
    net->hub = hub;
}

void tide__ring_wanted(struct tide_net *net, struct tide_peer *peer) {
    net->attend = true;
    if (!peer->link && peer->redial_at == TIDE_NEVER && (net->client || net->ringed)) {
        peer->redial_at = tide__net_now(net);
        net->tick_soon = true;
    }
}

void tide__ring_knocked(struct tide_net *net, struct tide_peer *peer) {
    peer->knocked = true;
    want_link(net, peer->id);
}
