/* Reading arguments; see arguments.h. */
#include "arguments.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int tide_kernel_fail(char *error, int code, const char *format, ...) {
    va_list list;
    va_start(list, format);
    vsnprintf(error, KERNEL_ERROR_SIZE, format, list);
    va_end(list);
    return code;
}

static double number_of(const struct tide_kernel *kernel, const struct tide_argument *arguments, size_t index) {
    return arguments[index].given ? arguments[index].number : kernel->parameters[index].number;
}

int tide_kernel_whole(const struct tide_kernel *kernel, const struct tide_argument *arguments, size_t index,
                      uint64_t least, uint64_t most, uint64_t *out, char *error) {
    double number = number_of(kernel, arguments, index);
    if (!(number >= (double)least && number <= (double)most && number < 0x1p53) || number != floor(number)) {
        return tide_kernel_fail(error, TIDE_EINVAL, "%s: %g is not a whole number from %llu to %llu",
                                kernel->parameters[index].name, number, (unsigned long long)least,
                                (unsigned long long)most);
    }
    *out = (uint64_t)number;
    return 0;
}

int tide_kernel_weight(const struct tide_kernel *kernel, const struct tide_argument *arguments, size_t index,
                       float *out, char *error) {
    double number = number_of(kernel, arguments, index);
    if (!(number >= 0 && number <= 1e30)) {
        return tide_kernel_fail(error, TIDE_EINVAL, "%s: %g is not a finite number >= 0",
                                kernel->parameters[index].name, number);
    }
    *out = (float)number;
    return 0;
}

int tide_kernel_triples(const struct tide_kernel *kernel, const struct tide_argument *arguments, size_t index,
                        size_t *count, char *error) {
    const struct tide_tensor *tensor = &arguments[index].tensor;
    size_t elements = tensor->rows * tensor->columns;
    if (tensor->type != TIDE_U32 || elements % 3 || (tensor->columns != 3 && tensor->columns != 1 && elements)) {
        return tide_kernel_fail(error, TIDE_EINVAL, "%s: not an n x 3 array of u32", kernel->parameters[index].name);
    }
    *count = elements / 3;
    return 0;
}

int tide_kernel_choice(const struct tide_kernel *kernel, const struct tide_argument *arguments, size_t index,
                       const char *const *choices, size_t count, size_t *out, char *error) {
    *out = 0;
    if (!arguments[index].given) {
        return 0;
    }
    for (size_t i = 0; i < count; i++) {
        if (strcmp(arguments[index].text, choices[i]) == 0) {
            *out = i;
            return 0;
        }
    }
    char list[128] = "";
    for (size_t i = 0; i < count; i++) {
        size_t used = strlen(list);
        snprintf(list + used, sizeof(list) - used, "%s\"%s\"", i ? ", " : "", choices[i]);
    }
    return tide_kernel_fail(error, TIDE_EINVAL, "%s: \"%.60s\" is none of %s", kernel->parameters[index].name,
                            arguments[index].text, list);
}

int tide_kernel_vector(const struct tide_kernel *kernel, const struct tide_argument *arguments, size_t index,
                       size_t want, double **out, char *error) {
    const struct tide_argument *a = &arguments[index];
    const size_t count = a->tensor.rows * a->tensor.columns;
    if (a->given && count != want) {
        return tide_kernel_fail(error, TIDE_EINVAL, "%s has %zu numbers, not %zu", kernel->parameters[index].name,
                                count, want);
    }
    *out = a->given ? a->tensor.data : NULL;
    return 0;
}
