/*
 * lda_light: LightLDA's cycle of two Metropolis-Hastings proposals (Yuan et al., WWW 2015, section
 * 4), O(1) a token. The word proposal comes from an alias table of the word's counts as they were
 * when the call began; the document proposal is the topic of another token of the document, or one
 * by the prior.
 *
 * doc_move "other" leaves the token itself out of the document's tokens, so the proposal does not
 * depend on the old topic and the chain is exact. "lightlda" draws from all tokens, itself
 * included, and corrects with (n_sd + a)/(n_td + a), as the published program does: near, and not
 * exact.
 */
#include "models/lda.h"

#include "arguments.h"
#include "kernels.h"

#include <string.h>

struct light {
    struct lda_documents d;
    struct lda_priors prior;
    uint64_t seed, pass, phase, steps;
    bool lightlda;
    uint32_t first;
    size_t rows, width;
    float *counts;      /* n_kw, kept fresh */
    const float *stale; /* as of the alias tables */
    double *totals;     /* n_k, kept fresh */
    double *stale_totals;
    double *changes;
    double *shifted;   /* n_k + V b, fresh */
    double *inverse;   /* 1 / (n_k + V b) as of the alias tables */
    int32_t *document; /* n_kd */
    struct lda_alias_entry *entries, *rest, *alpha;
    size_t *starts;   /* of each row in entries */
    double *masses;   /* of each row's own part */
    double rest_mass; /* of b / (n_k + V b) */
    double *weights;
    uint32_t *stack;
    size_t tokens, moved;
};

/* ---- tables ---- */

static int fill_row(struct light *g, size_t row) {
    const float *n = g->stale + row * g->width;
    struct lda_alias_entry *entries = g->entries + g->starts[row];
    uint32_t count = 0;
    double sum = 0;
    for (uint32_t k = 0; k < g->prior.topics; k++) {
        if (n[k] > 0) {
            entries[count].topic = k;
            g->weights[count] = (double)n[k] * g->inverse[k];
            sum += g->weights[count++];
        }
    }
    g->masses[row] = sum;
    if (count > 0) {
        lda_alias_build(entries, g->weights, g->stack, count, sum);
    }
    return 0;
}

static int build(struct light *g) {
    const uint32_t topics = g->prior.topics;
    size_t nonzeros = 0;
    for (size_t row = 0; row < g->rows; row++) {
        g->starts[row] = nonzeros;
        for (uint32_t k = 0; k < topics; k++) {
            nonzeros += g->stale[row * g->width + k] > 0;
        }
    }
    g->starts[g->rows] = nonzeros;
    g->entries = tide_alloc((nonzeros + 1) * sizeof *g->entries);
    if (!g->entries) {
        return TIDE_ENOMEM;
    }
    for (uint32_t k = 0; k < topics; k++) {
        g->shifted[k] = g->totals[k] + g->prior.beta_sum;
        g->inverse[k] = 1 / (g->stale_totals[k] + g->prior.beta_sum);
        g->rest[k].topic = g->alpha[k].topic = k;
        g->weights[k] = g->prior.beta * g->inverse[k];
        g->rest_mass += g->weights[k];
    }
    lda_alias_build(g->rest, g->weights, g->stack, topics, g->rest_mass);
    for (uint32_t k = 0; k < topics; k++) {
        g->weights[k] = (double)g->prior.alpha[k];
    }
    lda_alias_build(g->alpha, g->weights, g->stack, topics, g->prior.alpha_sum);
    for (size_t row = 0; row < g->rows; row++) {
        (void)fill_row(g, row);
    }
    return 0;
}

/* ---- proposals ---- */

static inline double at_least_0(double x) {
    return x < 0 ? 0 : x;
}

static inline uint32_t word_proposal(struct light *g, size_t row, struct lda_stream *s) {
    const double at = lda_uniform(s) * (g->masses[row] + g->rest_mass);
    const uint32_t count = (uint32_t)(g->starts[row + 1] - g->starts[row]);
    return at < g->masses[row] && count > 0 ? lda_alias_draw(g->entries + g->starts[row], count, s)
                                            : lda_alias_draw(g->rest, g->prior.topics, s);
}

/* n_kw + b and n_k + V b of a topic, the token's own count at o taken out. */
static inline double word_part(const struct light *g, size_t row, uint32_t k, uint32_t o) {
    return at_least_0((double)g->counts[row * g->width + k] - (k == o)) + g->prior.beta;
}

static inline double total_part(const struct light *g, uint32_t k, uint32_t o) {
    const double n = g->shifted[k] - (k == o);
    return n < g->prior.beta_sum ? g->prior.beta_sum : n;
}

static inline double document_part(const struct light *g, uint32_t k, uint32_t o) {
    return (double)(g->document[k] - (k == o)) + (double)g->prior.alpha[k];
}

static inline double proposed(const struct light *g, size_t row, uint32_t k) {
    return ((double)g->stale[row * g->width + k] + g->prior.beta) * g->inverse[k];
}

static uint32_t word_move(struct light *g, size_t row, uint32_t s, uint32_t o,
                          struct lda_stream *stream) {
    const uint32_t t = word_proposal(g, row, stream);
    if (t == s) {
        return s;
    }
    const double up = document_part(g, t, o) * word_part(g, row, t, o) * total_part(g, s, o) *
                      proposed(g, row, s);
    const double down = document_part(g, s, o) * word_part(g, row, s, o) * total_part(g, t, o) *
                        proposed(g, row, t);
    return lda_uniform(stream) * down < up ? t : s;
}

static uint32_t document_move(struct light *g, size_t row, size_t token, size_t from, size_t to,
                              uint32_t s, uint32_t o, struct lda_stream *stream) {
    const size_t others = to - from - (g->lightlda ? 0 : 1);
    const double own = (double)others / ((double)others + g->prior.alpha_sum);
    uint32_t t;
    if (lda_uniform(stream) < own) {
        size_t other = from + lda_below(stream, (uint32_t)others);
        other += !g->lightlda && other >= token;
        t = lda_topic(&g->d.z, other);
    } else {
        t = lda_alias_draw(g->alpha, g->prior.topics, stream);
    }
    if (t == s) {
        return s;
    }
    double up = word_part(g, row, t, o) * total_part(g, s, o),
           down = word_part(g, row, s, o) * total_part(g, t, o);
    if (g->lightlda) {
        up *= document_part(g, t, o) * ((double)g->document[s] + (double)g->prior.alpha[s]);
        down *= document_part(g, s, o) * ((double)g->document[t] + (double)g->prior.alpha[t]);
    }
    return lda_uniform(stream) * down < up ? t : s;
}

static void one_document(struct light *g, size_t document) {
    size_t begin, end;
    lda_range(&g->d, document, g->first, g->first + (uint32_t)g->rows, &begin, &end);
    if (begin == end) {
        return;
    }
    const size_t from = g->d.offsets[document], to = g->d.offsets[document + 1];
    for (size_t i = from; i < to; i++) {
        g->document[lda_topic(&g->d.z, i)]++;
    }
    struct lda_stream stream;
    lda_stream_begin(&stream, g->seed, g->pass, g->phase, g->d.first + document);
    for (size_t i = begin; i < end; i++) {
        const size_t row = g->d.words[i] - g->first;
        const uint32_t o = lda_topic(&g->d.z, i);
        uint32_t s = o;
        for (uint64_t step = 0; step < g->steps; step++) {
            s = word_move(g, row, s, o, &stream);
            s = document_move(g, row, i, from, to, s, o, &stream);
        }
        if (s != o) {
            lda_topic_set(&g->d.z, i, s);
            g->document[o]--;
            g->document[s]++;
            g->counts[row * g->width + o] -= 1;
            g->counts[row * g->width + s] += 1;
            g->totals[o] -= 1;
            g->totals[s] += 1;
            g->shifted[o] -= 1;
            g->shifted[s] += 1;
            g->changes[o]--;
            g->changes[s]++;
            g->moved++;
        }
    }
    g->tokens += end - begin;
    for (size_t i = from; i < to; i++) {
        g->document[lda_topic(&g->d.z, i)] = 0;
    }
}

enum {
    OFFSETS,
    WORDS,
    TOPICS,
    COUNTS,
    STALE,
    TOTALS,
    CHANGES,
    ALPHA,
    BETA,
    VOCABULARY,
    FIRST,
    DOCUMENT,
    SEED,
    PASS,
    PHASE,
    STEPS,
    MOVE,
    STALE_TOTALS
};
static const struct tide_parameter parameters[] = {
    [OFFSETS] = {"offsets", TIDE_TENSOR, 7, true, 0,
                 "where each document begins in words, and the end"},
    [WORDS] = {"words", TIDE_TENSOR, 9, true, 0, "word of each token, rising in a document"},
    [TOPICS] = {"topics", TIDE_TENSOR, 0, true, 0, "u16 or u32: topic of each token; changed"},
    [COUNTS] = {"counts", TIDE_TENSOR, 1, true, 0,
                "n_kw of the words first, first + 1, ..: a row each, padded to 16; changed"},
    [STALE] = {"stale", TIDE_TENSOR, 1, true, 0,
               "n_kw as proposals are drawn from them: the counts before the call"},
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
    [STEPS] = {"steps", TIDE_NUMBER, 0, false, 2, "cycles of both proposals a token"},
    [MOVE] = {"doc_move", TIDE_TEXT, 0, false, 0, "\"other\" (default, exact) or \"lightlda\""},
    [STALE_TOTALS] = {"stale_totals", TIDE_TENSOR, 2, false, 0,
                      "n_k as proposals are drawn from them; default totals"},
};

const struct tide_kernel tide_kernel_lda_light;

static int read_all(const struct tide_argument *a, struct light *g, char *error) {
    const struct tide_kernel *self = &tide_kernel_lda_light;
    static const char *const moves[] = {"other", "lightlda"};
    uint64_t first = 0;
    size_t width, rows, move;
    float *stale = NULL;
    int code = lda_read_priors(self, a, ALPHA, BETA, VOCABULARY, &g->prior, error);
    code = code ? code
                : lda_read_rows(self, a, COUNTS, g->prior.topics, &g->width, &g->rows, &g->counts,
                                error);
    code =
        code ? code : lda_read_rows(self, a, STALE, g->prior.topics, &width, &rows, &stale, error);
    if (code == 0 && (width != g->width || rows != g->rows || stale == g->counts)) {
        code = tide_kernel_fail(error, TIDE_EINVAL, "stale: a copy of counts");
    }
    g->stale = stale;
    code = code ? code
                : tide_kernel_whole(self, a, FIRST, 0, UINT32_MAX - (g->rows & UINT32_MAX), &first,
                                    error);
    code = code ? code
                : lda_read_documents(self, a, OFFSETS, WORDS, TOPICS, UINT32_MAX, g->prior.topics,
                                     &g->d, error);
    code = code ? code : lda_read_vector(self, a, TOTALS, g->width, &g->totals, error);
    g->stale_totals = g->totals;
    if (code == 0 && a[STALE_TOTALS].given) {
        code = lda_read_vector(self, a, STALE_TOTALS, g->width, &g->stale_totals, error);
    }
    code = code ? code : lda_read_vector(self, a, CHANGES, g->width, &g->changes, error);
    code = code ? code : lda_read_seed(self, a, SEED, PASS, &g->seed, &g->pass, error);
    code = code ? code : tide_kernel_whole(self, a, DOCUMENT, 0, UINT64_MAX, &g->d.first, error);
    code = code ? code : tide_kernel_whole(self, a, PHASE, 0, 1 << 19, &g->phase, error);
    code = code ? code : tide_kernel_whole(self, a, STEPS, 1, 64, &g->steps, error);
    code = code ? code : tide_kernel_choice(self, a, MOVE, moves, 2, &move, error);
    g->first = (uint32_t)first;
    g->lightlda = code == 0 && move == 1;
    return code;
}

static int run(const struct tide_argument *a, struct tide_result *results, char *error) {
    struct light g = {0};
    int code = read_all(a, &g, error);
    if (code) {
        return code;
    }
    const size_t topics = g.width;
    g.shifted = tide_alloc(topics * sizeof *g.shifted);
    g.inverse = tide_alloc(topics * sizeof *g.inverse);
    g.document = tide_alloc_zero(topics, sizeof *g.document);
    g.rest = tide_alloc(topics * sizeof *g.rest);
    g.alpha = tide_alloc(topics * sizeof *g.alpha);
    g.starts = tide_alloc((g.rows + 1) * sizeof *g.starts);
    g.masses = tide_alloc((g.rows + 1) * sizeof *g.masses);
    g.weights = tide_alloc(topics * sizeof *g.weights);
    g.stack = tide_alloc(topics * sizeof *g.stack);
    const bool fine = g.shifted && g.inverse && g.document && g.rest && g.alpha && g.starts &&
                      g.masses && g.weights && g.stack;
    code = fine ? build(&g) : TIDE_ENOMEM;
    for (size_t i = 0; code == 0 && i < g.d.count; i++) {
        one_document(&g, i);
    }
    void *blocks[] = {g.shifted, g.inverse, g.document, g.rest,  g.alpha,
                      g.starts,  g.masses,  g.weights,  g.stack, g.entries};
    for (size_t i = 0; i < TIDE_COUNT(blocks); i++) {
        tide_free(blocks[i]);
    }
    if (code) {
        return tide_kernel_fail(error, code, "no memory for tables of %zu words", g.rows);
    }
    results[0] = (struct tide_result){"tokens", (double)g.tokens};
    results[1] = (struct tide_result){"moved", (double)g.moved};
    results[2] = (struct tide_result){"count", (double)g.tokens};
    return 3;
}

const struct tide_kernel tide_kernel_lda_light = {
    "lda_light",
    "Draws topics by two cheap proposals in turn. LightLDA, Yuan et al., WWW 2015, section 4.",
    parameters, TIDE_COUNT(parameters), run};
