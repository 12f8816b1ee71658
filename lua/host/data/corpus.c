/* Running text for Lua: word numbers of files or strings, and the glosses of WordNet as text. */
#include "sources.h"

#include "readers/corpus.h"

#include <string.h>

/* In a protected call: the result table of a struct tide_corpus at light userdata 1. */
static int push_corpus(lua_State *L) {
    const struct tide_corpus *c = lua_touserdata(L, 1);
    lua_createtable(L, 0, 5);
    tide__lua_push_names(L, &c->words);
    lua_setfield(L, -2, "words");
    struct tide_lua_tensor *counts = tide__lua_tensor_new(L, TIDE_U64, c->words.count, 1);
    memcpy(counts->t.data, c->counts, c->words.count * sizeof *c->counts);
    lua_setfield(L, -2, "counts");
    struct tide_lua_tensor *tokens = tide__lua_tensor_new(L, TIDE_U32, c->token_count, 1);
    memcpy(tokens->t.data, c->tokens, c->token_count * sizeof *c->tokens);
    lua_setfield(L, -2, "tokens");
    tide__lua_set_integer(L, "dropped_words", c->dropped_words);
    tide__lua_set_integer(L, "dropped_tokens", c->dropped_tokens);
    return 1;
}

/* core.corpus({source...}[, {min_count =, format = "text"}]) */
static int core_corpus(lua_State *L) {
    lua_settop(L, 2);
    lua_Integer min_count = 1;
    bool plain = false;
    if (!lua_isnil(L, 2)) {
        luaL_checktype(L, 2, LUA_TTABLE);
        lua_getfield(L, 2, "min_count");
        min_count = luaL_optinteger(L, -1, 1);
        luaL_argcheck(L, min_count >= 1, 2, "min_count is at least 1");
        plain = lua_getfield(L, 2, "format") != LUA_TNIL;
    }
    tide__lua_sources_check(L, "corpus", "1 to 16 sources", TIDE_SOURCES_MAX);
    struct tide_lua_sources sources = {0};
    struct tide_corpus corpus = {0};
    int code = tide__lua_sources_read(L, &sources);
    code = code < 0 ? code : tide_corpus_read(sources.texts, sources.count, (uint64_t)min_count, plain, &corpus);
    tide__lua_sources_release(&sources);
    if (code < 0) {
        return tide__lua_failure(L, code);
    }
    lua_pushcfunction(L, push_corpus);
    lua_pushlightuserdata(L, &corpus);
    int status = lua_pcall(L, 1, 1, 0);
    tide_corpus_release(&corpus);
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

/* core.glosses(directory[, a line each synset]) */
static int core_glosses(lua_State *L) {
    static const char *const files[TIDE_WORDNET_FILES] = {"data.noun", "data.verb", "data.adj", "data.adv"};
    const char *directory = luaL_checkstring(L, 1);
    const bool whole = lua_toboolean(L, 2);
    struct tide_lua_sources sources = {0};
    struct text_result result = {0};
    int code = 0, status = LUA_OK;
    for (size_t i = 0; i < TIDE_WORDNET_FILES && code == 0; i++) {
        code = tide__lua_sources_file(L, &sources, lua_pushfstring(L, "%s/%s", directory, files[i]));
    }
    code = code < 0 ? code : tide_wordnet_glosses(sources.texts, whole, &result.text, &result.size);
    tide__lua_sources_release(&sources);
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
    static const luaL_Reg functions[] = {{"corpus", core_corpus}, {"glosses", core_glosses}, {NULL, NULL}};
    luaL_setfuncs(L, functions, 0);
}
