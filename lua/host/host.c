/*
 * Lua states: creation, the embedded modules, the guards around coroutine.close and wrap, and the
 * hook that lets scripts share the control thread. Garbage collection is incremental (Lua 5.4.4's
 * generational mode has a defect).
 */
#include "host.h"
#include "embedded.h"
#include "lua/host/sim/fixed.h"

#include <string.h>

struct tide_lua *tide__lua_host(lua_State *L) {
    struct tide_lua *host;
    memcpy(&host, lua_getextraspace(L),
           sizeof host); /* new Lua threads get a copy of the main one's */
    return host;
}

struct tide_lua_fiber *tide__lua_current(struct tide_lua *host) {
    struct tide_fiber *fiber = tide_fiber_current();
    for (struct tide_lua_fiber *f = host->fibers; f; f = f->next) {
        if (f->fiber == fiber) {
            return f;
        }
    }
    return &host->main;
}

struct tide_lua *tide__lua_inside(lua_State *L) {
    struct tide_lua *host = tide__lua_host(L);
    if (host->program || !tide_fiber_current()) {
        luaL_error(L, "only an actor can do this: call it from a script that a node runs");
    }
    return host;
}

/* ---- preemption and cancelling ---- */

/* Raises at every instruction: no pcall can swallow it for longer than its own body. */
static void cancelled_hook(lua_State *L, lua_Debug *ar) {
    (void)ar;
    tide__lua_push_error(L, "ECANCELED", "cancelled", NULL);
    lua_error(L);
}

/* lua_sethook is one of the few things that a signal may do to a state of its own thread. A hook is of one Lua thread:
 * the coroutine that runs gets it, and who resumed it when it comes back (resumed). */
void tide__lua_interrupt(struct tide_lua *host) {
    struct tide_lua_fiber *fiber = tide__lua_current(host);
    lua_State *L = fiber->running ? fiber->running : fiber->L;
    host->killed = true;
    if (L) {
        lua_sethook(L, cancelled_hook, LUA_MASKCALL | LUA_MASKRET | LUA_MASKLINE | LUA_MASKCOUNT, 1);
    }
}

static int raise_cancelled(lua_State *L) {
    struct tide_lua_fiber *fiber = tide__lua_current(tide__lua_host(L));
    lua_sethook(L, cancelled_hook, LUA_MASKCOUNT, 1);
    if (fiber->L) {
        lua_sethook(fiber->L, cancelled_hook, LUA_MASKCOUNT, 1);
    }
    tide__lua_push_error(L, "ECANCELED", "cancelled", NULL);
    return lua_error(L);
}

/* ECANCELED may be what somebody answered. To who is being ended every wait says it. */
static bool is_ending(void) {
    char text[512];
    (void)snprintf(text, sizeof text, "%s", tide_error_message());
    const bool ending = tide_yield() == TIDE_ECANCELED;
    (void)tide_fail(TIDE_ECANCELED, "%s", text); /* others have run meanwhile */
    return ending;
}

int tide__lua_resumed(lua_State *L, int code) {
    struct tide_lua *host = tide__lua_host(L);
    if (code == TIDE_ECANCELED && !host->program && !host->killed) {
        host->killed = !tide__lua_current(host)->cancelled && (TIDE_MUTANT(answer_is_an_end) || is_ending());
    }
    if (host->killed || (!host->program && tide__lua_current(host)->cancelled)) {
        return raise_cancelled(L);
    }
    return code;
}

/* Switches to other work of the thread when this script has used its slice. In virtual time a slice
 * is a number of instructions, so that runs repeat. */
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
    int code = tide_yield();
    host->slice_start = tide_port_now(host->port);
    (void)tide__lua_resumed(L, code);
}

/* ---- guards ---- */

/* A coroutine begins to run on the fiber, or comes back; returns which ran before. */
static lua_State *switch_to(struct tide_lua_fiber *fiber, lua_State *co) {
    lua_State *before = fiber->running;
    fiber->running = co;
    return before;
}

/* Back in `L`, which resumed a coroutine: what ended that is not over. */
static void came_back(lua_State *L, struct tide_lua_fiber *fiber, lua_State *before) {
    fiber->running = before;
    if (fiber->host->killed && !fiber->host->program) {
        lua_sethook(L, cancelled_hook, LUA_MASKCOUNT, 1);
    }
}

/* Calls upvalue 1 with all arguments, counting how deep such calls nest on this fiber. Upvalue 2: the
 * coroutine that it resumes, or nil. */
static int guarded_call(lua_State *L) {
    struct tide_lua_fiber *fiber = tide__lua_current(tide__lua_host(L));
    lua_State *co = lua_tothread(L, lua_upvalueindex(2));
    if (fiber->close_depth >= TIDE_LUA_CLOSE_DEPTH) {
        return luaL_error(L, "coroutines nested more than %d deep", TIDE_LUA_CLOSE_DEPTH);
    }
    fiber->close_depth++;
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_State *before = switch_to(fiber, co ? co : fiber->running);
    int status = lua_pcall(L, lua_gettop(L) - 1, LUA_MULTRET, 0);
    came_back(L, fiber, before);
    fiber->close_depth--;
    return status == LUA_OK ? lua_gettop(L) : lua_error(L);
}

static int guarded_wrap(lua_State *L) {
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_call(L, lua_gettop(L) - 1, 1);
    if (!lua_getupvalue(L, -1, 1)) { /* the coroutine */
        lua_pushnil(L);
    }
    lua_pushcclosure(L, guarded_call, 2);
    return 1;
}

/* coroutine.resume, upvalue 1, which raises nothing but wrong arguments. */
static int tracked_resume(lua_State *L) {
    luaL_checktype(L, 1, LUA_TTHREAD);
    struct tide_lua_fiber *fiber = tide__lua_current(tide__lua_host(L));
    lua_State *before = switch_to(fiber, lua_tothread(L, 1));
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
    came_back(L, fiber, before);
    return lua_gettop(L);
}

static void guard_coroutines(lua_State *L) {
    lua_getglobal(L, "coroutine");
    lua_getfield(L, -1, "close");
    lua_pushnil(L);
    lua_pushcclosure(L, guarded_call, 2);
    lua_setfield(L, -2, "close");
    lua_getfield(L, -1, "resume");
    lua_pushcclosure(L, tracked_resume, 1);
    lua_setfield(L, -2, "resume");
    lua_getfield(L, -1, "wrap");
    lua_pushcclosure(L, guarded_wrap, 1);
    lua_setfield(L, -2, "wrap");
    lua_pop(L, 1);
}

static int refuse_exit(lua_State *L) {
    return luaL_error(
        L, "os.exit would end the whole node: return from the script or raise an error instead");
}

/* ---- loading ---- */

int tide__lua_load(lua_State *L, const char *source, size_t size, const char *chunk) {
    size_t skip = 0;
    if (size > 0 &&
        source[0] == '#') { /* "#!/usr/bin/env tide": the newline stays, lines keep their numbers */
        while (skip < size && source[skip] != '\n') {
            skip++;
        }
    }
    return luaL_loadbufferx(L, source + skip, size - skip, chunk, "t");
}

/* Reads DIR/a/b.lua or DIR/a/b/init.lua for module a.b; pushes the text and its path, or nothing.
 */
static bool read_module(lua_State *L, struct tide_port *port, const char *directory,
                        const char *name) {
    const char *path = luaL_gsub(L, name, ".", "/");
    static const char *const shapes[] = {"%s/%s.lua", "%s/%s/init.lua"};
    for (size_t i = 0; i < TIDE_COUNT(shapes); i++) {
        const char *file = lua_pushfstring(L, shapes[i], directory, path);
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
        int status = got < 0
                         ? LUA_ERRFILE
                         : tide__lua_load(L, text, (size_t)got, lua_pushfstring(L, "@%s", file));
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
    const char *directory =
        host->port ? host->port->ops->environment(host->port, "TIDE_LUA_PATH") : NULL;
    if (directory && directory[0] && read_module(L, host->port, directory, name)) {
        lua_pushliteral(L, ":TIDE_LUA_PATH:");
        return 2;
    }
    for (const struct tide_embedded_module *m = tide_embedded_modules; m->name; m++) {
        if (strcmp(m->name, name) == 0) {
            const char *path = luaL_gsub(L, name, ".", "/");
            if (tide__lua_load(L, m->source, m->size, lua_pushfstring(L, "@%s.lua", path)) !=
                LUA_OK) {
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

/* ---- message handler ---- */

/* "script.lua:12: text" becomes where and message. Pushes an error table for the string at index 1.
 */
static void split_position(lua_State *L) {
    const char *text = lua_tostring(L, 1), *colon = strchr(text, ':');
    while (colon) {
        size_t digits = strspn(colon + 1, "0123456789");
        if (digits > 0 && colon[1 + digits] == ':' && colon[2 + digits] == ' ') {
            const char *where = lua_pushlstring(L, text, (size_t)(colon + 1 + digits - text));
            tide__lua_push_error(L, "ECRASHED", colon + 3 + digits, where);
            return;
        }
        colon = strchr(colon + 1, ':');
    }
    tide__lua_push_error(L, "ECRASHED", text, "");
}

int tide__lua_traceback(lua_State *L) {
    if (lua_type(L, 1) != LUA_TTABLE) {
        if (lua_type(L, 1) != LUA_TSTRING) {
            luaL_tolstring(L, 1, NULL);
            lua_replace(L, 1);
        }
        split_position(L);
        lua_replace(L, 1);
    }
    lua_settop(L, 1);
    lua_pushliteral(L, "trace");
    if (lua_rawget(L, 1) == LUA_TNIL) {
        luaL_traceback(L, L, NULL, 1);
        lua_pushliteral(L, "trace");
        lua_insert(L, -2);
        lua_rawset(L, 1);
    }
    lua_settop(L, 1);
    return 1;
}

/* ---- states ---- */

static int setup(lua_State *L) {
    luaL_openlibs(L);
    guard_coroutines(L);
    add_searcher(L);
    if (!tide__lua_host(L)->program) {
        lua_getglobal(L, "os");
        lua_pushcfunction(L, refuse_exit);
        lua_setfield(L, -2, "exit");
        lua_pop(L, 1);
    }
    luaL_requiref(L, "tide.core", tide__lua_open_core,
                  0); /* its metatables are needed even by arguments */
    lua_pop(L, 1);
    return 0;
}

static void *allocate(void *ud, void *memory, size_t old_size, size_t size) {
    struct tide_lua *host = ud;
    size_t had = memory ? old_size : 0; /* without memory it tells the kind of object */
    if (size == 0) {
        host->memory -= had;
        tide_free(memory);
        return NULL;
    }
    if (host->memory_max > 0 && size > had && !tide__console_memory(host, size - had)) {
        return NULL;
    }
    void *grown = tide_realloc(memory, size);
    if (grown) {
        host->memory = host->memory - had + size;
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

int tide__lua_create(struct tide_node *node, struct tide_port *port, bool preempted,
                     struct tide_lua **out) {
    _Static_assert(LUA_VERSION_NUM == 504, "Tide is written for Lua 5.4");
    struct tide_lua *host = tide_alloc_zero(1, sizeof *host);
    if (!host) {
        return TIDE_ENOMEM;
    }
    host->node = node;
    host->port = port;
    host->program = node == NULL;
    host->preempted = preempted;
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
        int code = tide_fail(TIDE_ENOMEM, "cannot set up a Lua state: %s",
                             tide__lua_error_text(host->L, -1));
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
