/* See tests/policy/plans.lua. */
#include "lua_cases.h"

int main(void) {
    return run_lua_cases("plans.lua");
}
