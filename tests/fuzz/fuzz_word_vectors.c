/*
 * Word vectors as text: the first byte chooses the size of pieces. What is accepted has the same words and numbers in
 * one piece.
 */
#include "fuzz.h"
#include "readers/word_vectors.h"

static int read_pieces(const struct tide_dictionary *wanted, const uint8_t *data, size_t size, size_t piece,
                       struct tide_word_vectors **out) {
    FUZZ_CHECK(tide_word_vectors_create("text", wanted, out) == 0);
    int code = 0;
    for (size_t at = 0; at < size && code == 0; at += piece) {
        code = tide_word_vectors_feed(*out, (const char *)data + at, size - at < piece ? size - at : piece);
    }
    return code ? code : tide_word_vectors_end(*out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const words[] = {"a", "b", "the", "."};
    struct tide_dictionary wanted = {0};
    struct tide_word_vectors *pieces, *whole;
    const uint32_t *ids, *same_ids;
    const float *values, *same_values;
    size_t columns = 0, same_columns = 0;
    uint32_t index;
    if (size == 0) {
        return 0;
    }
    for (size_t i = 0; i < TIDE_COUNT(words); i++) {
        FUZZ_CHECK(tide_dictionary_add(&wanted, words[i], strlen(words[i]), &index) == 0);
    }
    const int code = read_pieces(&wanted, data + 1, size - 1, 1 + data[0] % 40, &pieces);
    FUZZ_CHECK(code == read_pieces(&wanted, data + 1, size - 1, size, &whole));
    const size_t found = tide_word_vectors_found(pieces, &ids, &values, &columns);
    FUZZ_CHECK(code != 0 || found == tide_word_vectors_found(whole, &same_ids, &same_values, &same_columns));
    FUZZ_CHECK(code != 0 || columns == same_columns);
    for (size_t i = 0; code == 0 && i < found; i++) {
        FUZZ_CHECK(ids[i] == same_ids[i] && ids[i] < TIDE_COUNT(words));
        FUZZ_CHECK(memcmp(values + i * columns, same_values + i * columns, columns * sizeof *values) == 0);
    }
    tide_word_vectors_destroy(pieces);
    tide_word_vectors_destroy(whole);
    tide_dictionary_release(&wanted);
    return 0;
}
