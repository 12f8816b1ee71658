/* A sampler for the tests of kernels that draw: it gives the same few keys again and again, and
 * fails when it has given `most`. */
#ifndef PLAIN_SAMPLER_H
#define PLAIN_SAMPLER_H

#include "kernel.h"
#include "tide.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

struct plain_sampler {
    uint64_t last, kinds; /* keys: last, last - 1, ..., so many of them */
    uint64_t most;
    uint64_t announced, taken;
    uint32_t open, open_most; /* samples that are not finished */
};

static inline int plain_prepare(void *of, size_t count, uint32_t *sample) {
    struct plain_sampler *s = of;
    s->announced += count;
    *sample = ++s->open;
    s->open_most = s->open > s->open_most ? s->open : s->open_most;
    return 0;
}

static inline int plain_take(void *of, uint32_t sample, size_t count, uint64_t *keys) {
    struct plain_sampler *s = of;
    assert_true(sample > 0);
    for (size_t i = 0; i < count; i++) {
        keys[i] = s->last - s->taken++ % s->kinds;
    }
    return s->taken > s->most ? tide_fail(TIDE_EDIED, "the owner died") : 0;
}

static inline int plain_finish(void *of, uint32_t sample) {
    struct plain_sampler *s = of;
    assert_true(sample > 0);
    s->open--;
    return 0;
}

static inline struct tide_draws plain_draws(struct plain_sampler *s) {
    return (struct tide_draws){
        .sampler = s, .prepare = plain_prepare, .take = plain_take, .finish = plain_finish};
}

#endif
