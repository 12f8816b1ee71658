/* Clocks of workers, and the consistency of tables, for Lua. */
#include "lua/host/host.h"
#include "tide/clock.h"
#include "tide/stats.h"

/* worker, clock, domain -> true | nil, err */
static int core_worker_begin(lua_State *L) {
    struct tide_lua *host = tide__lua_inside(L);
    lua_Integer worker = luaL_checkinteger(L, 1), clock = luaL_optinteger(L, 2, 0);
    luaL_argcheck(L, worker >= 0 && worker <= UINT32_MAX, 1, "the number of a worker");
    luaL_argcheck(L, clock >= 0 && clock <= INT32_MAX, 2, "a clock");
    lua_Integer domain = luaL_optinteger(L, 3, 0);
    luaL_argcheck(L, domain >= 0 && domain <= UINT32_MAX, 3, "the number of a run");
    int code =
        tide__lua_resumed(L, tide_worker_begin_in(host->node, (uint32_t)domain, (uint32_t)worker, (uint32_t)clock));
    if (code < 0) {
        return tide__lua_failure(L, code);
    }
    lua_pushboolean(L, true);
    return 1;
}

static int core_worker_end(lua_State *L) {
    (void)tide__lua_inside(L);
    tide_worker_end();
    return 0;
}

/* -> clock; raises what fails */
static int core_clock(lua_State *L) {
    (void)tide__lua_inside(L);
    int code = tide__lua_resumed(L, tide_clock());
    if (code < 0) {
        return tide__lua_raise(L, code);
    }
    lua_pushinteger(L, code);
    return 1;
}

/* true | nil, err */
static int core_settle(lua_State *L) {
    (void)tide__lua_inside(L);
    int code = tide__lua_resumed(L, tide_settle());
    if (code < 0) {
        return tide__lua_failure(L, code);
    }
    lua_pushboolean(L, true);
    return 1;
}

/* The calling worker's clock; nil if it is none. */
static int core_worker_clock(lua_State *L) {
    (void)tide__lua_inside(L);
    int64_t clock = tide_worker_clock();
    if (clock < 0) {
        lua_pushnil(L);
    } else {
        lua_pushinteger(L, clock);
    }
    return 1;
}

/* ---- consistency of tables ---- */

static void push_bound(lua_State *L, const struct tide_table *table) {
    struct tide_consistency consistency;
    char text[TIDE_CONSISTENCY_TEXT];
    tide_table_consistency(table, &consistency);
    tide_consistency_print(&consistency, text);
    lua_pushstring(L, text);
}

/* What workers saw and waited for, into the table on top. */
static void push_seen(lua_State *L, const struct tide_worker_staleness *s) {
    lua_createtable(L, 4, 0); /* [k]: pulls of differential -k */
    lua_Integer least = 0;
    uint64_t pulls = s->under + s->over;
    for (lua_Integer d = TIDE_STALENESS_MAX + 1; d > 0; d--) {
        least = s->count[d] && least == 0 ? -d : least;
        if (least) {
            lua_pushinteger(L, (lua_Integer)s->count[d]);
            lua_rawseti(L, -2, d);
        }
        pulls += s->count[d];
    }
    lua_setfield(L, -2, "hist");
    tide__lua_set_number(L, "mean", s->mean);
    tide__lua_set_number(L, "var", s->variance);
    lua_pushinteger(L, least);
    lua_setfield(L, -2, "min");
    tide__lua_set_integer(L, "pulls", pulls);
    tide__lua_set_integer(L, "over", s->over);
    tide__lua_set_integer(L, "under", s->under);
    tide__lua_set_integer(L, "hits", s->hits);
    tide__lua_set_integer(L, "waits", s->waits);
    tide__lua_set_integer(L, "fetches", s->fetches);
    tide__lua_set_integer(L, "clocks", s->clocks);
    tide__lua_set_number(L, "waited_s", (double)s->waited_ns / 1e9);
    tide__lua_set_number(L, "clock_s", (double)s->clock_ns / 1e9);
    tide__lua_set_number(L, "stopped_s", (double)s->stopped_ns / 1e9);
    tide__lua_set_integer(L, "stops", s->stops);
}

/* A list by number of the worker. */
static void push_workers(lua_State *L, struct tide_table *table) {
    const size_t limit = tide_table_worker_staleness(table, NULL, 0);
    struct tide_worker_staleness *s = lua_newuserdatauv(L, limit * sizeof *s + 1, 0);
    size_t found = tide_table_worker_staleness(table, s, limit);
    found = found < limit ? found : limit;
    lua_createtable(L, (int)found, 0);
    for (size_t i = 0; i < found; i++) {
        lua_createtable(L, 0, 20);
        push_seen(L, &s[i]);
        tide__lua_set_integer(L, "worker", s[i].worker);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    lua_remove(L, -2);
}

void tide__lua_push_staleness(lua_State *L, struct tide_table *table) {
    if (tide_table_options(table)->consistency.model == TIDE_SEQUENTIAL) {
        return;
    }
    struct tide_staleness s;
    tide_table_staleness(table, &s);
    push_bound(L, table);
    lua_setfield(L, -2, "consistency");
    lua_createtable(L, 0, 32);
    push_seen(L, &s.all);
    tide__lua_set_integer(L, "copies", s.copies);
    tide__lua_set_integer(L, "copy_bytes", s.copy_bytes);
    tide__lua_set_integer(L, "evicted", s.evicted);
    tide__lua_set_integer(L, "values_in", s.values_in);
    tide__lua_set_integer(L, "values_out", s.values_out);
    tide__lua_set_integer(L, "deltas_out", s.deltas_out);
    tide__lua_set_integer(L, "value_bytes", s.value_bytes);
    tide__lua_set_integer(L, "answer_bytes", s.answer_bytes);
    tide__lua_set_integer(L, "delta_bytes", s.delta_bytes);
    tide__lua_set_integer(L, "early_rows", s.early_rows);
    tide__lua_set_integer(L, "early_bytes", s.early_bytes);
    tide__lua_set_integer(L, "forced_bytes", s.value_bytes + s.delta_bytes - s.early_bytes);
    tide__lua_set_integer(L, "confirm_bytes", s.confirm_bytes);
    tide__lua_set_integer(L, "excess", s.excess);
    push_workers(L, table);
    lua_setfield(L, -2, "workers");
    lua_setfield(L, -2, "staleness");
}

/* t:consistency() -> text; t:consistency("essp:4") -> true; raises what fails */
int tide__lua_table_consistency(lua_State *L) {
    struct tide_table *table = tide__lua_check_table(L, 1);
    if (lua_isnoneornil(L, 2)) {
        push_bound(L, table);
        return 1;
    }
    (void)tide__lua_inside(L);
    struct tide_consistency consistency;
    int code = tide_consistency_parse(luaL_checkstring(L, 2), &consistency);
    code = code ? code : tide__lua_resumed(L, tide_table_set_consistency(table, &consistency));
    if (code < 0) {
        return tide__lua_raise(L, code);
    }
    lua_pushboolean(L, true);
    return 1;
}

void tide__lua_open_clock(lua_State *L) {
    static const luaL_Reg functions[] = {{"settle", core_settle},
                                         {"worker_clock", core_worker_clock},
                                         {"worker_begin", core_worker_begin},
                                         {"worker_end", core_worker_end},
                                         {"clock", core_clock},
                                         {NULL, NULL}};
    luaL_setfuncs(L, functions, 0);
}
