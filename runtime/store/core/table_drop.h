/* Use of tables by threads while others may drop them (table_drop.c). */
#ifndef TIDE_STORE_TABLE_DROP_H
#define TIDE_STORE_TABLE_DROP_H

#include "store/core/table.h"

/* ECLOSED, with its name. */
int tide__table_dropped(const struct tide_table *table);
static inline void tide__table_hold(struct tide_table *table) {
    atomic_fetch_add_explicit(&table->holders, 1, memory_order_relaxed);
}
/* What a thread other than the I/O thread does with tables that it does not hold lies between the two: none
 * of them is freed meanwhile. */
unsigned tide__tables_enter(struct tide_store *store);
void tide__tables_leave(struct tide_store *store, unsigned entered);

#endif
