/* What run:step needs of an exchange. */
#ifndef TIDE_LUA_EXCHANGE_H
#define TIDE_LUA_EXCHANGE_H

#include "exchange/exchange.h"
#include "graph/program.h"
#include "lua/host/host.h"

struct tide_lua_exchange;
/* NULL: the value is none; never raises. */
struct tide_lua_exchange *tide__lua_exchange_at(lua_State *L, int index);
/* The hook `factors` of a run; arg: a struct tide_lua_exchange. */
int tide__lua_exchange_factors(void *arg, size_t parameter, const struct tide_operand *a, const struct tide_operand *b);

#endif
