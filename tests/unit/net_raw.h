/* A peer that is no node, for tests of what strangers may send. */
#ifndef NET_RAW_H
#define NET_RAW_H

#include "net_world.h"

/* A peer that is not a node: connects, writes what it is told, keeps what it gets. */
struct raw {
    struct tide_port *port;
    struct tide_executor *executor;
    struct tide_stream *stream;
    char endpoint[160];
    uint8_t out[4096], in[8192];
    size_t out_size, in_size;
    bool begun;
    atomic_bool go, leave, closed; /* go: executor is set */
    atomic_uint got;
};

static void raw_connected(void *arg, struct tide_stream *stream) {
    struct raw *r = arg;
    struct tide_iovec v = {r->out, r->out_size};
    r->stream = stream;
    r->port->ops->stream_write(stream, &v, 1);
}
static void raw_buffer(void *arg, void **data, size_t *size) {
    struct raw *r = arg;
    *data = r->in + r->in_size;
    *size = sizeof r->in - r->in_size;
}
static void raw_received(void *arg, size_t size) {
    struct raw *r = arg;
    r->in_size += size;
    atomic_store(&r->got, (unsigned)r->in_size);
}
static void raw_writable(void *arg) {
    (void)arg;
}
static void raw_closed(void *arg, int reason) {
    struct raw *r = arg;
    (void)reason;
    atomic_store(&r->closed, true);
}
static uint64_t raw_turn(void *arg) {
    static const struct tide_stream_events events = {.connected = raw_connected,
                                                     .buffer = raw_buffer,
                                                     .received = raw_received,
                                                     .writable = raw_writable,
                                                     .closed = raw_closed};
    struct raw *r = arg;
    if (!r->begun && atomic_load(&r->go)) {
        r->begun = true;
        r->port->ops->connect(r->executor, r->endpoint, &events, r, &r->stream);
    }
    if (atomic_load(&r->leave) && r->stream != NULL && !atomic_load(&r->closed)) {
        r->port->ops->stream_close(r->stream);
        r->stream = NULL;
    }
    return TIDE_NEVER;
}

/* True when the node closed the connection within `limit`. */
static inline bool raw_talk(struct world *w, struct raw *r, uint64_t limit) {
    int rc = world_port(w, "evil", &r->port);
    struct tide_executor_options o = {.name = "evil", .turn = raw_turn, .arg = r, .core = -1};
    snprintf(r->endpoint, sizeof r->endpoint, "%s", tide_net_endpoint(w->nodes[0].net));
    if (rc != 0) {
        abort();
    }
    if (r->port->ops->executor_start(r->port, &o, &r->executor) != 0) {
        abort();
    }
    atomic_store(&r->go, true);
    r->port->ops->executor_wake(r->executor);
    uint64_t until = world_now(w) + limit;
    while (!atomic_load(&r->closed) && world_now(w) < until) {
        world_pause(w, 1000000);
    }
    return atomic_load(&r->closed);
}

/* It ends the connection itself, if the node has not. */
static inline void raw_leave(struct world *w, struct raw *r) {
    atomic_store(&r->leave, true);
    r->port->ops->executor_wake(r->executor);
    while (!atomic_load(&r->closed)) {
        world_pause(w, 1000000);
    }
}

static inline void raw_end(struct raw *r) {
    r->port->ops->executor_stop(r->executor);
    r->port->ops->destroy(r->port);
}

#endif
