/*
 * How many bytes may be in flight to another worker. What is in flight cannot be overtaken, so it
 * is to be little; too little leaves the link idle. The window is what the link carries in a short
 * time and in the time that the way takes anyhow:
 *   rate x (exchange_window + 5/4 delay)
 * The rate is the highest of the last spans in which something was in flight, by what the receiver
 * has acknowledged. The delay is the least window / rate that was seen: where the window is what
 * limits the rate that is the round trip, and the window grows, for it comes to hold more than a
 * round trip of what it lets through.
 *
 * Pure: times and counts come from the caller.
 */
#ifndef TIDE_EXCHANGE_SEND_WINDOW_H
#define TIDE_EXCHANGE_SEND_WINDOW_H

#include "base/limits.h"
#include "base/peak_rate.h"

struct tide__send_window {
    size_t bytes;                 /* as it was last; 0: never looked */
    uint64_t at, consumed;        /* of the last look; 0: none */
    uint64_t span_ns, span_bytes; /* of this span so far */
    struct tide_peak_rate peak;
    uint64_t delay_ns; /* 0: not known */
};

/* Looks at the link at time `now` (ns, not 0, never back), before a message of `size` bytes is
 * sent: `consumed` by the receiver so far, `under_way` to it. Returns the window, `most` at most. A
 * message larger than the window is sent alone. */
size_t tide__send_window_look(struct tide__send_window *w, uint64_t now, uint64_t consumed, uint64_t under_way,
                              size_t size, size_t most);

#endif
