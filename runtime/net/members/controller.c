/*
 * The controller's decisions: which nodes may join and under which id and name, are dead, have left.
 * Decisions are recorded and take effect in decision.c.
 *
 * A node is declared dead when the controller sees it gone or silent itself, when two others report
 * it, or when one report stands for two seconds: then one of the two cannot stay, and it is the one
 * against whom more is reported, the younger if that is equal. A report of mere silence is
 * withdrawn when the silence ends, and the accused refutes it by any sign of life that reaches the
 * controller: however many report it, it is then a matter of broken links, which have those two
 * seconds to heal. A lost connection is not withdrawn. A controller that may be started again
 * and hears almost no member waits instead: it is alone, and the others continue without it.
 *
 * When a cluster ends, the node that ends it names the members that leave: they leave with what they
 * hold, and are not found dead.
 */
#include "net/net_state.h"
#include "net/link/peer.h"
#include "net/link/session.h"
#include "net/members/controller.h"
#include "net/members/decision.h"
#include "net/members/members.h"
#include "net/members/probe.h"

#include <string.h>

/* And not about to be declared otherwise. */
static struct known *living(struct tide_net *net, uint16_t id) {
    struct known *known = tide__members_find(net, id);
    return known && known->member.state <= TIDE_MEMBER_LEAVING && known->wanted <= TIDE_MEMBER_LEAVING ? known : NULL;
}

/* ---- joining ---- */

static int admit_client(struct tide_net *net, const struct tide_hello *hello, uint16_t *id, char name[64]) {
    for (unsigned tries = 0; tries < UINT16_MAX - CLIENT_ID_MIN; tries++) {
        uint16_t candidate = net->next_client;
        net->next_client = candidate == UINT16_MAX ? CLIENT_ID_MIN : (uint16_t)(candidate + 1);
        struct tide_peer *peer = tide__peer(net, candidate);
        if (!peer || (!peer->link && !peer->session)) {
            *id = candidate;
            snprintf(name, 64, "%.50s", hello->name);
            if (name[0] == 0) {
                snprintf(name, 64, "client%u", (unsigned)candidate - CLIENT_ID_MIN);
            }
            return 0;
        }
    }
    return tide_fail(TIDE_EBUSY, "too many clients");
}

static bool name_taken(const struct tide_net *net, const char *name) {
    for (size_t i = 0; i < net->member_count; i++) {
        const struct tide_member *m = &net->members[i].member;
        if (m->state <= TIDE_MEMBER_LEAVING && strcmp(m->name, name) == 0) {
            return true;
        }
    }
    return false;
}

/* Each member costs this node sessions and their queues. Consoles may come: an operator has to look. */
static int check_memory(struct tide_net *net) {
    struct tide_memory_report own;
    char who[96];
    tide_net_memory(net, tide__net_id(net), &own);
    snprintf(who, sizeof who, "the controller %s", net->name);
    return own.tier < TIDE_TIER_OVER ? 0 : tide_net_memory_refuse(who, &own, "it takes no more members");
}

static int check_member(struct tide_net *net, const struct tide_hello *hello) {
    size_t count = 0;
    for (size_t i = 0; i < net->member_count; i++) {
        count += net->members[i].member.state <= TIDE_MEMBER_LEAVING;
    }
    if (hello->name[0] != 0 && name_taken(net, hello->name)) {
        return tide_fail(TIDE_EEXIST, "the name '%s' is taken in cluster '%s'", hello->name, net->cluster);
    }
    if (count >= MEMBERS_MAX || net->next_id >= CLIENT_ID_MIN) {
        return tide_fail(TIDE_EFULL, "the cluster takes no more members");
    }
    const bool far = !tide_endpoint_is_local(net->endpoint);
    if (hello->endpoint[0] == 0 || tide_endpoint_is_local(hello->endpoint) == far) {
        return tide_fail(TIDE_EINVAL, "members of this cluster listen on %s, and a joiner does on %.60s",
                         far ? "addresses of other machines" : "this machine alone",
                         hello->endpoint[0] != 0 ? hello->endpoint : "nothing");
    }
    return check_memory(net);
}

static struct known *find_incarnation(struct tide_net *net, uint64_t incarnation) {
    for (size_t i = 0; i < net->member_count; i++) {
        if (net->members[i].member.incarnation == incarnation) {
            return &net->members[i];
        }
    }
    return NULL;
}

/* It is to be a member: its own description, an id, and an unused name. */
static int propose(struct tide_net *net, const struct tide_hello *hello) {
    int error = check_member(net, hello);
    if (error != 0) {
        return error;
    }
    struct tide_member m = {.incarnation = hello->incarnation,
                            .id = net->next_id,
                            .state = TIDE_MEMBER_JOINING,
                            .store = hello->store,
                            .workers = hello->workers,
                            .pid = hello->pid};
    snprintf(m.name, sizeof m.name, "%s", hello->name);
    if (m.name[0] == 0) {
        snprintf(m.name, sizeof m.name, "n%u", (unsigned)m.id);
        for (unsigned k = 2; name_taken(net, m.name); k++) {
            snprintf(m.name, sizeof m.name, "n%u.%u", (unsigned)m.id, k);
        }
    }
    memcpy(m.endpoint, hello->endpoint, sizeof m.endpoint);
    error = tide__decision_add(net, &m);
    if (error == 0) {
        tide__decide(net);
    }
    return error;
}

int tide__controller_admit(struct tide_net *net, const struct tide_hello *hello, uint16_t *id, char name[64]) {
    if (net->finished) {
        return tide_fail(TIDE_ECLOSED, "the cluster is ending");
    }
    if (hello->client) {
        return admit_client(net, hello, id, name);
    }
    if (net->deciding) {
        return 1;
    }
    struct known *known = find_incarnation(net, hello->incarnation);
    if (!known) {
        int error = propose(net, hello);
        if (error != 0) {
            return error;
        }
        known = find_incarnation(net, hello->incarnation);
        if (!known) {
            return net->finished ? tide_fail(TIDE_ECLOSED, "the cluster is ending") : 1;
        }
    } else {
        struct tide_peer *peer = tide__peer(net, known->member.id);
        if (known->member.state != TIDE_MEMBER_JOINING) {
            return tide_fail(TIDE_EEXIST, "this incarnation is node '%s' already", known->member.name);
        }
        if (peer && peer->session) { /* the joiner received no answer, and retries */
            tide__session_drop(peer->session);
        }
    }
    *id = known->member.id;
    memcpy(name, known->member.name, 64);
    return 0;
}

void tide__controller_greet(struct tide_net *net, struct tide_link *link) {
    struct tide_writer w;
    tide_writer_init(&w, NULL, 0);
    tide__members_write_view(net, &w);
    tide__members_cast(net, link, &w);
    tide_writer_release(&w);
}

/* READY carries the ids the joiner is connected to: it is up when all that are up are among them;
 * in a ring, when its neighbours are. */
static void ready(struct tide_net *net, uint16_t from, struct tide_reader *r) {
    struct known *joiner = tide__members_find(net, from);
    size_t count = tide_read_array(r);
    if (!joiner || joiner->member.state != TIDE_MEMBER_JOINING || r->error != 0) {
        return;
    }
    uint16_t near[RING_NEIGHBOURS];
    unsigned near_count = net->ringed ? tide__ring_neighbours(net, from, near) : 0;
    for (size_t i = 0; i < (net->ringed ? near_count : net->member_count); i++) {
        const struct known *other = net->ringed ? tide__members_find(net, near[i]) : &net->members[i];
        const struct tide_member *m = &other->member;
        bool found = m->id == from || m->id == tide__net_id(net) || m->state != TIDE_MEMBER_UP;
        struct tide_reader ids = *r;
        for (size_t k = 0; k < count && !found; k++) {
            found = tide_read_uint(&ids) == m->id;
        }
        if (!found) {
            return; /* it will report it again when it sees the view with the other */
        }
    }
    tide_log(TIDE_LOG_INFO, net->name, "node %s (n%u) joined", joiner->member.name, (unsigned)from);
    tide__decision_want(joiner, TIDE_MEMBER_UP, "");
    tide__decide(net);
}

/* ---- death ---- */

static void drop_reports(struct tide_net *net, uint16_t id) {
    struct report **at = &net->reports;
    while (*at) {
        struct report *r = *at;
        if (r->reporter == id || r->subject == id) {
            *at = r->next;
            tide_free(r);
        } else {
            at = &r->next;
        }
    }
}

static unsigned reports_against(const struct tide_net *net, uint16_t subject) {
    unsigned count = 0;
    for (const struct report *r = net->reports; r; r = r->next) {
        count += r->subject == subject;
    }
    return count;
}

/* Did this controller hear fewer than half of the others in the last second (and the time between
 * two beats)? Then it is more likely its own cable that is cut, and where others continue without a
 * controller it declares no member dead for mere silence. */
static bool is_cut_off(struct tide_net *net, uint64_t now) {
    size_t others = 0, heard = 0;
    for (size_t i = 0; i < net->member_count; i++) {
        uint16_t id = net->members[i].member.id;
        struct tide_peer *peer = tide__peer(net, id);
        if (id != tide__net_id(net) && living(net, id)) {
            others++;
            heard += peer && peer->session &&
                     now - tide__session_heard(peer->session, now) < TIDE_SECOND + tide__ring_interval(net, id);
        }
    }
    return tide_net_durable(net) && others >= 2 && 2 * heard < others;
}

/* The member that this report ends now; 0: none yet. */
static uint16_t verdict(struct tide_net *net, const struct report *r, uint64_t now) {
    if (r->reporter == tide__net_id(net) && !r->lost && is_cut_off(net, now)) {
        return 0;
    }
    struct tide_peer *peer = tide__peer(net, r->subject);
    bool seen = r->reporter == tide__net_id(net) || (peer && peer->lost);
    bool refuted = !seen && !r->lost && tide__probe_hears(net, peer, now) && !TIDE_MUTANT(no_refutation);
    unsigned against = reports_against(net, r->subject);
    if (seen || (against >= 2 && !refuted) || TIDE_MUTANT(one_observer)) {
        return r->subject;
    }
    if (now - r->since < tide_limit(net_report_patience)) {
        return 0;
    }
    unsigned counter = reports_against(net, r->reporter);
    bool reporter_goes = counter > against || (counter == against && r->reporter > r->subject);
    return reporter_goes ? r->reporter : r->subject;
}

static void want_gone(struct known *known, const char *reason) {
    if (known->ends) {
        tide__decision_want(known, TIDE_MEMBER_LEFT, "the cluster ended");
    } else {
        tide__decision_want(known, TIDE_MEMBER_DEAD, reason);
    }
}

/* A member that was recorded, or let in, and is not here: no other node may have known it. */
static void look_for_absent(struct tide_net *net, uint64_t now) {
    for (size_t i = 0; i < net->member_count; i++) {
        struct known *known = &net->members[i];
        struct tide_peer *peer = tide__peer(net, known->member.id);
        bool here = known->member.id == tide__net_id(net) || (peer && (peer->session || peer->lost));
        if (here || !living(net, known->member.id)) {
            known->since = now;
        } else if (now - known->since >= tide_limit(net_waiting_timeout)) {
            want_gone(known, "the controller cannot reach it");
            drop_reports(net, known->member.id);
        }
    }
}

void tide__controller_resolve(struct tide_net *net, uint64_t now) {
    for (struct report *r = net->reports; r;) {
        uint16_t victim = verdict(net, r, now);
        struct known *known = victim == 0 ? NULL : living(net, victim);
        if (!known) {
            r = r->next;
            continue;
        }
        char reason[120];
        snprintf(reason, sizeof reason, "%s", victim == r->subject ? r->reason : "others cannot reach it");
        want_gone(known, reason);
        drop_reports(net, victim);
        r = net->reports; /* the list has changed */
    }
    look_for_absent(net, now);
    tide__decide(net);
}

void tide__controller_report(struct tide_net *net, uint16_t reporter, uint16_t subject, bool lost, const char *reason) {
    if (net->finished || !living(net, subject) || !living(net, reporter) || subject == reporter ||
        subject == tide__net_id(net)) {
        return;
    }
    struct report *r = net->reports;
    while (r && (r->reporter != reporter || r->subject != subject)) {
        r = r->next;
    }
    if (!r) {
        r = tide_alloc_zero(1, sizeof *r);
        if (!r) {
            return;
        }
        r->reporter = reporter;
        r->subject = subject;
        r->since = tide__net_now(net);
        r->next = net->reports;
        net->reports = r;
    }
    r->lost = r->lost || lost;
    snprintf(r->reason, sizeof r->reason, "%s", reason);
    tide__controller_resolve(net, tide__net_now(net));
}

void tide__controller_withdraw(struct tide_net *net, uint16_t reporter, uint16_t subject) {
    for (struct report **at = &net->reports; *at; at = &(*at)->next) {
        struct report *r = *at;
        if (r->reporter == reporter && r->subject == subject && !r->lost) {
            *at = r->next;
            tide_free(r);
            return;
        }
    }
}

/* ---- leaving ---- */

static void leave(struct tide_net *net, uint16_t id) {
    struct known *known = tide__members_find(net, id);
    if (known) {
        tide__decision_want(known, TIDE_MEMBER_LEFT, "left");
        drop_reports(net, id);
        tide__decide(net);
    }
}

void tide__controller_leaving(struct tide_net *net, uint16_t id) {
    struct known *known = living(net, id);
    if (!known || known->member.state == TIDE_MEMBER_LEAVING) {
        return;
    }
    if (known->ends) {
        leave(net, id);
        return;
    }
    bool wait = atomic_load_explicit(&net->evacuations, memory_order_relaxed) && known->member.store;
    tide__decision_want(known, TIDE_MEMBER_LEAVING, "");
    tide__decide(net);
    if (!wait) {
        leave(net, id);
    }
}

bool tide_net_is_to_end(struct tide_net *net, uint16_t id) {
    const struct known *known = tide__members_find(net, id);
    return known && known->ends;
}

void tide__controller_ends(struct tide_net *net, uint16_t id) {
    struct known *known = living(net, id);
    if (known && id != tide__net_id(net) && !TIDE_MUTANT(end_untold)) {
        known->ends = true;
        if (net->controls && known->member.state == TIDE_MEMBER_LEAVING) {
            leave(net, id); /* its rows went nowhere in time */
        }
    }
}

void tide_net_evacuated(struct tide_net *net, uint16_t id) {
    const struct known *known = tide__members_find(net, id);
    if (net->controls && known && known->member.state == TIDE_MEMBER_LEAVING) {
        leave(net, id);
    }
}

void tide_net_expect_evacuation(struct tide_net *net) {
    atomic_store_explicit(&net->evacuations, true, memory_order_relaxed);
}

void tide__controller_end(struct tide_net *net) {
    for (size_t i = 0; i < net->member_count; i++) {
        if (net->members[i].member.state <= TIDE_MEMBER_LEAVING) {
            tide__decision_want(&net->members[i], TIDE_MEMBER_LEFT, "the cluster ended");
        }
    }
    tide__decide(net);
}

void tide__controller_release(struct tide_net *net) {
    while (net->reports) {
        struct report *next = net->reports->next;
        tide_free(net->reports);
        net->reports = next;
    }
}

void tide__controller_receive(struct tide_net *net, uint16_t from, unsigned verb, struct tide_reader *r) {
    if (verb == VERB_READY) {
        ready(net, from, r);
    } else if (verb == VERB_ENDS) {
        size_t count = tide_read_array(r);
        for (size_t i = 0; i < count && r->error == 0; i++) {
            const uint64_t id = tide_read_uint(r);
            if (r->error == 0 && id < CLIENT_ID_MIN) {
                tide__controller_ends(net, (uint16_t)id);
            }
        }
    } else if (verb == VERB_LEAVE) {
        tide__controller_leaving(net, from);
    } else if (verb == VERB_SUSPECT || verb == VERB_CLEAR) {
        uint64_t subject = tide_read_uint(r);
        bool lost = tide_read_bool(r);
        char reason[96];
        tide_read_text(r, reason, sizeof reason);
        if (r->error != 0 || subject > UINT16_MAX) {
            return;
        }
        if (verb == VERB_SUSPECT) {
            tide__controller_report(net, from, (uint16_t)subject, lost, reason);
        } else {
            tide__controller_withdraw(net, from, (uint16_t)subject);
        }
    }
}
