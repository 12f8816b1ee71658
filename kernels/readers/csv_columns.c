/*
 * Columns of a table of text. The type of a column that was not declared is decided by its first cell with a value, and
 * every later cell has to agree: numbers and texts in one column are refused, since one of them is a mistake. Cells
 * without a value (empty, NA, null, ..) decide nothing.
 */
#include "readers/csv_columns.h"

#include "base/base.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { SHOWN = 40, NUMBER_MOST = 400 };

int tide__csv_bad(const struct tide__csv_place *place, size_t column, const char *what) {
    return tide_fail(TIDE_EPROTO, "%s: line %zu: column %zu: %s", place->o->name, place->line, column, what);
}

/* ---- what a cell is ---- */

static bool is_word(const char *text, size_t size, const char *word) {
    return size == strlen(word) && strncasecmp(text, word, size) == 0;
}

static bool is_nan(const char *text, size_t size) {
    return is_word(text, size, "nan") || is_word(text, size, "-nan");
}

/* Cells that stand for no value; nan is one where `missing` says what counts instead. */
static bool is_absent(const char *text, size_t size) {
    static const char *const words[] = {"", "NA", "N/A", "#N/A", "null", "none", "?"};
    bool found = is_nan(text, size);
    for (size_t i = 0; i < TIDE_COUNT(words) && !found; i++) {
        found = is_word(text, size, words[i]);
    }
    return found;
}

bool tide__csv_number(const struct tide_csv_options *o, const char *text, size_t size, double *out) {
    char plain[NUMBER_MOST];
    if (is_nan(text, size)) {
        *out = (double)NAN;
        return true;
    }
    const size_t sign = size > 0 && (*text == '-' || *text == '+');
    if (is_word(text + sign, size - sign, "inf") || is_word(text + sign, size - sign, "infinity")) {
        *out = *text == '-' ? -(double)INFINITY : (double)INFINITY;
        return true;
    }
    if (o->decimal == '\0' || o->decimal == '.') {
        return tide_text_double(text, size, out);
    }
    for (size_t i = 0; i < size && size <= sizeof plain; i++) {
        plain[i] = text[i] == o->decimal ? '.' : text[i] == '.' ? 'x' : text[i];
    }
    return size <= sizeof plain && tide_text_double(plain, size, out);
}

/* Digits with commas or apostrophes among them: a number in another way of writing. */
static bool looks_like_number(const char *text, size_t size) {
    bool digit = false, mark = false;
    for (size_t i = 0; i < size; i++) {
        digit = digit || (text[i] >= '0' && text[i] <= '9');
        mark = mark || text[i] == ',' || text[i] == '\'';
        if (!memchr("0123456789.,'+- ", text[i], 16)) {
            return false;
        }
    }
    return digit && mark;
}

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

/* A whole number that no double has. */
static bool is_rounded(const char *text, size_t size) {
    const double beyond = 0x1p63; /* the least that does not fit back */
    int64_t n;
    return whole(text, size, &n) && ((double)n >= beyond || (int64_t)(double)n != n);
}

/* ---- errors ---- */

static int no_value(const struct tide__csv_place *place, const struct tide_csv_column *c, size_t number) {
    char what[300];
    (void)snprintf(what, sizeof what,
                   "column '%.80s' has no value here: `missing = 0` says what counts instead, also of NA and null",
                   c->name);
    return tide__csv_bad(place, number, what);
}

static int unfit(const struct tide__csv_place *place, const struct tide_csv_column *c, size_t number, const char *text,
                 size_t size) {
    char what[500];
    const char *comma =
        looks_like_number(text, size) ? "; `decimal = \",\"` reads 1,5 as 1.5, separators of thousands have to go" : "";
    int at = snprintf(what, sizeof what, "expected %s in column '%.80s', found '%.*s'%s",
                      c->type == TIDE_CSV_INTEGER ? "a whole number" : "a number", c->name,
                      size < SHOWN ? (int)size : SHOWN, text, comma);
    if (!c->declared) {
        (void)snprintf(what + at, sizeof what - (size_t)at,
                       "; `columns = {[\"%.80s\"] = \"class\"}` reads it as a class", c->name);
    }
    return tide__csv_bad(place, number, what);
}

static int rounded(const struct tide__csv_place *place, const struct tide_csv_column *c, size_t number,
                   const char *text, size_t size) {
    char what[400];
    (void)snprintf(what, sizeof what,
                   "'%.*s' in column '%.80s' is a whole number that would be rounded: `columns = {[\"%.80s\"] = "
                   "\"integer\"}` keeps it, \"class\" counts equal ones",
                   size < SHOWN ? (int)size : SHOWN, text, c->name, c->name);
    return tide__csv_bad(place, number, what);
}

static int mixed(const struct tide__csv_place *place, const struct tide_csv_column *c, size_t number, const char *text,
                 size_t size) {
    char what[500];
    const struct tide_names *names = &c->classes.names;
    const char *first = "";
    for (size_t i = 0; i < names->count && is_absent(first, strlen(first)); i++) {
        first = names->pool + names->offsets[i];
    }
    (void)snprintf(what, sizeof what,
                   "column '%.80s' has the number '%.*s' here and the text '%.*s' before: "
                   "`columns = {[\"%.80s\"] = \"class\"}` reads both as classes%s",
                   c->name, size < SHOWN ? (int)size : SHOWN, text, SHOWN, first, c->name,
                   place->o->header == TIDE_CSV_HEADER_NO ? ", `header = true` takes names from the first line" : "");
    return tide__csv_bad(place, number, what);
}

/* ---- values ---- */

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

static int add_class(struct tide_csv_column *c, size_t row, const char *text, size_t size) {
    uint32_t index = 0;
    int code = tide_dictionary_add(&c->classes, text, size, &index);
    code = code ? code : tide_array_grow(&c->values, &c->capacity, row + 1, sizeof index);
    if (code == 0) {
        ((uint32_t *)c->values)[row] = index;
    }
    return code;
}

static int add_number(const struct tide__csv_place *place, struct tide_csv_column *c, size_t number, const char *text,
                      size_t size) {
    double value = place->o->missing;
    if (!is_absent(text, size) || (is_nan(text, size) && !place->o->has_missing)) {
        if (!tide__csv_number(place->o, text, size, &value)) {
            return unfit(place, c, number, text, size);
        }
        if (fabs(value) >= 0x1p53 && is_rounded(text, size)) {
            return rounded(place, c, number, text, size);
        }
        c->not_finite += isfinite(value) ? 0 : 1;
    } else if (!place->o->has_missing) {
        return no_value(place, c, number);
    }
    int code = tide_array_grow(&c->values, &c->capacity, place->row + 1, sizeof value);
    if (code == 0) {
        ((double *)c->values)[place->row] = value;
    }
    return code;
}

static int add_integer(const struct tide__csv_place *place, struct tide_csv_column *c, size_t number, const char *text,
                       size_t size) {
    int64_t value = 0;
    if (!is_absent(text, size)) {
        if (!whole(text, size, &value)) {
            return unfit(place, c, number, text, size);
        }
    } else if (!place->o->has_missing) {
        return no_value(place, c, number);
    } else if (!(fabs(place->o->missing) <= 0x1p53) || floor(place->o->missing) < place->o->missing) {
        return tide__csv_bad(place, number, "`missing` is no whole number, and this column is one of integers");
    } else {
        value = (int64_t)place->o->missing;
    }
    int code = tide_array_grow(&c->values, &c->capacity, place->row + 1, sizeof value);
    if (code == 0) {
        ((int64_t *)c->values)[place->row] = value;
    }
    return code;
}

/* Makes numbers of the rows before this one, which have no value. */
static int become_numbers(const struct tide__csv_place *place, struct tide_csv_column *c, size_t number) {
    struct tide_dictionary texts = c->classes;
    uint32_t *of_row = c->values;
    c->classes = (struct tide_dictionary){0};
    c->values = NULL;
    c->capacity = 0;
    c->type = TIDE_CSV_NUMBER;
    struct tide__csv_place before = {.o = place->o, .line = c->absent_line};
    int code = 0;
    for (; before.row < place->row && code == 0; before.row++) {
        const size_t *at = texts.names.offsets + of_row[before.row];
        code = add_number(&before, c, number, texts.names.pool + at[0], at[1] - at[0] - 1);
    }
    tide_dictionary_release(&texts);
    tide_free(of_row);
    return code;
}

static int decide(const struct tide__csv_place *place, struct tide_csv_column *c, size_t number, const char *text,
                  size_t size) {
    double ignored;
    if (is_absent(text, size)) {
        return 0;
    }
    if (tide__csv_number(place->o, text, size, &ignored)) {
        return become_numbers(place, c, number);
    }
    c->type = TIDE_CSV_CLASS;
    return looks_like_number(text, size) ? unfit(place, c, number, text, size) : 0;
}

int tide__csv_add(const struct tide__csv_place *place, struct tide_csv_column *c, size_t number, const char *text,
                  size_t size) {
    double ignored;
    const bool absent = is_absent(text, size);
    int code = c->type == TIDE_CSV_UNKNOWN ? decide(place, c, number, text, size) : 0;
    if (code < 0) {
        return code;
    }
    c->absent += absent && (place->o->has_missing || !is_nan(text, size));
    if (absent && !is_nan(text, size) && c->absent_line == 0) {
        c->absent_line = place->line;
    }
    switch (c->type) {
    case TIDE_CSV_NUMBER:
        return add_number(place, c, number, text, size);
    case TIDE_CSV_INTEGER:
        return add_integer(place, c, number, text, size);
    case TIDE_CSV_CLASS:
        if (!c->declared && !absent && tide__csv_number(place->o, text, size, &ignored)) {
            return mixed(place, c, number, text, size);
        }
        return add_class(c, place->row, text, size);
    case TIDE_CSV_UNKNOWN:
        return add_class(c, place->row, text, size);
    case TIDE_CSV_TEXT:
        return add_text(c, place->row, text, size);
    case TIDE_CSV_SKIP:
    case TIDE_CSV_TYPES:
        break;
    }
    return 0;
}

int tide__csv_finish(const struct tide__csv_place *place, struct tide_csv_column *c, size_t number) {
    if (c->type != TIDE_CSV_UNKNOWN) {
        return 0;
    }
    if (c->absent_line > 0 && !place->o->has_missing) {
        char what[300];
        const struct tide__csv_place first = {.o = place->o, .line = c->absent_line};
        (void)snprintf(what, sizeof what,
                       "column '%.80s' has no value in any row: `columns = {[\"%.80s\"] = \"skip\"}` leaves it out",
                       c->name, c->name);
        return tide__csv_bad(&first, number, what);
    }
    return become_numbers(place, c, number);
}
