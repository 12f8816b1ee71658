/*
 * Goodput of training jobs (Qiao et al., Pollux, OSDI 2021): the throughput model and its fit, the
 * best batch of an allocation, averages of the gradient noise; see numeric.h. The batches tried and
 * the loss of the fit are those of the paper's published simulator, so that its results repeat.
 */
#include "decide/numeric.h"

#include "base/base.h"

#include <math.h>
#include <string.h>

enum { AG, BG, AL, BL, AN, BN, G, NUMBERS };
enum { STEPS_MAX = 300, ROUNDS = 4, SEARCH_MAX = 30, CANDIDATES = 50 };

#define LEAST 1e-8 /* of a number of the model, and of seconds of a synchronisation */
#define ROUNDING 1e-8
#define FORGET 0.999 /* of an average of the noise, a step at the user's batch */

static void to_list(const struct tide_throughput *perf, double *x) {
    const double list[NUMBERS] = {perf->ag, perf->bg, perf->al, perf->bl, perf->an, perf->bn, perf->g};
    memcpy(x, list, sizeof list);
}

static void from_list(const double *x, struct tide_throughput *perf) {
    *perf = (struct tide_throughput){x[AG], x[BG], x[AL], x[BL], x[AN], x[BN], x[G]};
}

/* ---- seconds of a step ---- */

static double sync_seconds(const double *x, double machines, double slots) {
    if (slots <= 1) {
        return LEAST;
    }
    const double more = fmax(slots - 2, LEAST);
    return machines <= 1 ? x[AL] + x[BL] * more : x[AN] + x[BN] * more;
}

/* ln (A^g + S^g) / g, with the larger power pulled out. */
static double overlapped_log(double a_log, double s_log, double g) {
    const double high = fmax(a_log, s_log), low = fmin(a_log, s_log);
    return high + log1p(exp(g * (low - high))) / g;
}

double tide_goodput_seconds(const struct tide_throughput *perf, double machines, double slots, double batch,
                            double passes_extra) {
    double x[NUMBERS];
    to_list(perf, x);
    const double pass = x[AG] + x[BG] * batch, sync = sync_seconds(x, machines, slots);
    return passes_extra * pass + exp(overlapped_log(log(pass), log(sync), x[G]));
}

/* ---- the fit ---- */

/* A row as the loss needs it. */
struct point {
    double batch, more; /* more: slots beyond two; negative: one slot alone */
    bool is_far;
    double pass_log, step_log, share; /* shares sum up to 1 */
};

static struct point *points_of(const struct tide_throughput_row *rows, size_t count) {
    struct point *points = tide_alloc_zero(count + 1, sizeof *points);
    double weight = 0;
    for (size_t i = 0; i < count; i++) {
        weight += rows[i].weight;
    }
    for (size_t i = 0; points && i < count; i++) {
        const struct tide_throughput_row *r = &rows[i];
        points[i] = (struct point){.batch = r->batch,
                                   .more = r->slots <= 1 ? -1 : fmax(r->slots - 2, LEAST),
                                   .is_far = r->machines > 1,
                                   .pass_log = log(r->pass_s),
                                   .step_log = log(r->step_s),
                                   .share = r->weight / weight};
    }
    return points;
}

/* Sums over rows: of squared errors, and of what the gradients of both root means are made of. */
struct sums {
    double pass, step, pass_gradient[NUMBERS], step_gradient[NUMBERS];
};

static void add_point(const double *x, const struct point *p, struct sums *sums) {
    const double a = x[AG] + x[BG] * p->batch, a_log = log(a);
    double s = LEAST;
    if (p->more >= 0) {
        s = p->is_far ? x[AN] + x[BN] * p->more : x[AL] + x[BL] * p->more;
    }
    const double s_log = log(s), g = x[G];
    const double smaller = exp(-g * fabs(a_log - s_log)); /* of both powers, to the larger */
    const double both_log = fmax(a_log, s_log) + log1p(smaller) / g;
    const double u = (a_log >= s_log ? 1 : smaller) / (1 + smaller), v = 1 - u;
    const double e1 = a_log - p->pass_log, e2 = both_log - p->step_log;
    const double q1 = p->share * e1, q2 = p->share * e2;
    sums->pass += q1 * e1;
    sums->step += q2 * e2;
    sums->pass_gradient[AG] += q1 / a;
    sums->pass_gradient[BG] += p->batch * q1 / a;
    sums->step_gradient[AG] += q2 * u / a;
    sums->step_gradient[BG] += p->batch * q2 * u / a;
    sums->step_gradient[G] += q2 * ((u * a_log + v * s_log) / g - both_log / g);
    if (p->more >= 0) {
        sums->step_gradient[p->is_far ? AN : AL] += q2 * v / s;
        sums->step_gradient[p->is_far ? BN : BL] += p->more * q2 * v / s;
    }
}

static double loss_of(const double *x, const struct point *points, size_t count, double *gradient) {
    struct sums sums = {0};
    for (size_t i = 0; i < count; i++) {
        add_point(x, &points[i], &sums);
    }
    const double r1 = sqrt(sums.pass), r2 = sqrt(sums.step);
    const double far = x[BN] / x[AN], near = x[BL] / x[AL], bent = x[G] - 1;
    for (int i = 0; i < NUMBERS; i++) {
        gradient[i] = (r1 > 0 ? sums.pass_gradient[i] / r1 : 0) + (r2 > 0 ? sums.step_gradient[i] / r2 : 0);
    }
    gradient[G] += 2e-3 * bent;
    gradient[AN] -= 2e-2 * far * far / x[AN];
    gradient[BN] += 2e-2 * far / x[AN];
    gradient[AL] -= 2e-2 * near * near / x[AL];
    gradient[BL] += 2e-2 * near / x[AL];
    return r1 + r2 + 1e-3 * bent * bent + 1e-2 * (far * far + near * near);
}

int tide_goodput_loss(const struct tide_throughput *perf, const struct tide_throughput_row *rows, size_t count,
                      double *loss, double *gradient) {
    struct point *points = points_of(rows, count);
    double x[NUMBERS];
    if (!points) {
        return TIDE_ENOMEM;
    }
    to_list(perf, x);
    *loss = loss_of(x, points, count, gradient);
    tide_free(points);
    return 0;
}

/* In logarithms of all numbers but g, where the loss is about as steep in every direction, or in
 * the numbers themselves, which also find back from their bounds. */
struct search {
    const struct point *points;
    size_t count;
    bool in_logarithms;
    double low[NUMBERS], high[NUMBERS]; /* equal: pinned */
    double x[NUMBERS], gradient[NUMBERS], loss;
    double inverse[NUMBERS][NUMBERS]; /* of the curvature */
};

static double evaluate(const struct search *f, const double *x, double *gradient) {
    double plain[NUMBERS];
    for (int i = 0; i < NUMBERS; i++) {
        plain[i] = f->in_logarithms && i != G ? exp(x[i]) : x[i];
    }
    const double loss = loss_of(plain, f->points, f->count, gradient);
    for (int i = 0; f->in_logarithms && i < G; i++) {
        gradient[i] *= plain[i];
    }
    return loss;
}

static void change_coordinates(struct search *f) {
    f->in_logarithms = !f->in_logarithms;
    for (int i = 0; i < G; i++) {
        f->x[i] = f->in_logarithms ? log(f->x[i]) : exp(f->x[i]);
        f->low[i] = f->in_logarithms ? log(f->low[i]) : fmax(exp(f->low[i]), LEAST);
        f->high[i] = f->in_logarithms ? log(f->high[i]) : fmax(exp(f->high[i]), LEAST);
        f->x[i] = fmin(fmax(f->x[i], f->low[i]), f->high[i]); /* rounding */
    }
}

static void forget_curvature(struct search *f) {
    memset(f->inverse, 0, sizeof f->inverse);
    for (int i = 0; i < NUMBERS; i++) {
        f->inverse[i][i] = 1;
    }
}

/* May x[i] go the way that the gradient says? */
static bool is_free(const struct search *f, int i) {
    return f->low[i] < f->high[i] && !(f->x[i] <= f->low[i] && f->gradient[i] > 0) &&
           !(f->x[i] >= f->high[i] && f->gradient[i] < 0);
}

/* The quasi-Newton direction among the free numbers; 0: there is no way down. */
static double direction(const struct search *f, double *d) {
    double slope = 0;
    for (int i = 0; i < NUMBERS; i++) {
        d[i] = 0;
        for (int j = 0; j < NUMBERS && is_free(f, i); j++) {
            d[i] -= is_free(f, j) ? f->inverse[i][j] * f->gradient[j] : 0;
        }
        slope += d[i] * f->gradient[i];
    }
    return slope < 0 ? slope : 0;
}

static void step_to(const struct search *f, const double *d, double t, double *x) {
    for (int i = 0; i < NUMBERS; i++) {
        x[i] = fmin(fmax(f->x[i] + t * d[i], f->low[i]), f->high[i]);
    }
}

/* A step that is long enough and not too long (Lewis and Overton 2013, weak Wolfe by bisection,
 * which also copes with the kink of a perfect fit), onto the bounds. False: none is better. */
static bool line_search(const struct search *f, const double *d, double t, struct search *to) {
    double shortest = 0, longest = INFINITY;
    bool is_found = false;
    for (int i = 0; i < SEARCH_MAX; i++) {
        double x[NUMBERS], gradient[NUMBERS], slope = 0, slope_there = 0;
        step_to(f, d, t, x);
        const double loss = evaluate(f, x, gradient);
        for (int j = 0; j < NUMBERS; j++) {
            slope += f->gradient[j] * (x[j] - f->x[j]);
            slope_there += gradient[j] * (x[j] - f->x[j]);
        }
        if (!(loss <= f->loss + 1e-4 * slope) || !(loss < f->loss)) {
            longest = t;
        } else {
            memcpy(to->x, x, sizeof x);
            memcpy(to->gradient, gradient, sizeof gradient);
            to->loss = loss;
            is_found = true;
            if (slope_there >= 0.9 * slope) {
                break;
            }
            shortest = t;
        }
        t = isinf(longest) ? 2 * t : (shortest + longest) / 2;
    }
    return is_found;
}

/* The update of Broyden, Fletcher, Goldfarb and Shanno. */
static void learn_curvature(struct search *f, const struct search *to) {
    double s[NUMBERS], y[NUMBERS], hy[NUMBERS], sy = 0, yhy = 0;
    for (int i = 0; i < NUMBERS; i++) {
        s[i] = to->x[i] - f->x[i];
        y[i] = f->low[i] < f->high[i] ? to->gradient[i] - f->gradient[i] : 0;
        sy += s[i] * y[i];
    }
    if (!(sy > 1e-14)) {
        forget_curvature(f);
        return;
    }
    for (int i = 0; i < NUMBERS; i++) {
        hy[i] = 0;
        for (int j = 0; j < NUMBERS; j++) {
            hy[i] += f->inverse[i][j] * y[j];
        }
        yhy += y[i] * hy[i];
    }
    for (int i = 0; i < NUMBERS; i++) {
        for (int j = 0; j < NUMBERS; j++) {
            f->inverse[i][j] += (1 + yhy / sy) * s[i] * s[j] / sy - (hy[i] * s[j] + s[i] * hy[j]) / sy;
        }
    }
}

static void minimise(struct search *f) {
    int flat = 0; /* searches in a row that gained next to nothing */
    bool is_first = true;
    forget_curvature(f);
    f->loss = evaluate(f, f->x, f->gradient);
    for (int i = 0; i < STEPS_MAX && flat < 2; i++) {
        double d[NUMBERS], norm = 0;
        struct search to = *f;
        if (direction(f, d) == 0) {
            forget_curvature(f);
            if (direction(f, d) == 0) {
                return;
            }
        }
        for (int j = 0; j < NUMBERS; j++) {
            norm += fabs(d[j]);
        }
        if (!line_search(f, d, is_first ? fmin(1, 0.1 / norm) : 1, &to)) {
            forget_curvature(f);
            is_first = true;
            flat++;
            continue;
        }
        flat = f->loss - to.loss < 1e-6 * f->loss ? flat + 1 : 0;
        learn_curvature(f, &to);
        memcpy(f->x, to.x, sizeof f->x);
        memcpy(f->gradient, to.gradient, sizeof f->gradient);
        f->loss = to.loss;
        is_first = false;
    }
}

static void pin(struct search *f, int number, double value) {
    f->x[number] = f->low[number] = f->high[number] = value;
}

struct seen { /* what the rows cover */
    bool batches, far, near, many;
    double pass_mean;
};

static int look(const struct tide_throughput_row *rows, size_t count, struct seen *seen) {
    *seen = (struct seen){0};
    if (count == 0) {
        return tide_fail(TIDE_EINVAL, "no row to fit");
    }
    for (size_t i = 0; i < count; i++) {
        const struct tide_throughput_row *r = &rows[i];
        if (!(r->machines >= 1 && r->slots >= r->machines && r->batch > 0 && r->pass_s > 0 && r->step_s > 0 &&
              r->weight > 0 && r->slots < 1e9 && r->batch < 1e15 && r->pass_s < 1e9 && r->step_s < 1e9 &&
              r->weight < 1e9)) {
            return tide_fail(TIDE_EINVAL,
                             "row %zu: machines, slots >= machines, batch, seconds and weight must "
                             "be positive numbers",
                             i + 1);
        }
        seen->batches = seen->batches || r->batch != rows[0].batch;
        seen->far = seen->far || r->machines > 1;
        seen->near = seen->near || (r->machines <= 1 && r->slots > 1);
        seen->many = seen->many || r->slots > 2;
        seen->pass_mean += r->pass_s / (double)count;
    }
    return 0;
}

int tide_goodput_fit(const struct tide_throughput_row *rows, size_t count, struct tide_throughput *perf, double *loss) {
    struct seen seen;
    const int code = look(rows, count, &seen);
    if (code < 0) {
        return code;
    }
    struct point *points = points_of(rows, count);
    if (!points) {
        return TIDE_ENOMEM;
    }
    struct search f = {.points = points, .count = count};
    for (int i = 0; i < NUMBERS; i++) {
        f.low[i] = i == G ? 1 : LEAST;
        f.high[i] = i == G ? 10 : INFINITY;
        f.x[i] = i == G ? 1.001 : i == AG || i == AL || i == AN ? 0.1 : 0.01;
    }
    if (!seen.batches) {
        pin(&f, AG, seen.pass_mean / 2);
    }
    if (!seen.far) {
        pin(&f, AN, LEAST);
        pin(&f, BN, LEAST);
    }
    if (!seen.near) {
        pin(&f, AL, LEAST);
        pin(&f, BL, LEAST);
    }
    if (!seen.many) {
        pin(&f, BN, LEAST);
        pin(&f, BL, LEAST);
    }
    change_coordinates(&f);
    for (int round = 0; round < ROUNDS; round++) {
        const double before = f.loss;
        minimise(&f);
        change_coordinates(&f);
        minimise(&f);
        if (round > 0 && before - f.loss < 1e-4 * f.loss) {
            break;
        }
        change_coordinates(&f);
    }
    if (f.in_logarithms) {
        change_coordinates(&f);
    }
    if (!seen.far) {
        f.x[AN] = fmax(f.x[AN], 1.1 * f.x[AL]);
        f.x[BN] = fmax(f.x[BN], 1.1 * f.x[BL]);
    }
    from_list(f.x, perf);
    *loss = f.loss;
    tide_free(points);
    return 0;
}

/* ---- the best batch ---- */

static double ceil_about(double x) {
    return ceil(x - ROUNDING);
}

/* Extra passes so that a pass has at most `high` examples. One gradient alone shows no noise. */
static double passes_of(const struct tide_goodput_job *job, double slots, double local) {
    const double passes = fmax(ceil_about(local / job->high) - 1, 0);
    return slots == 1 && local > job->start + ROUNDING ? fmax(passes, 1) : passes;
}

static double within_max(const struct tide_goodput_job *job, double slots, double batch, double passes_extra) {
    return fmin(batch, floor(job->max / (slots * (passes_extra + 1))));
}

int tide_goodput_fixed(const struct tide_goodput_job *job, double slots, double total, double *batch,
                       double *passes_extra) {
    const double local = ceil_about(total / slots);
    double passes = fmax(ceil_about(local / job->high) - 1, 0);
    if (slots == 1 && total > job->start) {
        passes = fmax(passes, 1);
    }
    const double m = within_max(job, slots, ceil_about(local / (passes + 1)), passes);
    if (!(m >= 1)) {
        return tide_fail(TIDE_ERANGE, "a batch of %g leaves %g slots without an example", job->max, slots);
    }
    *batch = m;
    *passes_extra = passes;
    return 0;
}

static double efficiency_of(const struct tide_goodput_job *job, double total) {
    if (job->start == job->max) {
        return 1;
    }
    const double scale = total / job->start;
    return (job->var + job->sqr) / (job->var / scale + job->sqr) / scale;
}

int tide_goodput_best(const struct tide_goodput_job *job, double machines, double slots,
                      struct tide_goodput_choice *choice) {
    const double least = fmax(job->start, job->low * slots);
    struct tide_goodput_choice best = {.goodput = -1};
    if (!(least <= job->max) || !(slots >= 1)) {
        return tide_fail(TIDE_ERANGE, "%g slots need a batch of %g, at most %g is allowed", slots, least, job->max);
    }
    const double ratio = log(job->max / least) / (CANDIDATES - 1);
    for (int i = 0; i < (ratio > 0 ? CANDIDATES : 1); i++) {
        const double total = i == CANDIDATES - 1 ? job->max : least * exp(ratio * i);
        const double passes = passes_of(job, slots, total / slots);
        const double m = ceil_about(total / slots / (passes + 1));
        if (m < job->low || m > job->high) {
            continue;
        }
        const double real = slots * m * (passes + 1);
        const double seconds = tide_goodput_seconds(&job->perf, machines, slots, m, passes);
        const double efficiency = efficiency_of(job, real);
        if (real / seconds * efficiency > best.goodput) {
            best = (struct tide_goodput_choice){real / seconds * efficiency, m, passes, seconds, efficiency};
        }
    }
    if (best.goodput < 0) {
        return tide_fail(TIDE_ERANGE, "no batch on %g slots has %g to %g examples a pass", slots, job->low, job->high);
    }
    best.batch = within_max(job, slots, best.batch, best.passes_extra);
    *choice = best;
    return 0;
}

/* ---- gradient noise ---- */

int tide_noise_update(struct tide_noise *noise, const struct tide_noise_sample *s) {
    if (!(s->count >= 2 && s->batch > 0 && s->start > 0)) {
        return tide_fail(TIDE_EINVAL, "%g gradients of %g examples show no noise", s->count, s->batch);
    }
    if (!isfinite(s->local) || !isfinite(s->total)) {
        noise->skipped++;
        return 0;
    }
    if (noise->biased && !s->biased) {
        *noise = (struct tide_noise){.skipped = noise->skipped};
    } else if (!noise->biased && s->biased && noise->weight > 0) {
        return 0; /* what is known already is better */
    }
    const double scale = s->batch / s->start, keep = pow(FORGET, scale);
    const double sqr = (s->count * s->total - s->local) / (s->count - 1);
    const double var = (s->local - s->total) * scale / (s->count - 1);
    noise->biased = s->biased;
    noise->sums[0] = keep * noise->sums[0] + (1 - keep) * sqr;
    noise->sums[1] = keep * noise->sums[1] + (1 - keep) * var;
    noise->weight = keep * noise->weight + (1 - keep);
    noise->sqr = noise->sums[0] / noise->weight;
    noise->var = noise->sums[1] / noise->weight;
    return 0;
}
