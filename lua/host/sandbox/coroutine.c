/*
 * xpcall and coroutines for sandboxes (sandbox.h), where Lua's own would let a script run without
 * the hook: a message handler of an error that the hook raised, a __close of a coroutine that the
 * hook ended.
 */
#include "sandbox.h"

static int xpcall_failed(lua_State *L, int status, lua_KContext base) {
    (void)status;
    lua_pushboolean(L, 0);
    lua_insert(L, (int)base);
    return lua_gettop(L) - (int)base + 1;
}

static int xpcall_done(lua_State *L, int status, lua_KContext handler) {
    if (status == LUA_OK || status == LUA_YIELD) {
        lua_pushboolean(L, 1);
        lua_replace(L, (int)handler);
        return lua_gettop(L) - (int)handler + 1;
    }
    tide__sandbox_charge(L, tide__sandbox_of(L), 10);
    lua_pushvalue(L, (int)handler);
    lua_insert(L, -2);
    int base = lua_gettop(L) - 1;
    (void)lua_pcallk(L, 1, LUA_MULTRET, 0, base, xpcall_failed); /* its own error is the result */
    return xpcall_failed(L, LUA_OK, base);
}

/* The handler runs after the stack was unwound: as Lua's message handler it would run without the
 * hook. */
int tide__sandbox_xpcall(lua_State *L) {
    luaL_checktype(L, 2, LUA_TFUNCTION);
    lua_pushvalue(L, 1); /* f, handler, arguments... -> f, handler, f, arguments... */
    lua_insert(L, 3);
    return xpcall_done(L, lua_pcallk(L, lua_gettop(L) - 3, LUA_MULTRET, 0, 2, xpcall_done), 2);
}

/* Runs `co` with the arguments on top of L. Number of results on L, or -1 and the error. */
static int resume(lua_State *L, lua_State *co, int arguments) {
    struct tide_sandbox *s = tide__sandbox_of(L);
    int results;
    tide__sandbox_charge(L, s, TIDE_SANDBOX_HOOK); /* the hook starts anew in each coroutine */
    if (!lua_checkstack(co, arguments) || (lua_status(co) == LUA_OK && lua_gettop(co) == 0)) {
        lua_pushliteral(L, "cannot resume dead coroutine");
        return -1;
    }
    if (co == L || (lua_status(co) != LUA_OK && lua_status(co) != LUA_YIELD)) {
        lua_pushliteral(L, "cannot resume this coroutine");
        return -1;
    }
    lua_Debug ar;
    if (lua_status(co) == LUA_OK && lua_getstack(co, 0, &ar)) {
        lua_pushliteral(L, "cannot resume non-suspended coroutine");
        return -1;
    }
    lua_xmove(L, co, arguments);
    int status = lua_resume(co, L, arguments, &results);
    tide__sandbox_charge(L, s, 1); /* over: this coroutine ends too */
    if (status != LUA_OK && status != LUA_YIELD) {
        lua_xmove(co, L, 1);
        return -1;
    }
    if (!lua_checkstack(L, results + 1)) {
        lua_pop(co, results);
        lua_pushliteral(L, "too many results to resume");
        return -1;
    }
    lua_xmove(co, L, results);
    return results;
}

static lua_State *check_coroutine(lua_State *L) {
    lua_State *co = lua_tothread(L, 1);
    luaL_argexpected(L, co, 1, "coroutine");
    return co;
}

static int co_resume(lua_State *L) {
    lua_State *co = check_coroutine(L);
    int count = resume(L, co, lua_gettop(L) - 1);
    lua_pushboolean(L, count >= 0);
    int given = count < 0 ? 1 : count;
    lua_insert(L, -(given + 1));
    return given + 1;
}

static int co_create(lua_State *L) {
    luaL_checktype(L, 1, LUA_TFUNCTION);
    tide__sandbox_charge(L, tide__sandbox_of(L), TIDE_SANDBOX_HOOK);
    lua_State *co = lua_newthread(L);
    lua_pushvalue(L, 1);
    lua_xmove(L, co, 1);
    return 1;
}

static int wrapped(lua_State *L) {
    int count = resume(L, lua_tothread(L, lua_upvalueindex(1)), lua_gettop(L));
    return count < 0 ? lua_error(L) : count;
}

static int co_wrap(lua_State *L) {
    (void)co_create(L);
    lua_pushcclosure(L, wrapped, 1);
    return 1;
}

static int co_yield (lua_State *L) {
    if (L == tide__sandbox_of(L)->step) {
        return luaL_error(L, "attempt to yield from outside a coroutine");
    }
    return lua_yield(L, lua_gettop(L));
}

static int co_isyieldable(lua_State *L) {
    lua_pushboolean(L, L != tide__sandbox_of(L)->step && lua_isyieldable(L));
    return 1;
}

static int co_running(lua_State *L) {
    (void)lua_pushthread(L);
    lua_pushboolean(L, L == tide__sandbox_of(L)->step);
    return 2;
}

void tide__sandbox_open_coroutines(lua_State *L) {
    static const luaL_Reg coroutines[] = {{"create", co_create}, {"isyieldable", co_isyieldable},
                                          {"resume", co_resume}, {"running", co_running},
                                          {"wrap", co_wrap},     {"yield", co_yield },
                                          {NULL, NULL}};
    luaL_newlib(L, coroutines);
}
