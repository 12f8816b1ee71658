/*
 * Numeric tools for decisions: small, exact, single-threaded, deterministic. Policies and scripts
 * reach them as `k` (lua/host/kernel/numeric.c); here they are plain C.
 *
 * All arrays are the caller's. Functions return 0 or a negative TIDE_E code with the reason in the
 * thread's error slot; outputs are written only on success, unless said otherwise. Numbers must be
 * finite where nothing else is said: callers check (NaN in, anything out, but never a crash or an
 * endless loop). Any thread.
 */
#ifndef TIDE_NUMERIC_H
#define TIDE_NUMERIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tide_device; /* operation.h */

/* ---- fit.c ---- */
/* y = at + per * x by least squares with at, per >= 0. With one distinct x: at = 0 (x = 0: per =
 * 0). n >= 1, x >= 0. */
int tide_fit_line(const double *x, const double *y, size_t n, double *at, double *per);
/* min |A c - y|, A row-major rows x columns, by Householder QR with column pivoting; columns that
 * depend on others get 0. columns <= rows is not required. */
int tide_fit_least_squares(const double *a, const double *y, size_t rows, size_t columns, double *c);
/* The same with c >= 0: active sets of Lawson and Hanson, "Solving Least Squares Problems" (1974),
 * chapter 23. */
int tide_fit_nonnegative(const double *a, const double *y, size_t rows, size_t columns, double *c);

/* Residuals of parameters p; negative: abort. */
typedef int (*tide_residuals)(void *arg, const double *p, double *r);
struct tide_fit_problem {
    tide_residuals residuals;
    void *arg;
    size_t residual_count, parameter_count; /* residual_count >= parameter_count */
    const double *low, *high;               /* bounds; -inf, +inf: none on that side */
    int evaluations_max;
};
/* Levenberg-Marquardt (MINPACK's lmdif) from `p`, which becomes the solution. Parameters with two
 * bounds run through the logistic map, with one through exp, so every evaluation is strictly
 * inside. `error`: sum of squares at the solution. */
int tide_fit_bounded(const struct tide_fit_problem *problem, double *p, double *error, int *evaluations);

/* ---- lines.c ---- */
/* seconds = at + per * units of one subject, both >= 0, from samples that come one at a time.
 * Zeroed = nothing known; kept_at may be set to what another instance had learned. */
struct tide_line_seen {
    double at, per; /* the line */
    double kept_at; /* the last `at` that could be determined, which takes samples of two sizes */
    double weight, units, seconds, units_units, units_seconds; /* sums; weight 0: no sample yet */
    double last_units, last_seconds;                           /* the newest sample */
    int way; /* how the newest sample was off the line: 1 too long, -1 too short, 0 neither */
};
/* Takes in a sample, which counts 1 / forget times the one before it (0 < forget <= 1). While all
 * samples have one size `at` keeps its last value. When two samples in a row are off the line by
 * the factor `jump` (> 1), the same way, the subject has become another: what was before them is
 * forgotten, and `at` is taken to have changed as much as the seconds. units > 0, seconds >= 0. */
void tide_line_learn(struct tide_line_seen *line, double units, double seconds, double forget, double jump);

/* ---- eigen.c ---- */
/* Eigenvalues of a symmetric n x n matrix (its upper half counts), rising; vectors, NULL or n x n:
 * row i is the unit vector of value i. Bits are the processor's (LAPACK). n <= 4096. EINVAL: not
 * finite, ENOMEM. */
int tide_eigen_symmetric(const double *a, size_t n, double *values, double *vectors);

/* ---- split.c ---- */
/* Seconds of b units: at + per * b, or times[b - 1] (not decreasing; 0 units take 0 s). */
struct tide_split_cost {
    double at, per;
    const double *times;
    size_t time_count;
    uint64_t min, max; /* units; max <= time_count for a table */
};
/* Integer split of `total` that minimises the slowest: bisection on the finish time, exact. ERANGE
 * when the bounds do not allow the total. */
int tide_split_minmax(uint64_t total, const struct tide_split_cost *costs, size_t n, uint64_t *share, double *seconds);

/* ---- assign.c ---- */
/* Minimum-cost assignment of every row to a column of its own: shortest augmenting paths (Jonker
 * and Volgenant 1987). cost row-major, rows <= columns, +inf: forbidden. pick[row] = column. ERANGE
 * when none exists. O(rows^2 columns). */
int tide_assign(const double *cost, size_t rows, size_t columns, size_t *pick, double *total);

/* ---- knapsack.c ---- */
/* Multiple choice: of each row at most one option j of size sizes[j] and value value[row * options
 * + j] (-inf: not offered), sizes sum <= capacity, value sum largest; nothing is worth 0. */
struct tide_knapsack {
    const double *value;
    const uint64_t *sizes;
    size_t rows, options;
    uint64_t capacity;
    const struct tide_device *device; /* that has tools of its own; any other, or NULL: the CPU */
};
/* pick[row] = option or SIZE_MAX; best[c], c = 0..capacity: the largest value with capacity c.
 * Ties: the lowest option, nothing first. */
int tide_knapsack(const struct tide_knapsack *problem, size_t *pick, double *best);

/* ---- goodput.c: Pollux (Qiao et al., OSDI 2021) ---- */
/* Seconds of a step on K slots of n machines with m examples a slot and pass, s extra passes
 * (equations 9 to 11): T_grad = ag + bg m; T_sync = 1e-8 (K = 1), al + bl max(K-2, 1e-8) (n = 1),
 * an + bn max(K-2, 1e-8); T = s T_grad + (T_grad^g + T_sync^g)^(1/g). All >= 1e-8, g in [1, 10]. */
struct tide_throughput {
    double ag, bg, al, bl, an, bn, g;
};
/* Mean seconds of a pass without communication and of a step with one pass and it, of one distinct
 * (machines, slots, batch). All > 0; weight 1: one like any other. */
struct tide_throughput_row {
    double machines, slots, batch; /* batch: examples a slot and pass */
    double pass_s, step_s, weight;
};
/* The loss that the fit minimises: root mean squares of the logarithmic errors of both times, and
 * what keeps flat directions finite (AdaptDL's). gradient[7] in the order of the struct. */
int tide_goodput_loss(const struct tide_throughput *perf, const struct tide_throughput_row *rows, size_t count,
                      double *loss, double *gradient);
/* Projected BFGS. What no row covers is taken to cost nothing. EINVAL: no row, or one that
 * is not of positive finite numbers. */
int tide_goodput_fit(const struct tide_throughput_row *rows, size_t count, struct tide_throughput *perf, double *loss);
/* Seconds of a step. */
double tide_goodput_seconds(const struct tide_throughput *perf, double machines, double slots, double batch,
                            double passes_extra);

struct tide_goodput_job {
    struct tide_throughput perf;
    double sqr, var;   /* squared norm of the mean gradient, trace of its covariance / start */
    double start, max; /* total batch: the user's, the largest */
    double low, high;  /* examples a slot and pass */
};
struct tide_goodput_choice {
    double goodput; /* examples a second, as many as at the user's batch are worth */
    double batch;   /* a slot and pass */
    double passes_extra;
    double step_s, efficiency;
};
/* The batch with the largest goodput on these slots (equations 4 to 7; the batches tried are those
 * of the published simulator). start = max: the batch stays, efficiency 1. ERANGE: none fits. */
int tide_goodput_best(const struct tide_goodput_job *job, double machines, double slots,
                      struct tide_goodput_choice *choice);
/* The same batch, total B, on these slots: in as few passes as `high` allows. ERANGE: none. */
int tide_goodput_fixed(const struct tide_goodput_job *job, double slots, double total, double *batch,
                       double *passes_extra);

/* Gradient noise of one group of parameters: averages that forget. Zeroed: nothing known. */
struct tide_noise {
    double sqr, var; /* the averages, corrected for their start; 0 while weight is 0 */
    double sums[2], weight;
    uint64_t skipped; /* samples that were not finite */
    bool biased;      /* of pairs of steps: restarts at the first sample that is not */
};
struct tide_noise_sample {
    double count;        /* gradients: workers times passes; >= 2 */
    double batch, start; /* examples of all of them; of the user's batch */
    double local, total; /* sum over gradients of share |g|^2; |sum of share g|^2 */
    bool biased;
};
/* Takes in a sample (equation 8, for unequal shares too). EINVAL: fewer than two gradients. */
int tide_noise_update(struct tide_noise *noise, const struct tide_noise_sample *sample);

/* ---- makespan.c ---- */
/* Homes of weighted items on m machines of capacity (speed) > 0: longest first to where it ends
 * first, then moves and swaps out of the machine that ends last. span: the largest load / capacity;
 * bound: no assignment is below it. Each step of the search is one of `steps_max`. */
int tide_makespan(const double *weight, size_t n, const double *capacity, size_t m, size_t steps_max, uint32_t *home,
                  double *span, double *bound);

/* ---- what a device with memory of its own does of them ---- */
/* The same arithmetic in the same order, so the same bits as on the CPU. Arguments are checked,
 * arrays the host's; a call returns when its work is done. 0, ENOMEM: no memory there, EIO: the
 * device. */
struct tide_numeric {
    int (*knapsack)(const struct tide_knapsack *problem, size_t *pick, double *best);
};

#endif
