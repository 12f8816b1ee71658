/*
 * Gradient exchange among the workers of a data-parallel job: what travels between them, and when.
 *
 * Each worker computes a gradient of the same parameters, layer by layer. The exchange gives every
 * worker the sum over all, bit for bit the same on each, so replicas that start equal stay equal.
 * How a layer travels is chosen layer by layer and step by step:
 *   ps      cut into chunks, each owned by one worker: all send it theirs, it sends all the sum
 *   ring    the same chunks; a partial sum goes round the ring to the owner, the sum goes round
 *           again
 *   factor  the gradient is A^T B with few rows: every worker gets A and B of all, and the sum
 *           is one product of the stacked rows, made by the caller. A worker sends its own to
 *           `fanout` others, which forward them, down a tree whose places change with source and step
 * Sums are in a fixed order of ranks. A layer leaves when it is ready, whatever else is computed;
 * of what waits for a busy link, the layer that the next step needs first goes first.
 *
 * Lossy formats. Factors are rounded by their source, which uses what the others get. Of dense
 * sums, the owner uses what the others get, and keeps what was lost for its next sum; with `ps` a
 * worker keeps what its own chunks lost for its next gradient (error feedback: Seide et al.,
 * Interspeech 2014; both ways: Tang et al., "DoubleSqueeze", ICML 2019). What was kept is added in
 * full as soon as the layer goes dense in f32, or round a ring.
 *
 * All workers take the same steps, one after the other, and exchange every layer in each. Steps are
 * numbered from 1. Functions with a `step` are called by the worker's fiber; the actor behind works
 * on the node's exchange thread.
 *
 * When workers die, the remaining ones continue, equal to each other bit for bit: each sum has the
 * parts of all or, on all of them, not those of the dead (view.c). `sums_of` returns over which workers a
 * layer's sum is; chunks have other owners from then on. A worker that ends in order must have
 * waited until all others have the sums of its last step.
 */
#ifndef TIDE_EXCHANGE_H
#define TIDE_EXCHANGE_H

#include "tide.h"

enum tide_path { TIDE_PATH_PS, TIDE_PATH_FACTOR, TIDE_PATH_RING, TIDE_PATH_COUNT };

/* How values travel: enum tide_wire_type, or with `ps` alone:
 *   topk    of each chunk the hundredth part, at least one, of largest magnitude; 8 bytes each
 *   onebit  the sign of each value; of a block of 1024 the mean of each sign, 8 bytes
 * or with `factor` alone:
 *   sparse  f32 without the zeros: a bit a value, 4 bytes each that is not 0; nothing is lost
 * On the other paths they mean f32; so do the first two for layers of fewer than
 * TIDE_EXCHANGE_LOSSY_LEAST values: little would be saved, and signs of few unlike values (a
 * convolution and its biases) are too far from them for training to converge. */
enum tide_format { TIDE_FORMAT_TOPK = TIDE_WIRE_BF16 + 1, TIDE_FORMAT_ONEBIT, TIDE_FORMAT_SPARSE, TIDE_FORMAT_COUNT };

enum {
    TIDE_EXCHANGE_WORKERS_MAX = 1024,
    TIDE_EXCHANGE_LAYERS_MAX = 4096,
    TIDE_EXCHANGE_LOSSY_LEAST = 4096,
    TIDE_EXCHANGE_SUMS = 14 /* numbers a step adds up over the workers */
};

struct tide_exchange;

/* A layer: elements first .. first + count - 1 of the gradients. Its matrices whose gradients come
 * as factors are `matrices`; all else is its rest, sent dense with them. */
struct tide_exchange_matrix {
    size_t first, rows, columns; /* first: element of the gradients */
};
struct tide_exchange_layer {
    size_t first, count;
    const struct tide_exchange_matrix *matrices; /* in ascending order; copied */
    size_t matrix_count;
};

struct tide_exchange_options {
    uint32_t rank, workers;                   /* rank from 0 */
    size_t elements;                          /* of the gradients */
    const struct tide_exchange_layer *layers; /* in the order in which forward needs them; copied */
    size_t layer_count;
    size_t under_way;      /* bytes sent and not consumed, to all together, at most; 0: 8 MiB */
    size_t chunk_elements; /* most of a message; 0: a 64th of what a link carries, 16 KiB to 2 MiB
                              in f32 */
};

/* What a step does with each layer, and the number of the decision. */
struct tide_exchange_plan {
    uint64_t epoch;
    uint8_t *paths, *formats; /* enum tide_path, tide_wire_type or tide_format, by layer */
    uint8_t *fanouts;         /* of factors: how many a worker sends its own to; 0: all */
};

/* Starts the actor of this worker. The gradients are the exchange's memory. Errors: EINVAL, ENOMEM.
 * Inside. */
int tide_exchange_create(struct tide_node *node, const struct tide_exchange_options *options,
                         struct tide_exchange **out);
/* Gives it back. What others still wait for is sent before the actor ends. Any thread. */
void tide_exchange_release(struct tide_exchange *x);
tide_address tide_exchange_address(const struct tide_exchange *x);
/* Sets the addresses of all, by rank. Once, before the first step; no step before all have. */
int tide_exchange_connect(struct tide_exchange *x, const tide_address *peers);
float *tide_exchange_gradients(struct tide_exchange *x); /* the own ones */
float *tide_exchange_sum(struct tide_exchange *x);       /* what they add up to, layer by layer */
/* What the steps from now on do; the same on all workers. Before the first step, or when `agreed`
 * gave it. */
void tide_exchange_set_plan(struct tide_exchange *x, const struct tide_exchange_plan *plan);
const struct tide_exchange_plan *tide_exchange_get_plan(const struct tide_exchange *x);

/* The factors of a matrix of a layer whose path is factor: `a` [k x rows], `b` [k x columns],
 * copied. Before `ready`. A matrix without any in this step has k = 0. Errors: EINVAL, ENOMEM. */
int tide_exchange_factors(struct tide_exchange *x, size_t layer, size_t matrix, size_t k, const float *a,
                          const float *b);
/* The layer's gradients are complete and may leave; they are the exchange's until `need` has
 * returned, and are not changed but by what lossy formats had kept. */
int tide_exchange_ready(struct tide_exchange *x, uint64_t step, size_t layer);
/* Adds up numbers over the workers. `proposal` is the plan of the next step for all; of the first
 * worker that took part in the last step alone, else NULL. */
int tide_exchange_share(struct tide_exchange *x, uint64_t step, const double own[TIDE_EXCHANGE_SUMS],
                        const struct tide_exchange_plan *proposal);
/* Waits for the sums of `share`. *agreed: the plan of the next step if there is a new one, else
 * NULL. */
int tide_exchange_sums(struct tide_exchange *x, uint64_t step, double sums[TIDE_EXCHANGE_SUMS],
                       const struct tide_exchange_plan **agreed);
/* After `sums`: whether a worker took part in the step, and so is counted in them. */
bool tide_exchange_took_part(const struct tide_exchange *x, uint64_t step, uint32_t rank);
/* Waits until a layer has come, or any other for which `need` has not returned in this step: work
 * there is while the layer is in flight. *which: the layer itself if it is there, else the lowest;
 * `need` of it does not wait. Errors: as of `need`. */
int tide_exchange_next(struct tide_exchange *x, uint64_t step, size_t layer, size_t *which);
/* Waits for a layer, after `sums` of the step. Dense paths: its sum is there. Factor: the sum of
 * its rest is, and the rows of all workers' factors are to be had. Errors: EINVAL, EPROTO,
 * ECANCELED. */
int tide_exchange_need(struct tide_exchange *x, uint64_t step, size_t layer);
/* After `next` or `need`: the numbers of those whose gradients are in the layer's sum. */
void tide_exchange_sums_of(const struct tide_exchange *x, uint64_t step, size_t layer, double sums[TIDE_EXCHANGE_SUMS]);
/* After `need`: the factors of rank `rank` of a matrix; k = 0 of one that is not in the sum.
 * Borrowed until the next `ready` of this layer. */
void tide_exchange_factors_of(const struct tide_exchange *x, uint64_t step, size_t layer, size_t matrix, uint32_t rank,
                              size_t *k, const float **a, const float **b);

/* Waits until what others are to have of the steps that are over has been sent, what this worker
 * passes on included: then the figures have all of it. */
int tide_exchange_flush(struct tide_exchange *x);

/* Of this worker, since its start. */
struct tide_exchange_stats {
    uint64_t messages, bytes;          /* sent, all of them: frames and their bytes */
    uint64_t payload[TIDE_PATH_COUNT]; /* bytes of values sent, by path */
    uint64_t busy_ns;                  /* some layer had left and had not come back */
    uint64_t waited_ns;                /* the worker waited for gradients that all had ready */
    uint64_t skew_ns;                  /* it waited for others to end the step: in `sums` */
};
void tide_exchange_stats(const struct tide_exchange *x, struct tide_exchange_stats *out); /* any thread */
/* Time from a layer's `ready` to its sum, of its last step; 0: none yet. Any thread. */
uint64_t tide_exchange_layer_ns(const struct tide_exchange *x, size_t layer);

#endif
