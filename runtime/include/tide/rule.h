/*
 * Update rules of tables of your own: how a pushed row changes the row of a key, and what the table keeps beside it for
 * that. A module of kernels offers them (tide_kernel_module), and a script names them: update = {"lion", lr = 1e-4}.
 * examples/lion.c is one.
 *
 *   cc -O3 -shared -fPIC lion.c $(pkg-config --cflags tide) -o lion.so
 *
 * A row has `width` floats and behind them the rule's state, 4 bytes a float. Where the row goes, its state goes: to
 * other nodes, to copies, to checkpoints. So a state has no pointers and no trace of where it lies.
 */
#ifndef TIDE_PUBLIC_RULE_H
#define TIDE_PUBLIC_RULE_H

#include "tide/kernel.h"

#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { TIDE_RULE_NUMBERS = 7, TIDE_RULE_STATES = 4, TIDE_RULE_NAME_BYTES = 48 };

struct tide_rule_state {
    const char *name; /* in saved files: state.NAME */
    bool per_row;     /* one float; else one for each value */
};

struct tide_rule_call {
    size_t width;
    float rate;           /* lr, as it is now */
    const float *numbers; /* in the order of the declaration */
    float *row, *state;   /* `width` values; the states, in the order of the declaration */
    const void *delta;    /* what was pushed: `width` floats at any alignment, tide_rule_delta */
};

/* Two pushes are as one push of their sum, and there is no state. Then keys may have copies that updates reach in any
 * order and added up (techniques replicate and intent). Without it each push is applied once, where the row is. */
enum { TIDE_RULE_ADDS = 1 };

struct tide_update_rule {
    const char *name, *doc; /* the name: an identifier; none of Tide's own rules */
    uint32_t flags;
    const struct tide_parameter *numbers; /* TIDE_NUMBER, besides lr, which every rule has */
    size_t number_count;
    const struct tide_rule_state *states;
    size_t state_count;
    /* Negative: these numbers do not go, and why in `error` (TIDE_KERNEL_ERROR_BYTES). NULL: all do. */
    int (*check)(const float *numbers, char *error);
    /* The states of a row without pushes, which is not stored: from its arguments alone. NULL: zeros. */
    void (*init)(const float *numbers, uint64_t key, size_t width, float *state);
    /* One push. Holds the row's lock: it never waits, allocates or keeps a pointer, and gives the same bits for the
     * same call on all nodes, since copies of rows for the case of a death make each step anew. Several threads may be
     * inside, for different rows. */
    void (*apply)(const struct tide_rule_call *call);
};

static inline float tide_rule_delta(const struct tide_rule_call *call, size_t i) {
    float value;
    memcpy(&value, (const char *)call->delta + i * sizeof value, sizeof value);
    return value;
}

/* For programs that embed nodes, on each of them before a table has the rule; it lives as long as the process. Tables
 * of equal versions are of the same rule (of a module: the SHA-256 of its file). `file`: from which a node that does
 * not have it loads it, or NULL. EINVAL: what is wrong with it. Any thread. */
int tide_rule_register(const struct tide_update_rule *rule, const char *version, const char *file);

#ifdef __cplusplus
}
#endif
#endif
