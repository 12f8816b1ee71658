/*
 * Reverse differentiation of the list: from the losses back, each operation's adjoint appends the
 * operations that give its operands' gradients. Losses are sums, and give the gradient by their
 * operand themselves. Values that depend on no parameter (nor, if asked, on an input) get none.
 */
#include "graph/operations.h"

#include "graph/levels.h"

#include <string.h>

uint32_t tide__walk_apply(struct walk *w, enum tide_op_code code, size_t count, const uint32_t *in,
                          const struct tide_attributes *attributes) {
    uint32_t out = NONE;
    if (w->error == 0) {
        w->error = tide_program_apply(w->p, code, in, count, attributes, &out);
    }
    return w->error == 0 ? out : 0;
}

uint32_t tide__walk_map(struct walk *w, enum tide_micro_code code, uint32_t a, uint32_t b, uint32_t c) {
    uint32_t out = NONE, in[3] = {a, b, c};
    double zeros[3] = {0, 0, 0};
    if (w->error == 0) {
        w->error = tide_program_map(w->p, code, in, zeros, &out);
    }
    return w->error == 0 ? out : 0;
}

static uint32_t map2(struct walk *w, enum tide_micro_code code, uint32_t a, uint32_t b) {
    return tide__walk_map(w, code, a, b, NONE);
}

static uint32_t map_constant(struct walk *w, enum tide_micro_code code, double a, uint32_t b) {
    uint32_t out = NONE, in[3] = {NONE, b, NONE};
    double constants[3] = {a, 0, 0};
    if (w->error == 0) {
        w->error = tide_program_map(w->p, code, in, constants, &out);
    }
    return w->error == 0 ? out : 0;
}

uint32_t tide__walk_reshape(struct walk *w, uint32_t x, const struct value *like) {
    uint32_t out = NONE;
    if (w->error == 0) {
        w->error = tide_program_reshape(w->p, x, like->rank, like->dims, &out);
    }
    return w->error == 0 ? out : 0;
}

void tide__walk_add(struct walk *w, uint32_t value, uint32_t g) {
    if (w->error == 0 && value < w->values) {
        uint32_t before = w->gradient[value];
        w->gradient[value] = before == NONE ? g : map2(w, TIDE_MICRO_ADD, before, g);
    }
}

void tide__walk_add_outputs(struct walk *w, const struct node *to, uint32_t first, size_t count) {
    for (size_t i = 0; i < count && w->error == 0; i++) {
        if (w->needed[to->in[i]]) {
            tide__walk_add(w, to->in[i], w->p->nodes[w->p->values[first].producer].out[i]);
        }
    }
}

/* 0 x may be NaN, hence the selection. */
uint32_t tide__walk_zeros(struct walk *w, uint32_t value) {
    return tide__walk_map(w, TIDE_MICRO_SELECT, map_constant(w, TIDE_MICRO_MUL, 0, value), NONE, NONE);
}

/* ---- elementwise ---- */

/* The gradient by the operand of a one-operand map; NONE: it has none. */
static uint32_t unary(struct walk *w, enum tide_micro_code code, uint32_t x, uint32_t y) {
    uint32_t g = w->g, t;
    switch (code) {
    case TIDE_MICRO_NEG:
        return map2(w, TIDE_MICRO_NEG, g, NONE);
    case TIDE_MICRO_ABS:
        return map2(w, TIDE_MICRO_MUL, g, map2(w, TIDE_MICRO_SIGN, x, NONE));
    case TIDE_MICRO_SQR:
        return map2(w, TIDE_MICRO_MUL, g, map2(w, TIDE_MICRO_ADD, x, x));
    case TIDE_MICRO_SQRT:
        return map2(w, TIDE_MICRO_DIV, map_constant(w, TIDE_MICRO_MUL, 0.5, g), y);
    case TIDE_MICRO_RSQRT:
        t = map2(w, TIDE_MICRO_MUL, map2(w, TIDE_MICRO_SQR, y, NONE), y);
        return map2(w, TIDE_MICRO_MUL, map_constant(w, TIDE_MICRO_MUL, -0.5, g), t);
    case TIDE_MICRO_RECIP:
        t = map2(w, TIDE_MICRO_NEG, map2(w, TIDE_MICRO_SQR, y, NONE), NONE);
        return map2(w, TIDE_MICRO_MUL, g, t);
    case TIDE_MICRO_EXP:
        return map2(w, TIDE_MICRO_MUL, g, y);
    case TIDE_MICRO_LOG:
        return map2(w, TIDE_MICRO_DIV, g, x);
    case TIDE_MICRO_LOG1P:
        return map2(w, TIDE_MICRO_DIV, g, map_constant(w, TIDE_MICRO_ADD, 1, x));
    case TIDE_MICRO_SIGMOID:
        t = map2(w, TIDE_MICRO_MUL, y, map_constant(w, TIDE_MICRO_SUB, 1, y));
        return map2(w, TIDE_MICRO_MUL, g, t);
    case TIDE_MICRO_TANH:
        t = map_constant(w, TIDE_MICRO_SUB, 1, map2(w, TIDE_MICRO_SQR, y, NONE));
        return map2(w, TIDE_MICRO_MUL, g, t);
    case TIDE_MICRO_RELU: /* 0 at 0: where 0 >= y, 0, else g */
        t = map_constant(w, TIDE_MICRO_GE, 0, y);
        return tide__walk_map(w, TIDE_MICRO_SELECT, t, NONE, g);
    case TIDE_MICRO_SOFTPLUS:
        return map2(w, TIDE_MICRO_MUL, g, map2(w, TIDE_MICRO_SIGMOID, x, NONE));
    case TIDE_MICRO_ERF: /* 2 / sqrt(pi) exp(-x^2) */
        t = tide__walk_map(w, TIDE_MICRO_EXP, map2(w, TIDE_MICRO_NEG, map2(w, TIDE_MICRO_SQR, x, NONE), NONE), NONE,
                           NONE);
        return map2(w, TIDE_MICRO_MUL, g, map_constant(w, TIDE_MICRO_MUL, 1.1283791670955126, t));
    default: /* sign */
        return NONE;
    }
}

/* By operand i of a map of two or three; operand[] has NONE for constants. */
static uint32_t several(struct walk *w, const struct tide_region *region, const uint32_t *operand, size_t i,
                        uint32_t y) {
    uint32_t g = w->g, other = operand[1 - (i & 1)];
    double number = region->constant[1 - (i & 1)];
    enum tide_micro_code code = region->micro[0].code;
    switch (code) {
    case TIDE_MICRO_ADD:
        return g;
    case TIDE_MICRO_SUB:
        return i == 0 ? g : map2(w, TIDE_MICRO_NEG, g, NONE);
    case TIDE_MICRO_MUL:
        return other == NONE ? map_constant(w, TIDE_MICRO_MUL, number, g) : map2(w, TIDE_MICRO_MUL, g, other);
    case TIDE_MICRO_DIV:
        if (i == 1) {
            uint32_t quotient = map2(w, TIDE_MICRO_DIV, y, operand[1]);
            return map2(w, TIDE_MICRO_NEG, map2(w, TIDE_MICRO_MUL, g, quotient), NONE);
        }
        return other == NONE ? map_constant(w, TIDE_MICRO_MUL, 1 / number, g) : map2(w, TIDE_MICRO_DIV, g, other);
    case TIDE_MICRO_MIN:
    case TIDE_MICRO_MAX: { /* of equals the first */
        uint32_t in[3] = {operand[0], operand[1], NONE}, first = 0;
        if (w->error == 0) {
            uint32_t order[3] = {in[code == TIDE_MICRO_MAX ? 0 : 1], in[code == TIDE_MICRO_MAX ? 1 : 0], NONE};
            double numbers[3] = {region->constant[code == TIDE_MICRO_MAX ? 0 : 1],
                                 region->constant[code == TIDE_MICRO_MAX ? 1 : 0], 0};
            w->error = tide_program_map(w->p, TIDE_MICRO_GE, order, numbers, &first);
        }
        return i == 0 ? tide__walk_map(w, TIDE_MICRO_SELECT, first, g, NONE)
                      : tide__walk_map(w, TIDE_MICRO_SELECT, first, NONE, g);
    }
    case TIDE_MICRO_SELECT:
        if (i == 0 || operand[0] == NONE) {
            return NONE;
        }
        return i == 1 ? tide__walk_map(w, TIDE_MICRO_SELECT, operand[0], g, NONE)
                      : tide__walk_map(w, TIDE_MICRO_SELECT, operand[0], NONE, g);
    default:
        return NONE; /* comparisons */
    }
}

void tide__adjoint_map(struct walk *w) {
    const struct tide_region region = w->node->attributes.region;
    const struct node node = *w->node; /* appending moves the list */
    uint32_t operand[3] = {NONE, NONE, NONE};
    size_t next = 0;
    for (size_t i = 0; i < region.source_count; i++) {
        operand[i] = region.kind[i] == TIDE_SOURCE_CONSTANT ? NONE : node.in[next++];
    }
    for (size_t i = 0; i < region.source_count; i++) {
        if (operand[i] == NONE || w->error != 0 || !w->needed[operand[i]]) {
            continue;
        }
        uint32_t g = region.source_count == 1 ? unary(w, region.micro[0].code, operand[0], node.out[0])
                                              : several(w, &region, operand, i, node.out[0]);
        if (g == NONE) {
            continue;
        }
        if (region.kind[i] == TIDE_SOURCE_ROW) {
            g = tide__walk_apply(w, TIDE_OP_COLUMN_SUMS, 1, &g, NULL);
        } else if (region.kind[i] == TIDE_SOURCE_COLUMN) {
            g = tide__walk_apply(w, TIDE_OP_ROW_SUMS, 1, &g, NULL);
        }
        tide__walk_add(w, operand[i], g);
    }
}

/* ---- products, windows ---- */

static uint32_t product(struct walk *w, enum tide_op_code code, bool ta, bool tb, uint32_t a, uint32_t b,
                        double alpha) {
    struct tide_attributes t = {.ta = ta, .tb = tb, .alpha = alpha};
    return tide__walk_apply(w, code, 2, (uint32_t[]){a, b}, &t);
}

/* y = a b: da = g b', db = a' g; and so on for the transposed. The right operand last, so that its
 * old value is read before a folded update changes it. */
void tide__adjoint_product(struct walk *w) {
    const struct node node = *w->node;
    enum tide_op_code code = node.code;
    bool ta = node.attributes.ta, tb = node.attributes.tb;
    double alpha = node.attributes.alpha;
    uint32_t a = node.in[0], b = node.in[1], g = w->g;
    bool by_a = tide__walk_wants(w, 0), by_b = tide__walk_wants(w, 1);
    if (by_a) {
        tide__walk_add(w, a, ta ? product(w, code, tb, true, b, g, alpha) : product(w, code, false, !tb, g, b, alpha));
    }
    if (by_b) {
        tide__walk_add(w, b, tb ? product(w, code, true, ta, g, a, alpha) : product(w, code, !ta, false, a, g, alpha));
    }
}

void tide__adjoint_conv(struct walk *w) {
    const struct node node = *w->node;
    bool by_x = tide__walk_wants(w, 0), by_w = tide__walk_wants(w, 1);
    if (by_x) {
        uint32_t in[2] = {w->g, node.in[1]};
        tide__walk_add(w, node.in[0], tide__walk_apply(w, TIDE_OP_CONV_DX, 2, in, &node.attributes));
    }
    if (by_w) {
        uint32_t in[2] = {node.in[0], w->g};
        tide__walk_add(w, node.in[1], tide__walk_apply(w, TIDE_OP_CONV_DW, 2, in, &node.attributes));
    }
}

/* Gradients that go to one image operand, whose dims the window carries. */
void tide__adjoint_image(struct walk *w) {
    const struct node node = *w->node;
    const enum tide_op_code code = node.code == TIDE_OP_MAXPOOL   ? TIDE_OP_MAXPOOL_DX
                                   : node.code == TIDE_OP_AVGPOOL ? TIDE_OP_AVGPOOL_DX
                                                                  : TIDE_OP_MEAN_PIXELS_DX;
    struct tide_attributes t = node.attributes;
    const struct value *x = &w->p->values[node.in[0]];
    uint32_t in[2] = {w->g, node.out[1]};
    t.window.h = x->dims[0];
    t.window.w = x->dims[1];
    t.window.c = x->dims[2];
    tide__walk_add(w, node.in[0], tide__walk_apply(w, code, code == TIDE_OP_MAXPOOL_DX ? 2 : 1, in, &t));
}

void tide__adjoint_norm(struct walk *w) {
    const struct node node = *w->node;
    const enum tide_op_code code = node.code == TIDE_OP_BATCHNORM ? TIDE_OP_BATCHNORM_DX : TIDE_OP_LAYERNORM_DX;
    uint32_t in[5] = {w->g, node.in[0], node.in[1], node.out[1], node.out[2]};
    tide__walk_add_outputs(w, &node, tide__walk_apply(w, code, 5, in, &node.attributes), 3);
}

/* ---- rows and columns ---- */

static uint32_t sliced(struct walk *w, uint32_t g, enum tide_op_code code, size_t first, size_t count) {
    struct tide_attributes t = {.first = (uint32_t)first, .count = (uint32_t)count};
    return tide__walk_apply(w, code, 1, &g, &t);
}

void tide__adjoint_columns(struct walk *w) {
    const struct node node = *w->node;
    size_t columns = tide__graph_columns(&w->p->values[node.in[0]]);
    switch (node.code) {
    case TIDE_OP_SLICE:
        tide__walk_add(w, node.in[0], sliced(w, w->g, TIDE_OP_SLICE_DX, node.attributes.first, columns));
        break;
    case TIDE_OP_SLICE_DX:
        tide__walk_add(w, node.in[0], sliced(w, w->g, TIDE_OP_SLICE, node.attributes.first, columns));
        break;
    case TIDE_OP_CONCAT: {
        size_t second = tide__graph_columns(&w->p->values[node.in[1]]);
        bool by_a = tide__walk_wants(w, 0), by_b = tide__walk_wants(w, 1);
        if (by_a) {
            tide__walk_add(w, node.in[0], sliced(w, w->g, TIDE_OP_SLICE, 0, columns));
        }
        if (by_b) {
            tide__walk_add(w, node.in[1], sliced(w, w->g, TIDE_OP_SLICE, columns, second));
        }
        break;
    }
    default: { /* sums: g broadcast over x's shape */
        uint32_t zeros = tide__walk_zeros(w, node.in[0]);
        tide__walk_add(w, node.in[0], map2(w, TIDE_MICRO_ADD, zeros, w->g));
        break;
    }
    }
}

static void adjoint_reshape(struct walk *w) {
    const struct node node = *w->node;
    if (node.joins) { /* each kind reads its rows of it */
        for (size_t i = 0; i < node.in_count; i++) {
            tide__walk_add(w, node.in[i], w->g);
        }
        return;
    }
    const struct value v = w->p->values[node.in[0]];
    tide__walk_add(w, node.in[0], tide__walk_reshape(w, w->g, &v));
}

void tide__adjoint_embed(struct walk *w) {
    const struct node node = *w->node;
    const struct value table = w->p->values[node.in[0]];
    const uint32_t in[2] = {w->g, node.in[1]};
    struct tide_attributes t = {.n = node.attributes.n};
    if (table.space == TIDE_SPACE_TABLE) {
        t.id = table.table;
    } else if (!table.space) {
        t.window.h = table.dims[0];
    }
    uint32_t made = tide__walk_apply(w, TIDE_OP_EMBED_DW, 2, in, &t);
    if (t.n > 0 && w->error == 0 && w->p->values[made].rank != table.rank) {
        made = tide__walk_reshape(w, made, &table); /* an id an example */
    }
    tide__walk_add(w, node.in[0], made);
}

void tide__adjoint_scatter(struct walk *w) {
    const struct node node = *w->node;
    const struct value x = w->p->values[node.in[0]];
    const uint32_t in[2] = {w->g, node.in[1]};
    uint32_t made = tide__walk_apply(w, TIDE_OP_EMBED, 2, in, NULL);
    if (w->error == 0 && w->p->values[made].rank != x.rank) {
        made = tide__walk_reshape(w, made, &x);
    }
    tide__walk_add(w, node.in[0], made);
}

/* ---- rows of lists ---- */

static uint32_t list(struct walk *w, enum tide_list which, uint32_t nth) {
    uint32_t out = NONE;
    if (w->error == 0) {
        w->error = tide__vertex_list(w->p, which, nth, &out);
    }
    return w->error == 0 ? out : 0;
}

/* The transposed list: of what a child gives to all its parents the gradients are added up, of what
 * an edge gives there is one. */
void tide__adjoint_lists(struct walk *w) {
    const struct node node = *w->node;
    const struct value x = w->p->values[node.in[0]];
    const size_t place = w->p->values[node.in[1]].place;
    const uint32_t nth = (uint32_t)(place / TIDE_LIST_COUNT);
    uint32_t in[4] = {w->g, 0, 0, 0};
    enum tide_op_code code = TIDE_OP_GATHER_SUM;
    size_t count = 3;
    if (node.code == TIDE_OP_GATHER_MAX) {
        bool edge = x.space == TIDE_SPACE_EDGE;
        code = TIDE_OP_GATHER_MAX_DX;
        count = 4;
        in[1] = node.out[1];
        in[2] = list(w, edge ? TIDE_LIST_EDGE : TIDE_LIST_PARENT_START, 0);
        in[3] = list(w, edge ? TIDE_LIST_EDGE_PARENT : TIDE_LIST_PARENT, 0);
    } else if (node.code == TIDE_OP_GATHER_SUM && x.space == TIDE_SPACE_EDGE) {
        code = TIDE_OP_GATHER;
        count = 2;
        in[1] = list(w, TIDE_LIST_EDGE_PARENT, 0);
    } else if (node.code == TIDE_OP_GATHER_SUM) {
        in[1] = list(w, TIDE_LIST_PARENT_START, 0);
        in[2] = list(w, TIDE_LIST_PARENT, 0);
    } else if (place % TIDE_LIST_COUNT == TIDE_LIST_NTH_CHILD) {
        in[1] = list(w, TIDE_LIST_NTH_START, nth);
        in[2] = list(w, TIDE_LIST_NTH_PARENT, nth);
    } else if (place == TIDE_LIST_CHILD) {
        in[1] = list(w, TIDE_LIST_PARENT_START, 0);
        in[2] = list(w, TIDE_LIST_PARENT_EDGE, 0);
    } else { /* of an edge's parent */
        in[1] = list(w, TIDE_LIST_CHILD_START, 0);
        in[2] = list(w, TIDE_LIST_EDGE, 0);
    }
    tide__walk_add(w, node.in[0], tide__walk_apply(w, code, count, in, NULL));
}

void tide__adjoint_softmax(struct walk *w) {
    const uint32_t in[2] = {w->g, w->node->out[0]}, x = w->node->in[0];
    tide__walk_add(w, x, tide__walk_apply(w, TIDE_OP_SOFTMAX_DX, 2, in, NULL));
}

/* The mask is a function of the operation's number: the same again. */
void tide__adjoint_dropout(struct walk *w) {
    const struct tide_attributes t = w->node->attributes;
    const uint32_t dropouts = w->p->dropouts, x = w->node->in[0];
    w->p->dropouts = t.id;
    tide__walk_add(w, x, tide__walk_apply(w, TIDE_OP_DROPOUT, 1, &w->g, &t));
    w->p->dropouts = dropouts;
}

void tide__adjoint_none(struct walk *w) {
    w->error = tide__graph_wrong(w->p, "%s has no derivative", tide_op_names[w->node->code]);
}

static void adjoint(struct walk *w) {
    static void (*const adjoints[])(struct walk *) = {
#define TIDE_OPERATION(code, name, in, out, integers, flags, shape, adjoint) tide__adjoint_##adjoint,
#include "operations.def"
#undef TIDE_OPERATION
        adjoint_reshape,
    };
    adjoints[w->node->code](w);
}

/* ---- the walk ---- */

static void mark_needed(struct walk *w, bool of_inputs) {
    for (size_t i = 0; i < w->values; i++) {
        const struct value *v = &w->p->values[i];
        w->needed[i] = v->class == CLASS_PARAMETER || v->class == CLASS_TABLE || v->class == CLASS_CHILD ||
                       (of_inputs && v->class == CLASS_INPUT && v->type == TIDE_VALUE_FLOAT);
    }
    for (size_t n = 0; n < w->p->node_count; n++) {
        const struct node *node = &w->p->nodes[n];
        bool any = false;
        for (size_t i = 0; i < node->in_count; i++) {
            any = any || w->needed[node->in[i]];
        }
        for (size_t o = 0; o < node->out_count; o++) { /* what is no real number has no gradient */
            w->needed[node->out[o]] = any && (o == 0 || w->p->values[node->out[o]].type == TIDE_VALUE_FLOAT);
        }
    }
}

static void check_gradient(struct walk *w, const struct group *group, size_t i, uint32_t made) {
    const struct value *x = &w->p->values[group->in[i]], *g = &w->p->values[made < w->p->value_count ? made : 0];
    char is[80], wanted[80];
    if (made >= w->p->value_count || !same_dims(x, g) || g->type != x->type) {
        tide_program_shape(w->p, group->in[i], wanted, sizeof(wanted));
        tide_program_shape(w->p, made < w->p->value_count ? made : 0, is, sizeof(is));
        w->error = tide__graph_wrong(w->p, "backward of %s: gradient %zu is %s, and its operand %s", group->name, i + 1,
                                     is, wanted);
    }
}

/* Whether an output has a gradient that is wanted. */
static bool arrived(const struct walk *w, const uint32_t *out, size_t count) {
    bool any = false;
    for (size_t o = 0; o < count; o++) {
        any = any || (w->gradient[out[o]] != NONE && w->needed[out[o]]);
    }
    return any;
}

/* At a group's last operation all readers of its outputs have been visited. */
static void visit_group(struct walk *w, size_t n) {
    const struct group group = w->p->groups[w->p->nodes[n].group - 1];
    uint32_t g[TIDE_OP_OUTPUTS], by[TIDE_OP_INPUTS];
    if (n != group.last || !arrived(w, group.out, group.out_count)) {
        return;
    }
    if (!w->derive) {
        w->error = tide__graph_wrong(w->p, "operation %s: nobody says what its gradients are", group.name);
        return;
    }
    for (size_t o = 0; o < TIDE_OP_OUTPUTS; o++) {
        g[o] = NONE;
    }
    for (size_t o = 0; o < group.out_count; o++) {
        g[o] = w->gradient[group.out[o]] == NONE ? tide__walk_zeros(w, group.out[o]) : w->gradient[group.out[o]];
    }
    for (size_t i = 0; i < group.in_count; i++) {
        by[i] = NONE;
    }
    char at[AT_SIZE];
    memcpy(at, w->p->at, sizeof(at));
    w->error = w->error == 0 ? w->derive->group(w->derive->arg, w->p->nodes[n].group - 1, g, by) : w->error;
    memcpy(w->p->at, at, sizeof(at));
    for (size_t i = 0; i < group.in_count && w->error == 0; i++) {
        if (by[i] != NONE && w->needed[group.in[i]]) {
            check_gradient(w, &group, i, by[i]);
            tide__walk_add(w, group.in[i], by[i]);
        }
    }
}

static void visit(struct walk *w, size_t n) {
    struct node node = w->p->nodes[n];
    w->node = &node;
    w->p->layer = node.layer;
    w->p->kind = node.kind;
    memcpy(w->p->at, node.at, sizeof(w->p->at));
    if (node.group != 0) {
        visit_group(w, n);
        return;
    }
    if (tide_op_is_loss(node.code)) {
        for (size_t i = 1; i < node.out_count; i++) { /* its gradients of the first operands */
            if (w->needed[node.in[i - 1]]) {
                tide__walk_add(w, node.in[i - 1], node.out[i]);
            }
        }
        return;
    }
    if (arrived(w, node.out, node.out_count)) {
        if (w->gradient[node.out[0]] == NONE) { /* another output is used, and not the first */
            w->gradient[node.out[0]] = tide__walk_zeros(w, node.out[0]);
        }
        w->g = w->gradient[node.out[0]];
        adjoint(w);
    }
}

/* Reads what children published, at their rows. */
static bool crosses(const struct walk *w, const struct node *node) {
    return node->code >= TIDE_OP_GATHER && node->code <= TIDE_OP_GATHER_MAX &&
           w->p->values[node->in[0]].space == TIDE_SPACE_CHILD;
}

static void visit_section(struct walk *w, size_t count, enum section of, enum section adjoints) {
    w->p->section = (uint8_t)adjoints;
    for (size_t n = count; n-- > 0 && w->error == 0;) {
        if (w->p->nodes[n].section == of && !(of == SECTION_UP && crosses(w, &w->p->nodes[n]))) {
            visit(w, n);
        }
    }
}

/* What parents kept of the gradients of their sums over children: known once the adjoints of UP are
 * made, read at rows of other levels. */
static void visit_crossing(struct walk *w, size_t count, uint32_t *carried) {
    w->p->section = SECTION_DOWN;
    for (size_t n = count; n-- > 0 && w->error == 0;) {
        struct node node = w->p->nodes[n];
        carried[n] = NONE;
        if (node.section == SECTION_UP && crosses(w, &node) && w->needed[node.out[0]]) {
            w->error = tide__vertex_carried(w->p, node.out[0], &carried[n]);
            w->node = &node;
            w->g = carried[n];
            w->p->layer = node.layer;
            w->p->kind = node.kind;
            memcpy(w->p->at, node.at, sizeof(w->p->at));
            if (w->error == 0) {
                tide__adjoint_lists(w);
            }
        }
    }
}

/* A published value's gradient is also what its children's state got. */
static void publish(struct walk *w) {
    w->p->section = SECTION_DOWN;
    w->p->kind = 0;
    for (size_t i = 0; i < w->p->child_count && w->error == 0; i++) {
        uint32_t state = w->p->children[i], g = w->gradient[state];
        if (g != NONE) {
            w->error = tide__vertex_as(w->p, g, TIDE_SPACE_VERTEX, &g);
            tide__walk_add(w, w->p->values[state].alias, g);
        }
    }
}

static void resolve(struct walk *w, size_t count, const uint32_t *carried) {
    for (size_t n = 0; n < count && w->error == 0; n++) {
        uint32_t x = w->p->nodes[n].out[0];
        if (carried[n] == NONE) {
            continue;
        }
        uint32_t g = w->gradient[x];
        if (g == NONE) { /* nothing depends on it smoothly */
            w->p->kind = w->p->values[x].kind;
            g = tide__walk_zeros(w, x);
        }
        w->p->values[carried[n]].alias = g;
    }
}

static void walk_vertices(struct walk *w, size_t count) {
    uint32_t *carried = tide_alloc((count + 1) * sizeof(*carried));
    if (!carried) {
        w->error = TIDE_ENOMEM;
        return;
    }
    visit_section(w, count, SECTION_AFTER, SECTION_AFTER);
    visit_crossing(w, count, carried);
    visit_section(w, count, SECTION_CHILD, SECTION_DOWN);
    publish(w);
    visit_section(w, count, SECTION_UP, SECTION_DOWN);
    resolve(w, count, carried);
    visit_section(w, count, SECTION_BEFORE, SECTION_DEFERRED);
    tide_free(carried);
}

static void walk_back(struct walk *w, size_t count) {
    if (w->p->vertex) {
        walk_vertices(w, count);
        return;
    }
    for (size_t n = count; n-- > 0 && w->error == 0;) {
        visit(w, n);
    }
}

/* Each parameter's gradient is a value of its own, written by one operation into the gradient
 * array: what is a view, the loss's own, or another's as well is copied. */
static int own_gradient(struct walk *w, uint32_t parameter, uint32_t g) {
    struct tide_program *p = w->p;
    const struct value *v = &p->values[g];
    bool shared = v->root != g || v->class != CLASS_TEMPORARY;
    for (size_t i = 0; !shared && i < w->values; i++) {
        shared = i != parameter && w->gradient[i] == g;
    }
    shared = shared || !p->nodes[v->producer].backward;
    for (size_t n = v->producer + 1; !shared && v->producer != NONE && n < p->node_count; n++) {
        for (size_t i = 0; i < p->nodes[n].in_count; i++) {
            shared = shared || p->nodes[n].in[i] == g;
        }
    }
    p->values[parameter].gradient = g;
    if (shared) {
        uint32_t columns = (uint32_t)tide__graph_columns(v);
        p->layer = p->values[parameter].layer;
        g = sliced(w, g, TIDE_OP_SLICE, 0, columns);
        p->values[parameter].gradient = g;
    }
    return w->error;
}

static int finish(struct walk *w, bool of_inputs) {
    struct tide_program *p = w->p;
    p->kind = 0;
    for (size_t i = 0; i < w->values && w->error == 0; i++) {
        uint32_t g = w->gradient[i];
        if (g == NONE || !(p->values[i].class == CLASS_PARAMETER || p->values[i].class == CLASS_TABLE ||
                           (of_inputs && p->values[i].class == CLASS_INPUT))) {
            continue;
        }
        w->error = own_gradient(w, (uint32_t)i, g);
        if (w->error == 0 && p->values[i].class == CLASS_INPUT) {
            char name[NAME_SIZE];
            snprintf(name, sizeof(name), "d:%.60s", p->values[i].name);
            w->error = tide_program_output(p, name, p->values[i].gradient);
        }
    }
    return w->error;
}

int tide_program_differentiate(struct tide_program *p, bool of_inputs) {
    return tide_program_derive(p, of_inputs, NULL);
}

int tide_program_derive(struct tide_program *p, bool of_inputs, const struct tide_derive *derive) {
    if (p->differentiated || p->loss_count == 0) {
        return tide__graph_wrong(p, p->differentiated ? "the program is differentiated already"
                                                      : "the program has no loss");
    }
    int joined = tide__vertex_join(p);
    if (joined != 0) {
        return joined;
    }
    struct walk w = {.p = p, .values = p->value_count, .derive = derive};
    w.gradient = tide_alloc(p->value_count * sizeof(*w.gradient));
    w.needed = tide_alloc_zero(p->value_count, sizeof(*w.needed));
    if (!w.gradient || !w.needed) {
        w.error = TIDE_ENOMEM;
        goto out;
    }
    for (size_t i = 0; i < p->value_count; i++) {
        w.gradient[i] = NONE;
    }
    if (p->vertex) {
        w.error = tide__vertex_sections(p);
    }
    mark_needed(&w, of_inputs);
    p->backward = p->differentiated = true;
    if (w.error == 0) {
        walk_back(&w, p->node_count);
    }
    if (w.error == 0) {
        w.error = finish(&w, of_inputs);
    }
    if (w.error == 0 && p->vertex) {
        w.error = tide__vertex_order(p);
    }
out:
    tide_free(w.gradient);
    tide_free(w.needed);
    return w.error;
}
