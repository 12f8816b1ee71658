/* Groups: the home of a slot and the chain of nodes that hold copies of its rows. The controller decides them
 * (groups.c). */
#ifndef TIDE_STORE_GROUPS_H
#define TIDE_STORE_GROUPS_H

#include "store/slots/catalog.h"

enum { TIDE__CHAIN_MAX = 4 };
#define TIDE__LOST_CHAIN UINT64_MAX /* of a slot that died with all its copies */

/* A chain: node ids of 16 bits, the first lowest; 0 ends it. */
static inline uint16_t tide__chain_at(uint64_t chain, unsigned i) {
    return (uint16_t)(i < TIDE__CHAIN_MAX ? chain >> (16 * i) : 0);
}
static inline unsigned tide__chain_count(uint64_t chain) {
    unsigned count = 0;
    while (tide__chain_at(chain, count)) {
        count++;
    }
    return count;
}
static inline bool tide__chain_has(uint64_t chain, uint16_t node) {
    bool found = false;
    for (unsigned i = 0; i < TIDE__CHAIN_MAX; i++) {
        found |= node && tide__chain_at(chain, i) == node;
    }
    return found;
}
static inline uint64_t tide__chain_append(uint64_t chain, uint16_t node) {
    unsigned count = tide__chain_count(chain);
    return count < TIDE__CHAIN_MAX ? chain | (uint64_t)node << (16 * count) : chain;
}
static inline uint64_t tide__chain_without(uint64_t chain, uint16_t node) {
    uint64_t rest = 0;
    for (unsigned i = 0; i < TIDE__CHAIN_MAX; i++) {
        const uint16_t at = tide__chain_at(chain, i);
        rest = at && at != node ? tide__chain_append(rest, at) : rest;
    }
    return rest;
}

void tide__groups_choose(struct tide__catalog_entry *entry, const uint16_t *nodes, size_t count);
void tide__groups_member(struct tide_store *store, const struct tide_member *member);
/* Looks for copies to rebuild, and slots to take off leavers. Of tide__plan_advance. */
void tide__groups_plan(struct tide_store *store);
/* Notifies all nodes of changes that are recorded by now. */
void tide__groups_tell(struct tide_store *store);
void tide__groups_release(struct tide_store *store);
/* From the home: `node` has joined; 0: all is settled as of `version`. */
void tide__groups_rebuilt(struct tide_store *store, uint16_t from, uint32_t table, uint32_t version, uint16_t node,
                          const uint8_t *slots, size_t count);
void tide__groups_copy_failed(struct tide_store *store, uint32_t table, uint16_t node, const uint8_t *slots,
                              size_t count);
/* Is a leaving node still in a group of the table, and can another take its place? */
bool tide__groups_busy(struct tide_store *store, const struct tide__catalog_entry *entry, uint16_t node);

#endif
