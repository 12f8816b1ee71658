/*
 * The samplers of topic models. Exactness: three words, two documents, six tokens, two topics have
 * 64 states, whose posterior is enumerated. States are drawn from it, a sampler makes one sweep,
 * and the states after it must have the same distribution: a sampler that leaves another one behind
 * is found by chi-square. A planted mistake (LightLDA's document move, which is not exact) must be
 * found as well.
 */
#include "base/base.h"
#include "kernels.h"
#include "packages/lda/lda.h"
#include "wire/wire.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernel_call.h"

enum { TOKENS = 6, STATES = 64, K = 2, V = 3, WIDTH = 16, DRAWS = 60000 };

static const uint64_t offsets[] = {0, 3, 6};
static const uint32_t words[TOKENS] = {0, 0, 2, 0, 1, 2};
static const float alpha[K] = {0.3f, 0.5f};
static const double beta = 0.4;

static void priors(struct call *c) {
    tensor(c, "alpha", alpha, TIDE_F32, K, 1);
    number(c, "beta", beta);
    number(c, "vocabulary", V);
}

/* ---- states ---- */

static void state_of(unsigned state, uint16_t *z) {
    for (int i = 0; i < TOKENS; i++) {
        z[i] = (state >> i) & 1;
    }
}

static unsigned state_number(const uint16_t *z) {
    unsigned state = 0;
    for (int i = 0; i < TOKENS; i++) {
        state |= (unsigned)z[i] << i;
    }
    return state;
}

/* The joint log-likelihood by its definition. */
static double likelihood(const uint16_t *z) {
    double by_document[2][K] = {{0}}, by_word[V][K] = {{0}}, all[K] = {0}, sum = 0, a = 0;
    for (int i = 0; i < TOKENS; i++) {
        by_document[i / 3][z[i]]++;
        by_word[words[i]][z[i]]++;
        all[z[i]]++;
    }
    for (int k = 0; k < K; k++) {
        a += (double)alpha[k];
    }
    for (int d = 0; d < 2; d++) {
        sum += lgamma(a) - lgamma(3 + a);
        for (int k = 0; k < K; k++) {
            sum += lgamma(by_document[d][k] + (double)alpha[k]) - lgamma((double)alpha[k]);
        }
    }
    for (int k = 0; k < K; k++) {
        sum += lgamma(V * beta) - lgamma(all[k] + V * beta);
        for (int w = 0; w < V; w++) {
            sum += lgamma(by_word[w][k] + beta) - lgamma(beta);
        }
    }
    return sum;
}

static void posterior(double *p) {
    double sum = 0;
    for (unsigned s = 0; s < STATES; s++) {
        uint16_t z[TOKENS];
        state_of(s, z);
        p[s] = exp(likelihood(z));
        sum += p[s];
    }
    for (unsigned s = 0; s < STATES; s++) {
        p[s] /= sum;
    }
}

static void count(const uint16_t *z, float *counts, double *totals) {
    memset(counts, 0, V * WIDTH * sizeof *counts);
    memset(totals, 0, WIDTH * sizeof *totals);
    struct call c = begin(&tide_kernel_lda_count);
    tensor(&c, "offsets", offsets, TIDE_U64, 3, 1);
    tensor(&c, "words", words, TIDE_U32, TOKENS, 1);
    tensor(&c, "topics", z, TIDE_U16, TOKENS, 1);
    number(&c, "topic_count", K);
    tensor(&c, "counts", counts, TIDE_F32, V, WIDTH);
    tensor(&c, "totals", totals, TIDE_F64, WIDTH, 1);
    assert_true(run(&c, "tokens") == TOKENS);
}

static const double fixed[WIDTH] = {5, 2};

static void sweep(const struct tide_kernel *kernel, uint16_t *z, uint64_t seed, const char *move) {
    float counts[V * WIDTH], stale[V * WIDTH];
    double totals[WIDTH], changes[WIDTH] = {0}, expected[WIDTH];
    float recounted[V * WIDTH];
    count(z, counts, totals);
    memcpy(stale, counts, sizeof stale);
    struct call c = begin(kernel);
    tensor(&c, "offsets", offsets, TIDE_U64, 3, 1);
    tensor(&c, "words", words, TIDE_U32, TOKENS, 1);
    tensor(&c, "topics", z, TIDE_U16, TOKENS, 1);
    tensor(&c, "counts", counts, TIDE_F32, V, WIDTH);
    tensor(&c, "totals", totals, TIDE_F64, WIDTH, 1);
    tensor(&c, "changes", changes, TIDE_F64, WIDTH, 1);
    if (kernel == &tide_kernel_lda_light) {
        memset(stale, 0, sizeof stale); /* any fixed tables: these are far from the counts */
        stale[0] = 3;
        stale[WIDTH + 1] = 2;
        tensor(&c, "stale", stale, TIDE_F32, V, WIDTH);
        tensor(&c, "stale_totals", fixed, TIDE_F64, WIDTH, 1);
        number(&c, "steps", 1);
        if (move) {
            argument(&c, "doc_move")->text = move;
        }
    }
    priors(&c);
    number(&c, "seed", (double)seed);
    number(&c, "pass", 1);
    assert_true(run(&c, "tokens") == TOKENS);
    count(z, recounted, expected); /* what the kernel kept is what there is */
    assert_memory_equal(recounted, counts, sizeof counts);
    assert_memory_equal(expected, totals, sizeof totals);
}

/* Chi-square of the states after one sweep from states of the posterior. */
static double chi_square(const struct tide_kernel *kernel, const char *move) {
    double p[STATES], chi = 0;
    unsigned seen[STATES] = {0};
    struct lda_stream s;
    posterior(p);
    lda_stream_begin(&s, 42, 0, 0, 0);
    for (uint64_t i = 0; i < DRAWS; i++) {
        double at = lda_uniform(&s);
        unsigned state = 0;
        while (state + 1 < STATES && at >= p[state]) {
            at -= p[state++];
        }
        uint16_t z[TOKENS];
        state_of(state, z);
        sweep(kernel, z, i, move);
        seen[state_number(z)]++;
    }
    for (unsigned state = 0; state < STATES; state++) {
        const double expected = p[state] * DRAWS;
        chi += ((double)seen[state] - expected) * ((double)seen[state] - expected) / expected;
    }
    return chi;
}

static void samplers_leave_the_posterior_as_it_is(void **state) {
    (void)state;
    const double most = 63 + 5 * sqrt(2 * 63.0); /* five deviations of 63 degrees of freedom */
    assert_true(chi_square(&tide_kernel_lda_gibbs, NULL) < most);
    assert_true(chi_square(&tide_kernel_lda_xy, NULL) < most);
    assert_true(chi_square(&tide_kernel_lda_light, NULL) < most);
    assert_true(chi_square(&tide_kernel_lda_light, "lightlda") > 2 * most); /* known not to */
}

static void the_likelihood_is_that_of_the_definition(void **state) {
    (void)state;
    for (unsigned s = 0; s < STATES; s += 7) {
        uint16_t z[TOKENS];
        float counts[V * WIDTH];
        double totals[WIDTH];
        state_of(s, z);
        count(z, counts, totals);
        struct call c = begin(&tide_kernel_lda_likelihood);
        tensor(&c, "offsets", offsets, TIDE_U64, 3, 1);
        tensor(&c, "topics", z, TIDE_U16, TOKENS, 1);
        tensor(&c, "counts", counts, TIDE_F32, V, WIDTH);
        tensor(&c, "totals", totals, TIDE_F64, WIDTH, 1);
        priors(&c);
        const double expected = likelihood(z);
        assert_true(fabs(run(&c, "sum") - expected) < 1e-9 * fabs(expected));
    }
}

/* ---- alias tables ---- */

static void alias_tables_have_the_weights(void **state) {
    (void)state;
    const uint32_t sizes[] = {1, 2, 7, 64, 1000};
    for (size_t i = 0; i < TIDE_COUNT(sizes); i++) {
        const uint32_t n = sizes[i];
        struct lda_alias_entry *entries = calloc(n, sizeof *entries);
        double *weights = calloc(n, sizeof *weights), *given = calloc(n, sizeof *given);
        double *implied = calloc(n, sizeof *implied), sum = 0;
        uint32_t *stack = calloc(n, sizeof *stack);
        for (uint32_t k = 0; k < n; k++) {
            entries[k].topic = k;
            given[k] = weights[k] = k % 3 == 1 ? 0 : 1 + (double)(k * 37 % 11);
            sum += given[k];
        }
        lda_alias_build(entries, weights, stack, n, sum);
        for (uint32_t k = 0; k < n; k++) {
            const double own =
                entries[k].threshold == UINT32_MAX ? 1 : entries[k].threshold * 0x1p-32;
            implied[entries[k].topic] += own / n;
            if (own < 1) {
                implied[entries[k].other] += (1 - own) / n;
            }
        }
        for (uint32_t k = 0; k < n; k++) {
            assert_true(fabs(implied[k] - given[k] / sum) < 1e-6);
        }
        free(entries);
        free(weights);
        free(given);
        free(implied);
        free(stack);
    }
}

/* ---- documents of some size ---- */

enum { DOCUMENTS = 60, WORDS = 50, LENGTH = 40, ALL = DOCUMENTS * LENGTH };

struct world {
    uint64_t offsets[DOCUMENTS + 1];
    uint32_t words[ALL], wide[ALL];
    uint16_t z[ALL];
};

static int compare(const void *a, const void *b) {
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static void make_world(struct world *w, uint32_t topics) {
    struct lda_stream s;
    lda_stream_begin(&s, 7, 1, 1, 1);
    for (size_t d = 0; d <= DOCUMENTS; d++) {
        w->offsets[d] = d * LENGTH;
    }
    for (size_t i = 0; i < ALL; i++) {
        w->words[i] = lda_below(&s, lda_below(&s, WORDS) + 1);
        w->z[i] = (uint16_t)lda_below(&s, topics);
        w->wide[i] = w->z[i];
    }
    for (size_t d = 0; d < DOCUMENTS; d++) {
        qsort(w->words + d * LENGTH, LENGTH, sizeof *w->words, compare);
    }
}

static void gibbs(struct world *w, uint32_t topics, int level, bool wide) {
    const size_t width = (topics + 15) / 16 * 16;
    float *counts = calloc(WORDS * width, sizeof *counts), *a = calloc(topics, sizeof *a);
    double *totals = calloc(width, sizeof *totals), *changes = calloc(width, sizeof *changes);
    for (uint32_t k = 0; k < topics; k++) {
        a[k] = 0.1f;
    }
    for (size_t i = 0; i < ALL; i++) {
        counts[w->words[i] * width + w->z[i]]++;
        totals[w->z[i]]++;
    }
    for (int half = 0; half < 2; half++) { /* a range of words after the other */
        struct call c = begin(&tide_kernel_lda_gibbs);
        tensor(&c, "offsets", w->offsets, TIDE_U64, DOCUMENTS + 1, 1);
        tensor(&c, "words", w->words, TIDE_U32, ALL, 1);
        tensor(&c, "topics", wide ? (void *)w->wide : (void *)w->z, wide ? TIDE_U32 : TIDE_U16, ALL,
               1);
        tensor(&c, "counts", counts + (half ? 20 * width : 0), TIDE_F32, half ? 30 : 20, width);
        tensor(&c, "totals", totals, TIDE_F64, width, 1);
        tensor(&c, "changes", changes, TIDE_F64, width, 1);
        tensor(&c, "alpha", a, TIDE_F32, topics, 1);
        number(&c, "beta", 0.01);
        number(&c, "vocabulary", WORDS);
        number(&c, "first", half ? 20 : 0);
        number(&c, "seed", 1);
        number(&c, "pass", 1);
        number(&c, "phase", half);
        number(&c, "level", level);
        assert_true(run(&c, "tokens") > 0);
    }
    free(counts);
    free(a);
    free(totals);
    free(changes);
}

static void gibbs_draws_the_same_on_every_instruction_set_and_width_of_topics(void **state) {
    (void)state;
    const uint32_t topics[] = {1, 5, 16, 100, 1000};
    for (size_t i = 0; i < TIDE_COUNT(topics); i++) {
        struct world best, other;
        make_world(&best, topics[i]);
        other = best;
        gibbs(&best, topics[i], 0, false);
        for (int level = 1; level <= 2; level++) {
            struct world again;
            make_world(&again, topics[i]);
            gibbs(&again, topics[i], level, false);
            assert_memory_equal(best.z, again.z, sizeof best.z);
        }
        gibbs(&other, topics[i], 0, true);
        for (size_t j = 0; j < ALL; j++) {
            assert_int_equal(best.z[j], other.wide[j]);
        }
    }
}

/* ---- two phases ---- */

struct arranged {
    uint32_t starts[WORDS + 1], places[ALL];
    uint16_t z[ALL], proposals[ALL];
};

/* A pass over documents in `cuts` parts of documents: what comes of it in the order of documents.
 */
static void warp(const struct world *w, uint32_t topics, size_t cuts, uint16_t *out) {
    struct arranged *parts = calloc(cuts, sizeof *parts);
    double *totals = calloc(topics, sizeof *totals), *next = calloc(topics, sizeof *next);
    float *a = calloc(topics, sizeof *a);
    uint32_t part[WORDS] = {0}, numbers[WORDS];
    uint32_t *starts = calloc(cuts * (WORDS + 1), sizeof *starts);
    uint64_t *bases = calloc(cuts, sizeof *bases);
    uint16_t z[ALL], proposals[ALL];
    for (uint32_t k = 0; k < topics; k++) {
        a[k] = 0.1f + (float)(k % 2) * 0.05f;
    }
    for (uint32_t i = 0; i < WORDS; i++) {
        numbers[i] = i;
    }
    for (size_t i = 0; i < ALL; i++) {
        totals[w->z[i]]++;
    }
    for (size_t p = 0; p < cuts; p++) {
        const size_t first = DOCUMENTS * p / cuts, last = DOCUMENTS * (p + 1) / cuts,
                     tokens = (last - first) * LENGTH;
        struct call c = begin(&tide_kernel_lda_arrange);
        tensor(&c, "offsets", w->offsets, TIDE_U64, last - first + 1, 1);
        tensor(&c, "words", w->words + first * LENGTH, TIDE_U32, tokens, 1);
        tensor(&c, "part", part, TIDE_U32, WORDS, 1);
        number(&c, "parts", 1);
        tensor(&c, "starts", parts[p].starts, TIDE_U32, WORDS + 1, 1);
        tensor(&c, "places", parts[p].places, TIDE_U32, tokens, 1);
        assert_true(run(&c, "tokens") == (double)tokens);
        for (size_t i = 0; i < tokens; i++) {
            parts[p].z[parts[p].places[i]] = w->z[first * LENGTH + i];
        }
        bases[p] = first * LENGTH;
        memcpy(starts + p * (WORDS + 1), parts[p].starts, sizeof parts[p].starts);
    }
    for (int phase = 0; phase < 3; phase++) { /* proposals, words, documents */
        memset(next, 0, topics * sizeof *next);
        for (size_t p = 0; p < cuts; p++) {
            const size_t first = DOCUMENTS * p / cuts, last = DOCUMENTS * (p + 1) / cuts,
                         tokens = (last - first) * LENGTH;
            if (phase == 1) {
                memcpy(z + bases[p], parts[p].z, tokens * sizeof *z);
                memcpy(proposals + bases[p], parts[p].proposals, tokens * sizeof *z);
                continue;
            }
            struct call c = begin(&tide_kernel_lda_warp_document);
            tensor(&c, "topics", parts[p].z, TIDE_U16, tokens, 1);
            tensor(&c, "proposals", parts[p].proposals, TIDE_U16, tokens, 1);
            tensor(&c, "offsets", w->offsets, TIDE_U64, last - first + 1, 1);
            tensor(&c, "places", parts[p].places, TIDE_U32, tokens, 1);
            tensor(&c, "totals", totals, TIDE_F64, topics, 1);
            tensor(&c, "next", next, TIDE_F64, topics, 1);
            tensor(&c, "alpha", a, TIDE_F32, topics, 1);
            number(&c, "beta", 0.01);
            number(&c, "vocabulary", WORDS);
            number(&c, "document", (double)first);
            number(&c, "seed", 1);
            number(&c, "pass", phase ? 1 : 0);
            number(&c, "propose_only", phase == 0);
            assert_true(run(&c, "tokens") == (double)tokens);
        }
        if (phase == 1) {
            struct call c = begin(&tide_kernel_lda_warp_word);
            tensor(&c, "topics", z, TIDE_U16, ALL, 1);
            tensor(&c, "proposals", proposals, TIDE_U16, ALL, 1);
            tensor(&c, "starts", starts, TIDE_U32, cuts, WORDS + 1);
            tensor(&c, "bases", bases, TIDE_U64, cuts, 1);
            tensor(&c, "numbers", numbers, TIDE_U32, WORDS, 1);
            tensor(&c, "totals", totals, TIDE_F64, topics, 1);
            tensor(&c, "next", next, TIDE_F64, topics, 1);
            tensor(&c, "alpha", a, TIDE_F32, topics, 1);
            number(&c, "beta", 0.01);
            number(&c, "vocabulary", WORDS);
            number(&c, "seed", 1);
            number(&c, "pass", 1);
            assert_true(run(&c, "accepted") > ALL / 20);
            for (size_t p = 0; p < cuts; p++) {
                const size_t tokens = (DOCUMENTS * (p + 1) / cuts - DOCUMENTS * p / cuts) * LENGTH;
                memcpy(parts[p].z, z + bases[p], tokens * sizeof *z);
                memcpy(parts[p].proposals, proposals + bases[p], tokens * sizeof *z);
            }
        }
        double sum = 0;
        for (uint32_t k = 0; k < topics; k++) {
            sum += next[k];
        }
        assert_true(sum == ALL); /* no token is lost or counted twice */
        memcpy(totals, next, topics * sizeof *totals);
    }
    for (size_t p = 0; p < cuts; p++) {
        const size_t first = DOCUMENTS * p / cuts, last = DOCUMENTS * (p + 1) / cuts;
        for (size_t i = 0; i < (last - first) * LENGTH; i++) {
            out[first * LENGTH + i] = parts[p].z[parts[p].places[i]];
        }
    }
    free(parts);
    free(totals);
    free(next);
    free(a);
    free(starts);
    free(bases);
}

static void two_phases_draw_the_same_however_documents_are_cut(void **state) {
    (void)state;
    const uint32_t topics[] = {2, 20, 5000};
    for (size_t i = 0; i < TIDE_COUNT(topics); i++) {
        struct world w;
        uint16_t whole[ALL], cut[ALL];
        make_world(&w, topics[i]);
        warp(&w, topics[i], 1, whole);
        warp(&w, topics[i], 4, cut);
        assert_memory_equal(whole, cut, sizeof whole);
        assert_memory_not_equal(whole, w.z, sizeof whole);
    }
}

/* A single word in a single document: the word phase proposes and the document phase accepts
 * against frozen counts. Over many draws a token's topics are those of the frozen target, its own
 * count taken out. */
static void the_word_phase_accepts_by_the_frozen_target(void **state) {
    (void)state;
    enum { N = 3 };
    const uint32_t starts[] = {0, N}, numbers[] = {0};
    const uint64_t bases[] = {0};
    double totals[K] = {7, 4}, next[K];
    unsigned moved = 0;
    for (uint64_t i = 0; i < DRAWS; i++) {
        uint16_t z[N] = {0, 1, 1}, proposals[N] = {1, 1, 1};
        memset(next, 0, sizeof next);
        struct call c = begin(&tide_kernel_lda_warp_word);
        tensor(&c, "topics", z, TIDE_U16, N, 1);
        tensor(&c, "proposals", proposals, TIDE_U16, N, 1);
        tensor(&c, "starts", starts, TIDE_U32, 1, 2);
        tensor(&c, "bases", bases, TIDE_U64, 1, 1);
        tensor(&c, "numbers", numbers, TIDE_U32, 1, 1);
        tensor(&c, "totals", totals, TIDE_F64, K, 1);
        tensor(&c, "next", next, TIDE_F64, K, 1);
        priors(&c);
        number(&c, "seed", (double)i);
        number(&c, "pass", 1);
        (void)run(&c, "tokens");
        moved += z[0] == 1;
    }
    /* from topic 0 (own count out: 0 of the word, 6 of all) to 1 (2 of the word, 4 of all): always;
     * back: sometimes */
    assert_int_equal(moved, DRAWS);
    moved = 0;
    for (uint64_t i = 0; i < DRAWS; i++) {
        uint16_t z[N] = {0, 1, 1}, proposals[N] = {0, 0, 1};
        memset(next, 0, sizeof next);
        struct call c = begin(&tide_kernel_lda_warp_word);
        tensor(&c, "topics", z, TIDE_U16, N, 1);
        tensor(&c, "proposals", proposals, TIDE_U16, N, 1);
        tensor(&c, "starts", starts, TIDE_U32, 1, 2);
        tensor(&c, "bases", bases, TIDE_U64, 1, 1);
        tensor(&c, "numbers", numbers, TIDE_U32, 1, 1);
        tensor(&c, "totals", totals, TIDE_F64, K, 1);
        tensor(&c, "next", next, TIDE_F64, K, 1);
        priors(&c);
        number(&c, "seed", (double)i);
        number(&c, "pass", 1);
        (void)run(&c, "tokens");
        moved += z[1] == 0;
    }
    const double from = (2 - 1 + beta) * (7 + V * beta), to = (1 + beta) * (4 - 1 + V * beta),
                 p = to / from;
    assert_true(fabs((double)moved / DRAWS - p) < 5 * sqrt(p * (1 - p) / DRAWS));
}

static void wrong_arguments_are_refused_with_their_names(void **state) {
    (void)state;
    uint16_t z[TOKENS] = {0, 1, 0, 1, 2, 0}; /* a topic 2 of 2 */
    float counts[V * WIDTH] = {0};
    double totals[WIDTH] = {0}, changes[WIDTH] = {0};
    char error[256];
    struct call c = begin(&tide_kernel_lda_gibbs);
    tensor(&c, "offsets", offsets, TIDE_U64, 3, 1);
    tensor(&c, "words", words, TIDE_U32, TOKENS, 1);
    tensor(&c, "topics", z, TIDE_U16, TOKENS, 1);
    tensor(&c, "counts", counts, TIDE_F32, V, WIDTH);
    tensor(&c, "totals", totals, TIDE_F64, WIDTH, 1);
    tensor(&c, "changes", changes, TIDE_F64, WIDTH, 1);
    priors(&c);
    number(&c, "seed", 1);
    number(&c, "pass", 1);
    assert_int_equal(refused(&c, error), TIDE_EINVAL);
    assert_string_equal(error, "topics: token 5 has topic 2 of 2");
    z[4] = 1;
    tensor(&c, "counts", counts, TIDE_F32, 4, 12);
    assert_int_equal(refused(&c, error), TIDE_EINVAL);
    assert_non_null(strstr(error, "padded to 16"));
    tensor(&c, "counts", counts, TIDE_F32, V, WIDTH);
    number(&c, "beta", 0);
    assert_int_equal(refused(&c, error), TIDE_EINVAL);
    number(&c, "beta", beta);
    static const uint64_t beyond[] = {0, 3, 7};
    tensor(&c, "offsets", beyond, TIDE_U64, 3, 1);
    assert_int_equal(refused(&c, error), TIDE_EINVAL);
    assert_non_null(strstr(error, "document 2 ends"));
    static const uint32_t falling[TOKENS] = {0, 2, 0, 0, 1, 2};
    tensor(&c, "offsets", offsets, TIDE_U64, 3, 1);
    tensor(&c, "words", falling, TIDE_U32, TOKENS, 1);
    assert_int_equal(refused(&c, error), TIDE_EINVAL);
    assert_non_null(strstr(error, "do not rise"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samplers_leave_the_posterior_as_it_is),
        cmocka_unit_test(the_likelihood_is_that_of_the_definition),
        cmocka_unit_test(alias_tables_have_the_weights),
        cmocka_unit_test(gibbs_draws_the_same_on_every_instruction_set_and_width_of_topics),
        cmocka_unit_test(two_phases_draw_the_same_however_documents_are_cut),
        cmocka_unit_test(the_word_phase_accepts_by_the_frozen_target),
        cmocka_unit_test(wrong_arguments_are_refused_with_their_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
