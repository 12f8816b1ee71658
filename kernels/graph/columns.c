/*
 * Passes over sums of products and over columns: a second product adds to the first one's result, a
 * slice is a view of its root's columns, and a gradient that is made of disjoint columns is stored
 * through views. They save passes over memory and no arithmetic changes its order but that of a bias.
 */
#include "graph/graph.h"

#include <string.h>

struct uses {
    struct tide_program *p;
    uint32_t *count;  /* by value: operations that read it; those outside of the list count, too */
    uint32_t *reader; /* the last one */
    uint32_t *views;  /* by value: other values of its storage */
};

static int open_uses(struct uses *u, struct tide_program *p) {
    *u = (struct uses){.p = p,
                       .count = tide_alloc_zero(p->value_count + 1, sizeof(*u->count)),
                       .reader = tide_alloc_zero(p->value_count + 1, sizeof(*u->reader)),
                       .views = tide_alloc_zero(p->value_count + 1, sizeof(*u->views))};
    return u->count && u->reader && u->views ? 0 : TIDE_ENOMEM;
}

static void close_uses(struct uses *u) {
    tide_free(u->count);
    tide_free(u->reader);
    tide_free(u->views);
}

static void count_uses(struct uses *u) {
    const struct tide_program *p = u->p;
    bool *wanted = tide_alloc_zero(p->value_count + 1, sizeof(*wanted));
    memset(u->views, 0, p->value_count * sizeof(*u->views));
    if (wanted) {
        tide__graph_wanted(p, wanted);
    }
    for (size_t i = 0; i < p->value_count; i++) {
        u->count[i] = !wanted || wanted[i];
        u->views[p->values[i].root] += p->values[i].root != i;
    }
    tide_free(wanted);
    for (size_t n = 0; n < p->node_count; n++) {
        const struct node *node = &p->nodes[n];
        for (size_t i = 0; node->out_count > 0 && i < node->in_count; i++) {
            u->count[node->in[i]]++;
            u->reader[node->in[i]] = (uint32_t)n;
        }
    }
}

/* An operation of its own that only `count` operands of this kind make up. */
static bool is_add(const struct node *node, uint8_t a, uint8_t b) {
    const struct tide_region *r = &node->attributes.region;
    return node->code == TIDE_OP_MAP && node->out_count == 1 && r->micro_count == 1 &&
           r->micro[0].code == TIDE_MICRO_ADD && r->source_count == 2 && r->kind[0] == a && r->kind[1] == b;
}

/* Rows of the arena that one operation reads, and nothing outside. */
static bool is_own(const struct uses *u, uint32_t value) {
    const struct value *v = &u->p->values[value];
    return v->class == CLASS_TEMPORARY && v->type == TIDE_VALUE_FLOAT && v->space != 0 &&
           v->space != TIDE_SPACE_TABLE && v->rank == 1 && v->stride == 0 && u->count[value] == 1 &&
           v->producer != NONE;
}

/* The product that makes it and adds to nothing yet. */
static struct node *product_of(const struct uses *u, uint32_t value) {
    struct node *node = &u->p->nodes[u->p->values[value].producer];
    return node->code == TIDE_OP_MM && !node->accumulates && node->out_count == 1 &&
                   u->p->values[value].root == value && u->views[value] == 0
               ? node
               : NULL;
}

/* a + product: the product adds to a. */
static bool join(struct uses *u, size_t n, uint32_t a, uint32_t b) {
    struct tide_program *p = u->p;
    struct node *add = &p->nodes[n];
    if (!is_own(u, a) || !is_own(u, b) || a == b) {
        return false;
    }
    struct node *product = product_of(u, b), *maker = &p->nodes[p->values[a].producer];
    if (!product || p->values[a].producer >= p->values[b].producer || product->section != add->section ||
        product->kind != add->kind || maker->kind != add->kind) {
        return false;
    }
    if (is_add(maker, TIDE_SOURCE_FULL, TIDE_SOURCE_ROW) && is_own(u, maker->in[0]) &&
        p->nodes[p->values[maker->in[0]].producer].code == TIDE_OP_MM) {
        /* (x + bias) + product = (x + product) + bias */
        uint32_t x = maker->in[0], bias = maker->in[1];
        product->in[2] = x;
        p->values[b].root = p->values[x].root;
        maker->out_count = 0;
        add->in[0] = b;
        add->in[1] = bias;
        add->attributes.region.kind[0] = TIDE_SOURCE_FULL;
        add->attributes.region.kind[1] = TIDE_SOURCE_ROW;
    } else if (maker->code == TIDE_OP_MM || maker->code == TIDE_OP_GATHER_SUM || maker->code == TIDE_OP_GATHER) {
        uint32_t out = add->out[0];
        if (p->values[out].root != out || p->values[out].space == 0) {
            return false;
        }
        product->in[2] = a;
        product->out[0] = out;
        p->values[out].root = p->values[a].root;
        p->values[out].producer = p->values[b].producer;
        add->out_count = 0;
    } else {
        return false;
    }
    product->in_count = 3;
    product->accumulates = true;
    return true;
}

void tide__graph_accumulate(struct tide_program *p) {
    struct uses u;
    if (open_uses(&u, p) == 0) {
        count_uses(&u);
        for (size_t n = 0; n < p->node_count; n++) {
            struct node *node = &p->nodes[n];
            if (is_add(node, TIDE_SOURCE_FULL, TIDE_SOURCE_FULL) &&
                (join(&u, n, node->in[0], node->in[1]) || join(&u, n, node->in[1], node->in[0]))) {
                count_uses(&u);
            }
        }
        tide__graph_compact(p);
    }
    close_uses(&u);
}

/* ---- views of columns ---- */

/* Whether operand i of a region is read row by row: a number a row is read densely. */
static bool is_full(const struct tide_region *region, size_t i) {
    for (size_t s = 0; s < region->source_count; s++) {
        if (region->kind[s] != TIDE_SOURCE_CONSTANT && i-- == 0) {
            return region->kind[s] == TIDE_SOURCE_FULL;
        }
    }
    return false;
}

static bool takes_views(const struct node *node, size_t i) {
    return (node->code == TIDE_OP_MAP && is_full(&node->attributes.region, i)) || (node->code == TIDE_OP_MM && i < 2) ||
           (node->code == TIDE_OP_ATTENTION && i < 3) || (node->code == TIDE_OP_ATTENTION_DX && i < 5) ||
           ((node->code == TIDE_OP_GATHER || node->code == TIDE_OP_GATHER_SUM || node->code == TIDE_OP_GATHER_MAX) &&
            i == 0);
}

static bool is_rows(const struct value *v) {
    return v->type == TIDE_VALUE_FLOAT && v->rank > 0 && v->space != 0 && v->space != TIDE_SPACE_TABLE &&
           v->class == CLASS_TEMPORARY;
}

static bool all_read_views(const struct tide_program *p, uint32_t value) {
    for (size_t n = 0; n < p->node_count; n++) {
        const struct node *node = &p->nodes[n];
        for (size_t i = 0; node->out_count > 0 && i < node->in_count; i++) {
            if (node->in[i] == value && !takes_views(node, i)) {
                return false;
            }
        }
    }
    return true;
}

static bool only_sliced(const struct tide_program *p, uint32_t value) {
    for (size_t n = 0; n < p->node_count; n++) {
        const struct node *node = &p->nodes[n];
        for (size_t i = 0; node->out_count > 0 && i < node->in_count; i++) {
            if (node->in[i] == value && node->code != TIDE_OP_SLICE) {
                return false;
            }
        }
    }
    return true;
}

static void become_view(struct tide_program *p, uint32_t view, uint32_t of, uint32_t first) {
    struct value *v = &p->values[view];
    const struct value *from = &p->values[of];
    v->root = from->root;
    v->column = from->column + first;
    v->stride = from->stride ? from->stride : (uint32_t)tide__graph_columns(from);
    v->producer = from->producer;
}

/* slice(x + bias) = slice(x) + slice(bias): where all is sliced, the sum is made a part at a time. */
static int sink(struct uses *u, size_t n) {
    struct tide_program *p = u->p;
    const struct node add = p->nodes[n];
    if (!is_add(&add, TIDE_SOURCE_FULL, TIDE_SOURCE_ROW) || !is_rows(&p->values[add.in[0]]) ||
        p->values[add.in[1]].class != CLASS_PARAMETER || !only_sliced(p, add.out[0])) {
        return 0;
    }
    size_t slices = 0;
    for (size_t k = 0; k < p->node_count; k++) {
        slices += p->nodes[k].out_count > 0 && p->nodes[k].code == TIDE_OP_SLICE && p->nodes[k].in[0] == add.out[0];
    }
    if (slices == 0 || u->count[add.out[0]] != slices) {
        return 0;
    }
    for (size_t k = 0; k < p->node_count; k++) {
        struct node *slice = &p->nodes[k];
        if (slice->out_count == 0 || slice->code != TIDE_OP_SLICE || slice->in[0] != add.out[0]) {
            continue;
        }
        uint32_t first = slice->attributes.first, parts[2];
        for (size_t i = 0; i < 2; i++) {
            struct value part = p->values[add.in[i]];
            part.dims[part.rank - 1] = slice->attributes.count;
            part.name[0] = 0;
            part.class = CLASS_TEMPORARY;
            int code = tide__graph_value(p, part, &parts[i]);
            if (code != 0) {
                return code;
            }
            become_view(p, parts[i], add.in[i], first);
        }
        slice = &p->nodes[k];
        slice->code = TIDE_OP_MAP;
        slice->attributes = add.attributes;
        slice->in_count = 2;
        slice->in[0] = parts[0];
        slice->in[1] = parts[1];
    }
    p->nodes[n].out_count = 0;
    return 0;
}

enum { LEAVES = 16 };

struct assembly {
    uint32_t slices[LEAVES], adds[LEAVES]; /* operations */
    size_t slice_count, add_count, columns;
};

/* A value that can be stored as columns of another: one operation of the section makes it for one
 * reader. */
static bool is_part(const struct uses *u, uint32_t value, const struct node *of) {
    const struct tide_program *p = u->p;
    const struct value *v = &p->values[value];
    if (!is_own(u, value) || v->root != value || u->views[value] != 0) {
        return false;
    }
    const struct node *maker = &p->nodes[v->producer];
    return maker->section == of->section && maker->kind == of->kind && !maker->accumulates &&
           (maker->code == TIDE_OP_MAP || maker->code == TIDE_OP_MM || maker->code == TIDE_OP_GATHER ||
            maker->code == TIDE_OP_GATHER_SUM || maker->code == TIDE_OP_ATTENTION_DX);
}

/* The SLICE_DX that a sum is made of. */
static bool collect(const struct uses *u, size_t n, struct assembly *a) {
    const struct tide_program *p = u->p;
    const struct node *node = &p->nodes[n];
    if (node->code == TIDE_OP_SLICE_DX) {
        uint32_t own = (uint32_t)tide__graph_columns(&p->values[node->in[0]]);
        if (a->slice_count == LEAVES || !is_part(u, node->in[0], node)) {
            return false;
        }
        for (size_t i = 0; i < a->slice_count; i++) {
            const struct node *other = &p->nodes[a->slices[i]];
            uint32_t columns = (uint32_t)tide__graph_columns(&p->values[other->in[0]]);
            if (node->attributes.first < other->attributes.first + columns &&
                other->attributes.first < node->attributes.first + own) {
                return false;
            }
        }
        a->slices[a->slice_count++] = (uint32_t)n;
        a->columns += own;
        return true;
    }
    if (!is_add(node, TIDE_SOURCE_FULL, TIDE_SOURCE_FULL) || a->add_count == LEAVES) {
        return false;
    }
    a->adds[a->add_count++] = (uint32_t)n;
    for (size_t i = 0; i < 2; i++) {
        uint32_t maker = p->values[node->in[i]].producer;
        if (maker == NONE || !is_own(u, node->in[i]) || p->nodes[maker].section != node->section ||
            !collect(u, maker, a)) {
            return false;
        }
    }
    return true;
}

/* No reader of it could be joined with its makers. */
static bool read_whole(const struct tide_program *p, uint32_t value) {
    for (size_t n = 0; n < p->node_count; n++) {
        const struct node *node = &p->nodes[n];
        for (size_t i = 0; node->out_count > 0 && i < node->in_count; i++) {
            if (node->in[i] == value &&
                (node->code == TIDE_OP_MAP || node->code == TIDE_OP_SLICE || node->code == TIDE_OP_RESHAPE)) {
                return false;
            }
        }
    }
    return true;
}

static void assemble(const struct uses *u, size_t n) {
    struct tide_program *p = u->p;
    struct assembly a = {.slice_count = 0};
    uint32_t out = p->nodes[n].out[0], last = 0;
    struct value *v = &p->values[out];
    if (!is_rows(v) || v->root != out || u->views[out] != 0 ||
        !is_add(&p->nodes[n], TIDE_SOURCE_FULL, TIDE_SOURCE_FULL) || !read_whole(p, out) || !collect(u, n, &a) ||
        a.columns != tide__graph_columns(v)) {
        return;
    }
    for (size_t i = 0; i < a.slice_count; i++) {
        struct node *slice = &p->nodes[a.slices[i]];
        uint32_t from = slice->in[0], maker = p->values[from].producer;
        p->values[from].root = out;
        p->values[from].column = slice->attributes.first;
        p->values[from].stride = (uint32_t)a.columns;
        slice->out_count = 0;
        last = maker > last ? maker : last;
    }
    for (size_t i = 0; i < a.add_count; i++) {
        p->nodes[a.adds[i]].out_count = 0;
    }
    v->producer = last;
}

static bool is_output(const struct tide_program *p, uint32_t value) {
    for (size_t i = 0; i < p->output_count; i++) {
        if (p->outputs[i].value == value) {
            return true;
        }
    }
    return false;
}

/* Both parts are stored where they belong. */
static void join_columns(const struct uses *u, size_t n) {
    struct tide_program *p = u->p;
    struct node *node = &p->nodes[n];
    uint32_t out = node->out[0], a = node->in[0], b = node->in[1], first = 0;
    if (node->code != TIDE_OP_CONCAT || a == b || !is_rows(&p->values[out]) || p->values[out].root != out ||
        u->views[out] != 0 || !read_whole(p, out) || !is_part(u, a, node) || !is_part(u, b, node)) {
        return;
    }
    for (size_t i = 0; i < 2; i++) {
        struct value *part = &p->values[node->in[i]];
        part->root = out;
        part->column = first;
        part->stride = (uint32_t)tide__graph_columns(&p->values[out]);
        first += (uint32_t)tide__graph_columns(part);
    }
    uint32_t one = p->values[a].producer, other = p->values[b].producer;
    p->values[out].producer = one > other ? one : other;
    node->out_count = 0;
}

void tide__graph_views(struct tide_program *p) {
    struct uses u;
    int code = open_uses(&u, p);
    if (code == 0) {
        count_uses(&u);
    }
    for (size_t n = 0; code == 0 && n < p->node_count; n++) {
        code = p->nodes[n].out_count > 0 ? sink(&u, n) : 0;
    }
    close_uses(&u);
    code = code == 0 ? open_uses(&u, p) : code; /* there are new values */
    if (code != 0) {
        return; /* copies cost time, nothing else */
    }
    count_uses(&u);
    for (size_t n = p->node_count; n-- > 0;) {
        if (p->nodes[n].out_count > 0) {
            assemble(&u, n);
            join_columns(&u, n);
            count_uses(&u);
        }
    }
    for (size_t n = 0; n < p->node_count; n++) {
        struct node *node = &p->nodes[n];
        if (node->out_count > 0 && node->code == TIDE_OP_SLICE && is_rows(&p->values[node->in[0]]) &&
            is_rows(&p->values[node->out[0]]) && !is_output(p, node->out[0]) && all_read_views(p, node->out[0])) {
            node->out_count = 0;
            become_view(p, node->out[0], node->in[0], node->attributes.first);
        }
    }
    close_uses(&u);
    tide__graph_compact(p);
}
