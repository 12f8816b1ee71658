/*
 * Files that name the words of a corpus of numbers: a word a line, the first is word 0; or "id word" and perhaps a
 * count, in any order, as gensim and LightLDA write (a number alone before them is left out); or "word count". Fields
 * are between tabs, or blanks where a line has none. The first line decides. Any thread.
 */
#ifndef TIDE_VOCABULARY_H
#define TIDE_VOCABULARY_H

#include "readers/text.h"

/* *gives* the names of at least `count` words; `exact`: of so many. `of`: the corpus, for errors. EPROTO: an empty line
 * before another (it would move the names behind it), a word or an id twice, an id missing, too few or too many. */
int tide_vocabulary_read(const struct tide_text *text, const char *of, size_t count, bool exact,
                         struct tide_names *out);

#endif
