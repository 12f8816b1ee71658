/*
 * Text readers: the first byte chooses the reader, bytes 0x01 cut the rest into texts. What is
 * accepted has indices within its dictionaries.
 */
#include "base/base.h"
#include "readers/corpus.h"
#include "fuzz.h"
#include "readers/text.h"

static size_t cut(const char *at, size_t size, struct tide_text *texts, size_t limit) {
    size_t count = 0;
    while (count < limit) {
        const char *stop = size > 0 ? memchr(at, 1, size) : NULL;
        size_t length = stop && count + 1 < limit ? (size_t)(stop - at) : size;
        texts[count++] = (struct tide_text){"text", at, length};
        if (length == size) {
            break;
        }
        at += length + 1;
        size -= length + 1;
    }
    return count;
}

static void check_names(const struct tide_names *names) {
    for (size_t i = 0; names->pool && i < names->count; i++) {
        FUZZ_CHECK(names->offsets[i + 1] > names->offsets[i]);
        FUZZ_CHECK(names->pool[names->offsets[i + 1] - 1] == 0);
    }
}

static void check(struct tide_triples *t, int rc) {
    for (size_t part = 0; rc == 0 && part < TIDE_TRIPLE_PARTS; part++) {
        for (size_t i = 0; i < t->counts[part]; i++) {
            const uint32_t *row = t->parts[part] + 3 * i;
            FUZZ_CHECK(row[0] < t->entities.count && row[2] < t->entities.count);
            FUZZ_CHECK(row[1] < t->relations.count);
        }
    }
    check_names(&t->entities);
    check_names(&t->relations);
    FUZZ_CHECK(rc == 0 || (!t->parts[0] && !t->entities.pool));
    tide_triples_release(t);
}

static void check_lines(const struct tide_text *text) {
    struct tide_lines lines;
    const char *line;
    size_t size, total = 0;
    tide_lines_init(&lines, text);
    while (tide_lines_next(&lines, &line, &size) > 0) {
        FUZZ_CHECK(!memchr(line, '\n', size) && !memchr(line, 0, size));
        total += size;
    }
    FUZZ_CHECK(total <= text->size && lines.number <= text->size);
}

static void check_corpus(const struct tide_text *texts, size_t count) {
    struct tide_corpus c;
    if (tide_corpus_read(texts, count, 2, false, &c) == 0) {
        for (size_t i = 0; i < c.token_count; i++) {
            FUZZ_CHECK(c.tokens[i] < c.words.count);
        }
        for (size_t i = 2; i < c.words.count; i++) {
            FUZZ_CHECK(c.counts[i] >= 2 && c.counts[i] <= c.counts[i - 1]);
        }
        check_names(&c.words);
    }
    tide_corpus_release(&c);
}

static void check_glosses(const struct tide_text texts[TIDE_WORDNET_FILES]) {
    char *text;
    size_t size;
    if (tide_wordnet_glosses(texts, false, &text, &size) == 0) {
        FUZZ_CHECK(strlen(text) == size && (size == 0 || text[size - 1] == '\n'));
        tide_free(text);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct tide_text texts[TIDE_WORDNET_FILES] = {{0}};
    struct tide_triples t;
    if (size == 0) {
        return 0;
    }
    size_t limit = data[0] % 6 == 3 || data[0] % 6 == 5 ? TIDE_WORDNET_FILES : TIDE_TRIPLE_PARTS;
    size_t count = cut((const char *)data + 1, size - 1, texts, limit);
    switch (data[0] % 6) {
    case 0:
        check_lines(&texts[0]);
        break;
    case 1:
    case 2:
        check(&t, tide_text_triples(texts, count, data[0] % 6 == 2, &t));
        break;
    case 4:
        check_corpus(texts, count);
        break;
    default:
        for (; count < TIDE_WORDNET_FILES; count++) {
            texts[count].name = "text";
        }
        if (data[0] % 6 == 5) {
            check_glosses(texts);
            break;
        }
        check(&t, tide_text_wordnet(texts, &t, NULL));
        break;
    }
    return 0;
}
