/* Actors written in Lua. See tide.h. */
#ifndef TIDE_PUBLIC_LUA_H
#define TIDE_PUBLIC_LUA_H

#include "tide/actor.h"

#ifdef __cplusplus
extern "C" {
#endif

struct tide_lua_options {
    const char *name;        /* registered name, or NULL */
    const char *source;      /* Lua text */
    const char *chunk;       /* its name in errors: "@worker.lua" */
    const void *argument;    /* one msgpack value: `...` of the chunk */
    size_t argument_size;
    uint8_t role, thread;
    tide_address link;
};
/* Starts a Lua actor: a state of its own on a fiber, running `source` as its main function. Any thread. */
int tide_spawn_lua(struct tide_node *node, const struct tide_lua_options *options, tide_address *out);

#ifdef __cplusplus
}
#endif
#endif
