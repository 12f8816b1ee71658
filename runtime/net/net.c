/*
 * The net of a node: made before the cluster is entered, driven by the end of every turn of I/O
 * thread 0 (flush), closed when the actor system stops. Other threads see copies under a lock and
 * counters; their requests (join, leave) are flags that the next turn reads.
 */
#include "net/net_state.h"
#include "net/link/handshake.h"
#include "net/link/link.h"
#include "net/link/peer.h"
#include "net/link/session.h"
#include "net/members/controller.h"
#include "net/members/decision.h"
#include "net/members/local_health.h"
#include "net/members/members.h"
#include "net/members/quorum.h"

#include <string.h>

#define KEYS_INTERVAL TIDE_SECOND

void tide__net_wake(struct tide_net *net) {
    tide_executor_wake(net->port, net->executor);
}

/* Another thread requests that flush reads a flag. A message, not a bare wake: an executor that is
 * about to sleep checks its inbox and nothing else. */
static void poke(struct tide_net *net) {
    static const uint8_t nil = 0xc0;
    if (tide_post(tide_system_node(net->system), net->members_actor, &nil, 1) != 0) {
        tide__net_wake(net);
    }
}

void tide__net_become(struct tide_net *net, enum tide_member_state state, int code, const char *reason) {
    tide_lock(&net->lock);
    bool final = net->state == TIDE_MEMBER_LEFT || net->state == TIDE_MEMBER_DEAD;
    bool changed = !final && (int)state != net->state;
    if (changed) {
        net->state = (int)state;
        net->code = code;
        snprintf(net->reason, sizeof net->reason, "%s", reason);
    }
    tide_unlock(&net->lock);
    if (changed && state == TIDE_MEMBER_DEAD && !net->client) { /* a client's caller says it */
        tide_log(TIDE_LOG_ERROR, net->name, "%s", reason);
    }
}

void tide__net_finish(struct tide_net *net, bool orderly) {
    net->finished = true;
    if (net->listener) {
        net->port->ops->listener_close(net->listener);
        net->listener = NULL;
    }
    for (struct tide_link *link = net->links; link; link = link->next) {
        if (orderly && link->state == LINK_UP) {
            tide__link_drain(link);
        } else if (link->state != LINK_DRAINING) {
            tide__link_close(link);
        }
    }
    for (struct tide_session *s = net->sessions; s; s = s->next) {
        if (!s->link) {
            tide__session_drop(s);
        }
    }
    tide__peers_part(net);
    tide__net_wake(net);
}

/* ---- the turn ---- */

/* The first controller of a cluster is node 1. One that was started again gets a new id like
 * every other node: its former life, with what it had, is over. */
static void become_controller(struct tide_net *net) {
    int error = tide__decision_begin(net);
    if (error != 0) {
        tide__net_become(net, TIDE_MEMBER_DEAD, error, tide_error_message());
        net->finished = true;
        return;
    }
    struct tide_member self = {.incarnation = net->incarnation,
                               .id = net->next_id,
                               .state = TIDE_MEMBER_UP,
                               .store = net->store,
                               .workers = net->workers,
                               .pid = net->pid};
    snprintf(net->name, sizeof net->name, "%s", net->wanted_name[0] != 0 ? net->wanted_name : "c0");
    memcpy(self.name, net->name, sizeof self.name);
    memcpy(self.endpoint, net->endpoint, sizeof self.endpoint);
    memcpy(net->controller_endpoint, net->endpoint, sizeof net->controller_endpoint);
    tide_system_set_node_id(net->system, self.id);
    atomic_store_explicit(&net->id, self.id, memory_order_relaxed);
    atomic_store_explicit(&net->controller, self.id, memory_order_relaxed);
    (void)tide__decision_add(net, &self); /* no other node can be joining yet */
    tide__decide(net);
}

/* The first turn: a listener can be made on its own executor only. */
static void open_listener(struct tide_net *net) {
    int error = 0;
    if (!net->client) {
        error = net->port->ops->listen(net->executor, net->listen, tide__link_accepted, net, &net->listener);
    }
    if (error != 0) {
        net->listener = NULL;
        tide__net_become(net, TIDE_MEMBER_DEAD, error, tide_error_message());
        net->finished = true;
    } else {
        if (net->listener) {
            snprintf(net->endpoint, sizeof net->endpoint, "%s", net->port->ops->listener_endpoint(net->listener));
        }
        if (net->controls) {
            become_controller(net);
        }
    }
    atomic_store_explicit(&net->opened, true,
                          memory_order_release); /* with tide_net_create and the endpoint's readers */
}

static void dial_join(struct tide_net *net) {
    net->join_again = TIDE_NEVER;
    net->redirects = 0;
    int error = tide__link_dial(net, net->join, LINK_JOIN, NULL);
    if (error != 0) {
        tide__net_become(net, TIDE_MEMBER_DEAD, error, tide_error_message());
    }
}

static void begin_join(struct tide_net *net) {
    net->joining = true;
    tide__handshake_unpark(net);
    if (net->controls || net->finished) {
        return;
    }
    net->join_until = tide__net_now(net) + JOIN_PATIENCE;
    dial_join(net);
}

/* A cluster without a controller accepts no joiner, which lasts less than a second if there are
 * several. */
void tide__join_failed(struct tide_net *net, bool passing, int code, const char *reason) {
    const uint64_t now = tide__net_now(net);
    if (!passing || net->finished || now + tide_limit(net_join_retry) >= net->join_until) {
        tide__net_become(net, TIDE_MEMBER_DEAD, code, reason);
        return;
    }
    net->join_again = now + tide_limit(net_join_retry);
    tide__net_wake(net);
}

static void begin_leave(struct tide_net *net) {
    net->leave_sent = true;
    if (net->finished) {
        return;
    }
    if (net->controls && !tide_net_durable(net)) {
        tide__controller_end(net);
        return;
    }
    if (tide__quorum_is(net) && net->controls && net->control->ops->hand_over(net->control) == 0) {
        return; /* the next controller is asked when it leads */
    }
    if (net->controls) { /* the others wait for it to be started again */
        tide__net_become(net, TIDE_MEMBER_LEFT, 0, "the controller goes");
        tide__net_finish(net, true);
        return;
    }
    struct tide_peer *controller = tide__peer(net, tide_net_controller(net));
    bool linked = controller && controller->link && controller->link->state == LINK_UP;
    bool awaited = controller && controller->session;
    awaited = awaited || (net->away && net->store);           /* whose rows only a controller can move */
    awaited = awaited || (net->away && tide__quorum_is(net)); /* there is one soon */
    if (!linked && !net->client && awaited) {
        return; /* it is notified when it is back */
    }
    if (net->client || !linked) {
        tide__net_become(net, TIDE_MEMBER_LEFT, 0, "left");
        tide__net_finish(net, true);
        return;
    }
    tide__members_leave(controller->link);
}

static void refresh_keys(void *arg) {
    struct tide_net *net = arg;
    (void)tide__tls_refresh(net->tls, net->name);
}

/* A late tick means that this process stalled; the silence that it then observes is its own. */
static void tick(struct tide_net *net, uint64_t now) {
    uint64_t late = now > net->tick_at && !TIDE_MUTANT(stall_not_excused) ? now - net->tick_at : 0;
    uint64_t excused = late > BEAT_INTERVAL / 2 ? late : 0;
    tide__health_stood_still(net, now, late);
    net->tick_soon = false;
    net->tick_at = now + tide__ring_tick(net);
    if (now >= net->deadline) {
        tide__links_expire(net, now);
    }
    tide__ring_turn(net);
    struct tide_session *next;
    for (struct tide_session *s = net->awake; s; s = next) {
        next = s->next_awake;
        if (s->link) {
            tide__link_beat(s->link, now);
        }
        tide__session_tick(s, now, excused);
        if (tide__ring_rests(s, now)) {
            tide__session_rest(s);
        }
    }
    tide__members_tick(net, now);
    if (net->tls && now >= net->keys_at) {
        net->keys_at = now + KEYS_INTERVAL;
        tide__watch_aside(refresh_keys, net); /* looks at four files, reads them when changed */
        tide__links_judge(net);
    }
}

static bool has_new_watches(struct tide_net *net) {
    tide_lock(&net->lock);
    bool any = net->new_watches;
    tide_unlock(&net->lock);
    return any;
}

static uint64_t flush(void *arg) {
    struct tide_net *net = arg;
    if (!atomic_load_explicit(&net->opened, memory_order_relaxed)) {
        open_listener(net);
    }
    /* acquire: pairs with the release in tide_net_join, tide_net_leave */
    if (!net->joining && atomic_load_explicit(&net->join_wanted, memory_order_acquire)) {
        begin_join(net);
    }
    if (!tide__net_is_complete(net)) {
        return TIDE_NEVER;
    }
    if (!net->leave_sent && atomic_load_explicit(&net->leave_wanted, memory_order_acquire)) {
        begin_leave(net);
    }
    if (has_new_watches(net)) {
        tide__members_settle(net);
    }
    uint64_t now = tide__net_now(net);
    if (now >= net->join_again && !net->finished) {
        dial_join(net);
    }
    bool busy = net->links || net->member_count > 1;
    if (busy && net->tick_at == TIDE_NEVER) { /* from rest */
        net->tick_at = now + tide__ring_tick(net);
    }
    bool ticks = net->tick_soon || now >= net->tick_at;
    if (ticks) {
        tick(net, now);
        tide__quorum_tick(net);
    }
    uint64_t log_due = tide__quorum_turn(net, now);
    uint64_t due = tide__sessions_turn(net, now, ticks);
    due = log_due < due ? log_due : due;
    due = net->join_again < due ? net->join_again : due;
    tide__links_flush(net);
    if (!net->links && (net->finished || net->member_count <= 1)) {
        net->tick_at = TIDE_NEVER;
    }
    return due < net->tick_at ? due : net->tick_at;
}

static bool close_all(void *arg) {
    struct tide_net *net = arg;
    tide__net_finish(net, false);
    for (struct tide_link *link = net->links; link; link = link->next) {
        tide__link_close(link);
    }
    return !net->links;
}

static int resolve(void *arg, const char *name, uint16_t *id) {
    return tide_net_find(arg, name, id) ? 0 : tide_fail(TIDE_ENOENT, "no node is named '%s' in this cluster", name);
}

static int admit(void *arg, uint16_t node, enum tide_lane lane, size_t bytes, size_t window,
                 struct tide_fiber *waiter) {
    struct tide_peer *peer = tide__peer(arg, node);
    if (!peer) {
        return tide_fail(TIDE_EUNREACHABLE, "node n%u is not known here", (unsigned)node);
    }
    return tide__peer_admit(peer, lane, bytes, window, waiter);
}

static void refund(void *arg, uint16_t node, enum tide_lane lane, size_t bytes) {
    tide__peer_credit(tide__peer(arg, node), lane, bytes);
}

static void send(void *arg, struct tide_outgoing *message) {
    tide__peer_send(arg, message);
}

/* ---- the members actor: answers requests for the list ---- */

static int members_handle(void *state, const struct tide_message *message) {
    struct tide_net *net = state;
    if (message->kind != TIDE_CALL) {
        return 0;
    }
    struct tide_writer w;
    tide_writer_init(&w, NULL, 0);
    tide__members_write_view(net, &w);
    if (w.error == 0) {
        tide_answer(message->from, message->call, w.data, w.size);
    } else {
        tide_answer_error(message->from, message->call, w.error, "out of memory");
    }
    tide_writer_release(&w);
    return 0;
}

/* ---- life ---- */

static bool is_endpoint(const char *text) {
    return !text || strncmp(text, "unix:", 5) == 0 || strncmp(text, "tcp:", 4) == 0 || strncmp(text, "sim:", 4) == 0;
}

static bool is_any_address(const char *endpoint) {
    return strncmp(endpoint, "tcp:0.0.0.0:", 12) == 0 || strncmp(endpoint, "tcp:[::]:", 9) == 0;
}

static int check_silence(uint64_t silence) {
    return silence <= TIDE_SILENCE_MAX
               ? 0
               : tide_fail(TIDE_EINVAL, "a silence of at most an hour can be granted: --silence TIME");
}

static int check_options(const struct tide_net_options *o) {
    if ((!tide_identifier_valid(o->cluster) && !(o->client && o->cluster[0] == 0)) ||
        (o->name && o->name[0] != 0 && !tide_identifier_valid(o->name))) {
        return tide_fail(TIDE_EINVAL, "cluster and node names are lower-case letters, digits and . _ -, at most 63");
    }
    if (o->client ? !o->join : !o->listen) {
        return tide_fail(TIDE_EINVAL, o->client ? "a client needs a member to join" : "a member needs a listener");
    }
    if (!is_endpoint(o->listen) || !is_endpoint(o->join)) {
        return tide_fail(TIDE_EINVAL, "'%s' is no endpoint: write unix:/PATH or tcp:127.0.0.1:PORT",
                         is_endpoint(o->listen) ? o->join : o->listen);
    }
    const char *far = !o->client && !tide_endpoint_is_local(o->listen) ? o->listen
                      : o->join && !tide_endpoint_is_local(o->join)    ? o->join
                                                                       : NULL;
    if (far && !o->keys) {
        return tide_fail(TIDE_EPERM,
                         "%s is of other machines, with which nodes use TLS: --keys DIR names this "
                         "side's keys, and `tide keys init` makes them",
                         far);
    }
    if (far && !o->client && tide_endpoint_is_local(o->listen)) {
        return tide_fail(TIDE_EINVAL,
                         "the cluster at %s could not reach %s: --listen tcp:ADDRESS:PORT with an address "
                         "of this machine that the others reach",
                         far, o->listen);
    }
    if (!o->client && is_any_address(o->listen)) {
        return tide_fail(TIDE_EINVAL, "%s: others are told this address, so it has to be one that they can reach",
                         o->listen);
    }
    if ((o->listen && strlen(o->listen) >= 160) || (o->join && strlen(o->join) >= 160)) {
        return tide_fail(TIDE_EINVAL, "an endpoint has up to 159 characters");
    }
    if (check_silence(o->silence) < 0) {
        return TIDE_EINVAL;
    }
    if (o->controllers != 0 && (o->join || o->client)) {
        return tide_fail(TIDE_EINVAL, "the first node of a cluster says how many controllers there are");
    }
    if (o->controllers != 0 && o->controllers != 3 && o->controllers != 5) {
        return tide_fail(TIDE_EINVAL,
                         "%u controllers: there are 3, of which one may be lost, or "
                         "5, of which two may be lost",
                         o->controllers);
    }
    if (o->state && (o->client || strlen(o->state) >= 280)) {
        return tide_fail(TIDE_EINVAL, o->client ? "a client keeps no state directory"
                                                : "the path of the state directory is too long");
    }
    return 0;
}

static struct tide_net *net_alloc(struct tide_system *system, const struct tide_net_options *o) {
    struct tide_net *net = tide_alloc_zero(1, sizeof *net);
    if (!net) {
        return NULL;
    }
    net->system = system;
    net->port = tide_system_port(system);
    net->executor = tide_system_executor(system, TIDE_ROLE_IO, 0);
    snprintf(net->cluster, sizeof net->cluster, "%s", o->cluster);
    snprintf(net->listen, sizeof net->listen, "%s", o->listen ? o->listen : "");
    snprintf(net->join, sizeof net->join, "%s", o->join ? o->join : "");
    snprintf(net->wanted_name, sizeof net->wanted_name, "%s", o->name ? o->name : "");
    snprintf(net->name, sizeof net->name, "%s", net->wanted_name);
    do {
        net->incarnation = net->port->ops->entropy(net->port);
    } while (net->incarnation == 0);
    net->workers = o->workers;
    net->store = o->store;
    net->client = o->client;
    net->right = o->right != TIDE_RIGHT_NONE ? o->right : TIDE_RIGHT_ADMIN;
    net->controls = !o->join;
    const bool shares = o->controllers > 0 || o->join; /* a holder of the log, perhaps */
    snprintf(net->state_directory, sizeof net->state_directory, "%s", o->state && shares ? o->state : "");
    net->controllers = (uint8_t)o->controllers;
    net->pid = (int32_t)net->port->ops->pid(net->port);
    net->state = TIDE_MEMBER_JOINING;
    atomic_store_explicit(&net->memory_grant, UINT64_MAX, memory_order_relaxed);
    net->tick_at = TIDE_NEVER;
    net->deadline = TIDE_NEVER;
    net->join_again = TIDE_NEVER;
    tide__health_init(net, o);
    net->dirty_tail = &net->dirty;
    net->unsettled_low = SIZE_MAX;
    tide_port_random(net->port, "net", &net->random);
    return net;
}

static void control_close(struct tide_net *net) {
    struct tide_control *controls[] = {net->control, net->alone};
    if (net->control) {
        net->controls = false; /* what waits is of a controller that was */
    }
    for (size_t i = 0; i < TIDE_COUNT(controls); i++) {
        if (controls[i]) {
            controls[i]->ops->destroy(controls[i]);
        }
    }
    net->control = net->alone = NULL;
}

void tide_net_close(struct tide_net *net) {
    control_close(net);
}

/* What is recorded must be of this cluster. The first term begins here, where the disk may block. */
static int open_control(struct tide_net *net, const char *directory) {
    int error = net->controllers > 0 ? tide__quorum_begin(net)
                                     : tide_control_open(net->port, directory, net->wanted_name, &net->control);
    const struct tide_control_pair *pair = error != 0 ? NULL : tide_control_get(&net->control->state, "cluster");
    if (pair) {
        char cluster[64];
        struct tide_reader r;
        tide_reader_init(&r, pair->value, pair->size);
        tide_read_text(&r, cluster, sizeof cluster);
        if (r.error != 0 || strcmp(cluster, net->cluster) != 0) {
            return tide_fail(TIDE_EMISMATCH, "%s has the state of cluster '%s', not '%s'", directory,
                             r.error == 0 ? cluster : "?", net->cluster);
        }
    }
    error = error != 0 ? error : net->control->ops->campaign(net->control, &net->term);
    if (error == 0) {
        net->control->node = tide_system_node(net->system);
    }
    return error;
}

int tide_net_create(struct tide_system *system, const struct tide_net_options *options, struct tide_net **out) {
    int error = check_options(options);
    if (error != 0) {
        return error;
    }
    struct tide_net *net = net_alloc(system, options);
    if (!net) {
        return TIDE_ENOMEM;
    }
    if (options->keys) {
        error = tide__tls_open(net->port, options->keys, options->cluster, &net->tls);
    }
    if (net->controls && error == 0) {
        error = open_control(net, options->state);
        const bool recorded = options->controllers == 0 ? options->state != NULL : net->former.count > 0;
        atomic_store_explicit(&net->durable, recorded, memory_order_relaxed);
    }
    error = error != 0 ? error
                       : tide_spawn(tide_system_node(system),
                                    &(struct tide_actor_options){.name = "members",
                                                                 .type = "members",
                                                                 .handle = members_handle,
                                                                 .opens = TIDE_RIGHT_READ,
                                                                 .state = net},
                                    &net->members_actor);
    if (error != 0) {
        control_close(net);
        tide_raft_logs_release(net->port, &net->former);
        tide__tls_close(net->tls);
        tide_free(net);
        return error;
    }
    TIDE_ASSERT(tide_address_id(net->members_actor) == TIDE_ID_MEMBERS);
    *out = net;
    struct tide_route route = {.arg = net,
                               .admit = admit,
                               .refund = refund,
                               .resolve = resolve,
                               .send = send,
                               .flush = flush,
                               .close = close_all};
    tide_system_set_route(system, &route);
    poke(net);
    uint64_t until = tide__net_now(net) + 5 * TIDE_SECOND;
    /* acquire: pairs with the release in open_listener */
    while (!atomic_load_explicit(&net->opened, memory_order_acquire)) {
        if (tide__net_now(net) > until) {
            return tide_fail(TIDE_ETIMEDOUT, "the I/O thread does not run");
        }
        net->port->ops->pause(net->port, TIDE_MILLISECOND / 10);
    }
    char reason[200];
    int code;
    if (tide_net_state(net, &code, reason, sizeof reason) == TIDE_MEMBER_DEAD) {
        return tide_fail(code, "%s", reason);
    }
    return 0;
}

int tide_net_join(struct tide_net *net) {
    atomic_store_explicit(&net->join_wanted, true, memory_order_release); /* with flush */
    poke(net);
    return 0;
}

void tide_net_leave(struct tide_net *net) {
    atomic_store_explicit(&net->leave_wanted, true, memory_order_release); /* with flush */
    poke(net);
}

void tide_net_fail(struct tide_net *net, int code, const char *reason) {
    tide__net_become(net, TIDE_MEMBER_DEAD, code, reason);
}

void tide_net_destroy(struct tide_net *net) {
    while (net->links != NULL) { /* only of a node that crashed in the simulator: its streams never reported */
        tide__link_free(net->links);
    }
    tide__sessions_release(net);
    tide__peers_release(net);
    tide__controller_release(net);
    control_close(net);
    tide_raft_logs_release(net->port, &net->former);
    tide__tls_close(net->tls);
    tide_free(net->spare_room);
    tide_blob_unref(net->spare_chunk);
    tide_free(net->members);
    tide_free(net->published);
    tide_free(net);
}

/* ---- any thread ---- */

int tide_net_state(struct tide_net *net, int *code, char *reason, size_t capacity) {
    tide_lock(&net->lock);
    int state = net->state;
    *code = net->code;
    if (capacity > 0) {
        tide_text_copy(reason, capacity, net->reason);
    }
    tide_unlock(&net->lock);
    return state;
}

const char *tide_net_endpoint(const struct tide_net *net) {
    /* acquire: pairs with the release in open_listener; the text never changes after it */
    return atomic_load_explicit(&net->opened, memory_order_acquire) ? net->endpoint : "";
}

const char *tide_net_cluster(const struct tide_net *net) {
    return net->cluster;
}

uint16_t tide_net_controller(const struct tide_net *net) {
    return (uint16_t)atomic_load_explicit(&net->controller, memory_order_relaxed);
}

unsigned tide_net_sessions_lost(const struct tide_net *net) {
    return atomic_load_explicit(&net->sessions_lost, memory_order_relaxed);
}

const char *tide_net_keys(const struct tide_net *net) {
    return net->tls ? tide__tls_directory(net->tls) : NULL;
}

int tide_net_grant_silence(struct tide_net *net, uint64_t silence) {
    int code = check_silence(silence);
    if (code == 0) {
        atomic_store_explicit(&net->silence, silence, memory_order_relaxed);
    }
    return code;
}

unsigned tide_net_right(const struct tide_net *net) {
    return net->right;
}

uint16_t tide_net_self(const struct tide_net *net) {
    return (uint16_t)atomic_load_explicit(&net->id, memory_order_relaxed);
}

size_t tide_net_members(struct tide_net *net, struct tide_member *out, size_t limit, uint64_t *view) {
    tide_lock(&net->lock);
    size_t count = net->published_count;
    size_t copied = count < limit ? count : limit;
    if (copied > 0) {
        memcpy(out, net->published, copied * sizeof *out);
    }
    if (view) {
        *view = net->published_view;
    }
    tide_unlock(&net->lock);
    return count;
}

bool tide_net_durable(const struct tide_net *net) {
    return atomic_load_explicit(&net->durable, memory_order_relaxed);
}

/* Under the lock: position of the first published member whose id is not lower. */
static size_t published_at(const struct tide_net *net, uint16_t id) {
    size_t low = 0, high = net->published_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (net->published[middle].id < id) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

size_t tide_net_news(struct tide_net *net, const uint8_t *known, struct tide_member *out, size_t limit) {
    size_t count = 0;
    tide_lock(&net->lock);
    for (size_t i = 0; i < net->published_count && count < limit; i++) {
        const struct tide_member *m = &net->published[i];
        if (known[m->id] != 1 + m->state) {
            out[count++] = *m;
        }
    }
    tide_unlock(&net->lock);
    return count;
}

bool tide_net_find(struct tide_net *net, const char *name, uint16_t *id) {
    bool found = false;
    tide_lock(&net->lock);
    for (size_t i = 0; i < net->published_count && !found; i++) {
        const struct tide_member *m = &net->published[i];
        found = m->state <= TIDE_MEMBER_LEAVING && strcmp(m->name, name) == 0;
        *id = found ? m->id : *id;
    }
    tide_unlock(&net->lock);
    return found;
}

bool tide_net_member(struct tide_net *net, uint16_t id, struct tide_member *out) {
    tide_lock(&net->lock);
    size_t at = published_at(net, id);
    bool found = at < net->published_count && net->published[at].id == id;
    if (found) {
        *out = net->published[at];
    }
    tide_unlock(&net->lock);
    return found;
}

void tide_net_name(struct tide_net *net, uint16_t id, char out[96]) {
    struct tide_member member;
    if (tide_net_member(net, id, &member)) {
        (void)snprintf(out, 96, "%s (%u)", member.name, (unsigned)id);
    } else {
        (void)snprintf(out, 96, "%u", (unsigned)id);
    }
}

void tide_net_watch(struct tide_net *net, struct tide_member_watch *watch) {
    tide_lock(&net->lock);
    watch->next = net->new_watches;
    net->new_watches = watch;
    tide_unlock(&net->lock);
    poke(net);
}

static void copy_info(struct tide_peer *peer, struct tide_link_info *out) {
    *out = (struct tide_link_info){.peer = peer->id,
                                   .up = atomic_load_explicit(&peer->up, memory_order_relaxed),
                                   .bytes_out = atomic_load_explicit(&peer->bytes_out, memory_order_relaxed),
                                   .bytes_in = atomic_load_explicit(&peer->bytes_in, memory_order_relaxed),
                                   .frames_out = atomic_load_explicit(&peer->frames_out, memory_order_relaxed),
                                   .frames_in = atomic_load_explicit(&peer->frames_in, memory_order_relaxed),
                                   .writes = atomic_load_explicit(&peer->writes, memory_order_relaxed),
                                   .queue_bytes = atomic_load_explicit(&peer->queue_bytes, memory_order_relaxed),
                                   .round_trip_ns = atomic_load_explicit(&peer->round_trip_ns, memory_order_relaxed)};
    for (unsigned i = 0; i < TIDE_LANE_COUNT; i++) {
        out->credit_used[i] = atomic_load_explicit(&peer->outstanding[i], memory_order_relaxed);
    }
}

bool tide_net_flow(const struct tide_net *net, uint16_t id, enum tide_lane lane, uint64_t *consumed,
                   uint64_t *under_way) {
    struct tide_peer *peer = tide__peer(net, id);
    if (!peer) {
        return false;
    }
    *consumed = atomic_load_explicit(&peer->consumed[lane], memory_order_relaxed);
    *under_way = atomic_load_explicit(&peer->outstanding[lane], memory_order_relaxed);
    return true;
}

size_t tide_net_links(struct tide_net *net, struct tide_link_info *out, size_t limit) {
    size_t count = 0;
    for (unsigned id = 1; id <= UINT16_MAX; id++) {
        if ((id & 255) == 0 && !atomic_load_explicit(&net->pages[id >> 8], memory_order_acquire)) {
            id += 255; /* an empty page */
            continue;
        }
        struct tide_peer *peer = tide__peer(net, (uint16_t)id);
        if (!peer || atomic_load_explicit(&peer->frames_in, memory_order_relaxed) == 0) {
            continue; /* never connected */
        }
        if (id >= CLIENT_ID_MIN && !atomic_load_explicit(&peer->up, memory_order_relaxed)) {
            continue; /* a console that is gone: every `tide status` would stay in the list for ever
                       */
        }
        if (count < limit) {
            copy_info(peer, &out[count]);
        }
        count++;
    }
    return count;
}
