/* The table of limits: its ranges, what may be set, and what seeds draw. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/limits.h"

static int restore(void **state) {
    (void)state;
    for (unsigned i = 0; i < TIDE_LIMITS; i++) {
        tide__limit_values[i] = tide__limits[i].initial;
    }
    return 0;
}

static void each_limit_has_a_name_of_its_own_and_sentences(void **state) {
    (void)state;
    for (unsigned i = 0; i < TIDE_LIMITS; i++) {
        const struct tide_limit *l = &tide__limits[i];
        assert_int_equal(tide__limit_find(l->name), i);
        assert_int_equal(tide__limit_values[i], l->initial);
        assert_true(strlen(l->breaks) > 20 && l->breaks[strlen(l->breaks) - 1] == '.');
    }
    assert_int_equal(tide__limit_find("net_ring"), TIDE_LIMITS);
}

static void a_value_outside_of_the_range_is_refused(void **state) {
    (void)state;
    const unsigned limit = tide__limit_find("net_ring_frames");
    assert_int_equal(tide__limit_set(limit, tide__limits[limit].least), 0);
    assert_int_equal(tide_limit(net_ring_frames), tide__limits[limit].least);
    assert_int_equal(tide__limit_set(limit, tide__limits[limit].most), 0);
    assert_int_equal(tide__limit_set(limit, tide__limits[limit].least - 1), TIDE_EINVAL);
    assert_string_equal(tide_error_message(), "limit net_ring_frames: 3 is not within 4..1048576");
    assert_int_equal(tide__limit_set(limit, tide__limits[limit].most + 1), TIDE_EINVAL);
    assert_int_equal(tide_limit(net_ring_frames), tide__limits[limit].most);
}

static void seeds_draw_within_the_range_and_often_little(void **state) {
    (void)state;
    for (unsigned i = 0; i < TIDE_LIMITS; i++) {
        const struct tide_limit *l = &tide__limits[i];
        unsigned kept = 0, low = 0, high = 0;
        for (uint64_t seed = 0; seed < 400; seed++) {
            const uint64_t value = tide__limit_draw(i, seed, 1);
            assert_in_range(value, l->least, l->most);
            assert_int_equal(value, tide__limit_draw(i, seed, 1));
            assert_int_equal(tide__limit_draw(i, seed, 0), l->initial);
            const uint64_t half = tide__limit_draw(i, seed, 0.5);
            assert_true(half == value || half == l->initial);
            kept += half == l->initial;
            low += value - l->least <= (l->most - l->least) / 4;
            high += value > l->initial;
        }
        if (l->bound) {
            assert_true(tide__limit_draw(i, 1, 0.01) >= l->initial);
            continue;
        }
        assert_in_range(kept, 140, 400);
        assert_true(low > 200);
        assert_true(high > 2 || l->initial == l->most);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_limit_has_a_name_of_its_own_and_sentences),
        cmocka_unit_test_teardown(a_value_outside_of_the_range_is_refused, restore),
        cmocka_unit_test(seeds_draw_within_the_range_and_often_little),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
