/* The functions of one instruction set by code. */
#include "tensor/cpu/isa/isa.h"

extern const tide_op_function OP(functions)[TIDE_OP_COUNT];

const tide_op_function OP(functions)[TIDE_OP_COUNT] = {
#define TIDE_OPERATION(code, name, ...) OP(name),
#include "operations.def"
#undef TIDE_OPERATION
};
