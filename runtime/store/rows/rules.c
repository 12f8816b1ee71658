/*
 * Update rules, applied where the row lives, under its lock.
 *   add      w += d                                assign  w = d                     sgd  w -= lr d
 *   adagrad  s += d d; w -= lr d / (sqrt(s) + e)   (Duchi, Hazan, Singer 2011; s starts at sum_init)
 *   adam     m = b1 m + (1 - b1) d; v = b2 v + (1 - b2) d d; w -= lr mh / (sqrt(vh) + e)
 *            (Kingma, Ba 2015, algorithm 1; mh, vh divided by 1 - b^t)
 *   momentum v = b1 v + d; w -= lr v               (Polyak 1964)
 *   nesterov v = b1 v + d; w -= lr (d + b1 v)      (Sutskever et al. 2013, formula 7 from the point ahead)
 * State behind the values: adagrad s; momentum and nesterov v; adam m, v and the number of steps as a
 * float (it stops at 2^24, where the correction has long been 1). Deltas come from callers and from messages at any
 * alignment, hence the vectors with alignment 1. Adagrad and adam wait for square roots and
 * divisions, so there are two instances of each, one for processors that take eight at a time; no
 * instance fuses multiply and add, so their results are the same bits.
 */
#include "store/operation/access.h"
#include "store/rows/forget.h"
#include "store/rows/rules.h"

#include <math.h>

#define BODY static inline __attribute__((always_inline))
#if defined(__x86_64__)
#define WIDE __attribute__((target("avx2")))
#define IS_WIDE __builtin_cpu_supports("avx2")
#else
#define WIDE
#define IS_WIDE false
#endif

enum { EIGHT = 8 };
typedef float float8 __attribute__((vector_size(32), aligned(1), may_alias));
typedef float float4 __attribute__((vector_size(16), aligned(1), may_alias));
typedef uint32_t word4 __attribute__((vector_size(16), aligned(1), may_alias));

#define LOAD(p) (*(const float4 *)(const void *)(p))
#define STORE(p, v) (*(float4 *)(void *)(p) = (v))
#define EACH(x) ((float4){(x), (x), (x), (x)})
#define LOAD8(p) (*(const float8 *)(const void *)(p))
#define STORE8(p, v) (*(float8 *)(void *)(p) = (v))

static inline float at(const char *delta, size_t i) {
    float value;
    memcpy(&value, delta + i * 4, sizeof value);
    return value;
}

size_t tide__rule_state(uint8_t rule, size_t width) {
    switch (rule) {
    case TIDE_UPDATE_ADAGRAD:
    case TIDE_UPDATE_MOMENTUM:
    case TIDE_UPDATE_NESTEROV:
        return width;
    case TIDE_UPDATE_ADAM:
        return 2 * width + 1;
    default:
        return 0;
    }
}

uint32_t tide__row_floats(const struct tide_table_options *o) {
    return o->width + (uint32_t)tide__rule_state(o->update, o->width) + tide__options_forget(o);
}

bool tide__rule_has_rate(uint8_t rule) {
    return rule != TIDE_UPDATE_ADD && rule != TIDE_UPDATE_ASSIGN;
}

static void add_scaled(float *row, const char *delta, size_t width, float scale) {
    size_t i = 0;
    for (; i + 8 <= width; i += 8) {
        STORE(row + i, LOAD(row + i) + EACH(scale) * LOAD(delta + i * 4));
        STORE(row + i + 4, LOAD(row + i + 4) + EACH(scale) * LOAD(delta + i * 4 + 16));
    }
    for (; i < width; i++) {
        row[i] += scale * at(delta, i);
    }
}

static void add(float *row, const char *delta, size_t width) {
    size_t i = 0;
    for (; i + 16 <= width; i += 16) {
        STORE(row + i, LOAD(row + i) + LOAD(delta + i * 4));
        STORE(row + i + 4, LOAD(row + i + 4) + LOAD(delta + i * 4 + 16));
        STORE(row + i + 8, LOAD(row + i + 8) + LOAD(delta + i * 4 + 32));
        STORE(row + i + 12, LOAD(row + i + 12) + LOAD(delta + i * 4 + 48));
    }
    for (; i + 4 <= width; i += 4) {
        STORE(row + i, LOAD(row + i) + LOAD(delta + i * 4));
    }
    for (; i < width; i++) {
        row[i] += at(delta, i);
    }
}

BODY void roots(float values[EIGHT]) {
    for (int i = 0; i < EIGHT; i++) {
        values[i] = sqrtf(values[i]);
    }
}

/* `grown`, if not NULL: what the row grows by is added to it. */
BODY void adagrad_body(const struct tide_table_options *o, float *row, const char *delta, float *grown) {
    const float lr = tide__learning_rate(o), epsilon = o->epsilon;
    const size_t width = o->width;
    float *sum = row + width;
    size_t i = 0;
    for (; i + EIGHT <= width; i += EIGHT) {
        float8 d = LOAD8(delta + i * 4), square = d * d;
        float8 s = LOAD8(sum + i) + square;
        float root[EIGHT];
        STORE8(sum + i, s);
        STORE8(root, s);
        roots(root);
        float8 step = lr * d / (LOAD8(root) + epsilon);
        STORE8(row + i, LOAD8(row + i) - step);
        if (grown) {
            STORE8(grown + i, LOAD8(grown + i) - step);
            STORE8(grown + width + i, LOAD8(grown + width + i) + square);
        }
    }
    for (; i < width; i++) {
        float d = at(delta, i), square = d * d;
        sum[i] += square;
        float step = lr * d / (sqrtf(sum[i]) + epsilon);
        row[i] -= step;
        if (grown) {
            grown[i] -= step;
            grown[width + i] += square;
        }
    }
}

BODY void adam_body(const struct tide_table_options *o, float *row, const char *delta) {
    const size_t width = o->width;
    float *m = row + width, *v = m + width, *steps = v + width;
    *steps += 1.0f;
    const float first = (float)(1.0 / (1.0 - pow((double)o->beta1, (double)*steps)));
    const float second = (float)(1.0 / (1.0 - pow((double)o->beta2, (double)*steps)));
    const float keep1 = o->beta1, keep2 = o->beta2, new1 = 1.0f - keep1, new2 = 1.0f - keep2;
    const float lr = tide__learning_rate(o), epsilon = o->epsilon;
    size_t i = 0;
    for (; i + EIGHT <= width; i += EIGHT) {
        float8 d = LOAD8(delta + i * 4);
        float8 m8 = keep1 * LOAD8(m + i) + new1 * d;
        float8 v8 = keep2 * LOAD8(v + i) + new2 * d * d;
        float root[EIGHT];
        STORE8(m + i, m8);
        STORE8(v + i, v8);
        STORE8(root, v8 * second);
        roots(root);
        STORE8(row + i, LOAD8(row + i) - lr * (m8 * first) / (LOAD8(root) + epsilon));
    }
    for (; i < width; i++) {
        float d = at(delta, i);
        m[i] = keep1 * m[i] + new1 * d;
        v[i] = keep2 * v[i] + new2 * d * d;
        row[i] -= lr * (m[i] * first) / (sqrtf(v[i] * second) + epsilon);
    }
}

static void momentum(const struct tide_table_options *o, float *row, const char *delta, bool nesterov) {
    const float lr = tide__learning_rate(o), keep = o->beta1;
    const size_t width = o->width;
    float *velocity = row + width;
    size_t i = 0;
    for (; i + 4 <= width; i += 4) {
        float4 d = LOAD(delta + i * 4), v = keep * LOAD(velocity + i) + d;
        STORE(velocity + i, v);
        if (nesterov) {
            v = d + keep * v;
        }
        STORE(row + i, LOAD(row + i) - lr * v);
    }
    for (; i < width; i++) {
        float d = at(delta, i), v = keep * velocity[i] + d;
        velocity[i] = v;
        row[i] -= lr * (nesterov ? d + keep * v : v);
    }
}

WIDE static void adagrad_wide(const struct tide_table_options *o, float *row, const char *delta, float *grown) {
    adagrad_body(o, row, delta, grown);
}

void tide__adagrad_apply(const struct tide_table_options *o, float *row, const void *delta, float *grown) {
    if (IS_WIDE) {
        adagrad_wide(o, row, delta, grown);
    } else {
        adagrad_body(o, row, delta, grown);
    }
}

WIDE static void adam_wide(const struct tide_table_options *o, float *row, const char *delta) {
    adam_body(o, row, delta);
}

static void adam(const struct tide_table_options *o, float *row, const char *delta) {
    if (IS_WIDE) {
        adam_wide(o, row, delta);
    } else {
        adam_body(o, row, delta);
    }
}

void tide__row_add(float *row, const void *delta, size_t count) {
    add(row, delta, count);
}

void tide__row_put(const struct tide_table *table, float *row, const void *from, uint8_t flags) {
    if (flags & TIDE__SUMS) {
        add(row, from, table->row_floats);
    } else {
        memcpy(row, from, table->row_floats * sizeof *row);
    }
}

void tide__rule_apply(const struct tide_table_options *o, float *row, const void *delta) {
    switch (o->update) {
    case TIDE_UPDATE_ADD:
        add(row, delta, o->width);
        break;
    case TIDE_UPDATE_ASSIGN:
        memcpy(row, delta, o->width * sizeof *row);
        break;
    case TIDE_UPDATE_SGD:
        add_scaled(row, delta, o->width, -tide__learning_rate(o));
        break;
    case TIDE_UPDATE_ADAGRAD:
        tide__adagrad_apply(o, row, delta, NULL);
        break;
    case TIDE_UPDATE_ADAM:
        adam(o, row, delta);
        break;
    case TIDE_UPDATE_MOMENTUM:
    case TIDE_UPDATE_NESTEROV:
        momentum(o, row, delta, o->update == TIDE_UPDATE_NESTEROV);
        break;
    default:
        TIDE_ASSERT(o->update <= TIDE_UPDATE_NESTEROV); /* was checked at creation */
    }
}

/* A float is not finite if all bits of its exponent are set; adding one unit there carries into the
 * sign. */
bool tide__all_finite(const float *values, size_t count) {
    const word4 exponent = {0x7f800000, 0x7f800000, 0x7f800000, 0x7f800000};
    const word4 unit = {0x00800000, 0x00800000, 0x00800000, 0x00800000};
    word4 carry0 = {0}, carry1 = {0};
    size_t i = 0;
    for (; i + 8 <= count; i += 8) {
        carry0 |= (*(const word4 *)(const void *)(values + i) & exponent) + unit;
        carry1 |= (*(const word4 *)(const void *)(values + i + 4) & exponent) + unit;
    }
    carry0 |= carry1;
    uint32_t carry = carry0[0] | carry0[1] | carry0[2] | carry0[3];
    for (; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, values + i, sizeof bits);
        carry |= (bits & 0x7f800000) + 0x00800000;
    }
    return !(carry >> 31);
}

float tide__square_sum(const void *values, size_t count) {
    const char *from = values;
    float4 sums = EACH(0.0f);
    float sum = 0, parts[4];
    size_t i = 0;
    for (; i + 4 <= count; i += 4) {
        sums += LOAD(from + i * 4) * LOAD(from + i * 4);
    }
    STORE(parts, sums);
    for (; i < count; i++) {
        sum += at(from, i) * at(from, i);
    }
    return sum + parts[0] + parts[1] + parts[2] + parts[3];
}
