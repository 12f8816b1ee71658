/*
 * The samplers of topic models on corpus A (docs/guides/topics.md), each beside a plain loop that does the
 * same in the same run, in turn: million tokens a second of one thread's processor time, and the
 * ratio. What a machine that others use as well does to one it does to the other; ratios stand.
 *   bench_topics [--json] [--only lda_gibbs]
 */
#include "base/base.h"
#include "kernels.h"
#include "packages/lda/lda.h"
#include "readers/bow.h"
#include "readers/generate.h"
#include "bench/report.h"
#include "tide/actor.h"
#include "wire/wire.h"

#include <stdlib.h>

enum { TURNS = 3, VOCABULARY = 10000, ARGUMENTS = 32 };

static const float alpha_each = 0.1f;
static const double beta = 0.01;

struct corpus {
    struct tide_bow bow;
    uint32_t *by_word, *starts; /* tokens in the order of words, and where each word begins */
};

struct state { /* of one sampler */
    const struct corpus *c;
    uint32_t topics;
    size_t width;
    uint16_t *z, *proposals;
    float *counts, *stale, *alpha, *listed;
    double *totals, *changes;
    uint32_t *row_of, *starts, *places;
    uint64_t pass;
};

static void die(const char *what) {
    fprintf(stderr, "bench_topics: %s: %s\n", what, tide_error_message());
    exit(1);
}

static void *zeros(size_t count, size_t size) {
    void *made = calloc(count + 1, size);
    if (!made) {
        die("no memory");
    }
    return made;
}

static int feed(void *reader, const char *data, size_t size) {
    return tide_bow_feed(reader, data, size);
}

static void read_corpus(struct corpus *c) {
    static const struct tide_topics_input a = {VOCABULARY, 100, 2000, 1000, 500, 10, 1};
    static const struct tide_bow_options options = {.format = TIDE_BOW_UCI};
    struct tide_bow_reader *reader = NULL;
    if (tide_bow_open(&options, &reader) < 0 || tide_bow_begin(reader, "A") < 0 ||
        tide_generate_topics(&a, (struct tide_sink){reader, feed}) < 0 ||
        tide_bow_end(reader) < 0 || tide_bow_finish(reader, NULL, &c->bow) < 0) {
        die("corpus A");
    }
    tide_bow_close(reader);
    c->starts = zeros(VOCABULARY + 1, sizeof *c->starts);
    c->by_word = zeros(c->bow.tokens, sizeof *c->by_word);
    for (size_t i = 0; i < c->bow.tokens; i++) {
        c->starts[c->bow.words[i] + 1]++;
    }
    for (size_t w = 0; w < VOCABULARY; w++) {
        c->starts[w + 1] += c->starts[w];
    }
    uint32_t *at = zeros(VOCABULARY, sizeof *at);
    for (size_t i = 0; i < c->bow.tokens; i++) {
        const uint32_t w = c->bow.words[i];
        c->by_word[c->starts[w] + at[w]++] = (uint32_t)i;
    }
    free(at);
}

static struct state begin_state(const struct corpus *c, uint32_t topics, bool lists) {
    struct state s = {.c = c, .topics = topics, .width = (topics + 15) / 16 * 16};
    struct lda_stream stream;
    lda_stream_begin(&stream, 1, 0, 0, 0);
    s.z = zeros(c->bow.tokens, sizeof *s.z);
    s.proposals = zeros(c->bow.tokens, sizeof *s.proposals);
    s.counts = zeros(VOCABULARY * s.width, sizeof *s.counts);
    s.stale = zeros(VOCABULARY * s.width, sizeof *s.stale);
    s.alpha = zeros(s.width, sizeof *s.alpha);
    s.totals = zeros(s.width, sizeof *s.totals);
    s.changes = zeros(s.width, sizeof *s.changes);
    s.row_of = zeros(VOCABULARY, sizeof *s.row_of);
    s.starts = zeros(VOCABULARY + 1, sizeof *s.starts);
    s.places = zeros(c->bow.tokens, sizeof *s.places);
    s.listed = zeros(c->bow.tokens, sizeof *s.listed);
    for (uint32_t k = 0; k < topics; k++) {
        s.alpha[k] = alpha_each;
    }
    for (size_t i = 0; i < c->bow.tokens; i++) {
        s.z[i] = (uint16_t)lda_below(&stream, topics);
        s.proposals[i] = (uint16_t)lda_below(&stream, topics);
        s.counts[c->bow.words[i] * s.width + s.z[i]]++;
        s.totals[s.z[i]]++;
    }
    for (uint32_t w = 0; w < VOCABULARY; w++) {
        s.row_of[w] = lists ? UINT32_MAX : w;
        s.starts[w] = lists ? c->starts[w] : 0;
    }
    s.starts[VOCABULARY] = lists ? (uint32_t)c->bow.tokens : 0;
    for (uint32_t p = 0; p < c->bow.tokens; p++) {
        s.places[c->by_word[p]] = lists ? p : UINT32_MAX;
        s.listed[p] = (float)s.z[c->by_word[p]];
    }
    return s;
}

static void end_state(struct state *s) {
    void *all[] = {s->z,       s->proposals, s->counts, s->stale,  s->alpha, s->totals,
                   s->changes, s->row_of,    s->starts, s->places, s->listed};
    for (size_t i = 0; i < TIDE_COUNT(all); i++) {
        free(all[i]);
    }
}

/* ---- kernels ---- */

struct call {
    const struct tide_kernel *kernel;
    struct tide_argument a[ARGUMENTS];
};

static struct tide_argument *argument(struct call *c, const char *name) {
    for (size_t i = 0; i < c->kernel->parameter_count; i++) {
        if (strcmp(c->kernel->parameters[i].name, name) == 0) {
            c->a[i].given = true;
            return &c->a[i];
        }
    }
    die(name);
    return NULL;
}

static void tensor(struct call *c, const char *name, const void *data, uint8_t type, size_t rows,
                   size_t columns) {
    argument(c, name)->tensor = (struct tide_tensor){(void *)(uintptr_t)data, rows, columns, type};
}

static struct call begin_call(const struct tide_kernel *kernel, struct state *s) {
    struct call c = {.kernel = kernel};
    for (size_t i = 0; i < kernel->parameter_count; i++) {
        c.a[i].number = kernel->parameters[i].number;
    }
    tensor(&c, "topics", s->z, TIDE_U16, s->c->bow.tokens, 1);
    tensor(&c, "alpha", s->alpha, TIDE_F32, s->topics, 1);
    argument(&c, "beta")->number = beta;
    argument(&c, "vocabulary")->number = VOCABULARY;
    argument(&c, "seed")->number = 1;
    argument(&c, "pass")->number = (double)s->pass;
    return c;
}

static void end_call(struct call *c) {
    struct tide_result results[16];
    char error[256] = "";
    if (c->kernel->run(c->a, results, error) < 0) {
        fprintf(stderr, "%s: %s\n", c->kernel->name, error);
        exit(1);
    }
}

static struct call begin_block(const struct tide_kernel *kernel, struct state *s, size_t rows) {
    struct call c = begin_call(kernel, s);
    tensor(&c, "offsets", s->c->bow.offsets, TIDE_U64, s->c->bow.documents + 1, 1);
    tensor(&c, "words", s->c->bow.words, TIDE_U32, s->c->bow.tokens, 1);
    tensor(&c, "counts", s->counts, TIDE_F32, rows, s->width);
    tensor(&c, "totals", s->totals, TIDE_F64, s->width, 1);
    tensor(&c, "changes", s->changes, TIDE_F64, s->width, 1);
    return c;
}

static void gibbs(struct state *s) {
    struct call c = begin_block(&tide_kernel_lda_gibbs, s, VOCABULARY);
    end_call(&c);
}

static void light(struct state *s) {
    const bool lists = s->row_of[0] == UINT32_MAX;
    const size_t rows = lists ? 0 : VOCABULARY;
    memcpy(s->stale, s->counts, rows * s->width * sizeof *s->stale);
    struct call c = begin_block(&tide_kernel_lda_light, s, rows);
    tensor(&c, "stale", s->stale, TIDE_F32, rows, s->width);
    tensor(&c, "row_of", s->row_of, TIDE_U32, VOCABULARY, 1);
    tensor(&c, "starts", s->starts, TIDE_U32, VOCABULARY + 1, 1);
    tensor(&c, "places", s->places, TIDE_U32, s->c->bow.tokens, 1);
    tensor(&c, "listed", s->listed, TIDE_F32, lists ? s->c->bow.tokens : 0, 1);
    end_call(&c);
}

/* z and proposals are in the order of words here. */
static void warp(struct state *s) {
    static const uint64_t bases[1] = {0};
    struct call w = begin_call(&tide_kernel_lda_warp_word, s);
    tensor(&w, "proposals", s->proposals, TIDE_U16, s->c->bow.tokens, 1);
    tensor(&w, "starts", s->c->starts, TIDE_U32, 1, VOCABULARY + 1);
    tensor(&w, "bases", bases, TIDE_U64, 1, 1);
    tensor(&w, "numbers", s->row_of, TIDE_U32, VOCABULARY, 1);
    tensor(&w, "totals", s->totals, TIDE_F64, s->topics, 1);
    memset(s->changes, 0, s->width * sizeof *s->changes);
    tensor(&w, "next", s->changes, TIDE_F64, s->topics, 1);
    end_call(&w);
    struct call d = begin_call(&tide_kernel_lda_warp_document, s);
    tensor(&d, "proposals", s->proposals, TIDE_U16, s->c->bow.tokens, 1);
    tensor(&d, "offsets", s->c->bow.offsets, TIDE_U64, s->c->bow.documents + 1, 1);
    tensor(&d, "places", s->places, TIDE_U32, s->c->bow.tokens, 1);
    tensor(&d, "totals", s->changes, TIDE_F64, s->topics, 1);
    memset(s->totals, 0, s->width * sizeof *s->totals);
    tensor(&d, "next", s->totals, TIDE_F64, s->topics, 1);
    end_call(&d);
}

/* ---- plain loops: the same draws of each token, as one writes them down ---- */

static void plain_gibbs(struct state *s) {
    const struct tide_bow *b = &s->c->bow;
    const uint32_t topics = s->topics;
    double *p = zeros(topics, sizeof *p);
    int32_t *own = zeros(topics, sizeof *own);
    struct lda_stream stream;
    for (size_t d = 0; d < b->documents; d++) {
        lda_stream_begin(&stream, 1, s->pass, 0, d);
        for (size_t i = b->offsets[d]; i < b->offsets[d + 1]; i++) {
            own[s->z[i]]++;
        }
        for (size_t i = b->offsets[d]; i < b->offsets[d + 1]; i++) {
            float *row = s->counts + b->words[i] * s->width;
            uint32_t k = s->z[i];
            own[k]--, row[k]--, s->totals[k]--;
            double sum = 0;
            for (uint32_t t = 0; t < topics; t++) {
                sum += (own[t] + (double)s->alpha[t]) * ((double)row[t] + beta) /
                       (s->totals[t] + VOCABULARY * beta);
                p[t] = sum;
            }
            const double at = lda_uniform(&stream) * sum;
            for (k = 0; k + 1 < topics && p[k] <= at;) {
                k++;
            }
            own[k]++, row[k]++, s->totals[k]++;
            s->z[i] = (uint16_t)k;
        }
        memset(own, 0, topics * sizeof *own);
    }
    free(p);
    free(own);
}

/* LightLDA with dense alias tables of all words, as section 4 of the paper has it. */
static void plain_light(struct state *s) {
    const struct tide_bow *b = &s->c->bow;
    const uint32_t topics = s->topics;
    struct lda_alias_entry *alias = zeros(VOCABULARY * (size_t)topics, sizeof *alias);
    double *weights = zeros(topics, sizeof *weights);
    uint32_t *stack = zeros(topics, sizeof *stack);
    int32_t *own = zeros(topics, sizeof *own);
    double *stale_totals = zeros(topics, sizeof *stale_totals);
    memcpy(s->stale, s->counts, VOCABULARY * s->width * sizeof *s->stale);
    memcpy(stale_totals, s->totals, topics * sizeof *stale_totals);
    const double vb = VOCABULARY * beta;
    for (size_t w = 0; w < VOCABULARY; w++) {
        double sum = 0;
        for (uint32_t k = 0; k < topics; k++) {
            alias[w * topics + k].topic = k;
            weights[k] = ((double)s->stale[w * s->width + k] + beta) / (s->totals[k] + vb);
            sum += weights[k];
        }
        lda_alias_build(alias + w * topics, weights, stack, topics, sum);
    }
    struct lda_stream stream;
    for (size_t d = 0; d < b->documents; d++) {
        const size_t from = b->offsets[d], length = b->offsets[d + 1] - from;
        lda_stream_begin(&stream, 1, s->pass, 0, d);
        for (size_t i = from; i < from + length; i++) {
            own[s->z[i]]++;
        }
        for (size_t i = from; i < from + length; i++) {
            float *row = s->counts + b->words[i] * s->width;
            const float *stale = s->stale + b->words[i] * s->width;
            const uint32_t o = s->z[i];
            uint32_t k = o;
            for (int step = 0; step < 4; step++) {
                uint32_t t;
                if (step % 2 == 0) {
                    t = lda_alias_draw(alias + b->words[i] * (size_t)topics, topics, &stream);
                } else if (lda_uniform(&stream) * ((double)length - 1 + topics * 0.1) <
                           (double)length - 1) {
                    const size_t other = from + lda_below(&stream, (uint32_t)length - 1);
                    t = s->z[other + (other >= i)];
                } else {
                    t = lda_below(&stream, topics);
                }
                const double nk = (double)row[k] - (k == o) + beta,
                             nt = (double)row[t] - (t == o) + beta,
                             mk = s->totals[k] - (k == o) + vb, mt = s->totals[t] - (t == o) + vb;
                double up = nt * mk, down = nk * mt;
                if (step % 2 == 0) {
                    up *= (own[t] - (t == o) + 0.1) * ((double)stale[k] + beta) /
                          (stale_totals[k] + vb);
                    down *= (own[k] - (k == o) + 0.1) * ((double)stale[t] + beta) /
                            (stale_totals[t] + vb);
                }
                k = lda_uniform(&stream) * down < up ? t : k;
            }
            own[o]--, row[o]--, s->totals[o]--;
            own[k]++, row[k]++, s->totals[k]++;
            s->z[i] = (uint16_t)k;
        }
        memset(own, 0, topics * sizeof *own);
    }
    free(alias);
    free(weights);
    free(stack);
    free(own);
    free(stale_totals);
}

/* One side of WarpLDA: accepts what the other side proposed, then proposes a topic of the unit's
 * tokens, or any. at[i]: place in z of the unit's i-th token. */
static void plain_side(struct state *s, const uint32_t *at, size_t count, int32_t *own,
                       double prior, struct lda_stream *stream) {
    const double vb = VOCABULARY * beta;
    for (size_t i = 0; i < count; i++) {
        own[s->z[at[i]]]++;
    }
    for (size_t i = 0; i < count; i++) {
        const uint32_t o = s->z[at[i]], t = s->proposals[at[i]];
        const double up = (own[t] - (t == o) + prior) * (s->totals[o] - 1 + vb),
                     down = (own[o] - 1 + prior) * (s->totals[t] - (t == o) + vb);
        if (lda_uniform(stream) * down < up) {
            s->z[at[i]] = (uint16_t)t;
        }
        s->changes[s->z[at[i]]]++;
    }
    for (size_t i = 0; i < count; i++) {
        const double all = (double)count + prior * s->topics;
        s->proposals[at[i]] = lda_uniform(stream) * all < (double)count
                                  ? s->z[at[lda_below(stream, (uint32_t)count)]]
                                  : (uint16_t)lda_below(stream, s->topics);
    }
    memset(own, 0, s->topics * sizeof *own);
}

static void plain_warp(struct state *s) {
    const struct tide_bow *b = &s->c->bow;
    int32_t *own = zeros(s->topics, sizeof *own);
    uint32_t *places = zeros(b->tokens, sizeof *places);
    struct lda_stream stream;
    for (uint32_t i = 0; i < b->tokens; i++) {
        places[i] = i;
    }
    for (int side = 0; side < 2; side++) {
        memset(s->changes, 0, s->width * sizeof *s->changes);
        for (size_t w = 0; w < (side == 0 ? VOCABULARY : b->documents); w++) {
            const size_t from = side == 0 ? s->c->starts[w] : b->offsets[w],
                         to = side == 0 ? s->c->starts[w + 1] : b->offsets[w + 1];
            lda_stream_begin(&stream, 1, s->pass, (uint64_t)side, w);
            plain_side(s, (side == 0 ? places : s->places) + from, to - from, own,
                       side == 0 ? beta : 0.1, &stream);
        }
        memcpy(s->totals, s->changes, s->width * sizeof *s->totals);
    }
    free(own);
    free(places);
}

/* ---- rows ---- */

/* Topics in the order of words, and where each token of the documents lies in it. */
static void order_by_words(struct state *s) {
    for (uint32_t p = 0; p < s->c->bow.tokens; p++) {
        s->places[s->c->by_word[p]] = p;
        s->z[p] = (uint16_t)s->listed[p];
    }
    for (uint32_t w = 0; w < VOCABULARY; w++) {
        s->row_of[w] = w;
    }
}

struct sampler {
    const char *name;
    uint32_t topics;
    void (*kernel)(struct state *s), (*plain)(struct state *s);
    bool lists, by_words;
};

static double seconds_of(struct state *s, void (*pass)(struct state *s)) {
    const uint64_t began = report_processor_time();
    s->pass++;
    pass(s);
    return (double)(report_processor_time() - began) * 1e-9;
}

static void measure(const struct corpus *c, const struct sampler *m) {
    struct state made = begin_state(c, m->topics, m->lists),
                 plain = begin_state(c, m->topics, false);
    if (m->by_words) {
        order_by_words(&made);
        order_by_words(&plain);
    }
    double best = 1e9, best_plain = 1e9;
    for (int turn = 0; turn < TURNS; turn++) {
        const double a = seconds_of(&made, m->kernel), b = seconds_of(&plain, m->plain);
        best = a < best ? a : best;
        best_plain = b < best_plain ? b : best_plain;
    }
    char row[96];
    snprintf(row, sizeof row, "%s, K %u", m->name, m->topics);
    report_row(row, "M tokens/s", (double)c->bow.tokens / best * 1e-6);
    snprintf(row, sizeof row, "%s, K %u: over the plain loop", m->name, m->topics);
    report_row(row, "x", best_plain / best);
    end_state(&made);
    end_state(&plain);
}

int main(int argc, char **argv) {
    static const struct sampler samplers[] = {
        {"lda_gibbs", 100, gibbs, plain_gibbs, false, false},
        {"lda_gibbs", 400, gibbs, plain_gibbs, false, false},
        {"lda_light, rows", 100, light, plain_light, false, false},
        {"lda_light, lists", 100, light, plain_light, true, false},
        {"lda_light, rows", 1000, light, plain_light, false, false},
        {"lda_light, lists", 1000, light, plain_light, true, false},
        {"lda_warp", 100, warp, plain_warp, false, true},
        {"lda_warp", 1000, warp, plain_warp, false, true},
    };
    struct corpus c = {0};
    report_init(argc, argv, "topics");
    read_corpus(&c);
    const char *only = argc > 2 && strcmp(argv[argc - 2], "--only") == 0 ? argv[argc - 1] : "";
    for (size_t i = 0; i < TIDE_COUNT(samplers); i++) {
        if (strncmp(samplers[i].name, only, strlen(only)) == 0) {
            measure(&c, &samplers[i]);
        }
    }
    tide_bow_release(&c.bow);
    free(c.by_word);
    free(c.starts);
    return 0;
}
