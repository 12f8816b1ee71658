/*
 * Convolutions. Three ways, chosen by shape alone:
 * - 1 x 1 at stride 1 is a matrix product over all pixels;
 * - output channels (of the gradient by x: input channels) a multiple of 16: direct. An image is
 *   copied into a zero border once; then a block of PIXELS x BLOCK outputs stays in registers while
 *   the window's taps stream by. The gradient by x is the same with the weights turned over, when
 *   the stride is 1; the gradient by w keeps ROWS x BLOCK weights in registers while the pixels
 *   stream by;
 * - else the window's taps are gathered into a matrix (im2col), some rows at a time, and
 * multiplied.
 */
#include "tensor/ctc.h"
#include "tensor/cpu/gemm.h"
#include "tensor/cpu/isa/isa.h"

/* Sums enough to hide the latency of a multiply-add, and no more than there are registers: of two registers of channels
 * each, or of one (PIXELS_ONE). */
#if defined(__AVX512F__)
enum { PIXELS = 8, PIXELS_ONE = 16, ROWS = 12 };
#else
enum { PIXELS = 4, PIXELS_ONE = 4, ROWS = 6 };
#endif
enum { BLOCK = 2 * TIDE_LANES, TILE_BYTES = 512 << 10, LINE = 16 };

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

static size_t taps_of(const struct tide_window *w) {
    return (size_t)w->kh * w->kw * w->c;
}

static size_t pixels_of(const struct tide_window *w) {
    return (size_t)w->oh * w->ow;
}

static bool is_product(const struct tide_window *w) {
    return w->kh == 1 && w->kw == 1 && w->stride == 1 && w->pad == 0;
}

static bool is_direct(const struct tide_window *w) {
    return w->o % 16 == 0;
}

static bool is_direct_dx(const struct tide_window *w) {
    return w->c % 16 == 0 && w->stride == 1 && w->pad < w->kh && w->pad < w->kw;
}

/* ---- direct ---- */

static size_t bordered_size(const struct tide_window *w) {
    /* A block of pixels may read beyond the last one it stores. */
    return ((size_t)w->h + 2 * w->pad) * ((size_t)w->w + 2 * w->pad) * w->c +
           ((size_t)PIXELS_ONE * w->stride + w->kw) * w->c + LINE;
}

static void add_border(const struct tide_window *w, const float *image, float *out) {
    size_t wide = ((size_t)w->w + 2 * w->pad) * w->c, row = (size_t)w->w * w->c;
    size_t edge = (size_t)w->pad * w->c;
    memset(out, 0, w->pad * wide * sizeof(float));
    out += w->pad * wide;
    for (size_t y = 0; y < w->h; y++, out += wide, image += row) {
        memset(out, 0, edge * sizeof(float));
        memcpy(out + edge, image, row * sizeof(float));
        memset(out + edge + row, 0, edge * sizeof(float));
    }
    memset(out, 0, w->pad * wide * sizeof(float));
}

/* Sums of `pixels` <= most neighbouring outputs, q registers of channels of each; from, a window's origin; step: floats
 * to the next pixel's. most and q are constants where it is inlined. */
TIDE_INLINE void direct_block(const struct tide_window *w, size_t most, size_t q, size_t pixels, const float *from,
                              size_t step, const float *weight, float *out) {
    const size_t wide = ((size_t)w->w + 2 * w->pad) * w->c, run = (size_t)w->kw * w->c, o = w->o;
    tide_vec acc[PIXELS_ONE][2];
    TIDE_UNROLLED
    for (size_t p = 0; p < most; p++) {
        acc[p][0] = acc[p][1] = (tide_vec){0};
    }
    for (size_t ky = 0; ky < w->kh; ky++) {
        const float *x = from + ky * wide;
        for (size_t i = 0; i < run; i++, x++, weight += o) {
            const tide_vec w0 = VECC(weight), w1 = q > 1 ? VECC(weight + TIDE_LANES) : w0;
            TIDE_UNROLLED
            for (size_t p = 0; p < most; p++) {
                const float value = x[p * step];
                acc[p][0] += value * w0;
                if (q > 1) {
                    acc[p][1] += value * w1;
                }
            }
        }
    }
    TIDE_UNROLLED
    for (size_t p = 0; p < most; p++) {
        if (p < pixels) {
            VEC(out + p * o) = acc[p][0];
            if (q > 1) {
                VEC(out + p * o + TIDE_LANES) = acc[p][1];
            }
        }
    }
}

/* q registers of channels of a whole image. */
TIDE_INLINE void direct_channels(const struct tide_window *w, size_t most, size_t q, const float *bordered,
                                 const float *weight, float *out) {
    const size_t wide = ((size_t)w->w + 2 * w->pad) * w->c, step = (size_t)w->stride * w->c;
    for (size_t oy = 0; oy < w->oh; oy++) {
        const float *from = bordered + oy * w->stride * wide;
        for (size_t ox = 0; ox < w->ow; ox += most) {
            const size_t pixels = least(w->ow - ox, most);
            float *to = out + (oy * w->ow + ox) * w->o;
            if (step == 16) { /* the places of all pixels are constants then */
                direct_block(w, most, q, pixels, from + ox * 16, 16, weight, to);
            } else {
                direct_block(w, most, q, pixels, from + ox * step, step, weight, to);
            }
        }
    }
}

static void direct_image(const struct tide_window *w, const float *bordered, const float *weight, float *out) {
    for (size_t q = 0; q < w->o; q += BLOCK) {
        if (w->o - q >= BLOCK) {
            direct_channels(w, PIXELS, 2, bordered, weight + q, out + q);
        } else {
            direct_channels(w, PIXELS_ONE, 1, bordered, weight + q, out + q);
        }
    }
}

static void direct(const struct tide_window *w, size_t images, const float *x, const float *weight, float *out,
                   float *scratch) {
    for (size_t b = 0; b < images; b++) {
        add_border(w, x + b * w->h * w->w * w->c, scratch);
        direct_image(w, scratch, weight, out + b * pixels_of(w) * w->o);
    }
}

/* The convolution of g whose result is dx. */
static struct tide_window turned(const struct tide_window *w) {
    return (struct tide_window){.kh = w->kh,
                                .kw = w->kw,
                                .stride = 1,
                                .pad = w->kh - 1 - w->pad,
                                .h = w->oh,
                                .w = w->ow,
                                .c = w->o,
                                .oh = w->h,
                                .ow = w->w,
                                .o = w->c};
}

/* weight [kh kw c, o] -> [kh kw o, c], taps in reverse */
static void turn_weight(const struct tide_window *w, const float *weight, float *out) {
    size_t taps = (size_t)w->kh * w->kw, c = w->c, o = w->o;
    for (size_t t = 0; t < taps; t++) {
        const float *from = weight + (taps - 1 - t) * c * o;
        for (size_t j = 0; j < o; j++, out += c) {
            for (size_t i = 0; i < c; i++) {
                out[i] = from[i * o + j];
            }
        }
    }
}

/* dw[i .. i + rows)[q registers] += sum over `lines` rows of an image's pixels of x times g, for taps i of one window
 * row. q is a constant where it is inlined. */
TIDE_INLINE void weight_block(const struct tide_window *w, size_t q, size_t rows, size_t lines, const float *x,
                              const float *g, float *dw) {
    const size_t wide = ((size_t)w->w + 2 * w->pad) * w->c, step = (size_t)w->stride * w->c, o = w->o;
    tide_vec acc[ROWS][2];
    TIDE_UNROLLED
    for (size_t r = 0; r < ROWS; r++) {
        acc[r][0] = acc[r][1] = (tide_vec){0};
    }
    for (size_t oy = 0; oy < lines; oy++) {
        const float *at = x + oy * w->stride * wide;
        for (size_t ox = 0; ox < w->ow; ox++, at += step, g += o) {
            const tide_vec g0 = VECC(g), g1 = q > 1 ? VECC(g + TIDE_LANES) : g0;
            TIDE_UNROLLED
            for (size_t r = 0; r < ROWS; r++) {
                acc[r][0] += at[r] * g0;
                if (q > 1) {
                    acc[r][1] += at[r] * g1;
                }
            }
        }
    }
    TIDE_UNROLLED
    for (size_t r = 0; r < ROWS; r++) {
        if (r < rows) {
            VEC(dw + r * o) += acc[r][0];
            if (q > 1) {
                VEC(dw + r * o + TIDE_LANES) += acc[r][1];
            }
        }
    }
}

/* The same for all taps. */
TIDE_INLINE void weight_rows(const struct tide_window *w, size_t q, size_t lines, const float *x, const float *g,
                             float *dw) {
    const size_t wide = ((size_t)w->w + 2 * w->pad) * w->c, run = (size_t)w->kw * w->c;
    for (size_t ky = 0; ky < w->kh; ky++) {
        for (size_t i = 0; i < run; i += ROWS) {
            weight_block(w, q, least(run - i, ROWS), lines, x + ky * wide + i, g, dw + (ky * run + i) * w->o);
        }
    }
}

/* Some rows of pixels at a time, which stay in the first-level cache for all taps. */
static void direct_dw(const struct tide_window *w, size_t images, const float *x, const float *g, float *dw,
                      float *scratch) {
    const size_t row_x = w->stride * ((size_t)w->w + 2 * w->pad) * w->c, row_g = (size_t)w->ow * w->o;
    const size_t fit = (24 << 10) / sizeof(float) / (row_x + row_g), step = fit ? fit : 1;
    for (size_t b = 0; b < images; b++, g += pixels_of(w) * w->o) {
        add_border(w, x + b * w->h * w->w * w->c, scratch);
        for (size_t oy = 0; oy < w->oh; oy += step) {
            const size_t lines = least(step, w->oh - oy);
            const float *from = scratch + oy * row_x, *own = g + oy * row_g;
            for (size_t q = 0; q < w->o; q += BLOCK) {
                if (w->o - q >= BLOCK) {
                    weight_rows(w, 2, lines, from, own + q, dw + q);
                } else {
                    weight_rows(w, 1, lines, from, own + q, dw + q);
                }
            }
        }
    }
}

/* ---- im2col ---- */

static size_t tile_rows(const struct tide_window *w, size_t rows) {
    size_t fit = TILE_BYTES / sizeof(float) / taps_of(w);
    return least(rows, fit < 16 ? 16 : fit);
}

/* The taps of output pixels first .. first + count - 1 of the batch, one pixel a row; or, backwards, rows added back to
 * where they came from. The taps of a window row that lie within the image, floats skip .. end - 1 of it, are
 * neighbours there, too. */
TIDE_INLINE void each_tap(const struct tide_window *w, size_t first, size_t count, float *image, float *cols,
                          bool back) {
    const size_t c = w->c, pixels = pixels_of(w), run = w->kw * c, edge = (size_t)w->w + w->pad;
    for (size_t p = first; p < first + count; p++) {
        float *base = image + p / pixels * w->h * w->w * c;
        const size_t top = p % pixels / w->ow * w->stride, left = p % w->ow * w->stride;
        const size_t skip = left < w->pad ? least(w->pad - left, w->kw) * c : 0;
        const size_t end = left < edge ? least(w->kw, edge - left) * c : 0;
        for (size_t ky = 0; ky < w->kh; ky++, cols += run) {
            const size_t y = top + ky - w->pad; /* wraps when outside */
            if (y >= w->h || end <= skip) {
                if (!back) {
                    memset(cols, 0, run * sizeof(float));
                }
                continue;
            }
            float *at = base + ((y * w->w + left) * c + skip - w->pad * c);
            if (back) {
                TIDE_INDEPENDENT
                for (size_t i = 0; i < end - skip; i++) {
                    at[i] += cols[skip + i];
                }
            } else {
                memset(cols, 0, skip * sizeof(float));
                memcpy(cols + skip, at, (end - skip) * sizeof(float));
                memset(cols + end, 0, (run - end) * sizeof(float));
            }
        }
    }
}

static void gather_taps(const struct tide_window *w, size_t first, size_t count, const float *image, float *cols) {
    each_tap(w, first, count, (float *)(uintptr_t)image, cols, false);
}

static void add_taps(const struct tide_window *w, size_t first, size_t count, float *image, float *cols) {
    each_tap(w, first, count, image, cols, true);
}

/* ---- the operations ---- */

int OP(conv)(const struct tide_op_call *call) {
    const struct tide_window *w = &call->attributes->window;
    const float *x = call->in[0].data, *weight = call->in[1].data;
    float *y = call->out[0].data, *scratch = call->scratch;
    size_t rows = call->out[0].rows, taps = taps_of(w);
    if (is_product(w)) {
        return tide_cpu_gemm(false, false, rows, w->o, taps, 1, x, taps, weight, w->o, 0, y, w->o);
    }
    if (is_direct(w)) {
        direct(w, rows / pixels_of(w), x, weight, y, scratch);
        return 0;
    }
    int code = 0;
    for (size_t r = 0, step = tile_rows(w, rows); code == 0 && r < rows; r += step) {
        size_t n = least(rows - r, step);
        gather_taps(w, r, n, x, scratch);
        code = tide_cpu_gemm(false, false, n, w->o, taps, 1, scratch, taps, weight, w->o, 0, y + r * w->o, w->o);
    }
    return code;
}

int OP(conv_dx)(const struct tide_op_call *call) {
    const struct tide_window *w = &call->attributes->window;
    const float *g = call->in[0].data, *weight = call->in[1].data;
    float *dx = call->out[0].data, *scratch = call->scratch;
    size_t rows = call->in[0].rows, taps = taps_of(w);
    if (is_product(w)) {
        return tide_cpu_gemm(false, true, rows, w->c, w->o, 1, g, w->o, weight, w->o, 0, dx, w->c);
    }
    if (is_direct_dx(w)) {
        struct tide_window back = turned(w);
        turn_weight(w, weight, scratch);
        direct(&back, rows / pixels_of(w), g, scratch, dx, scratch + taps * w->o);
        return 0;
    }
    int code = 0;
    if (call->out[0].rows > 0) {
        memset(dx, 0, call->out[0].rows * w->c * sizeof(float));
    }
    for (size_t r = 0, step = tile_rows(w, rows); code == 0 && r < rows; r += step) {
        size_t n = least(rows - r, step);
        code = tide_cpu_gemm(false, true, n, taps, w->o, 1, g + r * w->o, w->o, weight, w->o, 0, scratch, taps);
        add_taps(w, r, n, dx, scratch);
    }
    return code;
}

int OP(conv_dw)(const struct tide_op_call *call) {
    const struct tide_window *w = &call->attributes->window;
    const float *x = call->in[0].data, *g = call->in[1].data;
    float *dw = call->out[0].data, *scratch = call->scratch;
    size_t rows = call->in[1].rows, taps = taps_of(w);
    if (is_product(w)) {
        return tide_cpu_gemm(true, false, taps, w->o, rows, 1, x, taps, g, w->o, call->accumulate ? 1.0f : 0.0f, dw,
                             w->o);
    }
    if (!call->accumulate) {
        memset(dw, 0, taps * w->o * sizeof(float));
    }
    if (is_direct(w)) {
        direct_dw(w, rows / pixels_of(w), x, g, dw, scratch);
        return 0;
    }
    int code = 0;
    for (size_t r = 0, step = tile_rows(w, rows); code == 0 && r < rows; r += step) {
        size_t n = least(rows - r, step);
        gather_taps(w, r, n, x, scratch);
        code = tide_cpu_gemm(true, false, taps, w->o, n, 1, scratch, taps, g + r * w->o, w->o, 1, dw, w->o);
    }
    return code;
}

static size_t conv_floats(enum tide_op_code code, const struct tide_window *w, size_t rows) {
    struct tide_window back;
    if (is_product(w)) {
        return 0;
    }
    if (code == TIDE_OP_CONV_DX && is_direct_dx(w)) {
        back = turned(w);
        return taps_of(w) * w->o + bordered_size(&back);
    }
    if (code != TIDE_OP_CONV_DX && is_direct(w)) {
        return bordered_size(w);
    }
    return tile_rows(w, rows) * taps_of(w);
}

size_t OP(scratch)(enum tide_op_code code, const struct tide_op_call *call) {
    size_t c = call->in[0].columns;
    switch (code) {
    case TIDE_OP_CONV:
        return conv_floats(code, &call->attributes->window, call->out[0].rows) * sizeof(float);
    case TIDE_OP_CONV_DX:
        return conv_floats(code, &call->attributes->window, call->in[0].rows) * sizeof(float);
    case TIDE_OP_CONV_DW:
        return conv_floats(code, &call->attributes->window, call->in[1].rows) * sizeof(float);
    case TIDE_OP_BATCHNORM:
    case TIDE_OP_BATCHNORM_DX:
    case TIDE_OP_COLUMN_SUMS:
    case TIDE_OP_MEAN_PIXELS:
        return c * (sizeof(double) + 4 * sizeof(float));
    case TIDE_OP_BATCHNORM_EVAL:
        return c * sizeof(float);
    case TIDE_OP_ATTENTION:
    case TIDE_OP_ATTENTION_DX:
        return OP(attention_scratch)();
    case TIDE_OP_ROTARY:
        return (size_t)call->attributes->n * call->attributes->k * sizeof(float);
    case TIDE_OP_CTC:
        return tide_ctc_scratch(call->attributes->n, call->in[1].columns) * sizeof(double);
    case TIDE_OP_LINEAR_XENT:
        return OP(linear_xent_scratch)(call);
    case TIDE_OP_LAYERNORM_DX:
        return 2 * c * sizeof(double);
    default:
        return 0;
    }
}
