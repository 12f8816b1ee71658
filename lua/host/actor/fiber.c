/*
 * core.fiber: further fibers of a Lua actor, each with a Lua thread of its own in the actor's
 * state. A handle is a userdata that embeds the fiber's record; the registry holds it while the
 * fiber lives, it holds the Lua thread.
 */
#include "lua/host/host.h"

static const char handle_metatable; /* its address is the registry key */

static struct tide_lua_fiber *check_handle(lua_State *L) {
    return tide__lua_handle_check(L, 1, &handle_metatable, "fiber");
}

static void unlink_fiber(struct tide_lua_fiber *fiber) {
    for (struct tide_lua_fiber **at = &fiber->host->fibers; *at; at = &(*at)->next) {
        if (*at == fiber) {
            *at = fiber->next;
            return;
        }
    }
}

static void fiber_run(void *arg) {
    struct tide_lua_fiber *fiber = arg;
    struct tide_lua *host = fiber->host;
    lua_State *L = fiber->L; /* stack: message handler, f, arguments */
    fiber->fiber = tide_fiber_current();
    fiber->status = lua_pcall(L, fiber->argument_count, LUA_MULTRET, 1);
    fiber->done = true;
    unlink_fiber(fiber);
    tide__console_fiber_end(fiber);
    for (struct tide_lua_fiber *f = host->fibers; f; f = f->next) {
        if (f->waits_for == fiber && f->fiber) {
            tide_fiber_wake(f->fiber);
        }
    }
    fiber->fiber = NULL;
    /* Unanchors the handle: the next collection may free it and L. Assigning nil to a key that
     * exists does not allocate, so it cannot raise. */
    if (lua_checkstack(L, 2)) {
        lua_pushnil(L);
        lua_rawsetp(L, LUA_REGISTRYINDEX, fiber);
    }
}

int tide__lua_fiber_start(lua_State *L, struct tide_sandbox *limits) {
    luaL_checktype(L, 1, LUA_TFUNCTION);
    struct tide_lua *host = tide__lua_inside(L);
    int count = lua_gettop(L);
    struct tide_lua_fiber *fiber = lua_newuserdatauv(L, sizeof *fiber, 1);
    *fiber = (struct tide_lua_fiber){.host = host, .argument_count = count - 1, .limits = limits};
    lua_rawgetp(L, LUA_REGISTRYINDEX, &handle_metatable);
    lua_setmetatable(L, -2);
    fiber->L = lua_newthread(L); /* inherits the hook */
    lua_setiuservalue(L, -2, 1);
    if (!lua_checkstack(fiber->L, count + 2)) {
        return luaL_error(L, "too many arguments");
    }
    lua_pushcfunction(fiber->L, tide__lua_traceback);
    for (int i = 1; i <= count; i++) {
        lua_pushvalue(L, i);
    }
    lua_xmove(L, fiber->L, count);
    lua_pushvalue(L, -1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, fiber);
    tide__console_fiber_start(fiber);
    int code = tide_fiber_start(fiber_run, fiber, TIDE_LUA_STACK, &fiber->fiber);
    if (code < 0) {
        lua_pushnil(L);
        lua_rawsetp(L, LUA_REGISTRYINDEX, fiber);
        tide__console_fiber_end(fiber);
        return tide__lua_failure(L, code);
    }
    fiber->next = host->fibers;
    host->fibers = fiber;
    return 1;
}

static int core_fiber(lua_State *L) {
    return tide__lua_fiber_start(L, tide__lua_current(tide__lua_host(L))->limits);
}

/* Moves results or the error to the waiter: true, results... | nil, err. They stay for further
 * waits. */
static int push_outcome(lua_State *L, struct tide_lua_fiber *fiber) {
    fiber->observed = true;
    int count = lua_gettop(fiber->L) - 1;
    if (fiber->status != LUA_OK) {
        lua_pushnil(L);
        lua_pushvalue(fiber->L, -1);
        lua_xmove(fiber->L, L, 1);
        return 2;
    }
    luaL_checkstack(L, count + 2, "results of a fiber");
    if (!lua_checkstack(fiber->L, count)) {
        return luaL_error(L, "too many results");
    }
    lua_pushboolean(L, true);
    for (int i = 0; i < count; i++) {
        lua_pushvalue(fiber->L, 2 + i);
    }
    lua_xmove(fiber->L, L, count);
    return count + 1;
}

static int core_fiber_wait(lua_State *L) {
    struct tide_lua_fiber *fiber = check_handle(L);
    struct tide_lua *host = tide__lua_inside(L);
    struct tide_lua_fiber *self = tide__lua_current(host);
    uint64_t deadline = tide__lua_deadline(host, tide__lua_duration(L, 2, TIDE_NEVER));
    if (fiber == self) {
        return luaL_error(L, "a fiber cannot wait for itself");
    }
    while (!fiber->done) {
        self->waits_for = fiber;
        int code = tide_fiber_suspend(deadline, "fiber");
        self->waits_for = NULL;
        (void)tide__lua_resumed(L, code); /* also when it has ended: an actor that ends runs nothing more */
        if (code < 0 && !fiber->done) {
            return tide__lua_failure(L, code);
        }
    }
    return push_outcome(L, fiber);
}

static int core_fiber_cancel(lua_State *L) {
    struct tide_lua_fiber *fiber = check_handle(L);
    fiber->observed = true; /* its error is expected */
    if (!fiber->done && !fiber->cancelled) {
        fiber->cancelled = true;
        if (fiber->fiber && fiber->fiber != tide_fiber_current()) {
            tide_fiber_cancel(fiber->fiber);
        }
    }
    return 0;
}

/* An error without a waiter must not be lost. */
static int handle_collected(lua_State *L) {
    struct tide_lua_fiber *fiber = lua_touserdata(L, 1);
    if (fiber->done && !fiber->observed && fiber->status != LUA_OK && fiber->host->node && !fiber->host->killed) {
        tide_log(TIDE_LOG_WARN, tide_node_name(fiber->host->node), "a fiber ended with an error nobody waited for: %s",
                 tide__lua_error_text(fiber->L, -1));
    }
    return 0;
}

void tide__lua_open_fiber(lua_State *L) {
    static const luaL_Reg functions[] = {
        {"fiber", core_fiber}, {"fiber_wait", core_fiber_wait}, {"fiber_cancel", core_fiber_cancel}, {NULL, NULL}};
    luaL_setfuncs(L, functions, 0);
    lua_createtable(L, 0, 2);
    lua_pushcfunction(L, handle_collected);
    lua_setfield(L, -2, "__gc");
    lua_pushliteral(L, "tide.fiber");
    lua_setfield(L, -2, "__name");
    lua_rawsetp(L, LUA_REGISTRYINDEX, &handle_metatable);
}
