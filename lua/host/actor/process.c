/*
 * What must happen on an I/O thread: child processes and signals. A piece of work hops there as a
 * short-lived actor (tide_hop).
 */
#include "lua/host/host.h"

#include <string.h>

static const char process_metatable; /* its address is the registry key */

/* ---- processes ---- */

/* The Lua handle and the running process each hold it. Freed on whichever thread is last. */
struct child {
    atomic_uint holders;
    atomic_bool ended; /* release: pairs with the readers' acquire of status and signal */
    int status, signal;
    struct tide_process *process; /* I/O thread, except as an argument of process_id */
    struct tide_port *port;
    int pid;
};

static void child_leave(struct child *child) {
    if (atomic_fetch_sub_explicit(&child->holders, 1, memory_order_acq_rel) == 1) {
        tide_free(child);
    }
}

/* To start a process takes milliseconds, which the I/O thread does not have. */
static const enum tide_role child_thread = TIDE_ROLE_CONTROL;

static void child_ended(void *arg, int status, int signal) {
    struct child *child = arg;
    child->status = status;
    child->signal = signal;
    struct tide_process *process = child->process;
    child->process = NULL;
    atomic_store_explicit(&child->ended, true, memory_order_release);
    child->port->ops->process_release(process);
    child_leave(child);
}

struct start {
    struct tide_system *system;
    struct child *child;
    char *output;
    char **argv;
    int code;
    char reason[300];
    bool dies_with_parent, holds_input;
};

static void start_drop(void *arg) {
    struct start *start = arg;
    for (char **at = start->argv; at && *at; at++) {
        tide_free(*at);
    }
    tide_free(start->argv);
    tide_free(start->output);
    if (start->child) {
        child_leave(start->child);
    }
    tide_free(start);
}

static void start_work(void *arg) {
    struct start *start = arg;
    struct child *child = start->child;
    struct tide_process_options o = {.argv = (const char *const *)start->argv,
                                     .output = start->output,
                                     .dies_with_parent = start->dies_with_parent,
                                     .holds_input = start->holds_input,
                                     .ended = child_ended,
                                     .arg = child};
    atomic_fetch_add_explicit(&child->holders, 1, memory_order_relaxed);
    struct tide_process *process = NULL;
    start->code = child->port->ops->process_start(tide_system_executor(start->system, child_thread, 0), &o, &process);
    if (start->code < 0) {
        (void)snprintf(start->reason, sizeof start->reason, "%s", tide_error_message());
        child_leave(child);
        return;
    }
    child->process = process;
    child->pid = child->port->ops->process_id(process);
}

/* Copies the strings of the array at index 1; NULL when out of memory. */
static char **copy_argv(lua_State *L, size_t count) {
    char **argv = tide_alloc_zero(count + 1, sizeof(char *));
    for (size_t i = 0; argv && i < count; i++) {
        lua_rawgeti(L, 1, (lua_Integer)i + 1);
        argv[i] = tide_strdup(lua_tostring(L, -1)); /* checked to be strings */
        lua_pop(L, 1);
        if (!argv[i]) {
            for (size_t j = 0; j < i; j++) {
                tide_free(argv[j]);
            }
            tide_free(argv);
            return NULL;
        }
    }
    return argv;
}

static struct start *start_create(lua_State *L, struct tide_lua *host, size_t count, const char *output) {
    struct start *start = tide_alloc_zero(1, sizeof *start);
    if (!start) {
        return NULL;
    }
    start->system = tide_system_of(host->node);
    start->child = tide_alloc_zero(1, sizeof *start->child);
    start->argv = copy_argv(L, count);
    start->output = output ? tide_strdup(output) : NULL;
    if (start->child) {
        atomic_init(&start->child->holders, 1);
        start->child->port = host->port;
    }
    if (!start->child || !start->argv || (output && !start->output)) {
        start_drop(start);
        return NULL;
    }
    return start;
}

/* core.process(argv, {output = path, survive = false, input = false}); input: a pipe that this process holds */
static int core_process(lua_State *L) {
    luaL_checktype(L, 1, LUA_TTABLE);
    struct tide_lua *host = tide__lua_host(L);
    lua_settop(L, 2);
    size_t count = lua_rawlen(L, 1);
    for (size_t i = 1; i <= count; i++) {
        if (lua_rawgeti(L, 1, (lua_Integer)i) != LUA_TSTRING) {
            return luaL_error(L, "process: argument %I is %s, not a string", (lua_Integer)i, luaL_typename(L, -1));
        }
        lua_pop(L, 1);
    }
    if (count == 0 || !host->node) {
        return luaL_error(L, count == 0 ? "process: no program" : "process: no node runs");
    }
    const char *output = NULL;
    bool survive = false, input = false;
    if (!lua_isnil(L, 2)) {
        luaL_checktype(L, 2, LUA_TTABLE);
        lua_getfield(L, 2, "survive");
        survive = lua_toboolean(L, -1);
        lua_getfield(L, 2, "input");
        input = lua_toboolean(L, -1);
        lua_getfield(L, 2, "output");
        output = luaL_optstring(L, -1, NULL);
    }
    struct child **handle = lua_newuserdatauv(L, sizeof(struct child *), 0);
    *handle = NULL;
    lua_rawgetp(L, LUA_REGISTRYINDEX, &process_metatable);
    lua_setmetatable(L, -2);
    struct start *start = start_create(L, host, count, output);
    if (!start) {
        return tide__lua_failure(L, tide_fail(TIDE_ENOMEM, "out of memory"));
    }
    start->dies_with_parent = !survive;
    start->holds_input = input;
    int code = tide_hop(host->node, child_thread, start_work, start, start_drop);
    if (code == 0) {
        code = start->code < 0 ? tide_fail(start->code, "%s", start->reason) : 0;
        if (code == 0) {
            *handle = start->child;
            start->child = NULL;
        }
        start_drop(start);
    }
    code = tide__lua_resumed(L, code);
    return code < 0 ? tide__lua_failure(L, code) : 1;
}

/* core.input_ended(): whether standard input has ended, so the parent of this process has gone */
static int core_input_ended(lua_State *L) {
    lua_pushboolean(L, tide_port_input_ended());
    return 1;
}

/* core.harden(secrets): see tide_port_harden */
static int core_harden(lua_State *L) {
    int code = tide_port_harden(lua_toboolean(L, 1));
    if (code < 0) {
        return tide__lua_failure(L, code);
    }
    lua_pushboolean(L, true);
    return 1;
}

static struct child *check_process(lua_State *L) {
    struct child **handle = tide__lua_handle_at(L, 1, &process_metatable);
    if (!handle || !*handle) {
        luaL_typeerror(L, 1, "process");
        return NULL;
    }
    return *handle;
}

static int process_pid(lua_State *L) {
    lua_pushinteger(L, check_process(L)->pid);
    return 1;
}

struct signalling {
    struct child *child;
    int signal, code;
};

static void signal_work(void *arg) {
    struct signalling *s = arg;
    struct child *child = s->child;
    s->code = child->process ? child->port->ops->process_signal(child->process, s->signal) : TIDE_ENOENT;
}

static void signal_drop(void *arg) {
    child_leave(((struct signalling *)arg)->child);
    tide_free(arg);
}

static int process_signal(lua_State *L) {
    struct child *child = check_process(L);
    int signal = (int)luaL_checkinteger(L, 2);
    struct tide_lua *host = tide__lua_host(L);
    if (!host->node) {
        return luaL_error(L, "no node runs");
    }
    struct signalling *s = tide_alloc_zero(1, sizeof *s);
    if (!s) {
        return luaL_error(L, "out of memory");
    }
    *s = (struct signalling){.child = child, .signal = signal};
    atomic_fetch_add_explicit(&child->holders, 1, memory_order_relaxed);
    int code = tide_hop(host->node, child_thread, signal_work, s, signal_drop);
    if (code == 0) {
        code = s->code < 0 ? tide_fail(s->code, "process %d does not take signal %d", child->pid, signal) : 0;
        signal_drop(s);
    }
    code = tide__lua_resumed(L, code);
    if (code < 0) {
        return tide__lua_failure(L, code);
    }
    lua_pushboolean(L, true);
    return 1;
}

static int process_ended(lua_State *L) {
    struct child *child = check_process(L);
    if (!atomic_load_explicit(&child->ended, memory_order_acquire)) {
        lua_pushnil(L);
        return 1;
    }
    lua_createtable(L, 0, 2);
    lua_pushinteger(L, child->status);
    lua_setfield(L, -2, "status");
    lua_pushinteger(L, child->signal);
    lua_setfield(L, -2, "signal");
    return 1;
}

static int process_collected(lua_State *L) {
    struct child **handle = lua_touserdata(L, 1);
    if (*handle) {
        child_leave(*handle);
        *handle = NULL;
    }
    return 0;
}

void tide__lua_open_process(lua_State *L) {
    static const luaL_Reg methods[] = {
        {"pid", process_pid}, {"signal", process_signal}, {"ended", process_ended}, {NULL, NULL}};
    tide__lua_handle_class(L, &process_metatable, NULL, methods, process_collected);
    lua_pushcfunction(L, core_input_ended);
    lua_setfield(L, -2, "input_ended");
    lua_pushcfunction(L, core_harden);
    lua_setfield(L, -2, "harden");
    lua_pushcfunction(L, core_process);
    lua_setfield(L, -2, "process");
}
