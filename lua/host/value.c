/*
 * Lua values as msgpack and back: what send, call, answers, spawn arguments and core.encode carry.
 *
 *   nil, booleans, integers, floats, strings    themselves (strings of any bytes; integers over
 * 2^63 wrap) {v1, v2, ...}, {}                            array {name = v, ...} map with string
 * keys tensor of one column                         ext typed array tensor of c columns map
 * {"@columns": c, "@data": ext}
 *
 * Encoding never raises and never recurses; it refuses functions, userdata, mixed tables and cycles
 * with the path of the field. Decoding trusts no byte: depth, number of values and string lengths
 * are bounded as in tide_scan, and memory stays within a constant factor of the bytes that are
 * really there. Metatables do not travel.
 */
#include "host.h"

#include <string.h>

enum { KEY_TEXT_MAX = 40 };

/* ---- encoding ---- */

/* A table being written. On the Lua stack: the table, and above it the current key when it is a
 * map. */
struct write_level {
    int table;
    size_t count, next; /* arrays: elements, and which is being written (from 1) */
    bool array;
};

struct encoder {
    lua_State *L;
    const char *root;
    struct tide_writer *w;
    struct write_level levels[TIDE_DEPTH_MAX];
    int depth;
    size_t items, items_max;
};

/* "value.params[3].f" of what is being written now. */
static int encode_fail(const struct encoder *e, int code, const char *reason) {
    char path[300];
    size_t used = (size_t)snprintf(path, sizeof path, "%s", e->root);
    for (int i = 0; i < e->depth && used < sizeof path - KEY_TEXT_MAX - 8; i++) {
        const struct write_level *level = &e->levels[i];
        if (level->array) {
            used += (size_t)snprintf(path + used, sizeof path - used, "[%zu]", level->next);
        } else if (lua_type(e->L, level->table + 1) == LUA_TSTRING) {
            used += (size_t)snprintf(path + used, sizeof path - used, ".%.*s", KEY_TEXT_MAX,
                                     lua_tostring(e->L, level->table + 1));
        }
    }
    return tide_fail(code, "%s: %s", path, reason);
}

static int encode_tensor(struct encoder *e, const struct tide_lua_tensor *tensor) {
    size_t count = tide__lua_tensor_count(tensor);
    if (count * tensor->element > TIDE_FRAME_MAX - 1024) {
        return encode_fail(e, TIDE_ELIMIT, "tensor of more than 16 MiB in one message");
    }
    if (tensor->t.columns != 1) {
        tide_write_map(e->w, 2);
        tide_write_string(e->w, "@columns", 8);
        tide_write_uint(e->w, tensor->t.columns);
        tide_write_string(e->w, "@data", 5);
        e->items += 4;
    }
    tide_write_typed(e->w, (enum tide_ext)tensor->t.type, tensor->t.data, count);
    return 0;
}

/* Counts the table's entries and decides what it is; the table is on top of the stack. */
static int classify(struct encoder *e, size_t *count, bool *array) {
    lua_State *L = e->L;
    size_t length = lua_rawlen(L, -1), strings = 0, integers = 0;
    lua_pushnil(L);
    while (lua_next(L, -2)) {
        lua_pop(L, 1);
        if (lua_type(L, -1) == LUA_TSTRING) {
            strings++;
        } else if (lua_isinteger(L, -1) && lua_tointeger(L, -1) >= 1 && (size_t)lua_tointeger(L, -1) <= length) {
            integers++;
        } else {
            bool number = lua_type(L, -1) == LUA_TNUMBER;
            lua_pop(L, 1);
            return encode_fail(e, TIDE_EINVAL,
                               number ? "a number key outside 1..#t cannot travel: use string keys"
                                      : "keys must be strings");
        }
    }
    if (strings > 0 && integers > 0) {
        return encode_fail(e, TIDE_EINVAL, "table mixes array elements and string keys");
    }
    if (integers != length) {
        return encode_fail(e, TIDE_EINVAL, "array with holes");
    }
    *array = strings == 0;
    *count = strings + integers;
    return 0;
}

/* Writes the head of the table on top of the stack and makes it the current level. */
static int enter_table(struct encoder *e) {
    lua_State *L = e->L;
    const void *identity = lua_topointer(L, -1);
    for (int i = 0; i < e->depth; i++) {
        if (lua_topointer(L, e->levels[i].table) == identity) {
            return encode_fail(e, TIDE_EINVAL, "table contains itself");
        }
    }
    if (e->depth == TIDE_DEPTH_MAX) {
        return encode_fail(e, TIDE_ELIMIT, "nested more than 16 deep");
    }
    struct write_level *level = &e->levels[e->depth];
    *level = (struct write_level){.table = lua_gettop(L)};
    int code = classify(e, &level->count, &level->array);
    if (code < 0) {
        return code;
    }
    if (level->array) {
        tide_write_array(e->w, level->count);
    } else {
        tide_write_map(e->w, level->count);
        lua_pushnil(L);
    }
    e->depth++;
    return 0;
}

/* Writes the value on top of the stack; pops it unless it is a table, which is entered. */
static int write_value(struct encoder *e) {
    lua_State *L = e->L;
    size_t size;
    const char *text;
    if (++e->items > e->items_max) {
        return encode_fail(e, TIDE_ELIMIT, "too many values in one message (65536): send numbers as a tensor");
    }
    switch (lua_type(L, -1)) {
    case LUA_TNIL:
        tide_write_nil(e->w);
        break;
    case LUA_TBOOLEAN:
        tide_write_bool(e->w, lua_toboolean(L, -1));
        break;
    case LUA_TNUMBER:
        if (lua_isinteger(L, -1)) {
            tide_write_int(e->w, lua_tointeger(L, -1));
        } else {
            tide_write_double(e->w, lua_tonumber(L, -1));
        }
        break;
    case LUA_TSTRING:
        text = lua_tolstring(L, -1, &size);
        if (size > TIDE_STRING_MAX) {
            return encode_fail(e, TIDE_ELIMIT, "string of more than 1 MiB: send it in pieces");
        }
        tide_write_string(e->w, text, size);
        break;
    case LUA_TTABLE:
        return enter_table(e);
    case LUA_TUSERDATA: {
        const struct tide_lua_tensor *tensor = tide__lua_tensor_at(L, -1);
        int code = tensor ? encode_tensor(e, tensor) : encode_fail(e, TIDE_EINVAL, "this userdata cannot travel");
        if (code < 0) {
            return code;
        }
        break;
    }
    default: {
        char reason[64];
        (void)snprintf(reason, sizeof reason, "a %s cannot travel", luaL_typename(L, -1));
        return encode_fail(e, TIDE_EINVAL, reason);
    }
    }
    lua_pop(L, 1);
    return 0;
}

/* Pushes the next value to write and returns true; false when everything is written. */
static bool next_value(struct encoder *e) {
    lua_State *L = e->L;
    while (e->depth > 0) {
        struct write_level *level = &e->levels[e->depth - 1];
        if (level->array) {
            if (level->next < level->count) {
                lua_rawgeti(L, level->table, (lua_Integer)++level->next);
                return true;
            }
        } else if (lua_next(L, level->table)) {
            size_t size;
            const char *key = lua_tolstring(L, -2, &size);
            e->items++;
            tide_write_string(e->w, key, size);
            return true;
        }
        lua_settop(L, level->table - 1);
        e->depth--;
    }
    return false;
}

int tide__lua_encode(lua_State *L, int index, const char *root, size_t items_max, struct tide_writer *w) {
    struct encoder e = {.L = L, .root = root, .w = w, .items_max = items_max};
    int top = lua_gettop(L);
    if (!lua_checkstack(L, 2 * TIDE_DEPTH_MAX + 8)) {
        return tide_fail(TIDE_ENOMEM, "%s: no room on the Lua stack", root);
    }
    lua_pushvalue(L, index);
    int code;
    do {
        code = write_value(&e);
        if (code == 0 && w->error < 0) {
            code = tide_fail(w->error, "%s: out of memory", root);
        }
        if (code == 0 && w->size > TIDE_FRAME_MAX - 512) {
            code = encode_fail(&e, TIDE_ELIMIT, "message of more than 16 MiB");
        }
    } while (code == 0 && next_value(&e));
    lua_settop(L, top);
    return code;
}

/* ---- decoding ---- */

struct read_level {
    size_t remaining;
    lua_Integer next;
    bool map;
};

static void store_element(void *out, const uint8_t *in, int type) {
    /* Half and brain floats become f32: Lua tensors have no narrower float. */
    uint16_t bits;
    memcpy(&bits, in, sizeof bits);
    uint32_t wide;
    if (type == TIDE_BF16) {
        wide = (uint32_t)bits << 16;
    } else {
        uint32_t sign = (uint32_t)(bits & 0x8000u) << 16, exponent = (bits >> 10) & 31u, mantissa = bits & 0x3ffu;
        if (exponent == 31) {
            wide = sign | 0x7f800000u | mantissa << 13;
        } else if (exponent > 0) {
            wide = sign | (exponent + 112) << 23 | mantissa << 13;
        } else {
            float value = (float)mantissa * 0x1p-24f;
            memcpy(&wide, &value, sizeof wide);
            wide |= sign;
        }
    }
    memcpy(out, &wide, sizeof wide);
}

static int read_tensor(lua_State *L, struct tide_reader *r, size_t columns) {
    int type;
    size_t size;
    const uint8_t *data = tide_read_ext(r, &type, &size);
    size_t element = data ? tide_ext_element_size(type) : 0;
    if (element == 0 || size % element != 0) {
        return tide_fail(TIDE_EPROTO, "typed array of unknown type %d or odd size %zu", type, size);
    }
    size_t count = size / element;
    if (columns == 0 || count % columns != 0) {
        return tide_fail(TIDE_EPROTO, "typed array of %zu elements in %zu columns", count, columns);
    }
    bool narrow = type == TIDE_F16 || type == TIDE_BF16;
    struct tide_lua_tensor *tensor = tide__lua_tensor_new(L, narrow ? TIDE_F32 : type, count / columns, columns);
    if (!narrow) {
        if (size > 0) {
            memcpy(tensor->t.data, data, size);
        }
        return 0;
    }
    for (size_t i = 0; i < count; i++) {
        store_element((float *)tensor->t.data + i, data + 2 * i, type);
    }
    return 0;
}

/* A map that stands for a tensor with columns: reads it whole. 1: it was one; 0: an ordinary map,
 * nothing read. */
static int read_matrix(lua_State *L, struct tide_reader *r, size_t *items) {
    struct tide_reader ahead = *r;
    size_t size;
    if (tide_read_type(&ahead) != TIDE_STRING) {
        return 0;
    }
    const char *key = tide_read_string(&ahead, &size);
    if (!key || size != 8 || memcmp(key, "@columns", 8) != 0) {
        return 0;
    }
    uint64_t columns = tide_read_uint(&ahead);
    if (tide_read_type(&ahead) != TIDE_STRING) {
        return 0;
    }
    key = tide_read_string(&ahead, &size);
    if (!key || size != 5 || memcmp(key, "@data", 5) != 0 || tide_read_type(&ahead) != TIDE_EXT) {
        return 0;
    }
    int code = read_tensor(L, &ahead, columns);
    *items -= *items < 3 ? *items : 3;
    *r = ahead;
    return code < 0 ? code : 1;
}

static int read_scalar(lua_State *L, struct tide_reader *r, enum tide_type type) {
    size_t size;
    const char *text;
    switch (type) {
    case TIDE_NIL:
        (void)tide_read_nil(r);
        lua_pushnil(L);
        return 0;
    case TIDE_BOOL:
        lua_pushboolean(L, tide_read_bool(r));
        return 0;
    case TIDE_INT:
        lua_pushinteger(L, tide_read_int(r));
        return 0;
    case TIDE_UINT:
        lua_pushinteger(L, (lua_Integer)tide_read_uint(r));
        return 0;
    case TIDE_DOUBLE:
        lua_pushnumber(L, tide_read_double(r));
        return 0;
    case TIDE_STRING:
    case TIDE_BINARY:
        text = type == TIDE_STRING ? tide_read_string(r, &size) : tide_read_binary(r, &size);
        if (size > TIDE_STRING_MAX) {
            return tide_fail(TIDE_ELIMIT, "string of more than 1 MiB");
        }
        lua_pushlstring(L, text ? text : "", size);
        return 0;
    case TIDE_EXT:
        return read_tensor(L, r, 1);
    default:
        return tide_fail(TIDE_EPROTO, "the bytes end inside a value");
    }
}

static int key_fail(void) {
    return tide_fail(TIDE_EPROTO, "map key that is neither string nor integer");
}

/* The cursor is at a container or a scalar: pushes it; a non-empty container becomes the level. */
static int read_value(lua_State *L, struct tide_reader *r, struct read_level *levels, int *depth, size_t *items) {
    enum tide_type type = tide_read_type(r);
    if (*items == 0) {
        return tide_fail(TIDE_ELIMIT, "more values than a message may have");
    }
    --*items;
    if (type != TIDE_ARRAY && type != TIDE_MAP) {
        return read_scalar(L, r, type);
    }
    size_t count = type == TIDE_ARRAY ? tide_read_array(r) : tide_read_map(r);
    if (r->error < 0) {
        return tide_fail(TIDE_EPROTO, "container that announces more than its bytes");
    }
    if (type == TIDE_MAP && count == 2) {
        int code = read_matrix(L, r, items);
        if (code != 0) {
            return code < 0 ? code : 0;
        }
    }
    if (count > *items) {
        return tide_fail(TIDE_ELIMIT, "container of %zu values", count);
    }
    int array = type == TIDE_ARRAY ? (int)count : 0, map = type == TIDE_MAP ? (int)count : 0;
    lua_createtable(L, array, map);
    if (*depth == TIDE_DEPTH_MAX) {
        return tide_fail(TIDE_ELIMIT, "nested more than 16 deep");
    }
    if (count > 0) {
        levels[(*depth)++] = (struct read_level){.remaining = count, .map = type == TIDE_MAP};
    }
    return 0;
}

int tide__lua_decode(lua_State *L, const void *data, size_t size, size_t items_max) {
    struct tide_reader r;
    struct read_level levels[TIDE_DEPTH_MAX];
    int depth = 0, top = lua_gettop(L), code = 0;
    size_t items = items_max;
    tide_reader_init(&r, data, size);
    luaL_checkstack(L, 2 * TIDE_DEPTH_MAX + 8, "decoding a message");
    for (;;) {
        int before = depth;
        if (depth > 0 && levels[depth - 1].map) {
            enum tide_type type = tide_read_type(&r);
            bool fine = type == TIDE_STRING || type == TIDE_INT;
            items -= items > 0;
            code = fine ? read_scalar(L, &r, type) : key_fail();
        }
        code = code < 0 ? code : read_value(L, &r, levels, &depth, &items);
        if (code == 0 && r.error < 0) {
            code = tide_fail(TIDE_EPROTO, "damaged msgpack");
        }
        if (code < 0) {
            lua_settop(L, top);
            return code;
        }
        if (depth > before) {
            continue; /* a container was opened: its first element is next */
        }
        while (depth > 0) { /* the value on top is whole: into its container, which may be whole by that */
            struct read_level *level = &levels[depth - 1];
            if (level->map) {
                lua_rawset(L, -3);
            } else {
                lua_rawseti(L, -2, ++level->next);
            }
            if (--level->remaining > 0) {
                break;
            }
            depth--;
        }
        if (depth == 0) {
            break;
        }
    }
    if (r.at != r.end) {
        lua_settop(L, top);
        return tide_fail(TIDE_EPROTO, "%zu bytes after the value", (size_t)(r.end - r.at));
    }
    return 0;
}

struct safe_decode {
    const void *data;
    size_t size, items_max;
    int code;
};

static int safe_decode_entry(lua_State *L) {
    struct safe_decode *job = lua_touserdata(L, 1);
    job->code = tide__lua_decode(L, job->data, job->size, job->items_max);
    return job->code < 0 ? 0 : 1;
}

int tide__lua_decode_safe(lua_State *L, const void *data, size_t size, size_t items_max) {
    struct safe_decode job = {.data = data, .size = size, .items_max = items_max};
    lua_pushcfunction(L, safe_decode_entry); /* a light function: no allocation */
    lua_pushlightuserdata(L, &job);
    if (lua_pcall(L, 1, 1, 0) != LUA_OK) {
        lua_pop(L, 1);
        return tide_fail(TIDE_ENOMEM, "out of memory decoding %zu bytes", size);
    }
    if (job.code < 0) {
        lua_pop(L, 1);
    }
    return job.code;
}

static int push_bytes(lua_State *L) {
    const struct tide_writer *w = lua_touserdata(L, 1);
    lua_pushlstring(L, (const char *)w->data, w->size);
    return 1;
}

static int core_encode(lua_State *L) {
    luaL_checkany(L, 1);
    struct tide_writer w;
    uint8_t buffer[1024];
    tide_writer_init(&w, buffer, sizeof buffer);
    int code = tide__lua_encode(L, 1, "value", TIDE_ITEMS_MAX, &w), status = LUA_OK;
    if (code == 0) {
        lua_pushcfunction(L, push_bytes);
        lua_pushlightuserdata(L, &w);
        status = lua_pcall(L, 1, 1, 0);
    }
    tide_writer_release(&w);
    if (code < 0) {
        return tide__lua_raise(L, code);
    }
    return status == LUA_OK ? 1 : lua_error(L);
}

static int core_decode(lua_State *L) {
    size_t size;
    const char *data = luaL_checklstring(L, 1, &size);
    int code = tide__lua_decode(L, data, size, TIDE_ITEMS_MAX);
    return code < 0 ? tide__lua_failure(L, code) : 1;
}

void tide__lua_open_value(lua_State *L) {
    static const luaL_Reg functions[] = {{"encode", core_encode}, {"decode", core_decode}, {NULL, NULL}};
    luaL_setfuncs(L, functions, 0);
}
