/*
 * Programs in Lua: core.program(name) builds, program:plan{} gives a run. Arrays (parameters,
 * gradients, inputs) are Lua's tensors, which the run keeps alive. lua/packages/nn/init.lua is the front
 * end.
 *
 * Expected failures return nil, err. A run belongs to one Lua state; its step calls the hooks
 * between operations, and they may suspend the fiber.
 */
#include "costs.h"
#include "device.h"
#include "exchange.h"
#include "program.h"

#include <stddef.h>
#include <math.h>
#include <string.h>

static const char program_metatable, run_metatable; /* their addresses are registry keys */

struct lua_program {
    struct tide_program *p;
};

struct tide_program *tide__lua_program_check(lua_State *L) {
    return ((struct lua_program *)tide__lua_handle_check(L, 1, &program_metatable, "program"))->p;
}

struct tide_lua_run *tide__lua_run_check(lua_State *L) {
    struct tide_lua_run *run = tide__lua_handle_check(L, 1, &run_metatable, "run");
    if (run->busy) {
        luaL_error(L, "the run is in the middle of a step");
    }
    return run;
}

static uint32_t check_u32(lua_State *L, int index) {
    lua_Integer value = luaL_checkinteger(L, index);
    luaL_argcheck(L, value >= 0 && value < UINT32_MAX, index, "out of range");
    return (uint32_t)value;
}

/* A value's number, or nil, err. */
static int give_value(lua_State *L, int code, uint32_t value) {
    if (code != 0) {
        return tide__lua_failure(L, code);
    }
    lua_pushinteger(L, value);
    return 1;
}

static size_t check_dims(lua_State *L, int index, uint32_t *dims) {
    luaL_checktype(L, index, LUA_TTABLE);
    size_t rank = lua_rawlen(L, index);
    luaL_argcheck(L, rank <= TIDE_RANK_MAX, index, "too many dims");
    for (size_t i = 0; i < rank; i++) {
        lua_rawgeti(L, index, (lua_Integer)i + 1);
        lua_Integer dim = lua_tointeger(L, -1);
        dims[i] = dim > 0 && dim < UINT32_MAX ? (uint32_t)dim : 0; /* 0 is refused with a reason */
        lua_pop(L, 1);
    }
    return rank;
}

/* ---- building ---- */

static int program_gc(lua_State *L) {
    struct lua_program *own = lua_touserdata(L, 1);
    tide_program_destroy(own->p);
    own->p = NULL;
    return 0;
}

static int core_program(lua_State *L) {
    const char *name = luaL_checkstring(L, 1);
    struct lua_program *own = lua_newuserdatauv(L, sizeof *own, 0);
    own->p = NULL;
    lua_rawgetp(L, LUA_REGISTRYINDEX, &program_metatable);
    lua_setmetatable(L, -2);
    int code = tide_program_create(name, &own->p);
    return code == 0 ? 1 : tide__lua_raise(L, code);
}

static int program_place(lua_State *L) {
    int code = tide_program_place(tide__lua_program_check(L), luaL_checkstring(L, 2), luaL_checkstring(L, 3),
                                  luaL_checkstring(L, 4));
    return code == 0 ? 0 : tide__lua_raise(L, code);
}

static int program_input(lua_State *L) {
    static const char *const types[] = {"f32", "index", NULL};
    struct tide_program *p = tide__lua_program_check(L);
    const char *name = luaL_checkstring(L, 2);
    enum tide_value_type type = luaL_checkoption(L, 3, NULL, types) == 0 ? TIDE_VALUE_FLOAT : TIDE_VALUE_INDEX;
    uint32_t dims[TIDE_RANK_MAX], value = 0;
    size_t rank = check_dims(L, 4, dims);
    int code = tide_program_input(p, name, type, rank, dims, &value);
    return give_value(L, code, value);
}

static int declare(lua_State *L, bool state) {
    static const char *const kinds[] = {"constant", "uniform", "normal", NULL};
    struct tide_program *p = tide__lua_program_check(L);
    const char *name = luaL_checkstring(L, 2);
    uint32_t dims[TIDE_RANK_MAX], value = 0;
    size_t rank = check_dims(L, 3, dims);
    struct tide_initial initial = {.kind = TIDE_INITIAL_CONSTANT, .value = luaL_checknumber(L, 5)};
    int kind = luaL_checkoption(L, 4, NULL, kinds);
    initial.kind = kind == 0 ? TIDE_INITIAL_CONSTANT : kind == 1 ? TIDE_INITIAL_UNIFORM : TIDE_INITIAL_NORMAL;
    int code = state ? tide_program_state(p, name, rank, dims, initial, &value)
                     : tide_program_parameter(p, name, rank, dims, initial, &value);
    return give_value(L, code, value);
}

static int program_parameter(lua_State *L) {
    return declare(L, false);
}

static int program_state(lua_State *L) {
    return declare(L, true);
}

static double number_field(lua_State *L, int index, const char *name, double otherwise) {
    lua_getfield(L, index, name);
    double value = lua_isnil(L, -1) ? otherwise : luaL_checknumber(L, -1);
    lua_pop(L, 1);
    return value;
}

/* The attributes that an operation of a script may have, and where they go. */
static const struct attribute {
    const char *name;
    enum { COUNT, NUMBER, FLAG } kind;
    size_t at;
} known_attributes[] = {
#define AT(field) offsetof(struct tide_attributes, field)
    {"first", COUNT, AT(first)},
    {"count", COUNT, AT(count)},
    {"n", COUNT, AT(n)},
    {"kh", COUNT, AT(window.kh)},
    {"kw", COUNT, AT(window.kw)},
    {"stride", COUNT, AT(window.stride)},
    {"pad", COUNT, AT(window.pad)},
    {"alpha", NUMBER, AT(alpha)},
    {"eps", NUMBER, AT(eps)},
    {"rate", NUMBER, AT(rate)},
    {"keep", NUMBER, AT(keep)},
    {"smoothing", NUMBER, AT(smoothing)},
    {"k", COUNT, AT(k)},
    {"heads", COUNT, AT(heads)},
    {"kv_heads", COUNT, AT(kv_heads)},
    {"ta", FLAG, AT(ta)},
    {"tb", FLAG, AT(tb)},
    {"causal", FLAG, AT(causal)},
#undef AT
};

/* Of the value on top. */
static void set_attribute(lua_State *L, struct tide_attributes *t, const char *name) {
    for (size_t i = 0; i < TIDE_COUNT(known_attributes); i++) {
        char *at = (char *)t + known_attributes[i].at;
        if (strcmp(known_attributes[i].name, name) != 0) {
            continue;
        }
        if (known_attributes[i].kind == FLAG) {
            *(bool *)at = lua_toboolean(L, -1);
        } else if (known_attributes[i].kind == COUNT) {
            lua_Number value = luaL_checknumber(L, -1);
            *(uint32_t *)(void *)at = value >= 0 && value < 4294967295.0 ? (uint32_t)value : 0;
        } else {
            *(double *)(void *)at = luaL_checknumber(L, -1);
        }
        return;
    }
    luaL_error(L, "operations have no attribute `%s`", name);
}

static struct tide_attributes check_attributes(lua_State *L, int index) {
    struct tide_attributes t = {.eps = 1e-5, .rate = 0.1, .keep = 1};
    luaL_checktype(L, index, LUA_TTABLE);
    lua_pushnil(L);
    while (lua_next(L, index)) {
        luaL_argcheck(L, lua_type(L, -2) == LUA_TSTRING, index, "attributes have names");
        set_attribute(L, &t, lua_tostring(L, -2));
        lua_pop(L, 1);
    }
    return t;
}

static size_t check_values(lua_State *L, int index, uint32_t *values, size_t most) {
    luaL_checktype(L, index, LUA_TTABLE);
    size_t count = lua_rawlen(L, index);
    luaL_argcheck(L, count <= most, index, "too many operands");
    for (size_t i = 0; i < count; i++) {
        lua_rawgeti(L, index, (lua_Integer)i + 1);
        values[i] = check_u32(L, -1);
        lua_pop(L, 1);
    }
    return count;
}

/* program:apply(operation, {values}, attributes) */
static int program_apply(lua_State *L) {
    struct tide_program *p = tide__lua_program_check(L);
    int op = luaL_checkoption(L, 2, NULL, tide_op_names);
    uint32_t in[TIDE_OP_INPUTS], value = 0;
    size_t count = check_values(L, 3, in, TIDE_OP_INPUTS);
    struct tide_attributes attributes = check_attributes(L, 4);
    int code = tide_program_apply(p, (enum tide_op_code)op, in, count, &attributes, &value);
    return give_value(L, code, value);
}

/* program:own(operation, {values}, {numbers}) -> the first result's number, how many there are */
static int program_own(lua_State *L) {
    struct tide_program *p = tide__lua_program_check(L);
    struct tide_attributes attributes = {.own = lua_touserdata(L, 2)};
    uint32_t in[TIDE_OP_INPUTS], value = 0;
    luaL_checktype(L, 2, LUA_TLIGHTUSERDATA);
    size_t count = check_values(L, 3, in, TIDE_OP_INPUTS);
    luaL_checktype(L, 4, LUA_TTABLE);
    for (size_t i = 0; i < attributes.own->number_count; i++) {
        lua_rawgeti(L, 4, (lua_Integer)i + 1);
        attributes.own_numbers[i] = luaL_checknumber(L, -1);
        lua_pop(L, 1);
    }
    int code = tide_program_apply(p, TIDE_OP_OWN, in, count, &attributes, &value);
    if (code != 0) {
        return give_value(L, code, value);
    }
    lua_pushinteger(L, value);
    lua_pushinteger(L, attributes.own->out_count);
    return 2;
}

/* program:map(micro, a, b, c): integers are values, floats constants */
static int program_map(lua_State *L) {
    struct tide_program *p = tide__lua_program_check(L);
    int micro = luaL_checkoption(L, 2, NULL, tide_micro_names);
    uint32_t in[3] = {TIDE_NO_VALUE, TIDE_NO_VALUE, TIDE_NO_VALUE}, value = 0;
    double constants[3] = {0, 0, 0};
    for (int i = 0; i < (int)tide_micro_arity((unsigned)micro); i++) {
        if (lua_isinteger(L, 3 + i)) {
            in[i] = check_u32(L, 3 + i);
        } else {
            constants[i] = luaL_checknumber(L, 3 + i);
        }
    }
    int code = tide_program_map(p, (enum tide_micro_code)micro, in, constants, &value);
    return give_value(L, code, value);
}

static int program_reshape(lua_State *L) {
    struct tide_program *p = tide__lua_program_check(L);
    uint32_t dims[TIDE_RANK_MAX], value = 0, in = check_u32(L, 2);
    size_t rank = check_dims(L, 3, dims);
    int code = tide_program_reshape(p, in, rank, dims, &value);
    return give_value(L, code, value);
}

static int program_output(lua_State *L) {
    int code = tide_program_output(tide__lua_program_check(L), luaL_checkstring(L, 2), check_u32(L, 3));
    return give_value(L, code, 0);
}

/* program:count(): how many values there are; the next one has this number */
static int program_count(lua_State *L) {
    lua_pushinteger(L, (lua_Integer)tide_program_values(tide__lua_program_check(L)));
    return 1;
}

/* program:open(name, {values}): what follows, up to program:close({values}), is one operation to differentiation */
static int program_open(lua_State *L) {
    uint32_t in[TIDE_OP_INPUTS];
    struct tide_program *p = tide__lua_program_check(L);
    const char *name = luaL_checkstring(L, 2);
    size_t count = check_values(L, 3, in, TIDE_OP_INPUTS);
    return give_value(L, tide_program_open(p, name, in, count), 0);
}

static int program_close(lua_State *L) {
    uint32_t out[TIDE_OP_OUTPUTS];
    struct tide_program *p = tide__lua_program_check(L);
    size_t count = check_values(L, 2, out, TIDE_OP_OUTPUTS);
    return give_value(L, tide_program_close(p, out, count), 0);
}

/* The function on top of the stack's second place: number from 1, gradients of its outputs -> those of its operands,
 * false where there is none. Leaves the error object on top when it fails. */
static int derive_group(void *arg, uint32_t number, const uint32_t *g, uint32_t *by) {
    lua_State *L = arg;
    luaL_checkstack(L, 8, "groups");
    lua_pushvalue(L, 3);
    lua_pushinteger(L, (lua_Integer)number + 1);
    lua_createtable(L, TIDE_OP_OUTPUTS, 0);
    for (size_t o = 0; o < TIDE_OP_OUTPUTS; o++) {
        lua_pushinteger(L, g[o]);
        lua_rawseti(L, -2, (lua_Integer)o + 1);
    }
    if (lua_pcall(L, 2, 1, 0) != LUA_OK) {
        return TIDE_ECANCELED;
    }
    for (size_t i = 0; i < TIDE_OP_INPUTS; i++) {
        if (lua_rawgeti(L, -1, (lua_Integer)i + 1) == LUA_TNUMBER) {
            by[i] = (uint32_t)lua_tointeger(L, -1);
        }
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
    return 0;
}

/* program:differentiate(of_inputs, function(group, gradients) -> gradients) */
static int program_differentiate(lua_State *L) {
    const struct tide_derive derive = {derive_group, L};
    lua_settop(L, 3);
    int code = tide_program_derive(tide__lua_program_check(L), lua_toboolean(L, 2), &derive);
    return lua_gettop(L) > 3 ? lua_error(L) : give_value(L, code, 0);
}

/* ---- looking ---- */

static int give_text(lua_State *L, int code, char *text) {
    if (code != 0) {
        return tide__lua_raise(L, code);
    }
    lua_pushstring(L, text);
    tide_free(text);
    return 1;
}

static int program_print(lua_State *L) {
    char *text = NULL;
    int code = tide_program_print(tide__lua_program_check(L), &text);
    return give_text(L, code, text);
}

static int program_dot(lua_State *L) {
    char *text = NULL;
    int code = tide_program_dot(tide__lua_program_check(L), &text);
    return give_text(L, code, text);
}

static int program_id(lua_State *L) {
    char text[20];
    snprintf(text, sizeof text, "%016llx", (unsigned long long)tide_program_id(tide__lua_program_check(L)));
    lua_pushstring(L, text);
    return 1;
}

/* program:shape(value) -> "[B x 10]", {10}, batched */
static int program_shape(lua_State *L) {
    struct tide_program *p = tide__lua_program_check(L);
    uint32_t value = check_u32(L, 2);
    struct tide_shape shape;
    if (tide_program_dims(p, value, &shape) != 0) {
        return luaL_error(L, "value %I is not of this program", (lua_Integer)value);
    }
    char text[80];
    tide_program_shape(p, value, text, sizeof text);
    lua_pushstring(L, text);
    lua_createtable(L, shape.rank, 0);
    for (int i = 0; i < shape.rank; i++) {
        lua_pushinteger(L, shape.dims[i]);
        lua_rawseti(L, -2, i + 1);
    }
    lua_pushboolean(L, shape.space != TIDE_SPACE_CONSTANT);
    return 3;
}

/* program:layout() -> {keys=, states=, parameters={...}, layers={...}}; counts from 0 as kernels do
 */
static int program_layout(lua_State *L) {
    struct tide_program *p = tide__lua_program_check(L);
    lua_createtable(L, 0, 4);
    tide__lua_set_integer(L, "keys", tide_program_parameter_keys(p));
    tide__lua_set_integer(L, "states", tide_program_state_elements(p));
    lua_newtable(L);
    for (size_t i = 0; i < tide_program_parameter_count(p); i++) {
        struct tide_parameter_place place = tide_program_parameter_at(p, i);
        lua_createtable(L, 0, 6);
        lua_pushstring(L, place.name);
        lua_setfield(L, -2, "name");
        tide__lua_set_integer(L, "layer", (size_t)place.layer + 1);
        tide__lua_set_integer(L, "first", place.first);
        tide__lua_set_integer(L, "count", place.count);
        tide__lua_set_integer(L, "rows", place.rows);
        tide__lua_set_integer(L, "columns", place.columns);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    lua_setfield(L, -2, "parameters");
    lua_newtable(L);
    for (size_t i = 0; i < tide_program_layer_count(p); i++) {
        struct tide_layer_place layer = tide_program_layer_at(p, i);
        lua_createtable(L, 0, 3);
        lua_pushstring(L, layer.name);
        lua_setfield(L, -2, "name");
        tide__lua_set_integer(L, "first_key", layer.first_key);
        tide__lua_set_integer(L, "key_count", layer.key_count);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    lua_setfield(L, -2, "layers");
    return 1;
}

/* ---- runs ---- */

/* program:initialise(device, seed, parameters, states): tensors in any case */
static int program_initialise(lua_State *L) {
    struct tide_program *p = tide__lua_program_check(L);
    const struct tide_device *device = tide__lua_device(L, 2);
    uint64_t seed = (uint64_t)luaL_checkinteger(L, 3);
    void *parameters = tide__lua_host_floats(L, 4, device, tide_program_parameter_keys(p) * TIDE_PARAMETER_KEY);
    void *states = tide__lua_host_floats(L, 5, device, tide_program_state_elements(p));
    tide_program_initialise(p, seed, device->element, parameters, states);
    return 0;
}

static int run_gc(lua_State *L) {
    struct tide_lua_run *own = lua_touserdata(L, 1);
    tide_run_destroy(own->run);
    tide_plan_destroy(own->plan);
    own->run = NULL;
    own->plan = NULL;
    return 0;
}

/* program:plan(device, "train"|"evaluate", seed, no_reuse, no_fusion) -> run | nil, err */
static int program_plan(lua_State *L) {
    static const char *const kinds[] = {"train", "evaluate", NULL};
    struct tide_program *p = tide__lua_program_check(L);
    const struct tide_device *device = tide__lua_device(L, 2);
    struct tide_plan_options options = {.kind = luaL_checkoption(L, 3, NULL, kinds) == 0 ? TIDE_PLAN_TRAIN
                                                                                         : TIDE_PLAN_EVALUATE};
    uint64_t seed = (uint64_t)luaL_checkinteger(L, 4);
    options.no_reuse = lua_toboolean(L, 5);
    options.no_fusion = lua_toboolean(L, 6);
    /* User values: program, parameters, gradients, states, inputs by name, staged arrays (two); of
     * programs of vertices the forest, and the tables' rows and gradients. */
    struct tide_lua_run *own = lua_newuserdatauv(L, sizeof *own, TIDE_LUA_RUN_VALUES);
    *own = (struct tide_lua_run){.device = device, .program = p};
    lua_rawgetp(L, LUA_REGISTRYINDEX, &run_metatable);
    lua_setmetatable(L, -2);
    lua_pushvalue(L, 1);
    lua_setiuservalue(L, -2, 1);
    lua_newtable(L);
    lua_setiuservalue(L, -2, 5);
    int code = tide_plan_create(p, device, &options, &own->plan);
    if (code == 0) {
        code = tide_run_create(own->plan, seed, &own->run);
    }
    return code == 0 ? 1 : tide__lua_failure(L, code);
}

/* run:bind(parameters, gradients|nil, states) */
static int run_bind(lua_State *L) {
    struct tide_lua_run *own = tide__lua_run_check(L);
    size_t elements = tide_program_parameter_keys(own->program) * TIDE_PARAMETER_KEY;
    void *parameters = tide__lua_device_floats(L, 2, own->device, elements);
    void *gradients = lua_isnil(L, 3) ? NULL : tide__lua_device_floats(L, 3, own->device, elements);
    void *states = tide__lua_device_floats(L, 4, own->device, tide_program_state_elements(own->program));
    for (int i = 2; i <= 4; i++) {
        lua_pushvalue(L, i);
        lua_setiuservalue(L, 1, i);
    }
    tide_run_bind_parameters(own->run, parameters, gradients, states);
    own->bound = gradients || !tide_plan_training(own->plan);
    return 0;
}

/* run:stage(parameters|nil, gradients|nil): tensors that a device with memory of its own reads at a
 * layer's need and writes before its ready; others use what was bound */
static int run_stage(lua_State *L) {
    struct tide_lua_run *own = tide__lua_run_check(L);
    size_t elements = tide_program_parameter_keys(own->program) * TIDE_PARAMETER_KEY;
    void *arrays[2] = {NULL, NULL};
    lua_settop(L, 3);
    for (int i = 0; i < 2; i++) {
        if (!lua_isnil(L, 2 + i)) {
            arrays[i] = tide__lua_host_floats(L, 2 + i, own->device, elements);
        }
    }
    tide_run_stage(own->run, arrays[0], arrays[1]); /* releases the old ones first */
    for (int i = 0; i < 2; i++) {
        lua_pushvalue(L, 2 + i);
        lua_setiuservalue(L, 1, 6 + i);
    }
    return 0;
}

/* run:feed(input, tensor, first row from 1): `rows` of the next steps are read from there */
static int run_feed(lua_State *L) {
    struct tide_lua_run *own = tide__lua_run_check(L);
    const char *name = luaL_checkstring(L, 2);
    struct tide_lua_tensor *tensor = tide__lua_tensor_check(L, 3);
    lua_Integer first = luaL_optinteger(L, 4, 1);
    uint32_t value = 0;
    struct tide_shape shape = {0};
    if (!tide_program_value(own->program, name, &value) || tide_program_dims(own->program, value, &shape) != 0) {
        return luaL_error(L, "the program has no input \"%s\"", name);
    }
    size_t columns = 1;
    for (int i = 0; i < shape.rank; i++) {
        columns *= shape.dims[i];
    }
    int type = shape.type == TIDE_VALUE_INDEX ? TIDE_I32 : own->device->element == sizeof(float) ? TIDE_F32 : TIDE_F64;
    if (tensor->t.type != type || tensor->t.columns != columns) {
        return luaL_error(L, "input \"%s\" is %s rows of %I, not %s rows of %I", name, tide__lua_tensor_type_name(type),
                          (lua_Integer)columns, tide__lua_tensor_type_name(tensor->t.type),
                          (lua_Integer)tensor->t.columns);
    }
    if (first < 1 || (lua_Unsigned)first > tensor->t.rows + 1) {
        return luaL_error(L, "input \"%s\" has rows 1..%I", name, (lua_Integer)tensor->t.rows);
    }
    size_t left = tensor->t.rows - (size_t)(first - 1);
    lua_getiuservalue(L, 1, 5);
    lua_createtable(L, 0, 2);
    lua_pushvalue(L, 3);
    lua_setfield(L, -2, "tensor");
    tide__lua_set_integer(L, "rows", left);
    lua_setfield(L, -2, name);
    int code = tide_run_bind(own->run, name, (char *)tensor->t.data + (size_t)(first - 1) * columns * tensor->element);
    return code == 0 ? 0 : tide__lua_raise(L, code);
}

/* Rows that a step may have: those of the shortest input. */
static lua_Integer fed_rows(lua_State *L) {
    lua_Integer least = -1;
    lua_getiuservalue(L, 1, 5);
    lua_pushnil(L);
    while (lua_next(L, -2)) {
        lua_getfield(L, -1, "rows");
        lua_Integer rows = lua_tointeger(L, -1);
        least = least < 0 || rows < least ? rows : least;
        lua_pop(L, 2);
    }
    lua_pop(L, 1);
    return least < 0 ? 0 : least;
}

struct hook_call {
    lua_State *L;
    int need, ready; /* stack indices; 0: none */
    struct tide_lua_exchange *exchange;
    struct tide_costs_watch watch; /* since the last operation or event */
    double owed_ns;                /* of virtual time, for operations since the last event */
    bool bad;                      /* a loss was not finite */
};

/* Operations run at once; events come, and the step ends, when they would have ended. */
static int pay(struct hook_call *call) {
    double ns = call->owed_ns;
    call->owed_ns = 0;
    return tide__lua_compute(call->L, ns);
}

static int on_work(void *arg, struct tide_work work) {
    struct hook_call *call = arg;
    tide__costs_end_work(&call->watch, work);
    call->owed_ns += tide__costs_of_work(work);
    tide__costs_begin(&call->watch);
    return 0;
}

static void on_enter(void *arg, const char *operation) {
    tide__lua_current(tide__lua_host(((struct hook_call *)arg)->L))->kernel = operation;
}

/* Leaves the error object on top when it fails. */
static int call_hook(struct hook_call *call, int function, uint32_t layer) {
    int code = pay(call);
    if (code == 0) {
        lua_pushvalue(call->L, function);
        lua_pushinteger(call->L, (lua_Integer)layer + 1);
        code = lua_pcall(call->L, 1, 0, 0) == LUA_OK ? 0 : TIDE_ECANCELED;
        tide__costs_begin(&call->watch);
    }
    return code;
}

static int on_need(void *arg, uint32_t layer) {
    struct hook_call *call = arg;
    return call_hook(call, call->need, layer);
}

static int on_ready(void *arg, uint32_t layer) {
    struct hook_call *call = arg;
    return call_hook(call, call->ready, layer);
}

static int on_factors(void *arg, size_t parameter, const struct tide_operand *a, const struct tide_operand *b) {
    return tide__lua_exchange_factors(((struct hook_call *)arg)->exchange, parameter, a, b);
}

/* ---- what a step makes ---- */

enum { BINS = 20, FIRST_BIN = -12 }; /* bin b counts magnitudes from 4^b to below 4^(b+1); the outer ones all beyond */

struct statistics {
    size_t count, bad, zeros; /* bad: not finite */
    size_t bins[BINS];        /* from FIRST_BIN; zeros are in none */
    double sum, squares, least, greatest;
};

static size_t bin_of(double x) {
    int bin = (ilogb(x) - 2 * FIRST_BIN) / 2; /* rounds towards zero: below FIRST_BIN it is clamped anyway */
    return (size_t)(bin < 0 ? 0 : bin >= BINS ? BINS - 1 : bin);
}

static void count_number(struct statistics *s, double x) {
    if (!isfinite(x)) {
        s->bad++;
        return;
    }
    s->least = s->count == s->bad || x < s->least ? x : s->least;
    s->greatest = s->count == s->bad || x > s->greatest ? x : s->greatest;
    if (fpclassify(x) == FP_ZERO) {
        s->zeros++;
    } else {
        s->bins[bin_of(x)]++;
    }
    s->sum += x;
    s->squares += x * x;
}

static struct statistics statistics_of(const struct tide_operand *o, bool narrow) {
    struct statistics s = {0};
    for (size_t r = 0; r < o->rows; r++) {
        size_t from = r * tide_operand_stride(o);
        for (size_t c = from; c < from + o->columns; c++, s.count++) {
            count_number(&s, narrow ? (double)((const float *)o->data)[c] : ((const double *)o->data)[c]);
        }
    }
    return s;
}

/* Pushes {count=, bad=, zeros=, mean=, std=, least=, greatest=, bins={[b]=}}; all but the first of the finite ones. */
static void push_statistics(lua_State *L, const struct statistics *s) {
    double n = (double)(s->count - s->bad), mean = n > 0 ? s->sum / n : 0;
    double variance = n > 0 ? s->squares / n - mean * mean : 0;
    lua_createtable(L, 0, 12);
    tide__lua_set_integer(L, "count", s->count);
    tide__lua_set_integer(L, "bad", s->bad);
    tide__lua_set_integer(L, "zeros", s->zeros);
    const struct {
        const char *name;
        double value;
    } numbers[] = {
        {"mean", mean}, {"std", sqrt(variance > 0 ? variance : 0)}, {"least", s->least}, {"greatest", s->greatest}};
    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
        lua_pushnumber(L, numbers[i].value);
        lua_setfield(L, -2, numbers[i].name);
    }
    lua_newtable(L);
    for (int i = 0; i < BINS; i++) {
        if (s->bins[i] > 0) {
            lua_pushinteger(L, (lua_Integer)s->bins[i]);
            lua_rawseti(L, -2, FIRST_BIN + i);
        }
    }
    lua_setfield(L, -2, "bins");
}

struct inspection {
    lua_State *L;
    bool narrow;
};

static int on_inspected(void *arg, const struct tide_run_value *v) {
    struct inspection *own = arg;
    lua_State *L = own->L;
    struct statistics s = statistics_of(&v->data, own->narrow && !v->loss);
    push_statistics(L, &s);
    const char *texts[][2] = {{"operation", v->operation}, {"name", v->name}, {"layer", v->layer}, {"at", v->at}};
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        lua_pushstring(L, texts[i][1]);
        lua_setfield(L, -2, texts[i][0]);
    }
    lua_pushboolean(L, v->backward);
    lua_setfield(L, -2, "backward");
    tide__lua_set_integer(L, "output", v->output + 1);
    lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
    return 0;
}

/* run:inspect(rows, step): runs the list and gives what operations made, then what inputs and
 * parameters hold -> {{operation=, name=, layer=, at=, backward=, output=, and statistics}} | nil, err */
static int run_inspect(lua_State *L) {
    struct tide_lua_run *own = tide__lua_run_check(L);
    lua_Integer rows = luaL_checkinteger(L, 2), step = luaL_checkinteger(L, 3);
    luaL_argcheck(L, rows >= 0 && own->bound, 2, "out of range");
    lua_settop(L, 3);
    lua_newtable(L);
    struct inspection inspection = {.L = L, .narrow = own->device->element == sizeof(float)};
    struct tide_run_hooks hooks = {.arg = &inspection, .made = on_inspected};
    luaL_checkstack(L, 10, "statistics");
    int code = tide_run_step(own->run, (size_t)rows, (uint64_t)step, &hooks);
    code = code == 0 ? tide_run_given(own->run, &hooks) : code;
    return code == 0 ? 1 : tide__lua_failure(L, code);
}

/* core.statistics(tensor, first from 0, count): of these elements of an f32 or f64 tensor */
static int core_statistics(lua_State *L) {
    struct tide_lua_tensor *tensor = tide__lua_tensor_check(L, 1);
    lua_Integer first = luaL_checkinteger(L, 2), count = luaL_checkinteger(L, 3);
    luaL_argcheck(L, tensor->t.type == TIDE_F32 || tensor->t.type == TIDE_F64, 1, "f32 or f64");
    luaL_argcheck(L, first >= 0 && count >= 0 && (size_t)(first + count) <= tide__lua_tensor_count(tensor), 2,
                  "out of range");
    struct tide_operand o = {
        .data = (char *)tensor->t.data + (size_t)first * tensor->element, .rows = 1, .columns = (size_t)count};
    struct statistics s = statistics_of(&o, tensor->t.type == TIDE_F32);
    push_statistics(L, &s);
    return 1;
}

/* A loss that is not finite ends the step before anything is made of it. */
static int on_made(void *arg, const struct tide_run_value *v) {
    struct hook_call *call = arg;
    call->bad = v->loss && !isfinite(*(const double *)v->data.data);
    return call->bad ? TIDE_ECANCELED : 0;
}

/* run:finite(on): whether a step ends at a loss that is not finite */
static int run_finite(lua_State *L) {
    tide__lua_run_check(L)->finite = lua_toboolean(L, 2);
    return 0;
}

/* run:step(rows, step, need|nil, ready|nil, exchange|nil) -> sum, count, correct | nil, err; err is
 * "not finite" where run:finite asked for it. The exchange takes the factors that run:offer asked for. */
static int run_step(lua_State *L) {
    struct tide_lua_run *own = tide__lua_run_check(L);
    lua_Integer rows = luaL_checkinteger(L, 2), step = luaL_optinteger(L, 3, 0);
    lua_settop(L, 6);
    struct hook_call call = {.L = L,
                             .need = lua_isnil(L, 4) ? 0 : 4,
                             .ready = lua_isnil(L, 5) ? 0 : 5,
                             .exchange = tide__lua_exchange_at(L, 6)};
    struct tide_run_hooks hooks = {
        .arg = &call,
        .need = call.need ? on_need : NULL,
        .ready = call.ready ? on_ready : NULL,
        .factors = call.exchange ? on_factors : NULL,
        .enter = on_enter,
        .work = tide__costs_count(tide__lua_host(L)) ? on_work : NULL,
        .made = own->finite ? on_made : NULL,
    };
    lua_Integer fed = own->forest ? 0 : fed_rows(L);
    if (rows < 0 || rows > fed) {
        return luaL_error(L, "a step of %I rows, but only %I were fed", rows, fed);
    }
    if (!own->bound) {
        return luaL_error(L, "run:bind comes before run:step");
    }
    luaL_checkstack(L, 8, "hooks");
    own->busy = true;
    tide__costs_begin(&call.watch);
    int code = tide_run_step(own->run, (size_t)rows, (uint64_t)step, &hooks);
    code = code == 0 ? pay(&call) : code;
    own->busy = false;
    if (lua_gettop(L) > 6) {
        return lua_error(L);
    }
    code = tide__lua_resumed(L, code);
    if (call.bad) {
        lua_pushnil(L);
        lua_pushliteral(L, "not finite");
        return 2;
    }
    if (code != 0) {
        return tide__lua_failure(L, code);
    }
    struct tide_run_loss loss = tide_run_loss(own->run);
    lua_pushnumber(L, loss.sum);
    lua_pushnumber(L, loss.count);
    lua_pushnumber(L, loss.correct);
    return 3;
}

/* run:output(name) -> tensor (a copy); run:output(name, into, first from 0): to elements of a tensor
 * from `first` on, of which there must be enough */
static int run_output(lua_State *L) {
    struct tide_lua_run *own = tide__lua_run_check(L);
    size_t rows, columns;
    const void *data = tide_run_output(own->run, luaL_checkstring(L, 2), &rows, &columns);
    if (!data) {
        return luaL_error(L, "the program has no output \"%s\", or has not run", lua_tostring(L, 2));
    }
    char *to;
    if (lua_isnoneornil(L, 3)) {
        int type = own->device->element == sizeof(float) ? TIDE_F32 : TIDE_F64;
        to = tide__lua_tensor_new(L, type, rows, columns)->t.data;
    } else {
        lua_Integer first = luaL_checkinteger(L, 4);
        luaL_argcheck(L, first >= 0 && first < (lua_Integer)1 << 46, 4, "out of range");
        to = tide__lua_host_floats(L, 3, own->device, (size_t)first + rows * columns);
        to += (size_t)first * own->device->element;
        lua_settop(L, 3);
    }
    if (rows * columns > 0) {
        memcpy(to, data, rows * columns * own->device->element);
    }
    return 1;
}

static int run_fold(lua_State *L) {
    tide_run_fold(tide__lua_run_check(L)->run, luaL_checknumber(L, 2));
    return 0;
}

/* run:divide(count): what folded updates are divided by; 0: the loss's count */
static int run_divide(lua_State *L) {
    tide_run_divide(tide__lua_run_check(L)->run, luaL_checknumber(L, 2));
    return 0;
}

/* run:folded(parameter from 1) */
static int run_folded(lua_State *L) {
    lua_pushboolean(L, tide_run_folded(tide__lua_run_check(L)->run, (size_t)check_u32(L, 2) - 1));
    return 1;
}

/* run:offer(parameter from 1, on): its gradient as factors from now on; false: it has none */
static int run_offer(lua_State *L) {
    struct tide_lua_run *own = tide__lua_run_check(L);
    int code = tide_run_offer_factors(own->run, (size_t)check_u32(L, 2) - 1, lua_toboolean(L, 3));
    lua_pushboolean(L, code == 0);
    return 1;
}

/* run:factor_rows(parameter from 1): rows of its factors in the last batch, before the first those of one row; 0: none
 */
static int run_factor_rows(lua_State *L) {
    const struct tide_run *run = tide__lua_run_check(L)->run;
    lua_pushinteger(L, (lua_Integer)tide_run_factor_rows(run, (size_t)check_u32(L, 2) - 1));
    return 1;
}

static int run_explain(lua_State *L) {
    char *text = NULL;
    int code = tide_plan_explain(tide__lua_run_check(L)->plan, &text);
    return give_text(L, code, text);
}

static int run_figures(lua_State *L) {
    struct tide_lua_run *own = tide__lua_run_check(L);
    struct tide_plan_figures f = tide_plan_figures(own->plan);
    lua_createtable(L, 0, 9);
    tide__lua_set_integer(L, "edge_bytes", f.edge_bytes);
    tide__lua_set_integer(L, "level_bytes", f.level_bytes);
    tide__lua_set_integer(L, "table_bytes", f.table_bytes);
    tide__lua_set_integer(L, "operations", f.operations);
    tide__lua_set_integer(L, "regions", f.regions);
    tide__lua_set_integer(L, "row_bytes", f.row_bytes);
    tide__lua_set_integer(L, "fixed_bytes", f.fixed_bytes);
    tide__lua_set_integer(L, "row_bytes_without_reuse", f.row_bytes_without_reuse);
    tide__lua_set_integer(L, "arena_bytes", tide_run_arena_bytes(own->run));
    return 1;
}

/* ---- update rules ---- */

static size_t check_range(lua_State *L, int index, size_t *count) {
    lua_Integer first = luaL_checkinteger(L, index), n = luaL_checkinteger(L, index + 1);
    luaL_argcheck(L, first >= 0 && n >= 0 && n < (lua_Integer)1 << 46, index, "out of range");
    *count = (size_t)n;
    return (size_t)first;
}

struct tide_step tide__lua_rule_check(lua_State *L, int index) {
    static const char *const rules[] = {"sgd", "momentum", "nesterov", "adagrad", "rmsprop", "adam", "adamw", NULL};
    luaL_checktype(L, index, LUA_TTABLE);
    lua_getfield(L, index, "rule");
    struct tide_step u = {.rule = (enum tide_rule)luaL_checkoption(L, -1, NULL, rules),
                          .rate = number_field(L, index, "rate", 0),
                          .scale = number_field(L, index, "scale", 1),
                          .decay = number_field(L, index, "decay", 0),
                          .mu = number_field(L, index, "mu", 0.9),
                          .beta2 = number_field(L, index, "beta2", 0.999),
                          .eps = number_field(L, index, "eps", 1e-8),
                          .step = (uint64_t)number_field(L, index, "step", 1)};
    lua_pop(L, 1);
    return u;
}

/* core.update(device, rule table, first, count, w, g, a|nil, b|nil): elements first .. first +
 * count of all arrays */
static int core_update(lua_State *L) {
    const struct tide_device *device = tide__lua_device(L, 1);
    lua_settop(L, 8);
    struct tide_step u = tide__lua_rule_check(L, 2);
    size_t count, first = check_range(L, 3, &count), states = tide_rule_states(u.rule);
    char *arrays[4] = {NULL, NULL, NULL, NULL};
    for (size_t i = 0; i < 2 + states; i++) {
        arrays[i] = (char *)tide__lua_device_floats(L, 5 + (int)i, device, first + count) + first * device->element;
    }
    struct tide_work work = tide_update_work(u.rule, count, device->element);
    struct tide_costs_watch watch;
    tide__costs_begin(&watch);
    device->update(&u, count, arrays[0], arrays[1], arrays[2], arrays[3]);
    tide__costs_end_work(&watch, work);
    tide__lua_work(L, work);
    return 0;
}

/* core.norm2(device, first, count, x): the sum of squares */
static int core_norm2(lua_State *L) {
    const struct tide_device *device = tide__lua_device(L, 1);
    size_t count, first = check_range(L, 2, &count);
    const char *x = tide__lua_device_floats(L, 4, device, first + count);
    lua_pushnumber(L, device->norm2(count, x + first * device->element));
    tide__lua_work(L, (struct tide_work){2 * (double)count, (double)(count * device->element)});
    return 1;
}

void tide__lua_open_program(lua_State *L) {
    static const luaL_Reg program[] = {
        {"place", program_place},
        {"input", program_input},
        {"parameter", program_parameter},
        {"state", program_state},
        {"apply", program_apply},
        {"map", program_map},
        {"reshape", program_reshape},
        {"output", program_output},
        {"count", program_count},
        {"own", program_own},
        {"open", program_open},
        {"close", program_close},
        {"differentiate", program_differentiate},
        {"print", program_print},
        {"dot", program_dot},
        {"id", program_id},
        {"shape", program_shape},
        {"layout", program_layout},
        {"initialise", program_initialise},
        {"plan", program_plan},
        {NULL, NULL},
    };
    static const luaL_Reg run[] = {
        {"divide", run_divide},   {"bind", run_bind},       {"stage", run_stage},   {"feed", run_feed},
        {"step", run_step},       {"inspect", run_inspect}, {"finite", run_finite}, {"output", run_output},
        {"fold", run_fold},       {"folded", run_folded},   {"offer", run_offer},   {"factor_rows", run_factor_rows},
        {"explain", run_explain}, {"figures", run_figures}, {NULL, NULL},
    };
    static const luaL_Reg functions[] = {{"program", core_program}, {"update", core_update},
                                         {"norm2", core_norm2},     {"statistics", core_statistics},
                                         {"idx", tide__lua_idx},    {NULL, NULL}};
    tide__lua_handle_class(L, &program_metatable, "tide.program", program, program_gc);
    tide__lua_handle_class(L, &run_metatable, "tide.run", run, run_gc);
    lua_rawgetp(L, LUA_REGISTRYINDEX, &program_metatable);
    lua_getfield(L, -1, "__index");
    lua_rawgetp(L, LUA_REGISTRYINDEX, &run_metatable);
    lua_getfield(L, -1, "__index");
    tide__lua_vertex_methods(L, lua_gettop(L) - 2, lua_gettop(L));
    lua_pop(L, 4);
    luaL_setfuncs(L, functions, 0);
}
