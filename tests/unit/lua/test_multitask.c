/* See tests/policy/multitask.lua. */
#include "lua_cases.h"

int main(void) {
    return run_lua_cases("multitask.lua");
}
