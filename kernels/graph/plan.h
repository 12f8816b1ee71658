/* A plan: the list in its final form, with the place of every value. Read-only once made. */
#ifndef TIDE_GRAPH_PLAN_H
#define TIDE_GRAPH_PLAN_H

#include "graph/graph.h"

enum place_kind {
    PLACE_NONE,
    PLACE_INPUT,
    PLACE_PARAMETER,
    PLACE_STATE,
    PLACE_GRADIENT,
    PLACE_ROWS,
    PLACE_FIXED,
    /* of programs of vertices */
    PLACE_LEVEL, /* rows of one level at a time */
    PLACE_EDGES,
    PLACE_TABLE_ROWS,
    PLACE_TABLE,
    PLACE_TABLE_GRADIENT,
    PLACE_LIST
};

/* Rows for which an operation has to be run, where it is not all. */
enum rows_flag {
    ROWS_NOT_LEAVES = 1,  /* in a loop: not at level 0 */
    ROWS_ZERO_LEAVES = 2, /* in a loop: at level 0 the result is 0 */
    ROWS_INNER = 4,       /* once: rows of level 0 add nothing */
    ROWS_REST_ZERO = 8    /* once: the result is 0 behind `limit` */
};
struct rows {
    uint8_t flags;
    uint8_t zero;   /* bits 1 << output: rows of other kinds are 0, because others read them */
    int16_t limit;  /* once: rows with this input; -1: all */
    int16_t lookup; /* EMBED, EMBED_DW of a table: which; -1: none */
};

struct place {
    uint8_t kind;   /* enum place_kind */
    size_t offset;  /* rows: bytes times B; fixed: bytes; parameter, state, gradient: elements;
                       table: its number; list: enum tide_list + TIDE_LIST_COUNT nth */
    size_t bytes;   /* of one B, or all */
    uint32_t input; /* PLACE_INPUT: its number among the inputs */
};

struct tide_plan {
    struct tide_program *program; /* own copy, after the passes */
    const struct tide_device *device;
    bool training;
    struct place *places; /* by value */
    uint32_t input_count;
    uint32_t *first_use, *last_gradient; /* by layer index: operations; NONE: none */
    size_t layer_count;
    size_t row_bytes, fixed_bytes, all_row_bytes;
    size_t level_bytes, edge_bytes, table_bytes; /* as row_bytes, of other rows */
    size_t section_at[SECTION_DEFERRED + 2];     /* first operation of each section, and the end */
    struct rows *rows;                           /* by operation */
    struct tide_levels_want want;                /* of programs of vertices */
    size_t *foldable; /* by operation: 1 + number of the parameter whose gradient it makes; 0: no */
};

/* Of a program of vertices: what it requires of a batch, and the rows each operation runs for. */
int tide__plan_rows(struct tide_plan *plan);

#endif
