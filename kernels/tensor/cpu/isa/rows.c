/* Reductions over rows and columns, rows by index, slices, dropout. */
#include "tensor/cpu/isa/columns.h"
#include "tide.h"

#define PLAIN(i) x[i]
TIDE_COLUMN_SUMS(sum_plain, PLAIN)

int OP(column_sums)(const struct tide_op_call *call) {
    size_t rows = call->in[0].rows, c = call->in[0].columns;
    float *out = call->out[0].data;
    double *sum = call->scratch;
    sum_plain(rows, c, call->in[0].data, NULL, NULL, NULL, (float *)(sum + c), sum);
    for (size_t j = 0; j < c; j++) {
        out[j] = (float)sum[j] + (call->accumulate ? out[j] : 0.0f);
    }
    return 0;
}

int OP(row_sums)(const struct tide_op_call *call) {
    size_t rows = call->in[0].rows, c = call->in[0].columns;
    float *out = call->out[0].data;
    for (size_t r = 0; r < rows; r++) {
        out[r] = (float)tide_sum(c, (const float *)call->in[0].data + r * c);
    }
    return 0;
}

int OP(mean_pixels)(const struct tide_op_call *call) {
    size_t images = call->out[0].rows, c = call->out[0].columns, group = call->attributes->group;
    double *sum = call->scratch;
    for (size_t b = 0; b < images; b++) {
        float *out = (float *)call->out[0].data + b * c;
        sum_plain(group, c, (const float *)call->in[0].data + b * group * c, NULL, NULL, NULL, (float *)(sum + c), sum);
        for (size_t j = 0; j < c; j++) {
            out[j] = (float)(sum[j] / (double)group);
        }
    }
    return 0;
}

int OP(mean_pixels_dx)(const struct tide_op_call *call) {
    size_t images = call->in[0].rows, c = call->in[0].columns, group = call->attributes->group;
    const float share = 1.0f / (float)group;
    for (size_t b = 0; b < images; b++) {
        const float *g = (const float *)call->in[0].data + b * c;
        float *dx = (float *)call->out[0].data + b * group * c;
        for (size_t p = 0; p < group; p++, dx += c) {
            TIDE_INDEPENDENT
            for (size_t j = 0; j < c; j++) {
                dx[j] = g[j] * share;
            }
        }
    }
    return 0;
}

static int check_ids(const int32_t *ids, const struct tide_op_groups *g) {
    for (size_t i = 0; i < g->count * g->m; i++) {
        if (ids[i] < -1 || ids[i] >= (int64_t)g->n) {
            return tide_fail(TIDE_EINVAL, "index %zu is %d, outside 0..%zu (-1: zeros)", i + 1, ids[i], g->n - 1);
        }
    }
    return 0;
}

int OP(embed)(const struct tide_op_call *call) {
    const struct tide_op_groups g = tide_op_groups(call, &call->in[0]);
    const float *table = call->in[0].data;
    const int32_t *ids = call->in[1].data;
    float *out = call->out[0].data;
    int code = check_ids(ids, &g);
    for (size_t b = 0; code == 0 && b < g.count; b++, table += g.n * g.w) {
        for (size_t i = 0; i < g.m; i++, ids++, out += g.w) {
            if (*ids < 0) {
                memset(out, 0, g.w * sizeof(float));
            } else {
                memcpy(out, table + (size_t)*ids * g.w, g.w * sizeof(float));
            }
        }
    }
    return code;
}

int OP(embed_dw)(const struct tide_op_call *call) {
    const struct tide_op_groups groups = tide_op_groups(call, &call->out[0]);
    const float *g = call->in[0].data;
    const int32_t *ids = call->in[1].data;
    float *out = call->out[0].data;
    const size_t all = call->out[0].rows * call->out[0].columns, w = groups.w;
    int code = check_ids(ids, &groups);
    if (code == 0 && !call->accumulate && all > 0) {
        memset(out, 0, all * sizeof(float));
    }
    for (size_t b = 0; code == 0 && b < groups.count; b++, out += groups.n * w) {
        for (size_t i = 0; i < groups.m; i++, ids++, g += w) {
            float *to = out + (size_t)(*ids < 0 ? 0 : *ids) * w;
            const size_t width = *ids < 0 ? 0 : w;
            TIDE_INDEPENDENT
            for (size_t j = 0; j < width; j++) {
                to[j] += g[j];
            }
        }
    }
    return code;
}

/* ---- columns ---- */

/* `width` columns of each row; from and to are the first of them, their rows stride apart. */
static void copy_columns(size_t rows, size_t width, float *to, size_t stride_to, const float *from,
                         size_t stride_from) {
    for (size_t r = 0; r < rows && width > 0; r++) {
        memcpy(to + r * stride_to, from + r * stride_from, width * sizeof(float));
    }
}

int OP(slice)(const struct tide_op_call *call) {
    const struct tide_operand *in = &call->in[0], *out = &call->out[0];
    copy_columns(out->rows, out->columns, out->data, out->columns, (const float *)in->data + call->attributes->first,
                 in->columns);
    return 0;
}

int OP(slice_dx)(const struct tide_op_call *call) {
    const struct tide_operand *in = &call->in[0], *out = &call->out[0];
    if (out->rows > 0) {
        memset(out->data, 0, out->rows * out->columns * sizeof(float));
    }
    copy_columns(in->rows, in->columns, (float *)out->data + call->attributes->first, out->columns, in->data,
                 in->columns);
    return 0;
}

int OP(concat)(const struct tide_op_call *call) {
    const struct tide_operand *a = &call->in[0], *b = &call->in[1], *out = &call->out[0];
    copy_columns(out->rows, a->columns, out->data, out->columns, a->data, a->columns);
    copy_columns(out->rows, b->columns, (float *)out->data + a->columns, out->columns, b->data, b->columns);
    return 0;
}

/* ---- dropout ---- */

enum { LANES = 16 };

/* Word w of lane l: word w of Philox 4x32-10 (Salmon et al. 2011) at counter (index + l, key). As
 * tide_philox of base.h, sixteen counters at a time. */
static void philox_lanes(uint64_t seed, uint64_t key, uint64_t index, uint32_t x[4][LANES]) {
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    for (size_t l = 0; l < LANES; l++) {
        uint64_t at = index + l;
        x[0][l] = (uint32_t)key;
        x[1][l] = (uint32_t)(key >> 32);
        x[2][l] = (uint32_t)at;
        x[3][l] = (uint32_t)(at >> 32);
    }
    for (int round = 0; round < 10; round++) {
        for (size_t l = 0; l < LANES; l++) {
            uint64_t a = (uint64_t)0xD2511F53u * x[0][l], b = (uint64_t)0xCD9E8D57u * x[2][l];
            uint32_t y1 = x[1][l], y3 = x[3][l];
            x[0][l] = (uint32_t)(b >> 32) ^ y1 ^ k0;
            x[1][l] = (uint32_t)b;
            x[2][l] = (uint32_t)(a >> 32) ^ y3 ^ k1;
            x[3][l] = (uint32_t)a;
        }
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
}

int OP(dropout)(const struct tide_op_call *call) {
    size_t n = call->in[0].rows * call->in[0].columns;
    const float *x = call->in[0].data;
    float *y = call->out[0].data;
    const double keep = call->attributes->keep;
    const float scale = (float)(1 / keep);
    const uint32_t limit = (uint32_t)(keep * 16777216.0);
    const uint64_t key = ((uint64_t)call->attributes->id << 40) + call->step;
    uint32_t words[4][LANES];
    const size_t first = call->row * call->in[0].columns; /* of the run's elements */
    for (size_t at = first / (4 * LANES) * (4 * LANES); at < first + n; at += (size_t)4 * LANES) {
        philox_lanes(call->seed, key, at / 4, words);
        size_t from = at < first ? first - at : 0;
        size_t to = first + n - at < (size_t)4 * LANES ? first + n - at : (size_t)4 * LANES;
        for (size_t i = from; i < to; i++) {
            size_t e = at + i - first;
            y[e] = (words[i % 4][i / 4] >> 8) < limit ? x[e] * scale : 0.0f;
        }
    }
    return 0;
}

/* ---- rows of lists: trusted, since they are made here (kernels/graph/levels.c) ---- */

static const float *row_at(const struct tide_operand *x, size_t row) {
    return (const float *)x->data + row * tide_operand_stride(x);
}

static void copy_row(size_t w, float *to, const float *from) {
    TIDE_INDEPENDENT
    for (size_t j = 0; j < w; j++) {
        to[j] = from[j];
    }
}

static void zero_row(size_t w, float *to) {
    TIDE_INDEPENDENT
    for (size_t j = 0; j < w; j++) {
        to[j] = 0.0f;
    }
}

int OP(gather)(const struct tide_op_call *call) {
    size_t n = call->out[0].rows, w = call->out[0].columns, to = tide_operand_stride(&call->out[0]);
    const int32_t *rows = call->in[1].data;
    float *out = call->out[0].data;
    for (size_t i = 0; i < n; i++, out += to) {
        if (rows[i] < 0) {
            zero_row(w, out);
        } else {
            copy_row(w, out, row_at(&call->in[0], (size_t)rows[i]));
        }
    }
    return 0;
}

/* ((a + b) + c) + ...: two or three at a time, so that most rows are written once. */
static void sum_rows(const struct tide_operand *x, const int32_t *rows, size_t count, size_t w, float *out) {
    const float *a = row_at(x, (size_t)rows[0]), *b = row_at(x, (size_t)rows[1]);
    TIDE_INDEPENDENT
    for (size_t j = 0; j < w; j++) {
        out[j] = a[j] + b[j];
    }
    for (size_t k = 2; k < count; k++) {
        a = row_at(x, (size_t)rows[k]);
        TIDE_INDEPENDENT
        for (size_t j = 0; j < w; j++) {
            out[j] += a[j];
        }
    }
}

int OP(gather_sum)(const struct tide_op_call *call) {
    size_t n = call->out[0].rows, w = call->out[0].columns, to = tide_operand_stride(&call->out[0]);
    const int32_t *starts = call->in[1].data, *rows = call->in[2].data;
    float *out = call->out[0].data;
    for (size_t i = 0; i < n; i++, out += to) {
        size_t count = (size_t)(starts[i + 1] - starts[i]);
        if (count == 0) {
            zero_row(w, out);
        } else if (count == 1) {
            copy_row(w, out, row_at(&call->in[0], (size_t)rows[starts[i]]));
        } else {
            sum_rows(&call->in[0], rows + starts[i], count, w, out);
        }
    }
    return 0;
}

int OP(gather_max)(const struct tide_op_call *call) {
    size_t n = call->out[0].rows, w = call->out[0].columns, to = tide_operand_stride(&call->out[0]);
    const int32_t *starts = call->in[1].data, *rows = call->in[2].data;
    float *out = call->out[0].data;
    int32_t *winner = call->out[1].data;
    for (size_t i = 0; i < n; i++, out += to, winner += w) {
        for (size_t j = 0; j < w; j++) {
            out[j] = 0.0f;
            winner[j] = -1;
        }
        for (int32_t k = starts[i]; k < starts[i + 1]; k++) {
            const float *x = row_at(&call->in[0], (size_t)rows[k]);
            TIDE_INDEPENDENT
            for (size_t j = 0; j < w; j++) {
                bool first = winner[j] < 0, nan = x[j] != x[j] && out[j] == out[j];
                bool wins = first | (x[j] > out[j]) | nan;
                out[j] = wins ? x[j] : out[j];
                winner[j] = wins ? rows[k] : winner[j];
            }
        }
    }
    return 0;
}

int OP(gather_max_dx)(const struct tide_op_call *call) {
    size_t n = call->out[0].rows, w = call->out[0].columns, to = tide_operand_stride(&call->out[0]);
    const int32_t *winners = call->in[1].data, *starts = call->in[2].data, *rows = call->in[3].data;
    float *out = call->out[0].data;
    for (size_t i = 0; i < n; i++, out += to) {
        const int32_t own = (int32_t)(call->row + i);
        zero_row(w, out);
        for (int32_t k = starts[i]; k < starts[i + 1]; k++) {
            if (k > starts[i] && rows[k] == rows[k - 1]) {
                continue;
            }
            const float *g = row_at(&call->in[0], (size_t)rows[k]);
            const int32_t *won = winners + (size_t)rows[k] * w;
            TIDE_INDEPENDENT
            for (size_t j = 0; j < w; j++) {
                out[j] += won[j] == own ? g[j] : 0.0f;
            }
        }
    }
    return 0;
}
