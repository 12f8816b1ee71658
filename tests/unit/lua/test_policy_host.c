/* See tests/policy/host.lua. */
#include "lua_cases.h"

int main(void) {
    return run_lua_cases("host.lua");
}
