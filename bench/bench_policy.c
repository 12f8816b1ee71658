/*
 * Policies: microseconds a decision, what the host adds, a swap, the solvers.
 *   bench_policy [--json]
 * The work is Lua (bench/policy.lua); processor time, medians of repeated rounds.
 */
#include "bench/report.h"
#include "lua/host/host.h"

#include <stdlib.h>

static int row(lua_State *L) {
    report_row(luaL_checkstring(L, 1), luaL_checkstring(L, 2), luaL_checknumber(L, 3));
    return 0;
}

int main(int argc, char **argv) {
    struct tide_port *port;
    struct tide_lua *host;
    report_init(argc, argv, "policy");
    if (tide_port_real_create(1, &port) < 0 || tide__lua_create(NULL, port, false, &host) < 0) {
        (void)fprintf(stderr, "%s\n", tide_error_message());
        return 1;
    }
    lua_pushcfunction(host->L, row);
    lua_setglobal(host->L, "row");
    bool ok = luaL_loadfile(host->L, BENCH_DIRECTORY "/policy.lua") == LUA_OK &&
              lua_pcall(host->L, 0, 0, 0) == LUA_OK;
    if (!ok) {
        (void)fprintf(stderr, "%s\n", luaL_tolstring(host->L, -1, NULL));
    }
    tide__lua_destroy(host);
    port->ops->destroy(port);
    return ok ? 0 : 1;
}
