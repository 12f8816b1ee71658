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

enum { ROWS = 40, OPTIONS = 12, CAPACITY = 1500, VARIABLES = 60 };

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

/* ---- linear programmes ---- */

static int solve_everywhere(struct tide_linear_program *p) {
    double x[2][VARIABLES], value[2] = {0};
    char said[200];
    p->device = NULL;
    const int code = tide_linear_solve(p, x[0], &value[0]);
    (void)snprintf(said, sizeof said, "%s", code < 0 ? tide_error_message() : "");
    for (int order = 0; order < ORDERS; order++) {
        p->device = device_in(order);
        assert_int_equal(tide_linear_solve(p, x[1], &value[1]), code);
        if (code < 0) {
            assert_string_equal(tide_error_message(), said);
        } else {
            assert_memory_equal(x[0], x[1], p->variables * sizeof(double));
            assert_memory_equal(&value[0], &value[1], sizeof(double));
        }
    }
    return code;
}

/* Rows of every sense, some dependent on others, right sides of any sign. */
static int same_solution(size_t variables, size_t rows, bool whole) {
    double objective[VARIABLES], a[ROWS * VARIABLES], b[ROWS];
    int8_t sense[ROWS];
    for (size_t j = 0; j < variables; j++) {
        objective[j] = whole ? (double)below(9) - 4 : tide_random_uniform(&rng) - 0.3;
    }
    for (size_t i = 0; i < rows; i++) {
        for (size_t j = 0; j < variables; j++) {
            const double number = whole ? (double)below(7) - 2 : tide_random_uniform(&rng);
            a[i * variables + j] = i > 0 && below(9) == 0 ? a[(i - 1) * variables + j] : number;
        }
        b[i] = whole ? (double)below(40) - 5 : 1 + tide_random_uniform(&rng);
        sense[i] = (int8_t)(below(4) == 0 ? (int)below(3) - 1 : -1);
    }
    struct tide_linear_program p = {.variables = variables,
                                    .rows = rows,
                                    .objective = objective,
                                    .a = a,
                                    .b = b,
                                    .sense = sense,
                                    .pivots_max = 50 * (rows + variables + 10)};
    return solve_everywhere(&p);
}

static void solutions_are_the_same(void **state) {
    (void)state;
    tide_random_seed(&rng, 2);
    unsigned solved = 0, refused = 0;
    for (int i = 0; i < 60; i++) {
        const int code = same_solution(below(VARIABLES) + 1, below(ROWS) + 1, i % 2 == 0);
        solved += code == 0;
        refused += code == TIDE_ERANGE || code == TIDE_EINVAL;
    }
    assert_true(solved > 10 && refused > 5);
    assert_int_equal(solved + refused, 60);
    (void)same_solution(VARIABLES, 0, true);
}

static void too_many_pivots_are_refused_everywhere(void **state) {
    (void)state;
    const double objective[] = {3, 5}, a[] = {1, 0, 0, 2, 3, 2}, b[] = {4, 12, 18};
    const int8_t sense[] = {-1, -1, -1};
    struct tide_linear_program p = {
        .variables = 2, .rows = 3, .objective = objective, .a = a, .b = b, .sense = sense};
    assert_int_equal(solve_everywhere(&p), TIDE_ELIMIT);
    p.pivots_max = 100;
    assert_int_equal(solve_everywhere(&p), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packings_are_the_same),
        cmocka_unit_test(a_packing_that_is_too_large_is_refused_everywhere),
        cmocka_unit_test(solutions_are_the_same),
        cmocka_unit_test(too_many_pivots_are_refused_everywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
