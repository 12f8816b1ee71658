/* Between move.c (what nodes do when slots move) and plan.c (what the controller does). I/O thread
 * 0. */
#ifndef TIDE_STORE_MOVE_H
#define TIDE_STORE_MOVE_H

#include "store/catalog.h"
#include "store/cut.h"

struct batch;
struct leaver;
struct arrival;
struct departure;

struct tide__moves {
    struct arrival *arrivals;
    struct departure *departures;
    struct batch *batches;
    struct leaver *leavers;
    uint32_t recording; /* changes of maps that are not recorded yet: nothing may follow from them */
    bool planning;
    uint32_t fences;
    uint32_t answers; /* tables with map_rounds */
    uint32_t rounds;  /* controller: of MAP, so far */
};

/* [op, table, version, node, slots, lost] */
void tide__move_send(struct tide_store *store, uint16_t to, int op, uint32_t table,
                     uint32_t version, uint16_t node, const uint32_t *slots, size_t count,
                     const uint32_t *lost, size_t lost_count);

void tide__plan_member(struct tide_store *store, const struct tide_member *member);
void tide__plan_expected(struct tide_store *store, uint32_t table, uint32_t version);
void tide__plan_moved(struct tide_store *store, uint32_t table, uint32_t version,
                      const uint8_t *lost, size_t lost_count);
/* MAP_DONE of one table, for the leaver of that round; round 0: all of them, the node is gone. */
void tide__plan_answered(struct tide_store *store, uint16_t node, uint32_t round);
void tide__plan_drained(struct tide_store *store, uint16_t node);
void tide__plan_release(struct tide_store *store);
/* Reads back the batches that were under way; what their new homes have to be told is told by the
 * next tide__plan_resume, when the members are known. */
int tide__plan_load(struct tide_store *store);
void tide__plan_resume(struct tide_store *store);

#endif
