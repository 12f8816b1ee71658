/*
 * Text that comes in pieces, cut anywhere, read line by line: fields between blanks, and errors
 * with file, line and column. A byte-order mark and CR before a line's end are left out; the last
 * line may lack its end. A line that is whole in the caller's bytes is read in place; only one that
 * lies across two pieces is copied. What LibSVM text, bags of words and word vectors share. Any thread.
 */
#ifndef TIDE_FIELDS_H
#define TIDE_FIELDS_H

#include "base/base.h"

enum { TIDE_FIELDS_LINE_MOST = 64 << 20, TIDE_FIELDS_SHOWN = 40 /* bytes of a field in errors */ };

static inline bool tide_fields_blank(char c) {
    return c == ' ' || c == '\t';
}

struct tide_fields_line {
    const char *start, *at, *end;
};

struct tide_fields {
    const char *no_such;                                      /* for errors: "this is no LibSVM file" */
    size_t line_most;                                         /* bytes of a line; 0: TIDE_FIELDS_LINE_MOST */
    int (*read)(void *reader, struct tide_fields_line *line); /* a line; line.at is its beginning */
    void *reader;
    const char *name; /* of the text; the caller's */
    size_t line;      /* number of the line at hand, from 1 */
    char *held;       /* the beginning of a line whose end has not come */
    size_t held_size, held_room;
};

void tide_fields_begin(struct tide_fields *fields, const char *name); /* the next text */
/* Reads the lines that end in these bytes. What `read` gave, EPROTO at a NUL byte, ELIMIT (a line
 * of more than line_most), ENOMEM. */
int tide_fields_feed(struct tide_fields *fields, const char *data, size_t size);
int tide_fields_end(struct tide_fields *fields); /* reads the line that lacks its end */
void tide_fields_release(struct tide_fields *fields);

/* The next field of a line, or false at its end. */
bool tide_fields_next(struct tide_fields_line *line, const char **field, size_t *size);
/* Where the count of a field `word:count` begins, behind the last colon; NULL: it is none with a count from 1. */
const char *tide_fields_count(const char *field, size_t size, uint64_t *count);
/* Moves behind a label: "label | ", "label |namespace ", or a first field that is no word:count. */
void tide_fields_skip_label(struct tide_fields_line *line);
/* Whether all fields behind a label are word:count, two of them at least, or one behind a bar. */
bool tide_fields_look_counted(struct tide_fields_line line);
/* Whether a field is this word, whatever its case. */
bool tide_fields_is(const char *field, size_t size, const char *word);
/* EPROTO: "NAME: line N: column C: expected X, found 'Y'; advice". */
int tide_fields_refuse(const struct tide_fields *fields, const struct tide_fields_line *line, const char *at,
                       const char *expected, const char *advice);

#endif
