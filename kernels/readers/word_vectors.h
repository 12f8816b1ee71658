/*
 * Word vectors as text, a line a word: "word v1 v2 .. vn" (GloVe); a first line of two whole numbers,
 * of words and of numbers a word, is skipped (word2vec). Fed piece by piece: memory is that of the words
 * that are wanted, and only their numbers are looked at; all lines have as many. A word may hold blanks:
 * its numbers are the last of the line. Input is foreign; errors
 * say "NAME: line N: ...". Any thread.
 */
#ifndef TIDE_WORD_VECTORS_H
#define TIDE_WORD_VECTORS_H

#include "names.h"

enum { TIDE_WORD_VECTOR_MAX = 4096, TIDE_WORD_LINE_MAX = 1 << 20 };

struct tide_word_vectors; /* a reading; borrows name and dictionary */
int tide_word_vectors_create(const char *name, const struct tide_dictionary *wanted,
                             struct tide_word_vectors **out); /* *gives*; ENOMEM */
void tide_word_vectors_destroy(struct tide_word_vectors *v);  /* NULL allowed */
/* The next bytes. EPROTO and ELIMIT (name the line), ENOMEM. */
int tide_word_vectors_feed(struct tide_word_vectors *v, const char *data, size_t size);
int tide_word_vectors_end(struct tide_word_vectors *v); /* after the last bytes; EPROTO: no words */
/* After the end, owned by the reading: numbers of the wanted words that were found, each once (of
 * several lines the first counts), and their rows of *columns. */
size_t tide_word_vectors_found(const struct tide_word_vectors *v, const uint32_t **words, const float **values,
                               size_t *columns);

#endif
