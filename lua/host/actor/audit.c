/* The audit log from Lua: core.audit_open, core.audit, core.audit_sync, core.person (port/audit.h). */
#include "lua/host/host.h"
#include "port/audit.h"

#include <stdlib.h>
#include <string.h>

static int answer(lua_State *L, int code) {
    if (code < 0) {
        return tide__lua_failure(L, code);
    }
    lua_pushboolean(L, true);
    return 1;
}

/* core.audit_open(directory, node): nothing where nodes are simulated */
static int core_audit_open(lua_State *L) {
    if (tide__lua_host(L)->port->simulated) {
        return answer(L, 0);
    }
    return answer(L, tide_audit_open(luaL_checkstring(L, 1), luaL_checkstring(L, 2)));
}

static const char *text_field(lua_State *L, const char *name) {
    lua_getfield(L, 1, name); /* stays on the stack */
    return luaL_optstring(L, -1, NULL);
}

/* core.audit{verb=, right=, subject=, result=, text=, peer=, durable=} */
static int core_audit(lua_State *L) {
    char sum[65];
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    struct tide_audit_entry entry = {.verb = text_field(L, "verb"),
                                     .right = text_field(L, "right"),
                                     .subject = text_field(L, "subject"),
                                     .result = text_field(L, "result")};
    lua_getfield(L, 1, "peer");
    entry.peer = (unsigned)luaL_optinteger(L, -1, 0);
    lua_getfield(L, 1, "durable");
    entry.durable = lua_toboolean(L, -1);
    size_t size;
    lua_getfield(L, 1, "text");
    entry.text = luaL_optlstring(L, -1, NULL, &size);
    if (entry.text) {
        tide_sha256_hex(entry.text, size, sum);
        entry.sha256 = sum;
    }
    return answer(L, tide__lua_host(L)->port->simulated ? 0 : tide_audit_add(&entry));
}

/* core.person(address): the person whose client or driver sends from there, by certificate or as a user of this
 * machine; nil if none is known. Without an address: the user of this process; nil in the simulator. */
static int core_person(lua_State *L) {
    char name[100];
    const bool simulated = tide__lua_host(L)->port->simulated;
    if (!simulated && lua_isnoneornil(L, 1)) {
        tide_audit_user(name, sizeof name);
        lua_pushstring(L, name);
    } else if (!simulated &&
               tide_audit_person((unsigned)strtoul(luaL_checkstring(L, 1), NULL, 10), name, sizeof name)) {
        lua_pushstring(L, name);
    } else {
        lua_pushnil(L);
    }
    return 1;
}

static int core_audit_sync(lua_State *L) {
    return answer(L, tide_audit_sync());
}

void tide__lua_open_audit(lua_State *L) {
    static const luaL_Reg functions[] = {{"audit_open", core_audit_open},
                                         {"audit", core_audit},
                                         {"audit_sync", core_audit_sync},
                                         {"person", core_person},
                                         {NULL, NULL}};
    luaL_setfuncs(L, functions, 0);
}
