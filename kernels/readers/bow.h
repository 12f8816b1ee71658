/*
 * Bags of words: documents as word numbers, from text or from the forms in which counts are
 * published. A document keeps its number: a line without words is an empty document, but for those
 * at the end of a file. No files here: bytes are fed in pieces of any size. Any thread.
 */
#ifndef TIDE_BOW_H
#define TIDE_BOW_H

#include "text.h"

enum tide_bow_format {
    TIDE_BOW_AUTO,   /* by the first line; what looks like a form that AUTO does not read is refused */
    TIDE_BOW_UCI,    /* three lines D, V, pairs; then "document word count", numbers from 1, in any
                        order */
    TIDE_BOW_LDAC,   /* "M word:count ...": M pairs, words from 0 (Blei's LDA-C) */
    TIDE_BOW_PAIRS,  /* "label word:count ...": LibSVM, or LightLDA's "id<TAB>word:count ..."; words
                        from 0 if a 0 occurs */
    TIDE_BOW_TEXT,   /* a document a line; words as in words.h */
    TIDE_BOW_COUNTS, /* "label | word:count ..." with the words themselves; label or "label |" may lack */
    TIDE_BOW_MARKET, /* MatrixMarket coordinates, a row a document, of counts */
    TIDE_BOW_FORMATS
};

/* Bytes that are kept elsewhere, in a file: appended, and read anywhere. Both give 0 or a negative code. */
struct tide_bow_spool {
    void *arg;
    int (*append)(void *arg, const void *data, size_t size);
    int (*read)(void *arg, uint64_t at, void *out, size_t size);
};

/* Takes the documents in order; `words` rise, and are lent. Non-zero: the reading ends with that code. */
struct tide_bow_sink {
    void *arg;
    int (*take)(void *arg, size_t document, const uint32_t *words, size_t count);
};

struct tide_bow_options {
    enum tide_bow_format format;
    bool keep_case; /* else letters become small */
    bool based;     /* PAIRS: words are numbered from `base`; else from 0 if a 0 occurs, from 1 if not */
    uint32_t base;
    uint32_t skip;                /* text: fields at the start of a line that are no words (ids; Yahoo's form has 2) */
    uint64_t min_count;           /* text, counts: rarer words are left out; so of max_share and stop */
    double max_share;             /* text: words of more than this share of the documents are left out; 0: none */
    const struct tide_text *stop; /* text: words that are left out, between blanks and line ends; NULL: none */
    uint64_t tokens_most;         /* ELIMIT beyond; 0: 2^38 */
    const struct tide_bow_spool
        *spool;      /* what was read is kept there, 12 bytes a word of a document; NULL: in memory */
    uint64_t window; /* tokens that are in memory beside it, if the documents come in order (else an eighth); 0: 2^20 */
    const struct tide_text *vocabulary; /* for the forms of numbers (vocabulary.h); NULL: the numbers are the names */
};

struct tide_bow {
    uint64_t *offsets; /* documents + 1; NULL, as words are, where a sink took the documents */
    uint32_t *words;   /* rising in a document; of text by falling count */
    size_t documents, tokens;
    struct tide_names names; /* one a word; pool NULL: numbers */
    uint64_t *counts;        /* of each word */
    size_t dropped_words, dropped_tokens;
    size_t empty; /* documents without a word */
    enum tide_bow_format format;
    uint32_t base; /* of PAIRS: what was subtracted from the words' numbers */
};

enum { TIDE_BOW_WORD_MOST = 1 << 20 };

struct tide_bow_reader;
/* *gives*; borrows what the options point to. ENOMEM. */
int tide_bow_open(const struct tide_bow_options *options, struct tide_bow_reader **out);
/* The next file's name, for errors: it outlives the reader. Documents follow those before. UCI: one
 * file. */
int tide_bow_begin(struct tide_bow_reader *reader, const char *name);
/* Errors of feed and end: EPROTO ("NAME: line N: column C: expected .., found ..; .."), ELIMIT,
 * ENOMEM. */
int tide_bow_feed(struct tide_bow_reader *reader, const char *data, size_t size);
int tide_bow_end(struct tide_bow_reader *reader);
/* *gives* what was read; with a sink the documents go there, and out->documents says before the first how many there
 * are. ELIMIT: too many tokens, or 2^27 words. EPROTO: no document, no word, totals that do not match, a word beyond
 * the vocabulary. Errors of sink and spool. */
int tide_bow_finish(struct tide_bow_reader *reader, const struct tide_bow_sink *sink, struct tide_bow *out);
void tide_bow_close(struct tide_bow_reader *reader); /* NULL allowed */
void tide_bow_release(struct tide_bow *bow);

#endif
