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
    struct lda_block b;
    uint64_t steps;
    bool lightlda;
    const float *stale; /* as of the alias tables */
    double *stale_totals;
    double *shifted;   /* n_k + V b, fresh */
    double *inverse;   /* 1 / (n_k + V b) as of the alias tables */
    int32_t *document; /* n_kd */
    struct lda_alias_entry *entries, *rest, *alpha;
    size_t *starts;   /* of each row in entries */
    double *masses;   /* of each row's own part */
    double rest_mass; /* of b / (n_k + V b) */
    double *weights;
    uint32_t *stack;
};

/* ---- tables ---- */

static int fill_row(struct light *g, size_t row) {
    const float *n = g->stale + row * g->b.width;
    struct lda_alias_entry *entries = g->entries + g->starts[row];
    uint32_t count = 0;
    double sum = 0;
    for (uint32_t k = 0; k < g->b.prior.topics; k++) {
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
    const uint32_t topics = g->b.prior.topics;
    size_t nonzeros = 0;
    for (size_t row = 0; row < g->b.rows; row++) {
        g->starts[row] = nonzeros;
        for (uint32_t k = 0; k < topics; k++) {
            nonzeros += g->stale[row * g->b.width + k] > 0;
        }
    }
    g->starts[g->b.rows] = nonzeros;
    g->entries = tide_alloc((nonzeros + 1) * sizeof *g->entries);
    if (!g->entries) {
        return TIDE_ENOMEM;
    }
    for (uint32_t k = 0; k < topics; k++) {
        g->shifted[k] = g->b.totals[k] + g->b.prior.beta_sum;
        g->inverse[k] = 1 / (g->stale_totals[k] + g->b.prior.beta_sum);
        g->rest[k].topic = g->alpha[k].topic = k;
        g->weights[k] = g->b.prior.beta * g->inverse[k];
        g->rest_mass += g->weights[k];
    }
    lda_alias_build(g->rest, g->weights, g->stack, topics, g->rest_mass);
    for (uint32_t k = 0; k < topics; k++) {
        g->weights[k] = (double)g->b.prior.alpha[k];
    }
    lda_alias_build(g->alpha, g->weights, g->stack, topics, g->b.prior.alpha_sum);
    for (size_t row = 0; row < g->b.rows; row++) {
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
                                            : lda_alias_draw(g->rest, g->b.prior.topics, s);
}

/* n_kw + b and n_k + V b of a topic, the token's own count at o taken out. */
static inline double word_part(const struct light *g, size_t row, uint32_t k, uint32_t o) {
    return at_least_0((double)g->b.counts[row * g->b.width + k] - (k == o && !TIDE_MUTANT(lda_own_count_kept))) + g->b.prior.beta;
}

static inline double total_part(const struct light *g, uint32_t k, uint32_t o) {
    const double n = g->shifted[k] - (k == o);
    return n < g->b.prior.beta_sum ? g->b.prior.beta_sum : n;
}

static inline double document_part(const struct light *g, uint32_t k, uint32_t o) {
    return (double)(g->document[k] - (k == o)) + (double)g->b.prior.alpha[k];
}

static inline double proposed(const struct light *g, size_t row, uint32_t k) {
    return ((double)g->stale[row * g->b.width + k] + g->b.prior.beta) * g->inverse[k];
}

static uint32_t word_move(struct light *g, size_t row, uint32_t s, uint32_t o,
                          struct lda_stream *stream) {
    const uint32_t t = word_proposal(g, row, stream);
    if (t == s) {
        return s;
    }
    const bool swapped = TIDE_MUTANT(lda_proposals_swapped);
    const double up = document_part(g, t, o) * word_part(g, row, t, o) * total_part(g, s, o) *
                      proposed(g, row, swapped ? t : s);
    const double down = document_part(g, s, o) * word_part(g, row, s, o) * total_part(g, t, o) *
                        proposed(g, row, swapped ? s : t);
    return lda_uniform(stream) * down < up ? t : s;
}

static uint32_t document_move(struct light *g, size_t row, size_t token, size_t from, size_t to,
                              uint32_t s, uint32_t o, struct lda_stream *stream) {
    const size_t others = to - from - (g->lightlda ? 0 : 1);
    const double own = (double)others / ((double)others + g->b.prior.alpha_sum);
    uint32_t t;
    if (lda_uniform(stream) < own) {
        size_t other = from + lda_below(stream, (uint32_t)others);
        other += !g->lightlda && other >= token;
        t = lda_topic(&g->b.d.z, other);
    } else {
        t = lda_alias_draw(g->alpha, g->b.prior.topics, stream);
    }
    if (t == s) {
        return s;
    }
    double up = word_part(g, row, t, o) * total_part(g, s, o),
           down = word_part(g, row, s, o) * total_part(g, t, o);
    if (g->lightlda) {
        up *= document_part(g, t, o) * ((double)g->document[s] + (double)g->b.prior.alpha[s]);
        down *= document_part(g, s, o) * ((double)g->document[t] + (double)g->b.prior.alpha[t]);
    }
    return lda_uniform(stream) * down < up ? t : s;
}

static void one_document(struct light *g, size_t document) {
    size_t begin, end;
    lda_range(&g->b.d, document, g->b.first, g->b.first + (uint32_t)g->b.rows, &begin, &end);
    if (begin == end) {
        return;
    }
    const size_t from = g->b.d.offsets[document], to = g->b.d.offsets[document + 1];
    for (size_t i = from; i < to; i++) {
        g->document[lda_topic(&g->b.d.z, i)]++;
    }
    struct lda_stream stream;
    lda_stream_begin(&stream, g->b.seed, g->b.pass, g->b.phase, g->b.d.first + document);
    for (size_t i = begin; i < end; i++) {
        const size_t row = g->b.d.words[i] - g->b.first;
        const uint32_t o = lda_topic(&g->b.d.z, i);
        uint32_t s = o;
        for (uint64_t step = 0; step < g->steps; step++) {
            s = word_move(g, row, s, o, &stream);
            s = document_move(g, row, i, from, to, s, o, &stream);
        }
        if (s != o) {
            lda_topic_set(&g->b.d.z, i, s);
            g->document[o]--;
            g->document[s]++;
            g->b.counts[row * g->b.width + o] -= 1;
            g->b.counts[row * g->b.width + s] += 1;
            g->b.totals[o] -= 1;
            g->b.totals[s] += 1;
            g->shifted[o] -= 1;
            g->shifted[s] += 1;
            g->b.changes[o]--;
            g->b.changes[s]++;
            g->b.moved++;
        }
    }
    g->b.tokens += end - begin;
    for (size_t i = from; i < to; i++) {
        g->document[lda_topic(&g->b.d.z, i)] = 0;
    }
}

enum { STALE = LDA_BLOCK, STEPS, MOVE, STALE_TOTALS };
static const struct tide_parameter parameters[] = {
    LDA_BLOCK_PARAMETERS,
    [STALE] = {"stale", TIDE_TENSOR, 1, true, 0,
               "n_kw as proposals are drawn from them: the counts before the call"},
    [STEPS] = {"steps", TIDE_NUMBER, 0, false, 2, "cycles of both proposals a token"},
    [MOVE] = {"doc_move", TIDE_TEXT, 0, false, 0, "\"other\" (default, exact) or \"lightlda\""},
    [STALE_TOTALS] = {"stale_totals", TIDE_TENSOR, 2, false, 0,
                      "n_k as proposals are drawn from them; default totals"},
};

const struct tide_kernel tide_kernel_lda_light;

static int read_all(const struct tide_argument *a, struct light *g, char *error) {
    const struct tide_kernel *self = &tide_kernel_lda_light;
    static const char *const moves[] = {"other", "lightlda"};
    size_t width, rows, move;
    float *stale = NULL;
    int code = lda_read_block(self, a, &g->b, error);
    code = code ? code
                : lda_read_rows(self, a, STALE, g->b.prior.topics, &width, &rows, &stale, error);
    if (code == 0 && (width != g->b.width || rows != g->b.rows || stale == g->b.counts)) {
        code = tide_kernel_fail(error, TIDE_EINVAL, "stale: a copy of counts");
    }
    g->stale = stale;
    g->stale_totals = g->b.totals;
    if (code == 0 && a[STALE_TOTALS].given) {
        code = lda_read_vector(self, a, STALE_TOTALS, g->b.width, &g->stale_totals, error);
    }
    code = code ? code : tide_kernel_whole(self, a, STEPS, 1, 64, &g->steps, error);
    code = code ? code : tide_kernel_choice(self, a, MOVE, moves, 2, &move, error);
    g->lightlda = code == 0 && move == 1;
    return code;
}

static int run(const struct tide_argument *a, struct tide_result *results, char *error) {
    struct light g = {0};
    int code = read_all(a, &g, error);
    if (code) {
        return code;
    }
    const size_t topics = g.b.width;
    g.shifted = tide_alloc(topics * sizeof *g.shifted);
    g.inverse = tide_alloc(topics * sizeof *g.inverse);
    g.document = tide_alloc_zero(topics, sizeof *g.document);
    g.rest = tide_alloc(topics * sizeof *g.rest);
    g.alpha = tide_alloc(topics * sizeof *g.alpha);
    g.starts = tide_alloc((g.b.rows + 1) * sizeof *g.starts);
    g.masses = tide_alloc((g.b.rows + 1) * sizeof *g.masses);
    g.weights = tide_alloc(topics * sizeof *g.weights);
    g.stack = tide_alloc(topics * sizeof *g.stack);
    const bool fine = g.shifted && g.inverse && g.document && g.rest && g.alpha && g.starts &&
                      g.masses && g.weights && g.stack;
    code = fine ? build(&g) : TIDE_ENOMEM;
    for (size_t i = 0; code == 0 && i < g.b.d.count; i++) {
        one_document(&g, i);
    }
    void *blocks[] = {g.shifted, g.inverse, g.document, g.rest,  g.alpha,
                      g.starts,  g.masses,  g.weights,  g.stack, g.entries};
    for (size_t i = 0; i < TIDE_COUNT(blocks); i++) {
        tide_free(blocks[i]);
    }
    if (code) {
        return tide_kernel_fail(error, code, "no memory for tables of %zu words", g.b.rows);
    }
    return lda_block_results(&g.b, results);
}

const struct tide_kernel tide_kernel_lda_light = {
    "lda_light",
    "Draws topics by two cheap proposals in turn. LightLDA, Yuan et al., WWW 2015, section 4.",
    parameters, TIDE_COUNT(parameters), run};
