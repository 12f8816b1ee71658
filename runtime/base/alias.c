#include "base/alias.h"

#include <math.h>

static int sum_of(const double *weights, uint32_t count, double *sum) {
    *sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (!(weights[i] >= 0) || !isfinite(weights[i])) {
            return tide_fail(TIDE_EINVAL, "weight %u is %g: weights are finite and not negative", i, weights[i]);
        }
        *sum += weights[i];
    }
    return *sum > 0 && isfinite(*sum) ? 0 : tide_fail(TIDE_EINVAL, "all %u weights are 0", count);
}

/* `work` lists columns with less than an average weight from its start, the others from its end. */
static void fill(struct tide_alias *alias, uint32_t *work) {
    uint32_t less = 0, more = alias->count;
    for (uint32_t i = 0; i < alias->count; i++) {
        alias->other[i] = i;
        if (alias->share[i] < 1) {
            work[less++] = i;
        } else {
            work[--more] = i;
        }
    }
    while (less > 0 && more < alias->count) {
        uint32_t small = work[--less], large = work[more];
        alias->other[small] = large;
        alias->share[large] -= 1 - alias->share[small];
        if (alias->share[large] < 1) {
            more++;
            work[less++] = large;
        }
    }
    /* What is left is 1 but for rounding. */
    while (less > 0) {
        alias->share[work[--less]] = 1;
    }
    while (more < alias->count) {
        alias->share[work[more++]] = 1;
    }
}

int tide_alias_create(struct tide_alias *alias, const double *weights, uint32_t count) {
    double sum;
    *alias = (struct tide_alias){.count = count};
    int code = sum_of(weights, count, &sum);
    if (code) {
        return code;
    }
    uint32_t *work = tide_alloc(count * sizeof *work);
    alias->other = tide_alloc(count * sizeof *alias->other);
    alias->share = tide_alloc(count * sizeof *alias->share);
    if (work && alias->other && alias->share) {
        for (uint32_t i = 0; i < count; i++) {
            alias->share[i] = weights[i] / sum * count;
        }
        fill(alias, work);
    } else {
        code = TIDE_ENOMEM;
        tide_alias_release(alias);
    }
    tide_free(work);
    return code;
}

void tide_alias_release(struct tide_alias *alias) {
    tide_free(alias->other);
    tide_free(alias->share);
    *alias = (struct tide_alias){0};
}
