/*
 * What a plan of vertices requires of a batch's levels, and for which rows its operations have to be
 * run: sums over children are 0 at level 0, rows of a table are 0 behind the last vertex that has an
 * input, and what only parents read is not made where there are no children. A product of zeros is
 * left out, or a row of zeros stored.
 */
#include "graph/plan.h"

#include <string.h>

static int input_number(const struct tide_plan *plan, uint32_t value) {
    int number = 0;
    for (uint32_t i = 0; i < value; i++) {
        number += plan->program->values[i].class == CLASS_INPUT;
    }
    return number;
}

static int want_inputs(struct tide_plan *plan) {
    struct tide_program *p = plan->program;
    struct tide_levels_want *want = &plan->want;
    for (size_t i = 0; i < p->value_count; i++) {
        const struct value *v = &p->values[i];
        if (v->class == CLASS_LIST && v->place < TIDE_LIST_NTH_CHILD) {
            want->lists |= 1u << v->place;
        } else if (v->class == CLASS_LIST) {
            uint32_t nth = (uint32_t)(v->place / TIDE_LIST_COUNT) + 1;
            want->nth = nth > want->nth ? nth : want->nth;
        }
        if (v->class != CLASS_INPUT) {
            continue;
        }
        if (want->input_count == TIDE_LEVELS_INPUTS || strlen(v->name) >= TIDE_FOREST_NAME) {
            return tide_fail(TIDE_EINVAL,
                             "program %s: input \"%s\": up to %d inputs with names of "
                             "less than %d bytes",
                             p->name, v->name, TIDE_LEVELS_INPUTS, TIDE_FOREST_NAME);
        }
        size_t k = want->input_count++;
        snprintf(want->inputs[k].name, sizeof(want->inputs[k].name), "%.*s", TIDE_FOREST_NAME - 1, v->name);
        want->inputs[k].edge = v->space == TIDE_SPACE_EDGE;
        want->inputs[k].index = v->type == TIDE_VALUE_INDEX;
        want->inputs[k].columns = (uint32_t)(tide__graph_rows(v, 1) * tide__graph_columns(v));
    }
    return 0;
}

static int lookup(struct tide_plan *plan, uint32_t table, uint32_t ids) {
    struct tide_levels_want *want = &plan->want;
    int input = input_number(plan, ids);
    for (size_t k = 0; k < want->lookup_count; k++) {
        if (want->lookups[k].table == table && want->lookups[k].input == (uint32_t)input) {
            return (int)k;
        }
    }
    if (want->lookup_count == TIDE_LEVELS_INPUTS) {
        return TIDE_EINVAL;
    }
    const struct tide_program *p = plan->program;
    want->lookups[want->lookup_count].table = table;
    want->lookups[want->lookup_count].input = (uint32_t)input;
    want->lookups[want->lookup_count].rows = (uint32_t)p->values[p->tables[table]].place;
    return (int)want->lookup_count++;
}

/* By value: 1 + the input behind whose last row it is 0; 0: none. */
static void find_tails(const struct tide_plan *plan, uint16_t *tail, bool *leaf, size_t *parts) {
    const struct tide_program *p = plan->program;
    for (size_t n = 0; n < p->node_count; n++) {
        const struct node *node = &p->nodes[n];
        uint32_t out = node->out[0];
        if (node->code == TIDE_OP_EMBED && p->values[node->in[1]].class == CLASS_INPUT &&
            p->values[node->in[1]].space == TIDE_SPACE_VERTEX && p->values[out].rank == 1) {
            tail[out] = (uint16_t)(input_number(plan, node->in[1]) + 1);
        } else if (node->code == TIDE_OP_MM && !node->attributes.ta && !node->accumulates) {
            tail[out] = tail[node->in[0]];
            leaf[out] = leaf[node->in[0]];
        } else if (node->code >= TIDE_OP_GATHER && node->code <= TIDE_OP_GATHER_MAX && !node->backward &&
                   p->values[out].space == TIDE_SPACE_VERTEX) {
            uint32_t root = p->values[out].root; /* perhaps several are its columns */
            leaf[out] = true;
            parts[root] += root != out ? tide__graph_columns(&p->values[out]) : 0;
            leaf[root] = leaf[root] || parts[root] == tide__graph_columns(&p->values[root]);
        }
    }
}

/* Whether it is read only by gathers over parents in another round, or by EMBED_DW of an input
 * (then its number + 1). */
static bool read_only_by_parents(const struct tide_plan *plan, uint32_t value, uint16_t *input) {
    const struct tide_program *p = plan->program;
    const uint32_t root = p->values[value].root;
    bool alias = false, other = false;
    *input = 0;
    for (size_t i = 0; i < p->output_count; i++) {
        other = other || p->values[p->outputs[i].value].root == root;
    }
    for (size_t n = 0; n < p->node_count; n++) {
        const struct node *node = &p->nodes[n];
        for (size_t i = 0; i < node->in_count; i++) {
            if (p->values[node->in[i]].root != root) {
                continue;
            }
            if (p->values[node->in[i]].class == CLASS_CARRIED) {
                alias = true;
            } else if (node->code == TIDE_OP_EMBED_DW && i == 0 && *input == 0 && node->in[i] == value &&
                       p->values[node->in[1]].space == TIDE_SPACE_VERTEX) {
                *input = (uint16_t)(input_number(plan, node->in[1]) + 1);
            } else {
                other = true;
            }
        }
    }
    bool only = alias && !other && *input == 0;
    if (other || alias) {
        *input = 0;
    }
    return only;
}

static void rows_of_product(struct tide_plan *plan, size_t n, const uint16_t *tail, const bool *leaf) {
    const struct node *node = &plan->program->nodes[n];
    struct rows *rows = &plan->rows[n];
    bool loop = node->section == SECTION_UP || node->section == SECTION_DOWN;
    if (loop && !node->attributes.ta && leaf[node->in[0]]) {
        rows->flags |= node->accumulates ? ROWS_NOT_LEAVES : ROWS_ZERO_LEAVES;
    }
    if (loop || plan->program->values[node->in[0]].space != TIDE_SPACE_VERTEX) {
        return;
    }
    if (node->attributes.ta) {
        uint16_t a = tail[node->in[0]], b = tail[node->in[1]];
        rows->limit = (int16_t)((a ? a : b) - 1);
        rows->flags |= leaf[node->in[0]] || leaf[node->in[1]] ? ROWS_INNER : 0;
    } else if (tail[node->in[0]]) {
        rows->limit = (int16_t)(tail[node->in[0]] - 1);
        rows->flags |= node->accumulates ? 0 : ROWS_REST_ZERO;
    }
}

/* What a kind's operation makes is read by number, too (gradients, at rows of all parents): there it is
 * 0 at vertices of other kinds. */
static int find_zeros(struct tide_plan *plan) {
    const struct tide_program *p = plan->program;
    bool *read = tide_alloc_zero(p->value_count + 1, sizeof(*read)); /* by root */
    if (!read) {
        return TIDE_ENOMEM;
    }
    for (size_t n = 0; n < p->node_count; n++) {
        const struct node *node = &p->nodes[n];
        for (size_t i = 0; i < node->in_count; i++) {
            const struct value *v = &p->values[node->in[i]];
            if (tide__vertex_reads_any(node, i) && v->kind != 0 && v->kind != node->kind &&
                v->type == TIDE_VALUE_FLOAT) {
                read[v->root] = !TIDE_MUTANT(vertex_others_stay);
            }
        }
    }
    for (size_t n = 0; n < p->node_count; n++) {
        const struct node *node = &p->nodes[n];
        for (size_t o = 0; node->kind != 0 && o < node->out_count; o++) {
            if (read[p->values[node->out[o]].root]) {
                plan->rows[n].zero |= (uint8_t)(1u << o);
            }
        }
    }
    tide_free(read);
    return 0;
}

int tide__plan_rows(struct tide_plan *plan) {
    const struct tide_program *p = plan->program;
    uint16_t *tail = tide_alloc_zero(p->value_count + 1, sizeof(*tail));
    bool *leaf = tide_alloc_zero(p->value_count + 1, sizeof(*leaf));
    plan->rows = tide_alloc_zero(p->node_count + 1, sizeof(*plan->rows));
    size_t *parts = tide_alloc_zero(p->value_count + 1, sizeof(*parts));
    int code = tail && leaf && parts && plan->rows ? want_inputs(plan) : TIDE_ENOMEM;
    plan->want.key = -1;
    plan->want.element = plan->device->element;
    plan->want.table_count = p->table_count;
    plan->want.kind_count = p->kind_count;
    plan->want.children_most = p->children_most;
    memcpy(plan->want.kinds, p->kinds, sizeof(p->kinds));
    if (code == 0) {
        find_tails(plan, tail, leaf, parts);
    }
    for (size_t n = 0; code == 0 && n < p->node_count; n++) {
        const struct node *node = &p->nodes[n];
        struct rows *rows = &plan->rows[n];
        rows->limit = rows->lookup = -1;
        bool embed = node->code == TIDE_OP_EMBED || node->code == TIDE_OP_EMBED_DW;
        if (embed && plan->want.key < 0 && p->values[node->in[1]].space == TIDE_SPACE_VERTEX) {
            plan->want.key = input_number(plan, node->in[1]);
        }
        const struct value *table = &p->values[node->code == TIDE_OP_EMBED_DW ? node->out[0] : node->in[0]];
        if (embed && table->space == TIDE_SPACE_TABLE) {
            int k = lookup(plan, table->table, node->in[1]);
            rows->lookup = (int16_t)k;
            code = k < 0 ? k : 0;
        }
        if (node->code == TIDE_OP_MM) {
            rows_of_product(plan, n, tail, leaf);
        }
        bool parents = node->section == SECTION_DOWN, last = false;
        uint16_t input = 0;
        for (size_t o = 0; o < node->out_count; o++) {
            last = read_only_by_parents(plan, node->out[o], &input);
            parents = parents && last;
        }
        if (parents) {
            rows->flags |= ROWS_NOT_LEAVES;
        }
        if (node->code == TIDE_OP_MM && !node->attributes.ta && input > 0 && rows->limit < 0 &&
            node->section != SECTION_UP && node->section != SECTION_DOWN) {
            rows->limit = (int16_t)(input - 1);
        }
    }
    tide_free(tail);
    tide_free(leaf);
    tide_free(parts);
    return code == 0 && p->kind_count > 0 ? find_zeros(plan) : code;
}
