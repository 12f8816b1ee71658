/*
 * Token buckets of a node: so many operations and bytes a second of what its workers ask of other
 * nodes (rate_operations, rate_bytes), taken at the origin before anything is sent.
 *
 * A bucket is the time at which its next token is due; what is taken moves it on. It may lie behind
 * by a tenth of a second, which is how much can be taken at once after a rest. An operation of any
 * size goes when a token is due, and pays afterwards. Fibers take their turn in the order in which
 * they came; a handler gets the time after which to retry.
 */
#include "store/core/node_store.h"

#define BURST_NS (TIDE_SECOND / 10)

/* Lock held. When `units` may go; taken then. */
static uint64_t due(struct tide__bucket *b, uint64_t now, double units) {
    if (b->per_second == 0) {
        return now;
    }
    const uint64_t least = now > BURST_NS ? now - BURST_NS : 0;
    const uint64_t at = b->due > least ? b->due : least;
    b->due = at + (uint64_t)(units * 1e9 / b->per_second);
    return at;
}

static int refuse(const struct tide__rate *r, uint64_t wait) {
    const uint32_t retry_ms = (uint32_t)(wait / 1000000 + 1);
    return tide_fail_busy(retry_ms,
                          "this node may ask for %.6g operations and %.6g bytes a second (0: any "
                          "number) and has: try again in %u ms",
                          r->operations.per_second, r->bytes.per_second, (unsigned)retry_ms);
}

int tide__rate_take(struct tide_store *store, uint64_t bytes) {
    struct tide__rate *r = &store->rate;
    if (r->operations.per_second == 0 && r->bytes.per_second == 0) {
        return 0;
    }
    const uint64_t now = tide_port_now(store->port);
    const bool waits = tide_fiber_current();
    tide_lock(&r->lock);
    const struct tide__bucket before[2] = {r->operations, r->bytes};
    uint64_t at = due(&r->operations, now, 1), other = due(&r->bytes, now, (double)bytes);
    at = other > at ? other : at;
    if (at > now && !waits) { /* it takes nothing */
        r->operations = before[0];
        r->bytes = before[1];
    }
    tide_unlock(&r->lock);
    if (at <= now || TIDE_MUTANT(rate_ignored)) {
        return 0;
    }
    if (!waits) {
        return refuse(r, at - now);
    }
    while (tide_port_now(store->port) < at) {
        int code = tide_fiber_suspend(at, "the node's rate limit");
        if (code && code != TIDE_ETIMEDOUT) {
            return tide_fail(code, "waiting for the node's rate limit: the fiber is being ended");
        }
    }
    return 0;
}

void tide_store_rate(struct tide_store *store, double operations, double bytes) {
    store->rate.operations.per_second = operations;
    store->rate.bytes.per_second = bytes;
}
