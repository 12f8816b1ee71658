/*
 * Documents drawn from a topic model whose topics are known, as UCI's bag of words. Gamma variates
 * as logarithms (Marsaglia and Tsang, ACM TOMS 26(3), 2000), since small parameters underflow;
 * draws are xorshift128+ in one stream. The same bytes on every machine: no product is fused into a
 * sum.
 */
#include "readers/generate.h"

#include "base/base.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DISCARDED = 20, LENGTH_LEAST = 10, LENGTH_MOST = 8000, LINE = 64, BUFFER = 1 << 16 };

struct draws {
    uint64_t a, b;
};

static uint64_t next(struct draws *s) {
    uint64_t x = s->a;
    const uint64_t y = s->b;
    s->a = y;
    x ^= x << 23;
    s->b = x ^ y ^ (x >> 17) ^ (y >> 26);
    return s->b + y;
}

static double uniform(struct draws *s) {
    return ((double)(next(s) >> 11) + 0.5) * 0x1p-53;
}

static double normal(struct draws *s) {
    const double first = uniform(s), second = uniform(s);
    return sqrt(-2 * log(first)) * cos(6.283185307179586 * second);
}

/* Logarithm of a gamma variate. */
static double variate(struct draws *s, double a) {
    double boost = 0;
    if (a < 1) {
        boost = log(uniform(s)) / a;
        a += 1;
    }
    const double d = a - 1.0 / 3, c = 1 / sqrt(9 * d);
    for (;;) {
        const double x = normal(s);
        double v = 1 + c * x;
        if (v <= 0) {
            continue;
        }
        v = v * v * v;
        const double w = uniform(s);
        if (log(w) < 0.5 * x * x + d - d * v + d * log(v)) {
            return log(d * v) + boost;
        }
    }
}

/* The running sums of a Dirichlet variate with parameters base[i] mass. */
static void dirichlet(struct draws *s, const double *base, size_t count, double mass, double *cdf) {
    double most = -INFINITY, sum = 0;
    for (size_t i = 0; i < count; i++) {
        cdf[i] = variate(s, base[i] * mass);
        most = cdf[i] > most ? cdf[i] : most;
    }
    for (size_t i = 0; i < count; i++) {
        sum += exp(cdf[i] - most);
        cdf[i] = sum;
    }
    for (size_t i = 0; i < count; i++) {
        cdf[i] /= sum;
    }
}

static size_t draw(struct draws *s, const double *cdf, size_t count) {
    const double at = uniform(s) * cdf[count - 1];
    size_t low = 0, high = count - 1;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (cdf[middle] >= at) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

struct text {
    char *data;
    size_t size, room;
    uint64_t lines;
};

static int append(struct text *t, uint64_t document, size_t word, uint32_t count) {
    if (t->room - t->size < LINE) {
        const size_t room = t->room ? 2 * t->room : BUFFER;
        char *grown = tide_realloc(t->data, room);
        if (!grown) {
            return TIDE_ENOMEM;
        }
        t->data = grown;
        t->room = room;
    }
    t->size +=
        (size_t)snprintf(t->data + t->size, LINE, "%" PRIu64 " %zu %" PRIu32 "\n", document + 1, word + 1, count);
    t->lines++;
    return 0;
}

struct world {
    const struct tide_topics_input *input;
    struct draws s;
    double *topics, *base, *theta, *even;
    uint32_t *counts;
};

static int one_document(struct world *w, uint64_t document, struct text *out) {
    const struct tide_topics_input *in = w->input;
    dirichlet(&w->s, w->even, in->topics, in->topics_mass, w->theta);
    const double length = trunc((double)in->length * exp(0.3 * normal(&w->s) - 0.045));
    const uint64_t count = length < LENGTH_LEAST ? LENGTH_LEAST : length > LENGTH_MOST ? LENGTH_MOST : (uint64_t)length;
    for (uint64_t i = 0; i < count; i++) {
        const size_t topic = draw(&w->s, w->theta, in->topics);
        w->counts[draw(&w->s, w->topics + topic * in->vocabulary, in->vocabulary)]++;
    }
    int code = 0;
    for (size_t word = 0; word < in->vocabulary && code == 0; word++) {
        if (w->counts[word] > 0) {
            code = append(out, document, word, w->counts[word]);
            w->counts[word] = 0;
        }
    }
    return code;
}

static int generate(struct world *w, struct text *out) {
    const struct tide_topics_input *in = w->input;
    double sum = 0;
    for (uint64_t i = 0; i < in->vocabulary; i++) {
        w->base[i] = 1 / pow((double)i + 3, 1.0);
        sum += w->base[i];
    }
    for (uint64_t i = 0; i < in->vocabulary; i++) {
        w->base[i] /= sum;
    }
    for (uint64_t k = 0; k < in->topics; k++) {
        w->even[k] = 1.0 / (double)in->topics;
    }
    w->s = (struct draws){0x9E3779B97F4A7C15u * in->seed + 1, 0xD1B54A32D192ED03u};
    for (int i = 0; i < DISCARDED; i++) {
        (void)next(&w->s);
    }
    for (uint64_t k = 0; k < in->topics; k++) {
        dirichlet(&w->s, w->base, in->vocabulary, in->words_mass, w->topics + k * in->vocabulary);
    }
    int code = 0;
    for (uint64_t d = 0; d < in->documents && code == 0; d++) {
        code = one_document(w, d, out);
    }
    return code;
}

int tide_generate_topics(const struct tide_topics_input *input, struct tide_sink sink) {
    const struct tide_topics_input *in = input;
    if (in->vocabulary == 0 || in->topics == 0 || in->documents == 0 || in->length == 0 || !(in->words_mass > 0) ||
        !(in->topics_mass > 0) || in->vocabulary > UINT32_MAX || in->topics > 1 << 20 ||
        in->vocabulary * in->topics > UINT32_MAX) {
        return tide_fail(TIDE_EINVAL, "lda: needs documents, a length, masses above 0, vocabulary x topics below 2^32");
    }
    struct world w = {.input = in};
    struct text text = {0};
    w.topics = tide_alloc(in->topics * in->vocabulary * sizeof *w.topics);
    w.base = tide_alloc(in->vocabulary * sizeof *w.base);
    w.theta = tide_alloc(in->topics * sizeof *w.theta);
    w.even = tide_alloc(in->topics * sizeof *w.even);
    w.counts = tide_alloc_zero(in->vocabulary, sizeof *w.counts);
    int code = w.topics && w.base && w.theta && w.even && w.counts ? generate(&w, &text) : TIDE_ENOMEM;
    char header[3 * LINE];
    const int size = snprintf(header, sizeof header, "%" PRIu64 "\n%" PRIu64 "\n%" PRIu64 "\n", in->documents,
                              in->vocabulary, text.lines);
    code = code ? code : sink.write(sink.arg, header, (size_t)size);
    code = code ? code : sink.write(sink.arg, text.data, text.size);
    tide_free(w.topics);
    tide_free(w.base);
    tide_free(w.theta);
    tide_free(w.even);
    tide_free(w.counts);
    tide_free(text.data);
    return code;
}
