/*
 * Directories of clusters and runs: where they are, whose processes are there, locks, room on the disk.
 */
#include "lua/host/host.h"
#include "port/run_directory.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int core_run_directory(lua_State *L) {
    char path[256];
    int code = tide_run_directory(tide__lua_host(L)->port, path, sizeof path);
    if (code < 0) {
        return tide__lua_failure(L, code);
    }
    lua_pushstring(L, path);
    return 1;
}

static int core_private_directory(lua_State *L) {
    int code = tide_private_directory(tide__lua_host(L)->port, luaL_checkstring(L, 1), lua_toboolean(L, 2));
    if (code < 0) {
        return tide__lua_failure(L, code);
    }
    lua_pushboolean(L, true);
    return 1;
}

/* core.disk_room(path) -> bytes that may still be written where it lies */
static int core_disk_room(lua_State *L) {
    uint64_t bytes;
    int code = tide_disk_room(luaL_checkstring(L, 1), &bytes);
    if (code < 0) {
        return tide__lua_failure(L, code);
    }
    lua_pushinteger(L, bytes > INT64_MAX ? INT64_MAX : (lua_Integer)bytes);
    return 1;
}

/* core.sweep_directory(path): removes dead sockets; true: no process has one there or is about to */
static int core_sweep_directory(lua_State *L) {
    int code = tide_run_sweep(tide__lua_host(L)->port, luaL_checkstring(L, 1));
    if (code < 0) {
        return tide__lua_failure(L, code);
    }
    lua_pushboolean(L, code == 1);
    return 1;
}

/* A process that holds keys hides its file (tide_port_harden); its name, of up to 15 characters, is there still.
 */
static bool hidden_program_of(const char *process, char *out, size_t size) {
    char path[40], name[32] = "";
    (void)snprintf(path, sizeof path, "/proc/%s/comm", process);
    FILE *file = fopen(path, "re");
    const bool read = file && fgets(name, sizeof name, file);
    if (file) {
        (void)fclose(file);
    }
    name[strcspn(name, "\n")] = 0;
    (void)snprintf(out, size, "%s", name);
    return read;
}

/* The name of the file that a process runs, which may be gone since; false: unknown. */
static bool program_of(const char *process, char *out, size_t size) {
    static const char gone[] = " (deleted)";
    char path[40], link[1024];
    (void)snprintf(path, sizeof path, "/proc/%s/exe", process);
    const ssize_t length = readlink(path, link, sizeof link - 1);
    if (length <= 0) {
        return hidden_program_of(process, out, size);
    }
    link[length] = 0;
    char *end = strstr(link, gone);
    if (end) {
        *end = 0;
    }
    const char *name = strrchr(link, '/');
    (void)snprintf(out, size, "%.255s", name ? name + 1 : link);
    return true;
}

static int core_program_name(lua_State *L) {
    char name[256] = "";
    (void)program_of("self", name, sizeof name);
    lua_pushstring(L, name);
    return 1;
}

/* Whether a process is this user's, and of a program of that name. */
static int core_own_process(lua_State *L) {
    char pid[24], path[40], own[256], other[256];
    struct stat info;
    (void)snprintf(pid, sizeof pid, "%lld", (long long)luaL_checkinteger(L, 1));
    (void)snprintf(path, sizeof path, "/proc/%s", pid);
    bool same = stat(path, &info) == 0 && info.st_uid == geteuid() && program_of(pid, other, sizeof other) &&
                program_of("self", own, sizeof own);
    lua_pushboolean(L, same && strcmp(other, luaL_optstring(L, 2, own)) == 0);
    return 1;
}

static const char lock_metatable; /* its address is the registry key */

static int lock_close(lua_State *L) {
    struct tide_file **file = lua_touserdata(L, 1);
    if (*file) {
        tide__lua_host(L)->port->ops->file_close(*file);
        *file = NULL;
    }
    return 0;
}

/* core.lock(path): a lock on a file that is made, held until it is closed or this process ends. */
static int core_lock(lua_State *L) {
    struct tide_port *port = tide__lua_host(L)->port;
    const char *path = luaL_checkstring(L, 1);
    struct tide_file **file = lua_newuserdatauv(L, sizeof *file, 0);
    *file = NULL;
    if (lua_rawgetp(L, LUA_REGISTRYINDEX, &lock_metatable) == LUA_TNIL) {
        static const luaL_Reg methods[] = {
            {"__close", lock_close}, {"__gc", lock_close}, {"close", lock_close}, {NULL, NULL}};
        lua_pop(L, 1);
        luaL_newlib(L, methods);
        lua_pushvalue(L, -1);
        lua_setfield(L, -2, "__index");
        lua_pushvalue(L, -1);
        lua_rawsetp(L, LUA_REGISTRYINDEX, &lock_metatable);
    }
    lua_setmetatable(L, -2);
    int code =
        port->ops->file_open(port, path, TIDE_FILE_WRITE | TIDE_FILE_CREATE | TIDE_FILE_LOCK | TIDE_FILE_PRIVATE, file);
    if (code < 0) {
        *file = NULL;
        return tide__lua_failure(L, code);
    }
    return 1;
}

void tide__lua_open_directory(lua_State *L) {
    static const luaL_Reg functions[] = {
        {"run_directory", core_run_directory},
        {"private_directory", core_private_directory},
        {"disk_room", core_disk_room},
        {"sweep_directory", core_sweep_directory},
        {"own_process", core_own_process},
        {"program_name", core_program_name},
        {"lock", core_lock},
        {NULL, NULL},
    };
    luaL_setfuncs(L, functions, 0);
}
