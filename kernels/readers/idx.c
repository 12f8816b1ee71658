/* Reading the IDX format. Input is foreign: everything is checked. */
#include "readers/idx.h"
#include "base/base.h"

static uint32_t big_endian(const uint8_t *at) {
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

int tide_idx_parse(const void *data, size_t size, struct tide_idx *out) {
    const uint8_t *at = data;
    if (size < 4 || at[0] != 0 || at[1] != 0) {
        return tide_fail(TIDE_EINVAL, "not an IDX file: it does not begin with two zero bytes");
    }
    if (at[2] != 8) {
        return tide_fail(TIDE_EINVAL, "IDX elements of type 0x%02x; only bytes (0x08) are read", at[2]);
    }
    if (at[3] == 0 || at[3] > TIDE_IDX_RANK_MAX || size < 4 + (size_t)at[3] * 4) {
        return tide_fail(TIDE_EINVAL, "an IDX header of %u dims in %zu bytes", at[3], size);
    }
    *out = (struct tide_idx){.rank = at[3], .count = 1, .bytes = at + 4 + (size_t)at[3] * 4};
    for (size_t i = 0; i < out->rank; i++) {
        out->dims[i] = big_endian(at + 4 + 4 * i);
        if (__builtin_mul_overflow(out->count, (size_t)out->dims[i], &out->count)) {
            return tide_fail(TIDE_EINVAL, "IDX dims beyond all memory");
        }
    }
    size_t there = size - 4 - (size_t)out->rank * 4;
    if (out->count != there) {
        return tide_fail(TIDE_EINVAL, "the IDX header promises %zu bytes, there are %zu", out->count, there);
    }
    return 0;
}
