/* A scratch file of bytes: appended to, then read anywhere. Each block has a sum that is checked when it is read; the
 * file is removed when it is closed. One thread at a time; every call waits for the disk. */
#ifndef TIDE_LUA_SPOOL_H
#define TIDE_LUA_SPOOL_H

#include "port/port.h"

struct tide__spool;

/* *gives*. Errors: of the file, ENOMEM. The path is copied. */
int tide__spool_open(struct tide_port *port, const char *path, struct tide__spool **out);
/* Errors: of the file, ENOMEM; then the spool is good for closing only. */
int tide__spool_append(struct tide__spool *spool, const void *data, size_t size);
/* EINVAL: behind the end. EPROTO: a block is damaged. */
int tide__spool_read(struct tide__spool *spool, uint64_t at, void *out, size_t size);
uint64_t tide__spool_size(const struct tide__spool *spool);
void tide__spool_close(struct tide__spool *spool); /* NULL allowed */

#endif
