/*
 * core.sim_*: the simulated world for Lua. sim_open, sim_close and sim_report belong to the
 * program's own state, the rest to actors of simulated nodes; lua/tide/sim/init.lua is what scripts see.
 */
#include "simulator.h"
#include "lua/host/kernel/costs.h"
#include "fixed.h"
#include "net/net.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NAME_MAX_BYTES = 64, FILE_MAX_BYTES = 256, JOIN_TRIES = 20 };
#define JOIN_AGAIN (TIDE_SECOND / 4)

static const char agent_source[] = "return require(\"tide.cluster.agent\").main(...)";

/* A node that stands for a process of `tide node`. Its handle in Lua is its place in the list. */
struct member {
    struct tide_port *port;
    struct tide_node *node;
    struct tide_lua_outcome outcome; /* of its agent */
    char name[NAME_MAX_BYTES], cluster[NAME_MAX_BYTES], join[200], reason[300];
    unsigned workers, tries;
    bool no_store;
    uint64_t queue_limit, memory;
    double rate_operations, rate_bytes;
    int status, signal;
    bool wanted, killed, agent_runs, agent_ended, ended;
};

enum fault_kind {
    CRASH,
    RESTART,
    PAUSE,
    CUT,
    HEAL,
    RESET,
    FLIP,
    TRUNCATE,
    SLOWNESS,
    NIC,
    LATENCY,
    MARKOV,
    DISK,
    CLOCK
};
static const char *const fault_names[] = {"crash",   "restart", "pause",    "cut",      "heal",
                                          "reset",   "flip",    "truncate", "slowness", "nic",
                                          "latency", "markov",  "disk",     "clock",    NULL};
enum { FAULT_VALUES = 7 };

/* Values: pause: seconds. cut: seconds until it heals, 0: never. slowness: times. nic: bytes/s.
 * latency: least, most, in seconds. markov: slowness, times more while slow, share of slow time,
 * mean seconds of a slow time. disk: probabilities of errors of reading, writing, syncing and of
 * a crash; least and most seconds of syncing; bytes. clock: seconds that it jumps ahead, seconds
 * that it gains in a second. flip, truncate: b is the file, or none. */
struct fault {
    struct fault *next;
    enum fault_kind kind;
    char a[NAME_MAX_BYTES], b[FILE_MAX_BYTES];
    double value[FAULT_VALUES];
    struct tide_random random;
    bool slow;
};

static struct {
    struct tide_sim *sim;
    struct member **members;
    size_t member_count, member_room;
    struct fault *faults;
    bool crashed;                         /* any node, ever */
    bool attention;                       /* a member requests work between events */
    double latency_min, latency_max, nic; /* as the world was opened */
    uint64_t seed, faults_fired, faults_missed;
    FILE *trace;
    uint64_t trace_first, trace_last;
} world;

bool tide__simulator_open(void) {
    return world.sim;
}

int tide__simulator_port(const char *name, struct tide_port **out) {
    return tide_sim_port(world.sim, name ? name : "node", out);
}

uint64_t tide__simulator_cost(const struct tide_port *port, double ns) {
    return world.sim && port->simulated && ns > 0 && ns < 1e18 ? tide_sim_cost(port, (uint64_t)ns) : 0;
}

uint64_t tide__simulator_events(void) {
    return world.sim ? tide_sim_events(world.sim) : 0;
}

bool tide__simulator_lost_memory(void) {
    return world.crashed;
}

static uint64_t wall_now(void) {
    return UINT64_C(1700000000) * TIDE_SECOND + (world.sim ? tide_sim_now(world.sim) : 0);
}

/* ---- members ---- */

static struct member *find_member(const char *name) {
    for (size_t i = world.member_count; i-- > 0;) { /* the newest of a name */
        if (strcmp(world.members[i]->name, name) == 0) {
            return world.members[i];
        }
    }
    return NULL;
}

static void agent_ended(struct tide_lua_outcome *outcome) {
    struct member *m = TIDE_CONTAINER(outcome, struct member, outcome);
    m->agent_ended = true;
    world.attention = true;
}

static void try_again(void *arg) {
    (void)arg;
    world.attention = true;
}

static void member_start(struct member *m) {
    struct tide_node_options o = {.cluster = m->cluster,
                                  .name = m->name,
                                  .join = m->join,
                                  .workers = m->workers,
                                  .no_store = m->no_store,
                                  .queue_limit = m->queue_limit,
                                  .memory = m->memory,
                                  .rate_operations = m->rate_operations,
                                  .rate_bytes = m->rate_bytes};
    m->ended = m->killed = m->agent_ended = false;
    m->status = m->signal = 0;
    int code = tide_sim_port(world.sim, m->name, &m->port);
    o.port = m->port;
    code = code < 0 ? code : tide_node_create(&o, &m->node);
    if (code == 0) {
        struct tide_lua_options agent = {.source = agent_source, .chunk = "@tide/agent.lua", .role = TIDE_ROLE_CONTROL};
        m->outcome = (struct tide_lua_outcome){.ended = agent_ended};
        code = tide__lua_spawn(m->node, &agent, &m->outcome, NULL);
        m->agent_runs = code == 0;
    }
    if (code == 0) {
        m->wanted = false;
        return;
    }
    (void)snprintf(m->reason, sizeof m->reason, "%s", tide_error_message());
    tide_node_destroy(m->node, 0);
    m->node = NULL;
    if (m->port) {
        m->port->ops->destroy(m->port);
        m->port = NULL;
    }
    /* A node that comes back may have to wait until others know that its former life is over. */
    m->wanted = code == TIDE_EEXIST && ++m->tries < JOIN_TRIES;
    if (m->wanted) {
        tide_sim_at(world.sim, tide_sim_now(world.sim) + JOIN_AGAIN, try_again, NULL);
    } else {
        m->ended = true;
        m->status = 1;
        tide_log(TIDE_LOG_ERROR, m->name, "the simulated node did not start: %s", m->reason);
    }
}

static void member_end(struct member *m) {
    bool crashed = m->port->crashed;
    world.crashed = world.crashed || crashed;
    struct tide_node *node = m->node;
    m->node = NULL;
    tide_node_destroy(node, 0);
    tide_free(m->outcome.data);
    m->outcome.data = NULL;
    m->port->ops->destroy(m->port);
    m->port = NULL;
    m->agent_runs = m->agent_ended = m->killed = false;
    m->ended = true;
    m->signal = crashed ? 9 : 0;
}

static void attend(void) {
    world.attention = false;
    for (size_t i = 0; i < world.member_count; i++) {
        struct member *m = world.members[i];
        if (m->node && (m->killed || m->agent_ended)) {
            member_end(m);
        }
        if (!m->node && m->wanted) {
            member_start(m);
        }
    }
}

struct waiting {
    bool (*done)(void *arg);
    void *arg;
};

static bool stop_events(void *arg) {
    struct waiting *w = arg;
    return world.attention || w->done(w->arg);
}

int tide__simulator_run(bool (*done)(void *arg), void *arg) {
    struct waiting w = {done, arg};
    while (!done(arg)) {
        if (!tide_sim_run(world.sim, TIDE_NEVER, stop_events, &w)) {
            return tide_fail(TIDE_EDIED, "the simulation stands still: nobody waits for a time, "
                                         "and no message is on its way");
        }
        if (world.attention) {
            attend();
        }
    }
    return 0;
}

void tide__simulator_end_nodes(void) {
    for (size_t i = 0; i < world.member_count; i++) {
        struct member *m = world.members[i];
        m->wanted = false;
        if (m->node) {
            member_end(m);
        }
    }
}

static void copy_field(lua_State *L, const char *key, char *out, size_t size) {
    lua_getfield(L, 1, key);
    size_t length;
    const char *text = luaL_checklstring(L, -1, &length);
    if (length >= size) {
        luaL_error(L, "sim_node: field '%s' is too long", key);
    }
    memcpy(out, text, length + 1);
    lua_pop(L, 1);
}

/* core.sim_node{name=, cluster=, join=, workers=, no_store=, queue_limit=, memory=, rate_operations=, rate_bytes=} ->
 * handle. It is made soon after. */
static int core_sim_node(lua_State *L) {
    luaL_checktype(L, 1, LUA_TTABLE);
    if (!world.sim) {
        return luaL_error(L, "only under tide sim");
    }
    struct member m = {.wanted = true};
    copy_field(L, "name", m.name, sizeof m.name);
    copy_field(L, "cluster", m.cluster, sizeof m.cluster);
    copy_field(L, "join", m.join, sizeof m.join);
    lua_getfield(L, 1, "workers");
    m.workers = (unsigned)luaL_checkinteger(L, -1);
    lua_pop(L, 1);
    lua_getfield(L, 1, "no_store");
    m.no_store = lua_toboolean(L, -1);
    lua_getfield(L, 1, "queue_limit");
    m.queue_limit = (uint64_t)luaL_optinteger(L, -1, 0);
    lua_getfield(L, 1, "memory");
    m.memory = (uint64_t)luaL_optinteger(L, -1, 0);
    lua_getfield(L, 1, "rate_operations");
    m.rate_operations = luaL_optnumber(L, -1, 0);
    lua_getfield(L, 1, "rate_bytes");
    m.rate_bytes = luaL_optnumber(L, -1, 0);
    if (world.member_count == world.member_room) {
        size_t room = world.member_room > 0 ? 2 * world.member_room : 16;
        struct member **grown = tide_realloc(world.members, room * sizeof *grown);
        if (!grown) {
            return luaL_error(L, "out of memory");
        }
        world.members = grown;
        world.member_room = room;
    }
    struct member *kept = tide_alloc(sizeof *kept);
    if (!kept) {
        return luaL_error(L, "out of memory");
    }
    *kept = m;
    world.members[world.member_count++] = kept;
    world.attention = true;
    lua_pushinteger(L, (lua_Integer)world.member_count);
    return 1;
}

static struct member *check_member(lua_State *L) {
    lua_Integer handle = luaL_checkinteger(L, 1);
    luaL_argcheck(L, handle >= 1 && (size_t)handle <= world.member_count, 1, "no such node");
    return world.members[handle - 1];
}

/* nil while it lives, then {status=, signal=, reason=} */
static int core_sim_ended(lua_State *L) {
    const struct member *m = check_member(L);
    if (!m->ended) {
        lua_pushnil(L);
        return 1;
    }
    lua_createtable(L, 0, 3);
    lua_pushinteger(L, m->status);
    lua_setfield(L, -2, "status");
    lua_pushinteger(L, m->signal);
    lua_setfield(L, -2, "signal");
    lua_pushstring(L, m->reason);
    lua_setfield(L, -2, "reason");
    return 1;
}

/* As SIGKILL. */
static int core_sim_kill(lua_State *L) {
    struct member *m = check_member(L);
    m->wanted = false;
    if (m->node && !m->killed) {
        tide_sim_crash(world.sim, m->name);
    }
    return 0;
}

/* ---- faults ---- */

static uint64_t after(double seconds) {
    return tide_sim_now(world.sim) + (uint64_t)(seconds * 1e9);
}

static void fault_due(void *arg);

/* Times in both states are exponential. */
static void toggle(struct fault *f) {
    double share = f->value[2], length = f->value[3];
    f->slow = !f->slow;
    tide_sim_set_slowness(world.sim, f->a, f->slow ? f->value[0] * f->value[1] : f->value[0]);
    length *= f->slow ? 1 : (1 - share) / share;
    tide_sim_at(world.sim, after(-log1p(-tide_random_uniform(&f->random)) * length), fault_due, f);
}

/* Also of those that a disk makes crash. */
static void member_crashed(void *arg, const char *name) {
    (void)arg;
    struct member *m = find_member(name);
    if (m && m->node) {
        m->killed = true;
        world.attention = true;
    }
}

static bool crash_member(const char *name) {
    struct member *m = find_member(name);
    if (!m || !m->node || m->killed) {
        return false;
    }
    tide_sim_crash(world.sim, name);
    return true;
}

static void set_disk(const char *node, const double *value) {
    struct tide_sim_disk disk = {.read_error = value[0],
                                 .write_error = value[1],
                                 .sync_error = value[2],
                                 .crash = value[3],
                                 .sync_ns_min = (uint64_t)(value[4] * 1e9),
                                 .sync_ns_max = (uint64_t)(value[5] * 1e9),
                                 .capacity = (uint64_t)value[6]};
    tide_sim_set_disk(world.sim, node, &disk);
}

static bool restart_member(const char *name) {
    struct member *m = find_member(name);
    if (!m || (m->node && !m->killed)) {
        return false;
    }
    m->wanted = true;
    m->tries = 0;
    world.attention = true;
    return true;
}

static bool cut_links(struct fault *f) {
    tide_sim_cut(world.sim, f->a, f->b, true);
    if (f->value[0] > 0) {
        f->kind = HEAL;
        tide_sim_at(world.sim, after(f->value[0]), fault_due, f);
    }
    return true;
}

/* False: there is no node it could hit. */
static bool fire(struct fault *f) {
    struct tide_sim *sim = world.sim;
    const char *node = f->a[0] != 0 ? f->a : NULL;
    bool one = tide_sim_runs(sim, f->a), both = one && tide_sim_runs(sim, f->b);
    switch (f->kind) {
    case CRASH:
        return crash_member(f->a);
    case RESTART:
        return restart_member(f->a);
    case PAUSE:
        if (one) {
            tide_sim_pause(sim, f->a, (uint64_t)(f->value[0] * 1e9));
        }
        return one;
    case CUT:
        return both && cut_links(f);
    case HEAL:
        tide_sim_cut(sim, f->a, f->b, false);
        return true;
    case RESET:
        if (both) {
            tide_sim_reset(sim, f->a, f->b);
        }
        return both;
    case FLIP:
        return tide_sim_flip(sim, f->a, f->b[0] != 0 ? f->b : NULL);
    case TRUNCATE:
        return tide_sim_truncate(sim, f->a, f->b[0] != 0 ? f->b : NULL);
    case DISK:
        set_disk(node, f->value);
        return true;
    case SLOWNESS:
        tide_sim_set_slowness(sim, node, f->value[0]);
        return true;
    case NIC:
        tide_sim_set_nic(sim, node, (uint64_t)f->value[0]);
        return true;
    case LATENCY:
        tide_sim_set_latency(sim, (uint64_t)(f->value[0] * 1e9), (uint64_t)(f->value[1] * 1e9));
        return true;
    case MARKOV:
        toggle(f);
        return true;
    case CLOCK:
        tide_sim_set_clock(sim, f->a, (uint64_t)(f->value[0] * 1e9), (int64_t)(f->value[1] * 1e9));
        return true;
    }
    return false;
}

static void fault_due(void *arg) {
    struct fault *f = arg;
    if (fire(f)) {
        world.faults_fired++;
        return;
    }
    world.faults_missed++;
    tide_log(TIDE_LOG_WARN, "sim", "the fault %s of %s%s%s hits nobody: no such node runs now", fault_names[f->kind],
             f->a, f->b[0] ? " and " : "", f->b);
}

/* core.sim_fault(kind, at_s, a, b, values...): the caller has checked what they mean. */
static int core_sim_fault(lua_State *L) {
    int kind = luaL_checkoption(L, 1, NULL, fault_names);
    double at = luaL_checknumber(L, 2);
    size_t size_a, size_b;
    const char *a = luaL_optlstring(L, 3, "", &size_a), *b = luaL_optlstring(L, 4, "", &size_b);
    luaL_argcheck(L, size_a < NAME_MAX_BYTES && size_b < FILE_MAX_BYTES, 3, "name too long");
    struct fault made = {.kind = (enum fault_kind)kind};
    for (int i = 0; i < FAULT_VALUES; i++) {
        made.value[i] = luaL_optnumber(L, 5 + i, 0);
    }
    struct fault *f = world.sim ? tide_alloc(sizeof *f) : NULL;
    if (!f) {
        return luaL_error(L, world.sim ? "out of memory" : "only under tide sim");
    }
    memcpy(made.a, a, size_a + 1);
    memcpy(made.b, b, size_b + 1);
    tide_random_seed(&made.random, tide_hash(a, size_a, world.seed));
    *f = made;
    f->next = world.faults;
    world.faults = f;
    uint64_t when = (uint64_t)(at * 1e9);
    if (when <= tide_sim_now(world.sim) && kind >= SLOWNESS) {
        fault_due(f); /* a setting counts from this line on */
    } else {
        tide_sim_at(world.sim, when, fault_due, f);
    }
    return 0;
}

static double number_at(lua_State *L, const char *key, double otherwise) {
    lua_getfield(L, 1, key);
    double value = luaL_optnumber(L, -1, otherwise);
    lua_pop(L, 1);
    return value;
}

/* core.sim_compute(call_s, row_s, kernel): without a kernel, of all that have none of their own */
static int core_sim_compute(lua_State *L) {
    double call_ns = luaL_checknumber(L, 1) * 1e9, row_ns = luaL_checknumber(L, 2) * 1e9;
    const char *kernel = luaL_optstring(L, 3, NULL);
    if (!kernel) {
        tide__costs_set_default(call_ns, row_ns);
    } else if (!tide__costs_set(kernel, call_ns, row_ns)) {
        return luaL_error(L, "costs of kernel '%s' do not fit", kernel);
    }
    return 0;
}

/* core.sim_calibrate() begins; core.sim_calibrated() -> {[kernel] = {call_s=, row_s=, ...}},
 * {flop_s=, byte_s=, ...} of the work of programs | nil */
static int core_sim_calibrate(lua_State *L) {
    tide__costs_calibrate(tide__lua_host(L)->port);
    return 0;
}

static int core_sim_calibrated(lua_State *L) {
    tide__costs_push(L);
    tide__costs_push_work(L);
    return 2;
}

/* core.sim_rates(flop_s, byte_s): of programs, updates and products */
static int core_sim_rates(lua_State *L) {
    tide__costs_set_rates(luaL_checknumber(L, 1) * 1e9, luaL_checknumber(L, 2) * 1e9);
    return 0;
}

/* core.sim_work(flops, bytes): the calling fiber computes as long as that takes */
static int core_sim_work(lua_State *L) {
    tide__lua_work(L, (struct tide_work){luaL_checknumber(L, 1), luaL_optnumber(L, 2, 0)});
    return 0;
}

static const char *name_at(lua_State *L, int index) {
    size_t length;
    const char *name = luaL_checklstring(L, index, &length);
    if (length == 0 || length >= NAME_MAX_BYTES) {
        luaL_error(L, "sim_net: '%s' is no node's name", name);
    }
    return name;
}

static void set_racks(lua_State *L) {
    lua_getfield(L, 1, "racks");
    for (lua_pushnil(L); lua_istable(L, -2) && lua_next(L, -2); lua_pop(L, 1)) {
        tide_sim_set_rack(world.sim, name_at(L, -2), (unsigned)luaL_checkinteger(L, -1));
    }
    lua_settop(L, 1);
}

static void set_pairs(lua_State *L) {
    lua_getfield(L, 1, "pairs");
    for (lua_Integer i = 1; lua_istable(L, 2) && lua_rawgeti(L, 2, i) == LUA_TTABLE; i++) {
        lua_rawgeti(L, 3, 1);
        lua_rawgeti(L, 3, 2);
        lua_rawgeti(L, 3, 3);
        tide_sim_set_pair_latency(world.sim, name_at(L, 4), name_at(L, 5), (uint64_t)(luaL_checknumber(L, 6) * 1e9));
        lua_settop(L, 2);
    }
    lua_settop(L, 1);
}

/* core.sim_net{core=, window=, racks={[name]=rack}, pairs={{a, b, s}}, send=, receive=, byte=}: the
 * caller has checked what they mean. */
static int core_sim_net(lua_State *L) {
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    if (!world.sim) {
        return luaL_error(L, "only under tide sim");
    }
    set_racks(L);
    set_pairs(L);
    double core = number_at(L, "core", -1), window = number_at(L, "window", 0);
    if (core >= 0) {
        tide_sim_set_core(world.sim, (uint64_t)core);
    }
    if (window >= 1) {
        tide_sim_set_window(world.sim, (size_t)window);
    }
    double send = number_at(L, "send", -1);
    if (send >= 0) {
        struct tide_sim_costs costs = {.send_ns = (uint64_t)(send * 1e9),
                                       .receive_ns = (uint64_t)(number_at(L, "receive", 0) * 1e9),
                                       .byte_ns = number_at(L, "byte", 0) * 1e9};
        tide_sim_set_costs(world.sim, &costs);
    }
    return 0;
}

/* ---- the world ---- */

static void trace_event(void *arg, const struct tide_sim_event *e) {
    (void)arg;
    bool inside = e->number >= world.trace_first && e->number <= world.trace_last;
    if (inside || (world.trace_last == 0 && e->number % 4096 == 0)) {
        (void)fprintf(world.trace, "%llu %016llx %llu %s %s %llu %016llx\n", (unsigned long long)e->number,
                      (unsigned long long)e->hash, (unsigned long long)e->time, e->node[0] ? e->node : "-", e->kind,
                      (unsigned long long)e->length, (unsigned long long)e->checksum);
    }
}

static int open_trace(lua_State *L) {
    lua_getfield(L, 1, "trace");
    const char *path = luaL_optstring(L, -1, NULL);
    lua_getfield(L, 1, "trace_first");
    world.trace_first = (uint64_t)luaL_optinteger(L, -1, 0);
    lua_getfield(L, 1, "trace_last");
    world.trace_last = (uint64_t)luaL_optinteger(L, -1, 0);
    if (!path) {
        return 0;
    }
    world.trace = fopen(path, "w");
    if (!world.trace) {
        return tide_fail(TIDE_EIO, "cannot write the trace %s", path);
    }
    tide_sim_observe(world.sim, trace_event, NULL);
    return 0;
}

/* core.sim_open{seed=, latency_min=, latency_max=, nic=, flows=, trace=, trace_first=, trace_last=} */
static int core_sim_open(lua_State *L) {
    struct tide_lua *host = tide__lua_host(L);
    luaL_checktype(L, 1, LUA_TTABLE);
    if (!host->program || !tide__fixed_enabled() || world.sim) {
        return luaL_error(L, "sim_open: only once, in the program tide-sim");
    }
    lua_getfield(L, 1, "seed");
    world.seed = (uint64_t)luaL_checkinteger(L, -1);
    world.latency_min = number_at(L, "latency_min", 20e-6);
    world.latency_max = number_at(L, "latency_max", 20e-6);
    world.nic = number_at(L, "nic", 3.125e9);
    lua_getfield(L, 1, "flows");
    struct tide_sim_options o = {.seed = world.seed,
                                 .latency_ns_min = (uint64_t)(world.latency_min * 1e9),
                                 .latency_ns_max = (uint64_t)(world.latency_max * 1e9),
                                 .nic_bytes_per_s = (uint64_t)world.nic,
                                 .flows = lua_toboolean(L, -1),
                                 .input = host->port};
    int code = tide_sim_create(&o, &world.sim);
    code = code < 0 ? code : open_trace(L);
    if (code < 0) {
        return tide__lua_failure(L, code);
    }
    tide_sim_on_crash(world.sim, member_crashed, NULL);
    tide__costs_reset();
    tide__costs_set_default(10e3, 20e3);
    tide__costs_set_rates(1e-2, 1e-1);
    tide__fixed_seed(world.seed);
    tide__fixed_clock(wall_now);
    tide__log_set_clock(wall_now);
    lua_pushboolean(L, true);
    return 1;
}

static int push_file(void *arg, const char *path, const void *data, size_t size) {
    lua_State *L = arg;
    lua_pushlstring(L, data ? data : "", size);
    lua_setfield(L, -2, path);
    return 0;
}

/* core.sim_files(node) -> {[path] = content} of the files on its disk */
static int core_sim_files(lua_State *L) {
    const char *node = luaL_checkstring(L, 1);
    lua_newtable(L);
    if (world.sim) {
        (void)tide_sim_files(world.sim, node, push_file, L);
    }
    return 1;
}

static int core_sim_close(lua_State *L) {
    if (!tide__lua_host(L)->program || tide__lua_host(L)->node) {
        return luaL_error(L, "sim_close: the program's node still runs");
    }
    if (!world.sim) {
        return 0;
    }
    tide__simulator_end_nodes();
    tide_sim_destroy(world.sim);
    world.sim = NULL;
    for (size_t i = 0; i < world.member_count; i++) {
        tide_free(world.members[i]);
    }
    tide_free(world.members);
    world.members = NULL;
    world.member_count = world.member_room = 0;
    while (world.faults) {
        struct fault *f = world.faults;
        world.faults = f->next;
        tide_free(f);
    }
    if (world.trace) {
        (void)fclose(world.trace);
        world.trace = NULL;
    }
    return 0;
}

/* {seed=, virtual_s=, events=, hash="16 digits", faults=, faults_missed=, flows=, flow_computations=,
 * flow_splits=, latency_min=, latency_max=, nic=} | nil */
static int core_sim_report(lua_State *L) {
    if (!world.sim) {
        lua_pushnil(L);
        return 1;
    }
    char hash[24];
    struct tide_sim_flows flows;
    (void)snprintf(hash, sizeof hash, "%016llx", (unsigned long long)tide_sim_hash(world.sim));
    tide_sim_flows(world.sim, &flows);
    lua_createtable(L, 0, 12);
    tide__lua_set_integer(L, "seed", world.seed);
    tide__lua_set_number(L, "virtual_s", (double)tide_sim_now(world.sim) * 1e-9);
    tide__lua_set_integer(L, "events", tide_sim_events(world.sim));
    lua_pushstring(L, hash);
    lua_setfield(L, -2, "hash");
    tide__lua_set_integer(L, "faults", world.faults_fired);
    tide__lua_set_integer(L, "faults_missed", world.faults_missed);
    tide__lua_set_integer(L, "flows", flows.started);
    tide__lua_set_integer(L, "flow_computations", flows.computed);
    tide__lua_set_integer(L, "flow_splits", flows.split);
    tide__lua_set_number(L, "latency_min", world.latency_min);
    tide__lua_set_number(L, "latency_max", world.latency_max);
    tide__lua_set_number(L, "nic", world.nic);
    return 1;
}

/* The program beside this one that simulates; its path stays on the stack. */
static const char *push_program(lua_State *L) {
    char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 16);
    if (length < 0) {
        return NULL;
    }
    path[length] = 0;
    char *slash = strrchr(path, '/');
    memcpy(slash ? slash + 1 : path, "tide-sim", sizeof "tide-sim");
    return access(path, X_OK) == 0 ? lua_pushstring(L, path) : NULL;
}

/* core.sim_program() -> path | nil */
static int core_sim_program(lua_State *L) {
    if (!push_program(L)) {
        lua_pushnil(L);
    }
    return 1;
}

/* core.sim_become(words): this process continues as `tide-sim WORDS`; returns nil, err if it cannot.
 * Only what is the same everywhere goes along: its name is always `tide`, numbers are computed on
 * one thread, texts are in locale C. */
static int core_sim_become(lua_State *L) {
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    const char *program = push_program(L);
    if (!program) {
        int code = tide_fail(TIDE_ENOENT, "the program tide-sim is not beside tide");
        return tide__lua_failure(L, code);
    }
    lua_Integer count = (lua_Integer)lua_rawlen(L, 1);
    luaL_checkstack(L, (int)count + 2, "words");
    char **argv = lua_newuserdatauv(L, ((size_t)count + 2) * sizeof *argv, 0);
    static char name[] = "tide";
    argv[0] = name;
    for (lua_Integer i = 1; i <= count; i++) {
        lua_rawgeti(L, 1, i); /* stays on the stack */
        argv[i] = (char *)(uintptr_t)luaL_checkstring(L, -1);
    }
    argv[count + 1] = NULL;
    (void)setenv("LC_ALL", "C", 1);
    /* A thousand nodes are gigabytes that are touched in turn: most of each visit would be looking
     * up small pages. */
    (void)setenv("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1", 0);
    (void)fflush(NULL);
    (void)execv(program, argv);
    return tide__lua_failure(L, tide_fail(TIDE_EIO, "cannot run %s: %s", program, strerror(errno)));
}

/* Whether a simulated world is open, and whether this program could open one. */
static int core_simulated(lua_State *L) {
    lua_pushboolean(L, world.sim != NULL);
    lua_pushboolean(L, tide__fixed_enabled());
    return 2;
}

void tide__lua_open_simulator(lua_State *L) {
    static const luaL_Reg functions[] = {
        {"simulated", core_simulated},
        {"sim_open", core_sim_open},
        {"sim_close", core_sim_close},
        {"sim_files", core_sim_files},
        {"sim_report", core_sim_report},
        {"sim_node", core_sim_node},
        {"sim_ended", core_sim_ended},
        {"sim_kill", core_sim_kill},
        {"sim_fault", core_sim_fault},
        {"sim_compute", core_sim_compute},
        {"sim_program", core_sim_program},
        {"sim_become", core_sim_become},
        {"sim_net", core_sim_net},
        {"sim_rates", core_sim_rates},
        {"sim_work", core_sim_work},
        {"sim_calibrate", core_sim_calibrate},
        {"sim_calibrated", core_sim_calibrated},
        {NULL, NULL},
    };
    luaL_setfuncs(L, functions, 0);
}
