/*
 * Distance metric learning with pairs (Xing et al., NIPS 2002, in the form of Xie et al.'s SFB
 * paper): for d = x - x', similar pairs pay |d W|^2, dissimilar ones c max(0, 1 - |d W|^2). Factors
 * v = d and u = 2 d W, or u = -2 c d W; a dissimilar pair that is far enough apart has none.
 */
#include "factors.h"

#include <math.h>
#include <string.h>

enum { M_PAIRS = F_COMMON, M_SIMILAR, M_WEIGHT, M_COUNT };

static const struct tide_parameter parameters[M_COUNT] = {
    TIDE_FACTOR_PARAMETERS,
    [M_PAIRS] = {"pairs", TIDE_TENSOR, TIDE_U32, true, 0, "n x 2 numbers of examples; `rows` are numbers of pairs"},
    [M_SIMILAR] = {"similar", TIDE_TENSOR, TIDE_U8, true, 0, "of the pairs: 1 or 0"},
    [M_WEIGHT] = {"weight", TIDE_NUMBER, 0, false, 1, "c"},
};

struct metric {
    struct factor_batch b;
    const uint32_t *pairs;
    const uint8_t *similar;
    size_t pair_count, factors, right;
    float *z; /* d W */
    double weight, loss;
};

static int take_pair(struct metric *m, uint32_t pair, char *error) {
    struct factor_row rows[2];
    if (pair >= m->pair_count) {
        return tide_kernel_fail(error, TIDE_EINVAL, "there is no pair %u, only %zu", pair, m->pair_count);
    }
    memset(m->z, 0, m->b.j * sizeof *m->z);
    for (int side = 0; side < 2; side++) {
        int code = tide_factor_row(&m->b, m->pairs[2 * pair + (unsigned)side], &rows[side], error);
        if (code < 0) {
            return code;
        }
        tide_factor_scores(&m->b, &rows[side], side ? -1 : 1, m->z);
    }
    double distance = tide_factor_norm2(m->z, m->b.j);
    bool similar = m->similar[pair] != 0;
    m->loss += similar ? distance : m->weight * fmax(0, 1 - distance);
    m->right += similar == (distance < 0.5);
    if (!m->b.u || (!similar && distance >= 1)) {
        return 0;
    }
    float *u = m->b.u + m->factors * m->b.j, *v = m->b.v + m->factors * m->b.d;
    float scale = similar ? 2 : (float)(-2 * m->weight);
    for (size_t j = 0; j < m->b.j; j++) {
        u[j] = scale * m->z[j];
    }
    memset(v, 0, m->b.d * sizeof *v);
    tide_factor_spread(&rows[0], 1, v);
    tide_factor_spread(&rows[1], -1, v);
    m->factors++;
    return 0;
}

static int run(const struct tide_argument *arguments, struct tide_result *results, char *error) {
    const struct tide_tensor *pairs = &arguments[M_PAIRS].tensor;
    const struct tide_tensor *similar = &arguments[M_SIMILAR].tensor;
    struct metric m = {.pairs = pairs->data,
                       .similar = similar->data,
                       .pair_count = similar->rows * similar->columns,
                       .weight = arguments[M_WEIGHT].number};
    int code = tide_factor_batch(arguments, arguments[F_W].tensor.rows, &m.b, error);
    if (code == 0 && pairs->rows * pairs->columns != 2 * m.pair_count) {
        code = tide_kernel_fail(error, TIDE_EINVAL, "pairs requires two examples for each of similar");
    }
    if (code == 0 && !(m.weight >= 0 && isfinite(m.weight))) {
        code = tide_kernel_fail(error, TIDE_EINVAL, "weight must be 0 or more");
    }
    if (code == 0) {
        m.z = tide_alloc((m.b.j + 1) * sizeof *m.z);
        code = m.z ? 0 : tide_kernel_fail(error, TIDE_ENOMEM, "out of memory");
    }
    for (size_t i = 0; i < m.b.count && code == 0; i++) {
        code = take_pair(&m, m.b.rows[i], error);
    }
    tide_free(m.z);
    if (code < 0) {
        return code;
    }
    results[0] = (struct tide_result){"loss", m.loss};
    results[1] = (struct tide_result){"count", (double)m.b.count};
    results[2] = (struct tide_result){"correct", (double)m.right};
    results[3] = (struct tide_result){"factors", (double)m.factors};
    results[4] = (struct tide_result){"nonzeros", tide_factor_nonzeros(&m.b, m.factors)};
    return 5;
}

const struct tide_kernel tide_kernel_factors_metric = {
    "factors_metric",
    "Distance metric learning: the summed loss of a batch of pairs and the factors of those that "
    "have "
    "one, which come first in u and v; correct: pairs on the right side of distance 1/2.",
    parameters, M_COUNT, run};
