/* Counters of a table, in stripes: threads that count write no line of each other. */
#include "store/core/table.h"

/* The first threads have a stripe each, which no other thread writes; all later ones share the last. */
unsigned tide__stripe(void) {
    static atomic_uint threads;
    static _Thread_local unsigned mine; /* 1 + stripe */
    if (TIDE_UNLIKELY(!mine)) {
        unsigned number = atomic_fetch_add_explicit(&threads, 1, memory_order_relaxed);
        mine = 1 + (number < TIDE__STRIPES - 1 ? number : TIDE__STRIPES - 1);
    }
    return mine - 1;
}

void tide__table_count(struct tide_table *table, enum tide__counter counter, uint64_t amount) {
    unsigned stripe = tide__stripe();
    tide__stripe_add(stripe, &table->stripes[stripe].value[counter], amount);
}
