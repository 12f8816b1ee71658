/* What operations take, counted from their operands: for the cost model of the simulator. */
#include "operation.h"

static double elements(const struct tide_operand *o) {
    return (double)o->rows * (double)o->columns;
}

static double flops_of(enum tide_op_code code, const struct tide_op_call *call, double touched) {
    const struct tide_operand *in = call->in, *out = call->out;
    const struct tide_attributes *t = call->attributes;
    double made = elements(&out[0]);
    switch (code) {
    case TIDE_OP_MM:
        return 2 * made * (double)(t->ta ? in[0].rows : in[0].columns);
    case TIDE_OP_LINEAR_XENT: /* three products */
        return 6 * elements(&in[1]) * (double)in[0].rows;
    case TIDE_OP_BMM:
        return 2 * elements(&in[0]) * (double)out[0].columns;
    case TIDE_OP_CONV:
        return 2 * made * (double)in[1].rows;
    case TIDE_OP_CONV_DX:
        return 2 * elements(&in[0]) * (double)in[1].rows;
    case TIDE_OP_CONV_DW:
        return 2 * elements(&in[1]) * (double)out[0].rows;
    case TIDE_OP_MAP:
        return made * t->region.micro_count;
    case TIDE_OP_MAXPOOL:
    case TIDE_OP_AVGPOOL:
        return made * t->window.kh * t->window.kw;
    default:
        return touched; /* one an element: these are bound by memory */
    }
}

struct tide_work tide_op_work(enum tide_op_code code, const struct tide_op_call *call, size_t element) {
    if (code == TIDE_OP_RESHAPE) {
        return (struct tide_work){0, 0};
    }
    double touched = 0;
    bool picks = code == TIDE_OP_EMBED || code == TIDE_OP_SLICE; /* some of the first operand */
    for (size_t i = 0; i < TIDE_OP_INPUTS; i++) {
        touched += elements(picks && i == 0 ? &call->out[0] : &call->in[i]);
    }
    for (size_t o = 0; o < TIDE_OP_OUTPUTS; o++) {
        touched += elements(&call->out[o]) * (call->accumulate && o == 0 ? 2 : 1);
    }
    return (struct tide_work){flops_of(code, call, touched), touched * (double)element};
}

struct tide_work tide_update_work(enum tide_rule rule, size_t count, size_t element) {
    double arrays = 3 + 2 * tide_rule_states(rule); /* w, g read; w written; states both */
    return (struct tide_work){(double)count * arrays, (double)count * arrays * (double)element};
}
