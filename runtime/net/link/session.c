/*
 * Sessions: exactly once and in order between two incarnations, over connections that may break.
 *
 * Each side numbers the frames it sends and counts those it has received whole; TCP's order makes
 * numbers on the wire unnecessary. What is sent stays in the outbox's ring until the peer
 * acknowledges it, with the credit it returns: every 64 frames, 256 KiB or 20 ms. When the link
 * ends otherwise than by intention the session is suspended: messages queue as before, the side
 * that dialled dials again (at once, then after 50 ms doubling to 1 s, +-20 %), the other one
 * knocks in the same rhythm: a refused connection says that the process has ended, a refused hello
 * what has become of the session. Both hellos carry the session's number and the count received;
 * each side then writes again from behind what the other one has. Fragments count one by one, so a
 * large frame is resumed in its middle.
 *
 * The link's own frames (beats, credit, membership) are not part of it: totals are sent again after
 * each reconnect, membership by members.c.
 *
 * A session ends, which is the failure of the peer to every layer above, when the peer's process is
 * gone or declared so, when it speaks nonsense, or when what it asks for is not in the ring.
 */
#include "net/net_state.h"
#include "net/link/link.h"
#include "net/link/memory_credit.h"
#include "net/link/peer.h"
#include "net/link/session.h"
#include "net/members/local_health.h"
#include "net/members/members.h"

#include <string.h>

int tide__session_mistake;

enum { CREDIT_FIELDS = 1 + TIDE_LANE_COUNT - TIDE_LANE_STORE };

/* ---- life ---- */

void tide__session_touch(struct tide_session *s) {
    if (!s->active) {
        s->active = true;
        s->next_active = s->net->active;
        s->net->active = s;
    }
}

static void put_awake(struct tide_session *s) {
    struct tide_net *net = s->net;
    TIDE_ASSERT(!s->resting && !s->over);
    s->next_awake = net->awake;
    s->awake_place = &net->awake;
    if (s->next_awake) {
        s->next_awake->awake_place = &s->next_awake;
    }
    net->awake = s;
}

static void take_awake(struct tide_session *s) {
    *s->awake_place = s->next_awake;
    if (s->next_awake) {
        s->next_awake->awake_place = s->awake_place;
    }
}

void tide__session_rest(struct tide_session *s) {
    take_awake(s);
    s->resting = true;
}

void tide__session_rouse(struct tide_session *s) {
    if (!s->resting) {
        return;
    }
    s->resting = false;
    put_awake(s);
    if (!TIDE_MUTANT(rest_not_excused)) {
        const uint64_t now = tide__net_now(s->net);
        tide__detector_excuse(&s->detector, now, now - s->detector.last);
    }
}

uint64_t tide__session_heard(const struct tide_session *s, uint64_t now) {
    return s->resting ? now : s->detector.last;
}

static void account_release(struct tide_credit_account *account) {
    tide_free(account);
}

static void account_drop(struct tide_credit_account *account) {
    /* acq_rel: the holder that drops the last count sees all others done with it */
    if (account && atomic_fetch_sub_explicit(&account->refs, 1, memory_order_acq_rel) == 1) {
        account->release(account);
    }
}

static bool has_cap(const struct tide_net *net) {
    return atomic_load_explicit(&net->memory_cap, memory_order_relaxed) > 0;
}

static void attach(struct tide_session *s, struct tide_link *link) {
    struct tide_peer *peer = s->peer;
    s->link = link;
    link->session = s;
    link->peer = peer;
    peer->link = link;
    peer->redial_at = TIDE_NEVER;
    peer->redial_delay = 0;
    tide__outbox_adopt(&s->outbox, &link->greeting);
    tide__decoder_resume(&link->decoder, s->lanes, s->received);
    s->told = s->received;
    s->told_bytes = link->bytes_in;
    s->tell_at = TIDE_NEVER;
    s->tell_now = s->tell_now || has_cap(s->net);
    tide__link_touch(link);
    tide__session_touch(s);
    TIDE_ASSERT(s->link == link && link->session == s && peer->link == link && peer->session == s);
}

struct tide_session *tide__session_begin(struct tide_link *link, struct tide_peer *peer, uint64_t id) {
    TIDE_ASSERT(!peer->session);
    struct tide_net *net = link->net;
    struct tide_session *s = tide_alloc_zero(1, sizeof *s);
    struct tide_credit_account *account = tide_alloc_zero(1, sizeof *account);
    if (!s || !account) {
        tide_free(s);
        tide_free(account);
        return NULL;
    }
    atomic_store_explicit(&account->refs, 1, memory_order_relaxed);
    account->release = account_release;
    s->net = net;
    s->peer = peer;
    s->id = id;
    s->dials = link->purpose != LINK_ACCEPTED;
    s->account = account;
    tide__outbox_init(&s->outbox, &net->spare_room);
    tide__detector_init(&s->detector, tide__net_now(net), BEAT_INTERVAL);
    s->next = net->sessions;
    net->sessions = s;
    put_awake(s);
    peer->session = s;
    attach(s, link);
    for (struct tide_outgoing *m = peer->waiting, *next; m; m = next) {
        next = m->next;
        tide__outbox_push(&s->outbox, m);
    }
    peer->waiting = NULL;
    peer->waiting_tail = &peer->waiting;
    return s;
}

int tide__session_resume(struct tide_session *s, struct tide_link *link, uint64_t received) {
    if ((tide__session_mistake == MISTAKE_RESUME_EARLY || TIDE_MUTANT(session_resume_early)) &&
        received > s->outbox.acked) {
        received--;
    } else if ((tide__session_mistake == MISTAKE_RESUME_LATE || TIDE_MUTANT(session_resume_late)) &&
               received < s->outbox.sent) {
        received++;
    } else if (tide__session_mistake == MISTAKE_FORGET_FRAGMENTS) {
        tide__assembly_drop(s->lanes);
    }
    int error = tide__outbox_rewind(&s->outbox, received);
    if (error != 0) {
        return error;
    }
    attach(s, link);
    TIDE_SOMETIMES(session_resumed);
    if (s->outbox.ring_frames > 0) {
        TIDE_SOMETIMES(frames_written_again);
    }
    s->tell_now = true;
    s->resumed++;
    s->resent += s->outbox.ring_frames;
    TIDE_ASSERT(link->decoder.sequenced == s->received && s->told == s->received);
    return 0;
}

void tide__session_suspend(struct tide_session *s) {
    struct tide_link *link = s->link;
    struct tide_peer *peer = s->peer;
    TIDE_ASSERT(link && peer->link == link);
    s->received = link->decoder.sequenced;
    tide__decoder_suspend(&link->decoder, s->lanes);
    tide__outbox_detach(&s->outbox);
    tide__session_touch(s);
    tide__session_rouse(s);
    s->link = NULL;
    link->session = NULL;
    peer->link = NULL;
    peer->redial_at = tide__net_now(s->net);
    peer->redial_delay = 0;
    atomic_store_explicit(&peer->up, false, memory_order_relaxed);
    tide__net_wake(s->net);
    TIDE_ASSERT(s->active && !s->resting && !s->outbox.room && !s->outbox.own);
}

static void fail_unsent(void *arg, const struct tide_outgoing *m) {
    struct tide_session *s = arg;
    tide_system_fail_call(s->net->system, m, TIDE_EDIED, "the connection was lost");
    tide__peer_credit(s->peer, m->lane, TIDE_FRAME_HEAD + tide_outgoing_body(m));
}

/* The memory goes at the end of the turn: a caller may be iterating over the sessions. */
void tide__session_drop(struct tide_session *s) {
    if (s->over) {
        return;
    }
    struct tide_peer *peer = s->peer;
    s->over = true;
    tide__session_touch(s);
    peer->session = NULL;
    peer->redial_at = TIDE_NEVER;
    atomic_store_explicit(&peer->up, false, memory_order_relaxed);
    if (s->link) {
        s->link->session = NULL;
        s->link = NULL;
    }
    if (peer->link) {
        struct tide_link *link = peer->link;
        peer->link = NULL;
        tide__link_close(link);
    }
    tide__outbox_clear(&s->outbox, fail_unsent, s);
    tide__assembly_drop(s->lanes);
    tide__net_wake(s->net);
    TIDE_ASSERT(!s->link && !peer->session && s->active);
}

void tide__session_end(struct tide_session *s, const char *reason) {
    if (!s->over) {
        TIDE_SOMETIMES(session_ended);
        tide__session_drop(s);
        tide__members_link_lost(s->net, s->peer, reason);
    }
}

static void session_free(struct tide_session *s) {
    tide__outbox_clear(&s->outbox, NULL, NULL);
    tide__assembly_drop(s->lanes);
    account_drop(s->account);
    tide_free(s);
}

void tide__sessions_release(struct tide_net *net) {
    while (net->sessions) {
        struct tide_session *next = net->sessions->next;
        session_free(net->sessions);
        net->sessions = next;
    }
}

/* ---- telling what came, and hearing it ---- */

/* Is there enough to acknowledge for a frame of its own? */
static bool is_worth_telling(const struct tide_session *s, uint64_t now, bool all) {
    const uint64_t frames = s->link->decoder.sequenced - s->told;
    if (s->tell_now || (frames > 0 && TIDE_BUGGIFY(tell_at_once)) || frames >= tide_limit(net_ack_frames) ||
        now >= s->tell_at || (all && frames > 0) ||
        (frames > 0 && s->link->bytes_in - s->told_bytes >= tide_limit(net_ack_bytes))) {
        return true;
    }
    const uint64_t grant = atomic_load_explicit(&s->net->memory_grant, memory_order_relaxed);
    const bool narrow = grant != UINT64_MAX; /* the peer may wait for each message */
    for (unsigned i = TIDE_LANE_STORE; i < TIDE_LANE_COUNT; i++) {
        const uint64_t consumed = atomic_load_explicit(&s->account->consumed[i], memory_order_relaxed);
        const uint64_t news = consumed - s->granted[i];
        if (news > 0 && (all || (consumed == s->delivered[i] && news >= (narrow ? 1 : 16 << 10)) ||
                         news > tide_net_scaled(tide__credit_window(i), grant) / 4)) {
            return true;
        }
    }
    return false;
}

/* Acknowledges what has come and what its messages' receivers have consumed: at once when it is
 * much, else a little later or with the next beat. */
static void tell(struct tide_session *s, uint64_t now, bool all) {
    if (!is_worth_telling(s, now, all)) {
        return;
    }
    uint8_t body[96];
    struct tide_writer w;
    const bool capped = has_cap(s->net);
    tide_writer_init(&w, body, sizeof body);
    tide_write_array(&w, CREDIT_FIELDS + (capped ? MEMORY_FIELDS : 0));
    s->told = s->link->decoder.sequenced;
    s->told_bytes = s->link->bytes_in;
    s->tell_at = TIDE_MUTANT(told_again_at_once) ? s->tell_at : TIDE_NEVER;
    s->tell_now = false;
    tide_write_uint(&w, s->told);
    for (unsigned i = TIDE_LANE_STORE; i < TIDE_LANE_COUNT; i++) {
        s->granted[i] = atomic_load_explicit(&s->account->consumed[i], memory_order_relaxed);
        tide_write_uint(&w, s->granted[i]);
    }
    if (capped) {
        tide__memory_write(s->net, &w);
    }
    tide__link_own(s->link, TIDE_FRAME_CREDIT, w.data, w.size);
    tide_writer_release(&w);
}

int tide__session_told(struct tide_session *s, const struct tide_frame *frame) {
    struct tide_reader r;
    tide_reader_init(&r, frame->body, frame->body_size);
    size_t count = tide_read_array(&r);
    uint64_t received = tide_read_uint(&r);
    uint64_t totals[TIDE_LANE_COUNT] = {0};
    for (unsigned i = TIDE_LANE_STORE; i < TIDE_LANE_COUNT; i++) {
        totals[i] = tide_read_uint(&r);
        if (totals[i] < s->returned[i]) {
            return tide_fail(TIDE_EPROTO, "credit of lane %u goes backwards", i);
        }
    }
    if (r.error != 0 || (count != CREDIT_FIELDS && count != CREDIT_FIELDS + MEMORY_FIELDS)) {
        return tide_fail(TIDE_EPROTO, "a damaged credit frame");
    }
    if (count > CREDIT_FIELDS) {
        int error = tide__memory_read(s->peer, &r);
        if (error != 0) {
            return error;
        }
    }
    if (tide__session_mistake != MISTAKE_NEVER_TRIM && !TIDE_MUTANT(session_never_trim)) {
        int error = tide__outbox_acked(&s->outbox, received);
        if (error != 0) {
            return error;
        }
    }
    tide__link_touch(s->link); /* the ring has room again */
    for (unsigned i = TIDE_LANE_STORE; i < TIDE_LANE_COUNT; i++) {
        if (!TIDE_MUTANT(flow_credit_lost) || i != TIDE_LANE_BULK) {
            tide__peer_credit(s->peer, i, totals[i] - s->returned[i]);
        }
        atomic_fetch_add_explicit(&s->peer->consumed[i], totals[i] - s->returned[i], memory_order_relaxed);
        s->returned[i] = totals[i];
    }
    TIDE_ASSERT(s->link && s->link->decoder.sequenced >= s->told);
    return 0;
}

/* ---- time ---- */

static bool is_silent(const struct tide_session *s, uint64_t now) {
    const uint64_t grace = tide__health_grace(s->net, now);
    if (tide__detector_phi(&s->detector, now, grace) < TIDE_PHI_SUSPECT) {
        return false;
    }
    const struct known *known = tide__members_find(s->net, s->peer->id);
    const uint64_t granted = known ? tide__health_grace_of(s->net, &known->member, grace) : grace;
    return granted == grace || tide__detector_phi(&s->detector, now, granted) >= TIDE_PHI_SUSPECT;
}

void tide__session_tick(struct tide_session *s, uint64_t now, uint64_t excused) {
    if (s->over || (s->link && s->link->state != LINK_UP)) {
        return;
    }
    if (excused > 0) {
        tide__detector_excuse(&s->detector, now, excused);
        s->suspect_since += s->suspect_since != 0 ? excused : 0;
        s->probe.at += s->probe.at != 0 ? excused : 0;
    }
    if (tide__ring_excuses(s)) {
        tide__detector_excuse(&s->detector, now, now - s->detector.last);
    }
    if (is_silent(s, now)) {
        if (s->suspect_since == 0) {
            TIDE_SOMETIMES(peer_suspected);
            s->suspect_since = now;
        }
        tide__members_silent(s, now);
    } else if (s->suspect_since != 0) {
        TIDE_SOMETIMES(suspicion_withdrawn);
        s->suspect_since = 0;
        s->reported = false;
        s->probe = (struct tide_probe){0};
        tide__members_heard(s->net, s->peer);
    }
}

void tide__peer_redial_later(struct tide_net *net, struct tide_peer *peer) {
    TIDE_SOMETIMES(redialled_later);
    if (TIDE_MUTANT(redial_forgotten)) {
        return;
    }
    const uint64_t last = tide_limit(net_redial_last), next = 2 * peer->redial_delay;
    peer->redial_delay = peer->redial_delay == 0 ? tide_limit(net_redial_first) : next < last ? next : last;
    if (TIDE_BUGGIFY(redial_late)) {
        peer->redial_delay = last / 4;
    }
    uint64_t fifth = peer->redial_delay / 5;
    net->attend = true;
    peer->redial_at = tide__net_now(net) + peer->redial_delay - fifth + tide_random_below(&net->random, 2 * fifth + 1);
}

/* A suspended session: dials if that is this side's part, else asks the peer to. It does so anyway;
 * but if nothing listens there its process is gone, and if it ended the session it sends the reason. */
static void dial(struct tide_session *s) {
    struct tide_net *net = s->net;
    struct tide_peer *peer = s->peer;
    const struct known *known = tide__members_find(net, peer->id);
    const char *endpoint = known ? known->member.endpoint : s->dials ? net->controller_endpoint : "";
    peer->redial_at = TIDE_NEVER;
    if (endpoint[0] == 0) {
        return; /* a client: it comes, or is silent for too long */
    }
    if (!s->dials) {
        TIDE_SOMETIMES(peer_asked_to_dial);
    }
    if (tide__link_dial(net, endpoint, s->dials ? LINK_MESH : LINK_KNOCK, peer) != 0) {
        tide__peer_redial_later(net, peer);
    }
}

/* Nothing to send, to dial or to wait for: the next event touches it. */
static bool is_idle(const struct tide_session *s) {
    if (!s->link || s->link->state != LINK_UP || s->tell_now || s->tell_at != TIDE_NEVER ||
        s->link->decoder.sequenced != s->told) {
        return false;
    }
    for (unsigned i = TIDE_LANE_STORE; i < TIDE_LANE_COUNT; i++) {
        if (s->delivered[i] != s->granted[i]) {
            return false; /* its consumer touches nothing */
        }
    }
    return true;
}

static void unlink_session(struct tide_net *net, const struct tide_session *s) {
    struct tide_session **at = &net->sessions;
    while (*at != s) {
        at = &(*at)->next;
    }
    *at = s->next;
}

uint64_t tide__sessions_turn(struct tide_net *net, uint64_t now, bool all) {
    uint64_t due = TIDE_NEVER;
    struct tide_session *active = net->active;
    net->active = NULL;
    while (active) {
        struct tide_session *s = active;
        active = s->next_active;
        s->active = false;
        if (!s->over && !s->link && !s->peer->link && now >= s->peer->redial_at) {
            dial(s);
        }
        if (s->over) {
            if (!s->resting) {
                take_awake(s);
            }
            unlink_session(net, s);
            session_free(s);
            continue;
        }
        uint64_t when = s->peer->redial_at;
        if (s->link && s->link->state == LINK_UP) {
            tell(s, now, all);
            when = s->tell_at;
        }
        if (!is_idle(s)) {
            tide__session_touch(s);
        }
        due = when < due ? when : due;
    }
    return due;
}
