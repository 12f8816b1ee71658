/* The IDX format, packed by gzip or not: what is accepted has exactly the bytes that it promises. */
#include "fuzz.h"
#include "readers/gzip.h"
#include "readers/idx.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct tide_idx idx;
    uint8_t *unpacked = NULL;
    size_t length = size;
    if (tide_gzip_is(data, size)) {
        if (tide_gzip_unpack(data, size, 1 << 20, &unpacked, &length) != 0) {
            FUZZ_CHECK(!unpacked);
            return 0;
        }
        FUZZ_CHECK(length <= 1 << 20);
    }
    const uint8_t *bytes = unpacked ? unpacked : data;
    if (tide_idx_parse(bytes, length, &idx) == 0) {
        FUZZ_CHECK(idx.rank >= 1 && idx.rank <= TIDE_IDX_RANK_MAX);
        FUZZ_CHECK(idx.bytes >= bytes && idx.bytes + idx.count == bytes + length);
    }
    tide_free(unpacked);
    return 0;
}
