/*
 * A table that is only read, outside of the cluster that trains it: rows of a checkpoint directory.
 *
 * A reader loads the newest generation and follows those that come: if a new one is built on the one it has, it reads
 * the changes alone. All files of a version are verified before a row of it shows. A version never changes: a lookup
 * takes one, and sees it for all its keys. When the directory is damaged, gone, or of another table, the reader says so
 * and keeps what it has. So it serves when training is dead.
 *
 * A version is a base of all rows and an overlay of what changed since; the overlay becomes part of a new base when it
 * is a quarter as large. Lookups: any thread. Refreshing: one thread at a time.
 */
#ifndef TIDE_STORE_READER_H
#define TIDE_STORE_READER_H

#include "store/core/table.h"

struct tide__reader;
struct tide__reader_info {
    uint64_t generation, id; /* id: random, of the generation */
    uint64_t rows, bytes;    /* bytes: of memory */
    uint64_t cut_wall_ns;    /* the rows are at least as new */
    uint32_t width;
    uint64_t loaded; /* generations whose files were read so far */
    uint64_t read;   /* rows that were read from files so far */
};

/* Loads the newest generation. `table`: its name, or what follows the point in "RUN.NAME" if that is unique. ENOENT,
 * EPROTO (damaged), ENOMEM. */
int tide__reader_open(struct tide_port *port, const char *dir, const char *table, struct tide__reader **out);
/* 1: a newer generation was loaded; 0: there is none; or an error, after which the reader has what it had: EMISMATCH
 * (another table, or generations older than what it has), ENOENT, EPROTO, EIO, ENOMEM. */
int tide__reader_refresh(struct tide__reader *reader);
/* Rows of `keys`, all of one version; keys without one have their initial values. `found` (or NULL): 1 where there was
 * one. Returns the version's generation. */
uint64_t tide__reader_pull(struct tide__reader *reader, const uint64_t *keys, size_t count, float *rows,
                           uint8_t *found);
void tide__reader_look(struct tide__reader *reader, struct tide__reader_info *out);
/* How much older than now, by the wall clock, the rows may be, ns. */
uint64_t tide__reader_behind(struct tide__reader *reader);
void tide__reader_close(struct tide__reader *reader); /* no lookup runs */

/* What changed from generation `since` (0: the beginning) to the newest: keys ascending with their rows, and keys that
 * are gone. `from` is 0 if the chain does not reach back: then these are all rows. *gives* its arrays. */
struct tide__patch {
    uint64_t from, to, id;
    uint32_t width;
    uint64_t *keys, *gone;
    float *values;
    size_t count, gone_count;
    char table[64];
};
int tide__patch_read(struct tide_port *port, const char *dir, const char *table, uint64_t since,
                     struct tide__patch *out);
void tide__patch_release(struct tide__patch *patch);

#endif
