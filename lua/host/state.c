/*
 * Makes Lua states: their libraries and modules, their memory, and the hook that lets scripts share the control thread.
 * Garbage collection is incremental (Lua 5.4.4's generational mode has a defect).
 */
#include "host.h"
#include "embedded.h"
#include "lua/host/sim/fixed.h"

#include <string.h>

/* ---- modules ---- */

/* Pushes module a.b from DIR/a/b.lua or DIR/a/b/init.lua, or nothing; tide.a.b may also be DIR/packages/a/b.lua. Its
 * chunk has the name that the embedded one has: errors, and what the simulator allows, go by it. */
static bool read_module(lua_State *L, struct tide_port *port, const char *directory, const char *name) {
    const char *path = luaL_gsub(L, name, ".", "/");
    static const char *const shapes[] = {"%s/%s.lua", "%s/%s/init.lua", "%s/packages/%s.lua",
                                         "%s/packages/%s/init.lua"};
    const size_t count = strncmp(path, "tide/", 5) == 0 ? TIDE_COUNT(shapes) : 2;
    for (size_t i = 0; i < count; i++) {
        const char *file = lua_pushfstring(L, shapes[i], directory, i < 2 ? path : path + 5);
        struct tide_file_info info;
        struct tide_file *handle;
        if (port->ops->file_info(port, file, &info) < 0 || info.directory ||
            port->ops->file_open(port, file, TIDE_FILE_READ, &handle) < 0) {
            lua_pop(L, 1);
            continue;
        }
        char *text = tide_alloc(info.size + 1);
        ssize_t got = text ? port->ops->file_read(handle, text, info.size, 0) : -1;
        port->ops->file_close(handle);
        int status = got < 0 ? LUA_ERRFILE : tide__lua_load(L, text, (size_t)got, lua_pushfstring(L, "@%s.lua", path));
        tide_free(text);
        if (status != LUA_OK) {
            lua_error(L);
        }
        return true;
    }
    return false;
}

static int search_module(lua_State *L) {
    const char *name = luaL_checkstring(L, 1);
    struct tide_lua *host = tide__lua_host(L);
    const char *directory = host->port ? host->port->ops->environment(host->port, "TIDE_LUA_PATH") : NULL;
    if (directory && directory[0] && read_module(L, host->port, directory, name)) {
        lua_pushliteral(L, ":TIDE_LUA_PATH:");
        return 2;
    }
    for (const struct tide_embedded_module *m = tide_embedded_modules; m->name; m++) {
        if (strcmp(m->name, name) == 0) {
            const char *path = luaL_gsub(L, name, ".", "/");
            if (tide__lua_load(L, m->source, m->size, lua_pushfstring(L, "@%s.lua", path)) != LUA_OK) {
                return lua_error(L);
            }
            lua_pushliteral(L, ":embedded:");
            return 2;
        }
    }
    lua_pushfstring(L, "no embedded module '%s'", name);
    return 1;
}

/* core.embedded(name) -> the text of an embedded file | nil; shipped policies: "policies/KIND/NAME"
 */
static int core_embedded(lua_State *L) {
    const char *name = luaL_checkstring(L, 1);
    for (const struct tide_embedded_module *m = tide_embedded_modules; m->name; m++) {
        if (strcmp(m->name, name) == 0) {
            lua_pushlstring(L, m->source, m->size);
            return 1;
        }
    }
    return 0;
}

/* core.embedded_names(prefix) -> list of names of embedded files */
static int core_embedded_names(lua_State *L) {
    size_t size;
    const char *prefix = luaL_checklstring(L, 1, &size);
    lua_Integer count = 0;
    lua_newtable(L);
    for (const struct tide_embedded_module *m = tide_embedded_modules; m->name; m++) {
        if (strncmp(m->name, prefix, size) == 0) {
            lua_pushstring(L, m->name);
            lua_rawseti(L, -2, ++count);
        }
    }
    return 1;
}

void tide__lua_open_embedded(lua_State *L) {
    static const luaL_Reg functions[] = {
        {"embedded", core_embedded}, {"embedded_names", core_embedded_names}, {NULL, NULL}};
    luaL_setfuncs(L, functions, 0);
}

/* ---- modules of the program ---- */

enum { PRELOADS_MAX = 4 };
static struct {
    const char *name;
    lua_CFunction open;
} preloads[PRELOADS_MAX];
static size_t preload_count;

void tide__lua_preload(const char *name, lua_CFunction open) {
    TIDE_ASSERT(preload_count < PRELOADS_MAX);
    preloads[preload_count].name = name;
    preloads[preload_count++].open = open;
}

static void add_searcher(lua_State *L) {
    lua_getglobal(L, "package");
    lua_getfield(L, -1, "searchers");
    lua_Integer count = (lua_Integer)lua_rawlen(L, -1);
    for (lua_Integer i = count; i >= 2; i--) { /* second: after package.preload */
        lua_rawgeti(L, -1, i);
        lua_rawseti(L, -2, i + 1);
    }
    lua_pushcfunction(L, search_module);
    lua_rawseti(L, -2, 2);
    lua_getfield(L, -2, "preload");
    lua_pushcfunction(L, tide__lua_open_core);
    lua_setfield(L, -2, "tide.core");
    for (size_t i = 0; i < preload_count; i++) {
        lua_pushcfunction(L, preloads[i].open);
        lua_setfield(L, -2, preloads[i].name);
    }
    lua_pop(L, 3);
}

/* ---- preemption ---- */

/* Switches to other work of the thread when this script has used its slice. In virtual time a slice
 * is a number of instructions, so that runs repeat. Fibers of one state rely on nothing happening
 * between two of their waits, so those of other actors continue, and only those. */
static void slice_hook(lua_State *L, lua_Debug *ar) {
    (void)ar;
    struct tide_lua *host = tide__lua_host(L);
    if (!tide_fiber_current()) {
        return; /* in lua_close */
    }
    if (host->port->simulated) {
        if (++host->hook_calls % 20 != 0) {
            return;
        }
    } else {
        uint64_t now = tide_port_now(host->port);
        if (now - host->slice_start < TIDE_LUA_SLICE) {
            return;
        }
    }
    int code = host->interleaves ? tide_yield() : tide_yield_to_actors();
    host->slice_start = tide_port_now(host->port);
    (void)tide__lua_resumed(L, code);
}

/* ---- states ---- */

static int refuse_exit(lua_State *L) {
    return luaL_error(L, "os.exit would end the whole node: return from the script or raise an error instead");
}

static int setup(lua_State *L) {
    luaL_openlibs(L);
    tide__lua_guard_coroutines(L);
    add_searcher(L);
    if (!tide__lua_host(L)->program) {
        lua_getglobal(L, "os");
        lua_pushcfunction(L, refuse_exit);
        lua_setfield(L, -2, "exit");
        lua_pop(L, 1);
    }
    luaL_requiref(L, "tide.core", tide__lua_open_core, 0); /* its metatables are needed even by arguments */
    lua_pop(L, 1);
    return 0;
}

static void count(struct tide_lua *host, int64_t change) {
    host->memory += (size_t)change;
    if (host->memory_shared) {
        tide__console_count(change);
    }
}

static void *allocate(void *ud, void *memory, size_t old_size, size_t size) {
    struct tide_lua *host = ud;
    size_t had = memory ? old_size : 0; /* without memory it is the kind of object */
    if (size == 0) {
        count(host, -(int64_t)had);
        tide_free(memory);
        return NULL;
    }
    if (host->memory_max > 0 && size > had && !tide__console_memory(host, size - had)) {
        return NULL;
    }
    void *grown = tide_realloc(memory, size);
    if (grown) {
        count(host, (int64_t)size - (int64_t)had);
        host->memory_peak = host->memory > host->memory_peak ? host->memory : host->memory_peak;
    }
    return grown;
}

/* Outside of the simulator's program a state is the heap's. */
static int new_state(struct tide_lua *host) {
    if (tide__fixed_enabled()) {
        return tide__fixed_create(&host->L, &host->arena);
    }
    host->L = lua_newstate(allocate, host);
    return host->L ? 0 : tide_fail(TIDE_ENOMEM, "out of memory for a Lua state");
}

int tide__lua_create(struct tide_node *node, struct tide_port *port, bool preempted, struct tide_lua **out) {
    _Static_assert(LUA_VERSION_NUM == 504, "Tide is written for Lua 5.4");
    struct tide_lua *host = tide_alloc_zero(1, sizeof *host);
    if (!host) {
        return TIDE_ENOMEM;
    }
    host->node = node;
    host->port = port;
    host->program = !node;
    int made = new_state(host);
    if (made < 0) {
        tide_free(host);
        return made;
    }
    memcpy(lua_getextraspace(host->L), &host, sizeof host);
    host->main = (struct tide_lua_fiber){.host = host, .L = host->L, .fiber = tide_fiber_current()};
    host->fibers = &host->main;
    lua_gc(host->L, LUA_GCINC, 0, 0, 0);
    lua_pushcfunction(host->L, setup);
    int status = lua_pcall(host->L, 0, 0, 0);
    tide__fixed_made();
    if (status != LUA_OK) {
        int code = tide_fail(TIDE_ENOMEM, "cannot set up a Lua state: %s", tide__lua_error_text(host->L, -1));
        tide__lua_destroy(host);
        return code;
    }
    if (preempted) {
        host->slice_start = tide_port_now(port);
        lua_sethook(host->L, slice_hook, LUA_MASKCOUNT, TIDE_LUA_HOOK_COUNT);
    }
    *out = host;
    return 0;
}

void tide__lua_destroy(struct tide_lua *host) {
    lua_sethook(host->L, NULL, 0, 0);
    lua_close(host->L);
    if (host->arena) {
        tide__fixed_destroy(host->arena);
    }
    tide__console_close(host);
    tide__console_close(host);
    tide_free(host);
}
