/* Corpora: word numbers, rare words, the glosses of WordNet, bad texts; the alias table. */
#include "base/base.h"
#include "readers/corpus.h"
#include "base/alias.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static struct tide_text text_of(const char *data) {
    return (struct tide_text){"corpus.txt", data, strlen(data)};
}

static const char *word(const struct tide_corpus *c, size_t i) {
    return c->words.pool + c->words.offsets[i];
}

static void words_are_numbered_by_falling_count_and_first_appearance(void **state) {
    (void)state;
    struct tide_text text = text_of("b a\tc a\r\n\n c  a d");
    struct tide_corpus c;
    assert_int_equal(tide_corpus_read(&text, 1, 1, false, &c), 0);
    const char *const words[] = {"</s>", "a", "c", "b", "d"};
    const uint64_t counts[] = {2, 3, 2, 1, 1}; /* a blank line is none */
    const uint32_t tokens[] = {3, 1, 2, 1, 0, 2, 1, 4, 0};
    assert_int_equal(c.words.count, 5);
    for (size_t i = 0; i < 5; i++) {
        assert_string_equal(word(&c, i), words[i]);
        assert_int_equal(c.counts[i], counts[i]);
    }
    assert_int_equal(c.token_count, 9);
    assert_memory_equal(c.tokens, tokens, sizeof tokens);
    tide_corpus_release(&c);
}

static void rare_words_are_left_out(void **state) {
    (void)state;
    struct tide_text texts[2] = {text_of("a b a"), text_of("c a c")};
    struct tide_corpus c;
    assert_int_equal(tide_corpus_read(texts, 2, 2, false, &c), 0);
    const uint32_t tokens[] = {1, 1, 0, 2, 1, 2, 0};
    assert_int_equal(c.words.count, 3);
    assert_string_equal(word(&c, 2), "c");
    assert_int_equal(c.token_count, 7);
    assert_memory_equal(c.tokens, tokens, sizeof tokens);
    assert_int_equal(c.dropped_words, 1);
    assert_int_equal(c.dropped_tokens, 1);
    tide_corpus_release(&c);
}

static void a_text_without_a_line_of_two_words_has_no_pairs(void **state) {
    (void)state;
    struct tide_corpus c;
    struct tide_text single = text_of("a\nb\na\n"), rare = text_of("a b\na c\n");
    assert_int_equal(tide_corpus_read(&single, 1, 1, false, &c), TIDE_EPROTO);
    assert_non_null(strstr(tide_error_message(), "corpus.txt: no line has two words that occur 1 times"));
    assert_int_equal(tide_corpus_read(&rare, 1, 2, false, &c), TIDE_EPROTO);
    assert_int_equal(tide_corpus_read(&rare, 1, 1, false, &c), 0);
    tide_corpus_release(&c);
}

static void another_form_is_no_running_text(void **state) {
    (void)state;
    struct tide_corpus c;
    static const char *const forms[][2] = {
        {"\n%%MatrixMarket matrix coordinate real general\n", "corpus.txt: line 2: column 1: expected running text"},
        {"| cat:1\n", "tide.data.bow reads word:count"},
        {"{\"text\": 1}\n", "this is JSON"},
        {"<html> a\n", "a page of the web"},
    };
    for (size_t i = 0; i < TIDE_COUNT(forms); i++) {
        struct tide_text text = text_of(forms[i][0]);
        assert_int_equal(tide_corpus_read(&text, 1, 1, false, &c), TIDE_EPROTO);
        assert_non_null(strstr(tide_error_message(), forms[i][1]));
        assert_int_equal(tide_corpus_read(&text, 1, 1, true, &c), 0);
        tide_corpus_release(&c);
    }
}

static void texts_without_words_are_refused(void **state) {
    (void)state;
    struct tide_corpus c;
    struct tide_text empty = text_of(""), blank = text_of(" \n\t\n"), few = text_of("a b");
    struct tide_text nul = {"corpus.txt", "a\nb\0c", 5};
    assert_int_equal(tide_corpus_read(&empty, 1, 1, false, &c), TIDE_EPROTO);
    assert_non_null(strstr(tide_error_message(), "corpus.txt: line 1: expected words"));
    assert_int_equal(tide_corpus_read(&blank, 1, 1, false, &c), TIDE_EPROTO);
    assert_int_equal(tide_corpus_read(&few, 1, 2, false, &c), TIDE_EINVAL);
    assert_non_null(strstr(tide_error_message(), "min_count"));
    assert_int_equal(tide_corpus_read(&nul, 1, 1, false, &c), TIDE_EPROTO);
    assert_non_null(strstr(tide_error_message(), "line 2"));
    assert_null(c.tokens);
}

static void glosses_become_lines_of_words(void **state) {
    (void)state;
    struct tide_text texts[TIDE_WORDNET_FILES];
    for (int i = 0; i < TIDE_WORDNET_FILES; i++) {
        texts[i] = text_of("  1 the licence\n");
    }
    texts[0] =
        text_of("  1 the licence | no gloss\n"
                "00001740 03 n 02 Entity 0 living_thing 0 001 ~ 00001930 n 0000 | that which "
                "is perceived; \"it's a well-known -fact-\"; \n");
    texts[2] = text_of("00000400 00 a 01 afraid(p) 0 000 | filled with fear");
    char *text;
    size_t size;
    assert_int_equal(tide_wordnet_glosses(texts, false, &text, &size), 0);
    const char *expected = "entity that which is perceived\nit's a well-known fact\n"
                           "afraid filled with fear\n";
    assert_string_equal(text, expected);
    assert_int_equal(size, strlen(expected));
    tide_free(text);
}

static void damaged_glosses_name_their_line(void **state) {
    (void)state;
    static const char *const bad[] = {
        "00001740 03 n 02 entity 0 000 no bar", "00001740 03 n zz entity 0 | gloss",
        "00001740 03 n 00 | gloss", "00001740 03 n 02 entity 0 | g", "|"};
    for (size_t i = 0; i < TIDE_COUNT(bad); i++) {
        struct tide_text texts[TIDE_WORDNET_FILES] = {{0}};
        for (int f = 0; f < TIDE_WORDNET_FILES; f++) {
            texts[f] = text_of("");
        }
        texts[1] = text_of(bad[i]);
        char *text = NULL;
        size_t size;
        assert_int_equal(tide_wordnet_glosses(texts, false, &text, &size), TIDE_EPROTO);
        assert_non_null(strstr(tide_error_message(), "corpus.txt: line 1: expected a synset"));
        assert_null(text);
    }
}

/* Chi-square of a million draws; the bound is that of p = 0.001 with 6 degrees of freedom. */
static void alias_draws_follow_the_weights(void **state) {
    (void)state;
    static const double weights[] = {5, 0, 1, 0.25, 30, 7, 7, 0.5};
    enum { COUNT = 8, DRAWS = 1000000 };
    struct tide_alias alias;
    struct tide_random random;
    uint64_t seen[COUNT] = {0};
    double sum = 0, chi = 0;
    assert_int_equal(tide_alias_create(&alias, weights, COUNT), 0);
    tide_random_seed(&random, 5);
    for (int i = 0; i < DRAWS; i++) {
        seen[tide_alias_draw(&alias, &random)]++;
    }
    for (int i = 0; i < COUNT; i++) {
        sum += weights[i];
    }
    for (int i = 0; i < COUNT; i++) {
        double expected = weights[i] / sum * DRAWS;
        if (weights[i] > 0) {
            chi += ((double)seen[i] - expected) * ((double)seen[i] - expected) / expected;
        }
    }
    assert_int_equal(seen[1], 0);
    assert_true(chi < 22.46);
    tide_alias_release(&alias);
}

static void alias_weights_are_checked(void **state) {
    (void)state;
    struct tide_alias alias;
    const double zeros[] = {0, 0}, negative[] = {1, -1}, nan[] = {1, NAN}, one[] = {3};
    struct tide_random random;
    assert_int_equal(tide_alias_create(&alias, zeros, 2), TIDE_EINVAL);
    assert_int_equal(tide_alias_create(&alias, negative, 2), TIDE_EINVAL);
    assert_int_equal(tide_alias_create(&alias, nan, 2), TIDE_EINVAL);
    assert_int_equal(tide_alias_create(&alias, zeros, 0), TIDE_EINVAL);
    assert_int_equal(tide_alias_create(&alias, one, 1), 0);
    tide_random_seed(&random, 1);
    assert_int_equal(tide_alias_draw(&alias, &random), 0);
    tide_alias_release(&alias);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_are_numbered_by_falling_count_and_first_appearance),
        cmocka_unit_test(rare_words_are_left_out),
        cmocka_unit_test(a_text_without_a_line_of_two_words_has_no_pairs),
        cmocka_unit_test(another_form_is_no_running_text),
        cmocka_unit_test(texts_without_words_are_refused),
        cmocka_unit_test(glosses_become_lines_of_words),
        cmocka_unit_test(damaged_glosses_name_their_line),
        cmocka_unit_test(alias_draws_follow_the_weights),
        cmocka_unit_test(alias_weights_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
