/*
 * Sparse matrices for Lua: reading them from files or strings, cutting them into blocks; and the
 * generated inputs, as strings. The result is tensors; what a reader gave is freed before Lua can
 * raise.
 */
#include "sources.h"

#include "readers/generate.h"
#include "readers/matrix.h"

#include <math.h>
#include <string.h>

/* ---- reading ---- */

struct matrix_reading {
    struct tide_lua_sources sources;
    struct tide_matrix matrix;
    struct tide_matrix_oddities odd;
    double mean;
    bool names;
};

struct matrix_options {
    enum tide_matrix_format format;
    double test; /* share of the only text that is held out */
    uint64_t seed;
    bool center, names;
};

static const char *const format_names[] = {"auto", "ratings", "matrixmarket", NULL};

static struct matrix_options read_options(lua_State *L, int index) {
    struct matrix_options o = {.seed = 1};
    if (lua_isnoneornil(L, index)) {
        return o;
    }
    luaL_checktype(L, index, LUA_TTABLE);
    lua_getfield(L, index, "format");
    const char *format = luaL_optstring(L, -1, "auto");
    while (o.format < TIDE_MATRIX_MARKET && strcmp(format, format_names[o.format]) != 0) {
        o.format++;
    }
    if (strcmp(format, format_names[o.format]) != 0) {
        luaL_error(L, "matrix: format \"%s\" is none of auto, ratings, matrixmarket", format);
    }
    lua_getfield(L, index, "test");
    o.test = luaL_optnumber(L, -1, 0);
    if (!(o.test >= 0 && o.test < 1)) {
        luaL_error(L, "matrix: test = %f is not a share from 0 to 1", o.test);
    }
    lua_getfield(L, index, "seed");
    o.seed = (uint64_t)luaL_optinteger(L, -1, 1);
    lua_getfield(L, index, "center");
    o.center = lua_toboolean(L, -1);
    lua_getfield(L, index, "names");
    o.names = lua_toboolean(L, -1);
    lua_settop(L, index);
    return o;
}

static void subtract_mean(struct matrix_reading *reading) {
    reading->mean = tide_matrix_mean(&reading->matrix);
    for (size_t part = 0; part < TIDE_MATRIX_TEXTS; part++) {
        struct tide_cells *cells = &reading->matrix.parts[part];
        for (size_t i = 0; i < cells->count; i++) {
            cells->values[i] = (float)((double)cells->values[i] - reading->mean);
        }
    }
}

static void push_cells(lua_State *L, const struct tide_cells *cells) {
    lua_createtable(L, 0, 2);
    struct tide_lua_tensor *pairs = tide__lua_tensor_new(L, TIDE_U32, cells->count, 2);
    lua_setfield(L, -2, "cells");
    struct tide_lua_tensor *values = tide__lua_tensor_new(L, TIDE_F32, cells->count, 1);
    lua_setfield(L, -2, "values");
    if (cells->count > 0) {
        memcpy(pairs->t.data, cells->cells, 2 * cells->count * sizeof(uint32_t));
        memcpy(values->t.data, cells->values, cells->count * sizeof(float));
    }
}

static void push_counts(lua_State *L, const char *field, const struct tide_matrix *m, bool columns, size_t size) {
    struct tide_lua_tensor *counts = tide__lua_tensor_new(L, TIDE_U32, size, 1);
    tide_cells_count(&m->parts[0], columns, counts->t.data);
    lua_setfield(L, -2, field);
}

static void push_ids(lua_State *L, const char *field, const struct tide_names *names) {
    if (names->pool) {
        tide__lua_push_names(L, names);
        lua_setfield(L, -2, field);
    }
}

/* In a protected call: the result table of a struct matrix_reading at light userdata 1. */
static int push_matrix(lua_State *L) {
    static const char *const parts[TIDE_MATRIX_TEXTS] = {"train", "test"};
    const struct matrix_reading *reading = lua_touserdata(L, 1);
    const struct tide_matrix *m = &reading->matrix;
    lua_createtable(L, 0, 13);
    lua_createtable(L, 0, TIDE_MATRIX_TEXTS);
    for (size_t i = 0; i < TIDE_MATRIX_TEXTS; i++) {
        push_cells(L, &m->parts[i]);
        lua_setfield(L, -2, parts[i]);
    }
    lua_setfield(L, -2, "parts");
    push_counts(L, "row_counts", m, false, m->rows);
    push_counts(L, "column_counts", m, true, m->columns);
    if (reading->names) {
        push_ids(L, "row_names", &m->row_names);
        push_ids(L, "column_names", &m->column_names);
    }
    lua_pushinteger(L, m->rows);
    lua_setfield(L, -2, "rows");
    lua_pushinteger(L, m->columns);
    lua_setfield(L, -2, "columns");
    lua_pushnumber(L, reading->mean);
    lua_setfield(L, -2, "mean");
    lua_pushstring(L, m->note);
    lua_setfield(L, -2, "note");
    tide__lua_set_integer(L, "repeated", reading->odd.repeated);
    tide__lua_set_integer(L, "leaked", reading->odd.leaked);
    tide__lua_set_integer(L, "unseen_rows", reading->odd.unseen_rows);
    tide__lua_set_integer(L, "unseen_columns", reading->odd.unseen_columns);
    return 1;
}

/* core.matrix({source[, source]}[, options]) */
static int core_matrix(lua_State *L) {
    lua_settop(L, 2);
    struct matrix_options o = read_options(L, 2);
    tide__lua_sources_check(L, "matrix", "1 or 2 sources (train, test)", TIDE_MATRIX_TEXTS);
    struct matrix_reading reading = {.names = o.names};
    struct tide_lua_sources *sources = &reading.sources;
    int code = tide__lua_sources_read(L, sources), status = LUA_OK;
    code = code < 0 ? code : tide_matrix_read(sources->texts, sources->count, o.format, &reading.matrix);
    tide__lua_sources_release(sources);
    if (code == 0 && o.test > 0) {
        double held = floor(o.test * (double)reading.matrix.parts[0].count);
        code = tide_matrix_split(&reading.matrix, (size_t)held, o.seed);
    }
    code = code < 0 ? code : tide_matrix_oddities(&reading.matrix, &reading.odd);
    if (code == 0) {
        if (o.center) {
            subtract_mean(&reading);
        }
        lua_pushcfunction(L, push_matrix);
        lua_pushlightuserdata(L, &reading);
        status = lua_pcall(L, 1, 1, 0);
    }
    tide_matrix_release(&reading.matrix);
    if (code < 0) {
        return tide__lua_failure(L, code);
    }
    return status == LUA_OK ? 1 : lua_error(L);
}

/* ---- blocks ---- */

static uint32_t count_field(lua_State *L, const char *name, lua_Integer least) {
    lua_getfield(L, 2, name);
    int integer;
    lua_Integer value = lua_tointegerx(L, -1, &integer);
    if (!integer || value < least || value >= UINT32_MAX) {
        luaL_error(L, "cells of a matrix: '%s' is not a whole number from %I", name, least);
    }
    lua_pop(L, 1);
    return (uint32_t)value;
}

static struct tide_lua_tensor *part_tensor(lua_State *L, const char *name, int type) {
    lua_getfield(L, 1, name); /* stays on the stack */
    struct tide_lua_tensor *tensor = tide__lua_tensor_check(L, lua_gettop(L));
    if (tensor->t.type != type) {
        luaL_error(L, "cells of a matrix: '%s' is a tensor of another type", name);
    }
    return tensor;
}

static int push_part(lua_State *L) {
    push_cells(L, lua_touserdata(L, 1));
    return 1;
}

/* Arguments {cells =, values =}, {rows =, columns =, ...}; the tensors stay on the stack. */
static struct tide_cells check_cells(lua_State *L, uint32_t *rows, uint32_t *columns) {
    luaL_checktype(L, 1, LUA_TTABLE);
    luaL_checktype(L, 2, LUA_TTABLE);
    lua_settop(L, 2);
    struct tide_lua_tensor *pairs = part_tensor(L, "cells", TIDE_U32);
    struct tide_lua_tensor *values = part_tensor(L, "values", TIDE_F32);
    struct tide_cells cells = {pairs->t.data, values->t.data, tide__lua_tensor_count(values)};
    *rows = count_field(L, "rows", 1);
    *columns = count_field(L, "columns", 1);
    luaL_argcheck(L, tide__lua_tensor_count(pairs) == 2 * cells.count, 1, "two numbers a value");
    for (size_t i = 0; i < cells.count; i++) {
        luaL_argcheck(L, cells.cells[2 * i] < *rows && cells.cells[2 * i + 1] < *columns, 1,
                      "a cell outside of rows and columns");
    }
    return cells;
}

/* Pushes {cells =, values =}. *takes* the cells. */
static void give_cells(lua_State *L, struct tide_cells *cells) {
    lua_pushcfunction(L, push_part);
    lua_pushlightuserdata(L, cells);
    int status = lua_pcall(L, 1, 1, 0);
    tide_free(cells->cells);
    tide_free(cells->values);
    if (status != LUA_OK) {
        lua_error(L);
    }
}

/* core.matrix_blocks({cells =, values =}, {rows =, columns =, blocks =, first =, count =}):
 * {cells =, values =} of the blocks, offsets */
static int core_matrix_blocks(lua_State *L) {
    struct tide_block_grid grid;
    struct tide_cells cells = check_cells(L, &grid.rows, &grid.columns), out;
    uint32_t first = count_field(L, "first", 0), count = count_field(L, "count", 1);
    grid.blocks = count_field(L, "blocks", 1);
    luaL_argcheck(L, first < grid.blocks && count <= grid.blocks - first && grid.blocks <= 65536, 2,
                  "first + count <= blocks <= 65536");
    size_t most = (size_t)count * grid.blocks + 1;
    struct tide_lua_tensor *offsets = tide__lua_tensor_new(L, TIDE_U64, most, 1);
    int at = lua_gettop(L);
    int code = tide_cells_blocks(&cells, grid, first, count, &out, offsets->t.data, most);
    if (code < 0) {
        return tide__lua_failure(L, code);
    }
    give_cells(L, &out);
    lua_pushvalue(L, at);
    return 2;
}

/* core.matrix_groups({cells =, values =}, {rows =, columns =, size =, seed =, by_columns =}):
 * {cells =, values =} in a random order, columns of the groups, offsets */
static int core_matrix_groups(lua_State *L) {
    uint32_t rows, columns;
    struct tide_cells cells = check_cells(L, &rows, &columns), out;
    uint32_t size = count_field(L, "size", 1);
    lua_getfield(L, 2, "by_columns");
    bool by_columns = lua_toboolean(L, -1);
    lua_getfield(L, 2, "seed");
    uint64_t seed = (uint64_t)luaL_checkinteger(L, -1);
    luaL_argcheck(L, cells.count < UINT32_MAX, 1, "2^32 - 1 cells or more");
    struct tide_lua_tensor *keys = tide__lua_tensor_new(L, TIDE_U64, cells.count, 1);
    struct tide_lua_tensor *offsets = tide__lua_tensor_new(L, TIDE_U64, (cells.count + size - 1) / size + 1, 1);
    int at = lua_gettop(L);
    int code = tide_cells_groups(&cells, columns, by_columns, size, seed, &out, keys->t.data, offsets->t.data);
    if (code < 0) {
        return tide__lua_failure(L, code);
    }
    give_cells(L, &out);
    lua_pushvalue(L, at - 1);
    lua_pushvalue(L, at);
    return 3;
}

/* ---- generated inputs ---- */

enum { GENERATED_MOST = 3 };

static int keep(void *arg, const char *data, size_t size) {
    struct tide_writer *w = arg;
    void *room = tide_write_reserve(w, size);
    if (room) {
        memcpy(room, data, size);
    }
    return w->error;
}

static uint64_t size_field(lua_State *L, const char *name, lua_Integer otherwise) {
    int integer = 1;
    lua_Integer value = otherwise;
    if (lua_getfield(L, 2, name) != LUA_TNIL) {
        value = lua_tointegerx(L, -1, &integer);
    }
    if (!integer || value < 0) {
        luaL_error(L, "generate: '%s' is not a whole number from 0", name);
    }
    lua_pop(L, 1);
    return (uint64_t)value;
}

struct parts {
    struct tide_writer writers[GENERATED_MOST];
    int count;
};

/* In a protected call: an array of the parts as strings. */
static int push_parts(lua_State *L) {
    const struct parts *parts = lua_touserdata(L, 1);
    lua_createtable(L, parts->count, 0);
    for (int i = 0; i < parts->count; i++) {
        const struct tide_writer *w = &parts->writers[i];
        lua_pushlstring(L, w->size > 0 ? (const char *)w->data : "", w->size);
        lua_rawseti(L, -2, i + 1);
    }
    return 1;
}

enum { MATRIX, GRAPH, TEXT, SPARSE, TOPICS };

/* core.generate(kind, sizes): {train, test} of "mf" and "sparse", {train, valid, test} of "kge",
 * {text} of "text". */
static int core_generate(lua_State *L) {
    static const char *const kinds[] = {"mf", "kge", "text", "sparse", "lda", NULL};
    int kind = luaL_checkoption(L, 1, NULL, kinds), status = LUA_OK;
    lua_settop(L, 2);
    luaL_checktype(L, 2, LUA_TTABLE);
    uint64_t seed = size_field(L, "seed", 1), train = size_field(L, "train", 0);
    uint64_t test = size_field(L, "test", 0), rank = size_field(L, "rank", 10);
    luaL_argcheck(L, rank <= 1 << 20, 2, "rank is at most 2^20");
    const struct tide_matrix_input matrix = {.rows = size_field(L, "rows", 0),
                                             .columns = size_field(L, "columns", 0),
                                             .train = train,
                                             .test = test,
                                             .rank = (uint32_t)rank,
                                             .seed = seed};
    const struct tide_graph_input graph = {.entities = size_field(L, "entities", 0),
                                           .relations = size_field(L, "relations", 0),
                                           .train = train,
                                           .valid = size_field(L, "valid", 0),
                                           .test = test,
                                           .seed = seed};
    const struct tide_text_input text = {.vocabulary = size_field(L, "vocabulary", 0),
                                         .words = size_field(L, "words", 0),
                                         .sentence = size_field(L, "sentence", 20),
                                         .seed = seed};
    const struct tide_sparse_input sparse = {.train = train,
                                             .test = test,
                                             .columns = size_field(L, "columns", 0),
                                             .nonzeros = size_field(L, "nonzeros", 0),
                                             .classes = size_field(L, "classes", 0),
                                             .seed = seed};
    const struct tide_topics_input topics = {.vocabulary = size_field(L, "vocabulary", 0),
                                             .topics = size_field(L, "topics", 0),
                                             .documents = size_field(L, "documents", 0),
                                             .length = size_field(L, "length", 0),
                                             .words_mass = (double)size_field(L, "words_mass", 0),
                                             .topics_mass = (double)size_field(L, "topics_mass", 0),
                                             .seed = seed};
    struct parts parts = {.count = kind == GRAPH ? 3 : kind == TEXT || kind == TOPICS ? 1 : 2};
    struct tide_sink sinks[GENERATED_MOST];
    for (int i = 0; i < GENERATED_MOST; i++) {
        tide_writer_init(&parts.writers[i], NULL, 0);
        sinks[i] = (struct tide_sink){&parts.writers[i], keep};
    }
    int code = kind == MATRIX   ? tide_generate_matrix(&matrix, sinks[0], sinks[1])
               : kind == GRAPH  ? tide_generate_graph(&graph, sinks[0], sinks[1], sinks[2])
               : kind == TEXT   ? tide_generate_text(&text, sinks[0])
               : kind == TOPICS ? tide_generate_topics(&topics, sinks[0])
                                : tide_generate_sparse(&sparse, sinks[0], sinks[1]);
    if (code == 0) {
        lua_pushcfunction(L, push_parts);
        lua_pushlightuserdata(L, &parts);
        status = lua_pcall(L, 1, 1, 0);
    }
    for (int i = 0; i < GENERATED_MOST; i++) {
        tide_writer_release(&parts.writers[i]);
    }
    if (code < 0) {
        return tide__lua_failure(L, code);
    }
    return status == LUA_OK ? 1 : lua_error(L);
}

void tide__lua_open_matrix(lua_State *L) {
    static const luaL_Reg functions[] = {{"matrix", core_matrix},
                                         {"matrix_blocks", core_matrix_blocks},
                                         {"matrix_groups", core_matrix_groups},
                                         {"generate", core_generate},
                                         {NULL, NULL}};
    luaL_setfuncs(L, functions, 0);
}
