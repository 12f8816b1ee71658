/* See tests/policy/comm.lua. */
#include "lua_cases.h"

int main(void) {
    return run_lua_cases("comm.lua");
}
