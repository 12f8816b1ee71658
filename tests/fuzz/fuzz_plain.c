/* Plain values (lua/host/sandbox/plain.h): what is accepted is written anew and read again to the same bytes. */
#include "fuzz.h"
#include "lua/host/sandbox/plain.h"

#include <lauxlib.h>

static lua_State *state;

static int decode(lua_State *L) {
    const struct tide_plain *input = lua_touserdata(L, 1);
    return tide__plain_decode(L, input->data, input->size) < 0 ? 0 : 1;
}

/* False: refused. True: the value is on the stack. */
static bool decoded(struct tide_plain *input) {
    int top = lua_gettop(state);
    lua_pushcfunction(state, decode);
    lua_pushlightuserdata(state, input);
    FUZZ_CHECK(lua_pcall(state, 1, LUA_MULTRET, 0) == LUA_OK);
    return lua_gettop(state) > top;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!state) {
        state = luaL_newstate();
        FUZZ_CHECK(state);
    }
    struct tide_plain input = {.data = (uint8_t *)(uintptr_t)data, .size = size}, first = {0},
                      second = {0};
    if (decoded(&input)) {
        FUZZ_CHECK(tide__plain_encode(state, -1, &first) == 0);
        FUZZ_CHECK(decoded(&first));
        FUZZ_CHECK(tide__plain_encode(state, -1, &second) == 0);
        FUZZ_CHECK(first.size == second.size && memcmp(first.data, second.data, first.size) == 0);
    }
    tide_free(first.data);
    tide_free(second.data);
    lua_settop(state, 0);
    return 0;
}
