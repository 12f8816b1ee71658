/*
 * The plan of a batch of graphs.
 *
 * Rows are vertices by class (kind; level; in it, those with an input before those without), in a
 * class by the order of samples: all is a function of the batch alone. So the rows of a kind are
 * contiguous, and in them those of a level: a round is a level of a kind. With one kind children lie
 * in lower rows. Edges are in the order of their parents' rows. */
#ifndef TIDE_GRAPH_LEVELS_H
#define TIDE_GRAPH_LEVELS_H

#include "readers/forest.h"

enum tide_list {
    TIDE_LIST_CHILD_START,  /* [n + 1] edges of each vertex */
    TIDE_LIST_CHILD,        /* [e] rows of children */
    TIDE_LIST_PARENT_START, /* [n + 1] */
    TIDE_LIST_PARENT,       /* [e] rows of parents, of each child in order */
    TIDE_LIST_PARENT_EDGE,  /* [e] the edge that each of them is */
    TIDE_LIST_EDGE_PARENT,  /* [e] row of the edge's parent */
    TIDE_LIST_EDGE,         /* [e + 1] 0, 1, 2, ... */
    TIDE_LIST_NTH_CHILD,    /* [n] row of the nth child, -1: absent; these three for each nth */
    TIDE_LIST_NTH_START,    /* [n + 1] */
    TIDE_LIST_NTH_PARENT,   /* [..] rows of those whose nth child it is */
    TIDE_LIST_COUNT
};
enum { TIDE_LEVELS_NTH = 8, TIDE_LEVELS_INPUTS = 16, TIDE_LEVELS_TABLES = 4 };

/* What of a batch is read. */
struct tide_levels_want {
    uint32_t lists;         /* bits 1 << enum tide_list, but for the nths */
    uint32_t nth;           /* so many named children */
    uint32_t children_most; /* of a vertex; 0: any */
    struct {
        char name[TIDE_FOREST_NAME];
        bool edge, index;
        uint32_t columns;
    } inputs[TIDE_LEVELS_INPUTS];
    size_t input_count;
    int key;           /* the input that distinguishes classes; -1: none */
    size_t kind_count; /* 0: vertices are all of one */
    char kinds[TIDE_FOREST_KINDS][TIDE_FOREST_NAME];
    /* Tables read by the indices of inputs: these become numbers among the distinct ones. */
    struct {
        uint32_t table, input, rows;
    } lookups[TIDE_LEVELS_INPUTS];
    size_t lookup_count, table_count;
    size_t element; /* bytes of a float */
};

struct tide_round {
    uint32_t row, rows, edge, edges; /* the first, and how many */
    uint32_t level, kind;
};

struct tide_levels {
    struct tide_levels_want want;
    size_t samples, vertices, edges, round_count, widest, widest_edges; /* widest: of a round */
    struct tide_round *rounds;                                          /* by level, then kind; none is empty */
    uint32_t *row; /* [vertices] of each vertex in the order of the samples */
    uint32_t kind_first[TIDE_FOREST_KINDS + 1], kind_edge[TIDE_FOREST_KINDS + 1];
    uint32_t leaves[TIDE_FOREST_KINDS]; /* of a kind: its first rows, which are level 0 */
    /* All arrays that operations read, in one piece. */
    char *data;
    size_t bytes;
    size_t list_at[TIDE_LIST_COUNT], nth_at[3][TIDE_LEVELS_NTH];
    size_t input_at[TIDE_LEVELS_INPUTS], lookup_at[TIDE_LEVELS_INPUTS];
    /* indices, by kind: one past the last row that has one */
    uint32_t limit[TIDE_FOREST_KINDS][TIDE_LEVELS_INPUTS];
    uint64_t *ids[TIDE_LEVELS_TABLES]; /* distinct rows of a table */
    size_t id_count[TIDE_LEVELS_TABLES];
    /* scratch */
    uint32_t *class_count, *vertex, *base, *stamp[TIDE_LEVELS_TABLES];
    size_t vertex_room, class_room, byte_room, id_room[TIDE_LEVELS_TABLES], stamp_room[TIDE_LEVELS_TABLES], round_room,
        level_count;
    uint32_t stamped;
};
int tide_levels_create(const struct tide_levels_want *want, struct tide_levels **out); /* gives */
void tide_levels_destroy(struct tide_levels *l);
/* In O(vertices + edges); allocates nothing for sizes seen before. order NULL: first, first + 1, ...
 * serial: every vertex is a level of its own. piece: of the batch made last, whose distinct rows of
 * tables keep their numbers. */
int tide_levels_make(struct tide_levels *l, const struct tide_forest *f, const uint32_t *order, size_t first,
                     size_t count, bool serial, bool piece);
/* How many samples from the first have room, as `fits` decides by their vertices, edges and the widest
 * round; in O(vertices + edges). EINVAL: as _make. */
int tide_levels_prefix(struct tide_levels *l, const struct tide_forest *f, const uint32_t *order, size_t first,
                       size_t count, bool serial, bool (*fits)(void *arg, size_t vertices, size_t edges, size_t widest),
                       void *arg, size_t *out);

/* ---- for grow.c, which fills lists in as vertices come ---- */
/* Lists that others are made of are wanted, too. */
void tide__levels_complete(struct tide_levels *l);
/* Places and memory for l->vertices, edges and level_count levels; what was there is gone. */
int tide__levels_lay_out(struct tide_levels *l);
/* From the lists of children of l->vertices and edges. */
void tide__levels_link_parents(const struct tide_levels *l);
/* Of tables: distinct ids of the inputs, in the order of their first row; more: beside those that are
 * numbered. */
int tide__levels_number_ids(struct tide_levels *l, bool more);
/* EINVAL "has .. children, and the program reads .." of a vertex with more than the program reads. */
int tide__levels_check_children(const struct tide_levels_want *want, size_t children);

#endif
