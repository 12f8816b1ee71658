/*
 * Graphs that grow while they are computed. Rows are numbers, not addresses: a vertex gets the next one
 * when it is computed, and when rows run out, the arena and the lists are copied to larger ones. Each
 * step is one level or several; the way down goes over all of them in reverse, as in a batch.
 */
#include "graph/run.h"

#include <string.h>

struct growing {
    size_t capacity, edge_capacity;   /* rows and edges that there is room for */
    size_t added, edges_added;        /* vertices, and edges to their children */
    size_t rows, edges, levels;       /* computed */
    uint32_t *row;                    /* by id; NONE: not computed yet */
    uint32_t *start;                  /* by id: first of its children, in `child` */
    uint32_t *child;                  /* ids */
    char *inputs[TIDE_LEVELS_INPUTS]; /* by id */
    uint32_t *ids;                    /* by row */
    size_t id_room, child_room;
    size_t first_of_step; /* row */
};

static void release(struct growing *g) {
    if (g) {
        tide_free(g->row);
        tide_free(g->start);
        tide_free(g->child);
        tide_free(g->ids);
        for (size_t i = 0; i < TIDE_LEVELS_INPUTS; i++) {
            tide_free(g->inputs[i]);
        }
        tide_free(g);
    }
}

void tide__grow_close(struct tide_run *run) {
    release(run->graphs.growing);
    run->graphs.growing = NULL;
}

static int resize(void *array, size_t count, size_t element) {
    void **memory = array;
    void *larger = tide_realloc(*memory, count * element);
    if (!larger) {
        return TIDE_ENOMEM;
    }
    *memory = larger;
    return 0;
}

static size_t input_bytes(const struct tide_levels_want *want, size_t i) {
    return (size_t)want->inputs[i].columns * (want->inputs[i].index ? sizeof(int32_t) : sizeof(float));
}

/* Room for one more vertex with so many children. */
static int reserve_ids(struct tide_run *run, size_t children) {
    struct growing *g = run->graphs.growing;
    const struct tide_levels_want *want = &run->graphs.levels->want;
    int code = 0;
    if (g->added + 1 >= g->id_room) {
        size_t room = 2 * g->id_room + 64;
        code = resize(&g->row, room, sizeof(*g->row));
        code = code == 0 ? resize(&g->start, room + 1, sizeof(*g->start)) : code;
        code = code == 0 ? resize(&g->ids, room, sizeof(*g->ids)) : code;
        for (size_t i = 0; code == 0 && i < want->input_count; i++) {
            code = resize(&g->inputs[i], room, input_bytes(want, i));
        }
        g->id_room = code == 0 ? room : g->id_room;
    }
    if (code == 0 && g->edges_added + children > g->child_room) {
        size_t room = 2 * (g->edges_added + children) + 64;
        code = resize(&g->child, room, sizeof(*g->child));
        g->child_room = code == 0 ? room : g->child_room;
    }
    return code;
}

/* Lists and arena for as many rows and edges as there may be now; what is there stays. */
static int enlarge(struct tide_run *run, size_t vertices, size_t edges) {
    struct growing *g = run->graphs.growing;
    struct tide_levels *l = run->graphs.levels, old = *l;
    l->data = NULL;
    l->rounds = NULL;
    l->byte_room = l->round_room = 0;
    l->vertices = l->level_count = vertices;
    l->edges = edges;
    int code = tide__levels_lay_out(l);
    code = code == 0 ? tide__run_enlarge(run, (struct spans){vertices, vertices, edges, 0}, g->rows, g->edges) : code;
    if (code != 0) {
        tide_free(l->data);
        tide_free(l->rounds);
        l->data = old.data;
        l->rounds = old.rounds;
        l->byte_room = old.byte_room;
        l->round_room = old.round_room;
        return code;
    }
    run->graphs.lists = l->data;
    if (old.data && g->rows > 0) {
        memcpy(l->rounds, old.rounds, g->levels * sizeof(*l->rounds));
        static const size_t by_row[] = {TIDE_LIST_CHILD_START}, by_edge[] = {TIDE_LIST_CHILD, TIDE_LIST_EDGE_PARENT};
        memcpy(l->data + l->list_at[by_row[0]], old.data + old.list_at[by_row[0]], (g->rows + 1) * sizeof(int32_t));
        for (size_t i = 0; i < 2; i++) {
            memcpy(l->data + l->list_at[by_edge[i]], old.data + old.list_at[by_edge[i]], g->edges * sizeof(int32_t));
        }
        for (size_t k = 0; k < l->want.nth; k++) {
            memcpy(l->data + l->nth_at[0][k], old.data + old.nth_at[0][k], g->rows * sizeof(int32_t));
        }
        for (size_t i = 0; i < l->want.input_count; i++) {
            size_t one = l->want.inputs[i].columns * (l->want.inputs[i].index ? sizeof(int32_t) : l->want.element);
            memcpy(l->data + l->input_at[i], old.data + old.input_at[i], g->rows * one);
        }
        for (size_t k = 0; k < l->want.lookup_count; k++) {
            size_t one = l->want.inputs[l->want.lookups[k].input].columns * sizeof(int32_t);
            memcpy(l->data + l->lookup_at[k], old.data + old.lookup_at[k], g->rows * one);
        }
    }
    int32_t *identity = (int32_t *)(void *)(l->data + l->list_at[TIDE_LIST_EDGE]);
    for (size_t e = 0; l->want.lists >> TIDE_LIST_EDGE & 1 && e <= edges; e++) {
        identity[e] = (int32_t)e;
    }
    tide_free(old.data);
    tide_free(old.rounds);
    g->capacity = vertices;
    g->edge_capacity = edges;
    for (size_t k = 0; k < l->want.lookup_count; k++) { /* tables are bound whole */
        l->id_count[l->want.lookups[k].table] = l->want.lookups[k].rows;
    }
    return tide__run_prepare(run, vertices);
}

int tide_run_grow(struct tide_run *run, size_t vertices) {
    const struct tide_program *p = run->plan->program;
    if (!p->vertex || run->away.memory || run->graphs.growing) {
        return tide_fail(run->away.memory ? TIDE_EUNSUPPORTED : TIDE_EINVAL, "program %s: %s", p->name,
                         !p->vertex         ? "only programs of vertices grow"
                         : run->away.memory ? "graphs grow on the CPU"
                                            : "it grows already");
    }
    for (size_t i = 0; i < run->plan->want.input_count; i++) {
        if (run->plan->want.inputs[i].edge) {
            return tide_fail(TIDE_EUNSUPPORTED, "program %s: inputs of edges do not grow", p->name);
        }
    }
    if (p->kind_count > 0) {
        return tide_fail(TIDE_EUNSUPPORTED, "program %s: graphs of several kinds do not grow", p->name);
    }
    for (size_t t = 0; t < p->table_count; t++) {
        if (!run->graphs.table_rows[t]) {
            return tide_fail(TIDE_EINVAL, "program %s: table \"%s\" is not bound", p->name,
                             p->values[p->tables[t]].name);
        }
    }
    struct growing *g = tide_alloc_zero(1, sizeof(*g));
    if (!g) {
        return TIDE_ENOMEM;
    }
    struct tide_levels *l = run->graphs.levels;
    tide__levels_complete(l);
    run->graphs.growing = g;
    tide_free(l->data); /* of the last batch */
    tide_free(l->rounds);
    l->data = NULL;
    l->rounds = NULL;
    l->byte_room = l->round_room = 0;
    int code = enlarge(run, vertices < 16 ? 16 : vertices, vertices < 16 ? 32 : 2 * vertices);
    if (code != 0) {
        tide__grow_close(run);
    }
    return code;
}

static int find_input(const struct tide_levels_want *want, const char *name) {
    for (size_t i = 0; i < want->input_count; i++) {
        if (strcmp(want->inputs[i].name, name) == 0) {
            return (int)i;
        }
    }
    return -1;
}

int tide_run_grow_add(struct tide_run *run, const uint32_t *children, size_t child_count,
                      const struct tide_grow_input *inputs, size_t input_count, uint32_t *id) {
    struct growing *g = run->graphs.growing;
    if (!g) {
        return tide_fail(TIDE_EINVAL, "the graphs are finished: grow begins new ones");
    }
    const struct tide_levels_want *want = &run->graphs.levels->want;
    for (size_t i = 0; i < child_count; i++) {
        if (children[i] >= g->added) {
            return tide_fail(TIDE_EINVAL, "child %zu is vertex %u, of %zu that were added", i + 1, children[i] + 1,
                             g->added);
        }
    }
    if (tide__levels_check_children(want, child_count) != 0) {
        char why[120];
        (void)snprintf(why, sizeof(why), "%s", tide_error_message());
        return tide_fail(TIDE_EINVAL, "vertex %zu %s", g->added + 1, why);
    }
    for (size_t i = 0; i < input_count; i++) {
        if (find_input(want, inputs[i].name) < 0) {
            return tide_fail(TIDE_EINVAL, "the program has no input \"%s\"", inputs[i].name);
        }
    }
    int code = reserve_ids(run, child_count);
    if (code != 0) {
        return code;
    }
    for (size_t i = 0; i < want->input_count; i++) {
        size_t bytes = input_bytes(want, i);
        memset(g->inputs[i] + g->added * bytes, want->inputs[i].index ? 0xff : 0, bytes);
    }
    for (size_t i = 0; i < input_count; i++) {
        size_t k = (size_t)find_input(want, inputs[i].name), bytes = input_bytes(want, k);
        memcpy(g->inputs[k] + g->added * bytes, inputs[i].values, bytes);
    }
    for (size_t k = 0; k < want->lookup_count; k++) {
        size_t i = want->lookups[k].input;
        const int32_t *word = (const int32_t *)(const void *)(g->inputs[i] + g->added * input_bytes(want, i));
        for (size_t c = 0; c < want->inputs[i].columns; c++) {
            if (word[c] < -1 || word[c] >= (int64_t)want->lookups[k].rows) {
                return tide_fail(TIDE_EINVAL, "\"%s\" is %d, outside -1 .. %u", want->inputs[i].name, word[c],
                                 want->lookups[k].rows - 1);
            }
        }
    }
    g->start[g->added] = (uint32_t)g->edges_added;
    if (child_count > 0) {
        memcpy(g->child + g->edges_added, children, child_count * sizeof(*children));
    }
    g->edges_added += child_count;
    g->start[g->added + 1] = (uint32_t)g->edges_added;
    g->row[g->added] = NONE;
    *id = (uint32_t)g->added++;
    return 0;
}

/* Value c of an index of a computed vertex, where operations read it. */
static int32_t *index_at(const struct tide_levels *l, size_t input, size_t row) {
    return (int32_t *)(void *)(l->data + l->input_at[input]) + row * l->want.inputs[input].columns;
}

int tide_run_grow_label(struct tide_run *run, uint32_t id, const char *name, int32_t label) {
    struct growing *g = run->graphs.growing;
    int input = g ? find_input(&run->graphs.levels->want, name) : -1;
    if (!g || input < 0 || id >= g->added || !run->graphs.levels->want.inputs[input].index) {
        return tide_fail(TIDE_EINVAL,
                         !g || id >= (g ? g->added : 0) ? "there is no vertex %u"
                                                        : "the program has no index of that name (vertex %u)",
                         id + 1);
    }
    size_t bytes = input_bytes(&run->graphs.levels->want, (size_t)input);
    memcpy(g->inputs[input] + id * bytes, &label, sizeof(label));
    if (g->row[id] != NONE) {
        *index_at(run->graphs.levels, (size_t)input, g->row[id]) = label;
    }
    return 0;
}

/* The next row is vertex `id`'s. */
static void place_vertex(struct tide_run *run, uint32_t id) {
    struct growing *g = run->graphs.growing;
    struct tide_levels *l = run->graphs.levels;
    size_t row = g->rows++;
    int32_t *start = (int32_t *)(void *)(l->data + l->list_at[TIDE_LIST_CHILD_START]);
    int32_t *child = (int32_t *)(void *)(l->data + l->list_at[TIDE_LIST_CHILD]);
    int32_t *parent = (int32_t *)(void *)(l->data + l->list_at[TIDE_LIST_EDGE_PARENT]);
    size_t first = g->edges;
    g->row[id] = (uint32_t)row;
    g->ids[row] = id;
    start[row] = (int32_t)g->edges;
    for (uint32_t k = g->start[id]; k < g->start[id + 1]; k++) {
        child[g->edges] = (int32_t)g->row[g->child[k]];
        parent[g->edges++] = (int32_t)row;
    }
    start[row + 1] = (int32_t)g->edges;
    for (size_t k = 0; k < l->want.nth; k++) {
        int32_t *nth = (int32_t *)(void *)(l->data + l->nth_at[0][k]);
        nth[row] = g->edges - first > k ? child[first + k] : -1;
    }
    for (size_t i = 0; i < l->want.input_count; i++) {
        size_t columns = l->want.inputs[i].columns, bytes = input_bytes(&l->want, i);
        const char *from = g->inputs[i] + id * bytes;
        char *to = l->data + l->input_at[i];
        if (l->want.inputs[i].index || l->want.element == sizeof(float)) {
            memcpy(to + row * bytes, from, bytes);
            continue;
        }
        for (size_t c = 0; c < columns; c++) {
            ((double *)(void *)to)[row * columns + c] = (double)((const float *)(const void *)from)[c];
        }
    }
    for (size_t k = 0; k < l->want.lookup_count; k++) {
        size_t i = l->want.lookups[k].input, columns = l->want.inputs[i].columns;
        memcpy((int32_t *)(void *)(l->data + l->lookup_at[k]) + row * columns, index_at(l, i, row),
               columns * sizeof(int32_t));
    }
}

/* Everything forward but the losses, for the level that was placed last. */
static int compute_level(struct tide_run *run, uint64_t step) {
    struct growing *g = run->graphs.growing;
    const struct tide_levels *l = run->graphs.levels;
    const struct tide_program *p = run->plan->program;
    int code = 0;
    for (size_t n = 0; code == 0 && n < p->node_count; n++) {
        const struct node *node = &p->nodes[n];
        bool forward = node->section == SECTION_BEFORE || node->section == SECTION_UP ||
                       (node->section == SECTION_AFTER && !node->backward && !tide_op_is_loss(node->code));
        if (forward) {
            code = tide__levels_run_at(run, n, &l->rounds[g->levels - 1], step, NULL);
        }
    }
    return code;
}

int tide_run_grow_step(struct tide_run *run, uint64_t step, const uint32_t **ids, size_t *rows) {
    struct growing *g = run->graphs.growing;
    if (!g) {
        return tide_fail(TIDE_EINVAL, "the graphs are finished: grow begins new ones");
    }
    int code = 0;
    if (g->added > g->capacity || g->edges_added > g->edge_capacity) {
        size_t vertices = g->capacity, edges = g->edge_capacity;
        while (vertices < g->added) {
            vertices *= 2;
        }
        while (edges < g->edges_added) {
            edges *= 2;
        }
        code = enlarge(run, vertices, edges);
    }
    g->first_of_step = g->rows;
    while (code == 0 && g->rows < g->added) {
        struct tide_levels *l = run->graphs.levels;
        size_t before = g->rows;
        struct tide_round *round = &l->rounds[g->levels];
        *round =
            (struct tide_round){.row = (uint32_t)g->rows, .edge = (uint32_t)g->edges, .level = (uint32_t)g->levels};
        for (uint32_t id = (uint32_t)g->first_of_step; id < g->added; id++) {
            bool ready = g->row[id] == NONE;
            for (uint32_t k = g->start[id]; ready && k < g->start[id + 1]; k++) {
                ready = g->row[g->child[k]] != NONE && g->row[g->child[k]] < before;
            }
            if (ready) {
                place_vertex(run, id);
            }
        }
        g->levels++;
        round->rows = (uint32_t)g->rows - round->row;
        round->edges = (uint32_t)g->edges - round->edge;
        code = compute_level(run, step);
    }
    *ids = g->ids + g->first_of_step;
    *rows = g->rows - g->first_of_step;
    return code;
}

const void *tide_run_grow_output(struct tide_run *run, const char *name, uint32_t id, size_t *columns) {
    const struct growing *g = run->graphs.growing;
    const struct tide_program *p = run->plan->program;
    for (size_t i = 0; g && id < g->added && g->row[id] != NONE && i < p->output_count; i++) {
        if (strcmp(p->outputs[i].name, name) == 0) {
            struct tide_operand found = tide__run_operand(run, p->outputs[i].value);
            *columns = found.columns;
            return (const char *)found.data + g->row[id] * tide_operand_stride(&found) * run->plan->device->element;
        }
    }
    return NULL;
}

int tide_run_grow_finish(struct tide_run *run, uint64_t step) {
    struct growing *g = run->graphs.growing;
    const struct tide_program *p = run->plan->program;
    struct tide_levels *l = run->graphs.levels;
    if (!g || g->rows < g->added) {
        return tide_fail(TIDE_EINVAL, g ? "vertices were added and not computed: step comes first"
                                        : "the graphs are finished: grow begins new ones");
    }
    l->vertices = g->rows; /* capacity ends here: lists keep their places */
    l->edges = g->edges;
    l->round_count = g->levels;
    tide__levels_link_parents(l);
    int code = tide__levels_number_ids(l, false);
    for (size_t n = 0; code == 0 && n < p->node_count; n++) { /* tables' gradients: distinct rows */
        if (run->plan->rows[n].lookup >= 0 && p->nodes[n].code == TIDE_OP_EMBED_DW) {
            run->calls[n].out[0].rows = l->id_count[p->values[p->nodes[n].out[0]].table];
        }
    }
    const struct tide_round all = {.rows = (uint32_t)g->rows, .edges = (uint32_t)g->edges, .level = 1};
    for (size_t s = SECTION_AFTER; code == 0 && run->plan->training && s <= SECTION_DEFERRED; s++) {
        if (s == SECTION_DOWN) {
            code = tide__levels_run(run, SECTION_DOWN, step, NULL);
            continue;
        }
        for (size_t n = run->plan->section_at[s]; code == 0 && n < run->plan->section_at[s + 1]; n++) {
            code = tide__levels_run_at(run, n, &all, step, NULL);
        }
    }
    for (size_t n = 0; code == 0 && !run->plan->training && n < p->node_count; n++) {
        code = tide_op_is_loss(p->nodes[n].code) ? tide__levels_run_at(run, n, &all, step, NULL) : 0;
    }
    tide_run_grow_cancel(run);
    return code;
}

void tide_run_grow_cancel(struct tide_run *run) {
    tide__grow_close(run);
    run->graphs.lists = NULL; /* of no batch */
}
