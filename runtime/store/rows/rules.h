/* Update rules (rules.c), those of modules (rule_list.c), and the initial row of a key (init.c). */
#ifndef TIDE_STORE_RULES_H
#define TIDE_STORE_RULES_H

#include "store/core/table.h"
#include "tide/rule.h"

/* Flags of Tide's own rules, beside TIDE_RULE_ADDS. */
enum {
    TIDE__RULE_ASSIGNS = 1 << 8, /* the last push counts */
    TIDE__RULE_MERGES = 1 << 9,  /* what values and state grow by from a common row adds up (adagrad) */
    TIDE__RULE_NO_RATE = 1 << 10,
};

extern const struct tide_update_rule tide__rules[]; /* Tide's own, by enum tide_update; one without a name ends them */
/* A rule of a module that this process has; version "": the one registered last. NULL: none. */
const struct tide_update_rule *tide__rule_find(const char *name, const char *version);
/* Loads what a file registers: set by who can (lua/host/kernel/module.c). Its failure is in the error slot. */
typedef int (*tide__rule_loader)(struct tide_port *port, const char *file, const char *version);
void tide__rule_load_by(tide__rule_loader loader);
/* Fills in version, file and rule of a table's options, from the file where this process does not have it.
 * EUNSUPPORTED: what is missing. Without a rule of a module: nothing. */
int tide__rule_resolve(struct tide_port *port, struct tide_table_options *options);
/* The numbers of the table's rule, and its defaults where they are meant. One that this process does not have (a reader
 * of checkpoints, a controller) is not checked. */
int tide__rule_numbers(struct tide_table_options *options);
int tide__rule_check(struct tide_table_options *options); /* the same, with the table's name in the error */
static inline bool tide__rule_known(const struct tide_table_options *options) {
    return options->update != TIDE_UPDATE_OWN || options->own;
}
/* Never NULL: of a rule that is not known a name and nothing else is. */
const struct tide_update_rule *tide__rule_of(const struct tide_table_options *options);
const char *tide__rule_name(const struct tide_table_options *options);
static inline bool tide__rule_is(const struct tide_table_options *options, uint32_t any_of) {
    return (tide__rule_of(options)->flags & any_of) != 0;
}
size_t tide__rule_state(const struct tide_table_options *options); /* floats behind the values */
/* The module's rule that this thread is in, for its last words; NULL: none. */
const char *tide__rule_inside(void);
/* Floats of a row: values, the rule's state, and the use record of a table that forgets. */
uint32_t tide__row_floats(const struct tide_table_options *options);
static inline bool tide__rule_has_rate(const struct tide_table_options *options) {
    return !tide__rule_is(options, TIDE__RULE_NO_RATE);
}
/* Does an update by the rule depend on all before it, so that it is made only by the holder of the row? */
static inline bool tide__rule_is_serial(const struct tide_table_options *options) {
    return !tide__rule_is(options, TIDE_RULE_ADDS | TIDE__RULE_ASSIGNS | TIDE__RULE_MERGES);
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
