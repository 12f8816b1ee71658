/* Requests to the row service (store/client/rows.h): whatever is read points into the bytes, and counts what is there.
 */
#include "fuzz.h"
#include "store/client/rows.h"
#include "wire/rows.h"

static void inside(const void *at, size_t bytes, const uint8_t *data, size_t size) {
    const uint8_t *from = at;
    FUZZ_CHECK(bytes == 0 || (from >= data && from + bytes <= data + size));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct tide__rows_request q;
    if (tide__rows_parse(data, size, &q) != 0) {
        return 0;
    }
    FUZZ_CHECK(q.verb >= TIDE__ROWS_OPEN && q.verb <= TIDE__ROWS_MAP);
    inside(q.keys, q.key_count * sizeof(uint64_t), data, size);
    inside(q.rows, q.row_floats * sizeof(float), data, size);
    FUZZ_CHECK(strlen(q.name) < sizeof q.name);
    FUZZ_CHECK(q.client == 0 || (q.sequence > 0 && q.low <= q.sequence));
    return 0;
}
