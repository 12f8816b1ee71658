/*
 * Pooling over windows of NHWC images; cells outside of the image do not exist. A thread a result:
 * backwards each input cell gathers from the windows it lies in, in their order.
 */
#include "tensor/cuda/gpu.h"

struct pool_call {
    struct tide_window w;
    uint32_t n;                   /* results, of whole images */
    struct gpu_divisor c, ow, oh; /* of the results' dims */
    const float *x;
    const uint8_t *place;
    float *out;
    uint8_t *out_place;
};

struct span { /* of rows or columns: first, and one past the last */
    uint32_t from, to;
};

/* The part of window number o that lies in the image, `size` cells wide. */
__device__ static inline struct span window_span(uint32_t o, uint32_t stride, uint32_t pad,
                                                 uint32_t kernel, uint32_t size) {
    const uint32_t start = o * stride, end = start + kernel;
    struct span s = {start > pad ? start - pad : 0, end > pad ? end - pad : 0};
    s.to = s.to < size ? s.to : size;
    return s;
}

/* The windows that cell i lies in, of `count`. */
__device__ static inline struct span cell_span(uint32_t i, uint32_t stride, uint32_t pad,
                                               uint32_t kernel, uint32_t count) {
    const uint32_t at = i + pad;
    struct span s = {at >= kernel ? (at - kernel) / stride + 1 : 0, at / stride + 1};
    s.to = s.to < count ? s.to : count;
    return s;
}

struct spot { /* a result: channel, column, row, image */
    size_t b;
    uint32_t y, x, j;
};

__device__ static inline struct spot spot_of(uint32_t e, const struct pool_call *p) {
    struct spot s;
    const uint32_t pixel = gpu_divide(e, p->c), row = gpu_divide(pixel, p->ow);
    const uint32_t image = gpu_divide(row, p->oh);
    s.j = e - pixel * p->c.by;
    s.x = pixel - row * p->ow.by;
    s.y = row - image * p->oh.by;
    s.b = image;
    return s;
}

__device__ static inline float share_of(struct span y, struct span x) {
    return 1.0f / (float)((y.to - y.from) * (x.to - x.from));
}

static __global__ void maxpool_kernel(const struct pool_call p) {
    const struct tide_window w = p.w;
    for (uint32_t e = (uint32_t)gpu_thread(); e < p.n; e += (uint32_t)gpu_stride()) {
        const struct spot s = spot_of(e, &p);
        const struct span ys = window_span(s.y, w.stride, w.pad, w.kh, w.h);
        const struct span xs = window_span(s.x, w.stride, w.pad, w.kw, w.w);
        const float *image = p.x + s.b * w.h * w.w * w.c + s.j;
        float best = 0;
        uint32_t at = UINT32_MAX;
        for (uint32_t y = ys.from; y < ys.to; y++) {
            for (uint32_t x = xs.from; x < xs.to; x++) {
                const float value = image[((size_t)y * w.w + x) * w.c];
                if (at == UINT32_MAX || value > best || (isnan(value) && !isnan(best))) {
                    best = value;
                    at = (y + w.pad - s.y * w.stride) * w.kw + (x + w.pad - s.x * w.stride);
                }
            }
        }
        p.out[e] = best;
        p.out_place[e] = (uint8_t)at;
    }
}

static __global__ void maxpool_back_kernel(const struct pool_call p) {
    const struct tide_window w = p.w;
    for (uint32_t e = (uint32_t)gpu_thread(); e < p.n; e += (uint32_t)gpu_stride()) {
        const struct spot s = spot_of(e, &p);
        const struct span ys = cell_span(s.y, w.stride, w.pad, w.kh, w.oh);
        const struct span xs = cell_span(s.x, w.stride, w.pad, w.kw, w.ow);
        float sum = 0;
        for (uint32_t y = ys.from; y < ys.to; y++) {
            for (uint32_t x = xs.from; x < xs.to; x++) {
                const size_t at = ((s.b * w.oh + y) * w.ow + x) * w.c + s.j;
                const uint32_t tap =
                    (s.y + w.pad - y * w.stride) * w.kw + (s.x + w.pad - x * w.stride);
                sum += p.place[at] == tap ? p.x[at] : 0.0f;
            }
        }
        p.out[e] = sum;
    }
}

static __global__ void avgpool_kernel(const struct pool_call p) {
    const struct tide_window w = p.w;
    for (uint32_t e = (uint32_t)gpu_thread(); e < p.n; e += (uint32_t)gpu_stride()) {
        const struct spot s = spot_of(e, &p);
        const struct span ys = window_span(s.y, w.stride, w.pad, w.kh, w.h);
        const struct span xs = window_span(s.x, w.stride, w.pad, w.kw, w.w);
        const float *image = p.x + s.b * w.h * w.w * w.c + s.j;
        const float share = share_of(ys, xs);
        float sum = 0;
        for (uint32_t y = ys.from; y < ys.to; y++) {
            for (uint32_t x = xs.from; x < xs.to; x++) {
                sum += share * image[((size_t)y * w.w + x) * w.c];
            }
        }
        p.out[e] = sum;
    }
}

static __global__ void avgpool_back_kernel(const struct pool_call p) {
    const struct tide_window w = p.w;
    for (uint32_t e = (uint32_t)gpu_thread(); e < p.n; e += (uint32_t)gpu_stride()) {
        const struct spot s = spot_of(e, &p);
        const struct span ys = cell_span(s.y, w.stride, w.pad, w.kh, w.oh);
        const struct span xs = cell_span(s.x, w.stride, w.pad, w.kw, w.ow);
        float sum = 0;
        for (uint32_t y = ys.from; y < ys.to; y++) {
            for (uint32_t x = xs.from; x < xs.to; x++) {
                const float share = share_of(window_span(y, w.stride, w.pad, w.kh, w.h),
                                             window_span(x, w.stride, w.pad, w.kw, w.w));
                sum += share * p.x[((s.b * w.oh + y) * w.ow + x) * w.c + s.j];
            }
        }
        p.out[e] = sum;
    }
}

/* The images first .. of a call, as many as 32 bits can number; back: results are the cells. */
static struct pool_call pool_of(const struct tide_op_call *call, bool back, size_t first,
                                size_t images) {
    const struct tide_window w = call->attributes->window;
    const size_t cells = (size_t)w.h * w.w * w.c, made = (size_t)w.oh * w.ow * w.c;
    struct pool_call p = {};
    p.w = w;
    p.n = (uint32_t)(images * (back ? cells : made));
    p.c = gpu_divisor_of(w.c);
    p.ow = gpu_divisor_of(back ? w.w : w.ow);
    p.oh = gpu_divisor_of(back ? w.h : w.oh);
    p.x = (const float *)call->in[0].data + first * (back ? made : cells);
    p.place = (const uint8_t *)call->in[1].data;
    p.place = p.place ? p.place + first * made : NULL;
    p.out = (float *)call->out[0].data + first * (back ? cells : made);
    p.out_place = (uint8_t *)call->out[1].data;
    p.out_place = p.out_place ? p.out_place + first * made : NULL;
    return p;
}

/* Images of a launch: their results number less than 2^30. */
static size_t images_of(const struct tide_op_call *call, bool back, size_t *all) {
    const struct tide_window *w = &call->attributes->window;
    const size_t one = back ? (size_t)w->h * w->w * w->c : (size_t)w->oh * w->ow * w->c;
    *all = one ? call->out[0].rows * call->out[0].columns / one : 0;
    return one > 1u << 30 ? 0 : one ? (1u << 30) / one : 1;
}

#define POOL(name, kernel, back)                                                                   \
    int tide_cuda_##name(const struct tide_op_call *call) {                                        \
        size_t all, most = images_of(call, back, &all);                                            \
        int code = all > 0 && most == 0 ? TIDE_EINVAL : 0;                                         \
        for (size_t first = 0; code == 0 && first < all; first += most) {                          \
            const struct pool_call p =                                                             \
                pool_of(call, back, first, all - first < most ? all - first : most);               \
            code = GPU_EACH(kernel, gpu_blocks(p.n), tide_cuda_queue_of(call), p);                 \
        }                                                                                          \
        return code;                                                                               \
    }
POOL(maxpool, maxpool_kernel, false)
POOL(maxpool_dx, maxpool_back_kernel, true)
POOL(avgpool, avgpool_kernel, false)
POOL(avgpool_dx, avgpool_back_kernel, true)
