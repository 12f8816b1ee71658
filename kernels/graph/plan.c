/*
 * Planning: every temporary gets a place in one arena, in bytes a row of the run (or in bytes, if
 * its size is constant), by best fit over the intervals in which values live, largest first; an
 * elementwise result takes the place of an operand that dies there. One plan serves any number of
 * rows.
 */
#include "graph/plan.h"

#include <string.h>

enum { ALIGNMENT = 64 };

struct interval { /* of a root: from its making to its last reading */
    uint32_t value;
    size_t from, to;
    size_t bytes; /* a row, or all */
    uint8_t pool; /* enum place_kind: what the bytes are a row of */
    bool away;    /* read at rows of other levels, or in several sections */
    uint8_t section;
    uint32_t host; /* another root whose place it takes over; its own number: none */
};

struct planner {
    struct tide_plan *plan;
    struct tide_program *p;
    struct interval *intervals; /* by value; bytes 0: not in the arena */
    uint32_t *order;
    size_t count;
    bool reuse;
};

static size_t bytes_of(const struct tide_plan *plan, const struct value *v) {
    size_t bytes = tide__graph_rows(v, 1) * tide__graph_columns(v) * tide__graph_element(v, plan->device->element);
    return (bytes + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
}

/* When operation n no longer needs what it reads or writes: in a loop, what is not read at its own
 * rows alone is needed again in the next round. */
static size_t over_at(const struct planner *l, size_t n, uint32_t value, bool any) {
    const struct node *node = &l->p->nodes[n];
    bool loop = l->p->vertex && (node->section == SECTION_UP || node->section == SECTION_DOWN);
    const struct value *v = &l->p->values[value];
    bool again = any || v->alias != NONE || v->space == TIDE_SPACE_CONSTANT || v->space == TIDE_SPACE_TABLE;
    return loop && again ? l->plan->section_at[node->section + 1] : n;
}

static void touch(struct planner *l, size_t n, uint32_t value, bool any) {
    struct interval *i = &l->intervals[l->p->values[value].root];
    size_t at = over_at(l, n, value, any);
    i->to = at > i->to ? at : i->to;
    i->away = i->away || any || l->p->values[value].alias != NONE || i->section != l->p->nodes[n].section;
}

static uint8_t pool_of(const struct value *v) {
    return v->space == TIDE_SPACE_CONSTANT ? PLACE_FIXED
           : v->space == TIDE_SPACE_EDGE   ? PLACE_EDGES
           : v->space == TIDE_SPACE_TABLE  ? PLACE_TABLE_ROWS
                                           : PLACE_ROWS;
}

static void find_intervals(struct planner *l) {
    struct tide_program *p = l->p;
    for (size_t i = 0; i < p->value_count; i++) {
        l->intervals[i] = (struct interval){.value = (uint32_t)i, .host = (uint32_t)i};
    }
    for (size_t n = 0; n < p->node_count; n++) {
        const struct node *node = &p->nodes[n];
        for (size_t o = 0; o < node->out_count; o++) {
            uint32_t root = p->values[node->out[o]].root;
            struct interval *i = &l->intervals[root];
            if (i->bytes == 0 && l->plan->places[root].kind == PLACE_NONE) {
                i->bytes = bytes_of(l->plan, &p->values[root]);
                i->pool = pool_of(&p->values[root]);
                i->from = n;
                i->section = node->section;
            }
            touch(l, n, node->out[o], false);
        }
        for (size_t i = 0; i < node->in_count; i++) {
            touch(l, n, node->in[i], p->vertex && tide__vertex_reads_any(node, i));
        }
    }
    for (size_t i = 0; i < p->output_count; i++) {
        struct interval *own = &l->intervals[p->values[p->outputs[i].value].root];
        own->to = p->node_count;
        own->away = true;
    }
    for (size_t i = 0; i < p->loss_count; i++) {
        l->intervals[p->nodes[p->losses[i]].out[0]].to = p->node_count;
    }
    for (size_t i = 0; p->vertex && l->reuse && i < p->value_count; i++) {
        struct interval *own = &l->intervals[i];
        if (own->pool == PLACE_ROWS && !own->away && (own->section == SECTION_UP || own->section == SECTION_DOWN)) {
            own->pool = PLACE_LEVEL;
        }
    }
}

static uint32_t host_of(const struct planner *l, uint32_t root) {
    while (l->intervals[root].host != root) {
        root = l->intervals[root].host;
    }
    return root;
}

/* Whether output o of a region may overwrite its source s: nothing reads s after o is stored. */
static bool region_allows(const struct tide_region *region, size_t source, size_t o) {
    for (size_t i = (size_t)(region->out[o] - region->source_count) + 1; i < region->micro_count; i++) {
        const struct tide_micro *u = &region->micro[i];
        unsigned arity = tide_micro_arity(u->code);
        if (u->a == source || (arity > 1 && u->b == source) || (arity > 2 && u->c == source)) {
            return false;
        }
    }
    return true;
}

static bool take_over(struct planner *l, uint32_t from, uint32_t to, size_t n) {
    uint32_t host = host_of(l, l->p->values[from].root);
    struct interval *a = &l->intervals[host], *b = &l->intervals[to];
    bool rows = a->pool == b->pool || (a->pool == PLACE_ROWS && b->pool == PLACE_LEVEL);
    if (a->bytes == 0 || b->bytes != a->bytes || !rows || a->to != n || b->host != to || b->from != n || host == to ||
        l->p->values[from].stride != 0 || l->p->values[to].root != to) {
        return false;
    }
    b->host = host;
    a->to = b->to;
    return true;
}

static void share_in_place(struct planner *l) {
    for (size_t n = 0; n < l->p->node_count; n++) {
        const struct node *node = &l->p->nodes[n];
        if (node->code == TIDE_OP_XENT) {
            take_over(l, node->in[0], node->out[1], n);
        }
        if (node->code != TIDE_OP_MAP) {
            continue;
        }
        const struct tide_region *region = &node->attributes.region;
        for (size_t o = 0; o < node->out_count; o++) {
            size_t next = 0;
            bool done = false;
            for (size_t s = 0; s < region->source_count && !done; s++) {
                if (region->kind[s] == TIDE_SOURCE_CONSTANT) {
                    continue;
                }
                uint32_t from = node->in[next++];
                done = region->kind[s] == TIDE_SOURCE_FULL && region_allows(region, s, o) &&
                       take_over(l, from, node->out[o], n);
            }
        }
    }
}

static bool overlap(const struct interval *a, const struct interval *b) {
    return a->from <= b->to && b->from <= a->to;
}

/* Rows of values of other widths do not lie where a value's own do: but for what takes over a place as
 * it is, rows and edges are in use for the whole of each loop that touches them. */
static void widen(struct planner *l) {
    const size_t *at = l->plan->section_at;
    for (size_t i = 0; l->p->vertex && i < l->p->value_count; i++) {
        struct interval *own = &l->intervals[i];
        for (size_t s = SECTION_UP; s <= SECTION_DOWN; s += SECTION_DOWN - SECTION_UP) {
            if (own->bytes == 0 || own->pool == PLACE_LEVEL || at[s] == at[s + 1]) {
                continue;
            }
            if (own->from >= at[s] && own->from < at[s + 1]) {
                own->from = at[s];
            }
            if (own->to >= at[s] && own->to < at[s + 1]) {
                own->to = at[s + 1] - 1;
            }
        }
    }
}

/* The tightest gap below the top that holds `bytes` while `own` lives; else the top. */
static size_t best_fit(const struct planner *l, const struct interval *own, const uint32_t *placed,
                       size_t placed_count) {
    size_t best = SIZE_MAX, best_gap = SIZE_MAX, at = 0;
    for (;;) { /* gaps in order of offset: the next busy piece at or after `at` */
        size_t start = SIZE_MAX, end = at;
        for (size_t i = 0; i < placed_count; i++) {
            const struct interval *other = &l->intervals[placed[i]];
            const struct place *place = &l->plan->places[placed[i]];
            if (other->pool != own->pool || !overlap(own, other)) {
                continue;
            }
            if (place->offset <= at && place->offset + place->bytes > end) {
                end = place->offset + place->bytes;
            } else if (place->offset > at && place->offset < start) {
                start = place->offset;
            }
        }
        if (end > at) {
            at = end;
            continue;
        }
        if (start == SIZE_MAX) {
            return best == SIZE_MAX ? at : best;
        }
        if (start - at >= own->bytes && start - at < best_gap) {
            best_gap = start - at;
            best = at;
        }
        at = start;
    }
}

static void sort_by_size(struct planner *l) {
    for (size_t i = 1; i < l->count; i++) { /* stable, so that the plan is the same everywhere */
        uint32_t own = l->order[i];
        size_t k = i;
        for (; k > 0 && l->intervals[l->order[k - 1]].bytes < l->intervals[own].bytes; k--) {
            l->order[k] = l->order[k - 1];
        }
        l->order[k] = own;
    }
}

static void assign(struct planner *l, bool reuse) {
    struct tide_plan *plan = l->plan;
    for (size_t i = 0; i < l->p->value_count; i++) {
        if (l->intervals[i].bytes > 0) {
            plan->all_row_bytes += l->intervals[i].pool != PLACE_FIXED ? l->intervals[i].bytes : 0;
            if (l->intervals[i].host == i) {
                l->order[l->count++] = (uint32_t)i;
            }
        }
    }
    sort_by_size(l);
    for (size_t i = 0; i < l->count; i++) {
        struct interval *own = &l->intervals[l->order[i]];
        struct place *place = &plan->places[own->value];
        size_t *top = own->pool == PLACE_ROWS    ? &plan->row_bytes
                      : own->pool == PLACE_LEVEL ? &plan->level_bytes
                      : own->pool == PLACE_EDGES ? &plan->edge_bytes
                      : own->pool == PLACE_FIXED ? &plan->fixed_bytes
                                                 : &plan->table_bytes;
        place->kind = own->pool;
        place->bytes = own->bytes;
        place->offset = reuse ? best_fit(l, own, l->order, i) : *top;
        *top = place->offset + place->bytes > *top ? place->offset + place->bytes : *top;
    }
    for (size_t i = 0; i < l->p->value_count; i++) { /* views and guests */
        uint32_t root = l->p->values[i].root;
        if (plan->places[root].kind == PLACE_NONE && l->intervals[root].bytes > 0) {
            plan->places[root] = plan->places[host_of(l, root)];
        }
    }
    for (size_t i = 0; i < l->p->value_count; i++) {
        plan->places[i] = plan->places[l->p->values[i].root];
    }
}

/* What has its place outside of the arena. */
static void place_outside(struct tide_plan *plan) {
    struct tide_program *p = plan->program;
    for (size_t i = 0; i < p->value_count; i++) {
        const struct value *v = &p->values[i];
        struct place *place = &plan->places[i];
        if (v->class == CLASS_INPUT) {
            *place = (struct place){.kind = PLACE_INPUT, .input = plan->input_count++};
        } else if (v->class == CLASS_PARAMETER) {
            *place = (struct place){.kind = PLACE_PARAMETER, .offset = v->place};
            if (v->gradient != NONE) {
                plan->places[v->gradient] = (struct place){.kind = PLACE_GRADIENT, .offset = v->place};
            }
        } else if (v->class == CLASS_STATE) {
            *place = (struct place){.kind = PLACE_STATE, .offset = v->place};
        } else if (v->class == CLASS_TABLE) {
            *place = (struct place){.kind = PLACE_TABLE, .offset = v->table};
            if (v->gradient != NONE) {
                plan->places[v->gradient] = (struct place){.kind = PLACE_TABLE_GRADIENT, .offset = v->table};
            }
        } else if (v->class == CLASS_LIST) {
            *place = (struct place){.kind = PLACE_LIST, .offset = v->place};
        }
    }
}

/* Where a layer's parameters are first read, and its last gradient is made. */
static void find_events(struct tide_plan *plan) {
    struct tide_program *p = plan->program;
    for (size_t l = 0; l < plan->layer_count; l++) {
        plan->first_use[l] = plan->last_gradient[l] = NONE;
    }
    for (size_t i = 0; i < p->parameter_count; i++) {
        const struct value *v = &p->values[p->parameters[i]];
        uint32_t layer = p->layers[v->layer].index;
        for (size_t n = 0; n < p->node_count; n++) {
            for (size_t k = 0; k < p->nodes[n].in_count; k++) {
                if (p->values[p->nodes[n].in[k]].root == p->parameters[i] && n < plan->first_use[layer]) {
                    plan->first_use[layer] = (uint32_t)n;
                }
            }
        }
        uint32_t maker = v->gradient == NONE ? NONE : p->values[v->gradient].producer;
        if (maker != NONE && (plan->last_gradient[layer] == NONE || maker > plan->last_gradient[layer])) {
            plan->last_gradient[layer] = maker;
        }
    }
}

/* A product that makes a parameter's gradient may change the parameter instead, if nothing reads it
 * any more. */
static void find_foldable(struct tide_plan *plan) {
    struct tide_program *p = plan->program;
    for (size_t i = 0; i < p->parameter_count; i++) {
        uint32_t g = p->values[p->parameters[i]].gradient;
        uint32_t maker = g == NONE ? NONE : p->values[g].producer;
        bool can = maker != NONE && p->nodes[maker].code == TIDE_OP_MM;
        for (size_t n = can ? maker : p->node_count; n < p->node_count; n++) {
            for (size_t k = 0; k < p->nodes[n].in_count; k++) {
                uint32_t root = p->values[p->nodes[n].in[k]].root;
                can = can && root != p->parameters[i] && root != g;
            }
        }
        if (can) {
            plan->foldable[maker] = i + 1;
        }
    }
}

static int prepare(struct tide_plan *plan, const struct tide_plan_options *options) {
    struct tide_program *p = plan->program;
    if (options->kind == TIDE_PLAN_EVALUATE) {
        tide__graph_evaluation(p);
    }
    if (p->vertex) {
        tide__vertex_flatten(p);
    }
    tide__graph_clean(p);
    if (!options->no_fusion) {
        tide__graph_accumulate(p);
        tide__graph_views(p);
        tide__graph_fuse(p);
    }
    if (p->vertex) {
        tide__vertex_aliases(p);
    }
    size_t at = 0;
    for (size_t section = 0; section <= SECTION_DEFERRED + 1; section++) {
        while (at < p->node_count && p->nodes[at].section < section) {
            at++;
        }
        plan->section_at[section] = at;
    }
    int code = p->vertex ? tide__plan_rows(plan) : 0;
    if (code != 0) {
        return code;
    }
    plan->layer_count = tide_program_layer_count(p);
    plan->places = tide_alloc_zero(p->value_count + 1, sizeof(*plan->places));
    plan->first_use = tide_alloc_zero(plan->layer_count + 1, sizeof(*plan->first_use));
    plan->last_gradient = tide_alloc_zero(plan->layer_count + 1, sizeof(*plan->last_gradient));
    plan->foldable = tide_alloc_zero(p->node_count + 1, sizeof(*plan->foldable));
    return plan->places && plan->first_use && plan->last_gradient && plan->foldable ? 0 : TIDE_ENOMEM;
}

int tide_plan_create(const struct tide_program *program, const struct tide_device *device,
                     const struct tide_plan_options *options, struct tide_plan **out) {
    struct planner l = {0};
    struct tide_plan *plan = tide_alloc_zero(1, sizeof(*plan));
    int code = plan ? tide__graph_copy(program, &plan->program) : TIDE_ENOMEM;
    if (code != 0) {
        goto out;
    }
    plan->device = device;
    plan->training = options->kind == TIDE_PLAN_TRAIN;
    if (plan->training && !program->differentiated) {
        code = tide_fail(TIDE_EINVAL, "program %s: it is not differentiated", program->name);
        goto out;
    }
    code = prepare(plan, options);
    if (code != 0) {
        goto out;
    }
    l.plan = plan;
    l.p = plan->program;
    l.intervals = tide_alloc_zero(l.p->value_count + 1, sizeof(*l.intervals));
    l.order = tide_alloc_zero(l.p->value_count + 1, sizeof(*l.order));
    if (!l.intervals || !l.order) {
        code = TIDE_ENOMEM;
        goto out;
    }
    l.reuse = !options->no_reuse;
    place_outside(plan);
    find_intervals(&l);
    if (!options->no_reuse) {
        share_in_place(&l);
    }
    widen(&l);
    assign(&l, !options->no_reuse);
    find_events(plan);
    find_foldable(plan);
out:
    tide_free(l.intervals);
    tide_free(l.order);
    if (code != 0) {
        tide_plan_destroy(plan);
        return code;
    }
    *out = plan;
    return 0;
}

void tide_plan_destroy(struct tide_plan *plan) {
    if (plan) {
        tide_program_destroy(plan->program);
        tide_free(plan->places);
        tide_free(plan->first_use);
        tide_free(plan->last_gradient);
        tide_free(plan->foldable);
        tide_free(plan->rows);
        tide_free(plan);
    }
}

struct tide_plan_figures tide_plan_figures(const struct tide_plan *plan) {
    struct tide_plan_figures f = {.operations = plan->program->node_count,
                                  .row_bytes = plan->row_bytes,
                                  .fixed_bytes = plan->fixed_bytes,
                                  .row_bytes_without_reuse = plan->all_row_bytes,
                                  .edge_bytes = plan->edge_bytes,
                                  .level_bytes = plan->level_bytes,
                                  .table_bytes = plan->table_bytes};
    for (size_t n = 0; n < plan->program->node_count; n++) {
        f.regions += plan->program->nodes[n].code == TIDE_OP_MAP;
    }
    return f;
}

bool tide_plan_training(const struct tide_plan *plan) {
    return plan->training;
}
