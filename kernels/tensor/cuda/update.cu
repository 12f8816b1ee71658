/* Update rules (operation.h has the formulas) and the norm. One pass over the arrays; a thread
 * takes WIDTH elements, so that more loads are in flight. */
#include "tensor/cuda/gpu.h"

#include <pthread.h>

enum { WIDTH = 4, NORM_BLOCKS = 512 };

struct rule_call {
    size_t n;
    float *w;
    const float *g;
    float *a, *b;
    enum tide_rule rule;
    float rate, scale, decay, mu, beta2, eps;
    float keep, share, share2; /* of w; of a: 1 - mu or 1; of b: 1 - beta2 */
    float root;                /* adam: 1 / sqrt(1 - beta2^t) */
};

template <int RULE> __device__ static inline void apply(const struct rule_call *u, size_t i) {
    const float w = u->w[i];
    const float d = RULE == TIDE_RULE_SGD ? u->g[i] : u->scale * u->g[i] + u->decay * w;
    if (RULE == TIDE_RULE_SGD) {
        u->w[i] = u->keep * w - u->rate * d;
    } else if (RULE == TIDE_RULE_MOMENTUM || RULE == TIDE_RULE_NESTEROV) {
        const float v = u->mu * u->a[i] + d;
        u->a[i] = v;
        u->w[i] = w - u->rate * (RULE == TIDE_RULE_NESTEROV ? d + u->mu * v : v);
    } else if (RULE == TIDE_RULE_ADAGRAD || RULE == TIDE_RULE_RMSPROP) {
        const float s = (RULE == TIDE_RULE_ADAGRAD ? 1.0f : u->mu) * u->a[i] + u->share * (d * d);
        u->a[i] = s;
        u->w[i] = w - u->rate * d / (sqrtf(s) + u->eps);
    } else {
        const float m = u->mu * u->a[i] + u->share * d,
                    v = u->beta2 * u->b[i] + u->share2 * (d * d);
        u->a[i] = m;
        u->b[i] = v;
        u->w[i] = u->keep * w - u->rate * m / (sqrtf(v) * u->root + u->eps);
    }
}

template <int RULE> static __global__ void update_kernel(const struct rule_call u) {
    const size_t piece = (size_t)WIDTH * GPU_THREADS;
    for (size_t at = blockIdx.x * piece; at < u.n; at += gridDim.x * piece) {
        for (size_t k = 0; k < WIDTH; k++) {
            const size_t i = at + k * GPU_THREADS + threadIdx.x;
            if (i < u.n) {
                apply<RULE>(&u, i);
            }
        }
    }
}

static struct rule_call prepare(const struct tide_step *u) {
    const double t = (double)u->step;
    const bool adam = u->rule == TIDE_RULE_ADAM || u->rule == TIDE_RULE_ADAMW;
    struct rule_call r = {};
    r.rule = u->rule;
    r.rate = (float)u->rate;
    r.scale = (float)u->scale;
    r.decay = u->rule == TIDE_RULE_ADAMW ? 0.0f : (float)u->decay;
    r.mu = (float)u->mu;
    r.beta2 = (float)u->beta2;
    r.eps = (float)u->eps;
    r.keep = u->rule == TIDE_RULE_ADAM ? 1.0f : (float)(1 - u->rate * u->decay);
    r.share = u->rule == TIDE_RULE_ADAGRAD ? 1.0f : (float)(1 - u->mu);
    r.share2 = (float)(1 - u->beta2);
    if (u->rule == TIDE_RULE_SGD) {
        r.rate = (float)(u->rate * u->scale);
    }
    if (adam) {
        r.rate = (float)(u->rate / (1 - pow(u->mu, t)));
        r.root = (float)(1 / sqrt(1 - pow(u->beta2, t)));
    }
    return r;
}

#define RULE(rule)                                                                                 \
    case rule:                                                                                     \
        code = GPU_EACH(update_kernel<rule>, blocks, queue, r);                                    \
        break
void tide_cuda_update(const struct tide_step *u, size_t n, void *w, const void *g, void *a,
                      void *b) {
    struct tide_cuda_queue *queue = tide_cuda_default_queue();
    struct rule_call r = prepare(u);
    r.n = n;
    r.w = (float *)w;
    r.g = (const float *)g;
    r.a = (float *)a;
    r.b = (float *)b;
    if (n == 0) {
        return;
    }
    const unsigned blocks = gpu_blocks((n + WIDTH - 1) / WIDTH);
    int code = 0;
    switch (u->rule) {
        RULE(TIDE_RULE_SGD);
        RULE(TIDE_RULE_MOMENTUM);
        RULE(TIDE_RULE_NESTEROV);
        RULE(TIDE_RULE_ADAGRAD);
        RULE(TIDE_RULE_RMSPROP);
        RULE(TIDE_RULE_ADAM);
        RULE(TIDE_RULE_ADAMW);
    default:
        break;
    }
    if (code != 0) {
        tide_cuda_not_updated();
    }
}

/* ---- the norm ---- */

static __global__ void square_kernel(size_t n, const float *x, double *parts) {
    GPU_SHARED(double, shared, GPU_GROUPS);
    double sum = 0;
    for (size_t i = gpu_thread(); i < n; i += gpu_stride()) {
        sum += (double)x[i] * (double)x[i];
    }
    sum = gpu_sum<GPU_THREADS>(sum, shared);
    if (threadIdx.x == 0) {
        parts[blockIdx.x] = sum;
    }
}

static __global__ void total_kernel(size_t n, double *parts) {
    GPU_SHARED(double, shared, GPU_GROUPS);
    double sum = 0;
    for (size_t i = threadIdx.x; i < n; i += GPU_THREADS) {
        sum += parts[i];
    }
    sum = gpu_sum<GPU_THREADS>(sum, shared);
    if (threadIdx.x == 0) {
        parts[0] = sum;
    }
}

double tide_cuda_norm2(size_t n, const void *x) {
    static pthread_mutex_t lock =
        PTHREAD_MUTEX_INITIALIZER; /* one at a time: the parts are shared */
    static double *parts;
    struct tide_cuda_queue *queue = tide_cuda_default_queue();
    double sum = (double)NAN;
    if (n == 0) {
        return 0;
    }
    const unsigned all = gpu_blocks(n), blocks = all < NORM_BLOCKS ? all : (unsigned)NORM_BLOCKS;
    pthread_mutex_lock(&lock);
    if (!parts) {
        parts = (double *)tide_cuda_memory.allocate(NORM_BLOCKS * sizeof(double));
    }
    if (parts && GPU_BLOCKS(square_kernel, blocks, queue, n, (const float *)x, parts) == 0 &&
        GPU_BLOCKS(total_kernel, 1, queue, (size_t)blocks, parts) == 0) {
        tide_cuda_memory.download(NULL, &sum, parts, sizeof(sum)); /* else it stays NaN */
    }
    pthread_mutex_unlock(&lock);
    return sum;
}
