/*
 * core.http_listen: the server of `tide dashboard`, from the plugin tide_http.so (runtime/http/http.h). The plugin is
 * loaded by the first call and at no other time. The handle belongs to the thread that made it.
 */
#include "lua/host/host.h"
#include "base/plugin.h"
#include "http/http.h"

#include <string.h>

static const char http_metatable; /* its address is the registry key */

struct server {
    const struct tide_http_plugin *plugin;
    struct tide_http *http; /* NULL: closed */
    char token[65];
};

static const struct tide_http_plugin *load(char *reason, size_t capacity) {
    char why[600];
    const struct tide_http_plugin *plugin =
        tide__plugin_load("tide_http.so", NULL, TIDE_HTTP_PLUGIN_SYMBOL, why, sizeof why);
    if (!plugin) {
        (void)snprintf(
            reason, capacity,
            "a dashboard needs the plugin tide_http.so, which is built when Debian's libmicrohttpd-dev is there: %s",
            why);
        return NULL;
    }
    if (strcmp(plugin->version, TIDE_VERSION) != 0) {
        (void)snprintf(reason, capacity, "tide_http.so is of version %s, this program is %s", plugin->version,
                       TIDE_VERSION);
        return NULL;
    }
    return plugin;
}

static struct server *check(lua_State *L) {
    struct server *server = tide__lua_handle_at(L, 1, &http_metatable);
    if (server && server->http) {
        return server;
    }
    luaL_argerror(L, 1, "an open server of core.http_listen is wanted");
    return NULL;
}

static int outcome(lua_State *L, int code) {
    if (code == 0) {
        lua_pushboolean(L, true);
        return 1;
    }
    (void)tide_fail(code, "the dashboard's server: %s", tide_error_name(code));
    return tide__lua_failure(L, code);
}

/* server:page(path, type, text) */
static int http_page(lua_State *L) {
    struct server *server = check(L);
    const char *path = luaL_checkstring(L, 2), *type = luaL_checkstring(L, 3);
    size_t size;
    const char *data = luaL_checklstring(L, 4, &size);
    return outcome(L, server->plugin->page(server->http, path, type, data, size));
}

/* server:publish(sample, state): JSON texts */
static int http_publish(lua_State *L) {
    struct server *server = check(L);
    size_t sample_size, state_size;
    const char *sample = luaL_checklstring(L, 2, &sample_size), *state = luaL_checklstring(L, 3, &state_size);
    return outcome(L, server->plugin->publish(server->http, sample, sample_size, state, state_size));
}

/* server:next(seconds) -> {id=, method=, target=, body=} | nil. Blocks the thread. */
static int http_next(lua_State *L) {
    struct server *server = check(L);
    double seconds = luaL_checknumber(L, 2);
    struct tide_http_request r;
    if (!(seconds > 0)) {
        seconds = 0;
    }
    if (server->plugin->next(server->http, seconds > 60 ? 60000 : (unsigned)(seconds * 1000), &r) != 1) {
        lua_pushnil(L);
        return 1;
    }
    lua_createtable(L, 0, 4);
    tide__lua_set_integer(L, "id", r.id);
    lua_pushstring(L, r.method);
    lua_setfield(L, -2, "method");
    lua_pushlstring(L, r.target, r.target_size);
    lua_setfield(L, -2, "target");
    lua_pushlstring(L, r.body ? r.body : "", r.body_size);
    lua_setfield(L, -2, "body");
    return 1;
}

/* server:answer(id, status, type, text) */
static int http_answer(lua_State *L) {
    struct server *server = check(L);
    uint64_t id = (uint64_t)luaL_checkinteger(L, 2);
    lua_Integer status = luaL_checkinteger(L, 3);
    const char *type = luaL_checkstring(L, 4);
    size_t size;
    const char *data = luaL_checklstring(L, 5, &size);
    luaL_argcheck(L, status >= 200 && status <= 599, 3, "a status of HTTP");
    return outcome(L, server->plugin->answer(server->http, id, (unsigned)status, type, data, size));
}

static int http_stats(lua_State *L) {
    struct server *server = check(L);
    struct tide_http_stats stats;
    server->plugin->stats(server->http, &stats);
    lua_createtable(L, 0, 7);
    tide__lua_set_integer(L, "connections", stats.connections);
    tide__lua_set_integer(L, "streams", stats.streams);
    tide__lua_set_integer(L, "requests", stats.requests);
    tide__lua_set_integer(L, "refused", stats.refused);
    tide__lua_set_integer(L, "samples", stats.samples);
    tide__lua_set_integer(L, "ring_bytes", stats.ring_bytes);
    tide__lua_set_integer(L, "gaps", stats.gaps);
    return 1;
}

static int http_port(lua_State *L) {
    struct server *server = check(L);
    lua_pushinteger(L, server->plugin->port(server->http));
    return 1;
}

static int http_token(lua_State *L) {
    lua_pushstring(L, check(L)->token);
    return 1;
}

static int http_close(lua_State *L) {
    struct server *server = lua_touserdata(L, 1);
    if (server->http) {
        server->plugin->close(server->http);
        server->http = NULL;
        memset(server->token, 0, sizeof server->token);
    }
    return 0;
}

/* core.http_listen{port=} -> server | nil, err */
static int core_http_listen(lua_State *L) {
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_getfield(L, 1, "port");
    lua_Integer port = luaL_optinteger(L, -1, 0);
    luaL_argcheck(L, port >= 0 && port <= 65535, 1, "port: 0 to 65535");
    struct tide_port *p = tide__lua_host(L)->port;
    if (p->simulated) {
        return tide__lua_failure(L, tide_fail(TIDE_EUNSUPPORTED, "simulated nodes have no dashboard"));
    }
    struct server *server = lua_newuserdatauv(L, sizeof *server, 0);
    memset(server, 0, sizeof *server);
    lua_rawgetp(L, LUA_REGISTRYINDEX, &http_metatable);
    lua_setmetatable(L, -2);
    char reason[800];
    server->plugin = load(reason, sizeof reason);
    if (!server->plugin) {
        return tide__lua_failure(L, tide_fail(TIDE_EUNSUPPORTED, "%s", reason));
    }
    for (size_t i = 0; i < 4; i++) {
        (void)snprintf(server->token + 16 * i, 17, "%016llx", (unsigned long long)p->ops->entropy(p));
    }
    const struct tide_http_options options = {.port = (uint16_t)port, .token = server->token};
    int code = server->plugin->open(&options, &server->http, reason, sizeof reason);
    if (code < 0) {
        server->http = NULL;
        return tide__lua_failure(L, tide_fail(code, "%s", reason));
    }
    return 1;
}

void tide__lua_open_http(lua_State *L) {
    static const luaL_Reg methods[] = {{"page", http_page},     {"publish", http_publish}, {"next", http_next},
                                       {"answer", http_answer}, {"stats", http_stats},     {"port", http_port},
                                       {"token", http_token},   {"close", http_close},     {NULL, NULL}};
    lua_createtable(L, 0, 3);
    luaL_newlib(L, methods);
    lua_setfield(L, -2, "__index");
    lua_pushcfunction(L, http_close);
    lua_setfield(L, -2, "__gc");
    lua_pushcfunction(L, http_close);
    lua_setfield(L, -2, "__close");
    lua_rawsetp(L, LUA_REGISTRYINDEX, &http_metatable);
    lua_pushcfunction(L, core_http_listen);
    lua_setfield(L, -2, "http_listen");
}
