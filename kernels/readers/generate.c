/*
 * The generators of generate.h. Every byte is fixed by tests: no multiplication and addition may be
 * fused here, and no draw may move.
 */
#include "readers/generate.h"
#include "base/base.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>

#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#else
#pragma GCC optimize("fp-contract=off")
#endif

enum { TOPICS = 50, COMMON_WORDS = 100, CLASSES = 20, BUFFER = 1 << 16, LINE_MOST = 80 };

static uint64_t next(uint64_t *state) {
    *state += UINT64_C(0x9E3779B97F4A7C15);
    return tide_mix64(*state);
}

static double uniform(uint64_t *state) {
    return (double)(next(state) >> 11) * 0x1p-53;
}

static double gauss(uint64_t *state) {
    double u = uniform(state) + 1e-300;
    double v = uniform(state);
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

/* ---- Zipf's law: cumulated shares of 1 / (i + 1)^exponent ---- */

static double *zipf_create(uint64_t count, double exponent) {
    double *law = tide_alloc(count * sizeof(double));
    double sum = 0;
    for (uint64_t i = 0; law && i < count; i++) {
        sum += pow((double)(i + 1), -exponent);
        law[i] = sum;
    }
    for (uint64_t i = 0; law && i < count; i++) {
        law[i] /= sum;
    }
    return law;
}

static uint64_t zipf(const double *law, uint64_t count, uint64_t *state) {
    double u = uniform(state);
    uint64_t low = 0, high = count - 1;
    while (low < high) { /* the smallest index whose share reaches u */
        uint64_t middle = low + (high - low) / 2;
        if (law[middle] >= u) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

/* ---- lines written to a sink ---- */

struct output {
    struct tide_sink sink;
    char *buffer;
    size_t used;
    int error;
};

static int output_init(struct output *out, struct tide_sink sink) {
    *out = (struct output){sink, tide_alloc(BUFFER), 0, 0};
    return out->buffer ? 0 : TIDE_ENOMEM;
}

static void output_flush(struct output *out) {
    if (out->used && !out->error) {
        out->error = out->sink.write(out->sink.arg, out->buffer, out->used);
    }
    out->used = 0;
}

static void output_format(struct output *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void output_format(struct output *out, const char *format, ...) {
    if (out->used + LINE_MOST > BUFFER) {
        output_flush(out);
    }
    va_list list;
    va_start(list, format);
    int length = vsnprintf(out->buffer + out->used, LINE_MOST, format, list);
    va_end(list);
    TIDE_ASSERT(length >= 0 && length < LINE_MOST);
    out->used += (size_t)length;
}

static int output_close(struct output *out) {
    output_flush(out);
    tide_free(out->buffer);
    out->buffer = NULL;
    return out->error;
}

/* ---- matrix ---- */

struct matrix {
    const struct tide_matrix_input *input;
    double *w, *h;
    uint64_t *cells; /* open addressing; a cell's number + 1, 0 is free */
    size_t mask;
    uint64_t state;
};

/* false if the cell was used before. */
static bool matrix_claim(struct matrix *m, uint64_t cell) {
    size_t at = tide_mix64(cell) & m->mask;
    for (; m->cells[at]; at = (at + 1) & m->mask) {
        if (m->cells[at] == cell + 1) {
            return false;
        }
    }
    m->cells[at] = cell + 1;
    return true;
}

static void matrix_part(struct matrix *m, uint64_t count, struct output *out) {
    const struct tide_matrix_input *in = m->input;
    output_format(out, "%%%%MatrixMarket matrix coordinate real general\n%% generated\n");
    output_format(out, "%" PRIu64 " %" PRIu64 " %" PRIu64 "\n", in->rows, in->columns, count);
    for (uint64_t made = 0; made < count && !out->error;) {
        uint64_t i = next(&m->state) % in->rows;
        uint64_t j = next(&m->state) % in->columns;
        if (!matrix_claim(m, i * in->columns + j)) {
            continue;
        }
        double x = 0;
        for (uint32_t z = 0; z < in->rank; z++) {
            x += m->w[i * in->rank + z] * m->h[j * in->rank + z];
        }
        x += 0.1 * gauss(&m->state);
        output_format(out, "%" PRIu64 " %" PRIu64 " %.6g\n", i + 1, j + 1, x);
        made++;
    }
}

static void normal_factor(double *factor, uint64_t count, double deviation, uint64_t *state) {
    for (uint64_t i = 0; i < count; i++) {
        factor[i] = gauss(state) * deviation;
    }
}

int tide_generate_matrix(const struct tide_matrix_input *input, struct tide_sink train, struct tide_sink test) {
    const struct tide_matrix_input *in = input;
    const uint64_t most = UINT32_MAX;
    if (in->rows == 0 || in->columns == 0 || in->rank == 0 || in->rows > most || in->columns > most ||
        in->train > most || in->test > most ||
        (double)(in->train + in->test) > 0.9 * (double)in->rows * (double)in->columns) {
        return tide_fail(TIDE_EINVAL, "matrix: sizes 1 to 2^32-1, at most 9 of 10 cells drawn");
    }
    struct matrix m = {.input = in, .state = in->seed};
    size_t size = 16;
    while (size < 2 * (in->train + in->test)) {
        size *= 2;
    }
    m.mask = size - 1;
    struct output outputs[2] = {{.buffer = NULL}};
    m.w = tide_alloc(in->rows * in->rank * sizeof(double));
    m.h = tide_alloc(in->columns * in->rank * sizeof(double));
    m.cells = tide_alloc_zero(size, sizeof(uint64_t));
    int error = m.w && m.h && m.cells ? 0 : TIDE_ENOMEM;
    error = error ? error : output_init(&outputs[0], train);
    error = error ? error : output_init(&outputs[1], test);
    if (!error) {
        double deviation = 1 / sqrt(sqrt((double)in->rank));
        normal_factor(m.w, in->rows * in->rank, deviation, &m.state);
        normal_factor(m.h, in->columns * in->rank, deviation, &m.state);
        matrix_part(&m, in->train, &outputs[0]);
        error = output_close(&outputs[0]);
    }
    if (!error) {
        matrix_part(&m, in->test, &outputs[1]);
        error = output_close(&outputs[1]);
    }
    tide_free(outputs[0].buffer);
    tide_free(outputs[1].buffer);
    tide_free(m.w);
    tide_free(m.h);
    tide_free(m.cells);
    return error;
}

/* ---- graph ---- */

struct graph {
    const struct tide_graph_input *input;
    double *entities, *relations;
    uint64_t state;
};

static int graph_part(struct graph *g, uint64_t count, struct tide_sink sink) {
    const struct tide_graph_input *in = g->input;
    struct output out;
    int error = output_init(&out, sink);
    if (error) {
        return error;
    }
    for (uint64_t i = 0; i < count && !out.error; i++) {
        uint64_t s = zipf(g->entities, in->entities, &g->state);
        uint64_t r = zipf(g->relations, in->relations, &g->state);
        uint64_t class = (s % CLASSES + r) % CLASSES;
        uint64_t o = class + CLASSES * (zipf(g->entities, in->entities, &g->state) / CLASSES);
        if (o >= in->entities) {
            o = class;
        }
        output_format(&out, "%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\n", s, r, o);
    }
    return output_close(&out);
}

int tide_generate_graph(const struct tide_graph_input *input, struct tide_sink train, struct tide_sink valid,
                        struct tide_sink test) {
    if (input->entities < CLASSES || input->relations == 0 || input->entities > UINT32_MAX ||
        input->relations > UINT32_MAX) {
        return tide_fail(TIDE_EINVAL,
                         "graph: needs %d or more entities and a relation, each below "
                         "2^32",
                         CLASSES);
    }
    struct graph g = {input, zipf_create(input->entities, 0.6), zipf_create(input->relations, 1.0), input->seed};
    int error = g.entities && g.relations ? 0 : TIDE_ENOMEM;
    error = error ? error : graph_part(&g, input->train, train);
    error = error ? error : graph_part(&g, input->valid, valid);
    error = error ? error : graph_part(&g, input->test, test);
    tide_free(g.entities);
    tide_free(g.relations);
    return error;
}

/* ---- text ---- */

static void text_lines(const struct tide_text_input *in, const double *law, struct output *out) {
    uint64_t state = in->seed, topic = 0;
    for (uint64_t i = 0; i < in->vocabulary && !out->error; i++) {
        output_format(out, "w%" PRIu64 "%c", i, (i + 1) % in->sentence == 0 ? '\n' : ' ');
    }
    output_format(out, "\n");
    for (uint64_t i = 0; i < in->words && !out->error; i++) {
        if (i % in->sentence == 0) {
            topic = next(&state) % TOPICS;
        }
        uint64_t word = zipf(law, in->vocabulary, &state);
        if (word >= COMMON_WORDS) {
            word = COMMON_WORDS + TOPICS * ((word - COMMON_WORDS) / TOPICS) + topic;
        }
        if (word >= in->vocabulary) {
            word = in->vocabulary - 1;
        }
        output_format(out, "w%" PRIu64 "%c", word, (i + 1) % in->sentence == 0 ? '\n' : ' ');
    }
}

int tide_generate_text(const struct tide_text_input *input, struct tide_sink sink) {
    if (input->vocabulary == 0 || input->vocabulary > UINT32_MAX || input->sentence == 0) {
        return tide_fail(TIDE_EINVAL, "text: needs a vocabulary below 2^32 and words in a sentence");
    }
    struct output out;
    double *law = zipf_create(input->vocabulary, 1.0);
    int error = output_init(&out, sink);
    error = law ? error : TIDE_ENOMEM;
    if (!error) {
        text_lines(input, law, &out);
    }
    int closed = output_close(&out);
    tide_free(law);
    return error ? error : closed;
}

/* ---- sparse examples ---- */

struct examples {
    const struct tide_sparse_input *input;
    double *truth;  /* columns x outputs */
    double *scores; /* outputs */
    uint64_t outputs;
    uint64_t *columns; /* of an example, rising */
    double *values;
    uint8_t *taken; /* a byte a column */
    uint64_t state;
};

static int compare_columns(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Different columns, each choice equally likely (Floyd's algorithm; Bentley, CACM 30(9), 1987). */
static void draw_columns(struct examples *e) {
    uint64_t wanted = e->input->nonzeros, all = e->input->columns, count = 0;
    for (uint64_t j = all - wanted; j < all; j++) {
        uint64_t drawn = next(&e->state) % (j + 1);
        uint64_t column = e->taken[drawn] ? j : drawn;
        e->taken[column] = 1;
        e->columns[count++] = column;
    }
    for (uint64_t i = 0; i < count; i++) {
        e->taken[e->columns[i]] = 0;
    }
    qsort(e->columns, count, sizeof *e->columns, compare_columns);
}

static void score(struct examples *e) {
    double deviation = 1 / sqrt((double)e->input->nonzeros);
    for (uint64_t k = 0; k < e->outputs; k++) {
        e->scores[k] = 0;
    }
    for (uint64_t i = 0; i < e->input->nonzeros; i++) {
        e->values[i] = gauss(&e->state) * deviation;
        const double *row = e->truth + e->columns[i] * e->outputs;
        for (uint64_t k = 0; k < e->outputs; k++) {
            e->scores[k] += row[k] * e->values[i];
        }
    }
}

static void write_label(struct examples *e, struct output *out) {
    if (e->input->classes == 0) {
        output_format(out, "%.6g", e->scores[0] + 0.01 * gauss(&e->state));
        return;
    }
    uint64_t best = 0;
    for (uint64_t k = 1; k < e->outputs; k++) {
        best = e->scores[k] > e->scores[best] ? k : best;
    }
    if (next(&e->state) % 20 == 0) {
        best = next(&e->state) % e->outputs;
    }
    output_format(out, "%" PRIu64, best);
}

static int sparse_part(struct examples *e, uint64_t count, struct tide_sink sink) {
    struct output out;
    int error = output_init(&out, sink);
    if (error) {
        return error;
    }
    for (uint64_t made = 0; made < count && !out.error; made++) {
        draw_columns(e);
        score(e);
        write_label(e, &out);
        for (uint64_t i = 0; i < e->input->nonzeros; i++) {
            output_format(&out, " %" PRIu64 ":%.6g", e->columns[i] + 1, e->values[i]);
        }
        output_format(&out, "\n");
    }
    return output_close(&out);
}

int tide_generate_sparse(const struct tide_sparse_input *input, struct tide_sink train, struct tide_sink test) {
    const struct tide_sparse_input *in = input;
    if (in->train == 0 || in->columns == 0 || in->columns >= UINT32_MAX || in->nonzeros == 0 ||
        in->nonzeros > in->columns || in->classes == 1 || in->classes > 1 << 20 ||
        in->columns * (in->classes + 1) > UINT32_MAX) {
        return tide_fail(TIDE_EINVAL, "sparse: needs examples, 1 to `columns` nonzeros, 0 or 2 to 2^20 "
                                      "classes, columns x classes below 2^32");
    }
    struct examples e = {.input = in, .outputs = in->classes ? in->classes : 1, .state = in->seed};
    e.truth = tide_alloc(in->columns * e.outputs * sizeof *e.truth);
    e.scores = tide_alloc(e.outputs * sizeof *e.scores);
    e.columns = tide_alloc(in->nonzeros * sizeof *e.columns);
    e.values = tide_alloc(in->nonzeros * sizeof *e.values);
    e.taken = tide_alloc_zero(in->columns, 1);
    int error = e.truth && e.scores && e.columns && e.values && e.taken ? 0 : TIDE_ENOMEM;
    for (uint64_t i = 0; !error && i < in->columns * e.outputs; i++) {
        bool zero = in->classes == 0 && next(&e.state) % 10 != 0;
        e.truth[i] = zero ? 0 : gauss(&e.state);
    }
    error = error ? error : sparse_part(&e, in->train, train);
    error = error ? error : sparse_part(&e, in->test, test);
    tide_free(e.truth);
    tide_free(e.scores);
    tide_free(e.columns);
    tide_free(e.values);
    tide_free(e.taken);
    return error;
}
