/*
 * What the watch (base/watch.h) sees of links: queues that have work and credit, and no sender. Between two
 * events, while I/O thread 0 sleeps.
 */
#include "net/net_state.h"
#include "net/link/session.h"
#include "net/link/link.h"
#include "net/link/peer.h"
#include "net/members/members.h"

/* Nothing is in the ring, so no acknowledgement will make the link look at its queue again. */
static void watch_link(const struct tide_net *net, const struct tide_session *s) {
    const struct tide_outbox *box = &s->outbox;
    unsigned lane = 0;
    while (lane < TIDE_LANE_COUNT && !box->lanes[lane].head) {
        lane++;
    }
    const bool work = lane < TIDE_LANE_COUNT || box->own || box->again || box->room;
    if (work && s->link->state == LINK_UP && !s->link->blocked && !s->link->dirty && box->ring_frames == 0) {
        tide__watch_found("queue", "%s: the link to n%u is up, has %s to send, and nobody sends", net->name,
                          s->peer->id, lane < TIDE_LANE_COUNT ? "messages of a lane" : "frames of its own");
    }
}

/* A session without a link waits for the time of its next dial, or for a link that is being made. */
static void watch_session(struct tide_net *net, const struct tide_session *s) {
    const struct tide_peer *peer = s->peer;
    if (s->link) {
        watch_link(net, s);
        return;
    }
    const struct known *known = tide__members_find(net, peer->id);
    const bool dials = s->dials && known && known->member.endpoint[0] != 0; /* the other side is asked, and waits */
    if (dials && !s->over && !peer->link && (peer->redial_at == TIDE_NEVER || !s->active)) {
        tide__watch_found("queue", "%s: the session with n%u has no link, and nobody will dial", net->name, peer->id);
    }
}

/* With nothing outstanding any message is admitted; without a peer it is rejected. */
static void watch_waiters(struct tide_peer *peer) {
    uint64_t held = 0;
    for (unsigned lane = 0; lane < TIDE_LANE_COUNT; lane++) {
        held += atomic_load(&peer->outstanding[lane]);
    }
    if (peer->waiters && held == 0) {
        tide__watch_found("queue", "%s: fibers wait for credit of n%u, and %s", peer->net->name, peer->id,
                          atomic_load(&peer->reachable) ? "all of it is there" : "that node is gone");
    }
}

void tide__net_watch(struct tide_net *net) {
    if (net->finished || !tide__net_is_complete(net) ||
        !tide_sim_asleep(tide_system_executor(net->system, TIDE_ROLE_IO, 0))) {
        return;
    }
    for (const struct tide_session *s = net->sessions; s && TIDE_WATCHED; s = s->next) {
        watch_session(net, s);
    }
    tide__peers_each(net, watch_waiters);
}
