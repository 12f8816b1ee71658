/* Draws from any discrete distribution in constant time. */
#ifndef TIDE_ALIAS_H
#define TIDE_ALIAS_H

#include "base/base.h"

struct tide_alias {
    uint32_t *other; /* what column i gives beyond its share */
    double *share;   /* of column i itself, 0 to 1 */
    uint32_t count;
};

/*
 * Builds the table by Vose's method (IEEE Trans. Software Eng. 17, 1991) in O(count).
 * weights: finite, >= 0, not all 0. Errors: EINVAL, ENOMEM. Release with tide_alias_release.
 */
int tide_alias_create(struct tide_alias *alias, const double *weights, uint32_t count);
void tide_alias_release(struct tide_alias *alias);

static inline uint32_t tide_alias_draw(const struct tide_alias *alias, struct tide_random *random) {
    uint32_t column = (uint32_t)tide_random_below(random, alias->count);
    return tide_random_uniform(random) < alias->share[column] ? column : alias->other[column];
}

#endif
