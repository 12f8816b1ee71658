/*
 * For each of some keys, a set of nodes: those with copies of a row (subscribe.c), those that intend to use
 * one (interest.c). Open addressing; a key is there as long as its record has memory for nodes. No
 * locks.
 */
#ifndef TIDE_STORE_NODE_SETS_H
#define TIDE_STORE_NODE_SETS_H

#include "base/base.h"

struct tide__node_set {
    uint64_t key;
    uint64_t stamp;  /* the user's */
    uint16_t *nodes; /* in any order but that of `first`; NULL: an empty place */
    uint16_t count, capacity;
    uint16_t first; /* the user's: so many of them come first */
};

struct tide__node_sets {
    struct tide__node_set *places;
    uint32_t capacity, count;
};

void tide__node_sets_free(struct tide__node_sets *sets);
/* The set of a key; NULL: there is none. Valid until the next change of the sets. */
struct tide__node_set *tide__node_set_find(const struct tide__node_sets *sets, uint64_t key);
/* Adds a node that is not in it, behind all; makes the set. NULL: out of memory. */
struct tide__node_set *tide__node_set_add(struct tide__node_sets *sets, uint64_t key, uint16_t node);
/* Where the node is in the set; -1: it is not. */
int tide__node_set_at(const struct tide__node_set *set, uint16_t node);
void tide__node_set_drop(struct tide__node_sets *sets, struct tide__node_set *set);

#endif
