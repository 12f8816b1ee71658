/*
 * The simulator on one core: events and messages a second with handlers that do nothing (engine and network model), and
 * messages a second between real actors of real nodes (scheduler, codec, links, credits), both with network cards.
 *   bench_sim [--json]
 */
#include "bench/report.h"
#include "port/port.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { STUB_NODES = 100, STUB_WINDOW = 16, STUB_MESSAGES = 1500000, MESSAGE = 64 };
enum { ACTOR_NODES = 8, ACTOR_MESSAGES = 1000000 };

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void check(int code, const char *what) {
    if (code < 0) {
        fprintf(stderr, "%s: %s\n", what, tide_error_message());
        exit(1);
    }
}

static struct tide_sim *open_world(void) {
    struct tide_sim *sim;
    struct tide_sim_options o = {.seed = 1,
                                 .latency_ns_min = 20000,
                                 .latency_ns_max = 20000,
                                 .nic_bytes_per_s = UINT64_C(3125000000)};
    check(tide_sim_create(&o, &sim), "world");
    return sim;
}

static uint64_t messages;
static int window; /* messages that two actors keep going */

static bool enough(void *arg) {
    return messages >= *(uint64_t *)arg;
}

static void report(const char *name, struct tide_sim *sim, double took, uint64_t count, uint64_t events) {
    char row[80];
    snprintf(row, sizeof row, "%s: messages", name);
    report_row(row, "1/s", (double)count / took);
    snprintf(row, sizeof row, "%s: events", name);
    report_row(row, "1/s", (double)(tide_sim_events(sim) - events) / took);
}

/* ---- handlers that do nothing: each node sends on to the next what it gets ---- */

struct stub {
    struct tide_port *port;
    struct tide_executor *executor;
    struct tide_listener *listener;
    struct tide_stream *in, *out;
    char endpoint[32], next[32];
    size_t owed; /* bytes to send on at the next turn */
    uint8_t buffer[STUB_WINDOW * MESSAGE];
};

static void stub_connected(void *arg, struct tide_stream *stream) {
    (void)stream;
    ((struct stub *)arg)->owed = STUB_WINDOW * MESSAGE;
}

static void stub_buffer(void *arg, void **data, size_t *size) {
    *data = ((struct stub *)arg)->buffer;
    *size = MESSAGE;
}

static void stub_received(void *arg, size_t size) {
    ((struct stub *)arg)->owed += size;
    messages += size / MESSAGE;
}

static void stub_writable(void *arg) {
    (void)arg;
}

static void stub_closed(void *arg, int reason) {
    (void)arg;
    (void)reason;
}

static const struct tide_stream_events stub_events = {.connected = stub_connected,
                                                      .buffer = stub_buffer,
                                                      .received = stub_received,
                                                      .writable = stub_writable,
                                                      .closed = stub_closed};

static void stub_accepted(void *arg, struct tide_stream *stream) {
    struct stub *s = arg;
    s->in = stream;
    s->port->ops->stream_accept(stream, &stub_events, s);
}

static uint64_t stub_turn(void *arg) {
    struct stub *s = arg;
    const struct tide_port_ops *ops = s->port->ops;
    if (s->listener == NULL) {
        check(ops->listen(s->executor, s->endpoint, stub_accepted, s, &s->listener), "listen");
        return 1000000;
    }
    if (s->out == NULL) {
        check(ops->connect(s->executor, s->next, &stub_events, s, &s->out), "connect");
    }
    for (; s->owed >= MESSAGE; s->owed -= MESSAGE) {
        struct tide_iovec iov = {s->buffer, MESSAGE};
        ops->stream_write(s->out, &iov, 1);
    }
    return TIDE_NEVER;
}

static void run_stubs(void) {
    struct tide_sim *sim = open_world();
    struct stub *stubs = calloc(STUB_NODES, sizeof *stubs);
    for (int i = 0; i < STUB_NODES && stubs != NULL; i++) {
        char name[32];
        struct stub *s = &stubs[i];
        snprintf(name, sizeof name, "n%d", i);
        snprintf(s->endpoint, sizeof s->endpoint, "sim:n%d", i);
        snprintf(s->next, sizeof s->next, "sim:n%d", (i + 1) % STUB_NODES);
        check(tide_sim_port(sim, name, &s->port), "port");
        struct tide_executor_options o = {.turn = stub_turn, .arg = s, .core = -1};
        check(s->port->ops->executor_start(s->port, &o, &s->executor), "executor");
    }
    uint64_t warm = 10000, all = STUB_MESSAGES;
    messages = 0;
    tide_sim_run(sim, TIDE_NEVER, enough, &warm);
    uint64_t from = messages, events = tide_sim_events(sim);
    double began = seconds();
    tide_sim_run(sim, TIDE_NEVER, enough, &all);
    report("stubs", sim, seconds() - began, messages - from, events);
    for (int i = 0; i < STUB_NODES && stubs != NULL; i++) {
        stubs[i].port->ops->destroy(stubs[i].port);
    }
    tide_sim_destroy(sim);
    free(stubs);
}

/* ---- real actors: each keeps a window of messages going with one on the next node ---- */

static const uint8_t nil[] = {0xc0};

static int bounce(void *state, const struct tide_message *m) {
    const tide_address *peer = state;
    if (m->kind != TIDE_CAST) {
        return 0;
    }
    if (m->from == TIDE_NOBODY) { /* the start */
        for (int i = 0; i < window; i++) {
            check(tide_send(*peer, TIDE_LANE_CONTROL, nil, sizeof nil), "send");
        }
        return 0;
    }
    messages++;
    return tide_send(m->from, TIDE_LANE_CONTROL, nil, sizeof nil);
}

static void run_actors(const char *row, uint64_t count) {
    struct tide_sim *sim = open_world();
    struct tide_port *ports[ACTOR_NODES];
    struct tide_node *nodes[ACTOR_NODES];
    static tide_address actors[ACTOR_NODES], peers[ACTOR_NODES];
    for (int i = 0; i < ACTOR_NODES; i++) {
        char name[32];
        snprintf(name, sizeof name, "n%d", i);
        check(tide_sim_port(sim, name, &ports[i]), "port");
        struct tide_node_options o = {
            .name = name, .join = i > 0 ? tide_node_endpoint(nodes[0]) : NULL, .workers = 1, .port = ports[i]};
        check(tide_node_create(&o, &nodes[i]), "node");
        struct tide_actor_options a = {.handle = bounce, .state = &peers[i], .role = TIDE_ROLE_IO};
        check(tide_spawn(nodes[i], &a, &actors[i]), "actor");
    }
    for (int i = 0; i < ACTOR_NODES; i++) {
        peers[i] = actors[(i + 1) % ACTOR_NODES];
        check(tide_post(nodes[i], actors[i], nil, sizeof nil), "post");
    }
    uint64_t warm = 10000, all = count;
    messages = 0;
    tide_sim_run(sim, TIDE_NEVER, enough, &warm);
    uint64_t from = messages, events = tide_sim_events(sim);
    double began = seconds();
    tide_sim_run(sim, TIDE_NEVER, enough, &all);
    report(row, sim, seconds() - began, messages - from, events);
    for (int i = ACTOR_NODES; i-- > 0;) {
        tide_node_destroy(nodes[i], 0);
        ports[i]->ops->destroy(ports[i]);
    }
    tide_sim_destroy(sim);
}

int main(int argc, char **argv) {
    report_init(argc, argv, "sim");
    tide_log_set(TIDE_LOG_ERROR, NULL, NULL);
    run_stubs();
    window = 1;
    run_actors("actors, one at a time", ACTOR_MESSAGES / 4);
    window = 64;
    run_actors("actors, 64 in flight", ACTOR_MESSAGES);
    return 0;
}
