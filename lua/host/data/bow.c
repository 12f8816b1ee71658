/*
 * Bags of words for Lua: core.bow reads files by blocks, packed by gzip or not, or strings, and
 * cuts the test documents off. The result is tensors; what the reader gave is freed before Lua can
 * raise.
 */
#include "lua/host/data/sources.h"

#include "readers/bow.h"
#include "readers/gzip.h"
#include "readers/words.h"

#include <string.h>

enum { TRAIN, TEST, PARTS };

struct bow_reading {
    struct tide_bow all, parts[PARTS];
    struct tide_lua_sources extra; /* stop words, vocabulary */
};

static int feed(void *reader, const char *data, size_t size) {
    return tide_bow_feed(reader, data, size);
}

static int read_source(lua_State *L, struct tide_bow_reader *reader) {
    struct tide_sink sink = {reader, feed};
    int source = lua_gettop(L), code;
    if (lua_type(L, source) == LUA_TSTRING) {
        const char *path = lua_tostring(L, source);
        code = tide_bow_begin(reader, path);
        code = code ? code : tide__lua_sources_stream(L, path, sink);
    } else {
        size_t size;
        lua_getfield(L, source, "name");
        lua_getfield(L, source, "text"); /* both stay on the stack while the reader uses them */
        const char *text = lua_tolstring(L, -1, &size);
        code = tide_bow_begin(reader, lua_tostring(L, -2));
        code = code ? code : tide_bow_feed(reader, text, size);
    }
    return code ? code : tide_bow_end(reader);
}

static void split(struct tide_bow *all, double share, uint64_t seed, uint8_t *chosen) {
    for (size_t d = 0; d < all->documents; d++) {
        const uint64_t drawn = tide_mix64(tide_mix64(seed) ^ d) >> 11;
        chosen[d] = (double)drawn * 0x1p-53 < share ? TEST : TRAIN;
    }
}

/* Documents of a tail go to the test where `last` > 0, else those that the seed draws. */
static int cut(struct bow_reading *r, double share, uint64_t last, uint64_t seed) {
    uint8_t *chosen = tide_alloc_zero(r->all.documents + 1, 1);
    int code = chosen ? 0 : TIDE_ENOMEM;
    if (code == 0 && last > 0) {
        for (uint64_t i = 0; i < last && i < r->all.documents; i++) {
            chosen[r->all.documents - 1 - i] = TEST;
        }
    } else if (code == 0) {
        split(&r->all, share, seed, chosen);
    }
    for (uint8_t i = 0; i < PARTS && code == 0; i++) {
        code = tide_bow_pick(&r->all, chosen, i, &r->parts[i]);
    }
    tide_free(chosen);
    if (code == 0 && r->parts[TRAIN].tokens == 0) {
        code = tide_fail(TIDE_EINVAL, "test: no document is left to train on");
    }
    return code;
}

/* ---- results ---- */

static void push_array(lua_State *L, const char *field, int type, size_t count, const void *data, size_t element) {
    struct tide_lua_tensor *tensor = tide__lua_tensor_new(L, type, count, 1);
    if (count > 0) {
        memcpy(tensor->t.data, data, count * element);
    }
    lua_setfield(L, -2, field);
}

static const char *const formats[TIDE_BOW_FORMATS + 1] = {
    [TIDE_BOW_AUTO] = "auto",          [TIDE_BOW_UCI] = "uci",   [TIDE_BOW_LDAC] = "ldac",
    [TIDE_BOW_PAIRS] = "pairs",        [TIDE_BOW_TEXT] = "text", [TIDE_BOW_COUNTS] = "counts",
    [TIDE_BOW_MARKET] = "matrixmarket"};

/* In a protected call: the result table of a struct bow_reading at light userdata 1. */
static int push_bow(lua_State *L) {
    const struct bow_reading *r = lua_touserdata(L, 1);
    static const char *const names[PARTS] = {"train", "test"};
    lua_createtable(L, 0, 8);
    for (size_t i = 0; i < PARTS; i++) {
        const struct tide_bow *part = &r->parts[i];
        lua_createtable(L, 0, 2);
        push_array(L, "offsets", TIDE_U64, part->documents + 1, part->offsets, sizeof *part->offsets);
        push_array(L, "words", TIDE_U32, part->tokens, part->words, sizeof *part->words);
        lua_setfield(L, -2, names[i]);
    }
    if (r->all.names.pool) {
        tide__lua_push_names(L, &r->all.names);
        lua_setfield(L, -2, "names");
    }
    push_array(L, "counts", TIDE_U64, r->all.names.count, r->all.counts, sizeof *r->all.counts);
    tide__lua_set_integer(L, "vocabulary", r->all.names.count);
    lua_pushstring(L, formats[r->all.format]);
    lua_setfield(L, -2, "format");
    tide__lua_set_integer(L, "base", r->all.base);
    tide__lua_set_integer(L, "empty", r->all.empty);
    tide__lua_set_integer(L, "dropped_words", r->all.dropped_words);
    tide__lua_set_integer(L, "dropped_tokens", r->all.dropped_tokens);
    return 1;
}

/* ---- options ---- */

static uint64_t whole_field(lua_State *L, const char *name, lua_Integer otherwise, lua_Integer most) {
    lua_getfield(L, 2, name);
    lua_Integer value = luaL_optinteger(L, -1, otherwise);
    if (value < 0 || value > most) {
        luaL_error(L, "bow: %s is 0 to %I", name, most);
    }
    lua_pop(L, 1);
    return (uint64_t)value;
}

static double share_field(lua_State *L, const char *name, double most) {
    lua_getfield(L, 2, name);
    double value = luaL_optnumber(L, -1, 0);
    if (!(value >= 0 && value <= most)) {
        luaL_error(L, "bow: %s is a share of the documents", name);
    }
    lua_pop(L, 1);
    return value;
}

/* A path, or {name=, text=}; the strings stay on the stack. */
static int extra_text(lua_State *L, const char *field, struct tide_lua_sources *extra, const struct tide_text **out) {
    int type = lua_getfield(L, 2, field);
    if (type == LUA_TNIL) {
        return 0;
    }
    struct tide_text *text = &extra->texts[extra->count];
    *out = text;
    if (type == LUA_TSTRING) {
        return tide__lua_sources_file(L, extra, lua_tostring(L, -1));
    }
    luaL_argcheck(L, type == LUA_TTABLE, 2, "stop and vocabulary are paths or {name=, text=}");
    int at = lua_gettop(L);
    lua_getfield(L, at, "name");
    lua_getfield(L, at, "text");
    text->name = luaL_checkstring(L, -2);
    text->data = luaL_checklstring(L, -1, &text->size);
    extra->count++;
    return 0;
}

/* core.bow({source...}, {format=, base=, keep_case=, skip=, min_count=, max_share=, stop=, vocabulary=,
 * test=, test_last=, seed=}) */
static int core_bow(lua_State *L) {
    lua_settop(L, 2);
    luaL_checktype(L, 2, LUA_TTABLE);
    tide__lua_sources_check(L, "bow", "1 to 16 sources", TIDE_SOURCES_MAX);
    luaL_checkstack(L, 3 * TIDE_SOURCES_MAX + 16, "sources");
    struct tide_bow_options o = {.skip = (uint32_t)whole_field(L, "skip", 0, 1000),
                                 .min_count = whole_field(L, "min_count", 1, INT64_MAX),
                                 .max_share = share_field(L, "max_share", 1)};
    const double share = share_field(L, "test", 0.99);
    const uint64_t last = whole_field(L, "test_last", 0, INT64_MAX), seed = whole_field(L, "seed", 1, INT64_MAX);
    lua_getfield(L, 2, "format");
    o.format = (enum tide_bow_format)luaL_checkoption(L, -1, "auto", formats);
    lua_getfield(L, 2, "keep_case");
    o.keep_case = lua_toboolean(L, -1);
    o.based = lua_getfield(L, 2, "base") != LUA_TNIL;
    o.base = (uint32_t)whole_field(L, "base", 0, 1);
    struct bow_reading reading = {0};
    struct tide_bow_reader *reader = NULL;
    int status = LUA_OK, code = extra_text(L, "stop", &reading.extra, &o.stop);
    code = code ? code : extra_text(L, "vocabulary", &reading.extra, &o.vocabulary);
    code = code ? code : tide_bow_open(&o, &reader);
    const size_t count = lua_rawlen(L, 1);
    for (size_t i = 1; i <= count && code == 0; i++) {
        lua_rawgeti(L, 1, (lua_Integer)i);
        code = read_source(L, reader);
    }
    code = code ? code : tide_bow_finish(reader, &reading.all);
    tide_bow_close(reader);
    code = code ? code : cut(&reading, share, last, seed);
    if (code == 0) {
        lua_pushcfunction(L, push_bow);
        lua_pushlightuserdata(L, &reading);
        status = lua_pcall(L, 1, 1, 0);
    }
    tide_bow_release(&reading.all);
    for (size_t i = 0; i < PARTS; i++) {
        tide_bow_release(&reading.parts[i]);
    }
    tide__lua_sources_release(&reading.extra);
    if (code < 0) {
        return tide__lua_failure(L, code);
    }
    return status == LUA_OK ? 1 : lua_error(L);
}

/* core.words(text[, keep_case]) -> its words, as core.bow finds them */
static int core_words(lua_State *L) {
    size_t size, length;
    const char *at = luaL_checklstring(L, 1, &size), *end = at + size, *word;
    const bool lower = !lua_toboolean(L, 2);
    lua_settop(L, 2);
    lua_newtable(L);
    for (lua_Integer i = 1; tide_words_next(&at, end, &word, &length); i++) {
        luaL_Buffer b;
        char *out = luaL_buffinitsize(L, &b, length);
        luaL_pushresultsize(&b, tide_words_write(word, length, lower, out));
        lua_rawseti(L, 3, i);
    }
    return 1;
}

void tide__lua_open_bow(lua_State *L) {
    static const luaL_Reg functions[] = {{"bow", core_bow}, {"words", core_words}, {NULL, NULL}};
    luaL_setfuncs(L, functions, 0);
}
