/* Actors written in Lua. See tide.h. */
#ifndef TIDE_PUBLIC_LUA_H
#define TIDE_PUBLIC_LUA_H

#include "tide/actor.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TIDE_LUA_OPTIONS_INIT .size = sizeof(struct tide_lua_options)
struct tide_lua_options {
    size_t size;          /* of this struct (tide/actor.h); 0: its first layout */
    const char *name;     /* registered name, or NULL */
    const char *source;   /* Lua text */
    const char *chunk;    /* its name in errors: "@worker.lua" */
    const void *argument; /* one msgpack value: `...` of the chunk */
    size_t argument_size;
    uint8_t role, thread;
    tide_address link;
    uint8_t opens; /* enum tide_right that a client has at least to send here; 0: nodes only */
};
/* Starts a Lua actor: a state of its own on a fiber, running `source` as its main function. Any thread. */
int tide_spawn_lua(struct tide_node *node, const struct tide_lua_options *options, tide_address *out);
/* Starts the node's agent, which answers `tide status`, `tide tables`, `tide actors` and `tide attach`; a first node is
 * also published in the user's run directory, so that these find its cluster by name. Once a node that has joined (its
 * creation has returned, or its member is UP where it runs on the host's loop). Outside. EEXIST: it has one. */
int tide_node_agent(struct tide_node *node);

#ifdef __cplusplus
}
#endif
#endif
