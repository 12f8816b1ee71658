/* libtide-actor: actors and messages, no store. */
#include "node.h"

#include "base/base.h"

const bool tide__node_stores = false;

int tide__node_store_create(struct tide_node *node, const struct tide_node_options *o) {
    (void)node;
    if (o->memory > 0 || o->queue_limit > 0 || o->rate_operations > 0 || o->rate_bytes > 0) {
        return tide_fail(TIDE_EUNSUPPORTED,
                         "memory, queue_limit and rates are about tables, which libtide-actor has not: "
                         "link with libtide");
    }
    return 0;
}

void tide__node_store_destroy(struct tide_node *node) {
    (void)node;
}
