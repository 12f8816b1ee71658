/* Shapes and adjoints of the operations on sequences and on axes. */
#include "graph/operations.h"

/* ---- attention ---- */

/* Fills in what the operands decide: n, m and alpha. */
int tide__shape_attention(struct shapes *s) {
    struct tide_attributes *t = &s->node->attributes;
    const struct value *q = s->in[0], *k = s->in[1], *v = s->in[2];
    t->kv_heads = t->kv_heads ? t->kv_heads : t->heads;
    if (!q->space || q->space != k->space || q->rank != 2 || k->rank != 2 || !same_dims(k, v)) {
        return tide__shape_wrong(s,
                                 "attention takes queries [B x n x c], and keys and values of one shape [B x m x c]");
    }
    if (t->heads == 0 || q->dims[1] % t->heads != 0 || t->heads % t->kv_heads != 0 ||
        q->dims[1] / t->heads * t->kv_heads != k->dims[1]) {
        return tide__shape_wrong(s, "%u heads of queries and %u of keys do not share these columns", t->heads,
                                 t->kv_heads);
    }
    const struct value *lengths = s->node->in_count > 3 && s->node->code == TIDE_OP_ATTENTION ? s->in[3] : NULL;
    if (lengths && (lengths->type != TIDE_VALUE_INDEX || lengths->space != q->space ||
                    tide__graph_rows(lengths, 1) != 1 || tide__graph_columns(lengths) != 1)) {
        return tide__shape_wrong(s, "lengths are an index, one number an example");
    }
    t->n = q->dims[0];
    t->m = k->dims[0];
    s->out[0] = like(q);
    s->out[1] = like(q);
    s->out[1].dims[1] = t->heads;
    return 0;
}

int tide__shape_attention_dx(struct shapes *s) {
    s->out[0] = like(s->in[0]);
    s->out[1] = s->out[2] = like(s->in[1]);
    return 0;
}

void tide__adjoint_attention(struct walk *w) {
    const struct node node = *w->node;
    const uint32_t in[7] = {node.in[0], node.in[1], node.in[2], w->g, node.out[0], node.out[1], node.in[3]};
    uint32_t first = tide__walk_apply(w, TIDE_OP_ATTENTION_DX, node.in_count > 3 ? 7 : 6, in, &node.attributes);
    tide__walk_add_outputs(w, &node, first, 3);
}

int tide__shape_rotary(struct shapes *s) {
    struct tide_attributes *t = &s->node->attributes;
    const struct value *x = s->in[0];
    if (!x->space || x->rank != 2 || t->k == 0 || t->k % 2 != 0 || x->dims[1] % t->k != 0) {
        return tide__shape_wrong(s, "a rotary embedding takes [B x n x c] with heads of an even width, not %u", t->k);
    }
    if (s->node->in_count > 1 && (s->in[1]->type != TIDE_VALUE_INDEX || !tide__shape_per_row(s->in[1], x))) {
        return tide__shape_wrong(s, "positions are an index, one number a row");
    }
    t->n = x->dims[0];
    s->out[0] = like(x);
    return 0;
}

void tide__adjoint_rotary(struct walk *w) {
    const struct node node = *w->node;
    const uint32_t in[2] = {w->g, node.in[1]};
    struct tide_attributes t = node.attributes;
    t.ta = !t.ta;
    tide__walk_add(w, node.in[0], tide__walk_apply(w, TIDE_OP_ROTARY, node.in_count, in, &t));
}

/* ---- rows ---- */

/* g - exp(y) sum(g) */
void tide__adjoint_log_softmax(struct walk *w) {
    const uint32_t x = w->node->in[0], y = w->node->out[0], g = w->g;
    uint32_t share = tide__walk_map(w, TIDE_MICRO_EXP, y, NONE, NONE);
    uint32_t sum = tide__walk_apply(w, TIDE_OP_ROW_SUMS, 1, &g, NULL);
    uint32_t taken = tide__walk_map(w, TIDE_MICRO_MUL, share, sum, NONE);
    tide__walk_add(w, x, tide__walk_map(w, TIDE_MICRO_SUB, g, taken, NONE));
}

int tide__shape_topk(struct shapes *s) {
    const uint32_t k = s->node->attributes.count;
    const struct value *x = s->in[0];
    if (x->rank == 0 || !x->space || k == 0 || k > tide__graph_columns(x)) {
        return tide__shape_wrong(s, "k is %u, more than its columns", k);
    }
    s->out[0] = like(x);
    s->out[0].dims[x->rank - 1] = k;
    s->out[1] = s->out[0];
    s->out[1].type = TIDE_VALUE_INDEX;
    return 0;
}

/* To the columns that they are of, a row a group. */
void tide__adjoint_topk(struct walk *w) {
    const struct node node = *w->node;
    const struct value x = w->p->values[node.in[0]];
    const uint32_t in[2] = {w->g, node.out[1]};
    const struct tide_attributes t = {.n = (uint32_t)tide__graph_columns(&x), .first = x.rank - 1u};
    uint32_t made = tide__walk_apply(w, TIDE_OP_EMBED_DW, 2, in, &t);
    tide__walk_add(w, node.in[0], tide__walk_reshape(w, made, &x));
}

int tide__shape_one_hot(struct shapes *s) {
    const struct value *ids = s->in[0];
    if (ids->type != TIDE_VALUE_INDEX || ids->rank > TIDE_RANK_MAX - 2 || s->node->attributes.count == 0) {
        return tide__shape_wrong(s, "one_hot takes an index of at most %d dims and a number of classes",
                                 TIDE_RANK_MAX - 2);
    }
    s->out[0] = like(ids);
    s->out[0].type = TIDE_VALUE_FLOAT;
    s->out[0].dims[s->out[0].rank++] = s->node->attributes.count;
    return 0;
}

/* ---- axes: `first` says which, behind B ---- */

/* Its number of elements becomes `to`; n and k of the attributes are set. */
static int along(struct shapes *s, uint32_t to, uint32_t n) {
    struct tide_attributes *t = &s->node->attributes;
    const struct value *x = s->in[0];
    t->n = n;
    t->k = 1;
    for (size_t i = t->first + 1; i < x->rank; i++) {
        t->k *= x->dims[i];
    }
    s->out[0] = like(x);
    s->out[0].dims[t->first] = to;
    return 0;
}

static int check_axis(struct shapes *s) {
    const uint32_t axis = s->node->attributes.first;
    return axis < s->in[0]->rank ? 0 : tide__shape_wrong(s, "there is no axis %u behind the batch", axis + 1);
}

int tide__shape_cumsum(struct shapes *s) {
    const uint32_t axis = s->node->attributes.first;
    int code = check_axis(s);
    return code == 0 ? along(s, s->in[0]->dims[axis], s->in[0]->dims[axis]) : code;
}

int tide__shape_expand(struct shapes *s) {
    struct tide_attributes *t = &s->node->attributes;
    int code = check_axis(s);
    if (code == 0 && (s->in[0]->dims[t->first] != 1 || t->count == 0)) {
        code = tide__shape_wrong(s, "axis %u has %u, not 1, and is to have %u", t->first + 1, s->in[0]->dims[t->first],
                                 t->count);
    }
    return code == 0 ? along(s, t->count, t->count) : code;
}

int tide__shape_reduce(struct shapes *s) {
    struct tide_attributes *t = &s->node->attributes;
    int code = check_axis(s);
    if (code == 0) {
        t->count = s->in[0]->dims[t->first];
        code = along(s, 1, t->count);
    }
    return code;
}

static void along_back(struct walk *w, enum tide_op_code code, bool turn) {
    const struct node node = *w->node;
    struct tide_attributes t = node.attributes;
    t.ta = t.ta != turn;
    tide__walk_add(w, node.in[0], tide__walk_apply(w, code, 1, &w->g, &t));
}

void tide__adjoint_cumsum(struct walk *w) {
    along_back(w, TIDE_OP_CUMSUM, true);
}

void tide__adjoint_expand(struct walk *w) {
    along_back(w, TIDE_OP_REDUCE, false);
}

void tide__adjoint_reduce(struct walk *w) {
    along_back(w, TIDE_OP_EXPAND, false);
}

int tide__shape_permute(struct shapes *s) {
    struct tide_attributes *t = &s->node->attributes;
    const struct value *x = s->in[0];
    uint32_t *dims[3] = {&t->window.h, &t->window.w, &t->window.c}, seen = 0;
    if (x->rank > 3) {
        return tide__shape_wrong(s, "more than 3 dims");
    }
    s->out[0] = like(x);
    for (uint32_t i = 0; i < 3; i++) {
        const uint32_t from = t->n >> (2 * i) & 3;
        *dims[i] = i < x->rank ? x->dims[i] : 1;
        seen |= 1u << from;
        if ((i < x->rank) != (from < x->rank)) {
            return tide__shape_wrong(s, "the order must name each of its %u dims behind the batch", x->rank);
        }
        if (i < x->rank) {
            s->out[0].dims[i] = x->dims[from];
        }
    }
    return seen == 7 ? 0 : tide__shape_wrong(s, "the order names a dim twice");
}

void tide__adjoint_permute(struct walk *w) {
    const struct node node = *w->node;
    struct tide_attributes t = {.n = 0};
    for (uint32_t i = 0; i < 3; i++) {
        t.n |= i << (2 * (node.attributes.n >> (2 * i) & 3));
    }
    tide__walk_add(w, node.in[0], tide__walk_apply(w, TIDE_OP_PERMUTE, 1, &w->g, &t));
}
