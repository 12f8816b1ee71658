/*
 * Integer min-max split by bisection on the finish time z: the most units worker i ends by z is a floor, so the sum over
 * workers is a step function of z, and the first z at which it reaches the total is the optimum. Exact, because the last
 * two z of the bisection are neighbouring doubles.
 */
#include "numeric.h"

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
    uint64_t low = c->min, high = c->max;
    if (seconds_of(c, high) <= z) {
        return high;
    }
    if (!c->times && c->per > 0) { /* the formula's answer, off by one at most through rounding */
        double guess = (z - c->at) / c->per;
        uint64_t near = guess <= (double)low ? low : guess >= (double)high ? high : (uint64_t)guess;
        low = near > low + 1 ? near - 1 : low;
        high = near + 2 < high ? near + 2 : high;
        if (low > c->min && seconds_of(c, low) > z) {
            low = c->min;
        }
        if (high < c->max && seconds_of(c, high) <= z) {
            high = c->max;
        }
    }
    while (low < high) { /* seconds_of(high) > z or high is the bound */
        uint64_t middle = low + (high - low + 1) / 2;
        if (seconds_of(c, middle) <= z) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    return low;
}

static bool enough(uint64_t total, const struct tide_split_cost *costs, size_t n, double z) {
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        sum += units_by(&costs[i], z);
        if (sum >= total) {
            return true;
        }
    }
    return false;
}

static int check(uint64_t total, const struct tide_split_cost *costs, size_t n) {
    uint64_t least = 0, most = 0;
    for (size_t i = 0; i < n; i++) {
        const struct tide_split_cost *c = &costs[i];
        if (c->min > c->max || c->max > (UINT64_C(1) << 48) || (c->times && c->max > c->time_count)) {
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

int tide_split_minmax(uint64_t total, const struct tide_split_cost *costs, size_t n, uint64_t *share,
                      double *seconds) {
    int code = check(total, costs, n);
    if (code < 0) {
        return code;
    }
    /* Whose minimum takes longer than z stays at it, and the others are still levelled among each other. */
    double low = 0, high = 0;
    for (size_t i = 0; i < n; i++) {
        high = fmax(high, seconds_of(&costs[i], costs[i].max));
    }
    if (enough(total, costs, n, low)) {
        high = low;
    }
    while (low < high) {
        double middle = low + (high - low) / 2;
        if (middle <= low || middle >= high) {
            break;
        }
        if (enough(total, costs, n, middle)) {
            high = middle;
        } else {
            low = middle;
        }
    }
    uint64_t rest = total;
    for (size_t i = 0; i < n; i++) {
        share[i] = low < high ? units_by(&costs[i], low) : costs[i].min;
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
