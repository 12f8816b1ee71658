/* Certificates for `tide keys`: core.keys_authority, core.keys_issue, core.keys_read. PEM texts in and out; files are
 * lua/tide/cluster/keys.lua's. */
#include "lua/host/host.h"
#include "net/tls/keys.h"

#include <string.h>

static int64_t now_s(lua_State *L) {
    struct tide_port *port = tide__lua_host(L)->port;
    return (int64_t)(port->ops->wall(port) / TIDE_SECOND);
}

static void push_taken(lua_State *L, char *text) {
    lua_pushstring(L, text ? text : "");
    tide_free(text);
}

/* core.keys_authority(cluster) -> certificate, key */
static int core_keys_authority(lua_State *L) {
    char *certificate = NULL, *key = NULL;
    int rc = tide_keys_make_authority(luaL_checkstring(L, 1), now_s(L), NULL, &certificate, &key);
    if (rc < 0) {
        return tide__lua_failure(L, rc);
    }
    push_taken(L, certificate);
    push_taken(L, key);
    return 2;
}

static void set_text(lua_State *L, const char *field, const char *text) {
    lua_pushstring(L, text);
    lua_setfield(L, -2, field);
}

static void push_identity(lua_State *L, const struct tide_identity *who) {
    lua_createtable(L, 0, 6);
    set_text(L, "cluster", who->cluster);
    set_text(L, "right", tide_right_name(who->right));
    set_text(L, "name", who->name);
    set_text(L, "serial", who->serial);
    tide__lua_set_integer(L, "from", (uint64_t)who->from);
    tide__lua_set_integer(L, "until_s", (uint64_t)who->until);
}

static void text_field(lua_State *L, int index, const char *name, char out[64]) {
    lua_getfield(L, index, name);
    const char *text = luaL_checkstring(L, -1);
    luaL_argcheck(L, strlen(text) < 64, index, "a name has up to 63 characters");
    snprintf(out, 64, "%s", text);
    lua_pop(L, 1);
}

/* core.keys_issue(authority's certificate, its key, {cluster=, right=, name=, days=}) -> certificate, key, identity */
static int core_keys_issue(lua_State *L) {
    struct tide_identity who = {0};
    char right[64];
    const char *authority = luaL_checkstring(L, 1), *authority_key = luaL_checkstring(L, 2);
    luaL_checktype(L, 3, LUA_TTABLE);
    text_field(L, 3, "cluster", who.cluster);
    text_field(L, 3, "name", who.name);
    text_field(L, 3, "right", right);
    who.right = (uint8_t)tide_right_parse(right);
    lua_getfield(L, 3, "days");
    lua_Integer days = luaL_checkinteger(L, -1);
    luaL_argcheck(L, days > 0 && days < 100000, 3, "days");
    char *certificate = NULL, *key = NULL;
    int rc = tide_keys_issue(authority, authority_key, &who, now_s(L), (unsigned)days, NULL, &certificate, &key);
    if (rc < 0) {
        return tide__lua_failure(L, rc);
    }
    push_taken(L, certificate);
    push_taken(L, key);
    push_identity(L, &who);
    return 3;
}

/* core.keys_read(certificate) -> {cluster=, right=, name=, serial=, from=, until_s=} */
static int core_keys_read(lua_State *L) {
    struct tide_identity who;
    int rc = tide_identity_read(luaL_checkstring(L, 1), &who);
    if (rc < 0) {
        return tide__lua_failure(L, rc);
    }
    push_identity(L, &who);
    return 1;
}

/* core.keys_page("DNS:lab.org,IP:10.0.0.4", days) -> certificate, key */
static int core_keys_page(lua_State *L) {
    char *certificate = NULL, *key = NULL;
    lua_Integer days = luaL_checkinteger(L, 2);
    luaL_argcheck(L, days > 0 && days < 100000, 2, "days");
    int rc = tide_keys_make_page(luaL_checkstring(L, 1), now_s(L), (unsigned)days, &certificate, &key);
    if (rc < 0) {
        return tide__lua_failure(L, rc);
    }
    push_taken(L, certificate);
    push_taken(L, key);
    return 2;
}

/* core.keys_secret(directory, name) -> text | nil, err: EPERM others may read it */
static int core_keys_secret(lua_State *L) {
    char *text = NULL;
    int rc = tide_keys_secret(tide__lua_host(L)->port, luaL_checkstring(L, 1), luaL_checkstring(L, 2), &text);
    if (rc < 0) {
        return tide__lua_failure(L, rc);
    }
    push_taken(L, text);
    return 1;
}

/* core.keys_token() -> 64 random hexadecimal digits */
static int core_keys_token(lua_State *L) {
    struct tide_port *port = tide__lua_host(L)->port;
    char digits[65];
    for (size_t i = 0; i < 4; i++) {
        (void)snprintf(digits + 16 * i, 17, "%016llx", (unsigned long long)port->ops->entropy(port));
    }
    lua_pushstring(L, digits);
    return 1;
}

void tide__lua_open_keys(lua_State *L) {
    static const luaL_Reg functions[] = {{"keys_authority", core_keys_authority},
                                         {"keys_issue", core_keys_issue},
                                         {"keys_read", core_keys_read},
                                         {"keys_page", core_keys_page},
                                         {"keys_secret", core_keys_secret},
                                         {"keys_token", core_keys_token},
                                         {NULL, NULL}};
    luaL_setfuncs(L, functions, 0);
}
