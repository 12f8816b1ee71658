/* Kernels of tide.descent and tide.multitask against plain loops in f64, steps against golden
 * sections, solutions against the conditions of optimality, draws against their distribution. */
#include "base/base.h"
#include "decide/numeric.h"
#include "kernels.h"
#include "packages/descent/descent.h"
#include "wire/wire.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- calling kernels by names ---- */

struct named {
    const char *name;
    struct tide_argument value;
};

static struct tide_argument tensor(void *data, size_t rows, size_t columns, uint8_t type) {
    return (struct tide_argument){.given = true, .tensor = {data, rows, columns, type}};
}

static struct tide_argument number(double value) {
    return (struct tide_argument){.given = true, .number = value};
}

static struct tide_argument word(const char *text) {
    return (struct tide_argument){.given = true, .text = text};
}

static double run(const char *name, const struct named *arguments, const char *result) {
    const struct tide_kernel *kernel = tide_kernel_find(name);
    struct tide_argument a[48] = {0};
    struct tide_result results[16];
    char error[256] = "";
    assert_non_null(kernel);
    for (size_t p = 0; p < kernel->parameter_count; p++) {
        a[p].number = kernel->parameters[p].number;
    }
    for (; arguments->name; arguments++) {
        size_t p = 0;
        while (strcmp(kernel->parameters[p].name, arguments->name) != 0) {
            assert_true(++p < kernel->parameter_count);
        }
        a[p] = arguments->value;
    }
    int count = kernel->run(a, results, error);
    if (count < 0) {
        return (double)count;
    }
    for (int i = 0; i < count; i++) {
        if (strcmp(results[i].name, result) == 0) {
            return results[i].value;
        }
    }
    fail_msg("%s has no result %s", name, result);
    return 0;
}

#define RUN(name, result, ...) run(name, (const struct named[]){__VA_ARGS__, {NULL, {0}}}, result)
#define F64(x, n) tensor(x, n, 1, TIDE_F64)

static double draw(struct tide_random *random) {
    return 2 * tide_random_uniform(random) - 1;
}

/* ---- examples, sparse and dense ---- */

enum { N = 60, J = 40 };

struct examples {
    float dense[J * N]; /* by column */
    uint64_t offsets[J + 1];
    uint32_t rows[J * N];
    float values[J * N];
    double weights[N], v[N], y[N];
};

static void fill(struct examples *e, uint64_t seed) {
    struct tide_random random;
    tide_random_seed(&random, seed);
    memset(e, 0, sizeof *e);
    size_t entries = 0;
    for (uint32_t j = 0; j < J; j++) {
        for (uint32_t i = 0; i < N; i++) {
            if (tide_random_below(&random, 3) == 0) {
                e->dense[j * N + i] = (float)draw(&random);
                e->rows[entries] = i;
                e->values[entries++] = e->dense[j * N + i];
            }
        }
        e->offsets[j + 1] = entries;
    }
    for (size_t i = 0; i < N; i++) {
        e->weights[i] = tide_random_uniform(&random);
        e->v[i] = draw(&random);
        e->y[i] = draw(&random) > 0 ? 1 : -1;
    }
}

#define SPARSE(e)                                                                                  \
    {"offsets", tensor((e)->offsets, J + 1, 1, TIDE_U64)},                                         \
        {"rows", tensor((e)->rows, (e)->offsets[J], 1, TIDE_U32)},                                 \
        {"values", tensor((e)->values, (e)->offsets[J], 1, TIDE_F32)}, {                           \
        "n", number(N)                                                                             \
    }
#define DENSE(e)                                                                                   \
    {"values", tensor((e)->dense, J, N, TIDE_F32)}, {                                              \
        "n", number(N)                                                                             \
    }

static void test_columns_agree_with_loops(void **state) {
    (void)state;
    struct examples e;
    uint32_t set[] = {3, 17, 0, 39, 8};
    double sparse[5], dense[5], gram[2][3 * 5], exact[3 * 5], r[2][N], d[5] = {1, -2, 0.5, 3, 0};
    fill(&e, 1);
    RUN("descent_dots", "count", SPARSE(&e), {"set", tensor(set, 5, 1, TIDE_U32)},
        {"v", F64(e.v, N)}, {"out", F64(sparse, 5)});
    RUN("descent_dots", "count", DENSE(&e), {"set", tensor(set, 5, 1, TIDE_U32)},
        {"v", F64(e.v, N)}, {"out", F64(dense, 5)});
    memcpy(r[0], e.v, sizeof e.v);
    memcpy(r[1], e.v, sizeof e.v);
    RUN("descent_apply", "count", SPARSE(&e), {"set", tensor(set, 5, 1, TIDE_U32)},
        {"v", F64(r[0], N)}, {"d", F64(d, 5)});
    RUN("descent_apply", "count", DENSE(&e), {"set", tensor(set, 5, 1, TIDE_U32)},
        {"v", F64(r[1], N)}, {"d", F64(d, 5)});
    RUN("descent_gram", "count", SPARSE(&e), {"set", tensor(set, 5, 1, TIDE_U32)},
        {"from", number(2)}, {"weights", F64(e.weights, N)},
        {"out", tensor(gram[0], 3, 5, TIDE_F64)});
    RUN("descent_gram", "count", DENSE(&e), {"set", tensor(set, 5, 1, TIDE_U32)},
        {"from", number(2)}, {"weights", F64(e.weights, N)},
        {"out", tensor(gram[1], 3, 5, TIDE_F64)});
    RUN("descent_gram", "count", DENSE(&e), {"set", tensor(set, 5, 1, TIDE_U32)},
        {"from", number(2)}, {"weights", F64(e.weights, N)}, {"exact", number(1)},
        {"out", tensor(exact, 3, 5, TIDE_F64)});
    for (size_t k = 0; k < 5; k++) {
        double sum = 0;
        for (size_t i = 0; i < N; i++) {
            sum += (double)e.dense[set[k] * N + i] * e.v[i];
        }
        assert_true(fabs(sum - sparse[k]) < 1e-12 && fabs(sum - dense[k]) < 1e-12);
        for (size_t a = 2; a < 5; a++) {
            double g = 0;
            for (size_t i = 0; i < N; i++) {
                g += (double)e.dense[set[a] * N + i] * e.weights[i] *
                     (double)e.dense[set[k] * N + i];
            }
            assert_true(fabs(g - gram[0][(a - 2) * 5 + k]) < 1e-12);
            assert_true(fabs(g - gram[1][(a - 2) * 5 + k]) < 1e-5);
            assert_true(fabs(g - exact[(a - 2) * 5 + k]) < 1e-12);
        }
    }
    for (size_t i = 0; i < N; i++) {
        double want = e.v[i];
        for (size_t k = 0; k < 5; k++) {
            want -= d[k] * (double)e.dense[set[k] * N + i];
        }
        assert_true(fabs(want - r[0][i]) < 1e-12 && fabs(want - r[1][i]) < 1e-12);
    }
}

/* Columns of 200,000 +- 1, less their mean: sums have the digits of the deviation, not of the mean. A
 * sparse column lacks an entry in a row of weight 0, where it is 0 - shift. */
static void test_shifted_columns_keep_their_digits(void **state) {
    (void)state;
    struct examples e;
    double shift[J] = {0}, out[2], squares[2], entries[1], ones[N], r[2][N], d[1] = {0.5}, gram[2][1];
    uint32_t set[] = {3}, at = 0;
    fill(&e, 6);
    shift[3] = 2e5;
    e.weights[7] = 0;
    for (size_t i = 0; i < N; i++) { /* the sparse one anew: column 3 has all rows but 7, the others none */
        e.dense[3 * N + i] = (float)(2e5 + e.v[i]);
        ones[i] = e.weights[i] > 0;
        if (i != 7) {
            e.rows[at] = (uint32_t)i;
            e.values[at++] = e.dense[3 * N + i];
        }
    }
    for (size_t j = 0; j <= J; j++) {
        e.offsets[j] = j > 3 ? at : 0;
    }
    double sum = 0, square = 0;
    for (size_t i = 0; i < N; i++) {
        double x = (double)e.dense[3 * N + i] - 2e5;
        sum += e.weights[i] * x;
        square += e.weights[i] * x * x;
    }
#define BOTH(kernel, ...)                                                                                              \
    RUN(kernel, "count", SPARSE(&e), {"set", tensor(set, 1, 1, TIDE_U32)}, {"shift", F64(shift, J)},                   \
        __VA_ARGS__(0));                                                                                               \
    RUN(kernel, "count", DENSE(&e), {"set", tensor(set, 1, 1, TIDE_U32)}, {"shift", F64(shift, J)}, __VA_ARGS__(1))
#define SUM(k) {"v", F64(e.weights, N)}, {"out", F64(out + k, 1)}
#define SQUARE(k) {"v", F64(e.weights, N)}, {"out", F64(squares + k, 1)}, {"power", number(2)}
#define GRAM(k) {"weights", F64(e.weights, N)}, {"out", F64(gram[k], 1)}
#define APPLY(k) {"v", F64(r[k], N)}, {"d", F64(d, 1)}
    BOTH("descent_dots", SUM);
    BOTH("descent_dots", SQUARE);
    BOTH("descent_gram", GRAM);
    memcpy(r[0], e.v, sizeof e.v);
    memcpy(r[1], e.v, sizeof e.v);
    BOTH("descent_apply", APPLY);
    for (size_t k = 0; k < 2; k++) {
        assert_true(fabs(out[k] - sum) < 1e-12 && fabs(squares[k] - square) < 1e-12);
        assert_true(fabs(gram[k][0] - square) < (k ? 1e-5 : 1e-12));
        for (size_t i = 0; i < N; i++) {
            double x = k == 0 && i == 7 ? 0 : (double)e.dense[3 * N + i];
            assert_true(fabs(r[k][i] - (e.v[i] - d[0] * (x - 2e5))) < 1e-10);
        }
    }
    RUN("descent_dots", "count", SPARSE(&e), {"set", tensor(set, 1, 1, TIDE_U32)}, {"v", F64(ones, N)},
        {"out", F64(entries, 1)}, {"power", number(0)});
    assert_true(entries[0] == N - 1);
    assert_true(RUN("descent_dots", "count", SPARSE(&e), {"v", F64(e.v, N)}, {"out", F64(out, J)},
                    {"shift", F64(shift, 3)}) == TIDE_EINVAL);
}

static void test_columns_refuse_what_lies_outside(void **state) {
    (void)state;
    struct examples e;
    double out[J];
    uint32_t set[] = {J};
    fill(&e, 2);
    assert_true(RUN("descent_dots", "count", SPARSE(&e), {"set", tensor(set, 1, 1, TIDE_U32)},
                    {"v", F64(e.v, N)}, {"out", F64(out, 1)}) == TIDE_EINVAL);
    assert_true(RUN("descent_dots", "count", SPARSE(&e), {"v", F64(e.v, N)},
                    {"out", F64(out, 3)}) == TIDE_EINVAL);
    e.rows[5] = N;
    assert_true(RUN("descent_dots", "count", SPARSE(&e), {"v", F64(e.v, N)},
                    {"out", F64(out, J)}) == TIDE_EINVAL);
    e.offsets[4] = 1 << 30;
    assert_true(RUN("descent_dots", "count", SPARSE(&e), {"v", F64(e.v, N)},
                    {"out", F64(out, J)}) == TIDE_EINVAL);
}

/* ---- the quadratic problem ---- */

/* Optimality of x, by a loop of its own. */
static double violation(const double *gram, const double *z, const double *x0, const double *x,
                        const double *penalty, const double *ridge, size_t m, bool positive) {
    double most = 0;
    for (size_t j = 0; j < m; j++) {
        double g = z[j] - ridge[j] * x[j], off;
        for (size_t k = 0; k < m; k++) {
            g -= gram[j * m + k] * (x[k] - x0[k]);
        }
        if (x[j] != 0) {
            off = fabs(g - (x[j] > 0 ? penalty[j] : -penalty[j]));
            assert_true(!positive || x[j] > 0);
        } else {
            off = (positive ? g : fabs(g)) - penalty[j];
        }
        most = off > most ? off : most;
    }
    return most;
}

static void test_solutions_are_optimal(void **state) {
    (void)state;
    enum { M = 30, ROWS = 25 }; /* fewer rows: G is singular */
    struct tide_random random;
    tide_random_seed(&random, 3);
    for (int round = 0; round < 300; round++) {
        double columns[M][ROWS], gram[M * M], z[M], x[M], x0[M], penalty[M], ridge[M];
        bool positive = round % 3 == 2;
        double common = round % 2 ? 3 : 0; /* correlated columns */
        double shared[ROWS];
        for (size_t i = 0; i < ROWS; i++) {
            shared[i] = draw(&random);
        }
        for (size_t j = 0; j < M; j++) {
            for (size_t i = 0; i < ROWS; i++) {
                columns[j][i] = draw(&random) + common * shared[i];
            }
        }
        for (size_t j = 0; j < M; j++) {
            for (size_t k = 0; k < M; k++) {
                gram[j * M + k] = 0;
                for (size_t i = 0; i < ROWS; i++) {
                    gram[j * M + k] += columns[j][i] * columns[k][i];
                }
            }
            z[j] = 10 * draw(&random);
            x0[j] = x[j] = round % 5 ? 0 : fabs(draw(&random));
            penalty[j] = 0.1 + tide_random_uniform(&random);
            ridge[j] = round % 4 ? 0.1 : 0.5;
        }
        double left = RUN("descent_solve", "left", {"gram", tensor(gram, M, M, TIDE_F64)},
                          {"z", F64(z, M)}, {"x", F64(x, M)}, {"penalty", F64(penalty, M)},
                          {"ridge", F64(ridge, M)}, {"positive", number(positive)},
                          {"tolerance", number(1e-9)}, {"objective", number(1)});
        assert_true(left <= 1e-9);
        assert_true(violation(gram, z, x0, x, penalty, ridge, M, positive) < 1e-7);
    }
}

/* ---- draws and the check ---- */

static void test_draws_have_their_distribution(void **state) {
    (void)state;
    enum { COUNT = 20, DRAWS = 20000 };
    double weights[COUNT], tree[COUNT + 1], expected[COUNT], sum = 0, chi = 0, all = 0;
    uint32_t out[3];
    size_t seen[COUNT] = {0};
    for (size_t j = 0; j < COUNT; j++) {
        weights[j] = j % 5 == 0 ? 0 : (double)j;
        sum += weights[j];
    }
    for (size_t j = 0; j < COUNT; j++) {
        expected[j] = weights[j] + 0.1 * sum / (COUNT - 4); /* four weigh nothing */
        all += expected[j];
    }
    RUN("descent_weigh", "count", {"weights", F64(weights, COUNT)}, {"tree", F64(tree, COUNT + 1)});
    for (int d = 0; d < DRAWS; d++) {
        double drawn =
            RUN("descent_sample", "drawn", {"weights", F64(weights, COUNT)},
                {"tree", F64(tree, COUNT + 1)}, {"seed", number(d)}, {"count", number(3)},
                {"floor", number(0.1)}, {"out", tensor(out, 3, 1, TIDE_U32)});
        assert_true(drawn == 3 && out[0] != out[1] && out[1] != out[2] && out[0] != out[2]);
        seen[out[0]]++;
    }
    for (size_t j = 0; j < COUNT; j++) {
        double want = DRAWS * expected[j] / all;
        chi += ((double)seen[j] - want) * ((double)seen[j] - want) / want;
    }
    assert_true(chi < 50); /* 19 degrees of freedom: 1 in 10,000 */
}

static void test_draws_take_logarithmic_steps(void **state) {
    (void)state;
    enum { COUNT = 1 << 20 };
    double *weights = calloc(COUNT, sizeof *weights), *tree = calloc(COUNT + 1, sizeof *tree);
    uint32_t out[64];
    for (size_t j = 0; j < COUNT; j++) {
        weights[j] = 1 + (double)(j % 7);
    }
    RUN("descent_weigh", "count", {"weights", F64(weights, COUNT)}, {"tree", F64(tree, COUNT + 1)});
    double steps = RUN("descent_sample", "steps", {"weights", F64(weights, COUNT)},
                       {"tree", F64(tree, COUNT + 1)}, {"seed", number(5)}, {"count", number(64)},
                       {"out", tensor(out, 64, 1, TIDE_U32)});
    assert_true(steps <= 64 * 22);
    free(weights);
    free(tree);
}

static void test_the_check_minds_what_is_in_flight(void **state) {
    (void)state;
    /* 0 is in flight; 1 is a duplicate of it, 2 is free, 3 and 4 are half of one another. */
    double pairs[25] = {0};
    uint8_t taken[4];
    pairs[0 * 5 + 1] = pairs[1 * 5 + 0] = 1;
    pairs[3 * 5 + 4] = pairs[4 * 5 + 3] = 0.5;
    double count = RUN("descent_check", "taken", {"pairs", tensor(pairs, 5, 5, TIDE_F64)},
                       {"flight", number(1)}, {"mode", word("rowsum")}, {"bound", number(0.9)},
                       {"most", number(8)}, {"taken", tensor(taken, 4, 1, TIDE_U8)});
    assert_true(count == 3 && taken[0] == 2 && taken[1] == 1 && taken[2] == 1 && taken[3] == 1);
    count = RUN("descent_check", "taken", {"pairs", tensor(pairs, 5, 5, TIDE_F64)},
                {"flight", number(1)}, {"mode", word("pair")}, {"bound", number(0.1)},
                {"most", number(8)}, {"taken", tensor(taken, 4, 1, TIDE_U8)});
    assert_true(count == 2 && taken[3] == 2);
}

/* With sums of rows below 1 a round of exact steps never raises the objective (docs/guides/descent.md). */
static void test_rounds_that_pass_the_check_never_rise(void **state) {
    (void)state;
    enum { M = 24, ROWS = 40, ROUNDS = 20000 };
    static double x[M], columns[M][ROWS], r[ROWS], gram[M * M], g[M * M];
    struct tide_random random;
    tide_random_seed(&random, 11);
    double shared[ROWS];
    for (size_t i = 0; i < ROWS; i++) {
        shared[i] = draw(&random);
        r[i] = 5 * draw(&random);
    }
    for (size_t j = 0; j < M; j++) {
        double norm = 0;
        for (size_t i = 0; i < ROWS; i++) {
            columns[j][i] = 0.2 * draw(&random) + (j % 2 ? shared[i] : draw(&random));
            norm += columns[j][i] * columns[j][i];
        }
        for (size_t i = 0; i < ROWS; i++) {
            columns[j][i] /= sqrt(norm);
        }
    }
    for (size_t j = 0; j < M; j++) {
        for (size_t k = 0; k < M; k++) {
            gram[j * M + k] = 0;
            for (size_t i = 0; i < ROWS; i++) {
                gram[j * M + k] += columns[j][i] * columns[k][i];
            }
        }
    }
    double before = INFINITY;
    for (int round = 0; round < ROUNDS; round++) {
        uint32_t order[M];
        uint8_t taken[M];
        for (uint32_t j = 0; j < M; j++) {
            order[j] = j;
        }
        for (size_t j = M; j > 1; j--) {
            size_t k = (size_t)tide_random_below(&random, j);
            uint32_t kept = order[k];
            order[k] = order[j - 1];
            order[j - 1] = kept;
        }
        for (size_t a = 0; a < M; a++) {
            for (size_t b = 0; b < M; b++) {
                g[a * M + b] = a == b ? 0 : fabs(gram[order[a] * M + order[b]]);
            }
        }
        RUN("descent_check", "taken", {"pairs", tensor(g, M, M, TIDE_F64)}, {"flight", number(0)},
            {"mode", word("rowsum")}, {"bound", number(0.9)}, {"most", number(8)},
            {"taken", tensor(taken, M, 1, TIDE_U8)});
        double change[M] = {0};
        for (size_t a = 0; a < M; a++) {
            double z = 0;
            size_t j = order[a];
            for (size_t i = 0; i < ROWS; i++) {
                z += columns[j][i] * r[i];
            }
            double u = z + x[j], to = u > 0.3 ? u - 0.3 : u < -0.3 ? u + 0.3 : 0;
            change[j] = taken[a] == 1 ? to - x[j] : 0;
        }
        if (round % 500 == 0) { /* away from the optimum again */
            before = INFINITY;
            for (size_t j = 0; j < M; j++) {
                change[j] = draw(&random);
            }
        }
        double objective = 0;
        for (size_t j = 0; j < M; j++) {
            x[j] += change[j];
            objective += 0.3 * fabs(x[j]);
            for (size_t i = 0; i < ROWS; i++) {
                r[i] -= columns[j][i] * change[j];
            }
        }
        for (size_t i = 0; i < ROWS; i++) {
            objective += r[i] * r[i] / 2;
        }
        assert_true(objective <= before + 1e-12 * fabs(objective));
        before = objective;
    }
}

/* ---- steps of multi-task learning ---- */

static double conjugate(int loss, double a, double y, double smooth) { /* -l*(-a) */
    double p = y * a;
    switch (loss) {
    case 0:
        return y * a - a * a / 2;
    case 1:
        return p;
    case 2:
        return p - smooth * p * p / 2;
    default:
        return -(p > 0 ? p * log(p) : 0) - (p < 1 ? (1 - p) * log(1 - p) : 0);
    }
}

/* What a step maximises, as a function of the new a. */
static double local_dual(int loss, double a, double old, double y, double z, double c,
                         double smooth) {
    double d = a - old;
    return conjugate(loss, a, y, smooth) - z * d - c * d * d / 2;
}

static void test_dual_steps_are_the_best(void **state) {
    (void)state;
    static const char *const names[] = {"squared", "hinge", "smoothed", "logistic"};
    struct tide_random random;
    tide_random_seed(&random, 7);
    for (int round = 0; round < 2000; round++) {
        int loss = round % 4;
        float x[3] = {(float)draw(&random), (float)draw(&random), (float)(3 * draw(&random))};
        double y = loss == 0 ? draw(&random) : draw(&random) > 0 ? 1 : -1;
        double p = tide_random_uniform(&random) * 0.98 + 0.01, w[3], r[3] = {0}, smooth = 0.5;
        double a = loss == 0 ? draw(&random) : y * p, old = a, z = 0, norm = 0;
        double weight = pow(10, 3 * draw(&random)), n = 4;
        uint32_t order = 0;
        for (int k = 0; k < 3; k++) {
            w[k] = 3 * draw(&random);
            z += w[k] * (double)x[k];
            norm += (double)x[k] * (double)x[k];
        }
        RUN("mtl_sdca", "count", {"values", tensor(x, 1, 3, TIDE_F32)}, {"d", number(3)},
            {"y", F64(&y, 1)}, {"a", F64(&a, 1)}, {"w", F64(w, 3)}, {"loss", word(names[loss])},
            {"smooth", number(smooth)}, {"rows", number(1)}, {"r", F64(r, 3)},
            {"weight", number(weight)}, {"samples", number(n)},
            {"order", tensor(&order, 1, 1, TIDE_U32)});
        double c = weight * norm / n, best = local_dual(loss, a, old, y, z, c, smooth);
        double low = loss == 0 ? old - 20 : y > 0 ? 0 : -1, high = loss == 0 ? old + 20 : low + 1;
        for (int i = 0; i < 200; i++) { /* golden section */
            double u = low + 0.381966011250105 * (high - low);
            double v = low + 0.618033988749895 * (high - low);
            if (local_dual(loss, u, old, y, z, c, smooth) <
                local_dual(loss, v, old, y, z, c, smooth)) {
                low = u;
            } else {
                high = v;
            }
        }
        double want = local_dual(loss, (low + high) / 2, old, y, z, c, smooth);
        assert_true(best >= want - 1e-8 * (1 + fabs(want)));
        for (int k = 0; k < 3; k++) {
            assert_true(fabs(r[k] - (a - old) * (double)x[k] / n) < 1e-12 * (1 + fabs(r[k])));
        }
    }
}

static void test_primal_is_above_dual(void **state) {
    (void)state;
    static const char *const names[] = {"squared", "hinge", "smoothed", "logistic"};
    struct tide_random random;
    tide_random_seed(&random, 9);
    for (int round = 0; round < 400; round++) { /* one task, S = 1: W = b / lam */
        enum { ROWS = 6, D = 4 };
        float x[ROWS * D];
        double y[ROWS], a[ROWS], b[D] = {0}, w[D], lam = pow(10, draw(&random)), square = 0;
        for (size_t i = 0; i < ROWS * D; i++) {
            x[i] = (float)draw(&random);
        }
        for (size_t i = 0; i < ROWS; i++) {
            y[i] = round % 4 == 0 ? draw(&random) : draw(&random) > 0 ? 1 : -1;
            a[i] = round % 4 == 0 ? draw(&random) : y[i] * tide_random_uniform(&random);
            for (size_t k = 0; k < D; k++) {
                b[k] += a[i] * (double)x[i * D + k] / ROWS;
            }
        }
        for (size_t k = 0; k < D; k++) {
            w[k] = b[k] / lam;
            square += b[k] * w[k];
        }
#define SCORE(what)                                                                                \
    RUN("mtl_score", what, {"values", tensor(x, ROWS, D, TIDE_F32)}, {"d", number(D)},             \
        {"y", F64(y, ROWS)}, {"a", F64(a, ROWS)}, {"w", F64(w, D)},                                \
        {"loss", word(names[round % 4])}, {"rows", number(ROWS)})
        assert_true(SCORE("loss") / ROWS + square / 2 >= SCORE("dual") / ROWS - square / 2 - 1e-12);
    }
}

/* ---- the rest ---- */

static void test_ccd_updates_are_minimisers(void **state) {
    (void)state;
    uint32_t cells[] = {0, 0, 0, 1, 1, 0, 2, 1};
    double residual[] = {1, -2, 3, 0.5}, w[] = {0.5, -1, 2}, h[] = {1, 2}, num[2], den[2], to[2];
    RUN("ccd_sums", "count", {"cells", tensor(cells, 4, 2, TIDE_U32)},
        {"residual", F64(residual, 4)}, {"w", F64(w, 3)}, {"h", F64(h, 2)},
        {"side", word("columns")}, {"num", F64(num, 2)}, {"den", F64(den, 2)});
    RUN("ccd_rank", "count", {"num", F64(num, 2)}, {"den", F64(den, 2)}, {"l2", number(0.3)},
        {"to", F64(to, 2)});
    for (int j = 0; j < 2; j++) { /* the slope of sum (residual - w h)^2 + l2 h^2 is 0 */
        double slope = 0.3 * to[j];
        for (int k = 0; k < 4; k++) {
            slope -= cells[2 * k + 1] == (uint32_t)j
                         ? (residual[k] - w[cells[2 * k]] * to[j]) * w[cells[2 * k]]
                         : 0;
        }
        assert_true(fabs(slope) < 1e-12);
    }
    double left = RUN("ccd_sums", "squares", {"cells", tensor(cells, 4, 2, TIDE_U32)},
                      {"residual", F64(residual, 4)}, {"w", F64(w, 3)}, {"h", F64(h, 2)},
                      {"side", word("take")});
    double want = 0.5 * 0.5 + 3 * 3 + 4 * 4 + 3.5 * 3.5;
    assert_true(fabs(left - want) < 1e-12);
    cells[7] = 2;
    assert_true(RUN("ccd_sums", "squares", {"cells", tensor(cells, 4, 2, TIDE_U32)},
                    {"residual", F64(residual, 4)}, {"w", F64(w, 3)}, {"h", F64(h, 2)},
                    {"side", word("take")}) == TIDE_EINVAL);
}

static void test_eigenvalues(void **state) {
    (void)state;
    enum { M = 12 };
    struct tide_random random;
    double a[M * M], values[M], vectors[M * M];
    tide_random_seed(&random, 13);
    for (size_t i = 0; i < M; i++) {
        for (size_t j = 0; j <= i; j++) {
            a[i * M + j] = a[j * M + i] = draw(&random);
        }
    }
    assert_int_equal(tide_eigen_symmetric(a, M, values, vectors), 0);
    for (size_t v = 0; v < M; v++) {
        assert_true(v == 0 || values[v] >= values[v - 1]);
        for (size_t i = 0; i < M; i++) {
            double sum = 0;
            for (size_t j = 0; j < M; j++) {
                sum += a[i * M + j] * vectors[v * M + j];
            }
            assert_true(fabs(sum - values[v] * vectors[v * M + i]) < 1e-12);
        }
    }
    a[3] = NAN;
    assert_int_equal(tide_eigen_symmetric(a, M, values, NULL), TIDE_EINVAL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_columns_agree_with_loops),
        cmocka_unit_test(test_shifted_columns_keep_their_digits),
        cmocka_unit_test(test_columns_refuse_what_lies_outside),
        cmocka_unit_test(test_solutions_are_optimal),
        cmocka_unit_test(test_draws_have_their_distribution),
        cmocka_unit_test(test_draws_take_logarithmic_steps),
        cmocka_unit_test(test_the_check_minds_what_is_in_flight),
        cmocka_unit_test(test_rounds_that_pass_the_check_never_rise),
        cmocka_unit_test(test_dual_steps_are_the_best),
        cmocka_unit_test(test_primal_is_above_dual),
        cmocka_unit_test(test_ccd_updates_are_minimisers),
        cmocka_unit_test(test_eigenvalues),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
