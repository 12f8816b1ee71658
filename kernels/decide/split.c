/*
 * Integer min-max split by search for the finish time z: the most units worker i ends by z is a
 * floor, so the sum over workers is a step function of z, and the first z at which it reaches the
 * total is the optimum. Exact, because the search ends when the sum is the total (nothing earlier
 * reaches it), or at two neighbouring doubles. Steps go by turns to where a line through the known
 * sums reaches the total, which is soon close, and to the middle, which bounds their number.
 */
#include "decide/numeric.h"

#include "base/base.h"

#include <math.h>

static double seconds_of(const struct tide_split_cost *c, uint64_t units) {
    if (c->times) {
        return units == 0 ? 0 : c->times[units - 1];
    }
    return c->at + c->per * (double)units;
}

/* Most units done by z, within the bounds; min if even they take longer. */
static uint64_t units_by(const struct tide_split_cost *c, double z) {
    if (!c->times && c->per > 0) { /* the formula's answer, off by what rounding does */
        double guess = (z - c->at) / c->per;
        uint64_t units = guess <= (double)c->min ? c->min : guess >= (double)c->max ? c->max : (uint64_t)guess;
        while (units > c->min && seconds_of(c, units) > z) {
            units--;
        }
        while (units < c->max && seconds_of(c, units + 1) <= z) {
            units++;
        }
        return units;
    }
    uint64_t low = c->min, high = c->max;
    while (low < high) {
        uint64_t middle = low + (high - low + 1) / 2;
        if (seconds_of(c, middle) <= z) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    return low;
}

static uint64_t sum_by(const struct tide_split_cost *costs, size_t n, double z) {
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        sum += units_by(&costs[i], z);
    }
    return sum;
}

static int check(uint64_t total, const struct tide_split_cost *costs, size_t n) {
    uint64_t least = 0, most = 0;
    for (size_t i = 0; i < n; i++) {
        const struct tide_split_cost *c = &costs[i];
        if (c->min > c->max || c->max > (UINT64_C(1) << 47) || (c->times && c->max > c->time_count)) {
            return tide_fail(TIDE_EINVAL, "worker %zu: its bounds %llu..%llu cannot be kept", i + 1,
                             (unsigned long long)c->min, (unsigned long long)c->max);
        }
        if (!c->times && !(c->at >= 0 && c->per >= 0 && isfinite(c->at) && isfinite(c->per))) {
            return tide_fail(TIDE_EINVAL, "worker %zu: at and per must be finite and not negative", i + 1);
        }
        least += c->min;
        most += c->max;
    }
    if (n == 0 || n > (1u << 16) || total < least || total > most) {
        return tide_fail(TIDE_ERANGE, "the bounds of %zu workers allow %llu to %llu units, the total is %llu", n,
                         (unsigned long long)least, (unsigned long long)most, (unsigned long long)total);
    }
    return 0;
}

int tide_split_minmax(uint64_t total, const struct tide_split_cost *costs, size_t n, uint64_t *share, double *seconds) {
    int code = check(total, costs, n);
    if (code < 0) {
        return code;
    }
    /* Whose minimum takes longer than z stays at it, and the others are still levelled among each
     * other. */
    double low = 0, high = 0;
    for (size_t i = 0; i < n; i++) {
        high = fmax(high, seconds_of(&costs[i], costs[i].max));
    }
    uint64_t below = sum_by(costs, n, low), above = 0;
    bool exact = below >= total;
    high = exact ? low : high;
    for (int i = 0; !exact; i++) { /* until nothing is left over, or low and high are neighbours */
        double z = low + (high - low) / 2;
        if (z <= low || z >= high) {
            break;
        }
        if (i % 2 == 1 && above > 0) {
            double line = low + (high - low) * (double)(total - below) / (double)(above - below);
            z = line > low && line < high ? line : z;
        }
        uint64_t sum = sum_by(costs, n, z);
        if (sum >= total) {
            high = z;
            above = sum;
            exact = sum == total;
        } else {
            low = z;
            below = sum;
        }
    }
    uint64_t rest = total;
    for (size_t i = 0; i < n; i++) {
        share[i] = low < high ? units_by(&costs[i], low) : costs[i].min; /* part of any best split */
        rest -= share[i];
    }
    double slowest = 0;
    for (size_t i = 0; i < n; i++) { /* all that fits by `high` is equally good */
        uint64_t more = units_by(&costs[i], high) - share[i];
        more = more < rest ? more : rest;
        share[i] += more;
        rest -= more;
        slowest = fmax(slowest, seconds_of(&costs[i], share[i]));
    }
    *seconds = slowest;
    return 0;
}
