/* Building a program: values, operations, layers, and the layout of its parameters. */
#include "graph/graph.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

int tide__graph_grow(void *array, size_t *room, size_t count, size_t element) {
    if (count < *room) {
        return 0;
    }
    void **memory = array;
    size_t wanted = *room ? 2 * *room : 16;
    void *larger = tide_realloc(*memory, wanted * element);
    if (!larger) {
        return TIDE_ENOMEM;
    }
    *memory = larger;
    *room = wanted;
    return 0;
}

int tide_program_create(const char *name, struct tide_program **out) {
    struct tide_program *p = tide_alloc_zero(1, sizeof(*p));
    if (!p) {
        return TIDE_ENOMEM;
    }
    snprintf(p->name, sizeof(p->name), "%s", name);
    int code = tide_program_place(p, "", "", "");
    if (code != 0) {
        tide_program_destroy(p);
        return code;
    }
    *out = p;
    return 0;
}

void tide_program_destroy(struct tide_program *p) {
    if (p) {
        tide_free(p->values);
        tide_free(p->nodes);
        tide_free(p->layers);
        tide_free(p->outputs);
        tide_free(p->parameters);
        tide_free(p->states);
        tide_free(p->losses);
        tide_free(p->groups);
        tide_free(p->children);
        tide_free(p->tables);
        tide_free(p->made);
        tide_free(p);
    }
}

static void *copy_of(const void *data, size_t count, size_t element, size_t *room) {
    void *copy = tide_alloc(count ? count * element : 1);
    if (copy && count) {
        memcpy(copy, data, count * element);
    }
    *room = count;
    return copy;
}

int tide__graph_copy(const struct tide_program *p, struct tide_program **out) {
    struct tide_program *q = tide_alloc(sizeof(*q));
    if (!q) {
        return TIDE_ENOMEM;
    }
    *q = *p;
    q->values = copy_of(p->values, p->value_count, sizeof(*p->values), &q->value_room);
    q->nodes = copy_of(p->nodes, p->node_count, sizeof(*p->nodes), &q->node_room);
    q->layers = copy_of(p->layers, p->layer_count, sizeof(*p->layers), &q->layer_room);
    q->outputs = copy_of(p->outputs, p->output_count, sizeof(*p->outputs), &q->output_room);
    q->parameters = copy_of(p->parameters, p->parameter_count, sizeof(*p->parameters), &q->parameter_room);
    q->states = copy_of(p->states, p->state_count, sizeof(*p->states), &q->state_room);
    q->losses = copy_of(p->losses, p->loss_count, sizeof(*p->losses), &q->loss_room);
    q->groups = copy_of(p->groups, 0, sizeof(*p->groups), &q->group_room); /* nothing is derived of a copy */
    q->group_count = 0;
    q->children = copy_of(p->children, p->child_count, sizeof(*p->children), &q->child_room);
    q->tables = copy_of(p->tables, p->table_count, sizeof(*p->tables), &q->table_room);
    q->made = copy_of(p->made, p->made ? p->child_count : 0, sizeof(*p->made), &q->made_room);
    if (!q->values || !q->nodes || !q->layers || !q->outputs || !q->parameters || !q->states || !q->losses ||
        !q->groups || !q->children || !q->tables || !q->made) {
        tide_program_destroy(q);
        return TIDE_ENOMEM;
    }
    *out = q;
    return 0;
}

int tide_program_place(struct tide_program *p, const char *kind, const char *layer, const char *at) {
    snprintf(p->at, sizeof(p->at), "%s", at);
    for (size_t i = 0; i < p->layer_count; i++) {
        if (strcmp(p->layers[i].name, layer) == 0) {
            p->layer = (uint32_t)i;
            return 0;
        }
    }
    int code = tide__graph_grow(&p->layers, &p->layer_room, p->layer_count, sizeof(*p->layers));
    if (code != 0) {
        return code;
    }
    struct layer *made = &p->layers[p->layer_count];
    *made = (struct layer){.index = NONE};
    snprintf(made->name, sizeof(made->name), "%s", layer);
    snprintf(made->kind, sizeof(made->kind), "%s", kind);
    p->layer = (uint32_t)p->layer_count++;
    return 0;
}

int tide__graph_wrong(struct tide_program *p, const char *format, ...) {
    char text[400];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    const struct layer *layer = &p->layers[p->layer];
    if (!layer->name[0]) {
        return tide_fail(TIDE_EINVAL, "%s%s%s", p->at, p->at[0] ? ": " : "", text);
    }
    return tide_fail(TIDE_EINVAL, "%s%s%s \"%s\": %s", p->at, p->at[0] ? ": " : "", layer->kind, layer->name, text);
}

int tide__graph_value(struct tide_program *p, struct value value, uint32_t *out) {
    int code = tide__graph_grow(&p->values, &p->value_room, p->value_count, sizeof(*p->values));
    if (code != 0) {
        return code;
    }
    *out = (uint32_t)p->value_count;
    value.layer = p->layer;
    value.gradient = NONE;
    if (value.class != CLASS_CHILD && value.class != CLASS_CARRIED) {
        value.alias = NONE;
    }
    if (value.root == NONE) {
        value.root = *out;
    }
    p->values[p->value_count++] = value;
    return 0;
}

int tide__graph_node(struct tide_program *p, const struct node *node) {
    int code = tide__graph_grow(&p->nodes, &p->node_room, p->node_count, sizeof(*p->nodes));
    if (code != 0) {
        return code;
    }
    struct node *made = &p->nodes[p->node_count];
    *made = *node;
    made->backward = p->backward;
    made->section = p->section;
    made->layer = p->layer;
    made->group = p->group;
    memcpy(made->at, p->at, sizeof(made->at));
    p->node_count++;
    return 0;
}

/* ---- what comes from outside ---- */

static int add_named(struct tide_program *p, struct value value, const char *name, size_t rank, const uint32_t *dims,
                     uint32_t *out) {
    uint32_t same;
    if (p->differentiated) {
        return tide__graph_wrong(p, "the program is complete: \"%s\" comes too late", name);
    }
    if (!name[0] || strlen(name) >= NAME_SIZE) {
        return tide__graph_wrong(p, "a name has 1 to %d bytes", NAME_SIZE - 1);
    }
    if (tide_program_value(p, name, &same)) {
        return tide__graph_wrong(p, "two values are named \"%s\"", name);
    }
    if (rank > TIDE_RANK_MAX - (value.space ? 1 : 0)) {
        return tide__graph_wrong(p, "\"%s\" has more than %d dims", name, TIDE_RANK_MAX);
    }
    size_t elements = 1;
    for (size_t i = 0; i < rank; i++) {
        if (dims[i] == 0 || __builtin_mul_overflow(elements, dims[i], &elements) || elements > (size_t)1 << 40) {
            return tide__graph_wrong(p, "\"%s\": dim %zu is %u", name, i + 1, dims[i]);
        }
        value.dims[i] = dims[i];
    }
    value.rank = (uint8_t)rank;
    value.root = value.producer = NONE;
    snprintf(value.name, sizeof(value.name), "%s", name);
    return tide__graph_value(p, value, out);
}

int tide_program_input(struct tide_program *p, const char *name, enum tide_value_type type, size_t rank,
                       const uint32_t *dims, uint32_t *out) {
    return add_named(p, (struct value){.class = CLASS_INPUT, .type = (uint8_t)type, .space = TIDE_SPACE_VERTEX}, name,
                     rank, dims, out);
}

int tide_program_edge_input(struct tide_program *p, const char *name, enum tide_value_type type, size_t rank,
                            const uint32_t *dims, uint32_t *out) {
    if (!p->vertex) {
        return tide__graph_wrong(p, "\"%s\": only programs of vertices have edges", name);
    }
    return add_named(p, (struct value){.class = CLASS_INPUT, .type = (uint8_t)type, .space = TIDE_SPACE_EDGE}, name,
                     rank, dims, out);
}

/* Layers in order; in a layer matrices, then vectors; each at a multiple of 16 elements. */
static void lay_out(struct tide_program *p) {
    uint32_t index = 0;
    p->keys = 0;
    for (size_t l = 0; l < p->layer_count; l++) {
        size_t at = 0;
        for (int vectors = 0; vectors < 2; vectors++) {
            for (size_t i = 0; i < p->parameter_count; i++) {
                struct value *v = &p->values[p->parameters[i]];
                if (v->layer == l && (v->rank < 2) == vectors) {
                    v->place = p->keys * TIDE_PARAMETER_KEY + at;
                    at += (tide__graph_rows(v, 1) * tide__graph_columns(v) + 15) & ~(size_t)15;
                }
            }
        }
        struct layer *layer = &p->layers[l];
        layer->first_key = p->keys;
        layer->key_count = (at + TIDE_PARAMETER_KEY - 1) / TIDE_PARAMETER_KEY;
        layer->index = at ? index++ : NONE;
        p->keys += layer->key_count;
    }
}

int tide_program_parameter(struct tide_program *p, const char *name, size_t rank, const uint32_t *dims,
                           struct tide_initial initial, uint32_t *out) {
    struct value value = {.class = CLASS_PARAMETER, .initial = initial};
    int code = tide__graph_grow(&p->parameters, &p->parameter_room, p->parameter_count, sizeof(*p->parameters));
    if (code == 0 && rank == 0) {
        code = tide__graph_wrong(p, "parameter \"%s\" needs at least one dim", name);
    }
    if (code == 0) {
        code = add_named(p, value, name, rank, dims, out);
    }
    if (code == 0) {
        p->parameters[p->parameter_count++] = *out;
        lay_out(p);
    }
    return code;
}

int tide_program_state(struct tide_program *p, const char *name, size_t rank, const uint32_t *dims,
                       struct tide_initial initial, uint32_t *out) {
    struct value value = {.class = CLASS_STATE, .initial = initial, .place = p->state_elements};
    int code = tide__graph_grow(&p->states, &p->state_room, p->state_count, sizeof(*p->states));
    if (code == 0) {
        code = add_named(p, value, name, rank, dims, out);
    }
    if (code == 0) {
        const struct value *v = &p->values[*out];
        p->states[p->state_count++] = *out;
        p->state_elements += (tide__graph_rows(v, 1) * tide__graph_columns(v) + 15) & ~(size_t)15;
    }
    return code;
}

int tide_program_output(struct tide_program *p, const char *name, uint32_t value) {
    if (value >= p->value_count || !name[0] || strlen(name) >= NAME_SIZE) {
        return tide__graph_wrong(p, "an output needs a name and a value");
    }
    if (p->vertex && p->values[value].space != TIDE_SPACE_VERTEX) {
        char shape[80];
        tide_program_shape(p, value, shape, sizeof(shape));
        return tide__graph_wrong(p,
                                 "output \"%s\" is %s: only values of vertices are outputs "
                                 "(v:sum makes one a vertex of it)",
                                 name, shape);
    }
    for (size_t i = 0; p->kind_count > 0 && i < p->output_count; i++) { /* one output of all kinds */
        const struct value *a = &p->values[p->outputs[i].value], *b = &p->values[value];
        if (strcmp(p->outputs[i].name, name) == 0 &&
            (a->kind == b->kind || tide__graph_columns(a) != tide__graph_columns(b))) {
            return tide__graph_wrong(p,
                                     "output \"%s\": a kind has one of the name, with as many "
                                     "columns as that of others (%zu)",
                                     name, tide__graph_columns(a));
        }
    }
    int code = tide__graph_grow(&p->outputs, &p->output_room, p->output_count, sizeof(*p->outputs));
    if (code == 0) {
        struct output *made = &p->outputs[p->output_count++];
        snprintf(made->name, sizeof(made->name), "%s", name);
        made->value = value;
    }
    return code;
}

/* ---- operations ---- */

static int append(struct tide_program *p, struct node *node, uint32_t *out) {
    struct value outs[TIDE_OP_OUTPUTS] = {0};
    for (size_t i = 0; i < node->in_count; i++) {
        if (node->in[i] >= p->value_count) {
            return tide__graph_wrong(p, "%s: operand %zu is no value of this program", tide_op_names[node->code],
                                     i + 1);
        }
    }
    int code = tide__graph_infer(p, node, outs);
    code = code == 0 && p->kind_count > 0 ? tide__vertex_kind(p, node, outs) : code;
    for (size_t o = 0; code == 0 && o < node->out_count; o++) {
        outs[o].class = CLASS_TEMPORARY;
        outs[o].producer = (uint32_t)p->node_count;
        outs[o].root = node->code == TIDE_OP_RESHAPE ? p->values[node->in[0]].root : NONE;
        code = tide__graph_value(p, outs[o], &node->out[o]);
    }
    if (code == 0 && tide_op_is_loss(node->code)) {
        code = tide__graph_grow(&p->losses, &p->loss_room, p->loss_count, sizeof(*p->losses));
    }
    if (code == 0) {
        code = tide__graph_node(p, node);
    }
    if (code == 0 && tide_op_is_loss(node->code)) {
        p->losses[p->loss_count++] = (uint32_t)(p->node_count - 1);
    }
    *out = node->out[0];
    return code;
}

int tide_program_apply(struct tide_program *p, enum tide_op_code op, const uint32_t *in, size_t in_count,
                       const struct tide_attributes *attributes, uint32_t *out) {
    struct node node = {.code = (uint8_t)op, .in_count = (uint8_t)in_count};
    if (in_count > TIDE_OP_INPUTS || op == TIDE_OP_MAP || op >= TIDE_OP_RESHAPE) {
        return tide__graph_wrong(p, "operation %d cannot be applied so", (int)op);
    }
    if (attributes) {
        node.attributes = *attributes;
    }
    memcpy(node.in, in, in_count * sizeof(*in));
    if (op == TIDE_OP_DROPOUT) {
        node.attributes.id = p->dropouts++;
    }
    if (p->vertex && op == TIDE_OP_CONCAT && in_count == 2) {
        int code = tide__vertex_meet(p, node.in, 2);
        if (code != 0) {
            return code;
        }
    }
    return append(p, &node, out);
}

int tide_program_reshape(struct tide_program *p, uint32_t in, size_t rank, const uint32_t *dims, uint32_t *out) {
    struct node node = {.code = TIDE_OP_RESHAPE, .in_count = 1, .in = {in}};
    if (rank > 3) {
        return tide__graph_wrong(p, "reshape: more than 3 dims");
    }
    /* The new dims travel where a window's would. */
    uint32_t *to[3] = {&node.attributes.window.h, &node.attributes.window.w, &node.attributes.window.c};
    for (size_t i = 0; i < rank; i++) {
        *to[i] = dims[i];
    }
    node.attributes.count = (uint32_t)rank;
    return append(p, &node, out);
}

int tide_program_map(struct tide_program *p, enum tide_micro_code micro, const uint32_t *in, const double *constants,
                     uint32_t *out) {
    struct node node = {.code = TIDE_OP_MAP};
    struct tide_region *region = &node.attributes.region;
    unsigned arity = tide_micro_arity(micro);
    uint32_t meeting[3] = {NONE, NONE, NONE};
    memcpy(meeting, in, arity * sizeof(*in));
    int met = p->vertex ? tide__vertex_meet(p, meeting, arity) : 0;
    if (met != 0) {
        return met;
    }
    in = meeting;
    for (unsigned i = 0; i < arity; i++) {
        region->kind[i] = in[i] == NONE ? TIDE_SOURCE_CONSTANT : TIDE_SOURCE_FULL;
        region->constant[i] = in[i] == NONE ? constants[i] : 0;
        if (in[i] != NONE) {
            node.in[node.in_count++] = in[i];
        }
    }
    region->source_count = (uint8_t)arity;
    region->micro_count = region->out_count = 1;
    region->micro[0] = (struct tide_micro){(uint8_t)micro, 0, arity > 1, arity > 2 ? 2 : 0};
    region->out[0] = (uint8_t)arity;
    if (node.in_count == 0) {
        return tide__graph_wrong(p, "%s: of constants alone", tide_micro_names[micro]);
    }
    return append(p, &node, out);
}

/* ---- groups ---- */

int tide_program_open(struct tide_program *p, const char *name, const uint32_t *in, size_t in_count) {
    if (p->group != 0 || p->vertex || in_count > TIDE_OP_INPUTS) {
        return tide__graph_wrong(p, "operation %s: %s", name,
                                 p->vertex  ? "programs of vertices have no operations of their own"
                                 : p->group ? "it is applied inside of another one"
                                            : "it has too many operands");
    }
    int code = tide__graph_grow(&p->groups, &p->group_room, p->group_count, sizeof(*p->groups));
    if (code == 0) {
        struct group *made = &p->groups[p->group_count++];
        *made = (struct group){.in_count = (uint8_t)in_count};
        snprintf(made->name, sizeof(made->name), "%s", name);
        memcpy(made->in, in, in_count * sizeof(*in));
        p->group = (uint32_t)p->group_count;
    }
    return code;
}

int tide_program_close(struct tide_program *p, const uint32_t *out, size_t out_count) {
    struct group *group = &p->groups[p->group - 1];
    p->group = 0;
    if (out_count == 0 || out_count > TIDE_OP_OUTPUTS) {
        return tide__graph_wrong(p, "operation %s: it gives %zu values, not 1 to %d", group->name, out_count,
                                 TIDE_OP_OUTPUTS);
    }
    for (size_t o = 0; o < out_count; o++) {
        const uint32_t maker = out[o] < p->value_count ? p->values[out[o]].producer : NONE;
        if (maker == NONE || p->nodes[maker].group != p->group_count) {
            return tide__graph_wrong(p, "operation %s: result %zu is not made by it", group->name, o + 1);
        }
        group->out[group->out_count++] = out[o];
    }
    group->last = (uint32_t)(p->node_count - 1);
    return 0;
}

/* ---- looking ---- */

int tide_program_dims(const struct tide_program *p, uint32_t value, struct tide_shape *out) {
    if (value >= p->value_count) {
        return TIDE_ENOENT;
    }
    const struct value *v = &p->values[value];
    *out = (struct tide_shape){.type = v->type, .space = (enum tide_space)v->space, .rank = v->rank};
    memcpy(out->dims, v->dims, sizeof(out->dims));
    return 0;
}

bool tide_program_value(const struct tide_program *p, const char *name, uint32_t *out) {
    for (size_t i = 0; i < p->value_count; i++) {
        if (strcmp(p->values[i].name, name) == 0 && p->values[i].name[0]) {
            *out = (uint32_t)i;
            return true;
        }
    }
    return false;
}

size_t tide_program_values(const struct tide_program *p) {
    return p->value_count;
}

size_t tide_program_parameter_keys(const struct tide_program *p) {
    return p->keys;
}

size_t tide_program_parameter_count(const struct tide_program *p) {
    return p->parameter_count;
}

struct tide_parameter_place tide_program_parameter_at(const struct tide_program *p, size_t index) {
    const struct value *v = &p->values[p->parameters[index]];
    size_t rows = tide__graph_rows(v, 1), columns = tide__graph_columns(v);
    return (struct tide_parameter_place){.name = v->name,
                                         .layer = p->layers[v->layer].index,
                                         .first = v->place,
                                         .count = rows * columns,
                                         .rows = rows,
                                         .columns = columns};
}

size_t tide_program_layer_count(const struct tide_program *p) {
    size_t count = 0;
    for (size_t i = 0; i < p->layer_count; i++) {
        count += p->layers[i].index != NONE;
    }
    return count;
}

struct tide_layer_place tide_program_layer_at(const struct tide_program *p, size_t index) {
    for (size_t i = 0; i < p->layer_count; i++) {
        const struct layer *l = &p->layers[i];
        if (l->index == index) {
            return (struct tide_layer_place){l->name, l->first_key, l->key_count};
        }
    }
    return (struct tide_layer_place){"", 0, 0};
}

size_t tide_program_state_elements(const struct tide_program *p) {
    return p->state_elements;
}

/* Element i of a value: words of Philox under (seed, the name's hash) at counter i / 2. */
static double initial_value(const struct value *v, uint64_t seed, uint64_t key, size_t i) {
    uint32_t words[4];
    if (v->initial.kind == TIDE_INITIAL_CONSTANT) {
        return v->initial.value;
    }
    tide_philox(seed, key, i / 2, words);
    double a = (words[2 * (i % 2)] >> 8) / 16777216.0;
    double b = (words[2 * (i % 2) + 1] >> 8) / 16777216.0;
    if (v->initial.kind == TIDE_INITIAL_UNIFORM) {
        return v->initial.value * (2 * a - 1);
    }
    return v->initial.value * sqrt(-2 * log(1 - a)) * cos(6.283185307179586 * b); /* Box, Muller */
}

void tide_program_table_rows(const struct tide_program *p, size_t index, uint64_t seed, size_t element, size_t first,
                             size_t count, void *rows) {
    const struct value *v = &p->values[p->tables[index]];
    uint64_t key = tide_hash(v->name, strlen(v->name), 0);
    for (size_t i = 0; i < count * v->dims[0]; i++) {
        double x = initial_value(v, seed, key, first * v->dims[0] + i);
        if (element == sizeof(float)) {
            ((float *)rows)[i] = (float)x;
        } else {
            ((double *)rows)[i] = (double)(float)x;
        }
    }
}

static void initialise(const struct value *v, uint64_t seed, size_t element, void *array) {
    size_t count = tide__graph_rows(v, 1) * tide__graph_columns(v);
    uint64_t key = tide_hash(v->name, strlen(v->name), 0);
    for (size_t i = 0; i < count; i++) {
        double x = initial_value(v, seed, key, i);
        if (element == sizeof(float)) {
            ((float *)array)[v->place + i] = (float)x;
        } else {
            ((double *)array)[v->place + i] = (double)(float)x; /* the same on all devices */
        }
    }
}

void tide_program_initialise(const struct tide_program *p, uint64_t seed, size_t element, void *parameters,
                             void *states) {
    if (p->keys) {
        memset(parameters, 0, p->keys * TIDE_PARAMETER_KEY * element);
    }
    for (size_t i = 0; i < p->parameter_count; i++) {
        initialise(&p->values[p->parameters[i]], seed, element, parameters);
    }
    for (size_t i = 0; i < p->state_count; i++) {
        initialise(&p->values[p->states[i]], seed, element, states);
    }
}
