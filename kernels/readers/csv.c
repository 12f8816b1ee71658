/* Reading CSV: a machine over bytes that collects cells, then lines of cells, then typed columns. */
#include "readers/csv.h"

#include "base/base.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum state { AT_CELL, IN_CELL, IN_QUOTES, BEHIND_QUOTE };

struct tide_csv {
    const struct tide_csv_options *o;
    struct tide_csv_column *columns;
    size_t column_count, rows;
    /* the line that is being read: cell i is text[ends[i - 1] .. ends[i]) */
    char *text;
    size_t text_size, text_capacity, *ends, end_count, end_capacity;
    size_t line, line_of_row; /* from 1 */
    enum state state;
    char separator;
    bool begun, named, empty, return_seen; /* empty: the line has no byte yet */
    size_t head_size;                      /* bytes of a byte-order mark that were there */
};

int tide_csv_create(const struct tide_csv_options *options, struct tide_csv **out) {
    struct tide_csv *csv = tide_alloc(sizeof *csv);
    if (!csv) {
        return tide_fail(TIDE_ENOMEM, "out of memory: a table of text");
    }
    *csv = (struct tide_csv){.o = options, .line = 1, .line_of_row = 1, .separator = options->separator, .empty = true};
    *out = csv;
    return 0;
}

void tide_csv_destroy(struct tide_csv *csv) {
    if (!csv) {
        return;
    }
    for (size_t i = 0; i < csv->column_count; i++) {
        struct tide_csv_column *c = &csv->columns[i];
        tide_free(c->name);
        tide_free(c->values);
        tide_free(c->pool);
        tide_free(c->offsets);
        tide_dictionary_release(&c->classes);
    }
    tide_free(csv->columns);
    tide_free(csv->text);
    tide_free(csv->ends);
    tide_free(csv);
}

size_t tide_csv_rows(const struct tide_csv *csv) {
    return csv->rows;
}

const struct tide_csv_column *tide_csv_columns(const struct tide_csv *csv, size_t *count) {
    *count = csv->column_count;
    return csv->columns;
}

static int bad(const struct tide_csv *csv, size_t column, const char *what) {
    return tide_fail(TIDE_EPROTO, "%s: line %zu: column %zu: %s", csv->o->name, csv->line_of_row, column, what);
}

static const char *cell(const struct tide_csv *csv, size_t i, size_t *size) {
    const size_t from = i ? csv->ends[i - 1] : 0;
    *size = csv->ends[i] - from;
    return csv->text + from;
}

/* ---- names and types ---- */

static int name_columns(struct tide_csv *csv) {
    char plain[32], what[400];
    csv->columns = tide_alloc_zero(csv->end_count, sizeof *csv->columns);
    if (!csv->columns) {
        return TIDE_ENOMEM;
    }
    csv->column_count = csv->end_count;
    for (size_t i = 0; i < csv->column_count; i++) {
        struct tide_csv_column *c = &csv->columns[i];
        size_t size;
        const char *name = cell(csv, i, &size);
        if (!csv->o->header) {
            size = (size_t)snprintf(plain, sizeof plain, "c%zu", i + 1);
            name = plain;
        }
        c->name = tide_alloc(size + 1);
        if (!c->name) {
            return TIDE_ENOMEM;
        }
        memcpy(c->name, name, size);
        c->name[size] = '\0';
        c->type = csv->o->others;
        for (size_t j = 0; j < i; j++) {
            if (strcmp(csv->columns[j].name, c->name) == 0) {
                (void)snprintf(what, sizeof what, "two columns are called '%.80s'", c->name);
                return bad(csv, i + 1, what);
            }
        }
    }
    for (size_t d = 0; d < csv->o->declared_count; d++) {
        bool found = false;
        for (size_t i = 0; i < csv->column_count; i++) {
            struct tide_csv_column *c = &csv->columns[i];
            if (strcmp(c->name, csv->o->declared[d].name) == 0) {
                c->type = csv->o->declared[d].type;
                c->declared = found = true;
            }
        }
        if (!found) {
            int at = snprintf(what, sizeof what, "no column is called '%.80s'; there are:", csv->o->declared[d].name);
            for (size_t i = 0; i < csv->column_count && at > 0 && at < 300; i++) {
                at += snprintf(what + at, sizeof what - (size_t)at, " %.60s", csv->columns[i].name);
            }
            return bad(csv, 1, what);
        }
    }
    csv->named = true;
    return 0;
}

/* ---- cells ---- */

static bool whole(const char *at, size_t size, int64_t *out) {
    uint64_t n;
    const bool negative = size > 0 && *at == '-';
    const size_t sign = size > 0 && (*at == '-' || *at == '+');
    if (!tide_text_count(at + sign, size - sign, INT64_MAX, &n)) {
        return false;
    }
    *out = negative ? -(int64_t)n : (int64_t)n;
    return true;
}

static int unfit(const struct tide_csv *csv, size_t i, const char *text, size_t size) {
    const struct tide_csv_column *c = &csv->columns[i];
    char what[300];
    const char *expected = c->type == TIDE_CSV_INTEGER ? "a whole number" : "a number";
    if (size == 0) {
        (void)snprintf(what, sizeof what, "column '%.80s' has no value here: `missing = 0` says what counts instead",
                       c->name);
    } else {
        (void)snprintf(
            what, sizeof what, "expected %s in column '%.80s', found '%.*s'%s", expected, c->name,
            size < 40 ? (int)size : 40, text,
            c->declared ? "" : "; it is read as numbers because its first row has one: say its type in `columns`");
    }
    return bad(csv, i + 1, what);
}

static int add_text(struct tide_csv_column *c, size_t row, const char *text, size_t size) {
    int code = tide_array_grow(&c->pool, &c->pool_capacity, c->pool_size + size + 1, 1);
    code = code ? code : tide_array_grow(&c->offsets, &c->offset_capacity, row + 2, sizeof *c->offsets);
    if (code < 0) {
        return code;
    }
    memcpy(c->pool + c->pool_size, text, size);
    c->pool[c->pool_size + size] = '\0';
    c->offsets[row] = c->pool_size;
    c->pool_size += size + 1;
    c->offsets[row + 1] = c->pool_size;
    return 0;
}

static int add_cell(struct tide_csv *csv, size_t i) {
    struct tide_csv_column *c = &csv->columns[i];
    const size_t row = csv->rows;
    size_t size;
    const char *text = cell(csv, i, &size);
    double number = csv->o->missing;
    int64_t integer = (int64_t)number;
    const bool absent = size == 0 && csv->o->has_missing;
    if (c->type == TIDE_CSV_UNKNOWN) {
        c->type = absent || tide_text_double(text, size, &number) ? TIDE_CSV_NUMBER : TIDE_CSV_CLASS;
    }
    int code = 0;
    switch (c->type) {
    case TIDE_CSV_NUMBER:
        if (!absent && !tide_text_double(text, size, &number)) {
            return unfit(csv, i, text, size);
        }
        code = tide_array_grow(&c->values, &c->capacity, row + 1, sizeof number);
        if (code == 0) {
            ((double *)c->values)[row] = number;
        }
        return code;
    case TIDE_CSV_INTEGER:
        if (!absent && !whole(text, size, &integer)) {
            return unfit(csv, i, text, size);
        }
        code = tide_array_grow(&c->values, &c->capacity, row + 1, sizeof integer);
        if (code == 0) {
            ((int64_t *)c->values)[row] = integer;
        }
        return code;
    case TIDE_CSV_CLASS: {
        uint32_t index = 0;
        code = tide_dictionary_add(&c->classes, text, size, &index);
        code = code ? code : tide_array_grow(&c->values, &c->capacity, row + 1, sizeof index);
        if (code == 0) {
            ((uint32_t *)c->values)[row] = index;
        }
        return code;
    }
    case TIDE_CSV_TEXT:
        return add_text(c, row, text, size);
    case TIDE_CSV_UNKNOWN:
    case TIDE_CSV_SKIP:
    case TIDE_CSV_TYPES:
        break;
    }
    return 0;
}

/* ---- lines ---- */

static int end_cell(struct tide_csv *csv) {
    if (csv->end_count == TIDE_CSV_COLUMNS_MAX) {
        return bad(csv, csv->end_count + 1, "more than 4096 columns");
    }
    int code = tide_array_grow(&csv->ends, &csv->end_capacity, csv->end_count + 1, sizeof *csv->ends);
    if (code == 0) {
        csv->ends[csv->end_count++] = csv->text_size;
        csv->state = AT_CELL;
    }
    return code;
}

static int end_line(struct tide_csv *csv) {
    int code = 0;
    if (!csv->empty) {
        code = end_cell(csv);
        const bool names = !csv->named && csv->o->header;
        code = code || csv->named ? code : name_columns(csv);
        if (code == 0 && !names) {
            if (csv->end_count != csv->column_count) {
                char what[100];
                (void)snprintf(what, sizeof what, "cells of this line: %zu, of the first one: %zu", csv->end_count,
                               csv->column_count);
                return bad(csv, csv->end_count < csv->column_count ? csv->end_count : csv->column_count + 1, what);
            }
            for (size_t i = 0; i < csv->column_count && code == 0; i++) {
                code = add_cell(csv, i);
            }
            csv->rows++;
        }
    }
    csv->text_size = csv->end_count = 0;
    csv->empty = true;
    csv->state = AT_CELL;
    csv->line_of_row = ++csv->line;
    return code;
}

static int add_byte(struct tide_csv *csv, char c) {
    const size_t from = csv->end_count ? csv->ends[csv->end_count - 1] : 0;
    if (csv->text_size - from == TIDE_CSV_CELL_MAX) {
        return bad(csv, csv->end_count + 1, "a cell of more than 1 MiB; is a quote not closed?");
    }
    int code = tide_array_grow(&csv->text, &csv->text_capacity, csv->text_size + 1, 1);
    if (code == 0) {
        csv->text[csv->text_size++] = c;
    }
    return code;
}

static int step(struct tide_csv *csv, char c) {
    if (c == '\0') {
        return bad(csv, csv->end_count + 1, "a zero byte");
    }
    if (csv->state == IN_QUOTES) {
        csv->line += c == '\n';
        if (c == '"') {
            csv->state = BEHIND_QUOTE;
            return 0;
        }
        return add_byte(csv, c);
    }
    if (csv->return_seen) { /* CR is an end of line only before LF */
        csv->return_seen = false;
        if (c != '\n') {
            return bad(csv, csv->end_count + 1, "a carriage return inside of a line");
        }
    }
    if (c == '\n') {
        return end_line(csv);
    }
    if (c == '\r') {
        csv->return_seen = true;
        return 0;
    }
    csv->empty = false;
    if (csv->state == BEHIND_QUOTE && c == '"') {
        csv->state = IN_QUOTES;
        return add_byte(csv, c);
    }
    if (c == csv->separator) {
        return end_cell(csv);
    }
    if (csv->state == BEHIND_QUOTE) {
        return bad(csv, csv->end_count + 1, "text behind a closing quote");
    }
    if (csv->state == AT_CELL && c == '"') {
        csv->state = IN_QUOTES;
        return 0;
    }
    csv->state = IN_CELL;
    return add_byte(csv, c);
}

/* The separator that the first line has most of, as far as this piece shows. */
static char guess(const char *data, size_t size) {
    static const char known[] = {',', ';', '\t', '|'};
    size_t most = 0;
    char best = ',';
    const char *end = memchr(data, '\n', size);
    end = end ? end : data + size;
    for (size_t i = 0; i < sizeof known; i++) {
        size_t count = 0;
        for (const char *at = data; at < end; at++) {
            count += *at == known[i];
        }
        if (count > most) {
            most = count;
            best = known[i];
        }
    }
    return best;
}

static int feed(struct tide_csv *csv, const char *data, size_t size) {
    if (!csv->separator) {
        csv->separator = guess(data, size);
    }
    int code = 0;
    for (size_t i = 0; i < size && code == 0; i++) {
        code = step(csv, data[i]);
    }
    return code;
}

int tide_csv_feed(struct tide_csv *csv, const char *data, size_t size) {
    static const char mark[] = {'\xef', '\xbb', '\xbf'};
    int code = 0;
    while (!csv->begun && size > 0) {
        if (*data == mark[csv->head_size]) {
            csv->head_size++;
            data++;
            size--;
            csv->begun = csv->head_size == sizeof mark;
            csv->head_size = csv->begun ? 0 : csv->head_size;
        } else { /* no mark: what looked like its beginning is text */
            csv->begun = true;
            if (!csv->separator) { /* by the whole line, not by its first bytes */
                csv->separator = guess(data, size);
            }
            code = feed(csv, mark, csv->head_size);
        }
    }
    return code || !csv->begun ? code : feed(csv, data, size);
}

int tide_csv_end(struct tide_csv *csv) {
    int code = 0;
    if (!csv->begun) {
        csv->begun = true;
        code = feed(csv, "\xef\xbb\xbf", csv->head_size);
    }
    if (code == 0 && csv->state == IN_QUOTES) {
        return bad(csv, csv->end_count + 1, "a quote is not closed");
    }
    csv->return_seen = false;
    code = code ? code : end_line(csv);
    if (code == 0 && !csv->named) {
        csv->line_of_row = 1;
        return bad(csv, 1, "the file has no line");
    }
    return code;
}
