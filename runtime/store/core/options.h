/* The options of a table: checked, compared, written and read (options.c, consistency.c). */
#ifndef TIDE_STORE_OPTIONS_H
#define TIDE_STORE_OPTIONS_H

#include "store/core/store.h"
#include "wire/wire.h"

void tide__options_write(struct tide_writer *w, const struct tide_table_options *options);
int tide__options_read(struct tide_reader *r, struct tide_table_options *options, char name[64]);
int tide__options_check(struct tide_table_options *options); /* and fills in defaults */
/* 0, or EMISMATCH with what differs, of both: checked options. */
int tide__options_agree(const struct tide_table_options *there, const struct tide_table_options *wanted);
int tide__hot_check(const struct tide_table_options *options); /* may keys have copies? */
enum { TIDE__AGE_MS = 50, TIDE__AGE_MS_MAX = 3600000 };
int tide__consistency_check(struct tide_table_options *options);
bool tide__consistency_equal(const struct tide_consistency *x, const struct tide_consistency *y);
void tide__consistency_write(struct tide_writer *w, const struct tide_table_options *options);
int tide__consistency_read(struct tide_reader *r, struct tide_table_options *options);

#endif
