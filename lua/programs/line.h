/* The module `tide.line`: the prompt's line editor. Part of the programs, not of the library. */
#ifndef TIDE_LUA_LINE_H
#define TIDE_LUA_LINE_H

#include "lua/host/host.h"

int tide__line_open(lua_State *L); /* lua_CFunction: returns the module */

#endif
