/*
 * A kernel of one's own: y = a x + y, and the rows of a table scaled in place.
 *
 *   cc -O3 -shared -fPIC saxpy.c $(pkg-config --cflags tide) -o saxpy.so && tide run own_kernel.lua
 */
#include <stdio.h>
#include <stdlib.h>
#include <tide/kernel.h>

static const struct tide_kernel_host *host;

enum { A, X, Y };
static const struct tide_parameter saxpy_parameters[] = {
    [A] = {"a", TIDE_NUMBER, 0, true, 0, "factor"},
    [X] = {"x", TIDE_TENSOR, 1, true, 0, "f32, as long as y"},
    [Y] = {"y", TIDE_TENSOR, 1, true, 0, "f32, changed in place"},
};

static int saxpy(const struct tide_argument *arguments, struct tide_result *results, char *error) {
    const size_t count = arguments[Y].tensor.rows * arguments[Y].tensor.columns;
    const float *x = arguments[X].tensor.data, a = (float)arguments[A].number;
    float *y = arguments[Y].tensor.data;
    if (arguments[X].tensor.rows * arguments[X].tensor.columns != count) {
        snprintf(error, TIDE_KERNEL_ERROR_BYTES, "x and y differ in length");
        return TIDE_EINVAL;
    }
    for (size_t i = 0; i < count; i++) {
        y[i] += a * x[i];
    }
    results[0] = (struct tide_result){"count", (double)count};
    return 1;
}

enum { ROWS, COUNT, FACTOR };
static const struct tide_parameter grow_parameters[] = {
    [ROWS] = {"rows", TIDE_ROWS, 0, true, 0, "the table, update rule add"},
    [COUNT] = {"count", TIDE_NUMBER, 0, true, 0, "keys 0 .. count-1"},
    [FACTOR] = {"factor", TIDE_NUMBER, 0, true, 0, "what each row is multiplied by"},
};

static int grow(const struct tide_argument *arguments, struct tide_result *results, char *error) {
    const struct tide_rows *rows = &arguments[ROWS].rows;
    float *row = malloc(rows->width * sizeof *row);
    int rc = row ? 0 : TIDE_ENOMEM;
    for (uint64_t key = 0; key < (uint64_t)arguments[COUNT].number && rc == 0; key++) {
        rc = rows->pull(rows->table, &key, 1, row);
        for (uint32_t i = 0; i < rows->width; i++) {
            row[i] *= (float)arguments[FACTOR].number - 1; /* what is to be added */
        }
        rc = rc < 0 ? rc : rows->push(rows->table, &key, 1, row);
        rc = rc < 0 || key % 256 != 255 ? rc : host->yield();
    }
    free(row);
    if (rc < 0) {
        snprintf(error, TIDE_KERNEL_ERROR_BYTES, "a row could not be reached");
    }
    (void)results;
    return rc;
}

static const struct tide_kernel kernels[] = {
    {"saxpy", "y = a x + y.", saxpy_parameters, sizeof saxpy_parameters / sizeof *saxpy_parameters, saxpy},
    {"grow", "Multiplies rows of a table.", grow_parameters, sizeof grow_parameters / sizeof *grow_parameters, grow},
};

const struct tide_kernel_module *tide_kernel_module(const struct tide_kernel_host *of) {
    static const struct tide_kernel_module module = {
        .abi = TIDE_KERNEL_ABI, .version = "1", .kernels = kernels, .kernel_count = sizeof kernels / sizeof *kernels};
    host = of;
    return &module;
}
