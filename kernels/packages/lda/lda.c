/* Arguments, alias tables and gamma functions of the topic models' kernels; see lda.h. */
#include "lda.h"

#include <math.h>

enum { RISING_SMALL = 4096 };

double lgamma_r(double x, int *sign); /* lgamma writes a global */

/* ---- arguments ---- */

int lda_read_topics(const struct tide_kernel *kernel, const struct tide_argument *arguments, size_t index,
                    uint32_t topics_most, struct lda_topics *out, size_t *count, char *error) {
    const struct tide_tensor *t = &arguments[index].tensor;
    if (t->type != LDA_U16 && t->type != LDA_U32) {
        return tide_kernel_fail(error, TIDE_EINVAL, "%s: topics are u16 or u32", kernel->parameters[index].name);
    }
    *out = (struct lda_topics){t->data, t->type == LDA_U32};
    *count = t->rows * t->columns;
    for (size_t i = 0; topics_most > 0 && i < *count; i++) {
        if (lda_topic(out, i) >= topics_most) {
            return tide_kernel_fail(error, TIDE_EINVAL, "%s: token %zu has topic %u of %u",
                                    kernel->parameters[index].name, i + 1, lda_topic(out, i), topics_most);
        }
    }
    return 0;
}

static int check_words(const struct lda_documents *d, uint32_t words_most, const char *name, char *error) {
    for (size_t i = 0; i < d->count; i++) {
        if (d->offsets[i] > d->offsets[i + 1] || d->offsets[i + 1] > d->tokens ||
            d->offsets[i + 1] - d->offsets[i] > UINT32_MAX) {
            return tide_kernel_fail(error, TIDE_EINVAL, "%s: document %zu ends where there are no tokens", name, i + 1);
        }
        for (size_t j = d->offsets[i]; d->words && j < d->offsets[i + 1]; j++) {
            if (d->words[j] >= words_most || (j > d->offsets[i] && d->words[j] < d->words[j - 1])) {
                return tide_kernel_fail(error, TIDE_EINVAL, "%s: document %zu: words do not rise within 0 .. %u", name,
                                        i + 1, words_most - 1);
            }
        }
    }
    return 0;
}

int lda_read_documents(const struct tide_kernel *kernel, const struct tide_argument *arguments, size_t offsets,
                       size_t words, size_t z, uint32_t words_most, uint32_t topics_most, struct lda_documents *out,
                       char *error) {
    const struct tide_tensor *o = &arguments[offsets].tensor;
    const size_t count = o->rows * o->columns;
    *out = (struct lda_documents){.offsets = o->data, .tokens = SIZE_MAX};
    if (count == 0) {
        return tide_kernel_fail(error, TIDE_EINVAL, "%s: one number a document and the end",
                                kernel->parameters[offsets].name);
    }
    out->count = count - 1;
    int code = 0;
    if (z != SIZE_MAX) {
        code = lda_read_topics(kernel, arguments, z, topics_most, &out->z, &out->tokens, error);
    }
    if (code == 0 && words != SIZE_MAX) {
        const struct tide_tensor *w = &arguments[words].tensor;
        const size_t tokens = w->rows * w->columns;
        out->words = w->data;
        out->tokens = tokens < out->tokens ? tokens : out->tokens;
    }
    return code ? code : check_words(out, words_most, kernel->parameters[offsets].name, error);
}

int lda_read_priors(const struct tide_kernel *kernel, const struct tide_argument *arguments, size_t alpha, size_t beta,
                    size_t vocabulary, struct lda_priors *out, char *error) {
    const struct tide_tensor *t = &arguments[alpha].tensor;
    const size_t topics = t->rows * t->columns;
    const double words = arguments[vocabulary].number;
    *out = (struct lda_priors){.alpha = t->data, .beta = arguments[beta].number, .topics = (uint32_t)topics};
    if (topics < 1 || topics > LDA_TOPICS_MOST) {
        return tide_kernel_fail(error, TIDE_EINVAL, "%s: 1 to %d topics", kernel->parameters[alpha].name,
                                LDA_TOPICS_MOST);
    }
    for (size_t i = 0; i < topics; i++) {
        if (!(out->alpha[i] > 0 && out->alpha[i] < 1e12f)) {
            return tide_kernel_fail(error, TIDE_EINVAL, "alpha: that of topic %zu is not above 0", i + 1);
        }
        out->alpha_sum += (double)out->alpha[i];
    }
    if (!(out->beta > 0 && out->beta < 1e12) || !(words >= 1 && words <= UINT32_MAX)) {
        return tide_kernel_fail(error, TIDE_EINVAL, "beta is above 0, vocabulary 1 or more");
    }
    out->beta_sum = out->beta * words;
    return 0;
}

int lda_read_rows(const struct tide_kernel *kernel, const struct tide_argument *arguments, size_t index,
                  uint32_t topics, size_t *width, size_t *rows, float **out, char *error) {
    const struct tide_tensor *t = &arguments[index].tensor;
    if (t->columns < topics || t->columns % LDA_LANES != 0) {
        return tide_kernel_fail(error, TIDE_EINVAL, "%s: rows of %zu numbers are not %u topics padded to 16",
                                kernel->parameters[index].name, t->columns, topics);
    }
    *width = t->columns;
    *rows = t->rows;
    *out = t->data;
    return 0;
}

int lda_read_vector(const struct tide_kernel *kernel, const struct tide_argument *arguments, size_t index, size_t count,
                    void *out, char *error) {
    const struct tide_tensor *t = &arguments[index].tensor;
    if (t->rows * t->columns != count) {
        return tide_kernel_fail(error, TIDE_EINVAL, "%s: %zu numbers, not %zu", kernel->parameters[index].name,
                                t->rows * t->columns, count);
    }
    *(void **)out = t->data;
    return 0;
}

int lda_read_draws(const struct tide_kernel *kernel, const struct tide_argument *a, struct lda_draws *out,
                   char *error) {
    const struct tide_tensor *totals = &a[LDA_TOTALS].tensor;
    out->totals = totals->data;
    out->totals_count = totals->rows * totals->columns;
    int code = lda_read_priors(kernel, a, LDA_ALPHA, LDA_BETA, LDA_VOCABULARY, &out->prior, error);
    if (code == 0 && out->totals_count < out->prior.topics) {
        code = tide_kernel_fail(error, TIDE_EINVAL, "totals: %zu numbers for %u topics", out->totals_count,
                                out->prior.topics);
    }
    code = code ? code : tide_kernel_whole(kernel, a, LDA_SEED, 0, UINT64_MAX, &out->seed, error);
    return code ? code : tide_kernel_whole(kernel, a, LDA_PASS, 0, UINT32_MAX, &out->pass, error);
}

/* ---- alias tables ---- */

void lda_alias_build(struct lda_alias_entry *entries, double *weights, uint32_t *stack, uint32_t count, double sum) {
    uint32_t low = 0, high = count; /* small ones from below, large ones from above */
    const double scale = (double)count / sum;
    for (uint32_t i = 0; i < count; i++) {
        weights[i] *= scale;
        if (weights[i] < 1) {
            stack[low++] = i;
        } else {
            stack[--high] = i;
        }
    }
    while (low > 0 && high < count) {
        const uint32_t small = stack[--low], large = stack[high];
        const double share = weights[small] * 0x1p32;
        entries[small].threshold = share >= 4294967294.0 ? UINT32_MAX : (uint32_t)share;
        entries[small].other = entries[large].topic;
        weights[large] -= 1 - weights[small];
        if (weights[large] < 1) {
            high++;
            stack[low++] = large;
        }
    }
    while (low > 0) { /* 1 but for rounding */
        entries[stack[--low]].threshold = UINT32_MAX;
    }
    while (high < count) {
        entries[stack[high++]].threshold = UINT32_MAX;
    }
}

/* ---- gamma functions ---- */

int lda_rising_init(struct lda_rising *r, double a) {
    int sign;
    r->a = a;
    r->at_a = lgamma_r(a, &sign);
    r->small = tide_alloc((RISING_SMALL + 1) * sizeof *r->small);
    double sum = 0;
    for (int n = 0; r->small && n <= RISING_SMALL; n++) {
        r->small[n] = sum;
        sum += log((double)n + a);
    }
    return r->small ? 0 : TIDE_ENOMEM;
}

void lda_rising_release(struct lda_rising *r) {
    tide_free(r->small);
    r->small = NULL;
}

double lda_rising_of(const struct lda_rising *r, uint64_t n) {
    int sign;
    return n <= RISING_SMALL ? r->small[n] : lgamma_r((double)n + r->a, &sign) - r->at_a;
}

int lda_read_block(const struct tide_kernel *kernel, const struct tide_argument *a, struct lda_block *out,
                   char *error) {
    uint64_t first = 0;
    struct lda_draws draws = {0};
    int code = lda_read_draws(kernel, a, &draws, error);
    const uint32_t topics = draws.prior.topics;
    out->prior = draws.prior;
    out->totals = draws.totals;
    out->seed = draws.seed;
    out->pass = draws.pass;
    code = code ? code : lda_read_rows(kernel, a, LDA_COUNTS, topics, &out->width, &out->rows, &out->counts, error);
    code =
        code ? code : tide_kernel_whole(kernel, a, LDA_FIRST, 0, UINT32_MAX - (out->rows & UINT32_MAX), &first, error);
    code = code ? code
                : lda_read_documents(kernel, a, LDA_OFFSETS, LDA_WORDS, LDA_TOPICS, UINT32_MAX, topics, &out->d, error);
    if (code == 0 && draws.totals_count != out->width) {
        code = tide_kernel_fail(error, TIDE_EINVAL, "totals: %zu numbers, not %zu", draws.totals_count, out->width);
    }
    code = code ? code : lda_read_vector(kernel, a, LDA_CHANGES, out->width, &out->changes, error);
    code = code ? code : tide_kernel_whole(kernel, a, LDA_DOCUMENT, 0, UINT64_MAX, &out->d.first, error);
    code = code ? code : tide_kernel_whole(kernel, a, LDA_PHASE, 0, 1 << 19, &out->phase, error);
    out->first = (uint32_t)first;
    return code;
}

int lda_block_results(const struct lda_block *b, struct tide_result *results) {
    results[0] = (struct tide_result){"tokens", (double)b->tokens};
    results[1] = (struct tide_result){"moved", (double)b->moved};
    results[2] = (struct tide_result){"count", (double)b->tokens};
    return 3;
}
