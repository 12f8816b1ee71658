/*
 * Convolutions. 1 x 1 at stride 1 is a matrix product over all pixels. Else forward, if the output
 * channels are a multiple of 16, and the gradient by x always, are computed directly: a block makes
 * a tile of TILE pixels by TILE channels, streaming through slices of taps that are gathered into
 * shared memory (implicit gemm; no matrix of taps exists). What is left, and the gradient by w,
 * gathers taps into a matrix (im2col), some rows at a time, and multiplies.
 */
#include "tensor/cuda/gpu.h"

enum { TILE = 64, SLICE = 16, OWN = 4 }; /* a thread makes OWN x OWN results */

static size_t taps_of(const struct tide_window *w) {
    return (size_t)w->kh * w->kw * w->c;
}

static bool is_product(const struct tide_window *w) {
    return w->kh == 1 && w->kw == 1 && w->stride == 1 && w->pad == 0;
}

static bool is_direct(const struct tide_window *w) {
    return w->o % 16 == 0;
}

/* ---- direct ---- */

struct direct_call {
    struct tide_window w;
    size_t rows;    /* pixels of the result */
    uint32_t depth; /* taps times channels that are summed */
    uint32_t width; /* channels of the result */
    const float *from, *weight;
    float *out;
};

struct pixel { /* of the result; b: its image's first pixel in what is read */
    size_t b;
    int y, x;
    bool inside;
};

/* BACK: the result is dx, what is read is g. */
template <bool BACK>
__device__ static inline struct pixel pixel_of(const struct direct_call *d, size_t row) {
    const size_t h = BACK ? d->w.h : d->w.oh, w = BACK ? d->w.w : d->w.ow;
    const size_t image = BACK ? (size_t)d->w.oh * d->w.ow : (size_t)d->w.h * d->w.w;
    struct pixel p = {row / (h * w) * image, (int)(row / w % h), (int)(row % w), row < d->rows};
    return p;
}

/* What pixel p meets at depth i: the input under tap i, or the gradient that tap i gave to. */
template <bool BACK>
__device__ static inline float meet(const struct direct_call *d, struct pixel p, uint32_t i) {
    const uint32_t channels = BACK ? d->w.o : d->w.c;
    const uint32_t tap = i / channels;
    const int ky = (int)(tap / d->w.kw), kx = (int)(tap % d->w.kw);
    const int stride = (int)d->w.stride, pad = (int)d->w.pad;
    int y = BACK ? p.y + pad - ky : p.y * stride + ky - pad;
    int x = BACK ? p.x + pad - kx : p.x * stride + kx - pad;
    if (!p.inside || i >= d->depth || y < 0 || x < 0) {
        return 0.0f;
    }
    if (BACK) {
        if (y % stride != 0 || x % stride != 0) {
            return 0.0f;
        }
        y /= stride;
        x /= stride;
    }
    const int h = (int)(BACK ? d->w.oh : d->w.h), w = (int)(BACK ? d->w.ow : d->w.w);
    if (y >= h || x >= w) {
        return 0.0f;
    }
    return d->from[(p.b + (size_t)y * (size_t)w + (size_t)x) * channels + i % channels];
}

template <bool BACK>
__device__ static inline float weight_at(const struct direct_call *d, uint32_t i, uint32_t j) {
    if (i >= d->depth || j >= d->width) {
        return 0.0f;
    }
    if (BACK) { /* [taps, c, o]: i is (tap, o), j is c */
        return d->weight[((size_t)(i / d->w.o) * d->w.c + j) * d->w.o + i % d->w.o];
    }
    return d->weight[(size_t)i * d->w.o + j];
}

template <bool BACK> static __global__ void direct_kernel(const struct direct_call d) {
    GPU_SHARED(float, left, SLICE *(TILE + 1));
    GPU_SHARED(float, right, SLICE *TILE);
    const uint32_t tiles = (d.width + TILE - 1) / TILE, t = threadIdx.x;
    const size_t row0 = (size_t)(blockIdx.x / tiles) * TILE;
    const uint32_t column0 = blockIdx.x % tiles * TILE;
    const uint32_t own_row = t / (TILE / OWN) * OWN, own_column = t % (TILE / OWN) * OWN;
    struct pixel pixels[OWN];
    float sum[OWN][OWN] = {};
    for (uint32_t k = 0; k < OWN; k++) {
        pixels[k] = pixel_of<BACK>(&d, row0 + t / SLICE + k * (GPU_THREADS / SLICE));
    }
    for (uint32_t i0 = 0; i0 < d.depth; i0 += SLICE) {
        for (uint32_t k = 0; k < OWN; k++) {
            left[t % SLICE * (TILE + 1) + t / SLICE + k * (GPU_THREADS / SLICE)] =
                meet<BACK>(&d, pixels[k], i0 + t % SLICE);
            const uint32_t i = t / TILE + k * (GPU_THREADS / TILE);
            right[i * TILE + t % TILE] = weight_at<BACK>(&d, i0 + i, column0 + t % TILE);
        }
        __syncthreads();
        for (uint32_t i = 0; i < SLICE; i++) {
            for (uint32_t a = 0; a < OWN; a++) {
                const float x = left[i * (TILE + 1) + own_row + a];
                for (uint32_t b = 0; b < OWN; b++) {
                    sum[a][b] += x * right[i * TILE + own_column + b];
                }
            }
        }
        __syncthreads();
    }
    for (uint32_t a = 0; a < OWN; a++) {
        for (uint32_t b = 0; b < OWN; b++) {
            const size_t row = row0 + own_row + a;
            const uint32_t column = column0 + own_column + b;
            if (row < d.rows && column < d.width) {
                d.out[row * d.width + column] = sum[a][b];
            }
        }
    }
}

template <bool BACK> static int direct(const struct tide_op_call *call) {
    struct direct_call d = {};
    d.w = call->attributes->window;
    d.rows = call->out[0].rows;
    d.depth = d.w.kh * d.w.kw * (BACK ? d.w.o : d.w.c);
    d.width = BACK ? d.w.c : d.w.o;
    d.from = (const float *)call->in[0].data;
    d.weight = (const float *)call->in[1].data;
    d.out = (float *)call->out[0].data;
    const size_t blocks = (d.rows + TILE - 1) / TILE * ((d.width + TILE - 1) / TILE);
    return blocks == 0 ? 0
           : blocks > INT_MAX
               ? TIDE_EINVAL
               : GPU_BLOCKS(direct_kernel<BACK>, (unsigned)blocks, tide_cuda_queue_of(call), d);
}

/* ---- im2col ---- */

static size_t tile_rows(const struct tide_window *w, size_t rows) {
    size_t fit = GPU_TILE_BYTES / sizeof(float) / taps_of(w);
    fit = fit < TILE ? (size_t)TILE : fit;
    return rows < fit ? rows : fit;
}

/* The taps of output pixels first .. first + count - 1 of the batch, one pixel a row. */
static __global__ void gather_kernel(struct tide_window w, size_t first, size_t count,
                                     const float *x, float *taps) {
    const size_t width = (size_t)w.kh * w.kw * w.c;
    for (size_t e = gpu_thread(); e < count * width; e += gpu_stride()) {
        const size_t p = first + e / width;
        const uint32_t i = (uint32_t)(e % width), tap = i / w.c;
        const size_t y = p / w.ow % w.oh * w.stride + tap / w.kw - w.pad; /* wraps when outside */
        const size_t at = p % w.ow * w.stride + tap % w.kw - w.pad;
        const size_t image = p / ((size_t)w.oh * w.ow) * w.h;
        taps[e] = y < w.h && at < w.w ? x[((image + y) * w.w + at) * w.c + i % w.c] : 0.0f;
    }
}

static int gather(const struct tide_op_call *call, size_t first, size_t count) {
    const struct tide_window *w = &call->attributes->window;
    return GPU_EACH(gather_kernel, gpu_blocks(count * taps_of(w)), tide_cuda_queue_of(call), *w,
                    first, count, (const float *)call->in[0].data, (float *)call->scratch);
}

/* ---- the operations ---- */

static int multiply(const struct tide_op_call *call, bool ta, bool tb, size_t m, size_t n, size_t k,
                    const float *a, const float *b, bool accumulate, float *c) {
    struct tide_cuda_product p = {};
    p.ta = ta;
    p.tb = tb;
    p.m = m;
    p.n = n;
    p.k = k;
    p.alpha = 1.0f;
    p.a = a;
    p.lda = ta ? m : k;
    p.b = b;
    p.ldb = tb ? k : n;
    p.beta = accumulate ? 1.0f : 0.0f;
    p.c = c;
    p.ldc = n;
    p.count = 1;
    return tide_cuda_multiply(tide_cuda_queue_of(call), &p);
}

int tide_cuda_conv(const struct tide_op_call *call) {
    const struct tide_window *w = &call->attributes->window;
    const float *x = (const float *)call->in[0].data, *weight = (const float *)call->in[1].data;
    const size_t rows = call->out[0].rows, taps = taps_of(w), step = tile_rows(w, rows);
    float *y = (float *)call->out[0].data;
    if (is_product(w)) {
        return multiply(call, false, false, rows, w->o, taps, x, weight, false, y);
    }
    if (is_direct(w)) {
        return direct<false>(call);
    }
    int code = 0;
    for (size_t r = 0; code == 0 && r < rows; r += step) {
        const size_t n = rows - r < step ? rows - r : step;
        code = gather(call, r, n);
        if (code == 0) {
            code = multiply(call, false, false, n, w->o, taps, (const float *)call->scratch, weight,
                            false, y + r * w->o);
        }
    }
    return code;
}

int tide_cuda_conv_dx(const struct tide_op_call *call) {
    const struct tide_window *w = &call->attributes->window;
    if (is_product(w)) {
        return multiply(call, false, true, call->in[0].rows, w->c, w->o,
                        (const float *)call->in[0].data, (const float *)call->in[1].data, false,
                        (float *)call->out[0].data);
    }
    return direct<true>(call);
}

int tide_cuda_conv_dw(const struct tide_op_call *call) {
    const struct tide_window *w = &call->attributes->window;
    const float *x = (const float *)call->in[0].data, *g = (const float *)call->in[1].data;
    const size_t rows = call->in[1].rows, taps = taps_of(w), step = tile_rows(w, rows);
    float *dw = (float *)call->out[0].data;
    if (is_product(w) || rows == 0) {
        return multiply(call, true, false, taps, w->o, rows, x, g, call->accumulate, dw);
    }
    int code = 0;
    for (size_t r = 0; code == 0 && r < rows; r += step) {
        const size_t n = rows - r < step ? rows - r : step;
        code = gather(call, r, n);
        if (code == 0) {
            code = multiply(call, true, false, taps, w->o, n, (const float *)call->scratch,
                            g + r * w->o, call->accumulate || r > 0, dw);
        }
    }
    return code;
}

size_t tide_cuda_conv_scratch(enum tide_op_code code, const struct tide_op_call *call) {
    const struct tide_window *w = &call->attributes->window;
    const bool gathers =
        !is_product(w) && (code == TIDE_OP_CONV_DW || (code == TIDE_OP_CONV && !is_direct(w)));
    const size_t rows = code == TIDE_OP_CONV ? call->out[0].rows : call->in[1].rows;
    return gathers ? tile_rows(w, rows) * taps_of(w) * sizeof(float) : 0;
}
