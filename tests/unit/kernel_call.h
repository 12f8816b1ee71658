/* Kernels called with arguments by name, as scripts call them. After cmocka.h. */
#ifndef TIDE_TEST_KERNEL_CALL_H
#define TIDE_TEST_KERNEL_CALL_H

#include "kernel.h"

#include <string.h>

enum { CALL_ARGUMENTS = 24 };

struct call {
    const struct tide_kernel *kernel;
    struct tide_argument a[CALL_ARGUMENTS];
};

static inline struct tide_argument *argument(struct call *c, const char *name) {
    for (size_t i = 0; i < c->kernel->parameter_count; i++) {
        if (strcmp(c->kernel->parameters[i].name, name) == 0) {
            c->a[i].given = true;
            return &c->a[i];
        }
    }
    fail_msg("%s has no parameter %s", c->kernel->name, name);
    return NULL;
}

static inline struct call begin(const struct tide_kernel *kernel) {
    struct call c = {.kernel = kernel};
    assert_true(kernel->parameter_count <= CALL_ARGUMENTS);
    for (size_t i = 0; i < kernel->parameter_count; i++) {
        c.a[i].number = kernel->parameters[i].number;
    }
    return c;
}

static inline void tensor(struct call *c, const char *name, const void *data, uint8_t type, size_t rows,
                   size_t columns) {
    argument(c, name)->tensor = (struct tide_tensor){(void *)(uintptr_t)data, rows, columns, type};
}

static inline void number(struct call *c, const char *name, double value) {
    argument(c, name)->number = value;
}

static inline double run(struct call *c, const char *result) {
    struct tide_result results[16];
    char error[256] = "";
    int count = c->kernel->run(c->a, results, error);
    if (count < 0) {
        fail_msg("%s: %s", c->kernel->name, error);
    }
    for (int i = 0; i < count; i++) {
        if (strcmp(results[i].name, result) == 0) {
            return results[i].value;
        }
    }
    fail_msg("%s gives no %s", c->kernel->name, result);
    return 0;
}

static inline int refused(struct call *c, char *error) {
    struct tide_result results[16];
    return c->kernel->run(c->a, results, error);
}

#endif
