/* See tests/policy/canary.lua. */
#include "lua_cases.h"

int main(void) {
    return run_lua_cases("canary.lua");
}
