/*
 * Spin lock for a few instructions. Waiters read the flag instead of exchanging it, so that the
 * line stays shared, and lend the core after a while.
 */
#include "base/base.h"

#include <sched.h>

enum { SPINS_MAX = 100 };

void tide_lend_core(void) {
    (void)sched_yield();
}

void tide_lock(struct tide_lock *lock) {
    /* acquire: pairs with the release in tide_unlock */
    while (atomic_exchange_explicit(&lock->held, true, memory_order_acquire)) {
        int spins = 0;
        while (atomic_load_explicit(&lock->held, memory_order_relaxed)) {
            if (++spins < SPINS_MAX) {
                tide_pause();
            } else {
                spins = 0;
                tide_lend_core();
            }
        }
    }
}

void tide_unlock(struct tide_lock *lock) {
    TIDE_ASSERT(atomic_load_explicit(&lock->held, memory_order_relaxed));
    atomic_store_explicit(&lock->held, false, memory_order_release); /* pairs with the acquire in tide_lock */
}
