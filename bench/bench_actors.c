/* Actors: ping-pong on one thread, fan-in from two threads, spawning, memory of idle actors, sleeping wake-ups.
 *   bench_actors [--json] */
#include "actor/actor.h"
#include "bench/report.h"

#include <stdlib.h>
#include <string.h>

static struct tide_node node;
static atomic_int done;
static uint64_t began, ended;
static const uint8_t nil[] = {0xc0};

static void wait_done(int count) {
    while (atomic_load(&done) < count) {
        node.port->ops->pause(node.port, 1000000);
    }
    atomic_store(&done, 0);
}

/* ---- ping-pong ---- */

enum { ROUNDS = 10000000, FAN = 5000000, SPAWNS = 1000000, WAKES = 20000 };
static uint64_t rounds;
static uint64_t rounds_wanted;

static int pong(void *state, const struct tide_message *m) {
    (void)state;
    return m->kind == TIDE_CAST ? tide_send(m->from, TIDE_LANE_CONTROL, nil, sizeof nil) : 0;
}

static int ping(void *state, const struct tide_message *m) {
    tide_address *peer = state;
    if (m->kind != TIDE_CAST) {
        return 0;
    }
    if (rounds++ == 0) {
        began = tide_node_now(&node);
    }
    if (rounds > rounds_wanted) {
        ended = tide_node_now(&node);
        tide_exit(0);
        atomic_fetch_add(&done, 1);
        return 0;
    }
    return tide_send(*peer, TIDE_LANE_CONTROL, nil, sizeof nil);
}

static double ping_pong(uint8_t role_a, uint8_t role_b, uint64_t wanted) {
    static tide_address peer;
    tide_address a;
    rounds = 0;
    rounds_wanted = wanted;
    tide_spawn(&node, &(struct tide_actor_options){.handle = pong, .role = role_b}, &peer);
    tide_spawn(&node, &(struct tide_actor_options){.handle = ping, .state = &peer, .role = role_a}, &a);
    tide_post(&node, a, nil, sizeof nil);
    wait_done(1);
    return (double)wanted / ((double)(ended - began) / 1e9);
}

/* ---- fan-in: two threads send to an actor on a third ---- */

static tide_address sink;
static uint64_t received;

static int count_in(void *state, const struct tide_message *m) {
    (void)state;
    (void)m;
    if (received++ == 0) {
        began = tide_node_now(&node);
    }
    if (received == 2 * FAN) {
        ended = tide_node_now(&node);
        atomic_fetch_add(&done, 1);
    }
    return 0;
}

static int flood(void *state) {
    (void)state;
    for (int i = 0; i < FAN; i++) {
        int rc = tide_send(sink, TIDE_LANE_CONTROL, nil, sizeof nil);
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

/* ---- spawn ---- */

static int idle(void *state, const struct tide_message *m) {
    (void)state;
    (void)m;
    return 0;
}

static int spawner(void *state) {
    double *out = state;
    uint64_t memory = node.port->ops->memory_resident(node.port);
    uint64_t start = tide_node_now(&node);
    for (int i = 0; i < SPAWNS; i++) {
        tide_address who;
        if (tide_spawn(&node, &(struct tide_actor_options){.handle = idle, .role = TIDE_ROLE_COMPUTE}, &who) < 0) {
            return TIDE_ENOMEM;
        }
    }
    out[0] = SPAWNS / ((double)(tide_node_now(&node) - start) / 1e9);
    out[1] = (double)(node.port->ops->memory_resident(node.port) - memory) / SPAWNS;
    atomic_fetch_add(&done, 1);
    return 0;
}

int main(int argc, char **argv) {
    report_init(argc, argv, "actors");
    if (tide_port_real_create(1, &node.port) < 0 ||
        tide_system_create(&(struct tide_system_options){.port = node.port, .io = 1, .compute = 2, .control = 1}, &node,
                           &node.system) < 0) {
        fprintf(stderr, "%s\n", tide_error_message());
        return 1;
    }
    report_row("ping-pong, one thread", "M round trips/s", ping_pong(TIDE_ROLE_IO, TIDE_ROLE_IO, ROUNDS) / 1e6);
    report_row("ping-pong, two threads", "k round trips/s",
               ping_pong(TIDE_ROLE_IO, TIDE_ROLE_CONTROL, WAKES) / 1e3);
    tide_spawn(&node, &(struct tide_actor_options){.handle = count_in, .role = TIDE_ROLE_CONTROL, .messages_max = 65536},
               &sink);
    for (uint8_t i = 0; i < 2; i++) {
        tide_spawn(&node, &(struct tide_actor_options){.run = flood, .role = TIDE_ROLE_COMPUTE, .thread = i}, NULL);
    }
    wait_done(1);
    report_row("fan-in 2 -> 1, three threads", "M messages/s", 2.0 * FAN / ((double)(ended - began) / 1e9) / 1e6);
    double spawned[2];
    tide_spawn(&node, &(struct tide_actor_options){.run = spawner, .state = spawned, .role = TIDE_ROLE_COMPUTE}, NULL);
    wait_done(1);
    report_row("spawn", "M actors/s", spawned[0] / 1e6);
    report_row("idle actor", "bytes", spawned[1]);
    tide_system_stop(node.system, TIDE_SECOND);
    tide_system_destroy(node.system);
    node.port->ops->destroy(node.port);
    return 0;
}
