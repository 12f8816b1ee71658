/*
 * Sparse matrices from text in memory: ratings in the forms of MovieLens, and MatrixMarket
 * coordinate files; their split, and their cut into blocks or groups. Errors and lines as in
 * text.h.
 */
#ifndef TIDE_MATRIX_H
#define TIDE_MATRIX_H

#include "readers/text.h"

enum { TIDE_MATRIX_TEXTS = 2 };

enum tide_matrix_format {
    TIDE_MATRIX_AUTO,    /* MatrixMarket if the text begins with %%MatrixMarket, else ratings */
    TIDE_MATRIX_RATINGS, /* user, item, rating, anything: separated by tabs, "::", semicolons, commas
                            or blanks; or in the order that a header names */
    TIDE_MATRIX_MARKET   /* coordinate real|integer general */
};

/* Known cells in the order of the text. cells[2 i], cells[2 i + 1]: row and column, from 0. */
struct tide_cells {
    uint32_t *cells;
    float *values;
    size_t count;
};

struct tide_matrix {
    struct tide_cells parts[TIDE_MATRIX_TEXTS];
    uint32_t rows, columns;
    /* Of ratings: the ids by number, which is by first appearance. MatrixMarket: pool NULL. */
    struct tide_names row_names, column_names;
    char note[256]; /* what was read as what: for the user */
};
void tide_matrix_release(struct tide_matrix *matrix); /* also of a failed read */

/*
 * One part a text (1 or 2), all of one format; MatrixMarket texts must agree in their size.
 * *gives* `out`. Errors: EPROTO (names the line), EINVAL, ELIMIT (2^32 - 1 rows, columns or cells),
 * ENOMEM.
 */
int tide_matrix_read(const struct tide_text *texts, size_t text_count, enum tide_matrix_format format,
                     struct tide_matrix *out);

/* Moves `count` cells of part 0, drawn by `seed`, to the empty part 1; both keep the text's order.
 * EINVAL: part 1 has cells, or count exceeds part 0. ENOMEM. */
int tide_matrix_split(struct tide_matrix *matrix, size_t count, uint64_t seed);

/* What makes a test mean less than it seems: cells of part 0 that are there before; cells of part 1
 * that are in part 0 too; rows and columns of part 1 that part 0 has none of. ENOMEM. */
struct tide_matrix_oddities {
    size_t repeated, leaked, unseen_rows, unseen_columns;
};
int tide_matrix_oddities(const struct tide_matrix *matrix, struct tide_matrix_oddities *out);

/* Mean of part 0, in its order; 0 of none. */
double tide_matrix_mean(const struct tide_matrix *matrix);

/* counts[i] = cells in row i, or in column i; room for all of them. */
void tide_cells_count(const struct tide_cells *cells, bool columns, uint32_t *counts);

/* The matrix cut into blocks x blocks pieces of equal sides, the last ones smaller. */
struct tide_block_grid {
    uint32_t rows, columns, blocks;
};
/* Rows or columns of a block: (size + blocks - 1) / blocks. */
static inline uint32_t tide_block_side(uint32_t size, uint32_t blocks) {
    return size / blocks + (size % blocks != 0);
}
/*
 * The cells of the row blocks first .. first + count - 1, block after block: row block by row
 * block, in each the column blocks 0 .. blocks - 1, in each the order of the text. offsets: one
 * entry a block and one more, so the n-th of these blocks is offsets[n] .. offsets[n + 1];
 * offset_count is checked against it. *gives* out. EINVAL, ENOMEM.
 */
int tide_cells_blocks(const struct tide_cells *cells, struct tide_block_grid grid, uint32_t first, uint32_t count,
                      struct tide_cells *out, uint64_t *offsets, size_t offset_count);

/*
 * A random order of all cells, by `seed`: of one by one, or, by_columns, of columns and in each of
 * its cells. Cut into groups of `size` > 0, the last one smaller. columns: those of group g, each
 * once, are columns[offsets[g]] .. columns[offsets[g + 1] - 1]; room for one a cell, and for an
 * offset a group and one more. Cells and groups are fewer than 2^32. *gives* out. ENOMEM.
 */
int tide_cells_groups(const struct tide_cells *cells, uint32_t column_count, bool by_columns, size_t size,
                      uint64_t seed, struct tide_cells *out, uint64_t *columns, uint64_t *offsets);

#endif
