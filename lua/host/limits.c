/* core.limits: the table of base/limits.def for Lua. Times are seconds there. */
#include "host.h"

#include <math.h>
#include <stdlib.h>

static bool is_time(unsigned limit) {
    return tide__limits[limit].unit == TIDE_LIMIT_TIME;
}

static void push_value(lua_State *L, unsigned limit, uint64_t value) {
    if (is_time(limit)) {
        lua_pushnumber(L, (double)value / (double)TIDE_SECOND);
    } else {
        lua_pushinteger(L, (lua_Integer)value);
    }
}

static unsigned check_name(lua_State *L, int at) {
    const unsigned limit = tide__limit_find(luaL_checkstring(L, at));
    luaL_argcheck(L, limit < TIDE_LIMITS, at, "no limit has this name");
    return limit;
}

/* core.limit(name) -> value */
static int core_limit(lua_State *L) {
    const unsigned limit = check_name(L, 1);
    push_value(L, limit, tide__limit_values[limit]);
    return 1;
}

/* core.limit_set(name, value) -> true | nil, err */
static int core_limit_set(lua_State *L) {
    const unsigned limit = check_name(L, 1);
    const double value = luaL_checknumber(L, 2) * (is_time(limit) ? 1e9 : 1);
    luaL_argcheck(L, value >= 0 && value < 0x1p63, 2, "not within the range of any limit");
    int code = tide__limit_set(limit, (uint64_t)llround(value));
    if (code < 0) {
        return tide__lua_failure(L, code);
    }
    lua_pushboolean(L, true);
    return 1;
}

/* core.limits() -> {{name=, unit=, default=, least=, most=, value=, breaks=}, ...} */
static int core_limits(lua_State *L) {
    static const char *const units[] = {"count", "bytes", "time"};
    lua_createtable(L, TIDE_LIMITS, 0);
    for (unsigned i = 0; i < TIDE_LIMITS; i++) {
        const struct tide_limit *l = &tide__limits[i];
        lua_createtable(L, 0, 7);
        lua_pushstring(L, l->name);
        lua_setfield(L, -2, "name");
        lua_pushstring(L, units[l->unit]);
        lua_setfield(L, -2, "unit");
        lua_pushstring(L, l->breaks);
        lua_setfield(L, -2, "breaks");
        push_value(L, i, l->initial);
        lua_setfield(L, -2, "default");
        push_value(L, i, l->least);
        lua_setfield(L, -2, "least");
        push_value(L, i, l->most);
        lua_setfield(L, -2, "most");
        push_value(L, i, tide__limit_values[i]);
        lua_setfield(L, -2, "value");
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    return 1;
}

/* core.limits_draw(seed, share): as the simulator's seed draws them */
static int core_limits_draw(lua_State *L) {
    const uint64_t seed = (uint64_t)luaL_checkinteger(L, 1);
    const double share = luaL_checknumber(L, 2);
    for (unsigned i = 0; i < TIDE_LIMITS; i++) {
        TIDE_ASSERT(tide__limit_set(i, tide__limit_draw(i, seed, share)) == 0);
    }
    return 0;
}

/* core.limits_pass(text): processes that this one starts find it in TIDE_LIMITS */
static int core_limits_pass(lua_State *L) {
    (void)setenv("TIDE_LIMITS", luaL_checkstring(L, 1), 1);
    return 0;
}

void tide__lua_open_limits(lua_State *L) {
    static const luaL_Reg functions[] = {
        {"limit", core_limit},
        {"limit_set", core_limit_set},
        {"limits", core_limits},
        {"limits_draw", core_limits_draw},
        {"limits_pass", core_limits_pass},
        {NULL, NULL},
    };
    luaL_setfuncs(L, functions, 0);
}
