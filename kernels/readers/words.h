/*
 * Words of running text in UTF-8: letters, marks and digits of any script, with hyphens and apostrophes inside. A byte
 * that is no UTF-8 counts as a letter, so that text in an older encoding keeps its words. Any thread.
 */
#ifndef TIDE_WORDS_H
#define TIDE_WORDS_H

#include <stdbool.h>
#include <stddef.h>

/* The next word of *at .. end, and *at behind it; false: there is none. */
bool tide_words_next(const char **at, const char *end, const char **word, size_t *size);
/* Writes a word to `out`, which has room for `size` bytes, and returns how many it takes: typographic hyphens and
 * apostrophes as those of ASCII, and letters in lower case if `lower`. */
size_t tide_words_write(const char *word, size_t size, bool lower, char *out);

#endif
