/* Files of word vectors: whose numbers they are, with a first line that says how many, and what is refused where. */
#include "readers/word_vectors.h"

#include "base/base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

/* Reads the vectors of "a" and "new york". The code, and the numbers of those that are there. */
static int read_text(const char *text, float out[8], size_t *found, size_t *columns) {
    struct tide_dictionary wanted = {0};
    struct tide_word_vectors *v;
    const uint32_t *words;
    const float *values;
    uint32_t number;
    assert_int_equal(tide_dictionary_add(&wanted, "a", 1, &number), 0);
    assert_int_equal(tide_dictionary_add(&wanted, "new york", 8, &number), 0);
    assert_int_equal(tide_word_vectors_create("f", &wanted, &v), 0);
    int code = tide_word_vectors_feed(v, text, strlen(text));
    code = code ? code : tide_word_vectors_end(v);
    *found = tide_word_vectors_found(v, &words, &values, columns);
    assert_true(*found * *columns <= 8);
    if (code == 0 && *found > 0) {
        memcpy(out, values, *found * *columns * sizeof *out);
    }
    tide_word_vectors_destroy(v);
    tide_dictionary_release(&wanted);
    return code;
}

static void refuse(const char *text, const char *what) {
    float out[8];
    size_t found, columns;
    assert_int_equal(read_text(text, out, &found, &columns), TIDE_EPROTO);
    if (!strstr(tide_error_message(), what)) {
        fail_msg("\"%s\" does not say \"%s\"", tide_error_message(), what);
    }
}

static void a_header_says_how_many_numbers_a_word_has(void **state) {
    (void)state;
    float out[8];
    size_t found, columns;
    assert_int_equal(read_text("2 2\nnew york 1 2\na 3 4\n", out, &found, &columns), 0);
    assert_true(found == 2 && columns == 2 && out[0] >= 1 && out[0] <= 1 && out[3] >= 4 && out[3] <= 4);
    refuse("2 3\na 1 2\n", "f: line 2: expected a word and 3 numbers, found 3 fields");
    refuse("2 2\n", "expected a word and its numbers, found the file's end");
    assert_int_equal(read_text("a 1 2\nb 2 x\na 5 6\n", out, &found, &columns), 0);
    assert_true(found == 1 && columns == 2 && out[1] >= 2 && out[1] <= 2);
}

static void numbers_are_those_that_f32_holds(void **state) {
    (void)state;
    refuse("a 1 1e300\n", "f: line 1: column 5: expected a number that a 32-bit float holds, found '1e300'");
    refuse("a 1 16777217\n", "'16777217'");
    refuse("a 1 nan\n", "'nan'");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_header_says_how_many_numbers_a_word_has),
        cmocka_unit_test(numbers_are_those_that_f32_holds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
