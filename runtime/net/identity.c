/* The identity of a node in its cluster, for its host. */
#include "net/net.h"

#include <string.h>

struct tide_net *tide_net_of(struct tide_node *node) {
    return node->net;
}

uint16_t tide_node_id(const struct tide_node *node) {
    return tide_net_self(node->net);
}

const char *tide_node_name(const struct tide_node *const_node) {
    struct tide_node *node = (struct tide_node *)(uintptr_t)const_node;
    struct tide_member self;
    tide_lock(&node->name_lock);
    if (node->name[0] == 0 && tide_net_member(node->net, tide_net_self(node->net), &self)) {
        memcpy(node->name, self.name, sizeof node->name);
    }
    tide_unlock(&node->name_lock);
    return node->name;
}

const char *tide_node_endpoint(const struct tide_node *node) {
    return tide_net_endpoint(node->net);
}
