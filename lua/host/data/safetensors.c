/*
 * Tensors of a file by name, in the format of Hugging Face's safetensors: core.safetensors_read and
 * core.safetensors_write. A file is read and written whole.
 */
#include "arrays.h"
#include "sources.h"

#include <stdlib.h>
#include <string.h>

enum { TENSORS_MAX = 1024, PAIRS_MAX = 256 };

static const struct {
    int type;
    enum tide_dtype dtype;
} types[] = {{TIDE_F32, TIDE_DTYPE_F32}, {TIDE_F64, TIDE_DTYPE_F64}, {TIDE_I32, TIDE_DTYPE_I32},
             {TIDE_I64, TIDE_DTYPE_I64}, {TIDE_U64, TIDE_DTYPE_U64}, {TIDE_U8, TIDE_DTYPE_U8},
             {TIDE_U32, TIDE_DTYPE_U32}, {TIDE_U16, TIDE_DTYPE_U16}};

/* ---- writing ---- */

struct writing {
    struct tide_safetensor tensors[TENSORS_MAX];
    const struct tide_lua_tensor *from[TENSORS_MAX];
    struct tide_safetensors_pair pairs[PAIRS_MAX];
    size_t count, pair_count;
    struct tide_port *port;
    struct tide_writer head;
};

static enum tide_dtype dtype_of(int type) {
    for (size_t i = 0; i < TIDE_COUNT(types); i++) {
        if (types[i].type == type) {
            return types[i].dtype;
        }
    }
    return TIDE_DTYPE_COUNT;
}

static int by_name(const void *a, const void *b) {
    const struct tide_safetensor *x = a, *y = b;
    return strcmp(x->name, y->name);
}

/* The tables at 2 and 3; their strings stay where they are. */
static void read_arguments(lua_State *L, struct writing *w) {
    luaL_checktype(L, 2, LUA_TTABLE);
    lua_pushnil(L);
    while (lua_next(L, 2)) {
        const bool fits = lua_type(L, -2) == LUA_TSTRING && tide__lua_tensor_at(L, -1);
        luaL_argcheck(L, fits && w->count < TENSORS_MAX, 2, "at most 1024 tensors by name");
        const struct tide_lua_tensor *tensor = tide__lua_tensor_at(L, -1);
        w->tensors[w->count++] = (struct tide_safetensor){.name = lua_tostring(L, -2),
                                                          .shape = {tensor->t.rows, tensor->t.columns},
                                                          .dtype = (uint8_t)dtype_of(tensor->t.type),
                                                          .rank = tensor->t.columns == 1 ? 1 : 2};
        lua_pop(L, 1);
    }
    qsort(w->tensors, w->count, sizeof w->tensors[0], by_name);
    for (size_t i = 0; i < w->count; i++) {
        lua_getfield(L, 2, w->tensors[i].name);
        w->from[i] = tide__lua_tensor_at(L, -1);
        lua_pop(L, 1);
    }
    if (lua_isnoneornil(L, 3)) {
        return;
    }
    luaL_checktype(L, 3, LUA_TTABLE);
    lua_pushnil(L);
    while (lua_next(L, 3)) {
        const bool fits = lua_type(L, -2) == LUA_TSTRING && lua_type(L, -1) == LUA_TSTRING;
        luaL_argcheck(L, fits && w->pair_count < PAIRS_MAX, 3, "at most 256 strings by name");
        w->pairs[w->pair_count++] = (struct tide_safetensors_pair){lua_tostring(L, -2), lua_tostring(L, -1)};
        lua_pop(L, 1);
    }
}

static int fill_file(struct tide_file *file, void *arg) {
    struct writing *w = arg;
    const struct tide_port_ops *ops = w->port->ops;
    int code = ops->file_write(file, w->head.data, w->head.size, 0);
    for (size_t i = 0; i < w->count && code == 0; i++) {
        const struct tide_lua_tensor *tensor = w->from[i];
        code = ops->file_write(file, tensor->t.data, tide__lua_tensor_count(tensor) * tensor->element,
                               w->head.size + w->tensors[i].begin);
    }
    return code;
}

/* path, tensors by name, strings by name -> true | nil, err; the file is whole or not there */
static int core_safetensors_write(lua_State *L) {
    const char *path = luaL_checkstring(L, 1);
    lua_settop(L, 3);
    struct writing *w = lua_newuserdatauv(L, sizeof *w, 0);
    w->port = tide__lua_host(L)->port;
    w->count = w->pair_count = 0;
    read_arguments(L, w);
    struct tide_file_parts parts = {.fill = fill_file, .arg = w};
    tide_writer_init(&w->head, NULL, 0);
    int code = tide_safetensors_header(w->tensors, w->count, w->pairs, w->pair_count, &w->head, NULL);
    code = code ? code : tide__lua_file_begin(L, path, &parts);
    tide_writer_release(&w->head);
    code = code ? code : tide__lua_file_end(L, &parts);
    if (code < 0) {
        return tide__lua_failure(L, code);
    }
    lua_pushboolean(L, true);
    return 1;
}

/* ---- reading ---- */

struct reading {
    char *data;
    size_t size;
    struct tide_safetensors s;
    const char *path;
};

static int push_tensors(lua_State *L) {
    const struct reading *r = lua_touserdata(L, 1);
    lua_createtable(L, 0, (int)r->s.count);
    lua_newtable(L); /* 3: why a tensor was left out */
    for (size_t i = 0; i < r->s.count; i++) {
        const struct tide_safetensor *t = &r->s.tensors[i];
        const bool left_out =
            tide__lua_array(L, (enum tide_dtype)t->dtype, t->shape, t->rank, false, r->data + r->s.data + t->begin) < 0;
        if (left_out) {
            lua_pushstring(L, tide_error_message());
        }
        lua_setfield(L, left_out ? 3 : 2, t->name);
    }
    lua_createtable(L, 0, (int)r->s.metadata_count);
    for (size_t i = 0; i < r->s.metadata_count; i++) {
        lua_pushstring(L, r->s.metadata[i].value);
        lua_setfield(L, -2, r->s.metadata[i].key);
    }
    lua_createtable(L, 0, (int)r->s.count);
    for (size_t i = 0; i < r->s.count; i++) {
        tide__lua_dims(L, r->s.tensors[i].shape, r->s.tensors[i].rank);
        lua_setfield(L, -2, r->s.tensors[i].name);
    }
    lua_pushvalue(L, 3);
    lua_remove(L, 3);
    return 4;
}

/* path -> tensors by name, strings by name, dims by name, why some are left out by name | nil, err */
static int core_safetensors_read(lua_State *L) {
    struct reading r = {.path = luaL_checkstring(L, 1)};
    size_t header = 0;
    int status = LUA_OK, code = tide__lua_content_read(tide__lua_host(L)->port, r.path, &r.data, &r.size);
    if (code < 0) {
        return tide__lua_failure(L, code);
    }
    code = r.size < TIDE_SAFETENSORS_PREFIX ? tide_fail(TIDE_EPROTO, "a file of %zu bytes is no safetensors", r.size)
                                            : tide_safetensors_header_size((const uint8_t *)r.data, r.size, &header);
    code = code ? code : tide_safetensors_parse(r.data + TIDE_SAFETENSORS_PREFIX, header, r.size, &r.s);
    if (code == 0) {
        lua_pushcfunction(L, push_tensors);
        lua_pushlightuserdata(L, &r);
        status = lua_pcall(L, 1, 4, 0);
    }
    tide_safetensors_release(&r.s);
    tide_free(r.data);
    if (code < 0) {
        return tide__lua_failure(L, tide__lua_named(r.path, code));
    }
    return status == LUA_OK ? 4 : lua_error(L);
}

void tide__lua_open_safetensors(lua_State *L) {
    static const luaL_Reg functions[] = {
        {"safetensors_read", core_safetensors_read}, {"safetensors_write", core_safetensors_write}, {NULL, NULL}};
    luaL_setfuncs(L, functions, 0);
}
