/*
 * core.exchange{...}: gradients among the workers of a job, for Lua (runtime/exchange/exchange.h
 * has the meaning). Layers, matrices and ranks count from 1 here. Waiting suspends the calling
 * fiber. The products of factors are made here, one for all workers' rows, on the worker's thread.
 */
#include "exchange.h"
#include "costs.h"
#include "tensor/cpu/gemm.h"

#include <math.h>
#include <string.h>

static const char exchange_metatable; /* its address is the registry key */
static const char *const path_names[] = {"ps", "factor", "ring", NULL};
static const char *const format_names[] = {"f32", "f16", "bf16", "topk", "onebit", "sparse", NULL};

struct tide_lua_exchange {
    struct tide_exchange *x; /* NULL: closed */
    size_t layer_count, elements;
    uint32_t workers;
    struct tide_exchange_layer *layers;    /* in Lua's memory, second user value */
    struct tide_exchange_matrix *matrices; /* of all layers, in the same block */
    uint32_t *parameters;                  /* of each matrix: number of the program's parameter, from 0 */
    size_t matrix_count;
    float *stack; /* rows of all workers */
    size_t stack_room;
    uint8_t *paths, *formats, *fanouts; /* scratch for a plan */
};

struct tide_lua_exchange *tide__lua_exchange_at(lua_State *L, int index) {
    return tide__lua_handle_at(L, index, &exchange_metatable);
}

static struct tide_lua_exchange *check_exchange(lua_State *L) {
    struct tide_lua_exchange *own = tide__lua_exchange_at(L, 1);
    if (!own) {
        luaL_typeerror(L, 1, "exchange");
    } else if (!own->x) {
        luaL_error(L, "the exchange is closed");
    }
    return own;
}

static size_t count_field(lua_State *L, const char *name) {
    int integer;
    lua_getfield(L, -1, name);
    lua_Integer value = lua_tointegerx(L, -1, &integer);
    lua_pop(L, 1);
    if (!integer || value < 0) {
        luaL_error(L, "exchange: '%s' is not a whole number from 0", name);
    }
    return (size_t)value;
}

static size_t check_layer(lua_State *L, const struct tide_lua_exchange *own, int index) {
    lua_Integer layer = luaL_checkinteger(L, index);
    luaL_argcheck(L, layer >= 1 && (size_t)layer <= own->layer_count, index, "no such layer");
    return (size_t)layer - 1;
}

static uint64_t check_step(lua_State *L, int index) {
    lua_Integer step = luaL_checkinteger(L, index);
    luaL_argcheck(L, step >= 1, index, "steps count from 1");
    return (uint64_t)step;
}

/* ---- creation ---- */

/* The matrices of the layer on top of the stack. */
static void read_matrices(lua_State *L, struct tide_lua_exchange *own, struct tide_exchange_layer *layer) {
    if (lua_getfield(L, -1, "matrices") == LUA_TTABLE) {
        layer->matrices = own->matrices + own->matrix_count;
        layer->matrix_count = lua_rawlen(L, -1);
        for (size_t i = 0; i < layer->matrix_count; i++) {
            lua_rawgeti(L, -1, (lua_Integer)i + 1);
            size_t parameter = count_field(L, "parameter");
            own->parameters[own->matrix_count] = parameter > 0 && parameter < UINT32_MAX ? (uint32_t)parameter - 1 : 0;
            own->matrices[own->matrix_count++] = (struct tide_exchange_matrix){
                count_field(L, "first"), count_field(L, "rows"), count_field(L, "columns")};
            lua_pop(L, 1);
        }
    }
    lua_pop(L, 1);
}

static size_t count_matrices(lua_State *L, int layers, size_t layer_count) {
    size_t count = 0;
    for (size_t i = 0; i < layer_count; i++) {
        lua_rawgeti(L, layers, (lua_Integer)i + 1);
        luaL_argcheck(L, lua_istable(L, -1), 1, "layers are tables");
        if (lua_getfield(L, -1, "matrices") == LUA_TTABLE) {
            count += lua_rawlen(L, -1);
        }
        lua_pop(L, 2);
    }
    return count;
}

/* Memory of the descriptions, one block that Lua owns. */
static void make_room(lua_State *L, struct tide_lua_exchange *own, size_t matrices) {
    size_t layers = own->layer_count;
    char *block =
        lua_newuserdatauv(L, layers * (sizeof *own->layers + 3) + matrices * (sizeof *own->matrices + 4) + 8, 0);
    own->layers = (void *)block;
    own->matrices = (void *)(block + layers * sizeof *own->layers);
    own->parameters = (void *)(own->matrices + matrices);
    own->paths = (uint8_t *)(own->parameters + matrices);
    own->formats = own->paths + layers;
    own->fanouts = own->formats + layers;
    lua_setiuservalue(L, 2, 1);
}

/* core.exchange{rank=, workers=, elements=, layers={{first=, count=, matrices={{parameter=, first=,
 * rows=, columns=}}}}} */
static int core_exchange(lua_State *L) {
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    struct tide_lua *host = tide__lua_inside(L);
    struct tide_lua_exchange *own = lua_newuserdatauv(L, sizeof *own, 1); /* 2 */
    memset(own, 0, sizeof *own);
    lua_rawgetp(L, LUA_REGISTRYINDEX, &exchange_metatable);
    lua_setmetatable(L, 2);
    luaL_argcheck(L, lua_getfield(L, 1, "layers") == LUA_TTABLE, 1, "'layers' is a list"); /* 3 */
    own->layer_count = lua_rawlen(L, 3);
    make_room(L, own, count_matrices(L, 3, own->layer_count));
    for (size_t i = 0; i < own->layer_count; i++) {
        lua_rawgeti(L, 3, (lua_Integer)i + 1);
        own->layers[i] =
            (struct tide_exchange_layer){.first = count_field(L, "first"), .count = count_field(L, "count")};
        read_matrices(L, own, &own->layers[i]);
        lua_pop(L, 1);
    }
    lua_pushvalue(L, 1);
    size_t rank = count_field(L, "rank"), workers = count_field(L, "workers");
    own->elements = count_field(L, "elements");
    luaL_argcheck(L, rank >= 1 && rank <= workers && workers <= TIDE_EXCHANGE_WORKERS_MAX, 1, "'rank' or 'workers'");
    own->workers = (uint32_t)workers;
    struct tide_exchange_options o = {.rank = (uint32_t)rank - 1,
                                      .workers = (uint32_t)workers,
                                      .elements = own->elements,
                                      .layers = own->layers,
                                      .layer_count = own->layer_count};
    lua_getfield(L, 1, "under_way");
    lua_Integer under_way = luaL_optinteger(L, -1, 0);
    luaL_argcheck(L, under_way >= 0, 1, "'under_way' is a number of bytes");
    o.under_way = (size_t)under_way;
    int code = tide_exchange_create(host->node, &o, &own->x);
    if (code < 0) {
        return tide__lua_failure(L, code);
    }
    lua_settop(L, 2);
    return 1;
}

static int exchange_close(lua_State *L) {
    struct tide_lua_exchange *own = lua_touserdata(L, 1);
    if (own->x) {
        tide_exchange_release(own->x);
        own->x = NULL;
    }
    tide_free(own->stack);
    own->stack = NULL;
    own->stack_room = 0;
    return 0;
}

static int exchange_address(lua_State *L) {
    tide__lua_push_address(L, tide_exchange_address(check_exchange(L)->x));
    return 1;
}

/* x:connect{addresses by rank} */
static int exchange_connect(lua_State *L) {
    struct tide_lua_exchange *own = check_exchange(L);
    luaL_checktype(L, 2, LUA_TTABLE);
    tide_address *peers = lua_newuserdatauv(L, own->workers * sizeof *peers, 0);
    for (uint32_t r = 0; r < own->workers; r++) {
        lua_rawgeti(L, 2, (lua_Integer)r + 1);
        peers[r] = tide__lua_check_address(L, -1);
        lua_pop(L, 1);
    }
    int code = tide_exchange_connect(own->x, peers);
    return code < 0 ? tide__lua_raise(L, code) : 0;
}

static int push_memory(lua_State *L, const struct tide_lua_exchange *own, float *memory) {
    lua_Integer columns = luaL_checkinteger(L, 2);
    luaL_argcheck(L, columns >= 1 && own->elements % (size_t)columns == 0, 2, "does not divide the elements");
    tide__lua_tensor_borrow(L, TIDE_F32, own->elements / (size_t)columns, (size_t)columns, memory, 1);
    return 1;
}

/* x:gradients(columns) -> tensor that shares the exchange's memory and keeps the exchange: the own
 * ones */
static int exchange_gradients(lua_State *L) {
    const struct tide_lua_exchange *own = check_exchange(L);
    return push_memory(L, own, tide_exchange_gradients(own->x));
}

/* x:sum(columns) -> the same of what they add up to */
static int exchange_sum(lua_State *L) {
    const struct tide_lua_exchange *own = check_exchange(L);
    return push_memory(L, own, tide_exchange_sum(own->x));
}

/* ---- plans ---- */

static void read_names(lua_State *L, const char *field, const char *const names[], uint8_t *out, size_t count) {
    luaL_argcheck(L, lua_getfield(L, -1, field) == LUA_TTABLE, 2, "a plan has epoch, paths, formats and fanouts");
    for (size_t i = 0; i < count; i++) {
        lua_rawgeti(L, -1, (lua_Integer)i + 1);
        const char *name = lua_tostring(L, -1);
        int found = -1;
        for (int n = 0; names[n]; n++) {
            found = name && strcmp(names[n], name) == 0 ? n : found;
        }
        if (found < 0) {
            luaL_error(L, "exchange: %s of layer %I: \"%s\" is none", field, (lua_Integer)i + 1, name ? name : "?");
        }
        out[i] = (uint8_t)found;
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
}

static void read_fanouts(lua_State *L, uint8_t *out, size_t count) {
    luaL_argcheck(L, lua_getfield(L, -1, "fanouts") == LUA_TTABLE, 2, "a plan has epoch, paths, formats and fanouts");
    for (size_t i = 0; i < count; i++) {
        lua_rawgeti(L, -1, (lua_Integer)i + 1);
        lua_Integer fanout = lua_tointeger(L, -1);
        luaL_argcheck(L, fanout >= 0 && fanout <= UINT8_MAX, 2, "a fanout is 0 to 255");
        out[i] = (uint8_t)fanout;
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
}

/* {epoch=, paths={names}, formats={names}, fanouts={numbers}} at `index` */
static struct tide_exchange_plan read_plan(lua_State *L, struct tide_lua_exchange *own, int index) {
    luaL_checktype(L, index, LUA_TTABLE);
    lua_pushvalue(L, index);
    struct tide_exchange_plan plan = {
        .epoch = count_field(L, "epoch"), .paths = own->paths, .formats = own->formats, .fanouts = own->fanouts};
    read_names(L, "paths", path_names, plan.paths, own->layer_count);
    read_names(L, "formats", format_names, plan.formats, own->layer_count);
    read_fanouts(L, plan.fanouts, own->layer_count);
    lua_pop(L, 1);
    return plan;
}

static void push_plan(lua_State *L, const struct tide_lua_exchange *own, const struct tide_exchange_plan *plan) {
    lua_createtable(L, 0, 4);
    tide__lua_set_integer(L, "epoch", plan->epoch);
    for (int i = 0; i < 3; i++) {
        lua_createtable(L, (int)own->layer_count, 0);
    }
    for (size_t i = 0; i < own->layer_count; i++) {
        lua_pushstring(L, path_names[plan->paths[i]]);
        lua_rawseti(L, -4, (lua_Integer)i + 1);
        lua_pushstring(L, format_names[plan->formats[i]]);
        lua_rawseti(L, -3, (lua_Integer)i + 1);
        lua_pushinteger(L, plan->fanouts[i]);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    lua_setfield(L, -4, "fanouts");
    lua_setfield(L, -3, "formats");
    lua_setfield(L, -2, "paths");
}

/* x:plan() -> plan; x:plan(plan): of the steps from now on, the same on all workers */
static int exchange_plan(lua_State *L) {
    struct tide_lua_exchange *own = check_exchange(L);
    if (!lua_isnoneornil(L, 2)) {
        struct tide_exchange_plan plan = read_plan(L, own, 2);
        tide_exchange_set_plan(own->x, &plan);
        return 0;
    }
    push_plan(L, own, tide_exchange_get_plan(own->x));
    return 1;
}

/* ---- steps ---- */

/* x:ready(layer, step) */
static int exchange_ready(lua_State *L) {
    struct tide_lua_exchange *own = check_exchange(L);
    size_t layer = check_layer(L, own, 2);
    int code = tide_exchange_ready(own->x, check_step(L, 3), layer);
    return code < 0 ? tide__lua_raise(L, code) : 0;
}

/* x:share(step, {numbers}[, plan]); numbers that are not there are 0 */
static int exchange_share(lua_State *L) {
    struct tide_lua_exchange *own = check_exchange(L);
    uint64_t step = check_step(L, 2);
    double numbers[TIDE_EXCHANGE_SUMS];
    luaL_checktype(L, 3, LUA_TTABLE);
    for (int i = 0; i < TIDE_EXCHANGE_SUMS; i++) {
        lua_rawgeti(L, 3, i + 1);
        numbers[i] = luaL_optnumber(L, -1, 0);
        lua_pop(L, 1);
    }
    struct tide_exchange_plan plan;
    bool proposes = !lua_isnoneornil(L, 4);
    if (proposes) {
        plan = read_plan(L, own, 4);
    }
    int code = tide_exchange_share(own->x, step, numbers, proposes ? &plan : NULL);
    return code < 0 ? tide__lua_raise(L, code) : 0;
}

/* x:sums(step) -> {numbers}, whether there is a new plan: then x:plan() is it */
static int exchange_sums(lua_State *L) {
    struct tide_lua_exchange *own = check_exchange(L);
    double sums[TIDE_EXCHANGE_SUMS];
    const struct tide_exchange_plan *agreed;
    int code = tide__lua_resumed(L, tide_exchange_sums(own->x, check_step(L, 2), sums, &agreed));
    if (code < 0) {
        return tide__lua_raise(L, code);
    }
    if (agreed) {
        tide_exchange_set_plan(own->x, agreed);
    }
    lua_createtable(L, TIDE_EXCHANGE_SUMS, 0);
    for (int i = 0; i < TIDE_EXCHANGE_SUMS; i++) {
        lua_pushnumber(L, sums[i]);
        lua_rawseti(L, -2, i + 1);
    }
    lua_pushboolean(L, agreed != NULL);
    return 2;
}

/* x:took_part(step) -> {ranks} whose numbers are in the sums of a step */
static int exchange_took_part(lua_State *L) {
    const struct tide_lua_exchange *own = check_exchange(L);
    uint64_t step = check_step(L, 2);
    lua_createtable(L, (int)own->workers, 0);
    for (uint32_t r = 0, n = 0; r < own->workers; r++) {
        if (tide_exchange_took_part(own->x, step, r)) {
            lua_pushinteger(L, (lua_Integer)r + 1);
            lua_rawseti(L, -2, (lua_Integer)++n);
        }
    }
    return 1;
}

/* All workers' rows of a matrix below each other, A then B: K x rows and K x columns. */
static int stack_factors(struct tide_lua_exchange *own, uint64_t step, size_t layer, size_t matrix, size_t *rows) {
    const struct tide_exchange_matrix *m = &own->layers[layer].matrices[matrix];
    size_t total = 0, k;
    const float *a, *b;
    for (uint32_t r = 0; r < own->workers; r++) {
        tide_exchange_factors_of(own->x, step, layer, matrix, r, &k, &a, &b);
        total += k;
    }
    size_t wanted = total * (m->rows + m->columns);
    if (wanted > own->stack_room || !own->stack) {
        tide_free(own->stack);
        own->stack = tide_alloc_aligned(64, (wanted * sizeof *own->stack + 127) & ~(size_t)63);
        own->stack_room = own->stack ? wanted : 0;
        if (!own->stack) {
            return TIDE_ENOMEM;
        }
    }
    float *to_a = own->stack, *to_b = own->stack + total * m->rows;
    for (uint32_t r = 0; r < own->workers; r++) {
        tide_exchange_factors_of(own->x, step, layer, matrix, r, &k, &a, &b);
        if (k == 0) {
            continue;
        }
        memcpy(to_a, a, k * m->rows * sizeof *a);
        memcpy(to_b, b, k * m->columns * sizeof *b);
        to_a += k * m->rows;
        to_b += k * m->columns;
    }
    *rows = total;
    return 0;
}

/* What a product of K rows takes: C is written, and read if it is added to. */
static struct tide_work product_work(const struct tide_exchange_matrix *m, size_t k, bool adds) {
    double c = (double)m->rows * (double)m->columns;
    return (struct tide_work){2 * c * (double)k,
                              sizeof(float) * ((adds ? 2 : 1) * c + (double)k * (double)(m->rows + m->columns))};
}

/* x:factors(layer, matrix, A, B, rows): the gradient of a matrix, A^T B of so many rows. Factors if
 * that is how the layer travels, else it is made here. */
static int exchange_factors(lua_State *L) {
    struct tide_lua_exchange *own = check_exchange(L);
    size_t layer = check_layer(L, own, 2);
    lua_Integer matrix = luaL_checkinteger(L, 3), rows = luaL_checkinteger(L, 6);
    luaL_argcheck(L, matrix >= 1 && (size_t)matrix <= own->layers[layer].matrix_count, 3, "no such matrix");
    const struct tide_exchange_matrix *m = &own->layers[layer].matrices[matrix - 1];
    const struct tide_lua_tensor *a = tide__lua_tensor_check(L, 4), *b = tide__lua_tensor_check(L, 5);
    luaL_argcheck(L, a->t.type == TIDE_F32 && a->t.columns == m->rows, 4, "not f32 of its rows");
    luaL_argcheck(L, b->t.type == TIDE_F32 && b->t.columns == m->columns, 5, "not f32 of its columns");
    luaL_argcheck(L, rows >= 0 && (size_t)rows <= a->t.rows && (size_t)rows <= b->t.rows, 6,
                  "more rows than there are");
    size_t k = (size_t)rows;
    float *gradient = tide_exchange_gradients(own->x) + m->first;
    int code;
    if (tide_exchange_get_plan(own->x)->paths[layer] == TIDE_PATH_FACTOR) {
        code = tide_exchange_factors(own->x, layer, (size_t)matrix - 1, k, a->t.data, b->t.data);
    } else {
        code = tide_cpu_gemm(true, false, m->rows, m->columns, k, 1, a->t.data, m->rows, b->t.data, m->columns, 0,
                             gradient, m->columns);
        tide__lua_work(L, product_work(m, k, false));
    }
    return code < 0 ? tide__lua_raise(L, code) : 0;
}

static int multiply(struct tide_lua_exchange *own, uint64_t step, size_t layer, float *target, float alpha, float beta,
                    struct tide_work *work) {
    int code = 0;
    for (size_t i = 0; i < own->layers[layer].matrix_count && code == 0; i++) {
        const struct tide_exchange_matrix *m = &own->layers[layer].matrices[i];
        size_t k;
        code = stack_factors(own, step, layer, i, &k);
        if (code == 0) {
            code = tide_cpu_gemm(true, false, m->rows, m->columns, k, alpha, own->stack, m->rows,
                                 own->stack + k * m->rows, m->columns, beta, target + m->first, m->columns);
            struct tide_work more = product_work(m, k, fpclassify(beta) != FP_ZERO);
            work->flops += more.flops;
            work->bytes += more.bytes;
        }
    }
    return code;
}

/* x:next(layer, step) -> the layer once it has come, before that any other that was not needed yet;
 * the first number that those shared whose gradients are in its sum */
static int exchange_next(lua_State *L) {
    struct tide_lua_exchange *own = check_exchange(L);
    size_t layer = check_layer(L, own, 2);
    int code = tide__lua_resumed(L, tide_exchange_next(own->x, check_step(L, 3), layer, &layer));
    if (code < 0) {
        return tide__lua_raise(L, code);
    }
    double sums[TIDE_EXCHANGE_SUMS];
    tide_exchange_sums_of(own->x, check_step(L, 3), layer, sums);
    lua_pushinteger(L, (lua_Integer)layer + 1);
    lua_pushnumber(L, sums[0]);
    return 2;
}

/* x:need(layer, step, factor[, parameters, alpha[, beta]]): waits; then the layer's sum is
 * there. With parameters, those of matrices that came as factors are not made: the parameters
 * become beta (1) times themselves and alpha times them, and true is returned. */
static int exchange_need(lua_State *L) {
    struct tide_lua_exchange *own = check_exchange(L);
    size_t layer = check_layer(L, own, 2);
    uint64_t step = check_step(L, 3);
    bool factor = lua_toboolean(L, 4), folds = factor && !lua_isnoneornil(L, 5);
    float *target = tide_exchange_sum(own->x);
    if (folds) {
        struct tide_lua_tensor *t = tide__lua_tensor_check(L, 5);
        luaL_argcheck(L, t->t.type == TIDE_F32 && tide__lua_tensor_count(t) >= own->elements, 5, "not the parameters");
        target = t->t.data;
    }
    float alpha = folds ? (float)luaL_checknumber(L, 6) : 1;
    float beta = folds ? (float)luaL_optnumber(L, 7, 1) : 0;
    int code = tide__lua_resumed(L, tide_exchange_need(own->x, step, layer));
    struct tide_work work = {0, 0};
    struct tide_costs_watch watch;
    tide__costs_begin(&watch);
    if (code == 0 && factor) {
        code = multiply(own, step, layer, target, alpha, beta, &work);
    }
    if (code < 0) {
        return tide__lua_raise(L, code);
    }
    tide__costs_end_work(&watch, work);
    tide__lua_work(L, work);
    lua_pushboolean(L, folds);
    return 1;
}

int tide__lua_exchange_factors(void *arg, size_t parameter, const struct tide_operand *a,
                               const struct tide_operand *b) {
    struct tide_lua_exchange *own = arg;
    size_t at = 0;
    for (size_t l = 0; l < own->layer_count; l++) {
        for (size_t i = 0; i < own->layers[l].matrix_count; i++, at++) {
            if (own->parameters[at] == parameter) {
                return tide_exchange_factors(own->x, l, i, a->rows, a->data, b->data);
            }
        }
    }
    return tide_fail(TIDE_EINVAL, "the exchange knows no factors of parameter %zu", parameter + 1);
}

/* ---- figures ---- */

/* x:flush(): what others are to have of the steps so far has been sent */
static int exchange_flush(lua_State *L) {
    struct tide_lua_exchange *own = check_exchange(L);
    int code = tide__lua_resumed(L, tide_exchange_flush(own->x));
    return code < 0 ? tide__lua_raise(L, code) : 0;
}

/* x:stats() -> {messages=, bytes=, payload={ps=, factor=, ring=}, busy_s=, waited_s=, skew_s=,
 * layer_s={}} */
static int exchange_stats(lua_State *L) {
    struct tide_lua_exchange *own = check_exchange(L);
    struct tide_exchange_stats s;
    tide_exchange_stats(own->x, &s);
    lua_createtable(L, 0, 7);
    tide__lua_set_integer(L, "messages", s.messages);
    tide__lua_set_integer(L, "bytes", s.bytes);
    tide__lua_set_number(L, "busy_s", (double)s.busy_ns * 1e-9);
    tide__lua_set_number(L, "waited_s", (double)s.waited_ns * 1e-9);
    tide__lua_set_number(L, "skew_s", (double)s.skew_ns * 1e-9);
    lua_createtable(L, 0, TIDE_PATH_COUNT);
    for (int i = 0; i < TIDE_PATH_COUNT; i++) {
        tide__lua_set_integer(L, path_names[i], s.payload[i]);
    }
    lua_setfield(L, -2, "payload");
    lua_createtable(L, (int)own->layer_count, 0);
    for (size_t i = 0; i < own->layer_count; i++) {
        lua_pushnumber(L, (double)tide_exchange_layer_ns(own->x, i) * 1e-9);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    lua_setfield(L, -2, "layer_s");
    return 1;
}

/* core.digest(tensor) -> hexadecimal text; equal for equal bytes */
static int core_digest(lua_State *L) {
    const struct tide_lua_tensor *t = tide__lua_tensor_check(L, 1);
    char text[20];
    snprintf(text, sizeof text, "%016llx",
             (unsigned long long)tide_hash(t->t.data, tide__lua_tensor_count(t) * t->element, 0));
    lua_pushstring(L, text);
    return 1;
}

void tide__lua_open_exchange(lua_State *L) {
    static const luaL_Reg methods[] = {
        {"address", exchange_address},     {"connect", exchange_connect},
        {"gradients", exchange_gradients}, {"sum", exchange_sum},
        {"close", exchange_close},         {"took_part", exchange_took_part},
        {"plan", exchange_plan},           {"ready", exchange_ready},
        {"share", exchange_share},         {"factors", exchange_factors},
        {"sums", exchange_sums},           {"next", exchange_next},
        {"need", exchange_need},           {"flush", exchange_flush},
        {"stats", exchange_stats},         {NULL, NULL},
    };
    static const luaL_Reg functions[] = {{"exchange", core_exchange}, {"digest", core_digest}, {NULL, NULL}};
    luaL_setfuncs(L, functions, 0);
    tide__lua_handle_class(L, &exchange_metatable, "tide.exchange", methods, exchange_close);
}
