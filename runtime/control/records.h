/*
 * Files of records: 16 bytes (magic, version of the format, nothing), then records
 *
 *   u32 mark, u32 length, u64 XXH3 of the payload under the length, payload
 *
 * A crash leaves at most a torn last record. A bad record that good ones follow is damage.
 */
#ifndef TIDE_NET_RECORDS_H
#define TIDE_NET_RECORDS_H

#include "wire/wire.h"

struct tide_port;
struct tide_file;

enum {
    TIDE__RECORDS_HEADER = 16,
    TIDE__RECORD_HEAD = 16,
    TIDE__RECORDS_PATH = 350, /* of a file and what is appended to its name meanwhile */
};

/* EPROTO: the file is not `what`; EVERSION. */
int tide__records_check(const void *data, size_t size, const char magic[8], uint32_t version, const char *what);
/* The payload of the record at `at`; NULL: there is none that is whole. */
const uint8_t *tide__record_at(const void *data, size_t size, size_t at, uint32_t *length);
/* Is there a whole record anywhere from `at` on? */
bool tide__records_follow(const void *data, size_t size, size_t at);
/* Appends at *at and moves it; not synced. */
int tide__record_write(struct tide_file *file, const struct tide_port *port, uint64_t *at,
                       const struct tide_writer *payload);
/*
 * A file that takes the place of `path`: created beside it with its header, written from *at on,
 * then synced and renamed, and *file, if any, is closed for it. `written`, what writing came to, is
 * passed on; after a failure everything is as before.
 */
int tide__records_create(struct tide_port *port, const char *path, const char magic[8], uint32_t version,
                         struct tide_file **out, uint64_t *at);
int tide__records_replace(struct tide_port *port, const char *path, struct tide_file *fresh, int written,
                          struct tide_file **file);
/* Makes the directory, and its name durable: records that cannot be found again are lost. */
int tide__records_directory(struct tide_port *port, const char *directory);

#endif
