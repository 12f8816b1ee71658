/*
 * What people watch: events of this node, its log, and taps on its actors. core.event,
 * core.events, core.logged, core.tap.
 */
#include "lua/host/host.h"
#include "store/core/store.h"
#include "tide/stats.h"

#include <string.h>

#define METATABLE "tide.tap"

enum { EVENTS_MAX = 512, SAMPLES_MAX = 128, TEXT_MAX = 400 };

/* ---- events ---- */

/* core.event(kind, text) */
static int core_event(lua_State *L) {
    struct tide_lua *host = tide__lua_host(L);
    const char *kind = luaL_checkstring(L, 1), *text = luaL_checkstring(L, 2);
    if (host->node) {
        tide_event_add(tide_system_of(host->node), kind, "%s", text);
    }
    return 0;
}

/* Element `at` of the table on top: {number=, time=, [field]=, text=}. */
static void push_line(lua_State *L, size_t at, uint64_t number, uint64_t wall_ns, const char *field, const char *value,
                      const char *text) {
    lua_createtable(L, 0, 4);
    tide__lua_set_integer(L, "number", number);
    lua_pushnumber(L, (lua_Number)wall_ns / 1e9);
    lua_setfield(L, -2, "time");
    lua_pushstring(L, value);
    lua_setfield(L, -2, field);
    lua_pushstring(L, text);
    lua_setfield(L, -2, "text");
    lua_rawseti(L, -2, (lua_Integer)at);
}

/* core.events(after) -> {{number=, time=, kind=, text=}, ..}, oldest first */
static int core_events(lua_State *L) {
    struct tide_lua *host = tide__lua_host(L);
    lua_Integer after = luaL_optinteger(L, 1, 0);
    luaL_argcheck(L, after >= 0, 1, "the number of an event");
    struct tide_event *events = lua_newuserdatauv(L, EVENTS_MAX * sizeof *events, 0);
    size_t count = host->node ? tide_events(tide_system_of(host->node), (uint64_t)after, events, EVENTS_MAX) : 0;
    lua_createtable(L, (int)count, 0);
    for (size_t i = 0; i < count; i++) {
        push_line(L, i + 1, events[i].number, events[i].wall_ns, "kind", events[i].kind, events[i].text);
    }
    return 1;
}

/* ---- the log ---- */

/* core.logged() -> {{number=, time=, level=, text=}, ..}, oldest first: this process's newest */
static int core_logged(lua_State *L) {
    static const char *const levels[] = {"debug", "info", "warn", "error"};
    struct tide_log_line *lines = lua_newuserdatauv(L, TIDE_LOG_KEPT * sizeof *lines, 0);
    size_t count = tide_log_recent(lines, TIDE_LOG_KEPT);
    lua_createtable(L, (int)count, 0);
    for (size_t i = 0; i < count; i++) {
        push_line(L, i + 1, lines[i].number, lines[i].wall_ns, "level", levels[lines[i].level], lines[i].text);
    }
    return 1;
}

/* ---- waits of tables ---- */

static void push_counts(lua_State *L, const uint64_t counts[TIDE_WAIT_BUCKETS]) {
    lua_createtable(L, TIDE_WAIT_BUCKETS, 0);
    for (int i = 0; i < TIDE_WAIT_BUCKETS; i++) {
        lua_pushinteger(L, (lua_Integer)counts[i]);
        lua_rawseti(L, -2, i + 1);
    }
}

/* {pull={counts}, push={counts}}: of waits below 1, 2, 4, ... us; the last all longer ones */
int tide__lua_table_waits(lua_State *L) {
    struct tide_table *table = tide__lua_table_at(L, 1);
    struct tide_table_waits waits;
    luaL_argcheck(L, table, 1, "a table's handle");
    tide_table_waits(table, &waits);
    lua_createtable(L, 0, 2);
    push_counts(L, waits.pull);
    lua_setfield(L, -2, "pull");
    push_counts(L, waits.push);
    lua_setfield(L, -2, "push");
    return 1;
}

/* ---- taps ---- */

struct tap {
    struct tide_tap *tap; /* NULL: closed */
    tide_address who;
};

/* core.tap(address, rate) -> tap | nil, err */
static int core_tap(lua_State *L) {
    struct tide_lua *host = tide__lua_inside(L);
    tide_address who = tide__lua_check_address(L, 1);
    lua_Integer rate = luaL_checkinteger(L, 2);
    luaL_argcheck(L, rate >= 1 && rate <= 1000, 2, "1 to 1000 samples a second");
    struct tap *tap = lua_newuserdatauv(L, sizeof *tap, 0);
    *tap = (struct tap){.who = who};
    luaL_setmetatable(L, METATABLE);
    int code = tide_tap_open(tide_system_of(host->node), who, (unsigned)rate, &tap->tap);
    return code < 0 ? tide__lua_failure(L, code) : 1;
}

static int tap_close(lua_State *L) {
    struct tap *tap = luaL_checkudata(L, 1, METATABLE);
    if (tap->tap) {
        tide_tap_close(tap->tap);
        tap->tap = NULL;
    }
    return 0;
}

static void push_text(lua_State *L, const struct tap *tap, const struct tide_tap_sample *sample) {
    char text[TEXT_MAX];
    size_t size = tide_describe(sample->data, sample->captured, text, sizeof text);
    struct tide_reader r;
    tide_reader_init(&r, sample->data, sample->captured);
    bool store = tide_address_id(tap->who) == TIDE_ID_STORE && (sample->data[0] & 0xf0) == 0x90;
    uint64_t op = UINT64_MAX;
    if (store && sample->captured > 1) { /* an array, perhaps cut short: past its head */
        r.at++;
        op = tide_read_uint(&r);
    }
    const char *name = r.error ? NULL : tide_store_message_name(op);
    lua_pushstring(L, name ? name : "");
    lua_pushstring(L, name ? " " : "");
    lua_pushlstring(L, text, size);
    lua_concat(L, 3);
}

static void push_sample(lua_State *L, const struct tap *tap, const struct tide_tap_sample *sample) {
    static const char *const kinds[] = {"cast", "call", "reply", "error", "exit", "timer", "cancel", "stop"};
    static const char *const lanes[] = {"system", "answer", "store", "control", "bulk"};
    lua_createtable(L, 0, 6);
    lua_pushnumber(L, (lua_Number)sample->when / 1e9);
    lua_setfield(L, -2, "at");
    tide__lua_push_address(L, sample->from);
    lua_setfield(L, -2, "from");
    lua_pushstring(L, sample->kind < TIDE_COUNT(kinds) ? kinds[sample->kind] : "?");
    lua_setfield(L, -2, "kind");
    lua_pushstring(L, sample->lane < TIDE_COUNT(lanes) ? lanes[sample->lane] : "?");
    lua_setfield(L, -2, "lane");
    lua_pushinteger(L, sample->size);
    lua_setfield(L, -2, "bytes");
    push_text(L, tap, sample);
    lua_setfield(L, -2, "text");
}

/* tap:read() -> {samples={{at=, from=, kind=, lane=, bytes=, text=}, ..}, seen=, passed_over=,
 * dropped=, queued={counts}, ended=}: what came since the last time; queued: messages by how long
 * they waited for the actor, as waits of tables. `at` as core.now(). */
static int tap_read(lua_State *L) {
    struct tap *tap = luaL_checkudata(L, 1, METATABLE);
    if (!tap->tap) {
        return luaL_error(L, "the tap is closed");
    }
    struct tide_tap_sample *samples = lua_newuserdatauv(L, SAMPLES_MAX * sizeof *samples, 0);
    struct tide_tap_counts counts;
    size_t count = tide_tap_read(tap->tap, samples, SAMPLES_MAX, &counts);
    lua_createtable(L, 0, 6);
    lua_createtable(L, (int)count, 0);
    for (size_t i = 0; i < count; i++) {
        push_sample(L, tap, &samples[i]);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    lua_setfield(L, -2, "samples");
    tide__lua_set_integer(L, "seen", counts.seen);
    tide__lua_set_integer(L, "passed_over", counts.passed_over);
    tide__lua_set_integer(L, "dropped", counts.dropped);
    push_counts(L, counts.queued);
    lua_setfield(L, -2, "queued");
    lua_pushboolean(L, counts.ended);
    lua_setfield(L, -2, "ended");
    return 1;
}

void tide__lua_open_watch(lua_State *L) {
    static const luaL_Reg functions[] = {
        {"event", core_event}, {"events", core_events}, {"tap", core_tap}, {"logged", core_logged}, {NULL, NULL}};
    static const luaL_Reg methods[] = {{"read", tap_read}, {"close", tap_close}, {NULL, NULL}};
    if (luaL_newmetatable(L, METATABLE)) {
        luaL_newlib(L, methods);
        lua_setfield(L, -2, "__index");
        lua_pushcfunction(L, tap_close);
        lua_pushvalue(L, -1);
        lua_setfield(L, -3, "__gc");
        lua_setfield(L, -2, "__close");
        lua_pushboolean(L, false);
        lua_setfield(L, -2, "__metatable");
    }
    lua_pop(L, 1);
    luaL_setfuncs(L, functions, 0);
}
