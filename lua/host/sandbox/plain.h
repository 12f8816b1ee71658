/*
 * Plain values as bytes: nil, booleans, numbers, strings and tables of them with any number or
 * string as key. One form for three uses: between a sandbox's Lua state and its host's, in policy
 * journals, and to compare two values. Equal values have equal bytes: keys are sorted, numbers
 * first. (Messages travel as msgpack, whose tables here are arrays or string-keyed only; views and
 * plans are keyed by sparse integer ids.)
 *
 *   value   0 nil | 1 false | 2 true | 3 i64 | 4 f64 | 5 u32 length, bytes | 6 u32 array length,
 * u32 pairs, values, then key and value of each pair                              (all
 * little-endian)
 */
#ifndef TIDE_LUA_PLAIN_H
#define TIDE_LUA_PLAIN_H

#include <lua.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TIDE_PLAIN_DEPTH_MAX = 32 };

struct tide_plain {
    uint8_t *data; /* heap, the caller frees it */
    size_t size, capacity;
    size_t items, items_max, bytes_max; /* maxima 0: 4 M values, 64 MiB */
    bool functions;                     /* functions become `true` instead of an error */
    char reason[200];                   /* why it failed, with the path of the field */
};

/* Appends the value at `index`; raises nothing, runs no metamethod, changes no stack. EINVAL,
 * ELIMIT, ENOMEM with `reason`. */
int tide__plain_encode(lua_State *L, int index, struct tide_plain *out);
/* Pushes the bytes as a string and frees them, also when it raises. Returns 1. */
int tide__plain_push(lua_State *L, struct tide_plain *plain);
/* Pushes the one value that `data` is. EPROTO, ELIMIT: nothing pushed. Raises only when out of
 * memory. */
int tide__plain_decode(lua_State *L, const void *data, size_t size);

#endif
