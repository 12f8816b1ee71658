/*
 * Kernels from Lua: core.kernel(name) is a function of one table of named arguments, checked
 * against the kernel's declaration before it runs; it returns a table of named numbers. A table
 * handle becomes `tide_rows`, whose calls suspend the fiber.
 */
#include "lua/host/host.h"
#include "costs.h"
#include "module.h"

#include "actor/actor.h"
#include "tide/clock.h"

#include <string.h>

/* ---- table access ---- */

static int rows_pull(void *table, const uint64_t *keys, size_t key_count, float *rows) {
    return tide_table_pull(table, keys, key_count, rows, NULL);
}

static int rows_push(void *table, const uint64_t *keys, size_t key_count, const float *rows) {
    return tide_table_push(table, keys, key_count, rows, NULL);
}

static int rows_pull_start(void *table, const uint64_t *keys, size_t key_count, float *rows, void *handle) {
    return tide_table_pull(table, keys, key_count, rows, handle);
}

static int rows_push_start(void *table, const uint64_t *keys, size_t key_count, const float *rows, void *handle) {
    return tide_table_push(table, keys, key_count, rows, handle);
}

static int rows_localize_start(void *table, const uint64_t *keys, size_t key_count, void *handle) {
    return tide_table_localize(table, keys, key_count, handle);
}

static int rows_add(void *table, uint64_t key, const uint32_t *columns, const float *values, size_t count) {
    return tide_table_add(table, key, columns, values, count);
}

static int rows_wait(void *handle) {
    return tide_ticket_wait(handle);
}

static bool rows_done(const void *handle) {
    return tide_ticket_done(handle);
}

_Static_assert(sizeof(struct tide_ticket) <= 64, "a kernel's handle has 64 bytes");

static struct tide_rows rows_of(struct tide_table *table) {
    const struct tide_table_options *o = tide_table_options(table);
    return (struct tide_rows){
        .table = table,
        .width = o->width,
        .key_count = o->keys == TIDE_KEYS_DENSE ? o->key_count : 0,
        .pull = rows_pull,
        .push = rows_push,
        .pull_start = rows_pull_start,
        .push_start = rows_push_start,
        .localize_start = tide_technique_relocates(o->technique)
                              ? rows_localize_start /* what a kernel draws could not be intended */
                              : NULL,
        .add = o->update == TIDE_UPDATE_ADD && o->consistency.model != TIDE_SEQUENTIAL ? rows_add : NULL,
        .wait = rows_wait,
        .done = rows_done,
    };
}

/* ---- arguments ---- */

static const char *const type_names[] = {"a number",  "a string",
                                         "a tensor",  "a table handle",
                                         "a boolean", "a sampler that is not a function of the script's"};

static int wrong(lua_State *L, const struct tide_kernel *kernel, const struct tide_parameter *p, int index) {
    struct tide_lua_tensor *tensor = tide__lua_tensor_at(L, index);
    const char *what = tensor ? "a tensor" : tide__lua_table_at(L, index) ? "a table handle" : luaL_typename(L, index);
    if (tensor && p->type == TIDE_TENSOR) {
        return luaL_error(L, "kernel %s: '%s' is a %s tensor, it must be %s (%s)", kernel->name, p->name,
                          tide__lua_tensor_type_name(tensor->t.type), tide__lua_tensor_type_name(p->element), p->doc);
    }
    return luaL_error(L, "kernel %s: '%s' is %s, it must be %s (%s)", kernel->name, p->name, what, type_names[p->type],
                      p->doc);
}

/* Converts the value on top of the stack, which stays there and so stays alive. */
static void read_argument(lua_State *L, const struct tide_kernel *kernel, const struct tide_parameter *p,
                          struct tide_argument *a) {
    int top = lua_gettop(L), number;
    a->number = p->number;
    if (lua_isnil(L, -1)) {
        if (p->required) {
            luaL_error(L, "kernel %s: '%s' is missing (%s)", kernel->name, p->name, p->doc);
        }
        return;
    }
    a->given = true;
    switch (p->type) {
    case TIDE_NUMBER:
        a->number = lua_tonumberx(L, top, &number);
        if (!number || lua_type(L, top) != LUA_TNUMBER) {
            wrong(L, kernel, p, top);
        }
        break;
    case TIDE_FLAG:
        if (!lua_isboolean(L, top)) {
            wrong(L, kernel, p, top);
        }
        a->number = lua_toboolean(L, top);
        break;
    case TIDE_TEXT:
        if (lua_type(L, top) != LUA_TSTRING) {
            wrong(L, kernel, p, top);
        }
        a->text = lua_tostring(L, top);
        break;
    case TIDE_TENSOR: {
        struct tide_lua_tensor *tensor = tide__lua_tensor_at(L, top);
        if (!tensor || (p->element != 0 && tensor->t.type != p->element)) {
            wrong(L, kernel, p, top);
            return;
        }
        a->tensor = tensor->t;
        break;
    }
    case TIDE_ROWS: {
        struct tide_table *table = tide__lua_table_at(L, top);
        if (!table) {
            wrong(L, kernel, p, top);
        }
        a->rows = rows_of(table);
        break;
    }
    case TIDE_DRAWS:
        a->draws = tide__lua_draws_at(L, top);
        if (!a->draws.sampler) {
            wrong(L, kernel, p, top);
        }
        break;
    }
}

/* An argument that no parameter has: the mistake is usually a misspelt name, so the declared ones
 * are listed. */
static void check_names(lua_State *L, const struct tide_kernel *kernel) {
    lua_pushnil(L);
    while (lua_next(L, 1)) {
        bool found = false;
        for (size_t i = 0; i < kernel->parameter_count && lua_type(L, -2) == LUA_TSTRING; i++) {
            found = found || strcmp(kernel->parameters[i].name, lua_tostring(L, -2)) == 0;
        }
        if (!found) {
            char names[300];
            size_t used = 0;
            for (size_t i = 0; i < kernel->parameter_count && used < sizeof names - 64; i++) {
                used += (size_t)snprintf(names + used, sizeof names - used, "%s%.50s", i > 0 ? ", " : "",
                                         kernel->parameters[i].name);
            }
            luaL_error(L, "kernel %s: no parameter is named '%s'; there are: %s", kernel->name,
                       luaL_tolstring(L, -2, NULL), names);
        }
        lua_pop(L, 1);
    }
}

static const double *result_named(const char *name, const struct tide_result *results, int count) {
    for (int i = 0; i < count; i++) {
        if (strcmp(results[i].name, name) == 0) {
            return &results[i].value;
        }
    }
    return NULL;
}

/* Data points of a call: what the kernel says it has counted, else what it was asked for, else the
 * examples that it says it has seen. */
static double data_points(lua_State *L, const struct tide_result *results, int count) {
    const double *counted = result_named("count", results, count), *examples = result_named("examples", results, count);
    lua_getfield(L, 1, "count");
    const double asked = lua_tonumber(L, -1);
    lua_pop(L, 1);
    return counted ? *counted : asked > 0 || !examples ? asked : *examples;
}

static int kernel_call(lua_State *L) {
    const struct tide_kernel *kernel = lua_touserdata(L, lua_upvalueindex(1));
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    struct tide_argument arguments[TIDE_KERNEL_PARAMETERS_MAX] = {0};
    struct tide_result results[TIDE_KERNEL_RESULTS_MAX];
    char reason[TIDE_KERNEL_ERROR_BYTES] = "";
    check_names(L, kernel);
    luaL_checkstack(L, TIDE_KERNEL_PARAMETERS_MAX + 8, "arguments of a kernel");
    for (size_t i = 0; i < kernel->parameter_count; i++) {
        lua_pushstring(L, kernel->parameters[i].name);
        lua_rawget(L, 1);
        read_argument(L, kernel, &kernel->parameters[i], &arguments[i]);
        if (arguments[i].rows.table) {
            (void)tide__lua_inside(L);
        }
    }
    struct tide_costs_watch watch;
    tide__costs_begin(&watch);
    uint64_t traced = tide_trace_begin();
    struct tide_lua_fiber *fiber = tide__lua_current(tide__lua_host(L));
    fiber->kernel = kernel->name;
    int count = kernel->run(arguments, results, reason);
    fiber->kernel = NULL;
    (void)tide__lua_resumed(L, count < 0 ? count : 0);
    if (count > TIDE_KERNEL_RESULTS_MAX) {
        return luaL_error(L, "kernel %s returned %d results: 16 at most", kernel->name, count);
    }
    if (count < 0) {
        return tide__lua_raisef(L, count, "kernel %s: %s", kernel->name, reason[0] ? reason : tide_error_name(count));
    }
    double rows = data_points(L, results, count);
    tide__costs_end(&watch, kernel->name, rows);
    /* It ran at once; its caller continues when it would have ended. */
    (void)tide__lua_resumed(L, tide__lua_compute(L, tide__costs_of(kernel->name, rows)));
    tide_trace_end(traced, kernel->name);
    lua_createtable(L, 0, count);
    for (int i = 0; i < count; i++) {
        lua_pushnumber(L, results[i].value);
        lua_setfield(L, -2, results[i].name);
    }
    return 1;
}

void tide__lua_push_kernel(lua_State *L, const struct tide_kernel *kernel) {
    TIDE_ASSERT(kernel->parameter_count <= TIDE_KERNEL_PARAMETERS_MAX);
    lua_pushlightuserdata(L, (void *)(uintptr_t)kernel);
    lua_pushcclosure(L, kernel_call, 1);
}

static int core_kernel(lua_State *L) {
    const char *name = luaL_checkstring(L, 1);
    const struct tide_kernel *kernel = tide_kernel_find(name);
    if (!kernel) {
        return tide__lua_raise(L, TIDE_ENOENT);
    }
    tide__lua_push_kernel(L, kernel);
    return 1;
}

static void push_parameter(lua_State *L, const struct tide_parameter *p) {
    static const char *const names[] = {"number", "string", "tensor", "table", "boolean", "sampler"};
    lua_createtable(L, 0, 5);
    lua_pushstring(L, p->name);
    lua_setfield(L, -2, "name");
    lua_pushstring(L, p->type == TIDE_TENSOR && p->element ? tide__lua_tensor_type_name(p->element) : names[p->type]);
    lua_setfield(L, -2, "type");
    lua_pushboolean(L, p->required);
    lua_setfield(L, -2, "required");
    if (!p->required && p->type == TIDE_NUMBER) {
        lua_pushnumber(L, p->number);
        lua_setfield(L, -2, "default");
    } else if (!p->required && p->type == TIDE_FLAG) {
        lua_pushboolean(L, p->number != 0);
        lua_setfield(L, -2, "default");
    }
    lua_pushstring(L, p->doc);
    lua_setfield(L, -2, "doc");
}

static int core_kernels(lua_State *L) {
    const struct tide_kernel *kernel;
    lua_createtable(L, 16, 0);
    for (size_t i = 0; (kernel = tide_kernel_at(i)); i++) {
        lua_createtable(L, 0, 3);
        lua_pushstring(L, kernel->name);
        lua_setfield(L, -2, "name");
        lua_pushstring(L, kernel->doc);
        lua_setfield(L, -2, "doc");
        lua_createtable(L, (int)kernel->parameter_count, 0);
        for (size_t j = 0; j < kernel->parameter_count; j++) {
            push_parameter(L, &kernel->parameters[j]);
            lua_rawseti(L, -2, (lua_Integer)j + 1);
        }
        lua_setfield(L, -2, "parameters");
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    return 1;
}

void tide__lua_open_kernel(lua_State *L) {
    static const luaL_Reg functions[] = {{"kernel", core_kernel}, {"kernels", core_kernels}, {NULL, NULL}};
    luaL_setfuncs(L, functions, 0);
    tide__lua_open_module(L);
}
