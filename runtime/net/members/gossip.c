/*
 * Gossip: what neighbours say about those this node has not heard.
 *
 * In a ring (ring.c) each beat carries how long ago its sender heard its other neighbours. Members
 * that are next to each other share most of their neighbours, so a node that finds one silent has
 * the word of several others already: the indirect probe of other detectors, asked all the time, at
 * a few bytes a beat and without a round trip.
 *
 * Silence that two others confirm, or that none contradicts, is reported to the controller at
 * once. If others hear the silent one, only one link is broken: it has LINK_PATIENCE to heal.
 */
#include "net/net_state.h"
#include "net/link/link.h"
#include "net/link/peer.h"
#include "net/link/session.h"
#include "net/members/gossip.h"
#include "net/members/members.h"

#define FRESH (3 * RING_INTERVAL)  /* reports and signs of life that are not older count */
#define SILENT (4 * RING_INTERVAL) /* a node that was not heard for so long is silent */
#define LINK_PATIENCE (5 * TIDE_SECOND)

void tide__gossip_write(const struct tide_link *link, struct tide_writer *w, uint64_t now) {
    const struct tide_net *net = link->net;
    if (tide__ring_interval(net, link->peer->id) > RING_INTERVAL) {
        tide_write_nil(w); /* no beats are expected of the peer, or seldom ones as between hub and member */
        return;
    }
    const struct tide_session *told[RING_NEIGHBOURS];
    unsigned count = 0;
    bool near = tide__ring_is_neighbour(net, link->peer->id);
    for (unsigned i = 0; near && i < net->neighbour_count; i++) {
        const struct tide_peer *peer = tide__peer(net, net->neighbours[i]);
        if (peer && peer->session && peer != link->peer) {
            told[count++] = peer->session;
        }
    }
    tide_write_array(w, 2 * count);
    for (unsigned i = 0; i < count; i++) {
        tide_write_uint(w, told[i]->peer->id);
        tide_write_uint(w, (now - tide__session_heard(told[i], now)) / TIDE_MILLISECOND);
    }
}

int tide__gossip_read(struct tide_link *link, struct tide_reader *r, uint64_t now) {
    if (tide_read_nil(r)) {
        return r->error;
    }
    size_t count = tide_read_array(r);
    if (r->error != 0 || count % 2 != 0 || count > 2 * RING_NEIGHBOURS) {
        return tide_fail(TIDE_EPROTO, "a heartbeat with damaged news");
    }
    struct tide_session *s = link->session;
    link->counted_on = now;
    if (!TIDE_MUTANT(rest_not_disturbed)) {
        tide__session_rouse(s);
    }
    s->news_at = now;
    s->news_count = 0;
    for (size_t i = 0; i < count / 2; i++) {
        uint64_t id = tide_read_uint(r), age_ms = tide_read_uint(r);
        if (id == 0 || id >= CLIENT_ID_MIN) {
            return tide_fail(TIDE_EPROTO, "a heartbeat with news of no member");
        }
        uint64_t age = age_ms < now / TIDE_MILLISECOND ? age_ms * TIDE_MILLISECOND : now;
        s->news[s->news_count++] = (struct tide_news){.id = (uint16_t)id, .heard = now - age};
    }
    return r->error;
}

bool tide__gossip_confirms(const struct tide_session *s, uint64_t now) {
    const struct tide_net *net = s->net;
    unsigned heard = 0, silent = 0;
    for (unsigned i = 0; i < net->neighbour_count; i++) {
        const struct tide_peer *peer = tide__peer(net, net->neighbours[i]);
        const struct tide_session *from = peer ? peer->session : NULL;
        if (!from || now - from->news_at > FRESH) {
            continue;
        }
        for (unsigned k = 0; k < from->news_count; k++) {
            if (from->news[k].id == s->peer->id) {
                heard += now - from->news[k].heard < FRESH;
                silent += now - from->news[k].heard >= SILENT;
            }
        }
    }
    return heard == 0 || silent >= 2 || now - s->suspect_since >= LINK_PATIENCE;
}
