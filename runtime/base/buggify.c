/*
 * Unlikely choices. In production no site fires: the cost is a branch on a flag that is false. In
 * the simulator a quarter of the sites are armed by the seed, and an armed one fires with a given
 * probability. One thread.
 */
#include "base/base.h"

#include <string.h>

bool tide__buggify_on;
static uint64_t arming;
static double share;
static struct tide_random random_numbers;
/* Whether a site is armed, by the address of its name: they are asked all the time. */
static struct {
    const char *site;
    bool armed;
} known[64];

void tide__buggify_set(uint64_t seed, double probability) {
    arming = seed;
    memset(known, 0, sizeof known);
    share = probability;
    tide__buggify_on = probability > 0;
    tide_random_seed(&random_numbers, tide_mix64(seed ^ 0xb4661f));
}

bool tide__buggify_hit(const char *site) {
    const size_t at = (uintptr_t)site / 8 % TIDE_COUNT(known);
    if (known[at].site != site) {
        known[at].site = site;
        known[at].armed = tide_hash(site, strlen(site), arming) % 4 == 0;
    }
    return known[at].armed && tide_random_uniform(&random_numbers) < share;
}
