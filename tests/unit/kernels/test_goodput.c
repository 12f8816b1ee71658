/*
 * The goodput models (kernels/decide/goodput.c): the gradient of the fit's loss against differences,
 * fits of times made from known numbers, best batches against all others, and the noise scale of
 * gradients whose mean and covariance are known.
 */
#include "base/base.h"
#include "decide/numeric.h"
#include "tide.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct tide_random rng;

static double uniform(double low, double high) {
    return low + (high - low) * tide_random_uniform(&rng);
}

static double normal(void) {
    return sqrt(-2 * log(1 - tide_random_uniform(&rng))) *
           cos(6.283185307179586 * tide_random_uniform(&rng));
}

enum { ROWS_MAX = 40, CASES = 200 };

static struct tide_throughput random_model(void) {
    return (struct tide_throughput){uniform(0.005, 0.2), uniform(1e-4, 5e-3), uniform(0.005, 0.1),
                                    uniform(1e-4, 0.01), uniform(0.02, 0.3),  uniform(1e-4, 0.02),
                                    uniform(1, 5)};
}

/* Rows as a job meets them: sizes that grow, a few batches each, times `noise` off. */
static size_t random_rows(const struct tide_throughput *truth, size_t count, double noise,
                          struct tide_throughput_row *rows) {
    for (size_t i = 0; i < count; i++) {
        const double slots = (double)(UINT64_C(1) << tide_random_below(&rng, 6));
        const double machines = ceil(slots / 4), batch = floor(uniform(8, 300));
        rows[i] = (struct tide_throughput_row){
            .machines = machines,
            .slots = slots,
            .batch = batch,
            .pass_s = (truth->ag + truth->bg * batch) * exp(noise * normal()),
            .step_s = tide_goodput_seconds(truth, machines, slots, batch, 0) * exp(noise * normal()),
            .weight = 1,
        };
    }
    return count;
}

static void the_gradient_of_the_loss_is_that_of_differences(void **state) {
    (void)state;
    struct tide_throughput_row rows[ROWS_MAX];
    for (int i = 0; i < CASES; i++) {
        const struct tide_throughput truth = random_model(), at = random_model();
        const size_t count = random_rows(&truth, 3 + tide_random_below(&rng, 30), 0.1, rows);
        double gradient[7], ignored[7], loss;
        assert_int_equal(tide_goodput_loss(&at, rows, count, &loss, gradient), 0);
        for (size_t j = 0; j < 7; j++) {
            double x[7], both[2];
            for (int side = 0; side < 2; side++) {
                memcpy(x, &at, sizeof x);
                x[j] *= side == 0 ? 1 - 1e-6 : 1 + 1e-6;
                struct tide_throughput beside;
                memcpy(&beside, x, sizeof x);
                assert_int_equal(tide_goodput_loss(&beside, rows, count, &both[side], ignored), 0);
            }
            memcpy(x, &at, sizeof x);
            const double slope = (both[1] - both[0]) / (2e-6 * x[j]);
            assert_true(fabs(slope - gradient[j]) * x[j] < 2e-5 * (1 + fabs(slope) * x[j]));
        }
    }
}

static void a_fit_is_not_worse_than_the_truth(void **state) {
    (void)state;
    struct tide_throughput_row rows[ROWS_MAX];
    for (int i = 0; i < CASES; i++) {
        const struct tide_throughput truth = random_model();
        const double noise = i % 2 == 0 ? 0 : 0.05;
        const size_t count = random_rows(&truth, 20 + tide_random_below(&rng, 20), noise, rows);
        struct tide_throughput found;
        double loss, of_truth, gradient[7];
        assert_int_equal(tide_goodput_fit(rows, count, &found, &loss), 0);
        assert_int_equal(tide_goodput_loss(&truth, rows, count, &of_truth, gradient), 0);
        assert_true(loss <= of_truth * 1.01 + 1e-4);
        assert_true(found.g >= 1 && found.g <= 10 && found.ag >= 1e-8 && found.bn >= 1e-8);
    }
}

static void what_no_row_tells_of_is_optimistic(void **state) {
    (void)state;
    const struct tide_throughput_row one = {1, 1, 32, 0.4, 0.4, 1};
    struct tide_throughput p;
    double loss;
    assert_int_equal(tide_goodput_fit(&one, 1, &p, &loss), 0);
    assert_true(fabs(p.ag - 0.2) < 1e-12); /* half of the pass: larger batches look cheap */
    assert_true(p.al == 1e-8 && p.bl == 1e-8 && p.an <= 1.2e-8 && p.bn <= 1.2e-8);
    assert_true(fabs(tide_goodput_seconds(&p, 1, 1, 32, 0) - 0.4) < 0.01);
    const struct tide_throughput_row near[2] = {{1, 1, 32, 0.4, 0.4, 1}, {1, 4, 16, 0.3, 0.5, 1}};
    assert_int_equal(tide_goodput_fit(near, 2, &p, &loss), 0);
    assert_true(p.an >= 1.1 * p.al * 0.999 && p.bn >= 1.1 * p.bl * 0.999);
}

static void wrong_rows_are_refused(void **state) {
    (void)state;
    struct tide_throughput p;
    double loss;
    const struct tide_throughput_row wrong[] = {
        {0, 1, 32, 0.4, 0.4, 1},  {2, 1, 32, 0.4, 0.4, 1}, {1, 1, 0, 0.4, 0.4, 1},
        {1, 1, 32, -1, 0.4, 1},   {1, 1, 32, 0.4, NAN, 1}, {1, 1, 32, 0.4, INFINITY, 1},
        {1, 1, 32, 0.4, 0.4, 0},
    };
    assert_int_equal(tide_goodput_fit(wrong, 0, &p, &loss), TIDE_EINVAL);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(tide_goodput_fit(&wrong[i], 1, &p, &loss), TIDE_EINVAL);
    }
}

/* ---- batches ---- */

static double goodput_of(const struct tide_goodput_job *job, double machines, double slots, double m,
                         double extra) {
    const double total = slots * m * (extra + 1), phi = job->start * job->var / job->sqr;
    return total / tide_goodput_seconds(&job->perf, machines, slots, m, extra) *
           (phi + job->start) / (phi + total);
}

static void the_best_batch_is_about_the_best_of_all(void **state) {
    (void)state;
    for (int i = 0; i < CASES; i++) {
        const double start = 32 + (double)tide_random_below(&rng, 200);
        const struct tide_goodput_job job = {.perf = random_model(),
                                             .sqr = uniform(0.01, 2),
                                             .var = uniform(0.01, 20),
                                             .start = start,
                                             .max = start * 16,
                                             .low = 8,
                                             .high = 128};
        const double slots = (double)(UINT64_C(1) << tide_random_below(&rng, 5));
        const double machines = ceil(slots / 4);
        struct tide_goodput_choice choice;
        assert_int_equal(tide_goodput_best(&job, machines, slots, &choice), 0);
        assert_true(choice.batch >= job.low && choice.batch <= job.high);
        assert_true(slots * choice.batch * (choice.passes_extra + 1) <= job.max);
        double best = 0;
        for (double extra = slots == 1 ? 1 : 0; extra < 20; extra++) {
            for (double m = job.low; m <= job.high; m++) {
                const double total = slots * m * (extra + 1);
                if (total >= job.start && total <= job.max) {
                    best = fmax(best, goodput_of(&job, machines, slots, m, extra));
                }
            }
        }
        assert_true(choice.goodput >= 0.93 * best);
    }
}

static void batches_that_fit_nowhere_are_refused(void **state) {
    (void)state;
    struct tide_goodput_job job = {.perf = random_model(), .sqr = 1, .var = 1, .start = 64,
                                   .max = 256, .low = 32, .high = 64};
    struct tide_goodput_choice choice;
    double m, extra;
    assert_int_equal(tide_goodput_best(&job, 4, 16, &choice), TIDE_ERANGE);
    assert_int_equal(tide_goodput_best(&job, 2, 8, &choice), 0);
    assert_int_equal(tide_goodput_fixed(&job, 512, 256, &m, &extra), TIDE_ERANGE);
    job.max = job.start; /* fixed: all of it counts */
    assert_int_equal(tide_goodput_best(&job, 1, 2, &choice), 0);
    assert_true(choice.efficiency == 1 && choice.batch == 32 && choice.passes_extra == 0);
}

/* ---- noise ---- */

enum { WIDTH = 64, STEPS = 20000 };

/* Gradients of examples with mean 1/8 a number (|mean|^2 = 1) and variance 4/64 each (trace 4). */
static void gradient_of(double examples, double *g) {
    for (int i = 0; i < WIDTH; i++) {
        g[i] = 0.125 + 0.25 * normal() / sqrt(examples);
    }
}

static void expect_noise(const double *batches, size_t count, bool biased) {
    struct tide_noise noise = {0};
    double total_batch = 0;
    for (size_t i = 0; i < count; i++) {
        total_batch += batches[i];
    }
    for (int step = 0; step < STEPS; step++) {
        double sum[WIDTH] = {0}, local = 0, total = 0, g[WIDTH];
        for (size_t i = 0; i < count; i++) {
            gradient_of(batches[i], g);
            for (int j = 0; j < WIDTH; j++) {
                local += batches[i] / total_batch * g[j] * g[j];
                sum[j] += batches[i] / total_batch * g[j];
            }
        }
        for (int j = 0; j < WIDTH; j++) {
            total += sum[j] * sum[j];
        }
        const struct tide_noise_sample sample = {.count = (double)count, .batch = total_batch,
                                                 .start = total_batch, .local = local,
                                                 .total = total, .biased = biased};
        assert_int_equal(tide_noise_update(&noise, &sample), 0);
    }
    assert_true(fabs(noise.sqr - 1) < 0.02);
    assert_true(fabs(noise.var * total_batch - 4) < 0.02 * 4);
}

static void the_noise_of_known_gradients_is_found(void **state) {
    (void)state;
    expect_noise((const double[]){32, 32}, 2, false);
    expect_noise((const double[]){8, 8, 16, 96}, 4, false);
    expect_noise((const double[]){1, 64}, 2, false);
    expect_noise((const double[]){4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4}, 16, false);
}

static void averages_skip_what_is_not_finite_and_restart_when_unbiased(void **state) {
    (void)state;
    struct tide_noise noise = {0};
    struct tide_noise_sample s = {.count = 2, .batch = 64, .start = 32, .local = 3, .total = 2,
                                  .biased = true};
    assert_int_equal(tide_noise_update(&noise, &s), 0);
    assert_true(noise.sqr == 1 && noise.var == 2 && noise.biased);
    s.local = NAN;
    assert_int_equal(tide_noise_update(&noise, &s), 0);
    assert_true(noise.skipped == 1 && noise.sqr == 1);
    s.local = 5;
    s.biased = false;
    assert_int_equal(tide_noise_update(&noise, &s), 0); /* forgets the biased one */
    assert_true(!noise.biased && noise.sqr == -1 && noise.var == 6);
    s.biased = true;
    s.local = 100;
    assert_int_equal(tide_noise_update(&noise, &s), 0);
    assert_true(!noise.biased && noise.sqr == -1);
    s.count = 1;
    assert_int_equal(tide_noise_update(&noise, &s), TIDE_EINVAL);
}

int main(void) {
    tide_random_seed(&rng, 11);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_gradient_of_the_loss_is_that_of_differences),
        cmocka_unit_test(a_fit_is_not_worse_than_the_truth),
        cmocka_unit_test(what_no_row_tells_of_is_optimistic),
        cmocka_unit_test(wrong_rows_are_refused),
        cmocka_unit_test(the_best_batch_is_about_the_best_of_all),
        cmocka_unit_test(batches_that_fit_nowhere_are_refused),
        cmocka_unit_test(the_noise_of_known_gradients_is_found),
        cmocka_unit_test(averages_skip_what_is_not_finite_and_restart_when_unbiased),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
