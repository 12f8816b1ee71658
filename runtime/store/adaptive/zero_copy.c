/* See zero_copy.h. */
#include "store/adaptive/zero_copy.h"

enum { ROW_BYTES_LEAST = 2048, FRAME_BYTES = 250 << 10 /* and keys and terms: one frame */ };

struct tide__zero_copy_source {
    struct tide__slab *slab; /* NULL: it is gone */
    size_t sends;
};

struct zero_copy {
    struct tide_blob blob; /* its data: scatter */
    struct tide_scatter scatter;
    struct tide__zero_copy_source *source;
    struct tide_iovec parts[TIDE_SCATTER_MAX];
    uint32_t rows[TIDE_SCATTER_MAX];
};

struct tide__zero_copy_source *tide__zero_copy_source_create(struct tide__slab *slab) {
    struct tide__zero_copy_source *source = tide_alloc_zero(1, sizeof *source);
    if (source) {
        source->slab = slab;
    }
    return source;
}

void tide__zero_copy_source_close(struct tide__zero_copy_source *source) {
    if (source) {
        source->slab = NULL;
        if (source->sends == 0) {
            tide_free(source);
        }
    }
}

bool tide__zero_copy_source_busy(const struct tide__zero_copy_source *source) {
    return source && source->sends > 0 && !TIDE_MUTANT(drop_frees_lent);
}

size_t tide__zero_copy_rows(size_t row_bytes) {
    const size_t rows = FRAME_BYTES / row_bytes;
    if (row_bytes < ROW_BYTES_LEAST && !TIDE_BUGGIFY(lend_small_rows)) {
        return 0;
    }
    return rows < TIDE_SCATTER_MAX ? rows : TIDE_SCATTER_MAX;
}

static void release(struct tide_blob *blob) {
    struct zero_copy *send = TIDE_CONTAINER(blob, struct zero_copy, blob);
    struct tide__zero_copy_source *source = send->source;
    for (size_t i = 0; source->slab && i < send->scatter.count && !TIDE_MUTANT(loan_given_early); i++) {
        tide__slab_give_lent(source->slab, send->rows[i]);
    }
    if (--source->sends == 0 && !source->slab) {
        tide_free(source);
    }
    tide_free(send);
}

struct tide_blob *tide__zero_copy_create(struct tide__zero_copy_source *source) {
    struct zero_copy *send = tide_alloc(sizeof *send);
    if (!send) {
        return NULL;
    }
    send->blob = (struct tide_blob){.data = &send->scatter, .release = release, .refs = 1};
    send->scatter = (struct tide_scatter){.parts = send->parts};
    send->source = source;
    source->sends++;
    return &send->blob;
}

void tide__zero_copy_add(struct tide_blob *blob, uint32_t row) {
    struct zero_copy *send = TIDE_CONTAINER(blob, struct zero_copy, blob);
    struct tide__slab *slab = send->source->slab;
    const size_t bytes = slab->row_floats * sizeof(float);
    send->rows[send->scatter.count] = row;
    send->parts[send->scatter.count++] = (struct tide_iovec){tide__slab_row(slab, row), bytes};
    send->blob.size += bytes;
    tide__slab_lend(slab);
    if (TIDE_MUTANT(loan_given_early)) {
        tide__slab_give_lent(slab, row);
    }
}
