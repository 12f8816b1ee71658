/*
 * The node of this process: starting, stopping, running a script on it, and what it reports about
 * cluster, links and actors. node_start, node_run and node_stop belong to the program's own state,
 * outside of actors.
 */
#include "lua/host/host.h"
#include "lua/host/sim/simulator.h"
#include "net/tls/keys.h"
#include "tensor/cpu/blas.h"
#include "tensor/cpu/gemm.h"
#include "net/net.h"
#include "operation.h"
#include "store/core/store.h"
#include "tide/stats.h"

#include <semaphore.h>
#include <signal.h>
#include <string.h>

#include <jansson.h>
#include <msgpack.h>
#include <openssl/opensslv.h>
#include <uv/version.h>

enum { LINKS_MAX = 1024 };

enum { EXIT_LATE = 124, EXIT_INTERRUPTED = 130 };

/* ---- signals ---- */

/* core.watch_interrupts(): counts SIGINT, SIGTERM and SIGHUP from now on, in a process that has no node */
static int core_watch_interrupts(lua_State *L) {
    (void)L;
    tide_port_signals(true);
    return 0;
}

/* core.interrupted() -> how many, and the name of the newest: "SIGINT", "SIGTERM", "SIGHUP" | nil */
static int core_interrupted(lua_State *L) {
    int last;
    lua_pushinteger(L, (lua_Integer)tide_port_signalled(&last));
    lua_pushstring(L, last == 0 ? NULL : last == SIGINT ? "SIGINT" : last == SIGTERM ? "SIGTERM" : "SIGHUP");
    return 2;
}

/* The text outlives this call and the state: an alarm may write it at any moment. Each text is kept once. */
static const char *kept_text(lua_State *L, int at) {
    struct kept {
        struct kept *next;
        char text[];
    };
    static _Atomic(struct kept *) all;
    const char *text = luaL_checkstring(L, at);
    const size_t size = strlen(text) + 1;
    for (struct kept *k = atomic_load_explicit(&all, memory_order_acquire); k;
         k = k->next) { /* with the release below */
        if (strcmp(k->text, text) == 0) {
            return k->text;
        }
    }
    struct kept *own = tide_alloc(sizeof *own + size);
    if (!own) {
        return "out of time\n";
    }
    memcpy(own->text, text, size);
    own->next = atomic_load_explicit(&all, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&all, &own->next, own, memory_order_release, memory_order_relaxed)) {
    }
    return own->text;
}

/* core.alarm(seconds, text?): this process writes the text and ends with 124 after so long, whatever its
 * threads do. Without a text: that of the former alarm, if there is one. */
static int core_alarm(lua_State *L) {
    const uint64_t ns = tide__lua_duration(L, 1, 0);
    tide_port_alarm(ns, lua_isnoneornil(L, 2) ? NULL : kept_text(L, 2), EXIT_LATE);
    return 0;
}

/* core.interrupt_limit({count=, killed=, patience=, unheeded=}): the count-th interrupt of all gives this process a
 * moment to end, then it writes the text `killed` and ends with 130. After a SIGTERM or SIGHUP before, it does so with
 * `unheeded` when `patience` seconds pass without core.heed. nil: no limit. */
static int core_interrupt_limit(lua_State *L) {
    lua_settop(L, 1);
    if (lua_isnil(L, 1)) {
        tide_port_signal_limit(NULL);
        return 0;
    }
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_getfield(L, 1, "count");
    lua_getfield(L, 1, "killed");
    lua_getfield(L, 1, "unheeded");
    lua_getfield(L, 1, "patience");
    struct tide_signal_limit limit = {.count = (unsigned)luaL_checkinteger(L, 2),
                                      .killed = kept_text(L, 3),
                                      .unheeded = lua_isnil(L, 4) ? "" : kept_text(L, 4),
                                      .patience_ns = tide__lua_duration(L, 5, 0),
                                      .code = EXIT_INTERRUPTED};
    tide_port_signal_limit(&limit);
    return 0;
}

/* core.heed(seconds): the interrupts so far are being dealt with; this process has so long for it, 0: any time */
static int core_heed(lua_State *L) {
    tide_port_signal_heed(tide__lua_duration(L, 1, 0));
    return 0;
}

/* ---- life ---- */

static struct tide_lua *check_program(lua_State *L) {
    struct tide_lua *host = tide__lua_host(L);
    if (!host->program) {
        luaL_error(L, "only the program itself can do this, not an actor");
    }
    return host;
}

static const char *text_option(lua_State *L, const char *name) {
    int type = lua_getfield(L, 1, name); /* stays on the stack */
    if (type != LUA_TNIL && type != LUA_TSTRING) {
        luaL_error(L, "node_start: field '%s' is %s, not a string", name, lua_typename(L, type));
    }
    return type == LUA_TNIL ? NULL : lua_tostring(L, -1);
}

static bool flag_option(lua_State *L, const char *name) {
    lua_getfield(L, 1, name);
    bool value = lua_toboolean(L, -1);
    lua_pop(L, 1);
    return value;
}

static int core_node_start(lua_State *L) {
    struct tide_lua *host = check_program(L);
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    if (host->node) {
        return tide__lua_failure(L, tide_fail(TIDE_EEXIST, "a node runs in this process already"));
    }
    struct tide_node_options o = {.cluster = text_option(L, "cluster"),
                                  .name = text_option(L, "name"),
                                  .listen = text_option(L, "listen"),
                                  .join = text_option(L, "join"),
                                  .state = text_option(L, "state"),
                                  .keys = text_option(L, "keys"),
                                  .no_store = flag_option(L, "no_store"),
                                  .client = flag_option(L, "client")};
    const char *right = text_option(L, "right");
    o.right = right ? tide_right_parse(right) : TIDE_RIGHT_NONE;
    lua_getfield(L, 1, "controllers");
    lua_Integer controllers = luaL_optinteger(L, -1, 0);
    if (controllers < 0 || controllers > 256) {
        return luaL_error(L, "node_start: controllers = %I is not 3 or 5", controllers);
    }
    o.controllers = (unsigned)controllers;
    lua_getfield(L, 1, "workers");
    lua_Integer workers = luaL_optinteger(L, -1, 1);
    if (workers < 0 || workers > 256) {
        return luaL_error(L, "node_start: workers = %I is not in 0..256", workers);
    }
    o.workers = (unsigned)workers;
    lua_getfield(L, 1, "queue_limit");
    lua_Integer queue_limit = luaL_optinteger(L, -1, 0);
    if (queue_limit < 0) {
        return luaL_error(L, "node_start: queue_limit = %I is no number of bytes", queue_limit);
    }
    o.queue_limit = (uint64_t)queue_limit;
    lua_getfield(L, 1, "memory");
    lua_Integer memory = luaL_optinteger(L, -1, 0);
    if (memory < 0) {
        return luaL_error(L, "node_start: memory = %I is no number of bytes", memory);
    }
    o.memory = (uint64_t)memory;
    lua_getfield(L, 1, "silence");
    o.silence = lua_isnil(L, -1) ? 0 : tide__lua_duration(L, -1, 0);
    lua_getfield(L, 1, "rate_operations");
    o.rate_operations = luaL_optnumber(L, -1, 0);
    lua_getfield(L, 1, "rate_bytes");
    o.rate_bytes = luaL_optnumber(L, -1, 0);
    lua_getfield(L, 1, "seed");
    o.seed = (uint64_t)luaL_optinteger(L, -1, 0);
    struct tide_port *port = NULL;
    int code = tide__simulator_open() ? tide__simulator_port(o.name, &port) : 0;
    o.port = port;
    code = code < 0 ? code : tide_node_create(&o, &host->node);
    if (code < 0) {
        host->node = NULL;
        if (port) {
            port->ops->destroy(port);
        }
        return tide__lua_failure(L, code);
    }
    if (!tide__simulator_open()) {
        tide_port_signals(true);
    }
    lua_pushboolean(L, true);
    return 1;
}

/* core.right(): what this process may do in its cluster */
static int core_right(lua_State *L) {
    struct tide_lua *host = tide__lua_host(L);
    struct tide_member self;
    struct tide_net *net = host->node ? tide_net_of(host->node) : NULL;
    bool member = net && tide_net_member(net, tide_net_self(net), &self);
    lua_pushstring(L, tide_right_name(!net || member ? TIDE_RIGHT_NODE : tide_net_right(net)));
    return 1;
}

/* core.grant_silence(seconds): other nodes may be silent so long before they are declared dead */
static int core_grant_silence(lua_State *L) {
    struct tide_lua *host = tide__lua_inside(L);
    int code = tide_net_grant_silence(tide_net_of(host->node), tide__lua_duration(L, 1, 0));
    return code < 0 ? tide__lua_failure(L, code) : 0;
}

static int core_node_stop(lua_State *L) {
    struct tide_lua *host = check_program(L);
    uint64_t timeout = tide__lua_duration(L, 1, 5 * TIDE_SECOND);
    if (host->node) {
        struct tide_port *port = tide_system_port(tide_system_of(host->node));
        if (tide__simulator_open()) {
            tide__simulator_end_nodes();
        }
        bool own = port->simulated;
        tide_node_destroy(host->node, timeout);
        host->node = NULL;
        if (own) {
            port->ops->destroy(port);
        } else {
            tide_port_signals(false);
        }
    }
    lua_pushboolean(L, true);
    return 1;
}

/* node_run's wait: the one place where the program's thread blocks on an actor. */
struct node_run {
    struct tide_lua_outcome outcome;
    sem_t ended;
    bool over;
};

static void run_ended(struct tide_lua_outcome *outcome) {
    struct node_run *run = TIDE_CONTAINER(outcome, struct node_run, outcome);
    run->over = true; /* before the post: in the real world `run` is gone after it */
    (void)sem_post(&run->ended);
}

static bool run_over(void *arg) {
    return ((struct node_run *)arg)->over;
}

/* Pushes result | nil, err. */
static int push_outcome(lua_State *L, struct tide_lua_outcome *outcome) {
    int code = outcome->data ? tide__lua_decode_safe(L, outcome->data, outcome->size, TIDE_ITEMS_MAX) : TIDE_ENOENT;
    tide_free(outcome->data);
    if (outcome->code == 0) {
        return code < 0 ? (lua_pushnil(L), 1) : 1;
    }
    lua_pushnil(L);
    tide__lua_push_error(L, tide_error_name(outcome->code), outcome->text, "");
    if (code == 0 && lua_type(L, -3) == LUA_TTABLE) { /* the error object itself: its fields win */
        lua_pushnil(L);
        while (lua_next(L, -4)) {
            lua_pushvalue(L, -2);
            lua_insert(L, -2);
            lua_rawset(L, -4);
        }
    }
    return 2;
}

/* The actor will never end by itself, and `run` is on this stack: the node goes first. */
static int abandon_run(lua_State *L, struct tide_lua *host, struct node_run *run, int code) {
    char text[200];
    (void)snprintf(text, sizeof text, "%s", tide_error_message());
    struct tide_port *port = tide_system_port(tide_system_of(host->node));
    tide__simulator_end_nodes();
    tide_node_destroy(host->node, 0);
    host->node = NULL;
    port->ops->destroy(port);
    tide_free(run->outcome.data);
    (void)sem_destroy(&run->ended);
    return tide__lua_failure(L, tide_fail(code, "%s", text));
}

static int core_node_run(lua_State *L) {
    struct tide_lua *host = check_program(L);
    struct tide_lua_options o = {
        .source = luaL_checkstring(L, 1), .chunk = luaL_optstring(L, 2, NULL), .role = TIDE_ROLE_CONTROL};
    lua_settop(L, 3);
    if (!host->node) {
        return luaL_error(L, "node_run: no node runs");
    }
    struct tide_writer w;
    tide_writer_init(&w, NULL, 0);
    int code = tide__lua_encode(L, 3, "argument", TIDE_ITEMS_MAX, &w);
    if (code < 0) {
        tide_writer_release(&w);
        return tide__lua_raise(L, code);
    }
    o.argument = w.data;
    o.argument_size = w.size;
    struct node_run run = {.outcome = {.ended = run_ended, .code = TIDE_ECRASHED}};
    (void)snprintf(run.outcome.text, sizeof run.outcome.text, "the script's actor did not start");
    (void)sem_init(&run.ended, 0, 0);
    code = tide__lua_spawn(host->node, &o, &run.outcome, NULL);
    tide_writer_release(&w);
    if (code == 0 && tide__simulator_open()) {
        code = tide__simulator_run(run_over, &run);
        if (code < 0) {
            return abandon_run(L, host, &run, code);
        }
    } else if (code == 0) {
        while (sem_wait(&run.ended) != 0) { /* EINTR: signals are the I/O thread's */
        }
    }
    (void)sem_destroy(&run.ended);
    return code < 0 ? tide__lua_failure(L, code) : push_outcome(L, &run.outcome);
}

/* ---- what there is ---- */

static void set_text(lua_State *L, const char *key, const char *value) {
    if (value && value[0]) {
        lua_pushstring(L, value);
        lua_setfield(L, -2, key);
    }
}

static void set_flag(lua_State *L, const char *key, bool value) {
    lua_pushboolean(L, value);
    lua_setfield(L, -2, key);
}

static const char *state_name(int state) {
    static const char *const states[] = {"joining", "up", "leaving", "left", "dead"};
    return state >= 0 && (size_t)state < TIDE_COUNT(states) ? states[state] : "?";
}

static int core_node(lua_State *L) {
    struct tide_lua *host = tide__lua_host(L);
    if (!host->node) {
        lua_pushnil(L);
        return 1;
    }
    struct tide_net *net = tide_net_of(host->node);
    int code;
    char reason[240];
    const int state = tide_net_state(net, &code, reason, sizeof reason);
    lua_createtable(L, 0, 9);
    set_text(L, "state", state_name(state)); /* a client's too, which is no member */
    set_text(L, "reason", reason);
    tide__lua_set_integer(L, "id", tide_node_id(host->node));
    set_text(L, "name", tide_node_name(host->node));
    set_text(L, "endpoint", tide_node_endpoint(host->node));
    set_text(L, "cluster", tide_net_cluster(net));
    set_text(L, "keys", tide_net_keys(net));
    tide__lua_set_integer(L, "sessions_lost", tide_net_sessions_lost(net));
    tide__lua_set_integer(L, "controller", tide_net_controller(net));
    return 1;
}

static void push_member(lua_State *L, const struct tide_member *m) {
    lua_createtable(L, 0, 8);
    tide__lua_set_integer(L, "id", m->id);
    set_text(L, "name", m->name);
    set_text(L, "state", state_name((int)m->state));
    set_flag(L, "store", m->store);
    tide__lua_set_integer(L, "workers", m->workers);
    tide__lua_set_integer(L, "pid", (uint64_t)m->pid);
    set_text(L, "endpoint", m->endpoint);
    set_text(L, "reason", m->reason);
}

/* The entry of this node itself, or nil before it has joined. */
static int core_member(lua_State *L) {
    struct tide_lua *host = tide__lua_host(L);
    struct tide_member self;
    if (host->node && tide_net_member(tide_net_of(host->node), tide_node_id(host->node), &self)) {
        push_member(L, &self);
    } else {
        lua_pushnil(L);
    }
    return 1;
}

static int core_members(lua_State *L) {
    struct tide_lua *host = tide__lua_host(L);
    if (!host->node) {
        return luaL_error(L, "no node runs");
    }
    struct tide_net *net = tide_net_of(host->node);
    size_t limit = tide_net_members(net, NULL, 0, NULL) + 16; /* some may join meanwhile */
    struct tide_member *members = lua_newuserdatauv(L, limit * sizeof *members, 0);
    uint64_t view;
    size_t count = tide_net_members(net, members, limit, &view);
    count = count < limit ? count : limit;
    lua_createtable(L, (int)count, 1);
    tide__lua_set_integer(L, "view", view);
    for (size_t i = 0; i < count; i++) {
        push_member(L, &members[i]);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    return 1;
}

static int core_links(lua_State *L) {
    static const char *const lanes[] = {"system", "answer", "store", "control", "bulk"};
    _Static_assert(TIDE_COUNT(lanes) == TIDE_LANE_COUNT, "a name a lane");
    struct tide_lua *host = tide__lua_host(L);
    if (!host->node) {
        return luaL_error(L, "no node runs");
    }
    struct tide_link_info *links = lua_newuserdatauv(L, LINKS_MAX * sizeof *links, 0);
    size_t count = tide_net_links(tide_net_of(host->node), links, LINKS_MAX);
    count = count < LINKS_MAX ? count : LINKS_MAX;
    lua_createtable(L, (int)count, 0);
    for (size_t i = 0; i < count; i++) {
        const struct tide_link_info *link = &links[i];
        lua_createtable(L, 0, 10);
        tide__lua_set_integer(L, "peer", link->peer);
        set_flag(L, "up", link->up);
        tide__lua_set_integer(L, "bytes_out", link->bytes_out);
        tide__lua_set_integer(L, "bytes_in", link->bytes_in);
        tide__lua_set_integer(L, "frames_out", link->frames_out);
        tide__lua_set_integer(L, "frames_in", link->frames_in);
        tide__lua_set_integer(L, "writes", link->writes);
        tide__lua_set_integer(L, "queue_bytes", link->queue_bytes);
        tide__lua_set_integer(L, "round_trip_ns", link->round_trip_ns);
        lua_createtable(L, 0, TIDE_LANE_COUNT);
        for (size_t lane = 0; lane < TIDE_LANE_COUNT; lane++) {
            tide__lua_set_integer(L, lanes[lane], link->credit_used[lane]);
        }
        lua_setfield(L, -2, "credit_used");
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    return 1;
}

static const char *const roles[] = {"io", "compute", "control", "disk", "exchange"};

static void push_actor(lua_State *L, const struct tide_actor_info *info, uint64_t now) {
    lua_createtable(L, 0, 12);
    tide__lua_push_address(L, info->address);
    lua_setfield(L, -2, "address");
    set_text(L, "name", info->name);
    set_text(L, "type", info->type);
    if (info->waits_for[0]) {
        set_text(L, "waits_for", info->waits_for);
        lua_pushnumber(L, now > info->waits_since ? (double)(now - info->waits_since) * 1e-9 : 0);
        lua_setfield(L, -2, "waits_s");
    }
    tide__lua_set_integer(L, "messages_handled", info->messages_handled);
    tide__lua_set_integer(L, "messages_refused", info->messages_refused);
    lua_pushnumber(L, (double)info->handling_ns * 1e-9);
    lua_setfield(L, -2, "handling_s");
    tide__lua_set_integer(L, "mailbox_messages", info->mailbox_messages);
    tide__lua_set_integer(L, "mailbox_bytes", info->mailbox_bytes);
    set_text(L, "role", info->role < TIDE_COUNT(roles) ? roles[info->role] : "?");
    tide__lua_set_integer(L, "thread", info->thread);
    set_flag(L, "fiber", info->fiber);
}

static int core_actors(lua_State *L) {
    struct tide_lua *host = tide__lua_host(L);
    if (!host->node) {
        return luaL_error(L, "no node runs");
    }
    size_t limit = tide_actors(host->node, NULL, 0) + 16; /* some may start meanwhile */
    struct tide_actor_info *infos = lua_newuserdatauv(L, limit * sizeof *infos, 0);
    size_t count = tide_actors(host->node, infos, limit);
    count = count < limit ? count : limit;
    uint64_t now = tide_port_now(host->port);
    lua_createtable(L, (int)count, 0);
    for (size_t i = 0; i < count; i++) {
        push_actor(L, &infos[i], now);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    return 1;
}

static int core_rss(lua_State *L) {
    struct tide_port *port = tide__lua_host(L)->port;
    lua_pushinteger(L, (lua_Integer)port->ops->memory_resident(port));
    return 1;
}

/* {id=, processors=} of the machine (port.h) */
static int core_machine(lua_State *L) {
    struct tide_port *port = tide__lua_host(L)->port;
    struct tide_machine machine;
    port->ops->machine(port, &machine);
    lua_createtable(L, 0, 2);
    lua_pushstring(L, machine.id);
    lua_setfield(L, -2, "id");
    tide__lua_set_integer(L, "processors", machine.processors);
    return 1;
}

/* number of a run or nothing -> {cap_bytes=, used_bytes=, most_bytes=, tier=, refused=} of this node's memory, or of
 * the run's on this node; nil without a cap */
static int core_memory(lua_State *L) {
    static const char *const tiers[] = {"calm", "tight", "narrow", "full", "over"};
    struct tide_lua *host = tide__lua_host(L);
    struct tide_store *store = host->node ? tide_store_of(host->node) : NULL;
    struct tide_store_memory memory = {0};
    const lua_Integer run = luaL_optinteger(L, 1, 0);
    luaL_argcheck(L, run >= 0 && run <= UINT32_MAX, 1, "the number of a run");
    if (store && run == 0) {
        tide_store_memory(store, &memory);
    } else if (store) {
        tide_store_run_memory(store, (uint32_t)run, &memory);
    }
    if (memory.cap == 0) {
        lua_pushnil(L);
        return 1;
    }
    lua_createtable(L, 0, 5);
    tide__lua_set_integer(L, "cap_bytes", memory.cap);
    tide__lua_set_integer(L, "used_bytes", memory.used);
    tide__lua_set_integer(L, "most_bytes", memory.most);
    tide__lua_set_integer(L, "refused", memory.refused);
    lua_pushstring(L, tiers[memory.tier]);
    lua_setfield(L, -2, "tier");
    return 1;
}

/* {limit_bytes=, bytes=, most_bytes=, waits=} of this node's operations in flight; nil without a queue limit */
static int core_queue(lua_State *L) {
    struct tide_lua *host = tide__lua_host(L);
    struct tide_store *store = host->node ? tide_store_of(host->node) : NULL;
    struct tide_store_queue queue = {0};
    if (store) {
        tide_store_queue(store, &queue);
    }
    if (queue.limit == 0) {
        lua_pushnil(L);
        return 1;
    }
    lua_createtable(L, 0, 4);
    tide__lua_set_integer(L, "limit_bytes", queue.limit);
    tide__lua_set_integer(L, "bytes", queue.bytes);
    tide__lua_set_integer(L, "most_bytes", queue.most);
    tide__lua_set_integer(L, "waits", queue.waits);
    return 1;
}

/* {messages=, keys=, busy_s=} of what the store did for other nodes */
static int core_load(lua_State *L) {
    struct tide_lua *host = tide__lua_host(L);
    struct tide_store_load load = {0};
    if (host->node) {
        tide_node_load(host->node, &load);
    }
    lua_createtable(L, 0, 3);
    tide__lua_set_integer(L, "messages", load.messages);
    tide__lua_set_integer(L, "keys", load.keys);
    lua_pushnumber(L, (double)load.busy_ns * 1e-9);
    lua_setfield(L, -2, "busy_s");
    return 1;
}

/* core.slow() -> {{type=, role=, count=, seconds=, longest_s=}, ...}: what held a thread that serves others too long */
static int core_slow(lua_State *L) {
    struct tide_lua *host = tide__lua_host(L);
    struct tide_slow_handler slow[64];
    const size_t count = host->node ? tide_slow_handlers(host->node, slow, TIDE_COUNT(slow)) : 0;
    lua_createtable(L, (int)count, 0);
    for (size_t i = 0; i < count; i++) {
        lua_createtable(L, 0, 5);
        set_text(L, "type", slow[i].type);
        set_text(L, "role", roles[slow[i].role]);
        tide__lua_set_integer(L, "count", slow[i].count);
        tide__lua_set_number(L, "seconds", (double)slow[i].total_ns * 1e-9);
        tide__lua_set_number(L, "longest_s", (double)slow[i].longest_ns * 1e-9);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    return 1;
}

/* core.waited(id) -> seconds that this node has had operations in flight to that node's store */
static int core_waited(lua_State *L) {
    struct tide_lua *host = tide__lua_host(L);
    lua_Integer id = luaL_checkinteger(L, 1);
    luaL_argcheck(L, id >= 0 && id <= UINT16_MAX, 1, "the id of a node");
    uint64_t ns = host->node ? tide_node_waited(host->node, (unsigned)id) : 0;
    lua_pushnumber(L, (double)ns * 1e-9);
    return 1;
}

/* Begins to leave: slots are handed on first; then this node's own entry says "left". */
static int core_leave(lua_State *L) {
    struct tide_lua *host = tide__lua_host(L);
    if (host->node) {
        tide_net_leave(tide_net_of(host->node));
    }
    return 0;
}

struct replication {
    struct tide_net *net;
    unsigned controllers;
    int code;
    char reason[200];
};

static void replicate(void *arg) {
    struct replication *r = arg;
    r->code = tide_net_replicate(r->net, r->controllers);
    (void)snprintf(r->reason, sizeof r->reason, "%s", r->code < 0 ? tide_error_message() : "");
}

/* core.replicate(controllers) -> true | nil, err: so many members hold from now on what this node,
 * the controller, decides */
static int core_replicate(lua_State *L) {
    struct tide_lua *host = tide__lua_host(L);
    lua_Integer controllers = luaL_checkinteger(L, 1);
    luaL_argcheck(L, controllers == 3 || controllers == 5, 1, "3 or 5");
    struct replication *r = host->node ? tide_alloc_zero(1, sizeof *r) : NULL;
    if (!r) {
        return tide__lua_failure(L, tide_fail(TIDE_ENOMEM, "no node, or no memory"));
    }
    r->net = tide_net_of(host->node);
    r->controllers = (unsigned)controllers;
    int code = tide_hop(host->node, TIDE_ROLE_IO, replicate, r, tide_free);
    if (code == 0) {
        code = r->code < 0 ? tide_fail(r->code, "%s", r->reason) : 0;
        tide_free(r);
    }
    if (code < 0) {
        return tide__lua_failure(L, code);
    }
    lua_pushboolean(L, true);
    return 1;
}

struct ending {
    struct tide_net *net;
    size_t count;
    uint16_t ids[];
};

static void ends(void *arg) {
    struct ending *e = arg;
    tide_net_ends(e->net, e->ids, e->count);
}

/* Until the controller has heard it: what a member says when it leaves comes by another connection, and
 * could be heard first. The cluster ends whether it answers or not. */
static void await_heard(struct tide_net *net) {
    static const uint8_t nil = 0xc0;
    const tide_address controller = tide_address_make(tide_net_controller(net), TIDE_ID_MEMBERS);
    struct tide_reply *reply;
    if (tide_call(controller, &nil, sizeof nil, TIDE_SECOND, &reply) == 0) {
        tide_reply_free(reply);
    }
}

/* core.ends{id...} -> true | nil, err: these members are about to end, rows and all, with their cluster */
static int core_ends(lua_State *L) {
    struct tide_lua *host = tide__lua_host(L);
    luaL_checktype(L, 1, LUA_TTABLE);
    const size_t count = lua_rawlen(L, 1);
    struct ending *e = host->node ? tide_alloc_zero(1, sizeof *e + count * sizeof e->ids[0]) : NULL;
    if (!e) {
        return tide__lua_failure(L, tide_fail(TIDE_ENOMEM, "no node, or no memory"));
    }
    e->net = tide_net_of(host->node);
    for (size_t i = 0; i < count; i++) {
        lua_rawgeti(L, 1, (lua_Integer)i + 1);
        e->ids[e->count++] = (uint16_t)lua_tointeger(L, -1);
        lua_pop(L, 1);
    }
    const int code = tide_hop(host->node, TIDE_ROLE_IO, ends, e, tide_free);
    if (code < 0) {
        return tide__lua_failure(L, code);
    }
    await_heard(e->net);
    tide_free(e);
    lua_pushboolean(L, true);
    return 1;
}

static int core_serve_cost(lua_State *L) {
    struct tide_lua *host = tide__lua_host(L);
    const double seconds = luaL_checknumber(L, 1);
    luaL_argcheck(L, seconds >= 0 && seconds <= 1, 1, "0 to 1 s");
    if (host->node) {
        tide_node_serve_cost(host->node, (uint64_t)(seconds * 1e9));
    }
    return 0;
}

/* Sets what the matrix library is and does: single-precision products of 512 x 512 by one thread,
 * the best of some within 50 ms, in 1e9 operations a second. */
static void set_blas(lua_State *L) {
    enum { SIDE = 512, SIZE = SIDE * SIDE };
    const struct tide_blas *blas = tide_blas();
    struct tide_port *port = tide__lua_host(L)->port;
    char text[256] = "";
    (void)tide_backend_cpu()->probe(text, sizeof text);
    set_text(L, "blas", text);
    float *a = blas ? tide_alloc_aligned(64, sizeof(float) * 3 * SIZE) : NULL;
    if (!a) {
        return;
    }
    for (int i = 0; i < 2 * SIZE; i++) {
        a[i] = (float)(i % 7);
    }
    uint64_t best = UINT64_MAX, start = tide_port_now(port), now = start;
    for (int i = 0; i < 3 || now - start < TIDE_SECOND / 20; i++) {
        uint64_t before = now;
        (void)tide_cpu_gemm(false, false, SIDE, SIDE, SIDE, 1.0f, a, SIDE, a + SIZE, SIDE, 0.0f, a + 2 * SIZE, SIDE);
        now = tide_port_now(port);
        best = now - before < best ? now - before : best;
        if (now == before) {
            break; /* virtual time */
        }
    }
    tide_free(a);
    set_text(L, "core", blas->core);
    if (best > 0) {
        (void)snprintf(text, sizeof text, "%.0f GFLOP/s", 2.0 * SIDE * SIZE / (double)best);
        set_text(L, "rate", text);
    }
}

static int core_build(lua_State *L) {
    char reason[600] = "";
    lua_createtable(L, 0, 9);
#ifdef __clang__
    set_text(L, "compiler", "clang " __clang_version__);
#else
    set_text(L, "compiler", "gcc " __VERSION__);
#endif
    set_text(L, "version", TIDE_VERSION);
    tide__lua_set_integer(L, "protocol", TIDE_PROTOCOL);
    set_text(L, "lua", LUA_RELEASE);
    lua_pushfstring(L, "%d.%d.%d", UV_VERSION_MAJOR, UV_VERSION_MINOR, UV_VERSION_PATCH);
    lua_setfield(L, -2, "libuv");
    set_text(L, "jansson", JANSSON_VERSION);
    set_text(L, "msgpack", MSGPACK_VERSION);
    set_text(L, "openssl", OPENSSL_VERSION_TEXT);
    lua_createtable(L, 0, 2);
    set_blas(L);
    set_text(L, "device", tide_device_find("cpu")->name);
    lua_setfield(L, -2, "cpu");
    const struct tide_backend *cuda = tide_backend_cuda(NULL, reason, sizeof reason);
    lua_createtable(L, 0, 2);
    set_flag(L, "available", cuda);
    set_text(L, cuda ? "device" : "reason", reason);
    lua_setfield(L, -2, "cuda");
    return 1;
}

void tide__lua_open_node(lua_State *L) {
    static const luaL_Reg functions[] = {
        {"build", core_build},
        {"node_start", core_node_start},
        {"node_run", core_node_run},
        {"node_stop", core_node_stop},
        {"node", core_node},
        {"member", core_member},
        {"members", core_members},
        {"links", core_links},
        {"actors", core_actors},
        {"right", core_right},
        {"grant_silence", core_grant_silence},
        {"rss", core_rss},
        {"machine", core_machine},
        {"queue", core_queue},
        {"memory", core_memory},
        {"load", core_load},
        {"waited", core_waited},
        {"slow", core_slow},
        {"serve_cost", core_serve_cost},
        {"leave", core_leave},
        {"ends", core_ends},
        {"replicate", core_replicate},
        {"interrupted", core_interrupted},
        {"alarm", core_alarm},
        {"interrupt_limit", core_interrupt_limit},
        {"heed", core_heed},
        {"watch_interrupts", core_watch_interrupts},
        {NULL, NULL},
    };
    luaL_setfuncs(L, functions, 0);
    lua_pushliteral(L, TIDE_VERSION);
    lua_setfield(L, -2, "version");
}
