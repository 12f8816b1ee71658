/* Shapes and adjoints of a module's operations (tide/kernel.h), which say both themselves. */
#include "graph/operations.h"
#include "kernel.h"

static bool is_index(const struct value *v) {
    return v->type == TIDE_VALUE_INDEX;
}

int tide__shape_own(struct shapes *s) {
    const struct tide_own_operation *own = s->node->attributes.own;
    struct tide_own_shape in[TIDE_OWN_OPERANDS] = {{0}}, out[TIDE_OWN_RESULTS] = {{0}};
    char error[TIDE_KERNEL_ERROR_BYTES] = "it says no reason";
    if (!own || s->node->in_count != own->in_count) {
        return tide__graph_wrong(s->p, "operation %s takes %d operands, not %u", own ? own->name : "?",
                                 own ? own->in_count : 0, s->node->in_count);
    }
    for (size_t i = 0; i < own->in_count; i++) {
        const struct value *v = s->in[i];
        if (v->space != s->in[0]->space || !v->space || v->rank > TIDE_OWN_RANK) {
            return tide__shape_wrong(s, "it takes values of the batch with at most %d dims", TIDE_OWN_RANK);
        }
        in[i] = (struct tide_own_shape){.rank = v->rank, .index = is_index(v)};
        memcpy(in[i].dims, v->dims, v->rank * sizeof(v->dims[0]));
        s->node->attributes.id |= (uint32_t)is_index(v) << i;
    }
    if (own->shape(in, s->node->attributes.own_numbers, out, error) < 0) {
        return tide__shape_wrong(s, "%s", error);
    }
    s->node->out_count = own->out_count;
    for (size_t o = 0; o < own->out_count; o++) {
        s->out[o] = (struct value){.space = s->in[0]->space, .rank = out[o].rank};
        for (size_t d = 0; d < out[o].rank && d < TIDE_OWN_RANK; d++) {
            s->out[o].dims[d] = out[o].dims[d];
        }
        if (out[o].rank > TIDE_OWN_RANK || out[o].index || tide__graph_rows(&s->out[o], 1) == 0 ||
            tide__graph_columns(&s->out[o]) == 0) {
            return tide__shape_wrong(s, "it gives result %zu a shape that is none", o + 1);
        }
    }
    return 0;
}

int tide__shape_own_dx(struct shapes *s) {
    const struct tide_own_operation *own = s->node->attributes.own;
    s->node->out_count = 0;
    for (size_t i = 0; i < own->in_count; i++) {
        if (!is_index(s->in[i])) {
            s->out[s->node->out_count++] = like(s->in[i]);
        }
    }
    return s->node->out_count > 0 ? 0 : tide__shape_wrong(s, "no operand has a gradient");
}

void tide__adjoint_own(struct walk *w) {
    const struct node node = *w->node;
    const struct tide_own_operation *own = node.attributes.own;
    uint32_t in[TIDE_OP_INPUTS];
    size_t count = 0;
    if (!own->backward) {
        w->error = tide__graph_wrong(w->p, "operation %s has no backward, and a gradient is wanted of it", own->name);
        return;
    }
    for (size_t i = 0; i < own->in_count; i++) {
        in[count++] = node.in[i];
    }
    for (size_t o = 0; o < own->out_count; o++) {
        in[count++] = node.out[o];
    }
    for (size_t o = 0; o < own->out_count; o++) { /* of the first there is one */
        const uint32_t g = w->gradient[node.out[o]];
        in[count++] = g == NONE ? tide__walk_zeros(w, node.out[o]) : g;
    }
    uint32_t made = tide__walk_apply(w, TIDE_OP_OWN_DX, count, in, &node.attributes);
    for (size_t i = 0, next = 0; i < own->in_count && w->error == 0; i++) {
        if (is_index(&w->p->values[node.in[i]])) {
            continue;
        }
        const uint32_t by = w->p->nodes[w->p->values[made].producer].out[next++];
        if (w->needed[node.in[i]]) {
            tide__walk_add(w, node.in[i], by);
        }
    }
}
