/*
 * Sparse coding (Olshausen and Field, Nature 381, 1996; the split of Lee et al., NIPS 2006): the
 * dictionary W has an atom a row, C x M; the code c of an example a minimises 1/2 |a - c W|^2 +
 * l |c|_1 with W fixed. Its factors are v = c and u = c W - a. Codes are found by coordinate
 * descent on the Gram matrix W W' (Friedman et al., "Pathwise coordinate optimization", 2007).
 * Atoms are kept at length 1 at most by project_rows.
 */
#include "factors.h"

#include <math.h>
#include <string.h>

enum { C_L1 = F_COMMON, C_SWEEPS, C_COUNT };
static const double TOLERANCE = 1e-6; /* a sweep that moves no coordinate further ends */

static const struct tide_parameter parameters[C_COUNT] = {
    TIDE_FACTOR_PARAMETERS,
    [C_L1] = {"l1", TIDE_NUMBER, 0, true, 0, "l, the weight of |c|_1; above 0"},
    [C_SWEEPS] = {"sweeps", TIDE_NUMBER, 0, false, 200, "at most so many over the coordinates"},
};

struct coding {
    struct factor_batch b; /* d: atoms, j: columns of an example */
    float *gram, *left;    /* W W'; W' a - gram c */
    float *code, *residual;
    float l1;
    uint64_t sweeps;
    double loss;
};

static float shrink(float x, float by) {
    return x > by ? x - by : x < -by ? x + by : 0;
}

/* Minimises over one coordinate after the other; leaves the code. */
static void descend(struct coding *s) {
    size_t atoms = s->b.d;
    memset(s->code, 0, atoms * sizeof *s->code);
    for (uint64_t sweep = 0; sweep < s->sweeps; sweep++) {
        double moved = 0;
        for (size_t c = 0; c < atoms; c++) {
            const float *restrict row = s->gram + c * atoms;
            float *restrict left = s->left;
            if (!(row[c] > 1e-12f)) { /* an atom of nothing explains nothing */
                continue;
            }
            float next = shrink(left[c] + row[c] * s->code[c], s->l1) / row[c];
            float change = next - s->code[c];
            if (change == 0) {
                continue;
            }
            s->code[c] = next;
            for (size_t k = 0; k < atoms; k++) {
                left[k] -= change * row[k];
            }
            moved = fmax(moved, fabs((double)change));
        }
        if (moved <= TOLERANCE) {
            break;
        }
    }
}

static int code_example(struct coding *s, size_t i, char *error) {
    const struct factor_batch *b = &s->b;
    struct factor_row row;
    int code = tide_factor_row(b, b->rows[i], &row, error);
    if (code < 0) {
        return code;
    }
    for (size_t c = 0; c < b->d; c++) {
        double sum = 0;
        for (size_t e = 0; e < row.count; e++) {
            sum += (double)row.values[e] * (double)b->w[c * b->j + row.indices[e]];
        }
        s->left[c] = (float)sum;
    }
    descend(s);
    memset(s->residual, 0, b->j * sizeof *s->residual);
    double norm1 = 0;
    for (size_t c = 0; c < b->d; c++) {
        if (s->code[c] == 0) {
            continue;
        }
        norm1 += fabs((double)s->code[c]);
        for (size_t m = 0; m < b->j; m++) {
            s->residual[m] += s->code[c] * b->w[c * b->j + m];
        }
    }
    tide_factor_spread(&row, -1, s->residual);
    s->loss += 0.5 * tide_factor_norm2(s->residual, b->j) + (double)s->l1 * norm1;
    if (b->u) {
        memcpy(b->u + i * b->j, s->residual, b->j * sizeof *b->u);
        memcpy(b->v + i * b->d, s->code, b->d * sizeof *b->v);
    }
    return 0;
}

static int run(const struct tide_argument *arguments, struct tide_result *results, char *error) {
    struct coding s = {.l1 = (float)arguments[C_L1].number};
    const struct tide_kernel *k = &tide_kernel_factors_coding;
    int code = tide_factor_batch(arguments, arguments[F_W].tensor.columns, &s.b, error);
    code = code ? code : tide_kernel_whole(k, arguments, C_SWEEPS, 1, 1 << 20, &s.sweeps, error);
    if (code == 0 && !(s.l1 > 0 && isfinite(s.l1))) {
        code = tide_kernel_fail(error, TIDE_EINVAL, "l1 must be above 0");
    }
    if (code < 0) {
        return code;
    }
    size_t atoms = s.b.d, columns = s.b.j;
    s.gram = tide_alloc((atoms * atoms + 2 * atoms + columns + 1) * sizeof *s.gram);
    if (!s.gram) {
        return tide_kernel_fail(error, TIDE_ENOMEM, "out of memory");
    }
    s.left = s.gram + atoms * atoms;
    s.code = s.left + atoms;
    s.residual = s.code + atoms;
    code = tide_cpu_gemm(false, true, atoms, atoms, columns, 1, s.b.w, columns, s.b.w, columns, 0, s.gram, atoms);
    for (size_t i = 0; i < s.b.count && code == 0; i++) {
        code = code_example(&s, i, error);
    }
    tide_free(s.gram);
    if (code < 0) {
        return code;
    }
    results[0] = (struct tide_result){"loss", s.loss};
    results[1] = (struct tide_result){"count", (double)s.b.count};
    results[2] = (struct tide_result){"nonzeros", tide_factor_nonzeros(&s.b, s.b.count)};
    results[3] = (struct tide_result){"factors", s.b.u ? (double)s.b.count : 0};
    return 4;
}

const struct tide_kernel tide_kernel_factors_coding = {
    "factors_coding",
    "Sparse coding: codes of a batch by coordinate descent, the summed objective 1/2 |a - c W|^2 + "
    "l |c|_1, and the factors u = c W - a, v = c.",
    parameters, C_COUNT, run};

/* ---- atoms ---- */

static const struct tide_parameter project_parameters[] = {
    {"w", TIDE_TENSOR, TIDE_F32, true, 0, "rows are made no longer than 1"}};

static int project(const struct tide_argument *arguments, struct tide_result *results, char *error) {
    const struct tide_tensor *w = &arguments[0].tensor;
    size_t shortened = 0;
    (void)error;
    for (size_t i = 0; i < w->rows; i++) {
        float *row = (float *)w->data + i * w->columns;
        double norm2 = tide_factor_norm2(row, w->columns);
        if (norm2 > 1) {
            float scale = (float)(1 / sqrt(norm2));
            for (size_t m = 0; m < w->columns; m++) {
                row[m] *= scale;
            }
            shortened++;
        }
    }
    results[0] = (struct tide_result){"shortened", (double)shortened};
    return 1;
}

const struct tide_kernel tide_kernel_project_rows = {
    "project_rows", "Projects the rows of a matrix into the unit ball.", project_parameters, 1, project};
