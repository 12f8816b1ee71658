/*
 * Reductions over rows and columns, rows by index, slices, dropout. Gradients of rows by index are
 * added in the order of the places, which are sorted by index. A group of threads takes a row.
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
    size_t width, count; /* of a row; of ids */
    size_t rows, per;    /* of a group; ids of one */
    const float *from;
    const int32_t *ids;
    float *to;
};

__device__ static inline bool is_row(const struct embed_call *e, size_t i) {
    return e->ids[i] >= 0 && (size_t)e->ids[i] < e->rows;
}

/* Of all groups' rows; ids are fewer than 2^31. */
__device__ static inline size_t row_of(const struct embed_call *e, size_t i) {
    return (uint32_t)i / (uint32_t)e->per * e->rows + (size_t)e->ids[i];
}

static __global__ void embed_kernel(const struct embed_call e) {
    const size_t i = gpu_row<GPU_GROUP>();
    for (size_t j = gpu_lane<GPU_GROUP>(); i < e.count && j < e.width; j += GPU_GROUP) {
        e.to[i * e.width + j] = is_row(&e, i) ? e.from[row_of(&e, i) * e.width + j] : 0.0f;
    }
}

static __global__ void zero_kernel(size_t n, float *x) {
    for (size_t i = gpu_thread(); i < n; i += gpu_stride()) {
        x[i] = 0.0f;
    }
}

static int embed_of(const struct tide_op_call *call, const struct tide_operand *table,
                    struct embed_call *e) {
    const struct tide_op_groups g = tide_op_groups(call, table);
    *e = {};
    e->width = g.w;
    e->rows = g.n;
    e->per = g.m;
    e->count = g.count * g.m;
    e->from = (const float *)call->in[0].data;
    e->ids = (const int32_t *)call->in[1].data;
    e->to = (float *)call->out[0].data;
    return e->count > INT32_MAX || g.count * g.n > INT32_MAX ? TIDE_EINVAL
                                : tide_cuda_check_ids(tide_cuda_queue_of(call), TIDE_CUDA_ID,
                                                      e->ids, e->count, e->rows);
}

int tide_cuda_embed(const struct tide_op_call *call) {
    struct embed_call e;
    int code = embed_of(call, &call->in[0], &e);
    return code == 0 && e.width > 0
               ? GPU_EACH_ROW(embed_kernel, e.count, tide_cuda_queue_of(call), e)
               : code;
}

/* Places by id, then in their order: bitonic (Batcher 1968), since it is the same each time and needs
 * no atomics. A key is id << 32 | place; ids that are no row come last. */
enum { SORT_BLOCK = 2 * GPU_THREADS };

static size_t padded(size_t count) {
    size_t n = SORT_BLOCK;
    while (n < count) {
        n *= 2;
    }
    return n;
}

static __global__ void key_kernel(const struct embed_call e, size_t n, uint64_t *keys) {
    for (size_t i = gpu_thread(); i < n; i += gpu_stride()) {
        const bool counts = i < e.count && is_row(&e, i);
        keys[i] = (uint64_t)(counts ? (uint32_t)row_of(&e, i) : UINT32_MAX) << 32 | (uint32_t)i;
    }
}

__device__ static inline void exchange(uint64_t *a, uint64_t *b, bool rising) {
    if ((*a > *b) == rising) {
        const uint64_t old = *a;
        *a = *b;
        *b = old;
    }
}

/* One step of a merge: pair t are keys `stride` apart. */
static __global__ void merge_kernel(size_t n, size_t size, size_t stride, uint64_t *keys) {
    for (size_t t = gpu_thread(); t < n / 2; t += gpu_stride()) {
        const size_t low = t & (stride - 1), a = 2 * (t - low) + low; /* powers of two */
        exchange(keys + a, keys + a + stride, (a & size) == 0);
    }
}

/* All steps of one merge, or of all up to `size` (whole), whose strides stay in a block's keys. */
static __global__ void merge_block_kernel(size_t size, bool whole, uint64_t *keys) {
    GPU_SHARED(uint64_t, own, SORT_BLOCK);
    const size_t base = (size_t)blockIdx.x * SORT_BLOCK;
    own[threadIdx.x] = keys[base + threadIdx.x];
    own[threadIdx.x + GPU_THREADS] = keys[base + threadIdx.x + GPU_THREADS];
    for (size_t s = whole ? 2 : size; s <= size; s *= 2) {
        for (size_t stride = (s < SORT_BLOCK ? s : (size_t)SORT_BLOCK) / 2; stride > 0; stride /= 2) {
            __syncthreads();
            const size_t t = threadIdx.x, low = t & (stride - 1), a = 2 * (t - low) + low;
            exchange(own + a, own + a + stride, ((base + a) & s) == 0);
        }
    }
    __syncthreads();
    keys[base + threadIdx.x] = own[threadIdx.x];
    keys[base + threadIdx.x + GPU_THREADS] = own[threadIdx.x + GPU_THREADS];
}

static int sort_keys(struct tide_cuda_queue *queue, size_t n, uint64_t *keys) {
    const unsigned blocks = (unsigned)(n / SORT_BLOCK);
    int code = GPU_BLOCKS(merge_block_kernel, blocks, queue, (size_t)SORT_BLOCK, true, keys);
    for (size_t size = 2 * (size_t)SORT_BLOCK; code == 0 && size <= n; size *= 2) {
        for (size_t stride = size / 2; code == 0 && stride >= SORT_BLOCK; stride /= 2) {
            code = GPU_EACH(merge_kernel, gpu_blocks(n / 2), queue, n, size, stride, keys);
        }
        code = code == 0 ? GPU_BLOCKS(merge_block_kernel, blocks, queue, size, false, keys) : code;
    }
    return code;
}

/* The first key of an id has its row. */
static __global__ void embed_back_kernel(const struct embed_call e, size_t n, const uint64_t *keys,
                                         bool adds) {
    const size_t i = gpu_row<GPU_GROUP>();
    if (i >= e.count || keys[i] >> 32 == UINT32_MAX || (i > 0 && keys[i - 1] >> 32 == keys[i] >> 32)) {
        return;
    }
    float *to = e.to + (size_t)(keys[i] >> 32) * e.width;
    for (size_t j = gpu_lane<GPU_GROUP>(); j < e.width; j += GPU_GROUP) {
        float sum = adds ? to[j] : 0.0f;
        for (size_t k = i; k < n && keys[k] >> 32 == keys[i] >> 32; k++) {
            sum += e.from[(size_t)(uint32_t)keys[k] * e.width + j];
        }
        to[j] = sum;
    }
}

size_t tide_cuda_embed_scratch(const struct tide_op_call *call) {
    return padded(call->in[1].rows * call->in[1].columns) * sizeof(uint64_t);
}

int tide_cuda_embed_dw(const struct tide_op_call *call) {
    struct tide_cuda_queue *queue = tide_cuda_queue_of(call);
    uint64_t *keys = (uint64_t *)call->scratch;
    struct embed_call e;
    int code = embed_of(call, &call->out[0], &e);
    const size_t all = call->out[0].rows * call->out[0].columns, n = padded(e.count);
    if (code == 0 && all > 0 && !call->accumulate) {
        code = GPU_EACH(zero_kernel, gpu_blocks(all), queue, all, e.to);
    }
    if (code != 0 || e.count == 0 || e.width == 0) {
        return code;
    }
    code = GPU_EACH(key_kernel, gpu_blocks(n), queue, e, n, keys);
    code = code == 0 ? sort_keys(queue, n, keys) : code;
    return code == 0 ? GPU_EACH_ROW(embed_back_kernel, e.count, queue, e, n,
                                    (const uint64_t *)keys, call->accumulate)
                     : code;
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

static __global__ void round_kernel(size_t n, const double *x, bool adds, float *out) {
    const size_t i = gpu_thread();
    if (i < n) {
        out[i] = (float)x[i] + (adds ? out[i] : 0.0f);
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
                                         (const double *)sums, call->accumulate,
                                         (float *)call->out[0].data)
                              : code;
}

static __global__ void mean_kernel(size_t images, size_t c, size_t group, const float *x,
                                   float *out) {
    const size_t b = gpu_row<GPU_GROUP>();
    for (size_t j = gpu_lane<GPU_GROUP>(); b < images && j < c; j += GPU_GROUP) {
        double sum = 0;
        for (size_t p = 0; p < group; p++) {
            sum += (double)x[(b * group + p) * c + j];
        }
        out[b * c + j] = (float)(sum / (double)group);
    }
}

int tide_cuda_mean_pixels(const struct tide_op_call *call) {
    return GPU_EACH_ROW(mean_kernel, call->out[0].rows, tide_cuda_queue_of(call),
                        call->out[0].rows, call->out[0].columns, (size_t)call->attributes->group,
                        (const float *)call->in[0].data, (float *)call->out[0].data);
}

static __global__ void spread_kernel(size_t rows, size_t c, size_t group, const float *g,
                                     float *out) {
    const size_t r = gpu_row<GPU_GROUP>();
    const float share = 1.0f / (float)group;
    const float *from = g + (uint32_t)r / (uint32_t)group * c;
    for (size_t j = gpu_lane<GPU_GROUP>(); r < rows && j < c; j += GPU_GROUP) {
        out[r * c + j] = from[j] * share;
    }
}

int tide_cuda_mean_pixels_dx(const struct tide_op_call *call) {
    return GPU_EACH_ROW(spread_kernel, call->out[0].rows, tide_cuda_queue_of(call),
                        call->out[0].rows, call->out[0].columns, (size_t)call->attributes->group,
                        (const float *)call->in[0].data, (float *)call->out[0].data);
}

/* ---- columns ---- */

struct columns_copy {
    size_t rows, width; /* of the results */
    const float *a, *b;
    size_t wide_a, wide_b; /* columns of a and b */
    size_t first;
    float *out;
};

/* Columns first .. of a. */
static __global__ void slice_kernel(const struct columns_copy c) {
    const size_t r = gpu_row<GPU_GROUP>();
    for (size_t j = gpu_lane<GPU_GROUP>(); r < c.rows && j < c.width; j += GPU_GROUP) {
        c.out[r * c.width + j] = c.a[r * c.wide_a + c.first + j];
    }
}

/* a at the columns first .., else 0 */
static __global__ void place_kernel(const struct columns_copy c) {
    const size_t r = gpu_row<GPU_GROUP>();
    for (size_t k = gpu_lane<GPU_GROUP>(); r < c.rows && k < c.width; k += GPU_GROUP) {
        const size_t j = k - c.first; /* wraps before the first */
        c.out[r * c.width + k] = j < c.wide_a ? c.a[r * c.wide_a + j] : 0.0f;
    }
}

static __global__ void concat_kernel(const struct columns_copy c) {
    const size_t r = gpu_row<GPU_GROUP>();
    for (size_t j = gpu_lane<GPU_GROUP>(); r < c.rows && j < c.width; j += GPU_GROUP) {
        c.out[r * c.width + j] =
            j < c.wide_a ? c.a[r * c.wide_a + j] : c.b[r * c.wide_b + j - c.wide_a];
    }
}

static struct columns_copy copy_of(const struct tide_op_call *call) {
    struct columns_copy c = {};
    c.rows = call->out[0].rows;
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
        return GPU_EACH_ROW(kernel, c.rows, tide_cuda_queue_of(call), c);                          \
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
    size_t n, first; /* elements; of the run's, the first */
    uint64_t seed, key;
    uint32_t limit;
    float scale;
    const float *x;
    float *y;
};

/* A thread a counter: four elements. */
static __global__ void dropout_kernel(const struct dropout_call d) {
    const size_t base = d.first / 4, last = (d.first + d.n + 3) / 4;
    for (size_t at = base + gpu_thread(); at < last; at += gpu_stride()) {
        uint32_t words[4];
        philox(d.seed, d.key, at, words);
        for (size_t k = 0; k < 4; k++) {
            const size_t e = 4 * at + k - d.first; /* wraps before the first */
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
    d.first = call->row * call->in[0].columns;
    d.seed = call->seed;
    d.key = ((uint64_t)call->attributes->id << 40) + call->step;
    d.limit = (uint32_t)(keep * 16777216.0);
    d.scale = (float)(1 / keep);
    d.x = (const float *)call->in[0].data;
    d.y = (float *)call->out[0].data;
    return d.n == 0
               ? 0
               : GPU_EACH(dropout_kernel, gpu_blocks(d.n / 4 + 2), tide_cuda_queue_of(call), d);
}

/* ---- rows of lists ---- */

struct list_call {
    size_t rows, width; /* of the results */
    const float *x;
    size_t from, to; /* elements from a row to the next */
    const int32_t *starts, *list, *winners;
    size_t first; /* row of the run that the first result is */
    float *out;
    int32_t *out_winners;
};

static struct list_call list_of(const struct tide_op_call *call) {
    struct list_call l = {};
    l.rows = call->out[0].rows;
    l.width = call->out[0].columns;
    l.x = (const float *)call->in[0].data;
    l.from = tide_operand_stride(&call->in[0]);
    l.to = tide_operand_stride(&call->out[0]);
    l.starts = (const int32_t *)call->in[1].data;
    l.list = (const int32_t *)call->in[2].data;
    l.first = call->row;
    l.out = (float *)call->out[0].data;
    l.out_winners = (int32_t *)call->out[1].data;
    return l;
}

static __global__ void gather_kernel(const struct list_call l) {
    const size_t i = gpu_row<GPU_GROUP>();
    if (i >= l.rows) {
        return;
    }
    const int32_t row = l.starts[i];
    for (size_t j = gpu_lane<GPU_GROUP>(); j < l.width; j += GPU_GROUP) {
        l.out[i * l.to + j] = row < 0 ? 0.0f : l.x[(size_t)row * l.from + j];
    }
}

static __global__ void gather_sum_kernel(const struct list_call l) {
    const size_t i = gpu_row<GPU_GROUP>();
    if (i >= l.rows) {
        return;
    }
    const int32_t from = l.starts[i], end = l.starts[i + 1];
    for (size_t j = gpu_lane<GPU_GROUP>(); j < l.width; j += GPU_GROUP) {
        float sum = 0;
        for (int32_t k = from; k < end; k++) {
            sum += l.x[(size_t)l.list[k] * l.from + j];
        }
        l.out[i * l.to + j] = sum;
    }
}

static __global__ void gather_max_kernel(const struct list_call l) {
    const size_t i = gpu_row<GPU_GROUP>();
    if (i >= l.rows) {
        return;
    }
    const int32_t from = l.starts[i], end = l.starts[i + 1];
    for (size_t j = gpu_lane<GPU_GROUP>(); j < l.width; j += GPU_GROUP) {
        float best = 0;
        int32_t winner = -1;
        for (int32_t k = from; k < end; k++) {
            const float x = l.x[(size_t)l.list[k] * l.from + j];
            if (winner < 0 || x > best || (isnan(x) && !isnan(best))) {
                best = x;
                winner = l.list[k];
            }
        }
        l.out[i * l.to + j] = best;
        l.out_winners[i * l.width + j] = winner;
    }
}

static __global__ void gather_max_back_kernel(const struct list_call l) {
    const size_t i = gpu_row<GPU_GROUP>();
    if (i >= l.rows) {
        return;
    }
    const int32_t from = l.starts[i], end = l.starts[i + 1], own = (int32_t)(l.first + i);
    for (size_t j = gpu_lane<GPU_GROUP>(); j < l.width; j += GPU_GROUP) {
        float sum = 0;
        for (int32_t k = from; k < end; k++) {
            const bool again = k > from && l.list[k] == l.list[k - 1];
            if (!again && l.winners[(size_t)l.list[k] * l.width + j] == own) {
                sum += l.x[(size_t)l.list[k] * l.from + j];
            }
        }
        l.out[i * l.to + j] = sum;
    }
}

#define LISTS(name, kernel)                                                                        \
    int tide_cuda_##name(const struct tide_op_call *call) {                                        \
        const struct list_call l = list_of(call);                                                  \
        return GPU_EACH_ROW(kernel, l.rows, tide_cuda_queue_of(call), l);                          \
    }
LISTS(gather, gather_kernel)
LISTS(gather_sum, gather_sum_kernel)
LISTS(gather_max, gather_max_kernel)

int tide_cuda_gather_max_dx(const struct tide_op_call *call) {
    struct list_call l = list_of(call);
    l.winners = (const int32_t *)call->in[1].data;
    l.starts = (const int32_t *)call->in[2].data;
    l.list = (const int32_t *)call->in[3].data;
    return GPU_EACH_ROW(gather_max_back_kernel, l.rows, tide_cuda_queue_of(call), l);
}
