/* Kernels of shared objects (module.c) and the function that calls one (kernel.c). */
#ifndef TIDE_LUA_MODULE_H
#define TIDE_LUA_MODULE_H

#include "lua/host/host.h"

/* Pushes the function that calls the kernel with a table of named arguments. */
void tide__lua_push_kernel(lua_State *L, const struct tide_kernel *kernel);
void tide__lua_open_module(lua_State *L);

#endif
