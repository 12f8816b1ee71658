/* What the files of this room share: the list itself. */
#ifndef TIDE_GRAPH_H
#define TIDE_GRAPH_H

#include "base/base.h"
#include "graph/levels.h"
#include "graph/program.h"

#define NONE TIDE_NO_VALUE
enum { NAME_SIZE = 64, AT_SIZE = 160 };

enum value_class {
    CLASS_INPUT,
    CLASS_PARAMETER,
    CLASS_STATE,
    CLASS_TEMPORARY,
    CLASS_TABLE,   /* of vertex programs: the distinct rows that a batch reads */
    CLASS_CHILD,   /* what a child published: `alias` in another round of the loop */
    CLASS_CARRIED, /* what children made or parents kept: `alias` in another round of the loop */
    CLASS_LIST     /* numbers of rows, of the batch's graphs: `place` says which */
};

/* What a vertex program computes when (docs/guides/dynamic-networks.md): loops run level by level, UP and
 * CHILD in one, DOWN from the top; the others run once. In this order operations are listed. */
enum section {
    SECTION_BEFORE,  /* needs no child */
    SECTION_UP,      /* between children and what is published */
    SECTION_CHILD,   /* of what is published, once a vertex, for its parents */
    SECTION_AFTER,   /* does not reach what is published, and its gradients */
    SECTION_DOWN,    /* gradients of UP and CHILD */
    SECTION_DEFERRED /* feeds nothing in the loop: gradients of BEFORE and of parameters */
};

struct value {
    uint8_t class, type; /* enum value_class, enum tide_value_type */
    uint8_t space;       /* enum tide_space */
    uint8_t rank;
    uint8_t table; /* of space TABLE: its number */
    uint8_t kind;  /* of vertices of one kind alone: 1 + its number; 0: of all */
    uint32_t dims[TIDE_RANK_MAX];
    uint32_t producer;       /* operation; NONE: given from outside */
    uint32_t root;           /* whose storage this is: its own number, or what it is a view of */
    uint32_t alias;          /* CLASS_CHILD, CLASS_CARRIED: what they are once it is known; else NONE */
    uint32_t column, stride; /* a view of columns: the first, and the root's; stride 0: it is none */
    uint32_t layer;          /* parameters: the layer's number */
    uint32_t gradient;       /* parameters and inputs, once differentiated: the value; NONE: none */
    size_t place;            /* parameters, states: first element */
    struct tide_initial initial;
    char name[NAME_SIZE]; /* "": an unnamed temporary */
};

struct node { /* one operation */
    uint8_t code;
    uint8_t section; /* enum section; of other programs 0 */
    uint8_t kind;    /* as of values: the rows that it is run for */
    bool backward;
    bool joins;       /* RESHAPE: kinds' values, which lie in the rows of one */
    bool accumulates; /* MM: its last operand is added to in place, and is the result */
    uint8_t in_count, out_count;
    uint32_t in[TIDE_OP_INPUTS], out[TIDE_OP_OUTPUTS];
    uint32_t layer;
    uint32_t group; /* 1 + its number; 0: none */
    struct tide_attributes attributes;
    char at[AT_SIZE];
};

/* Operations that are differentiated as one, by what a script says. They follow each other. */
struct group {
    char name[NAME_SIZE];
    uint8_t in_count, out_count;
    uint32_t in[TIDE_OP_INPUTS], out[TIDE_OP_OUTPUTS];
    uint32_t last; /* operation */
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
    struct group *groups;
    size_t group_count, group_room;
    uint32_t group; /* of what is appended now: 1 + its number */
    size_t value_count, node_count, layer_count, output_count, parameter_count, state_count, loss_count;
    size_t value_room, node_room, layer_room, output_room, parameter_room, state_room, loss_room;
    size_t keys, state_elements;
    uint32_t layer;
    uint32_t dropouts;
    bool backward; /* what is appended now */
    bool differentiated;
    uint8_t section; /* of what is appended now */
    bool vertex, published;
    uint32_t *children; /* CLASS_CHILD values, in the order they were declared */
    uint32_t *tables;   /* CLASS_TABLE values */
    size_t child_count, child_room, table_count, table_room;
    char kinds[TIDE_FOREST_KINDS][TIDE_FOREST_NAME]; /* of vertices */
    size_t kind_count;
    uint32_t children_most;              /* of a vertex; 0: any */
    uint8_t kind;                        /* of what is appended now: 1 + its number; 0: of all */
    uint32_t (*made)[TIDE_FOREST_KINDS]; /* by state, what each kind publishes; NONE: not yet */
    size_t made_room;
};

/* ---- program.c ---- */
int tide__graph_grow(void *array, size_t *room, size_t count, size_t element);
int tide__graph_value(struct tide_program *p, struct value value, uint32_t *out);
int tide__graph_node(struct tide_program *p, const struct node *node);
/* EINVAL with the current place before the text. */
int tide__graph_wrong(struct tide_program *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
int tide__graph_copy(const struct tide_program *p, struct tide_program **out);

/* rows for B rows of the run, or of its space; columns: the last dim */
static inline size_t tide__graph_rows(const struct value *v, size_t batch) {
    size_t rows = v->space ? batch : 1;
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

/* ---- vertex.c: programs of vertices ---- */
/* Sets the section of every operation. EINVAL: nothing is published. */
int tide__vertex_sections(struct tide_program *p);
/* The list in the order of sections; what feeds nothing in the loop leaves it. */
int tide__vertex_order(struct tide_program *p);
/* A value that stands for `of`, whose number is not known yet. */
int tide__vertex_carried(struct tide_program *p, uint32_t like, uint32_t *out);
/* The same rows under another space: a child is a vertex. */
int tide__vertex_as(struct tide_program *p, uint32_t value, enum tide_space space, uint32_t *out);
int tide__vertex_list(struct tide_program *p, enum tide_list list, uint32_t nth, uint32_t *out);
/* Operands of one space: of vertices and children to edges, where they meet. */
int tide__vertex_meet(struct tide_program *p, uint32_t *in, size_t count);
/* Of a copy that is to be planned: children are vertices, and no value stands for another but where
 * rows of other levels are read. */
void tide__vertex_flatten(struct tide_program *p);
/* Values that stand for others lie where these do. After the last pass. */
void tide__vertex_aliases(struct tide_program *p);
/* Whether operand i is read at rows that others name: it is never cut to a level's. */
bool tide__vertex_reads_any(const struct node *node, size_t i);

/* ---- kinds.c: several functions of vertices in one program ---- */
/* What the kind now being made publishes as state i: rows of its own, which then are the state's. */
int tide__vertex_publish(struct tide_program *p, size_t i, uint32_t value);
/* What kinds publish becomes one value a state. EINVAL: a kind does not. */
int tide__vertex_join(struct tide_program *p);
/* The kind of an operation, and of what it makes, from its operands. EINVAL: they are of two. */
int tide__vertex_kind(struct tide_program *p, struct node *node, struct value *outs);

/* ---- passes.c: list -> list ---- */
int tide__graph_evaluation(struct tide_program *p); /* forward alone, as it is evaluated */
void tide__graph_clean(struct tide_program *p);     /* removes unused operations */
void tide__graph_fuse(struct tide_program *p);
void tide__graph_compact(struct tide_program *p); /* operations without outputs go */
/* Marks the values that are read outside of the list, or by another round of a loop. */
void tide__graph_wanted(const struct tide_program *p, bool *wanted);

/* ---- columns.c ---- */
/* Sums of two products are added by the second; slices become views where their readers allow. */
void tide__graph_accumulate(struct tide_program *p);
void tide__graph_views(struct tide_program *p);

/* ---- print.c ---- */
struct text {
    char *data;
    size_t size, room;
    int error;
};
void tide__text_add(struct text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
int tide__text_give(struct text *t, char **out);
/* What a script calls an operation. */
const char *tide__graph_written(const struct tide_program *p, const struct node *node);
void tide__graph_print_node(const struct tide_program *p, const struct node *node, struct text *t);

#endif
