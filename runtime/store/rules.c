/*
 * Update rules, applied where the row lives, under its lock.
 *   add      w += d                                assign  w = d                     sgd  w -= lr d
 *   adagrad  s += d d; w -= lr d / (sqrt(s) + e)   (Duchi, Hazan, Singer 2011; s starts at
 * sum_init) adam     m = b1 m + (1 - b1) d; v = b2 v + (1 - b2) d d; w -= lr mh / (sqrt(vh) + e)
 *            (Kingma, Ba 2015, algorithm 1; mh, vh divided by 1 - b^t)
 * State behind the values: adagrad s; adam m, v and the number of steps as a float (it stops at
 * 2^24, where the correction has long been 1). Deltas come from callers and from messages at any
 * alignment, hence the vectors of four with alignment 1; compilers fuse two of them where the
 * machine has wider ones.
 */
#include "store/store_internal.h"

#include <math.h>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

typedef float float4 __attribute__((vector_size(16), aligned(1), may_alias));
typedef uint32_t word4 __attribute__((vector_size(16), aligned(1), may_alias));

#define LOAD(p) (*(const float4 *)(const void *)(p))
#define STORE(p, v) (*(float4 *)(void *)(p) = (v))
#define EACH(x) ((float4){(x), (x), (x), (x)})

static inline float at(const char *delta, size_t i) {
    float value;
    memcpy(&value, delta + i * 4, sizeof value);
    return value;
}

size_t tide__rule_state(uint8_t rule, size_t width) {
    switch (rule) {
    case TIDE_UPDATE_ADAGRAD:
        return width;
    case TIDE_UPDATE_ADAM:
        return 2 * width + 1;
    default:
        return 0;
    }
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

static inline void root4(float *values) {
#if defined(__SSE__)
    _mm_storeu_ps(values, _mm_sqrt_ps(_mm_loadu_ps(values)));
#else
    for (int i = 0; i < 4; i++) {
        values[i] = sqrtf(values[i]);
    }
#endif
}

/* `grown`, if not NULL: what the row grows by is added to it. */
static inline __attribute__((always_inline)) void adagrad(const struct tide_table_options *o,
                                                          float *row, const char *delta,
                                                          size_t width, float *grown) {
    float *sum = row + width;
    size_t i = 0;
    for (; i + 4 <= width; i += 4) {
        float4 d = LOAD(delta + i * 4), square = d * d;
        float4 s = LOAD(sum + i) + square;
        float root[4];
        STORE(sum + i, s);
        STORE(root, s);
        root4(root);
        float4 step = EACH(o->lr) * d / (LOAD(root) + EACH(o->epsilon));
        STORE(row + i, LOAD(row + i) - step);
        if (grown) {
            STORE(grown + i, LOAD(grown + i) - step);
            STORE(grown + width + i, LOAD(grown + width + i) + square);
        }
    }
    for (; i < width; i++) {
        float d = at(delta, i), square = d * d;
        sum[i] += square;
        float step = o->lr * d / (sqrtf(sum[i]) + o->epsilon);
        row[i] -= step;
        if (grown) {
            grown[i] -= step;
            grown[width + i] += square;
        }
    }
}

void tide__adagrad_apply(const struct tide_table_options *o, float *row, const void *delta,
                         float *grown) {
    adagrad(o, row, delta, o->width, grown);
}

static void adam(const struct tide_table_options *o, float *row, const char *delta, size_t width) {
    float *m = row + width, *v = m + width, *steps = v + width;
    *steps += 1.0f;
    const float first = (float)(1.0 / (1.0 - pow((double)o->beta1, (double)*steps)));
    const float second = (float)(1.0 / (1.0 - pow((double)o->beta2, (double)*steps)));
    const float keep1 = o->beta1, keep2 = o->beta2, new1 = 1.0f - keep1, new2 = 1.0f - keep2;
    size_t i = 0;
    for (; i + 4 <= width; i += 4) {
        float4 d = LOAD(delta + i * 4);
        float4 m4 = EACH(keep1) * LOAD(m + i) + EACH(new1) * d;
        float4 v4 = EACH(keep2) * LOAD(v + i) + EACH(new2) * d * d;
        float root[4];
        STORE(m + i, m4);
        STORE(v + i, v4);
        STORE(root, v4 * EACH(second));
        root4(root);
        STORE(row + i,
              LOAD(row + i) - EACH(o->lr) * (m4 * EACH(first)) / (LOAD(root) + EACH(o->epsilon)));
    }
    for (; i < width; i++) {
        float d = at(delta, i);
        m[i] = keep1 * m[i] + new1 * d;
        v[i] = keep2 * v[i] + new2 * d * d;
        row[i] -= o->lr * (m[i] * first) / (sqrtf(v[i] * second) + o->epsilon);
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
        add_scaled(row, delta, o->width, -o->lr);
        break;
    case TIDE_UPDATE_ADAGRAD:
        adagrad(o, row, delta, o->width, NULL);
        break;
    case TIDE_UPDATE_ADAM:
        adam(o, row, delta, o->width);
        break;
    default:
        TIDE_ASSERT(o->update <= TIDE_UPDATE_ADAM); /* was checked at creation */
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
