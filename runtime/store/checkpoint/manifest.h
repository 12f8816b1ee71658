/*
 * MANIFEST.json of a generation: what it is made of. One object on one line,
 * {"crc32c":"xxxxxxxx","manifest":{...}}, where the sum is over the inner object's text; a single
 * flipped bit anywhere makes it invalid. docs/guides/checkpoints.md lists the fields.
 */
#ifndef TIDE_STORE_MANIFEST_H
#define TIDE_STORE_MANIFEST_H

#include "store/core/table.h"

enum {
    TIDE__MANIFEST_FORMAT = 1,
    TIDE__INCREMENTS_MAX = 64,
    TIDE__MANIFEST_MAX = 16 << 20,
    TIDE__FILE_NAME_MAX = 128,
};

struct tide__manifest_file {
    char name[TIDE__FILE_NAME_MAX];
    uint64_t rows, size, sums_size;
    uint32_t sums_sum;
};
struct tide__manifest_table {
    struct tide_table_options options;
    float rate; /* learning rate in force */
    char name[64];
    uint32_t run; /* number of the run that owns it; 0: none; UINT32_MAX: earlier versions did not say */
    struct tide__manifest_file *files;
    size_t file_count;
    uint64_t map_version;
};
struct tide__manifest {
    uint64_t format, generation, id, view, bytes, rows;
    uint64_t wall_ns;     /* when it was committed */
    uint64_t cut_wall_ns; /* before its cut: rows are at least as new */
    uint32_t clock;       /* TIDE_NO_CLOCK: fuzzy */
    bool full;
    char program[32];
    uint64_t chain[TIDE__INCREMENTS_MAX]; /* generations it is built of, the full one first, itself last */
    size_t chain_count;
    uint32_t *nodes; /* ids of those that wrote */
    size_t node_count;
    struct tide__manifest_table *tables;
    size_t table_count;
    uint32_t *workers, *clocks; /* of workers that ran */
    size_t worker_count;
    void *job; /* one msgpack value: what the job saved with it */
    size_t job_size;
};

/* *gives* the text. Slot maps are taken from `store`'s tables (NULL: left out). */
int tide__manifest_write(const struct tide__manifest *m, struct tide_store *store, char **text, size_t *size);
/* EPROTO (damaged; says what), EVERSION (another format), ENOMEM. Release also after a failure. */
int tide__manifest_parse(const char *text, size_t size, struct tide__manifest *out);
void tide__manifest_release(struct tide__manifest *m);

#endif
