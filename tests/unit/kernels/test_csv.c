/* Tables of text: what a column is, what is refused because it could be read in two ways, and where an error is. */
#include "readers/csv.h"

#include "base/base.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static int read_with(struct tide_csv_options o, const char *text, struct tide_csv **out) {
    o.name = "f";
    assert_int_equal(tide_csv_create(&o, out), 0);
    int code = tide_csv_feed(*out, text, strlen(text));
    return code ? code : tide_csv_end(*out);
}

static void refuse_with(struct tide_csv_options o, const char *text, const char *where, const char *what) {
    struct tide_csv *csv;
    const int code = read_with(o, text, &csv);
    if (code != TIDE_EPROTO || !strstr(tide_error_message(), where) || !strstr(tide_error_message(), what)) {
        print_error("%s gives %d, '%s', neither %s nor %s\n", text, code, tide_error_message(), where, what);
        fail();
    }
    tide_csv_destroy(csv);
}

static const struct tide_csv_options plain, missing = {.has_missing = true, .missing = 9}, comma = {.decimal = ','},
                                            headless = {.header = TIDE_CSV_HEADER_NO},
                                            named = {.header = TIDE_CSV_HEADER_YES};

/* The text's last column as numbers. */
static void numbers_with(struct tide_csv_options o, const char *text, const double *expected, size_t rows) {
    struct tide_csv *csv;
    size_t count;
    if (read_with(o, text, &csv) != 0) {
        print_error("%s: %s\n", text, tide_error_message());
        fail();
    }
    const struct tide_csv_column *c = tide_csv_columns(csv, &count) + count - 1;
    assert_int_equal(tide_csv_rows(csv), rows);
    assert_int_equal(c->type, TIDE_CSV_NUMBER);
    assert_memory_equal(c->values, expected, rows * sizeof *expected);
    tide_csv_destroy(csv);
}
#define NUMBERS(o, text, ...)                                                                                          \
    numbers_with(o, text, (double[]){__VA_ARGS__}, sizeof(double[]){__VA_ARGS__} / sizeof(double))

static void a_column_of_numbers_is_one_whatever_its_first_cell(void **state) {
    (void)state;
    refuse_with(plain, "a,b\n,2\n1,3\n", "f: line 2: column 1", "no value here");
    refuse_with(plain, "a\nNA\n1\n", "f: line 2: column 1", "no value here");
    refuse_with(plain, "b,a\n1,2\n2,null\n", "f: line 3: column 2", "no value here");
    NUMBERS(missing, "b,a\n1,\n1,2\n1,NA\n1,nan\n", 9, 2, 9, 9);
    NUMBERS(missing, "a\n\n2\n\n", 9, 2); /* a line without a cell is a row of one column, but not at the end */
    NUMBERS(plain, "b, a\n1, 1\n3 ,\t-2 \n", 1, -2);
    NUMBERS(plain, "a\n\"1\"\n \"2\" \n", 1, 2);
    NUMBERS(plain, "a\n0.1\n1e22\n1.7976931348623157e308\n5e-324\n123456789012345678901\n", 0.1, 1e22,
            1.7976931348623157e308, 5e-324, 123456789012345678901.0);
    refuse_with(plain, "a\nx\n2\n", "f: line 3: column 1", "has the number '2' here and the text 'x' before");
    refuse_with(plain, "a\n2\nx\n", "f: line 3: column 1", "expected a number in column 'a', found 'x'");
    refuse_with(plain, "a\n2\n9007199254740993\n", "f: line 3: column 1", "would be rounded");
    refuse_with(plain, "a\n-9223372036854775807\n", "f: line 2: column 1", "would be rounded");
    refuse_with(plain, "a,b\n1,\n2,\n", "f: line 2: column 2", "no value in any row");
    refuse_with(headless, "a,b\n1,2\n", "f: line 2: column 1", "`header = true`");
}

static void what_is_not_finite_is_read_again(void **state) {
    (void)state;
    struct tide_csv *csv;
    size_t count;
    assert_int_equal(read_with(plain, "a,b\nnan,-inf\n2,Infinity\n-nan,1\n", &csv), 0);
    const struct tide_csv_column *c = tide_csv_columns(csv, &count);
    const double *a = c[0].values, *b = c[1].values;
    assert_true(isnan(a[0]) && isnan(a[2]) && isinf(b[0]) && b[0] < 0 && isinf(b[1]) && b[1] > 0);
    assert_true(c[0].type == TIDE_CSV_NUMBER && c[0].not_finite == 2 && c[1].not_finite == 2);
    tide_csv_destroy(csv);
}

static void another_way_of_writing_numbers_is_refused_with_its_option(void **state) {
    (void)state;
    refuse_with(plain, "a;b\n1,5;2,25\n3,0;4,75\n", "f: line 2: column 1", "`decimal = \",\"`");
    refuse_with(plain, "a,b\n\"1,234\",5\n", "f: line 2: column 1", "separators of thousands");
    refuse_with(plain, "a\n1\n2'000\n", "f: line 3: column 1", "separators of thousands");
    NUMBERS(comma, "a;b\n1,5;2,25\n3,0;-4,75e2\n", 2.25, -475);
    refuse_with(comma, "a\n1.5\n1,5\n", "f: line 3: column 1", "the number '1,5' here and the text '1.5'");
}

static void cells_are_separated_by_what_cuts_all_lines_alike(void **state) {
    (void)state;
    NUMBERS(plain, "sep=;\r\na;b\r\n1;2\r\n", 2);
    NUMBERS(plain, "sep=,\na,b\n1,2\n", 2);
    NUMBERS(plain, "a|b\n1|2\n", 2);
    NUMBERS(plain, "n\ta\n\"1,2,3 a\"\t5\n", 5);
    refuse_with(headless, "1,5;2,5\n3,5;4,5\n", "f: line 1: column 1", "`separator = \";\"`");
    refuse_with(plain, "a,b\n1,2,3\n", "f: line 2: column 3", "separated by ','");
}

static void a_first_line_of_numbers_is_no_header_unless_it_is_said(void **state) {
    (void)state;
    refuse_with(plain, "1,2\n3,4\n", "f: line 1: column 1", "`header = false`");
    refuse_with(plain, "a,1.5\n3,4\n", "f: line 1: column 2", "`header = true`");
    NUMBERS(named, "1,2\n3,4\n", 4);
    NUMBERS(headless, "1,2\n3,4\n", 2, 4);
}

static void marks_line_ends_and_quotes_are_those_of_any_writer(void **state) {
    (void)state;
    struct tide_csv *csv;
    size_t count;
    assert_int_equal(read_with(plain, "\xef\xbb\xbft,a\r\n\"x\ny, \"\"z\"\"\",1\r\n\r\nw,2\r\n\r\n", &csv), 0);
    const struct tide_csv_column *c = tide_csv_columns(csv, &count);
    assert_string_equal(c[0].name, "t");
    assert_string_equal(c[0].classes.names.pool, "x\ny, \"z\"");
    assert_int_equal(tide_csv_form(csv).blank_lines, 1);
    tide_csv_destroy(csv);
    refuse_with(plain, "\xff\xfe", "f: line 1", "UTF-16");
    refuse_with(plain, "a\n\"x\"y\n", "f: line 2: column 1", "behind a closing quote");
    refuse_with(plain, "a\n\"x\n", "f: line 2: column 1", "not closed");
    refuse_with(plain, ",", "f: line 1: column 2", "two columns are called ''");
    refuse_with(plain, "", "f: line 1", "no line");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_column_of_numbers_is_one_whatever_its_first_cell),
        cmocka_unit_test(what_is_not_finite_is_read_again),
        cmocka_unit_test(another_way_of_writing_numbers_is_refused_with_its_option),
        cmocka_unit_test(cells_are_separated_by_what_cuts_all_lines_alike),
        cmocka_unit_test(a_first_line_of_numbers_is_no_header_unless_it_is_said),
        cmocka_unit_test(marks_line_ends_and_quotes_are_those_of_any_writer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
