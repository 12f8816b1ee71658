/*
 * The plan of a batch: counting, prefix sums and one pass over vertices and edges; no sort, no
 * search. See levels.h for what is made.
 */
#include "graph/levels.h"

#include "base/base.h"

#include <string.h>

enum { ALIGN = 64 };

int tide_levels_create(const struct tide_levels_want *want, struct tide_levels **out) {
    struct tide_levels *l = tide_alloc_zero(1, sizeof(*l));
    if (!l) {
        return TIDE_ENOMEM;
    }
    l->want = *want;
    *out = l;
    return 0;
}

void tide_levels_destroy(struct tide_levels *l) {
    if (l) {
        tide_free(l->rounds);
        tide_free(l->row);
        tide_free(l->vertex);
        tide_free(l->base);
        tide_free(l->class_count);
        tide_free(l->data);
        for (size_t t = 0; t < TIDE_LEVELS_TABLES; t++) {
            tide_free(l->ids[t]);
            tide_free(l->stamp[t]);
        }
        tide_free(l);
    }
}

/* A batch at work: its samples, and where the forest has them. */
struct batch {
    struct tide_levels *l;
    const struct tide_forest *f;
    const uint32_t *order;
    size_t first, count;
    bool serial;
    const struct tide_forest_input *inputs[TIDE_LEVELS_INPUTS];
    uint8_t kind[TIDE_FOREST_KINDS + 2]; /* of the program, by the forest's; NO_KIND: it has none */
};
enum { NO_KIND = 255 };

static size_t kinds_of(const struct tide_levels *l) {
    return l->want.kind_count > 0 ? l->want.kind_count : 1;
}

static size_t sample_of(const struct batch *b, size_t i) {
    return b->order ? b->order[b->first + i] : b->first + i;
}

static int grow(void *array, size_t *room, size_t need, size_t element) {
    void **memory = array;
    if (need <= *room && *memory) {
        return 0;
    }
    size_t wanted = 64;
    while (wanted < need) {
        wanted *= 2;
    }
    tide_free(*memory);
    *memory = tide_alloc_aligned(ALIGN, (wanted * element + ALIGN - 1) & ~(size_t)(ALIGN - 1));
    *room = *memory ? wanted : 0;
    return *memory ? 0 : TIDE_ENOMEM;
}

static int find_inputs(struct batch *b) {
    const struct tide_levels_want *w = &b->l->want;
    for (size_t i = 0; i < w->input_count; i++) {
        const struct tide_forest_input *in = tide_forest_find(b->f, w->inputs[i].name);
        const char *kind = w->inputs[i].index ? "an index" : "an input";
        if (!in || in->edge != w->inputs[i].edge || in->index != w->inputs[i].index) {
            return tide_fail(TIDE_EINVAL, "the data have no \"%s\", which is %s of %s", w->inputs[i].name, kind,
                             w->inputs[i].edge ? "edges" : "vertices");
        }
        if (in->columns != w->inputs[i].columns) {
            return tide_fail(TIDE_EINVAL, "\"%s\" has %u columns in the data, the program requires %u", in->name,
                             in->columns, w->inputs[i].columns);
        }
        b->inputs[i] = in;
    }
    for (size_t k = 0; k < w->lookup_count; k++) {
        const struct tide_forest_input *in = b->inputs[w->lookups[k].input];
        if (in->below > w->lookups[k].rows) {
            return tide_fail(TIDE_EINVAL, "\"%s\" goes up to %u, but its table has %u rows", in->name, in->below - 1,
                             w->lookups[k].rows);
        }
    }
    return 0;
}

/* Which kinds of the program are which of the data. */
static void match_kinds(struct batch *b) {
    const struct tide_levels_want *w = &b->l->want;
    int of[TIDE_FOREST_KINDS];
    memset(b->kind, w->kind_count > 0 ? NO_KIND : 0, sizeof(b->kind));
    tide_forest_find_kinds(b->f, w->kind_count, w->kinds, of);
    for (size_t k = 0; k < w->kind_count; k++) {
        if (of[k] >= 0) {
            b->kind[of[k]] = (uint8_t)k;
        }
    }
}

static size_t kind_of(const struct batch *b, size_t v) {
    return b->l->want.kind_count > 0 ? b->kind[tide_forest_kind(b->f, v)] : 0;
}

static int unknown_kind(const struct batch *b, size_t sample, size_t vertex) {
    const struct tide_levels_want *w = &b->l->want;
    const struct tide_forest *f = b->f;
    char names[TIDE_FOREST_KINDS * (TIDE_FOREST_NAME + 4)] = "";
    size_t at = 0;
    for (size_t k = 0; k < w->kind_count; k++) {
        at += (size_t)snprintf(names + at, sizeof(names) - at, "%s\"%s\"", k ? ", " : "", w->kinds[k]);
    }
    int kind = tide_forest_kind(f, vertex);
    return tide_fail(TIDE_EINVAL, "sample %zu: vertex %zu is of kind \"%s\"%s; the program has %s", sample + 1,
                     vertex - f->sample_start[sample] + 1,
                     f->kind_count > 0 ? f->kinds[kind]
                     : kind            ? "inner"
                                       : "leaf",
                     f->kind_count > 0 ? "" : " (the data name no kinds)", names);
}

int tide__levels_check_children(const struct tide_levels_want *want, size_t children) {
    return want->children_most == 0 || children <= want->children_most
               ? 0
               : tide_fail(TIDE_EINVAL, "has %zu children, and the program reads %u of a vertex", children,
                           want->children_most);
}

static int check_vertex(const struct batch *b, size_t sample, size_t v) {
    const struct tide_forest *f = b->f;
    if (b->l->want.kind_count > 0 && kind_of(b, v) == NO_KIND) {
        return unknown_kind(b, sample, v);
    }
    if (tide__levels_check_children(&b->l->want, f->child_start[v + 1] - f->child_start[v]) != 0) {
        char why[120];
        (void)snprintf(why, sizeof(why), "%s", tide_error_message());
        return tide_fail(TIDE_EINVAL, "sample %zu: vertex %zu %s", sample + 1, v - f->sample_start[sample] + 1, why);
    }
    return 0;
}

static int count_samples(struct batch *b) {
    struct tide_levels *l = b->l;
    const struct tide_forest *f = b->f;
    l->samples = b->count;
    l->vertices = l->edges = 0;
    size_t height = 0;
    for (size_t i = 0; i < b->count; i++) {
        size_t s = sample_of(b, i);
        if (s >= f->samples) {
            return tide_fail(TIDE_EINVAL, "there is no sample %zu of %zu", s + 1, f->samples);
        }
        size_t from = f->sample_start[s], to = f->sample_start[s + 1];
        l->vertices += to - from;
        l->edges += f->child_start[to] - f->child_start[from];
        for (size_t v = from; v < to; v++) {
            height = f->height[v] > height ? f->height[v] : height;
        }
        for (size_t v = from; v < to; v++) {
            const int code = check_vertex(b, s, v);
            if (code != 0) {
                return code;
            }
        }
    }
    if (l->vertices >= INT32_MAX || l->edges >= INT32_MAX) {
        return tide_fail(TIDE_ELIMIT, "a batch has fewer than 2^31 vertices and edges");
    }
    l->level_count = b->serial ? l->vertices : l->vertices > 0 ? height + 1 : 0;
    return 0;
}

static size_t list_bytes(const struct tide_levels *l, size_t list) {
    size_t n = l->vertices, e = l->edges;
    size_t entries = list == TIDE_LIST_CHILD_START || list == TIDE_LIST_PARENT_START || list == TIDE_LIST_NTH_START
                         ? n + 1
                     : list == TIDE_LIST_EDGE                                      ? e + 1
                     : list == TIDE_LIST_NTH_CHILD || list == TIDE_LIST_NTH_PARENT ? n
                                                                                   : e;
    return (entries * sizeof(int32_t) + ALIGN - 1) & ~(size_t)(ALIGN - 1);
}

static size_t place(size_t *at, size_t bytes) {
    size_t own = *at;
    *at += (bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    return own;
}

int tide__levels_lay_out(struct tide_levels *l) {
    const struct tide_levels_want *w = &l->want;
    size_t at = 0;
    for (size_t i = 0; i < TIDE_LIST_NTH_CHILD; i++) {
        l->list_at[i] = at;
        at += w->lists >> i & 1 ? list_bytes(l, i) : 0;
    }
    for (size_t k = 0; k < w->nth; k++) {
        for (size_t i = 0; i < 3; i++) {
            l->nth_at[i][k] = place(&at, list_bytes(l, TIDE_LIST_NTH_CHILD + i));
        }
    }
    for (size_t i = 0; i < w->input_count; i++) {
        size_t n = (w->inputs[i].edge ? l->edges : l->vertices) * w->inputs[i].columns;
        l->input_at[i] = place(&at, n * (w->inputs[i].index ? sizeof(int32_t) : w->element));
    }
    for (size_t k = 0; k < w->lookup_count; k++) {
        size_t i = w->lookups[k].input;
        size_t n = (w->inputs[i].edge ? l->edges : l->vertices) * w->inputs[i].columns;
        l->lookup_at[k] = place(&at, n * sizeof(int32_t));
    }
    l->bytes = at;
    int code = grow(&l->data, &l->byte_room, at + 1, 1);
    if (code == 0 && (l->vertices + 1 > l->vertex_room || !l->row)) {
        size_t room = l->vertex_room;
        code = grow(&l->row, &room, l->vertices + 1, sizeof(*l->row));
        room = l->vertex_room;
        code = code == 0 ? grow(&l->vertex, &room, l->vertices + 1, sizeof(*l->vertex)) : code;
        room = l->vertex_room;
        code = code == 0 ? grow(&l->base, &room, l->vertices + 1, sizeof(*l->base)) : code;
        l->vertex_room = code == 0 ? room : 0;
    }
    size_t classes = kinds_of(l) * l->level_count;
    code = code == 0 ? grow(&l->rounds, &l->round_room, classes + 1, sizeof(*l->rounds)) : code;
    return code == 0 ? grow(&l->class_count, &l->class_room, 2 * classes + 1, sizeof(*l->class_count)) : code;
}

/* Whether vertex v of the forest has the input that distinguishes classes. */
static bool has_input(const struct batch *b, size_t v) {
    int key = b->l->want.key;
    if (key < 0) {
        return true;
    }
    return ((const int32_t *)b->inputs[key]->data)[v * b->inputs[key]->columns] >= 0;
}

/* Rounds from what classes begin with: level after level, in it kind after kind. */
static void make_rounds(struct tide_levels *l, const uint32_t *start) {
    size_t kinds = kinds_of(l), levels = l->level_count;
    l->round_count = l->widest = 0;
    for (size_t k = 0; k <= kinds; k++) {
        l->kind_first[k] = start[2 * k * levels];
    }
    for (size_t k = 0; k < kinds; k++) {
        l->leaves[k] = levels > 0 ? start[2 * (k * levels + 1)] - start[2 * k * levels] : 0;
    }
    for (size_t level = 0; level < levels; level++) {
        for (size_t k = 0; k < kinds; k++) {
            size_t class = 2 * (k * levels + level);
            uint32_t rows = start[class + 2] - start[class];
            if (rows > 0) {
                l->rounds[l->round_count++] = (struct tide_round){
                    .row = start[class], .rows = rows, .level = (uint32_t)level, .kind = (uint32_t)k};
            }
            l->widest = rows > l->widest ? rows : l->widest;
        }
    }
}

static void assign_rows(struct batch *b) {
    struct tide_levels *l = b->l;
    const struct tide_forest *f = b->f;
    uint32_t *start = l->class_count;
    size_t own = 0, classes = 2 * kinds_of(l) * l->level_count;
    memset(start, 0, (classes + 1) * sizeof(*start));
    for (size_t i = 0; i < b->count; i++) {
        size_t s = sample_of(b, i);
        for (size_t v = f->sample_start[s]; v < f->sample_start[s + 1]; v++, own++) {
            size_t level = b->serial ? own : f->height[v];
            bool with = has_input(b, v) || TIDE_MUTANT(vertex_class_dropped);
            size_t kind = TIDE_MUTANT(vertex_kinds_mixed) ? 0 : kind_of(b, v);
            uint32_t class = (uint32_t)(2 * (kind * l->level_count + level) + !with);
            l->row[own] = class;
            start[class]++;
        }
    }
    uint32_t next = 0;
    for (size_t c = 0; c <= classes; c++) {
        uint32_t here = start[c];
        start[c] = next;
        next += here;
    }
    make_rounds(l, start);
    own = 0;
    for (size_t i = 0; i < b->count; i++) {
        size_t s = sample_of(b, i);
        for (size_t v = f->sample_start[s]; v < f->sample_start[s + 1]; v++, own++) {
            uint32_t row = start[l->row[own]]++;
            l->row[own] = row;
            l->vertex[row] = (uint32_t)v;
        }
    }
}

static int32_t *list(const struct tide_levels *l, enum tide_list which) {
    return (int32_t *)(void *)(l->data + l->list_at[which]);
}

static int32_t *nth(const struct tide_levels *l, size_t which, size_t k) {
    return (int32_t *)(void *)(l->data + l->nth_at[which][k]);
}

/* Children in the order of rows; edges are numbered as they come. base: of each row's sample, what
 * turns a number of its vertices into one of the batch. */
static void link_children(struct batch *b, const uint32_t *base) {
    struct tide_levels *l = b->l;
    const struct tide_forest *f = b->f;
    int32_t *start = list(l, TIDE_LIST_CHILD_START), *child = list(l, TIDE_LIST_CHILD);
    int32_t *parent = list(l, TIDE_LIST_EDGE_PARENT);
    size_t edge = 0;
    l->widest_edges = 0;
    for (size_t row = 0; row < l->vertices; row++) {
        size_t v = l->vertex[row];
        start[row] = (int32_t)edge;
        for (uint32_t e = f->child_start[v]; e < f->child_start[v + 1]; e++, edge++) {
            uint32_t from =
                TIDE_MUTANT(vertex_children_backwards) ? f->child_start[v + 1] - 1 - (e - f->child_start[v]) : e;
            child[edge] = (int32_t)l->row[base[row] + (uint32_t)f->child[from]];
            parent[edge] = (int32_t)row;
        }
        for (size_t k = 0; k < l->want.nth; k++) {
            bool there = edge - (size_t)start[row] > k;
            nth(l, 0, k)[row] = there ? child[(size_t)start[row] + k] : -1;
        }
    }
    start[l->vertices] = (int32_t)edge;
    for (size_t i = 0; i < l->round_count; i++) {
        struct tide_round *round = &l->rounds[i];
        round->edge = (uint32_t)start[round->row];
        round->edges = (uint32_t)start[round->row + round->rows] - round->edge;
        l->widest_edges = round->edges > l->widest_edges ? round->edges : l->widest_edges;
    }
    for (size_t k = 0; k <= kinds_of(l); k++) {
        l->kind_edge[k] = (uint32_t)start[l->kind_first[k]];
    }
}

/* starts[c] .. of the places i, in order, at which child[i] is c; -1 is of none. */
static void transpose(size_t rows, size_t n, const int32_t *child, const int32_t *parent_of, int32_t *starts,
                      int32_t *parents, int32_t *places) {
    memset(starts, 0, (rows + 1) * sizeof(*starts));
    for (size_t i = 0; i < n; i++) {
        starts[child[i] + 1] += child[i] >= 0; /* of -1: adds nothing */
    }
    for (size_t r = 0; r < rows; r++) {
        starts[r + 1] += starts[r];
    }
    for (size_t i = 0; i < n; i++) {
        if (child[i] >= 0) {
            int32_t at = starts[child[i]]++;
            parents[at] = parent_of ? parent_of[i] : (int32_t)i;
            if (places) {
                places[at] = (int32_t)i;
            }
        }
    }
    for (size_t r = rows; r > 0; r--) {
        starts[r] = starts[r - 1];
    }
    starts[0] = 0;
}

void tide__levels_link_parents(const struct tide_levels *l) {
    uint32_t wanted = l->want.lists;
    if (wanted >> TIDE_LIST_PARENT_START & 1) {
        transpose(l->vertices, l->edges, list(l, TIDE_LIST_CHILD), list(l, TIDE_LIST_EDGE_PARENT),
                  list(l, TIDE_LIST_PARENT_START), list(l, TIDE_LIST_PARENT), list(l, TIDE_LIST_PARENT_EDGE));
    }
    for (size_t k = 0; k < l->want.nth; k++) {
        transpose(l->vertices, l->vertices, nth(l, 0, k), NULL, nth(l, 1, k), nth(l, 2, k), NULL);
    }
    for (size_t e = 0; wanted >> TIDE_LIST_EDGE & 1 && e <= l->edges; e++) {
        list(l, TIDE_LIST_EDGE)[e] = (int32_t)e;
    }
}

static void copy_float(char *to, const float *from, size_t count, size_t element) {
    if (element == sizeof(float)) {
        memcpy(to, from, count * sizeof(float));
        return;
    }
    for (size_t i = 0; i < count; i++) {
        ((double *)(void *)to)[i] = (double)from[i];
    }
}

/* Row `from` of an input of the forest to row `to` of the batch's. */
static void copy_input(const struct batch *b, size_t i, size_t from, size_t to) {
    const struct tide_levels *l = b->l;
    const struct tide_forest_input *in = b->inputs[i];
    size_t columns = in->columns;
    char *place = l->data + l->input_at[i];
    if (in->index) {
        memcpy(place + to * columns * sizeof(int32_t), (const int32_t *)in->data + from * columns,
               columns * sizeof(int32_t));
    } else {
        copy_float(place + to * columns * l->want.element, (const float *)in->data + from * columns, columns,
                   l->want.element);
    }
}

/* Of an index: one past the last row of each kind that has one. */
static void find_limits(struct tide_levels *l, size_t input, const int32_t *values) {
    for (size_t k = 0; k < kinds_of(l); k++) {
        uint32_t row = l->kind_first[k + 1];
        while (row > l->kind_first[k] && values[row - 1] < 0) {
            row--;
        }
        l->limit[k][input] = row;
    }
}

static void copy_inputs(struct batch *b) {
    struct tide_levels *l = b->l;
    for (size_t i = 0; i < l->want.input_count; i++) {
        const struct tide_forest_input *in = b->inputs[i];
        size_t edge = 0;
        if (!in->edge && in->index && in->columns == 1) { /* labels and words, of most batches */
            const int32_t *from = in->data;
            int32_t *to = (int32_t *)(void *)(l->data + l->input_at[i]);
            for (size_t row = 0; row < l->vertices; row++) {
                to[row] = from[l->vertex[row]];
            }
            find_limits(l, i, to);
            continue;
        }
        for (size_t row = 0; row < l->vertices; row++) {
            size_t v = l->vertex[row];
            if (!in->edge) {
                copy_input(b, i, v, row);
                continue;
            }
            for (uint32_t e = b->f->child_start[v]; e < b->f->child_start[v + 1]; e++) {
                copy_input(b, i, e, edge++);
            }
        }
        for (size_t k = 0; k < kinds_of(l); k++) {
            l->limit[k][i] = l->kind_first[k + 1];
        }
    }
}

/* Distinct ids in the order of their first row. */
int tide__levels_number_ids(struct tide_levels *l, bool more) {
    const struct tide_levels_want *w = &l->want;
    if (!more && ++l->stamped == 0) { /* once in 2^32 batches */
        for (size_t t = 0; t < TIDE_LEVELS_TABLES; t++) {
            tide_free(l->stamp[t]);
            l->stamp[t] = NULL;
        }
        l->stamped = 1;
    }
    if (!more) {
        memset(l->id_count, 0, sizeof(l->id_count));
    }
    for (size_t k = 0; k < w->lookup_count; k++) {
        size_t t = w->lookups[k].table, i = w->lookups[k].input, rows = w->lookups[k].rows;
        size_t n = (w->inputs[i].edge ? l->edges : l->vertices) * w->inputs[i].columns;
        const int32_t *from = (const int32_t *)(const void *)(l->data + l->input_at[i]);
        int32_t *to = (int32_t *)(void *)(l->data + l->lookup_at[k]);
        size_t most = l->id_count[t] + n < rows ? l->id_count[t] + n : rows;
        if (most > l->id_room[t] || !l->ids[t]) { /* what other lookups found stays */
            uint64_t *larger = tide_realloc(l->ids[t], 2 * (most + 1) * sizeof(*larger));
            if (!larger) {
                return TIDE_ENOMEM;
            }
            l->ids[t] = larger;
            l->id_room[t] = 2 * (most + 1);
        }
        if (!l->stamp[t]) { /* what is below 2 * `stamped` was set in earlier batches */
            l->stamp[t] = tide_alloc_zero(2 * rows, sizeof(*l->stamp[t]));
            if (!l->stamp[t]) {
                return TIDE_ENOMEM;
            }
        }
        uint32_t *stamp = l->stamp[t];
        for (size_t r = 0; r < n; r++) {
            to[r] = -1;
            if (from[r] >= 0) {
                size_t id = (size_t)from[r];
                if (stamp[2 * id] != l->stamped) {
                    stamp[2 * id] = l->stamped;
                    stamp[2 * id + 1] = (uint32_t)l->id_count[t];
                    l->ids[t][l->id_count[t]++] = (uint64_t)id;
                }
                to[r] = (int32_t)stamp[2 * id + 1];
            }
        }
    }
    return 0;
}

void tide__levels_complete(struct tide_levels *l) {
    l->want.lists |= 1u << TIDE_LIST_CHILD_START | 1u << TIDE_LIST_CHILD | 1u << TIDE_LIST_EDGE_PARENT;
    uint32_t parents = 1u << TIDE_LIST_PARENT_START | 1u << TIDE_LIST_PARENT | 1u << TIDE_LIST_PARENT_EDGE;
    if (l->want.lists & parents) {
        l->want.lists |= parents;
    }
}

int tide_levels_make(struct tide_levels *l, const struct tide_forest *f, const uint32_t *order, size_t first,
                     size_t count, bool serial, bool piece) {
    struct batch b = {.l = l, .f = f, .order = order, .first = first, .count = count, .serial = serial};
    tide__levels_complete(l);
    match_kinds(&b);
    int code = find_inputs(&b);
    code = code == 0 ? count_samples(&b) : code;
    code = code == 0 ? tide__levels_lay_out(l) : code;
    if (code != 0) {
        return code;
    }
    assign_rows(&b);
    uint32_t *base = l->base;
    size_t own = 0;
    for (size_t i = 0; i < count; i++) {
        size_t s = sample_of(&b, i), here = f->sample_start[s + 1] - f->sample_start[s];
        for (size_t v = 0; v < here; v++) {
            base[l->row[own + v]] = (uint32_t)own;
        }
        own += here;
    }
    link_children(&b, base);
    tide__levels_link_parents(l);
    copy_inputs(&b);
    return tide__levels_number_ids(l, piece && !TIDE_MUTANT(vertex_piece_renumbered));
}

int tide_levels_prefix(struct tide_levels *l, const struct tide_forest *f, const uint32_t *order, size_t first,
                       size_t count, bool serial, bool (*fits)(void *arg, size_t vertices, size_t edges, size_t widest),
                       void *arg, size_t *out) {
    struct batch b = {.l = l, .f = f, .order = order, .first = first, .count = count, .serial = serial};
    size_t vertices = 0, edges = 0, widest = 0;
    match_kinds(&b);
    int code = count_samples(&b); /* heights, and what there is no place for later */
    size_t levels = serial ? 1 : l->level_count, classes = kinds_of(l) * levels;
    code = code == 0 ? grow(&l->class_count, &l->class_room, classes + 1, sizeof(*l->class_count)) : code;
    if (code != 0) {
        return code;
    }
    memset(l->class_count, 0, classes * sizeof(*l->class_count));
    for (*out = 0; *out < count; ++*out) {
        size_t s = sample_of(&b, *out), from = f->sample_start[s], to = f->sample_start[s + 1];
        vertices += to - from;
        edges += f->child_start[to] - f->child_start[from];
        for (size_t v = from; v < to; v++) {
            uint32_t *here = &l->class_count[kind_of(&b, v) * levels + (serial ? 0 : f->height[v])];
            *here = serial ? 1 : *here + 1;
            widest = *here > widest ? *here : widest;
        }
        if (!fits(arg, vertices, edges, TIDE_MUTANT(vertex_width_forgotten) ? 0 : widest)) {
            break;
        }
    }
    return 0;
}
