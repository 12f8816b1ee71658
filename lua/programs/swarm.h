/* core.swarm and core.swarm_options, in the program `tide-sim` alone. */
#ifndef TIDE_LUA_SWARM_H
#define TIDE_LUA_SWARM_H

#include <lua.h>

/* Adds them to the module tide.core of a state that has it. */
void tide__lua_open_swarm(lua_State *L);

#endif
