/*
 * lda_warp_word and lda_warp_document: Metropolis-Hastings with delayed counts, two phases a pass
 * (WarpLDA: Chen, Li, Zhu, Chen, VLDB 2016). Each token has a topic and one proposal. Counts stand
 * still in a phase, so tokens of a word (a document) are independent, and no table of n_kw is
 * needed: a word's counts are those of its tokens.
 *
 * The word phase accepts or refuses what the documents proposed, then proposes by words from
 * c_k + b; the document phase accepts or refuses that, then proposes from n_kd + a_k. The token's
 * own topic is taken out of all counts, which WarpLDA does not do: perplexity is better so.
 *
 * The tokens of a word lie in `parts` runs, those of each part of the documents, in the order of
 * documents; their order is the same however documents are cut.
 */
#include "lda.h"

#include <math.h>
#include <string.h>

enum { RUN_TOKENS = 8192, DENSE_TOPICS = 4096 };

struct warp {
    struct lda_priors prior;
    struct lda_topics z, proposals;
    const double *totals; /* n_k + V b: before the phase */
    double *next;         /* n_k after it: added to */
    uint64_t seed, pass;
    /* counts of the word or document at hand: dense, or by open addressing */
    int32_t *dense;
    uint32_t *keys, *values;
    uint32_t mask;
    bool hashed;
    uint32_t *touched; /* topics with a count */
    size_t touched_count, touched_room;
    struct lda_alias_entry *alias;
    double *weights;
    uint32_t *stack;
    size_t accepted, tokens;
};

/* ---- counts ---- */

static inline size_t slot_of(const struct warp *w, uint32_t topic) {
    uint32_t at = (topic * 2654435761u) & w->mask;
    while (w->keys[at] != UINT32_MAX && w->keys[at] != topic) {
        at = (at + 1) & w->mask;
    }
    return at;
}

static inline int32_t count_of(const struct warp *w, uint32_t topic) {
    if (!w->hashed) {
        return w->dense[topic];
    }
    const size_t at = slot_of(w, topic);
    return w->keys[at] == topic ? (int32_t)w->values[at] : 0;
}

static inline void count_one(struct warp *w, uint32_t topic) {
    if (!w->hashed) {
        if (w->dense[topic]++ == 0) {
            w->touched[w->touched_count++] = topic;
        }
        return;
    }
    const size_t at = slot_of(w, topic);
    if (w->keys[at] != topic) {
        w->keys[at] = topic;
        w->values[at] = 0;
        w->touched[w->touched_count++] = (uint32_t)at;
    }
    w->values[at]++;
}

static inline uint32_t touched_topic(const struct warp *w, size_t i) {
    return w->hashed ? w->keys[w->touched[i]] : w->touched[i];
}

static inline uint32_t touched_value(const struct warp *w, size_t i) {
    return w->hashed ? w->values[w->touched[i]] : (uint32_t)w->dense[w->touched[i]];
}

static void clear_counts(struct warp *w) {
    for (size_t i = 0; i < w->touched_count; i++) {
        if (w->hashed) {
            w->keys[w->touched[i]] = UINT32_MAX;
        } else {
            w->dense[w->touched[i]] = 0;
        }
    }
    w->touched_count = 0;
}

/* Chooses how so many tokens are counted. */
static void begin_counts(struct warp *w, size_t tokens) {
    w->hashed = !w->dense || (w->prior.topics > DENSE_TOPICS && 2 * tokens <= w->prior.topics);
    if (w->hashed) {
        uint32_t size = 16;
        while (size < 2 * tokens) {
            size *= 2;
        }
        w->mask = size - 1;
    }
}

/* Room for units of up to `most` tokens. */
static int room(struct warp *w, size_t most) {
    const size_t topics = w->prior.topics;
    const size_t distinct = most < topics ? most : topics;
    size_t size = 16;
    while (size < 2 * most) {
        size *= 2;
    }
    const bool dense = topics <= DENSE_TOPICS || 2 * most > topics;
    const bool hashed = topics > DENSE_TOPICS;
    w->dense = dense ? tide_alloc_zero(topics, sizeof *w->dense) : NULL;
    w->keys = hashed ? tide_alloc(size * sizeof *w->keys) : NULL;
    w->values = hashed ? tide_alloc(size * sizeof *w->values) : NULL;
    w->touched = tide_alloc((distinct + 1) * sizeof *w->touched);
    w->alias = tide_alloc((distinct + 1) * sizeof *w->alias);
    w->weights = tide_alloc((distinct + 1) * sizeof *w->weights);
    w->stack = tide_alloc((distinct + 1) * sizeof *w->stack);
    if (w->keys) {
        memset(w->keys, 0xff, size * sizeof *w->keys);
    }
    return (w->dense || !dense) && (!hashed || (w->keys && w->values)) && w->touched && w->alias && w->weights &&
                   w->stack
               ? 0
               : TIDE_ENOMEM;
}

static void release(struct warp *w) {
    tide_free(w->dense);
    tide_free(w->keys);
    tide_free(w->values);
    tide_free(w->touched);
    tide_free(w->alias);
    tide_free(w->weights);
    tide_free(w->stack);
}

/* Whether a token moves from s to t, where o is its topic in all counts; cs, ct: what its side adds
 * (b or a_k). */
static inline bool moves(const struct warp *w, struct lda_stream *stream, uint32_t s, uint32_t t, uint32_t o,
                         double prior_s, double prior_t) {
    const double own_s = s == o, own_t = t == o;
    const double at_s = ((double)count_of(w, s) - own_s + prior_s) * (w->totals[t] - own_t);
    const double at_t = ((double)count_of(w, t) - own_t + prior_t) * (w->totals[s] - own_s);
    return lda_uniform(stream) * at_s < at_t;
}

/* ---- words ---- */

struct runs {               /* of the tokens of a word, part by part of the documents */
    const uint32_t *starts; /* parts x (words + 1) */
    const uint64_t *bases;  /* where each part's block begins in z and proposals */
    size_t parts, words;
};

static size_t word_tokens(const struct runs *r, size_t word) {
    size_t count = 0;
    for (size_t p = 0; p < r->parts; p++) {
        const uint32_t *at = r->starts + p * (r->words + 1) + word;
        count += at[1] - at[0];
    }
    return count;
}

static void count_word(struct warp *w, const struct runs *r, size_t word) {
    for (size_t p = 0; p < r->parts; p++) {
        const uint32_t *at = r->starts + p * (r->words + 1);
        const size_t base = (size_t)r->bases[p] - at[0];
        for (size_t i = base + at[word]; i < base + at[word + 1]; i++) {
            count_one(w, lda_topic(&w->z, i));
        }
    }
}

static void build_alias(struct warp *w) {
    double sum = 0;
    for (size_t i = 0; i < w->touched_count; i++) {
        w->alias[i].topic = touched_topic(w, i);
        w->weights[i] = (double)touched_value(w, i);
        sum += w->weights[i];
    }
    lda_alias_build(w->alias, w->weights, w->stack, (uint32_t)w->touched_count, sum);
}

/* Streams of a word: one for each run of 8,192 tokens. */
struct word_stream {
    struct lda_stream stream;
    uint64_t seed, pass, phase, word;
    size_t token;
};

static inline struct lda_stream *next_of_word(struct word_stream *s) {
    if (s->token % RUN_TOKENS == 0) {
        lda_stream_begin(&s->stream, s->seed, s->pass, s->phase, s->word << 24 | s->token / RUN_TOKENS);
    }
    s->token++;
    return &s->stream;
}

static void word_phase(struct warp *w, const struct runs *r, size_t word, uint64_t number) {
    const size_t tokens = word_tokens(r, word);
    if (tokens == 0) {
        return;
    }
    const double beta = w->prior.beta;
    begin_counts(w, tokens);
    count_word(w, r, word);
    struct word_stream s = {.seed = w->seed, .pass = w->pass, .phase = 0, .word = number};
    for (size_t p = 0; p < r->parts; p++) {
        const uint32_t *at = r->starts + p * (r->words + 1);
        const size_t base = (size_t)r->bases[p] - at[0];
        for (size_t i = base + at[word]; i < base + at[word + 1]; i++) {
            struct lda_stream *stream = next_of_word(&s);
            const uint32_t o = lda_topic(&w->z, i), t = lda_topic(&w->proposals, i);
            if (t != o && moves(w, stream, o, t, o, beta, beta)) {
                lda_topic_set(&w->z, i, t);
                w->accepted++;
            }
        }
    }
    clear_counts(w);
    count_word(w, r, word);
    for (size_t i = 0; i < w->touched_count; i++) {
        w->next[touched_topic(w, i)] += touched_value(w, i);
    }
    build_alias(w);
    const double own = (double)tokens / ((double)tokens + beta * w->prior.topics);
    s = (struct word_stream){.seed = w->seed, .pass = w->pass, .phase = 1, .word = number};
    for (size_t p = 0; p < r->parts; p++) {
        const uint32_t *at = r->starts + p * (r->words + 1);
        const size_t base = (size_t)r->bases[p] - at[0];
        for (size_t i = base + at[word]; i < base + at[word + 1]; i++) {
            struct lda_stream *stream = next_of_word(&s);
            const uint32_t t = lda_uniform(stream) < own ? lda_alias_draw(w->alias, (uint32_t)w->touched_count, stream)
                                                         : lda_below(stream, w->prior.topics);
            lda_topic_set(&w->proposals, i, t);
        }
    }
    w->tokens += tokens;
    clear_counts(w);
}

enum { W_TOPICS = LDA_DRAWS, W_PROPOSALS, W_STARTS, W_BASES, W_NUMBERS, W_NEXT, W_SCORE, W_COUNTS, W_ROWS };
static const struct tide_parameter word_parameters[] = {
    LDA_DRAWS_PARAMETERS,
    [W_TOPICS] = {"topics", TIDE_TENSOR, 0, true, 0,
                  "u16 or u32: of the tokens of some words, in the order of words, block by block "
                  "of the documents; changed"},
    [W_PROPOSALS] = {"proposals", TIDE_TENSOR, 0, false, 0, "as topics; changed"},
    [W_STARTS] = {"starts", TIDE_TENSOR, 9, true, 0, "a row for each block: where each word begins, and the end"},
    [W_BASES] = {"bases", TIDE_TENSOR, 7, true, 0, "where each block begins in topics"},
    [W_NUMBERS] = {"numbers", TIDE_TENSOR, 9, true, 0, "of the words in the vocabulary: names their draws"},
    [W_NEXT] = {"next", TIDE_TENSOR, 2, true, 0, "n_k of these words after the phase are added"},
    [W_SCORE] = {"score", TIDE_FLAG, 0, false, 0, "no draws: counts, and the words' part of the log-likelihood"},
    [W_COUNTS] = {"counts", TIDE_TENSOR, 1, false, 0, "with score: rows of n_kw that are added to"},
    [W_ROWS] = {"rows", TIDE_TENSOR, 9, false, 0, "of each word in counts, 2^32 - 1: none"},
};

const struct tide_kernel tide_kernel_lda_warp_word;

static int read_runs(const struct tide_kernel *self, const struct tide_argument *a, struct runs *r, size_t tokens,
                     char *error) {
    const struct tide_tensor *starts = &a[W_STARTS].tensor, *bases = &a[W_BASES].tensor;
    r->parts = bases->rows * bases->columns;
    r->starts = starts->data;
    r->bases = bases->data;
    const size_t all = starts->rows * starts->columns;
    if (r->parts == 0 || all % r->parts != 0 || all == 0) {
        return tide_kernel_fail(error, TIDE_EINVAL, "starts: not a row for each of %zu blocks", r->parts);
    }
    r->words = all / r->parts - 1;
    for (size_t p = 0; p < r->parts; p++) {
        const uint32_t *at = r->starts + p * (r->words + 1);
        for (size_t i = 0; i < r->words; i++) {
            if (at[i] > at[i + 1]) {
                return tide_kernel_fail(error, TIDE_EINVAL, "starts: word %zu of block %zu ends before it begins", i,
                                        p);
            }
        }
        if (r->bases[p] > tokens || at[r->words] - at[0] > tokens - r->bases[p]) {
            return tide_kernel_fail(error, TIDE_EINVAL, "bases: block %zu ends behind the topics", p);
        }
    }
    const uint32_t *numbers;
    return lda_read_vector(self, a, W_NUMBERS, r->words, &numbers, error);
}

/* Counts and their part of the log-likelihood: sum over (w, k) of lgamma(n_kw + b) - lgamma(b). */
static int score_words(struct warp *w, const struct runs *r, const struct tide_argument *a, double *sum, char *error) {
    struct lda_rising rising = {0};
    size_t width = 0, rows = 0;
    float *counts = NULL;
    uint32_t *row_of = NULL;
    int code = 0;
    if (a[W_COUNTS].given) {
        code = lda_read_rows(&tide_kernel_lda_warp_word, a, W_COUNTS, w->prior.topics, &width, &rows, &counts, error);
        code = code ? code : lda_read_vector(&tide_kernel_lda_warp_word, a, W_ROWS, r->words, &row_of, error);
    }
    if (code == 0 && lda_rising_init(&rising, w->prior.beta) < 0) {
        code = tide_kernel_fail(error, TIDE_ENOMEM, "no memory");
    }
    for (size_t word = 0; word < r->words && code == 0; word++) {
        const size_t tokens = word_tokens(r, word);
        begin_counts(w, tokens);
        count_word(w, r, word);
        const bool out = row_of && row_of[word] < rows;
        double part = 0;
        for (size_t i = 0; i < w->touched_count; i++) {
            const uint32_t k = touched_topic(w, i), n = touched_value(w, i);
            w->next[k] += n;
            part += lda_rising_of(&rising, n);
            if (out) {
                counts[(size_t)row_of[word] * width + k] += (float)n;
            }
        }
        *sum += part;
        w->tokens += tokens;
        clear_counts(w);
    }
    lda_rising_release(&rising);
    return code;
}

/* n_k + V b in scratch, so that the draws add nothing. */
static double *shifted(const struct lda_draws *draws) {
    double *made = tide_alloc(((size_t)draws->prior.topics + 1) * sizeof *made);
    for (uint32_t k = 0; made && k < draws->prior.topics; k++) {
        made[k] = draws->totals[k] + draws->prior.beta_sum;
    }
    return made;
}

static void set_draws(struct warp *w, const struct lda_draws *draws) {
    w->prior = draws->prior;
    w->seed = draws->seed;
    w->pass = draws->pass;
}

static int word_run(const struct tide_argument *a, struct tide_result *results, char *error) {
    const struct tide_kernel *self = &tide_kernel_lda_warp_word;
    struct warp w = {0};
    struct runs r = {0};
    size_t tokens = 0, proposals = 0;
    struct lda_draws draws = {0};
    double score = 0;
    const bool scores = a[W_SCORE].number != 0;
    int code = lda_read_draws(self, a, &draws, error);
    set_draws(&w, &draws);
    code = code ? code : lda_read_topics(self, a, W_TOPICS, w.prior.topics, &w.z, &tokens, error);
    code = code ? code : read_runs(self, a, &r, tokens, error);
    if (code == 0 && !scores) {
        code = a[W_PROPOSALS].given
                   ? lda_read_topics(self, a, W_PROPOSALS, w.prior.topics, &w.proposals, &proposals, error)
                   : tide_kernel_fail(error, TIDE_EINVAL, "proposals: missing");
        if (code == 0 && (proposals < tokens || w.proposals.wide != w.z.wide)) {
            code = tide_kernel_fail(error, TIDE_EINVAL, "proposals: not as many as topics, or of another type");
        }
    }
    code = code ? code : lda_read_vector(self, a, W_NEXT, w.prior.topics, &w.next, error);
    if (code) {
        return code;
    }
    size_t most = 1;
    for (size_t i = 0; i < r.words; i++) {
        const size_t count = word_tokens(&r, i);
        most = count > most ? count : most;
    }
    double *moved = shifted(&draws);
    w.totals = moved;
    code = moved ? room(&w, most) : TIDE_ENOMEM;
    if (code) {
        code = tide_kernel_fail(error, TIDE_ENOMEM, "no memory for %zu tokens of a word", most);
    }
    const uint32_t *numbers = a[W_NUMBERS].tensor.data;
    if (code == 0 && scores) {
        code = score_words(&w, &r, a, &score, error);
    }
    for (size_t i = 0; i < r.words && code == 0 && !scores; i++) {
        word_phase(&w, &r, i, numbers[i]);
    }
    release(&w);
    tide_free(moved);
    results[0] = (struct tide_result){"tokens", (double)w.tokens};
    results[1] = (struct tide_result){"accepted", (double)w.accepted};
    results[2] = (struct tide_result){"score", score};
    results[3] = (struct tide_result){"count", (double)w.tokens};
    return code ? code : 4;
}

const struct tide_kernel tide_kernel_lda_warp_word = {
    "lda_warp_word", "The word phase of a pass with delayed counts, over some words. WarpLDA, VLDB 2016, section 4.",
    word_parameters, TIDE_COUNT(word_parameters), word_run};

/* ---- documents ---- */

enum { D_TOPICS = LDA_DRAWS, D_PROPOSALS, D_OFFSETS, D_PLACES, D_NEXT, D_DOCUMENT, D_FIRST };
static const struct tide_parameter document_parameters[] = {
    LDA_DRAWS_PARAMETERS,
    [D_TOPICS] = {"topics", TIDE_TENSOR, 0, true, 0,
                  "u16 or u32: of the tokens of these documents, in the order of words; changed"},
    [D_PROPOSALS] = {"proposals", TIDE_TENSOR, 0, true, 0, "as topics; changed"},
    [D_OFFSETS] = {"offsets", TIDE_TENSOR, 7, true, 0, "where each document begins in places, and the end"},
    [D_PLACES] = {"places", TIDE_TENSOR, 9, true, 0, "of each token in topics (lda_arrange)"},
    [D_NEXT] = {"next", TIDE_TENSOR, 2, true, 0, "n_k of these documents after the phase are added"},
    [D_DOCUMENT] = {"document", TIDE_NUMBER, 0, false, 0, "number of the first document in the corpus"},
    [D_FIRST] = {"propose_only", TIDE_FLAG, 0, false, 0, "before the first pass: topics stay"},
};

const struct tide_kernel tide_kernel_lda_warp_document;

struct document_side {
    const uint64_t *offsets;
    const uint32_t *places;
    size_t count;
    uint64_t first;
    bool propose_only, symmetric;
    struct lda_alias_entry *alias; /* of a_k, if they differ */
};

static void document_phase(struct warp *w, const struct document_side *d, size_t document) {
    const size_t from = d->offsets[document] - d->offsets[0], to = d->offsets[document + 1] - d->offsets[0];
    const uint32_t *places = d->places;
    const float *alpha = w->prior.alpha;
    if (from == to) {
        return;
    }
    struct lda_stream s;
    lda_stream_begin(&s, w->seed, w->pass, 2, d->first + document);
    begin_counts(w, to - from);
    if (!d->propose_only) {
        for (size_t i = from; i < to; i++) {
            count_one(w, lda_topic(&w->z, places[i]));
        }
        for (size_t i = from; i < to; i++) {
            const uint32_t o = lda_topic(&w->z, places[i]), t = lda_topic(&w->proposals, places[i]);
            if (t != o && moves(w, &s, o, t, o, (double)alpha[o], (double)alpha[t])) {
                lda_topic_set(&w->z, places[i], t);
                w->accepted++;
            }
        }
        clear_counts(w);
    }
    /* Proposals have a stream of their own: they can be drawn again when the topics alone are
     * known. */
    lda_stream_begin(&s, w->seed, w->pass, 4, d->first + document);
    const double own = (double)(to - from) / ((double)(to - from) + w->prior.alpha_sum);
    for (size_t i = from; i < to; i++) {
        w->next[lda_topic(&w->z, places[i])] += 1;
        uint32_t t;
        if (lda_uniform(&s) < own) {
            t = lda_topic(&w->z, places[from + lda_below(&s, (uint32_t)(to - from))]);
        } else {
            t = d->symmetric ? lda_below(&s, w->prior.topics) : lda_alias_draw(d->alias, w->prior.topics, &s);
        }
        lda_topic_set(&w->proposals, places[i], t);
    }
    w->tokens += to - from;
}

static int alias_of_alpha(struct document_side *d, const struct lda_priors *prior) {
    d->symmetric = true;
    for (uint32_t k = 1; k < prior->topics; k++) {
        d->symmetric = d->symmetric && prior->alpha[k] <= prior->alpha[0] && prior->alpha[k] >= prior->alpha[0];
    }
    if (d->symmetric) {
        return 0;
    }
    d->alias = tide_alloc(prior->topics * sizeof *d->alias);
    double *weights = tide_alloc(prior->topics * sizeof *weights);
    uint32_t *stack = tide_alloc(prior->topics * sizeof *stack);
    const bool fine = d->alias && weights && stack;
    for (uint32_t k = 0; fine && k < prior->topics; k++) {
        d->alias[k].topic = k;
        weights[k] = (double)prior->alpha[k];
    }
    if (fine) {
        lda_alias_build(d->alias, weights, stack, prior->topics, prior->alpha_sum);
    }
    tide_free(weights);
    tide_free(stack);
    return fine ? 0 : TIDE_ENOMEM;
}

static int read_sides(const struct tide_argument *a, struct warp *w, struct document_side *d, struct lda_draws *draws,
                      char *error) {
    const struct tide_kernel *self = &tide_kernel_lda_warp_document;
    struct lda_documents documents = {0};
    size_t tokens = 0, proposals = 0;
    int code = lda_read_draws(self, a, draws, error);
    set_draws(w, draws);
    code = code ? code : lda_read_topics(self, a, D_TOPICS, w->prior.topics, &w->z, &tokens, error);
    code = code ? code
                : lda_read_topics(self, a, D_PROPOSALS, a[D_FIRST].number != 0 ? 0 : w->prior.topics, &w->proposals,
                                  &proposals, error);
    code = code ? code : lda_read_documents(self, a, D_OFFSETS, SIZE_MAX, SIZE_MAX, 0, 0, &documents, error);
    if (code) {
        return code;
    }
    d->offsets = documents.offsets;
    d->count = documents.count;
    const size_t own = documents.offsets[documents.count] - documents.offsets[0];
    if (own > tokens || own > proposals || w->proposals.wide != w->z.wide) {
        return tide_kernel_fail(error, TIDE_EINVAL, "topics: fewer than the documents have tokens, or types differ");
    }
    code = lda_read_vector(self, a, D_PLACES, own, &d->places, error);
    for (size_t i = 0; i < own && code == 0; i++) {
        if (d->places[i] >= tokens) {
            code = tide_kernel_fail(error, TIDE_EINVAL, "places: token %zu lies behind the topics", i + 1);
        }
    }
    code = code ? code : lda_read_vector(self, a, D_NEXT, w->prior.topics, &w->next, error);
    return code ? code : tide_kernel_whole(self, a, D_DOCUMENT, 0, UINT64_MAX, &d->first, error);
}

static int document_run(const struct tide_argument *a, struct tide_result *results, char *error) {
    struct warp w = {0};
    struct document_side d = {.propose_only = a[D_FIRST].number != 0};
    struct lda_draws draws = {0};
    int code = read_sides(a, &w, &d, &draws, error);
    if (code) {
        return code;
    }
    size_t most = 1;
    for (size_t i = 0; i < d.count; i++) {
        const size_t tokens = d.offsets[i + 1] - d.offsets[i];
        most = tokens > most ? tokens : most;
    }
    double *moved = shifted(&draws);
    w.totals = moved;
    code = moved && alias_of_alpha(&d, &w.prior) == 0 ? room(&w, most) : TIDE_ENOMEM;
    for (size_t i = 0; i < d.count && code == 0; i++) {
        document_phase(&w, &d, i);
    }
    release(&w);
    tide_free(d.alias);
    tide_free(moved);
    if (code) {
        return tide_kernel_fail(error, code, "no memory for %u topics", w.prior.topics);
    }
    results[0] = (struct tide_result){"tokens", (double)w.tokens};
    results[1] = (struct tide_result){"accepted", (double)w.accepted};
    results[2] = (struct tide_result){"count", (double)w.tokens};
    return 3;
}

const struct tide_kernel tide_kernel_lda_warp_document = {
    "lda_warp_document",
    "The document phase of a pass with delayed counts, over some documents. WarpLDA, VLDB 2016, "
    "section 4.",
    document_parameters, TIDE_COUNT(document_parameters), document_run};
