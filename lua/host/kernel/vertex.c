/*
 * Programs of vertices in Lua: what they declare, batches of forests, and the rows of tables that a
 * batch reads. lua/packages/nn/vertex.lua is the front end.
 */
#include "costs.h"
#include "device.h"
#include "program.h"

#include <string.h>

static uint32_t check_value(lua_State *L, int index) {
    lua_Integer value = luaL_checkinteger(L, index);
    luaL_argcheck(L, value >= 0 && value < UINT32_MAX, index, "out of range");
    return (uint32_t)value;
}

static uint32_t check_size(lua_State *L, int index) {
    lua_Integer value = luaL_checkinteger(L, index);
    return value > 0 && value < UINT32_MAX ? (uint32_t)value : 0; /* 0 is refused with a reason */
}

static int give_value(lua_State *L, int code, uint32_t value) {
    if (code != 0) {
        return tide__lua_failure(L, code);
    }
    lua_pushinteger(L, value);
    return 1;
}

/* ---- building ---- */

static int program_vertex(lua_State *L) {
    return give_value(L, tide_program_vertex(tide__lua_program_check(L)), 0);
}

/* program:children(most): no vertex has more */
static int program_children(lua_State *L) {
    const lua_Integer most = luaL_checkinteger(L, 2);
    luaL_argcheck(L, most >= 1 && most <= UINT32_MAX, 2, "is no number of children");
    tide_program_children(tide__lua_program_check(L), (uint32_t)most);
    return 0;
}

/* program:kind(name): what follows is of vertices of this kind */
static int program_kind(lua_State *L) {
    return give_value(L, tide_program_kind(tide__lua_program_check(L), luaL_checkstring(L, 2)), 0);
}

/* program:counted_kinds() -> {{kind=, label=}, ..} of kinds that have a loss | nil: there are no kinds */
static int program_counted_kinds(lua_State *L) {
    const struct tide_program *p = tide__lua_program_check(L);
    lua_Integer at = 0;
    if (tide_program_kind_count(p) == 0) {
        return 0;
    }
    lua_newtable(L);
    for (size_t i = 0; i < tide_program_kind_count(p); i++) {
        const char *label = NULL;
        if (tide_program_kind_counts(p, i, &label)) {
            lua_createtable(L, 0, 2);
            lua_pushstring(L, tide_program_kind_at(p, i));
            lua_setfield(L, -2, "kind");
            lua_pushstring(L, label);
            lua_setfield(L, -2, "label");
            lua_rawseti(L, -2, ++at);
        }
    }
    return 1;
}

/* program:child_state(name, columns) */
static int program_child_state(lua_State *L) {
    uint32_t value = 0;
    int code = tide_program_child_state(tide__lua_program_check(L), luaL_checkstring(L, 2), check_size(L, 3), &value);
    return give_value(L, code, value);
}

/* program:publish(name, value) */
static int program_publish(lua_State *L) {
    return give_value(L, tide_program_publish(tide__lua_program_check(L), luaL_checkstring(L, 2), check_value(L, 3)),
                      0);
}

/* program:table(name, rows, columns, kind, number) */
static int program_table(lua_State *L) {
    static const char *const kinds[] = {"constant", "uniform", "normal", NULL};
    uint32_t value = 0;
    struct tide_initial initial = {.kind = TIDE_INITIAL_CONSTANT, .value = luaL_checknumber(L, 6)};
    int kind = luaL_checkoption(L, 5, NULL, kinds);
    initial.kind = kind == 0 ? TIDE_INITIAL_CONSTANT : kind == 1 ? TIDE_INITIAL_UNIFORM : TIDE_INITIAL_NORMAL;
    int code = tide_program_table(tide__lua_program_check(L), luaL_checkstring(L, 2), check_size(L, 3),
                                  check_size(L, 4), initial, &value);
    return give_value(L, code, value);
}

/* program:over("sum"|"max", value) */
static int program_over(lua_State *L) {
    static const char *const whats[] = {"sum", "max", NULL};
    uint32_t value = 0;
    enum tide_over over = luaL_checkoption(L, 2, NULL, whats) == 0 ? TIDE_OVER_SUM : TIDE_OVER_MAX;
    int code = tide_program_over(tide__lua_program_check(L), over, check_value(L, 3), &value);
    return give_value(L, code, value);
}

/* program:nth(n from 1, value) */
static int program_nth(lua_State *L) {
    uint32_t value = 0, nth = check_size(L, 2);
    luaL_argcheck(L, nth > 0, 2, "children are numbered from 1");
    int code = tide_program_nth(tide__lua_program_check(L), nth - 1, check_value(L, 3), &value);
    return give_value(L, code, value);
}

/* program:edge_input(name, "f32"|"index", columns: 0 for one number without a dim) */
static int program_edge_input(lua_State *L) {
    static const char *const types[] = {"f32", "index", NULL};
    uint32_t value = 0, columns = check_size(L, 4);
    enum tide_value_type type = luaL_checkoption(L, 3, NULL, types) == 0 ? TIDE_VALUE_FLOAT : TIDE_VALUE_INDEX;
    int code = tide_program_edge_input(tide__lua_program_check(L), luaL_checkstring(L, 2), type, columns ? 1 : 0,
                                       &columns, &value);
    return give_value(L, code, value);
}

/* program:tables() -> {{name=, rows=, columns=, kind=, number=}} */
static int program_tables(lua_State *L) {
    static const char *const kinds[] = {"constant", "uniform", "normal"};
    const struct tide_program *p = tide__lua_program_check(L);
    lua_newtable(L);
    for (size_t i = 0; i < tide_program_table_count(p); i++) {
        struct tide_table_place place = tide_program_table_at(p, i);
        lua_createtable(L, 0, 5);
        lua_pushstring(L, place.name);
        lua_setfield(L, -2, "name");
        tide__lua_set_integer(L, "rows", place.rows);
        tide__lua_set_integer(L, "columns", place.columns);
        lua_pushstring(L, kinds[place.initial.kind]);
        lua_setfield(L, -2, "kind");
        lua_pushnumber(L, place.initial.value);
        lua_setfield(L, -2, "number");
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    return 1;
}

/* program:label() -> name of the index that says which vertices count in the first loss | nil: all */
static int program_label(lua_State *L) {
    const char *name = tide_program_label(tide__lua_program_check(L));
    if (!name) {
        return 0;
    }
    lua_pushstring(L, name);
    return 1;
}

static size_t check_table(lua_State *L, const struct tide_program *p, int index) {
    lua_Integer table = luaL_checkinteger(L, index);
    luaL_argcheck(L, table >= 1 && (size_t)table <= tide_program_table_count(p), index,
                  "the program has no such table");
    return (size_t)table - 1;
}

/* program:table_rows(table from 1, seed, first from 0, tensor): as they begin */
static int program_table_rows(lua_State *L) {
    const struct tide_program *p = tide__lua_program_check(L);
    size_t table = check_table(L, p, 2);
    lua_Integer first = luaL_checkinteger(L, 4);
    struct tide_lua_tensor *t = tide__lua_tensor_check(L, 5);
    struct tide_table_place place = tide_program_table_at(p, table);
    luaL_argcheck(L,
                  (t->t.type == TIDE_F32 || t->t.type == TIDE_F64) && t->t.columns == place.columns && first >= 0 &&
                      (size_t)first + t->t.rows <= place.rows,
                  5, "is no such rows of the table");
    tide_program_table_rows(p, table, (uint64_t)luaL_checkinteger(L, 3), t->element, (size_t)first, t->t.rows,
                            t->t.data);
    return 0;
}

/* ---- batches ---- */

/* Samples: (forest, order|nil, first from 1, count, serial) from argument 2 on. */
struct samples {
    const struct tide_forest *forest;
    const uint32_t *order;
    size_t first, count;
    bool serial;
};

static struct samples check_samples(lua_State *L) {
    struct samples s = {.forest = tide__lua_forest_check(L, 2), .serial = lua_toboolean(L, 6)};
    const struct tide_lua_tensor *order = lua_isnoneornil(L, 3) ? NULL : tide__lua_tensor_check(L, 3);
    lua_Integer first = luaL_checkinteger(L, 4), count = luaL_checkinteger(L, 5);
    if (order && (order->t.type != TIDE_U32 || first < 1 || count < 0 ||
                  (size_t)(first - 1 + count) > tide__lua_tensor_count(order))) {
        luaL_error(L, "the order of samples is no u32 tensor of %I numbers", first - 1 + count);
    }
    luaL_argcheck(L, first >= 1 && count >= 0 && first < UINT32_MAX && count < UINT32_MAX, 4, "out of range");
    s.order = order ? order->t.data : NULL;
    s.first = (size_t)first - 1;
    s.count = (size_t)count;
    return s;
}

/* run:limit(bytes): of what a step computes; 0: as many as it needs */
static int run_limit(lua_State *L) {
    lua_Integer bytes = luaL_checkinteger(L, 2);
    luaL_argcheck(L, bytes >= 0, 2, "out of range");
    tide_run_limit(tide__lua_run_check(L)->run, (size_t)bytes);
    return 0;
}

/* run:cut(forest, order|nil, first from 1, count, serial) -> {count, ..}: pieces that fit, of samples
 * that are fed | nil, err */
static int run_cut(lua_State *L) {
    struct tide_lua_run *own = tide__lua_run_check(L);
    struct samples s = check_samples(L);
    lua_newtable(L);
    for (lua_Integer i = 1; i == 1 || s.count > 0; i++) {
        size_t fit = 0;
        int code = tide_run_cut(own->run, s.forest, s.order, s.first, s.count, s.serial, &fit);
        if (code != 0) {
            return tide__lua_failure(L, code);
        }
        lua_pushinteger(L, (lua_Integer)fit);
        lua_rawseti(L, -2, i);
        s.first += fit;
        s.count -= fit;
    }
    return 1;
}

/* run:feed_forest(forest, order|nil, first from 1, count, serial, piece) -> vertices, edges, levels
 * | nil, err. piece: some of the samples that were fed before; rows of tables stay bound */
static int run_feed_forest(lua_State *L) {
    struct tide_lua_run *own = tide__lua_run_check(L);
    struct samples s = check_samples(L);
    lua_pushvalue(L, 2);
    lua_setiuservalue(L, 1, TIDE_LUA_RUN_FOREST);
    int code = (lua_toboolean(L, 7) ? tide_run_bind_piece : tide_run_bind_forest)(own->run, s.forest, s.order, s.first,
                                                                                  s.count, s.serial);
    own->forest = code == 0;
    if (code != 0) {
        return tide__lua_failure(L, code);
    }
    struct tide_run_batch batch = tide_run_batch(own->run);
    lua_pushinteger(L, (lua_Integer)batch.vertices);
    lua_pushinteger(L, (lua_Integer)batch.edges);
    lua_pushinteger(L, (lua_Integer)batch.levels);
    return 3;
}

/* run:table_ids(table from 1) -> u64 tensor: the rows that the batch reads, each once */
static int run_table_ids(lua_State *L) {
    struct tide_lua_run *own = tide__lua_run_check(L);
    size_t count, table = check_table(L, own->program, 2);
    const uint64_t *ids = tide_run_table_ids(own->run, table, &count);
    struct tide_lua_tensor *t = tide__lua_tensor_new(L, TIDE_U64, count, 1);
    if (count > 0) {
        memcpy(t->t.data, ids, count * sizeof(*ids));
    }
    return 1;
}

/* run:bind_table(table from 1, rows, gradients|nil, count): as core.place gave them, with at least
 * `count` rows */
static int run_bind_table(lua_State *L) {
    struct tide_lua_run *own = tide__lua_run_check(L);
    size_t table = check_table(L, own->program, 2);
    size_t least = (size_t)luaL_checkinteger(L, 5) * tide_program_table_at(own->program, table).columns;
    const void *rows = tide__lua_device_floats(L, 3, own->device, least);
    void *gradients = lua_isnil(L, 4) ? NULL : tide__lua_device_floats(L, 4, own->device, least);
    if (lua_getiuservalue(L, 1, TIDE_LUA_RUN_ROWS) != LUA_TTABLE) {
        lua_pop(L, 1);
        lua_newtable(L);
        lua_pushvalue(L, -1);
        lua_setiuservalue(L, 1, TIDE_LUA_RUN_ROWS);
    }
    for (int i = 0; i < 2; i++) { /* they live as long as they are bound */
        lua_pushvalue(L, 3 + i);
        lua_rawseti(L, -2, 2 * (lua_Integer)table + i + 1);
    }
    tide_run_bind_table(own->run, table, rows, gradients);
    return 0;
}

/* ---- graphs that grow ---- */

/* run:grow(vertices) */
static int run_grow(lua_State *L) {
    lua_Integer vertices = luaL_optinteger(L, 2, 256);
    luaL_argcheck(L, vertices >= 0 && vertices < INT32_MAX, 2, "out of range");
    return give_value(L, tide_run_grow(tide__lua_run_check(L)->run, (size_t)vertices), 0);
}

enum { CHILDREN_MAX = 4096, INPUTS_MAX = 8, COLUMNS_MAX = 1024 };

/* run:grow_add({child from 1, ..}, {name = integer | number | array}, is_index: {name = bool}) -> id
 * from 1 | nil, err */
static int run_grow_add(lua_State *L) {
    struct tide_lua_run *own = tide__lua_run_check(L);
    luaL_checktype(L, 2, LUA_TTABLE);
    luaL_checktype(L, 3, LUA_TTABLE);
    luaL_checktype(L, 4, LUA_TTABLE);
    lua_settop(L, 4);
    size_t count = lua_rawlen(L, 2), used = 0, inputs = 0;
    luaL_argcheck(L, count <= CHILDREN_MAX, 2, "has more than 4096 children");
    uint32_t *children = lua_newuserdatauv(L, (count + 1) * sizeof(*children), 0);
    float *values = lua_newuserdatauv(L, COLUMNS_MAX * sizeof(*values), 0);
    struct tide_grow_input given[INPUTS_MAX];
    for (size_t i = 0; i < count; i++) {
        lua_rawgeti(L, 2, (lua_Integer)i + 1);
        lua_Integer child = lua_tointeger(L, -1);
        children[i] = child >= 1 && child <= UINT32_MAX ? (uint32_t)(child - 1) : UINT32_MAX;
        lua_pop(L, 1);
    }
    lua_pushnil(L);
    while (lua_next(L, 3)) {
        luaL_argcheck(L, lua_type(L, -2) == LUA_TSTRING && inputs < INPUTS_MAX, 3, "has inputs by name, up to 8");
        const char *name = lua_tostring(L, -2);
        lua_getfield(L, 4, name);
        bool index = lua_toboolean(L, -1);
        lua_pop(L, 1);
        size_t columns = lua_istable(L, -1) ? lua_rawlen(L, -1) : 1;
        luaL_argcheck(L, used + columns <= COLUMNS_MAX, 3, "has more than 1024 numbers");
        given[inputs++] = (struct tide_grow_input){name, values + used};
        for (size_t c = 0; c < columns; c++, used++) {
            if (lua_istable(L, -1)) {
                lua_rawgeti(L, -1, (lua_Integer)c + 1);
            } else {
                lua_pushvalue(L, -1);
            }
            int32_t whole = (int32_t)lua_tointeger(L, -1);
            values[used] = (float)lua_tonumber(L, -1);
            if (index) {
                memcpy(values + used, &whole, sizeof(whole));
            }
            lua_pop(L, 1);
        }
        lua_pop(L, 1);
    }
    uint32_t id = 0;
    int code = tide_run_grow_add(own->run, children, count, given, inputs, &id);
    return give_value(L, code, id + 1);
}

/* run:grow_label(id, name, label) */
static int run_grow_label(lua_State *L) {
    struct tide_lua_run *own = tide__lua_run_check(L);
    lua_Integer id = luaL_checkinteger(L, 2);
    int32_t label = (int32_t)luaL_checkinteger(L, 4);
    luaL_argcheck(L, id >= 1 && id <= UINT32_MAX, 2, "there is no such vertex");
    return give_value(L, tide_run_grow_label(own->run, (uint32_t)(id - 1), luaL_checkstring(L, 3), label), 0);
}

/* run:grow_step(step, output|nil) -> ids, tensor|nil: a row an id | nil, err */
static int run_grow_step(lua_State *L) {
    struct tide_lua_run *own = tide__lua_run_check(L);
    const char *output = luaL_optstring(L, 3, NULL);
    const uint32_t *ids = NULL;
    size_t rows = 0, columns = 0, element = own->device->element;
    int code = tide_run_grow_step(own->run, (uint64_t)luaL_checkinteger(L, 2), &ids, &rows);
    if (code != 0) {
        return tide__lua_failure(L, code);
    }
    lua_createtable(L, (int)rows, 0);
    for (size_t i = 0; i < rows; i++) {
        lua_pushinteger(L, (lua_Integer)ids[i] + 1);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    if (!output) {
        return 1;
    }
    if (rows > 0 && !tide_run_grow_output(own->run, output, ids[0], &columns)) {
        return luaL_error(L, "the program has no output \"%s\"", output);
    }
    struct tide_lua_tensor *t =
        tide__lua_tensor_new(L, element == sizeof(float) ? TIDE_F32 : TIDE_F64, rows, rows ? columns : 1);
    for (size_t i = 0; i < rows; i++) {
        memcpy((char *)t->t.data + i * columns * element, tide_run_grow_output(own->run, output, ids[i], &columns),
               columns * element);
    }
    return 2;
}

/* run:grow_finish(step) -> sum, count, correct | nil, err */
static int run_grow_finish(lua_State *L) {
    struct tide_lua_run *own = tide__lua_run_check(L);
    int code = tide_run_grow_finish(own->run, (uint64_t)luaL_checkinteger(L, 2));
    if (code != 0) {
        return tide__lua_failure(L, code);
    }
    struct tide_run_loss loss = tide_run_loss(own->run);
    lua_pushnumber(L, loss.sum);
    lua_pushnumber(L, loss.count);
    lua_pushnumber(L, loss.correct);
    return 3;
}

/* ---- rows of a table that is one array ---- */

static struct tide_lua_tensor *check_array(lua_State *L, int index, size_t columns) {
    struct tide_lua_tensor *t = tide__lua_tensor_check(L, index);
    luaL_argcheck(L, (t->t.type == TIDE_F32 || t->t.type == TIDE_F64) && (columns == 0 || t->t.columns == columns),
                  index, "is no such array of rows");
    return t;
}

static const uint64_t *check_ids(lua_State *L, int index, size_t rows, size_t *count) {
    const struct tide_lua_tensor *ids = tide__lua_tensor_check(L, index);
    luaL_argcheck(L, ids->t.type == TIDE_U64, index, "is no u64 tensor");
    *count = tide__lua_tensor_count(ids);
    const uint64_t *id = ids->t.data;
    for (size_t i = 0; i < *count; i++) {
        luaL_argcheck(L, id[i] < rows, index, "has a number beyond the last row");
    }
    return id;
}

/* core.rows_get(into, array, ids): row i of `into` becomes row ids[i] of the array */
static int core_rows_get(lua_State *L) {
    struct tide_lua_tensor *to = check_array(L, 1, 0), *from = check_array(L, 2, to->t.columns);
    size_t count, bytes = to->t.columns * to->element;
    const uint64_t *id = check_ids(L, 3, from->t.rows, &count);
    luaL_argcheck(L, count <= to->t.rows && to->t.type == from->t.type, 1, "has too few rows");
    for (size_t i = 0; i < count; i++) {
        memcpy((char *)to->t.data + i * bytes, (const char *)from->t.data + id[i] * bytes, bytes);
    }
    tide__lua_work(L, (struct tide_work){0, 2 * (double)(count * bytes)});
    return 0;
}

/* core.rows_put(array, ids, from): row ids[i] of the array becomes row i of `from` */
static int core_rows_put(lua_State *L) {
    struct tide_lua_tensor *to = check_array(L, 1, 0), *from = check_array(L, 3, to->t.columns);
    size_t count, bytes = to->t.columns * to->element;
    const uint64_t *id = check_ids(L, 2, to->t.rows, &count);
    luaL_argcheck(L, count <= from->t.rows && to->t.type == from->t.type, 3, "has too few rows");
    for (size_t i = 0; i < count; i++) {
        memcpy((char *)to->t.data + id[i] * bytes, (const char *)from->t.data + i * bytes, bytes);
    }
    tide__lua_work(L, (struct tide_work){0, 2 * (double)(count * bytes)});
    return 0;
}

/* core.rows_scale(array, factor): array *= factor */
static int core_rows_scale(lua_State *L) {
    struct tide_lua_tensor *t = check_array(L, 1, 0);
    double factor = luaL_checknumber(L, 2);
    size_t n = tide__lua_tensor_count(t);
    luaL_argcheck(L, t->t.type == TIDE_F32, 1, "is no f32 tensor");
    float *x = t->t.data;
    for (size_t i = 0; i < n; i++) {
        x[i] = (float)((double)x[i] * factor);
    }
    tide__lua_work(L, (struct tide_work){(double)n, 8 * (double)n});
    return 0;
}

/* What a row remembers under a rule: numbers behind each other, as tables keep them (rows/rules.c). */
static size_t row_state(enum tide_rule rule, size_t columns) {
    return columns * tide_rule_states(rule) + (rule == TIDE_RULE_ADAM);
}

/* Adam counts the updates of each row: its last number. */
static uint64_t count_update(void *number, bool narrow) {
    if (narrow) {
        return (uint64_t)(*(float *)number += 1.0f);
    }
    return (uint64_t)(*(double *)number += 1.0);
}

/* core.rows_update(rule table, array, state|nil, ids, gradients): a rule that tables have; the state has a row for each
 * of the array */
static int core_rows_update(lua_State *L) {
    lua_settop(L, 5);
    struct tide_step u = tide__lua_rule_check(L, 1);
    luaL_argcheck(L, u.rule != TIDE_RULE_RMSPROP && u.rule != TIDE_RULE_ADAMW, 1, "is no rule of tables");
    struct tide_lua_tensor *array = check_array(L, 2, 0);
    size_t columns = array->t.columns, count;
    const uint64_t *id = check_ids(L, 4, array->t.rows, &count);
    struct tide_lua_tensor *gradients = check_array(L, 5, columns);
    const size_t width = row_state(u.rule, columns), element = array->element;
    struct tide_lua_tensor *state = width ? check_array(L, 3, width) : NULL;
    luaL_argcheck(L,
                  count <= gradients->t.rows && gradients->element == element &&
                      (!state || (state->t.rows == array->t.rows && state->element == element)),
                  5, "is not as the array");
    const struct tide_device *device = tide_device_find(element == sizeof(float) ? "cpu" : "reference");
    for (size_t i = 0; i < count; i++) {
        char *own = state ? (char *)state->t.data + id[i] * width * element : NULL;
        if (u.rule == TIDE_RULE_ADAM) {
            u.step = count_update(own + 2 * columns * element, element == sizeof(float));
        }
        device->update(&u, columns, (char *)array->t.data + id[i] * columns * element,
                       (const char *)gradients->t.data + i * columns * element, own,
                       tide_rule_states(u.rule) > 1 ? own + columns * element : NULL);
    }
    tide__lua_work(L, tide_update_work(u.rule, count * columns, element));
    return 0;
}

static void add(lua_State *L, int table, const luaL_Reg *methods) {
    lua_pushvalue(L, table);
    luaL_setfuncs(L, methods, 0);
    lua_pop(L, 1);
}

void tide__lua_vertex_methods(lua_State *L, int program, int run) {
    static const luaL_Reg programs[] = {{"vertex", program_vertex},
                                        {"children", program_children},
                                        {"child_state", program_child_state},
                                        {"publish", program_publish},
                                        {"table", program_table},
                                        {"over", program_over},
                                        {"nth", program_nth},
                                        {"edge_input", program_edge_input},
                                        {"tables", program_tables},
                                        {"kind", program_kind},
                                        {"counted_kinds", program_counted_kinds},
                                        {"table_rows", program_table_rows},
                                        {"label", program_label},
                                        {NULL, NULL}};
    static const luaL_Reg runs[] = {{"feed_forest", run_feed_forest},
                                    {"limit", run_limit},
                                    {"cut", run_cut},
                                    {"table_ids", run_table_ids},
                                    {"bind_table", run_bind_table},
                                    {"grow", run_grow},
                                    {"grow_add", run_grow_add},
                                    {"grow_label", run_grow_label},
                                    {"grow_step", run_grow_step},
                                    {"grow_finish", run_grow_finish},
                                    {NULL, NULL}};
    add(L, program, programs);
    add(L, run, runs);
}

void tide__lua_open_vertex(lua_State *L) {
    static const luaL_Reg functions[] = {{"rows_get", core_rows_get},
                                         {"rows_put", core_rows_put},
                                         {"rows_scale", core_rows_scale},
                                         {"rows_update", core_rows_update},
                                         {NULL, NULL}};
    luaL_setfuncs(L, functions, 0);
}
