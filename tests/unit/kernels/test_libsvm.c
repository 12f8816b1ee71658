/* LibSVM text: what is read, whatever the pieces it comes in, and what is refused where; gzip. */
#include "readers/libsvm.h"

#include "base/base.h"
#include "readers/gzip.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

static const struct tide_libsvm_options automatic = {.base = TIDE_LIBSVM_BASE_AUTO};

/* Reads the texts in pieces of `piece` bytes; each piece is a heap copy, so that ASan sees a read
 * behind its end. */
static int read_texts(struct tide_libsvm_options options, const char *const *texts,
                      const size_t *sizes, size_t count, size_t piece, struct tide_libsvm *out) {
    struct tide_libsvm_reader *reader;
    assert_int_equal(tide_libsvm_open(options, &reader), 0);
    int code = 0;
    for (size_t i = 0; i < count && code == 0; i++) {
        code = tide_libsvm_begin(reader, i ? "second" : "f");
        for (size_t at = 0; at < sizes[i] && code == 0; at += piece) {
            size_t size = sizes[i] - at < piece ? sizes[i] - at : piece;
            char *copy = malloc(size);
            memcpy(copy, texts[i] + at, size);
            code = tide_libsvm_feed(reader, copy, size);
            free(copy);
        }
        code = code ? code : tide_libsvm_end(reader);
    }
    code = code ? code : tide_libsvm_finish(reader, out);
    tide_libsvm_close(reader);
    return code;
}

static int read_one(struct tide_libsvm_options options, const char *text, size_t piece,
                    struct tide_libsvm *out) {
    size_t size = strlen(text);
    return read_texts(options, &text, &size, 1, piece, out);
}

static void assert_entry(const struct tide_libsvm *data, size_t row, size_t i, uint32_t index,
                         float value) {
    const struct tide_sparse *part = &data->parts[0];
    assert_true(row < part->rows && i < part->offsets[row + 1] - part->offsets[row]);
    assert_int_equal(part->indices[part->offsets[row] + i], index);
    assert_true(part->values[part->offsets[row] + i] == value);
}

static void test_lines_are_read_whatever_pieces_they_come_in(void **state) {
    (void)state;
    static const char text[] = "\xef\xbb\xbf+1 1:0.5 3:-2e1 # a comment 7:7\r\n"
                               "\n# nothing\n \t\n"
                               "-1\n"
                               "2.5 qid:3\t2:1   7:.25 \r\n"
                               "-1 qid:4 1:1#1";
    for (size_t piece = 1; piece <= sizeof text; piece++) {
        struct tide_libsvm data;
        assert_int_equal(read_one(automatic, text, piece, &data), 0);
        assert_int_equal(data.parts[0].rows, 4);
        assert_int_equal(data.parts[1].rows, 0);
        assert_int_equal(data.columns, 7);
        assert_int_equal(data.base, 1);
        assert_int_equal(data.queries, 2);
        static const float labels[] = {1, -1, 2.5f, -1};
        static const uint64_t offsets[] = {0, 2, 2, 4, 5};
        assert_memory_equal(data.labels[0], labels, sizeof labels);
        assert_memory_equal(data.parts[0].offsets, offsets, sizeof offsets);
        assert_entry(&data, 0, 0, 0, 0.5f);
        assert_entry(&data, 0, 1, 2, -20);
        assert_entry(&data, 2, 1, 6, 0.25f);
        tide_libsvm_release(&data);
        assert_null(data.parts[0].offsets);
    }
}

static void test_indices_count_from_the_base(void **state) {
    (void)state;
    struct tide_libsvm data;
    assert_int_equal(read_one(automatic, "1 1:1 2:2\n1 0:5 2:6\n", 100, &data), 0);
    assert_int_equal(data.base, 0);
    assert_int_equal(data.columns, 3);
    assert_entry(&data, 0, 0, 1, 1);
    assert_entry(&data, 1, 0, 0, 5);
    tide_libsvm_release(&data);
    const struct tide_libsvm_options zero = {.base = 0, .columns = 10};
    assert_int_equal(read_one(zero, "1 1:1\n", 100, &data), 0);
    assert_int_equal(data.columns, 10);
    assert_entry(&data, 0, 0, 1, 1);
    tide_libsvm_release(&data);
    assert_int_equal(read_one(automatic, "1\n2\n", 100, &data), 0);
    assert_int_equal(data.columns, 0);
    tide_libsvm_release(&data);
}

static void test_two_parts_share_base_and_columns(void **state) {
    (void)state;
    const char *const texts[] = {"1 1:1\n", "2 0:1 5:2\n"};
    const size_t sizes[] = {6, 10};
    struct tide_libsvm data;
    assert_int_equal(read_texts(automatic, texts, sizes, 2, 3, &data), 0);
    assert_int_equal(data.base, 0);
    assert_int_equal(data.columns, 6);
    assert_entry(&data, 0, 0, 1, 1);
    assert_int_equal(data.parts[1].rows, 1);
    assert_int_equal(data.parts[1].indices[1], 5);
    tide_libsvm_release(&data);
    struct tide_libsvm_reader *reader;
    assert_int_equal(tide_libsvm_open(automatic, &reader), 0);
    assert_int_equal(tide_libsvm_begin(reader, "a"), 0);
    assert_int_equal(tide_libsvm_begin(reader, "b"), 0);
    assert_int_equal(tide_libsvm_begin(reader, "c"), TIDE_EINVAL);
    tide_libsvm_close(reader);
}

static void test_labels_become_classes_in_rising_order(void **state) {
    (void)state;
    const char *const texts[] = {"3\n-1\n3\n+0.5\n", "7\n-1\n"};
    const size_t sizes[] = {12, 5};
    struct tide_libsvm data;
    float *classes;
    size_t count;
    assert_int_equal(read_texts(automatic, texts, sizes, 2, 100, &data), 0);
    assert_int_equal(tide_libsvm_classes(&data, &classes, &count), 0);
    static const float expected[] = {-1, 0.5f, 3, 7};
    assert_int_equal(count, 4);
    assert_memory_equal(classes, expected, sizeof expected);
    assert_int_equal(tide_libsvm_class(classes, count, 3), 2);
    tide_free(classes);
    tide_libsvm_release(&data);
}

static void refuse_of(struct tide_libsvm_options options, const char *text, size_t size,
                      const char *where, const char *what) {
    for (size_t piece = 1; piece <= size + 1; piece += size / 2 + 1) {
        struct tide_libsvm data = {0};
        assert_int_equal(read_texts(options, &text, &size, 1, piece, &data), TIDE_EPROTO);
        if (strncmp(tide_error_message(), where, strlen(where)) != 0 ||
            !strstr(tide_error_message(), what)) {
            fail_msg("'%s' says neither %s nor %s", tide_error_message(), where, what);
        }
        assert_null(data.parts[0].offsets);
    }
}

#define REFUSE(text, where, what) refuse_of(automatic, text, sizeof(text) - 1, where, what)

static void test_classes_that_floats_cannot_tell_apart_are_refused(void **state) {
    (void)state;
    const struct tide_libsvm_options classes = {.base = TIDE_LIBSVM_BASE_AUTO, .classes = true};
    struct tide_libsvm data;
    assert_int_equal(read_one(classes, "1 1:1\n16777217 1:1\n", 5, &data), TIDE_EPROTO);
    assert_non_null(strstr(tide_error_message(), "f: line 2: column 1: expected a label"));
    assert_int_equal(read_one(classes, "0.1 1:1\n0.10000000001 1:1\n", 5, &data), TIDE_EPROTO);
    assert_non_null(strstr(tide_error_message(), "tell apart"));
    assert_int_equal(read_one(classes, "0.1 1:1\n-3 1:1\n16777216 1:1\n0.1 2:1\n", 5, &data), 0);
    tide_libsvm_release(&data);
}

static void test_damaged_lines_are_refused_with_line_and_column(void **state) {
    (void)state;
    REFUSE("", "f: line 1: column 1", "the end");
    REFUSE("# only a comment\n\n", "f: line 3: column 1", "the end");
    REFUSE("1 1:1\nx 1:1\n", "f: line 2: column 1", "'x'; lines of several labels are not read");
    REFUSE("1,3 1:1\n", "f: line 1: column 1", "'1,3'");
    REFUSE("nan 1:1\n", "f: line 1: column 1", "'nan'");
    REFUSE("1:2 1:1\n", "f: line 1: column 1", "'1:2'");
    REFUSE("1 1:1 2\n", "f: line 1: column 7", "found '2'; write each entry as index:value");
    REFUSE("1 :1\n", "f: line 1: column 3", "':1'");
    REFUSE("1 -1:1\n", "f: line 1: column 3", "'-1:1'");
    REFUSE("1 1.5:1\n", "f: line 1: column 3", "'1.5:1'");
    REFUSE("1 4294967295:1\n", "f: line 1: column 3", "below 2^32 - 1");
    REFUSE("1 1:1 2:\n", "f: line 1: column 9", "a finite value that a 32-bit float holds, found ''");
    REFUSE("1 1:16777217\n", "f: line 1: column 5", "16777216 would be rounded");
    REFUSE("1 1:1\n16777217 1:1\n", "f: line 2: column 1", "a label that a 32-bit float holds");
    REFUSE("1e39 1:1\n", "f: line 1: column 1", "a label that a 32-bit float holds");
    REFUSE("1 1:inf\n", "f: line 1: column 5", "'inf'");
    REFUSE("1 1:1e39\n", "f: line 1: column 5", "'1e39'");
    REFUSE("1 1:1:2\n", "f: line 1: column 5", "'1:2'");
    REFUSE("1 2:1 2:1\n", "f: line 1: column 7", "merge equal indices");
    REFUSE("1 2:1 1:1\n", "f: line 1: column 7", "sort the entries");
    REFUSE("1 1:1 qid:2\n", "f: line 1: column 7", "'qid:2'");
    REFUSE("1 qid:2 qid:3\n", "f: line 1: column 9", "'qid:3'");
    REFUSE("1 1:\0001\n", "f: line 1: column 5", "NUL");
    const struct tide_libsvm_options one = {.base = 1}, few = {.base = -1, .columns = 3};
    refuse_of(one, "1 1:1\n1 0:1\n", 12, "f: line 2: column 3", "base = 0");
    refuse_of(one, "1 1:1\n1 4294967294:1\n", 21, "f: line 2: column 3", "far beyond the 2 entries");
    refuse_of(few, "1 1:1\n1 2:1 4:1\n1 1:1", 21, "f: line 2: column 7", "columns = 4");
    refuse_of(few, "1 0:1 3:1\n", 10, "f: line 1: column 7", "counted from 0");
}

static void test_a_line_without_an_end_is_given_up(void **state) {
    (void)state;
    struct tide_libsvm_reader *reader;
    char *spaces = malloc(1 << 20);
    memset(spaces, ' ', 1 << 20);
    assert_int_equal(tide_libsvm_open(automatic, &reader), 0);
    assert_int_equal(tide_libsvm_begin(reader, "f"), 0);
    int code = 0;
    for (size_t i = 0; i < 65 && code == 0; i++) {
        code = tide_libsvm_feed(reader, spaces, 1 << 20);
    }
    assert_int_equal(code, TIDE_ELIMIT);
    assert_non_null(strstr(tide_error_message(), "f: line 1"));
    tide_libsvm_close(reader);
    free(spaces);
}

/* ---- gzip ---- */

static size_t pack(const char *text, size_t size, uint8_t *out, size_t room) {
    z_stream stream = {0};
    assert_int_equal(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    stream.next_in = (Bytef *)(uintptr_t)text;
    stream.avail_in = (uInt)size;
    stream.next_out = out;
    stream.avail_out = (uInt)room;
    assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
    size_t packed = room - stream.avail_out;
    deflateEnd(&stream);
    return packed;
}

static int check_zeros(void *arg, const char *data, size_t size) {
    for (size_t i = 0; i < size; i++) {
        assert_int_equal(data[i], 0);
    }
    *(size_t *)arg += size;
    return 0;
}

static void test_packed_text_comes_piece_by_piece(void **state) {
    (void)state;
    enum { SIZE = 3 << 20, ROOM = 1 << 16 };
    char *zeros = calloc(SIZE, 1);
    uint8_t *packed = malloc(ROOM);
    size_t size = pack(zeros, SIZE, packed, ROOM);
    size += pack(zeros, 10, packed + size, ROOM - size); /* a second member */
    assert_true(tide_gzip_is(packed, size));
    for (size_t piece = 1; piece <= size; piece = 3 * piece + 1) {
        struct tide_gunzip *g;
        size_t made = 0;
        struct tide_sink sink = {&made, check_zeros};
        assert_int_equal(tide_gunzip_create(&g), 0);
        for (size_t at = 0; at < size; at += piece) {
            assert_int_equal(tide_gunzip_end(g), TIDE_EINVAL);
            size_t part = size - at < piece ? size - at : piece;
            assert_int_equal(tide_gunzip_feed(g, packed + at, part, sink), 0);
            if (made == SIZE && at + part < size) {
                break; /* between the members a text may end */
            }
        }
        tide_gunzip_destroy(g);
    }
    uint8_t *whole;
    size_t whole_size;
    assert_int_equal(tide_gzip_unpack(packed, size, SIZE + 10, &whole, &whole_size), 0);
    assert_int_equal(whole_size, SIZE + 10);
    tide_free(whole);
    assert_int_equal(tide_gzip_unpack(packed, size, SIZE, &whole, &whole_size), TIDE_ELIMIT);
    assert_null(whole);
    assert_int_equal(tide_gzip_unpack(packed, size - 1, SIZE + 10, &whole, &whole_size),
                     TIDE_EINVAL);
    packed[size - 6] ^= 0x55; /* in the second checksum */
    assert_int_equal(tide_gzip_unpack(packed, size, SIZE + 10, &whole, &whole_size), TIDE_EINVAL);
    free(packed);
    free(zeros);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines_are_read_whatever_pieces_they_come_in),
        cmocka_unit_test(test_indices_count_from_the_base),
        cmocka_unit_test(test_two_parts_share_base_and_columns),
        cmocka_unit_test(test_labels_become_classes_in_rising_order),
        cmocka_unit_test(test_classes_that_floats_cannot_tell_apart_are_refused),
        cmocka_unit_test(test_damaged_lines_are_refused_with_line_and_column),
        cmocka_unit_test(test_a_line_without_an_end_is_given_up),
        cmocka_unit_test(test_packed_text_comes_piece_by_piece),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
