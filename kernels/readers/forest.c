/* Making forests: arrays that grow, vertices in an order in which children come first. */
#include "readers/forest.h"

#include "base/base.h"
#include "names.h"

#include <string.h>

enum { VERTICES_MAX = INT32_MAX - 1 };

int tide_forest_create(struct tide_forest **out) {
    struct tide_forest *f = tide_alloc_zero(1, sizeof(*f));
    if (!f) {
        return TIDE_ENOMEM;
    }
    int code = tide_array_grow(&f->sample_start, &f->sample_room, 1, sizeof(*f->sample_start));
    f->child_start = code == 0 ? tide_alloc_zero(1, sizeof(*f->child_start)) : NULL;
    if (!f->child_start) {
        tide_forest_destroy(f);
        return TIDE_ENOMEM;
    }
    f->sample_start[0] = 0;
    *out = f;
    return 0;
}

void tide_forest_destroy(struct tide_forest *f) {
    if (f) {
        tide_free(f->sample_start);
        tide_free(f->child_start);
        tide_free(f->child);
        tide_free(f->height);
        for (size_t i = 0; i < f->input_count; i++) {
            tide_free(f->inputs[i].data);
        }
        tide_free(f);
    }
}

int tide_forest_input(struct tide_forest *f, const char *name, bool edge, bool index, uint32_t columns,
                      uint32_t below) {
    if (f->samples > 0 || f->input_count == TIDE_FOREST_INPUTS || columns == 0 || strlen(name) >= TIDE_FOREST_NAME ||
        tide_forest_find(f, name)) {
        return tide_fail(TIDE_EINVAL, "a forest has up to %d inputs, each with a name of its own", TIDE_FOREST_INPUTS);
    }
    struct tide_forest_input *made = &f->inputs[f->input_count++];
    *made = (struct tide_forest_input){.edge = edge, .index = index, .columns = columns, .below = below};
    snprintf(made->name, sizeof(made->name), "%s", name);
    return 0;
}

/* ---- kinds ---- */

int tide_forest_kinds(struct tide_forest *f, size_t count, const char *const *names) {
    if (count == 0 || count > TIDE_FOREST_KINDS || f->kind_count > 0) {
        return tide_fail(TIDE_EINVAL, "a forest has 1 to %d kinds of vertices", TIDE_FOREST_KINDS);
    }
    for (size_t i = 0; i < count; i++) {
        bool taken = false;
        for (size_t k = 0; k < i; k++) {
            taken = taken || strcmp(names[k], names[i]) == 0;
        }
        if (taken || !names[i][0] || strlen(names[i]) >= TIDE_FOREST_NAME) {
            return tide_fail(TIDE_EINVAL, "a kind has a name of its own, of 1 to %d bytes", TIDE_FOREST_NAME - 1);
        }
        snprintf(f->kinds[i], sizeof(f->kinds[i]), "%s", names[i]);
    }
    f->kind_count = count;
    return tide_forest_input(f, "kind", false, true, 1, (uint32_t)count);
}

void tide_forest_find_kinds(const struct tide_forest *f, size_t count, const char (*names)[TIDE_FOREST_NAME], int *of) {
    static const char by_shape[2][TIDE_FOREST_NAME] = {"leaf", "inner"};
    const char(*known)[TIDE_FOREST_NAME] = f->kind_count > 0 ? f->kinds : by_shape;
    size_t known_count = f->kind_count > 0 ? f->kind_count : 2;
    for (size_t i = 0; i < count; i++) {
        of[i] = -1;
        for (size_t k = 0; k < known_count; k++) {
            of[i] = strcmp(known[k], names[i]) == 0 ? (int)k : of[i];
        }
    }
}

int tide_forest_kind(const struct tide_forest *f, size_t vertex) {
    if (f->kind_count == 0) {
        return f->child_start[vertex + 1] > f->child_start[vertex];
    }
    return ((const int32_t *)tide_forest_find(f, "kind")->data)[vertex];
}

const struct tide_forest_input *tide_forest_find(const struct tide_forest *f, const char *name) {
    for (size_t i = 0; i < f->input_count; i++) {
        if (strcmp(f->inputs[i].name, name) == 0) {
            return &f->inputs[i];
        }
    }
    return NULL;
}

/* Arrays that go with vertices, or edges, to a new size. */
static int resize(struct tide_forest *f, bool edge, size_t room) {
    for (size_t i = 0; i < f->input_count; i++) {
        if (f->inputs[i].edge == edge) {
            void *larger = tide_realloc(f->inputs[i].data, room * f->inputs[i].columns * 4);
            if (!larger) {
                return TIDE_ENOMEM;
            }
            f->inputs[i].data = larger;
        }
    }
    return 0;
}

static int reserve(struct tide_forest *f, size_t vertices, size_t edges) {
    if (vertices > VERTICES_MAX || edges > VERTICES_MAX) {
        return tide_fail(TIDE_ELIMIT, "a forest has fewer than 2^31 vertices and edges");
    }
    if (vertices > f->vertex_room || !f->height) {
        size_t room = vertices < 64 ? 64 : 2 * vertices;
        uint32_t *start = tide_realloc(f->child_start, (room + 1) * sizeof(*start));
        if (!start) {
            return TIDE_ENOMEM;
        }
        f->child_start = start;
        uint32_t *height = tide_realloc(f->height, room * sizeof(*height));
        if (!height) {
            return TIDE_ENOMEM;
        }
        f->height = height;
        f->vertex_room = room;
        int code = resize(f, false, room);
        if (code != 0) {
            return code;
        }
    }
    if (edges > f->edge_room || !f->child) {
        size_t room = edges < 64 ? 64 : 2 * edges;
        int32_t *child = tide_realloc(f->child, room * sizeof(*child));
        if (!child) {
            return TIDE_ENOMEM;
        }
        f->child = child;
        f->edge_room = room;
        return resize(f, true, room);
    }
    return 0;
}

static int check(const struct tide_forest *f, size_t count, const uint32_t *start, const int32_t *child,
                 const int32_t *const *indices) {
    for (size_t v = 0; v < count; v++) {
        for (uint32_t e = start[v]; e < start[v + 1]; e++) {
            if (child[e] < 0 || (size_t)child[e] >= count || (size_t)child[e] == v) {
                return tide_fail(TIDE_EINVAL, "vertex %zu has the child %d, of %zu vertices", v, child[e], count);
            }
        }
    }
    for (size_t i = 0; i < f->input_count; i++) {
        const struct tide_forest_input *in = &f->inputs[i];
        size_t n = (in->edge ? start[count] : count) * in->columns;
        for (size_t k = 0; in->index && indices && indices[i] && k < n; k++) {
            if (indices[i][k] < -1 || indices[i][k] >= (int64_t)in->below) {
                return tide_fail(TIDE_EINVAL, "%s %zu has the %s %d, which is not in -1 .. %u",
                                 in->edge ? "edge" : "vertex", k / in->columns, in->name, indices[i][k], in->below - 1);
            }
        }
    }
    return 0;
}

/* order[new] = old, children first, each as soon as its children are there, lower numbers first. */
static int sort(size_t count, const uint32_t *start, const int32_t *child, uint32_t *order, uint32_t *at) {
    bool sorted = true;
    for (size_t v = 0; sorted && v < count; v++) {
        for (uint32_t e = start[v]; e < start[v + 1]; e++) {
            sorted = sorted && (size_t)child[e] < v;
        }
    }
    if (sorted) {
        for (size_t v = 0; v < count; v++) {
            order[v] = at[v] = (uint32_t)v;
        }
        return 0;
    }
    /* Depth first without recursion: `at` is the next child to visit, then the new number. */
    uint32_t *stack = tide_alloc(count * sizeof(*stack)), *next = tide_alloc(count * sizeof(*next));
    size_t done = 0;
    int code = stack && next ? 0 : TIDE_ENOMEM;
    for (size_t v = 0; code == 0 && v < count; v++) {
        next[v] = start[v];
        at[v] = UINT32_MAX; /* not seen */
    }
    for (size_t v = 0; code == 0 && v < count; v++) {
        size_t depth = 0;
        if (at[v] == UINT32_MAX) {
            stack[depth++] = (uint32_t)v;
            at[v] = UINT32_MAX - 1; /* on the way */
        }
        while (code == 0 && depth > 0) {
            uint32_t u = stack[depth - 1];
            if (next[u] == start[u + 1]) {
                order[done] = u;
                at[u] = (uint32_t)done++;
                depth--;
                continue;
            }
            uint32_t c = (uint32_t)child[next[u]++];
            if (at[c] == UINT32_MAX - 1) {
                code = tide_fail(TIDE_EINVAL, "vertex %u lies on a cycle", c);
            } else if (at[c] == UINT32_MAX) {
                at[c] = UINT32_MAX - 1;
                stack[depth++] = c;
            }
        }
    }
    tide_free(stack);
    tide_free(next);
    return code;
}

/* Row `from` of what was given, to row `to`; nothing given: -1 or 0. */
static void put(const struct tide_forest_input *in, const void *given, size_t from, size_t to) {
    size_t bytes = (size_t)in->columns * 4;
    char *place = (char *)in->data + to * bytes;
    if (given) {
        memcpy(place, (const char *)given + from * bytes, bytes);
    } else {
        memset(place, in->index ? 0xff : 0, bytes);
    }
}

int tide_forest_add(struct tide_forest *f, size_t count, const uint32_t *start, const int32_t *child,
                    const int32_t *const *indices, const float *const *floats) {
    if (count == 0) {
        return tide_fail(TIDE_EINVAL, "a sample has at least one vertex");
    }
    size_t edges = start[count];
    uint32_t *order = tide_alloc(count * sizeof(*order)), *at = tide_alloc(count * sizeof(*at));
    int code = order && at ? check(f, count, start, child, indices) : TIDE_ENOMEM;
    code = code == 0 ? sort(count, start, child, order, at) : code;
    code = code == 0 ? reserve(f, f->vertices + count, f->edges + edges) : code;
    code =
        code == 0 ? tide_array_grow(&f->sample_start, &f->sample_room, f->samples + 2, sizeof(*f->sample_start)) : code;
    if (code != 0) {
        goto out;
    }
    size_t edge = f->edges, base = f->vertices;
    for (size_t v = 0; v < count; v++) {
        uint32_t old = order[v], height = 0;
        f->child_start[base + v] = (uint32_t)edge;
        for (uint32_t e = start[old]; e < start[old + 1]; e++, edge++) {
            uint32_t c = at[child[e]], above = f->height[base + c] + 1;
            f->child[edge] = (int32_t)c;
            height = above > height ? above : height;
            for (size_t i = 0; i < f->input_count; i++) {
                const struct tide_forest_input *in = &f->inputs[i];
                if (in->edge) {
                    put(in,
                        in->index ? (const void *)(indices ? indices[i] : NULL)
                                  : (const void *)(floats ? floats[i] : NULL),
                        e, edge);
                }
            }
        }
        f->height[base + v] = height;
        for (size_t i = 0; i < f->input_count; i++) {
            const struct tide_forest_input *in = &f->inputs[i];
            if (!in->edge) {
                put(in,
                    in->index ? (const void *)(indices ? indices[i] : NULL) : (const void *)(floats ? floats[i] : NULL),
                    old, base + v);
            }
        }
    }
    f->vertices += count;
    f->edges = edge;
    f->child_start[f->vertices] = (uint32_t)edge;
    f->sample_start[++f->samples] = (uint32_t)f->vertices;
out:
    tide_free(order);
    tide_free(at);
    return code;
}

/* ---- copies ---- */

static int like(const struct tide_forest *f, struct tide_forest **out) {
    int code = tide_forest_create(out);
    for (size_t i = 0; code == 0 && i < f->input_count; i++) {
        const struct tide_forest_input *in = &f->inputs[i];
        code = tide_forest_input(*out, in->name, in->edge, in->index, in->columns, in->below);
    }
    if (code == 0) {
        memcpy((*out)->kinds, f->kinds, sizeof(f->kinds));
        (*out)->kind_count = f->kind_count;
    }
    return code;
}

/* One sample of f, as its arrays have it. */
static int copy_sample(const struct tide_forest *f, size_t s, struct tide_forest *to) {
    size_t v = f->sample_start[s], count = f->sample_start[s + 1] - v, e = f->child_start[v];
    const int32_t *indices[TIDE_FOREST_INPUTS] = {NULL};
    const float *floats[TIDE_FOREST_INPUTS] = {NULL};
    for (size_t i = 0; i < f->input_count; i++) {
        const struct tide_forest_input *in = &f->inputs[i];
        const char *at = (const char *)in->data + (in->edge ? e : v) * in->columns * 4;
        indices[i] = in->index ? (const int32_t *)(const void *)at : NULL;
        floats[i] = in->index ? NULL : (const float *)(const void *)at;
    }
    uint32_t *start = tide_alloc((count + 1) * sizeof(*start));
    int code = start ? 0 : TIDE_ENOMEM;
    for (size_t i = 0; code == 0 && i <= count; i++) {
        start[i] = f->child_start[v + i] - (uint32_t)e;
    }
    code = code == 0 ? tide_forest_add(to, count, start, f->child + e, indices, floats) : code;
    tide_free(start);
    return code;
}

int tide_forest_pick(const struct tide_forest *f, const uint32_t *order, size_t count, struct tide_forest **out) {
    struct tide_forest *made = NULL;
    int code = like(f, &made);
    for (size_t i = 0; code == 0 && i < count; i++) {
        size_t s = order ? order[i] : i;
        code = s < f->samples ? copy_sample(f, s, made)
                              : tide_fail(TIDE_EINVAL, "there is no sample %zu of %zu", s + 1, f->samples);
    }
    if (code != 0) {
        tide_forest_destroy(made);
        return code;
    }
    *out = made;
    return 0;
}

int tide_forest_roots(const struct tide_forest *f, const char *name, struct tide_forest **out) {
    const struct tide_forest_input *in = tide_forest_find(f, name);
    if (!in || !in->index || in->edge) {
        return tide_fail(TIDE_EINVAL, "the forest has no index \"%s\" of its vertices", name);
    }
    int code = tide_forest_pick(f, NULL, f->samples, out);
    bool *parent = code == 0 ? tide_alloc_zero(f->vertices + 1, sizeof(*parent)) : NULL;
    if (!parent) {
        if (code == 0) {
            tide_forest_destroy(*out);
        }
        return code == 0 ? TIDE_ENOMEM : code;
    }
    for (size_t s = 0; s < f->samples; s++) {
        for (size_t v = f->sample_start[s]; v < f->sample_start[s + 1]; v++) {
            for (uint32_t e = f->child_start[v]; e < f->child_start[v + 1]; e++) {
                parent[f->sample_start[s] + (size_t)f->child[e]] = true;
            }
        }
    }
    int32_t *labels = tide_forest_find(*out, name)->data;
    for (size_t v = 0; v < f->vertices; v++) {
        for (size_t c = 0; parent[v] && c < in->columns; c++) {
            labels[v * in->columns + c] = -1;
        }
    }
    tide_free(parent);
    return 0;
}
