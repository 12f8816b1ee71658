/* Workers, their clocks and what tables with clocks add to pull and push. See tide.h. */
#ifndef TIDE_PUBLIC_CLOCK_H
#define TIDE_PUBLIC_CLOCK_H

#include "tide/table.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Clocks. A worker is a fiber that said so; it counts intervals of its work from `clock` on, and what it pushes in
 * interval c has stamp c. Consistency models, intents and exact checkpoints are in these clocks.
 */
/* The calling fiber is worker `worker` of the run from now. EINVAL: it is one already, or no fiber of a node. */
int tide_worker_begin(struct tide_node *node, uint32_t worker, uint32_t clock);
/* The same in a domain of clocks (tide_table_options): workers wait for those of their domain alone. */
int tide_worker_begin_in(struct tide_node *node, uint32_t domain, uint32_t worker, uint32_t clock);
/* It is none any more; no worker waits for its clock. The end of the fiber does the same. Fibers. */
void tide_worker_end(void);
/* The calling fiber's clock; -1: it is no worker. It may begin at a higher clock than it asked for: a clock that others
 * was notified of as over stays over. Any thread. */
int64_t tide_worker_clock(void);
/* Ends the calling worker's interval; returns its new clock. EINVAL: the calling fiber is no worker. */
int tide_clock(void);

/*
 * One value in place, under its latch: *row has `width` floats until tide_table_read_end, which must come before
 * anything else that the caller does with tables, and before it waits for anything. Waits as a pull does. Workers, on
 * tables with clocks, except bsp; else EUNSUPPORTED.
 */
struct tide_table_read {
    void *opaque[2];
};
int tide_table_read_begin(struct tide_table *table, uint64_t key, const float **row, struct tide_table_read *read);
void tide_table_read_end(struct tide_table_read *read);
/* Adds values[i] to column columns[i] of a row (update rule "add"; else EUNSUPPORTED). Waits like a push. */
int tide_table_add(struct tide_table *table, uint64_t key, const uint32_t *columns, const float *values, size_t count);

/*
 * What the calling worker's node pushed is applied at the homes, and its copies hold everything that was applied there
 * when this was called. All workers do it, meet, and do it again: then all read the same. Fibers.
 */
int tide_settle(void);

/* Changes the bound of a table with clocks, on all nodes: larger at once, smaller from each worker's next clock. ssp
 * and essp may change into each other; every other model stays. Of changes that several nodes make at once the same one
 * is in force everywhere in the end. EINVAL, EUNSUPPORTED. Fibers. */
int tide_table_set_consistency(struct tide_table *table, const struct tide_consistency *consistency);
/* The one in force here. Any thread. */
void tide_table_consistency(const struct tide_table *table, struct tide_consistency *out);

#ifdef __cplusplus
}
#endif
#endif
