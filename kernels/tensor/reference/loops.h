/* What the files of the device "reference" share. */
#ifndef TIDE_REFERENCE_LOOPS_H
#define TIDE_REFERENCE_LOOPS_H

#include "base/base.h"
#include "operation.h"

#include <math.h>

typedef const struct tide_op_call *call_pointer;

static inline const double *in(call_pointer c, size_t i) {
    return c->in[i].data;
}

static inline double *out(call_pointer c, size_t i) {
    return c->out[i].data;
}

#define REF(name) tide__reference_##name
#define TIDE_OPERATION(code, name, ...) int REF(name)(call_pointer call);
#include "operations.def"
#undef TIDE_OPERATION

#endif
