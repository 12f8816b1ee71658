/*
 * The glosses of WordNet as running text: corpus.h. The format of a line is in wordnet.c; the gloss
 * is what follows the bar.
 */
#include "base/base.h"
#include "readers/corpus.h"
#include "names.h"

#include <stdlib.h>
#include <string.h>

enum { LEMMAS_MOST = 255 };

struct output {
    char *text;
    size_t size, capacity;
};

static int put(struct output *out, char c) {
    int code = tide_array_grow(&out->text, &out->capacity, out->size + 1, 1);
    if (code == 0) {
        out->text[out->size++] = c;
    }
    return code;
}

static bool letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || (unsigned char)c >= 0x80;
}

static char lower(char c) {
    return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

/* A hyphen or an apostrophe belongs to a word if letters stand on both sides. */
static bool inside(const char *text, const char *at, const char *end) {
    return (*at == '-' || *at == '\'') && at > text && at + 1 < end && letter(at[-1]) && letter(at[1]);
}

static int put_words(struct output *out, const char *text, const char *end) {
    bool word = false;
    int code = 0;
    for (const char *at = text; at < end && code == 0; at++) {
        if (letter(*at) || inside(text, at, end)) {
            word = true;
            code = put(out, lower(*at));
        } else if (word) {
            word = false;
            code = put(out, ' ');
        }
    }
    return code == 0 && word ? put(out, ' ') : code;
}

/* Ends a line that has words. */
static int put_end(struct output *out, size_t began) {
    if (out->size == began) {
        return 0;
    }
    out->text[out->size - 1] = '\n'; /* the blank behind the last word */
    return 0;
}

static const char *next_field(const char **at, const char *end, size_t *size) {
    while (*at < end && **at == ' ') {
        (*at)++;
    }
    const char *start = *at;
    while (*at < end && **at != ' ') {
        (*at)++;
    }
    *size = (size_t)(*at - start);
    return start;
}

/* The number of lemmas, hexadecimal with two digits; 0: it is none. */
static size_t lemma_count(const char *field, size_t size) {
    char digits[3] = {0};
    if (size != 2) {
        return 0;
    }
    memcpy(digits, field, 2);
    char *stop;
    unsigned long count = strtoul(digits, &stop, 16);
    return *stop || count > LEMMAS_MOST ? 0 : count;
}

static int put_lemmas(struct output *out, const char *at, const char *bar) {
    size_t size;
    for (int skipped = 0; skipped < 3; skipped++) { /* offset, file, type */
        (void)next_field(&at, bar, &size);
    }
    const char *field = next_field(&at, bar, &size);
    size_t count = lemma_count(field, size);
    int code = count ? 0 : TIDE_EPROTO;
    for (size_t i = 0; i < count && code == 0; i++) {
        const char *lemma = next_field(&at, bar, &size);
        const char *mark = memchr(lemma, '(', size); /* an adjective's position: "afraid(p)" */
        size_t length = mark ? (size_t)(mark - lemma) : size;
        if (length && !memchr(lemma, '_', length)) {
            code = put_words(out, lemma, lemma + length);
        }
        (void)next_field(&at, bar, &size); /* its number */
        code = code ? code : size ? 0 : TIDE_EPROTO;
    }
    return code;
}

static int put_synset(struct output *out, const struct tide_lines *lines, const char *line, size_t size, bool whole) {
    const char *end = line + size, *bar = memchr(line, '|', size);
    size_t began = out->size;
    int code = bar ? put_lemmas(out, line, bar) : TIDE_EPROTO;
    if (code == TIDE_EPROTO) {
        return tide_fail(TIDE_EPROTO, "%s: line %zu: expected a synset with words and a gloss after '|'",
                         lines->text->name, lines->number);
    }
    for (const char *part = bar + 1; code == 0 && part < end;) {
        const char *stop = memchr(part, ';', (size_t)(end - part));
        stop = stop ? stop : end;
        code = put_words(out, part, stop);
        if (!whole) {
            code = code ? code : put_end(out, began);
            began = out->size;
        }
        part = stop + 1;
    }
    return code ? code : put_end(out, began);
}

int tide_wordnet_glosses(const struct tide_text texts[TIDE_WORDNET_FILES], bool whole, char **result,
                         size_t *result_size) {
    struct output out = {0};
    int code = 0;
    for (int i = 0; i < TIDE_WORDNET_FILES && code == 0; i++) {
        struct tide_lines lines;
        const char *line;
        size_t size;
        int more = 1;
        tide_lines_init(&lines, &texts[i]);
        while (code == 0 && (more = tide_lines_next(&lines, &line, &size)) > 0) {
            bool licence = size >= 2 && line[0] == ' ' && line[1] == ' ';
            code = licence ? 0 : put_synset(&out, &lines, line, size, whole);
        }
        code = code ? code : more;
    }
    if (code == 0) {
        code = put(&out, 0);
    }
    if (code) {
        tide_free(out.text);
        return code;
    }
    *result = out.text;
    *result_size = out.size - 1;
    return 0;
}
