/* core.idx(path): a file in MNIST's format, packed by gzip or not, as a tensor. */
#include "sources.h"

#include "readers/idx.h"

#include <string.h>

/* Bytes 0..255 as f32 0..1, one example a row; of rank 1 as i32 labels. The file's memory is freed
 * before anything that raises, but the tensor's making, which is therefore done protected. */
struct conversion {
    const struct tide_idx *idx;
};

static int make_tensor(lua_State *L) {
    const struct tide_idx *idx = ((const struct conversion *)lua_touserdata(L, 1))->idx;
    size_t rows = idx->dims[0], columns = rows ? idx->count / rows : 0;
    if (idx->rank == 1) {
        int32_t *labels = tide__lua_tensor_new(L, TIDE_I32, rows, 1)->t.data;
        for (size_t i = 0; i < idx->count; i++) {
            labels[i] = idx->bytes[i];
        }
        return 1;
    }
    float *pixels = tide__lua_tensor_new(L, TIDE_F32, rows, columns)->t.data;
    for (size_t i = 0; i < idx->count; i++) {
        pixels[i] = (float)idx->bytes[i] * (1.0f / 255.0f);
    }
    return 1;
}

int tide__lua_idx(lua_State *L) {
    const char *path = luaL_checkstring(L, 1);
    char *file = NULL;
    size_t size = 0;
    struct tide_idx idx = {0};
    struct conversion conversion = {&idx};
    int code = tide__lua_content_read(tide__lua_host(L)->port, path, &file, &size);
    if (code == 0) {
        code = tide_idx_parse(file, size, &idx);
    }
    if (code != 0) {
        tide_free(file);
        return tide__lua_failure(L, tide__lua_named(path, code));
    }
    lua_pushcfunction(L, make_tensor);
    lua_pushlightuserdata(L, &conversion);
    int status = lua_pcall(L, 1, 1, 0);
    tide_free(file);
    if (status != LUA_OK) {
        return lua_error(L);
    }
    lua_createtable(L, idx.rank, 0);
    for (int i = 0; i < idx.rank; i++) {
        lua_pushinteger(L, idx.dims[i]);
        lua_rawseti(L, -2, i + 1);
    }
    return 2;
}
