/* See tests/policy/placement.lua. */
#include "lua_cases.h"

int main(void) {
    return run_lua_cases("placement.lua");
}
