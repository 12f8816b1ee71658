/*
 * A program: a static list of tensor operations, built once, differentiated once, planned once, run
 * for any number of rows.
 *
 *   build         tide_program_create, _place, _input, _parameter, _apply, _map, _output
 *   differentiate tide_program_differentiate: appends the backward operations to the same list
 *   plan          tide_plan_create: fuses, gives every value its place; nothing is allocated later
 *   run           tide_run_create, _bind, _step
 *
 * Values are numbered from 0 and assigned once. A value is batched (its first dim is B, the rows of
 * a run, and is not stored in dims) or of constant size. All functions return 0 or a negative
 * TIDE_E... code with the reason in the error slot; EINVAL is a mistake of the program's author,
 * and its text names layer, shapes and place. A program belongs to one thread; a plan is not
 * written to after its making, so several runs, each on its thread, may share it.
 */
#ifndef TIDE_PROGRAM_H
#define TIDE_PROGRAM_H

#include "operation.h"

struct tide_forest; /* forest.h */

#define TIDE_NO_VALUE UINT32_MAX
enum { TIDE_RANK_MAX = 4, TIDE_PARAMETER_KEY = 1024 };

enum tide_value_type { TIDE_VALUE_FLOAT, TIDE_VALUE_INDEX, TIDE_VALUE_BYTE, TIDE_VALUE_LOSS };

/* What the rows of a value are, given at run time. Of programs of vertices: what was published is of
 * a CHILD, seen from its parents, and an EDGE lies between the two; rows of a TABLE are those that
 * the batch reads. */
enum tide_space {
    TIDE_SPACE_CONSTANT, /* no such rows */
    TIDE_SPACE_VERTEX,   /* of plain programs: examples */
    TIDE_SPACE_CHILD,
    TIDE_SPACE_EDGE,
    TIDE_SPACE_TABLE
};

/* Initial values: pure functions of seed, parameter name and index. */
struct tide_initial {
    enum { TIDE_INITIAL_CONSTANT, TIDE_INITIAL_UNIFORM, TIDE_INITIAL_NORMAL } kind;
    double value; /* the constant, the bound of a symmetric interval, the standard deviation */
};

struct tide_program;
struct tide_plan;
struct tide_run;

int tide_program_create(const char *name, struct tide_program **out); /* gives */
void tide_program_destroy(struct tide_program *p);
/* What follows belongs to this layer, and was written at `at` ("file:line"); kind is its sort
 * ("linear"), both appear in errors. A layer of a known name is continued. */
int tide_program_place(struct tide_program *p, const char *kind, const char *layer, const char *at);

int tide_program_input(struct tide_program *p, const char *name, enum tide_value_type type, size_t rank,
                       const uint32_t *dims, uint32_t *out);
int tide_program_parameter(struct tide_program *p, const char *name, size_t rank, const uint32_t *dims,
                           struct tide_initial initial, uint32_t *out);
/* Like a parameter, but changed by operations and never by gradients (running statistics). */
int tide_program_state(struct tide_program *p, const char *name, size_t rank, const uint32_t *dims,
                       struct tide_initial initial, uint32_t *out);
/* Any operation but MAP. Of the window, kh, kw, stride and pad are read; of BMM ta and tb; RESHAPE
 * takes the new dims (without B) from shape. *out: the first output. Losses become the program's.
 */
int tide_program_apply(struct tide_program *p, enum tide_op_code code, const uint32_t *in, size_t in_count,
                       const struct tide_attributes *attributes, uint32_t *out);
int tide_program_reshape(struct tide_program *p, uint32_t in, size_t rank, const uint32_t *dims, uint32_t *out);
/* One micro-operation. in[i] = TIDE_NO_VALUE: the number constants[i]. Operands are of one shape,
 * or a vector of the last dim, or of last dim 1 and else the same. */
int tide_program_map(struct tide_program *p, enum tide_micro_code code, const uint32_t *in, const double *constants,
                     uint32_t *out);
int tide_program_output(struct tide_program *p, const char *name, uint32_t value);
/* What is appended until `_close` is one operation to differentiation, of these operands: `derive` of
 * tide_program_differentiate makes its gradients. Groups do not nest. */
int tide_program_open(struct tide_program *p, const char *name, const uint32_t *in, size_t in_count);
int tide_program_close(struct tide_program *p, const uint32_t *out, size_t out_count);
/* Appends what makes the gradients of a group's operands, given those of its outputs; TIDE_NO_VALUE: none. */
struct tide_derive {
    int (*group)(void *arg, uint32_t number, const uint32_t *g, uint32_t *by);
    void *arg;
};
/* Gradients of all parameters, and of float inputs if asked. Once, after the last loss; EINVAL
 * without a loss or where an operation has no derivative. */
int tide_program_differentiate(struct tide_program *p, bool of_inputs);
int tide_program_derive(struct tide_program *p, bool of_inputs, const struct tide_derive *derive);

/* ---- programs of vertices (Cavs, arXiv 1712.04048) ----
 * One function of a vertex; a batch is a forest of samples (forest.h). `_vertex` comes first. What
 * is computed runs once a vertex, once a child (values made of states) or once an edge (where they
 * meet). */
int tide_program_vertex(struct tide_program *p);
/* No vertex has more than `most` children: a batch that has one is refused. Before the plan; 0: any number. */
void tide_program_children(struct tide_program *p, uint32_t most);
/* What follows is of vertices of this kind alone: a function of its own, with the same states and
 * with parameters that kinds may share. Before the first operation. Every kind publishes every state. */
int tide_program_kind(struct tide_program *p, const char *name);
size_t tide_program_kind_count(const struct tide_program *p);
const char *tide_program_kind_at(const struct tide_program *p, size_t index);
/* Whether vertices of this kind have a loss; *label: the index that says which count in the first, or
 * NULL: all. */
bool tide_program_kind_counts(const struct tide_program *p, size_t index, const char **label);
/* What children publish under this name: a value of CHILD. */
int tide_program_child_state(struct tide_program *p, const char *name, uint32_t columns, uint32_t *out);
/* Once (once a kind): values of VERTEX, of the states' widths, by name. */
int tide_program_publish(struct tide_program *p, const char *name, uint32_t value);
/* rows x columns that lie outside of the parameters' layout; EMBED reads it. */
int tide_program_table(struct tide_program *p, const char *name, uint32_t rows, uint32_t columns,
                       struct tide_initial initial, uint32_t *out);
int tide_program_edge_input(struct tide_program *p, const char *name, enum tide_value_type type, size_t rank,
                            const uint32_t *dims, uint32_t *out);
enum tide_over { TIDE_OVER_SUM, TIDE_OVER_MAX };
/* Over all children (of a vertex without: 0) of a CHILD or EDGE value: of VERTEX. */
int tide_program_over(struct tide_program *p, enum tide_over over, uint32_t value, uint32_t *out);
/* Of the nth child, from 0; where there is none, 0. */
int tide_program_nth(struct tide_program *p, uint32_t nth, uint32_t value, uint32_t *out);
struct tide_table_place {
    const char *name;
    uint32_t rows, columns;
    struct tide_initial initial;
};
/* The index that says which rows count in the first loss; NULL: all. */
const char *tide_program_label(const struct tide_program *p);
size_t tide_program_table_count(const struct tide_program *p);
struct tide_table_place tide_program_table_at(const struct tide_program *p, size_t index);
/* Rows first .. first + count - 1 as they begin: pure functions of seed, name and place. */
void tide_program_table_rows(const struct tide_program *p, size_t index, uint64_t seed, size_t element, size_t first,
                             size_t count, void *rows);

/* "[B x 28 x 28 x 1]" */
void tide_program_shape(const struct tide_program *p, uint32_t value, char *text, size_t capacity);
struct tide_shape {
    enum tide_value_type type;
    enum tide_space space;
    uint8_t rank; /* without B */
    uint32_t dims[TIDE_RANK_MAX];
};
int tide_program_dims(const struct tide_program *p, uint32_t value, struct tide_shape *out); /* ENOENT */
bool tide_program_value(const struct tide_program *p, const char *name, uint32_t *out);
size_t tide_program_values(const struct tide_program *p);
/* One operation a line; dot: Graphviz. *gives* heap text (tide_free). */
int tide_program_print(const struct tide_program *p, char **out);
int tide_program_dot(const struct tide_program *p, char **out);
/* Hash of everything that decides what is computed; the same on all machines. */
uint64_t tide_program_id(const struct tide_program *p);

/* ---- parameters: one flat array ----
 * Layer after layer, each at a multiple of TIDE_PARAMETER_KEY elements, so that a layer is a range
 * of rows of a table of that width; in it matrices, then vectors. Gradients and the state of update
 * rules have the same layout. */
struct tide_parameter_place {
    const char *name;
    uint32_t layer;
    size_t first, count; /* elements */
    size_t rows, columns;
};
struct tide_layer_place {
    const char *name;
    size_t first_key, key_count;
};
size_t tide_program_parameter_keys(const struct tide_program *p);
size_t tide_program_parameter_count(const struct tide_program *p);
struct tide_parameter_place tide_program_parameter_at(const struct tide_program *p, size_t index);
size_t tide_program_layer_count(const struct tide_program *p); /* that have parameters */
struct tide_layer_place tide_program_layer_at(const struct tide_program *p, size_t index);
size_t tide_program_state_elements(const struct tide_program *p);
/* Writes all parameters (states): float or, for the reference device, double. */
void tide_program_initialise(const struct tide_program *p, uint64_t seed, size_t element, void *parameters,
                             void *states);

/* ---- plans ---- */
enum tide_plan_kind {
    TIDE_PLAN_TRAIN,   /* forward and backward */
    TIDE_PLAN_EVALUATE /* forward alone: no dropout, running statistics */
};
struct tide_plan_options {
    enum tide_plan_kind kind;
    bool no_fusion, no_reuse; /* each operation and each value on its own: the oracle of tests */
};
/* The plan keeps a reference to nothing: it copies what it needs. *gives* */
int tide_plan_create(const struct tide_program *p, const struct tide_device *device,
                     const struct tide_plan_options *options, struct tide_plan **out);
void tide_plan_destroy(struct tide_plan *plan);
struct tide_plan_figures {
    size_t operations, regions, row_bytes, fixed_bytes; /* arena = row_bytes B + fixed_bytes */
    size_t row_bytes_without_reuse;
    /* Of programs of vertices: B is that of vertices; beside it, bytes an edge, a vertex of the
     * largest level, a distinct row of tables. */
    size_t edge_bytes, level_bytes, table_bytes;
};
struct tide_plan_figures tide_plan_figures(const struct tide_plan *plan);
bool tide_plan_training(const struct tide_plan *plan);
/* The list as it is executed, with places and events. *gives* */
int tide_plan_explain(const struct tide_plan *plan, char **out);

/* ---- runs ---- */
struct tide_run_value {
    const char *operation, *name, *layer, *at; /* operation: "input" and "parameter" are given; name: theirs */
    bool backward, loss;                       /* loss: data is {sum, count, correct}, double */
    size_t output;                             /* which of the operation */
    struct tide_operand data;                  /* rows of columns, `stride` elements apart */
};

/* Called between operations; a non-zero code ends the step with it. layer: as in layer_at. On a device
 * with memory of its own `ready` and `factors` come when it has got so far, in the same order. */
struct tide_run_hooks {
    void *arg;
    /* The next operation is the first to read the layer's parameters. */
    int (*need)(void *arg, uint32_t layer);
    /* The layer's gradients are complete; they stay until the next step. */
    int (*ready)(void *arg, uint32_t layer);
    /* In place of the product that would make a parameter's gradient, where tide_run_offer_factors
     * asked for it: the gradient is a^T b; a is [K x rows], b [K x columns], both on the host.
     * Borrowed until it returns. */
    int (*factors)(void *arg, size_t parameter, const struct tide_operand *a, const struct tide_operand *b);
    /* A module's operation begins; NULL: it is over. For what a crash says. */
    void (*enter)(void *arg, const char *operation);
    /* An operation was run that takes so much. Factors that were offered take nothing. */
    int (*work)(void *arg, struct tide_work work);
    /* An operation was run that made this value: on devices in the host's memory, and of programs of
     * vertices outside of their loops. Borrowed until it returns. */
    int (*made)(void *arg, const struct tide_run_value *value);
};
int tide_run_create(struct tide_plan *plan, uint64_t seed, struct tide_run **out);
void tide_run_destroy(struct tide_run *run);
/* Shares: arrays of the program's parameter layout in the device's memory, which stay the caller's.
 * Gradients may be NULL in an evaluation. */
void tide_run_bind_parameters(struct tide_run *run, void *parameters, void *gradients, void *states);
/* Of a device with memory of its own (of others: nothing): the same arrays on the host. After the
 * hook `need`, a layer's parameters are copied from `parameters`; its gradients are copied to
 * `gradients` before the hook `ready`, while lower layers are computed. Shares; they are pinned until
 * the next call or the run's end. NULL: not copied, the device's are what counts (as at first). */
void tide_run_stage(struct tide_run *run, const void *parameters, void *gradients);
/* Shares: the rows of an input for the next steps. EINVAL: no such input. */
int tide_run_bind(struct tide_run *run, const char *input, const void *data);
/* Instead of a gradient array and an update pass: plain gradient descent inside the product that
 * makes the gradient, w -= rate / count * a^T b. Layers this is not possible for stay as they are;
 * tide_run_folded reports it for a parameter. rate 0: off. */
void tide_run_fold(struct tide_run *run, double rate);
/* The most bytes that values of a step may take (what is bound, tables and scratch lie beside them); 0:
 * as many as it needs. A step that needs more fails: ELIMIT. */
void tide_run_limit(struct tide_run *run, size_t bytes);
/* What folded updates are divided by, in place of the loss's count; 0: that. */
void tide_run_divide(struct tide_run *run, double by);
/* From now on the parameter's gradient is not computed but offered as factors, to hooks->factors.
 * EUNSUPPORTED: it is not made by one product, or is folded. */
int tide_run_offer_factors(struct tide_run *run, size_t parameter, bool on);
/* Rows of a parameter's factors: those of the last batch, before the first those of one row. 0: it has no factors. */
size_t tide_run_factor_rows(const struct tide_run *run, size_t parameter);
bool tide_run_folded(const struct tide_run *run, size_t parameter);
/* Runs the list for `rows` rows; `step` numbers the dropout masks. EINVAL (an input is not bound, a
 * label is outside its range), ENOMEM, or a hook's code. */
int tide_run_step(struct tide_run *run, size_t rows, uint64_t step, const struct tide_run_hooks *hooks);
/* Of a program of vertices, in place of bindings: samples of a forest, whose numbers are
 * order[first ..] (NULL: first ..). `serial`: a vertex a level, for debugging. EINVAL: the forest lacks
 * an input, or it is of another width. What is planned is the run's; nothing is allocated for a
 * size seen before. */
int tide_run_bind_forest(struct tide_run *run, const struct tide_forest *forest, const uint32_t *order, size_t first,
                         size_t count, bool serial);
/* *out: how many of these samples, which were bound last, fit from the first on; `count`: all. ELIMIT:
 * not even the first. */
int tide_run_cut(struct tide_run *run, const struct tide_forest *forest, const uint32_t *order, size_t first,
                 size_t count, bool serial, size_t *out);
/* Some of the samples that were bound whole before; tables stay as they are bound. */
int tide_run_bind_piece(struct tide_run *run, const struct tide_forest *forest, const uint32_t *order, size_t first,
                        size_t count, bool serial);
struct tide_run_batch {
    size_t samples, vertices, edges, levels;
};
struct tide_run_batch tide_run_batch(const struct tide_run *run);
/* The table's rows that the batch reads: their numbers, `*count` of them, each once. */
const uint64_t *tide_run_table_ids(const struct tide_run *run, size_t table, size_t *count);
/* Shares, in the device's memory: those rows in that order, and where their gradients go (may be
 * NULL in an evaluation). */
void tide_run_bind_table(struct tide_run *run, size_t table, const void *rows, void *gradients);
/* ---- graphs that grow while they are computed ----
 * Of a run whose plan does not reuse memory (no_reuse), on a device in the host's memory. Vertices are
 * added when what was computed says which: a step computes all that can be computed. Tables are bound
 * whole; their gradients are those of table_ids after `_backward`. */
int tide_run_grow(struct tide_run *run, size_t vertices); /* to begin with: it doubles */
/* One vertex, with children that were added before; values by name of the inputs (i32 or f32, as many
 * as columns; NULL: -1 or 0). *id: from 0. EINVAL: an unknown child or input. */
struct tide_grow_input {
    const char *name;
    const void *values;
};
int tide_run_grow_add(struct tide_run *run, const uint32_t *children, size_t child_count,
                      const struct tide_grow_input *inputs, size_t input_count, uint32_t *id);
/* Another value of an index of a vertex: a label that is known later. */
int tide_run_grow_label(struct tide_run *run, uint32_t id, const char *name, int32_t label);
/* Computes all vertices that were added. *rows: how many, whose ids are (*ids)[0 ..]; then outputs
 * are read by tide_run_grow_output, a row each. */
int tide_run_grow_step(struct tide_run *run, uint64_t step, const uint32_t **ids, size_t *rows);
const void *tide_run_grow_output(struct tide_run *run, const char *name, uint32_t id, size_t *columns);
/* Losses and all gradients; then the run is free again. */
int tide_run_grow_finish(struct tide_run *run, uint64_t step);
void tide_run_grow_cancel(struct tide_run *run);

struct tide_run_loss {
    double sum, count, correct; /* count: of the first loss, of each kind */
};
struct tide_run_loss tide_run_loss(const struct tide_run *run); /* of the last step */
/* Calls `made` for the float inputs that are bound and for the parameters. */
int tide_run_given(const struct tide_run *run, const struct tide_run_hooks *hooks);
/* Rows of an output (of kinds: of the vertices of those that give it), or of the gradient of an input ("d:NAME"), of
 * the last step; borrowed until the next. NULL: unknown. */
const void *tide_run_output(struct tide_run *run, const char *name, size_t *rows, size_t *columns);
size_t tide_run_arena_bytes(const struct tide_run *run);

#endif
