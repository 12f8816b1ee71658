/*
 * What all workers compute alike from a Gram matrix: L1-penalised least squares of few variables.
 *
 * Cyclic descent with the gradient kept (covariance updates: Friedman, Hastie and Tibshirani,
 * "Regularization Paths for Generalized Linear Models via Coordinate Descent", J. Stat. Software
 * 33, 2010, section 2.2) is quick at first and slow where columns are correlated. So when signs
 * have settled the equations of the support are solved as they are; where a sign would change, the
 * step goes up to there, and that variable leaves the support.
 */
#include "descent.h"

#include <math.h>
#include <string.h>

enum { PASSES_BEFORE_NEWTON = 8, NEWTON_MOST = 3000 };

static double shrink(double v, double by) {
    return v > by ? v - by : v < -by ? v + by : 0;
}

struct solving {
    const struct descent_quadratic *q;
    double *x, *g;   /* g: minus the gradient of the smooth part, ridge left out */
    uint32_t *where; /* the support, while a Newton step is made */
    double *a, *b;
};

static double curvature(const struct descent_quadratic *q, size_t j) {
    return q->gram[j * q->m + j] + q->ridge[j];
}

static void move(struct solving *s, size_t j, double d) {
    const double *row = s->q->gram + j * s->q->m;
    for (size_t k = 0; k < s->q->m; k++) {
        s->g[k] -= row[k] * d;
    }
    s->x[j] += d;
}

/* One exact step on variable j. */
static double step(struct solving *s, size_t j) {
    const struct descent_quadratic *q = s->q;
    double h = curvature(q, j);
    if (!(h > 0)) {
        return 0;
    }
    double wish = shrink(s->g[j] + q->gram[j * q->m + j] * s->x[j], q->penalty[j]) / h;
    wish = q->positive && wish < 0 ? 0 : wish;
    double d = wish - s->x[j];
    if (d != 0) {
        move(s, j, d);
    }
    return h * d * d;
}

/* How far x is from optimal: the largest distance of the gradient from what optimality allows, as a
 * share of the penalty (a duality gap is of its order), and what variables without a penalty have
 * to gain, as a share of the objective. */
static double left_to_gain(const struct solving *s) {
    const struct descent_quadratic *q = s->q;
    double most = 0, gain = 0;
    for (size_t j = 0; j < q->m; j++) {
        double g = s->g[j] - q->ridge[j] * s->x[j], off, h = curvature(q, j);
        if (s->x[j] != 0) {
            off = g - (s->x[j] > 0 ? q->penalty[j] : -q->penalty[j]);
        } else {
            off = shrink(g, q->penalty[j]);
            off = q->positive && off < 0 ? 0 : off;
        }
        if (q->penalty[j] > 0) {
            off = fabs(off) / q->penalty[j];
            most = off > most && h > 0 ? off : most;
        } else {
            gain += h > 0 ? off * off / (2 * h) : 0;
        }
    }
    gain /= q->objective;
    return gain > most ? gain : most;
}

/* Cholesky of the n x n matrix a (lower half), in place, and the solution of a x = b into b. */
static bool solve_positive(double *a, size_t n, double *b) {
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j <= i; j++) {
            double sum[4] = {0};
            const double *u = a + i * n, *v = a + j * n;
            size_t k = 0;
            for (; k + 4 <= j; k += 4) {
                for (size_t c = 0; c < 4; c++) {
                    sum[c] += u[k + c] * v[k + c];
                }
            }
            for (; k < j; k++) {
                sum[0] += u[k] * v[k];
            }
            double value = a[i * n + j] - ((sum[0] + sum[1]) + (sum[2] + sum[3]));
            if (i != j) {
                a[i * n + j] = value / a[j * n + j];
            } else if (!(value > 1e-13 * a[i * n + i])) {
                return false;
            } else {
                a[i * n + i] = sqrt(value);
            }
        }
    }
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < i; k++) {
            b[i] -= a[i * n + k] * b[k];
        }
        b[i] /= a[i * n + i];
    }
    for (size_t i = n; i-- > 0;) {
        b[i] /= a[i * n + i];
        for (size_t k = 0; k < i; k++) {
            b[k] -= a[i * n + k] * b[i];
        }
    }
    return true;
}

/* The step to the minimiser with the signs as they are, or as far as all keep theirs. False: no
 * step. */
static bool newton(struct solving *s) {
    const struct descent_quadratic *q = s->q;
    size_t n = 0;
    for (size_t j = 0; j < q->m; j++) {
        if (s->x[j] != 0) {
            s->where[n++] = (uint32_t)j;
        }
    }
    if (n == 0 || n > NEWTON_MOST) {
        return false;
    }
    for (size_t a = 0; a < n; a++) {
        size_t j = s->where[a];
        for (size_t b = 0; b <= a; b++) {
            s->a[a * n + b] = q->gram[j * q->m + s->where[b]];
        }
        s->a[a * n + a] += q->ridge[j];
        s->b[a] = s->g[j] - q->ridge[j] * s->x[j] - (s->x[j] > 0 ? q->penalty[j] : s->x[j] < 0 ? -q->penalty[j] : 0);
    }
    if (!solve_positive(s->a, n, s->b)) {
        return false;
    }
    double far = 1;
    size_t first = n;
    for (size_t a = 0; a < n; a++) {
        double x = s->x[s->where[a]], to = x + s->b[a];
        bool crosses = (q->penalty[s->where[a]] > 0 || q->positive) && x * to < 0;
        if (crosses && x / (x - to) < far) {
            far = x / (x - to);
            first = a;
        }
    }
    for (size_t a = 0; a < n; a++) {
        size_t j = s->where[a];
        double d = a == first ? -s->x[j] : far * s->b[a];
        move(s, j, d);
        s->x[j] = a == first ? 0 : s->x[j];
    }
    return true;
}

static void sweep(struct solving *s, bool all, double *change) {
    *change = 0;
    for (size_t j = 0; j < s->q->m; j++) {
        if (all || s->x[j] != 0) {
            *change += step(s, j);
        }
    }
}

int descent_solve(const struct descent_quadratic *q, double *x, double *left, size_t *passes) {
    size_t m = q->m, support = m < NEWTON_MOST ? m : NEWTON_MOST;
    struct solving s = {q,
                        x,
                        tide_alloc((m + 1) * sizeof(double)),
                        tide_alloc((m + 1) * sizeof(uint32_t)),
                        NULL,
                        tide_alloc((m + 1) * sizeof(double))};
    int code = s.g && s.where && s.b ? 0 : TIDE_ENOMEM;
    *passes = 0;
    if (code == 0) {
        memcpy(s.g, q->z, m * sizeof *s.g);
        *left = left_to_gain(&s);
    }
    size_t since = 0;
    while (code == 0 && *left > q->tolerance && *passes < q->passes_most) {
        double change;
        sweep(&s, true, &change);
        ++*passes;
        for (size_t inner = 0; inner < 4 && change > 1e-2 * q->tolerance * q->objective * q->tolerance;
             inner++, ++*passes) {
            sweep(&s, false, &change);
        }
        since += 5;
        *left = left_to_gain(&s);
        if (*left > q->tolerance && since >= PASSES_BEFORE_NEWTON) {
            s.a = s.a ? s.a : tide_alloc((support * support + 1) * sizeof(double));
            if (!s.a) {
                code = TIDE_ENOMEM;
                break;
            }
            for (size_t tries = 0; tries < 4 && newton(&s); tries++) {
                *left = left_to_gain(&s);
                if (*left <= q->tolerance) {
                    break;
                }
            }
            since = 0;
        }
    }
    tide_free(s.g);
    tide_free(s.where);
    tide_free(s.a);
    tide_free(s.b);
    return code;
}

enum {
    SOLVE_GRAM,
    SOLVE_Z,
    SOLVE_X,
    SOLVE_PENALTY,
    SOLVE_RIDGE,
    SOLVE_POSITIVE,
    SOLVE_TOLERANCE,
    SOLVE_OBJECTIVE,
    SOLVE_PASSES,
    SOLVE_COUNT
};

static const struct tide_parameter solve_parameters[SOLVE_COUNT] = {
    [SOLVE_GRAM] = {"gram", TIDE_TENSOR, TIDE_F64, true, 0, "m x m, symmetric"},
    [SOLVE_Z] = {"z", TIDE_TENSOR, TIDE_F64, true, 0, "minus the gradient at x, m"},
    [SOLVE_X] = {"x", TIDE_TENSOR, TIDE_F64, true, 0, "m, becomes the solution"},
    [SOLVE_PENALTY] = {"penalty", TIDE_TENSOR, TIDE_F64, true, 0, "m weights of |x_j|"},
    [SOLVE_RIDGE] = {"ridge", TIDE_TENSOR, TIDE_F64, true, 0, "m weights of x_j^2 / 2"},
    [SOLVE_POSITIVE] = {"positive", TIDE_FLAG, 0, false, 0, "x >= 0"},
    [SOLVE_TOLERANCE] = {"tolerance", TIDE_NUMBER, 0, true, 0, "distance from optimality, as a share of the penalty"},
    [SOLVE_OBJECTIVE] = {"objective", TIDE_NUMBER, 0, true, 0, "about, above 0"},
    [SOLVE_PASSES] = {"passes", TIDE_NUMBER, 0, false, 10000, "sweeps at most"},
};

static int solve_run(const struct tide_argument *arguments, struct tide_result *results, char *error) {
    const struct tide_kernel *kernel = &tide_kernel_descent_solve;
    size_t m = arguments[SOLVE_X].tensor.rows * arguments[SOLVE_X].tensor.columns;
    double *gram, *z, *penalty, *ridge;
    uint64_t most;
    int code = tide_kernel_vector(kernel, arguments, SOLVE_GRAM, m * m, &gram, error);
    code = code ? code : tide_kernel_vector(kernel, arguments, SOLVE_Z, m, &z, error);
    code = code ? code : tide_kernel_vector(kernel, arguments, SOLVE_PENALTY, m, &penalty, error);
    code = code ? code : tide_kernel_vector(kernel, arguments, SOLVE_RIDGE, m, &ridge, error);
    code = code ? code : tide_kernel_whole(kernel, arguments, SOLVE_PASSES, 0, 1u << 30, &most, error);
    if (code < 0) {
        return code;
    }
    struct descent_quadratic q = {.gram = gram,
                                  .z = z,
                                  .penalty = penalty,
                                  .ridge = ridge,
                                  .m = m,
                                  .positive = arguments[SOLVE_POSITIVE].number != 0,
                                  .tolerance = arguments[SOLVE_TOLERANCE].number,
                                  .objective = arguments[SOLVE_OBJECTIVE].number,
                                  .passes_most = (size_t)most};
    double left = 0;
    size_t passes = 0;
    code = descent_solve(&q, arguments[SOLVE_X].tensor.data, &left, &passes);
    if (code < 0) {
        return tide_kernel_fail(error, code, "out of memory");
    }
    results[0] = (struct tide_result){"left", left};
    results[1] = (struct tide_result){"passes", (double)passes};
    results[2] = (struct tide_result){"count", (double)(passes * m)};
    return 3;
}

const struct tide_kernel tide_kernel_descent_solve = {
    "descent_solve", "L1-penalised least squares of a Gram matrix: cyclic descent, and Newton steps on the support.",
    solve_parameters, SOLVE_COUNT, solve_run};
