/*
 * Batch normalisation (Ioffe, Szegedy 2015) over all rows of a channel, layer normalisation (Ba,
 * Kiros, Hinton 2016) over the channels of a row. Variances are biased; the running variance of
 * batch normalisation is not. Sums are double: of batch normalisation in one pass, of distances
 * from the first row.
 */
#include "tensor/cuda/gpu.h"

/* y = (x - mean) scale + beta, by column */
static __global__ void apply_kernel(size_t rows, size_t c, const float *x, const float *mean,
                                    const float *scale, const float *beta, float *y) {
    const size_t r = gpu_row<GPU_GROUP>();
    for (size_t j = gpu_lane<GPU_GROUP>(); r < rows && j < c; j += GPU_GROUP) {
        y[r * c + j] = (x[r * c + j] - mean[j]) * scale[j] + beta[j];
    }
}

static int apply(struct tide_cuda_queue *queue, const struct tide_operand *x, const float *mean,
                 const float *scale, const float *beta, float *y) {
    return GPU_EACH_ROW(apply_kernel, x->rows, queue, x->rows, x->columns, (const float *)x->data,
                        mean, scale, beta, y);
}

struct statistics {
    size_t rows, c;
    const float *x, *gamma;
    float *running_mean, *running_var, *mean, *inv, *scale;
    const double *sums; /* of distances from row 0, and of their squares */
    double eps;
    float rate;
};

static __global__ void statistics_kernel(const struct statistics s) {
    const size_t j = gpu_thread();
    if (j >= s.c) {
        return;
    }
    if (s.rows == 0) {
        s.mean[j] = s.inv[j] = 0;
        return;
    }
    const double n = (double)s.rows, shift = s.sums[j] / n;
    const double squares = s.sums[s.c + j] - s.sums[j] * shift, var = squares / n;
    const float mean = (float)((double)s.x[j] + shift);
    const float unbiased = (float)(s.rows > 1 ? squares / (n - 1) : var);
    s.mean[j] = mean;
    s.inv[j] = (float)(1 / sqrt(var + s.eps));
    s.scale[j] = s.inv[j] * s.gamma[j];
    s.running_mean[j] += s.rate * (mean - s.running_mean[j]);
    s.running_var[j] += s.rate * (unbiased - s.running_var[j]);
}

int tide_cuda_batchnorm(const struct tide_op_call *call) {
    struct tide_cuda_queue *queue = tide_cuda_queue_of(call);
    const struct tide_operand *x = &call->in[0];
    double *sums = NULL;
    struct statistics s = {};
    s.rows = x->rows;
    s.c = x->columns;
    s.x = (const float *)x->data;
    s.gamma = (const float *)call->in[1].data;
    s.running_mean = (float *)call->in[3].data;
    s.running_var = (float *)call->in[4].data;
    s.mean = (float *)call->out[1].data;
    s.inv = (float *)call->out[2].data;
    s.scale = (float *)((char *)call->scratch + tide_cuda_columns_scratch(s.rows, s.c));
    s.eps = call->attributes->eps;
    s.rate = (float)call->attributes->rate;
    if (s.c == 0) {
        return 0;
    }
    int code = tide_cuda_sum_columns(queue, TIDE_CUDA_SHIFTED, s.rows, s.c, s.x, NULL, NULL, NULL,
                                     call->scratch, &sums);
    s.sums = sums;
    if (code == 0) {
        code = GPU_EACH(statistics_kernel, gpu_blocks(s.c), queue, s);
    }
    return code == 0 ? apply(queue, x, s.mean, s.scale, (const float *)call->in[2].data,
                             (float *)call->out[0].data)
                     : code;
}

static __global__ void scale_kernel(size_t c, const float *gamma, const float *var, double eps,
                                    float *scale) {
    const size_t j = gpu_thread();
    if (j < c) {
        scale[j] = (float)((double)gamma[j] / sqrt((double)var[j] + eps));
    }
}

int tide_cuda_batchnorm_eval(const struct tide_op_call *call) {
    struct tide_cuda_queue *queue = tide_cuda_queue_of(call);
    const size_t c = call->in[0].columns;
    float *scale = (float *)call->scratch;
    int code =
        c == 0 ? 0
               : GPU_EACH(scale_kernel, gpu_blocks(c), queue, c, (const float *)call->in[1].data,
                          (const float *)call->in[4].data, call->attributes->eps, scale);
    return code == 0 ? apply(queue, &call->in[0], (const float *)call->in[3].data, scale,
                             (const float *)call->in[2].data, (float *)call->out[0].data)
                     : code;
}

struct back {
    size_t rows, c;
    const float *g, *x, *gamma, *mean, *inv;
    const double *sums; /* of g and of g xhat */
    float *dx, *dgamma, *dbeta;
};

static __global__ void gradient_kernel(const struct back b) {
    const size_t j = gpu_thread();
    if (j < b.c) {
        b.dbeta[j] = (float)b.sums[j];
        b.dgamma[j] = (float)b.sums[b.c + j];
    }
}

/* dx = gamma inv (g - mean(g) - xhat mean(g xhat)) */
static __global__ void batch_back_kernel(const struct back b) {
    const double share = 1 / (double)b.rows;
    const size_t r = gpu_row<GPU_GROUP>();
    for (size_t j = gpu_lane<GPU_GROUP>(); r < b.rows && j < b.c; j += GPU_GROUP) {
        const size_t e = r * b.c + j;
        const float first = (float)(b.sums[j] * share);
        const float second = (float)(b.sums[b.c + j] * share) * b.inv[j];
        b.dx[e] = b.gamma[j] * b.inv[j] * ((b.g[e] - first) - (b.x[e] - b.mean[j]) * second);
    }
}

static struct back back_of(const struct tide_op_call *call) {
    struct back b = {};
    b.rows = call->in[0].rows;
    b.c = call->in[0].columns;
    b.g = (const float *)call->in[0].data;
    b.x = (const float *)call->in[1].data;
    b.gamma = (const float *)call->in[2].data;
    b.mean = (const float *)call->in[3].data;
    b.inv = (const float *)call->in[4].data;
    b.dx = (float *)call->out[0].data;
    b.dgamma = (float *)call->out[1].data;
    b.dbeta = (float *)call->out[2].data;
    return b;
}

/* The sums of b, dgamma and dbeta. */
static int sum_back(const struct tide_op_call *call, enum tide_cuda_columns kind, struct back *b) {
    struct tide_cuda_queue *queue = tide_cuda_queue_of(call);
    double *sums = NULL;
    int code = tide_cuda_sum_columns(queue, kind, b->rows, b->c, b->g, b->x, b->mean, b->inv,
                                     call->scratch, &sums);
    b->sums = sums;
    return code == 0 && b->c > 0 ? GPU_EACH(gradient_kernel, gpu_blocks(b->c), queue, *b) : code;
}

int tide_cuda_batchnorm_dx(const struct tide_op_call *call) {
    struct back b = back_of(call);
    int code = sum_back(call, TIDE_CUDA_NORMED, &b);
    return code == 0 ? GPU_EACH_ROW(batch_back_kernel, b.rows, tide_cuda_queue_of(call), b) : code;
}

/* ---- per row ---- */

struct layer {
    size_t rows, c;
    const float *x, *gamma, *beta;
    float *y, *mean, *inv;
    double eps;
};

template <int WIDTH> static __global__ void layer_kernel(const struct layer l) {
    GPU_SHARED(double, shared, GPU_GROUPS);
    const size_t row = gpu_row<WIDTH>(), lane = gpu_lane<WIDTH>();
    const bool own = row < l.rows;
    const float *x = l.x + (own ? row * l.c : 0);
    double sum = 0, squares = 0;
    for (size_t j = lane; own && j < l.c; j += WIDTH) {
        sum += (double)x[j];
    }
    const float mean = (float)(gpu_sum<WIDTH>(sum, shared) / (double)l.c);
    for (size_t j = lane; own && j < l.c; j += WIDTH) {
        const double d = (double)(x[j] - mean);
        squares += d * d;
    }
    squares = gpu_sum<WIDTH>(squares, shared);
    const float inv = (float)(1 / sqrt(squares / (double)l.c + l.eps));
    if (own && lane == 0) {
        l.mean[row] = mean;
        l.inv[row] = inv;
    }
    for (size_t j = lane; own && j < l.c; j += WIDTH) {
        l.y[row * l.c + j] = (x[j] - mean) * inv * l.gamma[j] + l.beta[j];
    }
}

int tide_cuda_layernorm(const struct tide_op_call *call) {
    struct layer l = {};
    l.rows = call->in[0].rows;
    l.c = call->in[0].columns;
    l.x = (const float *)call->in[0].data;
    l.gamma = (const float *)call->in[1].data;
    l.beta = (const float *)call->in[2].data;
    l.y = (float *)call->out[0].data;
    l.mean = (float *)call->out[1].data;
    l.inv = (float *)call->out[2].data;
    l.eps = call->attributes->eps;
    return GPU_ROWS(layer_kernel, l.rows, l.c, tide_cuda_queue_of(call), l);
}

template <int WIDTH> static __global__ void layer_back_kernel(const struct back b) {
    GPU_SHARED(double, shared, GPU_GROUPS);
    const size_t row = gpu_row<WIDTH>(), lane = gpu_lane<WIDTH>();
    const bool own = row < b.rows;
    const size_t at = own ? row * b.c : 0;
    const float mean = own ? b.mean[row] : 0.0f, inv = own ? b.inv[row] : 0.0f;
    double first = 0, second = 0;
    for (size_t j = lane; own && j < b.c; j += WIDTH) {
        const float scaled = b.g[at + j] * b.gamma[j];
        first += (double)scaled;
        second += (double)(scaled * ((b.x[at + j] - mean) * inv));
    }
    const float one = (float)(gpu_sum<WIDTH>(first, shared) / (double)b.c);
    const float two = (float)(gpu_sum<WIDTH>(second, shared) / (double)b.c);
    for (size_t j = lane; own && j < b.c; j += WIDTH) {
        b.dx[at + j] = inv * (b.g[at + j] * b.gamma[j] - one - (b.x[at + j] - mean) * inv * two);
    }
}

int tide_cuda_layernorm_dx(const struct tide_op_call *call) {
    struct back b = back_of(call);
    int code = sum_back(call, TIDE_CUDA_NORMED_ROWS, &b);
    return code == 0 ? GPU_ROWS(layer_back_kernel, b.rows, b.c, tide_cuda_queue_of(call), b) : code;
}
