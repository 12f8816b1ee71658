/*
 * The limits of limits.def: what this process uses, what may be set, and what the simulator draws.
 *
 * The values are the process's and are set before its first node starts; from then on they are only read. Code on a hot
 * path reads a limit once, when it creates what the limit bounds.
 */
#ifndef TIDE_LIMITS_H
#define TIDE_LIMITS_H

#include "base/base.h"

enum tide_limit_unit { TIDE_LIMIT_COUNT, TIDE_LIMIT_BYTES, TIDE_LIMIT_TIME };
enum tide_limit_index {
#define LIMIT(name, unit, initial, least, most, breaks) TIDE_LIMIT_##name,
#include "base/limits.def"
#undef LIMIT
    TIDE_LIMITS
};
struct tide_limit {
    const char *name;
    enum tide_limit_unit unit;
    bool bound; /* its end is an error: the simulator draws none that is smaller */
    uint64_t initial, least, most;
    const char *breaks; /* sentences: what it bounds, and what a wrong value costs */
};
extern const struct tide_limit tide__limits[TIDE_LIMITS];
extern uint64_t tide__limit_values[TIDE_LIMITS];
#define tide_limit(name) (tide__limit_values[TIDE_LIMIT_##name])

/* The index of the limit of that name; TIDE_LIMITS: there is none. */
unsigned tide__limit_find(const char *name);
/* EINVAL: the value is not between least and most. */
int tide__limit_set(unsigned limit, uint64_t value);
/* The value that `seed` draws: with probability `share` between least and most, and half of these draws near the least;
 * else the default. A bound is not drawn; one of time is the longest then. No draw depends on which other limits there
 * are. */
uint64_t tide__limit_draw(unsigned limit, uint64_t seed, double share);

#endif
