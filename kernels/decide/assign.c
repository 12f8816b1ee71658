/* Minimum-cost assignment by shortest augmenting paths over reduced costs; see numeric.h. */
#include "decide/numeric.h"

#include "base/base.h"

#include <math.h>
#include <string.h>

/* Column 0 is a root that holds the row to be placed; columns and rows count from 1. */
struct assignment {
    const double *cost;
    size_t rows, columns;
    double *row_price, *column_price, *distance;
    size_t *row_of, *before; /* by column */
    bool *done;
};

/* Finds the cheapest path from `row` to a free column and flips it. False: every path is forbidden.
 */
static bool place(struct assignment *s, size_t row) {
    s->row_of[0] = row;
    for (size_t j = 0; j <= s->columns; j++) {
        s->distance[j] = INFINITY;
        s->done[j] = false;
    }
    size_t column = 0;
    while (s->row_of[column] != 0) {
        s->done[column] = true;
        size_t i = s->row_of[column], next = 0;
        double least = INFINITY;
        for (size_t j = 1; j <= s->columns; j++) {
            if (s->done[j]) {
                continue;
            }
            double reduced = s->cost[(i - 1) * s->columns + j - 1] - s->row_price[i] - s->column_price[j];
            if (reduced < s->distance[j]) {
                s->distance[j] = reduced;
                s->before[j] = column;
            }
            if (s->distance[j] < least) {
                least = s->distance[j];
                next = j;
            }
        }
        if (!(least < INFINITY)) {
            return false;
        }
        for (size_t j = 0; j <= s->columns; j++) {
            if (s->done[j]) {
                s->row_price[s->row_of[j]] += least;
                s->column_price[j] -= least;
            } else {
                s->distance[j] -= least;
            }
        }
        column = next;
    }
    while (column != 0) {
        s->row_of[column] = s->row_of[s->before[column]];
        column = s->before[column];
    }
    return true;
}

int tide_assign(const double *cost, size_t rows, size_t columns, size_t *pick, double *total) {
    if (rows == 0 || rows > columns) {
        return tide_fail(TIDE_EINVAL, "%zu rows cannot get a column each out of %zu", rows, columns);
    }
    struct assignment s = {.cost = cost, .rows = rows, .columns = columns};
    double *numbers = tide_alloc_zero(rows + 1 + 2 * (columns + 1), sizeof *numbers);
    size_t *places = tide_alloc_zero(2 * (columns + 1), sizeof *places);
    s.done = tide_alloc_zero(columns + 1, sizeof *s.done);
    int code = numbers && places && s.done ? 0 : TIDE_ENOMEM;
    s.row_price = numbers;
    s.column_price = numbers ? numbers + rows + 1 : NULL;
    s.distance = numbers ? s.column_price + columns + 1 : NULL;
    s.row_of = places;
    s.before = places ? places + columns + 1 : NULL;
    for (size_t i = 1; i <= rows && code == 0; i++) {
        if (!place(&s, i)) {
            code = tide_fail(TIDE_ERANGE, "no assignment: row %zu and those before it find no columns allowed", i);
        }
    }
    if (code == 0) {
        *total = 0;
        for (size_t j = 1; j <= columns; j++) {
            if (s.row_of[j] != 0) {
                pick[s.row_of[j] - 1] = j - 1;
            }
        }
        for (size_t i = 0; i < rows; i++) {
            *total += cost[i * columns + pick[i]];
        }
    }
    tide_free(numbers);
    tide_free(places);
    tide_free(s.done);
    return code;
}
