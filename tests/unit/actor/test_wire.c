/* The wire room: writer, cursor, pre-scan, frames, JSON, and msgpack-c as the second opinion. */
#include "wire/json.h"
#include "tide/message.h"
#include "wire/wire.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <malloc.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void assert_bytes(const struct tide_writer *w, const char *expected, size_t size) {
    assert_int_equal(w->error, 0);
    assert_int_equal(w->size, size);
    assert_memory_equal(w->data, expected, size);
}
#define ASSERT_BYTES(w, literal) assert_bytes(w, literal, sizeof(literal) - 1)
#define SCAN(literal) tide_scan(literal, sizeof(literal) - 1)

static const int64_t integers[] = {
    0,         1,  127, 128, 255,  256,  65535,     65536,     UINT32_MAX, UINT32_MAX + 1LL,
    INT64_MAX, -1, -32, -33, -128, -129, INT16_MIN, INT32_MIN, -32769,     INT32_MIN - 1LL,
    INT64_MIN};

static void test_integers_round_trip_in_their_shortest_form(void **state) {
    (void)state;
    static const size_t sizes[] = {1, 1, 1, 2, 2, 3, 3, 5, 5, 9, 9, 1, 1, 2, 2, 3, 3, 5, 5, 9, 9};
    for (size_t i = 0; i < TIDE_COUNT(integers); i++) {
        struct tide_writer w;
        struct tide_reader r;
        tide_writer_init(&w, NULL, 0);
        tide_write_int(&w, integers[i]);
        assert_int_equal(w.size, sizes[i]);
        assert_int_equal(tide_scan(w.data, w.size), 0);
        tide_reader_init(&r, w.data, w.size);
        assert_int_equal(tide_read_type(&r), TIDE_INT);
        assert_true(tide_read_int(&r) == integers[i]);
        assert_int_equal(r.error, 0);
        assert_ptr_equal(r.at, r.end);
        tide_reader_init(&r, w.data, w.size);
        assert_true(tide_read_double(&r) == (double)integers[i]);
        tide_reader_init(&r, w.data, w.size);
        uint64_t positive = tide_read_uint(&r);
        assert_int_equal(r.error, integers[i] < 0 ? TIDE_EPROTO : 0);
        assert_true(positive == (integers[i] < 0 ? 0 : (uint64_t)integers[i]));
        tide_writer_release(&w);
    }
}

static void test_large_unsigned_is_no_signed_integer(void **state) {
    (void)state;
    struct tide_reader r;
    const char bytes[] = "\xcf\xff\xff\xff\xff\xff\xff\xff\xff";
    tide_reader_init(&r, bytes, 9);
    assert_int_equal(tide_read_type(&r), TIDE_UINT);
    assert_true(tide_read_uint(&r) == UINT64_MAX);
    tide_reader_init(&r, bytes, 9);
    assert_int_equal(tide_read_int(&r), 0);
    assert_int_equal(r.error, TIDE_EPROTO);
}

static void test_scalars_have_the_bytes_of_the_format(void **state) {
    (void)state;
    uint8_t stack[64];
    struct tide_writer w;
    tide_writer_init(&w, stack, sizeof stack);
    tide_write_nil(&w);
    tide_write_bool(&w, true);
    tide_write_bool(&w, false);
    tide_write_double(&w, 1.5);
    tide_write_text(&w, "abc");
    tide_write_text(&w, NULL);
    tide_write_binary(&w, "\x01\x02", 2);
    tide_write_array(&w, 15);
    tide_write_map(&w, 16);
    ASSERT_BYTES(&w, "\xc0\xc3\xc2\xcb\x3f\xf8\0\0\0\0\0\0\xa3"
                     "abc\xc0\xc4\x02\x01\x02\x9f\xde\x00\x10");
    assert_false(w.owned);
    tide_writer_release(&w);
}

static void test_lengths_use_the_shortest_head(void **state) {
    (void)state;
    static const size_t lengths[] = {0, 31, 32, 255, 256, 65535, 65536};
    static const uint8_t string_tags[] = {0xa0, 0xbf, 0xd9, 0xd9, 0xda, 0xda, 0xdb};
    static const uint8_t binary_tags[] = {0xc4, 0xc4, 0xc4, 0xc4, 0xc5, 0xc5, 0xc6};
    char *text = calloc(1, 65536);
    for (size_t i = 0; i < TIDE_COUNT(lengths); i++) {
        struct tide_writer w;
        struct tide_reader r;
        size_t size;
        tide_writer_init(&w, NULL, 0);
        tide_write_string(&w, text, lengths[i]);
        size_t first = w.size;
        tide_write_binary(&w, text, lengths[i]);
        assert_int_equal(w.data[0], string_tags[i]);
        assert_int_equal(w.data[first], binary_tags[i]);
        tide_reader_init(&r, w.data, w.size);
        assert_ptr_equal(tide_read_string(&r, &size), w.data + first - lengths[i]);
        assert_int_equal(size, lengths[i]);
        assert_non_null(tide_read_binary(&r, &size));
        assert_int_equal(size, lengths[i]);
        assert_int_equal(r.error, 0);
        tide_writer_release(&w);
    }
    free(text);
}

static void test_writer_moves_from_the_stack_to_the_heap(void **state) {
    (void)state;
    uint8_t stack[8];
    struct tide_writer w;
    struct tide_reader r;
    tide_writer_init(&w, stack, sizeof stack);
    tide_write_array(&w, 1000);
    for (uint64_t i = 0; i < 1000; i++) {
        tide_write_uint(&w, i * i * i);
    }
    assert_true(w.owned);
    assert_int_equal(tide_scan(w.data, w.size), 0);
    tide_reader_init(&r, w.data, w.size);
    assert_int_equal(tide_read_array(&r), 1000);
    for (uint64_t i = 0; i < 1000; i++) {
        assert_true(tide_read_uint(&r) == i * i * i);
    }
    assert_int_equal(tide_read_type(&r), TIDE_END);
    tide_writer_release(&w);
}

static void test_impossible_lengths_fail_and_stick(void **state) {
    (void)state;
    struct tide_writer w;
    tide_writer_init(&w, NULL, 0);
    tide_write_typed_head(&w, TIDE_F64, SIZE_MAX / 2);
    assert_int_equal(w.error, TIDE_ELIMIT);
    tide_write_nil(&w);
    assert_int_equal(w.size, 0);
    tide_writer_release(&w);
    tide_writer_init(&w, NULL, 0);
    assert_null(tide_write_reserve(&w, SIZE_MAX - 8));
    assert_int_equal(w.error, TIDE_ENOMEM);
    tide_writer_release(&w);
}

static void test_typed_arrays_round_trip_and_head_equals_whole(void **state) {
    (void)state;
    static const size_t counts[] = {0, 1, 2, 3, 4, 5, 63, 64, 16383, 16384};
    float *values = calloc(16384, sizeof *values);
    for (size_t i = 0; i < 16384; i++) {
        values[i] = (float)i;
    }
    for (size_t i = 0; i < TIDE_COUNT(counts); i++) {
        struct tide_writer w, head;
        struct tide_reader r;
        size_t count;
        tide_writer_init(&w, NULL, 0);
        tide_writer_init(&head, NULL, 0);
        tide_write_typed(&w, TIDE_F32, values, counts[i]);
        tide_write_typed_head(&head, TIDE_F32, counts[i]);
        assert_int_equal(w.size, head.size + counts[i] * 4);
        assert_memory_equal(w.data, head.data, head.size);
        assert_int_equal(tide_scan(w.data, w.size), 0);
        tide_reader_init(&r, w.data, w.size);
        const void *found = tide_read_typed(&r, TIDE_F32, &count);
        assert_int_equal(count, counts[i]);
        assert_memory_equal(found, values, counts[i] * 4);
        tide_reader_init(&r, w.data, w.size);
        assert_null(tide_read_typed(&r, TIDE_I32, &count));
        assert_int_equal(count, 0);
        assert_int_equal(r.error, TIDE_EPROTO);
        tide_writer_release(&w);
        tide_writer_release(&head);
    }
    free(values);
}

static void test_typed_array_of_broken_length_is_refused(void **state) {
    (void)state;
    struct tide_reader r;
    size_t count;
    tide_reader_init(&r, "\xc7\x03\x01xyz", 6);
    assert_null(tide_read_typed(&r, TIDE_F32, &count));
    assert_int_equal(r.error, TIDE_EPROTO);
    assert_int_equal(SCAN("\xc7\x03\x01xyz"), TIDE_EPROTO);
    assert_int_equal(SCAN("\xc7\x04\x0bxyzw"), TIDE_EPROTO); /* 11: no such code */
    assert_int_equal(SCAN("\xd6\xff\0\0\0\0"), TIDE_EPROTO); /* msgpack's time stamp */
    assert_int_equal(SCAN("\xc7\x04\x01xyzw"), 0);
}

static void test_reader_failure_sticks(void **state) {
    (void)state;
    struct tide_reader r;
    size_t size;
    tide_reader_init(&r, "\x01\x02", 2);
    assert_false(tide_read_nil(&r));
    assert_int_equal(r.error, 0);
    assert_null(tide_read_string(&r, &size));
    assert_int_equal(r.error, TIDE_EPROTO);
    assert_int_equal(tide_read_int(&r), 0);
    assert_int_equal(tide_read_array(&r), 0);
    assert_false(tide_read_bool(&r));
    assert_int_equal(tide_read_type(&r), TIDE_END);
    assert_int_equal(r.error, TIDE_EPROTO);
}

static void test_reader_takes_foreign_widths(void **state) {
    (void)state;
    struct tide_reader r;
    tide_reader_init(&r, "\xd3\0\0\0\0\0\0\0\x05\xcd\0\x05\xca\x3f\xc0\0\0\xd1\xff\xfe\xdd\0\0\0\0",
                     25);
    assert_int_equal(tide_read_uint(&r), 5);
    assert_int_equal(tide_read_int(&r), 5);
    assert_true(tide_read_double(&r) == 1.5);
    assert_int_equal(tide_read_int(&r), -2);
    assert_int_equal(tide_read_array(&r), 0);
    assert_int_equal(r.error, 0);
    assert_ptr_equal(r.at, r.end);
}

static void test_text_is_bounded_and_without_zero(void **state) {
    (void)state;
    struct tide_reader r;
    char out[4] = "zzz";
    tide_reader_init(&r,
                     "\xa3"
                     "abc",
                     4);
    tide_read_text(&r, out, sizeof out);
    assert_string_equal(out, "abc");
    tide_reader_init(&r,
                     "\xa4"
                     "abcd",
                     5);
    tide_read_text(&r, out, sizeof out);
    assert_string_equal(out, "");
    assert_int_equal(r.error, TIDE_EPROTO);
    tide_reader_init(&r, "\xa2\0b", 3);
    tide_read_text(&r, out, sizeof out);
    assert_int_equal(r.error, TIDE_EPROTO);
}

static void test_field_is_found_by_key_and_the_cursor_stays(void **state) {
    (void)state;
    struct tide_writer w;
    struct tide_reader r, value;
    tide_writer_init(&w, NULL, 0);
    tide_write_map(&w, 4);
    tide_write_int(&w, 7);
    tide_write_text(&w, "integer key");
    tide_write_text(&w, "nested");
    tide_write_map(&w, 1);
    tide_write_text(&w, "b");
    tide_write_int(&w, 1);
    tide_write_text(&w, "bb");
    tide_write_int(&w, 2);
    tide_write_text(&w, "b");
    tide_write_int(&w, 3);
    tide_reader_init(&r, w.data, w.size);
    assert_true(tide_read_field(&r, "b", &value));
    assert_int_equal(tide_read_int(&value), 3);
    assert_ptr_equal(r.at, w.data);
    assert_false(tide_read_field(&r, "", &value));
    assert_false(tide_read_field(&r, "bbb", &value));
    tide_read_skip(&r);
    assert_ptr_equal(r.at, r.end);
    assert_int_equal(r.error, 0);
    tide_writer_release(&w);
}

static void test_no_prefix_of_a_value_is_read(void **state) {
    (void)state;
    struct tide_writer w;
    tide_writer_init(&w, NULL, 0);
    tide_write_map(&w, 3);
    tide_write_text(&w, "array");
    tide_write_array(&w, 3);
    tide_write_int(&w, -70000);
    tide_write_double(&w, NAN);
    tide_write_nil(&w);
    tide_write_text(&w, "text");
    tide_write_text(&w, "a string of more than thirty-one characters");
    tide_write_text(&w, "typed");
    tide_write_typed(&w, TIDE_U64, (uint64_t[]){1, 2, 3}, 3);
    for (size_t cut = 0; cut < w.size; cut++) {
        struct tide_reader r;
        uint8_t *copy = malloc(cut + 1); /* exact memory, so that ASan sees a read past the end */
        uint8_t *tight = realloc(copy, cut ? cut : 1);
        memcpy(tight, w.data, cut);
        tide_reader_init(&r, tight, cut);
        tide_read_skip(&r);
        assert_int_equal(r.error, TIDE_EPROTO);
        assert_int_equal(tide_scan(tight, cut), TIDE_EPROTO);
        free(tight);
    }
    assert_int_equal(tide_scan(w.data, w.size), 0);
    tide_writer_release(&w);
}

static void test_scan_bounds_depth(void **state) {
    (void)state;
    uint8_t bytes[40];
    memset(bytes, 0x91, sizeof bytes);
    bytes[TIDE_DEPTH_MAX] = 0xc0;
    assert_int_equal(tide_scan(bytes, TIDE_DEPTH_MAX + 1), 0);
    bytes[TIDE_DEPTH_MAX] = 0x90;
    assert_int_equal(tide_scan(bytes, TIDE_DEPTH_MAX + 1), TIDE_ELIMIT);
}

static void test_scan_bounds_items_and_strings(void **state) {
    (void)state;
    struct tide_writer w;
    char *text = calloc(1, TIDE_STRING_MAX + 1);
    tide_writer_init(&w, NULL, 0);
    tide_write_array(&w, TIDE_ITEMS_MAX - 1);
    memset(tide_write_reserve(&w, TIDE_ITEMS_MAX - 1), 0, TIDE_ITEMS_MAX - 1);
    assert_int_equal(tide_scan(w.data, w.size), 0);
    w.size = 0;
    tide_write_array(&w, TIDE_ITEMS_MAX);
    memset(tide_write_reserve(&w, TIDE_ITEMS_MAX), 0, TIDE_ITEMS_MAX);
    assert_int_equal(tide_scan(w.data, w.size), TIDE_ELIMIT);
    w.size = 0;
    tide_write_string(&w, text, TIDE_STRING_MAX);
    assert_int_equal(tide_scan(w.data, w.size), 0);
    w.size = 0;
    tide_write_string(&w, text, TIDE_STRING_MAX + 1);
    assert_int_equal(tide_scan(w.data, w.size), TIDE_ELIMIT);
    tide_writer_release(&w);
    free(text);
}

static void test_scan_refuses_a_key_twice(void **state) {
    (void)state;
    assert_int_equal(SCAN("\x82\xa1"
                          "a\x01\xa1"
                          "a\x02"),
                     TIDE_EPROTO);
    assert_non_null(strstr(tide_error_message(), "byte 4"));
    assert_int_equal(SCAN("\x82\xa1"
                          "a\xa1"
                          "b\xa1"
                          "b\xa1"
                          "a"),
                     0); /* values are no keys */
    assert_int_equal(SCAN("\x82\xa1"
                          "a\x81\xa1"
                          "a\x01\xa1"
                          "b\x02"),
                     0); /* another map */
    assert_int_equal(SCAN("\x82\xa1"
                          "a\x81\xa1"
                          "a\x01\xd9\x01"
                          "a\x02"),
                     TIDE_EPROTO); /* after a nested map, and in another encoding */
}

static void test_scan_wants_one_value(void **state) {
    (void)state;
    assert_int_equal(tide_scan(NULL, 0), TIDE_EPROTO);
    assert_int_equal(SCAN("\xc0\xc0"), TIDE_EPROTO);
    assert_int_equal(SCAN("\xc1"), TIDE_EPROTO);
    assert_int_equal(SCAN("\x90"), 0);
}

static size_t heap_in_use(void) {
    return mallinfo2().uordblks;
}

/* Once: six bytes announced 14 million pairs, and a decoder allocated for them. */
static void test_six_bytes_that_announce_gigabytes_cost_nothing(void **state) {
    (void)state;
    static const char bytes[] = "\xdd\x00\xdf\x00\x01\xc0";
    struct tide_view value;
    struct tide_frame frame;
    size_t before = heap_in_use();
    assert_int_equal(SCAN(bytes), TIDE_EPROTO);
    assert_int_equal(tide_view_open(bytes, 6, &value), TIDE_EPROTO);
    assert_int_equal(tide_frame_parse(bytes, 6, &frame), TIDE_EPROTO);
    assert_int_equal(heap_in_use(), before);
    tide_view_release(&value);
}

static void test_small_frames_cost_at_most_64_kib(void **state) {
    (void)state;
    struct tide_random random;
    uint8_t bytes[64];
    size_t most = 0, accepted = 0;
    tide_random_seed(&random, 1);
    for (int i = 0; i < 200000; i++) {
        struct tide_view value;
        size_t size = 1 + tide_random_below(&random, sizeof bytes);
        for (size_t k = 0; k < size; k++) {
            uint64_t word = tide_random_next(&random);
            bytes[k] = (uint8_t)(word >> 8 & 3 ? 0x90u | (word & 15) : word);
        }
        size_t before = heap_in_use();
        accepted += tide_view_open(bytes, size, &value) == 0;
        size_t cost = heap_in_use() - before;
        most = cost > most ? cost : most;
        tide_view_release(&value);
    }
    assert_true(accepted > 0);
    assert_true(most <= 64 << 10);
}

static void test_scan_agrees_with_msgpack_c(void **state) {
    (void)state;
    struct tide_random random;
    uint8_t bytes[24];
    tide_random_seed(&random, 2);
    for (int i = 0; i < 200000; i++) {
        struct tide_view value;
        size_t size = 1 + tide_random_below(&random, sizeof bytes);
        for (size_t k = 0; k < size; k++) {
            bytes[k] = (uint8_t)tide_random_next(&random);
        }
        int scanned = tide_scan(bytes, size);
        assert_int_equal(tide_view_open(bytes, size, &value), scanned);
        tide_view_release(&value);
    }
}

static void test_frame_round_trips(void **state) {
    (void)state;
    uint8_t bytes[TIDE_FRAME_HEAD + 3];
    struct tide_frame out, frame = {.kind = TIDE_FRAME_FRAGMENT,
                                    .lane = TIDE_LANE_BULK,
                                    .to = UINT64_C(0x0102030405060708),
                                    .from = UINT64_MAX,
                                    .call = 9};
    tide_frame_head(bytes, &frame, 3);
    memcpy(bytes + TIDE_FRAME_HEAD, "\xa2hi", 3);
    assert_int_equal(tide_scan(bytes + 4, sizeof bytes - 4), 0);
    assert_int_equal(tide_frame_length(bytes, sizeof bytes, TIDE_FRAME_MAX), sizeof bytes);
    assert_int_equal(tide_frame_parse(bytes + 4, sizeof bytes - 4, &out), 0);
    assert_int_equal(out.kind, frame.kind);
    assert_int_equal(out.lane, frame.lane);
    assert_true(out.to == frame.to && out.from == frame.from && out.call == frame.call);
    assert_ptr_equal(out.body, bytes + TIDE_FRAME_HEAD);
    assert_int_equal(out.body_size, 3);
}

static void test_frame_of_foreign_widths_is_read(void **state) {
    (void)state;
    struct tide_frame out;
    assert_int_equal(tide_frame_parse("\xdc\x00\x05\xcc\x31\x01\xcd\x01\x00\x03\xc0", 11, &out), 0);
    assert_int_equal(out.kind, TIDE_FRAME_CALL);
    assert_int_equal(out.lane, TIDE_LANE_CONTROL);
    assert_int_equal(out.to, 1);
    assert_int_equal(out.from, 256);
    assert_int_equal(out.call, 3);
    assert_int_equal(out.body_size, 1);
}

static void test_damaged_frames_are_refused(void **state) {
    (void)state;
    struct tide_frame out;
    assert_int_equal(tide_frame_parse("", 0, &out), TIDE_EPROTO);
    assert_int_equal(tide_frame_parse("\x95\x01\x01\x01\x01", 5, &out), TIDE_EPROTO);
    assert_int_equal(tide_frame_parse("\x94\x01\x01\x01\xc0", 5, &out), TIDE_EPROTO);
    assert_int_equal(tide_frame_parse("\x95\x01\xff\x01\x01\xc0", 6, &out), TIDE_EPROTO);
    assert_int_equal(tide_frame_parse("\x95\x0f\x01\x01\x01\xc0", 6, &out), TIDE_EPROTO); /* kind */
    assert_int_equal(tide_frame_parse("\x95\x50\x01\x01\x01\xc0", 6, &out), TIDE_EPROTO); /* lane */
    assert_int_equal(tide_frame_parse("\x95\x41\x01\x01\x01\xc0", 6, &out), 0);
}

static void test_announced_length_is_bounded(void **state) {
    (void)state;
    assert_int_equal(tide_frame_length("\x00\x04\x00", 3, TIDE_FRAME_HELLO_MAX), 0);
    assert_int_equal(tide_frame_length("\x00\x04\x00\x00", 4, TIDE_FRAME_HELLO_MAX), 1028);
    assert_int_equal(tide_frame_length("\x01\x04\x00\x00", 4, TIDE_FRAME_HELLO_MAX), TIDE_ELIMIT);
    assert_int_equal(tide_frame_length("\xff\xff\xff\xff", 4, TIDE_FRAME_MAX), TIDE_ELIMIT);
    assert_int_equal(tide_frame_length("\x05\x00\x00\x00", 4, TIDE_FRAME_MAX), TIDE_EPROTO);
}

static void check_json(const char *in, const char *expected) {
    struct tide_writer w;
    char *text;
    size_t size;
    tide_writer_init(&w, NULL, 0);
    assert_int_equal(tide_json_to_msgpack(in, strlen(in), &w), 0);
    assert_int_equal(tide_scan(w.data, w.size), 0);
    assert_int_equal(tide_json_from_msgpack(w.data, w.size, &text, &size), 0);
    assert_string_equal(text, expected);
    assert_int_equal(size, strlen(expected));
    tide_free(text);
    tide_writer_release(&w);
}

static void test_json_round_trips_with_sorted_keys(void **state) {
    (void)state;
    check_json(" { \"b\" : [1, -2, 2.5, true, false, null, \"x\\\"[\"], \"a\": {\"c\": {}} } ",
               "{\"a\":{\"c\":{}},\"b\":[1,-2,2.5,true,false,null,\"x\\\"[\"]}");
    check_json("9223372036854775807", "9223372036854775807");
    check_json("[]", "[]");
    check_json("\"\"", "\"\"");
    check_json("[[],[{}],[[1],2],3]", "[[],[{}],[[1],2],3]");
}

static int json_code(const char *in) {
    struct tide_writer w;
    tide_writer_init(&w, NULL, 0);
    int rc = tide_json_to_msgpack(in, strlen(in), &w);
    tide_writer_release(&w);
    return rc;
}

static void test_bad_json_is_refused(void **state) {
    (void)state;
    static const char *const bad[] = {"",
                                      "{",
                                      "[1,]",
                                      "{\"a\":1,\"a\":2}",
                                      "[1] 2",
                                      "[NaN]",
                                      "\"\\u0000\"",
                                      "\"\xff\"",
                                      "]",
                                      "[1e999999]",
                                      "9223372036854775808",
                                      "{\"a\\u0000\":1}"};
    for (size_t i = 0; i < TIDE_COUNT(bad); i++) {
        assert_int_equal(json_code(bad[i]), TIDE_EPROTO);
    }
    assert_int_equal(json_code("[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]"), 0);
    assert_int_equal(json_code("[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]"), TIDE_ELIMIT);
    assert_int_equal(json_code("[\"[[[[[[[[[[[[[[[[[[[[[[[[[[[\"]"), 0);
}

static void test_large_json_is_refused_before_parsing(void **state) {
    (void)state;
    size_t size = TIDE_JSON_MAX + 1;
    char *text = malloc(size);
    struct tide_writer w;
    memset(text, ' ', size);
    tide_writer_init(&w, NULL, 0);
    assert_int_equal(tide_json_to_msgpack(text, size, &w), TIDE_ELIMIT);
    memset(text, ',', size); /* values: one a byte */
    assert_int_equal(tide_json_to_msgpack(text, size - 1, &w), TIDE_ELIMIT);
    tide_writer_release(&w);
    free(text);
}

static void test_what_json_cannot_say(void **state) {
    (void)state;
    struct tide_writer w;
    char *text;
    tide_writer_init(&w, NULL, 0);
    tide_write_map(&w, 5);
    tide_write_int(&w, -3);
    tide_write_double(&w, NAN);
    tide_write_text(&w, "f");
    tide_write_typed(&w, TIDE_F32, (float[]){0.5f, -INFINITY}, 2);
    tide_write_text(&w, "h");
    tide_write_typed(&w, TIDE_F16, (uint16_t[]){0x3c00, 0xc000, 0x0001, 0x7c00}, 4);
    tide_write_text(&w, "l");
    tide_write_typed(&w, TIDE_U64, (uint64_t[]){7}, 1);
    tide_write_text(&w, "u");
    tide_write_uint(&w, UINT64_C(1) << 63);
    assert_int_equal(tide_json_from_msgpack(w.data, w.size, &text, NULL), 0);
    assert_string_equal(text, "{\"-3\":null,\"f\":[0.5,null],\"h\":[1.0,-2.0,"
                              "5.9604644775390625e-8,null],\"l\":[7],\"u\":9.2233720368547758e18}");
    tide_free(text);
    w.size = 0;
    tide_write_binary(&w, "x", 1);
    assert_int_equal(tide_json_from_msgpack(w.data, w.size, &text, NULL), TIDE_EUNSUPPORTED);
    assert_null(text);
    tide_writer_release(&w);
}

static void test_damaged_msgpack_gives_no_json(void **state) {
    (void)state;
    static const struct {
        const char *bytes;
        size_t size;
        int code;
    } bad[] = {{"", 0, TIDE_EPROTO},
               {"\xc1", 1, TIDE_EPROTO},
               {"\xc0\xc0", 2, TIDE_EPROTO},
               {"\x92\x01", 2, TIDE_EPROTO},
               {"\xa1\xff", 2, TIDE_EPROTO},
               {"\x82\xa1k\x01\xa1k\x02", 7, TIDE_EPROTO},
               {"\x82\x01\x01\xa1"
                "1\x02",
                6, TIDE_EPROTO},
               {"\x81\xc0\x01", 3, TIDE_EUNSUPPORTED},
               {"\x81\xa1\xff\x01", 4, TIDE_EPROTO},
               {"\xd6\x20\0\0\0\0", 6, TIDE_EUNSUPPORTED},
               {"\xd4\x01\0", 3, TIDE_EPROTO},
               {"\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x01", 18,
                TIDE_ELIMIT},
               {"\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x90", 17,
                TIDE_ELIMIT},
               {"\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\xd4\x08\x07", 19,
                TIDE_ELIMIT}};
    for (size_t i = 0; i < TIDE_COUNT(bad); i++) {
        char *text;
        assert_int_equal(tide_json_from_msgpack(bad[i].bytes, bad[i].size, &text, NULL),
                         bad[i].code);
        assert_null(text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_integers_round_trip_in_their_shortest_form),
        cmocka_unit_test(test_large_unsigned_is_no_signed_integer),
        cmocka_unit_test(test_scalars_have_the_bytes_of_the_format),
        cmocka_unit_test(test_lengths_use_the_shortest_head),
        cmocka_unit_test(test_writer_moves_from_the_stack_to_the_heap),
        cmocka_unit_test(test_impossible_lengths_fail_and_stick),
        cmocka_unit_test(test_typed_arrays_round_trip_and_head_equals_whole),
        cmocka_unit_test(test_typed_array_of_broken_length_is_refused),
        cmocka_unit_test(test_reader_failure_sticks),
        cmocka_unit_test(test_reader_takes_foreign_widths),
        cmocka_unit_test(test_text_is_bounded_and_without_zero),
        cmocka_unit_test(test_field_is_found_by_key_and_the_cursor_stays),
        cmocka_unit_test(test_no_prefix_of_a_value_is_read),
        cmocka_unit_test(test_scan_bounds_depth),
        cmocka_unit_test(test_scan_bounds_items_and_strings),
        cmocka_unit_test(test_scan_refuses_a_key_twice),
        cmocka_unit_test(test_scan_wants_one_value),
        cmocka_unit_test(test_six_bytes_that_announce_gigabytes_cost_nothing),
        cmocka_unit_test(test_small_frames_cost_at_most_64_kib),
        cmocka_unit_test(test_scan_agrees_with_msgpack_c),
        cmocka_unit_test(test_frame_round_trips),
        cmocka_unit_test(test_frame_of_foreign_widths_is_read),
        cmocka_unit_test(test_damaged_frames_are_refused),
        cmocka_unit_test(test_announced_length_is_bounded),
        cmocka_unit_test(test_json_round_trips_with_sorted_keys),
        cmocka_unit_test(test_bad_json_is_refused),
        cmocka_unit_test(test_large_json_is_refused_before_parsing),
        cmocka_unit_test(test_what_json_cannot_say),
        cmocka_unit_test(test_damaged_msgpack_gives_no_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
