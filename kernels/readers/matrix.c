/*
 * Reading of sparse matrices; see matrix.h. Memory is bounded by the result; a size that a file
 * merely claims is never allocated.
 */
#include "readers/matrix.h"

#include "base/base.h"
#include "names.h"
#include "readers/fields.h"

#include <string.h>
#include <strings.h>

enum {
    SHOWN = 40, /* characters of a bad field in an error */
};

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
    return tide_fail(TIDE_EPROTO, "%s: line %zu: expected %s, found '%.*s'", r->lines.text->name, r->lines.number, what,
                     (int)(found.size < SHOWN ? found.size : SHOWN), found.at);
}

static int add_cell(struct matrix_reader *r, uint32_t row, uint32_t column, float value) {
    struct tide_cells *part = r->part;
    if (part->count >= UINT32_MAX - 1) {
        return tide_fail(TIDE_ELIMIT, "%s: more than %zu cells", r->lines.text->name, part->count);
    }
    int rc = tide_array_grow(&part->cells, &r->cell_capacity, part->count + 1, 2 * sizeof *part->cells);
    rc = rc ? rc : tide_array_grow(&part->values, &r->value_capacity, part->count + 1, sizeof *part->values);
    if (rc == 0) {
        part->cells[2 * part->count] = row;
        part->cells[2 * part->count + 1] = column;
        part->values[part->count++] = value;
    }
    return rc;
}

/* ---- ratings ---- */

/* What stands between the fields of a line. A run of blanks is one separator. */
static const char *const separators[] = {"\t", "::", ";", ",", " "};
static const char *const separator_names[] = {"tabs", "'::'", "semicolons", "commas", "blanks"};
enum { BLANKS = 4 };
#define KNOWN_SEPARATORS "tabs, '::', semicolons, commas or blanks"

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

/* Without blanks around it, and without quotes. */
static struct field trimmed(const char *at, const char *end) {
    while (at < end && (*at == ' ' || *at == '\t')) {
        at++;
    }
    while (at < end && (end[-1] == ' ' || end[-1] == '\t')) {
        end--;
    }
    if (end - at >= 2 && *at == '"' && end[-1] == '"') {
        at++;
        end--;
    }
    return (struct field){at, (size_t)(end - at)};
}

enum { FIELDS_MOST = 32 };

/* Of a field that begins with a quote: where it ends, behind the quote that a separator or the end of the line follows.
 * NULL: no quote does, and it ends as others do. */
static const char *quoted_end(const char *at, const char *end, const char *separator) {
    while (at < end && *at == ' ') {
        at++;
    }
    const char *quote = at < end && *at == '"' ? at : NULL;
    while (quote && (quote = memchr(quote + 1, '"', (size_t)(end - quote - 1)))) {
        const char *behind = quote + 1;
        if (behind < end && *behind == '"') { /* a quote of the text, written twice */
            quote = behind;
            continue;
        }
        while (behind < end && *behind == ' ' && separator[0] != ' ') {
            behind++;
        }
        const size_t length = strlen(separator);
        if (behind == end || ((size_t)(end - behind) >= length && memcmp(behind, separator, length) == 0)) {
            return behind;
        }
    }
    return NULL;
}

/* Splits at the separator, where it is not within quotes; fields beyond FIELDS_MOST are counted only. */
static size_t split_fields(const char *line, size_t size, size_t separator, struct field fields[FIELDS_MOST]) {
    const char *end = line + size, *text = separators[separator];
    size_t count = 0, length = strlen(text);
    for (;;) {
        while (separator == BLANKS && line < end && *line == ' ') {
            line++;
        }
        const char *quoted = quoted_end(line, end, text);
        const char *stop = quoted ? (quoted < end ? quoted : NULL) : line < end ? find(line, end, text) : NULL;
        if (separator == BLANKS && line == end) {
            return count;
        }
        if (count < FIELDS_MOST) {
            fields[count] = trimmed(line, stop ? stop : end);
        }
        count++;
        if (!stop) {
            return count;
        }
        line = stop + length;
    }
}

/* The first separator that occurs; TIDE_COUNT(separators): none does. */
static size_t separator_of(const char *line, size_t size, struct field fields[FIELDS_MOST]) {
    size_t s = 0;
    while (s < TIDE_COUNT(separators) && split_fields(line, size, s, fields) < 2) {
        s++;
    }
    return s;
}

/* ---- a header ---- */

enum { USER, ITEM, RATING, KINDS };
static const char *const kind_names[KINDS] = {"user", "item", "rating"};

/* What a title names, by its letters: userId, "User-ID", movie_id, Book-Rating; KINDS: something
 * else. */
static int kind_of(struct field title) {
    static const struct {
        const char *word;
        int kind;
    } words[] = {{"rating", RATING}, {"score", RATING},  {"stars", RATING},  {"value", RATING}, {"user", USER},
                 {"row", USER},      {"customer", USER}, {"reviewer", USER}, {"item", ITEM},    {"movie", ITEM},
                 {"book", ITEM},     {"product", ITEM},  {"column", ITEM},   {"isbn", ITEM},    {"asin", ITEM},
                 {"artist", ITEM},   {"song", ITEM},     {"track", ITEM}};
    for (size_t w = 0; w < TIDE_COUNT(words); w++) {
        const size_t length = strlen(words[w].word);
        for (size_t at = 0; at + length <= title.size; at++) {
            if (strncasecmp(title.at + at, words[w].word, length) == 0) {
                return words[w].kind;
            }
        }
    }
    return KINDS;
}

/* Takes the places of user, item and rating from the titles. The first column of each kind counts.
 * False: they name some, not all, and not where they are expected. */
static bool take_titles(const struct field *titles, size_t count, size_t places[KINDS]) {
    size_t found[KINDS] = {SIZE_MAX, SIZE_MAX, SIZE_MAX};
    size_t known = 0;
    for (size_t i = 0; i < count && i < FIELDS_MOST; i++) {
        const int kind = kind_of(titles[i]);
        if (kind < KINDS && found[kind] == SIZE_MAX) {
            found[kind] = i;
            known++;
        }
    }
    if (known == KINDS) {
        memcpy(places, found, sizeof found);
        return true;
    }
    for (size_t k = 0; k < KINDS; k++) {
        if (found[k] != SIZE_MAX && found[k] != k) {
            return false;
        }
    }
    return true;
}

/* A word, and not one that stands for a number which is none. */
static bool is_title(struct field field) {
    float ignored;
    char first = field.size > 0 ? field.at[0] : '-';
    return ((first >= 'a' && first <= 'z') || (first >= 'A' && first <= 'Z')) &&
           !(field.size >= 3 && (strncasecmp(field.at, "nan", 3) == 0 || strncasecmp(field.at, "inf", 3) == 0)) &&
           !tide_text_number(field.at, field.size, &ignored);
}

static int read_rating(struct matrix_reader *r, const struct field *fields, const size_t places[KINDS]) {
    static const char *const whats[] = {"a user id", "an item id"};
    uint32_t ids[2];
    float value;
    const struct field rating = fields[places[RATING]];
    if (!tide_text_number(rating.at, rating.size, &value)) {
        return expected(r, "a rating that a 32-bit float holds", rating);
    }
    for (int i = 0; i < 2; i++) {
        const struct field id = fields[places[i]];
        if (id.size == 0) {
            return expected(r, whats[i], id);
        }
        int rc = tide_dictionary_add(i ? &r->columns : &r->rows, id.at, id.size, &ids[i]);
        if (rc) {
            return rc;
        }
    }
    return add_cell(r, ids[0], ids[1], value);
}

/* How the lines of a text are read. */
struct rating_form {
    size_t separator;
    size_t places[KINDS], fields; /* of a line at least */
    bool header;
};

/* The first line says it. 1: it is a header and has been read. */
static int take_form(struct matrix_reader *r, const char *line, size_t size, struct rating_form *form) {
    struct field fields[FIELDS_MOST];
    *form = (struct rating_form){separator_of(line, size, fields), {USER, ITEM, RATING}, KINDS, false};
    size_t found = 0;
    if (form->separator < TIDE_COUNT(separators)) {
        found = split_fields(line, size, form->separator, fields);
    }
    if (found < KINDS) {
        return tide_fail(TIDE_EPROTO,
                         "%s: line %zu: expected user, item and rating, separated by " KNOWN_SEPARATORS
                         ", found '%.*s'",
                         r->lines.text->name, r->lines.number, (int)(size < SHOWN ? size : SHOWN), line);
    }
    size_t titles = 0; /* a rating is a number, wherever it stands; ids may be words */
    for (size_t i = 0; i < found && i < FIELDS_MOST; i++) {
        titles += is_title(fields[i]);
    }
    if (titles != (found < FIELDS_MOST ? found : FIELDS_MOST) && !is_title(fields[RATING])) {
        return 0;
    }
    form->header = true;
    if (!take_titles(fields, found, form->places)) {
        return tide_fail(TIDE_EPROTO,
                         "%s: line %zu: expected a header that names user, item and rating, or has "
                         "them in this order, found '%.*s'",
                         r->lines.text->name, r->lines.number, (int)(size < SHOWN ? size : SHOWN), line);
    }
    for (size_t k = 0; k < KINDS; k++) {
        form->fields = form->places[k] + 1 > form->fields ? form->places[k] + 1 : form->fields;
    }
    return 1;
}

static int read_ratings(struct matrix_reader *r, struct rating_form *form) {
    const char *line;
    size_t size;
    int more, code = 0;
    bool first = true;
    while ((more = tide_lines_next(&r->lines, &line, &size)) > 0) {
        struct field fields[FIELDS_MOST];
        if (first) {
            first = false;
            code = take_form(r, line, size, form);
            if (code == 1) {
                code = 0;
                continue;
            }
        }
        size_t found = code < 0 ? 0 : split_fields(line, size, form->separator, fields);
        if (code == 0 && found < form->fields) {
            code = tide_fail(TIDE_EPROTO,
                             "%s: line %zu: expected user, item and rating separated by %s as in "
                             "the first line (" KNOWN_SEPARATORS " are known), found '%.*s'",
                             r->lines.text->name, r->lines.number, separator_names[form->separator],
                             (int)(size < SHOWN ? size : SHOWN), line);
        }
        code = code < 0 ? code : read_rating(r, fields, form->places);
        if (code < 0) {
            return code;
        }
    }
    if (more == 0 && r->part->count == 0) {
        return tide_fail(TIDE_EPROTO, "%s: line %zu: expected a rating, found the end", r->lines.text->name,
                         r->lines.number + 1);
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
    return tide_fields_is(word.at, word.size, text);
}

/* The next line that is neither a comment nor blank, as words: their number (at most 4 are returned
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
                        : tide_fail(TIDE_EPROTO, "%s: line 1: expected '%%%%MatrixMarket', found the end",
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
        if (found != 3 || !tide_text_count(words[i].at, words[i].size, UINT32_MAX - 1, &sizes[i]) || sizes[i] == 0) {
            return expected(r, "rows, columns and cells, each 1 to 2^32 - 2", words[found == 3 ? i : 0]);
        }
    }
    struct tide_matrix *m = r->out;
    if (m->rows != 0 && (m->rows != sizes[0] || m->columns != sizes[1])) {
        return tide_fail(TIDE_EPROTO,
                         "%s: line %zu: expected %u rows and %u columns as before, found %llu and "
                         "%llu",
                         r->lines.text->name, r->lines.number, m->rows, m->columns, (unsigned long long)sizes[0],
                         (unsigned long long)sizes[1]);
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
    const size_t size_line = r->lines.number;
    while (rc == 0 && (found = next_words(r, words)) != 0) {
        float value;
        if (found < 0) {
            return found;
        }
        if (found != 3) {
            return tide_fail(TIDE_EPROTO, "%s: line %zu: expected row, column and value, found %s", r->lines.text->name,
                             r->lines.number, found < 3 ? "fewer words" : "more words");
        }
        if (!tide_text_count(words[0].at, words[0].size, sizes[0], &row) || row == 0) {
            return expected(r, "a row from 1 to the number of rows", words[0]);
        }
        if (!tide_text_count(words[1].at, words[1].size, sizes[1], &column) || column == 0) {
            return expected(r, "a column from 1 to the number of columns", words[1]);
        }
        if (!tide_text_number(words[2].at, words[2].size, &value)) {
            return expected(r, "a finite value that a 32-bit float holds", words[2]);
        }
        if (r->part->count == sizes[2]) {
            return tide_fail(TIDE_EPROTO,
                             "%s: line %zu: expected the end after %llu cells, found "
                             "another",
                             r->lines.text->name, r->lines.number, (unsigned long long)sizes[2]);
        }
        rc = add_cell(r, (uint32_t)row - 1, (uint32_t)column - 1, value);
    }
    if (rc == 0 && !tide_text_claim_fits(sizes[0] + sizes[1], r->part->count)) {
        return tide_fail(TIDE_EPROTO,
                         "%s: line %zu: expected a size that fits %zu cells, found %llu rows and "
                         "%llu columns in the header",
                         r->lines.text->name, size_line, r->part->count, (unsigned long long)sizes[0],
                         (unsigned long long)sizes[1]);
    }
    if (rc == 0 && r->part->count != sizes[2]) {
        return tide_fail(TIDE_EPROTO, "%s: line %zu: expected %llu cells, found the end after %zu", r->lines.text->name,
                         r->lines.number + 1, (unsigned long long)sizes[2], r->part->count);
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
    struct tide_lines lines;
    const char *line;
    size_t size;
    tide_lines_init(&lines, text); /* behind a byte-order mark, or blank lines */
    const char *known = tide_lines_next(&lines, &line, &size) == 1 ? tide_text_known(line, size) : NULL;
    return known && strcmp(known, "MatrixMarket") == 0;
}

static void finish_ratings(struct matrix_reader *r, const struct rating_form *form) {
    struct tide_matrix *m = r->out;
    m->rows = (uint32_t)r->rows.names.count;
    m->columns = (uint32_t)r->columns.names.count;
    tide_dictionary_finish(&r->rows, &m->row_names);
    tide_dictionary_finish(&r->columns, &m->column_names);
    const size_t *at = form->places;
    const bool moved = at[USER] != USER || at[ITEM] != ITEM || at[RATING] != RATING;
    int length = snprintf(m->note, sizeof m->note, "ratings separated by %s%s", separator_names[form->separator],
                          form->header ? ", after a header" : "");
    for (size_t k = 0; k < KINDS && moved && length > 0; k++) {
        length += snprintf(m->note + length, sizeof m->note - (size_t)length, "%s%s in column %zu",
                           k == 0 ? ": " : ", ", kind_names[k], at[k] + 1);
    }
}

int tide_matrix_read(const struct tide_text *texts, size_t text_count, enum tide_matrix_format format,
                     struct tide_matrix *out) {
    struct matrix_reader r = {.out = out};
    struct rating_form form = {0};
    int rc = 0;
    *out = (struct tide_matrix){0};
    if (text_count == 0 || text_count > TIDE_MATRIX_TEXTS) {
        return tide_fail(TIDE_EINVAL, "matrix: %zu texts; 1 or %d are read", text_count, TIDE_MATRIX_TEXTS);
    }
    if (format == TIDE_MATRIX_AUTO) {
        format = looks_like_market(&texts[0]) ? TIDE_MATRIX_MARKET : TIDE_MATRIX_RATINGS;
    }
    for (size_t i = 0; i < text_count && rc == 0; i++) {
        r.part = &out->parts[i];
        r.cell_capacity = r.value_capacity = 0;
        tide_lines_init(&r.lines, &texts[i]);
        rc = format == TIDE_MATRIX_MARKET ? read_market(&r) : read_ratings(&r, &form);
    }
    if (rc == 0 && format == TIDE_MATRIX_RATINGS) {
        finish_ratings(&r, &form);
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

/* ---- what is odd about the cells ---- */

/* A set of cells, as indices + 1 into an array of them. */
struct cell_set {
    uint32_t *slots;
    size_t mask;
};

static bool cell_set_has(struct cell_set *set, const uint32_t *cells, const uint32_t *cell, size_t index, bool add) {
    size_t at = (size_t)tide_hash(cell, 2 * sizeof *cell, 0) & set->mask;
    for (; set->slots[at] != 0; at = (at + 1) & set->mask) {
        if (memcmp(cells + 2 * (size_t)(set->slots[at] - 1), cell, 2 * sizeof *cell) == 0) {
            return true;
        }
    }
    if (add) {
        set->slots[at] = (uint32_t)index + 1;
    }
    return false;
}

int tide_matrix_oddities(const struct tide_matrix *m, struct tide_matrix_oddities *out) {
    const struct tide_cells *train = &m->parts[0], *test = &m->parts[1];
    struct cell_set set = {.mask = 64};
    *out = (struct tide_matrix_oddities){0};
    while (set.mask < 2 * train->count) {
        set.mask *= 2;
    }
    set.slots = tide_alloc_zero(set.mask, sizeof *set.slots);
    set.mask--;
    uint8_t *seen = tide_alloc_zero((size_t)m->rows + m->columns, 1);
    int rc = set.slots && seen ? 0 : TIDE_ENOMEM;
    for (size_t i = 0; i < train->count && rc == 0; i++) {
        const uint32_t *cell = train->cells + 2 * i;
        out->repeated += cell_set_has(&set, train->cells, cell, i, true);
        seen[cell[0]] = seen[m->rows + (size_t)cell[1]] = 1;
    }
    for (size_t i = 0; i < test->count && rc == 0; i++) {
        const uint32_t *cell = test->cells + 2 * i;
        out->leaked += cell_set_has(&set, train->cells, cell, i, false);
        uint8_t *row = &seen[cell[0]], *column = &seen[m->rows + (size_t)cell[1]];
        out->unseen_rows += !*row;
        *row = 1;
        out->unseen_columns += !*column;
        *column = 1;
    }
    tide_free(set.slots);
    tide_free(seen);
    return rc;
}
