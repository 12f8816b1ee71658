/*
 * Update rules, applied where the row lives, under its lock.
 *   add      w += d                                assign  w = d                     sgd  w -= lr d
 *   total    w = d, where bsp tables have summed up what all pushed in a clock
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

static _Thread_local const char *inside;

enum { EIGHT = 8 };
enum { BETA1, BETA2, EPSILON, SUM_INIT }; /* of a call's numbers */
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

size_t tide__rule_state(const struct tide_table_options *o) {
    const struct tide_update_rule *rule = tide__rule_of(o);
    size_t floats = 0;
    for (size_t i = 0; i < rule->state_count; i++) {
        floats += rule->states[i].per_row ? 1 : o->width;
    }
    return floats;
}

uint32_t tide__row_floats(const struct tide_table_options *o) {
    return o->width + (uint32_t)tide__rule_state(o) + tide__options_forget(o);
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
BODY void adagrad_body(const struct tide_rule_call *call, float *grown) {
    const float lr = call->rate, epsilon = call->numbers[EPSILON];
    const size_t width = call->width;
    const char *delta = call->delta;
    float *row = call->row, *sum = call->state;
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

BODY void adam_body(const struct tide_rule_call *call) {
    const size_t width = call->width;
    const char *delta = call->delta;
    float *row = call->row, *m = call->state, *v = m + width, *steps = v + width;
    *steps += 1.0f;
    const float keep1 = call->numbers[BETA1], keep2 = call->numbers[BETA2], new1 = 1.0f - keep1, new2 = 1.0f - keep2;
    const float first = (float)(1.0 / (1.0 - pow((double)keep1, (double)*steps)));
    const float second = (float)(1.0 / (1.0 - pow((double)keep2, (double)*steps)));
    const float lr = call->rate, epsilon = call->numbers[EPSILON];
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

BODY void momentum_body(const struct tide_rule_call *call, bool nesterov) {
    const float lr = call->rate, keep = call->numbers[BETA1];
    const size_t width = call->width;
    const char *delta = call->delta;
    float *row = call->row, *velocity = call->state;
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

WIDE static void adagrad_wide(const struct tide_rule_call *call, float *grown) {
    adagrad_body(call, grown);
}

static void adagrad(const struct tide_rule_call *call, float *grown) {
    if (IS_WIDE) {
        adagrad_wide(call, grown);
    } else {
        adagrad_body(call, grown);
    }
}

WIDE static void adam_wide(const struct tide_rule_call *call) {
    adam_body(call);
}

/* ---- by the contract of tide/rule.h ---- */

static void apply_add(const struct tide_rule_call *call) {
    add(call->row, call->delta, call->width);
}

static void apply_assign(const struct tide_rule_call *call) {
    memcpy(call->row, call->delta, call->width * sizeof *call->row);
}

static void apply_sgd(const struct tide_rule_call *call) {
    add_scaled(call->row, call->delta, call->width, -call->rate);
}

static void apply_adagrad(const struct tide_rule_call *call) {
    adagrad(call, NULL);
}

static void apply_adam(const struct tide_rule_call *call) {
    if (IS_WIDE) {
        adam_wide(call);
    } else {
        adam_body(call);
    }
}

static void apply_momentum(const struct tide_rule_call *call) {
    momentum_body(call, false);
}

static void apply_nesterov(const struct tide_rule_call *call) {
    momentum_body(call, true);
}

static void init_adagrad(const float *numbers, uint64_t key, size_t width, float *state) {
    (void)key;
    for (size_t i = 0; i < width; i++) {
        state[i] = numbers[SUM_INIT];
    }
}

static int check_betas(const float *numbers, char *error) {
    const bool good = numbers[BETA1] > 0 && numbers[BETA1] < 1 && numbers[BETA2] > 0 && numbers[BETA2] < 1;
    (void)snprintf(error, TIDE_KERNEL_ERROR_BYTES, "beta1 and beta2 lie between 0 and 1");
    return good ? 0 : TIDE_EINVAL;
}

static int check_momentum(const float *numbers, char *error) {
    (void)snprintf(error, TIDE_KERNEL_ERROR_BYTES, "the momentum lies between 0 and 1");
    return numbers[BETA1] > 0 && numbers[BETA1] < 1 ? 0 : TIDE_EINVAL;
}

/* At the places of struct tide_table_options: a rule does without some of them. */
#define NUMBER(title, value)                                                                                           \
    { .name = (title), .type = TIDE_NUMBER, .number = (value) }
static const struct tide_parameter of_adagrad[] = {
    [EPSILON] = NUMBER("eps", 1e-10), [SUM_INIT] = NUMBER("sum_init", 0)};
static const struct tide_parameter of_adam[] = {
    [BETA1] = NUMBER("beta1", 0.9), [BETA2] = NUMBER("beta2", 0.999), [EPSILON] = NUMBER("eps", 1e-8)};
static const struct tide_parameter of_momentum[] = {[BETA1] = NUMBER("momentum", 0.9)};
static const struct tide_rule_state of_sum = {"sum", false}, of_velocity = {"velocity", false};
static const struct tide_rule_state moments[] = {{"m", false}, {"v", false}, {"step", true}};
#define NUMBERS(list) .numbers = (list), .number_count = TIDE_COUNT(list)

const struct tide_update_rule tide__rules[] = {
    [TIDE_UPDATE_ADD] = {.name = "add", .flags = TIDE_RULE_ADDS | TIDE__RULE_NO_RATE, .apply = apply_add},
    [TIDE_UPDATE_ASSIGN] = {.name = "assign", .flags = TIDE__RULE_ASSIGNS | TIDE__RULE_NO_RATE, .apply = apply_assign},
    [TIDE_UPDATE_SGD] = {.name = "sgd", .flags = TIDE_RULE_ADDS, .apply = apply_sgd},
    [TIDE_UPDATE_ADAGRAD] = {.name = "adagrad",
                             .flags = TIDE__RULE_MERGES,
                             NUMBERS(of_adagrad),
                             .states = &of_sum,
                             .state_count = 1,
                             .init = init_adagrad,
                             .apply = apply_adagrad},
    [TIDE_UPDATE_ADAM] = {.name = "adam",
                          NUMBERS(of_adam),
                          .states = moments,
                          .state_count = TIDE_COUNT(moments),
                          .check = check_betas,
                          .apply = apply_adam},
    [TIDE_UPDATE_MOMENTUM] = {.name = "momentum",
                              NUMBERS(of_momentum),
                              .states = &of_velocity,
                              .state_count = 1,
                              .check = check_momentum,
                              .apply = apply_momentum},
    [TIDE_UPDATE_NESTEROV] = {.name = "nesterov",
                              NUMBERS(of_momentum),
                              .states = &of_velocity,
                              .state_count = 1,
                              .check = check_momentum,
                              .apply = apply_nesterov},
    [TIDE_UPDATE_TOTAL] = {.name = "total", .flags = TIDE__RULE_NO_RATE, .apply = apply_assign},
    {.name = NULL}};

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

static struct tide_rule_call call_of(const struct tide_table_options *o, float *row, const void *delta) {
    return (struct tide_rule_call){.width = o->width,
                                   .rate = tide__learning_rate(o),
                                   .numbers = o->numbers + 1,
                                   .row = row,
                                   .state = row + o->width,
                                   .delta = delta};
}

void tide__rule_apply(const struct tide_table_options *o, float *row, const void *delta) {
    if (o->update == TIDE_UPDATE_ADD) {
        add(row, delta, o->width);
    } else {
        const struct tide_rule_call call = call_of(o, row, delta);
        const struct tide_update_rule *rule = tide__rule_of(o);
        inside = o->own ? rule->name : NULL;
        rule->apply(&call);
        inside = NULL;
    }
}

const char *tide__rule_inside(void) {
    return inside;
}

void tide__adagrad_apply(const struct tide_table_options *o, float *row, const void *delta, float *grown) {
    const struct tide_rule_call call = call_of(o, row, delta);
    adagrad(&call, grown);
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
