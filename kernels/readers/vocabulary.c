/* Reading vocabularies; see vocabulary.h. */
#include "readers/vocabulary.h"

#include "base/base.h"
#include "names.h"
#include "readers/fields.h"

#include <string.h>

enum form { WORD, ID_WORD, WORD_COUNT };

struct reading {
    struct tide_lines lines;
    size_t before; /* number of the line before */
    struct tide_dictionary words;
    uint64_t *ids; /* by line; ID_WORD */
    size_t id_room;
    enum form form;
    bool decided;
};

struct field {
    const char *at;
    size_t size;
};

static int refuse(const struct reading *r, const char *what, struct field found) {
    return tide_fail(TIDE_EPROTO, "%s: line %zu: column 1: expected %s, found '%.*s'", r->lines.text->name,
                     r->lines.number, what, (int)(found.size < TIDE_FIELDS_SHOWN ? found.size : TIDE_FIELDS_SHOWN),
                     found.at);
}

/* The first fields of a line, between tabs or, where it has none, blanks. Returns how many there are, 3 at most. */
static size_t split(const char *line, size_t size, struct field fields[3]) {
    const char *at = line, *end = line + size;
    const bool tabs = memchr(line, '\t', size) != NULL;
    size_t count = 0;
    while (at < end && count < 3) {
        while (at < end && (*at == ' ' || *at == '\t')) {
            at++;
        }
        const char *start = at;
        while (at < end && (tabs ? *at != '\t' : *at != ' ')) {
            at++;
        }
        if (at > start) {
            fields[count++] = (struct field){start, (size_t)(at - start)};
        }
    }
    return count;
}

static bool is_number(struct field f, uint64_t *out) {
    return tide_text_count(f.at, f.size, UINT32_MAX, out);
}

static int add(struct reading *r, struct field word) {
    uint32_t number;
    const size_t before = r->words.names.count;
    int code = tide_dictionary_add(&r->words, word.at, word.size, &number);
    return code == 0 && r->words.names.count == before ? refuse(r, "each word once", word) : code;
}

static int add_line(struct reading *r, const char *line, size_t size) {
    struct field fields[3] = {{"", 0}, {"", 0}, {"", 0}};
    const size_t count = split(line, size, fields);
    uint64_t id = 0, ignored;
    const bool first_number = is_number(fields[0], &id), second_number = is_number(fields[1], &ignored);
    const enum form form = count > 1 && first_number && !second_number    ? ID_WORD
                           : count == 2 && !first_number && second_number ? WORD_COUNT
                                                                          : WORD;
    if (r->decided && r->form == WORD && form == ID_WORD && r->words.names.count == 1 &&
        is_number((struct field){r->words.names.pool, strlen(r->words.names.pool)}, &ignored)) {
        tide_dictionary_release(&r->words); /* a number alone in the first line: gensim's number of documents */
        r->decided = false;
    }
    if (!r->decided) {
        r->form = form;
        r->decided = true;
    }
    if (r->form == WORD) {
        const char *tab = memchr(line, '\t', size);
        return add(r, (struct field){line, tab ? (size_t)(tab - line) : size});
    }
    if (r->form == ID_WORD ? count < 2 || !first_number : count != 2 || !second_number) {
        return refuse(r,
                      r->form == ID_WORD ? "`id word` as in the lines before" : "`word count` as in the lines before",
                      (struct field){line, size});
    }
    int code = tide_array_grow(&r->ids, &r->id_room, r->words.names.count + 1, sizeof *r->ids);
    if (code == 0) {
        r->ids[r->words.names.count] = id;
    }
    return code ? code : add(r, fields[r->form == ID_WORD]);
}

/* The names in the order of their ids, which are 0, 1, .. or 1, 2, ... */
static int order_by_id(struct reading *r, struct tide_names *out) {
    const struct tide_names *names = &r->words.names;
    const size_t count = names->count;
    struct tide_dictionary ordered = {0};
    size_t *line_of = tide_alloc_zero(count + 1, sizeof *line_of); /* 1 + place */
    uint64_t base = count > 0 ? r->ids[0] : 0;
    int code = line_of ? 0 : TIDE_ENOMEM;
    for (size_t i = 0; i < count; i++) {
        base = r->ids[i] < base ? r->ids[i] : base;
    }
    for (size_t i = 0; i < count && code == 0; i++) {
        const uint64_t at = r->ids[i] - base;
        if (base > 1 || at >= count || line_of[at] > 0) {
            code = tide_fail(TIDE_EPROTO,
                             "%s: line 1: column 1: expected the ids 0 to %zu or 1 to %zu, each once, found id %llu%s",
                             r->lines.text->name, count - 1, count, (unsigned long long)r->ids[i],
                             base <= 1 && at < count ? " twice" : "");
        } else {
            line_of[at] = i + 1;
        }
    }
    for (size_t at = 0; at < count && code == 0; at++) {
        uint32_t ignored;
        const char *name = names->pool + names->offsets[line_of[at] - 1];
        code = tide_dictionary_add(&ordered, name, strlen(name), &ignored);
    }
    if (code == 0) {
        tide_dictionary_finish(&ordered, out);
    }
    tide_dictionary_release(&ordered);
    tide_free(line_of);
    return code;
}

static int read_lines(struct reading *r) {
    const char *line;
    size_t size;
    int more, code = 0;
    while (code == 0 && (more = tide_lines_next(&r->lines, &line, &size)) > 0) {
        if (r->lines.number != r->before + 1) {
            return tide_fail(TIDE_EPROTO,
                             "%s: line %zu: column 1: expected a word, found an empty line; it would move the names of "
                             "the words behind it: delete it, or name the word",
                             r->lines.text->name, r->before + 1);
        }
        r->before = r->lines.number;
        code = add_line(r, line, size);
    }
    return code ? code : more;
}

int tide_vocabulary_read(const struct tide_text *text, const char *of, size_t count, bool exact,
                         struct tide_names *out) {
    struct reading r = {0};
    tide_lines_init(&r.lines, text);
    int code = read_lines(&r);
    const size_t found = r.words.names.count;
    if (code == 0 && (found < count || (exact && found > count))) {
        code = tide_fail(TIDE_EPROTO,
                         "%s: line %zu: column 1: a vocabulary of %zu words, but %s has %s%zu; is it that of "
                         "another corpus?",
                         text->name, r.lines.number, found, of, exact ? "" : "word ", count);
    }
    if (code == 0 && r.form == ID_WORD) {
        code = order_by_id(&r, out);
    } else if (code == 0) {
        tide_dictionary_finish(&r.words, out);
    }
    tide_dictionary_release(&r.words);
    tide_free(r.ids);
    return code;
}
