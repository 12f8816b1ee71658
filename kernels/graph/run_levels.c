/*
 * Runs of programs of vertices: a batch of graphs is bound, its lists and inputs lie in one piece,
 * and a loop's operations run level by level. Calls are filled in once a step, for all rows; a level
 * moves their addresses.
 */
#include "graph/run.h"

#include <string.h>

void tide__levels_close(struct tide_run *run) {
    struct graphs *g = &run->graphs;
    tide_levels_destroy(g->levels);
    tide_free(g->motions);
    tide_free(g->ordered.data);
    tide__grow_close(run);
}

static int bind(struct tide_run *run, const struct tide_forest *forest, const uint32_t *order, size_t first,
                size_t count, bool serial, bool piece) {
    if (!run->plan->program->vertex) {
        return tide_fail(TIDE_EINVAL, "program %s is not one of vertices: it takes tensors", run->plan->program->name);
    }
    if (run->graphs.growing) {
        return tide_fail(TIDE_EINVAL, "program %s: the run grows: finish ends it", run->plan->program->name);
    }
    int code = tide_levels_make(run->graphs.levels, forest, order, first, count, serial, piece);
    if (code != 0) {
        char text[300];
        snprintf(text, sizeof(text), "%s", tide_error_message());
        return tide_fail(code, "program %s: %s", run->plan->program->name, text);
    }
    run->graphs.lists = run->graphs.levels->data;
    return run->away.memory ? tide__away_send_lists(run, &run->graphs.lists) : 0;
}

int tide_run_bind_forest(struct tide_run *run, const struct tide_forest *forest, const uint32_t *order, size_t first,
                         size_t count, bool serial) {
    return bind(run, forest, order, first, count, serial, false);
}

int tide_run_bind_piece(struct tide_run *run, const struct tide_forest *forest, const uint32_t *order, size_t first,
                        size_t count, bool serial) {
    return bind(run, forest, order, first, count, serial, true);
}

static bool fits(void *arg, size_t rows, size_t edges, size_t level) {
    const struct tide_run *run = arg;
    struct spans spans = tide__levels_spans(run); /* distinct rows: those of the whole batch */
    spans.rows = rows;
    spans.edges = edges;
    spans.level = level;
    return tide__run_bytes(run, &spans) <= run->limit;
}

int tide_run_cut(struct tide_run *run, const struct tide_forest *forest, const uint32_t *order, size_t first,
                 size_t count, bool serial, size_t *out) {
    *out = count;
    if (run->limit == 0 || count == 0) {
        return 0;
    }
    int code = tide_levels_prefix(run->graphs.levels, forest, order, first, count, serial, fits, run, out);
    if (code != 0 || *out > 0) {
        return code;
    }
    size_t s = order ? order[first] : first;
    size_t vertices = forest->sample_start[s + 1] - forest->sample_start[s];
    struct spans one = {.rows = vertices,
                        .level = 1,
                        .edges = forest->child_start[forest->sample_start[s + 1]] -
                                 forest->child_start[forest->sample_start[s]],
                        .table = tide__levels_spans(run).table};
    return tide_fail(TIDE_ELIMIT,
                     "program %s: sample %zu of the data, with %zu vertices, does not fit: it needs "
                     "%zu bytes or more, and there are %zu",
                     run->plan->program->name, s + 1, vertices, tide__run_bytes(run, &one), run->limit);
}

struct tide_run_batch tide_run_batch(const struct tide_run *run) {
    const struct tide_levels *l = run->graphs.levels;
    return l ? (struct tide_run_batch){l->samples, l->vertices, l->edges, l->round_count}
             : (struct tide_run_batch){0, 0, 0, 0};
}

const uint64_t *tide_run_table_ids(const struct tide_run *run, size_t table, size_t *count) {
    *count = run->graphs.levels->id_count[table];
    return run->graphs.levels->ids[table];
}

void tide_run_bind_table(struct tide_run *run, size_t table, const void *rows, void *gradients) {
    run->graphs.table_rows[table] = rows;
    run->graphs.table_gradients[table] = gradients;
}

struct spans tide__levels_spans(const struct tide_run *run) {
    const struct tide_levels *l = run->graphs.levels;
    struct spans all = {.rows = l->vertices, .edges = l->edges, .level = l->widest};
    for (size_t t = 0; t < TIDE_LEVELS_TABLES; t++) {
        all.table = l->id_count[t] > all.table ? l->id_count[t] : all.table;
    }
    return all;
}

size_t tide__levels_rows(const struct tide_run *run, const struct value *v) {
    return v->space == TIDE_SPACE_EDGE    ? run->now.edges
           : v->space == TIDE_SPACE_TABLE ? run->graphs.levels->id_count[v->table]
                                          : run->now.rows;
}

void *tide__levels_list(const struct tide_run *run, size_t number) {
    const struct tide_levels *l = run->graphs.levels;
    size_t list = number % TIDE_LIST_COUNT, nth = number / TIDE_LIST_COUNT;
    return run->graphs.lists +
           (list < TIDE_LIST_NTH_CHILD ? l->list_at[list] : l->nth_at[list - TIDE_LIST_NTH_CHILD][nth]);
}

/* ---- rows that are left out ---- */

static void cut(struct tide_operand *operand, size_t first, size_t count, size_t element) {
    size_t stride = tide_operand_stride(operand);
    operand->data = (char *)operand->data + first * stride * element;
    operand->rows = count;
}

/* All rows of a kind, or of all (0). */
static struct tide_round rows_of(const struct tide_levels *l, uint8_t kind) {
    if (kind == 0) {
        return (struct tide_round){.rows = (uint32_t)l->vertices, .edges = (uint32_t)l->edges};
    }
    uint32_t row = l->kind_first[kind - 1], edge = l->kind_edge[kind - 1];
    return (struct tide_round){.row = row,
                               .rows = l->kind_first[kind] - row,
                               .edge = edge,
                               .edges = l->kind_edge[kind] - edge,
                               .kind = kind - 1u};
}

/* A product over rows, or of rows, that not all count; what is run for all kinds has no such rows. */
static void limit_rows(struct tide_run *run, size_t n) {
    const struct rows *rows = &run->plan->rows[n];
    const struct node *node = &run->plan->program->nodes[n];
    const struct tide_levels *l = run->graphs.levels;
    struct tide_op_call *call = &run->calls[n];
    struct tide_round all = rows_of(l, node->kind);
    size_t element = run->plan->device->element, own = node->kind ? node->kind - 1u : 0;
    size_t from = rows->flags & ROWS_INNER ? l->leaves[own] : 0;
    size_t to = rows->limit >= 0 ? l->limit[own][rows->limit] - all.row : all.rows;
    if (node->code != TIDE_OP_MM || (from == 0 && to == all.rows) || (node->kind == 0 && l->want.kind_count > 0) ||
        (rows->flags & ROWS_REST_ZERO && run->away.memory)) {
        return;
    }
    to = to > from ? to : from;
    cut(&call->in[0], from, to - from, element);
    cut(node->attributes.ta ? &call->in[1] : &call->out[0], from, to - from, element);
}

static void set_motion(const struct tide_run *run, uint32_t value, bool any, const struct tide_operand *operand,
                       struct motion *m) {
    const struct value *v = &run->plan->program->values[value];
    bool list = v->class == CLASS_LIST;
    size_t element = list ? sizeof(int32_t) : tide__graph_element(v, run->plan->device->element);
    *m = (struct motion){.base = operand->data, .space = TIDE_SPACE_CONSTANT};
    if (any || (v->space != TIDE_SPACE_VERTEX && v->space != TIDE_SPACE_EDGE)) {
        return;
    }
    m->space = v->space;
    m->per_row = (uint32_t)tide__graph_rows(v, 1);
    m->step = run->plan->places[value].kind == PLACE_LEVEL
                  ? 0
                  : m->per_row * (list ? 1 : tide_operand_stride(operand)) * element;
}

static void move(struct tide_operand *operand, const struct motion *m, const struct tide_round *r) {
    if (m->space != TIDE_SPACE_CONSTANT) {
        bool edge = m->space == TIDE_SPACE_EDGE;
        operand->data = m->base + m->step * (edge ? r->edge : r->row);
        operand->rows = (size_t)m->per_row * (edge ? r->edges : r->rows);
    }
}

static void move_all(struct tide_run *run, size_t n, const struct tide_round *r) {
    const struct node *node = &run->plan->program->nodes[n];
    const struct motions *m = &run->graphs.motions[n];
    struct tide_op_call *call = &run->calls[n];
    for (size_t i = 0; i < node->in_count; i++) {
        move(&call->in[i], &m->in[i], r);
    }
    for (size_t o = 0; o < node->out_count; o++) {
        move(&call->out[o], &m->out[o], r);
    }
    call->row = m->out[0].space == TIDE_SPACE_EDGE ? r->edge : r->row;
}

void tide__levels_prepare(struct tide_run *run) {
    const struct tide_program *p = run->plan->program;
    const struct tide_levels *l = run->graphs.levels;
    for (size_t n = 0; n < p->node_count; n++) {
        const struct node *node = &p->nodes[n];
        struct tide_op_call *call = &run->calls[n];
        if (run->plan->rows[n].lookup >= 0) {
            call->in[1].data = run->graphs.lists + l->lookup_at[run->plan->rows[n].lookup];
        }
        bool loop = node->section == SECTION_UP || node->section == SECTION_DOWN;
        bool once = !loop && !run->graphs.growing;
        if (once && node->kind == 0) {
            limit_rows(run, n);
            continue;
        }
        struct motions *m = &run->graphs.motions[n];
        for (size_t i = 0; i < node->in_count; i++) {
            set_motion(run, node->in[i], tide__vertex_reads_any(node, i), &call->in[i], &m->in[i]);
        }
        for (size_t o = 0; o < node->out_count; o++) {
            set_motion(run, node->out[o], false, &call->out[o], &m->out[o]);
        }
        if (once) { /* all rows of the kind */
            struct tide_round r = rows_of(l, node->kind);
            move_all(run, n, &r);
            limit_rows(run, n);
        }
    }
}

static void zero(const struct tide_operand *operand, size_t element) {
    size_t stride = tide_operand_stride(operand);
    if (stride == operand->columns && operand->rows > 0) {
        memset(operand->data, 0, operand->rows * stride * element);
        return;
    }
    for (size_t i = 0; i < operand->rows; i++) {
        memset((char *)operand->data + i * stride * element, 0, operand->columns * element);
    }
}

/* The same where the device has its own memory: 0 where never is not 0, else 0. */
static int zero_away(struct tide_run *run, const struct tide_operand *operand) {
    static const struct tide_attributes never = {.region = {.source_count = 2,
                                                            .micro_count = 1,
                                                            .out_count = 1,
                                                            .kind = {TIDE_SOURCE_FULL, TIDE_SOURCE_CONSTANT},
                                                            .micro = {{TIDE_MICRO_SELECT, 1, 0, 1}},
                                                            .out = {2}}};
    struct tide_op_call call = {
        .attributes = &never, .in = {*operand}, .out = {*operand}, .queue = run->away.queue, .scratch = run->scratch};
    return operand->rows > 0 ? run->plan->device->functions[TIDE_OP_MAP](&call) : 0;
}

static int clear(struct tide_run *run, const struct tide_operand *operand) {
    if (run->away.memory) {
        return zero_away(run, operand);
    }
    zero(operand, run->plan->device->element);
    return 0;
}

int tide__levels_rest(struct tide_run *run, size_t n) {
    const struct rows *rows = &run->plan->rows[n];
    const struct node *node = &run->plan->program->nodes[n];
    const struct tide_levels *l = run->graphs.levels;
    size_t element = run->plan->device->element;
    struct tide_round all = rows_of(l, node->kind);
    if (rows->flags & ROWS_REST_ZERO && !run->away.memory) {
        struct tide_operand rest = tide__run_operand(run, node->out[0]);
        size_t made = run->calls[n].out[0].rows;
        cut(&rest, all.row + made, all.rows - made, element);
        zero(&rest, element);
    }
    int code = 0;
    for (size_t o = 0; code == 0 && rows->zero && o < node->out_count; o++) {
        struct tide_operand below = tide__run_operand(run, node->out[o]), above = below;
        bool edge = run->plan->program->values[node->out[o]].space == TIDE_SPACE_EDGE;
        size_t from = edge ? all.edge : all.row, to = from + (edge ? all.edges : all.rows);
        if (rows->zero >> o & 1) {
            cut(&below, 0, from, element);
            cut(&above, to, above.rows - to, element);
            code = clear(run, &below);
            code = code == 0 ? clear(run, &above) : code;
        }
    }
    return code;
}

/* ---- loops ---- */

/* At vertices of another kind than the operation's. */
static int pass_over(struct tide_run *run, size_t n, const struct tide_round *r) {
    uint8_t zero = run->plan->rows[n].zero;
    int code = 0;
    if (zero) {
        move_all(run, n, r);
    }
    for (size_t o = 0; code == 0 && zero >> o; o++) {
        code = zero >> o & 1 ? clear(run, &run->calls[n].out[o]) : 0;
    }
    return code;
}

int tide__levels_run_at(struct tide_run *run, size_t n, const struct tide_round *r, uint64_t step,
                        const struct tide_run_hooks *hooks) {
    const struct node *node = &run->plan->program->nodes[n];
    uint8_t flags = run->plan->rows[n].flags;
    if (r->level == 0 && flags & ROWS_NOT_LEAVES) {
        return 0;
    }
    if (node->kind != 0 && node->kind != r->kind + 1) {
        return pass_over(run, n, r);
    }
    move_all(run, n, r);
    if (r->level == 0 && flags & ROWS_ZERO_LEAVES && !run->away.memory) {
        zero(&run->calls[n].out[0], run->plan->device->element);
        return 0;
    }
    return tide__run_node(run, n, step, hooks);
}

int tide__levels_run(struct tide_run *run, enum section section, uint64_t step, const struct tide_run_hooks *hooks) {
    const struct tide_levels *l = run->graphs.levels;
    size_t from = run->plan->section_at[section], to = run->plan->section_at[section + 1];
    int code = 0;
    for (size_t i = 0; code == 0 && i < l->round_count; i++) {
        const struct tide_round *r = &l->rounds[section == SECTION_UP ? i : l->round_count - 1 - i];
        for (size_t n = from; code == 0 && n < to; n++) {
            code = tide__levels_run_at(run, n, r, step, hooks);
        }
    }
    return code;
}

/* ---- outputs ---- */

/* Copies a kind's rows (0: all) to their places among those of `kinds` (bits; 0: all). */
static void put_in_order(const struct tide_levels *l, char *to, const char *rows, size_t bytes, uint8_t kind,
                         uint32_t kinds) {
    size_t at = 0;
    for (size_t v = 0; v < l->vertices; v++) {
        size_t own = 0;
        while (kinds != 0 && l->row[v] >= l->kind_first[own + 1]) {
            own++;
        }
        if (kinds != 0 && !(kinds >> own & 1)) {
            continue;
        }
        if (kind == 0 || kind == own + 1) {
            memcpy(to + at * bytes, rows + l->row[v] * bytes, bytes);
        }
        at++;
    }
}

const void *tide__levels_output(struct tide_run *run, const char *name, size_t *rows, size_t *columns) {
    const struct tide_program *p = run->plan->program;
    const struct tide_levels *l = run->graphs.levels;
    struct landing *to = &run->graphs.ordered;
    uint32_t kinds = 0;
    size_t count = 0, bytes = 0;
    for (size_t i = 0; i < p->output_count; i++) {
        const struct value *v = &p->values[p->outputs[i].value];
        if (strcmp(p->outputs[i].name, name) == 0) {
            *columns = tide__graph_columns(v);
            bytes = tide__graph_rows(v, 1) * *columns * run->plan->device->element;
            *rows = count += tide__graph_rows(v, rows_of(l, v->kind).rows);
            kinds |= v->kind ? 1u << (v->kind - 1) : 0;
        }
    }
    size_t room = l->vertices * bytes + 1;
    if (bytes > 0 && room > to->bytes) {
        tide_free(to->data);
        to->data = tide_alloc(2 * room);
        to->bytes = to->data ? 2 * room : 0;
    }
    for (size_t i = 0; bytes > 0 && to->data && i < p->output_count; i++) {
        if (strcmp(p->outputs[i].name, name) == 0) {
            struct tide_operand found = tide__run_operand(run, p->outputs[i].value);
            const void *data = run->away.memory ? tide__away_output(run, &found) : found.data;
            if (!data) {
                return NULL;
            }
            put_in_order(l, to->data, data, bytes, p->values[p->outputs[i].value].kind, kinds);
        }
    }
    return bytes > 0 ? to->data : NULL;
}
