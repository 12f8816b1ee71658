/*
 * The WordNet 3.0 database as a knowledge graph with a split that does not leak.
 *
 * Format (wndb(5WN)): lines that begin with two blanks are the licence. Else, blank-separated:
 *   offset lex_filenum ss_type w_cnt(hex) {word lex_id} p_cnt(decimal) {symbol offset pos
 *   source/target} ... | gloss
 * Two passes over each text: the first numbers and names the synsets, the second resolves pointers.
 * A triple is one 64-bit word (head, tail, symbol), so that distinct ones are found by sorting.
 */
#include "readers/text.h"

#include "base/base.h"
#include "names.h"

#include <stdlib.h>
#include <string.h>

enum treatment {
    KEEP,
    INVERSE, /* another symbol says the same in the other direction */
    SYMMETRIC,
};

static const struct {
    const char *symbol, *relation;
    enum treatment treatment;
} symbols[TIDE_WORDNET_SYMBOLS] = {
    {"@", "hypernym", KEEP},           {"~", NULL, INVERSE},
    {"@i", "instance_hypernym", KEEP}, {"~i", NULL, INVERSE},
    {"#m", "member_holonym", KEEP},    {"%m", NULL, INVERSE},
    {"#s", "substance_holonym", KEEP}, {"%s", NULL, INVERSE},
    {"#p", "part_holonym", KEEP},      {"%p", NULL, INVERSE},
    {";c", "domain_topic", KEEP},      {"-c", NULL, INVERSE},
    {";r", "domain_region", KEEP},     {"-r", NULL, INVERSE},
    {";u", "domain_usage", KEEP},      {"-u", NULL, INVERSE},
    {"&", "similar_to", SYMMETRIC},    {"=", "attribute", SYMMETRIC},
    {"$", "verb_group", SYMMETRIC},    {"!", "antonym", SYMMETRIC},
    {"+", "derivation", SYMMETRIC},    {"^", "also_see", SYMMETRIC},
    {"*", "entailment", KEEP},         {">", "cause", KEEP},
    {"\\", "pertainym", KEEP},         {"<", "participle", KEEP},
};

static const char positions[] = "nvar"; /* of the texts, in their order */

enum { ENTITY_BITS = 29, SYMBOL_BITS = 64 - 2 * ENTITY_BITS };

static uint64_t pack(uint64_t head, uint64_t symbol, uint64_t tail) {
    return head << (ENTITY_BITS + SYMBOL_BITS) | tail << SYMBOL_BITS | symbol;
}
static uint32_t head_of(uint64_t triple) {
    return (uint32_t)(triple >> (ENTITY_BITS + SYMBOL_BITS));
}
static uint32_t tail_of(uint64_t triple) {
    return (uint32_t)(triple >> SYMBOL_BITS) & ((1u << ENTITY_BITS) - 1);
}
static uint32_t symbol_of(uint64_t triple) {
    return triple & ((1u << SYMBOL_BITS) - 1);
}

struct wordnet {
    uint32_t *offsets; /* of entity i in its text; ascending within a text */
    size_t entity_count, offset_capacity;
    size_t first[TIDE_WORDNET_FILES + 1]; /* entities of text i: first[i] to first[i + 1] */
    struct tide_dictionary names;
    struct tide_dictionary lemmas; /* "word.pos" */
    uint32_t *senses;              /* of lemma i: synsets named so far */
    size_t sense_capacity;
    uint64_t *triples;
    size_t triple_count, triple_capacity;
    size_t pointer_count;             /* distinct (synset, symbol, synset) */
    size_t kept_count, dropped_count; /* after the choice of directions; held out in vain */
};

/* ---- fields ---- */

struct cursor {
    const struct tide_lines *lines;
    const char *at, *end;
};

static int expected(const struct cursor *c, const char *what, const char *found, size_t size) {
    return tide_fail(TIDE_EPROTO, "%s: line %zu: expected %s, found '%.*s'", c->lines->text->name, c->lines->number,
                     what, (int)(size < 40 ? size : 40), found);
}

static const char *next_field(struct cursor *c, size_t *size) {
    while (c->at < c->end && *c->at == ' ') {
        c->at++;
    }
    const char *start = c->at;
    while (c->at < c->end && *c->at != ' ') {
        c->at++;
    }
    *size = (size_t)(c->at - start);
    return start;
}

static int digit_value(char c) {
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : 16;
}

static int next_number(struct cursor *c, int base, size_t digits, const char *what, uint32_t *out) {
    size_t size;
    const char *text = next_field(c, &size);
    uint32_t value = 0;
    if (size != digits) {
        return expected(c, what, text, size);
    }
    for (size_t i = 0; i < size; i++) {
        int digit = digit_value(text[i]);
        if (digit >= base) {
            return expected(c, what, text, size);
        }
        value = value * (uint32_t)base + (uint32_t)digit;
    }
    *out = value;
    return 0;
}

static int next_position(struct cursor *c, size_t *out) {
    size_t size;
    const char *text = next_field(c, &size);
    char letter = size == 1 ? *text : 0;
    const char *found = letter ? strchr(positions, letter == 's' ? 'a' : letter) : NULL;
    if (!found) {
        return expected(c, "one of n v a s r", text, size);
    }
    *out = (size_t)(found - positions);
    return 0;
}

/* ---- synsets ---- */

struct synset {
    uint32_t offset;
    const char *word; /* the first, without its syntactic marker "(a)" */
    size_t word_size;
};

/* Reads up to the pointers of the line, which follow at the cursor. */
static int read_synset(struct cursor *c, size_t text, struct synset *out) {
    size_t size, position = 0;
    uint32_t words = 0;
    int rc = next_number(c, 10, 8, "an offset of 8 digits", &out->offset);
    if (rc != 0) {
        return rc;
    }
    (void)next_field(c, &size); /* lex_filenum */
    rc = next_position(c, &position);
    rc = rc != 0 ? rc : next_number(c, 16, 2, "a count of words", &words);
    if (rc != 0) {
        return rc;
    }
    if (position != text || words == 0) {
        return expected(c, "a synset of this file with words", c->at, (size_t)(c->end - c->at));
    }
    for (uint32_t i = 0; i < words; i++) {
        const char *word = next_field(c, &size);
        if (i == 0) {
            const char *marker = size > 0 ? memchr(word, '(', size) : NULL;
            out->word = word;
            out->word_size = marker ? (size_t)(marker - word) : size;
        }
        (void)next_field(c, &size); /* lex_id */
        if (size == 0 || out->word_size == 0 || out->word_size > 255) {
            return expected(c, "a word and its number", word, (size_t)(c->at - word));
        }
    }
    return 0;
}

/* Names an entity word.pos.nn; nn counts the synsets of the same first word. */
static int name_synset(struct wordnet *w, size_t text, const struct synset *s) {
    char name[300];
    uint32_t lemma, entity;
    size_t lemmas = w->lemmas.names.count;
    for (size_t i = 0; i < s->word_size; i++) {
        char c = s->word[i];
        name[i] = c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
    }
    name[s->word_size] = '.';
    name[s->word_size + 1] = positions[text];
    int rc = tide_dictionary_add(&w->lemmas, name, s->word_size + 2, &lemma);
    rc = rc != 0 ? rc : tide_array_grow(&w->senses, &w->sense_capacity, lemma + 1u, sizeof *w->senses);
    if (rc != 0) {
        return rc;
    }
    w->senses[lemma] = w->lemmas.names.count > lemmas ? 1 : w->senses[lemma] + 1;
    int size = snprintf(name + s->word_size + 2, 16, ".%02u", (unsigned)w->senses[lemma]);
    return tide_dictionary_add(&w->names, name, s->word_size + 2 + (size_t)size, &entity);
}

static int add_synset(struct wordnet *w, struct cursor *c, size_t text) {
    struct synset s = {0};
    int rc = read_synset(c, text, &s);
    if (rc != 0) {
        return rc;
    }
    if (w->entity_count > w->first[text] && w->offsets[w->entity_count - 1] >= s.offset) {
        return tide_fail(TIDE_EPROTO, "%s: line %zu: expected offsets to ascend, found %08u", c->lines->text->name,
                         c->lines->number, (unsigned)s.offset);
    }
    if (w->entity_count >= (1u << ENTITY_BITS) - 1) {
        return tide_fail(TIDE_ELIMIT, "%s: more than %zu synsets", c->lines->text->name, w->entity_count);
    }
    rc = tide_array_grow(&w->offsets, &w->offset_capacity, w->entity_count + 1, sizeof *w->offsets);
    rc = rc != 0 ? rc : name_synset(w, text, &s);
    if (rc != 0) {
        return rc;
    }
    if (w->names.names.count != w->entity_count + 1) { /* "a.n.01" and "a.n" + ".01" */
        return expected(c, "a name of its own", s.word, s.word_size);
    }
    w->offsets[w->entity_count++] = s.offset;
    return 0;
}

/* ---- pointers ---- */

static int find_entity(const struct wordnet *w, const struct cursor *c, size_t text, uint32_t offset, size_t *out) {
    size_t low = w->first[text], high = w->first[text + 1];
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (w->offsets[middle] < offset) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low == w->first[text + 1] || w->offsets[low] != offset) {
        return tide_fail(TIDE_EPROTO, "%s: line %zu: expected a synset at %08u of '%c', found none",
                         c->lines->text->name, c->lines->number, (unsigned)offset, positions[text]);
    }
    *out = low;
    return 0;
}

static int next_symbol(struct cursor *c, size_t *out) {
    size_t size;
    const char *text = next_field(c, &size);
    for (size_t i = 0; i < TIDE_WORDNET_SYMBOLS; i++) {
        if (strlen(symbols[i].symbol) == size && memcmp(symbols[i].symbol, text, size) == 0) {
            *out = i;
            return 0;
        }
    }
    return expected(c, "a pointer symbol", text, size);
}

/* The pointers of the synset that is entity `head`. */
static int add_pointers(struct wordnet *w, struct cursor *c, size_t text, size_t head) {
    struct synset s = {0};
    uint32_t pointers = 0;
    int rc = read_synset(c, text, &s);
    rc = rc != 0 ? rc : next_number(c, 10, 3, "a count of pointers", &pointers);
    rc = rc != 0 ? rc
                 : tide_array_grow(&w->triples, &w->triple_capacity, w->triple_count + pointers, sizeof *w->triples);
    for (uint32_t i = 0; i < pointers && rc == 0; i++) {
        size_t symbol = 0, position = 0, tail = 0;
        uint32_t offset = 0, words = 0;
        rc = next_symbol(c, &symbol);
        rc = rc != 0 ? rc : next_number(c, 10, 8, "an offset of 8 digits", &offset);
        rc = rc != 0 ? rc : next_position(c, &position);
        rc = rc != 0 ? rc : next_number(c, 16, 4, "4 hexadecimal digits", &words);
        rc = rc != 0 ? rc : find_entity(w, c, position, offset, &tail);
        if (rc == 0) {
            w->triples[w->triple_count++] = pack(head, symbol, tail);
        }
    }
    return rc;
}

/* Reads a text's synsets, or when `pointers`, their pointers. */
static int read_text(struct wordnet *w, const struct tide_text *text, size_t index, bool pointers) {
    struct tide_lines lines;
    const char *line;
    size_t size, entity = w->first[index];
    int more;
    tide_lines_init(&lines, text);
    while ((more = tide_lines_next(&lines, &line, &size)) > 0) {
        if (size >= 2 && line[0] == ' ' && line[1] == ' ') {
            continue;
        }
        struct cursor c = {&lines, line, line + size};
        int rc = pointers ? add_pointers(w, &c, index, entity++) : add_synset(w, &c, index);
        if (rc != 0) {
            return rc;
        }
    }
    return more;
}

/* ---- split ---- */

static int compare_words(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static size_t sort_distinct(uint64_t *words, size_t count) {
    size_t kept = 0;
    if (count > 0) {
        qsort(words, count, sizeof *words, compare_words);
    }
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || words[i] != words[i - 1]) {
            words[kept++] = words[i];
        }
    }
    return kept;
}

/* Drops inverses and turns symmetric triples so that the smaller offset is the head. */
static void choose_directions(struct wordnet *w) {
    size_t kept = 0;
    for (size_t i = 0; i < w->triple_count; i++) {
        uint64_t triple = w->triples[i];
        uint32_t head = head_of(triple), tail = tail_of(triple), symbol = symbol_of(triple);
        if (symbols[symbol].treatment == INVERSE) {
            continue;
        }
        if (symbols[symbol].treatment == SYMMETRIC) {
            uint32_t x = w->offsets[head], y = w->offsets[tail];
            if (x > y || (x == y && head > tail)) {
                triple = pack(tail, symbol, head);
            }
        }
        w->triples[kept++] = triple;
    }
    w->triple_count = sort_distinct(w->triples, kept);
    w->kept_count = w->triple_count;
}

/* 0 train, 1 valid, 2 test. Both directions of a pair have the same fate. */
static size_t part_of(uint64_t triple) {
    uint64_t head = head_of(triple), tail = tail_of(triple);
    uint64_t low = head < tail ? head : tail, high = head < tail ? tail : head;
    uint64_t hash = tide_mix64(low << 32 | high);
    hash = tide_mix64(hash + symbol_of(triple) + 1) % 20;
    return hash == 0 ? 1 : hash == 1 ? 2 : 0;
}

/* Relation i is the i-th symbol that is no inverse. */
static int name_relations(struct tide_names *out, uint32_t relations[TIDE_WORDNET_SYMBOLS]) {
    struct tide_dictionary d = {0};
    for (size_t i = 0; i < TIDE_WORDNET_SYMBOLS; i++) {
        const char *name = symbols[i].relation;
        relations[i] = UINT32_MAX;
        int rc = name ? tide_dictionary_add(&d, name, strlen(name), &relations[i]) : 0;
        if (rc != 0) {
            tide_dictionary_release(&d);
            return rc;
        }
    }
    tide_dictionary_finish(&d, out);
    return 0;
}

/* Which entities occur in train; held-out triples of others get dropped. */
static size_t choose_parts(struct wordnet *w, uint8_t *trained, size_t counts[TIDE_TRIPLE_PARTS]) {
    size_t kept = 0;
    for (size_t i = 0; i < w->triple_count; i++) {
        if (part_of(w->triples[i]) == 0) {
            trained[head_of(w->triples[i])] = trained[tail_of(w->triples[i])] = 1;
        }
    }
    for (size_t i = 0; i < w->triple_count; i++) {
        uint64_t triple = w->triples[i];
        if (trained[head_of(triple)] && trained[tail_of(triple)]) {
            counts[part_of(triple)]++;
            w->triples[kept++] = triple;
        }
    }
    size_t dropped = w->triple_count - kept;
    w->triple_count = kept;
    return dropped;
}

static int split(struct wordnet *w, struct tide_triples *out) {
    uint32_t relations[TIDE_WORDNET_SYMBOLS];
    size_t filled[TIDE_TRIPLE_PARTS] = {0};
    uint8_t *trained = tide_alloc_zero(w->entity_count, 1);
    int rc = trained ? name_relations(&out->relations, relations) : TIDE_ENOMEM;
    if (rc != 0) {
        goto out;
    }
    w->dropped_count = choose_parts(w, trained, out->counts);
    for (size_t i = 0; i < TIDE_TRIPLE_PARTS; i++) {
        out->parts[i] = tide_alloc_zero(out->counts[i], 3 * sizeof(uint32_t));
        if (!out->parts[i]) {
            rc = TIDE_ENOMEM;
            goto out;
        }
    }
    for (size_t i = 0; i < w->triple_count; i++) {
        uint64_t triple = w->triples[i];
        size_t part = part_of(triple);
        uint32_t *row = out->parts[part] + 3 * filled[part]++;
        row[0] = head_of(triple);
        row[1] = relations[symbol_of(triple)];
        row[2] = tail_of(triple);
    }
out:
    tide_free(trained);
    return rc;
}

static void count_symbols(const struct wordnet *w, struct tide_wordnet_counts *counts) {
    *counts = (struct tide_wordnet_counts){.synsets = w->entity_count, .pointers = w->triple_count};
    for (size_t i = 0; i < TIDE_WORDNET_SYMBOLS; i++) {
        counts->symbols[i].symbol = symbols[i].symbol;
        counts->symbols[i].relation = symbols[i].relation;
        counts->symbols[i].symmetric = symbols[i].treatment == SYMMETRIC;
    }
    for (size_t i = 0; i < w->triple_count; i++) {
        counts->symbols[symbol_of(w->triples[i])].count++;
    }
}

static void write_note(const struct wordnet *w, struct tide_triples *out) {
    snprintf(out->note, sizeof out->note,
             "WordNet: %zu synsets, %zu distinct pointers. Kept one of each inverse pair "
             "(@ @i #m #s #p ;c ;r ;u) and one direction of the symmetric relations (smaller "
             "offset first): %zu triples of %zu relations. Held out 5 %% + 5 %% by a hash of the "
             "unordered (pair, relation); dropped %zu held-out triples whose entities do not both "
             "occur in train. Rows: train %zu, valid %zu, test %zu.",
             w->entity_count, w->pointer_count, w->kept_count, out->relations.count, w->dropped_count, out->counts[0],
             out->counts[1], out->counts[2]);
}

int tide_text_wordnet(const struct tide_text texts[TIDE_WORDNET_FILES], struct tide_triples *out,
                      struct tide_wordnet_counts *counts) {
    struct wordnet w = {0};
    int rc = 0;
    *out = (struct tide_triples){0};
    for (size_t i = 0; i < TIDE_WORDNET_FILES && rc == 0; i++) {
        rc = read_text(&w, &texts[i], i, false);
        w.first[i + 1] = w.entity_count;
    }
    for (size_t i = 0; i < TIDE_WORDNET_FILES && rc == 0; i++) {
        rc = read_text(&w, &texts[i], i, true);
    }
    if (rc != 0) {
        goto out;
    }
    w.triple_count = sort_distinct(w.triples, w.triple_count);
    w.pointer_count = w.triple_count;
    if (counts) {
        count_symbols(&w, counts);
    }
    choose_directions(&w);
    rc = split(&w, out);
    if (rc == 0) {
        tide_dictionary_finish(&w.names, &out->entities);
        write_note(&w, out);
    }
out:
    tide_free(w.offsets);
    tide_free(w.senses);
    tide_free(w.triples);
    tide_dictionary_release(&w.names);
    tide_dictionary_release(&w.lemmas);
    if (rc != 0) {
        tide_triples_release(out);
    }
    return rc;
}
