/* See blocks.h. */
#include "store/checkpoint/blocks.h"

#include "actor/actor.h"

#include <string.h>

static const char magic[8] = {'T', 'I', 'D', 'E', 'C', 'R', 'C', '1'};
enum { SUMS_HEAD = 24, SUMS_MAX = 64 << 20 };

/* ---- sums ---- */

static int damaged_sums(const char *what) {
    return tide_fail(TIDE_EPROTO, "the block sums are damaged: %s", what);
}

int tide__sums_parse(const void *data, size_t size, struct tide__sums *out) {
    const uint8_t *at = data;
    uint32_t block = 0, count = 0, sum = 0;
    *out = (struct tide__sums){0};
    if (size < SUMS_HEAD + sizeof sum || memcmp(at, magic, sizeof magic) != 0) {
        return damaged_sums("they do not begin as such");
    }
    memcpy(&out->size, at + 8, sizeof out->size);
    memcpy(&block, at + 16, sizeof block);
    memcpy(&count, at + 20, sizeof count);
    memcpy(&sum, at + size - sizeof sum, sizeof sum);
    if (sum != tide_crc32c(0, data, size - sizeof sum)) {
        return damaged_sums("their own sum differs");
    }
    if (block != TIDE__BLOCK_BYTES || size != SUMS_HEAD + ((uint64_t)count + 1) * sizeof sum ||
        count != out->size / block + (out->size % block != 0)) {
        return damaged_sums("their number does not fit the file's size");
    }
    out->sums = tide_alloc(((size_t)count + 1) * sizeof *out->sums);
    if (!out->sums) {
        return tide_fail(TIDE_ENOMEM, "no memory for %u block sums", count);
    }
    memcpy(out->sums, at + SUMS_HEAD, count * sizeof *out->sums);
    out->count = count;
    return 0;
}

void tide__sums_release(struct tide__sums *sums) {
    tide_free(sums->sums);
    sums->sums = NULL;
}

/* ---- small files ---- */

/* ENOSPC and others that say too little get a text that says which file. */
static int failed(int code, const char *path) {
    if (code == TIDE_ENOSPC) {
        return tide_fail(code, "no space left for '%s'", path);
    }
    if (code == TIDE_ENOMEM) {
        return tide_fail(code, "no memory to write '%s'", path);
    }
    return code;
}

static int move_in(struct tide_port *port, const char *temporary, const char *path) {
    int code = port->ops->file_rename(port, temporary, path);
    if (code) {
        char text[500];
        (void)snprintf(text, sizeof text, "%s", tide_error_message());
        (void)port->ops->file_unlink(port, temporary);
        tide_fail(code, "%s", text);
    }
    return code;
}

int tide__file_commit(struct tide_port *port, const char *path, const void *data, size_t size) {
    char temporary[TIDE__PATH_MAX + 8];
    struct tide_file *file = NULL;
    (void)snprintf(temporary, sizeof temporary, "%s.tmp", path);
    int code = port->ops->file_open(port, temporary, TIDE_FILE_WRITE | TIDE_FILE_CREATE | TIDE_FILE_TRUNCATE, &file);
    if (code) {
        return failed(code, path);
    }
    code = size ? port->ops->file_write(file, data, size, 0) : 0;
    code = code || TIDE_MUTANT(no_sync_before_rename) ? code : port->ops->file_sync(file);
    port->ops->file_close(file);
    if (code) {
        char text[500];
        (void)snprintf(text, sizeof text, "%s", tide_error_message());
        (void)port->ops->file_unlink(port, temporary);
        tide_fail(code, "%s", text);
        return failed(code, path);
    }
    return move_in(port, temporary, path);
}

/* ---- writing ---- */

static void temporary_of(const struct tide__blocks *b, char out[TIDE__PATH_MAX + 8]) {
    (void)snprintf(out, TIDE__PATH_MAX + 8, "%s.tmp", b->path);
}

void tide__blocks_open(struct tide__blocks *b, struct tide_port *port, const char *path) {
    char temporary[TIDE__PATH_MAX + 8];
    memset(b, 0, sizeof *b);
    b->port = port;
    tide_writer_init(&b->sums, NULL, 0);
    if (snprintf(b->path, sizeof b->path, "%s", path) >= (int)sizeof b->path - 8) {
        b->error = tide_fail(TIDE_EINVAL, "a path of %zu characters", strlen(path));
        return;
    }
    (void)tide_write_reserve(&b->sums, SUMS_HEAD);
    temporary_of(b, temporary);
    b->error =
        failed(port->ops->file_open(port, temporary,
                                    TIDE_FILE_WRITE | TIDE_FILE_CREATE | TIDE_FILE_TRUNCATE | TIDE_FILE_ONCE, &b->file),
               b->path);
}

static void end_block(struct tide__blocks *b) {
    void *out = tide_write_reserve(&b->sums, sizeof b->sum);
    if (out) {
        memcpy(out, &b->sum, sizeof b->sum);
    }
    b->sum = 0;
}

void tide__blocks_write(struct tide__blocks *b, const void *data, size_t size) {
    const uint8_t *from = data;
    while (size > 0 && !b->error) {
        size_t room = TIDE__BLOCK_BYTES - (size_t)(b->at % TIDE__BLOCK_BYTES);
        size_t now = size < room ? size : room;
        b->error = failed(b->port->ops->file_write(b->file, from, now, b->at), b->path);
        b->sum = tide_crc32c(b->sum, from, now);
        b->at += now;
        from += now;
        size -= now;
        if (now == room) {
            end_block(b);
            if (tide_fiber_current()) {
                (void)tide_yield();
            }
        }
    }
}

static void seal_sums(struct tide__blocks *b) {
    const uint32_t block = TIDE__BLOCK_BYTES, count = (uint32_t)((b->sums.size - SUMS_HEAD) / sizeof(uint32_t));
    memcpy(b->sums.data, magic, sizeof magic);
    memcpy(b->sums.data + 8, &b->at, sizeof b->at);
    memcpy(b->sums.data + 16, &block, sizeof block);
    memcpy(b->sums.data + 20, &count, sizeof count);
    uint32_t sum = tide_crc32c(0, b->sums.data, b->sums.size);
    void *out = tide_write_reserve(&b->sums, sizeof sum);
    if (out) {
        memcpy(out, &sum, sizeof sum);
    }
}

int tide__blocks_finish(struct tide__blocks *b) {
    char temporary[TIDE__PATH_MAX + 8], name[TIDE__PATH_MAX + 8];
    temporary_of(b, temporary);
    if (!b->error) {
        if (b->at % TIDE__BLOCK_BYTES) {
            end_block(b);
        }
        seal_sums(b);
        b->error = b->sums.error ? failed(TIDE_ENOMEM, b->path) : 0;
    }
    if (!b->error && !TIDE_MUTANT(no_sync_before_rename)) {
        b->error = b->port->ops->file_sync(b->file);
    }
    if (b->file) {
        b->port->ops->file_close(b->file);
    }
    if (!b->error) {
        (void)snprintf(name, sizeof name, "%s.crc", b->path);
        b->sums_size = b->sums.size;
        b->sums_sum = tide_crc32c(0, b->sums.data, b->sums.size);
        b->error = tide__file_commit(b->port, name, b->sums.data, b->sums.size);
    }
    if (b->error) {
        char text[500];
        (void)snprintf(text, sizeof text, "%s", tide_error_message());
        (void)b->port->ops->file_unlink(b->port, temporary);
        tide_fail(b->error, "%s", text);
    } else {
        b->error = move_in(b->port, temporary, b->path);
    }
    tide_writer_release(&b->sums);
    return b->error;
}

/* ---- checking ---- */

static int check_blocks(struct tide_port *port, struct tide_file *file, const char *path, const struct tide__sums *sums,
                        uint8_t *block) {
    for (size_t i = 0; i < sums->count; i++) {
        const uint64_t from = (uint64_t)i * TIDE__BLOCK_BYTES;
        const size_t wanted = sums->size - from < TIDE__BLOCK_BYTES ? (size_t)(sums->size - from) : TIDE__BLOCK_BYTES;
        ssize_t got = port->ops->file_read(file, block, wanted, from);
        if (got < 0) {
            return (int)got;
        }
        if ((size_t)got != wanted ||
            (tide_crc32c(0, block, wanted) != sums->sums[i] && !TIDE_MUTANT(sums_not_verified))) {
            return tide_fail(TIDE_EPROTO, "'%s': block %zu of %zu (bytes %llu to %llu) is damaged", path, i + 1,
                             sums->count, (unsigned long long)from, (unsigned long long)(from + wanted));
        }
    }
    return 0;
}

int tide__blocks_verify(struct tide_port *port, const char *path, uint64_t size, uint64_t sums_size,
                        uint32_t sums_sum) {
    char name[TIDE__PATH_MAX + 8], *text;
    struct tide__sums sums = {0};
    struct tide_file *file = NULL;
    struct tide_file_info info;
    size_t text_size = 0;
    (void)snprintf(name, sizeof name, "%s.crc", path);
    int code = tide_port_slurp(port, name, SUMS_MAX, &text, &text_size);
    if (code) {
        return tide_fail(code, "'%s' cannot be read: %s", name, tide_error_name(code));
    }
    if (text_size != sums_size || tide_crc32c(0, text, text_size) != sums_sum) {
        code = tide_fail(TIDE_EPROTO, "'%s' is not the one that was written", name);
    }
    code = code ? code : tide__sums_parse(text, text_size, &sums);
    tide_free(text);
    code = code ? code : port->ops->file_info(port, path, &info);
    if (code == TIDE_ENOENT) {
        tide_fail(code, "'%s' is missing", path);
    }
    if (!code && (info.size != size || sums.size != size)) {
        code = tide_fail(TIDE_EPROTO, "'%s' has %llu bytes, %llu were written: block %llu is cut", path,
                         (unsigned long long)info.size, (unsigned long long)size,
                         (unsigned long long)((info.size < size ? info.size : size) / TIDE__BLOCK_BYTES + 1));
    }
    uint8_t *block = code ? NULL : tide_alloc(TIDE__BLOCK_BYTES);
    if (!code && !block) {
        code = tide_fail(TIDE_ENOMEM, "no memory to check '%s'", path);
    }
    code = code ? code : port->ops->file_open(port, path, TIDE_FILE_READ, &file);
    if (!code) {
        code = check_blocks(port, file, path, &sums, block);
        port->ops->file_close(file);
    }
    tide_free(block);
    tide__sums_release(&sums);
    return code;
}
