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

enum { TIDE__RECORDS_HEADER = 16, TIDE__RECORD_HEAD = 16 };

/* EPROTO: the file is not `what`; EVERSION. */
int tide__records_check(const void *data, size_t size, const char magic[8], uint32_t version,
                        const char *what);
/* The payload of the record at `at`; NULL: there is none that is whole. */
const uint8_t *tide__record_at(const void *data, size_t size, size_t at, uint32_t *length);
/* Is there a whole record anywhere from `at` on? */
bool tide__records_follow(const void *data, size_t size, size_t at);
/* Appends at *at and moves it; not synced. The header goes to the beginning. */
int tide__record_write(struct tide_file *file, const struct tide_port *port, uint64_t *at,
                       const struct tide_writer *payload);
int tide__records_begin(struct tide_file *file, const struct tide_port *port, const char magic[8],
                        uint32_t version);
/* Makes the directory, and its name durable: records nobody finds again are none. */
int tide__records_directory(struct tide_port *port, const char *directory);

#endif
