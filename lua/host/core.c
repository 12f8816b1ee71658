/* The module `tide.core`: the parts in one table. lua/tide/core.meta.lua documents every function.
 */
#include "host.h"
#include "data/arrays.h"

void tide__lua_open_http(lua_State *L);   /* http.c */
void tide__lua_open_limits(lua_State *L); /* limits.c */

int tide__lua_open_core(lua_State *L) {
    lua_createtable(L, 0, 80);
    lua_createtable(L, 0, 64);
    tide__lua_open_value(L);
    tide__lua_open_tensor(L);
    tide__lua_open_actor(L);
    tide__lua_open_fiber(L);
    tide__lua_open_table(L);
    tide__lua_open_clock(L);
    tide__lua_open_options(L);
    tide__lua_open_trace(L);
    tide__lua_open_checkpoint(L);
    tide__lua_open_reader(L);
    tide__lua_open_kernel(L);
    tide__lua_open_node(L);
    tide__lua_open_directory(L);
    tide__lua_open_process(L);
    tide__lua_open_data(L);
    tide__lua_open_matrix(L);
    tide__lua_open_program(L);
    tide__lua_open_device(L);
    tide__lua_open_exchange(L);
    tide__lua_open_bow(L);
    tide__lua_open_blocks(L);
    tide__lua_open_corpus(L);
    tide__lua_open_forest(L);
    tide__lua_open_vertex(L);
    tide__lua_open_safetensors(L);
    tide__lua_open_arrays(L);
    tide__lua_open_libsvm(L);
    tide__lua_open_sampler(L);
    tide__lua_open_simulator(L);
    tide__lua_open_embedded(L);
    tide__lua_open_plain(L);
    tide__lua_open_sandbox(L);
    tide__lua_open_console(L);
    tide__lua_open_keys(L);
    tide__lua_open_audit(L);
    tide__lua_open_watch(L);
    tide__lua_open_look(L);
    tide__lua_open_control(L);
    tide__lua_open_http(L);
    tide__lua_open_limits(L);
    return 1;
}
