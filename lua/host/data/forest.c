/*
 * Forests in Lua: read from files or strings, or generated; what scripts ask of them. A forest is not
 * changed once it is made.
 */
#include "sources.h"

#include "lua/host/kernel/program.h"
#include "names.h"
#include "readers/forest.h"
#include "readers/gzip.h"
#include "readers/word_vectors.h"

#include <string.h>

enum { UNPACKED_MAX = 1 << 30 };

static const char forest_metatable; /* its address is a registry key */

const struct tide_forest *tide__lua_forest_check(lua_State *L, int index) {
    struct tide_forest **own = tide__lua_handle_check(L, index, &forest_metatable, "forest");
    return *own;
}

/* Pushes the place of a forest, so that what is made next cannot be lost. */
static struct tide_forest **push_forest(lua_State *L) {
    struct tide_forest **own = lua_newuserdatauv(L, sizeof(struct tide_forest *), 0);
    *own = NULL;
    lua_rawgetp(L, LUA_REGISTRYINDEX, &forest_metatable);
    lua_setmetatable(L, -2);
    return own;
}

static int forest_gc(lua_State *L) {
    struct tide_forest **own = lua_touserdata(L, 1);
    tide_forest_destroy(*own);
    *own = NULL;
    return 0;
}

static lua_Integer integer_field(lua_State *L, int index, const char *name, lua_Integer otherwise) {
    lua_getfield(L, index, name);
    lua_Integer value = luaL_optinteger(L, -1, otherwise);
    lua_pop(L, 1);
    return value;
}

/* core.forest_generate{name=, samples=, vocabulary=, seed=, max=, leaves=, skew=} */
static int core_forest_generate(lua_State *L) {
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_getfield(L, 1, "name");
    struct tide_forest_law law = {.name = luaL_checkstring(L, -1)};
    lua_Integer samples = integer_field(L, 1, "samples", 0), seed = integer_field(L, 1, "seed", 1);
    lua_Integer numbers[4] = {integer_field(L, 1, "vocabulary", 0), integer_field(L, 1, "max", 0),
                              integer_field(L, 1, "leaves", 0), integer_field(L, 1, "skew", 0)};
    uint32_t *to[4] = {&law.vocabulary, &law.max, &law.leaves, &law.skew};
    for (size_t i = 0; i < 4; i++) {
        luaL_argcheck(L, numbers[i] >= 0 && numbers[i] < INT32_MAX, 1, "has a number that is out of range");
        *to[i] = (uint32_t)numbers[i];
    }
    law.samples = samples > 0 ? (size_t)samples : 0;
    law.seed = (uint64_t)seed;
    struct tide_forest **own = push_forest(L);
    int code = tide_forest_generate(&law, own);
    return code == 0 ? 1 : tide__lua_failure(L, code);
}

/* ---- reading ---- */

/* What was packed by gzip is unpacked in place. */
static int unpack(struct tide_lua_sources *sources) {
    for (size_t i = 0; i < sources->count; i++) {
        struct tide_text *text = &sources->texts[i];
        uint8_t *bytes = NULL;
        size_t size = 0;
        if (!tide_gzip_is(text->data, text->size)) {
            continue;
        }
        int code = tide_gzip_unpack(text->data, text->size, UNPACKED_MAX, &bytes, &size);
        if (code != 0) {
            char reason[200];
            snprintf(reason, sizeof(reason), "%s", tide_error_message());
            return tide_fail(TIDE_EPROTO, "%s: %s", text->name, reason);
        }
        tide_free(sources->data[i]);
        sources->data[i] = (char *)bytes;
        text->data = bytes;
        text->size = size;
    }
    return 0;
}

struct forest_reading {
    struct tide_lua_sources sources;
    struct tide_dictionary words;
    struct tide_forest *parts[TIDE_SOURCES_MAX];
    size_t count;
};

/* In a protected call: {parts = {forest, ..}, words = {..}} of light userdata 1. */
static int push_reading(lua_State *L) {
    struct forest_reading *r = lua_touserdata(L, 1);
    lua_createtable(L, 0, 2);
    lua_createtable(L, (int)r->count, 0);
    for (size_t i = 0; i < r->count; i++) {
        struct tide_forest **own = push_forest(L);
        *own = r->parts[i];
        r->parts[i] = NULL;
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    lua_setfield(L, -2, "parts");
    tide__lua_push_names(L, &r->words.names);
    lua_setfield(L, -2, "words");
    return 1;
}

/* core.forest({source..}, {format=, classes=}): a source a part ("stanford": three); words are those
 * of the first part */
static int core_forest(lua_State *L) {
    lua_settop(L, 2);
    luaL_checktype(L, 2, LUA_TTABLE);
    lua_getfield(L, 2, "format");
    const char *name = luaL_checkstring(L, -1);
    lua_Integer classes = integer_field(L, 2, "classes", 0);
    luaL_argcheck(L, classes >= 0 && classes < INT32_MAX, 2, "has classes that are out of range");
    tide__lua_sources_check(L, "forest", "1 to 16 sources", TIDE_SOURCES_MAX);
    struct forest_reading r = {.count = 0};
    struct tide_forest_format format = {.name = name, .classes = (uint32_t)classes, .words = &r.words};
    size_t each = strcmp(name, "stanford") == 0 ? 3 : 1;
    int code = tide__lua_sources_read(L, &r.sources);
    code = code < 0 ? code : unpack(&r.sources);
    for (size_t at = 0; code == 0 && at < r.sources.count; at += each) {
        size_t left = r.sources.count - at;
        format.grow = r.count == 0;
        code = tide_forest_read(&format, r.sources.texts + at, left < each ? left : each, &r.parts[r.count]);
        r.count += code == 0;
    }
    tide__lua_sources_release(&r.sources);
    int status = LUA_OK;
    if (code == 0) {
        lua_pushcfunction(L, push_reading);
        lua_pushlightuserdata(L, &r);
        status = lua_pcall(L, 1, 1, 0);
    }
    for (size_t i = 0; i < r.count; i++) {
        tide_forest_destroy(r.parts[i]);
    }
    tide_dictionary_release(&r.words);
    return code != 0 ? tide__lua_failure(L, code) : status == LUA_OK ? 1 : lua_error(L);
}

/* ---- word vectors ---- */

static int feed_vectors(void *arg, const char *data, size_t size) {
    return tide_word_vectors_feed(arg, data, size);
}

/* core.word_vectors(path, {word, ..}) -> u64 tensor of the numbers (from 0) of the words that it has,
 * f32 tensor of their rows | nil, err */
static int core_word_vectors(lua_State *L) {
    const char *path = luaL_checkstring(L, 1);
    luaL_checktype(L, 2, LUA_TTABLE);
    lua_settop(L, 2);
    struct tide_dictionary wanted = {0};
    struct tide_word_vectors *v = NULL;
    int code = 0;
    for (size_t i = 1; code == 0 && i <= lua_rawlen(L, 2); i++) {
        size_t size = 0;
        uint32_t index = 0;
        lua_rawgeti(L, 2, (lua_Integer)i);
        const char *word = lua_tolstring(L, -1, &size);
        code = word ? tide_dictionary_add(&wanted, word, size, &index) : tide_fail(TIDE_EINVAL, "a word is no string");
        lua_pop(L, 1);
    }
    code = code == 0 ? tide_word_vectors_create(path, &wanted, &v) : code;
    code = code == 0 ? tide__lua_sources_stream(L, path, (struct tide_sink){v, feed_vectors}) : code;
    code = code == 0 ? tide_word_vectors_end(v) : code;
    int results = code == 0 ? 2 : tide__lua_failure(L, code);
    if (code == 0) {
        const uint32_t *words = NULL;
        const float *values = NULL;
        size_t columns = 0, found = tide_word_vectors_found(v, &words, &values, &columns);
        struct tide_lua_tensor *ids = tide__lua_tensor_new(L, TIDE_U64, found, 1);
        struct tide_lua_tensor *rows = tide__lua_tensor_new(L, TIDE_F32, found, columns);
        for (size_t i = 0; i < found; i++) {
            ((uint64_t *)ids->t.data)[i] = words[i];
        }
        if (found > 0) {
            memcpy(rows->t.data, values, found * columns * sizeof(*values));
        }
    }
    tide_word_vectors_destroy(v);
    tide_dictionary_release(&wanted);
    return results;
}

/* ---- what scripts ask ---- */

/* forest:size() -> samples, vertices, edges */
static int forest_size(lua_State *L) {
    const struct tide_forest *f = tide__lua_forest_check(L, 1);
    lua_pushinteger(L, (lua_Integer)f->samples);
    lua_pushinteger(L, (lua_Integer)f->vertices);
    lua_pushinteger(L, (lua_Integer)f->edges);
    return 3;
}

/* forest:inputs() -> {{name=, edge=, index=, columns=, below=}} */
static int forest_inputs(lua_State *L) {
    const struct tide_forest *f = tide__lua_forest_check(L, 1);
    lua_newtable(L);
    for (size_t i = 0; i < f->input_count; i++) {
        const struct tide_forest_input *in = &f->inputs[i];
        lua_createtable(L, 0, 5);
        lua_pushstring(L, in->name);
        lua_setfield(L, -2, "name");
        lua_pushboolean(L, in->edge);
        lua_setfield(L, -2, "edge");
        lua_pushboolean(L, in->index);
        lua_setfield(L, -2, "index");
        tide__lua_set_integer(L, "columns", in->columns);
        tide__lua_set_integer(L, "below", in->below);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    return 1;
}

/* forest:input(name) -> tensor (a copy): a row a vertex, or an edge */
static int forest_input(lua_State *L) {
    const struct tide_forest *f = tide__lua_forest_check(L, 1);
    const struct tide_forest_input *in = tide_forest_find(f, luaL_checkstring(L, 2));
    if (!in) {
        return luaL_error(L, "the forest has no input \"%s\"", lua_tostring(L, 2));
    }
    size_t rows = in->edge ? f->edges : f->vertices;
    struct tide_lua_tensor *t = tide__lua_tensor_new(L, in->index ? TIDE_I32 : TIDE_F32, rows, in->columns);
    if (rows > 0) {
        memcpy(t->t.data, in->data, rows * in->columns * 4);
    }
    return 1;
}

/* forest:weights() -> u32 tensor: vertices of each sample */
static int forest_weights(lua_State *L) {
    const struct tide_forest *f = tide__lua_forest_check(L, 1);
    struct tide_lua_tensor *t = tide__lua_tensor_new(L, TIDE_U32, f->samples, 1);
    for (size_t s = 0; s < f->samples; s++) {
        ((uint32_t *)t->t.data)[s] = f->sample_start[s + 1] - f->sample_start[s];
    }
    return 1;
}

/* forest:sample(number from 1) -> {children = {{number of its vertices from 1, ..}, ..}, height=} */
static int forest_sample(lua_State *L) {
    const struct tide_forest *f = tide__lua_forest_check(L, 1);
    lua_Integer s = luaL_checkinteger(L, 2);
    luaL_argcheck(L, s >= 1 && (size_t)s <= f->samples, 2, "there is no such sample");
    size_t from = f->sample_start[s - 1], to = f->sample_start[s];
    uint32_t height = 0;
    lua_createtable(L, 0, 3);
    lua_createtable(L, (int)(to - from), 0);
    for (size_t v = from; v < to; v++) {
        lua_newtable(L);
        for (uint32_t e = f->child_start[v]; e < f->child_start[v + 1]; e++) {
            lua_pushinteger(L, f->child[e] + 1);
            lua_rawseti(L, -2, (lua_Integer)(e - f->child_start[v]) + 1);
        }
        lua_rawseti(L, -2, (lua_Integer)(v - from) + 1);
        height = f->height[v] > height ? f->height[v] : height;
    }
    lua_setfield(L, -2, "children");
    tide__lua_set_integer(L, "first", from + 1);
    tide__lua_set_integer(L, "height", height);
    return 1;
}

/* Which numbers of kinds the names of a table at `index` are, as bits; nil: all. */
static uint32_t check_kinds(lua_State *L, const struct tide_forest *f, int index) {
    char names[TIDE_FOREST_KINDS][TIDE_FOREST_NAME];
    int of[TIDE_FOREST_KINDS];
    uint32_t bits = 0;
    if (lua_isnoneornil(L, index)) {
        return UINT32_MAX;
    }
    luaL_checktype(L, index, LUA_TTABLE);
    size_t count = lua_rawlen(L, index);
    luaL_argcheck(L, count <= TIDE_FOREST_KINDS, index, "has more than 8 kinds");
    for (size_t i = 0; i < count; i++) {
        lua_rawgeti(L, index, (lua_Integer)i + 1);
        snprintf(names[i], sizeof(names[i]), "%s", luaL_checkstring(L, -1));
        lua_pop(L, 1);
    }
    tide_forest_find_kinds(f, count, (const char(*)[TIDE_FOREST_NAME])names, of);
    for (size_t i = 0; i < count; i++) {
        bits |= of[i] >= 0 ? 1u << of[i] : 0;
    }
    return bits;
}

/* forest:counted(index|nil, order|nil, first from 1, count, {kind, ..}|nil): vertices of these samples,
 * and kinds, whose index is not -1, or all */
static int forest_counted(lua_State *L) {
    const struct tide_forest *f = tide__lua_forest_check(L, 1);
    const char *name = luaL_optstring(L, 2, NULL);
    const struct tide_forest_input *in = name ? tide_forest_find(f, name) : NULL;
    const struct tide_lua_tensor *order = lua_isnoneornil(L, 3) ? NULL : tide__lua_tensor_check(L, 3);
    lua_Integer first = luaL_checkinteger(L, 4), count = luaL_checkinteger(L, 5), sum = 0;
    if (name && (!in || !in->index || in->edge)) {
        return luaL_error(L, "the forest has no index \"%s\" of its vertices", name);
    }
    size_t most = order ? tide__lua_tensor_count(order) : f->samples;
    uint32_t kinds = check_kinds(L, f, 6);
    luaL_argcheck(
        L, (!order || order->t.type == TIDE_U32) && first >= 1 && count >= 0 && (size_t)(first - 1 + count) <= most, 4,
        "is out of range");
    for (lua_Integer i = 0; i < count; i++) {
        size_t s = (size_t)(first - 1 + i);
        s = order ? ((const uint32_t *)order->t.data)[s] : s;
        luaL_argcheck(L, s < f->samples, 3, "has a number beyond the last sample");
        for (size_t v = f->sample_start[s]; v < f->sample_start[s + 1]; v++) {
            bool of = kinds == UINT32_MAX || (kinds >> tide_forest_kind(f, v) & 1);
            sum += of && (!in || ((const int32_t *)in->data)[v * in->columns] >= 0);
        }
    }
    lua_pushinteger(L, sum);
    return 1;
}

/* forest:pick(order|nil) -> a copy of these samples */
static int forest_pick(lua_State *L) {
    const struct tide_forest *f = tide__lua_forest_check(L, 1);
    const struct tide_lua_tensor *order = lua_isnoneornil(L, 2) ? NULL : tide__lua_tensor_check(L, 2);
    luaL_argcheck(L, !order || order->t.type == TIDE_U32, 2, "is no u32 tensor");
    struct tide_forest **own = push_forest(L);
    int code =
        tide_forest_pick(f, order ? order->t.data : NULL, order ? tide__lua_tensor_count(order) : f->samples, own);
    return code == 0 ? 1 : tide__lua_raise(L, code);
}

/* forest:roots(index) -> a copy whose index is -1 but at roots */
static int forest_roots(lua_State *L) {
    const struct tide_forest *f = tide__lua_forest_check(L, 1);
    const char *name = luaL_checkstring(L, 2);
    struct tide_forest **own = push_forest(L);
    int code = tide_forest_roots(f, name, own);
    return code == 0 ? 1 : tide__lua_failure(L, code);
}

/* forest:below(index, n): its indices become those of 0 .. n - 1; false: they go beyond */
static int forest_below(lua_State *L) {
    struct tide_forest **own = lua_touserdata(L, 1);
    const struct tide_forest_input *in = tide_forest_find(tide__lua_forest_check(L, 1), luaL_checkstring(L, 2));
    lua_Integer below = luaL_checkinteger(L, 3);
    bool fits = in && in->index && below > 0 && below <= INT32_MAX && in->below <= below;
    if (fits) {
        (*own)->inputs[in - (*own)->inputs].below = (uint32_t)below;
    }
    lua_pushboolean(L, fits);
    return 1;
}

void tide__lua_open_forest(lua_State *L) {
    static const luaL_Reg functions[] = {{"forest", core_forest},
                                         {"forest_generate", core_forest_generate},
                                         {"word_vectors", core_word_vectors},
                                         {NULL, NULL}};
    static const luaL_Reg methods[] = {{"size", forest_size},       {"inputs", forest_inputs},
                                       {"input", forest_input},     {"weights", forest_weights},
                                       {"sample", forest_sample},   {"pick", forest_pick},
                                       {"roots", forest_roots},     {"below", forest_below},
                                       {"counted", forest_counted}, {NULL, NULL}};
    tide__lua_handle_class(L, &forest_metatable, "tide.forest", methods, forest_gc);
    luaL_setfuncs(L, functions, 0);
}
