#include "lua/host/data/spool.h"

#include "base/base.h"
#include "names.h"

#include <string.h>

enum { BLOCK = 256 << 10 };
static const uint64_t NONE = UINT64_MAX;

struct tide__spool {
    struct tide_port *port;
    struct tide_file *file;
    char *path;
    uint32_t *sums; /* of the blocks that are written */
    size_t blocks, room;
    size_t filled; /* of the block behind them, in `tail` */
    uint64_t held; /* number of the block in `block`, or NONE */
    char tail[BLOCK], block[BLOCK];
};

int tide__spool_open(struct tide_port *port, const char *path, struct tide__spool **out) {
    struct tide__spool *s = tide_alloc(sizeof *s);
    const size_t size = strlen(path) + 1;
    char *copy = tide_alloc(size);
    int code = s && copy ? 0 : TIDE_ENOMEM;
    if (code == 0) {
        memcpy(copy, path, size);
        s->port = port;
        s->path = copy;
        s->sums = NULL;
        s->blocks = s->room = s->filled = 0;
        s->held = NONE;
        code = port->ops->file_open(port, path,
                                    TIDE_FILE_READ | TIDE_FILE_WRITE | TIDE_FILE_CREATE | TIDE_FILE_TRUNCATE, &s->file);
    }
    if (code < 0) {
        tide_free(copy);
        tide_free(s);
        return code;
    }
    *out = s;
    return 0;
}

static int put_block(struct tide__spool *s) {
    int code = tide_array_grow(&s->sums, &s->room, s->blocks + 1, sizeof *s->sums);
    code = code ? code : s->port->ops->file_write(s->file, s->tail, BLOCK, (uint64_t)s->blocks * BLOCK);
    if (code == 0) {
        s->sums[s->blocks++] = tide_crc32c(0, s->tail, BLOCK);
        s->filled = 0;
    }
    return code;
}

int tide__spool_append(struct tide__spool *s, const void *data, size_t size) {
    const char *from = data;
    int code = 0;
    while (size > 0 && code == 0) {
        const size_t part = size < BLOCK - s->filled ? size : BLOCK - s->filled;
        memcpy(s->tail + s->filled, from, part);
        s->filled += part;
        from += part;
        size -= part;
        code = s->filled == BLOCK ? put_block(s) : 0;
    }
    return code;
}

/* The bytes of a block: those that are written are read once, and kept until another one is wanted. */
static int get_block(struct tide__spool *s, uint64_t number, const char **out) {
    *out = number == s->blocks ? s->tail : s->block;
    if (number == s->blocks || number == s->held) {
        return 0;
    }
    s->held = NONE;
    for (size_t done = 0; done < BLOCK;) {
        const ssize_t got = s->port->ops->file_read(s->file, s->block + done, BLOCK - done, number * BLOCK + done);
        if (got <= 0) {
            return got < 0 ? (int)got
                           : tide_fail(TIDE_EPROTO, "%s: ends within block %llu", s->path, (unsigned long long)number);
        }
        done += (size_t)got;
    }
    if (tide_crc32c(0, s->block, BLOCK) != s->sums[number]) {
        return tide_fail(TIDE_EPROTO, "%s: block %llu is damaged", s->path, (unsigned long long)number);
    }
    s->held = number;
    return 0;
}

int tide__spool_read(struct tide__spool *s, uint64_t at, void *out, size_t size) {
    if (at > tide__spool_size(s) || size > tide__spool_size(s) - at) {
        return tide_fail(TIDE_EINVAL, "%s: no %zu bytes at %llu", s->path, size, (unsigned long long)at);
    }
    char *into = out;
    while (size > 0) {
        const char *block;
        int code = get_block(s, at / BLOCK, &block);
        if (code < 0) {
            return code;
        }
        const size_t from = (size_t)(at % BLOCK), part = size < BLOCK - from ? size : BLOCK - from;
        memcpy(into, block + from, part);
        into += part;
        at += part;
        size -= part;
    }
    return 0;
}

uint64_t tide__spool_size(const struct tide__spool *s) {
    return (uint64_t)s->blocks * BLOCK + s->filled;
}

void tide__spool_close(struct tide__spool *s) {
    if (s) {
        s->port->ops->file_close(s->file);
        (void)s->port->ops->file_unlink(s->port, s->path);
        tide_free(s->path);
        tide_free(s->sums);
        tide_free(s);
    }
}
