/* Programs and plans as text. */
#include "graph/plan.h"
#include "kernel.h"

#include <stdarg.h>
#include <string.h>

static const char *const section_names[] = {
    "before: once, all vertices",        "up: level by level",          "child: with up", "after: once, all vertices",
    "down: level by level from the top", "deferred: once, all vertices"};

void tide__text_add(struct text *t, const char *format, ...) {
    va_list arguments;
    char line[1024];
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    size_t used = length < 0 ? 0 : (size_t)length < sizeof(line) ? (size_t)length : sizeof(line) - 1;
    if (t->error == 0 && t->size + used + 1 > t->room) {
        size_t room = 2 * (t->size + used + 1);
        char *larger = tide_realloc(t->data, room);
        if (!larger) {
            t->error = TIDE_ENOMEM;
            return;
        }
        t->data = larger;
        t->room = room;
    }
    if (t->error == 0) {
        memcpy(t->data + t->size, line, used + 1);
        t->size += used;
    }
}

int tide__text_give(struct text *t, char **out) {
    tide__text_add(t, "%s", ""); /* even an empty text is one */
    if (t->error != 0) {
        tide_free(t->data);
        return t->error;
    }
    *out = t->data;
    return 0;
}

static void print_value(const struct tide_program *p, uint32_t value, struct text *t) {
    char shape[80];
    tide_program_shape(p, value, shape, sizeof(shape));
    if (p->values[value].name[0]) {
        tide__text_add(t, "%s %s", p->values[value].name, shape);
    } else {
        tide__text_add(t, "%%%u %s", value, shape);
    }
}

static void print_micros(const struct tide_program *p, const struct node *node, struct text *t) {
    const struct tide_region *region = &node->attributes.region;
    for (size_t i = 0; i < region->micro_count; i++) {
        const struct tide_micro *u = &region->micro[i];
        const uint8_t of[3] = {u->a, u->b, u->c};
        tide__text_add(t, "%s%s(", i ? "; " : "", tide_micro_names[u->code]);
        for (unsigned k = 0; k < tide_micro_arity(u->code); k++) {
            if (of[k] >= region->source_count) {
                tide__text_add(t, "%s#%d", k ? ", " : "", of[k] - region->source_count);
            } else if (region->kind[of[k]] == TIDE_SOURCE_CONSTANT) {
                tide__text_add(t, "%s%g", k ? ", " : "", region->constant[of[k]]);
            } else {
                size_t next = 0;
                for (size_t s = 0; s < of[k]; s++) {
                    next += region->kind[s] != TIDE_SOURCE_CONSTANT;
                }
                const struct value *v = &p->values[node->in[next]];
                tide__text_add(t, "%s", k ? ", " : "");
                if (v->name[0]) {
                    tide__text_add(t, "%s", v->name);
                } else {
                    tide__text_add(t, "%%%u", node->in[next]);
                }
            }
        }
        tide__text_add(t, ")");
    }
}

void tide__graph_print_node(const struct tide_program *p, const struct node *node, struct text *t) {
    for (size_t o = 0; o < node->out_count; o++) {
        tide__text_add(t, "%s", o ? ", " : "");
        print_value(p, node->out[o], t);
    }
    tide__text_add(t, " = ");
    if (node->code == TIDE_OP_MAP) {
        print_micros(p, node, t);
    } else {
        tide__text_add(t, "%s%s%s(",
                       node->joins                 ? "join"
                       : node->code == TIDE_OP_OWN ? node->attributes.own->name
                                                   : tide_op_names[node->code],
                       node->attributes.ta ? " ta" : "", node->attributes.tb ? " tb" : "");
        for (size_t i = 0; i < node->in_count; i++) {
            tide__text_add(t, "%s", i ? ", " : "");
            print_value(p, node->in[i], t);
        }
        tide__text_add(t, ")");
    }
    const char *layer = p->layers[node->layer].name;
    if (node->kind != 0) {
        tide__text_add(t, "  of %s", p->kinds[node->kind - 1]);
    }
    tide__text_add(t, "%s%s%s%s", layer[0] ? "  -- " : "", layer, node->at[0] ? "  " : "", node->at);
}

int tide_program_print(const struct tide_program *p, char **out) {
    struct text t = {0};
    tide__text_add(&t, "program %s: %zu operations, %zu parameters in %zu layers\n", p->name, p->node_count,
                   p->parameter_count, tide_program_layer_count(p));
    for (size_t i = 0; i < p->value_count; i++) {
        static const char *const classes[] = {"input", "parameter", "state", "", "table", "child"};
        uint8_t class = p->values[i].class;
        if (class != CLASS_TEMPORARY && class != CLASS_CARRIED && class != CLASS_LIST) {
            tide__text_add(&t, "%s ", classes[class]);
            print_value(p, (uint32_t)i, &t);
            tide__text_add(&t, "\n");
        }
    }
    for (size_t n = 0; n < p->node_count; n++) {
        if (p->vertex && (n == 0 || p->nodes[n].section != p->nodes[n - 1].section)) {
            tide__text_add(&t, "%s\n", section_names[p->nodes[n].section]);
        } else if (!p->vertex && p->nodes[n].backward && (n == 0 || !p->nodes[n - 1].backward)) {
            tide__text_add(&t, "backward\n");
        }
        tide__graph_print_node(p, &p->nodes[n], &t);
        tide__text_add(&t, "\n");
    }
    for (size_t i = 0; i < p->output_count; i++) {
        tide__text_add(&t, "output %s = ", p->outputs[i].name);
        print_value(p, p->outputs[i].value, &t);
        tide__text_add(&t, "\n");
    }
    return tide__text_give(&t, out);
}

int tide_program_dot(const struct tide_program *p, char **out) {
    struct text t = {0};
    char shape[80];
    tide__text_add(&t, "digraph \"%s\" {\n  node [shape=box, fontname=sans];\n", p->name);
    for (size_t i = 0; i < p->value_count; i++) {
        if (p->values[i].class != CLASS_TEMPORARY) {
            tide_program_shape(p, (uint32_t)i, shape, sizeof(shape));
            tide__text_add(&t, "  v%zu [shape=ellipse, label=\"%s\\n%s\"];\n", i, p->values[i].name, shape);
        }
    }
    for (size_t n = 0; n < p->node_count; n++) {
        const struct node *node = &p->nodes[n];
        const char *name = tide__graph_written(p, node);
        tide_program_shape(p, node->out[0], shape, sizeof(shape));
        tide__text_add(&t, "  n%zu [label=\"%s\\n%s\"%s];\n", n, name, shape, node->backward ? ", style=dashed" : "");
        for (size_t i = 0; i < node->in_count; i++) {
            uint32_t maker = p->values[node->in[i]].producer;
            tide__text_add(&t, "  %c%u -> n%zu;\n", maker == NONE ? 'v' : 'n', maker == NONE ? node->in[i] : maker, n);
        }
    }
    tide__text_add(&t, "}\n");
    return tide__text_give(&t, out);
}

int tide_plan_explain(const struct tide_plan *plan, char **out) {
    const struct tide_program *p = plan->program;
    struct text t = {0};
    struct tide_plan_figures f = tide_plan_figures(plan);
    tide__text_add(&t, "program %s on %s, %s: %zu operations, %zu of them regions\n", p->name, plan->device->name,
                   plan->training ? "training" : "evaluation", f.operations, f.regions);
    tide__text_add(&t, "arena: %zu bytes a row (%zu without reuse) and %zu bytes\n", f.row_bytes,
                   f.row_bytes_without_reuse, f.fixed_bytes);
    if (p->vertex) {
        tide__text_add(&t,
                       "beside them %zu bytes an edge, %zu a vertex of the largest level, %zu a "
                       "distinct row of tables\n",
                       f.edge_bytes, f.level_bytes, f.table_bytes);
    }
    for (size_t n = 0; n < p->node_count; n++) {
        if (p->vertex && (n == 0 || p->nodes[n].section != p->nodes[n - 1].section)) {
            tide__text_add(&t, "%s\n", section_names[p->nodes[n].section]);
        }
        for (size_t l = 0; l < plan->layer_count; l++) {
            if (plan->first_use[l] == n) {
                tide__text_add(&t, "  need %s\n", tide_program_layer_at(p, l).name);
            }
        }
        tide__graph_print_node(p, &p->nodes[n], &t);
        const struct place *place = &plan->places[p->nodes[n].out[0]];
        const char *unit = place->kind == PLACE_ROWS         ? "row offset"
                           : place->kind == PLACE_FIXED      ? "offset"
                           : place->kind == PLACE_LEVEL      ? "level offset"
                           : place->kind == PLACE_EDGES      ? "edge offset"
                           : place->kind == PLACE_TABLE_ROWS ? "table row offset"
                                                             : NULL;
        if (unit) {
            tide__text_add(&t, "  [%s %zu, %zu bytes]", unit, place->offset, place->bytes);
        }
        tide__text_add(&t, "\n");
        for (size_t l = 0; l < plan->layer_count; l++) {
            if (plan->last_gradient[l] == n) {
                tide__text_add(&t, "  ready %s\n", tide_program_layer_at(p, l).name);
            }
        }
    }
    return tide__text_give(&t, out);
}

/* Over what decides the results: codes, wiring, dims, attributes; not names of files and lines. */
uint64_t tide_program_id(const struct tide_program *p) {
    uint64_t id = tide_hash(p->name, strlen(p->name), 1);
    for (size_t i = 0; i < p->value_count; i++) {
        const struct value *v = &p->values[i];
        uint32_t parts[4 + TIDE_RANK_MAX] = {v->class, v->type, v->space, v->rank};
        memcpy(parts + 4, v->dims, v->rank * sizeof(v->dims[0]));
        id = tide_hash(parts, sizeof(parts), id);
        id = tide_hash(v->name, strlen(v->name), id);
        double initial[2] = {v->initial.kind, v->initial.value};
        id = tide_hash(initial, sizeof(initial), id);
    }
    for (size_t n = 0; n < p->node_count; n++) {
        const struct node *node = &p->nodes[n];
        const struct tide_attributes *a = &node->attributes;
        const struct tide_window *w = &a->window;
        uint32_t parts[] = {node->code, node->in_count, node->out_count, a->ta,     a->tb,  a->first, a->count,
                            a->id,      w->kh,          w->kw,           w->stride, w->pad, a->n,     a->k};
        if (a->own) {
            id = tide_hash(a->own_numbers, sizeof(a->own_numbers), id);
            id = tide_hash(a->own->name, strlen(a->own->name), id);
        }
        double numbers[] = {a->alpha, a->eps, a->rate, a->keep, a->smoothing};
        id = tide_hash(parts, sizeof(parts), id);
        id = tide_hash(numbers, sizeof(numbers), id);
        id = tide_hash(node->in, node->in_count * sizeof(node->in[0]), id);
        id = tide_hash(a->region.micro, sizeof(a->region.micro), id);
        id = tide_hash(a->region.constant, sizeof(a->region.constant), id);
        if (p->kind_count > 0) {
            id = tide_hash(&node->kind, sizeof(node->kind), id);
        }
    }
    for (size_t k = 0; k < p->kind_count; k++) {
        id = tide_hash(p->kinds[k], strlen(p->kinds[k]), id);
    }
    return id;
}
