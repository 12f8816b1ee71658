/*
 * Passes over the list: evaluation form, dead operations, fusion of elementwise operations into
 * regions. Each leaves a list whose operations come after what they read.
 */
#include "graph/graph.h"

#include <string.h>

/* ---- evaluation ---- */

static void make_view(struct tide_program *p, struct node *node) {
    uint32_t from = p->values[node->in[0]].root, old = node->out[0];
    node->code = TIDE_OP_RESHAPE;
    for (size_t i = 0; i < p->value_count; i++) {
        if (p->values[i].root == old) {
            p->values[i].root = from;
        }
    }
}

int tide__graph_evaluation(struct tide_program *p) {
    size_t kept = 0;
    for (size_t n = 0; n < p->node_count; n++) {
        if (p->nodes[n].backward) {
            continue;
        }
        struct node *node = &p->nodes[kept];
        if (kept++ != n) {
            *node = p->nodes[n];
        }
        if (node->code == TIDE_OP_BATCHNORM) {
            node->code = TIDE_OP_BATCHNORM_EVAL;
            node->out_count = 1;
        } else if (node->code == TIDE_OP_DROPOUT) {
            make_view(p, node);
        } else if (node->code == TIDE_OP_LINEAR_XENT) {
            node->attributes.count = 1;
        }
    }
    p->node_count = kept;
    kept = 0;
    for (size_t i = 0; i < p->output_count; i++) { /* gradients are no outputs any more */
        uint32_t maker = p->values[p->outputs[i].value].producer;
        if (maker == NONE || maker < p->node_count) {
            p->outputs[kept++] = p->outputs[i];
        }
    }
    p->output_count = kept;
    for (size_t i = 0; i < p->value_count; i++) {
        p->values[i].gradient = NONE;
    }
    return 0;
}

/* ---- what is needed ---- */

/* Values that are read outside of the list. */
void tide__graph_wanted(const struct tide_program *p, bool *wanted) {
    for (size_t i = 0; i < p->output_count; i++) {
        wanted[p->outputs[i].value] = true;
    }
    for (size_t i = 0; i < p->loss_count; i++) {
        wanted[p->nodes[p->losses[i]].out[0]] = true;
    }
    for (size_t i = 0; i < p->parameter_count; i++) {
        uint32_t g = p->values[p->parameters[i]].gradient;
        if (g != NONE) {
            wanted[g] = true;
        }
    }
    for (size_t i = 0; i < p->value_count; i++) {
        const struct value *v = &p->values[i];
        if (v->alias != NONE) { /* read in another round of a loop */
            wanted[v->alias] = true;
        }
        if (v->class == CLASS_TABLE && v->gradient != NONE) {
            wanted[v->gradient] = true;
        }
    }
}

/* Removes operations that were marked by out_count 0; numbers producers and losses anew. */
void tide__graph_compact(struct tide_program *p) {
    size_t kept = 0, losses = 0;
    uint32_t *now = tide_alloc((p->node_count + 1) * sizeof(*now));
    for (size_t n = 0; n < p->node_count; n++) {
        if (now) {
            now[n] = (uint32_t)kept;
        }
        if (p->nodes[n].out_count == 0) {
            continue;
        }
        if (kept != n) {
            p->nodes[kept] = p->nodes[n];
        }
        kept++;
    }
    for (size_t i = 0; now && i < p->value_count; i++) { /* views, too */
        struct value *v = &p->values[i];
        if (v->producer != NONE && v->producer < p->node_count) {
            v->producer = now[v->producer];
        }
    }
    p->node_count = kept;
    for (size_t n = 0; n < kept; n++) {
        const struct node *node = &p->nodes[n];
        for (size_t o = 0; o < node->out_count; o++) {
            p->values[node->out[o]].producer = (uint32_t)n;
        }
        if (tide_op_is_loss(node->code)) {
            p->losses[losses++] = (uint32_t)n;
        }
    }
    p->loss_count = losses;
    tide_free(now);
}

void tide__graph_clean(struct tide_program *p) {
    bool *wanted = tide_alloc_zero(p->value_count, sizeof(*wanted));
    if (!wanted) {
        return; /* dead operations cost time, nothing else */
    }
    tide__graph_wanted(p, wanted);
    for (size_t n = p->node_count; n-- > 0;) {
        struct node *node = &p->nodes[n];
        bool any = false;
        for (size_t o = 0; o < node->out_count; o++) {
            any = any || wanted[node->out[o]];
        }
        if (!any) {
            node->out_count = 0;
            continue;
        }
        for (size_t i = 0; i < node->in_count; i++) {
            wanted[node->in[i]] = true;
        }
    }
    tide__graph_compact(p);
    tide_free(wanted);
}

/* ---- fusion ---- */

struct fusion {
    struct tide_program *p;
    uint32_t *uses; /* by value: operations that read it, and one if it is wanted outside */
    bool *wanted;
};

static bool same_space(const struct tide_program *p, uint32_t a, uint32_t b) {
    const struct value *v = &p->values[a], *w = &p->values[b];
    return v->space == w->space && v->rank == w->rank && memcmp(v->dims, w->dims, v->rank * sizeof(v->dims[0])) == 0;
}

static bool reads(const struct node *node, uint32_t value) {
    for (size_t i = 0; i < node->in_count; i++) {
        if (node->in[i] == value) {
            return true;
        }
    }
    return false;
}

static bool reads_storage(const struct tide_program *p, const struct node *node, uint32_t root) {
    for (size_t i = 0; i < node->in_count; i++) {
        if (p->values[node->in[i]].root == root) {
            return true;
        }
    }
    return false;
}

static int output_index(const struct node *node, uint32_t value) {
    for (size_t o = 0; o < node->out_count; o++) {
        if (node->out[o] == value) {
            return (int)o;
        }
    }
    return -1;
}

/* May x, at position n, move up to r's? Then all it reads, but r's results, is there before r. */
static bool can_move_up(const struct fusion *f, size_t r, size_t n) {
    const struct node *x = &f->p->nodes[n];
    for (size_t i = 0; i < x->in_count; i++) {
        uint32_t maker = f->p->values[x->in[i]].producer;
        if (maker != NONE && maker >= r && (maker != r || output_index(&f->p->nodes[r], x->in[i]) < 0)) {
            return false; /* also a view of what r makes */
        }
    }
    return true;
}

/* May r move down to n? Only if none reads its results earlier. */
static bool can_move_down(const struct fusion *f, size_t r, size_t n) {
    for (size_t k = r + 1; k < n; k++) {
        const struct node *node = &f->p->nodes[k];
        for (size_t o = 0; node->out_count > 0 && o < f->p->nodes[r].out_count; o++) {
            if (reads_storage(f->p, node, f->p->values[f->p->nodes[r].out[o]].root)) {
                return false;
            }
        }
    }
    return true;
}

/* The register of a source of the merged region, added if it is new; -1: there is no room. */
static int add_source(struct node *made, uint8_t kind, double constant, uint32_t value) {
    struct tide_region *region = &made->attributes.region;
    size_t next = 0;
    for (int s = 0; s < region->source_count; s++) {
        uint32_t own = region->kind[s] == TIDE_SOURCE_CONSTANT ? NONE : made->in[next++];
        if (region->kind[s] == kind && own == value && memcmp(&region->constant[s], &constant, sizeof(constant)) == 0) {
            return s;
        }
    }
    if (region->source_count == TIDE_REGION_SOURCES) {
        return -1;
    }
    if (kind != TIDE_SOURCE_CONSTANT) {
        made->in[made->in_count++] = value;
    }
    region->kind[region->source_count] = kind;
    region->constant[region->source_count] = constant;
    return region->source_count++;
}

/* Appends the sources of `part` to `made`; of[reg] is the register that each becomes, for results
 * of `inner` (or NULL) minus its micro-operation's number minus 2. */
static bool join_sources(struct node *made, const struct node *part, const struct node *inner, int *of) {
    const struct tide_region *region = &part->attributes.region;
    size_t next = 0;
    for (size_t s = 0; s < region->source_count; s++) {
        uint32_t value = region->kind[s] == TIDE_SOURCE_CONSTANT ? NONE : part->in[next++];
        int o = inner && value != NONE ? output_index(inner, value) : -1;
        if (o >= 0) {
            const struct tide_region *r = &inner->attributes.region;
            of[s] = -2 - (r->out[o] - r->source_count);
            continue;
        }
        of[s] = add_source(made, region->kind[s], region->constant[s], value);
        if (of[s] < 0) {
            return false;
        }
    }
    return true;
}

static uint8_t renumber(const struct tide_region *region, const int *of, uint8_t reg, int sources, int before) {
    int to = reg < region->source_count ? of[reg] : sources + before + (reg - region->source_count);
    return (uint8_t)(to <= -2 ? sources + (-2 - to) : to);
}

static void join_micros(struct tide_region *made, const struct tide_region *part, const int *of) {
    int sources = made->source_count, before = made->micro_count;
    for (size_t i = 0; i < part->micro_count; i++) {
        const struct tide_micro *u = &part->micro[i];
        made->micro[made->micro_count++] =
            (struct tide_micro){u->code, renumber(part, of, u->a, sources, before),
                                renumber(part, of, u->b, sources, before), renumber(part, of, u->c, sources, before)};
    }
}

/* Outputs of `part` that others than x still read. */
static bool join_outputs(const struct fusion *f, struct node *made, const struct node *part, const struct node *x,
                         const int *of, int before) {
    struct tide_region *region = &made->attributes.region;
    for (size_t o = 0; o < part->out_count; o++) {
        uint32_t left = f->uses[part->out[o]] - (x != part && reads(x, part->out[o]));
        if (left == 0 && x != part) {
            continue;
        }
        if (made->out_count == TIDE_REGION_OUTS) {
            return false;
        }
        region->out[made->out_count] =
            renumber(&part->attributes.region, of, part->attributes.region.out[o], region->source_count, before);
        made->out[made->out_count++] = part->out[o];
    }
    region->out_count = made->out_count;
    return true;
}

/* Tries to make one operation of regions r and n; true if it is done. */
static bool merge(struct fusion *f, size_t r, size_t n) {
    struct node *inner = &f->p->nodes[r], *x = &f->p->nodes[n];
    if (inner->attributes.region.micro_count + x->attributes.region.micro_count > TIDE_REGION_MICROS) {
        return false;
    }
    for (size_t i = 0; i < x->in_count; i++) { /* a view of its results is not in registers */
        const struct value *v = &f->p->values[x->in[i]];
        for (size_t o = 0; o < inner->out_count; o++) {
            if (output_index(inner, x->in[i]) < 0 && v->root == f->p->values[inner->out[o]].root && v->producer == r) {
                return false;
            }
        }
    }
    bool up = can_move_up(f, r, n);
    if (!up && !can_move_down(f, r, n)) {
        return false;
    }
    struct node made = *x;
    int of_inner[TIDE_REGION_SOURCES], of_x[TIDE_REGION_SOURCES];
    made.attributes.region = (struct tide_region){0};
    made.in_count = made.out_count = 0;
    if (!join_sources(&made, inner, NULL, of_inner) || !join_sources(&made, x, inner, of_x)) {
        return false;
    }
    join_micros(&made.attributes.region, &inner->attributes.region, of_inner);
    join_micros(&made.attributes.region, &x->attributes.region, of_x);
    if (!join_outputs(f, &made, inner, x, of_inner, 0) ||
        !join_outputs(f, &made, x, x, of_x, inner->attributes.region.micro_count)) {
        return false;
    }
    for (size_t i = 0; i < inner->in_count; i++) { /* what both read is read once */
        f->uses[inner->in[i]] -= reads(x, inner->in[i]);
    }
    for (size_t o = 0; o < inner->out_count; o++) {
        f->uses[inner->out[o]] -= reads(x, inner->out[o]);
    }
    size_t place = up ? r : n;
    f->p->nodes[up ? n : r].out_count = 0;
    f->p->nodes[place] = made;
    for (size_t i = 0; i < f->p->value_count; i++) { /* views of its results, too */
        struct value *v = &f->p->values[i];
        if (v->producer == r || v->producer == n) {
            v->producer = (uint32_t)place;
        }
    }
    return true;
}

/* Joins the operation at n to the region of a producer, as long as one can be found. */
static size_t fuse_at(struct fusion *f, size_t n) {
    for (bool again = true; again;) {
        again = false;
        const struct node *x = &f->p->nodes[n];
        size_t next = 0;
        for (size_t s = 0; s < x->attributes.region.source_count && !again; s++) {
            if (x->attributes.region.kind[s] == TIDE_SOURCE_CONSTANT) {
                continue;
            }
            uint32_t value = x->in[next++], r = f->p->values[value].producer;
            if (x->attributes.region.kind[s] != TIDE_SOURCE_FULL || r == NONE || r == n) {
                continue;
            }
            const struct node *inner = &f->p->nodes[r];
            if (inner->code == TIDE_OP_MAP && inner->out_count > 0 && output_index(inner, value) >= 0 &&
                inner->section == x->section && inner->kind == x->kind && inner->backward == x->backward &&
                same_space(f->p, inner->out[0], x->out[0]) && merge(f, r, n)) {
                again = true;
                n = f->p->nodes[n].out_count > 0 ? n : r;
            }
        }
    }
    return n;
}

void tide__graph_fuse(struct tide_program *p) {
    struct fusion f = {.p = p};
    f.uses = tide_alloc_zero(p->value_count, sizeof(*f.uses));
    f.wanted = tide_alloc_zero(p->value_count, sizeof(*f.wanted));
    if (f.uses && f.wanted) {
        tide__graph_wanted(p, f.wanted);
        for (size_t i = 0; i < p->value_count; i++) {
            f.uses[i] = f.wanted[i] || p->values[i].root != i; /* part of a larger one */
        }
        for (size_t n = 0; n < p->node_count; n++) {
            for (size_t i = 0; i < p->nodes[n].in_count; i++) {
                bool again = false; /* an operation that reads a value twice counts once */
                for (size_t k = 0; k < i; k++) {
                    again = again || p->nodes[n].in[k] == p->nodes[n].in[i];
                }
                f.uses[p->nodes[n].in[i]] += !again;
            }
        }
        for (size_t n = 0; n < p->node_count; n++) {
            if (p->nodes[n].code == TIDE_OP_MAP && p->nodes[n].out_count > 0) {
                fuse_at(&f, n);
            }
        }
        tide__graph_compact(p);
    }
    tide_free(f.uses);
    tide_free(f.wanted);
}
