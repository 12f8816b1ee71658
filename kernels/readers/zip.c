/* Reading zip archives: the directory at the end, members stored or deflated, zip64 sizes. */
#include "readers/npy.h"

#include "base/base.h"

#include <string.h>
#include <zlib.h>

enum { END_SIZE = 22, COMMENT_MOST = 65535, ENTRY_SIZE = 46, LOCAL_SIZE = 30, LOCATOR_SIZE = 20, END64_SIZE = 56 };
enum { END_MARK = 0x06054b50, ENTRY_MARK = 0x02014b50, LOCAL_MARK = 0x04034b50, LOCATOR_MARK = 0x07064b50 };
static const uint32_t end64_mark = 0x06064b50;

static uint16_t two(const uint8_t *at) {
    return (uint16_t)(at[0] | at[1] << 8);
}

static uint32_t four(const uint8_t *at) {
    return (uint32_t)two(at) | (uint32_t)two(at + 2) << 16;
}

static uint64_t eight(const uint8_t *at) {
    return (uint64_t)four(at) | (uint64_t)four(at + 4) << 32;
}

int tide_zip_open(const void *data, size_t size, struct tide_zip *out) {
    const uint8_t *bytes = data;
    if (size < END_SIZE) {
        return tide_fail(TIDE_EINVAL, "byte 0: %zu bytes are no zip archive", size);
    }
    size_t end = size - END_SIZE;
    const size_t least = end > COMMENT_MOST ? end - COMMENT_MOST : 0;
    while (end > least && four(bytes + end) != END_MARK) {
        end--;
    }
    if (four(bytes + end) != END_MARK) {
        return tide_fail(TIDE_EINVAL, "byte %zu: the zip archive has no directory: it is cut off", size);
    }
    uint64_t length = four(bytes + end + 12), at = four(bytes + end + 16);
    if (end >= LOCATOR_SIZE && four(bytes + end - LOCATOR_SIZE) == LOCATOR_MARK) {
        const uint64_t there = eight(bytes + end - LOCATOR_SIZE + 8);
        if (size < END64_SIZE || there > size - END64_SIZE || four(bytes + there) != end64_mark) {
            return tide_fail(TIDE_EINVAL, "byte %zu: the zip archive has no zip64 directory where it says", end);
        }
        length = eight(bytes + there + 40);
        at = eight(bytes + there + 48);
    }
    if (at > end || length > end - at) {
        return tide_fail(TIDE_EINVAL, "byte %zu: the zip archive's directory lies outside of the file", end);
    }
    *out = (struct tide_zip){.data = bytes, .size = size, .at = (size_t)at, .end = (size_t)(at + length)};
    return 0;
}

/* The extra field of zip64: the values of those of the three that are all ones, in this order. */
static int wide_sizes(const uint8_t *extra, size_t size, uint64_t *values[3]) {
    while (size >= 4) {
        const size_t length = two(extra + 2);
        if (length > size - 4) {
            break;
        }
        if (two(extra) == 1) {
            const uint8_t *at = extra + 4;
            size_t left = length;
            for (int i = 0; i < 3; i++) {
                if (*values[i] != UINT32_MAX) {
                    continue;
                }
                if (left < 8) {
                    return -1;
                }
                *values[i] = eight(at);
                at += 8;
                left -= 8;
            }
            return 0;
        }
        extra += 4 + length;
        size -= 4 + length;
    }
    return 0;
}

int tide_zip_next(struct tide_zip *zip, struct tide_zip_member *out) {
    if (zip->at == zip->end) {
        return 0;
    }
    const uint8_t *entry = zip->data + zip->at;
    const size_t left = zip->end - zip->at;
    if (left < ENTRY_SIZE || four(entry) != ENTRY_MARK) {
        return tide_fail(TIDE_EINVAL, "byte %zu: the zip archive's directory is damaged", zip->at);
    }
    const size_t name = two(entry + 28), extra = two(entry + 30), comment = two(entry + 32);
    if (ENTRY_SIZE + name + extra + comment > left) {
        return tide_fail(TIDE_EINVAL, "byte %zu: the zip archive's directory is cut off", zip->at);
    }
    uint64_t packed = four(entry + 20), size = four(entry + 24), at = four(entry + 42);
    if (wide_sizes(entry + ENTRY_SIZE + name, extra, (uint64_t *[]){&size, &packed, &at}) < 0) {
        return tide_fail(TIDE_EINVAL, "byte %zu: sizes of the zip archive's directory are missing", zip->at);
    }
    if (zip->size < LOCAL_SIZE || at > zip->size - LOCAL_SIZE || four(zip->data + at) != LOCAL_MARK) {
        return tide_fail(TIDE_EINVAL, "byte %zu: a member of the zip archive is not where the directory says", zip->at);
    }
    const uint64_t begin = at + LOCAL_SIZE + two(zip->data + at + 26) + two(zip->data + at + 28);
    if (begin > zip->size || packed > zip->size - begin) {
        return tide_fail(TIDE_EINVAL, "byte %zu: a member of the zip archive is cut off", (size_t)at);
    }
    if (two(entry + 8) & 1) {
        return tide_fail(TIDE_EUNSUPPORTED, "byte %zu: a member of the zip archive is encrypted", zip->at);
    }
    *out = (struct tide_zip_member){.name = (const char *)entry + ENTRY_SIZE,
                                    .name_size = name,
                                    .method = two(entry + 10),
                                    .crc = four(entry + 16),
                                    .packed = (size_t)packed,
                                    .size = (size_t)size,
                                    .bytes = zip->data + begin};
    zip->at += ENTRY_SIZE + name + extra + comment;
    return 1;
}

static int wrong(const struct tide_zip_member *m, const char *what) {
    return tide_fail(TIDE_EINVAL, "member %.*s of the zip archive %s", m->name_size < 80 ? (int)m->name_size : 80,
                     m->name, what);
}

/* All of a deflated member; at most `size` bytes, and as many. */
static int inflate_all(const struct tide_zip_member *m, uint8_t *to) {
    z_stream stream = {0};
    size_t in = 0, made = 0;
    if (inflateInit2(&stream, -15) != Z_OK) { /* largest window; no header */
        return tide_fail(TIDE_ENOMEM, "out of memory: a zip archive");
    }
    int status = Z_OK;
    while (status == Z_OK) {
        const size_t give = m->packed - in < 1 << 30 ? m->packed - in : 1 << 30;
        const size_t room = m->size - made < 1 << 30 ? m->size - made : 1 << 30;
        stream.next_in = (Bytef *)(uintptr_t)(m->bytes + in);
        stream.avail_in = (uInt)give;
        stream.next_out = to + made;
        stream.avail_out = (uInt)room;
        status = inflate(&stream, Z_NO_FLUSH);
        const size_t used = give - stream.avail_in, got = room - stream.avail_out;
        in += used;
        made += got;
        if (used == 0 && got == 0) {
            break;
        }
    }
    inflateEnd(&stream);
    return status == Z_STREAM_END && made == m->size ? 0 : wrong(m, "is damaged");
}

uint32_t tide_zip_sum(const void *data, size_t size) {
    uLong crc = crc32(0, NULL, 0);
    for (size_t at = 0; at < size;) {
        const size_t some = size - at < 1 << 30 ? size - at : 1 << 30;
        crc = crc32(crc, (const uint8_t *)data + at, (uInt)some);
        at += some;
    }
    return (uint32_t)crc;
}

int tide_zip_unpack(const struct tide_zip_member *m, size_t limit, uint8_t **owned, const uint8_t **bytes) {
    *owned = NULL;
    if (m->method != 0 && m->method != 8) {
        char text[80];
        (void)snprintf(text, sizeof text, "is packed by method %u; stored and deflated ones are read", m->method);
        (void)wrong(m, text);
        return TIDE_EUNSUPPORTED;
    }
    if (m->size > limit) {
        (void)wrong(m, "is larger than the memory");
        return TIDE_ELIMIT;
    }
    if (m->method == 0) {
        if (m->packed != m->size) {
            return wrong(m, "is damaged");
        }
        *bytes = m->bytes;
    } else {
        *owned = tide_alloc(m->size + 1);
        if (!*owned) {
            return TIDE_ENOMEM;
        }
        int code = inflate_all(m, *owned);
        if (code < 0) {
            tide_free(*owned);
            *owned = NULL;
            return code;
        }
        *bytes = *owned;
    }
    if (tide_zip_sum(*bytes, m->size) != m->crc) {
        tide_free(*owned);
        *owned = NULL;
        return wrong(m, "is damaged: its checksum differs");
    }
    return 0;
}
