/*
 * core.npy(path), core.npz(path), core.csv(path, options): arrays and tables that other programs wrote, as tensors.
 * A file is read whole, packed by gzip or not; CSV piece by piece.
 */
#include "arrays.h"
#include "sources.h"

#include "readers/csv.h"
#include "readers/npy.h"
#include "wire/wire.h"

#include <math.h>
#include <string.h>

void tide__lua_dims(lua_State *L, const uint64_t *dims, size_t rank) {
    lua_createtable(L, (int)rank, 0);
    for (size_t i = 0; i < rank; i++) {
        lua_pushinteger(L, (lua_Integer)dims[i]);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
}

static int type_of(enum tide_dtype dtype) {
    switch (dtype) {
    case TIDE_DTYPE_F16:
    case TIDE_DTYPE_BF16:
    case TIDE_DTYPE_F32:
        return TIDE_F32;
    case TIDE_DTYPE_F64:
        return TIDE_F64;
    case TIDE_DTYPE_I8:
    case TIDE_DTYPE_I16:
    case TIDE_DTYPE_I32:
        return TIDE_I32;
    case TIDE_DTYPE_I64:
        return TIDE_I64;
    case TIDE_DTYPE_U64:
        return TIDE_U64;
    case TIDE_DTYPE_U32:
        return TIDE_U32;
    case TIDE_DTYPE_U16:
        return TIDE_U16;
    case TIDE_DTYPE_BOOL:
    case TIDE_DTYPE_U8:
        return TIDE_U8;
    case TIDE_DTYPE_F8_E5M2:
    case TIDE_DTYPE_F8_E4M3:
    case TIDE_DTYPE_COUNT:
        break;
    }
    return -1;
}

static void copy_elements(enum tide_dtype dtype, const void *from, void *to, size_t count) {
    const int8_t *bytes = from;
    int32_t *wide = to;
    if (dtype == TIDE_DTYPE_I8) {
        for (size_t i = 0; i < count; i++) {
            wide[i] = bytes[i];
        }
    } else if (dtype == TIDE_DTYPE_I16) {
        for (size_t i = 0; i < count; i++) {
            int16_t v;
            memcpy(&v, bytes + 2 * i, sizeof v);
            wide[i] = v;
        }
    } else if (dtype == TIDE_DTYPE_F16 || dtype == TIDE_DTYPE_BF16) {
        float *floats = to;
        for (size_t i = 0; i < count; i++) {
            uint16_t half;
            memcpy(&half, bytes + 2 * i, sizeof half);
            tide__half_to_floats(&half, &floats[i], 1, dtype == TIDE_DTYPE_F16 ? TIDE_WIRE_F16 : TIDE_WIRE_BF16);
        }
    } else {
        memcpy(to, from, count * tide_dtype_size(dtype));
    }
}

/* Elements that lie with the first dim fastest, into row-major order. */
static void copy_fortran(enum tide_dtype dtype, const uint64_t *dims, size_t rank, const char *from, void *to,
                         size_t count, size_t wide) {
    const size_t element = tide_dtype_size(dtype);
    for (size_t i = 0; i < count; i++) { /* i: place in row-major order */
        size_t left = i, at = 0, stride = 1;
        size_t index[TIDE_NPY_RANK_MAX];
        for (size_t d = rank; d-- > 0;) {
            index[d] = left % (size_t)dims[d];
            left /= (size_t)dims[d];
        }
        for (size_t d = 0; d < rank; d++) {
            at += index[d] * stride;
            stride *= (size_t)dims[d];
        }
        copy_elements(dtype, from + at * element, (char *)to + i * wide, 1);
    }
}

int tide__lua_array(lua_State *L, enum tide_dtype dtype, const uint64_t *dims, size_t rank, bool fortran,
                    const void *bytes) {
    const int type = type_of(dtype);
    if (type < 0) {
        return tide_fail(TIDE_EUNSUPPORTED, "its elements are %s, which are not read", tide_dtype_name(dtype));
    }
    const size_t rows = rank > 0 ? (size_t)dims[0] : 1;
    size_t columns = 1;
    for (size_t i = 1; i < rank; i++) {
        columns *= (size_t)dims[i]; /* the product of all was checked when the file was parsed */
    }
    struct tide_lua_tensor *tensor = tide__lua_tensor_new(L, type, rows, columns);
    const size_t count = tide__lua_tensor_count(tensor);
    if (fortran && rank > 1) {
        copy_fortran(dtype, dims, rank, bytes, tensor->t.data, count, tensor->element);
    } else {
        copy_elements(dtype, bytes, tensor->t.data, count);
    }
    return 0;
}

/* ---- npy, npz ---- */

static const enum tide_dtype dtypes[TIDE_NPY_TYPES] = {
    [TIDE_NPY_BOOL] = TIDE_DTYPE_BOOL, [TIDE_NPY_U8] = TIDE_DTYPE_U8,   [TIDE_NPY_I8] = TIDE_DTYPE_I8,
    [TIDE_NPY_U16] = TIDE_DTYPE_U16,   [TIDE_NPY_I16] = TIDE_DTYPE_I16, [TIDE_NPY_F16] = TIDE_DTYPE_F16,
    [TIDE_NPY_U32] = TIDE_DTYPE_U32,   [TIDE_NPY_I32] = TIDE_DTYPE_I32, [TIDE_NPY_F32] = TIDE_DTYPE_F32,
    [TIDE_NPY_U64] = TIDE_DTYPE_U64,   [TIDE_NPY_I64] = TIDE_DTYPE_I64, [TIDE_NPY_F64] = TIDE_DTYPE_F64};

struct arrays {
    const char *path;
    char *data;     /* of the file */
    uint8_t *owned; /* of the member that is being read */
    size_t size, limit;
    int code;
};

static int push_npy(lua_State *L, const void *bytes, size_t size) {
    struct tide_npy npy;
    int code = tide_npy_parse(bytes, size, &npy);
    code = code ? code : tide__lua_array(L, dtypes[npy.type], npy.dims, npy.rank, npy.fortran, npy.bytes);
    if (code == 0) {
        tide__lua_dims(L, npy.dims, npy.rank);
    }
    return code;
}

/* Called protected: what it raises leaves the memory to its caller. */
static int read_npy(lua_State *L) {
    struct arrays *a = lua_touserdata(L, 1);
    a->code = push_npy(L, a->data, a->size);
    return a->code == 0 ? 2 : 0;
}

static int read_npz(lua_State *L) {
    struct arrays *a = lua_touserdata(L, 1);
    struct tide_zip zip;
    struct tide_zip_member m;
    lua_newtable(L); /* 2: tensors */
    lua_newtable(L); /* 3: dims */
    lua_newtable(L); /* 4: why an array was left out */
    a->code = tide_zip_open(a->data, a->size, &zip);
    while (a->code == 0) {
        const uint8_t *bytes = NULL;
        const int more = tide_zip_next(&zip, &m);
        if (more <= 0) {
            a->code = more;
            break;
        }
        size_t length = m.name_size;
        if (length < 5 || memcmp(m.name + length - 4, ".npy", 4) != 0) {
            continue;
        }
        length -= 4;
        a->code = tide_zip_unpack(&m, a->limit, &a->owned, &bytes);
        if (a->code < 0) {
            break;
        }
        a->code = push_npy(L, bytes, m.size);
        tide_free(a->owned);
        a->owned = NULL;
        if (a->code == TIDE_EUNSUPPORTED) { /* of objects, or of texts: the others can be read all the same */
            a->code = 0;
            lua_pushlstring(L, m.name, length);
            lua_pushstring(L, tide_error_message());
            lua_settable(L, 4);
            continue;
        }
        if (a->code < 0) {
            (void)tide__lua_named(lua_pushlstring(L, m.name, length), a->code);
            break;
        }
        lua_pushlstring(L, m.name, length);
        lua_insert(L, -2);
        lua_settable(L, 3);
        lua_pushlstring(L, m.name, length);
        lua_insert(L, -2);
        lua_settable(L, 2);
    }
    return a->code == 0 ? 3 : 0;
}

static int read_arrays(lua_State *L, lua_CFunction reader) {
    struct tide_port *port = tide__lua_host(L)->port;
    const uint64_t memory = port->ops->memory_total(port);
    struct arrays a = {.path = luaL_checkstring(L, 1), .limit = memory > 0 ? (size_t)memory : SIZE_MAX / 2};
    int status = LUA_OK;
    a.code = tide__lua_content_read(port, a.path, &a.data, &a.size);
    if (a.code < 0) {
        return tide__lua_failure(L, a.code);
    }
    lua_pushcfunction(L, reader);
    lua_pushlightuserdata(L, &a);
    status = lua_pcall(L, 1, 3, 0);
    tide_free(a.owned);
    tide_free(a.data);
    if (status != LUA_OK) {
        return lua_error(L);
    }
    return a.code == 0 ? 3
                       : tide__lua_failure(L, tide__lua_named(a.path, a.code == TIDE_EINVAL ? TIDE_EPROTO : a.code));
}

/* path -> tensor, dims | nil, err */
static int core_npy(lua_State *L) {
    return read_arrays(L, read_npy);
}

/* path -> {name = tensor}, {name = dims}, {name = why it is left out} | nil, err */
static int core_npz(lua_State *L) {
    return read_arrays(L, read_npz);
}

/* text -> its CRC-32, as zip archives keep it */
static int core_zip_sum(lua_State *L) {
    size_t size;
    const char *text = luaL_checklstring(L, 1, &size);
    lua_pushinteger(L, (lua_Integer)tide_zip_sum(text, size));
    return 1;
}

/* ---- csv ---- */

static const char *const csv_types[] = {"auto", "number", "integer", "class", "text", "skip", NULL};

struct csv_reading {
    struct tide_csv *csv;
    struct tide_csv_options options;
};

/* {separator =, decimal =, header =, missing =, columns = {name = type}, others =} at 2, checked by tide.data.csv */
static void csv_options(lua_State *L, struct tide_csv_options *o) {
    typedef struct {
        const char *name;
        enum tide_csv_type type;
    } declared;
    lua_getfield(L, 2, "separator");
    o->separator = lua_isstring(L, -1) ? *lua_tostring(L, -1) : '\0';
    lua_getfield(L, 2, "decimal");
    o->decimal = lua_isstring(L, -1) ? *lua_tostring(L, -1) : '\0';
    lua_getfield(L, 2, "header");
    o->header = lua_isnil(L, -1)       ? TIDE_CSV_HEADER_ASK
                : lua_toboolean(L, -1) ? TIDE_CSV_HEADER_YES
                                       : TIDE_CSV_HEADER_NO;
    lua_getfield(L, 2, "missing");
    o->has_missing = lua_isnumber(L, -1);
    o->missing = lua_tonumber(L, -1);
    lua_getfield(L, 2, "others");
    o->others = (enum tide_csv_type)luaL_checkoption(L, -1, "auto", csv_types);
    lua_pop(L, 5);
    lua_getfield(L, 2, "columns"); /* stays: the names are its */
    size_t count = 0;
    if (lua_istable(L, -1)) {
        for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
            count++;
        }
    }
    declared *list = lua_newuserdatauv(L, (count + 1) * sizeof *list, 0);
    size_t i = 0;
    if (count > 0) {
        for (lua_pushnil(L); lua_next(L, -3); lua_pop(L, 1)) {
            luaL_argcheck(L, lua_type(L, -2) == LUA_TSTRING, 2, "columns are {name = type}");
            list[i].type = (enum tide_csv_type)luaL_checkoption(L, -1, NULL, csv_types);
            list[i++].name = lua_tostring(L, -2);
        }
    }
    o->declared = (const void *)list;
    o->declared_count = count;
}

static int push_columns(lua_State *L) {
    const struct csv_reading *r = lua_touserdata(L, 1);
    size_t count;
    const size_t rows = tide_csv_rows(r->csv);
    const struct tide_csv_column *columns = tide_csv_columns(r->csv, &count);
    static const int types[TIDE_CSV_TYPES] = {
        [TIDE_CSV_NUMBER] = TIDE_F64, [TIDE_CSV_INTEGER] = TIDE_I64, [TIDE_CSV_CLASS] = TIDE_U32};
    lua_createtable(L, (int)count, 0);
    for (size_t i = 0, kept = 0; i < count; i++) {
        const struct tide_csv_column *c = &columns[i];
        const enum tide_csv_type type = c->type == TIDE_CSV_UNKNOWN ? TIDE_CSV_NUMBER : c->type; /* without rows */
        if (type == TIDE_CSV_SKIP) {
            continue;
        }
        lua_createtable(L, 0, 4);
        lua_pushstring(L, c->name);
        lua_setfield(L, -2, "name");
        lua_pushstring(L, csv_types[type]);
        lua_setfield(L, -2, "type");
        if (type == TIDE_CSV_TEXT) {
            const struct tide_names texts = {.pool = c->pool, .offsets = c->offsets, .count = rows};
            tide__lua_push_names(L, &texts);
        } else {
            struct tide_lua_tensor *tensor = tide__lua_tensor_new(L, types[type], rows, 1);
            if (rows > 0) {
                memcpy(tensor->t.data, c->values, rows * tensor->element);
            }
        }
        lua_setfield(L, -2, "values");
        tide__lua_set_integer(L, "absent", c->absent);
        tide__lua_set_integer(L, "not_finite", c->not_finite);
        if (type == TIDE_CSV_CLASS) {
            tide__lua_push_names(L, &c->classes.names);
            lua_setfield(L, -2, "classes");
        }
        lua_rawseti(L, -2, (lua_Integer)++kept);
    }
    lua_createtable(L, 0, 3);
    const struct tide_csv_form form = tide_csv_form(r->csv);
    lua_pushlstring(L, &form.separator, 1);
    lua_setfield(L, -2, "separator");
    tide__lua_set_integer(L, "blank_lines", form.blank_lines);
    tide__lua_set_integer(L, "rows", rows);
    return 2;
}

static int feed_csv(void *csv, const char *data, size_t size) {
    return tide_csv_feed(csv, data, size);
}

/* path, options -> columns {name =, type =, values = tensor or texts, classes =, absent =, not_finite =}, {rows =,
 * separator =, blank_lines =} | nil, err */
static int core_csv(lua_State *L) {
    struct csv_reading r = {.options = {.name = luaL_checkstring(L, 1)}};
    luaL_checktype(L, 2, LUA_TTABLE);
    lua_settop(L, 2);
    csv_options(L, &r.options);
    int status = LUA_OK, code = tide_csv_create(&r.options, &r.csv);
    code = code ? code : tide__lua_sources_stream(L, r.options.name, (struct tide_sink){r.csv, feed_csv});
    code = code ? code : tide_csv_end(r.csv);
    if (code == 0) {
        lua_pushcfunction(L, push_columns);
        lua_pushlightuserdata(L, &r);
        status = lua_pcall(L, 1, 2, 0);
    }
    tide_csv_destroy(r.csv);
    if (code < 0) {
        return tide__lua_failure(L, code);
    }
    return status == LUA_OK ? 2 : lua_error(L);
}

void tide__lua_open_arrays(lua_State *L) {
    static const luaL_Reg functions[] = {
        {"npy", core_npy}, {"npz", core_npz}, {"zip_sum", core_zip_sum}, {"csv", core_csv}, {NULL, NULL}};
    luaL_setfuncs(L, functions, 0);
}
