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
    code = code ? code : tide_bow_finish(r, NULL, out);
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
       "0 0 1 1 2 | | 0 0 1 3 4 | | "); /* a blank line is a document, as one without words left is */
    assert_int_equal(b.empty, 2);
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
    says("1 2:3\n", &o, "names: line 3: column 1: expected each word once, found 'a'");
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
    says("2\n3\n2\n1 1 1\n", &o, "expected 2 pairs as the head says, found 1");
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

static void reads(const char *text, const struct tide_bow_options *o, const char *documents, const char *words) {
    for (size_t piece = 1; piece < 40; piece += 19) {
        struct tide_bow b = {0};
        char names[200] = "";
        if (read_pieces(text, strlen(text), piece, o, &b) != 0) {
            fail_msg("\"%s\": %s", text, tide_error_message());
        }
        is(&b, documents);
        for (size_t w = 0; b.names.pool && w < b.names.count; w++) {
            (void)snprintf(names + strlen(names), sizeof names - strlen(names), "%s ", b.names.pool + b.names.offsets[w]);
        }
        assert_string_equal(names, words);
        tide_bow_release(&b);
    }
}

static void documents_keep_their_numbers_whatever_lines_are_empty(void **state) {
    (void)state;
    const struct tide_bow_options o = {0}, skip = {.skip = 1, .format = TIDE_BOW_TEXT}, pairs = {.format = TIDE_BOW_PAIRS};
    reads("a\n\n \t\n--\nb a\n\n\n", &o, "0 | | | | 0 1 | ", "a b ");
    reads("\na\n", &o, "| 0 | ", "a ");
    reads("i a\nj\n\nk a\n", &skip, "0 | | | 0 | ", "a ");
    reads("x 1:1\n\ny 2:1\n", &pairs, "0 | | 1 | ", "");
    reads("1 0:1\n\n1 2:1\n\n", &o, "0 | | 2 | ", "");
    reads("| cat:1\n\n| cat:2\n", &(struct tide_bow_options){.format = TIDE_BOW_COUNTS}, "0 | | 0 0 | ", "cat ");
}

static void corpora_of_other_programs_are_read_or_refused_by_name(void **state) {
    (void)state;
    const struct tide_bow_options o = {0}, counts = {.format = TIDE_BOW_COUNTS}, text = {.format = TIDE_BOW_TEXT},
                                  zero = {.format = TIDE_BOW_PAIRS, .based = true},
                                  one = {.format = TIDE_BOW_PAIRS, .based = true, .base = 1};
    reads("%%MatrixMarket matrix coordinate real general\n% c\n2 3 3\n1 1 1\n1 2 2.0\n2 3 1\n", &o, "0 1 1 | 2 | ", "");
    reads("\n%%matrixmarket MATRIX coordinate integer general\n2 3 1\n2 3 1\n", &o, "| 2 | ", "");
    says("%%MatrixMarket matrix coordinate real general\n2 3 3\n1 1 0.03\n", &o,
         "file: line 3: column 5: expected a whole count from 1, found '0.03'; weights (tf-idf)");
    says("%%MatrixMarket matrix coordinate real general\n2 3 3\n1 1 1\n", &o, "expected 3 pairs");
    says("%%MatrixMarket matrix array real general\n2 3\n", &o, "expected coordinate, found 'array'");
    says("%%MatrixMarket matrix coordinate real symmetric\n2 2 1\n", &o, "expected general");
    says("%%MatrixMarket matrix coordinate real general\n2 3 1\n3 1 1\n", &o, "expected a document (row)");
    reads("1 | Cat:1 dog:2\n| bird:1 a:b:3\n", &counts, "1 1 2 | 0 0 0 3 | ", "a:b dog cat bird ");
    reads("d1\tcat:1 dog:2\ncat:1\n", &counts, "0 1 1 | 0 | ", "cat dog ");
    says("| cat:1 dog\n", &counts, "line 1: column 9: expected word:count with a count from 1, found 'dog'");
    says("| cat:0\n", &counts, "found 'cat:0'");
    says("| cat:1 dog:2\n", &o, "`format = \"counts\"` reads word:count");
    says("cat:1 dog:2\n", &o, "`format = \"text\"` reads words");
    reads("cat:1 dog:2\n", &text, "0 1 2 3 | ", "cat 1 dog 2 ");
    reads("at 10:30 cats sleep\n", &o, "0 1 2 3 4 | ", "at 10 30 cats sleep ");
    says("{\"text\": \"a\"}\n", &o, "this is JSON");
    says("<!DOCTYPE html>\n", &o, "a page of the web");
    says("7\nseven cats\n", &o, "`format = \"text\"` reads words");
    reads("x 1:1 2:1\n", &zero, "1 2 | ", "");
    reads("x 1:1 2:1\n", &one, "0 1 | ", "");
    says("x 0:1\n", &one, "base = 1");
}

static void a_vocabulary_is_that_of_the_corpus(void **state) {
    (void)state;
    static const char uci[] = "2\n4\n3\n1 1 2\n1 2 1\n2 4 1\n";
    static const struct {
        const char *names, *words; /* words NULL: refused with `why` */
        const char *why;
    } cases[] = {
        {"cat\ndog\nbird\nfish\n", "cat dog bird fish ", NULL},
        {"cat\r\ndog\r\nbird\r\nfish\r\n\r\n", "cat dog bird fish ", NULL},
        {"cat\t7\ta\ndog\t2\tb\nbird\nfish\n", "cat dog bird fish ", NULL},
        {"0\tcat\t2\n1\tdog\t1\n2\tbird\t1\n3\tfish\t1\n", "cat dog bird fish ", NULL},
        {"2\n3\tfish\t1\n1\tdog\t1\n0\tcat\t1\n2\tbird\t1\n", "cat dog bird fish ", NULL}, /* gensim: by word */
        {"1 cat\n2 dog\n3 bird\n4 fish\n", "cat dog bird fish ", NULL},
        {"cat 3\ndog 2\nbird 1\nfish 1", "cat dog bird fish ", NULL},
        {"cat\n\nbird\nfish\nelk\n", NULL, "names: line 2: column 1: expected a word, found an empty line"},
        {"\ncat\ndog\nbird\nfish\n", NULL, "names: line 1: column 1: expected a word, found an empty line"},
        {"cat\ndog\nbird\nfish\nelk\n", NULL, "a vocabulary of 5 words, but file has 4"},
        {"cat\ndog\nbird\n", NULL, "a vocabulary of 3 words, but file has 4"},
        {"0\tcat\n1\tdog\n2\tbird\n4\tfish\n", NULL, "each once, found id 4"},
        {"0\tcat\n1\tdog\n2\tbird\n2\tfish\n", NULL, "found id 2 twice"},
        {"0\tcat\n1\tdog\nbird\nfish\n", NULL, "names: line 3: column 1: expected `id word` as in the lines before"},
    };
    for (size_t i = 0; i < TIDE_COUNT(cases); i++) {
        const struct tide_text names = {"names", cases[i].names, strlen(cases[i].names)};
        const struct tide_bow_options o = {.vocabulary = &names};
        if (cases[i].words) {
            reads(uci, &o, "0 0 1 | 3 | ", cases[i].words);
        } else {
            says(uci, &o, cases[i].why);
        }
    }
}

static void words_are_those_of_any_script(void **state) {
    (void)state;
    const struct tide_bow_options o = {0}, keep = {.keep_case = true};
    reads("\xc3\x84pfel, \xe2\x80\x9e\xc3\xa4pfel\xe2\x80\x9c \xe2\x80\x94 \xc2\xab\xc3\x84PFEL\xc2\xbb\xe2\x80\xa6\n", &o,
          "0 0 0 | ", "\xc3\xa4pfel "); /* quotes, dashes, dots */
    reads("\xce\x91\xce\x92 \xd0\x96 \xc4\xb0 \xe1\xba\xa0\n", &o, "0 1 2 3 | ",
          "\xce\xb1\xce\xb2 \xd0\xb6 i \xe1\xba\xa1 "); /* Greek, Cyrillic, Turkish, Vietnamese */
    reads("\xe7\x8c\xab\xe3\x80\x82\xe7\x8a\xac\n", &o, "0 1 | ", "\xe7\x8c\xab \xe7\x8a\xac "); /* an ideographic stop */
    reads("don\xe2\x80\x99t DON'T\xc2\xa0well\xe2\x80\x90known\n", &o, "0 0 1 | ", "don't well-known ");
    reads("caf\xe9 \xff\n", &keep, "0 1 | ", "caf\xe9 \xff "); /* no UTF-8 */
    reads("\xc3\x84 \xc3\xa4\n", &keep, "0 1 | ", "\xc3\x84 \xc3\xa4 ");
    struct tide_text stop = {"stop", "The\n\xc3\x84", 6};
    reads("the \xc3\xa4 cat\n", &(struct tide_bow_options){.stop = &stop}, "0 | ", "cat ");
}

/* A spool in memory. */
struct spool {
    char bytes[4096];
    size_t size;
};

static int spool_append(void *arg, const void *data, size_t size) {
    struct spool *s = arg;
    assert_true(s->size + size <= sizeof s->bytes);
    memcpy(s->bytes + s->size, data, size);
    s->size += size;
    return 0;
}

static int spool_read(void *arg, uint64_t at, void *out, size_t size) {
    struct spool *s = arg;
    assert_true(at + size <= s->size);
    memcpy(out, s->bytes + at, size);
    return 0;
}

static void a_spool_and_windows_change_nothing(void **state) {
    (void)state;
    static const char *const texts[] = {
        "3\n4\n5\n1 1 2\n3 4 1\n1 3 1\n3 2 1\n3 4 1\n", /* in any order */
        "2 0:2 2:1\n0\n2 1:1 3:2\n3 0:1 1:1 2:1\n",
        "the cat the dog\n\nthe rare bird sat\ncat bird dog the\n",
    };
    for (size_t i = 0; i < TIDE_COUNT(texts); i++) {
        struct tide_bow whole, piecewise;
        const struct tide_bow_options plain = {.min_count = 2};
        assert_int_equal(read_pieces(texts[i], strlen(texts[i]), 7, &plain, &whole), 0);
        for (uint64_t window = 1; window < 6; window++) {
            struct spool bytes = {.size = 0};
            const struct tide_bow_spool spool = {&bytes, spool_append, spool_read};
            const struct tide_bow_options o = {.min_count = 2, .spool = &spool, .window = window};
            assert_int_equal(read_pieces(texts[i], strlen(texts[i]), 7, &o, &piecewise), 0);
            assert_true(bytes.size > 0 || window > 3);
            assert_int_equal(piecewise.tokens, whole.tokens);
            assert_int_equal(piecewise.dropped_tokens, whole.dropped_tokens);
            assert_memory_equal(piecewise.offsets, whole.offsets, (whole.documents + 1) * sizeof *whole.offsets);
            assert_memory_equal(piecewise.words, whole.words, whole.tokens * sizeof *whole.words);
            assert_memory_equal(piecewise.counts, whole.counts, whole.names.count * sizeof *whole.counts);
            tide_bow_release(&piecewise);
        }
        tide_bow_release(&whole);
    }
}

static int refuse(void *arg, size_t document, const uint32_t *words, size_t count) {
    (void)words;
    (void)count;
    *(size_t *)arg = document;
    return document == 1 ? tide_fail(TIDE_EIO, "no room") : 0;
}

static void a_sink_that_fails_ends_the_reading(void **state) {
    (void)state;
    const struct tide_bow_options o = {0};
    struct tide_bow_reader *r;
    struct tide_bow b;
    size_t last = 9;
    assert_int_equal(tide_bow_open(&o, &r), 0);
    assert_int_equal(tide_bow_begin(r, "file"), 0);
    assert_int_equal(tide_bow_feed(r, "1 0:1\n1 1:1\n1 2:1\n", 18), 0);
    assert_int_equal(tide_bow_end(r), 0);
    assert_int_equal(tide_bow_finish(r, &(struct tide_bow_sink){&last, refuse}, &b), TIDE_EIO);
    assert_int_equal(last, 1);
    assert_null(b.counts);
    tide_bow_close(r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_gives_the_same_documents),
        cmocka_unit_test(text_makes_a_vocabulary_by_falling_count),
        cmocka_unit_test(words_take_their_names_from_a_vocabulary),
        cmocka_unit_test(what_is_wrong_is_named_by_line_and_column),
        cmocka_unit_test(a_spool_and_windows_change_nothing),
        cmocka_unit_test(a_sink_that_fails_ends_the_reading),
        cmocka_unit_test(documents_keep_their_numbers_whatever_lines_are_empty),
        cmocka_unit_test(corpora_of_other_programs_are_read_or_refused_by_name),
        cmocka_unit_test(a_vocabulary_is_that_of_the_corpus),
        cmocka_unit_test(words_are_those_of_any_script),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
