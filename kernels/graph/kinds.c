/*
 * Kinds of vertices: a function for each, with the same states. An operation of a kind is run for its
 * vertices alone; what kinds publish lies in the rows of one value (docs/guides/dynamic-networks.md).
 */
#include "graph/graph.h"

#include <string.h>

int tide_program_kind(struct tide_program *p, const char *name) {
    if (!p->vertex) {
        return tide__graph_wrong(p, "kind \"%s\": only programs of vertices have kinds", name);
    }
    for (size_t i = 0; i < p->kind_count; i++) {
        if (strcmp(p->kinds[i], name) == 0) {
            p->kind = (uint8_t)(i + 1);
            return 0;
        }
    }
    if (p->kind_count == TIDE_FOREST_KINDS || !name[0] || strlen(name) >= TIDE_FOREST_NAME ||
        (p->node_count > 0 && p->kind_count == 0)) {
        return tide__graph_wrong(p,
                                 "kind \"%s\": up to %d kinds with names of 1 to %d bytes, before "
                                 "the first operation",
                                 name, TIDE_FOREST_KINDS, TIDE_FOREST_NAME - 1);
    }
    snprintf(p->kinds[p->kind_count++], TIDE_FOREST_NAME, "%s", name);
    p->kind = (uint8_t)p->kind_count;
    return 0;
}

size_t tide_program_kind_count(const struct tide_program *p) {
    return p->kind_count;
}

const char *tide_program_kind_at(const struct tide_program *p, size_t index) {
    return p->kinds[index];
}

static const char *label_of(const struct tide_program *p, size_t i) {
    const struct node *loss = &p->nodes[p->losses[i]];
    const size_t at = loss->code == TIDE_OP_XENT ? 1 : 2;
    const bool has = loss->code == TIDE_OP_XENT || loss->code == TIDE_OP_LINEAR_XENT;
    const struct value *v = has ? &p->values[loss->in[at]] : NULL;
    return v && v->class == CLASS_INPUT ? v->name : NULL;
}

const char *tide_program_label(const struct tide_program *p) {
    return p->loss_count > 0 ? label_of(p, 0) : NULL;
}

bool tide_program_kind_counts(const struct tide_program *p, size_t index, const char **label) {
    for (size_t i = 0; i < p->loss_count; i++) {
        if (p->nodes[p->losses[i]].kind == index + 1) {
            *label = label_of(p, i);
            return true;
        }
    }
    return false;
}

/* Values of children are of vertices of any kind, those of constant size of none. */
int tide__vertex_kind(struct tide_program *p, struct node *node, struct value *outs) {
    uint8_t kind = 0;
    for (size_t i = 0; i < node->in_count; i++) {
        uint8_t own = tide__vertex_reads_any(node, i) ? 0 : p->values[node->in[i]].kind;
        if ((own && kind && own != kind) || (own && p->kind && own != p->kind)) {
            return tide__graph_wrong(p, "a value of kind \"%s\" meets one of kind \"%s\"", p->kinds[own - 1],
                                     p->kinds[(kind && own != kind ? kind : p->kind) - 1]);
        }
        kind = own ? own : kind;
    }
    bool rows = outs[0].space == TIDE_SPACE_VERTEX || outs[0].space == TIDE_SPACE_EDGE;
    bool reads = false; /* rows of vertices or edges: it is run for those of the kind */
    for (size_t i = 0; i < node->in_count; i++) {
        uint8_t space = p->values[node->in[i]].space;
        reads = reads || (!tide__vertex_reads_any(node, i) && (space == TIDE_SPACE_VERTEX || space == TIDE_SPACE_EDGE));
    }
    node->kind = rows || (reads && outs[0].space != TIDE_SPACE_CHILD) ? kind ? kind : p->kind : 0;
    for (size_t o = 0; o < node->out_count; o++) {
        outs[o].kind = outs[o].space == TIDE_SPACE_VERTEX || outs[o].space == TIDE_SPACE_EDGE ? node->kind : 0;
    }
    return 0;
}

int tide__vertex_publish(struct tide_program *p, size_t i, uint32_t value) {
    const uint32_t in[3] = {NONE, value, NONE};
    const double one[3] = {1, 0, 0};
    uint32_t *own = &p->made[i][p->kind - 1];
    if (*own != NONE) {
        return tide__graph_wrong(p, "\"%s\" is published twice by kind \"%s\"", p->values[p->children[i]].name,
                                 p->kinds[p->kind - 1]);
    }
    uint32_t made = NONE;
    int code = tide_program_map(p, TIDE_MICRO_MUL, in, one, &made);
    p->made[i][p->kind - 1] = made;
    return code;
}

int tide__vertex_join(struct tide_program *p) {
    p->kind = 0;
    for (size_t i = 0; p->kind_count > 0 && i < p->child_count; i++) {
        struct node node = {.code = TIDE_OP_RESHAPE, .joins = true, .out_count = 1};
        struct value made = p->values[p->children[i]];
        for (size_t k = 0; k < p->kind_count; k++) {
            if (p->made[i][k] == NONE) {
                return tide__graph_wrong(p, "kind \"%s\" does not publish \"%s\"", p->kinds[k], made.name);
            }
            node.in[node.in_count++] = p->made[i][k];
        }
        made.class = CLASS_TEMPORARY;
        made.space = TIDE_SPACE_VERTEX;
        made.root = made.alias = NONE;
        made.producer = (uint32_t)p->node_count;
        made.name[0] = 0;
        int code = tide__graph_value(p, made, &node.out[0]);
        code = code == 0 ? tide__graph_node(p, &node) : code;
        if (code != 0) {
            return code;
        }
        p->values[p->children[i]].alias = node.out[0];
    }
    return 0;
}
