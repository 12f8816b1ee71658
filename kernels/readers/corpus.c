/* The corpus reader of corpus.h: one pass numbers the words as they appear, then they are renamed
 * by falling count. */
#include "readers/corpus.h"

#include "base/base.h"
#include "names.h"
#include "readers/fields.h"

#include <stdlib.h>
#include <string.h>

struct ranked {
    uint64_t count;
    uint32_t word; /* by first appearance */
};

struct corpus_reader {
    struct tide_dictionary words;
    uint32_t *tokens;
    size_t count, capacity;
};

static int add_token(struct corpus_reader *r, const char *word, size_t size) {
    uint32_t index;
    int code = tide_array_grow(&r->tokens, &r->capacity, r->count + 1, sizeof *r->tokens);
    code = code ? code : tide_dictionary_add(&r->words, word, size, &index);
    if (code == 0) {
        r->tokens[r->count++] = index;
    }
    return code;
}

static bool blank(char c) {
    return c == ' ' || c == '\t';
}

static int read_line(struct corpus_reader *r, const char *line, size_t size) {
    const char *end = line + size;
    int code = 0;
    while (code == 0) {
        while (line < end && blank(*line)) {
            line++;
        }
        const char *start = line;
        while (line < end && !blank(*line)) {
            line++;
        }
        if (line == start) {
            break;
        }
        code = add_token(r, start, (size_t)(line - start));
    }
    return code ? code : add_token(r, "</s>", 4);
}

static int check_form(const struct tide_lines *lines, const char *line, size_t size) {
    const char *known = tide_text_known(line, size);
    const bool counts = !known && tide_fields_look_counted((struct tide_fields_line){line, line, line + size});
    if (!known && !counts) {
        return 0;
    }
    return tide_fail(TIDE_EPROTO,
                     "%s: line %zu: column 1: expected running text, found '%.*s'; %s (`format = \"text\"` reads it as "
                     "text)",
                     lines->text->name, lines->number, (int)(size < TIDE_FIELDS_SHOWN ? size : TIDE_FIELDS_SHOWN), line,
                     counts                               ? "tide.data.bow reads word:count"
                     : strcmp(known, "MatrixMarket") == 0 ? "tide.data.bow reads MatrixMarket"
                                                          : known);
}

static int read_text(struct corpus_reader *r, const struct tide_text *text, bool plain) {
    struct tide_lines lines;
    const char *line;
    size_t size;
    int more, code = 0;
    bool first = !plain;
    tide_lines_init(&lines, text);
    while ((more = tide_lines_next(&lines, &line, &size)) > 0 && code == 0) {
        code = first ? check_form(&lines, line, size) : 0;
        code = code ? code : read_line(r, line, size);
        first = false;
    }
    return code ? code : more;
}

static int by_count(const void *a, const void *b) {
    const struct ranked *x = a, *y = b;
    if (x->count != y->count) {
        return x->count > y->count ? -1 : 1;
    }
    return x->word < y->word ? -1 : x->word > y->word;
}

/* Word 0 stays where it is. */
static struct ranked *rank_words(const struct corpus_reader *r, size_t word_count) {
    struct ranked *ranked = tide_alloc(word_count * sizeof *ranked);
    if (!ranked) {
        return NULL;
    }
    for (size_t i = 0; i < word_count; i++) {
        ranked[i] = (struct ranked){0, (uint32_t)i};
    }
    for (size_t i = 0; i < r->count; i++) {
        ranked[r->tokens[i]].count++;
    }
    qsort(ranked + 1, word_count - 1, sizeof *ranked, by_count);
    return ranked;
}

static int copy_names(const struct tide_names *from, const struct ranked *order, size_t count, struct tide_names *to) {
    size_t size = 0;
    for (size_t i = 0; i < count; i++) {
        const size_t *at = from->offsets + order[i].word;
        size += at[1] - at[0];
    }
    to->pool = tide_alloc(size);
    to->offsets = tide_alloc((count + 1) * sizeof *to->offsets);
    if (!to->pool || !to->offsets) {
        return TIDE_ENOMEM;
    }
    size = 0;
    for (size_t i = 0; i < count; i++) {
        const size_t *at = from->offsets + order[i].word;
        to->offsets[i] = size;
        memcpy(to->pool + size, from->pool + at[0], at[1] - at[0]);
        size += at[1] - at[0];
    }
    to->offsets[count] = size;
    to->count = count;
    return 0;
}

/* Renames the tokens in place; those of dropped words go. */
static void rename_tokens(struct corpus_reader *r, const uint32_t *names, struct tide_corpus *out) {
    size_t kept = 0;
    for (size_t i = 0; i < r->count; i++) {
        uint32_t word = names[r->tokens[i]];
        if (word != UINT32_MAX) {
            r->tokens[kept++] = word;
        }
    }
    out->dropped_tokens = r->count - kept;
    out->token_count = kept;
    out->tokens = r->tokens;
    r->tokens = NULL;
}

static int finish(struct corpus_reader *r, uint64_t min_count, struct tide_corpus *out) {
    size_t word_count = r->words.names.count, kept = 1;
    struct ranked *ranked = rank_words(r, word_count);
    uint32_t *names = tide_alloc(word_count * sizeof *names);
    int code = ranked && names ? 0 : TIDE_ENOMEM;
    if (code == 0) {
        memset(names, 0xff, word_count * sizeof *names);
        names[0] = 0;
        while (kept < word_count && ranked[kept].count >= min_count) {
            names[ranked[kept].word] = (uint32_t)kept;
            kept++;
        }
        out->dropped_words = word_count - kept;
        out->counts = tide_alloc(kept * sizeof *out->counts);
        code = out->counts ? copy_names(&r->words.names, ranked, kept, &out->words) : TIDE_ENOMEM;
    }
    if (code == 0) {
        for (size_t i = 0; i < kept; i++) {
            out->counts[i] = ranked[i].count;
        }
        rename_tokens(r, names, out);
    }
    tide_free(ranked);
    tide_free(names);
    return code;
}

/* Whether a line has two words. */
static bool has_pair(const struct tide_corpus *c) {
    size_t i = 1;
    while (i < c->token_count && (c->tokens[i - 1] == 0 || c->tokens[i] == 0)) {
        i++;
    }
    return i < c->token_count;
}

int tide_corpus_read(const struct tide_text *texts, size_t text_count, uint64_t min_count, bool plain,
                     struct tide_corpus *out) {
    struct corpus_reader r = {0};
    uint32_t end;
    *out = (struct tide_corpus){0};
    int code = tide_dictionary_add(&r.words, "</s>", 4, &end);
    for (size_t i = 0; i < text_count && code == 0; i++) {
        code = read_text(&r, &texts[i], plain);
    }
    if (code == 0 && r.words.names.count < 2) {
        code = tide_fail(TIDE_EPROTO, "%s: line 1: expected words, the text has none",
                         text_count ? texts[0].name : "corpus");
    }
    code = code ? code : finish(&r, min_count, out);
    if (code == 0 && out->words.count < 2) {
        code = tide_fail(TIDE_EINVAL, "%s: no word occurs %llu times: give a smaller min_count", texts[0].name,
                         (unsigned long long)min_count);
    }
    if (code == 0 && !has_pair(out)) {
        code = tide_fail(TIDE_EPROTO,
                         "%s: no line has two words that occur %llu times: write a sentence a line, or give a smaller "
                         "min_count",
                         texts[0].name, (unsigned long long)min_count);
    }
    tide_dictionary_release(&r.words);
    tide_free(r.tokens);
    if (code) {
        tide_corpus_release(out);
    }
    return code;
}

void tide_corpus_release(struct tide_corpus *corpus) {
    tide_free(corpus->words.pool);
    tide_free(corpus->words.offsets);
    tide_free(corpus->counts);
    tide_free(corpus->tokens);
    *corpus = (struct tide_corpus){0};
}
