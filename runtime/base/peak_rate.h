/*
 * The rate that a link is seen to carry: the highest of the last measurements. A measurement in which the receiver was
 * busy with something else says too little.
 */
#ifndef TIDE_BASE_PEAK_RATE_H
#define TIDE_BASE_PEAK_RATE_H

#include <stddef.h>
#include <stdint.h>

enum { TIDE_PEAK_RATE_KEPT = 8 };

struct tide_peak_rate {
    uint64_t rates[TIDE_PEAK_RATE_KEPT]; /* bytes/s, 0: not measured */
    unsigned next;
};

/* The link carried `bytes` in `ns` (not 0), in which bytes were in flight all the time. */
static inline void tide_peak_rate_add(struct tide_peak_rate *p, uint64_t bytes, uint64_t ns) {
    p->rates[p->next++ % TIDE_PEAK_RATE_KEPT] = (uint64_t)((double)bytes * 1e9 / (double)ns);
}

/* In bytes/s; 0: nothing was measured. */
static inline uint64_t tide_peak_rate(const struct tide_peak_rate *p) {
    uint64_t most = 0;
    for (size_t i = 0; i < TIDE_PEAK_RATE_KEPT; i++) {
        most = p->rates[i] > most ? p->rates[i] : most;
    }
    return most;
}

#endif
