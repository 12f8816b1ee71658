/*
 * lda_xy: exact Gibbs sampling in the order of words, as model-parallel LDA samples (Zheng, Kim,
 * Ho, Xing, arXiv 1411.2305, section 3): p = a_k phi_k + n_kd phi_k, phi_k = (n_kw + b)/(n_k + V
 * b). The first sum is kept for a word and corrected in O(1) a token, the second has the document's
 * topics.
 */
#include "models/lda.h"

#include "arguments.h"
#include "kernels.h"

#include <string.h>

struct topic_count {
    uint32_t topic, count;
};

struct xy {
    struct lda_documents d;
    struct lda_priors prior;
    uint64_t seed, pass, phase;
    uint32_t first;
    size_t rows, width;
    float *counts;
    double *totals;
    double *changes;
    /* scratch */
    uint32_t *order, *owner; /* the tokens of the words in their order, and the document of each */
    size_t *word_starts;
    struct topic_count *lists; /* of each document, largest first */
    size_t *list_starts;
    uint32_t *list_sizes;
    double *phi;
    size_t tokens, moved;
};

/* ---- the topics of a document ---- */

static void add_topic(struct xy *g, size_t document, uint32_t topic) {
    struct topic_count *list = g->lists + g->list_starts[document];
    uint32_t i = 0;
    const uint32_t size = g->list_sizes[document];
    while (i < size && list[i].topic != topic) {
        i++;
    }
    if (i == size) {
        list[g->list_sizes[document]++] = (struct topic_count){topic, 0};
    }
    list[i].count++;
    while (i > 0 && list[i - 1].count < list[i].count) {
        const struct topic_count held = list[i];
        list[i] = list[i - 1];
        list[--i] = held;
    }
}

static void take_topic(struct xy *g, size_t document, uint32_t topic) {
    struct topic_count *list = g->lists + g->list_starts[document];
    uint32_t i = 0;
    while (list[i].topic != topic) {
        i++;
    }
    list[i].count--;
    while (i + 1 < g->list_sizes[document] && list[i + 1].count > list[i].count) {
        const struct topic_count held = list[i];
        list[i] = list[i + 1];
        list[++i] = held;
    }
    if (list[i].count == 0) {
        g->list_sizes[document]--;
    }
}

/* The tokens of these words in the order of words, and the topics of their documents. */
static int arrange(struct xy *g) {
    size_t tokens = 0, room = 0;
    g->word_starts = tide_alloc_zero(g->rows + 2, sizeof *g->word_starts);
    g->list_starts = tide_alloc((g->d.count + 1) * sizeof *g->list_starts);
    g->list_sizes = tide_alloc_zero(g->d.count + 1, sizeof *g->list_sizes);
    g->phi = tide_alloc((size_t)g->prior.topics * sizeof *g->phi);
    if (!g->word_starts || !g->list_starts || !g->list_sizes || !g->phi) {
        return TIDE_ENOMEM;
    }
    for (size_t i = 0; i < g->d.count; i++) {
        const size_t length = g->d.offsets[i + 1] - g->d.offsets[i];
        size_t begin, end;
        lda_range(&g->d, i, g->first, g->first + (uint32_t)g->rows, &begin, &end);
        g->list_starts[i] = room;
        room += begin == end ? 0 : length < g->prior.topics ? length + 1 : g->prior.topics;
        tokens += end - begin;
        for (size_t j = begin; j < end; j++) {
            g->word_starts[g->d.words[j] - g->first + 2]++;
        }
    }
    g->order = tide_alloc((tokens + 1) * sizeof *g->order);
    g->owner = tide_alloc((tokens + 1) * sizeof *g->owner);
    g->lists = tide_alloc((room + 1) * sizeof *g->lists);
    if (!g->order || !g->owner || !g->lists) {
        return TIDE_ENOMEM;
    }
    for (size_t w = 2; w < g->rows + 2; w++) {
        g->word_starts[w] += g->word_starts[w - 1];
    }
    for (size_t i = 0; i < g->d.count; i++) {
        size_t begin, end;
        lda_range(&g->d, i, g->first, g->first + (uint32_t)g->rows, &begin, &end);
        for (size_t j = begin; j < end; j++) {
            const size_t at = g->word_starts[g->d.words[j] - g->first + 1]++;
            g->order[at] = (uint32_t)(j - g->d.offsets[0]);
            g->owner[at] = (uint32_t)i;
        }
        for (size_t j = g->d.offsets[i]; begin != end && j < g->d.offsets[i + 1]; j++) {
            add_topic(g, i, lda_topic(&g->d.z, j));
        }
    }
    return 0;
}

/* ---- draws ---- */

static inline double phi_of(const struct xy *g, const float *row, uint32_t k) {
    return ((double)row[k] + g->prior.beta) / (g->totals[k] + g->prior.beta_sum);
}

static inline double renew(struct xy *g, const float *row, uint32_t k, double x) {
    const double before = g->phi[k];
    g->phi[k] = phi_of(g, row, k);
    return x + (double)g->prior.alpha[k] * (g->phi[k] - before);
}

static uint32_t draw(const struct xy *g, size_t document, double x, double u) {
    const struct topic_count *list = g->lists + g->list_starts[document];
    const uint32_t size = g->list_sizes[document];
    double y = 0;
    for (uint32_t i = 0; i < size; i++) {
        y += list[i].count * g->phi[list[i].topic];
    }
    double at = u * (x + y);
    if (at < y) {
        for (uint32_t i = 0; i + 1 < size; i++) {
            at -= list[i].count * g->phi[list[i].topic];
            if (at < 0) {
                return list[i].topic;
            }
        }
        return list[size - 1].topic;
    }
    at -= y;
    for (uint32_t k = 0; k + 1 < g->prior.topics; k++) {
        at -= (double)g->prior.alpha[k] * g->phi[k];
        if (at < 0) {
            return k;
        }
    }
    return g->prior.topics - 1;
}

static void one_word(struct xy *g, size_t word) {
    float *row = g->counts + word * g->width;
    const size_t begin = g->word_starts[word], end = g->word_starts[word + 1];
    if (begin == end) {
        return;
    }
    double x = 0;
    for (uint32_t k = 0; k < g->prior.topics; k++) {
        g->phi[k] = phi_of(g, row, k);
        x += (double)g->prior.alpha[k] * g->phi[k];
    }
    struct lda_stream s;
    for (size_t i = begin; i < end; i++) {
        const size_t token = g->d.offsets[0] + g->order[i], document = g->owner[i];
        const uint32_t before = lda_topic(&g->d.z, token);
        lda_stream_begin(&s, g->seed, g->pass, g->phase,
                         (g->d.first + document) << 24 | (token - g->d.offsets[document]));
        take_topic(g, document, before);
        row[before] -= 1;
        g->totals[before] -= 1;
        x = renew(g, row, before, x);
        const uint32_t after = draw(g, document, x, lda_uniform(&s));
        add_topic(g, document, after);
        row[after] += 1;
        g->totals[after] += 1;
        x = renew(g, row, after, x);
        if (after != before) {
            lda_topic_set(&g->d.z, token, after);
            g->changes[before]--;
            g->changes[after]++;
            g->moved++;
        }
    }
    g->tokens += end - begin;
}

enum {
    OFFSETS,
    WORDS,
    TOPICS,
    COUNTS,
    TOTALS,
    CHANGES,
    ALPHA,
    BETA,
    VOCABULARY,
    FIRST,
    DOCUMENT,
    SEED,
    PASS,
    PHASE
};
static const struct tide_parameter parameters[] = {
    [OFFSETS] = {"offsets", TIDE_TENSOR, 7, true, 0,
                 "where each document begins in words, and the end"},
    [WORDS] = {"words", TIDE_TENSOR, 9, true, 0, "word of each token, rising in a document"},
    [TOPICS] = {"topics", TIDE_TENSOR, 0, true, 0, "u16 or u32: topic of each token; changed"},
    [COUNTS] = {"counts", TIDE_TENSOR, 1, true, 0,
                "n_kw of the words first, first + 1, ..: a row each, padded to 16; changed"},
    [TOTALS] = {"totals", TIDE_TENSOR, 2, true, 0, "n_k; changed"},
    [CHANGES] = {"changes", TIDE_TENSOR, 2, true, 0, "of n_k by this call are added"},
    [ALPHA] = {"alpha", TIDE_TENSOR, 1, true, 0, "prior of each topic"},
    [BETA] = {"beta", TIDE_NUMBER, 0, true, 0, "prior of a word"},
    [VOCABULARY] = {"vocabulary", TIDE_NUMBER, 0, true, 0, "words of the dictionary, V"},
    [FIRST] = {"first", TIDE_NUMBER, 0, false, 0, "word of the first row"},
    [DOCUMENT] = {"document", TIDE_NUMBER, 0, false, 0,
                  "number of the first document in the corpus"},
    [SEED] = {"seed", TIDE_NUMBER, 0, true, 0, "of the draws"},
    [PASS] = {"pass", TIDE_NUMBER, 0, true, 0, "over the data: other draws"},
    [PHASE] = {"phase", TIDE_NUMBER, 0, false, 0, "number of the range of words: other draws"},
};

const struct tide_kernel tide_kernel_lda_xy;

static int read_all(const struct tide_argument *a, struct xy *g, char *error) {
    const struct tide_kernel *self = &tide_kernel_lda_xy;
    uint64_t first = 0;
    int code = lda_read_priors(self, a, ALPHA, BETA, VOCABULARY, &g->prior, error);
    code = code ? code
                : lda_read_rows(self, a, COUNTS, g->prior.topics, &g->width, &g->rows, &g->counts,
                                error);
    code = code ? code
                : tide_kernel_whole(self, a, FIRST, 0, UINT32_MAX - (g->rows & UINT32_MAX), &first,
                                    error);
    code = code ? code
                : lda_read_documents(self, a, OFFSETS, WORDS, TOPICS, UINT32_MAX, g->prior.topics,
                                     &g->d, error);
    if (code == 0 && g->d.offsets[g->d.count] - g->d.offsets[0] > UINT32_MAX) {
        code = tide_kernel_fail(error, TIDE_EINVAL, "offsets: more than 2^32 tokens in one part");
    }
    code = code ? code : lda_read_vector(self, a, TOTALS, g->width, &g->totals, error);
    code = code ? code : lda_read_vector(self, a, CHANGES, g->width, &g->changes, error);
    code = code ? code : lda_read_seed(self, a, SEED, PASS, &g->seed, &g->pass, error);
    code = code ? code : tide_kernel_whole(self, a, DOCUMENT, 0, UINT64_MAX, &g->d.first, error);
    code = code ? code : tide_kernel_whole(self, a, PHASE, 0, 1 << 19, &g->phase, error);
    g->first = (uint32_t)first;
    return code;
}

static int run(const struct tide_argument *a, struct tide_result *results, char *error) {
    struct xy g = {0};
    int code = read_all(a, &g, error);
    if (code) {
        return code;
    }
    code = arrange(&g);
    for (size_t word = 0; code == 0 && word < g.rows; word++) {
        one_word(&g, word);
    }
    void *blocks[] = {g.order, g.owner, g.word_starts, g.lists, g.list_starts, g.list_sizes, g.phi};
    for (size_t i = 0; i < TIDE_COUNT(blocks); i++) {
        tide_free(blocks[i]);
    }
    if (code) {
        return tide_kernel_fail(error, code, "no memory for the order of words");
    }
    results[0] = (struct tide_result){"tokens", (double)g.tokens};
    results[1] = (struct tide_result){"moved", (double)g.moved};
    results[2] = (struct tide_result){"count", (double)g.tokens};
    return 3;
}

const struct tide_kernel tide_kernel_lda_xy = {
    "lda_xy", "Draws topics exactly, word by word. Model-parallel LDA, arXiv 1411.2305, section 3.",
    parameters, TIDE_COUNT(parameters), run};
