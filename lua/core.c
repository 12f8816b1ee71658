/* The module `tide.core`: the parts in one table. lua/tide/core.meta.lua documents every function.
 */
#include "host.h"

int tide__lua_open_core(lua_State *L) {
    lua_createtable(L, 0, 64);
    tide__lua_open_value(L);
    tide__lua_open_tensor(L);
    tide__lua_open_actor(L);
    tide__lua_open_fiber(L);
    tide__lua_open_table(L);
    tide__lua_open_kernel(L);
    tide__lua_open_node(L);
    tide__lua_open_process(L);
    tide__lua_open_data(L);
    tide__lua_open_matrix(L);
    tide__lua_open_program(L);
    tide__lua_open_corpus(L);
    tide__lua_open_sampler(L);
    tide__lua_open_simulator(L);
    return 1;
}
