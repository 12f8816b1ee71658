/* See tests/lua/core_cases.lua. */
#include "lua_cases.h"

int main(void) {
    return run_lua_cases("../lua/core_cases.lua");
}
