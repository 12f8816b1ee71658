/* Messages between workers that exchange gradients: what is accepted lies within the bytes. */
#include "fuzz.h"
#include "exchange/internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct incoming m;
    if (tide__exchange_parse(data, size, &m) != 0) {
        return 0;
    }
    FUZZ_CHECK(m.kind <= STATE && (m.step > 0 || m.kind == STATE) && m.format < TIDE_FORMAT_COUNT);
    FUZZ_CHECK(m.k_count <= MATRICES_MAX);
    if (m.kind == STATE) {
        FUZZ_CHECK(m.dead_count == 0 || (m.dead >= data && m.dead + m.dead_count <= data + size));
        for (size_t i = 0; i < 2 * m.done_count; i++) {
            (void)tide_read_uint(&m.done);
        }
        for (size_t i = 0; i < m.share_count; i++) {
            (void)tide_read_double(&m.shares);
        }
        FUZZ_CHECK(m.done.error == 0 && m.shares.error == 0);
    }
    if (m.kind == SHARE || m.kind == STATE) {
        for (size_t i = 0; i < m.plan_count; i++) {
            FUZZ_CHECK(m.paths[i] < TIDE_PATH_COUNT && m.formats[i] < TIDE_FORMAT_COUNT);
        }
        return 0;
    }
    const uint8_t *values = m.values;
    FUZZ_CHECK(values >= data && values + m.size <= data + size);
    for (size_t count = 0; count <= 2048; count++) { /* a chunk of any number of values that fits */
        bool sparse = m.format == TIDE_FORMAT_SPARSE;
        if (sparse || tide__exchange_size(count, m.format) == m.size) {
            float *floats = malloc((count + 1) * sizeof *floats);
            (void)(sparse ? tide__sparse_expand(values, m.size, floats, count)
                          : tide__exchange_decode(values, floats, count, m.format));
            free(floats);
        }
    }
    return 0;
}
