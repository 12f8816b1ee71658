/*
 * k.lines: what is known of the speed of many workers, and the split of a batch that follows from
 * it, each as one native call over the records of a view: per worker in Lua both cost more than
 * everything else of a decision. The lines lie in a block of Lua's memory, indexed by the worker's
 * id, so they count against a sandbox's cap and end with its state.
 *
 * Records are read raw: a policy may have put metatables on its view, and none of its code runs
 * here.
 */
#include "decide/numeric.h"

#include "lua/host/sandbox/sandbox.h"

#include <math.h>
#include <string.h>

#define METATABLE "tide.lines"

enum { ID_MAX = 65535, SUBJECTS_MAX = 65536 };
#define UNITS_MAX 1e12 /* of a sample; with it no sum of squares overflows */
#define SECONDS_MAX 1e12

/* Fields of a worker's record, as upvalues 2.. of the methods: strings that need no hashing. */
enum field { ID = 2, CLOCK, EXAMPLES, SECONDS, BATCH, LEAST, MOST, FIELD_END };
static const char *const field_names[] = {"id", "clock", "examples", "seconds", "batch", "batch_min", "batch_max"};

struct seen {
    struct tide_line_seen line;
    lua_Integer clock; /* of the newest sample */
};

struct lines { /* its first user value is the block of `count` struct seen */
    double forget, jump;
    struct seen *seen;
    size_t count;
};

static void charge(lua_State *L, uint64_t instructions) {
    tide__sandbox_charge(L, lua_touserdata(L, lua_upvalueindex(1)), instructions);
}

/* The line of an id, which may be its first mention; `lines` is at stack index 1. */
static struct seen *seen_of(lua_State *L, struct lines *lines, lua_Integer id) {
    if (id < 0 || id > ID_MAX) {
        luaL_error(L, "k.lines: an id is 0 to %d", (int)ID_MAX);
    }
    if ((size_t)id >= lines->count) {
        size_t count = 2 * ((size_t)id + 8);
        struct seen *grown = lua_newuserdatauv(L, count * sizeof *grown, 0);
        memset(grown, 0, count * sizeof *grown);
        if (lines->count > 0) {
            memcpy(grown, lines->seen, lines->count * sizeof *grown);
        }
        lua_setiuservalue(L, 1, 1);
        lines->seen = grown;
        lines->count = count;
    }
    return &lines->seen[id];
}

/* Pushes a field of the record on top of the stack; its type. */
static int push_field(lua_State *L, enum field field) {
    lua_pushvalue(L, lua_upvalueindex((int)field));
    return lua_rawget(L, -2);
}

static double number_field(lua_State *L, enum field field, double otherwise, double least, double most) {
    int type = push_field(L, field), is_number = 1;
    double value = type == LUA_TNIL ? otherwise : lua_tonumberx(L, -1, &is_number);
    lua_pop(L, 1);
    if (!is_number || !(value >= least && value <= most)) {
        luaL_error(L, "k.lines: %s of a worker is not %f to %f", field_names[field - ID], least, most);
    }
    return value;
}

static lua_Integer whole_field(lua_State *L, enum field field, lua_Integer otherwise) {
    int type = push_field(L, field), is_integer = 1;
    lua_Integer value = type == LUA_TNIL ? otherwise : lua_tointegerx(L, -1, &is_integer);
    lua_pop(L, 1);
    if (!is_integer) {
        luaL_error(L, "k.lines: %s of a worker is no whole number", field_names[field - ID]);
    }
    return value;
}

/* Pushes the record i of the list at `index`. */
static void push_record(lua_State *L, int index, size_t i) {
    if (lua_rawgeti(L, index, (lua_Integer)i + 1) != LUA_TTABLE) {
        luaL_error(L, "k.lines: worker %d of the list is a %s", (int)i + 1, luaL_typename(L, -1));
    }
}

static size_t check_list(lua_State *L, int index) {
    luaL_checktype(L, index, LUA_TTABLE);
    size_t n = lua_rawlen(L, index);
    luaL_argcheck(L, n <= SUBJECTS_MAX, index, "more than 65536 workers");
    luaL_checkstack(L, 8, "k.lines");
    return n;
}

/* lines:learn(workers) -> whether each of them has had a sample. A record's examples and seconds
 * are its newest sample; one that was seen before (same clock, same figures) is not taken again. */
static int lines_learn(lua_State *L) {
    struct lines *lines = luaL_checkudata(L, 1, METATABLE);
    size_t n = check_list(L, 2);
    bool complete = true;
    charge(L, 40 * n);
    for (size_t i = 0; i < n; i++) {
        push_record(L, 2, i);
        struct seen *s = seen_of(L, lines, whole_field(L, ID, -1));
        lua_Integer clock = whole_field(L, CLOCK, 0);
        double examples = number_field(L, EXAMPLES, 0, 0, UNITS_MAX);
        double seconds = number_field(L, SECONDS, 0, 0, SECONDS_MAX);
        bool known = s->line.weight > 0 && s->clock == clock && s->line.last_units == examples &&
                     s->line.last_seconds == seconds;
        if (examples > 0 && !known) {
            tide_line_learn(&s->line, examples, seconds, lines->forget, lines->jump);
            s->clock = clock;
        }
        complete = complete && s->line.weight > 0;
        lua_pop(L, 1);
    }
    lua_pushboolean(L, complete);
    return 1;
}

/* What may be given to a worker: its bounds, and if `change` is there at most that share of its
 * batch, or of an equal one if that is more, off what it has. Returns what it has. */
static lua_Integer read_bounds(lua_State *L, lua_Integer total, double equal, double change,
                               struct tide_split_cost *cost) {
    lua_Integer batch = whole_field(L, BATCH, 0);
    lua_Integer least = whole_field(L, LEAST, 1), most = whole_field(L, MOST, total);
    if (change >= 0) {
        double larger = (double)batch > equal ? (double)batch : equal;
        lua_Integer step = (lua_Integer)fmin(floor(change * larger), UNITS_MAX) + 1;
        least = batch - step > least ? batch - step : least;
        most = batch + step < most ? batch + step : most;
    }
    least = least > 1 ? least : 1;
    most = most > least ? most : least;
    cost->min = (uint64_t)least;
    cost->max = (uint64_t)most;
    return batch;
}

/* lines:split(total, workers[, change]) -> {share = {[id] = n}, seconds =, now_s =, changed =}, the
 * split with the earliest end by the lines, and when it ends now; nil when the bounds do not allow
 * the total. */
static int lines_split(lua_State *L) {
    struct lines *lines = luaL_checkudata(L, 1, METATABLE);
    lua_Integer total = luaL_checkinteger(L, 2);
    size_t n = check_list(L, 3);
    double change = luaL_optnumber(L, 4, -1);
    luaL_argcheck(L, total >= 0 && total <= (lua_Integer)UNITS_MAX, 2, "0 to 1e12 units");
    charge(L, 200 * n);
    if (n == 0) {
        lua_pushnil(L);
        return 1;
    }
    struct tide_split_cost *costs = lua_newuserdatauv(L, n * sizeof *costs, 0);
    uint64_t *share = lua_newuserdatauv(L, n * sizeof *share, 0);
    lua_Integer *had = lua_newuserdatauv(L, n * sizeof *had, 0), *ids;
    ids = lua_newuserdatauv(L, n * sizeof *ids, 0);
    double now_s = 0, seconds = 0;
    for (size_t i = 0; i < n; i++) {
        push_record(L, 3, i);
        ids[i] = whole_field(L, ID, -1);
        const struct tide_line_seen *line = &seen_of(L, lines, ids[i])->line;
        costs[i] = (struct tide_split_cost){.at = line->at, .per = line->per};
        had[i] = read_bounds(L, total, (double)total / (double)n, change, &costs[i]);
        now_s = fmax(now_s, line->at + line->per * (double)had[i]);
        lua_pop(L, 1);
    }
    if (tide_split_minmax((uint64_t)total, costs, n, share, &seconds) < 0) {
        lua_pushnil(L);
        return 1;
    }
    bool changed = false;
    lua_createtable(L, 0, 4);
    lua_createtable(L, (int)n, 0);
    for (size_t i = 0; i < n; i++) {
        lua_pushinteger(L, (lua_Integer)share[i]);
        lua_rawseti(L, -2, ids[i]);
        changed = changed || (lua_Integer)share[i] != had[i];
    }
    lua_setfield(L, -2, "share");
    lua_pushnumber(L, seconds);
    lua_setfield(L, -2, "seconds");
    lua_pushnumber(L, now_s);
    lua_setfield(L, -2, "now_s");
    lua_pushboolean(L, changed);
    lua_setfield(L, -2, "changed");
    return 1;
}

/* lines:line(id) -> {at =, per =} or nil while it has had no sample */
static int lines_line(lua_State *L) {
    struct lines *lines = luaL_checkudata(L, 1, METATABLE);
    const struct tide_line_seen *line = &seen_of(L, lines, luaL_checkinteger(L, 2))->line;
    if (line->weight <= 0) {
        lua_pushnil(L);
        return 1;
    }
    lua_createtable(L, 0, 2);
    lua_pushnumber(L, line->at);
    lua_setfield(L, -2, "at");
    lua_pushnumber(L, line->per);
    lua_setfield(L, -2, "per");
    return 1;
}

/* lines:kept() -> {[id] = at}: what k.lines{at = ...} of a successor starts from */
static int lines_kept(lua_State *L) {
    struct lines *lines = luaL_checkudata(L, 1, METATABLE);
    charge(L, lines->count);
    lua_newtable(L);
    for (size_t id = 0; id < lines->count; id++) {
        if (lines->seen[id].line.kept_at > 0) {
            lua_pushnumber(L, lines->seen[id].line.kept_at);
            lua_rawseti(L, -2, (lua_Integer)id);
        }
    }
    return 1;
}

static double option(lua_State *L, const char *name, double otherwise) {
    lua_pushstring(L, name);
    int type = lua_rawget(L, 1);
    double value = type == LUA_TNIL ? otherwise : luaL_checknumber(L, -1);
    lua_pop(L, 1);
    return value;
}

/* Takes {[id] = at} at the top of the stack as the former state; other entries belong to other
 * users. */
static void read_kept(lua_State *L, struct lines *lines) {
    int table = lua_gettop(L);
    charge(L, lua_rawlen(L, table));
    lua_pushnil(L);
    while (lua_next(L, table)) {
        charge(L, 4);
        double at = lua_type(L, -1) == LUA_TNUMBER ? lua_tonumber(L, -1) : -1;
        if (lua_isinteger(L, -2) && at > 0 && at <= SECONDS_MAX && lua_tointeger(L, -2) >= 0 &&
            lua_tointeger(L, -2) <= ID_MAX) {
            seen_of(L, lines, lua_tointeger(L, -2))->line.kept_at = at;
        }
        lua_pop(L, 1);
    }
}

static void push_metatable(lua_State *L) {
    static const luaL_Reg methods[] = {
        {"learn", lines_learn}, {"split", lines_split}, {"line", lines_line}, {"kept", lines_kept}, {NULL, NULL}};
    if (!luaL_newmetatable(L, METATABLE)) {
        return;
    }
    luaL_newlibtable(L, methods);
    lua_pushlightuserdata(L, lua_touserdata(L, lua_upvalueindex(1)));
    for (size_t i = 0; i < TIDE_COUNT(field_names); i++) {
        lua_pushstring(L, field_names[i]);
    }
    luaL_setfuncs(L, methods, FIELD_END - 1);
    lua_setfield(L, -2, "__index");
    lua_pushboolean(L, 0); /* unreachable from a script */
    lua_setfield(L, -2, "__metatable");
}

int tide__k_lines(lua_State *L) {
    luaL_checktype(L, 1, LUA_TTABLE);
    double forget = option(L, "forget", 0.9), jump = option(L, "jump", 1.25);
    luaL_argcheck(L, forget > 0 && forget <= 1, 1, "forget is above 0, and 1 at most");
    luaL_argcheck(L, jump > 1 && isfinite(jump), 1, "jump is above 1");
    lua_pushliteral(L, "at");
    int kept = lua_rawget(L, 1);
    luaL_argcheck(L, kept == LUA_TNIL || kept == LUA_TTABLE, 1, "at is a table by id");
    struct lines *lines = lua_newuserdatauv(L, sizeof *lines, 1);
    *lines = (struct lines){.forget = forget, .jump = jump};
    lua_replace(L, 1);
    push_metatable(L);
    lua_setmetatable(L, 1);
    if (kept == LUA_TTABLE) {
        lua_settop(L, 2);
        read_kept(L, lines);
    }
    lua_settop(L, 1);
    return 1;
}
