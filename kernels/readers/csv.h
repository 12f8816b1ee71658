/*
 * Tables of text (RFC 4180): a line of names, then a line a row, cells separated by one character, in double quotes
 * where they hold it, a quote (then twice) or an end of line. Blanks around a cell are no part of it. Fed piece by
 * piece, so memory is that of the result. Input is foreign: everything is checked, and what could be read in two ways
 * is refused with the option that decides; errors say "NAME: line N: column C: ...". Any thread.
 */
#ifndef TIDE_CSV_H
#define TIDE_CSV_H

#include "names.h"

enum { TIDE_CSV_COLUMNS_MAX = 4096, TIDE_CSV_CELL_MAX = 1 << 20 };

enum tide_csv_type {
    TIDE_CSV_UNKNOWN, /* numbers or classes, as its first cell with a value; all others must agree */
    TIDE_CSV_NUMBER,  /* f64; nan and inf are numbers */
    TIDE_CSV_INTEGER, /* i64 */
    TIDE_CSV_CLASS,   /* u32: a number for each distinct text, by first appearance */
    TIDE_CSV_TEXT,
    TIDE_CSV_SKIP,
    TIDE_CSV_TYPES
};

enum tide_csv_header {
    TIDE_CSV_HEADER_ASK, /* a line of names, and an error if it has numbers */
    TIDE_CSV_HEADER_YES,
    TIDE_CSV_HEADER_NO /* columns are called c1, c2, .. */
};

struct tide_csv_column {
    char *name;
    enum tide_csv_type type;
    bool declared; /* its type was asked for */
    void *values;  /* f64, i64 or u32, one a row; NULL of the others and without rows */
    size_t capacity;
    size_t absent, absent_line, not_finite; /* cells without a value and the line of the first; numbers nan and inf */
    struct tide_dictionary classes;
    char *pool; /* of texts: row i is pool + offsets[i], ended by a zero; offsets as of tide_names */
    size_t *offsets, pool_size, pool_capacity, offset_capacity;
};

struct tide_csv_options {
    const char *name; /* for errors */
    char separator;   /* 0: the one of , ; TAB | that cuts the first lines into equally many cells */
    char decimal;     /* of numbers; 0: a point */
    enum tide_csv_header header;
    bool has_missing; /* cells without a value (empty, NA, null, nan, ..) of numbers are `missing`; else an error */
    double missing;
    const struct {
        const char *name;
        enum tide_csv_type type;
    } * declared; /* every name has to be a column */
    size_t declared_count;
    enum tide_csv_type others; /* of columns that are not declared: UNKNOWN or SKIP */
};

struct tide_csv;                                                                    /* a reading; borrows the options */
int tide_csv_create(const struct tide_csv_options *options, struct tide_csv **out); /* *gives*; ENOMEM */
void tide_csv_destroy(struct tide_csv *csv);                                        /* NULL allowed */
/* The next bytes. EPROTO (names line and column), ELIMIT, ENOMEM. */
int tide_csv_feed(struct tide_csv *csv, const char *data, size_t size);
int tide_csv_end(struct tide_csv *csv); /* after the last bytes */
/* After the end; owned by the reading. */
struct tide_csv_form {
    char separator;
    size_t blank_lines; /* between rows of several columns; they are left out */
};
struct tide_csv_form tide_csv_form(const struct tide_csv *csv);
size_t tide_csv_rows(const struct tide_csv *csv);
const struct tide_csv_column *tide_csv_columns(const struct tide_csv *csv, size_t *count);

#endif
