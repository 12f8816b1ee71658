/*
 * Matrix factorisation x_ij ~ w_i . h_j: what the kernels and their tests share.
 *
 * Known cells are read in chunks: the distinct rows of both factors that a chunk needs are pulled
 * once, all work on it is done in memory, and, after training, what changed is pushed as
 * differences. How a block falls into chunks depends on its cells, their order and the width alone,
 * so the factors do not depend on where rows live.
 */
#ifndef TIDE_MF_H
#define TIDE_MF_H

#include "kernel.h"

#define MF_UPDATE_MOST 1e4f /* of each component of an update */

/*
 * One step of gradient descent for a cell of value x (Gemulla et al., KDD 2011, section 3), both
 * sides from the old values: e = x - w . h, w += 2 eps (e h - decay_w w), h += 2 eps (e w - decay_h
 * h), each component of both updates cut to +-MF_UPDATE_MOST. Returns e. decay: lambda / cells in
 * the row, in the column.
 */
float mf_step(size_t width, float x, float eps, float decay_w, float decay_h, float *w, float *h);

/* One of the two factors, as far as a chunk needs it. */
struct mf_side {
    struct tide_rows table;
    uint64_t base;        /* key of index 0 */
    uint32_t first, span; /* all indices of the cells lie in first .. first + span - 1 */
    uint32_t *names;      /* of the indices, if they were renumbered; else NULL */
    uint32_t *places;     /* by index - first: place of its row in `rows` + 1; 0: not there */
    size_t capacity, count;
    uint64_t *keys;
    float *rows, *before; /* capacity x width; before: NULL unless they are trained */
    uint32_t *indices;    /* of the places */
    unsigned char handle[64] __attribute__((aligned(16)));
};

struct mf_chunks {
    struct mf_side sides[2]; /* rows, columns */
    size_t width;
    const uint32_t *cells; /* cell_count x 2 */
    uint32_t *own;         /* the same, if they may be renumbered; else NULL */
    const float *values;
    size_t cell_count;
    size_t at, end;                  /* the chunk: cells at .. end - 1 */
    uint64_t pulled, pushed, chunks; /* rows */
};

/* Rows of a chunk and side that are held at once, so that memory is bounded. */
enum { MF_CHUNK_BYTES = 32 << 20 };

/* The tables, cells and values must be set. Reads the cells once. On a side on which cells of its
 * own are few and far between their indices become 0, 1, ... in the order of their first
 * appearance, so that nothing grows with the matrix. ENOMEM. */
int mf_chunks_init(struct mf_chunks *chunks, bool train, size_t chunk_bytes);
void mf_chunks_deinit(struct mf_chunks *chunks);
/* Pulls the next chunk: 1, 0 at the end, or a negative code. */
int mf_chunks_next(struct mf_chunks *chunks);
/* Makes the chunk's rows what they have changed by. False: not all of it is finite. */
bool mf_chunks_subtract(struct mf_chunks *chunks);
/* Pushes that. */
int mf_chunks_push(struct mf_chunks *chunks);
/* In the matrix, of an index in the cells. */
static inline uint32_t mf_index(const struct mf_side *side, uint32_t index) {
    return side->names ? side->names[index] : index;
}
static inline size_t mf_place(const struct mf_chunks *chunks, int side, size_t cell) {
    return chunks->sides[side].places[chunks->cells[2 * cell + (size_t)side] - chunks->sides[side].first] - 1;
}

#endif
