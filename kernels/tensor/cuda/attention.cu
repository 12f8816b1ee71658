/*
 * Attention in tiles, as on the CPU (cpu/isa/attention.c). A block has ROWS queries (backward by keys and values: keys) in
 * shared memory and goes through the others KEYS at a time; LANES threads share a row, each with some of its columns.
 * Nothing is added with atomics: keys and values have a kernel of their own, which computes the scores again.
 */
#include "tensor/cuda/gpu.h"

enum { ROWS = 16, KEYS = 16, LANES = GPU_THREADS / ROWS, WIDEST = 128, COLUMNS = WIDEST / LANES };

struct rows_of {
    float *data;
    size_t stride;
};

struct attention_call {
    struct rows_of q, k, v, g, o, dq, dk, dv;
    const int32_t *lengths;
    float *log_sum, *inner; /* a number a query and head; inner: sum(g o) */
    uint32_t n, m, heads, kv_heads, d;
    int64_t ahead; /* query i sees keys up to i + ahead */
    float alpha;
};

/* A tile of rows first .. of a head, in shared memory; behind the last 0. */
__device__ static inline void load(const struct attention_call *a, struct rows_of x, size_t row, uint32_t first,
                                   uint32_t end, uint32_t head, float *tile) {
    for (uint32_t e = threadIdx.x; e < ROWS * a->d; e += GPU_THREADS) {
        const uint32_t r = first + e / a->d, c = e % a->d;
        tile[e / a->d * WIDEST + c] = r < end ? x.data[(row + r) * x.stride + head * a->d + c] : 0.0f;
    }
}

__device__ static inline float dot(uint32_t d, const float *x, const float *y) {
    float sum = 0;
    for (uint32_t c = 0; c < d; c++) {
        sum += x[c] * y[c];
    }
    return sum;
}

__device__ static inline uint32_t length_of(const struct attention_call *a, uint32_t b) {
    const int32_t given = a->lengths ? a->lengths[b] : (int32_t)a->m;
    return given < 0 ? 0 : (uint32_t)given < a->m ? (uint32_t)given : a->m; /* others are noted elsewhere */
}

/* How many keys query i sees. */
__device__ static inline uint32_t visible(const struct attention_call *a, uint32_t i, uint32_t length) {
    const int64_t end = (int64_t)i + a->ahead + 1;
    return end < 0 ? 0 : end < (int64_t)length ? (uint32_t)end : length;
}

__device__ static inline uint32_t last_of(uint32_t first, uint32_t end) {
    return first + ROWS < end ? first + ROWS - 1 : end - 1;
}

/* A block's queries, and the one of its ROWS that this thread works on. */
struct query_tile {
    uint32_t first, head, kv_head, example, row, lane;
    uint32_t limit, seen; /* keys that one of the tile sees; that this query sees */
};

__device__ static inline struct query_tile query_tile(const struct attention_call *a) {
    const uint32_t tiles = (a->n + ROWS - 1) / ROWS;
    struct query_tile t;
    t.first = blockIdx.x % tiles * ROWS;
    t.head = blockIdx.x / tiles % a->heads;
    t.kv_head = t.head / (a->heads / a->kv_heads);
    t.example = blockIdx.x / tiles / a->heads;
    t.row = threadIdx.x / LANES;
    t.lane = threadIdx.x % LANES;
    const uint32_t length = length_of(a, t.example);
    t.limit = visible(a, last_of(t.first, a->n), length);
    t.seen = t.first + t.row < a->n ? visible(a, t.first + t.row, length) : 0;
    return t;
}

static __global__ void forward_kernel(const struct attention_call a) {
    GPU_SHARED(float, q, ROWS * WIDEST);
    GPU_SHARED(float, k, KEYS * WIDEST);
    GPU_SHARED(float, v, KEYS * WIDEST);
    GPU_SHARED(float, s, ROWS * KEYS);
    const struct query_tile t = query_tile(&a);
    const uint32_t r = t.row, lane = t.lane;
    float most = -INFINITY, sum = 0, out[COLUMNS] = {0};
    load(&a, a.q, (size_t)t.example * a.n, t.first, a.n, t.head, q);
    for (uint32_t j = 0; j < t.limit; j += KEYS) {
        load(&a, a.k, (size_t)t.example * a.m, j, t.limit, t.kv_head, k);
        load(&a, a.v, (size_t)t.example * a.m, j, t.limit, t.kv_head, v);
        __syncthreads();
        s[r * KEYS + lane] =
            j + lane < t.seen ? a.alpha * dot(a.d, q + r * WIDEST, k + lane * WIDEST) : -INFINITY;
        __syncthreads();
        float now = most;
        for (uint32_t i = 0; i < KEYS; i++) {
            now = fmaxf(now, s[r * KEYS + i]);
        }
        const float base = now > -INFINITY ? now : 0.0f, fade = most > -INFINITY ? expf(most - base) : 0.0f;
        sum *= fade;
        for (uint32_t c = 0; c < COLUMNS; c++) {
            out[c] *= fade;
        }
        for (uint32_t i = 0; i < KEYS && j + i < t.seen; i++) {
            const float p = expf(s[r * KEYS + i] - base);
            sum += p;
            for (uint32_t c = 0; c < COLUMNS && lane + c * LANES < a.d; c++) {
                out[c] += p * v[i * WIDEST + lane + c * LANES];
            }
        }
        most = now;
        __syncthreads();
    }
    if (t.first + r < a.n) {
        const size_t row = (size_t)t.example * a.n + t.first + r;
        for (uint32_t c = 0; c < COLUMNS && lane + c * LANES < a.d; c++) {
            a.o.data[row * a.o.stride + t.head * a.d + lane + c * LANES] = t.seen > 0 ? out[c] / sum : 0.0f;
        }
        if (lane == 0) {
            a.log_sum[row * a.heads + t.head] = t.seen > 0 ? most + logf(sum) : -INFINITY;
        }
    }
}

static __global__ void inner_kernel(size_t count, const struct attention_call a) {
    for (size_t e = gpu_thread(); e < count; e += gpu_stride()) {
        const size_t row = e / a.heads, at = e % a.heads * a.d;
        a.inner[e] = dot(a.d, a.g.data + row * a.g.stride + at, a.o.data + row * a.o.stride + at);
    }
}

/* What query i gives and takes at a key: its share, and the gradient of its score. */
__device__ static inline float share(const struct attention_call *a, size_t query, const float *q, const float *k,
                                     const float *g, const float *v, float *slope) {
    const float p = expf(a->alpha * dot(a->d, q, k) - a->log_sum[query]);
    *slope = p * (dot(a->d, g, v) - a->inner[query]) * a->alpha;
    return p;
}

static __global__ void by_query_kernel(const struct attention_call a) {
    GPU_SHARED(float, q, ROWS * WIDEST);
    GPU_SHARED(float, g, ROWS * WIDEST);
    GPU_SHARED(float, k, KEYS * WIDEST);
    GPU_SHARED(float, v, KEYS * WIDEST);
    GPU_SHARED(float, ds, ROWS * KEYS);
    const struct query_tile t = query_tile(&a);
    const uint32_t r = t.row, lane = t.lane;
    const size_t row = (size_t)t.example * a.n + t.first + r;
    float out[COLUMNS] = {0};
    load(&a, a.q, (size_t)t.example * a.n, t.first, a.n, t.head, q);
    load(&a, a.g, (size_t)t.example * a.n, t.first, a.n, t.head, g);
    for (uint32_t j = 0; j < t.limit; j += KEYS) {
        load(&a, a.k, (size_t)t.example * a.m, j, t.limit, t.kv_head, k);
        load(&a, a.v, (size_t)t.example * a.m, j, t.limit, t.kv_head, v);
        __syncthreads();
        float slope = 0;
        if (j + lane < t.seen) {
            (void)share(&a, row * a.heads + t.head, q + r * WIDEST, k + lane * WIDEST, g + r * WIDEST,
                        v + lane * WIDEST, &slope);
        }
        ds[r * KEYS + lane] = slope;
        __syncthreads();
        for (uint32_t i = 0; i < KEYS && j + i < t.seen; i++) {
            for (uint32_t c = 0; c < COLUMNS && lane + c * LANES < a.d; c++) {
                out[c] += ds[r * KEYS + i] * k[i * WIDEST + lane + c * LANES];
            }
        }
        __syncthreads();
    }
    for (uint32_t c = 0; t.first + r < a.n && c < COLUMNS && lane + c * LANES < a.d; c++) {
        a.dq.data[row * a.dq.stride + t.head * a.d + lane + c * LANES] = out[c];
    }
}

/* ROWS keys; a thread has a key, and of each tile one query's score with it. */
static __global__ void by_key_kernel(const struct attention_call a) {
    GPU_SHARED(float, q, KEYS * WIDEST);
    GPU_SHARED(float, g, KEYS * WIDEST);
    GPU_SHARED(float, k, ROWS * WIDEST);
    GPU_SHARED(float, v, ROWS * WIDEST);
    GPU_SHARED(float, p, ROWS * KEYS);
    GPU_SHARED(float, ds, ROWS * KEYS);
    const uint32_t tiles = (a.m + ROWS - 1) / ROWS, first = blockIdx.x % tiles * ROWS;
    const uint32_t kv = blockIdx.x / tiles % a.kv_heads, b = blockIdx.x / tiles / a.kv_heads;
    const uint32_t r = threadIdx.x / LANES, lane = threadIdx.x % LANES, length = length_of(&a, b);
    const uint32_t group = a.heads / a.kv_heads;
    float by_k[COLUMNS] = {0}, by_v[COLUMNS] = {0};
    load(&a, a.k, (size_t)b * a.m, first, length, kv, k);
    load(&a, a.v, (size_t)b * a.m, first, length, kv, v);
    for (uint32_t head = kv * group; head < (kv + 1) * group; head++) {
        for (uint32_t i = 0; i < a.n; i += KEYS) {
            load(&a, a.q, (size_t)b * a.n, i, a.n, head, q);
            load(&a, a.g, (size_t)b * a.n, i, a.n, head, g);
            __syncthreads();
            const size_t query = ((size_t)b * a.n + i + lane) * a.heads + head;
            float slope = 0, own = 0;
            if (i + lane < a.n && first + r < visible(&a, i + lane, length)) {
                own = share(&a, query, q + lane * WIDEST, k + r * WIDEST, g + lane * WIDEST, v + r * WIDEST, &slope);
            }
            p[r * KEYS + lane] = own;
            ds[r * KEYS + lane] = slope;
            __syncthreads();
            for (uint32_t e = 0; e < KEYS && i + e < a.n; e++) {
                for (uint32_t c = 0; c < COLUMNS && lane + c * LANES < a.d; c++) {
                    by_v[c] += p[r * KEYS + e] * g[e * WIDEST + lane + c * LANES];
                    by_k[c] += ds[r * KEYS + e] * q[e * WIDEST + lane + c * LANES];
                }
            }
            __syncthreads();
        }
    }
    const size_t row = (size_t)b * a.m + first + r;
    for (uint32_t c = 0; first + r < a.m && c < COLUMNS && lane + c * LANES < a.d; c++) {
        a.dk.data[row * a.dk.stride + kv * a.d + lane + c * LANES] = by_k[c];
        a.dv.data[row * a.dv.stride + kv * a.d + lane + c * LANES] = by_v[c];
    }
}

static struct rows_of rows_of(const struct tide_operand *x) {
    const struct rows_of rows = {(float *)x->data, tide_operand_stride(x)};
    return rows;
}

static size_t examples(const struct tide_op_call *call) {
    return call->attributes->n ? call->in[0].rows / call->attributes->n : 0;
}

static int attention_of(const struct tide_op_call *call, size_t lengths, struct attention_call *a) {
    const struct tide_attributes *t = call->attributes;
    *a = {};
    a->q = rows_of(&call->in[0]);
    a->k = rows_of(&call->in[1]);
    a->v = rows_of(&call->in[2]);
    a->n = t->n;
    a->m = t->m;
    a->heads = t->heads;
    a->kv_heads = t->kv_heads;
    a->d = (uint32_t)(call->in[0].columns / t->heads);
    a->ahead = t->causal ? (int64_t)t->m - t->n : (int64_t)1 << 40;
    a->alpha = (float)t->alpha;
    a->lengths = (const int32_t *)call->in[lengths].data;
    const size_t most = t->n > t->m ? t->n : t->m;
    if (a->d > WIDEST || examples(call) * t->heads * ((most + ROWS - 1) / ROWS) > INT_MAX) {
        return TIDE_EINVAL;
    }
    return a->lengths ? tide_cuda_check_ids(tide_cuda_queue_of(call), TIDE_CUDA_ID, a->lengths, examples(call),
                                            (size_t)t->m + 1)
                      : 0;
}

int tide_cuda_attention(const struct tide_op_call *call) {
    struct attention_call a;
    int code = attention_of(call, 3, &a);
    const unsigned blocks = (unsigned)(examples(call) * a.heads * ((a.n + ROWS - 1) / ROWS));
    a.o = rows_of(&call->out[0]);
    a.log_sum = (float *)call->out[1].data;
    return code == 0 && blocks > 0 ? GPU_BLOCKS(forward_kernel, blocks, tide_cuda_queue_of(call), a) : code;
}

size_t tide_cuda_attention_scratch(const struct tide_op_call *call) {
    return call->in[0].rows * call->attributes->heads * sizeof(float);
}

int tide_cuda_attention_dx(const struct tide_op_call *call) {
    struct tide_cuda_queue *queue = tide_cuda_queue_of(call);
    struct attention_call a;
    int code = attention_of(call, 6, &a);
    const size_t count = call->in[0].rows * a.heads;
    const unsigned queries = (unsigned)(examples(call) * a.heads * ((a.n + ROWS - 1) / ROWS));
    const unsigned keys = (unsigned)(examples(call) * a.kv_heads * ((a.m + ROWS - 1) / ROWS));
    a.g = rows_of(&call->in[3]);
    a.o = rows_of(&call->in[4]);
    a.log_sum = (float *)call->in[5].data;
    a.inner = (float *)call->scratch;
    a.dq = rows_of(&call->out[0]);
    a.dk = rows_of(&call->out[1]);
    a.dv = rows_of(&call->out[2]);
    if (code != 0 || count == 0) {
        return code;
    }
    code = GPU_EACH(inner_kernel, gpu_blocks(count), queue, count, a);
    code = code == 0 ? GPU_BLOCKS(by_query_kernel, queries, queue, a) : code;
    return code == 0 ? GPU_BLOCKS(by_key_kernel, keys, queue, a) : code;
}
