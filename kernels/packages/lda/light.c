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
 *
 * A frequent word has a row of n_kw. A rare one (section 5's differential storage) has the list of
 * its tokens' topics, a number a token, in any worker's documents; its counts are made of it
 * in a hash table. What is drawn is the same.
 */
#include "lda.h"
#include "mutant.h"

#include <stdlib.h>
#include <string.h>

struct cell { /* of a rare word, open addressing; topic UINT32_MAX: empty */
    uint32_t topic;
    int32_t fresh, stale;
};

struct word {
    float *fresh; /* n_kw; NULL: a rare word */
    const float *stale;
    struct cell *cells;
    uint32_t mask;
    uint32_t alias_count;
    size_t alias_at;
    double mass; /* of the word's own part of its proposals */
};

struct light {
    struct lda_block b;
    uint64_t steps;
    bool lightlda;
    const float *stale; /* as of the alias tables */
    double *stale_totals;
    /* of rare words: the range's row_of, starts; topics of their tokens from place `from` on */
    const uint32_t *row_of, *starts, *places;
    float *listed;
    uint64_t from;
    size_t words;      /* of the range */
    struct word *word; /* of each */
    struct cell *cells;
    uint32_t *mark, *own; /* scratch: by topic; own tokens of each word */
    double *shifted;      /* n_k + V b, fresh */
    double *inverse;      /* 1 / (n_k + V b) as of the alias tables */
    int32_t *document;    /* n_kd */
    struct lda_alias_entry *entries, *rest, *alpha;
    double rest_mass; /* of b / (n_k + V b) */
    double *weights;
    uint32_t *stack;
};

/* ---- counts ---- */

static inline struct cell *cell_of(const struct word *x, uint32_t k) {
    uint32_t at = (k * 2654435761u) & x->mask;
    while (x->cells[at].topic != k && x->cells[at].topic != UINT32_MAX) {
        at = (at + 1) & x->mask;
    }
    return &x->cells[at];
}

struct counted {
    double fresh, stale;
};

static inline struct counted counts_of(const struct word *x, uint32_t k) {
    if (x->fresh) {
        return (struct counted){(double)x->fresh[k], (double)x->stale[k]};
    }
    const struct cell *c = cell_of(x, k);
    return c->topic == k ? (struct counted){(double)c->fresh, (double)c->stale} : (struct counted){0, 0};
}

static inline void count(struct word *x, uint32_t k, int change) {
    if (x->fresh) {
        x->fresh[k] += (float)change;
        return;
    }
    struct cell *c = cell_of(x, k);
    if (c->topic != k) {
        *c = (struct cell){k, 0, 0};
    }
    c->fresh += change;
}

/* ---- tables ---- */

static bool is_listed(const struct light *g, size_t i) {
    return g->row_of && g->row_of[i] == UINT32_MAX;
}

/* The listed topics of a rare word's tokens. */
static const float *list_of(const struct light *g, size_t i, size_t *length) {
    *length = g->starts[i + 1] - g->starts[i];
    return g->listed + (g->starts[i] - g->from);
}

/* The cells of a rare word: its topics, and as many as its tokens here may come to have. */
static uint32_t cells_for(const struct light *g, size_t topics, size_t own) {
    const size_t most = topics + own < g->b.prior.topics ? topics + own : g->b.prior.topics;
    uint32_t size = 4;
    while (size < most + most / 3 + 1) {
        size *= 2;
    }
    return size;
}

static void count_own(struct light *g) {
    for (size_t d = 0; d < g->b.d.count; d++) {
        size_t begin, end;
        lda_range(&g->b.d, d, g->b.first, g->b.first + (uint32_t)g->words, &begin, &end);
        for (size_t i = begin; i < end; i++) {
            g->own[g->b.d.words[i] - g->b.first]++;
        }
    }
}

/* Where everything of each word lies. */
static int lay_out(struct light *g) {
    const uint32_t topics = g->b.prior.topics;
    size_t nonzeros = 0, cells = 0, row = 0;
    for (size_t i = 0; i < g->words; i++) {
        struct word *x = &g->word[i];
        x->alias_at = nonzeros;
        if (!is_listed(g, i)) {
            x->fresh = g->b.counts + row * g->b.width;
            x->stale = g->stale + row++ * g->b.width;
            for (uint32_t k = 0; k < topics; k++) {
                nonzeros += x->stale[k] > 0;
            }
            continue;
        }
        size_t length;
        const float *list = list_of(g, i, &length);
        for (size_t j = 0; j < length; j++) {
            uint32_t *mark = &g->mark[(uint32_t)list[j]];
            nonzeros += *mark != i + 1;
            *mark = (uint32_t)(i + 1);
        }
        x->mask = cells_for(g, nonzeros - x->alias_at, g->own[i]) - 1;
        cells += (size_t)x->mask + 1;
    }
    g->entries = tide_alloc((nonzeros + 1) * sizeof *g->entries);
    g->cells = tide_alloc((cells + 1) * sizeof *g->cells);
    if (!g->entries || !g->cells) {
        return TIDE_ENOMEM;
    }
    memset(g->cells, 0xff, cells * sizeof *g->cells);
    size_t at = 0;
    for (size_t i = 0; i < g->words; i++) {
        if (is_listed(g, i)) {
            g->word[i].cells = g->cells + at;
            at += (size_t)g->word[i].mask + 1;
        }
    }
    return 0;
}

static int by_number(const void *a, const void *b) {
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Counts a rare word's tokens; its topics, rising, in `stack`. */
static uint32_t count_list(struct light *g, size_t i) {
    struct word *x = &g->word[i];
    size_t length;
    const float *list = list_of(g, i, &length);
    uint32_t topics = 0;
    for (size_t j = 0; j < length; j++) {
        const uint32_t k = (uint32_t)list[j];
        struct cell *c = cell_of(x, k);
        if (c->topic != k) {
            *c = (struct cell){k, 0, 0};
            g->stack[topics++] = k;
        }
        c->stale = ++c->fresh;
    }
    qsort(g->stack, topics, sizeof *g->stack, by_number);
    return topics;
}

static void fill_word(struct light *g, size_t i) {
    struct word *x = &g->word[i];
    struct lda_alias_entry *entries = g->entries + x->alias_at;
    uint32_t topics = g->b.prior.topics;
    if (x->fresh) {
        for (uint32_t k = 0; k < topics; k++) {
            g->stack[k] = k;
        }
    } else {
        topics = count_list(g, i);
    }
    for (uint32_t j = 0; j < topics; j++) {
        const uint32_t k = g->stack[j];
        const double n = counts_of(x, k).stale;
        if (n > 0) {
            entries[x->alias_count].topic = k;
            g->weights[x->alias_count] = n * g->inverse[k];
            x->mass += g->weights[x->alias_count++];
        }
    }
    if (x->alias_count > 0) {
        lda_alias_build(entries, g->weights, g->stack, x->alias_count, x->mass);
    }
}

static int build(struct light *g) {
    const uint32_t topics = g->b.prior.topics;
    count_own(g);
    int code = lay_out(g);
    if (code) {
        return code;
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
    for (size_t i = 0; i < g->words; i++) {
        fill_word(g, i);
    }
    return 0;
}

/* ---- proposals ---- */

static inline double at_least_0(double x) {
    return x < 0 ? 0 : x;
}

static inline uint32_t word_proposal(const struct light *g, const struct word *x, struct lda_stream *s) {
    const double at = lda_uniform(s) * (x->mass + g->rest_mass);
    return at < x->mass && x->alias_count > 0 ? lda_alias_draw(g->entries + x->alias_at, x->alias_count, s)
                                              : lda_alias_draw(g->rest, g->b.prior.topics, s);
}

/* n_kw + b and n_k + V b of a topic, the token's own count at o taken out. */
static inline double word_part(const struct light *g, const struct counted *n, uint32_t k, uint32_t o) {
    return at_least_0(n->fresh - (k == o && !TIDE_MUTANT(lda_own_count_kept))) + g->b.prior.beta;
}

static inline double total_part(const struct light *g, uint32_t k, uint32_t o) {
    const double n = g->shifted[k] - (k == o);
    return n < g->b.prior.beta_sum ? g->b.prior.beta_sum : n;
}

static inline double document_part(const struct light *g, uint32_t k, uint32_t o) {
    return (double)(g->document[k] - (k == o)) + (double)g->b.prior.alpha[k];
}

static inline double proposed(const struct light *g, const struct counted *n, uint32_t k) {
    return (n->stale + g->b.prior.beta) * g->inverse[k];
}

static uint32_t word_move(struct light *g, const struct word *x, uint32_t s, uint32_t o, struct lda_stream *stream) {
    const uint32_t t = word_proposal(g, x, stream);
    if (t == s) {
        return s;
    }
    const struct counted at_s = counts_of(x, s), at_t = counts_of(x, t);
    const double q_s = proposed(g, &at_s, s), q_t = proposed(g, &at_t, t);
    const bool swapped = TIDE_MUTANT(lda_proposals_swapped);
    const double up = document_part(g, t, o) * word_part(g, &at_t, t, o) * total_part(g, s, o) * (swapped ? q_t : q_s);
    const double down =
        document_part(g, s, o) * word_part(g, &at_s, s, o) * total_part(g, t, o) * (swapped ? q_s : q_t);
    return lda_uniform(stream) * down < up ? t : s;
}

static uint32_t document_move(struct light *g, const struct word *x, size_t token, size_t from, size_t to, uint32_t s,
                              uint32_t o, struct lda_stream *stream) {
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
    const struct counted at_s = counts_of(x, s), at_t = counts_of(x, t);
    double up = word_part(g, &at_t, t, o) * total_part(g, s, o), down = word_part(g, &at_s, s, o) * total_part(g, t, o);
    if (g->lightlda) {
        up *= document_part(g, t, o) * ((double)g->document[s] + (double)g->b.prior.alpha[s]);
        down *= document_part(g, s, o) * ((double)g->document[t] + (double)g->b.prior.alpha[t]);
    }
    return lda_uniform(stream) * down < up ? t : s;
}

static void one_document(struct light *g, size_t document) {
    size_t begin, end;
    lda_range(&g->b.d, document, g->b.first, g->b.first + (uint32_t)g->words, &begin, &end);
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
        struct word *x = &g->word[g->b.d.words[i] - g->b.first];
        const uint32_t o = lda_topic(&g->b.d.z, i);
        uint32_t s = o;
        for (uint64_t step = 0; step < g->steps; step++) {
            s = word_move(g, x, s, o, &stream);
            s = document_move(g, x, i, from, to, s, o, &stream);
        }
        if (s != o) {
            lda_topic_set(&g->b.d.z, i, s);
            g->document[o]--;
            g->document[s]++;
            count(x, o, -1);
            count(x, s, 1);
            if (!x->fresh) {
                g->listed[g->places[i] - g->from] = (float)s;
            }
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

enum { STALE = LDA_BLOCK, STEPS, MOVE, STALE_TOTALS, ROW_OF, STARTS, LISTED, FROM, PLACES };
static const struct tide_parameter parameters[] = {
    LDA_BLOCK_PARAMETERS,
    [STALE] = {"stale", TIDE_TENSOR, 1, true, 0, "n_kw as proposals are drawn from them: the counts before the call"},
    [STEPS] = {"steps", TIDE_NUMBER, 0, false, 2, "cycles of both proposals a token"},
    [MOVE] = {"doc_move", TIDE_TEXT, 0, false, 0, "\"other\" (default, exact) or \"lightlda\""},
    [STALE_TOTALS] = {"stale_totals", TIDE_TENSOR, 2, false, 0, "n_k as proposals are drawn from them; default totals"},
    [ROW_OF] = {"row_of", TIDE_TENSOR, 9, false, 0,
                "of each word first, first + 1, ..: its row (lda_places), 2^32 - 1: it is rare and "
                "has a list; without row_of all words have rows"},
    [STARTS] = {"starts", TIDE_TENSOR, 9, false, 0,
                "of these words and the end: place of the first token in the lists (lda_places)"},
    [LISTED] = {"listed", TIDE_TENSOR, 1, false, 0, "topic of each token of the rare words of the range; changed"},
    [FROM] = {"from", TIDE_NUMBER, 0, false, 0, "place of the first number of listed"},
    [PLACES] = {"places", TIDE_TENSOR, 9, false, 0, "of each token in the lists (lda_places)"},
};

const struct tide_kernel tide_kernel_lda_light;

/* Every word has a row or a list, and every token here of a rare word its place in that. */
static int check_lists(const struct light *g, size_t listed, char *error) {
    size_t row = 0;
    for (size_t i = 0; i < g->words; i++) {
        row += g->row_of[i] != UINT32_MAX;
        if (g->starts[i] > g->starts[i + 1]) {
            return tide_kernel_fail(error, TIDE_EINVAL, "starts: word %zu ends before it begins", i);
        }
    }
    if (row != g->b.rows) {
        return tide_kernel_fail(error, TIDE_EINVAL, "row_of: %zu words with rows, counts has %zu", row, g->b.rows);
    }
    if (g->starts[0] < g->from || g->starts[g->words] - g->from > listed) {
        return tide_kernel_fail(error, TIDE_EINVAL, "listed: lacks tokens of the rare words");
    }
    for (size_t i = g->starts[0] - g->from; i < g->starts[g->words] - g->from; i++) {
        if (!(g->listed[i] >= 0 && g->listed[i] < (float)g->b.prior.topics)) {
            return tide_kernel_fail(error, TIDE_EINVAL, "listed: token %zu has topic %g of %u", i, (double)g->listed[i],
                                    g->b.prior.topics);
        }
    }
    for (size_t d = 0; d < g->b.d.count; d++) {
        size_t begin, end;
        lda_range(&g->b.d, d, g->b.first, g->b.first + (uint32_t)g->words, &begin, &end);
        for (size_t i = begin; i < end; i++) {
            const size_t w = g->b.d.words[i] - g->b.first;
            if (g->row_of[w] == UINT32_MAX &&
                !(g->places[i] >= g->starts[w] && g->places[i] < g->starts[w + 1] &&
                  (uint32_t)g->listed[g->places[i] - g->from] == lda_topic(&g->b.d.z, i))) {
                return tide_kernel_fail(error, TIDE_EINVAL,
                                        "places: token %zu is not in its word's list with its topic", i + 1);
            }
        }
    }
    return 0;
}

static int read_lists(const struct tide_argument *a, struct light *g, char *error) {
    const struct tide_kernel *self = &tide_kernel_lda_light;
    const struct tide_tensor *rows = &a[ROW_OF].tensor, *listed = &a[LISTED].tensor;
    if (!a[STARTS].given || !a[LISTED].given || !a[PLACES].given) {
        return tide_kernel_fail(error, TIDE_EINVAL, "row_of requires starts, listed and places");
    }
    g->row_of = rows->data;
    g->words = rows->rows * rows->columns;
    g->listed = listed->data;
    int code = tide_kernel_whole(self, a, FROM, 0, UINT32_MAX, &g->from, error);
    code = code ? code : lda_read_vector(self, a, STARTS, g->words + 1, &g->starts, error);
    code = code ? code : lda_read_vector(self, a, PLACES, g->b.d.tokens, &g->places, error);
    if (code == 0 && g->words > UINT32_MAX - (uint64_t)g->b.first) {
        code = tide_kernel_fail(error, TIDE_EINVAL, "row_of: words beyond 2^32");
    }
    return code ? code : check_lists(g, listed->rows * listed->columns, error);
}

static int read_all(const struct tide_argument *a, struct light *g, char *error) {
    const struct tide_kernel *self = &tide_kernel_lda_light;
    static const char *const moves[] = {"other", "lightlda"};
    size_t width, rows, move;
    float *stale = NULL;
    int code = lda_read_block(self, a, &g->b, error);
    code = code ? code : lda_read_rows(self, a, STALE, g->b.prior.topics, &width, &rows, &stale, error);
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
    g->words = g->b.rows;
    return code == 0 && a[ROW_OF].given ? read_lists(a, g, error) : code;
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
    g.word = tide_alloc_zero(g.words + 1, sizeof *g.word);
    g.own = tide_alloc_zero(g.words + 1, sizeof *g.own);
    g.mark = tide_alloc_zero(topics, sizeof *g.mark);
    g.weights = tide_alloc(topics * sizeof *g.weights);
    g.stack = tide_alloc(topics * sizeof *g.stack);
    const bool fine =
        g.shifted && g.inverse && g.document && g.rest && g.alpha && g.word && g.own && g.mark && g.weights && g.stack;
    code = fine ? build(&g) : TIDE_ENOMEM;
    for (size_t i = 0; code == 0 && i < g.b.d.count; i++) {
        one_document(&g, i);
    }
    void *blocks[] = {g.shifted, g.inverse, g.document, g.rest,  g.alpha,   g.word,
                      g.own,     g.mark,    g.weights,  g.stack, g.entries, g.cells};
    for (size_t i = 0; i < TIDE_COUNT(blocks); i++) {
        tide_free(blocks[i]);
    }
    if (code) {
        return tide_kernel_fail(error, code, "no memory for tables of %zu words", g.words);
    }
    return lda_block_results(&g.b, results);
}

const struct tide_kernel tide_kernel_lda_light = {
    "lda_light", "Draws topics by two cheap proposals in turn. LightLDA, Yuan et al., WWW 2015, section 4.", parameters,
    TIDE_COUNT(parameters), run};
