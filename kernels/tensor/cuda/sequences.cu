/* Operations on sequences and axes beside attention: a thread an element, or a row where an order counts. */
#include "tensor/cuda/gpu.h"
#include "tensor/own.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- rotary embeddings ---- */

struct rotary_call {
    size_t pairs, half; /* of the operand; of a block */
    size_t columns, n;
    double rate;
    bool adjacent, back;
    const int32_t *positions;
    const float *x;
    float *y;
};

static __global__ void rotary_kernel(const struct rotary_call r) {
    for (size_t e = gpu_thread(); e < r.pairs; e += gpu_stride()) {
        const size_t row = e / (r.columns / 2), in_row = e % (r.columns / 2), j = in_row % r.half;
        const size_t block = row * r.columns + in_row / r.half * 2 * r.half;
        const size_t a = block + (r.adjacent ? 2 * j : j), b = a + (r.adjacent ? 1 : r.half);
        const double position = r.positions ? (double)r.positions[row] : (double)(row % r.n);
        const double angle = position * pow(r.rate, -(double)j / (double)r.half);
        const float cosine = (float)cos(angle), sine = (float)(r.back ? -sin(angle) : sin(angle));
        const float u = r.x[a], v = r.x[b];
        r.y[a] = u * cosine - v * sine;
        r.y[b] = u * sine + v * cosine;
    }
}

int tide_cuda_rotary(const struct tide_op_call *call) {
    const struct tide_attributes *t = call->attributes;
    struct rotary_call r = {};
    r.pairs = call->in[0].rows * call->in[0].columns / 2;
    r.half = t->k / 2;
    r.columns = call->in[0].columns;
    r.n = t->n;
    r.rate = t->rate;
    r.adjacent = t->tb;
    r.back = t->ta;
    r.positions = (const int32_t *)call->in[1].data;
    r.x = (const float *)call->in[0].data;
    r.y = (float *)call->out[0].data;
    return r.pairs == 0 ? 0 : GPU_EACH(rotary_kernel, gpu_blocks(r.pairs), tide_cuda_queue_of(call), r);
}

/* ---- rows ---- */

__device__ static inline bool before(float x, size_t i, float y, size_t j) {
    if (isnan(x) || isnan(y)) {
        return isnan(x) && (!isnan(y) || i < j);
    }
    return x > y || (x >= y && i < j);
}

static __global__ void topk_kernel(size_t rows, size_t c, size_t k, const float *from, float *to, int32_t *to_ids) {
    for (size_t r = gpu_thread(); r < rows; r += gpu_stride()) {
        const float *x = from + r * c;
        float *y = to + r * k;
        int32_t *ids = to_ids + r * k;
        size_t held = 0;
        for (size_t j = 0; j < c; j++) { /* insertion among the k best so far */
            size_t at = held;
            while (at > 0 && before(x[j], j, y[at - 1], (size_t)ids[at - 1])) {
                at--;
            }
            if (at < k) {
                held += held < k ? 1 : 0;
                for (size_t i = held - 1; i > at; i--) {
                    y[i] = y[i - 1];
                    ids[i] = ids[i - 1];
                }
                y[at] = x[j];
                ids[at] = (int32_t)j;
            }
        }
    }
}

int tide_cuda_topk(const struct tide_op_call *call) {
    const size_t rows = call->in[0].rows;
    return rows == 0 ? 0
                     : GPU_EACH(topk_kernel, gpu_blocks(rows), tide_cuda_queue_of(call), rows, call->in[0].columns,
                                call->out[0].columns, (const float *)call->in[0].data, (float *)call->out[0].data,
                                (int32_t *)call->out[1].data);
}

static __global__ void one_hot_kernel(size_t n, size_t k, const int32_t *ids, float *out) {
    for (size_t e = gpu_thread(); e < n * k; e += gpu_stride()) {
        out[e] = ids[e / k] >= 0 && (size_t)ids[e / k] == e % k ? 1.0f : 0.0f;
    }
}

int tide_cuda_one_hot(const struct tide_op_call *call) {
    struct tide_cuda_queue *queue = tide_cuda_queue_of(call);
    const size_t n = call->in[0].rows * call->in[0].columns, k = call->attributes->count;
    const int32_t *ids = (const int32_t *)call->in[0].data;
    int code = tide_cuda_check_ids(queue, TIDE_CUDA_ID, ids, n, k);
    return code == 0 && n > 0
               ? GPU_EACH(one_hot_kernel, gpu_blocks(n * k), queue, n, k, ids, (float *)call->out[0].data)
               : code;
}

/* ---- axes ---- */

struct axis_call {
    size_t count; /* of threads' elements */
    size_t n, k;
    bool back;
    const float *x;
    float *y;
};

/* A thread a line along the axis. */
static __global__ void cumsum_kernel(const struct axis_call a) {
    for (size_t e = gpu_thread(); e < a.count; e += gpu_stride()) {
        const size_t first = e / a.k * a.n * a.k + e % a.k;
        double sum = 0;
        for (size_t i = 0; i < a.n; i++) {
            const size_t at = first + (a.back ? a.n - 1 - i : i) * a.k;
            sum += (double)a.x[at];
            a.y[at] = (float)sum;
        }
    }
}

static __global__ void expand_kernel(const struct axis_call a) {
    for (size_t e = gpu_thread(); e < a.count; e += gpu_stride()) {
        a.y[e] = a.x[e / (a.n * a.k) * a.k + e % a.k];
    }
}

static __global__ void reduce_kernel(const struct axis_call a) {
    for (size_t e = gpu_thread(); e < a.count; e += gpu_stride()) {
        double sum = 0;
        for (size_t i = 0; i < a.n; i++) {
            sum += (double)a.x[(e / a.k * a.n + i) * a.k + e % a.k];
        }
        a.y[e] = (float)sum;
    }
}

static struct axis_call axis_of(const struct tide_op_call *call, size_t count) {
    struct axis_call a = {};
    a.count = count;
    a.n = call->attributes->n;
    a.k = call->attributes->k;
    a.back = call->attributes->ta;
    a.x = (const float *)call->in[0].data;
    a.y = (float *)call->out[0].data;
    return a;
}

#define AXIS(name, threads)                                                                        \
    int tide_cuda_##name(const struct tide_op_call *call) {                                        \
        const struct axis_call a = axis_of(call, threads);                                         \
        return a.count == 0 ? 0                                                                    \
                            : GPU_EACH(name##_kernel, gpu_blocks(a.count), tide_cuda_queue_of(call), a); \
    }
AXIS(cumsum, call->in[0].rows *call->in[0].columns / call->attributes->n)
AXIS(expand, call->out[0].rows *call->out[0].columns)
AXIS(reduce, call->out[0].rows *call->out[0].columns)

struct permute_call {
    size_t count, one, c, w, step[3];
    const float *x;
    float *y;
};

static __global__ void permute_kernel(const struct permute_call p) {
    for (size_t e = gpu_thread(); e < p.count; e += gpu_stride()) {
        const size_t i = e % p.one;
        p.y[e] = p.x[e - i + i / (p.c * p.w) * p.step[0] + i / p.c % p.w * p.step[1] + i % p.c * p.step[2]];
    }
}

int tide_cuda_permute(const struct tide_op_call *call) {
    const struct tide_attributes *t = call->attributes;
    const size_t from[3] = {t->window.h, t->window.w, t->window.c}, step[3] = {from[1] * from[2], from[2], 1};
    struct permute_call p = {};
    p.count = call->out[0].rows * call->out[0].columns;
    p.one = from[0] * from[1] * from[2];
    p.w = from[t->n >> 2 & 3];
    p.c = from[t->n >> 4 & 3];
    for (int i = 0; i < 3; i++) {
        p.step[i] = step[t->n >> (2 * i) & 3];
    }
    p.x = (const float *)call->in[0].data;
    p.y = (float *)call->out[0].data;
    return p.count == 0 ? 0 : GPU_EACH(permute_kernel, gpu_blocks(p.count), tide_cuda_queue_of(call), p);
}

/* ---- operations of a module ---- */

static int run_own(const struct tide_op_call *call, struct tide_cuda_queue *queue, bool backward, void *stream) {
    char error[TIDE_KERNEL_ERROR_BYTES];
    const int code = tide_own_run(call, sizeof(float), backward, stream, error);
    if (code != 0 && !queue->reason[0]) {
        snprintf(queue->reason, sizeof(queue->reason), "%s of %s: %.120s", backward ? "backward" : "forward",
                 call->attributes->own->name, error);
    }
    return code == 0 ? 0 : TIDE_ECANCELED;
}

static size_t bytes_of(const struct tide_operand *o) {
    return o->rows * o->columns * sizeof(float); /* an index has as many */
}

/* Operands come to the host when all that was queued before is done, and results go back. */
static int by_way_of_the_host(const struct tide_op_call *call, bool backward) {
    struct tide_op_call host = *call;
    int code = 0;
    for (size_t i = 0; i < TIDE_OP_INPUTS; i++) {
        if (call->in[i].data) {
            host.in[i].data = malloc(bytes_of(&call->in[i]) + 1);
            code = !host.in[i].data ? TIDE_ENOMEM
                   : code == 0      ? tide_cuda_memory.download(call->queue, host.in[i].data, call->in[i].data,
                                                                bytes_of(&call->in[i]))
                                    : code;
        }
    }
    for (size_t o = 0; o < TIDE_OP_OUTPUTS; o++) {
        if (call->out[o].data) {
            host.out[o].data = malloc(bytes_of(&call->out[o]) + 1);
            code = host.out[o].data ? code : TIDE_ENOMEM;
        }
    }
    char text[256] = "";
    const int finished = tide_cuda_memory.finish(call->queue, text, sizeof(text));
    code = code == 0 ? finished : code;
    code = code == 0 ? run_own(&host, tide_cuda_queue_of(call), backward, NULL) : code;
    for (size_t o = 0; o < TIDE_OP_OUTPUTS; o++) {
        if (code == 0 && call->out[o].data) {
            code = tide_cuda_memory.upload(NULL, call->out[o].data, host.out[o].data, bytes_of(&call->out[o]));
        }
        free(call->out[o].data ? host.out[o].data : NULL);
    }
    for (size_t i = 0; i < TIDE_OP_INPUTS; i++) {
        free(call->in[i].data ? host.in[i].data : NULL);
    }
    return code;
}

int tide_cuda_own(const struct tide_op_call *call) {
    return call->attributes->own->cuda_forward
               ? run_own(call, tide_cuda_queue_of(call), false, (void *)tide_cuda_queue_of(call)->work)
               : by_way_of_the_host(call, false);
}

int tide_cuda_own_dx(const struct tide_op_call *call) {
    return call->attributes->own->cuda_backward
               ? run_own(call, tide_cuda_queue_of(call), true, (void *)tide_cuda_queue_of(call)->work)
               : by_way_of_the_host(call, true);
}
