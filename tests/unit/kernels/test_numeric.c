/* See tests/policy/numeric.lua. */
#include "lua_cases.h"

int main(void) {
    return run_lua_cases("numeric.lua");
}
