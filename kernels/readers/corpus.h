/*
 * Running text as word numbers: vocabulary, counts and tokens of a corpus, and a corpus out of the
 * glosses of WordNet. No files here: see text.h. Any thread.
 */
#ifndef TIDE_CORPUS_H
#define TIDE_CORPUS_H

#include "readers/text.h"

/* Word 0 is the end of a line, "</s>"; the others by falling count, of equal count by first
 * appearance. */
struct tide_corpus {
    struct tide_names words;
    uint64_t *counts; /* of each word */
    uint32_t *tokens; /* the text; words that were dropped are left out */
    size_t token_count;
    size_t dropped_words, dropped_tokens; /* rarer than min_count */
};

/*
 * Tokens are what stands between blanks and tabs; each line's end is word 0. Words that occur less
 * than `min_count` times are dropped. *gives* `out`.
 * A text that looks like another form (MatrixMarket, word:count, a page of the web) is refused, unless it is `plain`.
 * Errors: EPROTO (NUL byte, no word at all, or no line of two words: there are no pairs), ELIMIT (2^32 words), ENOMEM.
 */
int tide_corpus_read(const struct tide_text *texts, size_t text_count, uint64_t min_count, bool plain,
                     struct tide_corpus *out);
void tide_corpus_release(struct tide_corpus *corpus);

/*
 * The glosses of the WordNet database (data.noun, data.verb, data.adj, data.adv in this order) as
 * lines of lower-case words. A synset gives one line for each part of its gloss between semicolons;
 * the first begins with those of its lemmas that are one word. Words are letters and digits, with
 * hyphens and apostrophes inside. `whole`: one line a synset instead. *gives* *out: release with tide_free.
 * Errors: EPROTO (a line without gloss or with bad counts; names it), ENOMEM.
 */
int tide_wordnet_glosses(const struct tide_text texts[TIDE_WORDNET_FILES], bool whole, char **out, size_t *size);

#endif
