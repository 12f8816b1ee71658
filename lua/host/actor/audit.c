/* The audit log from Lua: core.audit_open, core.audit, core.audit_sync (port/audit.h). */
#include "lua/host/host.h"
#include "port/audit.h"

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

static int core_audit_sync(lua_State *L) {
    return answer(L, tide_audit_sync());
}

void tide__lua_open_audit(lua_State *L) {
    static const luaL_Reg functions[] = {
        {"audit_open", core_audit_open}, {"audit", core_audit}, {"audit_sync", core_audit_sync}, {NULL, NULL}};
    luaL_setfuncs(L, functions, 0);
}
