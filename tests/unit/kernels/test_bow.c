/* Bags of words: every form gives the same documents, and what is wrong is named by file, line and
 * column. */
#include "base/base.h"
#include "readers/bow.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

/* Feeds a text in pieces of `piece` bytes; the code, and what was read. */
static int read_pieces(const char *text, size_t size, size_t piece,
                       const struct tide_bow_options *o, struct tide_bow *out) {
    struct tide_bow_reader *r = NULL;
    int code = tide_bow_open(o, &r);
    code = code ? code : tide_bow_begin(r, "file");
    for (size_t at = 0; at < size && code == 0; at += piece) {
        code = tide_bow_feed(r, text + at, size - at < piece ? size - at : piece);
    }
    code = code ? code : tide_bow_end(r);
    code = code ? code : tide_bow_finish(r, out);
    tide_bow_close(r);
    return code;
}

static void says(const char *text, const struct tide_bow_options *o, const char *message) {
    struct tide_bow b = {0};
    assert_true(read_pieces(text, strlen(text), 7, o, &b) < 0);
    if (strstr(tide_error_message(), message) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", tide_error_message(), message);
    }
    assert_null(b.words);
}

static void is(const struct tide_bow *b, const char *expected) {
    char text[400] = "";
    for (size_t d = 0; d < b->documents; d++) {
        for (uint64_t i = b->offsets[d]; i < b->offsets[d + 1]; i++) {
            const size_t used = strlen(text);
            (void)snprintf(text + used, sizeof text - used, "%u ", b->words[i]);
        }
        (void)snprintf(text + strlen(text), sizeof text - strlen(text), "| ");
    }
    assert_string_equal(text, expected);
}

static void every_form_gives_the_same_documents(void **state) {
    (void)state;
    const struct tide_bow_options o = {0};
    static const char *const forms[] = {
        "3\n4\n5\n1 1 2\n3 4 1\n1 3 1\n3 2 1\n3 4 1\n", /* UCI: any order, a pair twice, an empty
                                                           document */
        "3\r\n4\r\n5\r\n1 1 2\r\n1 3 1\r\n3 2 1\r\n3 4 1\r\n3 4 1\r\n",
        "2 0:2 2:1\n0\n2 1:1 3:2\n",   /* LDA-C */
        "+1 1:2 3:1\n-1\n7 2:1 4:2\n", /* LibSVM: from 1 */
        "a\t0:2 2:1\nb\nc\t1:1 3:2",   /* LightLDA: from 0, no end of the last line */
    };
    for (size_t i = 0; i < TIDE_COUNT(forms); i++) {
        for (size_t piece = 1; piece < 60; piece += 11) {
            struct tide_bow b;
            assert_int_equal(read_pieces(forms[i], strlen(forms[i]), piece, &o, &b), 0);
            is(&b, "0 0 2 | | 1 3 3 | ");
            assert_int_equal(b.names.count, 4);
            assert_int_equal(b.counts[3], 2);
            tide_bow_release(&b);
        }
    }
}

static void text_makes_a_vocabulary_by_falling_count(void **state) {
    (void)state;
    const char text[] = "The cat's dog, the DOG!\n\n the fish-bone; \xc3\xa4pfel dog the\nrare\n";
    struct tide_text stop = {"stop", "rare\nof", 7};
    struct tide_bow_options o = {.stop = &stop};
    struct tide_bow b;
    assert_int_equal(read_pieces(text, strlen(text), 5, &o, &b), 0);
    is(&b,
       "0 0 1 1 2 | 0 0 1 3 4 | | "); /* a blank line is no document; one without words left is */
    assert_string_equal(b.names.pool + b.names.offsets[0], "the");
    assert_string_equal(b.names.pool + b.names.offsets[1], "dog");
    assert_string_equal(b.names.pool + b.names.offsets[2], "cat's");
    assert_string_equal(b.names.pool + b.names.offsets[3], "fish-bone");
    assert_int_equal(b.dropped_tokens, 1);
    tide_bow_release(&b);
    o = (struct tide_bow_options){.min_count = 2, .max_share = 0.5, .format = TIDE_BOW_TEXT};
    says(text, &o, "no word is left"); /* "the" and "dog" are in two documents of three */
    o = (struct tide_bow_options){
        .keep_case = true, .skip = 1, .min_count = 2, .format = TIDE_BOW_TEXT};
    assert_int_equal(read_pieces("id1 The the\nid2 The\n", 20, 3, &o, &b), 0);
    is(&b, "0 | 0 | ");
    tide_bow_release(&b);
}

static void words_take_their_names_from_a_vocabulary(void **state) {
    (void)state;
    struct tide_text names = {"names", "zero\none\ntwo\n", 13};
    struct tide_bow_options o = {.vocabulary = &names};
    struct tide_bow b;
    assert_int_equal(read_pieces("1 2:3\n", 6, 6, &o, &b), 0);
    assert_int_equal(b.names.count, 3);
    assert_string_equal(b.names.pool + b.names.offsets[2], "two");
    tide_bow_release(&b);
    says("1 3:3\n", &o, "a vocabulary of 3 words, but file has word 4");
    names = (struct tide_text){"names", "a\nb\na\n", 6};
    says("1 2:3\n", &o, "names: line 3: column 1: the word 'a' is there twice");
}

static void what_is_wrong_is_named_by_line_and_column(void **state) {
    (void)state;
    const struct tide_bow_options o = {0};
    says("2\n3\n1\n3 1 1\n", &o,
         "file: line 4: column 1: expected a document from 1 to the number in line 1, found '3'");
    says("2\n3\n1\n1 4 1\n", &o, "line 4: column 3: expected a word from 1");
    says("2\n3\n1\n1 0 1\n", &o, "line 4: column 3: expected a word from 1");
    says("2\n3\n1\n1 1 0\n", &o, "line 4: column 5: expected a count from 1");
    says("2\n3\n1\n1 1 -2\n", &o, "found '-2'");
    says("2\n3\n1\n1 1\n", &o, "expected a count from 1");
    says("2\n3\n1\n1 1 1 1\n", &o, "expected the end of the line");
    says("2\n3\n2\n1 1 1\n", &o, "expected 2 pairs as line 3 says, found 1");
    says("2\n3\n1\n1 1 1\n1 2 1\n", &o, "line 5: column 1: expected no more pairs");
    says("2\n3\n", &o, "expected 0 pairs");
    says("2 0:1 1:1\n3 0:1 1:1\n", &o, "line 2: column 1: expected as many pairs");
    says("x 1:1 2:0\n", &o, "line 1: column 9: expected a count from 1, found '0'");
    says("x 1:1\ny 2\n", &o, "line 2: column 3: expected word:count");
    says("4000000000\n3\n1\n1 1 1\n", &o, "of which almost all are empty");
    says("1 4000000000:1\n", &o, "more than");
    says("", &o, "expected a document with words, found the end");
    says("\n\n", &o, "expected a document with words");
    struct tide_bow b;
    assert_int_equal(read_pieces("a\0b\n", 4, 4, &o, &b), TIDE_EPROTO);
    assert_non_null(strstr(tide_error_message(), "NUL"));
}

static void documents_are_picked_by_a_mark(void **state) {
    (void)state;
    const struct tide_bow_options o = {0};
    const uint8_t marks[] = {1, 0, 1};
    struct tide_bow b, picked;
    assert_int_equal(read_pieces("1 0:2\n1 1:1\n1 2:1\n", 18, 18, &o, &b), 0);
    assert_int_equal(tide_bow_pick(&b, marks, 1, &picked), 0);
    is(&picked, "0 0 | 2 | ");
    tide_bow_release(&picked);
    tide_bow_release(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_gives_the_same_documents),
        cmocka_unit_test(text_makes_a_vocabulary_by_falling_count),
        cmocka_unit_test(words_take_their_names_from_a_vocabulary),
        cmocka_unit_test(what_is_wrong_is_named_by_line_and_column),
        cmocka_unit_test(documents_are_picked_by_a_mark),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
