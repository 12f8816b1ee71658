/* Rows in safetensors files: what saving a table and checkpoints share. */
#ifndef TIDE_STORE_SAVE_H
#define TIDE_STORE_SAVE_H

#include "store/core/table.h"
#include "wire/safetensors.h"

enum { TIDE__PARTS_MAX = 5 };

/* Where the floats of a row go: one tensor each. */
struct tide__part {
    const char *name;
    size_t offset, floats; /* in the row */
    uint64_t at;           /* in the file */
    bool is_use;           /* the use record of a table that forgets (forget.h) */
    uint16_t epoch;        /* of the use record: in which the file was written */
};
size_t tide__parts_of(const struct tide_table *table, struct tide__part parts[TIDE__PARTS_MAX]);
const char *tide__rule_name(uint8_t rule); /* "adam" */
/* What a file says of its table, for `tide__save_check`; points to itself. */
struct tide__save_about {
    char seed[24], epoch[24];
    struct tide_safetensors_pair pairs[5];
    size_t count;
};
void tide__save_about(const struct tide_table *table, struct tide__save_about *about);

/* Which keys of a file are not read. */
struct tide__save_filter {
    bool (*skips)(const void *arg, uint64_t key);
    const void *arg;
};
/* Reading, step by step: the header; does it fit the table (fills in where the parts lie); keys in
 * range and, if `ordered`, ascending; all rows, pushed with their state. */
int tide__save_header(struct tide_port *port, struct tide_file *file, const char *path, uint64_t file_size,
                      struct tide_safetensors *out);
int tide__save_check(const struct tide_table *table, const char *path, const struct tide_safetensors *s,
                     struct tide__part *parts, size_t part_count, uint64_t *count, uint64_t *keys_at);
int tide__save_check_keys(struct tide_table *table, struct tide_port *port, struct tide_file *file, const char *path,
                          uint64_t count, uint64_t keys_at, bool ordered);
int tide__save_read(struct tide_table *table, struct tide_port *port, struct tide_file *file, const char *path,
                    uint64_t count, uint64_t keys_at, const struct tide__part *parts, size_t part_count,
                    const struct tide__save_filter *filter);
/* The values of rows become these, whatever the rule; what it remembers stays. Fibers. */
int tide__table_assign(struct tide_table *table, const uint64_t *keys, size_t count, const float *values);
/* All rows become initial ones, on all nodes. */
int tide__table_clear(struct tide_table *table);

#endif
