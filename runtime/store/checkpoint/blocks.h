/*
 * Files with a sum for each block: what a checkpoint is made of. FILE is written as FILE.tmp with
 * FILE.crc.tmp beside it; both are synced, then renamed, the sums first. Nothing but a whole file
 * ever has the final name.
 *
 * FILE.crc: "TIDECRC1", u64 size of FILE, u32 block size, u32 count, count x u32 CRC-32C of a
 * block, u32 CRC-32C of all before; little-endian.
 */
#ifndef TIDE_STORE_BLOCKS_H
#define TIDE_STORE_BLOCKS_H

#include "port/port.h"
#include "wire/wire.h"

enum { TIDE__BLOCK_BYTES = 1 << 20, TIDE__PATH_MAX = 4096 };

struct tide__sums {
    uint64_t size;
    uint32_t *sums;
    size_t count;
};
/* The bytes of a .crc file. EPROTO (says what), ENOMEM. Release also after a failure. */
int tide__sums_parse(const void *data, size_t size, struct tide__sums *out);
void tide__sums_release(struct tide__sums *sums);

/* A file being written from its begin to its end. The first failure sticks. */
struct tide__blocks {
    struct tide_port *port;
    struct tide_file *file;
    char path[TIDE__PATH_MAX]; /* final */
    uint64_t at;
    uint32_t sum; /* of the open block */
    struct tide_writer sums;
    uint32_t sums_sum; /* after finish: of the .crc file */
    uint64_t sums_size;
    int error;
};
void tide__blocks_open(struct tide__blocks *b, struct tide_port *port, const char *path);
/* On a fiber others run between two blocks. */
void tide__blocks_write(struct tide__blocks *b, const void *data, size_t size);
/* Syncs and renames; or, after a failure, removes what was written. */
int tide__blocks_finish(struct tide__blocks *b);

/*
 * Checks `path` against its .crc, whose own size and sum are known. 0, or EPROTO with file and
 * block in the text, ENOENT, EIO.
 */
int tide__blocks_verify(struct tide_port *port, const char *path, uint64_t size, uint64_t sums_size, uint32_t sums_sum);

/* Writes, syncs and renames a small file in one go; leaves nothing else after a failure. */
int tide__file_commit(struct tide_port *port, const char *path, const void *data, size_t size);

#endif
