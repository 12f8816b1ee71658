/*
 * Forests: what readers accept and how they refuse, generators, and the plan of a batch against a naive
 * grouping.
 */
#include "base/base.h"
#include "graph/levels.h"
#include "names.h"
#include "readers/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct tide_forest *read(const char *format, const char *text, int code,
                                const char *message) {
    struct tide_dictionary words = {0};
    struct tide_forest_format f = {.name = format, .words = &words, .grow = true};
    struct tide_text source = {"file.txt", text, strlen(text)};
    struct tide_forest *forest = NULL;
    int got = tide_forest_read(&f, &source, 1, &forest);
    if (got != code || (code != 0 && !strstr(tide_error_message(), message))) {
        fail_msg("%s: %d, not %d: %s, not %s", text, got, code,
                 got ? tide_error_message() : "read", message);
    }
    tide_dictionary_release(&words);
    return forest;
}

static void refuse(const char *format, const char *text, const char *message) {
    read(format, text, TIDE_EPROTO, message);
}

static void trees_are_read_leaves_first(void **state) {
    (void)state;
    struct tide_forest *f = read("sexpr", "(3 (2 a) (4 (1 b) (0 a)))\n\n(2 c)\n", 0, "");
    assert_int_equal(f->samples, 2);
    assert_int_equal(f->vertices, 6);
    static const int32_t words[] = {0, 1, 0, -1, -1, 2}, labels[] = {2, 1, 0, 4, 3, 2};
    static const uint32_t start[] = {0, 0, 0, 0, 2, 4, 4}, height[] = {0, 0, 0, 1, 2, 0};
    static const int32_t child[] = {1, 2, 0, 3};
    assert_memory_equal(f->inputs[0].data, words, sizeof(words));
    assert_memory_equal(f->inputs[1].data, labels, sizeof(labels));
    assert_memory_equal(f->child_start, start, sizeof(start));
    assert_memory_equal(f->child, child, sizeof(child));
    assert_memory_equal(f->height, height, sizeof(height));
    assert_int_equal(f->inputs[0].below, 4); /* and one for words that are not known */
    assert_int_equal(f->inputs[1].below, 5);
    tide_forest_destroy(f);
}

static void graphs_are_sorted(void **state) {
    (void)state;
    struct tide_forest *f = read("parents", "2 9\n3\n-1 0 1\n-1 4 5\n2 1 -1\n1\n-1\n8\n0\n", 0, "");
    static const int32_t words[] = {5, 4, -1, 8}, labels[] = {-1, 1, 2, 0}, child[] = {0, 1};
    assert_memory_equal(f->inputs[0].data, words, sizeof(words));
    assert_memory_equal(f->inputs[1].data, labels, sizeof(labels));
    assert_memory_equal(f->child, child, sizeof(child));
    struct tide_forest *roots = NULL;
    assert_int_equal(tide_forest_roots(f, "label", &roots), 0);
    static const int32_t at_roots[] = {-1, -1, 2, 0};
    assert_memory_equal(roots->inputs[1].data, at_roots, sizeof(at_roots));
    tide_forest_destroy(roots);
    tide_forest_destroy(f);
    f = read("lists", "1 5\n4\n0 1 0 1 0 2 1 2\n0 1 2 3\n0 0 0 1\n", 0, "");
    assert_int_equal(f->edges, 4);
    tide_forest_destroy(f);
    f = read("sentences", "2 7\n3 4 5 0\n1 6\n", 0, "");
    static const int32_t before[] = {0, 4, 5, 0}, after[] = {4, 5, 0, 6};
    assert_memory_equal(f->inputs[0].data, before, sizeof(before));
    assert_memory_equal(f->inputs[1].data, after, sizeof(after));
    tide_forest_destroy(f);
}

static void mistakes_name_line_and_column(void **state) {
    (void)state;
    refuse("sexpr", "(2 a)\n(2 (1 b)", "file.txt: line 2: column 9: expected \")\"");
    refuse("sexpr", "(x a)\n", "line 1: column 2: expected a label and a blank behind \"(\"");
    refuse("sexpr", "(7 a)\n", "expected a label");
    refuse("sexpr", "(2 a b)\n", "line 1: column 6: expected \")\", found 'b)'");
    refuse("sexpr", "(2 )\n", "expected a word or a tree");
    refuse("sexpr", "(2 a) b\n", "expected the line's end, found 'b'");
    refuse("sexpr", "", "expected a sample, found the file's end");
    refuse("parents", "1 9\n3\n1 2 0\n1 1 1\n1 1 1\n", "sample 1: vertex 0 lies on a cycle");
    refuse("parents", "1 9\n2\n-1 5\n1 1\n1 1\n", "line 3: column 4: expected a parent's number");
    refuse("parents", "1 9\n2\n-1 0\n1 9\n1 1\n", "line 4: column 3: expected a word's number");
    refuse("parents", "1 9\n2\n-1 0 0\n1 1\n1 1\n", "expected the line's end, found '0'");
    refuse("parents", "1 9\n2\n-1\n1 1\n1 1\n", "found the line's end");
    refuse("parents", "2 9\n1\n-1\n1\n1\n", "expected the number of a sample's vertices, found the");
    refuse("parents", "1 9\n1\n-1\n1\n1\n7\n", "line 6: column 1: expected the file's end");
    refuse("parents", "1 9\n2000000000\n", "which the rest of the file could hold");
    refuse("lists", "1 5\n2\n1 1 1 0\n0 0\n0 0\n", "lies on a cycle");
    refuse("sentences", "1 7\n2 4\n", "line 2: column 4: expected a word's number");
    refuse("sentences", "1 7\n2 4 7\n", "expected a word's number, found '7'");
}

/* Three files of which one has an empty line: the samples behind it would be others. */
static void files_beside_each_other_have_the_same_lines(void **state) {
    (void)state;
    static const char *const files[][4] = {
        {"0\n0\n", "a\nb\n", "1\n2\n", NULL},
        {"0\n\n0\n", "a\n\nb\n", "1\n\n2\n", NULL},
        {"0\n0\n", "a\n\nb\n", "1\n2\n", "words: line 3: expected a sentence in line 2"},
        {"0\n0\n", "a\nb\n", "\n1\n2\n", "labels: line 2: expected labels in line 1"},
        {"\n0\n0\n", "a\nb\n", "1\n2\n", "words: line 1: expected a sentence in line 2"},
    };
    for (size_t i = 0; i < TIDE_COUNT(files); i++) {
        struct tide_dictionary words = {0};
        struct tide_forest_format f = {.name = "stanford", .words = &words, .grow = true};
        struct tide_text texts[3] = {{"parents", files[i][0], strlen(files[i][0])},
                                     {"words", files[i][1], strlen(files[i][1])},
                                     {"labels", files[i][2], strlen(files[i][2])}};
        struct tide_forest *forest = NULL;
        assert_int_equal(tide_forest_read(&f, texts, 3, &forest), files[i][3] ? TIDE_EPROTO : 0);
        if (files[i][3]) {
            assert_non_null(strstr(tide_error_message(), files[i][3]));
        } else {
            tide_forest_destroy(forest);
        }
        tide_dictionary_release(&words);
    }
}

/* Figures of the sets that docs/guides/dynamic-networks.md trains on. */
static void generators_draw_what_they_should(void **state) {
    (void)state;
    static const struct {
        struct tide_forest_law law;
        size_t vertices, edges;
    } sets[] = {
        {{.name = "random_trees", .samples = 128, .vocabulary = 1000, .seed = 1, .max = 19}, 4500, 0},
        {{.name = "balanced_trees", .samples = 32, .vocabulary = 1000, .seed = 2, .leaves = 64},
         32 * 127, 32 * 126},
        {{.name = "chains", .samples = 128, .vocabulary = 1000, .seed = 3}, 2542, 2542 - 128},
        {{.name = "lattices", .samples = 64, .vocabulary = 1000, .seed = 6}, 1277, 1535},
        {{.name = "skewed_trees", .samples = 64, .vocabulary = 1000, .seed = 6, .skew = 90}, 0, 0},
    };
    for (size_t i = 0; i < TIDE_COUNT(sets); i++) {
        struct tide_forest *f = NULL;
        assert_int_equal(tide_forest_generate(&sets[i].law, &f), 0);
        assert_int_equal(f->samples, sets[i].law.samples);
        if (sets[i].vertices) {
            assert_int_equal(f->vertices, sets[i].vertices);
        }
        if (sets[i].edges) {
            assert_int_equal(f->edges, sets[i].edges);
        }
        tide_forest_destroy(f);
    }
    struct tide_forest *f = NULL;
    struct tide_forest_law wrong = {.name = "bushes", .samples = 1, .vocabulary = 5};
    assert_int_equal(tide_forest_generate(&wrong, &f), TIDE_EINVAL);
    assert_non_null(strstr(tide_error_message(), "random_trees"));
    wrong = (struct tide_forest_law){
        .name = "balanced_trees", .samples = 1, .vocabulary = 5, .leaves = 3};
    assert_int_equal(tide_forest_generate(&wrong, &f), TIDE_EINVAL);
}

static const int32_t *list(const struct tide_levels *l, enum tide_list which) {
    return (const int32_t *)(const void *)(l->data + l->list_at[which]);
}

/* Every vertex once, by height; children in lower rows; lists and their transposes say the same. */
static void check_plan(const struct tide_levels *l, const struct tide_forest *f,
                       const uint32_t *order, size_t count) {
    bool *seen = calloc(l->vertices + 1, 1);
    size_t own = 0, edges = 0;
    const int32_t *word = (const int32_t *)(const void *)(l->data + l->input_at[0]);
    for (size_t i = 0; i < count; i++) {
        size_t s = order[i], base = own;
        for (size_t v = f->sample_start[s]; v < f->sample_start[s + 1]; v++, own++) {
            uint32_t row = l->row[own], height = f->height[v];
            assert_true(row < l->vertices && !seen[row]);
            seen[row] = true;
            assert_true(row - l->rounds[height].row < l->rounds[height].rows);
            assert_int_equal(word[row], ((const int32_t *)f->inputs[0].data)[v]);
            const int32_t *start = list(l, TIDE_LIST_CHILD_START);
            assert_int_equal(start[row + 1] - start[row], f->child_start[v + 1] - f->child_start[v]);
            assert_true((uint32_t)start[row] >= l->rounds[height].edge &&
                        (uint32_t)start[row + 1] <=
                            l->rounds[height].edge + l->rounds[height].edges);
            for (uint32_t e = f->child_start[v]; e < f->child_start[v + 1]; e++, edges++) {
                int32_t edge = start[row] + (int32_t)(e - f->child_start[v]);
                uint32_t child = l->row[base + (size_t)f->child[e]];
                assert_int_equal(list(l, TIDE_LIST_CHILD)[edge], child);
                assert_int_equal(list(l, TIDE_LIST_EDGE_PARENT)[edge], row);
                assert_true(child < row);
            }
        }
    }
    assert_int_equal(edges, l->edges);
    const int32_t *up = list(l, TIDE_LIST_PARENT_START);
    assert_int_equal(up[l->vertices], l->edges);
    for (size_t r = 0; r < l->vertices; r++) {
        for (int32_t k = up[r]; k < up[r + 1]; k++) {
            int32_t edge = list(l, TIDE_LIST_PARENT_EDGE)[k];
            assert_int_equal(list(l, TIDE_LIST_CHILD)[edge], r);
            assert_int_equal(list(l, TIDE_LIST_PARENT)[k], list(l, TIDE_LIST_EDGE_PARENT)[edge]);
            assert_true(k == up[r] || edge > list(l, TIDE_LIST_PARENT_EDGE)[k - 1]);
        }
    }
    for (size_t level = 0; level < l->round_count; level++) { /* with an input before those without */
        for (uint32_t r = l->rounds[level].row + 1;
             r < l->rounds[level].row + l->rounds[level].rows; r++) {
            assert_false(word[r] >= 0 && word[r - 1] < 0);
        }
    }
    for (size_t r = 0; r < l->vertices; r++) { /* distinct ids, each once */
        const int32_t *id = (const int32_t *)(const void *)(l->data + l->lookup_at[0]);
        assert_true((id[r] < 0) == (word[r] < 0));
        assert_true(id[r] < 0 || l->ids[0][id[r]] == (uint64_t)word[r]);
    }
    for (size_t i = 0; i < l->id_count[0]; i++) {
        for (size_t k = 0; k < i; k++) {
            assert_true(l->ids[0][i] != l->ids[0][k]);
        }
    }
    free(seen);
}

static void plans_agree_with_a_naive_grouping(void **state) {
    (void)state;
    static const char *const laws[] = {"lattices", "random_trees", "chains"};
    struct tide_levels_want want = {.lists = 1u << TIDE_LIST_PARENT_START,
                                    .input_count = 1,
                                    .lookup_count = 1,
                                    .table_count = 1,
                                    .element = sizeof(float)};
    snprintf(want.inputs[0].name, sizeof(want.inputs[0].name), "word");
    want.inputs[0].index = true;
    want.inputs[0].columns = 1;
    want.lookups[0].rows = 50;
    for (size_t k = 0; k < TIDE_COUNT(laws); k++) {
        struct tide_forest *f = NULL;
        struct tide_levels *l = NULL;
        struct tide_forest_law law = {
            .name = laws[k], .samples = 40, .vocabulary = 50, .seed = k, .max = 9};
        assert_int_equal(tide_forest_generate(&law, &f), 0);
        for (size_t v = 0; v < f->vertices; v += 3) { /* levels with words and without */
            ((int32_t *)f->inputs[0].data)[v] = -1;
        }
        assert_int_equal(tide_levels_create(&want, &l), 0);
        for (size_t size = 0; size <= 40; size += 8) {
            uint32_t order[40];
            for (size_t i = 0; i < 40; i++) {
                order[i] = (uint32_t)((i * 7 + size) % 40);
            }
            assert_int_equal(tide_levels_make(l, f, order, 0, size, false, false), 0);
            check_plan(l, f, order, size);
        }
        assert_int_equal(tide_levels_make(l, f, NULL, 39, 2, false, false), TIDE_EINVAL);
        tide_levels_destroy(l);
        tide_forest_destroy(f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trees_are_read_leaves_first),
        cmocka_unit_test(graphs_are_sorted),
        cmocka_unit_test(mistakes_name_line_and_column),
        cmocka_unit_test(files_beside_each_other_have_the_same_lines),
        cmocka_unit_test(generators_draw_what_they_should),
        cmocka_unit_test(plans_agree_with_a_naive_grouping),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
