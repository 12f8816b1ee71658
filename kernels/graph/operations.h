/*
 * What the functions of a row of operations.def are given: operands whose shapes they check (tide__shape_*), and the
 * walk back through the list, to which they append the operations that give the operands' gradients (tide__adjoint_*).
 */
#ifndef TIDE_GRAPH_OPERATIONS_H
#define TIDE_GRAPH_OPERATIONS_H

#include "graph/graph.h"

#include <string.h>

/* ---- shapes ---- */
struct shapes {
    struct tide_program *p;
    struct node *node;
    const struct value *in[TIDE_OP_INPUTS];
    struct value *out;
};

/* EINVAL: "conv of [...], weight [...]: why (the first comes from relu at file:line)" */
int tide__shape_wrong(const struct shapes *s, const char *format, ...) __attribute__((format(printf, 2, 3)));

static inline bool same_dims(const struct value *a, const struct value *b) {
    return a->space == b->space && a->rank == b->rank && memcmp(a->dims, b->dims, a->rank * sizeof(a->dims[0])) == 0;
}

static inline bool is_vector(const struct value *v, uint32_t columns) {
    return !v->space && v->rank == 1 && v->dims[0] == columns;
}

/* The same dims, but 1 in place of the last. */
static inline bool is_column(const struct value *v, const struct value *of) {
    return of->rank > 0 && v->space == of->space && v->rank == of->rank && v->dims[v->rank - 1] == 1 &&
           memcmp(v->dims, of->dims, (v->rank - 1u) * sizeof(v->dims[0])) == 0;
}

static inline struct value like(const struct value *v) {
    struct value made = {.space = v->space, .rank = v->rank, .table = v->table};
    memcpy(made.dims, v->dims, sizeof(made.dims));
    return made;
}

static inline struct value vector(uint32_t columns) {
    return (struct value){.rank = 1, .dims = {columns}};
}

/* Whether v has one number for each row of `of`: its dims but the last. */
static inline bool tide__shape_per_row(const struct value *v, const struct value *of) {
    size_t own = tide__graph_rows(v, 1) * tide__graph_columns(v);
    bool flat = tide__graph_columns(v) == 1 || v->rank + 1u == of->rank;
    return v->space == of->space && flat && own == tide__graph_rows(of, 1);
}

int tide__shape_reshape(struct shapes *s);
#define TIDE_OPERATION(code, name, in, out, integers, flags, shape, adjoint) int tide__shape_##shape(struct shapes *s);
#include "operations.def"
#undef TIDE_OPERATION

/* ---- adjoints ---- */
struct walk {
    struct tide_program *p;
    uint32_t *gradient; /* by value; NONE: none yet */
    bool *needed;       /* by value */
    size_t values;      /* of the forward list: what is appended has no gradient */
    const struct node *node;
    uint32_t g;                       /* gradient of the node's first output */
    const struct tide_derive *derive; /* of groups; NULL: there are none */
    int error;
};

/* The first output of an operation that is appended; after an error, anything. */
uint32_t tide__walk_apply(struct walk *w, enum tide_op_code code, size_t count, const uint32_t *in,
                          const struct tide_attributes *attributes);
/* NONE: the number 0 */
uint32_t tide__walk_map(struct walk *w, enum tide_micro_code code, uint32_t a, uint32_t b, uint32_t c);
uint32_t tide__walk_reshape(struct walk *w, uint32_t x, const struct value *like);
/* Zeros of the value's shape: a gradient that no operation made. */
uint32_t tide__walk_zeros(struct walk *w, uint32_t value);
/* Adds g to the gradient of a value. */
void tide__walk_add(struct walk *w, uint32_t value, uint32_t g);
/* Adds the outputs of an appended operation, the first of which is given, to the gradients of the first operands of
 * `to`, a copy. */
void tide__walk_add_outputs(struct walk *w, const struct node *to, uint32_t first, size_t count);
static inline bool tide__walk_wants(const struct walk *w, size_t input) {
    return w->error == 0 && w->needed[w->node->in[input]];
}

#define TIDE_OPERATION(code, name, in, out, integers, flags, shape, adjoint)                                           \
    void tide__adjoint_##adjoint(struct walk *w);
#include "operations.def"
#undef TIDE_OPERATION

#endif
