/* Least squares: a line, dense, non-negative, and bounded non-linear ones; see numeric.h. */
#include "decide/numeric.h"

#include "base/base.h"

#include <cminpack.h>
#include <math.h>
#include <string.h>

/* ---- a line ---- */

int tide_fit_line(const double *x, const double *y, size_t n, double *at, double *per) {
    if (n == 0) {
        return tide_fail(TIDE_EINVAL, "a line needs at least one sample");
    }
    double mean_x = 0, mean_y = 0, xx = 0, xy = 0, raw_xx = 0, raw_xy = 0;
    for (size_t i = 0; i < n; i++) {
        mean_x += x[i] / (double)n;
        mean_y += y[i] / (double)n;
    }
    for (size_t i = 0; i < n; i++) {
        xx += (x[i] - mean_x) * (x[i] - mean_x);
        xy += (x[i] - mean_x) * (y[i] - mean_y);
        raw_xx += x[i] * x[i];
        raw_xy += x[i] * y[i];
    }
    double through_origin = raw_xx > 0 && raw_xy > 0 ? raw_xy / raw_xx : 0;
    bool distinct = xx > 1e-12 * raw_xx;
    double slope = distinct ? xy / xx : through_origin;
    double start = distinct ? mean_y - slope * mean_x : 0;
    if (raw_xx <= 0) { /* nothing is known about a unit's cost */
        slope = 0;
        start = mean_y;
    }
    /* The error is convex: with a bound violated the optimum lies on it. */
    if (slope < 0) {
        slope = 0;
        start = mean_y;
    } else if (start < 0) {
        slope = through_origin;
        start = 0;
    }
    *at = start > 0 ? start : 0;
    *per = slope;
    return 0;
}

/* ---- dense, by QR ---- */

/* Reflects columns `first`.. and the right side so that column `first` is zero below its diagonal;
 * the column with the largest rest comes first. Returns the diagonal element. */
static double reflect(double *a, double *y, size_t rows, size_t columns, size_t first, size_t *order) {
    size_t best = first;
    double best_norm = -1;
    for (size_t j = first; j < columns; j++) {
        double norm = 0;
        for (size_t i = first; i < rows; i++) {
            norm += a[i * columns + j] * a[i * columns + j];
        }
        if (norm > best_norm) {
            best = j;
            best_norm = norm;
        }
    }
    size_t index = order[first];
    order[first] = order[best];
    order[best] = index;
    for (size_t i = 0; i < rows; i++) {
        double kept = a[i * columns + first];
        a[i * columns + first] = a[i * columns + best];
        a[i * columns + best] = kept;
    }
    double norm = sqrt(best_norm), head = a[first * columns + first];
    if (!(norm > 0)) {
        return 0;
    }
    double diagonal = head > 0 ? -norm : norm, scale = norm * (norm + fabs(head));
    a[first * columns + first] = head - diagonal;
    for (size_t j = first + 1; j <= columns; j++) {
        double dot = 0;
        for (size_t i = first; i < rows; i++) {
            dot += a[i * columns + first] * (j < columns ? a[i * columns + j] : y[i]);
        }
        dot /= scale;
        for (size_t i = first; i < rows; i++) {
            double *target = j < columns ? &a[i * columns + j] : &y[i];
            *target -= dot * a[i * columns + first];
        }
    }
    return diagonal;
}

/* Solves in place: `a` and `y` are destroyed. diagonal and order: `columns` each. */
static void solve_in_place(double *a, double *y, size_t rows, size_t columns, double *c, double *diagonal,
                           size_t *order) {
    size_t rank = 0, most = rows < columns ? rows : columns;
    for (size_t j = 0; j < columns; j++) {
        order[j] = j;
        c[j] = 0;
    }
    for (; rank < most; rank++) {
        diagonal[rank] = reflect(a, y, rows, columns, rank, order);
        if (!(fabs(diagonal[rank]) > 1e-12 * fabs(diagonal[0]))) {
            break;
        }
    }
    for (size_t k = rank; k-- > 0;) {
        double value = y[k];
        for (size_t j = k + 1; j < rank; j++) {
            value -= a[k * columns + j] * c[order[j]];
        }
        c[order[k]] = value / diagonal[k];
    }
}

struct workspace { /* of rows x columns */
    double *a, *y, *c, *diagonal;
    size_t *order;
};

static int workspace_init(struct workspace *w, size_t rows, size_t columns) {
    if (rows == 0 || columns == 0) {
        return tide_fail(TIDE_EINVAL, "least squares need at least one row and one column");
    }
    w->a = tide_alloc_zero(rows * columns + rows + 2 * columns, sizeof *w->a);
    w->order = tide_alloc_zero(columns, sizeof *w->order);
    if (!w->a || !w->order) {
        tide_free(w->a);
        tide_free(w->order);
        return TIDE_ENOMEM;
    }
    w->y = w->a + rows * columns;
    w->c = w->y + rows;
    w->diagonal = w->c + columns;
    return 0;
}

static void workspace_release(struct workspace *w) {
    tide_free(w->a);
    tide_free(w->order);
}

int tide_fit_least_squares(const double *a, const double *y, size_t rows, size_t columns, double *c) {
    struct workspace w;
    int code = workspace_init(&w, rows, columns);
    if (code < 0) {
        return code;
    }
    memcpy(w.a, a, rows * columns * sizeof *a);
    memcpy(w.y, y, rows * sizeof *y);
    solve_in_place(w.a, w.y, rows, columns, c, w.diagonal, w.order);
    workspace_release(&w);
    return 0;
}

/* ---- non-negative ---- */

/* Least squares over the columns in `passive`; c of the others is 0. */
static void solve_passive(struct workspace *w, const double *a, const double *y, size_t rows, size_t columns,
                          const bool *passive, double *c) {
    size_t count = 0, at = 0;
    for (size_t j = 0; j < columns; j++) {
        count += passive[j];
    }
    for (size_t i = 0; i < rows; i++) {
        for (size_t j = 0; j < columns; j++) {
            if (passive[j]) {
                w->a[at++] = a[i * columns + j];
            }
        }
    }
    memcpy(w->y, y, rows * sizeof *y);
    solve_in_place(w->a, w->y, rows, count, w->c, w->diagonal, w->order);
    at = 0;
    for (size_t j = 0; j < columns; j++) {
        c[j] = passive[j] ? w->c[at++] : 0;
    }
}

/* The inactive column with the largest positive gradient; `columns` if none has one. */
static size_t steepest(const double *a, const double *y, size_t rows, size_t columns, const bool *passive,
                       const double *c, double tolerance) {
    size_t best = columns;
    double best_slope = tolerance;
    for (size_t j = 0; j < columns; j++) {
        if (passive[j]) {
            continue;
        }
        double slope = 0;
        for (size_t i = 0; i < rows; i++) {
            double rest = y[i];
            for (size_t k = 0; k < columns; k++) {
                rest -= a[i * columns + k] * c[k];
            }
            slope += a[i * columns + j] * rest;
        }
        if (slope > best_slope) {
            best = j;
            best_slope = slope;
        }
    }
    return best;
}

/* Goes from c towards the solution `s` of the passive set as far as nothing turns negative. True:
 * it was reached. */
static bool step_towards(double *c, const double *s, bool *passive, size_t columns) {
    double length = 1;
    for (size_t j = 0; j < columns; j++) {
        if (passive[j] && s[j] <= 0 && c[j] - s[j] > 0) {
            length = fmin(length, c[j] / (c[j] - s[j]));
        }
    }
    bool reached = true;
    for (size_t j = 0; j < columns; j++) {
        bool blocked = passive[j] && s[j] <= 0;
        c[j] += length * (s[j] - c[j]);
        if (blocked && c[j] <= 1e-15 * fabs(s[j])) {
            c[j] = 0;
            passive[j] = false;
        }
        reached = reached && !blocked;
    }
    return reached;
}

int tide_fit_nonnegative(const double *a, const double *y, size_t rows, size_t columns, double *c) {
    struct workspace w;
    int code = workspace_init(&w, rows, columns);
    if (code < 0) {
        return code;
    }
    bool *passive = tide_alloc_zero(columns, sizeof *passive);
    double *s = tide_alloc_zero(columns, sizeof *s);
    code = passive && s ? 0 : TIDE_ENOMEM;
    double scale = 0;
    for (size_t i = 0; i < rows * columns; i++) {
        scale = fmax(scale, fabs(a[i] * y[i / columns]));
    }
    memset(c, 0, columns * sizeof *c);
    for (size_t round = 0; code == 0 && round < 3 * columns + 10; round++) {
        size_t next = steepest(a, y, rows, columns, passive, c, 1e-11 * scale * (double)rows);
        if (next == columns) {
            break;
        }
        passive[next] = true;
        for (size_t inner = 0; inner <= columns; inner++) {
            solve_passive(&w, a, y, rows, columns, passive, s);
            if (step_towards(c, s, passive, columns)) {
                break;
            }
        }
    }
    tide_free(passive);
    tide_free(s);
    workspace_release(&w);
    return code;
}

/* ---- bounded, non-linear ---- */

struct bounded {
    const struct tide_fit_problem *problem;
    double *inside; /* parameters as the caller knows them */
};

/* z is free; the parameter is inside its bounds. */
static double to_inside(double z, double low, double high) {
    if (isfinite(low) && isfinite(high)) {
        return low + (high - low) / (1 + exp(-z));
    }
    if (isfinite(low)) {
        return low + exp(z);
    }
    return isfinite(high) ? high - exp(z) : z;
}

static double to_free(double p, double low, double high) {
    if (isfinite(low) && isfinite(high)) {
        double share = (p - low) / (high - low);
        share = fmin(fmax(share, 1e-6), 1 - 1e-6); /* a start on a bound would have no slope */
        return log(share / (1 - share));
    }
    if (isfinite(low)) {
        return log(fmax(p - low, 1e-9));
    }
    return isfinite(high) ? log(fmax(high - p, 1e-9)) : p;
}

static int evaluate(void *arg, int m, int n, const double *z, double *r, int flag) {
    struct bounded *b = arg;
    (void)m;
    (void)flag;
    for (int i = 0; i < n; i++) {
        b->inside[i] = to_inside(z[i], b->problem->low[i], b->problem->high[i]);
    }
    return b->problem->residuals(b->problem->arg, b->inside, r) < 0 ? -1 : 0;
}

int tide_fit_bounded(const struct tide_fit_problem *problem, double *p, double *error, int *evaluations) {
    size_t m = problem->residual_count, n = problem->parameter_count;
    if (n == 0 || m < n || m > 100000 || n > 64) {
        return tide_fail(TIDE_EINVAL, "a fit needs 1 to 64 parameters and at least as many residuals, up to 100000");
    }
    for (size_t i = 0; i < n; i++) {
        if (!(problem->low[i] < problem->high[i])) {
            return tide_fail(TIDE_EINVAL, "the bounds of parameter %zu leave nothing between them", i + 1);
        }
    }
    double *work = tide_alloc_zero(m * n + 2 * m + 7 * n, sizeof *work);
    int *pivots = tide_alloc_zero(n, sizeof *pivots);
    int code = work && pivots ? 0 : TIDE_ENOMEM;
    if (code == 0) {
        double *r = work, *jacobian = r + m, *wa4 = jacobian + m * n, *z = wa4 + m, *diag = z + n, *qtf = diag + n;
        struct bounded b = {.problem = problem, .inside = qtf + 4 * n};
        for (size_t i = 0; i < n; i++) {
            z[i] = to_free(p[i], problem->low[i], problem->high[i]);
        }
        int count = 0;
        int info = lmdif(evaluate, &b, (int)m, (int)n, z, r, 1e-10, 1e-10, 0.0, problem->evaluations_max, 0.0, diag, 1,
                         100.0, 0, &count, jacobian, (int)m, pivots, qtf, qtf + n, qtf + 2 * n, qtf + 3 * n, wa4);
        if (info < 0) {
            code = tide_fail(TIDE_ECANCELED, "the residuals could not be computed");
        } else if (info == 0) {
            code = tide_fail(TIDE_EINVAL, "the fit got arguments that make no sense");
        } else {
            *error = 0;
            for (size_t i = 0; i < m; i++) {
                *error += r[i] * r[i];
            }
            for (size_t i = 0; i < n; i++) {
                p[i] = to_inside(z[i], problem->low[i], problem->high[i]);
            }
            *evaluations = count;
        }
    }
    tide_free(work);
    tide_free(pivots);
    return code;
}
