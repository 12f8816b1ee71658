/* The Lua half of Tide inside the program: generated from lua/tide by the build. */
#ifndef TIDE_LUA_EMBEDDED_H
#define TIDE_LUA_EMBEDDED_H

#include <stddef.h>

struct tide_embedded_module {
    const char *name;   /* "tide.cli"; "tide" for tide/init.lua; NULL ends the list */
    const char *source; /* text, size bytes */
    size_t size;
};
extern const struct tide_embedded_module tide_embedded_modules[];

#endif
