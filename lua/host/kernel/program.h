/* What the bindings of programs and of programs of vertices share. */
#ifndef TIDE_LUA_PROGRAM_H
#define TIDE_LUA_PROGRAM_H

#include "lua/host/host.h"

#include "graph/program.h"

struct tide_lua_run {
    struct tide_plan *plan;
    struct tide_run *run;
    const struct tide_device *device;
    struct tide_program *program; /* lives as the first user value */
    bool busy, bound, forest;     /* forest: one is bound */
    bool finite;                  /* a step ends at a loss that is not finite */
};
enum { TIDE_LUA_RUN_FOREST = 8, TIDE_LUA_RUN_ROWS = 9, TIDE_LUA_RUN_VALUES = 10 };

/* Argument 1; raises what it is not, and that a run is in the middle of a step. */
struct tide_program *tide__lua_program_check(lua_State *L);
struct tide_lua_run *tide__lua_run_check(lua_State *L);

/* The update rule that the table at an index declares: {rule=, rate=, scale=, decay=, mu=, beta2=, eps=, step=}. */
struct tide_step tide__lua_rule_check(lua_State *L, int index);

/* Adds the methods of programs of vertices, to the tables at these indices. */
void tide__lua_vertex_methods(lua_State *L, int program, int run);

struct tide_forest;
const struct tide_forest *tide__lua_forest_check(lua_State *L, int index);

#endif
