#include "sources.h"

#include "readers/gzip.h"

enum { BLOCK = 1 << 20 };

void tide__lua_sources_check(lua_State *L, const char *reader, const char *expected, size_t most) {
    luaL_checktype(L, 1, LUA_TTABLE);
    size_t count = lua_rawlen(L, 1);
    if (count < 1 || count > most) {
        luaL_error(L, "%s: %s, not %I", reader, expected, (lua_Integer)count);
    }
    for (size_t i = 1; i <= count; i++) {
        bool fits = lua_rawgeti(L, 1, (lua_Integer)i) == LUA_TSTRING;
        if (!fits && lua_istable(L, -1)) {
            fits = lua_getfield(L, -1, "name") == LUA_TSTRING;
            fits = lua_getfield(L, -2, "text") == LUA_TSTRING && fits;
            lua_pop(L, 2);
        }
        if (!fits) {
            luaL_error(L, "%s: source %I is not a path or {name=, text=}", reader, (lua_Integer)i);
        }
        lua_pop(L, 1);
    }
    luaL_checkstack(L, 3 * TIDE_SOURCES_MAX, "sources");
}

int tide__lua_named(const char *path, int code) {
    char reason[400];
    (void)snprintf(reason, sizeof reason, "%s", tide_error_message());
    return tide_fail(code, "%s: %s", path, reason);
}

int tide__lua_content_read(struct tide_port *port, const char *path, char **out, size_t *size) {
    uint8_t *unpacked = NULL;
    const uint64_t memory = port->ops->memory_total(port);
    int code = tide__lua_file_read(port, path, out, size);
    if (code < 0 || !tide_gzip_is(*out, *size)) {
        return code;
    }
    code = tide_gzip_unpack(*out, *size, memory > 0 ? (size_t)memory : SIZE_MAX / 2, &unpacked, size);
    tide_free(*out);
    *out = (char *)unpacked;
    return code < 0 ? tide__lua_named(path, code) : 0;
}

int tide__lua_sources_file(lua_State *L, struct tide_lua_sources *sources, const char *path) {
    struct tide_text *text = &sources->texts[sources->count];
    char **data = &sources->data[sources->count];
    text->name = path;
    int code = tide__lua_content_read(tide__lua_host(L)->port, path, data, &text->size);
    text->data = *data;
    sources->count += code == 0;
    return code;
}

int tide__lua_sources_read(lua_State *L, struct tide_lua_sources *sources) {
    size_t count = lua_rawlen(L, 1);
    int code = 0;
    for (size_t i = 1; i <= count && code == 0; i++) {
        if (lua_rawgeti(L, 1, (lua_Integer)i) == LUA_TSTRING) {
            code = tide__lua_sources_file(L, sources, lua_tostring(L, -1));
            continue;
        }
        struct tide_text *text = &sources->texts[sources->count++];
        int source = lua_gettop(L);
        lua_getfield(L, source, "name");
        lua_getfield(L, source, "text");
        text->name = lua_tostring(L, -2);
        text->data = lua_tolstring(L, -1, &text->size);
    }
    return code;
}

static int read_blocks(const char *path, struct tide_port *port, struct tide_file *file, struct tide_sink sink) {
    struct tide_gunzip *gunzip = NULL;
    char *block = tide_alloc(BLOCK);
    int code = block ? 0 : TIDE_ENOMEM;
    uint64_t at = 0;
    while (code == 0) {
        ssize_t got = port->ops->file_read(file, block, BLOCK, at);
        if (got <= 0) {
            code = (int)got;
            break;
        }
        if (at == 0 && tide_gzip_is(block, (size_t)got)) {
            code = tide_gunzip_create(&gunzip);
        }
        code = code     ? code
               : gunzip ? tide_gunzip_feed(gunzip, block, (size_t)got, sink)
                        : sink.write(sink.arg, block, (size_t)got);
        at += (uint64_t)got;
    }
    code = code || !gunzip ? code : tide_gunzip_end(gunzip);
    tide_gunzip_destroy(gunzip);
    tide_free(block);
    return code == TIDE_EINVAL ? tide__lua_named(path, TIDE_EPROTO) : code; /* gzip's failures do not name the file */
}

int tide__lua_sources_stream(lua_State *L, const char *path, struct tide_sink sink) {
    struct tide_port *port = tide__lua_host(L)->port;
    struct tide_file *file;
    int code = port->ops->file_open(port, path, TIDE_FILE_READ, &file);
    if (code == 0) {
        code = read_blocks(path, port, file, sink);
        port->ops->file_close(file);
    }
    return code;
}

void tide__lua_sources_release(struct tide_lua_sources *sources) {
    for (size_t i = 0; i < sources->count; i++) {
        tide_free(sources->data[i]);
    }
    sources->count = 0;
}

void tide__lua_push_names(lua_State *L, const struct tide_names *names) {
    lua_createtable(L, names->count < INT32_MAX ? (int)names->count : 0, 0);
    for (size_t i = 0; i < names->count; i++) {
        if (names->pool) {
            lua_pushlstring(L, names->pool + names->offsets[i], names->offsets[i + 1] - names->offsets[i] - 1);
        } else {
            lua_pushfstring(L, "%I", (lua_Integer)i);
        }
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
}
