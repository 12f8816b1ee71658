/* See tests/policy/sandbox.lua. */
#include "lua_cases.h"

int main(void) {
    return run_lua_cases("sandbox.lua");
}
