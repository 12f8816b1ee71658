/* Reading bags of words; see bow.h. Every form becomes (document, word, count); finish sorts them.
 */
#include "readers/bow.h"

#include "base/base.h"
#include "readers/fields.h"
#include "readers/vocabulary.h"
#include "readers/words.h"
#include "names.h"

#include <math.h>

#include <stdlib.h>
#include <string.h>

enum { HEADER_LINES = 3, EMPTY_MOST = 1 << 20, EMPTY_A_PAIR = 16, WORDS_MOST = 1 << 27 };
/* Most pairs in memory beside a spool; tokens of a window; of pairs in any order at most so many windows are filled. */
enum { PAIRS_MOST = 1 << 16, WINDOW_TOKENS = 1 << 20, WINDOWS_MOST = 8 };
static const uint64_t TOKENS_MOST = UINT64_C(1) << 38;

struct pair {
    uint32_t document, word, count;
};

struct tide_bow_reader {
    struct tide_bow_options options;
    enum tide_bow_format format;
    struct tide_dictionary words; /* of text */
    struct pair *pairs;           /* the newest, behind those on the spool */
    size_t pair_count, pair_room;
    struct pair *block; /* read from the spool */
    uint64_t spooled;
    uint32_t newest;          /* document of the newest pair */
    bool unordered;           /* a pair has come behind one of a later document */
    uint64_t documents;       /* so far; UCI, MARKET: as the header says */
    uint64_t blank;           /* lines without a document since the last one */
    uint64_t vocabulary;      /* forms of numbers: the largest number + 1; UCI, MARKET: as the header says */
    uint64_t announced, seen; /* UCI, MARKET: pairs */
    bool titled, sized;       /* MARKET: the first line and the line of sizes were read */
    struct tide_fields text;
    size_t files;
    bool zero; /* an index 0 occurred */
    char word[256];
};

/* ---- pairs ---- */

static size_t pairs_held(const struct tide_bow_reader *r) {
    return r->options.window > 0 && r->options.window < PAIRS_MOST ? (size_t)r->options.window : PAIRS_MOST;
}

static int spool_pairs(struct tide_bow_reader *r) {
    const struct tide_bow_spool *spool = r->options.spool;
    int code = spool->append(spool->arg, r->pairs, r->pair_count * sizeof *r->pairs);
    r->spooled += r->pair_count;
    r->pair_count = 0;
    return code;
}

static int add(struct tide_bow_reader *r, uint64_t document, uint32_t word, uint32_t count) {
    if (document >= UINT32_MAX) {
        return tide_fail(TIDE_ELIMIT, "%s: line %zu: more than 2^32 - 2 documents", r->text.name, r->text.line);
    }
    int code = r->options.spool && r->pair_count == pairs_held(r) ? spool_pairs(r) : 0;
    code = code ? code : tide_array_grow(&r->pairs, &r->pair_room, r->pair_count + 1, sizeof *r->pairs);
    if (code == 0) {
        r->unordered = r->unordered || document < r->newest;
        r->newest = (uint32_t)document;
        r->pairs[r->pair_count++] = (struct pair){(uint32_t)document, word, count};
    }
    return code;
}

/* Those from number `at` on that lie together in memory; *count 0: there are none. */
static int pairs_at(struct tide_bow_reader *r, uint64_t at, const struct pair **out, size_t *count) {
    if (at >= r->spooled) {
        *out = r->pairs ? r->pairs + (at - r->spooled) : NULL;
        *count = r->pair_count - (size_t)(at - r->spooled);
        return 0;
    }
    const struct tide_bow_spool *spool = r->options.spool;
    *count = r->spooled - at < pairs_held(r) ? (size_t)(r->spooled - at) : pairs_held(r);
    r->block = r->block ? r->block : tide_alloc(pairs_held(r) * sizeof *r->block);
    *out = r->block;
    return r->block ? spool->read(spool->arg, at * sizeof *r->block, r->block, *count * sizeof *r->block) : TIDE_ENOMEM;
}

/* ---- forms ---- */

/* A line without a document keeps its number for an empty one, if another document comes behind it. */
static void begin_document(struct tide_bow_reader *r) {
    r->documents += r->blank;
    r->blank = 0;
}

/* ---- forms of numbers ---- */

static int read_header(struct tide_bow_reader *r, struct tide_fields_line *line) {
    static const char *const what[] = {"the number of documents", "the number of words", "the number of pairs"};
    uint64_t *const into[] = {&r->documents, &r->vocabulary, &r->announced};
    const char *field, *more;
    size_t size, rest;
    if (!tide_fields_next(line, &field, &size) ||
        !tide_text_count(field, size, UINT32_MAX - 1, into[r->text.line - 1]) || tide_fields_next(line, &more, &rest)) {
        return tide_fields_refuse(&r->text, line, field, what[r->text.line - 1],
                                  "a UCI file begins with three such lines; `format = \"text\"` reads words");
    }
    return 0;
}

/* Document, word (both from 1) and count of a form that says how many pairs there are. */
static int add_pair(struct tide_bow_reader *r, struct tide_fields_line *line, const uint64_t numbers[3]) {
    const char *field;
    size_t size;
    if (tide_fields_next(line, &field, &size)) {
        return tide_fields_refuse(&r->text, line, field, "the end of the line", "each line is `document word count`");
    }
    if (++r->seen > r->announced) {
        return tide_fields_refuse(&r->text, line, line->start, "no more pairs than the head says",
                                  "correct the head, or the lines");
    }
    return add(r, numbers[0] - 1, (uint32_t)numbers[1] - 1, (uint32_t)numbers[2]);
}

static int read_uci(struct tide_bow_reader *r, struct tide_fields_line *line) {
    if (r->text.line <= HEADER_LINES) {
        return read_header(r, line);
    }
    const uint64_t most[] = {r->documents, r->vocabulary, INT32_MAX};
    static const char *const what[] = {"a document from 1 to the number in line 1",
                                       "a word from 1 to the number in line 2", "a count from 1"};
    uint64_t numbers[3];
    const char *field;
    size_t size;
    for (int i = 0; i < 3; i++) {
        bool there = tide_fields_next(line, &field, &size);
        if (i == 0 && !there) {
            return 0; /* an empty line */
        }
        if (!there || !tide_text_count(field, size, most[i], &numbers[i]) || numbers[i] == 0) {
            return tide_fields_refuse(&r->text, line, field, what[i], "each line is `document word count`");
        }
    }
    return add_pair(r, line, numbers);
}

/* A count as other programs write it: "2", "2.0"; weights are none. */
static bool count_of(const char *field, size_t size, uint64_t *out) {
    double value;
    if (!tide_text_double(field, size, &value) || floor(value) < value || value < 1 || value > INT32_MAX) {
        return false;
    }
    *out = (uint64_t)value;
    return true;
}

static int market_banner(const struct tide_bow_reader *r, struct tide_fields_line *line) {
    static const char *const wanted[] = {"%%MatrixMarket", "matrix", "coordinate", NULL, "general"};
    const char *field;
    size_t size;
    for (size_t i = 0; i < TIDE_COUNT(wanted); i++) {
        (void)tide_fields_next(line, &field, &size);
        const bool type = !wanted[i] && (tide_fields_is(field, size, "integer") || tide_fields_is(field, size, "real"));
        if (!type && (!wanted[i] || !tide_fields_is(field, size, wanted[i]))) {
            return tide_fields_refuse(&r->text, line, field, wanted[i] ? wanted[i] : "integer or real",
                                      "documents are read from `matrix coordinate integer general`");
        }
    }
    return 0;
}

static int read_market(struct tide_bow_reader *r, struct tide_fields_line *line) {
    const uint64_t most[] = {r->documents, r->vocabulary, INT32_MAX};
    static const char *const what[] = {"a document (row) from 1 to the number in the line of sizes",
                                       "a word (column) from 1 to the number in the line of sizes",
                                       "a whole count from 1"};
    uint64_t numbers[3];
    const char *field;
    size_t size;
    if (!r->titled) {
        r->titled = true;
        return market_banner(r, line);
    }
    for (int i = 0; i < 3; i++) {
        const bool there = tide_fields_next(line, &field, &size);
        if (i == 0 && (!there || *field == '%')) {
            return 0;
        }
        if (!r->sized && (!there || !tide_text_count(field, size, UINT32_MAX - 1, &numbers[i]))) {
            return tide_fields_refuse(&r->text, line, field, "the numbers of documents, words and pairs",
                                      "MatrixMarket has them behind the comments");
        }
        const bool fits =
            r->sized && there &&
            (i < 2 ? tide_text_count(field, size, most[i], &numbers[i]) : count_of(field, size, &numbers[i]));
        if (r->sized && (!fits || numbers[i] == 0)) {
            return tide_fields_refuse(&r->text, line, field, what[i],
                                      i == 2 ? "weights (tf-idf) are no counts: write the counts"
                                             : "each line is `document word count`");
        }
    }
    if (r->sized) {
        return add_pair(r, line, numbers);
    }
    r->documents = numbers[0];
    r->vocabulary = numbers[1];
    r->announced = numbers[2];
    r->sized = true;
    return 0;
}

static int read_pairs(struct tide_bow_reader *r, struct tide_fields_line *line) {
    const char *field;
    size_t size;
    uint64_t announced = 0, pairs = 0;
    if (!tide_fields_next(line, &field, &size)) {
        r->blank++;
        return 0;
    }
    begin_document(r);
    const char *head = field;
    if (r->format == TIDE_BOW_LDAC && !tide_text_count(field, size, UINT32_MAX, &announced)) {
        return tide_fields_refuse(
            &r->text, line, field, "the number of pairs of the line",
            "a line of LDA-C is `M word:count ...`; `format = \"pairs\"` reads `label word:count ...`");
    }
    for (; tide_fields_next(line, &field, &size); pairs++) {
        const char *colon = memchr(field, ':', size);
        uint64_t word, count;
        if (!colon || !tide_text_count(field, (size_t)(colon - field), UINT32_MAX - 1, &word)) {
            return tide_fields_refuse(&r->text, line, field, "word:count with the number of a word",
                                      "write each word as number:count");
        }
        if (!tide_text_count(colon + 1, size - (size_t)(colon - field) - 1, INT32_MAX, &count) || count == 0) {
            return tide_fields_refuse(&r->text, line, colon + 1, "a count from 1", "leave words that do not occur out");
        }
        r->zero = r->zero || word == 0;
        r->vocabulary = word + 1 > r->vocabulary ? word + 1 : r->vocabulary;
        int code = add(r, r->documents, (uint32_t)word, (uint32_t)count);
        if (code < 0) {
            return code;
        }
    }
    if (r->format == TIDE_BOW_LDAC && pairs != announced) {
        return tide_fields_refuse(&r->text, line, head, "as many pairs as the line says",
                                  "a line of LDA-C is `M word:count ...`; `format = \"pairs\"` reads `label word:count "
                                  "...`");
    }
    r->documents++;
    return 0;
}

/* ---- text ---- */

static int add_word(struct tide_bow_reader *r, const char *word, size_t size, uint32_t count) {
    uint32_t number;
    char *copy = size <= sizeof r->word ? r->word : tide_alloc(size);
    if (!copy) {
        return TIDE_ENOMEM;
    }
    const size_t written = tide_words_write(word, size, !r->options.keep_case, copy);
    int code = tide_dictionary_add(&r->words, copy, written, &number);
    if (copy != r->word) {
        tide_free(copy);
    }
    return code ? code : add(r, r->documents, number, count);
}

static int too_long(const struct tide_bow_reader *r, const struct tide_fields_line *line, const char *word) {
    return tide_fields_refuse(&r->text, line, word, "a word of at most 1 MiB", "this is no text");
}

static int read_text(struct tide_bow_reader *r, struct tide_fields_line *line) {
    const char *word;
    size_t size;
    for (uint32_t i = 0; i < r->options.skip; i++) {
        if (!tide_fields_next(line, &word, &size)) {
            r->blank += i == 0;
            return i == 0 ? 0
                          : tide_fields_refuse(&r->text, line, line->end, "more fields before the words",
                                               "say another `skip`");
        }
    }
    bool any = r->options.skip > 0;
    if (any) {
        begin_document(r);
    }
    while (tide_words_next(&line->at, line->end, &word, &size)) {
        if (size > TIDE_BOW_WORD_MOST) {
            return too_long(r, line, word);
        }
        if (!any) {
            begin_document(r);
            any = true;
        }
        int code = add_word(r, word, size, 1);
        if (code < 0) {
            return code;
        }
    }
    r->blank += !any;
    r->documents += any;
    return 0;
}

static int read_counts(struct tide_bow_reader *r, struct tide_fields_line *line) {
    struct tide_fields_line ahead = *line;
    const char *field, *count_at;
    size_t size;
    uint64_t count;
    if (!tide_fields_next(&ahead, &field, &size)) {
        r->blank++;
        return 0;
    }
    begin_document(r);
    tide_fields_skip_label(line);
    while (tide_fields_next(line, &field, &size)) {
        count_at = tide_fields_count(field, size, &count);
        if (!count_at) {
            return tide_fields_refuse(&r->text, line, field, "word:count with a count from 1",
                                      "write each word with how often it occurs");
        }
        const size_t length = (size_t)(count_at - field) - 1;
        int code = length > TIDE_BOW_WORD_MOST ? too_long(r, line, field) : add_word(r, field, length, (uint32_t)count);
        if (code < 0) {
            return code;
        }
    }
    r->documents++;
    return 0;
}

/* ---- lines ---- */

/* AUTO: the form of the first line that is not empty; text is refused if it looks like another form. */
static int recognise_text(struct tide_bow_reader *r, struct tide_fields_line *line) {
    const char *known = tide_text_known(line->at, (size_t)(line->end - line->at));
    if (known && strcmp(known, "MatrixMarket") == 0) {
        r->format = TIDE_BOW_MARKET;
        return 0;
    }
    if (known) {
        return tide_fields_refuse(&r->text, line, line->at, "a corpus", known);
    }
    if (tide_fields_look_counted(*line)) {
        return tide_fields_refuse(&r->text, line, line->at, "text or a form of counts",
                                  "this looks like words with counts: `format = \"counts\"` reads word:count, "
                                  "`format = \"text\"` reads words");
    }
    r->format = TIDE_BOW_TEXT;
    return 0;
}

static int recognise(struct tide_bow_reader *r, struct tide_fields_line *whole_line) {
    struct tide_fields_line line = *whole_line;
    const char *field, *next;
    size_t size, next_size;
    uint64_t number;
    if (!tide_fields_next(&line, &field, &size)) {
        r->blank++;
        return 0;
    }
    const bool whole = tide_text_count(field, size, UINT64_MAX, &number);
    if (!tide_fields_next(&line, &next, &next_size)) {
        r->format = TIDE_BOW_UCI;
        return whole ? 0 : recognise_text(r, whole_line);
    }
    uint64_t pairs = 0, ignored;
    do {
        const char *colon = memchr(next, ':', next_size);
        if (!colon || !tide_text_count(next, (size_t)(colon - next), UINT32_MAX, &ignored)) {
            return recognise_text(r, whole_line);
        }
        pairs++;
    } while (tide_fields_next(&line, &next, &next_size));
    r->format = whole && number == pairs ? TIDE_BOW_LDAC : TIDE_BOW_PAIRS;
    return 0;
}

static int read_line(void *reader, struct tide_fields_line *line) {
    struct tide_bow_reader *r = reader;
    int code = r->format == TIDE_BOW_AUTO ? recognise(r, line) : 0;
    if (code < 0) {
        return code;
    }
    switch (r->format) {
    case TIDE_BOW_UCI:
        return read_uci(r, line);
    case TIDE_BOW_LDAC:
    case TIDE_BOW_PAIRS:
        return read_pairs(r, line);
    case TIDE_BOW_TEXT:
        return read_text(r, line);
    case TIDE_BOW_COUNTS:
        return read_counts(r, line);
    case TIDE_BOW_MARKET:
        return read_market(r, line);
    default:
        return 0; /* an empty line before the first */
    }
}

int tide_bow_open(const struct tide_bow_options *options, struct tide_bow_reader **out) {
    struct tide_bow_reader *r = tide_alloc_zero(1, sizeof *r);
    if (!r) {
        return TIDE_ENOMEM;
    }
    r->options = *options;
    r->format = options->format;
    r->text = (struct tide_fields){.no_such = "this is no text", .read = read_line, .reader = r};
    *out = r;
    return 0;
}

void tide_bow_close(struct tide_bow_reader *r) {
    if (r) {
        tide_dictionary_release(&r->words);
        tide_free(r->pairs);
        tide_free(r->block);
        tide_fields_release(&r->text);
        tide_free(r);
    }
}

int tide_bow_begin(struct tide_bow_reader *r, const char *name) {
    tide_fields_begin(&r->text, name);
    r->blank = 0; /* at the end of the file before */
    if (r->files++ > 0 && (r->format == TIDE_BOW_UCI || r->format == TIDE_BOW_MARKET)) {
        return tide_fail(TIDE_EPROTO, "%s: line 1: column 1: a data set with a head (UCI, MatrixMarket) is one file",
                         name);
    }
    return 0;
}

int tide_bow_feed(struct tide_bow_reader *r, const char *data, size_t size) {
    return tide_fields_feed(&r->text, data, size);
}

int tide_bow_end(struct tide_bow_reader *r) {
    int code = tide_fields_end(&r->text);
    const bool headed = r->format == TIDE_BOW_UCI ? r->text.line >= HEADER_LINES : r->sized;
    if (code == 0 && (r->format == TIDE_BOW_UCI || r->format == TIDE_BOW_MARKET) &&
        (!headed || r->seen != r->announced)) {
        code = tide_fail(TIDE_EPROTO,
                         "%s: line %zu: column 1: expected %llu pairs as the head says, found %llu; the file "
                         "is cut short, or its head is wrong",
                         r->text.name, r->text.line + 1, (unsigned long long)r->announced, (unsigned long long)r->seen);
    }
    return code;
}

/* ---- documents ---- */

/* The state of finish over all pairs. */
struct expansion {
    struct tide_bow_reader *r;
    struct tide_bow *out;
    uint64_t *begin;   /* documents + 1: of the tokens that were read, dropped ones too */
    uint64_t longest;  /* tokens of a document */
    uint32_t *renamed; /* number of each word, UINT32_MAX: it is dropped. NULL: its own, less the base */
    uint64_t window;   /* tokens, and documents, that are in memory at a time */
    uint32_t *words;   /* of the window */
    uint64_t *filled;  /* tokens of each document of the window */
    uint64_t at;       /* pair with which the next window begins, if they are in order */
};

static int count_tokens(struct expansion *e) {
    struct tide_bow_reader *r = e->r;
    const uint64_t tokens_most = r->options.tokens_most ? r->options.tokens_most : TOKENS_MOST;
    const struct pair *pairs;
    uint64_t tokens = 0, all = 0;
    size_t count = 0;
    int code;
    while ((code = pairs_at(r, all, &pairs, &count)) == 0 && count > 0) {
        for (size_t i = 0; i < count; i++) {
            tokens += pairs[i].count;
        }
        all += count;
    }
    if (code == 0 && (tokens > tokens_most || r->vocabulary > WORDS_MOST)) {
        return tide_fail(TIDE_ELIMIT, "%s: %llu tokens of %llu words are more than %llu of %d", r->text.name,
                         (unsigned long long)tokens, (unsigned long long)r->vocabulary, (unsigned long long)tokens_most,
                         WORDS_MOST);
    }
    if (code == 0 && r->documents > EMPTY_MOST + (uint64_t)EMPTY_A_PAIR * all) {
        return tide_fail(TIDE_EPROTO, "%s: line 1: column 1: %llu documents, of which almost all are empty",
                         r->text.name, (unsigned long long)r->documents);
    }
    return code;
}

static int find_documents(struct expansion *e) {
    const struct pair *pairs;
    size_t count = 0;
    int code = count_tokens(e);
    if (code < 0) {
        return code;
    }
    e->out->documents = (size_t)e->r->documents;
    e->begin = tide_alloc_zero(e->out->documents + 1, sizeof *e->begin);
    if (!e->begin) {
        return TIDE_ENOMEM;
    }
    for (uint64_t at = 0; (code = pairs_at(e->r, at, &pairs, &count)) == 0 && count > 0; at += count) {
        for (size_t i = 0; i < count; i++) {
            e->begin[pairs[i].document + 1] += pairs[i].count;
        }
    }
    for (size_t d = 0; d < e->out->documents; d++) {
        e->longest = e->begin[d + 1] > e->longest ? e->begin[d + 1] : e->longest;
        e->begin[d + 1] += e->begin[d];
    }
    return code;
}

static int compare_words(const void *a, const void *b) {
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* ---- the vocabulary of text ---- */

struct word_use {
    uint64_t count;
    uint32_t word, documents, last; /* last: document + 1 */
    bool dropped;
};

static int compare_use(const void *a, const void *b) {
    const struct word_use *x = a, *y = b;
    if (x->dropped != y->dropped) {
        return x->dropped ? 1 : -1;
    }
    if (x->count != y->count) {
        return x->count < y->count ? 1 : -1;
    }
    return (x->word > y->word) - (x->word < y->word);
}

static int mark_stops(const struct tide_bow_reader *r, struct word_use *uses) {
    const char *at = r->options.stop->data, *end = at + r->options.stop->size;
    struct tide_dictionary stops = {0};
    int code = 0;
    while (at < end && code == 0) {
        const char *word = at;
        char copy[256];
        while (at < end && !tide_fields_blank(*at) && *at != '\n' && *at != '\r') {
            at++;
        }
        uint32_t number;
        if (at > word && at - word < (ptrdiff_t)sizeof copy) { /* written as words of the text are */
            code = tide_dictionary_add(
                &stops, copy, tide_words_write(word, (size_t)(at - word), !r->options.keep_case, copy), &number);
        }
        at++;
    }
    for (size_t w = 0; w < r->words.names.count && code == 0; w++) {
        const char *name = r->words.names.pool + r->words.names.offsets[w];
        uint32_t number;
        uses[w].dropped = uses[w].dropped || tide_dictionary_find(&stops, name, strlen(name), &number);
    }
    tide_dictionary_release(&stops);
    return code;
}

/* Keeps the names in the new order. */
static int rename_words(const struct tide_names *names, const struct word_use *uses, size_t kept,
                        struct tide_names *out) {
    size_t bytes = 0;
    for (size_t i = 0; i < kept; i++) {
        bytes += names->offsets[uses[i].word + 1] - names->offsets[uses[i].word];
    }
    out->pool = tide_alloc(bytes + 1);
    out->offsets = tide_alloc((kept + 1) * sizeof *out->offsets);
    if (!out->pool || !out->offsets) {
        return TIDE_ENOMEM;
    }
    out->count = kept;
    out->offsets[0] = 0;
    for (size_t i = 0; i < kept; i++) {
        const size_t from = names->offsets[uses[i].word], size = names->offsets[uses[i].word + 1] - from;
        memcpy(out->pool + out->offsets[i], names->pool + from, size);
        out->offsets[i + 1] = out->offsets[i] + size;
    }
    return 0;
}

static int count_uses(const struct expansion *e, struct word_use *uses) {
    const struct pair *pairs;
    size_t count = 0;
    int code;
    for (uint64_t at = 0; (code = pairs_at(e->r, at, &pairs, &count)) == 0 && count > 0; at += count) {
        for (size_t i = 0; i < count; i++) {
            struct word_use *use = &uses[pairs[i].word];
            use->count += pairs[i].count;
            use->documents += use->last != pairs[i].document + 1;
            use->last = pairs[i].document + 1;
        }
    }
    return code;
}

/* Marks what is left out, sorts, and numbers the rest; *kept: how many. */
static int rank_words(struct expansion *e, struct word_use *uses, size_t *kept) {
    const struct tide_bow_reader *r = e->r;
    const size_t count = r->words.names.count;
    size_t filled = 0; /* documents with words */
    for (size_t d = 0; d < e->out->documents; d++) {
        filled += e->begin[d + 1] > e->begin[d];
    }
    for (size_t w = 0; w < count; w++) {
        uses[w].word = (uint32_t)w;
        uses[w].dropped =
            uses[w].count < r->options.min_count ||
            (r->options.max_share > 0 && (double)uses[w].documents > r->options.max_share * (double)filled);
    }
    int code = r->options.stop ? mark_stops(r, uses) : 0;
    if (code < 0) {
        return code;
    }
    qsort(uses, count, sizeof *uses, compare_use);
    for (size_t i = 0; i < count; i++) {
        e->renamed[uses[i].word] = uses[i].dropped ? UINT32_MAX : (uint32_t)i;
        *kept += !uses[i].dropped;
        e->out->dropped_tokens += uses[i].dropped ? (size_t)uses[i].count : 0;
    }
    e->out->dropped_words = count - *kept;
    return 0;
}

static int choose_words(struct expansion *e) {
    const struct tide_names *names = &e->r->words.names;
    struct word_use *uses = tide_alloc_zero(names->count + 1, sizeof *uses);
    e->renamed = tide_alloc((names->count + 1) * sizeof *e->renamed);
    size_t kept = 0;
    int code = uses && e->renamed ? count_uses(e, uses) : TIDE_ENOMEM;
    code = code ? code : rank_words(e, uses, &kept);
    code = code ? code : rename_words(names, uses, kept, &e->out->names);
    tide_free(uses);
    return code;
}

/* ---- the words of numbers ---- */

static int name_words(struct expansion *e) {
    struct tide_bow_reader *r = e->r;
    struct tide_bow *b = e->out;
    b->base = r->format != TIDE_BOW_PAIRS ? 0 : r->options.based ? r->options.base : !r->zero;
    if (b->base == 1 && r->zero) {
        return tide_fail(TIDE_EPROTO, "%s: line 1: column 1: expected words numbered from 1 (base = 1), found word 0",
                         r->text.name);
    }
    const size_t count = (size_t)r->vocabulary - (r->vocabulary > 0 ? b->base : 0);
    if (!r->options.vocabulary) {
        b->names.count = count;
        return 0;
    }
    const bool exact = r->format == TIDE_BOW_UCI || r->format == TIDE_BOW_MARKET;
    return tide_vocabulary_read(r->options.vocabulary, r->text.name, count, exact, &b->names);
}

/* ---- windows ---- */

static int open_window(struct expansion *e) {
    const uint64_t tokens = e->begin[e->out->documents], asked = e->r->options.window;
    e->window = asked ? asked : WINDOW_TOKENS;
    if (e->r->unordered && e->window < tokens / WINDOWS_MOST + 1) {
        e->window = tokens / WINDOWS_MOST + 1; /* each window looks at all pairs */
    }
    const uint64_t most = e->window > e->longest ? e->window : e->longest;
    e->words = tide_alloc((size_t)(most < tokens ? most : tokens) * sizeof *e->words + 1);
    e->filled = tide_alloc((size_t)(e->window < e->out->documents ? e->window : e->out->documents) * sizeof *e->filled);
    e->out->counts = tide_alloc_zero(e->out->names.count + 1, sizeof *e->out->counts);
    return e->words && e->filled && e->out->counts ? 0 : TIDE_ENOMEM;
}

static void put_pair(struct expansion *e, const struct pair *p, size_t first) {
    const uint32_t word = e->renamed ? e->renamed[p->word] : p->word - e->out->base;
    if (word == UINT32_MAX) {
        return;
    }
    uint32_t *into = e->words + (e->begin[p->document] - e->begin[first]);
    uint64_t *filled = &e->filled[p->document - first];
    for (uint32_t j = 0; j < p->count; j++) {
        into[(*filled)++] = word;
    }
}

/* The tokens of documents first .. last - 1, unsorted. */
static int fill_window(struct expansion *e, size_t first, size_t last) {
    const struct pair *pairs;
    size_t count = 0;
    int code;
    memset(e->filled, 0, (last - first) * sizeof *e->filled);
    for (uint64_t at = e->r->unordered ? 0 : e->at; (code = pairs_at(e->r, at, &pairs, &count)) == 0 && count > 0;
         at += count) {
        for (size_t i = 0; i < count; i++) {
            if (pairs[i].document >= last && !e->r->unordered) {
                e->at = at + i;
                return 0;
            }
            if (pairs[i].document >= first && pairs[i].document < last) {
                put_pair(e, &pairs[i], first);
            }
        }
    }
    return code;
}

static int give_window(struct expansion *e, size_t first, size_t last, const struct tide_bow_sink *sink) {
    int code = 0;
    for (size_t d = first; d < last && code == 0; d++) {
        uint32_t *words = e->words + (e->begin[d] - e->begin[first]);
        const size_t count = (size_t)e->filled[d - first];
        qsort(words, count, sizeof *words, compare_words);
        for (size_t j = 0; j < count; j++) {
            e->out->counts[words[j]]++;
        }
        e->out->tokens += count;
        e->out->empty += count == 0;
        code = sink->take(sink->arg, d, words, count);
    }
    return code;
}

static int give_all(struct expansion *e, const struct tide_bow_sink *sink) {
    int code = open_window(e);
    for (size_t first = 0, last; first < e->out->documents && code == 0; first = last) {
        last = first + 1;
        while (last < e->out->documents && last - first < e->window &&
               e->begin[last + 1] - e->begin[first] <= e->window) {
            last++;
        }
        code = fill_window(e, first, last);
        code = code ? code : give_window(e, first, last, sink);
    }
    return code;
}

static int keep_document(void *arg, size_t document, const uint32_t *words, size_t count) {
    struct tide_bow *b = arg;
    if (count > 0) {
        memcpy(b->words + b->offsets[document], words, count * sizeof *words);
    }
    b->offsets[document + 1] = b->offsets[document] + count;
    return 0;
}

static int expand(struct expansion *e, const struct tide_bow_sink *sink) {
    const struct tide_bow_reader *r = e->r;
    struct tide_bow *out = e->out;
    int code = find_documents(e);
    if (code < 0) {
        return code;
    }
    const size_t tokens = (size_t)e->begin[out->documents];
    if (tokens == 0) {
        return tide_fail(TIDE_EPROTO, "%s: line %zu: column 1: expected a document with words, found the end",
                         r->text.name ? r->text.name : "nothing", r->text.line + 1);
    }
    code = r->format == TIDE_BOW_TEXT || r->format == TIDE_BOW_COUNTS ? choose_words(e) : name_words(e);
    if (code == 0 && out->dropped_tokens == tokens) {
        code =
            tide_fail(TIDE_EPROTO, "%s: no word is left: all are stop words, too rare or too frequent", r->text.name);
    }
    if (code == 0 && !sink) {
        out->offsets = tide_alloc_zero(out->documents + 1, sizeof *out->offsets);
        out->words = tide_alloc((tokens - out->dropped_tokens) * sizeof *out->words);
        code = out->offsets && out->words ? 0 : TIDE_ENOMEM;
    }
    return code ? code : give_all(e, sink ? sink : &(struct tide_bow_sink){out, keep_document});
}

int tide_bow_finish(struct tide_bow_reader *r, const struct tide_bow_sink *sink, struct tide_bow *out) {
    struct expansion e = {.r = r, .out = out};
    *out = (struct tide_bow){.format = r->format};
    int code = expand(&e, sink);
    tide_free(e.begin);
    tide_free(e.renamed);
    tide_free(e.words);
    tide_free(e.filled);
    if (code < 0) {
        tide_bow_release(out);
    }
    return code;
}

void tide_bow_release(struct tide_bow *b) {
    tide_free(b->offsets);
    tide_free(b->words);
    tide_free(b->names.pool);
    tide_free(b->names.offsets);
    tide_free(b->counts);
    *b = (struct tide_bow){0};
}
