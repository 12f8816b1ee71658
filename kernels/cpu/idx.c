/* Reading the IDX format, and unpacking gzip by zlib. Input is foreign: everything is checked. */
#include "idx.h"
#include "base/base.h"

#include <string.h>
#include <zlib.h>

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
        return tide_fail(TIDE_EINVAL, "the IDX header promises %zu bytes, there are %zu", out->count,
                         there);
    }
    return 0;
}

int tide_gzip_is(const void *data, size_t size) {
    const uint8_t *at = data;
    return size >= 2 && at[0] == 0x1f && at[1] == 0x8b;
}

static int unpack(z_stream *stream, size_t limit, uint8_t **out, size_t *out_size) {
    size_t room = 0, used = 0;
    int status = Z_OK;
    while (status != Z_STREAM_END) {
        if (used == room) {
            room = room ? 2 * room : 65536;
            uint8_t *larger = tide_realloc(*out, room);
            if (!larger) {
                return TIDE_ENOMEM;
            }
            *out = larger;
        }
        stream->next_out = *out + used;
        stream->avail_out = (uInt)(room - used);
        status = inflate(stream, Z_NO_FLUSH);
        used = room - stream->avail_out;
        if (used > limit) {
            return tide_fail(TIDE_ELIMIT, "more than %zu bytes unpacked", limit);
        }
        if (status != Z_OK && status != Z_STREAM_END) {
            return tide_fail(TIDE_EINVAL, "damaged or truncated gzip data");
        }
    }
    *out_size = used;
    return 0;
}

int tide_gzip_unpack(const void *data, size_t size, size_t limit, uint8_t **out, size_t *out_size) {
    z_stream stream = {0};
    if (size > UINT32_MAX || limit > (size_t)1 << 30) {
        return tide_fail(TIDE_ELIMIT, "%zu bytes are more than is read at once", size);
    }
    if (inflateInit2(&stream, 15 + 16) != Z_OK) { /* largest window; gzip's header */
        return TIDE_ENOMEM;
    }
    stream.next_in = (Bytef *)(uintptr_t)data;
    stream.avail_in = (uInt)size;
    *out = NULL;
    int code = unpack(&stream, limit, out, out_size);
    inflateEnd(&stream);
    if (code != 0) {
        tide_free(*out);
        *out = NULL;
    }
    return code;
}
