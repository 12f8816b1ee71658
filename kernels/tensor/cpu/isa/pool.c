/* Pooling over windows of NHWC images; cells outside of the image do not exist. */
#include "tensor/cpu/isa/isa.h"

struct cell { /* the part of one output cell's window that lies in the image */
    size_t y0, y1, x0, x1, top, left;
};

/* top and left are the window's origin plus pad, so that tap (y + pad - top) kw + (x + pad - left).
 */
static struct cell cell_of(const struct tide_window *w, size_t oy, size_t ox) {
    size_t top = oy * w->stride, left = ox * w->stride;
    size_t bottom = top + w->kh, right = left + w->kw;
    return (struct cell){.y0 = top > w->pad ? top - w->pad : 0,
                         .y1 = bottom > w->pad ? (bottom - w->pad < w->h ? bottom - w->pad : w->h) : 0,
                         .x0 = left > w->pad ? left - w->pad : 0,
                         .x1 = right > w->pad ? (right - w->pad < w->w ? right - w->pad : w->w) : 0,
                         .top = top,
                         .left = left};
}

static uint8_t tap_of(const struct tide_window *w, const struct cell *cell, size_t y, size_t x) {
    return (uint8_t)((y + w->pad - cell->top) * w->kw + (x + w->pad - cell->left));
}

/* The maximum of one output cell over its window; a later value replaces an earlier one that it
 * exceeds, or a number by NaN. */
static void max_cell(const struct tide_window *w, const struct cell *cell, const float *image, float *y,
                     uint8_t *place) {
    const size_t c = w->c;
    size_t j = 0;
    for (; j + TIDE_LANES <= c; j += TIDE_LANES) {
        const float *first = image + (cell->y0 * w->w + cell->x0) * c + j;
        tide_vec best = VECC(first);
        tide_veci at = (tide_veci){0} + tap_of(w, cell, cell->y0, cell->x0);
        for (size_t iy = cell->y0; iy < cell->y1; iy++) {
            for (size_t ix = cell->x0; ix < cell->x1; ix++) {
                const tide_vec x = VECC(image + (iy * w->w + ix) * c + j);
                tide_veci larger = (x > best) | ((x != x) & (best == best));
                best = tide_choose(larger, x, best);
                at = (((tide_veci){0} + tap_of(w, cell, iy, ix)) & larger) | (at & ~larger);
            }
        }
        VEC(y + j) = best;
        *(tide_vecb *)(void *)(place + j) = __builtin_convertvector(at, tide_vecb);
    }
    for (; j < c; j++) {
        y[j] = image[(cell->y0 * w->w + cell->x0) * c + j];
        place[j] = tap_of(w, cell, cell->y0, cell->x0);
        for (size_t iy = cell->y0; iy < cell->y1; iy++) {
            for (size_t ix = cell->x0; ix < cell->x1; ix++) {
                const float x = image[(iy * w->w + ix) * c + j];
                if (x > y[j] || (x != x && y[j] == y[j])) {
                    y[j] = x;
                    place[j] = tap_of(w, cell, iy, ix);
                }
            }
        }
    }
}

int OP(maxpool)(const struct tide_op_call *call) {
    const struct tide_window *w = &call->attributes->window;
    size_t c = w->c, images = call->out[0].rows / ((size_t)w->oh * w->ow);
    float *y = call->out[0].data;
    uint8_t *place = call->out[1].data;
    for (size_t b = 0; b < images; b++) {
        const float *image = (const float *)call->in[0].data + b * w->h * w->w * c;
        for (size_t oy = 0; oy < w->oh; oy++) {
            for (size_t ox = 0; ox < w->ow; ox++, y += c, place += c) {
                struct cell cell = cell_of(w, oy, ox);
                max_cell(w, &cell, image, y, place);
            }
        }
    }
    return 0;
}

static void give(size_t c, const float *g, const uint8_t *place, uint8_t tap, float *dx) {
    size_t j = 0;
    for (; j + TIDE_LANES <= c; j += TIDE_LANES) {
        tide_veci at = __builtin_convertvector(*(const tide_vecb *)(const void *)(place + j), tide_veci);
        VEC(dx + j) += tide_choose(at == tap, VECC(g + j), (tide_vec){0});
    }
    for (; j < c; j++) {
        dx[j] += place[j] == tap ? g[j] : 0.0f;
    }
}

int OP(maxpool_dx)(const struct tide_op_call *call) {
    const struct tide_window *w = &call->attributes->window;
    size_t c = w->c, images = call->in[0].rows / ((size_t)w->oh * w->ow);
    const float *g = call->in[0].data;
    const uint8_t *place = call->in[1].data;
    for (size_t b = 0; b < images; b++) {
        float *dx = (float *)call->out[0].data + b * w->h * w->w * c;
        memset(dx, 0, (size_t)w->h * w->w * c * sizeof(float));
        for (size_t oy = 0; oy < w->oh; oy++) {
            for (size_t ox = 0; ox < w->ow; ox++, g += c, place += c) {
                struct cell cell = cell_of(w, oy, ox);
                for (size_t iy = cell.y0; iy < cell.y1; iy++) {
                    for (size_t ix = cell.x0; ix < cell.x1; ix++) {
                        give(c, g, place, tap_of(w, &cell, iy, ix), dx + (iy * w->w + ix) * c);
                    }
                }
            }
        }
    }
    return 0;
}

/* y += scale x */
static void add_scaled(size_t c, float scale, const float *x, float *y) {
    TIDE_INDEPENDENT
    for (size_t j = 0; j < c; j++) {
        y[j] += scale * x[j];
    }
}

static float share_of(const struct cell *cell) {
    return 1.0f / (float)((cell->y1 - cell->y0) * (cell->x1 - cell->x0));
}

int OP(avgpool)(const struct tide_op_call *call) {
    const struct tide_window *w = &call->attributes->window;
    size_t c = w->c, images = call->out[0].rows / ((size_t)w->oh * w->ow);
    float *y = call->out[0].data;
    for (size_t b = 0; b < images; b++) {
        const float *image = (const float *)call->in[0].data + b * w->h * w->w * c;
        for (size_t oy = 0; oy < w->oh; oy++) {
            for (size_t ox = 0; ox < w->ow; ox++, y += c) {
                struct cell cell = cell_of(w, oy, ox);
                memset(y, 0, c * sizeof(float));
                for (size_t iy = cell.y0; iy < cell.y1; iy++) {
                    for (size_t ix = cell.x0; ix < cell.x1; ix++) {
                        add_scaled(c, share_of(&cell), image + (iy * w->w + ix) * c, y);
                    }
                }
            }
        }
    }
    return 0;
}

int OP(avgpool_dx)(const struct tide_op_call *call) {
    const struct tide_window *w = &call->attributes->window;
    size_t c = w->c, images = call->in[0].rows / ((size_t)w->oh * w->ow);
    const float *g = call->in[0].data;
    for (size_t b = 0; b < images; b++) {
        float *dx = (float *)call->out[0].data + b * w->h * w->w * c;
        memset(dx, 0, (size_t)w->h * w->w * c * sizeof(float));
        for (size_t oy = 0; oy < w->oh; oy++) {
            for (size_t ox = 0; ox < w->ow; ox++, g += c) {
                struct cell cell = cell_of(w, oy, ox);
                for (size_t iy = cell.y0; iy < cell.y1; iy++) {
                    for (size_t ix = cell.x0; ix < cell.x1; ix++) {
                        add_scaled(c, share_of(&cell), g, dx + (iy * w->w + ix) * c);
                    }
                }
            }
        }
    }
    return 0;
}
