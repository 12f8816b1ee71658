/* Known cells of a sparse matrix: their split, counts, blocks and groups; see matrix.h. */
#include "readers/matrix.h"

#include "base/base.h"

#include <string.h>

/* *gives* */
static int cells_create(struct tide_cells *cells, size_t count) {
    cells->cells = tide_alloc((2 * count + 1) * sizeof *cells->cells);
    cells->values = tide_alloc((count + 1) * sizeof *cells->values);
    if (cells->cells && cells->values) {
        return 0;
    }
    tide_free(cells->cells);
    tide_free(cells->values);
    *cells = (struct tide_cells){0};
    return TIDE_ENOMEM;
}

static void cell_put(struct tide_cells *to, size_t place, const struct tide_cells *from, size_t i) {
    to->cells[2 * place] = from->cells[2 * i];
    to->cells[2 * place + 1] = from->cells[2 * i + 1];
    to->values[place] = from->values[i];
}

int tide_matrix_split(struct tide_matrix *matrix, size_t count, uint64_t seed) {
    struct tide_cells *train = &matrix->parts[0], *test = &matrix->parts[1];
    if (test->count > 0 || count > train->count) {
        return tide_fail(TIDE_EINVAL, "split: cannot hold out %zu of %zu cells%s", count, train->count,
                         test->count ? " beside those of a second text" : "");
    }
    tide_free(test->cells);
    tide_free(test->values);
    int rc = cells_create(test, count);
    struct tide_random random;
    tide_random_seed(&random, seed);
    size_t kept = 0, taken = 0, all = train->count;
    /* Selection sampling (Knuth, volume 2, 3.4.2, algorithm S): each choice of `count` is equally
     * likely. */
    for (size_t i = 0; i < all && rc == 0; i++) {
        if (tide_random_below(&random, all - i) < count - taken) {
            cell_put(test, taken++, train, i);
        } else {
            cell_put(train, kept++, train, i);
        }
    }
    if (rc == 0) {
        test->count = count;
        train->count = kept;
    }
    return rc;
}

double tide_matrix_mean(const struct tide_matrix *matrix) {
    const struct tide_cells *train = &matrix->parts[0];
    double sum = 0;
    for (size_t i = 0; i < train->count; i++) {
        sum += (double)train->values[i];
    }
    return train->count ? sum / (double)train->count : 0;
}

void tide_cells_count(const struct tide_cells *cells, bool columns, uint32_t *counts) {
    for (size_t i = 0; i < cells->count; i++) {
        counts[cells->cells[2 * i + columns]]++;
    }
}

int tide_cells_blocks(const struct tide_cells *cells, struct tide_block_grid grid, uint32_t first, uint32_t count,
                      struct tide_cells *out, uint64_t *offsets, size_t offset_count) {
    *out = (struct tide_cells){0};
    if (grid.blocks == 0 || grid.rows == 0 || grid.columns == 0 || count == 0 || first >= grid.blocks ||
        count > grid.blocks - first) {
        return tide_fail(TIDE_EINVAL, "blocks: %u from %u of %u blocks of a %u x %u matrix", count, first, grid.blocks,
                         grid.rows, grid.columns);
    }
    uint32_t height = tide_block_side(grid.rows, grid.blocks);
    uint32_t width = tide_block_side(grid.columns, grid.blocks);
    size_t most = (size_t)count * grid.blocks;
    if (offset_count != most + 1) {
        return tide_fail(TIDE_EINVAL, "blocks: %zu offsets, not %zu", offset_count, most + 1);
    }
    size_t *places = tide_alloc_zero(most + 1, sizeof *places);
    if (!places) {
        return TIDE_ENOMEM;
    }
    int rc = 0;
    for (int fill = 0; fill < 2 && rc == 0; fill++) { /* first count, then place */
        for (size_t i = 0; i < cells->count; i++) {
            uint32_t p = cells->cells[2 * i] / height, q = cells->cells[2 * i + 1] / width;
            if (p < first || p - first >= count) {
                continue;
            }
            size_t block = (size_t)(p - first) * grid.blocks + q;
            if (fill) {
                cell_put(out, places[block]++, cells, i);
            } else {
                places[block]++;
            }
        }
        size_t sum = 0;
        for (size_t b = 0; b < most && !fill; b++) {
            size_t held = places[b];
            offsets[b] = places[b] = sum;
            sum += held;
        }
        if (!fill) {
            offsets[most] = sum;
            rc = cells_create(out, sum);
            out->count = rc ? 0 : sum;
        }
    }
    tide_free(places);
    return rc;
}

/* ---- groups ---- */

/* The numbers below `count` in random order. */
static void permute(uint32_t *numbers, uint32_t count, struct tide_random *random) {
    for (uint32_t i = 0; i < count; i++) { /* inside out: every order is equally likely */
        const uint32_t j = (uint32_t)tide_random_below(random, (uint64_t)i + 1);
        numbers[i] = numbers[j];
        numbers[j] = i;
    }
}

/* Stable, by turn of the column. starts: room for column_count + 1. */
static void sort_by_column(const struct tide_cells *cells, const uint32_t *turns, uint32_t column_count, size_t *starts,
                           struct tide_cells *out) {
    memset(starts, 0, ((size_t)column_count + 1) * sizeof *starts);
    for (size_t i = 0; i < cells->count; i++) {
        starts[turns[cells->cells[2 * i + 1]] + 1]++;
    }
    for (uint32_t turn = 0; turn < column_count; turn++) {
        starts[turn + 1] += starts[turn];
    }
    for (size_t i = 0; i < cells->count; i++) {
        cell_put(out, starts[turns[cells->cells[2 * i + 1]]]++, cells, i);
    }
}

/* seen: for each column the number of the last group that it was in, from 1; 0: none. */
static void list_columns(const struct tide_cells *cells, size_t size, uint32_t *seen, uint64_t *columns,
                         uint64_t *offsets) {
    uint64_t count = 0;
    size_t group = 0;
    for (size_t i = 0; i < cells->count; i++) {
        if (i % size == 0) {
            offsets[group++] = count;
        }
        const uint32_t column = cells->cells[2 * i + 1];
        if (seen[column] != group) {
            seen[column] = (uint32_t)group;
            columns[count++] = column;
        }
    }
    offsets[group] = count;
}

int tide_cells_groups(const struct tide_cells *cells, uint32_t column_count, bool by_columns, size_t size,
                      uint64_t seed, struct tide_cells *out, uint64_t *columns, uint64_t *offsets) {
    struct tide_cells shuffled = {0};
    uint32_t *order = tide_alloc((cells->count + 1) * sizeof *order);
    uint32_t *of_column = tide_alloc(((size_t)column_count + 1) * sizeof *of_column);
    size_t *starts = tide_alloc(((size_t)column_count + 1) * sizeof *starts);
    int code = cells_create(out, cells->count);
    code = code || !by_columns ? code : cells_create(&shuffled, cells->count);
    code = order && of_column && starts ? code : TIDE_ENOMEM;
    if (code == 0) {
        struct tide_cells *first = by_columns ? &shuffled : out;
        struct tide_random random;
        tide_random_seed(&random, seed);
        out->count = shuffled.count = cells->count;
        permute(order, (uint32_t)cells->count, &random);
        for (size_t i = 0; i < cells->count; i++) {
            cell_put(first, i, cells, order[i]);
        }
        if (by_columns) {
            permute(of_column, column_count, &random);
            sort_by_column(&shuffled, of_column, column_count, starts, out);
        }
        memset(of_column, 0, (size_t)column_count * sizeof *of_column);
        list_columns(out, size, of_column, columns, offsets);
    } else {
        tide_free(out->cells);
        tide_free(out->values);
        *out = (struct tide_cells){0};
    }
    tide_free(shuffled.cells);
    tide_free(shuffled.values);
    tide_free(order);
    tide_free(of_column);
    tide_free(starts);
    return code;
}
