/* Word vectors as text: word_vectors.h. */
#include "readers/word_vectors.h"

#include "readers/fields.h"

#define ADVICE "each line is a word and its numbers"

struct tide_word_vectors {
    struct tide_fields text;
    const struct tide_dictionary *wanted;
    size_t columns; /* 0: not known yet */
    bool any;       /* a line with a word was there */
    bool *seen;     /* by word */
    uint32_t *words;
    float *values;
    size_t found, word_room, value_room;
};

/* Where the last field of at .. end begins; `end` moves before it. NULL: there is none. */
static const char *last_field(const char *at, const char **end) {
    const char *e = *end;
    while (e > at && tide_fields_blank(e[-1])) {
        e--;
    }
    const char *stop = e;
    while (e > at && !tide_fields_blank(e[-1])) {
        e--;
    }
    *end = stop;
    return e < stop ? e : NULL;
}

static size_t count_fields(const char *at, const char *end) {
    size_t fields = 0;
    for (bool blank = true; at < end; at++) {
        fields += blank && !tide_fields_blank(*at);
        blank = tide_fields_blank(*at);
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

static int read_numbers(const struct tide_word_vectors *v, const struct tide_fields_line *line, float *to) {
    const char *end = line->end;
    for (size_t i = v->columns; i > 0; i--) {
        const char *field = last_field(line->at, &end);
        if (!tide_text_number(field, (size_t)(end - field), to + i - 1)) {
            return tide_fields_refuse(&v->text, line, field, "a number that a 32-bit float holds", ADVICE);
        }
        end = field;
    }
    return 0;
}

/* The numbers of a word that is wanted. */
static int add(struct tide_word_vectors *v, uint32_t word, const struct tide_fields_line *line) {
    int code = tide_array_grow(&v->values, &v->value_room, (v->found + 1) * v->columns, sizeof(*v->values));
    code = code == 0 ? tide_array_grow(&v->words, &v->word_room, v->found + 1, sizeof(*v->words)) : code;
    code = code == 0 ? read_numbers(v, line, v->values + v->found * v->columns) : code;
    if (code == 0) {
        v->seen[word] = true;
        v->words[v->found++] = word;
    }
    return code;
}

/* "400000 300": how many words there are, and numbers a word; 0: it is no such line. */
static size_t columns_of_header(const char *at, const char *end) {
    uint64_t columns = 0, ignored;
    const char *stop = end, *second = last_field(at, &stop), *first = NULL;
    if (second && tide_text_count(second, (size_t)(stop - second), TIDE_WORD_VECTOR_MAX, &columns)) {
        stop = second;
        first = last_field(at, &stop);
    }
    return first && first == at && tide_text_count(first, (size_t)(stop - first), UINT32_MAX, &ignored)
               ? (size_t)columns
               : 0;
}

static int read_line(void *reader, struct tide_fields_line *line) {
    struct tide_word_vectors *v = reader;
    const char *at = line->at, *end = line->end;
    size_t fields = count_fields(at, end);
    if (v->text.line == 1 && fields == 2) {
        v->columns = columns_of_header(at, end);
    }
    if (fields == 0 || (v->text.line == 1 && v->columns > 0)) {
        return 0;
    }
    v->any = true;
    if (v->columns == 0) {
        if (fields < 2 || fields - 1 > TIDE_WORD_VECTOR_MAX) {
            return tide_fail(TIDE_EPROTO,
                             "%s: line %zu: expected a word and 1 to %d numbers, found "
                             "%zu fields",
                             v->text.name, v->text.line, TIDE_WORD_VECTOR_MAX, fields);
        }
        v->columns = fields - 1;
    }
    if (fields < v->columns + 1) {
        return tide_fail(TIDE_EPROTO, "%s: line %zu: expected a word and %zu numbers, found %zu fields", v->text.name,
                         v->text.line, v->columns, fields);
    }
    uint32_t word = 0;
    size_t size = (size_t)(end_of_word(v, at, end) - at);
    bool wanted = tide_dictionary_find(v->wanted, at, size, &word) && !v->seen[word];
    return wanted ? add(v, word, line) : 0;
}

int tide_word_vectors_create(const char *name, const struct tide_dictionary *wanted, struct tide_word_vectors **out) {
    struct tide_word_vectors *v = tide_alloc_zero(1, sizeof(*v));
    if (!v) {
        return TIDE_ENOMEM;
    }
    v->wanted = wanted;
    v->text = (struct tide_fields){
        .no_such = "this is no file of word vectors", .line_most = TIDE_WORD_LINE_MAX, .read = read_line, .reader = v};
    tide_fields_begin(&v->text, name);
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
        tide_fields_release(&v->text);
        tide_free(v->seen);
        tide_free(v->words);
        tide_free(v->values);
        tide_free(v);
    }
}

int tide_word_vectors_feed(struct tide_word_vectors *v, const char *data, size_t size) {
    return tide_fields_feed(&v->text, data, size);
}

int tide_word_vectors_end(struct tide_word_vectors *v) {
    int code = tide_fields_end(&v->text);
    return code == 0 && !v->any
               ? tide_fail(TIDE_EPROTO, "%s: line %zu: expected a word and its numbers, found the file's end",
                           v->text.name, v->text.line + 1)
               : code;
}

size_t tide_word_vectors_found(const struct tide_word_vectors *v, const uint32_t **words, const float **values,
                               size_t *columns) {
    *words = v->words;
    *values = v->values;
    *columns = v->columns;
    return v->found;
}
