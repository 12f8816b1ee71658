/*
 * Traces for Lua: start, stop, read as events of the Chrome trace format, which ui.perfetto.dev and
 * chrome://tracing open, and spans that scripts name. Format: "Trace Event Format", Google.
 *
 * A node is a process of the trace, a thread of it and each fiber a track.
 */
#include "lua/host/host.h"

#include "actor/actor.h"

#include <string.h>

enum { EVENTS_A_READ = 2048, LANE_BITS = 6, FIBER_BITS = 18, CURSOR_BITS = 48 };

static struct tide_system *system_of(lua_State *L) {
    struct tide_lua *host = tide__lua_host(L);
    if (!host->node) {
        luaL_error(L, "no node runs");
    }
    return tide_system_of(host->node);
}

/* events -> true | nil, err */
static int core_trace_start(lua_State *L) {
    struct tide_system *system = system_of(L);
    lua_Integer events = luaL_checkinteger(L, 1);
    luaL_argcheck(L, events >= 2 && events <= 1 << 24, 1, "2 to 16,777,216 events a thread");
    int code = tide_trace_start(system, (size_t)events);
    if (code < 0) {
        return tide__lua_failure(L, code);
    }
    lua_pushboolean(L, true);
    return 1;
}

static int core_trace_stop(lua_State *L) {
    tide_trace_stop(system_of(L));
    return 0;
}

/* ---- events as text ---- */

/* Names are ASCII in the end: a name that was cut may end within a character. */
static void add_name(luaL_Buffer *b, const char *name) {
    for (; *name; name++) {
        unsigned char c = (unsigned char)*name;
        if (c == '"' || c == '\\') {
            luaL_addchar(b, '\\');
        }
        luaL_addchar(b, c < 0x20 || c > 0x7e ? '?' : *name);
    }
}

/* Bits of a number stand for all of it where tracks are many: neighbours differ. */
static unsigned track_of(unsigned thread, unsigned fiber, unsigned lane) {
    return (thread + 1) << (FIBER_BITS + LANE_BITS) | (fiber & ((1U << FIBER_BITS) - 1)) << LANE_BITS |
           (lane & ((1U << LANE_BITS) - 1));
}

static void add_event(luaL_Buffer *b, unsigned node, unsigned thread, const struct tide_span *span, uint64_t origin) {
    const unsigned track = track_of(thread, span->fiber, span->lane);
    char text[160];
    if (span->end == TIDE_NEVER) {
        snprintf(text, sizeof text,
                 "{\"ph\":\"M\",\"pid\":%u,\"tid\":%u,\"name\":\"thread_name\",\"args\":{\"name\":\"", node, track);
        luaL_addstring(b, text);
        add_name(b, span->name);
        snprintf(text, sizeof text, ", fiber %u%s\"}},\n", (unsigned)span->fiber, span->lane ? ", beside" : "");
        luaL_addstring(b, text);
        return;
    }
    uint64_t begin = span->begin > origin ? span->begin - origin : 0;
    uint64_t length = span->end - span->begin;
    snprintf(text, sizeof text, "{\"ph\":\"X\",\"pid\":%u,\"tid\":%u,\"ts\":%llu.%03u,\"dur\":%llu.%03u,\"name\":\"",
             node, track, (unsigned long long)(begin / 1000), (unsigned)(begin % 1000),
             (unsigned long long)(length / 1000), (unsigned)(length % 1000));
    luaL_addstring(b, text);
    add_name(b, span->name);
    luaL_addstring(b, "\"},\n");
}

static void name_threads(lua_State *L, luaL_Buffer *b, struct tide_system *system, unsigned node) {
    static const char *const roles[] = {"I/O", "compute", "control", "disk", "exchange"};
    enum tide_role role = TIDE_ROLE_IO;
    unsigned count = tide_trace_thread(system, 0, &role);
    for (unsigned i = 0; i < count; i++) {
        (void)tide_trace_thread(system, i, &role);
        lua_pushfstring(L,
                        "{\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"name\":\"thread_name\",\"args\":"
                        "{\"name\":\"%s thread %d\"}},\n",
                        (int)node, (int)track_of(i, 0, 0), roles[role], (int)i);
        luaL_addvalue(b);
    }
}

/* cursor (0 at first), origin (ns) -> text of whole lines, cursor | nil at the end */
static int core_trace_read(lua_State *L) {
    struct tide_system *system = system_of(L);
    uint64_t cursor = (uint64_t)luaL_checkinteger(L, 1);
    uint64_t origin = (uint64_t)luaL_checkinteger(L, 2);
    unsigned thread = (unsigned)(cursor >> CURSOR_BITS);
    uint64_t from = cursor & ((UINT64_C(1) << CURSOR_BITS) - 1);
    const unsigned node = tide_node_id(tide_system_node(system));
    enum tide_role role = TIDE_ROLE_IO;
    unsigned threads = tide_trace_thread(system, thread, &role);
    struct tide_span *spans = lua_newuserdatauv(L, EVENTS_A_READ * sizeof *spans, 0);
    size_t count = tide_trace_read(system, thread, &from, spans, EVENTS_A_READ);
    luaL_Buffer b;
    luaL_buffinit(L, &b);
    if (cursor == 0) {
        name_threads(L, &b, system, node);
    }
    for (size_t i = 0; i < count; i++) {
        add_event(&b, node, thread, &spans[i], origin);
    }
    luaL_pushresult(&b);
    if (count == 0) {
        thread++;
        from = 0;
    }
    if (thread >= threads) {
        return 1;
    }
    lua_pushinteger(L, (lua_Integer)((uint64_t)thread << CURSOR_BITS | from));
    return 2;
}

/* -> ns of the clock that spans are measured with */
static int core_trace_clock(lua_State *L) {
    lua_pushinteger(L, (lua_Integer)tide_port_now(tide__lua_host(L)->port));
    return 1;
}

/* name, f, ... -> what f returns; a span of the fiber, unless f fails */
static int core_span(lua_State *L) {
    const char *name = luaL_checkstring(L, 1);
    uint64_t began = tide_trace_begin();
    lua_call(L, lua_gettop(L) - 2, LUA_MULTRET);
    tide_trace_end(began, name);
    return lua_gettop(L) - 1;
}

/* title: of the actor that runs, in traces */
static int core_title(lua_State *L) {
    (void)tide__lua_inside(L);
    tide_trace_title(luaL_checkstring(L, 1));
    return 0;
}

void tide__lua_open_trace(lua_State *L) {
    static const luaL_Reg functions[] = {
        {"trace_start", core_trace_start},
        {"trace_stop", core_trace_stop},
        {"trace_read", core_trace_read},
        {"trace_clock", core_trace_clock},
        {"span", core_span},
        {"title", core_title},
        {NULL, NULL},
    };
    luaL_setfuncs(L, functions, 0);
}
