/* See budget.h. */
#include "base/budget.h"

static const unsigned begins[] = {0, 80, 90, 95, 100}; /* percent of the cap, by tier */
enum { HYSTERESIS = 5, GROWTH_MAX = 95 };

const char *tide_bytes_text(uint64_t bytes, char out[24]) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    size_t unit = 0;
    while (value >= 1024 && unit + 1 < TIDE_COUNT(units)) {
        value /= 1024;
        unit++;
    }
    (void)snprintf(out, 24, "%.*f %s", unit > 0 && value < 100 ? 1 : 0, value, units[unit]);
    return out;
}

int tide_memory_cap_check(uint64_t cap, uint64_t machine) {
    char given[24], other[24];
    if (cap > 0 && cap < TIDE_MEMORY_CAP_MIN) {
        return tide_fail(TIDE_EINVAL,
                         "a memory cap of %s is too small: a node needs at least %s for its "
                         "tables and what is under way",
                         tide_bytes_text(cap, given), tide_bytes_text(TIDE_MEMORY_CAP_MIN, other));
    }
    if (machine > 0 && cap > machine) {
        return tide_fail(TIDE_EINVAL, "a memory cap of %s is more than the %s this machine has",
                         tide_bytes_text(cap, given), tide_bytes_text(machine, other));
    }
    return 0;
}

uint64_t tide_budget_used(const struct tide_budget *b) {
    return atomic_load_explicit(&b->kept, memory_order_relaxed) +
           atomic_load_explicit(&b->queued, memory_order_relaxed);
}

void tide_budget_keep(struct tide_budget *b, uint64_t bytes) {
    if (b->cap > 0) {
        const uint64_t now = atomic_fetch_add_explicit(&b->kept, bytes, memory_order_relaxed) + bytes;
        if (b->parent && now > atomic_load_explicit(&b->most, memory_order_relaxed)) {
            atomic_store_explicit(&b->most, now, memory_order_relaxed); /* about: two may count at once */
        }
    }
    if (b->parent) {
        tide_budget_keep(b->parent, bytes);
    }
}

void tide_budget_drop(struct tide_budget *b, uint64_t bytes) {
    if (b->cap > 0) {
        uint64_t before = atomic_fetch_sub_explicit(&b->kept, bytes, memory_order_relaxed);
        TIDE_ASSERT(before >= bytes);
    }
    if (b->parent) {
        tide_budget_drop(b->parent, bytes);
    }
}

const struct tide_budget *tide_budget_lacking(const struct tide_budget *b, uint64_t bytes) {
    const uint64_t most = b->parent ? b->cap : b->cap / 100 * GROWTH_MAX;
    return b->cap > 0 && tide_budget_used(b) + bytes > most ? b
           : b->parent                                      ? tide_budget_lacking(b->parent, bytes)
                                                            : NULL;
}

enum tide_tier tide_budget_look(struct tide_budget *b, uint64_t queued) {
    atomic_store_explicit(&b->queued, queued, memory_order_relaxed);
    const uint64_t used = tide_budget_used(b), percent = b->cap / 100;
    unsigned tier = tide_budget_tier(b);
    while (tier > TIDE_TIER_CALM && used < percent * (begins[tier] - HYSTERESIS)) {
        tier--;
    }
    while (tier < TIDE_TIER_OVER && used >= percent * begins[tier + 1]) {
        tier++;
    }
    if (used > atomic_load_explicit(&b->most, memory_order_relaxed)) {
        atomic_store_explicit(&b->most, used, memory_order_relaxed);
    }
    atomic_store_explicit(&b->tier, tier, memory_order_relaxed);
    return (enum tide_tier)tier;
}

uint32_t tide_tier_retry_ms(enum tide_tier tier) {
    static const uint32_t ms[] = {50, 100, 250, 500, 1000};
    return ms[tier];
}
