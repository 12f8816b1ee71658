/* Userdata of a class: a metatable of the host's that scripts cannot reach. */
#include "lua/host/host.h"

void *tide__lua_handle_at(lua_State *L, int index, const void *class) {
    void *handle = lua_touserdata(L, index);
    if (!handle || lua_islightuserdata(L, index) || !lua_getmetatable(L, index)) {
        return NULL;
    }
    lua_rawgetp(L, LUA_REGISTRYINDEX, class);
    const bool same = lua_rawequal(L, -1, -2);
    lua_pop(L, 2);
    return same ? handle : NULL;
}

void *tide__lua_handle_check(lua_State *L, int index, const void *class, const char *what) {
    void *handle = tide__lua_handle_at(L, index, class);
    if (!handle) {
        luaL_typeerror(L, index, what);
    }
    return handle;
}

void tide__lua_handle_class(lua_State *L, const void *class, const char *name, const luaL_Reg *methods,
                            lua_CFunction gc) {
    lua_createtable(L, 0, 5);
    if (methods) {
        lua_newtable(L);
        luaL_setfuncs(L, methods, 0);
        lua_setfield(L, -2, "__index");
    }
    if (gc) {
        lua_pushcfunction(L, gc);
        lua_setfield(L, -2, "__gc");
    }
    if (name) {
        lua_pushstring(L, name);
        lua_setfield(L, -2, "__name");
    }
    lua_pushboolean(L, false);
    lua_setfield(L, -2, "__metatable");
    lua_rawsetp(L, LUA_REGISTRYINDEX, class);
}
