/* Rows in safetensors files: what saving a table and checkpoints share. */
#ifndef TIDE_STORE_SAVE_H
#define TIDE_STORE_SAVE_H

#include "store/core/table.h"
#include "tide/rule.h"
#include "wire/safetensors.h"

enum { TIDE__PARTS_MAX = 2 + TIDE_RULE_STATES };

/* Where the floats of a row go: one tensor each. */
struct tide__part {
    char name[40];
    size_t offset, floats; /* in the row */
    uint64_t at;           /* in the file */
    bool is_use;           /* the use record of a table that forgets (forget.h) */
    uint16_t epoch;        /* of the use record: in which the file was written */
};
size_t tide__parts_of(const struct tide_table *table, struct tide__part parts[TIDE__PARTS_MAX]);
/* What a file says of its table, for `tide__save_check`; points to itself. */
struct tide__save_about {
    char seed[24], epoch[24], init[64];
    struct tide_safetensors_pair pairs[6];
    size_t count;
};
void tide__save_about(const struct tide_table *table, struct tide__save_about *about);

/* Which keys of a file are not read. */
struct tide__save_filter {
    bool (*skips)(const void *arg, uint64_t key);
    const void *arg;
};
/* A file of rows that is open for reading. */
struct tide__saved {
    struct tide_port *port;
    struct tide_file *file;
    const char *path; /* *borrows* */
    struct tide_safetensors header;
    /* of a table, by tide__saved_check */
    struct tide__part parts[TIDE__PARTS_MAX];
    size_t part_count;
    uint64_t count, keys_at; /* rows; keys in the file, 0: they are 0 .. count - 1 */
};
/* Reading, step by step: the header; does it fit the table (fills in where the parts lie); keys in
 * range and, if `ordered`, ascending; all rows, pushed with their state. */
int tide__saved_open(struct tide_port *port, const char *path, struct tide__saved *out);
int tide__saved_check(const struct tide_table *table, struct tide__saved *saved);
int tide__saved_check_keys(const struct tide_table *table, const struct tide__saved *saved, bool ordered);
int tide__saved_rows(struct tide_table *table, const struct tide__saved *saved, const struct tide__save_filter *filter);
/* All of these bytes of the file, or an error. */
int tide__saved_bytes(const struct tide__saved *saved, void *data, size_t size, uint64_t at);
void tide__saved_close(struct tide__saved *saved);
/* The values of rows become these, whatever the rule; what it remembers stays. Fibers. */
int tide__table_assign(struct tide_table *table, const uint64_t *keys, size_t count, const float *values);
/* All rows become initial ones, on all nodes. */
int tide__table_clear(struct tide_table *table);

#endif
