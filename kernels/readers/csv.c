/*
 * Reading CSV: a machine over bytes that collects cells, then lines of cells, then typed columns (csv_columns.c). The
 * beginning is held back until it shows by what cells are separated.
 */
#include "readers/csv_columns.h"

#include "base/base.h"

#include <stdio.h>
#include <string.h>

enum state { AT_CELL, IN_CELL, IN_QUOTES, BEHIND_QUOTE, BEHIND_CELL };
enum { HEAD_LINES = 8, HEAD_MOST = 1 << 20 }; /* of the beginning: lines that are looked at, bytes that are held */

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
    bool begun, named, empty, return_seen; /* empty: the line has blanks at most so far */
    char *head;                            /* until `begun` */
    size_t head_size, head_capacity;
    size_t blank_lines, blank_now; /* between rows; since the last row */
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
    tide_free(csv->head);
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

struct tide_csv_form tide_csv_form(const struct tide_csv *csv) {
    return (struct tide_csv_form){.separator = csv->separator, .blank_lines = csv->blank_lines};
}

static int bad(const struct tide_csv *csv, size_t column, const char *what) {
    const struct tide__csv_place place = {.o = csv->o, .line = csv->line_of_row};
    return tide__csv_bad(&place, column, what);
}

static const char *cell(const struct tide_csv *csv, size_t i, size_t *size) {
    const size_t from = i ? csv->ends[i - 1] : 0;
    *size = csv->ends[i] - from;
    return *size > 0 ? csv->text + from : "";
}

/* ---- names and types ---- */

static int declare_columns(struct tide_csv *csv) {
    char what[400];
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
    return 0;
}

/* A first line with numbers is a row, unless it is declared a header. */
static int check_header(const struct tide_csv *csv) {
    for (size_t i = 0; i < csv->end_count; i++) {
        size_t size;
        double ignored;
        const char *name = cell(csv, i, &size);
        if (tide__csv_number(csv->o, name, size, &ignored)) {
            char what[300];
            (void)snprintf(what, sizeof what,
                           "found the number '%.*s' where the names of the columns are expected: `header = false` says "
                           "that the file has no line of names, `header = true` that this is one",
                           size < 40 ? (int)size : 40, name);
            return bad(csv, i + 1, what);
        }
    }
    return 0;
}

static int name_columns(struct tide_csv *csv) {
    char plain[32], what[400];
    int code = csv->o->header == TIDE_CSV_HEADER_ASK ? check_header(csv) : 0;
    if (code < 0) {
        return code;
    }
    csv->columns = tide_alloc_zero(csv->end_count, sizeof *csv->columns);
    if (!csv->columns) {
        return TIDE_ENOMEM;
    }
    csv->column_count = csv->end_count;
    for (size_t i = 0; i < csv->column_count; i++) {
        struct tide_csv_column *c = &csv->columns[i];
        size_t size;
        const char *name = cell(csv, i, &size);
        if (csv->o->header == TIDE_CSV_HEADER_NO) {
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
    csv->named = true;
    return declare_columns(csv);
}

/* ---- lines ---- */

static size_t cell_from(const struct tide_csv *csv) {
    return csv->end_count ? csv->ends[csv->end_count - 1] : 0;
}

/* A cell that is not in quotes ends before its last blanks. */
static int end_cell(struct tide_csv *csv) {
    if (csv->end_count == TIDE_CSV_COLUMNS_MAX) {
        return bad(csv, csv->end_count + 1, "more than 4096 columns");
    }
    while (csv->state == IN_CELL && csv->text_size > cell_from(csv) &&
           (csv->text[csv->text_size - 1] == ' ' || csv->text[csv->text_size - 1] == '\t')) {
        csv->text_size--;
    }
    int code = tide_array_grow(&csv->ends, &csv->end_capacity, csv->end_count + 1, sizeof *csv->ends);
    if (code == 0) {
        csv->ends[csv->end_count++] = csv->text_size;
        csv->state = AT_CELL;
    }
    return code;
}

static int add_row(struct tide_csv *csv) {
    const struct tide__csv_place place = {csv->o, csv->line_of_row, csv->rows};
    int code = 0;
    if (csv->end_count != csv->column_count) {
        char what[200];
        (void)snprintf(what, sizeof what,
                       "cells of this line: %zu, of the first one: %zu (cells are separated by '%s')", csv->end_count,
                       csv->column_count, csv->separator == '\t' ? "TAB" : (char[]){csv->separator, 0});
        return bad(csv, csv->end_count < csv->column_count ? csv->end_count : csv->column_count + 1, what);
    }
    for (size_t i = 0; i < csv->column_count && code == 0; i++) {
        size_t size;
        const char *text = cell(csv, i, &size);
        code = tide__csv_add(&place, &csv->columns[i], i + 1, text, size);
    }
    csv->rows++;
    return code;
}

/* Lines without a cell, now that a row comes behind them: of one column they are rows, of several they are left out. */
static int take_blank_lines(struct tide_csv *csv) {
    int code = 0;
    size_t line = csv->line_of_row - csv->blank_now;
    for (; csv->blank_now > 0 && code == 0; csv->blank_now--, line++) {
        const struct tide__csv_place place = {csv->o, line, csv->rows};
        if (csv->column_count > 1) {
            csv->blank_lines++;
            continue;
        }
        code = tide__csv_add(&place, &csv->columns[0], 1, "", 0);
        csv->rows++;
    }
    return code;
}

static int end_line(struct tide_csv *csv) {
    int code = 0;
    if (!csv->empty) {
        code = csv->named ? take_blank_lines(csv) : 0;
        code = code ? code : end_cell(csv);
        const bool names = !csv->named && csv->o->header != TIDE_CSV_HEADER_NO;
        code = code || csv->named ? code : name_columns(csv);
        code = code || names ? code : add_row(csv);
    }
    csv->blank_now += csv->empty && csv->named;
    csv->text_size = csv->end_count = 0;
    csv->empty = true;
    csv->state = AT_CELL;
    csv->line_of_row = ++csv->line;
    return code;
}

static int add_byte(struct tide_csv *csv, char c) {
    if (csv->text_size - cell_from(csv) == TIDE_CSV_CELL_MAX) {
        return bad(csv, csv->end_count + 1, "a cell of more than 1 MiB; is a quote not closed?");
    }
    int code = tide_array_grow(&csv->text, &csv->text_capacity, csv->text_size + 1, 1);
    if (code == 0) {
        csv->text[csv->text_size++] = c;
    }
    return code;
}

static int in_quotes(struct tide_csv *csv, char c) {
    csv->line += c == '\n';
    if (c == '"') {
        csv->state = BEHIND_QUOTE;
        return 0;
    }
    return add_byte(csv, c);
}

static int step(struct tide_csv *csv, char c) {
    if (c == '\0') {
        return bad(csv, csv->end_count + 1, "a zero byte: is it UTF-16? Save it as UTF-8");
    }
    if (csv->state == IN_QUOTES) {
        return in_quotes(csv, c);
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
    const bool blank = (c == ' ' || c == '\t') && c != csv->separator;
    csv->empty = csv->empty && blank;
    if (csv->state == BEHIND_QUOTE && c == '"') {
        csv->state = IN_QUOTES;
        return add_byte(csv, c);
    }
    if (c == csv->separator) {
        return end_cell(csv);
    }
    if (blank && csv->state != IN_CELL) { /* around a cell */
        csv->state = csv->state == AT_CELL ? AT_CELL : BEHIND_CELL;
        return 0;
    }
    if (csv->state == BEHIND_QUOTE || csv->state == BEHIND_CELL) {
        return bad(csv, csv->end_count + 1, "text behind a closing quote");
    }
    if (csv->state == AT_CELL && c == '"') {
        csv->state = IN_QUOTES;
        return 0;
    }
    csv->state = IN_CELL;
    return add_byte(csv, c);
}

static int feed(struct tide_csv *csv, const char *data, size_t size) {
    int code = 0;
    for (size_t i = 0; i < size && code == 0; i++) {
        code = step(csv, data[i]);
    }
    return code;
}

/* ---- the beginning ---- */

static const char known[] = {',', ';', '\t', '|'};
enum { KNOWN = sizeof known };

/* How often each separator occurs in the first lines, outside of quotes; blank lines count nowhere. Returns how many
 * lines there are. */
static size_t count_separators(const char *text, size_t size, bool last, size_t counts[HEAD_LINES][KNOWN]) {
    size_t lines = 0;
    bool quotes = false, empty = true;
    memset(counts, 0, sizeof(size_t[HEAD_LINES][KNOWN]));
    for (size_t i = 0; i < size && lines < HEAD_LINES; i++) {
        quotes = text[i] == '"' ? !quotes : quotes;
        if (text[i] == '\n' && !quotes) {
            lines += !empty;
            empty = true;
            continue;
        }
        empty = empty && (text[i] == ' ' || text[i] == '\r');
        for (size_t k = 0; k < KNOWN && !quotes; k++) {
            counts[lines][k] += text[i] == known[k];
        }
    }
    return lines + ((last || lines == 0) && !empty && lines < HEAD_LINES);
}

/* The separator that cuts the first lines into equally many cells; else the one that the first line has most of. */
static int choose_separator(struct tide_csv *csv, const char *text, size_t size, bool last) {
    size_t counts[HEAD_LINES][KNOWN], most = 0, alike[KNOWN], alike_count = 0;
    const size_t lines = count_separators(text, size, last, counts);
    csv->separator = csv->o->decimal == ',' ? ';' : ',';
    for (size_t k = 0; k < KNOWN && lines > 0; k++) {
        if (counts[0][k] == 0 || known[k] == csv->o->decimal) {
            continue;
        }
        if (counts[0][k] > most) {
            most = counts[0][k];
            csv->separator = known[k];
        }
        size_t same = 1;
        while (same < lines && counts[same][k] == counts[0][k]) {
            same++;
        }
        if (lines > 1 && same == lines) {
            alike[alike_count++] = k;
        }
    }
    if (alike_count > 1) {
        char what[200];
        (void)snprintf(what, sizeof what,
                       "'%c' and '%c' both cut the first lines into equally many cells: `separator = \"%c\"` says that "
                       "this one separates cells",
                       known[alike[0]], known[alike[1]], known[alike[1]]);
        return bad(csv, 1, what);
    }
    csv->separator = alike_count == 1 ? known[alike[0]] : csv->separator;
    return 0;
}

/* Excel's first line: what separates cells. */
static bool take_sep_line(struct tide_csv *csv, const char **text, size_t *size) {
    const size_t line = *size > 6 && (*text)[5] == '\r' ? 7 : 6;
    if (*size < line || memcmp(*text, "sep=", 4) != 0 || (*text)[line - 1] != '\n') {
        return false;
    }
    csv->separator = csv->separator ? csv->separator : (*text)[4];
    *text += line;
    *size -= line;
    csv->line_of_row = ++csv->line;
    return true;
}

static int begin(struct tide_csv *csv, bool last) {
    const char *text = csv->head;
    size_t size = csv->head_size;
    csv->begun = true;
    if (size >= 2 && (memcmp(text, "\xff\xfe", 2) == 0 || memcmp(text, "\xfe\xff", 2) == 0)) {
        return bad(csv, 1, "the file is UTF-16: save it as UTF-8");
    }
    if (size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
        text += 3;
        size -= 3;
    }
    int code = 0;
    if (!take_sep_line(csv, &text, &size) && !csv->separator) {
        code = choose_separator(csv, text, size < HEAD_MOST ? size : HEAD_MOST, last);
    }
    code = code ? code : feed(csv, text, size);
    tide_free(csv->head);
    csv->head = NULL;
    return code;
}

int tide_csv_feed(struct tide_csv *csv, const char *data, size_t size) {
    if (csv->begun || size == 0) {
        return feed(csv, data, size);
    }
    int code = tide_array_grow(&csv->head, &csv->head_capacity, csv->head_size + size, 1);
    if (code < 0) {
        return code;
    }
    memcpy(csv->head + csv->head_size, data, size);
    csv->head_size += size;
    return csv->head_size < HEAD_MOST ? 0 : begin(csv, false);
}

int tide_csv_end(struct tide_csv *csv) {
    int code = csv->begun ? 0 : begin(csv, true);
    if (code == 0 && csv->state == IN_QUOTES) {
        return bad(csv, csv->end_count + 1, "a quote is not closed");
    }
    csv->return_seen = false;
    code = code ? code : end_line(csv);
    if (code == 0 && !csv->named) {
        csv->line_of_row = 1;
        return bad(csv, 1, "the file has no line");
    }
    for (size_t i = 0; i < csv->column_count && code == 0 && csv->rows > 0; i++) {
        const struct tide__csv_place place = {csv->o, csv->line, csv->rows};
        code = tide__csv_finish(&place, &csv->columns[i], i + 1);
    }
    return code;
}
