/*
 * How fast one node may send to another of its own accord: the rate that the way there is seen to
 * carry, and a token bucket that fills at a share of it. What has to be sent at once is sent
 * whatever the bucket says and leaves it in debt; what may wait is sent from what is left.
 *
 * The rate is measured from acknowledgements (bytes that the receiver has consumed), over spans in
 * which something was in flight all the time: only then is the way what limits. The greatest of the
 * last spans counts, because spans in which the receiver was busy say too little.
 *
 * Pure: times and counts come from the caller.
 */
#ifndef TIDE_STORE_PACER_H
#define TIDE_STORE_PACER_H

#include "base/base.h"
#include "base/peak_rate.h"

enum {
    TIDE__PACER_PERIOD_NS = 5000000,   /* what one look may send, and a tick may wait for */
    TIDE__PACER_BURST_NS = 20000000,   /* what an idle link saves up */
    TIDE__PACER_SPAN_NS = 200000000,   /* of a measurement, at most */
    TIDE__PACER_SPAN_BYTES = 64 << 10, /* fewer say more of delays than of the rate */
    TIDE__PACER_QUANTUM_MIN = 4 << 10, /* a slow link carries that much at a time */
    TIDE__PACER_DEBT_NS = 1000000000,  /* no more is worked off than this takes */
    TIDE__PACER_RATE_FIRST = 10000000, /* bytes/s, until something was measured */
};

struct tide__pacer {
    uint64_t at;                        /* of the last look; 0: none */
    uint64_t sent, consumed;            /* then */
    uint64_t busy_since, busy_consumed; /* something has been in flight since; 0: nothing is */
    struct tide_peak_rate peak;
    int64_t tokens; /* bytes */
};

/* What early sends may fill up, in bytes/s: the user's `bandwidth` (0: not given), else 90 % of
 * what the link was seen to carry. */
uint64_t tide__pacer_rate(const struct tide__pacer *pace, uint64_t bandwidth);
/*
 * Looks at the link at time `now` (ns, not 0, never back): `sent` bytes so far for whatever reason,
 * `consumed` by the receiver, `under_way`. Returns how many bytes may be sent early now (a message
 * may exceed it by its last row).
 */
uint64_t tide__pacer_allows(struct tide__pacer *pace, uint64_t now, uint64_t sent, uint64_t consumed,
                            uint64_t under_way, uint64_t bandwidth);

#endif
