/*
 * The kernels of matrix factorisation: the step against float64 and central differences; whole
 * blocks against plain loops; chunks, refused outcomes, bad arguments.
 */
#include "base/base.h"
#include "models/mf.h"
#include "plain_rows.h"
#include "wire/wire.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { ROWS = 23, COLUMNS = 17, WIDTH = 9, CELLS = 150 };

/* A table that adds what is pushed. */
/* A matrix and its factors; column j under key COLUMN_BASE + j of the same table when `one`. */
struct world {
    struct plain_table w, h;
    uint32_t cells[2 * CELLS], row_counts[ROWS], column_counts[COLUMNS];
    float values[CELLS];
    size_t count;
};

static void world_init(struct world *world, float scale) {
    memset(world, 0, sizeof *world);
    plain_init(&world->w, ROWS, WIDTH, 0, scale, 0, 7);
    plain_init(&world->h, COLUMNS, WIDTH, 0, scale, 0, 8);
    world->count = CELLS;
    for (size_t i = 0; i < CELLS; i++) { /* 7 and 23, 5 and 17 share no factor: all differ */
        uint32_t cell = (uint32_t)(i * 2 + i % 2) % (ROWS * COLUMNS);
        world->cells[2 * i] = cell * 7 % ROWS;
        world->cells[2 * i + 1] = cell * 5 % COLUMNS;
        world->values[i] = (float)((int)(i % 11) - 5) * 0.25f;
        world->row_counts[world->cells[2 * i]]++;
        world->column_counts[world->cells[2 * i + 1]]++;
    }
}

static void world_deinit(struct world *world) {
    plain_deinit(&world->w);
    plain_deinit(&world->h);
}

static void set_shared(const struct tide_kernel *k, struct tide_argument *a, struct world *world) {
    plain_argument(k, a, "rows")->rows = plain_adding(&world->w);
    plain_argument(k, a, "columns")->rows = plain_adding(&world->h);
    plain_argument(k, a, "cells")->tensor =
        (struct tide_tensor){world->cells, world->count, 2, TIDE_U32};
    plain_argument(k, a, "values")->tensor =
        (struct tide_tensor){world->values, world->count, 1, TIDE_F32};
}

static void set_training(const struct tide_kernel *k, struct tide_argument *a, struct world *world,
                         double eps, double seed) {
    set_shared(k, a, world);
    plain_argument(k, a, "row_counts")->tensor =
        (struct tide_tensor){world->row_counts, ROWS, 1, TIDE_U32};
    plain_argument(k, a, "column_counts")->tensor =
        (struct tide_tensor){world->column_counts, COLUMNS, 1, TIDE_U32};
    plain_argument(k, a, "eps")->number = eps;
    plain_argument(k, a, "lambda")->number = 0.3;
    plain_argument(k, a, "seed")->number = seed;
}

/* ---- the step ---- */

static double cell_loss(size_t d, double x, double decay_w, double decay_h, const double *w,
                        const double *h) {
    double e = x, penalty = 0;
    for (size_t i = 0; i < d; i++) {
        e -= w[i] * h[i];
        penalty += decay_w * w[i] * w[i] + decay_h * h[i] * h[i];
    }
    return e * e + penalty;
}

static double cut(double update) {
    return fmin(1e4, fmax(-1e4, update));
}

/* The step in float64, from the formulas. */
static void step_reference(size_t d, double x, double eps, double decay_w, double decay_h,
                           double *w, double *h) {
    double e = x;
    for (size_t i = 0; i < d; i++) {
        e -= w[i] * h[i];
    }
    for (size_t i = 0; i < d; i++) {
        double a = w[i], b = h[i];
        w[i] += cut(2 * eps * (e * b - decay_w * a));
        h[i] += cut(2 * eps * (e * a - decay_h * b));
    }
}

static void test_reference_step_follows_central_differences(void **state) {
    (void)state;
    double w[7], h[7], new_w[7], new_h[7];
    for (size_t i = 0; i < 7; i++) {
        new_w[i] = w[i] = 0.3 * (double)i - 0.8;
        new_h[i] = h[i] = 0.5 - 0.21 * (double)i;
    }
    step_reference(7, 1.7, 0.01, 0.05, 0.02, new_w, new_h);
    for (size_t i = 0; i < 14; i++) {
        double *z = i < 7 ? &w[i] : &h[i - 7], kept = *z, delta = 1e-5;
        double step = i < 7 ? new_w[i] - w[i] : new_h[i - 7] - h[i - 7];
        *z = kept + delta;
        double up = cell_loss(7, 1.7, 0.05, 0.02, w, h);
        *z = kept - delta;
        double down = cell_loss(7, 1.7, 0.05, 0.02, w, h);
        *z = kept;
        double slope = (up - down) / (2 * delta);
        assert_true(fabs(-step / 0.01 - slope) < 1e-6 * (1 + fabs(slope)));
    }
}

static void test_step_is_that_of_float64(void **state) {
    (void)state;
    static const size_t widths[] = {1, 2, 7, 8, 15, 16, 100, 513};
    for (size_t n = 0; n < TIDE_COUNT(widths); n++) {
        size_t d = widths[n];
        float w[513], h[513];
        double w64[513], h64[513], x = 0.4;
        for (size_t i = 0; i < d; i++) {
            w64[i] = w[i] = (float)(i % 13) * 0.02f - 0.1f;
            h64[i] = h[i] = 0.15f - (float)(i % 7) * 0.05f;
            x += w64[i] * h64[i] * 0.5;
        }
        x = (double)(float)x;
        double expected = x;
        for (size_t i = 0; i < d; i++) {
            expected -= w64[i] * h64[i];
        }
        float e = mf_step(d, (float)x, 0.05f, 0.02f, 0.01f, w, h);
        step_reference(d, x, (double)0.05f, (double)0.02f, (double)0.01f, w64, h64);
        assert_true(fabs((double)e - expected) < 1e-5);
        for (size_t i = 0; i < d; i++) {
            assert_true(fabs((double)w[i] - w64[i]) < 1e-4 * (0.01 + fabs(w64[i])));
            assert_true(fabs((double)h[i] - h64[i]) < 1e-4 * (0.01 + fabs(h64[i])));
        }
    }
}

static void test_large_updates_are_cut(void **state) {
    (void)state;
    float w[9], h[9];
    for (size_t i = 0; i < 9; i++) {
        w[i] = i % 2 ? 1e3f : -1e-3f;
        h[i] = i % 3 ? 2e3f : 0.5f;
    }
    float old[9];
    memcpy(old, w, sizeof old);
    mf_step(9, 0, 1, 0, 0, w, h);
    for (size_t i = 0; i < 9; i++) {
        float moved = w[i] - old[i];
        assert_true(fabsf(moved) <= MF_UPDATE_MOST * 1.0001f);
        assert_true(fabsf(moved) > MF_UPDATE_MOST * 0.99f);
    }
    w[3] = NAN; /* stays visible: the block's outcome is refused */
    mf_step(9, 0, 1, 0, 0, w, h);
    assert_true(isnan(w[3]));
}

/* ---- blocks ---- */

/* The kernel's order, without a seed that of the cells, cell by cell in float64. */
static void train_reference(const struct world *world, double eps, const uint64_t *seed, double *w,
                            double *h) {
    uint32_t order[CELLS];
    struct tide_random random;
    tide_random_seed(&random, seed ? *seed : 0);
    for (size_t i = 0; i < world->count; i++) {
        size_t j = seed ? (size_t)tide_random_below(&random, i + 1) : i;
        order[i] = order[j];
        order[j] = (uint32_t)i;
    }
    for (size_t n = 0; n < world->count; n++) {
        size_t i = order[n];
        uint32_t row = world->cells[2 * i], column = world->cells[2 * i + 1];
        step_reference(WIDTH, (double)world->values[i], eps, 0.3 / world->row_counts[row],
                       0.3 / world->column_counts[column], w + row * WIDTH, h + column * WIDTH);
    }
}

static void widen(const struct plain_table *t, double *out) {
    for (size_t i = 0; i < t->count * t->width; i++) {
        out[i] = (double)t->rows[i];
    }
}

static void assert_near(const struct plain_table *t, const double *expected) {
    for (size_t i = 0; i < t->count * t->width; i++) {
        assert_true(fabs((double)t->rows[i] - expected[i]) < 1e-4 * (0.1 + fabs(expected[i])));
    }
}

static void block_is_trained_cell_by_cell(const uint64_t *seed) {
    static const double chunk_bytes[] = {1, 5 * WIDTH * 4, 1 << 20};
    for (size_t n = 0; n < TIDE_COUNT(chunk_bytes); n++) {
        struct world world;
        double w[ROWS * WIDTH], h[COLUMNS * WIDTH];
        struct tide_argument a[PLAIN_ARGUMENTS_MOST] = {{0}};
        struct tide_result results[16];
        char error[256] = "";
        const struct tide_kernel *k = tide_kernel_find("mf_sgd_block");
        world_init(&world, 0.5f);
        widen(&world.w, w);
        widen(&world.h, h);
        set_training(k, a, &world, 0.02, 5);
        plain_argument(k, a, "seed")->given = seed != NULL;
        plain_argument(k, a, "chunk_bytes")->number = chunk_bytes[n];
        int count = k->run(a, results, error);
        assert_true(count > 0);
        assert_true(plain_result(results, count, "examples") == CELLS);
        double chunks = plain_result(results, count, "chunks");
        assert_true(n == 2 ? chunks == 1 : chunks > 10);
        assert_true((double)world.w.pushes == chunks && world.w.open == 0 && world.h.open == 0);
        train_reference(&world, 0.02, seed, w, h);
        assert_near(&world.w, w);
        assert_near(&world.h, h);
        world_deinit(&world);
    }
}

static void test_block_is_trained_cell_by_cell_in_chunks_of_any_size(void **state) {
    (void)state;
    block_is_trained_cell_by_cell(&(uint64_t){5});
}

static void test_block_without_a_seed_is_trained_in_the_order_of_its_cells(void **state) {
    (void)state;
    block_is_trained_cell_by_cell(NULL);
}

/* A few cells that are far apart in a large matrix, and the same cells beside each other. */
static void test_few_cells_of_a_large_matrix_are_trained_as_of_a_small_one(void **state) {
    (void)state;
    enum { FEW = 20, FAR = 211, BASE = 7 };
    const struct tide_kernel *k = tide_kernel_find("mf_sgd_block");
    struct plain_table tables[2][2];
    uint32_t cells[2][2 * FEW], *counts = malloc(FEW * FAR * sizeof *counts);
    float values[FEW];
    for (size_t i = 0; i < FEW * FAR; i++) {
        counts[i] = 3;
    }
    for (uint32_t i = 0; i < FEW; i++) { /* rows and columns repeat */
        const uint32_t row = (7 * i) % FEW / 2, column = (3 * i) % FEW / 3;
        values[i] = (float)i / FEW;
        for (uint32_t far = 0; far < 2; far++) {
            cells[far][2 * i] = far ? row * FAR : row;
            cells[far][2 * i + 1] = far ? column * FAR : column;
        }
    }
    for (size_t side = 0; side < 2; side++) {
        const size_t base = side ? BASE : 0;
        plain_init(&tables[0][side], BASE + FEW * FAR, WIDTH, 0, 0.5f, 0, 1 + side);
        plain_init(&tables[1][side], BASE + FEW * FAR, WIDTH, 0, 0.5f, 0, 1 + side);
        for (size_t i = 0; i < FEW; i++) {
            memcpy(tables[1][side].rows + (base + i * FAR) * WIDTH,
                   tables[0][side].rows + (base + i) * WIDTH, WIDTH * sizeof(float));
        }
    }
    for (size_t far = 0; far < 2; far++) {
        struct tide_argument a[PLAIN_ARGUMENTS_MOST] = {{0}};
        struct tide_result results[16];
        char error[256] = "";
        plain_argument(k, a, "rows")->rows = plain_adding(&tables[far][0]);
        plain_argument(k, a, "columns")->rows = plain_adding(&tables[far][1]);
        plain_argument(k, a, "column_base")->number = BASE;
        plain_argument(k, a, "cells")->tensor = (struct tide_tensor){cells[far], FEW, 2, TIDE_U32};
        plain_argument(k, a, "values")->tensor = (struct tide_tensor){values, FEW, 1, TIDE_F32};
        plain_argument(k, a, "row_counts")->tensor = plain_argument(k, a, "column_counts")->tensor =
            (struct tide_tensor){counts, FEW * FAR, 1, TIDE_U32};
        plain_argument(k, a, "eps")->number = 0.02;
        int count = k->run(a, results, error);
        assert_true(count > 0);
        assert_true(plain_result(results, count, "pulled") == FEW / 2 + (FEW + 2) / 3);
    }
    for (size_t side = 0; side < 2; side++) {
        for (size_t i = 0; i < FEW; i++) {
            const size_t base = side ? BASE : 0;
            assert_memory_equal(tables[1][side].rows + (base + i * FAR) * WIDTH,
                                tables[0][side].rows + (base + i) * WIDTH, WIDTH * sizeof(float));
        }
    }
    for (size_t far = 0; far < 2; far++) {
        plain_deinit(&tables[far][0]);
        plain_deinit(&tables[far][1]);
    }
    free(counts);
}

static double total_loss(struct world *world, double *squares) {
    struct tide_argument a[PLAIN_ARGUMENTS_MOST] = {{0}};
    struct tide_result results[16];
    char error[256] = "";
    const struct tide_kernel *k = tide_kernel_find("mf_loss");
    set_shared(k, a, world);
    plain_argument(k, a, "lambda")->number = 0.3;
    plain_argument(k, a, "row_count")->number = ROWS;
    plain_argument(k, a, "column_first")->number = 2;
    plain_argument(k, a, "column_count")->number = COLUMNS - 2;
    int count = k->run(a, results, error);
    assert_true(count > 0);
    *squares = plain_result(results, count, "error");
    return plain_result(results, count, "loss");
}

static void test_loss_and_error_are_the_sums(void **state) {
    (void)state;
    struct world world;
    world_init(&world, 0.5f);
    double w[ROWS * WIDTH], h[COLUMNS * WIDTH], expected = 0, norms = 0, squares;
    widen(&world.w, w);
    widen(&world.h, h);
    for (size_t i = 0; i < CELLS; i++) {
        expected += cell_loss(WIDTH, (double)world.values[i], 0, 0, w + world.cells[2 * i] * WIDTH,
                              h + world.cells[2 * i + 1] * WIDTH);
    }
    for (size_t i = 0; i < ROWS * WIDTH; i++) {
        norms += w[i] * w[i];
    }
    for (size_t i = (size_t)2 * WIDTH; i < COLUMNS * WIDTH; i++) {
        norms += h[i] * h[i];
    }
    double loss = total_loss(&world, &squares);
    assert_true(fabs(squares - expected) < 1e-5 * expected);
    assert_true(fabs(loss - expected - 0.3 * norms) < 1e-5 * loss);
    struct tide_argument a[PLAIN_ARGUMENTS_MOST] = {{0}};
    struct tide_result results[16];
    char error[256] = "";
    const struct tide_kernel *k = tide_kernel_find("mf_error");
    set_shared(k, a, &world);
    world.count = 0;
    set_shared(k, a, &world);
    assert_int_equal(k->run(a, results, error), 2);
    assert_true(results[0].value == 0 && results[1].value == 0);
    world_deinit(&world);
}

static void test_training_converges(void **state) {
    (void)state;
    struct world world;
    struct tide_result results[16];
    char error[256] = "";
    const struct tide_kernel *k = tide_kernel_find("mf_sgd_block");
    double squares;
    world_init(&world, 0.5f);
    double before = total_loss(&world, &squares);
    for (int epoch = 0; epoch < 60; epoch++) {
        struct tide_argument a[PLAIN_ARGUMENTS_MOST] = {{0}};
        set_training(k, a, &world, 0.05, epoch);
        assert_true(k->run(a, results, error) > 0);
    }
    assert_true(total_loss(&world, &squares) < 0.3 * before);
    world_deinit(&world);
}

static void test_one_table_may_hold_both_factors(void **state) {
    (void)state;
    struct world world;
    struct plain_table both;
    char error[256] = "";
    struct tide_result results[16];
    const struct tide_kernel *k = tide_kernel_find("mf_sgd_block");
    world_init(&world, 0.5f);
    plain_init(&both, ROWS + 5 + COLUMNS, WIDTH, 0, 0, 0, 1);
    memcpy(both.rows, world.w.rows, sizeof(float) * ROWS * WIDTH);
    memcpy(both.rows + (ROWS + 5) * WIDTH, world.h.rows, sizeof(float) * COLUMNS * WIDTH);
    struct tide_argument a[PLAIN_ARGUMENTS_MOST] = {{0}};
    set_training(k, a, &world, 0.02, 5);
    assert_true(k->run(a, results, error) > 0);
    plain_argument(k, a, "rows")->rows = plain_adding(&both);
    plain_argument(k, a, "columns")->given = false;
    plain_argument(k, a, "column_base")->number = ROWS + 5;
    assert_true(k->run(a, results, error) > 0);
    assert_memory_equal(both.rows, world.w.rows, sizeof(float) * ROWS * WIDTH);
    assert_memory_equal(both.rows + (ROWS + 5) * WIDTH, world.h.rows,
                        sizeof(float) * COLUMNS * WIDTH);
    plain_deinit(&both);
    world_deinit(&world);
}

static void test_outcome_that_is_not_finite_is_not_pushed(void **state) {
    (void)state;
    struct world world;
    struct tide_argument a[PLAIN_ARGUMENTS_MOST] = {{0}};
    struct tide_result results[16];
    char error[256] = "";
    const struct tide_kernel *k = tide_kernel_find("mf_sgd_block");
    world_init(&world, 0.5f);
    world.values[77] = NAN;
    set_training(k, a, &world, 1, 5);
    int count = k->run(a, results, error);
    assert_true(count > 0);
    assert_true(isinf(plain_result(results, count, "loss")));
    assert_true(plain_result(results, count, "refused") == 1);
    assert_int_equal(world.w.pushes, 0);
    world_deinit(&world);
}

static void test_rows_are_restored_exactly(void **state) {
    (void)state;
    struct plain_table t;
    float kept[ROWS * WIDTH];
    struct tide_argument a[PLAIN_ARGUMENTS_MOST] = {{0}};
    struct tide_result results[16];
    char error[256] = "";
    const struct tide_kernel *k = tide_kernel_find("rows_restore");
    plain_init(&t, ROWS + 2, WIDTH, 0, 0.3f, 0, 3);
    memcpy(kept, t.rows + 2 * WIDTH, sizeof kept);
    for (size_t i = 0; i < ROWS * WIDTH; i++) {
        t.rows[2 * WIDTH + i] = i % 3 ? 12345.678f : kept[i];
    }
    plain_argument(k, a, "rows")->rows = plain_adding(&t);
    plain_argument(k, a, "first")->number = 2;
    plain_argument(k, a, "values")->tensor = (struct tide_tensor){kept, ROWS, WIDTH, TIDE_F32};
    assert_int_equal(k->run(a, results, error), 1);
    assert_memory_equal(t.rows + 2 * WIDTH, kept, sizeof kept);
    plain_argument(k, a, "values")->tensor.columns = WIDTH + 1;
    assert_int_equal(k->run(a, results, error), TIDE_EINVAL);
    plain_deinit(&t);
}

static void test_bad_arguments_are_refused(void **state) {
    (void)state;
    struct world world;
    struct tide_argument a[PLAIN_ARGUMENTS_MOST] = {{0}};
    struct tide_result results[16];
    char error[256] = "";
    const struct tide_kernel *k = tide_kernel_find("mf_sgd_block");
    world_init(&world, 0.5f);
    set_training(k, a, &world, -1, 5);
    assert_int_equal(k->run(a, results, error), TIDE_EINVAL);
    set_training(k, a, &world, 0.1, 5);
    world.row_counts[world.cells[0]] = 0;
    assert_int_equal(k->run(a, results, error), TIDE_ERANGE);
    assert_non_null(strstr(error, "row_counts: cell 0"));
    world.row_counts[world.cells[0]] = 1;
    plain_argument(k, a, "column_counts")->tensor.rows = 2;
    assert_int_equal(k->run(a, results, error), TIDE_ERANGE);
    set_training(k, a, &world, 0.1, 5);
    plain_argument(k, a, "values")->tensor.rows = 3;
    assert_int_equal(k->run(a, results, error), TIDE_EINVAL);
    set_training(k, a, &world, 0.1, 5);
    plain_argument(k, a, "columns")->rows.width = 4;
    assert_int_equal(k->run(a, results, error), TIDE_EINVAL);
    world_deinit(&world);
}

static void test_failure_of_the_table_ends_the_block(void **state) {
    (void)state;
    for (uint64_t call = 1; call <= 8; call++) {
        struct world world;
        struct tide_argument a[PLAIN_ARGUMENTS_MOST] = {{0}};
        struct tide_result results[16];
        char error[256] = "";
        const struct tide_kernel *k = tide_kernel_find("mf_sgd_block");
        world_init(&world, 0.5f);
        set_training(k, a, &world, 0.1, 5);
        plain_argument(k, a, "chunk_bytes")->number = 4 * WIDTH * 4;
        *(call % 2 ? &world.w.fail_after : &world.h.fail_after) = (call + 1) / 2;
        assert_int_equal(k->run(a, results, error), TIDE_EDIED);
        assert_non_null(strstr(error, "the owner died"));
        assert_int_equal(world.w.open + world.h.open, 0); /* nothing is left in flight */
        world_deinit(&world);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference_step_follows_central_differences),
        cmocka_unit_test(test_step_is_that_of_float64),
        cmocka_unit_test(test_large_updates_are_cut),
        cmocka_unit_test(test_block_is_trained_cell_by_cell_in_chunks_of_any_size),
        cmocka_unit_test(test_block_without_a_seed_is_trained_in_the_order_of_its_cells),
        cmocka_unit_test(test_few_cells_of_a_large_matrix_are_trained_as_of_a_small_one),
        cmocka_unit_test(test_loss_and_error_are_the_sums),
        cmocka_unit_test(test_training_converges),
        cmocka_unit_test(test_one_table_may_hold_both_factors),
        cmocka_unit_test(test_outcome_that_is_not_finite_is_not_pushed),
        cmocka_unit_test(test_rows_are_restored_exactly),
        cmocka_unit_test(test_bad_arguments_are_refused),
        cmocka_unit_test(test_failure_of_the_table_ends_the_block),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
