/*
 * Scheduled sets: which variables a round takes, drawn by weight and kept while the changes that
 * are made at the same time, or are in flight, cannot disturb one another.
 */
#include "descent.h"
#include "mutant.h"

#include <math.h>
#include <string.h>

static size_t elements(const struct tide_tensor *t) {
    return t->rows * t->columns;
}

/* ---- a Fenwick tree: tree[i], i = 1 .. count, is the sum of the i & -i weights up to i; tree[0]
 * is how many are above 0 ---- */

void descent_tree_build(const double *weights, size_t count, double *tree) {
    memset(tree, 0, (count + 1) * sizeof *tree);
    for (size_t i = 1; i <= count; i++) {
        size_t above = i + (i & (~i + 1));
        tree[0] += weights[i - 1] > 0;
        tree[i] += weights[i - 1];
        if (above <= count) {
            tree[above] += tree[i];
        }
    }
}

void descent_tree_add(double *tree, size_t count, size_t at, double by) {
    for (size_t i = at + 1; i <= count; i += i & (~i + 1)) {
        tree[i] += by;
    }
}

size_t descent_tree_find(const double *tree, size_t count, double sum, size_t *steps) {
    size_t at = 0, bit = 1;
    while (bit <= count / 2) {
        bit <<= 1;
    }
    for (; bit > 0 && count > 0; bit >>= 1, ++*steps) {
        if (at + bit <= count && tree[at + bit] <= sum) {
            at += bit;
            sum -= tree[at];
        }
    }
    return at < count ? at : count - 1;
}

static double tree_total(const double *tree, size_t count) {
    double sum = 0;
    for (size_t i = count; i > 0; i -= i & (~i + 1)) {
        sum += tree[i];
    }
    return sum;
}

/* ---- weights ---- */

enum { WEIGH_WEIGHTS, WEIGH_TREE, WEIGH_SET, WEIGH_VALUES, WEIGH_COUNT };

static const struct tide_parameter weigh_parameters[WEIGH_COUNT] = {
    [WEIGH_WEIGHTS] = {"weights", TIDE_TENSOR, TIDE_F64, true, 0, "J numbers >= 0"},
    [WEIGH_TREE] = {"tree", TIDE_TENSOR, TIDE_F64, true, 0, "J + 1, the kernel's"},
    [WEIGH_SET] = {"set", TIDE_TENSOR, TIDE_U32, false, 0, "whose weights change; default: all are new"},
    [WEIGH_VALUES] = {"values", TIDE_TENSOR, TIDE_F64, false, 0, "their new weights"},
};

static int weigh_run(const struct tide_argument *a, struct tide_result *results, char *error) {
    const struct tide_kernel *kernel = &tide_kernel_descent_weigh;
    double *weights = a[WEIGH_WEIGHTS].tensor.data, *tree, *values;
    size_t count = elements(&a[WEIGH_WEIGHTS].tensor), changed = elements(&a[WEIGH_SET].tensor);
    int code = tide_kernel_vector(kernel, a, WEIGH_TREE, count + 1, &tree, error);
    code = code || !a[WEIGH_SET].given ? code : tide_kernel_vector(kernel, a, WEIGH_VALUES, changed, &values, error);
    if (code == 0 && a[WEIGH_SET].given && !a[WEIGH_VALUES].given) {
        code = tide_kernel_fail(error, TIDE_EINVAL, "set and values come together");
    }
    if (code == 0 && !a[WEIGH_SET].given) {
        for (size_t j = 0; j < count && code == 0; j++) {
            if (!(weights[j] >= 0 && isfinite(weights[j]))) {
                code = tide_kernel_fail(error, TIDE_EINVAL, "weight %zu is %g", j + 1, weights[j]);
            }
        }
        if (code == 0) {
            descent_tree_build(weights, count, tree);
        }
    }
    const uint32_t *set = a[WEIGH_SET].tensor.data;
    for (size_t k = 0; k < changed && code == 0; k++) {
        if (set[k] >= count || !(values[k] >= 0 && isfinite(values[k]))) {
            code = tide_kernel_fail(error, TIDE_EINVAL, "weight %u of %zu: %g", set[k], count, values[k]);
        } else {
            descent_tree_add(tree, count, set[k], values[k] - weights[set[k]]);
            tree[0] += (values[k] > 0) - (weights[set[k]] > 0);
            weights[set[k]] = values[k];
        }
    }
    results[0] = (struct tide_result){"count", (double)(changed ? changed : count)};
    return code < 0 ? code : 1;
}

const struct tide_kernel tide_kernel_descent_weigh = {
    "descent_weigh", "Weights by which variables are drawn, and the tree of their sums.", weigh_parameters, WEIGH_COUNT,
    weigh_run};

/* ---- draws ---- */

enum { SAMPLE_WEIGHTS, SAMPLE_TREE, SAMPLE_SEED, SAMPLE_COUNT_, SAMPLE_FLOOR, SAMPLE_OUT, SAMPLE_COUNT };

static const struct tide_parameter sample_parameters[SAMPLE_COUNT] = {
    [SAMPLE_WEIGHTS] = {"weights", TIDE_TENSOR, TIDE_F64, true, 0, "as descent_weigh has them"},
    [SAMPLE_TREE] = {"tree", TIDE_TENSOR, TIDE_F64, true, 0, "as descent_weigh has it"},
    [SAMPLE_SEED] = {"seed", TIDE_NUMBER, 0, true, 0, "of this draw"},
    [SAMPLE_COUNT_] = {"count", TIDE_NUMBER, 0, true, 0, "how many"},
    [SAMPLE_FLOOR] = {"floor", TIDE_NUMBER, 0, false, 0, "each has at least so much of the mean of those above 0"},
    [SAMPLE_OUT] = {"out", TIDE_TENSOR, TIDE_U32, true, 0, "variables, none twice"},
};

static int sample_run(const struct tide_argument *a, struct tide_result *results, char *error) {
    const struct tide_kernel *kernel = &tide_kernel_descent_sample;
    const double *weights = a[SAMPLE_WEIGHTS].tensor.data;
    size_t count = elements(&a[SAMPLE_WEIGHTS].tensor), steps = 0, drawn = 0;
    uint32_t *out = a[SAMPLE_OUT].tensor.data;
    uint64_t wanted = 0;
    double *tree, floor_share = a[SAMPLE_FLOOR].number;
    int code = tide_kernel_vector(kernel, a, SAMPLE_TREE, count + 1, &tree, error);
    code =
        code ? code : tide_kernel_whole(kernel, a, SAMPLE_COUNT_, 0, elements(&a[SAMPLE_OUT].tensor), &wanted, error);
    if (code < 0) {
        return code;
    }
    wanted = wanted < count ? wanted : count;
    struct tide_random random;
    tide_random_seed(&random, (uint64_t)a[SAMPLE_SEED].number);
    const double base = tree[0] > 0 ? floor_share * tree_total(tree, count) / tree[0] : 0;
    for (; drawn < wanted; drawn++) {
        double own = tree_total(tree, count), even = base * (double)(count - drawn);
        own = own > 1e-12 * base * (double)count ? own : 0; /* what is drawn leaves rounding behind */
        double u = tide_random_uniform(&random) * (own + even);
        size_t at;
        if (!(own + even > 0)) {
            break;
        }
        bool again = true;
        for (size_t tries = 0; again && tries < 64 * (size_t)wanted + 64; tries++) {
            at = u < own ? descent_tree_find(tree, count, u, &steps) : (size_t)tide_random_below(&random, count);
            again = false;
            for (size_t k = 0; k < drawn && !again; k++) {
                again = out[k] == at;
            }
            if (again && u < own) { /* rounding at the edge of one that is drawn */
                u = tide_random_uniform(&random) * own;
            }
        }
        if (again) {
            break;
        }
        out[drawn] = (uint32_t)at;
        descent_tree_add(tree, count, at, -weights[at]);
    }
    for (size_t k = 0; k < drawn; k++) {
        descent_tree_add(tree, count, out[k], weights[out[k]]);
    }
    results[0] = (struct tide_result){"drawn", (double)drawn};
    results[1] = (struct tide_result){"steps", (double)steps};
    results[2] = (struct tide_result){"count", (double)drawn};
    return 3;
}

const struct tide_kernel tide_kernel_descent_sample = {
    "descent_sample", "Draws variables without replacement, each by its weight and a floor; O(log J) a draw.",
    sample_parameters, SAMPLE_COUNT, sample_run};

/* ---- the check ---- */

enum { CHECK_PAIRS, CHECK_FLIGHT, CHECK_MODE, CHECK_BOUND, CHECK_MOST, CHECK_TAKEN, CHECK_COUNT };

static const struct tide_parameter check_parameters[CHECK_COUNT] = {
    [CHECK_PAIRS] = {"pairs", TIDE_TENSOR, TIDE_F64, true, 0,
                     "m x m |G| of unit columns: those in flight first, then the candidates"},
    [CHECK_FLIGHT] = {"flight", TIDE_NUMBER, 0, true, 0, "how many are in flight"},
    [CHECK_MODE] = {"mode", TIDE_TEXT, 0, true, 0, "rowsum, pair or none"},
    [CHECK_BOUND] = {"bound", TIDE_NUMBER, 0, true, 0, "theta of rowsum, tau of pair"},
    [CHECK_MOST] = {"most", TIDE_NUMBER, 0, true, 0, "how many are taken at most"},
    [CHECK_TAKEN] = {"taken", TIDE_TENSOR, TIDE_U8, true, 0,
                     "written, one a candidate: 1 taken, 0 not looked at, 2 refused"},
};

static bool fits(const double *pairs, size_t m, const uint32_t *with, size_t count, double *sums, size_t j, bool rowsum,
                 double bound) {
    double own = 0;
    for (size_t k = 0; k < count; k++) {
        double g = pairs[j * m + with[k]];
        own += g;
        if (rowsum ? own > bound || sums[with[k]] + g > bound : !(g < bound)) {
            return false;
        }
    }
    for (size_t k = 0; k < count && rowsum; k++) {
        sums[with[k]] += pairs[j * m + with[k]];
    }
    sums[j] = own;
    return true;
}

static int check_run(const struct tide_argument *a, struct tide_result *results, char *error) {
    static const char *const modes[] = {"rowsum", "pair", "none"};
    const struct tide_kernel *kernel = &tide_kernel_descent_check;
    const struct tide_tensor *pairs = &a[CHECK_PAIRS].tensor;
    size_t m = pairs->rows, mode, taken = 0, refused = 0;
    uint64_t flight, most;
    uint8_t *out = a[CHECK_TAKEN].tensor.data;
    const double *g = pairs->data;
    int code = tide_kernel_whole(kernel, a, CHECK_FLIGHT, 0, m, &flight, error);
    code = code ? code : tide_kernel_whole(kernel, a, CHECK_MOST, 0, 1u << 30, &most, error);
    code = code ? code : tide_kernel_choice(kernel, a, CHECK_MODE, modes, 3, &mode, error);
    if (code == 0 && (pairs->columns != m || elements(&a[CHECK_TAKEN].tensor) != m - flight)) {
        code = tide_kernel_fail(error, TIDE_EINVAL, "pairs is m x m, taken one a candidate");
    }
    if (code < 0) {
        return code;
    }
    double *sums = tide_alloc((m + 1) * sizeof *sums);
    uint32_t *with = tide_alloc((m + 1) * sizeof *with);
    if (!sums || !with) {
        tide_free(sums);
        tide_free(with);
        return tide_kernel_fail(error, TIDE_ENOMEM, "out of memory");
    }
    if (TIDE_MUTANT(descent_flight_ignored)) {
        memset(a[CHECK_PAIRS].tensor.data, 0, m * flight * sizeof(double));
        for (size_t j = 0; j < m; j++) {
            memset((double *)a[CHECK_PAIRS].tensor.data + j * m, 0, flight * sizeof(double));
        }
    }
    for (size_t k = 0; k < flight; k++) {
        with[k] = (uint32_t)k;
        sums[k] = 0;
        for (size_t b = 0; b < flight; b++) {
            sums[k] += b != k ? g[k * m + b] : 0;
        }
    }
    memset(out, 0, m - flight);
    for (size_t j = (size_t)flight; j < m && taken < most; j++) {
        bool ok = mode == 2 || fits(g, m, with, flight + taken, sums, j, mode == 0, a[CHECK_BOUND].number);
        out[j - flight] = ok ? 1 : 2;
        refused += !ok;
        if (ok) {
            with[flight + taken++] = (uint32_t)j;
        }
    }
    tide_free(sums);
    tide_free(with);
    results[0] = (struct tide_result){"taken", (double)taken};
    results[1] = (struct tide_result){"refused", (double)refused};
    results[2] = (struct tide_result){"count", (double)(m - flight)};
    return 3;
}

const struct tide_kernel tide_kernel_descent_check = {
    "descent_check", "Which of the candidates can change together, and with those whose changes are in flight.",
    check_parameters, CHECK_COUNT, check_run};
