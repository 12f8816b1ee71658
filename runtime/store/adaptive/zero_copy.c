/* See zero_copy.h. */
#include "store/adaptive/zero_copy.h"

enum { ROW_BYTES_LEAST = 2048, FRAME_BYTES = 250 << 10 /* and keys and terms: one frame */ };

struct tide__zero_copy_source {
    struct tide__slab *slab; /* NULL: it is gone */
    size_t loans;
};

struct loan {
    struct tide_blob blob; /* its data: scatter */
    struct tide_scatter scatter;
    struct tide__zero_copy_source *zero_copy_source;
    struct tide_iovec parts[TIDE_SCATTER_MAX];
    uint32_t rows[TIDE_SCATTER_MAX];
};

struct tide__zero_copy_source *tide__zero_copy_source_create(struct tide__slab *slab) {
    struct tide__zero_copy_source *zero_copy_source = tide_alloc_zero(1, sizeof *zero_copy_source);
    if (zero_copy_source) {
        zero_copy_source->slab = slab;
    }
    return zero_copy_source;
}

void tide__zero_copy_source_close(struct tide__zero_copy_source *zero_copy_source) {
    if (zero_copy_source) {
        zero_copy_source->slab = NULL;
        if (zero_copy_source->loans == 0) {
            tide_free(zero_copy_source);
        }
    }
}

bool tide__zero_copy_source_busy(const struct tide__zero_copy_source *zero_copy_source) {
    return zero_copy_source && zero_copy_source->loans > 0 && !TIDE_MUTANT(drop_frees_lent);
}

size_t tide__zero_copy_rows(size_t row_bytes) {
    const size_t rows = FRAME_BYTES / row_bytes;
    if (row_bytes < ROW_BYTES_LEAST && !TIDE_BUGGIFY(lend_small_rows)) {
        return 0;
    }
    return rows < TIDE_SCATTER_MAX ? rows : TIDE_SCATTER_MAX;
}

static void release(struct tide_blob *blob) {
    struct loan *loan = TIDE_CONTAINER(blob, struct loan, blob);
    struct tide__zero_copy_source *zero_copy_source = loan->zero_copy_source;
    for (size_t i = 0; zero_copy_source->slab && i < loan->scatter.count && !TIDE_MUTANT(loan_given_early);
         i++) {
        tide__slab_give_lent(zero_copy_source->slab, loan->rows[i]);
    }
    if (--zero_copy_source->loans == 0 && !zero_copy_source->slab) {
        tide_free(zero_copy_source);
    }
    tide_free(loan);
}

struct tide_blob *tide__zero_copy_create(struct tide__zero_copy_source *zero_copy_source) {
    struct loan *loan = tide_alloc(sizeof *loan);
    if (!loan) {
        return NULL;
    }
    loan->blob = (struct tide_blob){.data = &loan->scatter, .release = release, .refs = 1};
    loan->scatter = (struct tide_scatter){.parts = loan->parts};
    loan->zero_copy_source = zero_copy_source;
    zero_copy_source->loans++;
    return &loan->blob;
}

void tide__zero_copy_add(struct tide_blob *blob, uint32_t row) {
    struct loan *loan = TIDE_CONTAINER(blob, struct loan, blob);
    struct tide__slab *slab = loan->zero_copy_source->slab;
    const size_t bytes = slab->row_floats * sizeof(float);
    loan->rows[loan->scatter.count] = row;
    loan->parts[loan->scatter.count++] = (struct tide_iovec){tide__slab_row(slab, row), bytes};
    loan->blob.size += bytes;
    tide__slab_lend(slab);
    if (TIDE_MUTANT(loan_given_early)) {
        tide__slab_give_lent(slab, row);
    }
}
