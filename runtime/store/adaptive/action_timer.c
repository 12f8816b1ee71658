/*
 * When a node acts on an intent: late enough that rows do not lie about for nothing, early enough
 * that they are there in time. A worker's clocks between two rounds are taken to be Poisson
 * distributed; its mean is a moving average of what was seen, or the last figure if that is higher.
 * An intent is acted on if its first clock may be reached before the round after the next (AdaPM,
 * section 4.3).
 */
#include "store/adaptive/intent.h"

#include <math.h>

#define RATE_FIRST 10.0
#define RATE_KEPT 0.9
#define QUANTILE 3.719016485 /* of the normal distribution, at 0.9999 */

void tide__action_timer_init(struct tide__action_timer *window, uint32_t clock) {
    *window = (struct tide__action_timer){.rate = RATE_FIRST, .seen = clock};
}

/* The normal quantile with Cornish and Fisher's first correction, whose skewness is 1 / sqrt(mean);
 * off by at most one clock from the exact one. */
uint32_t tide__action_timer_clocks(double m) {
    const double mean = 2 * m;
    const double clocks = mean + QUANTILE * sqrt(mean) + (QUANTILE * QUANTILE - 1) / 6;
    return clocks < UINT32_MAX ? (uint32_t)lround(clocks) : UINT32_MAX;
}

uint32_t tide__action_timer_round(struct tide__action_timer *window, uint32_t clock) {
    const double progress = clock > window->seen ? (double)(clock - window->seen) : 0;
    window->seen = clock;
    if (progress > 0) {
        window->rate = RATE_KEPT * window->rate + (1 - RATE_KEPT) * progress;
    }
    return tide__action_timer_clocks(window->rate > progress ? window->rate : progress);
}
