/*
 * Actors for Lua: addresses, messages, calls, monitors, names, time, log. Addresses are strings
 * "node:id". Times are seconds. Every function that waits suspends only the calling fiber.
 */
#include "lua/host/host.h"
#include "base/log.h"
#include "port/log_file.h"
#include "net/tls/keys.h"

#include <string.h>

/* true, or nil and the error. */
static int done(lua_State *L, int code) {
    if (code < 0) {
        return tide__lua_failure(L, code);
    }
    lua_pushboolean(L, true);
    return 1;
}

/* Encodes the value at `index` into w or raises with w released. */
static void encode_or_raise(lua_State *L, int index, struct tide_writer *w) {
    int code = tide__lua_encode(L, index, "value", TIDE_ITEMS_MAX, w);
    if (code < 0) {
        tide_writer_release(w);
        tide__lua_raise(L, code);
    }
}

/* ---- sending and receiving ---- */

static int core_self(lua_State *L) {
    (void)tide__lua_inside(L);
    tide__lua_push_address(L, tide_self());
    return 1;
}

/* "node" is no right of clients: the actor opens to none. */
static enum tide_right check_opens(lua_State *L, int at) {
    enum tide_right right = tide_right_parse(luaL_checkstring(L, at));
    luaL_argcheck(L, right != TIDE_RIGHT_NONE, at, "read, operate, admin or node");
    return right == TIDE_RIGHT_NODE ? TIDE_RIGHT_NONE : right;
}

/* core.open(right): from now on clients of it, or of a greater one, may send to this actor */
static int core_open(lua_State *L) {
    (void)tide__lua_inside(L);
    tide_open(check_opens(L, 1));
    return 0;
}

static int core_send(lua_State *L) {
    tide_address to = tide__lua_check_address(L, 1);
    static const char *const names[] = {"system", "control", "bulk", "answer", NULL};
    static const enum tide_lane lanes[] = {TIDE_LANE_SYSTEM, TIDE_LANE_CONTROL, TIDE_LANE_BULK, TIDE_LANE_ANSWER};
    const enum tide_lane lane = lanes[luaL_checkoption(L, 3, "control", names)];
    (void)tide__lua_inside(L);
    lua_settop(L, 2);
    struct tide_writer w;
    uint8_t buffer[512];
    tide_writer_init(&w, buffer, sizeof buffer);
    encode_or_raise(L, 2, &w);
    int code = tide_send(to, lane, w.data, w.size);
    tide_writer_release(&w);
    return done(L, tide__lua_resumed(L, code));
}

static int core_call(lua_State *L) {
    tide_address to = tide__lua_check_address(L, 1);
    uint64_t timeout = tide__lua_duration(L, 3, tide_limit(actor_call_timeout));
    (void)tide__lua_inside(L);
    lua_settop(L, 3);
    struct tide_writer w;
    uint8_t buffer[512];
    tide_writer_init(&w, buffer, sizeof buffer);
    encode_or_raise(L, 2, &w);
    struct tide_reply *reply = NULL;
    int code = tide_call(to, w.data, w.size, timeout, &reply);
    tide_writer_release(&w);
    if (code < 0) {
        (void)tide__lua_resumed(L, code);
        lua_pushnil(L);
        tide__lua_error_unpack(L, code, tide_error_message(), to);
        return 2;
    }
    size_t size;
    const void *data = tide_reply_data(reply, &size);
    code = size > 0 ? tide__lua_decode_safe(L, data, size, TIDE_ITEMS_MAX) : (lua_pushnil(L), 0);
    tide_reply_free(reply);
    (void)tide__lua_resumed(L, 0);
    return code < 0 ? tide__lua_failure(L, code) : 1;
}

/* In a protected call: builds the Lua message of light userdata 1. */
static int push_message(lua_State *L) {
    const struct tide_message *m = lua_touserdata(L, 1);
    lua_createtable(L, 0, 4);
    switch (m->kind) {
    case TIDE_CALL:
        lua_pushliteral(L, "call");
        break;
    case TIDE_EXIT:
        lua_pushliteral(L, "exit");
        break;
    case TIDE_STOP:
        lua_pushliteral(L, "stop");
        break;
    default:
        lua_pushliteral(L, "cast");
        break;
    }
    lua_setfield(L, 2, "kind");
    if (m->from != TIDE_NOBODY) {
        tide__lua_push_address(L, m->from);
        lua_setfield(L, 2, "from");
    }
    lua_pushstring(L, tide_right_name(m->right != TIDE_RIGHT_NONE ? m->right : TIDE_RIGHT_NODE));
    lua_setfield(L, 2, "right");
    if (m->call != 0) {
        lua_pushinteger(L, (lua_Integer)m->call);
        lua_setfield(L, 2, "call");
    }
    if (m->kind == TIDE_EXIT) {
        lua_pushinteger(L, m->code);
        lua_setfield(L, 2, "code");
        lua_pushstring(L, m->code == 0 ? "normal" : tide_error_name(m->code));
        lua_setfield(L, 2, "name");
        lua_pushlstring(L, m->size > 0 ? (const char *)m->data : "", m->size);
        lua_setfield(L, 2, "text");
    } else if (m->size > 0 && m->kind != TIDE_STOP) {
        int code = tide__lua_decode(L, m->data, m->size, TIDE_ITEMS_MAX);
        if (code < 0) {
            return tide__lua_raise(L, code);
        }
        lua_setfield(L, 2, "value");
    }
    return 1;
}

static int core_receive(lua_State *L) {
    struct tide_lua *host = tide__lua_inside(L);
    uint64_t deadline = tide__lua_deadline(host, tide__lua_duration(L, 1, TIDE_NEVER));
    const struct tide_message *m = NULL;
    for (;;) {
        int code = tide_receive(deadline, &m);
        if (code < 0 && tide__lua_resumed(L, code) == TIDE_ETIMEDOUT) {
            lua_pushnil(L); /* no error: most callers with a time poll, many times a second */
            return 1;
        }
        if (code < 0) {
            return tide__lua_failure(L, code);
        }
        if (m->kind == TIDE_CAST || m->kind == TIDE_CALL || m->kind == TIDE_EXIT || m->kind == TIDE_STOP) {
            break;
        }
        tide_message_free(m); /* cancels, timers: nothing a script asked for */
    }
    lua_pushcfunction(L, push_message);
    lua_pushlightuserdata(L, (void *)(uintptr_t)m);
    int status = lua_pcall(L, 1, 1, 0);
    tide_message_free(m);
    (void)tide__lua_resumed(L, 0);
    if (status != LUA_OK) { /* damaged bytes or no memory: one message is lost, with a reason */
        lua_pushnil(L);
        lua_insert(L, -2);
        return 2;
    }
    return 1;
}

/* The caller and call id of the message table at index 1. */
static tide_address check_call(lua_State *L, uint64_t *call) {
    luaL_checktype(L, 1, LUA_TTABLE);
    (void)tide__lua_inside(L);
    lua_getfield(L, 1, "call");
    lua_getfield(L, 1, "from");
    if (!lua_isinteger(L, -2) || lua_type(L, -1) != LUA_TSTRING) {
        luaL_argerror(L, 1, "this message is not a call");
    }
    *call = (uint64_t)lua_tointeger(L, -2);
    return tide__lua_check_address(L, lua_gettop(L));
}

static int core_answer(lua_State *L) {
    uint64_t call;
    lua_settop(L, 2);
    tide_address from = check_call(L, &call);
    struct tide_writer w;
    uint8_t buffer[512];
    tide_writer_init(&w, buffer, sizeof buffer);
    encode_or_raise(L, 2, &w);
    int code = tide_answer(from, call, w.data, w.size);
    tide_writer_release(&w);
    return done(L, code);
}

static int core_answer_error(lua_State *L) {
    uint64_t call;
    lua_settop(L, 2);
    tide_address from = check_call(L, &call);
    char text[480]; /* fits the caller's error slot */
    int code = tide__lua_error_pack(L, 2, text, sizeof text);
    return done(L, tide_answer_error(from, call, code, text));
}

/* Counts a message that this actor refuses, whatever it answers. */
static int core_refused(lua_State *L) {
    (void)tide__lua_inside(L);
    tide_refused();
    return 0;
}

/* ---- relations ---- */

static int core_monitor(lua_State *L) {
    tide_address who = tide__lua_check_address(L, 1);
    (void)tide__lua_inside(L);
    uint64_t id;
    int code = tide_monitor(who, &id);
    if (code < 0) {
        return tide__lua_failure(L, code);
    }
    lua_pushinteger(L, (lua_Integer)id);
    return 1;
}

static int core_demonitor(lua_State *L) {
    (void)tide__lua_inside(L);
    tide_demonitor((uint64_t)luaL_checkinteger(L, 1));
    return 0;
}

static int core_link(lua_State *L) {
    tide_address who = tide__lua_check_address(L, 1);
    (void)tide__lua_inside(L);
    return done(L, tide_link(who));
}

static int core_trap_exits(lua_State *L) {
    (void)tide__lua_inside(L);
    tide_trap_exits(lua_toboolean(L, 1));
    return 0;
}

static int core_kill(lua_State *L) {
    tide_address who = tide__lua_check_address(L, 1);
    (void)tide__lua_inside(L);
    return done(L, tide_kill(who, TIDE_EKILLED));
}

/* core.interrupt(address) -> true | nil, err: what it computes at this moment ends, unless it waits */
static int core_interrupt(lua_State *L) {
    tide_address who = tide__lua_check_address(L, 1);
    (void)tide__lua_inside(L);
    return done(L, tide_interrupt(who));
}

static int core_register(lua_State *L) {
    const char *name = luaL_checkstring(L, 1);
    struct tide_lua *host = tide__lua_inside(L);
    return done(L, tide_register(host->node, name, tide_self()));
}

static int core_whereis(lua_State *L) {
    const char *name = luaL_checkstring(L, 1);
    struct tide_lua *host = tide__lua_inside(L);
    tide_address found;
    int code = tide__lua_resumed(L, tide_whereis(host->node, name, &found));
    if (code < 0) {
        return tide__lua_failure(L, code);
    }
    tide__lua_push_address(L, found);
    return 1;
}

static const char *string_field(lua_State *L, int table, const char *key, bool required) {
    int type = lua_getfield(L, table, key); /* stays on the stack and keeps the string alive */
    if (type == LUA_TNIL && !required) {
        return NULL;
    }
    if (type != LUA_TSTRING) {
        luaL_error(L, "spawn: field '%s' is %s, not a string", key, lua_typename(L, type));
    }
    return lua_tostring(L, -1);
}

static int core_spawn(lua_State *L) {
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    struct tide_lua *host = tide__lua_inside(L);
    struct tide_lua_options o = {.name = string_field(L, 1, "name", false),
                                 .source = string_field(L, 1, "source", true),
                                 .chunk = string_field(L, 1, "chunk", false)};
    const char *role = string_field(L, 1, "role", false);
    if (role && strcmp(role, "compute") != 0 && strcmp(role, "control") != 0) {
        return luaL_error(L, "spawn: role \"%s\" is neither \"compute\" nor \"control\"", role);
    }
    o.role = role && strcmp(role, "compute") == 0 ? TIDE_ROLE_COMPUTE : TIDE_ROLE_CONTROL;
    lua_getfield(L, 1, "thread");
    o.thread = (uint8_t)luaL_optinteger(L, -1, 0);
    lua_getfield(L, 1, "link");
    o.link = lua_toboolean(L, -1) ? tide_self() : TIDE_NOBODY;
    if (string_field(L, 1, "opens", false)) {
        o.opens = (uint8_t)check_opens(L, -1);
    }
    lua_getfield(L, 1, "argument");
    struct tide_writer w;
    uint8_t buffer[512];
    tide_writer_init(&w, buffer, sizeof buffer);
    int code = tide__lua_encode(L, lua_gettop(L), "argument", TIDE_ITEMS_MAX, &w);
    if (code < 0) {
        tide_writer_release(&w);
        return tide__lua_raise(L, code);
    }
    o.argument = w.data;
    o.argument_size = w.size;
    tide_address address;
    code = tide_spawn_lua(host->node, &o, &address);
    tide_writer_release(&w);
    if (code < 0) {
        return tide__lua_failure(L, code);
    }
    tide__lua_push_address(L, address);
    return 1;
}

/* ---- time and log ---- */

static int core_sleep(lua_State *L) {
    uint64_t duration = tide__lua_duration(L, 1, 0);
    struct tide_lua *host = tide__lua_host(L);
    if (host->program) { /* the program's own thread, which no actor shares */
        host->port->ops->pause(host->port, duration);
        return 0;
    }
    (void)tide__lua_inside(L);
    uint64_t deadline = tide__lua_deadline(host, duration);
    int code;
    do { /* not tide_sleep: core.fiber_cancel ends this one */
        code = tide__lua_resumed(L, tide_fiber_suspend(deadline, "sleep"));
    } while (code != TIDE_ETIMEDOUT && tide_port_now(host->port) < deadline);
    return 0;
}

static int core_now(lua_State *L) {
    lua_pushnumber(L, (double)tide_port_now(tide__lua_host(L)->port) * 1e-9);
    return 1;
}

static int core_wall(lua_State *L) {
    struct tide_port *port = tide__lua_host(L)->port;
    lua_pushnumber(L, (double)port->ops->wall(port) * 1e-9);
    return 1;
}

static const char *const levels[] = {"debug", "info", "warn", "error", NULL}; /* enum tide_level */

static int core_log(lua_State *L) {
    int level = luaL_checkoption(L, 1, "info", levels);
    const char *text = luaL_tolstring(L, 2, NULL);
    struct tide_lua *host = tide__lua_host(L);
    tide_log((enum tide_level)level, host->node ? tide_node_name(host->node) : "tide", "%s", text);
    return 0;
}

/* Of the whole process: records below it are dropped. */
static int core_log_level(lua_State *L) {
    tide_log_set((enum tide_level)luaL_checkoption(L, 1, NULL, levels), NULL, NULL);
    return 0;
}

/* core.log_format("text"|"json"): of the lines that this process writes to stderr. */
static int core_log_format(lua_State *L) {
    static const char *const formats[] = {"text", "json", NULL};
    tide_log_json(luaL_checkoption(L, 1, NULL, formats) == 1);
    return 0;
}

/* core.log_rotate(limit, keep) -> whether a new file was begun | nil, err */
static int core_log_rotate(lua_State *L) {
    lua_Integer limit = luaL_checkinteger(L, 1), keep = luaL_checkinteger(L, 2);
    luaL_argcheck(L, limit > 0, 1, "a size in bytes");
    luaL_argcheck(L, keep > 0 && keep < 100, 2, "1 to 99 files");
    int code = tide_log_file_rotate((uint64_t)limit, (unsigned)keep);
    if (code < 0) {
        return tide__lua_failure(L, code);
    }
    lua_pushboolean(L, code == 1);
    return 1;
}

void tide__lua_open_actor(lua_State *L) {
    static const luaL_Reg functions[] = {
        {"self", core_self},
        {"open", core_open},
        {"send", core_send},
        {"call", core_call},
        {"receive", core_receive},
        {"answer", core_answer},
        {"answer_error", core_answer_error},
        {"refused", core_refused},
        {"monitor", core_monitor},
        {"demonitor", core_demonitor},
        {"link", core_link},
        {"trap_exits", core_trap_exits},
        {"kill", core_kill},
        {"interrupt", core_interrupt},
        {"register", core_register},
        {"whereis", core_whereis},
        {"spawn", core_spawn},
        {"sleep", core_sleep},
        {"now", core_now},
        {"wall", core_wall},
        {"log", core_log},
        {"log_level", core_log_level},
        {"log_format", core_log_format},
        {"log_rotate", core_log_rotate},
        {NULL, NULL},
    };
    luaL_setfuncs(L, functions, 0);
}
