/*
 * What every binding asks of its state: which host and fiber run, whether they are being cancelled, the guards around
 * coroutines that see to it, text chunks, the message handler.
 */
#include "host.h"

#include <string.h>

struct tide_lua *tide__lua_host(lua_State *L) {
    struct tide_lua *host;
    memcpy(&host, lua_getextraspace(L), sizeof host); /* new Lua threads get a copy of the main one's */
    return host;
}

struct tide_lua_fiber *tide__lua_current(struct tide_lua *host) {
    struct tide_fiber *fiber = tide_fiber_current();
    for (struct tide_lua_fiber *f = host->fibers; f; f = f->next) {
        if (f->fiber == fiber) {
            return f;
        }
    }
    return &host->main;
}

struct tide_lua *tide__lua_inside(lua_State *L) {
    struct tide_lua *host = tide__lua_host(L);
    if (host->program || !tide_fiber_current()) {
        luaL_error(L, "only an actor can do this: call it from a script that a node runs");
    }
    return host;
}

/* ---- cancelling ---- */

/* Raises at every instruction: no pcall can swallow it for longer than its own body. */
static void cancelled_hook(lua_State *L, lua_Debug *ar) {
    (void)ar;
    tide__lua_push_error(L, "ECANCELED", "cancelled", NULL);
    lua_error(L);
}

/* lua_sethook is one of the few things that a signal may do to a state of its own thread. A hook is of one Lua thread:
 * the coroutine that runs gets it, and its resumer when it comes back (resumed). */
void tide__lua_interrupt(struct tide_lua *host) {
    struct tide_lua_fiber *fiber = tide__lua_current(host);
    lua_State *L = fiber->running ? fiber->running : fiber->L;
    host->killed = true;
    if (L) {
        lua_sethook(L, cancelled_hook, LUA_MASKCALL | LUA_MASKRET | LUA_MASKLINE | LUA_MASKCOUNT, 1);
    }
}

static int raise_cancelled(lua_State *L) {
    struct tide_lua_fiber *fiber = tide__lua_current(tide__lua_host(L));
    lua_sethook(L, cancelled_hook, LUA_MASKCOUNT, 1);
    if (fiber->L) {
        lua_sethook(fiber->L, cancelled_hook, LUA_MASKCOUNT, 1);
    }
    tide__lua_push_error(L, "ECANCELED", "cancelled", NULL);
    return lua_error(L);
}

/* ECANCELED may be an answer of another actor. To a fiber that is being ended every wait returns it. */
static bool is_ending(void) {
    char text[512];
    (void)snprintf(text, sizeof text, "%s", tide_error_message());
    const bool ending = !tide_fiber_current() || tide_yield() == TIDE_ECANCELED;
    (void)tide_fail(TIDE_ECANCELED, "%s", text); /* others have run meanwhile */
    return ending;
}

static bool is_cancelled(struct tide_lua *host) {
    return host->killed || (!host->program && tide__lua_current(host)->cancelled);
}

int tide__lua_resumed(lua_State *L, int code) {
    struct tide_lua *host = tide__lua_host(L);
    if (code == TIDE_ECANCELED && !host->program && !host->killed) {
        host->killed = !tide__lua_current(host)->cancelled && (TIDE_MUTANT(answer_is_an_end) || is_ending());
    }
    return is_cancelled(host) ? raise_cancelled(L) : code;
}

int tide__lua_on_disk(lua_State *L, void (*work)(void *arg), void *arg, void (*drop)(void *arg)) {
    struct tide_lua *host = tide__lua_host(L);
    if (!host->node || !tide_fiber_current()) {
        work(arg);
        return 0;
    }
    if (is_cancelled(host)) { /* it can wait for nothing any more, and what it writes is its last */
        tide__watch_aside(work, arg);
        return 0;
    }
    const int code = tide_hop(host->node, TIDE_ROLE_DISK, work, arg, drop);
    if (code == 0 && is_cancelled(host)) {
        drop(arg);
    }
    return tide__lua_resumed(L, code);
}

/* ---- guards ---- */

/* A coroutine begins to run on the fiber, or comes back; returns which ran before. */
static lua_State *switch_to(struct tide_lua_fiber *fiber, lua_State *co) {
    lua_State *before = fiber->running;
    fiber->running = co;
    return before;
}

/* Back in `L`, which resumed a coroutine: what ended that is not over. */
static void came_back(lua_State *L, struct tide_lua_fiber *fiber, lua_State *before) {
    fiber->running = before;
    if (fiber->host->killed && !fiber->host->program) {
        lua_sethook(L, cancelled_hook, LUA_MASKCOUNT, 1);
    }
}

/* Calls upvalue 1 with all arguments, counting how deep such calls nest on this fiber. Upvalue 2: the
 * coroutine that it resumes, or nil. */
static int guarded_call(lua_State *L) {
    struct tide_lua_fiber *fiber = tide__lua_current(tide__lua_host(L));
    lua_State *co = lua_tothread(L, lua_upvalueindex(2));
    if (fiber->close_depth >= TIDE_LUA_CLOSE_DEPTH) {
        return luaL_error(L, "coroutines nested more than %d deep", TIDE_LUA_CLOSE_DEPTH);
    }
    fiber->close_depth++;
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_State *before = switch_to(fiber, co ? co : fiber->running);
    int status = lua_pcall(L, lua_gettop(L) - 1, LUA_MULTRET, 0);
    came_back(L, fiber, before);
    fiber->close_depth--;
    return status == LUA_OK ? lua_gettop(L) : lua_error(L);
}

static int guarded_wrap(lua_State *L) {
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_call(L, lua_gettop(L) - 1, 1);
    if (!lua_getupvalue(L, -1, 1)) { /* the coroutine */
        lua_pushnil(L);
    }
    lua_pushcclosure(L, guarded_call, 2);
    return 1;
}

/* coroutine.resume, upvalue 1, which raises nothing but wrong arguments. */
static int tracked_resume(lua_State *L) {
    luaL_checktype(L, 1, LUA_TTHREAD);
    struct tide_lua_fiber *fiber = tide__lua_current(tide__lua_host(L));
    lua_State *before = switch_to(fiber, lua_tothread(L, 1));
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
    came_back(L, fiber, before);
    return lua_gettop(L);
}

void tide__lua_guard_coroutines(lua_State *L) {
    lua_getglobal(L, "coroutine");
    lua_getfield(L, -1, "close");
    lua_pushnil(L);
    lua_pushcclosure(L, guarded_call, 2);
    lua_setfield(L, -2, "close");
    lua_getfield(L, -1, "resume");
    lua_pushcclosure(L, tracked_resume, 1);
    lua_setfield(L, -2, "resume");
    lua_getfield(L, -1, "wrap");
    lua_pushcclosure(L, guarded_wrap, 1);
    lua_setfield(L, -2, "wrap");
    lua_pop(L, 1);
}

/* ---- loading ---- */

int tide__lua_load(lua_State *L, const char *source, size_t size, const char *chunk) {
    size_t skip = 0;
    if (size > 0 && source[0] == '#') { /* "#!/usr/bin/env tide": the newline stays, lines keep their numbers */
        while (skip < size && source[skip] != '\n') {
            skip++;
        }
    }
    return luaL_loadbufferx(L, source + skip, size - skip, chunk, "t");
}

/* ---- message handler ---- */

/* "script.lua:12: text" becomes where and message. Pushes an error table for the string at index 1.
 */
static void split_position(lua_State *L) {
    const char *text = lua_tostring(L, 1), *colon = strchr(text, ':');
    while (colon) {
        size_t digits = strspn(colon + 1, "0123456789");
        if (digits > 0 && colon[1 + digits] == ':' && colon[2 + digits] == ' ') {
            const char *where = lua_pushlstring(L, text, (size_t)(colon + 1 + digits - text));
            tide__lua_push_error(L, "ECRASHED", colon + 3 + digits, where);
            return;
        }
        colon = strchr(colon + 1, ':');
    }
    tide__lua_push_error(L, "ECRASHED", text, "");
}

int tide__lua_traceback(lua_State *L) {
    if (lua_type(L, 1) != LUA_TTABLE) {
        if (lua_type(L, 1) != LUA_TSTRING) {
            luaL_tolstring(L, 1, NULL);
            lua_replace(L, 1);
        }
        split_position(L);
        lua_replace(L, 1);
    }
    lua_settop(L, 1);
    lua_pushliteral(L, "trace");
    if (lua_rawget(L, 1) == LUA_TNIL) {
        luaL_traceback(L, L, NULL, 1);
        lua_pushliteral(L, "trace");
        lua_insert(L, -2);
        lua_rawset(L, 1);
    }
    lua_settop(L, 1);
    return 1;
}
