/*
 * How good topics are: lda_likelihood (parts of the joint log-likelihood, Griffiths and Steyvers
 * 2004, of one state) and lda_together (in how many documents words stand together: coherence,
 * Mimno et al. 2011; Roeder, Both, Hinneburg 2015).
 */
#include "lda.h"

#include <math.h>

double lgamma_r(double x, int *sign);

/* ---- lda_likelihood ---- */

enum { L_OFFSETS, L_TOPICS, L_COUNTS, L_TOTALS, L_ALPHA, L_BETA, L_VOCABULARY };
static const struct tide_parameter likelihood_parameters[] = {
    [L_OFFSETS] = {"offsets", TIDE_TENSOR, 7, false, 0,
                   "where each document begins in topics, and the end: the documents' part"},
    [L_TOPICS] = {"topics", TIDE_TENSOR, 0, false, 0, "u16 or u32: topic of each token"},
    [L_COUNTS] = {"counts", TIDE_TENSOR, 1, false, 0, "rows of n_kw: the words' part"},
    [L_TOTALS] = {"totals", TIDE_TENSOR, 2, false, 0, "n_k: the topics' part"},
    [L_ALPHA] = {"alpha", TIDE_TENSOR, 1, true, 0, "prior of each topic"},
    [L_BETA] = {"beta", TIDE_NUMBER, 0, true, 0, "prior of a word"},
    [L_VOCABULARY] = {"vocabulary", TIDE_NUMBER, 0, true, 0, "words of the dictionary, V"},
};

const struct tide_kernel tide_kernel_lda_likelihood;

static double gamma_log(double x) {
    int sign;
    return lgamma_r(x, &sign);
}

/* sum_d [lgamma(A) - lgamma(N_d + A) + sum_k (lgamma(n_kd + a_k) - lgamma(a_k))]; n_kd are counted
 * one by one, each time the next factor n + a_k of the rising product. */
static int documents_part(const struct lda_documents *d, const struct lda_priors *prior, double *sum) {
    uint32_t *n = tide_alloc_zero(prior->topics, sizeof *n);
    struct lda_rising all = {0};
    int code = n ? lda_rising_init(&all, prior->alpha_sum) : TIDE_ENOMEM;
    for (size_t i = 0; i < d->count && code == 0; i++) {
        const size_t from = d->offsets[i], to = d->offsets[i + 1];
        double part = 0, product = 1;
        for (size_t j = from; j < to; j++) {
            const uint32_t k = lda_topic(&d->z, j);
            product *= (double)n[k]++ + (double)prior->alpha[k];
            if (product > 1e250 || product < 1e-250) {
                part += log(product);
                product = 1;
            }
        }
        *sum += part + log(product) - lda_rising_of(&all, to - from);
        for (size_t j = from; j < to; j++) {
            n[lda_topic(&d->z, j)] = 0;
        }
    }
    lda_rising_release(&all);
    tide_free(n);
    return code;
}

static int words_part(const float *counts, size_t cells, double beta, double *sum) {
    struct lda_rising rising = {0};
    int code = lda_rising_init(&rising, beta);
    for (size_t i = 0; i < cells && code == 0; i++) {
        if (counts[i] > 0) {
            *sum += lda_rising_of(&rising, (uint64_t)counts[i]);
        }
    }
    lda_rising_release(&rising);
    return code;
}

static int likelihood_run(const struct tide_argument *a, struct tide_result *results, char *error) {
    const struct tide_kernel *self = &tide_kernel_lda_likelihood;
    struct lda_priors prior;
    double sums[3] = {0};
    int code = lda_read_priors(self, a, L_ALPHA, L_BETA, L_VOCABULARY, &prior, error);
    if (code == 0 && a[L_OFFSETS].given) {
        struct lda_documents d;
        code = a[L_TOPICS].given ? 0 : tide_kernel_fail(error, TIDE_EINVAL, "topics: missing");
        code = code ? code : lda_read_documents(self, a, L_OFFSETS, SIZE_MAX, L_TOPICS, 0, prior.topics, &d, error);
        if (code == 0 && documents_part(&d, &prior, &sums[0]) < 0) {
            code = tide_kernel_fail(error, TIDE_ENOMEM, "no memory");
        }
    }
    if (code == 0 && a[L_COUNTS].given) {
        const struct tide_tensor *t = &a[L_COUNTS].tensor;
        if (words_part(t->data, t->rows * t->columns, prior.beta, &sums[1]) < 0) {
            code = tide_kernel_fail(error, TIDE_ENOMEM, "no memory");
        }
    }
    if (code == 0 && a[L_TOTALS].given) {
        const double *totals = a[L_TOTALS].tensor.data;
        const size_t count = a[L_TOTALS].tensor.rows * a[L_TOTALS].tensor.columns;
        for (size_t k = 0; k < count && k < prior.topics; k++) {
            sums[2] += gamma_log(prior.beta_sum) - gamma_log(totals[k] + prior.beta_sum);
        }
    }
    results[0] = (struct tide_result){"sum", sums[0] + sums[1] + sums[2]};
    return code ? code : 1;
}

const struct tide_kernel tide_kernel_lda_likelihood = {
    "lda_likelihood", "Parts of the joint log-likelihood of words and topics. Griffiths and Steyvers, PNAS 2004.",
    likelihood_parameters, TIDE_COUNT(likelihood_parameters), likelihood_run};

/* ---- lda_together ---- */

enum { T_OFFSETS, T_WORDS, T_TOP, T_PAIRS };
static const struct tide_parameter together_parameters[] = {
    [T_OFFSETS] = {"offsets", TIDE_TENSOR, 7, true, 0, "where each document begins in words, and the end"},
    [T_WORDS] = {"words", TIDE_TENSOR, 9, true, 0, "word of each token, rising in a document"},
    [T_TOP] = {"top", TIDE_TENSOR, 9, true, 0, "topics x n: words whose documents are counted"},
    [T_PAIRS] = {"pairs", TIDE_TENSOR, 6, true, 0,
                 "topics x n^2: documents with both words are added; the diagonal: with the word"},
};

const struct tide_kernel tide_kernel_lda_together;

/* For each word the slots of `top` that have it, as lists: next[slot], first[word]. */
struct together {
    uint32_t *first, *next, *present; /* present: slots of the document at hand */
    const uint32_t *top;
    size_t topics, each;
    int64_t *pairs;
};

static void one_document(const struct together *t, const uint32_t *words, size_t count) {
    size_t found = 0;
    for (size_t i = 0; i < count; i++) {
        if (i > 0 && words[i] == words[i - 1]) {
            continue;
        }
        for (uint32_t s = t->first[words[i]]; s != UINT32_MAX; s = t->next[s]) {
            t->present[found++] = s;
        }
    }
    for (size_t i = 0; i < found; i++) {
        const size_t topic = t->present[i] / t->each;
        for (size_t j = 0; j < found; j++) {
            if (t->present[j] / t->each == topic) {
                t->pairs[(topic * t->each + t->present[i] % t->each) * t->each + t->present[j] % t->each]++;
            }
        }
    }
}

static int together_run(const struct tide_argument *a, struct tide_result *results, char *error) {
    const struct tide_kernel *self = &tide_kernel_lda_together;
    const struct tide_tensor *top = &a[T_TOP].tensor, *pairs = &a[T_PAIRS].tensor;
    struct together t = {.top = top->data, .topics = top->rows, .each = top->columns, .pairs = pairs->data};
    struct lda_documents d;
    const size_t slots = t.topics * t.each;
    int code = lda_read_documents(self, a, T_OFFSETS, T_WORDS, SIZE_MAX, UINT32_MAX, 0, &d, error);
    if (code == 0 && (slots == 0 || slots >= UINT32_MAX || pairs->rows * pairs->columns != slots * t.each)) {
        code = tide_kernel_fail(error, TIDE_EINVAL, "pairs: not topics x n^2");
    }
    if (code) {
        return code;
    }
    uint32_t words = 0;
    for (size_t i = 0; i < slots; i++) {
        words = t.top[i] > words ? t.top[i] : words;
    }
    for (size_t i = 0; i < d.count; i++) {
        const size_t last = d.offsets[i + 1];
        words = last > d.offsets[i] && d.words[last - 1] > words ? d.words[last - 1] : words;
    }
    t.first = tide_alloc(((size_t)words + 1) * sizeof *t.first);
    t.next = tide_alloc(slots * sizeof *t.next);
    t.present = tide_alloc(slots * sizeof *t.present);
    code = t.first && t.next && t.present ? 0 : tide_kernel_fail(error, TIDE_ENOMEM, "no memory");
    for (size_t i = 0; i <= words && code == 0; i++) {
        t.first[i] = UINT32_MAX;
    }
    for (size_t i = 0; i < slots && code == 0; i++) {
        t.next[i] = t.first[t.top[i]];
        t.first[t.top[i]] = (uint32_t)i;
    }
    for (size_t i = 0; i < d.count && code == 0; i++) {
        one_document(&t, d.words + d.offsets[i], d.offsets[i + 1] - d.offsets[i]);
    }
    tide_free(t.first);
    tide_free(t.next);
    tide_free(t.present);
    results[0] = (struct tide_result){"documents", (double)d.count};
    return code ? code : 1;
}

const struct tide_kernel tide_kernel_lda_together = {
    "lda_together", "In how many documents words of a topic stand together. Mimno et al., EMNLP 2011.",
    together_parameters, TIDE_COUNT(together_parameters), together_run};
