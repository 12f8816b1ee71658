/* Sufficient-factor models: factors against central differences of the objectives in float64,
 * kernels against the reference, codes and dual variables against their conditions of optimality.
 */
#include "base/base.h"
#include "packages/factors/factors.h"
#include "tensor/cpu/gemm.h"
#include "tensor/reference/factors.h"
#include "wire/wire.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

enum { N = 40, D = 23, J = 5, PAIRS = 60, MOST = PAIRS };

struct task { /* sparse examples, the same dense in f64, and W in both precisions */
    uint64_t offsets[N + 1];
    uint32_t indices[N * D];
    float values[N * D];
    double dense[N * D];
    int32_t labels[N];
    uint32_t pairs[2 * PAIRS], rows[MOST];
    uint8_t similar[PAIRS];
    float w[D * J], u[MOST * D], v[MOST * D];
    double wide[D * J];
    size_t entries;
};

static double draw(struct tide_random *random) {
    return 2 * tide_random_uniform(random) - 1;
}

static struct task *make_task(uint64_t seed, double scale) {
    struct task *t = calloc(1, sizeof *t);
    struct tide_random random;
    tide_random_seed(&random, seed);
    for (size_t i = 0; i < N; i++) {
        for (uint32_t c = 0; c < D && i != 3; c++) { /* example 3 has no entry */
            if (tide_random_below(&random, 3) == 0) {
                t->indices[t->entries] = c;
                t->values[t->entries] = (float)draw(&random);
                t->dense[i * D + c] = (double)t->values[t->entries++];
            }
        }
        t->offsets[i + 1] = t->entries;
        t->labels[i] = (int32_t)tide_random_below(&random, J);
    }
    for (uint32_t p = 0; p < PAIRS; p++) {
        t->pairs[2 * p] = (uint32_t)tide_random_below(&random, N);
        t->pairs[2 * p + 1] = (uint32_t)tide_random_below(&random, N);
        t->similar[p] = (uint8_t)(p % 2);
        t->rows[p] = p;
    }
    for (size_t i = 0; i < D * J; i++) {
        t->w[i] = (float)(scale * draw(&random));
        t->wide[i] = (double)t->w[i];
    }
    return t;
}

static struct tide_argument tensor(void *data, size_t rows, size_t columns, uint8_t type) {
    return (struct tide_argument){.given = true, .tensor = {data, rows, columns, type}};
}

static struct tide_argument number(double value) {
    return (struct tide_argument){.given = true, .number = value};
}

/* The arguments that all have; `d` x `j` is W. Examples have J = columns of W for coding. */
static void common(struct task *t, struct tide_argument *a, size_t d, size_t j, size_t count,
                   bool factors) {
    a[0] = tensor(t->offsets, N + 1, 1, TIDE_U64);
    a[1] = tensor(t->indices, t->entries, 1, TIDE_U32);
    a[2] = tensor(t->values, t->entries, 1, TIDE_F32);
    a[3] = tensor(t->rows, count, 1, TIDE_U32);
    a[4] = tensor(t->w, d, j, TIDE_F32);
    a[5] = factors ? tensor(t->u, MOST, j, TIDE_F32) : (struct tide_argument){0};
    a[6] = factors ? tensor(t->v, MOST, d, TIDE_F32) : (struct tide_argument){0};
}

static double run_kernel(const struct tide_kernel *k, const struct tide_argument *a,
                         const char *result) {
    struct tide_result results[16];
    char error[256] = "";
    int count = k->run(a, results, error);
    if (count < 0) {
        fail_msg("%s: %s", k->name, error);
    }
    for (int i = 0; i < count; i++) {
        if (strcmp(results[i].name, result) == 0) {
            return results[i].value;
        }
    }
    fail_msg("%s has no result %s", k->name, result);
    return 0;
}

static void assert_close(double a, double b, double bound) {
    if (!(fabs(a - b) <= bound * (1 + fabs(b)))) {
        fail_msg("%.12g is not %.12g", a, b);
    }
}

/* ---- factors are gradients ---- */

typedef double objective(const struct task *t, const double *w, size_t i, double *u);

static double mlr_objective(const struct task *t, const double *w, size_t i, double *u) {
    double p[J];
    return reference_mlr(D, J, w, t->dense + i * D, (size_t)t->labels[i], p, u);
}

static void difference(const struct task *t, size_t pair, double *x) {
    for (size_t c = 0; c < D; c++) {
        x[c] = t->dense[t->pairs[2 * pair] * D + c] - t->dense[t->pairs[2 * pair + 1] * D + c];
    }
}

static double metric_objective(const struct task *t, const double *w, size_t i, double *u) {
    double x[D];
    difference(t, i, x);
    return reference_metric(D, J, w, x, t->similar[i], 1.5, u);
}

static const double code_of_check[J] = {0.3, 0, -1.2, 0, 0.7};

static double coding_objective(const struct task *t, const double *w, size_t i, double *u) {
    return reference_coding(J, D, w, t->dense + i * D, code_of_check, 0.1, u);
}

static void check_gradient(objective *f, size_t d, size_t j, bool pairs) {
    struct task *t = make_task(7, 0.4);
    for (size_t i = 0; i < N; i++) {
        double u[D], x[D];
        f(t, t->wide, i, u);
        for (size_t e = 0; e < d * j; e++) {
            const double h = 1e-6, old = t->wide[e];
            t->wide[e] = old + h;
            double up = f(t, t->wide, i, NULL);
            t->wide[e] = old - h;
            double down = f(t, t->wide, i, NULL);
            t->wide[e] = old;
            if (pairs) {
                difference(t, i, x);
            }
            double v = pairs ? x[e / j] : d == J ? code_of_check[e / j] : t->dense[i * D + e / j];
            assert_close((up - down) / (2 * h), u[e % j] * v, 1e-6);
        }
    }
    free(t);
}

static void factors_are_the_gradients_of_the_objectives(void **state) {
    (void)state;
    check_gradient(mlr_objective, D, J, false);
    check_gradient(metric_objective, D, J, true);
    check_gradient(coding_objective, J, D, false);
}

/* ---- kernels are the reference ---- */

static void logistic_regression_is_the_reference(void **state) {
    (void)state;
    struct task *t = make_task(3, 2);
    struct tide_argument a[8];
    common(t, a, D, J, N, true);
    a[7] = tensor(t->labels, N, 1, TIDE_I32);
    double loss = run_kernel(&tide_kernel_factors_mlr, a, "loss"), sum = 0;
    for (size_t i = 0; i < N; i++) {
        double u[J];
        sum += mlr_objective(t, t->wide, i, u);
        for (size_t k = 0; k < J; k++) {
            assert_close((double)t->u[i * J + k], u[k], 1e-5);
        }
        for (size_t c = 0; c < D; c++) {
            assert_true((double)t->v[i * D + c] == t->dense[i * D + c]);
        }
    }
    assert_close(loss, sum, 1e-5);
    common(t, a, D, J, N, false);
    assert_true(run_kernel(&tide_kernel_factors_mlr, a, "loss") == loss);
    assert_true(run_kernel(&tide_kernel_factors_mlr, a, "factors") == 0);
    free(t);
}

static void an_example_has_the_same_bits_in_any_batch(void **state) {
    (void)state;
    struct task *t = make_task(4, 2);
    struct tide_argument a[8];
    common(t, a, D, J, N, true);
    a[7] = tensor(t->labels, N, 1, TIDE_I32);
    run_kernel(&tide_kernel_factors_mlr, a, "loss");
    float whole[N * J];
    memcpy(whole, t->u, sizeof whole);
    for (size_t first = 0; first < N; first += 7) {
        size_t count = N - first < 7 ? N - first : 7;
        a[3] = tensor(t->rows + first, count, 1, TIDE_U32);
        run_kernel(&tide_kernel_factors_mlr, a, "loss");
        assert_memory_equal(t->u, whole + first * J, count * J * sizeof(float));
    }
    free(t);
}

static void metric_learning_is_the_reference(void **state) {
    (void)state;
    struct task *t = make_task(5, 0.35);
    struct tide_argument a[10];
    common(t, a, D, J, PAIRS, true);
    a[7] = tensor(t->pairs, PAIRS, 2, TIDE_U32);
    a[8] = tensor(t->similar, PAIRS, 1, TIDE_U8);
    a[9] = number(1.5);
    double loss = run_kernel(&tide_kernel_factors_metric, a, "loss"), sum = 0;
    size_t factors = (size_t)run_kernel(&tide_kernel_factors_metric, a, "factors"), at = 0;
    for (size_t i = 0; i < PAIRS; i++) {
        double u[J], x[D], some = 0;
        sum += metric_objective(t, t->wide, i, u);
        difference(t, i, x);
        for (size_t k = 0; k < J; k++) {
            some += fabs(u[k]);
        }
        if (some == 0 && !t->similar[i] && metric_objective(t, t->wide, i, NULL) == 0) {
            continue; /* far enough apart: no factor */
        }
        for (size_t k = 0; k < J; k++) {
            assert_close((double)t->u[at * J + k], u[k], 1e-5);
        }
        for (size_t c = 0; c < D; c++) {
            assert_close((double)t->v[at * D + c], x[c], 1e-6);
        }
        at++;
    }
    assert_int_equal(at, factors);
    assert_true(factors < PAIRS && factors > PAIRS / 2);
    assert_close(loss, sum, 1e-5);
    free(t);
}

/* 0 is in the subdifferential: |w_c (a - c W)| <= l where the code is 0, = l sign(code) elsewhere.
 */
static void codes_are_optimal_and_give_the_reference_factors(void **state) {
    (void)state;
    struct task *t = make_task(6, 0.5);
    struct tide_argument a[9];
    const double l1 = 0.05;
    common(t, a, J, D, N, true);
    a[7] = number(l1);
    a[8] = number(1000);
    double loss = run_kernel(&tide_kernel_factors_coding, a, "loss"), sum = 0;
    size_t nonzeros = 0;
    for (size_t i = 0; i < N; i++) {
        double u[D], code[J];
        for (size_t c = 0; c < J; c++) {
            code[c] = (double)t->v[i * J + c];
        }
        sum += reference_coding(J, D, t->wide, t->dense + i * D, code, l1, u);
        for (size_t m = 0; m < D; m++) {
            assert_close((double)t->u[i * D + m], u[m], 1e-5);
        }
        for (size_t c = 0; c < J; c++) {
            double slope = 0;
            for (size_t m = 0; m < D; m++) {
                slope += u[m] * t->wide[c * D + m];
            }
            nonzeros += code[c] != 0;
            assert_true(code[c] == 0 ? fabs(slope) <= l1 + 1e-4
                                     : fabs(slope + (code[c] > 0 ? l1 : -l1)) <= 1e-4);
        }
    }
    assert_close(loss, sum, 1e-5);
    assert_true(nonzeros > N && nonzeros < N * J);
    free(t);
}

static void long_atoms_are_shortened_and_short_ones_stay(void **state) {
    (void)state;
    float w[3][4] = {{3, 4, 0, 0}, {0.1f, 0.2f, 0, 0}, {0, 0, 0, 0}};
    const float expected[3][4] = {{0.6f, 0.8f, 0, 0}, {0.1f, 0.2f, 0, 0}, {0, 0, 0, 0}};
    struct tide_argument a = tensor(w, 3, 4, TIDE_F32);
    assert_true(run_kernel(&tide_kernel_project_rows, &a, "shortened") == 1);
    for (size_t i = 0; i < 12; i++) {
        assert_close((double)w[i / 4][i % 4], (double)expected[i / 4][i % 4], 1e-6);
    }
}

/* ---- dual ascent ---- */

/* P - D from W and the dual variables, all in f64 by independent code; *invariant: the largest
 * difference of W from 1 / (l n) sum a_i alpha_i'. */
static double duality_gap(const struct task *t, const float *dual, double l2, double *invariant) {
    double w[D * J] = {0}, losses = 0, entropy = 0, squares = 0;
    *invariant = 0;
    for (size_t i = 0; i < N; i++) {
        for (size_t e = 0; e < D * J; e++) {
            w[e] += t->dense[i * D + e / J] * (double)dual[i * J + e % J] / (l2 * N);
        }
    }
    for (size_t e = 0; e < D * J; e++) {
        *invariant = fmax(*invariant, fabs(w[e] - (double)t->w[e]));
        squares += w[e] * w[e];
    }
    for (size_t i = 0; i < N; i++) {
        double p[J];
        losses += reference_mlr(D, J, w, t->dense + i * D, (size_t)t->labels[i], p, NULL);
        for (size_t k = 0; k < J; k++) {
            double q = ((size_t)t->labels[i] == k ? 1 : 0) - (double)dual[i * J + k];
            assert_true(q > -1e-6 && q < 1 + 1e-6); /* in the simplex */
            entropy -= q > 0 ? q * log(q) : 0;
        }
    }
    return (losses - entropy) / N + l2 * squares;
}

static void dual_ascent_closes_the_gap(void **state) {
    (void)state;
    static const size_t batches[] = {1, 8, N};
    for (size_t n = 0; n < TIDE_COUNT(batches); n++) {
        struct task *t = make_task(8, 0);
        float dual[N * J] = {0};
        const double l2 = 0.05;
        double gap = INFINITY, invariant;
        struct tide_argument a[11];
        common(t, a, D, J, N, true);
        a[7] = tensor(t->labels, N, 1, TIDE_I32);
        a[8] = tensor(dual, N, J, TIDE_F32);
        a[9] = number(l2);
        a[10] = number((double)batches[n]); /* safe for any data */
        for (size_t epoch = 0; epoch < 300; epoch++) {
            for (size_t first = 0; first < N; first += batches[n]) {
                size_t count = N - first < batches[n] ? N - first : batches[n];
                a[3] = tensor(t->rows + first, count, 1, TIDE_U32);
                run_kernel(&tide_kernel_factors_sdca, a, "loss");
                assert_int_equal(
                    tide_cpu_gemm(true, false, D, J, count, 1, t->v, D, t->u, J, 1, t->w, J), 0);
            }
            double now = duality_gap(t, dual, l2, &invariant);
            assert_true(now >= -1e-6 && now <= gap + 1e-6 && invariant < 1e-4);
            gap = now;
        }
        assert_true(gap < 1e-5);
        a[3] = tensor(t->rows, N, 1, TIDE_U32); /* the kernel's own sums say the same */
        a[5].given = a[6].given = false;
        double losses = run_kernel(&tide_kernel_factors_sdca, a, "loss");
        double entropy = run_kernel(&tide_kernel_factors_sdca, a, "entropy"), squares = 0;
        for (size_t e = 0; e < D * J; e++) {
            squares += (double)t->w[e] * (double)t->w[e];
        }
        assert_close((losses - entropy) / N + l2 * squares, gap, 1e-4);
        free(t);
    }
}

/* Some of the dual variables are lost: with W made of those that are left the gap is one, and
 * closes again. */
static void weights_are_made_of_the_dual_variables_that_are_left(void **state) {
    (void)state;
    struct task *t = make_task(11, 1); /* W is anything */
    float dual[N * J] = {0};
    const double l2 = 0.05;
    double invariant;
    struct tide_argument a[11], primal[9];
    common(t, a, D, J, N, true);
    common(t, primal, D, J, N, false);
    a[7] = tensor(t->labels, N, 1, TIDE_I32);
    a[8] = primal[7] = tensor(dual, N, J, TIDE_F32);
    a[9] = primal[8] = number(l2);
    a[10] = number(N);
    assert_true(run_kernel(&tide_kernel_factors_primal, primal, "count") == N);
    for (size_t e = 0; e < D * J; e++) {
        assert_true(t->w[e] == 0);
    }
    for (size_t epoch = 0; epoch < 300; epoch++) {
        if (epoch == 20) {
            memset(dual + 7 * J, 0, 9 * J * sizeof *dual);
            (void)duality_gap(t, dual, l2, &invariant);
            assert_true(invariant > 1e-2);
            run_kernel(&tide_kernel_factors_primal, primal, "count");
            assert_true(duality_gap(t, dual, l2, &invariant) > 1e-3 && invariant < 1e-6);
        }
        run_kernel(&tide_kernel_factors_sdca, a, "loss");
        assert_int_equal(tide_cpu_gemm(true, false, D, J, N, 1, t->v, D, t->u, J, 1, t->w, J), 0);
        assert_true(duality_gap(t, dual, l2, &invariant) >= -1e-6 && invariant < 1e-4);
    }
    assert_true(duality_gap(t, dual, l2, &invariant) < 1e-5);
    free(t);
}

/* ---- mistakes ---- */

static void refuse(const struct tide_kernel *k, const struct tide_argument *a, const char *what) {
    struct tide_result results[16];
    char error[256] = "";
    assert_int_equal(k->run(a, results, error), TIDE_EINVAL);
    if (!strstr(error, what)) {
        fail_msg("'%s' does not say '%s'", error, what);
    }
}

static void wrong_arguments_are_refused(void **state) {
    (void)state;
    struct task *t = make_task(9, 1);
    struct tide_argument a[11];
    const struct tide_kernel *mlr = &tide_kernel_factors_mlr;
    common(t, a, D, J, N, true);
    a[7] = tensor(t->labels, N - 1, 1, TIDE_I32);
    refuse(mlr, a, "39 labels of 40 examples");
    a[7] = tensor(t->labels, N, 1, TIDE_I32);
    a[6].given = false;
    refuse(mlr, a, "u and v come together");
    a[6] = tensor(t->v, 3, D, TIDE_F32);
    refuse(mlr, a, "u must be 40 x 5 and v 40 x 23");
    common(t, a, D, J, N, true);
    t->rows[5] = N;
    refuse(mlr, a, "there is no example 40");
    t->rows[5] = 5;
    t->labels[6] = J;
    refuse(mlr, a, "label 5 of example 6");
    t->labels[6] = 0;
    a[4] = tensor(t->w, 4, J, TIDE_F32);
    a[6] = tensor(t->v, MOST, 4, TIDE_F32);
    refuse(mlr, a, "of 4");
    common(t, a, D, J, N, true);
    t->offsets[2] = t->entries + 1;
    refuse(mlr, a, "the offsets of example 1");
    t->offsets[2] = t->offsets[1];
    float dual[N * J] = {0};
    a[8] = tensor(dual, N, J, TIDE_F32);
    a[9] = number(0);
    a[10] = number(1);
    refuse(&tide_kernel_factors_sdca, a, "l2 must be above 0");
    a[7] = a[8];
    a[8] = number(0);
    refuse(&tide_kernel_factors_primal, a, "l2 must be above 0");
    a[7] = tensor(dual, N - 1, J, TIDE_F32);
    refuse(&tide_kernel_factors_primal, a, "dual must be 40 x 5");
    a[7] = tensor(t->pairs, PAIRS - 1, 2, TIDE_U32);
    a[8] = tensor(t->similar, PAIRS, 1, TIDE_U8);
    a[9] = number(1);
    refuse(&tide_kernel_factors_metric, a, "two examples");
    a[7] = tensor(t->pairs, PAIRS, 2, TIDE_U32);
    t->rows[0] = PAIRS;
    refuse(&tide_kernel_factors_metric, a, "there is no pair 60");
    a[7] = number(0);
    a[8] = number(10);
    a[4] = tensor(t->w, J, D, TIDE_F32);
    a[5] = tensor(t->u, MOST, D, TIDE_F32);
    a[6] = tensor(t->v, MOST, J, TIDE_F32);
    refuse(&tide_kernel_factors_coding, a, "l1 must be above 0");
    free(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(factors_are_the_gradients_of_the_objectives),
        cmocka_unit_test(logistic_regression_is_the_reference),
        cmocka_unit_test(an_example_has_the_same_bits_in_any_batch),
        cmocka_unit_test(metric_learning_is_the_reference),
        cmocka_unit_test(codes_are_optimal_and_give_the_reference_factors),
        cmocka_unit_test(long_atoms_are_shortened_and_short_ones_stay),
        cmocka_unit_test(dual_ascent_closes_the_gap),
        cmocka_unit_test(weights_are_made_of_the_dual_variables_that_are_left),
        cmocka_unit_test(wrong_arguments_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
