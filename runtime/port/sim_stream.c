/*
 * Streams of the simulator: two ends, each with a queue of segments in flight to it. A
 * write makes one segment; it arrives after a drawn delay, in order (arrival times in one direction
 * strictly increase). What has arrived is handed over in pieces cut at seeded places. The queue of
 * the receiving end is the window: beyond it (4 MiB) a write is short and `writable` follows when
 * half of it is free. A partition holds what would arrive; the end of a stream travels like bytes.
 * How long a segment takes is the network's affair (sim_net.c, sim_bulk.c).
 * Each connection draws from its own generator.
 */
#include "port/sim_stream.h"

#include <string.h>

enum { SEGMENT_SMALL = 192 };
static const uint64_t connect_timeout = TIDE_SECOND; /* into a partition */

struct tide_listener {
    struct tide_executor *executor;
    void (*accepted)(void *arg, struct tide_stream *stream);
    void *arg;
    char *endpoint;
    struct tide_listener *next;
};

void tide__sim_stream_push(struct tide_stream *s, uint64_t time, enum sim_kind kind, uint32_t generation) {
    s->events_open++;
    tide__sim_push(s->executor->sim, time, kind, s->executor->node->index, s, generation);
}

static void push(struct tide_stream *s, uint64_t time, enum sim_kind kind) {
    tide__sim_stream_push(s, time, kind, 0);
}

/* Of a packet between the ends of s. */
static uint64_t draw_latency(struct tide_stream *s, struct tide_random *random) {
    return tide__sim_latency(s->executor->sim, s->peer_node, s->executor->node, random);
}

/* Small ones are used again, the last first: its memory is in a cache. */
static struct sim_segment *segment_create(struct tide_sim *sim, size_t size) {
    const bool small = size <= SEGMENT_SMALL;
    struct sim_segment *segment = small ? sim->spare_segment : NULL;
    if (segment) {
        sim->spare_segment = segment->next;
    } else {
        segment = tide__sim_alloc(sizeof *segment + (small ? SEGMENT_SMALL : size));
    }
    *segment = (struct sim_segment){.size = size, .small = small};
    return segment;
}

static void segment_free(struct tide_sim *sim, struct sim_segment *segment) {
    if (segment->small) {
        segment->next = sim->spare_segment;
        sim->spare_segment = segment;
    } else {
        tide_free(segment);
    }
}

static void drop_segments(struct tide_stream *s) {
    tide__sim_bulk_stop(s);
    s->at_core.first = s->at_card.first = NULL;
    s->journey++;
    while (s->first) {
        struct sim_segment *segment = s->first;
        s->first = segment->next;
        segment_free(s->executor->sim, segment);
    }
    s->last = &s->first;
    s->queued_bytes = s->arrived = s->on_way = s->held = 0;
}

static void free_stream(struct tide_stream *s) {
    *s->link = s->next;
    if (s->next) {
        s->next->link = s->link;
    }
    if (s->peer) {
        s->peer->peer = NULL;
    }
    drop_segments(s);
    tide_free(s->bulk);
    tide__sim_executor_unref(s->executor);
    tide_free(s->target);
    tide_free(s);
}

static struct tide_stream *create(struct tide_executor *e, uint64_t seed) {
    struct tide_stream *s = tide__sim_alloc(sizeof *s);
    *s = (struct tide_stream){
        .executor = e, .reading = true, .last = &s->first, .next = e->sim->streams, .link = &e->sim->streams};
    tide_random_seed(&s->random, seed);
    if (s->next) {
        s->next->link = &s->next;
    }
    e->sim->streams = s;
    e->streams_open++;
    e->references++;
    return s;
}

/* ---- the way of a segment: the sender's card, the core, the receiver's card ---- */

static void enqueue(struct sim_queue *queue, struct sim_segment *segment) {
    segment->behind = NULL;
    if (!queue->first) {
        queue->first = segment;
    } else {
        queue->last->behind = segment;
    }
    queue->last = segment;
}

static struct sim_segment *dequeue(struct sim_queue *queue) {
    struct sim_segment *segment = queue->first;
    if (segment) {
        queue->first = segment->behind;
    }
    return segment;
}

static void tell_bulk(struct tide_stream *to) {
    if (!to->at_core.first && !to->at_card.first) {
        tide__sim_bulk_ready(to);
    }
}

static void arrive_at(struct tide_stream *to, uint64_t time) {
    to->last_arrival = time > to->last_arrival ? time : to->last_arrival + 1;
    push(to, to->last_arrival, SIM_ARRIVE);
}

/* Past the sender's card and the core. */
static void cross(struct tide_stream *to, struct sim_segment *segment) {
    segment->first += segment->latency;
    segment->last += segment->latency;
    bool no_card = !to->peer_node || to->peer_node == to->executor->node || to->executor->node->in.bytes_per_s == 0;
    if (no_card && !to->at_card.first) {
        arrive_at(to, segment->last);
        return;
    }
    enqueue(&to->at_card, segment);
    tide__sim_stream_push(to, segment->first, SIM_CARD, to->journey);
}

static void on_core(struct tide_sim *sim, struct tide_stream *to) {
    struct sim_segment *segment = dequeue(&to->at_core);
    tide__sim_pass(sim, &sim->core, SIM_LINK_CORE, segment->size, &segment->first, &segment->last);
    cross(to, segment);
    tell_bulk(to);
}

static void on_card(struct tide_sim *sim, struct tide_stream *to) {
    struct sim_segment *segment = dequeue(&to->at_card);
    struct sim_node *node = to->executor->node;
    tide__sim_pass(sim, &node->in, SIM_LINK_IN + 2 * (uint32_t)node->index, segment->size, &segment->first,
                   &segment->last);
    arrive_at(to, segment->last);
    tell_bulk(to);
}

/* What is in flight to the core or the card is there after no more than its latency. */
static void hurry(struct tide_stream *to) {
    struct sim_segment *segment;
    uint64_t now = to->executor->sim->now;
    while ((segment = dequeue(&to->at_card))) {
        arrive_at(to, now + segment->latency);
    }
    while ((segment = dequeue(&to->at_core))) {
        arrive_at(to, now + segment->latency);
    }
    to->journey++;
}

/* One more segment towards `to` is in flight. */
static void send_segment(struct tide_stream *to, struct sim_segment *segment, struct tide_random *random) {
    struct tide_sim *sim = to->executor->sim;
    struct sim_node *from = to->peer_node, *node = to->executor->node;
    segment->next = NULL;
    *to->last = segment;
    to->last = &segment->next;
    to->queued_bytes += segment->size;
    to->on_way++;
    if (tide__sim_bulk_takes(to, segment)) {
        return;
    }
    segment->latency = draw_latency(to, random);
    segment->first = segment->last = sim->now + (to->peer ? tide__sim_charged(to->peer->executor) : 0);
    if (from && from != node) {
        tide__sim_pass(sim, &from->out, SIM_LINK_OUT + 2 * (uint32_t)from->index, segment->size, &segment->first,
                       &segment->last);
    }
    to->departed = segment->last;
    if (to->at_core.first || (from && from != node && tide__sim_crosses_core(sim, from, node))) {
        enqueue(&to->at_core, segment);
        tide__sim_stream_push(to, segment->first, SIM_CORE, to->journey);
    } else {
        cross(to, segment);
    }
}

static void send_end(struct tide_stream *s) {
    struct tide_stream *to = s->peer;
    if (to && !to->finished && !s->broken) {
        struct sim_segment *segment = segment_create(s->executor->sim, 0);
        segment->end = true;
        send_segment(to, segment, &s->random);
    }
}

static void finish(struct tide_stream *s, int reason, uint64_t when) {
    if (!s->finished) {
        s->finished = true;
        s->reason = reason;
        push(s, when, SIM_CLOSED);
    }
}

static void schedule_read(struct tide_stream *s) {
    if (s->connected && s->reading && s->arrived > 0 && !s->read_scheduled && !s->finished) {
        s->read_scheduled = true;
        push(s, s->executor->sim->now, SIM_READ);
    }
}

/* ---- what events do ---- */

static struct tide_listener *find_listener(struct tide_sim *sim, const char *endpoint) {
    struct tide_listener *l = sim->listeners;
    /* those of a crashed node stay in the list for their owner to close, but do not
     * answer */
    while (l && (l->executor->dead || strcmp(l->endpoint, endpoint) != 0)) {
        l = l->next;
    }
    return l;
}

/* A connection is made by packets of both directions. */
static bool cut_off(const struct tide_sim *sim, const struct sim_node *a, const struct sim_node *b) {
    return tide__sim_is_cut(sim, a, b) || tide__sim_is_cut(sim, b, a);
}

static void on_connect(struct tide_sim *sim, const struct sim_event *event, struct tide_stream *s) {
    struct tide_listener *l = find_listener(sim, s->target);
    if (s->finished) {
        return; /* abandoned meanwhile */
    }
    if (l && cut_off(sim, s->executor->node, l->executor->node)) {
        uint64_t fails = s->began + connect_timeout;
        finish(s, TIDE_ETIMEDOUT, fails > sim->now ? fails : sim->now);
        return;
    }
    if (!l) {
        finish(s, TIDE_EUNREACHABLE, sim->now + draw_latency(s, &s->random));
        return;
    }
    uint64_t later = tide__sim_not_before(l->executor);
    TIDE_ASSERT(later != TIDE_NEVER);
    if (later != 0) {
        push(s, later, SIM_CONNECT);
        return;
    }
    tide__sim_fold(sim, event, 0, 0);
    struct tide_stream *server = create(l->executor, tide_random_next(&s->random));
    TIDE_ASSERT(server);
    server->connected = true;
    server->peer = s;
    server->peer_node = s->executor->node;
    s->peer = server;
    s->peer_node = l->executor->node;
    s->last_arrival = sim->now + draw_latency(s, &s->random); /* no byte overtakes the event */
    push(s, s->last_arrival, SIM_CONNECTED);
    l->accepted(l->arg, server);
    if (!server->events) {
        tide__sim_stream_close(server);
    }
    tide__sim_executor_wake(server->executor);
}

static void on_connected(struct tide_sim *sim, struct tide_stream *s) {
    if (cut_off(sim, s->executor->node, s->peer_node)) {
        send_end(s);
        uint64_t fails = s->began + connect_timeout;
        finish(s, TIDE_ETIMEDOUT, fails > sim->now ? fails : sim->now);
        return;
    }
    s->connected = true;
    bool waiting = s->want_write; /* since a write before this one's event */
    s->events->connected(s->arg, s);
    if (waiting && !s->finished && !s->writable_scheduled) {
        s->writable_scheduled = true;
        push(s, sim->now, SIM_WRITABLE);
    }
    schedule_read(s);
}

static void on_arrive(struct tide_sim *sim, const struct sim_event *event, struct tide_stream *s) {
    if (s->finished) {
        return;
    }
    if (tide__sim_is_cut(sim, s->peer_node, s->executor->node)) {
        s->held++;
        return;
    }
    if (s->on_way == 0) {
        return; /* a reset has dropped it */
    }
    s->on_way--;
    tide__sim_fold(sim, event, 0, 0);
    s->arrived++;
    schedule_read(s);
}

/* The sender learns of the room after a delay, and not for every byte of it. */
static void tell_writable(struct tide_sim *sim, struct tide_stream *s) {
    struct tide_stream *from = s->peer;
    if (from && from->want_write && !from->finished && !from->writable_scheduled &&
        s->queued_bytes <= sim->options.window_bytes / 2) {
        from->writable_scheduled = true;
        push(from, sim->now + draw_latency(s, &s->random), SIM_WRITABLE);
    }
}

static void pop_segment(struct tide_stream *s) {
    struct sim_segment *segment = s->first;
    s->first = segment->next;
    if (!s->first) {
        s->last = &s->first;
    }
    s->arrived--;
    segment_free(s->executor->sim, segment);
}

/* Copies arrived bytes, across segments, and says how many. */
static size_t take_bytes(struct tide_stream *s, uint8_t *data, size_t size) {
    size_t taken = 0;
    while (taken < size && s->arrived > 0 && !s->first->end) {
        struct sim_segment *segment = s->first;
        size_t n = segment->size - segment->offset;
        n = n < size - taken ? n : size - taken;
        memcpy(data + taken, segment->data + segment->offset, n);
        taken += n;
        segment->offset += n;
        if (segment->offset == segment->size) {
            pop_segment(s);
        }
    }
    s->queued_bytes -= taken;
    return taken;
}

static void on_read(struct tide_sim *sim, const struct sim_event *event, struct tide_stream *s) {
    s->read_scheduled = false;
    if (s->finished || !s->reading || s->arrived == 0) {
        return;
    }
    void *data = NULL;
    size_t size = 0;
    s->events->buffer(s->arg, &data, &size);
    if (s->finished) {
        return;
    }
    if (size == 0) {
        s->reading = false;
        return;
    }
    if (s->first->end) {
        tide__sim_fold(sim, event, 0, 0);
        finish(s, TIDE_ECLOSED, sim->now);
        return;
    }
    size_t piece = 1 + (size_t)tide_random_below(&s->random, sim->options.chunk_max);
    size_t taken = take_bytes(s, data, size < piece ? size : piece);
    tide__sim_fold(sim, event, taken, tide_hash(data, taken, 0));
    tide__sim_charge(s->executor, sim->costs.receive_ns, taken);
    tell_writable(sim, s);
    s->events->received(s->arg, taken);
    schedule_read(s);
}

static void on_closed(struct tide_stream *s) {
    s->delivered = true;
    TIDE_ASSERT(s->executor->streams_open > 0);
    s->executor->streams_open--;
    drop_segments(s);
    if (s->events) {
        s->events->closed(s->arg, s->reason);
    }
}

static void take_event(struct tide_sim *sim, const struct sim_event *event) {
    struct tide_stream *s = event->object;
    struct tide_executor *e = s->executor;
    s->events_open--;
    bool network = event->kind == SIM_CONNECT || event->kind == SIM_ARRIVE || event->kind == SIM_CORE ||
                   event->kind == SIM_CARD || event->kind == SIM_DRAIN; /* happens without our executor */
    uint64_t later = network && !e->dead ? 0 : tide__sim_not_before(e);
    if (later == TIDE_NEVER) {
        s->orphan = true; /* without a notification */
        tide__sim_bulk_stop(s);
    } else if (later != 0) {
        push(s, later, event->kind);
        return;
    } else if (event->kind == SIM_CONNECT) {
        on_connect(sim, event, s);
    } else if (event->kind == SIM_ARRIVE) {
        on_arrive(sim, event, s);
    } else if (event->kind == SIM_DRAIN) {
        tide__sim_bulk_event(s, event);
    } else if (event->kind == SIM_CARD || event->kind == SIM_CORE) {
        if (event->generation == s->journey) {
            (event->kind == SIM_CARD ? on_card : on_core)(sim, s);
        }
    } else if (event->kind == SIM_READ) {
        on_read(sim, event, s);
    } else if (event->kind == SIM_CLOSED) {
        if (!s->delivered) { /* else its owner closed it before */
            tide__sim_fold(sim, event, 0, (uint64_t)(unsigned)-s->reason);
            on_closed(s);
        }
    } else if (!s->finished) {
        tide__sim_fold(sim, event, 0, 0);
        if (event->kind == SIM_CONNECTED) {
            on_connected(sim, s);
        } else {
            s->writable_scheduled = s->want_write = false;
            s->events->writable(s->arg);
        }
    }
    if (!e->dead && !network) {
        tide__sim_executor_wake(e); /* as on the real port, the turn follows every callback */
    }
    if (s->delivered && !s->orphan && s->events_open == 0) {
        free_stream(s);
    }
}

void tide__sim_stream_event(struct tide_sim *sim, const struct sim_event *event) {
    const struct tide_stream *s = event->object;
    const struct tide_serving *before = tide__watch_thread(s->executor->options.serves);
    take_event(sim, event);
    tide__watch_thread(before);
}

/* ---- operations ---- */

static bool endpoint_valid(const char *endpoint) {
    return endpoint && (strncmp(endpoint, "sim:", 4) == 0 || strncmp(endpoint, "unix:/", 6) == 0 ||
                        strncmp(endpoint, "tcp:", 4) == 0);
}

int tide__sim_connect(struct tide_executor *e, const char *endpoint, const struct tide_stream_events *events, void *arg,
                      struct tide_stream **out) {
    struct tide_sim *sim = e->sim;
    if (!endpoint_valid(endpoint)) {
        return tide_fail(TIDE_EINVAL, "endpoint \"%s\": sim:NAME is wanted", endpoint ? endpoint : "");
    }
    struct tide_stream *s = create(e, tide_mix64(sim->options.seed ^ tide_mix64(++sim->connections)));
    const size_t length = strlen(endpoint) + 1;
    s->target = memcpy(tide__sim_alloc(length), endpoint, length);
    s->events = events;
    s->arg = arg;
    s->began = sim->now;
    push(s, sim->now + draw_latency(s, &s->random), SIM_CONNECT);
    *out = s;
    return 0;
}

int tide__sim_listen(struct tide_executor *e, const char *endpoint,
                     void (*accepted)(void *arg, struct tide_stream *stream), void *arg, struct tide_listener **out) {
    struct tide_sim *sim = e->sim;
    if (!endpoint_valid(endpoint)) {
        return tide_fail(TIDE_EINVAL, "endpoint \"%s\": sim:NAME is wanted", endpoint ? endpoint : "");
    }
    if (find_listener(sim, endpoint)) {
        return tide_fail(TIDE_EADDRINUSE, "listening on %s: address already in use", endpoint);
    }
    struct tide_listener *l = tide_alloc_zero(1, sizeof *l);
    size_t length = strlen(endpoint), room = length + 8;
    char *name = tide_alloc(room);
    if (!l || !name) {
        tide_free(l);
        tide_free(name);
        return TIDE_ENOMEM;
    }
    bool any_port = strncmp(endpoint, "tcp:", 4) == 0 && strcmp(endpoint + length - 2, ":0") == 0;
    if (any_port) {
        do {
            snprintf(name, room, "%.*s%u", (int)(length - 1), endpoint, (unsigned)sim->free_port++);
        } while (find_listener(sim, name));
    } else {
        snprintf(name, room, "%s", endpoint);
    }
    *l = (struct tide_listener){.executor = e, .accepted = accepted, .arg = arg, .endpoint = name};
    l->next = sim->listeners;
    sim->listeners = l;
    e->references++;
    *out = l;
    return 0;
}

const char *tide__sim_listener_endpoint(struct tide_listener *l) {
    return l->endpoint;
}

static void remove_listener(struct tide_listener *l) {
    struct tide_listener **link = &l->executor->sim->listeners;
    while (*link != l) {
        link = &(*link)->next;
    }
    *link = l->next;
    tide__sim_executor_unref(l->executor);
    tide_free(l->endpoint);
    tide_free(l);
}

void tide__sim_listener_close(struct tide_listener *l) {
    remove_listener(l);
}

void tide__sim_stream_accept(struct tide_stream *s, const struct tide_stream_events *events, void *arg) {
    TIDE_ASSERT(!s->events && events);
    s->events = events;
    s->arg = arg;
}

ssize_t tide__sim_stream_write(struct tide_stream *s, const struct tide_iovec *iov, size_t count) {
    if (s->finished) {
        return tide_fail(TIDE_ECLOSED, "the connection is closed");
    }
    size_t total = 0;
    for (size_t i = 0; i < count; i++) {
        total += iov[i].size;
    }
    struct tide_stream *to = s->peer;
    if (s->broken || (s->connected && (!to || to->finished))) {
        return (ssize_t)total; /* the peer is gone, which we have yet to hear: the bytes are lost */
    }
    size_t room = 0;
    size_t window = s->executor->sim->options.window_bytes;
    if (s->connected && to->queued_bytes < window) {
        room = window - to->queued_bytes;
    }
    size_t size = total < room ? total : room;
    if (size < total) {
        s->want_write = true;
    }
    if (size == 0) {
        return 0;
    }
    struct sim_segment *segment = segment_create(s->executor->sim, size);
    for (size_t at = 0; at < size; iov++) {
        size_t n = iov->size < size - at ? iov->size : size - at;
        if (n > 0) {
            memcpy(segment->data + at, iov->data, n);
        }
        at += n;
    }
    send_segment(to, segment, &s->random);
    tide__sim_charge(s->executor, s->executor->sim->costs.send_ns, size);
    return (ssize_t)size;
}

void tide__sim_stream_resume(struct tide_stream *s) {
    s->reading = true;
    schedule_read(s);
}

void tide__sim_stream_close(struct tide_stream *s) {
    if (s->finished) { /* perhaps only once a connection has timed out: its owner waits no longer */
        s->reason = 0;
        push(s, s->executor->sim->now, SIM_CLOSED);
        return;
    }
    send_end(s);
    finish(s, 0, s->executor->sim->now);
    tell_writable(s->executor->sim, s); /* a waiter for room need not wait: what it writes is dropped */
}

void tide__sim_stream_peer(struct tide_stream *s, struct tide_peer_identity *out) {
    memset(out, 0, sizeof *out);
    out->local_user = true;
    snprintf(out->address, sizeof out->address, "sim:%.50s", s->peer_node ? s->peer_node->name : "");
}

/* ---- faults and the end ---- */

void tide__sim_streams_crash(struct tide_sim *sim, struct sim_node *node) {
    for (struct tide_stream *s = sim->streams; s; s = s->next) {
        if (s->executor->node != node || s->delivered) {
            continue;
        }
        if (!s->finished) {
            send_end(s);
        }
        s->finished = s->orphan = true;
    }
}

void tide__sim_streams_heal(struct tide_sim *sim) {
    for (struct tide_stream *s = sim->streams; s; s = s->next) {
        if (s->held == 0 || tide__sim_is_cut(sim, s->peer_node, s->executor->node)) {
            continue;
        }
        /* Each held arrival happens now, one after the other and before what is still on its
         * way. They are counted, not named: an arrival means "the next segment is here". */
        for (size_t i = 0; i < s->held; i++) {
            push(s, sim->now + i, SIM_ARRIVE);
        }
        if (s->last_arrival < sim->now + s->held) {
            s->last_arrival = sim->now + s->held;
        }
        s->held = 0;
    }
}

/* Of what is in flight to this end only some prefix arrives, then the end. */
static void cut_short(struct tide_stream *s) {
    hurry(s);
    tide__sim_bulk_flush(s);
    struct sim_segment **at = &s->first;
    for (size_t i = 0; i < s->arrived; i++) {
        at = &(*at)->next;
    }
    size_t keep = (size_t)tide_random_below(&s->random, s->on_way + 1);
    for (size_t i = 0; i < keep; i++) {
        struct sim_segment *segment = *at;
        if (i + 1 == keep && segment->size > 1) { /* the last of them in part */
            size_t part = 1 + (size_t)tide_random_below(&s->random, segment->size);
            s->queued_bytes -= segment->size - part;
            segment->size = part;
        }
        at = &segment->next;
    }
    size_t spare = s->on_way - keep; /* arrivals that are still due for what is dropped now */
    for (struct sim_segment *segment = *at, *next; segment; segment = next) {
        next = segment->next;
        s->queued_bytes -= segment->size;
        segment_free(s->executor->sim, segment);
    }
    *at = NULL;
    s->last = at;
    s->on_way = keep;
    struct sim_segment *end = segment_create(s->executor->sim, 0);
    end->end = true;
    if (spare == 0) {
        send_segment(s, end, &s->random);
    } else { /* it comes with the first arrival of the dropped */
        *s->last = end;
        s->last = &end->next;
        s->on_way++;
    }
}

void tide__sim_streams_reset(struct tide_sim *sim, const struct sim_node *a, const struct sim_node *b) {
    for (struct tide_stream *s = sim->streams; s; s = s->next) {
        const struct sim_node *here = s->executor->node, *there = s->peer_node;
        bool between = (here == a && there == b) || (here == b && there == a);
        if (between && !s->broken) {
            if (!s->finished) {
                cut_short(s);
            }
            s->broken = true;
        }
    }
}

void tide__sim_streams_destroy(struct tide_sim *sim) {
    while (sim->streams) {
        free_stream(sim->streams);
    }
    while (sim->listeners) {
        remove_listener(sim->listeners);
    }
    while (sim->spare_segment) {
        struct sim_segment *next = sim->spare_segment->next;
        tide_free(sim->spare_segment);
        sim->spare_segment = next;
    }
}
