/* The generated inputs, byte for byte: their sums, and the facts stated of them. */
#include "base/base.h"
#include "readers/generate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct text {
    char *data;
    size_t size, capacity;
    size_t fail_at; /* a write beyond so many bytes fails; 0: never */
};

static int text_write(void *arg, const char *data, size_t size) {
    struct text *t = arg;
    if (t->fail_at && t->size + size > t->fail_at) {
        return TIDE_ENOSPC;
    }
    while (t->size + size + 1 > t->capacity) {
        t->capacity = t->capacity ? 2 * t->capacity : 1 << 16;
        t->data = realloc(t->data, t->capacity);
        assert_non_null(t->data);
    }
    memcpy(t->data + t->size, data, size);
    t->size += size;
    t->data[t->size] = 0;
    return 0;
}

static struct tide_sink sink_of(struct text *t) {
    memset(t, 0, sizeof(*t));
    return (struct tide_sink){t, text_write};
}

static size_t lines_of(const struct text *t) {
    size_t lines = 0;
    for (size_t i = 0; i < t->size; i++) {
        lines += t->data[i] == '\n';
    }
    return lines;
}

/* Compares the beginning of the sum and frees the text. */
static void expect(struct text *t, size_t lines, const char *begins, const char *sum) {
    char hex[65];
    tide_sha256_hex(t->data, t->size, hex);
    hex[16] = 0;
    assert_memory_equal(t->data, begins, strlen(begins));
    assert_int_equal(lines_of(t), lines);
    assert_string_equal(hex, sum);
    free(t->data);
}

static void graph_kge_is_the_same_bytes_everywhere(void **state) {
    (void)state;
    const struct tide_graph_input input = {10000, 50, 20000, 1000, 1000, 2};
    struct text train, valid, test;
    assert_int_equal(tide_generate_graph(&input, sink_of(&train), sink_of(&valid), sink_of(&test)),
                     0);
    expect(&train, 20000, "2779\t15\t2834\n", "611434722716c369");
    expect(&valid, 1000, "", "a2bc1b0a08a6d329");
    expect(&test, 1000, "", "a056305da4ba9c4a");
}

static void graph_kge_small_is_the_same_bytes_everywhere(void **state) {
    (void)state;
    const struct tide_graph_input input = {2000, 20, 4000, 200, 200, 2};
    struct text train, valid, test;
    assert_int_equal(tide_generate_graph(&input, sink_of(&train), sink_of(&valid), sink_of(&test)),
                     0);
    expect(&train, 4000, "572\t7\t599\n", "994ec7fad06f9707");
    expect(&valid, 200, "", "ecb420cffe1dd4bc");
    expect(&test, 200, "", "f0228208f3cea391");
}

#define MATRIX_HEAD "%%MatrixMarket matrix coordinate real general\n% generated\n"

static void matrix_mf100k_is_the_same_bytes_everywhere(void **state) {
    (void)state;
    const struct tide_matrix_input input = {10000, 10000, 100000, 10000, 100, 1};
    struct text train, test;
    assert_int_equal(tide_generate_matrix(&input, sink_of(&train), sink_of(&test)), 0);
    expect(&train, 100003,
           MATRIX_HEAD "10000 10000 100000\n3837 695 -0.0317941\n2688 1206 -0.218131\n",
           "26485fb997f9a010");
    expect(&test, 10003, MATRIX_HEAD "10000 10000 10000\n", "dc5ed6e1fa9a1aed");
}

static void matrix_mf1m_is_the_same_bytes_everywhere(void **state) {
    (void)state;
    const struct tide_matrix_input input = {10000, 10000, 1000000, 100000, 100, 1};
    struct text train, test;
    assert_int_equal(tide_generate_matrix(&input, sink_of(&train), sink_of(&test)), 0);
    expect(&train, 1000003, MATRIX_HEAD, "06d2b8e975c8692b");
    expect(&test, 100003, MATRIX_HEAD, "f66a9ecbacc0dc32");
}

static void text_is_the_same_bytes_everywhere(void **state) {
    (void)state;
    const struct tide_text_input input = {10000, 100000, 20, 3};
    struct text text;
    assert_int_equal(tide_generate_text(&input, sink_of(&text)), 0);
    expect(&text, 5501, "w0 w1 w2 ", "349f83cd882c26f7");
}

static void sparse_examples_are_the_same_bytes_everywhere(void **state) {
    (void)state;
    const struct tide_sparse_input classes = {500, 50, 1000, 12, 5, 1},
                                   lasso = {500, 0, 200, 20, 0, 1};
    struct text train, test;
    assert_int_equal(tide_generate_sparse(&classes, sink_of(&train), sink_of(&test)), 0);
    expect(&train, 500, "2 21:0.262918 83:0.331242 89:-0.171193 1", "bd0f3284da8cb867");
    expect(&test, 50, "", "d1c9371bea1d2d63");
    assert_int_equal(tide_generate_sparse(&lasso, sink_of(&train), sink_of(&test)), 0);
    expect(&train, 500, "-0.00808573 23:0.0670372 ", "734badb26eb73bfe");
    assert_int_equal(test.size, 0);
}

static void another_seed_gives_other_bytes(void **state) {
    (void)state;
    struct text train[2], rest;
    for (int i = 0; i < 2; i++) {
        const struct tide_graph_input input = {100, 5, 50, 0, 0, (uint64_t)i};
        assert_int_equal(
            tide_generate_graph(&input, sink_of(&train[i]), sink_of(&rest), sink_of(&rest)), 0);
        assert_int_equal(rest.size, 0);
    }
    assert_string_not_equal(train[0].data, train[1].data);
    free(train[0].data);
    free(train[1].data);
}

static void impossible_sizes_are_refused(void **state) {
    (void)state;
    struct text out;
    struct tide_sink sink = sink_of(&out);
    const struct tide_graph_input few = {19, 5, 50, 0, 0, 1}, none = {100, 0, 50, 0, 0, 1};
    assert_int_equal(tide_generate_graph(&few, sink, sink, sink), TIDE_EINVAL);
    assert_int_equal(tide_generate_graph(&none, sink, sink, sink), TIDE_EINVAL);
    const struct tide_matrix_input full = {10, 10, 80, 20, 3, 1}, flat = {10, 10, 8, 2, 0, 1};
    assert_int_equal(tide_generate_matrix(&full, sink, sink), TIDE_EINVAL);
    assert_int_equal(tide_generate_matrix(&flat, sink, sink), TIDE_EINVAL);
    const struct tide_sparse_input one = {10, 0, 10, 5, 1, 1}, wide = {10, 0, 10, 11, 2, 1};
    assert_int_equal(tide_generate_sparse(&one, sink, sink), TIDE_EINVAL);
    assert_int_equal(tide_generate_sparse(&wide, sink, sink), TIDE_EINVAL);
    const struct tide_text_input empty = {0, 10, 5, 1}, endless = {10, 10, 0, 1};
    assert_int_equal(tide_generate_text(&empty, sink), TIDE_EINVAL);
    assert_int_equal(tide_generate_text(&endless, sink), TIDE_EINVAL);
    assert_int_equal(out.size, 0);
}

static void a_full_sink_ends_the_generation_with_its_reason(void **state) {
    (void)state;
    const struct tide_graph_input input = {10000, 50, 200000, 10, 10, 2};
    struct text train, rest;
    struct tide_sink sink = sink_of(&train);
    train.fail_at = 100000;
    assert_int_equal(tide_generate_graph(&input, sink, sink_of(&rest), sink_of(&rest)),
                     TIDE_ENOSPC);
    assert_true(train.size > 0 && train.size <= 100000);
    free(train.data);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(graph_kge_is_the_same_bytes_everywhere),
        cmocka_unit_test(graph_kge_small_is_the_same_bytes_everywhere),
        cmocka_unit_test(matrix_mf100k_is_the_same_bytes_everywhere),
        cmocka_unit_test(matrix_mf1m_is_the_same_bytes_everywhere),
        cmocka_unit_test(text_is_the_same_bytes_everywhere),
        cmocka_unit_test(sparse_examples_are_the_same_bytes_everywhere),
        cmocka_unit_test(another_seed_gives_other_bytes),
        cmocka_unit_test(impossible_sizes_are_refused),
        cmocka_unit_test(a_full_sink_ends_the_generation_with_its_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
