/* Texts for the readers of data sets: files, or strings that Lua holds. */
#ifndef TIDE_LUA_SOURCES_H
#define TIDE_LUA_SOURCES_H

#include "lua/host/host.h"
#include "readers/generate.h"
#include "readers/text.h"

enum { TIDE_SOURCES_MAX = 16 };

struct tide_lua_sources {
    struct tide_text texts[TIDE_SOURCES_MAX];
    char *data[TIDE_SOURCES_MAX]; /* of files */
    size_t count;
};

/* Before anything is read: argument 1 is an array of 1 to `most` paths or {name =, text =}. `reader`
 * and `expected` ("1 or 2 sources") are for the error, which is raised. */
void tide__lua_sources_check(lua_State *L, const char *reader, const char *expected, size_t most);
/* Adds all of argument 1, which was checked; the strings stay on the stack as long as they are
 * used. A negative code of the file that cannot be read. */
int tide__lua_sources_read(lua_State *L, struct tide_lua_sources *sources);
/* The last error again with the file's name before it. Gives `code`. */
int tide__lua_named(const char *path, int code);
/* The whole of a data file, a pipe or what gzip packed, unpacked: *gives* `out`. */
int tide__lua_content_read(struct tide_port *port, const char *path, char **out, size_t *size);
/* Adds a file; `path` must outlive the sources. */
int tide__lua_sources_file(lua_State *L, struct tide_lua_sources *sources, const char *path);
/* Gives the bytes of a file, unpacked if they are gzip's, to the sink in blocks of at most 1 MiB. */
int tide__lua_sources_stream(lua_State *L, const char *path, struct tide_sink sink);
void tide__lua_sources_release(struct tide_lua_sources *sources);

/* Pushes an array of the names; of ids alone, the names are the ids. */
void tide__lua_push_names(lua_State *L, const struct tide_names *names);

#endif
