/* safetensors headers: what is written is read back, and every damage is named. */
#include "wire/safetensors.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int parse(const char *json, uint64_t data_size, struct tide_safetensors *out) {
    size_t size = strlen(json);
    return tide_safetensors_parse(json, size, TIDE_SAFETENSORS_PREFIX + size + data_size, out);
}

static void test_header_is_read(void **state) {
    (void)state;
    struct tide_safetensors s;
    assert_int_equal(parse("{\"b\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[8,32]},"
                           "\"__metadata__\":{\"tide.table\":\"w\",\"x\":\"\"},"
                           "\"a\":{\"dtype\":\"U64\",\"shape\":[],\"data_offsets\":[0,8]},"
                           "\"empty\":{\"shape\":[0,9],\"dtype\":\"BOOL\",\"data_offsets\":[8,8],"
                           "\"unknown\":[[]]}}   ",
                           24 + 8, &s),
                     0);
    assert_int_equal(s.count, 3);
    assert_string_equal(s.tensors[0].name, "a");
    assert_int_equal(s.tensors[0].rank, 0);
    assert_string_equal(s.tensors[1].name, "empty");
    assert_int_equal(s.tensors[1].dtype, TIDE_DTYPE_BOOL);
    assert_string_equal(s.tensors[2].name, "b");
    assert_int_equal(s.tensors[2].rank, 2);
    assert_int_equal(s.tensors[2].shape[1], 3);
    assert_int_equal(s.tensors[2].end, 32);
    assert_ptr_equal(tide_safetensors_find(&s, "b"), &s.tensors[2]);
    assert_null(tide_safetensors_find(&s, "__metadata__"));
    assert_int_equal(s.metadata_count, 2);
    assert_string_equal(tide_safetensors_metadata(&s, "tide.table"), "w");
    assert_string_equal(tide_safetensors_metadata(&s, "x"), "");
    assert_null(tide_safetensors_metadata(&s, "y"));
    tide_safetensors_release(&s);
    assert_int_equal(parse("{}", 0, &s), 0);
    assert_int_equal(s.count, 0);
    tide_safetensors_release(&s);
}

#define ENTRY(dtype, shape, offsets)                                                               \
    "{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"
#define GOOD "\"w\":" ENTRY("F32", "[2]", "[0,8]")

static const struct {
    const char *json;
    uint64_t data_size;
    const char *message;
    int code;
} damaged[] = {
    {"{" GOOD "}", 8, NULL, 0},
    {" {}", 0, "does not begin with '{'", TIDE_EPROTO},
    {"{" GOOD, 8, "JSON line 1", TIDE_EPROTO},
    {"{" GOOD "," GOOD "}", 8, "JSON line 1", TIDE_EPROTO},
    {"{" GOOD "}", 7, "'w': bytes 0 to 8 of a buffer of 7", TIDE_EPROTO},
    {"{" GOOD "}", 9, "8 bytes of tensors in a buffer of 9", TIDE_EPROTO},
    {"{}", 1, "0 bytes of tensors in a buffer of 1", TIDE_EPROTO},
    {"{\"w\":1}", 0, "'w': its entry is not an object", TIDE_EPROTO},
    {"{\"w\":{}}", 0, "'w': no dtype", TIDE_EPROTO},
    {"{\"w\":" ENTRY("F33", "[2]", "[0,8]") "}", 8, "'w': unknown dtype 'F33'", TIDE_EPROTO},
    {"{\"w\":{\"dtype\":\"F32\"}}", 0, "'w': no shape", TIDE_EPROTO},
    {"{\"w\":{\"dtype\":\"F32\",\"shape\":[2]}}", 0, "'w': no data_offsets", TIDE_EPROTO},
    {"{\"w\":" ENTRY("F32", "[2.0]", "[0,8]") "}", 8, "a dimension is no count", TIDE_EPROTO},
    {"{\"w\":" ENTRY("F32", "[-2]", "[0,8]") "}", 8, "a dimension is no count", TIDE_EPROTO},
    {"{\"w\":" ENTRY("F32", "[1,1,1,1,1,1,1,1,2]", "[0,8]") "}", 8, "9 dimensions", TIDE_ELIMIT},
    {"{\"w\":" ENTRY("F32", "[2]", "[0,8,8]") "}", 8, "no data_offsets", TIDE_EPROTO},
    {"{\"w\":" ENTRY("F32", "[2]", "[0,\"8\"]") "}", 8, "an offset is no count", TIDE_EPROTO},
    {"{\"w\":" ENTRY("F32", "[2]", "[8,0]") "}", 8, "bytes 8 to 0", TIDE_EPROTO},
    {"{\"w\":" ENTRY("F32", "[3]", "[0,8]") "}", 8, "needs 12 bytes, its offsets span 8",
     TIDE_EPROTO},
    {"{\"w\":" ENTRY("F32", "[4611686018427387904,4]", "[0,0]") "}", 0, "overflows 64 bits",
     TIDE_EPROTO},
    {"{" GOOD ",\"v\":" ENTRY("F32", "[2]", "[4,12]") "}", 12, "'v' begins at 4, which overlaps",
     TIDE_EPROTO},
    {"{" GOOD ",\"v\":" ENTRY("F32", "[2]", "[12,20]") "}", 20,
     "'v' begins at 12, which leaves a hole", TIDE_EPROTO},
    {"{" GOOD ",\"v\":" ENTRY("F32", "[2]", "[0,8]") "}", 8, "overlaps", TIDE_EPROTO},
    {"{\"__metadata__\":1}", 0, "__metadata__ is not an object", TIDE_EPROTO},
    {"{\"__metadata__\":{\"k\":1}}", 0, "metadata 'k' is not a string", TIDE_EPROTO},
};

static void test_damaged_headers_are_refused_by_name(void **state) {
    (void)state;
    for (size_t i = 0; i < TIDE_COUNT(damaged); i++) {
        struct tide_safetensors s;
        assert_int_equal(parse(damaged[i].json, damaged[i].data_size, &s), damaged[i].code);
        if (damaged[i].message && !strstr(tide_error_message(), damaged[i].message)) {
            fail_msg("'%s' lacks '%s'", tide_error_message(), damaged[i].message);
        }
        assert_true(damaged[i].code == 0 || s.tensors == NULL);
        tide_safetensors_release(&s);
    }
}

static void test_prefix_is_checked_against_the_file(void **state) {
    (void)state;
    size_t size;
    const uint8_t small[8] = {2}, large[8] = {1, 0, 0, 1},
                  huge[8] = {255, 255, 255, 255, 255, 255, 255, 255};
    const uint8_t most[8] = {0, 0, 0, 1};
    assert_int_equal(tide_safetensors_header_size(small, 10, &size), 0);
    assert_int_equal(size, 2);
    assert_int_equal(tide_safetensors_header_size(small, 9, &size), TIDE_EPROTO);
    assert_int_equal(tide_safetensors_header_size(small, 7, &size), TIDE_EPROTO);
    assert_int_equal(tide_safetensors_header_size(large, UINT64_MAX, &size), TIDE_ELIMIT);
    assert_int_equal(tide_safetensors_header_size(huge, UINT64_MAX, &size), TIDE_ELIMIT);
    assert_int_equal(tide_safetensors_header_size(most, UINT64_MAX, &size), 0);
    assert_int_equal(size, TIDE_SAFETENSORS_HEADER_MAX);
}

static void table_dump(struct tide_safetensor tensors[3]) {
    tensors[0] = (struct tide_safetensor){
        .name = "values", .dtype = TIDE_DTYPE_F32, .rank = 2, .shape = {5, 3}};
    tensors[1] =
        (struct tide_safetensor){.name = "keys", .dtype = TIDE_DTYPE_U64, .rank = 1, .shape = {5}};
    tensors[2] = (struct tide_safetensor){
        .name = "état", .dtype = TIDE_DTYPE_U8, .rank = 2, .shape = {0, 7}};
}

static void test_what_is_written_is_read(void **state) {
    (void)state;
    static const struct tide_safetensors_pair metadata[] = {{"tide.table", "w\"\n"},
                                                            {"tide.rule", "sgd"}};
    struct tide_safetensor tensors[3];
    struct tide_safetensors s;
    struct tide_writer w;
    uint64_t data_size;
    size_t size;
    table_dump(tensors);
    tide_writer_init(&w, NULL, 0);
    assert_int_equal(tide_safetensors_header(tensors, 3, metadata, 2, &w, &data_size), 0);
    assert_int_equal(data_size, 5 * 8 + 15 * 4);
    assert_int_equal(tensors[1].begin, 0); /* widest elements first */
    assert_int_equal(tensors[0].begin, 40);
    assert_int_equal(tensors[2].begin, 100);
    assert_int_equal(w.size % 8, 0);
    assert_int_equal(tide_safetensors_header_size(w.data, w.size + data_size, &size), 0);
    assert_int_equal(size + 8, w.size);
    assert_int_equal(tide_safetensors_parse(w.data + 8, size, w.size + data_size, &s), 0);
    assert_int_equal(s.data, w.size);
    assert_int_equal(s.count, 3);
    for (size_t i = 0; i < 3; i++) {
        const struct tide_safetensor *t = tide_safetensors_find(&s, tensors[i].name);
        assert_non_null(t);
        assert_int_equal(t->begin, tensors[i].begin);
        assert_int_equal(t->end, tensors[i].end);
        assert_int_equal(t->dtype, tensors[i].dtype);
        assert_int_equal(t->rank, tensors[i].rank);
        assert_memory_equal(t->shape, tensors[i].shape, sizeof t->shape);
    }
    assert_string_equal(tide_safetensors_metadata(&s, "tide.table"), "w\"\n");
    tide_safetensors_release(&s);
    tide_writer_release(&w);
}

static void test_equal_input_gives_equal_bytes(void **state) {
    (void)state;
    struct tide_safetensor tensors[3], swapped[3];
    struct tide_writer a, b;
    table_dump(tensors);
    swapped[0] = tensors[2];
    swapped[1] = tensors[0];
    swapped[2] = tensors[1];
    tide_writer_init(&a, NULL, 0);
    tide_writer_init(&b, NULL, 0);
    assert_int_equal(tide_safetensors_header(tensors, 3, NULL, 0, &a, NULL), 0);
    assert_int_equal(tide_safetensors_header(swapped, 3, NULL, 0, &b, NULL), 0);
    assert_int_equal(a.size, b.size);
    assert_memory_equal(a.data, b.data, a.size);
    tide_writer_release(&a);
    tide_writer_release(&b);
}

static void test_writer_refuses_what_it_cannot_say(void **state) {
    (void)state;
    struct tide_safetensor twice[2] = {{.name = "a"}, {.name = "a"}}, nameless = {.name = NULL},
                           reserved = {.name = "__metadata__"}, latin = {.name = "\xe9"},
                           large = {.name = "l",
                                    .dtype = TIDE_DTYPE_F64,
                                    .rank = 2,
                                    .shape = {UINT64_C(1) << 32, UINT64_C(1) << 32}};
    const struct tide_safetensors_pair half = {"k", NULL};
    struct tide_writer w;
    tide_writer_init(&w, NULL, 0);
    assert_int_equal(tide_safetensors_header(twice, 2, NULL, 0, &w, NULL), TIDE_EINVAL);
    assert_int_equal(tide_safetensors_header(&nameless, 1, NULL, 0, &w, NULL), TIDE_EINVAL);
    assert_int_equal(tide_safetensors_header(&reserved, 1, NULL, 0, &w, NULL), TIDE_EINVAL);
    assert_int_equal(tide_safetensors_header(&latin, 1, NULL, 0, &w, NULL), TIDE_EINVAL);
    assert_int_equal(tide_safetensors_header(&large, 1, NULL, 0, &w, NULL), TIDE_EINVAL);
    assert_int_equal(tide_safetensors_header(NULL, 0, &half, 1, &w, NULL), TIDE_EINVAL);
    assert_int_equal(w.size, 0);
    tide_writer_release(&w);
}

/* Every cut of the header is refused, never read past. */
static void test_cut_headers_are_refused(void **state) {
    (void)state;
    struct tide_safetensor tensors[3];
    struct tide_writer w;
    uint64_t data_size;
    table_dump(tensors);
    tide_writer_init(&w, NULL, 0);
    assert_int_equal(tide_safetensors_header(tensors, 3, NULL, 0, &w, &data_size), 0);
    while (w.data[w.size - 1] == ' ') {
        w.size--;
    }
    for (size_t cut = 0; cut < w.size - 8; cut++) {
        struct tide_safetensors s;
        char *tight = malloc(cut ? cut : 1);
        memcpy(tight, w.data + 8, cut);
        assert_int_equal(tide_safetensors_parse(tight, cut, 8 + cut + data_size, &s), TIDE_EPROTO);
        free(tight);
    }
    tide_writer_release(&w);
}

#define PYTHON "/usr/bin/python3" /* the one that the packages of the system belong to */

/* numpy reads by the published layout what this writer wrote; skipped where there is none. */
static void test_numpy_reads_the_values(void **state) {
    (void)state;
    char path[] = "/tmp/tide-safetensors-XXXXXX", command[900];
    struct tide_safetensor tensors[3];
    struct tide_writer w;
    uint64_t data_size;
    if (system(PYTHON " -c 'import numpy' >/dev/null 2>&1") != 0) {
        skip();
    }
    assert_non_null(mkdtemp(path));
    table_dump(tensors);
    tide_writer_init(&w, NULL, 0);
    assert_int_equal(tide_safetensors_header(tensors, 3, NULL, 0, &w, &data_size), 0);
    for (uint64_t i = 0; i < 5; i++) {
        memcpy(tide_write_reserve(&w, 8), &i, 8);
    }
    for (int i = 0; i < 15; i++) {
        memcpy(tide_write_reserve(&w, 4), &(float){(float)i / 2}, 4);
    }
    char name[64];
    snprintf(name, sizeof name, "%s/t", path);
    FILE *file = fopen(name, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(w.data, 1, w.size, file), w.size);
    fclose(file);
    snprintf(command, sizeof command,
             PYTHON " -c \"\n"
                    "import json, numpy as np\n"
                    "b = open('%s','rb').read(); n = int.from_bytes(b[:8],'little')\n"
                    "h = json.loads(b[8:8+n]); d = b[8+n:]\n"
                    "def get(k, t):\n"
                    "  lo, hi = h[k]['data_offsets']\n"
                    "  return np.frombuffer(d[lo:hi], t).reshape(h[k]['shape'])\n"
                    "assert (8+n) %% 8 == 0\n"
                    "assert (get('keys','<u8') == np.arange(5)).all()\n"
                    "assert (get('values','<f4') == (np.arange(15)/2).reshape(5,3)).all()\n"
                    "assert get('\u00e9tat','u1').shape == (0,7)\n"
                    "\"",
             name);
    assert_int_equal(system(command), 0);
    unlink(name);
    rmdir(path);
    tide_writer_release(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_header_is_read),
        cmocka_unit_test(test_damaged_headers_are_refused_by_name),
        cmocka_unit_test(test_prefix_is_checked_against_the_file),
        cmocka_unit_test(test_what_is_written_is_read),
        cmocka_unit_test(test_equal_input_gives_equal_bytes),
        cmocka_unit_test(test_writer_refuses_what_it_cannot_say),
        cmocka_unit_test(test_cut_headers_are_refused),
        cmocka_unit_test(test_numpy_reads_the_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
