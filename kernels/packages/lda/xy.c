/*
 * lda_xy: exact Gibbs sampling in the order of words, as model-parallel LDA samples (Zheng, Kim,
 * Ho, Xing, arXiv 1411.2305, section 3): p = a_k phi_k + n_kd phi_k, phi_k = (n_kw + b)/(n_k + V
 * b). The first sum is kept for a word and corrected in O(1) a token, the second has the document's
 * topics.
 */
#include "lda.h"

#include <string.h>

struct topic_count {
    uint32_t topic, count;
};

struct xy {
    struct lda_block b;
    /* scratch */
    uint32_t *order, *owner; /* the tokens of the words in their order, and the document of each */
    size_t *word_starts;
    struct topic_count *lists; /* of each document, largest first */
    size_t *list_starts;
    uint32_t *list_sizes;
    double *phi;
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
    g->word_starts = tide_alloc_zero(g->b.rows + 2, sizeof *g->word_starts);
    g->list_starts = tide_alloc((g->b.d.count + 1) * sizeof *g->list_starts);
    g->list_sizes = tide_alloc_zero(g->b.d.count + 1, sizeof *g->list_sizes);
    g->phi = tide_alloc((size_t)g->b.prior.topics * sizeof *g->phi);
    if (!g->word_starts || !g->list_starts || !g->list_sizes || !g->phi) {
        return TIDE_ENOMEM;
    }
    for (size_t i = 0; i < g->b.d.count; i++) {
        const size_t length = g->b.d.offsets[i + 1] - g->b.d.offsets[i];
        size_t begin, end;
        lda_range(&g->b.d, i, g->b.first, g->b.first + (uint32_t)g->b.rows, &begin, &end);
        g->list_starts[i] = room;
        room += begin == end ? 0 : length < g->b.prior.topics ? length + 1 : g->b.prior.topics;
        tokens += end - begin;
        for (size_t j = begin; j < end; j++) {
            g->word_starts[g->b.d.words[j] - g->b.first + 2]++;
        }
    }
    g->order = tide_alloc((tokens + 1) * sizeof *g->order);
    g->owner = tide_alloc((tokens + 1) * sizeof *g->owner);
    g->lists = tide_alloc((room + 1) * sizeof *g->lists);
    if (!g->order || !g->owner || !g->lists) {
        return TIDE_ENOMEM;
    }
    for (size_t w = 2; w < g->b.rows + 2; w++) {
        g->word_starts[w] += g->word_starts[w - 1];
    }
    for (size_t i = 0; i < g->b.d.count; i++) {
        size_t begin, end;
        lda_range(&g->b.d, i, g->b.first, g->b.first + (uint32_t)g->b.rows, &begin, &end);
        for (size_t j = begin; j < end; j++) {
            const size_t at = g->word_starts[g->b.d.words[j] - g->b.first + 1]++;
            g->order[at] = (uint32_t)(j - g->b.d.offsets[0]);
            g->owner[at] = (uint32_t)i;
        }
        for (size_t j = g->b.d.offsets[i]; begin != end && j < g->b.d.offsets[i + 1]; j++) {
            add_topic(g, i, lda_topic(&g->b.d.z, j));
        }
    }
    return 0;
}

/* ---- draws ---- */

static inline double phi_of(const struct xy *g, const float *row, uint32_t k) {
    return ((double)row[k] + g->b.prior.beta) / (g->b.totals[k] + g->b.prior.beta_sum);
}

static inline double renew(struct xy *g, const float *row, uint32_t k, double x) {
    const double before = g->phi[k];
    g->phi[k] = phi_of(g, row, k);
    return x + (double)g->b.prior.alpha[k] * (g->phi[k] - before);
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
    for (uint32_t k = 0; k + 1 < g->b.prior.topics; k++) {
        at -= (double)g->b.prior.alpha[k] * g->phi[k];
        if (at < 0) {
            return k;
        }
    }
    return g->b.prior.topics - 1;
}

static void one_word(struct xy *g, size_t word) {
    float *row = g->b.counts + word * g->b.width;
    const size_t begin = g->word_starts[word], end = g->word_starts[word + 1];
    if (begin == end) {
        return;
    }
    double x = 0;
    for (uint32_t k = 0; k < g->b.prior.topics; k++) {
        g->phi[k] = phi_of(g, row, k);
        x += (double)g->b.prior.alpha[k] * g->phi[k];
    }
    struct lda_stream s;
    for (size_t i = begin; i < end; i++) {
        const size_t token = g->b.d.offsets[0] + g->order[i], document = g->owner[i];
        const uint32_t before = lda_topic(&g->b.d.z, token);
        lda_stream_begin(&s, g->b.seed, g->b.pass, g->b.phase,
                         (g->b.d.first + document) << 24 | (token - g->b.d.offsets[document]));
        take_topic(g, document, before);
        row[before] -= 1;
        g->b.totals[before] -= 1;
        x = renew(g, row, before, x);
        const uint32_t after = draw(g, document, x, lda_uniform(&s));
        add_topic(g, document, after);
        row[after] += 1;
        g->b.totals[after] += 1;
        x = renew(g, row, after, x);
        if (after != before) {
            lda_topic_set(&g->b.d.z, token, after);
            g->b.changes[before]--;
            g->b.changes[after]++;
            g->b.moved++;
        }
    }
    g->b.tokens += end - begin;
}

static const struct tide_parameter parameters[] = {
    LDA_BLOCK_PARAMETERS,
};

const struct tide_kernel tide_kernel_lda_xy;

static int read_all(const struct tide_argument *a, struct xy *g, char *error) {
    const int code = lda_read_block(&tide_kernel_lda_xy, a, &g->b, error);
    if (code == 0 && g->b.d.offsets[g->b.d.count] - g->b.d.offsets[0] > UINT32_MAX) {
        return tide_kernel_fail(error, TIDE_EINVAL, "offsets: more than 2^32 tokens in one part");
    }
    return code;
}

static int run(const struct tide_argument *a, struct tide_result *results, char *error) {
    struct xy g = {0};
    int code = read_all(a, &g, error);
    if (code) {
        return code;
    }
    code = arrange(&g);
    for (size_t word = 0; code == 0 && word < g.b.rows; word++) {
        one_word(&g, word);
    }
    void *blocks[] = {g.order, g.owner, g.word_starts, g.lists, g.list_starts, g.list_sizes, g.phi};
    for (size_t i = 0; i < TIDE_COUNT(blocks); i++) {
        tide_free(blocks[i]);
    }
    if (code) {
        return tide_kernel_fail(error, code, "no memory for the order of words");
    }
    return lda_block_results(&g.b, results);
}

const struct tide_kernel tide_kernel_lda_xy = {
    "lda_xy", "Draws topics exactly, word by word. Model-parallel LDA, arXiv 1411.2305, section 3.", parameters,
    TIDE_COUNT(parameters), run};
