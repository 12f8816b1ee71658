/*
 * Tensors in Lua: flat typed arrays, row-major, with optional columns; 1-based; every access
 * checked. The elements live in Lua's memory, so that the collector sees what they weigh. A slice
 * points into its parent and keeps it alive.
 */
#include "lua/host/host.h"
#include "tensor_math.h"

#include "readers/text.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { ALIGNMENT = 64, SHOWN_MAX = 8 };

static const char tensor_metatable; /* its address is the registry key */

static const struct {
    const char *name;
    int type;
} types[] = {{"f32", TIDE_F32}, {"f64", TIDE_F64}, {"i32", TIDE_I32}, {"i64", TIDE_I64},
             {"u64", TIDE_U64}, {"u8", TIDE_U8},   {"u32", TIDE_U32}, {"u16", TIDE_U16}};

const char *tide__lua_tensor_type_name(int type) {
    for (size_t i = 0; i < TIDE_COUNT(types); i++) {
        if (types[i].type == type) {
            return types[i].name;
        }
    }
    return "?";
}

static void set_metatable(lua_State *L) {
    lua_rawgetp(L, LUA_REGISTRYINDEX, &tensor_metatable);
    lua_setmetatable(L, -2);
}

struct tide_lua_tensor *tide__lua_tensor_new(lua_State *L, int type, size_t rows, size_t columns) {
    size_t element = tide_ext_element_size(type), count, bytes;
    if (__builtin_mul_overflow(rows, columns, &count) || __builtin_mul_overflow(count, element, &bytes) ||
        bytes > (size_t)1 << 46) {
        luaL_error(L, "tensor of %f x %f elements is too large", (double)rows, (double)columns);
        return NULL;
    }
    struct tide_lua_tensor *tensor = lua_newuserdatauv(L, sizeof *tensor + ALIGNMENT + bytes, 0);
    uintptr_t start = ((uintptr_t)(tensor + 1) + ALIGNMENT - 1) & ~(uintptr_t)(ALIGNMENT - 1);
    *tensor = (struct tide_lua_tensor){
        .t = {.data = (void *)start, .rows = rows, .columns = columns, .type = (uint8_t)type}, .element = element};
    memset(tensor->t.data, 0, bytes);
    set_metatable(L);
    return tensor;
}

void tide__lua_tensor_borrow(lua_State *L, int type, size_t rows, size_t columns, void *data, int owner) {
    lua_pushvalue(L, owner);
    struct tide_lua_tensor *tensor = lua_newuserdatauv(L, sizeof *tensor, 1);
    *tensor = (struct tide_lua_tensor){.t = {.data = data, .rows = rows, .columns = columns, .type = (uint8_t)type},
                                       .element = tide_ext_element_size(type)};
    set_metatable(L);
    lua_insert(L, -2);
    lua_setiuservalue(L, -2, 1);
}

struct tide_lua_tensor *tide__lua_tensor_at(lua_State *L, int index) {
    return tide__lua_handle_at(L, index, &tensor_metatable);
}

struct tide_lua_tensor *tide__lua_tensor_check(lua_State *L, int index) {
    struct tide_lua_tensor *tensor = tide__lua_tensor_at(L, index);
    if (!tensor) {
        luaL_typeerror(L, index, "tensor");
    }
    return tensor;
}

/* ---- elements ---- */

static void push_element(lua_State *L, const struct tide_lua_tensor *tensor, size_t i) {
    const void *data = tensor->t.data;
    switch (tensor->t.type) {
    case TIDE_F32:
        lua_pushnumber(L, (double)((const float *)data)[i]);
        break;
    case TIDE_F64:
        lua_pushnumber(L, ((const double *)data)[i]);
        break;
    case TIDE_I32:
        lua_pushinteger(L, ((const int32_t *)data)[i]);
        break;
    case TIDE_U32:
        lua_pushinteger(L, ((const uint32_t *)data)[i]);
        break;
    case TIDE_U8:
        lua_pushinteger(L, ((const uint8_t *)data)[i]);
        break;
    case TIDE_U16:
        lua_pushinteger(L, ((const uint16_t *)data)[i]);
        break;
    case TIDE_U64: {
        const uint64_t value = ((const uint64_t *)data)[i];
        if (TIDE_LIKELY(value <= INT64_MAX)) {
            lua_pushinteger(L, (lua_Integer)value);
        } else { /* Lua's integers end below: the nearest float, never a negative number */
            lua_pushnumber(L, (double)value);
        }
        break;
    }
    default:
        lua_pushinteger(L, ((const int64_t *)data)[i]);
        break;
    }
}

static lua_Integer check_integer(lua_State *L, int index, lua_Integer least, lua_Integer most) {
    int exact;
    lua_Integer value = lua_tointegerx(L, index, &exact);
    if (!exact) {
        luaL_error(L, "an integer tensor cannot hold %s", luaL_tolstring(L, index, NULL));
    }
    if (value < least || value > most) {
        luaL_error(L, "%I does not fit the tensor's type (%I..%I)", value, least, most);
    }
    return value;
}

/* Stores the Lua value at `index`; raises when it does not fit. */
static void set_element(lua_State *L, struct tide_lua_tensor *tensor, size_t i, int index) {
    void *data = tensor->t.data;
    switch (tensor->t.type) {
    case TIDE_F32:
    case TIDE_F64: {
        int number;
        double value = lua_tonumberx(L, index, &number);
        if (!number) {
            luaL_error(L, "a tensor cannot hold %s (element %I)", luaL_tolstring(L, index, NULL), (lua_Integer)i + 1);
        }
        if (tensor->t.type == TIDE_F64) {
            ((double *)data)[i] = value;
        } else if (tide_narrow_f32(value, &((float *)data)[i]) == TIDE_NARROW_BEYOND) {
            luaL_error(L, "an f32 tensor cannot hold %s (element %I)", luaL_tolstring(L, index, NULL),
                       (lua_Integer)i + 1);
        }
        break;
    }
    case TIDE_I32:
        ((int32_t *)data)[i] = (int32_t)check_integer(L, index, INT32_MIN, INT32_MAX);
        break;
    case TIDE_U32:
        ((uint32_t *)data)[i] = (uint32_t)check_integer(L, index, 0, UINT32_MAX);
        break;
    case TIDE_U8:
        ((uint8_t *)data)[i] = (uint8_t)check_integer(L, index, 0, UINT8_MAX);
        break;
    case TIDE_U16:
        ((uint16_t *)data)[i] = (uint16_t)check_integer(L, index, 0, UINT16_MAX);
        break;
    default:
        ((int64_t *)data)[i] = check_integer(L, index, tensor->t.type == TIDE_U64 ? 0 : LUA_MININTEGER, LUA_MAXINTEGER);
        break;
    }
}

static double element_number(const struct tide_lua_tensor *tensor, size_t i) {
    const void *data = tensor->t.data;
    switch (tensor->t.type) {
    case TIDE_F32:
        return (double)((const float *)data)[i];
    case TIDE_F64:
        return ((const double *)data)[i];
    case TIDE_I32:
        return ((const int32_t *)data)[i];
    case TIDE_U32:
        return ((const uint32_t *)data)[i];
    case TIDE_U8:
        return ((const uint8_t *)data)[i];
    case TIDE_U16:
        return ((const uint16_t *)data)[i];
    case TIDE_U64:
        return (double)((const uint64_t *)data)[i];
    default:
        return (double)((const int64_t *)data)[i];
    }
}

static bool is_float(const struct tide_lua_tensor *tensor) {
    return tensor->t.type == TIDE_F32 || tensor->t.type == TIDE_F64;
}

static size_t check_position(lua_State *L, const struct tide_lua_tensor *tensor, int index) {
    lua_Integer at = luaL_checkinteger(L, index);
    size_t count = tide__lua_tensor_count(tensor);
    if (at < 1 || (lua_Unsigned)at > count) {
        luaL_error(L, "index %I is outside 1..%I of a %s tensor", at, (lua_Integer)count,
                   tide__lua_tensor_type_name(tensor->t.type));
    }
    return (size_t)at - 1;
}

/* The tensor of a metamethod, whose upvalue is the address of the metatable: no look into the registry for t[i]. */
static struct tide_lua_tensor *own_tensor(lua_State *L, int upvalue) {
    struct tide_lua_tensor *tensor = lua_touserdata(L, 1);
    if (tensor && lua_type(L, 1) == LUA_TUSERDATA && lua_getmetatable(L, 1)) {
        const void *metatable = lua_topointer(L, -1);
        lua_pop(L, 1);
        if (metatable == lua_touserdata(L, lua_upvalueindex(upvalue))) {
            return tensor;
        }
    }
    return tide__lua_tensor_check(L, 1);
}

static int tensor_index(lua_State *L) {
    struct tide_lua_tensor *tensor = own_tensor(L, 2);
    if (lua_type(L, 2) == LUA_TNUMBER) {
        push_element(L, tensor, check_position(L, tensor, 2));
        return 1;
    }
    lua_settop(L, 2);
    lua_rawget(L, lua_upvalueindex(1)); /* methods */
    return 1;
}

static int tensor_newindex(lua_State *L) {
    struct tide_lua_tensor *tensor = own_tensor(L, 1);
    set_element(L, tensor, check_position(L, tensor, 2), 3);
    return 0;
}

static int tensor_len(lua_State *L) {
    lua_pushinteger(L, (lua_Integer)tide__lua_tensor_count(tide__lua_tensor_check(L, 1)));
    return 1;
}

static int tensor_next(lua_State *L) {
    struct tide_lua_tensor *tensor = tide__lua_tensor_check(L, 1);
    lua_Integer i = luaL_optinteger(L, 2, 0);
    if (i < 0 || (lua_Unsigned)i >= tide__lua_tensor_count(tensor)) {
        return 0;
    }
    lua_pushinteger(L, i + 1);
    push_element(L, tensor, (size_t)i);
    return 2;
}

static int tensor_pairs(lua_State *L) {
    (void)tide__lua_tensor_check(L, 1);
    lua_pushcfunction(L, tensor_next);
    lua_pushvalue(L, 1);
    lua_pushnil(L);
    return 3;
}

static size_t print_element(char *out, size_t size, const struct tide_lua_tensor *tensor, size_t i) {
    if (is_float(tensor)) {
        return (size_t)snprintf(out, size, "%.6g", element_number(tensor, i));
    }
    if (tensor->t.type == TIDE_U64) {
        return (size_t)snprintf(out, size, "%" PRIu64, ((const uint64_t *)tensor->t.data)[i]);
    }
    const double value = element_number(tensor, i);
    return tensor->t.type == TIDE_I64 ? (size_t)snprintf(out, size, "%" PRId64, ((const int64_t *)tensor->t.data)[i])
                                      : (size_t)snprintf(out, size, "%.0f", value);
}

/* A vector on one line; of a matrix the first rows, one a line. Fits 80 columns or nearly so. */
static int tensor_tostring(lua_State *L) {
    const struct tide_lua_tensor *tensor = tide__lua_tensor_check(L, 1);
    const size_t columns = tensor->t.columns == 1 ? tensor->t.rows : tensor->t.columns;
    const size_t rows = tensor->t.columns == 1 ? 1 : tensor->t.rows;
    const char *type = tide__lua_tensor_type_name(tensor->t.type);
    luaL_Buffer b;
    char text[64];
    luaL_buffinit(L, &b);
    (void)snprintf(text, sizeof text, tensor->t.columns == 1 ? "%s[%zu]" : "%s[%zu x %zu]", type, tensor->t.rows,
                   tensor->t.columns);
    luaL_addstring(&b, text);
    for (size_t r = 0; r < rows && r < SHOWN_MAX; r++) {
        luaL_addstring(&b, rows > 1 ? "\n  {" : " {");
        for (size_t c = 0; c < columns && c < SHOWN_MAX; c++) {
            luaL_addstring(&b, c > 0 ? ", " : "");
            luaL_addlstring(&b, text, print_element(text, sizeof text, tensor, r * tensor->t.columns * (rows > 1) + c));
        }
        luaL_addstring(&b, columns > SHOWN_MAX ? ", ...}" : "}");
    }
    luaL_addstring(&b, rows > SHOWN_MAX ? "\n  ..." : "");
    luaL_pushresult(&b);
    return 1;
}

/* ---- methods ---- */

static int tensor_rows(lua_State *L) {
    lua_pushinteger(L, (lua_Integer)tide__lua_tensor_check(L, 1)->t.rows);
    return 1;
}

static int tensor_columns(lua_State *L) {
    lua_pushinteger(L, (lua_Integer)tide__lua_tensor_check(L, 1)->t.columns);
    return 1;
}

static int tensor_type(lua_State *L) {
    lua_pushstring(L, tide__lua_tensor_type_name(tide__lua_tensor_check(L, 1)->t.type));
    return 1;
}

static int tensor_slice(lua_State *L) {
    struct tide_lua_tensor *parent = tide__lua_tensor_check(L, 1);
    lua_Integer first = luaL_checkinteger(L, 2);
    lua_Integer rows = (lua_Integer)parent->t.rows;
    lua_Integer count = luaL_optinteger(L, 3, rows - first + 1);
    if (first < 1 || count < 0 || first - 1 > rows || count > rows - (first - 1)) {
        return luaL_error(L, "slice of %I rows from row %I is outside 1..%I", count, first, rows);
    }
    struct tide_lua_tensor *slice = lua_newuserdatauv(L, sizeof *slice, 1);
    *slice = *parent;
    slice->t.data = (char *)parent->t.data + (size_t)(first - 1) * parent->t.columns * parent->element;
    slice->t.rows = (size_t)count;
    lua_pushvalue(L, 1);
    lua_setiuservalue(L, -2, 1);
    set_metatable(L);
    return 1;
}

/* t:view(first, rows, columns): elements from `first` on (1-based, across rows) as another shape,
 * shares storage */
static int tensor_view(lua_State *L) {
    struct tide_lua_tensor *parent = tide__lua_tensor_check(L, 1);
    lua_Integer first = luaL_checkinteger(L, 2), rows = luaL_checkinteger(L, 3);
    lua_Integer columns = luaL_checkinteger(L, 4), wanted;
    lua_Integer count = (lua_Integer)tide__lua_tensor_count(parent);
    if (first < 1 || rows < 0 || columns < 0 || __builtin_mul_overflow(rows, columns, &wanted) || first - 1 > count ||
        wanted > count - (first - 1)) {
        return luaL_error(L, "a view of %I x %I from element %I is outside 1..%I", rows, columns, first, count);
    }
    struct tide_lua_tensor *view = lua_newuserdatauv(L, sizeof *view, 1);
    *view = *parent;
    view->t.data = (char *)parent->t.data + (size_t)(first - 1) * parent->element;
    view->t.rows = (size_t)rows;
    view->t.columns = (size_t)columns;
    lua_pushvalue(L, 1);
    lua_setiuservalue(L, -2, 1);
    set_metatable(L);
    return 1;
}

/* core.moved(t) -> the tensor under another name; t is left without rows */
static int core_moved(lua_State *L) {
    struct tide_lua_tensor *parent = tide__lua_tensor_check(L, 1);
    struct tide_lua_tensor *moved = lua_newuserdatauv(L, sizeof *moved, 1);
    *moved = *parent;
    lua_pushvalue(L, 1);
    lua_setiuservalue(L, -2, 1);
    set_metatable(L);
    parent->t.rows = 0;
    return 1;
}

static int tensor_copy(lua_State *L) {
    const struct tide_lua_tensor *tensor = tide__lua_tensor_check(L, 1);
    struct tide_lua_tensor *copy = tide__lua_tensor_new(L, tensor->t.type, tensor->t.rows, tensor->t.columns);
    memcpy(copy->t.data, tensor->t.data, tide__lua_tensor_count(tensor) * tensor->element);
    return 1;
}

/* t:put(first, source): rows of `source` become those of t from `first` on */
static int tensor_put(lua_State *L) {
    struct tide_lua_tensor *to = tide__lua_tensor_check(L, 1);
    const lua_Integer first = luaL_checkinteger(L, 2), rows = (lua_Integer)to->t.rows;
    const struct tide_lua_tensor *from = tide__lua_tensor_check(L, 3);
    const lua_Integer count = (lua_Integer)from->t.rows;
    luaL_argcheck(L, from->t.type == to->t.type && from->t.columns == to->t.columns, 3, "has other rows");
    if (first < 1 || first - 1 > rows || count > rows - (first - 1)) {
        return luaL_error(L, "%I rows from row %I on are outside 1..%I", count, first, rows);
    }
    const size_t at = (size_t)(first - 1) * to->t.columns * to->element;
    memmove((char *)to->t.data + at, from->t.data, tide__lua_tensor_count(from) * from->element);
    lua_settop(L, 1);
    return 1;
}

/* t:pick(source, numbers): row i of t becomes the row of `source` that number i, a u32 from 0,
 * names */
static int tensor_pick(lua_State *L) {
    struct tide_lua_tensor *to = tide__lua_tensor_check(L, 1);
    const struct tide_lua_tensor *from = tide__lua_tensor_check(L, 2);
    const struct tide_lua_tensor *numbers = tide__lua_tensor_check(L, 3);
    size_t count = tide__lua_tensor_count(numbers), bytes = from->t.columns * from->element;
    luaL_argcheck(L, from->t.type == to->t.type && from->t.columns == to->t.columns, 2, "has other rows");
    luaL_argcheck(L, numbers->t.type == TIDE_U32 && count <= to->t.rows, 3, "is no u32 tensor of as many rows");
    luaL_argcheck(L, !tide__lua_tensor_overlap(from, to), 2, "is part of the tensor that changes: give a x:copy()");
    const uint32_t *number = numbers->t.data;
    for (size_t i = 0; i < count; i++) {
        luaL_argcheck(L, number[i] < from->t.rows, 3, "has a number beyond the last row");
    }
    for (size_t i = 0; i < count; i++) {
        memcpy((char *)to->t.data + i * bytes, (const char *)from->t.data + number[i] * bytes, bytes);
    }
    lua_settop(L, 1);
    return 1;
}

/* fill(value), or fill(first, step): whole numbers first, first + step, .. */
static int tensor_fill(lua_State *L) {
    struct tide_lua_tensor *tensor = tide__lua_tensor_check(L, 1);
    size_t count = tide__lua_tensor_count(tensor);
    luaL_checkany(L, 2);
    if (!lua_isnoneornil(L, 3)) {
        lua_Integer at = luaL_checkinteger(L, 2), step = luaL_checkinteger(L, 3);
        lua_settop(L, 3);
        for (size_t i = 0; i < count; i++) {
            lua_pushinteger(L, (lua_Integer)((lua_Unsigned)at + i * (lua_Unsigned)step));
            set_element(L, tensor, i, 4);
            lua_pop(L, 1);
        }
    } else if (count > 0) {
        set_element(L, tensor, 0, 2);
        char *data = tensor->t.data;
        for (size_t i = 1; i < count; i++) {
            memcpy(data + i * tensor->element, data, tensor->element);
        }
    }
    lua_settop(L, 1);
    return 1;
}

static int tensor_sum(lua_State *L) {
    const struct tide_lua_tensor *tensor = tide__lua_tensor_check(L, 1);
    size_t count = tide__lua_tensor_count(tensor);
    if (is_float(tensor)) {
        double sum = 0;
        for (size_t i = 0; i < count; i++) {
            sum += element_number(tensor, i);
        }
        lua_pushnumber(L, sum);
        return 1;
    }
    lua_Integer sum = 0;
    double large = 0; /* of a sum that Lua's integers do not hold */
    bool fits = true;
    for (size_t i = 0; i < count; i++) {
        push_element(L, tensor, i);
        fits = fits && lua_isinteger(L, -1) && !__builtin_add_overflow(sum, lua_tointeger(L, -1), &sum);
        large += lua_tonumber(L, -1);
        lua_pop(L, 1);
    }
    if (fits) {
        lua_pushinteger(L, sum);
    } else {
        lua_pushnumber(L, large);
    }
    return 1;
}

/* Pushes the least (sign 1) or greatest (sign -1) element; nil of an empty tensor; NaN only when
 * all are. */
static int extreme(lua_State *L, double sign) {
    const struct tide_lua_tensor *tensor = tide__lua_tensor_check(L, 1);
    size_t count = tide__lua_tensor_count(tensor), best = 0;
    if (count == 0) {
        lua_pushnil(L);
        return 1;
    }
    for (size_t i = 1; i < count; i++) {
        double a = element_number(tensor, i), b = element_number(tensor, best);
        best = a * sign < b * sign || isnan(b) ? i : best;
    }
    push_element(L, tensor, best);
    return 1;
}

static int tensor_min(lua_State *L) {
    return extreme(L, 1);
}

static int tensor_max(lua_State *L) {
    return extreme(L, -1);
}

static int tensor_shuffle(lua_State *L) {
    struct tide_lua_tensor *tensor = tide__lua_tensor_check(L, 1);
    struct tide_random random;
    tide_random_seed(&random, (uint64_t)luaL_checkinteger(L, 2));
    size_t bytes = tensor->t.columns * tensor->element;
    char *data = tensor->t.data, *a, *b;
    for (size_t i = tensor->t.rows; i > 1; i--) {
        a = data + (i - 1) * bytes;
        b = data + (size_t)tide_random_below(&random, i) * bytes;
        for (size_t done = 0; a != b && done < bytes;) {
            char held[64];
            size_t piece = bytes - done < sizeof held ? bytes - done : sizeof held;
            memcpy(held, a + done, piece);
            memcpy(a + done, b + done, piece);
            memcpy(b + done, held, piece);
            done += piece;
        }
    }
    lua_settop(L, 1);
    return 1;
}

#define ADD_ALL(element_type, sum_type)                                                                                \
    do {                                                                                                               \
        element_type *a = to->t.data;                                                                                  \
        const element_type *b = from->t.data;                                                                          \
        for (size_t i = 0; i < count; i++) {                                                                           \
            a[i] = (element_type)((sum_type)a[i] + (sum_type)b[i]);                                                    \
        }                                                                                                              \
    } while (0)

int tide__lua_tensor_add_integers(lua_State *L) {
    struct tide_lua_tensor *to = tide__lua_tensor_check(L, 1);
    const struct tide_lua_tensor *from = tide__lua_tensor_check(L, 2);
    const size_t count = tide__lua_tensor_count(to);
    luaL_argcheck(L, from->t.type == to->t.type && tide__lua_tensor_count(from) == count, 2,
                  "is of another type or size");
    switch (to->t.type) {
    case TIDE_F32:
        ADD_ALL(float, float);
        break;
    case TIDE_F64:
        ADD_ALL(double, double);
        break;
    case TIDE_U8:
        ADD_ALL(uint8_t, uint32_t);
        break;
    case TIDE_U16:
        ADD_ALL(uint16_t, uint32_t);
        break;
    case TIDE_I32:
    case TIDE_U32:
        ADD_ALL(uint32_t, uint32_t);
        break;
    default:
        ADD_ALL(uint64_t, uint64_t);
        break;
    }
    lua_settop(L, 1);
    return 1;
}

/* t:split(): an f64 tensor as f32 with three columns an element, whose sum in f64 is the element
 * exactly, as long as its magnitude is 0 or within f32's normal range with 53 bits to spare
 * (2^-73 .. 2^127) */
static int tensor_split(lua_State *L) {
    const struct tide_lua_tensor *from = tide__lua_tensor_check(L, 1);
    luaL_argcheck(L, from->t.type == TIDE_F64, 1, "is no f64 tensor");
    const size_t count = tide__lua_tensor_count(from);
    float *out = tide__lua_tensor_new(L, TIDE_F32, count, 3)->t.data;
    const double *in = from->t.data;
    for (size_t i = 0; i < count; i++, out += 3) {
        double rest = in[i];
        for (int part = 0; part < 3; part++) {
            out[part] = (float)rest;
            rest -= (double)out[part];
        }
        if (rest != 0) { /* NaN and infinity included */
            return luaL_error(L, "element %I, %f, has no exact form in three f32", (lua_Integer)i + 1, in[i]);
        }
    }
    return 1;
}

/* core.joined(t): what split made, as f64 again */
static int core_joined(lua_State *L) {
    const struct tide_lua_tensor *from = tide__lua_tensor_check(L, 1);
    const size_t count = tide__lua_tensor_count(from);
    luaL_argcheck(L, from->t.type == TIDE_F32 && count % 3 == 0, 1, "is no f32 tensor of three numbers an element");
    double *out = tide__lua_tensor_new(L, TIDE_F64, count / 3, 1)->t.data;
    const float *in = from->t.data;
    for (size_t i = 0; i < count / 3; i++, in += 3) {
        out[i] = ((double)in[0] + (double)in[1]) + (double)in[2];
    }
    return 1;
}

static int tensor_bytes(lua_State *L) {
    const struct tide_lua_tensor *tensor = tide__lua_tensor_check(L, 1);
    lua_pushlstring(L, tensor->t.data, tide__lua_tensor_count(tensor) * tensor->element);
    return 1;
}

static int tensor_totable(lua_State *L) {
    const struct tide_lua_tensor *tensor = tide__lua_tensor_check(L, 1);
    size_t count = tide__lua_tensor_count(tensor);
    if (count > INT32_MAX) {
        return luaL_error(L, "tensor of %I elements is too large for a Lua table", (lua_Integer)count);
    }
    lua_createtable(L, (int)count, 0);
    for (size_t i = 0; i < count; i++) {
        push_element(L, tensor, i);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    return 1;
}

/* ---- construction ---- */

int tide__lua_tensor_type_check(lua_State *L, int index) {
    const char *name = luaL_checkstring(L, index);
    for (size_t i = 0; i < TIDE_COUNT(types); i++) {
        if (strcmp(types[i].name, name) == 0) {
            return types[i].type;
        }
    }
    return luaL_error(L, "unknown tensor type \"%s\": f32, f64, i32, i64, u64, u8, u32 or u16", name);
}

static size_t check_size(lua_State *L, int index) {
    lua_Integer value = luaL_checkinteger(L, index);
    luaL_argcheck(L, value >= 0, index, "a size is not negative");
    return (size_t)value;
}

static int core_tensor(lua_State *L) {
    int type = tide__lua_tensor_type_check(L, 1);
    size_t columns = lua_isnoneornil(L, 3) ? 1 : check_size(L, 3);
    if (lua_type(L, 2) != LUA_TTABLE) {
        (void)tide__lua_tensor_new(L, type, check_size(L, 2), columns);
        return 1;
    }
    size_t count = lua_rawlen(L, 2);
    if (columns == 0 || count % columns != 0) {
        return luaL_error(L, "%I values do not fill rows of %I columns", (lua_Integer)count, (lua_Integer)columns);
    }
    struct tide_lua_tensor *tensor = tide__lua_tensor_new(L, type, count / columns, columns);
    for (size_t i = 0; i < count; i++) {
        lua_rawgeti(L, 2, (lua_Integer)i + 1);
        set_element(L, tensor, i, lua_gettop(L));
        lua_pop(L, 1);
    }
    return 1;
}

const uint64_t *tide__lua_keys(lua_State *L, int index, size_t *count) {
    index = lua_absindex(L, index);
    struct tide_lua_tensor *tensor = tide__lua_tensor_at(L, index);
    if (tensor && tensor->t.type == TIDE_U64) {
        *count = tide__lua_tensor_count(tensor);
        return tensor->t.data;
    }
    if (!tensor && lua_type(L, index) != LUA_TTABLE) {
        luaL_typeerror(L, index, "u64 tensor or array of keys");
    }
    if (tensor && is_float(tensor)) {
        luaL_error(L, "keys are integers, not a %s tensor", tide__lua_tensor_type_name(tensor->t.type));
    }
    *count = tensor ? tide__lua_tensor_count(tensor) : lua_rawlen(L, index);
    uint64_t *keys = tide__lua_tensor_new(L, TIDE_U64, *count, 1)->t.data;
    for (size_t i = 0; i < *count; i++) {
        int integer = 1;
        lua_Integer key;
        if (tensor) {
            push_element(L, tensor, i);
        } else {
            lua_rawgeti(L, index, (lua_Integer)i + 1);
        }
        key = lua_tointegerx(L, -1, &integer);
        if (!integer || key < 0) {
            luaL_error(L, "key %I of the list is not an integer of 0 or more", (lua_Integer)i + 1);
        }
        lua_pop(L, 1);
        keys[i] = (uint64_t)key;
    }
    lua_replace(L, index);
    return keys;
}

void tide__lua_open_tensor(lua_State *L) {
    static const luaL_Reg methods[] = {
        {"rows", tensor_rows},
        {"columns", tensor_columns},
        {"type", tensor_type},
        {"slice", tensor_slice},
        {"view", tensor_view},
        {"copy", tensor_copy},
        {"fill", tensor_fill},
        {"put", tensor_put},
        {"pick", tensor_pick},
        {"sum", tensor_sum},
        {"min", tensor_min},
        {"max", tensor_max},
        {"shuffle", tensor_shuffle},
        {"bytes", tensor_bytes},
        {"split", tensor_split},
        {"totable", tensor_totable},
        {"convert", tide__lua_tensor_convert},
        {"text", tide__lua_tensor_text},
        {NULL, NULL},
    };
    static const luaL_Reg meta[] = {
        {"__len", tensor_len},
        {"__pairs", tensor_pairs},
        {"__tostring", tensor_tostring},
        {NULL, NULL},
    };
    luaL_newlib(L, meta);
    void *address = (void *)(uintptr_t)lua_topointer(L, -1);
    lua_pushlightuserdata(L, address);
    lua_pushcclosure(L, tensor_newindex, 1);
    lua_setfield(L, -2, "__newindex");
    tide__lua_tensor_operators(L);
    luaL_newlib(L, methods);
    tide__lua_tensor_math(L);
    lua_pushlightuserdata(L, address);
    lua_pushcclosure(L, tensor_index, 2);
    lua_setfield(L, -2, "__index");
    lua_pushliteral(L, "tide.tensor");
    lua_setfield(L, -2, "__name");
    lua_pushboolean(L, false);
    lua_setfield(L, -2, "__metatable"); /* scripts cannot reach into it */
    lua_rawsetp(L, LUA_REGISTRYINDEX, &tensor_metatable);
    lua_pushcfunction(L, core_tensor);
    lua_setfield(L, -2, "tensor");
    lua_pushcfunction(L, core_joined);
    lua_setfield(L, -2, "joined");
    lua_pushcfunction(L, core_moved);
    lua_setfield(L, -2, "moved");
}
