/*
 * Numeric tools on a device against the CPU: the same bits. Where no device has tools of its own,
 * its calls are the CPU's. With TIDE_EMULATED the device is kernels/tensor/cuda on the emulation of
 * tests/cuda, and each is made in every order of threads.
 */
#include "base/base.h"
#include "decide/numeric.h"
#include "operation.h"
#include "tide.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#ifdef TIDE_EMULATED
#include "cuda/emulate.h"
extern const struct tide_numeric tide_cuda_numeric;
static const struct tide_device emulated = {.name = "emulated", .numeric = &tide_cuda_numeric};
enum { ORDERS = EMULATED_ORDERS };

static const struct tide_device *device_in(int order) {
    tide_emulated_order((enum emulated_order)order);
    return &emulated;
}
#else
enum { ORDERS = 1 };

static const struct tide_device *device_in(int order) {
    (void)order;
    const struct tide_device *device = tide_device_find("cuda");
    return device ? device : tide_device_find("cpu");
}
#endif

enum { ROWS = 40, OPTIONS = 12, CAPACITY = 1500 };

static struct tide_random rng;

static uint64_t below(uint64_t n) {
    return tide_random_below(&rng, n);
}

/* ---- knapsack ---- */

static void same_packing(size_t rows, size_t options, uint64_t capacity) {
    double value[ROWS * OPTIONS], best[2][CAPACITY + 1];
    uint64_t sizes[OPTIONS];
    size_t pick[2][ROWS];
    for (size_t i = 0; i < rows * options; i++) { /* whole numbers: many ties */
        value[i] = below(6) == 0 ? -INFINITY : (double)below(20) - 3;
    }
    for (size_t j = 0; j < options; j++) {
        sizes[j] = below(capacity / 8 + 3);
    }
    struct tide_knapsack p = {value, sizes, rows, options, capacity, NULL};
    assert_int_equal(tide_knapsack(&p, pick[0], best[0]), 0);
    for (int order = 0; order < ORDERS; order++) {
        p.device = device_in(order);
        memset(pick[1], 0xa5, sizeof pick[1]);
        assert_int_equal(tide_knapsack(&p, pick[1], best[1]), 0);
        assert_memory_equal(pick[0], pick[1], rows * sizeof(size_t));
        assert_memory_equal(best[0], best[1], (capacity + 1) * sizeof(double));
    }
}

static void packings_are_the_same(void **state) {
    (void)state;
    tide_random_seed(&rng, 1);
    same_packing(0, 0, 0);
    same_packing(0, 3, 10);
    same_packing(3, 0, 10);
    same_packing(5, 3, 0);
    same_packing(ROWS, OPTIONS, CAPACITY);
    for (int i = 0; i < 20; i++) {
        same_packing(below(ROWS) + 1, below(OPTIONS) + 1, below(CAPACITY) + 1);
    }
}

static void a_packing_that_is_too_large_is_refused_everywhere(void **state) {
    (void)state;
    struct tide_knapsack p = {.rows = 1, .capacity = UINT64_C(1) << 30, .device = device_in(0)};
    assert_int_equal(tide_knapsack(&p, NULL, NULL), TIDE_ELIMIT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packings_are_the_same),
        cmocka_unit_test(a_packing_that_is_too_large_is_refused_everywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
