/*
 * lda_alpha: sums for the fixed point of the documents' prior (Minka, "Estimating a Dirichlet
 * distribution", 2000, equation 55): a_k := a_k sum_d [psi(n_kd + a_k) - psi(a_k)] / sum_d [psi(N_d
 * + A)
 * - psi(A)]. psi(n + a) - psi(a) is 1/a + .. + 1/(a + n - 1): a term a token as it is counted.
 * Terms are whole numbers of 2^-20, so sums have one value in whatever order they are made.
 */
#include "lda.h"

#include <math.h>

enum { OFFSETS, TOPICS, ALPHA, SUMS };
static const struct tide_parameter parameters[] = {
    [OFFSETS] = {"offsets", TIDE_TENSOR, 7, true, 0, "where each document begins in topics, and the end"},
    [TOPICS] = {"topics", TIDE_TENSOR, 0, true, 0, "u16 or u32: topic of each token"},
    [ALPHA] = {"alpha", TIDE_TENSOR, 1, true, 0, "prior of each topic"},
    [SUMS] = {"sums", TIDE_TENSOR, 6, true, 0, "topics + 1: the sum of each topic, and of all, in 2^-20, are added"},
};

const struct tide_kernel tide_kernel_lda_alpha;

static int run(const struct tide_argument *a, struct tide_result *results, char *error) {
    const struct tide_kernel *self = &tide_kernel_lda_alpha;
    const struct tide_tensor *alpha = &a[ALPHA].tensor;
    const size_t topics = alpha->rows * alpha->columns;
    const float *prior = alpha->data;
    struct lda_documents d;
    int64_t *sums = NULL;
    double all = 0;
    if (topics < 1 || topics > LDA_TOPICS_MOST) {
        return tide_kernel_fail(error, TIDE_EINVAL, "alpha: 1 to %d topics", LDA_TOPICS_MOST);
    }
    int code = lda_read_documents(self, a, OFFSETS, SIZE_MAX, TOPICS, 0, (uint32_t)topics, &d, error);
    code = code ? code : lda_read_vector(self, a, SUMS, topics + 1, &sums, error);
    if (code) {
        return code;
    }
    uint32_t *n = tide_alloc_zero(topics, sizeof *n);
    if (!n) {
        return tide_kernel_fail(error, TIDE_ENOMEM, "no memory for %zu topics", topics);
    }
    for (size_t k = 0; k < topics; k++) {
        all += (double)prior[k];
    }
    for (size_t i = 0; i < d.count; i++) {
        const size_t from = d.offsets[i], to = d.offsets[i + 1];
        for (size_t j = from; j < to; j++) {
            const uint32_t k = lda_topic(&d.z, j);
            sums[k] += llround(0x1p20 / ((double)prior[k] + n[k]++));
            sums[topics] += llround(0x1p20 / (all + (double)(j - from)));
        }
        for (size_t j = from; j < to; j++) {
            n[lda_topic(&d.z, j)] = 0;
        }
    }
    tide_free(n);
    results[0] = (struct tide_result){"documents", (double)d.count};
    return 1;
}

const struct tide_kernel tide_kernel_lda_alpha = {
    "lda_alpha", "Sums for the fixed point of the documents' prior. Minka 2000, equation 55.", parameters,
    TIDE_COUNT(parameters), run};
