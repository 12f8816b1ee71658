/* See zero_copy.h. */
#include "store/adaptive/zero_copy.h"

enum { ROW_BYTES_LEAST = 2048, FRAME_BYTES = 250 << 10 /* and keys and terms: one frame */ };

struct tide__lender {
    struct tide__slab *slab; /* NULL: it is gone */
    size_t loans;
};

struct loan {
    struct tide_blob blob; /* its data: scatter */
    struct tide_scatter scatter;
    struct tide__lender *lender;
    struct tide_iovec parts[TIDE_SCATTER_MAX];
    uint32_t rows[TIDE_SCATTER_MAX];
};

struct tide__lender *tide__lender_create(struct tide__slab *slab) {
    struct tide__lender *lender = tide_alloc_zero(1, sizeof *lender);
    if (lender) {
        lender->slab = slab;
    }
    return lender;
}

void tide__lender_close(struct tide__lender *lender) {
    if (lender) {
        lender->slab = NULL;
        if (lender->loans == 0) {
            tide_free(lender);
        }
    }
}

bool tide__lender_lends(const struct tide__lender *lender) {
    return lender && lender->loans > 0 && !TIDE_MUTANT(drop_frees_lent);
}

size_t tide__loan_rows(size_t row_bytes) {
    const size_t rows = FRAME_BYTES / row_bytes;
    if (row_bytes < ROW_BYTES_LEAST && !TIDE_BUGGIFY(lend_small_rows)) {
        return 0;
    }
    return rows < TIDE_SCATTER_MAX ? rows : TIDE_SCATTER_MAX;
}

static void release(struct tide_blob *blob) {
    struct loan *loan = TIDE_CONTAINER(blob, struct loan, blob);
    struct tide__lender *lender = loan->lender;
    for (size_t i = 0; lender->slab && i < loan->scatter.count && !TIDE_MUTANT(loan_given_early);
         i++) {
        tide__slab_give_lent(lender->slab, loan->rows[i]);
    }
    if (--lender->loans == 0 && !lender->slab) {
        tide_free(lender);
    }
    tide_free(loan);
}

struct tide_blob *tide__loan_create(struct tide__lender *lender) {
    struct loan *loan = tide_alloc(sizeof *loan);
    if (!loan) {
        return NULL;
    }
    loan->blob = (struct tide_blob){.data = &loan->scatter, .release = release, .refs = 1};
    loan->scatter = (struct tide_scatter){.parts = loan->parts};
    loan->lender = lender;
    lender->loans++;
    return &loan->blob;
}

void tide__loan_add(struct tide_blob *blob, uint32_t row) {
    struct loan *loan = TIDE_CONTAINER(blob, struct loan, blob);
    struct tide__slab *slab = loan->lender->slab;
    const size_t bytes = slab->row_floats * sizeof(float);
    loan->rows[loan->scatter.count] = row;
    loan->parts[loan->scatter.count++] = (struct tide_iovec){tide__slab_row(slab, row), bytes};
    loan->blob.size += bytes;
    tide__slab_lend(slab);
    if (TIDE_MUTANT(loan_given_early)) {
        tide__slab_give_lent(slab, row);
    }
}
