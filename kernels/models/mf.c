/*
 * The kernels of matrix factorisation: mf_sgd_block (training), mf_error and mf_loss (evaluation),
 * rows_restore (back to values that were kept).
 *
 * Training works on a block of cells that no other worker's block shares a row or a column with
 * (DSGD: Gemulla et al., KDD 2011); then the factors are those of one worker that does the blocks
 * one after the other, bit for bit.
 */
#include "models/mf.h"

#include "base/base.h"
#include "arguments.h"
#include "kernels.h"
#include "tensor/cpu/vector.h"

enum { AHEAD = 4, LINE = 64 / sizeof(float) }; /* cells; floats of a cache line */

/* ---- the step ---- */

/* w . h, and |w|^2 and |h|^2 for the bound below. */
TIDE_BODY float products_body(size_t d, const float *w, const float *h, float norms[2]) {
    tide_v8 dot = {0}, ww = {0}, hh = {0};
    size_t i = 0;
    for (; i + 8 <= d; i += 8) {
        tide_v8 a = TIDE_V8C(w + i), b = TIDE_V8C(h + i);
        dot += a * b;
        ww += a * a;
        hh += b * b;
    }
    float sums[3] = {0};
    for (int j = 0; j < 4; j++) {
        sums[0] += dot[j] + dot[j + 4];
        sums[1] += ww[j] + ww[j + 4];
        sums[2] += hh[j] + hh[j + 4];
    }
    for (; i < d; i++) {
        sums[0] += w[i] * h[i];
        sums[1] += w[i] * w[i];
        sums[2] += h[i] * h[i];
    }
    norms[0] = sums[1];
    norms[1] = sums[2];
    return sums[0];
}

/* w += a h - b w, h += a w - c h, from the old values. */
TIDE_BODY void update_body(size_t d, float a, float b, float c, float *w, float *h) {
    size_t i = 0;
    for (; i + 8 <= d; i += 8) {
        tide_v8 x = TIDE_V8C(w + i), y = TIDE_V8C(h + i);
        TIDE_V8(w + i) = x + (a * y - b * x);
        TIDE_V8(h + i) = y + (a * x - c * y);
    }
    for (; i < d; i++) {
        float x = w[i], y = h[i];
        w[i] = x + (a * y - b * x);
        h[i] = y + (a * x - c * y);
    }
}

static float cut(float update) {
    return update > MF_UPDATE_MOST ? MF_UPDATE_MOST : update < -MF_UPDATE_MOST ? -MF_UPDATE_MOST : update;
}

static void update_cut(size_t d, float a, float b, float c, float *w, float *h) {
    for (size_t i = 0; i < d; i++) {
        float x = w[i], y = h[i];
        w[i] = x + cut(a * y - b * x);
        h[i] = y + cut(a * x - c * y);
    }
}

TIDE_BODY float step_body(size_t d, float x, float eps, float decay_w, float decay_h, float *w, float *h) {
    float norms[2], e = x - products_body(d, w, h, norms);
    float a = 2 * eps * e, b = 2 * eps * decay_w, c = 2 * eps * decay_h;
    /* No component is longer than its vector, so almost never is there anything to cut: the bound
     * is squared, (p + q)^2 <= 2 p^2 + 2 q^2, and is false for NaN. */
    float both = 2 * a * a, most = MF_UPDATE_MOST * MF_UPDATE_MOST;
    if (both * norms[1] + 2 * b * b * norms[0] <= most && both * norms[0] + 2 * c * c * norms[1] <= most) {
        update_body(d, a, b, c, w, h);
    } else {
        update_cut(d, a, b, c, w, h);
    }
    return e;
}

TIDE_VECTOR_FUNCTION(float, step, (size_t d, float x, float eps, float decay_w, float decay_h, float *w, float *h),
                     (d, x, eps, decay_w, decay_h, w, h))
TIDE_BODY float dot_body(size_t d, const float *w, const float *h) {
    return tide_dot_body(d, w, h);
}
TIDE_VECTOR_FUNCTION(float, dot, (size_t d, const float *w, const float *h), (d, w, h))

float mf_step(size_t width, float x, float eps, float decay_w, float decay_h, float *w, float *h) {
    return step(width, x, eps, decay_w, decay_h, w, h);
}

/* ---- arguments that all share ---- */

enum { ROWS, COLUMNS, COLUMN_BASE, CELLS, VALUES, SHARED };

#define SHARED_PARAMETERS                                                                                              \
    [ROWS] = {"rows", TIDE_ROWS, 0, true, 0, "table: a row's factor w_i under key i"},                                 \
    [COLUMNS] =                                                                                                        \
        {"columns", TIDE_ROWS, 0,                                                                                      \
         false,     0,         "table: a column's factor h_j under key column_base + j; absent: that of rows"},        \
    [COLUMN_BASE] = {"column_base", TIDE_NUMBER, 0, false, 0, "key of column 0"},                                      \
    [CELLS] = {"cells", TIDE_TENSOR, TIDE_U32, true, 0, "n x 2: row and column, from 0"},                              \
    [VALUES] = {"values", TIDE_TENSOR, TIDE_F32, true, 0, "n: the cells' values"}

static int shared(const struct tide_kernel *kernel, const struct tide_argument *arguments, struct mf_chunks *chunks,
                  char *error) {
    const struct tide_tensor *cells = &arguments[CELLS].tensor, *values = &arguments[VALUES].tensor;
    const struct tide_rows *w = &arguments[ROWS].rows;
    const struct tide_rows *h = arguments[COLUMNS].given ? &arguments[COLUMNS].rows : w;
    size_t count = values->rows * values->columns;
    if (cells->rows * cells->columns != 2 * count || (count && cells->columns != 2)) {
        return tide_kernel_fail(error, TIDE_EINVAL, "cells: %zu x %zu, but there are %zu values", cells->rows,
                                cells->columns, count);
    }
    if (count >= UINT32_MAX) {
        return tide_kernel_fail(error, TIDE_ELIMIT, "cells: %zu are more than 2^32 - 2", count);
    }
    if (w->width != h->width) {
        return tide_kernel_fail(error, TIDE_EINVAL, "rows have %u values, columns %u", w->width, h->width);
    }
    *chunks = (struct mf_chunks){.cells = cells->data, .values = values->data, .cell_count = count};
    chunks->sides[0].table = *w;
    chunks->sides[1].table = *h;
    return tide_kernel_whole(kernel, arguments, COLUMN_BASE, 0, UINT64_C(1) << 52, &chunks->sides[1].base, error);
}

static int failed(const struct mf_chunks *chunks, int code, char *error) {
    return tide_kernel_fail(error, code, "after %zu cells: %.200s", chunks->at,
                            code == TIDE_ENOMEM ? "out of memory" : tide_error_message());
}

/* ---- training ---- */

enum { ROW_COUNTS = SHARED, COLUMN_COUNTS, EPS, LAMBDA, SEED, CHUNK_BYTES, SGD_PARAMETERS };

static const struct tide_parameter sgd_parameters[SGD_PARAMETERS] = {
    SHARED_PARAMETERS,
    [ROW_COUNTS] = {"row_counts", TIDE_TENSOR, TIDE_U32, true, 0, "training cells of every row"},
    [COLUMN_COUNTS] = {"column_counts", TIDE_TENSOR, TIDE_U32, true, 0, "training cells of every column"},
    [EPS] = {"eps", TIDE_NUMBER, 0, true, 0, "step size"},
    [LAMBDA] = {"lambda", TIDE_NUMBER, 0, false, 0.05, "weight of |W|^2 + |H|^2 in the loss"},
    [SEED] = {"seed", TIDE_NUMBER, 0, false, 0,
              "of a random order of the cells, another one for each block and epoch; absent: as "
              "they come"},
    [CHUNK_BYTES] = {"chunk_bytes", TIDE_NUMBER, 0, false, MF_CHUNK_BYTES,
                     "rows of each side that are held at once; part of what fixes the result"},
};

struct training {
    struct mf_chunks chunks;
    const uint32_t *counts[2];
    float *decays[2]; /* by place: lambda / count */
    float eps, lambda;
    double squares;   /* of errors before their step */
    uint64_t refused; /* chunks whose outcome was not finite: not pushed */
};

static int check_counts(const struct tide_argument *arguments, struct training *t, char *error) {
    const char *names[2] = {"row", "column"};
    for (int side = 0; side < 2; side++) {
        const struct tide_tensor *tensor = &arguments[ROW_COUNTS + side].tensor;
        const uint32_t *counts = tensor->data;
        size_t size = tensor->rows * tensor->columns;
        t->counts[side] = counts;
        for (size_t i = 0; i < t->chunks.cell_count; i++) {
            uint32_t index = t->chunks.cells[2 * i + (size_t)side];
            if (index >= size || counts[index] == 0) {
                return tide_kernel_fail(error, TIDE_ERANGE, "%s_counts: cell %zu is in %s %u, which has %s",
                                        names[side], i, names[side], index, index < size ? "the count 0" : "no count");
            }
        }
    }
    return 0;
}

/* Cells are in random order, and so their rows come: they are asked for before their turn. */
static void prefetch(const struct mf_chunks *chunks, size_t cell) {
    if (cell >= chunks->end) {
        return;
    }
    for (int side = 0; side < 2; side++) {
        const float *row = chunks->sides[side].rows + mf_place(chunks, side, cell) * chunks->width;
        for (size_t i = 0; i < chunks->width; i += LINE) {
            __builtin_prefetch(row + i, 1);
        }
    }
}

static void train_chunk(struct training *t) {
    struct mf_chunks *c = &t->chunks;
    for (int side = 0; side < 2; side++) {
        for (size_t i = 0; i < c->sides[side].count; i++) {
            const uint32_t index = mf_index(&c->sides[side], c->sides[side].indices[i]);
            t->decays[side][i] = t->lambda / (float)t->counts[side][index];
        }
    }
    for (size_t cell = c->at; cell < c->end; cell++) {
        size_t i = mf_place(c, 0, cell), j = mf_place(c, 1, cell);
        prefetch(c, cell + AHEAD);
        float e = step(c->width, c->values[cell], t->eps, t->decays[0][i], t->decays[1][j],
                       c->sides[0].rows + i * c->width, c->sides[1].rows + j * c->width);
        t->squares += (double)e * (double)e;
    }
}

static int train(struct training *t) {
    struct mf_chunks *c = &t->chunks;
    int more;
    while ((more = mf_chunks_next(c)) > 0) {
        train_chunk(t);
        if (!mf_chunks_subtract(c)) {
            t->refused++;
            t->squares = (double)INFINITY;
            continue;
        }
        int code = mf_chunks_push(c);
        if (code) {
            return code;
        }
    }
    return more;
}

/* The cells and their values, in a random order by `seed` unless that is NULL: a copy, so that all
 * passes over them are straight. *gives* both, also on failure. */
static int copied(const struct mf_chunks *c, const uint64_t *seed, uint32_t **cells, float **values) {
    *cells = tide_workspace_alloc(c->cell_count * 2 * sizeof **cells);
    *values = tide_workspace_alloc(c->cell_count * sizeof **values);
    if (!*cells || !*values) {
        return TIDE_ENOMEM;
    }
    if (!seed) {
        memcpy(*cells, c->cells, c->cell_count * 2 * sizeof **cells);
        memcpy(*values, c->values, c->cell_count * sizeof **values);
        return 0;
    }
    struct tide_random random;
    tide_random_seed(&random, *seed);
    for (size_t i = 0; i < c->cell_count; i++) { /* inside out: every order is equally likely */
        const size_t j = (size_t)tide_random_below(&random, i + 1);
        for (size_t side = 0; side < 2; side++) {
            (*cells)[2 * i + side] = (*cells)[2 * j + side];
            (*cells)[2 * j + side] = c->cells[2 * i + side];
        }
        (*values)[i] = (*values)[j];
        (*values)[j] = c->values[i];
    }
    return 0;
}

static int run_sgd(const struct tide_argument *arguments, struct tide_result *results, char *error) {
    const struct tide_kernel *k = &tide_kernel_mf_sgd_block;
    struct training t = {.squares = 0};
    uint64_t seed = 0, chunk_bytes = 0;
    int code = shared(k, arguments, &t.chunks, error);
    code = code ? code : tide_kernel_weight(k, arguments, EPS, &t.eps, error);
    code = code ? code : tide_kernel_weight(k, arguments, LAMBDA, &t.lambda, error);
    code = code ? code : tide_kernel_whole(k, arguments, SEED, 0, UINT64_C(1) << 53, &seed, error);
    code = code ? code : tide_kernel_whole(k, arguments, CHUNK_BYTES, 1, UINT64_C(1) << 40, &chunk_bytes, error);
    code = code ? code : check_counts(arguments, &t, error);
    if (code) {
        return code;
    }
    struct mf_chunks *c = &t.chunks;
    uint32_t *cells;
    float *values;
    code = copied(c, arguments[SEED].given ? &seed : NULL, &cells, &values);
    c->cells = c->own = cells;
    c->values = values;
    code = code ? code : mf_chunks_init(c, true, (size_t)chunk_bytes);
    for (int side = 0; side < 2 && !code; side++) {
        t.decays[side] = tide_alloc(c->sides[side].capacity * sizeof(float));
        code = t.decays[side] ? 0 : TIDE_ENOMEM;
    }
    code = code ? code : train(&t);
    mf_chunks_deinit(c);
    tide_workspace_free(cells);
    tide_workspace_free(values);
    tide_free(t.decays[0]);
    tide_free(t.decays[1]);
    if (code) {
        return failed(c, code, error);
    }
    const struct tide_result all[] = {{"loss", t.squares},           {"examples", (double)c->cell_count},
                                      {"pulled", (double)c->pulled}, {"pushed", (double)c->pushed},
                                      {"chunks", (double)c->chunks}, {"refused", (double)t.refused}};
    memcpy(results, all, sizeof all);
    return (int)TIDE_COUNT(all);
}

const struct tide_kernel tide_kernel_mf_sgd_block = {
    "mf_sgd_block",
    "Stochastic gradient descent over a block of known cells; loss: the squared errors before each "
    "step. Gemulla et al., KDD 2011, section 3.",
    sgd_parameters, SGD_PARAMETERS, run_sgd};

/* ---- evaluation ---- */

static int squared_error(struct mf_chunks *c, double *sum) {
    int code = mf_chunks_init(c, false, MF_CHUNK_BYTES), more = 0;
    while (!code && (more = mf_chunks_next(c)) > 0) {
        for (size_t i = c->at; i < c->end; i++) {
            const float *w = c->sides[0].rows + mf_place(c, 0, i) * c->width;
            const float *h = c->sides[1].rows + mf_place(c, 1, i) * c->width;
            double e = (double)(c->values[i] - dot(c->width, w, h));
            *sum += e * e;
        }
    }
    mf_chunks_deinit(c);
    return code ? code : more;
}

static const struct tide_parameter error_parameters[SHARED] = {SHARED_PARAMETERS};

static int run_error(const struct tide_argument *arguments, struct tide_result *results, char *error) {
    struct mf_chunks chunks;
    double sum = 0;
    int code = shared(&tide_kernel_mf_error, arguments, &chunks, error);
    if (code) {
        return code;
    }
    code = squared_error(&chunks, &sum);
    if (code) {
        return failed(&chunks, code, error);
    }
    results[0] = (struct tide_result){"sum", sum};
    results[1] = (struct tide_result){"count", (double)chunks.cell_count};
    return 2;
}

const struct tide_kernel tide_kernel_mf_error = {
    "mf_error", "Sum of the squared errors over known cells, and their number.", error_parameters, SHARED, run_error};

enum { LOSS_LAMBDA = SHARED, ROW_FIRST, ROW_COUNT, COLUMN_FIRST, COLUMN_COUNT, LOSS_PARAMETERS };

static const struct tide_parameter loss_parameters[LOSS_PARAMETERS] = {
    SHARED_PARAMETERS,
    [LOSS_LAMBDA] = {"lambda", TIDE_NUMBER, 0, false, 0.05, "weight of |W|^2 + |H|^2"},
    [ROW_FIRST] = {"row_first", TIDE_NUMBER, 0, false, 0, "first row whose |w|^2 counts here"},
    [ROW_COUNT] = {"row_count", TIDE_NUMBER, 0, false, 0, "rows whose |w|^2 counts here"},
    [COLUMN_FIRST] = {"column_first", TIDE_NUMBER, 0, false, 0, "the same for columns"},
    [COLUMN_COUNT] = {"column_count", TIDE_NUMBER, 0, false, 0, "the same for columns"},
};

/* Adds |row|^2 of the keys first .. first + count - 1. */
static int add_norms(const struct tide_rows *table, uint64_t first, uint64_t count, double *sum) {
    enum { PIECE = 1024 };
    uint64_t keys[PIECE];
    float *rows = tide_workspace_alloc(PIECE * table->width * sizeof(float));
    int code = rows ? 0 : TIDE_ENOMEM;
    while (count > 0 && !code) {
        size_t n = count < PIECE ? (size_t)count : PIECE;
        for (size_t i = 0; i < n; i++) {
            keys[i] = first + i;
        }
        code = table->pull(table->table, keys, n, rows);
        for (size_t i = 0; i < n && !code; i++) {
            const float *row = rows + i * table->width;
            *sum += (double)dot(table->width, row, row);
        }
        first += n;
        count -= n;
    }
    tide_workspace_free(rows);
    return code;
}

static int run_loss(const struct tide_argument *arguments, struct tide_result *results, char *error) {
    const struct tide_kernel *k = &tide_kernel_mf_loss;
    const uint64_t most = UINT32_MAX;
    struct mf_chunks chunks;
    uint64_t parts[4] = {0};
    double sum = 0, norms = 0;
    float lambda = 0;
    int code = shared(k, arguments, &chunks, error);
    code = code ? code : tide_kernel_weight(k, arguments, LOSS_LAMBDA, &lambda, error);
    for (size_t i = 0; i < 4 && !code; i++) {
        code = tide_kernel_whole(k, arguments, ROW_FIRST + i, 0, most, &parts[i], error);
    }
    if (code) {
        return code;
    }
    struct mf_side *w = &chunks.sides[0], *h = &chunks.sides[1];
    code = squared_error(&chunks, &sum);
    code = code ? code : add_norms(&w->table, parts[0], parts[1], &norms);
    code = code ? code : add_norms(&h->table, h->base + parts[2], parts[3], &norms);
    if (code) {
        return failed(&chunks, code, error);
    }
    const struct tide_result all[] = {{"loss", sum + (double)lambda * norms},
                                      {"error", sum},
                                      {"penalty", (double)lambda * norms},
                                      {"count", (double)chunks.cell_count}};
    memcpy(results, all, sizeof all);
    return (int)TIDE_COUNT(all);
}

const struct tide_kernel tide_kernel_mf_loss = {
    "mf_loss",
    "Sum of the squared errors over known cells, plus lambda (|W|^2 + |H|^2) over ranges of rows "
    "and columns.",
    loss_parameters, LOSS_PARAMETERS, run_loss};

/* ---- back to kept values ---- */

enum { RESTORE_ROWS, RESTORE_FIRST, RESTORE_VALUES, RESTORE_PARAMETERS, RESTORE_ROUNDS = 4 };

static const struct tide_parameter restore_parameters[RESTORE_PARAMETERS] = {
    [RESTORE_ROWS] = {"rows", TIDE_ROWS, 0, true, 0, "table with update \"add\""},
    [RESTORE_FIRST] = {"first", TIDE_NUMBER, 0, false, 0, "key of the first row"},
    [RESTORE_VALUES] = {"values", TIDE_TENSOR, TIDE_F32, true, 0,
                        "n x width: what the rows first .. first + n - 1 shall be"},
};

/* A difference between values of very different size is rounded, so one push comes close and the
 * next ones come there. */
static int restore_piece(const struct tide_rows *table, uint64_t first, size_t count, const float *values,
                         uint64_t *keys, float *rows) {
    size_t size = count * table->width;
    for (size_t i = 0; i < count; i++) {
        keys[i] = first + i;
    }
    for (int round = 0; round < RESTORE_ROUNDS; round++) {
        int code = table->pull(table->table, keys, count, rows);
        bool same = true;
        for (size_t i = 0; i < size && !code; i++) {
            same = same && rows[i] == values[i];
            rows[i] = values[i] - rows[i];
        }
        code = code || same ? code : table->push(table->table, keys, count, rows);
        if (code || same) {
            return code;
        }
    }
    return 0;
}

static int run_restore(const struct tide_argument *arguments, struct tide_result *results, char *error) {
    enum { PIECE = 1024 };
    const struct tide_rows *table = &arguments[RESTORE_ROWS].rows;
    const struct tide_tensor *values = &arguments[RESTORE_VALUES].tensor;
    uint64_t first = 0, keys[PIECE];
    size_t count = values->rows;
    int code =
        tide_kernel_whole(&tide_kernel_rows_restore, arguments, RESTORE_FIRST, 0, UINT64_C(1) << 52, &first, error);
    if (code) {
        return code;
    }
    if (values->columns != table->width) {
        return tide_kernel_fail(error, TIDE_EINVAL, "values: %zu columns, the table has %u", values->columns,
                                table->width);
    }
    float *rows = tide_workspace_alloc(PIECE * table->width * sizeof(float));
    code = rows ? 0 : TIDE_ENOMEM;
    for (size_t i = 0; i < count && !code; i += PIECE) {
        size_t n = count - i < PIECE ? count - i : PIECE;
        const float *piece = (const float *)values->data + i * table->width;
        code = restore_piece(table, first + i, n, piece, keys, rows);
    }
    tide_workspace_free(rows);
    if (code) {
        return tide_kernel_fail(error, code, "%.200s", code == TIDE_ENOMEM ? "out of memory" : tide_error_message());
    }
    results[0] = (struct tide_result){"count", (double)count};
    return 1;
}

const struct tide_kernel tide_kernel_rows_restore = {
    "rows_restore", "Brings rows of a table that adds back to values that were pulled before.", restore_parameters,
    RESTORE_PARAMETERS, run_restore};
