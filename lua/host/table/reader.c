/* Readers of checkpoint directories for Lua: core.reader, core.table_patch. lua/tide/reader.lua gives errors their
 * codes. */
#include "lua/host/host.h"
#include "store/checkpoint/checkpoint.h"
#include "store/serve/reader.h"

#include <string.h>

static const char reader_metatable; /* its address is a registry key */

/* The reader and its users: the handle, and a refresh that another thread makes. */
struct shared {
    atomic_uint holders;
    struct tide__reader *reader;
};

struct work {
    struct shared *shared;
    struct tide_port *port;
    char dir[TIDE__PATH_MAX], table[64];
    int code;
    char reason[500];
};

static void shared_drop(struct shared *s) {
    if (atomic_fetch_sub_explicit(&s->holders, 1, memory_order_acq_rel) == 1) {
        tide__reader_close(s->reader);
        tide_free(s);
    }
}

static void work_drop(void *arg) {
    struct work *w = arg;
    shared_drop(w->shared);
    tide_free(w);
}

static void work_run(void *arg) {
    struct work *w = arg;
    w->code = w->shared->reader ? tide__reader_refresh(w->shared->reader)
                                : tide__reader_open(w->port, w->dir, w->table, &w->shared->reader);
    if (w->code < 0) {
        (void)snprintf(w->reason, sizeof w->reason, "%s", tide_error_message());
    }
}

/* On the disk's thread, if a node has one, so that lookups continue. */
static int refresh(lua_State *L, struct shared *shared, const char *dir, const char *table) {
    struct tide_lua *host = tide__lua_host(L);
    struct work *w = tide_alloc_zero(1, sizeof *w);
    if (!w) {
        return tide_fail(TIDE_ENOMEM, "no memory for a reader");
    }
    atomic_fetch_add_explicit(&shared->holders, 1, memory_order_relaxed);
    w->shared = shared;
    w->port = host->port;
    if (snprintf(w->dir, sizeof w->dir, "%s", dir) >= (int)sizeof w->dir ||
        snprintf(w->table, sizeof w->table, "%s", table) >= (int)sizeof w->table) {
        work_drop(w);
        return tide_fail(TIDE_EINVAL, "a path or name that is too long");
    }
    int code = tide__lua_on_disk(L, work_run, w, work_drop);
    if (code == 0) {
        code = w->code < 0 ? tide_fail(w->code, "%s", w->reason) : w->code;
        work_drop(w);
    }
    return code;
}

static struct tide__reader *check_reader(lua_State *L) {
    struct shared **at = tide__lua_handle_check(L, 1, &reader_metatable, "reader");
    if (!*at) {
        luaL_error(L, "the reader is closed");
    }
    return (*at)->reader;
}

/* dir, table -> reader | nil, err */
static int core_reader(lua_State *L) {
    const char *dir = luaL_checkstring(L, 1), *table = luaL_checkstring(L, 2);
    struct shared **at = lua_newuserdatauv(L, sizeof *at, 0);
    *at = NULL;
    lua_rawgetp(L, LUA_REGISTRYINDEX, &reader_metatable);
    lua_setmetatable(L, -2);
    *at = tide_alloc_zero(1, sizeof **at);
    if (!*at) {
        return tide__lua_failure(L, tide_fail(TIDE_ENOMEM, "no memory for a reader"));
    }
    atomic_init(&(*at)->holders, 1);
    const int code = refresh(L, *at, dir, table);
    if (code < 0) {
        shared_drop(*at);
        *at = NULL;
        return tide__lua_failure(L, code);
    }
    return 1;
}

/* r:refresh() -> a newer generation was loaded | nil, err: what was there stays */
static int reader_refresh(lua_State *L) {
    (void)check_reader(L);
    struct shared **at = tide__lua_handle_check(L, 1, &reader_metatable, "reader");
    const int code = refresh(L, *at, "", "");
    if (code < 0) {
        return tide__lua_failure(L, code);
    }
    lua_pushboolean(L, code > 0);
    return 1;
}

/* r:pull(keys) -> rows f32, found u8, generation */
static int reader_pull(lua_State *L) {
    struct tide__reader *reader = check_reader(L);
    lua_settop(L, 2);
    size_t count;
    const uint64_t *keys = tide__lua_keys(L, 2, &count);
    struct tide__reader_info info;
    tide__reader_look(reader, &info);
    float *rows = tide__lua_tensor_new(L, TIDE_F32, count, info.width)->t.data;
    uint8_t *found = tide__lua_tensor_new(L, TIDE_U8, count, 1)->t.data;
    lua_pushinteger(L, (lua_Integer)tide__reader_pull(reader, keys, count, rows, found));
    return 3;
}

/* r:info() -> {generation, rows, bytes, width, loaded, read, cut_wall_s, behind_s} */
static int reader_info(lua_State *L) {
    struct tide__reader *reader = check_reader(L);
    struct tide__reader_info info;
    tide__reader_look(reader, &info);
    lua_createtable(L, 0, 8);
    tide__lua_set_integer(L, "generation", info.generation);
    tide__lua_set_integer(L, "rows", info.rows);
    tide__lua_set_integer(L, "bytes", info.bytes);
    tide__lua_set_integer(L, "width", info.width);
    tide__lua_set_integer(L, "loaded", info.loaded);
    tide__lua_set_integer(L, "read", info.read);
    lua_pushnumber(L, (lua_Number)info.cut_wall_ns / 1e9);
    lua_setfield(L, -2, "cut_wall_s");
    lua_pushnumber(L, (lua_Number)tide__reader_behind(reader) / 1e9);
    lua_setfield(L, -2, "behind_s");
    return 1;
}

static int reader_close(lua_State *L) {
    struct shared **at = tide__lua_handle_at(L, 1, &reader_metatable);
    if (at && *at) {
        shared_drop(*at);
        *at = NULL;
    }
    return 0;
}

/* dir, table, since -> {table, from, to, width, keys, values, gone} | nil, err */
static int core_table_patch(lua_State *L) {
    const char *dir = luaL_checkstring(L, 1), *table = luaL_checkstring(L, 2);
    const lua_Integer since = luaL_optinteger(L, 3, 0);
    luaL_argcheck(L, since >= 0, 3, "the number of a generation");
    struct tide__patch patch;
    const int code = tide__patch_read(tide__lua_host(L)->port, dir, table, (uint64_t)since, &patch);
    if (code < 0) {
        return tide__lua_failure(L, code);
    }
    lua_createtable(L, 0, 7);
    tide__lua_set_integer(L, "from", patch.from);
    tide__lua_set_integer(L, "to", patch.to);
    tide__lua_set_integer(L, "width", patch.width);
    lua_pushstring(L, patch.table);
    lua_setfield(L, -2, "table");
    memcpy(tide__lua_tensor_new(L, TIDE_U64, patch.count, 1)->t.data, patch.keys, patch.count * sizeof *patch.keys);
    lua_setfield(L, -2, "keys");
    memcpy(tide__lua_tensor_new(L, TIDE_F32, patch.count, patch.width)->t.data, patch.values,
           patch.count * patch.width * sizeof *patch.values);
    lua_setfield(L, -2, "values");
    memcpy(tide__lua_tensor_new(L, TIDE_U64, patch.gone_count, 1)->t.data, patch.gone,
           patch.gone_count * sizeof *patch.gone);
    lua_setfield(L, -2, "gone");
    tide__patch_release(&patch);
    return 1;
}

void tide__lua_open_reader(lua_State *L) {
    static const luaL_Reg functions[] = {{"reader", core_reader}, {"table_patch", core_table_patch}, {NULL, NULL}};
    static const luaL_Reg methods[] = {{"refresh", reader_refresh}, {"pull", reader_pull},     {"info", reader_info},
                                       {"close", reader_close},     {"__close", reader_close}, {NULL, NULL}};
    luaL_setfuncs(L, functions, 0);
    tide__lua_handle_class(L, &reader_metatable, NULL, methods, reader_close);
}
