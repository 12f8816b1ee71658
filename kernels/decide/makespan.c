/* Items on machines of different speed: longest first (Graham 1969), then local search; see
 * numeric.h. */
#include "decide/numeric.h"

#include "base/base.h"

#include <math.h>
#include <stdlib.h>

struct item {
    double weight;
    size_t index;
};

static int heavier_first(const void *a, const void *b) {
    const struct item *x = a, *y = b;
    if (x->weight != y->weight) {
        return x->weight > y->weight ? -1 : 1;
    }
    return x->index < y->index ? -1 : 1;
}

static size_t last_to_end(const double *load, const double *capacity, size_t m) {
    size_t last = 0;
    for (size_t j = 1; j < m; j++) {
        last = load[j] / capacity[j] > load[last] / capacity[last] ? j : last;
    }
    return last;
}

/* One move or swap that lowers the end of the machine that ends last without making another end as
 * late. `steps` counts what was tried. */
static bool improve(const double *weight, size_t n, const double *capacity, size_t m, uint32_t *home, double *load,
                    size_t *steps, size_t steps_max) {
    size_t from = last_to_end(load, capacity, m);
    double span = load[from] / capacity[from], best = span * (1 - 1e-12);
    size_t best_item = n, best_other = n, best_to = m;
    for (size_t i = 0; i < n && *steps < steps_max; i++) {
        if (home[i] != from || !(weight[i] > 0)) {
            continue;
        }
        for (size_t to = 0; to < m && *steps < steps_max; to++, (*steps)++) {
            double end = fmax((load[to] + weight[i]) / capacity[to], (load[from] - weight[i]) / capacity[from]);
            if (to != from && end < best) {
                best = end;
                best_item = i;
                best_other = n;
                best_to = to;
            }
        }
        for (size_t k = 0; k < n && *steps < steps_max; k++, (*steps)++) {
            double shift = weight[i] - weight[k];
            size_t to = home[k];
            if (to == from || shift <= 0) {
                continue;
            }
            double end = fmax((load[to] + shift) / capacity[to], (load[from] - shift) / capacity[from]);
            if (end < best) {
                best = end;
                best_item = i;
                best_other = k;
                best_to = to;
            }
        }
    }
    if (best_item == n) {
        return false;
    }
    double shift = weight[best_item] - (best_other < n ? weight[best_other] : 0);
    home[best_item] = (uint32_t)best_to;
    if (best_other < n) {
        home[best_other] = (uint32_t)from;
    }
    load[best_to] += shift;
    load[from] -= shift;
    return true;
}

int tide_makespan(const double *weight, size_t n, const double *capacity, size_t m, size_t steps_max, uint32_t *home,
                  double *span, double *bound) {
    if (m == 0) {
        return tide_fail(TIDE_EINVAL, "items need at least one machine");
    }
    struct item *items = tide_alloc_zero(n + 1, sizeof *items);
    double *load = tide_alloc_zero(m, sizeof *load);
    if (!items || !load) {
        tide_free(items);
        tide_free(load);
        return TIDE_ENOMEM;
    }
    double sum = 0, heaviest = 0, capacity_sum = 0, fastest = 0;
    for (size_t i = 0; i < n; i++) {
        items[i] = (struct item){weight[i], i};
        sum += weight[i];
        heaviest = fmax(heaviest, weight[i]);
    }
    for (size_t j = 0; j < m; j++) {
        capacity_sum += capacity[j];
        fastest = fmax(fastest, capacity[j]);
    }
    qsort(items, n, sizeof *items, heavier_first);
    for (size_t i = 0; i < n; i++) {
        size_t to = 0;
        for (size_t j = 1; j < m; j++) {
            double here = (load[j] + items[i].weight) / capacity[j];
            to = here < (load[to] + items[i].weight) / capacity[to] ? j : to;
        }
        load[to] += items[i].weight;
        home[items[i].index] = (uint32_t)to;
    }
    size_t steps = 0;
    while (steps < steps_max && improve(weight, n, capacity, m, home, load, &steps, steps_max)) {
    }
    size_t last = last_to_end(load, capacity, m);
    *span = load[last] / capacity[last];
    *bound = fmax(sum / capacity_sum, heaviest / fastest);
    tide_free(items);
    tide_free(load);
    return 0;
}
