/*
 * How the controller's decisions come into effect: what is wanted of members is gathered into one
 * new view, recorded in the control store, and only then announced to all and applied here. While
 * one is being recorded nothing else is decided; what is wanted meanwhile makes the next view. So
 * no node ever acts on a decision that a restart of the controller could forget, and no number of a
 * view is given twice.
 *
 * A controller that cannot record ends, or, where others hold its log too, steps down: what it
 * decided must not differ from what will be remembered. A decision that is recorded after its
 * controller stepped down takes effect with the next one, which finds it.
 */
#include "net/net_state.h"
#include "net/link/handshake.h"
#include "net/link/link.h"
#include "net/members/decision.h"
#include "net/members/members.h"
#include "net/members/quorum.h"

#include <string.h>

struct decision {
    struct tide_net *net;
    uint64_t view, term;
    uint16_t next_id;
    size_t count;
    struct tide_member members[]; /* as they will be */
};

enum { KEY_BYTES = 32 };

void tide__decision_want(struct known *known, enum tide_member_state state, const char *reason) {
    if (state > known->member.state && state > known->wanted) {
        known->wanted = (uint8_t)state;
        snprintf(known->wanted_reason, sizeof known->wanted_reason, "%s", reason);
    }
}

int tide__decision_add(struct tide_net *net, const struct tide_member *member) {
    if (net->joiner.id != 0) {
        return tide_fail(TIDE_EBUSY, "another node is joining at this moment");
    }
    TIDE_ASSERT(member->id == net->next_id);
    net->joiner = *member;
    return 0;
}

/* This node can lead no more. With a replicated log the next leader continues. */
static void resign(struct tide_net *net, const char *what) {
    char text[200];
    snprintf(text, sizeof text, "%s could not be recorded: %.150s", what, tide_error_message());
    if (tide__quorum_is(net)) {
        tide_log(TIDE_LOG_WARN, net->name, "%s", text);
        (void)net->control->ops->hand_over(net->control);
        tide__net_wake(net);
        return;
    }
    tide__net_become(net, TIDE_MEMBER_DEAD, TIDE_ECLOSED, text);
    tide__net_finish(net, false);
}

/* ---- recording ---- */

enum { MEMBER_BYTES = 512 /* of an encoded member, at most */ };

/* All members are notified, then it takes effect here. */
static void take_effect(struct decision *d) {
    struct tide_net *net = d->net;
    for (size_t i = 0; i < d->count; i++) {
        const struct tide_member *m = &d->members[i];
        struct known *known = tide__members_find(net, m->id);
        if (!known) {
            known = tide__members_add(net, m);
        }
        if (!known) {
            tide_fail(TIDE_ENOMEM, "out of memory");
            resign(net, "a new member");
            return;
        }
        known->member = *m;
        tide__members_unsettle(net, known);
        known->since = tide__net_now(net);
        if (net->joiner.id == m->id) {
            net->joiner.id = 0;
        }
    }
    net->view = d->view;
    net->next_id = d->next_id;
    const bool first = net->told != net->term;
    if (first) { /* from here on others obey this node, and its store is the controller's */
        net->told = net->term;
        tide__members_unsettle(net, tide__members_find(net, tide__net_id(net)));
    }
    struct tide_writer w;
    tide_writer_init(&w, NULL, 0);
    if (first) { /* changes follow only a view of the same controller */
        tide__members_write_view(net, &w);
    } else {
        tide__members_write_news(net, &w, d->view - 1, d->members, d->count);
    }
    for (struct tide_link *link = net->links; link; link = link->next) {
        if (link->state == LINK_UP) {
            tide__members_cast(net, link, &w);
        }
    }
    tide_writer_release(&w);
    tide__members_publish(net);
    tide__members_settle(net);
    tide__handshake_unpark(net);
}

static void decided(void *arg, int code) {
    struct decision *d = arg;
    struct tide_net *net = d->net;
    if (net->controls && net->term == d->term) {
        net->deciding = false;
        if (code != 0) {
            resign(net, "a decision");
        } else {
            take_effect(d);
            tide__decide(net);
        }
    }
    tide_free(d);
}

struct entry {
    struct tide_control_put *puts;
    char (*keys)[KEY_BYTES];
    size_t count;
    struct tide_writer w; /* never grows: the puts point into it */
};

static void entry_add(struct entry *e, const char *key, size_t from) {
    snprintf(e->keys[e->count], KEY_BYTES, "%s", key);
    e->puts[e->count] =
        (struct tide_control_put){.key = e->keys[e->count], .value = e->w.data + from, .size = e->w.size - from};
    e->count++;
}

/* The keys "view", "controller", "controllers", "cluster", and one a member, all or nothing. */
static void record(struct decision *d) {
    struct tide_net *net = d->net;
    size_t count = d->count + 4, bytes = count * MEMBER_BYTES;
    struct entry e = {.puts = tide_alloc(count * sizeof *e.puts), .keys = tide_alloc(count * KEY_BYTES)};
    uint8_t *buffer = tide_alloc(bytes);
    if (!e.puts || !e.keys || !buffer) {
        tide_fail(TIDE_ENOMEM, "out of memory");
        decided(d, TIDE_ENOMEM);
    } else {
        tide_writer_init(&e.w, buffer, bytes);
        tide_write_array(&e.w, 2);
        tide_write_uint(&e.w, d->view);
        tide_write_uint(&e.w, d->next_id);
        entry_add(&e, "view", 0);
        size_t at = e.w.size;
        tide_write_uint(&e.w, tide__net_id(net));
        entry_add(&e, "controller", at);
        at = e.w.size;
        tide_write_uint(&e.w, net->controllers);
        entry_add(&e, "controllers", at);
        at = e.w.size;
        tide_write_text(&e.w, net->cluster);
        entry_add(&e, "cluster", at);
        for (size_t i = 0; i < d->count; i++) {
            char key[KEY_BYTES];
            snprintf(key, sizeof key, "member/%05u", (unsigned)d->members[i].id);
            at = e.w.size;
            tide__member_write(&e.w, &d->members[i]);
            entry_add(&e, key, at);
        }
        TIDE_ASSERT(e.w.error == 0 && e.w.data == buffer);
        net->control->ops->put(net->control, e.puts, e.count, decided, d);
        tide_writer_release(&e.w);
    }
    tide_free(e.puts);
    tide_free(e.keys);
    tide_free(buffer);
}

/* What is wanted now, as one decision; NULL: nothing, or no memory. */
static struct decision *gather(struct tide_net *net) {
    size_t count = net->joiner.id != 0;
    for (size_t i = 0; i < net->member_count; i++) {
        count += net->members[i].wanted > net->members[i].member.state;
    }
    if (count == 0 && !net->announce) {
        return NULL;
    }
    struct decision *d = tide_alloc_zero(1, sizeof *d + count * sizeof d->members[0]);
    if (!d) {
        return NULL;
    }
    net->announce = false;
    d->net = net;
    d->term = net->term;
    d->view = net->view + 1;
    d->next_id = (uint16_t)(net->next_id + (net->joiner.id != 0));
    for (size_t i = 0; i < net->member_count; i++) {
        const struct known *known = &net->members[i];
        if (known->wanted > known->member.state) {
            struct tide_member *m = &d->members[d->count++];
            *m = known->member;
            m->state = known->wanted;
            memcpy(m->reason, known->wanted_reason, sizeof m->reason);
        }
    }
    if (net->joiner.id != 0) {
        d->members[d->count++] = net->joiner;
    }
    return d;
}

void tide__decide(struct tide_net *net) {
    if (net->deciding || net->finished || !net->controls) {
        return;
    }
    struct decision *d = gather(net); /* without memory: at the next tick */
    if (d) {
        net->deciding = true;
        record(d);
    }
}

/* ---- taking command ---- */

static int read_number(const struct tide_control_state *state, const char *key, uint64_t *first, uint64_t *second) {
    const struct tide_control_pair *pair = tide_control_get(state, key);
    struct tide_reader r;
    tide_reader_init(&r, pair ? pair->value : NULL, pair ? pair->size : 0);
    if (pair && second) {
        (void)tide_read_array(&r);
    }
    *first = pair ? tide_read_uint(&r) : 0;
    if (second) {
        *second = pair ? tide_read_uint(&r) : 0;
    }
    return r.error == 0 ? 0 : tide_fail(TIDE_EPROTO, "the recorded '%s' is damaged", key);
}

int tide__decision_numbers(const struct tide_control_state *state, uint64_t *view, uint64_t *next) {
    int error = read_number(state, "view", view, next);
    if (error == 0 && *next >= CLIENT_ID_MIN) {
        error = tide_fail(TIDE_EFULL, "the cluster has used up its node ids");
    }
    return error;
}

/* One member as it was recorded. This node may know it, and may not have heard the latest. */
static struct known *restore_member(struct tide_net *net, const struct tide_member *m) {
    struct known *known = tide__members_find(net, m->id);
    if (!known) {
        known = tide__members_add(net, m);
        if (known) {
            known->unsettled = m->state <= TIDE_MEMBER_LEAVING;
        }
    } else if (m->state > known->member.state) {
        known->member = *m;
        tide__members_unsettle(net, known);
    }
    return known;
}

/* Returns whether this node continued from the log of that holder, whose process has then ended. */
static bool has_ended(const struct tide_net *net, uint16_t id) {
    for (size_t i = 0; i < net->former.count; i++) {
        if (net->former.ids[i] == id) {
            return true;
        }
    }
    return false;
}

/* Members as they were recorded. Without a replicated log the former controller is dead, and this
 * node may have its name. */
static int restore_members(struct tide_net *net, const struct tide_control_state *state) {
    uint64_t former;
    int error = read_number(state, "controller", &former, NULL);
    const struct tide_control_pair *pair = NULL;
    while (error == 0 && (pair = tide_control_list(state, "member/", pair))) {
        struct tide_reader r;
        struct tide_member m;
        tide_reader_init(&r, pair->value, pair->size);
        tide__member_read(&r, &m);
        if (r.error != 0) {
            return tide_fail(TIDE_EPROTO, "the recorded '%s' is damaged", pair->key);
        }
        struct known *known = restore_member(net, &m);
        if (!known) {
            return tide_fail(TIDE_ENOMEM, "out of memory");
        }
        known->since = tide__net_now(net);
        if ((m.id == former && !tide__quorum_is(net)) || has_ended(net, m.id)) {
            tide__decision_want(known, TIDE_MEMBER_DEAD, "the controller was started again");
        }
    }
    return error;
}

/* How many nodes are to hold the log is the first one's option, and recorded; 0: none was yet. */
static int restore_controllers(struct tide_net *net, const struct tide_control_state *state) {
    uint64_t controllers;
    int error = read_number(state, "controllers", &controllers, NULL);
    if (error == 0 && controllers > TIDE_CONTROLLERS_MAX) {
        error = tide_fail(TIDE_EPROTO, "the recorded 'controllers' is damaged");
    }
    if (error == 0 && controllers != 0) {
        net->controllers = (uint8_t)controllers;
    }
    return error;
}

int tide__decision_begin(struct tide_net *net) {
    const struct tide_control_state *state = &net->control->state;
    uint64_t next = 0;
    int error = restore_controllers(net, state);
    error = error != 0 ? error : tide__decision_numbers(state, &net->view, &next);
    error = error != 0 ? error : restore_members(net, state);
    net->next_id = next == 0 ? 1 : (uint16_t)next;
    /* A client of the former controller may still be there under the first ids. */
    uint64_t clients = net->term * 256 % (UINT16_MAX - CLIENT_ID_MIN);
    net->next_client = tide__quorum_is(net) ? (uint16_t)(CLIENT_ID_MIN + clients) : CLIENT_ID_MIN;
    return error;
}

/* ---- the store's records ---- */

bool tide_net_controls(const struct tide_net *net) {
    return net->controls && net->told == net->term;
}

uint64_t tide_net_term(const struct tide_net *net) {
    return net->term;
}

const struct tide_control_state *tide_net_recorded(const struct tide_net *net) {
    TIDE_ASSERT(net->controls);
    return &net->control->state;
}

struct waiting {
    struct tide_net *net;
    uint64_t term;
    tide_control_done done;
    void *arg;
};

static void recorded(void *arg, int code) {
    struct waiting w = *(struct waiting *)arg;
    tide_free(arg);
    bool former = !w.net->controls || w.net->term != w.term;
    if (code != 0 && !former) {
        resign(w.net, "a decision about tables");
    }
    w.done(w.arg, former ? TIDE_ECLOSED : code);
}

void tide_net_record(struct tide_net *net, const struct tide_control_put *puts, size_t count, tide_control_done done,
                     void *arg) {
    TIDE_ASSERT(net->controls);
    struct waiting *w = tide_alloc(sizeof *w);
    if (!w) {
        resign(net, "a decision about tables");
        done(arg, TIDE_ENOMEM);
        return;
    }
    *w = (struct waiting){.net = net, .term = net->term, .done = done, .arg = arg};
    net->control->ops->put(net->control, puts, count, recorded, w);
}
