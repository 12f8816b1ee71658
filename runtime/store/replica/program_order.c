/*
 * The order of one worker's operations on a row with copies. While a home lives, the ordered lane
 * to it keeps them in the order of their calls. When a slot changes its home, unanswered operations
 * run again at the new one, and that may have what the old one did after them: a pull that runs again
 * would show a later push of its own worker, or more than a later pull that was answered. So a
 * worker's operation waits until its own asynchronous pulls of the same keys are answered. A push
 * delays nothing: it runs once, at any home, and copies get pushes in their order.
 *
 * A worker is a fiber. Other callers cannot wait, and have no such order.
 */
#include "store/core/node_store.h"
#include "store/core/send.h"
#include "store/replica/program_order.h"
#include "store/replica/replica.h"

struct key_set { /* open addressing; 0: free, else 1 + position in `keys` */
    const uint64_t *keys;
    uint32_t mask;
    uint32_t at[];
};

static struct key_set *key_set_make(const uint64_t *keys, size_t count) {
    uint32_t capacity = 2;
    while (capacity < 2 * count) {
        capacity *= 2;
    }
    struct key_set *set = tide_alloc_zero(1, sizeof *set + capacity * sizeof set->at[0]);
    if (!set) {
        return NULL;
    }
    set->keys = keys;
    set->mask = capacity - 1;
    for (size_t i = 0; i < count; i++) {
        uint32_t at = (uint32_t)tide_mix64(keys[i]) & set->mask;
        while (set->at[at] && keys[set->at[at] - 1] != keys[i]) {
            at = (at + 1) & set->mask;
        }
        set->at[at] = (uint32_t)i + 1;
    }
    return set;
}

static bool has_key(const struct key_set *set, uint64_t key) {
    uint32_t at = (uint32_t)tide_mix64(key) & set->mask;
    while (set->at[at] && set->keys[set->at[at] - 1] != key) {
        at = (at + 1) & set->mask;
    }
    return set->at[at] != 0;
}

static bool asks_for(const struct tide__pending *p, const struct key_set *set) {
    for (uint32_t i = 0; i < p->count; i++) {
        if (p->at[i] && has_key(set, tide__pending_key(p, i))) {
            return true;
        }
    }
    return false;
}

/* Lock held. An unanswered pull of the fiber with one of the keys; the fiber is behind no other. */
static struct tide__pending *earlier_pull(const struct tide_table *table, const struct tide_fiber *fiber,
                                          const struct key_set *set) {
    struct tide__pending *found = NULL;
    for (struct tide__pending *p = table->store->pending.first; p; p = p->next) {
        struct tide__program_order *order = p->part;
        if (p->table == table && order->fiber == fiber) {
            order->follows = false;
            found = !found && asks_for(p, set) ? p : found;
        }
    }
    return found;
}

static bool is_free(const struct tide_table *table) {
    return TIDE_MUTANT(pull_overtaken) || !tide_fiber_current() ||
           /* relaxed: what counts are this thread's own pulls */
           atomic_load_explicit(&tide__replicas_of(table)->async_pulls, memory_order_relaxed) == 0;
}

bool tide__program_order_is_held(struct tide_table *table, const uint64_t *keys, size_t count) {
    struct tide__pending_table *t = &table->store->pending;
    struct key_set *set = is_free(table) ? NULL : key_set_make(keys, count);
    if (!set) {
        return !is_free(table);
    }
    tide_lock(&t->lock);
    bool held = earlier_pull(table, tide_fiber_current(), set);
    tide_unlock(&t->lock);
    tide_free(set);
    return held;
}

int tide__program_order_wait(struct tide_table *table, const uint64_t *keys, size_t count) {
    struct tide__pending_table *t = &table->store->pending;
    if (is_free(table)) {
        return 0;
    }
    struct tide_fiber *fiber = tide_fiber_current();
    struct key_set *set = key_set_make(keys, count);
    if (!set) {
        return tide_fail(TIDE_ENOMEM, "no memory to look up %zu keys", count);
    }
    const uint64_t deadline = tide_port_now(table->store->port) + tide_limit(store_operation_timeout);
    int code = 0;
    for (;;) {
        tide_lock(&t->lock);
        struct tide__pending *p = earlier_pull(table, fiber, set);
        if (p) {
            ((struct tide__program_order *)p->part)->follows = !code;
        }
        tide_unlock(&t->lock);
        if (!p || code) {
            break;
        }
        code = tide_fiber_suspend(deadline, "an earlier pull of the same key");
    }
    tide_free(set);
    char what[128];
    (void)snprintf(what, sizeof what, "table '%s': an earlier pull of the same key", table->name);
    return code ? tide__store_gave_up(code, what, "no answer") : 0;
}

void tide__program_order_begin(struct tide__pending *p, const void *keys, bool async) {
    (void)keys;
    struct tide__program_order *order = p->part;
    if (async && p->kind == TIDE__PULL && tide_fiber_current()) {
        order->fiber = tide_fiber_current();
        atomic_fetch_add_explicit(&tide__replicas_of(p->table)->async_pulls, 1, memory_order_relaxed);
    }
}

void tide__program_order_end(struct tide__pending *p) {
    const struct tide__program_order *order = p->part;
    if (order->fiber) {
        atomic_fetch_sub_explicit(&tide__replicas_of(p->table)->async_pulls, 1, memory_order_relaxed);
    }
    if (order->follows) { /* under the lock, without which the fiber does not leave */
        tide_fiber_wake(order->fiber);
    }
}
