/* Matrix products: OpenBLAS's, single-threaded. Shapes were checked when the program was made. */
#include "tensor/cpu/gemm.h"
#include "tensor/cpu/isa/isa.h"

int OP(mm)(const struct tide_op_call *call) {
    const struct tide_attributes *t = call->attributes;
    const struct tide_operand *a = &call->in[0], *b = &call->in[1], *c = &call->out[0];
    size_t k = t->ta ? a->rows : a->columns;
    return tide_cpu_gemm(t->ta, t->tb, c->rows, c->columns, k, t->alpha == 0 ? 1.0f : (float)t->alpha, a->data,
                         tide_operand_stride(a), b->data, tide_operand_stride(b), call->accumulate ? 1.0f : 0.0f,
                         c->data, tide_operand_stride(c));
}

/* in[0] has g n rows of k columns, in[1] g k rows of m columns, before ta and tb. */
int OP(bmm)(const struct tide_op_call *call) {
    const struct tide_attributes *t = call->attributes;
    const struct tide_operand *a = &call->in[0], *b = &call->in[1], *c = &call->out[0];
    size_t inner = t->ta ? t->n : a->columns;
    size_t rows = t->ta ? a->columns : t->n, rows_b = t->tb ? c->columns : inner;
    if (rows == 0 || c->columns == 0) {
        return 0;
    }
    for (size_t g = 0, groups = c->rows / rows; g < groups; g++) {
        int code =
            tide_cpu_gemm(t->ta, t->tb, rows, c->columns, inner, 1.0f, (const float *)a->data + g * t->n * a->columns,
                          a->columns, (const float *)b->data + g * rows_b * b->columns, b->columns, 0.0f,
                          (float *)c->data + g * rows * c->columns, c->columns);
        if (code != 0) {
            return code;
        }
    }
    return 0;
}
