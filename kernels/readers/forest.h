/*
 * Forests: samples that are graphs of vertices, as flat arrays: made, read, generated.
 *
 * A sample's vertices are numbered from 0, children before their parents; a vertex may have any
 * number of children and parents, and a sample any number of roots. Inputs lie beside the vertices
 * or the edges, in the same order. Functions return 0 or a negative TIDE_E... code with the reason
 * in the error slot. A forest is not written to once it is made, so several threads may read it.
 */
#ifndef TIDE_FOREST_H
#define TIDE_FOREST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TIDE_FOREST_INPUTS = 8, TIDE_FOREST_NAME = 32, TIDE_FOREST_KINDS = 8 };

struct tide_forest_input {
    char name[TIDE_FOREST_NAME];
    bool edge, index; /* of edges, else of vertices; i32, else f32 */
    uint32_t columns;
    uint32_t below; /* indices: -1 .. below - 1 */
    void *data;
};

struct tide_forest {
    size_t samples, vertices, edges;
    uint32_t *sample_start; /* [samples + 1]: first vertex */
    uint32_t *child_start;  /* [vertices + 1]: first edge */
    int32_t *child;         /* [edges]: number of the vertex in its sample, in the user's order */
    uint32_t *height;       /* [vertices]: 0 without children, else 1 + the largest child's */
    struct tide_forest_input inputs[TIDE_FOREST_INPUTS];
    size_t input_count;
    /* Names of the numbers that the index "kind" of vertices has; 0: there are no kinds. */
    char kinds[TIDE_FOREST_KINDS][TIDE_FOREST_NAME];
    size_t kind_count;
    /* Room of the arrays, while a forest is made. */
    size_t sample_room, vertex_room, edge_room;
};

/* ---- making ---- */
int tide_forest_create(struct tide_forest **out); /* gives; without samples */
void tide_forest_destroy(struct tide_forest *f);
/* Before the first sample. */
int tide_forest_input(struct tide_forest *f, const char *name, bool edge, bool index, uint32_t columns, uint32_t below);
/* Vertices are of kinds: makes the index "kind", whose numbers are those of the names. Before the
 * first sample. EINVAL: none or more than TIDE_FOREST_KINDS, or a name that is taken or too long. */
int tide_forest_kinds(struct tide_forest *f, size_t count, const char *const *names);
/* The numbers that vertices of these kinds have: of[i] is that of names[i] (the place in `kinds`, or,
 * of a forest without kinds, 0 of "leaf", vertices without children, and 1 of "inner"); -1: there is
 * no such kind. */
void tide_forest_find_kinds(const struct tide_forest *f, size_t count, const char (*names)[TIDE_FOREST_NAME], int *of);
/* The number of a vertex's kind, as above. */
int tide_forest_kind(const struct tide_forest *f, size_t vertex);
/* One sample: children of vertex v are child[start[v] .. start[v + 1] - 1], in any order of
 * vertices; it is sorted so that children come first. indices[i] ([count] or [edges], of the i-th
 * input, which is an index; NULL: -1) and floats[i] ([.. x columns], else; NULL: 0) go along. EINVAL:
 * a cycle, a child or an index out of range; the text names the vertex. */
int tide_forest_add(struct tide_forest *f, size_t count, const uint32_t *start, const int32_t *child,
                    const int32_t *const *indices, const float *const *floats);
const struct tide_forest_input *tide_forest_find(const struct tide_forest *f, const char *name);
/* A copy of the samples order[0 .. count - 1], or of all (NULL). */
int tide_forest_pick(const struct tide_forest *f, const uint32_t *order, size_t count, struct tide_forest **out);
/* A copy in which the index `name` is -1 but at roots. */
int tide_forest_roots(const struct tide_forest *f, const char *name, struct tide_forest **out);

/* ---- reading ---- */
struct tide_text;
struct tide_dictionary; /* words by first appearance: names.h */
struct tide_forest_format {
    const char *name;              /* "parents", "lists", "sexpr", "stanford", "sentences" */
    uint32_t classes;              /* labels are below; 0: 5 of "sexpr" and "stanford", else any */
    struct tide_dictionary *words; /* of texts with words; NULL: these hold numbers */
    bool grow;                     /* new words enter it; else they are the last word */
};
/* One text a part; "stanford": parents, sentences, labels. Inputs are "word" and "label". EPROTO:
 * "NAME: line N: expected .., found ..". */
int tide_forest_read(const struct tide_forest_format *format, const struct tide_text *texts, size_t text_count,
                     struct tide_forest **out);

/* ---- generating (the laws of docs/guides/dynamic-networks.md) ---- */
struct tide_forest_law {
    const char *name; /* random_trees, skewed_trees, balanced_trees, chains, lattices */
    size_t samples;
    uint32_t vocabulary;
    uint64_t seed;
    uint32_t max;    /* random_trees: of each of two halves of the leaves */
    uint32_t leaves; /* balanced_trees: a power of two; skewed_trees, chains: all; 0: by the law */
    uint32_t skew;   /* skewed_trees: per cent of merges that continue where the last one was */
};
int tide_forest_generate(const struct tide_forest_law *law, struct tide_forest **out);

#endif
