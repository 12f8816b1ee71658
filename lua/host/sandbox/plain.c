/* Plain values as bytes; see plain.h. */
#include "plain.h"

#include "lua/host/host.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TAG_NIL, TAG_FALSE, TAG_TRUE, TAG_INTEGER, TAG_FLOAT, TAG_STRING, TAG_TABLE };
enum { ITEMS_MAX = 1 << 22, BYTES_MAX = 1 << 26, PREPARED_MAX = 1 << 12, KEYS_CACHED = 64 };

/* ---- encoding ---- */

static int put(struct tide_plain *out, const void *bytes, size_t size) {
    size_t most = out->bytes_max ? out->bytes_max : BYTES_MAX;
    if (size > most || out->size > most - size) {
        (void)snprintf(out->reason, sizeof out->reason, " is part of more than %zu bytes", most);
        return TIDE_ELIMIT;
    }
    if (out->size + size > out->capacity) {
        size_t capacity = 2 * (out->size + size) + 256;
        uint8_t *grown = tide_realloc(out->data, capacity);
        if (!grown) {
            (void)snprintf(out->reason, sizeof out->reason, ": out of memory");
            return TIDE_ENOMEM;
        }
        out->data = grown;
        out->capacity = capacity;
    }
    memcpy(out->data + out->size, bytes, size);
    out->size += size;
    return 0;
}

static int put_tagged(struct tide_plain *out, uint8_t tag, const void *bytes, size_t size) {
    int code = put(out, &tag, 1);
    return code < 0 ? code : put(out, bytes, size);
}

static int put_string(struct tide_plain *out, const char *text, size_t size) {
    if (size > BYTES_MAX) {
        (void)snprintf(out->reason, sizeof out->reason, " is a string of %zu bytes", size);
        return TIDE_ELIMIT;
    }
    uint32_t length = (uint32_t)size;
    int code = put_tagged(out, TAG_STRING, &length, sizeof length);
    return code < 0 ? code : put(out, text, size);
}

static int put_number(lua_State *L, int index, struct tide_plain *out) {
    if (lua_isinteger(L, index)) {
        lua_Integer integer = lua_tointeger(L, index);
        return put_tagged(out, TAG_INTEGER, &integer, sizeof integer);
    }
    lua_Number number = lua_tonumber(L, index);
    return put_tagged(out, TAG_FLOAT, &number, sizeof number);
}

/* Puts the key at `index` (number or string) before the path of the reason. */
static void prepend_key(lua_State *L, int index, struct tide_plain *out) {
    char with[sizeof out->reason];
    if (lua_isinteger(L, index)) {
        (void)snprintf(with, sizeof with, "[%lld]%.150s", (long long)lua_tointeger(L, index), out->reason);
    } else if (lua_type(L, index) == LUA_TSTRING) {
        (void)snprintf(with, sizeof with, ".%.40s%.150s", lua_tostring(L, index), out->reason);
    } else {
        (void)snprintf(with, sizeof with, "[?]%.150s", out->reason);
    }
    memcpy(out->reason, with, sizeof with);
}

struct pair {
    size_t offset, size;
    double number;
    const char *text; /* NULL: a number */
    size_t length;
};

static int by_key(const void *a, const void *b) {
    const struct pair *x = a, *y = b;
    if (!x->text || !y->text) {
        if (x->text || y->text) {
            return x->text ? 1 : -1;
        }
        return x->number < y->number ? -1 : x->number > y->number;
    }
    int order = memcmp(x->text, y->text, x->length < y->length ? x->length : y->length);
    return order != 0 ? order : x->length < y->length ? -1 : x->length > y->length;
}

static int encode(lua_State *L, int index, struct tide_plain *out, int depth);

/* The key under the value on top of the stack belongs to the array part 1..count. */
static bool in_array(lua_State *L, lua_Integer count) {
    return lua_isinteger(L, -2) && lua_tointeger(L, -2) >= 1 && lua_tointeger(L, -2) <= count;
}

/* Encodes key and value on top of the stack, and notes where. */
static int encode_pair(lua_State *L, struct tide_plain *out, struct pair *pair, int depth) {
    *pair = (struct pair){.offset = out->size};
    int code = 0;
    if (lua_type(L, -2) == LUA_TSTRING) {
        pair->text = lua_tolstring(L, -2, &pair->length);
        code = put_string(out, pair->text, pair->length);
    } else if (lua_type(L, -2) == LUA_TNUMBER) {
        pair->number = lua_tonumber(L, -2);
        code = put_number(L, -2, out);
    } else {
        (void)snprintf(out->reason, sizeof out->reason, " has a %s as a key", lua_typename(L, lua_type(L, -2)));
        return TIDE_EINVAL;
    }
    if (code == 0) {
        code = encode(L, lua_gettop(L), out, depth + 1);
        if (code < 0) {
            prepend_key(L, -2, out);
        }
    }
    pair->size = out->size - pair->offset;
    return code;
}

/* Puts the encoded pairs behind `start` into the order of their keys. */
static int sort_pairs(struct tide_plain *out, size_t start, struct pair *pairs, size_t count) {
    size_t size = out->size - start;
    uint8_t *copy = tide_alloc(size + 1);
    if (!copy) {
        (void)snprintf(out->reason, sizeof out->reason, ": out of memory");
        return TIDE_ENOMEM;
    }
    memcpy(copy, out->data + start, size);
    qsort(pairs, count, sizeof *pairs, by_key);
    uint8_t *to = out->data + start;
    for (size_t i = 0; i < count; i++) {
        memcpy(to, copy + pairs[i].offset - start, pairs[i].size);
        to += pairs[i].size;
    }
    tide_free(copy);
    return 0;
}

static int encode_pairs(lua_State *L, int index, struct tide_plain *out, lua_Integer array, uint32_t count, int depth) {
    struct pair *pairs = tide_alloc_zero(count, sizeof *pairs);
    size_t start = out->size, at = 0;
    int code = pairs ? 0 : TIDE_ENOMEM, top = lua_gettop(L);
    lua_pushnil(L);
    while (code == 0 && lua_next(L, index)) {
        if (!in_array(L, array)) {
            code = encode_pair(L, out, &pairs[at++], depth);
        }
        lua_pop(L, 1);
    }
    lua_settop(L, top);
    code = code < 0 ? code : sort_pairs(out, start, pairs, count);
    tide_free(pairs);
    return code;
}

static int encode_table(lua_State *L, int index, struct tide_plain *out, int depth) {
    if (depth >= TIDE_PLAIN_DEPTH_MAX) {
        (void)snprintf(out->reason, sizeof out->reason, " is nested more than %d deep, or contains itself",
                       TIDE_PLAIN_DEPTH_MAX);
        return TIDE_ELIMIT;
    }
    lua_Integer array = 0, others = 0;
    while (lua_rawgeti(L, index, array + 1) != LUA_TNIL) {
        lua_pop(L, 1);
        array++;
    }
    lua_pop(L, 1);
    lua_pushnil(L);
    while (lua_next(L, index)) {
        others += !in_array(L, array);
        lua_pop(L, 1);
    }
    if (array + others > (lua_Integer)ITEMS_MAX) {
        (void)snprintf(out->reason, sizeof out->reason, " has too many entries");
        return TIDE_ELIMIT;
    }
    uint32_t counts[2] = {(uint32_t)array, (uint32_t)others};
    int code = put_tagged(out, TAG_TABLE, counts, sizeof counts);
    for (lua_Integer i = 1; i <= array && code == 0; i++) {
        lua_rawgeti(L, index, i);
        code = encode(L, lua_gettop(L), out, depth + 1);
        if (code < 0) {
            lua_pushinteger(L, i);
            prepend_key(L, -1, out);
            lua_pop(L, 1);
        }
        lua_pop(L, 1);
    }
    return code < 0 || others == 0 ? code : encode_pairs(L, index, out, array, counts[1], depth);
}

static int encode(lua_State *L, int index, struct tide_plain *out, int depth) {
    size_t size;
    uint8_t tag;
    if (++out->items > (out->items_max ? out->items_max : ITEMS_MAX)) {
        (void)snprintf(out->reason, sizeof out->reason, " is one of too many values");
        return TIDE_ELIMIT;
    }
    switch (lua_type(L, index)) {
    case LUA_TNIL:
    case LUA_TBOOLEAN:
        tag = lua_isnil(L, index) ? TAG_NIL : lua_toboolean(L, index) ? TAG_TRUE : TAG_FALSE;
        return put(out, &tag, 1);
    case LUA_TNUMBER:
        return put_number(L, index, out);
    case LUA_TSTRING: {
        const char *text = lua_tolstring(L, index, &size);
        return put_string(out, text, size);
    }
    case LUA_TTABLE:
        return encode_table(L, index, out, depth);
    case LUA_TFUNCTION:
        if (out->functions) {
            tag = TAG_TRUE;
            return put(out, &tag, 1);
        } /* fall through */
    default:
        (void)snprintf(out->reason, sizeof out->reason, " is a %s", lua_typename(L, lua_type(L, index)));
        return TIDE_EINVAL;
    }
}

int tide__plain_encode(lua_State *L, int index, struct tide_plain *out) {
    index = lua_absindex(L, index);
    if (!lua_checkstack(L, 4 * TIDE_PLAIN_DEPTH_MAX + 16)) {
        (void)snprintf(out->reason, sizeof out->reason, ": no room on the Lua stack");
        return TIDE_ENOMEM;
    }
    return encode(L, index, out, 0);
}

/* ---- decoding ---- */

/* Records of a list have the same keys again and again: the newest of each hash stay on the Lua
 * stack, which saves Lua its search for the string. */
struct input {
    const uint8_t *at, *end;
    size_t items;
    int keys; /* stack index of the first of KEYS_CACHED strings */
    struct {
        const uint8_t *text; /* in the input; NULL: none yet */
        uint32_t size;
    } cached[KEYS_CACHED];
};

static bool take(struct input *in, void *bytes, size_t size) {
    if ((size_t)(in->end - in->at) < size) {
        return false;
    }
    memcpy(bytes, in->at, size);
    in->at += size;
    return true;
}

static int decode(lua_State *L, struct input *in, int depth);

/* Takes a string's size and bytes, which follow its tag. */
static bool take_string(struct input *in, const uint8_t **text, uint32_t *size) {
    if (!take(in, size, sizeof *size) || *size > (size_t)(in->end - in->at)) {
        return false;
    }
    *text = in->at;
    in->at += *size;
    return true;
}

static int decode_key(lua_State *L, struct input *in, int depth) {
    if (in->at >= in->end || *in->at != TAG_STRING) {
        return decode(L, in, depth);
    }
    const uint8_t *text;
    uint32_t size;
    in->at++;
    if (!take_string(in, &text, &size)) {
        return TIDE_EPROTO;
    }
    if (++in->items > ITEMS_MAX) {
        return TIDE_ELIMIT;
    }
    unsigned slot = size > 0 ? (7 * size + 3u * text[0] + text[size - 1]) % KEYS_CACHED : 0;
    if (in->cached[slot].text && in->cached[slot].size == size && memcmp(in->cached[slot].text, text, size) == 0) {
        lua_pushvalue(L, in->keys + (int)slot);
        return 0;
    }
    lua_pushlstring(L, (const char *)text, size);
    lua_pushvalue(L, -1);
    lua_replace(L, in->keys + (int)slot);
    in->cached[slot].text = text;
    in->cached[slot].size = size;
    return 0;
}

static int decode_pair(lua_State *L, struct input *in, int depth) {
    int code = decode_key(L, in, depth + 1);
    if (code < 0) {
        return code;
    }
    int type = lua_type(L, -1);
    if ((type != LUA_TSTRING && type != LUA_TNUMBER) || (type == LUA_TNUMBER && isnan(lua_tonumber(L, -1)))) {
        return TIDE_EPROTO;
    }
    code = decode(L, in, depth + 1);
    if (code < 0 || lua_isnil(L, -1)) {
        return code < 0 ? code : TIDE_EPROTO;
    }
    lua_rawset(L, -3);
    return 0;
}

static int decode_table(lua_State *L, struct input *in, int depth) {
    uint32_t counts[2];
    if (depth >= TIDE_PLAIN_DEPTH_MAX) {
        return TIDE_ELIMIT;
    }
    /* A value has at least a byte: counts beyond the rest of the input are refused before anything
     * is made. */
    if (!take(in, counts, sizeof counts) || counts[0] + 2 * (size_t)counts[1] > (size_t)(in->end - in->at)) {
        return TIDE_EPROTO;
    }
    lua_createtable(L, (int)(counts[0] < PREPARED_MAX ? counts[0] : PREPARED_MAX),
                    (int)(counts[1] < PREPARED_MAX ? counts[1] : PREPARED_MAX));
    for (uint32_t i = 0; i < counts[0]; i++) {
        int code = decode(L, in, depth + 1);
        if (code < 0 || lua_isnil(L, -1)) {
            return code < 0 ? code : TIDE_EPROTO;
        }
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    for (uint32_t i = 0; i < counts[1]; i++) {
        int code = decode_pair(L, in, depth);
        if (code < 0) {
            return code;
        }
    }
    return 0;
}

static int decode(lua_State *L, struct input *in, int depth) {
    uint8_t tag;
    union {
        lua_Integer integer;
        lua_Number number;
    } v;
    const uint8_t *text;
    uint32_t size;
    if (!take(in, &tag, 1)) {
        return TIDE_EPROTO;
    }
    if (++in->items > ITEMS_MAX) {
        return TIDE_ELIMIT;
    }
    switch (tag) {
    case TAG_NIL:
        lua_pushnil(L);
        return 0;
    case TAG_FALSE:
    case TAG_TRUE:
        lua_pushboolean(L, tag == TAG_TRUE);
        return 0;
    case TAG_INTEGER:
        if (!take(in, &v.integer, sizeof v.integer)) {
            return TIDE_EPROTO;
        }
        lua_pushinteger(L, v.integer);
        return 0;
    case TAG_FLOAT:
        if (!take(in, &v.number, sizeof v.number)) {
            return TIDE_EPROTO;
        }
        lua_pushnumber(L, v.number);
        return 0;
    case TAG_STRING:
        if (!take_string(in, &text, &size)) {
            return TIDE_EPROTO;
        }
        lua_pushlstring(L, (const char *)text, size);
        return 0;
    case TAG_TABLE:
        return decode_table(L, in, depth);
    default:
        return TIDE_EPROTO;
    }
}

int tide__plain_decode(lua_State *L, const void *data, size_t size) {
    struct input in = {.at = data, .end = (const uint8_t *)data + size};
    int top = lua_gettop(L);
    luaL_checkstack(L, 4 * TIDE_PLAIN_DEPTH_MAX + KEYS_CACHED + 16, "plain value");
    in.keys = top + 1;
    lua_settop(L, top + KEYS_CACHED);
    int code = decode(L, &in, 0);
    if (code == 0 && in.at != in.end) {
        code = TIDE_EPROTO;
    }
    if (code < 0) {
        lua_settop(L, top);
        return tide_fail(code, "these bytes are no plain value");
    }
    lua_replace(L, in.keys);
    lua_settop(L, in.keys);
    return 0;
}

/* ---- core.plain_encode, core.plain_decode ---- */

static int push_bytes(lua_State *L) {
    const struct tide_plain *plain = lua_touserdata(L, 1);
    lua_pushlstring(L, (const char *)plain->data, plain->size);
    return 1;
}

int tide__plain_push(lua_State *L, struct tide_plain *plain) {
    lua_pushcfunction(L, push_bytes);
    lua_pushlightuserdata(L, plain);
    int status = lua_pcall(L, 1, 1, 0);
    tide_free(plain->data);
    plain->data = NULL;
    return status == LUA_OK ? 1 : lua_error(L);
}

static int core_plain_encode(lua_State *L) {
    struct tide_plain out = {0};
    luaL_checkany(L, 1);
    int code = tide__plain_encode(L, 1, &out);
    if (code < 0) {
        tide_free(out.data);
        const char *message = lua_pushfstring(L, "value%s", out.reason);
        lua_pushnil(L);
        tide__lua_push_error(L, tide_error_name(code), message, NULL);
        return 2;
    }
    return tide__plain_push(L, &out);
}

static int core_plain_decode(lua_State *L) {
    size_t size;
    const char *data = luaL_checklstring(L, 1, &size);
    int code = tide__plain_decode(L, data, size);
    return code < 0 ? tide__lua_failure(L, code) : 1;
}

void tide__lua_open_plain(lua_State *L) {
    static const luaL_Reg functions[] = {
        {"plain_encode", core_plain_encode}, {"plain_decode", core_plain_decode}, {NULL, NULL}};
    luaL_setfuncs(L, functions, 0);
}
