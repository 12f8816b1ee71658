/*
 * Small dense linear programmes: a tableau, two phases. The column with the largest reduced cost
 * enters (Dantzig's rule), but after as many pivots as there are rows without progress the first
 * with any (Bland's, which cannot cycle) until there is some. Rows with b < 0 are turned round;
 * every row gets the slack or surplus variable that its sense asks for, and an artificial one,
 * which starts in the basis where a slack cannot.
 *
 * With a device the pivots of a phase are made on a copy of the tableau there; here stay right what
 * decides on the next one: the last row, the column that enters and the right side.
 */
#include "decide/numeric.h"

#include "base/base.h"
#include "operation.h"

#include <math.h>
#include <string.h>

#define TINY 1e-9

struct tableau {
    size_t rows, columns, artificial; /* columns without the right side; artificial ones are the last `rows` */
    double *t;                        /* (rows + 1) x (columns + 1); the last row is the objective's */
    size_t *basis;
    size_t pivots_left;
    const struct tide_device *device;
    void *there;  /* the copy; NULL: none */
    double *both; /* columns that came from it */
};

static double *cell(struct tableau *s, size_t row, size_t column) {
    return &s->t[row * (s->columns + 1) + column];
}

static void pivot(struct tableau *s, size_t row, size_t column) {
    const size_t n = s->columns + 1;
    double *own = cell(s, row, 0), scale = own[column];
    for (size_t j = 0; j < n; j++) {
        own[j] /= scale;
    }
    for (size_t i = 0; i <= s->rows; i++) {
        double *restrict other = cell(s, i, 0), factor = other[column];
        if (i == row || factor == 0) {
            continue;
        }
        for (size_t j = 0; j < n; j++) {
            other[j] -= factor * own[j];
        }
        other[column] = 0;
    }
    s->basis[row] = column;
}

/* ---- the copy on a device ---- */

static int told(const struct tableau *s, int code) {
    return code == 0 ? 0
                     : tide_fail(code, "%s: %s", s->device->name,
                                 code == TIDE_ENOMEM ? "no memory for the tableau" : "the device failed");
}

static int go_there(struct tableau *s) {
    return s->device ? told(s, s->device->numeric->open(s->rows + 1, s->columns + 1, s->t, &s->there)) : 0;
}

static int come_back(struct tableau *s, int code) {
    if (s->there && code == 0) {
        code = told(s, s->device->numeric->download(s->there, s->t));
    }
    if (s->there) {
        s->device->numeric->close(s->there);
        s->there = NULL;
    }
    return code;
}

static int fetch_column(struct tableau *s, size_t column) {
    int code = s->there ? told(s, s->device->numeric->column(s->there, column, s->both)) : 0;
    for (size_t i = 0; s->there && code == 0 && i <= s->rows; i++) {
        *cell(s, i, column) = s->both[i];
        *cell(s, i, s->columns) = s->both[s->rows + 1 + i];
    }
    return code;
}

/* On the column that was fetched last. */
static int pivot_there(struct tableau *s, size_t row, size_t column) {
    s->basis[row] = column;
    return told(s, s->device->numeric->pivot(s->there, row, cell(s, s->rows, 0)));
}

/* ---- the two phases ---- */

/* The column that enters, or `usable`; the objective row holds negated reduced costs. */
static size_t entering(struct tableau *s, size_t usable, bool first) {
    const double *costs = cell(s, s->rows, 0);
    size_t best = usable;
    for (size_t j = 0; j < usable && !(first && best < usable); j++) {
        if (costs[j] < -TINY && (best == usable || costs[j] < costs[best])) {
            best = j;
        }
    }
    return best;
}

/* The row that leaves: the smallest ratio, of equal ones the smallest variable; or `rows`. */
static size_t leaving(struct tableau *s, size_t column) {
    size_t row = s->rows;
    double least = INFINITY;
    for (size_t i = 0; i < s->rows; i++) {
        double rate = *cell(s, i, column);
        if (rate <= TINY) {
            continue;
        }
        double ratio = *cell(s, i, s->columns) / rate;
        if (ratio < least - TINY || (ratio <= least + TINY && row < s->rows && s->basis[i] < s->basis[row])) {
            least = fmin(ratio, least);
            row = i;
        }
    }
    return row;
}

static int climb(struct tableau *s, size_t usable) {
    for (size_t still = 0;;) {
        size_t column = entering(s, usable, still > s->rows);
        if (column == usable) {
            return 0;
        }
        int code = fetch_column(s, column);
        if (code < 0) {
            return code;
        }
        size_t row = leaving(s, column);
        if (row == s->rows) {
            return tide_fail(TIDE_EINVAL, "the objective has no bound");
        }
        if (s->pivots_left-- == 0) {
            s->pivots_left = 0;
            return tide_fail(TIDE_ELIMIT, "the linear programme needs more steps than it may take");
        }
        double before = *cell(s, s->rows, s->columns);
        if (s->there) {
            code = pivot_there(s, row, column);
        } else {
            pivot(s, row, column);
        }
        if (code < 0) {
            return code;
        }
        still = *cell(s, s->rows, s->columns) > before + TINY ? 0 : still + 1;
    }
}

/* Maximises over the first `usable` columns. */
static int maximise(struct tableau *s, size_t usable) {
    int code = go_there(s);
    return come_back(s, code < 0 ? code : climb(s, usable));
}

/* Phase one maximises minus the sum of the artificial variables. */
static void fill(struct tableau *s, const struct tide_linear_program *p) {
    size_t slack = p->variables;
    for (size_t i = 0; i < p->rows; i++) {
        double sign = p->b[i] < 0 ? -1 : 1;
        bool starts = p->sense[i] * sign < 0; /* with its slack */
        for (size_t j = 0; j < p->variables; j++) {
            *cell(s, i, j) = sign * p->a[i * p->variables + j];
        }
        s->basis[i] = starts ? slack : s->artificial + i;
        if (p->sense[i] != 0) {
            *cell(s, i, slack++) = starts ? 1 : -1;
        }
        *cell(s, i, s->artificial + i) = 1;
        *cell(s, i, s->columns) = sign * p->b[i];
        for (size_t j = 0; j <= s->columns && !starts; j++) {
            bool own = j >= s->artificial && j < s->columns;
            *cell(s, s->rows, j) -= own ? 0 : *cell(s, i, j);
        }
    }
}

static void second_objective(struct tableau *s, const struct tide_linear_program *p) {
    memset(cell(s, s->rows, 0), 0, (s->columns + 1) * sizeof(double));
    for (size_t j = 0; j < p->variables; j++) {
        *cell(s, s->rows, j) = -p->objective[j];
    }
    for (size_t i = 0; i < s->rows; i++) {
        double factor = *cell(s, s->rows, s->basis[i]);
        for (size_t j = 0; j <= s->columns && factor != 0; j++) {
            *cell(s, s->rows, j) -= factor * *cell(s, i, j);
        }
    }
}

/* Artificial variables that stayed in the basis at zero leave it where their row has anything else.
 */
static void drive_out(struct tableau *s) {
    for (size_t i = 0; i < s->rows; i++) {
        for (size_t j = 0; s->basis[i] >= s->artificial && j < s->artificial; j++) {
            if (fabs(*cell(s, i, j)) > TINY) {
                pivot(s, i, j);
            }
        }
    }
}

static int solve(struct tableau *s, const struct tide_linear_program *p, double *x, double *value) {
    double scale = 1;
    for (size_t i = 0; i < p->rows; i++) {
        scale = fmax(scale, fabs(p->b[i]));
    }
    fill(s, p);
    int code = maximise(s, s->artificial);
    if (code < 0) {
        return code;
    }
    if (*cell(s, s->rows, s->columns) < -1e-7 * scale) {
        return tide_fail(TIDE_ERANGE, "no solution satisfies all rows");
    }
    drive_out(s);
    second_objective(s, p);
    code = maximise(s, s->artificial);
    if (code < 0) {
        return code;
    }
    memset(x, 0, p->variables * sizeof *x);
    for (size_t i = 0; i < s->rows; i++) {
        if (s->basis[i] < p->variables) {
            x[s->basis[i]] = *cell(s, i, s->columns);
        }
    }
    *value = 0;
    for (size_t j = 0; j < p->variables; j++) {
        *value += p->objective[j] * x[j];
    }
    return 0;
}

int tide_linear_solve(const struct tide_linear_program *program, double *x, double *value) {
    size_t slacks = 0;
    if (program->variables == 0 || program->variables > 4096 || program->rows > 4096) {
        return tide_fail(TIDE_ELIMIT, "a linear programme has 1 to 4096 variables and up to 4096 rows");
    }
    for (size_t i = 0; i < program->rows; i++) {
        slacks += program->sense[i] != 0;
    }
    struct tableau s = {
        .rows = program->rows, .artificial = program->variables + slacks, .pivots_left = program->pivots_max};
    if (program->device && program->device->numeric) {
        s.device = program->device;
    }
    s.columns = s.artificial + s.rows;
    s.t = tide_alloc_zero((s.rows + 1) * (s.columns + 1), sizeof *s.t);
    s.basis = tide_alloc_zero(s.rows + 1, sizeof *s.basis);
    s.both = tide_alloc(2 * (s.rows + 1) * sizeof *s.both);
    int code = s.t && s.basis && s.both ? solve(&s, program, x, value) : TIDE_ENOMEM;
    tide_free(s.both);
    tide_free(s.t);
    tide_free(s.basis);
    return code;
}
