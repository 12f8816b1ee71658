/*
 * Batch normalisation (Ioffe, Szegedy 2015) over all rows of a channel, layer normalisation (Ba,
 * Kiros, Hinton 2016) over the channels of a row. Variances are biased; the running variance of
 * batch normalisation is not.
 */
#include "tensor/cpu/isa/columns.h"

#define PLAIN(i) x[i]
#define SQUARED(i) ((x[i] - mean[j]) * (x[i] - mean[j]))
#define NORMED(i) (x[i] * ((y[i] - mean[j]) * inv[j]))
TIDE_COLUMN_SUMS(sum_plain, PLAIN)
TIDE_COLUMN_SUMS(sum_squared, SQUARED)
TIDE_COLUMN_SUMS(sum_normed, NORMED)

/* y = (x - mean) scale + beta */
static void apply(size_t rows, size_t c, const float *x, const float *mean, const float *scale, const float *beta,
                  float *y) {
    for (size_t r = 0; r < rows; r++) {
        const float *from = x + r * c;
        float *to = y + r * c;
        TIDE_INDEPENDENT
        for (size_t j = 0; j < c; j++) {
            to[j] = (from[j] - mean[j]) * scale[j] + beta[j];
        }
    }
}

int OP(batchnorm)(const struct tide_op_call *call) {
    size_t rows = call->in[0].rows, c = call->in[0].columns;
    const float *x = call->in[0].data, *gamma = call->in[1].data, *beta = call->in[2].data;
    float *running_mean = call->in[3].data, *running_var = call->in[4].data;
    float *y = call->out[0].data, *mean = call->out[1].data, *inv = call->out[2].data;
    double *sum = call->scratch;
    float *acc = (float *)(sum + c), *scale = acc + c;
    const float rate = (float)call->attributes->rate;
    if (rows == 0) {
        memset(mean, 0, c * sizeof(float));
        memset(inv, 0, c * sizeof(float));
        return 0;
    }
    sum_plain(rows, c, x, NULL, NULL, NULL, acc, sum);
    for (size_t j = 0; j < c; j++) {
        mean[j] = (float)(sum[j] / (double)rows);
    }
    sum_squared(rows, c, x, NULL, mean, NULL, acc, sum);
    for (size_t j = 0; j < c; j++) {
        double var = sum[j] / (double)rows;
        double unbiased = rows > 1 ? sum[j] / (double)(rows - 1) : var;
        inv[j] = (float)(1 / sqrt(var + call->attributes->eps));
        scale[j] = inv[j] * gamma[j];
        running_mean[j] += rate * (mean[j] - running_mean[j]);
        running_var[j] += rate * ((float)unbiased - running_var[j]);
    }
    apply(rows, c, x, mean, scale, beta, y);
    return 0;
}

int OP(batchnorm_eval)(const struct tide_op_call *call) {
    size_t c = call->in[0].columns;
    const float *gamma = call->in[1].data, *var = call->in[4].data;
    float *scale = call->scratch;
    for (size_t j = 0; j < c; j++) {
        scale[j] = (float)((double)gamma[j] / sqrt((double)var[j] + call->attributes->eps));
    }
    apply(call->in[0].rows, c, call->in[0].data, call->in[3].data, scale, call->in[2].data, call->out[0].data);
    return 0;
}

/* dx = gamma inv (g - mean(g) - xhat mean(g xhat)) */
int OP(batchnorm_dx)(const struct tide_op_call *call) {
    size_t rows = call->in[0].rows, c = call->in[0].columns;
    const float *g = call->in[0].data, *x = call->in[1].data, *gamma = call->in[2].data;
    const float *mean = call->in[3].data, *inv = call->in[4].data;
    float *dx = call->out[0].data, *dgamma = call->out[1].data, *dbeta = call->out[2].data;
    double *sum = call->scratch;
    float *acc = (float *)(sum + c), *first = acc + c, *second = first + c, *scale = second + c;
    sum_plain(rows, c, g, NULL, NULL, NULL, acc, sum);
    for (size_t j = 0; j < c; j++) {
        dbeta[j] = (float)sum[j];
        first[j] = rows ? (float)(sum[j] / (double)rows) : 0.0f;
    }
    sum_normed(rows, c, g, x, mean, inv, acc, sum);
    for (size_t j = 0; j < c; j++) {
        dgamma[j] = (float)sum[j];
        second[j] = rows ? (float)(sum[j] / (double)rows) * inv[j] : 0.0f;
        scale[j] = gamma[j] * inv[j];
    }
    for (size_t r = 0; r < rows; r++) {
        const float *gr = g + r * c, *xr = x + r * c;
        float *out = dx + r * c;
        TIDE_INDEPENDENT
        for (size_t j = 0; j < c; j++) {
            out[j] = scale[j] * ((gr[j] - first[j]) - (xr[j] - mean[j]) * second[j]);
        }
    }
    return 0;
}

/* ---- per row ---- */

static double squared_distance(size_t c, const float *x, float mean) {
    double sum = 0;
    size_t j = 0;
    tide_sixteen lanes = {0};
    for (; j + 16 <= c; j += 16) {
        for (size_t q = 0; q < 16 / TIDE_LANES; q++) {
            tide_vec d = VECC(x + j + q * TIDE_LANES) - mean;
            lanes.part[q] += d * d;
        }
    }
    sum = (double)tide_lanes(&lanes);
    for (; j < c; j++) {
        sum += (double)((x[j] - mean) * (x[j] - mean));
    }
    return sum;
}

int OP(layernorm)(const struct tide_op_call *call) {
    size_t rows = call->in[0].rows, c = call->in[0].columns;
    const float *gamma = call->in[1].data, *beta = call->in[2].data;
    float *mean = call->out[1].data, *inv = call->out[2].data;
    for (size_t r = 0; r < rows; r++) {
        const float *x = (const float *)call->in[0].data + r * c;
        float *y = (float *)call->out[0].data + r * c;
        float m = (float)(tide_sum(c, x) / (double)c);
        float s = (float)(1 / sqrt(squared_distance(c, x, m) / (double)c + call->attributes->eps));
        mean[r] = m;
        inv[r] = s;
        TIDE_INDEPENDENT
        for (size_t j = 0; j < c; j++) {
            y[j] = (x[j] - m) * s * gamma[j] + beta[j];
        }
    }
    return 0;
}

int OP(layernorm_dx)(const struct tide_op_call *call) {
    size_t rows = call->in[0].rows, c = call->in[0].columns;
    const float *gamma = call->in[2].data, *mean = call->in[3].data, *inv = call->in[4].data;
    float *dgamma = call->out[1].data, *dbeta = call->out[2].data;
    double *sum_gamma = call->scratch, *sum_beta = sum_gamma + c;
    memset(sum_gamma, 0, 2 * c * sizeof(double));
    for (size_t r = 0; r < rows; r++) {
        const float *g = (const float *)call->in[0].data + r * c;
        const float *x = (const float *)call->in[1].data + r * c;
        float *dx = (float *)call->out[0].data + r * c;
        const float m = mean[r], s = inv[r];
        double first = 0, second = 0;
        for (size_t j = 0; j < c; j++) {
            float xhat = (x[j] - m) * s, scaled = g[j] * gamma[j];
            first += (double)scaled;
            second += (double)(scaled * xhat);
            sum_gamma[j] += (double)(g[j] * xhat);
            sum_beta[j] += (double)g[j];
        }
        const float a = (float)(first / (double)c), b = (float)(second / (double)c);
        TIDE_INDEPENDENT
        for (size_t j = 0; j < c; j++) {
            dx[j] = s * (g[j] * gamma[j] - a - (x[j] - m) * s * b);
        }
    }
    for (size_t j = 0; j < c; j++) {
        dgamma[j] = (float)sum_gamma[j];
        dbeta[j] = (float)sum_beta[j];
    }
    return 0;
}
