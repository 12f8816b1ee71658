/*
 * An operation of programs in C: Huber's function of each element, x^2 / 2 near 0 and linear beyond `bound`.
 *
 *   cc -O3 -shared -fPIC huber.c $(pkg-config --cflags tide) -o huber.so && tide run own_operation.lua
 */
#include <tide/kernel.h>

static int shape(const struct tide_own_shape *in, const double *numbers, struct tide_own_shape *out, char *error) {
    (void)numbers, (void)error;
    out[0] = in[0];
    return 0;
}

/* For both types of real numbers: float on "cpu", double on "reference". */
#define BOTH(type)                                                                                                     \
    static void forward_##type(size_t n, const type *x, type bound, type *y) {                                         \
        for (size_t i = 0; i < n; i++) {                                                                               \
            const type a = x[i] < 0 ? -x[i] : x[i];                                                                    \
            y[i] = a <= bound ? x[i] * x[i] / 2 : bound * (a - bound / 2);                                             \
        }                                                                                                              \
    }                                                                                                                  \
    static void backward_##type(size_t n, const type *x, const type *g, type bound, type *by) {                        \
        for (size_t i = 0; i < n; i++) {                                                                               \
            by[i] = g[i] * (x[i] > bound ? bound : x[i] < -bound ? -bound : x[i]);                                     \
        }                                                                                                              \
    }
BOTH(float)
BOTH(double)

static int forward(const struct tide_own_call *call) {
    const size_t n = call->in[0].rows * call->in[0].columns;
    if (call->element == sizeof(float)) {
        forward_float(n, call->in[0].data, (float)call->numbers[0], call->out[0].data);
    } else {
        forward_double(n, call->in[0].data, call->numbers[0], call->out[0].data);
    }
    return 0;
}

static int backward(const struct tide_own_call *call) {
    const size_t n = call->in[0].rows * call->in[0].columns;
    if (call->element == sizeof(float)) {
        backward_float(n, call->in[0].data, call->g[0].data, (float)call->numbers[0], call->by[0].data);
    } else {
        backward_double(n, call->in[0].data, call->g[0].data, call->numbers[0], call->by[0].data);
    }
    return 0;
}

static const struct tide_parameter numbers[] = {
    {"bound", TIDE_NUMBER, 0, false, 1, "where it becomes linear"},
};
static const struct tide_own_operation operations[] = {
    {.name = "huber",
     .doc = "x^2 / 2 up to bound, then linear (Huber 1964).",
     .in_count = 1,
     .out_count = 1,
     .numbers = numbers,
     .number_count = 1,
     .shape = shape,
     .forward = forward,
     .backward = backward},
};

const struct tide_kernel_module *tide_kernel_module(const struct tide_kernel_host *host) {
    static const struct tide_kernel_module module = {
        .abi = TIDE_KERNEL_ABI, .version = "1", .operations = operations, .operation_count = 1};
    (void)host;
    return &module;
}
