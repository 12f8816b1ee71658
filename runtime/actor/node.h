/*
 * A node as its rooms see it: one object that names what belongs together. The rooms make their parts; runtime/node.c
 * puts them together in order and takes them apart. A part may be missing: a test of the actor room has no net, a
 * program on libtide-actor no store.
 */
#ifndef TIDE_NODE_H
#define TIDE_NODE_H

#include "base/base.h"

struct tide_port;
struct tide_system;
struct tide_net;
struct tide_store;

struct tide_node {
    struct tide_port *port;
    struct tide_system *system;
    struct tide_net *net;     /* or NULL */
    struct tide_store *store; /* or NULL */
    bool owns_port;
    struct tide_lock name_lock;
    char name[64]; /* set once: by the options, or by the controller at the join */
};

#endif
