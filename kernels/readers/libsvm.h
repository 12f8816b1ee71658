/*
 * LibSVM text (Chang and Lin, "LIBSVM", ACM TIST 2011; SVMlight before it), read as a stream: one
 * example a line, `label [qid:n] index:value index:value ... [# comment]`, indices rising. Blank
 * lines and comments are skipped, lines may end in CRLF, the last may lack its end. Memory is
 * bounded by the result and the longest line. `qid` is counted; with `tasks` every line has one.
 *
 * Errors: "NAME: line N: column C: expected X, found 'Y'; what to do".
 */
#ifndef TIDE_LIBSVM_H
#define TIDE_LIBSVM_H

#include "readers/text.h"

enum { TIDE_LIBSVM_PARTS = 2, TIDE_LIBSVM_CLASSES_MOST = 1 << 20 };

/* Sparse rows (CSR): row i has the entries offsets[i] .. offsets[i + 1] - 1 of indices, which rise
 * and count from 0, and values. */
struct tide_sparse {
    uint64_t *offsets; /* rows + 1 */
    uint32_t *indices;
    float *values;
    size_t rows;
};

struct tide_libsvm {
    struct tide_sparse parts[TIDE_LIBSVM_PARTS];
    float *labels[TIDE_LIBSVM_PARTS];   /* one a row, as written */
    uint32_t *tasks[TIDE_LIBSVM_PARTS]; /* qid of each row, with the option `tasks` */
    uint32_t columns;                   /* of all parts together */
    uint32_t base;                      /* of the indices in the text: 0 or 1 */
    size_t queries;                     /* rows with a qid */
};
void tide_libsvm_release(struct tide_libsvm *data); /* also of a failed read */

enum { TIDE_LIBSVM_BASE_AUTO = -1 }; /* 0 if an index 0 occurs anywhere, else 1 */
struct tide_libsvm_options {
    int base;         /* TIDE_LIBSVM_BASE_AUTO, 0, 1 */
    uint32_t columns; /* an index beyond is refused; 0: as many as there are, unless the entries are far too few */
    bool classes; /* labels are names: one that f32 does not hold, or cannot distinguish from another, is rejected */
    bool tasks;   /* qid is the number of a row's task */
};

struct tide_libsvm_reader;
/* *gives* the reader. ENOMEM. */
int tide_libsvm_open(struct tide_libsvm_options options, struct tide_libsvm_reader **out);
void tide_libsvm_close(struct tide_libsvm_reader *reader); /* NULL allowed */
/* Begins the next part; `name` is for errors and stays the caller's until close. */
int tide_libsvm_begin(struct tide_libsvm_reader *reader, const char *name);
/* The part's next bytes, cut anywhere. After an error the reader can only be closed.
 * EPROTO, ELIMIT (2^32 - 1 columns, a line of 64 MiB), ENOMEM. */
int tide_libsvm_feed(struct tide_libsvm_reader *reader, const char *data, size_t size);
/* The part ends; one of no rows is refused. */
int tide_libsvm_end(struct tide_libsvm_reader *reader);
/* After all parts: *gives* `out`. */
int tide_libsvm_finish(struct tide_libsvm_reader *reader, struct tide_libsvm *out);

/* The distinct labels of all parts, rising: *gives* `classes`. ELIMIT beyond
 * TIDE_LIBSVM_CLASSES_MOST, ENOMEM. */
int tide_libsvm_classes(const struct tide_libsvm *data, float **classes, size_t *count);
/* Place of a label among the classes. */
size_t tide_libsvm_class(const float *classes, size_t count, float label);

#endif
