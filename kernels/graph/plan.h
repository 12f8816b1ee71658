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
    PLACE_FIXED
};

struct place {
    uint8_t kind;   /* enum place_kind */
    size_t offset;  /* rows: bytes times B; fixed: bytes; parameter, state, gradient: elements */
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
    size_t *foldable; /* by operation: 1 + number of the parameter whose gradient it makes; 0: no */
};

#endif
