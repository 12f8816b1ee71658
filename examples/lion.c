/*
 * An update rule of tables in C: Lion (Chen et al. 2023, arXiv 2302.06675, algorithm 2), with one state a value.
 *
 *   cc -O3 -shared -fPIC lion.c $(pkg-config --cflags tide) -o lion.so && tide run own_update.lua
 */
#include <tide/rule.h>

enum { BETA1, BETA2, DECAY };

static int check(const float *numbers, char *error) {
    const int good = numbers[BETA1] >= 0 && numbers[BETA1] < 1 && numbers[BETA2] >= 0 && numbers[BETA2] < 1;
    strcpy(error, "beta1 and beta2 lie between 0 and 1");
    return good ? 0 : TIDE_EINVAL;
}

static void apply(const struct tide_rule_call *call) {
    const float keep1 = call->numbers[BETA1], keep2 = call->numbers[BETA2], decay = call->numbers[DECAY];
    float *w = call->row, *m = call->state;
    for (size_t i = 0; i < call->width; i++) {
        const float d = tide_rule_delta(call, i), c = keep1 * m[i] + (1 - keep1) * d;
        w[i] -= call->rate * ((float)((c > 0) - (c < 0)) + decay * w[i]);
        m[i] = keep2 * m[i] + (1 - keep2) * d;
    }
}

static const struct tide_parameter numbers[] = {
    {"beta1", TIDE_NUMBER, 0, false, 0.9, "how much of the mean is in a step"},
    {"beta2", TIDE_NUMBER, 0, false, 0.99, "how much of the mean stays"},
    {"decay", TIDE_NUMBER, 0, false, 0, "of the values, a unit of the rate"},
};
static const struct tide_rule_state states[] = {{"m", false}};
static const struct tide_update_rule rules[] = {
    {.name = "lion",
     .doc = "The sign of a mean of gradients (arXiv 2302.06675).",
     .numbers = numbers,
     .number_count = 3,
     .states = states,
     .state_count = 1,
     .check = check,
     .apply = apply},
};

const struct tide_kernel_module *tide_kernel_module(const struct tide_kernel_host *host) {
    static const struct tide_kernel_module module = {
        .abi = TIDE_KERNEL_ABI, .version = "1", .rules = rules, .rule_count = 1};
    (void)host;
    return &module;
}
