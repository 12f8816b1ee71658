/*
 * Rows that leave are sent from where they lie, and not from a copy: a send keeps them out of the
 * slab until the connection has no more use for them, for what was written may have to be written
 * again. Small rows are copied: their pieces would cost more than their bytes.
 *
 * I/O thread only, and the thread that ends the node; sends may outlive their table, whose rows are
 * not read any more then.
 */
#ifndef TIDE_STORE_ZERO_COPY_H
#define TIDE_STORE_ZERO_COPY_H

#include "store/core/table.h"

struct tide__zero_copy_source;
/* NULL: out of memory. */
struct tide__zero_copy_source *tide__zero_copy_source_create(struct tide__slab *slab);
void tide__zero_copy_source_close(struct tide__zero_copy_source *zero_copy_source); /* the slab goes; may be NULL */
bool tide__zero_copy_source_busy(const struct tide__zero_copy_source *zero_copy_source); /* rows are being sent */

/* How many rows of this size make a send, which fits one frame; 0: they are copied. */
size_t tide__zero_copy_rows(size_t row_bytes);

/* A blob for TIDE_LANE_STORE with `scattered` set (actor.h); it holds no row yet. NULL: out of memory. */
struct tide_blob *tide__zero_copy_create(struct tide__zero_copy_source *zero_copy_source);
/* Another row, at most tide__zero_copy_rows: *takes* it. */
void tide__zero_copy_add(struct tide_blob *send, uint32_t row);

#endif
