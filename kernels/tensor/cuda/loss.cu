/*
 * Softmax and losses. A group of threads, or for long rows a block, takes a row: maximum, sum of
 * exponentials, result. Losses are double: each row or piece leaves three numbers, which one block
 * adds up in their order.
 */
#include "tensor/cuda/gpu.h"
#include "tensor/ctc.h"
#include "tensor/linear_xent.h"

struct softmax_call {
    size_t rows, k;
    const float *z, *g;
    const int32_t *labels;
    const float *weights; /* NULL: 1 */
    double smoothing;
    float *out;
    double *parts; /* [rows, 3]: loss, counted, correct */
};

template <int WIDTH>
__device__ static inline float row_max(const float *z, size_t k, size_t lane, bool own,
                                       double *shared) {
    float most = -INFINITY;
    for (size_t j = lane; own && j < k; j += WIDTH) {
        most = fmaxf(most, z[j]);
    }
    return gpu_max<WIDTH>(most, shared);
}

/* The sum over a row of exp(z - most). */
template <int WIDTH>
__device__ static inline double row_total(const float *z, size_t k, size_t lane, bool own,
                                          float most, double *shared) {
    double total = 0;
    for (size_t j = lane; own && j < k; j += WIDTH) {
        total += (double)expf(z[j] - most);
    }
    return gpu_sum<WIDTH>(total, shared);
}

template <int WIDTH> static __global__ void softmax_kernel(const struct softmax_call s) {
    GPU_SHARED(double, shared, GPU_GROUPS);
    const size_t row = gpu_row<WIDTH>(), lane = gpu_lane<WIDTH>();
    const bool own = row < s.rows;
    const float *z = s.z + (own ? row * s.k : 0);
    const float most = row_max<WIDTH>(z, s.k, lane, own, shared);
    const double total = row_total<WIDTH>(z, s.k, lane, own, most, shared);
    const float scale = (float)(1 / total);
    for (size_t j = lane; own && j < s.k; j += WIDTH) {
        s.out[row * s.k + j] = expf(z[j] - most) * scale;
    }
}

template <int WIDTH> static __global__ void log_softmax_kernel(const struct softmax_call s) {
    GPU_SHARED(double, shared, GPU_GROUPS);
    const size_t row = gpu_row<WIDTH>(), lane = gpu_lane<WIDTH>();
    const bool own = row < s.rows;
    const float *z = s.z + (own ? row * s.k : 0);
    const float most = row_max<WIDTH>(z, s.k, lane, own, shared);
    const float rest = (float)log(row_total<WIDTH>(z, s.k, lane, own, most, shared));
    for (size_t j = lane; own && j < s.k; j += WIDTH) {
        s.out[row * s.k + j] = (z[j] - most) - rest;
    }
}

/* dx = y (g - sum(g y)) */
template <int WIDTH> static __global__ void softmax_back_kernel(const struct softmax_call s) {
    GPU_SHARED(double, shared, GPU_GROUPS);
    const size_t row = gpu_row<WIDTH>(), lane = gpu_lane<WIDTH>();
    const bool own = row < s.rows;
    const size_t at = own ? row * s.k : 0;
    double sum = 0;
    for (size_t j = lane; own && j < s.k; j += WIDTH) {
        sum += (double)(s.g[at + j] * s.z[at + j]);
    }
    const float inner = (float)gpu_sum<WIDTH>(sum, shared);
    for (size_t j = lane; own && j < s.k; j += WIDTH) {
        s.out[at + j] = s.z[at + j] * (s.g[at + j] - inner);
    }
}

/* out may be z: all of the row that others read is read before it is written. */
template <int WIDTH> static __global__ void xent_kernel(const struct softmax_call s) {
    GPU_SHARED(double, shared, GPU_GROUPS);
    const size_t row = gpu_row<WIDTH>(), lane = gpu_lane<WIDTH>();
    const bool own = row < s.rows;
    const float *z = s.z + (own ? row * s.k : 0);
    int32_t label = own ? s.labels[row] : -1;
    const float weight = own && s.weights ? s.weights[row] : 1.0f;
    if (label < 0 || (size_t)label >= s.k || weight == 0.0f) { /* too large: noted elsewhere */
        label = -1;
    }
    const float most = row_max<WIDTH>(z, s.k, lane, own, shared);
    const double total = row_total<WIDTH>(z, s.k, lane, own, most, shared);
    double chosen = label < 0 ? 0 : (double)z[label];
    const bool wins = chosen >= (double)most;
    double earlier = 0; /* places before the label that are as large */
    for (size_t j = lane; label >= 0 && j < (size_t)label; j += WIDTH) {
        earlier += z[j] >= most ? 1 : 0;
    }
    earlier = gpu_sum<WIDTH>(earlier, shared);
    if (s.smoothing > 0) { /* of all rows alike */
        double mean = 0;
        for (size_t j = lane; own && j < s.k; j += WIDTH) {
            mean += (double)z[j];
        }
        mean = gpu_sum<WIDTH>(mean, shared) / (double)s.k;
        chosen = (1 - s.smoothing) * chosen + s.smoothing * mean;
    }
    if (own && lane == 0) {
        const bool counted = label >= 0;
        s.parts[3 * row] = counted ? (double)weight * (log(total) - (chosen - (double)most)) : 0;
        s.parts[3 * row + 1] = counted ? (double)weight : 0;
        s.parts[3 * row + 2] = counted && wins && earlier < 0.5 ? 1 : 0;
    }
    const float scale = (float)((double)weight / total);
    const float right = (float)((double)weight * (1 - s.smoothing));
    const float uniform = (float)((double)weight * s.smoothing / (double)s.k);
    gpu_together(); /* z[label] is read by all, and written below */
    for (size_t j = lane; own && j < s.k; j += WIDTH) {
        s.out[row * s.k + j] =
            label < 0 ? 0.0f
                      : expf(z[j] - most) * scale - uniform - (j == (size_t)label ? right : 0.0f);
    }
}

/* One block: [n, 3] -> [3] */
static __global__ void total_kernel(size_t n, const double *parts, double *loss) {
    GPU_SHARED(double, shared, GPU_GROUPS);
    for (size_t which = 0; which < 3; which++) {
        double sum = 0;
        for (size_t i = threadIdx.x; i < n; i += GPU_THREADS) {
            sum += parts[3 * i + which];
        }
        sum = gpu_sum<GPU_THREADS>(sum, shared);
        if (threadIdx.x == 0) {
            loss[which] = sum;
        }
    }
}

static struct softmax_call softmax_of(const struct tide_op_call *call) {
    struct softmax_call s = {};
    s.rows = call->in[0].rows;
    s.k = call->in[0].columns;
    s.z = (const float *)call->in[0].data;
    s.out = (float *)call->out[0].data;
    return s;
}

int tide_cuda_softmax(const struct tide_op_call *call) {
    const struct softmax_call s = softmax_of(call);
    return GPU_ROWS(softmax_kernel, s.rows, s.k, tide_cuda_queue_of(call), s);
}

int tide_cuda_log_softmax(const struct tide_op_call *call) {
    const struct softmax_call s = softmax_of(call);
    return GPU_ROWS(log_softmax_kernel, s.rows, s.k, tide_cuda_queue_of(call), s);
}

int tide_cuda_softmax_dx(const struct tide_op_call *call) {
    struct softmax_call s = softmax_of(call);
    s.g = s.z;
    s.z = (const float *)call->in[1].data;
    return GPU_ROWS(softmax_back_kernel, s.rows, s.k, tide_cuda_queue_of(call), s);
}

int tide_cuda_xent(const struct tide_op_call *call) {
    struct tide_cuda_queue *queue = tide_cuda_queue_of(call);
    struct softmax_call s = softmax_of(call);
    s.labels = (const int32_t *)call->in[1].data;
    s.weights = (const float *)call->in[2].data;
    s.smoothing = call->attributes->smoothing;
    s.out = (float *)call->out[1].data;
    s.parts = (double *)call->scratch;
    int code = tide_cuda_check_ids(queue, TIDE_CUDA_LABEL, s.labels, s.rows, s.k);
    if (code == 0) {
        code = GPU_ROWS(xent_kernel, s.rows, s.k, queue, s);
    }
    return code == 0
               ? GPU_BLOCKS(total_kernel, 1, queue, s.rows, s.parts, (double *)call->out[0].data)
               : code;
}

static int add_parts(const struct tide_op_call *call, size_t chunks, const double *parts) {
    return GPU_BLOCKS(total_kernel, 1, tide_cuda_queue_of(call), chunks, parts, (double *)call->out[0].data);
}

static size_t xent_scratch(enum tide_op_code code, const struct tide_op_call *call) {
    (void)code;
    return tide_cuda_loss_scratch(call);
}

static const struct tide_linear_xent linear_xent_kit = {sizeof(float), tide_cuda_mm, tide_cuda_xent, xent_scratch,
                                                        add_parts};

size_t tide_cuda_linear_xent_scratch(const struct tide_op_call *call) {
    return tide_linear_xent_scratch(call, &linear_xent_kit);
}

int tide_cuda_linear_xent(const struct tide_op_call *call) {
    return tide_linear_xent_run(call, &linear_xent_kit);
}

/* ---- CTC: a thread an example ---- */

TIDE_CTC(__device__ static inline, ctc_example, float)

struct ctc_call {
    size_t examples, n, k, most, scratch;
    const float *z;
    const int32_t *labels, *frames;
    float *dz;
    double *parts, *work;
};

static __global__ void ctc_kernel(const struct ctc_call c) {
    for (size_t b = gpu_thread(); b < c.examples; b += gpu_stride()) {
        const int32_t *labels = c.labels + b * c.most, given = c.frames ? c.frames[b] : (int32_t)c.n;
        const size_t own = given < 0 ? 0 : (size_t)given < c.n ? (size_t)given : c.n; /* others are noted elsewhere */
        size_t count = 0;
        while (count < c.most && labels[count] > 0 && (size_t)labels[count] < c.k) {
            count++;
        }
        float *dz = c.dz + b * c.n * c.k;
        const double one =
            ctc_example(own, c.k, labels, count, c.z + b * c.n * c.k, dz, c.work + b * c.scratch);
        for (size_t e = own * c.k; e < c.n * c.k; e++) {
            dz[e] = 0.0f;
        }
        c.parts[3 * b] = one < 0 ? 0 : one;
        c.parts[3 * b + 1] = one < 0 ? 0 : 1;
        c.parts[3 * b + 2] = 0;
    }
}

static size_t ctc_examples(const struct tide_op_call *call) {
    return call->attributes->n ? call->in[0].rows / call->attributes->n : 0;
}

size_t tide_cuda_ctc_scratch(const struct tide_op_call *call) {
    return ctc_examples(call) * (3 + tide_ctc_scratch(call->attributes->n, call->in[1].columns)) * sizeof(double);
}

int tide_cuda_ctc(const struct tide_op_call *call) {
    struct tide_cuda_queue *queue = tide_cuda_queue_of(call);
    struct ctc_call c = {};
    c.examples = ctc_examples(call);
    c.n = call->attributes->n;
    c.k = call->in[0].columns;
    c.most = call->in[1].columns;
    c.scratch = tide_ctc_scratch(c.n, c.most);
    c.z = (const float *)call->in[0].data;
    c.labels = (const int32_t *)call->in[1].data;
    c.frames = (const int32_t *)call->in[2].data;
    c.dz = (float *)call->out[1].data;
    c.parts = (double *)call->scratch;
    c.work = c.parts + 3 * c.examples;
    int code = tide_cuda_check_ids(queue, TIDE_CUDA_LABEL, c.labels, c.examples * c.most, c.k);
    code = code == 0 && c.frames ? tide_cuda_check_ids(queue, TIDE_CUDA_ID, c.frames, c.examples, c.n + 1) : code;
    code = code == 0 && c.examples > 0 ? GPU_EACH(ctc_kernel, gpu_blocks(c.examples), queue, c) : code;
    return code == 0 ? GPU_BLOCKS(total_kernel, 1, queue, c.examples, c.parts, (double *)call->out[0].data) : code;
}

/* ---- losses of elements ---- */

struct element_call {
    size_t n, rows;
    const float *z, *t;
    float *dz;
    double *parts; /* [blocks, 3] */
};

template <int CODE>
__device__ static inline double element(float a, const float *t, size_t i, float *slope) {
    const float b = CODE == TIDE_OP_SUM_LOSS ? 0.0f : t[i];
    if (CODE == TIDE_OP_SIGMOID_XENT) {
        const float e = expf(-fabsf(a));
        *slope = (a < 0.0f ? e : 1.0f) / (1.0f + e) - b;
        return (double)((a < 0.0f ? 0.0f : a) - a * b + log1pf(e));
    }
    if (CODE == TIDE_OP_MSE) {
        *slope = a - b;
        return (double)(0.5f * (a - b) * (a - b));
    }
    if (CODE == TIDE_OP_HINGE) {
        *slope = a * b < 1.0f ? -b : 0.0f;
        return (double)(1.0f - a * b < 0.0f ? 0.0f : 1.0f - a * b);
    }
    *slope = 1.0f;
    return (double)a;
}

template <int CODE> static __global__ void element_kernel(const struct element_call e) {
    GPU_SHARED(double, shared, GPU_GROUPS);
    double sum = 0;
    for (size_t i = gpu_thread(); i < e.n; i += gpu_stride()) {
        float slope;
        sum += element<CODE>(e.z[i], e.t, i, &slope);
        e.dz[i] = slope;
    }
    sum = gpu_sum<GPU_THREADS>(sum, shared);
    if (threadIdx.x == 0) {
        e.parts[3 * blockIdx.x] = sum;
        e.parts[3 * blockIdx.x + 1] = blockIdx.x == 0 ? (double)e.rows : 0;
        e.parts[3 * blockIdx.x + 2] = 0;
    }
}

static unsigned element_blocks(size_t n) {
    const unsigned blocks = gpu_blocks(n);
    return blocks > 2048 ? 2048 : blocks < 1 ? 1 : blocks;
}

template <int CODE> static int element_loss(const struct tide_op_call *call) {
    struct tide_cuda_queue *queue = tide_cuda_queue_of(call);
    struct element_call e = {};
    e.rows = call->in[0].rows;
    e.n = e.rows * call->in[0].columns;
    e.z = (const float *)call->in[0].data;
    e.t = (const float *)call->in[1].data;
    e.dz = (float *)call->out[1].data;
    e.parts = (double *)call->scratch;
    const unsigned blocks = element_blocks(e.n);
    int code = GPU_BLOCKS(element_kernel<CODE>, blocks, queue, e);
    return code == 0 ? GPU_BLOCKS(total_kernel, 1, queue, (size_t)blocks, e.parts,
                                  (double *)call->out[0].data)
                     : code;
}

int tide_cuda_sigmoid_xent(const struct tide_op_call *call) {
    return element_loss<TIDE_OP_SIGMOID_XENT>(call);
}

int tide_cuda_mse(const struct tide_op_call *call) {
    return element_loss<TIDE_OP_MSE>(call);
}

int tide_cuda_hinge(const struct tide_op_call *call) {
    return element_loss<TIDE_OP_HINGE>(call);
}

int tide_cuda_sum_loss(const struct tide_op_call *call) {
    return element_loss<TIDE_OP_SUM_LOSS>(call);
}

size_t tide_cuda_loss_scratch(const struct tide_op_call *call) {
    const size_t rows = call->in[0].rows, parts = element_blocks(rows * call->in[0].columns);
    return 3 * sizeof(double) * (rows > parts ? rows : parts);
}
