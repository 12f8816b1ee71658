#include "base/limits.h"

#include <math.h>

#define COUNT TIDE_LIMIT_COUNT
#define BYTES TIDE_LIMIT_BYTES
#define TIME TIDE_LIMIT_TIME
#define MS (TIDE_SECOND / 1000)

const struct tide_limit tide__limits[TIDE_LIMITS] = {
#define LIMIT(name, unit, initial, least, most, breaks) {#name, unit, false, initial, least, most, breaks},
#define BOUND(name, unit, initial, least, most, breaks) {#name, unit, true, initial, least, most, breaks},
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
    if (l->bound) { /* with windows of 1 operations take minutes, rightly */
        return share > 0 && l->unit == TIDE_LIMIT_TIME ? l->most : l->initial;
    }
    tide_random_seed(&random, tide_hash(l->name, strlen(l->name), tide_mix64(seed ^ 0x117175)));
    if (tide_random_uniform(&random) >= share) {
        return l->initial;
    }
    /* Logarithmically even; within the first tenth of that way in half of the draws. */
    const double way = tide_random_uniform(&random) * (tide_random_uniform(&random) < 0.5 ? 0.1 : 1);
    const double first = log((double)l->least + 1), last = log((double)l->most + 1);
    const uint64_t value = (uint64_t)exp(first + way * (last - first)) - 1;
    return value < l->least ? l->least : value > l->most ? l->most : value;
}
