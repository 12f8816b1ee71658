/*
 * Files, JSON, hashes, random numbers, the terminal, and the readers of data sets. File functions
 * block the thread: they are for scripts at their start and end. All files go through the port.
 */
#include "sources.h"
#include "wire/json.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { JSON_VALUES_MAX = TIDE_JSON_ITEMS_MAX };

static const char random_metatable; /* its address is the registry key */

static int done(lua_State *L, int code) {
    if (code < 0) {
        return tide__lua_failure(L, code);
    }
    lua_pushboolean(L, true);
    return 1;
}

/* ---- files ---- */

int tide__lua_file_read(struct tide_port *port, const char *path, char **out, size_t *size) {
    struct tide_file_info info;
    struct tide_file *file;
    int code = port->ops->file_info(port, path, &info);
    if (code < 0) {
        return code;
    }
    if (info.directory) {
        return tide_fail(TIDE_EINVAL, "%s is a directory", path);
    }
    code = port->ops->file_open(port, path, TIDE_FILE_READ, &file);
    if (code < 0) {
        return code;
    }
    size_t capacity = info.size + 1, used = 0; /* 0 of files that the kernel makes up: read until the end */
    char *text = tide_alloc(capacity + 1);
    code = text ? 0 : TIDE_ENOMEM;
    while (code == 0) {
        ssize_t got = port->ops->file_read(file, text + used, capacity - used, used);
        code = got < 0 ? (int)got : 0;
        used += got > 0 ? (size_t)got : 0;
        if (code < 0 || used < capacity) {
            break;
        }
        capacity = capacity < 4096 ? 4096 : 2 * capacity;
        char *grown = tide_realloc(text, capacity + 1);
        code = grown ? 0 : TIDE_ENOMEM;
        text = grown ? grown : text;
    }
    port->ops->file_close(file);
    if (code < 0) {
        tide_free(text);
        return code;
    }
    text[used] = 0;
    *out = text;
    *size = used;
    return 0;
}

struct bytes {
    const char *data;
    size_t size;
};

static int push_bytes(lua_State *L) {
    const struct bytes *bytes = lua_touserdata(L, 1);
    lua_pushlstring(L, bytes->data, bytes->size);
    return 1;
}

/* Pushes a string of heap memory and frees it, also when Lua has no room for it. */
static void push_owned(lua_State *L, char *data, size_t size) {
    struct bytes bytes = {data, size};
    lua_pushcfunction(L, push_bytes);
    lua_pushlightuserdata(L, &bytes);
    int status = lua_pcall(L, 1, 1, 0);
    tide_free(data);
    if (status != LUA_OK) {
        lua_error(L);
    }
}

static int core_file_read(lua_State *L) {
    const char *path = luaL_checkstring(L, 1);
    char *text;
    size_t size;
    int code = tide__lua_file_read(tide__lua_host(L)->port, path, &text, &size);
    if (code < 0) {
        return tide__lua_failure(L, code);
    }
    push_owned(L, text, size);
    return 1;
}

struct file_writing {
    struct tide_port *port;
    struct tide_file *file;       /* that has its bytes already; NULL: they are in `data` */
    const char *path, *temporary; /* behind the bytes */
    size_t size;
    bool own;
    int code;
    char reason[sizeof((struct tide_error_slot *)0)->text];
    char data[];
};

static void write_file(void *arg) {
    struct file_writing *w = arg;
    const struct tide_port_ops *ops = w->port->ops;
    struct tide_file *file = w->file;
    int flags = TIDE_FILE_WRITE | TIDE_FILE_CREATE | TIDE_FILE_TRUNCATE | (w->own ? TIDE_FILE_PRIVATE : 0);
    w->file = NULL;
    w->code = file ? 0 : ops->file_open(w->port, w->temporary, flags, &file);
    if (w->code == 0) {
        w->code = w->size ? ops->file_write(file, w->data, w->size, 0) : 0;
        w->code = w->code < 0 ? w->code : ops->file_sync(file);
        ops->file_close(file);
        w->code = w->code < 0 ? w->code : ops->file_rename(w->port, w->temporary, w->path);
        (void)snprintf(w->reason, sizeof w->reason, "%s", w->code < 0 ? tide_error_message() : "");
        if (w->code < 0) {
            (void)ops->file_unlink(w->port, w->temporary);
        }
    } else {
        (void)snprintf(w->reason, sizeof w->reason, "%s", tide_error_message());
    }
}

static void writing_drop(void *arg) {
    struct file_writing *w = arg;
    if (w->file) {
        w->port->ops->file_close(w->file);
    }
    tide_free(w);
}

/* Of `size` bytes at `data`, that appear at `path` when they are all there. NULL: out of memory. */
static struct file_writing *writing_create(struct tide_port *port, const char *path, const char *data, size_t size) {
    const size_t length = strlen(path), names = 2 * length + 24;
    struct file_writing *w = tide_alloc(sizeof *w + size + names);
    if (!w) {
        (void)tide_fail(TIDE_ENOMEM, "no memory for a copy of %zu bytes", size);
        return NULL;
    }
    *w = (struct file_writing){.port = port, .size = size};
    if (size) {
        memcpy(w->data, data, size);
    }
    char *name = w->data + size, *temporary = name + length + 1;
    memcpy(name, path, length + 1);
    (void)snprintf(temporary, names - length - 1, "%s.%08x.part", path, (unsigned)port->ops->entropy(port));
    w->path = name;
    w->temporary = temporary;
    return w;
}

static int writing_do(lua_State *L, struct file_writing *w) {
    int code = tide__lua_on_disk(L, write_file, w, writing_drop);
    if (code == 0) {
        code = w->code < 0 ? tide_fail(w->code, "%s", w->reason) : 0;
        writing_drop(w);
    }
    return code;
}

int tide__lua_file_begin(lua_State *L, const char *path, struct tide_file_parts *parts) {
    struct tide_port *port = tide__lua_host(L)->port;
    struct file_writing *w = writing_create(port, path, NULL, 0);
    int code =
        w ? port->ops->file_open(port, w->temporary, TIDE_FILE_WRITE | TIDE_FILE_CREATE | TIDE_FILE_TRUNCATE, &w->file)
          : TIDE_ENOMEM;
    if (code < 0) {
        tide_free(w);
        return code;
    }
    code = parts->fill(w->file, parts->arg);
    if (code < 0) {
        struct tide_error_slot slot = {0}, *previous = tide__error_slot_swap(&slot); /* the reason stays */
        (void)port->ops->file_unlink(port, w->temporary);
        writing_drop(w);
        tide__error_slot_swap(previous);
        return code;
    }
    parts->writing = w;
    return 0;
}

int tide__lua_file_end(lua_State *L, struct tide_file_parts *parts) {
    return writing_do(L, parts->writing);
}

/* By the disk's thread while a fiber waits; writes of one node are done in the order of their calls. */
static int core_file_write(lua_State *L) {
    size_t size;
    const char *path = luaL_checkstring(L, 1), *data = luaL_checklstring(L, 2, &size);
    struct file_writing *w = writing_create(tide__lua_host(L)->port, path, data, size);
    if (!w) {
        return done(L, TIDE_ENOMEM);
    }
    w->own = lua_isboolean(L, 3) && lua_toboolean(L, 3);
    return done(L, writing_do(L, w));
}

/* The directory and those above it that are missing. */
static int core_mkdir(lua_State *L) {
    struct tide_port *port = tide__lua_host(L)->port;
    size_t size;
    const char *path = luaL_checklstring(L, 1, &size);
    lua_Integer mode = luaL_optinteger(L, 2, 0777); /* less the umask */
    luaL_argcheck(L, mode >= 0 && mode <= 0777, 2, "permission bits");
    int code = 0;
    for (size_t at = 1; at < size && code == 0; at++) {
        if (path[at] == '/' && path[at - 1] != '/') {
            code = port->ops->file_mkdir(port, lua_pushlstring(L, path, at), (unsigned)mode);
            lua_pop(L, 1);
        }
    }
    return done(L, code ? code : port->ops->file_mkdir(port, path, (unsigned)mode));
}

static int core_file_remove(lua_State *L) {
    struct tide_port *port = tide__lua_host(L)->port;
    return done(L, port->ops->file_unlink(port, luaL_checkstring(L, 1)));
}

struct listing {
    struct tide_writer names; /* zero-terminated, one after the other */
    size_t count;
};

static void add_entry(void *arg, const char *name) {
    struct listing *listing = arg;
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
        return;
    }
    size_t size = strlen(name) + 1;
    void *room = tide_write_reserve(&listing->names, size);
    if (room) {
        memcpy(room, name, size);
        listing->count++;
    }
}

static int push_listing(lua_State *L) {
    const struct listing *listing = lua_touserdata(L, 1);
    const char *name = (const char *)listing->names.data;
    lua_createtable(L, (int)listing->count, 0);
    for (size_t i = 0; i < listing->count; i++) {
        lua_pushstring(L, name);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
        name += strlen(name) + 1;
    }
    return 1;
}

/* Names in the order of the directory; scripts that print them sort. */
static int core_file_list(lua_State *L) {
    struct tide_port *port = tide__lua_host(L)->port;
    struct listing listing = {0};
    const char *path = luaL_checkstring(L, 1);
    tide_writer_init(&listing.names, NULL, 0);
    int code = port->ops->file_list(port, path, add_entry, &listing), status = LUA_OK;
    code = code < 0 ? code : listing.names.error;
    if (code == 0) {
        lua_pushcfunction(L, push_listing);
        lua_pushlightuserdata(L, &listing);
        status = lua_pcall(L, 1, 1, 0);
    }
    tide_writer_release(&listing.names);
    if (code < 0) {
        return tide__lua_failure(L, code);
    }
    return status == LUA_OK ? 1 : lua_error(L);
}

/* ---- JSON, hashes ---- */

static int core_json_encode(lua_State *L) {
    luaL_checkany(L, 1);
    struct tide_writer w;
    tide_writer_init(&w, NULL, 0);
    char *text = NULL;
    size_t size = 0;
    int code = tide__lua_encode(L, 1, "value", JSON_VALUES_MAX, &w);
    code = code < 0 ? code : tide_json_from_msgpack(w.data, w.size, &text, &size);
    tide_writer_release(&w);
    if (code < 0) {
        return tide__lua_raise(L, code);
    }
    push_owned(L, text, size);
    return 1;
}

static int core_json_decode(lua_State *L) {
    size_t size;
    const char *text = luaL_checklstring(L, 1, &size);
    struct tide_writer w;
    tide_writer_init(&w, NULL, 0);
    int code = tide_json_to_msgpack(text, size, &w);
    code = code < 0 ? code : w.error < 0 ? tide_fail(w.error, "out of memory") : 0;
    code = code < 0 ? code : tide__lua_decode_safe(L, w.data, w.size, JSON_VALUES_MAX);
    tide_writer_release(&w);
    return code < 0 ? tide__lua_failure(L, code) : 1;
}

static int core_sha256(lua_State *L) {
    size_t size;
    const char *text = luaL_checklstring(L, 1, &size);
    char hex[65];
    tide_sha256_hex(text, size, hex);
    lua_pushstring(L, hex);
    return 1;
}

static const char sum_metatable; /* its address is a registry key */

static struct tide_sha256 **check_sum(lua_State *L) {
    struct tide_sha256 **sum = tide__lua_handle_check(L, 1, &sum_metatable, "a sum of core.sha256_sum");
    luaL_argcheck(L, *sum, 1, "this sum was read");
    return sum;
}

/* core.sha256_sum() -> sum: sum:add(text), sum:hex() once */
static int core_sha256_sum(lua_State *L) {
    struct tide_sha256 **sum = lua_newuserdatauv(L, sizeof *sum, 0);
    *sum = NULL;
    lua_rawgetp(L, LUA_REGISTRYINDEX, &sum_metatable);
    lua_setmetatable(L, -2);
    *sum = tide_sha256_begin();
    return *sum ? 1 : luaL_error(L, "out of memory");
}

static int sum_add(lua_State *L) {
    struct tide_sha256 **sum = check_sum(L);
    size_t size;
    const char *text = luaL_checklstring(L, 2, &size);
    tide_sha256_add(*sum, text, size);
    return 0;
}

static int sum_hex(lua_State *L) {
    struct tide_sha256 **sum = check_sum(L);
    char hex[65];
    tide_sha256_hex_of(*sum, hex);
    *sum = NULL;
    lua_pushstring(L, hex);
    return 1;
}

static int sum_gc(lua_State *L) {
    struct tide_sha256 **sum = lua_touserdata(L, 1);
    tide_sha256_drop(*sum);
    *sum = NULL;
    return 0;
}

/* ---- random numbers ---- */

static struct tide_random *check_random(lua_State *L) {
    return tide__lua_handle_check(L, 1, &random_metatable, "random generator");
}

static int random_next(lua_State *L) {
    lua_pushinteger(L, (lua_Integer)tide_random_next(check_random(L)));
    return 1;
}

static int random_uniform(lua_State *L) {
    lua_pushnumber(L, tide_random_uniform(check_random(L)));
    return 1;
}

static int random_below(lua_State *L) {
    struct tide_random *random = check_random(L);
    lua_Integer limit = luaL_checkinteger(L, 2);
    luaL_argcheck(L, limit > 0, 2, "below(n) needs n of at least 1");
    lua_pushinteger(L, (lua_Integer)tide_random_below(random, (uint64_t)limit));
    return 1;
}

/* Draws an image: random:picture(x, row, picture, dx, dy) writes a row of an f32 tensor, from 1: a square picture (f64,
 * one row), shifted, each pixel of a brightness of its own and with noise. */
static int random_picture(lua_State *L) {
    struct tide_random *random = check_random(L);
    struct tide_lua_tensor *x = tide__lua_tensor_check(L, 2), *picture = tide__lua_tensor_check(L, 4);
    const lua_Integer row = luaL_checkinteger(L, 3), dx = luaL_checkinteger(L, 5), dy = luaL_checkinteger(L, 6);
    lua_Integer size = 0;
    luaL_argcheck(L, x->t.type == TIDE_F32 && row >= 1 && (size_t)row <= x->t.rows, 3, "a row of an f32 tensor");
    while ((size_t)(size * size) < x->t.columns) {
        size++;
    }
    luaL_argcheck(L, (size_t)(size * size) == x->t.columns, 2, "rows of square images");
    luaL_argcheck(L, picture->t.type == TIDE_F64 && tide__lua_tensor_count(picture) == x->t.columns, 4,
                  "an f64 image of the same size");
    luaL_argcheck(L, dx > -size && dx < size && dy > -size && dy < size, 5, "a shift within the image");
    float *out = (float *)x->t.data + (size_t)(row - 1) * x->t.columns;
    for (lua_Integer r = dy; r < size + dy; r++) {
        for (lua_Integer c = dx; c < size + dx; c++) {
            const bool inside = r >= 0 && r < size && c >= 0 && c < size;
            const double bright = 0.6 + 0.4 * tide_random_uniform(random), noise = 0.3 * tide_random_uniform(random);
            *out++ = (float)((inside ? ((const double *)picture->t.data)[r * size + c] : 0) * bright + noise);
        }
    }
    return 0;
}

/* -> text that `restore` takes */
static int random_state(lua_State *L) {
    const struct tide_random *random = check_random(L);
    char text[65];
    for (size_t i = 0; i < 4; i++) {
        (void)snprintf(text + i * 16, 17, "%016llx", (unsigned long long)random->s[i]);
    }
    lua_pushstring(L, text);
    return 1;
}

static int random_restore(lua_State *L) {
    struct tide_random *random = check_random(L);
    const char *text = luaL_checkstring(L, 2);
    luaL_argcheck(L, strlen(text) == 64 && strspn(text, "0123456789abcdef") == 64, 2, "the state of a generator");
    for (size_t i = 0; i < 4; i++) {
        char part[17];
        memcpy(part, text + i * 16, 16);
        part[16] = 0;
        random->s[i] = strtoull(part, NULL, 16);
    }
    return 0;
}

static int core_random(lua_State *L) {
    uint64_t seed = (uint64_t)luaL_checkinteger(L, 1);
    struct tide_random *random = lua_newuserdatauv(L, sizeof *random, 0);
    tide_random_seed(random, seed);
    lua_rawgetp(L, LUA_REGISTRYINDEX, &random_metatable);
    lua_setmetatable(L, -2);
    return 1;
}

/* ---- terminal ---- */

static int core_terminal(lua_State *L) {
    struct tide_port *port = tide__lua_host(L)->port;
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    const char *locale = NULL;
    for (size_t i = 0; i < TIDE_COUNT(names) && !(locale && locale[0]); i++) {
        locale = port->ops->environment(port, names[i]);
    }
    struct winsize window = {0};
    bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0 || ioctl(STDERR_FILENO, TIOCGWINSZ, &window) == 0;
    lua_createtable(L, 0, 6);
    tide__lua_set_integer(L, "height", known && window.ws_row > 0 ? window.ws_row : 24);
    lua_pushboolean(L, isatty(STDIN_FILENO));
    lua_setfield(L, -2, "stdin");
    lua_pushboolean(L, isatty(STDOUT_FILENO));
    lua_setfield(L, -2, "stdout");
    lua_pushboolean(L, isatty(STDERR_FILENO));
    lua_setfield(L, -2, "stderr");
    lua_pushinteger(L, known && window.ws_col > 0 ? window.ws_col : 100);
    lua_setfield(L, -2, "width");
    lua_pushboolean(L, locale && (strstr(locale, "UTF-8") || strstr(locale, "utf8") || strstr(locale, "UTF8")));
    lua_setfield(L, -2, "utf8");
    return 1;
}

/* ---- data sets ---- */

struct reading {
    struct tide_lua_sources sources;
    struct tide_triples triples;
    struct tide_wordnet_counts counts;
};

/* In a protected call: the result table of a struct reading at light userdata 1. */
static int push_triples(lua_State *L) {
    static const char *const parts[TIDE_TRIPLE_PARTS] = {"train", "valid", "test"};
    const struct reading *reading = lua_touserdata(L, 1);
    const struct tide_triples *t = &reading->triples;
    lua_createtable(L, 0, 4);
    tide__lua_push_names(L, &t->entities);
    lua_setfield(L, -2, "entities");
    tide__lua_push_names(L, &t->relations);
    lua_setfield(L, -2, "relations");
    lua_createtable(L, TIDE_TRIPLE_PARTS, TIDE_TRIPLE_PARTS);
    for (int i = 0; i < TIDE_TRIPLE_PARTS; i++) {
        if (!t->parts[i]) {
            continue;
        }
        struct tide_lua_tensor *part = tide__lua_tensor_new(L, TIDE_U32, t->counts[i], 3);
        memcpy(part->t.data, t->parts[i], t->counts[i] * 3 * sizeof(uint32_t));
        lua_pushvalue(L, -1);
        lua_rawseti(L, -3, i + 1);
        lua_setfield(L, -2, parts[i]);
    }
    lua_setfield(L, -2, "parts");
    lua_pushstring(L, t->note);
    lua_setfield(L, -2, "note");
    tide__lua_set_integer(L, "repeated", t->repeated);
    tide__lua_set_integer(L, "leaked_valid", t->leaked[1]);
    tide__lua_set_integer(L, "leaked_test", t->leaked[2]);
    tide__lua_set_integer(L, "unseen", t->unseen);
    tide__lua_set_integer(L, "unseen_relations", t->unseen_relations);
    return 1;
}

/* Pushes the outcome of a reader and frees what it gave. */
static int finish_reading(lua_State *L, struct reading *reading, int code) {
    int status = LUA_OK;
    tide__lua_sources_release(&reading->sources);
    if (code == 0) {
        lua_pushcfunction(L, push_triples);
        lua_pushlightuserdata(L, reading);
        status = lua_pcall(L, 1, 1, 0);
    }
    tide_triples_release(&reading->triples);
    if (code < 0) {
        return tide__lua_failure(L, code);
    }
    return status == LUA_OK ? 1 : lua_error(L);
}

/* core.triples({train, valid, test}, {ids = bool}) */
static int core_triples(lua_State *L) {
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 2);
    bool ids = false;
    if (!lua_isnil(L, 2)) {
        luaL_checktype(L, 2, LUA_TTABLE);
        lua_getfield(L, 2, "ids");
        ids = lua_toboolean(L, -1);
    }
    size_t count = lua_rawlen(L, 1);
    if (count < 1 || count > TIDE_TRIPLE_PARTS) {
        return luaL_error(L, "triples: 1 to 3 paths (train, valid, test), not %I", (lua_Integer)count);
    }
    const char *paths[TIDE_TRIPLE_PARTS] = {0};
    for (size_t i = 0; i < count; i++) {
        lua_rawgeti(L, 1, (lua_Integer)i + 1); /* stays on the stack */
        if (lua_type(L, -1) != LUA_TSTRING) {
            return luaL_error(L, "triples: path %I is not a string", (lua_Integer)i + 1);
        }
        paths[i] = lua_tostring(L, -1);
    }
    struct reading reading = {0};
    int code = 0;
    for (size_t i = 0; i < count && code == 0; i++) {
        code = tide__lua_sources_file(L, &reading.sources, paths[i]);
    }
    code = code < 0 ? code : tide_text_triples(reading.sources.texts, count, ids, &reading.triples);
    return finish_reading(L, &reading, code);
}

static int core_wordnet(lua_State *L) {
    static const char *const files[TIDE_WORDNET_FILES] = {"data.noun", "data.verb", "data.adj", "data.adv"};
    const char *directory = luaL_checkstring(L, 1);
    const char *paths[TIDE_WORDNET_FILES];
    lua_settop(L, 2);
    for (size_t i = 0; i < TIDE_WORDNET_FILES; i++) {
        paths[i] = lua_pushfstring(L, "%s/%s", directory, files[i]);
    }
    struct reading reading = {0};
    int code = 0;
    for (size_t i = 0; i < TIDE_WORDNET_FILES && code == 0; i++) {
        code = tide__lua_sources_file(L, &reading.sources, paths[i]);
    }
    code = code < 0 ? code : tide_text_wordnet(reading.sources.texts, &reading.triples, &reading.counts);
    return finish_reading(L, &reading, code);
}

void tide__lua_open_data(lua_State *L) {
    static const luaL_Reg functions[] = {
        {"sha256", core_sha256},           {"sha256_sum", core_sha256_sum},
        {"json_encode", core_json_encode}, {"json_decode", core_json_decode},
        {"random", core_random},           {"file_read", core_file_read},
        {"file_write", core_file_write},   {"mkdir", core_mkdir},
        {"file_list", core_file_list},     {"file_remove", core_file_remove},
        {"terminal", core_terminal},       {"triples", core_triples},
        {"wordnet", core_wordnet},         {NULL, NULL},
    };
    static const luaL_Reg methods[] = {{"next", random_next},
                                       {"uniform", random_uniform},
                                       {"below", random_below},
                                       {"state", random_state},
                                       {"restore", random_restore},
                                       {"picture", random_picture},
                                       {NULL, NULL}};
    luaL_setfuncs(L, functions, 0);
    tide__lua_handle_class(L, &random_metatable, NULL, methods, NULL);
    static const luaL_Reg of_sums[] = {{"add", sum_add}, {"hex", sum_hex}, {NULL, NULL}};
    tide__lua_handle_class(L, &sum_metatable, NULL, of_sums, sum_gc);
}
