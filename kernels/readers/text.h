/*
 * Text data sets, read from buffers: lines, triples, and the WordNet database. No files here; the
 * caller has the bytes and gives each buffer a name for the errors: "NAME: line N: expected X,
 * found 'Y'". All lines may end in CRLF, the last may lack its end, a UTF-8 byte-order mark is
 * skipped, and so are blank lines, which count; NUL bytes are refused. Any thread.
 */
#ifndef TIDE_TEXT_H
#define TIDE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tide_text {
    const char *name; /* for errors */
    const void *data;
    size_t size;
};

/* ---- lines ---- */
struct tide_lines {
    const struct tide_text *text;
    const char *at, *end, *zero; /* zero: the first NUL byte, or end */
    size_t number;               /* of the line that tide_lines_next gave last; from 1 */
};
void tide_lines_init(struct tide_lines *lines, const struct tide_text *text); /* borrows text */
/* 1 and the line without its end, 0 after the last, EPROTO at a NUL byte. */
int tide_lines_next(struct tide_lines *lines, const char **line, size_t *size);

/* Whether a size that a text claims, as a header or its largest id does, fits the entries that the text has. A size
 * takes memory by itself; what goes far beyond the entries is a mistake of the text. */
static inline bool tide_text_claim_fits(uint64_t claimed, size_t entries) {
    return claimed <= 2000000 + 200 * (uint64_t)entries;
}

/* The form that a first line belongs to, of those that are no running text: "MatrixMarket", or a sentence that says
 * what it is and what to do; NULL: none that is known. */
const char *tide_text_known(const char *line, size_t size);

/* ---- narrower numbers ----
 * One rule for all that is read or converted: a whole number stays what it is, a fraction is rounded to the nearest,
 * nothing finite becomes infinite. Whole numbers beyond 2^53 are exact in no f64 and count as measured. */
enum tide_narrow { TIDE_NARROW_FITS, TIDE_NARROW_BEYOND, TIDE_NARROW_ROUNDS };
/* An f64 as f32; `out` has the nearest whatever the answer. */
enum tide_narrow tide_narrow_f32(double value, float *out);
/* Whether a whole number of this magnitude is exact in a float of so many bits: 24 of f32, 53 of f64. */
bool tide_narrow_exact(uint64_t magnitude, int bits);

/* ---- numbers, whatever the locale ---- */
/* A decimal number of at most 400 characters that fits f32 by the rule above. */
bool tide_text_number(const char *at, size_t size, float *out);
/* The same as the nearest f64. */
bool tide_text_double(const char *at, size_t size, double *out);
/* Digits only, at most `most`. */
bool tide_text_count(const char *at, size_t size, uint64_t most, uint64_t *out);

/* ---- data sets of (head, relation, tail) ---- */

/* Names in one pool: name i is the zero-terminated text at pool + offsets[i], of
 * offsets[i + 1] - offsets[i] - 1 bytes. When the data set has ids only, pool and offsets are NULL
 * and count is the largest id + 1. */
struct tide_names {
    char *pool;
    size_t *offsets;
    size_t count;
};

enum { TIDE_TRIPLE_PARTS = 3 };

struct tide_triples {
    struct tide_names entities, relations;
    uint32_t *parts[TIDE_TRIPLE_PARTS]; /* rows of head, relation, tail: train, valid, test */
    size_t counts[TIDE_TRIPLE_PARTS];   /* rows */
    /* Of a text: training rows that are there before; rows of valid and test that are training rows
     * too; entities and relations of valid and test that no training row has. */
    size_t repeated, leaked[TIDE_TRIPLE_PARTS], unseen, unseen_relations;
    char note[640]; /* what was read, by which rule: for the user */
};
void tide_triples_release(struct tide_triples *triples); /* also of a failed read */

/*
 * One part a text (1 to 3): lines `head TAB relation TAB tail`, names numbered by first appearance
 * over the texts in order, or with `ids` 0-based numbers. *gives* `out`.
 * Errors: EPROTO (names the line), EINVAL, ELIMIT (more than 2^32 - 1 names or rows), ENOMEM.
 */
int tide_text_triples(const struct tide_text *texts, size_t text_count, bool ids, struct tide_triples *out);

enum { TIDE_WORDNET_FILES = 4, TIDE_WORDNET_SYMBOLS = 26 };

/* Distinct (synset, symbol, synset) before the split, and how the split treats the symbol. */
struct tide_wordnet_counts {
    size_t synsets, pointers;
    struct {
        const char *symbol;   /* "@" */
        const char *relation; /* "hypernym"; NULL: dropped, because another symbol is its inverse */
        bool symmetric;
        size_t count;
    } symbols[TIDE_WORDNET_SYMBOLS];
};

/*
 * The WordNet database: data.noun, data.verb, data.adj, data.adv, in this order. Entities are all
 * synsets, named word.pos.nn; relations are pointer types, lexical pointers taken between synsets.
 * Keeps one of each inverse pair and one direction of the symmetric relations (smaller offset
 * first), holds out 5 % + 5 % by a hash of the unordered (pair, relation), and drops held-out
 * triples whose entities do not both occur in train. Deterministic. *gives* `out`; `counts` may be
 * NULL. Errors: EPROTO (names the line), ELIMIT, ENOMEM.
 */
int tide_text_wordnet(const struct tide_text texts[TIDE_WORDNET_FILES], struct tide_triples *out,
                      struct tide_wordnet_counts *counts);

#endif
