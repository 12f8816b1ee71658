/* Lua actors: messages into a Lua handler on the same thread, calls, values, starting a state.
 *   bench_lua [--json] */
#include "bench/report.h"
#include "lua/host/host.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROUNDS = 200000, STATES = 500, CODECS = 50000 };

static struct tide_node *node;
static atomic_bool finished;
static struct {
    uint8_t data[256];
    size_t size;
} bodies[2];

static const char echo[] = "local core = require 'tide.core' "
                           "local receive, send, answer = core.receive, core.send, core.answer "
                           "while true do local m = receive() "
                           "  if m.kind == 'cast' then send(m.from, m.value) "
                           "  elseif m.kind == 'call' then answer(m, m.value) else return end end";

static double since_ns(uint64_t began, double count) {
    return (double)(tide_node_now(node) - began) / count;
}

static void make_bodies(void) {
    struct tide_writer w;
    tide_writer_init(&w, bodies[0].data, sizeof bodies[0].data);
    tide_write_int(&w, 7);
    bodies[0].size = w.size;
    tide_writer_init(&w, bodies[1].data, sizeof bodies[1].data);
    tide_write_map(&w, 4);
    tide_write_text(&w, "kind");
    tide_write_text(&w, "report");
    tide_write_text(&w, "loss");
    tide_write_double(&w, 0.25);
    tide_write_text(&w, "examples");
    tide_write_int(&w, 100000);
    tide_write_text(&w, "rank");
    tide_write_int(&w, 3);
    bodies[1].size = w.size;
}

/* Round trips from a C fiber to a Lua actor of the same thread. */
static void round_trips(uint8_t role, const char *where) {
    static const char *const names[] = {"an integer", "a table of 4 fields"};
    char row[80];
    struct tide_lua_options o = {.source = echo, .chunk = "=echo", .role = role};
    tide_address peer;
    if (tide_spawn_lua(node, &o, &peer) < 0) {
        return;
    }
    for (size_t b = 0; b < TIDE_COUNT(bodies); b++) {
        uint64_t began = 0;
        for (int i = -1000; i < ROUNDS; i++) {
            began = i == 0 ? tide_node_now(node) : began;
            const struct tide_message *m;
            if (tide_send(peer, TIDE_LANE_CONTROL, bodies[b].data, bodies[b].size) < 0 ||
                tide_receive(TIDE_NEVER, &m) < 0) {
                return;
            }
            tide_message_free(m);
        }
        (void)snprintf(row, sizeof row, "receive + send in Lua, %s, %s", names[b], where);
        report_row(row, "ns", since_ns(began, ROUNDS));
        began = tide_node_now(node);
        for (int i = 0; i < ROUNDS; i++) {
            struct tide_reply *reply;
            if (tide_call(peer, bodies[b].data, bodies[b].size, TIDE_SECOND, &reply) < 0) {
                return;
            }
            tide_reply_free(reply);
        }
        (void)snprintf(row, sizeof row, "call answered by Lua, %s, %s", names[b], where);
        report_row(row, "ns", since_ns(began, ROUNDS));
    }
    (void)tide_kill(peer, TIDE_EKILLED);
}

static void codecs(void) {
    struct tide_lua *host;
    if (tide__lua_create(node, tide_system_port(tide_system_of(node)), false, &host) < 0) {
        return;
    }
    lua_State *L = host->L;
    for (size_t b = 0; b < TIDE_COUNT(bodies); b++) {
        uint64_t began = tide_node_now(node);
        for (int i = 0; i < CODECS; i++) {
            (void)tide__lua_decode(L, bodies[b].data, bodies[b].size, TIDE_ITEMS_MAX);
            lua_pop(L, 1);
        }
        report_row(b == 0 ? "decode an integer" : "decode a table of 4 fields", "ns",
                   since_ns(began, CODECS));
        (void)tide__lua_decode(L, bodies[b].data, bodies[b].size, TIDE_ITEMS_MAX);
        began = tide_node_now(node);
        for (int i = 0; i < CODECS; i++) {
            struct tide_writer w;
            uint8_t buffer[256];
            tide_writer_init(&w, buffer, sizeof buffer);
            (void)tide__lua_encode(L, -1, "value", TIDE_ITEMS_MAX, &w);
            tide_writer_release(&w);
        }
        report_row(b == 0 ? "encode an integer" : "encode a table of 4 fields", "ns",
                   since_ns(began, CODECS));
        lua_settop(L, 0);
    }
    tide__lua_destroy(host);
}

static void states(void) {
    uint64_t began = tide_node_now(node);
    for (int i = 0; i < STATES; i++) {
        struct tide_lua_options o = {.source = "", .chunk = "=empty", .role = TIDE_ROLE_COMPUTE};
        tide_address who;
        uint64_t id;
        const struct tide_message *m;
        if (tide_spawn_lua(node, &o, &who) < 0 || tide_monitor(who, &id) < 0 ||
            tide_receive(TIDE_NEVER, &m) < 0) {
            return;
        }
        tide_message_free(m);
    }
    report_row("start and end of a Lua actor", "us", since_ns(began, STATES) / 1000);
}

static int run(void *state) {
    uint8_t role = *(const uint8_t *)state;
    round_trips(role, role == TIDE_ROLE_CONTROL ? "control" : "compute");
    if (role == TIDE_ROLE_COMPUTE) {
        states();
        codecs();
    }
    return 0;
}

static void released(void *state) {
    (void)state;
    atomic_store(&finished, true);
}

int main(int argc, char **argv) {
    static uint8_t roles[] = {TIDE_ROLE_CONTROL, TIDE_ROLE_COMPUTE};
    char directory[] = "/tmp/tide-bench-XXXXXX", listen[64];
    report_init(argc, argv, "lua");
    if (!mkdtemp(directory)) {
        return 1;
    }
    (void)snprintf(listen, sizeof listen, "unix:%s/n.sock", directory);
    struct tide_node_options o = {
        .cluster = "bench", .name = "n", .listen = listen, .workers = 1, .seed = 1};
    if (tide_node_create(&o, &node) < 0) {
        (void)fprintf(stderr, "bench_lua: %s\n", tide_error_message());
        return 1;
    }
    make_bodies();
    struct tide_port *port = tide_system_port(tide_system_of(node));
    for (size_t i = 0; i < TIDE_COUNT(roles); i++) {
        struct tide_actor_options a = {.type = "bench",
                                       .run = run,
                                       .state = &roles[i],
                                       .release = released,
                                       .stack_bytes = TIDE_LUA_STACK,
                                       .role = roles[i]};
        atomic_store(&finished, false);
        if (tide_spawn(node, &a, NULL) < 0) {
            break;
        }
        while (!atomic_load(&finished)) {
            port->ops->pause(port, 1000000);
        }
    }
    tide_node_destroy(node, TIDE_SECOND);
    (void)snprintf(listen, sizeof listen, "%s/n.sock", directory);
    (void)unlink(listen);
    return rmdir(directory) == 0 ? 0 : 1;
}
