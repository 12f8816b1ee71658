/*
 * Bags of words for Lua: core.bow reads files by blocks, packed by gzip or not, or strings, and
 * cuts the test documents off. The result is tensors, or with a spool the words to train on are in a file: `words`
 * gives slices of them. What the reader gave is freed before Lua can raise.
 */
#include "lua/host/data/sources.h"
#include "lua/host/data/spool.h"

#include "readers/bow.h"
#include "readers/gzip.h"
#include "readers/words.h"
#include "names.h"

#include <string.h>

enum { TRAIN, TEST, PARTS };

static const char words_metatable; /* its address is the registry key */

struct documents {
    uint64_t *offsets; /* count + 1, but none as long as there is no document */
    uint32_t *words;   /* NULL: on the spool */
    size_t count, tokens, offsets_room, words_room;
    uint64_t *counts; /* of each word of the dictionary */
};

struct bow_reading {
    struct tide_bow all; /* but its documents */
    struct documents parts[PARTS];
    double share;        /* of test documents, drawn by `seed` */
    uint64_t seed, last; /* last > 0: as many of the last ones instead */
    struct tide__spool *pairs, *words;
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

/* ---- documents ---- */

static bool is_test(const struct bow_reading *r, size_t document) {
    if (r->last > 0) {
        return r->all.documents - document <= r->last;
    }
    const uint64_t drawn = tide_mix64(tide_mix64(r->seed) ^ document) >> 11;
    return (double)drawn * 0x1p-53 < r->share;
}

static int take(void *reading, size_t document, const uint32_t *words, size_t count) {
    struct bow_reading *r = reading;
    const bool test = is_test(r, document), spooled = r->words && !test;
    struct documents *part = &r->parts[test ? TEST : TRAIN];
    part->counts = part->counts ? part->counts : tide_alloc_zero(r->all.names.count + 1, sizeof *part->counts);
    int code = part->counts ? 0 : TIDE_ENOMEM;
    code = code ? code : tide_array_grow(&part->offsets, &part->offsets_room, part->count + 2, sizeof *part->offsets);
    if (code == 0 && !spooled) {
        code = tide_array_grow(&part->words, &part->words_room, part->tokens + count, sizeof *part->words);
    }
    if (code == 0 && spooled) {
        code = tide__spool_append(r->words, words, count * sizeof *words);
    } else if (code == 0 && count > 0) {
        memcpy(part->words + part->tokens, words, count * sizeof *words);
    }
    if (code == 0) {
        for (size_t i = 0; i < count; i++) {
            part->counts[words[i]]++;
        }
        part->offsets[0] = 0;
        part->tokens += count;
        part->offsets[++part->count] = part->tokens;
    }
    return code;
}

static int append(void *spool, const void *data, size_t size) {
    return tide__spool_append(spool, data, size);
}

static int read_back(void *spool, uint64_t at, void *out, size_t size) {
    return tide__spool_read(spool, at, out, size);
}

/* The spools beside `path`. */
static int open_spools(lua_State *L, struct bow_reading *r, const char *path) {
    struct tide_port *port = tide__lua_host(L)->port;
    char name[512];
    if (strlen(path) + 8 > sizeof name) {
        return tide_fail(TIDE_EINVAL, "spool: a path of at most %zu bytes", sizeof name - 8);
    }
    (void)snprintf(name, sizeof name, "%s.pairs", path);
    int code = tide__spool_open(port, name, &r->pairs);
    (void)snprintf(name, sizeof name, "%s.words", path);
    return code ? code : tide__spool_open(port, name, &r->words);
}

static int finish(struct bow_reading *r, struct tide_bow_reader *reader) {
    int code = tide_bow_finish(reader, &(struct tide_bow_sink){r, take}, &r->all);
    if (code == 0 && r->parts[TRAIN].tokens == 0) {
        code = tide_fail(TIDE_EINVAL, "test: no document is left to train on");
    }
    return code;
}

static void release(struct bow_reading *r) {
    tide_bow_release(&r->all);
    for (size_t i = 0; i < PARTS; i++) {
        tide_free(r->parts[i].offsets);
        tide_free(r->parts[i].words);
        tide_free(r->parts[i].counts);
    }
    tide__spool_close(r->pairs);
    tide__spool_close(r->words);
    tide__lua_sources_release(&r->extra);
}

/* ---- words on a spool ---- */

static struct tide__spool **check_words(lua_State *L) {
    return tide__lua_handle_check(L, 1, &words_metatable, "words on a disk");
}

static lua_Integer words_count(lua_State *L) {
    struct tide__spool *s = *check_words(L);
    return s ? (lua_Integer)(tide__spool_size(s) / sizeof(uint32_t)) : luaL_error(L, "the words are closed");
}

/* #words */
static int words_length(lua_State *L) {
    lua_pushinteger(L, words_count(L));
    return 1;
}

/* words:slice(first, count) -> u32 tensor of its own, read from the disk */
static int words_slice(lua_State *L) {
    const lua_Integer all = words_count(L), first = luaL_checkinteger(L, 2), count = luaL_checkinteger(L, 3);
    luaL_argcheck(L, first >= 1 && first <= all + 1, 2, "the first word is from 1 to their number");
    luaL_argcheck(L, count >= 0 && count <= all - first + 1, 3, "so many words are not there");
    struct tide_lua_tensor *tensor = tide__lua_tensor_new(L, TIDE_U32, (size_t)count, 1);
    int code = tide__spool_read(*check_words(L), (uint64_t)(first - 1) * sizeof(uint32_t), tensor->t.data,
                                (size_t)count * sizeof(uint32_t));
    return code < 0 ? tide__lua_raise(L, code) : 1;
}

static int words_close(lua_State *L) {
    struct tide__spool **s = check_words(L);
    tide__spool_close(*s);
    *s = NULL;
    return 0;
}

static void push_words(lua_State *L, struct bow_reading *r) {
    struct tide__spool **s = lua_newuserdatauv(L, sizeof *s, 0);
    *s = NULL;
    lua_rawgetp(L, LUA_REGISTRYINDEX, &words_metatable);
    lua_setmetatable(L, -2);
    *s = r->words;
    r->words = NULL;
    lua_setfield(L, -2, "words");
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
    struct bow_reading *r = lua_touserdata(L, 1);
    static const char *const names[PARTS] = {"train", "test"};
    lua_createtable(L, 0, 8);
    for (size_t i = 0; i < PARTS; i++) {
        static const uint64_t none = 0;
        const struct documents *part = &r->parts[i];
        lua_createtable(L, 0, 2);
        push_array(L, "offsets", TIDE_U64, part->count + 1, part->count ? part->offsets : &none, sizeof none);
        if (i == TRAIN) {
            push_array(L, "counts", TIDE_U64, r->all.names.count, part->counts, sizeof *part->counts);
        }
        if (i == TRAIN && r->words) {
            push_words(L, r);
        } else {
            push_array(L, "words", TIDE_U32, part->tokens, part->words, sizeof *part->words);
        }
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
 * test=, test_last=, seed=, spool=path, window=}) */
static int core_bow(lua_State *L) {
    lua_settop(L, 2);
    luaL_checktype(L, 2, LUA_TTABLE);
    tide__lua_sources_check(L, "bow", "1 to 16 sources", TIDE_SOURCES_MAX);
    luaL_checkstack(L, 3 * TIDE_SOURCES_MAX + 16, "sources");
    struct tide_bow_options o = {.skip = (uint32_t)whole_field(L, "skip", 0, 1000),
                                 .min_count = whole_field(L, "min_count", 1, INT64_MAX),
                                 .max_share = share_field(L, "max_share", 1),
                                 .window = whole_field(L, "window", 0, INT64_MAX)};
    struct bow_reading reading = {.share = share_field(L, "test", 0.99),
                                  .last = whole_field(L, "test_last", 0, INT64_MAX),
                                  .seed = whole_field(L, "seed", 1, INT64_MAX)};
    lua_getfield(L, 2, "format");
    o.format = (enum tide_bow_format)luaL_checkoption(L, -1, "auto", formats);
    lua_getfield(L, 2, "keep_case");
    o.keep_case = lua_toboolean(L, -1);
    o.based = lua_getfield(L, 2, "base") != LUA_TNIL;
    o.base = (uint32_t)whole_field(L, "base", 0, 1);
    lua_getfield(L, 2, "spool");
    const char *path = luaL_optstring(L, -1, NULL);
    struct tide_bow_reader *reader = NULL;
    int status = LUA_OK, code = extra_text(L, "stop", &reading.extra, &o.stop);
    code = code ? code : extra_text(L, "vocabulary", &reading.extra, &o.vocabulary);
    code = code || !path ? code : open_spools(L, &reading, path);
    const struct tide_bow_spool spool = {reading.pairs, append, read_back};
    o.spool = reading.pairs ? &spool : NULL;
    code = code ? code : tide_bow_open(&o, &reader);
    const size_t count = lua_rawlen(L, 1);
    for (size_t i = 1; i <= count && code == 0; i++) {
        lua_rawgeti(L, 1, (lua_Integer)i);
        code = read_source(L, reader);
    }
    code = code ? code : finish(&reading, reader);
    tide_bow_close(reader);
    if (code == 0) {
        lua_pushcfunction(L, push_bow);
        lua_pushlightuserdata(L, &reading);
        status = lua_pcall(L, 1, 1, 0);
    }
    release(&reading);
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
    static const luaL_Reg methods[] = {{"slice", words_slice}, {"close", words_close}, {NULL, NULL}};
    luaL_setfuncs(L, functions, 0);
    tide__lua_handle_class(L, &words_metatable, "tide.words", methods, words_close);
    lua_rawgetp(L, LUA_REGISTRYINDEX, &words_metatable);
    lua_pushcfunction(L, words_length);
    lua_setfield(L, -2, "__len");
    lua_pop(L, 1);
}
