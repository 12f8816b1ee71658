/* Word vectors as text: word_vectors.h. */
#include "readers/word_vectors.h"

#include "base/base.h"

#include <string.h>

enum { SHOWN = 20 };

struct tide_word_vectors {
    const char *name;
    const struct tide_dictionary *wanted;
    char *line; /* begun, not ended */
    size_t line_size, line_room, number;
    size_t columns; /* 0: not known yet */
    bool *seen;     /* by word */
    uint32_t *words;
    float *values;
    size_t found, word_room, value_room;
};

int tide_word_vectors_create(const char *name, const struct tide_dictionary *wanted, struct tide_word_vectors **out) {
    struct tide_word_vectors *v = tide_alloc_zero(1, sizeof(*v));
    if (!v) {
        return TIDE_ENOMEM;
    }
    v->name = name;
    v->wanted = wanted;
    v->seen = tide_alloc_zero(wanted->names.count + 1, sizeof(*v->seen));
    if (!v->seen) {
        tide_free(v);
        return TIDE_ENOMEM;
    }
    *out = v;
    return 0;
}

void tide_word_vectors_destroy(struct tide_word_vectors *v) {
    if (v) {
        tide_free(v->line);
        tide_free(v->seen);
        tide_free(v->words);
        tide_free(v->values);
        tide_free(v);
    }
}

static bool is_blank(char c) {
    return c == ' ' || c == '\t';
}

/* Where the last field of at .. end begins; `end` moves before it. NULL: there is none. */
static const char *last_field(const char *at, const char **end) {
    const char *e = *end;
    while (e > at && is_blank(e[-1])) {
        e--;
    }
    const char *stop = e;
    while (e > at && !is_blank(e[-1])) {
        e--;
    }
    *end = stop;
    return e < stop ? e : NULL;
}

static size_t count_fields(const char *at, const char *end) {
    size_t fields = 0;
    for (bool blank = true; at < end; at++) {
        fields += blank && !is_blank(*at);
        blank = is_blank(*at);
    }
    return fields;
}

/* Where the word of a line ends, before as many fields as there are numbers. */
static const char *end_of_word(const struct tide_word_vectors *v, const char *at, const char *end) {
    for (size_t i = 0; i < v->columns; i++) {
        end = last_field(at, &end);
    }
    (void)last_field(at, &end); /* blanks behind the word go */
    return end;
}

static int read_numbers(const struct tide_word_vectors *v, const char *at, const char *end, float *to) {
    for (size_t i = v->columns; i > 0; i--) {
        const char *field = last_field(at, &end);
        size_t size = (size_t)(end - field);
        if (!tide_text_number(field, size, to + i - 1)) {
            return tide_fail(TIDE_EPROTO, "%s: line %zu: column %zu: expected a number, found '%.*s'", v->name,
                             v->number, (size_t)(field - at) + 1, (int)(size < SHOWN ? size : SHOWN), field);
        }
        end = field;
    }
    return 0;
}

/* The numbers of a word that is wanted. */
static int add(struct tide_word_vectors *v, uint32_t word, const char *at, const char *end) {
    int code = tide_array_grow(&v->values, &v->value_room, (v->found + 1) * v->columns, sizeof(*v->values));
    code = code == 0 ? tide_array_grow(&v->words, &v->word_room, v->found + 1, sizeof(*v->words)) : code;
    code = code == 0 ? read_numbers(v, at, end, v->values + v->found * v->columns) : code;
    if (code == 0) {
        v->seen[word] = true;
        v->words[v->found++] = word;
    }
    return code;
}

/* "400000 300": how many words there are, and numbers a word. */
static bool is_header(const char *at, const char *end) {
    uint64_t ignored;
    const char *stop = end, *second = last_field(at, &stop), *first = NULL;
    if (second && tide_text_count(second, (size_t)(stop - second), UINT32_MAX, &ignored)) {
        stop = second;
        first = last_field(at, &stop);
    }
    return first && first == at && tide_text_count(first, (size_t)(stop - first), UINT32_MAX, &ignored);
}

static int too_long(const struct tide_word_vectors *v, size_t line) {
    return tide_fail(TIDE_EPROTO, "%s: line %zu: expected up to %d bytes, found more", v->name, line,
                     TIDE_WORD_LINE_MAX);
}

static int take(struct tide_word_vectors *v, const char *at, const char *end) {
    v->number++;
    if (end > at && end[-1] == '\r') {
        end--;
    }
    if (v->number == 1 && end - at >= 3 && memcmp(at, "\xef\xbb\xbf", 3) == 0) {
        at += 3;
    }
    size_t length = (size_t)(end - at);
    if (length > TIDE_WORD_LINE_MAX) {
        return too_long(v, v->number);
    }
    if (memchr(at, 0, length)) {
        return tide_fail(TIDE_EPROTO, "%s: line %zu: expected text, found a NUL byte", v->name, v->number);
    }
    size_t fields = count_fields(at, end);
    if (fields == 0 || (v->number == 1 && fields == 2 && is_header(at, end))) {
        return 0;
    }
    if (v->columns == 0) {
        if (fields < 2 || fields - 1 > TIDE_WORD_VECTOR_MAX) {
            return tide_fail(TIDE_EPROTO,
                             "%s: line %zu: expected a word and 1 to %d numbers, found "
                             "%zu fields",
                             v->name, v->number, TIDE_WORD_VECTOR_MAX, fields);
        }
        v->columns = fields - 1;
    }
    if (fields < v->columns + 1) {
        return tide_fail(TIDE_EPROTO, "%s: line %zu: expected a word and %zu numbers, found %zu fields", v->name,
                         v->number, v->columns, fields);
    }
    uint32_t word = 0;
    size_t size = (size_t)(end_of_word(v, at, end) - at);
    bool wanted = tide_dictionary_find(v->wanted, at, size, &word) && !v->seen[word];
    return wanted ? add(v, word, at, end) : 0;
}

static int keep(struct tide_word_vectors *v, const char *data, size_t size) {
    if (v->line_size + size > TIDE_WORD_LINE_MAX) {
        return too_long(v, v->number + 1);
    }
    int code = tide_array_grow(&v->line, &v->line_room, v->line_size + size + 1, 1);
    if (code == 0 && size > 0) {
        memcpy(v->line + v->line_size, data, size);
        v->line_size += size;
    }
    return code;
}

int tide_word_vectors_feed(struct tide_word_vectors *v, const char *data, size_t size) {
    const char *end = data + size;
    int code = 0;
    while (code == 0 && data < end) {
        const char *stop = memchr(data, '\n', (size_t)(end - data));
        if (!stop || v->line_size > 0) {
            code = keep(v, data, (size_t)((stop ? stop : end) - data));
        }
        if (!stop) {
            break;
        }
        if (code == 0) {
            code = v->line_size > 0 ? take(v, v->line, v->line + v->line_size) : take(v, data, stop);
            v->line_size = 0;
        }
        data = stop + 1;
    }
    return code;
}

int tide_word_vectors_end(struct tide_word_vectors *v) {
    int code = v->line_size > 0 ? take(v, v->line, v->line + v->line_size) : 0;
    v->line_size = 0;
    return code == 0 && v->columns == 0 ? tide_fail(TIDE_EPROTO,
                                                    "%s: line %zu: expected a word and its numbers, found the "
                                                    "file's end",
                                                    v->name, v->number + 1)
                                        : code;
}

size_t tide_word_vectors_found(const struct tide_word_vectors *v, const uint32_t **words, const float **values,
                               size_t *columns) {
    *words = v->words;
    *values = v->values;
    *columns = v->columns;
    return v->found;
}
