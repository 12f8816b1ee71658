/* libtide: a node has a store. */
#include "node.h"

#include "store/client/rows.h"

const bool tide__node_stores = true;

int tide__node_store_create(struct tide_node *node, const struct tide_node_options *o) {
    int rc = tide_store_create(node->system, node->net, o->memory, &node->store);
    if (rc == 0 && !o->client) {
        rc = tide_rows_create(node, node->store);
    }
    if (rc == 0) {
        tide_store_limit(node->store, o->queue_limit);
        tide_store_rate(node->store, o->rate_operations, o->rate_bytes);
    }
    return rc;
}

void tide__node_store_destroy(struct tide_node *node) {
    tide_store_destroy(node->store);
}
