/*
 * Forests from text (forest.h, docs/guides/dynamic-networks.md): numbers of parents or children, bracketed
 * trees, sentences. A sample at a time is held beside what was made; nothing here recurses.
 */
#include "readers/forest.h"

#include "base/base.h"
#include "names.h"
#include "readers/text.h"

#include <string.h>

enum { ANY_LABEL = 1 << 20, SENTIMENTS = 5, SHOWN = 20 };

struct reading {
    const struct tide_forest_format *format;
    struct tide_forest *f;
    struct tide_lines lines[3];
    const char *line, *at, *end; /* of the line being read */
    const struct tide_lines *of; /* whose it is */
    uint32_t vocabulary, classes;
    /* One sample: `room` vertices, edges. */
    size_t room, edge_room, count, edges;
    uint32_t *start, *parent, *fill, *stack;
    int32_t *child, *word, *label, *kind;
};

/* EPROTO at the cursor: "NAME: line N: column C: expected .., found '..'" */
static int expected(const struct reading *r, const char *what) {
    size_t column = (size_t)(r->at - r->line) + 1, left = (size_t)(r->end - r->at);
    size_t shown = 0;
    while (shown < left && shown < SHOWN && r->at[shown] != ' ' && r->at[shown] != '\t') {
        shown++;
    }
    if (left == 0) {
        return tide_fail(TIDE_EPROTO, "%s: line %zu: column %zu: expected %s, found the line's end", r->of->text->name,
                         r->of->number, column, what);
    }
    return tide_fail(TIDE_EPROTO, "%s: line %zu: column %zu: expected %s, found '%.*s'", r->of->text->name,
                     r->of->number, column, what, (int)shown, r->at);
}

/* The last failure, at the sample that ends with this line. */
static int in_sample(const struct reading *r, int code) {
    char text[200];
    snprintf(text, sizeof(text), "%s", tide_error_message());
    return code == TIDE_EINVAL || code == TIDE_ELIMIT
               ? tide_fail(TIDE_EPROTO, "%s: line %zu: sample %zu: %s", r->of->text->name, r->of->number,
                           r->f->samples + 1, text)
               : code;
}

/* 1: a line; 0: none is left; or a code. */
static int next_line(struct reading *r, size_t text) {
    size_t size = 0;
    int code = tide_lines_next(&r->lines[text], &r->line, &size);
    r->of = &r->lines[text];
    r->line = code > 0 ? r->line : "";
    r->at = r->line;
    r->end = r->line + (code > 0 ? size : 0);
    return code;
}

static int need_line(struct reading *r, size_t text, const char *what) {
    int code = next_line(r, text);
    return code == 0  ? tide_fail(TIDE_EPROTO, "%s: line %zu: expected %s, found the file's end", r->of->text->name,
                                  r->of->number + 1, what)
           : code < 0 ? code
                      : 0;
}

static void skip_blanks(struct reading *r) {
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\t')) {
        r->at++;
    }
}

/* A whole number in least .. most. */
static int number(struct reading *r, int64_t least, int64_t most, const char *what, int64_t *out) {
    skip_blanks(r);
    const char *at = r->at;
    bool negative = at < r->end && *at == '-';
    uint64_t value = 0;
    at += negative;
    const char *digits = at;
    while (at < r->end && *at >= '0' && *at <= '9' && value < (uint64_t)1 << 40) {
        value = 10 * value + (uint64_t)(*at++ - '0');
    }
    int64_t found = negative ? -(int64_t)value : (int64_t)value;
    bool ends = at == r->end || *at == ' ' || *at == '\t';
    if (at == digits || !ends || found < least || found > most) {
        return expected(r, what);
    }
    r->at = at;
    *out = found;
    return 0;
}

static int line_ends(struct reading *r) {
    skip_blanks(r);
    return r->at == r->end ? 0 : expected(r, "the line's end");
}

static int grow(void *array, size_t room, size_t element) {
    void **memory = array;
    void *larger = tide_realloc(*memory, room * element);
    if (!larger) {
        return TIDE_ENOMEM;
    }
    *memory = larger;
    return 0;
}

/* Room for one more vertex than `count`, or for `vertices`. */
static int room_for(struct reading *r, size_t vertices) {
    if (vertices < r->room) {
        return 0;
    }
    size_t room = 2 * vertices + 64;
    if (vertices >= INT32_MAX) {
        return tide_fail(TIDE_ELIMIT, "a sample has fewer than 2^31 vertices");
    }
    int code = grow(&r->start, room + 1, sizeof(*r->start));
    code = code == 0 ? grow(&r->parent, room, sizeof(*r->parent)) : code;
    code = code == 0 ? grow(&r->fill, room + 1, sizeof(*r->fill)) : code;
    code = code == 0 ? grow(&r->stack, room, sizeof(*r->stack)) : code;
    code = code == 0 ? grow(&r->word, room, sizeof(*r->word)) : code;
    code = code == 0 ? grow(&r->label, room, sizeof(*r->label)) : code;
    code = code == 0 ? grow(&r->kind, room, sizeof(*r->kind)) : code;
    r->room = code == 0 ? room : r->room;
    return code;
}

static int add_child(struct reading *r, int32_t child) {
    if (r->edges == r->edge_room) {
        size_t room = 2 * r->edge_room + 64;
        int code = grow(&r->child, room, sizeof(*r->child));
        if (code != 0) {
            return code;
        }
        r->edge_room = room;
    }
    r->child[r->edges++] = child;
    return 0;
}

/* Children of each vertex in order of their numbers, from `parent` (UINT32_MAX: a root). */
static int children_of_parents(struct reading *r) {
    memset(r->start, 0, (r->count + 1) * sizeof(*r->start));
    r->edges = 0;
    for (size_t v = 0; v < r->count; v++) {
        if (r->parent[v] != UINT32_MAX) {
            r->start[r->parent[v] + 1]++;
            int code = add_child(r, 0);
            if (code != 0) {
                return code;
            }
        }
    }
    for (size_t v = 0; v < r->count; v++) {
        r->start[v + 1] += r->start[v];
        r->fill[v] = r->start[v];
    }
    for (size_t v = 0; v < r->count; v++) {
        if (r->parent[v] != UINT32_MAX) {
            r->child[r->fill[r->parent[v]]++] = (int32_t)v;
        }
    }
    return 0;
}

static int finish_sample(struct reading *r) {
    const int32_t *inputs[3] = {r->word, r->label, r->kind};
    int code = tide_forest_add(r->f, r->count, r->start, r->child, inputs, NULL);
    return code == 0 ? 0 : in_sample(r, code);
}

static int begin_forest(struct reading *r) {
    int code = tide_forest_input(r->f, "word", false, true, 1, r->vocabulary);
    return code == 0 ? tide_forest_input(r->f, "label", false, true, 1, r->classes) : code;
}

/* ---- numbers ---- */

static int numbers_of_vertices(struct reading *r, const char *what, int64_t most, int32_t *out) {
    int code = need_line(r, 0, what);
    for (size_t v = 0; code == 0 && v < r->count; v++) {
        int64_t value = 0;
        code = number(r, -1, most, what, &value);
        out[v] = (int32_t)value;
    }
    return code == 0 ? line_ends(r) : code;
}

/* Names of kinds behind the numbers of the first line. */
static int read_kinds(struct reading *r) {
    char text[TIDE_FOREST_KINDS][TIDE_FOREST_NAME];
    const char *names[TIDE_FOREST_KINDS];
    size_t count = 0;
    for (skip_blanks(r); r->at < r->end; skip_blanks(r), count++) {
        const char *at = r->at;
        while (at < r->end && *at != ' ' && *at != '\t') {
            at++;
        }
        if (count == TIDE_FOREST_KINDS || at - r->at >= TIDE_FOREST_NAME) {
            return expected(r, "up to 8 kinds with names of up to 31 bytes");
        }
        snprintf(text[count], sizeof(text[count]), "%.*s", (int)(at - r->at), r->at);
        names[count] = text[count];
        for (size_t k = 0; k < count; k++) {
            if (strcmp(text[k], text[count]) == 0) {
                return expected(r, "another name: a kind is named once");
            }
        }
        r->at = at;
    }
    return count > 0 ? tide_forest_kinds(r->f, count, names) : 0;
}

static int kinds_of_vertices(struct reading *r) {
    char what[64];
    snprintf(what, sizeof(what), "a kind, 0 .. %zu", r->f->kind_count - 1);
    int code = need_line(r, 0, what);
    for (size_t v = 0; code == 0 && v < r->count; v++) {
        int64_t value = 0;
        code = number(r, 0, (int64_t)r->f->kind_count - 1, what, &value);
        r->kind[v] = (int32_t)value;
    }
    return code == 0 ? line_ends(r) : code;
}

static int read_graph_line(struct reading *r, bool lists) {
    int code = need_line(r, 0, lists ? "children" : "parents"), found = 0;
    r->edges = 0;
    for (size_t v = 0; code == 0 && v < r->count; v++) {
        int64_t value = 0;
        if (!lists) {
            code = number(r, -1, (int64_t)r->count - 1, "a parent's number, -1 of a root", &value);
            r->parent[v] = value < 0 ? UINT32_MAX : (uint32_t)value;
            continue;
        }
        r->start[v] = (uint32_t)r->edges;
        code = number(r, 0, INT32_MAX, "the number of a vertex's children", &value);
        for (int64_t left = value; code == 0 && left > 0; left--) {
            code = number(r, 0, (int64_t)r->count - 1, "a child's number", &value);
            code = code == 0 ? add_child(r, (int32_t)value) : code;
        }
        r->start[v + 1] = (uint32_t)r->edges;
    }
    found = code == 0 ? line_ends(r) : code;
    return found == 0 && !lists ? children_of_parents(r) : found;
}

static int read_numbers(struct reading *r, bool lists) {
    int64_t samples = 0, words = 0, count = 0;
    int code = need_line(r, 0, "the numbers of samples and words");
    code = code == 0 ? number(r, 1, UINT32_MAX, "the number of samples", &samples) : code;
    code = code == 0 ? number(r, 1, INT32_MAX, "the number of words", &words) : code;
    r->vocabulary = (uint32_t)words;
    code = code == 0 ? begin_forest(r) : code;
    code = code == 0 ? read_kinds(r) : code;
    for (int64_t s = 0; code == 0 && s < samples; s++) {
        code = need_line(r, 0, "the number of a sample's vertices");
        code = code == 0 ? number(r, 1, INT32_MAX - 1, "the number of a sample's vertices", &count) : code;
        code = code == 0 ? line_ends(r) : code;
        /* Each vertex takes a byte and a blank: what a file cannot hold is not asked for. */
        size_t left = (size_t)(r->lines[0].end - r->lines[0].at);
        if (code == 0 && (uint64_t)count > left) {
            code = tide_fail(TIDE_EPROTO,
                             "%s: line %zu: expected at most %zu vertices, which the "
                             "rest of the file could hold, found %lld",
                             r->of->text->name, r->of->number, left, (long long)count);
        }
        code = code == 0 ? room_for(r, (size_t)count) : code;
        r->count = (size_t)count;
        code = code == 0 ? read_graph_line(r, lists) : code;
        code = code == 0 ? numbers_of_vertices(r, "a word's number, -1 of none", words - 1, r->word) : code;
        code = code == 0 ? numbers_of_vertices(r, "a label, -1 of none", (int64_t)r->classes - 1, r->label) : code;
        code = code == 0 && r->f->kind_count > 0 ? kinds_of_vertices(r) : code;
        code = code == 0 ? finish_sample(r) : code;
    }
    int more = code == 0 ? next_line(r, 0) : code;
    return more > 0 ? expected(r, "the file's end") : more;
}

static int read_sentences(struct reading *r) {
    int64_t sentences = 0, words = 0, count = 0, id = 0;
    int code = need_line(r, 0, "the numbers of sentences and words");
    code = code == 0 ? number(r, 1, UINT32_MAX, "the number of sentences", &sentences) : code;
    code = code == 0 ? number(r, 1, INT32_MAX, "the number of words", &words) : code;
    code = code == 0 ? line_ends(r) : code;
    r->vocabulary = r->classes = (uint32_t)words;
    code = code == 0 ? begin_forest(r) : code;
    for (int64_t s = 0; code == 0 && s < sentences; s++) {
        int32_t before = 0;
        code = need_line(r, 0, "a sentence");
        code = code == 0 ? number(r, 1, r->end - r->line, "the number of its words", &count) : code;
        code = code == 0 ? room_for(r, (size_t)count) : code;
        r->count = (size_t)count;
        r->edges = 0;
        for (int64_t t = 0; code == 0 && t < count; t++) {
            r->start[t] = (uint32_t)r->edges;
            code = t > 0 ? add_child(r, (int32_t)t - 1) : 0;
            code = code == 0 ? number(r, 0, words - 1, "a word's number", &id) : code;
            r->word[t] = before;
            r->label[t] = before = (int32_t)id;
            r->start[t + 1] = (uint32_t)r->edges;
        }
        code = code == 0 ? line_ends(r) : code;
        code = code == 0 ? finish_sample(r) : code;
    }
    int more = code == 0 ? next_line(r, 0) : code;
    return more > 0 ? expected(r, "the file's end") : more;
}

/* ---- words ---- */

static int word_number(struct reading *r, const char *at, size_t size, int32_t *out) {
    struct tide_dictionary *d = r->format->words;
    uint32_t index = 0;
    if (!r->format->grow) {
        *out = tide_dictionary_find(d, at, size, &index) ? (int32_t)index : (int32_t)r->vocabulary - 1;
        return 0;
    }
    int code = tide_dictionary_add(d, at, size, &index);
    if (code == 0 && index >= INT32_MAX - 1) {
        code = tide_fail(TIDE_ELIMIT, "there are more than 2^31 words");
    }
    *out = (int32_t)index;
    return code;
}

/* ---- bracketed trees ---- */

/* Vertices as they open; their final numbers come after the line. */
struct brackets {
    size_t depth, leaves, inner;
};

static int open_bracket(struct reading *r, struct brackets *b) {
    int64_t label = 0;
    int code = room_for(r, r->count + 1);
    if (code != 0) {
        return code;
    }
    r->at++;
    const char *at = r->at;
    while (at < r->end && *at >= '0' && *at <= '9' && label < ANY_LABEL) {
        label = 10 * label + (*at++ - '0');
    }
    if (at == r->at || at == r->end || *at != ' ' || label >= (int64_t)r->classes) {
        return expected(r, "a label and a blank behind \"(\"");
    }
    size_t v = r->count++;
    r->parent[v] = b->depth > 0 ? r->stack[b->depth - 1] : UINT32_MAX;
    r->word[v] = -1;
    r->label[v] = (int32_t)label;
    r->stack[b->depth++] = (uint32_t)v;
    r->at = at;
    return 0;
}

static int read_word(struct reading *r, const struct brackets *b) {
    const char *at = r->at;
    uint32_t v = r->stack[b->depth - 1];
    while (at < r->end && *at != ' ' && *at != ')' && *at != '(') {
        at++;
    }
    if (r->word[v] >= 0 || v + 1 != r->count || at == r->at) {
        return expected(r, "\")\"");
    }
    int code = word_number(r, r->at, (size_t)(at - r->at), &r->word[v]);
    r->at = at;
    return code;
}

/* Leaves from left to right, then the others as they close: fill[opening number] = number. */
static int close_bracket(struct reading *r, struct brackets *b) {
    uint32_t v = r->stack[b->depth - 1];
    bool leaf = r->word[v] >= 0;
    if (!leaf && v + 1 == r->count) {
        return expected(r, "a word or a tree");
    }
    r->fill[v] = (uint32_t)(leaf ? b->leaves++ : b->inner++);
    b->depth--;
    r->at++;
    return 0;
}

static int number_tree(struct reading *r, const struct brackets *b) {
    size_t n = r->count;
    int code = room_for(r, 3 * n + 2); /* copies behind the vertices */
    if (code != 0) {
        return code;
    }
    for (size_t v = 0; v < n; v++) {
        r->fill[v] += r->word[v] >= 0 ? 0 : (uint32_t)b->leaves;
    }
    memcpy(r->word + n, r->word, n * sizeof(*r->word));
    memcpy(r->label + n, r->label, n * sizeof(*r->label));
    memcpy(r->parent + n, r->parent, n * sizeof(*r->parent));
    for (size_t v = 0; v < n; v++) {
        uint32_t to = r->fill[v], above = r->parent[n + v];
        r->word[to] = r->word[n + v];
        r->label[to] = r->label[n + v];
        r->parent[to] = above == UINT32_MAX ? above : r->fill[above];
    }
    memcpy(r->stack, r->fill, n * sizeof(*r->stack)); /* children in the order they opened */
    memset(r->start, 0, (n + 1) * sizeof(*r->start));
    r->edges = 0;
    for (size_t v = 0; code == 0 && v < n; v++) {
        if (r->parent[v] != UINT32_MAX) {
            r->start[r->parent[v] + 1]++;
            code = add_child(r, 0);
        }
    }
    for (size_t v = 0; code == 0 && v < n; v++) {
        r->start[v + 1] += r->start[v];
        r->fill[v] = r->start[v];
    }
    for (size_t v = 0; code == 0 && v < n; v++) {
        uint32_t own = r->stack[v], above = r->parent[own];
        if (above != UINT32_MAX) {
            r->child[r->fill[above]++] = (int32_t)own;
        }
    }
    return code;
}

static int read_tree(struct reading *r) {
    struct brackets b = {0, 0, 0};
    int code = 0;
    r->count = 0;
    skip_blanks(r);
    do {
        skip_blanks(r);
        if (r->at == r->end) {
            code = expected(r, r->count == 0 ? "\"(\"" : "\")\"");
        } else if (*r->at == '(') {
            if (b.depth > 0 && r->word[r->stack[b.depth - 1]] >= 0) {
                code = expected(r, "\")\" behind a word");
            } else {
                code = open_bracket(r, &b);
            }
        } else if (b.depth == 0) {
            code = expected(r, "\"(\"");
        } else {
            code = *r->at == ')' ? close_bracket(r, &b) : read_word(r, &b);
        }
    } while (code == 0 && b.depth > 0);
    code = code == 0 ? line_ends(r) : code;
    code = code == 0 ? number_tree(r, &b) : code;
    return code == 0 ? finish_sample(r) : code;
}

static int read_trees(struct reading *r) {
    int code = begin_forest(r);
    for (int more = 1; code == 0 && more > 0;) {
        more = next_line(r, 0);
        code = more < 0 ? more : 0;
        if (more > 0 && r->line < r->end) {
            code = read_tree(r);
        }
    }
    return code;
}

/* ---- parents, sentences and labels in three files ---- */

/* The next line of a file beside the parents': on the line that theirs is on, for what is skipped moves the samples. */
static int need_same_line(struct reading *r, size_t text, const char *what) {
    const int code = need_line(r, text, what);
    return code == 0 && r->of->number != r->lines[0].number
               ? tide_fail(TIDE_EPROTO,
                           "%s: line %zu: expected %s in line %zu, where the parents of the sample are in %s; an empty "
                           "line moves the samples behind it",
                           r->of->text->name, r->of->number, what, r->lines[0].number, r->lines[0].text->name)
               : code;
}

static int read_stanford_sample(struct reading *r) {
    int code = 0;
    r->count = 0;
    for (skip_blanks(r); code == 0 && r->at < r->end; skip_blanks(r)) {
        int64_t above = 0;
        code = room_for(r, r->count + 1);
        code = code == 0 ? number(r, 0, r->end - r->line, "a parent's number, 0 of the root", &above) : code;
        r->parent[r->count] = above == 0 ? UINT32_MAX : (uint32_t)above - 1;
        r->word[r->count] = r->label[r->count] = -1;
        r->count += code == 0;
    }
    for (size_t v = 0; code == 0 && v < r->count; v++) {
        if (r->parent[v] != UINT32_MAX && r->parent[v] >= r->count) {
            code = tide_fail(TIDE_EPROTO, "%s: line %zu: vertex %zu has the parent %u, of %zu", r->of->text->name,
                             r->of->number, v + 1, r->parent[v] + 1, r->count);
        }
    }
    code = code == 0 && r->count == 0 ? expected(r, "a parent's number") : code;
    code = code == 0 ? need_same_line(r, 1, "a sentence") : code;
    size_t words = 0;
    for (skip_blanks(r); code == 0 && r->at < r->end; skip_blanks(r), words++) {
        const char *at = r->at;
        while (at < r->end && *at != ' ' && *at != '\t') {
            at++;
        }
        code = words < r->count ? word_number(r, r->at, (size_t)(at - r->at), &r->word[words])
                                : expected(r, "no more words than vertices");
        r->at = at;
    }
    code = code == 0 ? need_same_line(r, 2, "labels") : code;
    for (size_t v = 0; code == 0 && v < r->count; v++) {
        int64_t label = 0;
        skip_blanks(r);
        if (r->at < r->end && *r->at == '#') { /* none */
            r->at++;
            continue;
        }
        code = number(r, -1, (int64_t)r->classes - 1, "a label", &label);
        r->label[v] = (int32_t)label;
    }
    code = code == 0 ? line_ends(r) : code;
    code = code == 0 ? children_of_parents(r) : code;
    return code == 0 ? finish_sample(r) : code;
}

static int read_stanford(struct reading *r) {
    int code = begin_forest(r), more = 1;
    while (code == 0 && (more = next_line(r, 0)) > 0) {
        code = read_stanford_sample(r);
    }
    code = code == 0 && more < 0 ? more : code;
    for (size_t t = 1; code == 0 && t < 3; t++) {
        more = next_line(r, t);
        code = more > 0 ? expected(r, "the file's end, as that of the parents") : more;
    }
    return code;
}

int tide_forest_read(const struct tide_forest_format *format, const struct tide_text *texts, size_t text_count,
                     struct tide_forest **out) {
    static const char *const names[] = {"parents", "lists", "sexpr", "stanford", "sentences"};
    enum { PARENTS, LISTS, SEXPR, STANFORD, SENTENCES, COUNT };
    struct reading r = {.format = format};
    size_t which = 0;
    while (which < COUNT && strcmp(format->name, names[which]) != 0) {
        which++;
    }
    bool words = which == SEXPR || which == STANFORD;
    if (which == COUNT || text_count != (which == STANFORD ? 3 : 1) || (words && !format->words)) {
        return tide_fail(TIDE_EINVAL, "a forest is read from \"parents\", \"lists\", \"sexpr\", "
                                      "\"stanford\" (three files) or \"sentences\"");
    }
    for (size_t t = 0; t < text_count; t++) {
        tide_lines_init(&r.lines[t], &texts[t]);
    }
    r.classes = format->classes ? format->classes : words ? SENTIMENTS : ANY_LABEL;
    r.vocabulary = words ? format->grow ? (uint32_t)INT32_MAX : (uint32_t)format->words->names.count + 1 : 0;
    int code = tide_forest_create(&r.f);
    if (code == 0) {
        code = which == SEXPR       ? read_trees(&r)
               : which == STANFORD  ? read_stanford(&r)
               : which == SENTENCES ? read_sentences(&r)
                                    : read_numbers(&r, which == LISTS);
    }
    if (code == 0 && r.f->samples == 0) {
        code = tide_fail(TIDE_EPROTO, "%s: line 1: expected a sample, found the file's end", texts[0].name);
    }
    if (code == 0 && words) { /* the last one stands for all others */
        r.f->inputs[0].below = (uint32_t)format->words->names.count + 1;
    }
    if (code == 0 && !format->classes && !words && which != SENTENCES) {
        const int32_t *labels = r.f->inputs[1].data;
        int32_t most = 0;
        for (size_t v = 0; v < r.f->vertices; v++) {
            most = labels[v] > most ? labels[v] : most;
        }
        r.f->inputs[1].below = (uint32_t)most + 1;
    }
    tide_free(r.start);
    tide_free(r.parent);
    tide_free(r.fill);
    tide_free(r.stack);
    tide_free(r.child);
    tide_free(r.word);
    tide_free(r.label);
    tide_free(r.kind);
    if (code != 0) {
        tide_forest_destroy(r.f);
        return code;
    }
    *out = r.f;
    return 0;
}
