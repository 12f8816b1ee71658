/*
 * Tensor operations: one code, one function a device, one calling convention. A program
 * (graph/program.h) is a list of them; the conformance tests and the benchmarks call them directly.
 *
 * Values are dense and row-major, rows x columns with the channel last; images are NHWC, so a value
 * of dims [B, h, w, c] has B h w rows of c columns. What one element is, is the device's affair:
 * float on "cpu", double on "reference". Labels are i32, arg-maxima u8, losses f64 on every device.
 *
 * An operation never allocates, never waits and accepts 0 rows. The same call gives the same bits.
 */
#ifndef TIDE_OPERATION_H
#define TIDE_OPERATION_H

#include "memory.h"

enum tide_op_code { /* operands and outputs of each: operations.def */
#define TIDE_OPERATION(code, ...) TIDE_OP_##code,
#include "operations.def"
#undef TIDE_OPERATION
                    TIDE_OP_RESHAPE, /* the same storage under other dims; no kernel */
                    TIDE_OP_COUNT
};

enum { TIDE_OP_IS_LOSS = 1, TIDE_OP_MORE = 2 };
struct tide_op_traits {
    uint8_t in, out;
    uint16_t integers; /* a bit an operand */
    uint8_t flags;
};
extern const struct tide_op_traits tide_op_traits[TIDE_OP_COUNT];
static inline bool tide_op_is_loss(unsigned code) {
    return (tide_op_traits[code].flags & TIDE_OP_IS_LOSS) != 0;
}

/* ---- regions: elementwise programs, run tile by tile ---- */
enum tide_micro_code {
    TIDE_MICRO_NEG,
    TIDE_MICRO_ABS,
    TIDE_MICRO_SQR,
    TIDE_MICRO_SQRT,
    TIDE_MICRO_RSQRT,
    TIDE_MICRO_RECIP,
    TIDE_MICRO_EXP,
    TIDE_MICRO_LOG,
    TIDE_MICRO_LOG1P,
    TIDE_MICRO_SIGMOID,
    TIDE_MICRO_TANH,
    TIDE_MICRO_RELU,
    TIDE_MICRO_SOFTPLUS,
    TIDE_MICRO_SIGN,
    TIDE_MICRO_ERF,
    TIDE_MICRO_ADD, /* from here on two operands */
    TIDE_MICRO_SUB,
    TIDE_MICRO_MUL,
    TIDE_MICRO_DIV,
    TIDE_MICRO_MIN,
    TIDE_MICRO_MAX,
    TIDE_MICRO_EQ, /* 1 or 0 */
    TIDE_MICRO_GT,
    TIDE_MICRO_GE,
    TIDE_MICRO_SELECT, /* three: a != 0 ? b : c */
    TIDE_MICRO_COUNT
};
extern const char *const tide_micro_names[TIDE_MICRO_COUNT + 1]; /* NULL ends it */
static inline unsigned tide_micro_arity(unsigned code) {
    return code < TIDE_MICRO_ADD ? 1 : code < TIDE_MICRO_SELECT ? 2 : 3;
}

enum tide_source_kind {
    TIDE_SOURCE_FULL,    /* [n, c] */
    TIDE_SOURCE_ROW,     /* [c]: the same for every row */
    TIDE_SOURCE_COLUMN,  /* [n, 1]: one number a row */
    TIDE_SOURCE_CONSTANT /* no operand */
};
enum { TIDE_REGION_SOURCES = 12, TIDE_REGION_MICROS = 24, TIDE_REGION_OUTS = 8 };

enum { TIDE_REGION_REGISTERS = TIDE_REGION_SOURCES + TIDE_REGION_MICROS };

/* Registers: the sources, then the result of every micro-operation. Operands come before their use.
 * The non-constant sources are the call's inputs in their order; out[i] is the register stored in
 * the call's i-th output. An output may be the storage of a FULL source. */
struct tide_region {
    uint8_t source_count, micro_count, out_count;
    uint8_t kind[TIDE_REGION_SOURCES];
    double constant[TIDE_REGION_SOURCES];
    struct tide_micro {
        uint8_t code, a, b, c;
    } micro[TIDE_REGION_MICROS];
    uint8_t out[TIDE_REGION_OUTS];
};

struct tide_window { /* of convolutions and pools; the sizes are derived from the operands' dims */
    uint32_t kh, kw, stride, pad;
    uint32_t h, w, c, oh, ow, o;
};

struct tide_own_operation; /* tide/kernel.h */

struct tide_attributes {
    bool ta, tb;
    uint32_t first, count; /* slices; count is also the columns of what a SLICE_DX gives */
    uint32_t group;        /* mean_pixels: rows that are averaged */
    uint32_t n, k, m;      /* bmm: of one product, as stored before ta and tb; embed: operations.def */
    uint32_t id;           /* dropout: which one of its program */
    uint32_t heads, kv_heads;
    bool causal;      /* attention */
    double alpha;     /* mm; 0 counts as 1 */
    double eps, rate; /* batch norm: of the running statistics; eps also of layer norm */
    double keep;      /* dropout */
    double smoothing; /* xent */
    struct tide_window window;
    struct tide_region region;
    const struct tide_own_operation *own;
    double own_numbers[8];
};

struct tide_operand {
    void *data;
    size_t rows, columns;
    /* Elements from a row to the next; 0: `columns`. Others are understood by MAP, MM, ATTENTION and the
     * GATHERs alone. */
    size_t stride;
};
static inline size_t tide_operand_stride(const struct tide_operand *o) {
    return o->stride ? o->stride : o->columns;
}
enum { TIDE_OP_INPUTS = TIDE_REGION_SOURCES, TIDE_OP_OUTPUTS = TIDE_REGION_OUTS };

/* Rows by index (EMBED): groups of n rows of w elements, each read by m of the ids. */
struct tide_op_groups {
    size_t count, n, m, w;
};
struct tide_op_call {
    const struct tide_attributes *attributes;
    struct tide_operand in[TIDE_OP_INPUTS], out[TIDE_OP_OUTPUTS];
    void *scratch;       /* tide_device.scratch bytes, 64-byte aligned */
    uint64_t seed, step; /* of dropout masks */
    size_t row;          /* of the run that out[0] begins with: DROPOUT, GATHER_MAX_DX */
    bool accumulate;     /* MM, CONV_DW, EMBED_DW, COLUMN_SUMS: out[0] is added to */
    void *queue;         /* of a device with memory of its own; else NULL */
};
/* x: the operand whose rows the ids number. */
static inline struct tide_op_groups tide_op_groups(const struct tide_op_call *call, const struct tide_operand *x) {
    const size_t ids = call->in[1].rows * call->in[1].columns, all = x->rows * x->columns;
    const size_t w = call->attributes->k ? call->attributes->k : x->columns, rows = w ? all / w : 0;
    const size_t n = call->attributes->n ? call->attributes->n : rows, count = call->attributes->n ? rows / n : 1;
    const struct tide_op_groups groups = {count, n, count ? ids / count : 0, w};
    return groups;
}
/* What a call takes: arithmetic operations, and bytes of operands read and written, each once. */
struct tide_work {
    double flops, bytes;
};
/* Every operand counts as if it were of `element` bytes. */
struct tide_work tide_op_work(enum tide_op_code code, const struct tide_op_call *call, size_t element);
/* 0; EINVAL: a label or id outside its range, with the row in the error slot. A device with memory
 * of its own returns when the work is queued, and its queue's finish returns such errors. */
typedef int (*tide_op_function)(const struct tide_op_call *call);

/* ---- update rules, over flat arrays ---- */
enum tide_rule {
    TIDE_RULE_SGD,
    TIDE_RULE_MOMENTUM,
    TIDE_RULE_NESTEROV,
    TIDE_RULE_ADAGRAD,
    TIDE_RULE_RMSPROP,
    TIDE_RULE_ADAM,
    TIDE_RULE_ADAMW,
    TIDE_RULE_COUNT
};
/* g' = scale g + decay w (adamw: decay apart), then
 *   sgd       w -= rate g'
 *   momentum  a = mu a + g'; w -= rate a            (Polyak 1964)
 *   nesterov  a = mu a + g'; w -= rate (g' + mu a)  (Sutskever et al. 2013, in PyTorch's form)
 *   adagrad   a += g'^2; w -= rate g' / (sqrt(a) + eps)              (Duchi, Hazan, Singer 2011)
 *   rmsprop   a = mu a + (1 - mu) g'^2; w -= rate g' / (sqrt(a) + eps)   (Tieleman, Hinton 2012)
 *   adam(w)   Kingma, Ba 2015, algorithm 1; Loshchilov, Hutter 2019; a = m, b = v */
struct tide_step {
    enum tide_rule rule;
    double rate, scale, decay, mu, beta2, eps;
    uint64_t step; /* adam: this is the step-th update, from 1 */
};
unsigned tide_rule_states(enum tide_rule rule); /* arrays of state it keeps: 0, 1 or 2 */
struct tide_work tide_update_work(enum tide_rule rule, size_t count, size_t element);

struct tide_device {
    const char *name;
    size_t element;                    /* bytes */
    const tide_op_function *functions; /* by code; NULL for RESHAPE */
    size_t (*scratch)(enum tide_op_code code, const struct tide_op_call *call);
    void (*update)(const struct tide_step *u, size_t n, void *w, const void *g, void *a, void *b);
    double (*norm2)(size_t n, const void *x); /* sum of squares; not finite if an element is not */
    const struct tide_memory *memory;         /* NULL: operands lie in the host's (memory.h) */
    const struct tide_numeric *numeric;       /* NULL: as the CPU does it (numeric.h) */
};

/* "cpu" is the widest of "cpu-plain", "cpu-avx2" and "cpu-avx512" that this machine runs;
 * "reference" is plain loops in float64; "cuda" is a GPU, by the module tide_cuda.so. NULL: unknown
 * or not on this machine, with the reason in the error slot. */
const struct tide_device *tide_device_find(const char *name);
extern const char *const tide_op_names[TIDE_OP_COUNT + 1]; /* NULL ends it */

#endif
