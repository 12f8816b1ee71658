/*
 * core.http_listen: the server of `tide dashboard`, from the plugin tide_http.so (runtime/http/http.h). The plugin is
 * loaded by the first call and at no other time. The handle belongs to the thread that made it.
 *
 * core.http_calls gives an actor the requests below /api/call/ of a server of this process, by its number: the
 * library's thread wakes the actor's fiber, so that a call waits for no turn of the program's thread. A server is
 * shared by the two handles, and the program's closes it.
 */
#include "lua/host/host.h"
#include "base/plugin.h"
#include "http/guard.h"
#include "http/http.h"
#include "net/tls/keys.h"

#include <pthread.h>
#include <string.h>

static const char http_metatable, calls_metatable; /* their addresses are registry keys */

struct server {
    const struct tide_http_plugin *plugin;
    char token[65];
    uint64_t number;
    struct server *next; /* under servers_lock */
    unsigned holders;    /* handles; under servers_lock */

    pthread_mutex_t lock;     /* of what follows; the plugin's own is taken inside it */
    struct tide_http *http;   /* NULL: closed. The program's thread, which alone closes, reads it without the lock */
    struct tide_fiber *taker; /* the fiber in calls:take; NULL: none */
    bool served;              /* an actor takes the calls */
};

/* Of an actor. The request is copied here under the lock, and pushed behind it: what Lua raises leaves no lock. */
struct calls {
    struct server *server;
    size_t target_size, body_size;
    uint64_t id;
    struct tide_http_person person;
    char method[8], type[64], accept[64], target[TIDE_HTTP_TARGET_MAX + 1], body[TIDE_HTTP_BODY_MAX + 1];
};

static pthread_mutex_t servers_lock = PTHREAD_MUTEX_INITIALIZER;
static struct server *servers;
static uint64_t server_count;

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
    struct server **handle = tide__lua_handle_at(L, 1, &http_metatable);
    if (handle && *handle && (*handle)->http) {
        return *handle;
    }
    luaL_argerror(L, 1, "an open server of core.http_listen is wanted");
    return NULL;
}

static void leave(struct server *server) {
    pthread_mutex_lock(&servers_lock);
    bool last = --server->holders == 0;
    for (struct server **at = &servers; last && *at; at = &(*at)->next) {
        if (*at == server) {
            *at = server->next;
            break;
        }
    }
    pthread_mutex_unlock(&servers_lock);
    if (last) {
        pthread_mutex_destroy(&server->lock);
        memset(server->token, 0, sizeof server->token);
        tide_free(server);
    }
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

/* One of server:people's tokens, on the top of the stack. */
static void read_token(lua_State *L, struct tide_http_token *out) {
    luaL_checktype(L, -1, LUA_TTABLE);
    lua_getfield(L, -1, "token");
    lua_getfield(L, -2, "name");
    lua_getfield(L, -3, "right");
    lua_getfield(L, -4, "until_s");
    const char *digits = luaL_checkstring(L, -4), *name = luaL_checkstring(L, -3), *right = luaL_checkstring(L, -2);
    luaL_argcheck(L, strlen(digits) == TIDE_HTTP_TOKEN && strlen(name) < TIDE_HTTP_PERSON, 2, "tokens of 64 digits");
    (void)snprintf(out->digits, sizeof out->digits, "%s", digits);
    (void)snprintf(out->person.name, sizeof out->person.name, "%s", name);
    out->person.right = (uint8_t)tide_right_parse(right);
    out->until = (int64_t)luaL_checkinteger(L, -1);
    lua_pop(L, 4);
}

/* server:people({{token=, name=, right=, until_s=}, ..}, revoked): who is let in besides the owner */
static int http_people(lua_State *L) {
    struct server *server = check(L);
    luaL_checktype(L, 2, LUA_TTABLE);
    const char *revoked = luaL_optstring(L, 3, NULL);
    const lua_Integer count = luaL_len(L, 2);
    luaL_argcheck(L, count >= 0 && count <= TIDE_HTTP_TOKENS, 2, "at most 256 tokens");
    struct tide_http_token *tokens = lua_newuserdatauv(L, ((size_t)count + 1) * sizeof *tokens, 0);
    memset(tokens, 0, ((size_t)count + 1) * sizeof *tokens);
    for (lua_Integer i = 0; i < count; i++) {
        lua_rawgeti(L, 2, i + 1);
        read_token(L, &tokens[i]);
        lua_pop(L, 1);
    }
    int code = server->plugin->people(server->http, tokens, (size_t)count, revoked);
    memset(tokens, 0, ((size_t)count + 1) * sizeof *tokens);
    return outcome(L, code);
}

static void push_request(lua_State *L, const struct tide_http_request *r) {
    lua_createtable(L, 0, 8);
    tide__lua_set_integer(L, "id", r->id);
    const char *const texts[][2] = {{"method", r->method},
                                    {"type", r->type},
                                    {"accept", r->accept},
                                    {"person", r->person.name},
                                    {"right", tide_right_name(r->person.right)}};
    for (size_t i = 0; i < TIDE_COUNT(texts); i++) {
        lua_pushstring(L, texts[i][1]);
        lua_setfield(L, -2, texts[i][0]);
    }
    lua_pushlstring(L, r->target, r->target_size);
    lua_setfield(L, -2, "target");
    lua_pushlstring(L, r->body ? r->body : "", r->body_size);
    lua_setfield(L, -2, "body");
}

/* server:next(seconds) -> {id=, method=, target=, type=, accept=, body=, person=, right=} | nil. Blocks the thread. */
static int http_next(lua_State *L) {
    struct server *server = check(L);
    double seconds = luaL_checknumber(L, 2);
    struct tide_http_request r;
    if (!(seconds > 0)) {
        seconds = 0;
    }
    if (server->plugin->next(server->http, seconds > 60 ? 60000 : (unsigned)(seconds * 1000), false, &r) != 1) {
        lua_pushnil(L);
        return 1;
    }
    push_request(L, &r);
    return 1;
}

struct answer {
    uint64_t id;
    unsigned status, retry_after_s;
    const char *type, *data;
    size_t size;
};

/* Arguments 2 on: id, status, type, text, seconds. */
static struct answer check_answer(lua_State *L) {
    struct answer a = {.id = (uint64_t)luaL_checkinteger(L, 2), .type = luaL_checkstring(L, 4)};
    lua_Integer status = luaL_checkinteger(L, 3);
    luaL_argcheck(L, status >= 200 && status <= 599, 3, "a status of HTTP");
    a.data = luaL_checklstring(L, 5, &a.size);
    lua_Number wait = luaL_optnumber(L, 6, 0);
    a.status = (unsigned)status;
    a.retry_after_s = wait > 0 ? wait < 3600 ? (unsigned)wait + (wait > (unsigned)wait) : 3600 : 0;
    return a;
}

/* server:answer(id, status, type, text, retry_after_s?) */
static int http_answer(lua_State *L) {
    struct server *server = check(L);
    const struct answer a = check_answer(L);
    return outcome(L, server->plugin->answer(server->http, a.id, a.status, a.type, a.data, a.size, a.retry_after_s));
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

/* server:number(): for core.http_calls in another state of this process. */
static int http_number(lua_State *L) {
    lua_pushinteger(L, (lua_Integer)check(L)->number);
    return 1;
}

/* server:served(): whether an actor takes the calls. */
static int http_served(lua_State *L) {
    struct server *server = check(L);
    pthread_mutex_lock(&server->lock);
    bool served = server->served;
    pthread_mutex_unlock(&server->lock);
    lua_pushboolean(L, served);
    return 1;
}

static int http_close(lua_State *L) {
    struct server **handle = lua_touserdata(L, 1), *server = *handle;
    if (server) {
        *handle = NULL;
        pthread_mutex_lock(&server->lock);
        struct tide_http *http = server->http;
        server->http = NULL;
        if (server->taker) {
            tide_fiber_wake(server->taker);
        }
        pthread_mutex_unlock(&server->lock);
        if (http) {
            server->plugin->close(http); /* waits for the library's thread, which may be in call_waits */
        }
        leave(server);
    }
    return 0;
}

/* On the library's thread. */
static void call_waits(void *arg) {
    struct server *server = arg;
    pthread_mutex_lock(&server->lock);
    if (server->taker) {
        tide_fiber_wake(server->taker);
    } else if (!server->served && server->http) {
        server->plugin->abandon_calls(server->http);
    }
    pthread_mutex_unlock(&server->lock);
}

/* A text of the table at 1, or NULL; it stays on the stack as long as it is used. */
static const char *text_option(lua_State *L, const char *name) {
    lua_getfield(L, 1, name);
    return luaL_optstring(L, -1, NULL);
}

/* core.http_listen{port=, served_as=, address=, keys=, cluster=} -> server | nil, err */
static int core_http_listen(lua_State *L) {
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_getfield(L, 1, "port");
    lua_Integer port = luaL_optinteger(L, -1, 0);
    luaL_argcheck(L, port >= 0 && port <= 65535, 1, "port: 0 to 65535");
    const char *served_as = text_option(L, "served_as");
    luaL_argcheck(L, !served_as || strlen(served_as) <= TIDE_HTTP_SERVED_AS, 1,
                  "served_as: an origin of at most 255 bytes");
    const char *address = text_option(L, "address"), *keys = text_option(L, "keys");
    const char *cluster = text_option(L, "cluster");
    struct tide_port *p = tide__lua_host(L)->port;
    if (p->simulated) {
        return tide__lua_failure(L, tide_fail(TIDE_EUNSUPPORTED, "simulated nodes have no dashboard"));
    }
    struct server **handle = lua_newuserdatauv(L, sizeof(struct server *), 0);
    *handle = NULL;
    lua_rawgetp(L, LUA_REGISTRYINDEX, &http_metatable);
    lua_setmetatable(L, -2);
    char reason[800];
    const struct tide_http_plugin *plugin = load(reason, sizeof reason);
    if (!plugin) {
        return tide__lua_failure(L, tide_fail(TIDE_EUNSUPPORTED, "%s", reason));
    }
    struct server *server = tide_alloc_zero(1, sizeof *server);
    if (!server) {
        return tide__lua_failure(L, tide_fail(TIDE_ENOMEM, "no memory for the dashboard's server"));
    }
    *handle = server;
    server->plugin = plugin;
    server->holders = 1;
    pthread_mutex_init(&server->lock, NULL);
    for (size_t i = 0; i < 4; i++) {
        (void)snprintf(server->token + 16 * i, 17, "%016llx", (unsigned long long)p->ops->entropy(p));
    }
    struct tide_credential credential = {0};
    int code = keys ? tide__keys_read(p, keys, &credential) : 0;
    if (code < 0) {
        return tide__lua_failure(L, code);
    }
    const struct tide_http_options options = {.address = address,
                                              .port = (uint16_t)port,
                                              .certificate = credential.certificate,
                                              .key = credential.key,
                                              .authority = credential.authority,
                                              .cluster = cluster,
                                              .token = server->token,
                                              .served_as = served_as,
                                              .call_waits = call_waits,
                                              .arg = server};
    code = plugin->open(&options, &server->http, reason, sizeof reason);
    tide__keys_release(&credential);
    if (code < 0) {
        server->http = NULL;
        return tide__lua_failure(L, tide_fail(code, "%s", reason));
    }
    pthread_mutex_lock(&servers_lock);
    server->number = ++server_count;
    server->next = servers;
    servers = server;
    pthread_mutex_unlock(&servers_lock);
    return 1;
}

/* ---- an actor's side ---- */

static struct calls *check_calls(lua_State *L) {
    return tide__lua_handle_check(L, 1, &calls_metatable, "the calls of a server");
}

/* core.http_calls(number) -> calls | nil, err: EBUSY, ENOENT. Until the handle is collected, which ends with the
 * actor's state, calls of that server are this actor's. */
static int core_http_calls(lua_State *L) {
    uint64_t number = (uint64_t)luaL_checkinteger(L, 1);
    (void)tide__lua_inside(L);
    struct calls *calls = lua_newuserdatauv(L, sizeof *calls, 0);
    calls->server = NULL;
    lua_rawgetp(L, LUA_REGISTRYINDEX, &calls_metatable);
    lua_setmetatable(L, -2);
    pthread_mutex_lock(&servers_lock);
    struct server *server = servers;
    while (server && server->number != number) {
        server = server->next;
    }
    if (server) {
        server->holders++;
    }
    pthread_mutex_unlock(&servers_lock);
    if (!server) {
        return tide__lua_failure(L, tide_fail(TIDE_ENOENT, "the server is closed"));
    }
    pthread_mutex_lock(&server->lock);
    bool taken = server->served;
    server->served = true;
    pthread_mutex_unlock(&server->lock);
    if (taken) {
        leave(server);
        return tide__lua_failure(L, tide_fail(TIDE_EBUSY, "another actor takes the calls"));
    }
    calls->server = server;
    return 1;
}

static int calls_close(lua_State *L) {
    struct calls *calls = lua_touserdata(L, 1);
    struct server *server = calls->server;
    if (server) {
        calls->server = NULL;
        pthread_mutex_lock(&server->lock);
        server->served = false;
        server->taker = NULL;
        if (server->http) {
            server->plugin->abandon_calls(server->http);
        }
        pthread_mutex_unlock(&server->lock);
        leave(server);
    }
    return 0;
}

static void copy_request(struct calls *calls, const struct tide_http_request *r) {
    calls->id = r->id;
    calls->person = r->person;
    calls->target_size = r->target_size;
    calls->body_size = r->body_size;
    (void)snprintf(calls->method, sizeof calls->method, "%s", r->method);
    (void)snprintf(calls->type, sizeof calls->type, "%s", r->type);
    (void)snprintf(calls->accept, sizeof calls->accept, "%s", r->accept);
    memcpy(calls->target, r->target, r->target_size + 1);
    if (r->body_size > 0) {
        memcpy(calls->body, r->body, r->body_size);
    }
}

/* calls:take() -> request | nil: the server is closed. Blocks the fiber; one fiber at a time. */
static int calls_take(lua_State *L) {
    struct calls *calls = check_calls(L);
    (void)tide__lua_inside(L);
    struct server *server = calls->server;
    luaL_argcheck(L, server, 1, "these calls were let go of");
    for (;;) {
        struct tide_http_request r;
        pthread_mutex_lock(&server->lock);
        const bool open = server->http;
        const bool got = open && server->plugin->next(server->http, 0, true, &r) == 1;
        if (got) {
            copy_request(calls, &r);
        }
        server->taker = open && !got ? tide_fiber_current() : NULL;
        pthread_mutex_unlock(&server->lock);
        if (got) {
            r = (struct tide_http_request){.id = calls->id,
                                           .method = calls->method,
                                           .person = calls->person,
                                           .type = calls->type,
                                           .accept = calls->accept,
                                           .target = calls->target,
                                           .target_size = calls->target_size,
                                           .body = calls->body,
                                           .body_size = calls->body_size};
            push_request(L, &r);
            return 1;
        }
        if (!open) {
            lua_pushnil(L);
            return 1;
        }
        int code = tide_fiber_suspend(TIDE_NEVER, "a call over HTTP");
        pthread_mutex_lock(&server->lock);
        server->taker = NULL;
        pthread_mutex_unlock(&server->lock);
        (void)tide__lua_resumed(L, code);
    }
}

/* calls:answer(id, status, type, text, retry_after_s?) */
static int calls_answer(lua_State *L) {
    struct calls *calls = check_calls(L);
    luaL_argcheck(L, calls->server, 1, "these calls were let go of");
    const struct answer a = check_answer(L);
    struct server *server = calls->server;
    pthread_mutex_lock(&server->lock);
    int code = server->http
                   ? server->plugin->answer(server->http, a.id, a.status, a.type, a.data, a.size, a.retry_after_s)
                   : TIDE_ECLOSED;
    pthread_mutex_unlock(&server->lock);
    return outcome(L, code);
}

void tide__lua_open_http(lua_State *L) {
    static const luaL_Reg methods[] = {{"page", http_page},     {"publish", http_publish}, {"next", http_next},
                                       {"answer", http_answer}, {"stats", http_stats},     {"port", http_port},
                                       {"token", http_token},   {"number", http_number},   {"close", http_close},
                                       {"served", http_served}, {"people", http_people},   {NULL, NULL}};
    static const luaL_Reg of_calls[] = {{"take", calls_take}, {"answer", calls_answer}, {NULL, NULL}};
    static const luaL_Reg functions[] = {
        {"http_listen", core_http_listen}, {"http_calls", core_http_calls}, {NULL, NULL}};
    lua_createtable(L, 0, 3);
    luaL_newlib(L, methods);
    lua_setfield(L, -2, "__index");
    lua_pushcfunction(L, http_close);
    lua_setfield(L, -2, "__gc");
    lua_pushcfunction(L, http_close);
    lua_setfield(L, -2, "__close");
    lua_rawsetp(L, LUA_REGISTRYINDEX, &http_metatable);
    tide__lua_handle_class(L, &calls_metatable, NULL, of_calls, calls_close);
    luaL_setfuncs(L, functions, 0);
}
