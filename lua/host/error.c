/*
 * Errors as Lua sees them: tables {name=, message=, where=, node=} with a metatable that prints
 * them; and their way through the text of an error answer to a caller on another node.
 */
#include "host.h"
#include "net/net.h"

#include <stdarg.h>
#include <string.h>

static const char error_metatable; /* its address is the registry key */

static const int codes[] = {
    TIDE_EINVAL,    TIDE_ENOMEM,    TIDE_EBUSY,      TIDE_ETIMEDOUT,  TIDE_EUNREACHABLE, TIDE_EDIED,
    TIDE_EREFUSED,  TIDE_ECANCELED, TIDE_ENOENT,     TIDE_EEXIST,     TIDE_EFULL,        TIDE_EPROTO,
    TIDE_ELIMIT,    TIDE_ERANGE,    TIDE_EIO,        TIDE_ENOSPC,     TIDE_EPERM,        TIDE_EVERSION,
    TIDE_EMISMATCH, TIDE_ENAN,      TIDE_EADDRINUSE, TIDE_ECLOSED,    TIDE_EUNSUPPORTED, TIDE_EKILLED,
    TIDE_ECRASHED,  TIDE_ELOST,     TIDE_EFENCED,    TIDE_ENOREPLICA, TIDE_EACCES,       TIDE_EMFILE,
};

int tide__lua_error_code(const char *name) {
    for (size_t i = 0; i < TIDE_COUNT(codes); i++) {
        if (strcmp(tide_error_name(codes[i]), name) == 0) {
            return codes[i];
        }
    }
    return 0;
}

static int error_tostring(lua_State *L) {
    lua_settop(L, 1);
    const char *where = lua_getfield(L, 1, "where") == LUA_TSTRING ? lua_tostring(L, -1) : NULL;
    const char *message = lua_getfield(L, 1, "message") == LUA_TSTRING ? lua_tostring(L, -1) : NULL;
    const char *name = lua_getfield(L, 1, "name") == LUA_TSTRING ? lua_tostring(L, -1) : "error";
    if (where) {
        lua_pushfstring(L, "%s: %s", where, message ? message : name);
    } else {
        lua_pushstring(L, message ? message : name);
    }
    return 1;
}

static void set_error_metatable(lua_State *L) {
    if (lua_rawgetp(L, LUA_REGISTRYINDEX, &error_metatable) == LUA_TNIL) {
        lua_pop(L, 1);
        lua_createtable(L, 0, 2);
        lua_pushcfunction(L, error_tostring);
        lua_setfield(L, -2, "__tostring");
        lua_pushliteral(L, "tide.error");
        lua_setfield(L, -2, "__name");
        lua_pushvalue(L, -1);
        lua_rawsetp(L, LUA_REGISTRYINDEX, &error_metatable);
    }
    lua_setmetatable(L, -2);
}

void tide__lua_push_error(lua_State *L, const char *name, const char *message, const char *where) {
    lua_createtable(L, 0, 5);
    lua_pushstring(L, name);
    lua_setfield(L, -2, "name");
    lua_pushstring(L, message);
    lua_setfield(L, -2, "message");
    if (where) {
        lua_pushstring(L, where);
    } else {
        luaL_where(L, 1);
        size_t size;
        const char *text = lua_tolstring(L, -1, &size);
        lua_pushlstring(L, text, size > 2 ? size - 2 : 0); /* without the ": " */
        lua_remove(L, -2);
    }
    if (lua_rawlen(L, -1) > 0) {
        lua_setfield(L, -2, "where");
    } else {
        lua_pop(L, 1);
    }
    struct tide_lua *host = tide__lua_host(L);
    if (host->node && tide_node_name(host->node)[0]) { /* a client may have none */
        lua_pushstring(L, tide_node_name(host->node));
        lua_setfield(L, -2, "node");
    }
    set_error_metatable(L);
}

/* What the last failure of this fiber says. */
static void push_failure(lua_State *L, int code) {
    const uint32_t retry_after_ms = code == TIDE_EBUSY ? tide_error_retry_after_ms() : 0;
    tide__lua_push_error(L, tide_error_name(code), tide_error_message(), NULL);
    if (retry_after_ms > 0) {
        tide__lua_set_integer(L, "retry_after_ms", retry_after_ms);
    }
}

int tide__lua_failure(lua_State *L, int code) {
    lua_pushnil(L);
    push_failure(L, code);
    return 2;
}

int tide__lua_raise(lua_State *L, int code) {
    push_failure(L, code);
    return lua_error(L);
}

int tide__lua_raisef(lua_State *L, int code, const char *format, ...) {
    char text[400];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    tide__lua_push_error(L, tide_error_name(code), text, NULL);
    return lua_error(L);
}

/* A string field read without metamethods and without creating strings that could run out of memory
 * uncaught. */
static const char *raw_field(lua_State *L, int index, const char *key) {
    lua_pushstring(L, key);
    const char *text = lua_rawget(L, index) == LUA_TSTRING ? lua_tostring(L, -1) : NULL;
    lua_pop(L, 1); /* the table keeps the string alive */
    return text;
}

/* A number field as text; NULL: there is none. */
static const char *raw_number(lua_State *L, int index, const char *key, char *out, size_t capacity) {
    lua_pushstring(L, key);
    bool is = lua_rawget(L, index) == LUA_TNUMBER;
    (void)snprintf(out, capacity, "%.6g", is ? lua_tonumber(L, -1) : 0.0);
    lua_pop(L, 1);
    return is ? out : NULL;
}

const char *tide__lua_error_text(lua_State *L, int index) {
    index = lua_absindex(L, index);
    if (lua_type(L, index) == LUA_TSTRING) {
        return lua_tostring(L, index);
    }
    if (lua_type(L, index) == LUA_TTABLE) {
        const char *message = raw_field(L, index, "message");
        return message ? message : "error object without a message";
    }
    return "error object that is no string";
}

/* Short strings first, so that a truncated answer loses the end of the message only. */
static const char *const packed_fields[] = {"name", "code", "where", "node", "retry_after_s"};

int tide__lua_error_pack(lua_State *L, int index, char *out, size_t capacity) {
    index = lua_absindex(L, index);
    char fields[260];
    size_t used = 0;
    int code = TIDE_EREFUSED;
    fields[0] = 0;
    if (lua_type(L, index) == LUA_TTABLE) {
        for (size_t i = 0; i < TIDE_COUNT(packed_fields); i++) {
            char number[32];
            const char *text = raw_field(L, index, packed_fields[i]);
            text = text ? text : raw_number(L, index, packed_fields[i], number, sizeof number);
            if (!text || strlen(text) > 63 || strchr(text, '\n')) {
                continue;
            }
            used += (size_t)snprintf(fields + used, sizeof fields - used, "\n  %s: %s", packed_fields[i], text);
            if (i == 0 && tide__lua_error_code(text)) {
                code = tide__lua_error_code(text);
            }
            if (used >= sizeof fields - 80) {
                break;
            }
        }
    }
    const char *message = tide__lua_error_text(L, index);
    int room = (int)(capacity - 1 - strlen(fields));
    (void)snprintf(out, capacity, "%.*s%s", room, message, fields);
    return code;
}

/* Sets the node of an error that came from no node: that of the callee, which did not answer. What a callee says has
 * the node that it names, or none. */
static void set_node(lua_State *L, int table, bool refused, tide_address callee) {
    struct tide_node *node = tide__lua_host(L)->node;
    struct tide_member member;
    lua_pushnil(L);
    if (!refused && node && tide_net_of(node) &&
        tide_net_member(tide_net_of(node), tide_address_node(callee), &member)) {
        lua_pushstring(L, member.name);
    }
    lua_setfield(L, table, "node");
    lua_settop(L, table);
}

void tide__lua_error_unpack(lua_State *L, int code, const char *text, tide_address callee) {
    tide__lua_push_error(L, tide_error_name(code), text, NULL);
    int table = lua_gettop(L);
    bool refused = code == TIDE_EREFUSED, named = false;
    size_t end = strlen(text);
    for (;;) { /* the fields stand at the end, one a line */
        size_t line = end;
        while (line > 0 && text[line - 1] != '\n') {
            line--;
        }
        const char *key = NULL;
        for (size_t i = 0; line > 0 && i < TIDE_COUNT(packed_fields); i++) {
            size_t length = strlen(packed_fields[i]);
            if (end - line > length + 4 && memcmp(text + line, "  ", 2) == 0 &&
                memcmp(text + line + 2, packed_fields[i], length) == 0 && text[line + 2 + length] == ':') {
                key = packed_fields[i];
            }
        }
        if (!key) {
            break;
        }
        size_t value = line + 4 + strlen(key);
        lua_pushlstring(L, text + value, end - value);
        if (strcmp(key, "retry_after_s") == 0 && lua_stringtonumber(L, lua_tostring(L, -1)) != 0) {
            lua_remove(L, -2);
        }
        lua_setfield(L, table, key);
        named = named || strcmp(key, "node") == 0;
        end = line - 1;
        refused = true;
    }
    if (!named) {
        set_node(L, table, refused, callee);
    }
    if (refused) { /* whatever its name: the callee is alive and said no */
        lua_pushboolean(L, true);
        lua_setfield(L, table, "refused");
    }
    lua_pushlstring(L, text, end);
    lua_setfield(L, table, "message");
}
