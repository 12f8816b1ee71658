/*
 * lda_infer: topics of documents under fixed topics of words, and what they predict. theta is
 * fitted by expectation maximisation: g_ik ~ phi_kw theta_k, theta_k ~ a_k + sum_i g_ik. With
 * `score` a document is shuffled by its stream, the first half fits theta and the second is
 * predicted: document completion (Wallach, Murray, Salakhutdinov, Mimno, ICML 2009, section 5.1).
 */
#include "lda.h"

#include <math.h>
#include <string.h>

typedef float v8 __attribute__((vector_size(32), aligned(4), may_alias));
#define V8(pointer) (*(v8 *)(void *)(pointer))
#define V8C(pointer) (*(const v8 *)(const void *)(pointer))

enum { OFFSETS, WORDS, PHI, ALPHA, THETA, STEPS, SCORE, DOCUMENT, SEED };
static const struct tide_parameter parameters[] = {
    [OFFSETS] = {"offsets", TIDE_TENSOR, 7, true, 0, "where each document begins in words, and the end"},
    [WORDS] = {"words", TIDE_TENSOR, 9, true, 0, "row of phi of each token"},
    [PHI] = {"phi", TIDE_TENSOR, 1, true, 0, "p(w | k): a row a word, padded to 16 with zeros"},
    [ALPHA] = {"alpha", TIDE_TENSOR, 1, true, 0, "prior of each topic"},
    [THETA] = {"theta", TIDE_TENSOR, 1, false, 0, "documents x topics: set"},
    [STEPS] = {"steps", TIDE_NUMBER, 0, false, 50, "of expectation maximisation"},
    [SCORE] = {"score", TIDE_FLAG, 0, false, 0, "fit half of each document, predict the other"},
    [DOCUMENT] = {"document", TIDE_NUMBER, 0, false, 0, "number of the first document: names its shuffle"},
    [SEED] = {"seed", TIDE_NUMBER, 0, false, 0, "of the shuffles"},
};

const struct tide_kernel tide_kernel_lda_infer;

struct infer {
    const float *phi, *alpha;
    size_t width, topics, steps;
    float *theta, *next; /* width each */
};

/* next += phi theta / sum(phi theta) */
static void token_step(struct infer *f, const float *row) {
    v8 sum = {0};
    for (size_t k = 0; k < f->width; k += 8) {
        sum += V8C(row + k) * V8C(f->theta + k);
    }
    const float total = ((sum[0] + sum[4]) + (sum[1] + sum[5])) + ((sum[2] + sum[6]) + (sum[3] + sum[7]));
    if (!(total > 0)) {
        return;
    }
    const float scale = 1 / total;
    for (size_t k = 0; k < f->width; k += 8) {
        V8(f->next + k) += V8C(row + k) * V8C(f->theta + k) * scale;
    }
}

static void fit(struct infer *f, const uint32_t *words, size_t count) {
    for (size_t k = 0; k < f->topics; k++) {
        f->theta[k] = f->alpha[k];
    }
    for (size_t step = 0; step <= f->steps; step++) {
        double sum = 0;
        for (size_t k = 0; k < f->topics; k++) {
            sum += (double)f->theta[k];
        }
        for (size_t k = 0; k < f->topics; k++) {
            f->theta[k] = (float)((double)f->theta[k] / sum);
        }
        if (step == f->steps || count == 0) {
            break;
        }
        memcpy(f->next, f->alpha, f->topics * sizeof(float));
        for (size_t i = 0; i < count; i++) {
            token_step(f, f->phi + (size_t)words[i] * f->width);
        }
        memcpy(f->theta, f->next, f->topics * sizeof(float));
    }
}

static double predict(const struct infer *f, const uint32_t *words, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        const float *row = f->phi + (size_t)words[i] * f->width;
        double p = 0;
        for (size_t k = 0; k < f->topics; k++) {
            p += (double)row[k] * (double)f->theta[k];
        }
        sum += log(p);
    }
    return sum;
}

static int run(const struct tide_argument *a, struct tide_result *results, char *error) {
    const struct tide_kernel *self = &tide_kernel_lda_infer;
    const struct tide_tensor *alpha = &a[ALPHA].tensor;
    struct infer f = {.alpha = alpha->data, .topics = alpha->rows * alpha->columns};
    struct lda_documents d;
    size_t rows = 0;
    uint64_t steps = 0, seed = 0;
    float *phi = NULL, *theta = a[THETA].given ? a[THETA].tensor.data : NULL;
    int code = lda_read_rows(self, a, PHI, (uint32_t)f.topics, &f.width, &rows, &phi, error);
    code = code ? code : lda_read_documents(self, a, OFFSETS, SIZE_MAX, SIZE_MAX, 0, 0, &d, error);
    code = code ? code : tide_kernel_whole(self, a, STEPS, 1, 100000, &steps, error);
    code = code ? code : tide_kernel_whole(self, a, DOCUMENT, 0, UINT64_MAX, &d.first, error);
    code = code ? code : tide_kernel_whole(self, a, SEED, 0, UINT64_MAX, &seed, error);
    if (code == 0 && theta && a[THETA].tensor.rows * a[THETA].tensor.columns != d.count * f.topics) {
        code = tide_kernel_fail(error, TIDE_EINVAL, "theta: not documents x topics");
    }
    const uint32_t *words = a[WORDS].tensor.data;
    const size_t tokens = a[WORDS].tensor.rows * a[WORDS].tensor.columns;
    if (code == 0 && d.offsets[d.count] > tokens) {
        code = tide_kernel_fail(error, TIDE_EINVAL, "offsets: a document ends behind the words");
    }
    size_t most = 1;
    for (size_t i = 0; i < d.count && code == 0; i++) {
        most = d.offsets[i + 1] - d.offsets[i] > most ? d.offsets[i + 1] - d.offsets[i] : most;
    }
    for (size_t i = 0; i < tokens && code == 0; i++) {
        if (words[i] >= rows) {
            code = tide_kernel_fail(error, TIDE_EINVAL, "words: token %zu is row %u of %zu", i + 1, words[i], rows);
        }
    }
    if (code) {
        return code;
    }
    f.phi = phi;
    f.steps = steps;
    f.theta = tide_workspace_alloc(2 * f.width * sizeof(float) + 64);
    uint32_t *shuffled = tide_alloc(most * sizeof *shuffled);
    if (!f.theta || !shuffled) {
        tide_workspace_free(f.theta);
        tide_free(shuffled);
        return tide_kernel_fail(error, TIDE_ENOMEM, "no memory for %zu topics", f.topics);
    }
    f.next = f.theta + f.width;
    memset(f.theta, 0, 2 * f.width * sizeof(float));
    double sum = 0;
    size_t scored = 0;
    for (size_t i = 0; i < d.count; i++) {
        const size_t count = d.offsets[i + 1] - d.offsets[i];
        const uint32_t *own = words + d.offsets[i];
        size_t half = count;
        if (a[SCORE].number != 0) {
            struct lda_stream s;
            lda_stream_begin(&s, seed, 0, 3, d.first + i);
            memcpy(shuffled, own, count * sizeof *shuffled);
            for (size_t j = count; j > 1; j--) {
                const size_t other = lda_below(&s, (uint32_t)j);
                const uint32_t held = shuffled[j - 1];
                shuffled[j - 1] = shuffled[other];
                shuffled[other] = held;
            }
            own = shuffled;
            half = count / 2;
        }
        fit(&f, own, half);
        if (a[SCORE].number != 0) {
            sum += predict(&f, own + half, count - half);
            scored += count - half;
        }
        if (theta) {
            memcpy(theta + i * f.topics, f.theta, f.topics * sizeof(float));
        }
    }
    tide_workspace_free(f.theta);
    tide_free(shuffled);
    results[0] = (struct tide_result){"log", sum};
    results[1] = (struct tide_result){"scored", (double)scored};
    results[2] = (struct tide_result){"count", (double)(d.offsets[d.count] - d.offsets[0])};
    return 3;
}

const struct tide_kernel tide_kernel_lda_infer = {
    "lda_infer",
    "Topics of documents under fixed topics of words, and what they predict. Wallach et al., ICML "
    "2009, section 5.1.",
    parameters, TIDE_COUNT(parameters), run};

/* ---- lda_phi ---- */

enum { P_COUNTS, P_TOTALS, P_K, P_BETA, P_VOCABULARY };
static const struct tide_parameter phi_parameters[] = {
    [P_COUNTS] = {"counts", TIDE_TENSOR, 1, true, 0,
                  "rows of n_kw, padded to 16: become (n_kw + b)/(n_k + V b), the padding 0"},
    [P_TOTALS] = {"totals", TIDE_TENSOR, 2, true, 0, "n_k"},
    [P_K] = {"topic_count", TIDE_NUMBER, 0, true, 0, "K"},
    [P_BETA] = {"beta", TIDE_NUMBER, 0, true, 0, "prior of a word"},
    [P_VOCABULARY] = {"vocabulary", TIDE_NUMBER, 0, true, 0, "words of the dictionary, V"},
};

const struct tide_kernel tide_kernel_lda_phi;

static int phi_run(const struct tide_argument *a, struct tide_result *results, char *error) {
    const struct tide_kernel *self = &tide_kernel_lda_phi;
    const struct tide_tensor *counts = &a[P_COUNTS].tensor, *totals = &a[P_TOTALS].tensor;
    uint64_t topics, words;
    int code = tide_kernel_whole(self, a, P_K, 1, LDA_TOPICS_MOST, &topics, error);
    code = code ? code : tide_kernel_whole(self, a, P_VOCABULARY, 1, UINT32_MAX, &words, error);
    if (code == 0 && (counts->columns < topics || totals->rows * totals->columns < topics || !(a[P_BETA].number > 0))) {
        code = tide_kernel_fail(error, TIDE_EINVAL,
                                "counts and totals have fewer than %zu topics, or beta is not above 0", (size_t)topics);
    }
    const double *n = totals->data;
    for (size_t w = 0; w < counts->rows && code == 0; w++) {
        float *row = (float *)counts->data + w * counts->columns;
        for (size_t k = 0; k < counts->columns; k++) {
            row[k] = k < topics
                         ? (float)(((double)row[k] + a[P_BETA].number) / (n[k] + a[P_BETA].number * (double)words))
                         : 0;
        }
    }
    results[0] = (struct tide_result){"rows", (double)counts->rows};
    return code ? code : 1;
}

const struct tide_kernel tide_kernel_lda_phi = {"lda_phi", "p(w | k) of counts.", phi_parameters,
                                                TIDE_COUNT(phi_parameters), phi_run};

/* ---- lda_top ---- */

enum { O_COUNTS, O_K, O_OUT };
static const struct tide_parameter top_parameters[] = {
    [O_COUNTS] = {"counts", TIDE_TENSOR, 1, true, 0, "rows of n_kw, padded to 16"},
    [O_K] = {"topic_count", TIDE_NUMBER, 0, true, 0, "K"},
    [O_OUT] = {"out", TIDE_TENSOR, 9, true, 0,
               "topics x n: set to the words with the largest counts, of equal ones the first"},
};

const struct tide_kernel tide_kernel_lda_top;

/* Puts a word into the list of a topic, which is kept in order. */
static void offer(uint32_t *list, float *best, size_t n, uint32_t word, float count) {
    if (count <= best[n - 1]) {
        return;
    }
    size_t i = n - 1;
    for (; i > 0 && best[i - 1] < count; i--) {
        best[i] = best[i - 1];
        list[i] = list[i - 1];
    }
    best[i] = count;
    list[i] = word;
}

static int top_run(const struct tide_argument *a, struct tide_result *results, char *error) {
    const struct tide_kernel *self = &tide_kernel_lda_top;
    const struct tide_tensor *counts = &a[O_COUNTS].tensor, *out = &a[O_OUT].tensor;
    uint64_t topics;
    int code = tide_kernel_whole(self, a, O_K, 1, LDA_TOPICS_MOST, &topics, error);
    const size_t n = out->columns;
    if (code == 0 && (counts->columns < topics || out->rows != topics || n == 0 || n > counts->rows)) {
        code = tide_kernel_fail(error, TIDE_EINVAL, "out: not topics x n, with 1 to as many words as there are rows");
    }
    if (code) {
        return code;
    }
    float *best = tide_alloc((size_t)topics * n * sizeof *best);
    if (!best) {
        return tide_kernel_fail(error, TIDE_ENOMEM, "no memory for %zu topics", (size_t)topics);
    }
    for (size_t i = 0; i < topics * n; i++) {
        best[i] = -1;
    }
    for (size_t w = 0; w < counts->rows; w++) {
        const float *row = (const float *)counts->data + w * counts->columns;
        for (size_t k = 0; k < topics; k++) {
            offer((uint32_t *)out->data + k * n, best + k * n, n, (uint32_t)w, row[k]);
        }
    }
    tide_free(best);
    results[0] = (struct tide_result){"rows", (double)counts->rows};
    return 1;
}

const struct tide_kernel tide_kernel_lda_top = {"lda_top", "The words with the largest counts of each topic.",
                                                top_parameters, TIDE_COUNT(top_parameters), top_run};
