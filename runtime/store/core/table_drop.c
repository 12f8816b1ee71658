/*
 * Threads that use tables without holding them, and holders. How a table is dropped: operation/drop.c.
 *
 * Other threads than the I/O thread use tables without holding them only between
 * tide__tables_enter and _leave. They count in the epoch that they entered in; an epoch begins when
 * the last but one has no readers left. So two epochs after a table was taken out, no thread has it.
 */
#include "store/core/table_drop.h"
#include "store/core/node_store.h"

int tide__table_dropped(const struct tide_table *table) {
    return tide_fail(TIDE_ECLOSED, "table '%s' was dropped", table->name);
}

unsigned tide__tables_enter(struct tide_store *store) {
    const unsigned parity = atomic_load(&store->table_epoch) & 1;
    atomic_fetch_add(&store->table_readers[parity], 1);
    (void)atomic_fetch_add(&store->table_epoch, 0); /* before the list is read; ordered with that of operation/drop.c */
    return parity;
}

void tide__tables_leave(struct tide_store *store, unsigned entered) {
    atomic_fetch_sub_explicit(&store->table_readers[entered], 1, memory_order_release);
}

void tide_table_release(struct tide_table *table) {
    if (table) {
        /* release: pairs with the acquire before it is freed */
        atomic_fetch_sub_explicit(&table->holders, 1, memory_order_release);
    }
}
