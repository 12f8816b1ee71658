/* The kernels of the package squares: see tide/kernel.h. */
#include <tide/kernel.h>

enum { VALUES };
static const struct tide_parameter parameters[] = {
    [VALUES] = {"values", TIDE_TENSOR, TIDE_F32, true, 0, "f32, any shape"},
};

static int sum_up(const struct tide_argument *arguments, struct tide_result *results, char *error) {
    const struct tide_tensor *t = &arguments[VALUES].tensor;
    const float *values = t->data;
    double sum = 0;
    (void)error;
    for (size_t i = 0; i < t->rows * t->columns; i++) {
        sum += (double)values[i] * (double)values[i];
    }
    results[0] = (struct tide_result){"sum", sum};
    return 1;
}

static const struct tide_kernel kernels[] = {
    {"squares_sum", "Adds up v * v of values.", parameters, TIDE_COUNT(parameters), sum_up},
};

const struct tide_kernel_module *tide_kernel_module(const struct tide_kernel_host *host) {
    static const struct tide_kernel_module module = {
        .abi = TIDE_KERNEL_ABI, .version = "1", .kernels = kernels, .kernel_count = TIDE_COUNT(kernels)};
    (void)host;
    return &module;
}
