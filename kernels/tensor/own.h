/* Operations of a module (tide/kernel.h), called as those of this build are; for devices, C++ too. */
#ifndef TIDE_TENSOR_OWN_H
#define TIDE_TENSOR_OWN_H

#include "kernel.h"
#include "operation.h"

#include <string.h>

static inline struct tide_own_value tide_own_value(const struct tide_operand *o) {
    struct tide_own_value value;
    value.data = o->data;
    value.rows = o->rows;
    value.columns = o->columns;
    return value;
}

/* Operands lie in the host's memory, or in that of the device whose stream is given. `error`: TIDE_KERNEL_ERROR_BYTES,
 * filled in with a negative code. */
static inline int tide_own_run(const struct tide_op_call *call, size_t element, bool backward, void *stream,
                               char *error) {
    const struct tide_own_operation *own = call->attributes->own;
    struct tide_own_value values[TIDE_OP_INPUTS], made[TIDE_OP_OUTPUTS], by[TIDE_OWN_OPERANDS];
    struct tide_own_call c;
    size_t next = 0;
    memset(by, 0, sizeof(by));
    for (size_t i = 0; i < TIDE_OP_INPUTS; i++) {
        values[i] = tide_own_value(&call->in[i]);
    }
    for (size_t o = 0; o < TIDE_OP_OUTPUTS; o++) {
        made[o] = tide_own_value(&call->out[o]);
    }
    for (size_t i = 0; backward && i < own->in_count; i++) {
        if (!(call->attributes->id >> i & 1)) { /* an index has no gradient */
            by[i] = made[next++];
        }
    }
    strcpy(error, "it says no reason");
    c.element = element;
    c.numbers = call->attributes->own_numbers;
    c.in = values;
    c.out = backward ? values + own->in_count : made;
    c.g = backward ? values + own->in_count + own->out_count : NULL;
    c.by = by;
    c.error = error;
    int code = stream ? (backward ? own->cuda_backward : own->cuda_forward)(&c, stream)
                      : (backward ? own->backward : own->forward)(&c);
    return code < 0 ? code : 0;
}

#endif
