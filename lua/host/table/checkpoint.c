/* Checkpoints for Lua: core.checkpoint_*. Errors carry the names of C; lua/tide/run/checkpoint.lua
 * gives them their codes. */
#include "lua/host/host.h"
#include "store/checkpoint/checkpoint.h"

#include <string.h>

enum { JOB_VALUES_MAX = 1 << 20 };

static const char checkpoint_metatable; /* its address is a registry key */

struct handle {
    struct tide_checkpoint *checkpoint; /* NULL once it has ended */
};

/* Pushes a table. */
static void push_info(lua_State *L, const struct tide_checkpoint_info *info) {
    lua_createtable(L, 0, 8);
    tide__lua_set_integer(L, "generation", info->generation);
    tide__lua_set_integer(L, "bytes", info->bytes);
    tide__lua_set_integer(L, "rows", info->rows);
    lua_pushnumber(L, (lua_Number)info->wall_ns / 1e9);
    lua_setfield(L, -2, "wall_s");
    lua_pushboolean(L, info->full);
    lua_setfield(L, -2, "full");
    lua_pushboolean(L, info->committed);
    lua_setfield(L, -2, "committed");
    lua_pushstring(L, info->clock == UINT32_MAX ? "fuzzy" : "clock");
    lua_setfield(L, -2, "cut");
    if (info->clock != UINT32_MAX) {
        tide__lua_set_integer(L, "clock", info->clock);
    }
}

/* ---- writing ---- */

static struct handle *check_handle(lua_State *L) {
    struct handle *handle = tide__lua_handle_check(L, 1, &checkpoint_metatable, "checkpoint");
    if (!handle->checkpoint) {
        luaL_error(L, "this checkpoint has ended already");
    }
    return handle;
}

static uint32_t small_field(lua_State *L, const char *name) {
    lua_getfield(L, 1, name);
    lua_Integer value = luaL_optinteger(L, -1, 0);
    if (value < 0 || value > UINT16_MAX) {
        luaL_error(L, "checkpoint: %s = %I is out of range", name, value);
    }
    lua_pop(L, 1);
    return (uint32_t)value;
}

/* {dir=, cut=, keep=, full_every=, timeout_s=, run=} -> handle | nil, err */
static int core_checkpoint_start(lua_State *L) {
    static const char *const cuts[] = {"auto", "clock", "fuzzy", NULL};
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    struct tide_lua *host = tide__lua_inside(L);
    struct tide_checkpoint_options o = {.keep = small_field(L, "keep"), .full_every = small_field(L, "full_every")};
    lua_getfield(L, 1, "timeout_s");
    o.timeout = (uint64_t)(luaL_optnumber(L, -1, 60) * 1e9);
    lua_getfield(L, 1, "run");
    const lua_Integer run = luaL_optinteger(L, -1, 0);
    luaL_argcheck(L, run >= 0 && run <= UINT32_MAX, 1, "the number of a run");
    o.domain = (uint32_t)run;
    lua_getfield(L, 1, "dir");
    o.dir = luaL_checkstring(L, -1);
    lua_getfield(L, 1, "cut");
    o.cut = (uint8_t)luaL_checkoption(L, -1, "auto", cuts);
    struct handle *handle = lua_newuserdatauv(L, sizeof *handle, 0);
    handle->checkpoint = NULL;
    lua_rawgetp(L, LUA_REGISTRYINDEX, &checkpoint_metatable);
    lua_setmetatable(L, -2);
    int code = tide__lua_resumed(L, tide_checkpoint_start(host->node, &o, &handle->checkpoint));
    return code < 0 ? tide__lua_failure(L, code) : 1;
}

static int checkpoint_info(lua_State *L) {
    push_info(L, tide_checkpoint_get(check_handle(L)->checkpoint));
    return 1;
}

/* job value -> true | nil, err; what cannot be saved raises and leaves the checkpoint open */
static int checkpoint_commit(lua_State *L) {
    struct handle *handle = check_handle(L);
    struct tide_writer w;
    (void)tide__lua_inside(L);
    lua_settop(L, 2);
    tide_writer_init(&w, NULL, 0);
    int code = tide__lua_encode(L, 2, "job", JOB_VALUES_MAX, &w);
    if (code == 0) {
        code = tide_checkpoint_commit(handle->checkpoint, w.data, w.size);
        handle->checkpoint = NULL;
    }
    tide_writer_release(&w);
    code = tide__lua_resumed(L, code);
    if (code < 0) {
        return tide__lua_failure(L, code);
    }
    lua_pushboolean(L, true);
    return 1;
}

static int checkpoint_abort(lua_State *L) {
    struct handle *handle = check_handle(L);
    tide_checkpoint_abort(handle->checkpoint);
    handle->checkpoint = NULL;
    return 0;
}

/* It was not ended: the nodes are done with it by now, and its directory is no generation. */
static int checkpoint_collected(lua_State *L) {
    struct handle *handle = lua_touserdata(L, 1);
    if (handle->checkpoint) {
        tide__checkpoint_forget(handle->checkpoint);
        handle->checkpoint = NULL;
    }
    return 0;
}

/* -> clock of the cut that was announced to this worker's domain, until the checkpoint is written | nil */
static int core_cut_clock(lua_State *L) {
    const uint32_t clock = tide__cut_clock_told();
    if (clock == UINT32_MAX) {
        lua_pushnil(L);
    } else {
        lua_pushinteger(L, clock);
    }
    return 1;
}

/* ---- reading ---- */

/* dir, generation or nil, {job=, run=, number=, memory=, others=} or nil (tide__restore_as) -> {.., skipped=, job=} |
 * nil, err */
static int core_checkpoint_restore(lua_State *L) {
    const char *dir = luaL_checkstring(L, 1);
    lua_Integer generation = luaL_optinteger(L, 2, 0);
    struct tide_lua *host = tide__lua_inside(L);
    struct tide_restored restored;
    luaL_argcheck(L, generation >= 0, 2, "the number of a generation");
    struct tide__restore_as as = {0};
    lua_settop(L, 3);
    if (!lua_isnil(L, 3)) {
        luaL_checktype(L, 3, LUA_TTABLE);
        lua_getfield(L, 3, "others");
        as.others = lua_toboolean(L, -1);
        lua_getfield(L, 3, "job");
        as.job = luaL_checkstring(L, -1);
        lua_getfield(L, 3, "run");
        as.run = luaL_checkstring(L, -1);
        lua_getfield(L, 3, "number");
        const lua_Integer number = luaL_optinteger(L, -1, 0);
        luaL_argcheck(L, number >= 0 && number <= UINT32_MAX, 3, "the number of a run");
        as.number = (uint32_t)number;
        lua_getfield(L, 3, "memory");
        as.memory = (uint64_t)luaL_optinteger(L, -1, 0);
    }
    int code = tide__checkpoint_restore_as(host->node, dir, (uint64_t)generation, as.job ? &as : NULL, &restored);
    if (code < 0) {
        code = tide__lua_resumed(L, code);
        return tide__lua_failure(L, code);
    }
    push_info(L, &restored.info);
    lua_pushstring(L, restored.skipped);
    lua_setfield(L, -2, "skipped");
    code = tide__lua_decode_safe(L, restored.job, restored.job_size, JOB_VALUES_MAX);
    tide_restored_release(&restored);
    if (code < 0) {
        return tide__lua_failure(L, code);
    }
    lua_setfield(L, -2, "job");
    (void)tide__lua_resumed(L, 0);
    return 1;
}

static void push_generation(lua_State *L, struct tide_port *port, const char *dir, uint64_t generation) {
    struct tide__manifest m;
    int code = tide__generation_manifest(port, dir, generation, &m);
    if (code) {
        lua_createtable(L, 0, 3);
        tide__lua_set_integer(L, "generation", generation);
        lua_pushboolean(L, false);
        lua_setfield(L, -2, "committed");
        lua_pushstring(L, tide_error_message());
        lua_setfield(L, -2, "problem");
        return;
    }
    struct tide_checkpoint_info info = tide__manifest_info(&m);
    const size_t chain = m.chain_count, nodes = m.node_count, tables = m.table_count;
    const uint64_t first = m.chain[0];
    char program[sizeof m.program];
    memcpy(program, m.program, sizeof program);
    tide__manifest_release(&m);
    push_info(L, &info);
    tide__lua_set_integer(L, "chain", chain);
    tide__lua_set_integer(L, "base", first);
    tide__lua_set_integer(L, "nodes", nodes);
    tide__lua_set_integer(L, "tables", tables);
    lua_pushstring(L, program);
    lua_setfield(L, -2, "program");
}

/* dir -> array of generations, newest first | nil, err */
static int core_checkpoint_list(lua_State *L) {
    const char *dir = luaL_checkstring(L, 1);
    struct tide_port *port = tide__lua_host(L)->port;
    uint64_t *numbers;
    size_t count;
    int code = tide__generation_list(port, dir, &numbers, &count);
    if (code < 0) {
        return tide__lua_failure(L, code);
    }
    uint64_t *kept = lua_newuserdatauv(L, count * sizeof *kept + 1, 0);
    memcpy(kept, numbers, count * sizeof *kept);
    tide_free(numbers);
    lua_createtable(L, (int)count, 0);
    for (size_t i = 0; i < count; i++) {
        push_generation(L, port, dir, kept[i]);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    return 1;
}

/* dir, generation -> true | nil, err that names the damage */
static int core_checkpoint_verify(lua_State *L) {
    const char *dir = luaL_checkstring(L, 1);
    uint64_t generation = (uint64_t)luaL_checkinteger(L, 2);
    struct tide_port *port = tide__lua_host(L)->port;
    struct tide__manifest m;
    int code = tide__generation_manifest(port, dir, generation, &m);
    if (!code) {
        code = tide__generation_verify(port, dir, &m);
        tide__manifest_release(&m);
    }
    if (code < 0) {
        return tide__lua_failure(L, code);
    }
    lua_pushboolean(L, true);
    return 1;
}

void tide__lua_open_checkpoint(lua_State *L) {
    static const luaL_Reg functions[] = {{"checkpoint_start", core_checkpoint_start},
                                         {"checkpoint_restore", core_checkpoint_restore},
                                         {"checkpoint_list", core_checkpoint_list},
                                         {"checkpoint_verify", core_checkpoint_verify},
                                         {"cut_clock", core_cut_clock},
                                         {NULL, NULL}};
    static const luaL_Reg methods[] = {
        {"info", checkpoint_info}, {"commit", checkpoint_commit}, {"abort", checkpoint_abort}, {NULL, NULL}};
    luaL_setfuncs(L, functions, 0);
    tide__lua_handle_class(L, &checkpoint_metatable, NULL, methods, checkpoint_collected);
}
