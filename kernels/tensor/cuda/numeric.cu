/*
 * The numeric tool for decisions (numeric.h) that is wide enough for a device: one row of a
 * knapsack's table of choices at a time. Every number is the same there and here. Work goes to the
 * default stream, whose copies wait.
 */
#include "decide/numeric.h"

#include "tensor/cuda/gpu.h"

#include <stdlib.h>

static void release_all(void **memory, size_t count) {
    for (size_t i = 0; i < count; i++) {
        tide_cuda_memory.release(memory[i]);
    }
}

/* All of `count` pieces, or none. */
static int allocate_all(void **memory, const size_t *bytes, size_t count) {
    bool all = true;
    for (size_t i = 0; i < count; i++) {
        memory[i] = tide_cuda_memory.allocate(bytes[i]);
        all = all && memory[i];
    }
    if (!all) {
        release_all(memory, count);
    }
    return all ? 0 : TIDE_ENOMEM;
}

/* ---- knapsack ---- */

/* One row: best[c] from what was best without it, and choice[c]: 0 nothing, else option + 1. */
static __global__ void choose_kernel(size_t width, size_t options, const double *value,
                                     const uint64_t *sizes, const double *before, double *best,
                                     uint16_t *choice) {
    for (size_t c = gpu_thread(); c < width; c += gpu_stride()) {
        double most = before[c];
        uint16_t chosen = 0;
        for (size_t j = 0; j < options; j++) {
            if (sizes[j] <= c && value[j] > -(double)INFINITY) {
                const double with = before[c - sizes[j]] + value[j];
                if (with > most) {
                    most = with;
                    chosen = (uint16_t)(j + 1);
                }
            }
        }
        best[c] = most;
        choice[c] = chosen;
    }
}

/* From the last row back: what was chosen decides how much is left for those before. */
static __global__ void trace_kernel(size_t rows, size_t width, const uint64_t *sizes,
                                    const uint16_t *choice, uint16_t *chosen) {
    if (gpu_thread() == 0) {
        size_t left = width - 1;
        for (size_t i = rows; i-- > 0;) {
            chosen[i] = choice[i * width + left];
            left -= chosen[i] ? sizes[chosen[i] - 1] : 0;
        }
    }
}

enum { VALUE, SIZES, BEFORE, BEST, CHOICE, CHOSEN, PACK_PARTS };

static int fill_table(const struct tide_knapsack *p, void **there) {
    struct tide_cuda_queue *queue = tide_cuda_default_queue();
    const size_t width = (size_t)p->capacity + 1;
    int code = tide_cuda_memory.upload(NULL, there[VALUE], p->value,
                                       p->rows * p->options * sizeof(double));
    if (code == 0) {
        code = tide_cuda_memory.upload(NULL, there[SIZES], p->sizes, p->options * sizeof(uint64_t));
    }
    for (size_t i = 0; i < p->rows && code == 0; i++) {
        code = GPU_EACH(choose_kernel, gpu_blocks(width), queue, width, p->options,
                        (const double *)there[VALUE] + i * p->options,
                        (const uint64_t *)there[SIZES], (const double *)there[BEFORE],
                        (double *)there[BEST], (uint16_t *)there[CHOICE] + i * width);
        void *best = there[BEST];
        there[BEST] = there[BEFORE];
        there[BEFORE] = best;
    }
    return code == 0
               ? GPU_EACH(trace_kernel, 1, queue, p->rows, width, (const uint64_t *)there[SIZES],
                          (const uint16_t *)there[CHOICE], (uint16_t *)there[CHOSEN])
               : code;
}

static int knapsack(const struct tide_knapsack *p, size_t *pick, double *best) {
    const size_t width = (size_t)p->capacity + 1;
    const size_t bytes[PACK_PARTS] = {p->rows * p->options * sizeof(double),
                                      p->options * sizeof(uint64_t),
                                      width * sizeof(double),
                                      width * sizeof(double),
                                      p->rows * width * sizeof(uint16_t),
                                      p->rows * sizeof(uint16_t)};
    void *there[PACK_PARTS];
    uint16_t *chosen = (uint16_t *)malloc(bytes[CHOSEN] + 1);
    if (!chosen || allocate_all(there, bytes, PACK_PARTS) != 0) {
        free(chosen);
        return TIDE_ENOMEM;
    }
    memset(best, 0, bytes[BEFORE]);
    int code = tide_cuda_memory.upload(NULL, there[BEFORE], best, bytes[BEFORE]);
    code = code == 0 ? fill_table(p, there) : code;
    code = code == 0 ? tide_cuda_memory.download(NULL, chosen, there[CHOSEN], bytes[CHOSEN]) : code;
    code = code == 0 ? tide_cuda_memory.download(NULL, best, there[BEFORE], bytes[BEFORE]) : code;
    for (size_t i = 0; i < p->rows && code == 0; i++) {
        pick[i] = chosen[i] ? (size_t)chosen[i] - 1 : SIZE_MAX;
    }
    release_all(there, PACK_PARTS);
    free(chosen);
    return code;
}

const struct tide_numeric tide_cuda_numeric = {knapsack};
