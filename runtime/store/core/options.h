/* The options of a table: checked, compared, written and read (options.c, consistency.c). */
#ifndef TIDE_STORE_OPTIONS_H
#define TIDE_STORE_OPTIONS_H

#include "store/core/store.h"
#include "wire/wire.h"

/* A row of option.def. */
struct tide__option {
    const char *name, *said;
    const char *doc;          /* of the field of tide.table; NULL: there is none of its name */
    const char *const *words; /* NULL: a number, or `text` */
    size_t offset, size;      /* in struct tide_table_options */
    uint64_t most;
    bool real, text, first, of_run;
};
extern const struct tide__option tide__options[]; /* a row without a name ends them */
const char *tide__option_text(const struct tide__option *option, const struct tide_table_options *options);
uint64_t tide__option_get(const struct tide__option *option, const struct tide_table_options *options);
float tide__option_real(const struct tide__option *option, const struct tide_table_options *options);
/* A value of at most option->most. */
void tide__option_set(const struct tide__option *option, struct tide_table_options *options, uint64_t value);
void tide__option_set_real(const struct tide__option *option, struct tide_table_options *options, float value);
char *tide__option_room(const struct tide__option *option, struct tide_table_options *options); /* of a text: size */

/* By name. The reader also takes the list that versions before wrote to their journals. */
void tide__options_write(struct tide_writer *w, const struct tide_table_options *options);
int tide__options_read(struct tide_reader *r, struct tide_table_options *options, char name[64]);
int tide__options_check(struct tide_table_options *options); /* and fills in defaults */
/* 0, or EMISMATCH with what differs, of both: checked options. */
int tide__options_agree(const struct tide_table_options *there, const struct tide_table_options *wanted);
uint64_t tide__tier_memory_least(const struct tide_table_options *options); /* bytes; `disk` */
int tide__hot_check(const struct tide_table_options *options);              /* may keys have copies? */
enum { TIDE__AGE_MS = 50, TIDE__AGE_MS_MAX = 3600000 };
int tide__consistency_check(struct tide_table_options *options);
bool tide__consistency_equal(const struct tide_consistency *x, const struct tide_consistency *y);
void tide__consistency_write(struct tide_writer *w, const struct tide_table_options *options);
int tide__consistency_read(struct tide_reader *r, struct tide_table_options *options);

#endif
