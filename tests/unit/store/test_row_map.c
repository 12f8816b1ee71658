/* Rows by key: what was put last is found, keys that are gone are known as such, and one map over another. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "store/serve/row_map.h"

enum { KEYS = 5000, WIDTH = 3 };

static void put(struct tide__row_map *map, uint64_t key, float value) {
    assert_int_equal(tide__row_map_put(map, key, (float[WIDTH]){value, 0, -value}), 0);
}

static float value_of(const struct tide__row_map *map, uint64_t key) {
    const float *row = NULL;
    assert_int_equal(tide__row_map_get(map, key, &row), TIDE__MAP_ROW);
    assert_true(row[0] == -row[2]);
    return row[0];
}

static int state_of(const struct tide__row_map *map, uint64_t key) {
    const float *row = NULL;
    return tide__row_map_get(map, key, &row);
}

static void what_was_put_last_is_found(void **state) {
    (void)state;
    struct tide__row_map *map = tide__row_map_create(WIDTH);
    assert_int_equal(state_of(map, 1), TIDE__MAP_NONE);
    for (uint64_t round = 0; round < 2; round++) {
        for (uint64_t key = 0; key < KEYS; key++) {
            put(map, key * 7, (float)(key + round));
        }
    }
    assert_int_equal(map->rows, KEYS);
    for (uint64_t key = 0; key < KEYS; key++) {
        assert_true(value_of(map, key * 7) == (float)(key + 1));
        assert_int_equal(state_of(map, key * 7 + 1), TIDE__MAP_NONE);
    }
    tide__row_map_unref(map);
}

static void a_key_that_is_gone_may_come_back(void **state) {
    (void)state;
    struct tide__row_map *map = tide__row_map_create(WIDTH);
    put(map, 5, 1);
    assert_int_equal(tide__row_map_put(map, 5, NULL), 0);
    assert_int_equal(tide__row_map_put(map, 6, NULL), 0);
    assert_int_equal(state_of(map, 5), TIDE__MAP_GONE);
    assert_int_equal(state_of(map, 6), TIDE__MAP_GONE);
    assert_int_equal(map->live, 0);
    put(map, 5, 2);
    assert_true(value_of(map, 5) == 2);
    assert_int_equal(map->live, 1);
    tide__row_map_unref(map);
}

static void a_copy_is_the_same_and_apart(void **state) {
    (void)state;
    struct tide__row_map *map = tide__row_map_create(WIDTH), *empty = tide__row_map_clone(map);
    put(empty, 1, 1);
    for (uint64_t key = 0; key < KEYS; key++) {
        put(map, key, (float)key);
    }
    assert_int_equal(tide__row_map_put(map, 3, NULL), 0);
    struct tide__row_map *copy = tide__row_map_clone(map);
    for (uint64_t key = 0; key < 2 * KEYS; key++) {
        put(map, key, -1);
    }
    assert_int_equal(state_of(copy, 3), TIDE__MAP_GONE);
    assert_int_equal(copy->live, KEYS - 1);
    for (uint64_t key = 4; key < KEYS; key++) {
        assert_true(value_of(copy, key) == (float)key);
    }
    put(copy, KEYS, 7);
    assert_true(value_of(copy, KEYS) == 7 && value_of(map, KEYS) == -1);
    tide__row_map_unref(map);
    tide__row_map_unref(copy);
    tide__row_map_unref(empty);
}

static void a_newer_map_hides_what_it_knows(void **state) {
    (void)state;
    struct tide__row_map *older = tide__row_map_create(WIDTH), *newer = tide__row_map_create(WIDTH);
    struct tide__row_map *all = tide__row_map_create(WIDTH);
    for (uint64_t key = 0; key < 10; key++) {
        put(older, key, 1);
    }
    assert_int_equal(tide__row_map_put(newer, 3, NULL), 0);
    put(newer, 4, 2);
    put(newer, 10, 2);
    assert_int_equal(tide__row_map_add(all, older, newer, false), 0);
    assert_int_equal(tide__row_map_add(all, newer, NULL, false), 0);
    assert_int_equal(all->rows, 10);
    assert_int_equal(state_of(all, 3), TIDE__MAP_NONE);
    assert_true(value_of(all, 2) == 1 && value_of(all, 4) == 2 && value_of(all, 10) == 2);
    assert_int_equal(tide__row_map_add(newer, older, newer, true), 0);
    assert_int_equal(state_of(newer, 3), TIDE__MAP_GONE);
    assert_true(value_of(newer, 4) == 2 && value_of(newer, 5) == 1);
    tide__row_map_unref(older);
    tide__row_map_unref(newer);
    tide__row_map_unref(all);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_put_last_is_found),
        cmocka_unit_test(a_key_that_is_gone_may_come_back),
        cmocka_unit_test(a_copy_is_the_same_and_apart),
        cmocka_unit_test(a_newer_map_hides_what_it_knows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
