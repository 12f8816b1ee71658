/*
 * cosine_nearest and cosine_pairs: how alike the rows of chosen keys are, for the evaluation of
 * embeddings. The rows are pulled once; their products are a matrix product by blocks. Rows of
 * length 0 and rows with a NaN are like nothing: cosine 0.
 */
#include "arguments.h"
#include "tensor/cpu/gemm.h"
#include "kernels.h"
#include "models/rows_batch.h"

#include <math.h>
#include <string.h>

enum { BLOCK = 64, CHUNK = 4096, NEAREST_MOST = 100 };

/* Rows of `keys`, each scaled to length 1. */
static int pull_units(const struct tide_rows *rows, const uint64_t *keys, size_t count, float *units) {
    int code = 0;
    for (size_t at = 0; at < count && !code; at += CHUNK) {
        size_t some = count - at < CHUNK ? count - at : CHUNK;
        code = rows->pull(rows->table, keys + at, some, units + at * rows->width);
    }
    for (size_t i = 0; i < count && !code; i++) {
        float *unit = units + i * rows->width;
        double square = 0;
        for (size_t j = 0; j < rows->width; j++) {
            square += (double)unit[j] * (double)unit[j];
        }
        bool any = square > 0 && isfinite(square);
        float scale = any ? (float)(1 / sqrt(square)) : 0;
        for (size_t j = 0; j < rows->width; j++) {
            unit[j] = any ? unit[j] * scale : 0;
        }
    }
    return code;
}

static int failed(char *error, int code) {
    return tide_kernel_fail(error, code, "cosine: %.200s",
                            code == TIDE_ENOMEM ? "out of memory" : tide_error_message());
}

/* ---- the nearest among some keys ---- */

enum { ROWS, KEYS, OUT, SCORES, NEAREST_PARAMETERS };

static const struct tide_parameter nearest_parameters[NEAREST_PARAMETERS] = {
    [ROWS] = {"rows", TIDE_ROWS, 0, true, 0, "the table"},
    [KEYS] = {"keys", TIDE_TENSOR, TIDE_U64, true, 0, "n keys: the candidates"},
    [OUT] = {"out", TIDE_TENSOR, TIDE_U32, true, 0,
             "n x k, filled: positions in keys (from 0) of the k nearest of each, best first"},
    [SCORES] = {"scores", TIDE_TENSOR, TIDE_F32, false, 0, "n x k, filled: their cosines"},
};

struct best {
    uint32_t *positions;
    float *scores;
    size_t limit, size;
};

/* Of equal scores the earlier position comes first. */
static void offer(struct best *best, uint32_t position, float score) {
    if (best->size == best->limit && !(score > best->scores[best->size - 1])) {
        return;
    }
    size_t at = best->size < best->limit ? best->size++ : best->size - 1;
    for (; at > 0 && score > best->scores[at - 1]; at--) {
        best->scores[at] = best->scores[at - 1];
        best->positions[at] = best->positions[at - 1];
    }
    best->scores[at] = score;
    best->positions[at] = position;
}

struct nearest {
    struct tide_rows rows;
    const uint64_t *keys;
    size_t count, limit;
    uint32_t *out;
    float *scores, *own_scores, *units, *products;
};

static int nearest_search(struct nearest *n) {
    size_t d = n->rows.width;
    int code = pull_units(&n->rows, n->keys, n->count, n->units);
    for (size_t from = 0; from < n->count && !code; from += BLOCK) {
        size_t block = n->count - from < BLOCK ? n->count - from : BLOCK;
        code = tide_cpu_gemm(false, true, block, n->count, d, 1, n->units + from * d, d, n->units, d, 0, n->products,
                             n->count);
        for (size_t i = 0; i < block && !code; i++) {
            float *scores = n->scores ? n->scores + (from + i) * n->limit : n->own_scores;
            struct best best = {n->out + (from + i) * n->limit, scores, n->limit, 0};
            for (size_t j = 0; j < n->count; j++) {
                if (j != from + i) {
                    offer(&best, (uint32_t)j, n->products[i * n->count + j]);
                }
            }
        }
    }
    return code;
}

static int nearest_run(const struct tide_argument *arguments, struct tide_result *results, char *error) {
    const struct tide_tensor *keys = &arguments[KEYS].tensor, *out = &arguments[OUT].tensor;
    const struct tide_tensor *scores = arguments[SCORES].given ? &arguments[SCORES].tensor : NULL;
    struct nearest n = {.rows = arguments[ROWS].rows,
                        .keys = keys->data,
                        .count = keys->rows * keys->columns,
                        .limit = out->columns,
                        .out = out->data,
                        .scores = scores ? scores->data : NULL};
    if (out->rows != n.count || n.limit < 1 || n.limit > NEAREST_MOST || n.limit >= n.count || n.count > UINT32_MAX) {
        return tide_kernel_fail(error, TIDE_EINVAL, "out: %zu x %zu; %zu keys need %zu x 1 to %d, fewer than keys",
                                out->rows, out->columns, n.count, n.count, NEAREST_MOST);
    }
    if (scores && (scores->rows != out->rows || scores->columns != out->columns)) {
        return tide_kernel_fail(error, TIDE_EINVAL, "scores: %zu x %zu, but out is %zu x %zu", scores->rows,
                                scores->columns, out->rows, out->columns);
    }
    n.units = tide_batch_floats(n.count, n.rows.width);
    n.products = tide_batch_floats(BLOCK, n.count);
    n.own_scores = tide_batch_floats(1, n.limit);
    int code = n.units && n.products && n.own_scores ? nearest_search(&n) : TIDE_ENOMEM;
    tide_workspace_free(n.units);
    tide_workspace_free(n.products);
    tide_workspace_free(n.own_scores);
    if (code) {
        return failed(error, code);
    }
    results[0] = (struct tide_result){"keys", (double)n.count};
    return 1;
}

const struct tide_kernel tide_kernel_cosine_nearest = {
    "cosine_nearest", "For each of some keys the others whose rows point most in its direction.", nearest_parameters,
    NEAREST_PARAMETERS, nearest_run};

/* ---- pairs ---- */

enum { PAIR_ROWS, PAIR_KEYS, PAIRS, PAIR_OUT, PAIR_PARAMETERS };

static const struct tide_parameter pair_parameters[PAIR_PARAMETERS] = {
    [PAIR_ROWS] = {"rows", TIDE_ROWS, 0, true, 0, "the table"},
    [PAIR_KEYS] = {"keys", TIDE_TENSOR, TIDE_U64, true, 0, "n keys"},
    [PAIRS] = {"pairs", TIDE_TENSOR, TIDE_U32, true, 0, "m x 2: positions in keys, from 0"},
    [PAIR_OUT] = {"out", TIDE_TENSOR, TIDE_F32, true, 0, "m, filled: the cosine of each pair"},
};

static int pairs_run(const struct tide_argument *arguments, struct tide_result *results, char *error) {
    const struct tide_rows *rows = &arguments[PAIR_ROWS].rows;
    const struct tide_tensor *keys = &arguments[PAIR_KEYS].tensor;
    const struct tide_tensor *pairs = &arguments[PAIRS].tensor, *out = &arguments[PAIR_OUT].tensor;
    size_t key_count = keys->rows * keys->columns, count = out->rows * out->columns;
    const uint32_t *at = pairs->data;
    if (pairs->rows * pairs->columns != 2 * count) {
        return tide_kernel_fail(error, TIDE_EINVAL, "out: %zu values for %zu x %zu positions", count, pairs->rows,
                                pairs->columns);
    }
    for (size_t i = 0; i < 2 * count; i++) {
        if (at[i] >= key_count) {
            return tide_kernel_fail(error, TIDE_EINVAL, "pair %zu: position %u of %zu keys", i / 2, at[i], key_count);
        }
    }
    float *units = tide_batch_floats(key_count, rows->width), *cosines = out->data;
    int code = units ? pull_units(rows, keys->data, key_count, units) : TIDE_ENOMEM;
    for (size_t i = 0; i < count && !code; i++) {
        const float *x = units + at[2 * i] * (size_t)rows->width;
        const float *y = units + at[2 * i + 1] * (size_t)rows->width;
        float sum = 0;
        for (size_t j = 0; j < rows->width; j++) {
            sum += x[j] * y[j];
        }
        cosines[i] = sum;
    }
    tide_workspace_free(units);
    if (code) {
        return failed(error, code);
    }
    results[0] = (struct tide_result){"pairs", (double)count};
    return 1;
}

const struct tide_kernel tide_kernel_cosine_pairs = {"cosine_pairs", "Cosines of pairs of rows.", pair_parameters,
                                                     PAIR_PARAMETERS, pairs_run};
