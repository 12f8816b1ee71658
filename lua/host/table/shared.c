/* Shared keys for Lua: techniques of keys, intents, and what came of them. */
#include "lua/host/host.h"
#include "tide/placement.h"
#include "tide/stats.h"

static int answer(lua_State *L, int code) {
    if (code < 0) {
        return tide__lua_raise(L, code);
    }
    lua_pushboolean(L, true);
    return 1;
}

static float not_negative(lua_State *L, const char *field) {
    lua_getfield(L, 4, field);
    const double value = luaL_optnumber(L, -1, 0);
    lua_pop(L, 1);
    if (!(value >= 0)) {
        luaL_error(L, "manage: %s is a number, not negative", field);
    }
    return (float)value;
}

/* {nodes={ids}, rate=, threshold=, clip=} at 4; the nodes stay on the stack. */
static void read_options(lua_State *L, struct tide_share_options *o) {
    luaL_checktype(L, 4, LUA_TTABLE);
    lua_getfield(L, 4, "rate");
    const lua_Integer rate = luaL_optinteger(L, -1, 0);
    luaL_argcheck(L, rate >= 0 && rate <= 10000, 4, "rate: rounds a second, at most 10000");
    lua_pop(L, 1);
    o->rate = (uint32_t)rate;
    o->threshold = not_negative(L, "threshold");
    o->clip = not_negative(L, "clip");
    if (lua_getfield(L, 4, "nodes") == LUA_TTABLE) {
        const lua_Unsigned count = lua_rawlen(L, -1);
        uint16_t *nodes = lua_newuserdatauv(L, (count + 1) * sizeof *nodes, 0);
        for (lua_Unsigned i = 0; i < count; i++) {
            lua_rawgeti(L, -2, (lua_Integer)i + 1);
            const lua_Integer node = lua_tointeger(L, -1);
            luaL_argcheck(L, node > 0 && node <= UINT16_MAX, 4, "nodes: a list of their ids");
            nodes[i] = (uint16_t)node;
            lua_pop(L, 1);
        }
        o->nodes = nodes;
        o->node_count = count;
    }
}

/* t:manage(keys, technique[, {nodes=, rate=, threshold=, clip=}]) -> true; raises what fails */
static int table_manage(lua_State *L) {
    struct tide_table *table = tide__lua_check_table(L, 1);
    struct tide_share_options options = {0};
    (void)tide__lua_inside(L);
    const uint64_t technique = tide__lua_option_check(L, 3, "technique");
    if (!lua_isnoneornil(L, 4)) {
        read_options(L, &options);
    }
    size_t count;
    const uint64_t *keys = tide__lua_keys(L, 2, &count);
    return answer(L, tide__lua_resumed(L, tide_table_manage(table, keys, count, (uint8_t)technique, &options)));
}

/* t:intent(keys, first clock, clock after the last) -> true | nil, err: nothing depends on it but speed */
static int table_intent(lua_State *L) {
    struct tide_table *table = tide__lua_check_table(L, 1);
    (void)tide__lua_inside(L);
    const lua_Integer begin = luaL_checkinteger(L, 3), end = luaL_optinteger(L, 4, begin + 1);
    luaL_argcheck(L, begin >= 0 && begin < INT32_MAX, 3, "a clock");
    luaL_argcheck(L, end > begin && end <= INT32_MAX, 4, "a clock after the first");
    size_t count;
    const uint64_t *keys = tide__lua_keys(L, 2, &count);
    const int code = tide_table_intent(table, keys, count, (uint32_t)begin, (uint32_t)end);
    if (code < 0) {
        return tide__lua_failure(L, code);
    }
    lua_pushboolean(L, true);
    return 1;
}

/* t:flush() -> true; raises what fails */
static int table_flush(lua_State *L) {
    struct tide_table *table = tide__lua_check_table(L, 1);
    (void)tide__lua_inside(L);
    return answer(L, tide__lua_resumed(L, tide_table_flush(table)));
}

/* t:technique(key) -> name, whether this node has a copy */
static int table_technique(lua_State *L) {
    struct tide_table *table = tide__lua_check_table(L, 1);
    bool copy;
    const uint8_t technique = tide_table_technique(table, (uint64_t)luaL_checkinteger(L, 2), &copy);
    lua_pushstring(L, tide__lua_option_word("technique", technique));
    lua_pushboolean(L, copy);
    return 2;
}

static void milliseconds(lua_State *L, const char *field, uint64_t ns) {
    lua_pushnumber(L, (double)ns / 1e6);
    lua_setfield(L, -2, field);
}

/* Sets the field `shared` of the table on the stack, if keys are. */
void tide__lua_push_shared(lua_State *L, struct tide_table *table) {
    struct tide_share_stats s;
    tide_table_share_stats(table, &s);
    const struct {
        const char *name;
        uint64_t value;
    } counts[] = {{"keys", s.keys},
                  {"copies", s.copies},
                  {"hits", s.hits},
                  {"refused", s.refused},
                  {"updates_out", s.updates_out},
                  {"rows_in", s.rows_in},
                  {"notices_out", s.notices_out},
                  {"updates_failed", s.updates_failed},
                  {"clipped", s.clipped}};
    if (s.keys == 0 && s.hits == 0 && s.notices_out == 0) {
        return;
    }
    lua_createtable(L, 0, (int)TIDE_COUNT(counts) + 4);
    for (size_t i = 0; i < TIDE_COUNT(counts); i++) {
        tide__lua_set_integer(L, counts[i].name, counts[i].value);
    }
    milliseconds(L, "unsent_mean_ms", s.unsent.mean_ns);
    milliseconds(L, "unsent_max_ms", s.unsent.max_ns);
    milliseconds(L, "behind_mean_ms", s.behind.mean_ns);
    milliseconds(L, "behind_max_ms", s.behind.max_ns);
    lua_setfield(L, -2, "shared");
}

const luaL_Reg tide__lua_shared_methods[] = {
    {"manage", table_manage},
    {"intent", table_intent},
    {"flush", table_flush},
    {"technique", table_technique},
    {NULL, NULL},
};
