/*
 * Programs of vertices: values of children and edges, and the sections in which a batch of graphs is
 * computed (docs/guides/dynamic-networks.md; Cavs, arXiv 1712.04048, sections 3.2 and 3.4).
 *
 * A loop's rounds meet at aliases: a CHILD value is what was published in an earlier round, a CARRIED
 * gradient what a round of parents kept. Only gathers read them at rows of other levels, so the
 * adjoint of a sum over children is a sum over parents: nothing is scattered, no array is cleared.
 */
#include "graph/graph.h"

#include "graph/levels.h"

#include <string.h>

int tide_program_vertex(struct tide_program *p) {
    if (p->value_count > 0) {
        return tide__graph_wrong(p, "that it is a program of vertices comes before its values");
    }
    p->vertex = true;
    return 0;
}

void tide_program_children(struct tide_program *p, uint32_t most) {
    p->children_most = most;
}

/* ---- what comes from outside ---- */

static int own(struct tide_program *p, struct value value, const char *name, uint32_t *out) {
    value.root = value.producer = value.alias = NONE;
    snprintf(value.name, sizeof(value.name), "%s", name);
    return tide__graph_value(p, value, out);
}

static int check_vertex(struct tide_program *p, const char *name) {
    uint32_t same;
    if (!p->vertex) {
        return tide__graph_wrong(p, "\"%s\": only programs of vertices have it", name);
    }
    if (p->differentiated) {
        return tide__graph_wrong(p, "the program is complete: \"%s\" comes too late", name);
    }
    if (!name[0] || strlen(name) >= TIDE_FOREST_NAME) {
        return tide__graph_wrong(p, "a name has 1 to %d bytes", TIDE_FOREST_NAME - 1);
    }
    return tide_program_value(p, name, &same) ? tide__graph_wrong(p, "two values are named \"%s\"", name) : 0;
}

int tide_program_child_state(struct tide_program *p, const char *name, uint32_t columns, uint32_t *out) {
    int code = check_vertex(p, name);
    if (code == 0 && columns == 0) {
        code = tide__graph_wrong(p, "state \"%s\" has no columns", name);
    }
    if (code == 0) {
        code = tide__graph_grow(&p->children, &p->child_room, p->child_count, sizeof(*p->children));
    }
    if (code == 0) {
        code = tide__graph_grow(&p->made, &p->made_room, p->child_count, sizeof(*p->made));
    }
    if (code == 0) {
        code = own(p, (struct value){.class = CLASS_CHILD, .space = TIDE_SPACE_CHILD, .rank = 1, .dims = {columns}},
                   name, out);
    }
    if (code == 0) {
        memset(p->made[p->child_count], 0xff, sizeof(*p->made)); /* NONE */
        p->children[p->child_count++] = *out;
    }
    return code;
}

int tide_program_publish(struct tide_program *p, const char *name, uint32_t value) {
    char shape[80];
    if (value >= p->value_count) {
        return tide__graph_wrong(p, "what is published as \"%s\" is no value", name);
    }
    for (size_t i = 0; i < p->child_count; i++) {
        struct value *state = &p->values[p->children[i]];
        const struct value *v = &p->values[value];
        if (strcmp(state->name, name) != 0) {
            continue;
        }
        tide_program_shape(p, value, shape, sizeof(shape));
        if (state->alias != NONE) {
            return tide__graph_wrong(p, "\"%s\" is published twice", name);
        }
        if (v->space != TIDE_SPACE_VERTEX || v->rank != 1 || v->dims[0] != state->dims[0] ||
            v->type != TIDE_VALUE_FLOAT) {
            return tide__graph_wrong(p,
                                     "\"%s\" is published as %s, but its state has %u columns, one "
                                     "row a vertex%s",
                                     name, shape, state->dims[0],
                                     v->space == TIDE_SPACE_CHILD ? " (v:sum makes one a vertex of it)" : "");
        }
        if (p->kind != 0) {
            return tide__vertex_publish(p, i, value);
        }
        state->alias = value;
        return 0;
    }
    return tide__graph_wrong(p, "\"%s\" is published, but there is no such state", name);
}

int tide_program_table(struct tide_program *p, const char *name, uint32_t rows, uint32_t columns,
                       struct tide_initial initial, uint32_t *out) {
    int code = check_vertex(p, name);
    if (code == 0 && (rows == 0 || columns == 0 || rows > INT32_MAX || p->table_count == TIDE_LEVELS_TABLES)) {
        code = tide__graph_wrong(p, "table \"%s\": a program has up to %d, with rows and columns", name,
                                 TIDE_LEVELS_TABLES);
    }
    if (code == 0) {
        code = tide__graph_grow(&p->tables, &p->table_room, p->table_count, sizeof(*p->tables));
    }
    if (code == 0) {
        code = own(p,
                   (struct value){.class = CLASS_TABLE,
                                  .space = TIDE_SPACE_TABLE,
                                  .table = (uint8_t)p->table_count,
                                  .rank = 1,
                                  .dims = {columns},
                                  .place = rows,
                                  .initial = initial},
                   name, out);
    }
    if (code == 0) {
        p->tables[p->table_count++] = *out;
    }
    return code;
}

size_t tide_program_table_count(const struct tide_program *p) {
    return p->table_count;
}

struct tide_table_place tide_program_table_at(const struct tide_program *p, size_t index) {
    const struct value *v = &p->values[p->tables[index]];
    return (struct tide_table_place){v->name, (uint32_t)v->place, v->dims[0], v->initial};
}

static int refuse_child(struct tide_program *p, uint32_t value, const char *what) {
    if (!p->vertex) {
        return tide__graph_wrong(p, "%s: only programs of vertices have children", what);
    }
    if (value >= p->value_count || p->values[value].type != TIDE_VALUE_FLOAT ||
        (p->values[value].space != TIDE_SPACE_CHILD && p->values[value].space != TIDE_SPACE_EDGE) ||
        p->values[value].rank != 1) {
        char shape[80] = "no value";
        if (value < p->value_count) {
            tide_program_shape(p, value, shape, sizeof(shape));
        }
        return tide__graph_wrong(p, "%s of %s: it takes a value of children or edges", what, shape);
    }
    return 0;
}

/* ---- lists and gathers ---- */

int tide__vertex_list(struct tide_program *p, enum tide_list list, uint32_t nth, uint32_t *out) {
    static const uint8_t spaces[TIDE_LIST_COUNT] = {
        [TIDE_LIST_CHILD_START] = TIDE_SPACE_VERTEX, [TIDE_LIST_CHILD] = TIDE_SPACE_EDGE,
        [TIDE_LIST_PARENT_START] = TIDE_SPACE_CHILD, [TIDE_LIST_PARENT] = TIDE_SPACE_EDGE,
        [TIDE_LIST_PARENT_EDGE] = TIDE_SPACE_EDGE,   [TIDE_LIST_EDGE_PARENT] = TIDE_SPACE_EDGE,
        [TIDE_LIST_EDGE] = TIDE_SPACE_EDGE,          [TIDE_LIST_NTH_CHILD] = TIDE_SPACE_VERTEX,
        [TIDE_LIST_NTH_START] = TIDE_SPACE_CHILD,    [TIDE_LIST_NTH_PARENT] = TIDE_SPACE_VERTEX};
    size_t number = (size_t)list + (size_t)TIDE_LIST_COUNT * nth;
    for (size_t i = 0; i < p->value_count; i++) {
        if (p->values[i].class == CLASS_LIST && p->values[i].place == number) {
            *out = (uint32_t)i;
            return 0;
        }
    }
    char name[NAME_SIZE];
    static const char *const names[TIDE_LIST_COUNT] = {"@child_start", "@child",       "@parent_start", "@parent",
                                                       "@parent_edge", "@edge_parent", "@edge",         "@nth_child",
                                                       "@nth_start",   "@nth_parent"};
    snprintf(name, sizeof(name), "%s", names[list]);
    if (list >= TIDE_LIST_NTH_CHILD) {
        snprintf(name, sizeof(name), "%s%u", names[list], nth + 1);
    }
    return own(p, (struct value){.class = CLASS_LIST, .type = TIDE_VALUE_INDEX, .space = spaces[list], .place = number},
               name, out);
}

/* An operation whose lists are given: out has the first list's space and x's columns. */
static int gather(struct tide_program *p, enum tide_op_code op, uint32_t x, const uint32_t *lists, size_t count,
                  uint32_t *out) {
    uint32_t in[4] = {x};
    memcpy(in + 1, lists, count * sizeof(*lists));
    return tide_program_apply(p, op, in, count + 1, NULL, out);
}

static int lists_of(struct tide_program *p, enum tide_list a, enum tide_list b, uint32_t *out) {
    int code = tide__vertex_list(p, a, 0, &out[0]);
    return code == 0 ? tide__vertex_list(p, b, 0, &out[1]) : code;
}

int tide_program_over(struct tide_program *p, enum tide_over over, uint32_t value, uint32_t *out) {
    uint32_t lists[2];
    int code = refuse_child(p, value, over == TIDE_OVER_SUM ? "sum" : "max");
    if (code == 0) {
        bool edge = p->values[value].space == TIDE_SPACE_EDGE;
        code = lists_of(p, TIDE_LIST_CHILD_START, edge ? TIDE_LIST_EDGE : TIDE_LIST_CHILD, lists);
    }
    return code == 0 ? gather(p, over == TIDE_OVER_SUM ? TIDE_OP_GATHER_SUM : TIDE_OP_GATHER_MAX, value, lists, 2, out)
                     : code;
}

int tide_program_nth(struct tide_program *p, uint32_t nth, uint32_t value, uint32_t *out) {
    uint32_t list;
    int code = refuse_child(p, value, "child");
    if (code == 0 && p->values[value].space == TIDE_SPACE_EDGE) {
        code = tide__graph_wrong(p, "child: it takes a value of children, not of edges");
    }
    if (code == 0 && nth >= TIDE_LEVELS_NTH) {
        code = tide__graph_wrong(p, "child %u: up to %d children are named", nth + 1, TIDE_LEVELS_NTH);
    }
    code = code == 0 ? tide__vertex_list(p, TIDE_LIST_NTH_CHILD, nth, &list) : code;
    return code == 0 ? gather(p, TIDE_OP_GATHER, value, &list, 1, out) : code;
}

static int to_edges(struct tide_program *p, uint32_t *value) {
    uint32_t list;
    const struct value *v = &p->values[*value];
    if (v->rank != 1 || v->type != TIDE_VALUE_FLOAT) {
        return tide__graph_wrong(p, "only rows of numbers can meet at edges");
    }
    int code = tide__vertex_list(p, v->space == TIDE_SPACE_CHILD ? TIDE_LIST_CHILD : TIDE_LIST_EDGE_PARENT, 0, &list);
    return code == 0 ? gather(p, TIDE_OP_GATHER, *value, &list, 1, value) : code;
}

int tide__vertex_meet(struct tide_program *p, uint32_t *in, size_t count) {
    uint32_t spaces = 0;
    for (size_t i = 0; i < count; i++) {
        spaces |= in[i] == NONE || in[i] >= p->value_count ? 0 : 1u << p->values[in[i]].space;
    }
    spaces &= 1u << TIDE_SPACE_VERTEX | 1u << TIDE_SPACE_CHILD | 1u << TIDE_SPACE_EDGE;
    int code = 0;
    for (size_t i = 0; code == 0 && (spaces & (spaces - 1)) != 0 && i < count; i++) {
        if (in[i] == NONE) {
            continue;
        }
        uint8_t space = p->values[in[i]].space;
        if (space == TIDE_SPACE_VERTEX || space == TIDE_SPACE_CHILD) {
            code = to_edges(p, &in[i]);
        }
    }
    return code;
}

bool tide__vertex_reads_any(const struct node *node, size_t i) {
    switch (node->code) {
    case TIDE_OP_GATHER:
        return i == 0;
    case TIDE_OP_GATHER_SUM:
    case TIDE_OP_GATHER_MAX:
        return i == 0 || i == 2;
    case TIDE_OP_GATHER_MAX_DX:
        return i == 0 || i == 1 || i == 3;
    default:
        return false;
    }
}

/* ---- sections ---- */

int tide__vertex_sections(struct tide_program *p) {
    bool *carried = tide_alloc_zero(p->value_count, sizeof(*carried));
    bool *reaches = tide_alloc_zero(p->value_count, sizeof(*reaches));
    int code = carried && reaches ? 0 : TIDE_ENOMEM;
    for (size_t i = 0; code == 0 && i < p->child_count; i++) {
        const struct value *state = &p->values[p->children[i]];
        if (state->alias == NONE) {
            code = tide__graph_wrong(p, "state \"%s\" is not published", state->name);
            break;
        }
        carried[p->children[i]] = reaches[state->alias] = true;
    }
    if (code == 0 && p->child_count == 0) {
        code = tide__graph_wrong(p, "the program has no state: nothing is published");
    }
    for (size_t n = 0; code == 0 && n < p->node_count; n++) {
        const struct node *node = &p->nodes[n];
        bool any = false;
        for (size_t i = 0; i < node->in_count; i++) {
            any = any || carried[node->in[i]];
        }
        for (size_t o = 0; o < node->out_count; o++) {
            carried[node->out[o]] = any;
        }
    }
    for (size_t n = p->node_count; code == 0 && n-- > 0;) {
        struct node *node = &p->nodes[n];
        bool any = false;
        for (size_t o = 0; o < node->out_count; o++) {
            any = any || reaches[node->out[o]];
        }
        for (size_t i = 0; any && i < node->in_count; i++) {
            reaches[node->in[i]] = true;
        }
        node->section = (uint8_t)(!carried[node->out[0]]                              ? SECTION_BEFORE
                                  : !any                                              ? SECTION_AFTER
                                  : p->values[node->out[0]].space == TIDE_SPACE_CHILD ? SECTION_CHILD
                                                                                      : SECTION_UP);
    }
    tide_free(carried);
    tide_free(reaches);
    return code;
}

int tide__vertex_carried(struct tide_program *p, uint32_t like, uint32_t *out) {
    struct value made = p->values[like];
    made.class = CLASS_CARRIED;
    made.column = made.stride = 0;
    return own(p, made, "", out);
}

int tide__vertex_as(struct tide_program *p, uint32_t value, enum tide_space space, uint32_t *out) {
    struct node node = {.code = TIDE_OP_RESHAPE, .in_count = 1, .out_count = 1, .in = {value}};
    struct value made = p->values[value];
    made.class = CLASS_TEMPORARY;
    made.space = (uint8_t)space;
    made.alias = NONE;
    made.producer = (uint32_t)p->node_count;
    made.name[0] = 0;
    int code = tide__graph_value(p, made, &node.out[0]);
    if (code == 0) {
        *out = node.out[0];
        code = tide__graph_node(p, &node);
    }
    return code;
}

/* DOWN operations that are unused in the loop leave it. */
static int defer(struct tide_program *p) {
    bool *live = tide_alloc_zero(p->value_count, sizeof(*live));
    if (!live) {
        return TIDE_ENOMEM;
    }
    for (size_t i = 0; i < p->value_count; i++) {
        if (p->values[i].class == CLASS_CARRIED && p->values[i].alias != NONE) {
            live[p->values[i].alias] = true;
        }
    }
    for (size_t n = p->node_count; n-- > 0;) {
        struct node *node = &p->nodes[n];
        if (node->section != SECTION_DOWN) {
            continue;
        }
        bool any = false;
        for (size_t o = 0; o < node->out_count; o++) {
            any = any || live[node->out[o]];
        }
        if (!any) {
            node->section = SECTION_DEFERRED;
        }
        for (size_t i = 0; any && i < node->in_count; i++) {
            live[node->in[i]] = true;
        }
    }
    tide_free(live);
    return 0;
}

/* What children make of their states is read in the round of their parents, too. */
static int stand_in(struct tide_program *p) {
    int code = 0;
    for (size_t n = 0; code == 0 && n < p->node_count; n++) {
        uint32_t x = p->nodes[n].in[0], made = NONE;
        if (p->nodes[n].section == SECTION_UP && p->nodes[n].code >= TIDE_OP_GATHER &&
            p->nodes[n].code <= TIDE_OP_GATHER_MAX && p->values[x].space == TIDE_SPACE_CHILD &&
            p->values[x].class != CLASS_CHILD) {
            code = tide__vertex_carried(p, x, &made);
            if (code == 0) {
                p->values[made].alias = x;
                p->nodes[n].in[0] = made;
            }
        }
    }
    return code;
}

int tide__vertex_order(struct tide_program *p) {
    int code = stand_in(p);
    code = code == 0 ? defer(p) : code;
    struct node *sorted = code == 0 ? tide_alloc(p->node_count * sizeof(*sorted)) : NULL;
    if (!sorted) {
        return TIDE_ENOMEM;
    }
    size_t count = 0, losses = 0;
    for (int section = SECTION_BEFORE; section <= SECTION_DEFERRED; section++) {
        for (size_t n = 0; n < p->node_count; n++) {
            if (p->nodes[n].section == section) {
                sorted[count++] = p->nodes[n];
            }
        }
    }
    for (size_t n = 0; n < count; n++) {
        for (size_t o = 0; o < sorted[n].out_count; o++) {
            p->values[sorted[n].out[o]].producer = (uint32_t)n;
        }
        if (tide_op_is_loss(sorted[n].code)) {
            p->losses[losses++] = (uint32_t)n;
        }
    }
    memcpy(p->nodes, sorted, count * sizeof(*sorted));
    tide_free(sorted);
    return 0;
}

/* ---- before planning ---- */

static void replace(struct tide_program *p, uint32_t old, uint32_t with) {
    for (size_t n = 0; n < p->node_count; n++) {
        for (size_t i = 0; i < p->nodes[n].in_count; i++) {
            if (p->nodes[n].in[i] == old) {
                p->nodes[n].in[i] = with;
            }
        }
    }
    for (size_t i = 0; i < p->output_count; i++) {
        if (p->outputs[i].value == old) {
            p->outputs[i].value = with;
        }
    }
    for (size_t i = 0; i < p->value_count; i++) {
        if (p->values[i].alias == old) {
            p->values[i].alias = with;
        }
        if (p->values[i].gradient == old) {
            p->values[i].gradient = with;
        }
    }
}

void tide__vertex_flatten(struct tide_program *p) {
    for (size_t n = 0; n < p->node_count; n++) {
        struct node *node = &p->nodes[n];
        if (node->section == SECTION_CHILD) {
            node->section = SECTION_UP;
        }
        for (size_t i = 0; i < node->in_count; i++) { /* a vertex's own rows are no longer away */
            const struct value *v = &p->values[node->in[i]];
            if (v->class == CLASS_CHILD && !tide__vertex_reads_any(node, i)) {
                node->in[i] = v->alias;
            }
        }
    }
    for (size_t n = 0; n < p->node_count; n++) {
        struct node *node = &p->nodes[n];
        if (node->code == TIDE_OP_RESHAPE && node->out_count == 1 &&
            p->values[node->in[0]].space != p->values[node->out[0]].space) {
            uint32_t to = node->in[0];
            if (p->values[to].class == CLASS_CHILD) {
                to = p->values[to].alias;
            }
            node->out_count = 0; /* goes with the dead */
            replace(p, node->out[0], to);
        }
    }
    for (size_t i = 0; i < p->value_count; i++) {
        struct value *v = &p->values[i];
        if (v->space == TIDE_SPACE_CHILD) {
            v->space = TIDE_SPACE_VERTEX;
        }
    }
}

void tide__vertex_aliases(struct tide_program *p) {
    for (size_t i = 0; i < p->value_count; i++) {
        struct value *v = &p->values[i];
        if (v->alias != NONE) {
            const struct value *of = &p->values[v->alias];
            v->root = of->root;
            v->column = of->column;
            v->stride = of->stride;
        }
    }
    for (size_t n = 0; n < p->node_count; n++) { /* each kind writes its rows of what they all make */
        for (size_t i = 0; p->nodes[n].joins && i < p->nodes[n].in_count; i++) {
            p->values[p->nodes[n].in[i]].root = p->nodes[n].out[0];
        }
    }
}
