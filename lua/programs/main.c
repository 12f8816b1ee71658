/*
 * The `tide` program: a Lua state with the embedded modules, which runs
 * require("tide.command").main(arg). Its number is the exit status. Everything else a user sees is
 * written in Lua. `tide-sim` is the same program at addresses that repeat (fixed.h).
 *
 * `tide --hold-parent SHARE` is what a node starts to be held to a share of a core (agent.lua).
 */
#define _GNU_SOURCE /* get_current_dir_name */
#include "tensor/isa.h"
#include "lua/host/host.h"
#ifdef TIDE_SIMULATOR
#include "lua/host/sim/fixed.h"
#include "swarm.h"
#else
#include "line.h"
#endif

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { EXIT_FAILED = 1, EXIT_USAGE = 2 };

/* A standard stream that the caller closed would be given to the next socket or file. */
static void keep_standard_streams(void) {
    for (int fd = 0; fd <= 2; fd++) {
        if (fcntl(fd, F_GETFD) < 0) {
            (void)open("/dev/null", fd == 0 ? O_RDONLY : O_WRONLY);
        }
    }
}

/* PWD as scripts and commands read it: a parent may have changed directory without it. */
static void keep_directory(void) {
    char *here = get_current_dir_name(); /* PWD itself, with its links, where it is right */
    if (here) {
        (void)setenv("PWD", here, 1);
    }
    free(here);
}

static int run(lua_State *L) {
    int argc = (int)lua_tointeger(L, 1);
    char *const *argv = lua_touserdata(L, 2);
    lua_settop(L, 0);
#ifdef TIDE_SIMULATOR
    tide__lua_open_swarm(L);
#endif
    lua_getglobal(L, "require");
    lua_pushliteral(L, "tide.command");
    lua_call(L, 1, 1);
    lua_getfield(L, -1, "main");
    lua_createtable(L, argc, 1);
    for (int i = 0; i < argc; i++) {
        lua_pushstring(L, argv[i]);
        lua_rawseti(L, -2, i);
    }
    lua_pushvalue(L, -1);
    lua_setglobal(L, "arg");
    lua_call(L, 1, 1);
    return 1;
}

/* An error the command line did not present itself: our own bug, shown whole. */
static void report(lua_State *L) {
    const char *message = tide__lua_error_text(L, -1), *where = "", *trace = "";
    if (lua_type(L, -1) == LUA_TTABLE) {
        lua_getfield(L, -1, "where");
        lua_getfield(L, -2, "trace");
        where = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "";
        trace = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "";
    }
    (void)fprintf(stderr, "tide: %s%s%s\n%s\n", where, where[0] ? ": " : "", message, trace);
}

int main(int argc, char **argv) {
    struct tide_port *port;
    struct tide_lua *host;
    keep_standard_streams();
    keep_directory();
    tide__memory_keep();
    tide_port_tell_crashes(tide__lua_last_words);
    if (argc == 3 && strcmp(argv[1], "--hold-parent") == 0) {
        int code = tide_port_hold_parent(strtod(argv[2], NULL));
        if (code < 0) {
            (void)fprintf(stderr, "tide: %s\n", tide_error_message());
        }
        return code < 0 ? EXIT_FAILED : 0;
    }
    if (tide_isa_check() < 0) {
        (void)fprintf(stderr, "tide: %s\n", tide_error_message());
        return EXIT_USAGE;
    }
#ifdef TIDE_SIMULATOR
    if (tide__fixed_enable() < 0) {
        (void)fprintf(stderr, "tide: %s\n", tide_error_message());
        return EXIT_FAILED;
    }
#else
    tide__lua_preload("tide.line", tide__line_open);
#endif
    if (tide_port_real_create(0, &port) < 0 || tide__lua_create(NULL, port, false, &host) < 0) {
        (void)fprintf(stderr, "tide: %s\n", tide_error_message());
        return EXIT_FAILED;
    }
    lua_State *L = host->L;
    lua_pushcfunction(L, tide__lua_traceback);
    lua_pushcfunction(L, run);
    lua_pushinteger(L, argc);
    lua_pushlightuserdata(L, argv);
    int status = EXIT_FAILED;
    if (lua_pcall(L, 2, 1, 1) != LUA_OK) {
        report(L);
    } else {
        int exact;
        lua_Integer number = lua_tointegerx(L, -1, &exact);
        status = exact ? (int)(number & 255) : lua_toboolean(L, -1) || lua_isnil(L, -1) ? 0 : EXIT_FAILED;
    }
    (void)fflush(stdout);
    if (host->node) { /* an error left it running: others should see it leave */
        tide_node_destroy(host->node, 2 * TIDE_SECOND);
        host->node = NULL;
    }
    tide__lua_destroy(host);
    port->ops->destroy(port);
    return status;
}
