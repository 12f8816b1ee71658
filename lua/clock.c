/* Clocks of workers for Lua. */
#include "host.h"

/* worker, clock -> true | nil, err */
static int core_worker_begin(lua_State *L) {
    struct tide_lua *host = tide__lua_inside(L);
    lua_Integer worker = luaL_checkinteger(L, 1), clock = luaL_optinteger(L, 2, 0);
    luaL_argcheck(L, worker >= 0 && worker <= UINT32_MAX, 1, "the number of a worker");
    luaL_argcheck(L, clock >= 0 && clock <= INT32_MAX, 2, "a clock");
    int code = tide__lua_resumed(
        L, tide_worker_begin(host->node, (uint32_t)worker, (uint32_t)clock));
    if (code < 0) {
        return tide__lua_failure(L, code);
    }
    lua_pushboolean(L, true);
    return 1;
}

static int core_worker_end(lua_State *L) {
    (void)tide__lua_inside(L);
    tide_worker_end();
    return 0;
}

/* -> clock; raises what fails */
static int core_clock(lua_State *L) {
    (void)tide__lua_inside(L);
    int code = tide__lua_resumed(L, tide_clock());
    if (code < 0) {
        return tide__lua_raise(L, code);
    }
    lua_pushinteger(L, code);
    return 1;
}

void tide__lua_open_clock(lua_State *L) {
    static const luaL_Reg functions[] = {{"worker_begin", core_worker_begin},
                                         {"worker_end", core_worker_end},
                                         {"clock", core_clock},
                                         {NULL, NULL}};
    luaL_setfuncs(L, functions, 0);
}
