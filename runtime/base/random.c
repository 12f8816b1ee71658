/*
 * Random numbers. Streams: xoshiro256++ (Blackman and Vigna 2021), seeded through splitmix64.
 * Counter-based: Philox4x32-10 (Salmon et al. 2011, section 3.3), a pure function that gives the
 * same initial values on every machine, in any order, on any device. Neither is fit for secrets.
 */
#include "base/base.h"

__extension__ typedef unsigned __int128 wide; /* not ISO C, but in gcc and clang on every 64-bit target */

static inline uint64_t rotate_left(uint64_t x, int by) {
    return (x << by) | (x >> (64 - by));
}

uint64_t tide_mix64(uint64_t x) {
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

void tide_random_seed(struct tide_random *random, uint64_t seed) {
    for (size_t i = 0; i < TIDE_COUNT(random->s); i++) {
        seed += UINT64_C(0x9e3779b97f4a7c15);
        random->s[i] = tide_mix64(seed); /* four different inputs of a bijection: never all zero */
    }
}

uint64_t tide_random_next(struct tide_random *random) {
    uint64_t *s = random->s;
    uint64_t result = rotate_left(s[0] + s[3], 23) + s[0];
    uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate_left(s[3], 45);
    return result;
}

double tide_random_uniform(struct tide_random *random) {
    return (double)(tide_random_next(random) >> 11) * 0x1.0p-53;
}

uint64_t tide_random_below(struct tide_random *random, uint64_t limit) {
    TIDE_ASSERT(limit > 0);
    /* Lemire's multiply-and-reject: the low word below (2^64 mod limit) marks the draws that
     * would be biased. */
    wide product = (wide)tide_random_next(random) * limit;
    if ((uint64_t)product < limit) {
        uint64_t threshold = -limit % limit;
        while ((uint64_t)product < threshold) {
            product = (wide)tide_random_next(random) * limit;
        }
    }
    return (uint64_t)(product >> 64);
}

void tide_philox(uint64_t seed, uint64_t key, uint64_t index, uint32_t out[4]) {
    uint32_t c0 = (uint32_t)key, c1 = (uint32_t)(key >> 32), c2 = (uint32_t)index, c3 = (uint32_t)(index >> 32);
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)UINT32_C(0xd2511f53) * c0;
        uint64_t p1 = (uint64_t)UINT32_C(0xcd9e8d57) * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += UINT32_C(0x9e3779b9);
        k1 += UINT32_C(0xbb67ae85);
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}
