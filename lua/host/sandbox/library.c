/*
 * The globals of a sandbox (sandbox.h): the parts of Lua's libraries that cannot run long, leak an
 * address, reach the outside or depend on anything but their arguments; and bounded versions of the
 * others. What is absent, is absent on purpose: load and its kin, next, collectgarbage, require,
 * debug, io, os, string.dump, string.pack, utf8, coroutine.close, __gc and __mode.
 */
#include "sandbox.h"

#include <math.h>
#include <string.h>

static const char ids_key; /* address is a registry key: object -> id, weak */

/* ---- text of a value ---- */

const char *tide__sandbox_tostring(lua_State *L, int index) {
    index = lua_absindex(L, index);
    switch (lua_type(L, index)) {
    case LUA_TNIL:
    case LUA_TBOOLEAN:
    case LUA_TNUMBER:
    case LUA_TSTRING:
        return luaL_tolstring(L, index, NULL);
    default:
        break;
    }
    if (luaL_callmeta(L, index, "__tostring")) {
        if (!lua_isstring(L, -1)) {
            luaL_error(L, "'__tostring' must return a string");
        }
        return lua_tostring(L, -1);
    }
    lua_rawgetp(L, LUA_REGISTRYINDEX, &ids_key);
    lua_pushvalue(L, index);
    if (lua_rawget(L, -2) == LUA_TNIL) {
        lua_pop(L, 1);
        lua_Integer last = lua_getfield(L, -1, "last") == LUA_TNUMBER ? lua_tointeger(L, -1) : 0;
        lua_pushinteger(L, last + 1);
        lua_setfield(L, -3, "last");
        lua_pop(L, 1);
        lua_pushvalue(L, index);
        lua_pushinteger(L, last + 1);
        lua_rawset(L, -3);
        lua_pushinteger(L, last + 1);
    }
    lua_Integer id = lua_tointeger(L, -1);
    lua_pop(L, 2);
    return lua_pushfstring(L, "%s: #%d", luaL_typename(L, index), (int)id);
}

static int base_tostring(lua_State *L) {
    luaL_checkany(L, 1);
    (void)tide__sandbox_tostring(L, 1);
    return 1;
}

static int base_print(lua_State *L) {
    struct tide_sandbox *s = tide__sandbox_of(L);
    int count = lua_gettop(L);
    for (int i = 1; i <= count; i++) {
        size_t size;
        (void)tide__sandbox_tostring(L, i);
        const char *text = lua_tolstring(L, -1, &size);
        size_t room = sizeof s->log - s->log_size, own = size < room ? size : room;
        tide__sandbox_charge(L, s, 10 + own / 16);
        memcpy(s->log + s->log_size, text, own);
        s->log_size += own;
        if (s->log_size < sizeof s->log) {
            s->log[s->log_size++] = i < count ? '\t' : '\n';
        }
        lua_pop(L, 1);
    }
    return 0;
}

/* ---- metatables ---- */

static int base_setmetatable(lua_State *L) {
    luaL_checktype(L, 1, LUA_TTABLE);
    luaL_argexpected(L, lua_isnil(L, 2) || lua_istable(L, 2), 2, "nil or table");
    lua_settop(L, 2);
    static const char *const refused[] = {"__gc", "__mode"}; /* both make a result depend on the collector */
    for (size_t i = 0; i < TIDE_COUNT(refused) && lua_istable(L, 2); i++) {
        lua_pushstring(L, refused[i]);
        if (lua_rawget(L, 2) != LUA_TNIL) {
            return luaL_error(L, "a metatable with %s is not allowed here", refused[i]);
        }
        lua_pop(L, 1);
    }
    if (luaL_getmetafield(L, 1, "__metatable") != LUA_TNIL) {
        return luaL_error(L, "cannot change a protected metatable");
    }
    lua_setmetatable(L, 1);
    return 1;
}

/* ---- pairs: array part first, then keys by type and value ---- */

static int by_order(lua_State *L, int a, int b) {
    int ta = lua_type(L, a), tb = lua_type(L, b);
    if (ta != tb) { /* booleans, numbers, strings */
        return ta < tb;
    }
    if (ta == LUA_TBOOLEAN) {
        return lua_toboolean(L, a) < lua_toboolean(L, b);
    }
    if (ta == LUA_TNUMBER) {
        return lua_compare(L, a, b, LUA_OPLT);
    }
    size_t la, lb;
    const char *x = lua_tolstring(L, a, &la), *y = lua_tolstring(L, b, &lb);
    int order = memcmp(x, y, la < lb ? la : lb);
    return order != 0 ? order < 0 : la < lb;
}

typedef int (*lua_less)(lua_State *L, int a, int b);

/* Sorts elements 1..n of the table at `t` by merging runs; stable; the function may run Lua code
 * and raise. */
static void merge_sort(lua_State *L, int t, lua_Integer n, lua_less less) {
    struct tide_sandbox *s = tide__sandbox_of(L);
    lua_createtable(L, (int)n, 0);
    int from = t, to = lua_gettop(L);
    for (lua_Integer width = 1; width < n; width *= 2) {
        for (lua_Integer left = 1; left <= n; left += 2 * width) {
            lua_Integer middle = left + width <= n ? left + width : n + 1;
            lua_Integer end = left + 2 * width <= n ? left + 2 * width : n + 1;
            tide__sandbox_charge(L, s, (uint64_t)(end - left) * 8);
            for (lua_Integer at = left, i = left, j = middle; at < end; at++) {
                bool first = j >= end;
                if (i < middle && j < end) {
                    lua_rawgeti(L, from, i);
                    lua_rawgeti(L, from, j);
                    first = !less(L, lua_gettop(L), lua_gettop(L) - 1);
                    lua_pop(L, 2);
                }
                lua_rawgeti(L, from, first ? i++ : j++);
                lua_rawseti(L, to, at);
            }
        }
        int other = from;
        from = to;
        to = other;
    }
    for (lua_Integer i = 1; from != t && i <= n; i++) {
        lua_rawgeti(L, from, i);
        lua_rawseti(L, t, i);
    }
    lua_pop(L, 1);
}

/* upvalues: table, its keys beyond the array part, array length, position */
static int pairs_next(lua_State *L) {
    lua_Integer array = lua_tointeger(L, lua_upvalueindex(3)), at = lua_tointeger(L, lua_upvalueindex(4));
    for (;;) {
        at++;
        if (at <= array) {
            lua_pushinteger(L, at);
        } else if (lua_rawgeti(L, lua_upvalueindex(2), at - array) == LUA_TNIL) {
            return 1;
        }
        lua_pushvalue(L, -1);
        if (lua_rawget(L, lua_upvalueindex(1)) != LUA_TNIL) { /* keys removed meanwhile are left out */
            break;
        }
        lua_pop(L, 2);
        tide__sandbox_charge(L, tide__sandbox_of(L), 4);
    }
    lua_pushinteger(L, at);
    lua_replace(L, lua_upvalueindex(4));
    return 2;
}

static int base_pairs(lua_State *L) {
    struct tide_sandbox *s = tide__sandbox_of(L);
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    lua_Integer array = 0, keys = 0;
    while (lua_rawgeti(L, 1, array + 1) != LUA_TNIL) {
        lua_pop(L, 1);
        array++;
    }
    lua_pop(L, 1);
    tide__sandbox_charge(L, s, (uint64_t)array);
    lua_newtable(L);
    lua_pushnil(L);
    while (lua_next(L, 1)) {
        lua_pop(L, 1);
        bool own = lua_isinteger(L, -1) && lua_tointeger(L, -1) >= 1 && lua_tointeger(L, -1) <= array;
        if (!own) {
            int type = lua_type(L, -1);
            if (type != LUA_TSTRING && type != LUA_TNUMBER && type != LUA_TBOOLEAN) {
                return luaL_error(L, "pairs of a table with a %s as a key: such keys have no order",
                                  lua_typename(L, type));
            }
            lua_pushvalue(L, -1);
            lua_rawseti(L, 2, ++keys);
        }
        tide__sandbox_charge(L, s, 2);
    }
    merge_sort(L, 2, keys, by_order);
    lua_pushinteger(L, array);
    lua_pushinteger(L, 0);
    lua_pushcclosure(L, pairs_next, 4); /* takes table and keys too: they are 1 and 2 */
    return 1;
}

/* ---- table ---- */

static lua_Integer check_length(lua_State *L, int index) {
    luaL_checktype(L, index, LUA_TTABLE);
    lua_Integer n = (lua_Integer)lua_rawlen(L, index);
    if (n > TIDE_SANDBOX_ELEMENTS_MAX) {
        luaL_error(L, "more than %d elements", TIDE_SANDBOX_ELEMENTS_MAX);
    }
    return n;
}

static int table_insert(lua_State *L) {
    lua_Integer n = check_length(L, 1) + 1, at = n;
    if (lua_gettop(L) == 3) {
        at = luaL_checkinteger(L, 2);
        luaL_argcheck(L, at >= 1 && at <= n, 2, "position out of bounds");
        tide__sandbox_charge(L, tide__sandbox_of(L), (uint64_t)(n - at));
        for (lua_Integer i = n; i > at; i--) {
            lua_rawgeti(L, 1, i - 1);
            lua_rawseti(L, 1, i);
        }
    } else if (lua_gettop(L) != 2) {
        return luaL_error(L, "wrong number of arguments to 'insert'");
    }
    lua_settop(L, lua_gettop(L));
    lua_rawseti(L, 1, at);
    return 0;
}

static int table_remove(lua_State *L) {
    lua_Integer n = check_length(L, 1), at = luaL_optinteger(L, 2, n);
    if (lua_gettop(L) >= 2 && !lua_isnil(L, 2)) {
        luaL_argcheck(L, n + 1 == at || (at >= 1 && at <= n + 1) || (n == 0 && at == 0), 2, "position out of bounds");
    }
    lua_rawgeti(L, 1, at);
    if (n > at) {
        tide__sandbox_charge(L, tide__sandbox_of(L), (uint64_t)(n - at));
    }
    for (; at < n; at++) {
        lua_rawgeti(L, 1, at + 1);
        lua_rawseti(L, 1, at);
    }
    if (at >= 1 && at <= n) {
        lua_pushnil(L);
        lua_rawseti(L, 1, at);
    }
    return 1;
}

static int table_move(lua_State *L) {
    lua_Integer from = luaL_checkinteger(L, 2), end = luaL_checkinteger(L, 3), to = luaL_checkinteger(L, 4);
    int target = lua_isnoneornil(L, 5) ? 1 : 5;
    luaL_checktype(L, 1, LUA_TTABLE);
    luaL_checktype(L, target, LUA_TTABLE);
    if (end >= from) {
        lua_Unsigned count = (lua_Unsigned)end - (lua_Unsigned)from + 1;
        luaL_argcheck(L, count <= TIDE_SANDBOX_ELEMENTS_MAX && count > 0, 3, "too many elements to move");
        luaL_argcheck(L, to <= LUA_MAXINTEGER - (lua_Integer)count, 4, "destination wraps around");
        tide__sandbox_charge(L, tide__sandbox_of(L), count);
        bool up = to > from && to <= end && lua_rawequal(L, 1, target);
        for (lua_Integer i = 0; i < (lua_Integer)count; i++) {
            lua_Integer k = up ? (lua_Integer)count - 1 - i : i;
            lua_rawgeti(L, 1, from + k);
            lua_rawseti(L, target, to + k);
        }
    }
    lua_pushvalue(L, target);
    return 1;
}

static int table_concat(lua_State *L) {
    struct tide_sandbox *s = tide__sandbox_of(L);
    size_t size, length;
    lua_Integer last = check_length(L, 1);
    const char *separator = luaL_optlstring(L, 2, "", &length);
    lua_Integer i = luaL_optinteger(L, 3, 1);
    last = luaL_optinteger(L, 4, last);
    luaL_argcheck(L, last < i || (lua_Unsigned)last - (lua_Unsigned)i < TIDE_SANDBOX_ELEMENTS_MAX, 4,
                  "too many elements");
    luaL_Buffer b;
    luaL_buffinit(L, &b);
    for (size_t total = 0; i <= last; i++) {
        lua_rawgeti(L, 1, i);
        if (!lua_isstring(L, -1)) {
            return luaL_error(L, "invalid value (at index %I) in table for 'concat'", (LUAI_UACINT)i);
        }
        (void)lua_tolstring(L, -1, &size);
        total += size + length;
        if (total > TIDE_SANDBOX_STRING_MAX) {
            return luaL_error(L, "a string of more than 1 MiB");
        }
        tide__sandbox_charge(L, s, 2 + (size + length) / 16);
        luaL_addvalue(&b);
        if (i < last) {
            luaL_addlstring(&b, separator, length);
        }
    }
    luaL_pushresult(&b);
    return 1;
}

/* The comparison is in slot 2 of the frame. */
static int by_function(lua_State *L, int a, int b) {
    lua_pushvalue(L, 2);
    lua_pushvalue(L, a);
    lua_pushvalue(L, b);
    lua_call(L, 2, 1);
    int less = lua_toboolean(L, -1);
    lua_pop(L, 1);
    return less;
}

static int by_operator(lua_State *L, int a, int b) {
    return lua_compare(L, a, b, LUA_OPLT);
}

static int table_sort(lua_State *L) {
    lua_Integer n = check_length(L, 1);
    bool given = !lua_isnoneornil(L, 2);
    if (given) {
        luaL_argcheck(L, lua_isfunction(L, 2) && !lua_iscfunction(L, 2), 2, "a Lua function expected");
    }
    lua_settop(L, 2);
    merge_sort(L, 1, n, given ? by_function : by_operator);
    return 0;
}

static int table_pack(lua_State *L) {
    int n = lua_gettop(L);
    tide__sandbox_charge(L, tide__sandbox_of(L), (uint64_t)n);
    lua_createtable(L, n, 1);
    lua_insert(L, 1);
    for (int i = n; i >= 1; i--) {
        lua_rawseti(L, 1, i);
    }
    lua_pushinteger(L, n);
    lua_setfield(L, 1, "n");
    return 1;
}

static int table_unpack(lua_State *L) {
    lua_Integer first = luaL_optinteger(L, 2, 1);
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_Integer last = lua_isnoneornil(L, 3) ? (lua_Integer)lua_rawlen(L, 1) : luaL_checkinteger(L, 3);
    if (first > last) {
        return 0;
    }
    lua_Unsigned count = (lua_Unsigned)last - (lua_Unsigned)first + 1;
    if (count > 200000 || count == 0 || !lua_checkstack(L, (int)count)) {
        return luaL_error(L, "too many results to unpack");
    }
    tide__sandbox_charge(L, tide__sandbox_of(L), count);
    for (lua_Unsigned i = 0; i < count; i++) {
        lua_rawgeti(L, 1, (lua_Integer)((lua_Unsigned)first + i));
    }
    return (int)count;
}

/* ---- string ---- */

/* Lua's own function (upvalue 1), charged for the bytes of its string arguments. */
static int charged(lua_State *L) {
    uint64_t bytes = 0;
    int count = lua_gettop(L);
    for (int i = 1; i <= count; i++) {
        bytes += lua_type(L, i) == LUA_TSTRING ? lua_rawlen(L, i) : 8;
    }
    tide__sandbox_charge(L, tide__sandbox_of(L), 2 + bytes / 16);
    return lua_tocfunction(L, lua_upvalueindex(1))(L);
}

static int string_rep(lua_State *L) {
    size_t size, length;
    const char *text = luaL_checklstring(L, 1, &size), *separator = luaL_optlstring(L, 3, "", &length);
    lua_Integer count = luaL_checkinteger(L, 2);
    if (count <= 0) {
        lua_pushliteral(L, "");
        return 1;
    }
    if (count > TIDE_SANDBOX_ELEMENTS_MAX || (size + length) > TIDE_SANDBOX_STRING_MAX / (size_t)count) {
        return luaL_error(L, "a string of more than 1 MiB, or repeated more than %d times", TIDE_SANDBOX_ELEMENTS_MAX);
    }
    tide__sandbox_charge(L, tide__sandbox_of(L), (uint64_t)count + (size + length) * (size_t)count / 16);
    luaL_Buffer b;
    luaL_buffinit(L, &b);
    for (lua_Integer i = 0; i < count; i++) {
        luaL_addlstring(&b, text, size);
        if (i < count - 1) {
            luaL_addlstring(&b, separator, length);
        }
    }
    luaL_pushresult(&b);
    return 1;
}

static int string_byte(lua_State *L) {
    size_t size;
    const char *text = luaL_checklstring(L, 1, &size);
    lua_Integer first = luaL_optinteger(L, 2, 1), last = luaL_optinteger(L, 3, first), length = (lua_Integer)size;
    first = first < 0 ? first + length + 1 : first;
    last = last < 0 ? last + length + 1 : last;
    first = first < 1 ? 1 : first;
    last = last > length ? length : last;
    if (first > last) {
        return 0;
    }
    if (last - first > 200000 || !lua_checkstack(L, (int)(last - first + 1))) {
        return luaL_error(L, "string slice too long");
    }
    tide__sandbox_charge(L, tide__sandbox_of(L), (uint64_t)(last - first));
    for (lua_Integer i = first; i <= last; i++) {
        lua_pushinteger(L, (unsigned char)text[i - 1]);
    }
    return (int)(last - first + 1);
}

/* Replaces what %s shows by its text, refuses %p, and leaves the rest to Lua's string.format
 * (upvalue 1). */
static int string_format(lua_State *L) {
    const char *format = luaL_checkstring(L, 1);
    int argument = 1, count = lua_gettop(L);
    uint64_t bytes = lua_rawlen(L, 1);
    for (const char *at = strchr(format, '%'); at; at = strchr(at, '%')) {
        at++;
        if (*at == '%') {
            at++;
            continue;
        }
        at += strspn(at, "-+ #0123456789.");
        argument++;
        if (*at == 'p') {
            return luaL_error(L, "%%p is not allowed here: it shows an address");
        }
        if ((*at == 's' || *at == 'q') && argument <= count) {
            if (*at == 's') {
                (void)tide__sandbox_tostring(L, argument);
                lua_replace(L, argument);
            }
            bytes += lua_type(L, argument) == LUA_TSTRING ? lua_rawlen(L, argument) : 8;
        }
    }
    if (bytes > TIDE_SANDBOX_STRING_MAX) {
        return luaL_error(L, "a string of more than 1 MiB");
    }
    tide__sandbox_charge(L, tide__sandbox_of(L), 10 + bytes / 16);
    return lua_tocfunction(L, lua_upvalueindex(1))(L);
}

/* ---- the environment ---- */

/* Copies `names` from the library at `from` to the table at `to`. */
static void copy(lua_State *L, int from, int to, const char *const *names, bool charge) {
    for (; *names; names++) {
        lua_getfield(L, from, *names);
        if (charge) {
            lua_pushcclosure(L, charged, 1);
        }
        lua_setfield(L, to, *names);
    }
}

int tide__sandbox_random(lua_State *L) {
    struct tide_sandbox *s = tide__sandbox_of(L);
    int count = lua_gettop(L);
    if (count == 0) {
        lua_pushnumber(L, tide_random_uniform(&s->random));
        return 1;
    }
    if (count == 1 && luaL_checkinteger(L, 1) == 0) { /* all bits */
        lua_pushinteger(L, (lua_Integer)tide_random_next(&s->random));
        return 1;
    }
    lua_Integer least = count == 1 ? 1 : luaL_checkinteger(L, 1), most = luaL_checkinteger(L, count == 1 ? 1 : 2);
    luaL_argcheck(L, least <= most, count, "interval is empty");
    uint64_t span = (uint64_t)most - (uint64_t)least + 1;
    uint64_t drawn = span == 0 ? tide_random_next(&s->random) : tide_random_below(&s->random, span);
    lua_pushinteger(L, (lua_Integer)((uint64_t)least + drawn));
    return 1;
}

static void open_strings(lua_State *L, int globals) {
    static const char *const plain[] = {"len", NULL};
    static const char *const by_bytes[] = {"sub", "upper", "lower", "reverse", "char", NULL};
    luaL_requiref(L, "string", luaopen_string, 0);
    int library = lua_gettop(L);
    lua_createtable(L, 0, 16);
    copy(L, library, library + 1, plain, false);
    copy(L, library, library + 1, by_bytes, true);
    lua_pushcfunction(L, string_rep);
    lua_setfield(L, -2, "rep");
    lua_pushcfunction(L, string_byte);
    lua_setfield(L, -2, "byte");
    lua_getfield(L, library, "format");
    lua_pushcclosure(L, string_format, 1);
    lua_setfield(L, -2, "format");
    tide__sandbox_open_patterns(L);
    lua_pushliteral(L, "");
    lua_createtable(L, 0, 2); /* the metatable of strings */
    lua_pushvalue(L, -3);
    lua_setfield(L, -2, "__index");
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "__metatable");
    lua_setmetatable(L, -2);
    lua_pop(L, 1);
    lua_setfield(L, globals, "string");
    lua_pop(L, 1);
}

static void open_base(lua_State *L, int globals) {
    static const char *const names[] = {"assert",   "error",  "ipairs", "pcall",  "select", "getmetatable",
                                        "rawequal", "rawget", "rawlen", "rawset", "type",   NULL};
    static const char *const by_bytes[] = {"tonumber", NULL};
    static const luaL_Reg own[] = {{"pairs", base_pairs},
                                   {"print", base_print},
                                   {"setmetatable", base_setmetatable},
                                   {"tostring", base_tostring},
                                   {"xpcall", tide__sandbox_xpcall},
                                   {NULL, NULL}};
    lua_pushcfunction(L, luaopen_base); /* fills the globals of now, which are thrown away */
    lua_call(L, 0, 1);
    copy(L, lua_gettop(L), globals, names, false);
    copy(L, lua_gettop(L), globals, by_bytes, true);
    lua_pop(L, 1);
    lua_pushvalue(L, globals);
    luaL_setfuncs(L, own, 0);
    lua_pop(L, 1);
    lua_pushliteral(L, LUA_VERSION);
    lua_setfield(L, globals, "_VERSION");
}

static void open_math(lua_State *L, int globals) {
    luaL_requiref(L, "math", luaopen_math, 0);
    lua_pushnil(L);
    lua_setfield(L, -2, "randomseed");
    lua_pushcfunction(L, tide__sandbox_random);
    lua_setfield(L, -2, "random");
    lua_setfield(L, globals, "math");
}

static const luaL_Reg tables[] = {
    {"concat", table_concat}, {"insert", table_insert}, {"move", table_move},     {"pack", table_pack},
    {"remove", table_remove}, {"sort", table_sort},     {"unpack", table_unpack}, {NULL, NULL}};

static void make_ids(lua_State *L) {
    lua_newtable(L); /* ids of objects, weak */
    lua_createtable(L, 0, 1);
    lua_pushliteral(L, "k");
    lua_setfield(L, -2, "__mode");
    lua_setmetatable(L, -2);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &ids_key);
}

/* Copies all fields of the table on top of the stack into the global library, and pops it. */
static void override(lua_State *L, const char *library) {
    lua_getglobal(L, library);
    lua_pushnil(L);
    while (lua_next(L, -3)) {
        lua_pushvalue(L, -2);
        lua_insert(L, -2);
        lua_settable(L, -4);
    }
    lua_pop(L, 2);
}

/* A finalizer runs without the hook, whatever it does. */
static int setmetatable_without_gc(lua_State *L) {
    luaL_checktype(L, 1, LUA_TTABLE);
    luaL_argexpected(L, lua_isnil(L, 2) || lua_istable(L, 2), 2, "nil or table");
    lua_settop(L, 2);
    if (lua_istable(L, 2)) {
        lua_pushliteral(L, "__gc");
        if (lua_rawget(L, 2) != LUA_TNIL) {
            return luaL_error(L, "a metatable with __gc is not allowed at the prompt: it could not "
                                 "be cancelled");
        }
        lua_pop(L, 1);
    }
    if (luaL_getmetafield(L, 1, "__metatable") != LUA_TNIL) {
        return luaL_error(L, "cannot change a protected metatable");
    }
    lua_setmetatable(L, 1);
    return 1;
}

/* What could go round the hook, or block the thread: not at a prompt. */
static void take_away(lua_State *L) {
    static const char *const paths[][2] = {{"debug", "sethook"},     {"debug", "setmetatable"}, {"debug", "debug"},
                                           {"debug", "getregistry"}, {"debug", "setuservalue"}, {"os", "execute"},
                                           {"os", "exit"},           {"io", "popen"},           {"io", "read"},
                                           {"io", "lines"},          {"io", "stdin"},           {"package", "loadlib"}};
    for (size_t i = 0; i < TIDE_COUNT(paths); i++) {
        lua_getglobal(L, paths[i][0]);
        lua_pushnil(L);
        lua_setfield(L, -2, paths[i][1]);
        lua_pop(L, 1);
    }
}

/* load(chunk [, name [, mode [, env]]]) of text alone, under the limits of the evaluation. */
static int bounded_load(lua_State *L) {
    size_t size;
    const bool has_env = !lua_isnone(L, 4);
    const char *mode = luaL_optstring(L, 3, "bt");
    lua_settop(L, 4);
    if (lua_type(L, 1) == LUA_TFUNCTION) { /* the pieces that it gives, until nil or "" */
        luaL_Buffer pieces;
        luaL_buffinit(L, &pieces);
        for (;;) {
            lua_pushvalue(L, 1);
            lua_call(L, 0, 1);
            if (lua_type(L, -1) != LUA_TSTRING || lua_rawlen(L, -1) == 0) {
                break;
            }
            luaL_addvalue(&pieces);
        }
        if (!lua_isnoneornil(L, -1) && lua_type(L, -1) != LUA_TSTRING) {
            return luaL_error(L, "load: the function that gives the pieces must return strings");
        }
        lua_pop(L, 1);
        luaL_pushresult(&pieces);
        lua_replace(L, 1);
    }
    const char *source = luaL_checklstring(L, 1, &size);
    const char *name = luaL_optstring(L, 2, source);
    luaL_argcheck(L, strchr(mode, 't'), 3, "only text can be loaded at the prompt");
    if (tide__sandbox_compile(L, tide__sandbox_of(L), source, size, name) != LUA_OK) {
        lua_pushnil(L);
        lua_insert(L, -2);
        return 2;
    }
    if (has_env) {
        lua_pushvalue(L, 4);
        if (!lua_setupvalue(L, -2, 1)) {
            lua_pop(L, 1);
        }
    }
    return 1;
}

int tide__sandbox_bound(lua_State *L) {
    static const luaL_Reg strings[] = {{"rep", string_rep}, {"byte", string_byte}, {NULL, NULL}};
    luaL_newlib(L, strings);
    lua_getglobal(L, "string");
    lua_getfield(L, -1, "format");
    lua_remove(L, -2);
    lua_pushcclosure(L, string_format, 1);
    lua_setfield(L, -2, "format");
    tide__sandbox_open_patterns(L);
    override(L, "string");
    luaL_newlib(L, tables);
    override(L, "table");
    tide__sandbox_open_coroutines(L);
    override(L, "coroutine");
    lua_pushcfunction(L, setmetatable_without_gc);
    lua_setglobal(L, "setmetatable");
    lua_pushcfunction(L, tide__sandbox_xpcall);
    lua_setglobal(L, "xpcall");
    lua_pushcfunction(L, bounded_load);
    lua_setglobal(L, "load");
    take_away(L);
    make_ids(L);
    return 0;
}

int tide__sandbox_environment(lua_State *L) {
    static const char *const status[] = {"status", NULL};
    lua_settop(L, 0);
    lua_createtable(L, 0, 32);
    open_base(L, 1);
    open_strings(L, 1);
    open_math(L, 1);
    luaL_newlib(L, tables);
    lua_setfield(L, 1, "table");
    luaL_requiref(L, "coroutine", luaopen_coroutine, 0);
    tide__sandbox_open_coroutines(L);
    copy(L, 2, 3, status, false);
    lua_setfield(L, 1, "coroutine");
    lua_settop(L, 1);
    lua_pushvalue(L, 1);
    lua_setfield(L, 1, "_G");
    lua_rawseti(L, LUA_REGISTRYINDEX, LUA_RIDX_GLOBALS);
    lua_pushnil(L); /* what the libraries left: unreachable, but that should not matter */
    lua_setfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    make_ids(L);
    return 0;
}
