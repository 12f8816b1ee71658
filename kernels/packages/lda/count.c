/*
 * Counts and arrangements of the topic models: lda_begin (first topics), lda_count (n_kw and n_k of
 * tokens), lda_arrange (the order of words within documents, for lda_warp), lda_keep (topics as
 * rows of a table).
 */
#include "lda.h"

#include <string.h>

/* ---- lda_begin ---- */

enum { B_OFFSETS, B_TOPICS, B_K, B_DOCUMENT, B_SEED };
static const struct tide_parameter begin_parameters[] = {
    [B_OFFSETS] = {"offsets", TIDE_TENSOR, 7, true, 0, "where each document begins, and the end"},
    [B_TOPICS] = {"topics", TIDE_TENSOR, 0, true, 0, "u16 or u32: set"},
    [B_K] = {"topic_count", TIDE_NUMBER, 0, true, 0, "K"},
    [B_DOCUMENT] = {"document", TIDE_NUMBER, 0, false, 0, "number of the first document in the corpus"},
    [B_SEED] = {"seed", TIDE_NUMBER, 0, true, 0, "of the draws"},
};

const struct tide_kernel tide_kernel_lda_begin;

static int begin_run(const struct tide_argument *a, struct tide_result *results, char *error) {
    const struct tide_kernel *self = &tide_kernel_lda_begin;
    struct lda_documents d;
    uint64_t topics, seed;
    int code = lda_read_documents(self, a, B_OFFSETS, SIZE_MAX, B_TOPICS, 0, 0, &d, error);
    code = code ? code : tide_kernel_whole(self, a, B_K, 1, d.z.wide ? LDA_TOPICS_MOST : 1 << 16, &topics, error);
    code = code ? code : tide_kernel_whole(self, a, B_DOCUMENT, 0, UINT64_MAX, &d.first, error);
    code = code ? code : tide_kernel_whole(self, a, B_SEED, 0, UINT64_MAX, &seed, error);
    for (size_t i = 0; code == 0 && i < d.count; i++) {
        struct lda_stream s;
        lda_stream_begin(&s, seed, 0, (1 << 20) - 1, d.first + i);
        for (size_t j = d.offsets[i]; j < d.offsets[i + 1]; j++) {
            lda_topic_set(&d.z, j, lda_below(&s, (uint32_t)topics));
        }
    }
    results[0] = (struct tide_result){"documents", (double)d.count};
    return code ? code : 1;
}

const struct tide_kernel tide_kernel_lda_begin = {"lda_begin", "Draws a topic for each token, all alike.",
                                                  begin_parameters, TIDE_COUNT(begin_parameters), begin_run};

/* ---- lda_count ---- */

enum { C_OFFSETS, C_WORDS, C_TOPICS, C_K, C_COUNTS, C_FIRST, C_TOTALS, C_ROW_OF };
static const struct tide_parameter count_parameters[] = {
    [C_OFFSETS] = {"offsets", TIDE_TENSOR, 7, true, 0, "where each document begins in words, and the end"},
    [C_WORDS] = {"words", TIDE_TENSOR, 9, true, 0, "word of each token"},
    [C_TOPICS] = {"topics", TIDE_TENSOR, 0, true, 0, "u16 or u32: topic of each token"},
    [C_K] = {"topic_count", TIDE_NUMBER, 0, true, 0, "K"},
    [C_COUNTS] = {"counts", TIDE_TENSOR, 1, false, 0, "rows of words: n_kw are added"},
    [C_FIRST] = {"first", TIDE_NUMBER, 0, false, 0, "word of the first row"},
    [C_TOTALS] = {"totals", TIDE_TENSOR, 2, false, 0, "n_k of all tokens are added"},
    [C_ROW_OF] = {"row_of", TIDE_TENSOR, 9, false, 0,
                  "of each word first, first + 1, ..: which has a row, the next one of counts; 2^32 "
                  "- 1: it has none. Without row_of all have"},
};

const struct tide_kernel tide_kernel_lda_count;

/* The words first .. first + count - 1 that are counted, and their rows. */
struct counted_words {
    uint64_t first;
    size_t count, rows, width;
    const uint32_t *row_of; /* NULL: each has one */
    uint32_t row;           /* the first one's */
    float *counts;
};

static int read_counted(const struct tide_argument *a, uint32_t topics, struct counted_words *out, char *error) {
    const struct tide_kernel *self = &tide_kernel_lda_count;
    const struct tide_tensor *row_of = &a[C_ROW_OF].tensor;
    int code = tide_kernel_whole(self, a, C_FIRST, 0, UINT32_MAX, &out->first, error);
    if (code || !a[C_COUNTS].given) {
        return code;
    }
    code = lda_read_rows(self, a, C_COUNTS, topics, &out->width, &out->rows, &out->counts, error);
    out->count = out->rows;
    if (code || !a[C_ROW_OF].given) {
        return code;
    }
    out->count = row_of->rows * row_of->columns;
    out->row_of = row_of->data;
    uint32_t next = UINT32_MAX;
    for (size_t i = 0; i < out->count; i++) {
        const uint32_t row = out->row_of[i];
        if (row == UINT32_MAX) {
            continue;
        }
        out->row = next == UINT32_MAX ? row : out->row;
        next = next == UINT32_MAX ? row : next;
        if (row != next++ || row - out->row >= out->rows) {
            return tide_kernel_fail(error, TIDE_EINVAL, "row_of: word %zu has not the next row of %zu", i, out->rows);
        }
    }
    return 0;
}

static inline float *row_of_word(const struct counted_words *c, uint32_t word) {
    if (!c->counts || word < c->first || word - c->first >= c->count) {
        return NULL;
    }
    const size_t i = (size_t)(word - c->first);
    if (!c->row_of) {
        return c->counts + i * c->width;
    }
    return c->row_of[i] == UINT32_MAX ? NULL : c->counts + (size_t)(c->row_of[i] - c->row) * c->width;
}

static int count_run(const struct tide_argument *a, struct tide_result *results, char *error) {
    const struct tide_kernel *self = &tide_kernel_lda_count;
    struct lda_documents d;
    struct counted_words words = {0};
    uint64_t topics;
    double *totals = NULL;
    int code = tide_kernel_whole(self, a, C_K, 1, LDA_TOPICS_MOST, &topics, error);
    code = code ? code
                : lda_read_documents(self, a, C_OFFSETS, C_WORDS, C_TOPICS, UINT32_MAX, (uint32_t)topics, &d, error);
    code = code ? code : read_counted(a, (uint32_t)topics, &words, error);
    if (code == 0 && a[C_TOTALS].given) {
        const struct tide_tensor *t = &a[C_TOTALS].tensor;
        totals = t->data;
        code = t->rows * t->columns >= topics ? 0 : tide_kernel_fail(error, TIDE_EINVAL, "totals: too few numbers");
    }
    size_t tokens = 0;
    for (size_t i = 0; code == 0 && i < d.count; i++) {
        for (size_t j = d.offsets[i]; j < d.offsets[i + 1]; j++) {
            const uint32_t k = lda_topic(&d.z, j);
            float *row = row_of_word(&words, d.words[j]);
            if (row) {
                row[k] += 1;
            }
            if (totals) {
                totals[k] += 1;
            }
        }
        tokens += d.offsets[i + 1] - d.offsets[i];
    }
    results[0] = (struct tide_result){"tokens", (double)tokens};
    return code ? code : 1;
}

const struct tide_kernel tide_kernel_lda_count = {"lda_count",
                                                  "Adds the counts of tokens by word and topic, and by topic.",
                                                  count_parameters, TIDE_COUNT(count_parameters), count_run};

/* ---- lda_arrange ---- */

enum { A_OFFSETS, A_WORDS, A_PART, A_PARTS, A_STARTS, A_PLACES };
static const struct tide_parameter arrange_parameters[] = {
    [A_OFFSETS] = {"offsets", TIDE_TENSOR, 7, true, 0, "where each document begins in words, and the end"},
    [A_WORDS] = {"words", TIDE_TENSOR, 9, true, 0, "word of each token, rising in a document"},
    [A_PART] = {"part", TIDE_TENSOR, 9, true, 0, "of each word: the number of its part, from 0"},
    [A_PARTS] = {"parts", TIDE_NUMBER, 0, true, 0, "how many parts of words there are"},
    [A_STARTS] = {"starts", TIDE_TENSOR, 9, true, 0,
                  "one a word and the end: set to where each word begins, part by part, in a part "
                  "by number"},
    [A_PLACES] = {"places", TIDE_TENSOR, 9, true, 0, "of each token in the order of words: set"},
};

const struct tide_kernel tide_kernel_lda_arrange;

/* The place of each word in the order of (part, word): order[i] is the i-th word. */
static uint32_t *order_words(const uint32_t *part, size_t words, size_t parts) {
    size_t *at = tide_alloc_zero(parts + 1, sizeof *at);
    uint32_t *order = tide_alloc((words + 1) * sizeof *order);
    for (size_t w = 0; at && order && w < words; w++) {
        at[part[w] + 1]++;
    }
    for (size_t p = 0; at && p < parts; p++) {
        at[p + 1] += at[p];
    }
    for (size_t w = 0; at && order && w < words; w++) {
        order[at[part[w]]++] = (uint32_t)w;
    }
    tide_free(at);
    return order;
}

static void arrange(const struct lda_documents *d, const uint32_t *order, size_t words, uint32_t *starts,
                    uint32_t *places, uint32_t *at) {
    const size_t begin = d->offsets[0], end = d->offsets[d->count];
    memset(at, 0, words * sizeof *at);
    for (size_t j = begin; j < end; j++) {
        at[d->words[j]]++;
    }
    uint32_t sum = 0;
    for (size_t i = 0; i < words; i++) {
        const uint32_t count = at[order[i]];
        starts[i] = sum;
        at[order[i]] = sum;
        sum += count;
    }
    starts[words] = sum;
    for (size_t j = begin; j < end; j++) {
        places[j - begin] = at[d->words[j]]++;
    }
}

static int arrange_run(const struct tide_argument *a, struct tide_result *results, char *error) {
    const struct tide_kernel *self = &tide_kernel_lda_arrange;
    const struct tide_tensor *part = &a[A_PART].tensor;
    const size_t words = part->rows * part->columns;
    struct lda_documents d;
    uint64_t parts;
    uint32_t *starts, *places;
    int code = tide_kernel_whole(self, a, A_PARTS, 1, 1 << 24, &parts, error);
    code = code ? code : lda_read_documents(self, a, A_OFFSETS, A_WORDS, SIZE_MAX, (uint32_t)words, 0, &d, error);
    code = code ? code : lda_read_vector(self, a, A_STARTS, words + 1, &starts, error);
    if (code) {
        return code;
    }
    const size_t tokens = d.offsets[d.count] - d.offsets[0];
    code = lda_read_vector(self, a, A_PLACES, tokens, &places, error);
    for (size_t w = 0; w < words && code == 0; w++) {
        if (((const uint32_t *)part->data)[w] >= parts) {
            code = tide_kernel_fail(error, TIDE_EINVAL, "part: word %zu is in none of %zu parts", w, (size_t)parts);
        }
    }
    if (code == 0 && tokens > UINT32_MAX) {
        code = tide_kernel_fail(error, TIDE_EINVAL, "words: more than 2^32 tokens in one part of the documents");
    }
    if (code) {
        return code;
    }
    uint32_t *order = order_words(part->data, words, (size_t)parts), *at = tide_alloc((words + 1) * sizeof *at);
    if (order && at) {
        arrange(&d, order, words, starts, places, at);
    } else {
        code = tide_kernel_fail(error, TIDE_ENOMEM, "no memory for %zu words", words);
    }
    tide_free(order);
    tide_free(at);
    results[0] = (struct tide_result){"tokens", (double)tokens};
    return code ? code : 1;
}

const struct tide_kernel tide_kernel_lda_arrange = {
    "lda_arrange", "Where the tokens of documents lie in the order of words, part by part.", arrange_parameters,
    TIDE_COUNT(arrange_parameters), arrange_run};

/* ---- lda_keep ---- */

/* A pair of topics is the bits of an f32: the first one's are the low half. Below this number of topics no pair is a
 * NaN or an infinity, whose bits a table need not keep. */
enum { PAIRED_TOPICS_MOST = 0x7f80 };

enum { K_TOPICS, K_PLACES, K_ROWS, K_BACK, K_PAIRED, K_K };
static const struct tide_parameter keep_parameters[] = {
    [K_TOPICS] = {"topics", TIDE_TENSOR, 0, true, 0, "u16 or u32: topic of each token"},
    [K_PLACES] = {"places", TIDE_TENSOR, 9, false, 0,
                  "where each token in rows lies in topics (lda_arrange); default in order"},
    [K_ROWS] = {"rows", TIDE_TENSOR, 0, true, 0,
                "f32, numbers of a table, or of the type of topics: topics of the documents' tokens in order"},
    [K_BACK] = {"back", TIDE_FLAG, 0, false, 0, "from rows to topics"},
    [K_PAIRED] = {"paired", TIDE_FLAG, 0, false, 0, "rows have two topics a number; at most 32,640 topics"},
    [K_K] = {"topic_count", TIDE_NUMBER, 0, true, 0, "K"},
};

const struct tide_kernel tide_kernel_lda_keep;

/* Rows as f32, or as topics. */
struct keep_rows {
    float *numbers; /* NULL: topics */
    bool paired;
    struct lda_topics topics;
};

static void keep_put(const struct keep_rows *rows, size_t i, uint32_t topic) {
    if (!rows->numbers) {
        lda_topic_set(&rows->topics, i, topic);
    } else if (!rows->paired) {
        rows->numbers[i] = (float)topic;
    } else {
        uint32_t pair;
        memcpy(&pair, &rows->numbers[i / 2], sizeof pair);
        pair = i % 2 ? (pair & 0xffff) | topic << 16 : (pair & 0xffff0000) | topic;
        memcpy(&rows->numbers[i / 2], &pair, sizeof pair);
    }
}

/* The topic of a token, or UINT32_MAX where the number is none. */
static uint32_t keep_get(const struct keep_rows *rows, size_t i) {
    if (!rows->numbers) {
        return lda_topic(&rows->topics, i);
    }
    if (!rows->paired) {
        const float number = rows->numbers[i];
        return number >= 0 && number < (float)LDA_TOPICS_MOST ? (uint32_t)number : UINT32_MAX;
    }
    uint32_t pair;
    memcpy(&pair, &rows->numbers[i / 2], sizeof pair);
    return i % 2 ? pair >> 16 : pair & 0xffff;
}

static int keep_read_rows(const struct tide_argument *a, uint64_t topics, size_t tokens, struct keep_rows *out,
                          char *error) {
    const struct tide_kernel *self = &tide_kernel_lda_keep;
    const struct tide_tensor *rows = &a[K_ROWS].tensor;
    size_t count = rows->rows * rows->columns;
    *out = (struct keep_rows){.paired = a[K_PAIRED].number != 0};
    if (rows->type != TIDE_F32) {
        if (out->paired) {
            return tide_kernel_fail(error, TIDE_EINVAL, "paired: rows are f32");
        }
        int code = lda_read_topics(self, a, K_ROWS, 0, &out->topics, &count, error);
        if (code < 0) {
            return code;
        }
    } else {
        out->numbers = rows->data;
    }
    if (out->paired && topics > PAIRED_TOPICS_MOST) {
        return tide_kernel_fail(error, TIDE_EINVAL, "paired: %zu topics are more than %d", (size_t)topics,
                                PAIRED_TOPICS_MOST);
    }
    return count << out->paired >= tokens
               ? 0
               : tide_kernel_fail(error, TIDE_EINVAL, "rows: too few numbers for %zu tokens", tokens);
}

static int keep_run(const struct tide_argument *a, struct tide_result *results, char *error) {
    const struct tide_kernel *self = &tide_kernel_lda_keep;
    struct lda_topics z;
    struct keep_rows rows;
    uint64_t topics;
    size_t all = 0, tokens = 0;
    uint32_t *places = NULL;
    int code = tide_kernel_whole(self, a, K_K, 1, LDA_TOPICS_MOST, &topics, error);
    code = code ? code : lda_read_topics(self, a, K_TOPICS, 0, &z, &all, error);
    tokens = all;
    if (code == 0 && a[K_PLACES].given) {
        tokens = a[K_PLACES].tensor.rows * a[K_PLACES].tensor.columns;
        code = lda_read_vector(self, a, K_PLACES, tokens, &places, error);
    }
    code = code ? code : keep_read_rows(a, topics, tokens, &rows, error);
    for (size_t i = 0; i < tokens && code == 0; i++) {
        const size_t at = places ? places[i] : i;
        if (at >= all) {
            code = tide_kernel_fail(error, TIDE_EINVAL, "places: token %zu lies behind the topics", i + 1);
        } else if (a[K_BACK].number == 0) {
            keep_put(&rows, i, lda_topic(&z, at));
        } else if (keep_get(&rows, i) < topics) {
            lda_topic_set(&z, at, keep_get(&rows, i));
        } else {
            code =
                tide_kernel_fail(error, TIDE_EINVAL, "rows: token %zu has none of %zu topics", i + 1, (size_t)topics);
        }
    }
    results[0] = (struct tide_result){"tokens", (double)tokens};
    return code ? code : 1;
}

const struct tide_kernel tide_kernel_lda_keep = {"lda_keep", "Topics as rows of a table or in another order, and back.",
                                                 keep_parameters, TIDE_COUNT(keep_parameters), keep_run};
