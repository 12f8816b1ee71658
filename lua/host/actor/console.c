/*
 * Consoles: a Lua actor's state in which untrusted lines are evaluated, each on fibers of its own
 * that can be ended at any instruction. docs/guides/console.md.
 *
 * An evaluation is a userdata that holds the limits (sandbox.h) of all fibers it started. Its hook
 * runs every 1,000 instructions: it gives the thread away after 2 ms, and once the evaluation is
 * over (cancelled, out of time, instructions or memory) it raises at every instruction, so that no
 * pcall, coroutine, metamethod or comparison keeps anything running. What Lua runs without hooks,
 * message handlers of xpcall and finalizers, and what works long in C is replaced or refused by
 * tide__sandbox_bound. The state's other fibers continue.
 *
 * A console has a maximum of memory of its own, or one together with the other consoles of this
 * process that share theirs. What a console holds it frees at the latest when its actor ends.
 */
#include "lua/host/sandbox/sandbox.h"

#include <stdatomic.h>
#include <string.h>

#define METATABLE "tide.evaluation"

enum {
    HOOK_COUNT = 1000,
    MEMORY_SLACK = 4 /* 1/4 more, in which an evaluation that is over its memory ends */
};

static atomic_int_fast64_t shared_memory; /* bytes of all states that share; relaxed: a count */

void tide__console_count(int64_t change) {
    atomic_fetch_add_explicit(&shared_memory, change, memory_order_relaxed);
}

static size_t shared_bytes(void) {
    return (size_t)atomic_load_explicit(&shared_memory, memory_order_relaxed);
}

struct tide_sandbox *tide__console_limits(struct tide_lua *host) {
    struct tide_sandbox *limits = tide__lua_current(host)->limits;
    return limits ? limits : host->console;
}

bool tide__console_memory(struct tide_lua *host, size_t more) {
    size_t max = host->memory_max, slack = max + max / MEMORY_SLACK;
    struct tide_sandbox *limits = tide__console_limits(host);
    size_t used = host->memory_shared ? shared_bytes() : host->memory;
    bool ends = limits == host->console || limits->over != TIDE_SANDBOX_WITHIN;
    if (more <= slack && used + more <= (ends ? slack : max)) {
        host->memory_refused = false;
        return true;
    }
    if (host->memory_refused && limits->over == TIDE_SANDBOX_WITHIN && limits != host->console) {
        limits->over = TIDE_SANDBOX_MEMORY; /* Lua has collected everything meanwhile */
    }
    host->memory_refused = true;
    return false;
}

static void limits_init(struct tide_sandbox *limits, struct tide_port *port) {
    memset(limits, 0, sizeof *limits); /* `self` stays NULL: these belong to a host's state */
    limits->port = port;
    limits->every = HOOK_COUNT;
    limits->limit = UINT64_MAX;
    limits->deadline = TIDE_NEVER;
    limits->started = limits->slice = tide_port_now(port);
}

/* core.console(memory_bytes, shared): the state of this actor becomes a console's, for good. `shared`: the
 * maximum is that of all consoles of this process that share. */
static int core_console(lua_State *L) {
    struct tide_lua *host = tide__lua_inside(L);
    lua_Integer memory = luaL_checkinteger(L, 1);
    luaL_argcheck(L, memory >= 1 << 22, 1, "a console needs 4 MiB");
    if (host->console || host->arena) {
        return luaL_error(L, host->console ? "this is a console already" : "there are no consoles in virtual time");
    }
    struct tide_sandbox *limits = tide_alloc(sizeof *limits);
    if (!limits) {
        return tide__lua_failure(L, tide_fail(TIDE_ENOMEM, "out of memory for a console"));
    }
    limits_init(limits, host->port);
    host->console = limits;
    lua_pushcfunction(L, tide__sandbox_bound);
    lua_call(L, 0, 0);
    host->memory_max = (size_t)memory;
    host->memory_shared = lua_toboolean(L, 2);
    if (host->memory_shared) {
        tide__console_count((int64_t)host->memory);
    }
    lua_pushboolean(L, true);
    return 1;
}

/* core.console_bytes() -> what consoles that share their memory hold together */
static int core_console_bytes(lua_State *L) {
    lua_pushinteger(L, (lua_Integer)shared_bytes());
    return 1;
}

void tide__console_close(struct tide_lua *host) {
    tide_free(host->console);
    host->console = NULL;
}

void tide__console_fiber_start(struct tide_lua_fiber *fiber) {
    struct tide_sandbox *limits = fiber->limits;
    if (!limits) {
        return;
    }
    limits->fibers++;
    if (limits->fibers == 1) {
        limits->step = fiber->L; /* where a coroutine cannot yield from */
    }
    lua_sethook(fiber->L, tide__sandbox_hook, LUA_MASKCOUNT, limits->over == TIDE_SANDBOX_WITHIN ? HOOK_COUNT : 1);
}

/* The limits live as long as their fibers: the registry holds them. Assigning nil to a key that
 * exists does not allocate, so it cannot raise. */
void tide__console_fiber_end(struct tide_lua_fiber *fiber) {
    struct tide_sandbox *limits = fiber->limits;
    if (!limits || --limits->fibers > 0) {
        return;
    }
    limits->ns = tide_port_now(limits->port) - limits->started;
    if (lua_checkstack(fiber->L, 2)) {
        lua_pushnil(fiber->L);
        lua_rawsetp(fiber->L, LUA_REGISTRYINDEX, limits);
    }
}

/* core.evaluate({instructions=}, f, ...) -> fiber, evaluation | nil, err. Fibers that f starts
 * belong to the evaluation too. */
static int core_evaluate(lua_State *L) {
    struct tide_lua *host = tide__lua_inside(L);
    luaL_checktype(L, 1, LUA_TTABLE);
    luaL_checktype(L, 2, LUA_TFUNCTION);
    if (!host->console) {
        return luaL_error(L, "evaluate: this is no console");
    }
    lua_getfield(L, 1, "instructions");
    lua_Number instructions = luaL_optnumber(L, -1, 0);
    lua_pop(L, 1);
    struct tide_sandbox *limits = lua_newuserdatauv(L, sizeof *limits, 0);
    limits_init(limits, host->port);
    limits->limit = instructions >= 1 && instructions < 1e18 ? (uint64_t)instructions : UINT64_MAX;
    luaL_setmetatable(L, METATABLE);
    lua_rawsetp(L, LUA_REGISTRYINDEX, limits);
    lua_remove(L, 1);
    host->memory_peak = host->memory;
    int pushed = tide__lua_fiber_start(L, limits);
    if (pushed > 1) { /* nil, err */
        return pushed;
    }
    lua_rawgetp(L, LUA_REGISTRYINDEX, limits);
    return 2;
}

static const char *over_name(enum tide_sandbox_over over) {
    static const char *const names[] = {NULL, "instructions", "time", "memory", "cancelled"};
    return names[over];
}

/* core.evaluation_cancel(evaluation[, "time"]): ends it and all its fibers, wherever they are. */
static int core_evaluation_cancel(lua_State *L) {
    struct tide_sandbox *limits = luaL_checkudata(L, 1, METATABLE);
    static const char *const reasons[] = {"time", "cancelled", NULL};
    bool late = luaL_checkoption(L, 2, "cancelled", reasons) == 0;
    struct tide_lua *host = tide__lua_inside(L);
    if (limits->fibers > 0 && limits->over == TIDE_SANDBOX_WITHIN) {
        limits->over = late ? TIDE_SANDBOX_TIME : TIDE_SANDBOX_CANCELLED;
    }
    for (struct tide_lua_fiber *f = host->fibers; f; f = f->next) {
        if (f->limits == limits && !f->cancelled && f->fiber && f->fiber != tide_fiber_current()) {
            f->cancelled = true;
            tide_fiber_cancel(f->fiber);
        }
    }
    return 0;
}

/* core.evaluation(evaluation) -> {instructions=, seconds=, memory_peak_bytes=, over=, fibers=} */
static int core_evaluation(lua_State *L) {
    struct tide_sandbox *limits = luaL_checkudata(L, 1, METATABLE);
    uint64_t ns = limits->fibers > 0 ? tide_port_now(limits->port) - limits->started : limits->ns;
    lua_createtable(L, 0, 5);
    tide__lua_set_integer(L, "instructions", limits->used);
    lua_pushnumber(L, (lua_Number)ns / 1e9);
    lua_setfield(L, -2, "seconds");
    tide__lua_set_integer(L, "memory_peak_bytes", tide__lua_host(L)->memory_peak);
    lua_pushinteger(L, limits->fibers);
    lua_setfield(L, -2, "fibers");
    lua_pushstring(L, over_name(limits->over));
    lua_setfield(L, -2, "over");
    return 1;
}

/* core.evaluating() -> the evaluation that the calling fiber belongs to | nil */
static int core_evaluating(lua_State *L) {
    struct tide_sandbox *limits = tide__lua_current(tide__lua_host(L))->limits;
    if (!limits) {
        return 0;
    }
    lua_rawgetp(L, LUA_REGISTRYINDEX, limits);
    return 1;
}

void tide__lua_open_console(lua_State *L) {
    static const luaL_Reg functions[] = {{"console", core_console},
                                         {"console_bytes", core_console_bytes},
                                         {"evaluate", core_evaluate},
                                         {"evaluating", core_evaluating},
                                         {"evaluation", core_evaluation},
                                         {"evaluation_cancel", core_evaluation_cancel},
                                         {NULL, NULL}};
    if (luaL_newmetatable(L, METATABLE)) {
        lua_pushboolean(L, false);
        lua_setfield(L, -2, "__metatable");
    }
    lua_pop(L, 1);
    luaL_setfuncs(L, functions, 0);
}
