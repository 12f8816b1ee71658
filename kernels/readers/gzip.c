/* Unpacking gzip by zlib. Input is foreign: everything is checked. */
#include "readers/gzip.h"

#include "base/base.h"
#include "names.h"

#include <string.h>
#include <zlib.h>

enum { PIECE = 256 << 10 };

struct tide_gunzip {
    z_stream stream;
    bool whole; /* the last member's end was seen, and nothing after it */
    char piece[PIECE];
};

bool tide_gzip_is(const void *data, size_t size) {
    const uint8_t *at = data;
    return size >= 2 && at[0] == 0x1f && at[1] == 0x8b;
}

int tide_gunzip_create(struct tide_gunzip **out) {
    struct tide_gunzip *g = tide_alloc(sizeof *g);
    if (!g) {
        return TIDE_ENOMEM;
    }
    g->stream = (z_stream){0};
    g->whole = false;
    if (inflateInit2(&g->stream, 15 + 16) != Z_OK) { /* largest window; gzip's header */
        tide_free(g);
        return tide_fail(TIDE_ENOMEM, "out of memory: a gzip stream");
    }
    *out = g;
    return 0;
}

void tide_gunzip_destroy(struct tide_gunzip *g) {
    if (g) {
        inflateEnd(&g->stream);
        tide_free(g);
    }
}

/* One call of inflate; gives the sink what came of it. */
static int unpack_piece(struct tide_gunzip *g, struct tide_sink sink) {
    if (g->whole) {
        inflateReset(&g->stream);
        g->whole = false;
    }
    g->stream.next_out = (Bytef *)g->piece;
    g->stream.avail_out = PIECE;
    int status = inflate(&g->stream, Z_NO_FLUSH);
    if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR) {
        return tide_fail(TIDE_EINVAL, "damaged gzip data");
    }
    g->whole = status == Z_STREAM_END;
    size_t made = PIECE - g->stream.avail_out;
    return made > 0 ? sink.write(sink.arg, g->piece, made) : 0;
}

int tide_gunzip_feed(struct tide_gunzip *g, const void *data, size_t size, struct tide_sink sink) {
    const uint8_t *at = data;
    int code = 0;
    while (size > 0 && code == 0) {
        uInt part = size < (1U << 30) ? (uInt)size : 1U << 30;
        g->stream.next_in = (Bytef *)(uintptr_t)at;
        g->stream.avail_in = part;
        do { /* a full piece may have more behind it, though all input is taken */
            code = unpack_piece(g, sink);
        } while (code == 0 && (g->stream.avail_in > 0 || (g->stream.avail_out == 0 && !g->whole)));
        at += part;
        size -= part;
    }
    return code;
}

int tide_gunzip_end(const struct tide_gunzip *g) {
    return g->whole ? 0 : tide_fail(TIDE_EINVAL, "gzip data that ends too early");
}

struct whole {
    char *data;
    size_t size, capacity, limit;
};

static int append(void *arg, const char *data, size_t size) {
    struct whole *w = arg;
    if (size > w->limit - w->size) {
        return tide_fail(TIDE_ELIMIT, "more than %zu bytes unpacked", w->limit);
    }
    int code = tide_array_grow(&w->data, &w->capacity, w->size + size, 1);
    if (code == 0) {
        memcpy(w->data + w->size, data, size);
        w->size += size;
    }
    return code;
}

int tide_gzip_unpack(const void *data, size_t size, size_t limit, uint8_t **out, size_t *out_size) {
    struct whole whole = {.limit = limit};
    struct tide_gunzip *g = NULL;
    int code = tide_gunzip_create(&g);
    code = code ? code : tide_gunzip_feed(g, data, size, (struct tide_sink){&whole, append});
    code = code ? code : tide_gunzip_end(g);
    tide_gunzip_destroy(g);
    if (code) {
        tide_free(whole.data);
        whole = (struct whole){0};
    }
    *out = (uint8_t *)whole.data;
    *out_size = whole.size;
    return code;
}
