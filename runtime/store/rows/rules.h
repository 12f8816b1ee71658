/* Update rules (rules.c), and the initial row of a key (init.c). */
#ifndef TIDE_STORE_RULES_H
#define TIDE_STORE_RULES_H

#include "store/core/table.h"

size_t tide__rule_state(uint8_t rule, size_t width); /* floats behind the values */
/* Floats of a row: values, the rule's state, and the use record of a table that forgets. */
uint32_t tide__row_floats(const struct tide_table_options *options);
bool tide__rule_has_rate(uint8_t rule);
/* Does an update by the rule depend on all before it, so that it is made by whoever has the row alone? */
static inline bool tide__rule_is_serial(uint8_t rule) {
    return rule == TIDE_UPDATE_ADAM || rule == TIDE_UPDATE_MOMENTUM || rule == TIDE_UPDATE_NESTEROV;
}
/* The learning rate in force: it may change while workers make steps (learning_rate.c). */
static inline float tide__learning_rate(const struct tide_table_options *options) {
    float rate;
    __atomic_load(&options->lr, &rate, __ATOMIC_RELAXED);
    return rate;
}
void tide__rule_apply(const struct tide_table_options *options, float *row, const void *delta);
/* The same for rule adagrad; what values and sums grow by is added to `grown`. */
void tide__adagrad_apply(const struct tide_table_options *options, float *row, const void *delta, float *grown);
void tide__row_add(float *row, const void *delta, size_t count); /* unaligned */
/* A raw row: in place of the one that is there, or (TIDE__SUMS) added to it. */
void tide__row_put(const struct tide_table *table, float *row, const void *from, uint8_t flags);
float tide__square_sum(const void *values, size_t count); /* floats, at any alignment */
bool tide__all_finite(const float *values, size_t count);
/* The initial row; `full`: with the rule's state. A pure function of the options and the key. */
void tide__row_init(const struct tide_table_options *options, uint64_t key, float *row, bool full);

#endif
