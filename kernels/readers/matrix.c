/*
 * Reading of sparse matrices; see matrix.h. Memory is bounded by the result; a size that a file
 * merely claims is never allocated.
 */
#include "readers/matrix.h"

#include "base/base.h"
#include "names.h"

#include <string.h>
#include <strings.h>

enum { SHOWN = 40 }; /* characters of a bad field in an error */

struct field {
    const char *at;
    size_t size;
};

/* A text's cells while they are read. */
struct matrix_reader {
    struct tide_matrix *out;
    struct tide_dictionary rows, columns;
    struct tide_lines lines;
    struct tide_cells *part;
    size_t cell_capacity, value_capacity;
};

static int expected(const struct matrix_reader *r, const char *what, struct field found) {
    return tide_fail(TIDE_EPROTO, "%s: line %zu: expected %s, found '%.*s'", r->lines.text->name,
                     r->lines.number, what, (int)(found.size < SHOWN ? found.size : SHOWN),
                     found.at);
}

static int add_cell(struct matrix_reader *r, uint32_t row, uint32_t column, float value) {
    struct tide_cells *part = r->part;
    if (part->count >= UINT32_MAX - 1) {
        return tide_fail(TIDE_ELIMIT, "%s: more than %zu cells", r->lines.text->name, part->count);
    }
    int rc = tide_array_grow(&part->cells, &r->cell_capacity, part->count + 1,
                             2 * sizeof *part->cells);
    rc = rc ? rc
            : tide_array_grow(&part->values, &r->value_capacity, part->count + 1,
                              sizeof *part->values);
    if (rc == 0) {
        part->cells[2 * part->count] = row;
        part->cells[2 * part->count + 1] = column;
        part->values[part->count++] = value;
    }
    return rc;
}

/* ---- ratings ---- */

/* Where the separator begins first, or NULL. */
static const char *find(const char *line, const char *end, const char *separator) {
    for (;;) {
        line = memchr(line, separator[0], (size_t)(end - line));
        if (!line || separator[1] == 0 || (line + 1 < end && line[1] == separator[1])) {
            return line;
        }
        line++;
    }
}

/* What stands between the fields of a line. */
static const char *separator_of(const char *line, size_t size) {
    const char *end = line + size;
    return find(line, end, "\t") ? "\t" : find(line, end, "::") ? "::" : ",";
}

static const char *separator_name(const char *separator) {
    return separator[0] == '\t' ? "tabs" : separator[0] == ',' ? "commas" : "'::'";
}

/* Splits at the separator; fields beyond the third are counted only. */
static size_t split_fields(const char *line, size_t size, const char *separator,
                           struct field fields[3]) {
    const char *end = line + size;
    size_t count = 0, length = strlen(separator);
    for (;;) {
        const char *stop = find(line, end, separator);
        if (count < 3) {
            fields[count] = (struct field){line, (size_t)((stop ? stop : end) - line)};
        }
        count++;
        if (!stop) {
            return count;
        }
        line = stop + length;
    }
}

/* A word, and not one that stands for a number which is none. */
static bool is_title(struct field field) {
    float ignored;
    char first = field.size > 0 ? field.at[0] : '-';
    return ((first >= 'a' && first <= 'z') || (first >= 'A' && first <= 'Z')) &&
           !(field.size >= 3 &&
             (strncasecmp(field.at, "nan", 3) == 0 || strncasecmp(field.at, "inf", 3) == 0)) &&
           !tide_text_number(field.at, field.size, &ignored);
}

static int read_rating(struct matrix_reader *r, const struct field fields[3]) {
    static const char *const whats[] = {"a user id", "an item id"};
    uint32_t ids[2];
    float value;
    if (!tide_text_number(fields[2].at, fields[2].size, &value)) {
        return expected(r, "a rating", fields[2]);
    }
    for (int i = 0; i < 2; i++) {
        if (fields[i].size == 0) {
            return expected(r, whats[i], fields[i]);
        }
        int rc = tide_dictionary_add(i ? &r->columns : &r->rows, fields[i].at, fields[i].size,
                                     &ids[i]);
        if (rc) {
            return rc;
        }
    }
    return add_cell(r, ids[0], ids[1], value);
}

static int read_ratings(struct matrix_reader *r, const char **separator, bool *header) {
    const char *line;
    size_t size;
    int more;
    *header = false;
    while ((more = tide_lines_next(&r->lines, &line, &size)) > 0) {
        struct field fields[3];
        *separator = r->lines.number == 1 ? separator_of(line, size) : *separator;
        size_t found = split_fields(line, size, *separator, fields);
        if (found < 3) {
            return tide_fail(TIDE_EPROTO,
                             "%s: line %zu: expected user, item and rating separated by %s, found "
                             "'%.*s'",
                             r->lines.text->name, r->lines.number,
                             separator_name(*separator),
                             (int)(size < SHOWN ? size : SHOWN), line);
        }
        if (r->lines.number == 1 && is_title(fields[2])) {
            *header = true;
            continue;
        }
        int rc = read_rating(r, fields);
        if (rc) {
            return rc;
        }
    }
    if (more == 0 && r->part->count == 0) {
        return tide_fail(TIDE_EPROTO, "%s: line %zu: expected a rating, found the end",
                         r->lines.text->name, r->lines.number + 1);
    }
    return more;
}

/* ---- MatrixMarket ---- */

static bool is_blank(char c) {
    return c == ' ' || c == '\t';
}

static struct field next_word(const char **at, const char *end) {
    while (*at < end && is_blank(**at)) {
        *at += 1;
    }
    struct field word = {*at, 0};
    while (*at < end && !is_blank(**at)) {
        *at += 1;
        word.size++;
    }
    return word;
}

static bool word_is(struct field word, const char *text) {
    return word.size == strlen(text) && strncasecmp(word.at, text, word.size) == 0;
}

/* The next line that is neither a comment nor blank, as words: their number (at most 4 are told
 * apart), 0 at the end. */
static int next_words(struct matrix_reader *r, struct field words[3]) {
    const char *line;
    size_t size;
    int more;
    while ((more = tide_lines_next(&r->lines, &line, &size)) > 0) {
        const char *at = line, *end = line + size;
        int count = 0;
        for (; count < 4; count++) {
            struct field word = next_word(&at, end);
            if (word.size == 0) {
                break;
            }
            if (count < 3) {
                words[count] = word;
            }
        }
        if (count > 0 && *line != '%') {
            return count;
        }
    }
    return more;
}

static int read_banner(struct matrix_reader *r) {
    static const char *const wanted[] = {"%%MatrixMarket", "matrix", "coordinate"};
    const char *line;
    size_t size;
    int more = tide_lines_next(&r->lines, &line, &size);
    if (more <= 0) {
        return more < 0 ? more
                        : tide_fail(TIDE_EPROTO,
                                    "%s: line 1: expected '%%%%MatrixMarket', found the end",
                                    r->lines.text->name);
    }
    const char *at = line, *end = line + size;
    for (size_t i = 0; i < TIDE_COUNT(wanted); i++) {
        struct field word = next_word(&at, end);
        if (!word_is(word, wanted[i])) {
            return expected(r, wanted[i], word);
        }
    }
    struct field type = next_word(&at, end), symmetry = next_word(&at, end);
    if (!word_is(type, "real") && !word_is(type, "integer")) {
        return expected(r, "real or integer", type);
    }
    return word_is(symmetry, "general") ? 0 : expected(r, "general", symmetry);
}

static int read_market_size(struct matrix_reader *r, uint64_t sizes[3]) {
    struct field words[3] = {{"", 0}, {"", 0}, {"", 0}};
    int found = next_words(r, words);
    if (found < 0) {
        return found;
    }
    for (int i = 0; i < 3; i++) {
        if (found != 3 || !tide_text_count(words[i].at, words[i].size, UINT32_MAX - 1, &sizes[i]) ||
            sizes[i] == 0) {
            return expected(r, "rows, columns and cells, each 1 to 2^32 - 2",
                            words[found == 3 ? i : 0]);
        }
    }
    struct tide_matrix *m = r->out;
    if (m->rows != 0 && (m->rows != sizes[0] || m->columns != sizes[1])) {
        return tide_fail(TIDE_EPROTO,
                         "%s: line %zu: expected %u rows and %u columns as before, found %llu and "
                         "%llu",
                         r->lines.text->name, r->lines.number, m->rows, m->columns,
                         (unsigned long long)sizes[0], (unsigned long long)sizes[1]);
    }
    m->rows = (uint32_t)sizes[0];
    m->columns = (uint32_t)sizes[1];
    return 0;
}

static int read_market(struct matrix_reader *r) {
    uint64_t sizes[3], row, column;
    struct field words[3];
    int found, rc = read_banner(r);
    rc = rc ? rc : read_market_size(r, sizes);
    while (rc == 0 && (found = next_words(r, words)) != 0) {
        float value;
        if (found < 0) {
            return found;
        }
        if (found != 3) {
            return tide_fail(TIDE_EPROTO, "%s: line %zu: expected row, column and value, found %s",
                             r->lines.text->name, r->lines.number,
                             found < 3 ? "fewer words" : "more words");
        }
        if (!tide_text_count(words[0].at, words[0].size, sizes[0], &row) || row == 0) {
            return expected(r, "a row from 1 to the number of rows", words[0]);
        }
        if (!tide_text_count(words[1].at, words[1].size, sizes[1], &column) || column == 0) {
            return expected(r, "a column from 1 to the number of columns", words[1]);
        }
        if (!tide_text_number(words[2].at, words[2].size, &value)) {
            return expected(r, "a finite value", words[2]);
        }
        if (r->part->count == sizes[2]) {
            return tide_fail(TIDE_EPROTO, "%s: line %zu: expected the end after %llu cells, found "
                             "another", r->lines.text->name, r->lines.number,
                             (unsigned long long)sizes[2]);
        }
        rc = add_cell(r, (uint32_t)row - 1, (uint32_t)column - 1, value);
    }
    if (rc == 0 && r->part->count != sizes[2]) {
        return tide_fail(TIDE_EPROTO, "%s: line %zu: expected %llu cells, found the end after %zu",
                         r->lines.text->name, r->lines.number + 1, (unsigned long long)sizes[2],
                         r->part->count);
    }
    return rc;
}

/* ---- both ---- */

void tide_matrix_release(struct tide_matrix *matrix) {
    for (size_t i = 0; i < TIDE_MATRIX_TEXTS; i++) {
        tide_free(matrix->parts[i].cells);
        tide_free(matrix->parts[i].values);
    }
    tide_free(matrix->row_names.pool);
    tide_free(matrix->row_names.offsets);
    tide_free(matrix->column_names.pool);
    tide_free(matrix->column_names.offsets);
    *matrix = (struct tide_matrix){0};
}

static bool looks_like_market(const struct tide_text *text) {
    static const char banner[] = "%%MatrixMarket";
    return text->size >= sizeof banner - 1 && memcmp(text->data, banner, sizeof banner - 1) == 0;
}

static void finish_ratings(struct matrix_reader *r, const char *separator, bool header) {
    struct tide_matrix *m = r->out;
    m->rows = (uint32_t)r->rows.names.count;
    m->columns = (uint32_t)r->columns.names.count;
    tide_dictionary_finish(&r->rows, &m->row_names);
    tide_dictionary_finish(&r->columns, &m->column_names);
    snprintf(m->note, sizeof m->note, "ratings separated by %s%s",
             separator_name(separator), header ? ", after a header" : "");
}

int tide_matrix_read(const struct tide_text *texts, size_t text_count,
                     enum tide_matrix_format format, struct tide_matrix *out) {
    struct matrix_reader r = {.out = out};
    const char *separator = ",";
    bool header = false;
    int rc = 0;
    *out = (struct tide_matrix){0};
    if (text_count == 0 || text_count > TIDE_MATRIX_TEXTS) {
        return tide_fail(TIDE_EINVAL, "matrix: %zu texts; 1 or %d are read", text_count,
                         TIDE_MATRIX_TEXTS);
    }
    if (format == TIDE_MATRIX_AUTO) {
        format = looks_like_market(&texts[0]) ? TIDE_MATRIX_MARKET : TIDE_MATRIX_RATINGS;
    }
    for (size_t i = 0; i < text_count && rc == 0; i++) {
        r.part = &out->parts[i];
        r.cell_capacity = r.value_capacity = 0;
        tide_lines_init(&r.lines, &texts[i]);
        rc = format == TIDE_MATRIX_MARKET ? read_market(&r)
                                          : read_ratings(&r, &separator, &header);
    }
    if (rc == 0 && format == TIDE_MATRIX_RATINGS) {
        finish_ratings(&r, separator, header);
    } else {
        snprintf(out->note, sizeof out->note, "MatrixMarket coordinates");
        tide_dictionary_release(&r.rows);
        tide_dictionary_release(&r.columns);
    }
    if (rc) {
        tide_matrix_release(out);
    }
    return rc;
}
