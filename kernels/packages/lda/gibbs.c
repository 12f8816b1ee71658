/*
 * lda_gibbs: exact Gibbs sampling of topics (Griffiths and Steyvers 2004), 16 topics a vector
 * instruction. p(z = k) ~ (n_kd + a_k)(n_kw + b)/(n_k + V b), the token's own count taken out.
 *
 * A document's counts stay in the first cache while its tokens of a range of words are drawn.
 * Running sums lie lane by lane; a draw searches them for the chunk of 16, then walks that. Sums
 * have one order and no product is fused into one (-ffp-contract=off), so every instruction set
 * gives the same bits.
 */
#include "lda.h"

#include <string.h>

typedef float v16 __attribute__((vector_size(64), aligned(4), may_alias));
typedef float v8 __attribute__((vector_size(32), aligned(4), may_alias));
typedef float v4 __attribute__((vector_size(16), aligned(4), may_alias));

#define V16(pointer) (*(v16 *)(void *)(pointer))
#define V16C(pointer) (*(const v16 *)(const void *)(pointer))
#define V8(pointer) (*(v8 *)(void *)(pointer))
#define V8C(pointer) (*(const v8 *)(const void *)(pointer))
#define BODY static inline __attribute__((always_inline))

struct gibbs {
    struct lda_block b;
    int32_t *document;  /* scratch: n_kd */
    float *plus_alpha;  /* n_kd + a_k */
    float *inverse;     /* 1 / (n_k + V b) */
    float *p, *running; /* of the draw */
};

BODY float sum16(const float *x) {
    const v8 a = *(const v8 *)(const void *)x + *(const v8 *)(const void *)(x + 8);
    float half[8];
    memcpy(half, &a, sizeof half);
    const v4 b = *(const v4 *)(const void *)half + *(const v4 *)(const void *)(half + 4);
    return (b[0] + b[2]) + (b[1] + b[3]);
}

BODY void sums_body(const struct gibbs *g, const float *row) {
    const float beta = (float)g->b.prior.beta;
    v16 sum = {0};
    for (size_t c = 0; c < g->b.width; c += LDA_LANES) {
        const v16 q = V16C(g->plus_alpha + c) * (V16C(row + c) + beta) * V16C(g->inverse + c);
        V16(g->p + c) = q;
        sum += q;
        V16(g->running + c) = sum;
    }
}

/* The same where a vector has 8 lanes: gcc takes those of 16 apart by way of the stack. */
BODY void sums_halves_body(const struct gibbs *g, const float *row) {
    const float beta = (float)g->b.prior.beta;
    v8 low = {0}, high = {0};
    for (size_t c = 0; c < g->b.width; c += LDA_LANES) {
        const size_t d = c + LDA_LANES / 2;
        const v8 q = V8C(g->plus_alpha + c) * (V8C(row + c) + beta) * V8C(g->inverse + c),
                 r = V8C(g->plus_alpha + d) * (V8C(row + d) + beta) * V8C(g->inverse + d);
        V8(g->p + c) = q;
        V8(g->p + d) = r;
        low += q;
        high += r;
        V8(g->running + c) = low;
        V8(g->running + d) = high;
    }
}

/* The topic at u of the whole; never one whose p is 0. */
BODY uint32_t draw_body(const struct gibbs *g, const float *row, double u, uint32_t own, bool wide) {
    const size_t width = g->b.width;
    const float *p = g->p, *running = g->running;
    if (wide) {
        sums_body(g, row);
    } else {
        sums_halves_body(g, row);
    }
    const float at = (float)(u * (double)sum16(running + width - LDA_LANES));
    size_t low = 0, high = width / LDA_LANES - 1; /* the first chunk whose sum is above it */
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (sum16(running + middle * LDA_LANES) > at) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    float rest = at - (low > 0 ? sum16(running + (low - 1) * LDA_LANES) : 0);
    uint32_t found = own;
    for (size_t k = low * LDA_LANES; k < (low + 1) * LDA_LANES; k++) {
        if (p[k] > 0) {
            found = (uint32_t)k;
            if (rest < p[k]) {
                break;
            }
            rest -= p[k];
        }
    }
    return found;
}

BODY void move_body(struct gibbs *g, float *row, uint32_t k, int by) {
    g->document[k] += by;
    g->plus_alpha[k] = (float)g->document[k] + g->b.prior.alpha[k];
    row[k] += (float)by;
    g->b.totals[k] += by;
    g->inverse[k] = (float)(1.0 / (g->b.totals[k] + g->b.prior.beta_sum));
}

BODY void document_body(struct gibbs *g, size_t document, bool wide) {
    size_t begin, end;
    lda_range(&g->b.d, document, g->b.first, g->b.first + (uint32_t)g->b.rows, &begin, &end);
    if (begin == end) {
        return;
    }
    const size_t from = g->b.d.offsets[document], to = g->b.d.offsets[document + 1];
    for (size_t i = from; i < to; i++) {
        const uint32_t k = lda_topic(&g->b.d.z, i);
        g->document[k]++;
        g->plus_alpha[k] = (float)g->document[k] + g->b.prior.alpha[k];
    }
    struct lda_stream stream;
    lda_stream_begin(&stream, g->b.seed, g->b.pass, g->b.phase, g->b.d.first + document);
    for (size_t i = begin; i < end; i++) {
        float *row = g->b.counts + (size_t)(g->b.d.words[i] - g->b.first) * g->b.width;
        const uint32_t before = lda_topic(&g->b.d.z, i);
        move_body(g, row, before, -1);
        const uint32_t after = draw_body(g, row, lda_uniform(&stream), before, wide);
        move_body(g, row, after, 1);
        if (after != before) {
            lda_topic_set(&g->b.d.z, i, after);
            g->b.changes[before]--;
            g->b.changes[after]++;
            g->b.moved++;
        }
    }
    g->b.tokens += end - begin;
    for (size_t i = from; i < to; i++) {
        const uint32_t k = lda_topic(&g->b.d.z, i);
        g->document[k] = 0;
        g->plus_alpha[k] = g->b.prior.alpha[k];
    }
}

BODY void all_body(struct gibbs *g, bool wide) {
    for (size_t i = 0; i < g->b.d.count; i++) {
        document_body(g, i, wide);
    }
}

#if defined(__x86_64__)
#if defined(__clang__) /* takes the widest vectors unasked */
#define AVX512 "avx512f,avx512vl,avx512bw,avx512dq"
#else
#define AVX512 "avx512f,avx512vl,avx512bw,avx512dq,prefer-vector-width=512"
#endif
__attribute__((target(AVX512))) static void all_avx512(struct gibbs *g) {
    all_body(g, true);
}
__attribute__((target("avx2"))) static void all_avx2(struct gibbs *g) {
    all_body(g, false);
}
#endif
static void all_plain(struct gibbs *g) {
    all_body(g, false);
}

/* level: 0 the best of this processor, else at most that one (tests): 1 plain, 2 avx2. */
static void all(struct gibbs *g, int level) {
#if defined(__x86_64__)
    if (level == 0 && tide_isa >= TIDE_ISA_AVX512) {
        all_avx512(g);
        return;
    }
    if (level != 1 && tide_isa >= TIDE_ISA_AVX2) {
        all_avx2(g);
        return;
    }
#endif
    all_plain(g);
}

enum { LEVEL = LDA_BLOCK };
static const struct tide_parameter parameters[] = {
    LDA_BLOCK_PARAMETERS,
    [LEVEL] = {"level", TIDE_NUMBER, 0, false, 0, "for tests: 1 plain instructions, 2 up to AVX2"},
};

const struct tide_kernel tide_kernel_lda_gibbs;

static int run(const struct tide_argument *a, struct tide_result *results, char *error) {
    struct gibbs g = {0};
    uint64_t level;
    int code = lda_read_block(&tide_kernel_lda_gibbs, a, &g.b, error);
    code = code ? code : tide_kernel_whole(&tide_kernel_lda_gibbs, a, LEVEL, 0, 2, &level, error);
    if (code) {
        return code;
    }
    const size_t bytes = g.b.width * sizeof(float);
    char *scratch = tide_workspace_alloc(5 * bytes + 64);
    if (!scratch) {
        return tide_kernel_fail(error, TIDE_ENOMEM, "no memory for %zu topics", g.b.width);
    }
    g.document = (int32_t *)(void *)scratch;
    g.plus_alpha = (float *)(void *)(scratch + bytes);
    g.inverse = (float *)(void *)(scratch + 2 * bytes);
    g.p = (float *)(void *)(scratch + 3 * bytes);
    g.running = (float *)(void *)(scratch + 4 * bytes);
    memset(scratch, 0, 5 * bytes); /* topics of the padding have p = 0 */
    for (uint32_t k = 0; k < g.b.prior.topics; k++) {
        g.plus_alpha[k] = g.b.prior.alpha[k];
        g.inverse[k] = (float)(1.0 / (g.b.totals[k] + g.b.prior.beta_sum));
    }
    all(&g, (int)level);
    tide_workspace_free(scratch);
    return lda_block_results(&g.b, results);
}

const struct tide_kernel tide_kernel_lda_gibbs = {
    .name = "lda_gibbs",
    .doc = "Draws the topics of the tokens of a range of words, exactly. Griffiths and Steyvers, "
           "PNAS 2004.",
    .parameters = parameters,
    .parameter_count = sizeof parameters / sizeof parameters[0],
    .run = run,
};
