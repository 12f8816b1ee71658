/* Shape rules: what operands an operation accepts, and what it gives. */
#include "graph/operations.h"
#include "kernel.h"

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

const char *tide__graph_written(const struct tide_program *p, const struct node *node) {
    const uint8_t space = p->values[node->in[0]].space;
    switch (node->code) {
    case TIDE_OP_MAP:
        return tide_micro_names[node->attributes.region.micro[0].code];
    case TIDE_OP_EMBED:
        return space && space != TIDE_SPACE_TABLE ? "gather" : "embed";
    case TIDE_OP_EMBED_DW:
        return "scatter_add";
    case TIDE_OP_REDUCE:
        return "sum";
    case TIDE_OP_OWN:
    case TIDE_OP_OWN_DX:
        return node->attributes.own->name;
    default:
        return tide_op_names[node->code];
    }
}

int tide__shape_wrong(const struct shapes *s, const char *format, ...) {
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
        snprintf(from, sizeof(from), " (the first comes from %s at %s)", tide__graph_written(s->p, maker),
                 maker->at[0] ? maker->at : "?");
    }
    return tide__graph_wrong(s->p, "%s of %s: %s%s", tide__graph_written(s->p, s->node), shapes, why, from);
}

int tide__shape_map(struct shapes *s) {
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
            return tide__shape_wrong(s, "operand %zu does not hold real numbers", next);
        }
        if (same_dims(v, full)) {
            region->kind[i] = TIDE_SOURCE_FULL;
        } else if (is_vector(v, (uint32_t)tide__graph_columns(full))) {
            region->kind[i] = TIDE_SOURCE_ROW;
        } else if (is_column(v, full)) {
            region->kind[i] = TIDE_SOURCE_COLUMN;
        } else {
            return tide__shape_wrong(s, "the shapes must be equal, or one a vector of the last dim, or its "
                                        "last dim 1");
        }
    }
    s->out[0] = like(full);
    return 0;
}

/* y [.., m] = op(x [.., k]) op(w [k, m]); the leading dims of x stay. */
int tide__shape_mm(struct shapes *s) {
    const struct tide_attributes *t = &s->node->attributes;
    const struct value *a = s->in[0], *b = s->in[1];
    if (a->rank == 0 || b->rank == 0 || (!a->space && a->rank != 2) || (!b->space && b->rank != 2)) {
        return tide__shape_wrong(s, "a product needs matrices");
    }
    if (t->ta) { /* [B.., n]^T [B.., m]: only as a weight's gradient */
        bool fits = a->space == b->space && a->rank == b->rank &&
                    memcmp(a->dims, b->dims, (a->rank - 1u) * sizeof(a->dims[0])) == 0;
        if (t->tb || !fits) {
            return tide__shape_wrong(s, "rows must be equal");
        }
        s->out[0] =
            (struct value){.rank = 2, .dims = {(uint32_t)tide__graph_columns(a), (uint32_t)tide__graph_columns(b)}};
        return 0;
    }
    if (b->space) {
        return tide__shape_wrong(s, "the right operand must be of constant size; bmm multiplies matrices in pairs");
    }
    uint32_t k = b->dims[t->tb ? 1 : 0], m = b->dims[t->tb ? 0 : 1];
    if (tide__graph_columns(a) != k) {
        return tide__shape_wrong(s, "%zu and %u must be equal", tide__graph_columns(a), k);
    }
    s->out[0] = like(a);
    s->out[0].dims[a->rank - 1] = m;
    return 0;
}

int tide__shape_bmm(struct shapes *s) {
    struct tide_attributes *t = &s->node->attributes;
    const struct value *a = s->in[0], *b = s->in[1];
    if (a->rank < 2 || b->rank != a->rank || a->space != b->space ||
        memcmp(a->dims, b->dims, (a->rank - 2u) * sizeof(a->dims[0])) != 0) {
        return tide__shape_wrong(s, "pairs of matrices need the same leading dims");
    }
    uint32_t n = a->dims[a->rank - 2], k = a->dims[a->rank - 1];
    uint32_t l = b->dims[b->rank - 2], m = b->dims[b->rank - 1];
    if ((t->ta ? n : k) != (t->tb ? m : l)) {
        return tide__shape_wrong(s, "%u and %u must be equal", t->ta ? n : k, t->tb ? m : l);
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
        return tide__shape_wrong(s, "images are [B x height x width x channels]");
    }
    w->h = x->dims[0];
    w->w = x->dims[1];
    w->c = x->dims[2];
    if (w->kh == 0 || w->kw == 0 || w->stride == 0 || w->pad >= w->kh || w->pad >= w->kw ||
        (pool && w->kh * w->kw > 255)) {
        return tide__shape_wrong(s, "a window of %u x %u with stride %u and %u of padding is not possible", w->kh,
                                 w->kw, w->stride, w->pad);
    }
    if (w->h + 2 * w->pad < w->kh || w->w + 2 * w->pad < w->kw) {
        return tide__shape_wrong(s, "the window of %u x %u is larger than the image", w->kh, w->kw);
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
        return tide__shape_wrong(s, "the weight's rows must be %u x %u x %u = %u", w->kh, w->kw, w->c,
                                 w->kh * w->kw * w->c);
    }
    w->o = weight->dims[1];
    s->out[0].dims[2] = w->o;
    return 0;
}

int tide__shape_conv(struct shapes *s) {
    return infer_window(s, false);
}

int tide__shape_pool(struct shapes *s) {
    return infer_window(s, true);
}

static int infer_norm(struct shapes *s, bool per_row) {
    uint32_t columns = (uint32_t)tide__graph_columns(s->in[0]);
    for (size_t i = 1; i < s->node->in_count; i++) {
        if (!is_vector(s->in[i], columns)) {
            return tide__shape_wrong(s, "operand %zu must be a vector of %u", i + 1, columns);
        }
    }
    if (!s->in[0]->space) {
        return tide__shape_wrong(s, "only rows of a run can be normalised");
    }
    if (!per_row && s->p->vertex) {
        return tide__shape_wrong(s, "there is no batch of vertices before all are computed; layer norm is "
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

int tide__shape_columns_norm(struct shapes *s) {
    return infer_norm(s, false);
}

int tide__shape_rows_norm(struct shapes *s) {
    return infer_norm(s, true);
}

int tide__shape_same(struct shapes *s) {
    s->out[0] = like(s->in[0]);
    return 0;
}

int tide__shape_dropout(struct shapes *s) {
    const double keep = s->node->attributes.keep;
    if (!(keep > 0 && keep <= 1)) {
        return tide__shape_wrong(s, "the share that is kept must be above 0 and at most 1");
    }
    return tide__shape_same(s);
}

static int shape_loss(struct shapes *s) {
    const struct value *z = s->in[0];
    if (s->p->differentiated) {
        return tide__shape_wrong(s, "the program is complete");
    }
    if (s->p->vertex && z->space != TIDE_SPACE_VERTEX) {
        return tide__shape_wrong(s, "a loss takes values of vertices (v:sum makes one a vertex of it)");
    }
    s->out[0] = (struct value){.type = TIDE_VALUE_LOSS, .rank = 1, .dims = {3}};
    s->out[1] = like(z);
    return 0;
}

int tide__shape_loss(struct shapes *s) {
    if (s->node->in_count == 2 && !same_dims(s->in[0], s->in[1])) {
        return tide__shape_wrong(s, "values and targets must have one shape");
    }
    return shape_loss(s);
}

/* A label, and perhaps a weight, for each row of the first operand: its dims but the last. */
static int shape_labelled(struct shapes *s, const char *which, const struct value *labels,
                          const struct value *weights) {
    const double smoothing = s->node->attributes.smoothing;
    if (!tide__shape_per_row(labels, s->in[0]) || labels->type != TIDE_VALUE_INDEX) {
        return tide__shape_wrong(
            s, "the %s operand must be an index, one label a row: of the first's dims but the last", which);
    }
    if (weights && !tide__shape_per_row(weights, s->in[0])) {
        return tide__shape_wrong(s, "weights are one a row: of the first operand's dims but the last");
    }
    if (!(smoothing >= 0 && smoothing < 1)) {
        return tide__shape_wrong(s, "smoothing is a share from 0 to below 1, not %g", smoothing);
    }
    return shape_loss(s);
}

int tide__shape_xent(struct shapes *s) {
    return shape_labelled(s, "second", s->in[1], s->node->in_count == 3 ? s->in[2] : NULL);
}

int tide__shape_linear_xent(struct shapes *s) {
    const struct value *x = s->in[0], *w = s->in[1];
    const bool tb = s->node->attributes.tb;
    if (w->space || w->rank != 2 || w->type != TIDE_VALUE_FLOAT) {
        return tide__shape_wrong(s, "the second operand must be a matrix of constant size");
    }
    if (w->dims[tb ? 1 : 0] != tide__graph_columns(x)) {
        return tide__shape_wrong(s, "%u and %zu must be equal", w->dims[tb ? 1 : 0], tide__graph_columns(x));
    }
    s->out[2] = like(w);
    return shape_labelled(s, "third", s->in[2], s->node->in_count == 4 ? s->in[3] : NULL);
}

int tide__shape_ctc(struct shapes *s) {
    const struct value *z = s->in[0], *labels = s->in[1], *frames = s->node->in_count > 2 ? s->in[2] : NULL;
    if (z->rank != 2 || labels->type != TIDE_VALUE_INDEX || labels->rank != 1 || labels->space != z->space) {
        return tide__shape_wrong(s, "ctc takes [B x frames x classes] and an index of labels [B x most of them]");
    }
    if (frames && (frames->type != TIDE_VALUE_INDEX || frames->space != z->space || tide__graph_rows(frames, 1) != 1 ||
                   tide__graph_columns(frames) != 1)) {
        return tide__shape_wrong(s, "lengths are an index, one number of frames an example");
    }
    s->node->attributes.n = z->dims[0];
    return shape_loss(s);
}

/* Rows of x by ids: of each example its own. A value of one dim is rows of one number. */
static int shape_gather(struct shapes *s) {
    const struct value *x = s->in[0], *ids = s->in[1];
    struct value made = like(ids);
    size_t width = 1;
    if (x->rank == 0 || ids->space != x->space) {
        return tide__shape_wrong(s, "rows are gathered of [B x n ..] by an index [B ..]");
    }
    for (size_t i = 1; i < x->rank; i++) {
        width *= x->dims[i];
    }
    if (made.rank + x->rank - 1u > TIDE_RANK_MAX - 1) {
        return tide__shape_wrong(s, "the rows have more than %d dims", TIDE_RANK_MAX);
    }
    if (made.rank + x->rank == 1) {
        made.dims[made.rank++] = 1;
    }
    for (size_t i = 1; i < x->rank; i++) {
        made.dims[made.rank++] = x->dims[i];
    }
    s->node->attributes.n = x->dims[0];
    s->node->attributes.k = (uint32_t)width;
    s->out[0] = made;
    return 0;
}

int tide__shape_embed(struct shapes *s) {
    const struct value *table = s->in[0], *ids = s->in[1];
    if (ids->type != TIDE_VALUE_INDEX) {
        return tide__shape_wrong(s, "the second operand must be an index");
    }
    if (table->space == TIDE_SPACE_TABLE && ids->rank < 2 && s->p->values[s->node->in[1]].class == CLASS_INPUT) {
        s->out[0] = like(ids);
        s->out[0].dims[s->out[0].rank++] = table->dims[0];
        return 0;
    }
    if (table->space && table->space != TIDE_SPACE_TABLE) {
        return shape_gather(s);
    }
    if (table->space || table->rank != 2 || ids->rank > 2) {
        return tide__shape_wrong(s, "an embedding needs a table [rows x width] and an index");
    }
    s->out[0] = like(ids);
    s->out[0].dims[s->out[0].rank++] = table->dims[1];
    return 0;
}

/* Rows of x added up where ids say: in each example to `n` rows; without n, of a constant, to the rows in its window.
 */
int tide__shape_scatter(struct shapes *s) {
    struct tide_attributes *t = &s->node->attributes;
    const struct value *x = s->in[0], *ids = s->in[1];
    if (t->n == 0) {
        const uint32_t columns = (uint32_t)tide__graph_columns(x);
        s->out[0] = (struct value){.rank = 2, .dims = {t->window.h, columns}};
        if (t->window.h == 0) { /* of a table: the rows that the batch reads */
            s->out[0] =
                (struct value){.space = TIDE_SPACE_TABLE, .table = (uint8_t)t->id, .rank = 1, .dims = {columns}};
        }
        return 0;
    }
    if (ids->type != TIDE_VALUE_INDEX || ids->space != x->space || !x->space || ids->rank > x->rank ||
        memcmp(ids->dims, x->dims, ids->rank * sizeof(x->dims[0])) != 0) {
        return tide__shape_wrong(s, "the index has a number for each row that is added: the first dims of the first "
                                    "operand");
    }
    s->out[0] = (struct value){.space = x->space, .rank = (uint8_t)t->first};
    memcpy(s->out[0].dims, x->dims, t->first * sizeof(x->dims[0])); /* groups are not examples but their rows */
    s->out[0].dims[s->out[0].rank++] = t->n;
    t->k = 1;
    for (size_t i = ids->rank; i < x->rank; i++) {
        s->out[0].dims[s->out[0].rank++] = x->dims[i];
        t->k *= x->dims[i];
    }
    return 0;
}

int tide__shape_columns(struct shapes *s) {
    struct tide_attributes *t = &s->node->attributes;
    const struct value *x = s->in[0];
    uint32_t columns = (uint32_t)tide__graph_columns(x);
    if (x->rank == 0) {
        return tide__shape_wrong(s, "there are no columns");
    }
    s->out[0] = like(x);
    uint32_t *last = &s->out[0].dims[x->rank - 1];
    switch (s->node->code) {
    case TIDE_OP_SLICE:
        if (t->count == 0 || t->first >= columns || t->count > columns - t->first) {
            return tide__shape_wrong(s, "columns %u .. %u are outside of it", t->first + 1, t->first + t->count);
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
            return tide__shape_wrong(s, "all dims but the last must be equal");
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

int tide__shape_mean_pixels(struct shapes *s) {
    const struct value *x = s->in[0];
    if (!x->space || x->rank != 3) {
        return tide__shape_wrong(s, "images are [B x height x width x channels]");
    }
    s->node->attributes.group = x->dims[0] * x->dims[1];
    s->out[0] = (struct value){.space = TIDE_SPACE_VERTEX, .rank = 1, .dims = {x->dims[2]}};
    return 0;
}

int tide__shape_reshape(struct shapes *s) {
    const struct tide_attributes *t = &s->node->attributes;
    struct value made = {.type = s->in[0]->type,
                         .space = s->in[0]->space,
                         .rank = (uint8_t)t->count,
                         .dims = {t->window.h, t->window.w, t->window.c}};
    if (tide__graph_rows(&made, 1) * tide__graph_columns(&made) !=
        tide__graph_rows(s->in[0], 1) * tide__graph_columns(s->in[0])) {
        return tide__shape_wrong(s, "the new shape has another number of elements");
    }
    s->out[0] = made;
    return 0;
}

/* The gradient of a window's operand or of a norm: shaped like what `of` says, the forward's
 * operand, which the adjoint put last in the list of inputs or into the window. */
int tide__shape_gradient(struct shapes *s) {
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
    default: /* norms: x, gamma, beta */
        s->out[0] = like(s->in[0]);
        s->out[1] = s->out[2] = vector((uint32_t)tide__graph_columns(s->in[0]));
        return 0;
    }
}

/* Rows of x by lists, the first of which decides what the results are rows of. */
int tide__shape_lists(struct shapes *s) {
    const struct value *list = s->in[s->node->code == TIDE_OP_GATHER_MAX_DX ? 2 : 1];
    if (s->in[0]->rank != 1 || !s->in[0]->space || list->type != TIDE_VALUE_INDEX) {
        return tide__shape_wrong(s, "rows are gathered by lists");
    }
    s->out[0] = like(s->in[0]);
    s->out[0].space = list->space;
    s->out[1] = s->out[0];
    s->out[1].type = TIDE_VALUE_INDEX; /* of maxima alone */
    return 0;
}

static int check_operands(const struct shapes *s) {
    unsigned code = s->node->code;
    const struct tide_op_traits *t = &tide_op_traits[code];
    bool less = (t->flags & TIDE_OP_MORE) && s->node->in_count + 1 == t->in;
    if (t->in > 0 && s->node->in_count != t->in && !less) {
        return tide__graph_wrong(s->p, "%s takes %u operands, not %u", tide_op_names[code], t->in, s->node->in_count);
    }
    for (size_t i = 0; i < s->node->in_count; i++) {
        if (!(t->integers >> i & 1) && s->in[i]->type != TIDE_VALUE_FLOAT) {
            return tide__shape_wrong(s, "operand %zu does not hold real numbers", i + 1);
        }
    }
    return 0;
}

int tide__graph_infer(struct tide_program *p, struct node *node, struct value *outs) {
    static int (*const shapes[])(struct shapes *) = {
#define TIDE_OPERATION(code, name, in, out, integers, flags, shape, adjoint) tide__shape_##shape,
#include "operations.def"
#undef TIDE_OPERATION
        tide__shape_reshape,
    };
    struct shapes s = {.p = p, .node = node, .out = outs};
    for (size_t i = 0; i < node->in_count; i++) {
        s.in[i] = &p->values[node->in[i]];
    }
    int code = check_operands(&s);
    node->out_count = tide_op_traits[node->code].out; /* unless the shape says another number */
    return code == 0 ? shapes[node->code](&s) : code;
}
