/*
 * Regions of micro-operations, interpreted tile by tile. A register is a pointer to the tile's
 * elements: of the operand itself where it lies dense (full sources, stored results), else of a
 * buffer. One call of a vector loop a micro-operation and tile, so dispatch costs little.
 */
#include "tensor/cpu/isa/approx.h"

enum { TILE = 512, REGISTERS = TIDE_REGION_REGISTERS };

typedef void (*micro_function)(size_t n, float *out, const float *a, const float *b, const float *c);

#define MICRO(name, expression)                                                                                        \
    static void name(size_t n, float *out, const float *a, const float *b, const float *c) {                           \
        (void)b, (void)c;                                                                                              \
        TIDE_INDEPENDENT                                                                                               \
        for (size_t i = 0; i < n; i++) {                                                                               \
            out[i] = (expression);                                                                                     \
        }                                                                                                              \
    }
MICRO(micro_neg, -a[i])
MICRO(micro_abs, fabsf(a[i]))
MICRO(micro_sqr, a[i] * a[i])
MICRO(micro_sqrt, sqrtf(a[i]))
MICRO(micro_rsqrt, 1.0f / sqrtf(a[i]))
MICRO(micro_recip, 1.0f / a[i])
MICRO(micro_exp, tide_exp(a[i]))
MICRO(micro_log, tide_log(a[i]))
MICRO(micro_log1p, tide_log1p(a[i]))
MICRO(micro_sigmoid, tide_sigmoid(a[i]))
MICRO(micro_tanh, tide_tanh(a[i]))
MICRO(micro_relu, a[i] < 0.0f ? 0.0f : a[i])
MICRO(micro_softplus, tide_softplus(a[i]))
MICRO(micro_sign, a[i] > 0.0f ? 1.0f : a[i] < 0.0f ? -1.0f : a[i])
MICRO(micro_erf, tide_erf(a[i]))
MICRO(micro_add, a[i] + b[i])
MICRO(micro_sub, a[i] - b[i])
MICRO(micro_mul, a[i] * b[i])
MICRO(micro_div, a[i] / b[i])
MICRO(micro_min, a[i] < b[i] || a[i] != a[i] ? a[i] : b[i])
MICRO(micro_max, a[i] > b[i] || a[i] != a[i] ? a[i] : b[i])
MICRO(micro_eq, a[i] == b[i] ? 1.0f : 0.0f)
MICRO(micro_gt, a[i] > b[i] ? 1.0f : 0.0f)
MICRO(micro_ge, a[i] >= b[i] ? 1.0f : 0.0f)
MICRO(micro_select, a[i] != 0.0f ? b[i] : c[i])

static const micro_function micros[TIDE_MICRO_COUNT] = {
    [TIDE_MICRO_NEG] = micro_neg,
    [TIDE_MICRO_ABS] = micro_abs,
    [TIDE_MICRO_SQR] = micro_sqr,
    [TIDE_MICRO_SQRT] = micro_sqrt,
    [TIDE_MICRO_RSQRT] = micro_rsqrt,
    [TIDE_MICRO_RECIP] = micro_recip,
    [TIDE_MICRO_EXP] = micro_exp,
    [TIDE_MICRO_LOG] = micro_log,
    [TIDE_MICRO_LOG1P] = micro_log1p,
    [TIDE_MICRO_SIGMOID] = micro_sigmoid,
    [TIDE_MICRO_TANH] = micro_tanh,
    [TIDE_MICRO_RELU] = micro_relu,
    [TIDE_MICRO_SOFTPLUS] = micro_softplus,
    [TIDE_MICRO_SIGN] = micro_sign,
    [TIDE_MICRO_ERF] = micro_erf,
    [TIDE_MICRO_ADD] = micro_add,
    [TIDE_MICRO_SUB] = micro_sub,
    [TIDE_MICRO_MUL] = micro_mul,
    [TIDE_MICRO_DIV] = micro_div,
    [TIDE_MICRO_MIN] = micro_min,
    [TIDE_MICRO_MAX] = micro_max,
    [TIDE_MICRO_EQ] = micro_eq,
    [TIDE_MICRO_GT] = micro_gt,
    [TIDE_MICRO_GE] = micro_ge,
    [TIDE_MICRO_SELECT] = micro_select,
};

void OP(exp_all)(size_t n, float *out, const float *in) {
    micro_exp(n, out, in, NULL, NULL);
}

/* One region at work. buffer[r] is where register r lives when it is no part of an operand. */
struct machine {
    const struct tide_op_call *call;
    const struct tide_region *region;
    size_t columns;
    bool flat; /* one long row */
    const float *source[TIDE_REGION_SOURCES];
    size_t stride[TIDE_REGION_SOURCES];
    float *stored[TIDE_REGION_MICROS]; /* output that micro i is, or NULL */
    size_t stored_stride[TIDE_REGION_MICROS];
    float buffer[REGISTERS][TILE] __attribute__((aligned(64)));
};

static void fill(float *out, size_t n, float value) {
    for (size_t i = 0; i < n; i++) {
        out[i] = value;
    }
}

static void repeat(float *out, const float *row, size_t rows, size_t columns) {
    for (size_t r = 0; r < rows; r++) {
        memcpy(out + r * columns, row, columns * sizeof(float));
    }
}

/* Rows of a wider array, to or from the rows of a tile. */
static void copy_rows(float *to, size_t stride_to, const float *from, size_t stride_from, size_t rows, size_t width) {
    for (size_t r = 0; r < rows; r++, to += stride_to, from += stride_from) {
        TIDE_INDEPENDENT
        for (size_t j = 0; j < width; j++) {
            to[j] = from[j];
        }
    }
}

/* A tile is either `rows` whole rows from `row` (column 0), or part of one row. */
static void run_tile(struct machine *m, size_t row, size_t rows, size_t column, size_t width) {
    const struct tide_region *region = m->region;
    const float *reg[REGISTERS];
    size_t n = rows * width;
    for (size_t s = 0; s < region->source_count; s++) {
        reg[s] = m->buffer[s]; /* constants and repeated rows were filled at the start */
        if (region->kind[s] == TIDE_SOURCE_FULL) {
            reg[s] = m->source[s] + row * m->stride[s] + column;
            if (rows > 1 && m->stride[s] != width) {
                copy_rows(m->buffer[s], width, reg[s], m->stride[s], rows, width);
                reg[s] = m->buffer[s];
            }
        } else if (region->kind[s] == TIDE_SOURCE_ROW && width < m->columns) {
            reg[s] = m->source[s] + column;
        } else if (region->kind[s] == TIDE_SOURCE_COLUMN) {
            for (size_t r = 0; r < rows; r++) {
                fill(m->buffer[s] + r * width, width, m->source[s][(row + r) * m->stride[s]]);
            }
        }
    }
    for (size_t i = 0; i < region->micro_count; i++) {
        const struct tide_micro *u = &region->micro[i];
        size_t r = region->source_count + i;
        float *place = m->stored[i] ? m->stored[i] + row * m->stored_stride[i] + column : NULL;
        bool whole = place && (rows == 1 || m->stored_stride[i] == width);
        float *out = whole ? place : m->buffer[r];
        micros[u->code](n, out, reg[u->a], reg[u->b], reg[u->c]);
        if (place && !whole) {
            copy_rows(place, m->stored_stride[i], out, width, rows, width);
        }
        reg[r] = out;
    }
}

static void prepare(struct machine *m, const struct tide_op_call *call, size_t rows_per_tile) {
    const struct tide_region *region = m->region;
    size_t next = 0;
    for (size_t s = 0; s < region->source_count; s++) {
        if (region->kind[s] == TIDE_SOURCE_CONSTANT) {
            fill(m->buffer[s], TILE, (float)region->constant[s]);
            continue;
        }
        m->source[s] = call->in[next].data;
        m->stride[s] = m->flat ? m->columns : tide_operand_stride(&call->in[next]);
        next++;
        if (region->kind[s] == TIDE_SOURCE_ROW && rows_per_tile > 0) {
            repeat(m->buffer[s], m->source[s], rows_per_tile, m->columns);
        }
    }
    for (size_t i = 0; i < TIDE_REGION_MICROS; i++) {
        m->stored[i] = NULL;
    }
    for (size_t o = 0; o < region->out_count; o++) {
        size_t i = (size_t)(region->out[o] - region->source_count);
        m->stored[i] = call->out[o].data;
        m->stored_stride[i] = m->flat ? m->columns : tide_operand_stride(&call->out[o]);
    }
}

/* All operands are dense and of one shape: rows do not matter. */
static bool is_flat(const struct tide_op_call *call) {
    const struct tide_region *region = &call->attributes->region;
    size_t next = 0;
    for (size_t s = 0; s < region->source_count; s++) {
        if (region->kind[s] == TIDE_SOURCE_CONSTANT) {
            continue;
        }
        const struct tide_operand *in = &call->in[next++];
        if (region->kind[s] != TIDE_SOURCE_FULL || tide_operand_stride(in) != in->columns) {
            return false;
        }
    }
    for (size_t o = 0; o < region->out_count; o++) {
        if (tide_operand_stride(&call->out[o]) != call->out[o].columns) {
            return false;
        }
    }
    return true;
}

int OP(map)(const struct tide_op_call *call) {
    struct machine m;
    m.call = call;
    m.region = &call->attributes->region;
    size_t rows = call->out[0].rows, columns = call->out[0].columns;
    if (rows == 0 || columns == 0) {
        return 0;
    }
    m.flat = is_flat(call);
    if (m.flat) {
        columns *= rows;
        rows = 1;
    }
    /* More registers, smaller tiles: what is live stays in the first cache. */
    size_t tile = m.region->micro_count > 12 ? TILE / 2 : TILE;
    m.columns = columns;
    size_t rows_per_tile = columns > tile ? 0 : tile / columns;
    prepare(&m, call, rows_per_tile);
    if (rows_per_tile > 0) {
        for (size_t r = 0; r < rows; r += rows_per_tile) {
            run_tile(&m, r, rows - r < rows_per_tile ? rows - r : rows_per_tile, 0, columns);
        }
        return 0;
    }
    for (size_t r = 0; r < rows; r++) {
        for (size_t j = 0; j < columns; j += tile) {
            run_tile(&m, r, 1, j, columns - j < tile ? columns - j : tile);
        }
    }
    return 0;
}
