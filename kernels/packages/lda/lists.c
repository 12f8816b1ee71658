/*
 * Lists of the rare words' topics, which stand for rows of n_kw where a row would be nearly empty
 * (the differential storage of LightLDA, Yuan et al., WWW 2015, section 5): lda_places (where each
 * token lies in the lists), lda_list (topics to the lists). A list has a number a token, so a
 * topic that a word does not have costs nothing, whatever the number of topics.
 */
#include "lda.h"

/* ---- lda_places ---- */

enum { P_WORDS, P_ROW_OF, P_NEXT, P_PLACES };
static const struct tide_parameter places_parameters[] = {
    [P_WORDS] = {"words", TIDE_TENSOR, 9, true, 0, "word of each token of some documents"},
    [P_ROW_OF] = {"row_of", TIDE_TENSOR, 9, true, 0, "of each word: its row of n_kw, or 2^32 - 1: it has a list"},
    [P_NEXT] = {"next", TIDE_TENSOR, 9, true, 0,
                "of each word: the place of its next token, at first where its list begins; goes on"},
    [P_PLACES] = {"places", TIDE_TENSOR, 9, false, 0, "of these tokens: set; 2^32 - 1: the word has a row"},
};

const struct tide_kernel tide_kernel_lda_places;

static int places_run(const struct tide_argument *a, struct tide_result *results, char *error) {
    const struct tide_kernel *self = &tide_kernel_lda_places;
    const struct tide_tensor *w = &a[P_WORDS].tensor, *r = &a[P_ROW_OF].tensor;
    const uint32_t *words = w->data, *row_of = r->data;
    const size_t tokens = w->rows * w->columns, vocabulary = r->rows * r->columns;
    uint32_t *places = NULL, *next;
    int code = lda_read_vector(self, a, P_NEXT, vocabulary, &next, error);
    if (code == 0 && a[P_PLACES].given) {
        code = lda_read_vector(self, a, P_PLACES, tokens, &places, error);
    }
    size_t listed = 0;
    for (size_t i = 0; i < tokens && code == 0; i++) {
        if (words[i] >= vocabulary) {
            return tide_kernel_fail(error, TIDE_EINVAL, "words: token %zu is word %u of %zu", i + 1, words[i],
                                    vocabulary);
        }
        const bool has_row = row_of[words[i]] != UINT32_MAX;
        if (!has_row && next[words[i]] == UINT32_MAX) {
            return tide_kernel_fail(error, TIDE_EINVAL, "next: less than 2^32 tokens may lie in lists");
        }
        const uint32_t place = has_row ? UINT32_MAX : next[words[i]]++;
        listed += !has_row;
        if (places) {
            places[i] = place;
        }
    }
    results[0] = (struct tide_result){"listed", (double)listed};
    return code ? code : 1;
}

const struct tide_kernel tide_kernel_lda_places = {"lda_places",
                                                   "Where the tokens of rare words lie in lists of their topics.",
                                                   places_parameters, TIDE_COUNT(places_parameters), places_run};

/* ---- lda_list ---- */

enum { L_TOPICS, L_PLACES, L_LISTED, L_FROM };
static const struct tide_parameter list_parameters[] = {
    [L_TOPICS] = {"topics", TIDE_TENSOR, 0, true, 0, "u16 or u32: topic of each token"},
    [L_PLACES] = {"places", TIDE_TENSOR, 9, true, 0, "of each token in the lists (lda_places)"},
    [L_LISTED] = {"listed", TIDE_TENSOR, 1, true, 0, "a range of the lists: set where these tokens lie in it"},
    [L_FROM] = {"from", TIDE_NUMBER, 0, false, 0, "place of its first number"},
};

const struct tide_kernel tide_kernel_lda_list;

static int list_run(const struct tide_argument *a, struct tide_result *results, char *error) {
    const struct tide_kernel *self = &tide_kernel_lda_list;
    const struct tide_tensor *listed = &a[L_LISTED].tensor;
    const size_t room = listed->rows * listed->columns;
    float *out = listed->data;
    struct lda_topics z;
    size_t tokens = 0, count = 0;
    uint32_t *places = NULL;
    uint64_t from;
    int code = lda_read_topics(self, a, L_TOPICS, 0, &z, &tokens, error);
    code = code ? code : lda_read_vector(self, a, L_PLACES, tokens, &places, error);
    code = code ? code : tide_kernel_whole(self, a, L_FROM, 0, UINT32_MAX, &from, error);
    for (size_t i = 0; i < tokens && code == 0; i++) {
        if (places[i] != UINT32_MAX && places[i] >= from && places[i] - from < room) {
            out[places[i] - from] = (float)lda_topic(&z, i);
            count++;
        }
    }
    results[0] = (struct tide_result){"tokens", (double)count};
    return code ? code : 1;
}

const struct tide_kernel tide_kernel_lda_list = {"lda_list", "Topics of tokens to the lists of rare words.",
                                                 list_parameters, TIDE_COUNT(list_parameters), list_run};
