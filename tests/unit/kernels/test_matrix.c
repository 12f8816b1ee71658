/* Readers of sparse matrices, their split and their cut into blocks and groups. */
#include "readers/matrix.h"

#include "base/base.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#define TEXT(literal)                                                                              \
    (struct tide_text) {                                                                           \
        "f", literal, sizeof(literal) - 1                                                          \
    }

static void assert_cell(const struct tide_matrix *m, size_t part, size_t i, uint32_t row,
                        uint32_t column, float value) {
    assert_true(i < m->parts[part].count);
    assert_int_equal(m->parts[part].cells[2 * i], row);
    assert_int_equal(m->parts[part].cells[2 * i + 1], column);
    assert_true(m->parts[part].values[i] == value);
}

static const char *name_of(const struct tide_names *names, size_t i) {
    assert_true(i < names->count);
    return names->pool + names->offsets[i];
}

static void test_ratings_of_all_forms_are_the_same(void **state) {
    (void)state;
    const struct tide_text forms[] = {
        TEXT("196\t242\t3\t881250949\n186\t302\t3.5\t891717742\n196\t302\t1\t878887116\n"),
        TEXT("196::242::3::881250949\r\n186::302::3.5::891717742\r\n196::302::1::878887116"),
        TEXT("\xef\xbb\xbfuserId,movieId,rating,timestamp\n196,242,3.0,8\n186,302,3.5,8\n"
             "196,302,1e0,9\n"),
        TEXT("user\titem\trating\n196\t242\t3\n186\t302\t3.5\n196\t302\t1\n"),
    };
    for (size_t i = 0; i < TIDE_COUNT(forms); i++) {
        struct tide_matrix m;
        assert_int_equal(tide_matrix_read(&forms[i], 1, TIDE_MATRIX_AUTO, &m), 0);
        assert_int_equal(m.rows, 2);
        assert_int_equal(m.columns, 2);
        assert_int_equal(m.parts[0].count, 3);
        assert_cell(&m, 0, 0, 0, 0, 3);
        assert_cell(&m, 0, 1, 1, 1, 3.5f);
        assert_cell(&m, 0, 2, 0, 1, 1);
        assert_string_equal(name_of(&m.row_names, 1), "186");
        assert_string_equal(name_of(&m.column_names, 0), "242");
        assert_non_null(strstr(m.note, "ratings separated by"));
        tide_matrix_release(&m);
        assert_null(m.parts[0].cells);
    }
}

static void test_ids_are_shared_by_both_texts(void **state) {
    (void)state;
    const struct tide_text texts[] = {TEXT("a,x,1\nb,y,2\n"), TEXT("b,z,3\na,x,4\n")};
    struct tide_matrix m;
    assert_int_equal(tide_matrix_read(texts, 2, TIDE_MATRIX_AUTO, &m), 0);
    assert_int_equal(m.rows, 2);
    assert_int_equal(m.columns, 3);
    assert_cell(&m, 1, 0, 1, 2, 3);
    assert_cell(&m, 1, 1, 0, 0, 4);
    tide_matrix_release(&m);
}

static void test_matrixmarket_is_read(void **state) {
    (void)state;
    const struct tide_text texts[] = {
        TEXT("%%MatrixMarket matrix coordinate real general\r\n% made\r\n\r\n3 4 2\r\n1 4 -0.25\r\n"
             "% between\r\n 3\t1  2.5e-1 \r\n"),
        TEXT("%%matrixmarket MATRIX coordinate INTEGER general\n3 4 1\n2 2 -7"),
    };
    struct tide_matrix m;
    assert_int_equal(tide_matrix_read(texts, 2, TIDE_MATRIX_AUTO, &m), 0);
    assert_int_equal(m.rows, 3);
    assert_int_equal(m.columns, 4);
    assert_int_equal(m.parts[0].count, 2);
    assert_cell(&m, 0, 0, 0, 3, -0.25f);
    assert_cell(&m, 0, 1, 2, 0, 0.25f);
    assert_cell(&m, 1, 0, 1, 1, -7);
    assert_null(m.row_names.pool);
    tide_matrix_release(&m);
}

static void test_values_are_those_of_the_c_library(void **state) {
    (void)state;
    static const char *const values[] = {
        "0",      "-0",     "+1",      ".5",     "5.",         "1e-3",   "1E+3",
        "1e38",   "-3e-45", "1e-9999", "0e9999", "0.1",        "3.14159265358979323846264338",
        "123456789012345678901234567890", "0.000000000000000000000000000012345", "-0.0317941"};
    for (size_t i = 0; i < TIDE_COUNT(values); i++) {
        char line[128];
        int size = snprintf(line, sizeof line, "1\t1\t%s\n", values[i]);
        struct tide_text text = {"f", line, (size_t)size};
        struct tide_matrix m;
        assert_int_equal(tide_matrix_read(&text, 1, TIDE_MATRIX_AUTO, &m), 0);
        assert_cell(&m, 0, 0, 0, 0, strtof(values[i], NULL));
        tide_matrix_release(&m);
    }
}

static void refuse(struct tide_text text, enum tide_matrix_format format, const char *line,
                   const char *what) {
    struct tide_matrix m;
    char *exact = malloc(text.size + 1); /* so that ASan sees a read behind the end */
    memcpy(exact, text.data, text.size);
    exact = realloc(exact, text.size ? text.size : 1);
    text.data = exact;
    assert_int_equal(tide_matrix_read(&text, 1, format, &m), TIDE_EPROTO);
    if (!strstr(tide_error_message(), line) || !strstr(tide_error_message(), what)) {
        fail_msg("'%s' names neither %s nor %s", tide_error_message(), line, what);
    }
    assert_null(m.parts[0].cells);
    assert_null(m.row_names.pool);
    free(exact);
}

static void test_damaged_ratings_are_refused_with_their_line(void **state) {
    (void)state;
    const enum tide_matrix_format f = TIDE_MATRIX_RATINGS;
    refuse(TEXT(""), f, "f: line 1", "the end");
    refuse(TEXT("userId,movieId,rating\n"), f, "f: line 2", "the end");
    refuse(TEXT("1\t2\t3\n1\t2\n"), f, "f: line 2", "tabs");
    refuse(TEXT("1::2::3\n4::5"), f, "f: line 2", "'::'");
    refuse(TEXT("1,2,3\n\n4,5\n"), f, "f: line 3", "found '4,5'");
    refuse(TEXT("1|2|3\n"), f, "f: line 1", "tabs, '::', semicolons, commas or blanks");
    refuse(TEXT("item,user,score\n1,2\n"), f, "f: line 2", "commas");
    refuse(TEXT("item,who,stars\n1,2,3\n"), f, "f: line 1", "a header that names user, item");
    refuse(TEXT("1,2,3\n,2,3\n"), f, "f: line 2", "a user id");
    refuse(TEXT("1,2,3\n1,,3\n"), f, "f: line 2", "an item id");
    refuse(TEXT("1,2,3\n1,2,good\n"), f, "f: line 2", "'good'");
    refuse(TEXT("1,2,nan\n"), f, "f: line 1", "'nan'");
    refuse(TEXT("1,2,inf\n"), f, "f: line 1", "'inf'");
    refuse(TEXT("1,2,1e39\n"), f, "f: line 1", "'1e39'");
    refuse(TEXT("1,2,3\n1,2,\n"), f, "f: line 2", "a rating");
    refuse(TEXT("1,2,3x\n"), f, "f: line 1", "'3x'");
    refuse(TEXT("1,2,1e\n"), f, "f: line 1", "'1e'");
    refuse(TEXT("1,2,3\n1,2\0,3\n"), f, "f: line 2", "NUL");
}

static void reads_as(struct tide_text text, const char *user, const char *item, float value) {
    struct tide_matrix m;
    assert_int_equal(tide_matrix_read(&text, 1, TIDE_MATRIX_AUTO, &m), 0);
    assert_string_equal(m.row_names.pool + m.row_names.offsets[0], user);
    assert_string_equal(m.column_names.pool + m.column_names.offsets[0], item);
    assert_true(m.parts[0].values[0] == value);
    tide_matrix_release(&m);
}

static void test_ratings_are_read_by_what_their_first_line_says(void **state) {
    (void)state;
    reads_as(TEXT("7 8 0.5\n"), "7", "8", 0.5f);
    reads_as(TEXT("\n\n  7   8 2.5  881250949\r\n"), "7", "8", 2.5f);
    reads_as(TEXT("7, 8, 3\n"), "7", "8", 3);
    reads_as(TEXT("\"User-ID\";\"ISBN\";\"Book-Rating\"\n\"7\";\"0155\";\"3\"\n"), "7", "0155", 3);
    reads_as(TEXT("\"Smith, J; jr\",\"8\", \"3\"\n"), "Smith, J; jr", "8", 3);
    reads_as(TEXT("user,title,rating\n7,\"the \"\"best\"\", again\",4\n"), "7", "the \"\"best\"\", again", 4);
    reads_as(TEXT("\"open,8,3\n"), "\"open", "8", 3);
    reads_as(TEXT("5\" nail,8,3\n"), "5\" nail", "8", 3);
    reads_as(TEXT("rating,movieId,userId\n4,8,7\n"), "7", "8", 4);
    reads_as(TEXT("timestamp,user,item,rating\n99,7,8,4\n"), "7", "8", 4);
    reads_as(TEXT("userId,movieId,rating,timestamp\n7,8,4,99\n"), "7", "8", 4);
    reads_as(TEXT("\xef\xbb\xbfuser\titem\trating\r\n7\t8\t4\r\n"), "7", "8", 4);
}

static void test_what_makes_a_test_easier_or_harder_is_counted(void **state) {
    (void)state;
    const struct tide_text texts[] = {TEXT("1,2,3\n1,2,4\n2,2,1\n"), TEXT("1,2,3\n5,2,1\n5,6,1\n")};
    struct tide_matrix m;
    struct tide_matrix_oddities odd;
    assert_int_equal(tide_matrix_read(texts, 2, TIDE_MATRIX_AUTO, &m), 0);
    assert_int_equal(tide_matrix_oddities(&m, &odd), 0);
    assert_int_equal(odd.repeated, 1);
    assert_int_equal(odd.leaked, 1);
    assert_int_equal(odd.unseen_rows, 1);
    assert_int_equal(odd.unseen_columns, 1);
    tide_matrix_release(&m);
}

#define HEAD "%%MatrixMarket matrix coordinate real general\n"

static void test_damaged_matrixmarket_is_refused_with_its_line(void **state) {
    (void)state;
    const enum tide_matrix_format f = TIDE_MATRIX_MARKET;
    refuse(TEXT(""), f, "f: line 1", "the end");
    refuse(TEXT("1 2 3\n"), f, "f: line 1", "%%MatrixMarket");
    refuse(TEXT("%%MatrixMarket matrix array real general\n"), f, "f: line 1", "'array'");
    refuse(TEXT("%%MatrixMarket matrix coordinate pattern general\n"), f, "f: line 1", "'pattern'");
    refuse(TEXT("%%MatrixMarket matrix coordinate real general\n60000000 60000000 1\n1 1 3\n"), f,
           "f: line 2", "a size that fits 1 cells");
    refuse(TEXT("%%MatrixMarket matrix coordinate real symmetric\n"), f, "f: line 1",
           "'symmetric'");
    refuse(TEXT(HEAD), f, "f: line 1", "rows, columns and cells");
    refuse(TEXT(HEAD "2 2\n"), f, "f: line 2", "rows, columns and cells");
    refuse(TEXT(HEAD "2 0 1\n"), f, "f: line 2", "'0'");
    refuse(TEXT(HEAD "2 99999999999 1\n"), f, "f: line 2", "'99999999999'");
    refuse(TEXT(HEAD "2 2 1\n0 1 5\n"), f, "f: line 3", "a row");
    refuse(TEXT(HEAD "2 2 1\n3 1 5\n"), f, "f: line 3", "a row");
    refuse(TEXT(HEAD "2 2 1\n1 3 5\n"), f, "f: line 3", "a column");
    refuse(TEXT(HEAD "2 2 1\n1 -1 5\n"), f, "f: line 3", "a column");
    refuse(TEXT(HEAD "2 2 1\n1 1 nan\n"), f, "f: line 3", "'nan'");
    refuse(TEXT(HEAD "2 2 1\n1 1\n"), f, "f: line 3", "fewer");
    refuse(TEXT(HEAD "2 2 1\n1 1 5 6\n"), f, "f: line 3", "more");
    refuse(TEXT(HEAD "2 2 2\n1 1 5\n"), f, "f: line 4", "after 1");
    refuse(TEXT(HEAD "2 2 1\n1 1 5\n2 2 5\n"), f, "f: line 4", "another");
    refuse(TEXT(HEAD "2 2 4000000000\n1 1 5\n"), f, "f: line 4", "4000000000");
}

static void test_two_matrices_must_agree(void **state) {
    (void)state;
    const struct tide_text texts[] = {TEXT(HEAD "2 2 1\n1 1 5\n"), TEXT(HEAD "2 3 1\n1 1 5\n")};
    struct tide_matrix m;
    assert_int_equal(tide_matrix_read(texts, 2, TIDE_MATRIX_AUTO, &m), TIDE_EPROTO);
    assert_non_null(strstr(tide_error_message(), "2 columns as before"));
    assert_int_equal(tide_matrix_read(texts, 0, TIDE_MATRIX_AUTO, &m), TIDE_EINVAL);
    assert_int_equal(tide_matrix_read(texts, 3, TIDE_MATRIX_AUTO, &m), TIDE_EINVAL);
}

/* Every cell of a `rows` x `columns` matrix, its value its number. */
static struct tide_matrix full(uint32_t rows, uint32_t columns) {
    size_t capacity = 64 + 24 * (size_t)rows * columns, size;
    char *bytes = malloc(capacity);
    size = (size_t)snprintf(bytes, capacity, "%s%u %u %u\n", HEAD, rows, columns, rows * columns);
    for (uint32_t i = 0; i < rows; i++) {
        for (uint32_t j = 0; j < columns; j++) {
            size += (size_t)snprintf(bytes + size, capacity - size, "%u %u %u\n", i + 1, j + 1,
                                     i * columns + j);
        }
    }
    struct tide_text text = {"f", bytes, size};
    struct tide_matrix m;
    assert_int_equal(tide_matrix_read(&text, 1, TIDE_MATRIX_AUTO, &m), 0);
    free(bytes);
    return m;
}

static void test_split_is_exact_ordered_and_fixed_by_the_seed(void **state) {
    (void)state;
    float kept[3][10];
    for (uint64_t run = 0; run < 3; run++) {
        struct tide_matrix m = full(10, 10);
        assert_int_equal(tide_matrix_split(&m, 10, 1 + run / 2), 0);
        assert_int_equal(m.parts[0].count, 90);
        assert_int_equal(m.parts[1].count, 10);
        bool seen[100] = {false};
        for (size_t part = 0; part < 2; part++) {
            float last = -1;
            for (size_t i = 0; i < m.parts[part].count; i++) {
                float value = m.parts[part].values[i];
                assert_true(value > last);
                assert_int_equal(10 * m.parts[part].cells[2 * i] + m.parts[part].cells[2 * i + 1],
                                 (int)value);
                seen[(int)value] = true;
                last = value;
            }
        }
        for (int i = 0; i < 100; i++) {
            assert_true(seen[i]);
        }
        memcpy(kept[run], m.parts[1].values, sizeof kept[run]);
        assert_int_equal(tide_matrix_split(&m, 1, 1), TIDE_EINVAL); /* there is a second part */
        tide_matrix_release(&m);
    }
    assert_memory_equal(kept[0], kept[1], sizeof kept[0]);
    assert_memory_not_equal(kept[0], kept[2], sizeof kept[0]);
    struct tide_matrix m = full(2, 2);
    assert_int_equal(tide_matrix_split(&m, 5, 1), TIDE_EINVAL);
    assert_true(tide_matrix_mean(&m) == 1.5);
    tide_matrix_release(&m);
}

static void test_blocks_hold_every_cell_once_in_order(void **state) {
    (void)state;
    enum { ROWS = 10, COLUMNS = 7, BLOCKS = 4 }; /* blocks of 3 x 2; the last row block has one */
    struct tide_matrix m = full(ROWS, COLUMNS);
    const struct tide_block_grid grid = {ROWS, COLUMNS, BLOCKS};
    bool seen[ROWS * COLUMNS] = {false};
    for (uint32_t first = 0; first < BLOCKS; first += 2) {
        struct tide_cells out;
        uint64_t offsets[2 * BLOCKS + 1];
        assert_int_equal(tide_cells_blocks(&m.parts[0], grid, first, 2, &out, offsets, 9), 0);
        assert_int_equal(offsets[2 * BLOCKS], out.count);
        for (size_t n = 0; n < 2 * BLOCKS; n++) {
            float last = -1;
            for (size_t i = offsets[n]; i < offsets[n + 1]; i++) {
                assert_int_equal(out.cells[2 * i] / 3, first + n / BLOCKS);
                assert_int_equal(out.cells[2 * i + 1] / 2, n % BLOCKS);
                assert_true(out.values[i] > last && !seen[(int)out.values[i]]);
                seen[(int)out.values[i]] = true;
                last = out.values[i];
            }
        }
        tide_free(out.cells);
        tide_free(out.values);
    }
    for (size_t i = 0; i < ROWS * COLUMNS; i++) {
        assert_true(seen[i]);
    }
    uint32_t rows[ROWS] = {0}, columns[COLUMNS] = {0};
    tide_cells_count(&m.parts[0], false, rows);
    tide_cells_count(&m.parts[0], true, columns);
    assert_int_equal(rows[9], COLUMNS);
    assert_int_equal(columns[0], ROWS);
    tide_matrix_release(&m);
}

/* Each cell once; the columns of each group; columns all in one piece if they are to be. */
static void groups_are_right(const struct tide_cells *cells, bool by_columns, size_t size,
                             uint64_t seed, float *order) {
    enum { ROWS = 10, COLUMNS = 7, CELLS = ROWS * COLUMNS };
    struct tide_cells out;
    uint64_t columns[CELLS], offsets[CELLS + 1];
    bool seen[CELLS] = {false}, left[COLUMNS] = {false};
    int code = tide_cells_groups(cells, COLUMNS, by_columns, size, seed, &out, columns, offsets);
    assert_int_equal(code, 0);
    assert_int_equal(out.count, CELLS);
    assert_int_equal(offsets[0], 0);
    for (size_t i = 0; i < CELLS; i++) {
        const uint32_t row = out.cells[2 * i], column = out.cells[2 * i + 1];
        const size_t group = i / size;
        bool listed = false;
        for (uint64_t at = offsets[group]; at < offsets[group + 1]; at++) {
            assert_true(at == offsets[group] || columns[at] != columns[at - 1]);
            listed |= columns[at] == column;
        }
        assert_true(listed && !seen[(int)out.values[i]]);
        assert_true(out.values[i] == (float)(row * COLUMNS + column));
        seen[(int)out.values[i]] = true;
        if (by_columns && i > 0 && out.cells[2 * i - 1] != column) {
            left[out.cells[2 * i - 1]] = true;
        }
        assert_false(left[column]);
    }
    const uint64_t listed = offsets[(CELLS + size - 1) / size];
    assert_true(listed >= COLUMNS && listed <= CELLS);
    assert_true(!by_columns || listed <= COLUMNS + (CELLS - 1) / size); /* cut ones twice */
    memcpy(order, out.values, CELLS * sizeof *order);
    tide_free(out.cells);
    tide_free(out.values);
}

static void test_groups_hold_every_cell_once_in_a_random_order(void **state) {
    (void)state;
    static const size_t sizes[] = {1, 7, 13, 70, 1000};
    struct tide_matrix m = full(10, 7);
    for (int by_columns = 0; by_columns < 2; by_columns++) {
        for (size_t i = 0; i < TIDE_COUNT(sizes); i++) {
            float orders[3][70];
            groups_are_right(&m.parts[0], by_columns, sizes[i], 1, orders[0]);
            groups_are_right(&m.parts[0], by_columns, sizes[i], 1, orders[1]);
            groups_are_right(&m.parts[0], by_columns, sizes[i], 2, orders[2]);
            assert_memory_equal(orders[0], orders[1], sizeof orders[0]);
            assert_memory_not_equal(orders[0], orders[2], sizeof orders[0]);
        }
    }
    const struct tide_cells none = {0};
    struct tide_cells out;
    uint64_t offsets[1] = {9};
    assert_int_equal(tide_cells_groups(&none, 7, true, 5, 1, &out, NULL, offsets), 0);
    assert_true(out.count == 0 && offsets[0] == 0);
    tide_free(out.cells);
    tide_free(out.values);
    tide_matrix_release(&m);
}

static void test_bad_blocks_are_refused(void **state) {
    (void)state;
    struct tide_matrix m = full(2, 2);
    struct tide_cells out;
    uint64_t offsets[8];
    const struct tide_block_grid none = {2, 2, 0}, two = {2, 2, 2};
    assert_int_equal(tide_cells_blocks(&m.parts[0], none, 0, 1, &out, offsets, 1), TIDE_EINVAL);
    assert_int_equal(tide_cells_blocks(&m.parts[0], two, 2, 1, &out, offsets, 5), TIDE_EINVAL);
    assert_int_equal(tide_cells_blocks(&m.parts[0], two, 0, 0, &out, offsets, 5), TIDE_EINVAL);
    assert_int_equal(tide_cells_blocks(&m.parts[0], two, 0, 1, &out, offsets, 4), TIDE_EINVAL);
    assert_int_equal(tide_cells_blocks(&m.parts[0], two, 1, 2, &out, offsets, 5), TIDE_EINVAL);
    assert_null(out.cells);
    tide_matrix_release(&m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ratings_of_all_forms_are_the_same),
        cmocka_unit_test(test_ids_are_shared_by_both_texts),
        cmocka_unit_test(test_matrixmarket_is_read),
        cmocka_unit_test(test_values_are_those_of_the_c_library),
        cmocka_unit_test(test_ratings_are_read_by_what_their_first_line_says),
        cmocka_unit_test(test_what_makes_a_test_easier_or_harder_is_counted),
        cmocka_unit_test(test_damaged_ratings_are_refused_with_their_line),
        cmocka_unit_test(test_damaged_matrixmarket_is_refused_with_its_line),
        cmocka_unit_test(test_two_matrices_must_agree),
        cmocka_unit_test(test_split_is_exact_ordered_and_fixed_by_the_seed),
        cmocka_unit_test(test_blocks_hold_every_cell_once_in_order),
        cmocka_unit_test(test_groups_hold_every_cell_once_in_a_random_order),
        cmocka_unit_test(test_bad_blocks_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
