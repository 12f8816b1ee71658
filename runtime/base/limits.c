#include "base/limits.h"

#include <math.h>

#define COUNT TIDE_LIMIT_COUNT
#define BYTES TIDE_LIMIT_BYTES
#define TIME TIDE_LIMIT_TIME
#define DEADLINE TIDE_LIMIT_DEADLINE
#define MS (TIDE_SECOND / 1000)

const struct tide_limit tide__limits[TIDE_LIMITS] = {
#define LIMIT(name, unit, initial, least, most, breaks) {#name, unit, initial, least, most, breaks},
#include "base/limits.def"
#undef LIMIT
};

uint64_t tide__limit_values[TIDE_LIMITS] = {
#define LIMIT(name, unit, initial, least, most, breaks) initial,
#include "base/limits.def"
#undef LIMIT
};

/* Each default is within its range. */
#define LIMIT(name, unit, initial, least, most, breaks)                                                                \
    _Static_assert((uint64_t)(least) <= (uint64_t)(initial) && (uint64_t)(initial) <= (uint64_t)(most), #name);
#include "base/limits.def"
#undef LIMIT

unsigned tide__limit_find(const char *name) {
    unsigned i = 0;
    while (i < TIDE_LIMITS && strcmp(tide__limits[i].name, name) != 0) {
        i++;
    }
    return i;
}

int tide__limit_set(unsigned limit, uint64_t value) {
    const struct tide_limit *l = &tide__limits[limit];
    if (value < l->least || value > l->most) {
        return tide_fail(TIDE_EINVAL, "limit %s: %llu is not within %llu..%llu", l->name, (unsigned long long)value,
                         (unsigned long long)l->least, (unsigned long long)l->most);
    }
    tide__limit_values[limit] = value;
    return 0;
}

uint64_t tide__limit_draw(unsigned limit, uint64_t seed, double share) {
    const struct tide_limit *l = &tide__limits[limit];
    struct tide_random random;
    if (l->unit == TIDE_LIMIT_DEADLINE) { /* with windows of 1 operations take minutes, rightly */
        return share > 0 ? l->most : l->initial;
    }
    tide_random_seed(&random, tide_hash(l->name, strlen(l->name), tide_mix64(seed ^ 0x117175)));
    if (tide_random_uniform(&random) >= share) {
        return l->initial;
    }
    /* Logarithmically even; within the first tenth of that way in half of the draws. */
    const double way = tide_random_uniform(&random) * (tide_random_uniform(&random) < 0.5 ? 0.1 : 1);
    const double span = log((double)(l->most - l->least) + 1);
    const uint64_t above = (uint64_t)(exp(way * span)) - 1;
    return above > l->most - l->least ? l->most : l->least + above;
}
