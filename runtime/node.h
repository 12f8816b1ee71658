/* What stands on a node's net: the store in libtide (node_store.c), nothing in libtide-actor (node_alone.c). */
#ifndef TIDE_RUNTIME_NODE_H
#define TIDE_RUNTIME_NODE_H

#include "actor/node.h"
#include "tide/actor.h"

extern const bool tide__node_stores; /* may a node hold slots of tables? */
/* Sets node->store. EUNSUPPORTED: an option is about a store that this library has not. */
int tide__node_store_create(struct tide_node *node, const struct tide_node_options *options);
void tide__node_store_destroy(struct tide_node *node); /* after tide_system_stop, before the net's destruction */

#endif
