/*
 * Rare words' topics in lists (lists.c, light.c): what is drawn with them is what is drawn
 * with rows of n_kw, bit for bit, also where others' tokens are in the lists; lists that do not
 * hold the tokens are refused.
 */
#include "base/base.h"
#include "kernels.h"
#include "packages/lda/lda.h"
#include "wire/wire.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernel_call.h"

enum {
    K = 40,
    WIDTH = 48,
    WORDS = 60,
    DOCUMENTS = 50,
    LENGTH = 30,
    ALL = DOCUMENTS * LENGTH,
    FIRST = 20, /* document of the part that draws; those before are another worker's */
    OWN = (DOCUMENTS - FIRST) * LENGTH,
    BEGIN = FIRST * LENGTH,
};
static const uint32_t none = UINT32_MAX;

struct world {
    uint64_t offsets[DOCUMENTS + 1], own_offsets[DOCUMENTS - FIRST + 1];
    uint32_t words[ALL];
    uint32_t z[ALL]; /* of all; then of the own ones, changed */
    float alpha[K];
    double totals[WIDTH];
};

static int compare(const void *a, const void *b) {
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static void make(struct world *w) {
    struct lda_stream s;
    memset(w, 0, sizeof *w);
    lda_stream_begin(&s, 5, 1, 1, 1);
    for (size_t d = 0; d <= DOCUMENTS; d++) {
        w->offsets[d] = d * LENGTH;
        if (d >= FIRST) {
            w->own_offsets[d - FIRST] = (d - FIRST) * LENGTH;
        }
    }
    for (size_t i = 0; i < ALL; i++) {
        w->words[i] = lda_below(&s, lda_below(&s, WORDS) + 1);
        w->z[i] = lda_below(&s, K);
        w->totals[w->z[i]]++;
    }
    for (size_t d = 0; d < DOCUMENTS; d++) {
        qsort(w->words + d * LENGTH, LENGTH, sizeof *w->words, compare);
    }
    for (size_t k = 0; k < K; k++) {
        w->alpha[k] = 0.1f + (float)(k % 3) * 0.1f;
    }
}

struct lists {
    uint32_t row_of[WORDS], starts[WORDS + 1], places[OWN];
    float counts[WORDS * WIDTH], stale[WORDS * WIDTH], listed[ALL];
    size_t rows, tokens;
};

/* Every `nth` word has a row (1: all, 0: none), the others lists; filled from all topics. */
static void fill(struct lists *l, const struct world *w, uint32_t nth) {
    memset(l, 0, sizeof *l);
    for (uint32_t v = 0; v < WORDS; v++) {
        l->row_of[v] = nth > 0 && v % nth == 0 ? (uint32_t)l->rows++ : none;
    }
    for (size_t i = 0; i < ALL; i++) {
        l->starts[w->words[i] + 1] += l->row_of[w->words[i]] == none;
    }
    for (size_t v = 0; v < WORDS; v++) {
        l->starts[v + 1] += l->starts[v];
    }
    l->tokens = l->starts[WORDS];
    uint32_t at[WORDS];
    memcpy(at, l->starts, sizeof at);
    struct call before = begin(&tide_kernel_lda_places);
    tensor(&before, "words", w->words, TIDE_U32, BEGIN, 1);
    tensor(&before, "row_of", l->row_of, TIDE_U32, WORDS, 1);
    tensor(&before, "next", at, TIDE_U32, WORDS, 1);
    size_t listed = (size_t)run(&before, "listed");
    struct call c = begin(&tide_kernel_lda_places);
    tensor(&c, "words", w->words + BEGIN, TIDE_U32, OWN, 1);
    tensor(&c, "row_of", l->row_of, TIDE_U32, WORDS, 1);
    tensor(&c, "next", at, TIDE_U32, WORDS, 1);
    tensor(&c, "places", l->places, TIDE_U32, OWN, 1);
    listed += (size_t)run(&c, "listed");
    assert_int_equal(listed, l->tokens);
    memcpy(at, l->starts, sizeof at);
    for (size_t i = 0; i < ALL; i++) { /* what the workers before have put there */
        const uint32_t v = w->words[i];
        if (l->row_of[v] != none) {
            assert_true(i < BEGIN || l->places[i - BEGIN] == none);
        } else {
            assert_true(i < BEGIN || l->places[i - BEGIN] == at[v]);
            l->listed[at[v]++] = (float)(i < BEGIN ? w->z[i] : 0);
        }
    }
    struct call own = begin(&tide_kernel_lda_list);
    tensor(&own, "topics", w->z + BEGIN, TIDE_U32, OWN, 1);
    tensor(&own, "places", l->places, TIDE_U32, OWN, 1);
    tensor(&own, "listed", l->listed, TIDE_F32, ALL, 1);
    (void)run(&own, "tokens");
    struct call counted = begin(&tide_kernel_lda_count);
    tensor(&counted, "offsets", w->offsets, TIDE_U64, DOCUMENTS + 1, 1);
    tensor(&counted, "words", w->words, TIDE_U32, ALL, 1);
    tensor(&counted, "topics", w->z, TIDE_U32, ALL, 1);
    number(&counted, "topic_count", K);
    tensor(&counted, "counts", l->counts, TIDE_F32, l->rows, WIDTH);
    tensor(&counted, "row_of", l->row_of, TIDE_U32, WORDS, 1);
    (void)run(&counted, "tokens");
}

/* Arguments of lda_light over the words first .. last - 1. */
static struct call light(struct lists *l, struct world *w, double *totals, double *changes,
                         uint32_t first, uint32_t last) {
    size_t row = 0, rows = 0;
    for (uint32_t v = 0; v < last; v++) {
        row += v < first && l->row_of[v] != none;
        rows += v >= first && l->row_of[v] != none;
    }
    memcpy(l->stale, l->counts, sizeof l->stale);
    struct call c = begin(&tide_kernel_lda_light);
    tensor(&c, "offsets", w->own_offsets, TIDE_U64, DOCUMENTS - FIRST + 1, 1);
    tensor(&c, "words", w->words + BEGIN, TIDE_U32, OWN, 1);
    tensor(&c, "topics", w->z + BEGIN, TIDE_U32, OWN, 1);
    tensor(&c, "counts", l->counts + row * WIDTH, TIDE_F32, rows, WIDTH);
    tensor(&c, "stale", l->stale + row * WIDTH, TIDE_F32, rows, WIDTH);
    tensor(&c, "totals", totals, TIDE_F64, WIDTH, 1);
    tensor(&c, "changes", changes, TIDE_F64, WIDTH, 1);
    tensor(&c, "alpha", w->alpha, TIDE_F32, K, 1);
    number(&c, "beta", 0.05);
    number(&c, "vocabulary", WORDS);
    number(&c, "first", first);
    number(&c, "document", FIRST);
    number(&c, "seed", 9);
    number(&c, "pass", 1);
    number(&c, "phase", first);
    tensor(&c, "row_of", l->row_of + first, TIDE_U32, last - first, 1);
    tensor(&c, "starts", l->starts + first, TIDE_U32, last - first + 1, 1);
    tensor(&c, "places", l->places, TIDE_U32, OWN, 1);
    tensor(&c, "listed", l->listed + l->starts[first], TIDE_F32, ALL - l->starts[first], 1);
    number(&c, "from", l->starts[first]);
    return c;
}

/* Topics of the own tokens after three passes over two ranges of words. */
static void draw(struct lists *l, struct world *w, uint32_t nth, const char *move) {
    make(w);
    fill(l, w, nth);
    double totals[WIDTH], changes[WIDTH] = {0};
    memcpy(totals, w->totals, sizeof totals);
    for (int pass = 1; pass <= 3; pass++) {
        for (uint32_t half = 0; half < 2; half++) {
            struct call c =
                light(l, w, totals, changes, half ? 17 : 0, half ? (uint32_t)WORDS : 17);
            number(&c, "pass", pass);
            argument(&c, "doc_move")->text = move;
            assert_true(run(&c, "moved") > 0);
        }
    }
}

static void lists_draw_what_rows_draw(void **state) {
    (void)state;
    static const char *const moves[] = {"other", "lightlda"};
    static struct world rows, mixed;
    static struct lists l, again;
    for (size_t m = 0; m < 2; m++) {
        draw(&l, &rows, 1, moves[m]);
        assert_int_equal(l.tokens, 0);
        for (uint32_t nth = 0; nth < 4; nth += nth == 0 ? 2 : 1) { /* none, half, a third */
            draw(&l, &mixed, nth, moves[m]);
            assert_true(l.tokens > 0);
            assert_memory_equal(mixed.z, rows.z, sizeof rows.z);
            fill(&again, &mixed, nth); /* what the kernel kept is what there is */
            assert_memory_equal(again.counts, l.counts, sizeof l.counts);
            assert_memory_equal(again.listed, l.listed, sizeof l.listed);
        }
    }
}

static void lists_without_their_tokens_are_refused(void **state) {
    (void)state;
    static struct world w;
    static struct lists l;
    double totals[WIDTH], changes[WIDTH] = {0};
    char error[256];
    make(&w);
    fill(&l, &w, 2);
    memcpy(totals, w.totals, sizeof totals);
    struct call c = light(&l, &w, totals, changes, 0, WORDS);
    size_t i = 0;
    while (l.places[i] == none) {
        i++;
    }
    const uint32_t place = l.places[i];
    const float topic = l.listed[place];
    l.places[i] = (uint32_t)l.tokens - 1;
    assert_int_equal(refused(&c, error), TIDE_EINVAL);
    assert_non_null(strstr(error, "is not in its word's list with its topic"));
    l.places[i] = place;
    l.listed[place] = (float)((w.z[BEGIN + i] + 1) % K);
    assert_int_equal(refused(&c, error), TIDE_EINVAL);
    assert_non_null(strstr(error, "is not in its word's list with its topic"));
    l.listed[place] = K;
    assert_int_equal(refused(&c, error), TIDE_EINVAL);
    assert_non_null(strstr(error, "has topic 40 of 40"));
    l.listed[place] = topic;
    tensor(&c, "listed", l.listed, TIDE_F32, l.tokens - 1, 1);
    assert_int_equal(refused(&c, error), TIDE_EINVAL);
    assert_non_null(strstr(error, "lacks tokens"));
    tensor(&c, "listed", l.listed, TIDE_F32, l.tokens, 1);
    tensor(&c, "counts", l.counts, TIDE_F32, l.rows - 1, WIDTH);
    tensor(&c, "stale", l.stale, TIDE_F32, l.rows - 1, WIDTH);
    assert_int_equal(refused(&c, error), TIDE_EINVAL);
    assert_non_null(strstr(error, "words with rows"));
    tensor(&c, "counts", l.counts, TIDE_F32, l.rows, WIDTH);
    tensor(&c, "stale", l.stale, TIDE_F32, l.rows, WIDTH);
    l.starts[3] = l.starts[5];
    l.starts[4] = 0;
    assert_int_equal(refused(&c, error), TIDE_EINVAL);
    assert_non_null(strstr(error, "ends before it begins"));
    struct call places = begin(&tide_kernel_lda_places);
    tensor(&places, "words", w.words, TIDE_U32, ALL, 1);
    tensor(&places, "row_of", l.row_of, TIDE_U32, 10, 1);
    tensor(&places, "next", l.starts, TIDE_U32, 10, 1);
    assert_int_equal(refused(&places, error), TIDE_EINVAL);
    assert_non_null(strstr(error, "of 10"));
    tensor(&places, "row_of", l.row_of, TIDE_U32, WORDS, 1);
    tensor(&places, "next", l.starts, TIDE_U32, WORDS, 1);
    tensor(&places, "places", l.places, TIDE_U32, OWN - 1, 1);
    assert_int_equal(refused(&places, error), TIDE_EINVAL);
    assert_non_null(strstr(error, "places"));
    memset(l.starts, 0xff, sizeof l.starts);
    tensor(&places, "words", w.words, TIDE_U32, OWN - 1, 1);
    assert_int_equal(refused(&places, error), TIDE_EINVAL);
    assert_non_null(strstr(error, "2^32 tokens"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_draw_what_rows_draw),
        cmocka_unit_test(lists_without_their_tokens_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
