/*
 * Bags of words: the first byte chooses form, options and size of pieces; behind a byte 1 the rest is
 * the vocabulary. What is accepted has words that rise in each document and counts that add up, and is
 * the same in one piece.
 */
#include "fuzz.h"
#include "readers/bow.h"

static int read_pieces(const struct tide_bow_options *o, const uint8_t *data, size_t size,
                       size_t piece, struct tide_bow *out) {
    struct tide_bow_reader *reader;
    FUZZ_CHECK(tide_bow_open(o, &reader) == 0);
    int code = tide_bow_begin(reader, "text");
    for (size_t at = 0; at < size && code == 0; at += piece) {
        code =
            tide_bow_feed(reader, (const char *)data + at, size - at < piece ? size - at : piece);
    }
    code = code ? code : tide_bow_end(reader);
    code = code ? code : tide_bow_finish(reader, NULL, out);
    tide_bow_close(reader);
    return code;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct tide_bow pieces = {0}, whole = {0};
    if (size == 0) {
        return 0;
    }
    const uint8_t *cut = memchr(data + 1, 1, size - 1);
    const struct tide_text names = {"names", cut ? cut + 1 : data, cut ? (size_t)(data + size - cut) - 1 : 0};
    const size_t length = cut ? (size_t)(cut - data) - 1 : size - 1;
    const struct tide_bow_options o = {.format = (enum tide_bow_format)(data[0] % TIDE_BOW_FORMATS),
                                       .skip = data[0] / TIDE_BOW_FORMATS % 2,
                                       .min_count = 1 + data[0] / (2 * TIDE_BOW_FORMATS) % 2,
                                       .keep_case = data[0] / (4 * TIDE_BOW_FORMATS) % 2,
                                       .tokens_most = 1 << 20,
                                       .vocabulary = cut ? &names : NULL};
    const int code = read_pieces(&o, data + 1, length, 1 + data[0] / (8 * TIDE_BOW_FORMATS), &pieces);
    FUZZ_CHECK((code == 0) == (read_pieces(&o, data + 1, length, size, &whole) == 0));
    uint64_t sum = 0;
    for (size_t w = 0; code == 0 && w < pieces.names.count; w++) {
        sum += pieces.counts[w];
    }
    FUZZ_CHECK(sum == pieces.tokens && pieces.documents == whole.documents &&
               pieces.tokens == whole.tokens);
    for (size_t d = 0; code == 0 && d < pieces.documents; d++) {
        FUZZ_CHECK(pieces.offsets[d] <= pieces.offsets[d + 1] &&
                   pieces.offsets[d + 1] <= pieces.tokens);
        for (uint64_t i = pieces.offsets[d]; i < pieces.offsets[d + 1]; i++) {
            FUZZ_CHECK(pieces.words[i] < pieces.names.count && pieces.words[i] == whole.words[i]);
            FUZZ_CHECK(i == pieces.offsets[d] || pieces.words[i] >= pieces.words[i - 1]);
        }
    }
    tide_bow_release(&pieces);
    tide_bow_release(&whole);
    return 0;
}
