/* See tests/policy/scheduling.lua. */
#include "lua_cases.h"

int main(void) {
    return run_lua_cases("scheduling.lua");
}
