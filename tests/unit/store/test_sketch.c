/* The count-min sketch of new keys: never below the truth, above it as seldom as its formula says, and it forgets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "store/rows/sketch.h"

#include <math.h>

enum { KEYS = 256, WIDTH = KEYS * 8 };

static struct tide__sketch *make(void) {
    struct tide__sketch *sketch = tide__sketch_create(KEYS);
    assert_non_null(sketch);
    assert_int_equal(sketch->width, WIDTH);
    assert_int_equal(sketch->window, WIDTH);
    return sketch;
}

static uint64_t hash_of(uint64_t round, uint64_t i) {
    return tide_mix64(round << 32 | i);
}

static void it_takes_16_bytes_a_key(void **state) {
    (void)state;
    assert_int_equal(tide__sketch_bytes(KEYS) - sizeof(struct tide__sketch), 16 * KEYS);
}

static void an_estimate_is_never_below_the_truth_within_a_window(void **state) {
    (void)state;
    struct tide__sketch *sketch = make();
    unsigned counts[WIDTH / 8] = {0};
    for (uint32_t i = 0; i < WIDTH - 1; i++) {
        const uint64_t key = hash_of(1, i) % TIDE_COUNT(counts);
        const unsigned estimate = tide__sketch_add(sketch, tide_mix64(key));
        counts[key]++;
        assert_true(estimate >= (counts[key] < TIDE__SKETCH_MOST ? counts[key] : TIDE__SKETCH_MOST));
        assert_int_equal(estimate, tide__sketch_estimate(sketch, tide_mix64(key)));
    }
    tide_free(sketch);
}

/* A key seen once passes `after = 3` if in each row two others hit its counter: at load x at most
 * (1 - exp(-x)(1 + x))^4, and less by conservative update. */
static void keys_seen_once_seldom_pass(void **state) {
    (void)state;
    enum { ROUNDS = 200 };
    uint64_t passed = 0, all = 0;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        struct tide__sketch *sketch = make();
        for (uint64_t i = 0; i < WIDTH - 1; i++) {
            passed += tide__sketch_add(sketch, hash_of(round, i)) >= 3;
            all++;
        }
        tide_free(sketch);
    }
    const double load = 1, bound = pow(1 - exp(-load) * (1 + load), TIDE__SKETCH_ROWS);
    assert_true((double)passed <= bound / 50 * (double)all); /* 0.5 % plain; conservative far below */
}

static void what_came_long_ago_counts_half(void **state) {
    (void)state;
    struct tide__sketch *sketch = make();
    const uint64_t key = hash_of(9, 9);
    for (int i = 0; i < 8; i++) {
        (void)tide__sketch_add(sketch, key);
    }
    assert_int_equal(tide__sketch_estimate(sketch, key), 8);
    for (uint64_t i = 8; i < WIDTH; i++) {
        (void)tide__sketch_add(sketch, hash_of(3, i));
    }
    assert_int_equal(tide__sketch_estimate(sketch, key), 4);
    for (uint64_t i = 0; i < 3 * WIDTH; i++) {
        (void)tide__sketch_add(sketch, hash_of(4, i));
    }
    assert_true(tide__sketch_estimate(sketch, key) <= 2);
    tide_free(sketch);
}

static void counters_stop_at_their_most(void **state) {
    (void)state;
    struct tide__sketch *sketch = make();
    for (int i = 0; i < 100; i++) {
        assert_true(tide__sketch_add(sketch, 77) <= TIDE__SKETCH_MOST);
    }
    assert_int_equal(tide__sketch_estimate(sketch, 77), TIDE__SKETCH_MOST);
    tide_free(sketch);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_takes_16_bytes_a_key),
        cmocka_unit_test(an_estimate_is_never_below_the_truth_within_a_window),
        cmocka_unit_test(keys_seen_once_seldom_pass),
        cmocka_unit_test(what_came_long_ago_counts_half),
        cmocka_unit_test(counters_stop_at_their_most),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
