/*
 * LibSVM text, packed by gzip or not: the first byte chooses base and size of pieces. What is
 * accepted has rising indices within its columns, and is the same in one piece.
 */
#include "fuzz.h"
#include "readers/gzip.h"
#include "readers/libsvm.h"

static int feed(void *reader, const char *data, size_t size) {
    return tide_libsvm_feed(reader, data, size);
}

static int read_pieces(int base, const uint8_t *data, size_t size, size_t piece,
                       struct tide_libsvm *out) {
    struct tide_libsvm_reader *reader;
    struct tide_gunzip *gunzip = NULL;
    FUZZ_CHECK(tide_libsvm_open((struct tide_libsvm_options){.base = base}, &reader) == 0);
    if (tide_gzip_is(data, size)) {
        FUZZ_CHECK(tide_gunzip_create(&gunzip) == 0);
    }
    struct tide_sink sink = {reader, feed};
    int code = tide_libsvm_begin(reader, "text");
    for (size_t at = 0; at < size && code == 0; at += piece) {
        size_t part = size - at < piece ? size - at : piece;
        code = gunzip ? tide_gunzip_feed(gunzip, data + at, part, sink)
                      : tide_libsvm_feed(reader, (const char *)data + at, part);
    }
    code = code || !gunzip ? code : tide_gunzip_end(gunzip);
    code = code ? code : tide_libsvm_end(reader);
    code = code ? code : tide_libsvm_finish(reader, out);
    tide_gunzip_destroy(gunzip);
    tide_libsvm_close(reader);
    return code;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct tide_libsvm pieces = {0}, whole = {0};
    if (size == 0) {
        return 0;
    }
    int base = data[0] % 3 - 1;
    int code = read_pieces(base, data + 1, size - 1, 1 + data[0] / 3, &pieces);
    FUZZ_CHECK((code == 0) == (read_pieces(base, data + 1, size - 1, size, &whole) == 0));
    const struct tide_sparse *part = &pieces.parts[0], *other = &whole.parts[0];
    FUZZ_CHECK(part->rows == other->rows && (code == 0) == (part->rows > 0));
    for (size_t i = 0; i < part->rows; i++) {
        FUZZ_CHECK(part->offsets[i] <= part->offsets[i + 1]);
        FUZZ_CHECK(part->offsets[i + 1] == other->offsets[i + 1]);
        for (uint64_t e = part->offsets[i]; e < part->offsets[i + 1]; e++) {
            FUZZ_CHECK(part->indices[e] < pieces.columns && part->indices[e] == other->indices[e]);
            FUZZ_CHECK(e == part->offsets[i] || part->indices[e] > part->indices[e - 1]);
        }
    }
    tide_libsvm_release(&pieces);
    tide_libsvm_release(&whole);
    return 0;
}
