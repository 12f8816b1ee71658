/*
 * Tables for Lua: creating, finding and dropping them, pull and push (which suspend the calling fiber,
 * or return a ticket, and raise what fails), slots to another node, files. A handle is a userdata
 * around the table, which it holds: one that is dropped is freed with its last handle.
 *
 * Asynchronous operations write into tensors while Lua may drop its handles, so each operation is a
 * record of the host's `pending` list that holds its tensors in the registry until it was waited
 * for. A record whose ticket was collected is swept once the operation is done; all are waited for
 * before the state closes.
 */
#include "lua/host/host.h"
#include "readers/text.h"
#include "store/checkpoint/save.h"
#include "store/core/store.h"
#include "tide/placement.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SWEPT_A_CALL = 8 };

static const char table_metatable, ticket_metatable; /* their addresses are registry keys */

struct handle {
    struct tide_table *table;
};

/* Record and userdata point at each other until one of them goes. */
struct ticket {
    struct tide_lua_pending *pending; /* NULL once waited for */
};

struct tide_lua_pending {
    struct tide_lua_pending *next;
    struct ticket *handle; /* NULL: collected, or being waited for */
    struct tide_ticket ticket;
    int tensors;  /* registry reference to {rows, keys} */
    bool waiting; /* a fiber is in tide_ticket_wait */
};

struct tide_table *tide__lua_table_at(lua_State *L, int index) {
    struct handle *handle = tide__lua_handle_at(L, index, &table_metatable);
    return handle ? handle->table : NULL;
}

struct tide_table *tide__lua_check_table(lua_State *L, int index) {
    struct tide_table *table = tide__lua_table_at(L, index);
    if (!table) {
        luaL_typeerror(L, index, "table handle");
    }
    return table;
}

static void push_table(lua_State *L, struct tide_table *table) {
    struct handle *handle = lua_newuserdatauv(L, sizeof *handle, 0);
    handle->table = table;
    lua_rawgetp(L, LUA_REGISTRYINDEX, &table_metatable);
    lua_setmetatable(L, -2);
}

/* ---- making and finding ---- */

static int core_table(lua_State *L) {
    lua_settop(L, 1);
    struct tide_lua *host = tide__lua_inside(L);
    struct tide_table_options o;
    tide__lua_options_read(L, &o);
    struct tide_table *table;
    int code = tide__lua_resumed(L, tide_table_create(host->node, &o, &table));
    if (code < 0) {
        return tide__lua_failure(L, code);
    }
    push_table(L, table);
    return 1;
}

/* core.tables_forget() -> true | nil, err */
static int core_tables_forget(lua_State *L) {
    int code = tide__lua_resumed(L, tide_tables_forget(tide__lua_host(L)->node));
    if (code < 0) {
        return tide__lua_failure(L, code);
    }
    lua_pushboolean(L, true);
    return 1;
}

static int core_table_find(lua_State *L) {
    const char *name = luaL_checkstring(L, 1);
    struct tide_lua *host = tide__lua_host(L);
    struct tide_table *table;
    if (!host->node) {
        return luaL_error(L, "no node runs");
    }
    int code = tide_table_find(host->node, name, &table);
    if (code < 0) {
        return tide__lua_failure(L, code);
    }
    push_table(L, table);
    return 1;
}

/* core.table_drop(name) -> true | nil, err: it is dropped on all nodes, with its rows */
static int core_table_drop(lua_State *L) {
    const char *name = luaL_checkstring(L, 1);
    struct tide_lua *host = tide__lua_inside(L);
    int code = tide__lua_resumed(L, tide_table_drop(host->node, name));
    if (code < 0) {
        return tide__lua_failure(L, code);
    }
    lua_pushboolean(L, true);
    return 1;
}

static int table_collected(lua_State *L) {
    struct handle *handle = lua_touserdata(L, 1);
    tide_table_release(handle->table);
    handle->table = NULL;
    return 0;
}

/* ---- asynchronous operations ---- */

static void pending_free(lua_State *L, struct tide_lua *host, struct tide_lua_pending *pending) {
    for (struct tide_lua_pending **at = &host->pending; *at; at = &(*at)->next) {
        if (*at == pending) {
            *at = pending->next;
            break;
        }
    }
    if (pending->handle) {
        pending->handle->pending = NULL;
    }
    luaL_unref(L, LUA_REGISTRYINDEX, pending->tensors);
    tide_free(pending);
}

/* Frees what is done and unused, looking at the oldest few. */
static void pending_sweep(lua_State *L, struct tide_lua *host) {
    struct tide_lua_pending *pending = host->pending;
    for (int i = 0; i < SWEPT_A_CALL && pending; i++) {
        struct tide_lua_pending *next = pending->next;
        if (!pending->handle && !pending->waiting && tide_ticket_done(&pending->ticket)) {
            int code = tide_ticket_wait(&pending->ticket);
            if (code < 0) {
                tide_log(TIDE_LOG_WARN, tide_node_name(host->node), "an operation nobody waited for failed: %s",
                         tide_error_message());
            }
            pending_free(L, host, pending);
        }
        pending = next;
    }
}

void tide__lua_pending_end(struct tide_lua *host) {
    while (host->pending) {
        struct tide_lua_pending *pending = host->pending;
        if (pending->waiting) { /* another fiber is about to be cancelled out of its wait */
            host->pending = pending->next;
            continue;
        }
        (void)tide_ticket_wait(&pending->ticket);
        pending_free(host->L, host, pending);
    }
}

/* Pushes a ticket with a fresh record that holds the values at `rows` and `keys`. */
static struct tide_lua_pending *push_ticket(lua_State *L, struct tide_lua *host, int rows, int keys) {
    pending_sweep(L, host);
    struct ticket *ticket = lua_newuserdatauv(L, sizeof *ticket, 0);
    *ticket = (struct ticket){0};
    lua_rawgetp(L, LUA_REGISTRYINDEX, &ticket_metatable);
    lua_setmetatable(L, -2);
    lua_createtable(L, 2, 0);
    lua_pushvalue(L, rows);
    lua_rawseti(L, -2, 1);
    lua_pushvalue(L, keys);
    lua_rawseti(L, -2, 2);
    int reference = luaL_ref(L, LUA_REGISTRYINDEX);
    struct tide_lua_pending *pending = tide_alloc_zero(1, sizeof *pending);
    if (!pending) {
        luaL_unref(L, LUA_REGISTRYINDEX, reference);
        luaL_error(L, "out of memory");
        return NULL;
    }
    pending->tensors = reference;
    struct tide_lua_pending **last = &host->pending;
    while (*last) {
        last = &(*last)->next;
    }
    *last = pending;
    ticket->pending = pending;
    pending->handle = ticket;
    return pending;
}

static struct ticket *check_ticket(lua_State *L) {
    struct ticket *ticket = tide__lua_handle_at(L, 1, &ticket_metatable);
    if (!ticket) {
        luaL_typeerror(L, 1, "ticket");
    }
    return ticket;
}

/* rows | true | nil, err */
static int ticket_wait(lua_State *L) {
    struct ticket *ticket = check_ticket(L);
    struct tide_lua *host = tide__lua_inside(L);
    struct tide_lua_pending *pending = ticket->pending;
    if (!pending) {
        return luaL_error(L, "this ticket was waited for already");
    }
    lua_rawgeti(L, LUA_REGISTRYINDEX, pending->tensors);
    lua_rawgeti(L, -1, 1); /* a pull's rows; true of a push */
    ticket->pending = NULL;
    pending->handle = NULL;
    pending->waiting = true;
    int code = tide_ticket_wait(&pending->ticket);
    pending_free(L, host, pending);
    code = tide__lua_resumed(L, code);
    return code < 0 ? tide__lua_failure(L, code) : 1;
}

static int ticket_done(lua_State *L) {
    struct ticket *ticket = check_ticket(L);
    lua_pushboolean(L, !ticket->pending || tide_ticket_done(&ticket->pending->ticket));
    return 1;
}

static int ticket_collected(lua_State *L) {
    struct ticket *ticket = lua_touserdata(L, 1);
    if (ticket->pending) {
        ticket->pending->handle = NULL;
    }
    return 0;
}

/* ---- pull and push ----
 * A failure raises: worker code reads as straight-line code, and a push whose result is not looked
 * at must not fail silently. Only ticket:wait() gives nil, err. */

/* Options at `index`: none, or a table of fields that are known. */
static void check_options(lua_State *L, int index, const char *what, const char *one, const char *other) {
    if (lua_isnoneornil(L, index)) {
        return;
    }
    luaL_checktype(L, index, LUA_TTABLE);
    lua_pushnil(L);
    while (lua_next(L, index)) {
        const char *key = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : NULL;
        if (!key || (strcmp(key, one) != 0 && (!other || strcmp(key, other) != 0))) {
            luaL_error(L, "%s has no option `%s`: there is %s%s%s", what, key ? key : luaL_tolstring(L, -2, NULL), one,
                       other ? ", " : "", other ? other : "");
        }
        lua_pop(L, 1);
    }
}

static bool option(lua_State *L, int index, const char *name) {
    if (lua_isnoneornil(L, index)) {
        lua_pushnil(L);
        return false;
    }
    luaL_checktype(L, index, LUA_TTABLE);
    lua_getfield(L, index, name); /* stays on the stack */
    return lua_toboolean(L, -1);
}

static int table_pull(lua_State *L) {
    struct tide_table *table = tide__lua_check_table(L, 1);
    struct tide_lua *host = tide__lua_inside(L);
    lua_settop(L, 3);
    size_t count, width = tide_table_options(table)->width;
    const uint64_t *keys = tide__lua_keys(L, 2, &count);
    check_options(L, 3, "pull", "async", "into");
    bool async = option(L, 3, "async");
    struct tide_lua_tensor *rows;
    if (option(L, 3, "into")) {
        rows = tide__lua_tensor_check(L, lua_gettop(L));
        if (rows->t.type != TIDE_F32 || tide__lua_tensor_count(rows) != count * width) {
            return luaL_error(L, "pull: `into` must be an f32 tensor of %I x %I", (lua_Integer)count,
                              (lua_Integer)width);
        }
    } else {
        rows = tide__lua_tensor_new(L, TIDE_F32, count, width);
    }
    int at = lua_gettop(L), code;
    if (!async) {
        code = tide__lua_resumed(L, tide_table_pull(table, keys, count, rows->t.data, NULL));
        return code < 0 ? tide__lua_raise(L, code) : 1;
    }
    struct tide_lua_pending *pending = push_ticket(L, host, at, 2);
    code = tide_table_pull(table, keys, count, rows->t.data, &pending->ticket);
    if (code < 0) {
        pending_free(L, host, pending);
        return tide__lua_raise(L, code);
    }
    return 1;
}

/* Row `row` from the numbers of the Lua table on top of the stack, starting after `from`. */
static void read_row(lua_State *L, float *row, size_t width, size_t from, lua_Integer number) {
    for (size_t i = 0; i < width; i++) {
        int is_number;
        lua_rawgeti(L, -1, (lua_Integer)(from + i) + 1);
        const double value = lua_tonumberx(L, -1, &is_number);
        if (!is_number) {
            luaL_error(L, "push: number %I of row %I is %s", (lua_Integer)i + 1, number, luaL_typename(L, -1));
        }
        if (tide_narrow_f32(value, &row[i]) == TIDE_NARROW_BEYOND) {
            luaL_error(L, "push: number %I of row %I is %s, beyond what an f32 holds", (lua_Integer)i + 1, number,
                       luaL_tolstring(L, -1, NULL));
        }
        lua_pop(L, 1);
    }
}

/* The rows of a push at `index`: an f32 tensor, an array of rows, or a flat array of all numbers.
 * Arrays are copied into a tensor that takes their place. */
static const float *push_rows(lua_State *L, int index, size_t count, size_t width) {
    if (lua_type(L, index) == LUA_TTABLE) {
        size_t given = lua_rawlen(L, index);
        bool nested = lua_rawgeti(L, index, 1) == LUA_TTABLE;
        lua_pop(L, 1);
        if (given != (nested ? count : count * width)) {
            luaL_error(L, "push: %I keys of width %I want %I %s, not %I", (lua_Integer)count, (lua_Integer)width,
                       (lua_Integer)(nested ? count : count * width), nested ? "rows" : "numbers", (lua_Integer)given);
        }
        float *at = tide__lua_tensor_new(L, TIDE_F32, count, width)->t.data;
        for (size_t i = 0; i < count; i++) {
            if (nested) {
                if (lua_rawgeti(L, index, (lua_Integer)i + 1) != LUA_TTABLE || lua_rawlen(L, -1) != width) {
                    luaL_error(L, "push: row %I is not an array of %I numbers", (lua_Integer)i + 1, (lua_Integer)width);
                }
            } else {
                lua_pushvalue(L, index);
            }
            read_row(L, at + i * width, width, nested ? 0 : i * width, (lua_Integer)i + 1);
            lua_pop(L, 1);
        }
        lua_replace(L, index);
        return at;
    }
    struct tide_lua_tensor *rows = tide__lua_tensor_check(L, index);
    if (rows->t.type != TIDE_F32 || tide__lua_tensor_count(rows) != count * width) {
        luaL_error(L, "push: rows of %I keys must be an f32 tensor of %I x %I", (lua_Integer)count, (lua_Integer)count,
                   (lua_Integer)width);
    }
    return rows->t.data;
}

static int table_push(lua_State *L) {
    struct tide_table *table = tide__lua_check_table(L, 1);
    struct tide_lua *host = tide__lua_inside(L);
    lua_settop(L, 4);
    size_t count, width = tide_table_options(table)->width;
    const uint64_t *keys = tide__lua_keys(L, 2, &count);
    check_options(L, 4, "push", "async", NULL);
    const float *rows = push_rows(L, 3, count, width);
    int code;
    if (!option(L, 4, "async")) {
        code = tide__lua_resumed(L, tide_table_push(table, keys, count, rows, NULL));
        if (code < 0) {
            return tide__lua_raise(L, code);
        }
        lua_pushboolean(L, true);
        return 1;
    }
    lua_pushboolean(L, true); /* what ticket:wait() answers; the rows are copied by the push */
    struct tide_lua_pending *pending = push_ticket(L, host, lua_gettop(L), 2);
    code = tide_table_push(table, keys, count, rows, &pending->ticket);
    if (code < 0) {
        pending_free(L, host, pending);
        return tide__lua_raise(L, code);
    }
    return 1;
}

/* true | ticket | nil, err: nothing depends on it but speed, so what fails is not raised */
static int table_localize(lua_State *L) {
    struct tide_table *table = tide__lua_check_table(L, 1);
    struct tide_lua *host = tide__lua_inside(L);
    lua_settop(L, 3);
    size_t count;
    const uint64_t *keys = tide__lua_keys(L, 2, &count);
    int code;
    check_options(L, 3, "localize", "async", NULL);
    if (!option(L, 3, "async")) {
        code = tide__lua_resumed(L, tide_table_localize(table, keys, count, NULL));
        if (code < 0) {
            return tide__lua_failure(L, code);
        }
        lua_pushboolean(L, true);
        return 1;
    }
    lua_pushboolean(L, true); /* what ticket:wait() answers */
    struct tide_lua_pending *pending = push_ticket(L, host, lua_gettop(L), 2);
    code = tide_table_localize(table, keys, count, &pending->ticket);
    if (code < 0) {
        pending_free(L, host, pending);
        return tide__lua_failure(L, code);
    }
    return 1;
}

static int table_pull_local(lua_State *L) {
    struct tide_table *table = tide__lua_check_table(L, 1);
    (void)tide__lua_inside(L);
    lua_settop(L, 2);
    size_t count;
    const uint64_t *keys = tide__lua_keys(L, 2, &count);
    struct tide_lua_tensor *rows = tide__lua_tensor_new(L, TIDE_F32, count, tide_table_options(table)->width);
    uint8_t *hits = tide__lua_tensor_new(L, TIDE_U8, count, 1)->t.data;
    size_t words = (count + 63) / 64;
    uint64_t *bits = lua_newuserdatauv(L, words * sizeof *bits + 1, 0);
    memset(bits, 0, words * sizeof *bits);
    (void)tide_table_pull_local(table, keys, count, rows->t.data, bits);
    for (size_t i = 0; i < count; i++) {
        hits[i] = (bits[i / 64] >> (i % 64)) & 1;
    }
    lua_pop(L, 1);
    return 2;
}

/* ---- moving, saving ---- */

/* t:move(slots, node) -> true; raises what fails */
static int table_move(lua_State *L) {
    struct tide_table *table = tide__lua_check_table(L, 1);
    luaL_checktype(L, 2, LUA_TTABLE);
    const lua_Integer node = luaL_checkinteger(L, 3);
    const lua_Unsigned count = lua_rawlen(L, 2);
    luaL_argcheck(L, count <= TIDE_SLOTS, 2, "more slots than a table has");
    luaL_argcheck(L, node > 0 && node <= UINT16_MAX, 3, "no id of a node");
    uint32_t *slots = lua_newuserdatauv(L, (count + 1) * sizeof *slots, 0);
    for (lua_Unsigned i = 0; i < count; i++) {
        int whole = 0;
        lua_rawgeti(L, 2, (lua_Integer)i + 1);
        const lua_Integer slot = lua_tointegerx(L, -1, &whole);
        luaL_argcheck(L, whole && slot >= 0 && slot < TIDE_SLOTS, 2, "slots are 0 to 4095");
        slots[i] = (uint32_t)slot;
        lua_pop(L, 1);
    }
    (void)tide__lua_inside(L);
    int code = tide__lua_resumed(L, tide_table_move(table, slots, count, (uint16_t)node));
    if (code < 0) {
        return tide__lua_raise(L, code);
    }
    lua_pushboolean(L, true);
    return 1;
}

static int save_or_load(lua_State *L, int (*operation)(struct tide_table *, const char *)) {
    struct tide_table *table = tide__lua_check_table(L, 1);
    const char *path = luaL_checkstring(L, 2);
    luaL_argcheck(L, *path, 2, "the path of a file is empty");
    (void)tide__lua_inside(L);
    int code = tide__lua_resumed(L, operation(table, path));
    if (code < 0) {
        return tide__lua_raise(L, code);
    }
    lua_pushboolean(L, true);
    return 1;
}

static bool is_array_file(const char *path) {
    const char *ending = strrchr(path, '.');
    return ending && (strcmp(ending, ".npy") == 0 || strcmp(ending, ".npz") == 0);
}

static int table_save(lua_State *L) {
    const char *path = luaL_checkstring(L, 2);
    if (is_array_file(path)) {
        return luaL_error(L, "t:save writes safetensors, not '%s': run:dump writes .npy and .npz", path);
    }
    return save_or_load(L, tide_table_save);
}

/* t:load(path) of what t:save wrote; t:load(path, {tensor =, keys =, add =}) of any writer, in Lua */
static int table_load(lua_State *L) {
    lua_settop(L, 3);
    if (lua_isnil(L, 3) && is_array_file(luaL_checkstring(L, 2))) {
        lua_newtable(L);
        lua_replace(L, 3);
    }
    if (lua_isnil(L, 3)) {
        return save_or_load(L, tide_table_load);
    }
    luaL_checktype(L, 3, LUA_TTABLE);
    lua_getglobal(L, "require");
    lua_pushliteral(L, "tide.array_files");
    lua_call(L, 1, 1);
    lua_getfield(L, -1, "into");
    lua_insert(L, 1);
    lua_settop(L, 4);
    lua_call(L, 3, 2);
    if (!lua_toboolean(L, 1)) {
        return lua_error(L);
    }
    lua_settop(L, 1);
    return 1;
}

/* t:assign(keys, rows): the values of rows, whatever the rule; what the rule remembers stays */
static int table_assign(lua_State *L) {
    struct tide_table *table = tide__lua_check_table(L, 1);
    size_t count;
    (void)tide__lua_inside(L);
    lua_settop(L, 3);
    const uint64_t *keys = tide__lua_keys(L, 2, &count);
    const struct tide_lua_tensor *rows = tide__lua_tensor_check(L, 3);
    luaL_argcheck(
        L, rows->t.type == TIDE_F32 && rows->t.rows == count && rows->t.columns == tide_table_options(table)->width, 3,
        "not an f32 row of the table for each key");
    int code = tide__lua_resumed(L, tide__table_assign(table, keys, count, rows->t.data));
    if (code < 0) {
        return tide__lua_raise(L, code);
    }
    lua_pushboolean(L, true);
    return 1;
}

/* t:rate() -> number, or nil where the rule has none; t:rate(0.01) -> true */
static int table_rate(lua_State *L) {
    struct tide_table *table = tide__lua_check_table(L, 1);
    if (lua_isnoneornil(L, 2)) {
        const float rate = tide_table_rate(table);
        if (isnan(rate)) {
            lua_pushnil(L);
        } else {
            tide__lua_push_short(L, rate);
        }
        return 1;
    }
    (void)tide__lua_inside(L);
    const int code = tide__lua_resumed(L, tide_table_set_rate(table, (float)luaL_checknumber(L, 2)));
    if (code < 0) {
        return tide__lua_raise(L, code);
    }
    lua_pushboolean(L, true);
    return 1;
}

static int table_index(lua_State *L) {
    const struct tide_table_options *o = tide_table_options(tide__lua_check_table(L, 1));
    const char *key = luaL_checkstring(L, 2);
    if (strcmp(key, "name") == 0) {
        lua_pushstring(L, o->name);
    } else if (strcmp(key, "width") == 0) {
        lua_pushinteger(L, o->width);
    } else if (strcmp(key, "spec") == 0) {
        tide__lua_push_options(L, o);
    } else {
        lua_settop(L, 2);
        lua_rawget(L, lua_upvalueindex(1)); /* methods */
    }
    return 1;
}

static int table_tostring(lua_State *L) {
    const struct tide_table_options *o = tide_table_options(tide__lua_check_table(L, 1));
    lua_pushfstring(L, "table %s (width %d)", o->name, (int)o->width);
    return 1;
}

static int table_equal(lua_State *L) {
    struct tide_table *a = tide__lua_table_at(L, 1);
    lua_pushboolean(L, a && a == tide__lua_table_at(L, 2));
    return 1;
}

void tide__lua_open_table(lua_State *L) {
    static const luaL_Reg functions[] = {{"table", core_table},           {"table_find", core_table_find},
                                         {"tables", tide__lua_tables},    {"tables_forget", core_tables_forget},
                                         {"table_drop", core_table_drop}, {NULL, NULL}};
    static const luaL_Reg methods[] = {
        {"pull", table_pull},
        {"push", table_push},
        {"pull_local", table_pull_local},
        {"localize", table_localize},
        {"sampler", tide__lua_table_sampler},
        {"consistency", tide__lua_table_consistency},
        {"rate", table_rate},
        {"move", table_move},
        {"save", table_save},
        {"load", table_load},
        {"assign", table_assign},
        {NULL, NULL},
    };
    static const luaL_Reg table_meta[] = {
        {"__tostring", table_tostring}, {"__eq", table_equal}, {"__gc", table_collected}, {NULL, NULL}};
    static const luaL_Reg ticket_methods[] = {{"wait", ticket_wait}, {"done", ticket_done}, {NULL, NULL}};
    luaL_setfuncs(L, functions, 0);
    luaL_newlib(L, table_meta);
    luaL_newlib(L, methods);
    luaL_setfuncs(L, tide__lua_shared_methods, 0);
    luaL_setfuncs(L, tide__lua_info_methods, 0);
    lua_pushcclosure(L, table_index, 1);
    lua_setfield(L, -2, "__index");
    lua_pushboolean(L, false);
    lua_setfield(L, -2, "__metatable");
    lua_rawsetp(L, LUA_REGISTRYINDEX, &table_metatable);
    tide__lua_handle_class(L, &ticket_metatable, NULL, ticket_methods, ticket_collected);
}
