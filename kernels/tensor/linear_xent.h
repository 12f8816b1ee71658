/*
 * The last layer and its loss in one operation (LINEAR_XENT), for classes by the ten thousand: logits are made for some
 * rows at a time, become their own gradients in place, and are gone before the next rows are looked at. What is kept of
 * them is at most TIDE_LINEAR_XENT_BYTES, or 16 rows. The products are those of a whole step, so nothing is computed
 * twice.
 *
 * All devices do it by their own products and cross-entropy: a kit names these.
 */
#ifndef TIDE_TENSOR_LINEAR_XENT_H
#define TIDE_TENSOR_LINEAR_XENT_H

#include "operation.h"

#include <string.h>

enum { TIDE_LINEAR_XENT_BYTES = 16 << 20, TIDE_LINEAR_XENT_ROWS = 16 };

struct tide_linear_xent {
    size_t element;
    tide_op_function mm, xent;
    size_t (*scratch)(enum tide_op_code code, const struct tide_op_call *call);
    int (*total)(const struct tide_op_call *call, size_t chunks, const double *parts); /* [chunks, 3] to the loss */
};

static inline size_t tide_linear_xent_classes(const struct tide_op_call *call) {
    return call->attributes->tb ? call->in[1].rows : call->in[1].columns;
}

static inline size_t tide_linear_xent_rows(const struct tide_op_call *call, size_t element) {
    const size_t row = element * tide_linear_xent_classes(call), all = call->in[0].rows;
    size_t rows = row ? TIDE_LINEAR_XENT_BYTES / row : all;
    rows = rows < TIDE_LINEAR_XENT_ROWS ? (size_t)TIDE_LINEAR_XENT_ROWS : rows;
    return rows < all ? rows : all;
}

/* The cross-entropy of `rows` rows from `first` on, of logits `z`, which become their gradient. */
static inline void tide_linear_xent_loss(const struct tide_op_call *call, size_t element, size_t first, size_t rows,
                                         void *z, double *loss, void *scratch, struct tide_op_call *out) {
    const size_t k = tide_linear_xent_classes(call);
    memset(out, 0, sizeof *out);
    out->attributes = call->attributes;
    out->queue = call->queue;
    out->scratch = scratch;
    out->in[0].data = out->out[1].data = z;
    out->in[0].rows = out->out[1].rows = out->in[1].rows = out->in[2].rows = rows;
    out->in[0].columns = out->out[1].columns = k;
    out->in[1].columns = out->in[2].columns = 1;
    out->in[1].data = (char *)call->in[2].data + first * sizeof(int32_t);
    out->in[2].data = call->in[3].data ? (char *)call->in[3].data + first * element : NULL;
    out->out[0].data = loss;
    out->out[0].rows = 1;
    out->out[0].columns = 3;
}

static inline size_t tide_linear_xent_logits(const struct tide_op_call *call, size_t element) {
    const size_t bytes = tide_linear_xent_rows(call, element) * tide_linear_xent_classes(call) * element;
    return (bytes + 63) / 64 * 64;
}

static inline size_t tide_linear_xent_chunks(const struct tide_op_call *call, size_t element) {
    const size_t rows = tide_linear_xent_rows(call, element);
    return rows ? (call->in[0].rows + rows - 1) / rows : 1;
}

static inline size_t tide_linear_xent_parts(const struct tide_op_call *call, size_t element) {
    return (tide_linear_xent_chunks(call, element) * 3 * sizeof(double) + 63) / 64 * 64;
}

static inline size_t tide_linear_xent_scratch(const struct tide_op_call *call, const struct tide_linear_xent *kit) {
    struct tide_op_call loss;
    tide_linear_xent_loss(call, kit->element, 0, tide_linear_xent_rows(call, kit->element), NULL, NULL, NULL, &loss);
    return tide_linear_xent_logits(call, kit->element) + tide_linear_xent_parts(call, kit->element) +
           kit->scratch(TIDE_OP_XENT, &loss);
}

/* c = a b, or c += a b. */
static inline int tide_linear_xent_product(const struct tide_op_call *call, const struct tide_linear_xent *kit,
                                           const struct tide_operand *a, bool ta, const struct tide_operand *b, bool tb,
                                           const struct tide_operand *c, bool accumulate) {
    struct tide_attributes attributes;
    struct tide_op_call product;
    memset(&attributes, 0, sizeof attributes);
    memset(&product, 0, sizeof product);
    attributes.ta = ta;
    attributes.tb = tb;
    product.attributes = &attributes;
    product.queue = call->queue;
    product.accumulate = accumulate;
    product.in[0] = *a;
    product.in[1] = *b;
    product.out[0] = *c;
    return kit->mm(&product);
}

static inline struct tide_operand tide_linear_xent_part(const struct tide_operand *of, size_t element, size_t first,
                                                        size_t rows) {
    struct tide_operand part = *of;
    part.data = (char *)of->data + first * of->columns * element;
    part.rows = rows;
    return part;
}

static inline int tide_linear_xent_run(const struct tide_op_call *call, const struct tide_linear_xent *kit) {
    const size_t step = tide_linear_xent_rows(call, kit->element), all = call->in[0].rows;
    const bool tb = call->attributes->tb;
    char *scratch = (char *)call->scratch;
    double *parts = (double *)(void *)(scratch + tide_linear_xent_logits(call, kit->element));
    char *inner = scratch + tide_linear_xent_logits(call, kit->element) + tide_linear_xent_parts(call, kit->element);
    size_t first = 0, chunks = 0;
    do {
        const size_t rows = all - first < step ? all - first : step;
        const struct tide_operand x = tide_linear_xent_part(&call->in[0], kit->element, first, rows);
        struct tide_op_call loss;
        tide_linear_xent_loss(call, kit->element, first, rows, scratch, parts + 3 * chunks, inner, &loss);
        const struct tide_operand *z = &loss.in[0];
        int code = tide_linear_xent_product(call, kit, &x, false, &call->in[1], tb, z, false);
        code = code == 0 ? kit->xent(&loss) : code;
        first += rows;
        chunks++;
        if (code == 0 && call->attributes->count == 1) {
            continue;
        }
        const bool more = first > rows;
        const struct tide_operand dx = tide_linear_xent_part(&call->out[1], kit->element, first - rows, rows);
        code = code == 0 ? tide_linear_xent_product(call, kit, z, false, &call->in[1], !tb, &dx, false) : code;
        code = code != 0 ? code
               : tb      ? tide_linear_xent_product(call, kit, z, true, &x, false, &call->out[2], more)
                         : tide_linear_xent_product(call, kit, &x, true, z, false, &call->out[2], more);
        if (code != 0) {
            return code;
        }
    } while (first < all);
    return kit->total(call, chunks, parts);
}

#endif
