/* What the files of this room share: the list itself. */
#ifndef TIDE_GRAPH_H
#define TIDE_GRAPH_H

#include "base/base.h"
#include "graph/program.h"

#define NONE TIDE_NO_VALUE
enum { NAME_SIZE = 64, AT_SIZE = 160 };

enum value_class { CLASS_INPUT, CLASS_PARAMETER, CLASS_STATE, CLASS_TEMPORARY };

struct value {
    uint8_t class, type; /* enum value_class, enum tide_value_type */
    bool batched;
    uint8_t rank;
    uint32_t dims[TIDE_RANK_MAX];
    uint32_t producer; /* operation; NONE: given from outside */
    uint32_t root;     /* whose storage this is: its own number, or what it is a view of */
    uint32_t layer;    /* parameters: the layer's number */
    uint32_t gradient; /* parameters and inputs, once differentiated: the value; NONE: none */
    size_t place;      /* parameters, states: first element */
    struct tide_initial initial;
    char name[NAME_SIZE]; /* "": a temporary that nobody named */
};

struct node { /* one operation */
    uint8_t code;
    bool backward;
    uint8_t in_count, out_count;
    uint32_t in[TIDE_OP_INPUTS], out[TIDE_OP_OUTPUTS];
    uint32_t layer;
    struct tide_attributes attributes;
    char at[AT_SIZE];
};

struct layer {
    char name[NAME_SIZE], kind[NAME_SIZE];
    size_t first_key, key_count; /* of its parameters */
    uint32_t index;              /* among layers with parameters */
};

struct output {
    char name[NAME_SIZE];
    uint32_t value;
};

/* Invariants: values are assigned once; an operation's inputs come before it. Layer 0 is that of
 * what belongs to none. */
struct tide_program {
    char name[NAME_SIZE], at[AT_SIZE];
    struct value *values;
    struct node *nodes;
    struct layer *layers;
    struct output *outputs;
    uint32_t *parameters, *states; /* values, in the order they were declared */
    uint32_t *losses;              /* operations */
    size_t value_count, node_count, layer_count, output_count, parameter_count, state_count,
        loss_count;
    size_t value_room, node_room, layer_room, output_room, parameter_room, state_room, loss_room;
    size_t keys, state_elements;
    uint32_t layer;
    uint32_t dropouts;
    bool backward; /* what is appended now */
    bool differentiated;
};

/* ---- program.c ---- */
int tide__graph_grow(void *array, size_t *room, size_t count, size_t element);
int tide__graph_value(struct tide_program *p, struct value value, uint32_t *out);
int tide__graph_node(struct tide_program *p, const struct node *node);
/* EINVAL with the current place before the text. */
int tide__graph_wrong(struct tide_program *p, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
int tide__graph_copy(const struct tide_program *p, struct tide_program **out);

/* rows for B rows of the run; columns: the last dim */
static inline size_t tide__graph_rows(const struct value *v, size_t batch) {
    size_t rows = v->batched ? batch : 1;
    for (size_t i = 0; i + 1 < v->rank; i++) {
        rows *= v->dims[i];
    }
    return rows;
}
static inline size_t tide__graph_columns(const struct value *v) {
    return v->rank ? v->dims[v->rank - 1] : 1;
}
static inline size_t tide__graph_element(const struct value *v, size_t float_size) {
    return v->type == TIDE_VALUE_FLOAT   ? float_size
           : v->type == TIDE_VALUE_INDEX ? sizeof(int32_t)
           : v->type == TIDE_VALUE_LOSS  ? sizeof(double)
                                         : 1;
}

/* ---- shapes.c: checks the operands, derives attributes, describes the outputs ---- */
int tide__graph_infer(struct tide_program *p, struct node *node, struct value *outs);

/* ---- passes.c: list -> list ---- */
int tide__graph_evaluation(struct tide_program *p); /* forward alone, as it is evaluated */
void tide__graph_clean(struct tide_program *p);     /* operations that nobody needs go */
void tide__graph_fuse(struct tide_program *p);

/* ---- print.c ---- */
struct text {
    char *data;
    size_t size, room;
    int error;
};
void tide__text_add(struct text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
int tide__text_give(struct text *t, char **out);
void tide__graph_print_node(const struct tide_program *p, const struct node *node, struct text *t);

#endif
