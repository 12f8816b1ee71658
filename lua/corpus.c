/* Running text for Lua: word numbers of files or strings, and the glosses of WordNet as text. */
#include "host.h"

#include "corpus.h"

#include <string.h>

enum { SOURCES_MAX = 16 };

struct corpus_reading {
    struct tide_text texts[SOURCES_MAX];
    char *data[SOURCES_MAX]; /* of files */
    size_t count;
    struct tide_corpus corpus;
};

static int add_file(lua_State *L, struct corpus_reading *reading, const char *path) {
    struct tide_text *text = &reading->texts[reading->count];
    char **data = &reading->data[reading->count];
    text->name = path;
    int code = tide__lua_file_read(tide__lua_host(L)->port, path, data, &text->size);
    text->data = *data;
    reading->count += code == 0;
    return code;
}

static void release_texts(struct corpus_reading *reading) {
    for (size_t i = 0; i < reading->count; i++) {
        tide_free(reading->data[i]);
    }
}

/* Before anything is read: the sources are paths, or tables of two strings. */
static size_t check_sources(lua_State *L) {
    luaL_checktype(L, 1, LUA_TTABLE);
    size_t count = lua_rawlen(L, 1);
    if (count < 1 || count > SOURCES_MAX) {
        luaL_error(L, "corpus: 1 to %d sources, not %I", SOURCES_MAX, (lua_Integer)count);
    }
    for (size_t i = 1; i <= count; i++) {
        bool fits = lua_rawgeti(L, 1, (lua_Integer)i) == LUA_TSTRING;
        if (!fits && lua_istable(L, -1)) {
            fits = lua_getfield(L, -1, "name") == LUA_TSTRING;
            fits = lua_getfield(L, -2, "text") == LUA_TSTRING && fits;
            lua_pop(L, 2);
        }
        if (!fits) {
            luaL_error(L, "corpus: source %I is not a path or {name=, text=}", (lua_Integer)i);
        }
        lua_pop(L, 1);
    }
    return count;
}

/* The source on top of the stack; what it needs stays there. */
static int add_source(lua_State *L, struct corpus_reading *reading) {
    if (lua_type(L, -1) == LUA_TSTRING) {
        return add_file(L, reading, lua_tostring(L, -1));
    }
    struct tide_text *text = &reading->texts[reading->count++];
    int source = lua_gettop(L);
    lua_getfield(L, source, "name");
    lua_getfield(L, source, "text");
    text->name = lua_tostring(L, -2);
    text->data = lua_tolstring(L, -1, &text->size);
    return 0;
}

/* In a protected call: the result table of a struct corpus_reading at light userdata 1. */
static int push_corpus(lua_State *L) {
    const struct corpus_reading *reading = lua_touserdata(L, 1);
    const struct tide_corpus *c = &reading->corpus;
    lua_createtable(L, 0, 5);
    lua_createtable(L, c->words.count < INT32_MAX ? (int)c->words.count : 0, 0);
    for (size_t i = 0; i < c->words.count; i++) {
        lua_pushlstring(L, c->words.pool + c->words.offsets[i],
                        c->words.offsets[i + 1] - c->words.offsets[i] - 1);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    lua_setfield(L, -2, "words");
    struct tide_lua_tensor *counts = tide__lua_tensor_new(L, TIDE_U64, c->words.count, 1);
    memcpy(counts->t.data, c->counts, c->words.count * sizeof *c->counts);
    lua_setfield(L, -2, "counts");
    struct tide_lua_tensor *tokens = tide__lua_tensor_new(L, TIDE_U32, c->token_count, 1);
    memcpy(tokens->t.data, c->tokens, c->token_count * sizeof *c->tokens);
    lua_setfield(L, -2, "tokens");
    lua_pushinteger(L, (lua_Integer)c->dropped_words);
    lua_setfield(L, -2, "dropped_words");
    lua_pushinteger(L, (lua_Integer)c->dropped_tokens);
    lua_setfield(L, -2, "dropped_tokens");
    return 1;
}

/* core.corpus({source...}[, {min_count =}]) */
static int core_corpus(lua_State *L) {
    lua_settop(L, 2);
    lua_Integer min_count = 1;
    if (!lua_isnil(L, 2)) {
        luaL_checktype(L, 2, LUA_TTABLE);
        lua_getfield(L, 2, "min_count");
        min_count = luaL_optinteger(L, -1, 1);
        luaL_argcheck(L, min_count >= 1, 2, "min_count is at least 1");
    }
    size_t count = check_sources(L);
    struct corpus_reading reading = {0};
    int code = 0, status = LUA_OK;
    luaL_checkstack(L, 3 * SOURCES_MAX, "sources of a corpus");
    for (size_t i = 0; i < count && code == 0; i++) {
        lua_rawgeti(L, 1, (lua_Integer)i + 1);
        code = add_source(L, &reading);
    }
    code = code < 0 ? code
                    : tide_corpus_read(reading.texts, reading.count, (uint64_t)min_count,
                                       &reading.corpus);
    release_texts(&reading);
    if (code < 0) {
        return tide__lua_failure(L, code);
    }
    lua_pushcfunction(L, push_corpus);
    lua_pushlightuserdata(L, &reading);
    status = lua_pcall(L, 1, 1, 0);
    tide_corpus_release(&reading.corpus);
    return status == LUA_OK ? 1 : lua_error(L);
}

struct text_result {
    char *text;
    size_t size;
};

static int push_text(lua_State *L) {
    const struct text_result *result = lua_touserdata(L, 1);
    lua_pushlstring(L, result->text, result->size);
    return 1;
}

/* core.glosses(directory) */
static int core_glosses(lua_State *L) {
    static const char *const files[TIDE_WORDNET_FILES] = {"data.noun", "data.verb", "data.adj",
                                                          "data.adv"};
    const char *directory = luaL_checkstring(L, 1);
    struct corpus_reading reading = {0};
    struct text_result result = {0};
    int code = 0, status = LUA_OK;
    for (size_t i = 0; i < TIDE_WORDNET_FILES && code == 0; i++) {
        code = add_file(L, &reading, lua_pushfstring(L, "%s/%s", directory, files[i]));
    }
    code = code < 0 ? code : tide_wordnet_glosses(reading.texts, &result.text, &result.size);
    release_texts(&reading);
    if (code < 0) {
        return tide__lua_failure(L, code);
    }
    lua_pushcfunction(L, push_text);
    lua_pushlightuserdata(L, &result);
    status = lua_pcall(L, 1, 1, 0);
    tide_free(result.text);
    return status == LUA_OK ? 1 : lua_error(L);
}

void tide__lua_open_corpus(lua_State *L) {
    static const luaL_Reg functions[] = {
        {"corpus", core_corpus}, {"glosses", core_glosses}, {NULL, NULL}};
    luaL_setfuncs(L, functions, 0);
}
