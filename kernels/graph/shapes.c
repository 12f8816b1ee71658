/* Shape rules: what operands an operation accepts, and what it gives. */
#include "graph/graph.h"

#include <stdarg.h>
#include <string.h>

void tide_program_shape(const struct tide_program *p, uint32_t value, char *text, size_t capacity) {
    const struct value *v = &p->values[value];
    static const char *const spaces[] = {"", "v", "child", "edge", "rows"};
    int used = snprintf(text, capacity, "[%s", v->space == TIDE_SPACE_VERTEX && !p->vertex ? "B" : spaces[v->space]);
    for (size_t i = 0; i < v->rank && used > 0 && (size_t)used < capacity; i++) {
        used += snprintf(text + used, capacity - (size_t)used, "%s%u", i || v->space ? " x " : "", v->dims[i]);
    }
    if (used > 0 && (size_t)used < capacity) {
        snprintf(text + used, capacity - (size_t)used, "]");
    }
}

struct shapes {
    struct tide_program *p;
    struct node *node;
    const struct value *in[TIDE_OP_INPUTS];
    struct value *out;
};

/* EINVAL: "conv: input is [...], weight is [...]: why (input comes from relu at file:line)" */
static int wrong(const struct shapes *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
static int wrong(const struct shapes *s, const char *format, ...) {
    char why[160], shapes[240] = "", from[AT_SIZE + 40] = "";
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, sizeof(why), format, arguments);
    va_end(arguments);
    size_t used = 0;
    for (size_t i = 0; i < s->node->in_count && i < 3 && used < sizeof(shapes) - 60; i++) {
        char shape[60];
        tide_program_shape(s->p, s->node->in[i], shape, sizeof(shape));
        used += (size_t)snprintf(shapes + used, sizeof(shapes) - used, "%s%.40s%s%s", i ? ", " : "", s->in[i]->name,
                                 s->in[i]->name[0] ? " " : "", shape);
    }
    if (s->in[0]->producer != NONE) {
        const struct node *maker = &s->p->nodes[s->in[0]->producer];
        unsigned first = maker->attributes.region.micro[0].code;
        snprintf(from, sizeof(from), " (the first comes from %s at %s)",
                 maker->code == TIDE_OP_MAP ? tide_micro_names[first] : tide_op_names[maker->code],
                 maker->at[0] ? maker->at : "?");
    }
    const struct node *node = s->node;
    return tide__graph_wrong(s->p, "%s of %s: %s%s",
                             node->code == TIDE_OP_MAP ? tide_micro_names[node->attributes.region.micro[0].code]
                                                       : tide_op_names[node->code],
                             shapes, why, from);
}

static bool same_dims(const struct value *a, const struct value *b) {
    return a->space == b->space && a->rank == b->rank && memcmp(a->dims, b->dims, a->rank * sizeof(a->dims[0])) == 0;
}

static bool is_vector(const struct value *v, uint32_t columns) {
    return !v->space && v->rank == 1 && v->dims[0] == columns;
}

/* The same dims, but 1 in place of the last. */
static bool is_column(const struct value *v, const struct value *of) {
    return of->rank > 0 && v->space == of->space && v->rank == of->rank && v->dims[v->rank - 1] == 1 &&
           memcmp(v->dims, of->dims, (v->rank - 1u) * sizeof(v->dims[0])) == 0;
}

static struct value like(const struct value *v) {
    struct value made = {.space = v->space, .rank = v->rank, .table = v->table};
    memcpy(made.dims, v->dims, sizeof(made.dims));
    return made;
}

static struct value vector(uint32_t columns) {
    return (struct value){.rank = 1, .dims = {columns}};
}

static int infer_map(struct shapes *s) {
    struct tide_region *region = &s->node->attributes.region;
    const struct value *full = s->in[0];
    for (size_t i = 1; i < s->node->in_count; i++) {
        bool wider = is_vector(full, (uint32_t)tide__graph_columns(s->in[i])) && !is_vector(s->in[i], full->dims[0]);
        full = wider || (is_column(full, s->in[i]) && !same_dims(full, s->in[i])) ? s->in[i] : full;
    }
    size_t next = 0;
    for (size_t i = 0; i < region->source_count; i++) {
        if (region->kind[i] == TIDE_SOURCE_CONSTANT) {
            continue;
        }
        const struct value *v = s->in[next++];
        if (v->type != TIDE_VALUE_FLOAT) {
            return wrong(s, "operand %zu does not hold real numbers", next);
        }
        if (same_dims(v, full)) {
            region->kind[i] = TIDE_SOURCE_FULL;
        } else if (is_vector(v, (uint32_t)tide__graph_columns(full))) {
            region->kind[i] = TIDE_SOURCE_ROW;
        } else if (is_column(v, full)) {
            region->kind[i] = TIDE_SOURCE_COLUMN;
        } else {
            return wrong(s, "the shapes must be equal, or one a vector of the last dim, or its "
                            "last dim 1");
        }
    }
    s->out[0] = like(full);
    return 0;
}

/* y [.., m] = op(x [.., k]) op(w [k, m]); the leading dims of x stay. */
static int infer_mm(struct shapes *s) {
    const struct tide_attributes *t = &s->node->attributes;
    const struct value *a = s->in[0], *b = s->in[1];
    if (a->rank == 0 || b->rank == 0 || (!a->space && a->rank != 2) || (!b->space && b->rank != 2)) {
        return wrong(s, "a product needs matrices");
    }
    if (t->ta) { /* [B.., n]^T [B.., m]: only as a weight's gradient */
        bool fits = a->space == b->space && a->rank == b->rank &&
                    memcmp(a->dims, b->dims, (a->rank - 1u) * sizeof(a->dims[0])) == 0;
        if (t->tb || !fits) {
            return wrong(s, "rows must be equal");
        }
        s->out[0] =
            (struct value){.rank = 2, .dims = {(uint32_t)tide__graph_columns(a), (uint32_t)tide__graph_columns(b)}};
        return 0;
    }
    if (b->space) {
        return wrong(s, "the right operand must be of constant size; bmm multiplies matrices in pairs");
    }
    uint32_t k = b->dims[t->tb ? 1 : 0], m = b->dims[t->tb ? 0 : 1];
    if (tide__graph_columns(a) != k) {
        return wrong(s, "%zu and %u must be equal", tide__graph_columns(a), k);
    }
    s->out[0] = like(a);
    s->out[0].dims[a->rank - 1] = m;
    return 0;
}

static int infer_bmm(struct shapes *s) {
    struct tide_attributes *t = &s->node->attributes;
    const struct value *a = s->in[0], *b = s->in[1];
    if (a->rank < 2 || b->rank != a->rank || a->space != b->space ||
        memcmp(a->dims, b->dims, (a->rank - 2u) * sizeof(a->dims[0])) != 0) {
        return wrong(s, "pairs of matrices need the same leading dims");
    }
    uint32_t n = a->dims[a->rank - 2], k = a->dims[a->rank - 1];
    uint32_t l = b->dims[b->rank - 2], m = b->dims[b->rank - 1];
    if ((t->ta ? n : k) != (t->tb ? m : l)) {
        return wrong(s, "%u and %u must be equal", t->ta ? n : k, t->tb ? m : l);
    }
    t->n = n;
    s->out[0] = like(a);
    s->out[0].dims[a->rank - 2] = t->ta ? k : n;
    s->out[0].dims[a->rank - 1] = t->tb ? l : m;
    return 0;
}

static int infer_window(struct shapes *s, bool pool) {
    struct tide_window *w = &s->node->attributes.window;
    const struct value *x = s->in[0];
    if (!x->space || x->rank != 3) {
        return wrong(s, "images are [B x height x width x channels]");
    }
    w->h = x->dims[0];
    w->w = x->dims[1];
    w->c = x->dims[2];
    if (w->kh == 0 || w->kw == 0 || w->stride == 0 || w->pad >= w->kh || w->pad >= w->kw ||
        (pool && w->kh * w->kw > 255)) {
        return wrong(s, "a window of %u x %u with stride %u and %u of padding is not possible", w->kh, w->kw, w->stride,
                     w->pad);
    }
    if (w->h + 2 * w->pad < w->kh || w->w + 2 * w->pad < w->kw) {
        return wrong(s, "the window of %u x %u is larger than the image", w->kh, w->kw);
    }
    w->oh = (w->h + 2 * w->pad - w->kh) / w->stride + 1;
    w->ow = (w->w + 2 * w->pad - w->kw) / w->stride + 1;
    s->out[0] = (struct value){.space = TIDE_SPACE_VERTEX, .rank = 3, .dims = {w->oh, w->ow, w->c}};
    if (pool) {
        s->out[1] = s->out[0];
        s->out[1].type = TIDE_VALUE_BYTE;
        return 0;
    }
    const struct value *weight = s->in[1];
    if (weight->space || weight->rank != 2 || weight->dims[0] != w->kh * w->kw * w->c) {
        return wrong(s, "the weight's rows must be %u x %u x %u = %u", w->kh, w->kw, w->c, w->kh * w->kw * w->c);
    }
    w->o = weight->dims[1];
    s->out[0].dims[2] = w->o;
    return 0;
}

static int infer_norm(struct shapes *s, bool per_row) {
    uint32_t columns = (uint32_t)tide__graph_columns(s->in[0]);
    for (size_t i = 1; i < s->node->in_count; i++) {
        if (!is_vector(s->in[i], columns)) {
            return wrong(s, "operand %zu must be a vector of %u", i + 1, columns);
        }
    }
    if (!s->in[0]->space) {
        return wrong(s, "only rows of a run can be normalised");
    }
    if (!per_row && s->p->vertex) {
        return wrong(s, "there is no batch of vertices before all are computed; layer norm is "
                        "possible");
    }
    s->out[0] = like(s->in[0]);
    s->out[1] = vector(columns);
    if (per_row) {
        s->out[1] = like(s->in[0]);
        s->out[1].dims[s->in[0]->rank - 1] = 1;
    }
    s->out[2] = s->out[1];
    return 0;
}

static int infer_loss(struct shapes *s) {
    const struct value *z = s->in[0];
    if (s->p->differentiated) {
        return wrong(s, "the program is complete");
    }
    if (s->p->vertex && z->space != TIDE_SPACE_VERTEX) {
        return wrong(s, "a loss takes values of vertices (v:sum makes one a vertex of it)");
    }
    if (s->node->code == TIDE_OP_XENT &&
        (s->in[1]->type != TIDE_VALUE_INDEX || tide__graph_columns(s->in[1]) != 1 ||
         tide__graph_rows(s->in[1], 1) != tide__graph_rows(z, 1) || s->in[1]->space != z->space)) {
        return wrong(s, "the second operand must be an index, one label a row");
    }
    if (s->node->code != TIDE_OP_XENT && s->node->in_count == 2 && !same_dims(z, s->in[1])) {
        return wrong(s, "values and targets must have one shape");
    }
    s->out[0] = (struct value){.type = TIDE_VALUE_LOSS, .rank = 1, .dims = {3}};
    s->out[1] = like(z);
    return 0;
}

static int infer_embed(struct shapes *s) {
    const struct value *table = s->in[0], *ids = s->in[1];
    if (table->space == TIDE_SPACE_TABLE && ids->type == TIDE_VALUE_INDEX && ids->rank < 2 &&
        s->p->values[s->node->in[1]].class == CLASS_INPUT) {
        s->out[0] = like(ids);
        s->out[0].dims[s->out[0].rank++] = table->dims[0];
        return 0;
    }
    if (table->space || table->rank != 2 || ids->type != TIDE_VALUE_INDEX || ids->rank > 2) {
        return wrong(s, "an embedding needs a table [rows x width] and an index");
    }
    s->out[0] = like(ids);
    s->out[0].dims[s->out[0].rank++] = table->dims[1];
    return 0;
}

static int infer_columns(struct shapes *s) {
    struct tide_attributes *t = &s->node->attributes;
    const struct value *x = s->in[0];
    uint32_t columns = (uint32_t)tide__graph_columns(x);
    if (x->rank == 0) {
        return wrong(s, "there are no columns");
    }
    s->out[0] = like(x);
    uint32_t *last = &s->out[0].dims[x->rank - 1];
    switch (s->node->code) {
    case TIDE_OP_SLICE:
        if (t->count == 0 || t->first >= columns || t->count > columns - t->first) {
            return wrong(s, "columns %u .. %u are outside of it", t->first + 1, t->first + t->count);
        }
        *last = t->count;
        return 0;
    case TIDE_OP_SLICE_DX:
        *last = t->count;
        return 0;
    case TIDE_OP_CONCAT: {
        struct value wanted = like(s->in[1]);
        wanted.dims[wanted.rank ? wanted.rank - 1 : 0] = columns;
        if (!same_dims(&wanted, x)) {
            return wrong(s, "all dims but the last must be equal");
        }
        *last = columns + (uint32_t)tide__graph_columns(s->in[1]);
        return 0;
    }
    case TIDE_OP_ROW_SUMS:
        *last = 1;
        return 0;
    default: /* column sums */
        s->out[0] = vector(columns);
        return 0;
    }
}

static int infer_mean_pixels(struct shapes *s) {
    const struct value *x = s->in[0];
    if (!x->space || x->rank != 3) {
        return wrong(s, "images are [B x height x width x channels]");
    }
    s->node->attributes.group = x->dims[0] * x->dims[1];
    s->out[0] = (struct value){.space = TIDE_SPACE_VERTEX, .rank = 1, .dims = {x->dims[2]}};
    return 0;
}

static int infer_reshape(struct shapes *s) {
    const struct tide_attributes *t = &s->node->attributes;
    struct value made = {.type = s->in[0]->type,
                         .space = s->in[0]->space,
                         .rank = (uint8_t)t->count,
                         .dims = {t->window.h, t->window.w, t->window.c}};
    if (tide__graph_rows(&made, 1) * tide__graph_columns(&made) !=
        tide__graph_rows(s->in[0], 1) * tide__graph_columns(s->in[0])) {
        return wrong(s, "the new shape has another number of elements");
    }
    s->out[0] = made;
    return 0;
}

/* The gradient of a window's operand or of a norm: shaped like what `of` says, the forward's
 * operand, which the adjoint put last in the list of inputs or into the window. */
static int infer_gradient(struct shapes *s) {
    const struct tide_window *w = &s->node->attributes.window;
    switch (s->node->code) {
    case TIDE_OP_CONV_DW:
        s->out[0] = (struct value){.rank = 2, .dims = {w->kh * w->kw * w->c, w->o}};
        return 0;
    case TIDE_OP_CONV_DX:
    case TIDE_OP_MAXPOOL_DX:
    case TIDE_OP_AVGPOOL_DX:
    case TIDE_OP_MEAN_PIXELS_DX:
        s->out[0] = (struct value){.space = TIDE_SPACE_VERTEX, .rank = 3, .dims = {w->h, w->w, w->c}};
        return 0;
    case TIDE_OP_EMBED_DW:
        if (w->h == 0) { /* of a table: the rows that the batch reads */
            s->out[0] = (struct value){.space = TIDE_SPACE_TABLE,
                                       .table = (uint8_t)s->node->attributes.id,
                                       .rank = 1,
                                       .dims = {(uint32_t)tide__graph_columns(s->in[0])}};
            return 0;
        }
        s->out[0] = (struct value){.rank = 2, .dims = {w->h, (uint32_t)tide__graph_columns(s->in[0])}};
        return 0;
    default: /* norms: x, gamma, beta */
        s->out[0] = like(s->in[0]);
        s->out[1] = s->out[2] = vector((uint32_t)tide__graph_columns(s->in[0]));
        return 0;
    }
}

/* Rows of x by lists, the first of which tells what the results are rows of. */
static int infer_gather(struct shapes *s) {
    const struct value *list = s->in[s->node->code == TIDE_OP_GATHER_MAX_DX ? 2 : 1];
    if (s->in[0]->rank != 1 || !s->in[0]->space || list->type != TIDE_VALUE_INDEX) {
        return wrong(s, "rows are gathered by lists");
    }
    s->out[0] = like(s->in[0]);
    s->out[0].space = list->space;
    s->out[1] = s->out[0];
    s->out[1].type = TIDE_VALUE_INDEX; /* of maxima alone */
    return 0;
}

/* Operands and outputs of each operation; who checks them. */
static const struct {
    uint8_t in, out;
} arity[TIDE_OP_COUNT] = {
    [TIDE_OP_MM] = {2, 1},
    [TIDE_OP_BMM] = {2, 1},
    [TIDE_OP_CONV] = {2, 1},
    [TIDE_OP_CONV_DX] = {2, 1},
    [TIDE_OP_CONV_DW] = {2, 1},
    [TIDE_OP_MAXPOOL] = {1, 2},
    [TIDE_OP_MAXPOOL_DX] = {2, 1},
    [TIDE_OP_AVGPOOL] = {1, 1},
    [TIDE_OP_AVGPOOL_DX] = {1, 1},
    [TIDE_OP_MEAN_PIXELS] = {1, 1},
    [TIDE_OP_MEAN_PIXELS_DX] = {1, 1},
    [TIDE_OP_BATCHNORM] = {5, 3},
    [TIDE_OP_BATCHNORM_EVAL] = {5, 1},
    [TIDE_OP_BATCHNORM_DX] = {5, 3},
    [TIDE_OP_LAYERNORM] = {3, 3},
    [TIDE_OP_LAYERNORM_DX] = {5, 3},
    [TIDE_OP_SOFTMAX] = {1, 1},
    [TIDE_OP_SOFTMAX_DX] = {2, 1},
    [TIDE_OP_XENT] = {2, 2},
    [TIDE_OP_SIGMOID_XENT] = {2, 2},
    [TIDE_OP_MSE] = {2, 2},
    [TIDE_OP_HINGE] = {2, 2},
    [TIDE_OP_SUM_LOSS] = {1, 2},
    [TIDE_OP_EMBED] = {2, 1},
    [TIDE_OP_EMBED_DW] = {2, 1},
    [TIDE_OP_ROW_SUMS] = {1, 1},
    [TIDE_OP_COLUMN_SUMS] = {1, 1},
    [TIDE_OP_SLICE] = {1, 1},
    [TIDE_OP_SLICE_DX] = {1, 1},
    [TIDE_OP_CONCAT] = {2, 1},
    [TIDE_OP_DROPOUT] = {1, 1},
    [TIDE_OP_GATHER] = {2, 1},
    [TIDE_OP_GATHER_SUM] = {3, 1},
    [TIDE_OP_GATHER_MAX] = {3, 2},
    [TIDE_OP_GATHER_MAX_DX] = {4, 1},
    [TIDE_OP_RESHAPE] = {1, 1},
};

static int check_operands(const struct shapes *s) {
    unsigned code = s->node->code;
    if (code != TIDE_OP_MAP && s->node->in_count != arity[code].in) {
        return tide__graph_wrong(s->p, "%s takes %u operands, not %u", tide_op_names[code], arity[code].in,
                                 s->node->in_count);
    }
    for (size_t i = 0; i < s->node->in_count; i++) {
        bool special = (i == 1 && (code == TIDE_OP_XENT || code == TIDE_OP_EMBED || code == TIDE_OP_EMBED_DW ||
                                   code == TIDE_OP_MAXPOOL_DX)) ||
                       (i > 0 && code >= TIDE_OP_GATHER && code <= TIDE_OP_GATHER_MAX_DX) || code == TIDE_OP_RESHAPE;
        if (!special && s->in[i]->type != TIDE_VALUE_FLOAT) {
            return wrong(s, "operand %zu does not hold real numbers", i + 1);
        }
    }
    if (code == TIDE_OP_DROPOUT && !(s->node->attributes.keep > 0 && s->node->attributes.keep <= 1)) {
        return wrong(s, "the share that is kept must be above 0 and at most 1");
    }
    return 0;
}

int tide__graph_infer(struct tide_program *p, struct node *node, struct value *outs) {
    struct shapes s = {.p = p, .node = node, .out = outs};
    for (size_t i = 0; i < node->in_count; i++) {
        s.in[i] = &p->values[node->in[i]];
    }
    int code = check_operands(&s);
    if (code != 0) {
        return code;
    }
    node->out_count = node->code == TIDE_OP_MAP ? 1 : arity[node->code].out;
    switch (node->code) {
    case TIDE_OP_MAP:
        return infer_map(&s);
    case TIDE_OP_MM:
        return infer_mm(&s);
    case TIDE_OP_BMM:
        return infer_bmm(&s);
    case TIDE_OP_CONV:
        return infer_window(&s, false);
    case TIDE_OP_MAXPOOL:
    case TIDE_OP_AVGPOOL:
        return infer_window(&s, true);
    case TIDE_OP_MEAN_PIXELS:
        return infer_mean_pixels(&s);
    case TIDE_OP_BATCHNORM:
    case TIDE_OP_BATCHNORM_EVAL:
    case TIDE_OP_LAYERNORM:
        return infer_norm(&s, node->code == TIDE_OP_LAYERNORM);
    case TIDE_OP_SOFTMAX:
    case TIDE_OP_SOFTMAX_DX:
    case TIDE_OP_DROPOUT:
        outs[0] = like(s.in[0]);
        return 0;
    case TIDE_OP_EMBED:
        return infer_embed(&s);
    case TIDE_OP_RESHAPE:
        return infer_reshape(&s);
    case TIDE_OP_GATHER:
    case TIDE_OP_GATHER_SUM:
    case TIDE_OP_GATHER_MAX:
    case TIDE_OP_GATHER_MAX_DX:
        return infer_gather(&s);
    case TIDE_OP_XENT:
    case TIDE_OP_SIGMOID_XENT:
    case TIDE_OP_MSE:
    case TIDE_OP_HINGE:
    case TIDE_OP_SUM_LOSS:
        return infer_loss(&s);
    case TIDE_OP_SLICE:
    case TIDE_OP_SLICE_DX:
    case TIDE_OP_CONCAT:
    case TIDE_OP_ROW_SUMS:
    case TIDE_OP_COLUMN_SUMS:
        return infer_columns(&s);
    default:
        return infer_gradient(&s);
    }
}
