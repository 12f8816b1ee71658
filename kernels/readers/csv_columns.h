/* Typed columns of a table of text, for csv.c alone. Any thread. */
#ifndef TIDE_CSV_COLUMNS_H
#define TIDE_CSV_COLUMNS_H

#include "readers/csv.h"

struct tide__csv_place {
    const struct tide_csv_options *o;
    size_t line, row; /* line from 1; row of the columns from 0 */
};

/* EPROTO: "NAME: line N: column C: what" */
int tide__csv_bad(const struct tide__csv_place *place, size_t column, const char *what);
/* A number as the options write it; nan and inf are numbers. */
bool tide__csv_number(const struct tide_csv_options *o, const char *text, size_t size, double *out);
/* The cell of a row; `number` of the column from 1. EPROTO, ENOMEM, ELIMIT. */
int tide__csv_add(const struct tide__csv_place *place, struct tide_csv_column *c, size_t number, const char *text,
                  size_t size);
/* After the last row: decides what no row did. */
int tide__csv_finish(const struct tide__csv_place *place, struct tide_csv_column *c, size_t number);

#endif
