/* What run.c and away.c share: a run, and its part for devices with memory of their own. */
#ifndef TIDE_GRAPH_RUN_H
#define TIDE_GRAPH_RUN_H

#include "graph/plan.h"

struct tide_run;

/* An event for the host when the device has come so far. */
struct notice {
    uint64_t ticket;
    uint32_t layer; /* ready; NONE: the factors of operation `node` */
    size_t node;
};
enum { NOTICES_MAX = TIDE_TICKETS / 2 };

/* Host memory that copies land in. It grows; a step of a size seen before allocates nothing. */
struct landing {
    char *data;
    size_t bytes;
};

/* Of devices with memory of their own; memory NULL: the rest is unused. */
struct away {
    const struct tide_memory *memory;
    void *queue;
    size_t *input_places;   /* by input: bytes a row, in the arena behind everything else */
    size_t input_bytes;     /* of all, a row */
    const void *parameters; /* staged: on the host; NULL: not */
    void *gradients;
    double *losses;                /* three a loss, as they were downloaded */
    bool counted;                  /* the first loss's are, of this step */
    struct landing *factors;       /* by operation: its two operands */
    struct landing output, staged; /* staged: inputs, in flight */
    char *lists, *pinned;          /* of a batch of graphs: on the device; the host's, pinned */
    size_t list_room;
    struct notice notices[NOTICES_MAX]; /* a ring, in the order they were asked for */
    size_t first, count;
};

/* How an operand of a loop follows its levels. */
struct motion {
    char *base;       /* row 0 */
    size_t step;      /* bytes a row; 0: it stays */
    uint32_t per_row; /* operand rows a row */
    uint8_t space;    /* whose rows; CONSTANT: all of it */
};
struct motions {
    struct motion in[TIDE_OP_INPUTS], out[TIDE_OP_OUTPUTS];
};

/* Of programs of vertices. */
struct graphs {
    struct tide_levels *levels; /* NULL: none is bound */
    struct motions *motions;    /* by operation */
    const void *table_rows[TIDE_LEVELS_TABLES];
    void *table_gradients[TIDE_LEVELS_TABLES];
    char *lists;             /* the levels' arrays where the device has them */
    struct landing ordered;  /* of outputs */
    struct growing *growing; /* NULL: batches are bound whole */
};

/* Rows of the run, by what they are. */
struct spans {
    size_t rows, level, edges, table;
};

struct tide_run {
    const struct tide_plan *plan;
    uint64_t seed;
    void *parameters, *gradients, *states;
    const void **inputs;        /* by input number */
    struct tide_op_call *calls; /* by operation, for `rows` */
    char *arena, *scratch;
    size_t scratch_bytes;
    size_t arena_bytes, limit; /* limit: of the arena; 0: none */
    struct spans now;          /* of the last step */
    struct graphs graphs;
    size_t rows;     /* of the last step */
    size_t prepared; /* rows the calls' sizes are for; SIZE_MAX: none */
    double fold_rate, divide_by;
    bool *offered; /* by operation: its factors are handed out in its place */
    struct away away;
};

/* ---- run.c ---- */
void *tide__run_address(const struct tide_run *run, uint32_t value);
struct tide_operand tide__run_operand(const struct tide_run *run, uint32_t value);
int tide__run_node(struct tide_run *run, size_t n, uint64_t step, const struct tide_run_hooks *hooks);

/* Another arena of so many rows, into which what the first `rows` and `edges` hold is copied. */
int tide__run_enlarge(struct tide_run *run, struct spans to, size_t rows, size_t edges);
int tide__run_prepare(struct tide_run *run, size_t rows);
size_t tide__run_bytes(const struct tide_run *run, const struct spans *rows); /* of the arena */

/* ---- grow.c ---- */
void tide__grow_close(struct tide_run *run);

/* ---- run_levels.c ---- */
/* An operation for a range of rows; of level 0: they have no children. */
int tide__levels_run_at(struct tide_run *run, size_t n, const struct tide_round *r, uint64_t step,
                        const struct tide_run_hooks *hooks);
void tide__levels_close(struct tide_run *run);
struct spans tide__levels_spans(const struct tide_run *run);
/* After the calls are filled in for all rows. */
void tide__levels_prepare(struct tide_run *run);
/* Rows that an operation, run once, leaves out become 0. */
int tide__levels_rest(struct tide_run *run, size_t n);
int tide__levels_run(struct tide_run *run, enum section section, uint64_t step, const struct tide_run_hooks *hooks);
void *tide__levels_list(const struct tide_run *run, size_t number);
size_t tide__levels_rows(const struct tide_run *run, const struct value *v);
/* Rows of an output in the order of samples and their vertices: of those kinds that have it. NULL:
 * there is none of the name. */
const void *tide__levels_output(struct tide_run *run, const char *name, size_t *rows, size_t *columns);

/* ---- away.c ---- */
int tide__away_open(struct tide_run *run);
void tide__away_close(struct tide_run *run);
size_t tide__away_input_bytes(const struct tide_run *run, size_t capacity);
int tide__away_send_inputs(struct tide_run *run, size_t rows);
/* The arrays of a batch of graphs, in one copy. */
int tide__away_send_lists(struct tide_run *run, char **out);
/* Before the layer's first reading, after its hook. */
int tide__away_need(struct tide_run *run, uint32_t layer);
/* The hooks `ready` and `factors` are called from `deliver`, in the order of these. */
int tide__away_ready(struct tide_run *run, uint32_t layer, const struct tide_run_hooks *hooks);
int tide__away_factors(struct tide_run *run, size_t node, const struct tide_run_hooks *hooks);
/* Calls what is due; wait: everything. */
int tide__away_deliver(struct tide_run *run, const struct tide_run_hooks *hooks, bool wait);
/* The end of a step that went as `code` says: the losses, and the device's own failures. */
int tide__away_finish(struct tide_run *run, int code);
/* The first loss in the middle of a step; waits for it. */
int tide__away_count(struct tide_run *run);
const void *tide__away_output(struct tide_run *run, const struct tide_operand *output);

#endif
