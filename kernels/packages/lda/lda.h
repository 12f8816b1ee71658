/*
 * What the kernels of topic models share (latent Dirichlet allocation, Blei, Ng, Jordan 2003):
 * random streams, topics of tokens, checked arguments.
 *
 * Documents are rows: `offsets` (u64, documents + 1) into `words` (u32) and `topics` (u16, or u32
 * where there are more than 65,536 topics). In a document words rise, so that the tokens of a range
 * of words lie together. Counts n_kw are f32 rows of `width` numbers, topics padded to 16; n_k is
 * f64.
 *
 * A stream of random numbers belongs to (seed, pass, phase, unit), where a unit is a document, or a
 * run of a word: so a result depends on no worker, cut, placement or time. Any thread.
 */
#ifndef TIDE_LDA_H
#define TIDE_LDA_H

#include "tide/kernel.h"

#define TIDE_KERNEL(name) extern const struct tide_kernel tide_kernel_##name;
#include "kernels.def"
#undef TIDE_KERNEL

enum { LDA_LANES = 16, LDA_TOPICS_MOST = 1 << 24, LDA_U16 = 10, LDA_U32 = 9 };

/* xorshift128+ (Vigna, arXiv 1404.0390), its words mixed from the name of the stream. */
struct lda_stream {
    uint64_t a, b;
};

static inline void lda_stream_begin(struct lda_stream *s, uint64_t seed, uint64_t pass, uint64_t phase, uint64_t unit) {
    uint64_t name = tide_mix64(seed + 0x9E3779B97F4A7C15u);
    name = tide_mix64(name ^ (pass << 20 | phase));
    s->a = tide_mix64(name ^ unit);
    s->b = tide_mix64(s->a ^ 0xD1B54A32D192ED03u);
    s->a += s->a == 0 && s->b == 0;
}

static inline uint64_t lda_next(struct lda_stream *s) {
    uint64_t x = s->a;
    const uint64_t y = s->b;
    s->a = y;
    x ^= x << 23;
    s->b = x ^ y ^ (x >> 17) ^ (y >> 26);
    return s->b + y;
}

/* [0, 1) */
static inline double lda_uniform(struct lda_stream *s) {
    return (double)(lda_next(s) >> 11) * 0x1p-53;
}

/* 0 .. limit - 1; limit < 2^32, with a bias below 2^-31 of a share. */
static inline uint32_t lda_below(struct lda_stream *s, uint32_t limit) {
    return (uint32_t)(((lda_next(s) >> 32) * limit) >> 32);
}

/* Topics of tokens, 16 or 32 bits each. */
struct lda_topics {
    void *data;
    bool wide;
};

static inline uint32_t lda_topic(const struct lda_topics *z, size_t i) {
    return z->wide ? ((const uint32_t *)z->data)[i] : ((const uint16_t *)z->data)[i];
}

static inline void lda_topic_set(const struct lda_topics *z, size_t i, uint32_t topic) {
    if (z->wide) {
        ((uint32_t *)z->data)[i] = topic;
    } else {
        ((uint16_t *)z->data)[i] = (uint16_t)topic;
    }
}

/* Documents as arguments; `first` is the number of the first one in the corpus. */
struct lda_documents {
    const uint64_t *offsets;
    size_t count;
    const uint32_t *words;
    struct lda_topics z;
    size_t tokens;
    uint64_t first;
};

/* Priors: a_k, their sum, b, and V b. */
struct lda_priors {
    const float *alpha;
    double alpha_sum, beta, beta_sum;
    uint32_t topics;
};

/* Arguments are checked whole: lengths, that offsets rise and stay inside, words < words_most (0:
 * not looked at), topics < topics_most (0: not looked at). EINVAL with the reason in `error`. An
 * index of SIZE_MAX is an argument that the kernel has not. */
int lda_read_documents(const struct tide_kernel *kernel, const struct tide_argument *arguments, size_t offsets,
                       size_t words, size_t z, uint32_t words_most, uint32_t topics_most, struct lda_documents *out,
                       char *error);
int lda_read_topics(const struct tide_kernel *kernel, const struct tide_argument *arguments, size_t index,
                    uint32_t topics_most, struct lda_topics *out, size_t *count, char *error);
int lda_read_priors(const struct tide_kernel *kernel, const struct tide_argument *arguments, size_t alpha, size_t beta,
                    size_t vocabulary, struct lda_priors *out, char *error);
/* Rows of n_kw: f32, `*width` a multiple of 16 and at least `topics`. */
int lda_read_rows(const struct tide_kernel *kernel, const struct tide_argument *arguments, size_t index,
                  uint32_t topics, size_t *width, size_t *rows, float **out, char *error);
/* A tensor of so many elements, of the declared type. */
int lda_read_vector(const struct tide_kernel *kernel, const struct tide_argument *arguments, size_t index, size_t count,
                    void *out, char *error);

/* ---- what all samplers share ---- */

/* Priors, sums, and the name of the draws; arguments of which a sampler's own ones come behind. */
struct lda_draws {
    struct lda_priors prior;
    double *totals; /* n_k, `totals_count` numbers: at least the topics */
    size_t totals_count;
    uint64_t seed, pass;
};
enum { LDA_TOTALS, LDA_ALPHA, LDA_BETA, LDA_VOCABULARY, LDA_SEED, LDA_PASS, LDA_DRAWS };
#define LDA_DRAWS_PARAMETERS                                                                                           \
    [LDA_TOTALS] = {"totals", TIDE_TENSOR, 2, true, 0, "n_k"}, [LDA_ALPHA] = {"alpha", TIDE_TENSOR,          1, true,  \
                                                                              0,       "prior of each topic"},         \
    [LDA_BETA] = {"beta", TIDE_NUMBER, 0, true, 0, "prior of a word"},                                                 \
    [LDA_VOCABULARY] = {"vocabulary", TIDE_NUMBER, 0, true, 0, "words of the dictionary, V"},                          \
    [LDA_SEED] = {"seed", TIDE_NUMBER, 0, true, 0, "of the draws"},                                                    \
    [LDA_PASS] = {"pass", TIDE_NUMBER, 0, true, 0, "over the data: other draws"}

int lda_read_draws(const struct tide_kernel *kernel, const struct tide_argument *arguments, struct lda_draws *out,
                   char *error);

/* ---- what the samplers of a range of words share ---- */

/* Documents, rows of a range of words, and sums: what a call reads and changes. */
struct lda_block {
    struct lda_documents d;
    struct lda_priors prior;
    uint64_t seed, pass, phase;
    uint32_t first; /* word of the first row */
    size_t rows, width;
    float *counts;   /* n_kw */
    double *totals;  /* n_k, as this worker sees it */
    double *changes; /* of n_k, by this call */
    size_t tokens, moved;
};

/* Arguments of a block; a sampler's own ones come behind. */
enum {
    LDA_OFFSETS = LDA_DRAWS,
    LDA_WORDS,
    LDA_TOPICS,
    LDA_COUNTS,
    LDA_CHANGES,
    LDA_FIRST,
    LDA_DOCUMENT,
    LDA_PHASE,
    LDA_BLOCK
};
#define LDA_BLOCK_PARAMETERS                                                                                           \
    LDA_DRAWS_PARAMETERS,                                                                                              \
        [LDA_OFFSETS] = {"offsets", TIDE_TENSOR, 7, true, 0, "where each document begins in words, and the end"},      \
        [LDA_WORDS] = {"words", TIDE_TENSOR, 9, true, 0, "word of each token, rising in a document"},                  \
        [LDA_TOPICS] = {"topics", TIDE_TENSOR, 0, true, 0, "u16 or u32: topic of each token; changed"},                \
        [LDA_COUNTS] = {"counts", TIDE_TENSOR,                                                                         \
                        1,        true,                                                                                \
                        0,        "n_kw of the words first, first + 1, ..: a row each, padded to 16; changed"},        \
        [LDA_CHANGES] = {"changes", TIDE_TENSOR, 2, true, 0, "of n_k by this call are added"},                         \
        [LDA_FIRST] = {"first", TIDE_NUMBER, 0, false, 0, "word of the first row"},                                    \
        [LDA_DOCUMENT] = {"document", TIDE_NUMBER, 0, false, 0, "number of the first document in the corpus"},         \
        [LDA_PHASE] = {"phase", TIDE_NUMBER, 0, false, 0, "number of the range of words: other draws"}

int lda_read_block(const struct tide_kernel *kernel, const struct tide_argument *arguments, struct lda_block *out,
                   char *error);
/* tokens, moved, count; returns their number. */
int lda_block_results(const struct lda_block *b, struct tide_result *results);

/* The tokens of a document whose words are first .. last - 1: [*begin, *end). */
static inline void lda_range(const struct lda_documents *d, size_t document, uint32_t first, uint32_t last,
                             size_t *begin, size_t *end) {
    size_t low = d->offsets[document], high = d->offsets[document + 1], stop = high;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (d->words[middle] < first) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    *begin = low;
    high = stop;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (d->words[middle] < last) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    *end = low;
}

/* ---- alias tables: draws in constant time (Walker 1977, Vose 1991) ---- */

struct lda_alias_entry {
    uint32_t threshold; /* of 2^32: below it the entry's own topic is drawn */
    uint32_t topic, other;
};

/* Builds a table in place: entries[i].topic is set, weights[i] > 0 or 0 (not all). Scratch: `stack`
 * of count numbers. weights are used up. */
void lda_alias_build(struct lda_alias_entry *entries, double *weights, uint32_t *stack, uint32_t count, double sum);

static inline uint32_t lda_alias_draw(const struct lda_alias_entry *entries, uint32_t count, struct lda_stream *s) {
    const uint64_t bits = lda_next(s);
    const struct lda_alias_entry *e = &entries[(uint32_t)(((bits >> 32) * count) >> 32)];
    return (uint32_t)bits < e->threshold || e->threshold == UINT32_MAX ? e->topic : e->other;
}

/* lgamma(n + a) - lgamma(a) for whole n, by a table of the small ones. */
struct lda_rising {
    double *small;
    double a, at_a;
};
int lda_rising_init(struct lda_rising *r, double a); /* ENOMEM; release in any case */
void lda_rising_release(struct lda_rising *r);
double lda_rising_of(const struct lda_rising *r, uint64_t n);

#endif
