/*
 * LibSVM files for Lua: read by blocks, packed by gzip or not, or from strings; and what scripts do
 * with sparse rows: another order, dense rows. The result is tensors; what the reader gave is freed
 * before Lua can raise.
 */
#include "sources.h"

#include "readers/libsvm.h"

#include <string.h>

/* ---- reading ---- */

struct libsvm_reading {
    struct tide_libsvm data;
    float *classes; /* NULL: labels are numbers */
    size_t class_count;
};

static int feed(void *reader, const char *data, size_t size) {
    return tide_libsvm_feed(reader, data, size);
}

static int read_file(lua_State *L, struct tide_libsvm_reader *reader, const char *path) {
    int code = tide_libsvm_begin(reader, path);
    code = code ? code : tide__lua_sources_stream(L, path, (struct tide_sink){reader, feed});
    return code ? code : tide_libsvm_end(reader);
}

static int read_text(lua_State *L, struct tide_libsvm_reader *reader) {
    int source = lua_gettop(L);
    size_t size;
    lua_getfield(L, source, "name");
    lua_getfield(L, source, "text"); /* both stay on the stack while the reader uses them */
    const char *name = lua_tostring(L, -2), *text = lua_tolstring(L, -1, &size);
    int code = tide_libsvm_begin(reader, name);
    code = code ? code : tide_libsvm_feed(reader, text, size);
    return code ? code : tide_libsvm_end(reader);
}

static int read_all(lua_State *L, struct tide_libsvm_options options, bool classes, struct libsvm_reading *reading) {
    struct tide_libsvm_reader *reader = NULL;
    size_t count = lua_rawlen(L, 1);
    int code = tide_libsvm_open(options, &reader);
    for (size_t i = 1; i <= count && code == 0; i++) {
        bool path = lua_rawgeti(L, 1, (lua_Integer)i) == LUA_TSTRING;
        code = path ? read_file(L, reader, lua_tostring(L, -1)) : read_text(L, reader);
    }
    code = code ? code : tide_libsvm_finish(reader, &reading->data);
    tide_libsvm_close(reader);
    if (code == 0 && classes) {
        code = tide_libsvm_classes(&reading->data, &reading->classes, &reading->class_count);
    }
    return code;
}

/* Moves an array into a tensor of its own, so that both are never there for all parts at once. */
static void push_array(lua_State *L, const char *field, int type, size_t count, void *array_pointer, size_t element) {
    void **array = array_pointer;
    struct tide_lua_tensor *tensor = tide__lua_tensor_new(L, type, count, 1);
    if (count > 0) {
        memcpy(tensor->t.data, *array, count * element);
    }
    tide_free(*array);
    *array = NULL;
    lua_setfield(L, -2, field);
}

static void push_classes(lua_State *L, const struct libsvm_reading *reading, size_t part) {
    size_t rows = reading->data.parts[part].rows;
    int32_t *labels = tide__lua_tensor_new(L, TIDE_I32, rows, 1)->t.data;
    for (size_t i = 0; i < rows; i++) {
        labels[i] = (int32_t)tide_libsvm_class(reading->classes, reading->class_count, reading->data.labels[part][i]);
    }
    lua_setfield(L, -2, "labels");
}

/* In a protected call: the result table of a struct libsvm_reading at light userdata 1. */
static int push_libsvm(lua_State *L) {
    struct libsvm_reading *reading = lua_touserdata(L, 1);
    struct tide_libsvm *data = &reading->data;
    lua_createtable(L, 0, 5);
    lua_createtable(L, TIDE_LIBSVM_PARTS, 0);
    for (size_t i = 0; i < TIDE_LIBSVM_PARTS && data->parts[i].rows > 0; i++) {
        struct tide_sparse *part = &data->parts[i];
        size_t entries = part->offsets[part->rows];
        lua_createtable(L, 0, 4);
        push_array(L, "indices", TIDE_U32, entries, &part->indices, sizeof *part->indices);
        push_array(L, "values", TIDE_F32, entries, &part->values, sizeof *part->values);
        push_array(L, "offsets", TIDE_U64, part->rows + 1, &part->offsets, sizeof *part->offsets);
        if (reading->classes) {
            push_classes(L, reading, i);
        } else {
            push_array(L, "labels", TIDE_F32, part->rows, &data->labels[i], sizeof(float));
        }
        if (data->tasks[i]) {
            push_array(L, "tasks", TIDE_U32, part->rows, &data->tasks[i], sizeof(uint32_t));
        }
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    lua_setfield(L, -2, "parts");
    if (reading->classes) {
        push_array(L, "classes", TIDE_F32, reading->class_count, &reading->classes, sizeof(float));
    }
    lua_pushinteger(L, data->columns);
    lua_setfield(L, -2, "columns");
    lua_pushinteger(L, data->base);
    lua_setfield(L, -2, "base");
    tide__lua_set_integer(L, "queries", data->queries);
    return 1;
}

static struct tide_libsvm_options read_options(lua_State *L, int index, bool *classes) {
    struct tide_libsvm_options o = {.base = TIDE_LIBSVM_BASE_AUTO};
    static const char *const kinds[] = {"number", "class", NULL};
    luaL_checktype(L, index, LUA_TTABLE);
    lua_getfield(L, index, "labels");
    *classes = o.classes = luaL_checkoption(L, -1, "number", kinds) == 1;
    lua_getfield(L, index, "base");
    lua_Integer base = luaL_optinteger(L, -1, TIDE_LIBSVM_BASE_AUTO);
    luaL_argcheck(L, base >= TIDE_LIBSVM_BASE_AUTO && base <= 1, index, "base is 0 or 1");
    lua_getfield(L, index, "columns");
    lua_Integer columns = luaL_optinteger(L, -1, 0);
    luaL_argcheck(L, columns >= 0 && columns < UINT32_MAX, index, "columns is 1 to 2^32 - 2");
    lua_getfield(L, index, "tasks");
    o.tasks = lua_toboolean(L, -1);
    o.base = (int)base;
    o.columns = (uint32_t)columns;
    lua_settop(L, index);
    return o;
}

/* core.libsvm({source[, source]}, {labels =, base =, columns =, tasks =}) */
static int core_libsvm(lua_State *L) {
    bool classes;
    lua_settop(L, 2);
    struct tide_libsvm_options options = read_options(L, 2, &classes);
    tide__lua_sources_check(L, "libsvm", "1 or 2 sources (train, test)", TIDE_LIBSVM_PARTS);
    struct libsvm_reading reading = {0};
    int status = LUA_OK, code = read_all(L, options, classes, &reading);
    if (code == 0) {
        lua_pushcfunction(L, push_libsvm);
        lua_pushlightuserdata(L, &reading);
        status = lua_pcall(L, 1, 1, 0);
    }
    tide_libsvm_release(&reading.data);
    tide_free(reading.classes);
    if (code < 0) {
        return tide__lua_failure(L, code);
    }
    return status == LUA_OK ? 1 : lua_error(L);
}

/* ---- sparse rows ---- */

static struct tide_lua_tensor *field_tensor(lua_State *L, const char *name, int type) {
    lua_getfield(L, 1, name); /* stays on the stack */
    struct tide_lua_tensor *tensor = tide__lua_tensor_check(L, lua_gettop(L));
    if (tensor->t.type != type) {
        luaL_error(L, "sparse rows: '%s' is a tensor of another type", name);
    }
    return tensor;
}

/* The rows at argument 1, checked: every entry lies in the arrays. */
static struct tide_sparse check_rows(lua_State *L) {
    luaL_checktype(L, 1, LUA_TTABLE);
    struct tide_lua_tensor *offsets = field_tensor(L, "offsets", TIDE_U64);
    struct tide_lua_tensor *indices = field_tensor(L, "indices", TIDE_U32);
    struct tide_lua_tensor *values = field_tensor(L, "values", TIDE_F32);
    size_t count = tide__lua_tensor_count(offsets), entries = tide__lua_tensor_count(values);
    const uint64_t *at = offsets->t.data;
    luaL_argcheck(L, count > 0 && tide__lua_tensor_count(indices) == entries, 1,
                  "rows + 1 offsets, an index for each value");
    for (size_t i = 0; i < count; i++) {
        luaL_argcheck(L, at[i] <= entries && (i == 0 || at[i - 1] <= at[i]), 1, "offsets that rise and stay inside");
    }
    return (struct tide_sparse){offsets->t.data, indices->t.data, values->t.data, count - 1};
}

static void shuffle_order(uint64_t *order, size_t count, uint64_t seed) {
    struct tide_random random;
    tide_random_seed(&random, seed);
    for (size_t i = 0; i < count; i++) {
        size_t j = (size_t)tide_random_below(&random, i + 1);
        order[i] = order[j];
        order[j] = i;
    }
}

/* core.sparse_shuffle(rows, seed): {offsets =, indices =, values =, order =}; row i of it is row
 * order[i] (from 0) of the argument */
static int core_sparse_shuffle(lua_State *L) {
    lua_settop(L, 2);
    uint64_t seed = (uint64_t)luaL_checkinteger(L, 2);
    struct tide_sparse from = check_rows(L);
    lua_createtable(L, 0, 4);
    uint64_t *order = tide__lua_tensor_new(L, TIDE_U64, from.rows, 1)->t.data;
    lua_setfield(L, -2, "order");
    shuffle_order(order, from.rows, seed);
    size_t entries = from.offsets[from.rows] - from.offsets[0];
    uint64_t *offsets = tide__lua_tensor_new(L, TIDE_U64, from.rows + 1, 1)->t.data;
    lua_setfield(L, -2, "offsets");
    uint32_t *indices = tide__lua_tensor_new(L, TIDE_U32, entries, 1)->t.data;
    lua_setfield(L, -2, "indices");
    float *values = tide__lua_tensor_new(L, TIDE_F32, entries, 1)->t.data;
    lua_setfield(L, -2, "values");
    for (size_t i = 0; i < from.rows; i++) {
        size_t at = from.offsets[order[i]], n = from.offsets[order[i] + 1] - at;
        offsets[i + 1] = offsets[i] + n;
        if (n > 0) {
            memcpy(indices + offsets[i], from.indices + at, n * sizeof *indices);
            memcpy(values + offsets[i], from.values + at, n * sizeof *values);
        }
    }
    return 1;
}

/* core.sparse_dense(rows, columns, first, count): f32 tensor count x columns */
static int core_sparse_dense(lua_State *L) {
    lua_settop(L, 4);
    lua_Integer columns = luaL_checkinteger(L, 2), first = luaL_checkinteger(L, 3);
    lua_Integer count = luaL_checkinteger(L, 4);
    struct tide_sparse rows = check_rows(L);
    luaL_argcheck(L, columns >= 0 && columns < UINT32_MAX, 2, "0 to 2^32 - 2 columns");
    luaL_argcheck(L,
                  first >= 1 && count >= 0 && (size_t)first - 1 <= rows.rows &&
                      (size_t)count <= rows.rows - ((size_t)first - 1),
                  3, "first and count within the rows");
    float *out = tide__lua_tensor_new(L, TIDE_F32, (size_t)count, (size_t)columns)->t.data;
    for (size_t i = 0; i < (size_t)count; i++) {
        size_t row = (size_t)first - 1 + i;
        for (uint64_t e = rows.offsets[row]; e < rows.offsets[row + 1]; e++) {
            luaL_argcheck(L, rows.indices[e] < (size_t)columns, 2, "an index beyond the columns");
            out[i * (size_t)columns + rows.indices[e]] = rows.values[e];
        }
    }
    return 1;
}

void tide__lua_open_libsvm(lua_State *L) {
    static const luaL_Reg functions[] = {{"libsvm", core_libsvm},
                                         {"sparse_shuffle", core_sparse_shuffle},
                                         {"sparse_dense", core_sparse_dense},
                                         {NULL, NULL}};
    luaL_setfuncs(L, functions, 0);
}
