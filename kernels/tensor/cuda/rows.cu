/*
 * Reductions over rows and columns, rows by index, slices, dropout. Gradients of rows by index are
 * added in the order of the indices: the first place of each follows the chain of the others.
 */
#include "tensor/cuda/gpu.h"

/* ---- indices ---- */

/* One block: notes the first bad index, unless a failure is noted already. */
static __global__ void check_kernel(struct tide_cuda_fault *fault, uint32_t kind,
                                    const int32_t *ids, size_t count, uint64_t limit) {
    GPU_SHARED(uint64_t, shared, GPU_THREADS);
    uint64_t first = UINT64_MAX;
    for (size_t i = threadIdx.x; i < count && first == UINT64_MAX; i += GPU_THREADS) {
        if (ids[i] < -1 || (ids[i] >= 0 && (uint64_t)ids[i] >= limit)) {
            first = i;
        }
    }
    shared[threadIdx.x] = first;
    __syncthreads();
    if (threadIdx.x == 0 && fault->kind == TIDE_CUDA_NO_FAULT) {
        for (size_t i = 0; i < GPU_THREADS; i++) {
            first = shared[i] < first ? shared[i] : first;
        }
        if (first != UINT64_MAX) {
            fault->value = ids[first];
            fault->place = first;
            fault->limit = limit;
            fault->kind = kind;
        }
    }
}

int tide_cuda_check_ids(struct tide_cuda_queue *queue, enum tide_cuda_fault_kind kind,
                        const int32_t *ids, size_t count, size_t limit) {
    return count == 0 ? 0
                      : GPU_BLOCKS(check_kernel, 1, queue, queue->fault, (uint32_t)kind, ids, count,
                                   (uint64_t)limit);
}

struct embed_call {
    size_t width, count, rows; /* of the table */
    const float *from;
    const int32_t *ids;
    float *to;
};

__device__ static inline bool is_row(const struct embed_call *e, size_t i) {
    return e->ids[i] >= 0 && (size_t)e->ids[i] < e->rows;
}

static __global__ void embed_kernel(const struct embed_call e) {
    for (size_t at = gpu_thread(); at < e.count * e.width; at += gpu_stride()) {
        const size_t i = at / e.width, j = at % e.width;
        e.to[at] = is_row(&e, i) ? e.from[(size_t)e.ids[i] * e.width + j] : 0.0f;
    }
}

struct chain {
    int32_t next;  /* place with the same id, -1: none */
    int32_t first; /* whether no earlier place has it */
};

static __global__ void chain_kernel(const struct embed_call e, struct chain *chains) {
    for (size_t i = gpu_thread(); i < e.count; i += gpu_stride()) {
        struct chain own = {-1, 1};
        for (size_t k = i + 1; own.next < 0 && k < e.count; k++) {
            own.next = e.ids[k] == e.ids[i] ? (int32_t)k : -1;
        }
        for (size_t k = 0; own.first && k < i; k++) {
            own.first = e.ids[k] != e.ids[i];
        }
        chains[i] = own;
    }
}

static __global__ void zero_kernel(size_t n, float *x) {
    for (size_t i = gpu_thread(); i < n; i += gpu_stride()) {
        x[i] = 0.0f;
    }
}

static __global__ void embed_back_kernel(const struct embed_call e, const struct chain *chains) {
    for (size_t at = gpu_thread(); at < e.count * e.width; at += gpu_stride()) {
        const size_t i = at / e.width, j = at % e.width;
        if (!is_row(&e, i) || !chains[i].first) {
            continue;
        }
        float sum = 0;
        for (int32_t k = (int32_t)i; k >= 0; k = chains[k].next) {
            sum += e.from[(size_t)k * e.width + j];
        }
        e.to[(size_t)e.ids[i] * e.width + j] = sum;
    }
}

static int embed_of(const struct tide_op_call *call, const struct tide_operand *table,
                    struct embed_call *e) {
    *e = {};
    e->width = table->columns;
    e->rows = table->rows;
    e->count = call->in[1].rows * call->in[1].columns;
    e->from = (const float *)call->in[0].data;
    e->ids = (const int32_t *)call->in[1].data;
    e->to = (float *)call->out[0].data;
    return e->count > INT32_MAX ? TIDE_EINVAL
                                : tide_cuda_check_ids(tide_cuda_queue_of(call), TIDE_CUDA_ID,
                                                      e->ids, e->count, e->rows);
}

int tide_cuda_embed(const struct tide_op_call *call) {
    struct embed_call e;
    int code = embed_of(call, &call->in[0], &e);
    const size_t n = e.count * e.width;
    return code == 0 && n > 0 ? GPU_EACH(embed_kernel, gpu_blocks(n), tide_cuda_queue_of(call), e)
                              : code;
}

size_t tide_cuda_embed_scratch(const struct tide_op_call *call) {
    return call->in[1].rows * call->in[1].columns * sizeof(struct chain);
}

int tide_cuda_embed_dw(const struct tide_op_call *call) {
    struct tide_cuda_queue *queue = tide_cuda_queue_of(call);
    struct chain *chains = (struct chain *)call->scratch;
    struct embed_call e;
    int code = embed_of(call, &call->out[0], &e);
    const size_t all = e.rows * e.width, n = e.count * e.width;
    if (code == 0 && all > 0) {
        code = GPU_EACH(zero_kernel, gpu_blocks(all), queue, all, e.to);
    }
    if (code == 0 && n > 0) {
        code = GPU_EACH(chain_kernel, gpu_blocks(e.count), queue, e, chains);
    }
    return code == 0 && n > 0 ? GPU_EACH(embed_back_kernel, gpu_blocks(n), queue, e, chains) : code;
}

/* ---- reductions ---- */

template <int WIDTH>
static __global__ void row_sum_kernel(size_t rows, size_t c, const float *x, float *out) {
    GPU_SHARED(double, shared, GPU_GROUPS);
    const size_t row = gpu_row<WIDTH>(), lane = gpu_lane<WIDTH>();
    double sum = 0;
    for (size_t j = lane; row < rows && j < c; j += WIDTH) {
        sum += (double)x[row * c + j];
    }
    sum = gpu_sum<WIDTH>(sum, shared);
    if (row < rows && lane == 0) {
        out[row] = (float)sum;
    }
}

int tide_cuda_row_sums(const struct tide_op_call *call) {
    const size_t rows = call->in[0].rows, c = call->in[0].columns;
    return GPU_ROWS(row_sum_kernel, rows, c, tide_cuda_queue_of(call), rows, c,
                    (const float *)call->in[0].data, (float *)call->out[0].data);
}

static __global__ void round_kernel(size_t n, const double *x, float *out) {
    const size_t i = gpu_thread();
    if (i < n) {
        out[i] = (float)x[i];
    }
}

int tide_cuda_column_sums(const struct tide_op_call *call) {
    struct tide_cuda_queue *queue = tide_cuda_queue_of(call);
    const size_t c = call->in[0].columns;
    double *sums = NULL;
    int code = tide_cuda_sum_columns(queue, TIDE_CUDA_PLAIN, call->in[0].rows, c,
                                     (const float *)call->in[0].data, NULL, NULL, NULL,
                                     call->scratch, &sums);
    return code == 0 && c > 0 ? GPU_EACH(round_kernel, gpu_blocks(c), queue, c,
                                         (const double *)sums, (float *)call->out[0].data)
                              : code;
}

static __global__ void mean_kernel(size_t n, size_t c, size_t group, const float *x, float *out) {
    for (size_t e = gpu_thread(); e < n; e += gpu_stride()) {
        const float *from = x + e / c * group * c + e % c;
        double sum = 0;
        for (size_t p = 0; p < group; p++) {
            sum += (double)from[p * c];
        }
        out[e] = (float)(sum / (double)group);
    }
}

int tide_cuda_mean_pixels(const struct tide_op_call *call) {
    const size_t c = call->out[0].columns, n = call->out[0].rows * c;
    return n == 0 ? 0
                  : GPU_EACH(mean_kernel, gpu_blocks(n), tide_cuda_queue_of(call), n, c,
                             (size_t)call->attributes->group, (const float *)call->in[0].data,
                             (float *)call->out[0].data);
}

static __global__ void spread_kernel(size_t n, size_t c, size_t group, const float *g, float *out) {
    const float share = 1.0f / (float)group;
    for (size_t e = gpu_thread(); e < n; e += gpu_stride()) {
        out[e] = g[e / (group * c) * c + e % c] * share;
    }
}

int tide_cuda_mean_pixels_dx(const struct tide_op_call *call) {
    const size_t c = call->out[0].columns, n = call->out[0].rows * c;
    return n == 0 ? 0
                  : GPU_EACH(spread_kernel, gpu_blocks(n), tide_cuda_queue_of(call), n, c,
                             (size_t)call->attributes->group, (const float *)call->in[0].data,
                             (float *)call->out[0].data);
}

/* ---- columns ---- */

struct columns_copy {
    size_t n, width; /* results, and their columns */
    const float *a, *b;
    size_t wide_a, wide_b; /* columns of a and b */
    size_t first;
    float *out;
};

/* Columns first .. of a. */
static __global__ void slice_kernel(const struct columns_copy c) {
    for (size_t e = gpu_thread(); e < c.n; e += gpu_stride()) {
        c.out[e] = c.a[e / c.width * c.wide_a + c.first + e % c.width];
    }
}

/* a at the columns first .., else 0 */
static __global__ void place_kernel(const struct columns_copy c) {
    for (size_t e = gpu_thread(); e < c.n; e += gpu_stride()) {
        const size_t j = e % c.width - c.first; /* wraps before the first */
        c.out[e] = j < c.wide_a ? c.a[e / c.width * c.wide_a + j] : 0.0f;
    }
}

static __global__ void concat_kernel(const struct columns_copy c) {
    for (size_t e = gpu_thread(); e < c.n; e += gpu_stride()) {
        const size_t i = e / c.width, j = e % c.width;
        c.out[e] = j < c.wide_a ? c.a[i * c.wide_a + j] : c.b[i * c.wide_b + j - c.wide_a];
    }
}

static struct columns_copy copy_of(const struct tide_op_call *call) {
    struct columns_copy c = {};
    c.n = call->out[0].rows * call->out[0].columns;
    c.width = call->out[0].columns;
    c.a = (const float *)call->in[0].data;
    c.b = (const float *)call->in[1].data;
    c.wide_a = call->in[0].columns;
    c.wide_b = call->in[1].columns;
    c.first = call->attributes->first;
    c.out = (float *)call->out[0].data;
    return c;
}

#define COPY(name, kernel)                                                                         \
    int tide_cuda_##name(const struct tide_op_call *call) {                                        \
        const struct columns_copy c = copy_of(call);                                               \
        return c.n == 0 ? 0 : GPU_EACH(kernel, gpu_blocks(c.n), tide_cuda_queue_of(call), c);      \
    }
COPY(slice, slice_kernel)
COPY(slice_dx, place_kernel)
COPY(concat, concat_kernel)

/* ---- dropout ---- */

/* Philox 4x32-10 (Salmon et al. 2011) as tide_philox of base.h. */
__device__ static inline void philox(uint64_t seed, uint64_t key, uint64_t index, uint32_t *x) {
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    x[0] = (uint32_t)key;
    x[1] = (uint32_t)(key >> 32);
    x[2] = (uint32_t)index;
    x[3] = (uint32_t)(index >> 32);
    for (int round = 0; round < 10; round++) {
        const uint64_t a = (uint64_t)0xD2511F53u * x[0], b = (uint64_t)0xCD9E8D57u * x[2];
        x[0] = (uint32_t)(b >> 32) ^ x[1] ^ k0;
        x[1] = (uint32_t)b;
        x[2] = (uint32_t)(a >> 32) ^ x[3] ^ k1;
        x[3] = (uint32_t)a;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
}

struct dropout_call {
    size_t n;
    uint64_t seed, key;
    uint32_t limit;
    float scale;
    const float *x;
    float *y;
};

/* A thread a counter: four elements. */
static __global__ void dropout_kernel(const struct dropout_call d) {
    for (size_t at = gpu_thread(); at < (d.n + 3) / 4; at += gpu_stride()) {
        uint32_t words[4];
        philox(d.seed, d.key, at, words);
        for (size_t k = 0; k < 4; k++) {
            const size_t e = 4 * at + k;
            if (e < d.n) {
                d.y[e] = (words[k] >> 8) < d.limit ? d.x[e] * d.scale : 0.0f;
            }
        }
    }
}

int tide_cuda_dropout(const struct tide_op_call *call) {
    const double keep = call->attributes->keep;
    struct dropout_call d = {};
    d.n = call->in[0].rows * call->in[0].columns;
    d.seed = call->seed;
    d.key = ((uint64_t)call->attributes->id << 40) + call->step;
    d.limit = (uint32_t)(keep * 16777216.0);
    d.scale = (float)(1 / keep);
    d.x = (const float *)call->in[0].data;
    d.y = (float *)call->out[0].data;
    return d.n == 0
               ? 0
               : GPU_EACH(dropout_kernel, gpu_blocks((d.n + 3) / 4), tide_cuda_queue_of(call), d);
}
