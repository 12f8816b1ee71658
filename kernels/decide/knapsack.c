/* Multiple-choice knapsack by dynamic programming over capacity; see numeric.h. */
#include "decide/numeric.h"

#include "base/base.h"
#include "operation.h"

#include <math.h>
#include <string.h>

/* On the device that is named. */
static int pack_there(const struct tide_knapsack *p, size_t *pick, double *best) {
    int code = p->device->numeric->knapsack(p, pick, best);
    return code == 0 ? 0
                     : tide_fail(code, "%s: %s", p->device->name,
                                 code == TIDE_ENOMEM ? "no memory for the table of choices" : "the device failed");
}

int tide_knapsack(const struct tide_knapsack *problem, size_t *pick, double *best) {
    const size_t rows = problem->rows, options = problem->options;
    const uint64_t *sizes = problem->sizes, capacity = problem->capacity;
    if (capacity > (1u << 24) || options >= UINT16_MAX || (rows > 0 && capacity + 1 > (UINT64_C(1) << 28) / rows)) {
        return tide_fail(TIDE_ELIMIT, "%zu rows and a capacity of %llu are too much for the exact method", rows,
                         (unsigned long long)capacity);
    }
    if (problem->device && problem->device->numeric) {
        return pack_there(problem, pick, best);
    }
    size_t width = (size_t)capacity + 1;
    uint16_t *choice = tide_alloc_zero(rows * width + 1, sizeof *choice); /* 0: nothing, else option + 1 */
    double *row_best = tide_alloc_zero(width, sizeof *row_best);
    if (!choice || !row_best) {
        tide_free(choice);
        tide_free(row_best);
        return TIDE_ENOMEM;
    }
    memset(best, 0, width * sizeof *best);
    for (size_t i = 0; i < rows; i++) {
        memcpy(row_best, best, width * sizeof *best);
        for (size_t j = 0; j < options; j++) {
            double gain = problem->value[i * options + j];
            for (size_t c = sizes[j] <= capacity ? (size_t)sizes[j] : width; c < width && gain > -INFINITY; c++) {
                double with = best[c - sizes[j]] + gain;
                if (with > row_best[c]) {
                    row_best[c] = with;
                    choice[i * width + c] = (uint16_t)(j + 1);
                }
            }
        }
        memcpy(best, row_best, width * sizeof *best);
    }
    size_t left = (size_t)capacity;
    for (size_t i = rows; i-- > 0;) {
        uint16_t chosen = choice[i * width + left];
        pick[i] = chosen == 0 ? SIZE_MAX : (size_t)chosen - 1;
        left -= chosen == 0 ? 0 : (size_t)sizes[chosen - 1];
    }
    tide_free(choice);
    tide_free(row_best);
    return 0;
}
