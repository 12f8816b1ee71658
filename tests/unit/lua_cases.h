/*
 * Tests written in Lua that need the real core: a file returns a list of {name, function}; each
 * becomes a cmocka test of its own, run in one Lua state of the program's kind (no node). The state
 * reads Lua modules from the source tree.
 */
#ifndef TIDE_TEST_LUA_CASES_H
#define TIDE_TEST_LUA_CASES_H

#include "lua/host/host.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct tide_port *cases_port;
static struct tide_lua *cases_host;

static void run_case(void **state) {
    int index = *(int *)*state;
    lua_State *L = cases_host->L;
    lua_settop(L, 1);
    lua_pushcfunction(L, tide__lua_traceback);
    lua_rawgeti(L, 1, index);
    lua_rawgeti(L, -1, 2);
    if (lua_pcall(L, 0, 0, 2) != LUA_OK) {
        lua_getfield(L, -1, "where");
        lua_getfield(L, -2, "message");
        lua_getfield(L, -3, "trace");
        fail_msg("%s: %s\n%s", luaL_tolstring(L, -3, NULL), luaL_tolstring(L, -3, NULL),
                 luaL_tolstring(L, -3, NULL));
    }
}

/* Runs the cases of a file of tests/policy/. */
static int run_lua_cases(const char *name) {
    char path[500], directory[] = TIDE_SOURCE_DIR "/lua";
    (void)snprintf(path, sizeof path, TIDE_SOURCE_DIR "/tests/policy/%s", name);
    (void)setenv("TIDE_LUA_PATH", directory, 0); /* planted mistakes are in another tree */
    if (tide_port_real_create(1, &cases_port) < 0 ||
        tide__lua_create(NULL, cases_port, false, &cases_host) < 0) {
        return 1;
    }
    lua_State *L = cases_host->L;
    lua_pushliteral(L, TIDE_SOURCE_DIR);
    lua_setglobal(L, "SOURCE");
    if (luaL_loadfile(L, path) != LUA_OK || lua_pcall(L, 0, 1, 0) != LUA_OK) {
        (void)fprintf(stderr, "%s: %s\n", path, luaL_tolstring(L, -1, NULL));
        return 1;
    }
    size_t count = (size_t)lua_rawlen(L, 1);
    struct CMUnitTest *tests = calloc(count, sizeof *tests);
    int *indices = calloc(count, sizeof *indices);
    for (size_t i = 0; tests && indices && i < count; i++) {
        indices[i] = (int)i + 1;
        lua_rawgeti(L, 1, indices[i]);
        lua_rawgeti(L, -1, 1);
        tests[i] = (struct CMUnitTest){
            .name = lua_tostring(L, -1), .test_func = run_case, .initial_state = &indices[i]};
        lua_settop(L, 1); /* the names live in the list */
    }
    int failed = tests && indices ? _cmocka_run_group_tests(name, tests, count, NULL, NULL) : 1;
    free(tests);
    free(indices);
    tide__lua_destroy(cases_host);
    cases_port->ops->destroy(cases_port);
    return failed;
}

#endif
