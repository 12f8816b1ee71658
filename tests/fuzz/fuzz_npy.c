/* NumPy's files: an .npy, or a zip archive whose members are. What is accepted has exactly the bytes that it promises. */
#include "fuzz.h"
#include "readers/npy.h"

static void check(const uint8_t *data, size_t size) {
    struct tide_npy npy;
    if (tide_npy_parse(data, size, &npy) == 0) {
        FUZZ_CHECK(npy.rank <= TIDE_NPY_RANK_MAX && npy.type < TIDE_NPY_TYPES);
        FUZZ_CHECK(npy.bytes >= data && npy.bytes + npy.count * tide_npy_element(npy.type) == data + size);
        size_t count = 1;
        for (size_t i = 0; i < npy.rank; i++) {
            count *= npy.dims[i];
        }
        FUZZ_CHECK(count == npy.count);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct tide_zip zip;
    struct tide_zip_member member;
    check(data, size);
    if (tide_zip_open(data, size, &zip) != 0) {
        return 0;
    }
    for (int left = 100; left > 0 && tide_zip_next(&zip, &member) == 1; left--) {
        uint8_t *owned;
        const uint8_t *bytes;
        FUZZ_CHECK(member.bytes >= data && member.bytes + member.packed <= data + size);
        FUZZ_CHECK((const uint8_t *)member.name + member.name_size <= data + size);
        if (tide_zip_unpack(&member, 1 << 20, &owned, &bytes) == 0) {
            FUZZ_CHECK(member.size <= 1 << 20);
            check(bytes, member.size);
            tide_free(owned);
        } else {
            FUZZ_CHECK(!owned);
        }
    }
    return 0;
}
