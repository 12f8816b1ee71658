/* Readers of text data sets: lines, triples, and the WordNet database with its split. */
#include "base/base.h"
#include "readers/text.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#define TEXT(literal)                                                                              \
    (struct tide_text) {                                                                           \
        "f", literal, sizeof(literal) - 1                                                          \
    }

static void assert_line(struct tide_lines *lines, const char *expected) {
    const char *line;
    size_t size;
    assert_int_equal(tide_lines_next(lines, &line, &size), 1);
    assert_int_equal(size, strlen(expected));
    assert_memory_equal(line, expected, size);
}

static void test_lines_of_all_ends_are_read(void **state) {
    (void)state;
    struct tide_text text = TEXT("\xef\xbb\xbfone\r\n\ntwo\r\r\n\r\nlast");
    struct tide_lines lines;
    const char *line;
    size_t size;
    tide_lines_init(&lines, &text);
    assert_line(&lines, "one"); /* blank ones are no lines, and count */
    assert_line(&lines, "two\r");
    assert_line(&lines, "last");
    assert_int_equal(lines.number, 5);
    assert_int_equal(tide_lines_next(&lines, &line, &size), 0);
    text = (struct tide_text){"f", NULL, 0};
    tide_lines_init(&lines, &text);
    assert_int_equal(tide_lines_next(&lines, &line, &size), 0);
}

static void test_nul_byte_is_refused_with_its_line(void **state) {
    (void)state;
    struct tide_text text = TEXT("a\nb\0c\nd");
    struct tide_lines lines;
    const char *line;
    size_t size;
    tide_lines_init(&lines, &text);
    assert_line(&lines, "a");
    assert_int_equal(tide_lines_next(&lines, &line, &size), TIDE_EPROTO);
    assert_non_null(strstr(tide_error_message(), "f: line 2"));
}

static const char *name_of(const struct tide_names *names, size_t i) {
    assert_true(i < names->count);
    assert_int_equal(strlen(names->pool + names->offsets[i]),
                     names->offsets[i + 1] - names->offsets[i] - 1);
    return names->pool + names->offsets[i];
}

static void test_names_are_numbered_by_first_appearance(void **state) {
    (void)state;
    const struct tide_text texts[] = {TEXT("b\tr\ta\r\na\ts\tb\n"), TEXT(""), TEXT("c\tr\tb")};
    struct tide_triples t;
    assert_int_equal(tide_text_triples(texts, 3, false, &t), 0);
    assert_int_equal(t.entities.count, 3);
    assert_int_equal(t.relations.count, 2);
    assert_string_equal(name_of(&t.entities, 0), "b");
    assert_string_equal(name_of(&t.entities, 1), "a");
    assert_string_equal(name_of(&t.entities, 2), "c");
    assert_string_equal(name_of(&t.relations, 1), "s");
    assert_int_equal(t.counts[0], 2);
    assert_int_equal(t.counts[1], 0);
    assert_int_equal(t.counts[2], 1);
    assert_memory_equal(t.parts[0], ((uint32_t[]){0, 0, 1, 1, 1, 0}), 24);
    assert_memory_equal(t.parts[2], ((uint32_t[]){2, 0, 0}), 12);
    tide_triples_release(&t);
    assert_null(t.parts[0]);
}

static void test_many_names_keep_their_numbers(void **state) {
    (void)state;
    enum { COUNT = 5000 };
    char *bytes = malloc(COUNT * 40);
    struct tide_triples t;
    size_t size = 0;
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < COUNT / 2; i++) {
            size += (size_t)snprintf(bytes + size, 40, "e%d\tr\tx%d\n", i, i);
        }
    }
    struct tide_text text = {"f", bytes, size};
    assert_int_equal(tide_text_triples(&text, 1, false, &t), 0);
    assert_int_equal(t.entities.count, COUNT);
    for (uint32_t i = 0; i < COUNT; i++) {
        uint32_t expected = 2 * (i % (COUNT / 2));
        assert_int_equal(t.parts[0][3 * i], expected);
        assert_int_equal(t.parts[0][3 * i + 2], expected + 1);
    }
    assert_string_equal(name_of(&t.entities, COUNT - 1), "x2499");
    tide_triples_release(&t);
    free(bytes);
}

static void test_ids_count_to_the_largest(void **state) {
    (void)state;
    const struct tide_text texts[] = {TEXT("0\t1\t7\n3\t0\t0\n")};
    struct tide_triples t;
    assert_int_equal(tide_text_triples(texts, 1, true, &t), 0);
    assert_int_equal(t.entities.count, 8);
    assert_int_equal(t.relations.count, 2);
    assert_null(t.entities.pool);
    assert_memory_equal(t.parts[0], ((uint32_t[]){0, 1, 7, 3, 0, 0}), 24);
    tide_triples_release(&t);
}

static void test_what_makes_a_test_easier_or_harder_is_counted(void **state) {
    (void)state;
    const struct tide_text texts[] = {TEXT("\na\tr\tb\r\n\r\na\tr\tb\nb\tr\tc\n\n"),
                                      TEXT("b\tr\tc\nb\tr\tc\n"),
                                      TEXT("a\tr\tb\nx\ts\ty\nx\tr\ta\n")};
    struct tide_triples t;
    assert_int_equal(tide_text_triples(texts, 3, false, &t), 0);
    assert_int_equal(t.counts[0], 3);
    assert_int_equal(t.repeated, 1);
    assert_int_equal(t.leaked[1], 2);
    assert_int_equal(t.leaked[2], 1);
    assert_int_equal(t.unseen, 2);
    assert_int_equal(t.unseen_relations, 1);
    tide_triples_release(&t);
}

static void test_bad_triples_are_refused_with_their_line(void **state) {
    (void)state;
    static const struct {
        const char *text, *message;
        bool ids;
    } bad[] = {
        {"a\tb\tc\na\tb\n", "f: line 2: expected 3 tab-separated fields, found 2", false},
        {"a\tb\tc\td", "f: line 1: expected 3 tab-separated fields, found 4", false},
        {"a\tb\tc\n\n \r\na", "f: line 4: expected 3 tab-separated fields, found 1", false},
        {"a b c", "f: line 1: expected 3 tab-separated fields, found 1", false},
        {"a\t\tc", "f: line 1: expected a name in field 2, found ''", false},
        {"1\t2\t3\n1\t2\tx3", "f: line 2: expected a 0-based id, found 'x3'", true},
        {"1\t2\t4294967295", "found '4294967295'", true},
        {"1\t2\t-1", "found '-1'", true},
        {"0\t1\t2\n3\t0\t4294967294\n", "f: line 2: expected ids from 0 on without large gaps", true},
        {"1\t2\t", "found ''", true},
        {"1\t2\t99999999999999999999999", "expected a 0-based id", true},
    };
    for (size_t i = 0; i < TIDE_COUNT(bad); i++) {
        struct tide_text text = {"f", bad[i].text, strlen(bad[i].text)};
        struct tide_triples t;
        assert_int_equal(tide_text_triples(&text, 1, bad[i].ids, &t), TIDE_EPROTO);
        assert_non_null(strstr(tide_error_message(), bad[i].message));
        assert_null(t.parts[0]);
    }
    struct tide_triples t;
    assert_int_equal(tide_text_triples(NULL, 0, false, &t), TIDE_EINVAL);
}

#define NOUN                                                                                       \
    "  1 licence\n"                                                                                \
    "00000100 03 n 02 Entity 0 thing 0 002 ~ 00000200 n 0000 + 00000300 v 0102 | that which is\n"  \
    "00000200 03 n 01 entity 0 001 @ 00000100 n 0000 | another\n"
#define VERB "00000300 29 v 01 be 0 001 + 00000100 n 0201 01 + 02 00 | to be\n"
#define ADJ                                                                                        \
    "00000400 00 a 01 big 0 001 & 00000500 a 0000 | large\n"                                       \
    "00000500 00 s 0a huge(p) 0 a 0 b 0 c 0 d 0 e 0 f 0 g 0 h 0 i 0 001 & 00000400 a 0000 | l\n"
#define ADV "00000600 02 r 01 bigly 0 001 \\ 00000400 a 0101 | so"

static void test_wordnet_lines_become_triples(void **state) {
    (void)state;
    const struct tide_text texts[] = {TEXT(NOUN), TEXT(VERB), TEXT(ADJ), TEXT(ADV)};
    struct tide_wordnet_counts counts;
    struct tide_triples t;
    assert_int_equal(tide_text_wordnet(texts, &t, &counts), 0);
    assert_int_equal(counts.synsets, 6);
    assert_int_equal(counts.pointers, 7);
    assert_int_equal(t.entities.count, 6);
    assert_string_equal(name_of(&t.entities, 0), "entity.n.01");
    assert_string_equal(name_of(&t.entities, 1), "entity.n.02");
    assert_string_equal(name_of(&t.entities, 2), "be.v.01");
    assert_string_equal(name_of(&t.entities, 4), "huge.a.01");
    assert_string_equal(name_of(&t.entities, 5), "bigly.r.01");
    assert_int_equal(t.relations.count, 18);
    assert_string_equal(name_of(&t.relations, 0), "hypernym");
    assert_non_null(strstr(t.note, "6 synsets, 7 distinct pointers"));
    assert_non_null(strstr(t.note, "4 triples"));
    tide_triples_release(&t);
}

static void test_damaged_wordnet_is_refused_with_its_line(void **state) {
    (void)state;
    static const struct {
        const char *noun, *message;
    } bad[] = {
        {NOUN "0000020 03 n 01 x 0 000 | short", "noun: line 4: expected an offset of 8 digits"},
        {NOUN "00000200 03 n 01 x 0 000 | again", "line 4: expected offsets to ascend"},
        {NOUN "00000700 03 x 01 x 0 000 | pos", "line 4: expected one of n v a s r, found 'x'"},
        {NOUN "00000700 03 v 01 x 0 000 | pos", "line 4: expected a synset of this file"},
        {NOUN "00000700 03 n 0g x 0 000 | words", "line 4: expected a count of words"},
        {NOUN "00000700 03 n 03 x 0 y 0", "line 4: expected a word and its number"},
        {NOUN "00000700 03 n 01 x 0 001 ? 00000100 n 0000 |", "line 4: expected a pointer symbol"},
        {NOUN "00000700 03 n 01 x 0 001 @ 00000101 n 0000 |", "line 4: expected a synset at"},
        {NOUN "00000700 03 n 01 x 0 002 @ 00000100 n 0000", "line 4: expected a pointer symbol"},
        {NOUN "00000700 03 n 01 x 0 001 @ 00000100 n 00", "line 4: expected 4 hexadecimal"},
        {NOUN "00000700 03 n 01 x 0 0f1", "line 4: expected a count of pointers"},
        {NOUN "00000700 03 n 01 (a) 0 000", "line 4: expected a word"},
    };
    for (size_t i = 0; i < TIDE_COUNT(bad); i++) {
        const struct tide_text texts[] = {
            {"noun", bad[i].noun, strlen(bad[i].noun)}, TEXT(VERB), TEXT(ADJ), TEXT(ADV)};
        struct tide_triples t;
        assert_int_equal(tide_text_wordnet(texts, &t, NULL), TIDE_EPROTO);
        if (!strstr(tide_error_message(), bad[i].message)) {
            fail_msg("'%s' lacks '%s'", tide_error_message(), bad[i].message);
        }
        assert_null(t.parts[0]);
    }
}

/* ---- the real database, where it is installed ---- */

static char *read_file(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    if (!file) {
        return NULL;
    }
    fseek(file, 0, SEEK_END);
    *size = (size_t)ftell(file);
    rewind(file);
    char *bytes = malloc(*size);
    assert_int_equal(fread(bytes, 1, *size, file), *size);
    fclose(file);
    return bytes;
}

static bool read_wordnet(struct tide_triples *t, struct tide_wordnet_counts *counts) {
    static const char *const names[] = {
        "/usr/share/wordnet/data.noun", "/usr/share/wordnet/data.verb",
        "/usr/share/wordnet/data.adj", "/usr/share/wordnet/data.adv"};
    struct tide_text texts[TIDE_WORDNET_FILES];
    char *bytes[TIDE_WORDNET_FILES];
    bool there = true;
    for (size_t i = 0; i < TIDE_WORDNET_FILES; i++) {
        texts[i] = (struct tide_text){.name = names[i]};
        texts[i].data = bytes[i] = read_file(names[i], &texts[i].size);
        there = there && bytes[i];
    }
    if (there) {
        assert_int_equal(tide_text_wordnet(texts, t, counts), 0);
    }
    for (size_t i = 0; i < TIDE_WORDNET_FILES; i++) {
        free(bytes[i]);
    }
    return there;
}

/* Distinct pointers between synsets; lexical ones (73 of <, 8,023 of \) partly coincide. */
static void test_wordnet_has_the_published_counts(void **state) {
    (void)state;
    static const struct {
        const char *symbol;
        size_t count;
    } expected[] = {{"@", 89089},  {"~", 89089}, {"@i", 8577}, {"~i", 8577}, {"#m", 12293},
                    {"%m", 12293}, {"#s", 797},  {"%s", 797},  {"#p", 9097}, {"%p", 9097},
                    {";c", 6653},  {"-c", 6653}, {";r", 1357}, {"-r", 1357}, {";u", 1287},
                    {"-u", 1287},  {"&", 21386}, {"=", 1278},  {"$", 1750},  {"!", 7604},
                    {"+", 63658},  {"^", 3220},  {"*", 408},   {">", 220},   {"<", 61},
                    {"\\", 6667}};
    struct tide_wordnet_counts counts;
    struct tide_triples t;
    if (!read_wordnet(&t, &counts)) {
        skip();
    }
    size_t total = 0;
    assert_int_equal(counts.synsets, 117659);
    assert_int_equal(t.entities.count, 117659);
    assert_int_equal(counts.pointers, 364552);
    for (size_t i = 0; i < TIDE_WORDNET_SYMBOLS; i++) {
        total += counts.symbols[i].count;
        for (size_t k = 0; k < TIDE_COUNT(expected); k++) {
            if (strcmp(expected[k].symbol, counts.symbols[i].symbol) == 0 &&
                expected[k].count != counts.symbols[i].count) {
                fail_msg("%s: %zu, not %zu", expected[k].symbol, counts.symbols[i].count,
                         expected[k].count);
            }
        }
    }
    assert_int_equal(total, counts.pointers);
    tide_triples_release(&t);
}

static int compare_words(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static uint64_t word_of(uint32_t head, uint32_t relation, uint32_t tail) {
    return (uint64_t)head << 40 | (uint64_t)relation << 32 | tail;
}

static void test_wordnet_split_does_not_leak(void **state) {
    (void)state;
    struct tide_triples t, again;
    if (!read_wordnet(&t, NULL) || !read_wordnet(&again, NULL)) {
        skip();
    }
    uint64_t *train = malloc(t.counts[0] * sizeof *train);
    uint8_t *trained = calloc(t.entities.count, 1);
    for (size_t i = 0; i < t.counts[0]; i++) {
        const uint32_t *row = t.parts[0] + 3 * i;
        train[i] = word_of(row[0], row[1], row[2]);
        trained[row[0]] = trained[row[2]] = 1;
    }
    qsort(train, t.counts[0], sizeof *train, compare_words);
    for (size_t part = 1; part < TIDE_TRIPLE_PARTS; part++) {
        size_t all = t.counts[0] + t.counts[1] + t.counts[2];
        assert_true(t.counts[part] > all / 33 &&
                    t.counts[part] <= all / 20); /* 5 % less the dropped */
        for (size_t i = 0; i < t.counts[part]; i++) {
            const uint32_t *row = t.parts[part] + 3 * i;
            uint64_t same = word_of(row[0], row[1], row[2]);
            uint64_t mirror = word_of(row[2], row[1], row[0]);
            assert_true(trained[row[0]] && trained[row[2]]);
            assert_null(bsearch(&same, train, t.counts[0], sizeof same, compare_words));
            assert_null(bsearch(&mirror, train, t.counts[0], sizeof mirror, compare_words));
        }
    }
    for (size_t part = 0; part < TIDE_TRIPLE_PARTS; part++) {
        assert_int_equal(t.counts[part], again.counts[part]);
        assert_memory_equal(t.parts[part], again.parts[part], 12 * t.counts[part]);
    }
    print_message("%s\n", t.note);
    free(train);
    free(trained);
    tide_triples_release(&t);
    tide_triples_release(&again);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines_of_all_ends_are_read),
        cmocka_unit_test(test_nul_byte_is_refused_with_its_line),
        cmocka_unit_test(test_names_are_numbered_by_first_appearance),
        cmocka_unit_test(test_many_names_keep_their_numbers),
        cmocka_unit_test(test_ids_count_to_the_largest),
        cmocka_unit_test(test_what_makes_a_test_easier_or_harder_is_counted),
        cmocka_unit_test(test_bad_triples_are_refused_with_their_line),
        cmocka_unit_test(test_wordnet_lines_become_triples),
        cmocka_unit_test(test_damaged_wordnet_is_refused_with_its_line),
        cmocka_unit_test(test_wordnet_has_the_published_counts),
        cmocka_unit_test(test_wordnet_split_does_not_leak),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
