/*
 * Samplers for Lua: t:sampler{...}, and its methods prepare, pull, finish, stats. A draw of the
 * script's own is a function; what it raises ends the call that drew.
 */
#include "lua/host/host.h"
#include "tide/sampler.h"

#include <string.h>

static const char sampler_metatable; /* its address is the registry key */

static const char *const scheme_names[] = {"naive", "preloc", "pool", "postpone", "local", NULL};
/* What each scheme promises; asking for a promise chooses the cheapest scheme that keeps it. */
static const char *const level_names[] = {"conform", "bounded", "long_term", "none", NULL};
static const uint8_t scheme_of_level[] = {TIDE_SAMPLE_PRELOC, TIDE_SAMPLE_POOL, TIDE_SAMPLE_POSTPONE,
                                          TIDE_SAMPLE_LOCAL};
static const uint8_t level_of_scheme[] = {0, 0, 1, 2, 3};

struct sampler {
    struct tide_sampler *sampler;
    struct tide_table *table;
    uint8_t scheme;
    int draw;     /* registry reference to the script's function, or LUA_NOREF */
    lua_State *L; /* of the call that is drawing */
    bool raised;  /* its error is on top of that stack */
};

static struct sampler *sampler_at(lua_State *L, int index) {
    return tide__lua_handle_at(L, index, &sampler_metatable);
}

static struct sampler *check_sampler(lua_State *L) {
    struct sampler *s = sampler_at(L, 1);
    if (!s) {
        luaL_typeerror(L, 1, "sampler");
    }
    return s;
}

/* The script's function, protected: an error must not jump over the sampler's frames. */
static int draw_by_script(void *argument, uint64_t *key) {
    struct sampler *s = argument;
    lua_State *L = s->L;
    lua_rawgeti(L, LUA_REGISTRYINDEX, s->draw);
    if (lua_pcall(L, 0, 1, 0) != LUA_OK) {
        s->raised = true;
        return TIDE_EREFUSED;
    }
    int integer;
    lua_Integer value = lua_tointegerx(L, -1, &integer);
    lua_pop(L, 1);
    if (!integer || value < 0) {
        return tide_fail(TIDE_EINVAL, "the sampler's function gave no key (an integer from 0)");
    }
    *key = (uint64_t)value;
    return 0;
}

static void check_code(lua_State *L, struct sampler *s, int code) {
    if (s->raised) {
        s->raised = false;
        lua_error(L);
    }
    if (code < 0) {
        tide__lua_raise(L, code);
    }
}

/* ---- creation ---- */

static uint64_t whole_field(lua_State *L, const char *name, lua_Integer otherwise) {
    int integer = 1;
    lua_Integer value = otherwise;
    if (lua_getfield(L, 2, name) != LUA_TNIL) {
        value = lua_tointegerx(L, -1, &integer);
    }
    if (!integer || value < 0) {
        luaL_error(L, "sampler: '%s' is not a whole number from 0", name);
    }
    lua_pop(L, 1);
    return (uint64_t)value;
}

static int name_field(lua_State *L, const char *field, const char *const names[]) {
    if (lua_getfield(L, 2, field) == LUA_TNIL) {
        return -1;
    }
    const char *name = lua_tostring(L, -1);
    for (int i = 0; names[i]; i++) {
        if (name && strcmp(name, names[i]) == 0) {
            return i;
        }
    }
    return luaL_error(L, "sampler: %s = \"%s\" is not one of its values", field, name ? name : "?");
}

static uint8_t read_scheme(lua_State *L) {
    int scheme = name_field(L, "scheme", scheme_names), level = name_field(L, "level", level_names);
    if (scheme >= 0 && level >= 0) {
        luaL_error(L, "sampler: give a scheme or a level, not both");
    }
    return scheme >= 0 ? (uint8_t)scheme : level >= 0 ? scheme_of_level[level] : (uint8_t)TIDE_SAMPLE_PRELOC;
}

/* Weights on the stack as an array of doubles, which stays there. */
static const double *read_weights(lua_State *L, int index, size_t *count) {
    struct tide_lua_tensor *tensor = tide__lua_tensor_at(L, index);
    if (!tensor && !lua_istable(L, index)) {
        luaL_error(L, "sampler: dist is \"uniform\", weights, or a function");
    }
    *count = tensor ? tide__lua_tensor_count(tensor) : lua_rawlen(L, index);
    if (*count == 0) {
        luaL_error(L, "sampler: dist has no weights");
    }
    double *weights = lua_newuserdatauv(L, *count * sizeof *weights + 1, 0);
    for (size_t i = 0; i < *count; i++) {
        int number;
        lua_geti(L, index, (lua_Integer)i + 1);
        weights[i] = lua_tonumberx(L, -1, &number);
        if (!number) {
            luaL_error(L, "sampler: weight %I is not a number", (lua_Integer)i + 1);
        }
        lua_pop(L, 1);
    }
    return weights;
}

static void read_distribution(lua_State *L, struct sampler *s, struct tide_sampler_options *o) {
    int type = lua_getfield(L, 2, "dist");
    if (type == LUA_TNIL || (type == LUA_TSTRING && strcmp(lua_tostring(L, -1), "uniform") == 0)) {
        return;
    }
    if (type == LUA_TFUNCTION) {
        s->draw = luaL_ref(L, LUA_REGISTRYINDEX);
        o->draw = draw_by_script;
        o->argument = s;
        return;
    }
    size_t count;
    o->weights = read_weights(L, lua_gettop(L), &count);
    if (o->key_count && o->key_count != count) {
        luaL_error(L, "sampler: %I weights for %I keys", (lua_Integer)count, (lua_Integer)o->key_count);
    }
    o->key_count = count;
}

static void check_fields(lua_State *L) {
    static const char *const fields[] = {"dist", "scheme", "level", "first", "count", "group", "reuse", "seed"};
    luaL_checktype(L, 2, LUA_TTABLE);
    for (lua_pushnil(L); lua_next(L, 2); lua_pop(L, 1)) {
        bool known = false;
        for (size_t i = 0; i < TIDE_COUNT(fields) && lua_type(L, -2) == LUA_TSTRING; i++) {
            known = known || strcmp(lua_tostring(L, -2), fields[i]) == 0;
        }
        if (!known) {
            luaL_error(L,
                       "sampler: no field '%s'; there are dist, scheme, level, first, count, "
                       "group, reuse, seed",
                       luaL_tolstring(L, -2, NULL));
        }
    }
}

int tide__lua_table_sampler(lua_State *L) {
    struct tide_table *table = tide__lua_check_table(L, 1);
    lua_settop(L, 2);
    if (lua_isnil(L, 2)) {
        lua_newtable(L);
        lua_replace(L, 2);
    }
    check_fields(L);
    struct sampler *s = lua_newuserdatauv(L, sizeof *s, 0);
    *s = (struct sampler){.table = table, .draw = LUA_NOREF};
    lua_rawgetp(L, LUA_REGISTRYINDEX, &sampler_metatable);
    lua_setmetatable(L, -2);
    int at = lua_gettop(L);
    struct tide_sampler_options o = {.scheme = s->scheme = read_scheme(L),
                                     .first_key = whole_field(L, "first", 0),
                                     .key_count = whole_field(L, "count", 0),
                                     .group = (uint32_t)whole_field(L, "group", 0),
                                     .reuse = (uint32_t)whole_field(L, "reuse", 0),
                                     .seed = whole_field(L, "seed", 1)};
    read_distribution(L, s, &o);
    check_code(L, s, tide_sampler_create(table, &o, &s->sampler));
    lua_settop(L, at);
    return 1;
}

static int sampler_collected(lua_State *L) {
    struct sampler *s = lua_touserdata(L, 1);
    tide_sampler_destroy(s->sampler);
    luaL_unref(L, LUA_REGISTRYINDEX, s->draw);
    s->sampler = NULL;
    return 0;
}

/* ---- methods ---- */

static int sampler_prepare(lua_State *L) {
    struct sampler *s = check_sampler(L);
    lua_Integer count = luaL_checkinteger(L, 2);
    luaL_argcheck(L, count >= 0, 2, "keys to draw, from 0");
    (void)tide__lua_inside(L);
    uint32_t number;
    s->L = L;
    check_code(L, s, tide__lua_resumed(L, tide_sampler_prepare(s->sampler, (size_t)count, &number)));
    lua_pushinteger(L, number);
    return 1;
}

/* keys, rows */
static int sampler_pull(lua_State *L) {
    struct sampler *s = check_sampler(L);
    lua_Integer sample = luaL_checkinteger(L, 2), count = luaL_checkinteger(L, 3);
    luaL_argcheck(L, sample >= 0 && sample <= UINT32_MAX, 2, "a sample, as prepare gave it");
    luaL_argcheck(L, count >= 0 && count <= 1 << 20, 3, "keys, 0 to 2^20");
    (void)tide__lua_inside(L);
    struct tide_lua_tensor *keys = tide__lua_tensor_new(L, TIDE_U64, (size_t)count, 1);
    struct tide_lua_tensor *rows =
        tide__lua_tensor_new(L, TIDE_F32, (size_t)count, tide_table_options(s->table)->width);
    s->L = L;
    check_code(L, s,
               tide__lua_resumed(
                   L, tide_sampler_pull(s->sampler, (uint32_t)sample, (size_t)count, keys->t.data, rows->t.data)));
    return 2;
}

static int sampler_finish(lua_State *L) {
    struct sampler *s = check_sampler(L);
    lua_Integer sample = luaL_checkinteger(L, 2);
    luaL_argcheck(L, sample >= 0 && sample <= UINT32_MAX, 2, "a sample, as prepare gave it");
    (void)tide__lua_inside(L);
    check_code(L, s, tide__lua_resumed(L, tide_sampler_finish(s->sampler, (uint32_t)sample)));
    return 0;
}

static int sampler_stats(lua_State *L) {
    struct sampler *s = check_sampler(L);
    struct tide_sampler_stats stats;
    tide_sampler_stats(s->sampler, &stats);
    const struct {
        const char *name;
        uint64_t value;
    } fields[] = {{"drawn", stats.drawn},
                  {"pulled", stats.pulled},
                  {"postponed", stats.postponed},
                  {"not_found", stats.not_found},
                  {"groups", stats.groups}};
    lua_createtable(L, 0, (int)TIDE_COUNT(fields) + 2);
    for (size_t i = 0; i < TIDE_COUNT(fields); i++) {
        tide__lua_set_integer(L, fields[i].name, fields[i].value);
    }
    lua_pushstring(L, scheme_names[s->scheme]);
    lua_setfield(L, -2, "scheme");
    lua_pushstring(L, level_names[level_of_scheme[s->scheme]]);
    lua_setfield(L, -2, "level");
    return 1;
}

/* ---- for kernels ---- */

static int draws_prepare(void *sampler, size_t key_count, uint32_t *sample) {
    return tide_sampler_prepare(sampler, key_count, sample);
}

static int draws_take(void *sampler, uint32_t sample, size_t key_count, uint64_t *keys) {
    return tide_sampler_pull(sampler, sample, key_count, keys, NULL);
}

static int draws_finish(void *sampler, uint32_t sample) {
    return tide_sampler_finish(sampler, sample);
}

struct tide_draws tide__lua_draws_at(lua_State *L, int index) {
    const struct sampler *s = sampler_at(L, index);
    return (struct tide_draws){.sampler = s && s->draw == LUA_NOREF ? s->sampler : NULL,
                               .prepare = draws_prepare,
                               .take = draws_take,
                               .finish = draws_finish};
}

void tide__lua_open_sampler(lua_State *L) {
    static const luaL_Reg methods[] = {{"prepare", sampler_prepare},
                                       {"pull", sampler_pull},
                                       {"finish", sampler_finish},
                                       {"stats", sampler_stats},
                                       {NULL, NULL}};
    tide__lua_handle_class(L, &sampler_metatable, NULL, methods, sampler_collected);
}
