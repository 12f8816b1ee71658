/*
 * Tables of text: the first byte chooses header, missing values, separators and the size of pieces. What is accepted
 * has as many values in every column as rows, and is the same in one piece.
 */
#include "fuzz.h"
#include "readers/csv.h"

#include <string.h>

static int read_pieces(const struct tide_csv_options *o, const uint8_t *data, size_t size, size_t piece,
                       struct tide_csv **out) {
    FUZZ_CHECK(tide_csv_create(o, out) == 0);
    int code = 0;
    for (size_t at = 0; at < size && code == 0; at += piece) {
        code = tide_csv_feed(*out, (const char *)data + at, size - at < piece ? size - at : piece);
    }
    return code ? code : tide_csv_end(*out);
}

static void check_column(const struct tide_csv_column *a, const struct tide_csv_column *b, size_t rows) {
    static const size_t element[TIDE_CSV_TYPES] = {[TIDE_CSV_NUMBER] = 8, [TIDE_CSV_INTEGER] = 8, [TIDE_CSV_CLASS] = 4};
    FUZZ_CHECK(strcmp(a->name, b->name) == 0 && a->type == b->type);
    if (rows > 0 && element[a->type] > 0) {
        FUZZ_CHECK(a->capacity >= rows && memcmp(a->values, b->values, rows * element[a->type]) == 0);
    }
    for (size_t i = 0; i < rows && a->type == TIDE_CSV_CLASS; i++) {
        FUZZ_CHECK(((const uint32_t *)a->values)[i] < a->classes.names.count);
    }
    if (rows > 0 && a->type == TIDE_CSV_TEXT) {
        FUZZ_CHECK(a->offsets[rows] == a->pool_size && a->pool_size == b->pool_size);
        FUZZ_CHECK(memcmp(a->pool, b->pool, a->pool_size) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) {
        return 0;
    }
    struct tide_csv_options o = {.name = "text", .separator = data[0] & 8 ? 0 : ',', .decimal = data[0] & 16 ? ',' : 0,
                                 .header = !(data[0] & 1) ? TIDE_CSV_HEADER_NO : data[0] & 32 ? TIDE_CSV_HEADER_YES : TIDE_CSV_HEADER_ASK, .has_missing = data[0] & 2,
                                 .missing = -1, .others = data[0] & 4 ? TIDE_CSV_TEXT : TIDE_CSV_UNKNOWN};
    struct tide_csv *pieces, *whole;
    const int code = read_pieces(&o, data + 1, size - 1, 1 + data[0] / 8, &pieces);
    FUZZ_CHECK((code == 0) == (read_pieces(&o, data + 1, size - 1, size, &whole) == 0));
    if (code == 0) {
        size_t count, other;
        const struct tide_csv_column *a = tide_csv_columns(pieces, &count), *b = tide_csv_columns(whole, &other);
        FUZZ_CHECK(count == other && count > 0 && tide_csv_rows(pieces) == tide_csv_rows(whole));
        for (size_t i = 0; i < count; i++) {
            check_column(&a[i], &b[i], tide_csv_rows(pieces));
        }
    }
    tide_csv_destroy(pieces);
    tide_csv_destroy(whole);
    return 0;
}
