/*
 * Arguments that many functions take: addresses "node:id" and times in seconds.
 */
#include "host.h"

static char *write_decimal(char *end, uint64_t value) {
    do {
        *--end = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    return end;
}

void tide__lua_push_address(lua_State *L, tide_address address) {
    char text[48], *end = text + sizeof text; /* by hand: it is on the path of every message */
    char *at = write_decimal(end, tide_address_id(address));
    *--at = ':';
    at = write_decimal(at, tide_address_node(address));
    lua_pushlstring(L, at, (size_t)(end - at));
}

tide_address tide__lua_check_address(lua_State *L, int index) {
    const char *text = luaL_checkstring(L, index), *at = text;
    uint64_t node = 0, id = 0;
    int digits = 0;
    while (*at >= '0' && *at <= '9' && node <= UINT16_MAX) {
        node = node * 10 + (uint64_t)(*at++ - '0');
        digits++;
    }
    if (digits > 0 && *at == ':' && node <= UINT16_MAX) {
        at++;
        for (digits = 0; *at >= '0' && *at <= '9' && id < (UINT64_C(1) << 48); digits++) {
            id = id * 10 + (uint64_t)(*at++ - '0');
        }
        if (digits > 0 && *at == 0 && id < (UINT64_C(1) << 48)) {
            return tide_address_make((uint16_t)node, id);
        }
    }
    luaL_argerror(L, index, lua_pushfstring(L, "\"%s\" is not an address \"node:id\"", text));
    return TIDE_NOBODY;
}

uint64_t tide__lua_duration(lua_State *L, int index, uint64_t otherwise) {
    if (lua_isnoneornil(L, index)) {
        return otherwise;
    }
    double seconds = luaL_checknumber(L, index);
    luaL_argcheck(L, seconds >= 0, index, "a time is 0 seconds or more");
    return seconds >= 9e9 ? TIDE_NEVER : (uint64_t)(seconds * 1e9);
}

uint64_t tide__lua_deadline(struct tide_lua *host, uint64_t duration) {
    uint64_t now = tide_port_now(host->port);
    return duration >= TIDE_NEVER - now ? TIDE_NEVER : now + duration;
}
